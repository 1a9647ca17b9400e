//! What commands print: results on stdout, talk on stderr, one JSON object where asked.

use std::io::{self, Write};

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

/// 1234567 as "1 234 567".
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds in the unit that reads best: "840 ns", "9.8 µs", "1.20 ms", "3.40 s".
#[must_use]
pub fn duration(nanos: u64) -> String {
    let nanos = nanos as f64;
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
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

    /// Numbers read as a person writes them.
    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(duration(9_840), "9.8 µs");
        assert_eq!(price(1_503_400), "150.34");
        assert_eq!(price(1_503_401), "150.3401");
    }
}
