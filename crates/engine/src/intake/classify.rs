//! New orders and replacements in one form, the [`Proposal`], and their [`OrderClass`].
//!
//! Invariant: the class is decided once, from the order's terms and the instrument's phase. Checks,
//! reservation and the path into the book use it.

use market::{
    Capacity, Conditions, CustomerType, Display, EnterOrder, Firm, Instructions, InstrumentId,
    Lots, OrderId, OrderKey, OrderType, Phase, Price, Quantity, ReplaceOrder, ReplaceTerms, Side,
    TimeInForce,
};

use crate::{
    Engine,
    auction::phases,
    book::pool::Slot,
    contingent::minimum_quantity::waits_for_quantity,
    intake::check,
    order::{ForAuction, Order, OrderTerms},
};

/// An order that is not accepted yet. A replacement already contains the terms that it keeps from its original.
pub(crate) struct Proposal {
    pub(crate) key: OrderKey,
    pub(crate) instrument_id: InstrumentId,
    pub(crate) side: Side,
    pub(crate) order_type: OrderType,
    pub(crate) time_in_force: TimeInForce,
    pub(crate) display: Display,
    /// Limit in ticks; [`Price::ZERO`] without one.
    pub(crate) price: Price,
    /// Quantity of the whole chain, in lots.
    pub(crate) quantity: Quantity,
    /// Lots executed by its originals.
    executed: Quantity,
    /// Lots that its originals lost to self-match prevention.
    prevented: Quantity,
    firm: Firm,
    group_id: u16,
    capacity: Capacity,
    customer_type: CustomerType,
    pub(crate) conditions: Conditions,
    pub(crate) instructions: Instructions,
    /// The order that it replaces.
    pub(crate) original: Option<Slot>,
}

/// The class of an order: which path it takes into the book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderClass {
    /// Has a price in the book; a pegged order counts as a limit order.
    pub(crate) type_in_book: OrderType,
    /// The auction that it is for, if it is for one only.
    pub(crate) auction: ForAuction,
    /// Waits outside the book until its minimum can trade.
    pub(crate) waits_for_quantity: bool,
    /// Must trade when it comes in, which is impossible while orders are collected.
    pub(crate) acts_at_once: bool,
    /// Has a record of instructions beside the order.
    pub(crate) is_contingent: bool,
}

/// The entry terms of an order that the [`Order`] itself does not store.
pub(crate) struct EntryTerms {
    pub(crate) order_type: OrderType,
    pub(crate) minimum_quantity: Lots,
    pub(crate) instructions: Instructions,
}

impl EntryTerms {
    /// Those of a limit order without instructions.
    pub(crate) const LIMIT: Self = Self {
        order_type: OrderType::Limit,
        minimum_quantity: Lots::ZERO,
        instructions: Instructions::NONE,
    };

    /// The worst price at which an order with these terms trades; `None` is any.
    pub(crate) fn limit_of(&self, order: &Order) -> Option<Price> {
        (self.order_type == OrderType::Limit).then(|| order.price())
    }

    /// The class of an order with these terms in this phase.
    pub(crate) fn class(&self, phase: Phase, time_in_force: TimeInForce) -> OrderClass {
        let Self { order_type, minimum_quantity, instructions } = self;
        let is_pegged = instructions.pricing.is_pegged();
        let type_in_book = if is_pegged { OrderType::Limit } else { *order_type };
        let has_minimum = !minimum_quantity.is_zero() || instructions.handling.is_all_or_none();
        let waits_for_quantity =
            waits_for_quantity(*order_type, time_in_force, *minimum_quantity, instructions);
        let is_immediate =
            matches!(time_in_force, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill);
        OrderClass {
            type_in_book,
            auction: phases::auction_of(phase, type_in_book, time_in_force),
            waits_for_quantity,
            acts_at_once: is_immediate
                || type_in_book == OrderType::MarketToLimit
                || has_minimum && !waits_for_quantity,
            is_contingent: waits_for_quantity || instructions.without_shown().is_some(),
        }
    }
}

impl Proposal {
    pub(crate) fn new_order(order: &EnterOrder, instrument_id: InstrumentId) -> Self {
        Self {
            key: order.key,
            instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            price: order.price,
            quantity: order.quantity,
            executed: Quantity::ZERO,
            prevented: Quantity::ZERO,
            firm: order.attributes.firm,
            group_id: order.attributes.group_id,
            capacity: order.attributes.capacity,
            customer_type: order.attributes.customer_type,
            conditions: order.conditions,
            instructions: order.instructions,
            original: None,
        }
    }

    /// A replacement of the order in a slot.
    fn replacement(
        key: OrderKey,
        slot: Slot,
        original: &Order,
        terms: &ReplaceTerms,
        instructions: Instructions,
    ) -> Self {
        // A minimum applies to the original only.
        let minimum_quantity = terms.conditions.minimum_quantity.unwrap_or_default();
        let kept = terms.conditions.apply(original.conditions());
        Self {
            key,
            instrument_id: original.instrument_id,
            side: terms.side.unwrap_or(original.side()),
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: terms.display,
            price: terms.price,
            quantity: terms.quantity,
            executed: original.executed(),
            prevented: original.prevented(),
            firm: original.firm,
            group_id: original.group_id,
            capacity: original.capacity(),
            customer_type: original.customer_type(),
            conditions: Conditions { minimum_quantity, ..kept },
            instructions,
            original: Some(slot),
        }
    }

    /// Its open lots if accepted; 0 if its originals used up the quantity.
    pub(crate) fn leaves(&self) -> Quantity {
        self.quantity.saturating_sub(Quantity(self.executed.0 + self.prevented.0))
    }

    /// Its entry terms.
    pub(crate) fn terms(&self) -> EntryTerms {
        EntryTerms {
            order_type: self.order_type,
            minimum_quantity: self.conditions.minimum_quantity,
            instructions: self.instructions,
        }
    }

    /// The order, with this order id.
    ///
    /// # Panics
    /// The proposal was not checked: a value is out of range, or no lots are open.
    pub(crate) fn order(&self, order_id: OrderId, class: &OrderClass) -> Order {
        let mut order = Order::new(OrderTerms {
            order_id,
            key: self.key,
            price: self.price,
            quantity: self.quantity,
            executed: self.executed,
            prevented: self.prevented,
            instrument_id: self.instrument_id,
            group_id: self.group_id,
            firm: self.firm,
            side: self.side,
            display: self.display,
            capacity: self.capacity,
            customer_type: self.customer_type,
            conditions: self.conditions,
            time_in_force: self.time_in_force,
            is_contingent: class.is_contingent,
        });
        order.set_for_auction(class.auction);
        order
    }
}

impl Engine {
    /// The class of an order that comes in now.
    pub(crate) fn class_of(&self, asked: &Proposal) -> OrderClass {
        let trading = &self.books[asked.instrument_id].trading;
        let mut class = asked.terms().class(trading.phase, asked.time_in_force);
        class.is_contingent |= trading.holds_new_orders();
        class
    }

    /// The requested replacement and its class; `None` if the original must not be replaced on
    /// these terms, or there are none.
    pub(crate) fn propose_replacement(
        &self,
        slot: Slot,
        replace: &ReplaceOrder,
    ) -> Option<(Proposal, OrderClass)> {
        let original = &self.pool[slot].order;
        let terms = keep_auction(original, replace.terms?);
        let instructions = self.instructions_of_replacement(slot, &terms)?;
        let asked = Proposal::replacement(replace.key, slot, original, &terms, instructions);
        let class = self.class_of(&asked);
        let is_allowed = check::side_change(original.side(), asked.side)
            && self.check_terms(&asked, &class).is_ok();
        is_allowed.then_some((asked, class))
    }
}

/// An auction-only order stays one, unless the replace names a time in force other than day.
fn keep_auction(original: &Order, terms: ReplaceTerms) -> ReplaceTerms {
    let time_in_force = match (terms.time_in_force, original.for_auction()) {
        (TimeInForce::Day, ForAuction::Open) => TimeInForce::AtTheOpen,
        (TimeInForce::Day, ForAuction::Close) => TimeInForce::AtTheClose,
        (TimeInForce::Day, ForAuction::Next) => TimeInForce::GoodForAuction,
        (named, _) => named,
    };
    ReplaceTerms { time_in_force, ..terms }
}
