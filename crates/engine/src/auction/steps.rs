//! Auctions in steps: an auction makes its first trades when its phase ends, and the next ones before each later input.
//! Its price and lots are fixed before the first trade; in a large book this takes steps of its own, see
//! [`count`](super::count).
//!
//! Until the last trade the instrument stays in the phase that ends, and only the auction's own trades
//! change its resting orders: new orders are rejected, cancels wait, and orders that would enter the
//! book wait outside it. One auction trades at a time, in the order in which they began.
//! [`Engine::due`] asks for an input while an auction is left.
//!
//! Invariant: an instrument is in line at most once, exactly while its trading status has
//! `is_uncrossing`; and its remaining lots can trade.

use alloc::collections::BTreeMap;

use market::{
    CancelReason, CommandKind, Event, InstrumentId, OrderId, OrderKey, Phase, PhaseCause, Price,
    RestateReason, Side, encoded,
};

use crate::{
    Engine,
    auction::{count::ORDERS_MAX, phases, trading_status::TradingStatus},
    book::pool::Slot,
    contingent::instructions::{ContingentId, State},
    intake::cancel_line::{PendingCancel, PendingCancels},
    operator::venue_commands::PhaseStep,
    order::Order,
    state::hash::{self, StateHash},
    trading::instrument_queue::{InstrumentQueue, Queued},
};

/// Maximum number of auction trades in a command, and again before each later input; the start of an
/// auction counts as one.
const TRADES_MAX: usize = 16;

/// An auction that began and is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncrossing {
    pub(crate) instrument_id: InstrumentId,
    /// The change of phase that follows.
    step: PhaseStep,
    /// The change of phase after that, if a command requested one meanwhile.
    next: Option<PhaseStep>,
    /// The price and the lots; `None` until they are counted.
    cross: Option<Cross>,
    /// 0; earlier builds counted their steps here.
    reserved: u32,
}

/// The price and the lots of an auction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cross {
    pub(crate) price: Price,
    /// Lots in total; the sum of all orders may exceed 64 bits.
    pub(crate) paired: u128,
    /// Lots that are still to trade.
    pub(crate) missing: u128,
}

encoded! {
    PhaseStep { to, cause, reason, release_s }
    Cross { price, paired, missing }
    Uncrossing { instrument_id, step, next, cross, reserved }
}

impl PhaseStep {
    pub(crate) fn word(&self) -> u64 {
        let cause = match self.cause {
            PhaseCause::Command => 0,
            PhaseCause::Band => 1,
            PhaseCause::Time => 2,
        };
        u64::from(self.to.code()) | cause << 8 | u64::from(self.release_s) << 32
    }
}

impl Queued for Uncrossing {
    fn instrument_id(&self) -> InstrumentId {
        self.instrument_id
    }

    fn hash(&self, place: u64) -> u64 {
        let Self { instrument_id, step, next, cross, reserved } = self;
        let traded = cross.map_or([u128::MAX; 3], |it| [it.price.0.into(), it.paired, it.missing]);
        let [price, paired, missing] = traded.map(|it| it as u64);
        let [_, paired_high, missing_high] = traded.map(|it| (it >> 64) as u64);
        hash::mix([
            hash::UNCROSSING,
            place,
            u64::from(instrument_id.0) | u64::from(*reserved) << 32,
            step.word(),
            hash::word(&step.reason),
            next.map_or(u64::MAX, |next| next.word()),
            next.map_or(0, |next| hash::word(&next.reason)),
            price,
            paired,
            missing,
            paired_high,
            missing_high,
        ])
    }
}

/// The auctions that are not over, and the orders and cancels that wait for their end.
#[derive(Debug)]
pub(crate) struct AuctionLine {
    pub(crate) line: InstrumentQueue<Uncrossing>,
    /// Orders that are canceled when no auction is left.
    pub(crate) held: PendingCancels,
    /// Orders that come in when nothing trades in steps in their instrument.
    pub(crate) waiting: BTreeMap<InstrumentId, WaitingOrders>,
    /// The first waiting order of each instrument in which no auction or order trades in steps any longer.
    ready: BTreeMap<OrderId, OrderKey>,
}

/// The orders that wait in one instrument.
#[derive(Debug, Default)]
pub(crate) struct WaitingOrders {
    pub(crate) by_id: BTreeMap<OrderId, OrderKey>,
    /// The order of this instrument in [`AuctionLine::ready`].
    ready: Option<OrderId>,
}

impl Default for AuctionLine {
    fn default() -> Self {
        let (line, waiting, ready) = Default::default();
        Self { line, held: PendingCancels::new(hash::HELD_CANCEL), waiting, ready }
    }
}

impl AuctionLine {
    /// Updates the index after a change of the orders that wait in an instrument, or of whether it trades in steps.
    pub(crate) fn settle_waiting(&mut self, instrument_id: InstrumentId, is_uncrossing: bool) {
        let Some(waiting) = self.waiting.get_mut(&instrument_id) else { return };
        let first = waiting.by_id.first_key_value().filter(|_| !is_uncrossing);
        let first = first.map(|(order_id, key)| (*order_id, *key));
        let ready = first.map(|(order_id, _)| order_id);
        if waiting.ready != ready {
            if let Some(before) = waiting.ready {
                self.ready.remove(&before);
            }
            self.ready.extend(first);
            waiting.ready = ready;
        }
        if waiting.by_id.is_empty() {
            self.waiting.remove(&instrument_id);
        }
    }

    /// True if work is left.
    pub(crate) fn has_left(&self) -> bool {
        !self.line.is_empty() || !self.held.is_empty() || !self.waiting.is_empty()
    }

    /// Adds the elements of the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        self.line.add_hashes(sum);
        self.held.add_hashes(sum);
    }
}

impl Engine {
    /// Begins the auction with which an instrument leaves its phase: from now on nothing else changes its book.
    pub(crate) fn begin_auction(&mut self, instrument_id: InstrumentId, step: &PhaseStep) {
        self.change_trading(instrument_id, |trading| {
            trading.is_uncrossing = true;
            trading.ends_ns = TradingStatus::NEW.ends_ns;
            trading.indicates_ns = TradingStatus::NEW.indicates_ns;
        });
        self.forget_first_indication(instrument_id);
        let uncrossing =
            Uncrossing { instrument_id, step: *step, next: None, cross: None, reserved: 0 };
        self.auction_line.line.push(uncrossing);
    }

    /// The phase that an instrument gets next, while it uncrosses.
    pub(crate) fn phase_to_come(&self, instrument_id: InstrumentId) -> Option<Phase> {
        if !self.books[instrument_id].trading.is_uncrossing {
            return None;
        }
        let uncrossing = self.auction_line.line.find(instrument_id);
        // Without an auction it has a half-matched order.
        Some(uncrossing.map_or(Phase::Continuous, |it| it.step.to))
    }

    /// Plans a change of phase for the end of an instrument's auction, or of the trades of its half-matched order.
    pub(crate) fn change_phase_later(&mut self, instrument_id: InstrumentId, step: &PhaseStep) {
        let next = if let Some(uncrossing) = self.auction_line.line.find_mut(instrument_id) {
            &mut uncrossing.next
        } else {
            let half = self.half_matched.find_mut(instrument_id);
            &mut half.expect("the instrument uncrosses").next
        };
        *next = Some(*step);
    }

    /// True if the auction of an instrument began and its lots are still to be counted.
    pub(super) fn is_counting(&self, instrument_id: InstrumentId) -> bool {
        self.auction_line.line.find(instrument_id).is_some_and(|it| it.cross.is_none())
    }

    /// Makes the next trades of the auctions in line, and ends those that have no more.
    pub(crate) fn trade_in_auctions(&mut self, emit: &mut dyn FnMut(Event)) {
        let (mut left, mut orders) = (TRADES_MAX, ORDERS_MAX);
        while left != 0
            && let Some(&uncrossing) = self.auction_line.line.front()
        {
            let instrument_id = uncrossing.instrument_id;
            let phase = self.books[instrument_id].trading.phase;
            let counted = match uncrossing.cross {
                Some(cross) => Some(cross),
                None => {
                    left -= 1;
                    self.count_step(instrument_id, &mut orders)
                }
            };
            let Some(mut cross) = counted else { break };
            while left != 0 && cross.missing != 0 {
                left -= 1;
                self.pair(instrument_id, &mut cross, phase, emit);
            }
            if cross.missing == 0 {
                self.auction_line.line.pop();
                self.auction_line.line.begin_anew_if_empty();
                self.change_trading(instrument_id, |trading| trading.is_uncrossing = false);
                self.end_auction(instrument_id, &cross, phase, emit);
                self.complete_phase_change(instrument_id, &uncrossing.step, emit);
                if let Some(next) = uncrossing.next {
                    self.change_phase(instrument_id, &next, emit);
                }
            } else {
                let uncrossing = self.auction_line.line.find_mut(instrument_id);
                uncrossing.expect("it is first in line").cross = Some(cross);
            }
        }
        self.plan_resumption();
    }

    /// True if an order rests in an instrument that uncrosses, or is half matched, so that nothing
    /// else may change it.
    pub(crate) fn is_in_auction(&self, slot: Slot) -> bool {
        let instrument_id = self.pool[slot].order.instrument_id;
        self.books[instrument_id].trading.is_uncrossing
            && (self.is_booked(slot)
                || self.contingents[self.contingents.of(slot)].state == State::HalfMatched)
    }

    /// Cancels all open lots of a live order, or makes the cancel wait until its auction is over.
    pub(crate) fn cancel_when_possible(
        &mut self,
        slot: Slot,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        if !self.is_in_auction(slot) {
            return self.cancel_all(slot, reason, emit);
        }
        if !self.is_leaving(slot) {
            let key = self.pool[slot].order.key;
            self.hold_cancel(slot, PendingCancel { key, reason });
        }
    }

    /// Lets an order wait outside the book, because the book uncrosses, or other orders wait for that end.
    #[cold]
    pub(crate) fn wait_for_auction(&mut self, order: Order, id: ContingentId) {
        self.add_waiting(&order);
        self.hold(order, id, State::ForAuction);
    }

    /// Indexes an order that waits until nothing trades in steps in its instrument.
    pub(crate) fn add_waiting(&mut self, order: &Order) {
        let waiting = self.auction_line.waiting.entry(order.instrument_id).or_default();
        waiting.by_id.insert(order.order_id(), order.key);
        self.change_trading(order.instrument_id, |trading| trading.waiting += 1);
        self.contingents.has_triggered_left = true;
    }

    /// Removes an order from the index of waiting orders.
    pub(crate) fn remove_waiting(&mut self, order: &Order) {
        let waiting = self.auction_line.waiting.get_mut(&order.instrument_id);
        waiting.and_then(|it| it.by_id.remove(&order.order_id())).expect("it waits there");
        self.change_trading(order.instrument_id, |trading| trading.waiting -= 1);
    }

    /// The next waiting order of an instrument in which no auction or order trades in steps any longer.
    pub(crate) fn first_after_auctions(&self) -> Option<ContingentId> {
        let (_, key) = self.auction_line.ready.first_key_value()?;
        let slot = self.find(*key).expect("an order that waits is live");
        Some(self.contingents.of(slot))
    }

    /// Lets an order that waited for an auction enter the book, or cancels it if its instrument takes no
    /// orders.
    pub(crate) fn come_in_after_auction(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let slot = self.contingents[id].slot;
        let phase = self.books[self.contingents[id].instrument_id].trading.phase;
        if !self.day.is_open() || phases::is_open(phase).is_err() {
            return self.cancel_all(slot, CancelReason::ImmediateOrCancel, emit);
        }
        // Icebergs may have shown parts since it was accepted, and have their priority before it.
        let mut order = self.take(slot);
        let order_id_before = self.renumber(&mut order, id);
        emit(Event::Restated(order.restated_unseen(order_id_before, RestateReason::Ready)));
        self.come_in_now(order, id, emit);
    }

    /// Restores an auction; the error is the field that is invalid.
    pub(crate) fn restore_auction(
        &mut self,
        first: u64,
        uncrossing: Uncrossing,
    ) -> Result<(), &'static str> {
        let Uncrossing { instrument_id, step, cross, reserved, .. } = uncrossing;
        let book = self.books.get(instrument_id).ok_or("instrument")?;
        let trading = &book.trading;
        if trading.is_uncrossing || trading.due_ns() != u64::MAX {
            return Err("instrument");
        }
        if !phases::may_follow(trading.phase, step.to) || !phases::uncrosses(trading.phase, step.to)
        {
            return Err("phase");
        }
        if reserved != 0 {
            return Err("reserved");
        }
        if let Some(cross) = cross {
            let lots = |side| self.lots_in_auction(instrument_id, side, cross.price);
            let fits = cross.missing != 0
                && cross.missing <= cross.paired
                && cross.missing <= lots(Side::Buy).min(lots(Side::Sell));
            if !fits || !self.auction_line.line.is_empty() {
                return Err("lots");
            }
        }
        self.auction_line.line.restore_first(first)?;
        self.change_trading(instrument_id, |trading| trading.is_uncrossing = true);
        self.auction_line.line.push(uncrossing);
        Ok(())
    }

    /// Checks that the line and the status of each instrument agree.
    pub(crate) fn check_auction_line(&self) {
        let uncrossing = self.books.iter().filter(|book| book.trading.is_uncrossing).count();
        assert_eq!(uncrossing, self.auction_line.line.len() + self.half_matched.len());
        self.auction_line.line.check();
        for (index, (_, it)) in self.auction_line.line.iter().enumerate() {
            assert!(self.books[it.instrument_id].trading.is_uncrossing, "{it:?}");
            assert!(it.cross.is_none_or(|cross| index == 0 && cross.missing != 0), "{it:?}");
        }
        let mut ready_count = 0;
        for (instrument_id, orders) in &self.auction_line.waiting {
            let trading = &self.books[*instrument_id].trading;
            assert_eq!(orders.by_id.len(), trading.waiting as usize);
            let first = orders.by_id.first_key_value().filter(|_| !trading.is_uncrossing);
            assert_eq!(orders.ready, first.map(|(order_id, _)| *order_id));
            if let Some((order_id, key)) = first {
                assert_eq!(self.auction_line.ready.get(order_id), Some(key));
                ready_count += 1;
            }
            for (order_id, key) in &orders.by_id {
                let slot = self.find(*key).expect("it is live");
                let contingent = &self.contingents[self.contingents.of(slot)];
                assert_eq!((contingent.state, contingent.order_id), (State::ForAuction, *order_id));
                assert_eq!(contingent.instrument_id, *instrument_id);
            }
        }
        let waiting = self.books.iter().filter(|book| book.trading.waiting != 0).count();
        assert_eq!(waiting, self.auction_line.waiting.len());
        assert_eq!(ready_count, self.auction_line.ready.len());
    }

    /// Answers a cancel of an order that cannot leave its auction: a cancel of all lots waits, any other has no effect.
    /// An order that waits to be canceled already needs no answer.
    pub(crate) fn answer_in_auction(
        &mut self,
        slot: Slot,
        is_whole: bool,
        emit: &mut dyn FnMut(Event),
    ) {
        debug_assert!(matches!(self.cause, CommandKind::Cancel | CommandKind::Modify));
        if self.is_leaving(slot) {
            return;
        }
        let key = self.pool[slot].order.key;
        if is_whole {
            self.cancel_when_possible(slot, CancelReason::User, emit);
        }
        emit(Event::CancelHeld(market::CancelHeld { key, is_pending: is_whole }));
    }
}
