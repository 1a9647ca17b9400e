//! The tables as files: comma-separated values, or JSON lines.

use std::io::{self, Write};

use super::{
    query::Ledger,
    readable::json_row,
    schema::{Column, Table, Value},
    store::{Filter, StoreError},
};

/// Writes a table: a line of column names, then a line a row, by its key. Amounts are in units,
/// prices in ticks, times in nanoseconds since the Unix epoch. Returns the number of rows.
pub fn csv(
    ledger: &mut Ledger,
    table: Table,
    filter: &Filter,
    out: &mut dyn Write,
) -> Result<u64, StoreError> {
    let columns = table.columns();
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(",")).map_err(|error| not_written(table, &error))?;
    rows(ledger, table, filter, out, &mut |values, text| line(columns, values, text))
}

/// Writes a table as JSON lines: an object a row, with the names of accounts, assets and instruments beside
/// their numbers. Returns the number of rows.
pub fn json_lines(
    ledger: &mut Ledger,
    table: Table,
    filter: &Filter,
    out: &mut dyn Write,
) -> Result<u64, StoreError> {
    let names = ledger.names().clone();
    rows(ledger, table, filter, out, &mut |values, text| {
        text.push_str(&json_row(table, values, &names).to_string());
        text.push('\n');
    })
}

fn rows(
    ledger: &mut Ledger,
    table: Table,
    filter: &Filter,
    out: &mut dyn Write,
    write: &mut dyn FnMut(&[Value], &mut String),
) -> Result<u64, StoreError> {
    let (mut count, mut wrong, mut text) = (0, None, String::new());
    ledger.scan(table, filter, &mut |values| {
        text.clear();
        write(values, &mut text);
        count += 1;
        wrong = out.write_all(text.as_bytes()).err();
        wrong.is_none()
    })?;
    match wrong {
        Some(error) => Err(not_written(table, &error)),
        None => Ok(count),
    }
}

fn not_written(table: Table, error: &io::Error) -> StoreError {
    StoreError::unavailable(format!("cannot write {}: {error}", table.name()))
}

/// Appends a row as a line. A value with a comma or a quote is quoted, its own quotes doubled.
pub(crate) fn line(columns: &[Column], values: &[Value], out: &mut String) {
    use std::fmt::Write;
    for (nth, (column, value)) in columns.iter().zip(values).enumerate() {
        if nth > 0 {
            out.push(',');
        }
        match value {
            Value::Text(text) if text.as_str().contains(['"', ',']) => {
                let _ = write!(out, "\"{}\"", text.as_str().replace('"', "\"\""));
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

    /// Characters that would end a value too early are quoted.
    #[test]
    fn values_are_quoted() {
        let columns = Table::Instruments.columns();
        let mut text = String::new();
        line(columns, &[Value::Integer(1), Value::Text(Text::new("A\",B").unwrap())], &mut text);
        assert_eq!(text, "1,\"A\"\",B\"\n");
    }
}
