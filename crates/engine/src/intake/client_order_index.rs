//! Finds the slot of a live order by the participant's number for it.
//!
//! Numbers of a channel only rise, and most orders are short-lived. So the number itself is the
//! index, modulo the length, into a table of the latest orders, two to four times as long as the
//! number of live orders. An older order whose place a younger one takes moves to a sorted map.
//!
//! The table grows incrementally: each insert migrates a few old entries, so no order pays for a
//! rehash.
//!
//! A walk over the orders takes them in an order that depends on their numbers alone and not on the
//! length of the table: by [`turn_of`], which sorts blocks of numbers by their reversed bits. A table of
//! any length is in that order, because orders of one place differ in higher bits.
//!
//! Invariant: a live order is found under its number, and under no other.

use alloc::{boxed::Box, vec, vec::Vec};
use core::ops::RangeInclusive;

use crate::book::{paged_map::PagedMap, pool::Slot};

/// Places of the first table: 256 bytes.
const LATEST_LEN_MIN: usize = 32;

/// The most places: 1 MiB.
const LATEST_LEN_MAX: usize = 1 << 17;

/// Places in a run, the unit of migration; no table is shorter.
const RUN_LEN: usize = 32;

/// Runs migrated in order with each insert.
const RUNS_SWEPT: usize = 2;

/// Orders in a page of the sorted map: 2 KiB.
const PAGE_LEN: usize = 254;

/// Consecutive numbers that take their turns together: 2⁷.
const BLOCK_BITS: u32 = 7;
const BLOCK_MASK: u32 = (1 << BLOCK_BITS) - 1;

/// The turn of a number: blocks by their reversed bits, then the number in its block.
#[inline]
pub(crate) fn turn_of(number: u32) -> u32 {
    (number >> BLOCK_BITS).reverse_bits() | number & BLOCK_MASK
}

/// The number of a turn.
#[inline]
fn number_of(turn: u32) -> u32 {
    (turn & !BLOCK_MASK).reverse_bits() << BLOCK_BITS | turn & BLOCK_MASK
}

/// The live orders of one channel by number.
///
/// Invariant: a live order is in one of three places. In the table, at its number modulo the
/// length; in the sorted map, by turn; or in the previous table, at its number modulo that length, while the
/// run of its place has not migrated.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ClientOrderIndex {
    /// The length is 0 or a power of two. Each word is a [`Place`].
    latest: Box<[u64]>,
    /// Orders outside the table; `None` before the first.
    elder: Option<Box<Elder>>,
    /// Number of live orders in the table.
    latest_live: u32,
    /// The last number used; 0 before the first.
    pub(crate) last: u32,
}

market::assert_layout! {
    ClientOrderIndex, 32 { latest: 0, elder: 16, latest_live: 24, last: 28 }
}

/// Live orders outside the table.
#[derive(Debug, Default)]
struct Elder {
    /// Orders whose place a younger order took, by turn.
    moved: PagedMap<Slot, PAGE_LEN>,
    /// The previous table, until it is empty.
    before: Box<[u64]>,
    /// Number of live orders in the previous table.
    before_live: u32,
    /// Runs migrated so far in order.
    runs_swept: usize,
}

/// The last order at this place; without a slot once it is done or has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    number: u32,
    slot: Slot,
}

impl Place {
    const EMPTY: Self = Self { number: 0, slot: Slot::NONE };

    /// The run of this place has not migrated from the previous table: no order has number 0. All
    /// zero, so that fresh memory is a valid table and need not be written.
    const AWAITED: u64 = 0;

    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.slot.to_bits())
    }

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self { number: (bits >> 32) as u32, slot: Slot::from_bits(bits as u32) }
    }

    #[inline]
    fn live(self) -> Option<(u32, Slot)> {
        (!self.slot.is_none() && self.number != 0).then_some((self.number, self.slot))
    }
}

/// The live orders of a table.
fn live(places: &[u64]) -> impl Iterator<Item = (u32, Slot)> {
    places.iter().filter_map(|bits| Place::from_bits(*bits).live())
}

impl Elder {
    fn len(&self) -> usize {
        self.moved.len() + self.before_live as usize
    }

    /// The index in the previous table of a number, if it is there.
    fn place_before(&self, number: u32) -> Option<usize> {
        let index = number as usize & self.before.len().wrapping_sub(1);
        let place = Place::from_bits(*self.before.get(index)?);
        place.live().is_some_and(|(it, _)| it == number).then_some(index)
    }

    #[cold]
    fn find(&self, number: u32) -> Option<Slot> {
        match self.place_before(number) {
            Some(index) => Some(Place::from_bits(self.before[index]).slot),
            None => self.moved.get(turn_of(number)),
        }
    }

    #[cold]
    fn remove(&mut self, number: u32) {
        match self.place_before(number) {
            Some(index) => {
                self.before[index] = Place::EMPTY.to_bits();
                self.before_live -= 1;
            }
            None => {
                self.moved.remove(turn_of(number));
            }
        }
    }
}

impl ClientOrderIndex {
    /// The slot of a live order.
    #[inline(always)]
    pub(crate) fn find(&self, number: u32) -> Option<Slot> {
        let place = Place::from_bits(*self.latest.get(self.place(number))?);
        if place.number == number && !place.slot.is_none() && number != 0 {
            return Some(place.slot);
        }
        self.elder.as_ref()?.find(number)
    }

    /// Prefetches the place of a number.
    #[inline]
    pub(crate) fn fetch(&self, number: u32, fetch: impl Fn(*const u8)) {
        if let Some(place) = self.latest.get(self.place(number)) {
            fetch(core::ptr::from_ref(place).cast());
        }
    }

    /// Adds an order; its number is above all earlier ones.
    #[inline(always)]
    pub(crate) fn append(&mut self, number: u32, slot: Slot) {
        let mut index = self.place(number);
        let is_free = |bits: &u64| Place::from_bits(*bits).slot.is_none();
        if !self.latest.get(index).is_some_and(is_free) {
            index = self.make_room(number);
        }
        self.latest[index] = Place { number, slot }.to_bits();
        self.latest_live += 1;
    }

    /// Adds live orders to an index that has none, in any order of their numbers; false if two of them have one number.
    pub(crate) fn restore(&mut self, orders: impl ExactSizeIterator<Item = (u32, Slot)>) -> bool {
        assert!(self.latest.is_empty(), "an index is restored before it is used");
        let len = (2 * orders.len() + 1).next_power_of_two();
        let len = len.clamp(LATEST_LEN_MIN, LATEST_LEN_MAX);
        self.latest = vec![Place::EMPTY.to_bits(); len].into_boxed_slice();
        let mut moved = Vec::new();
        for (number, slot) in orders {
            let index = self.place(number);
            let order = Place { number, slot };
            let other = Place::from_bits(self.latest[index]);
            // The youngest order of a place is the one that stays.
            let (stays, goes) =
                if other.number <= number { (order, other) } else { (other, order) };
            self.latest[index] = stays.to_bits();
            match goes.live() {
                None => self.latest_live += 1,
                Some(_) if goes.number == stays.number => return false,
                Some((number, slot)) => moved.push((turn_of(number), slot)),
            }
        }
        moved.sort_unstable_by_key(|(turn, _)| *turn);
        let mut is_new = true;
        for (turn, slot) in moved {
            is_new &= self.elder.get_or_insert_default().moved.insert_new(turn, slot);
        }
        is_new
    }

    /// Removes a live order.
    ///
    /// # Panics
    /// No live order has this number.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u32) {
        let index = self.place(number);
        let place = Place::from_bits(self.latest[index]);
        if place.number == number && !place.slot.is_none() {
            self.latest[index] = Place { slot: Slot::NONE, ..place }.to_bits();
            self.latest_live -= 1;
        } else {
            self.elder.as_mut().expect("a live order has a number").remove(number);
        }
    }

    /// The live orders, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        let elder = self.elder.iter().flat_map(|elder| {
            let moved = elder.moved.iter().map(|(turn, slot)| (number_of(turn), slot));
            live(&elder.before).chain(moved)
        });
        live(&self.latest).chain(elder)
    }

    /// Number of live orders.
    pub(crate) fn len(&self) -> usize {
        self.latest_live as usize + self.elder.as_ref().map_or(0, |elder| elder.len())
    }

    /// Finds the first live orders of these turns, at most `max`: the turn and number of each, by
    /// turn. Costs a look at the places up to the last of them, which are the same part of the table
    /// as the turns are of all turns, and a search in the sorted map.
    pub(crate) fn find_turns(
        &self,
        turns: RangeInclusive<u32>,
        max: usize,
        found: &mut Vec<(u32, u32)>,
    ) {
        let (from, to) = turns.into_inner();
        found.clear();
        let before: &[u64] = self.elder.as_ref().map_or(&[], |elder| match elder.before_live {
            0 => &[],
            _ => &elder.before,
        });
        let latest: &[u64] = if self.latest_live == 0 { &[] } else { &self.latest };
        // Turns that differ in these bits only are in one block of the longer table.
        let blocks_bits = |places: &[u64]| places.len().max(1).ilog2().saturating_sub(BLOCK_BITS);
        let within = u32::MAX.checked_shr(blocks_bits(latest).max(blocks_bits(before)));
        let within = within.unwrap_or(0);
        let mut first = from;
        while found.len() < max && first <= to {
            let (start, last) = (found.len(), to.min(first | within));
            for places in [latest, before] {
                // The numbers of this block lead to these places.
                let at = number_of(first) as usize & !(BLOCK_MASK as usize);
                let at = at & places.len().wrapping_sub(1);
                let block = &places[at.min(places.len())..];
                let block = &block[..block.len().min(1 << BLOCK_BITS)];
                let turns = live(block).map(|(number, _)| (turn_of(number), number));
                found.extend(turns.filter(|(turn, _)| (first..=last).contains(turn)));
            }
            let mut turn = Some(first);
            for _ in start..max {
                let moved = turn.zip(self.elder.as_ref());
                let Some((turn_moved, _)) =
                    moved.and_then(|(turn, elder)| elder.moved.at_or_after(turn))
                else {
                    break;
                };
                if last < turn_moved {
                    break;
                }
                found.push((turn_moved, number_of(turn_moved)));
                turn = turn_moved.checked_add(1);
            }
            found[start..].sort_unstable();
            let Some(next) = last.checked_add(1) else { break };
            first = next;
            if latest.is_empty() && before.is_empty() {
                // All others are in the sorted map.
                let moved = self.elder.as_ref().and_then(|elder| elder.moved.at_or_after(first));
                let Some((turn, _)) = moved else { break };
                first = turn;
            }
        }
        found.truncate(max);
    }

    /// Number of places of the table.
    pub(crate) fn place_count(&self) -> usize {
        self.latest.len()
    }

    /// Checks that each order is found and that counts agree.
    pub(crate) fn check(&self) {
        let live = |places: &[u64]| -> vec::Vec<(usize, u32)> {
            let places = places.iter().map(|bits| Place::from_bits(*bits).live()).enumerate();
            places.filter_map(|(index, live)| Some((index, live?.0))).collect()
        };
        let latest = live(&self.latest);
        assert_eq!(latest.len(), self.latest_live as usize);
        for &(index, number) in &latest {
            assert_eq!(index, self.place(number), "{number}");
        }
        let Some(elder) = &self.elder else { return };
        elder.moved.check();
        let twice = latest.iter().find(|(_, number)| elder.find(*number).is_some());
        assert!(twice.is_none(), "{twice:?}");
        let before = live(&elder.before);
        assert_eq!(before.len(), elder.before_live as usize);
        for (index, number) in before {
            assert_eq!(index, number as usize % elder.before.len(), "{number}");
            assert_eq!(self.latest[self.place(number)], Place::AWAITED, "{number}");
            assert_eq!(elder.moved.get(turn_of(number)), None);
        }
    }

    /// The index of a number; out of range while there is no table.
    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & self.latest.len().wrapping_sub(1)
    }

    /// Frees the place of a number and returns its index.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, number: u32) -> usize {
        if self.latest.is_empty() {
            self.latest = vec![Place::EMPTY.to_bits(); LATEST_LEN_MIN].into_boxed_slice();
            return self.place(number);
        }
        self.sweep();
        let index = self.place(number);
        if self.latest[index] == Place::AWAITED {
            self.follow(index / RUN_LEN);
        }
        if Place::from_bits(self.latest[index]).live().is_some() {
            self.grow();
        }
        let index = self.place(number);
        if self.latest[index] == Place::AWAITED {
            self.follow(index / RUN_LEN);
        }
        if let Some((number, slot)) = Place::from_bits(self.latest[index]).live() {
            self.elder.get_or_insert_default().moved.insert(turn_of(number), slot);
            self.latest_live -= 1;
        }
        index
    }

    /// Grows the table if it has too few places and the previous one has fully migrated.
    fn grow(&mut self) {
        let len = self.latest.len();
        let live = self.len();
        let is_awaited = self.elder.as_ref().is_some_and(|elder| 0 < elder.before_live);
        if 2 * live < len || LATEST_LEN_MAX <= len || is_awaited {
            return;
        }
        let longer = vec![Place::AWAITED; 2 * len].into_boxed_slice();
        let elder = self.elder.get_or_insert_default();
        elder.before = core::mem::replace(&mut self.latest, longer);
        elder.before_live = core::mem::take(&mut self.latest_live);
        elder.runs_swept = 0;
    }

    /// Migrates some runs in order, since numbers with gaps may never reach them.
    fn sweep(&mut self) {
        for _ in 0..RUNS_SWEPT {
            let Some(elder) = &mut self.elder else { return };
            if elder.before_live == 0 {
                elder.before = Box::default();
                return;
            }
            let run = elder.runs_swept;
            elder.runs_swept += 1;
            self.follow(run);
        }
    }

    /// Migrates a run from the previous table, once.
    fn follow(&mut self, run: usize) {
        let Self { latest, elder: Some(elder), latest_live, .. } = self else { return };
        let (len, len_before) = (latest.len(), elder.before.len());
        for index in run * RUN_LEN..(run + 1) * RUN_LEN {
            if latest[index] != Place::AWAITED {
                continue;
            }
            latest[index] = Place::EMPTY.to_bits();
            let before = elder.before.get_mut(index & len_before.wrapping_sub(1));
            let leads_here = |bits: &&mut u64| {
                let live = Place::from_bits(**bits).live();
                live.is_some_and(|(number, _)| number as usize & (len - 1) == index)
            };
            if let Some(before) = before.filter(leads_here) {
                latest[index] = core::mem::replace(before, Place::EMPTY.to_bits());
                elder.before_live -= 1;
                *latest_live += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use super::*;
    use market::SplitMix64;

    /// For numbers with or without gaps, and any order of removal, the index finds the same orders as a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=12_u64 {
            let mut random = SplitMix64::new(seed);
            let mut numbers = ClientOrderIndex::default();
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
                    let mut turns: Vec<_> = map.keys().map(|it| (turn_of(*it), *it)).collect();
                    turns.sort_unstable();
                    let from = turn_of(random.below(u64::from(number) + 2) as u32);
                    let to = from.saturating_add(random.below(1 << 31) as u32);
                    for (from, to, max) in [
                        (0, u32::MAX, 10),
                        (from, u32::MAX, 10),
                        (from, u32::MAX, 300),
                        (from, to, 300),
                        (0, to, usize::MAX),
                        (0, u32::MAX, usize::MAX),
                    ] {
                        let mut found = Vec::new();
                        numbers.find_turns(from..=to, max, &mut found);
                        let later = turns.iter().filter(|(turn, _)| (from..=to).contains(turn));
                        assert!(found.iter().eq(later.take(max)), "seed {seed}, step {step}");
                    }
                    numbers.check();
                    let mut walked: Vec<_> = numbers.iter().collect();
                    walked.sort_unstable_by_key(|(number, _)| *number);
                    assert!(walked.into_iter().eq(map.iter().map(|(&it, &slot)| (it, slot))));
                }
            }
        }
    }

    /// Orders that are restored in any order of their numbers are found, and may be followed by others; one number is
    /// restored once.
    #[test]
    fn restored_in_any_order() {
        for (live, step) in [(1, 1), (16, 1), (1_000, 1), (1_000, 97), (200_000, 1), (150_000, 3)] {
            let mut random = SplitMix64::new(live);
            let mut numbers: Vec<u32> = (1..=live as u32).map(|it| it * step).collect();
            for last in (1..numbers.len()).rev() {
                numbers.swap(last, random.below(last as u64 + 1) as usize);
            }
            let slots = |numbers: &[u32]| -> Vec<(u32, Slot)> {
                numbers.iter().map(|number| (*number, Slot::from_bits(*number))).collect()
            };
            let mut index = ClientOrderIndex::default();
            assert!(index.restore(slots(&numbers).into_iter()));
            let mut twice = numbers.clone();
            let number = twice[random.below(live) as usize];
            twice.insert(random.below(live) as usize, number);
            let is_new = ClientOrderIndex::default().restore(slots(&twice).into_iter());
            assert!(!is_new, "{number} is there twice");
            let last = live as u32 * step;
            for number in last + 1..last + 1_000 {
                index.append(number, Slot::from_bits(number));
            }
            index.check();
            assert_eq!(index.len(), live as usize + 999);
            for number in numbers {
                assert_eq!(index.find(number), Some(Slot::from_bits(number)));
                index.remove(number);
            }
            index.check();
            assert_eq!(index.len(), 999);
        }
    }

    /// A number and its turn lead to each other; the numbers of a block have turns in their order.
    #[test]
    fn turns_follow_from_numbers() {
        for number in (0..10_000).chain([u32::MAX, u32::MAX - 127, 1 << 31, (1 << 31) + 5]) {
            assert_eq!(number_of(turn_of(number)), number);
        }
        assert!((1..=127).is_sorted_by_key(turn_of));
        assert_eq!(turn_of(128), 1 << 31, "the second block is behind half of all");
        assert_eq!(turn_of(256 + 3), (1 << 30) + 3);
    }

    /// If every order stays live the tables grow: each order is still found, and nearly all
    /// migrate.
    #[test]
    fn orders_follow_into_a_longer_table() {
        let mut numbers = ClientOrderIndex::default();
        let (mut lens, mut awaited) = (alloc::vec![0], 0);
        for number in 1..=60_000 {
            numbers.append(number, Slot::from_bits(number));
            let some = number / 3 + 1;
            assert_eq!(numbers.find(some), Some(Slot::from_bits(some)), "{some} of {number}");
            if lens.last() != Some(&numbers.latest.len()) {
                lens.push(numbers.latest.len());
                numbers.check();
            }
            awaited += u32::from(numbers.elder.as_ref().is_some_and(|it| 0 < it.before_live));
        }
        assert_eq!(lens.len(), 13, "{lens:?}");
        assert!(20_000 < awaited, "{awaited}");
        let moved = numbers.elder.as_ref().map_or(0, |elder| elder.moved.len());
        assert!(moved < 1_000, "{moved}");
        (1..=60_000).for_each(|number| numbers.remove(number));
        numbers.check();
        assert_eq!(numbers.iter().count(), 0);
    }

    /// One order in a thousand stays; memory is in proportion to those that stayed.
    #[test]
    fn memory_follows_the_live_orders() {
        let mut numbers = ClientOrderIndex::default();
        for number in 1..=1_000_000 {
            numbers.append(number, Slot::from_bits(number));
            if number % 1_000 != 0 {
                numbers.remove(number);
            }
        }
        numbers.check();
        assert_eq!(numbers.iter().count(), 1_000);
        let elder = numbers.elder.as_ref().expect("most of them outlived their place");
        assert!(
            elder.moved.page_count() <= 2 * 1_000 / (PAGE_LEN / 2) + 1,
            "{}",
            elder.moved.page_count()
        );
        assert!(numbers.latest.len() <= 4 * 1_024, "{} places", numbers.latest.len());
    }
}
