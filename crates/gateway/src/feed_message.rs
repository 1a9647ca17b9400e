//! One message of the feed with its number, in a slot of a ring.
//!
//! Invariant: a message is encoded once. Every later carrier copies these bytes.

use ring::Words;
use wire::itch::MESSAGE_LEN_MAX;

/// A message of the feed and its number.
#[derive(Clone, Copy)]
pub struct FeedMessage {
    pub number: u64,
    len: u8,
    bytes: [u8; MESSAGE_LEN_MAX],
}

const _: () = assert!(size_of::<FeedMessage>() == 64);

impl Words for FeedMessage {
    const WORDS: usize = 8;

    fn to_words(&self, words: &mut [u64]) {
        let mut bytes = [0; 56];
        bytes[0] = self.len;
        bytes[1..=MESSAGE_LEN_MAX].copy_from_slice(&self.bytes);
        words[0] = self.number;
        for (word, bytes) in words[1..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
    }

    fn from_words(words: &[u64]) -> Self {
        let mut bytes = [0; 56];
        for (word, bytes) in words[1..].iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let message = bytes[1..=MESSAGE_LEN_MAX].try_into().expect("it is that long");
        Self { number: words[0], len: bytes[0], bytes: message }
    }
}

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
