//! The layouts of single fields: big-endian numbers, padded text, 48-bit time.
//!
//! Each alias names the meaning of a number, so that a struct reads like the table of its specification.

use core::fmt;

use market::{DecimalFault, parse_decimal};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use zerocopy::byteorder::big_endian::{I32, U16, U32, U64};

/// One ASCII character.
pub type Char = u8;
/// Printable ASCII, `N` characters, padded with spaces on the right unless the field is defined otherwise.
pub type Alpha<const N: usize> = [u8; N];
/// Price with 4 implied decimals, 32 bits: a tick is 1.
pub type Price32 = U32;
/// Price with 4 implied decimals, 64 bits: a tick is 1.
pub type Price64 = U64;
/// Index level with 8 implied decimals, 64 bits.
pub type Level64 = U64;
/// Nanoseconds since midnight, 64 bits.
pub type Nanos64 = U64;
/// Nanoseconds since midnight, 48 bits.
pub type Nanos48 = U48;

/// An unsigned number of 48 bits, big-endian.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct U48([u8; 6]);

impl U48 {
    /// The greatest value: 2^48 - 1.
    pub const MAX: u64 = (1 << 48) - 1;

    /// Converts a number, which must not be above [`U48::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        assert!(number <= Self::MAX);
        let [0, 0, bytes @ ..] = number.to_be_bytes() else { unreachable!() };
        Self(bytes)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Debug for U48 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U48({})", self.get())
    }
}

/// The field without its padding: spaces and NULs at either end are not part of it.
///
/// Implementations pad on either side, some with NULs, so all of them are understood.
#[must_use]
pub fn trimmed(field: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| matches!(byte, b' ' | 0);
    let Some(first) = field.iter().position(|byte| !is_padding(byte)) else { return &[] };
    let last = field.iter().rposition(|byte| !is_padding(byte)).unwrap_or(first);
    &field[first..=last]
}

/// The whole number that a padded field of decimal digits holds.
///
/// `Ok(None)` if the field is blank. A number beyond 64 bits reads as the largest one: no counter
/// here reaches it.
///
/// # Errors
/// Other characters than digits are between the padding.
pub fn decimal(field: &[u8]) -> Result<Option<u64>, NotWhole> {
    let digits = trimmed(field);
    if digits.is_empty() {
        return Ok(None);
    }
    let digits = str::from_utf8(digits).map_err(|_| NotWhole)?;
    // A number may have a point elsewhere, but not in these fields.
    if digits.contains('.') {
        return Err(NotWhole);
    }
    match parse_decimal(digits, 0) {
        Ok(number) => Ok(Some(number)),
        Err(error) if error.fault == DecimalFault::TooLarge => Ok(Some(u64::MAX)),
        Err(_) => Err(NotWhole),
    }
}

/// A field holds other characters than the digits of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotWhole;

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a whole number in decimal digits")
    }
}

impl core::error::Error for NotWhole {}

/// A number in decimal, with spaces before it; it must fit.
#[must_use]
pub fn decimal_right_aligned<const N: usize>(number: u64) -> Alpha<N> {
    let mut field = [b' '; N];
    let mut rest = number;
    for byte in field.iter_mut().rev() {
        *byte = b'0' + u8::try_from(rest % 10).expect("a digit is below 10");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    assert!(rest == 0, "{number} has more than {N} digits");
    field
}

/// Text without its padding, with spaces before it; it must fit.
#[must_use]
pub fn text_right_aligned<const N: usize>(text: &[u8]) -> Alpha<N> {
    let text = trimmed(text);
    let mut field = [b' '; N];
    field[N - text.len()..].copy_from_slice(text);
    field
}

/// Text without its padding, with spaces after it; it must fit.
#[must_use]
pub fn text_left_aligned<const N: usize>(text: &[u8]) -> Alpha<N> {
    let text = trimmed(text);
    let mut field = [b' '; N];
    field[..text.len()].copy_from_slice(text);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 bits keep their order and their ends.
    #[test]
    fn forty_eight_bits_are_big_endian() {
        assert_eq!(U48::new(0x1f1a_ced9_f07b).as_bytes(), b"\x1f\x1a\xce\xd9\xf0\x7b");
        assert_eq!(U48::new(U48::MAX).get(), U48::MAX);
        assert_eq!(U48::new(0).get(), 0);
    }

    /// Padding on either side, of either kind, is not part of a field.
    #[test]
    fn padding_is_understood_on_both_sides() {
        assert_eq!(trimmed(b"   usr"), b"usr");
        assert_eq!(trimmed(b"usr\0\0 "), b"usr");
        assert_eq!(trimmed(b" a b "), b"a b");
        assert_eq!(trimmed(b"   "), b"");
        assert_eq!(trimmed(b""), b"");
    }

    /// Decimal fields are read with any padding, refused with anything else, and never overflow.
    #[test]
    fn decimals_are_read_and_written() {
        assert_eq!(decimal(b"                  42"), Ok(Some(42)));
        assert_eq!(decimal(b"1                   "), Ok(Some(1)));
        assert_eq!(decimal(b"                    "), Ok(None));
        assert_eq!(decimal(b"99999999999999999999"), Ok(Some(u64::MAX)));
        for wrong in [&b"-1"[..], b"1 2", b"1.0", b"1.", b"0x1", b"\xff"] {
            assert_eq!(decimal(wrong), Err(NotWhole), "{wrong:?}");
        }
        assert_eq!(decimal(b"999999999999999999999999999999999999999999"), Ok(Some(u64::MAX)));
        assert_eq!(&decimal_right_aligned::<5>(0), b"    0");
        assert_eq!(&decimal_right_aligned::<20>(u64::MAX), b"18446744073709551615");
    }
}
