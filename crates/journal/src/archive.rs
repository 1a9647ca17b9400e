//! Archives: compressed segments that a start does not need, kept for readers from the first record.
//!
//! Invariant: a segment is removed only after its archive is on the medium and reads back unchanged.

use std::{
    io::{self, ErrorKind, Read, Write},
    path::PathBuf,
};

use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    retention::segments_before,
    segment::{Name, file_name, read_name},
    storage::{FileAccess, Lock, Storage, StorageFile},
};

/// The suffix of an archive's name, after the name of its segment.
const EXTENSION: &str = ".lz4";

/// The suffix of an archive that is being written.
const UNFINISHED: &str = ".part";

const CHUNK_LEN: usize = 1 << 20;

/// Compresses the segments that end before the segment with the record `sequence`, the oldest
/// first. Removes each segment once its archive is on the medium and reads back unchanged. Returns
/// the number of segments.
///
/// # Errors
/// A file cannot be read, written or removed, or an archive does not read back; its segment then
/// remains.
pub fn archive_segments_before(storage: &mut dyn Storage, sequence: u64) -> io::Result<usize> {
    let segments = segments_before(storage, sequence)?;
    for first_sequence in &segments {
        let segment = file_name(*first_sequence);
        let archive = format!("{segment}{EXTENSION}");
        let unfinished = format!("{archive}{UNFINISHED}");
        let names = storage.list()?;
        let is_there = |name: &str| names.iter().any(|known| known == name);
        for left in [&unfinished, &archive].into_iter().filter(|name| is_there(name)) {
            storage.remove(left)?; // of an attempt that a crash has ended: the segment is still there
        }
        assert!(*first_sequence < sequence, "{segment} is not needed");
        let written = pack(storage, &segment, &unfinished)?;
        if unpack(storage, &unfinished, &mut |_| {})? != written {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{archive} does not read back as it was written"),
            ));
        }
        storage.rename(&unfinished, &archive)?;
        storage.sync_folder()?;
        storage.remove(&segment)?;
        storage.sync_folder()?;
    }
    Ok(segments.len())
}

/// True for the name of an archived segment.
pub(crate) fn is_archive(name: &str) -> bool {
    let segment = name.strip_suffix(EXTENSION);
    segment.is_some_and(|name| matches!(read_name(name), Name::Segment(_)))
}

/// Length and hash of the uncompressed bytes.
type Content = (u64, u128);

fn pack(storage: &mut dyn Storage, from: &str, to: &str) -> io::Result<Content> {
    let mut segment = storage.open(from, FileAccess::Read)?;
    let file = Sequential { file: storage.create(to)?, offset: 0 };
    let info = FrameInfo::new().block_size(BlockSize::Max1MB).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, file);
    let (mut hash, mut offset, mut chunk) = (Xxh3::new(), 0, vec![0; CHUNK_LEN]);
    loop {
        let read = segment.read_at(offset, &mut chunk)?;
        if read == 0 {
            break;
        }
        assert!(read <= chunk.len(), "{read} bytes were read into a chunk");
        hash.update(&chunk[..read]);
        encoder.write_all(&chunk[..read])?;
        offset += read as u64;
    }
    let mut file = encoder.finish().map_err(io::Error::other)?.file;
    file.sync()?;
    Ok((offset, hash.digest128()))
}

fn unpack(
    storage: &mut dyn Storage,
    from: &str,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<Content> {
    let file = Sequential { file: storage.open(from, FileAccess::Read)?, offset: 0 };
    let mut decoder = FrameDecoder::new(file);
    let (mut hash, mut len, mut chunk) = (Xxh3::new(), 0, vec![0; CHUNK_LEN]);
    loop {
        match decoder.read(&mut chunk)? {
            0 => return Ok((len, hash.digest128())),
            read => {
                hash.update(&chunk[..read]);
                take(&chunk[..read]);
                len += read as u64;
            }
        }
    }
}

/// A file, read from beginning to end.
struct Sequential {
    file: Box<dyn StorageFile>,
    offset: u64,
}

impl Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.offset, buffer)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl Write for Sequential {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder in which archived segments are found under their own names, for reading: for
/// [`verify`](crate::verify) and other read-only users. A segment is unpacked into memory.
pub struct WithArchives {
    storage: Box<dyn Storage>,
}

impl WithArchives {
    /// The files in `storage`, archives included.
    #[must_use]
    pub fn new(storage: Box<dyn Storage>) -> Self {
        Self { storage }
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "archives are only read"))
}

impl Storage for WithArchives {
    fn place(&self) -> PathBuf {
        self.storage.place()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = self.storage.list()?;
        let archived: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_suffix(EXTENSION))
            .filter(|name| matches!(read_name(name), Name::Segment(_)))
            .map(str::to_owned)
            .collect();
        names.extend(archived);
        names.sort();
        names.dedup(); // a crash may leave a segment beside its archive
        assert!(names.is_sorted_by(|one, next| one < next), "names are listed in order, once");
        Ok(names)
    }

    fn lock(&mut self) -> io::Result<Lock> {
        read_only()
    }

    fn create(&mut self, _name: &str) -> io::Result<Box<dyn StorageFile>> {
        read_only()
    }

    fn open(&mut self, name: &str, access: FileAccess) -> io::Result<Box<dyn StorageFile>> {
        match self.storage.open(name, access) {
            Err(error) if error.kind() == ErrorKind::NotFound && access == FileAccess::Read => {
                let mut bytes = Vec::new();
                let archive = format!("{name}{EXTENSION}");
                unpack(&mut *self.storage, &archive, &mut |part| bytes.extend_from_slice(part))?;
                Ok(Box::new(Unpacked { bytes }))
            }
            opened => opened,
        }
    }

    fn remove(&mut self, _name: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&mut self, _from: &str, _to: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        read_only()
    }

    fn second(&self) -> Box<dyn Storage> {
        Box::new(Self::new(self.storage.second()))
    }

    fn is_in_order(&self) -> bool {
        self.storage.is_in_order()
    }
}

struct Unpacked {
    bytes: Vec<u8>,
}

impl StorageFile for Unpacked {
    fn byte_count(&mut self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
        let len = buffer.len().min(self.bytes.len() - start);
        buffer[..len].copy_from_slice(&self.bytes[start..start + len]);
        Ok(len)
    }

    fn write_at(&mut self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn truncate(&mut self, _len: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&mut self) -> io::Result<()> {
        read_only()
    }
}
