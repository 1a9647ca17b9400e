//! Nasdaq's BinaryFILE: before each message its length, two bytes, big-endian.
//!
//! Invariant: a record is read whole or is an error. A record without bytes ends the session, and the file.

use std::io::{self, Read, Write};

use wire::itch::MESSAGE_LEN_MAX;

use super::{Input, RecordingError};

#[derive(Default)]
pub(super) struct BinaryFileReader {
    message: Vec<u8>,
    is_over: bool,
}

impl BinaryFileReader {
    /// The next message; `None` at the end.
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<&[u8]>, RecordingError> {
        let begin = input.offset;
        let mut length = [0; 2];
        if self.is_over || !input.fill(&mut length)? {
            return Ok(None);
        }
        let length = usize::from(u16::from_be_bytes(length));
        if length == 0 {
            self.is_over = true;
            return Ok(None);
        }
        self.message.resize(length, 0);
        // A message beyond the longest length is read as far as its type, which the error names.
        self.message.truncate(MESSAGE_LEN_MAX + 1);
        input.fill_rest(&mut self.message, begin)?;
        Ok(Some(&self.message))
    }
}

/// Writes a message.
///
/// # Panics
/// `message` is longer than 65,535 bytes.
pub(super) fn write(file: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).expect("a message has less than 64 KiB");
    file.write_all(&length.to_be_bytes())?;
    file.write_all(message)
}
