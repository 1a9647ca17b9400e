//! Icebergs: orders that show a part of their quantity; the rest is their reserve.
//!
//! The shown part is stored here by slot, so that other orders need no room for it. An iceberg
//! offers its shown part; once that is filled the next part is shown, under a new order id and
//! behind all others at its price.
//!
//! Invariant: the shown part is from 1 to the open lots, except just before a refresh.

use market::{Instructions, Lots, OrderId, Price, Quantity, Shown};

use crate::{
    book::{paged_map::PagedMap, pool::Slot, sharing::Shares},
    order::Order,
    state::hash,
};

/// The shown part of an iceberg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Iceberg {
    /// Lots shown now; from 1 to the open lots.
    pub(crate) shown: Lots,
    /// Shown quantity, as instructed.
    pub(crate) shown_quantity: Lots,
    /// Its range, as instructed.
    pub(crate) shown_range: u32,
}

impl Iceberg {
    /// The state hash element of the shown part of the order with this id.
    pub(crate) fn hash(&self, order_id: OrderId) -> u64 {
        let Iceberg { shown, shown_quantity, shown_range } = *self;
        let (shown, quantity) = (shown.get(), shown_quantity.get());
        hash::mix([hash::ICEBERG, order_id.0, shown, quantity, u64::from(shown_range)])
    }

    /// The instructions of the order.
    pub(crate) fn instructions(&self) -> Instructions {
        let Self { shown_quantity, shown_range, .. } = *self;
        Instructions { shown_quantity, shown_range, ..Instructions::NONE }
    }
}

/// The icebergs of all books.
#[derive(Debug, Default)]
pub(crate) struct Icebergs {
    by_slot: PagedMap<Iceberg, 64>,
    /// The rounds of the incoming order.
    pub(crate) rounds: Rounds,
}

/// The most rounds in which an iceberg shows all of its lots. Rule 35.2.
const ROUNDS_MAX: usize = 100;

/// The progress of an incoming order that takes the reserves of a price's icebergs (rule 35.9), or lots of a
/// price that is shared out (section 38), over one or more steps.
///
/// All icebergs of the price have shown their next part by then, so a tally of these parts gives the lots of
/// a number of rounds: no iceberg is visited for it.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    /// The incoming order; orders with higher ids have shown their next part since it came in.
    taker: OrderId,
    /// The last price at which it took rounds; [`Price::ZERO`] is none.
    pub(crate) price: Price,
    /// The number of rounds that it takes there.
    pub(crate) count: u64,
    /// The lots that are still to be shared out at the best price, pro rata; no rounds are open then.
    pub(crate) shares: Option<Shares>,
    /// The order whose turn it is; [`Slot::NONE`] if all orders had their turn.
    pub(crate) next: Slot,
    /// The price whose icebergs are in the tally.
    tally_price: Price,
    /// By round: by how much more lots it takes than the one before, less than the one before that.
    tally: [u128; ROUNDS_MAX + 3],
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new(OrderId(0))
    }
}

impl Rounds {
    /// The rounds of an incoming order.
    pub(crate) fn new(taker: OrderId) -> Self {
        Self {
            taker,
            price: Price::ZERO,
            count: 0,
            shares: None,
            next: Slot::NONE,
            tally_price: Price::ZERO,
            tally: [0; ROUNDS_MAX + 3],
        }
    }

    /// True if it took some of its rounds at a price, and others are left.
    pub(crate) fn are_open(&self) -> bool {
        self.shares.is_none() && !self.next.is_none()
    }

    /// True if this order, the first at its price, and so all there, were refreshed since the incoming
    /// order came in; or if rounds are open.
    pub(crate) fn are_due(&self, maker: &Order) -> bool {
        self.taker < maker.order_id() && self.price != maker.price() || self.are_open()
    }

    /// Adds an iceberg at this price that shows its next part, with `reserve` lots behind it, to the tally.
    pub(crate) fn count_in(&mut self, price: Price, reserve: Quantity, part: Quantity) {
        if self.tally_price != price {
            self.tally_price = price;
            self.tally.fill(0);
        }
        let whole = (reserve.0 / part.0).min(ROUNDS_MAX as u64) as usize;
        let (part, last) = (u128::from(part.0), u128::from(reserve.0 % part.0));
        let mut change = |round: usize, by: u128| {
            self.tally[round] = self.tally[round].wrapping_add(by);
        };
        change(1, part);
        change(whole + 1, last.wrapping_sub(part));
        change(whole + 2, 0_u128.wrapping_sub(last));
    }

    /// Begins the rounds at a price: as many as these lots suffice for.
    pub(crate) fn begin(&mut self, price: Price, leaves: Quantity, oldest: Slot) {
        assert!(self.tally_price == price, "its icebergs have shown their next part");
        // The icebergs of a price may have more lots than 64 bits say.
        let (mut each, mut lots) = (0_u128, 0);
        let takes = self.tally[1..=ROUNDS_MAX].iter().map(|change| {
            each = each.wrapping_add(*change);
            lots += each;
            lots
        });
        self.count = takes.take_while(|lots| *lots <= u128::from(leaves.0)).count() as u64;
        self.price = price;
        self.next = if self.count == 0 { Slot::NONE } else { oldest };
    }

    /// The iceberg whose turn it is, and the number of its rounds.
    pub(crate) fn next(&self) -> Option<(Slot, u64)> {
        self.are_open().then_some((self.next, self.count))
    }

    /// Gives this iceberg the next turn.
    pub(crate) fn go_on(&mut self, next: Slot) {
        self.next = next;
    }
}

impl Icebergs {
    /// Lots shown of an order.
    ///
    /// # Panics
    /// It is not an iceberg.
    pub(crate) fn get(&self, slot: Slot) -> Iceberg {
        self.by_slot.get(slot.to_bits()).expect("a reserve order has its part here")
    }

    pub(crate) fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// The rounds of this incoming order.
    pub(crate) fn rounds_of(&mut self, taker: OrderId) -> &mut Rounds {
        if self.rounds.taker != taker {
            self.rounds = Rounds::new(taker);
        }
        &mut self.rounds
    }

    /// Adds an iceberg as instructed; returns the lots shown.
    pub(crate) fn add(
        &mut self,
        slot: Slot,
        order: &Order,
        instructions: &Instructions,
    ) -> Quantity {
        let shown = instructions.shown_quantity.min(leaves(order));
        let Instructions { shown_quantity, shown_range, .. } = *instructions;
        self.insert(slot, Iceberg { shown, shown_quantity, shown_range });
        shown.quantity()
    }

    /// Adds an iceberg with this many lots shown.
    pub(crate) fn insert(&mut self, slot: Slot, reserve: Iceberg) {
        self.by_slot.insert(slot.to_bits(), reserve);
    }

    /// Removes an order that no longer rests.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.by_slot.remove(slot.to_bits());
    }

    /// Takes lots from an order, first from its reserve.
    pub(crate) fn reduce(&mut self, slot: Slot, order: &Order) -> Shown {
        let before = self.get(slot).shown;
        let after = before.min(leaves(order));
        self.get_mut(slot).shown = after;
        Shown { before: before.quantity(), after: after.quantity() }
    }

    /// Takes traded lots from the shown part.
    pub(crate) fn execute(&mut self, slot: Slot, quantity: Quantity) -> Shown {
        let before = self.get(slot).shown;
        let after = before.quantity().checked_sub(quantity).expect("no more than is shown trades");
        self.get_mut(slot).shown = after.lots();
        Shown { before: before.quantity(), after }
    }

    /// Shows the next part of an order under its new order id; returns the lots shown.
    pub(crate) fn refresh(&mut self, slot: Slot, order: &Order) -> Quantity {
        let reserve = self.get_mut(slot);
        reserve.shown = reserve.instructions().next_shown(order.order_id(), leaves(order));
        reserve.shown.quantity()
    }

    fn get_mut(&mut self, slot: Slot) -> &mut Iceberg {
        self.by_slot.get_mut(slot.to_bits()).expect("a reserve order has its part here")
    }
}

/// The open lots of an order.
fn leaves(order: &Order) -> Lots {
    order.leaves().lots()
}
