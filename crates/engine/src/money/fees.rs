//! Fees and rebates of trades. Invariant: fees round up, rebates round down, and no product
//! overflows.

use super::amounts::AmountWidth;

/// Millionths in one.
const MILLION: u32 = 1_000_000;

/// The fees of a tier, in ppm of the amount that the party receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fees {
    /// Fee of makers; below 0 it is a rebate.
    pub(crate) maker_ppm: i32,
    /// Fee of takers.
    pub(crate) taker_ppm: u32,
}

impl Fees {
    /// True if no fee or rebate exceeds the amount itself.
    pub(crate) fn are_parts(&self) -> bool {
        self.maker_ppm.unsigned_abs() <= MILLION && self.taker_ppm <= MILLION
    }

    /// The maker rebate, in ppm.
    pub(crate) fn rebate_ppm(&self) -> u32 {
        if self.maker_ppm < 0 { self.maker_ppm.unsigned_abs() } else { 0 }
    }

    /// The taker's fee on the amount it receives, rounded up.
    #[inline(always)]
    pub(super) fn of_taker<N: AmountWidth>(&self, received: N) -> N {
        received.part_up(self.taker_ppm)
    }

    /// The maker's fee on the amount it receives, rounded up.
    #[inline(always)]
    pub(super) fn of_maker<N: AmountWidth>(&self, received: N) -> N {
        received.part_up(self.maker_ppm.max(0).unsigned_abs())
    }

    /// The maker's rebate on the amount the taker receives, rounded down.
    #[inline(always)]
    pub(super) fn rebate_of_maker<N: AmountWidth>(&self, received: N) -> N {
        received.part_down(self.rebate_ppm())
    }
}

/// Below this, an amount times one million fits a word.
const SMALL: u64 = 1 << 44;

/// This many ppm of an amount, rounded down.
#[inline(always)]
pub(super) fn small_part_down(whole: u64, ppm: u32) -> u64 {
    if whole < SMALL {
        return whole * u64::from(ppm) / u64::from(MILLION);
    }
    part(whole.into(), ppm).0 as u64
}

/// This many ppm of an amount, rounded up.
#[inline(always)]
pub(super) fn small_part_up(whole: u64, ppm: u32) -> u64 {
    if whole < SMALL {
        let most_below_one = u64::from(MILLION) - 1;
        return (whole * u64::from(ppm) + most_below_one) / u64::from(MILLION);
    }
    part_up(whole.into(), ppm) as u64
}

/// This many ppm of an amount, rounded down.
pub(super) fn part_down(whole: u128, ppm: u32) -> u128 {
    part(whole, ppm).0
}

/// This many ppm of an amount, rounded up.
#[inline(never)]
pub(super) fn part_up(whole: u128, ppm: u32) -> u128 {
    let (part, is_rounded) = part(whole, ppm);
    part + u128::from(is_rounded)
}

/// This many ppm of any amount, rounded down, and whether rounding changed it. The millions and the
/// rest are multiplied apart, so that no product overflows.
#[inline(never)]
fn part(whole: u128, ppm: u32) -> (u128, bool) {
    if let Ok(whole) = u64::try_from(whole) {
        let (million, ppm) = (u64::from(MILLION), u64::from(ppm));
        let rest = whole % million * ppm;
        return ((whole / million * ppm + rest / million).into(), !rest.is_multiple_of(million));
    }
    let (million, ppm) = (u128::from(MILLION), u128::from(ppm));
    let rest = whole % million * ppm;
    (whole / million * ppm + rest / million, !rest.is_multiple_of(million))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ppm of any amount are exact, with the stated rounding.
    #[test]
    fn parts_are_exact() {
        for (whole, ppm, down, up) in [
            (0, 1, 0, 0),
            (1, 0, 0, 0),
            (1, 1, 0, 1),
            (999_999, 1, 0, 1),
            (1_000_000, 1, 1, 1),
            (1_000_001, 1, 1, 2),
            (7, 1_000_000, 7, 7),
            (3, 500_000, 1, 2),
            (u128::from(u64::MAX), 1_000_000, u128::from(u64::MAX), u128::from(u64::MAX)),
            (1 << 120, 1_000_000, 1 << 120, 1 << 120),
            ((1 << 100) * 1_000_000, 123_457, (1 << 100) * 123_457, (1 << 100) * 123_457),
            ((1 << 100) * 1_000_000 + 1, 123_457, (1 << 100) * 123_457, (1 << 100) * 123_457 + 1),
        ] {
            assert_eq!(part_down(whole, ppm), down, "{ppm} of {whole}");
            assert_eq!(part_up(whole, ppm), up, "{ppm} of {whole}");
            if let Ok(whole) = u64::try_from(whole) {
                let parts = (small_part_down(whole, ppm), small_part_up(whole, ppm));
                assert_eq!(parts, (down as u64, up as u64), "{ppm} of {whole}");
            }
        }
    }
}
