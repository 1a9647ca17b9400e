//! Writes a snapshot under another name, syncs it, then renames it.
//!
//! Invariant: a file with the name of a snapshot was whole on the medium when it got that name.

use std::io;

use xxhash_rust::xxh3::Xxh3;

use super::{
    ALIGNMENT, END_CODE, END_LEN, SECTION_HEADER_LEN, SECTION_LEN_MAX, SectionHeader,
    SnapshotHeader, snapshot_file_name, unfinished_name,
};
use crate::storage::{Storage, StorageFile};

/// The bytes gathered for one write.
const BUFFER_LEN: usize = 1 << 20;

/// The bytes written between two syncs, so that the last sync is short and the journal beside it
/// never waits for all of them.
const SYNC_LEN: u64 = 16 << 20;

/// A snapshot on its way to storage. Dropped before [`finish`](Self::finish) it leaves a file that
/// is no snapshot; the next writer removes it.
pub struct SnapshotWriter<'a> {
    storage: &'a mut dyn Storage,
    header: SnapshotHeader,
    seed: u32,
    file: Option<Box<dyn StorageFile>>,
    /// Bytes in the file, without those in the buffer.
    file_len: u64,
    synced_len: u64,
    buffer: Vec<u8>,
    hash: Xxh3,
    section_count: u32,
    failed: Option<io::Error>,
}

impl<'a> SnapshotWriter<'a> {
    /// Creates the file. [`finish`](Self::finish) returns any error.
    pub fn new(storage: &'a mut dyn Storage, header: SnapshotHeader) -> Self {
        let mut writer = Self {
            storage,
            header,
            seed: header.seed(),
            file: None,
            file_len: 0,
            synced_len: 0,
            buffer: Vec::with_capacity(BUFFER_LEN + SECTION_HEADER_LEN),
            hash: Xxh3::new(),
            section_count: 0,
            failed: None,
        };
        writer.attempt(Self::begin);
        writer.put(&header.encode());
        writer
    }

    /// Adds a section.
    ///
    /// # Panics
    /// `bytes` is longer than [`SECTION_LEN_MAX`], or the code is that of the end (65,535).
    pub fn section(&mut self, code: u16, bytes: &[u8]) {
        assert!(bytes.len() <= SECTION_LEN_MAX, "a section of {} bytes", bytes.len());
        assert!(code != END_CODE, "the end is written by `finish`");
        self.add(code, bytes);
    }

    /// Ends the file, brings it to the medium and gives it its name. Returns its length in bytes.
    ///
    /// # Errors
    /// Storage failed, now or before. There is no new snapshot then, and the earlier ones are
    /// unchanged.
    pub fn finish(mut self) -> io::Result<u64> {
        let mut end = [0; END_LEN];
        end[..8].copy_from_slice(&u64::from(self.section_count).to_le_bytes());
        let byte_count = self.file_len + self.buffer.len() as u64;
        end[8..16].copy_from_slice(&byte_count.to_le_bytes());
        end[16..].copy_from_slice(&self.hash.digest128().to_le_bytes());
        self.add(END_CODE, &end);
        self.attempt(Self::write);
        self.attempt(Self::sync);
        if let Some(error) = self.failed {
            return Err(error);
        }
        drop(self.file);
        let sequence = self.header.sequence;
        let name = snapshot_file_name(sequence);
        if self.storage.list()?.contains(&name) {
            self.storage.remove(&name)?; // an unusable one, since otherwise no new one is made
        }
        self.storage.rename(&unfinished_name(sequence), &name)?;
        self.storage.sync_folder()?;
        Ok(self.file_len)
    }

    fn begin(&mut self) -> io::Result<()> {
        let name = unfinished_name(self.header.sequence);
        if self.storage.list()?.contains(&name) {
            self.storage.remove(&name)?; // an earlier life died over it
        }
        self.file = Some(self.storage.create(&name)?);
        Ok(())
    }

    fn add(&mut self, code: u16, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).expect("at most SECTION_LEN_MAX");
        let mut head = SectionHeader { checksum: 0, len, code, nth: self.section_count };
        let padding = &[0; ALIGNMENT][..bytes.len().next_multiple_of(ALIGNMENT) - bytes.len()];
        let unsummed = crc32c::crc32c_append(self.seed, &head.encode()[4..]);
        let summed = crc32c::crc32c_append(unsummed, bytes);
        head.checksum = crc32c::crc32c_append(summed, padding);
        self.put(&head.encode());
        self.put(bytes);
        self.put(padding);
        self.section_count += 1;
        let written = self.file_len + self.buffer.len() as u64;
        let is_aligned = written.is_multiple_of(ALIGNMENT as u64);
        assert!(self.failed.is_some() || is_aligned, "a section ends at byte {written}");
    }

    fn put(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        for part in bytes.chunks(BUFFER_LEN) {
            if self.buffer.len() + part.len() > BUFFER_LEN {
                self.attempt(Self::write);
            }
            self.buffer.extend_from_slice(part);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let file = self.file.as_mut().expect("it was made, or nothing is tried");
        file.write_at(self.file_len, &self.buffer)?;
        assert!(self.buffer.len() <= BUFFER_LEN, "{} bytes were gathered", self.buffer.len());
        self.file_len += self.buffer.len() as u64;
        self.buffer.clear();
        if self.file_len - self.synced_len >= SYNC_LEN {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.as_mut().expect("it was made, or nothing is tried").sync()?;
        assert!(self.synced_len <= self.file_len, "a snapshot only grows");
        self.synced_len = self.file_len;
        Ok(())
    }

    /// Runs `act` unless an earlier call failed; remembers the first failure.
    fn attempt(&mut self, act: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(error) = act(self)
        {
            self.failed = Some(error);
        }
        if self.failed.is_some() {
            self.buffer.clear();
        }
    }
}
