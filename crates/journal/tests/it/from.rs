//! Opening at the end of a snapshot: earlier segments are not read and need not exist.

use journal::{CrashStorage, DamageKind, Durability, OpenError, WriterOptions, file_name};

use crate::support::{Place, append, open, options, record, spots, write};

fn from(from: u64) -> WriterOptions {
    WriterOptions { from, ..options(Durability::Synced) }
}

/// The first sequence of the segment that has the record `from`.
fn begins_at(from: u64) -> u64 {
    let whole = CrashStorage::new();
    write(&whole, 30);
    let spots = spots(&whole);
    let name = &spots.iter().find(|it| it.sequence == from.clamp(1, 30)).unwrap().name;
    spots.iter().find(|it| it.name == *name).unwrap().sequence
}

/// From any sequence on, with and without the segments before, the same records are replayed and the
/// journal goes on at its end.
#[test]
fn segments_before_need_not_be_there() {
    for sequence in 0..=31 {
        let first = begins_at(sequence);
        for without in [false, true] {
            let storage = CrashStorage::new();
            write(&storage, 30);
            if without {
                for name in storage.segments().into_iter().filter(|name| *name < file_name(first)) {
                    storage.set_bytes(&name, None);
                }
            }
            let (mut writer, kept, report) = open(storage.storage(), &from(sequence)).unwrap();
            assert_eq!(kept, (first..=30).map(record).collect::<Vec<_>>());
            assert_eq!((report.first_sequence, report.last_sequence), (first, 30));
            append(&mut writer, 31).unwrap();
            writer.commit().unwrap();
            drop(writer);
            let (_, kept, _) = open(storage.storage(), &from(sequence)).unwrap();
            assert_eq!(kept.last(), Some(&record(31)));
        }
    }
}

/// A hole after the first segment that is read, and a first segment that begins too late, are refused.
#[test]
fn holes_are_refused() {
    let storage = CrashStorage::new();
    write(&storage, 30);
    let names = storage.segments();
    assert!(names.len() > 2);
    let second: u64 = names[1].strip_suffix(".damrak").unwrap().parse().unwrap();
    for (removed, sequence) in [(&names[..1], 0), (&names[..1], second - 1), (&names[2..3], second)]
    {
        let storage = storage.clone();
        let bytes: Vec<_> = removed.iter().map(|name| storage.content(name)).collect();
        removed.iter().for_each(|name| storage.set_bytes(name, None));
        let Err(OpenError::Damaged(damage)) = open(storage.storage(), &from(sequence)) else {
            panic!("from {sequence} without {removed:?}");
        };
        assert!(matches!(damage.kind, DamageKind::MissingSegment { .. }), "{damage}");
        for (name, bytes) in removed.iter().zip(bytes) {
            storage.set_bytes(name, Some(bytes));
        }
    }
}

/// If the last segment never had a record, the one before it is read, and no new journal begins.
#[test]
fn a_half_made_last_segment_is_not_the_whole_journal() {
    for sequence in [0, 30, 31, 99] {
        let storage = CrashStorage::new();
        write(&storage, 30);
        storage.set_bytes(&file_name(31), Some(vec![0; 700]));
        let (writer, kept, report) = open(storage.storage(), &from(sequence)).unwrap();
        assert_eq!((writer.last_sequence(), kept.last()), (30, Some(&record(30))));
        assert_eq!(report.torn_tail.unwrap().byte_count, 700);
        assert_ne!(storage.content(&file_name(31)), vec![0; 700]);
    }
}
