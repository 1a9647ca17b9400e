//! Balances of one asset, and the one way to change them.
//!
//! [`Holding::post`] applies a movement to both of its ends and returns the ledger entry; [`Holding::shift`] moves
//! within one balance, and [`Holding::settle`] applies the movements of a trade. [`Holding::check_conserved`] ends the
//! movements of a step; the last two include it.
//!
//! Balances have 64 bits while less than 2⁶² units are issued and no account may be short of the asset,
//! and 128 bits from then on. Both widths have the same code, and no output of the engine depends on
//! the width.
//!
//! Invariant: the sum of all balances, counted from each balance's gains and losses, equals the issued
//! amount, counted from deposits and withdrawals. Each step that moves money compares the two.

use alloc::vec::Vec;
use core::{
    fmt::Debug,
    ops::{Add, AddAssign, Sub, SubAssign},
};

use market::{
    AccountId, Asset, AssetId, Bucket, LedgerEntry, LedgerKind, LedgerPlace, OrderId, OwnMovement,
    Settlement, TradeId, Units,
};

use super::hash;
use crate::state::hash::StateHash;

/// The most units of one asset.
pub(crate) const ISSUED_MAX: u128 = 1 << 120;

/// Below this many issued units, the balances of an asset have 64 bits if no account may be short of it:
/// each balance, and each sum of balances, fits.
const NARROW_LIMIT: u128 = 1 << 62;

/// The order and the trade of a movement that belongs to no order and no trade.
pub(super) const NO_ORDER: OrderId = OrderId(0);
pub(super) const NO_TRADE: TradeId = TradeId(0);

/// A number of units in 64 or in 128 bits.
pub(crate) trait Width:
    Copy
    + Debug
    + Default
    + Ord
    + From<i64>
    + Into<i128>
    + TryFrom<u128>
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
{
    /// The difference, which wraps.
    fn wrapping_sub(self, other: Self) -> Self;
    /// The sum, which wraps.
    fn wrapping_add(self, other: Self) -> Self;

    /// An amount in this width.
    ///
    /// # Panics
    /// The amount does not fit. This cannot happen: amounts are bounded by the issued units, which decide
    /// the width.
    #[inline(always)]
    fn of(amount: u128) -> Self {
        let Ok(amount) = Self::try_from(amount) else { too_wide(amount) };
        amount
    }
}

#[cold]
fn too_wide(amount: u128) -> ! {
    panic!("{amount} units move, more than were issued");
}

macro_rules! widths {
    ($($number:ty),*) => {
        $(impl Width for $number {
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        })*
    };
}

widths! { i64, i128 }

/// The balance of one account in one asset, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Balance<N> {
    /// Available. Below 0 only for an asset sold short.
    pub(crate) available: N,
    /// Reserved: the possible cost or delivery of all live orders. Never below 0.
    pub(crate) reserved: N,
    /// Version: the number of movements.
    pub(crate) version: u64,
}

type NarrowBalance = Balance<i64>;
type WideBalance = Balance<i128>;

market::assert_layout! {
    NarrowBalance, 32 { available: 0, reserved: 8, version: 16 }
}

market::assert_layout! {
    WideBalance, 64 { available: 0, reserved: 16, version: 32 }
}

impl<N: Width> Balance<N> {
    #[inline(always)]
    fn widened(&self) -> WideBalance {
        let Self { available, reserved, version } = *self;
        Balance { available: available.into(), reserved: reserved.into(), version }
    }

    /// Takes an amount out of a bucket.
    #[inline(always)]
    fn debit(&mut self, bucket: Bucket, amount: N) {
        match bucket {
            Bucket::Available => self.available -= amount,
            Bucket::Reserved => {
                assert!(amount <= self.reserved, "an order never costs more than it reserved");
                self.reserved -= amount;
            }
            Bucket::Outside => unreachable!("no balance has what is outside"),
        }
    }

    /// Puts an amount into a bucket.
    #[inline(always)]
    fn credit(&mut self, bucket: Bucket, amount: N) {
        match bucket {
            Bucket::Available => self.available += amount,
            Bucket::Reserved => self.reserved += amount,
            Bucket::Outside => unreachable!("no balance has what is outside"),
        }
    }

    /// Available plus reserved. Both are checked; their sum wraps, so that the compiler can leave out checks.
    #[inline(always)]
    fn sum(&self) -> N {
        self.available.wrapping_add(self.reserved)
    }

    /// Its gain since its sum was `before`, read from the balance itself.
    #[inline(always)]
    fn gained(&self, before: N) -> N {
        self.sum().wrapping_sub(before)
    }
}

impl WideBalance {
    /// Available and reserved; below 0 for a short position.
    pub(crate) fn position(&self) -> i128 {
        self.available + self.reserved
    }
}

/// The balances of an asset in one width.
#[derive(Debug)]
struct Sheet<N> {
    /// By account id.
    balances: Vec<Balance<N>>,
    /// The gains of all balances less the issued units; 0 at the end of each step.
    excess: N,
    /// A planted fault: an account receives this many units more than another account, or the outside, gives.
    #[cfg(test)]
    minted: N,
}

/// The amounts that an account gives another in an asset by a trade, in units; each 0 or more, and `amount` at least 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dues {
    /// The payment or delivery of the giver's order.
    pub(super) amount: i64,
    /// The excess of the giver's reservation over `amount`, which is released.
    pub(super) freed: i64,
    /// The payment of the receiver to the venue.
    pub(super) fee: i64,
    /// The payment of the venue to the giver.
    pub(super) rebate: i64,
}

impl<N: Width> Sheet<N> {
    fn new(balances: Vec<Balance<N>>) -> Self {
        Self {
            balances,
            excess: N::default(),
            #[cfg(test)]
            minted: N::default(),
        }
    }

    /// Counts an amount that comes in from outside.
    fn count_issued(&mut self, amount: u128) {
        self.excess -= N::of(amount);
    }

    /// Counts an amount that goes out.
    fn count_redeemed(&mut self, amount: u128) {
        self.excess += N::of(amount);
    }

    /// The sum of all balances less the issued units.
    fn excess(&self) -> i128 {
        self.excess.into()
    }

    #[inline(always)]
    fn available(&self, account_id: AccountId) -> i128 {
        self.balances[account_id.0 as usize].available.into()
    }

    #[inline(always)]
    fn is_conserved(&self) -> bool {
        self.excess == N::default()
    }

    /// Takes an amount from one end of a movement; returns that end's new version.
    fn debit(&mut self, account_id: AccountId, bucket: Bucket, amount: N) -> u64 {
        let balance = &mut self.balances[account_id.0 as usize];
        let before = balance.sum();
        balance.debit(bucket, amount);
        balance.version += 1;
        self.excess += balance.gained(before);
        balance.version
    }

    /// Gives an amount to one end of a movement; returns that end's new version.
    fn credit(&mut self, account_id: AccountId, bucket: Bucket, amount: N) -> u64 {
        let amount = self.received(amount);
        let balance = &mut self.balances[account_id.0 as usize];
        let before = balance.sum();
        balance.credit(bucket, amount);
        balance.version += 1;
        self.excess += balance.gained(before);
        balance.version
    }

    /// Moves an amount from one bucket of a balance to another; returns its new version.
    #[inline(always)]
    fn move_within(&mut self, account_id: AccountId, [from, to]: [Bucket; 2], amount: N) -> u64 {
        let balance = &mut self.balances[account_id.0 as usize];
        let before = balance.sum();
        balance.debit(from, amount);
        balance.credit(to, amount);
        balance.version += 1;
        self.excess += balance.gained(before);
        balance.version
    }

    /// Reserves an amount if it is available; returns the balance's new version.
    #[inline(always)]
    fn try_reserve(&mut self, account_id: AccountId, amount: N) -> Option<u64> {
        let is_available = amount <= self.balances[account_id.0 as usize].available;
        is_available
            .then(|| self.move_within(account_id, LedgerKind::Reserve.buckets_within(), amount))
    }

    /// The part of an amount that an account receives: all of it, unless a test planted a fault.
    #[inline(always)]
    fn received(&self, amount: N) -> N {
        #[cfg(test)]
        let amount = if amount == N::default() { amount } else { amount + self.minted };
        amount
    }

    /// See [`Holding::settle`].
    #[inline(always)]
    fn settle<const IS_CHARGED: bool>(
        &mut self,
        [giver_id, receiver_id]: [AccountId; 2],
        dues: &Dues,
    ) -> [u64; 3] {
        let Dues { amount, freed, fee, rebate } = *dues;
        let counts = |amount: i64| u64::from(amount != 0);
        let [is_freed, has_fee, has_rebate] = [freed, fee, rebate].map(counts);
        let [amount, freed, fee, rebate] = [amount, freed, fee, rebate].map(N::from);
        let [amount_got, fee_got, rebate_got] =
            [amount, fee, rebate].map(|amount| self.received(amount));
        let giver = &mut self.balances[giver_id.0 as usize];
        let mut versions = [giver.version, 0, 0];
        let before = giver.sum();
        giver.debit(Bucket::Reserved, amount + freed);
        giver.credit(Bucket::Available, freed + rebate_got);
        giver.version += 1 + is_freed + has_rebate;
        let mut gained = giver.gained(before);
        let receiver = &mut self.balances[receiver_id.0 as usize];
        versions[Settlement::SELLER] = receiver.version;
        let before = receiver.sum();
        receiver.credit(Bucket::Available, amount_got);
        receiver.debit(Bucket::Available, fee);
        receiver.version += 1 + has_fee;
        gained = gained.wrapping_add(receiver.gained(before));
        if IS_CHARGED {
            let venue = &mut self.balances[AccountId::VENUE.0 as usize];
            versions[Settlement::VENUE] = venue.version;
            let before = venue.sum();
            venue.credit(Bucket::Available, fee_got);
            venue.debit(Bucket::Available, rebate);
            venue.version += has_fee + has_rebate;
            gained = gained.wrapping_add(venue.gained(before));
        }
        self.excess += gained;
        versions
    }
}

/// The balances of an asset, in either width.
#[derive(Debug)]
enum Balances {
    Narrow(Sheet<i64>),
    Wide(Sheet<i128>),
}

/// Calls a function with the balances in their width.
macro_rules! with_sheet {
    ($balances:expr, $sheet:ident => $call:expr) => {
        match $balances {
            Balances::Narrow($sheet) => $call,
            Balances::Wide($sheet) => $call,
        }
    };
}

/// One asset and its balances.
#[derive(Debug)]
pub(crate) struct Holding {
    asset: Asset,
    balances: Balances,
    /// Possible receipts of live orders by account id, in units; only where positions are limited, and empty until then.
    buying: Vec<u128>,
    /// Deposits less withdrawals, in units; at most [`ISSUED_MAX`].
    issued: u128,
    /// Number of deposits and withdrawals.
    version: u64,
}

/// One movement: its kind, its ends and its amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub(crate) kind: LedgerKind,
    pub(crate) from: (AccountId, Bucket),
    pub(crate) to: (AccountId, Bucket),
    /// Amount in units; more than 0.
    pub(crate) amount: u128,
    pub(crate) order_id: OrderId,
    pub(crate) trade_id: TradeId,
}

impl Movement {
    /// Its ledger entry, with the versions of both ends after it.
    #[inline(always)]
    fn entry(&self, asset_id: AssetId, versions: [u64; 2]) -> LedgerEntry {
        let Self { kind, from, to, amount, order_id, trade_id } = *self;
        let place = |(account_id, bucket), version| LedgerPlace { account_id, bucket, version };
        LedgerEntry {
            kind,
            asset_id,
            amount: Units::new(amount),
            from: place(from, versions[0]),
            to: place(to, versions[1]),
            order_id,
            trade_id,
        }
    }
}

/// A movement between the buckets of one balance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) account_id: AccountId,
    pub(crate) asset_id: AssetId,
    /// [`LedgerKind::Reserve`] or [`LedgerKind::Release`].
    pub(crate) kind: LedgerKind,
    /// Amount in units; more than 0.
    pub(crate) amount: u128,
    /// Version of the balance after it.
    pub(crate) version: u64,
}

impl Shift {
    /// Its ledger entry, for an order.
    #[inline(always)]
    pub(crate) fn entry(&self, order_id: OrderId) -> LedgerEntry {
        let Self { account_id, asset_id, kind, amount, version } = *self;
        let [from, to] = kind.buckets_within().map(|bucket| (account_id, bucket));
        let movement = Movement { kind, from, to, amount, order_id, trade_id: NO_TRADE };
        movement.entry(asset_id, [version; 2])
    }

    /// The movement for an output line; `None` if the amount exceeds 64 bits.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<OwnMovement> {
        let Self { account_id, asset_id, amount, version, .. } = *self;
        let amount = u64::try_from(amount).ok()?;
        Some(OwnMovement::new(account_id, asset_id, amount, version))
    }
}

impl Holding {
    /// A new asset; all balances are 0.
    pub(crate) fn new(asset: Asset, account_count: usize) -> Self {
        Self {
            asset,
            balances: Balances::Narrow(Sheet::new(alloc::vec![Balance::default(); account_count])),
            buying: Vec::new(),
            issued: 0,
            version: 0,
        }
    }

    pub(crate) fn asset(&self) -> &Asset {
        &self.asset
    }

    /// Deposits less withdrawals, in units.
    pub(crate) fn issued(&self) -> u128 {
        self.issued
    }

    /// Number of deposits and withdrawals.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Adds an account, with a balance of 0.
    pub(crate) fn add_account(&mut self) {
        with_sheet!(&mut self.balances, sheet => sheet.balances.push(Balance::default()));
    }

    /// Gives all balances 128 bits.
    #[cold]
    pub(crate) fn widen(&mut self) {
        let Balances::Narrow(narrow) = &self.balances else { return };
        let wide = Sheet {
            balances: narrow.balances.iter().map(Balance::widened).collect(),
            excess: narrow.excess.into(),
            #[cfg(test)]
            minted: narrow.minted.into(),
        };
        self.balances = Balances::Wide(wide);
    }

    /// The available units of an account.
    #[inline(always)]
    pub(crate) fn available(&self, account_id: AccountId) -> i128 {
        with_sheet!(&self.balances, sheet => sheet.available(account_id))
    }

    pub(crate) fn balance(&self, account_id: AccountId) -> Option<Balance<i128>> {
        let index = account_id.0 as usize;
        with_sheet!(&self.balances, sheet => sheet.balances.get(index).map(Balance::widened))
    }

    /// Available and reserved units of an account; below 0 for a short position.
    pub(crate) fn position(&self, account_id: AccountId) -> i128 {
        self.balance(account_id).map_or(0, |balance| balance.position())
    }

    /// All balances, by account id.
    pub(crate) fn balances(&self) -> impl Iterator<Item = (AccountId, Balance<i128>)> {
        let count = with_sheet!(&self.balances, sheet => sheet.balances.len());
        let all = (0..count as u32).map(AccountId);
        all.filter_map(|account_id| Some((account_id, self.balance(account_id)?)))
    }

    /// Possible receipts of live orders of an account.
    pub(crate) fn buying(&self, account_id: AccountId) -> u128 {
        self.buying.get(account_id.0 as usize).copied().unwrap_or(0)
    }

    /// Replaces the possible receipts of live orders of an account.
    #[inline(never)]
    pub(crate) fn change_buying(&mut self, account_id: AccountId, before: u128, after: u128) {
        let index = account_id.0 as usize;
        if self.buying.len() <= index {
            self.buying.resize(index + 1, 0);
        }
        let others = self.buying[index].checked_sub(before).expect("each order was counted");
        self.buying[index] = others + after;
    }

    /// Applies a movement to both of its ends; returns the ledger entry.
    /// [`check_conserved`](Self::check_conserved) must end the step.
    pub(crate) fn post(&mut self, movement: &Movement) -> LedgerEntry {
        let Movement { from, to, amount, .. } = *movement;
        let stays = from.1 != Bucket::Outside && to.1 != Bucket::Outside;
        let (from_version, to_version) = if stays && from.0 == to.0 {
            // Two buckets of one balance change at once.
            let version = self.move_within(from.0, [from.1, to.1], amount);
            (version, version)
        } else {
            (self.debit(from, amount), self.credit(to, amount))
        };
        movement.entry(self.asset.asset_id, [from_version, to_version])
    }

    /// Moves an amount from one bucket of a balance to another; returns its new version.
    #[inline(always)]
    fn move_within(&mut self, account_id: AccountId, [from, to]: [Bucket; 2], amount: u128) -> u64 {
        let buckets = [from, to];
        with_sheet!(&mut self.balances, it => it.move_within(account_id, buckets, Width::of(amount)))
    }

    /// Reserves an amount of an account for an order, if it is available, and ends the step; returns the balance's new version.
    #[inline(always)]
    pub(super) fn try_reserve(&mut self, account_id: AccountId, amount: u64) -> Option<u64> {
        let version = with_sheet!(&mut self.balances, it => {
            it.try_reserve(account_id, Width::of(amount.into()))
        })?;
        self.check_conserved();
        Some(version)
    }

    /// Reserves an amount of an account for an order, or releases it, and ends the step.
    #[inline(always)]
    pub(super) fn shift(&mut self, account_id: AccountId, kind: LedgerKind, amount: u128) -> Shift {
        let version = self.move_within(account_id, kind.buckets_within(), amount);
        self.check_conserved();
        Shift { account_id, asset_id: self.asset.asset_id, kind, amount, version }
    }

    /// Applies the movements of a trade in this asset from its giver to its receiver: as [`post`](Self::post) of each, and
    /// the end of the step. Returns the versions of giver, receiver and venue before; without charges the venue's is 0.
    ///
    /// # Panics
    /// Two of the accounts are the same, one is unknown, or the order reserved less.
    #[inline(always)]
    pub(super) fn settle<const IS_CHARGED: bool>(
        &mut self,
        accounts: [AccountId; 2],
        dues: &Dues,
    ) -> [u64; 3] {
        let versions = match &mut self.balances {
            Balances::Narrow(sheet) => sheet.settle::<IS_CHARGED>(accounts, dues),
            Balances::Wide(sheet) => settle_wide::<IS_CHARGED>(sheet, accounts, *dues),
        };
        self.check_conserved();
        versions
    }

    /// Checks that the asset is conserved, at the end of a step.
    ///
    /// # Panics
    /// The sum of the balances differs from the issued units.
    #[inline(always)]
    pub(crate) fn check_conserved(&self) {
        if !with_sheet!(&self.balances, sheet => sheet.is_conserved()) {
            self.fail_conserved();
        }
    }

    #[cold]
    fn fail_conserved(&self) -> ! {
        let excess = with_sheet!(&self.balances, sheet => sheet.excess());
        let held = self.issued.cast_signed() + excess;
        panic!("{:?}: accounts hold {held}, {} were issued", self.asset, self.issued);
    }

    /// Takes an amount from one end of a movement; returns that end's new version.
    fn debit(&mut self, (account_id, bucket): (AccountId, Bucket), amount: u128) -> u64 {
        if bucket == Bucket::Outside {
            self.issued += amount;
            self.version += 1;
            assert!(self.issued <= ISSUED_MAX, "checked before it came in");
            if NARROW_LIMIT <= self.issued {
                self.widen();
            }
            with_sheet!(&mut self.balances, sheet => sheet.count_issued(amount));
            return self.version;
        }
        with_sheet!(&mut self.balances, it => it.debit(account_id, bucket, Width::of(amount)))
    }

    /// Gives an amount to one end of a movement; returns that end's new version.
    fn credit(&mut self, (account_id, bucket): (AccountId, Bucket), amount: u128) -> u64 {
        if bucket == Bucket::Outside {
            let left = self.issued.checked_sub(amount);
            self.issued = left.expect("what goes out came in");
            self.version += 1;
            with_sheet!(&mut self.balances, sheet => sheet.count_redeemed(amount));
            return self.version;
        }
        with_sheet!(&mut self.balances, it => it.credit(account_id, bucket, Width::of(amount)))
    }

    /// Restores the number of deposits and withdrawals.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Restores a balance; `None` if there is no such account, or the amount is out of range.
    pub(crate) fn restore_balance(
        &mut self,
        account_id: AccountId,
        available: i128,
        version: u64,
    ) -> Option<()> {
        let sheet = self.restored();
        let balance = sheet.balances.get_mut(account_id.0 as usize)?;
        if balance.version != 0 || version == 0 || 2 * ISSUED_MAX < available.unsigned_abs() {
            return None;
        }
        (balance.available, balance.version) = (available, version);
        sheet.excess = sheet.excess.checked_add(available)?;
        Some(())
    }

    /// Restores the reservation of an order; `None` if the sum would exceed the maximum.
    pub(crate) fn restore_reserved(&mut self, account_id: AccountId, amount: u128) -> Option<()> {
        let sheet = self.restored();
        let amount = i128::try_from(amount).ok()?;
        sheet.excess = sheet.excess.checked_add(amount)?;
        sheet.balances[account_id.0 as usize].reserved += amount;
        Some(())
    }

    /// The balances while they are restored: wide, because the sum is not known yet.
    fn restored(&mut self) -> &mut Sheet<i128> {
        self.widen();
        let Balances::Wide(sheet) = &mut self.balances else { unreachable!("it was widened") };
        sheet
    }

    /// Restores the issued amount as the sum of all balances; `None` if it is out of range. `may_be_short`: some account may be
    /// short of the asset.
    pub(crate) fn restore_issued(&mut self, may_be_short: bool) -> Option<()> {
        let sheet = self.restored();
        let held = core::mem::take(&mut sheet.excess);
        let is_short = may_be_short || sheet.balances.iter().any(|it| it.available < 0);
        let issued = u128::try_from(held).ok().filter(|issued| *issued <= ISSUED_MAX)?;
        if !is_short && issued < NARROW_LIMIT {
            let narrow =
                |amount| i64::try_from(amount).expect("no balance exceeds what was issued");
            let narrow = |it: &Balance<i128>| Balance {
                available: narrow(it.available),
                reserved: narrow(it.reserved),
                version: it.version,
            };
            let balances = sheet.balances.iter().map(narrow).collect();
            self.balances = Balances::Narrow(Sheet::new(balances));
        }
        self.issued = issued;
        Some(())
    }

    /// Checks that the sum of all balances, computed anew, equals the issued units.
    pub(crate) fn check(&self) {
        let held: i128 = self.balances().map(|(_, balance)| balance.position()).sum();
        assert_eq!(held, self.issued.cast_signed(), "{:?}", self.asset);
        self.check_conserved();
        let is_bounded =
            self.issued < NARROW_LIMIT && self.balances().all(|(_, it)| 0 <= it.available);
        assert!(self.is_wide() || is_bounded, "{:?}: 64 bits may have too few", self.asset);
    }

    /// Plants a fault: each receipt is one unit more.
    #[cfg(test)]
    pub(super) fn mint(&mut self) {
        with_sheet!(&mut self.balances, sheet => sheet.minted = Width::of(1));
    }

    /// True if balances have 128 bits.
    #[inline(always)]
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.balances, Balances::Wide(_))
    }

    /// Adds the elements of all balances to the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (account_id, balance) in self.balances() {
            sum.add(element(&balance, self.asset.asset_id, account_id));
        }
    }
}

/// The movements of a trade in an asset whose balances have 128 bits.
#[cold]
#[inline(never)]
fn settle_wide<const IS_CHARGED: bool>(
    sheet: &mut Sheet<i128>,
    accounts: [AccountId; 2],
    dues: Dues,
) -> [u64; 3] {
    sheet.settle::<IS_CHARGED>(accounts, &dues)
}

/// The state hash element of a balance; 0 before its first movement. The reserved part is left out,
/// because it follows from the live orders.
fn element(balance: &WideBalance, asset_id: AssetId, account_id: AccountId) -> u64 {
    if balance.version == 0 {
        return 0;
    }
    hash::balance(asset_id, account_id, balance.available, balance.version)
}

#[cfg(test)]
mod tests {
    //! Each step compares the holdings of accounts with the units issued, also a step that changes neither.

    use market::Text;

    use super::*;

    /// An account with 1,000 units, 500 of them reserved, and a count of all holdings that is one unit too high.
    fn miscounted() -> Holding {
        let name = Text::new("ASSET").expect("five letters");
        let mut holding = Holding::new(Asset { asset_id: AssetId(1), name, decimals: 0 }, 3);
        let (outside, available) =
            ((AccountId(1), Bucket::Outside), (AccountId(1), Bucket::Available));
        holding.post(&Movement {
            kind: LedgerKind::Deposit,
            from: outside,
            to: available,
            amount: 1_000,
            order_id: NO_ORDER,
            trade_id: NO_TRADE,
        });
        holding.shift(AccountId(1), LedgerKind::Reserve, 500);
        let Balances::Narrow(sheet) = &mut holding.balances else { panic!("1,000 units") };
        sheet.excess += 1;
        holding
    }

    const PAID: Dues = Dues { amount: 10, freed: 0, fee: 0, rebate: 0 };

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_reservation_compares() {
        miscounted().shift(AccountId(1), LedgerKind::Reserve, 1);
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_payment_compares() {
        miscounted().settle::<false>([1, 2].map(AccountId), &PAID);
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_payment_with_a_fee_compares() {
        miscounted().settle::<true>([1, 2].map(AccountId), &Dues { fee: 1, ..PAID });
    }
}
