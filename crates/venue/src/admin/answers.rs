//! What there is to ask, and what is answered.

use std::sync::{Mutex, PoisonError};

use market::AccountId;
use serde_json::{Value as Json, json};

use super::{
    Sources,
    http::{Request, Response},
};
use crate::ledger::{
    query::Ledger,
    readable::json_row,
    schema::{Table, Value},
    store::{Filter, LedgerStore, StoreError, StoreErrorKind},
};

/// Rows of an answer if it is not said how many, and at most.
const ROWS_DEFAULT: usize = 100;
const ROWS_MAX: usize = 1000;

/// What can be asked, as the first page tells it.
const PLACES: &[&str] = &[
    "/status",
    "/assets",
    "/instruments",
    "/accounts",
    "/trades?last=&before=",
    "/accounts/NAME/balances",
    "/accounts/NAME/orders?all=&last=&before=",
    "/accounts/NAME/fills?last=&before=",
    "/accounts/NAME/history?last=&before=",
];

/// Answers one after the other.
pub(super) struct Answers {
    sources: Sources,
    /// A server or a file that was opened to be read; the embedded store is asked for each time.
    opened: Mutex<Option<Box<dyn LedgerStore>>>,
}

/// Which rows.
struct Page {
    table: Table,
    /// What the answer is called.
    name: &'static str,
    live: bool,
    /// True if they come one after the other, so that the last ones can be asked for.
    is_long: bool,
}

impl Page {
    const fn of(table: Table, name: &'static str) -> Self {
        let is_long = !table.place_columns().is_empty();
        Self { table, name, live: false, is_long }
    }
}

impl Answers {
    pub(super) fn new(sources: Sources) -> Self {
        Self { sources, opened: Mutex::new(None) }
    }

    pub(super) fn answer(&self, request: &Request) -> Response {
        let path: Vec<_> = request.path.iter().map(String::as_str).collect();
        let answered = match path[..] {
            [] => no_query(request).map(|()| first_page()),
            ["status"] => no_query(request).map(|()| self.status()),
            ["assets"] => self.rows(request, None, Page::of(Table::Assets, "assets")),
            ["instruments"] => {
                self.rows(request, None, Page::of(Table::Instruments, "instruments"))
            }
            ["accounts"] => self.rows(request, None, Page::of(Table::Accounts, "accounts")),
            ["trades"] => self.rows(request, None, Page::of(Table::Trades, "trades")),
            ["accounts", account, "balances"] => {
                self.rows(request, Some(account), Page::of(Table::Balances, "balances"))
            }
            ["accounts", account, "orders"] => match flag(request, "all") {
                Ok(all) => {
                    let page = Page { live: !all, ..Page::of(Table::Orders, "orders") };
                    self.rows(request, Some(account), page)
                }
                Err(response) => Err(response),
            },
            ["accounts", account, "fills"] => {
                self.rows(request, Some(account), Page::of(Table::Fills, "fills"))
            }
            ["accounts", account, "history"] => {
                self.rows(request, Some(account), Page::of(Table::Entries, "history"))
            }
            _ => Err(Response::error(
                404,
                "unknown_path",
                &format!("there is no /{}; / says what there is", path.join("/")),
            )),
        };
        answered.unwrap_or_else(|response| response)
    }

    fn status(&self) -> Response {
        let (position, durable) = (self.sources.gauges.position.get(), self.sources.durable.get());
        Response::ok(json!({
            "schema": "damrak/admin-status/1",
            "durable": durable,
            "ledger": { "sequence": position, "behind": durable.saturating_sub(position) },
        }))
    }

    /// Rows of everybody, or of an account.
    fn rows(
        &self,
        request: &Request,
        account: Option<&str>,
        page: Page,
    ) -> Result<Response, Response> {
        let mut filter = filter(request, &page)?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match opened.take() {
            Some(store) => store,
            None => self.sources.ledger.open_to_read().map_err(|error| unavailable(&error))?,
        };
        // What may be there without being told is told; what is told is there.
        let mut ledger = Ledger::new(store).map_err(|error| unavailable(&error))?;
        let sequence = ledger.sequence().map_err(|error| unavailable(&error))?;
        if let Some(name) = account {
            let known = ledger.names().account(name);
            // The venue's own, which has no name.
            let venue = (name == "-").then_some(AccountId::VENUE);
            let Some(account_id) = known.or(venue) else {
                *opened = ledger.into_store_to_keep();
                let what = format!("the ledger has no account {name:?}");
                return Err(Response::error(404, "unknown_account", &what));
            };
            filter.account_id = Some(account_id);
        }
        let mut rows: Vec<Vec<Value>> = Vec::new();
        // One more says whether there are others, and a trade with oneself is two fills.
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
        Ok(Response::ok(body))
    }
}

/// Leaves so many rows, last first, and says before which place there are more.
fn cut(table: Table, rows: &mut Vec<Vec<Value>>, last: usize) -> Option<String> {
    if rows.len() <= last {
        return None;
    }
    let place = |rows: &Vec<Vec<Value>>, nth: usize| table.place(&rows[nth]);
    let mut count = last;
    // Both fills of a trade with oneself are at one place, and are not told apart.
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

fn first_page() -> Response {
    Response::ok(json!({
        "schema": "damrak/admin/1",
        "version": env!("CARGO_PKG_VERSION"),
        "ask": PLACES,
    }))
}

fn filter(request: &Request, page: &Page) -> Result<Filter, Response> {
    let mut filter = Filter { live: page.live, ..Filter::default() };
    filter.last = page.is_long.then_some(ROWS_DEFAULT);
    for (name, value) in &request.query {
        let wrong = |expected: &str| {
            let what = format!("{name} is {value:?}: {expected}");
            Response::error(400, "bad_query", &what)
        };
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
                let what = format!("{} knows no `{name}`", page.name);
                return Err(Response::error(400, "bad_query", &what));
            }
        }
    }
    Ok(filter)
}

fn no_query(request: &Request) -> Result<(), Response> {
    match request.query.keys().next() {
        None => Ok(()),
        Some(name) => Err(Response::error(400, "bad_query", &format!("`{name}` is not known"))),
    }
}

fn flag(request: &Request, name: &str) -> Result<bool, Response> {
    match request.query.get(name).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            Err(Response::error(400, "bad_query", &format!("{name} is {other:?}: true or false")))
        }
    }
}

fn unavailable(error: &StoreError) -> Response {
    let (status, reason) = match error.kind {
        StoreErrorKind::Unavailable | StoreErrorKind::Moved => (503, "ledger_unavailable"),
        StoreErrorKind::Foreign => (500, "ledger_foreign"),
        StoreErrorKind::Corrupt => (500, "ledger_corrupt"),
    };
    Response::error(status, reason, &error.to_string())
}
