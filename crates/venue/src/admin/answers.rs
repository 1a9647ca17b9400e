//! Queries of the admin server, and their answers from the ledger.
//!
//! Invariant: an answer has all rows up to its `sequence`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::StatusCode;

use market::AccountId;
use ring::Cursor;
use serde_json::{Value as Json, json};

use super::Sources;
use crate::{
    ledger::{
        query::Ledger,
        readable::json_row,
        schema::{Table, Value},
        store::{Filter, LedgerStore, StoreError, StoreErrorKind},
    },
    stage::{JournalFigures, journal_status},
};

/// Rows of an answer: the default, and the maximum.
const ROWS_DEFAULT: usize = 100;
const ROWS_MAX: usize = 1000;

/// The paths, as the first page lists them.
const PLACES: &[&str] = &[
    "/status",
    "/stages",
    "/assets",
    "/instruments",
    "/accounts",
    "/trades?last=&before=",
    "/accounts/NAME/balances",
    "/accounts/NAME/orders?all=&last=&before=",
    "/accounts/NAME/fills?last=&before=",
    "/accounts/NAME/history?last=&before=",
    "/market",
    "/market/SYMBOL/top",
    "/market/SYMBOL/levels?depth=",
    "/market/SYMBOL/trades?last=",
    "/market/SYMBOL/statistics",
    "/market/stream?symbol=&kind=&depth=",
    "/operator/last",
    "POST /operator",
];

type Query = BTreeMap<String, String>;

pub(super) struct Asked {
    /// The last part of the path.
    pub(super) name: &'static str,
    /// The account in the path.
    pub(super) account: Option<String>,
}

/// The reason why a query has no answer.
pub(super) struct Wrong {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
    pub(super) what: String,
}

impl Wrong {
    fn new(status: StatusCode, reason: &'static str, what: impl Into<String>) -> Self {
        Self { status, reason, what: what.into() }
    }
}

pub(super) struct Answers {
    ledger: Option<Sources>,
    durable: Arc<Cursor>,
    journal: Arc<JournalFigures>,
    /// A server or file opened for reading; the embedded store is opened for each query.
    opened: Mutex<Option<Box<dyn LedgerStore>>>,
}

struct Page {
    table: Table,
    /// The name of the answer.
    name: &'static str,
    live: bool,
    /// True if rows have an order in time, so that a query can request the last ones.
    is_long: bool,
}

impl Page {
    const fn of(table: Table, name: &'static str) -> Self {
        let is_long = !table.place_columns().is_empty();
        Self { table, name, live: false, is_long }
    }
}

impl Answers {
    pub(super) fn new(
        ledger: Option<Sources>,
        durable: Arc<Cursor>,
        journal: Arc<JournalFigures>,
    ) -> Self {
        Self { ledger, durable, journal, opened: Mutex::new(None) }
    }

    pub(super) fn answer(&self, asked: &Asked, query: &Query) -> Result<Json, Wrong> {
        let page = match asked.name {
            "" => return no_query(query).map(|()| first_page()),
            "status" => return no_query(query).map(|()| self.status()),
            "assets" => Page::of(Table::Assets, "assets"),
            "instruments" => Page::of(Table::Instruments, "instruments"),
            "accounts" => Page::of(Table::Accounts, "accounts"),
            "trades" => Page::of(Table::Trades, "trades"),
            "balances" => Page::of(Table::Balances, "balances"),
            "orders" => Page { live: !flag(query, "all")?, ..Page::of(Table::Orders, "orders") },
            "fills" => Page::of(Table::Fills, "fills"),
            "history" => Page::of(Table::Entries, "history"),
            other => unreachable!("no route asks for {other}"),
        };
        self.rows(query, asked.account.as_deref(), page)
    }

    fn status(&self) -> Json {
        let durable = self.durable.get();
        let ledger = self.ledger.as_ref().map(|ledger| {
            let position = ledger.gauges.position.get();
            json!({ "sequence": position, "behind": durable.saturating_sub(position) })
        });
        json!({
            "schema": "damrak/admin-status/1",
            "durable": durable,
            "journal": journal_status(&self.journal),
            "ledger": ledger,
        })
    }

    fn rows(&self, query: &Query, account: Option<&str>, page: Page) -> Result<Json, Wrong> {
        let mut filter = filter(query, &page)?;
        let Some(sources) = &self.ledger else {
            let what = "this venue keeps no ledger: set ledger.store";
            return Err(Wrong::new(StatusCode::NOT_FOUND, "no_ledger", what));
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match opened.take() {
            Some(store) => store,
            None => sources.ledger.open_to_read().map_err(|error| unavailable(&error))?,
        };
        // The sequence is read first: rows after it may be in the answer, but no row up to it is missing.
        let mut ledger = Ledger::new(store).map_err(|error| unavailable(&error))?;
        let sequence = ledger.sequence().map_err(|error| unavailable(&error))?;
        if let Some(name) = account {
            let known = ledger.names().account(name);
            // The venue's own account, which has no name.
            let venue = (name == "-").then_some(AccountId::VENUE);
            let Some(account_id) = known.or(venue) else {
                *opened = ledger.into_store_to_keep();
                let what = format!("the ledger has no account {name:?}");
                return Err(Wrong::new(StatusCode::NOT_FOUND, "unknown_account", what));
            };
            filter.account_id = Some(account_id);
        }
        let mut rows: Vec<Vec<Value>> = Vec::new();
        // One row more shows whether there are others; a trade with oneself is two fills.
        let asked = filter.last;
        filter.last = asked.map(|last| last + 2);
        ledger
            .scan(page.table, &filter, &mut |values| {
                rows.push(values.to_vec());
                true
            })
            .map_err(|error| unavailable(&error))?;
        let next = asked.and_then(|last| cut(page.table, &mut rows, last));
        let names = ledger.names();
        let rows: Vec<_> = rows.iter().map(|row| json_row(page.table, row, names)).collect();
        let mut body = json!({
            "schema": format!("damrak/admin-{}/1", page.name),
            "sequence": sequence.0,
            "rows": rows,
        });
        if let Some(name) = account {
            body["account"] = json!(name);
        }
        if page.is_long {
            body["next"] = next.map_or(Json::Null, |next| json!(format!("before={next}")));
        }
        *opened = ledger.into_store_to_keep();
        Ok(body)
    }
}

/// Keeps this many rows, last first, and returns the place before which more rows follow.
fn cut(table: Table, rows: &mut Vec<Vec<Value>>, last: usize) -> Option<String> {
    if rows.len() <= last {
        return None;
    }
    let place = |rows: &Vec<Vec<Value>>, nth: usize| table.place(&rows[nth]);
    let mut count = last;
    // Both fills of a trade with oneself have the same place, and stay on one page.
    if place(rows, count - 1) == place(rows, count) {
        count += 1;
    }
    if rows.len() <= count {
        return None;
    }
    rows.truncate(count);
    let [first, second] = place(rows, count - 1);
    Some(match table.place_columns().len() {
        2 => format!("{first}.{second}"),
        _ => first.to_string(),
    })
}

fn first_page() -> Json {
    json!({
        "schema": "damrak/admin/1",
        "version": env!("CARGO_PKG_VERSION"),
        "ask": PLACES,
    })
}

fn filter(query: &Query, page: &Page) -> Result<Filter, Wrong> {
    let mut filter = Filter { live: page.live, ..Filter::default() };
    filter.last = page.is_long.then_some(ROWS_DEFAULT);
    for (name, value) in query {
        let wrong = |expected: &str| bad_query(format!("{name} is {value:?}: {expected}"));
        match name.as_str() {
            "all" if page.name == "orders" => {}
            "last" if page.is_long => {
                let last = value.parse().ok().filter(|last| (1..=ROWS_MAX).contains(last));
                filter.last = Some(last.ok_or_else(|| wrong("a number from 1 to 1000"))?);
            }
            "before" if page.is_long => {
                let (first, second) = value.split_once('.').unwrap_or((value, "0"));
                let numbers = first.parse().and_then(|first| Ok([first, second.parse()?]));
                filter.before = Some(numbers.map_err(|_| wrong("a place, as `next` names it"))?);
            }
            _ => {
                return Err(bad_query(format!("{} has no parameter `{name}`", page.name)));
            }
        }
    }
    Ok(filter)
}

fn no_query(query: &Query) -> Result<(), Wrong> {
    match query.keys().next() {
        None => Ok(()),
        Some(name) => Err(bad_query(format!("`{name}` is not known"))),
    }
}

fn flag(query: &Query, name: &str) -> Result<bool, Wrong> {
    match query.get(name).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(bad_query(format!("{name} is {other:?}: true or false"))),
    }
}

fn bad_query(what: String) -> Wrong {
    Wrong::new(StatusCode::BAD_REQUEST, "bad_query", what)
}

fn unavailable(error: &StoreError) -> Wrong {
    let (status, reason) = match error.kind {
        StoreErrorKind::Unavailable | StoreErrorKind::Moved => {
            (StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable")
        }
        StoreErrorKind::Foreign => (StatusCode::INTERNAL_SERVER_ERROR, "ledger_foreign"),
        StoreErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "ledger_corrupt"),
    };
    Wrong::new(status, reason, error.to_string())
}
