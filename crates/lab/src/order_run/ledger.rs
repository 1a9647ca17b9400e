//! The balances, computed from the ledger entries alone.
//!
//! Invariant: each entry's version is the next one of its balance.

use std::io::Write;

use crate::order_file::{FileWriter, InstrumentTable};
use market::{AccountId, AssetId, Bucket, LedgerEntry, LedgerKind, LedgerPlace, OutputLine};
use ring::AgentError;

use super::{origin::OriginRounding, output_consumer::Sink};

/// An account's holding of an asset, in its smallest units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub available: u128,
    pub reserved: u128,
    pub version: u64,
}

impl Balance {
    #[inline(always)]
    fn held_mut(&mut self, bucket: Bucket) -> &mut u128 {
        match bucket {
            Bucket::Reserved => &mut self.reserved,
            _ => &mut self.available,
        }
    }

    /// Takes an amount out of a bucket; false if it has less, or the version is not the next.
    #[inline(always)]
    fn take(&mut self, place: &LedgerPlace, amount: u128) -> bool {
        let held = self.held_mut(place.bucket);
        let Some(left) = held.checked_sub(amount) else { return false };
        *held = left;
        self.version = self.version.wrapping_add(1);
        self.version == place.version
    }

    /// Puts an amount into a bucket; false if that is more than 128 bits, or the version is not the next. An entry changes
    /// the version once, also if it `began` in this balance.
    #[inline(always)]
    fn put(&mut self, place: &LedgerPlace, amount: u128, began: bool) -> bool {
        let held = self.held_mut(place.bucket);
        let Some(more) = held.checked_add(amount) else { return false };
        *held = more;
        self.version = self.version.wrapping_add(u64::from(!began));
        self.version == place.version
    }
}

/// Balances by account and asset; the first account is the venue.
#[derive(Debug)]
pub(super) struct BalanceTable {
    asset_count: usize,
    balances: Vec<Balance>,
}

impl BalanceTable {
    pub(super) fn new(asset_count: usize) -> Self {
        Self { asset_count, balances: Vec::new() }
    }

    pub(super) fn get(&self, account_id: AccountId, asset_id: AssetId) -> Balance {
        self.balances.get(self.index(account_id, asset_id)).copied().unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, account_id: AccountId, asset_id: AssetId) -> &mut Balance {
        let index = self.index(account_id, asset_id);
        if self.balances.len() <= index {
            self.grow(index);
        }
        &mut self.balances[index]
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.balances.resize(index + 1, Balance::default());
    }

    /// The balances of all accounts of the asset with this index.
    fn of_asset(&self, asset: usize) -> impl Iterator<Item = &Balance> {
        self.balances.iter().skip(asset).step_by(self.asset_count)
    }

    fn index(&self, account_id: AccountId, asset_id: AssetId) -> usize {
        account_id.0 as usize * self.asset_count + usize::from(asset_id.0) - 1
    }
}

/// Keeps every balance by the movements that the engine reports, and by nothing else.
pub struct LedgerSink {
    balances: BalanceTable,
    /// By asset: how much came in and did not go out.
    brought_in: Vec<u128>,
    entries: u64,
    deposits: u64,
    file: Option<FileWriter>,
    origin: Option<OriginRounding>,
}

impl LedgerSink {
    /// Before the first entry; entries go to `file` as well.
    pub fn new(
        instruments: &InstrumentTable,
        file: Option<FileWriter>,
        origin_rounding: bool,
    ) -> Self {
        let asset_count = instruments.assets().len();
        Self {
            balances: BalanceTable::new(asset_count),
            brought_in: vec![0; asset_count],
            entries: 0,
            deposits: 0,
            file,
            origin: origin_rounding.then(|| OriginRounding::new(instruments)),
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn deposits(&self) -> u64 {
        self.deposits
    }

    pub fn balance(&self, account_id: AccountId, asset_id: AssetId) -> Balance {
        self.balances.get(account_id, asset_id)
    }

    /// The balance if the origin had rounded; `None` if that was not asked for.
    pub fn origin_balance(&self, account_id: AccountId, asset_id: AssetId) -> Option<Balance> {
        Some(self.origin.as_ref()?.balance(account_id, asset_id))
    }

    pub fn check(&self) -> Result<(), String> {
        for (place, brought_in) in self.brought_in.iter().enumerate() {
            let balances = self.balances.of_asset(place);
            let held: u128 = balances.map(|balance| balance.available + balance.reserved).sum();
            if held != *brought_in {
                return Err(format!(
                    "of asset {} there are {held} units, and {brought_in} were brought in",
                    place + 1
                ));
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.file.take().map_or(Ok(()), FileWriter::finish)
    }

    pub(super) const HEADER: &str = "sequence,timestamp,kind,asset,amount,from_account,from_bucket,\
        from_version,to_account,to_bucket,to_version,order_id,trade_id";

    #[inline(always)]
    fn take_entry(&mut self, line: &OutputLine, entry: &LedgerEntry) -> Result<(), AgentError> {
        if !self.book(entry) {
            return Err(self.contradiction(line, entry).into());
        }
        if let Some(file) = &mut self.file {
            Self::write(file, line, entry)?;
        }
        Ok(())
    }

    /// Moves the amount of an entry; false if the entry contradicts those before it.
    #[inline(always)]
    fn book(&mut self, entry: &LedgerEntry) -> bool {
        let LedgerEntry { asset_id, ref from, ref to, .. } = *entry;
        let amount = entry.amount.get();
        self.entries += 1;
        if !self.knows(asset_id) {
            return false;
        }
        if from.bucket == Bucket::Outside || to.bucket == Bucket::Outside {
            return self.book_outside(entry);
        }
        self.balances.get_mut(from.account_id, asset_id).take(from, amount)
            && self.balances.get_mut(to.account_id, asset_id).put(
                to,
                amount,
                from.account_id == to.account_id,
            )
    }

    /// Books an entry that brings units in or takes them out.
    #[inline(never)]
    fn book_outside(&mut self, entry: &LedgerEntry) -> bool {
        let LedgerEntry { kind, asset_id, ref from, ref to, .. } = *entry;
        let amount = entry.amount.get();
        self.deposits += u64::from(kind == LedgerKind::Deposit);
        let brought_in = &mut self.brought_in[usize::from(asset_id.0) - 1];
        if from.bucket == Bucket::Outside {
            *brought_in += amount;
            return self.balances.get_mut(to.account_id, asset_id).put(to, amount, false);
        }
        let Some(left) = brought_in.checked_sub(amount) else { return false };
        *brought_in = left;
        self.balances.get_mut(from.account_id, asset_id).take(from, amount)
    }

    #[cold]
    fn contradiction(&self, line: &OutputLine, entry: &LedgerEntry) -> String {
        let of = |place: &LedgerPlace| match place.bucket {
            Bucket::Outside => "outside".to_owned(),
            _ => format!("{:?}", self.balance(place.account_id, entry.asset_id)),
        };
        let found = match self.knows(entry.asset_id) {
            true => format!("they leave {} and {}", of(&entry.from), of(&entry.to)),
            false => format!("there are {} assets", self.brought_in.len()),
        };
        format!("input {}: {entry:?} contradicts the entries before it: {found}", line.cause.0)
    }

    #[inline(always)]
    fn knows(&self, asset_id: AssetId) -> bool {
        (1..=self.brought_in.len()).contains(&asset_id.0.into())
    }

    #[inline(never)]
    fn write(file: &mut FileWriter, line: &OutputLine, entry: &LedgerEntry) -> std::io::Result<()> {
        writeln!(
            file,
            "{},{},{},{},{},{},{},{},{},{},{},{},{}",
            line.cause.0,
            line.timestamp.0,
            entry.kind.code() as char,
            entry.asset_id.0,
            entry.amount.get(),
            entry.from.account_id.0,
            entry.from.bucket.code() as char,
            entry.from.version,
            entry.to.account_id.0,
            entry.to.bucket.code() as char,
            entry.to.version,
            entry.order_id.0,
            entry.trade_id.0,
        )
    }
}

impl Sink for LedgerSink {
    #[inline]
    fn take(&mut self, line: &OutputLine) -> Result<(), AgentError> {
        let mut taken = Ok(());
        line.outcome.each_entry(|entry| {
            if taken.is_ok() {
                taken = self.take_entry(line, &entry);
            }
        });
        if let Some(origin) = &mut self.origin {
            line.each(|output| {
                if taken.is_ok() {
                    taken = origin.take(output);
                }
            });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use market::{Event, OrderId, Outcome, Sequence, Timestamp, TradeId, Units};

    use super::*;

    fn entry(
        kind: LedgerKind,
        amount: u128,
        from: (u32, Bucket, u64),
        to: (u32, Bucket, u64),
    ) -> LedgerEntry {
        let place = |(account, bucket, version)| LedgerPlace {
            account_id: AccountId(account),
            bucket,
            version,
        };
        LedgerEntry {
            kind,
            asset_id: AssetId(1),
            amount: Units::new(amount),
            from: place(from),
            to: place(to),
            order_id: OrderId(7),
            trade_id: TradeId(0),
        }
    }

    fn take(ledger: &mut LedgerSink, entry: LedgerEntry) -> Result<(), String> {
        let (cause, timestamp) = (Sequence(9), Timestamp(0));
        let outcome = Outcome::Event(Event::Ledger(entry));
        let taken = ledger.take(&OutputLine { cause, timestamp, outcome });
        taken.map_err(|error| error.to_string())
    }

    /// Entries move their amounts; one that takes more than there is, skips or repeats a version, or names an unknown
    /// asset, ends the run with its input and the balances.
    #[test]
    fn entries_follow_one_another() {
        use Bucket::{Available, Outside, Reserved};
        use LedgerKind::{Deposit, Reserve, Settle};
        let funded = || {
            let mut ledger = LedgerSink::new(&InstrumentTable::default(), None, false);
            for entry in [
                entry(Deposit, 100, (0, Outside, 1), (1, Available, 1)),
                entry(Reserve, 60, (1, Available, 2), (1, Reserved, 2)),
                entry(Settle, 25, (1, Reserved, 3), (2, Available, 1)),
            ] {
                take(&mut ledger, entry).expect("each follows the one before");
            }
            ledger
        };
        let ledger = funded();
        let of = |account| ledger.balance(AccountId(account), AssetId(1));
        assert_eq!(of(1), Balance { available: 40, reserved: 35, version: 3 });
        assert_eq!(of(2), Balance { available: 25, reserved: 0, version: 1 });
        assert_eq!((ledger.entries(), ledger.deposits(), ledger.check()), (3, 1, Ok(())));

        let good = entry(Settle, 35, (1, Reserved, 4), (2, Available, 2));
        take(&mut funded(), good).expect("it follows");
        let mut wrong = [good; 6];
        wrong[0].amount = Units::new(36);
        wrong[1].from.version = 5;
        wrong[2].from.version = 3;
        wrong[3].to.version = 3;
        wrong[4].to.version = 1;
        wrong[5].asset_id = AssetId(0);
        for entry in wrong {
            let refused = take(&mut funded(), entry).expect_err("it does not follow");
            assert!(refused.starts_with("input 9: LedgerEntry"), "{refused}");
        }
    }
}
