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
use core::mem;

use market::{
    Accepted, AccountQueried, AccountQuery, AddInstrument, AddSession, Booked, CancelOnDisconnect,
    CancelOrder, CancelReason, Canceled, ClientOrderId, Command, CommandKind, Conditions, Display,
    EnterOrder, EntrySwitch, EntrySwitched, Event, Firm, Input, Instructions, Instrument,
    InstrumentId, Lots, MassCancel, MassCanceled, Modified, ModifyOrder, OrderAttributes, OrderId,
    OrderKey, OrderType, Phase, PhaseCause, Price, Quantity, RefusedOrder, RejectReason, Rejected,
    ReplaceOrder, ReplaceTerms, Replaced, Scope, Sequence, SessionAdded, Shown, SystemEvent,
    TimeInForce, Timestamp, TradeId,
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
    snapshot::{Restoration, Section, SnapshotError},
    view::{BookView, Counters, DepthLevel, RestingOrder, WaitsFor},
};

use auction::{phases, trading_status::Trading, uncross::Scratch};
use book::{
    Book,
    cross::Reach,
    pool::{Pool, Slot},
};
use contingent::{instructions::Standings, minimum_quantity::is_patient, stop_book::Triggers};
use intake::{check, name_index::Names, session::Sessions, trading_day::Day};
use money::Money;
use operator::{requests::Operators, trades::Trades, venue_commands::PhaseStep};
use order::{Order, OrderTerms, Waits};
use state::hash::StateHash;
use trading::{
    iceberg::Reserves,
    self_match,
    settlement::{Settlement, fill},
};

/// The state of the exchange, and the one way to change it.
#[derive(Debug)]
pub struct Engine {
    /// Of the last input.
    sequence: Sequence,
    /// Of the last input.
    timestamp: Timestamp,
    /// The kind of command that acts now, or [`CommandKind::Time`].
    cause: CommandKind,
    day: Day,
    sessions: Sessions,
    /// By instrument id, less 1.
    books: Vec<Book>,
    /// What waits for trades, by instrument id, less 1.
    triggers: Vec<Triggers>,
    symbols: Names,
    /// The resting orders of all books.
    pool: Pool,
    reserves: Reserves,
    /// What some of the live orders are told.
    standings: Standings,
    order_id_last: OrderId,
    trade_id_last: TradeId,
    orders_accepted: u64,
    money: Money,
    hash: StateHash,
    /// What a mass cancel has found; empty between commands.
    found: Vec<Slot>,
    /// What the venue does not take, sorted.
    blocks: Vec<Scope>,
    trades: Trades,
    operators: Operators,
    /// How many auctions there were.
    crosses: u64,
    /// The instruments that have an auction now, sorted; it follows from their phases.
    auctions: Vec<InstrumentId>,
    /// The earliest moment for which one of them waits; [`u64::MAX`] is none.
    auctions_due_ns: u64,
    /// Those of them that are due; empty between commands.
    auctions_due: Vec<InstrumentId>,
    scratch: Scratch,
}

/// Where events go, each as it happens.
///
/// A closure is one; a type of its own can have what it does written into the engine where most
/// events come from, so that they are made where they stay.
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
            day: Day::default(),
            sessions: Sessions::default(),
            books: Vec::new(),
            triggers: Vec::new(),
            symbols: Names::default(),
            pool: Pool::new(),
            reserves: Reserves::default(),
            standings: Standings::default(),
            order_id_last: OrderId(0),
            trade_id_last: TradeId(0),
            orders_accepted: 0,
            money: Money::default(),
            hash: StateHash::default(),
            found: Vec::new(),
            blocks: Vec::new(),
            trades: Trades::new(),
            operators: Operators::default(),
            crosses: 0,
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

    /// Does what an input asks, and emits what came of it, in the order in which it happened.
    ///
    /// Any command may come at any time: what cannot be done is answered or ignored by the rules.
    ///
    /// # Panics
    /// The sequence is not the next one, or the time is before that of the input before.
    pub fn apply(&mut self, input: &Input, emit: &mut impl FnMut(Event)) {
        self.apply_to(input, emit);
    }

    /// As [`apply`](Self::apply), for who says where events go by a type of its own.
    ///
    /// # Panics
    /// As there.
    pub fn apply_to(&mut self, input: &Input, emit: &mut impl Emit) {
        assert!(input.sequence == self.sequence.next(), "{} then {input:?}", self.sequence);
        assert!(input.timestamp >= self.timestamp, "{:?} then {input:?}", self.timestamp);
        self.sequence = input.sequence;
        self.timestamp = input.timestamp;
        if self.is_due() {
            self.pass_time(&mut |event| emit.emit(event));
        }
        // Of what is plain nothing else follows.
        let is_done = match &input.command {
            Command::Enter(order) => self.enter_plain(order, emit),
            Command::Cancel(cancel) => self.cancel_plain(cancel, emit),
            _ => false,
        };
        if !is_done {
            self.apply_any(&input.command, &mut |event| emit.emit(event));
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

    #[inline(never)]
    fn advance(&mut self, event: SystemEvent, emit: &mut dyn FnMut(Event)) {
        let was_over = self.day.is_over();
        if self.day.advance(event) {
            emit(Event::System(event));
            if self.day.is_over() && !was_over {
                self.end_day(emit);
            }
            self.touch_all();
        }
    }

    #[inline(never)]
    fn add_instrument(&mut self, add: &AddInstrument, emit: &mut dyn FnMut(Event)) {
        let Ok(instrument_id) = u16::try_from(self.books.len() + 1) else { return };
        let increment_allowed =
            Price::ZERO < add.price_increment && add.price_increment <= PRICE_MAX;
        let lot_allowed = Quantity::ZERO < add.round_lot && add.round_lot <= QUANTITY_MAX;
        let symbol_allowed = !add.symbol.is_blank() && self.symbols.find(&add.symbol).is_none();
        if !increment_allowed || !lot_allowed || !symbol_allowed {
            return;
        }
        let instrument = Instrument {
            instrument_id: InstrumentId(instrument_id),
            symbol: add.symbol,
            price_increment: add.price_increment,
            round_lot: add.round_lot,
        };
        self.symbols.add(&add.symbol, instrument_id);
        self.books.push(Book::new(instrument));
        self.triggers.push(Triggers::new(instrument.instrument_id));
        self.hash.add(book::instrument_hash(&instrument));
        self.hash.add(Trading::NEW.hash(instrument.instrument_id));
        emit(Event::InstrumentAdded(instrument));
    }

    #[inline(never)]
    fn add_session(&mut self, add: &AddSession, emit: &mut dyn FnMut(Event)) {
        let Some(session) = self.sessions.add(add) else { return };
        self.hash.add(session.hash());
        emit(Event::SessionAdded(SessionAdded {
            session_id: session.session_id(),
            username: add.username,
            firm: add.firm,
            system_hours: self.day.is_open(),
        }));
    }

    fn enter(&mut self, order: &EnterOrder, emit: &mut dyn FnMut(Event)) {
        if !self.consume(order.key) {
            return;
        }
        self.money.count_asked(order.key.session_id, self.timestamp, &mut self.hash);
        let instrument_id = match self.check(order) {
            Ok(instrument_id) => instrument_id,
            Err(reason) => {
                return self.reject(order.key, reason, order.attributes.client_order_id, emit);
            }
        };
        let order_id = self.next_order_id();
        self.orders_accepted += 1;
        emit(Event::Accepted(Accepted {
            key: order.key,
            order_id,
            instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: order.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        let mut incoming = Order::entered(order, order_id, instrument_id, order.display);
        incoming.is_instructed = order.instructions.without_shown().is_some()
            || is_patient(
                order.order_type,
                order.time_in_force,
                order.conditions.minimum_quantity,
                &order.instructions,
            );
        let phase = self.trading(instrument_id).phase;
        incoming.set_waits(phases::waits(phase, order.order_type, order.time_in_force));
        let terms = EntryTerms {
            order_type: order.order_type,
            minimum_quantity: order.conditions.minimum_quantity,
            instructions: order.instructions,
        };
        if incoming.is_instructed {
            return self.enter_instructed(incoming, &terms, &order.instructions, emit);
        }
        self.reserve(&incoming, &terms, emit);
        self.trade_and_rest(incoming, &terms, emit);
    }

    #[inline(never)]
    fn replace(&mut self, replace: &ReplaceOrder, emit: &mut dyn FnMut(Event)) {
        let key = replace.key;
        let Some(session) = self.sessions.get(key.session_id) else { return };
        let original_key = OrderKey { user_ref_num: replace.original_user_ref_num, ..key };
        let Some(slot) = session.find(original_key) else { return };
        if !session.is_unused(key) {
            return;
        }
        let original = self.pool[slot].order;
        if let Err(reason) = check::entry(self.day, session, original.firm) {
            let name = replace.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id);
            self.consume(key);
            return self.reject(key, reason, name, emit);
        }
        let book = self.book_of(&original);
        let symbol = book.instrument().symbol;
        let taken = self
            .check_blocks(key, original.firm, symbol, original.side, original.group_id)
            .and_then(|()| phases::is_open(book.trading.phase));
        if let Err(reason) = taken {
            let name = replace.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id);
            self.consume(key);
            return self.reject(key, reason, name, emit);
        }
        let phase = book.trading.phase;
        let named = replace.terms.map(|terms| keep_auction(&original, terms));
        let accepted = named.and_then(|terms| {
            let instructions = self.instructions_of_replacement(slot, &terms)?;
            let type_in_book = check::type_in_book(terms.order_type, &instructions);
            let waits = phases::waits(phase, type_in_book, terms.time_in_force);
            let id = original.instrument_id;
            let book = self.book_of(&original);
            let acceptable =
                check::replacement(book, &original, &terms, &instructions, self.timestamp)
                    && self.check_bounded(id, original.side, type_in_book, waits).is_ok();
            acceptable.then_some((terms, instructions))
        });
        let Some((terms, instructions)) = accepted else {
            return self.cancel_all(slot, CancelReason::User, emit);
        };
        self.money.count_asked(key.session_id, self.timestamp, &mut self.hash);
        if let Err(reason) = self.check_replacement(&original, &terms, &instructions) {
            self.consume(key);
            return self.reject(key, reason, terms.client_order_id, emit);
        }
        let book = self.book_of(&original);

        let minimum_quantity = terms.conditions.minimum_quantity.unwrap_or_default();
        let (order_type, life) = (terms.order_type, terms.time_in_force);
        let is_patient = is_patient(order_type, life, minimum_quantity, &instructions);
        let rests_at_once = terms.order_type == OrderType::Limit
            && terms.time_in_force.may_rest()
            && (phase.collects() || !book.would_cross(original.side, Some(terms.price)))
            && !instructions.pricing.is_triggered()
            && !is_patient;
        let was_booked = self.is_booked(slot);
        self.consume(key);
        let standing_id = self.instruct(slot, is_patient, &instructions);
        self.take(slot);
        let mut replacement = Order::new(OrderTerms {
            order_id: self.next_order_id(),
            key,
            price: terms.price,
            quantity: terms.quantity,
            executed: original.executed(),
            prevented: original.prevented(),
            instrument_id: original.instrument_id,
            group_id: original.group_id,
            firm: original.firm,
            side: terms.side.unwrap_or(original.side),
            display: terms.display,
            capacity: original.capacity,
            customer_type: original.customer_type,
            conditions: terms.conditions.apply(original.conditions()),
            time_in_force: terms.time_in_force,
            is_instructed: standing_id.is_some(),
        });
        let type_in_book = check::type_in_book(terms.order_type, &instructions);
        replacement.set_waits(phases::waits(phase, type_in_book, terms.time_in_force));
        if instructions.pricing.is_pegged() {
            replacement.set_price(Price::ZERO);
        }
        let in_place = was_booked && rests_at_once && self.shown_alike(&original, &replacement);
        let entry_terms =
            EntryTerms { order_type: terms.order_type, minimum_quantity, instructions };
        if let Some(id) = standing_id {
            self.rename(id, &replacement, &entry_terms, terms.price);
        }
        emit(Event::Replaced(Replaced {
            key,
            original_user_ref_num: replace.original_user_ref_num,
            original_order_id: original.order_id,
            order_id: replacement.order_id,
            instrument_id: replacement.instrument_id,
            side: replacement.side,
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: replacement.display,
            in_place,
            original_displayed: was_booked && original.is_displayed(),
            leaves: replacement.leaves().lots(),
            price: terms.price.ticks(),
            client_order_id: terms.client_order_id,
            firm: replacement.firm,
            capacity: replacement.capacity,
            conditions: Conditions { minimum_quantity, ..replacement.conditions() },
            instructions,
        }));
        self.release(&original, original.leaves(), Quantity::ZERO, emit);
        self.reserve(&replacement, &entry_terms, emit);
        match standing_id {
            None if in_place => {
                self.add(&mut replacement, &instructions);
            }
            None => {
                self.trade_and_rest(replacement, &entry_terms, emit);
            }
            Some(id) if in_place => self.rest_instructed(replacement, id),
            Some(id) => self.begin(replacement, id, emit),
        }
    }

    fn cancel(&mut self, cancel: &CancelOrder, emit: &mut dyn FnMut(Event)) {
        let Some(slot) = self.find(cancel.key) else { return };
        let quantity = self.pool[slot].order.excess(cancel.quantity);
        if !quantity.is_zero() {
            self.cancel_some(slot, quantity, CancelReason::User, emit);
        }
    }

    #[inline(never)]
    fn modify(&mut self, modify: &ModifyOrder, emit: &mut dyn FnMut(Event)) {
        let Some(slot) = self.find(modify.key) else { return };
        let before = self.pool[slot].order;
        let quantity = before.excess(modify.quantity);
        let changes = modify.side != before.side || !quantity.is_zero();
        let may_become = check::side_change(before.side, modify.side)
            && (modify.side == before.side || self.money.may_become(&before, modify.side));
        if !changes || !may_become {
            return;
        }
        let mut after = before;
        after.side = modify.side;
        after.reduce(quantity);
        let shown = self.change(slot, after);
        emit(Event::Modified(Modified {
            key: after.key,
            order_id: after.order_id,
            instrument_id: after.instrument_id,
            side: after.side,
            quantity,
            leaves: after.leaves(),
            shown,
        }));
        self.release(&after, before.leaves(), after.leaves(), emit);
    }

    #[inline(never)]
    fn mass_cancel(&mut self, mass: &MassCancel, emit: &mut dyn FnMut(Event)) {
        if !self.consume(mass.key) {
            return;
        }
        emit(Event::MassCanceled(MassCanceled {
            key: mass.key,
            firm: mass.firm,
            symbol: mass.symbol,
            side: mass.side,
            group_id: mass.group_id,
        }));
        let mut found = mem::take(&mut self.found);
        self.find_all(mass, &mut found);
        for slot in found.drain(..) {
            self.cancel_all(slot, CancelReason::User, emit);
        }
        self.found = found;
    }

    #[inline(never)]
    fn cancel_on_disconnect(&mut self, cancel: &CancelOnDisconnect, emit: &mut dyn FnMut(Event)) {
        let Some(session) = self.sessions.get(cancel.session_id) else { return };
        let mut found = mem::take(&mut self.found);
        found.extend(session.iter_live().map(|(_, slot)| slot));
        found.sort_unstable_by_key(|slot| self.pool[*slot].order.key);
        for slot in found.drain(..) {
            self.cancel_all(slot, CancelReason::Supervisory, emit);
        }
        self.found = found;
    }

    #[inline(never)]
    fn switch_entry(&mut self, switch: &EntrySwitch, emit: &mut dyn FnMut(Event)) {
        let EntrySwitch { key, firm, enabled } = *switch;
        if !self.consume(key) {
            return;
        }
        if self.sessions.owner_mut(key).switch_entry(firm, enabled, &mut self.hash) {
            emit(Event::EntrySwitched(EntrySwitched { key, firm, enabled }));
        } else {
            self.reject(key, RejectReason::NotSupported, ClientOrderId::BLANK, emit);
        }
    }

    #[inline(never)]
    fn query_account(&mut self, query: &AccountQuery, emit: &mut dyn FnMut(Event)) {
        let Some(session) = self.sessions.get(query.session_id) else { return };
        emit(Event::AccountQueried(AccountQueried {
            session_id: query.session_id,
            channel: query.channel,
            next_user_ref_num: session.user_ref_num_last(query.channel).saturating_add(1),
        }));
    }

    #[inline(never)]
    fn refuse(&mut self, refused: &RefusedOrder, emit: &mut dyn FnMut(Event)) {
        if self.consume(refused.key) {
            self.reject(refused.key, refused.reason, refused.client_order_id, emit);
        }
    }

    /// All checks of a new order; what it trades, if it passes them.
    #[inline]
    fn check(&self, order: &EnterOrder) -> Result<InstrumentId, RejectReason> {
        let session = self.sessions.owner(order.key);
        check::entry(self.day, session, order.attributes.firm)?;
        let number = self.symbols.find(&order.symbol).ok_or(RejectReason::InvalidSymbol)?;
        let book = &self.books[usize::from(number) - 1];
        let OrderAttributes { firm, group_id, .. } = order.attributes;
        self.check_blocks(order.key, firm, order.symbol, order.side, group_id)?;
        let trading = &book.trading;
        phases::is_open(trading.phase)?;
        check::terms(book, order.order_type, order.quantity, order.price)?;
        let instructions = &order.instructions;
        check::display(order.display, instructions)?;
        let type_in_book = check::type_in_book(order.order_type, instructions);
        check::minimum(
            order.conditions.minimum_quantity,
            order.order_type,
            order.time_in_force,
            instructions.pricing.is_pegged(),
            order.quantity,
        )?;
        check::reserve(order.display, order.quantity, instructions)?;
        check::peg(book, order.order_type, order.time_in_force, instructions)?;
        let conditions = &order.conditions;
        check::offered(order.order_type, order.time_in_force, conditions, instructions)?;
        check::expiry(order.time_in_force, instructions.expires_s, self.timestamp)?;
        if instructions.is_some() {
            check::trigger(book, order.side, order.order_type, instructions)?;
            self.check_links(order, InstrumentId(number))?;
        }
        if !trading.is_plain || order.time_in_force.is_for_auction() {
            let minimum_quantity = order.conditions.minimum_quantity;
            let EnterOrder { order_type, time_in_force, side, quantity, price, .. } = *order;
            let phase = trading.phase;
            phases::takes(phase, type_in_book, time_in_force, minimum_quantity, instructions)?;
            let waits = phases::waits(phase, type_in_book, time_in_force);
            self.check_bounded(InstrumentId(number), side, type_in_book, waits)?;
            trading.limits(side, order_type, quantity, price)?;
        }
        if session.is_full() {
            return Err(RejectReason::TooManyOrders);
        }
        let instrument_id = InstrumentId(number);
        self.check_money(order, instrument_id)?;
        Ok(instrument_id)
    }

    /// Trades an order as far as it goes and may; what is left rests, or is canceled if it may not.
    fn trade_and_rest(
        &mut self,
        mut order: Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) -> CameIn {
        let rested = self.trade_or_rest(&mut order, terms, emit);
        CameIn { executed: order.executed(), rested }
    }

    /// As [`trade_and_rest`](Self::trade_and_rest); the slot in which it rests, if it does.
    fn trade_or_rest(
        &mut self,
        order: &mut Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) -> Option<Slot> {
        let Trading { is_plain, phase, .. } = self.book_of(order).trading;
        if !is_plain && phase.collects() || order.waits() != Waits::No {
            return Some(self.rest_and_tell(order, &terms.instructions, emit));
        }
        let limit = match terms.order_type {
            OrderType::Limit => Some(order.price()),
            OrderType::Market | OrderType::MarketToLimit => None,
        };
        let crosses = self.book_of(order).would_cross(order.side, limit);
        if crosses && order.post_only() {
            self.cancel_at_once(order, CancelReason::PostOnly, emit);
            return None;
        }
        let minimum = match order.time_in_force {
            TimeInForce::FillOrKill => order.leaves(),
            _ => terms.minimum_quantity.quantity(),
        };
        // Beyond a band nothing trades; `None` is nothing at all.
        let within = if is_plain { Some(limit) } else { self.within_band(order, limit) };
        let reaches = || within.is_some_and(|limit| self.reaches_minimum(order, limit, minimum));
        if !minimum.is_zero() && !reaches() {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            return None;
        }
        let price_last = match within {
            Some(limit) if crosses => self.trade(order, limit, emit),
            _ => None,
        };
        if !is_plain {
            self.keep_price_last(order, price_last);
        }
        if order.is_done() {
            self.money.finish_market(order, &mut self.hash, emit);
            return None;
        }
        let is_stopped =
            within != Some(limit) && self.book_of(order).would_cross(order.side, limit);
        if is_stopped && self.book_of(order).trading.pause_s == 0 {
            self.cancel_at_once(order, CancelReason::Collar, emit);
            return None;
        }
        if is_stopped {
            let (to, cause) = (Phase::VolatilityAuction, PhaseCause::Band);
            self.enter_phase(order.instrument_id, &PhaseStep::new(to, cause), emit);
        }
        // A pegged order has no price in an auction.
        if is_stopped && terms.instructions.pricing.is_pegged() {
            self.indicate(order.instrument_id, true, emit);
            self.refresh_auctions();
            return None;
        }
        let limit = match terms.order_type {
            OrderType::MarketToLimit => price_last,
            _ => limit,
        };
        let rested = if let Some(limit) = limit
            && order.time_in_force.may_rest()
        {
            if order.price() != limit {
                order.set_price(limit);
                self.money.rest_market(order, &mut self.hash, emit);
            }
            Some(self.rest_and_tell(order, &terms.instructions, emit))
        } else {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            None
        };
        if is_stopped {
            self.indicate(order.instrument_id, true, emit);
            self.refresh_auctions();
        }
        rested
    }

    /// An order rests from now on; where.
    #[inline]
    fn rest_and_tell(
        &mut self,
        order: &mut Order,
        instructions: &Instructions,
        emit: &mut dyn FnMut(Event),
    ) -> Slot {
        let (slot, shown) = self.add(order, instructions);
        emit(Event::Booked(Booked {
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            price: order.price(),
            leaves: order.leaves(),
            shown,
            attribution: self.attribution(order),
        }));
        slot
    }

    /// The limit to which an order trades now, its own or the end of the band; `None` if not even
    /// the best price of the other side is in the band.
    #[cold]
    pub(crate) fn within_band(&self, order: &Order, limit: Option<Price>) -> Option<Option<Price>> {
        let book = self.book_of(order);
        let Some((low, high)) = book.trading.band() else { return Some(limit) };
        let low = book.price_at_or_above(low);
        if order.side.is_buy() {
            let starts = book.best_ask().is_none_or(|ask| low <= ask);
            starts.then(|| Some(limit.map_or(high, |limit| limit.min(high))))
        } else {
            let starts = book.best_bid().is_none_or(|bid| bid <= high);
            starts.then(|| Some(limit.map_or(low, |limit| limit.max(low))))
        }
    }

    /// A dynamic band refers to the price of the last trade.
    #[cold]
    fn keep_price_last(&mut self, order: &Order, price_last: Option<Price>) {
        let Some(price) = price_last else { return };
        if self.book_of(order).trading.dynamic_band != 0 {
            self.change_trading(order.instrument_id, |trading| trading.price_last = price);
        }
    }

    /// Would an incoming order trade at least its minimum at once?
    #[inline(never)]
    fn reaches_minimum(&self, order: &Order, limit: Option<Price>, minimum: Quantity) -> bool {
        let prevention = self_match::meant(&self.sessions, order);
        self.book_of(order).would_trade(
            &self.pool,
            order,
            Reach::all(limit),
            minimum,
            |maker| {
                let is_own = self_match::is_own(&self.sessions, prevention, order, maker);
                is_own.then_some(prevention)
            },
            |slot| self.reserves.get(slot).shown.quantity(),
        )
    }

    /// Trades an order as far as it goes; the price of its last trade, if it had one.
    #[inline(never)]
    fn trade(
        &mut self,
        order: &mut Order,
        limit: Option<Price>,
        emit: &mut (impl Emit + ?Sized),
    ) -> Option<Price> {
        let Self {
            sessions,
            books,
            pool,
            reserves,
            standings,
            money,
            order_id_last,
            trade_id_last,
            trades,
            hash,
            ..
        } = self;
        let book = &mut books[usize::from(order.instrument_id.0) - 1];
        let prevention = self_match::meant(sessions, order);
        let mut settlement = Settlement {
            prevention,
            sessions,
            reserves,
            standings,
            money,
            order_id_last,
            trade_id_last,
            trades,
            hash,
            emit,
            price_first: Price::ZERO,
            price_last: Price::ZERO,
        };
        book.cross(pool, order, limit, &mut settlement);
        let (first, last) = (settlement.price_first, settlement.price_last);
        self.touch(order.instrument_id);
        let has_traded = last != Price::ZERO;
        if has_traded {
            self.note_trades(order.instrument_id, first, last);
        }
        has_traded.then_some(last)
    }

    /// An order, or another request, is rejected.
    fn reject(
        &self,
        key: OrderKey,
        reason: RejectReason,
        client_order_id: ClientOrderId,
        emit: &mut dyn FnMut(Event),
    ) {
        emit(Event::Rejected(Rejected { key, reason, client_order_id, cause: self.cause }));
    }

    /// Cancels all that is left of an order that does not rest.
    fn cancel_at_once(&mut self, order: &Order, reason: CancelReason, emit: &mut dyn FnMut(Event)) {
        emit(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            quantity: order.leaves(),
            leaves: Quantity::ZERO,
            booked: false,
            shown: Shown::NONE,
            reason,
            cause: self.cause,
        }));
        self.release(order, order.leaves(), Quantity::ZERO, emit);
    }

    /// Cancels all that is open of a resting order.
    fn cancel_all(&mut self, slot: Slot, reason: CancelReason, emit: &mut dyn FnMut(Event)) {
        self.cancel_some(slot, self.pool[slot].order.leaves(), reason, emit);
    }

    /// Cancels some of what is open of a resting order.
    #[inline(never)]
    fn cancel_some(
        &mut self,
        slot: Slot,
        quantity: Quantity,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let booked = self.is_booked(slot);
        let before = &self.pool[slot].order;
        let mut order = *before;
        order.reduce(quantity);
        let shown = self.change(slot, order);
        emit(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            quantity,
            leaves: order.leaves(),
            booked,
            shown,
            reason,
            cause: self.cause,
        }));
        let leaves = order.leaves();
        self.release(&order, Quantity(leaves.0 + quantity.0), leaves, emit);
    }

    /// Uses a number up; false, and nothing is done, if the session is unknown or the number is
    /// not above the last.
    #[inline]
    fn consume(&mut self, key: OrderKey) -> bool {
        let session = self.sessions.get_mut(key.session_id);
        session.is_some_and(|session| session.consume(key, &mut self.hash))
    }

    /// A live order by its owner's name for it.
    #[inline]
    fn find(&self, key: OrderKey) -> Option<Slot> {
        self.sessions.get(key.session_id)?.find(key)
    }

    /// The live orders that a mass cancel means, by channel and number.
    fn find_all(&self, mass: &MassCancel, found: &mut Vec<Slot>) {
        let session = self.sessions.owner(mass.key);
        let instrument_id = self.symbols.find(&mass.symbol).map(InstrumentId);
        let means = |order: &Order| {
            session.resolve(order.firm) == session.resolve(mass.firm)
                && (mass.symbol.is_blank() || instrument_id == Some(order.instrument_id))
                && mass.side.is_none_or(|side| side == order.side)
                && mass.group_id.is_none_or(|group_id| group_id == order.group_id)
        };
        let live = session.iter_live().map(|(_, slot)| slot);
        found.extend(live.filter(|slot| means(&self.pool[*slot].order)));
        found.sort_unstable_by_key(|slot| self.pool[*slot].order.key);
    }

    /// An order rests now, and its session knows it; where, and how much of it is shown.
    #[inline]
    fn add(&mut self, order: &mut Order, instructions: &Instructions) -> (Slot, Quantity) {
        order.is_reserve = instructions.shown_quantity != Lots::ZERO && order.waits() == Waits::No;
        let slot = self.rest(order);
        self.sessions.owner_mut(order.key).add_live(order.key, slot);
        self.money.add_live(order.key.session_id);
        let shown = match order.is_reserve {
            true => self.reserves.add(slot, order, instructions, &mut self.hash),
            false => order.shown_whole(),
        };
        (slot, shown)
    }

    /// An order rests now.
    #[inline(never)]
    fn rest(&mut self, order: &Order) -> Slot {
        let book = &mut self.books[usize::from(order.instrument_id.0) - 1];
        let slot = book.add(&mut self.pool, order);
        if book.trading.phase == Phase::Continuous {
            book.check_not_crossed();
        }
        self.hash.add(order.hash());
        self.touch(order.instrument_id);
        self.note_patients(order.instrument_id);
        slot
    }

    /// A live order is done; as it was then.
    #[inline]
    fn remove(&mut self, slot: Slot) -> Order {
        if self.pool[slot].order.is_instructed {
            let id = self.standings.of(slot);
            let order = self.take(slot);
            self.standings.finish(id, order.executed());
            return order;
        }
        self.take(slot)
    }

    /// A live order leaves its place, in the book or outside, whatever becomes of it.
    fn take(&mut self, slot: Slot) -> Order {
        let order = self.pool[slot].order;
        if !order.is_instructed || self.lift(slot, &order) {
            let book = &mut self.books[usize::from(order.instrument_id.0) - 1];
            book.remove(&mut self.pool, slot);
            self.touch(order.instrument_id);
        } else {
            self.pool.remove(slot);
        }
        self.sessions.owner_mut(order.key).remove_live(order.key);
        self.money.remove_live(order.key.session_id);
        self.hash.remove(order.hash());
        if order.is_reserve {
            self.reserves.remove(slot, &order, &mut self.hash);
        }
        order
    }

    /// A resting order keeps its place with less open or another kind of sell; or, with nothing
    /// open, rests no more. Says what is shown of it.
    #[inline]
    fn change(&mut self, slot: Slot, after: Order) -> Shown {
        let before = &self.pool[slot].order;
        let shown = match before.is_reserve {
            true => self.reserves.reduce(slot, &after, &mut self.hash),
            false if !self.is_booked(slot) => Shown::NONE,
            false => after.shown_since(before.leaves()),
        };
        if after.is_done() {
            self.remove(slot);
            return shown;
        }
        let order = &mut self.pool[slot].order;
        self.hash.change(order.hash(), after.hash());
        *order = after;
        shown
    }

    /// Lots of a resting order that the feed shows.
    pub(crate) fn shown(&self, slot: Slot) -> Quantity {
        let order = &self.pool[slot].order;
        match order.is_reserve {
            true => self.reserves.get(slot).shown.quantity(),
            false => order.shown_whole(),
        }
    }

    /// What an order is told that is shown like this: what the replacement is told of which the
    /// replace says nothing.
    pub(crate) fn kept(&self, slot: Slot, display: Display) -> Instructions {
        let standing = self.standings.find(slot).map(|id| &self.standings[id]);
        let told = standing.map_or(Instructions::NONE, |standing| standing.instructions);
        // 26.7: nothing is shown of one that rests beside the book.
        let is_beside = self.pool[slot].order.waits() != Waits::No && self.is_booked(slot);
        if !display.is_displayed() || is_beside {
            return told.without_shown();
        }
        if !self.pool[slot].order.is_reserve {
            return told;
        }
        let Instructions { shown_quantity, shown_range, .. } =
            self.reserves.get(slot).instructions();
        Instructions { shown_quantity, shown_range, ..told }
    }

    #[inline]
    fn next_order_id(&mut self) -> OrderId {
        self.order_id_last.0 += 1;
        self.order_id_last
    }

    #[inline]
    fn book_of(&self, order: &Order) -> &Book {
        &self.books[usize::from(order.instrument_id.0) - 1]
    }

    /// The firm under whose name an order is shown; blank if without a name.
    #[inline]
    fn attribution(&self, order: &Order) -> Firm {
        attribution(&self.sessions, order)
    }

    /// Are both on the feed, and under one name or none?
    fn shown_alike(&self, one: &Order, other: &Order) -> bool {
        one.is_displayed()
            && other.is_displayed()
            && self.attribution(one) == self.attribution(other)
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

/// How an incoming order differs from one that rests.
struct EntryTerms {
    order_type: OrderType,
    minimum_quantity: Lots,
    instructions: Instructions,
}

/// What became of an incoming order.
struct CameIn {
    /// Executed so far by its whole chain.
    executed: Quantity,
    /// Where it rests, if it does.
    rested: Option<Slot>,
}

/// An order for one auction only stays one, unless the replace names another life than the day.
fn keep_auction(original: &Order, terms: ReplaceTerms) -> ReplaceTerms {
    let time_in_force = match (terms.time_in_force, original.waits()) {
        (TimeInForce::Day, Waits::Open) => TimeInForce::AtTheOpen,
        (TimeInForce::Day, Waits::Close) => TimeInForce::AtTheClose,
        (TimeInForce::Day, Waits::Next) => TimeInForce::GoodForAuction,
        (named, _) => named,
    };
    ReplaceTerms { time_in_force, ..terms }
}

/// The firm under whose name an order is shown; blank if without a name.
#[inline]
fn attribution(sessions: &Sessions, order: &Order) -> Firm {
    match order.display {
        _ if order.waits() != Waits::No => Firm::BLANK,
        Display::Attributable => sessions.owner(order.key).resolve(order.firm),
        Display::Visible | Display::Hidden => Firm::BLANK,
    }
}
