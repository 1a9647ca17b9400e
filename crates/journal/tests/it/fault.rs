//! Storage that fails: the writer stops, and confirms no record after it.

use std::io::ErrorKind;

use journal::{AppendError, Crash, CrashStorage, DiskOperation, Durability, Fault};

use crate::support::{Place, append, open, options, records, spots, write};

/// After the first failure every call fails, and touches storage no more.
fn assert_poisoned(writer: &mut journal::Writer, storage: &CrashStorage, durable: u64) {
    let operation_count = storage.operation_count();
    let next = writer.last_sequence() + 1;
    let failures = [append(writer, next), writer.commit().map(drop), writer.flush(), writer.sync()];
    for failure in failures {
        let Err(AppendError::Poisoned { durable: stated, first }) = failure else {
            panic!("a failed writer went on: {failure:?}");
        };
        assert_eq!(stated, durable);
        assert!(first.starts_with("cannot "), "{first}");
    }
    assert_eq!(storage.operation_count(), operation_count, "nothing is tried again");
}

/// A write or a sync that fails poisons the writer; opening again finds the confirmed records.
#[test]
fn a_failure_is_the_end_of_the_writer() {
    for durability in [Durability::Written, Durability::Synced] {
        for operation in [DiskOperation::Write, DiskOperation::Sync] {
            if (durability, operation) == (Durability::Written, DiskOperation::Sync) {
                continue; // it does not sync here
            }
            for bytes in [0, 1, 30, 1_000] {
                let storage = CrashStorage::new();
                let (mut writer, _, _) = open(storage.storage(), &options(durability)).unwrap();
                append(&mut writer, 1).unwrap();
                assert_eq!(writer.commit().unwrap(), 1);
                append(&mut writer, 2).unwrap();
                let kind = ErrorKind::Other;
                storage.fault_next(operation, Fault::Fail { kind, bytes });
                let error = writer.commit().unwrap_err();
                assert!(matches!(error, AppendError::Storage { durable: 1, .. }), "{error}");
                assert!(error.to_string().contains("check the disk"), "{error}");
                assert_poisoned(&mut writer, &storage, 1);
                drop(writer);
                storage.crash(Crash::Process);
                let (_, kept, _) = open(storage.storage(), &options(durability)).unwrap();
                assert_eq!(kept, records(kept.len() as u64));
                assert!(!kept.is_empty());
            }
        }
    }
}

/// A failure at any operation while the next segment is prepared and begins ends the writer, except
/// one that only means that there is no room yet.
#[test]
fn a_failure_between_segments() {
    let second = {
        let storage = CrashStorage::new();
        write(&storage, 30);
        spots(&storage)
            .into_iter()
            .find(|spot| spot.name != journal::file_name(1))
            .unwrap()
            .sequence
    };
    for durability in [Durability::None, Durability::Written, Durability::Synced] {
        // Records that wait for others have no batches of their own, so a segment has more of them.
        let last = if durability == Durability::None { 40 } else { second + 2 };
        let mut poisoned = 0;
        for nth in 0.. {
            let storage = CrashStorage::new();
            let (mut writer, _, _) = open(storage.storage(), &options(durability)).unwrap();
            let start = storage.operation_count();
            let fault = Fault::Fail { kind: ErrorKind::Other, bytes: 100 };
            storage.fault_at(start + nth, fault);
            let mut confirmed = 0;
            let failed = (1..=last).find_map(|sequence| {
                let done = append(&mut writer, sequence).and_then(|()| writer.commit());
                confirmed = done.as_ref().copied().unwrap_or(confirmed);
                done.err()
            });
            let is_last = storage.operation_count() <= start + nth;
            if let Some(error) = failed {
                assert!(matches!(error, AppendError::Storage { .. }), "{error}");
                let durable = writer.durable().min(confirmed);
                poisoned += 1;
                assert!(writer.commit().is_err());
                drop(writer);
                storage.crash(Crash::Process);
                let (_, kept, _) = open(storage.storage(), &options(durability)).unwrap();
                assert_eq!(kept, records(kept.len() as u64));
                let promised = if durability == Durability::None { 0 } else { durable };
                assert!(kept.len() as u64 >= promised, "{} {durable}", kept.len());
            }
            if is_last {
                break;
            }
        }
        assert!(poisoned > 3, "{durability:?}: {poisoned}");
    }
}

/// A full disk, at every number of bytes left: confirmed records are kept, the message names the
/// remedy, and with space the journal goes on. The lack of room for the next segment is known
/// before.
#[test]
fn a_full_disk() {
    let mut warned_count = 0;
    for capacity in (20_000..60_000).step_by(997) {
        let storage = CrashStorage::new();
        let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
        storage.set_capacity(Some(capacity));
        let mut confirmed = 0;
        let mut is_warned = false;
        let error = loop {
            let next = writer.last_sequence() + 1;
            match append(&mut writer, next).and_then(|()| writer.commit()) {
                Ok(durable) => confirmed = durable,
                Err(error) => break error,
            }
            is_warned |= writer.no_room().is_some();
        };
        warned_count += u64::from(is_warned);
        assert!(error.to_string().contains("free some space"), "{error}");
        assert_poisoned(&mut writer, &storage, confirmed);
        drop(writer);
        storage.set_capacity(None);
        let (writer, kept, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
        // All bytes of a batch may be there, without the zeros after it.
        let kept_count = kept.len() as u64;
        assert!((confirmed..=confirmed + 1).contains(&kept_count), "capacity {capacity}");
        assert_eq!(kept, records(kept_count), "capacity {capacity}");
        drop(writer);
        write(&storage, confirmed + 20);
    }
    assert!(warned_count > 15, "{warned_count}");
}

/// The rest of the segment is written after there was no room for another one; once there is room
/// again, it is taken.
#[test]
fn room_is_tried_again() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    storage.set_capacity(Some(20_000));
    append(&mut writer, 1).unwrap();
    for _ in 0..3 {
        writer.commit().unwrap();
    }
    assert!(writer.no_room().is_some());
    append(&mut writer, 2).unwrap();
    assert_eq!(writer.commit().unwrap(), 2);
    // Still no room: a retry does not hide the error.
    writer.try_room_again();
    assert!(writer.no_room().is_some());
    for _ in 0..3 {
        writer.commit().unwrap();
        assert!(writer.no_room().is_some());
    }
    storage.set_capacity(None);
    writer.try_room_again();
    for sequence in 3..=30 {
        append(&mut writer, sequence).unwrap();
        writer.commit().unwrap();
    }
    assert!(writer.no_room().is_none());
    assert!(storage.segments().len() > 3, "{:?}", storage.names());
}

/// A disk that is full from the start makes no journal, and does so once there is space.
#[test]
fn a_disk_that_is_full_from_the_start() {
    for capacity in [0, 1, 40, 4_096, 8_191, 8_192, 12_000, 16_400] {
        let storage = CrashStorage::new();
        storage.set_capacity(Some(capacity));
        let error = open(storage.storage(), &options(Durability::Synced)).err().unwrap();
        assert!(error.to_string().contains("free some space"), "{error}");
        storage.crash(Crash::Process);
        storage.set_capacity(None);
        write(&storage, 3);
        assert_eq!(open(storage.storage(), &options(Durability::Synced)).unwrap().1, records(3));
    }
}

/// A medium that lies: bytes reported as written are missing or differ. Opening gives a prefix of
/// the records or refuses; and a copy of a faithful medium has all of them.
#[test]
fn a_medium_that_lies() {
    let lies = [
        (DiskOperation::Write, Fault::Lose),
        (DiskOperation::Write, Fault::Misdirect { offset: 8_192 }),
        (DiskOperation::Write, Fault::Corrupt { byte: 70, mask: 4 }),
        (DiskOperation::Sync, Fault::Lose),
    ];
    for (operation, lie) in lies {
        for later in [0, 3] {
            let storage = CrashStorage::new();
            let durability = options(Durability::Synced);
            let (mut writer, _, _) = open(storage.storage(), &durability).unwrap();
            append(&mut writer, 1).unwrap();
            writer.commit().unwrap();
            storage.fault_next(operation, lie);
            for sequence in 2..=2 + later {
                append(&mut writer, sequence).unwrap();
                assert_eq!(writer.commit().unwrap(), sequence, "{lie:?}: it says that all is well");
            }
            drop(writer);
            assert_eq!(storage.damage_count(), 1);
            storage.crash(Crash::Power { unsynced_bytes: 0, unsynced_names: false });
            match open(storage.duplicate(false).storage(), &durability) {
                Ok((_, kept, _)) => assert_eq!(kept, records(kept.len() as u64), "{lie:?}"),
                Err(error) => assert!(error.is_corruption(), "{lie:?}: {error}"),
            }
            let whole = records(2 + later);
            assert_eq!(open(storage.duplicate(true).storage(), &durability).unwrap().1, whole);
            storage.repair();
            assert_eq!(storage.damage_count(), 0);
            assert_eq!(open(storage.storage(), &durability).unwrap().1, whole);
        }
    }
}
