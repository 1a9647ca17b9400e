//! A table with an entry for every instrument, indexed by instrument id.
//!
//! Invariant: ids are given out from 1 on without a gap, and no entry is ever removed.

use alloc::vec::Vec;
use core::{
    ops::{Index, IndexMut},
    slice,
};

use market::InstrumentId;

/// An entry for every instrument.
///
/// # Panics
/// An index is the id of no instrument.
#[derive(Debug)]
pub(crate) struct ByInstrument<T>(Vec<T>);

impl<T> ByInstrument<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the entry of the next instrument.
    pub(crate) fn push(&mut self, entry: T) {
        self.0.push(entry);
    }

    /// The id of the next instrument; `None` if all are used.
    pub(crate) fn next_id(&self) -> Option<InstrumentId> {
        u16::try_from(self.0.len() + 1).ok().map(InstrumentId)
    }

    /// The ids of all instruments.
    pub(crate) fn ids(&self) -> impl Iterator<Item = InstrumentId> + use<T> {
        (1..=self.0.len()).map(|number| InstrumentId(number as u16))
    }

    /// The entry of an instrument; `None` if there is no instrument with this id.
    pub(crate) fn get(&self, instrument_id: InstrumentId) -> Option<&T> {
        self.0.get(usize::from(instrument_id.0).checked_sub(1)?)
    }

    /// As [`get`](Self::get), to change it.
    pub(crate) fn get_mut(&mut self, instrument_id: InstrumentId) -> Option<&mut T> {
        self.0.get_mut(usize::from(instrument_id.0).checked_sub(1)?)
    }

    /// The entries, by instrument id.
    pub(crate) fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> Index<InstrumentId> for ByInstrument<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, instrument_id: InstrumentId) -> &T {
        &self.0[usize::from(instrument_id.0) - 1]
    }
}

impl<T> IndexMut<InstrumentId> for ByInstrument<T> {
    #[inline(always)]
    fn index_mut(&mut self, instrument_id: InstrumentId) -> &mut T {
        &mut self.0[usize::from(instrument_id.0) - 1]
    }
}

impl<'a, T> IntoIterator for &'a ByInstrument<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
