//! Records of one segment, one after the other, by reads of a mebibyte.

use std::io::{self, ErrorKind};

use crate::{
    error::BadRecord,
    record::{ALIGNMENT, Header, RECORD_HEADER_LEN, RECORD_LEN_MAX, Record},
    segment::SEGMENT_HEADER_LEN,
    storage::StorageFile,
};

const CHUNK_LEN: usize = 1 << 20;
const _: () = assert!(RECORD_LEN_MAX <= CHUNK_LEN);

/// Reads forward through the first `len` bytes of a segment: what is appended meanwhile is not
/// looked at, so a reader beside the writer sees a prefix of what it writes.
pub(crate) struct SegmentReader {
    file: Box<dyn StorageFile>,
    len: u64,
    seed: u32,
    /// Where the next record begins.
    offset: u64,
    chunk: Vec<u8>,
    chunk_offset: u64,
}

/// What lies at [`SegmentReader::offset`].
pub(crate) enum Next<'a> {
    /// A record that verifies.
    Record(Record<'a>),
    /// The end, exactly.
    End,
    /// Something else.
    Bad(BadRecord),
}

impl SegmentReader {
    pub(crate) fn new(file: Box<dyn StorageFile>, len: u64, seed: u32) -> Self {
        assert!(len >= SEGMENT_HEADER_LEN, "the header was read");
        Self {
            file,
            len,
            seed,
            offset: SEGMENT_HEADER_LEN,
            chunk: Vec::new(),
            chunk_offset: SEGMENT_HEADER_LEN,
        }
    }

    /// Where the next record begins; after a bad one, where that begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, and moves on if it verifies.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        if self.offset == self.len {
            return Ok(Next::End);
        }
        let offset = self.offset;
        let len = match self.encoded_len_at(offset)? {
            Ok(len) => len,
            Err(fault) => return Ok(Next::Bad(fault)),
        };
        self.load(offset, len)?;
        let start = usize::try_from(offset - self.chunk_offset).expect("in the chunk");
        match Record::decode(self.seed, &self.chunk[start..start + len]) {
            Ok(record) => {
                self.offset += len as u64;
                Ok(Next::Record(record))
            }
            Err(fault) => Ok(Next::Bad(fault)),
        }
    }

    /// Looks whether the file has become longer, or shorter: true if there may be more to read now.
    pub(crate) fn grow(&mut self) -> io::Result<bool> {
        let len = self.file.byte_count()?.max(self.offset);
        let grown = len > self.len;
        if len != self.len {
            self.len = len;
            self.forget();
        }
        Ok(grown)
    }

    /// True if what lies at [`offset`](Self::offset), read again from the file, is a record.
    pub(crate) fn is_whole(&mut self) -> io::Result<bool> {
        self.forget();
        let offset = self.offset;
        let is_record = matches!(self.next()?, Next::Record(_));
        self.offset = offset;
        Ok(is_record)
    }

    fn forget(&mut self) {
        self.chunk.clear();
        self.chunk_offset = self.offset;
    }

    /// The first record (sequence, offset) that verifies at any aligned place after a bad one: it
    /// tells damage from a torn tail. A sequence that the segment has no room for is passed over,
    /// so that chance does not find records in garbage.
    pub(crate) fn find_after(&mut self, first_sequence: u64) -> io::Result<Option<(u64, u64)>> {
        let record_count_max = self.len / RECORD_HEADER_LEN as u64;
        let mut offset = self.offset + ALIGNMENT as u64;
        while offset + RECORD_HEADER_LEN as u64 <= self.len {
            let sequence = self.header_at(offset)?.sequence;
            if sequence.checked_sub(first_sequence).is_some_and(|nth| nth < record_count_max)
                && let Ok(len) = self.encoded_len_at(offset)?
                && Record::decode(self.seed, self.load(offset, len)?).is_ok()
            {
                return Ok(Some((sequence, offset)));
            }
            offset += ALIGNMENT as u64;
        }
        Ok(None)
    }

    fn encoded_len_at(&mut self, offset: u64) -> io::Result<Result<usize, BadRecord>> {
        let available = self.len - offset;
        if available < RECORD_HEADER_LEN as u64 {
            return Ok(Err(BadRecord::Short { needed: RECORD_HEADER_LEN as u64, available }));
        }
        Ok(self.header_at(offset)?.encoded_len(available))
    }

    fn header_at(&mut self, offset: u64) -> io::Result<Header> {
        let bytes = self.load(offset, RECORD_HEADER_LEN)?;
        Ok(Header::read(bytes.first_chunk().expect("that many were loaded")))
    }

    /// The bytes at `offset`, which lie before `self.len`; reads the chunk that begins there
    /// unless the current one has them.
    fn load(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let loaded = self.chunk_offset..=self.chunk_offset + self.chunk.len() as u64;
        if !(loaded.contains(&offset) && loaded.contains(&(offset + len as u64))) {
            let chunk_len = (self.len - offset).min(CHUNK_LEN as u64);
            self.chunk.resize(usize::try_from(chunk_len).expect("at most CHUNK_LEN"), 0);
            self.chunk_offset = offset;
            read_exact_at(&mut *self.file, offset, &mut self.chunk)?;
        }
        let start = usize::try_from(offset - self.chunk_offset).expect("in the chunk");
        Ok(&self.chunk[start..start + len])
    }
}

/// Fills the buffer with bytes that the file was seen to have.
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
