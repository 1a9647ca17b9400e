//! Decimal numbers in text: parsed into whole units, and printed.
//!
//! Invariant: exact both ways. A number that cannot be represented is an error; nothing is rounded
//! or truncated.

use core::fmt;

/// Reads a decimal number as a whole number of units, of which 10^`decimals` make one: with two
/// decimals, `84907.12` is 8,490,712.
///
/// The text is digits, or digits, a point and digits. Zeros beyond the last decimal are allowed.
///
/// # Errors
/// The text is not such a number, has too many decimals, or overflows `T`. The error quotes it.
pub fn parse_decimal<T: TryFrom<u128>>(text: &str, decimals: u8) -> Result<T, DecimalError<'_>> {
    let error = |fault| DecimalError { text, decimals, fault };
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(error(DecimalFault::NoNumber)),
        None => (text, ""),
    };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return Err(error(DecimalFault::NoNumber));
    }
    let (fraction, finer) = fraction.split_at(fraction.len().min(usize::from(decimals)));
    if finer.bytes().any(|digit| digit != b'0') {
        return Err(error(DecimalFault::TooFine));
    }
    let missing = (fraction.len()..usize::from(decimals)).map(|_| b'0');
    let digits = whole.bytes().chain(fraction.bytes()).chain(missing);
    // Nearly all numbers: this many digits fit into 64 bits.
    if whole.len() + usize::from(decimals) < 20 {
        let units = digits.fold(0_u64, |units, digit| units * 10 + u64::from(digit - b'0'));
        return T::try_from(units.into()).map_err(|_| error(DecimalFault::TooLarge));
    }
    let mut units = 0_u128;
    for digit in digits {
        units = units
            .checked_mul(10)
            .and_then(|units| units.checked_add(u128::from(digit - b'0')))
            .ok_or(error(DecimalFault::TooLarge))?;
    }
    T::try_from(units).map_err(|_| error(DecimalFault::TooLarge))
}

/// A text that is not a valid number of units; prints the text and the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecimalError<'a> {
    /// The text.
    pub text: &'a str,
    /// The most decimals allowed.
    pub decimals: u8,
    /// The fault.
    pub fault: DecimalFault,
}

/// A fault of a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalFault {
    /// Not digits, nor digits, a point and digits.
    NoNumber,
    /// More decimals than allowed, beyond zeros.
    TooFine,
    /// Larger than the type allows.
    TooLarge,
}

impl fmt::Display for DecimalError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, decimals, fault } = *self;
        match (fault, decimals) {
            (DecimalFault::NoNumber, 0) => write!(f, "{text:?} is not a whole number"),
            (DecimalFault::NoNumber, _) => write!(f, "{text:?} is not a decimal number like 12.5"),
            (DecimalFault::TooFine, 0) => write!(f, "{text:?} is not whole"),
            (DecimalFault::TooFine, 1) => write!(f, "{text:?} has more than 1 decimal"),
            (DecimalFault::TooFine, _) => write!(f, "{text:?} has more than {decimals} decimals"),
            (DecimalFault::TooLarge, _) => write!(f, "{text:?} is too large"),
        }
    }
}

impl core::error::Error for DecimalError<'_> {}

/// Prints units as a decimal number: 8,490,712 units with two decimals are `84907.12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecimalText {
    /// The number of units.
    pub units: u128,
    /// The number of decimals; at most 38.
    pub decimals: u8,
}

impl fmt::Display for DecimalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(u32::from(self.decimals));
        write!(f, "{}", self.units / one)?;
        if self.decimals > 0 {
            write!(f, ".{:0width$}", self.units % one, width = usize::from(self.decimals))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    /// Whole numbers of units parse exactly, in every notation allowed.
    #[test]
    fn numbers_are_exact() {
        let read = |text, decimals| parse_decimal::<u64>(text, decimals).unwrap();
        assert_eq!(read("84907.12", 2), 8_490_712);
        assert_eq!(read("84907.1", 2), 8_490_710);
        assert_eq!(read("84907", 2), 8_490_700);
        assert_eq!(read("84907.1200", 2), 8_490_712);
        assert_eq!(read("0084907.12", 2), 8_490_712);
        assert_eq!(read("0.000001", 6), 1);
        assert_eq!(read("7", 0), 7);
        assert_eq!(read("7.0", 0), 7);
        assert_eq!(read("184467440737095516.15", 2), u64::MAX);
        assert_eq!(parse_decimal("340282366920938463463374607431768211455", 0), Ok(u128::MAX));
        // About as many digits as 64 bits hold.
        for count in 18..22_u32 {
            let (nines, units) = ("9".repeat(count as usize), 10_u128.pow(count) - 1);
            assert_eq!(parse_decimal(&nines, 0), Ok(units));
            assert_eq!(parse_decimal(&nines, 3), Ok(units * 1_000));
        }
    }

    /// Any other text is an error that quotes it.
    #[test]
    fn nothing_is_rounded_or_guessed() {
        let none = [
            "", ".", "5.", ".5", "1e8", "+1", "-1", " 1", "1 ", "1,0", "0x1", "1.2.3", "NaN",
            "inf", "١", "1.é", "1._0",
        ];
        for text in none {
            let error = parse_decimal::<u64>(text, 2).unwrap_err();
            assert_eq!((error.text, error.fault), (text, DecimalFault::NoNumber), "{text:?}");
        }
        let error = parse_decimal::<u64>("1.001", 2).unwrap_err();
        assert_eq!(error.fault, DecimalFault::TooFine);
        assert_eq!(error.to_string(), "\"1.001\" has more than 2 decimals");
        let many_digits = "9".repeat(40);
        for text in ["184467440737095516.16", "99999999999999999999", &many_digits] {
            let error = parse_decimal::<u64>(text, 2).unwrap_err();
            assert_eq!(error.fault, DecimalFault::TooLarge, "{text}");
        }
        let error = parse_decimal::<u8>("256", 0).unwrap_err();
        assert_eq!(error.to_string(), "\"256\" is too large");
        let error = parse_decimal::<u64>("0.5", 0).unwrap_err();
        assert_eq!(error.to_string(), "\"0.5\" is not whole");
        let error = parse_decimal::<u64>("five", 0).unwrap_err();
        assert_eq!(error.to_string(), "\"five\" is not a whole number");
    }

    /// A printed number parses to itself.
    #[test]
    fn text_goes_both_ways() {
        for (units, decimals, text) in
            [(8_490_712, 2, "84907.12"), (5, 2, "0.05"), (0, 3, "0.000"), (42, 0, "42")]
        {
            assert_eq!(DecimalText { units, decimals }.to_string(), text);
            assert_eq!(parse_decimal(text, decimals), Ok(units));
        }
    }
}
