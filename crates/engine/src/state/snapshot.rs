//! Snapshots: the whole state as bytes, and an engine from such bytes.
//!
//! A snapshot contains the logical state, not its memory layout: instruments, sessions, and the
//! orders of each book in priority order. So it does not depend on the history, and a restored
//! engine emits the same events from there on.
//!
//! The bytes come in sections of whole records, so that writer and reader need not have the whole snapshot in memory;
//! the store adds a checksum to each section. Invariant: the last section has the state hash, and the restored state
//! must have the same.
//!
//! A module with state of its own adds a [`Section`], writes it in [`Engine::snapshot`] and reads
//! it in [`Restoration::section`]. The model test continues with restored engines, so that it finds
//! omissions.

mod restoration;

use alloc::vec::Vec;
use core::fmt;

use market::{
    AddInstrument, AddSession, Capacity, CustomerType, DecodeError, Display, Firm, Instructions,
    Instrument, InstrumentId, Lots, OrderId, OrderKey, OrderType, SelfMatchGroup,
    SelfMatchPrevention, Side, Ticks, TimeInForce, bytes::ByteWriter, encoded, kinds,
};

use crate::{
    BookView, Engine, HeldSetting, auction::count::Counted, auction::trading_status::TradingStatus,
    book::pool::Slot, contingent::instructions::ContingentId, contingent::instructions::State,
    contingent::instructions::Turn, operator::requests::LastCommand, order::ForAuction,
    state::view::queue, trading::iceberg::Iceberg,
};

pub use restoration::Restoration;

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
    /// The triggered orders in line, in that order, each with the next place.
    Triggered = 43,
    /// The orders and sweeps that wait to be canceled, in that order, each with the place of the next.
    PendingCancels = 42,
    /// The auctions that trade in steps, in that order, each with the place of the first.
    Auctions = 44,
    /// The counted places of each auction, by number of its instrument.
    Counts = 49,
    /// The half-matched orders, in the order of their turns, each with the place of the first.
    HalfMatched = 48,
    /// The orders that are canceled after the auctions and half-matched orders, in the form of pending cancels.
    HeldCancels = 45,
    /// The instruments whose orders that wait for quantity are still to test, in that order.
    NotedForQuantity = 46,
    /// The orders of one more such instrument, in that order; one may be done.
    ChecksForQuantity = 47,
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
        Self::Triggered,
        Self::PendingCancels,
        Self::Auctions,
        Self::Counts,
        Self::HalfMatched,
        Self::HeldCancels,
        Self::NotedForQuantity,
        Self::ChecksForQuantity,
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
            out.write(&engine.sequence);
            out.write(&engine.timestamp);
            out.write(&engine.day.last());
            out.write(&engine.order_id_last);
            out.write(&engine.trade_id_last);
            out.write(&engine.orders_accepted);
            out.write(&engine.auctions_held);
        });
        out.section(Section::Instruments, self.books.iter(), |out, book| {
            let Instrument { symbol, price_increment, round_lot, .. } = *book.instrument();
            out.write(&AddInstrument { symbol, price_increment, round_lot });
            out.write(&book.trading);
        });
        out.section(Section::Sessions, self.sessions.iter(), |out, session| {
            out.write(&AddSession {
                username: *session.username(),
                firm: session.firm(),
                live_orders_max: session.live_orders_max(),
                self_match_prevention: session.self_match_prevention(),
            });
            out.write(&session.size_class());
            out.write(&(session.user_ref_nums_last().count() as u16));
            for (channel, last) in session.user_ref_nums_last() {
                out.write(&channel);
                out.write(&last);
            }
            out.write(&(session.firms_disabled().len() as u16));
            for firm in session.firms_disabled() {
                out.write(firm);
            }
        });
        out.section(Section::Money, self.money.records(), |out, record| out.write(&record));
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
        out.section(Section::Orders, orders, |out, slot| out.write(&self.order_record(slot)));
        let traded = self.triggers.iter().filter(|triggers| triggers.last() != 0);
        out.section(Section::LastTrades, traded, |out, triggers| {
            out.write(&triggers.instrument_id());
            out.write(&triggers.last());
        });
        let is_waiting = |id: &ContingentId| !self.contingents[*id].is_resting();
        let mut waiting: Vec<_> = self.contingents.iter().filter(is_waiting).collect();
        waiting.sort_unstable_by_key(|id| self.contingents[*id].order_id);
        out.section(Section::Waiting, waiting.iter(), |out, id| {
            out.write(&self.order_record(self.contingents[*id].slot));
        });
        let triggered = waiting.iter().map(|id| &self.contingents[*id]);
        let mut triggered: Vec<_> = triggered.filter(|it| it.state == State::Triggered).collect();
        triggered.sort_unstable_by_key(|contingent| contingent.turn.place);
        out.section(Section::Triggered, triggered.into_iter(), |out, contingent| {
            out.write(&self.contingents.next_place);
            out.write(&contingent.key);
            out.write(&contingent.turn);
        });
        let pending = self.pending_cancels.records();
        out.section(Section::PendingCancels, pending, |out, (next, round, arrival, waiting)| {
            [next, round, arrival].iter().for_each(|it| out.write(it));
            out.write(&waiting);
        });
        out.section(
            Section::Auctions,
            self.auction_line.line.iter(),
            |out, (first, uncrossing)| {
                out.write(&first);
                out.write(uncrossing);
            },
        );
        let counts = self.books.iter().filter_map(|book| {
            let counted = book.count.as_ref()?.counted;
            (counted != Counted::default()).then(|| (book.instrument().instrument_id, counted))
        });
        out.section(Section::Counts, counts, |out, (instrument_id, counted)| {
            out.write(&instrument_id);
            counted.places.iter().for_each(|place| out.write(place));
            out.write(&counted.is_first);
        });
        out.section(Section::HalfMatched, self.half_matched.iter(), |out, (first, half)| {
            out.write(&first);
            out.write(half);
        });
        let held = self.auction_line.held.records();
        out.section(Section::HeldCancels, held, |out, (next, round, arrival, waiting)| {
            [next, round, arrival].iter().for_each(|it| out.write(it));
            out.write(&waiting);
        });
        let quantity = &self.contingents.minimum_quantity_orders;
        out.section(Section::NotedForQuantity, quantity.noted(), |out, id| out.write(&id));
        out.section(Section::ChecksForQuantity, quantity.line(), |out, (key, order_id)| {
            out.write(&key);
            out.write(&order_id);
        });
        out.section(Section::Trades, self.trades.iter(), |out, (trade, is_busted)| {
            out.write(&trade);
            out.write(&is_busted);
        });
        out.section(Section::Blocks, self.blocks.iter(), |out, scope| out.write(scope));
        out.section(Section::Operators, self.operators.last.iter(), |out, last| out.write(last));
        out.section(Section::HeldSettings, self.operators.held.iter(), |out, it| out.write(it));
        out.section(Section::End, [self.state_hash()].into_iter(), |out, hash| out.write(&hash));
    }

    fn order_record(&self, slot: Slot) -> OrderRecord {
        let order = &self.pool[slot].order;
        let contingent =
            self.contingents.find(slot).filter(|id| self.contingents[*id].has_instructions());
        OrderRecord {
            order_id: order.order_id(),
            key: order.key,
            instrument_id: order.instrument_id,
            price: Ticks(order.price().0 as u32),
            quantity: order.quantity().lots(),
            executed: order.executed().lots(),
            canceled: order.canceled().lots(),
            prevented: order.prevented().lots(),
            group_id: order.group_id,
            firm: order.firm,
            side: order.side(),
            display: order.display(),
            capacity: order.capacity(),
            customer_type: order.customer_type(),
            self_match_prevention: order.self_match_prevention(),
            self_match_group: order.self_match_group,
            post_only: order.post_only(),
            for_auction: order.for_auction(),
            time_in_force: order.time_in_force(),
            iceberg: order.is_iceberg().then(|| self.icebergs.get(slot)),
            contingent: contingent.map(|id| {
                let contingent = &self.contingents[id];
                let mark = match contingent.state {
                    State::ForTrigger => {
                        let triggers = &self.triggers[order.instrument_id];
                        triggers.trigger_of(&self.contingents, order.side(), id).1
                    }
                    State::ForAuction => AFTER_AUCTION,
                    State::Triggered if contingent.instructions.offset != 0 => {
                        contingent.turn.trigger
                    }
                    _ => contingent.limit.0 as u32,
                };
                ContingentRecord {
                    order_type: contingent.order_type,
                    minimum_quantity: contingent.minimum_quantity,
                    instructions: contingent.instructions,
                    is_half_matched: contingent.state == State::HalfMatched,
                    mark,
                }
            }),
        }
    }
}

/// An order, in the book or outside.
#[derive(Clone, Copy)]
struct OrderRecord {
    order_id: OrderId,
    key: OrderKey,
    instrument_id: InstrumentId,
    price: Ticks,
    quantity: Lots,
    executed: Lots,
    canceled: Lots,
    prevented: Lots,
    group_id: u16,
    firm: Firm,
    side: Side,
    display: Display,
    capacity: Capacity,
    customer_type: CustomerType,
    self_match_prevention: SelfMatchPrevention,
    self_match_group: SelfMatchGroup,
    post_only: bool,
    for_auction: ForAuction,
    time_in_force: TimeInForce,
    iceberg: Option<Iceberg>,
    contingent: Option<ContingentRecord>,
}

/// The mark of an order that waits until auctions are over.
const AFTER_AUCTION: u32 = 1;

/// The instructions of an order.
#[derive(Clone, Copy)]
struct ContingentRecord {
    order_type: OrderType,
    minimum_quantity: Lots,
    instructions: Instructions,
    is_half_matched: bool,
    /// Waiting for a trigger: the extreme price of a trailing stop. Pegged: its limit. Waiting for an
    /// auction: [`AFTER_AUCTION`]. Else 0.
    mark: u32,
}

encoded! {
    OrderRecord {
        order_id, key, instrument_id, price, quantity, executed, canceled, prevented, group_id, firm,
        side, display, capacity, customer_type, self_match_prevention, self_match_group, post_only,
        for_auction, time_in_force, iceberg, contingent
    }
    Iceberg { shown, shown_quantity, shown_range }
    Turn { place, trigger }
    ContingentRecord { order_type, minimum_quantity, instructions, is_half_matched, mark }
    TradingStatus {
        phase, is_removed, static_band, dynamic_band, pause_s, price_collar, quantity_max,
        notional_max, pegs_max, session_pegs_max, allocation, time_share, reference_price,
        price_last, ends_ns, is_scheduled, indicates_ns, extension, indicated;
        is_unrestricted = false, is_uncrossing = false, waiting = 0
    }
    LastCommand { operator, number, fingerprint, sequence, outcome }
}

kinds! {
    ForAuction { 0 => No, 1 => Open, 2 => Close, 3 => Next, 4 => AsMarket, }
    HeldSetting { 0 => Account(account_id, setting, asset_id), 1 => LiveOrdersMax(session_id), }
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
