//! A map whose keys clients choose, by linear hashing.
//!
//! Invariant: results depend on the keys that were put and removed, never on their places. Keys chosen to share a place
//! cost as much as in a sorted map. The map grows and shrinks by one set at a time, and sets do not move, so no call waits
//! for a larger table, and memory is proportional to the number of keys.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::ops::RangeInclusive;

use market::Text;

/// Keys that a set has room for.
const PLACES: usize = 8;
/// Keys in sets for each set, on average, beyond which there is one set more.
const KEYS_PER_SET: usize = 4;
/// Keys in sets for each set, on average, below which there is one set less.
const KEYS_PER_SET_MIN: usize = 3;

/// Nodes of the sorted map are half full at least.
const SPILLED_FACTOR: usize = 2;

/// A key of a map. The default one is the smallest.
pub(crate) trait Key: Copy + Ord + Default {
    /// A hash of 64 bits.
    fn hash(&self) -> u64;
}

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct LinearMap<K, V> {
    /// Each set is a separate allocation, so growing the list copies only addresses.
    sets: Vec<Box<Set<K, V>>>,
    /// Keys whose set was full, sorted by the reversed bits of their hash, so that keys of a set are adjacent.
    spilled: BTreeMap<(u64, K), V>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Set<K, V> {
    /// A byte of the hash of each key; 0 is a free place.
    marks: [u8; PLACES],
    /// True if keys of this set are spilled; then it has no free place.
    spills: bool,
    entries: [(K, V); PLACES],
}

impl<K, V> Default for LinearMap<K, V> {
    fn default() -> Self {
        Self { sets: Vec::new(), spilled: BTreeMap::new(), len: 0 }
    }
}

/// Equal if they have the same keys with the same values, wherever these are.
impl<K: Key, V: Copy + Default + PartialEq> PartialEq for LinearMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Key, V: Copy + Default + Eq> Eq for LinearMap<K, V> {}

impl<K: Key, V> Set<K, V> {
    fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
        let taken = self.marks.iter().zip(&self.entries).filter(|(mark, _)| **mark != 0);
        taken.map(|(_, (key, value))| (key, value))
    }

    fn place(&self, mark: u8, key: &K) -> Option<usize> {
        (0..PLACES).find(|place| self.marks[*place] == mark && self.entries[*place].0 == *key)
    }

    fn put(&mut self, mark: u8, key: K, value: V) -> bool {
        let Some(place) = self.marks.iter().position(|mark| *mark == 0) else { return false };
        self.marks[place] = mark;
        self.entries[place] = (key, value);
        true
    }
}

impl<K: Key, V: Copy + Default> LinearMap<K, V> {
    /// Maximum memory of a key and its value in a large map, in bytes: its part of a set, with the overhead of the
    /// allocator, and of the list of sets, which doubles. A key in the sorted map takes less.
    pub(crate) const KEY_BYTES: usize = {
        let key_bytes =
            (size_of::<Set<K, V>>() + 2 * size_of::<usize>() + 16).div_ceil(KEYS_PER_SET_MIN);
        assert!(SPILLED_FACTOR * size_of::<((u64, K), V)>() <= key_bytes);
        key_bytes
    };

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let hash = key.hash();
        let set = self.sets.get(self.index(hash))?;
        match set.place(mark(hash), key) {
            Some(place) => Some(&set.entries[place].1),
            None if set.spills => self.spilled.get(&spilled(hash, key)),
            None => None,
        }
    }

    /// The value of a key, to change it.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find_mut(key, key.hash())
    }

    fn find_mut(&mut self, key: &K, hash: u64) -> Option<&mut V> {
        let index = self.index(hash);
        let set = self.sets.get_mut(index)?;
        match set.place(mark(hash), key) {
            Some(place) => Some(&mut set.entries[place].1),
            None if set.spills => self.spilled.get_mut(&spilled(hash, key)),
            None => None,
        }
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key, and returns the previous one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = key.hash();
        if let Some(place) = self.find_mut(&key, hash) {
            return Some(core::mem::replace(place, value));
        }
        self.len += 1;
        if self.sets.len() * KEYS_PER_SET < self.len - self.spilled.len() {
            self.grow();
        }
        let index = self.index(hash);
        let set = &mut self.sets[index];
        if !set.put(mark(hash), key, value) {
            set.spills = true;
            self.spilled.insert(spilled(hash, &key), value);
        }
        None
    }

    /// Removes a key, and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = key.hash();
        let index = self.index(hash);
        let set = self.sets.get_mut(index)?;
        let removed = match set.place(mark(hash), key) {
            Some(place) => {
                set.marks[place] = 0;
                Some(set.entries[place].1)
            }
            None if set.spills => self.spilled.remove(&spilled(hash, key)),
            None => None,
        };
        if removed.is_some() {
            self.len -= 1;
            self.refill(index);
            if self.len - self.spilled.len() < (self.sets.len() - 1) * KEYS_PER_SET_MIN {
                self.shrink();
            }
        }
        removed
    }

    /// All keys and values, in arbitrary order.
    fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let spilled = self.spilled.iter().map(|((_, key), value)| (key, value));
        self.sets.iter().flat_map(|set| set.entries()).chain(spilled)
    }

    /// All keys in their order.
    pub(crate) fn sorted_keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// The allocated memory in bytes, without the allocator's overhead.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.sets.len() * size_of::<Set<K, V>>()
            + self.sets.capacity() * size_of::<usize>()
            + self.spilled.len() * SPILLED_FACTOR * size_of::<((u64, K), V)>()
    }

    /// The number of keys.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The set of a hash: its last bits, as many as number the sets; one less where that set is not there yet.
    fn index(&self, hash: u64) -> usize {
        let mask = self.sets.len().next_power_of_two() - 1;
        let index = hash as usize & mask;
        if index < self.sets.len() { index } else { index & (mask >> 1) }
    }

    /// Adds a set, which takes its keys from one that was there.
    fn grow(&mut self) {
        let added = self.sets.len();
        let mut set = Box::new(Set {
            marks: [0; PLACES],
            spills: false,
            entries: [(K::default(), V::default()); PLACES],
        });
        let Some(highest) = added.checked_ilog2() else { return self.sets.push(set) };
        let split = added - (1 << highest);
        set.spills = self.sets[split].spills;
        self.sets.push(set);
        for place in 0..PLACES {
            let from = &mut self.sets[split];
            let (key, value) = from.entries[place];
            let mark = core::mem::take(&mut from.marks[place]);
            if mark != 0 {
                let index = self.index(key.hash());
                let is_put = self.sets[index].put(mark, key, value);
                assert!(is_put, "a set that is split in two has room for its keys");
            }
        }
        self.refill(split);
        self.refill(added);
    }

    /// Removes the last set, and gives its keys to the one that it was split from.
    fn shrink(&mut self) {
        let last = self.sets.len() - 1;
        let set = self.sets.pop().expect("there are two at least");
        let to = last - (1 << last.ilog2());
        self.sets[to].spills |= set.spills;
        for (mark, (key, value)) in set.marks.into_iter().zip(set.entries) {
            if mark != 0 && !self.sets[to].put(mark, key, value) {
                self.sets[to].spills = true;
                self.spilled.insert(spilled(key.hash(), &key), value);
            }
        }
        self.refill(to);
    }

    /// Puts spilled keys of a set where it has free places.
    fn refill(&mut self, index: usize) {
        if !self.sets[index].spills {
            return;
        }
        let hashes = self.hashes(index);
        let set = &mut self.sets[index];
        while set.spills {
            let of_set = (*hashes.start(), K::default())..;
            let next = self.spilled.range(of_set).next().map(|(spilled, value)| (*spilled, *value));
            match next.filter(|((hash, _), _)| hashes.contains(hash)) {
                None => set.spills = false,
                Some((spilled, value)) => {
                    let (hash, key) = (spilled.0.reverse_bits(), spilled.1);
                    if !set.put(mark(hash), key, value) {
                        break;
                    }
                    self.spilled.remove(&spilled);
                }
            }
        }
    }

    /// The hashes of a set, from the last bit to the first.
    fn hashes(&self, index: usize) -> RangeInclusive<u64> {
        let bits = self.sets.len().next_power_of_two().ilog2();
        // The set may not have been split yet, as the last of twice as many sets are not there.
        let is_split = bits == 0 || index | 1 << (bits - 1) < self.sets.len();
        let bits = if is_split { bits } else { bits - 1 };
        let first = (index as u64).reverse_bits();
        first..=first | u64::MAX.checked_shr(bits).unwrap_or(0)
    }
}

/// The key of the map of spilled keys.
fn spilled<K: Key>(hash: u64, key: &K) -> (u64, K) {
    (hash.reverse_bits(), *key)
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes the bits of a sum, so that each affects both the last and the first bits.
const fn spread(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 32).wrapping_mul(FACTOR);
    sum ^ sum >> 29
}

impl<const N: usize> Key for Text<N> {
    fn hash(&self) -> u64 {
        let (words, rest) = self.as_bytes().as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        spread(words.fold(rest, |sum, word| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29)))
    }
}

/// The number of an order. Consecutive numbers, as a session uses them, share a set by fours and fill one set after the
/// other, so numbers that are used together are adjacent in memory. The first of the 256 sets of 1,024 numbers is mixed, and
/// so are the places of these 256, so that numbers at equal distances do not share sets.
impl Key for u32 {
    fn hash(&self) -> u64 {
        /// Sets that are filled one after the other, and how many numbers have their places mixed alike.
        const NEIGHBORS: u64 = 256;
        const MIXED_ALIKE: u64 = 1 << 22;
        let number = u64::from(*self);
        let four = number / KEYS_PER_SET as u64;
        let place = four.wrapping_add(spread(four / NEIGHBORS)) % NEIGHBORS;
        let places = (four ^ spread(number / MIXED_ALIKE)) & !(NEIGHBORS - 1);
        let mark = spread(number.wrapping_mul(FACTOR)) & !SETS_MASK;
        (places | place) & SETS_MASK | mark
    }
}

/// The first bits of a hash are a mark; the bits after these select a set.
const MARK_BITS: u32 = u8::BITS;
const SETS_MASK: u64 = u64::MAX >> MARK_BITS;

/// Not 0.
const fn mark(hash: u64) -> u8 {
    (hash >> (u64::BITS - MARK_BITS)) as u8 | 1
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::fix::ClOrdId;

    fn id(number: u32) -> ClOrdId {
        ClOrdId::new(&format!("NAME-{number}")).unwrap()
    }

    /// After any insertions and removals, the map answers like a sorted map, and equals one filled in another order.
    #[test]
    fn it_does_what_a_sorted_map_does() {
        let (mut names, mut model) = (LinearMap::default(), BTreeMap::new());
        let mut random = 1_u32;
        for step in 0..60_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = id(random >> 16 & 0xFFF);
            match random >> 30 {
                0 => assert_eq!(names.remove(&id), model.remove(&id)),
                1 => assert_eq!(names.get(&id), model.get(&id)),
                _ => assert_eq!(names.insert(id, step), model.insert(id, step)),
            }
            assert_eq!(names.len(), model.len());
        }
        let mut other = LinearMap::default();
        model.iter().rev().for_each(|(id, value)| assert_eq!(other.insert(*id, *value), None));
        assert_eq!(names, other);
        assert_eq!(other, names);
        other.insert(id(5_000), 0);
        assert_ne!(names, other);
    }

    /// Names that a client chose for one set are found, changed and removed like any names, before and after it grows.
    #[test]
    fn names_of_one_set_spill() {
        let chosen: Vec<_> = (0..400_000).map(id).filter(|id| id.hash() & 0xFFF == 7).collect();
        assert!(chosen.len() > 50);
        let mut names = LinearMap::default();
        for (value, id) in chosen.iter().enumerate() {
            assert_eq!(names.insert(*id, value), None);
        }
        assert!(names.spilled.len() >= chosen.len() - PLACES, "{}", names.spilled.len());
        for number in 0..5_000 {
            names.insert(ClOrdId::new(&format!("{number}")).unwrap(), 0);
        }
        for (value, id) in chosen.iter().enumerate() {
            assert_eq!(names.get(id), Some(&value));
            assert_eq!(names.insert(*id, value + 1), Some(value));
            assert_eq!(names.remove(id), Some(value + 1));
            assert_eq!(names.get(id), None);
        }
        assert_eq!((names.len(), names.spilled.len() < 500), (5_000, true));
    }

    /// A set with spilled keys is full, and is marked; after a removal or a split fewer keys are spilled.
    #[test]
    fn only_full_sets_spill() {
        let mut names = LinearMap::default();
        for number in 0..40_000 {
            names.insert(id(number), number);
            if let Some(old) = number.checked_sub(10_000) {
                assert_eq!(names.remove(&id(old)), Some(old));
            }
            if number % 1_000 == 0 {
                for (index, set) in names.sets.iter().enumerate() {
                    let is_full = set.marks.iter().all(|mark| *mark != 0);
                    let keys =
                        names.spilled.keys().filter(|(hash, _)| names.hashes(index).contains(hash));
                    let of_hash =
                        |(hash, _): &(u64, ClOrdId)| names.index(hash.reverse_bits()) == index;
                    let (count, are_of_set) =
                        keys.fold((0, true), |(count, all), it| (count + 1, all && of_hash(it)));
                    assert!(
                        are_of_set && set.spills == (count > 0) && (is_full || !set.spills),
                        "set {index}"
                    );
                }
            }
        }
        assert!(names.spilled.len() < 200, "{}", names.spilled.len());
    }

    /// The memory is proportional to the present keys, spread or chosen for one set, even after many more were removed.
    #[test]
    fn its_memory_follows_its_keys() {
        type Names = LinearMap<ClOrdId, u32>;
        let assert_bound = |names: &Names, list: usize| {
            let bound = (names.len() + PLACES) * Names::KEY_BYTES + 2 * list * size_of::<usize>();
            assert!(names.held() <= bound, "{} of {bound}, {} keys", names.held(), names.len());
        };
        let mut names = Names::default();
        (0..50_000).for_each(|number| assert_eq!(names.insert(id(number), number), None));
        let list = names.sets.len();
        assert_bound(&names, list);
        let chosen: Vec<_> = (50_000..900_000).map(id).filter(|id| id.hash() & 0x3F == 7).collect();
        for (number, chosen) in (0..50_000).zip(chosen.iter().cycle()) {
            names.remove(&id(number));
            names.insert(*chosen, number);
            if number % 500 == 0 {
                assert_bound(&names, list);
            }
        }
        assert_bound(&names, list);
        assert!(
            names.len() > 10_000 && names.spilled.len() > names.len() / 2,
            "{}",
            names.spilled.len()
        );
        chosen.iter().for_each(|id| assert!(names.remove(id).is_some()));
        assert_eq!((names.len(), names.spilled.len(), names.sets.len()), (0, 0, 1));
    }

    /// Numbers that follow each other fill no set, also while the oldest are removed; at other distances few spill.
    #[test]
    fn numbers_in_a_row_never_spill() {
        for distance in [1, 3, 4, 5, 64, 1_000, 1_024, 1 << 14, 1 << 16] {
            let mut numbers = LinearMap::default();
            for number in 0..50_000 {
                numbers.insert(number * distance, ());
                if let Some(old) = number.checked_sub(9_000) {
                    assert_eq!(numbers.remove(&(old * distance)), Some(()));
                }
                let spilled_max = if distance == 1 { 0 } else { 9_000 / 10 };
                let spilled = numbers.spilled.len();
                assert!(spilled <= spilled_max, "{spilled} at {number}, {distance} apart");
            }
        }
    }

    /// Numbers, which are mostly consecutive, seldom fill a set, and are sorted on request.
    #[test]
    fn numbers_are_keys_too() {
        let mut numbers = LinearMap::default();
        for number in (0..60_000_u32).rev() {
            assert_eq!(numbers.insert(number * 3, number), None);
        }
        for number in 0..60_000 {
            *numbers.get_mut(&(number * 3)).unwrap() += 1;
            assert_eq!(numbers.get(&(number * 3)), Some(&(number + 1)));
            assert!(!numbers.contains(&(number * 3 + 1)));
        }
        assert!(numbers.sorted_keys().iter().copied().eq((0..60_000).map(|number| number * 3)));
        assert!(numbers.spilled.len() < 60_000 / 10, "{}", numbers.spilled.len());
    }

    /// Names as clients number them seldom fill a set.
    #[test]
    fn few_names_spill() {
        let mut names = LinearMap::default();
        for number in 0..65_536 {
            names.insert(id(number), number);
            if let Some(old) = number.checked_sub(1 << 14) {
                names.remove(&id(old));
            }
        }
        assert_eq!(names.len(), 1 << 14);
        assert!(names.spilled.len() < (1 << 14) / 20, "{}", names.spilled.len());
    }
}
