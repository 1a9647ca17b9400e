//! Queries of a ledger, in any store.

use std::{collections::BTreeMap, path::Path};

use journal::{Folder, Storage};
use market::{AccountId, AssetId, InstrumentId, Sequence};

use super::{
    embedded::Embedded,
    projection::Projection,
    schema::{AccountRow, AssetRow, InstrumentRow, Row, Table, Value},
    store::{Filter, LedgerStore, StoreError, foreign_journal},
};
use crate::{
    failure::{ExitCode, Failure},
    follower::Follower,
};

/// Inputs replayed per commit.
const REPLAY_LIMIT: usize = 16_384;
/// Rows per commit.
const ROWS_MAX: usize = 50_000;

pub struct Ledger {
    store: Box<dyn LedgerStore>,
    names: Names,
}

/// The printed names for the numbers in rows.
#[derive(Clone, Debug, Default)]
pub struct Names {
    accounts: BTreeMap<AccountId, AccountRow>,
    assets: BTreeMap<AssetId, AssetRow>,
    instruments: BTreeMap<InstrumentId, InstrumentRow>,
}

impl Ledger {
    /// Queries a store.
    pub fn new(mut store: Box<dyn LedgerStore>) -> Result<Self, StoreError> {
        let every = Filter::default();
        let accounts = rows::<AccountRow>(&mut *store, &every)?;
        let assets = rows::<AssetRow>(&mut *store, &every)?;
        let instruments = rows::<InstrumentRow>(&mut *store, &every)?;
        let names = Names {
            accounts: accounts.into_iter().map(|row| (row.account_id, row)).collect(),
            assets: assets.into_iter().map(|row| (row.asset_id, row)).collect(),
            instruments: instruments.into_iter().map(|row| (row.instrument_id, row)).collect(),
        };
        Ok(Self { store, names })
    }

    /// Queries the rows that follow from a journal, without a store.
    pub fn of_journal(directory: &Path) -> Result<Self, StoreError> {
        let mut store = Embedded::in_memory();
        catch_up(&mut store, directory, u64::MAX, &mut |_| {})?;
        Self::new(Box::new(store))
    }

    /// The last input whose rows are known.
    pub fn sequence(&mut self) -> Result<Sequence, StoreError> {
        Ok(self.store.position()?.map_or(Sequence::NONE, |position| position.sequence))
    }

    /// The printed names for the numbers in rows.
    pub fn names(&self) -> &Names {
        &self.names
    }

    pub fn rows<R: Row>(&mut self, filter: &Filter) -> Result<Vec<R>, StoreError> {
        rows(&mut *self.store, filter)
    }

    /// Returns the store if it may be kept open for the next query.
    pub fn into_store_to_keep(self) -> Option<Box<dyn LedgerStore>> {
        self.store.may_be_kept().then_some(self.store)
    }

    /// Passes each row of a table with its values to `each`, until that returns false.
    pub fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        self.store.scan(table, filter, each)
    }
}

impl Names {
    pub fn account(&self, name: &str) -> Option<AccountId> {
        let mut accounts = self.accounts.values();
        accounts.find(|row| row.name.as_str() == name).map(|row| row.account_id)
    }

    /// The name of an account; the venue's is `-`.
    pub fn account_name(&self, account_id: AccountId) -> String {
        let known = self.accounts.get(&account_id);
        known.map_or_else(|| "-".to_owned(), |row| row.name.to_string())
    }

    /// The name of an asset; `?` if there is none.
    pub fn asset_name(&self, asset_id: AssetId) -> String {
        self.assets.get(&asset_id).map_or_else(|| "?".to_owned(), |row| row.name.to_string())
    }

    /// The symbol of an instrument; `?` if there is none.
    pub fn symbol(&self, instrument_id: InstrumentId) -> String {
        let known = self.instruments.get(&instrument_id);
        known.map_or_else(|| "?".to_owned(), |row| row.symbol.to_string())
    }

    /// An amount in units of an asset as people write it: 12345 of an asset with two decimals is 123.45.
    pub fn amount(&self, asset_id: AssetId, units: i128) -> String {
        let decimals = self.assets.get(&asset_id).map_or(0, |row| usize::from(row.decimals));
        let sign = if units < 0 { "-" } else { "" };
        let digits = format!("{:0>1$}", units.unsigned_abs(), decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        match fraction.is_empty() {
            true => format!("{sign}{whole}"),
            false => format!("{sign}{whole}.{fraction}"),
        }
    }
}

pub(crate) fn rows<R: Row>(
    store: &mut dyn LedgerStore,
    filter: &Filter,
) -> Result<Vec<R>, StoreError> {
    let mut rows = Vec::new();
    let mut wrong = None;
    store.scan(R::TABLE, filter, &mut |values| match R::from_values(values) {
        Some(row) => {
            rows.push(row);
            true
        }
        None => {
            wrong = Some(format!("{} has the invalid row {values:?}", R::TABLE.name()));
            false
        }
    })?;
    match wrong {
        None => Ok(rows),
        Some(what) => Err(StoreError::corrupt(what)),
    }
}

/// Brings a store to the end of a journal, or to `until`, and returns the follower, which is at that input. `after` is
/// called with the position after each commit.
///
/// # Errors
/// The journal or the store cannot be used, or the store is of another journal.
pub fn catch_up(
    store: &mut dyn LedgerStore,
    directory: &Path,
    until: u64,
    after: &mut dyn FnMut(Sequence),
) -> Result<Follower, StoreError> {
    let position = store.position()?;
    let sequence = position.map_or(Sequence::NONE, |position| position.sequence);
    let mut rows = Projection::load(store, sequence)?;
    let unreadable = |failure: Failure| match failure.exit_code {
        ExitCode::Verification => StoreError::corrupt(failure.what),
        _ => StoreError::unavailable(failure.what),
    };
    let storage = Folder::new(directory);
    let mut follower =
        Follower::begin(&storage, &mut *storage.second(), sequence.0, None).map_err(unreadable)?;
    loop {
        let read = follower
            .poll(REPLAY_LIMIT, until, &mut |line| line.each(|output| rows.take(output)))
            .map_err(unreadable)?;
        rows.complete(follower.engine().sequence())?;
        let journal_id = follower.journal_id().ok_or_else(|| {
            StoreError::foreign(format!("there is no journal in {}", directory.display()))
        })?;
        if let Some(position) = position.filter(|it| it.journal_id != journal_id) {
            return Err(foreign_journal(position, journal_id));
        }
        if rows.is_ahead() && (read == 0 || rows.batch.row_count() >= ROWS_MAX) {
            store.commit(journal_id, &rows.batch)?;
            rows.stored();
            after(rows.batch.sequence);
        }
        if read == 0 {
            break;
        }
    }
    if follower.engine().sequence() < sequence.min(Sequence(until)) {
        return Err(StoreError::foreign(format!(
            "the ledger store goes up to input {sequence}, and the journal in {} only to {}",
            directory.display(),
            follower.sequence()
        )));
    }
    Ok(follower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Text;

    /// Amounts in units print exactly, as people write them.
    #[test]
    fn amounts_are_readable() {
        let mut names = Names::default();
        for (asset_id, decimals) in [(AssetId(1), 2), (AssetId(2), 0), (AssetId(3), 18)] {
            let name = Text::new("X").unwrap();
            let row = AssetRow { asset_id, name, decimals, issued: 0, version: 0 };
            names.assets.insert(asset_id, row);
        }
        assert_eq!(names.amount(AssetId(1), 12_345), "123.45");
        assert_eq!(names.amount(AssetId(1), -5), "-0.05");
        assert_eq!(names.amount(AssetId(2), 7), "7");
        assert_eq!(names.amount(AssetId(3), 1), "0.000000000000000001");
    }
}
