//! Orders that trade in steps: an incoming order meets a bounded number of resting orders when it comes in,
//! and as many again before each later input, until it has traded as far as it may.
//!
//! Until then it is half matched: live, but outside the book, and nothing else changes the orders that
//! rest in its instrument. So it has the same trades as in one step. Other orders for that book wait
//! outside it ([`TradingStatus::holds_new_orders`]), and cancels of resting orders wait, as in an auction in steps
//! ([`steps`](mod@crate::auction::steps)). Half-matched orders of several instruments take turns. While
//! there is one, no pegged order moves and no minimum-quantity order is tested.
//!
//! Invariant: an instrument has at most one half-matched order, exactly while its trading status has
//! `is_uncrossing` in continuous trading; and that order can continue to trade.

use alloc::vec::Vec;

use market::{Event, InstrumentId, Lots, OrderKey, OrderType, Phase, Price, Side, encoded};

use super::{iceberg::Rounds, incoming::Cut, instrument_queue::Queued};
use crate::{
    Engine,
    auction::phases,
    book::sharing::Shares,
    contingent::instructions::{Contingent, ContingentId, State},
    intake::classify::EntryTerms,
    operator::venue_commands::PhaseStep,
    order::Order,
    state::{hash, view::queue},
};

/// Maximum number of resting orders that an order meets in a step; an iceberg counts as
/// [`ICEBERG_COST`](super::on_match::ICEBERG_COST).
pub(crate) const MEETINGS_MAX: u64 = 32;

/// An order that has traded and trades on.
#[derive(Clone, Debug)]
pub(crate) struct HalfMatched {
    pub(crate) key: OrderKey,
    instrument_id: InstrumentId,
    /// The limit of its trades: its own, or that of a band when it came in.
    limit: Option<Price>,
    price_last: Option<Price>,
    /// The reservation for the lots that it still buys without a limit, in units.
    pub(crate) reserved: u128,
    taken: TakenRounds,
    /// The change of phase that follows, if a command requested one meanwhile.
    pub(crate) next: Option<PhaseStep>,
    /// The rounds of `taken`, and a tally that follows from the book.
    rounds: Rounds,
}

/// The rounds that it took of a price's icebergs.
#[derive(Clone, Copy, Debug)]
struct TakenRounds {
    price: Price,
    count: u64,
    /// The order whose turn it is.
    next: Option<OrderKey>,
    /// The lots that are still to be shared out.
    shares: Option<Shares>,
}

encoded! {
    HalfMatched {
        key, instrument_id, limit, price_last, reserved, taken, next; rounds = Rounds::default()
    }
    TakenRounds { price, count, next, shares }
}

fn key_word(key: &OrderKey) -> u64 {
    let OrderKey { session_id, channel, user_ref_num } = *key;
    u64::from(session_id.0) << 40 | u64::from(channel) << 32 | u64::from(user_ref_num)
}

impl Queued for HalfMatched {
    fn instrument_id(&self) -> InstrumentId {
        self.instrument_id
    }

    fn hash(&self, place: u64) -> u64 {
        let Self { key, instrument_id, limit, price_last, reserved, taken, next, .. } = self;
        let price = |price: &Option<Price>| price.map_or(u64::MAX, |price| price.0);
        let [time, pro_rata, behind, left] = taken.shares.map_or([u64::MAX; 4], |it| it.words());
        hash::mix([
            hash::HALF_MATCHED,
            time,
            pro_rata,
            behind,
            left,
            place,
            key_word(key),
            u64::from(instrument_id.0) | taken.count << 32,
            price(limit),
            price(price_last),
            *reserved as u64,
            (*reserved >> 64) as u64,
            taken.price.0,
            taken.next.as_ref().map_or(u64::MAX, key_word),
            next.map_or(u64::MAX, |next| next.word()),
            next.map_or(0, |next| hash::word(&next.reason)),
        ])
    }
}

impl Engine {
    /// An order without a record of instructions trades on in later steps.
    #[cold]
    pub(crate) fn trade_on_with_record(&mut self, mut order: Order, terms: &EntryTerms, cut: &Cut) {
        order.set_contingent(true);
        let EntryTerms { order_type, instructions, .. } = *terms;
        let contingent = Contingent::new(&order, instructions, order_type, Lots::ZERO);
        let id = self.contingents.add(contingent);
        self.trade_on_later(order, id, cut);
    }

    /// An order without a slot trades on in later steps. From now on nothing else changes its book.
    #[cold]
    pub(crate) fn trade_on_later(&mut self, order: Order, id: ContingentId, cut: &Cut) {
        let Order { key, instrument_id, .. } = order;
        let order_id = order.order_id();
        // It had its minimum, or will have it: the book stays as it is.
        self.contingents[id].minimum_quantity = Lots::ZERO;
        self.hold(order, id, State::HalfMatched);
        self.change_trading(instrument_id, |trading| trading.is_uncrossing = true);
        let rounds = self.icebergs.rounds_of(order_id).clone();
        let (reserved, taken) = (self.money.suspend_market(), self.taken(&rounds));
        self.line_up_half_matched(HalfMatched {
            key,
            instrument_id,
            limit: cut.limit,
            price_last: cut.price_last,
            reserved,
            taken,
            next: None,
            rounds,
        });
        self.plan_resumption();
    }

    fn line_up_half_matched(&mut self, half: HalfMatched) {
        self.half_matched.push(half);
    }

    fn taken(&self, rounds: &Rounds) -> TakenRounds {
        let Rounds { price, count, next, shares, .. } = *rounds;
        let next = (!next.is_none()).then(|| self.pool[next].order.key);
        TakenRounds { price, count, next, shares }
    }

    /// Lets the half-matched order whose turn it is continue to trade.
    pub(crate) fn trade_on(&mut self, emit: &mut dyn FnMut(Event)) {
        let Some(mut half) = self.half_matched.pop() else { return };
        let slot = self.find(half.key).expect("a half-matched order is live");
        let id = self.contingents.of(slot);
        let before = self.pool[slot].order;
        let mut order = before;
        self.icebergs.rounds = half.rounds.clone();
        self.money.resume_market(half.reserved);
        let price_last = self.trade(&mut order, half.limit, emit);
        self.keep_price_last(&order, price_last);
        half.price_last = price_last.or(half.price_last);
        if before.executed() < order.executed() {
            self.contingents.execute(id);
        }
        self.pool[slot].order = order;
        if self.trades_on(&order, half.limit) {
            half.rounds = self.icebergs.rounds.clone();
            half.taken = self.taken(&half.rounds);
            half.reserved = self.money.suspend_market();
            return self.line_up_half_matched(half);
        }
        self.half_matched.begin_anew_if_empty();
        let instrument_id = order.instrument_id;
        self.change_trading(instrument_id, |trading| trading.is_uncrossing = false);
        let mut order = self.take(slot);
        let Contingent { order_type, instructions, .. } = self.contingents[id];
        // A pegged order has a price.
        let order_type =
            if instructions.pricing.is_pegged() { OrderType::Limit } else { order_type };
        let terms = EntryTerms { order_type, minimum_quantity: Lots::ZERO, instructions };
        let came_in =
            self.rest_or_cancel(&mut order, &terms, Some(half.limit), half.price_last, emit);
        self.keep_record(order, id, came_in, emit);
        if let Some(next) = half.next
            && phases::may_follow(self.books[instrument_id].trading.phase, next.to)
        {
            self.change_phase(instrument_id, &next, emit);
        }
    }

    /// Restores a half-matched order; the error is the field that is invalid.
    pub(crate) fn restore_half_matched(
        &mut self,
        first: u64,
        half: HalfMatched,
    ) -> Result<(), &'static str> {
        let book = self.books.get(half.instrument_id).ok_or("instrument")?;
        if book.trading.is_uncrossing || book.trading.phase != Phase::Continuous {
            return Err("instrument");
        }
        self.half_matched.restore_first(first)?;
        self.change_trading(half.instrument_id, |trading| trading.is_uncrossing = true);
        self.line_up_half_matched(half);
        Ok(())
    }

    /// Restores the state that follows from the orders: the reservations and the rounds of half-matched
    /// ones. The error is the field that is invalid.
    pub(crate) fn restore_half_matched_orders(&mut self) -> Result<(), &'static str> {
        let is_half = |id: &ContingentId| self.contingents[*id].state == State::HalfMatched;
        if self.contingents.iter().filter(is_half).count() != self.half_matched.len() {
            return Err("key");
        }
        let all: Vec<_> = self.half_matched.iter().map(|(_, half)| half.clone()).collect();
        for HalfMatched { key, instrument_id, limit, taken, reserved, .. } in all {
            let slot = self.find(key).ok_or("key")?;
            let order = self.pool[slot].order;
            let id = self.contingents.find(slot).ok_or("key")?;
            if self.contingents[id].state != State::HalfMatched {
                return Err("key");
            }
            if order.instrument_id != instrument_id {
                return Err("instrument");
            }
            if !self.trades_on(&order, limit) {
                return Err("limit");
            }
            self.money.restore_walk(&order, reserved).ok_or("reserved")?;
            let mut rounds = Rounds::new(order.order_id());
            (rounds.price, rounds.count, rounds.shares) = (taken.price, taken.count, taken.shares);
            let other = if order.side().is_buy() { Side::Sell } else { Side::Buy };
            let (_, price, oldest) =
                self.books[instrument_id].level_at_or_after(other, 0).ok_or("limit")?;
            if let Some(next) = taken.next {
                let next = self.find(next).ok_or("next")?;
                rounds.next = queue(self, oldest).find(|slot| *slot == next).ok_or("next")?;
            }
            let fits = |shares: Shares| taken.next.is_some() && shares.may_be_of(order.leaves());
            if !taken.shares.is_none_or(fits) {
                return Err("shares");
            }
            let icebergs = queue(self, oldest).filter(|slot| self.pool[*slot].order.is_iceberg());
            for slot in icebergs {
                let maker = &self.pool[slot].order;
                if order.order_id() < maker.order_id() {
                    let iceberg = self.icebergs.get(slot);
                    let reserve = maker.leaves().saturating_sub(iceberg.shown.quantity());
                    rounds.count_in(price, reserve, iceberg.shown_quantity.quantity());
                }
            }
            self.half_matched.find_mut(instrument_id).ok_or("instrument")?.rounds = rounds;
        }
        Ok(())
    }

    /// Checks that half-matched orders can trade on, and are in line once.
    pub(crate) fn check_half_matched(&self) {
        self.half_matched.check();
        for (_, half) in self.half_matched.iter() {
            let slot = self.find(half.key).expect("it is live");
            let order = &self.pool[slot].order;
            let state = self.contingents[self.contingents.of(slot)].state;
            assert_eq!((state, order.instrument_id), (State::HalfMatched, half.instrument_id));
            assert!(self.books[half.instrument_id].trading.is_uncrossing, "{half:?}");
            assert_eq!(self.books[half.instrument_id].trading.phase, Phase::Continuous);
            assert!(self.trades_on(order, half.limit), "{half:?}");
        }
        let is_half = |id: &ContingentId| self.contingents[*id].state == State::HalfMatched;
        assert_eq!(self.contingents.iter().filter(is_half).count(), self.half_matched.len());
    }
}
