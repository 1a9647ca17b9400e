//! The SQL that SQLite and PostgreSQL share: tables, indices, position, queries.
//!
//! Invariant: every statement follows from [`Table`]; a store adds only its types and its prefix.

use std::fmt::Write;

use market::Sequence;

use super::{
    schema::{Kind, SCHEMA_VERSION, Table},
    store::{Filter, StorePosition},
};

/// The differences between two stores.
pub(super) struct Dialect {
    /// The text before the name of each table.
    pub(super) prefix: &'static str,
    pub(super) type_of: fn(Kind) -> &'static str,
    /// The text that ends the definition of a table.
    pub(super) table_end: &'static str,
}

impl Dialect {
    /// Creates the missing tables, indices and position.
    pub(super) fn create(&self) -> String {
        let Self { prefix, type_of, table_end } = self;
        let mut sql = format!(
            "CREATE TABLE IF NOT EXISTS {prefix}position (one integer PRIMARY KEY CHECK (one = 1), \
             schema bigint NOT NULL, journal_id bigint, sequence bigint);\n\
             INSERT INTO {prefix}position (one, schema) VALUES (1, {SCHEMA_VERSION}) \
             ON CONFLICT DO NOTHING;\n"
        );
        for table in Table::ALL {
            let columns = table.columns().iter();
            let columns: Vec<_> = columns
                .map(|column| format!("{} {} NOT NULL", column.name, type_of(column.kind)))
                .collect();
            // Writing to a string cannot fail.
            let _ = writeln!(
                sql,
                "CREATE TABLE IF NOT EXISTS {prefix}{} ({}, PRIMARY KEY ({})){table_end};",
                table.name(),
                columns.join(", "),
                key_columns(*table)
            );
        }
        for (index, on) in [
            ("orders_live", "orders (account_id, order_id) WHERE state = 'live'"),
            ("ledger_entries_from", "ledger_entries (from_account_id, sequence, nth)"),
            ("ledger_entries_to", "ledger_entries (to_account_id, sequence, nth)"),
        ] {
            let _ = writeln!(sql, "CREATE INDEX IF NOT EXISTS {index} ON {prefix}{on};");
        }
        sql
    }
}

/// A position from a row. A journal's identity is any 64 bits; the row has it as a signed integer.
pub(super) fn position(journal_id: i64, sequence: i64) -> StorePosition {
    StorePosition {
        journal_id: journal_id.cast_unsigned(),
        sequence: Sequence(sequence.cast_unsigned()),
    }
}

/// The query for the rows of a table that pass a filter; `schema` goes before the table's name.
pub(super) fn select(table: Table, schema: &str, filter: &Filter) -> String {
    let columns: Vec<_> = table.columns().iter().map(|column| column.name).collect();
    format!(
        "SELECT {} FROM {schema}{}{}{}",
        columns.join(", "),
        table.name(),
        conditions(table, filter),
        order(table, filter)
    )
}

/// The columns of a table's key.
pub(super) fn key_columns(table: Table) -> String {
    let names: Vec<_> =
        table.columns()[..table.key_len()].iter().map(|column| column.name).collect();
    names.join(", ")
}

/// The order of the rows, and their limit.
fn order(table: Table, filter: &Filter) -> String {
    match filter.last {
        None => format!(" ORDER BY {}", key_columns(table)),
        Some(last) => {
            format!(" ORDER BY {} DESC LIMIT {last}", key_columns(table).replace(", ", " DESC, "))
        }
    }
}

fn conditions(table: Table, filter: &Filter) -> String {
    let mut conditions = Vec::new();
    if let Some(account_id) = filter.account_id {
        let columns: Vec<_> =
            table.account_columns().iter().map(|it| format!("{it} = {account_id}")).collect();
        conditions.push(match columns.is_empty() {
            true => "false".to_owned(),
            false => format!("({})", columns.join(" OR ")),
        });
    }
    if filter.live && table == Table::Orders {
        conditions.push("state = 'live'".to_owned());
    }
    if let Some([first, second]) = filter.before {
        conditions.push(match table.place_columns() {
            [] => "true".to_owned(),
            [place] => format!("{place} < {first}"),
            [place, nth, ..] => {
                format!("({place} < {first} OR ({place} = {first} AND {nth} < {second}))")
            }
        });
    }
    match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    }
}
