//! The store on a server of PostgreSQL: a schema `damrak` with the tables of the ledger, filled by
//! COPY. Rows that change are copied aside and merged, in the same transaction.

mod address;
mod client;
mod scram;

use std::fmt::Write;

use market::Sequence;

use address::Address;
pub(crate) use address::without_password;
use client::{Client, Fields};

use super::{
    projection::Batch,
    schema::{Column, Kind, SCHEMA_VERSION, Table, Value},
    sql::{key_columns, select},
    store::{Filter, LedgerStore, StoreError, StorePosition, check_position},
};

/// See the module.
pub struct Postgres {
    client: Client,
    lines: String,
}

impl Postgres {
    /// True if the URL is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_url(url: &str) -> Result<(), String> {
        Address::parse(url).map(|_| ())
    }

    /// Connects, and makes the tables if there are none.
    ///
    /// # Errors
    /// It does not answer, does not let us in, or has tables of another version.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url).map_err(StoreError::foreign)?;
        let mut store = Self { client: Client::connect(&address)?, lines: String::new() };
        store.client.run("SET client_min_messages = warning; SET synchronous_commit = on")?;
        store.make_tables()?;
        Ok(store)
    }

    fn make_tables(&mut self) -> Result<(), StoreError> {
        // One at a time: two that make the same table at once would fail.
        let mut sql = String::from(
            "BEGIN; SELECT pg_advisory_xact_lock(6872); CREATE SCHEMA IF NOT EXISTS damrak;\n\
             CREATE TABLE IF NOT EXISTS damrak.position (\
             one boolean PRIMARY KEY DEFAULT true CHECK (one), schema bigint NOT NULL, \
             journal_id bigint, sequence bigint);\n",
        );
        let _ = writeln!(
            sql,
            "INSERT INTO damrak.position (schema) VALUES ({SCHEMA_VERSION}) ON CONFLICT DO NOTHING;"
        );
        for table in Table::ALL {
            let name = table.name();
            let columns: Vec<_> = table
                .columns()
                .iter()
                .map(|column| format!("{} {} NOT NULL", column.name, sql_type(column.kind)))
                .collect();
            let _ = writeln!(
                sql,
                "CREATE TABLE IF NOT EXISTS damrak.{name} ({}, PRIMARY KEY ({}));",
                columns.join(", "),
                key_columns(*table)
            );
        }
        sql.push_str(
            "CREATE INDEX IF NOT EXISTS orders_live ON damrak.orders (account_id, order_id) \
             WHERE state = 'live';\n\
             CREATE INDEX IF NOT EXISTS ledger_entries_from ON damrak.ledger_entries \
             (from_account_id, sequence, nth);\n\
             CREATE INDEX IF NOT EXISTS ledger_entries_to ON damrak.ledger_entries \
             (to_account_id, sequence, nth);\nCOMMIT;\n",
        );
        self.client.run(&sql)?;
        let mut version = None;
        self.client.query("SELECT schema FROM damrak.position", &mut |fields| {
            version = number(fields, 0);
            Ok(())
        })?;
        if version != Some(SCHEMA_VERSION) {
            return Err(StoreError::foreign(format!(
                "the ledger store has tables of version {version:?}, and this damrak knows version \
                 {SCHEMA_VERSION}"
            )));
        }
        for table in Table::ALL.iter().filter(|table| !table.is_append_only()) {
            let name = table.name();
            self.client.run(&format!(
                "CREATE TEMPORARY TABLE changed_{name} (LIKE damrak.{name}) ON COMMIT DELETE ROWS"
            ))?;
        }
        Ok(())
    }

    fn read_position(&mut self, lock: &str) -> Result<Option<StorePosition>, StoreError> {
        let mut position = None;
        let sql = format!("SELECT journal_id, sequence FROM damrak.position{lock}");
        self.client.query(&sql, &mut |fields| {
            // A journal's identity is any 64 bits, a bigint those with a sign.
            let text = fields.first().copied().flatten();
            let journal_id = text.and_then(|text| text.parse::<i64>().ok());
            if let (Some(journal_id), Some(sequence)) = (journal_id, number(fields, 1)) {
                let journal_id = journal_id.cast_unsigned();
                position = Some(StorePosition { journal_id, sequence: Sequence(sequence) });
            }
            Ok(())
        })?;
        Ok(position)
    }

    fn transaction(&mut self, journal_id: u64, batch: &Batch) -> Result<(), StoreError> {
        self.client.run("BEGIN")?;
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
                self.client
                    .copy(&format!("COPY damrak.{name} FROM STDIN"), self.lines.as_bytes())?;
                continue;
            }
            self.client.copy(&format!("COPY changed_{name} FROM STDIN"), self.lines.as_bytes())?;
            let others = &columns[table.key_len()..];
            let set: Vec<_> =
                others.iter().map(|it| format!("{0} = excluded.{0}", it.name)).collect();
            self.client.run(&format!(
                "INSERT INTO damrak.{name} SELECT * FROM changed_{name} ON CONFLICT ({}) DO UPDATE \
                 SET {}",
                key_columns(*table),
                set.join(", ")
            ))?;
        }
        self.client.run(&format!(
            "UPDATE damrak.position SET journal_id = {}, sequence = {}; COMMIT",
            journal_id.cast_signed(),
            batch.sequence
        ))
    }
}

impl LedgerStore for Postgres {
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        self.read_position("")
    }

    fn commit(&mut self, journal_id: u64, batch: &Batch) -> Result<(), StoreError> {
        let done = self.transaction(journal_id, batch);
        if done.is_err() {
            // Best effort: whoever sees the error opens the store again, which ends it as well.
            let _ = self.client.run("ROLLBACK");
        }
        done
    }

    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        let sql = select(table, "damrak.", filter);
        let mut values = Vec::new();
        let mut goes_on = true;
        self.client.query(&sql, &mut |fields| {
            values.clear();
            for (column, field) in table.columns().iter().zip(fields) {
                values.extend(field.and_then(|text| column.kind.parse(text)));
            }
            if values.len() != table.columns().len() {
                let what = format!("{} has the row {fields:?}", table.name());
                return Err(StoreError::corrupt(what));
            }
            goes_on = goes_on && each(&values);
            Ok(())
        })
    }
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

/// A row in COPY's text format. Of its special characters only the backslash is ever in a text.
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

fn number(fields: Fields<'_>, nth: usize) -> Option<u64> {
    fields.get(nth).copied().flatten().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Text;

    /// A row is a line; a backslash in it stays one.
    #[test]
    fn rows_are_lines() {
        let columns = Table::Instruments.columns();
        let mut lines = String::new();
        line(columns, &[Value::Integer(3), Value::Text(Text::new("A\\N").unwrap())], &mut lines);
        assert_eq!(lines, "3\tA\\\\N\n");
    }
}
