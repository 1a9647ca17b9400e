//! A sorted map in pages, for entries that miss the fast index: levels outside the window of a ladder, by rank;
//! long-lived orders of a session, by number; orders that expire, by moment.
//!
//! A lookup is a binary search over the first keys of the pages and one within a page; adding and
//! removing move at most one page. So an order far from the market costs little more than one at
//! the best price, and memory is in proportion to the entries.
//!
//! Invariant: keys ascend, and a page in use is never empty.

use alloc::{boxed::Box, vec::Vec};
use core::fmt::Debug;

/// Values by key, ascending, up to `LEN` in a page. Empty pages are reused.
#[derive(Debug)]
pub(crate) struct PagedMap<V, const LEN: usize, K = u32> {
    /// Pages in key order.
    directory: Vec<Entry<K>>,
    /// Boxed, so that a new page moves none.
    pages: Vec<Box<Page<V, LEN, K>>>,
    /// Unused pages.
    free: Vec<u32>,
    len: usize,
}

/// The position of a page in key order.
#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    /// The page's first key.
    first: K,
    page: u32,
}

/// Up to `LEN` values by key, ascending. In use it has at least one.
#[derive(Debug)]
#[repr(align(64))]
struct Page<V, const LEN: usize, K> {
    len: usize,
    keys: [K; LEN],
    values: [V; LEN],
}

impl<V, const LEN: usize, K> Default for PagedMap<V, LEN, K> {
    fn default() -> Self {
        Self { directory: Vec::new(), pages: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<V: Copy, const LEN: usize, K: Copy + Ord + Default + Debug> PagedMap<V, LEN, K> {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of pages, used or unused.
    #[cfg(test)]
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The lowest key.
    pub(crate) fn first_key(&self) -> Option<K> {
        self.directory.first().map(|entry| entry.first)
    }

    /// The value of the lowest key.
    pub(crate) fn first(&self) -> Option<(K, V)> {
        let page = &self.pages[self.directory.first()?.page as usize];
        Some((page.keys[0], page.values[0]))
    }

    /// The first value at or after `key`.
    #[inline]
    pub(crate) fn at_or_after(&self, key: K) -> Option<(K, V)> {
        // A caller that follows the market asks for the first value.
        match self.directory.first() {
            Some(entry) if entry.first < key => self.after_first(key),
            _ => self.first(),
        }
    }

    fn after_first(&self, key: K) -> Option<(K, V)> {
        let place = self.place(key).unwrap_or(0);
        for entry in self.directory.get(place..)?.iter().take(2) {
            let page = &self.pages[entry.page as usize];
            let index = page.index(key);
            if index < page.len {
                return Some((page.keys[index], page.values[index]));
            }
        }
        None
    }

    /// The last key below `key`.
    pub(crate) fn last_before(&self, key: K) -> Option<K> {
        let place = self.directory.partition_point(|entry| entry.first < key).checked_sub(1)?;
        let page = self.page(place);
        Some(page.keys[page.index(key) - 1])
    }

    /// Memory allocated, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.directory.capacity() * size_of::<Entry<K>>()
            + self.pages.len() * size_of::<Page<V, LEN, K>>()
            + self.pages.capacity() * size_of::<usize>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: K) -> Option<V> {
        let page = self.page(self.place(key)?);
        let index = page.find(key)?;
        Some(page.values[index])
    }

    /// The value of a key, mutable.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let place = self.place(key)?;
        let page = &mut self.pages[self.directory[place].page as usize];
        let index = page.find(key)?;
        Some(&mut page.values[index])
    }

    /// Adds a value; the key has none yet.
    ///
    /// # Panics
    /// The key has a value.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        assert!(self.insert_new(key, value), "key {key:?} has a value already");
    }

    /// Adds a value; false, with no effect, if the key has one.
    pub(crate) fn insert_new(&mut self, key: K, value: V) -> bool {
        let mut place = match self.place(key) {
            Some(place) => place,
            None => self.open_front(key, value),
        };
        if self.page(place).len == LEN {
            place = self.split(place, key, value);
        }
        let page = self.page_mut(place);
        let index = page.index(key);
        if index < page.len && page.keys[index] == key {
            return false;
        }
        page.insert(index, key, value);
        self.directory[place].first = self.page(place).keys[0];
        self.len += 1;
        true
    }

    /// Removes the value of a key and returns it.
    ///
    /// # Panics
    /// The key has no value.
    pub(crate) fn remove(&mut self, key: K) -> V {
        let place = self.place(key).expect("only a key that has a value is removed");
        let page = self.page_mut(place);
        let index = page.find(key).expect("only a key with a value is removed");
        let value = page.values[index];
        page.remove(index);
        self.len -= 1;
        if self.page(place).len == 0 {
            self.close(place);
        } else {
            self.directory[place].first = self.page(place).keys[0];
            self.merge(place);
        }
        value
    }

    /// All entries, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.directory.iter().flat_map(|entry| {
            let page = &self.pages[entry.page as usize];
            page.keys().iter().copied().zip(page.values.iter().copied())
        })
    }

    /// Checks that keys ascend and that counts agree.
    pub(crate) fn check(&self) {
        let mut len = 0;
        let mut last = None;
        for entry in &self.directory {
            let page = &self.pages[entry.page as usize];
            assert!(0 < page.len && entry.first == page.keys[0], "{entry:?}");
            for &key in page.keys() {
                assert!(last < Some(key), "keys ascend");
                last = Some(key);
            }
            len += page.len;
        }
        assert_eq!(len, self.len);
        assert_eq!(self.directory.len() + self.free.len(), self.pages.len());
    }

    /// The position of the page for a key; `None` if the key is before all pages.
    #[inline]
    fn place(&self, key: K) -> Option<usize> {
        // Most keys are at one of the ends.
        if self.directory.last()?.first <= key {
            return Some(self.directory.len() - 1);
        }
        if self.directory.get(1).is_some_and(|second| key < second.first) {
            return (self.directory[0].first <= key).then_some(0);
        }
        self.directory.partition_point(|entry| entry.first <= key).checked_sub(1)
    }

    fn page(&self, place: usize) -> &Page<V, LEN, K> {
        &self.pages[self.directory[place].page as usize]
    }

    fn page_mut(&mut self, place: usize) -> &mut Page<V, LEN, K> {
        &mut self.pages[self.directory[place].page as usize]
    }

    /// The position of the page for a key before all others.
    fn open_front(&mut self, key: K, value: V) -> usize {
        if self.directory.is_empty() {
            let page = self.take_page(value);
            self.directory.push(Entry { first: key, page });
        }
        0
    }

    /// Splits a full page; returns the page for `key`.
    fn split(&mut self, place: usize, key: K, value: V) -> usize {
        let taken = self.take_page(value);
        // A map that only grows at its end leaves full pages behind.
        let last = place + 1 == self.directory.len() && self.page(place).keys[LEN - 1] < key;
        let from = if last { LEN } else { LEN / 2 };
        let [page, upper] = self
            .pages
            .get_disjoint_mut([self.directory[place].page as usize, taken as usize])
            .expect("a page just taken is another page");
        upper.append(page, from);
        page.len = from;
        let first = if last { key } else { upper.keys[0] };
        self.directory.insert(place + 1, Entry { first, page: taken });
        if key < first { place } else { place + 1 }
    }

    /// Joins a page with a neighbor if both fill at most half a page, so that the result does not
    /// split again at once.
    fn merge(&mut self, place: usize) {
        for left in [place.saturating_sub(1), place] {
            let right = left + 1;
            if right >= self.directory.len() || self.page(left).len + self.page(right).len > LEN / 2
            {
                continue;
            }
            let [page, upper] = self
                .pages
                .get_disjoint_mut([left, right].map(|place| self.directory[place].page as usize))
                .expect("neighbors are two pages");
            page.append(upper, 0);
            return self.close(right);
        }
    }

    fn take_page(&mut self, filler: V) -> u32 {
        if let Some(page) = self.free.pop() {
            self.pages[page as usize].len = 0;
            return page;
        }
        let page = u32::try_from(self.pages.len()).expect("pages are fewer than prices");
        self.pages.push(Box::new(Page {
            len: 0,
            keys: [K::default(); LEN],
            values: [filler; LEN],
        }));
        // Capacity for every page, so that freeing one never allocates.
        self.free.reserve(self.pages.len());
        page
    }

    fn close(&mut self, place: usize) {
        let entry = self.directory.remove(place);
        self.free.push(entry.page);
    }
}

impl<V: Copy, const LEN: usize, K: Copy + Ord> Page<V, LEN, K> {
    fn keys(&self) -> &[K] {
        &self.keys[..self.len]
    }

    /// The index of a key, or where it belongs.
    #[inline]
    fn index(&self, key: K) -> usize {
        let keys = self.keys();
        match keys {
            [first, ..] if key <= *first => 0,
            [.., last] if *last < key => keys.len(),
            _ => keys.partition_point(|&at| at < key),
        }
    }

    /// The index of a key that has a value.
    #[inline]
    fn find(&self, key: K) -> Option<usize> {
        let index = self.index(key);
        (self.keys().get(index) == Some(&key)).then_some(index)
    }

    fn insert(&mut self, index: usize, key: K, value: V) {
        self.keys.copy_within(index..self.len, index + 1);
        self.values.copy_within(index..self.len, index + 1);
        self.keys[index] = key;
        self.values[index] = value;
        self.len += 1;
    }

    fn remove(&mut self, index: usize) {
        self.keys.copy_within(index + 1..self.len, index);
        self.values.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }

    /// Appends the other page's values from an index on; all of them are above this page's.
    fn append(&mut self, other: &Self, from: usize) {
        let len = self.len + other.len - from;
        self.keys[self.len..len].copy_from_slice(&other.keys[from..other.len]);
        self.values[self.len..len].copy_from_slice(&other.values[from..other.len]);
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    type FarLevels = PagedMap<Level, PAGE_LEN>;
    const PAGE_LEN: usize = 62;
    use crate::book::{level::Level, pool::Slot};
    use market::SplitMix64;

    fn level(slot: u32) -> Level {
        Level { oldest: Slot::from_bits(slot), youngest: Slot::NONE }
    }

    /// After any adds and removes, lookups equal those of a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=8 {
            let mut random = SplitMix64::new(seed);
            let mut far = FarLevels::default();
            let mut map = BTreeMap::new();
            for step in 0..20_000_u32 {
                let rank = random.below(if seed < 5 { 600 } else { 1_000_000 }) as u32;
                // Grows for a while, then shrinks, so that pages split and join.
                let grow = if step / 4_000 % 2 == 0 { 70 } else { 30 };
                if random.below(100) < grow {
                    if map.insert(rank, level(step)).is_none() {
                        far.insert(rank, level(step));
                    } else {
                        *far.get_mut(rank).unwrap() = level(step);
                    }
                } else if let Some((&rank, &level)) = map.range(rank..).next() {
                    map.remove(&rank);
                    assert_eq!(far.remove(rank), level, "seed {seed}, step {step}");
                }
                let first = map.iter().next().map(|(&rank, &level)| (rank, level));
                assert_eq!(far.first(), first, "seed {seed}, step {step}");
                let from = map.range(rank..).next().map(|(&rank, &level)| (rank, level));
                assert_eq!(far.at_or_after(rank), from, "seed {seed}, step {step}");
                let before = map.range(..rank).next_back().map(|(&rank, _)| rank);
                assert_eq!(far.last_before(rank), before, "seed {seed}, step {step}");
                assert_eq!(far.len(), map.len());
                assert_eq!(far.get_mut(rank).copied(), map.get(&rank).copied());
                if step % 64 == 0 {
                    far.check();
                }
            }
        }
    }

    /// The number of pages is in proportion to the present levels, not to past ones.
    #[test]
    fn memory_follows_the_levels() {
        let mut far = FarLevels::default();
        for rank in 0..100_000 {
            far.insert(rank, Level::EMPTY);
        }
        assert_eq!(far.directory.len(), 100_000_usize.div_ceil(PAGE_LEN));
        for rank in (0..100_000).filter(|rank| rank % 100 != 0) {
            far.remove(rank);
        }
        far.check();
        assert!(far.directory.len() <= 2 * 1_000 / ((PAGE_LEN / 2) / 2), "{}", far.directory.len());
    }
}
