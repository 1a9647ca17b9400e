//! The line of what waits to be canceled: orders that were found, and sweeps, which find those of a
//! channel at their turn.
//!
//! Invariant: the line is sorted by round, and in a round by arrival.

use alloc::collections::VecDeque;

use market::{
    CancelReason, DecodeError, Firm, InstrumentId, OrderKey, SessionId, Side, TimeInForce,
    bytes::{ByteReader, Encoded},
    encoded, kinds,
};

use crate::{
    intake::session::Session,
    order::Order,
    state::hash::{self, StateHash},
};

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
    pub(super) last: u32,
    pub(super) selection: Selection,
    pub(crate) reason: CancelReason,
    /// The first turn that it has not looked at; see [`turn_of`](super::client_order_index).
    pub(super) from: u64,
}

/// The orders that a command means, of its sessions. What is `None` is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Never blank, unless a session's own firm is.
    pub(crate) firm: Option<Firm>,
    pub(crate) instrument_id: Option<InstrumentId>,
    pub(crate) side: Option<Side>,
    pub(crate) group_id: Option<u16>,
    /// Only those that end with the day.
    pub(crate) of_the_day: bool,
}

impl Selection {
    pub(crate) const ALL: Self =
        Self { firm: None, instrument_id: None, side: None, group_id: None, of_the_day: false };

    /// True if it selects an order of this session.
    pub(super) fn selects(&self, order: &Order, session: &Session) -> bool {
        use TimeInForce::{GoodTillCancel, GoodTillTime};
        let stays = || matches!(order.time_in_force(), GoodTillCancel | GoodTillTime);
        self.firm.is_none_or(|firm| firm == session.resolve(order.firm))
            && self.instrument_id.is_none_or(|it| it == order.instrument_id)
            && self.side.is_none_or(|side| side == order.side())
            && self.group_id.is_none_or(|group_id| group_id == order.group_id)
            && !(self.of_the_day && stays())
    }

    fn hash(&self) -> u64 {
        let Self { firm, instrument_id, side, group_id, of_the_day } = *self;
        let either = |it: Option<u64>| it.map_or(0, |it| it + 1);
        let criteria = either(instrument_id.map(|id| u64::from(id.0)))
            | either(group_id.map(u64::from)) << 17
            | either(side.map(|side| u64::from(side.code()))) << 34
            | u64::from(of_the_day) << 43;
        hash::mix([criteria, firm.map_or(u64::MAX, |firm| hash::word(&firm))])
    }
}

/// What waits in line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Order(PendingCancel),
    Sweep(Sweep),
}

encoded! {
    PendingCancel { key, reason }
    Sweep { session_id, channel, last, selection, reason, from }
    Selection { firm, instrument_id, side, group_id, of_the_day }
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
            Self::Sweep(Sweep { session_id, channel, last, selection, reason, from }) => {
                let names = u64::from(session_id.0) << 48 | u64::from(*channel) << 40;
                let name = names | u64::from(reason.code()) << 32 | u64::from(*last);
                hash::mix([hash::SWEEP, line, place, name, selection.hash(), *from])
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

/// A place in line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) round: u64,
    /// How many were put in line before since it was last empty.
    arrival: u64,
    pub(super) pending: Pending,
}

encoded! {
    Waiting { round, arrival, pending }
}

impl Waiting {
    /// Its element of the state hash.
    fn hash(&self, factor: u64) -> u64 {
        self.pending.hash(factor, self.arrival.wrapping_add(self.round << 40))
    }
}

/// A line of what waits to be canceled, by round and then by arrival.
#[derive(Debug)]
pub(crate) struct PendingCancels {
    /// The factor of its elements of the state hash.
    factor: u64,
    pub(super) line: VecDeque<Waiting>,
    /// The arrival of the next.
    next: u64,
    /// How many of them are sweeps.
    pub(super) sweeps: usize,
}

impl PendingCancels {
    pub(crate) const fn new(factor: u64) -> Self {
        Self { factor, line: VecDeque::new(), next: 0, sweeps: 0 }
    }

    /// How many orders are in line, but for those of sweeps.
    pub(crate) fn order_count(&self) -> usize {
        self.line.len() - self.sweeps
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The round whose turn it is.
    pub(super) fn round(&self) -> u64 {
        self.line.front().map_or(0, |first| first.round)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.line.iter().map(|waiting| &waiting.pending)
    }

    /// The orders in line, but for those of sweeps.
    pub(crate) fn orders(&self) -> impl Iterator<Item = PendingCancel> {
        self.iter().filter_map(Pending::order)
    }

    /// Adds an order behind those of this round.
    pub(crate) fn push_order(&mut self, order: PendingCancel, hash: &mut StateHash) {
        self.push(self.round(), Pending::Order(order), hash);
    }

    /// Adds an order or a sweep behind the others of its round.
    pub(super) fn push(&mut self, round: u64, pending: Pending, hash: &mut StateHash) {
        let waiting = Waiting { round, arrival: self.next, pending };
        self.next += 1;
        hash.add(waiting.hash(self.factor));
        self.sweeps += usize::from(pending.order().is_none());
        let index = self.line.partition_point(|other| other.round <= round);
        self.line.insert(index, waiting);
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self, hash: &mut StateHash) -> Option<Pending> {
        let waiting = self.line.pop_front()?;
        hash.remove(waiting.hash(self.factor));
        self.sweeps -= usize::from(waiting.pending.order().is_none());
        if self.line.is_empty() {
            self.next = 0;
        }
        Some(waiting.pending)
    }

    /// The sweep that is first in line goes on from this turn.
    pub(super) fn go_on(&mut self, sweep: Sweep, from: u64, hash: &mut StateHash) {
        let first = self.line.front_mut().expect("it is first in line");
        let before = first.hash(self.factor);
        first.pending = Pending::Sweep(Sweep { from, ..sweep });
        hash.change(before, first.hash(self.factor));
    }

    /// Adds the elements of the state hash.
    pub(crate) fn add_hashes(&self, hash: &mut StateHash) {
        self.line.iter().for_each(|waiting| hash.add(waiting.hash(self.factor)));
    }

    /// The records of a snapshot, each with the arrival of the next.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, impl Encoded)> {
        self.line.iter().map(|waiting| (self.next, *waiting))
    }

    /// Restores one of the line; the error is the field that cannot be.
    pub(crate) fn restore(
        &mut self,
        from: &mut ByteReader<'_>,
        hash: &mut StateHash,
    ) -> Result<(), DecodeError> {
        let (next, waiting): (u64, Waiting) = (from.read("next place")?, from.read("pending")?);
        let Waiting { round, arrival, pending } = waiting;
        let last = self.line.back().map(|last| (last.round, last.arrival));
        let is_in_order = last.is_none_or(|last| last < (round, arrival));
        if !is_in_order || next <= arrival || (!self.is_empty() && next != self.next) {
            return Err(DecodeError::Field("place"));
        }
        self.next = arrival;
        self.push(round, pending, hash);
        self.next = next;
        Ok(())
    }
}
