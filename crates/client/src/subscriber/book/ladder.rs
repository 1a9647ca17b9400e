//! The prices of one side of a book, best first, each with the queue of its orders.
//!
//! The best prices are in an array, whose end is the best: most messages are about prices near it. The others are in a
//! tree, so that a book of very many prices costs no more than its logarithm.
//!
//! Invariant: every rank in the array is better than every rank in the tree; the array is empty only if the tree is.

use std::collections::BTreeMap;

/// Prices in the array. With more, half of it goes to the tree; with none, as many come back.
const NEAR_MAX: usize = 256;
/// Ranks compared one by one before the array is searched by halves.
const SCAN_MAX: usize = 8;

/// The position of a price on its side: lower is better.
type Rank = u32;

#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    /// Rank and queue, the worst first.
    near: Vec<(Rank, u32)>,
    far: BTreeMap<Rank, u32>,
}

impl Ladder {
    /// The best rank and its queue.
    pub(super) fn best(&self) -> Option<(Rank, u32)> {
        self.near.last().copied()
    }

    /// All ranks and queues, the best first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Rank, u32)> {
        let near = self.near.iter().rev().copied();
        near.chain(self.far.iter().map(|(rank, queue)| (*rank, *queue)))
    }

    /// The queue at a rank; if there is none, `new` creates one.
    pub(super) fn queue_at(&mut self, rank: Rank, new: impl FnOnce() -> u32) -> u32 {
        let is_far = self.near.first().is_some_and(|(worst, _)| rank > *worst);
        if is_far && !self.far.is_empty() {
            return *self.far.entry(rank).or_insert_with(new);
        }
        match self.place_of(rank) {
            Ok(place) => self.near[place].1,
            Err(place) => {
                let queue = new();
                self.near.insert(place, (rank, queue));
                if self.near.len() > NEAR_MAX {
                    self.far.extend(self.near.drain(..NEAR_MAX / 2));
                }
                queue
            }
        }
    }

    /// Removes a rank.
    pub(super) fn remove(&mut self, rank: Rank) {
        match self.place_of(rank) {
            Ok(place) => _ = self.near.remove(place),
            Err(_) => {
                let removed = self.far.remove(&rank);
                assert!(removed.is_some(), "rank {rank} is in the ladder");
            }
        }
        if self.near.is_empty() {
            while self.near.len() < NEAR_MAX / 2
                && let Some(next) = self.far.pop_first()
            {
                self.near.push(next);
            }
            self.near.reverse();
        }
    }

    /// The place of a rank in the array, or the place for it.
    fn place_of(&self, rank: Rank) -> Result<usize, usize> {
        let from = self.near.len().saturating_sub(SCAN_MAX);
        let mut place = self.near.len();
        for (other, _) in self.near[from..].iter().rev() {
            place -= 1;
            if *other == rank {
                return Ok(place);
            }
            if *other > rank {
                return Err(place + 1);
            }
        }
        self.near[..from].binary_search_by(|(other, _)| rank.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After any insertions and removals, the ranks are those of a sorted map, and both parts are used.
    #[test]
    fn a_ladder_is_a_sorted_map() {
        for seed in 1..=20_u64 {
            let mut state = seed;
            let mut random = |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let (mut ladder, mut model) = (Ladder::default(), BTreeMap::new());
            let mut far_max = 0;
            for step in 0..20_000_u32 {
                // It grows for a while, then shrinks.
                let grows = (step / 4_000) % 2 == 0;
                if random(100) < if grows { 70 } else { 25 } {
                    let rank = random(3_000) as u32;
                    let queue = ladder.queue_at(rank, || step);
                    assert_eq!(queue, *model.entry(rank).or_insert(step), "seed {seed}");
                } else if let Some(rank) =
                    model.keys().nth(random(model.len().max(1) as u64) as usize)
                {
                    let rank = *rank;
                    ladder.remove(rank);
                    model.remove(&rank);
                }
                let best = model.first_key_value().map(|(rank, queue)| (*rank, *queue));
                assert_eq!(ladder.best(), best, "seed {seed}");
                far_max = far_max.max(ladder.far.len());
            }
            assert!(far_max > NEAR_MAX, "seed {seed}");
            let all: Vec<_> = ladder.iter().collect();
            assert_eq!(all, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
