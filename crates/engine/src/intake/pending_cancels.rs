//! Cancels in steps: a command that cancels many orders cancels the first of them at once, and the next ones before
//! each later input.
//!
//! Orders are canceled in the order in which they were found. Expired orders come first, by expiry and
//! owner's name, straight from the index of expiries. Until its turn an order is live like any other.
//! [`Engine::due`] asks for an input while orders wait.
//!
//! A command that applies to few orders finds them at once. Otherwise it puts a [`Sweep`] in line for
//! each channel of its sessions: a place among the live orders of the channel, which finds them at their
//! turn. Numbers only rise, so the last number used before the command separates older orders from newer
//! ones. The line goes by rounds, so that a session with many commands delays others by one command
//! only. A turn of a channel has several parts, and more of them in a higher size class of the session,
//! whose tables of numbers can be longer; so a step passes a bounded number of places, empty ones too.
//!
//! Invariant: an order waits at most once, except one that waited already when it expired, and those
//! that are found at their turn. An order that is entered later, also as a replacement, does not wait.

use alloc::vec::Vec;
use core::mem;

use market::{AccountId, CancelReason, Event, InstrumentId, OrderKey, Phase, SessionId};

use crate::{
    Engine,
    auction::{phases, steps::AuctionLine, uncross::QUEUES},
    book::pool::Slot,
    contingent::{
        effects::TRIGGERED_MAX,
        expiry::Expiries,
        instructions::{Contingent, ContingentId, Contingents},
        minimum_quantity::CHECKS_MAX,
        pegs::MOVES_MAX,
    },
    intake::{
        cancel_line::{AuctionEnd, Pending, PendingCancel, PendingCancels, Selection, Sweep},
        session::Session,
    },
    order::Order,
};

/// The most orders that a command cancels at once, and again before each later input.
pub(crate) const CANCELS_MAX: usize = 32;

/// The number of cancels as which an expired order counts: its record and its place among the expiries
/// are removed, too.
const EXPIRY_COST: usize = 2;

/// Maximum number of live orders that sweeps visit in a step; a price without an order to be ended, at the
/// end of an auction, counts as one.
const LOOKS_MAX: usize = 96;

/// Maximum number of parts of turns that sweeps complete in a step; a part is 512 places of the longest
/// table that the session can have. The end of an auction is one part.
const PARTS_MAX: usize = 4;

/// A command finds its orders at once if they are on at most this many channels.
const CHANNELS_FEW: usize = 4;

/// The sessions whose orders a command cancels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    /// 0 selects any session.
    pub(crate) session_id: SessionId,
    /// [`AccountId::VENUE`] selects any account, and sessions without one.
    pub(crate) account_id: AccountId,
    /// True if the session itself gave the command, or is gone.
    pub(crate) is_own: bool,
}

impl Whose {
    pub(crate) const ANY: Self =
        Self { session_id: SessionId(0), account_id: AccountId::VENUE, is_own: false };

    pub(crate) const fn own(session_id: SessionId) -> Self {
        Self { session_id, is_own: true, ..Self::ANY }
    }
}

/// The remaining budget of the sweeps of a step.
struct Budget {
    cancels: usize,
    looks: usize,
    parts: usize,
}

impl Budget {
    fn is_used_up(&self) -> bool {
        self.cancels == 0 || self.looks == 0 || self.parts == 0
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
                order.set_leaving();
                let pending = PendingCancel { key: order.key, reason };
                self.pending_cancels.push_order(pending);
            }
        }
        self.found = found;
        self.begin_cancels(was_empty, emit);
    }

    /// Cancels the live orders that a command selects: the first of them now, if no other orders wait to be canceled,
    /// and the rest in steps. Few are found at once and canceled by session, channel and number, those that end with
    /// the day by order id; others are found at their turn.
    pub(crate) fn cancel_selected(
        &mut self,
        whose: Whose,
        selection: Selection,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        if !self.are_few(whose) {
            return self.sweep(whose, selection, reason, emit);
        }
        let mut found = mem::take(&mut self.found);
        for session in self.sessions_of(whose) {
            let live = session.iter_live().map(|(_, slot)| slot);
            found.extend(live.filter(|it| selection.selects(&self.pool[*it].order, session)));
        }
        found.sort_unstable_by_key(|slot| {
            let order = &self.pool[*slot].order;
            (selection.of_the_day.then_some(order.order_id()), order.key)
        });
        self.cancel_in_steps(found, reason, emit);
    }

    fn sessions_of(&self, whose: Whose) -> impl Iterator<Item = &Session> {
        let one = self.sessions.get(whose.session_id);
        let all = (whose.session_id == SessionId(0)).then(|| self.sessions.iter());
        one.into_iter().chain(all.into_iter().flatten()).filter(move |session| {
            let account_id = || self.money.account_id(session.session_id());
            whose.account_id == AccountId::VENUE || whose.account_id == account_id()
        })
    }

    /// The number of live orders of the sessions.
    pub(crate) fn live_orders_of(&self, whose: Whose) -> u32 {
        self.sessions_of(whose).map(Session::live_orders).sum()
    }

    /// True if the live orders of the sessions are few enough, and their tables short enough, to find the orders at
    /// once.
    fn are_few(&self, whose: Whose) -> bool {
        let (mut orders, mut channels) = (0, 0);
        for session in self.sessions_of(whose).filter(|session| session.live_orders() != 0) {
            orders += session.live_orders() as usize;
            channels += session.live_channels().count();
            if session.size_class() != 0 || CANCELS_MAX < orders || CHANNELS_FEW < channels {
                return false;
            }
        }
        true
    }

    /// Puts a sweep of each channel in line. Commands of a session are in successive rounds, so a session
    /// with many commands delays the others by one command only; commands of the venue are in the present
    /// round.
    fn sweep(
        &mut self,
        whose: Whose,
        selection: Selection,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let was_empty = !self.has_cancels_left();
        let round = self.pending_cancels.round();
        let own = self.sessions.get(whose.session_id).filter(|_| whose.is_own);
        let round = own.and_then(Session::round_waiting).map_or(round, |last| last + 1);
        let mut channels = mem::take(&mut self.channels);
        for session in self.sessions_of(whose) {
            let live = session.live_channels();
            channels.extend(live.map(|(channel, last)| (session.session_id(), channel, last)));
        }
        for (session_id, channel, last) in channels.drain(..) {
            let sweep = Sweep { session_id, channel, last, selection, reason, from: 0 };
            self.pending_cancels.push(round, Pending::Sweep(sweep));
            self.sessions.get_mut(session_id).expect("it is one of all").begin_sweep(round);
        }
        self.channels = channels;
        self.begin_cancels(was_empty, emit);
    }

    /// Ends the auction-only orders that are over in the new phase of an instrument: at their turn, the first of them
    /// now if nothing else waits.
    pub(crate) fn end_auction_orders(
        &mut self,
        instrument_id: InstrumentId,
        phase: Phase,
        emit: &mut dyn FnMut(Event),
    ) {
        let last = self.order_id_last;
        let end = AuctionEnd { instrument_id, phase, last, queue: 0, rank: 0 };
        if self.first_ended(&mut end.clone()).is_some() {
            let was_empty = !self.has_cancels_left();
            let round = self.pending_cancels.round();
            self.pending_cancels.push(round, Pending::AuctionEnd(end));
            self.begin_cancels(was_empty, emit);
        }
    }

    /// Cancels the first waiting orders, if none waited before.
    pub(crate) fn begin_cancels(&mut self, was_empty: bool, emit: &mut dyn FnMut(Event)) {
        if was_empty {
            self.cancel_portion(emit);
        }
        self.plan_resumption();
    }

    /// Cancels the first waiting orders.
    fn cancel_portion(&mut self, emit: &mut dyn FnMut(Event)) {
        let mut left = Budget { cancels: CANCELS_MAX, looks: LOOKS_MAX, parts: PARTS_MAX };
        self.use_up(&mut left, emit);
        self.pending_cancels.found_none = left.cancels == CANCELS_MAX;
    }

    fn use_up(&mut self, left: &mut Budget, emit: &mut dyn FnMut(Event)) {
        while !left.is_used_up() {
            let is_held = self.may_cancel_held();
            if !is_held && let Some(id) = self.contingents.expiries.first_begun() {
                let Contingent { slot, key, .. } = self.contingents[id];
                let expired = PendingCancel { key, reason: CancelReason::Expired };
                self.cancel_or_hold(slot, expired, emit);
                left.cancels = left.cancels.saturating_sub(EXPIRY_COST);
                continue;
            }
            let Some(first) = self.line_of(is_held).first() else { return };
            match first {
                Pending::Order(pending) => {
                    self.pop_pending(is_held);
                    if let Some(slot) = self.find(pending.key) {
                        self.cancel_or_hold(slot, pending, emit);
                    }
                    left.cancels -= 1;
                }
                Pending::Sweep(sweep) => self.go_on_with(sweep, left, emit),
                Pending::AuctionEnd(end) => self.go_on_ending(end, is_held, left, emit),
            }
        }
    }

    /// True if held cancels may proceed: some wait, and no auction and no half-matched order is left.
    fn may_cancel_held(&self) -> bool {
        let AuctionLine { line, held, .. } = &self.auction_line;
        !held.is_empty() && line.is_empty() && self.half_matched.is_empty()
    }

    /// The line of cancels that wait for the end of all auctions, or the line of the others.
    fn line_of(&self, is_held: bool) -> &PendingCancels {
        if is_held { &self.auction_line.held } else { &self.pending_cancels }
    }

    /// As [`line_of`](Self::line_of), to change the line.
    fn line_mut(&mut self, is_held: bool) -> &mut PendingCancels {
        if is_held { &mut self.auction_line.held } else { &mut self.pending_cancels }
    }

    fn pop_pending(&mut self, is_held: bool) {
        self.line_mut(is_held).pop();
    }

    /// Cancels the next order of the end of an auction that is first in line, looks at the next
    /// price, or takes the end out of the line: if it is over, or until an auction is.
    fn go_on_ending(
        &mut self,
        mut end: AuctionEnd,
        is_held: bool,
        left: &mut Budget,
        emit: &mut dyn FnMut(Event),
    ) {
        if self.books[end.instrument_id].trading.is_uncrossing {
            self.pop_pending(is_held);
            self.auction_line.held.push(0, Pending::AuctionEnd(end));
            left.cancels -= 1;
            return;
        }
        let Some((rank, oldest)) = self.first_ended(&mut end) else {
            self.pop_pending(is_held);
            left.parts -= 1;
            return;
        };
        left.looks -= 1;
        let is_over = self.pool[oldest].order.order_id() <= end.last;
        end.rank = if is_over { rank } else { rank + 1 };
        self.line_mut(is_held).go_on(Pending::AuctionEnd(end));
        if is_over {
            self.cancel_all(oldest, CancelReason::Expired, emit);
            left.cancels -= 1;
        }
    }

    /// The first price that an end has not visited in its queues, and the oldest order there.
    fn first_ended(&self, end: &mut AuctionEnd) -> Option<(u32, Slot)> {
        let book = &self.books[end.instrument_id];
        while let Some(queue) = QUEUES.get(usize::from(end.queue)) {
            if phases::is_over(queue.1, end.phase)
                && let Some(found) = book.auction_level(*queue, end.rank)
            {
                return Some(found);
            }
            (end.queue, end.rank) = (end.queue + 1, 0);
        }
        None
    }

    /// True if an order for an auction only is over, and an end of its auction finds it at its turn.
    pub(crate) fn is_ending(&self, order: &Order) -> bool {
        let waiting = self.pending_cancels.iter().chain(self.auction_line.held.iter());
        waiting.into_iter().any(|pending| {
            let Pending::AuctionEnd(end) = pending else { return false };
            end.instrument_id == order.instrument_id
                && order.order_id() <= end.last
                && phases::is_over(order.for_auction(), end.phase)
        })
    }

    /// Cancels the next orders of the sweep that is first in line, all of one part of its turns, and
    /// takes the sweep out of the line if it is over.
    fn go_on_with(&mut self, sweep: Sweep, left: &mut Budget, emit: &mut dyn FnMut(Event)) {
        let Sweep { session_id, channel, last, selection, reason, mut from } = sweep;
        let session = self.sessions.get(session_id).expect("a sweep is of a session");
        let part_last = (u64::from(u32::MAX) >> (session.size_class() + 1)) | from;
        let turns_left = from as u32..=part_last as u32;
        let mut turns = mem::take(&mut self.turns);
        let found_max = CANCELS_MAX.min(left.looks);
        session.find_turns(channel, turns_left, found_max, &mut turns);
        let are_all = turns.len() < found_max;
        for (turn, user_ref_num) in turns.drain(..) {
            if left.cancels == 0 {
                break;
            }
            from = u64::from(turn) + 1;
            let key = OrderKey { session_id, channel, user_ref_num };
            // A cancel may have canceled others.
            let Some(slot) = self.find(key) else { continue };
            left.looks -= 1;
            let selects = selection.selects(&self.pool[slot].order, self.sessions.owner(key));
            // An order that an auction holds waits already.
            let waits = self.is_leaving(slot) && self.is_in_auction(slot);
            if user_ref_num <= last && selects && !waits {
                self.cancel_or_hold(slot, PendingCancel { key, reason }, emit);
                left.cancels -= 1;
            }
        }
        self.turns = turns;
        if are_all && !left.is_used_up() && from <= part_last {
            from = part_last + 1;
            left.parts -= 1;
        }
        match from <= u64::from(u32::MAX) {
            true => {
                let sweep = Pending::Sweep(Sweep { from, ..sweep });
                self.pending_cancels.go_on(sweep);
            }
            false => {
                self.pending_cancels.pop();
                self.sessions.get_mut(session_id).expect("a sweep is of a session").end_sweep();
            }
        }
    }

    /// Cancels an order at its turn; one in an auction is held until the auction is over.
    fn cancel_or_hold(&mut self, slot: Slot, pending: PendingCancel, emit: &mut dyn FnMut(Event)) {
        if !self.is_in_auction(slot) {
            self.cancel_all(slot, pending.reason, emit);
        } else if !self.is_held_as_expired(slot) {
            self.hold_cancel(slot, pending);
        }
    }

    /// Holds the cancel of an order until no auction is left.
    pub(crate) fn hold_cancel(&mut self, slot: Slot, pending: PendingCancel) {
        self.pool[slot].order.set_leaving();
        if let Some(id) = self.contingents.find(slot) {
            Expiries::remove(&mut self.contingents, id);
        }
        self.auction_line.held.push_order(pending);
    }

    /// True if the cancel of an expired order waits for an auction.
    fn is_held_as_expired(&self, slot: Slot) -> bool {
        self.expired(slot).is_some_and(|id| {
            let Contingents { expiries, .. } = &self.contingents;
            !expiries.has(self.contingents[id].moment())
        })
    }

    /// The record of an expired order.
    pub(crate) fn expired(&self, slot: Slot) -> Option<ContingentId> {
        let id = self.contingents.find(slot)?;
        let expires_s = self.contingents[id].instructions.expires_s;
        self.contingents.expiries.has_begun(expires_s).then_some(id)
    }

    /// True if an order waits to be canceled.
    pub(crate) fn is_leaving(&self, slot: Slot) -> bool {
        let order = &self.pool[slot].order;
        order.is_leaving() || order.is_contingent() && self.expired(slot).is_some()
    }

    /// True if orders wait to be canceled.
    pub(crate) fn has_cancels_left(&self) -> bool {
        let held = &self.auction_line.held;
        !self.pending_cancels.is_empty()
            || !held.is_empty()
            || self.contingents.expiries.first_begun().is_some()
    }

    /// Number of orders that wait to be canceled, without expired ones and those that are found at their
    /// turn.
    pub(crate) fn pending_cancel_count(&self) -> usize {
        self.pending_cancels.order_count() + self.auction_line.held.order_count()
    }

    /// Continues the remaining work of earlier commands: cancels, auctions, a half-matched order,
    /// triggered orders, pegged orders, tests of minimum-quantity orders.
    pub(crate) fn resume(&mut self, emit: &mut dyn FnMut(Event)) {
        self.cancel_portion(emit);
        self.trade_in_auctions(emit);
        self.trade_on(emit);
        self.follow_all(TRIGGERED_MAX, MOVES_MAX, CHECKS_MAX, emit);
    }

    /// Plans the remaining work for the first input of a later nanosecond.
    pub(crate) fn plan_resumption(&mut self) {
        let is_left = self.has_left_over();
        self.contingents.expiries.resume_at(is_left.then_some(self.timestamp));
    }

    /// Marks the restored orders that wait to be canceled; the error is the field that is invalid.
    pub(crate) fn restore_pending_cancels(&mut self) -> Result<(), &'static str> {
        self.contingents.expiries.begin(self.timestamp.0);
        let Self { pending_cancels, auction_line, sessions, books, .. } = self;
        for pending in pending_cancels.iter().chain(auction_line.held.iter()) {
            match pending {
                Pending::Order(_) => {}
                Pending::Sweep(Sweep { session_id, from, .. }) => {
                    sessions.get(*session_id).ok_or("session")?;
                    u32::try_from(*from).map_err(|_| "from")?;
                }
                Pending::AuctionEnd(AuctionEnd { instrument_id, queue, .. }) => {
                    books.get(*instrument_id).ok_or("instrument")?;
                    QUEUES.get(usize::from(*queue)).ok_or("queue")?;
                }
            }
        }
        if auction_line.held.iter().any(|it| matches!(it, Pending::Sweep(_))) {
            return Err("pending");
        }
        for (round, pending) in pending_cancels.rounds() {
            if let Pending::Sweep(sweep) = pending {
                sessions.get_mut(sweep.session_id).expect("it is known").begin_sweep(round);
            }
        }
        let in_line = |line: &PendingCancels| -> Vec<_> {
            line.orders().filter_map(|pending| self.find(pending.key)).collect()
        };
        let (pending, held) = (in_line(&self.pending_cancels), in_line(&self.auction_line.held));
        for (index, slot) in held.iter().chain(&pending).enumerate() {
            let order = &mut self.pool[*slot].order;
            let is_twice = order.is_leaving();
            order.set_leaving();
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

    /// True if only sweeps of one session are left over, and they found no order in the last step.
    pub(crate) fn searches_in_vain(&self) -> bool {
        self.pending_cancels.searches_in_vain()
            && self.auction_line.held.is_empty()
            && self.contingents.expiries.first_begun().is_none()
            && !self.has_others_left()
    }

    /// True if earlier commands left work over.
    pub(crate) fn has_left_over(&self) -> bool {
        self.has_cancels_left() || self.has_others_left()
    }

    /// True if earlier commands left work over other than cancels.
    fn has_others_left(&self) -> bool {
        self.contingents.has_triggered_left
            || self.contingents.pegs.is_behind()
            || self.contingents.minimum_quantity_orders.is_behind
            || self.auction_line.has_left()
            || !self.half_matched.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use market::{
        AddInstrument, AddSession, CancelOnDisconnect, Command, EnterOrder, Firm, Input,
        MassCancel, OrderAttributes, Phase, Price, Quantity, SelfMatchPrevention, SetPhase, Side,
        Symbol, SystemEvent, Text, TimeInForce, Timestamp, VenueCommand,
    };

    use super::*;

    /// An open market with one session.
    fn market() -> Engine {
        let mut engine = Engine::new();
        let (price_increment, round_lot) = (Price(1), Quantity(1));
        for command in [
            Command::System(SystemEvent::StartOfMessages),
            Command::AddInstrument(AddInstrument { symbol: symbol(), price_increment, round_lot }),
            add_session("A"),
            Command::System(SystemEvent::StartOfSystemHours),
        ] {
            apply(&mut engine, command);
        }
        engine
    }

    fn add_session(username: &str) -> Command {
        Command::AddSession(AddSession {
            username: Text::new(username).unwrap(),
            firm: Firm::new("ACME").unwrap(),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        })
    }

    fn symbol() -> Symbol {
        Symbol::new("AAPL").unwrap()
    }

    /// Applies a command a nanosecond later, and returns the number of orders it cancels.
    fn apply(engine: &mut Engine, command: Command) -> usize {
        let timestamp = Timestamp(engine.timestamp.0 + 1);
        apply_at(engine, timestamp, command)
    }

    fn apply_at(engine: &mut Engine, timestamp: Timestamp, command: Command) -> usize {
        let (sequence, mut canceled) = (engine.sequence().next(), 0);
        let input = Input { sequence, timestamp, command };
        engine.apply(&input, &mut |event| {
            canceled += usize::from(matches!(event, Event::Canceled(_)));
        });
        canceled
    }

    fn order(user_ref_num: u32, time_in_force: TimeInForce, price: u64) -> Command {
        let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
        let order = EnterOrder::limit(key, Side::Buy, symbol(), Quantity(1), Price(price));
        Command::Enter(EnterOrder { time_in_force, ..order })
    }

    /// Lets the engine cancel all waiting orders; returns their number.
    fn finish(engine: &mut Engine) -> usize {
        let mut canceled = 0;
        while engine.due().is_some() {
            let step = apply(engine, Command::Time);
            assert!(step <= CANCELS_MAX);
            canceled += step;
        }
        canceled
    }

    fn waiting(engine: &Engine) -> (usize, usize) {
        (engine.pending_cancels.iter().count(), engine.pending_cancels.order_count())
    }

    /// A cut of a session with 10,000 orders lists none of them: one sweep waits, and continues.
    #[test]
    fn many_orders_are_not_looked_for() {
        let mut engine = market();
        for user_ref_num in 1..=10_000 {
            apply(&mut engine, order(user_ref_num, TimeInForce::Day, 100));
        }
        let cut = Command::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(1) });
        assert_eq!(apply(&mut engine, cut), CANCELS_MAX);
        let looked_for = (engine.found.capacity(), engine.turns.capacity() <= 512);
        assert_eq!((waiting(&engine), looked_for), ((1, 0), (0, true)));
        assert_eq!(CANCELS_MAX + finish(&mut engine), 10_000);
        assert_eq!(engine.counters().orders_live, 0);
    }

    /// A mass cancel of A's orders of group 7.
    fn search(user_ref_num: u32) -> Command {
        let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
        let (firm, group_id) = (Firm::new("ACME").unwrap(), Some(7));
        Command::MassCancel(MassCancel { key, firm, symbol: Symbol::BLANK, side: None, group_id })
    }

    /// The time after which the engine needs an input, in nanoseconds from now.
    fn due_after_ns(engine: &Engine) -> u64 {
        engine.due().expect("something is left").0 - engine.timestamp.0
    }

    /// Rule 24.2: the engine needs no input at once for a search that finds nothing, so a session that causes many of
    /// them does not fill the journal. It needs one at once if another session waits too, or if the search found an
    /// order.
    #[test]
    fn a_search_in_vain_pauses() {
        let mut engine = market();
        for user_ref_num in 1..=400 {
            apply(&mut engine, order(user_ref_num, TimeInForce::Day, 100));
        }
        apply(&mut engine, search(401));
        assert_eq!(due_after_ns(&engine), 50_000);
        apply(&mut engine, order(402, TimeInForce::Day, 100));
        assert_eq!(due_after_ns(&engine), 50_000, "an input is a step");
        apply(&mut engine, search(403));
        assert_eq!(due_after_ns(&engine), 50_000, "its own next search may wait as well");
        while engine.due().is_some() {
            apply(&mut engine, Command::Time);
        }
        assert_eq!(waiting(&engine), (0, 0), "nothing is left, and nothing is due");

        let Command::Enter(grouped) = order(404, TimeInForce::Day, 100) else { unreachable!() };
        let attributes = OrderAttributes { group_id: 7, ..grouped.attributes };
        apply(&mut engine, Command::Enter(EnterOrder { attributes, ..grouped }));
        let mut canceled = apply(&mut engine, search(405));
        while canceled == 0 {
            assert_eq!(due_after_ns(&engine), 50_000);
            canceled += apply(&mut engine, Command::Time);
        }
        assert_ne!(engine.due().map(|due| due.0 - engine.timestamp.0), Some(50_000));
        finish(&mut engine);

        apply(&mut engine, search(406));
        apply(&mut engine, add_session("B"));
        for user_ref_num in 1..=40 {
            let Command::Enter(mut of_b) = order(user_ref_num, TimeInForce::Day, 100) else {
                unreachable!()
            };
            of_b.key.session_id = SessionId(2);
            apply(&mut engine, Command::Enter(of_b));
        }
        apply(&mut engine, search(407));
        apply(&mut engine, search(408));
        assert_eq!(due_after_ns(&engine), 50_000);
        let cut = Command::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(2) });
        apply(&mut engine, cut);
        assert_eq!(due_after_ns(&engine), 1, "B waits");
    }

    /// A search that finds nothing waits for an input, but not beyond the next expiry.
    #[test]
    fn an_expiry_does_not_wait_for_a_search() {
        let mut engine = market();
        for user_ref_num in 1..=400 {
            apply(&mut engine, order(user_ref_num, TimeInForce::Day, 100));
        }
        let Command::Enter(mut gtt) = order(401, TimeInForce::GoodTillTime, 100) else {
            unreachable!()
        };
        gtt.instructions.expires_s = 1;
        apply(&mut engine, Command::Enter(gtt));
        let expires = Timestamp(1_000_000_000);
        apply_at(&mut engine, Timestamp(expires.0 - 30_000), search(402));
        assert_eq!(engine.due(), Some(expires));
        assert_eq!(apply_at(&mut engine, expires, Command::Time), 0);
        assert_eq!(due_after_ns(&engine), 1, "the expired order waits");
        assert_eq!(apply(&mut engine, Command::Time), 1);
    }

    /// The end of 5,000 orders at the open lists none of them either, and passes by those that come
    /// later, a bounded number of prices at a time.
    #[test]
    fn orders_at_the_open_are_not_looked_for() {
        let mut engine = market();
        let set_phase =
            |phase| Command::Venue(VenueCommand::SetPhase(SetPhase::new(symbol(), phase)));
        apply(&mut engine, set_phase(Phase::PreOpen));
        for user_ref_num in 1..=10_000 {
            let times = [TimeInForce::AtTheOpen, TimeInForce::AtTheClose];
            apply(&mut engine, order(user_ref_num, times[user_ref_num as usize % 2], 100));
        }
        apply(&mut engine, set_phase(Phase::Halted));
        let mut canceled = apply(&mut engine, set_phase(Phase::Continuous));
        // The auction is counted first.
        while engine.pending_cancels.is_empty() {
            canceled += apply(&mut engine, Command::Time);
        }
        assert!(canceled <= CANCELS_MAX, "{canceled}");
        assert_eq!((waiting(&engine), engine.found.capacity()), ((1, 0), 0));
        // No step begins within a nanosecond. Orders for the next auction stay.
        let timestamp = engine.timestamp;
        for user_ref_num in 10_001..=11_000 {
            let later = order(user_ref_num, TimeInForce::GoodForAuction, user_ref_num.into());
            assert_eq!(apply_at(&mut engine, timestamp, later), 0);
        }
        engine.check_invariants();
        let begin = engine.sequence().0;
        canceled += finish(&mut engine);
        let steps = (engine.sequence().0 - begin) as usize;
        assert_eq!((canceled, engine.counters().orders_live), (5_000, 6_000));
        let fewest = 5_000 / CANCELS_MAX - 1 + 1_000 / LOOKS_MAX;
        assert!((fewest..fewest + 4).contains(&steps), "{steps} steps, {fewest} at least");
        engine.check_invariants();
    }
}
