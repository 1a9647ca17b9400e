//! A link that loses, repeats and reorders datagrams, from a seed.
//!
//! Invariant: the same seed and the same datagrams give the same losses, at any speed.

use std::collections::VecDeque;

use crate::rng::Rng;

/// The denominator of the rates of loss and repetition.
const WHOLE: u64 = 100;
/// The most later datagrams that overtake a datagram.
const OVERTAKEN_MAX: u64 = 8;
/// One datagram in this number overtakes other datagrams.
const OVERTAKES: u64 = 5;

/// A link that loses 5 % of the datagrams, repeats 5 %, and lets one in five overtake up to eight other ones.
#[derive(Clone, Debug)]
pub struct LossyLink {
    rng: Rng,
    waiting: VecDeque<Vec<u8>>,
    counts: LossCounts,
}

/// The counts of a [`LossyLink`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounts {
    /// Datagrams that went in.
    pub datagrams: u64,
    /// Datagrams that never come out.
    pub lost: u64,
    /// Datagrams that come out twice.
    pub repeated: u64,
    /// Copies that overtook another datagram.
    pub reordered: u64,
}

impl LossyLink {
    /// An empty link with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), waiting: VecDeque::new(), counts: LossCounts::default() }
    }

    /// Puts a datagram in. False if the link loses it.
    pub fn send(&mut self, datagram: &[u8]) -> bool {
        self.counts.datagrams += 1;
        let copies = match self.rng.below(WHOLE) {
            0..5 => 0,
            5..10 => 2,
            _ => 1,
        };
        self.counts.lost += u64::from(copies == 0);
        self.counts.repeated += u64::from(copies == 2);
        for _ in 0..copies {
            let overtakes = self.rng.below(OVERTAKES) == 0;
            let back = if overtakes { self.rng.below(OVERTAKEN_MAX + 1) as usize } else { 0 };
            let place = self.waiting.len().saturating_sub(back);
            self.counts.reordered += u64::from(place < self.waiting.len());
            self.waiting.insert(place, datagram.to_vec());
        }
        copies > 0
    }

    /// The next datagram that no other can overtake any more.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.waiting.len() as u64 <= OVERTAKEN_MAX {
            return None;
        }
        self.waiting.pop_front()
    }

    /// The next datagram, although later ones might have overtaken it.
    pub fn take_all(&mut self) -> Option<Vec<u8>> {
        self.waiting.pop_front()
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> LossCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link loses, repeats and reorders at its stated rates, and delivers the rest.
    #[test]
    fn a_link_loses_repeats_and_reorders() {
        let mut link = LossyLink::new(1);
        let mut arrived: Vec<u32> = Vec::new();
        let number = |datagram: Vec<u8>| u32::from_le_bytes(datagram.try_into().expect("four"));
        for sent in 0..20_000_u32 {
            link.send(&sent.to_le_bytes());
            arrived.extend(std::iter::from_fn(|| link.take()).map(number));
        }
        arrived.extend(std::iter::from_fn(|| link.take_all()).map(number));
        let LossCounts { datagrams, lost, repeated, reordered } = link.counts();
        assert_eq!(arrived.len() as u64, datagrams - lost + repeated);
        assert!(
            (800..1_200).contains(&lost) && (800..1_200).contains(&repeated),
            "{lost} {repeated}"
        );
        assert!(reordered > 2_000 && !arrived.is_sorted(), "{reordered}");
        let furthest =
            arrived.iter().enumerate().map(|(at, it)| (at as i64 - i64::from(*it)).abs());
        assert!(furthest.max() < Some(1_000), "datagrams are out of place by a few, beside losses");
    }
}
