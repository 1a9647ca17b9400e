//! Appending: gathers records in one buffer, and writes each batch by one write.
//!
//! Invariant: after an error of storage every later call fails, so no record is confirmed by a retry.

use std::{io, path::PathBuf};

use crate::{
    batch::{self, ALIGNMENT, BATCH_HEADER_LEN, Batch, Chain},
    buffer::Buffer,
    error::AppendError,
    failpoint::{Failpoint, failpoint},
    record::{
        self, PAYLOAD_LEN_MAX, RECORD_HEAD_LEN_MAX, RECORD_LEN_MAX, RecordKind, SHORT_LEN_MAX,
        TIME_LEN_MAX,
    },
    segment::{BLOCK_LEN, SEGMENT_HEADER_LEN, SegmentHeader, file_name},
    segment_preparer::{EndedSegment, Outcome, SegmentPreparer},
    storage::{PREPARED_FILE, Storage, StorageFile},
    watermark::Watermark,
};

/// The failures that a confirmed record survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No failure: records are written when there are many, or at [`Writer::flush`]. A crash of the
    /// process may lose the last ones.
    None,
    /// The end of the process: each commit hands its records to the operating system. A power cut
    /// may lose the last ones.
    Written,
    /// A power cut: each commit waits until its records are on the medium.
    #[default]
    Synced,
}

impl Durability {
    /// The alignment of batches, in bytes. A synced batch has its blocks for itself: writing the
    /// next one touches no confirmed bytes.
    pub(crate) fn alignment(self) -> usize {
        match self {
            Self::None | Self::Written => ALIGNMENT,
            Self::Synced => BLOCK_LEN,
        }
    }
}

/// The one writer of a journal; made by [`open`](crate::open). Dropping it releases the
/// folder and writes nothing: call [`sync`](Self::sync) first.
pub struct Writer {
    /// Declared before `storage`, which holds the lock, so that its thread ends first.
    preparer: SegmentPreparer,
    storage: Box<dyn Storage>,
    durability: Durability,
    segment_bytes: u64,

    header: SegmentHeader,
    file: Box<dyn StorageFile>,
    file_name: String,
    /// The offset of the next batch, a multiple of the alignment.
    offset: u64,
    /// The segment ends before a batch that would go beyond this offset, if the next one is ready.
    limit: u64,
    /// The end of the space allocated for the segment, in bytes.
    allocated: u64,
    seed: u32,
    chain: Chain,

    /// The batch being gathered: room for its header, then its records.
    buffer: Buffer,
    /// The header of that batch so far.
    batch: Batch,
    scratch: Buffer,

    last_timestamp: u64,
    /// `synced <= written <= appended`
    appended_sequence: u64,
    written_sequence: u64,
    synced_sequence: u64,

    next: NextSegment,
    /// The error that left no room for the next segment, until there is room.
    no_room: Option<io::Error>,
    poisoned: Option<String>,
}

/// The state of the segment after the current one.
enum NextSegment {
    /// The current one is less than half full.
    NotYet,
    /// The next segment is requested.
    Coming,
    /// The next segment has zeros to its end, on the medium.
    Ready(Box<dyn StorageFile>),
    /// There is no room for it. The current segment goes on while it can.
    NoRoom,
}

/// The capacity of the buffer in bytes. Records that fill it are written without waiting for a
/// commit, so it never grows.
pub(crate) const BUFFER_LEN: usize = 1 << 20;
const _: () = assert!(BATCH_HEADER_LEN + RECORD_LEN_MAX + BLOCK_LEN <= BUFFER_LEN);

/// The most bytes of a batch; the rest of the buffer is for the zeros after it.
const BATCH_LEN_MAX: usize = BUFFER_LEN - BLOCK_LEN;

/// The bytes gathered before a commit writes them, under [`Durability::None`].
const LAZY_LEN: usize = 64 * 1024;

/// The most bytes of the first segment of a start, which is created while the start waits.
const FIRST_SEGMENT_BYTES: u64 = 4 << 20;

/// The bytes added to a full segment when the next one is not ready.
const GROWTH: u64 = 1 << 20;

/// The end of a journal, as recovery found it.
pub(crate) struct Tail {
    pub(crate) header: SegmentHeader,
    pub(crate) watermark: Watermark,
    pub(crate) last_sequence: u64,
    pub(crate) last_timestamp: u64,
}

impl Writer {
    /// Continues after `tail`, all of which is on the medium, in a segment of its own.
    pub(crate) fn new(
        mut storage: Box<dyn Storage>,
        durability: Durability,
        segment_bytes: u64,
        tail: Tail,
    ) -> io::Result<Self> {
        let header = tail.header;
        assert!(header.first_sequence == tail.last_sequence + 1, "{header:?} goes on");
        assert!(header.alignment as usize == durability.alignment(), "{header:?}");
        assert!(tail.watermark.sequence() == tail.last_sequence, "what was replayed is synced");
        let block = durability.alignment() as u64;
        let segment_bytes = segment_bytes.next_multiple_of(block);
        let limit = segment_bytes.min(FIRST_SEGMENT_BYTES);
        let file = header.create(&mut *storage, limit)?;
        let file_name = file_name(header.first_sequence);
        let preparer = SegmentPreparer::new(&*storage, tail.watermark, durability, &file_name)?;
        let mut buffer = Buffer::with_capacity(BUFFER_LEN);
        buffer.extend(BATCH_HEADER_LEN);
        Ok(Self {
            preparer,
            storage,
            durability,
            segment_bytes,
            header,
            file,
            file_name,
            offset: SEGMENT_HEADER_LEN,
            limit,
            allocated: limit,
            seed: batch::seed(&header),
            chain: header.chain,
            buffer,
            batch: Batch { record_count: 0, first_sequence: header.first_sequence, timestamp: 0 },
            scratch: Buffer::with_capacity(SEGMENT_HEADER_LEN as usize),
            last_timestamp: tail.last_timestamp,
            appended_sequence: tail.last_sequence,
            written_sequence: tail.last_sequence,
            synced_sequence: tail.last_sequence,
            next: NextSegment::NotYet,
            no_room: None,
            poisoned: None,
        })
    }

    /// Copies a record into the buffer. Touches storage only if the buffer is full, or if the
    /// segment is full and the next one begins.
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
        self.check_next(sequence, timestamp);
        self.make_room(payload.len())?;
        self.put(RecordKind::Input, timestamp, payload);
        self.appended_sequence = sequence;
        Ok(())
    }

    /// As [`append`](Self::append), with a payload of at most `N` bytes, which `write` puts at the
    /// front of its slice; `write` returns the length.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    ///
    /// # Panics
    /// As [`append`](Self::append), or `write` returns a length above `N`.
    #[inline]
    pub fn append_with<const N: usize>(
        &mut self,
        sequence: u64,
        timestamp: u64,
        write: impl FnOnce(&mut [u8; N]) -> usize,
    ) -> Result<(), AppendError> {
        const { assert!(N <= SHORT_LEN_MAX && TIME_LEN_MAX + 1 + N <= BUFFER_LEN - BATCH_LEN_MAX) }
        self.check_next(sequence, timestamp);
        let elapsed = self.elapsed(timestamp);
        let spare = self.buffer.spare();
        let time_len =
            record::write_time(elapsed, spare.first_chunk_mut().expect("batches leave so much"));
        let payload: &mut [u8; N] =
            spare[time_len + 1..].first_chunk_mut().expect("batches leave so much");
        let payload_len = write(payload);
        assert!(payload_len <= N, "{payload_len} bytes of {N}");
        let record_len = time_len + 1 + payload_len;
        if self.has_room(record_len) {
            self.buffer.extend(record_len)[time_len] = record::short_kind(payload_len);
            self.added(timestamp);
        } else {
            // The bytes before it leave now, and it takes their place.
            let spare = &self.buffer.spare()[time_len + 1..];
            let payload: [u8; N] = *spare.first_chunk().expect("it was just written there");
            self.make_room(payload_len)?;
            self.put(RecordKind::Input, timestamp, &payload[..payload_len]);
        }
        self.appended_sequence = sequence;
        Ok(())
    }

    #[inline]
    fn check_next(&self, sequence: u64, timestamp: u64) {
        let expected = self.appended_sequence + 1;
        assert!(sequence == expected, "{sequence} instead of {expected}: sequences have no gaps");
        assert!(timestamp >= self.last_timestamp, "{timestamp} < {}", self.last_timestamp);
    }

    /// The time of this record after the previous one in the batch, in ns.
    #[inline]
    fn elapsed(&self, timestamp: u64) -> u64 {
        if self.batch.record_count == 0 { 0 } else { timestamp - self.last_timestamp }
    }

    /// Counts the record that was put into the buffer.
    #[inline]
    fn added(&mut self, timestamp: u64) {
        if self.batch.record_count == 0 {
            self.batch.timestamp = timestamp;
        }
        self.batch.record_count += 1;
        self.last_timestamp = timestamp;
    }

    /// Copies a checkpoint into the buffer: a note about the inputs before it, without a sequence
    /// of its own.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    ///
    /// # Panics
    /// The payload is longer than [`PAYLOAD_LEN_MAX`].
    pub fn checkpoint(&mut self, payload: &[u8]) -> Result<(), AppendError> {
        self.make_room(payload.len())?;
        self.put(RecordKind::Checkpoint, self.last_timestamp, payload);
        Ok(())
    }

    /// The end of the batch with a further record of `record_len` bytes.
    #[inline]
    fn end_with(&self, record_len: usize) -> u64 {
        self.offset + (self.buffer.len() + record_len).next_multiple_of(ALIGNMENT) as u64
    }

    /// True if a record fits into buffer and segment as they are.
    #[inline]
    fn has_room(&self, record_len: usize) -> bool {
        self.poisoned.is_none()
            && self.buffer.len() + record_len <= BATCH_LEN_MAX
            && self.end_with(record_len) <= self.limit
    }

    /// Makes sure that a record fits into the buffer, and with it into the segment.
    fn make_room(&mut self, payload_len: usize) -> Result<(), AppendError> {
        self.check()?;
        assert!(payload_len <= PAYLOAD_LEN_MAX, "a payload of {payload_len} bytes");
        let len_max = RECORD_HEAD_LEN_MAX + payload_len;
        if self.end_with(len_max) > self.limit {
            // The next one is named by its first input, so this one must have one before.
            let has_input = self.appended_sequence >= self.header.first_sequence;
            self.write(false)?;
            if has_input {
                self.begin_segment()?;
            }
        }
        if self.buffer.len() + len_max > BATCH_LEN_MAX {
            self.write(false)?;
        }
        Ok(())
    }

    fn put(&mut self, kind: RecordKind, timestamp: u64, payload: &[u8]) {
        let (head, head_len) = record::head(kind, self.elapsed(timestamp), payload.len());
        self.buffer.put(&head[..head_len]);
        self.buffer.put(payload);
        self.added(timestamp);
    }

    /// Writes or syncs all appended records as the durability policy requires, and returns the last
    /// sequence that is durable under the policy; see [`durable`](Self::durable).
    ///
    /// # Errors
    /// Storage failed. Nothing after [`durable`](Self::durable) is promised, and every later call
    /// fails: only opening the journal again shows the bytes on the medium.
    pub fn commit(&mut self) -> Result<u64, AppendError> {
        self.check()?;
        match self.durability {
            Durability::None if self.buffer.len() < LAZY_LEN => {}
            Durability::Written if failpoint(Failpoint::Early) => {
                if self.buffer.len() > 1_000 {
                    self.write(false)?;
                }
                self.written_sequence = self.appended_sequence;
            }
            Durability::None | Durability::Written => self.write(false)?,
            Durability::Synced if failpoint(Failpoint::Early) => {
                self.write(false)?;
                self.synced_sequence = self.written_sequence;
            }
            Durability::Synced => self.write(true)?,
        }
        self.preparer.committed(match self.durability {
            Durability::None | Durability::Written => self.written_sequence,
            Durability::Synced => self.synced_sequence,
        });
        if self.offset > self.limit / 2 {
            self.ask_for_next();
            let half = (self.limit / 2).max(1);
            self.preparer.is_at((self.offset - self.limit / 2).min(half) * 256 / half);
        }
        self.take_outcomes()?;
        let [synced, written, appended] =
            [self.synced_sequence, self.written_sequence, self.appended_sequence];
        assert!(synced <= written && written <= appended, "{synced} {written} {appended}");
        Ok(self.durable())
    }

    /// Hands all appended records to the operating system, whatever the policy.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn flush(&mut self) -> Result<(), AppendError> {
        self.check()?;
        self.write(false)
    }

    /// Brings all appended records to the medium, whatever the policy, and moves the watermark to
    /// their end: the last call of a venue that stops cleanly.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn sync(&mut self) -> Result<(), AppendError> {
        self.check()?;
        self.write(true)?;
        assert!(self.synced_sequence == self.appended_sequence, "all is on the medium");
        if let Err(failed) = self.preparer.watermark(self.synced_sequence) {
            return Err(self.poison(failed.doing, failed.path, failed.source));
        }
        self.take_outcomes()
    }

    /// The last sequence that is appended, written or synced, as the policy requires; 0 is none.
    #[must_use]
    pub fn durable(&self) -> u64 {
        match self.durability {
            Durability::None => self.appended_sequence,
            Durability::Written => self.written_sequence,
            Durability::Synced => self.synced_sequence,
        }
    }

    /// The last sequence appended; 0 is none.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.appended_sequence
    }

    /// The identity of this journal, chosen when it was created.
    #[must_use]
    pub fn journal_id(&self) -> u64 {
        self.header.journal_id
    }

    /// The policy with which the journal was opened.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The error that left no room for the next segment, until that is ready. The rest of the
    /// current segment can still be written; the caller should append only inputs that it cannot
    /// reject.
    #[must_use]
    pub fn no_room(&self) -> Option<&io::Error> {
        self.no_room.as_ref()
    }

    /// The space allocated for the current segment, and its unused part, in bytes.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        let gathered = if self.batch.record_count == 0 { 0 } else { self.buffer.len() };
        let end = self.offset + gathered as u64;
        (self.allocated, self.allocated.saturating_sub(end))
    }

    /// Requests room for the next segment again, after there was none. A later
    /// [`commit`](Self::commit), even an empty one, takes the result.
    pub fn try_room_again(&mut self) {
        if matches!(self.next, NextSegment::NoRoom) {
            self.next = NextSegment::NotYet;
            self.ask_for_next();
        }
    }

    fn ask_for_next(&mut self) {
        if matches!(self.next, NextSegment::NotYet) {
            self.next = NextSegment::Coming;
            self.preparer.prepare(self.segment_bytes);
        }
    }

    /// Ends the segment and begins the next one, if that is ready; if not, makes the current one
    /// longer. All appended records have been written.
    fn begin_segment(&mut self) -> Result<(), AppendError> {
        assert!(self.batch.record_count == 0 && self.written_sequence == self.appended_sequence);
        self.ask_for_next();
        self.preparer.finish();
        self.take_outcomes()?;
        if !matches!(self.next, NextSegment::Ready(_)) {
            self.limit += GROWTH;
            return Ok(());
        }
        let next = std::mem::replace(&mut self.next, NextSegment::NotYet);
        let NextSegment::Ready(mut file) = next else { unreachable!("it was ready") };
        // Where commits sync, all segments but the last are on the medium, and so is the header of
        // the last before a record follows it. Elsewhere the sync happens while the writer goes on.
        let waits = self.durability == Durability::Synced || !self.preparer.is_background();
        if waits {
            self.sync_file()?;
        }
        let header = SegmentHeader {
            first_sequence: self.appended_sequence + 1,
            created: self.last_timestamp,
            chain: self.chain,
            ..self.header
        };
        assert!(header.first_sequence > self.header.first_sequence, "the one before has an input");
        let name = file_name(header.first_sequence);
        let begun = header
            .write(&mut *file, &mut self.scratch)
            .and_then(|()| if waits { file.sync() } else { Ok(()) })
            .and_then(|()| self.storage.rename(PREPARED_FILE, &name))
            .and_then(|()| if waits { self.storage.sync_folder() } else { Ok(()) });
        if let Err(source) = begun {
            return Err(self.poison("begin", self.storage.place().join(&name), source));
        }
        let ended = std::mem::replace(&mut self.file, file);
        let ended_name = std::mem::replace(&mut self.file_name, name.clone());
        if waits {
            self.preparer.begin(&name, self.synced_sequence);
        } else {
            let sequence = self.written_sequence;
            self.preparer.sync_ended(EndedSegment { ended, ended_name, next_name: name, sequence });
        }
        self.header = header;
        self.seed = batch::seed(&header);
        self.offset = SEGMENT_HEADER_LEN;
        (self.limit, self.allocated) = (self.segment_bytes, self.segment_bytes);
        Ok(())
    }

    /// Seals the batch and writes it; with `synced`, it is on the medium afterwards.
    fn write(&mut self, synced: bool) -> Result<(), AppendError> {
        if self.batch.record_count == 0 {
            return if synced { self.sync_file() } else { Ok(()) };
        }
        let alignment = self.header.alignment as usize;
        assert!(self.offset.is_multiple_of(alignment as u64), "a batch at byte {}", self.offset);
        assert!(self.buffer.len() <= BATCH_LEN_MAX, "the zeros fit as well");
        self.buffer.pad(ALIGNMENT);
        let chain = self.batch.seal(self.seed, &self.chain, self.buffer.bytes_mut());
        self.buffer.pad(alignment);
        let bytes = self.buffer.bytes();
        assert!(
            bytes.len() <= BUFFER_LEN && bytes.len().is_multiple_of(alignment),
            "{}",
            bytes.len()
        );
        let written = if synced {
            self.file.write_synced(self.offset, bytes)
        } else {
            self.file.write_at(self.offset, bytes)
        };
        if let Err(source) = written {
            return Err(self.poison("write to", self.path(), source));
        }
        self.offset += bytes.len() as u64;
        self.chain = chain;
        self.buffer.clear();
        self.buffer.extend(BATCH_HEADER_LEN);
        self.batch =
            Batch { record_count: 0, first_sequence: self.appended_sequence + 1, timestamp: 0 };
        self.written_sequence = self.appended_sequence;
        if synced {
            self.synced_sequence = self.written_sequence;
        }
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), AppendError> {
        assert!(self.synced_sequence <= self.written_sequence, "{}", self.synced_sequence);
        if self.synced_sequence == self.written_sequence {
            return Ok(());
        }
        if let Err(source) = self.file.sync() {
            return Err(self.poison("sync", self.path(), source));
        }
        self.synced_sequence = self.written_sequence;
        Ok(())
    }

    /// Takes the results of the segment preparer.
    fn take_outcomes(&mut self) -> Result<(), AppendError> {
        while let Some(outcome) = self.preparer.next_outcome() {
            match outcome {
                Outcome::Prepared(file) => {
                    assert!(matches!(self.next, NextSegment::Coming), "it was asked for once");
                    self.next = NextSegment::Ready(file);
                    self.no_room = None;
                }
                Outcome::NoRoom(error) => {
                    assert!(matches!(self.next, NextSegment::Coming), "it was asked for once");
                    self.next = NextSegment::NoRoom;
                    self.no_room = Some(error);
                }
                Outcome::Synced(sequence) => {
                    assert!(sequence <= self.written_sequence, "{sequence} was never written");
                    self.synced_sequence = self.synced_sequence.max(sequence);
                }
                Outcome::Moved => {}
                Outcome::Failed(failed) => {
                    return Err(self.poison(failed.doing, failed.path, failed.source));
                }
            }
        }
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

    fn poison(&mut self, doing: &'static str, path: PathBuf, source: io::Error) -> AppendError {
        assert!(self.poisoned.is_none(), "the first failure is the last thing done");
        let durable = self.confirmed();
        self.poisoned = Some(format!("cannot {doing} {}: {source}", path.display()));
        AppendError::Storage { doing, path, durable, source }
    }

    /// The durable sequence in error messages.
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
    use crate::{CrashStorage, Record, WriterOptions, open};

    /// The buffer is allocated once: appending and committing never make it grow or move.
    #[test]
    fn the_buffer_never_grows() {
        for durability in [Durability::None, Durability::Written, Durability::Synced] {
            let options =
                WriterOptions { durability, segment_bytes: 8 << 20, ..WriterOptions::new(1, 0) };
            let storage = Box::new(CrashStorage::new());
            let (mut writer, _) =
                open(storage, &options, &mut |_| Ok::<_, Infallible>(())).unwrap();
            let place = writer.buffer.place();
            for sequence in 1..=400 {
                let payload = [7; PAYLOAD_LEN_MAX];
                let payload_len = [80, 0, PAYLOAD_LEN_MAX][sequence as usize % 3];
                writer.append(sequence, sequence, &payload[..payload_len]).unwrap();
                if sequence % 100 == 0 {
                    writer.commit().unwrap();
                }
                assert_eq!(writer.buffer.place(), place);
            }
        }
    }

    /// Without a promise, commits write only when enough has gathered, or on request.
    #[test]
    fn lazy_commits_gather() {
        let storage = CrashStorage::new();
        let options = WriterOptions { durability: Durability::None, ..WriterOptions::new(1, 0) };
        let replay = &mut |_: Record<'_>| Ok::<_, Infallible>(());
        let (mut writer, _) = open(Box::new(storage.clone()), &options, replay).unwrap();
        let end = |writer: &Writer| writer.offset;
        let start = end(&writer);
        writer.append(1, 1, b"one").unwrap();
        assert_eq!(writer.commit().unwrap(), 1);
        assert_eq!(end(&writer), start);
        writer.append(2, 2, &[0; LAZY_LEN]).unwrap();
        assert_eq!(writer.commit().unwrap(), 2);
        assert!(end(&writer) > start + LAZY_LEN as u64);
        let start = end(&writer);
        writer.append(3, 3, b"three").unwrap();
        assert_eq!(writer.commit().unwrap(), 3);
        assert_eq!(end(&writer), start);
        writer.flush().unwrap();
        assert!(end(&writer) > start);
    }
}
