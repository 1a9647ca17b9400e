//! GLIMPSE 5.0: the current books, for a subscriber that joins late. docs/wire/glimpse.md has the
//! table and our decisions.
//!
//! A snapshot is ITCH messages in SoupBinTCP packets, and one [`EndOfSnapshot`] after them.

use zerocopy::FromBytes;

use crate::{
    field::{Alpha, Char, decimal, decimal_right_aligned},
    layout::{Message, layout},
};

layout! {
    /// End of Snapshot (`G`), the last message of a snapshot.
    "End of Snapshot" EndOfSnapshot [21] = b'G' {
        message_type: Char,     "`G`";
        sequence_number: Alpha<20>, "Of the first message of the feed to apply; decimal, spaces before it";
    }
}

impl EndOfSnapshot {
    /// The end of a snapshot that has every message of the feed before `next`.
    #[must_use]
    pub fn new(next: u64) -> Self {
        Self { message_type: Self::TYPE, sequence_number: decimal_right_aligned(next) }
    }

    /// Reads the number of the first message to apply, padded on either side; `None` if the bytes are not
    /// an end of snapshot.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<u64> {
        let end = Self::ref_from_bytes(message).ok()?;
        if end.message_type != Self::TYPE {
            return None;
        }
        decimal(&end.sequence_number).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    /// The number is written with spaces before it, and read with padding on either side.
    #[test]
    fn the_number_is_padded() {
        let bytes = EndOfSnapshot::new(1001);
        assert_eq!(bytes.as_bytes(), b"G                1001");
        assert_eq!(EndOfSnapshot::read(bytes.as_bytes()), Some(1001));
        assert_eq!(EndOfSnapshot::read(b"G1001                "), Some(1001));
        for wrong in [&b"G"[..], b"H                1001", b"G                100x", &[b'G'; 22]] {
            assert_eq!(EndOfSnapshot::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(EndOfSnapshot::read(b"G                    "), None);
    }
}
