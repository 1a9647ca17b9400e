//! Reads the batches of one segment in order, in chunks of a few mebibytes.
//!
//! Invariant: a batch is shown only after all of it has verified.

use std::{
    io::{self, ErrorKind},
    ops::Range,
};

use crate::{
    batch::{self, ALIGNMENT, BATCH_HEADER_LEN, Batch, Chain, Header},
    error::{BadBatch, DamageKind},
    record::{self, Record, RecordFault, RecordKind},
    segment::{SEGMENT_HEADER_LEN, SegmentHeader},
    storage::StorageFile,
    writer::BUFFER_LEN,
};

const CHUNK_LEN: usize = 4 << 20;
/// The length of the first read in bytes; each later read is twice as long, up to a chunk.
const READ_LEN_MIN: usize = 4 << 10;
/// The bytes compared with zeros at a time.
const ZEROS_LEN: u64 = 64 << 10;
const _: () = assert!(2 * BUFFER_LEN <= CHUNK_LEN);

/// Reads forward through the first `len` bytes of a segment. Bytes appended meanwhile are ignored,
/// so a reader beside the writer sees a prefix of its output.
pub(crate) struct SegmentReader {
    file: Box<dyn StorageFile>,
    len: u64,
    header: SegmentHeader,
    seed: u32,
    /// The offset of the next batch, in bytes.
    offset: u64,
    /// The chain over the batches before it.
    chain: Chain,
    last_sequence: u64,
    last_timestamp: u64,
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// The length of the next read in bytes: short at the end of a growing file, long on the way
    /// there.
    read_len: usize,
    /// The range before the end of the file that held only zeros when it was read.
    zeros: Range<u64>,
    /// The places of the records of the last batch read.
    places: Vec<Place>,
}

/// The place of a record of the last batch in the segment, and its fields from the batch.
struct Place {
    offset: u64,
    payload_offset: u64,
    payload_len: usize,
    kind: RecordKind,
    sequence: u64,
    timestamp: u64,
}

/// The content at [`SegmentReader::offset`].
pub(crate) enum Next {
    /// A complete batch, to be shown by [`SegmentReader::record`].
    Batch,
    /// The end: only zeros follow, or no bytes at all.
    End,
    /// A batch that does not verify, at this offset.
    Bad(u64, BadBatch),
    /// A batch that verifies but does not belong here.
    Wrong(u64, DamageKind),
}

/// The next complete batch after a bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Later {
    /// The sequence of the first input.
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
}

impl SegmentReader {
    /// `last_sequence` and `last_timestamp` are those of the record before the segment.
    pub(crate) fn new(
        file: Box<dyn StorageFile>,
        len: u64,
        header: SegmentHeader,
        last_sequence: u64,
        last_timestamp: u64,
    ) -> Self {
        assert!(len >= SEGMENT_HEADER_LEN, "the header was read");
        assert!(header.alignment.is_power_of_two(), "{header:?}");
        assert!(last_sequence + 1 == header.first_sequence, "{header:?} after {last_sequence}");
        let seed = batch::seed(&header);
        Self {
            file,
            len,
            header,
            seed,
            offset: SEGMENT_HEADER_LEN,
            chain: header.chain,
            last_sequence,
            last_timestamp,
            chunk: Vec::new(),
            chunk_offset: SEGMENT_HEADER_LEN,
            read_len: READ_LEN_MIN,
            zeros: 0..0,
            places: Vec::new(),
        }
    }

    /// The offset of the next batch, or of the bad batch that was read last.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The chain over the batches before [`offset`](Self::offset).
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// The chain over the batches before the segment.
    pub(crate) fn first_chain(&self) -> Chain {
        self.header.chain
    }

    /// The epoch of the segment: the opening that made it, counted from 1.
    pub(crate) fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// The last sequence of the batches read so far.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// The number of records in the last batch read.
    pub(crate) fn record_count(&self) -> usize {
        self.places.len()
    }

    /// A record of that batch, and its offset in bytes.
    pub(crate) fn record(&self, index: usize) -> (u64, Record<'_>) {
        assert!(index < self.places.len(), "record {index} of {}", self.places.len());
        let place = &self.places[index];
        let Place { offset, kind, sequence, timestamp, .. } = *place;
        let payload = self.loaded(place.payload_offset, place.payload_len);
        (offset, Record { kind, sequence, timestamp, payload })
    }

    /// Reads the next batch, and moves on if it is complete and belongs here.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        match self.attempt()? {
            // While a venue writes, later bytes may have been read after earlier ones changed. A
            // second read in one go also finds the new earlier bytes.
            Next::Bad(..) | Next::Wrong(..) => {
                self.chunk.clear();
                self.attempt()
            }
            next => Ok(next),
        }
        .inspect(|next| {
            if !matches!(next, Next::Batch) {
                self.places.clear();
            }
        })
    }

    fn attempt(&mut self) -> io::Result<Next> {
        self.places.clear();
        if let Some(at) = self.padding_fault()? {
            return Ok(Next::Bad(at, BadBatch::NotZero));
        }
        let start = self.offset;
        if self.is_end(start)? {
            return Ok(Next::End);
        }
        let len = match self.len_at(start)? {
            Ok(len) => len,
            Err(fault) => return Ok(Next::Bad(start, fault)),
        };
        self.load(start, len)?;
        let batch = match Batch::verify(self.seed, self.loaded(start, len)) {
            Ok(batch) => batch,
            Err(BadBatch::Unknown { version }) => {
                return Ok(Next::Wrong(start, DamageKind::UnknownBatch { version }));
            }
            Err(fault) => return Ok(Next::Bad(start, fault)),
        };
        let (expected, found) = (self.last_sequence + 1, batch.first_sequence);
        if found != expected {
            return Ok(Next::Wrong(start, DamageKind::SequenceGap { expected, found }));
        }
        let (previous, found) = (self.last_timestamp, batch.timestamp);
        if found < previous {
            return Ok(Next::Wrong(start, DamageKind::TimeWentBack { previous, found }));
        }
        let Some(chain) = Batch::chain(&self.chain, self.loaded(start, len)) else {
            return Ok(Next::Wrong(start, DamageKind::ChainBroken));
        };
        match self.find_records(batch, len) {
            Ok((sequence, timestamp)) => {
                self.move_on(start + len as u64, chain, sequence, timestamp);
                Ok(Next::Batch)
            }
            Err(kind) => Ok(Next::Wrong(start, kind)),
        }
    }

    /// Finds the records of a verified batch; returns the sequence of the last input and the time
    /// of the last record.
    fn find_records(&mut self, batch: Batch, len: usize) -> Result<(u64, u64), DamageKind> {
        let start = usize::try_from(self.offset - self.chunk_offset).expect("in the chunk");
        let bytes = &self.chunk[start..start + len];
        let (mut sequence, mut timestamp) = (self.last_sequence, batch.timestamp);
        let mut at = BATCH_HEADER_LEN;
        for _ in 0..batch.record_count {
            let packed = record::read(bytes, at).map_err(|fault| match fault {
                RecordFault::Malformed => DamageKind::RecordMalformed { at: at as u64 },
                RecordFault::Unknown(kind) => DamageKind::UnknownRecord { kind },
            })?;
            let malformed = DamageKind::RecordMalformed { at: at as u64 };
            timestamp = timestamp.checked_add(packed.elapsed).ok_or(malformed)?;
            sequence += u64::from(packed.kind == RecordKind::Input);
            self.places.push(Place {
                offset: self.offset + at as u64,
                payload_offset: self.offset + packed.payload.start as u64,
                payload_len: packed.payload.len(),
                kind: packed.kind,
                sequence,
                timestamp,
            });
            at = packed.payload.end;
        }
        // Zeros up to the multiple of 8, and no other bytes.
        if len - at >= ALIGNMENT || !are_zeros(&bytes[at..]) {
            return Err(DamageKind::RecordMalformed { at: at as u64 });
        }
        assert!(self.last_sequence <= sequence && batch.timestamp <= timestamp);
        Ok((sequence, timestamp))
    }

    /// Skips the zeros between two batches; returns the offset of the first other byte.
    fn padding_fault(&mut self) -> io::Result<Option<u64>> {
        let next = self.offset.next_multiple_of(u64::from(self.header.alignment)).min(self.len);
        assert!(self.offset <= next, "byte {} lies behind the end", self.offset);
        if next == self.offset {
            return Ok(None);
        }
        let padding_len = usize::try_from(next - self.offset).expect("below a block");
        self.load(self.offset, padding_len)?;
        let place = self.loaded(self.offset, padding_len).iter().position(|byte| *byte != 0);
        let fault = place.map(|at| self.offset + at as u64);
        if fault.is_none() {
            self.offset = next;
        }
        Ok(fault)
    }

    fn move_on(&mut self, offset: u64, chain: Chain, sequence: u64, timestamp: u64) {
        self.offset = offset;
        self.chain = chain;
        self.last_sequence = sequence;
        self.last_timestamp = timestamp;
    }

    /// True if no bytes follow or, in a file that was zeroed ahead, only zeros.
    fn is_end(&mut self, offset: u64) -> io::Result<bool> {
        if offset == self.len {
            return Ok(true);
        }
        if self.len < self.zeros.end {
            self.zeros = 0..0;
        }
        let head_len = (self.len - offset).min(ALIGNMENT as u64) as usize;
        if self.zeros.contains(&offset) {
            if self.has_loaded(offset, head_len) && !are_zeros(self.loaded(offset, head_len)) {
                return Ok(false);
            }
            let mut head = [0; ALIGNMENT];
            read_exact_at(&mut *self.file, offset, &mut head[..head_len])?;
            if !are_zeros(&head) {
                // The writer has reached this place since the chunk was read, mostly with a batch
                // or two.
                self.chunk.clear();
                self.read_len = READ_LEN_MIN;
                return Ok(false);
            }
        } else {
            self.load(offset, head_len)?;
            if !are_zeros(self.loaded(offset, head_len)) {
                return Ok(false);
            }
            self.zeros = offset..offset;
        }
        // A writer appends only at the end, so the zeros behind it are checked once.
        let mut at = self.zeros.end;
        while let Some(place) = self.file.next_written(at)?.filter(|place| *place < self.len) {
            at = place.max(at);
            let len = (self.len - at).min(ZEROS_LEN) as usize;
            self.load(at, len)?;
            if !are_zeros(self.loaded(at, len)) {
                self.zeros = 0..0;
                return Ok(false);
            }
            at += len as u64;
        }
        self.zeros.end = self.len;
        self.read_len = READ_LEN_MIN;
        Ok(true)
    }

    /// Checks whether the length of the file has changed: true if there may be more to read now.
    pub(crate) fn grow(&mut self) -> io::Result<bool> {
        let len = self.file.byte_count()?.max(self.offset);
        let grown = len > self.len;
        self.len = len;
        self.chunk.clear();
        Ok(grown)
    }

    /// True if the bytes at [`offset`](Self::offset), read again from the file, are a complete
    /// batch or the end. The reader does not move.
    pub(crate) fn is_whole(&mut self) -> io::Result<bool> {
        self.chunk.clear();
        let (offset, chain) = (self.offset, self.chain);
        let (sequence, timestamp) = (self.last_sequence, self.last_timestamp);
        let is_whole = matches!(self.next()?, Next::Batch | Next::End | Next::Wrong(..));
        self.places.clear();
        self.move_on(offset, chain, sequence, timestamp);
        Ok(is_whole)
    }

    /// The first batch that verifies at any multiple of 8 after a bad one at `bad`: its existence
    /// distinguishes damage from a torn tail. A sequence too high for the length of the segment is
    /// skipped, so that garbage does not match by chance.
    pub(crate) fn find_after(&mut self, bad: u64) -> io::Result<Option<Later>> {
        assert!(self.offset <= bad && bad <= self.len, "byte {bad} of {}", self.len);
        let first = self.header.first_sequence;
        // A record takes at least two bytes.
        let sequence_max = first + self.len / 2;
        let header_len = BATCH_HEADER_LEN as u64;
        let mut offset = (bad + 1).next_multiple_of(ALIGNMENT as u64);
        while offset + header_len <= self.len {
            let header = self.header_at(offset)?;
            let sequence = header.batch.first_sequence;
            if header.is_known()
                && (first..=sequence_max).contains(&sequence)
                && let Ok(len) = header.len(self.len - offset)
            {
                self.load(offset, len)?;
                if Batch::verify(self.seed, self.loaded(offset, len)).is_ok() {
                    return Ok(Some(Later { sequence, offset }));
                }
            }
            offset += ALIGNMENT as u64;
        }
        Ok(None)
    }

    /// The length of a batch at `offset`, if there can be one.
    fn len_at(&mut self, offset: u64) -> io::Result<Result<usize, BadBatch>> {
        let available = self.len - offset;
        let needed = BATCH_HEADER_LEN as u64;
        if available < needed {
            return Ok(Err(BadBatch::Short { needed, available }));
        }
        Ok(self.header_at(offset)?.len(available))
    }

    fn header_at(&mut self, offset: u64) -> io::Result<Header> {
        self.load(offset, BATCH_HEADER_LEN)?;
        let bytes = self.loaded(offset, BATCH_HEADER_LEN);
        Ok(Header::read(bytes.first_chunk().expect("that many were loaded")))
    }

    /// True if the chunk contains these bytes.
    fn has_loaded(&self, offset: u64, len: usize) -> bool {
        let end = self.chunk_offset + self.chunk.len() as u64;
        self.chunk_offset <= offset && offset + len as u64 <= end
    }

    /// Bytes from the chunk.
    fn loaded(&self, offset: u64, len: usize) -> &[u8] {
        let start = usize::try_from(offset - self.chunk_offset).expect("in the chunk");
        &self.chunk[start..start + len]
    }

    /// Loads the bytes at `offset`, which lie before `self.len`, into the chunk. The bytes of the
    /// batch before them stay in it.
    fn load(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let keep = offset - self.offset.min(offset);
        // A batch is never longer than the writer's buffer; a longer distance means a scan of
        // garbage.
        let from = if keep <= 2 * BUFFER_LEN as u64 { self.offset.min(offset) } else { offset };
        self.load_from(from, offset, len)
    }

    fn load_from(&mut self, from: u64, offset: u64, len: usize) -> io::Result<()> {
        let end = offset + len as u64;
        assert!(from <= offset && end <= self.len, "bytes {from} to {end} of {}", self.len);
        if self.has_loaded(from, (end - from) as usize) {
            return Ok(());
        }
        let loaded_end = self.chunk_offset + self.chunk.len() as u64;
        let is_inside = self.chunk_offset <= from && from <= loaded_end;
        if is_inside {
            let dropped = usize::try_from(from - self.chunk_offset).expect("in the chunk");
            self.chunk.drain(..dropped);
        } else {
            self.chunk.clear();
        }
        self.chunk_offset = from;
        let had = self.chunk.len();
        let wanted = (self.len - from).min((self.read_len as u64).max(end - from));
        self.read_len = (self.read_len * 2).min(CHUNK_LEN);
        self.chunk.resize(usize::try_from(wanted).expect("some chunks"), 0);
        assert!(self.chunk_offset + self.chunk.len() as u64 >= end, "the chunk reaches byte {end}");
        read_exact_at(&mut *self.file, from + had as u64, &mut self.chunk[had..])
    }
}

/// Fills the buffer with bytes that the file must contain.
pub(crate) fn read_exact_at(
    file: &mut dyn StorageFile,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    if file.read_at(offset, buffer)? < buffer.len() {
        let reason = "the file became shorter while it was read";
        return Err(io::Error::new(ErrorKind::UnexpectedEof, reason));
    }
    Ok(())
}

/// True if all bytes are 0. Compares sixteen at a time, since long zeroed ranges pass here.
pub(crate) fn are_zeros(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::*;
    use crate::{
        CrashStorage, Durability, WriterOptions,
        segment::{BLOCK_LEN, file_name},
    };

    /// A file that counts the bytes read from it.
    struct Counted {
        bytes: Vec<u8>,
        read: Arc<AtomicU64>,
    }

    impl StorageFile for Counted {
        fn byte_count(&mut self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            self.read.fetch_add(len as u64, Ordering::Relaxed);
            Ok(len)
        }

        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn truncate(&mut self, len: u64) -> io::Result<()> {
            self.bytes.truncate(len as usize);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The rest of a file that is zeroed ahead is read once; each later look reads only the bytes
    /// at the end.
    #[test]
    fn zeros_ahead_are_read_once() {
        const LEN: usize = 8 << 20;
        let header = SegmentHeader::new(5, 6, 7);
        let last = header.first_sequence - 1;
        let read = Arc::new(AtomicU64::new(0));
        let file = Counted { bytes: vec![0; LEN], read: Arc::clone(&read) };
        let mut reader = SegmentReader::new(Box::new(file), LEN as u64, header, last, 0);
        assert!(matches!(reader.next().unwrap(), Next::End));
        assert!(LEN as u64 - SEGMENT_HEADER_LEN <= read.swap(0, Ordering::Relaxed));
        for _ in 0..100 {
            assert!(!reader.grow().unwrap());
            assert!(matches!(reader.next().unwrap(), Next::End));
        }
        assert_eq!(read.load(Ordering::Relaxed), 100 * ALIGNMENT as u64);

        // New bytes there are found, and garbage is not taken for a batch.
        reader.file.write_at(SEGMENT_HEADER_LEN, &[7]).unwrap();
        assert!(matches!(
            reader.next().unwrap(),
            Next::Bad(SEGMENT_HEADER_LEN, _) | Next::Wrong(..)
        ));
    }

    /// A reader that keeps up with a writer reads little more than the new bytes, whether it looks
    /// after each batch or after many, and does not wait for the end.
    #[test]
    fn what_is_new_is_read() {
        const COUNT: usize = 3_000;
        let storage = CrashStorage::new();
        let mut replay = |_: Record<'_>| Ok::<_, Infallible>(());
        let options = WriterOptions { durability: Durability::Written, ..WriterOptions::new(5, 6) };
        let opened = crate::open(Box::new(storage.clone()), &options, &mut replay);
        let (mut writer, _) = opened.unwrap();
        for sequence in 1..=COUNT as u64 {
            writer.append(sequence, sequence, &[1; 100]).unwrap();
            writer.commit().unwrap();
        }
        writer.flush().unwrap();
        let written = storage.bytes(&file_name(1)).unwrap();
        let header = SegmentHeader::decode(&written[..BLOCK_LEN]).unwrap();
        let reader_of = |bytes: Vec<u8>| {
            let (read, len) = (Arc::new(AtomicU64::new(0)), bytes.len() as u64);
            let file = Box::new(Counted { bytes, read: Arc::clone(&read) });
            (SegmentReader::new(file, len, header, 0, 0), read)
        };
        let (mut reader, _) = reader_of(written.clone());
        let starts: Vec<usize> = (0..=COUNT)
            .map(|_| {
                let start = reader.offset();
                reader.next().unwrap();
                start as usize
            })
            .collect();
        for batches_per_look in [1, 2, 300] {
            let (mut reader, read) = reader_of(vec![0; written.len()]);
            assert!(matches!(reader.next().unwrap(), Next::End));
            read.store(0, Ordering::Relaxed);
            for at in (0..COUNT).step_by(batches_per_look) {
                let new = starts[at]..starts[at + batches_per_look];
                reader.file.write_at(new.start as u64, &written[new]).unwrap();
                for _ in 0..batches_per_look {
                    assert!(matches!(reader.next().unwrap(), Next::Batch));
                }
            }
            let looks = (COUNT / batches_per_look) as u64;
            let new = (starts[COUNT] - starts[0]) as u64;
            let read = read.load(Ordering::Relaxed);
            let allowed = 3 * new + looks * (READ_LEN_MIN + ALIGNMENT) as u64;
            assert!(read <= allowed, "{read} of {allowed}, {batches_per_look} batches a look");
        }
    }

    /// One byte that is not 0 is found at any position.
    #[test]
    fn one_byte_is_found() {
        for len in 0..70 {
            let mut bytes = vec![0; len];
            assert!(are_zeros(&bytes));
            for place in 0..len {
                bytes[place] = 1;
                assert!(!are_zeros(&bytes), "{place} of {len}");
                bytes[place] = 0;
            }
        }
    }
}
