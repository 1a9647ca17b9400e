//! From the number that a participant gave an order to the slot in which it rests.
//!
//! Numbers only ever rise, so they are appended, page by page, and are sorted by themselves. A
//! participant that counts without gaps is found at the first look: a number cannot be further
//! from the first of its page than the difference of the two. Otherwise a binary search finds it.

use alloc::{boxed::Box, vec::Vec};

use crate::book::pool::Slot;

const PAGE_LEN: usize = 256;

/// Neighbors with no more live orders than this between them become one page, so that memory is in
/// proportion to the live orders, however long ago they were entered: at most 32 bytes each.
const MERGED_LIVE_MAX: usize = PAGE_LEN / 2;

/// The live orders of one channel by number. Pages that fall empty are used again.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// In the order of the numbers.
    directory: Vec<Entry>,
    #[expect(clippy::vec_box, reason = "one more page moves none of those there are")]
    pages: Vec<Box<Page>>,
    /// Pages in use by none.
    free: Vec<u32>,
}

/// A page's place in the order of the numbers.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Not above the first number in the page, and above every number in the page before.
    first: u32,
    page: u32,
    /// How many of its orders are live: at least 1.
    live_count: u32,
}

/// Up to [`PAGE_LEN`] orders; one that is done keeps its place, without a slot, until the page is
/// compacted.
#[derive(Debug)]
struct Page {
    len: usize,
    numbers: [u32; PAGE_LEN],
    slots: [Slot; PAGE_LEN],
}

impl Numbers {
    /// The slot of a live order.
    pub(crate) fn find(&self, number: u32) -> Option<Slot> {
        let page = self.page(self.place(number)?);
        let slot = page.slots[page.find(number)?];
        (!slot.is_none()).then_some(slot)
    }

    /// Adds an order whose number is above all before.
    pub(crate) fn append(&mut self, number: u32, slot: Slot) {
        let place = self.place_to_append(number);
        let entry = &mut self.directory[place];
        entry.live_count += 1;
        self.pages[entry.page as usize].append(number, slot);
    }

    /// Removes a live order.
    ///
    /// # Panics
    /// It is not there.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = self.place(number).expect("a live order has a number");
        let page = &mut self.pages[self.directory[place].page as usize];
        let index = page.find(number).expect("a live order has a number");
        assert!(!page.slots[index].is_none(), "order {number} is removed once");
        page.slots[index] = Slot::NONE;
        self.directory[place].live_count -= 1;
        if self.directory[place].live_count == 0 {
            self.close(place);
        } else {
            self.merge(place);
        }
    }

    /// The live orders, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        self.directory.iter().flat_map(|entry| self.pages[entry.page as usize].live())
    }

    /// Asserts that numbers ascend and that counts agree.
    pub(crate) fn check(&self) {
        let mut last = 0;
        for entry in &self.directory {
            let page = &self.pages[entry.page as usize];
            assert!(last < entry.first && entry.first <= page.numbers[0], "{entry:?}");
            assert!(page.numbers[..page.len].is_sorted_by(|one, other| one < other), "{entry:?}");
            assert!(0 < entry.live_count && entry.live_count as usize == page.live().count());
            last = page.numbers[page.len - 1];
        }
        assert_eq!(self.directory.len() + self.free.len(), self.pages.len());
    }

    /// The place of the page that a number is in, if it is anywhere.
    fn place(&self, number: u32) -> Option<usize> {
        let last = self.directory.len().checked_sub(1)?;
        if self.directory[last].first <= number {
            return Some(last);
        }
        self.directory.partition_point(|entry| entry.first <= number).checked_sub(1)
    }

    fn page(&self, place: usize) -> &Page {
        &self.pages[self.directory[place].page as usize]
    }

    /// The place of the last page, which has room; a new one is taken only if more than half of
    /// the last is live.
    fn place_to_append(&mut self, number: u32) -> usize {
        if let Some(entry) = self.directory.last() {
            let page = &mut self.pages[entry.page as usize];
            assert!(page.numbers[page.len - 1] < number, "numbers only rise");
            if page.len == PAGE_LEN && entry.live_count as usize <= MERGED_LIVE_MAX {
                page.compact();
            }
            if page.len < PAGE_LEN {
                return self.directory.len() - 1;
            }
        }
        let page = self.take_page();
        self.directory.push(Entry { first: number, page, live_count: 0 });
        self.directory.len() - 1
    }

    /// Joins the page with a neighbor, if few orders in both are live.
    fn merge(&mut self, place: usize) {
        for left in [place.saturating_sub(1), place] {
            let Some(right) = self.directory.get(left + 1).copied() else { return };
            let entry = &mut self.directory[left];
            if (entry.live_count + right.live_count) as usize > MERGED_LIVE_MAX {
                continue;
            }
            entry.live_count += right.live_count;
            let [page, upper] = self
                .pages
                .get_disjoint_mut([entry.page as usize, right.page as usize])
                .expect("neighbors are two pages");
            page.compact();
            for (number, slot) in upper.live() {
                page.append(number, slot);
            }
            return self.close(left + 1);
        }
    }

    fn take_page(&mut self) -> u32 {
        if let Some(page) = self.free.pop() {
            self.pages[page as usize].len = 0;
            return page;
        }
        let page = u32::try_from(self.pages.len()).expect("pages are fewer than orders");
        self.pages.push(Box::new(Page {
            len: 0,
            numbers: [0; PAGE_LEN],
            slots: [Slot::NONE; PAGE_LEN],
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
    /// Where a number is.
    fn find(&self, number: u32) -> Option<usize> {
        let distance = number.checked_sub(self.numbers[0])? as usize;
        let last = distance.min(self.len - 1);
        if self.numbers[last] == number {
            return Some(last);
        }
        self.numbers[..last].binary_search(&number).ok()
    }

    fn append(&mut self, number: u32, slot: Slot) {
        self.numbers[self.len] = number;
        self.slots[self.len] = slot;
        self.len += 1;
    }

    /// The live orders, by number.
    fn live(&self) -> impl Iterator<Item = (u32, Slot)> {
        let numbers = self.numbers[..self.len].iter().copied();
        let slots = self.slots[..self.len].iter().copied();
        numbers.zip(slots).filter(|(_, slot)| !slot.is_none())
    }

    /// Gives the places of orders that are done free.
    fn compact(&mut self) {
        let mut len = 0;
        for index in 0..self.len {
            if !self.slots[index].is_none() {
                self.numbers[len] = self.numbers[index];
                self.slots[len] = self.slots[index];
                len += 1;
            }
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::random::Random;

    /// With gaps or without, whichever orders are done first, the numbers found are those of a
    /// sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=12_u64 {
            let mut random = Random(seed);
            let mut numbers = Numbers::default();
            let mut map: BTreeMap<u32, Slot> = BTreeMap::new();
            let mut number = 0;
            for step in 0..30_000_u32 {
                let live_max = if step / 6_000 % 2 == 0 { 3_000 } else { 5 };
                if random.below(100) < 70 && map.len() < live_max {
                    number += 1 + if seed % 3 == 0 { random.below(1_000) as u32 } else { 0 };
                    numbers.append(number, Slot::from_bits(step));
                    map.insert(number, Slot::from_bits(step));
                } else if !map.is_empty() {
                    let index = match seed % 4 {
                        0 => 0,
                        1 => map.len() - 1,
                        _ => random.below(map.len() as u64) as usize,
                    };
                    let (&number, _) = map.iter().nth(index).unwrap();
                    map.remove(&number);
                    numbers.remove(number);
                }
                let any = random.below(u64::from(number) + 2) as u32;
                assert_eq!(numbers.find(any), map.get(&any).copied(), "seed {seed}, step {step}");
                if step % 128 == 0 {
                    numbers.check();
                    assert!(numbers.iter().eq(map.iter().map(|(&number, &slot)| (number, slot))));
                }
            }
        }
    }

    /// One order in a thousand stays; pages are in proportion to those that stayed.
    #[test]
    fn memory_follows_the_live_orders() {
        let mut numbers = Numbers::default();
        for number in 1..=1_000_000 {
            numbers.append(number, Slot::from_bits(number));
            if number % 1_000 != 0 {
                numbers.remove(number);
            }
        }
        numbers.check();
        assert_eq!(numbers.iter().count(), 1_000);
        assert!(numbers.directory.len() <= 2 * 1_000 / MERGED_LIVE_MAX + 1);
        assert!(numbers.pages.len() <= 20, "{} pages", numbers.pages.len());
    }
}
