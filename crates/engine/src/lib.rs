//! The deterministic core: applies sequenced commands and emits events, identically on every
//! replay.
//!
//! Start at [`Engine::apply`]. The folders follow the life of an order: `intake`, `book`,
//! `trading`, `contingent`, `auction`, `money`; then `operator` and `state`. The rules are in
//! docs/rules.md.
//!
//! Architecture invariant: no I/O, clock, thread, randomness or float, and no iteration order that
//! differs between runs. `#![no_std]` enforces it. After warm-up, an order allocates nothing.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

mod by_instrument;
mod order;
mod intake;
mod book;
mod trading;
mod contingent;
mod auction;
mod money;
mod operator;
mod state;
pub mod matcher;

use alloc::{collections::BTreeSet, vec::Vec};

use market::{
    Command, CommandKind, Event, Input, InstrumentId, OrderId, Outcome, Scope, Sequence, SessionId,
    Timestamp, TradeId,
};

pub use intake::{
    batch::{BATCH_MAX, InputBatch, LOOK_AHEAD_FROM, NextInput},
    session::{FIRMS_DISABLED_MAX, Session},
};
pub use money::{
    command::BALANCES_MAX,
    view::{AccountBalance, AccountState},
};
pub use operator::{
    requests::{HeldSetting, OPERATORS_MAX},
    trades::TRADES_KEPT,
    venue_commands::BLOCKS_MAX,
};
pub use order::{PRICE_MAX, QUANTITY_LIMIT, QUANTITY_MAX};
pub use state::{
    snapshot::{Restoration, Section, StateError},
    view::{BookView, Counters, DepthLevel, RestingOrder, WaitsFor},
};

use auction::{steps::AuctionLine, uncross::Looks};
use book::{
    Book,
    pool::{Pool, Slot},
};
use by_instrument::ByInstrument;
use contingent::{instructions::Contingents, stop_book::Triggers};
use intake::{
    batch::Found, cancel_line::PendingCancels, name_index::NameIndex, session::Sessions,
    trading_day::TradingDay,
};
use money::Money;
use operator::{requests::Operators, trades::Trades};
use state::hash;
use trading::{iceberg::Icebergs, in_steps::HalfMatched, instrument_queue::InstrumentQueue};

/// The state of the exchange; [`Engine::apply`] is the only way to change it.
#[derive(Debug)]
pub struct Engine {
    /// Sequence of the last input.
    sequence: Sequence,
    /// Time of the last input.
    timestamp: Timestamp,
    /// The kind of the current command, or [`CommandKind::Time`].
    cause: CommandKind,
    /// Counts the moments at which a setting may have changed: commands other than orders and cancels, and timed
    /// actions. Findings of a [`InputBatch`] hold until the next one.
    settings: u64,
    day: TradingDay,
    sessions: Sessions,
    books: ByInstrument<Book>,
    /// Stop books.
    triggers: ByInstrument<Triggers>,
    symbols: NameIndex,
    /// The resting orders of all books.
    pool: Pool,
    icebergs: Icebergs,
    /// The records of contingent orders.
    contingents: Contingents,
    order_id_last: OrderId,
    trade_id_last: TradeId,
    orders_accepted: u64,
    money: Money,
    /// Orders that the current command will cancel; empty between commands.
    found: Vec<Slot>,
    /// The next turns and numbers of a sweep; empty between commands.
    turns: Vec<(u32, u32)>,
    /// Reused by sweeps: the channels of a command, each with the last number used.
    channels: Vec<(SessionId, u8, u32)>,
    /// Orders that later inputs cancel.
    pending_cancels: PendingCancels,
    /// Auctions that later inputs continue.
    auction_line: AuctionLine,
    /// Orders that later inputs trade on.
    half_matched: InstrumentQueue<HalfMatched>,
    /// Blocked scopes, sorted.
    blocks: Vec<Scope>,
    trades: Trades,
    operators: Operators,
    auctions_held: u64,
    /// The times that auctions wait for, with their instruments; derived from their trading statuses.
    auctions: BTreeSet<(u64, InstrumentId)>,
    /// The earliest of these times, in nanoseconds; [`u64::MAX`] is none.
    auctions_due_ns: u64,
    /// The remaining budget of the command for auctions.
    looks: Looks,
}

/// Receives events as they happen.
///
/// A closure is an `Emit`. A type of its own has its methods inlined at the most frequent call
/// sites, so that an event is written straight into its slot.
pub trait Emit {
    /// Receives an event.
    fn emit(&mut self, event: Event);

    /// Receives events that happen at once, as one outcome.
    #[inline(always)]
    fn emit_at_once(&mut self, outcome: Outcome) {
        outcome.each(|event| self.emit(event));
    }
}

impl<F: FnMut(Event) + ?Sized> Emit for F {
    #[inline]
    fn emit(&mut self, event: Event) {
        self(event);
    }
}

impl Engine {
    /// An engine before the first input: no instruments, no sessions, closed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sequence: Sequence::NONE,
            timestamp: Timestamp::default(),
            cause: CommandKind::Time,
            settings: 0,
            day: TradingDay::default(),
            sessions: Sessions::default(),
            books: ByInstrument::new(),
            triggers: ByInstrument::new(),
            symbols: NameIndex::default(),
            pool: Pool::new(),
            icebergs: Icebergs::default(),
            contingents: Contingents::default(),
            order_id_last: OrderId(0),
            trade_id_last: TradeId(0),
            orders_accepted: 0,
            money: Money::default(),
            found: Vec::new(),
            turns: Vec::new(),
            channels: Vec::new(),
            pending_cancels: PendingCancels::new(hash::PENDING_CANCEL),
            auction_line: AuctionLine::default(),
            half_matched: InstrumentQueue::default(),
            blocks: Vec::new(),
            trades: Trades::new(),
            operators: Operators::default(),
            auctions_held: 0,
            auctions: BTreeSet::new(),
            auctions_due_ns: u64::MAX,
            looks: Looks::default(),
        }
    }

    /// Allocates and touches memory for this many live orders in total, and for the kept trades.
    /// The engine allocates no more while live orders stay within it.
    pub fn reserve_memory(&mut self, orders: usize) {
        self.pool.reserve(orders);
        self.trades.reserve();
    }

    /// Applies an input and emits its events, in the order in which they happen.
    ///
    /// Any command may come at any time: the rules define which are rejected and which are ignored.
    ///
    /// # Panics
    /// The sequence is not the next one, or the time is before that of the previous input.
    pub fn apply(&mut self, input: &Input, emit: &mut impl FnMut(Event)) {
        self.apply_to(input, emit);
    }

    /// As [`apply`](Self::apply), with a concrete [`Emit`] type.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    #[inline(never)]
    pub fn apply_to(&mut self, input: &Input, emit: &mut impl Emit) {
        self.take_up(input, emit);
        self.act(input, Found::Nothing, emit);
    }

    /// Applies the command of an input that was accepted.
    #[inline(always)]
    fn act(&mut self, input: &Input, found: Found, emit: &mut impl Emit) {
        match &input.command {
            Command::Enter(order) => {
                self.begin_command(CommandKind::Enter);
                let plain = self.plain(order, found);
                self.enter(order, plain, emit);
            }
            Command::Cancel(cancel) => {
                self.begin_command(CommandKind::Cancel);
                self.cancel(cancel, emit);
            }
            command => self.apply_other(command, &mut |event| emit.emit(event)),
        }
    }

    /// As [`apply`](Self::apply), without the mark of plain orders. Tests use it to show that the mark
    /// changes neither events nor state.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    #[doc(hidden)]
    pub fn apply_unmarked(&mut self, input: &Input, emit: &mut impl FnMut(Event)) {
        self.take_up(input, emit);
        match &input.command {
            Command::Enter(order) => {
                self.begin_command(CommandKind::Enter);
                self.enter(order, None, emit);
            }
            Command::Cancel(cancel) => {
                self.begin_command(CommandKind::Cancel);
                self.cancel(cancel, emit);
            }
            command => self.apply_other(command, emit),
        }
    }

    /// Accepts the sequence and time of the next input.
    #[inline(always)]
    fn take_up(&mut self, input: &Input, emit: &mut impl Emit) {
        assert!(input.sequence == self.sequence.next(), "{} then {input:?}", self.sequence);
        assert!(input.timestamp >= self.timestamp, "{:?} then {input:?}", self.timestamp);
        self.sequence = input.sequence;
        self.timestamp = input.timestamp;
        if self.is_due() {
            self.settings += 1;
            self.pass_time(&mut |event| emit.emit(event));
        }
    }

    /// Begins a command of this kind.
    #[inline(always)]
    fn begin_command(&mut self, kind: CommandKind) {
        self.cause = kind;
        self.looks = Looks::NEW;
    }

    /// Applies a command that is neither a new order nor a cancel, and its effects on other orders.
    #[inline(never)]
    fn apply_other(&mut self, command: &Command, emit: &mut dyn FnMut(Event)) {
        self.begin_command(command.kind());
        self.settings += 1;
        match command {
            Command::System(event) => self.advance(*event, emit),
            Command::AddInstrument(add) => self.add_instrument(add, emit),
            Command::AddSession(add) => self.add_session(add, emit),
            Command::Enter(_) | Command::Cancel(_) => unreachable!("they have an arm of their own"),
            Command::Replace(replace) => self.replace(replace, emit),
            Command::Modify(modify) => self.modify(modify, emit),
            Command::MassCancel(mass) => self.mass_cancel(mass, emit),
            Command::SwitchEntry(switch) => self.switch_entry(switch, emit),
            Command::QueryAccount(query) => self.query_account(query, emit),
            Command::Reject(refused) => self.refuse(refused, emit),
            Command::CancelOnDisconnect(cancel) => self.cancel_on_disconnect(cancel, emit),
            Command::Money(command) => self.money(command, emit),
            Command::Venue(command) => self.venue(command, emit),
            Command::Operate(command) => self.operate(command, emit),
            Command::Note(note) => self.note(note, emit),
            Command::Time => {}
        }
        self.follow(emit);
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}
