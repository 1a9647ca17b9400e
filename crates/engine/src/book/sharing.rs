//! Pro rata: what trades at a price is shared among the orders there in proportion to what each
//! offers.
//!
//! A part of it, the time share, goes to the oldest first all the same; what rounding leaves goes to
//! the oldest, too. Hidden orders trade behind, by time. Sharing one level out walks it three times.

use market::Quantity;

use super::{
    BookSide,
    cross::{Crossing, OnMatch},
    pool::Pool,
};

/// All, in millionths.
const ALL_PPM: u32 = 1_000_000;

/// How what trades at a price is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// What goes to the oldest first, in millionths; [`ALL_PPM`] is price and time.
    time_ppm: u32,
}

impl Sharing {
    /// The oldest first.
    pub(crate) const PRICE_TIME: Self = Self { time_ppm: ALL_PPM };

    /// In proportion, but for so many millionths.
    ///
    /// # Panics
    /// They are more than a million.
    pub(crate) fn pro_rata(time_ppm: u32) -> Self {
        assert!(time_ppm <= ALL_PPM, "{time_ppm} millionths");
        Self { time_ppm }
    }

    /// True if not all goes to the oldest first.
    #[inline]
    pub(crate) fn is_pro_rata(self) -> bool {
        self.time_ppm != ALL_PPM
    }
}

/// What is still to be shared out of a quantity that is less than a level offers.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// For the oldest first.
    time: u64,
    /// For all in proportion.
    pro_rata: u64,
    /// What the level offers beyond the part for the oldest.
    offered_behind: u64,
    /// What rounding leaves, for the oldest first.
    left: u64,
}

impl Shares {
    /// Splits a quantity that is less than what is offered in all.
    fn new(quantity: u64, offered: u64, sharing: Sharing) -> Self {
        assert!(quantity < offered, "a level that is taken whole is not shared out");
        let time = u128::from(quantity) * u128::from(sharing.time_ppm) / u128::from(ALL_PPM);
        let time = time as u64;
        Self { time, pro_rata: quantity - time, offered_behind: offered - time, left: 0 }
    }

    /// The share of the next order, the oldest first, and what of it was in proportion.
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
    /// Shares what is open of an incoming order out among the displayed orders of the best price;
    /// false, and nothing is done, where price and time give the same.
    #[cold]
    #[inline(never)]
    pub(super) fn share_out(
        &mut self,
        pool: &mut Pool,
        crossing: &mut Crossing<'_, impl OnMatch>,
        sharing: Sharing,
    ) -> bool {
        let oldest = self.best_oldest();
        if !pool[oldest].order.display.is_displayed() {
            return false;
        }
        let mut offered = 0;
        let mut youngest = oldest;
        let mut slot = oldest;
        while !slot.is_none() {
            let maker = &pool[slot].order;
            if crossing.effects.prevention(crossing.taker, maker).is_some() {
                self.meet_at(pool, crossing, slot, None);
                return true;
            }
            offered += crossing.effects.offered(slot, maker).0;
            youngest = slot;
            slot = pool[slot].younger;
        }
        let quantity = crossing.taker.leaves().0;
        if offered <= quantity {
            return false;
        }

        let mut shares = Shares::new(quantity, offered, sharing);
        let mut rehearsal = shares;
        let mut in_proportion = 0;
        let mut slot = oldest;
        while !slot.is_none() {
            let offered = crossing.effects.offered(slot, &pool[slot].order).0;
            in_proportion += rehearsal.take(offered).1;
            slot = pool[slot].younger;
        }
        shares.left = shares.pro_rata - in_proportion;

        let mut slot = oldest;
        loop {
            let (younger, is_last) = (pool[slot].younger, slot == youngest);
            let offered = crossing.effects.offered(slot, &pool[slot].order).0;
            let (share, _) = shares.take(offered);
            if share > 0 {
                self.meet_at(pool, crossing, slot, Some(Quantity(share)));
            }
            if is_last {
                break;
            }
            slot = younger;
        }
        assert!(crossing.taker.is_done(), "all of it was shared out");
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    fn shares(quantity: u64, time_ppm: u32, offers: &[u64]) -> Vec<u64> {
        let mut shares = Shares::new(quantity, offers.iter().sum(), Sharing::pro_rata(time_ppm));
        let mut rehearsal = shares;
        let in_proportion: u64 = offers.iter().map(|&offered| rehearsal.take(offered).1).sum();
        shares.left = shares.pro_rata - in_proportion;
        offers.iter().map(|&offered| shares.take(offered).0).collect()
    }

    /// In proportion, the rest of the division to the oldest; with a time share that first.
    #[test]
    fn shares_are_in_proportion() {
        assert_eq!(shares(50, 0, &[10, 30, 60]), [5, 15, 30]);
        assert_eq!(shares(10, 0, &[10, 10, 10]), [4, 3, 3]);
        assert_eq!(shares(2, 0, &[100, 100, 100]), [2, 0, 0]);
        assert_eq!(shares(50, 400_000, &[30, 30, 60]), [23, 9, 18]);
        assert_eq!(shares(50, 999_999, &[10, 30, 60]), [10, 30, 10]);
    }

    /// Whatever is offered, all is shared out and nobody trades more than offered.
    #[test]
    fn all_is_shared_out() {
        let mut random = crate::random::Random(7);
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
