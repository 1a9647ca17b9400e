//! The slot of each order by its reference number: a hash table with open addressing.
//!
//! Reference numbers rise, so a multiplication spreads them. A venue could choose numbers that collide, and make the
//! table slow; a subscriber trusts its venue in that.
//!
//! Invariant: at most half of the places are taken, and no search passes a free place.

/// A place of the table.
#[derive(Clone, Copy, Debug)]
struct Place {
    reference: u64,
    /// One above the slot; 0 is a free place.
    slot: u32,
}

const FREE: Place = Place { reference: 0, slot: 0 };
/// Places of the first table, a power of two.
const PLACES_MIN: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceIndex {
    /// Empty, or a power of two.
    places: Vec<Place>,
    len: usize,
}

impl ReferenceIndex {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, reference: u64) -> Option<u32> {
        self.find(reference).ok().map(|at| self.places[at].slot - 1)
    }

    /// Adds a reference that is not in the table.
    pub(super) fn insert(&mut self, reference: u64, slot: u32) {
        if 2 * (self.len + 1) > self.places.len() {
            self.grow();
        }
        let free = self.find(reference).expect_err("an order joins once");
        self.places[free] = Place { reference, slot: slot + 1 };
        self.len += 1;
    }

    /// Removes a reference that is in the table.
    pub(super) fn remove(&mut self, reference: u64) {
        let mut hole = self.find(reference).expect("an order that leaves is known");
        let mask = self.places.len() - 1;
        let mut at = hole;
        // An entry behind the hole moves into it, if its search begins before the hole.
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.slot == 0 {
                break;
            }
            let wanted = self.home(place.reference);
            if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = FREE;
        self.len -= 1;
    }

    /// The place of a reference, or the free place for it; place 0 of an empty table.
    fn find(&self, reference: u64) -> Result<usize, usize> {
        if self.places.is_empty() {
            return Err(0);
        }
        let mask = self.places.len() - 1;
        let mut at = self.home(reference);
        loop {
            let place = self.places[at];
            if place.slot == 0 {
                return Err(at);
            }
            if place.reference == reference {
                return Ok(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The place where the search for a reference begins: the high bits of a product.
    fn home(&self, reference: u64) -> usize {
        let bits = self.places.len().trailing_zeros();
        (reference.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    fn grow(&mut self) {
        let len = (2 * self.places.len()).max(PLACES_MIN);
        for place in std::mem::replace(&mut self.places, vec![FREE; len]) {
            if place.slot != 0 {
                let free = self.find(place.reference).expect_err("each was there once");
                self.places[free] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// After any insertions and removals, the table equals a sorted map: references that rise, ones far apart, and ones
    /// that collide.
    #[test]
    fn a_table_is_a_sorted_map() {
        for seed in 1..=20_u64 {
            let mut state = seed;
            let mut random = |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let (mut index, mut model) = (ReferenceIndex::default(), BTreeMap::new());
            for step in 0..20_000_u32 {
                let reference = match seed % 3 {
                    0 => random(500),
                    1 => random(500) << 40,
                    _ => random(500).wrapping_mul(0xf1de_83e1_9937_733d), // about the inverse of the factor
                };
                assert_eq!(index.get(reference), model.get(&reference).copied(), "seed {seed}");
                if model.remove(&reference).is_some() {
                    index.remove(reference);
                } else {
                    index.insert(reference, step);
                    model.insert(reference, step);
                }
                assert_eq!(index.len(), model.len());
            }
            for (reference, slot) in &model {
                assert_eq!(index.get(*reference), Some(*slot), "seed {seed}");
            }
        }
    }
}
