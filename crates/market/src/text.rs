//! Short printable texts of a fixed length: symbols, firms, names.
//!
//! Invariant: printable ASCII, padded with blanks on the right.

use core::{fmt, str::from_utf8};

/// `N` bytes of printable ASCII, left-justified, padded with spaces on the right.
///
/// That is the form in which OUCH and ITCH carry alpha fields, so the wire form is the stored form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>([u8; N]);

/// The printed name of an instrument, upper case by convention.
pub type Symbol = Text<8>;
/// The identifier of a firm (MPID on the feed).
pub type Firm = Text<4>;
/// Among which of a firm's orders self-match prevention acts (OUCH AIQGroupID).
pub type SelfMatchGroup = Text<2>;
/// The participant's own name for an order (OUCH ClOrdID); not checked for uniqueness.
pub type ClientOrderId = Text<14>;

impl<const N: usize> Text<N> {
    /// All spaces.
    pub const BLANK: Self = Self([b' '; N]);

    /// From text of at most `N` printable ASCII characters; `None` otherwise.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [b' '; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Self::from_bytes(bytes)
    }

    /// From the padded form; `None` if a byte is not printable ASCII.
    #[must_use]
    pub fn from_bytes(bytes: [u8; N]) -> Option<Self> {
        bytes.iter().all(|byte| (b' '..=b'~').contains(byte)).then_some(Self(bytes))
    }

    /// The padded form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// Without the padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        from_utf8(&self.0).expect("only printable ASCII gets in").trim_end_matches(' ')
    }

    /// True if nothing but padding.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Text keeps its wire form and refuses what the wire may not carry.
    #[test]
    fn padded_both_ways() {
        let symbol = Symbol::new("AAPL").unwrap();
        assert_eq!(symbol.as_bytes(), b"AAPL    ");
        assert_eq!(symbol.as_str(), "AAPL");
        assert_eq!(Symbol::new("TOOLONG99"), None);
        assert_eq!(Symbol::new("A\tB"), None);
        assert_eq!(Symbol::from_bytes(*b"A\0PL    "), None);
        assert!(Symbol::BLANK.is_blank());
    }
}
