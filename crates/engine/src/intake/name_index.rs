//! Finds numbers by name: instruments by symbol, sessions by username.
//!
//! Invariant: a name has one number, and the table is the same on every machine.

use alloc::{vec, vec::Vec};

use market::Text;

use crate::state::hash;

/// Names of up to eight characters and their numbers, from 1.
///
/// An open-addressed table, at most half full, with a fixed hash.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    /// Names and numbers; number 0 marks a free place. The length is 0 or a power of two.
    places: Vec<(u64, u16)>,
    len: usize,
}

impl NameIndex {
    /// The number of a name.
    #[inline]
    pub(crate) fn find<const N: usize>(&self, name: &Text<N>) -> Option<u16> {
        if self.places.is_empty() {
            return None;
        }
        match self.places[self.place(hash::word(name))] {
            (_, 0) => None,
            (_, number) => Some(number),
        }
    }

    /// Adds a new name.
    pub(crate) fn add<const N: usize>(&mut self, name: &Text<N>, number: u16) {
        assert!(number != 0 && self.find(name).is_none(), "{name} is added once, from 1");
        if self.places.len() < 2 * (self.len + 1) {
            self.grow();
        }
        let word = hash::word(name);
        let place = self.place(word);
        self.places[place] = (word, number);
        self.len += 1;
    }

    /// Removes a name that is in the table; it may be added again.
    pub(crate) fn remove<const N: usize>(&mut self, name: &Text<N>) {
        assert!(self.find(name).is_some(), "{name} is there");
        let mask = self.places.len() - 1;
        let mut place = self.place(hash::word(name));
        self.places[place] = (0, 0);
        self.len -= 1;
        // Later entries may be displaced because of this one.
        place = (place + 1) & mask;
        while self.places[place].1 != 0 {
            let (word, number) = core::mem::take(&mut self.places[place]);
            let nearest = self.place(word);
            self.places[nearest] = (word, number);
            place = (place + 1) & mask;
        }
    }

    /// The place of the name, or the free place where it belongs.
    #[inline]
    fn place(&self, word: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = (hash::fold(word) as usize) & mask;
        while self.places[place].1 != 0 && self.places[place].0 != word {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let len = (2 * self.places.len()).max(16);
        let before = core::mem::replace(&mut self.places, vec![(0, 0); len]);
        for (word, number) in before.into_iter().filter(|(_, number)| *number != 0) {
            let place = self.place(word);
            self.places[place] = (word, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use market::Symbol;

    use super::*;

    /// Every name added and not removed is found with its own number, and no other is.
    #[test]
    fn finds_what_was_added_and_not_removed() {
        let mut names = NameIndex::default();
        let symbol = |number: u16| Symbol::new(&format!("S{number}")).unwrap();
        assert_eq!(names.find(&symbol(1)), None);
        for number in 1..=2_000 {
            names.add(&symbol(number), number);
        }
        for number in 1..=2_000 {
            assert_eq!(names.find(&symbol(number)), Some(number));
        }
        assert_eq!(names.find(&symbol(2_001)), None);
        for number in (1..=2_000).filter(|number| number % 3 != 0) {
            names.remove(&symbol(number));
        }
        for number in 1..=2_000 {
            let expected = (number % 3 == 0).then_some(number);
            assert_eq!(names.find(&symbol(number)), expected);
        }
        names.add(&symbol(1), 7);
        assert_eq!(names.find(&symbol(1)), Some(7));
        assert_eq!(names.find(&Symbol::BLANK), None);
    }
}
