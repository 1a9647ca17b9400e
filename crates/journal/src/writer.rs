//! Appending: records are gathered in one buffer and leave it by one write a batch.

use std::{io, path::PathBuf};

use crate::{
    error::AppendError,
    record::{self, PAYLOAD_LEN_MAX, RECORD_LEN_MAX, Record, encoded_len},
    segment::{SEGMENT_HEADER_LEN, SegmentHeader, file_name},
    storage::{Storage, StorageFile},
};

/// What a confirmed sequence survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is promised: records are written when there are many, or when
    /// [`Writer::flush`] asks. A crash of the process may take the last ones.
    None,
    /// The end of the process: each commit hands its records to the operating system. A power cut
    /// may take the last ones.
    Written,
    /// A power cut: each commit waits until its records are on the medium.
    #[default]
    Synced,
}

/// The one writer of a journal; made by [`open`](crate::open). Dropping it gives the folder back
/// and writes nothing: ask [`sync`](Self::sync) first.
pub struct Writer {
    storage: Box<dyn Storage>,
    durability: Durability,
    segment_bytes: u64,
    journal_id: u64,

    file: Box<dyn StorageFile>,
    file_name: String,
    /// Bytes in the file; those in the buffer come after them.
    file_len: u64,
    seed: u32,

    buffer: Vec<u8>,
    last_timestamp: u64,
    /// `synced <= written <= appended`
    appended_sequence: u64,
    written_sequence: u64,
    synced_sequence: u64,

    poisoned: Option<String>,
}

/// Records that fill it are written without waiting for a commit, so it never grows.
const BUFFER_LEN: usize = 1 << 20;
const _: () = assert!(RECORD_LEN_MAX <= BUFFER_LEN);

/// Under [`Durability::None`], how much is gathered before a commit writes it.
const LAZY_LEN: usize = 64 * 1024;

/// Where recovery found the end of a journal.
pub(crate) struct Tail {
    pub(crate) file: Box<dyn StorageFile>,
    pub(crate) header: SegmentHeader,
    pub(crate) file_len: u64,
    pub(crate) last_sequence: u64,
    pub(crate) last_timestamp: u64,
}

impl Writer {
    /// Goes on at `tail`, all of which is on the medium.
    pub(crate) fn new(
        storage: Box<dyn Storage>,
        durability: Durability,
        segment_bytes: u64,
        tail: Tail,
    ) -> Self {
        let SegmentHeader { journal_id, first_sequence, .. } = tail.header;
        Self {
            storage,
            durability,
            segment_bytes,
            journal_id,
            file: tail.file,
            file_name: file_name(first_sequence),
            file_len: tail.file_len,
            seed: record::seed(journal_id, first_sequence),
            buffer: Vec::with_capacity(BUFFER_LEN),
            last_timestamp: tail.last_timestamp,
            appended_sequence: tail.last_sequence,
            written_sequence: tail.last_sequence,
            synced_sequence: tail.last_sequence,
            poisoned: None,
        }
    }

    /// Copies a record into the buffer. Only where the buffer is full, or the segment is and the
    /// next one begins, does it touch storage.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    ///
    /// # Panics
    /// `sequence` is not the one after the last, `timestamp` (in ns) is before the last, or the
    /// payload is longer than [`PAYLOAD_LEN_MAX`].
    pub fn append(
        &mut self,
        sequence: u64,
        timestamp: u64,
        payload: &[u8],
    ) -> Result<(), AppendError> {
        self.check()?;
        assert_eq!(sequence, self.appended_sequence + 1, "sequences have no gaps");
        assert!(timestamp >= self.last_timestamp, "{timestamp} < {}", self.last_timestamp);
        assert!(payload.len() <= PAYLOAD_LEN_MAX, "a payload of {} bytes", payload.len());

        let len = encoded_len(payload.len());
        let segment_len = self.file_len + self.buffer.len() as u64;
        if segment_len > SEGMENT_HEADER_LEN && segment_len + len as u64 > self.segment_bytes {
            self.begin_segment(sequence, timestamp)?;
        }
        if self.buffer.len() + len > BUFFER_LEN {
            self.write()?;
        }
        Record { sequence, timestamp, payload }.encode(self.seed, &mut self.buffer);
        self.appended_sequence = sequence;
        self.last_timestamp = timestamp;
        Ok(())
    }

    /// Does what the durability policy asks for all that was appended, and returns the last
    /// sequence that is durable as the policy means it; see [`durable`](Self::durable).
    ///
    /// # Errors
    /// Storage failed. Nothing after [`durable`](Self::durable) is promised, and every later call
    /// fails: what is on the medium is known only by opening the journal again.
    pub fn commit(&mut self) -> Result<u64, AppendError> {
        self.check()?;
        match self.durability {
            Durability::None if self.buffer.len() < LAZY_LEN => {}
            Durability::None | Durability::Written => self.write()?,
            Durability::Synced => {
                self.write()?;
                self.sync_file()?;
            }
        }
        Ok(self.durable())
    }

    /// Hands all that was appended to the operating system, whatever the policy.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn flush(&mut self) -> Result<(), AppendError> {
        self.check()?;
        self.write()
    }

    /// Brings all that was appended to the medium, whatever the policy: the last call of a venue
    /// that stops in peace.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn sync(&mut self) -> Result<(), AppendError> {
        self.check()?;
        self.write()?;
        self.sync_file()
    }

    /// The last sequence that is appended, written or synced, as the policy means it; 0 is none.
    #[must_use]
    pub fn durable(&self) -> u64 {
        match self.durability {
            Durability::None => self.appended_sequence,
            Durability::Written => self.written_sequence,
            Durability::Synced => self.synced_sequence,
        }
    }

    /// The last sequence that was appended; 0 is none.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.appended_sequence
    }

    /// The identity of this journal, chosen when it was made.
    #[must_use]
    pub fn journal_id(&self) -> u64 {
        self.journal_id
    }

    /// The policy it was opened with.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Ends the segment and begins the next one with `first_sequence`. The old one is synced
    /// under every policy: only the last segment of a journal can be torn.
    fn begin_segment(&mut self, first_sequence: u64, created: u64) -> Result<(), AppendError> {
        self.write()?;
        self.sync_file()?;
        let header = SegmentHeader { journal_id: self.journal_id, first_sequence, created };
        self.file_name = file_name(first_sequence);
        match header.create(&mut *self.storage) {
            Ok(file) => self.file = file,
            Err(source) => return Err(self.poison("create", source)),
        }
        self.file_len = SEGMENT_HEADER_LEN;
        self.seed = record::seed(self.journal_id, first_sequence);
        Ok(())
    }

    fn write(&mut self) -> Result<(), AppendError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.file.append(&self.buffer) {
            return Err(self.poison("write to", source));
        }
        self.file_len += self.buffer.len() as u64;
        self.buffer.clear();
        self.written_sequence = self.appended_sequence;
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), AppendError> {
        if self.synced_sequence == self.written_sequence {
            return Ok(());
        }
        if let Err(source) = self.file.sync() {
            return Err(self.poison("sync", source));
        }
        self.synced_sequence = self.written_sequence;
        Ok(())
    }

    fn check(&self) -> Result<(), AppendError> {
        match &self.poisoned {
            None => Ok(()),
            Some(first) => {
                Err(AppendError::Poisoned { durable: self.confirmed(), first: first.clone() })
            }
        }
    }

    fn poison(&mut self, doing: &'static str, source: io::Error) -> AppendError {
        let (path, durable) = (self.path(), self.confirmed());
        self.poisoned = Some(format!("cannot {doing} {}: {source}", path.display()));
        AppendError::Storage { doing, path, durable, source }
    }

    /// What the messages call durable.
    fn confirmed(&self) -> u64 {
        self.durable().min(self.written_sequence)
    }

    fn path(&self) -> PathBuf {
        self.storage.place().join(&self.file_name)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{CrashStorage, Options, open};

    /// The buffer is taken once: appending and committing never make it grow or move.
    #[test]
    fn the_buffer_never_grows() {
        for durability in [Durability::None, Durability::Written, Durability::Synced] {
            let options = Options { durability, ..Options::new(1, 0) };
            let storage = Box::new(CrashStorage::new());
            let (mut writer, _) =
                open(storage, &options, &mut |_| Ok::<_, Infallible>(())).unwrap();
            let (place, capacity) = (writer.buffer.as_ptr(), writer.buffer.capacity());
            for sequence in 1..=400 {
                let payload = [7; PAYLOAD_LEN_MAX];
                let payload_len = [80, 0, PAYLOAD_LEN_MAX][sequence as usize % 3];
                writer.append(sequence, sequence, &payload[..payload_len]).unwrap();
                if sequence % 100 == 0 {
                    writer.commit().unwrap();
                }
                assert_eq!(writer.buffer.as_ptr(), place);
                assert_eq!(writer.buffer.capacity(), capacity);
            }
        }
    }

    /// Without a promise, commits write only when enough has gathered, or when asked.
    #[test]
    fn lazy_commits_gather() {
        let storage = CrashStorage::new();
        let options = Options { durability: Durability::None, ..Options::new(1, 0) };
        let replay = &mut |_: Record<'_>| Ok::<_, Infallible>(());
        let (mut writer, _) = open(Box::new(storage.clone()), &options, replay).unwrap();
        let operation_count = storage.operation_count();
        writer.append(1, 1, b"one").unwrap();
        assert_eq!(writer.commit().unwrap(), 1);
        assert_eq!(storage.operation_count(), operation_count);
        writer.append(2, 2, &[0; LAZY_LEN]).unwrap();
        assert_eq!(writer.commit().unwrap(), 2);
        assert_eq!(storage.operation_count(), operation_count + 1);
        writer.append(3, 3, b"three").unwrap();
        writer.flush().unwrap();
        assert_eq!(storage.operation_count(), operation_count + 2);
    }
}
