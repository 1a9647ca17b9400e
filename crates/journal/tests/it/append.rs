//! Appending, committing, and going on after a clean stop.

use journal::{Durability, PAYLOAD_LEN_MAX, SEGMENT_HEADER_LEN};
use tempfile::tempdir;

use crate::support::{
    JOURNAL_ID, Kept, Place, append, on_both, open, options, records, spots, verify, write,
    write_as,
};

const ALL: [Durability; 3] = [Durability::None, Durability::Written, Durability::Synced];

/// Appended records come back, in order and unchanged, under every policy.
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
            assert_eq!((report.record_count, report.torn_tail.clone()), (100, None));
            assert_eq!((report.created, report.last_timestamp), (500, 1_050));
            drop(writer);
            // The opening has made one more segment, without a record.
            assert_eq!(report.segment_count + 1, place.segments().len() as u64);
            let end_of = |name: &String| {
                let spot = spots(place).into_iter().rfind(|spot| spot.name == *name);
                spot.map_or(SEGMENT_HEADER_LEN, |spot| spot.end)
            };
            let ends: u64 = place.segments().iter().map(end_of).sum();
            assert!(report.byte_count + SEGMENT_HEADER_LEN <= ends + 8 * 4_096, "{report:?}");
            assert_eq!(verify(place.storage()).unwrap().0, records(100));
        });
    }
}

/// The writer goes on at the end of the journal, however often it is opened, and keeps the identity
/// that was chosen first.
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

/// The same appends and commits give the same bytes; other batches and another policy give the
/// same records.
#[test]
fn bytes_depend_on_the_batches_alone() {
    for durability in ALL {
        for batch in [1, 2, 9, 60] {
            let reference = tempdir().unwrap();
            write_as(&reference, durability, 60, batch, crate::support::End::Peace);
            on_both!(|place| {
                write_as(place, durability, 60, batch, crate::support::End::Peace);
                assert_eq!(place.everything(), reference.everything());
                assert_eq!(verify(place.storage()).unwrap().0, records(60));
            });
        }
    }
}

/// A segment ends before the batch that would make it too long, and the next is named by it. Synced
/// batches have blocks for themselves.
#[test]
fn a_full_segment_is_followed_by_the_next() {
    for durability in ALL {
        on_both!(|place| {
            write_as(place, durability, 90, 1, crate::support::End::Peace);
            let spots = spots(place);
            assert!(place.segments().len() > 4, "{:?}", place.names());
            for name in place.segments() {
                let in_it: Vec<_> = spots.iter().filter(|spot| spot.name == name).collect();
                assert_eq!(name, journal::file_name(in_it[0].first_sequence));
                let len = place.content(&name).len() as u64;
                assert!(in_it.last().unwrap().end <= len, "{name}");
                let block = if durability == Durability::Synced { 4_096 } else { 8 };
                assert!(in_it.iter().all(|spot| spot.start % block == 0), "{name}");
                assert_eq!(len, (SEGMENT_HEADER_LEN + 400).next_multiple_of(block), "{name}");
            }
        });
    }
}

/// A start that only writes a note leaves a segment whose name the next one needs: it is made anew.
#[test]
fn a_segment_of_notes_alone_is_made_anew() {
    for durability in ALL {
        on_both!(|place| {
            for life in 0..12_u64 {
                let (mut writer, kept, report) =
                    open(place.storage(), &options(durability)).unwrap();
                assert_eq!((kept, report.torn_tail), (records(life / 3 * 4), None));
                for _ in 0..20 {
                    writer.checkpoint(b"a note that would fill a segment with others").unwrap();
                    writer.commit().unwrap();
                }
                if life % 3 == 2 {
                    for sequence in life / 3 * 4 + 1..=life / 3 * 4 + 4 {
                        append(&mut writer, sequence).unwrap();
                        writer.commit().unwrap();
                    }
                }
                if life % 2 == 0 {
                    writer.sync().unwrap();
                }
                writer.flush().unwrap();
            }
            assert_eq!(verify(place.storage()).unwrap().0, records(16));
        });
    }
}

/// A note has the place and time of the input before it, and comes back where it was put.
#[test]
fn notes_come_back_in_their_place() {
    on_both!(|place| {
        let (mut writer, _, _) = open(place.storage(), &options(Durability::Written)).unwrap();
        writer.checkpoint(b"before all").unwrap();
        for sequence in 1..=20 {
            append(&mut writer, sequence).unwrap();
            if sequence % 5 == 0 {
                writer.checkpoint(&[sequence as u8; 3]).unwrap();
                writer.commit().unwrap();
            }
        }
        drop(writer);
        let mut seen = Vec::new();
        let report = journal::verify(&mut *place.storage(), &mut |record| {
            if record.kind == journal::RecordKind::Checkpoint {
                seen.push((record.sequence, record.timestamp, record.payload.to_vec()));
            }
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
        let expected: Vec<_> = std::iter::once((0, 0, b"before all".to_vec()))
            .chain([5, 10, 15, 20].map(|n| (n, 1_000 + n / 2, vec![n as u8; 3])))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!((report.checkpoint_count, report.record_count), (5, 20));
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
        assert_eq!(place.segments().len(), 3);
        let (_, kept, _) = open(place.storage(), &options).unwrap();
        let all = (1..=3).map(|sequence| Kept { sequence, timestamp: 0, payload: payload.clone() });
        assert_eq!(kept, all.collect::<Vec<_>>());
    });
}

/// Records that fill the buffer are written before a commit, and all come back: the longest ones,
/// over many of the reader's chunks, with no two ending at the same place in one.
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

/// A commit without records touches no file, once the next segment is prepared.
#[test]
fn an_empty_commit_costs_nothing() {
    let storage = journal::CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    append(&mut writer, 1).unwrap();
    for _ in 0..4 {
        writer.commit().unwrap();
    }
    writer.sync().unwrap();
    let operation_count = storage.operation_count();
    assert_eq!(writer.commit().unwrap(), 1);
    writer.sync().unwrap();
    assert_eq!(storage.operation_count(), operation_count);
}

/// On a folder a thread works ahead: segments follow one another, all records come back, and the
/// watermark has moved.
#[test]
fn a_thread_works_ahead() {
    for durability in ALL {
        let folder = tempdir().unwrap();
        let storage = || Box::new(journal::Folder::new(folder.path()));
        let options = journal::WriterOptions { segment_bytes: 1 << 20, ..options(durability) };
        let count = if durability == Durability::Synced { 2_000 } else { 60_000 };
        let (mut writer, _, _) = open(storage(), &options).unwrap();
        for sequence in 1..=count {
            append(&mut writer, sequence).unwrap();
            if sequence % 7 == 0 {
                writer.commit().unwrap();
            }
            if sequence == count / 2 {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
        }
        writer.sync().unwrap();
        let (kept, report) = verify(storage()).unwrap();
        assert!(kept == records(count), "{durability:?}: {} records", kept.len());
        assert_eq!(report.watermark, count);
        assert!(report.segment_count > 1, "{durability:?}: {report:?}");
        drop(writer);
        assert_eq!(open(storage(), &options).unwrap().1.len() as u64, count);
    }
}

/// Files have the same bytes under every write method.
#[test]
fn every_method_gives_the_same_bytes() {
    let reference = tempdir().unwrap();
    write_as(&reference, Durability::Synced, 60, 3, crate::support::End::Peace);
    for method in journal::Method::ALL {
        let folder = tempdir().unwrap();
        if let Err(error) = journal::Folder::probe(folder.path(), method) {
            println!("skipped: this folder cannot be written {}: {error}", method.as_str());
            continue;
        }
        let storage = || Box::new(journal::Folder::with_method(folder.path(), method).in_order());
        let (mut writer, _, _) = open(storage(), &options(Durability::Synced)).unwrap();
        for sequence in 1..=60 {
            append(&mut writer, sequence).unwrap();
            if sequence % 3 == 0 {
                writer.commit().unwrap();
            }
        }
        writer.sync().unwrap();
        drop(writer);
        assert_eq!(folder.everything(), reference.everything(), "{}", method.as_str());
        let read = open(storage(), &options(Durability::Synced)).unwrap().1;
        assert_eq!(read, records(60), "{}", method.as_str());
    }
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

/// A payload too long to be read again is the caller's mistake.
#[test]
#[should_panic(expected = "a payload of 65537 bytes")]
fn a_payload_has_a_longest() {
    let storage = journal::CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Synced)).unwrap();
    let _ = writer.append(1, 0, &[0; PAYLOAD_LEN_MAX + 1]);
}

/// Lives that left only a note do not block the next one, however many there were; a follower goes
/// on with it.
#[test]
fn lives_without_inputs_leave_nothing() {
    on_both!(|place| {
        let mut follower = journal::JournalFollower::new(place.storage(), 0).with_checkpoints();
        let mut seen = 0;
        let mut look = || {
            let mut kept = |record: journal::Record<'_>| {
                seen = record.sequence;
                Ok::<_, std::convert::Infallible>(())
            };
            while follower.poll(9, u64::MAX, &mut kept).unwrap() > 0 {}
            seen
        };
        for life in 0..6 {
            let (mut writer, kept, _) =
                open(place.storage(), &options(Durability::Written)).unwrap();
            let expected = life / 3 * 5;
            assert_eq!(kept.iter().filter(|it| it.sequence > 0).count() as u64, expected);
            writer.checkpoint(b"a note").unwrap();
            writer.commit().unwrap();
            assert_eq!(look(), expected);
            if life % 3 == 2 {
                for sequence in expected + 1..=expected + 5 {
                    append(&mut writer, sequence).unwrap();
                }
                writer.commit().unwrap();
                assert_eq!(look(), expected + 5);
            }
        }
    });
}
