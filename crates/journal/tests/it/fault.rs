//! Storage that fails: the writer stops, and confirms nothing after it.

use std::io::ErrorKind;

use journal::{AppendError, Crash, CrashStorage, Durability, Fault, Operation};

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

/// A write or a sync that fails poisons the writer; opening again finds what was confirmed.
#[test]
fn a_failure_is_the_end_of_the_writer() {
    for durability in [Durability::Written, Durability::Synced] {
        for operation in [Operation::Append, Operation::Sync] {
            if (durability, operation) == (Durability::Written, Operation::Sync) {
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

/// A failure while the next segment begins, at any of its steps, is the same end.
#[test]
fn a_failure_between_segments() {
    let spots = spots(30);
    let second = spots.iter().find(|spot| spot.name != spots[0].name).unwrap().sequence;
    for durability in [Durability::None, Durability::Written, Durability::Synced] {
        for operation in
            [Operation::Create, Operation::Append, Operation::Sync, Operation::SyncFolder]
        {
            let storage = CrashStorage::new();
            let (mut writer, _, _) = open(storage.storage(), &options(durability)).unwrap();
            for sequence in 1..second {
                append(&mut writer, sequence).unwrap();
                assert_eq!(writer.commit().unwrap(), sequence);
            }
            let fault = Fault::Fail { kind: ErrorKind::Other, bytes: 100 };
            storage.fault_next(operation, fault);
            let error = append(&mut writer, second).unwrap_err();
            let AppendError::Storage { durable, .. } = error else { panic!("{error}") };
            if (durability, operation) == (Durability::None, Operation::Append) {
                assert_eq!(durable, 0, "the records themselves were not written");
            } else {
                assert_eq!(durable, second - 1);
            }
            assert_poisoned(&mut writer, &storage, durable);
            drop(writer);
            storage.crash(Crash::Process);
            let (_, kept, _) = open(storage.storage(), &options(durability)).unwrap();
            assert_eq!(kept, records(kept.len() as u64));
            assert!(kept.len() as u64 >= durable, "{} {durable}", kept.len());
        }
    }
}

/// A full disk, at every number of bytes it may have left: what was confirmed is kept, the message
/// says what to do, and with space the journal goes on.
#[test]
fn a_full_disk() {
    for capacity in (8_192..18_000).step_by(37) {
        let storage = CrashStorage::new();
        let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
        storage.set_capacity(Some(capacity));
        let mut confirmed = 0;
        let error = loop {
            let next = writer.last_sequence() + 1;
            match append(&mut writer, next).and_then(|()| writer.commit()) {
                Ok(durable) => confirmed = durable,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("free some space"), "{error}");
        assert_poisoned(&mut writer, &storage, confirmed);
        drop(writer);
        let (writer, kept, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
        assert_eq!(kept, records(confirmed), "capacity {capacity}");
        drop(writer);
        storage.set_capacity(None);
        write(&storage, confirmed + 20);
    }
}

/// A disk that is full from the start makes no journal, and with space it does.
#[test]
fn a_disk_that_is_full_from_the_start() {
    for capacity in [0, 1, 40, 4_096, 8_191] {
        let storage = CrashStorage::new();
        storage.set_capacity(Some(capacity));
        let error = open(storage.storage(), &options(Durability::Synced)).err().unwrap();
        assert!(error.to_string().contains("free some space"), "{error}");
        storage.set_capacity(None);
        write(&storage, 3);
        assert_eq!(open(storage.storage(), &options(Durability::Synced)).unwrap().1, records(3));
    }
}
