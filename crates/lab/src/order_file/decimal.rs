//! Decimal numbers as whole numbers of their last place.

use std::fmt::Write;

/// The most decimals that a price, a quantity or an asset may have.
pub(super) const DECIMALS_MAX: u8 = 12;

/// A number of the smallest units of which 10^`decimals` make one; `None` for what is not digits,
/// or digits, a point and digits, for what is finer than the unit, and for what needs more than 64
/// bits.
pub(super) fn parse(text: &str, decimals: u8) -> Option<u64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let kept = fraction.len().min(usize::from(decimals));
    let (fraction, finer) = fraction.split_at_checked(kept)?;
    if whole.is_empty() || finer.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let mut value = 0_u64;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10)?.checked_add(digit_value(digit)?)?;
    }
    value.checked_mul(10_u64.checked_pow(u32::from(decimals) - kept as u32)?)
}

/// A number of smallest units as a person writes it: 8490712 with two decimals is `84907.12`.
#[must_use]
pub fn decimal_text(value: u64, decimals: u8) -> String {
    let unit = 10_u64.pow(u32::from(decimals));
    let mut text = (value / unit).to_string();
    if decimals > 0 {
        let width = usize::from(decimals);
        write!(text, ".{:0width$}", value % unit).expect("text can always be added to");
    }
    text
}

fn digit_value(digit: u8) -> Option<u64> {
    digit.is_ascii_digit().then(|| u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is a whole number of the unit is taken exactly, however it is written.
    #[test]
    fn numbers_are_exact() {
        assert_eq!(parse("84907.12", 2), Some(8_490_712));
        assert_eq!(parse("84907.1", 2), Some(8_490_710));
        assert_eq!(parse("84907", 2), Some(8_490_700));
        assert_eq!(parse("84907.1200", 2), Some(8_490_712));
        assert_eq!(parse("0.000001", 6), Some(1));
        assert_eq!(parse("7", 0), Some(7));
        assert_eq!(parse("7.0", 0), Some(7));
        assert_eq!(parse("184467440737095516.15", 2), Some(u64::MAX));
    }

    /// What is not is refused: nothing is rounded, guessed or cut off.
    #[test]
    fn nothing_is_rounded_or_guessed() {
        let wrong = [
            "",
            ".",
            "5.",
            ".5",
            "1e8",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1,0",
            "0x1",
            "1.2.3",
            "1.001",
            "184467440737095516.16",
            "99999999999999999999",
            "NaN",
            "inf",
            "١",
            "1.é",
            "1._0",
        ];
        for text in wrong {
            assert_eq!(parse(text, 2), None, "{text:?}");
        }
    }

    /// A number that is written is read as the same one.
    #[test]
    fn text_goes_both_ways() {
        for (value, decimals, text) in
            [(8_490_712, 2, "84907.12"), (5, 2, "0.05"), (0, 3, "0.000"), (42, 0, "42")]
        {
            assert_eq!(decimal_text(value, decimals), text);
            assert_eq!(parse(text, decimals), Some(value));
        }
    }
}
