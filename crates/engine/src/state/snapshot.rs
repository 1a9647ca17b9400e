//! Snapshots: the whole state as bytes, and an engine from such bytes.
//!
//! A snapshot contains the logical state, not its memory layout: instruments, sessions, and the
//! orders of each book in priority order. So it does not depend on the history, and a restored
//! engine emits the same events from there on.
//!
//! The bytes come in sections of whole records, so that writer and reader need not have all of it
//! in memory; the store adds a checksum to each section. Invariant: the last section has the state
//! hash, and the restored state must have the same.
//!
//! A module with state of its own adds a [`Section`], writes it in [`Engine::snapshot`] and reads
//! it in [`Restoration::section`]. The model test continues with restored engines, so that it finds
//! omissions.

use alloc::vec::Vec;
use core::fmt;

use market::{
    AccountSetting, AddInstrument, AddSession, Allocation, Capacity, Conditions, CustomerType,
    DeclineReason, DecodeError, Display, Firm, Indication, Instructions, InstrumentId, Lots,
    OperatorDecline, OperatorEffect, OperatorOutcome, OrderId, OrderKey, OrderType, Party,
    PastTrade, Phase, Price, Pricing, Quantity, SelfMatchPrevention, Sequence, Side, SystemEvent,
    TimeInForce, Timestamp, TradeId, VenueDeclineReason,
    bytes::{ByteReader, ByteWriter},
};

use crate::{
    BookView, Engine, HeldSetting, OPERATORS_MAX,
    auction::trading_status::TradingStatus,
    book::pool::Slot,
    contingent::instructions::{Contingent, ContingentId, State},
    operator::{
        requests::LastCommand,
        venue_commands::{BLOCKS_MAX, auctions_held_hash, block_hash},
    },
    order::{ForAuction, Order, OrderTerms, PRICE_MAX},
    state::view::queue,
    trading::iceberg::Iceberg,
};

/// The approximate size of a section, in bytes.
const SECTION_LEN: usize = 64 * 1024;

/// The kind of a section's records. The codes are stored: never renumbered, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Section {
    /// Sequence, time, part of the day, counters; one record.
    Exchange = 1,
    /// Instruments, by number, each with its trading status.
    Instruments = 2,
    /// Sessions, by number, each with its channels and firms with disabled order entry.
    Sessions = 3,
    /// Assets, accounts, terms, fees, limits and balances.
    Money = 10,
    /// Resting orders, by book: the book by side and priority, then the auction-only orders.
    Orders = 4,
    /// The trades that can be undone, by number.
    Trades = 20,
    /// Blocked scopes.
    Blocks = 21,
    /// The last command of each operator, by name.
    Operators = 22,
    /// Settings changed by operators, sorted.
    HeldSettings = 23,
    /// The last price of each instrument that has one, by number.
    LastTrades = 40,
    /// Orders outside the book, in the order of acceptance.
    Waiting = 41,
    /// The state hash; one record, and the last.
    End = 255,
}

impl Section {
    /// Every section, in writing order.
    pub const ALL: &[Self] = &[
        Self::Exchange,
        Self::Instruments,
        Self::Sessions,
        Self::Money,
        Self::Orders,
        Self::LastTrades,
        Self::Waiting,
        Self::Trades,
        Self::Blocks,
        Self::Operators,
        Self::HeldSettings,
        Self::End,
    ];

    /// Its position among all sections.
    fn place(self) -> usize {
        Self::ALL.iter().position(|section| *section == self).expect("each is one of all")
    }

    /// The stored code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The error for an invalid field of this section.
    pub(crate) fn field(self, field: &'static str) -> StateError {
        StateError::Record { section: self, error: DecodeError::Field(field) }
    }

    /// From the stored code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|section| section.code() == code)
    }
}

/// Why bytes are not a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// A record is too short, or has an invalid field.
    Record {
        /// The section of the record.
        section: Section,
        /// The fault.
        error: DecodeError,
    },
    /// A section is out of order or repeated.
    Order {
        /// The section.
        section: Section,
    },
    /// The last section is missing.
    Unfinished,
    /// The restored state and the snapshot have different hashes.
    Hash {
        /// The hash in the snapshot.
        expected: u64,
        /// The hash of the restored state.
        found: u64,
    },
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { section, error } => write!(f, "section {section:?}: {error}"),
            Self::Order { section } => write!(f, "section {section:?} is in the wrong place"),
            Self::Unfinished => write!(f, "the last section is missing"),
            Self::Hash { expected, found } => {
                write!(f, "the state hash is {found:016x}, the snapshot says {expected:016x}")
            }
        }
    }
}

impl core::error::Error for StateError {}

impl Engine {
    /// Emits the whole state, section by section. Costs O(state).
    pub fn snapshot(&self, emit: &mut impl FnMut(Section, &[u8])) {
        let mut out = Sections { emit, writer: Records::default() };
        out.section(Section::Exchange, [self].into_iter(), |out, engine| {
            out.u64(engine.sequence.0);
            out.u64(engine.timestamp.0);
            out.u8(engine.day.last().map_or(0, SystemEvent::code));
            out.u64(engine.order_id_last.0);
            out.u64(engine.trade_id_last.0);
            out.u64(engine.orders_accepted);
            out.u64(engine.auctions_held);
        });
        out.section(Section::Instruments, self.books.iter(), |out, book| {
            let instrument = book.instrument();
            out.text(&instrument.symbol);
            out.u64(instrument.price_increment.0);
            out.u64(instrument.round_lot.0);
            write_trading(out, &book.trading);
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
            let sides = || [Side::Buy, Side::Sell].into_iter();
            let in_book = sides().flat_map(move |side| {
                view.levels(side).flat_map(|(_, oldest)| queue(self, oldest))
            });
            in_book.chain(sides().flat_map(move |side| {
                book.auction_levels(side).flat_map(|oldest| queue(self, oldest))
            }))
        });
        out.section(Section::Orders, orders, |out, slot| self.write_order(out, slot));
        let traded = self.triggers.iter().filter(|triggers| triggers.last() != 0);
        out.section(Section::LastTrades, traded, |out, triggers| {
            out.u16(triggers.instrument_id().0);
            out.u32(triggers.last());
        });
        let is_waiting = |id: &ContingentId| !self.contingents[*id].is_resting();
        let mut waiting: Vec<_> = self.contingents.iter().filter(is_waiting).collect();
        waiting.sort_unstable_by_key(|id| self.contingents[*id].order_id);
        out.section(Section::Waiting, waiting.into_iter(), |out, id| {
            self.write_order(out, self.contingents[id].slot);
        });
        out.section(Section::Trades, self.trades.iter(), |out, (trade, is_broken)| {
            write_trade(out, &trade, is_broken);
        });
        out.section(Section::Blocks, self.blocks.iter(), |out, scope| out.scope(scope));
        out.section(Section::Operators, self.operators.last.iter(), write_last_command);
        out.section(Section::HeldSettings, self.operators.held.iter(), write_held);
        out.section(Section::End, [self.state_hash()].into_iter(), |out, hash| out.u64(hash));
    }
}

impl Engine {
    /// An order, then its instructions, if any.
    fn write_order(&self, out: &mut Records, slot: Slot) {
        let order = &self.pool[slot].order;
        write_order(out, order);
        out.flag(order.is_iceberg);
        if order.is_iceberg {
            let Iceberg { shown, shown_quantity, shown_range } = self.icebergs.get(slot);
            out.u32(shown.0);
            out.u32(shown_quantity.0);
            out.u32(shown_range.0);
        }
        let told =
            self.contingents.find(slot).filter(|id| self.contingents[*id].has_instructions());
        out.flag(told.is_some());
        let Some(id) = told else { return };
        let contingent = &self.contingents[id];
        out.u8(contingent.order_type.code());
        out.u32(contingent.minimum_quantity.0);
        out.instructions(&contingent.instructions);
        let mark = match contingent.state {
            State::ForTrigger => {
                let triggers = &self.triggers[usize::from(order.instrument_id.0) - 1];
                triggers.trigger_of(&self.contingents, order.side, id).1
            }
            // The limit of a pegged order; else 0.
            _ => contingent.limit.0 as u32,
        };
        out.u32(mark);
    }
}

fn write_order(out: &mut Records, order: &Order) {
    out.u64(order.order_id.0);
    out.key(&order.key);
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
    out.flag(order.post_only());
    out.u8(order.for_auction() as u8);
    out.u8(order.time_in_force.code());
}

fn write_last_command(out: &mut Records, last: &LastCommand) {
    out.text(&last.operator);
    out.u64(last.number);
    out.u64(last.fingerprint);
    out.u64(last.sequence.0);
    let (kind, code) = match last.outcome {
        OperatorOutcome::Done(effect) => {
            out.u8(0);
            out.u32(effect.orders_canceled);
            out.u32(effect.phases_changed);
            out.u32(effect.trades);
            out.u32(effect.movements);
            return out.u64(effect.trade_id.0);
        }
        OperatorOutcome::Declined(OperatorDecline::Venue(why)) => (1, why.code()),
        OperatorOutcome::Declined(OperatorDecline::Money(why)) => (2, why.code()),
        OperatorOutcome::Declined(
            OperatorDecline::NumberUsed(_) | OperatorDecline::TooManyOperators,
        ) => unreachable!("such a command is not kept"),
    };
    out.u8(kind);
    out.u8(code);
}

fn read_outcome(from: &mut ByteReader<'_>) -> Result<OperatorOutcome, DecodeError> {
    Ok(match from.u8()? {
        0 => OperatorOutcome::Done(OperatorEffect {
            orders_canceled: from.u32()?,
            phases_changed: from.u32()?,
            trades: from.u32()?,
            movements: from.u32()?,
            trade_id: TradeId(from.u64()?),
        }),
        1 => OperatorOutcome::Declined(OperatorDecline::Venue(
            from.code("decline", VenueDeclineReason::from_code)?,
        )),
        2 => OperatorOutcome::Declined(OperatorDecline::Money(
            from.code("decline", DeclineReason::from_code)?,
        )),
        _ => return Err(DecodeError::Field("outcome")),
    })
}

fn write_held(out: &mut Records, setting: &HeldSetting) {
    match *setting {
        HeldSetting::Account(account_id, setting, asset_id) => {
            out.u8(0);
            out.u32(account_id.0);
            out.u8(setting.code());
            out.u16(asset_id.0);
        }
        HeldSetting::LiveOrdersMax(session_id) => {
            out.u8(1);
            out.u16(session_id.0);
        }
    }
}

fn write_trading(out: &mut Records, trading: &TradingStatus) {
    out.u8(trading.phase.code());
    out.flag(trading.is_removed);
    out.u32(trading.static_band);
    out.u32(trading.dynamic_band);
    out.u32(trading.pause_s);
    out.u32(trading.price_collar);
    out.u32(trading.quantity_max);
    out.u64(trading.notional_max);
    out.u8(trading.allocation.code());
    out.u32(trading.time_share);
    out.u64(trading.reference_price.0);
    out.u64(trading.price_last.0);
    out.u64(trading.ends_ns);
    out.u8(u8::from(trading.is_scheduled));
    out.u64(trading.indicates_ns);
    out.u32(trading.extension);
    out.u64(trading.indicated.price.0);
    out.u64(trading.indicated.paired.0);
    out.u64(trading.indicated.imbalance.0);
    out.flag(trading.indicated.imbalance_is_buy);
}

fn read_trading(from: &mut ByteReader<'_>) -> Result<TradingStatus, DecodeError> {
    let mut trading = TradingStatus {
        is_unrestricted: false,
        phase: from.code("phase", Phase::from_code)?,
        is_removed: from.flag("is removed")?,
        static_band: from.u32()?,
        dynamic_band: from.u32()?,
        pause_s: from.u32()?,
        price_collar: from.u32()?,
        quantity_max: from.u32()?,
        notional_max: from.u64()?,
        allocation: from.code("allocation", Allocation::from_code)?,
        time_share: from.u32()?,
        reference_price: Price(from.u64()?),
        price_last: Price(from.u64()?),
        ends_ns: from.u64()?,
        is_scheduled: from.flag("is scheduled")?,
        indicates_ns: from.u64()?,
        extension: from.u32()?,
        indicated: Indication {
            price: Price(from.u64()?),
            paired: Quantity(from.u64()?),
            imbalance: Quantity(from.u64()?),
            imbalance_is_buy: from.flag("imbalance is buy")?,
        },
    };
    trading.settle();
    if trading.time_share > 1_000_000 {
        return Err(DecodeError::Field("time share"));
    }
    if PRICE_MAX < trading.reference_price || PRICE_MAX < trading.price_last {
        return Err(DecodeError::Field("reference price"));
    }
    if trading.is_removed && trading.phase != Phase::Closed {
        return Err(DecodeError::Field("phase"));
    }
    Ok(trading)
}

fn write_trade(out: &mut Records, trade: &PastTrade, is_broken: bool) {
    out.u64(trade.trade_id.0);
    out.u16(trade.instrument_id.0);
    out.flag(trade.taker_is_buy);
    out.flag(is_broken);
    out.u32(trade.price.0 as u32);
    out.u32(trade.quantity.0 as u32);
    for party in [&trade.maker, &trade.taker] {
        out.u64(party.order_id.0);
        out.key(&party.key);
    }
}

/// The bytes of a section's records.
#[derive(Debug, Default)]
pub(crate) struct Records(Vec<u8>);

impl ByteWriter for Records {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.0.extend(bytes);
    }
}

/// Gathers records into sections.
struct Sections<'a, E> {
    emit: &'a mut E,
    writer: Records,
}

impl<E: FnMut(Section, &[u8])> Sections<'_, E> {
    /// Emits the records of one kind, in as many sections as needed; none if there is no record.
    fn section<T>(
        &mut self,
        section: Section,
        records: impl Iterator<Item = T>,
        write: impl Fn(&mut Records, T),
    ) {
        for record in records {
            write(&mut self.writer, record);
            if self.writer.0.len() >= SECTION_LEN {
                self.emit(section);
            }
        }
        if !self.writer.0.is_empty() {
            self.emit(section);
        }
    }

    fn emit(&mut self, section: Section) {
        (self.emit)(section, &self.writer.0);
        self.writer.0.clear();
    }
}

/// An engine that is being restored, section by section.
#[derive(Debug)]
pub struct Restoration {
    engine: Engine,
    /// Sections come in the order of [`Section::ALL`].
    last: Option<Section>,
    /// The restored orders by key.
    live: Vec<(OrderKey, Slot)>,
    /// The last restored order; the next one of its level follows it.
    elder: Option<Slot>,
    expected: u64,
}

impl Default for Restoration {
    fn default() -> Self {
        Self::new()
    }
}

impl Restoration {
    /// A restoration before the first section.
    #[must_use]
    pub fn new() -> Self {
        Self { engine: Engine::new(), last: None, live: Vec::new(), elder: None, expected: 0 }
    }

    /// Restores a section.
    ///
    /// # Errors
    /// The bytes are not from [`Engine::snapshot`]; discard the restoration.
    pub fn section(&mut self, section: Section, bytes: &[u8]) -> Result<(), StateError> {
        let once = [Section::Exchange, Section::End].contains(&section);
        let fits = match self.last {
            None => section == Section::Exchange,
            Some(last) => last.place() < section.place() || (last == section && !once),
        };
        if !fits {
            return Err(StateError::Order { section });
        }
        self.last = Some(section);
        self.records(section, bytes).map_err(|error| StateError::Record { section, error })
    }

    fn records(&mut self, section: Section, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = ByteReader::new(bytes);
        while !reader.is_empty() {
            match section {
                Section::Exchange => self.exchange(&mut reader)?,
                Section::Instruments => self.instrument(&mut reader)?,
                Section::Sessions => self.session(&mut reader)?,
                Section::Money => self.engine.restore_money(&mut reader)?,
                Section::Orders => self.order(&mut reader, true)?,
                Section::Trades => self.trade(&mut reader)?,
                Section::Blocks => self.block(&mut reader)?,
                Section::Operators => self.last_command(&mut reader)?,
                Section::HeldSettings => self.held_setting(&mut reader)?,
                Section::LastTrades => self.last_trade(&mut reader)?,
                Section::Waiting => self.order(&mut reader, false)?,
                Section::End => self.expected = reader.u64()?,
            }
        }
        Ok(())
    }

    /// Returns the engine after the last section.
    ///
    /// # Errors
    /// The last section is missing, two orders have one key, a session exceeds its maximum of
    /// orders, or the state hash differs.
    pub fn finish(self) -> Result<Engine, StateError> {
        let Self { mut engine, last, mut live, expected, .. } = self;
        if last != Some(Section::End) {
            return Err(StateError::Unfinished);
        }
        // Numbers of a session are added in ascending order.
        live.sort_unstable_by_key(|(key, _)| *key);
        if live.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Section::Orders.field("key"));
        }
        for (key, slot) in live {
            // More than its maximum, if that was lowered.
            engine.sessions.owner_mut(key).add_live(key, slot);
        }
        engine.money.restore_issued()?;
        engine.refresh_auctions();
        let tied = |field| Section::Waiting.field(field);
        let told: Vec<_> = engine.contingents.iter().collect();
        for id in told {
            engine.restore_links(id).map_err(tied)?;
        }
        engine.restore_references();
        let found = engine.state_hash();
        if found != expected {
            return Err(StateError::Hash { expected, found });
        }
        Ok(engine)
    }

    fn exchange(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let engine = &mut self.engine;
        engine.sequence = Sequence(from.u64()?);
        engine.timestamp = Timestamp(from.u64()?);
        match from.u8()? {
            0 => {}
            code => {
                let event = SystemEvent::from_code(code).ok_or(DecodeError::Field("day"))?;
                engine.day.advance(event);
            }
        }
        engine.order_id_last = OrderId(from.u64()?);
        engine.trade_id_last = TradeId(from.u64()?);
        engine.orders_accepted = from.u64()?;
        engine.auctions_held = from.u64()?;
        engine.hash.add(auctions_held_hash(engine.auctions_held));
        if engine.trade_id_last.0 < engine.auctions_held {
            return Err(DecodeError::Field("auctions"));
        }
        if engine.order_id_last.0 < engine.orders_accepted {
            return Err(DecodeError::Field("orders accepted"));
        }
        Ok(())
    }

    fn instrument(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let add = AddInstrument {
            symbol: from.text("symbol")?,
            price_increment: Price(from.u64()?),
            round_lot: Quantity(from.u64()?),
        };
        let count = self.engine.books.len();
        self.engine.add_instrument(&add, &mut |_| ());
        if self.engine.books.len() == count {
            return Err(DecodeError::Field("instrument"));
        }
        let trading = read_trading(from)?;
        if trading.is_removed {
            self.engine.symbols.remove(&add.symbol);
        }
        let instrument_id = InstrumentId(self.engine.books.len() as u16);
        self.engine.change_trading(instrument_id, |it| *it = trading);
        self.engine.books[usize::from(instrument_id.0) - 1].sharing = trading.sharing();
        if trading.phase.is_auction() {
            self.engine.auctions.push(instrument_id);
        }
        Ok(())
    }

    fn trade(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let trade_id = TradeId(from.u64()?);
        let instrument_id = InstrumentId(from.u16()?);
        let taker_is_buy = from.flag("taker buys")?;
        let is_broken = from.flag("is undone")?;
        let price = Price(from.u32()?.into());
        let quantity = Lots(from.u32()?).quantity();
        let [maker, taker] = [party(from)?, party(from)?];
        let engine = &mut self.engine;
        let is_later = engine.trades.last_id() < trade_id;
        if !is_later || engine.trade_id_last < trade_id {
            return Err(DecodeError::Field("trade id"));
        }
        if instrument_id.0 == 0 || engine.books.len() < usize::from(instrument_id.0) {
            return Err(DecodeError::Field("instrument"));
        }
        let trade =
            PastTrade { trade_id, instrument_id, taker_is_buy, price, quantity, maker, taker };
        engine.trades.add_past(&trade, is_broken, &mut engine.hash);
        Ok(())
    }

    fn block(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let scope = from.scope()?;
        let engine = &mut self.engine;
        if engine.blocks.last().is_some_and(|last| scope <= *last)
            || engine.blocks.len() == BLOCKS_MAX
        {
            return Err(DecodeError::Field("block"));
        }
        engine.blocks.push(scope);
        engine.hash.add(block_hash(&scope));
        Ok(())
    }

    fn last_command(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let last = LastCommand {
            operator: from.text("operator")?,
            number: from.u64()?,
            fingerprint: from.u64()?,
            sequence: Sequence(from.u64()?),
            outcome: read_outcome(from)?,
        };
        let engine = &mut self.engine;
        let operators = &mut engine.operators.last;
        if operators.last().is_some_and(|before| last.operator <= before.operator)
            || operators.len() == OPERATORS_MAX
            || engine.sequence < last.sequence
        {
            return Err(DecodeError::Field("operator"));
        }
        operators.push(last);
        engine.hash.add(last.hash());
        Ok(())
    }

    fn held_setting(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let setting = match from.u8()? {
            0 => HeldSetting::Account(
                from.account_id()?,
                from.code("setting", AccountSetting::from_code)?,
                from.asset_id()?,
            ),
            1 => HeldSetting::LiveOrdersMax(from.session_id()?),
            _ => return Err(DecodeError::Field("kind of setting")),
        };
        let engine = &mut self.engine;
        if engine.operators.held.last().is_some_and(|before| setting <= *before) {
            return Err(DecodeError::Field("setting"));
        }
        engine.operators.held.push(setting);
        engine.hash.add(setting.hash());
        Ok(())
    }

    fn session(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let add = AddSession {
            username: from.text("username")?,
            firm: from.text("firm")?,
            live_orders_max: from.u32()?,
            self_match_prevention: from.code("prevention", SelfMatchPrevention::from_code)?,
        };
        let mut added = None;
        self.engine.add_session(&add, &mut |event| added = event.session_id());
        let session_id = added.ok_or(DecodeError::Field("session"))?;
        for _ in 0..from.u16()? {
            let key = OrderKey { session_id, channel: from.u8()?, user_ref_num: from.u32()? };
            if !self.engine.consume(key) {
                return Err(DecodeError::Field("last number"));
            }
        }
        for _ in 0..from.u16()? {
            let firm: Firm = from.text("firm that may not enter")?;
            let Engine { sessions, hash, .. } = &mut self.engine;
            let session = sessions.get_mut(session_id).expect("it was added above");
            if !session.switch_entry(firm, false, hash) {
                return Err(DecodeError::Field("firm that may not enter"));
            }
        }
        Ok(())
    }

    fn last_trade(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let instrument_id = InstrumentId(from.u16()?);
        let last = from.u32()?;
        let Engine { triggers, hash, .. } = &mut self.engine;
        let triggers =
            usize::from(instrument_id.0).checked_sub(1).and_then(|it| triggers.get_mut(it));
        let triggers = triggers.ok_or(DecodeError::Field("instrument"))?;
        if last == 0 || triggers.last() != 0 {
            return Err(DecodeError::Field("last trade"));
        }
        triggers.restore_last(hash, last);
        Ok(())
    }

    /// Restores an order, in the book or outside.
    fn order(&mut self, from: &mut ByteReader<'_>, is_resting: bool) -> Result<(), DecodeError> {
        let order_id = OrderId(from.u64()?);
        let key = from.key()?;
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
        let waits = from.code("auction", ForAuction::from_code)?;
        let time_in_force = from.code("time in force", TimeInForce::from_code)?;
        let reserve = match from.flag("reserve")? {
            false => None,
            true => Some(Iceberg {
                shown: Lots(from.u32()?),
                shown_quantity: Lots(from.u32()?),
                shown_range: Lots(from.u32()?),
            }),
        };
        let told = match from.flag("told")? {
            true => Some((
                from.code("order type", OrderType::from_code)?,
                Lots(from.u32()?),
                from.instructions()?,
                from.u32()?,
            )),
            false => None,
        };

        let engine = &mut self.engine;
        let used = engine.sessions.get(key.session_id).is_some_and(|it| !it.is_unused(key));
        if !used || key.user_ref_num == 0 {
            return Err(DecodeError::Field("key"));
        }
        let book = usize::from(instrument_id.0).checked_sub(1).and_then(|it| engine.books.get(it));
        let book = book.ok_or(DecodeError::Field("instrument"))?;
        let priced = match is_resting {
            true => price != Price::ZERO || waits == ForAuction::No,
            false => told.is_some_and(|(it, _, told, _)| {
                it == OrderType::Limit && !told.pricing.is_pegged()
            }),
        };
        if PRICE_MAX < price || book.is_price(price) != priced {
            return Err(DecodeError::Field("price"));
        }
        let gone = executed.0 + canceled.0 + prevented.0;
        if book.quantity_max() < quantity || quantity.0 <= gone {
            return Err(DecodeError::Field("quantity"));
        }
        if order_id == OrderId(0) || engine.order_id_last < order_id {
            return Err(DecodeError::Field("order id"));
        }
        let in_order = book.trading.phase == Phase::Continuous && waits == ForAuction::No;
        if is_resting && in_order && book.would_cross(side, Some(price)) {
            return Err(DecodeError::Field("price"));
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
            time_in_force,
            is_contingent: told.is_some(),
        });
        order.reduce(canceled);
        order.is_iceberg = reserve.is_some();
        order.set_for_auction(waits);
        let parts = reserve.is_none_or(|it| {
            let shown = it.shown.quantity();
            display.is_displayed()
                && waits == ForAuction::No
                && !shown.is_zero()
                && shown <= order.leaves()
                && it.shown_quantity != Lots::ZERO
        });
        if !parts {
            return Err(DecodeError::Field("reserve"));
        }
        if !is_resting && (told.is_none() || reserve.is_some()) {
            return Err(DecodeError::Field("told"));
        }
        if !is_resting {
            engine.money.restore_order(&order)?;
            let slot = engine.pool.add(|| order, Slot::NONE);
            engine.hash.add(order.hash());
            self.live.push((key, slot));
            return self.tell(slot, told, is_resting).map_err(DecodeError::Field);
        }
        // Auction-only orders are together, displayed or not.
        let level = |it: &Order| {
            let auction = it.for_auction().time_in_force();
            let displayed = auction.is_none() && it.display.is_displayed();
            (it.instrument_id, it.side.is_buy(), it.price(), displayed, auction)
        };
        let elder = self.elder.map(|slot| &engine.pool[slot].order);
        if elder.is_some_and(|it| level(it) == level(&order) && order.order_id <= it.order_id) {
            return Err(DecodeError::Field("order id"));
        }
        engine.money.restore_order(&order)?;
        let slot = engine.rest(&order);
        if let Some(reserve) = reserve {
            engine.icebergs.insert(slot, &order, reserve, &mut engine.hash);
        }
        self.elder = Some(slot);
        self.live.push((key, slot));
        self.tell(slot, told, is_resting).map_err(DecodeError::Field)
    }

    /// Restores the instructions of the order in a slot; the error is the invalid field.
    fn tell(
        &mut self,
        slot: Slot,
        told: Option<(OrderType, Lots, Instructions, u32)>,
        is_resting: bool,
    ) -> Result<(), &'static str> {
        let Some((order_type, minimum_quantity, instructions, mark)) = told else { return Ok(()) };
        let engine = &mut self.engine;
        let order = engine.pool[slot].order;
        let is_triggered = instructions.pricing.is_triggered();
        let is_pegged = instructions.pricing.is_pegged();
        let state = match (is_resting, instructions.parent) {
            (true, 0) if !is_triggered => State::Resting,
            (false, 0) if is_triggered => State::ForTrigger,
            (false, 0) if is_pegged => State::ForReference,
            (false, 0) => State::ForQuantity,
            (false, parent) if parent != 0 => State::ForParent,
            _ => return Err("parent"),
        };
        let is_good_till_time = order.time_in_force == TimeInForce::GoodTillTime;
        if is_good_till_time != (instructions.expires_s != 0) {
            return Err("expiry");
        }
        let trail_fits = match instructions.pricing {
            Pricing::TrailingStop => {
                0 < instructions.offset && instructions.trigger.price() <= PRICE_MAX
            }
            _ => is_pegged || instructions.offset == 0,
        };
        let limit = Price(if is_pegged { mark.into() } else { 0 });
        let limit_fits = match order_type {
            OrderType::Limit => engine.book_of(&order).is_price(limit),
            _ => limit == Price::ZERO,
        };
        if is_pegged
            && (!limit_fits
                || order.display.is_displayed()
                || order.for_auction() != ForAuction::No)
        {
            return Err("limit");
        }
        if !trail_fits
            || (state == State::ForTrigger
                && instructions.pricing != Pricing::TrailingStop
                && mark != 0)
        {
            return Err("offset");
        }
        let mut contingent = Contingent::new(&order, instructions, order_type, minimum_quantity);
        contingent.limit = limit;
        let Engine { contingents, triggers, hash, .. } = engine;
        let id = contingents.add(contingent);
        if state == State::ForTrigger {
            let triggers = &mut triggers[usize::from(order.instrument_id.0) - 1];
            triggers.restore(contingents, hash, order.side, id, mark);
        }
        contingents.place(id, slot, state, hash);
        if state == State::ForQuantity
            && !engine.restore_waiting_for_quantity(order.instrument_id, id)
        {
            return Err("quantity");
        }
        Ok(())
    }
}

fn party(from: &mut ByteReader<'_>) -> Result<Party, DecodeError> {
    let order_id = OrderId(from.u64()?);
    Ok(Party { key: from.key()?, order_id })
}
