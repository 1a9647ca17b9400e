//! The balances, computed from the ledger entries alone.
//!
//! Invariant: each entry's version is the next one of its balance.

use std::io::Write;

use crate::order_file::{FileWriter, InstrumentTable};
use market::{AccountId, AssetId, Bucket, LedgerEntry, LedgerKind, LedgerPlace, OutputLine};
use ring::AgentError;

use super::{origin::OriginRounding, output_consumer::Sink};

/// What an account has of an asset, in its smallest units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub available: u128,
    pub reserved: u128,
    pub version: u64,
}

impl Balance {
    #[inline]
    fn held_mut(&mut self, bucket: Bucket) -> &mut u128 {
        match bucket {
            Bucket::Reserved => &mut self.reserved,
            _ => &mut self.available,
        }
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

    #[inline]
    pub(super) fn get_mut(&mut self, account_id: AccountId, asset_id: AssetId) -> &mut Balance {
        let index = self.index(account_id, asset_id);
        if self.balances.len() <= index {
            self.balances.resize(index + 1, Balance::default());
        }
        &mut self.balances[index]
    }

    /// The balances of all accounts of the asset with this index.
    fn of_asset(&self, asset: usize) -> impl Iterator<Item = &Balance> {
        self.balances.iter().skip(asset).step_by(self.asset_count)
    }

    fn index(&self, account_id: AccountId, asset_id: AssetId) -> usize {
        account_id.0 as usize * self.asset_count + usize::from(asset_id.0) - 1
    }
}

/// Keeps every balance by the movements that the engine tells, and by nothing else.
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

    /// What it would have if the origin had rounded; `None` if that was not asked for.
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

    #[inline]
    fn take_entry(&mut self, line: &OutputLine, entry: &LedgerEntry) -> Result<(), AgentError> {
        self.book(entry).map_err(|what| {
            format!("the ledger does not add up at input {}: {what}", line.cause.0)
        })?;
        if let Some(file) = &mut self.file {
            Self::write(file, line, entry)?;
        }
        Ok(())
    }

    #[inline]
    fn book(&mut self, entry: &LedgerEntry) -> Result<(), String> {
        let amount = entry.amount.get();
        let asset = usize::from(entry.asset_id.0).wrapping_sub(1);
        let Some(brought_in) = self.brought_in.get_mut(asset) else {
            return Err(format!("there is no asset {}", entry.asset_id.0));
        };
        self.entries += 1;
        if entry.from.bucket == Bucket::Outside {
            *brought_in += amount;
        } else {
            let balance = self.balance_mut(&entry.from, entry.asset_id)?;
            let held = balance.held_mut(entry.from.bucket);
            let less = held.checked_sub(amount);
            *held = less.ok_or_else(|| format!("{:?} has only {held}", entry.from))?;
        }
        if entry.to.bucket == Bucket::Outside {
            self.brought_in[asset] -= amount;
        } else {
            let held = self.balance_mut(&entry.to, entry.asset_id)?.held_mut(entry.to.bucket);
            let more = held.checked_add(amount);
            *held = more.ok_or_else(|| format!("{:?} has {held} already", entry.to))?;
        }
        self.deposits += u64::from(entry.kind == LedgerKind::Deposit);
        Ok(())
    }

    /// The balance that a movement touches, which is the next one there.
    #[inline]
    fn balance_mut(
        &mut self,
        place: &LedgerPlace,
        asset_id: AssetId,
    ) -> Result<&mut Balance, String> {
        let balance = self.balances.get_mut(place.account_id, asset_id);
        if place.version < balance.version {
            return Err(format!("{place:?} comes after version {}", balance.version));
        }
        balance.version = place.version;
        Ok(balance)
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
