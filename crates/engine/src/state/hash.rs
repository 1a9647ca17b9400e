//! The state hash: equal where states are equal, kept up to date in O(1) per change.
//!
//! The state is taken as a set of elements (an instrument, how it is traded, a trade, a session, the last number of a channel,
//! a firm that may not enter orders, an order, a balance), each with a 64-bit hash of all its fields. The sum
//! of these does not depend on the order in which they came, and a change is one subtraction and
//! one addition. What changes with each input (sequence, time, counters) is mixed in when the hash
//! is asked for.
//!
//! Priority needs no element of its own: within a level it is the order of the order ids.

use market::{
    AccountId, Asset, AssetId, Firm, Instrument, InstrumentId, MoneyTerms, OrderId, Scope,
    SessionId, ShardId, Side, Text, TradeId,
};

use crate::{
    contingent::instructions::Standing,
    intake::session::Session,
    money::{
        account::AssetLimits,
        fees::Fees,
        moves::MoveCounts,
        terms::NO_TERMS,
        undo::{Changed, Was},
    },
    order::{Kind, Order, Progress},
    trading::iceberg::Reserve,
};

/// The sum over the elements of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateHash(u64);

impl StateHash {
    /// An element joins the state.
    #[inline]
    pub(crate) fn add(&mut self, element: u64) {
        self.0 = self.0.wrapping_add(element);
    }

    /// An element leaves the state.
    #[inline]
    pub(crate) fn remove(&mut self, element: u64) {
        self.0 = self.0.wrapping_sub(element);
    }

    /// An element changes.
    #[inline]
    pub(crate) fn change(&mut self, before: u64, after: u64) {
        self.remove(before);
        self.add(after);
    }

    /// The hash of the whole, with the words that change with each input.
    pub(crate) fn finish(self, words: [u64; 6]) -> u64 {
        let [a, b, c, d, e, f] = words;
        mix([WHOLE, self.0, a, b, c, d, e, f])
    }
}

// The first word of each element says what it is, so that different elements differ.
const WHOLE: u64 = 0;
const INSTRUMENT: u64 = 1;
const SESSION: u64 = 2;
const CHANNEL: u64 = 3;
const FIRM_DISABLED: u64 = 4;
const STANDING: u64 = 40;
const LAST_TRADE: u64 = 41;
const TRAILING_LEVEL: u64 = 42;
const RESERVE: u64 = 5;
pub(crate) const TRADING: u64 = 20;
const BLOCK: u64 = 21;
const CROSSES: u64 = 22;
const ASSET: u64 = 60;
const ACCOUNT: u64 = 61;
const ASSIGNMENT: u64 = 62;
const TERMS: u64 = 63;
const FEES: u64 = 64;
const ASSET_LIMITS: u64 = 65;
const MOVES: u64 = 66;
const UNDO: u64 = 67;
const CHANGED: u64 = 68;
const BALANCE: u64 = 0x9E6C_63D0_76CC_4765;
// What an order id is multiplied with in each part of an order, so that nothing of one order can
// change places with that of another: odd, and random otherwise.
const ORDER_IDENTITY: u64 = 0x5851_F42D_4C95_7F2D;
const ORDER_PROGRESS: u64 = 0xE703_7ED1_A0B4_28DB;

/// An instrument.
pub(crate) fn instrument(instrument: &Instrument) -> u64 {
    mix([
        INSTRUMENT,
        u64::from(instrument.instrument_id.0),
        word(&instrument.symbol),
        instrument.price_increment.0,
        instrument.round_lot.0,
    ])
}

/// A session as it was added; what it does later are elements of their own.
pub(crate) fn session(session: &Session) -> u64 {
    mix([
        SESSION,
        u64::from(session.session_id().0),
        word(session.username()),
        word(&session.firm()),
        u64::from(session.live_orders_max())
            | u64::from(session.self_match_prevention().code()) << 32,
    ])
}

/// A channel of a session: a part of its element that never changes.
pub(crate) fn channel_key(session_id: SessionId, channel: u8) -> u64 {
    mix([CHANNEL, u64::from(session_id.0), u64::from(channel)])
}

/// The last number used on a channel; a channel never used is no element.
#[inline]
pub(crate) fn channel(key: u64, user_ref_num_last: u32) -> u64 {
    if user_ref_num_last == 0 { 0 } else { fold_pair(key, u64::from(user_ref_num_last)) }
}

/// A firm that may not enter orders on a session.
pub(crate) fn firm_disabled(session_id: SessionId, firm: Firm) -> u64 {
    mix([FIRM_DISABLED, u64::from(session_id.0), word(&firm)])
}

/// A resting order: what it is and how far it has come.
#[inline(always)]
pub(crate) fn order(order: &Order) -> u64 {
    order_before(order, order.progress())
}

/// A resting order when it had come so far.
#[inline]
pub(crate) fn order_before(order: &Order, progress: Progress) -> u64 {
    order_identity(order, order.kind()).wrapping_add(order_progress(order, progress))
}

/// As [`order`], of which the kind is known already.
#[inline(always)]
pub(crate) fn order_of_kind(order: &Order, kind: Kind) -> u64 {
    order_identity(order, kind).wrapping_add(order_progress(order, order.progress()))
}

/// What never changes while an order rests but by a modify. Quantity is part of it, so that what is
/// canceled follows from what is open and what was executed.
#[inline(always)]
fn order_identity(order: &Order, kind: Kind) -> u64 {
    let key = &order.key;
    let name = u64::from(key.user_ref_num)
        | u64::from(key.session_id.0) << 32
        | u64::from(key.channel) << 48;
    let terms = order.price().0 | order.quantity().0 << 32;
    let owner = u64::from(u32::from_le_bytes(*order.firm.as_bytes()))
        | u64::from(order.instrument_id.0) << 32
        | u64::from(order.group_id) << 48;
    let named = fold_pair(order.order_id.0.wrapping_mul(ORDER_IDENTITY) ^ kind.0, name);
    fold_pair(named ^ terms, owner)
}

/// What a trade, its prevention or a cancel changes: a part by itself, so that a trade mixes little.
#[inline]
pub(crate) fn order_progress(order: &Order, progress: Progress) -> u64 {
    let Progress { leaves, executed, prevented } = progress;
    let id = order.order_id.0.wrapping_mul(ORDER_PROGRESS);
    fold_pair(id ^ u64::from(prevented), u64::from(leaves) | u64::from(executed) << 32)
}

/// Orders that the venue does not take.
pub(crate) fn block(scope: &Scope) -> u64 {
    let words = [
        u64::from(scope.session_id.0)
            | u64::from(scope.group_id.is_some()) << 16
            | u64::from(scope.group_id.unwrap_or(0)) << 32
            | u64::from(scope.side.map_or(0, Side::code)) << 48,
        word(&scope.firm),
        word(&scope.symbol),
    ];
    let [entered, firm, symbol] = words;
    match scope.account_id {
        AccountId::VENUE => mix([BLOCK, entered, firm, symbol]),
        AccountId(id) => mix([BLOCK, entered, firm, symbol, u64::from(id)]),
    }
}

/// How many auctions there were.
pub(crate) fn crosses(count: u64) -> u64 {
    if count == 0 { 0 } else { mix([CROSSES, count]) }
}

/// A trade that can be undone, in four words.
#[inline]
pub(crate) fn trade(words: [u64; 4]) -> u64 {
    let [a, b, c, d] = words;
    fold_pair(fold_pair(a, b), fold_pair(c, d))
}

/// An asset, and how many movements of it came in or went out.
pub(crate) fn asset(asset: &Asset, version: u64) -> u64 {
    let id = u64::from(asset.asset_id.0) << 8 | u64::from(asset.decimals);
    mix([ASSET, id, word(&asset.name), version])
}

/// How often something went to a shard and came from it; never is no element.
pub(crate) fn moves(shard: ShardId, counts: &MoveCounts) -> u64 {
    if *counts == MoveCounts::default() {
        return 0;
    }
    mix([MOVES, u64::from(shard.0), counts.gone, counts.come])
}

/// After which trade those that are paid for can be undone; before that is allowed, no element.
pub(crate) fn undo(since: Option<TradeId>) -> u64 {
    since.map_or(0, |since| mix([UNDO, since.0]))
}

/// What held until it was changed: its element while it was, with how long that was.
pub(crate) fn changed(changed: &Changed) -> u64 {
    let (kind, was) = match &changed.was {
        // Terms that are no element are some here.
        Was::Terms(instrument_id, was) if *was == NO_TERMS => (0, u64::from(instrument_id.0)),
        Was::Terms(instrument_id, was) => (1, terms(*instrument_id, was)),
        Was::Owner(session_id, account_id) => {
            (2, u64::from(session_id.0) << 32 | u64::from(account_id.0))
        }
        Was::Fees(tier, Fees { maker_ppm, taker_ppm }) => {
            let tier = u64::from(*tier) << 8 | 3;
            (tier, u64::from(maker_ppm.cast_unsigned()) << 32 | u64::from(*taker_ppm))
        }
        Was::Tier(account_id, tier) => (4, u64::from(account_id.0) << 8 | u64::from(*tier)),
    };
    mix([CHANGED, changed.until.0, kind, was])
}

/// An account: what it may do and has done this second.
pub(crate) fn account(account_id: AccountId, name: &Text<8>, words: [u64; 4]) -> u64 {
    let [a, b, c, d] = words;
    mix([ACCOUNT, u64::from(account_id.0), word(name), a, b, c, d])
}

/// Whose the orders of a session are; nobody's is no element.
pub(crate) fn assignment(session_id: SessionId, account_id: AccountId) -> u64 {
    if account_id == AccountId::VENUE {
        return 0;
    }
    mix([ASSIGNMENT, u64::from(session_id.0), u64::from(account_id.0)])
}

/// What orders in an instrument cost; not to be paid for, and no larger than others, is no element.
pub(crate) fn terms(instrument_id: InstrumentId, terms: &MoneyTerms) -> u64 {
    if *terms == NO_TERMS {
        return 0;
    }
    let assets = u64::from(terms.base.0) << 16 | u64::from(terms.quote.0);
    mix([
        TERMS,
        u64::from(instrument_id.0) << 8 | u64::from(terms.class.code()),
        assets,
        terms.base_units,
        terms.quote_numerator,
        terms.quote_denominator,
        terms.quantity_max.0,
    ])
}

/// The fees of a tier; none are no element.
pub(crate) fn fees(tier: usize, fees: &Fees) -> u64 {
    if *fees == Fees::default() {
        return 0;
    }
    let ppm = u64::from(fees.maker_ppm.cast_unsigned()) << 32 | u64::from(fees.taker_ppm);
    mix([FEES, tier as u64, ppm])
}

/// What an account may do with an asset; without limits it is no element.
pub(crate) fn asset_limits(asset_id: AssetId, account_id: AccountId, limits: &AssetLimits) -> u64 {
    if *limits == AssetLimits::default() {
        return 0;
    }
    let place = u64::from(asset_id.0) << 32 | u64::from(account_id.0);
    let AssetLimits { order_notional_max, position_max, short_max } = *limits;
    mix([
        ASSET_LIMITS,
        place,
        order_notional_max as u64,
        (order_notional_max >> 64) as u64,
        position_max as u64,
        (position_max >> 64) as u64,
        short_max as u64,
        (short_max >> 64) as u64,
    ])
}

/// What an account has of an asset, after so many movements. What is reserved follows from the
/// orders. A trade changes four of them, so it is one round.
#[inline(always)]
pub(crate) fn balance(
    asset_id: AssetId,
    account_id: AccountId,
    available: i128,
    version: u64,
) -> u64 {
    let place = u64::from(asset_id.0) << 32 | u64::from(account_id.0);
    let low = available as u64;
    let high = (available >> 64) as u64;
    fold_pair(place.wrapping_mul(BALANCE) ^ low, version ^ high.rotate_left(40))
}

/// What is shown of a reserve order.
pub(crate) fn reserve(order_id: OrderId, reserve: &Reserve) -> u64 {
    let Reserve { shown, shown_quantity, shown_range } = *reserve;
    let parts = u64::from(shown.0) | u64::from(shown_quantity.0) << 32;
    mix([RESERVE, order_id.0, parts, u64::from(shown_range.0)])
}

/// What an order is told, with what it will come in, and where it is meanwhile.
pub(crate) fn standing(standing: &Standing) -> u64 {
    let Standing { key, instructions, .. } = standing;
    mix([
        STANDING,
        u64::from(key.session_id.0) << 40
            | u64::from(key.channel) << 32
            | u64::from(key.user_ref_num),
        u64::from(instructions.pricing.code())
            | u64::from(instructions.all_or_none) << 8
            | u64::from(instructions.slide) << 16
            | u64::from(standing.order_type.code()) << 24
            | (standing.state as u64) << 32,
        // What has a trigger has no limit beside its price.
        (u64::from(instructions.trigger.0) | standing.limit.0) << 32
            | u64::from(instructions.offset as u32),
        u64::from(instructions.shown_quantity.0) << 32 | u64::from(instructions.shown_range.0),
        u64::from(instructions.expires_s) << 32 | u64::from(standing.minimum_quantity.0),
        u64::from(instructions.parent) << 32 | u64::from(instructions.partner),
    ])
}

/// The price of an instrument's last trade.
pub(crate) fn last_trade(instrument_id: InstrumentId, price: u32) -> u64 {
    mix([LAST_TRADE, u64::from(instrument_id.0), u64::from(price)])
}

/// What a mark of trailing stops is to an order that has it: the element of the order is the product
/// of this and of [`trailing_order`], so that of many with one mark it is a product with a sum.
pub(crate) fn trailing_level(instrument_id: InstrumentId, toward: u8, mark_key: u32) -> u64 {
    mix([TRAILING_LEVEL, u64::from(instrument_id.0), u64::from(toward), u64::from(mark_key)]) | 1
}

/// A trailing stop, whatever its mark; see [`trailing_level`].
pub(crate) fn trailing_order(order_id: OrderId) -> u64 {
    mix([TRAILING_LEVEL, order_id.0])
}

/// Up to eight characters as a number, which has as many bytes as they are.
#[inline]
pub(crate) fn word<const N: usize>(text: &Text<N>) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(text.as_bytes());
    u64::from_le_bytes(bytes)
}

/// A number whose bits each depend on every bit of the words.
pub(crate) fn mix<const N: usize>(words: [u64; N]) -> u64 {
    let mixed = words.iter().fold(0x9FB2_1C65_1E98_DF25, |state, word| fold(state ^ word));
    fold(mixed ^ N as u64)
}

/// One round: the two halves of a 128-bit product, folded together.
#[inline]
pub(crate) fn fold(word: u64) -> u64 {
    let product = u128::from(word) * 0xD6E8_FEB8_6659_FD93;
    (product as u64) ^ (product >> 64) as u64
}

/// One round for two words, each of which keeps the other from being 0.
#[inline]
fn fold_pair(one: u64, other: u64) -> u64 {
    let product =
        u128::from(one ^ 0x9FB2_1C65_1E98_DF25) * u128::from(other ^ 0xD6E8_FEB8_6659_FD93);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec};

    use market::{
        Capacity, Conditions, CustomerType, Display, InstrumentId, OrderId, OrderKey, Price,
        Quantity, SelfMatchGroup, SelfMatchPrevention, Side, TimeInForce,
    };

    use super::*;
    use crate::order::OrderTerms;

    /// A change of one bit in one word changes about half of the bits of the hash.
    #[test]
    fn one_bit_changes_half_of_the_bits() {
        let words = [1, 2, 3, 4];
        for index in 0..words.len() {
            for bit in 0..64 {
                let mut other = words;
                other[index] ^= 1 << bit;
                let changed = (mix(words) ^ mix(other)).count_ones();
                assert!((12..=52).contains(&changed), "word {index}, bit {bit}: {changed} bits");
            }
        }
    }

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
            is_instructed: false,
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
        let hashes: BTreeSet<u64> = orders.iter().map(order).collect();
        assert_eq!(hashes.len(), orders.len());
        // Sums of two of them differ as well: what one gains is not what another loses.
        let few = &orders[..300];
        let mut sums = BTreeSet::new();
        for (index, one) in few.iter().enumerate() {
            for other in &few[index + 1..] {
                assert!(sums.insert(order(one).wrapping_add(order(other))), "{one:?} {other:?}");
            }
        }
    }

    /// What joins and leaves again leaves no trace.
    #[test]
    fn sum_forgets_what_left() {
        let mut hash = StateHash::default();
        hash.add(mix([1]));
        let before = hash;
        hash.add(mix([2]));
        hash.change(mix([2]), mix([3]));
        assert_ne!(hash, before);
        hash.remove(mix([3]));
        assert_eq!(hash, before);
    }
}
