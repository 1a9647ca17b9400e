//! Copies of a journal while it is written: a backup always verifies and opens; a plain copy does
//! so as well, or is refused with a helpful message.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use journal::{
    BackupError, Crash, CrashStorage, Durability, Fault, FileAccess, Lock, SnapshotHeader,
    SnapshotWriter, Storage, StorageFile, Writer, WriterOptions, backup,
};
use tempfile::tempdir;

use crate::support::{
    End, JOURNAL_ID, Place, append, on_both, open, options, records, verify, write, write_as,
};

/// A writer that appends while its journal is read: before every operation of the reader.
struct Busy {
    storage: CrashStorage,
    writer: Arc<Mutex<Writer>>,
    /// Records before each operation; a batch has three, and the rest stays uncommitted.
    pace: u64,
}

impl Busy {
    fn go_on(&self) {
        let mut writer = self.writer.lock().unwrap();
        for _ in 0..self.pace {
            let sequence = writer.last_sequence() + 1;
            append(&mut writer, sequence).unwrap();
            if sequence.is_multiple_of(3) {
                writer.commit().unwrap();
            }
        }
    }
}

struct BusyFile {
    file: Box<dyn StorageFile>,
    busy: Busy,
}

impl Clone for Busy {
    fn clone(&self) -> Self {
        Self { storage: self.storage.clone(), writer: Arc::clone(&self.writer), pace: self.pace }
    }
}

impl Storage for Busy {
    fn place(&self) -> PathBuf {
        self.storage.place()
    }
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.go_on();
        self.storage.list()
    }
    fn open(&mut self, name: &str, access: FileAccess) -> io::Result<Box<dyn StorageFile>> {
        assert_eq!(access, FileAccess::Read, "a backup changes nothing");
        self.go_on();
        let file = self.storage.open(name, access)?;
        Ok(Box::new(BusyFile { file, busy: self.clone() }))
    }
    fn second(&self) -> Box<dyn Storage> {
        Box::new(self.clone())
    }
    fn is_in_order(&self) -> bool {
        true
    }
    fn lock(&mut self) -> io::Result<Lock> {
        panic!("a backup takes no lock")
    }
    fn create(&mut self, _: &str) -> io::Result<Box<dyn StorageFile>> {
        panic!("a backup changes nothing")
    }
    fn remove(&mut self, _: &str) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
    fn sync_folder(&mut self) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
}

impl StorageFile for BusyFile {
    fn byte_count(&mut self) -> io::Result<u64> {
        self.busy.go_on();
        self.file.byte_count()
    }
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.busy.go_on();
        self.file.read_at(offset, buffer)
    }
    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
    fn truncate(&mut self, _: u64) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
    fn sync(&mut self) -> io::Result<()> {
        panic!("a backup changes nothing")
    }
}

fn start(durability: Durability, count: u64) -> (CrashStorage, Writer) {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(durability)).unwrap();
    for sequence in 1..=count {
        append(&mut writer, sequence).unwrap();
        if sequence % 3 == 0 {
            writer.commit().unwrap();
        }
    }
    writer.commit().unwrap();
    (storage, writer)
}

/// The copy holds exactly these records, a venue starts from it, and goes on.
fn assert_opens(copy: &CrashStorage, last: u64) {
    let (kept, report) = verify(copy.storage()).unwrap();
    assert_eq!((kept, report.watermark, report.torn_tail), (records(last), last, None));
    let (mut writer, kept, _) = open(copy.storage(), &options(Durability::Synced)).unwrap();
    assert_eq!(kept, records(last));
    append(&mut writer, last + 1).unwrap();
    writer.sync().unwrap();
    drop(writer);
    assert_eq!(verify(copy.storage()).unwrap().0, records(last + 1));
}

/// However fast a venue writes, and under every policy, its backup verifies and opens, and has at
/// least the records that were durable when the backup began.
#[test]
fn backup_of_a_journal_that_is_written() {
    let mut segments = 0;
    for durability in [Durability::None, Durability::Written, Durability::Synced] {
        for pace in 0..12 {
            for count in [3, 20, 61] {
                let (storage, writer) = start(durability, count);
                let written = storage.segments().len() > 1 || durability != Durability::None;
                let durable = if durability == Durability::None { 0 } else { writer.durable() };
                let writer = Arc::new(Mutex::new(writer));
                let mut busy = Busy { storage, writer: Arc::clone(&writer), pace };
                let copy = CrashStorage::new();
                let made = backup(&mut busy, &mut *copy.storage());
                match made {
                    Ok(made) => {
                        assert!(durable <= made.last_sequence, "{durable}: {made:?}");
                        assert_eq!((made.journal_id, made.first_sequence), (JOURNAL_ID, 1));
                        segments = segments.max(made.segment_count);
                        assert_opens(&copy, made.last_sequence);
                    }
                    Err(error) => panic!("{durability:?}, {pace} at a time: {error}"),
                }
                assert!(written || durability == Durability::None);
                // The journal itself goes on.
                busy.go_on();
                drop(busy);
                let mut writer = Arc::into_inner(writer).unwrap().into_inner().unwrap();
                writer.sync().unwrap();
            }
        }
    }
    assert!(segments > 3, "{segments}");
}

/// A backup of a journal after a kill or a power cut at any moment.
#[test]
fn backup_after_a_crash() {
    for durability in [Durability::Written, Durability::Synced] {
        for stop_at in 0.. {
            let storage = CrashStorage::new();
            let (mut writer, _, _) = open(storage.storage(), &options(durability)).unwrap();
            storage.fault_at(storage.operation_count() + stop_at, Fault::Stop { bytes: 100 });
            let mut durable = 0;
            for sequence in 1..=40 {
                if append(&mut writer, sequence).is_err() {
                    break;
                }
                match writer.commit() {
                    Ok(now) => durable = now,
                    Err(_) => break,
                }
            }
            let all_was_done = storage.stopped().is_none();
            storage.crash(Crash::Process);
            let copy = CrashStorage::new();
            let made = backup(&mut *storage.storage(), &mut *copy.storage()).unwrap();
            assert!(durable <= made.last_sequence, "{durable}: {made:?}");
            assert_opens(&copy, made.last_sequence);
            if all_was_done {
                break;
            }
        }
    }
}

/// A backup that is interrupted at any operation, by a kill or a power cut, is refused or whole; a
/// whole one has all copied records.
#[test]
fn a_backup_that_is_interrupted() {
    let source = CrashStorage::new();
    write(&source, 30);
    make_snapshot(&source, 20);
    let (mut refused, mut whole) = (0, 0);
    let crashes = [
        Crash::Process,
        Crash::Power { unsynced_bytes: 0, unsynced_names: false },
        Crash::Power { unsynced_bytes: 5_000, unsynced_names: true },
    ];
    for crash in crashes {
        for stop_at in 0.. {
            let copy = CrashStorage::new();
            copy.fault_at(stop_at, Fault::Stop { bytes: 1_000 });
            let made = backup(&mut *source.storage(), &mut *copy.storage());
            let was_stopped = copy.stopped().is_some();
            copy.crash(crash);
            match verify(copy.storage()) {
                Ok((kept, report)) => {
                    assert_eq!((kept, report.watermark), (records(30), 30), "{stop_at}");
                    whole += 1;
                }
                Err(error) => {
                    assert!(made.is_err(), "{stop_at}: {error}");
                    refused += 1;
                }
            }
            if !was_stopped {
                made.unwrap();
                assert_opens(&copy, 30);
                break;
            }
        }
    }
    assert!(refused > 30 && whole > 3, "{refused} refused, {whole} whole");
}

/// A failure of the target is an error with its file, and leaves no files that are taken for a
/// journal.
#[test]
fn a_target_that_fails() {
    let source = CrashStorage::new();
    write(&source, 30);
    let copy = CrashStorage::new();
    copy.set_capacity(Some(10_000));
    let error = backup(&mut *source.storage(), &mut *copy.storage()).unwrap_err();
    assert!(matches!(error, BackupError::Target { .. }), "{error}");
    copy.set_capacity(None);
    assert!(verify(copy.storage()).unwrap_err().to_string().contains("make it again"));
}

fn make_snapshot(storage: &CrashStorage, sequence: u64) {
    let header = SnapshotHeader { journal_id: JOURNAL_ID, sequence, ..SnapshotHeader::default() };
    let mut storage = storage.clone();
    let mut snapshot = SnapshotWriter::new(&mut storage, header);
    snapshot.section(1, b"state");
    snapshot.finish().unwrap();
}

/// A journal whose beginning was removed needs a snapshot, which is copied; without one it is
/// refused. Archived segments are copied as well.
#[test]
fn backup_of_a_journal_without_its_beginning() {
    let source = CrashStorage::new();
    write(&source, 30);
    make_snapshot(&source, 20);
    make_snapshot(&source, 25);
    let archived = journal::archive_segments_before(&mut *source.storage(), 20).unwrap();
    let first = journal::first_sequence(&mut *source.storage()).unwrap().unwrap();
    assert!(first > 1 && archived > 0);
    let copy = CrashStorage::new();
    let made = backup(&mut *source.storage(), &mut *copy.storage()).unwrap();
    assert_eq!((made.first_sequence, made.last_sequence), (first, 30));
    assert_eq!((made.snapshots, made.archive_count), (vec![25, 20], archived as u64));
    let mut whole = journal::WithArchives::new(copy.storage());
    let mut count = 0;
    journal::verify(&mut whole, &mut |_| {
        count += 1;
        Ok::<_, std::convert::Infallible>(())
    })
    .unwrap();
    assert_eq!(count, 30);

    for sequence in [20, 25] {
        source.set_bytes(&journal::snapshot_file_name(sequence), None);
    }
    let error = backup(&mut *source.storage(), &mut *CrashStorage::new().storage()).unwrap_err();
    assert!(matches!(error, BackupError::NoSnapshot { first_sequence } if first_sequence == first));
}

/// A target that is not empty is refused and left alone, and so is a source that is no journal.
#[test]
fn what_is_refused() {
    on_both!(|place| {
        write(place, 3);
        let before = place.everything();
        let source = CrashStorage::new();
        write(&source, 5);
        let error = backup(&mut *source.storage(), &mut *place.storage()).unwrap_err();
        assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
        assert_eq!(place.everything(), before);
    });
    let nothing = backup(&mut *CrashStorage::new().storage(), &mut *CrashStorage::new().storage());
    assert!(matches!(nothing, Err(BackupError::Source(_))));
    let source = CrashStorage::new();
    write(&source, 30);
    source.change(&journal::file_name(1), |bytes| bytes[8_192 + 40] ^= 1);
    let damaged = backup(&mut *source.storage(), &mut *CrashStorage::new().storage());
    assert!(matches!(damaged, Err(BackupError::Source(error)) if error.is_corruption()));
}

/// On a folder of the file system, with a thread that prepares segments.
#[test]
fn backup_of_a_folder() {
    let (folder, copy) = (tempdir().unwrap(), tempdir().unwrap());
    let options = WriterOptions { segment_bytes: 20_000, ..options(Durability::Written) };
    let storage = Box::new(journal::Folder::new(folder.path()));
    let (mut writer, _, _) = open(storage, &options).unwrap();
    for round in 0..20_u64 {
        for sequence in round * 50 + 1..=round * 50 + 50 {
            append(&mut writer, sequence).unwrap();
            writer.commit().unwrap();
        }
        let target = copy.path().join(round.to_string());
        let mut target = journal::Folder::new(target);
        let made = backup(&mut *folder.storage(), &mut target).unwrap();
        assert_eq!(made.last_sequence, round * 50 + 50);
        assert_eq!(verify(Box::new(target)).unwrap().0, records(made.last_sequence));
    }
}

/// A copy file by file while the venue writes, as `cp -r` makes it: in any order of the files, each
/// read in steps. It opens with a prefix of the records, or is refused with the remedy.
#[test]
fn a_plain_copy_opens_or_is_refused() {
    let mut random = 7_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let (mut opened, mut refused) = (0, 0);
    for durability in [Durability::Written, Durability::Synced] {
        for _ in 0..150 {
            let (storage, mut writer) = start(durability, 1 + next(60));
            let mut go_on = |count: u64| {
                for _ in 0..count {
                    let sequence = writer.last_sequence() + 1;
                    append(&mut writer, sequence).unwrap();
                    if sequence.is_multiple_of(3) {
                        writer.commit().unwrap();
                    }
                }
            };
            let mut names = storage.names();
            let copy = CrashStorage::new();
            while !names.is_empty() {
                let name = names.remove(next(names.len() as u64) as usize);
                let step = [512, 4_096, 1 << 20][next(3) as usize];
                let mut bytes = Vec::new();
                // A file that was renamed or removed meanwhile is not found.
                while let Some(content) = storage.bytes(&name).filter(|it| bytes.len() < it.len()) {
                    let end = content.len().min(bytes.len() + step);
                    bytes.extend_from_slice(&content[bytes.len()..end]);
                    go_on(next(4));
                }
                copy.set_bytes(&name, Some(bytes));
                go_on(next(8));
            }
            match open(copy.storage(), &options(durability)) {
                Ok((_, kept, report)) => {
                    assert_eq!(kept, records(kept.len() as u64));
                    assert!(report.watermark <= kept.len() as u64);
                    opened += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(error.is_corruption(), "{text}");
                    assert!(text.contains("damrak journal backup"), "{text}");
                    refused += 1;
                }
            }
        }
    }
    println!("{opened} plain copies opened, {refused} were refused");
    assert!(opened > 20 && refused > 20, "{opened} opened, {refused} refused");
}

/// The same for a journal at rest: a plain copy of it always opens.
#[test]
fn a_plain_copy_of_a_journal_at_rest() {
    for end in [End::Peace, End::Kill] {
        let source = CrashStorage::new();
        write_as(&source, Durability::Written, 30, 3, end);
        let copy = CrashStorage::new();
        for (name, bytes) in source.everything() {
            copy.set_bytes(&name, Some(bytes));
        }
        assert_eq!(open(copy.storage(), &options(Durability::Written)).unwrap().1, records(30));
    }
}
