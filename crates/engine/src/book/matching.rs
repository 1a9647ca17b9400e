//! The cross: an incoming order against the resting orders it meets.

use market::{Price, Quantity, SelfMatchPrevention};

use super::{Book, BookSide, ladder::NO_RANK, pool::Pool};
use crate::order::Order;

/// An incoming order met a resting one, as the book sees it.
pub(crate) struct Match<'a> {
    /// The resting order before it.
    pub(crate) maker_before: Order,
    /// The resting order after it; if it is done it has left the book.
    pub(crate) maker: &'a Order,
    /// What was open of the incoming order before it.
    pub(crate) taker_leaves_before: Quantity,
    /// The incoming order after it.
    pub(crate) taker: &'a Order,
    /// Lots traded, at the maker's price; or that would have, if it was prevented.
    pub(crate) quantity: Quantity,
    /// What was done instead of a trade.
    pub(crate) prevention: Option<SelfMatchPrevention>,
}

/// Who tells the book which orders may trade, and is told what became of them.
pub(crate) trait Settle {
    /// What happens instead of a trade of these two; `None` if they trade.
    fn prevention(&self, taker: &Order, maker: &Order) -> Option<SelfMatchPrevention>;

    /// Two orders met.
    fn settle(&mut self, met: &Match<'_>);
}

impl Book {
    /// Would `taker` trade at least so many lots? Walks no further than it takes to know.
    pub(crate) fn would_trade(
        &self,
        pool: &Pool,
        taker: &Order,
        limit: Option<Price>,
        minimum: Quantity,
        prevention: impl Fn(&Order) -> Option<SelfMatchPrevention>,
    ) -> bool {
        use SelfMatchPrevention::*;
        let rank_worst = limit.map_or(u32::MAX, |price| self.rank_opposite(taker.side, price));
        let makers = self.opposite(taker.side);
        let mut missing = minimum;
        let mut leaves = taker.leaves();
        let mut place = 0;
        while let Some((at, oldest)) = makers.level_at_or_after(place)
            && BookSide::rank(at) <= rank_worst
        {
            let mut slot = oldest;
            while !slot.is_none() {
                let maker = &pool[slot].order;
                let quantity = maker.leaves().min(leaves);
                match prevention(maker) {
                    None => {
                        missing = missing.saturating_sub(quantity);
                        leaves = leaves.saturating_sub(quantity);
                    }
                    Some(CancelOldest | CancelOldestOfSessions) => {}
                    Some(DecrementBoth | DecrementBothOfSessions) => {
                        leaves = leaves.saturating_sub(quantity);
                    }
                    Some(_) => return false,
                }
                if missing.is_zero() {
                    return true;
                }
                if leaves.is_zero() {
                    return false;
                }
                slot = pool[slot].younger;
            }
            place = at + 1;
        }
        missing.is_zero()
    }

    /// Trades `taker` against the other side: best price first, at each the displayed orders before
    /// the hidden ones, and of those the oldest first, until nothing of it is open or the next price is beyond `limit`. `None` is any price.
    pub(crate) fn cross(
        &mut self,
        pool: &mut Pool,
        taker: &mut Order,
        limit: Option<Price>,
        settlement: &mut impl Settle,
    ) {
        let rank_worst = limit.map_or(NO_RANK - 1, |price| self.rank_opposite(taker.side, price));
        let makers = self.opposite_mut(taker.side);
        while makers.best_rank() <= rank_worst && !taker.is_done() {
            let (rank, slot) = (makers.best_rank(), makers.best_oldest());
            let maker_before = pool[slot].order;
            let taker_leaves_before = taker.leaves();
            let quantity = maker_before.leaves().min(taker_leaves_before);

            let mut maker = maker_before;
            let prevention = settlement.prevention(taker, &maker_before);
            match prevention {
                None => {
                    maker.execute(quantity);
                    taker.execute(quantity);
                }
                Some(prevention) => prevent(prevention, &mut maker, taker, quantity),
            }
            if maker.is_done() {
                makers.unlink(pool, maker.display, rank, slot);
                pool.remove(slot);
            } else {
                pool[slot].order = maker;
            }
            settlement.settle(&Match {
                maker_before,
                maker: &maker,
                taker_leaves_before,
                taker,
                quantity,
                prevention,
            });
        }
    }
}

/// Takes from the two orders what the prevention says; `quantity` would have traded.
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
