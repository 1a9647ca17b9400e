//! Where a journal lies: one flat folder of files. `Folder` is the real one.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// The name of the file whose lock makes one process the only writer of a folder.
pub(crate) const LOCK_FILE: &str = "lock";

/// A folder as the journal needs it. Names are plain file names.
///
/// Nothing survives a power cut unless it was synced: bytes by [`StorageFile::sync`], the
/// existence of a file by [`Storage::sync_folder`].
pub trait Storage: Send {
    /// Where it is, for messages.
    fn place(&self) -> PathBuf;

    /// The names of all that lies in it, sorted; changes nothing.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder; otherwise it cannot be read.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Makes the folder if there is none, and takes it for this writer alone until dropped.
    ///
    /// # Errors
    /// It can be neither made nor locked, for a reason other than that it is held.
    fn lock(&mut self) -> io::Result<Lock>;

    /// Makes a new, empty file for reading and appending.
    ///
    /// # Errors
    /// The name is taken, or the file cannot be made.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// It is not there or may not be opened so.
    fn open(&mut self, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Removes a file.
    ///
    /// # Errors
    /// It is not there or may not be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Gives a file another name, which is not taken.
    ///
    /// # Errors
    /// It has the name it had.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Returns once the names in the folder survive a power cut.
    ///
    /// # Errors
    /// They may not; never to be tried again.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// The same folder once more, without the lock: for work that is done ahead of time.
    fn second(&self) -> Box<dyn Storage>;
}

/// A file of a [`Storage`].
pub trait StorageFile: Send {
    /// How many bytes it has now.
    ///
    /// # Errors
    /// It cannot be told.
    fn byte_count(&mut self) -> io::Result<u64>;

    /// Reads from `offset` until the buffer is full or the file ends; says how many bytes it read.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes at the end.
    ///
    /// # Errors
    /// Not all of it was written; any first part of it may have been.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Drops all from byte `len` on.
    ///
    /// # Errors
    /// It is as long as it was.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Returns once all its bytes survive a power cut.
    ///
    /// # Errors
    /// They may not; never to be tried again, since the second try may succeed without the bytes.
    fn sync(&mut self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and appending.
    Append,
}

/// How [`Storage::lock`] went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It is ours.
    Taken,
    /// Another writer has it; the text says who, as far as it is known.
    HeldBy(String),
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lock: Option<File>,
}

impl Folder {
    /// The folder at `path`, which need not exist yet; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), lock: None }
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
        self.lock = Some(file);
        Ok(Lock::Taken)
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        Ok(Box::new(FolderFile(file)))
    }

    fn open(&mut self, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let append = access == Access::Append;
        let file = OpenOptions::new().read(true).append(append).open(self.path.join(name))?;
        Ok(Box::new(FolderFile(file)))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        sync_folder(&self.path)
    }

    fn second(&self) -> Box<dyn Storage> {
        Box::new(Self::new(&self.path))
    }
}

/// Makes the folder and those above it that are missing, so that they survive a power cut.
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

struct FolderFile(File);

impl StorageFile for FolderFile {
    fn byte_count(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(offset))?;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes) // one call, unless the system itself cuts it short
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data() // the length counts as data: without it the bytes could not be found
    }
}
