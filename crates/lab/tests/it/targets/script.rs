//! Reads bytes as steps, so that a fuzzer can write events, their order and their times.

/// Bytes that are read from the front; past the end there are zeros.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `bound`, at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Some bytes after their length, at most 255.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    /// A time in nanoseconds, from 1 to 2^40 (18 minutes), of any magnitude.
    pub fn time_ns(&mut self) -> u64 {
        1 << (self.byte() % 41)
    }
}
