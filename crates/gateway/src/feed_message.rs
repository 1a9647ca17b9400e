//! One message of the feed with its number, in a slot of a ring.
//!
//! Invariant: a message is encoded once. Whatever carries it later copies these bytes.

use wire::itch::MESSAGE_LEN_MAX;

/// A message of the feed and its number.
#[derive(Clone, Copy)]
pub struct FeedMessage {
    pub number: u64,
    len: u8,
    bytes: [u8; MESSAGE_LEN_MAX],
}

const _: () = assert!(size_of::<FeedMessage>() == 64);

impl FeedMessage {
    /// # Panics
    /// The message is longer than any of ITCH.
    #[must_use]
    pub fn new(number: u64, message: &[u8]) -> Self {
        let mut bytes = [0; MESSAGE_LEN_MAX];
        bytes[..message.len()].copy_from_slice(message);
        Self { number, len: message.len() as u8, bytes }
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
