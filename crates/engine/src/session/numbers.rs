//! From the number that a participant gave an order to the slot in which it rests.
//!
//! Numbers only ever rise, and most orders do not live long. So the number itself says where to look,
//! in a table of the latest orders that is two to four times as long as orders are live; an order that
//! lives until its place is wanted by a younger one moves to a sorted map.

use alloc::{boxed::Box, vec};

use crate::{book::pool::Slot, pages::Pages};

/// Places of the first table: 256 bytes.
const LATEST_LEN_MIN: usize = 32;

/// The most places: 512 KiB, which are moved in well under 100 µs when the table grows.
const LATEST_LEN_MAX: usize = 1 << 16;

/// Orders in a page of those that moved: 2 KiB.
const PAGE_LEN: usize = 254;

/// The live orders of one channel by number.
///
/// Invariant: a live order is in the table, at the place that is its number modulo the length, or it
/// is in the map.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The length is 0 or a power of two.
    latest: Box<[Place]>,
    /// Those that outlived their place; none before the first does.
    elder: Option<Box<Pages<Slot, PAGE_LEN>>>,
    /// How many places have a live order.
    latest_live: u32,
    /// The last number used; 0 before the first.
    pub(crate) last: u32,
}

/// The last order whose number led here; without a slot once it is done or has moved.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u32,
    slot: Slot,
}

impl Place {
    const EMPTY: Self = Self { number: 0, slot: Slot::NONE };

    fn live(self) -> Option<(u32, Slot)> {
        (!self.slot.is_none()).then_some((self.number, self.slot))
    }
}

impl Numbers {
    /// The slot of a live order.
    #[inline(always)]
    pub(crate) fn find(&self, number: u32) -> Option<Slot> {
        let place = self.latest.get(self.place(number))?;
        if place.number == number && !place.slot.is_none() {
            return Some(place.slot);
        }
        self.elder.as_ref()?.get(number)
    }

    /// Looks at where a number leads.
    #[inline]
    pub(crate) fn look_at(&self, number: u32) {
        core::hint::black_box(self.latest.get(self.place(number)).map(|place| place.number));
    }

    /// Adds an order whose number is above all before.
    #[inline(always)]
    pub(crate) fn append(&mut self, number: u32, slot: Slot) {
        let mut index = self.place(number);
        if self.latest.get(index).is_none_or(|place| !place.slot.is_none()) {
            index = self.make_room(number);
        }
        self.latest[index] = Place { number, slot };
        self.latest_live += 1;
    }

    /// Removes a live order.
    ///
    /// # Panics
    /// It is not there.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u32) {
        let index = self.place(number);
        let place = &mut self.latest[index];
        if place.number == number && !place.slot.is_none() {
            place.slot = Slot::NONE;
            self.latest_live -= 1;
        } else {
            self.elder.as_mut().expect("a live order has a number").remove(number);
        }
    }

    /// The live orders, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        let elder = self.elder.iter().flat_map(|elder| elder.iter());
        self.latest.iter().filter_map(|place| place.live()).chain(elder)
    }

    /// Asserts that each order is where it is looked for and that counts agree.
    pub(crate) fn check(&self) {
        let live = || self.latest.iter().enumerate().filter(|(_, place)| place.live().is_some());
        assert_eq!(live().count(), self.latest_live as usize);
        for (index, place) in live() {
            assert_eq!(index, self.place(place.number), "{place:?}");
        }
        if let Some(elder) = &self.elder {
            elder.check();
            let twice = live().find(|(_, place)| elder.get(place.number).is_some());
            assert!(twice.is_none(), "{twice:?}");
        }
    }

    /// Where a number leads; outside the table as long as there is none.
    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & self.latest.len().wrapping_sub(1)
    }

    /// Frees the place of a number, and says which that is then.
    #[cold]
    fn make_room(&mut self, number: u32) -> usize {
        let len = self.latest.len();
        let live = self.latest_live as usize + self.elder.as_ref().map_or(0, |elder| elder.len());
        if len <= 2 * live && len < LATEST_LEN_MAX {
            // Orders at different places of the shorter table are so in the longer one, too.
            let longer = vec![Place::EMPTY; (2 * len).max(LATEST_LEN_MIN)].into_boxed_slice();
            for (number, slot) in
                core::mem::replace(&mut self.latest, longer).into_iter().filter_map(Place::live)
            {
                let index = self.place(number);
                self.latest[index] = Place { number, slot };
            }
        }
        let index = self.place(number);
        if let Some((number, slot)) = self.latest[index].live() {
            self.elder.get_or_insert_default().insert(number, slot);
            self.latest_live -= 1;
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

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
                    let mut walked: Vec<_> = numbers.iter().collect();
                    walked.sort_unstable_by_key(|(number, _)| *number);
                    assert!(walked.into_iter().eq(map.iter().map(|(&it, &slot)| (it, slot))));
                }
            }
        }
    }

    /// One order in a thousand stays; memory is in proportion to those that stayed.
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
        let elder = numbers.elder.as_ref().expect("most of them outlived their place");
        assert!(elder.page_count() <= 2 * 1_000 / (PAGE_LEN / 2) + 1, "{}", elder.page_count());
        assert!(numbers.latest.len() <= 4 * 1_024, "{} places", numbers.latest.len());
    }
}
