//! Verifies a ledger: its entries alone must give its balances, and every table must equal the table that follows from
//! the journal, the engine's own balances included.

use std::{collections::BTreeMap, path::Path};

use engine::Engine;
use journal::Folder;
use market::{AccountId, AssetId, Sequence};
use sha2::{Digest, Sha256};

use super::{
    embedded::Embedded,
    export::line,
    projection::{Change, apply, balance_of, changes},
    query::{catch_up, rows},
    schema::{AssetRow, BalanceRow, EntryRow, OrderRow, Row, Table, Value},
    store::{Filter, LedgerStore, StoreError},
};
use crate::follower::Follower;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The last input of the ledger.
    pub sequence: Sequence,
    /// The rows of each table, and their SHA-256 as lines of the export.
    pub tables: BTreeMap<Table, TableDigest>,
    /// The errors found; empty if the ledger is correct.
    pub wrong: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDigest {
    pub row_count: u64,
    pub sha256: String,
}

/// Checks a ledger alone, and, if a journal is given, against the journal and the engine.
pub fn verify(store: &mut dyn LedgerStore, journal: Option<&Path>) -> Result<Findings, StoreError> {
    let sequence = store.position()?.map_or(Sequence::NONE, |position| position.sequence);
    let mut findings = Findings { sequence, ..Findings::default() };
    for table in Table::ALL {
        findings.tables.insert(*table, digest(store, *table)?);
    }
    entries_give_balances(store, &mut findings.wrong)?;
    if let Some(journal) = journal {
        let mut expected = Embedded::in_memory();
        // Before the first input there are no rows, whether the journal has begun or not.
        let follower = match findings.sequence {
            Sequence::NONE => Follower::from_the_first(&Folder::new(journal), None),
            until => catch_up(&mut expected, journal, until.0, &mut |_| {})?,
        };
        for table in Table::ALL {
            if digest(&mut expected, *table)? != findings.tables[table] {
                let what = first_difference(store, &mut expected, *table)?;
                findings.wrong.push(format!("{} differs from the journal: {what}", table.name()));
            }
        }
        engine_agrees(store, follower.engine(), &mut findings.wrong)?;
    }
    Ok(findings)
}

fn digest(store: &mut dyn LedgerStore, table: Table) -> Result<TableDigest, StoreError> {
    let (mut row_count, mut hash, mut text) = (0, Sha256::new(), String::new());
    store.scan(table, &Filter::default(), &mut |values| {
        text.clear();
        line(table.columns(), values, &mut text);
        hash.update(text.as_bytes());
        row_count += 1;
        true
    })?;
    let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(TableDigest { row_count, sha256: digits })
}

fn first_difference(
    found: &mut dyn LedgerStore,
    expected: &mut dyn LedgerStore,
    table: Table,
) -> Result<String, StoreError> {
    let mut wanted: Vec<Vec<Value>> = Vec::new();
    expected.scan(table, &Filter::default(), &mut |values| {
        wanted.push(values.to_vec());
        true
    })?;
    let (mut nth, mut difference) = (0, None);
    found.scan(table, &Filter::default(), &mut |values| {
        if wanted.get(nth).is_none_or(|wanted| wanted != values) {
            difference = Some(values.to_vec());
            return false;
        }
        nth += 1;
        true
    })?;
    let show = |values: Option<&Vec<Value>>| {
        let mut text = String::new();
        match values {
            Some(values) => line(table.columns(), values, &mut text),
            None => text.push_str("nothing"),
        }
        text.trim_end().to_owned()
    };
    Ok(format!(
        "row {} is {}, expected {}",
        nth + 1,
        show(difference.as_ref()),
        show(wanted.get(nth))
    ))
}

/// Checks that the entries alone, in order, give the balances, with each version once.
fn entries_give_balances(
    store: &mut dyn LedgerStore,
    wrong: &mut Vec<String>,
) -> Result<(), StoreError> {
    let mut balances = BTreeMap::<(AccountId, AssetId), BalanceRow>::new();
    let mut issued = BTreeMap::<AssetId, (i128, u64)>::new();
    let mut last = (Sequence::NONE, 0);
    let mut found = Vec::new();
    store.scan(Table::Entries, &Filter::default(), &mut |values| {
        let Some(row) = EntryRow::from_values(values) else {
            found.push(format!("{values:?} is not a valid entry"));
            return false;
        };
        let expected = if row.sequence == last.0 { last.1 + 1 } else { 1 };
        if row.nth != expected {
            found.push(format!("{row:?} is not entry {expected} of its input"));
        }
        last = (row.sequence, row.nth);
        let is_one_balance = row.from_account_id == row.to_account_id;
        for (end, change) in changes(&row).into_iter().enumerate() {
            let (before, after) = match change {
                Change::Balance { place, amount } => {
                    let balance = balance_of(&mut balances, place, row.asset_id);
                    let before = balance.version;
                    apply(balance, place, amount, row.sequence);
                    // The second half of a movement within one balance is the same version.
                    let is_second = end == 1 && is_one_balance && before == place.version;
                    (before - u64::from(is_second && before > 0), place.version)
                }
                Change::Issued { version, amount } => {
                    let (sum, before) = issued.entry(row.asset_id).or_default();
                    *sum += amount;
                    (std::mem::replace(before, version), version)
                }
            };
            if before + 1 != after {
                found.push(format!("{row:?} follows version {before}"));
            }
        }
        found.len() < 10
    })?;
    wrong.append(&mut found);
    let stored: Vec<BalanceRow> = rows(store, &Filter::default())?;
    let computed: Vec<_> = balances.into_values().collect();
    if stored != computed {
        let difference = stored.iter().zip(&computed).find(|(stored, computed)| stored != computed);
        wrong.push(format!(
            "balances are not the sums of the entries: {} rows, {} expected; first: {difference:?}",
            stored.len(),
            computed.len()
        ));
    }
    for asset in rows::<AssetRow>(store, &Filter::default())? {
        let (sum, version) = issued.remove(&asset.asset_id).unwrap_or_default();
        if (asset.issued, asset.version) != (sum, version) {
            wrong.push(format!("{asset:?}: the entries give {sum} at version {version}"));
        }
    }
    Ok(())
}

/// Checks that the engine has the same balances and live orders at this sequence.
fn engine_agrees(
    store: &mut dyn LedgerStore,
    engine: &Engine,
    wrong: &mut Vec<String>,
) -> Result<(), StoreError> {
    let balances: BTreeMap<_, _> = rows::<BalanceRow>(store, &Filter::default())?
        .into_iter()
        .map(|row| ((row.account_id, row.asset_id), (row.available, row.reserved, row.version)))
        .collect();
    let mut known = BTreeMap::new();
    for account in engine.accounts() {
        for balance in engine.balances(account.account_id).filter(|balance| balance.version != 0) {
            let reserved = balance.reserved.cast_signed();
            known.insert(
                (balance.account_id, balance.asset_id),
                (balance.available, reserved, balance.version),
            );
        }
    }
    if balances != known {
        let difference = known.iter().find(|(key, value)| balances.get(key) != Some(value));
        wrong.push(format!("the engine has other balances; first: {difference:?}"));
    }
    for asset in rows::<AssetRow>(store, &Filter::default())? {
        if engine.issued(asset.asset_id).map(u128::cast_signed) != Some(asset.issued) {
            wrong.push(format!("the engine has issued another amount than {asset:?}"));
        }
    }
    let live = rows::<OrderRow>(store, &Filter { live: true, ..Filter::default() })?;
    let orders_live = u64::from(engine.counters().orders_live);
    if live.len() as u64 != orders_live {
        wrong.push(format!("{} orders are live, but {orders_live} in the engine", live.len()));
    }
    for order in live {
        let key = market::OrderKey {
            session_id: order.session_id,
            channel: order.channel,
            user_ref_num: order.user_ref_num,
        };
        let resting = engine.order(key).map(|order| (order.order_id, order.leaves));
        if resting.is_some_and(|resting| resting != (order.order_id, order.leaves)) {
            wrong.push(format!("{order:?} is {resting:?} in the engine"));
        }
    }
    Ok(())
}
