//! Orders that wait to be canceled, and orders that are found only at their turn.

use std::collections::BTreeSet;

use market::{
    AccountId, CancelReason, Firm, InstrumentId, OrderId, OrderKey, Phase, Scope, SessionId,
    TimeInForce,
};

use super::{Model, ModelOrder};

/// The most orders canceled at once. (24.1)
const CANCELS_MAX: usize = 32;

/// The number of cancels that an expiring order counts as. (24.1)
const EXPIRY_COST: usize = 2;

/// The most orders of a session examined at once. (24.7)
const LOOKS_MAX: usize = 96;

/// The most parts of turns finished at once. (24.7)
const PARTS_MAX: usize = 4;

/// The most channels whose orders a command finds at once. (24.6)
const CHANNELS_FEW: usize = 4;

/// The size classes of sessions: live orders of the first, and the last. (24.6)
const CLASS_LIVE: usize = 256;
const CLASS_MAX: u32 = 7;

/// The number of consecutive order numbers whose turns are together. (24.6)
const BLOCK: u32 = 128;

/// The work done so far in a step. (24.7)
#[derive(Default)]
struct Spent {
    cancels: usize,
    looks: usize,
    parts: usize,
}

impl Spent {
    fn is_all(&self) -> bool {
        CANCELS_MAX <= self.cancels || LOOKS_MAX <= self.looks || PARTS_MAX <= self.parts
    }
}

/// Orders that are still to be canceled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Order(OrderKey, CancelReason),
    Sweep(Sweep),
    AuctionEnd(AuctionEnd),
}

/// A place among the orders for an auction only of an instrument: buyers first; of these those at
/// the open, at the close, for the next; of these those without a price, then by price. (26.4)
type AuctionPlace = (bool, u8, u64);

/// The orders for an auction only that are over in an instrument. (26.4)
#[derive(Clone, Copy, Debug)]
pub(super) struct AuctionEnd {
    id: InstrumentId,
    /// The phase in which they are over.
    phase: Phase,
    /// The last order id before.
    last: OrderId,
    /// The first place that is not yet passed.
    from: AuctionPlace,
}

/// The orders of a channel of a session that a command means, which are found one after the other.
/// (24.6)
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    session_id: SessionId,
    channel: u8,
    /// The last number used before the command.
    number_last: u32,
    meant: Meant,
    reason: CancelReason,
    /// The first turn that is not yet examined.
    from: u64,
}

/// The orders that a command means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meant {
    pub(super) scope: Scope,
    /// The instrument of the scope's symbol when the command acts, if the scope names one. (31.4)
    pub(super) instrument_id: Option<InstrumentId>,
    /// The firm of a mass cancel, also if it is blank. (10.1)
    pub(super) firm: Option<Firm>,
    /// True if only orders that end with the day are meant. (2.4)
    pub(super) of_the_day: bool,
    /// Did the session give the command itself, or is it gone? (24.8)
    pub(super) is_own: bool,
}

impl Meant {
    pub(super) const fn of(scope: Scope) -> Self {
        Self { scope, instrument_id: None, firm: None, of_the_day: false, is_own: false }
    }
}

/// The turn of an order number. (24.6)
fn turn(number: u32) -> u64 {
    // The block has 25 bits, the number within it 7.
    u64::from((number / BLOCK).reverse_bits()) + u64::from(number % BLOCK)
}

fn auction_place(order: &ModelOrder) -> AuctionPlace {
    let queue = match order.time_in_force {
        TimeInForce::AtTheOpen => 0,
        TimeInForce::AtTheClose => 1,
        _ => 2,
    };
    let is_buy = order.side.is_buy();
    let rank = match order.price.0 {
        0 => 0,
        price if is_buy => u64::MAX / 2 - price,
        price => price,
    };
    (!is_buy, queue, rank)
}

/// The number of all turns.
const TURNS: u64 = 1 << 32;

impl Model {
    /// Cancels orders, at most [`CANCELS_MAX`] at once. (24.1, 24.2)
    pub(super) fn cancel_in_steps(&mut self, keys: Vec<OrderKey>, reason: CancelReason) {
        let was_empty = !self.has_cancels_left();
        for key in keys {
            let place = self.place_of(key).expect("it was found live");
            if !self.is_leaving(&self.orders[place]) && !self.orders[place].is_done() {
                self.orders[place].leaving = true;
                self.put_in_line(self.round(), Pending::Order(key, reason));
            }
        }
        if was_empty {
            self.cancel_portion();
        }
    }

    /// The round whose turn it is. (24.8)
    fn round(&self) -> u64 {
        self.pending.front().map_or(0, |(round, _)| *round)
    }

    fn put_in_line(&mut self, round: u64, pending: Pending) {
        let place = self.pending.iter().take_while(|(other, _)| *other <= round).count();
        self.pending.insert(place, (round, pending));
    }

    /// The last round in which a sweep of a session waits. (24.8)
    fn round_waiting(&self, session_id: SessionId) -> Option<u64> {
        let of_session = |pending: &Pending| match pending {
            Pending::Sweep(sweep) => sweep.session_id == session_id,
            Pending::Order(..) | Pending::AuctionEnd(_) => false,
        };
        let rounds = self.pending.iter().filter(|(_, pending)| of_session(pending));
        rounds.map(|(round, _)| *round).max()
    }

    /// Does any order wait to be canceled? (24.1)
    pub(super) fn has_cancels_left(&self) -> bool {
        !self.pending.is_empty() || !self.stuck.is_empty() || self.first_expired().is_some()
    }

    fn live_of(&self, session_id: SessionId) -> impl Iterator<Item = &ModelOrder> {
        self.orders.iter().filter(move |it| it.key.session_id == session_id && !it.is_done())
    }

    /// The number of live orders in a scope.
    pub(super) fn live_in(&self, scope: &Scope) -> usize {
        self.orders.iter().filter(|it| self.is_in(scope, it) && !it.is_done()).count()
    }

    /// Updates the size class of a session after it had an order accepted. (24.6)
    pub(super) fn note_size(&mut self, session_id: SessionId) {
        let live = self.live_of(session_id).count();
        let session = &mut self.sessions[usize::from(session_id.0) - 1];
        if session.size_class < CLASS_MAX && live >= CLASS_LIVE << session.size_class {
            session.size_class += 1;
        }
    }

    /// Does a command mean an order?
    fn is_meant(&self, meant: &Meant, order: &ModelOrder) -> bool {
        let firm = self.firm_meant(order.key.session_id, order.attributes.firm);
        self.is_in(&meant.scope, order)
            && meant.instrument_id.is_none_or(|it| it == order.instrument_id)
            && meant.firm.is_none_or(|it| it == firm)
            && (!meant.of_the_day || order.is_of_the_day())
    }

    /// Cancels the orders that a command means. (24.1, 24.6)
    pub(super) fn cancel_meant(&mut self, meant: &Meant, reason: CancelReason) {
        let instrument_id = self.listed(meant.scope.symbol).map(|it| it.instrument_id);
        let meant = &Meant { instrument_id, ..*meant };
        let Meant { scope, of_the_day, .. } = meant;
        let mut sessions: Vec<SessionId> =
            (1..=self.sessions.len()).map(|number| SessionId(number as u16)).collect();
        sessions.retain(|it| [SessionId(0), *it].contains(&scope.session_id));
        sessions.retain(|it| [AccountId(0), self.money.owner(*it)].contains(&scope.account_id));
        let channels: BTreeSet<(SessionId, u8)> = sessions
            .iter()
            .flat_map(|it| self.live_of(*it).map(|order| (*it, order.key.channel)))
            .collect();
        let live = sessions.iter().map(|it| self.live_of(*it).count()).sum::<usize>();
        let are_small = channels.iter().all(|(it, _)| self.session(*it).unwrap().size_class == 0);
        if live > CANCELS_MAX || channels.len() > CHANNELS_FEW || !are_small {
            return self.sweep(channels, meant, reason);
        }
        let mut meant: Vec<_> = self.orders.iter().filter(|it| self.is_meant(meant, it)).collect();
        // 2.4, 10.2, 32.2
        meant.sort_by_key(|it| (of_the_day.then_some(it.order_id), it.key));
        self.cancel_in_steps(meant.into_iter().map(|it| it.key).collect(), reason);
    }

    fn sweep(&mut self, channels: BTreeSet<(SessionId, u8)>, meant: &Meant, reason: CancelReason) {
        let was_empty = !self.has_cancels_left();
        // 24.8
        let after = self.round_waiting(meant.scope.session_id).filter(|_| meant.is_own);
        let round = after.map_or(self.round(), |last| last + 1);
        for (session_id, channel) in channels {
            let number_last = self.number_used(session_id, channel);
            let (meant, from) = (*meant, 0);
            let sweep = Sweep { session_id, channel, number_last, meant, reason, from };
            self.put_in_line(round, Pending::Sweep(sweep));
        }
        if was_empty {
            self.cancel_portion();
        }
    }

    /// An instrument enters a phase: the auction-only orders that are over wait to be canceled. (26.4)
    pub(super) fn end_auction_orders(&mut self, id: InstrumentId, phase: Phase) {
        let (last, from) = (OrderId(self.order_count), (false, 0, 0));
        let end = AuctionEnd { id, phase, last, from };
        if self.first_ended(&end).is_some() {
            let was_empty = !self.has_cancels_left();
            self.put_in_line(self.round(), Pending::AuctionEnd(end));
            if was_empty {
                self.cancel_portion();
            }
        }
    }

    /// The first order of an end, from its place on, and that order's place. (26.4)
    fn first_ended(&self, end: &AuctionEnd) -> Option<(AuctionPlace, ModelOrder)> {
        let is_meant = |it: &&ModelOrder| {
            it.instrument_id == end.id
                && it.is_beside()
                && it.is_over_in(end.phase)
                && !it.is_done()
        };
        let places = self.orders.iter().filter(is_meant).map(|it| (auction_place(it), *it));
        let later = places.filter(|(place, _)| *place >= end.from);
        later.min_by_key(|(place, it)| (*place, it.order_id))
    }

    /// Continues the end of an auction. The remaining end goes back to the front of its round, or of the cancels held
    /// back. (24.7, 26.4)
    fn go_on_ending(&mut self, round: Option<u64>, end: AuctionEnd, spent: &mut Spent) {
        let Some((from, order)) = self.first_ended(&end) else {
            spent.parts += 1;
            return;
        };
        spent.looks += 1;
        let (is_sell, queue, rank) = from;
        let left = if order.order_id > end.last {
            AuctionEnd { from: (is_sell, queue, rank + 1), ..end }
        } else {
            spent.cancels += 1;
            self.cancel_all_of(order.key, CancelReason::Expired);
            AuctionEnd { from, ..end }
        };
        let left = Pending::AuctionEnd(left);
        match round {
            Some(round) => self.pending.push_front((round, left)),
            None => self.stuck.push_front(left),
        }
    }

    /// Cancels the orders whose turn it is; an order may be done by then. (24.1, 24.4, 24.7)
    pub(super) fn cancel_portion(&mut self) {
        let mut spent = Spent::default();
        while !spent.is_all() {
            let are_over = self.auctions.is_empty() && self.halves.is_empty();
            let stuck = if are_over { self.stuck.pop_front() } else { None };
            let stuck = match stuck {
                Some(Pending::AuctionEnd(end)) => {
                    self.go_on_ending(None, end, &mut spent);
                    continue;
                }
                Some(Pending::Order(key, reason)) => Some((key, reason, 1)),
                Some(Pending::Sweep(_)) | None => None,
            };
            let expired = || Some((self.first_expired()?, CancelReason::Expired, EXPIRY_COST));
            let next = match (stuck.or_else(expired), self.pending.pop_front()) {
                (Some(next), pending) => {
                    self.pending.extend(pending);
                    self.pending.rotate_right(usize::from(pending.is_some()));
                    next
                }
                (None, None) => return,
                (None, Some((_, Pending::Order(key, reason)))) => (key, reason, 1),
                // 27.16
                (None, Some((_, Pending::AuctionEnd(end)))) if self.is_trading_in_steps(end.id) => {
                    self.stuck.push_back(Pending::AuctionEnd(end));
                    spent.cancels += 1;
                    continue;
                }
                (None, Some((round, Pending::AuctionEnd(end)))) => {
                    self.go_on_ending(Some(round), end, &mut spent);
                    continue;
                }
                (None, Some((round, Pending::Sweep(sweep)))) => {
                    let size_class = self.session(sweep.session_id).unwrap().size_class;
                    let part_len = (TURNS / 2) >> size_class;
                    let part_end = (sweep.from / part_len + 1) * part_len;
                    let from = match self.next_of(&sweep, part_end) {
                        Some(order) => {
                            spent.looks += 1;
                            spent.cancels += usize::from(self.cancel_swept(&sweep, order));
                            turn(order.key.user_ref_num) + 1
                        }
                        None => {
                            spent.parts += 1;
                            part_end
                        }
                    };
                    if from < TURNS {
                        self.pending.push_front((round, Pending::Sweep(Sweep { from, ..sweep })));
                    }
                    continue;
                }
            };
            let (key, reason, cost) = next;
            spent.cancels += cost;
            self.cancel_at_turn(key, reason);
        }
    }

    /// The next order of a part of turns that a sweep examines. (24.6, 24.7)
    fn next_of(&self, sweep: &Sweep, part_end: u64) -> Option<ModelOrder> {
        let of_channel =
            self.live_of(sweep.session_id).filter(|it| it.key.channel == sweep.channel);
        let turns = sweep.from..part_end;
        let later = of_channel.filter(|it| turns.contains(&turn(it.key.user_ref_num)));
        later.min_by_key(|it| turn(it.key.user_ref_num)).copied()
    }

    /// Cancels an order if a sweep means it. (24.6)
    fn cancel_swept(&mut self, sweep: &Sweep, order: ModelOrder) -> bool {
        let is_meant = order.key.user_ref_num <= sweep.number_last
            && self.is_meant(&sweep.meant, &order)
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

    /// Does an order wait until no auction is left? (27.16)
    pub(super) fn is_held_back(&self, key: OrderKey) -> bool {
        self.stuck.iter().any(|it| matches!(it, Pending::Order(other, _) if *other == key))
    }

    /// An order waits until its auction is over, once. (27.16)
    pub(super) fn hold_back(&mut self, place: usize, reason: CancelReason) {
        let key = self.orders[place].key;
        if !self.is_held_back(key) {
            self.orders[place].leaving = true;
            self.stuck.push_back(Pending::Order(key, reason));
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
            self.stuck.push_back(Pending::Order(key, reason));
        }
    }
}
