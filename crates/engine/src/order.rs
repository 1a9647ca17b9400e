//! An order as the engine stores it. Invariant: leaves + executed + prevented <= quantity.

mod kinds;

use core::fmt;

use market::{
    Capacity, Conditions, CustomerType, Display, EnterOrder, Firm, InstrumentId, Lots, OrderId,
    OrderKey, Price, Quantity, RestateReason, Restated, SelfMatchGroup, SelfMatchPrevention, Shown,
    Side, TimeInForce,
};

use crate::{
    book::pool::{Line, PoolOrder},
    state::hash,
};

/// The largest quantity of an order where the instrument has no terms, and the most that a chain of
/// replaces may execute there, in lots. OUCH 5.0, section 1.
pub const QUANTITY_MAX: Quantity = Quantity(999_999);

/// The largest quantity that any instrument's terms may allow, in lots: 2⁴⁸ − 1. So [`Lots`], and the words of
/// the book's orders, store the lots of an order in 48 bits.
pub const QUANTITY_LIMIT: Quantity = Lots::MAX.quantity();

/// The highest limit price, in ticks: 199,999.9900. OUCH 5.0, section 1.
pub const PRICE_MAX: Price = Price(1_999_999_900);

/// The fields of an order that the book needs while it trades or rests: 56 of the 64 bytes of a slot.
///
/// Fields that are only echoed to the participant (client order id, locate) are in `Accepted` and
/// are not stored. A resting order has a limit, or waits for an auction.
///
/// Every bit is in use. The price takes 32 bits, which [`PRICE_MAX`] fits, and each quantity 48, which
/// [`QUANTITY_LIMIT`] fits: the open, the executed and the total lots are the upper 48 bits of a word each, and the
/// lots lost to self-match prevention are in the lower 16 bits of the three. The prevented lots are 0 in nearly all
/// orders, and a trade need not handle them: it changes the upper bits only.
///
/// Invariant: leaves + executed + prevented <= quantity; the rest was canceled.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Order {
    /// Order id, and in the lowest byte the [`marks`].
    id_and_marks: u64,
    /// The owner's name.
    pub(crate) key: OrderKey,
    /// Open lots; bits 0 to 15 of the prevented ones.
    leaves: u64,
    /// Executed lots; bits 16 to 31 of the prevented ones.
    executed: u64,
    /// Quantity; bits 32 to 47 of the prevented lots.
    quantity: u64,
    price: u32,
    /// The firm as entered; blank is the session's own firm.
    pub(crate) firm: Firm,
    pub(crate) instrument_id: InstrumentId,
    /// Group for mass cancel; 0 is none.
    pub(crate) group_id: u16,
    /// Self-match group: only orders of the same group are its own.
    pub(crate) self_match_group: SelfMatchGroup,
    /// The kinds of the order: see [`kinds`].
    kinds: u16,
}

market::assert_layout! {
    Order, 56 {
        id_and_marks: 0, key: 8, leaves: 16, executed: 24, quantity: 32, price: 40, firm: 44, instrument_id: 48,
        group_id: 50, self_match_group: 52, kinds: 54,
    }
}

/// Bits of a word of lots that belong to the prevented lots.
const LOTS_SHIFT: u32 = 16;

/// The lowest byte beside an order id.
mod marks {
    /// It is a resting iceberg; [`Icebergs`](crate::trading::iceberg::Icebergs) has the shown part.
    pub(super) const ICEBERG: u64 = 1;
    /// It has a record of instructions, or is linked to an order that has one; see
    /// [`contingent`](mod@crate::contingent::instructions).
    pub(super) const CONTINGENT: u64 = 2;
    /// It waits to be canceled; see [`pending_cancels`](mod@crate::intake::pending_cancels).
    pub(super) const LEAVING: u64 = 4;
    /// Its time in force, three bits. An order outside the book may still wait for its trigger.
    pub(super) const TIME_IN_FORCE_SHIFT: u32 = 3;
    /// Bits below the order id.
    pub(super) const LEN: u32 = 8;
}

/// The auction of an auction-only order, which rests beside the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ForAuction {
    /// Not auction-only.
    #[default]
    No = 0,
    /// For the opening auction.
    Open = 1,
    /// For the closing auction.
    Close = 2,
    /// For the next auction.
    Next = 3,
    /// For the next auction, because it has no price.
    AsMarket = 4,
}

impl ForAuction {
    /// From the stored code.
    #[inline]
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::No,
            1 => Self::Open,
            2 => Self::Close,
            3 => Self::Next,
            4 => Self::AsMarket,
            _ => return None,
        })
    }

    /// The time in force of an order for that auction.
    pub(crate) fn time_in_force(self) -> Option<TimeInForce> {
        match self {
            Self::No => None,
            Self::Open => Some(TimeInForce::AtTheOpen),
            Self::Close => Some(TimeInForce::AtTheClose),
            Self::Next | Self::AsMarket => Some(TimeInForce::GoodForAuction),
        }
    }
}

impl PoolOrder for Order {
    type Start = Line;

    fn vacant() -> Self {
        Self {
            id_and_marks: 0,
            key: OrderKey::default(),
            leaves: 0,
            executed: 0,
            quantity: 0,
            price: 0,
            firm: Firm::BLANK,
            instrument_id: InstrumentId(0),
            group_id: 0,
            self_match_group: SelfMatchGroup::BLANK,
            kinds: 0,
        }
    }

    #[inline]
    fn is_open(&self) -> bool {
        !self.is_done()
    }
}

/// The fields of an [`Order`] that no invariant ties together.
pub(crate) struct OrderTerms {
    pub(crate) order_id: OrderId,
    pub(crate) key: OrderKey,
    pub(crate) price: Price,
    pub(crate) quantity: Quantity,
    pub(crate) executed: Quantity,
    pub(crate) prevented: Quantity,
    pub(crate) instrument_id: InstrumentId,
    pub(crate) group_id: u16,
    pub(crate) firm: Firm,
    pub(crate) side: Side,
    pub(crate) display: Display,
    pub(crate) capacity: Capacity,
    pub(crate) customer_type: CustomerType,
    pub(crate) conditions: Conditions,
    pub(crate) time_in_force: TimeInForce,
    pub(crate) is_contingent: bool,
}

impl OrderTerms {
    /// Its kinds in 16 bits.
    #[inline(always)]
    fn kinds(&self) -> u16 {
        use kinds::*;
        let post_only = u16::from(self.conditions.post_only);
        let prevention = self.conditions.self_match_prevention;
        place_of_side(self.side) << SIDE_SHIFT
            | place(&PLACE_OF_DISPLAY, self.display.code()) << DISPLAY_SHIFT
            | post_only << POST_ONLY_SHIFT
            | place_of_capacity(self.capacity) << CAPACITY_SHIFT
            | place_of_customer_type(self.customer_type) << CUSTOMER_TYPE_SHIFT
            | place(&PLACE_OF_PREVENTION, prevention.code()) << PREVENTION_SHIFT
    }
}

impl Order {
    /// An order whose originals executed `executed` lots, and lost `prevented` lots to self-match
    /// prevention.
    ///
    /// # Panics
    /// `executed + prevented < quantity` does not hold, or a number is out of range.
    #[inline(always)]
    pub(crate) fn new(terms: OrderTerms) -> Self {
        assert!(terms.price <= PRICE_MAX && terms.quantity <= QUANTITY_LIMIT, "checked before");
        let (quantity, executed, prevented) =
            (terms.quantity.0, terms.executed.0, terms.prevented.0);
        let gone = executed.checked_add(prevented).expect("both are of one order");
        assert!(gone < quantity, "an order has something to trade when it is made");
        let mut order = Self {
            id_and_marks: with_id(0, terms.order_id)
                | u64::from(kinds::place_of_time_in_force(terms.time_in_force))
                    << marks::TIME_IN_FORCE_SHIFT
                | if terms.is_contingent { marks::CONTINGENT } else { 0 },
            key: terms.key,
            leaves: (quantity - gone) << LOTS_SHIFT,
            executed: executed << LOTS_SHIFT,
            quantity: quantity << LOTS_SHIFT,
            price: terms.price.0 as u32,
            firm: terms.firm,
            instrument_id: terms.instrument_id,
            group_id: terms.group_id,
            self_match_group: terms.conditions.self_match_group,
            kinds: terms.kinds(),
        };
        if prevented != 0 {
            order.set_prevented(prevented);
        }
        order
    }

    /// A new order as entered, without instructions.
    #[inline(always)]
    pub(crate) fn entered(
        asked: &EnterOrder,
        order_id: OrderId,
        instrument_id: InstrumentId,
        display: Display,
    ) -> Self {
        Self::new(OrderTerms {
            order_id,
            key: asked.key,
            price: asked.price,
            quantity: asked.quantity,
            executed: Quantity::ZERO,
            prevented: Quantity::ZERO,
            instrument_id,
            group_id: asked.attributes.group_id,
            firm: asked.attributes.firm,
            side: asked.side,
            display,
            capacity: asked.attributes.capacity,
            customer_type: asked.attributes.customer_type,
            conditions: asked.conditions,
            time_in_force: asked.time_in_force,
            is_contingent: false,
        })
    }

    /// The restatement of an order, hidden or outside the book, with its present id and price.
    pub(crate) fn restated_unseen(
        &self,
        order_id_before: OrderId,
        reason: RestateReason,
    ) -> Restated {
        Restated {
            key: self.key,
            order_id_before,
            order_id: self.order_id(),
            instrument_id: self.instrument_id,
            side: self.side(),
            reason,
            price: self.price(),
            leaves: self.leaves(),
            shown: Quantity::ZERO,
            display: self.display(),
            attribution: Firm::BLANK,
        }
    }

    /// The venue's name. Within a level a lower id is an older order: the id is given by the
    /// command that books the order, and a replacement gets a new one.
    #[inline]
    pub(crate) fn order_id(&self) -> OrderId {
        OrderId(self.id_and_marks >> marks::LEN)
    }

    #[inline]
    pub(crate) fn set_order_id(&mut self, order_id: OrderId) {
        self.id_and_marks = with_id(self.id_and_marks, order_id);
    }

    /// True if it is a resting iceberg.
    #[inline]
    pub(crate) fn is_iceberg(&self) -> bool {
        self.id_and_marks & marks::ICEBERG != 0
    }

    #[inline]
    pub(crate) fn set_iceberg(&mut self, is_iceberg: bool) {
        self.mark(marks::ICEBERG, is_iceberg);
    }

    /// True if it has a record of instructions, or is linked to an order that has one.
    #[inline]
    pub(crate) fn is_contingent(&self) -> bool {
        self.id_and_marks & marks::CONTINGENT != 0
    }

    #[inline]
    pub(crate) fn set_contingent(&mut self, is_contingent: bool) {
        self.mark(marks::CONTINGENT, is_contingent);
    }

    /// True if it waits to be canceled.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.id_and_marks & marks::LEAVING != 0
    }

    pub(crate) fn set_leaving(&mut self) {
        self.mark(marks::LEAVING, true);
    }

    #[inline]
    fn mark(&mut self, mark: u64, is_set: bool) {
        let others = self.id_and_marks & !mark;
        self.id_and_marks = if is_set { others | mark } else { others };
    }

    /// Time in force; an order outside the book may still wait for its trigger.
    #[inline]
    pub(crate) fn time_in_force(&self) -> TimeInForce {
        kinds::TIMES_IN_FORCE[(self.id_and_marks >> marks::TIME_IN_FORCE_SHIFT & 7) as usize]
    }

    /// The side. A modify may change the kind of sell.
    #[inline]
    pub(crate) fn side(&self) -> Side {
        kinds::SIDES[usize::from(self.kinds >> kinds::SIDE_SHIFT & 3)]
    }

    /// Changes the kind of sell.
    pub(crate) fn set_side(&mut self, side: Side) {
        let place = kinds::place_of_side(side);
        self.kinds = self.kinds & !(3 << kinds::SIDE_SHIFT) | place << kinds::SIDE_SHIFT;
    }

    #[inline]
    pub(crate) fn display(&self) -> Display {
        kinds::DISPLAYS[usize::from(self.kinds >> kinds::DISPLAY_SHIFT & 3)]
    }

    /// The capacity in which the firm acts.
    #[inline]
    pub(crate) fn capacity(&self) -> Capacity {
        kinds::CAPACITIES[usize::from(self.kinds >> kinds::CAPACITY_SHIFT & 3)]
    }

    /// Customer type: retail or not.
    #[inline]
    pub(crate) fn customer_type(&self) -> CustomerType {
        kinds::CUSTOMER_TYPES[usize::from(self.kinds >> kinds::CUSTOMER_TYPE_SHIFT & 3)]
    }

    /// Self-match prevention as entered.
    #[inline]
    pub(crate) fn self_match_prevention(&self) -> SelfMatchPrevention {
        kinds::PREVENTIONS[usize::from(self.kinds >> kinds::PREVENTION_SHIFT)]
    }

    #[inline]
    pub(crate) fn post_only(&self) -> bool {
        self.kinds & 1 << kinds::POST_ONLY_SHIFT != 0
    }

    /// Its auction, if it is auction-only.
    #[inline]
    pub(crate) fn for_auction(&self) -> ForAuction {
        let code = self.kinds >> kinds::AUCTION_SHIFT & 7;
        ForAuction::from_code(code as u8).expect("only these are set")
    }

    /// True if it is auction-only.
    #[inline]
    pub(crate) fn is_for_auction(&self) -> bool {
        self.kinds & 7 << kinds::AUCTION_SHIFT != 0
    }

    /// Makes it an order for this auction only, or for none.
    pub(crate) fn set_for_auction(&mut self, waits: ForAuction) {
        let others = self.kinds & !(7 << kinds::AUCTION_SHIFT);
        self.kinds = others | u16::from(waits as u8) << kinds::AUCTION_SHIFT;
    }

    /// Limit, in ticks; [`Price::ZERO`] for a market order, which never rests.
    #[inline]
    pub(crate) fn price(&self) -> Price {
        Price(u64::from(self.price))
    }

    /// Sets the limit at which it rests; a market-to-limit order is entered without one.
    #[inline]
    pub(crate) fn set_price(&mut self, price: Price) {
        assert!(price <= PRICE_MAX, "a price at which orders rest");
        self.price = price.0 as u32;
    }

    /// Quantity in lots, with the lots that its originals executed and lost to self-match prevention.
    #[inline]
    pub(crate) fn quantity(&self) -> Quantity {
        Quantity(self.quantity >> LOTS_SHIFT)
    }

    /// Open lots; 0 once done.
    #[inline]
    pub(crate) fn leaves(&self) -> Quantity {
        Quantity(self.leaves >> LOTS_SHIFT)
    }

    /// Lots traded, by this order and its originals.
    #[inline]
    pub(crate) fn executed(&self) -> Quantity {
        Quantity(self.executed >> LOTS_SHIFT)
    }

    /// Lots removed by cancels and modifies.
    #[inline]
    pub(crate) fn canceled(&self) -> Quantity {
        let others = self.leaves().0 + self.executed().0 + self.prevented().0;
        Quantity(self.quantity().0 - others)
    }

    /// Lots removed by self-match prevention, from this order and its originals.
    #[inline]
    pub(crate) fn prevented(&self) -> Quantity {
        let [low, middle, high] =
            [self.leaves, self.executed, self.quantity].map(|word| u64::from(word as u16));
        Quantity(low | middle << 16 | high << 32)
    }

    /// Sets the prevented lots.
    fn set_prevented(&mut self, prevented: u64) {
        assert!(prevented <= QUANTITY_LIMIT.0, "{prevented} of {self:?}");
        let words = [&mut self.leaves, &mut self.executed, &mut self.quantity];
        for (index, word) in words.into_iter().enumerate() {
            let part = (prevented >> (16 * index)) as u16;
            *word = *word >> LOTS_SHIFT << LOTS_SHIFT | u64::from(part);
        }
    }

    /// Its conditions as entered or kept; without a minimum, which a resting order never has.
    #[inline]
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            self_match_prevention: self.self_match_prevention(),
            self_match_group: self.self_match_group,
            post_only: self.post_only(),
            minimum_quantity: Lots::ZERO,
        }
    }

    /// True if no lots are open.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.leaves >> LOTS_SHIFT == 0
    }

    /// The open lots beyond an intended quantity: executed lots count against it, and it never
    /// restores lots. OUCH 5.0, section 3.
    #[inline]
    pub(crate) fn excess(&self, intended: Quantity) -> Quantity {
        let room = intended.saturating_sub(self.executed());
        self.leaves().saturating_sub(room)
    }

    /// Lots that the feed shows while it rests, unless it is an iceberg.
    #[inline]
    pub(crate) fn shown_whole(&self) -> Quantity {
        if self.is_displayed() { self.leaves() } else { Quantity::ZERO }
    }

    /// Lots that the feed showed of it in the book while it had these open lots, unless it is an iceberg.
    #[inline(always)]
    pub(crate) fn shown_before(&self, leaves: Quantity) -> Quantity {
        if self.is_visible() { leaves } else { Quantity::ZERO }
    }

    /// True if it is displayed where it rests in the book.
    #[inline(always)]
    fn is_visible(&self) -> bool {
        // The place of hidden orders is 0.
        self.kinds & 3 << kinds::DISPLAY_SHIFT != 0
    }

    /// The lots that the feed shows now, and showed with this many open lots, unless it is an iceberg.
    pub(crate) fn shown_since(&self, leaves_before: Quantity) -> Shown {
        match self.is_displayed() {
            true => self.display().shown(leaves_before, self.leaves()),
            false => Shown::NONE,
        }
    }

    /// True if the feed shows it while it rests.
    #[inline]
    pub(crate) fn is_displayed(&self) -> bool {
        self.is_visible() && !self.is_for_auction()
    }

    /// Executes some open lots.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn execute(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= quantity.0 << LOTS_SHIFT;
        self.executed += quantity.0 << LOTS_SHIFT;
    }

    /// Cancels some open lots; `quantity` may be 0.
    ///
    /// # Panics
    /// `quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn reduce(&mut self, quantity: Quantity) {
        assert!(quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= quantity.0 << LOTS_SHIFT;
    }

    /// Removes some open lots instead of trading them.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn prevent(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= quantity.0 << LOTS_SHIFT;
        self.set_prevented(self.prevented().0 + quantity.0);
    }

    /// Checks the invariant.
    #[inline]
    pub(crate) fn check(&self) {
        let [leaves, executed, prevented] =
            [self.leaves(), self.executed(), self.prevented()].map(|it| it.0);
        assert!(leaves + executed + prevented <= self.quantity().0, "{self:?}");
    }
}

/// A word with this order id and the marks of `word`.
#[inline(always)]
fn with_id(word: u64, order_id: OrderId) -> u64 {
    assert!(order_id.0 >> (u64::BITS - marks::LEN) == 0, "order ids are counted in 56 bits");
    order_id.0 << marks::LEN | word & ((1 << marks::LEN) - 1)
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("order_id", &self.order_id())
            .field("key", &self.key)
            .field("instrument_id", &self.instrument_id)
            .field("side", &self.side())
            .field("price", &self.price)
            .field("quantity", &self.quantity())
            .field("leaves", &self.leaves())
            .field("executed", &self.executed())
            .field("prevented", &self.prevented())
            .field("time_in_force", &self.time_in_force())
            .field("display", &self.display())
            .field("for_auction", &self.for_auction())
            .field("is_iceberg", &self.is_iceberg())
            .field("is_contingent", &self.is_contingent())
            .field("is_leaving", &self.is_leaving())
            .finish_non_exhaustive()
    }
}

impl Order {
    /// Its element of the state hash: all its fields and marks that a snapshot has. The canceled lots
    /// follow from the others.
    pub(crate) fn hash(&self) -> u64 {
        let key = &self.key;
        let time_in_force = self.id_and_marks >> marks::TIME_IN_FORCE_SHIFT & 7;
        let name = u64::from(key.user_ref_num)
            | u64::from(key.session_id.0) << 32
            | u64::from(key.channel) << 48
            | time_in_force << 56;
        let kinds = u64::from(self.instrument_id.0)
            | u64::from(self.group_id) << 16
            | u64::from(u16::from_le_bytes(*self.self_match_group.as_bytes())) << 32
            | u64::from(self.kinds) << 48;
        let owner =
            u64::from(self.price) | u64::from(u32::from_le_bytes(*self.firm.as_bytes())) << 32;
        // The words of the lots have the prevented ones, too.
        let Self { leaves, executed, quantity, .. } = *self;
        let id = self.order_id().0;
        hash::mix([hash::ORDER, id, name, kinds, owner, leaves, executed, quantity])
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec};

    use market::SessionId;

    use super::*;

    fn terms() -> OrderTerms {
        OrderTerms {
            order_id: OrderId(1),
            key: OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 1 },
            price: Price(1),
            quantity: Quantity(1_000),
            executed: Quantity::ZERO,
            prevented: Quantity::ZERO,
            instrument_id: InstrumentId(1),
            group_id: 0,
            firm: Firm::BLANK,
            side: Side::Buy,
            display: Display::Visible,
            capacity: Capacity::Other,
            customer_type: CustomerType::SessionDefault,
            conditions: Conditions::NONE,
            time_in_force: TimeInForce::Day,
            is_contingent: false,
        }
    }

    /// Every value of every kind is kept, beside all others.
    #[test]
    fn kinds_are_kept_in_16_bits() {
        for side in Side::ALL.iter().copied() {
            for display in Display::ALL.iter().copied() {
                for time_in_force in TimeInForce::ALL.iter().copied() {
                    let order = OrderTerms { side, display, time_in_force, ..terms() };
                    let mut order = Order::new(order);
                    assert_eq!((order.side(), order.display()), (side, display));
                    assert_eq!(order.time_in_force(), time_in_force);
                    for waits in [ForAuction::Open, ForAuction::AsMarket, ForAuction::No] {
                        order.set_for_auction(waits);
                        order.set_leaving();
                        order.set_iceberg(waits == ForAuction::No);
                        order.set_contingent(waits == ForAuction::Open);
                        assert_eq!(order.for_auction(), waits);
                        assert_eq!(order.is_for_auction(), waits != ForAuction::No);
                        assert_eq!(order.is_iceberg(), waits == ForAuction::No);
                        assert_eq!(order.is_contingent(), waits == ForAuction::Open);
                        assert!(order.is_leaving() && !order.post_only());
                    }
                    order.set_order_id(OrderId((1 << 56) - 1));
                    assert_eq!(order.order_id(), OrderId((1 << 56) - 1));
                    assert_eq!((order.side(), order.display()), (side, display));
                    assert_eq!(order.time_in_force(), time_in_force);
                    if !side.is_buy() {
                        order.set_side(Side::SellShort);
                        assert_eq!((order.side(), order.display()), (Side::SellShort, display));
                    }
                }
            }
        }
        for self_match_prevention in SelfMatchPrevention::ALL.iter().copied() {
            for capacity in Capacity::ALL.iter().copied() {
                for customer_type in CustomerType::ALL.iter().copied() {
                    let conditions =
                        Conditions { self_match_prevention, post_only: true, ..Conditions::NONE };
                    let order = OrderTerms { conditions, capacity, customer_type, ..terms() };
                    let order = Order::new(order);
                    assert_eq!(order.conditions(), conditions);
                    assert_eq!(order.capacity(), capacity);
                    assert_eq!(order.customer_type(), customer_type);
                }
            }
        }
    }

    /// Lots of 48 bits are kept beside prevented lots of 48 bits, whatever an order does.
    #[test]
    fn lots_at_the_limit_are_kept() {
        let half = QUANTITY_LIMIT.0 / 2;
        let mut order = Order::new(OrderTerms { quantity: QUANTITY_LIMIT, ..terms() });
        assert_eq!((order.leaves(), order.quantity()), (QUANTITY_LIMIT, QUANTITY_LIMIT));
        order.prevent(Quantity(half));
        order.check();
        order.execute(Quantity(half));
        order.check();
        let numbers = |order: &Order| {
            [order.leaves(), order.executed(), order.prevented(), order.canceled()].map(|it| it.0)
        };
        assert_eq!(numbers(&order), [1, half, half, 0]);
        order.reduce(Quantity(1));
        assert!(order.is_done());
        assert_eq!(numbers(&order), [0, half, half, 1]);
        let mut order = Order::new(OrderTerms { quantity: QUANTITY_LIMIT, ..terms() });
        order.prevent(QUANTITY_LIMIT);
        assert_eq!(numbers(&order), [0, 0, QUANTITY_LIMIT.0, 0]);
        let (executed, prevented) = (Quantity(half), Quantity(half));
        let quantity = QUANTITY_LIMIT;
        let order = Order::new(OrderTerms { quantity, executed, prevented, ..terms() });
        assert_eq!(numbers(&order), [1, half, half, 0]);
    }

    /// Orders that differ slightly in one field have different hashes; so do orders at different progress.
    #[test]
    fn orders_that_differ_have_different_hashes() {
        let mut orders = vec![Order::new(terms())];
        for step in 2..=255_u16 {
            let wide = u64::from(step);
            let key = terms().key;
            for changed in [
                OrderTerms { order_id: OrderId(wide), ..terms() },
                OrderTerms { price: Price(wide), ..terms() },
                OrderTerms { quantity: Quantity(1_000 + wide), ..terms() },
                OrderTerms { executed: Quantity(wide), ..terms() },
                OrderTerms { prevented: Quantity(wide), ..terms() },
                OrderTerms { instrument_id: InstrumentId(step), ..terms() },
                OrderTerms { group_id: step, ..terms() },
                OrderTerms { key: OrderKey { session_id: SessionId(step), ..key }, ..terms() },
                OrderTerms { key: OrderKey { user_ref_num: wide as u32, ..key }, ..terms() },
                OrderTerms { key: OrderKey { channel: step as u8, ..key }, ..terms() },
            ] {
                orders.push(Order::new(changed));
            }
            let mut reduced = Order::new(terms());
            reduced.reduce(Quantity(wide));
            orders.push(reduced);
        }
        for side in [Side::Sell, Side::SellShort, Side::SellShortExempt] {
            orders.push(Order::new(OrderTerms { side, ..terms() }));
        }
        for firm in [*b"A   ", *b" A  ", *b"   A"].map(|it| Firm::from_bytes(it).unwrap()) {
            orders.push(Order::new(OrderTerms { firm, ..terms() }));
        }
        for self_match_prevention in [SelfMatchPrevention::Off, SelfMatchPrevention::CancelBoth] {
            let conditions = Conditions { self_match_prevention, ..Conditions::NONE };
            orders.push(Order::new(OrderTerms { conditions, ..terms() }));
        }
        for group in ["A", "B"].map(|it| SelfMatchGroup::new(it).unwrap()) {
            let conditions = Conditions { self_match_group: group, ..Conditions::NONE };
            orders.push(Order::new(OrderTerms { conditions, ..terms() }));
        }
        let conditions = Conditions { post_only: true, ..Conditions::NONE };
        orders.push(Order::new(OrderTerms { conditions, ..terms() }));
        let time_in_force = TimeInForce::GoodTillCancel;
        orders.push(Order::new(OrderTerms { time_in_force, ..terms() }));
        orders.push(Order::new(OrderTerms { display: Display::Attributable, ..terms() }));
        orders.push(Order::new(OrderTerms { capacity: Capacity::Agency, ..terms() }));
        orders.push(Order::new(OrderTerms { customer_type: CustomerType::Retail, ..terms() }));
        for step in 8..48 {
            let large = 1_u64 << step;
            let quantity = QUANTITY_LIMIT;
            let widest = || OrderTerms { quantity, ..terms() };
            for changed in [
                OrderTerms { quantity: Quantity(2_000 + large), ..terms() },
                OrderTerms { executed: Quantity(large), ..widest() },
                OrderTerms { prevented: Quantity(large), ..widest() },
            ] {
                orders.push(Order::new(changed));
            }
            let mut reduced = Order::new(widest());
            reduced.reduce(Quantity(large));
            orders.push(reduced);
        }
        let hashes: BTreeSet<u64> = orders.iter().map(Order::hash).collect();
        assert_eq!(hashes.len(), orders.len());
        // Sums of two hashes differ too: one order's gain does not cancel another's loss.
        let few = &orders[..300];
        let mut sums = BTreeSet::new();
        for (index, one) in few.iter().enumerate() {
            for other in &few[index + 1..] {
                assert!(sums.insert(one.hash().wrapping_add(other.hash())), "{one:?} {other:?}");
            }
        }
    }
}
