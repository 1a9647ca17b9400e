//! Bytes that begin at an address which storage can take directly.

use crate::segment::BLOCK_LEN;

/// A buffer of fixed capacity whose first byte lies at a multiple of [`BLOCK_LEN`].
pub(crate) struct Buffer {
    /// Never grows beyond the capacity it was made with, so it never moves.
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
}

impl Buffer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(capacity + BLOCK_LEN);
        let start = bytes.as_ptr().align_offset(BLOCK_LEN);
        assert!(start < BLOCK_LEN, "bytes can be aligned");
        bytes.resize(start, 0);
        Self { bytes, start, capacity }
    }

    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::with_capacity(len);
        buffer.bytes.resize(buffer.start + len, 0);
        buffer
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// To put bytes at the end of; whoever does keeps within the capacity.
    pub(crate) fn vec(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds zeros up to a length that is a multiple of this.
    pub(crate) fn pad(&mut self, alignment: usize) {
        let len = self.len().next_multiple_of(alignment);
        assert!(len <= self.capacity, "{len} > {}", self.capacity);
        self.bytes.resize(self.start + len, 0);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> (*const u8, usize) {
        (self.bytes.as_ptr(), self.bytes.capacity())
    }
}
