//! The cross: an incoming order against the resting orders it meets.

use market::{Price, Quantity};

use super::{Book, ladder::NO_RANK, pool::Pool};
use crate::order::Order;

/// A trade, as the book sees it.
pub(crate) struct Match<'a> {
    /// The resting order before the trade.
    pub(crate) maker_before: Order,
    /// The resting order after it; if it is done it has left the book.
    pub(crate) maker: &'a Order,
    /// The incoming order after it.
    pub(crate) taker: &'a Order,
    /// Lots traded, at the maker's price.
    pub(crate) quantity: Quantity,
}

impl Book {
    /// Trades `taker` against the other side: best price first and the oldest first at each, until
    /// nothing of it is open or the next price is beyond `limit`. `None` is any price.
    pub(crate) fn cross(
        &mut self,
        pool: &mut Pool,
        taker: &mut Order,
        limit: Option<Price>,
        mut traded: impl FnMut(Match<'_>),
    ) {
        let rank_worst = limit.map_or(NO_RANK - 1, |price| self.rank_opposite(taker.side, price));
        let makers = self.opposite_mut(taker.side);
        while makers.best_rank() <= rank_worst && !taker.is_done() {
            let (rank, slot) = (makers.best_rank(), makers.best_oldest());
            let maker_before = pool[slot].order;
            let quantity = maker_before.leaves().min(taker.leaves());

            let mut maker = maker_before;
            maker.execute(quantity);
            taker.execute(quantity);
            if maker.is_done() {
                makers.unlink(pool, rank, slot);
                pool.remove(slot);
            } else {
                pool[slot].order = maker;
            }
            traded(Match { maker_before, maker: &maker, taker, quantity });
        }
    }
}
