//! Pro-rata allocation: trades at a price are shared among its displayed orders in proportion to
//! their offered lots.
//!
//! The time share goes to the oldest orders first, and so do the lots that rounding leaves. Hidden orders
//! trade last, by time. Sharing out a level walks its oldest orders three times, and taking it by time
//! once; a step walks no other orders.
//!
//! Invariant: all lots are shared out, and no order gets more than it offers.

use market::{Quantity, encoded};

use super::{
    BookSide,
    cross::{Crossing, OnMatch},
    ladder::NO_RANK,
    pool::Pool,
};
use crate::order::QUANTITY_LIMIT;

/// The whole, in ppm.
const ALL_PPM: u32 = 1_000_000;

/// Maximum number of orders that share a price, without own orders of the incoming order's owner.
const SHARED_MAX: usize = 256;

// The lots that they offer fit in 64 bits, with the parts that icebergs show in a step.
const _: () = assert!(QUANTITY_LIMIT.0 < u64::MAX / (4 * SHARED_MAX as u64));

/// The allocation at a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The time share, in ppm; [`ALL_PPM`] is price-time.
    time_ppm: u32,
}

impl Sharing {
    /// Price-time: the oldest order first.
    pub(crate) const PRICE_TIME: Self = Self { time_ppm: ALL_PPM };

    /// Pro rata, with this time share in ppm.
    ///
    /// # Panics
    /// The time share is above 1,000,000.
    pub(crate) fn pro_rata(time_ppm: u32) -> Self {
        assert!(time_ppm <= ALL_PPM, "{time_ppm} millionths");
        Self { time_ppm }
    }

    /// True if the allocation is pro rata.
    #[inline]
    pub(crate) fn is_pro_rata(self) -> bool {
        self.time_ppm != ALL_PPM
    }
}

/// The lots still to be shared out, when fewer trade than a level offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Lots for the oldest orders first.
    time: u64,
    /// Lots for all orders in proportion.
    pro_rata: u64,
    /// Lots that they offer beyond the time share.
    offered_behind: u64,
    /// The rounding rest, for the oldest orders first.
    left: u64,
}

encoded! {
    Shares { time, pro_rata, offered_behind, left }
}

impl Shares {
    /// True if these can be the shares of an order with `leaves` open lots.
    pub(crate) fn may_be_of(&self, leaves: Quantity) -> bool {
        let Self { time, pro_rata, offered_behind, left } = *self;
        offered_behind != 0 && time.max(left) <= leaves.0 && pro_rata <= offered_behind
    }

    /// The numbers that decide all later shares.
    pub(crate) fn words(&self) -> [u64; 4] {
        let Self { time, pro_rata, offered_behind, left } = *self;
        [time, pro_rata, offered_behind, left]
    }

    /// Splits a quantity below the total offered.
    fn new(quantity: u64, offered: u64, sharing: Sharing) -> Self {
        assert!(quantity < offered, "orders that are taken whole share nothing");
        let time = u128::from(quantity) * u128::from(sharing.time_ppm) / u128::from(ALL_PPM);
        let time = time as u64;
        let offered_behind = offered - time;
        Self { time, pro_rata: quantity - time, offered_behind, left: 0 }
    }

    /// The share of the next order, oldest first, and its pro-rata part.
    fn take(&mut self, offered: u64) -> (u64, u64) {
        let time = self.time.min(offered);
        self.time -= time;
        let behind = offered - time;
        let pro_rata = u128::from(self.pro_rata) * u128::from(behind);
        let pro_rata = (pro_rata / u128::from(self.offered_behind)) as u64;
        let left = self.left.min(behind - pro_rata);
        self.left -= left;
        (time + pro_rata + left, pro_rata)
    }
}

impl BookSide {
    /// As [`Book::cross`](super::Book::cross), under pro-rata allocation.
    #[cold]
    #[inline(never)]
    pub(super) fn cross_pro_rata(
        &mut self,
        pool: &mut Pool,
        crossing: &mut Crossing<'_, impl OnMatch>,
        rank_worst: u32,
        sharing: Sharing,
    ) {
        // The rank of a level that it takes by time, and the lots that its oldest orders offer: more
        // orders than meet one in a step.
        let mut by_time = (NO_RANK, 0);
        while self.best_rank() <= rank_worst
            && !crossing.taker.is_done()
            && crossing.effects.has_left()
        {
            let taker_leaves = crossing.taker.leaves().0;
            if crossing.effects.rounds(crossing.taker).shares.is_some() {
                self.trade_shares(pool, crossing);
                continue;
            }
            let is_sharing = by_time.0 != self.best_rank() || taker_leaves < by_time.1;
            // Rounds that an earlier step left are taken first.
            if is_sharing && !crossing.effects.rounds(crossing.taker).are_open() {
                let rank = self.best_rank();
                let Some(offered) = self.share_out(pool, crossing, sharing) else { continue };
                by_time = (rank, offered);
                if !crossing.effects.has_left() {
                    break;
                }
            }
            let taker_leaves = crossing.taker.leaves().0;
            let shown = self.cross_level(pool, crossing);
            let traded = taker_leaves - crossing.taker.leaves().0;
            by_time.1 = (by_time.1 + shown.0).saturating_sub(traded);
        }
    }

    /// Shares the open lots of an incoming order among the oldest displayed orders of the best price,
    /// after it has met its own. Where price-time gives the same, returns the lots that these offer,
    /// or 0 for hidden orders.
    fn share_out(
        &mut self,
        pool: &mut Pool,
        crossing: &mut Crossing<'_, impl OnMatch>,
        sharing: Sharing,
    ) -> Option<u64> {
        if !pool[self.best_oldest()].order.display().is_displayed() {
            return Some(0);
        }
        let (mut offered, mut count) = (0, 0);
        let mut slot = self.best_oldest();
        while !slot.is_none() && count < SHARED_MAX {
            let maker = &pool[slot].order;
            let younger = pool[slot].younger;
            if crossing.effects.prevention(crossing.taker, maker).is_some() {
                if !crossing.effects.has_left() {
                    return None;
                }
                self.meet_at(pool, crossing, slot, None);
                if crossing.taker.is_done() {
                    return None;
                }
            } else {
                offered += crossing.effects.offered(slot, maker).0;
                count += 1;
            }
            slot = younger;
        }
        let quantity = crossing.taker.leaves().0;
        if offered == 0 {
            return None;
        }
        if offered <= quantity {
            return Some(offered);
        }

        let oldest = self.best_oldest();
        let mut shares = Shares::new(quantity, offered, sharing);
        let mut rehearsal = shares;
        let mut in_proportion = 0;
        let mut slot = oldest;
        for _ in 0..count {
            let offered = crossing.effects.offered(slot, &pool[slot].order).0;
            in_proportion += rehearsal.take(offered).1;
            slot = pool[slot].younger;
        }
        shares.left = shares.pro_rata - in_proportion;

        let rounds = crossing.effects.rounds(crossing.taker);
        (rounds.shares, rounds.next) = (Some(shares), oldest);
        self.trade_shares(pool, crossing);
        None
    }

    /// Trades with each order its share, until all lots are shared out or the step is over.
    fn trade_shares(&mut self, pool: &mut Pool, crossing: &mut Crossing<'_, impl OnMatch>) {
        while !crossing.taker.is_done() && crossing.effects.has_left() {
            let slot = crossing.effects.rounds(crossing.taker).next;
            let offered = crossing.effects.offered(slot, &pool[slot].order).0;
            let rounds = crossing.effects.rounds(crossing.taker);
            rounds.next = pool[slot].younger;
            let shares = rounds.shares.as_mut().expect("it is shared out");
            let (share, _) = shares.take(offered);
            if share > 0 {
                self.meet_at(pool, crossing, slot, Some(Quantity(share)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    fn shares(quantity: u64, time_ppm: u32, offers: &[u64]) -> Vec<u64> {
        let offered = offers.iter().sum();
        let mut shares = Shares::new(quantity, offered, Sharing::pro_rata(time_ppm));
        let mut rehearsal = shares;
        let in_proportion: u64 = offers.iter().map(|&offered| rehearsal.take(offered).1).sum();
        shares.left = shares.pro_rata - in_proportion;
        offers.iter().map(|&offered| shares.take(offered).0).collect()
    }

    /// Pro rata, with the rounding rest to the oldest; a time share comes first.
    #[test]
    fn shares_are_in_proportion() {
        assert_eq!(shares(50, 0, &[10, 30, 60]), [5, 15, 30]);
        assert_eq!(shares(10, 0, &[10, 10, 10]), [4, 3, 3]);
        assert_eq!(shares(2, 0, &[100, 100, 100]), [2, 0, 0]);
        assert_eq!(shares(50, 400_000, &[30, 30, 60]), [23, 9, 18]);
        assert_eq!(shares(50, 999_999, &[10, 30, 60]), [10, 30, 10]);
        let most = (1 << 48) - 1;
        assert_eq!(shares(most, 0, &[most; 3]), [most / 3; 3]);
        assert_eq!(shares(1 << 47, 0, &vec![most; SHARED_MAX]), [1 << 39; SHARED_MAX]);
    }

    /// For any offers, all lots are shared out, and no order trades more than it offers.
    #[test]
    fn all_is_shared_out() {
        let mut random = market::SplitMix64::new(7);
        for _ in 0..20_000 {
            let count = 1 + random.below(12) as usize;
            let mut offers = vec![0; count];
            offers.fill_with(|| 1 + random.below(1_000));
            let offered: u64 = offers.iter().sum();
            if offered == 1 {
                continue;
            }
            let quantity = 1 + random.below(offered - 1);
            let shares = shares(quantity, random.below(1_000_000) as u32, &offers);
            assert_eq!(shares.iter().sum::<u64>(), quantity, "{offers:?}");
            assert!(shares.iter().zip(&offers).all(|(share, offer)| share <= offer), "{offers:?}");
        }
    }
}
