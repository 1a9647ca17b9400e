//! A journal's folder on another machine, for reading: its files go over a stream as they are, so that
//! whoever reads them verifies every record by itself and trusts nobody.
//!
//! A request is a kind (1: list, 2: length, 3: read), the length of a name (u16), the name, an offset
//! (u64) and a length (u32); an answer is a status (0: done, 1: not found, 2: failed), a length (u32)
//! and so many bytes. Numbers are little-endian.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use journal::{Access, Folder, Lock, Storage, StorageFile};

const LIST: u8 = 1;
const LENGTH: u8 = 2;
const READ: u8 = 3;

const DONE: u8 = 0;
const NOT_FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Bytes of one answer at most.
const READ_MAX: u32 = 8 << 20;
const NAME_MAX: u16 = 255;

/// Readers at a time; more are closed at once.
const READERS_MAX: usize = 64;

/// A reader that takes or asks nothing for so long is closed, and a server that answers nothing for so
/// long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Answers whoever connects, about this folder, until the process ends. Changes nothing.
///
/// # Errors
/// No connection can be accepted any more.
pub fn share(folder: &Path, listener: &TcpListener) -> io::Result<()> {
    let readers = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // One that has gone again is not the listener's failure.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        if readers.load(Ordering::Relaxed) >= READERS_MAX {
            continue;
        }
        readers.fetch_add(1, Ordering::Relaxed);
        let (folder, readers) = (folder.to_owned(), Arc::clone(&readers));
        thread::spawn(move || {
            // A reader that has gone, or asks nonsense, is closed; it hears no more than that.
            let _ = answer_all(&folder, &stream);
            let _ = stream.shutdown(Shutdown::Both);
            readers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer_all(folder: &Path, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut stream = stream;
    let mut storage = Folder::new(folder);
    let mut opened: Option<(String, Box<dyn StorageFile>)> = None;
    loop {
        let mut head = [0; 3];
        stream.read_exact(&mut head)?;
        let name_len = u16::from_le_bytes([head[1], head[2]]);
        if name_len > NAME_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut rest = vec![0; usize::from(name_len) + 12];
        stream.read_exact(&mut rest)?;
        let (name, place) = rest.split_at(usize::from(name_len));
        let name = String::from_utf8(name.to_vec()).map_err(|_| ErrorKind::InvalidData)?;
        let (offset, len) = place.split_at(8);
        let offset = u64::from_le_bytes(offset.try_into().expect("eight bytes"));
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")).min(READ_MAX);
        let answer = match head[0] {
            LIST => storage.list().map(|names| names.join("\n").into_bytes()),
            LENGTH | READ => {
                file(&mut storage, &mut opened, &name).and_then(|file| match head[0] {
                    LENGTH => Ok(file.byte_count()?.to_le_bytes().to_vec()),
                    _ => {
                        let mut bytes = vec![0; len as usize];
                        let read = file.read_at(offset, &mut bytes)?;
                        bytes.truncate(read);
                        Ok(bytes)
                    }
                })
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        let (status, bytes) = match answer {
            Ok(bytes) => (DONE, bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => (NOT_FOUND, Vec::new()),
            Err(error) => (FAILED, error.to_string().into_bytes()),
        };
        let mut head = [status, 0, 0, 0, 0];
        head[1..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        stream.write_all(&head)?;
        stream.write_all(&bytes)?;
    }
}

/// The file of that name, which lies in the folder and nowhere else.
fn file<'a>(
    storage: &mut Folder,
    opened: &'a mut Option<(String, Box<dyn StorageFile>)>,
    name: &str,
) -> io::Result<&'a mut Box<dyn StorageFile>> {
    if opened.as_ref().is_none_or(|(known, _)| known != name) {
        if !storage.list()?.iter().any(|known| known == name) {
            return Err(ErrorKind::NotFound.into());
        }
        *opened = Some((name.to_owned(), storage.open(name, Access::Read)?));
    }
    Ok(&mut opened.as_mut().expect("it was just opened").1)
}

/// The folder that is shared at an address.
pub struct RemoteFolder {
    address: SocketAddr,
    stream: Arc<Mutex<TcpStream>>,
}

impl RemoteFolder {
    /// Connects.
    ///
    /// # Errors
    /// Nobody answers there.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, SILENCE_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self { address, stream: Arc::new(Mutex::new(stream)) })
    }
}

fn ask(
    stream: &Mutex<TcpStream>,
    kind: u8,
    name: &str,
    offset: u64,
    len: u32,
) -> io::Result<Vec<u8>> {
    let mut request = vec![kind];
    let name_len = u16::try_from(name.len()).map_err(|_| ErrorKind::InvalidInput)?;
    request.extend_from_slice(&name_len.to_le_bytes());
    request.extend_from_slice(name.as_bytes());
    request.extend_from_slice(&offset.to_le_bytes());
    request.extend_from_slice(&len.to_le_bytes());
    let mut stream: MutexGuard<'_, TcpStream> =
        stream.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = |error: io::Error| io::Error::other(format!("the other machine: {error}"));
    stream.write_all(&request).map_err(gone)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).map_err(gone)?;
    let len = u32::from_le_bytes(*head[1..].first_chunk().expect("four bytes"));
    if len > READ_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len as usize];
    stream.read_exact(&mut bytes).map_err(gone)?;
    match head[0] {
        DONE => Ok(bytes),
        NOT_FOUND => Err(ErrorKind::NotFound.into()),
        _ => Err(io::Error::other(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "another machine's folder is only read"))
}

impl Storage for RemoteFolder {
    fn place(&self) -> PathBuf {
        format!("tcp://{}", self.address).into()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let names = ask(&self.stream, LIST, "", 0, 0)?;
        let names = String::from_utf8(names).map_err(|_| ErrorKind::InvalidData)?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    fn lock(&mut self) -> io::Result<Lock> {
        read_only()
    }

    fn create(&mut self, _name: &str) -> io::Result<Box<dyn StorageFile>> {
        read_only()
    }

    fn open(&mut self, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        if access != Access::Read {
            return read_only();
        }
        ask(&self.stream, LENGTH, name, 0, 0)?;
        Ok(Box::new(RemoteFile { name: name.to_owned(), stream: Arc::clone(&self.stream) }))
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
        Box::new(Self { address: self.address, stream: Arc::clone(&self.stream) })
    }

    fn is_in_order(&self) -> bool {
        false
    }
}

struct RemoteFile {
    name: String,
    stream: Arc<Mutex<TcpStream>>,
}

impl StorageFile for RemoteFile {
    fn byte_count(&mut self) -> io::Result<u64> {
        let bytes = ask(&self.stream, LENGTH, &self.name, 0, 0)?;
        let count = <[u8; 8]>::try_from(bytes).map_err(|_| ErrorKind::InvalidData)?;
        Ok(u64::from_le_bytes(count))
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let len = u32::try_from(buffer.len() - filled).unwrap_or(READ_MAX).min(READ_MAX);
            let bytes = ask(&self.stream, READ, &self.name, offset + filled as u64, len)?;
            if bytes.is_empty() {
                break;
            }
            let Some(place) = buffer[filled..].get_mut(..bytes.len()) else {
                return Err(ErrorKind::InvalidData.into());
            };
            place.copy_from_slice(&bytes);
            filled += bytes.len();
        }
        Ok(filled)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use journal::{Durability, Follower, Options};

    use super::*;

    fn shared(folder: &Path) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = folder.to_owned();
        thread::spawn(move || share(&folder, &listener));
        address
    }

    /// What is followed over a stream is what is in the files, also what comes later; and nothing but
    /// the files of the folder can be had.
    #[test]
    fn a_journal_is_followed_over_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("journal");
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let options = Options {
            durability: Durability::Written,
            segment_bytes: 1 << 20,
            ..Options::new(1, 1)
        };
        let storage = Box::new(Folder::new(&place).in_order());
        let (mut writer, _) =
            journal::open(storage, &options, &mut |_| Ok::<(), Infallible>(())).unwrap();
        let mut remote = RemoteFolder::connect(shared(&place)).unwrap();
        let mut follower = Follower::new(remote.second(), 0);
        let mut heard = 0_u64;
        for round in 1..=3 {
            for _ in 0..10_000 {
                let sequence = writer.last_sequence() + 1;
                writer.append(sequence, sequence, &sequence.to_le_bytes()).unwrap();
            }
            writer.commit().unwrap();
            let visit = &mut |record: journal::Record<'_>| {
                heard += 1;
                assert_eq!((record.sequence, record.payload), (heard, &heard.to_le_bytes()[..]));
                Ok::<(), Infallible>(())
            };
            while follower.poll(1 << 20, u64::MAX, visit).unwrap() > 0 {}
            assert_eq!(heard, round * 10_000);
        }
        assert!(remote.list().unwrap().len() > 3, "several segments");
        for name in ["../secret", "/etc/passwd", "missing"] {
            let error = remote.open(name, Access::Read).err().expect("it is not in the folder");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
        }
        let file = remote.open(&journal::file_name(1), Access::Read);
        assert!(file.unwrap().write_at(0, b"x").is_err());
    }
}
