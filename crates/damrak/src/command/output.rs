//! What commands print: results on stdout, talk on stderr, one JSON object where asked.

use std::io::{self, Write};

pub use flow::{latency::duration_text as duration, load::grouped};
use serde_json::Value;

use crate::failure::Failure;

/// Prints one JSON object on a line of its own.
///
/// # Errors
/// Stdout cannot be written, other than by a reader that went away, which ends the process
/// quietly.
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

/// A price in ticks as currency: 1503400 as "150.34".
#[must_use]
pub fn price(ticks: u64) -> String {
    let (whole, fraction) = (ticks / 10_000, ticks % 10_000);
    if fraction.is_multiple_of(100) {
        format!("{whole}.{:02}", fraction / 100)
    } else {
        format!("{whole}.{fraction:04}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices read as a person writes them.
    #[test]
    fn prices_are_readable() {
        assert_eq!(price(1_503_400), "150.34");
        assert_eq!(price(1_503_401), "150.3401");
    }
}
