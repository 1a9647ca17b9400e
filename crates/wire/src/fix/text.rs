//! The fields of session messages in notes.
//!
//! Invariant: these fields fit into a note.

use super::{SOH, message::decimal, note::FIELDS_LEN_MAX};

/// The fields of a session message being written.
pub(super) struct Text {
    bytes: [u8; FIELDS_LEN_MAX],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; FIELDS_LEN_MAX], len: 0 }
    }
}

impl Text {
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.put(decimal(number, &mut [0; 20]))
    }

    pub(super) fn too_low(&mut self, expected: u64, received: u64) {
        self.put(b"MsgSeqNum too low, expecting ").number(expected);
        self.put(b" but received ").number(received);
    }

    /// The number of bytes that still fit.
    pub(super) const fn room(&self) -> usize {
        FIELDS_LEN_MAX - self.len
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A BusinessMessageReject of the message with this number.
pub(super) fn business_reject(counted: u32, msg_type: &[u8], reason: &[u8], words: &[u8]) -> Text {
    let mut text = Text::default();
    text.put(b"j\x0145=").number(counted.into()).put(b"\x01372=");
    text.put(&msg_type[..msg_type.len().min(2)]).put(b"\x01380=").put(reason);
    text.put(b"\x0158=").put(words).put(&[SOH]);
    text
}
