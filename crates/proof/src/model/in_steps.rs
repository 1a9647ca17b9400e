//! Orders that trade in steps, as one would explain them: rules 6.10 to 6.14.

use std::collections::VecDeque;

use market::{InstrumentId, OrderKey, Phase, PhaseCause, Price, SetPhase};

use super::{Model, ModelOrder, Place, venue::Market};

/// The most orders that an order meets in a step, and the number of them that an iceberg counts as. (6.10)
const MEETINGS_MAX: u64 = 32;
const ICEBERG_COST: u64 = 2;

/// A half-matched order, and the state with which it continues. (6.11)
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub(super) key: OrderKey,
    pub(super) id: InstrumentId,
    /// The state of the instrument's market when the order came in.
    pub(super) market: Market,
    pub(super) price_last: Option<Price>,
    /// The last price at which it took rounds, their number, and the icebergs still to trade. (35.9)
    pub(super) rounds_at: Option<Price>,
    pub(super) rounds: u64,
    pub(super) in_rounds: VecDeque<OrderKey>,
    /// The orders sharing a price that are still to trade, with their lots. (38.1)
    pub(super) shares: VecDeque<(OrderKey, u64)>,
    /// A phase that the venue asked for meanwhile. (6.13)
    pub(super) next: Option<SetPhase>,
}

/// The meetings left in a step.
pub(super) struct Step(u64);

impl Step {
    pub(super) fn is_over(&self) -> bool {
        self.0 == 0
    }

    /// Counts a meeting with `other`.
    pub(super) fn met(&mut self, other: &ModelOrder) {
        let cost = if other.part.is_some() { ICEBERG_COST } else { 1 };
        self.0 = self.0.saturating_sub(cost);
    }
}

impl Model {
    /// The initial state of an order that begins to trade.
    pub(super) fn half(&self, order: &ModelOrder) -> Half {
        Half {
            key: order.key,
            id: order.instrument_id,
            market: *self.market(order.instrument_id),
            price_last: None,
            rounds_at: None,
            rounds: 0,
            in_rounds: VecDeque::new(),
            shares: VecDeque::new(),
            next: None,
        }
    }

    /// A full step; a rehearsal is a single step without a bound.
    pub(super) fn new_step(&self) -> Step {
        Step(if self.is_rehearsal { u64::MAX } else { MEETINGS_MAX })
    }

    /// Ends the step of an order that continues to trade in later steps. (6.10)
    pub(super) fn cut(&mut self, mut order: ModelOrder, half: Half) -> ModelOrder {
        order.place = Place::Turn;
        self.orders.push(order);
        self.halves.push_back(half);
        order
    }

    /// Continues the half-matched order whose turn it is. (6.10)
    pub(super) fn trade_on(&mut self) {
        let Some(half) = self.halves.pop_front() else { return };
        let place = self.place_of(half.key).expect("it is live");
        let mut order = self.orders.remove(place);
        order.place = Place::Book;
        let (id, next) = (half.id, half.next);
        let after = self.trade_in_step(order, half);
        let has_executed = after.executed > order.executed;
        if after.place == Place::Turn {
            return self.note(&after, has_executed);
        }
        self.note_after(order, after, has_executed);
        // 6.13
        if let Some(next) = next
            && self.may_follow(id, next.phase)
        {
            self.go_on(id, &next, PhaseCause::Command);
        }
    }

    /// Does a new order of an instrument wait for a half-matched one, or behind other waiting orders?
    /// (6.12)
    pub(super) fn comes_in_later(&self, id: InstrumentId) -> bool {
        let waits =
            |it: &ModelOrder| it.instrument_id == id && it.place == Place::Auction && !it.is_done();
        self.market(id).phase == Phase::Continuous
            && (self.is_trading_in_steps(id) || self.orders.iter().any(waits))
    }
}
