//! Cancels in steps: a command that cancels many orders cancels a portion of them, and the rest
//! before the next inputs, a portion each.
//!
//! Orders are canceled in the order in which they were found; those whose time is over come first,
//! by expiry and owner's name, straight from the index of expiries. Until its turn an order is live
//! like any other. [`Engine::due`] asks for an input while orders wait.
//!
//! A command that means all orders of a session finds them only at their turn: in line is a
//! [`Sweep`], a place among the session's live orders. Numbers only rise, so the last number used
//! before the command tells which orders are newer.
//!
//! Invariant: an order waits at most once, but one that waited already when its time was over, and
//! those of a sweep. One that is entered later, as a replacement too, does not wait.

use alloc::{collections::VecDeque, vec::Vec};
use core::mem;

use market::{CancelReason, Event, Firm, OrderKey, SessionId, encoded, kinds};

use crate::{
    Engine,
    book::pool::Slot,
    contingent::{
        expiry::Expiries,
        instructions::{Contingent, ContingentId, Contingents},
        linked::TRIGGERED_MAX,
        minimum_quantity::CHECKS_MAX,
        pegs::MOVES_MAX,
    },
    state::hash::{self, StateHash},
};

/// The most orders that a command cancels at once, and as many again before each later input.
pub(crate) const CANCELS_MAX: usize = 32;

/// The most live orders that sweeps look at for that.
const LOOKS_MAX: usize = 128;

/// An order that waits to be canceled; it may be done by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCancel {
    pub(crate) key: OrderKey,
    pub(crate) reason: CancelReason,
}

/// The orders of a channel of a session that wait to be canceled, and are found at their turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) session_id: SessionId,
    pub(crate) channel: u8,
    /// Orders with higher numbers are newer than the command.
    last: u32,
    /// Only orders of this firm; never blank, unless the session's own firm is.
    firm: Option<Firm>,
    pub(crate) reason: CancelReason,
    /// The first turn that it has not looked at; see [`turn_of`](super::client_order_index).
    from: u64,
}

/// What waits in line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Order(PendingCancel),
    Sweep(Sweep),
}

encoded! {
    PendingCancel { key, reason }
    Sweep { session_id, channel, last, firm, reason, from }
}

kinds! {
    Pending {
        1 => Order(order),
        2 => Sweep(sweep),
    }
}

impl Pending {
    /// Its element of the state hash, at this place in a line.
    fn hash(&self, line: u64, place: u64) -> u64 {
        match self {
            Self::Order(PendingCancel { key, reason }) => {
                let OrderKey { session_id, channel, user_ref_num } = *key;
                let names = u64::from(session_id.0) << 48 | u64::from(channel) << 40;
                let name = names | u64::from(reason.code()) << 32 | u64::from(user_ref_num);
                hash::fold_pair(name.wrapping_mul(line), place)
            }
            Self::Sweep(Sweep { session_id, channel, last, firm, reason, from }) => {
                let names = u64::from(session_id.0) << 48 | u64::from(*channel) << 40;
                let name = names | u64::from(reason.code()) << 32 | u64::from(*last);
                let firm = firm.map_or(u64::MAX, |firm| hash::word(&firm));
                hash::mix([hash::SWEEP, line, place, name, firm, *from])
            }
        }
    }

    /// The order, if it is one.
    pub(crate) fn order(&self) -> Option<PendingCancel> {
        match self {
            Self::Order(order) => Some(*order),
            Self::Sweep(_) => None,
        }
    }
}

/// A line of orders that wait to be canceled.
#[derive(Debug)]
pub(crate) struct PendingCancels {
    /// The factor of its elements of the state hash.
    factor: u64,
    line: VecDeque<Pending>,
    /// The place of the first: how many went before it since the line was last empty.
    first: u64,
}

impl PendingCancels {
    pub(crate) const fn new(factor: u64) -> Self {
        Self { factor, line: VecDeque::new(), first: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The place of the first.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.line.iter()
    }

    /// The orders in line, but for those of sweeps.
    pub(crate) fn orders(&self) -> impl Iterator<Item = PendingCancel> {
        self.line.iter().filter_map(Pending::order)
    }

    /// Adds an order or a sweep behind the others.
    pub(crate) fn push(&mut self, pending: Pending, hash: &mut StateHash) {
        hash.add(pending.hash(self.factor, self.first + self.line.len() as u64));
        self.line.push_back(pending);
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self, hash: &mut StateHash) -> Option<Pending> {
        let pending = self.line.pop_front()?;
        hash.remove(pending.hash(self.factor, self.first));
        self.first = if self.line.is_empty() { 0 } else { self.first + 1 };
        Some(pending)
    }

    /// The sweep that is first in line goes on from this turn.
    fn go_on(&mut self, sweep: Sweep, from: u64, hash: &mut StateHash) {
        let after = Pending::Sweep(Sweep { from, ..sweep });
        let first = self.line.front_mut().expect("it is first in line");
        hash.change(first.hash(self.factor, self.first), after.hash(self.factor, self.first));
        *first = after;
    }

    /// Adds the elements of the state hash.
    pub(crate) fn add_hashes(&self, hash: &mut StateHash) {
        for (pending, place) in self.line.iter().zip(self.first..) {
            hash.add(pending.hash(self.factor, place));
        }
    }

    /// Restores the line; the error is the field that cannot be.
    pub(crate) fn restore(
        &mut self,
        first: u64,
        pending: Pending,
        hash: &mut StateHash,
    ) -> Result<(), &'static str> {
        if self.line.is_empty() {
            self.first = first;
        }
        if first != self.first {
            return Err("place");
        }
        self.push(pending, hash);
        Ok(())
    }
}

impl Engine {
    /// Cancels these live orders, in this order: the first of them now, if no other orders wait to
    /// be canceled, and the rest in steps. Orders that wait already keep their place.
    pub(crate) fn cancel_in_steps(
        &mut self,
        mut found: Vec<Slot>,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let was_empty = !self.has_cancels_left();
        for slot in found.drain(..) {
            if !self.is_leaving(slot) {
                let order = &mut self.pool[slot].order;
                order.is_leaving = true;
                let pending = Pending::Order(PendingCancel { key: order.key, reason });
                self.pending_cancels.push(pending, &mut self.hash);
            }
        }
        self.found = found;
        self.begin_cancels(was_empty, emit);
    }

    /// True if all orders of a session are too many to be found at once.
    pub(crate) fn is_swept(&self, session_id: SessionId) -> bool {
        let session = self.sessions.get(session_id);
        session.is_some_and(|session| CANCELS_MAX < session.live_orders() as usize)
    }

    /// Cancels all live orders of a session, or those of a firm: the first of them now, if no other
    /// orders wait to be canceled, and the rest in steps. They are found at their turn.
    pub(crate) fn sweep(
        &mut self,
        session_id: SessionId,
        firm: Option<Firm>,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let was_empty = !self.has_cancels_left();
        let Some(session) = self.sessions.get(session_id) else { return };
        for (channel, last) in session.live_channels() {
            let sweep = Sweep { session_id, channel, last, firm, reason, from: 0 };
            self.pending_cancels.push(Pending::Sweep(sweep), &mut self.hash);
        }
        self.begin_cancels(was_empty, emit);
    }

    /// Cancels the first orders that wait for it, if none waited before.
    pub(crate) fn begin_cancels(&mut self, was_empty: bool, emit: &mut dyn FnMut(Event)) {
        if was_empty {
            self.cancel_portion(emit);
        }
        self.plan_resumption();
    }

    /// Cancels the first orders that wait for it. A sweep that is over ends the portion, because its
    /// end costs a search of its own.
    fn cancel_portion(&mut self, emit: &mut dyn FnMut(Event)) {
        let (mut cancels, mut looks) = (CANCELS_MAX, LOOKS_MAX);
        while cancels != 0 && looks != 0 {
            let held = self.next_held_cancel();
            if held.is_none()
                && let Some(id) = self.contingents.expiries.first_begun()
            {
                let Contingent { slot, key, .. } = self.contingents[id];
                let expired = PendingCancel { key, reason: CancelReason::Expired };
                self.cancel_or_hold(slot, expired, emit);
                cancels -= 1;
                continue;
            }
            let first = self.pending_cancels.iter().next().copied();
            if held.is_none()
                && let Some(Pending::Sweep(sweep)) = first
            {
                if self.go_on_with(sweep, &mut cancels, &mut looks, emit) {
                    continue;
                }
                self.pending_cancels.pop(&mut self.hash);
                return;
            }
            let next = held.or_else(|| self.pending_cancels.pop(&mut self.hash)?.order());
            let Some(pending) = next else { return };
            if let Some(slot) = self.find(pending.key) {
                self.cancel_or_hold(slot, pending, emit);
            }
            cancels -= 1;
        }
    }

    /// Cancels the next orders of the sweep that is first in line, within these bounds; false if it
    /// found no more.
    fn go_on_with(
        &mut self,
        sweep: Sweep,
        cancels: &mut usize,
        looks: &mut usize,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let Sweep { session_id, channel, last, firm, reason, from } = sweep;
        let mut turns = mem::take(&mut self.turns);
        if let (Some(session), Ok(from)) = (self.sessions.get(session_id), from.try_into()) {
            session.find_turns(channel, from, CANCELS_MAX.min(*looks), &mut turns);
        }
        let is_over = turns.is_empty();
        let mut from = from;
        for (turn, user_ref_num) in turns.drain(..) {
            if *cancels == 0 {
                break;
            }
            from = u64::from(turn) + 1;
            let key = OrderKey { session_id, channel, user_ref_num };
            // A cancel may have canceled others.
            let Some(slot) = self.find(key) else { continue };
            *looks -= 1;
            let order = &self.pool[slot].order;
            let is_of = |firm| self.sessions.owner(key).resolve(order.firm) == firm;
            // One that an auction holds waits already.
            let waits = self.is_leaving(slot) && self.is_in_auction(slot);
            if user_ref_num <= last && firm.is_none_or(is_of) && !waits {
                self.cancel_or_hold(slot, PendingCancel { key, reason }, emit);
                *cancels -= 1;
            }
        }
        self.turns = turns;
        if !is_over {
            self.pending_cancels.go_on(sweep, from, &mut self.hash);
        }
        !is_over
    }

    /// Cancels an order at its turn; one in an auction is held until that is over.
    fn cancel_or_hold(&mut self, slot: Slot, pending: PendingCancel, emit: &mut dyn FnMut(Event)) {
        if !self.is_in_auction(slot) {
            self.cancel_all(slot, pending.reason, emit);
        } else if !self.is_held_as_expired(slot) {
            self.hold_cancel(slot, pending);
        }
    }

    /// An order is canceled when no auction is left.
    pub(crate) fn hold_cancel(&mut self, slot: Slot, pending: PendingCancel) {
        self.pool[slot].order.is_leaving = true;
        if let Some(id) = self.contingents.find(slot) {
            Expiries::remove(&mut self.contingents, id);
        }
        self.auction_line.held.push(Pending::Order(pending), &mut self.hash);
    }

    /// True if an auction holds back the cancel of an order whose time is over.
    fn is_held_as_expired(&self, slot: Slot) -> bool {
        self.expired(slot).is_some_and(|id| {
            let Contingents { expiries, .. } = &self.contingents;
            !expiries.has(self.contingents[id].moment())
        })
    }

    /// The record of an order whose time is over.
    pub(crate) fn expired(&self, slot: Slot) -> Option<ContingentId> {
        let id = self.contingents.find(slot)?;
        let expires_s = self.contingents[id].instructions.expires_s;
        self.contingents.expiries.has_begun(expires_s).then_some(id)
    }

    /// True if an order waits to be canceled.
    pub(crate) fn is_leaving(&self, slot: Slot) -> bool {
        let order = &self.pool[slot].order;
        order.is_leaving || order.is_contingent && self.expired(slot).is_some()
    }

    /// True if orders wait to be canceled.
    pub(crate) fn has_cancels_left(&self) -> bool {
        self.pending_cancel_count() != 0 || self.contingents.expiries.first_begun().is_some()
    }

    /// Once no auction is left, the next cancel that waited for one.
    fn next_held_cancel(&mut self) -> Option<PendingCancel> {
        let Self { auction_line, hash, .. } = self;
        if auction_line.is_empty() { auction_line.held.pop(hash)?.order() } else { None }
    }

    /// How many orders wait to be canceled, but for those whose time is over; a sweep counts as one.
    pub(crate) fn pending_cancel_count(&self) -> usize {
        self.pending_cancels.len() + self.auction_line.held.len()
    }

    /// Goes on with what earlier commands left over: cancels, auctions, triggered orders, pegged
    /// orders, tests of orders that wait for quantity.
    pub(crate) fn resume(&mut self, emit: &mut dyn FnMut(Event)) {
        self.cancel_portion(emit);
        self.trade_in_auctions(emit);
        self.follow_all(TRIGGERED_MAX, MOVES_MAX, CHECKS_MAX, emit);
    }

    /// What is left over goes on with the first input of a later nanosecond.
    pub(crate) fn plan_resumption(&mut self) {
        let is_left = self.has_left_over();
        self.contingents.expiries.resume_at(is_left.then_some(self.timestamp));
    }

    /// Marks the restored orders that wait to be canceled; the error is the field that is invalid.
    pub(crate) fn restore_pending_cancels(&mut self) -> Result<(), &'static str> {
        self.contingents.expiries.begin(self.timestamp.0);
        let is_known = |pending: &Pending| match pending {
            Pending::Order(_) => true,
            Pending::Sweep(sweep) => self.sessions.get(sweep.session_id).is_some(),
        };
        if !self.pending_cancels.iter().all(is_known) {
            return Err("session");
        }
        if self.auction_line.held.orders().count() != self.auction_line.held.len() {
            return Err("pending");
        }
        let in_line = |line: &PendingCancels| -> Vec<_> {
            line.orders().filter_map(|pending| self.find(pending.key)).collect()
        };
        let (pending, held) = (in_line(&self.pending_cancels), in_line(&self.auction_line.held));
        for (index, slot) in held.iter().chain(&pending).enumerate() {
            let is_twice = mem::replace(&mut self.pool[*slot].order.is_leaving, true);
            if is_twice && (index < held.len() || self.expired(*slot).is_none()) {
                return Err("key");
            }
        }
        for slot in held {
            if let Some(id) = self.contingents.find(slot) {
                Expiries::remove(&mut self.contingents, id);
            }
        }
        self.plan_resumption();
        Ok(())
    }

    /// True if earlier commands left work over.
    pub(crate) fn has_left_over(&self) -> bool {
        self.has_cancels_left()
            || self.contingents.has_triggered_left
            || self.contingents.pegs.is_behind()
            || self.contingents.minimum_quantity_orders.is_behind
            || self.auction_line.has_left()
    }
}

#[cfg(test)]
mod tests {
    use market::{
        AddInstrument, AddSession, CancelOnDisconnect, Command, EnterOrder, Input, Price, Quantity,
        SelfMatchPrevention, Side, Symbol, SystemEvent, Text, Timestamp,
    };

    use super::*;

    /// A cut of a session with 10,000 orders lists none of them: one sweep waits, and goes on.
    #[test]
    fn many_orders_are_not_looked_for() {
        let mut engine = Engine::new();
        let apply = |engine: &mut Engine, command| {
            let (sequence, mut canceled) = (engine.sequence().next(), 0);
            let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
            engine.apply(&input, &mut |event| {
                canceled += usize::from(matches!(event, Event::Canceled(_)));
            });
            canceled
        };
        let symbol = Symbol::new("AAPL").unwrap();
        let (price_increment, round_lot) = (Price(1), Quantity(1));
        for command in [
            Command::System(SystemEvent::StartOfMessages),
            Command::AddInstrument(AddInstrument { symbol, price_increment, round_lot }),
            Command::AddSession(AddSession {
                username: Text::new("A").unwrap(),
                firm: Firm::new("ACME").unwrap(),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            }),
            Command::System(SystemEvent::StartOfSystemHours),
        ] {
            apply(&mut engine, command);
        }
        for user_ref_num in 1..=10_000 {
            let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
            let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(1), Price(100));
            apply(&mut engine, Command::Enter(order));
        }
        let cut = Command::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(1) });
        assert_eq!(apply(&mut engine, cut), CANCELS_MAX);
        let looked_for = (engine.found.capacity(), engine.turns.capacity() <= 512);
        assert_eq!((engine.pending_cancels.len(), looked_for), (1, (0, true)));
        let mut canceled = CANCELS_MAX;
        while engine.due().is_some() {
            let step = apply(&mut engine, Command::Time);
            assert!(step <= CANCELS_MAX);
            canceled += step;
        }
        assert_eq!((canceled, engine.counters().orders_live), (10_000, 0));
    }
}
