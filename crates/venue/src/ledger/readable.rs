//! Rows for people and programs to read: names beside numbers, amounts and prices with decimal points.

use market::{AccountId, AssetId, InstrumentId};
use serde_json::{Map, Value as Json, json};

use super::{
    query::Names,
    schema::{Kind, Table, Value},
};

/// A price in ticks as currency: 1503400 as "150.34".
pub fn price(ticks: u64) -> String {
    let (whole, fraction) = (ticks / 10_000, ticks % 10_000);
    if fraction.is_multiple_of(100) {
        format!("{whole}.{:02}", fraction / 100)
    } else {
        format!("{whole}.{fraction:04}")
    }
}

/// The heading of a column, if names replace its numbers.
pub fn heading(column: &str) -> &str {
    match column {
        "account_id" => "account",
        "from_account_id" => "from",
        "to_account_id" => "to",
        "asset_id" => "asset",
        "instrument_id" => "instrument",
        other => other,
    }
}

/// A value for people to read: names for numbers, amounts and prices with decimal points.
pub fn cell(table: Table, values: &[Value], nth: usize, names: &Names) -> String {
    let column = table.columns()[nth];
    let asset = table.column("asset_id").and_then(|nth| number(&values[nth]));
    match (column.name, &values[nth]) {
        (name, Value::Integer(it)) if name.ends_with("account_id") => {
            names.account_name(AccountId(*it as u32))
        }
        ("asset_id", Value::Integer(it)) => names.asset_name(AssetId(*it as u16)),
        ("instrument_id", Value::Integer(it)) => names.symbol(InstrumentId(*it as u16)),
        ("price", Value::Integer(0)) => "-".to_owned(),
        ("price", Value::Integer(ticks)) => price(*ticks),
        (_, Value::Amount(units)) => names.amount(AssetId(asset.unwrap_or(0) as u16), *units),
        (_, value) => column.kind.show(value).to_string(),
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

/// A row as an object: every column, and the names for the numbers in it.
pub fn json_row(table: Table, values: &[Value], names: &Names) -> Json {
    let mut row = Map::new();
    for (nth, (column, value)) in table.columns().iter().zip(values).enumerate() {
        let it = match (column.kind, value) {
            (Kind::Integer(_), Value::Integer(number)) => json!(number),
            // JSON numbers cannot be relied on for 128 bits.
            (kind, value) => json!(kind.show(value).to_string()),
        };
        row.insert(column.name.to_owned(), it);
        let called = heading(column.name);
        if called != column.name {
            let called = match called {
                "from" => "from_account",
                "to" => "to_account",
                other => other,
            };
            row.insert(called.to_owned(), json!(cell(table, values, nth, names)));
        }
    }
    Json::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices print as people write them.
    #[test]
    fn prices_are_readable() {
        assert_eq!(price(1_503_400), "150.34");
        assert_eq!(price(1_503_401), "150.3401");
    }
}
