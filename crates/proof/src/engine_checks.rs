//! Properties of an engine at any time: its balances equal those of the ledger's entries, and a
//! snapshot restores it.
//!
//! The scenarios, the comparison with the model and the simulator share these checks.

use std::{collections::BTreeMap, fmt::Debug};

use engine::{Engine, Restoration};
use market::{AccountId, AssetId, Booked, Bucket, Event, LedgerEntry, LedgerPlace};

/// Compares two values; an error if they differ.
pub fn same<T: PartialEq + Debug>(what: &str, ours: T, theirs: T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: the engine has {ours:?}, not {theirs:?}"))
}

/// A copy of an engine, restored from its snapshot.
pub fn restored(engine: &Engine) -> Result<Engine, String> {
    let mut restoration = Restoration::new();
    let mut outcome = Ok(());
    engine.snapshot(&mut |section, bytes| {
        if outcome.is_ok() {
            outcome = restoration.section(section, bytes);
        }
    });
    let restored = outcome.and_then(|()| restoration.finish());
    restored.map_err(|error| format!("the engine's snapshot is refused: {error}"))
}

/// Checks the engine's invariants and balances, and that its snapshot restores it, which the state hash
/// shows; returns the restored engine.
pub fn check(engine: &Engine, balances: &LedgerBalances) -> Result<Engine, String> {
    engine.check_invariants();
    check_shown(engine)?;
    balances.check(engine)?;
    let restored = restored(engine)?;
    restored.check_invariants();
    same("state hash after a snapshot", engine.state_hash(), restored.state_hash())?;
    Ok(restored)
}

/// Checks that the orders shown on the feed are the orders in the books with shown lots.
fn check_shown(engine: &Engine) -> Result<(), String> {
    let books = engine.instruments().filter_map(|it| engine.book(it.instrument_id));
    let orders = books.flat_map(|book| book.bids().chain(book.asks()));
    let mut in_books: Vec<_> = orders
        .filter(|order| !order.shown.is_zero())
        .map(|order| Booked {
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            price: order.price,
            leaves: order.leaves,
            shown: order.shown,
            attribution: order.attribution,
        })
        .collect();
    let mut shown: Vec<_> = engine.shown_orders().collect();
    in_books.sort_unstable_by_key(|booked| booked.order_id);
    shown.sort_unstable_by_key(|booked| booked.order_id);
    same("orders that are shown", shown, in_books)
}

/// The balances computed from the ledger's entries alone; the amounts outside are negative.
#[derive(Default)]
pub struct LedgerBalances {
    amounts: BTreeMap<(AssetId, AccountId, Bucket), i128>,
    /// The number of movements of a balance, or of the amount outside.
    versions: BTreeMap<(AssetId, AccountId, bool), u64>,
}

impl LedgerBalances {
    /// Enters a movement at both ends, if the event is one.
    ///
    /// # Panics
    /// The entry moves nothing, or its versions do not follow the previous ones.
    pub fn enter(&mut self, event: &Event) {
        let Event::Ledger(entry) = event else { return };
        let LedgerEntry { asset_id, from, to, .. } = *entry;
        let amount = i128::try_from(entry.amount.get()).expect("no asset has so much");
        assert!(0 < amount, "{entry:?} moves something");
        *self.amounts.entry((asset_id, from.account_id, from.bucket)).or_default() -= amount;
        *self.amounts.entry((asset_id, to.account_id, to.bucket)).or_default() += amount;
        let balance = |place: LedgerPlace| (place.account_id, place.bucket == Bucket::Outside);
        self.count(asset_id, from);
        if balance(from) == balance(to) {
            assert_eq!(from.version, to.version, "one balance is touched once");
        } else {
            self.count(asset_id, to);
        }
    }

    /// Counts a movement that touches a balance, and checks that it has the balance's next version.
    fn count(&mut self, asset_id: AssetId, place: LedgerPlace) {
        let key = (asset_id, place.account_id, place.bucket == Bucket::Outside);
        let version = self.versions.entry(key).or_default();
        *version += 1;
        assert_eq!(*version, place.version, "{place:?}");
    }

    /// Checks that the engine has the same balances, and that their sum is the amount that came in from outside.
    fn check(&self, engine: &Engine) -> Result<(), String> {
        for asset in engine.assets() {
            let asset_id = asset.asset_id;
            let at = |account_id, bucket| {
                self.amounts.get(&(asset_id, account_id, bucket)).copied().unwrap_or(0)
            };
            let mut sum = 0;
            for account in engine.accounts() {
                let id = account.account_id;
                let balance = engine.balance(id, asset_id).ok_or("an account has no balance")?;
                let version = self.versions.get(&(asset_id, id, false)).copied().unwrap_or(0);
                same(
                    "balance and version by the ledger's entries",
                    (balance.available, balance.reserved.cast_signed(), balance.version),
                    (at(id, Bucket::Available), at(id, Bucket::Reserved), version),
                )?;
                sum += balance.available + balance.reserved.cast_signed();
            }
            same("sum of an asset", sum, -at(AccountId::VENUE, Bucket::Outside))?;
            same("issued", engine.issued(asset_id), u128::try_from(sum).ok())?;
        }
        Ok(())
    }
}
