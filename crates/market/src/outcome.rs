//! Outcomes: an event, or the events that happen at once; the output ring carries each as one line.
//!
//! Invariant: an outcome gives the events that the engine would emit one by one, in the same order.

use crate::{
    Accepted, AccountId, AssetId, Booked, Bucket, CancelReason, Canceled, CommandKind, Conditions,
    Display, Event, Firm, Instructions, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace, Lots,
    OrderAttributes, OrderId, OrderKey, OrderType, Output, Quantity, SelfMatchGroup,
    SelfMatchPrevention, Sequence, Shown, Side, Ticks, TimeInForce, Timestamp, TradeId, Units,
};

/// An outcome with the input that caused it: a slot of the output ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OutputLine {
    /// Sequence of the input that caused it.
    pub cause: Sequence,
    /// Time of that input.
    pub timestamp: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
}

crate::assert_layout! {
    OutputLine, 128 { cause: 0, timestamp: 8, outcome: 16 }
}

impl From<Output> for OutputLine {
    fn from(output: Output) -> Self {
        let Output { cause, timestamp, event } = output;
        Self { cause, timestamp, outcome: Outcome::Event(event) }
    }
}

impl OutputLine {
    /// Gives each event, in order.
    #[inline(always)]
    pub fn each(&self, mut take: impl FnMut(&Output)) {
        let Self { cause, timestamp, outcome } = *self;
        outcome.each(|event| take(&Output { cause, timestamp, event }));
    }
}

/// One event, or those that happen at once to an order or by a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One event.
    Event(Event),
    /// A plain order was accepted, its cost was reserved, and it rests if it does not trade first.
    Entered(OrderEntered),
    /// A plain order was canceled in full, and its reservation was released.
    Withdrawn(OrderWithdrawn),
    /// A trade was settled.
    Settled(TradeSettled),
}

impl Outcome {
    /// Gives each event, in order.
    #[inline(always)]
    pub fn each(&self, mut take: impl FnMut(Event)) {
        match self {
            Self::Event(event) => take(*event),
            Self::Entered(entered) => entered.each(take),
            Self::Withdrawn(withdrawn) => withdrawn.each(take),
            Self::Settled(settled) => settled.each(&mut take),
        }
    }

    /// Gives each ledger entry among the events, in order, and makes no other event.
    #[inline(always)]
    pub fn each_entry(&self, mut take: impl FnMut(LedgerEntry)) {
        match self {
            Self::Event(Event::Ledger(entry)) => take(*entry),
            Self::Event(_) => {}
            Self::Entered(entered) => entered.entry().into_iter().for_each(take),
            Self::Withdrawn(withdrawn) => withdrawn.entry().into_iter().for_each(take),
            Self::Settled(settled) => settled.settlement().each_entry(&mut take),
        }
    }
}

/// Funds of an account that an order reserves, or releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct OwnMovement {
    /// In units; 0 is no movement.
    amount: u64,
    /// Version of the balance after it.
    version: u64,
    account_id: AccountId,
    asset_id: AssetId,
}

crate::assert_layout! {
    OwnMovement, 24 { amount: 0, version: 8, account_id: 16, asset_id: 20 }
}

impl OwnMovement {
    /// Nothing moves.
    pub const NONE: Self =
        Self { amount: 0, version: 0, account_id: AccountId::VENUE, asset_id: AssetId(0) };

    /// An amount in units, with the version of the balance after it.
    #[must_use]
    #[inline(always)]
    pub fn new(account_id: AccountId, asset_id: AssetId, amount: u64, version: u64) -> Self {
        Self { amount, version, account_id, asset_id }
    }

    /// The account; [`AccountId::VENUE`] where nothing moves.
    #[must_use]
    #[inline(always)]
    pub fn account_id(&self) -> AccountId {
        self.account_id
    }

    /// All of it for the event digest: amount and version, and in 48 bits the account and the asset.
    #[inline(always)]
    fn words(&self) -> ([u64; 2], u64) {
        let Self { amount, version, account_id, asset_id } = *self;
        ([amount, version], u64::from(account_id.0) << 16 | u64::from(asset_id.0))
    }

    #[inline(always)]
    fn entry(&self, kind: LedgerKind, order_id: OrderId) -> Option<LedgerEntry> {
        let Self { amount, version, account_id, asset_id } = *self;
        let [from, to] = kind.buckets_within();
        let place = |bucket| LedgerPlace { account_id, bucket, version };
        (amount != 0).then(|| LedgerEntry {
            kind,
            asset_id,
            amount: Units::new(amount.into()),
            from: place(from),
            to: place(to),
            order_id,
            trade_id: TradeId(0),
        })
    }
}

/// A displayed limit order without other conditions than self-match prevention, and without instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OrderEntered {
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// The owner's name for the order.
    pub key: OrderKey,
    /// Limit in ticks.
    pub price: Ticks,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Quantity in lots; all of it is open.
    pub quantity: Lots,
    /// Attributes, as entered.
    pub attributes: OrderAttributes,
    /// Buy, or a kind of sell.
    pub side: Side,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Self-match prevention, as entered.
    pub self_match_prevention: SelfMatchPrevention,
    /// True if it rests now; else its trades or its cancel follow.
    pub rests: bool,
    /// Self-match group, as entered.
    pub self_match_group: SelfMatchGroup,
    /// The amount that it reserves.
    pub reserved: OwnMovement,
}

crate::assert_layout! {
    OrderEntered, 88 {
        order_id: 0, key: 8, price: 16, instrument_id: 20, quantity: 22, attributes: 28, side: 56, time_in_force: 57,
        self_match_prevention: 58, rests: 59, self_match_group: 60, reserved: 64,
    }
}

/// All of an order's name for the event digest, in 56 bits.
#[inline(always)]
pub(crate) fn key_word(OrderKey { session_id, channel, user_ref_num }: OrderKey) -> u64 {
    u64::from(user_ref_num) << 24 | u64::from(session_id.0) << 8 | u64::from(channel)
}

impl OrderEntered {
    /// All fields for the event digest.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> [[u64; 2]; 6] {
        let Self {
            order_id,
            key,
            price,
            instrument_id,
            quantity,
            attributes,
            side,
            time_in_force,
            self_match_prevention,
            rests,
            self_match_group,
            reserved,
        } = *self;
        let OrderAttributes {
            client_order_id,
            firm,
            capacity,
            customer_type,
            group_id,
            shares_located,
            locate_broker,
        } = attributes;
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13] =
            *client_order_id.as_bytes();
        let [group_low, group_high] = *self_match_group.as_bytes();
        let [id_low, id_high] = group_id.to_le_bytes();
        let firm_word = |firm: Firm| u64::from(u32::from_le_bytes(*firm.as_bytes()));
        let (moved, owner) = reserved.words();
        [
            [order_id.0, key_word(key)],
            [
                u64::from(price.0) << 32
                    | u64::from(instrument_id.0) << 16
                    | u64::from(u16::from_le_bytes([group_low, group_high])),
                quantity.get() << 16
                    | u64::from(side.code()) << 8
                    | u64::from(time_in_force.code()),
            ],
            [
                u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
                u64::from_le_bytes([c8, c9, c10, c11, c12, c13, id_low, id_high]),
            ],
            [
                firm_word(firm) << 32 | firm_word(locate_broker),
                u64::from_le_bytes([
                    capacity.code(),
                    customer_type.code(),
                    u8::from(shares_located),
                    self_match_prevention.code(),
                    u8::from(rests),
                    0,
                    0,
                    0,
                ]),
            ],
            moved,
            [owner, 0],
        ]
    }

    /// The ledger entry of its reservation.
    #[inline(always)]
    fn entry(&self) -> Option<LedgerEntry> {
        self.reserved.entry(LedgerKind::Reserve, self.order_id)
    }

    #[inline(always)]
    fn each(&self, mut take: impl FnMut(Event)) {
        let Self { order_id, instrument_id, side, quantity, price, .. } = *self;
        take(Event::Accepted(Accepted {
            key: self.key,
            order_id,
            instrument_id,
            side,
            order_type: OrderType::Limit,
            time_in_force: self.time_in_force,
            display: Display::Visible,
            quantity,
            price,
            attributes: self.attributes,
            conditions: Conditions {
                self_match_prevention: self.self_match_prevention,
                self_match_group: self.self_match_group,
                ..Conditions::NONE
            },
            instructions: Instructions::NONE,
        }));
        if let Some(entry) = self.entry() {
            take(Event::Ledger(entry));
        }
        if self.rests {
            let leaves = quantity.quantity();
            take(Event::Booked(Booked {
                order_id,
                instrument_id,
                side,
                price: price.price(),
                leaves,
                shown: leaves,
                attribution: Firm::BLANK,
            }));
        }
    }
}

/// An order that rested and that its owner canceled in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OrderWithdrawn {
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The amount that it releases.
    pub released: OwnMovement,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Lots that were open; at least 1.
    pub quantity: Lots,
    /// True if the feed showed it.
    pub is_shown: bool,
}

crate::assert_layout! {
    OrderWithdrawn, 56 {
        order_id: 0, key: 8, released: 16, instrument_id: 40, quantity: 42, is_shown: 48,
    }
}

impl OrderWithdrawn {
    /// All fields for the event digest.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> [[u64; 2]; 3] {
        let Self { order_id, key, released, instrument_id, quantity, is_shown } = *self;
        let (moved, owner) = released.words();
        [
            [order_id.0, key_word(key)],
            moved,
            [
                quantity.get() << 16 | u64::from(instrument_id.0),
                owner << 8 | u64::from(u8::from(is_shown)),
            ],
        ]
    }

    /// The ledger entry of its release.
    #[inline(always)]
    fn entry(&self) -> Option<LedgerEntry> {
        self.released.entry(LedgerKind::Release, self.order_id)
    }

    #[inline(always)]
    fn each(&self, mut take: impl FnMut(Event)) {
        let quantity = self.quantity.quantity();
        let before = if self.is_shown { quantity } else { Quantity::ZERO };
        take(Event::Canceled(Canceled {
            key: self.key,
            order_id: self.order_id,
            instrument_id: self.instrument_id,
            quantity,
            leaves: Quantity::ZERO,
            booked: true,
            shown: Shown { before, after: Quantity::ZERO },
            reason: CancelReason::User,
            cause: CommandKind::Cancel,
        }));
        if let Some(entry) = self.entry() {
            take(Event::Ledger(entry));
        }
    }
}

/// The payment of a trade between two accounts: its amounts, in units, and the balances before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The trade.
    pub trade_id: TradeId,
    /// Orders of buyer and seller.
    pub orders: [OrderId; 2],
    /// Accounts of buyer and seller; two, and neither is the venue's.
    pub accounts: [AccountId; 2],
    /// The assets that are paid and delivered.
    pub assets: [AssetId; 2],
    /// True if the buyer's order is the taker.
    pub taker_is_buy: bool,
    /// The amount that the buyer pays.
    pub paid: u128,
    /// The amount that the buyer reserved beyond it, which is released.
    pub freed: u128,
    /// The amount that the seller delivers.
    pub delivered: u128,
    /// The taker's fee, out of the amount it receives.
    pub taker_fee: u128,
    /// The maker's rebate, in the asset of the taker's fee.
    pub rebate: u128,
    /// The maker's fee, out of the amount it receives.
    pub maker_fee: u128,
    /// Versions of the balances of buyer, seller and venue before the trade, by asset; the venue's only where it takes part.
    pub versions: [[u64; 3]; 2],
}

/// A [`Settlement`] in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct TradeSettled {
    trade_id: TradeId,
    orders: [OrderId; 2],
    accounts: [AccountId; 2],
    assets: [AssetId; 2],
    paid: u64,
    freed: u64,
    delivered: u64,
    taker_fee: u64,
    /// The maker's fee, or below 0 its rebate.
    maker_fee: i64,
    /// Versions in 40 bits: the low 32, and the high 8.
    versions_low: [[u32; 3]; 2],
    versions_high: [[u8; 3]; 2],
    taker_is_buy: bool,
}

crate::assert_layout! {
    TradeSettled, 108 {
        trade_id: 0, orders: 8, accounts: 24, assets: 32, paid: 36, freed: 44, delivered: 52, taker_fee: 60,
        maker_fee: 68, versions_low: 76, versions_high: 100, taker_is_buy: 106,
    }
}

impl TradeSettled {
    /// A settlement in a line; `None` if it does not fit: an amount above 62 bits, a version above 40, or a fee and a rebate of the maker.
    #[must_use]
    #[inline(always)]
    pub fn of(it: &Settlement) -> Option<Self> {
        let [quote, base] = it.versions;
        let versions_used = quote.into_iter().chain(base).fold(0, |all, version| all | version);
        let has_both = it.rebate != 0 && it.maker_fee != 0;
        if !it.is_small() || versions_used >> 40 != 0 || has_both {
            return None;
        }
        Some(Self {
            trade_id: it.trade_id,
            orders: it.orders,
            accounts: it.accounts,
            assets: it.assets,
            paid: it.paid as u64,
            freed: it.freed as u64,
            delivered: it.delivered as u64,
            taker_fee: it.taker_fee as u64,
            maker_fee: it.maker_fee as i64 - it.rebate as i64,
            versions_low: [quote.map(|it| it as u32), base.map(|it| it as u32)],
            versions_high: if versions_used >> 32 == 0 { [[0; 3]; 2] } else { high(it.versions) },
            taker_is_buy: it.taker_is_buy,
        })
    }

    /// All fields for the event digest.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> [[u64; 2]; 7] {
        let Self {
            trade_id,
            orders: [buy, sell],
            accounts: [buyer, seller],
            assets: [quote, base],
            paid,
            freed,
            delivered,
            taker_fee,
            maker_fee,
            versions_low: [[q0, q1, q2], [b0, b1, b2]],
            versions_high: [[hq0, hq1, hq2], [hb0, hb1, hb2]],
            taker_is_buy,
        } = *self;
        let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [
            [trade_id.0, both(buyer.0, seller.0)],
            [buy.0, sell.0],
            [paid, freed],
            [delivered, taker_fee],
            [maker_fee.cast_unsigned(), both(q0, q1)],
            [both(q2, b0), both(b1, b2)],
            [
                u64::from_le_bytes([hq0, hq1, hq2, hb0, hb1, hb2, u8::from(taker_is_buy), 0]),
                u64::from(quote.0) << 16 | u64::from(base.0),
            ],
        ]
    }

    /// The settlement.
    #[must_use]
    #[inline(always)]
    pub fn settlement(&self) -> Settlement {
        let (low, high) = (self.versions_low, self.versions_high);
        let version = |asset: usize, party: usize| {
            u64::from(low[asset][party]) | u64::from(high[asset][party]) << 32
        };
        let versions = |asset| [version(asset, 0), version(asset, 1), version(asset, 2)];
        let maker_fee = self.maker_fee;
        Settlement {
            trade_id: self.trade_id,
            orders: self.orders,
            accounts: self.accounts,
            assets: self.assets,
            taker_is_buy: self.taker_is_buy,
            paid: self.paid.into(),
            freed: self.freed.into(),
            delivered: self.delivered.into(),
            taker_fee: self.taker_fee.into(),
            rebate: maker_fee.min(0).unsigned_abs().into(),
            maker_fee: maker_fee.max(0).unsigned_abs().into(),
            versions: [versions(Settlement::QUOTE), versions(Settlement::BASE)],
        }
    }

    fn each(&self, take: &mut impl FnMut(Event)) {
        self.settlement().each(take);
    }
}

/// The high 8 of the 40 bits of versions.
#[cold]
fn high(versions: [[u64; 3]; 2]) -> [[u8; 3]; 2] {
    versions.map(|of_asset| of_asset.map(|version| (version >> 32) as u8))
}

impl Settlement {
    /// Index of the buyer among the parties.
    pub const BUYER: usize = 0;
    /// Index of the seller.
    pub const SELLER: usize = 1;
    /// Index of the venue.
    pub const VENUE: usize = 2;
    /// Index of the asset that is paid.
    pub const QUOTE: usize = 0;
    /// Index of the asset that is delivered.
    pub const BASE: usize = 1;

    /// True if each amount fits in 62 bits, and so any sum of two in 64.
    #[must_use]
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        let Self { paid, freed, delivered, taker_fee, rebate, maker_fee, .. } = *self;
        (paid | freed | delivered | taker_fee | rebate | maker_fee) >> 62 == 0
    }

    /// Gives the entry of each leg with an amount above 0, in posting order: payment, release, delivery, the taker's fee,
    /// the maker's rebate, the maker's fee.
    pub fn each(&self, take: &mut impl FnMut(Event)) {
        self.each_entry(&mut |entry| take(Event::Ledger(entry)));
    }

    /// Gives each of these entries.
    #[inline]
    pub fn each_entry(&self, take: &mut impl FnMut(LedgerEntry)) {
        const BUYER: usize = Settlement::BUYER;
        const SELLER: usize = Settlement::SELLER;
        const VENUE: usize = Settlement::VENUE;
        const QUOTE: usize = Settlement::QUOTE;
        const BASE: usize = Settlement::BASE;
        let [buyer, seller] = self.accounts;
        let accounts = [buyer, seller, AccountId::VENUE];
        let mut versions = self.versions;
        let mut post = |kind, asset: usize, from: usize, to: usize, amount: u128| {
            if amount == 0 {
                return;
            }
            versions[asset][from] += 1;
            if from != to {
                versions[asset][to] += 1;
            }
            let was_reserved = matches!(kind, LedgerKind::Settle | LedgerKind::Release);
            let place = |party: usize, bucket| LedgerPlace {
                account_id: accounts[party],
                bucket,
                version: versions[asset][party],
            };
            take(LedgerEntry {
                kind,
                asset_id: self.assets[asset],
                amount: Units::new(amount),
                from: place(from, if was_reserved { Bucket::Reserved } else { Bucket::Available }),
                to: place(to, Bucket::Available),
                order_id: self.orders[if from == VENUE { to } else { from }],
                trade_id: self.trade_id,
            });
        };
        post(LedgerKind::Settle, QUOTE, BUYER, SELLER, self.paid);
        post(LedgerKind::Release, QUOTE, BUYER, BUYER, self.freed);
        post(LedgerKind::Settle, BASE, SELLER, BUYER, self.delivered);
        if self.taker_fee | self.rebate | self.maker_fee != 0 {
            let (taker, maker, to_taker, to_maker) = match self.taker_is_buy {
                true => (BUYER, SELLER, BASE, QUOTE),
                false => (SELLER, BUYER, QUOTE, BASE),
            };
            post(LedgerKind::Fee, to_taker, taker, VENUE, self.taker_fee);
            post(LedgerKind::Rebate, to_taker, VENUE, maker, self.rebate);
            post(LedgerKind::Fee, to_maker, maker, VENUE, self.maker_fee);
        }
    }
}

#[cfg(test)]
impl Settlement {
    /// A settlement with all legs but a rebate.
    pub(crate) fn small() -> Self {
        Self {
            trade_id: TradeId(5),
            orders: [OrderId(7), OrderId(9)],
            accounts: [AccountId(2), AccountId(3)],
            assets: [AssetId(1), AssetId(4)],
            taker_is_buy: true,
            paid: 100,
            freed: 5,
            delivered: 10,
            taker_fee: 1,
            rebate: 0,
            maker_fee: 2,
            versions: [[10, 20, 30], [40, 50, 60]],
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::SplitMix64;

    /// A settlement of random amounts and versions below these bounds.
    fn settlement(random: &mut SplitMix64, amount_max: u64, version_max: u64) -> Settlement {
        let mut amount = || match random.next_u64() % 4 {
            0 => 0,
            _ => u128::from(random.next_u64() % amount_max),
        };
        let [paid, freed, delivered, taker_fee, of_maker] = [(); 5].map(|()| amount());
        let has_rebate = random.below(2) == 0;
        let mut version = || random.next_u64() % version_max;
        Settlement {
            trade_id: TradeId(version()),
            orders: [OrderId(7), OrderId(9)],
            accounts: [AccountId(2), AccountId(3)],
            assets: [AssetId(1), AssetId(4)],
            taker_is_buy: version().is_multiple_of(2),
            paid,
            freed,
            delivered,
            taker_fee,
            rebate: if has_rebate { of_maker } else { 0 },
            maker_fee: if has_rebate { 0 } else { of_maker },
            versions: [[version(), version(), version()], [version(), version(), version()]],
        }
    }

    /// A settlement within the bounds comes out of a line as it went in; beyond each bound it does not fit.
    #[test]
    fn a_settlement_fits_a_line() {
        let mut random = SplitMix64::new(7);
        for _ in 0..10_000 {
            let settlement = settlement(&mut random, 1 << 62, 1 << 40);
            let line = TradeSettled::of(&settlement).expect("it is within the bounds");
            assert_eq!(line.settlement(), settlement);
        }
        let within = settlement(&mut random, 1_000, 1_000);
        let mut beyond = [within; 4];
        beyond[0].paid = 1 << 62;
        beyond[1].versions[Settlement::BASE][Settlement::VENUE] = 1 << 40;
        beyond[2].maker_fee = u128::MAX;
        (beyond[3].rebate, beyond[3].maker_fee) = (1, 1);
        for (index, settlement) in beyond.iter().enumerate() {
            assert_eq!(TradeSettled::of(settlement), None, "{index}");
        }
    }

    /// The entries that an outcome gives are those among its events.
    #[test]
    fn entries_are_those_among_the_events() {
        let mut random = SplitMix64::new(11);
        let key = OrderKey { session_id: crate::SessionId(3), channel: 0, user_ref_num: 4 };
        for number in 0..1_000 {
            let amount = random.next_u64() % 3;
            let movement =
                OwnMovement { amount, version: 7, account_id: AccountId(2), asset_id: AssetId(1) };
            let quantity = Quantity(5).lots();
            let order_id = OrderId(number);
            let settled = TradeSettled::of(&settlement(&mut random, 100, 100)).expect("it fits");
            let outcomes = [
                Outcome::Settled(settled),
                Outcome::Withdrawn(OrderWithdrawn {
                    key,
                    order_id,
                    instrument_id: InstrumentId(1),
                    quantity,
                    is_shown: true,
                    released: movement,
                }),
                Outcome::Entered(OrderEntered {
                    key,
                    order_id,
                    instrument_id: InstrumentId(1),
                    side: Side::Buy,
                    time_in_force: TimeInForce::Day,
                    quantity,
                    price: crate::Price(9).ticks(),
                    attributes: OrderAttributes::default(),
                    self_match_prevention: SelfMatchPrevention::Off,
                    self_match_group: SelfMatchGroup::BLANK,
                    rests: number % 2 == 0,
                    reserved: movement,
                }),
            ];
            for outcome in outcomes {
                let (mut entries, mut others) = (Vec::new(), Vec::new());
                outcome.each(|event| match event {
                    Event::Ledger(entry) => {
                        entries.push(entry);
                        let alone = &mut others;
                        Outcome::Event(event).each_entry(|entry| alone.push(entry));
                    }
                    event => Outcome::Event(event).each_entry(|entry| panic!("{entry:?}")),
                });
                assert_eq!(others, entries);
                others.clear();
                outcome.each_entry(|entry| others.push(entry));
                assert_eq!(others, entries, "{outcome:?}");
            }
        }
    }

    /// The legs are posted in order, each with the next version of both of its balances; a leg of 0 units is omitted.
    #[test]
    fn a_settlement_gives_its_legs() {
        let settlement = Settlement::small();
        let mut legs = Vec::new();
        settlement.each(&mut |event| {
            let Event::Ledger(entry) = event else { panic!("{event:?}") };
            let LedgerEntry { kind, asset_id, amount, from, to, order_id, trade_id } = entry;
            assert_eq!(trade_id, TradeId(5));
            let place = |place: LedgerPlace| (place.account_id.0, place.bucket, place.version);
            legs.push((kind, asset_id.0, amount.get(), place(from), place(to), order_id.0));
        });
        use Bucket::{Available, Reserved};
        use LedgerKind::{Fee, Release, Settle};
        assert_eq!(
            legs,
            [
                (Settle, 1, 100, (2, Reserved, 11), (3, Available, 21), 7),
                (Release, 1, 5, (2, Reserved, 12), (2, Available, 12), 7),
                (Settle, 4, 10, (3, Reserved, 51), (2, Available, 41), 9),
                (Fee, 4, 1, (2, Available, 42), (0, Available, 61), 7),
                (Fee, 1, 2, (3, Available, 22), (0, Available, 31), 9),
            ]
        );
    }
}
