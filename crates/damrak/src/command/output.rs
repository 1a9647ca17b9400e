//! Output of the verbs: results on stdout, messages on stderr, one JSON object with `--json`.

use std::io::{self, Write};

pub use lab::{latency::duration_text as duration, load::grouped};
use serde_json::Value;
pub use venue::ledger::readable::price;

use venue::failure::Failure;

/// A number of things, as `1 kill` or `2 413 kills`.
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    let plural = match thing {
        _ if count == 1 => "",
        _ if thing.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{} {thing}{plural}", grouped(count))
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints one JSON object on a line of its own.
///
/// # Errors
/// Stdout cannot be written. A broken pipe is no error: it ends the process without a message.
pub fn print_json(value: &Value) -> Result<(), Failure> {
    print_line(&value.to_string())
}

/// Prints a line of the result.
///
/// # Errors
/// See [`print_json`].
pub fn print_line(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::runtime(format!("cannot write to stdout: {error}"))),
    }
}

/// A header and its rows, each column as wide as its widest cell: the first column to the left, the others
/// to the right.
pub fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = [header.map(str::to_owned)].into_iter().chain(rows).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let lines = rows.iter().map(|row| {
        let cells =
            row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        cells.collect::<String>().trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
