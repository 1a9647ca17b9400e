//! A crash at every operation, with every part of its write done: confirmed records survive.

use journal::{
    AppendError, Crash, CrashStorage, DiskOperation, Durability, Fault, OpenError,
    SEGMENT_HEADER_LEN,
};

use crate::support::{Place, append, open, options, records, write};

const COUNT: u64 = 10;
/// Appends between two commits: 1, 2 or 3.
const BATCHES: [u64; 3] = [1, 3, 2];

/// The progress of a run before it ended.
struct Run {
    /// The last sequence that a commit returned.
    confirmed: u64,
    /// The last sequence that was appended.
    appended: u64,
}

/// A venue's life: opens, appends, commits, until done or until storage fails.
fn live(storage: &CrashStorage, durability: Durability) -> Run {
    let mut run = Run { confirmed: 0, appended: 0 };
    let opened = open(storage.storage(), &options(durability));
    let (mut writer, kept, _) = match opened {
        Ok(opened) => opened,
        Err(OpenError::Storage { .. }) => return run,
        Err(error) => panic!("{error}"),
    };
    run.confirmed = kept.len() as u64;
    run.appended = run.confirmed;
    assert_eq!(kept, records(run.confirmed));
    let lived: Result<(), AppendError> = (|| {
        for batch in BATCHES.iter().cycle() {
            for _ in 0..(*batch).min(COUNT.saturating_sub(run.appended)) {
                run.appended += 1;
                append(&mut writer, run.appended)?;
            }
            run.confirmed = writer.commit()?;
            if run.appended >= COUNT {
                return Ok(());
            }
        }
        Ok(())
    })();
    assert!(lived.is_ok() || storage.stopped().is_some(), "{lived:?}");
    run
}

/// Ends of a process: a kill, and power cuts that keep more and less of the unsynced bytes.
fn crashes() -> Vec<Crash> {
    let mut crashes = vec![Crash::Process];
    for unsynced_bytes in [0, 1, 65, 4_200, u64::MAX] {
        for unsynced_names in [false, true] {
            crashes.push(Crash::Power { unsynced_bytes, unsynced_names });
        }
    }
    for seed in 0..4 {
        crashes.push(Crash::Scattered { seed, unsynced_names: seed % 2 == 0 });
    }
    crashes
}

/// The parts of a write worth stopping at: each byte of a short one; of one that is mostly zeros,
/// the bytes at the edges of its content.
fn parts(bytes_asked: u64) -> Vec<u64> {
    let matters = |part: &u64| {
        bytes_asked < 1_024
            || part.is_multiple_of(512)
            || (bytes_asked < SEGMENT_HEADER_LEN && *part < 400 && part.is_multiple_of(3))
            || [0, 8, 16, 40, 4_096, 4_104, 4_136, 8_192]
                .iter()
                .any(|edge| part.abs_diff(*edge) < 2)
    };
    (0..=bytes_asked).filter(matters).collect()
}

/// For each policy, crash at each operation of a life: the promised records are kept, the kept ones
/// are a prefix, and the next life goes on to the same end.
#[test]
fn a_crash_at_every_operation() {
    let mut crash_count = 0_u64;
    let mut torn_count = 0_u64;
    for durability in [Durability::None, Durability::Written, Durability::Synced] {
        let whole = CrashStorage::new();
        assert_eq!(live(&whole, durability).confirmed, COUNT);
        assert!(whole.names().len() > 1, "a segment ends within the life");
        for operation_number in 0..whole.operation_count() {
            let mut parts_left = vec![u64::MAX];
            let mut asked = false;
            while let Some(part) = parts_left.pop() {
                for crash in crashes() {
                    let storage = CrashStorage::new();
                    storage.fault_at(operation_number, Fault::Stop { bytes: part });
                    let run = live(&storage, durability);
                    let stopped = storage.stopped().expect("the fault struck");
                    if !asked && stopped.operation == DiskOperation::Write {
                        asked = true;
                        parts_left = parts(stopped.bytes_asked);
                    }
                    crash_count += 1;
                    storage.crash(crash);
                    torn_count += u64::from(check_after(&storage, durability, crash, &run));
                }
            }
        }
    }
    println!("{crash_count} crashes, {torn_count} torn tails");
    assert!(crash_count > 10_000 && torn_count > 1_000, "{crash_count} {torn_count}");
}

/// True if a torn tail was cut.
fn check_after(storage: &CrashStorage, durability: Durability, crash: Crash, run: &Run) -> bool {
    let opened = open(storage.storage(), &options(durability));
    let (writer, kept, report) = match (opened, crash) {
        (Ok(opened), _) => opened,
        // Unsynced bytes may have any content, and are refused where they look like damage. Where
        // commits sync there are no such bytes.
        (Err(error), Crash::Scattered { .. }) if durability != Durability::Synced => {
            assert!(error.is_corruption(), "{error}");
            return false;
        }
        (Err(error), _) => panic!("{durability:?} {crash:?}: {error}"),
    };
    let kept_count = kept.len() as u64;
    assert_eq!(kept, records(kept_count), "never other records");
    assert!(kept_count <= run.appended);
    let promised = match (durability, crash) {
        (Durability::None, _) => 0,
        (Durability::Written, Crash::Power { .. } | Crash::Scattered { .. }) => 0,
        (Durability::Written, Crash::Process) | (Durability::Synced, _) => run.confirmed,
    };
    assert!(kept_count >= promised, "{durability:?} {crash:?}: {kept_count} < {promised}");
    drop(writer);
    assert_eq!(live(storage, durability).confirmed, COUNT);
    let (mut writer, kept, _) = open(storage.storage(), &options(durability)).unwrap();
    let kept_count = kept.len() as u64;
    assert_eq!(kept, records(kept_count));
    for sequence in kept_count + 1..=COUNT {
        append(&mut writer, sequence).unwrap(); // what policy none had not written
    }
    writer.sync().unwrap();
    drop(writer);
    let (_, kept, _) = open(storage.storage(), &options(durability)).unwrap();
    assert_eq!(kept, records(COUNT));
    report.torn_tail.is_some()
}

/// A crash during recovery from a crash loses no record either.
#[test]
fn a_crash_while_recovering() {
    let torn = |storage: &CrashStorage| {
        let whole = CrashStorage::new();
        live(&whole, Durability::Synced);
        for (name, bytes) in whole.everything() {
            storage.set_bytes(&name, Some(bytes));
        }
        let last = storage.segments().pop().unwrap();
        storage.change(&last, |bytes| bytes.extend_from_slice(&[3; 50]));
    };
    let half_made = |storage: &CrashStorage| {
        write(storage, 5);
        storage.set_bytes(&journal::file_name(6), Some(vec![0; 5_000]));
    };
    for damage in [&torn as &dyn Fn(&CrashStorage), &half_made] {
        let reference = CrashStorage::new();
        damage(&reference);
        let (_, kept, report) = open(reference.storage(), &options(Durability::Synced)).unwrap();
        assert!(report.torn_tail.is_some());
        for operation_number in 0..reference.operation_count() {
            for crash in crashes() {
                let storage = CrashStorage::new();
                damage(&storage);
                storage.fault_at(operation_number, Fault::Stop { bytes: 0 });
                // At the very end an opening only prepares, and that may fail.
                drop(open(storage.storage(), &options(Durability::Synced)));
                storage.crash(crash);
                let (_, again, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
                assert_eq!(again, kept);
            }
        }
    }
}

/// The model does lose all that it may: without a sync, a power cut loses confirmed records. So the
/// tests above could fail.
#[test]
fn a_power_cut_takes_what_was_only_written() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    append(&mut writer, 1).unwrap();
    assert_eq!(writer.commit().unwrap(), 1);
    storage.crash(Crash::Power { unsynced_bytes: 31, unsynced_names: false });
    let (_, kept, report) = open(storage.storage(), &options(Durability::Written)).unwrap();
    assert_eq!(kept, vec![]);
    assert_eq!(report.torn_tail.unwrap().offset, SEGMENT_HEADER_LEN);
}

/// A folder that was not synced loses the name of a synced file; a writer from before the crash is
/// dead.
#[test]
fn the_model_forgets_names_and_writers() {
    let storage = CrashStorage::new();
    let mut before = storage.storage();
    let mut file = before.create("file").unwrap();
    file.write_at(0, b"bytes").unwrap();
    file.sync().unwrap();
    storage.crash(Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    assert_eq!(storage.names(), Vec::<String>::new());
    assert!(file.write_at(0, b"more").is_err() && before.list().is_err());
    let mut after = storage.storage();
    after.create("file").unwrap().write_at(0, b"by").unwrap();
    after.sync_folder().unwrap();
    storage.crash(Crash::Power { unsynced_bytes: 1, unsynced_names: false });
    assert_eq!(storage.bytes("file").unwrap(), b"b");
    storage.storage().remove("file").unwrap();
    storage.crash(Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    assert_eq!(storage.names(), ["file"]);
    storage.storage().rename("file", "other").unwrap();
    storage.crash(Crash::Power { unsynced_bytes: 0, unsynced_names: true });
    assert_eq!(storage.names(), ["other"]);
}

/// A power cut that scatters takes sectors from the middle, and no synced bytes.
#[test]
fn the_model_scatters_sectors() {
    let mut kept_sectors = [0, 0];
    for seed in 0..20 {
        let storage = CrashStorage::new();
        let mut folder = storage.storage();
        let mut file = folder.create("file").unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        file.sync().unwrap();
        folder.sync_folder().unwrap();
        file.write_at(512, &[2; 1024]).unwrap();
        storage.crash(Crash::Scattered { seed, unsynced_names: false });
        let mut bytes = storage.bytes("file").unwrap();
        bytes.resize(1536, 0);
        assert_eq!(bytes[..512], [1; 512]);
        kept_sectors[0] += usize::from(bytes[512] == 2);
        kept_sectors[1] += usize::from(bytes[1024] == 2);
    }
    assert!(kept_sectors.iter().all(|count| (1..20).contains(count)), "{kept_sectors:?}");
}
