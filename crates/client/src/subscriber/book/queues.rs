//! The orders of all books: found by their reference numbers, and one behind the other at each price.
//!
//! Invariant: an order is in exactly one queue, a queue in use has at least one order, and memory of removed orders is
//! used again.

use super::index::ReferenceIndex;

/// No order.
const NONE: u32 = u32::MAX;

/// An order in a book.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resting {
    pub(super) reference: u64,
    pub(super) price: u32,
    pub(super) shares: u32,
    pub(super) stock_locate: u16,
    pub(super) is_bid: bool,
    queue: u32,
    before: u32,
    behind: u32,
}

impl Resting {
    /// The rank of its price on its side: lower is better.
    pub(super) fn rank(&self) -> u32 {
        rank_of(self.is_bid, self.price)
    }
}

/// The rank of a price: the price itself for an ask, the highest price less the price for a bid.
pub(super) fn rank_of(is_bid: bool, price: u32) -> u32 {
    if is_bid { u32::MAX - price } else { price }
}

/// Orders at one price, the oldest first.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    slots: ReferenceIndex,
    orders: Vec<Resting>,
    orders_free: Vec<u32>,
    queues: Vec<Queue>,
    queues_free: Vec<u32>,
}

impl Queues {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn contains(&self, reference: u64) -> bool {
        self.slots.get(reference).is_some()
    }

    /// The slot of an order.
    pub(super) fn slot(&self, reference: u64) -> Option<u32> {
        self.slots.get(reference)
    }

    pub(super) fn at(&self, slot: u32) -> &Resting {
        &self.orders[slot as usize]
    }

    /// Sets the shares of an order that executes or cancels some of them, not all.
    pub(super) fn set_shares(&mut self, slot: u32, shares: u32) {
        self.orders[slot as usize].shares = shares;
    }

    /// A queue without orders, which gets its first one next.
    pub(super) fn new_queue(&mut self) -> u32 {
        let queue = Queue { first: NONE, last: NONE };
        match self.queues_free.pop() {
            Some(place) => {
                self.queues[place as usize] = queue;
                place
            }
            None => {
                self.queues.push(queue);
                u32::try_from(self.queues.len() - 1).expect("fewer queues than orders")
            }
        }
    }

    /// Adds an order to the end of a queue.
    pub(super) fn join(
        &mut self,
        queue: u32,
        reference: u64,
        (stock_locate, is_bid): (u16, bool),
        price: u32,
        shares: u32,
    ) {
        let before = self.queues[queue as usize].last;
        let behind = NONE;
        let order =
            Resting { reference, price, shares, stock_locate, is_bid, queue, before, behind };
        let slot = match self.orders_free.pop() {
            Some(slot) => {
                self.orders[slot as usize] = order;
                slot
            }
            None => {
                self.orders.push(order);
                u32::try_from(self.orders.len() - 1).expect("memory has no room for 2^32 orders")
            }
        };
        match before {
            NONE => self.queues[queue as usize].first = slot,
            before => self.orders[before as usize].behind = slot,
        }
        self.queues[queue as usize].last = slot;
        self.slots.insert(reference, slot);
    }

    /// Removes an order; true if its queue is then empty, and no longer exists.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let Resting { reference, queue, before, behind, .. } = self.orders[slot as usize];
        let place = queue as usize;
        match before {
            NONE => self.queues[place].first = behind,
            before => self.orders[before as usize].behind = behind,
        }
        match behind {
            NONE => self.queues[place].last = before,
            behind => self.orders[behind as usize].before = before,
        }
        self.slots.remove(reference);
        self.orders_free.push(slot);
        let is_last = before == NONE && behind == NONE;
        if is_last {
            self.queues_free.push(queue);
        }
        is_last
    }

    /// The orders of a queue, the oldest first.
    pub(super) fn orders(&self, queue: u32) -> impl Iterator<Item = &Resting> {
        let mut next = self.queues[queue as usize].first;
        std::iter::from_fn(move || {
            if next == NONE {
                return None;
            }
            let order = &self.orders[next as usize];
            next = order.behind;
            Some(order)
        })
    }
}
