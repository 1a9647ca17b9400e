//! Reads the batches of one segment in order, in chunks of some mebibytes.
//!
//! Invariant: a batch is shown only after all of it has verified.

use std::io::{self, ErrorKind};

use crate::{
    error::{BadRecord, DamageKind},
    record::{
        self, ALIGNMENT, Chain, Class, Entry, Header, RECORD_HEADER_LEN, Record, SEAL_LEN,
        chain_after,
    },
    segment::{SEGMENT_HEADER_LEN, SegmentHeader},
    storage::StorageFile,
    writer::BUFFER_LEN,
};

const CHUNK_LEN: usize = 4 << 20;
const _: () = assert!(2 * BUFFER_LEN <= CHUNK_LEN);

/// Reads forward through the first `len` bytes of a segment: what is appended meanwhile is not
/// looked at, so a reader beside the writer sees a prefix of what it writes.
pub(crate) struct SegmentReader {
    file: Box<dyn StorageFile>,
    len: u64,
    header: SegmentHeader,
    seed: u32,
    /// Where the next batch begins.
    offset: u64,
    /// The chain over the batches before it.
    chain: Chain,
    last_sequence: u64,
    last_timestamp: u64,
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// The offsets and lengths of the records of the last batch read.
    places: Vec<(u64, usize)>,
}

/// The content at [`SegmentReader::offset`].
pub(crate) enum Next {
    /// A whole batch, to be shown by [`SegmentReader::record`].
    Batch,
    /// The end: nothing but zeros follows, or nothing.
    End,
    /// A record that does not verify, at this place.
    Bad(u64, BadRecord),
    /// A record that verifies and should not be here.
    Wrong(u64, DamageKind),
}

/// The content after a bad record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Later {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    /// It belongs to the same batch as the bad one.
    pub(crate) is_same_batch: bool,
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
        let seed = record::seed(&header);
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
            places: Vec::new(),
        }
    }

    /// Where the next batch begins; after a bad one, where that begins.
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

    /// The last sequence of the batches that were read.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// The number of records in the last batch read, the seal excluded.
    pub(crate) fn record_count(&self) -> usize {
        self.places.len()
    }

    /// A record of that batch, and its offset in bytes.
    pub(crate) fn record(&self, index: usize) -> (u64, Record<'_>) {
        assert!(index < self.places.len(), "record {index} of {}", self.places.len());
        let (offset, len) = self.places[index];
        let start = usize::try_from(offset - self.chunk_offset).expect("in the chunk");
        let bytes = &self.chunk[start..start + len];
        let entry = self.decode(bytes).expect("it verified a moment ago");
        let Class::Shown(kind) = entry.class else { panic!("a seal is not shown") };
        let Entry { sequence, timestamp, payload, .. } = entry;
        (offset, Record { kind, sequence, timestamp, payload })
    }

    /// Reads the next batch, and moves on if it is whole and belongs here.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        match self.attempt()? {
            // Beside a venue that writes, what is behind may have been read later than what is
            // before. Read again in one go, what is before is there as well.
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
            return Ok(Next::Bad(at, BadRecord::NotZero));
        }
        let mut offset = self.offset;
        let (mut sequence, mut timestamp) = (self.last_sequence, self.last_timestamp);
        loop {
            if offset == self.offset && self.is_end(offset)? {
                return Ok(Next::End);
            }
            let len = match self.encoded_len_at(offset)? {
                Ok(len) => len,
                Err(fault) => return Ok(Next::Bad(offset, fault)),
            };
            self.load(offset, len)?;
            let entry = match self.decode(self.loaded(offset, len)) {
                Ok(entry) => entry,
                Err(BadRecord::Unknown { kind, version }) => {
                    return Ok(Next::Wrong(offset, DamageKind::UnknownRecord { kind, version }));
                }
                Err(fault) => return Ok(Next::Bad(offset, fault)),
            };
            let is_input = entry.class == Class::Shown(record::RecordKind::Input);
            let expected = sequence + u64::from(is_input);
            if entry.sequence != expected {
                let kind = DamageKind::SequenceGap { expected, found: entry.sequence };
                return Ok(Next::Wrong(offset, kind));
            }
            if entry.timestamp < timestamp {
                let kind = DamageKind::TimeWentBack { previous: timestamp, found: entry.timestamp };
                return Ok(Next::Wrong(offset, kind));
            }
            let first = self.last_sequence + 1;
            if entry.batch_first() != first {
                let kind = DamageKind::OtherBatch { expected: first, found: entry.batch_first() };
                return Ok(Next::Wrong(offset, kind));
            }
            let (class, time) = (entry.class, entry.timestamp);
            let sealed: Option<Chain> =
                (class == Class::Seal).then(|| entry.payload.try_into().ok()).flatten();
            let end = offset + len as u64;
            match class {
                Class::Shown(_) => self.places.push((offset, len)),
                Class::Seal => {
                    let batch_len = usize::try_from(offset - self.offset).expect("in the chunk");
                    let chain = chain_after(&self.chain, self.loaded(self.offset, batch_len));
                    if sealed != Some(chain) {
                        return Ok(Next::Wrong(offset, DamageKind::ChainBroken));
                    }
                    assert!(self.offset < end && end <= self.len, "byte {end} of {}", self.len);
                    assert!(self.last_sequence <= sequence && self.last_timestamp <= timestamp);
                    self.move_on(end, chain, sequence, timestamp);
                    return Ok(Next::Batch);
                }
            }
            (sequence, timestamp) = (expected, time);
            offset = end;
        }
    }

    /// Skips the zeros between two batches; returns the offset of the first other byte.
    fn padding_fault(&mut self) -> io::Result<Option<u64>> {
        let next = self.offset.next_multiple_of(u64::from(self.header.alignment)).min(self.len);
        assert!(self.offset <= next, "byte {} lies behind the end", self.offset);
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

    /// True if nothing follows, or in a file that was zeroed ahead, nothing but zeros.
    fn is_end(&mut self, offset: u64) -> io::Result<bool> {
        if offset == self.len {
            return Ok(true);
        }
        let mut at = offset;
        let head_len = (self.len - offset).min(8) as usize;
        self.load(offset, head_len)?;
        if !are_zeros(self.loaded(offset, head_len)) {
            return Ok(false);
        }
        while let Some(place) = self.file.next_written(at)?.filter(|place| *place < self.len) {
            at = place.max(at);
            let len = (self.len - at).min(64 * 1024) as usize;
            self.load(at, len)?;
            if !are_zeros(self.loaded(at, len)) {
                return Ok(false);
            }
            at += len as u64;
        }
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

    /// True if what lies at [`offset`](Self::offset), read again from the file, is a whole batch, or
    /// the end. It is not moved on.
    pub(crate) fn is_whole(&mut self) -> io::Result<bool> {
        self.chunk.clear();
        let (offset, chain) = (self.offset, self.chain);
        let (sequence, timestamp) = (self.last_sequence, self.last_timestamp);
        let is_whole = matches!(self.next()?, Next::Batch | Next::End | Next::Wrong(..));
        self.places.clear();
        self.move_on(offset, chain, sequence, timestamp);
        Ok(is_whole)
    }

    /// The first record that verifies at any aligned place after a bad one at `bad`, one of another
    /// batch rather than one of the same: it tells damage from a torn tail. A sequence that the
    /// segment has no room for is passed over, so that chance does not find records in garbage.
    pub(crate) fn find_after(&mut self, bad: u64) -> io::Result<Option<Later>> {
        assert!(self.offset <= bad && bad <= self.len, "byte {bad} of {}", self.len);
        let first = self.header.first_sequence;
        let record_count_max = self.len / RECORD_HEADER_LEN as u64 + 1;
        let batch_first = self.last_sequence + 1;
        let mut found = None;
        let header_len = RECORD_HEADER_LEN as u64;
        let mut offset = bad.next_multiple_of(ALIGNMENT as u64);
        if offset == bad {
            offset += ALIGNMENT as u64;
        }
        while offset + header_len <= self.len {
            let Some(sequence) = self.sequence_at(offset)? else {
                offset += ALIGNMENT as u64;
                continue;
            };
            // A note or seal before the first input has the sequence before it.
            let nth = (sequence + 1).checked_sub(first);
            if nth.is_some_and(|nth| nth <= record_count_max)
                && let Ok(len) = self.encoded_len_at(offset)?
            {
                self.load(offset, len)?;
                if let Ok(entry) = self.decode(self.loaded(offset, len)) {
                    let is_same_batch = entry.batch_first() == batch_first
                        && offset < self.offset + (BUFFER_LEN + SEAL_LEN) as u64;
                    let later = Later { sequence: entry.sequence, offset, is_same_batch };
                    if !is_same_batch {
                        return Ok(Some(later));
                    }
                    found.get_or_insert(later);
                }
            }
            offset += ALIGNMENT as u64;
        }
        Ok(found)
    }

    fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Entry<'a>, BadRecord> {
        Entry::decode(self.seed, bytes)
    }

    /// The header of a record here; `None` if there cannot be one.
    fn sequence_at(&mut self, offset: u64) -> io::Result<Option<u64>> {
        let header = self.header_at(offset)?;
        Ok(header.is_known().then_some(header.sequence))
    }

    fn encoded_len_at(&mut self, offset: u64) -> io::Result<Result<usize, BadRecord>> {
        let available = self.len - offset;
        let needed = RECORD_HEADER_LEN as u64;
        if available < needed {
            return Ok(Err(BadRecord::Short { needed, available }));
        }
        Ok(self.header_at(offset)?.encoded_len(available))
    }

    fn header_at(&mut self, offset: u64) -> io::Result<Header> {
        self.load(offset, RECORD_HEADER_LEN)?;
        let bytes = self.loaded(offset, RECORD_HEADER_LEN);
        Ok(Header::read(bytes.first_chunk().expect("that many were loaded")))
    }

    /// The number of bytes in the chunk.
    fn loaded(&self, offset: u64, len: usize) -> &[u8] {
        let start = usize::try_from(offset - self.chunk_offset).expect("in the chunk");
        &self.chunk[start..start + len]
    }

    /// Brings the bytes at `offset`, which lie before `self.len`, into the chunk. Those of the
    /// batch before them stay in it.
    fn load(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let keep = offset - self.offset.min(offset);
        // A batch is never longer than the writer's buffer; beyond, it is garbage that is scanned.
        let from = if keep <= 2 * BUFFER_LEN as u64 { self.offset.min(offset) } else { offset };
        self.load_from(from, offset, len)
    }

    fn load_from(&mut self, from: u64, offset: u64, len: usize) -> io::Result<()> {
        let end = offset + len as u64;
        assert!(from <= offset && end <= self.len, "bytes {from} to {end} of {}", self.len);
        let loaded_end = self.chunk_offset + self.chunk.len() as u64;
        if self.chunk_offset <= from && end <= loaded_end {
            return Ok(());
        }
        let is_inside = self.chunk_offset <= from && from <= loaded_end;
        if is_inside {
            let dropped = usize::try_from(from - self.chunk_offset).expect("in the chunk");
            self.chunk.drain(..dropped);
        } else {
            self.chunk.clear();
        }
        self.chunk_offset = from;
        let had = self.chunk.len();
        let wanted = (self.len - from).min((CHUNK_LEN as u64).max(end - from));
        self.chunk.resize(usize::try_from(wanted).expect("some chunks"), 0);
        assert!(self.chunk_offset + self.chunk.len() as u64 >= end, "the chunk reaches byte {end}");
        read_exact_at(&mut *self.file, from + had as u64, &mut self.chunk[had..])
    }
}

/// Fills the buffer with bytes that the file is known to have.
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

/// True if all bytes are 0: sixteen at a time, since long zeroed ranges pass here.
pub(crate) fn are_zeros(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::are_zeros;

    /// One byte that is not 0 is found wherever it stands.
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
