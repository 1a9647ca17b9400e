//! The storage of a journal: one flat folder of files. [`Folder`] is a folder of the file system.
//!
//! Invariant: bytes count as durable only after [`StorageFile::sync`], names only after
//! [`Storage::sync_folder`].

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use os::Uring;
use rustix::{
    fs::{Advice, FallocateFlags, SeekFrom},
    io::Errno,
};

use crate::segment::{Name, read_name};

/// The name of the file whose lock makes one process the only writer of a folder.
pub(crate) const LOCK_FILE: &str = "lock";

/// The name of the watermark's file; see [`watermark`](crate::watermark).
pub(crate) const WATERMARK_FILE: &str = "watermark";

/// The name of the file that will be the next segment; discarded after a crash.
pub(crate) const PREPARED_FILE: &str = "prepared";

/// The prefix of the files that test a write method.
const PROBE_FILE: &str = "probe-";

/// The prefix of the files that hold the bytes cut by a truncation.
pub(crate) const ASIDE: &str = "cut-";

/// True for the files of a journal that are not segments.
pub(crate) fn is_beside(name: &str) -> bool {
    [LOCK_FILE, WATERMARK_FILE, PREPARED_FILE].contains(&name)
        || name.starts_with(PROBE_FILE)
        || name.starts_with(ASIDE)
}

/// A folder as the journal needs it. Names are plain file names.
///
/// Only synced data survives a power cut: bytes after [`StorageFile::sync`], the existence of a
/// file after [`Storage::sync_folder`].
pub trait Storage: Send {
    /// The path of the folder, for messages.
    fn place(&self) -> PathBuf;

    /// The names of all entries, sorted; changes nothing.
    ///
    /// # Errors
    /// `NotFound` if the folder does not exist; otherwise it cannot be read.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Creates the folder if there is none, and locks it for this writer until dropped.
    ///
    /// # Errors
    /// The folder can be neither created nor locked, for a reason other than another lock.
    fn lock(&mut self) -> io::Result<Lock>;

    /// Creates a new, empty file for reading and writing.
    ///
    /// # Errors
    /// The name is taken, or the file cannot be created.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// The file does not exist, or this access is not permitted.
    fn open(&mut self, name: &str, access: FileAccess) -> io::Result<Box<dyn StorageFile>>;

    /// Removes a file.
    ///
    /// # Errors
    /// The file does not exist or may not be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Renames a file to a name that is not taken.
    ///
    /// # Errors
    /// The rename failed; the file keeps its name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Returns once the names in the folder survive a power cut.
    ///
    /// # Errors
    /// The names may be lost. Do not try again.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// A second handle of the folder, without the lock: for work that is done ahead of time.
    fn second(&self) -> Box<dyn Storage>;

    /// True where that work must run on the writer's thread, so that all operations have one order;
    /// otherwise it has a thread of its own.
    fn is_in_order(&self) -> bool;
}

/// A file of a [`Storage`].
pub trait StorageFile: Send {
    /// The current length, in bytes.
    ///
    /// # Errors
    /// The system call failed.
    fn byte_count(&mut self) -> io::Result<u64>;

    /// Reads from `offset` until the buffer is full or the file ends; returns the number of bytes
    /// read.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes from `offset` on; extends the file if necessary, with zeros between.
    ///
    /// # Errors
    /// Not all bytes were written; any part of them may have been.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes, and returns once all bytes of the file survive a power cut.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at) and [`sync`](Self::sync).
    fn write_synced(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }

    /// Allocates the first `len` bytes at once; they read as zeros where they were not written.
    /// Returns false, without any change, where this is not supported.
    ///
    /// # Errors
    /// There is not enough space.
    fn allocate(&mut self, len: u64) -> io::Result<bool> {
        let _ = len;
        Ok(false)
    }

    /// The first offset from `offset` on where bytes other than zeros may stand; `None` if there is
    /// none. The search skips allocated bytes that were never written, where the file system
    /// reports them.
    ///
    /// # Errors
    /// The system call failed.
    fn next_written(&mut self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Drops all bytes from `len` on.
    ///
    /// # Errors
    /// The truncation failed; the file keeps its length.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Returns once all bytes of the file survive a power cut.
    ///
    /// # Errors
    /// The bytes may be lost. Do not try again: a second sync may succeed without the bytes.
    fn sync(&mut self) -> io::Result<()>;
}

/// The access for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// The result of [`Storage::lock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// This writer holds the lock.
    Taken,
    /// Another writer holds it; the text names that writer, if known.
    HeldBy(String),
}

/// The method by which bytes reach the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Through the page cache; a sync is `fdatasync`.
    #[default]
    Buffered,
    /// Past the page cache, and each write returns once it is on the medium (`O_DIRECT|O_DSYNC`),
    /// for segments and the watermark. Writes must be whole blocks, as those of
    /// [`Durability::Synced`](crate::Durability) are.
    Direct,
    /// As [`Buffered`](Self::Buffered), but a write and its sync are one call, by io_uring.
    BufferedUring,
    /// Past the page cache, and a write and its sync are one call, by io_uring (`O_DIRECT`).
    DirectUring,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 4] =
        [Self::Buffered, Self::Direct, Self::BufferedUring, Self::DirectUring];

    /// The name of the method in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::BufferedUring => "buffered-uring",
            Self::DirectUring => "direct-uring",
        }
    }

    const fn open_flags(self) -> libc::c_int {
        match self {
            Self::Buffered | Self::BufferedUring => 0,
            Self::Direct => libc::O_DIRECT | libc::O_DSYNC,
            // With O_DSYNC the kernel would hand each write to a thread of its own.
            Self::DirectUring => libc::O_DIRECT,
        }
    }

    const fn is_by_uring(self) -> bool {
        matches!(self, Self::BufferedUring | Self::DirectUring)
    }
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    method: Method,
    is_in_order: bool,
    lock: Option<Held>,
}

impl Folder {
    /// The folder at `path`, which need not exist yet; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_method(path, Method::default())
    }

    /// As [`new`](Self::new), but writes files by this method.
    pub fn with_method(path: impl Into<PathBuf>, method: Method) -> Self {
        Self { path: path.into(), method, is_in_order: false, lock: None }
    }

    /// Without a thread that works ahead: the same calls then give the same bytes in the same
    /// files, and the writer waits while a segment is created.
    #[must_use]
    pub fn in_order(self) -> Self {
        Self { is_in_order: true, ..self }
    }

    /// Tests the method on a file that is then removed. Creates the folder and its parents.
    ///
    /// # Errors
    /// Files of this folder cannot be written by this method.
    pub fn probe(path: &Path, method: Method) -> io::Result<()> {
        create_folder(path)?;
        let name = format!("{PROBE_FILE}{}", std::process::id());
        let tried = Self::with_method(path, method).create(&name).and_then(|mut file| {
            let block = crate::buffer::Buffer::zeroed(crate::segment::BLOCK_LEN);
            file.write_synced(0, block.bytes())
        });
        match fs::remove_file(path.join(name)) {
            Err(error) if tried.is_ok() => Err(error),
            _ => tried,
        }
    }

    /// Names are plain: files outside the folder are never touched.
    fn path_of(&self, name: &str) -> PathBuf {
        assert!(!name.is_empty() && !name.contains('/') && name != "..", "{name} is no plain name");
        self.path.join(name)
    }

    fn file(&self, options: &mut OpenOptions, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let is_journal = matches!(read_name(name), Name::Segment(_))
            || is_beside(name) && !name.starts_with(ASIDE);
        let method = if is_journal { self.method } else { Method::Buffered };
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags(method.open_flags());
        }
        // Before the file, so that no file is left behind where there is no io_uring.
        let uring = method.is_by_uring().then(Uring::new).transpose()?;
        let file = options.open(self.path_of(name))?;
        let is_durable = method == Method::Direct;
        Ok(Box::new(FolderFile { is_durable, uring, ..FolderFile::new(file) }))
    }
}

/// The lock file while it is locked.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    /// Unlocks at once. Closing the file would not, while a child process that was just forked, and
    /// has not yet executed another program, also has it open.
    fn drop(&mut self) {
        // If this fails, closing the file unlocks it, only later.
        let _ = self.0.unlock();
    }
}

impl Storage for Folder {
    fn place(&self) -> PathBuf {
        self.path.clone()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn lock(&mut self) -> io::Result<Lock> {
        create_folder(&self.path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path.join(LOCK_FILE))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let said = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
                return Ok(Lock::HeldBy(if said {
                    holder.trim().to_owned()
                } else {
                    "another process".to_owned()
                }));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        writeln!(file, "process {}", std::process::id())?;
        assert!(self.lock.is_none(), "a folder is locked once");
        self.lock = Some(Held(file));
        Ok(Lock::Taken)
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.file(OpenOptions::new().read(true).write(true).create_new(true), name)
    }

    fn open(&mut self, name: &str, access: FileAccess) -> io::Result<Box<dyn StorageFile>> {
        match access {
            FileAccess::Read => Ok(Box::new(FolderFile::new(File::open(self.path_of(name))?))),
            FileAccess::Write => self.file(OpenOptions::new().read(true).write(true), name),
        }
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path_of(name))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path_of(from), self.path_of(to))
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        sync_folder(&self.path)
    }

    fn second(&self) -> Box<dyn Storage> {
        let is_in_order = self.is_in_order;
        Box::new(Self { is_in_order, ..Self::with_method(&self.path, self.method) })
    }

    fn is_in_order(&self) -> bool {
        self.is_in_order
    }
}

/// Creates the folder and its missing parents, so that they survive a power cut.
fn create_folder(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty());
    let missing: Vec<_> = missing.take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path)?;
    for parent in missing.iter().filter_map(|path| path.parent()) {
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

struct FolderFile {
    file: File,
    /// A write returns once its bytes are on the medium.
    is_durable: bool,
    uring: Option<Uring>,
    /// The file was advised not to be read ahead.
    is_random: bool,
}

impl FolderFile {
    fn new(file: File) -> Self {
        Self { file, is_durable: false, uring: None, is_random: false }
    }
}

impl StorageFile for FolderFile {
    fn byte_count(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        assert!(filled <= buffer.len(), "{filled} bytes were read into {}", buffer.len());
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset) // one call, unless the system itself cuts it short
    }

    fn write_synced(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        if let Some(uring) = &mut self.uring {
            written = uring.write_synced(&self.file, offset, bytes)?;
            if written == bytes.len() {
                return Ok(());
            }
        }
        assert!(written <= bytes.len(), "{written} bytes were written of {}", bytes.len());
        self.write_at(offset + written as u64, &bytes[written..])?;
        if self.is_durable { Ok(()) } else { self.sync() }
    }

    fn allocate(&mut self, len: u64) -> io::Result<bool> {
        assert!(len > 0, "the system refuses to allocate nothing");
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_written(&mut self, offset: u64) -> io::Result<Option<u64>> {
        // A range that the system has read ahead counts as written. Each read of it would make the
        // system read ahead more, up to the end of the file.
        if !self.is_random {
            self.is_random = true;
            // Without this advice the search takes longer.
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
        }
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(place) => {
                assert!(place >= offset, "byte {place} is searched from {offset} on");
                Ok(Some(place))
            }
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data() // the length counts as data: without it the bytes could not be found
    }
}
