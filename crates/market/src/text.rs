//! Short printable texts of a fixed length: symbols, firms, names.
//!
//! Invariant: printable ASCII, padded with blanks on the right.

use core::{fmt, str::from_utf8};

/// `N` bytes of printable ASCII, left-justified, padded with spaces on the right.
///
/// OUCH and ITCH carry alpha fields in this form, so the stored form is the wire form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>([u8; N]);

/// The printed name of an instrument, upper case by convention.
pub type Symbol = Text<8>;
/// The identifier of a firm (MPID on the feed).
pub type Firm = Text<4>;
/// Self-match group: limits self-match prevention to orders of one group (OUCH AIQGroupID).
pub type SelfMatchGroup = Text<2>;
/// The participant's client order id (OUCH ClOrdID); not checked for uniqueness.
pub type ClientOrderId = Text<14>;

impl<const N: usize> Text<N> {
    /// All blanks.
    pub const BLANK: Self = Self([b' '; N]);

    /// The text, padded; `None` unless it is at most `N` printable ASCII characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Self::from_slice(text.as_bytes())
    }

    /// As [`new`](Self::new), from the bytes of the text.
    #[must_use]
    pub fn from_slice(text: &[u8]) -> Option<Self> {
        let mut bytes = [b' '; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Self::from_bytes(bytes)
    }

    /// A text from its padded form; `None` if a byte is not printable ASCII.
    #[must_use]
    pub fn from_bytes(bytes: [u8; N]) -> Option<Self> {
        // All bytes are tested, without a branch for each.
        let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
        bytes.iter().fold(true, |all, byte| all & is_printable(byte)).then_some(Self(bytes))
    }

    /// The padded bytes.
    #[must_use]
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The text without the padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        from_utf8(self.trimmed()).expect("a text has only printable ASCII")
    }

    /// The bytes without the padding.
    #[must_use]
    pub fn trimmed(&self) -> &[u8] {
        const BLANKS: u64 = u64::from_le_bytes([b' '; 8]);
        let mut text = &self.0[..];
        while let Some((before, eight)) = text.split_last_chunk() {
            // The last byte is the highest.
            let differs = u64::from_le_bytes(*eight) ^ BLANKS;
            if differs != 0 {
                return &text[..text.len() - differs.leading_zeros() as usize / 8];
            }
            text = before;
        }
        let last = text.iter().rposition(|byte| *byte != b' ');
        &text[..last.map_or(0, |last| last + 1)]
    }

    /// True if it is all padding.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0 == [b' '; N]
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::BLANK
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const N: usize> serde::Serialize for Text<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text keeps its wire form, and rejects bytes that the wire may not carry.
    #[test]
    fn padded_both_ways() {
        let symbol = Symbol::new("AAPL").unwrap();
        assert_eq!(symbol.as_bytes(), b"AAPL    ");
        assert_eq!(symbol.as_str(), "AAPL");
        assert_eq!(symbol.trimmed(), b"AAPL");
        assert_eq!(Symbol::BLANK.trimmed(), b"");
        assert_eq!(Symbol::from_bytes(*b"AAPL\x7f   "), None);
        assert_eq!(Symbol::new("TOOLONG99"), None);
        assert_eq!(Symbol::new("A\tB"), None);
        assert_eq!(Symbol::from_bytes(*b"A\0PL    "), None);
        assert!(Symbol::BLANK.is_blank());
    }

    /// Padding is all blanks at the end, and no blank before.
    #[test]
    fn blanks_inside_are_no_padding() {
        for len in 1..=36 {
            for inside in 0..len {
                let mut bytes = [b' '; 36];
                bytes[..len - inside].fill(b'A');
                bytes[len - 1] = b'Z';
                let text = Text::<36>::from_bytes(bytes).unwrap();
                assert_eq!(text.trimmed(), &bytes[..len]);
            }
        }
    }
}
