//! Which orders of a session a mass cancel selects, without a look at the others.
//!
//! An order is indexed by the first mass cancel after its entry that does not select it, so orders
//! of sessions without mass cancels pay nothing. A mass cancel costs the orders that it cancels and
//! those entered since the last one; once for each shape, the set of criteria that it names, all
//! live orders.
//!
//! Invariant: for each shape in use, the index has every live order up to the last indexed number.
//! Elements of orders that are done, or have another side by now, are left until they are found.
//! Memory follows the live orders, and once it is warm the index allocates nothing.

use alloc::vec::Vec;
use core::iter;

use market::{Firm, InstrumentId, OrderKey, Side};

use crate::{book::paged_map::PagedMap, order::Order, state::hash};

/// The orders that a mass cancel selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Never blank, unless the session's own firm is.
    pub(crate) firm: Firm,
    pub(crate) instrument_id: Option<InstrumentId>,
    pub(crate) side: Option<Side>,
    pub(crate) group_id: Option<u16>,
}

/// The number of shapes.
const SHAPES: u8 = 8;

impl Selection {
    /// Which criteria it names, beside the firm.
    fn shape(&self) -> u8 {
        u8::from(self.instrument_id.is_some())
            | u8::from(self.side.is_some()) << 1
            | u8::from(self.group_id.is_some()) << 2
    }

    /// The selection of this shape that an order of this firm is in.
    fn of(order: &Order, firm: Firm, shape: u8) -> Self {
        Self {
            firm,
            instrument_id: (shape & 1 != 0).then_some(order.instrument_id),
            side: (shape & 2 != 0).then_some(order.side),
            group_id: (shape & 4 != 0).then_some(order.group_id),
        }
    }

    /// True if an order of this firm is in it.
    pub(crate) fn selects(&self, order: &Order, firm: Firm) -> bool {
        *self == Self::of(order, firm, self.shape())
    }

    /// The list of its orders. Another selection may rarely have the same.
    fn list(&self) -> u32 {
        let criteria = u64::from(self.shape())
            | u64::from(self.instrument_id.map_or(0, |id| id.0)) << 8
            | u64::from(self.side.map_or(0, |side| side.code())) << 24
            | u64::from(self.group_id.unwrap_or(0)) << 32;
        hash::mix([criteria, hash::word(&self.firm)]) as u32
    }
}

/// No element.
const NONE: u32 = u32::MAX;

/// An order of a list.
#[derive(Clone, Copy, Debug)]
struct Element {
    user_ref_num: u32,
    channel: u8,
    /// The next element of its list, or the next free one.
    next: u32,
}

/// The index of a session.
#[derive(Debug)]
pub(crate) struct MassIndex {
    /// The first element of each list.
    lists: PagedMap<u32, 64>,
    elements: Vec<Element>,
    free: u32,
    /// Number of elements in lists.
    len: usize,
    /// The shapes in use, one bit each.
    shapes: u8,
    /// The last indexed number of each channel that has one, by channel.
    last: Vec<(u8, u32)>,
}

impl Default for MassIndex {
    fn default() -> Self {
        Self {
            lists: PagedMap::default(),
            elements: Vec::new(),
            free: NONE,
            len: 0,
            shapes: 0,
            last: Vec::new(),
        }
    }
}

impl MassIndex {
    /// The last indexed number of a channel; 0 if it has none.
    pub(crate) fn last(&self, channel: u8) -> u32 {
        let place = self.last.binary_search_by_key(&channel, |(it, _)| *it);
        place.map_or(0, |place| self.last[place].1)
    }

    /// All live orders of a channel up to this number are indexed now.
    pub(crate) fn set_last(&mut self, channel: u8, number: u32) {
        match self.last.binary_search_by_key(&channel, |(it, _)| *it) {
            Ok(place) => self.last[place].1 = number,
            Err(place) => self.last.insert(place, (channel, number)),
        }
    }

    /// True if it has the shape of a selection.
    pub(crate) fn has_shape(&self, selection: &Selection) -> bool {
        self.shapes & 1 << selection.shape() != 0
    }

    /// Adds the shape of a selection. The caller adds the live orders.
    pub(crate) fn add_shape(&mut self, selection: &Selection) {
        self.shapes |= 1 << selection.shape();
    }

    /// Forgets everything once most of its orders are done, so that memory follows the live orders.
    pub(crate) fn trim(&mut self, live_orders: usize) {
        if self.len <= 2 * self.shapes.count_ones() as usize * live_orders + 1_024 {
            return;
        }
        while let Some(list) = self.lists.first_key() {
            self.lists.remove(list);
        }
        self.elements.clear();
        self.last.clear();
        (self.free, self.len, self.shapes) = (NONE, 0, 0);
    }

    /// Adds an order under every shape in use.
    pub(crate) fn add(&mut self, order: &Order, firm: Firm) {
        let shapes = self.shapes;
        for shape in (0..SHAPES).filter(|shape| shapes & 1 << shape != 0) {
            self.add_to(&Selection::of(order, firm, shape), order.key);
        }
    }

    /// Number of elements.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if an order is under every shape in use. Costs O(its lists).
    pub(crate) fn has(&self, order: &Order, firm: Firm) -> bool {
        let OrderKey { channel, user_ref_num, .. } = order.key;
        (0..SHAPES).filter(|shape| self.shapes & 1 << shape != 0).all(|shape| {
            let first = self.lists.get(Selection::of(order, firm, shape).list());
            let element = |at: u32| self.elements.get(at as usize);
            let mut list = iter::successors(first.and_then(element), |it| element(it.next));
            list.any(|it| (it.channel, it.user_ref_num) == (channel, user_ref_num))
        })
    }

    /// Adds an order under the shape of one selection.
    pub(crate) fn add_shaped(&mut self, order: &Order, firm: Firm, selection: &Selection) {
        self.add_to(&Selection::of(order, firm, selection.shape()), order.key);
    }

    /// Adds an order under a selection.
    fn add_to(&mut self, selection: &Selection, key: OrderKey) {
        let list = selection.list();
        let first = self.lists.get_mut(list);
        let next = first.as_deref().copied().unwrap_or(NONE);
        let element = Element { user_ref_num: key.user_ref_num, channel: key.channel, next };
        let at = match self.elements.get_mut(self.free as usize) {
            Some(free) => {
                let next_free = free.next;
                *free = element;
                core::mem::replace(&mut self.free, next_free)
            }
            None => {
                self.elements.push(element);
                (self.elements.len() - 1) as u32
            }
        };
        match first {
            Some(first) => *first = at,
            None => self.lists.insert(list, at),
        }
        self.len += 1;
    }

    /// Removes and returns an order of the list of a selection. It may be done, be in another
    /// selection, or come twice.
    pub(crate) fn take(&mut self, selection: &Selection) -> Option<(u8, u32)> {
        let list = selection.list();
        let first = self.lists.get_mut(list)?;
        let at = *first;
        let Element { user_ref_num, channel, next } = self.elements[at as usize];
        match next {
            NONE => {
                self.lists.remove(list);
            }
            next => *first = next,
        }
        self.elements[at as usize].next = core::mem::replace(&mut self.free, at);
        self.len -= 1;
        Some((channel, user_ref_num))
    }
}
