//! Cancels in steps: a command that cancels many orders cancels a portion of them, and the rest
//! before the next inputs, a portion each.
//!
//! Orders are canceled in the order in which they were found; those whose time is over come first,
//! by expiry and owner's name, straight from the index of expiries. Until its turn an order is live
//! like any other. [`Engine::due`] asks for an input while orders wait.
//!
//! Invariant: an order waits at most once, but one that waited already when its time was over. One
//! that is entered later, as a replacement too, does not wait.

use alloc::{collections::VecDeque, vec::Vec};
use core::mem;

use market::{CancelReason, Event, OrderKey, encoded};

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

/// An order that waits to be canceled; it may be done by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCancel {
    pub(crate) key: OrderKey,
    pub(crate) reason: CancelReason,
}

encoded! { PendingCancel { key, reason } }

impl PendingCancel {
    /// Its element of the state hash, at this place in a line.
    fn hash(&self, line: u64, place: u64) -> u64 {
        let OrderKey { session_id, channel, user_ref_num } = self.key;
        let names = u64::from(session_id.0) << 48 | u64::from(channel) << 40;
        let name = names | u64::from(self.reason.code()) << 32 | u64::from(user_ref_num);
        hash::fold_pair(name.wrapping_mul(line), place)
    }
}

/// A line of orders that wait to be canceled.
#[derive(Debug)]
pub(crate) struct PendingCancels {
    /// The factor of its elements of the state hash.
    factor: u64,
    line: VecDeque<PendingCancel>,
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingCancel> {
        self.line.iter()
    }

    /// Adds an order behind the others.
    pub(crate) fn push(&mut self, pending: PendingCancel, hash: &mut StateHash) {
        hash.add(pending.hash(self.factor, self.first + self.line.len() as u64));
        self.line.push_back(pending);
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self, hash: &mut StateHash) -> Option<PendingCancel> {
        let pending = self.line.pop_front()?;
        hash.remove(pending.hash(self.factor, self.first));
        self.first = if self.line.is_empty() { 0 } else { self.first + 1 };
        Some(pending)
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
        pending: PendingCancel,
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
                self.pending_cancels.push(PendingCancel { key: order.key, reason }, &mut self.hash);
            }
        }
        self.found = found;
        self.begin_cancels(was_empty, emit);
    }

    /// Cancels the first orders that wait for it, if none waited before.
    pub(crate) fn begin_cancels(&mut self, was_empty: bool, emit: &mut dyn FnMut(Event)) {
        if was_empty {
            self.cancel_portion(emit);
        }
        self.plan_resumption();
    }

    /// Cancels the first orders that wait for it.
    fn cancel_portion(&mut self, emit: &mut dyn FnMut(Event)) {
        for _ in 0..CANCELS_MAX {
            let held = self.next_held_cancel();
            if held.is_none()
                && let Some(id) = self.contingents.expiries.first_begun()
            {
                let Contingent { slot, key, .. } = self.contingents[id];
                let expired = PendingCancel { key, reason: CancelReason::Expired };
                self.cancel_or_hold(slot, expired, emit);
                continue;
            }
            let next = held.or_else(|| self.pending_cancels.pop(&mut self.hash));
            let Some(pending) = next else { return };
            if let Some(slot) = self.find(pending.key) {
                self.cancel_or_hold(slot, pending, emit);
            }
        }
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
        self.auction_line.held.push(pending, &mut self.hash);
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
        if auction_line.is_empty() { auction_line.held.pop(hash) } else { None }
    }

    /// How many orders wait to be canceled, but for those whose time is over.
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
        let in_line = |line: &PendingCancels| -> Vec<_> {
            line.iter().filter_map(|pending| self.find(pending.key)).collect()
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
