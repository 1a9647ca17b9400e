//! A folder in memory that models the effect of a crash. For tests and the simulator.
//!
//! Invariant: the disk is deterministic; every fault is requested by its caller.
//!
//! The disk can also lie about syncs. Beside the content of the lying medium it then keeps that of a faithful one, like
//! a copy on another machine, from which [`CrashStorage::repair`] restores the folder.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::storage::{FileAccess, LOCK_FILE, Lock, Storage, StorageFile};

/// A machine's disk. Clones share the disk, as seen by the process that runs when they are made;
/// after a [`crash`](Self::crash) older clones fail, and a new clone starts again.
#[derive(Debug)]
pub struct CrashStorage {
    disk: Arc<Mutex<Disk>>,
    life: u64,
    locked: bool,
}

/// The way in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: all written bytes are kept.
    Process,
    /// The power fails: the synced bytes are kept.
    Power {
        /// The most bytes kept of each file that were written since, in the order of writing.
        unsynced_bytes: u64,
        /// True if files made, renamed and removed since the folder was synced stay so.
        unsynced_names: bool,
    },
    /// The power fails, and the medium keeps an arbitrary part of the unsynced bytes: the seed
    /// decides for each sector of 512 bytes.
    Scattered {
        /// Determines the sectors that are kept.
        seed: u64,
        /// As in [`Power`](Self::Power).
        unsynced_names: bool,
    },
}

/// An operation on storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Names are listed.
    List,
    /// The lock is tried.
    Lock,
    /// A file is made.
    Create,
    /// A file is opened.
    Open,
    /// A file is removed.
    Remove,
    /// A file gets another name.
    Rename,
    /// The folder is synced.
    SyncFolder,
    /// The length of a file is read.
    ByteCount,
    /// A file is read.
    Read,
    /// A file is written to.
    Write,
    /// A file is truncated.
    Truncate,
    /// A file is synced.
    Sync,
}

/// A fault of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with this error; a write leaves its first `bytes` behind.
    Fail {
        /// The error.
        kind: ErrorKind,
        /// The number of bytes written before the failure.
        bytes: u64,
    },
    /// All operations stop in the middle of this one: it and every later one fails until
    /// [`CrashStorage::crash`]; a write leaves its first `bytes` behind.
    Stop {
        /// The number of bytes written before the stop.
        bytes: u64,
    },
    /// A write or a sync of a file reports success without taking effect.
    Lose,
    /// A write reports success, but its bytes are at this offset of the file.
    Misdirect {
        /// The offset of the bytes.
        offset: u64,
    },
    /// A write reports success, but one of its bytes is wrong.
    Corrupt {
        /// The index of the byte, modulo their number.
        byte: u64,
        /// The bits that are wrong; not 0.
        mask: u8,
    },
}

impl Fault {
    fn is_damage(self) -> bool {
        matches!(self, Self::Lose | Self::Misdirect { .. } | Self::Corrupt { .. })
    }
}

/// The place where a [`Fault::Stop`] struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The operation that was interrupted.
    pub operation: DiskOperation,
    /// The number of its bytes that were left behind.
    pub bytes: u64,
    /// The number of bytes of the whole operation.
    pub bytes_asked: u64,
}

#[derive(Debug, Default)]
struct Disk {
    life: u64,
    locked: bool,
    files: Vec<Content>,
    /// Names in the running system and on the medium: indices of `files`.
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    capacity: Option<u64>,
    operation_count: u64,
    faults: BTreeMap<u64, Fault>,
    next_faults: Vec<(DiskOperation, Fault)>,
    stopped: Option<Stopped>,
    damage_count: u64,
    /// The names on a faithful medium, where they differ.
    faithful_names: Option<BTreeMap<String, usize>>,
}

/// A file: its actual image, and that of a faithful medium, where they differ.
#[derive(Clone, Debug, Default)]
struct Content {
    image: Image,
    faithful: Option<Image>,
}

#[derive(Clone, Debug, Default)]
struct Image {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// The changes since the last sync, in this order.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl CrashStorage {
    /// An empty folder on a disk of unlimited capacity.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a disk is made on purpose")]
    pub fn new() -> Self {
        Self { disk: Arc::default(), life: 0, locked: false }
    }

    /// Ends the process that uses the disk, and keeps the bytes that survive such an end. Pending
    /// faults are dropped.
    pub fn crash(&self, crash: Crash) {
        let mut disk = self.disk();
        disk.end_life();
        disk.lose(crash);
    }

    /// As [`crash`](Self::crash), for a machine that was not promised to survive it: the lost bytes
    /// are damage. A faithful medium keeps all written bytes.
    pub fn crash_unpromised(&self, crash: Crash) {
        let mut disk = self.disk();
        disk.end_life();
        disk.damage_count += 1;
        for content in &mut disk.files {
            content.faithful.get_or_insert_with(|| content.image.clone());
        }
        disk.faithful_names = Some(disk.names.clone());
        // The faithful image is as after the end of the process.
        let faithful: Vec<_> =
            disk.files.iter_mut().map(|content| content.faithful.take()).collect();
        disk.lose(crash);
        for (content, faithful) in disk.files.iter_mut().zip(faithful) {
            content.faithful = faithful;
        }
    }

    /// The number of writes and syncs that falsely reported success since the disk was made or
    /// repaired.
    #[must_use]
    pub fn damage_count(&self) -> u64 {
        self.disk().damage_count
    }

    /// Restores all files and names to the state of a faithful medium.
    pub fn repair(&self) {
        let mut disk = self.disk();
        disk.damage_count = 0;
        for content in &mut disk.files {
            if let Some(faithful) = content.faithful.take() {
                content.image = faithful;
            }
        }
        if let Some(names) = disk.faithful_names.take() {
            disk.names = names;
        }
    }

    /// Another disk with the same bytes in files of the same names, all of them on the medium; if
    /// `faithful`, the copy of the faithful medium.
    #[must_use]
    pub fn duplicate(&self, faithful: bool) -> Self {
        let disk = self.disk();
        let names = disk.faithful_names.as_ref().filter(|_| faithful).unwrap_or(&disk.names);
        let other = Self::new();
        for (name, index) in names {
            let Content { image, faithful: copy } = &disk.files[*index];
            let image = copy.as_ref().filter(|_| faithful).unwrap_or(image);
            other.set_bytes(name, Some(image.written.clone()));
        }
        other
    }

    /// Lets a fault strike the operation with this number; see
    /// [`operation_count`](Self::operation_count).
    pub fn fault_at(&self, operation_number: u64, fault: Fault) {
        self.disk().faults.insert(operation_number, fault);
    }

    /// Lets a fault strike the next operation of this kind.
    pub fn fault_next(&self, operation: DiskOperation, fault: Fault) {
        self.disk().next_faults.push((operation, fault));
    }

    /// The number of operations so far, which is the number of the next one.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.disk().operation_count
    }

    /// The place of a [`Fault::Stop`], if one struck.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        self.disk().stopped
    }

    /// Limits the total length of all files, in bytes; a write beyond that leaves the bytes that
    /// fit and fails with `StorageFull`. `None` is unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    /// The names of all files, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.disk().names.keys().cloned().collect()
    }

    /// The bytes of a file as the running system sees them.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        disk.names.get(name).map(|index| disk.files[*index].image.written.clone())
    }

    /// Sets or removes a file as if it had always been so: damage, not an operation.
    pub fn set_bytes(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut disk = self.disk();
        disk.names.remove(name);
        disk.synced_names.remove(name);
        if let Some(bytes) = bytes {
            let index = disk.files.len();
            let image = Image { written: bytes.clone(), synced: bytes, changes: Vec::new() };
            disk.files.push(Content { image, faithful: None });
            disk.names.insert(name.to_owned(), index);
            disk.synced_names.insert(name.to_owned(), index);
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operate(&self, operation: DiskOperation) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.disk();
        disk.operate(self.life, operation, 0).map_err(|failure| failure.error)?;
        Ok(disk)
    }

    fn file(&self, index: usize, writable: bool) -> Box<dyn StorageFile> {
        Box::new(CrashFile { disk: Arc::clone(&self.disk), life: self.life, index, writable })
    }
}

impl Clone for CrashStorage {
    fn clone(&self) -> Self {
        let life = self.disk().life;
        Self { disk: Arc::clone(&self.disk), life, locked: false }
    }
}

impl Drop for CrashStorage {
    fn drop(&mut self) {
        let mut disk = self.disk();
        if self.locked && self.life == disk.life {
            disk.locked = false;
        }
    }
}

impl Storage for CrashStorage {
    fn place(&self) -> PathBuf {
        PathBuf::from("memory")
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.operate(DiskOperation::List)?.names.keys().cloned().collect())
    }

    fn lock(&mut self) -> io::Result<Lock> {
        let mut disk = self.operate(DiskOperation::Lock)?;
        if disk.locked {
            return Ok(Lock::HeldBy("another writer".to_owned()));
        }
        disk.locked = true;
        drop(disk);
        self.locked = true;
        Ok(Lock::Taken)
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        assert_ne!(name, LOCK_FILE, "the lock is not a file here");
        let mut disk = self.operate(DiskOperation::Create)?;
        if disk.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let index = disk.files.len();
        disk.files.push(Content::default());
        disk.names.insert(name.to_owned(), index);
        Ok(self.file(index, true))
    }

    fn open(&mut self, name: &str, access: FileAccess) -> io::Result<Box<dyn StorageFile>> {
        let disk = self.operate(DiskOperation::Open)?;
        let index = *disk.names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(self.file(index, access == FileAccess::Write))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.operate(DiskOperation::Remove)?.names.remove(name).ok_or(ErrorKind::NotFound)?;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.operate(DiskOperation::Rename)?;
        if disk.names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let index = disk.names.remove(from).ok_or(ErrorKind::NotFound)?;
        disk.names.insert(to.to_owned(), index);
        Ok(())
    }

    fn second(&self) -> Box<dyn Storage> {
        Box::new(Self { disk: Arc::clone(&self.disk), life: self.life, locked: false })
    }

    fn is_in_order(&self) -> bool {
        true
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        let mut disk = self.operate(DiskOperation::SyncFolder)?;
        disk.synced_names = disk.names.clone();
        Ok(())
    }
}

struct CrashFile {
    disk: Arc<Mutex<Disk>>,
    life: u64,
    index: usize,
    writable: bool,
}

impl CrashFile {
    fn operate<R>(
        &self,
        operation: DiskOperation,
        act: impl FnOnce(&mut Content, Option<Fault>) -> R,
    ) -> io::Result<R> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let damage = disk.operate(self.life, operation, 0).map_err(|failure| failure.error)?;
        Ok(act(&mut disk.files[self.index], damage))
    }
}

impl StorageFile for CrashFile {
    fn byte_count(&mut self) -> io::Result<u64> {
        self.operate(DiskOperation::ByteCount, |content, _| content.image.written.len() as u64)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(DiskOperation::Read, |content, _| {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = content.image.written.get(offset..).unwrap_or_default();
            let len = bytes.len().min(buffer.len());
            buffer[..len].copy_from_slice(&bytes[..len]);
            len
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let offset = usize::try_from(offset).expect("a disk in memory is small");
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let had = disk.files[self.index].image.written.len();
        // Bytes beyond the end take room; overwritten bytes do not.
        let growth = (offset + bytes.len()).saturating_sub(had);
        let outcome = match disk.operate(self.life, DiskOperation::Write, bytes.len() as u64) {
            Ok(damage) => disk.room(growth as u64).map(|()| damage).map_err(|failure| {
                let bytes = bytes.len().saturating_sub(growth) as u64 + failure.bytes;
                Failure { bytes, ..failure }
            }),
            Err(failure) => Err(failure),
        };
        let bytes_left = outcome.as_ref().map_or_else(|failure| failure.bytes, |_| u64::MAX);
        let len = bytes.len().min(usize::try_from(bytes_left).unwrap_or(usize::MAX));
        let change = Change::Write { offset, bytes: bytes[..len].to_vec() };
        let damage = outcome.as_ref().ok().copied().flatten();
        disk.files[self.index].change_as(change, damage);
        outcome.map(|_| ()).map_err(|failure| failure.error)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.operate(DiskOperation::Truncate, |content, _| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            content.change_as(Change::Truncate { len }, None);
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.operate(DiskOperation::Sync, Content::sync_as)
    }
}

/// An operation that failed, and the number of its bytes that were done.
struct Failure {
    error: io::Error,
    bytes: u64,
}

impl Disk {
    /// The fault that alters the operation, or `None`; an error if the operation is not done.
    fn operate(
        &mut self,
        life: u64,
        operation: DiskOperation,
        asked: u64,
    ) -> Result<Option<Fault>, Failure> {
        if self.life != life {
            return Err(Failure::of(io::Error::other("the process that opened this has ended"), 0));
        }
        if self.stopped.is_some() {
            return Err(Failure::of(io::Error::other("all has stopped"), 0));
        }
        let number = self.operation_count;
        self.operation_count += 1;
        let next = self.next_faults.iter().position(|(strikes, _)| *strikes == operation);
        let fault =
            self.faults.remove(&number).or_else(|| next.map(|at| self.next_faults.remove(at).1));
        match fault {
            None => Ok(None),
            Some(damage) if damage.is_damage() => {
                assert!(
                    matches!(operation, DiskOperation::Write | DiskOperation::Sync),
                    "{operation:?} says what it did"
                );
                self.damage_count += 1;
                Ok(Some(damage))
            }
            Some(Fault::Fail { kind, bytes }) => Err(Failure::of(kind.into(), bytes)),
            Some(Fault::Stop { bytes }) => {
                let bytes = bytes.min(asked);
                self.stopped = Some(Stopped { operation, bytes, bytes_asked: asked });
                Err(Failure::of(io::Error::other("all has stopped"), bytes))
            }
            Some(Fault::Lose | Fault::Misdirect { .. } | Fault::Corrupt { .. }) => {
                unreachable!("it is damage, and was seen to above")
            }
        }
    }

    /// Ends the life of the process that uses the disk.
    fn end_life(&mut self) {
        self.life += 1;
        self.locked = false;
        self.faults.clear();
        self.next_faults.clear();
        self.stopped = None;
    }

    /// Keeps the bytes that survive such an end, in the faithful images too.
    fn lose(&mut self, crash: Crash) {
        let unsynced_names = match crash {
            Crash::Process => return,
            Crash::Power { unsynced_bytes, unsynced_names } => {
                for content in &mut self.files {
                    content.each(|image| image.lose_power(unsynced_bytes));
                }
                unsynced_names
            }
            Crash::Scattered { mut seed, unsynced_names } => {
                for content in &mut self.files {
                    let of_file = next_random(&mut seed);
                    content.each(|image| image.lose_sectors(&mut of_file.clone()));
                }
                unsynced_names
            }
        };
        if unsynced_names {
            self.synced_names = self.names.clone();
        } else {
            self.names = self.synced_names.clone();
        }
    }

    fn room(&self, asked: u64) -> Result<(), Failure> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let used = self.names.values().map(|index| self.files[*index].image.written.len() as u64);
        let free = capacity.saturating_sub(used.sum());
        if asked <= free {
            return Ok(());
        }
        Err(Failure::of(ErrorKind::StorageFull.into(), free))
    }
}

impl Failure {
    fn of(error: io::Error, bytes: u64) -> Self {
        Self { error, bytes }
    }
}

impl Content {
    fn each(&mut self, mut act: impl FnMut(&mut Image)) {
        act(&mut self.image);
        self.faithful.iter_mut().for_each(act);
    }

    /// Applies the change to the image with `damage`, and unaltered to the faithful copy, which a
    /// damage creates.
    fn change_as(&mut self, change: Change, damage: Option<Fault>) {
        if damage.is_some() {
            self.faithful.get_or_insert_with(|| self.image.clone());
        }
        if let Some(faithful) = &mut self.faithful {
            faithful.change(change.clone());
        }
        let done = match (damage, change) {
            (None, change) => Some(change),
            (Some(Fault::Misdirect { offset }), Change::Write { bytes, .. }) => {
                let offset = usize::try_from(offset).expect("a disk in memory is small");
                Some(Change::Write { offset, bytes })
            }
            (Some(Fault::Corrupt { byte, mask }), Change::Write { offset, mut bytes }) => {
                if !bytes.is_empty() {
                    let at = byte % bytes.len() as u64;
                    bytes[at as usize] ^= mask;
                }
                Some(Change::Write { offset, bytes })
            }
            (Some(_), _) => None,
        };
        if let Some(done) = done {
            self.image.change(done);
        }
    }

    fn sync_as(&mut self, damage: Option<Fault>) {
        if damage.is_some() {
            self.faithful.get_or_insert_with(|| self.image.clone()).sync();
        } else {
            self.each(Image::sync);
        }
    }
}

impl Image {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.written);
        self.changes.push(change);
    }

    /// Copies only the changes: most of a segment does not change.
    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// Keeps the synced bytes, and of the bytes written since the first `unsynced_bytes`. A
    /// truncation that was not synced did not happen, nor did any later change.
    fn lose_power(&mut self, unsynced_bytes: u64) {
        let mut left = usize::try_from(unsynced_bytes).unwrap_or(usize::MAX);
        self.written.clone_from(&self.synced);
        for change in std::mem::take(&mut self.changes) {
            let Change::Write { offset, bytes } = change else { break };
            let kept = bytes.len().min(left);
            left -= kept;
            Change::Write { offset, bytes: bytes[..kept].to_vec() }.apply(&mut self.written);
            if left == 0 {
                break;
            }
        }
        self.synced.clone_from(&self.written);
    }

    /// Keeps the synced bytes; of the bytes written since, keeps or drops each sector.
    fn lose_sectors(&mut self, seed: &mut u64) {
        const SECTOR_LEN: usize = 512;
        self.written.clone_from(&self.synced);
        for change in std::mem::take(&mut self.changes) {
            let Change::Write { offset, bytes } = change else { continue };
            let mut at = 0;
            while at < bytes.len() {
                let end = ((offset + at) / SECTOR_LEN + 1) * SECTOR_LEN - offset;
                let sector = &bytes[at..end.min(bytes.len())];
                if next_random(seed) & 1 == 0 {
                    let change = Change::Write { offset: offset + at, bytes: sector.to_vec() };
                    change.apply(&mut self.written);
                }
                at += sector.len();
            }
        }
        self.synced.clone_from(&self.written);
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end && !bytes.is_empty() {
                    content.resize(end, 0);
                }
                if !bytes.is_empty() {
                    content[*offset..end].copy_from_slice(bytes);
                }
            }
            Self::Truncate { len } => content.truncate(*len),
        }
    }
}

/// The next number of splitmix64: the same for the same seed, everywhere.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
