//! What each account has of one asset, and how it moves.

use alloc::vec::Vec;

use market::{
    AccountId, Asset, AssetId, Bucket, Event, LedgerEntry, LedgerKind, LedgerPlace, OrderId,
    TradeId, Units,
};

use super::hash;
use crate::state::hash::StateHash;

/// The most of one asset that there may be, in units.
pub(crate) const ISSUED_MAX: u128 = 1 << 120;

/// What one account has of one asset: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Balance {
    /// Free. Below 0 only of what was sold short.
    pub(crate) available: i128,
    /// Held for live orders: what all of them together could cost or deliver.
    pub(crate) reserved: u128,
    /// What live orders could bring in, where the account's position is limited.
    pub(crate) buying: u128,
    /// How many movements have touched it.
    pub(crate) version: u64,
    /// Its element of the state hash.
    hash: u64,
}

const _: () = assert!(size_of::<Balance>() == 64, "a balance is one cache line");

impl Balance {
    /// All that the account has, or is short of.
    pub(crate) fn position(&self) -> i128 {
        self.available + self.reserved.cast_signed()
    }

    /// Brings the state hash up to what it is after a movement.
    #[inline(always)]
    fn rehash(&mut self, asset_id: AssetId, account_id: AccountId, hash: &mut StateHash) {
        let after = hash::balance(asset_id, account_id, self.available, self.version);
        hash.change(self.hash, after);
        self.hash = after;
    }

    #[inline(always)]
    fn take(&mut self, bucket: Bucket, amount: u128) {
        match bucket {
            Bucket::Available => self.available -= amount.cast_signed(),
            Bucket::Reserved => {
                let left = self.reserved.checked_sub(amount);
                self.reserved = left.expect("an order never costs more than it reserved");
            }
            Bucket::Outside => unreachable!("what is outside is in no balance"),
        }
    }

    #[inline(always)]
    fn give(&mut self, bucket: Bucket, amount: u128) {
        match bucket {
            Bucket::Available => self.available += amount.cast_signed(),
            Bucket::Reserved => self.reserved += amount,
            Bucket::Outside => unreachable!("what is outside is in no balance"),
        }
    }
}

/// One asset, and what each account has of it.
///
/// Invariant: what is issued is what all accounts have together.
#[derive(Debug)]
pub(crate) struct Holding {
    asset: Asset,
    /// By account id.
    balances: Vec<Balance>,
    /// What came in and has not gone out.
    issued: u128,
    /// How many movements came in or went out.
    version: u64,
    /// What all accounts have together.
    held: i128,
}

/// Where an amount goes from and to, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub(crate) kind: LedgerKind,
    pub(crate) from: (AccountId, Bucket),
    pub(crate) to: (AccountId, Bucket),
    pub(crate) amount: u128,
    pub(crate) order_id: OrderId,
    pub(crate) trade_id: TradeId,
}

/// What an account holds for an order, or does not need any more: as a reservation or a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) kind: LedgerKind,
    pub(crate) account_id: AccountId,
    pub(crate) amount: u128,
    pub(crate) order_id: OrderId,
    pub(crate) trade_id: TradeId,
}

/// What of one asset a trade moves between its two accounts, and from and to the venue's. Amounts
/// are below [`Leg::AMOUNT_MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) asset_id: AssetId,
    pub(crate) payer: AccountId,
    pub(crate) receiver: AccountId,
    /// From what the payer reserved to the receiver.
    pub(crate) amount: u64,
    /// What the payer reserved beside it, and may use again.
    pub(crate) back: u64,
    /// From the receiver to the venue.
    pub(crate) fee: u64,
    /// From the venue to the payer.
    pub(crate) rebate: u64,
}

/// How often what a trade moves of one asset was moved before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    payer: u64,
    receiver: u64,
    venue: u64,
}

impl Leg {
    /// Sums of some of them are no more than a word holds.
    pub(crate) const AMOUNT_MAX: u128 = 1 << 62;

    /// The payer pays.
    #[inline(always)]
    pub(crate) fn pays(&self, since: Versions, order_id: OrderId, trade_id: TradeId) -> Event {
        Event::Ledger(LedgerEntry {
            kind: LedgerKind::Settle,
            asset_id: self.asset_id,
            amount: Units::new(self.amount.into()),
            from: place(self.payer, Bucket::Reserved, since.payer + 1),
            to: place(self.receiver, Bucket::Available, since.receiver + 1),
            order_id,
            trade_id,
        })
    }

    /// The payer may use again what it held beside it.
    #[inline(always)]
    pub(crate) fn gives_back(
        &self,
        since: Versions,
        order_id: OrderId,
        trade_id: TradeId,
    ) -> Event {
        let version = since.payer + 2;
        Event::Ledger(LedgerEntry {
            kind: LedgerKind::Release,
            asset_id: self.asset_id,
            amount: Units::new(self.back.into()),
            from: place(self.payer, Bucket::Reserved, version),
            to: place(self.payer, Bucket::Available, version),
            order_id,
            trade_id,
        })
    }

    /// The receiver pays its fee.
    #[inline(always)]
    pub(crate) fn charges(&self, since: Versions, order_id: OrderId, trade_id: TradeId) -> Event {
        Event::Ledger(LedgerEntry {
            kind: LedgerKind::Fee,
            asset_id: self.asset_id,
            amount: Units::new(self.fee.into()),
            from: place(self.receiver, Bucket::Available, since.receiver + 2),
            to: place(AccountId::VENUE, Bucket::Available, since.venue + 1),
            order_id,
            trade_id,
        })
    }

    /// The payer is paid its rebate.
    #[inline(always)]
    pub(crate) fn rebates(&self, since: Versions, order_id: OrderId, trade_id: TradeId) -> Event {
        let payer_version = since.payer + 2 + u64::from(self.back != 0);
        let venue_version = since.venue + 1 + u64::from(self.fee != 0);
        Event::Ledger(LedgerEntry {
            kind: LedgerKind::Rebate,
            asset_id: self.asset_id,
            amount: Units::new(self.rebate.into()),
            from: place(AccountId::VENUE, Bucket::Available, venue_version),
            to: place(self.payer, Bucket::Available, payer_version),
            order_id,
            trade_id,
        })
    }
}

#[inline(always)]
fn place(account_id: AccountId, bucket: Bucket, version: u64) -> LedgerPlace {
    LedgerPlace { account_id, bucket, version }
}

impl Holding {
    /// Nobody has any of it.
    pub(crate) fn new(asset: Asset, account_count: usize) -> Self {
        Self {
            asset,
            balances: alloc::vec![Balance::default(); account_count],
            issued: 0,
            version: 0,
            held: 0,
        }
    }

    /// What it is.
    pub(crate) fn asset(&self) -> &Asset {
        &self.asset
    }

    /// What came in and has not gone out.
    pub(crate) fn issued(&self) -> u128 {
        self.issued
    }

    /// How many movements came in or went out.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// One more account, with nothing.
    pub(crate) fn add_account(&mut self) {
        self.balances.push(Balance::default());
    }

    /// What an account has.
    #[inline]
    pub(crate) fn balance(&self, account_id: AccountId) -> &Balance {
        &self.balances[account_id.0 as usize]
    }

    /// What each account has, by account id.
    pub(crate) fn balances(&self) -> &[Balance] {
        &self.balances
    }

    /// Live orders could bring in so much more, or less, than before.
    #[inline]
    pub(crate) fn change_buying(&mut self, account_id: AccountId, before: u128, after: u128) {
        let buying = &mut self.balances[account_id.0 as usize].buying;
        let others = buying.checked_sub(before).expect("each order was counted");
        *buying = others + after;
    }

    /// Moves an amount, which is more than nothing, and says so. The balances that it touches must be
    /// [`rehash`](Self::rehash)ed before the command is over.
    #[inline(always)]
    pub(crate) fn apply(&mut self, movement: &Movement) -> LedgerEntry {
        let Movement { from, to, amount, .. } = *movement;
        // Two buckets of one balance move at once.
        let stays = from.1 != Bucket::Outside && to.1 != Bucket::Outside;
        let is_one = stays && from.0 == to.0;
        let mut from_version = self.take(from, amount, !is_one);
        let to_version = self.give(to, amount);
        if is_one {
            from_version = to_version;
        }
        if !stays {
            self.held += if from.1 == Bucket::Outside { amount } else { 0 }.cast_signed();
            self.held -= if to.1 == Bucket::Outside { amount } else { 0 }.cast_signed();
            assert!(self.held == self.issued.cast_signed(), "{:?} is conserved", self.asset);
        }
        self.entry(movement, from_version, to_version)
    }

    /// What is told of a movement.
    #[inline(always)]
    fn entry(&self, movement: &Movement, from_version: u64, to_version: u64) -> LedgerEntry {
        let Movement { kind, from, to, amount, order_id, trade_id } = *movement;
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

    /// Moves what a trade moves of it, where payer, receiver and venue are three; says how often
    /// that was moved before.
    #[inline(always)]
    pub(crate) fn settle(&mut self, leg: &Leg, hash: &mut StateHash) -> Versions {
        let Leg { asset_id, amount, back, fee, rebate, .. } = *leg;
        let payer = &mut self.balances[leg.payer.0 as usize];
        let payer_version = payer.version;
        let left = payer.reserved.checked_sub(u128::from(amount + back));
        payer.reserved = left.expect("an order never costs more than it reserved");
        payer.available += i128::from(back + rebate);
        payer.version += 1 + u64::from(back != 0) + u64::from(rebate != 0);
        payer.rehash(asset_id, leg.payer, hash);
        let receiver = &mut self.balances[leg.receiver.0 as usize];
        let receiver_version = receiver.version;
        receiver.available += i128::from(amount - fee);
        receiver.version += 1 + u64::from(fee != 0);
        receiver.rehash(asset_id, leg.receiver, hash);
        let venue = &mut self.balances[AccountId::VENUE.0 as usize];
        let venue_version = venue.version;
        if fee | rebate != 0 {
            venue.available += i128::from(fee) - i128::from(rebate);
            venue.version += u64::from(fee != 0) + u64::from(rebate != 0);
            venue.rehash(asset_id, AccountId::VENUE, hash);
        }
        Versions { payer: payer_version, receiver: receiver_version, venue: venue_version }
    }

    /// Holds an amount for an order; how many movements have touched the balance since. `None`, and
    /// nothing is done, if less is available, or nothing is to be held.
    #[inline(always)]
    pub(crate) fn hold(
        &mut self,
        account_id: AccountId,
        amount: u128,
        hash: &mut StateHash,
    ) -> Option<u64> {
        let balance = &mut self.balances[account_id.0 as usize];
        if amount == 0 || balance.available < amount.cast_signed() {
            return None;
        }
        balance.available -= amount.cast_signed();
        balance.reserved += amount;
        balance.version += 1;
        balance.rehash(self.asset.asset_id, account_id, hash);
        Some(balance.version)
    }

    /// Moves an amount, which is more than nothing, between the two buckets of a balance, and says so;
    /// as for [`apply`](Self::apply).
    #[inline(always)]
    pub(crate) fn shift(&mut self, shift: &Shift) -> LedgerEntry {
        let Shift { kind, account_id, amount, order_id, trade_id } = *shift;
        let (from, to) = match kind {
            LedgerKind::Reserve => (Bucket::Available, Bucket::Reserved),
            _ => (Bucket::Reserved, Bucket::Available),
        };
        let balance = &mut self.balances[account_id.0 as usize];
        balance.take(from, amount);
        balance.give(to, amount);
        balance.version += 1;
        let version = balance.version;
        LedgerEntry {
            kind,
            asset_id: self.asset.asset_id,
            amount: Units::new(amount),
            from: LedgerPlace { account_id, bucket: from, version },
            to: LedgerPlace { account_id, bucket: to, version },
            order_id,
            trade_id,
        }
    }

    /// Takes an amount from where it is; says how many movements have touched that.
    #[inline(always)]
    fn take(
        &mut self,
        (account_id, bucket): (AccountId, Bucket),
        amount: u128,
        is_counted: bool,
    ) -> u64 {
        if bucket == Bucket::Outside {
            self.issued += amount;
            self.version += 1;
            assert!(self.issued <= ISSUED_MAX, "checked before it came in");
            return self.version;
        }
        let balance = &mut self.balances[account_id.0 as usize];
        balance.take(bucket, amount);
        balance.version += u64::from(is_counted);
        balance.version
    }

    /// Gives an amount to where it is to be; says how many movements have touched that.
    #[inline(always)]
    fn give(&mut self, (account_id, bucket): (AccountId, Bucket), amount: u128) -> u64 {
        if bucket == Bucket::Outside {
            let left = self.issued.checked_sub(amount);
            self.issued = left.expect("what goes out came in");
            self.version += 1;
            return self.version;
        }
        let balance = &mut self.balances[account_id.0 as usize];
        balance.give(bucket, amount);
        balance.version += 1;
        balance.version
    }

    /// Brings the state hash up to what an account has now.
    #[inline(always)]
    pub(crate) fn rehash(&mut self, account_id: AccountId, hash: &mut StateHash) {
        let asset_id = self.asset.asset_id;
        let balance = &mut self.balances[account_id.0 as usize];
        let after = element(balance, asset_id, account_id);
        hash.change(balance.hash, after);
        balance.hash = after;
    }

    /// A restored asset has come in and gone out so often.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = version;
    }

    /// An account had so much; `None` if there is no such account, or it cannot have.
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

    /// An order of an account holds so much; `None` if all of them could not.
    pub(crate) fn restore_reserved(&mut self, account_id: AccountId, amount: u128) -> Option<()> {
        self.held = self.held.checked_add(amount.cast_signed())?;
        self.balances[account_id.0 as usize].reserved += amount;
        Some(())
    }

    /// What all have together is what came in; `None` if that cannot be.
    pub(crate) fn restore_issued(&mut self) -> Option<()> {
        self.issued = u128::try_from(self.held).ok().filter(|issued| *issued <= ISSUED_MAX)?;
        Some(())
    }

    /// Asserts that the sum is that of the balances, and that of what came in.
    pub(crate) fn check(&self) {
        let held: i128 = self.balances.iter().map(Balance::position).sum();
        assert_eq!(held, self.held, "{:?}", self.asset);
        assert_eq!(held, self.issued.cast_signed(), "{:?}", self.asset);
    }

    /// Adds the elements of the state hash that balances are, computed anew.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (balance, account_id) in self.balances.iter().zip(0..) {
            sum.add(element(balance, self.asset.asset_id, AccountId(account_id)));
        }
    }
}

/// The element of the state hash that a balance is; none before it is first touched. What is
/// reserved follows from the live orders.
#[inline(always)]
fn element(balance: &Balance, asset_id: AssetId, account_id: AccountId) -> u64 {
    if balance.version == 0 {
        return 0;
    }
    hash::balance(asset_id, account_id, balance.available, balance.version)
}
