//! An aligned buffer for direct I/O.
//!
//! Invariant: the buffer never grows, so it never moves.

use crate::segment::BLOCK_LEN;

/// A buffer of fixed capacity; its first byte is aligned to [`BLOCK_LEN`].
pub(crate) struct Buffer {
    /// Never grows, so it never moves.
    bytes: Box<[u8]>,
    start: usize,
    /// The end of the used bytes.
    end: usize,
}

impl Buffer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        assert!(capacity.is_multiple_of(BLOCK_LEN), "{capacity} bytes are not whole blocks");
        let bytes = vec![0; capacity + BLOCK_LEN].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(BLOCK_LEN);
        assert!(start < BLOCK_LEN, "bytes can be aligned");
        Self { bytes, start, end: start }
    }

    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::with_capacity(len);
        buffer.end = buffer.start + len;
        assert!(buffer.len() == len && buffer.end <= buffer.bytes.len(), "the zeros fit");
        buffer
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// The bytes after the end, with any content; the caller writes within the capacity.
    #[inline]
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Moves the end forward by this many bytes.
    #[inline]
    pub(crate) fn extend(&mut self, len: usize) -> &mut [u8] {
        let begin = self.end;
        self.end += len;
        // Also the bound of the slice: one check for both.
        assert!(self.end <= self.bytes.len(), "{len} bytes more than the capacity");
        &mut self.bytes[begin..self.end]
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Adds zeros until the length is a multiple of `alignment`.
    pub(crate) fn pad(&mut self, alignment: usize) {
        assert!(alignment.is_power_of_two() && alignment <= BLOCK_LEN, "{alignment}");
        let len = self.len();
        self.extend(len.next_multiple_of(alignment) - len).fill(0);
    }

    pub(crate) fn clear(&mut self) {
        self.end = self.start;
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> (*const u8, usize) {
        (self.bytes.as_ptr(), self.bytes.len())
    }
}
