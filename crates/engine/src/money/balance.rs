//! Balances of one asset, and the one way to change them.
//!
//! [`Holding::post`] applies a movement to both of its ends and returns the ledger entry.
//! [`Holding::check_conserved`] ends the movements of a step.
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
}

market::assert_layout! {
    Balance, 64 { available: 0, reserved: 16, buying: 32, version: 48 }
}

impl Balance {
    /// Available and reserved; below 0 for a short position.
    pub(crate) fn position(&self) -> i128 {
        self.available + self.reserved.cast_signed()
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
    fn change(&mut self, by: impl FnOnce(&mut Self)) -> i128 {
        let sum = |it: &Self| it.available.wrapping_add(it.reserved.cast_signed());
        let before = sum(self);
        by(self);
        sum(self).wrapping_sub(before)
    }

    /// Moves an amount from one bucket to another; returns what the balance gained.
    #[inline(always)]
    fn shift(&mut self, from: Bucket, to: Bucket, amount: u128) -> i128 {
        self.change(|it| {
            it.debit(from, amount);
            it.credit(to, amount);
        })
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
    /// A planted fault: whatever an account receives from another, or from outside, is this many units more.
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
    /// The ledger entry of it, with the versions of both ends after it.
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

    /// Applies a movement to both of its ends; returns the ledger entry.
    /// [`check_conserved`](Self::check_conserved) must end the step.
    #[inline(always)]
    pub(crate) fn post(&mut self, movement: &Movement) -> LedgerEntry {
        let Movement { from, to, amount, .. } = *movement;
        let stays = from.1 != Bucket::Outside && to.1 != Bucket::Outside;
        let (from_version, to_version) = if stays && from.0 == to.0 {
            // Two buckets of one balance change at once.
            let balance = &mut self.balances[from.0.0 as usize];
            self.held += balance.shift(from.1, to.1, amount);
            balance.version += 1;
            (balance.version, balance.version)
        } else {
            (self.debit(from, amount), self.credit(to, amount))
        };
        movement.entry(self.asset.asset_id, [from_version, to_version])
    }

    /// Applies a movement between the two buckets of one balance: as [`post`](Self::post), and ends the step.
    #[inline(always)]
    pub(super) fn post_within(&mut self, movement: &Movement) -> LedgerEntry {
        let Movement { from, to, amount, .. } = *movement;
        assert!(from.0 == to.0, "a movement within one balance");
        let account_id = from.0;
        let balance = &mut self.balances[account_id.0 as usize];
        let gained = balance.shift(from.1, to.1, amount);
        balance.version += 1;
        let version = balance.version;
        self.gain(gained);
        movement.entry(self.asset.asset_id, [version; 2])
    }

    /// Applies the movements of a trade in this asset: as [`post`](Self::post) of each, and the end of the step. The giver's
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
    ) -> [u64; 3] {
        let [amount_got, fee_got, rebate_got] =
            [amount, fee, rebate].map(|amount| self.received(amount));
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
            it.credit(Bucket::Available, freed + rebate_got);
        });
        giver.version += is_paid + is_freed + has_rebate;
        gained = gained.wrapping_add(receiver.change(|it| {
            it.credit(Bucket::Available, amount_got);
            it.debit(Bucket::Available, fee);
        }));
        receiver.version += is_paid + has_fee;
        if let Some(venue) = venue {
            versions[Settlement::VENUE] = venue.version;
            gained = gained.wrapping_add(venue.change(|it| {
                it.credit(Bucket::Available, fee_got);
                it.debit(Bucket::Available, rebate);
            }));
            venue.version += has_fee + has_rebate;
        }
        self.gain(gained);
        versions
    }

    /// Counts what the balances of a step gained in all, and checks that the asset is conserved.
    ///
    /// # Panics
    /// The sum of the balances differs from what was issued.
    #[inline(always)]
    fn gain(&mut self, gained: i128) {
        self.held += gained;
        self.check_conserved();
    }

    /// What an account receives of an amount: all of it, unless a test planted a fault.
    #[inline(always)]
    fn received(&self, amount: u128) -> u128 {
        #[cfg(test)]
        let amount = if amount == 0 { 0 } else { amount + self.minted };
        amount
    }

    /// Checks that the asset is conserved, at the end of a step.
    ///
    /// # Panics
    /// The sum of the balances differs from what was issued.
    #[inline(always)]
    pub(crate) fn check_conserved(&self) {
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
        let amount = self.received(amount);
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
    ) -> Option<()> {
        let balance = self.balances.get_mut(account_id.0 as usize)?;
        if balance.version != 0 || version == 0 || 2 * ISSUED_MAX < available.unsigned_abs() {
            return None;
        }
        (balance.available, balance.version) = (available, version);
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

    /// Adds the elements of all balances to the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (balance, account_id) in self.balances.iter().zip(0..) {
            sum.add(element(balance, self.asset.asset_id, AccountId(account_id)));
        }
    }
}

/// The state hash element of a balance; 0 before its first movement. The reserved part is left out,
/// because it follows from the live orders.
fn element(balance: &Balance, asset_id: AssetId, account_id: AccountId) -> u64 {
    if balance.version == 0 {
        return 0;
    }
    hash::balance(asset_id, account_id, balance.available, balance.version)
}

#[cfg(test)]
mod tests {
    //! Each step compares what accounts hold with what was issued, also a step that changes neither.

    use market::Text;

    use super::*;

    /// An account with 1,000 units, 500 of them reserved, and a count of what all hold that is one unit too high.
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
        let reserve = Movement::reserve(AccountId(1), 500, NO_ORDER);
        holding.post_within(&reserve);
        holding.held += 1;
        holding
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_reservation_compares() {
        let reserve = Movement::reserve(AccountId(1), 1, NO_ORDER);
        miscounted().post_within(&reserve);
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_payment_compares() {
        let accounts = [1, 2].map(AccountId);
        miscounted().settle::<false>(accounts, [10, 0], [0; 2]);
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_payment_with_a_fee_compares() {
        let accounts = [1, 2].map(AccountId);
        miscounted().settle::<true>(accounts, [10, 0], [1, 0]);
    }
}
