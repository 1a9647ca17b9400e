//! Far levels: those outside the window of a ladder, in pages sorted by rank.
//!
//! Finding is a binary search over the first ranks of the pages and one in a page; adding and
//! removing move at most a page. So an order a million prices away costs a little more than one at
//! the touch, and memory is in proportion to the levels there are.

use alloc::{boxed::Box, vec::Vec};

use super::level::Level;

const PAGE_LEN: usize = 64;

/// Neighbors with no more levels than this between them become one page. It leaves room, so that
/// the page does not split again at once.
const MERGED_LEN_MAX: usize = PAGE_LEN / 2;

/// Levels by rank, ascending. Pages that fall empty are used again.
#[derive(Debug, Default)]
pub(crate) struct FarLevels {
    /// In the order of rank.
    directory: Vec<Entry>,
    #[expect(clippy::vec_box, reason = "one more page moves none of those there are")]
    pages: Vec<Box<Page>>,
    /// Pages in use by none.
    free: Vec<u32>,
    len: usize,
}

/// A page's place in the order of rank.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The rank of its first level.
    first: u32,
    page: u32,
}

/// Up to [`PAGE_LEN`] levels by rank, ascending. In use it has at least one.
#[derive(Debug)]
struct Page {
    len: usize,
    ranks: [u32; PAGE_LEN],
    levels: [Level; PAGE_LEN],
}

impl FarLevels {
    /// How many levels there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The least rank that has a level.
    pub(crate) fn first_rank(&self) -> Option<u32> {
        self.directory.first().map(|entry| entry.first)
    }

    /// The level of the least rank.
    pub(crate) fn first(&self) -> Option<(u32, Level)> {
        let page = &self.pages[self.directory.first()?.page as usize];
        Some((page.ranks[0], page.levels[0]))
    }

    /// The first level whose rank is not below `rank`.
    pub(crate) fn at_or_after(&self, rank: u32) -> Option<(u32, Level)> {
        let place = self.directory.partition_point(|entry| entry.first <= rank).saturating_sub(1);
        for entry in self.directory.get(place..)?.iter().take(2) {
            let page = &self.pages[entry.page as usize];
            let index = page.ranks().partition_point(|&at| at < rank);
            if index < page.len {
                return Some((page.ranks[index], page.levels[index]));
            }
        }
        None
    }

    /// The level of a rank, to change; it must not be made empty.
    pub(crate) fn get_mut(&mut self, rank: u32) -> Option<&mut Level> {
        let place = self.place(rank)?;
        let page = &mut self.pages[self.directory[place].page as usize];
        let index = page.ranks().binary_search(&rank).ok()?;
        Some(&mut page.levels[index])
    }

    /// Adds a level at a rank that has none.
    pub(crate) fn insert(&mut self, rank: u32, level: Level) {
        let mut place = match self.place(rank) {
            Some(place) => place,
            None => self.open_front(rank),
        };
        if self.page(place).len == PAGE_LEN {
            place = self.split(place, rank);
        }
        let page = self.page_mut(place);
        let index = page.ranks().partition_point(|&at| at < rank);
        assert!(index == page.len || page.ranks[index] != rank, "rank {rank} has a level already");
        page.insert(index, rank, level);
        self.directory[place].first = self.page(place).ranks[0];
        self.len += 1;
    }

    /// Removes the level of a rank and returns it.
    ///
    /// # Panics
    /// The rank has no level.
    pub(crate) fn remove(&mut self, rank: u32) -> Level {
        let place = self.place(rank).expect("only a rank that has a level is removed");
        let page = self.page_mut(place);
        let index = page.ranks().binary_search(&rank).expect("only a rank with a level is removed");
        let level = page.levels[index];
        page.remove(index);
        self.len -= 1;
        if self.page(place).len == 0 {
            self.close(place);
        } else {
            self.directory[place].first = self.page(place).ranks[0];
            self.merge(place);
        }
        level
    }

    /// Asserts that ranks ascend and that counts agree.
    pub(crate) fn check(&self) {
        let mut len = 0;
        let mut last = None;
        for entry in &self.directory {
            let page = &self.pages[entry.page as usize];
            assert!(0 < page.len && entry.first == page.ranks[0], "{entry:?}");
            for &rank in page.ranks() {
                assert!(last < Some(rank), "far levels ascend");
                last = Some(rank);
            }
            len += page.len;
        }
        assert_eq!(len, self.len);
        assert_eq!(self.directory.len() + self.free.len(), self.pages.len());
    }

    /// The place of the page that has a rank, or would have it; `None` if it is before all.
    fn place(&self, rank: u32) -> Option<usize> {
        self.directory.partition_point(|entry| entry.first <= rank).checked_sub(1)
    }

    fn page(&self, place: usize) -> &Page {
        &self.pages[self.directory[place].page as usize]
    }

    fn page_mut(&mut self, place: usize) -> &mut Page {
        &mut self.pages[self.directory[place].page as usize]
    }

    /// The place of the page for a rank before all others.
    fn open_front(&mut self, rank: u32) -> usize {
        if self.directory.is_empty() {
            let page = self.take_page();
            self.directory.push(Entry { first: rank, page });
        }
        0
    }

    /// Makes room in a full page; says which of the two is now for `rank`.
    fn split(&mut self, place: usize, rank: u32) -> usize {
        let taken = self.take_page();
        // What only ever grows at its end leaves full pages behind.
        let last = place + 1 == self.directory.len() && self.page(place).ranks[PAGE_LEN - 1] < rank;
        let from = if last { PAGE_LEN } else { PAGE_LEN / 2 };
        let [page, upper] = self
            .pages
            .get_disjoint_mut([self.directory[place].page as usize, taken as usize])
            .expect("a page just taken is another page");
        upper.append(page, from);
        page.len = from;
        let first = if last { rank } else { upper.ranks[0] };
        self.directory.insert(place + 1, Entry { first, page: taken });
        if rank < first { place } else { place + 1 }
    }

    /// Joins the page with a neighbor, if both are nearly empty.
    fn merge(&mut self, place: usize) {
        for left in [place.saturating_sub(1), place] {
            let right = left + 1;
            if right >= self.directory.len()
                || self.page(left).len + self.page(right).len > MERGED_LEN_MAX
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

    fn take_page(&mut self) -> u32 {
        if let Some(page) = self.free.pop() {
            self.pages[page as usize].len = 0;
            return page;
        }
        let page = u32::try_from(self.pages.len()).expect("pages are fewer than prices");
        self.pages.push(Box::new(Page {
            len: 0,
            ranks: [0; PAGE_LEN],
            levels: [Level::EMPTY; PAGE_LEN],
        }));
        // Room for every page, so that closing one never allocates.
        self.free.reserve(self.pages.len());
        page
    }

    fn close(&mut self, place: usize) {
        let entry = self.directory.remove(place);
        self.free.push(entry.page);
    }
}

impl Page {
    fn ranks(&self) -> &[u32] {
        &self.ranks[..self.len]
    }

    fn insert(&mut self, index: usize, rank: u32, level: Level) {
        self.ranks.copy_within(index..self.len, index + 1);
        self.levels.copy_within(index..self.len, index + 1);
        self.ranks[index] = rank;
        self.levels[index] = level;
        self.len += 1;
    }

    fn remove(&mut self, index: usize) {
        self.ranks.copy_within(index + 1..self.len, index);
        self.levels.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }

    /// Adds what the other page has from an index on, all of it behind what this one has.
    fn append(&mut self, other: &Self, from: usize) {
        let len = self.len + other.len - from;
        self.ranks[self.len..len].copy_from_slice(&other.ranks[from..other.len]);
        self.levels[self.len..len].copy_from_slice(&other.levels[from..other.len]);
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::book::pool::Slot;
    use crate::random::Random;

    fn level(slot: u32) -> Level {
        Level { oldest: Slot::from_bits(slot), youngest: Slot::NONE }
    }

    /// Any adds and removes leave what a sorted map has, found from any rank.
    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=8 {
            let mut random = Random(seed);
            let mut far = FarLevels::default();
            let mut map = BTreeMap::new();
            for step in 0..20_000_u32 {
                let rank = random.below(if seed < 5 { 600 } else { 1_000_000 }) as u32;
                // Grows for a while, then shrinks, so that pages split and merge.
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
                assert_eq!(far.len(), map.len());
                assert_eq!(far.get_mut(rank).copied(), map.get(&rank).copied());
                if step % 64 == 0 {
                    far.check();
                }
            }
        }
    }

    /// Pages are in proportion to the levels there are, not to those there were.
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
        assert!(far.directory.len() <= 2 * 1_000 / (MERGED_LEN_MAX / 2), "{}", far.directory.len());
    }
}
