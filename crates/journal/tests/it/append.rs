//! Appending, committing, and going on after a peaceful stop.

use journal::{Durability, PAYLOAD_LEN_MAX, SEGMENT_HEADER_LEN};
use tempfile::tempdir;

use crate::support::{
    JOURNAL_ID, Kept, Place, append, on_both, open, options, records, spots, verify, write,
};

const ALL: [Durability; 3] = [Durability::None, Durability::Written, Durability::Synced];

/// What was appended comes back, in order and unchanged, under every policy.
#[test]
fn replays_what_was_appended() {
    for durability in ALL {
        on_both!(|place| {
            let (mut writer, kept, report) = open(place.storage(), &options(durability)).unwrap();
            assert_eq!((kept, report.record_count), (vec![], 0));
            assert_eq!(report.journal_id, Some(JOURNAL_ID));
            for sequence in 1..=100 {
                append(&mut writer, sequence).unwrap();
                if sequence % 7 == 0 {
                    assert_eq!(writer.commit().unwrap(), sequence);
                }
            }
            writer.sync().unwrap();
            drop(writer);

            let (writer, kept, report) = open(place.storage(), &options(durability)).unwrap();
            assert_eq!(kept, records(100));
            assert_eq!(writer.last_sequence(), 100);
            assert_eq!(writer.durable(), 100);
            assert_eq!(writer.journal_id(), JOURNAL_ID);
            assert_eq!((report.first_sequence, report.last_sequence), (1, 100));
            assert_eq!((report.record_count, report.cut.clone()), (100, None));
            assert_eq!((report.created, report.last_timestamp), (500, 1_050));
            assert_eq!(report.segment_count, place.names().len() as u64);
            let byte_count: usize =
                place.names().iter().map(|name| place.content(name).len()).sum();
            assert_eq!(report.byte_count, byte_count as u64);
            drop(writer);
            assert_eq!(verify(place.storage()).unwrap(), (records(100), report));
        });
    }
}

/// The writer goes on where the journal ends, as often as it is opened, and the identity stays
/// the one that was chosen first.
#[test]
fn goes_on_at_the_tail() {
    on_both!(|place| {
        for count in 1..=30 {
            write(place, count);
        }
        let mut options = options(Durability::Synced);
        options.journal_id_if_new = 99;
        let (writer, kept, _) = open(place.storage(), &options).unwrap();
        assert_eq!((writer.journal_id(), kept), (JOURNAL_ID, records(30)));
    });
}

/// The same appends give the same bytes, however they are batched and whatever they wait for.
#[test]
fn bytes_do_not_depend_on_batches() {
    let reference = tempdir().unwrap();
    write(&reference, 60);
    for durability in ALL {
        for batch in [2, 9, 60] {
            on_both!(|place| {
                let (mut writer, _, _) = open(place.storage(), &options(durability)).unwrap();
                for sequence in 1..=60 {
                    append(&mut writer, sequence).unwrap();
                    if sequence % batch == 0 {
                        writer.commit().unwrap();
                    }
                }
                writer.sync().unwrap();
                assert_eq!(place.everything(), reference.everything());
            });
        }
    }
}

/// A segment ends before the record that would make it too long, and the next is named by it.
#[test]
fn a_full_segment_is_followed_by_the_next() {
    on_both!(|place| {
        write(place, 60);
        let spots = spots(60);
        assert!(place.names().len() > 4, "{:?}", place.names());
        for name in place.names() {
            let in_it: Vec<_> = spots.iter().filter(|spot| spot.name == name).collect();
            assert_eq!(name, journal::file_name(in_it[0].sequence));
            assert_eq!(place.content(&name).len() as u64, in_it.last().unwrap().end);
        }
    });
}

/// A record longer than a segment has one of its own.
#[test]
fn a_segment_has_at_least_one_record() {
    on_both!(|place| {
        let mut options = options(Durability::Written);
        options.segment_bytes = 0;
        let payload = vec![7; PAYLOAD_LEN_MAX];
        let (mut writer, _, _) = open(place.storage(), &options).unwrap();
        for sequence in 1..=3 {
            writer.append(sequence, 0, &payload).unwrap();
        }
        assert_eq!(writer.commit().unwrap(), 3);
        drop(writer);
        assert_eq!(place.names().len(), 3);
        let (_, kept, _) = open(place.storage(), &options).unwrap();
        let all = (1..=3).map(|sequence| Kept { sequence, timestamp: 0, payload: payload.clone() });
        assert_eq!(kept, all.collect::<Vec<_>>());
    });
}

/// Records that fill the buffer are written before a commit asks, and all come back: the longest
/// ones, over many of the reader's chunks, with no two ending at the same place in one.
#[test]
fn long_records_and_long_batches() {
    on_both!(|place| {
        let mut options = options(Durability::Synced);
        options.segment_bytes = 8 << 20;
        let all: Vec<_> = (1..=300_u64)
            .map(|sequence| Kept {
                sequence,
                timestamp: 5,
                payload: vec![sequence as u8; PAYLOAD_LEN_MAX - sequence as usize * 200],
            })
            .collect();
        let (mut writer, _, _) = open(place.storage(), &options).unwrap();
        for record in &all {
            writer.append(record.sequence, record.timestamp, &record.payload).unwrap();
        }
        assert_eq!(writer.commit().unwrap(), 300);
        drop(writer);
        let (_, kept, report) = open(place.storage(), &options).unwrap();
        assert!(kept == all, "{} records came back", kept.len());
        assert!(report.byte_count > 10 << 20 && report.segment_count > 1, "{report:?}");
    });
}

/// A commit without records touches nothing.
#[test]
fn an_empty_commit_costs_nothing() {
    let storage = journal::CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    append(&mut writer, 1).unwrap();
    writer.commit().unwrap();
    let operation_count = storage.operation_count();
    assert_eq!(writer.commit().unwrap(), 1);
    writer.sync().unwrap();
    assert_eq!(storage.operation_count(), operation_count);
    assert_eq!(storage.bytes(&journal::file_name(1)).unwrap().len() as u64, {
        SEGMENT_HEADER_LEN + crate::support::record(1).encoded_len()
    });
}

/// A sequence that is not the next is the caller's mistake, and is not written.
#[test]
#[should_panic(expected = "sequences have no gaps")]
fn a_gap_is_not_appended() {
    let storage = journal::CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    append(&mut writer, 1).unwrap();
    let _ = append(&mut writer, 3);
}

/// Time that goes back is the caller's mistake, also across a restart.
#[test]
#[should_panic(expected = "999 < 1001")]
fn time_does_not_go_back() {
    let storage = journal::CrashStorage::new();
    write(&storage, 2);
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    let _ = writer.append(3, 999, b"");
}

/// A payload that could not be read again is the caller's mistake.
#[test]
#[should_panic(expected = "a payload of 65537 bytes")]
fn a_payload_has_a_longest() {
    let storage = journal::CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    let _ = writer.append(1, 0, &[0; PAYLOAD_LEN_MAX + 1]);
}
