//! Orders that wait to be canceled, and those that are found only at their turn.

use std::collections::BTreeSet;

use market::{CancelReason, Firm, OrderKey, SessionId};

use super::{Model, ModelOrder};

/// How many orders are canceled at once. (24.1)
const CANCELS_MAX: usize = 32;

/// How many orders of a session are looked at for that. (24.7)
const LOOKS_MAX: usize = 128;

/// How many consecutive numbers have their turn together. (24.6)
const BLOCK: u32 = 128;

/// What is still to be canceled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Order(OrderKey, CancelReason),
    Sweep(Sweep),
}

/// All orders of a channel of a session, which are found one after the other. (24.6)
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    session_id: SessionId,
    channel: u8,
    /// The last number used before the command.
    number_last: u32,
    firm: Option<Firm>,
    reason: CancelReason,
    /// The last turn that was looked at.
    after: Option<(u32, u32)>,
}

/// When it is the turn of a number. (24.6)
fn turn(number: u32) -> (u32, u32) {
    ((number / BLOCK).reverse_bits(), number % BLOCK)
}

impl Model {
    /// Cancels orders, in the order of their keys. (10.2)
    pub(super) fn cancel_each(
        &mut self,
        reason: CancelReason,
        is_meant: impl Fn(&Self, &ModelOrder) -> bool,
    ) {
        let keys = self.keys_of(is_meant);
        self.cancel_in_steps(keys, reason);
    }

    pub(super) fn keys_of(&self, is_meant: impl Fn(&Self, &ModelOrder) -> bool) -> Vec<OrderKey> {
        let meant = self.orders.iter().filter(|it| is_meant(self, it));
        let mut keys: Vec<OrderKey> = meant.map(|it| it.key).collect();
        keys.sort();
        keys
    }

    /// Cancels orders, at most so many at once. (24.1, 24.2)
    pub(super) fn cancel_in_steps(&mut self, keys: Vec<OrderKey>, reason: CancelReason) {
        let was_empty = !self.has_cancels_left();
        for key in keys {
            let place = self.place_of(key).expect("it was found live");
            if !self.is_leaving(&self.orders[place]) && !self.orders[place].is_done() {
                self.orders[place].leaving = true;
                self.pending.push_back(Pending::Order(key, reason));
            }
        }
        if was_empty {
            self.cancel_portion();
        }
    }

    /// Does any order wait to be canceled? (24.1)
    pub(super) fn has_cancels_left(&self) -> bool {
        !self.pending.is_empty() || !self.stuck.is_empty() || self.first_expired().is_some()
    }

    fn live_of(&self, session_id: SessionId) -> impl Iterator<Item = &ModelOrder> {
        self.orders.iter().filter(move |it| it.key.session_id == session_id && !it.is_done())
    }

    /// Are the orders of a session found at their turn only? (24.6)
    pub(super) fn is_swept(&self, session_id: SessionId) -> bool {
        CANCELS_MAX < self.live_of(session_id).count()
    }

    /// Cancels all orders of a session, or of a firm there. (24.6)
    pub(super) fn sweep(
        &mut self,
        session_id: SessionId,
        firm: Option<Firm>,
        reason: CancelReason,
    ) {
        let was_empty = !self.has_cancels_left();
        let channels: BTreeSet<u8> = self.live_of(session_id).map(|it| it.key.channel).collect();
        for channel in channels {
            let number_last = self.number_used(session_id, channel);
            let sweep = Sweep { session_id, channel, number_last, firm, reason, after: None };
            self.pending.push_back(Pending::Sweep(sweep));
        }
        if was_empty {
            self.cancel_portion();
        }
    }

    /// The orders whose turn it is; one may be done by now. (24.1, 24.4, 24.7)
    pub(super) fn cancel_portion(&mut self) {
        let (mut canceled, mut looked_at) = (0, 0);
        while canceled < CANCELS_MAX && looked_at < LOOKS_MAX {
            let stuck = if self.auctions.is_empty() { self.stuck.pop_front() } else { None };
            let expired = || Some((self.first_expired()?, CancelReason::Expired));
            let next = match (stuck.or_else(expired), self.pending.pop_front()) {
                (Some(next), pending) => {
                    self.pending.extend(pending);
                    self.pending.rotate_right(usize::from(pending.is_some()));
                    next
                }
                (None, None) => return,
                (None, Some(Pending::Order(key, reason))) => (key, reason),
                (None, Some(Pending::Sweep(sweep))) => {
                    let Some(order) = self.next_of(&sweep) else { return };
                    looked_at += 1;
                    canceled += usize::from(self.cancel_swept(&sweep, order));
                    let after = Some(turn(order.key.user_ref_num));
                    self.pending.push_front(Pending::Sweep(Sweep { after, ..sweep }));
                    continue;
                }
            };
            canceled += 1;
            self.cancel_at_turn(next.0, next.1);
        }
    }

    /// The next order that a sweep looks at. (24.6)
    fn next_of(&self, sweep: &Sweep) -> Option<ModelOrder> {
        let of_channel =
            self.live_of(sweep.session_id).filter(|it| it.key.channel == sweep.channel);
        let later = of_channel.filter(|it| sweep.after < Some(turn(it.key.user_ref_num)));
        later.min_by_key(|it| turn(it.key.user_ref_num)).copied()
    }

    /// Cancels an order if a sweep means it. (24.6)
    fn cancel_swept(&mut self, sweep: &Sweep, order: ModelOrder) -> bool {
        let firm = self.firm_meant(sweep.session_id, order.attributes.firm);
        let is_meant = order.key.user_ref_num <= sweep.number_last
            && sweep.firm.is_none_or(|it| it == firm)
            && !(self.is_stuck(&order) && self.is_leaving(&order));
        if is_meant {
            self.cancel_at_turn(order.key, sweep.reason);
        }
        is_meant
    }

    fn cancel_at_turn(&mut self, key: OrderKey, reason: CancelReason) {
        let place = self.place_of(key).filter(|place| !self.orders[*place].is_done());
        match place {
            // 27.16
            Some(place) if self.is_stuck(&self.orders[place]) => self.hold_back(place, reason),
            Some(_) => self.cancel_all_of(key, reason),
            None => {}
        }
    }

    /// An order waits until its auction is over, once. (27.16)
    pub(super) fn hold_back(&mut self, place: usize, reason: CancelReason) {
        let key = self.orders[place].key;
        if !self.stuck.iter().any(|(it, _)| *it == key) {
            self.orders[place].leaving = true;
            self.stuck.push_back((key, reason));
        }
    }

    /// Cancels an order, or has it wait until its auction is over. (27.16)
    pub(super) fn cancel_or_wait(&mut self, key: OrderKey, reason: CancelReason) {
        let place = self.place_of(key).expect("it was found live");
        if !self.is_stuck(&self.orders[place]) {
            return self.cancel_all_of(key, reason);
        }
        if !self.is_leaving(&self.orders[place]) {
            self.orders[place].leaving = true;
            self.stuck.push_back((key, reason));
        }
    }
}
