//! The whole state as bytes, and the state from them.
//!
//! What is written is what the state *is*, not how it lies in memory: instruments, sessions, and
//! the orders of each book in the order in which they would trade. So it does not depend on how the
//! state came about, and a restored engine goes on with the same events.
//!
//! The bytes come in sections, each of whole records, so that neither side needs the whole in
//! memory; who stores them gives each a checksum. The last section holds the state hash, and what
//! was restored must have it.
//!
//! A module with state of its own adds a [`Section`], writes it in [`Engine::snapshot`] and reads it
//! in [`Restoration::section`]; the model test goes on with restored engines, so nothing is
//! forgotten.

pub(crate) mod bytes;

use alloc::vec::Vec;
use core::fmt;

use market::{
    AddInstrument, AddSession, Capacity, Conditions, CustomerType, Display, Firm, InstrumentId,
    Lots, OrderId, OrderKey, Price, Quantity, SelfMatchPrevention, Sequence, SessionId, Side,
    SystemEvent, Timestamp, TradeId,
};

use crate::{
    BookView, Engine,
    book::pool::Slot,
    order::{Order, OrderTerms, PRICE_MAX},
    reserve::Reserve,
    view::queue,
};
use bytes::{Reader, Writer};

/// About how many bytes of records a section has.
const SECTION_LEN: usize = 64 * 1024;

/// What the records of a section are. The codes are stored: never renumbered, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Section {
    /// Sequence, time, the day, what was counted; one record.
    Exchange = 1,
    /// Instruments, by number.
    Instruments = 2,
    /// Sessions, by number, each with its channels and the firms that may not enter.
    Sessions = 3,
    /// Assets, accounts, terms, fees, limits and balances.
    Money = 10,
    /// Resting orders, by book, side and priority.
    Orders = 4,
    /// The state hash and nothing after it; one record.
    End = 255,
}

impl Section {
    /// Every section, in the order in which they are written.
    pub const ALL: &[Self] =
        &[Self::Exchange, Self::Instruments, Self::Sessions, Self::Money, Self::Orders, Self::End];

    /// Its place among all.
    fn place(self) -> usize {
        Self::ALL.iter().position(|section| *section == self).expect("each is one of all")
    }

    /// The stored code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// From the stored code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|section| section.code() == code)
    }
}

/// Why bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// A record is cut short.
    Short {
        /// Where.
        section: Section,
    },
    /// A field has a value that no state has.
    Field {
        /// Where.
        section: Section,
        /// Which.
        field: &'static str,
    },
    /// A section comes where it cannot.
    Order {
        /// Which.
        section: Section,
    },
    /// The last section did not come.
    Unfinished,
    /// What was restored has another state hash than the bytes say.
    Hash {
        /// What they say.
        expected: u64,
        /// What was restored.
        found: u64,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { section } => write!(f, "section {section:?} ends within a record"),
            Self::Field { section, field } => {
                write!(f, "section {section:?}: field {field} has a value that no state has")
            }
            Self::Order { section } => write!(f, "section {section:?} comes where it cannot"),
            Self::Unfinished => write!(f, "the last section is missing"),
            Self::Hash { expected, found } => {
                write!(f, "the state hash is {found:016x}, the snapshot says {expected:016x}")
            }
        }
    }
}

impl core::error::Error for SnapshotError {}

impl Engine {
    /// Emits the whole state, section by section. Costs time in proportion to it.
    pub fn snapshot(&self, emit: &mut impl FnMut(Section, &[u8])) {
        let mut out = Sections { emit, writer: Writer::default() };
        out.section(Section::Exchange, [self].into_iter(), |out, engine| {
            out.u64(engine.sequence.0);
            out.u64(engine.timestamp.0);
            out.u8(engine.day.last().map_or(0, SystemEvent::code));
            out.u64(engine.order_id_last.0);
            out.u64(engine.trade_id_last.0);
            out.u64(engine.orders_accepted);
        });
        out.section(Section::Instruments, self.books.iter(), |out, book| {
            let instrument = book.instrument();
            out.text(&instrument.symbol);
            out.u64(instrument.price_increment.0);
            out.u64(instrument.round_lot.0);
        });
        out.section(Section::Sessions, self.sessions.iter(), |out, session| {
            out.text(session.username());
            out.text(&session.firm());
            out.u32(session.live_orders_max());
            out.u8(session.self_match_prevention().code());
            let channels = session.user_ref_nums_last();
            out.u16(session.user_ref_nums_last().count() as u16);
            for (channel, last) in channels {
                out.u8(channel);
                out.u32(last);
            }
            out.u16(session.firms_disabled().len() as u16);
            for firm in session.firms_disabled() {
                out.text(firm);
            }
        });
        out.section(Section::Money, self.money.records().into_iter(), |out, record| {
            self.money.write(out, record);
        });
        let orders = self.books.iter().flat_map(|book| {
            let view = BookView { engine: self, book };
            let sides = [Side::Buy, Side::Sell].into_iter();
            sides
                .flat_map(move |side| view.levels(side).flat_map(|(_, oldest)| queue(self, oldest)))
        });
        out.section(Section::Orders, orders, |out, slot| {
            let order = &self.pool[slot].order;
            write_order(out, order);
            if order.is_reserve {
                let Reserve { shown, shown_quantity, shown_range } = self.reserves.get(slot);
                out.u32(shown.0);
                out.u32(shown_quantity.0);
                out.u32(shown_range.0);
            }
        });
        out.section(Section::End, [self.state_hash()].into_iter(), |out, hash| out.u64(hash));
    }
}

fn write_order(out: &mut Writer, order: &Order) {
    out.u64(order.order_id.0);
    out.u16(order.key.session_id.0);
    out.u8(order.key.channel);
    out.u32(order.key.user_ref_num);
    out.u16(order.instrument_id.0);
    out.u32(order.price().0 as u32);
    out.u32(order.quantity().0 as u32);
    out.u32(order.executed().0 as u32);
    out.u32(order.canceled().0 as u32);
    out.u32(order.prevented().0 as u32);
    out.u16(order.group_id);
    out.text(&order.firm);
    out.u8(order.side.code());
    out.u8(order.display.code());
    out.u8(order.capacity.code());
    out.u8(order.customer_type.code());
    out.u8(order.self_match_prevention.code());
    out.text(&order.self_match_group);
    out.u8(u8::from(order.post_only));
    out.u8(u8::from(order.is_reserve));
}

/// Gathers records into sections.
struct Sections<'a, E> {
    emit: &'a mut E,
    writer: Writer,
}

impl<E: FnMut(Section, &[u8])> Sections<'_, E> {
    /// Emits the records of one kind, in as many sections as they take; none for no record.
    fn section<T>(
        &mut self,
        section: Section,
        records: impl Iterator<Item = T>,
        write: impl Fn(&mut Writer, T),
    ) {
        for record in records {
            write(&mut self.writer, record);
            if self.writer.len() >= SECTION_LEN {
                self.emit(section);
            }
        }
        if self.writer.len() > 0 {
            self.emit(section);
        }
    }

    fn emit(&mut self, section: Section) {
        (self.emit)(section, self.writer.as_bytes());
        self.writer.clear();
    }
}

/// An engine that is being restored, section by section.
#[derive(Debug)]
pub struct Restoration {
    engine: Engine,
    /// Sections come in the order of [`Section::ALL`].
    last: Option<Section>,
    /// The orders so far by their owners' names for them.
    live: Vec<(OrderKey, Slot)>,
    /// The last of them, behind which the next one of its level rests.
    elder: Option<Slot>,
    expected: u64,
}

impl Default for Restoration {
    fn default() -> Self {
        Self::new()
    }
}

impl Restoration {
    /// Before the first section.
    #[must_use]
    pub fn new() -> Self {
        Self { engine: Engine::new(), last: None, live: Vec::new(), elder: None, expected: 0 }
    }

    /// Takes a section up.
    ///
    /// # Errors
    /// The bytes are none that [`Engine::snapshot`] writes. What was restored is of no use then.
    pub fn section(&mut self, section: Section, bytes: &[u8]) -> Result<(), SnapshotError> {
        let once = [Section::Exchange, Section::End].contains(&section);
        let fits = match self.last {
            None => section == Section::Exchange,
            Some(last) => last.place() < section.place() || (last == section && !once),
        };
        if !fits {
            return Err(SnapshotError::Order { section });
        }
        self.last = Some(section);
        let mut reader = Reader::new(section, bytes);
        while !reader.is_empty() {
            match section {
                Section::Exchange => self.exchange(&mut reader)?,
                Section::Instruments => self.instrument(&mut reader)?,
                Section::Sessions => self.session(&mut reader)?,
                Section::Money => self.engine.restore_money(&mut reader)?,
                Section::Orders => self.order(&mut reader)?,
                Section::End => self.expected = reader.u64()?,
            }
        }
        Ok(())
    }

    /// The engine, after the last section.
    ///
    /// # Errors
    /// The last section is missing, two orders have one name, or the state hash is another.
    pub fn finish(self) -> Result<Engine, SnapshotError> {
        let Self { mut engine, last, mut live, expected, .. } = self;
        if last != Some(Section::End) {
            return Err(SnapshotError::Unfinished);
        }
        // The numbers of a session are only ever added in their order.
        live.sort_unstable_by_key(|(key, _)| *key);
        if live.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(SnapshotError::Field { section: Section::Orders, field: "key" });
        }
        for (key, slot) in live {
            engine.sessions.owner_mut(key).add_live(key, slot);
        }
        engine.money.restore_issued()?;
        let found = engine.state_hash();
        if found != expected {
            return Err(SnapshotError::Hash { expected, found });
        }
        Ok(engine)
    }

    fn exchange(&mut self, from: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let engine = &mut self.engine;
        engine.sequence = Sequence(from.u64()?);
        engine.timestamp = Timestamp(from.u64()?);
        match from.u8()? {
            0 => {}
            code => {
                let event = SystemEvent::from_code(code).ok_or(from.field("day"))?;
                engine.day.advance(event);
            }
        }
        engine.order_id_last = OrderId(from.u64()?);
        engine.trade_id_last = TradeId(from.u64()?);
        engine.orders_accepted = from.u64()?;
        if engine.order_id_last.0 < engine.orders_accepted {
            return Err(from.field("orders accepted"));
        }
        Ok(())
    }

    fn instrument(&mut self, from: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let add = AddInstrument {
            symbol: from.text("symbol")?,
            price_increment: Price(from.u64()?),
            round_lot: Quantity(from.u64()?),
        };
        let count = self.engine.books.len();
        self.engine.add_instrument(&add, &mut |_| ());
        if self.engine.books.len() == count {
            return Err(from.field("instrument"));
        }
        Ok(())
    }

    fn session(&mut self, from: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let add = AddSession {
            username: from.text("username")?,
            firm: from.text("firm")?,
            live_orders_max: from.u32()?,
            self_match_prevention: from.code("prevention", SelfMatchPrevention::from_code)?,
        };
        let mut added = None;
        self.engine.add_session(&add, &mut |event| added = event.session_id());
        let session_id = added.ok_or(from.field("session"))?;
        for _ in 0..from.u16()? {
            let key = OrderKey { session_id, channel: from.u8()?, user_ref_num: from.u32()? };
            if !self.engine.consume(key) {
                return Err(from.field("last number"));
            }
        }
        for _ in 0..from.u16()? {
            let firm: Firm = from.text("firm that may not enter")?;
            let Engine { sessions, hash, .. } = &mut self.engine;
            let session = sessions.get_mut(session_id).expect("it was added above");
            if !session.switch_entry(firm, false, hash) {
                return Err(from.field("firm that may not enter"));
            }
        }
        Ok(())
    }

    fn order(&mut self, from: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let order_id = OrderId(from.u64()?);
        let key = OrderKey {
            session_id: SessionId(from.u16()?),
            channel: from.u8()?,
            user_ref_num: from.u32()?,
        };
        let instrument_id = InstrumentId(from.u16()?);
        let price = Price(from.u32()?.into());
        let [quantity, executed, canceled, prevented] =
            [from.u32()?, from.u32()?, from.u32()?, from.u32()?].map(|lots| Lots(lots).quantity());
        let group_id = from.u16()?;
        let firm = from.text("firm")?;
        let side = from.code("side", Side::from_code)?;
        let display = from.code("display", Display::from_code)?;
        let capacity = from.code("capacity", Capacity::from_code)?;
        let customer_type = from.code("customer type", CustomerType::from_code)?;
        let conditions = Conditions {
            self_match_prevention: from.code("prevention", SelfMatchPrevention::from_code)?,
            self_match_group: from.text("self-match group")?,
            post_only: from.flag("post only")?,
            minimum_quantity: Lots::ZERO,
        };
        let reserve = match from.flag("reserve")? {
            false => None,
            true => Some(Reserve {
                shown: Lots(from.u32()?),
                shown_quantity: Lots(from.u32()?),
                shown_range: Lots(from.u32()?),
            }),
        };

        let engine = &mut self.engine;
        let used = engine.sessions.get(key.session_id).is_some_and(|it| !it.is_unused(key));
        if !used || key.user_ref_num == 0 {
            return Err(from.field("key"));
        }
        let book = usize::from(instrument_id.0).checked_sub(1).and_then(|it| engine.books.get(it));
        let book = book.ok_or(from.field("instrument"))?;
        if !book.is_price(price) || PRICE_MAX < price {
            return Err(from.field("price"));
        }
        let gone = executed.0 + canceled.0 + prevented.0;
        if book.quantity_max() < quantity || quantity.0 <= gone {
            return Err(from.field("quantity"));
        }
        if order_id == OrderId(0) || engine.order_id_last < order_id {
            return Err(from.field("order id"));
        }
        if book.would_cross(side, Some(price)) {
            return Err(from.field("price"));
        }
        let mut order = Order::new(OrderTerms {
            order_id,
            key,
            price,
            quantity,
            executed,
            prevented,
            instrument_id,
            group_id,
            firm,
            side,
            display,
            capacity,
            customer_type,
            conditions,
        });
        order.reduce(canceled);
        order.is_reserve = reserve.is_some();
        let parts = reserve.is_none_or(|it| {
            let shown = it.shown.quantity();
            display.is_displayed()
                && !shown.is_zero()
                && shown <= order.leaves()
                && it.shown_quantity != Lots::ZERO
        });
        if !parts {
            return Err(from.field("reserve"));
        }
        let level = |it: &Order| (it.instrument_id, it.side.is_buy(), it.price(), it.display);
        let elder = self.elder.map(|slot| &engine.pool[slot].order);
        if elder.is_some_and(|it| level(it) == level(&order) && order.order_id <= it.order_id) {
            return Err(from.field("order id"));
        }
        engine.money.restore_order(&order)?;
        let slot = engine.rest(&order);
        if let Some(reserve) = reserve {
            engine.reserves.insert(slot, &order, reserve, &mut engine.hash);
        }
        self.elder = Some(slot);
        self.live.push((key, slot));
        Ok(())
    }
}
