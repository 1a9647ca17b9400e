//! A queue of work that is done in steps: an instrument has at most one item, which is found without a search.
//!
//! Invariant: the place of an item is the number of items before it since the queue was last empty, and the state hash
//! has each item at its place.

use alloc::{collections::VecDeque, vec::Vec};

use market::InstrumentId;

use crate::state::hash::StateHash;

/// An item of the queue.
pub(crate) trait Queued {
    fn instrument_id(&self) -> InstrumentId;

    /// Its element of the state hash, at this place.
    fn hash(&self, place: u64) -> u64;
}

/// Items in the order in which they came.
#[derive(Debug)]
pub(crate) struct InstrumentQueue<T> {
    items: VecDeque<T>,
    /// The place of the first item.
    first: u64,
    /// The place of each instrument's item, by the instrument's number less one; [`NONE`] without one.
    places: Vec<u64>,
}

/// An instrument without an item.
const NONE: u64 = u64::MAX;

impl<T> Default for InstrumentQueue<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), first: 0, places: Vec::new() }
    }
}

impl<T: Queued> InstrumentQueue<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// All items, each with the place of the first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.items.iter().map(|item| (self.first, item))
    }

    /// The item of an instrument.
    pub(crate) fn find(&self, instrument_id: InstrumentId) -> Option<&T> {
        Some(&self.items[self.index(instrument_id)?])
    }

    /// As [`find`](Self::find), to change the item.
    pub(crate) fn find_mut(&mut self, instrument_id: InstrumentId) -> Option<&mut T> {
        let index = self.index(instrument_id)?;
        Some(&mut self.items[index])
    }

    fn index(&self, instrument_id: InstrumentId) -> Option<usize> {
        let place = *self.places.get(Self::number(instrument_id))?;
        (place != NONE).then(|| (place - self.first) as usize)
    }

    fn number(instrument_id: InstrumentId) -> usize {
        usize::from(instrument_id.0) - 1
    }

    /// Adds an item of an instrument that has none.
    pub(crate) fn push(&mut self, item: T) {
        let number = Self::number(item.instrument_id());
        if self.places.len() <= number {
            self.places.resize(number + 1, NONE);
        }
        assert_eq!(self.places[number], NONE, "an instrument has one item at most");
        let place = self.first + self.items.len() as u64;
        self.places[number] = place;
        self.items.push_back(item);
    }

    /// Takes the first item. Without [`begin_anew_if_empty`](Self::begin_anew_if_empty) afterwards, places continue.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.places[Self::number(item.instrument_id())] = NONE;
        self.first += 1;
        Some(item)
    }

    /// Counts places from 0 again, if no item is left.
    pub(crate) fn begin_anew_if_empty(&mut self) {
        if self.items.is_empty() {
            self.first = 0;
        }
    }

    /// Restores the place of the first item, as each item of a snapshot has it; the error is the field that is invalid.
    pub(crate) fn restore_first(&mut self, first: u64) -> Result<(), &'static str> {
        if self.items.is_empty() {
            self.first = first;
        }
        // Far from the end of 64 bits, which no later place reaches then.
        let is_place = first <= u64::MAX / 2 && first == self.first;
        if is_place { Ok(()) } else { Err("place") }
    }

    /// Adds the elements of the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (item, place) in self.items.iter().zip(self.first..) {
            sum.add(item.hash(place));
        }
    }

    /// Checks that the index has each item at its place, and nothing else.
    pub(crate) fn check(&self) {
        for (index, item) in self.items.iter().enumerate() {
            assert_eq!(self.index(item.instrument_id()), Some(index));
        }
        assert_eq!(self.places.iter().filter(|it| **it != NONE).count(), self.items.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Item(InstrumentId, u64);

    impl Queued for Item {
        fn instrument_id(&self) -> InstrumentId {
            self.0
        }

        fn hash(&self, place: u64) -> u64 {
            crate::state::hash::mix([u64::from(self.0.0), self.1, place])
        }
    }

    /// A queue and a plain list with the same items give the same answers and the same hash, however the items got
    /// there.
    #[test]
    fn a_queue_is_a_list_with_an_index() {
        let (mut queue, mut list) = (InstrumentQueue::default(), Vec::<Item>::new());
        let mut random = 0x9e37_79b9_u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let instrument_id = InstrumentId((random >> 40) as u16 % 50 + 1);
            let in_list = list.iter().position(|it| it.0 == instrument_id);
            match random >> 61 {
                0..=2 if in_list.is_none() => {
                    queue.push(Item(instrument_id, step));
                    list.push(Item(instrument_id, step));
                }
                3 | 4 => {
                    let found = queue.find_mut(instrument_id).map(|it| it.1 = step);
                    assert_eq!(found.is_some(), in_list.is_some());
                    in_list.into_iter().for_each(|index| list[index].1 = step);
                }
                5 | 6 => {
                    assert_eq!(queue.pop(), (!list.is_empty()).then(|| list.remove(0)));
                    queue.begin_anew_if_empty();
                }
                _ => assert_eq!(queue.find(instrument_id), in_list.map(|index| &list[index])),
            }
            queue.check();
            assert_eq!(queue.front(), list.first());
            assert!(queue.iter().map(|(_, item)| item).eq(&list));
            let mut sums = [StateHash::default(); 2];
            queue.add_hashes(&mut sums[0]);
            for (item, place) in list.iter().zip(queue.first..) {
                sums[1].add(item.hash(place));
            }
            assert_eq!(sums[0], sums[1]);
        }
    }

    /// All items of a snapshot agree about the place of the first.
    #[test]
    fn a_snapshot_has_one_first_place() {
        let mut queue = InstrumentQueue::default();
        queue.restore_first(7).unwrap();
        queue.push(Item(InstrumentId(3), 0));
        assert_eq!(queue.restore_first(8), Err("place"));
        assert_eq!(InstrumentQueue::<Item>::default().restore_first(u64::MAX), Err("place"));
    }
}
