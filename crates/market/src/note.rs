//! Notes: bytes that a session protocol keeps in the log beside the commands of its session.
//!
//! Invariant: the engine only returns a note as an event. No state and no result depends on one.

use core::fmt;

use crate::{
    DecodeError, SessionId,
    bytes::{ByteReader, ByteWriter, Encoded},
};

/// Data that a session protocol needs again when the log is replayed: names of orders, for which commands
/// have no room, and messages of the session itself.
///
/// A note has a place in the log like any command, so the replies made of it are a function of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Note {
    /// The session that it belongs to.
    pub session_id: SessionId,
    len: u8,
    /// 0 after `len`.
    bytes: [u8; Self::LEN_MAX],
}

impl Note {
    /// The most bytes of a note.
    pub const LEN_MAX: usize = 96;

    /// A note of these bytes; `None` if they are more than [`LEN_MAX`](Self::LEN_MAX).
    #[must_use]
    pub fn new(session_id: SessionId, text: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LEN_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { session_id, len: text.len() as u8, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note of {}: {}", self.session_id, self.bytes().escape_ascii())
    }
}

impl serde::Serialize for Note {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.session_id, self.bytes()).serialize(serializer)
    }
}

/// Session, length and bytes.
impl Encoded for Note {
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.session_id);
        out.write(&self.len);
        self.bytes().iter().for_each(|byte| out.write(byte));
    }

    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let (session_id, len) = (from.read(name)?, from.read(name)?);
        let mut bytes = [0; Self::LEN_MAX];
        let used = bytes.get_mut(..usize::from(len)).ok_or(DecodeError::Field(name))?;
        for byte in used {
            *byte = from.read(name)?;
        }
        Ok(Self { session_id, len, bytes })
    }
}
