//! Balances of one asset, and the one way to change them.
//!
//! [`Holding::post`] applies a movement to both of its ends and returns the ledger entry.
//! [`Holding::close`] ends the movements of a step: it updates the state hash and checks that the
//! asset is conserved.
//!
//! Invariant: the sum of all balances, counted from each balance's gains and losses, equals what
//! was issued, counted from deposits and withdrawals. Each step that moves money compares the two.

use alloc::vec::Vec;

use market::{
    AccountId, Asset, AssetId, Bucket, LedgerEntry, LedgerKind, LedgerPlace, OrderId, Settlement,
    TradeId, Units,
};

use super::hash;
use crate::state::hash::StateHash;

/// The most units of one asset.
pub(crate) const ISSUED_MAX: u128 = 1 << 120;

/// Order and trade of a movement that belongs to none.
pub(super) const NO_ORDER: OrderId = OrderId(0);
pub(super) const NO_TRADE: TradeId = TradeId(0);

/// The balance of one account in one asset, in units: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Balance {
    /// Available. Below 0 only for an asset sold short.
    pub(crate) available: i128,
    /// Reserved: the possible cost or delivery of all live orders.
    pub(crate) reserved: u128,
    /// Possible receipts of live orders; only where the account's position is limited.
    pub(crate) buying: u128,
    /// Version: the number of movements.
    pub(crate) version: u64,
    /// Its element of the state hash.
    hash: u64,
}

market::assert_layout! {
    Balance, 64 { available: 0, reserved: 16, buying: 32, version: 48, hash: 56 }
}

impl Balance {
    /// Available and reserved; below 0 for a short position.
    pub(crate) fn position(&self) -> i128 {
        self.available + self.reserved.cast_signed()
    }

    /// Updates its element of the state hash.
    #[inline(always)]
    fn rehash(&mut self, asset_id: AssetId, account_id: AccountId, hash: &mut StateHash) {
        let after = hash::balance(asset_id, account_id, self.available, self.version);
        hash.change(self.hash, after);
        self.hash = after;
    }

    /// Counts movements, and updates its element of the state hash; a balance without any has none.
    #[inline(always)]
    fn advance(
        &mut self,
        movements: u64,
        asset_id: AssetId,
        account_id: AccountId,
        hash: &mut StateHash,
    ) {
        self.version += movements;
        if self.version != 0 {
            self.rehash(asset_id, account_id, hash);
        }
    }

    /// Takes an amount out of a bucket.
    #[inline(always)]
    fn debit(&mut self, bucket: Bucket, amount: u128) {
        match bucket {
            Bucket::Available => self.available -= amount.cast_signed(),
            Bucket::Reserved => {
                let left = self.reserved.checked_sub(amount);
                self.reserved = left.expect("an order never costs more than it reserved");
            }
            Bucket::Outside => unreachable!("no balance has what is outside"),
        }
    }

    /// Puts an amount into a bucket.
    #[inline(always)]
    fn credit(&mut self, bucket: Bucket, amount: u128) {
        match bucket {
            Bucket::Available => self.available += amount.cast_signed(),
            Bucket::Reserved => self.reserved += amount,
            Bucket::Outside => unreachable!("no balance has what is outside"),
        }
    }

    /// Changes the balance; returns what it gained, read from the balance itself. Its own numbers are checked; their sum wraps, so
    /// that the compiler leaves out what it can prove.
    #[inline(always)]
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> i128 {
        let sum = |it: &Self| it.available.wrapping_add(it.reserved.cast_signed());
        let before = sum(self);
        change(self);
        sum(self).wrapping_sub(before)
    }
}

/// One asset and its balances.
#[derive(Debug)]
pub(crate) struct Holding {
    asset: Asset,
    /// Balances by account id.
    balances: Vec<Balance>,
    /// Deposits less withdrawals, in units; at most [`ISSUED_MAX`].
    issued: u128,
    /// Number of deposits and withdrawals.
    version: u64,
    /// The sum of all balances, in units, counted from the gains and losses of each.
    held: i128,
    /// A planted fault: each credit adds this many units too much.
    #[cfg(test)]
    pub(crate) minted: u128,
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
    /// Reserves an amount for an order.
    #[inline(always)]
    pub(super) fn reserve(account_id: AccountId, amount: u128, order_id: OrderId) -> Self {
        Self {
            kind: LedgerKind::Reserve,
            from: (account_id, Bucket::Available),
            to: (account_id, Bucket::Reserved),
            amount,
            order_id,
            trade_id: NO_TRADE,
        }
    }

    /// Releases an amount that was reserved for an order.
    #[inline(always)]
    pub(super) fn release(account_id: AccountId, amount: u128, order_id: OrderId) -> Self {
        Self {
            kind: LedgerKind::Release,
            from: (account_id, Bucket::Reserved),
            to: (account_id, Bucket::Available),
            amount,
            order_id,
            trade_id: NO_TRADE,
        }
    }
}

impl Holding {
    /// A new asset; all balances are 0.
    pub(crate) fn new(asset: Asset, account_count: usize) -> Self {
        Self {
            asset,
            balances: alloc::vec![Balance::default(); account_count],
            issued: 0,
            version: 0,
            held: 0,
            #[cfg(test)]
            minted: 0,
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
        self.balances.push(Balance::default());
    }

    #[inline(always)]
    pub(crate) fn balance(&self, account_id: AccountId) -> &Balance {
        &self.balances[account_id.0 as usize]
    }

    /// All balances, by account id.
    pub(crate) fn balances(&self) -> &[Balance] {
        &self.balances
    }

    /// Replaces the possible receipts of live orders of an account.
    #[inline]
    pub(crate) fn change_buying(&mut self, account_id: AccountId, before: u128, after: u128) {
        let buying = &mut self.balances[account_id.0 as usize].buying;
        let others = buying.checked_sub(before).expect("each order was counted");
        *buying = others + after;
    }

    /// Applies a movement to both of its ends; returns the ledger entry. [`close`](Self::close)
    /// must end the step.
    #[inline(always)]
    pub(crate) fn post(&mut self, movement: &Movement) -> LedgerEntry {
        let Movement { kind, from, to, amount, order_id, trade_id } = *movement;
        let stays = from.1 != Bucket::Outside && to.1 != Bucket::Outside;
        let (from_version, to_version) = if stays && from.0 == to.0 {
            // Two buckets of one balance change at once.
            let balance = &mut self.balances[from.0.0 as usize];
            self.held += balance.change(|it| {
                it.debit(from.1, amount);
                it.credit(to.1, amount);
            });
            balance.version += 1;
            (balance.version, balance.version)
        } else {
            (self.debit(from, amount), self.credit(to, amount))
        };
        LedgerEntry {
            kind,
            asset_id: self.asset.asset_id,
            amount: Units::new(amount),
            from: LedgerPlace { account_id: from.0, bucket: from.1, version: from_version },
            to: LedgerPlace { account_id: to.0, bucket: to.1, version: to_version },
            order_id,
            trade_id,
        }
    }

    /// Applies a movement between the two buckets of one balance: as [`post`](Self::post) and [`close`](Self::close).
    #[inline(always)]
    pub(super) fn post_within(&mut self, movement: &Movement, hash: &mut StateHash) -> LedgerEntry {
        let Movement { kind, from, to, amount, order_id, trade_id } = *movement;
        assert!(from.0 == to.0, "a movement within one balance");
        let account_id = from.0;
        let balance = &mut self.balances[account_id.0 as usize];
        let gained = balance.change(|it| {
            it.debit(from.1, amount);
            it.credit(to.1, amount);
        });
        balance.advance(1, self.asset.asset_id, account_id, hash);
        let version = balance.version;
        self.gain(gained);
        let place = |bucket| LedgerPlace { account_id, bucket, version };
        LedgerEntry {
            kind,
            asset_id: self.asset.asset_id,
            amount: Units::new(amount),
            from: place(from.1),
            to: place(to.1),
            order_id,
            trade_id,
        }
    }

    /// Applies the movements of a trade in this asset: as [`post`](Self::post) of each and [`close`](Self::close). The giver's
    /// order pays an amount, and what it reserved beyond it is freed; the receiver pays a fee to the venue, and the giver gets
    /// a rebate from it. Gives the versions of giver, receiver and venue before; without charges the venue's is 0.
    ///
    /// # Panics
    /// Two of the accounts are the same, one is unknown, or the order reserved less.
    #[inline(always)]
    pub(crate) fn settle<const IS_CHARGED: bool>(
        &mut self,
        [giver_id, receiver_id]: [AccountId; 2],
        [amount, freed]: [u128; 2],
        [fee, rebate]: [u128; 2],
        hash: &mut StateHash,
    ) -> [u64; 3] {
        #[cfg(test)]
        let minted = if amount == 0 { 0 } else { self.minted };
        #[cfg(not(test))]
        let minted = 0;
        let asset_id = self.asset.asset_id;
        let [of_giver, of_receiver] = [giver_id, receiver_id].map(|it| it.0 as usize);
        let accounts = "a trade has two accounts, and neither is the venue's";
        let (giver, receiver, venue) = if IS_CHARGED {
            let of_venue = AccountId::VENUE.0 as usize;
            let all = self.balances.get_disjoint_mut([of_giver, of_receiver, of_venue]);
            let [giver, receiver, venue] = all.expect(accounts);
            (giver, receiver, Some(venue))
        } else {
            let both = self.balances.get_disjoint_mut([of_giver, of_receiver]);
            let [giver, receiver] = both.expect(accounts);
            (giver, receiver, None)
        };
        let [is_paid, is_freed, has_fee, has_rebate] =
            [amount, freed, fee, rebate].map(|it| u64::from(it != 0));
        let mut versions = [giver.version, receiver.version, 0];
        let mut gained = giver.change(|it| {
            it.debit(Bucket::Reserved, amount + freed);
            it.credit(Bucket::Available, freed + rebate);
        });
        giver.advance(is_paid + is_freed + has_rebate, asset_id, giver_id, hash);
        gained = gained.wrapping_add(receiver.change(|it| {
            it.credit(Bucket::Available, amount + minted);
            it.debit(Bucket::Available, fee);
        }));
        receiver.advance(is_paid + has_fee, asset_id, receiver_id, hash);
        if let Some(venue) = venue {
            versions[Settlement::VENUE] = venue.version;
            gained = gained.wrapping_add(venue.change(|it| {
                it.credit(Bucket::Available, fee);
                it.debit(Bucket::Available, rebate);
            }));
            venue.advance(has_fee + has_rebate, asset_id, AccountId::VENUE, hash);
        }
        self.gain(gained);
        versions
    }

    /// Ends the movements of a step for these accounts: updates the state hash, and checks that the
    /// asset is conserved.
    ///
    /// # Panics
    /// The sum of the balances differs from what was issued.
    #[inline(always)]
    pub(crate) fn close<const N: usize>(&mut self, touched: [AccountId; N], hash: &mut StateHash) {
        let asset_id = self.asset.asset_id;
        for account_id in touched {
            // A movement of 0 leaves one end untouched.
            self.balances[account_id.0 as usize].advance(0, asset_id, account_id, hash);
        }
        self.check_conserved();
    }

    /// Counts what a step within the asset gained in all, which is nothing unless it is wrong.
    ///
    /// # Panics
    /// It is something.
    #[inline(always)]
    fn gain(&mut self, gained: i128) {
        if gained != 0 {
            self.held += gained;
            self.check_conserved();
        }
    }

    #[inline(always)]
    fn check_conserved(&self) {
        assert!(
            self.held == self.issued.cast_signed(),
            "{:?}: accounts hold {}, {} were issued",
            self.asset,
            self.held,
            self.issued
        );
    }

    /// Takes an amount from one end of a movement; returns that end's new version.
    #[inline(always)]
    fn debit(&mut self, (account_id, bucket): (AccountId, Bucket), amount: u128) -> u64 {
        if bucket == Bucket::Outside {
            self.issued += amount;
            self.version += 1;
            assert!(self.issued <= ISSUED_MAX, "checked before it came in");
            return self.version;
        }
        let balance = &mut self.balances[account_id.0 as usize];
        self.held += balance.change(|it| it.debit(bucket, amount));
        balance.version += 1;
        balance.version
    }

    /// Gives an amount to one end of a movement; returns that end's new version.
    #[inline(always)]
    fn credit(&mut self, (account_id, bucket): (AccountId, Bucket), amount: u128) -> u64 {
        if bucket == Bucket::Outside {
            let left = self.issued.checked_sub(amount);
            self.issued = left.expect("what goes out came in");
            self.version += 1;
            return self.version;
        }
        #[cfg(test)]
        let amount = amount + self.minted;
        let balance = &mut self.balances[account_id.0 as usize];
        self.held += balance.change(|it| it.credit(bucket, amount));
        balance.version += 1;
        balance.version
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
        hash: &mut StateHash,
    ) -> Option<()> {
        let asset_id = self.asset.asset_id;
        let balance = self.balances.get_mut(account_id.0 as usize)?;
        if balance.version != 0 || version == 0 || 2 * ISSUED_MAX < available.unsigned_abs() {
            return None;
        }
        (balance.available, balance.version) = (available, version);
        balance.hash = element(balance, asset_id, account_id);
        hash.add(balance.hash);
        self.held = self.held.checked_add(available)?;
        Some(())
    }

    /// Restores what an order holds; `None` if the sum would exceed the maximum.
    pub(crate) fn restore_reserved(&mut self, account_id: AccountId, amount: u128) -> Option<()> {
        self.held = self.held.checked_add(amount.cast_signed())?;
        self.balances[account_id.0 as usize].reserved += amount;
        Some(())
    }

    /// Restores the issued amount as the sum of all balances; `None` if it is out of range.
    pub(crate) fn restore_issued(&mut self) -> Option<()> {
        self.issued = u128::try_from(self.held).ok().filter(|issued| *issued <= ISSUED_MAX)?;
        Some(())
    }

    /// Checks that the sum of all balances, computed anew, equals both counts.
    pub(crate) fn check(&self) {
        let held: i128 = self.balances.iter().map(Balance::position).sum();
        assert_eq!(held, self.held, "{:?}", self.asset);
        assert_eq!(held, self.issued.cast_signed(), "{:?}", self.asset);
    }

    /// Adds the elements of all balances to the state hash, computed anew.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (balance, account_id) in self.balances.iter().zip(0..) {
            sum.add(element(balance, self.asset.asset_id, AccountId(account_id)));
        }
    }
}

/// The state hash element of a balance; 0 before its first movement. The reserved part is left out,
/// because it follows from the live orders.
#[inline(always)]
fn element(balance: &Balance, asset_id: AssetId, account_id: AccountId) -> u64 {
    if balance.version == 0 {
        return 0;
    }
    hash::balance(asset_id, account_id, balance.available, balance.version)
}
