//! Archived segments are read as if they were still there.

use journal::{
    Crash, CrashStorage, Fault, FileAccess, Storage, StorageFile, WithArchives,
    archive_segments_before,
};

use crate::support::*;

fn with_archives(storage: &CrashStorage) -> WithArchives {
    WithArchives::new(Box::new(storage.clone()))
}

fn everything(storage: &mut dyn Storage) -> Vec<u64> {
    let mut sequences = Vec::new();
    let visit = &mut |record: journal::Record<'_>| {
        if record.kind == journal::RecordKind::Input {
            sequences.push(record.sequence);
        }
        Ok::<(), std::io::Error>(())
    };
    journal::verify(storage, visit).unwrap();
    sequences
}

/// The first segments are compressed and removed; the journal accepts further records, and is read
/// from its first record with the archives; without them there is a hole.
#[test]
fn archived_segments_are_read() {
    let storage = CrashStorage::new();
    write(&storage, 200);
    let before = storage.segments();
    assert!(before.len() > 4, "{before:?}");
    let third = journal::segments_before(&mut storage.clone(), u64::MAX).unwrap()[2];
    assert_eq!(archive_segments_before(&mut storage.clone(), third).unwrap(), 2);
    assert_eq!(storage.segments().len(), before.len() - 2);
    assert_eq!(everything(&mut with_archives(&storage)), (1..=200).collect::<Vec<_>>());
    let nothing = &mut |_: journal::Record<'_>| Ok::<(), std::io::Error>(());
    assert!(journal::verify(&mut storage.clone(), nothing).is_err(), "the beginning is gone");
    assert_eq!(archive_segments_before(&mut storage.clone(), third).unwrap(), 0);
    let archives = storage.names().iter().filter(|name| name.ends_with(".lz4")).count();
    assert_eq!(archives, 2, "{:?}", storage.names());
}

/// A crash at any operation of archiving loses no record, and a second try completes it.
#[test]
fn a_crash_loses_no_record() {
    let mut crashes = 0;
    for after in 0.. {
        let storage = CrashStorage::new();
        write(&storage, 60);
        let second = journal::segments_before(&mut storage.clone(), u64::MAX).unwrap()[1];
        storage.fault_at(storage.operation_count() + after, Fault::Stop { bytes: 10 });
        let done = archive_segments_before(&mut storage.clone(), second);
        if done.is_ok() {
            break;
        }
        crashes += 1;
        storage.crash(Crash::Power { unsynced_bytes: 0, unsynced_names: after % 2 == 0 });
        let expected: Vec<u64> = (1..=60).collect();
        assert_eq!(everything(&mut with_archives(&storage)), expected, "after {after}");
        archive_segments_before(&mut storage.clone(), second).unwrap();
        assert_eq!(everything(&mut with_archives(&storage)), expected, "after {after}");
    }
    assert!(crashes > 10, "{crashes}");
}

/// A changed byte of an archive is detected, unless it encodes the same content differently, as
/// some do for the count of a repeated zero; and no other bytes are taken for the journal.
#[test]
fn a_damaged_archive_is_refused() {
    let storage = CrashStorage::new();
    write(&storage, 60);
    let second = journal::segments_before(&mut storage.clone(), u64::MAX).unwrap()[1];
    archive_segments_before(&mut storage.clone(), second).unwrap();
    let name = storage.names().into_iter().find(|name| name.ends_with(".lz4")).unwrap();
    let mut file: Box<dyn StorageFile> = storage.clone().open(&name, FileAccess::Write).unwrap();
    let len = file.byte_count().unwrap();
    let mut refused = 0;
    for offset in 0..len {
        let mut byte = [0];
        file.read_at(offset, &mut byte).unwrap();
        file.write_at(offset, &[byte[0] ^ 1]).unwrap();
        let mut kept = Vec::new();
        let visit = &mut |record: journal::Record<'_>| {
            kept.push(Kept::of(record));
            Ok::<(), std::io::Error>(())
        };
        match journal::verify(&mut with_archives(&storage), visit) {
            Err(_) => refused += 1,
            Ok(_) => assert_eq!(kept, records(60), "byte {offset} of {len}"),
        }
        file.write_at(offset, &byte).unwrap();
    }
    assert!(refused > len * 9 / 10, "{refused} of {len}");
}
