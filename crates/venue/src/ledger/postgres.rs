//! The store on a server of PostgreSQL: a schema `damrak` with the tables of the ledger, filled by COPY.
//!
//! Rows that change are copied aside and merged. Invariant: rows and position change in one transaction, and no
//! wait for the server is longer than [`WAIT_MAX`].

use std::{fmt::Write, future::Future, io::Cursor, pin::pin, time::Duration};

use futures::{SinkExt, StreamExt};
use tokio::{runtime::Runtime, time::timeout};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, config::Host};

use super::{
    projection::RowBatch,
    schema::{Column, Kind, Table, Value},
    sql::{Dialect, key_columns, position, select},
    store::{Filter, LedgerStore, StoreError, StorePosition, check_position, check_version},
};
use crate::failure::causes;

/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The longest wait for an answer, or for its next row.
const WAIT_MAX: Duration = Duration::from_secs(30);

const DIALECT: Dialect = Dialect { prefix: "damrak.", type_of: sql_type, table_end: "" };

pub struct Postgres {
    /// Runs the connection during the wait for an answer.
    runtime: Runtime,
    client: Client,
    lines: String,
}

impl Postgres {
    /// Checks that the URL is valid.
    pub fn check_url(url: &str) -> Result<(), String> {
        parse(url).map(|_| ())
    }

    /// Connects, and makes the tables if there are none.
    ///
    /// # Errors
    /// The server does not answer, refuses the login, or has tables of another version.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let config = parse(url).map_err(StoreError::foreign)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StoreError::unavailable)?;
        let connected = runtime.block_on(async { timeout(WAIT_MAX, config.connect(NoTls)).await });
        let (client, connection) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(not_connected(&error)),
            Err(_) => return Err(StoreError::unavailable("PostgreSQL does not answer")),
        };
        // The task ends with the client; its errors appear at the next query.
        runtime.spawn(async move { drop(connection.await) });
        let mut store = Self { runtime, client, lines: String::new() };
        store.run("SET client_min_messages = warning; SET synchronous_commit = on")?;
        store.make_tables()?;
        Ok(store)
    }

    fn make_tables(&mut self) -> Result<(), StoreError> {
        // One at a time: two clients that create the same table at once would fail.
        self.run(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(6872); CREATE SCHEMA IF NOT EXISTS damrak; {}COMMIT",
            DIALECT.create()
        ))?;
        let row = self.first_row("SELECT schema FROM damrak.position")?;
        let version = row.first().and_then(|text| text.parse().ok());
        check_version("on PostgreSQL", version.unwrap_or(0))?;
        for table in Table::ALL.iter().filter(|table| !table.is_append_only()) {
            let name = table.name();
            self.run(&format!(
                "CREATE TEMPORARY TABLE changed_{name} (LIKE damrak.{name}) ON COMMIT DELETE ROWS"
            ))?;
        }
        Ok(())
    }

    fn read_position(&mut self, lock: &str) -> Result<Option<StorePosition>, StoreError> {
        let row =
            self.first_row(&format!("SELECT journal_id, sequence FROM damrak.position{lock}"))?;
        let [journal_id, sequence] = row.as_slice() else { return Ok(None) };
        let (journal_id, sequence) = (journal_id.parse().ok(), sequence.parse().ok());
        Ok(journal_id.zip(sequence).map(|(id, sequence)| position(id, sequence)))
    }

    fn transaction(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError> {
        self.run("BEGIN")?;
        check_position(self.read_position(" FOR UPDATE")?, journal_id, batch)?;
        for table in Table::ALL {
            self.lines.clear();
            let (lines, columns) = (&mut self.lines, table.columns());
            let Ok(()) = batch.each(*table, &mut |values| {
                line(columns, values, lines);
                Ok::<(), std::convert::Infallible>(())
            });
            if self.lines.is_empty() {
                continue;
            }
            let name = table.name();
            if table.is_append_only() {
                self.copy(&format!("COPY damrak.{name} FROM STDIN"))?;
                continue;
            }
            self.copy(&format!("COPY changed_{name} FROM STDIN"))?;
            let others = &columns[table.key_len()..];
            let set: Vec<_> =
                others.iter().map(|it| format!("{0} = excluded.{0}", it.name)).collect();
            self.run(&format!(
                "INSERT INTO damrak.{name} SELECT * FROM changed_{name} ON CONFLICT ({}) DO UPDATE \
                 SET {}",
                key_columns(*table),
                set.join(", ")
            ))?;
        }
        self.run(&format!(
            "UPDATE damrak.position SET journal_id = {}, sequence = {}; COMMIT",
            journal_id.cast_signed(),
            batch.sequence
        ))
    }
}

impl Postgres {
    fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        wait(&self.runtime, self.client.batch_execute(sql))
    }

    /// The texts of the first row; empty if there is none, or a text is null.
    fn first_row(&mut self, sql: &str) -> Result<Vec<String>, StoreError> {
        let messages = wait(&self.runtime, self.client.simple_query(sql))?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let texts = |row: &tokio_postgres::SimpleQueryRow| {
            (0..row.len()).map(|nth| row.get(nth).map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        Ok(row.and_then(texts).unwrap_or_default())
    }

    fn copy(&mut self, sql: &str) -> Result<(), StoreError> {
        let Self { runtime, client, lines } = self;
        let lines = Cursor::new(std::mem::take(lines));
        wait(runtime, async {
            let mut sink = pin!(client.copy_in(sql).await?);
            sink.send(lines).await?;
            sink.finish().await.map(drop)
        })
    }
}

impl LedgerStore for Postgres {
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        self.read_position("")
    }

    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError> {
        let done = self.transaction(journal_id, batch);
        if done.is_err() {
            // Best effort: after an error the store is opened again, which ends the transaction as well.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        let sql = format!("COPY ({}) TO STDOUT", select(table, "damrak.", filter));
        let Self { runtime, client, .. } = self;
        let mut stream = pin!(wait(runtime, client.copy_out(&sql))?);
        let (mut values, mut text) = (Vec::new(), String::new());
        while let Some(bytes) = wait(runtime, async { stream.next().await.transpose() })? {
            // A message is a row with its line end.
            text.clear();
            text.push_str(
                str::from_utf8(&bytes).map_err(StoreError::corrupt)?.trim_end_matches('\n'),
            );
            values.clear();
            for (column, field) in table.columns().iter().zip(text.split('\t')) {
                values.extend(column.kind.parse(&field.replace("\\\\", "\\")));
            }
            if values.len() != table.columns().len() {
                let what = format!("{} has the invalid row {text:?}", table.name());
                return Err(StoreError::corrupt(what));
            }
            if !each(&values) {
                break;
            }
        }
        Ok(())
    }
}

/// Waits for an answer, at most [`WAIT_MAX`].
fn wait<T>(
    runtime: &Runtime,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match runtime.block_on(async { timeout(WAIT_MAX, answer).await }) {
        Ok(answer) => answer.map_err(|error| failed(&error)),
        Err(_) => {
            let seconds = WAIT_MAX.as_secs();
            Err(StoreError::unavailable(format!("PostgreSQL did not answer for {seconds} s")))
        }
    }
}

/// The address of a server: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The host may be `?host=/folder`, of a Unix
/// socket. User `damrak` and host `localhost` are the defaults.
fn parse(url: &str) -> Result<Config, String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE".into());
    }
    let mut config: Config = url.parse().map_err(|error| causes(&error))?;
    if config.get_user().is_none() {
        config.user("damrak");
    }
    if !config.get_hosts().iter().any(|host| *host != Host::Tcp(String::new())) {
        config.host("localhost");
    }
    config.application_name("damrak").connect_timeout(CONNECT_MAX);
    Ok(config)
}

/// The error of a query that got no answer, or a refusal.
fn failed(error: &tokio_postgres::Error) -> StoreError {
    let what = format!("PostgreSQL: {}", causes(error));
    // Another login, another database, another table: these errors do not pass without an intervention.
    let class = error.code().map_or("", |code| &code.code()[..2]);
    if matches!(class, "28" | "3D" | "42") {
        StoreError::foreign(what)
    } else {
        StoreError::unavailable(what)
    }
}

/// The error of a failed connection: the server is not there, or the login is wrong.
fn not_connected(error: &tokio_postgres::Error) -> StoreError {
    let found = failed(error);
    let is_down = error.as_db_error().is_some()
        || error.is_closed()
        || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
    if is_down { found } else { StoreError::foreign(found.what) }
}

fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer(8) => "bigint",
        Kind::Integer(4) => "bigint",
        Kind::Integer(_) => "integer",
        Kind::Amount => "numeric(39)",
        Kind::Word(_) | Kind::Text(_) => "text",
    }
}

/// A row in COPY's text format. Of its special characters only the backslash ever occurs in a text.
fn line(columns: &[Column], values: &[Value], out: &mut String) {
    for (nth, (column, value)) in columns.iter().zip(values).enumerate() {
        if nth > 0 {
            out.push('\t');
        }
        match value {
            Value::Text(text) => {
                text.as_str().chars().for_each(|it| match it {
                    '\\' => out.push_str("\\\\"),
                    it => out.push(it),
                });
            }
            value => {
                let _ = write!(out, "{}", column.kind.show(value));
            }
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Text;

    /// A row is a line, and keeps a backslash.
    #[test]
    fn rows_are_lines() {
        let columns = Table::Instruments.columns();
        let mut lines = String::new();
        line(columns, &[Value::Integer(3), Value::Text(Text::new("A\\N").unwrap())], &mut lines);
        assert_eq!(lines, "3\tA\\\\N\n");
    }

    /// A URL names a server, by an address or a folder; missing parts have defaults.
    #[test]
    fn urls_are_read() {
        let config = parse("postgres://me:p%40ss@db.example:6000/venue").unwrap();
        assert_eq!(config.get_hosts(), [Host::Tcp("db.example".into())]);
        assert_eq!((config.get_user(), config.get_password()), (Some("me"), Some(&b"p@ss"[..])));
        let config = parse("postgres:///venue?host=/run/pg&port=7").unwrap();
        assert_eq!(config.get_hosts(), [Host::Unix("/run/pg".into())]);
        assert_eq!((config.get_user(), config.get_ports()), (Some("damrak"), &[7][..]));
        assert_eq!(parse("postgres:///").unwrap().get_hosts(), [Host::Tcp("localhost".into())]);
        assert!(parse("mysql://x").unwrap_err().contains("postgres://"));
    }
}
