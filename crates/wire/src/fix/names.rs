//! A map whose keys are ClOrdIDs, which clients choose.
//!
//! Invariant: what it answers depends on what was put and removed, never on the places of names. Names chosen to share a
//! place cost what they cost in a sorted map. It grows by one set at a time, and sets do not move, so no call waits for a
//! larger table.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use super::note::ClOrdId;

/// Names that a set has room for.
const PLACES: usize = 8;
/// Names for each set, on average, beyond which there is one set more.
const NAMES_PER_SET: usize = 4;

/// Values by name.
#[derive(Clone, Debug)]
pub(super) struct Names<V> {
    /// Each on its own: a longer list of them is a copy of their addresses.
    sets: Vec<Box<Set<V>>>,
    /// Names whose set was full.
    spilled: BTreeMap<ClOrdId, V>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Set<V> {
    /// A byte of the hash of each name; 0 is a free place.
    marks: [u8; PLACES],
    /// True if a name of this set, or of the one that it was split from, was ever spilled.
    spills: bool,
    entries: [(ClOrdId, V); PLACES],
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self { sets: Vec::new(), spilled: BTreeMap::new(), len: 0 }
    }
}

/// The same names with the same values, wherever they are.
impl<V: Copy + Default + PartialEq> PartialEq for Names<V> {
    fn eq(&self, other: &Self) -> bool {
        let mut names = self.sets.iter().flat_map(|set| set.names()).chain(&self.spilled);
        self.len == other.len && names.all(|(id, value)| other.get(id) == Some(*value))
    }
}

impl<V: Copy + Default + Eq> Eq for Names<V> {}

impl<V> Set<V> {
    fn names(&self) -> impl Iterator<Item = (&ClOrdId, &V)> {
        let taken = self.marks.iter().zip(&self.entries).filter(|(mark, _)| **mark != 0);
        taken.map(|(_, (id, value))| (id, value))
    }

    fn place(&self, mark: u8, id: &ClOrdId) -> Option<usize> {
        (0..PLACES).find(|place| self.marks[*place] == mark && self.entries[*place].0 == *id)
    }

    fn put(&mut self, mark: u8, id: ClOrdId, value: V) -> bool {
        let Some(place) = self.marks.iter().position(|mark| *mark == 0) else { return false };
        self.marks[place] = mark;
        self.entries[place] = (id, value);
        true
    }
}

impl<V: Copy + Default> Names<V> {
    /// The value of a name.
    pub(super) fn get(&self, id: &ClOrdId) -> Option<V> {
        let hash = hash(id);
        let set = self.sets.get(self.index(hash))?;
        match set.place(mark(hash), id) {
            Some(place) => Some(set.entries[place].1),
            None if set.spills => self.spilled.get(id).copied(),
            None => None,
        }
    }

    /// Gives a name a value, and returns the one it had.
    pub(super) fn insert(&mut self, id: ClOrdId, value: V) -> Option<V> {
        let hash = hash(&id);
        let index = self.index(hash);
        if let Some(set) = self.sets.get_mut(index) {
            if let Some(place) = set.place(mark(hash), &id) {
                return Some(core::mem::replace(&mut set.entries[place].1, value));
            }
            if set.spills
                && let Some(spilled) = self.spilled.get_mut(&id)
            {
                return Some(core::mem::replace(spilled, value));
            }
        }
        self.len += 1;
        if self.sets.len() * NAMES_PER_SET < self.len {
            self.grow();
        }
        let index = self.index(hash);
        let set = &mut self.sets[index];
        if !set.put(mark(hash), id, value) {
            set.spills = true;
            self.spilled.insert(id, value);
        }
        None
    }

    /// Forgets a name, and returns its value.
    pub(super) fn remove(&mut self, id: &ClOrdId) -> Option<V> {
        let hash = hash(id);
        let index = self.index(hash);
        let set = self.sets.get_mut(index)?;
        let removed = match set.place(mark(hash), id) {
            Some(place) => {
                set.marks[place] = 0;
                Some(set.entries[place].1)
            }
            None if set.spills => self.spilled.remove(id),
            None => None,
        };
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// How many names have a value.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The set of a hash: its last bits, as many as number the sets; one less where that set is not there yet.
    fn index(&self, hash: u64) -> usize {
        let mask = self.sets.len().next_power_of_two() - 1;
        let index = hash as usize & mask;
        if index < self.sets.len() { index } else { index & (mask >> 1) }
    }

    /// Adds a set, which takes its names from one that was there. Spilled names stay where they are.
    fn grow(&mut self) {
        let added = self.sets.len();
        let mut set = Box::new(Set {
            marks: [0; PLACES],
            spills: false,
            entries: [(ClOrdId::BLANK, V::default()); PLACES],
        });
        let Some(highest) = added.checked_ilog2() else { return self.sets.push(set) };
        let from = &mut self.sets[added - (1 << highest)];
        set.spills = from.spills;
        self.sets.push(set);
        for place in 0..PLACES {
            let from = &mut self.sets[added - (1 << highest)];
            let (id, value) = from.entries[place];
            let mark = core::mem::take(&mut from.marks[place]);
            if mark != 0 {
                let index = self.index(hash(&id));
                let is_put = self.sets[index].put(mark, id, value);
                assert!(is_put, "a set that is split in two has room for its names");
            }
        }
    }
}

/// Sixty-four bits of a name.
fn hash(id: &ClOrdId) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = id.as_bytes().as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let sum = words.fold(rest, |sum, word| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29));
    let sum = (sum ^ sum >> 32).wrapping_mul(FACTOR);
    sum ^ sum >> 29
}

/// Not 0.
const fn mark(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn id(number: u32) -> ClOrdId {
        ClOrdId::new(&format!("NAME-{number}")).unwrap()
    }

    /// Whatever is put and removed, it answers as a sorted map does, and equals one that was filled in another order.
    #[test]
    fn it_does_what_a_sorted_map_does() {
        let (mut names, mut model) = (Names::default(), BTreeMap::new());
        let mut random = 1_u32;
        for step in 0..60_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = id(random >> 16 & 0xFFF);
            match random >> 30 {
                0 => assert_eq!(names.remove(&id), model.remove(&id)),
                1 => assert_eq!(names.get(&id), model.get(&id).copied()),
                _ => assert_eq!(names.insert(id, step), model.insert(id, step)),
            }
            assert_eq!(names.len(), model.len());
        }
        let mut other = Names::default();
        model.iter().rev().for_each(|(id, value)| assert_eq!(other.insert(*id, *value), None));
        assert_eq!(names, other);
        assert_eq!(other, names);
        other.insert(id(5_000), 0);
        assert_ne!(names, other);
    }

    /// Names that a client chose for one set are found, changed and removed as others are, before and after it grows.
    #[test]
    fn names_of_one_set_spill() {
        let chosen: Vec<_> = (0..400_000).map(id).filter(|id| hash(id) & 0xFFF == 7).collect();
        assert!(chosen.len() > 50);
        let mut names = Names::default();
        for (value, id) in chosen.iter().enumerate() {
            assert_eq!(names.insert(*id, value), None);
        }
        assert!(names.spilled.len() >= chosen.len() - PLACES, "{}", names.spilled.len());
        for number in 0..5_000 {
            names.insert(ClOrdId::new(&format!("{number}")).unwrap(), 0);
        }
        for (value, id) in chosen.iter().enumerate() {
            assert_eq!(names.get(id), Some(value));
            assert_eq!(names.insert(*id, value + 1), Some(value));
            assert_eq!(names.remove(id), Some(value + 1));
            assert_eq!(names.get(id), None);
        }
        assert_eq!((names.len(), names.spilled.len() < 500), (5_000, true));
    }

    /// Names as clients number them seldom fill a set.
    #[test]
    fn few_names_spill() {
        let mut names = Names::default();
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
