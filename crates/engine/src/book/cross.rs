//! Crossing: an incoming order against the resting orders that it meets. Invariant: price-time
//! priority, displayed before hidden.

use core::iter;

use market::{Price, Quantity, SelfMatchPrevention};

use super::{
    Book, BookSide,
    ladder::{NO_RANK, Take},
    pool::{Pool, Slot},
};
use crate::{order::Order, trading::iceberg::Rounds};

/// A match of an incoming and a resting order, as the book sees it.
pub(crate) struct Match<'a> {
    /// Open lots of the resting order before the match.
    pub(crate) maker_leaves_before: Quantity,
    /// The resting order after the match; if it is done it leaves the book.
    pub(crate) maker: &'a Order,
    /// Open lots of the incoming order before the match.
    pub(crate) taker_leaves_before: Quantity,
    /// The incoming order after the match.
    pub(crate) taker: &'a Order,
    /// The price of the match: the maker's, or the auction's.
    pub(crate) price: Price,
    /// Lots traded, or prevented from trading.
    pub(crate) quantity: Quantity,
    /// The self-match prevention applied instead of a trade.
    pub(crate) prevention: Option<SelfMatchPrevention>,
    /// The slot of the resting order, if it is an iceberg.
    pub(crate) reserve: Option<Slot>,
    /// True if it traded lots that are not shown.
    pub(crate) is_unseen: bool,
}

/// The book's callback: decides which orders may trade, and carries out the effects of a match.
pub(crate) trait OnMatch {
    /// True if these two orders trade without special cases; otherwise [`Book::cross`] takes the
    /// full path.
    fn is_plain(&self, taker: &Order, maker: &Order) -> bool;

    /// The self-match prevention of these two orders; `None` if they trade.
    fn prevention(&self, taker: &Order, maker: &Order) -> Option<SelfMatchPrevention>;

    /// Two orders matched: they traded, or self-match prevention applied.
    fn matched(&mut self, met: &Match<'_>);

    /// As [`matched`](Self::matched), for two [plain](Self::is_plain) orders, which traded.
    fn matched_plain(&mut self, met: &Match<'_>);

    /// Lots that an iceberg offers at a time.
    fn shown(&self, slot: Slot) -> Quantity;

    /// Lots of an iceberg that it shows at a time, as instructed.
    fn part(&self, slot: Slot) -> Quantity;

    /// Lots that an order offers at a time.
    fn offered(&self, slot: Slot, maker: &Order) -> Quantity {
        if maker.is_iceberg() { self.shown(slot) } else { maker.leaves() }
    }

    /// Shows the next part of an iceberg whose shown part is filled, under a new order id; returns
    /// its lots. Returns `None`, with no effect, if lots are still shown.
    fn refresh(&mut self, slot: Slot, maker: &mut Order, taker: &Order) -> Option<Quantity>;

    /// True if the incoming order may meet more orders in this step. Rule 6.10.
    fn has_left(&self) -> bool;

    /// The incoming order passed an iceberg without a trade.
    fn pass(&mut self);

    /// The rounds of the incoming order.
    fn rounds(&mut self, taker: &Order) -> &mut Rounds;
}

/// How far to search for the possible trades of an order.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// The worst price to search; `None` is any.
    pub(crate) limit: Option<Price>,
    /// The most orders to search.
    pub(crate) orders_max: usize,
}

/// An incoming order while it crosses the other side.
pub(super) struct Crossing<'a, S> {
    pub(super) taker: &'a mut Order,
    pub(super) effects: &'a mut S,
}

impl<S: OnMatch> Take<Order> for Crossing<'_, S> {
    #[inline]
    fn is_plain(&self, maker: &Order) -> bool {
        self.effects.is_plain(self.taker, maker)
    }

    #[inline]
    fn trade(&mut self, maker: &mut Order) -> bool {
        let Self { taker, effects, .. } = self;
        let maker_leaves_before = maker.leaves();
        let taker_leaves_before = taker.leaves();
        let quantity = maker.leaves().min(taker_leaves_before);
        maker.execute(quantity);
        taker.execute(quantity);
        let prevention = None;
        effects.matched_plain(&Match {
            maker_leaves_before,
            maker,
            taker_leaves_before,
            taker,
            price: maker.price(),
            quantity,
            prevention,
            reserve: None,
            is_unseen: false,
        });
        taker.is_done()
    }

    #[inline]
    fn has_left(&self) -> bool {
        self.effects.has_left()
    }
}

impl Book {
    /// True if `taker` would trade at least this many lots within the range. Walks no further than
    /// needed.
    pub(crate) fn would_trade(
        &self,
        pool: &Pool,
        taker: &Order,
        reach: Reach,
        minimum: Quantity,
        prevention: impl Fn(&Order) -> Option<SelfMatchPrevention>,
        shown: impl Fn(Slot) -> Quantity,
    ) -> bool {
        let mut missing = minimum;
        self.walk(pool, taker, reach, prevention, shown, |_, quantity| {
            missing = missing.saturating_sub(quantity);
            !missing.is_zero()
        });
        missing.is_zero()
    }

    /// Calls back with price and quantity of each possible trade of `taker` within the range, while
    /// the callback asks for more; returns the lots that would stay open. `None` if lots are open
    /// where the search ends at the most orders, and there are more.
    pub(crate) fn walk(
        &self,
        pool: &Pool,
        taker: &Order,
        reach: Reach,
        prevention: impl Fn(&Order) -> Option<SelfMatchPrevention>,
        shown: impl Fn(Slot) -> Quantity,
        mut trade: impl FnMut(Price, Quantity) -> bool,
    ) -> Option<Quantity> {
        use SelfMatchPrevention::*;
        let Reach { limit, orders_max } = reach;
        let rank_worst = limit.map_or(u32::MAX, |price| self.rank_opposite(taker.side(), price));
        let makers = self.opposite(taker.side());
        let mut leaves = taker.leaves();
        let mut place = 0;
        let mut orders_left = orders_max;
        while let Some((at, oldest)) = makers.level_at_or_after(place)
            && BookSide::rank(at) <= rank_worst
        {
            if orders_left == 0 {
                return None;
            }
            let counted = || level_queue(pool, oldest).take(orders_left);
            let mut met = 0;
            // The reserves of icebergs trade after all shown lots.
            let mut reserve = Quantity::ZERO;
            let is_shared =
                self.sharing.is_pro_rata() && pool[oldest].order.display().is_displayed();
            // Under pro-rata allocation a level's own orders are met first.
            let own = is_shared
                .then(|| counted().filter(|slot| prevention(&pool[*slot].order).is_some()));
            let others =
                counted().filter(|slot| !is_shared || prevention(&pool[*slot].order).is_none());
            for slot in own.into_iter().flatten().chain(others) {
                let maker = &pool[slot].order;
                met += 1;
                let mut quantity = maker.leaves().min(leaves);
                match prevention(maker) {
                    None => {
                        if maker.is_iceberg() {
                            let part = shown(slot);
                            let behind = maker.leaves().saturating_sub(part);
                            // More than this order has for it need not be counted.
                            reserve = reserve.saturating_add(behind);
                            quantity = part.min(leaves);
                        }
                        leaves = leaves.saturating_sub(quantity);
                        if !trade(maker.price(), quantity) {
                            return Some(leaves);
                        }
                    }
                    Some(CancelOldest | CancelOldestOfSessions) => {}
                    Some(DecrementBoth | DecrementBothOfSessions) => {
                        leaves = leaves.saturating_sub(quantity);
                    }
                    Some(_) => return Some(Quantity::ZERO),
                }
                if leaves.is_zero() {
                    return Some(leaves);
                }
            }
            if !reserve.is_zero() {
                let quantity = reserve.min(leaves);
                leaves = leaves.saturating_sub(quantity);
                if !trade(pool[oldest].order.price(), quantity) || leaves.is_zero() {
                    return Some(leaves);
                }
            }
            if met == orders_left && level_queue(pool, oldest).nth(met).is_some() {
                return None;
            }
            place = at + 1;
            orders_left -= met;
        }
        Some(leaves)
    }

    /// Matches `taker` against the other side, until it is filled, the next price is beyond `limit`
    /// (`None` is any price), or it may meet no more orders in this step: best price first,
    /// displayed before hidden, oldest first.
    pub(crate) fn cross(
        &mut self,
        pool: &mut Pool,
        taker: &mut Order,
        limit: Option<Price>,
        effects: &mut impl OnMatch,
    ) {
        let rank_worst = limit.map_or(NO_RANK - 1, |price| self.rank_opposite(taker.side(), price));
        let sharing = self.sharing;
        let makers = self.opposite_mut(taker.side());
        let mut crossing = Crossing { taker, effects };
        if sharing.is_pro_rata() {
            return makers.cross_pro_rata(pool, &mut crossing, rank_worst, sharing);
        }
        while makers.best_rank() <= rank_worst && !crossing.taker.is_done() && crossing.has_left() {
            makers.cross_level(pool, &mut crossing);
        }
    }
}

impl BookSide {
    /// Matches an incoming order with plain orders of the best level, and with the first other one.
    /// Returns the lots of icebergs that are shown instead of others, or traded unseen.
    #[inline]
    pub(super) fn cross_level(
        &mut self,
        pool: &mut Pool,
        crossing: &mut Crossing<'_, impl OnMatch>,
    ) -> Quantity {
        if self.best_ladder_mut().cross_best(pool, crossing) {
            return self.meet(pool, crossing);
        }
        Quantity::ZERO
    }

    /// Matches an incoming order with the first resting order in the full path, which is kept apart
    /// from the plain one.
    #[cold]
    #[inline(never)]
    fn meet(&mut self, pool: &mut Pool, crossing: &mut Crossing<'_, impl OnMatch>) -> Quantity {
        let slot = self.best_oldest();
        let maker = &pool[slot].order;
        let Crossing { taker, effects } = crossing;
        if effects.rounds(taker).are_due(maker) {
            return take_rounds(pool, crossing, slot);
        }
        self.meet_at(pool, crossing, slot, None)
    }

    /// Matches an incoming order with one of the best level, up to its share. Returns the lots that
    /// an iceberg shows next.
    pub(super) fn meet_at(
        &mut self,
        pool: &mut Pool,
        crossing: &mut Crossing<'_, impl OnMatch>,
        slot: Slot,
        share: Option<Quantity>,
    ) -> Quantity {
        let maker = &mut pool[slot].order;
        let Crossing { taker, effects } = crossing;
        let prevention = effects.prevention(taker, maker);
        let maker_leaves_before = maker.leaves();
        let taker_leaves_before = taker.leaves();
        // Self-match prevention covers all lots of an order, shown or not.
        let offered = match prevention {
            None => share.unwrap_or_else(|| effects.offered(slot, maker)),
            Some(_) => maker.leaves(),
        };
        let quantity = offered.min(taker_leaves_before);
        match prevention {
            None => {
                maker.execute(quantity);
                taker.execute(quantity);
            }
            Some(prevention) => prevent(prevention, maker, taker, quantity),
        }
        let reserve = maker.is_iceberg().then_some(slot);
        effects.matched(&Match {
            maker_leaves_before,
            maker,
            taker_leaves_before,
            taker,
            price: maker.price(),
            quantity,
            prevention,
            reserve,
            is_unseen: false,
        });
        let (display, rank) = (maker.display(), self.best_rank());
        if pool[slot].order.is_done() {
            self.ladder_mut(display).remove(pool, rank, slot);
        } else if reserve.is_some()
            && let Some(shown) = effects.refresh(slot, &mut pool[slot].order, taker)
        {
            self.ladder_mut(display).move_last(pool, rank, slot);
            return shown;
        }
        Quantity::ZERO
    }
}

/// Trades an incoming order with the reserves of a level's icebergs, all of which show their next
/// part: as many whole rounds as it has lots for, and trades with each iceberg once. Returns the lots.
/// If the step ends earlier, the next one continues.
///
/// The remaining lots are then fewer than the shown parts of the icebergs with a reserve, unless their
/// parts are drawn from a range. So an order trades with an iceberg only a few times, even if the iceberg
/// shows very few lots at a time.
fn take_rounds(
    pool: &mut Pool,
    crossing: &mut Crossing<'_, impl OnMatch>,
    oldest: Slot,
) -> Quantity {
    let Crossing { taker, effects } = crossing;
    let taker_leaves = taker.leaves();
    let rounds = effects.rounds(taker);
    if !rounds.are_open() {
        rounds.begin(pool[oldest].order.price(), taker_leaves, oldest);
    }
    while let Some((slot, rounds)) = effects.rounds(taker).next()
        && effects.has_left()
    {
        effects.rounds(taker).go_on(pool[slot].younger);
        let maker = &mut pool[slot].order;
        let reserve = maker.leaves().saturating_sub(effects.shown(slot));
        let quantity = reserve.min(Quantity(effects.part(slot).0 * rounds));
        if quantity.is_zero() {
            effects.pass();
            continue;
        }
        let (maker_leaves_before, taker_leaves_before) = (maker.leaves(), taker.leaves());
        maker.execute(quantity);
        taker.execute(quantity);
        effects.matched(&Match {
            maker_leaves_before,
            maker,
            taker_leaves_before,
            taker,
            price: maker.price(),
            quantity,
            prevention: None,
            reserve: Some(slot),
            is_unseen: true,
        });
    }
    taker_leaves.saturating_sub(taker.leaves())
}

/// The orders of a level from this one on, oldest first.
fn level_queue(pool: &Pool, oldest: Slot) -> impl Iterator<Item = Slot> {
    iter::successors(Some(oldest), |slot| {
        Some(pool[*slot].younger).filter(|younger| !younger.is_none())
    })
}

/// Applies self-match prevention to both orders; `quantity` would have traded.
fn prevent(
    prevention: SelfMatchPrevention,
    maker: &mut Order,
    taker: &mut Order,
    quantity: Quantity,
) {
    use SelfMatchPrevention::*;
    match prevention {
        CancelNewest | CancelNewestOfSessions => taker.prevent(taker.leaves()),
        CancelOldest | CancelOldestOfSessions => maker.prevent(maker.leaves()),
        CancelBoth | CancelBothOfSessions => {
            maker.prevent(maker.leaves());
            taker.prevent(taker.leaves());
        }
        DecrementBoth | DecrementBothOfSessions => {
            maker.prevent(quantity);
            taker.prevent(quantity);
        }
        SessionDefault | Off => unreachable!("orders that may trade are not prevented"),
    }
}
