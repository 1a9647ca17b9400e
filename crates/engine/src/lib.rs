//! The deterministic core: a sequenced command goes in, events come out, the same on every replay.
//!
//! Start at [`Engine::apply`]; the folders stand in the order of an order's life: `intake`, `book`,
//! `trading`, `contingent`, `auction`, `money`; then `operator` and `state`. The rules are in docs/rules.md.
//!
//! Architecture invariant: no I/O, clock, thread, randomness or float, and nothing whose order
//! differs from run to run. `#![no_std]` keeps it so. Once warm, an order allocates nothing.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

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
#[cfg(test)]
mod random;

use alloc::vec::Vec;

use market::{
    Command, CommandKind, Event, Input, InstrumentId, OrderId, Scope, Sequence, Timestamp, TradeId,
};

pub use intake::{
    prefetch::AHEAD_MAX,
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

use auction::uncross::Scratch;
use book::{
    Book,
    pool::{Pool, Slot},
};
use contingent::{instructions::Contingents, stop_book::Triggers};
use intake::{name_index::NameIndex, session::Sessions, trading_day::TradingDay};
use money::Money;
use operator::{requests::Operators, trades::Trades};
use state::hash::StateHash;
use trading::iceberg::Icebergs;

/// The state of the exchange, and the one way to change it.
#[derive(Debug)]
pub struct Engine {
    /// Of the last input.
    sequence: Sequence,
    /// Of the last input.
    timestamp: Timestamp,
    /// The kind of command that acts now, or [`CommandKind::Time`].
    cause: CommandKind,
    day: TradingDay,
    sessions: Sessions,
    /// By instrument id, less 1.
    books: Vec<Book>,
    /// Stop books, by instrument id, less 1.
    triggers: Vec<Triggers>,
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
    hash: StateHash,
    /// Orders that a command is about to cancel; empty between commands.
    found: Vec<Slot>,
    /// Scopes in which entry is blocked, sorted.
    blocks: Vec<Scope>,
    trades: Trades,
    operators: Operators,
    /// How many auctions were held.
    auctions_held: u64,
    /// The instruments that have an auction now, sorted; it follows from their phases.
    auctions: Vec<InstrumentId>,
    /// The earliest moment for which one of them waits; [`u64::MAX`] is none.
    auctions_due_ns: u64,
    /// Those of them that are due; empty between commands.
    auctions_due: Vec<InstrumentId>,
    scratch: Scratch,
}

/// A receiver of events, each as it happens.
///
/// A closure is one. The methods of a type of its own are inlined where most events are made, so that
/// an event is written straight into its slot.
pub trait Emit {
    /// An event happened.
    fn emit(&mut self, event: Event);
}

impl<F: FnMut(Event) + ?Sized> Emit for F {
    #[inline]
    fn emit(&mut self, event: Event) {
        self(event);
    }
}

impl Engine {
    /// Before the first input: no instrument, no session, closed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sequence: Sequence::NONE,
            timestamp: Timestamp::default(),
            cause: CommandKind::Time,
            day: TradingDay::default(),
            sessions: Sessions::default(),
            books: Vec::new(),
            triggers: Vec::new(),
            symbols: NameIndex::default(),
            pool: Pool::new(),
            icebergs: Icebergs::default(),
            contingents: Contingents::default(),
            order_id_last: OrderId(0),
            trade_id_last: TradeId(0),
            orders_accepted: 0,
            money: Money::default(),
            hash: StateHash::default(),
            found: Vec::new(),
            blocks: Vec::new(),
            trades: Trades::new(),
            operators: Operators::default(),
            auctions_held: 0,
            auctions: Vec::new(),
            auctions_due_ns: u64::MAX,
            auctions_due: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Takes memory for so many live orders in all, and for the trades that are kept, and writes to
    /// it, so that none of it is asked of the system while there are no more.
    pub fn reserve_memory(&mut self, orders: usize) {
        self.pool.reserve(orders);
        self.trades.reserve();
    }

    /// Carries out an input and emits its events, in the order in which they happen.
    ///
    /// Any command may come at any time; the rules say which is rejected and which is ignored.
    ///
    /// # Panics
    /// The sequence is not the next one, or the time is before that of the input before.
    pub fn apply(&mut self, input: &Input, emit: &mut impl FnMut(Event)) {
        self.apply_to(input, emit);
    }

    /// As [`apply`](Self::apply), with a receiver of events that has a type of its own.
    ///
    /// # Panics
    /// As there.
    pub fn apply_to(&mut self, input: &Input, emit: &mut impl Emit) {
        self.take_up(input, emit);
        // Nothing else follows from what the fast path does.
        let is_done = match &input.command {
            Command::Enter(order) => self.enter_fast(order, emit),
            Command::Cancel(cancel) => self.cancel_fast(cancel, emit),
            _ => false,
        };
        if !is_done {
            self.apply_any(&input.command, &mut |event| emit.emit(event));
        }
    }

    /// As [`apply`](Self::apply), without the [fast path](mod@intake::fast_path): for the tests that
    /// show that both give the same events and the same state.
    ///
    /// # Panics
    /// As there.
    #[doc(hidden)]
    pub fn apply_on_general_path(&mut self, input: &Input, emit: &mut impl FnMut(Event)) {
        self.take_up(input, emit);
        self.apply_any(&input.command, emit);
    }

    /// It is the next input, and its time has come.
    #[inline(always)]
    fn take_up(&mut self, input: &Input, emit: &mut impl Emit) {
        assert!(input.sequence == self.sequence.next(), "{} then {input:?}", self.sequence);
        assert!(input.timestamp >= self.timestamp, "{:?} then {input:?}", self.timestamp);
        self.sequence = input.sequence;
        self.timestamp = input.timestamp;
        if self.is_due() {
            self.pass_time(&mut |event| emit.emit(event));
        }
    }

    /// Does what a command asks that is not [plain](mod@intake::fast_path), and what follows from it.
    #[inline(never)]
    fn apply_any(&mut self, command: &Command, emit: &mut dyn FnMut(Event)) {
        self.cause = command.kind();
        match command {
            Command::System(event) => self.advance(*event, emit),
            Command::AddInstrument(add) => self.add_instrument(add, emit),
            Command::AddSession(add) => self.add_session(add, emit),
            Command::Enter(order) => self.enter(order, emit),
            Command::Replace(replace) => self.replace(replace, emit),
            Command::Cancel(cancel) => self.cancel(cancel, emit),
            Command::Modify(modify) => self.modify(modify, emit),
            Command::MassCancel(mass) => self.mass_cancel(mass, emit),
            Command::SwitchEntry(switch) => self.switch_entry(switch, emit),
            Command::QueryAccount(query) => self.query_account(query, emit),
            Command::Refuse(refused) => self.refuse(refused, emit),
            Command::CancelOnDisconnect(cancel) => self.cancel_on_disconnect(cancel, emit),
            Command::Money(command) => self.money(command, emit),
            Command::Venue(command) => self.venue(command, emit),
            Command::Operate(command) => self.operate(command, emit),
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
