//! The SQL that every store with tables is asked in.

use super::{schema::Table, store::Filter};

/// Asks for the rows of a table that a filter lets through; its name stands behind `schema`.
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

/// In which order, and how many.
fn order(table: Table, filter: &Filter) -> String {
    match filter.last {
        None => format!(" ORDER BY {}", key_columns(table)),
        Some(last) => {
            format!(" ORDER BY {} DESC LIMIT {last}", key_columns(table).replace(", ", " DESC, "))
        }
    }
}

/// Which rows.
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
