//! The line of pending cancels: orders that were found; sweeps, which find the orders of a channel at
//! their turn; and the ends of auctions, which find the orders for that auction.
//!
//! Invariant: the line is sorted by round, and in a round by arrival.

use alloc::collections::BTreeMap;

use market::{
    CancelReason, DecodeError, Firm, InstrumentId, OrderId, OrderKey, Phase, SessionId, Side,
    TimeInForce, bytes::ByteReader, encoded, kinds,
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
    /// The first turn that it has not visited; see [`turn_of`](super::client_order_index).
    pub(super) from: u64,
}

/// The orders that a command selects, of its sessions. A field that is `None` selects any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Never blank, unless a session's own firm is.
    pub(crate) firm: Option<Firm>,
    pub(crate) instrument_id: Option<InstrumentId>,
    pub(crate) side: Option<Side>,
    pub(crate) group_id: Option<u16>,
    /// True to select only orders that end with the day.
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

/// The orders for an auction only that are over in an instrument, which are found at their turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuctionEnd {
    pub(crate) instrument_id: InstrumentId,
    /// The phase in which they are over.
    pub(crate) phase: Phase,
    /// Orders with higher ids are newer than the end.
    pub(crate) last: OrderId,
    /// The first queue that it has not visited to its end, of [`QUEUES`](crate::auction::uncross::QUEUES).
    pub(crate) queue: u8,
    /// The first rank of that queue that it has not visited.
    pub(crate) rank: u32,
}

/// An element of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Order(PendingCancel),
    Sweep(Sweep),
    AuctionEnd(AuctionEnd),
}

encoded! {
    PendingCancel { key, reason }
    AuctionEnd { instrument_id, phase, last, queue, rank }
    Sweep { session_id, channel, last, selection, reason, from }
    Selection { firm, instrument_id, side, group_id, of_the_day }
}

kinds! {
    Pending {
        1 => Order(order),
        2 => Sweep(sweep),
        3 => AuctionEnd(end),
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
                hash::mix([hash::PENDING_CANCEL, line, place, name])
            }
            Self::Sweep(Sweep { session_id, channel, last, selection, reason, from }) => {
                let names = u64::from(session_id.0) << 48 | u64::from(*channel) << 40;
                let name = names | u64::from(reason.code()) << 32 | u64::from(*last);
                hash::mix([hash::SWEEP, line, place, name, selection.hash(), *from])
            }
            Self::AuctionEnd(AuctionEnd { instrument_id, phase, last, queue, rank }) => {
                let at = u64::from(*rank) | u64::from(*queue) << 32;
                let name = u64::from(instrument_id.0) | u64::from(phase.code()) << 16;
                hash::mix([hash::AUCTION_END, line, place, name, last.0, at])
            }
        }
    }

    /// The session of a sweep.
    fn session_id(&self) -> Option<SessionId> {
        match self {
            Self::Sweep(sweep) => Some(sweep.session_id),
            Self::Order(_) | Self::AuctionEnd(_) => None,
        }
    }

    /// The order, if it is one.
    pub(crate) fn order(&self) -> Option<PendingCancel> {
        match self {
            Self::Order(order) => Some(*order),
            Self::Sweep(_) | Self::AuctionEnd(_) => None,
        }
    }
}

/// The most places of a line that are visited to find the sessions whose searches wait.
const SEARCHES_MAX: usize = 8;

/// A place in line: the round, and the number of items put in line before since it was last empty.
type Place = (u64, u64);

/// A line of pending cancels, by round and then by arrival.
#[derive(Debug)]
pub(crate) struct PendingCancels {
    /// Names the line in its elements of the state hash.
    name: u64,
    line: BTreeMap<Place, Pending>,
    /// The arrival number of the next item.
    next: u64,
    /// The number of orders in line.
    order_count: usize,
    /// True if the last step canceled nothing. It affects only the time at which the engine requests an input, so it is
    /// not part of the state.
    pub(super) found_none: bool,
}

impl PendingCancels {
    pub(crate) const fn new(name: u64) -> Self {
        Self { name, line: BTreeMap::new(), next: 0, order_count: 0, found_none: false }
    }

    /// Number of orders in line, without those that are found at their turn.
    pub(crate) fn order_count(&self) -> usize {
        self.order_count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The round whose turn it is.
    pub(super) fn round(&self) -> u64 {
        self.line.first_key_value().map_or(0, |((round, _), _)| *round)
    }

    /// The first in line.
    pub(super) fn first(&self) -> Option<Pending> {
        self.line.first_key_value().map(|(_, pending)| *pending)
    }

    /// True if the last step canceled nothing, and only sweeps of one session are next in line.
    pub(super) fn searches_in_vain(&self) -> bool {
        let mut next = self.iter().take(SEARCHES_MAX).map(Pending::session_id);
        self.found_none
            && next.next().flatten().is_some_and(|first| next.all(|other| other == Some(first)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.line.values()
    }

    /// All items in line, each with its round.
    pub(super) fn rounds(&self) -> impl Iterator<Item = (u64, &Pending)> {
        self.line.iter().map(|((round, _), pending)| (*round, pending))
    }

    /// The orders in line, except those that are found at their turn.
    pub(crate) fn orders(&self) -> impl Iterator<Item = PendingCancel> {
        self.iter().filter_map(Pending::order)
    }

    /// Adds an order behind those of this round.
    pub(crate) fn push_order(&mut self, order: PendingCancel) {
        self.push(self.round(), Pending::Order(order));
    }

    /// Adds an item behind the others of its round.
    pub(super) fn push(&mut self, round: u64, pending: Pending) {
        let place = (round, self.next);
        self.next += 1;
        self.order_count += usize::from(pending.order().is_some());
        self.line.insert(place, pending);
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let (_, pending) = self.line.pop_first()?;
        self.order_count -= usize::from(pending.order().is_some());
        if self.line.is_empty() {
            self.next = 0;
        }
        Some(pending)
    }

    /// Replaces the first item in line, which continues from another place.
    pub(super) fn go_on(&mut self, pending: Pending) {
        self.line.first_entry().expect("it is first in line").insert(pending);
    }

    /// The element of an item in the state hash.
    fn hash(&self, (round, arrival): Place, pending: &Pending) -> u64 {
        pending.hash(self.name, arrival.wrapping_add(round << 40))
    }

    /// Adds the elements of the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        self.line.iter().for_each(|(place, pending)| sum.add(self.hash(*place, pending)));
    }

    /// The records of a snapshot: the arrival number of the next item, then round, arrival and item.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, u64, u64, Pending)> {
        self.line.iter().map(|((round, arrival), it)| (self.next, *round, *arrival, *it))
    }

    /// Restores an item of the line; the error is the invalid field.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let next: u64 = from.read("next place")?;
        let place: Place = (from.read("round")?, from.read("arrival")?);
        let pending = from.read("pending")?;
        let is_in_order = self.line.last_key_value().is_none_or(|(last, _)| *last < place);
        if !is_in_order || next <= place.1 || (!self.is_empty() && next != self.next) {
            return Err(DecodeError::Field("place"));
        }
        self.next = place.1;
        self.push(place.0, pending);
        self.next = next;
        Ok(())
    }
}
