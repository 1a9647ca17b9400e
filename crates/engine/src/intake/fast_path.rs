//! Fast path for the common order: a displayed limit order, day or IOC, in unrestricted continuous
//! trading, from a session with order entry enabled; and for its cancel. All unusual cases are
//! excluded first, so the rest has no branches for them.
//!
//! Invariant: the fast path emits the same events, and leaves the same state, as the general path
//! ([`Engine::enter`], [`Engine::cancel`]). A new order feature must either be excluded here
//! ([`asks_for_more`], [`Order::has_more_state`](crate::order::Order::has_more_state),
//! [`Book::takes_fast_path`](crate::book::Book::takes_fast_path)) or be added here too.

use market::{
    Booked, CancelOrder, CancelReason, CommandKind, Conditions, Display, EnterOrder, Event, Firm,
    InstrumentId, OrderEntered, OrderId, OrderType, OrderWithdrawn, Outcome, OwnMovement,
    TimeInForce,
};

use crate::{
    Emit, Engine, auction::uncross::Looks, intake::classify::EntryTerms, money::Claim,
    order::Order, trading::incoming::Cut,
};

/// True if an order has conditions, instructions or terms that only the general path supports.
#[inline]
fn asks_for_more(order: &EnterOrder) -> bool {
    let Conditions { self_match_prevention: _, self_match_group: _, post_only, minimum_quantity } =
        order.conditions;
    let lives = matches!(
        order.time_in_force,
        TimeInForce::Day | TimeInForce::GoodTillCancel | TimeInForce::ImmediateOrCancel
    );
    // One test of all fields: none of them is likely.
    let unusual = u32::from(order.key.channel)
        | u32::from(order.order_type.code() ^ OrderType::Limit.code())
        | u32::from(order.display.code() ^ Display::Visible.code())
        | u32::from(post_only)
        | u32::from(!lives)
        | minimum_quantity.any_bits();
    unusual != 0 || order.instructions.is_some()
}

impl Engine {
    /// Enters a plain limit order that passes every check. Returns false, with no effect, for any
    /// other.
    #[inline(always)]
    pub(crate) fn enter_fast(
        &mut self,
        order: &EnterOrder,
        emit: &mut (impl Emit + ?Sized),
    ) -> bool {
        let key = order.key;
        if asks_for_more(order) || !self.day.is_open() || !self.blocks.is_empty() {
            return false;
        }
        let Some(number) = self.symbols.find(&order.symbol) else { return false };
        let instrument_id = InstrumentId(number);
        let Self { sessions, books, pool, money, .. } = self;
        let Some(session) = sessions.get_mut(key.session_id) else { return false };
        let book = &mut books[usize::from(number) - 1];
        if !session.takes_fast_path(key) || !book.takes_fast_path() {
            return false;
        }
        let EnterOrder { side, price, quantity, .. } = *order;
        let Some(ranks) = book.ranks(side, quantity, price) else { return false };
        let order_id = OrderId(self.order_id_last.0 + 1);
        // After the checks of its terms: only an allowed price and quantity have a cost.
        let mut reserved = OwnMovement::NONE;
        if money.is_used() {
            let session_id = key.session_id;
            let claim = Claim { session_id, instrument_id, order_id, side, price };
            match money.reserve_fast(&claim, quantity) {
                Some(movement) => reserved = movement,
                None => return false,
            }
        }

        session.consume_fast(key);
        self.order_id_last = order_id;
        self.orders_accepted += 1;
        // IOC, the only plain time in force that does not rest.
        let may_rest = order.time_in_force != TimeInForce::ImmediateOrCancel;
        let rests = may_rest && ranks.worst < book.opposite(order.side).best_rank();
        emit.emit_at_once(Outcome::Entered(OrderEntered {
            key,
            order_id,
            instrument_id,
            side,
            time_in_force: order.time_in_force,
            quantity: order.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            self_match_prevention: order.conditions.self_match_prevention,
            self_match_group: order.conditions.self_match_group,
            rests,
            reserved,
        }));
        if !rests {
            self.trade_fast(order, order_id, instrument_id, emit);
            return true;
        }
        let order = Order::entered(order, order_id, instrument_id, Display::Visible);
        let slot = book.side_mut(side).displayed.append(pool, ranks.own, || order);
        session.add_live_fast(key, slot);
        if reserved != OwnMovement::NONE {
            money.add_live_of(reserved.account_id());
        }
        true
    }

    /// Trades a plain order; the open rest goes into the book if it may.
    #[inline(never)]
    fn trade_fast(
        &mut self,
        order: &EnterOrder,
        order_id: OrderId,
        instrument_id: InstrumentId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let mut order = Order::entered(order, order_id, instrument_id, Display::Visible);
        let limit = order.price();
        self.cause = CommandKind::Enter;
        self.looks = Looks::NEW;
        let price_last = self.trade(&mut order, Some(limit), emit);
        let emit = &mut |event| emit.emit(event);
        if order.is_done() {
        } else if self.trades_on(&order, Some(limit)) {
            let cut = Cut { limit: Some(limit), price_last };
            self.trade_on_with_record(order, &EntryTerms::LIMIT, &cut);
        } else if !order.time_in_force().may_rest() {
            self.cancel_at_once(&order, CancelReason::ImmediateOrCancel, emit);
        } else {
            let slot = self.rest(&order);
            self.sessions.owner_mut(order.key).add_live_fast(order.key, slot);
            self.money.add_live(order.key.session_id);
            emit(Event::Booked(Booked {
                order_id: order.order_id(),
                instrument_id: order.instrument_id,
                side: order.side(),
                price: order.price(),
                leaves: order.leaves(),
                shown: order.leaves(),
                attribution: Firm::BLANK,
            }));
        }
        self.follow(emit);
    }

    /// Cancels a live plain order in full. Returns false, with no effect, for any other.
    #[inline(always)]
    pub(crate) fn cancel_fast(
        &mut self,
        cancel: &CancelOrder,
        emit: &mut (impl Emit + ?Sized),
    ) -> bool {
        let CancelOrder { key, quantity } = *cancel;
        if !quantity.is_zero() || key.channel != 0 {
            return false;
        }
        let Self { sessions, books, pool, money, .. } = self;
        let Some(session) = sessions.get_mut(key.session_id) else { return false };
        let Some(slot) = session.find_fast(key) else { return false };
        let order = &pool[slot].order;
        if order.has_more_state() || order.is_for_auction() {
            return false;
        }
        let instrument_id = order.instrument_id;
        let book = &mut books[usize::from(instrument_id.0) - 1];
        if book.is_pegged | book.is_counted | book.trading.is_uncrossing {
            return false;
        }
        let (order_id, side, price, leaves) =
            (order.order_id(), order.side(), order.price(), order.leaves());
        let display = order.display();
        let rank = book.rank(side, price);
        book.side_mut(side).ladder_mut(display).remove(pool, rank, slot);
        session.remove_live_fast(key);
        let session_id = key.session_id;
        money.remove_live(session_id);
        let claim = Claim { session_id, instrument_id, order_id, side, price };
        let (released, wide) = money.release_fast(&claim, leaves);
        emit.emit_at_once(Outcome::Withdrawn(OrderWithdrawn {
            key,
            order_id,
            instrument_id,
            quantity: leaves.lots(),
            is_shown: display.is_displayed(),
            released,
        }));
        if let Some(entry) = wide {
            emit.emit(Event::Ledger(entry));
        }
        true
    }
}
