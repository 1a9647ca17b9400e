//! An order as the engine stores it. Invariant: leaves + executed + prevented <= quantity.

use market::{
    Capacity, Conditions, CustomerType, Display, EnterOrder, Firm, InstrumentId, Lots, OrderId,
    OrderKey, Price, Quantity, RestateReason, Restated, SelfMatchGroup, SelfMatchPrevention, Shown,
    Side, TimeInForce,
};

use crate::{book::pool::PoolOrder, state::hash};

/// The largest quantity of an order where the instrument has no terms, and the most that a chain of
/// replaces may execute there, in lots. OUCH 5.0, section 1.
pub const QUANTITY_MAX: Quantity = Quantity(999_999);

/// The largest quantity that any instrument's terms may allow, in lots.
pub const QUANTITY_LIMIT: Quantity = Quantity((1 << 28) - 1);

/// The highest limit price, in ticks: 199,999.9900. OUCH 5.0, section 1.
pub const PRICE_MAX: Price = Price(1_999_999_900);

/// The fields of an order that the book needs while it trades or rests.
///
/// Fields that are only echoed to the participant (client order id, locate) are in `Accepted` and
/// are not stored. A resting order has a limit, or waits for an auction. Quantities and the price
/// take 32 bits, which [`QUANTITY_LIMIT`] and [`PRICE_MAX`] fit.
///
/// Invariant: leaves + executed + prevented <= quantity; the rest was canceled.
///
/// Fields that the state hash reads together are adjacent, so that they are loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Order {
    /// The venue's name. Within a level a lower id is an older order: the id is given by the
    /// command that books the order, and a replacement gets a new one.
    pub(crate) order_id: OrderId,
    /// The owner's name.
    pub(crate) key: OrderKey,
    price: u32,
    quantity: u32,
    leaves: u32,
    executed: u32,
    prevented: u32,
    /// The firm as entered; blank is the session's own firm.
    pub(crate) firm: Firm,
    pub(crate) instrument_id: InstrumentId,
    /// Group for mass cancel; 0 is none.
    pub(crate) group_id: u16,
    /// Self-match group: only orders of the same group are its own.
    pub(crate) self_match_group: SelfMatchGroup,
    pub(crate) display: Display,
    /// Capacity: for whom the firm acts.
    pub(crate) capacity: Capacity,
    /// Customer type: retail or not.
    pub(crate) customer_type: CustomerType,
    /// Self-match prevention as entered.
    pub(crate) self_match_prevention: SelfMatchPrevention,
    /// Post-only, time in force and auction, in the bits of the state hash: one bit, three and
    /// four.
    life: u8,
    /// The side. A modify may change the kind of sell.
    pub(crate) side: Side,
    /// True if it is a resting iceberg; [`Icebergs`](crate::trading::iceberg::Icebergs) has the
    /// shown part.
    pub(crate) is_iceberg: bool,
    /// Time in force; an order outside the book may still wait for its trigger.
    pub(crate) time_in_force: TimeInForce,
    /// True if it has a record of instructions, or is linked to an order that has one; see
    /// [`contingent`](mod@crate::contingent::instructions).
    pub(crate) is_contingent: bool,
    /// True if it waits to be canceled; see [`pending_cancels`](mod@crate::intake::pending_cancels).
    pub(crate) is_leaving: bool,
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

/// The kind of an order, in one word that is loaded at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind(pub(crate) u64);

impl Kind {
    /// True if it is auction-only.
    #[inline]
    pub(crate) fn is_for_auction(self) -> bool {
        self.0 >> 52 & 0xF != 0
    }
}

/// The fields of an [`Order`] that trading changes, in lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) leaves: u32,
    pub(crate) executed: u32,
    pub(crate) prevented: u32,
}

impl PoolOrder for Order {
    fn vacant() -> Self {
        Self {
            order_id: OrderId(0),
            key: OrderKey::default(),
            price: 0,
            quantity: 0,
            leaves: 0,
            executed: 0,
            prevented: 0,
            instrument_id: InstrumentId(0),
            group_id: 0,
            firm: Firm::BLANK,
            side: Side::Buy,
            display: Display::Visible,
            capacity: Capacity::Other,
            customer_type: CustomerType::SessionDefault,
            self_match_prevention: SelfMatchPrevention::SessionDefault,
            self_match_group: SelfMatchGroup::BLANK,
            life: life(false, TimeInForce::Day),
            is_iceberg: false,
            time_in_force: TimeInForce::Day,
            is_contingent: false,
            is_leaving: false,
        }
    }

    #[inline]
    fn leaves(&self) -> u32 {
        self.leaves
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

impl Order {
    /// An order whose originals executed `executed` lots, and lost `prevented` lots to self-match
    /// prevention.
    ///
    /// # Panics
    /// `executed + prevented < quantity` does not hold, or a number is out of range.
    #[inline(always)]
    pub(crate) fn new(terms: OrderTerms) -> Self {
        assert!(terms.price <= PRICE_MAX && terms.quantity <= QUANTITY_LIMIT, "checked before");
        let quantity = lots(terms.quantity);
        let executed = lots(terms.executed);
        let prevented = lots(terms.prevented);
        assert!(executed + prevented < quantity, "an order has something to trade when it is made");
        Self {
            order_id: terms.order_id,
            key: terms.key,
            price: terms.price.0 as u32,
            quantity,
            leaves: quantity - executed - prevented,
            executed,
            prevented,
            instrument_id: terms.instrument_id,
            group_id: terms.group_id,
            firm: terms.firm,
            side: terms.side,
            display: terms.display,
            capacity: terms.capacity,
            customer_type: terms.customer_type,
            self_match_prevention: terms.conditions.self_match_prevention,
            self_match_group: terms.conditions.self_match_group,
            life: life(terms.conditions.post_only, terms.time_in_force),
            is_iceberg: false,
            time_in_force: terms.time_in_force,
            is_contingent: terms.is_contingent,
            is_leaving: false,
        }
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
            order_id: self.order_id,
            instrument_id: self.instrument_id,
            side: self.side,
            reason,
            price: self.price(),
            leaves: self.leaves(),
            shown: Quantity::ZERO,
            display: self.display,
            attribution: Firm::BLANK,
        }
    }

    #[inline]
    pub(crate) fn post_only(&self) -> bool {
        self.life & 1 != 0
    }

    /// Its auction, if it is auction-only.
    #[inline]
    pub(crate) fn for_auction(&self) -> ForAuction {
        ForAuction::from_code(self.life >> 4).expect("only these are set")
    }

    /// Makes it an order for this auction only, or for none.
    pub(crate) fn set_for_auction(&mut self, waits: ForAuction) {
        self.life = self.life & 0xF | (waits as u8) << 4;
    }

    /// True for a live order that is an iceberg or has a contingent record.
    #[inline]
    pub(crate) fn has_more_state(&self) -> bool {
        self.is_iceberg | self.is_contingent
    }

    /// Its kind: all fields of the state hash but names and numbers.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        let [one, other] = *self.self_match_group.as_bytes();
        Kind(u64::from_le_bytes([
            one,
            other,
            self.display.code(),
            self.capacity.code(),
            self.customer_type.code(),
            self.self_match_prevention.code(),
            self.life,
            self.side.code(),
        ]))
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

    /// Quantity in lots, with what its originals executed and lost to self-match prevention.
    #[inline]
    pub(crate) fn quantity(&self) -> Quantity {
        Quantity(u64::from(self.quantity))
    }

    /// Open lots; 0 once done.
    #[inline]
    pub(crate) fn leaves(&self) -> Quantity {
        Quantity(u64::from(self.leaves))
    }

    /// Lots traded, by this order and its originals.
    #[inline]
    pub(crate) fn executed(&self) -> Quantity {
        Quantity(u64::from(self.executed))
    }

    /// Lots removed by cancels and modifies.
    #[inline]
    pub(crate) fn canceled(&self) -> Quantity {
        Quantity(u64::from(self.quantity - self.leaves - self.executed - self.prevented))
    }

    /// Lots removed by self-match prevention, from this order and its originals.
    #[inline]
    pub(crate) fn prevented(&self) -> Quantity {
        Quantity(u64::from(self.prevented))
    }

    #[inline]
    pub(crate) fn progress(&self) -> Progress {
        let Self { leaves, executed, prevented, .. } = *self;
        Progress { leaves, executed, prevented }
    }

    /// Its conditions as entered or kept; without a minimum, which a resting order never has.
    #[inline]
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            self_match_prevention: self.self_match_prevention,
            self_match_group: self.self_match_group,
            post_only: self.post_only(),
            minimum_quantity: Lots::ZERO,
        }
    }

    /// True if no lots are open.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.leaves == 0
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

    /// What the feed shows now, and showed with this many open lots, unless it is an iceberg.
    pub(crate) fn shown_since(&self, leaves_before: Quantity) -> Shown {
        match self.is_displayed() {
            true => self.display.shown(leaves_before, self.leaves()),
            false => Shown::NONE,
        }
    }

    /// True if the feed shows it while it rests.
    #[inline]
    pub(crate) fn is_displayed(&self) -> bool {
        self.display.is_displayed() && self.for_auction() == ForAuction::No
    }

    /// Executes some open lots.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn execute(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
        self.executed += lots(quantity);
    }

    /// Cancels some open lots; `quantity` may be 0.
    ///
    /// # Panics
    /// `quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn reduce(&mut self, quantity: Quantity) {
        assert!(quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
    }

    /// Removes some open lots instead of trading them.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn prevent(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
        self.prevented += lots(quantity);
    }

    /// Checks the invariant.
    #[inline]
    pub(crate) fn check(&self) {
        assert!(self.leaves + self.executed + self.prevented <= self.quantity, "{self:?}");
    }
}

/// The part of an order's time in force that does not name an auction. Three bits, with
/// [`ForAuction`], distinguish all values.
#[inline(always)]
fn life(post_only: bool, time_in_force: TimeInForce) -> u8 {
    u8::from(post_only) | (time_in_force.code() & 7) << 1
}

/// A quantity of an order as stored.
#[inline]
fn lots(quantity: Quantity) -> u32 {
    u32::try_from(quantity.0).expect("no more than QUANTITY_LIMIT of any order is ever spoken of")
}

impl Order {
    /// Its element of the state hash while it rests.
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash_before(self.progress())
    }

    /// As [`hash`](Self::hash), at this progress.
    #[inline]
    pub(crate) fn hash_before(&self, progress: Progress) -> u64 {
        self.hash_identity(self.kind()).wrapping_add(self.hash_progress(progress))
    }

    /// As [`hash`](Self::hash), of a known kind.
    #[inline(always)]
    pub(crate) fn hash_of_kind(&self, kind: Kind) -> u64 {
        self.hash_identity(kind).wrapping_add(self.hash_progress(self.progress()))
    }

    /// The constant part of a resting order, but for a modify. It includes the quantity, so the
    /// canceled lots follow from the open and the executed ones.
    #[inline(always)]
    fn hash_identity(&self, kind: Kind) -> u64 {
        let key = &self.key;
        let name = u64::from(key.user_ref_num)
            | u64::from(key.session_id.0) << 32
            | u64::from(key.channel) << 48;
        let terms = self.price().0 | self.quantity().0 << 32;
        let owner = u64::from(u32::from_le_bytes(*self.firm.as_bytes()))
            | u64::from(self.instrument_id.0) << 32
            | u64::from(self.group_id) << 48;
        let named =
            hash::fold_pair(self.order_id.0.wrapping_mul(hash::ORDER_IDENTITY) ^ kind.0, name);
        hash::fold_pair(named ^ terms, owner)
    }

    /// The part that trades, prevention and cancels change; separate, so that a trade hashes
    /// little.
    #[inline]
    pub(crate) fn hash_progress(&self, progress: Progress) -> u64 {
        let Progress { leaves, executed, prevented } = progress;
        let id = self.order_id.0.wrapping_mul(hash::ORDER_PROGRESS);
        hash::fold_pair(id ^ u64::from(prevented), u64::from(leaves) | u64::from(executed) << 32)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec};

    use market::SessionId;

    use super::*;

    /// Orders that differ slightly in one field have different hashes; so have orders at different
    /// progress.
    #[test]
    fn orders_that_differ_have_different_hashes() {
        let terms = || OrderTerms {
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
        };
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
