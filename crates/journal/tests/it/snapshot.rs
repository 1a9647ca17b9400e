//! Snapshots: the bytes written are read, and no others ever are.

use journal::{
    Crash, CrashStorage, DiskOperation, Fault, SNAPSHOT_VERSION, SnapshotError, SnapshotFault,
    SnapshotHeader, SnapshotSummary, SnapshotWriter, payload_checksum, read_snapshot,
    read_snapshot_header, remove_snapshots_but, snapshot_file_name, snapshots,
};

use crate::support::{JOURNAL_ID, Place, on_both};

type Sections = Vec<(u16, Vec<u8>)>;

fn header(sequence: u64) -> SnapshotHeader {
    SnapshotHeader {
        journal_id: JOURNAL_ID,
        sequence,
        timestamp: 1_000 + sequence,
        payload_checksum: payload_checksum(&sequence.to_le_bytes()),
        digest: sequence * 31,
        created: 7,
    }
}

/// The sections of the tests' snapshot with this sequence: an empty section, one of each length
/// about a multiple of 8, one code twice.
fn sections(sequence: u64) -> Sections {
    [(1, 0), (2, 7), (3, 8), (3, 9), (300, 40)]
        .map(|(code, len)| (code, (0..len).map(|at| (at * 7 + sequence) as u8).collect()))
        .to_vec()
}

fn write(place: &impl Place, sequence: u64) -> std::io::Result<u64> {
    let mut storage = place.storage();
    let mut writer = SnapshotWriter::new(&mut *storage, header(sequence));
    for (code, bytes) in sections(sequence) {
        writer.section(code, &bytes);
    }
    writer.finish()
}

fn read(place: &impl Place, sequence: u64) -> Result<(SnapshotSummary, Sections), SnapshotError> {
    let mut found = Sections::new();
    let summary =
        read_snapshot(&mut *place.storage(), Some(JOURNAL_ID), sequence, &mut |code,
                                                                               bytes|
         -> Result<
            (),
            String,
        > {
            found.push((code, bytes.to_vec()));
            Ok(())
        })?;
    Ok((summary, found))
}

fn list(place: &impl Place) -> Vec<u64> {
    snapshots(&mut *place.storage()).unwrap()
}

/// The sections written are read one by one, and the newest snapshot comes first.
#[test]
fn reads_as_written() {
    on_both!(|place| {
        for sequence in [5, 1_000, 70] {
            let byte_count = write(place, sequence).unwrap();
            let (summary, found) = read(place, sequence).unwrap();
            assert_eq!(found, sections(sequence));
            let section_count = found.len() as u64;
            assert_eq!(
                summary,
                SnapshotSummary { header: header(sequence), section_count, byte_count }
            );
            assert_eq!(place.content(&snapshot_file_name(sequence)).len() as u64, byte_count);
        }
        assert_eq!(list(place), [1_000, 70, 5]);
        assert_eq!(place.names().len(), 3, "nothing else is left behind");
        assert_eq!(remove_snapshots_but(&mut *place.storage(), 2).unwrap(), 1);
        assert_eq!(list(place), [1_000, 70]);
    });
}

/// The bytes of this version are those of its golden file, which reads as it was written.
#[test]
fn golden_snapshot_is_written_and_read() {
    let name = snapshot_file_name(5);
    let folder = format!("tests/it/golden/snapshot-{SNAPSHOT_VERSION}");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(&name);
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    if std::env::var_os("DAMRAK_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, storage.content(&name)).unwrap();
    }
    let golden = std::fs::read(path).unwrap();
    assert_eq!(storage.content(&name), golden);
    storage.set_bytes(&name, Some(golden));
    assert_eq!(read(&storage, 5).unwrap().1, sections(5));
}

/// The map in docs/journal.md, written once more, independently: header, sections, end.
#[test]
fn a_snapshot_is_as_its_map_says() {
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    let bytes = storage.content(&snapshot_file_name(5));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((&bytes[..8], u32_at(8)), (&b"DamrakS\n"[..], SNAPSHOT_VERSION));
    assert_eq!(u32_at(12), crc32c::crc32c(&[&bytes[..12], &bytes[16..80]].concat()));
    assert_eq!((u64_at(16), u64_at(24), u64_at(32)), (JOURNAL_ID, 5, 1_005));
    assert_eq!((u32_at(40), u64_at(48), u64_at(56)), (header(5).payload_checksum, 155, 7));
    let mut at = 80;
    for (nth, (code, section)) in sections(5).into_iter().enumerate() {
        let end = at + 16 + section.len().next_multiple_of(8);
        let covered = [&bytes[16..32], &bytes[at + 4..end]].concat(); // id, sequence
        assert_eq!(u32_at(at), crc32c::crc32c(&covered));
        assert_eq!(u32_at(at + 4) as usize, section.len());
        assert_eq!(u32_at(at + 8), u32::from(code));
        assert_eq!(u32_at(at + 12) as usize, nth);
        assert_eq!(bytes[at + 16..at + 16 + section.len()], section);
        at = end;
    }
    assert_eq!((u32_at(at + 4), u32_at(at + 8), u32_at(at + 12)), (32, 65_535, 5));
    assert_eq!((u64_at(at + 16), u64_at(at + 24)), (5, at as u64));
    let hash = u128::from_le_bytes(bytes[at + 32..at + 48].try_into().unwrap());
    assert_eq!(hash, xxhash_rust::xxh3::xxh3_128(&bytes[..at]));
    assert_eq!(at + 48, bytes.len());
}

/// Sections larger than any buffer are read as written.
#[test]
fn large_sections_are_whole() {
    on_both!(|place| {
        let mut storage = place.storage();
        let mut writer = SnapshotWriter::new(&mut *storage, header(9));
        let large: Vec<u8> = (0..9_000_001_u32).map(|at| (at / 3) as u8).collect();
        let lens = [1, large.len(), 70_000, 4 << 20, (4 << 20) - 16, 0];
        for len in lens {
            writer.section(6, &large[..len]);
        }
        writer.finish().unwrap();
        let (_, found) = read(place, 9).unwrap();
        assert_eq!(found.len(), lens.len());
        for (found, len) in found.iter().zip(lens) {
            assert!(*found == (6, large[..len].to_vec()), "{len} bytes");
        }
    });
}

/// A long snapshot is read on a separate thread: sections before a fault are shown, in their order
/// and no others, and of two faults the first is reported.
#[test]
fn the_first_fault_of_a_long_one_is_reported() {
    let whole = CrashStorage::new();
    let section = |nth: u32| -> Vec<u8> { (0..60_000).map(|at| (at / 7 + nth) as u8).collect() };
    let mut storage = whole.storage();
    let mut writer = SnapshotWriter::new(&mut *storage, header(9));
    (0..60).for_each(|nth| writer.section(5, &section(nth)));
    writer.finish().unwrap();
    let begins_at = |nth: u64| 80 + nth * (16 + 60_000);
    for (refused, damaged) in [(0, 59), (10, 11), (30, 30), (50, 3), (60, 40), (60, 60)] {
        let storage = whole.duplicate(true);
        if damaged < 60 {
            let at = begins_at(damaged) as usize + 100;
            storage.change(&snapshot_file_name(9), |bytes| bytes[at] ^= 4);
        }
        let mut found = Vec::new();
        let mut visit = |_, bytes: &[u8]| {
            if found.len() as u64 == refused {
                return Err("not this one");
            }
            found.push(bytes.to_vec());
            Ok(())
        };
        let read = read_snapshot(&mut *storage.storage(), Some(JOURNAL_ID), 9, &mut visit);
        let shown = refused.min(damaged);
        assert!(found.iter().eq(&(0..shown as u32).map(section).collect::<Vec<_>>()), "{shown}");
        match read {
            Ok(summary) => assert_eq!((shown, summary.section_count), (60, 60)),
            Err(SnapshotError { offset, fault, .. }) => {
                assert_eq!(offset, begins_at(shown));
                let is_refused = matches!(fault, SnapshotFault::Refused(_));
                assert_eq!(is_refused, refused < damaged, "{refused}, {damaged}: {fault}");
            }
        }
    }
}

/// A file with any bit changed, or cut anywhere, is refused; so is one with more bytes.
#[test]
fn every_bit_and_every_end_is_noticed() {
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    let name = snapshot_file_name(5);
    let whole = storage.content(&name);
    let mut refused = 0;
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            storage.set_bytes(&name, Some(bytes));
            assert!(read(&storage, 5).is_err(), "byte {at}, bit {bit}");
            refused += 1;
        }
        storage.set_bytes(&name, Some(whole[..at].to_vec()));
        let error = read(&storage, 5).unwrap_err();
        assert!(matches!(error.fault, SnapshotFault::Short), "cut at {at}: {error}");
        refused += 1;
    }
    for tail in [&[0_u8; 1][..], &[0; 8], &whole] {
        storage.set_bytes(&name, Some([&whole, tail].concat()));
        assert!(matches!(read(&storage, 5).unwrap_err().fault, SnapshotFault::TooLong));
    }
    println!("{refused} damaged snapshots refused");
    storage.set_bytes(&name, Some(whole));
    read(&storage, 5).unwrap();
}

/// Sections of another snapshot, left out, repeated or exchanged do not verify.
#[test]
fn sections_stand_where_they_were_written() {
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    write(&storage, 6).unwrap();
    let name = snapshot_file_name(5);
    let (whole, other) = (storage.content(&name), storage.content(&snapshot_file_name(6)));
    let mut starts = vec![80];
    for (_, bytes) in sections(5) {
        starts.push(starts.last().unwrap() + 16 + bytes.len().next_multiple_of(8));
    }
    for pair in starts.windows(2) {
        let section = pair[0]..pair[1];
        let foreign =
            [&whole[..section.start], &other[section.clone()], &whole[section.end..]].concat();
        let without = [&whole[..section.start], &whole[section.end..]].concat();
        let twice = [&whole[..section.end], &whole[section.start..]].concat();
        for bytes in [foreign, without, twice] {
            storage.set_bytes(&name, Some(bytes));
            let error = read(&storage, 5).unwrap_err();
            assert!(matches!(error.fault, SnapshotFault::Section), "{error}");
        }
    }
}

/// The rows of the table in docs/journal.md that the file alone decides, each named.
#[test]
fn each_reason_is_named() {
    let check = |change: &dyn Fn(&CrashStorage), expected: fn(&SnapshotFault) -> bool| {
        let storage = CrashStorage::new();
        write(&storage, 5).unwrap();
        change(&storage);
        let error = read(&storage, 5).unwrap_err();
        assert!(expected(&error.fault), "{error}");
        assert!(error.to_string().contains("00000000000000000005.snapshot"), "{error}");
    };
    let name = snapshot_file_name(5);
    check(&|it| it.set_bytes(&name, None), |it| matches!(it, SnapshotFault::Storage(_)));
    check(&|it| it.set_bytes(&name, Some(vec![])), |it| matches!(it, SnapshotFault::Short));
    check(&|it| it.change(&name, |it| it[0] = b'd'), |it| matches!(it, SnapshotFault::Magic));
    check(&|it| it.change(&name, |it| it[20] ^= 1), |it| {
        matches!(it, SnapshotFault::HeaderChecksum)
    });
    let rewritten = |change: fn(&mut [u8])| {
        let name = &name;
        move |it: &CrashStorage| {
            it.change(name, |it| {
                change(it);
                let checksum = crc32c::crc32c_append(crc32c::crc32c(&it[..12]), &it[16..80]);
                it[12..16].copy_from_slice(&checksum.to_le_bytes());
            });
        }
    };
    check(&rewritten(|it| it[8] = 1), |it| matches!(it, SnapshotFault::Version(1)));
    check(&rewritten(|it| it[16] ^= 1), |it| matches!(it, SnapshotFault::Foreign { .. }));
    check(&rewritten(|it| it[24] = 6), |it| matches!(it, SnapshotFault::Misnamed(6)));
    check(&|it| it.change(&name, |it| it[100] ^= 1), |it| matches!(it, SnapshotFault::Section));
    check(
        &|it| {
            // An end that verifies, but has another hash: sections of one snapshot with the end of
            // another of the same sequence.
            let mut bytes = it.content(&name);
            it.set_bytes(&name, None);
            let mut storage = it.storage();
            let mut writer = SnapshotWriter::new(&mut *storage, header(5));
            for (code, bytes) in sections(6) {
                writer.section(code, &bytes);
            }
            writer.finish().unwrap();
            let other = it.content(&name);
            let end = bytes.len() - 48;
            bytes[end..].copy_from_slice(&other[end..]);
            it.set_bytes(&name, Some(bytes));
        },
        |it| matches!(it, SnapshotFault::End),
    );
    check(&|it| it.change(&name, |it| it.push(0)), |it| matches!(it, SnapshotFault::TooLong));

    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    let refused = read_snapshot(&mut storage.clone(), None, 5, &mut |code, _| match code {
        3 => Err("no"),
        _ => Ok(()),
    });
    let error = refused.unwrap_err();
    assert!(matches!(error.fault, SnapshotFault::Refused(_)) && error.offset == 120, "{error}");
    let header_only = read_snapshot_header(&mut storage.clone(), Some(JOURNAL_ID), 5).unwrap();
    assert_eq!(header_only, header(5));
}

/// The rules for the names of snapshots.
#[test]
fn names_are_exact() {
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    for name in ["6.snapshot", "00000000000000000007.snapshot-unfinished", "x.snapshot"] {
        storage.set_bytes(name, Some(vec![1]));
    }
    assert_eq!(list(&storage), [5]);
    assert_eq!(snapshots(&mut journal::Folder::new("/no such folder")).unwrap(), []);
}

/// A crash at every operation while a second snapshot is written, with every part of a write done:
/// the first is whole, the second is whole or does not exist, and the next try succeeds.
#[test]
fn a_crash_at_every_operation() {
    let fresh = || {
        let storage = CrashStorage::new();
        write(&storage, 5).unwrap();
        storage
    };
    let whole = fresh();
    let first_operation = whole.operation_count();
    write(&whole, 9).unwrap();
    let (mut crash_count, mut became) = (0, [0; 2]);
    for operation_number in first_operation..whole.operation_count() {
        let mut parts = vec![u64::MAX];
        let mut asked = false;
        while let Some(part) = parts.pop() {
            for crash in crashes() {
                let storage = fresh();
                storage.fault_at(operation_number, Fault::Stop { bytes: part });
                assert!(write(&storage, 9).is_err());
                let stopped = storage.stopped().expect("the fault struck");
                if !asked && stopped.bytes_asked > 0 {
                    asked = true;
                    parts = (0..=stopped.bytes_asked).collect();
                }
                storage.crash(crash);
                crash_count += 1;
                read(&storage, 5).unwrap();
                let is_there = list(&storage) == [9, 5];
                became[usize::from(is_there)] += 1;
                if is_there {
                    assert_eq!(read(&storage, 9).unwrap().1, sections(9), "{stopped:?} {crash:?}");
                } else {
                    assert_eq!(list(&storage), [5]);
                }
                write(&storage, 9).unwrap();
                remove_snapshots_but(&mut storage.clone(), 2).unwrap();
                assert_eq!(read(&storage, 9).unwrap().1, sections(9));
                assert_eq!(storage.names().len(), 2, "nothing is left behind");
            }
        }
    }
    println!(
        "{crash_count} crashes: {} without the new snapshot, {} with it",
        became[0], became[1]
    );
    assert!(crash_count > 1_000 && became[1] > 0, "{crash_count} {became:?}");
}

/// A write, a sync or a rename that fails leaves the older snapshot, and is reported.
#[test]
fn a_failure_is_reported() {
    let operations = [
        DiskOperation::Create,
        DiskOperation::Write,
        DiskOperation::Sync,
        DiskOperation::Rename,
        DiskOperation::SyncFolder,
    ];
    for operation in operations {
        let storage = CrashStorage::new();
        write(&storage, 5).unwrap();
        let kind = std::io::ErrorKind::StorageFull;
        storage.fault_next(operation, Fault::Fail { kind, bytes: 3 });
        assert_eq!(write(&storage, 9).unwrap_err().kind(), kind, "{operation:?}");
        assert_eq!(read(&storage, 5).unwrap().1, sections(5));
        write(&storage, 9).unwrap();
    }
}

/// The planted fault: a snapshot that gets its name before it is synced is lost by a power cut, and
/// the test above would see it.
#[test]
fn a_name_before_the_sync_is_found_out() {
    let storage = CrashStorage::new();
    write(&storage, 5).unwrap();
    let bytes = storage.content(&snapshot_file_name(5));
    let mut careless = storage.storage();
    let name = snapshot_file_name(9);
    careless.create(&name).unwrap().write_at(0, &bytes).unwrap();
    careless.sync_folder().unwrap();
    storage.crash(Crash::Power { unsynced_bytes: 100, unsynced_names: false });
    assert_eq!(list(&storage), [9, 5]);
    assert!(matches!(read(&storage, 9).unwrap_err().fault, SnapshotFault::Misnamed(_)));
    assert_eq!(storage.content(&name).len(), 100);
}

fn crashes() -> Vec<Crash> {
    let mut crashes = vec![Crash::Process];
    for unsynced_bytes in [0, 1, 79, 80, 200, u64::MAX] {
        for unsynced_names in [false, true] {
            crashes.push(Crash::Power { unsynced_bytes, unsynced_names });
        }
    }
    crashes
}
