//! An order, as the engine holds it.

use market::{
    Capacity, Conditions, CustomerType, Display, EnterOrder, Firm, InstrumentId, Lots, OrderId,
    OrderKey, Price, Quantity, RestateReason, Restated, SelfMatchGroup, SelfMatchPrevention, Shown,
    Side, TimeInForce,
};

use crate::{book::pool::PoolOrder, state::hash};

/// The largest quantity of an order where the instrument has no terms, and the most that a chain of
/// replaces may execute there, in lots.
/// OUCH 5.0, section 1.
pub const QUANTITY_MAX: Quantity = Quantity(999_999);

/// The largest quantity that any instrument's terms may allow, in lots.
pub const QUANTITY_LIMIT: Quantity = Quantity((1 << 28) - 1);

/// The highest limit price, in ticks: 199,999.9900. OUCH 5.0, section 1.
pub const PRICE_MAX: Price = Price(1_999_999_900);

/// What the book must know of an order while it trades or rests.
///
/// What is only echoed to the participant (its own name for the order, the locate) is in the event
/// that the order is accepted, and is not kept. A resting order has a limit, or waits for an auction.
/// Quantities and the price are held in 32 bits, which [`QUANTITY_LIMIT`] and [`PRICE_MAX`] fit.
///
/// Invariant: leaves + executed + prevented <= quantity; what is missing was canceled.
///
/// Fields stand so that those which the state hash takes together are loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Order {
    /// As the exchange names it. Within a level a lower id is an older order: an id is given in
    /// the command in which the order is booked, and a replacement gets a new one.
    pub(crate) order_id: OrderId,
    /// As its owner names it.
    pub(crate) key: OrderKey,
    price: u32,
    quantity: u32,
    leaves: u32,
    executed: u32,
    prevented: u32,
    /// As entered; blank is the session's own.
    pub(crate) firm: Firm,
    /// What it trades.
    pub(crate) instrument_id: InstrumentId,
    /// Group for mass cancel; 0 is none.
    pub(crate) group_id: u16,
    /// Only orders of the same group are its own.
    pub(crate) self_match_group: SelfMatchGroup,
    /// How it is shown.
    pub(crate) display: Display,
    /// For whom the firm acts.
    pub(crate) capacity: Capacity,
    /// Whether the customer is retail.
    pub(crate) customer_type: CustomerType,
    /// What happens where it comes in and meets one of its own, as entered.
    pub(crate) self_match_prevention: SelfMatchPrevention,
    /// Whether it may trade when it comes in, how long it lives and for which auction it is, as the
    /// state hash takes them: one bit, three and four.
    life: u8,
    /// Which way it trades. A modify may change the kind of sell.
    pub(crate) side: Side,
    /// True if it rests and [`Icebergs`](crate::trading::iceberg::Icebergs) says what is shown of it.
    pub(crate) is_iceberg: bool,
    /// How long it lives; one that does not rest may still wait for its trigger.
    pub(crate) time_in_force: TimeInForce,
    /// True if it has a record of instructions, or is linked to an order that has; see
    /// [`contingent`](mod@crate::contingent::instructions).
    pub(crate) is_contingent: bool,
}

/// For which auction an order is, if it is for one only. Such an order rests beside the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ForAuction {
    /// For none in particular.
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

    /// The life of an order for that auction.
    pub(crate) fn time_in_force(self) -> Option<TimeInForce> {
        match self {
            Self::No => None,
            Self::Open => Some(TimeInForce::AtTheOpen),
            Self::Close => Some(TimeInForce::AtTheClose),
            Self::Next | Self::AsMarket => Some(TimeInForce::GoodForAuction),
        }
    }
}

/// What kind of order one is, in a word that is loaded at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind(pub(crate) u64);

impl Kind {
    /// True if it is for an auction only.
    #[inline]
    pub(crate) fn is_for_auction(self) -> bool {
        self.0 >> 52 & 0xF != 0
    }
}

/// What trading changes of an [`Order`], in lots.
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
        }
    }

    #[inline]
    fn leaves(&self) -> u32 {
        self.leaves
    }
}

/// The fields of an [`Order`] with no invariant between them.
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
    /// An order of which `executed` lots were executed, and `prevented` lots prevented from it,
    /// before, under the names it replaces.
    ///
    /// # Panics
    /// `executed + prevented < quantity` does not hold, or a number is larger than the checks let in.
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
        }
    }

    /// A new order as it was entered, without instructions.
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

    /// That it goes on, hidden or outside the book, under the id and at the price that it has now.
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

    /// True if it may not trade when it comes in.
    #[inline]
    pub(crate) fn post_only(&self) -> bool {
        self.life & 1 != 0
    }

    /// For which auction it is, if it is for one only.
    #[inline]
    pub(crate) fn for_auction(&self) -> ForAuction {
        ForAuction::from_code(self.life >> 4).expect("only these are set")
    }

    /// From now on it is for this auction only, or for none in particular.
    pub(crate) fn set_for_auction(&mut self, waits: ForAuction) {
        self.life = self.life & 0xF | (waits as u8) << 4;
    }

    /// True for a live order that is not in the book with all of it, or is tied to something.
    #[inline]
    pub(crate) fn has_more_state(&self) -> bool {
        self.is_iceberg | self.is_contingent
    }

    /// What kind of order it is, whatever the state hash takes of it but its names and numbers.
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

    /// Gives it the limit at which it rests; a market-to-limit order has none when it is entered.
    #[inline]
    pub(crate) fn set_price(&mut self, price: Price) {
        assert!(price <= PRICE_MAX, "a price at which orders rest");
        self.price = price.0 as u32;
    }

    /// Asked for, in lots, with what was executed and prevented of the orders it replaced.
    #[inline]
    pub(crate) fn quantity(&self) -> Quantity {
        Quantity(u64::from(self.quantity))
    }

    /// Still open, in lots; 0 once done.
    #[inline]
    pub(crate) fn leaves(&self) -> Quantity {
        Quantity(u64::from(self.leaves))
    }

    /// Traded so far, in lots, by this order and those it replaced.
    #[inline]
    pub(crate) fn executed(&self) -> Quantity {
        Quantity(u64::from(self.executed))
    }

    /// Taken away so far by cancels and modifies, in lots.
    #[inline]
    pub(crate) fn canceled(&self) -> Quantity {
        Quantity(u64::from(self.quantity - self.leaves - self.executed - self.prevented))
    }

    /// Taken away so far instead of trades with its own, in lots, from this order and those it
    /// replaced.
    #[inline]
    pub(crate) fn prevented(&self) -> Quantity {
        Quantity(u64::from(self.prevented))
    }

    /// How far it has come.
    #[inline]
    pub(crate) fn progress(&self) -> Progress {
        let Self { leaves, executed, prevented, .. } = *self;
        Progress { leaves, executed, prevented }
    }

    /// Its conditions, as entered or kept; without a minimum, which a resting order never has.
    #[inline]
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            self_match_prevention: self.self_match_prevention,
            self_match_group: self.self_match_group,
            post_only: self.post_only(),
            minimum_quantity: Lots::ZERO,
        }
    }

    /// True once nothing is open.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.leaves == 0
    }

    /// How many open lots an intended quantity leaves no room for: what was executed counts against
    /// it, and it never gives lots back. OUCH 5.0, section 3.
    #[inline]
    pub(crate) fn excess(&self, intended: Quantity) -> Quantity {
        let room = intended.saturating_sub(self.executed());
        self.leaves().saturating_sub(room)
    }

    /// Lots that the feed shows of it while it rests, if it is no reserve order.
    #[inline]
    pub(crate) fn shown_whole(&self) -> Quantity {
        if self.is_displayed() { self.leaves() } else { Quantity::ZERO }
    }

    /// What the feed shows of it now, and did when so many lots were open, if it is no reserve order.
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

    /// Trades some of what is open.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn execute(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
        self.executed += lots(quantity);
    }

    /// Takes away some of what is open; `quantity` may be 0.
    ///
    /// # Panics
    /// `quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn reduce(&mut self, quantity: Quantity) {
        assert!(quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
    }

    /// Takes away some of what is open instead of trading it.
    ///
    /// # Panics
    /// `0 < quantity <= leaves` does not hold.
    #[inline]
    pub(crate) fn prevent(&mut self, quantity: Quantity) {
        assert!(!quantity.is_zero() && quantity <= self.leaves(), "{quantity} of {self:?}");
        self.leaves -= lots(quantity);
        self.prevented += lots(quantity);
    }

    /// Asserts the invariant.
    #[inline]
    pub(crate) fn check(&self) {
        assert!(self.leaves + self.executed + self.prevented <= self.quantity, "{self:?}");
    }
}

/// What an order that is for no auction in particular says of its life. Three bits tell lives apart,
/// but for two auctions, which [`ForAuction`] tells apart.
#[inline(always)]
fn life(post_only: bool, time_in_force: TimeInForce) -> u8 {
    u8::from(post_only) | (time_in_force.code() & 7) << 1
}

/// A quantity of an order as it is held.
#[inline]
fn lots(quantity: Quantity) -> u32 {
    u32::try_from(quantity.0).expect("no more than QUANTITY_LIMIT of any order is ever spoken of")
}

impl Order {
    /// Its element of the state hash while it rests: what it is and how far it has come.
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash_before(self.progress())
    }

    /// As [`hash`](Self::hash), when it had come so far.
    #[inline]
    pub(crate) fn hash_before(&self, progress: Progress) -> u64 {
        self.hash_identity(self.kind()).wrapping_add(self.hash_progress(progress))
    }

    /// As [`hash`](Self::hash), of which the kind is known already.
    #[inline(always)]
    pub(crate) fn hash_of_kind(&self, kind: Kind) -> u64 {
        self.hash_identity(kind).wrapping_add(self.hash_progress(self.progress()))
    }

    /// What never changes while an order rests but by a modify. Quantity is part of it, so that what is
    /// canceled follows from what is open and what was executed.
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

    /// What a trade, its prevention or a cancel changes: a part by itself, so that a trade mixes little.
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

    /// Orders that differ in one field only, and by little, have different hashes; so have orders on
    /// their way from open to executed or canceled.
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
        // Sums of two of them differ as well: what one gains is not what another loses.
        let few = &orders[..300];
        let mut sums = BTreeSet::new();
        for (index, one) in few.iter().enumerate() {
            for other in &few[index + 1..] {
                assert!(sums.insert(one.hash().wrapping_add(other.hash())), "{one:?} {other:?}");
            }
        }
    }
}
