//! The decision table of docs/journal.md, a test a row, on a folder and in memory.

use std::{convert::Infallible, fs, io::ErrorKind};

use journal::{
    BadRecord, CrashStorage, Damage, DamageKind, Durability, Fault, Folder, HeaderFault, OpenError,
    Operation, Options, SEGMENT_HEADER_LEN, VerifyError, file_name,
};
use tempfile::tempdir;

use crate::support::{
    JOURNAL_ID, Kept, Place, append, on_both, open, options, place_of, record, records, spots,
    verify, write,
};

/// How many records the journals of these tests have: three segments and some.
const COUNT: u64 = 30;
const BLOCK_LEN: usize = 4_096;

/// Opening and verifying agree on the damage, and neither changes a byte.
fn damage_of(place: &impl Place) -> Damage {
    let before = place.everything();
    let Err(OpenError::Damaged(opening)) = open(place.storage(), &options(Durability::Synced))
    else {
        panic!("damage was accepted");
    };
    let Err(VerifyError::Damaged(verifying)) = verify(place.storage()) else {
        panic!("damage was accepted");
    };
    assert_eq!(opening, verifying);
    assert_eq!(place.everything(), before);
    *opening
}

fn name_of(damage: &Damage) -> String {
    damage.path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Opening cuts exactly this, verifying reports the same; the writer goes on, and all is well.
fn assert_cut(place: &impl Place, cut: (String, u64, u64), kept_count: u64) {
    let (kept, verified) = verify(place.storage()).unwrap();
    assert_eq!(kept, records(kept_count));
    let (mut writer, kept, opened) = open(place.storage(), &options(Durability::Synced)).unwrap();
    assert_eq!(kept, records(kept_count));
    assert_eq!(place_of(opened.cut.as_ref().unwrap()), cut);
    assert_eq!(opened.cut, verified.cut);
    for sequence in kept_count + 1..=kept_count + 20 {
        append(&mut writer, sequence).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    let (kept, report) = verify(place.storage()).unwrap();
    assert_eq!((kept, report.cut), (records(kept_count + 20), None));
}

/// Row 1: no folder, or an empty one, becomes a journal.
#[test]
fn row_1_nothing_is_there() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("not").join("yet");
    let (_, kept, report) =
        open(Box::new(Folder::new(&path)), &options(Durability::Synced)).unwrap();
    assert_eq!((kept, report.journal_id), (vec![], Some(JOURNAL_ID)));
    assert!(path.join(file_name(1)).exists());
    on_both!(|place| {
        assert!(matches!(verify(place.storage()), Err(VerifyError::NotAJournal { .. })));
        write(place, 1);
        assert_eq!(verify(place.storage()).unwrap().0, records(1));
    });
}

/// Row 2: a folder that holds something else is refused, and nothing is written into it.
#[test]
fn row_2_somebody_elses_folder() {
    for name in ["letter.txt", "letter.damrak"] {
        on_both!(|place| {
            place.set_bytes(name, Some(b"dear".to_vec()));
            let error = open(place.storage(), &options(Durability::Synced)).err().unwrap();
            let OpenError::NotAJournal { ref found, .. } = error else { panic!("{error}") };
            assert_eq!(found, name);
            assert!(!error.is_corruption());
            assert_eq!(place.names(), [name]);
            assert!(matches!(verify(place.storage()), Err(VerifyError::NotAJournal { .. })));
        });
    }
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    assert!(open(folder.storage(), &options(Durability::Synced)).is_err());
    assert!(!folder.path().join("lock").exists());
}

/// Row 2, the other way: what lies beside segments is left alone.
#[test]
fn row_2_a_letter_beside_a_journal() {
    on_both!(|place| {
        write(place, 3);
        place.set_bytes("letter.txt", Some(b"dear".to_vec()));
        write(place, COUNT);
        assert_eq!(place.content("letter.txt"), b"dear");
        assert_eq!(verify(place.storage()).unwrap().0, records(COUNT));
    });
}

/// Row 3: a folder that cannot be read is an error of the world, with what to do about it.
#[test]
fn row_3_unreadable() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("file");
    fs::write(&path, "").unwrap();
    let error = open(Box::new(Folder::new(&path)), &options(Durability::Synced)).err().unwrap();
    assert!(error.to_string().contains("name a folder, not a file"), "{error}");

    let storage = CrashStorage::new();
    write(&storage, 3);
    let refusals = [Operation::List, Operation::Lock, Operation::Open, Operation::Read];
    for operation in refusals {
        let fault = Fault::Fail { kind: ErrorKind::PermissionDenied, bytes: 0 };
        storage.fault_next(operation, fault);
        let error = open(storage.storage(), &options(Durability::Synced)).err().unwrap();
        assert!(!error.is_corruption());
        assert!(error.to_string().contains("let this user read and write"), "{error}");
    }
    assert_eq!(verify(storage.storage()).unwrap().0, records(3));
}

/// Row 3: there is nothing to verify where there is no folder.
#[test]
fn row_3_no_folder_to_verify() {
    let parent = tempdir().unwrap();
    let error = verify(Box::new(Folder::new(parent.path().join("no")))).unwrap_err();
    assert!(error.to_string().contains("check the path"), "{error}");
    assert!(!parent.path().join("no").exists());
}

/// Row 4: what verifies is replayed, also where the last segment has no record yet.
#[test]
fn row_4_whole() {
    on_both!(|place| {
        write(place, COUNT);
        let next = header_copies(JOURNAL_ID, COUNT + 1, 1);
        place.set_bytes(&file_name(COUNT + 1), Some(next));
        let (kept, report) = verify(place.storage()).unwrap();
        assert_eq!((kept, report.cut), (records(COUNT), None));
        write(place, COUNT + 5);
        assert_eq!(place.names().last(), Some(&file_name(COUNT + 1)));
        assert_eq!(verify(place.storage()).unwrap().0, records(COUNT + 5));
    });
}

/// Row 5: a last record that is not whole is cut, whatever there is of it.
#[test]
fn row_5_torn_tail() {
    on_both!(|place| {
        write(place, COUNT);
        let last = spots(COUNT).pop().unwrap();
        place.change(&last.name, |bytes| bytes.truncate(last.end as usize - 1));
        let torn = last.end - last.start - 1;
        assert_cut(place, (last.name, last.start, torn), COUNT - 1);
    });
    on_both!(|place| {
        write(place, COUNT);
        let last = spots(COUNT).pop().unwrap();
        place.change(&last.name, |bytes| bytes[last.end as usize - 20] ^= 1);
        assert_cut(place, (last.name, last.start, last.end - last.start), COUNT - 1);
    });
    for tail in [vec![0; 1], vec![0; 5_000], vec![0xff; 24], (0..200).collect()] {
        on_both!(|place| {
            write(place, COUNT);
            let last = spots(COUNT).pop().unwrap();
            place.change(&last.name, |bytes| bytes.extend_from_slice(&tail));
            assert_cut(place, (last.name, last.end, tail.len() as u64), COUNT);
        });
    }
}

/// Row 5: records of another journal behind the tail are not records, so they are cut.
#[test]
fn row_5_foreign_records_behind_the_tail() {
    on_both!(|place| {
        let other = CrashStorage::new();
        let foreign = Options { journal_id_if_new: 2, ..options(Durability::Synced) };
        let (mut writer, _, _) = open(other.storage(), &foreign).unwrap();
        for sequence in 1..=5 {
            append(&mut writer, sequence).unwrap();
        }
        writer.commit().unwrap();
        let tail = other.bytes(&file_name(1)).unwrap()[SEGMENT_HEADER_LEN as usize..].to_vec();

        write(place, 3);
        let last = spots(3).pop().unwrap();
        place.change(&last.name, |bytes| bytes.extend_from_slice(&tail));
        assert_cut(place, (last.name, last.end, tail.len() as u64), 3);
    });
}

/// Row 6: a last segment whose making was interrupted is removed, and made again when needed.
#[test]
fn row_6_half_made_segment() {
    let mut whole = CrashStorage::new();
    for count in [0, COUNT] {
        write(&whole, count);
        let name = file_name(count + 1);
        let header = {
            let journal = CrashStorage::new();
            write(&journal, 0);
            let mut bytes = journal.bytes(&file_name(1)).unwrap();
            if count > 0 {
                // The header that would come next, so that one whole copy of it is the right one.
                bytes = header_copies(JOURNAL_ID, count + 1, 1);
            }
            bytes
        };
        let mut other_copy_only = header.clone();
        other_copy_only[..BLOCK_LEN].fill(0);
        let leftovers = [
            vec![],
            vec![0; 1],
            vec![0; BLOCK_LEN],
            vec![0; 2 * BLOCK_LEN],
            header[..3].to_vec(),
            header[..50].to_vec(),
            header[..BLOCK_LEN].to_vec(),
            header[..BLOCK_LEN + 50].to_vec(),
            header[..2 * BLOCK_LEN - 1].to_vec(),
            other_copy_only,
        ];
        for leftover in leftovers {
            on_both!(|place| {
                for (name, bytes) in whole.everything() {
                    place.set_bytes(&name, Some(bytes));
                }
                place.set_bytes(&name, Some(leftover.clone()));
                assert_cut(place, (name.clone(), 0, leftover.len() as u64), count);
            });
        }
        whole = CrashStorage::new();
    }
}

/// Row 6, its limit: bytes that no crash leaves there are not taken for a half made segment.
#[test]
fn row_6_something_else_under_the_name_of_a_segment() {
    on_both!(|place| {
        write(place, COUNT);
        place.set_bytes(&file_name(COUNT + 1), Some(b"dear".to_vec()));
        let damage = damage_of(place);
        assert!(matches!(damage.kind, DamageKind::HeaderDamaged { .. }), "{damage}");
    });
}

/// Row 7: a bad record with a good one behind it is damage, and is refused with its place.
#[test]
fn row_7_bad_record_before_a_good_one() {
    on_both!(|place| {
        write(place, COUNT);
        let spots = spots(COUNT);
        let [.., bad, last] = &spots[..] else { panic!("two records") };
        assert_eq!(bad.name, last.name);
        place.change(&bad.name, |bytes| bytes[bad.start as usize + 16] ^= 0x40);
        let damage = damage_of(place);
        assert!(damage.is_corruption());
        assert_eq!(name_of(&damage), bad.name);
        assert_eq!((damage.offset, damage.sequence), (bad.start, bad.sequence));
        let DamageKind::BadRecord { fault, later_sequence, later_offset } = damage.kind else {
            panic!("{damage}");
        };
        assert!(matches!(fault, BadRecord::Checksum { .. }), "{fault}");
        assert_eq!((later_sequence, later_offset), (last.sequence, Some(last.start)));
    });
}

/// Row 7: the good one is found wherever it is, also beyond a mebibyte of garbage.
#[test]
fn row_7_a_good_record_far_behind_the_bad_one() {
    on_both!(|place| {
        write(place, 3);
        let last = spots(3).pop().unwrap();
        place.change(&last.name, |bytes| {
            let record = bytes.split_off(last.start as usize);
            bytes.extend((0..1_500_000_u32).map(|at| (at * 7 / 3) as u8));
            bytes.extend_from_slice(&record);
        });
        let damage = damage_of(place);
        assert_eq!(damage.offset, last.start);
        let DamageKind::BadRecord { later_offset, .. } = damage.kind else { panic!("{damage}") };
        assert_eq!(later_offset, Some(last.start + 1_500_000));
    });
}

/// Row 8: a bad end in a segment that another one follows is damage: it was whole when that began.
#[test]
fn row_8_bad_end_before_another_segment() {
    for extra in [false, true] {
        on_both!(|place| {
            write(place, COUNT);
            let spots = spots(COUNT);
            let first = &spots[0].name;
            let last = spots.iter().rfind(|spot| spot.name == *first).unwrap();
            place.change(first, |bytes| {
                if extra { bytes.push(0) } else { bytes.truncate(last.end as usize - 1) }
            });
            let damage = damage_of(place);
            assert_eq!(name_of(&damage), *first);
            assert_eq!(damage.offset, if extra { last.end } else { last.start });
            let DamageKind::BadRecord { later_sequence, later_offset: None, .. } = damage.kind
            else {
                panic!("{damage}");
            };
            assert_eq!(later_sequence, last.sequence + 1);
        });
    }
}

/// Row 8: where another segment follows, one that ends within its header is not half made.
#[test]
fn row_8_end_within_the_header_before_another_segment() {
    for len in [0, 3_000, BLOCK_LEN, 5_000, 2 * BLOCK_LEN - 1] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.names()[1];
            place.change(name, |bytes| bytes.truncate(len));
            let damage = damage_of(place);
            assert_eq!(name_of(&damage), *name);
            if len < BLOCK_LEN {
                let (first, second) = (HeaderFault::Short, HeaderFault::Short);
                assert_eq!(damage.kind, DamageKind::HeaderDamaged { first, second });
            } else {
                assert_eq!(damage.kind, DamageKind::HeaderCutShort);
                assert_eq!(damage.offset, len as u64);
            }
        });
    }
}

/// Row 9: a segment that is missing, at the beginning or between others, is named.
#[test]
fn row_9_missing_segment() {
    for missing in [0, 1] {
        on_both!(|place| {
            write(place, COUNT);
            let names = place.names();
            assert!(names.len() > 2);
            place.set_bytes(&names[missing], None);
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (names[missing + 1].clone(), 0));
            assert!(matches!(damage.kind, DamageKind::MissingSegment { .. }), "{damage}");
            assert_eq!(file_name(damage.sequence), names[missing]);
        });
    }
}

/// Row 9: a segment that ends early, between two records, leaves the same hole.
#[test]
fn row_9_segment_cut_between_records() {
    on_both!(|place| {
        write(place, COUNT);
        let spots = spots(COUNT);
        place.change(&spots[0].name, |bytes| bytes.truncate(spots[1].end as usize));
        let damage = damage_of(place);
        let DamageKind::MissingSegment { expected: 3, found } = damage.kind else {
            panic!("{damage}");
        };
        assert_eq!(name_of(&damage), file_name(found));
    });
}

/// Row 10: one good copy of a header is enough, and the other one is reported.
#[test]
fn row_10_one_copy_of_the_header_damaged() {
    for copy in [0, BLOCK_LEN] {
        on_both!(|place| {
            write(place, COUNT);
            for name in place.names() {
                place.change(&name, |bytes| bytes[copy + 30] ^= 4);
            }
            let (kept, report) = verify(place.storage()).unwrap();
            assert_eq!(kept, records(COUNT));
            let offsets: Vec<_> = report.damaged_headers.iter().map(|copy| copy.offset).collect();
            assert_eq!(offsets, vec![copy as u64; place.names().len()]);
            let (_, kept, opened) = open(place.storage(), &options(Durability::Synced)).unwrap();
            assert_eq!((kept, opened), (records(COUNT), report));
        });
    }
}

/// Row 11: without a good copy of its header, a segment is refused.
#[test]
fn row_11_both_copies_of_the_header_damaged() {
    for nth in [0, 1] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.names()[nth];
            place.change(name, |bytes| {
                bytes[3] ^= 4;
                bytes[BLOCK_LEN + 3_000] ^= 4;
            });
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (name.clone(), 0));
            let (first, second) = (HeaderFault::Magic, HeaderFault::Checksum);
            assert_eq!(damage.kind, DamageKind::HeaderDamaged { first, second });
        });
    }
}

/// Row 12: copies that verify and differ are refused: neither can be believed.
#[test]
fn row_12_copies_of_the_header_contradict() {
    let headers = [header_copies(2, 1, 1), header_copies(JOURNAL_ID, 1, 2)];
    for header in headers {
        on_both!(|place| {
            write(place, COUNT);
            place.change(&file_name(1), |bytes| {
                bytes[BLOCK_LEN..2 * BLOCK_LEN].copy_from_slice(&header[BLOCK_LEN..]);
            });
            assert_eq!(damage_of(place).kind, DamageKind::HeaderContradicts);
        });
    }
}

/// Row 13: a version that is not known is not touched, and is not called corrupt.
#[test]
fn row_13_unknown_version() {
    for (name, first_sequence) in [(file_name(1), 1), (file_name(COUNT + 1), COUNT + 1)] {
        on_both!(|place| {
            write(place, COUNT);
            place.set_bytes(&name, Some(header_copies(JOURNAL_ID, first_sequence, 7)));
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (name.clone(), 0));
            assert_eq!(damage.kind, DamageKind::UnknownVersion(7));
            assert!(!damage.is_corruption());
        });
    }
}

/// Row 14: a segment of another journal is refused, however well it fits.
#[test]
fn row_14_foreign_segment() {
    let other = CrashStorage::new();
    let foreign = Options { journal_id_if_new: 2, ..options(Durability::Synced) };
    let (mut writer, _, _) = open(other.storage(), &foreign).unwrap();
    for sequence in 1..=COUNT {
        append(&mut writer, sequence).unwrap();
    }
    writer.commit().unwrap();
    for nth in [1, 2] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.names()[nth];
            place.set_bytes(name, other.bytes(name));
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (name.clone(), 0));
            let kind = DamageKind::ForeignJournal { expected: JOURNAL_ID, found: 2 };
            assert_eq!(damage.kind, kind);
        });
    }
}

/// Row 15: a segment under the name of another one is refused.
#[test]
fn row_15_misplaced_segment() {
    on_both!(|place| {
        write(place, COUNT);
        let names = place.names();
        place.set_bytes(&names[1], Some(place.content(&names[0])));
        let damage = damage_of(place);
        assert_eq!((name_of(&damage), damage.kind), (names[1].clone(), DamageKind::Misnamed));
    });
}

/// Row 15: a file that is called a segment and is named like none is refused.
#[test]
fn row_15_misnamed_file() {
    on_both!(|place| {
        write(place, COUNT);
        place.set_bytes("copy of 1.damrak", Some(place.content(&file_name(1))));
        let damage = damage_of(place);
        assert_eq!(name_of(&damage), "copy of 1.damrak");
        assert_eq!((damage.offset, damage.kind), (0, DamageKind::Misnamed));
    });
}

/// Row 16: good records with a hole between them, or one of them twice, are refused.
#[test]
fn row_16_sequence_gap() {
    on_both!(|place| {
        write(place, 5);
        let spots = spots(5);
        let bytes = place.content(&spots[0].name);
        let of = |nth: usize| bytes[spots[nth].start as usize..spots[nth].end as usize].to_vec();
        let header = &bytes[..SEGMENT_HEADER_LEN as usize];
        for (order, at, found) in [(&[0, 2, 3][..], 1, 3), (&[0, 1, 1, 2], 2, 2), (&[1], 0, 2)] {
            let records: Vec<_> = order.iter().map(|nth| of(*nth)).collect();
            let offset: usize = records[..at].iter().map(Vec::len).sum();
            place.set_bytes(&spots[0].name, Some([header, &records.concat()].concat()));
            let damage = damage_of(place);
            assert_eq!(damage.offset, SEGMENT_HEADER_LEN + offset as u64);
            let expected = at as u64 + 1;
            assert_eq!(damage.kind, DamageKind::SequenceGap { expected, found });
        }
    });
}

/// Row 17: good records whose time goes back are refused.
#[test]
fn row_17_time_goes_back() {
    on_both!(|place| {
        write(place, 0);
        place.change(&file_name(1), |bytes| {
            bytes.extend_from_slice(&encoded(JOURNAL_ID, 1, 1, 2_000, b"late"));
            bytes.extend_from_slice(&encoded(JOURNAL_ID, 1, 2, 1_999, b"early"));
        });
        let damage = damage_of(place);
        assert_eq!((damage.offset, damage.sequence), (SEGMENT_HEADER_LEN + 32, 2));
        assert_eq!(damage.kind, DamageKind::TimeWentBack { previous: 2_000, found: 1_999 });
    });
}

/// Row 18: a record that the one who replays does not accept is named by its place.
#[test]
fn row_18_replay_refuses() {
    on_both!(|place| {
        write(place, COUNT);
        let spot = &spots(COUNT)[19];
        let mut seen = Vec::new();
        let mut replay = |record: journal::Record<'_>| {
            if record.sequence == 20 {
                return Err("no such command");
            }
            seen.push(Kept::of(record));
            Ok(())
        };
        let error = journal::open(place.storage(), &options(Durability::Synced), &mut replay).err();
        let Some(error @ OpenError::Refused { offset, sequence: 20, .. }) = error else {
            panic!("a refused record was accepted");
        };
        assert_eq!(offset, spot.start);
        assert!(error.is_corruption() && error.to_string().contains(&spot.name), "{error}");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such command");
        assert_eq!(seen, records(19));
        let visited = journal::verify(&mut *place.storage(), &mut |_| Err("no such command"));
        assert!(matches!(visited, Err(VerifyError::Refused { sequence: 1, .. })));
    });
}

/// What is replayed is on the medium: a power cut right after opening takes nothing of it.
#[test]
fn what_is_replayed_is_synced() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    for sequence in 1..=3 {
        append(&mut writer, sequence).unwrap();
    }
    writer.commit().unwrap();
    storage.crash(journal::Crash::Process);
    let (_, kept, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    assert_eq!(kept, records(3));
    storage.crash(journal::Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    let (_, kept, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    assert_eq!(kept, records(3));
}

/// A cut is on the medium before anything is appended, or the tail could come back behind it.
#[test]
fn a_cut_is_synced() {
    let storage = CrashStorage::new();
    write(&storage, 3);
    let last = spots(3).pop().unwrap();
    storage.change(&last.name, |bytes| bytes.extend_from_slice(&[1; 77]));
    drop(open(storage.storage(), &options(Durability::Synced)).unwrap());
    storage.crash(journal::Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    let (kept, report) = verify(storage.storage()).unwrap();
    assert_eq!((kept, report.cut), (records(3), None));
}

/// So is the removal of a half made segment, or it could come back where no segment belongs.
#[test]
fn a_removal_is_synced() {
    let storage = CrashStorage::new();
    write(&storage, 3);
    storage.set_bytes(&file_name(4), Some(vec![]));
    write(&storage, 4);
    assert_eq!(storage.names(), [file_name(1)], "there was room for one more");
    storage.crash(journal::Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    assert_eq!(open(storage.storage(), &options(Durability::Synced)).unwrap().1, records(4));
}

/// The identity of a journal is known without replaying it, exactly where opening would keep it.
#[test]
fn the_identity_is_known_before_replaying() {
    on_both!(|place| {
        let identity = || journal::identity(&mut *place.storage());
        assert_eq!(identity(), None);
        write(place, COUNT);
        assert_eq!(identity(), Some(JOURNAL_ID));
        place.change(&file_name(1), |bytes| bytes[30] ^= 1);
        assert_eq!(identity(), Some(JOURNAL_ID), "one copy of the header is enough");
        place.change(&file_name(1), |bytes| bytes[BLOCK_LEN + 30] ^= 1);
        assert_eq!(identity(), None);
        for name in place.names() {
            place.set_bytes(&name, None);
        }
        place.set_bytes(&file_name(1), Some(header_copies(7, 1, 1)[..5_000].to_vec()));
        assert_eq!(identity(), None, "half made: opening makes it anew");
        write(place, 1);
        assert_eq!(identity(), Some(JOURNAL_ID));
    });
}

/// Every damage says where it is and what to do, in one line.
#[test]
fn messages_name_place_and_remedy() {
    let storage = CrashStorage::new();
    write(&storage, COUNT);
    let spots = spots(COUNT);
    storage.change(&spots[0].name, |bytes| bytes[spots[1].start as usize + 24] ^= 1);
    let message = damage_of(&storage).to_string();
    let file = format!("memory/{}, byte {}: ", spots[0].name, spots[1].start);
    assert!(message.starts_with(&file), "{message}");
    assert!(message.contains("nothing was changed; restore the folder from a copy"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

/// Both copies of a header, written from the map in docs/journal.md.
fn header_copies(journal_id: u64, first_sequence: u64, version: u32) -> Vec<u8> {
    let mut block = vec![0; BLOCK_LEN];
    block[..8].copy_from_slice(b"DamrakJ\n");
    block[8..12].copy_from_slice(&version.to_le_bytes());
    block[16..24].copy_from_slice(&journal_id.to_le_bytes());
    block[24..32].copy_from_slice(&first_sequence.to_le_bytes());
    let checksum = crc32c::crc32c(&[&block[..12], &block[16..]].concat());
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    block.repeat(2)
}

/// A record, written from the map in docs/journal.md.
fn encoded(
    journal_id: u64,
    first_sequence: u64,
    sequence: u64,
    timestamp: u64,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&timestamp.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + payload.len().next_multiple_of(8) - payload.len(), 0);
    let seed = [journal_id.to_le_bytes(), first_sequence.to_le_bytes()].concat();
    let checksum = crc32c::crc32c(&[&seed, &bytes[..]].concat());
    [&checksum.to_le_bytes(), &bytes[..]].concat()
}

/// The map as this file tells it is the one that is written.
#[test]
fn the_tests_know_the_map() {
    let storage = CrashStorage::new();
    let options = Options { created: 0, ..options(Durability::Synced) };
    let replay = &mut |_: journal::Record<'_>| Ok::<_, Infallible>(());
    let (mut writer, _) = journal::open(storage.storage(), &options, replay).unwrap();
    append(&mut writer, 1).unwrap();
    writer.commit().unwrap();
    let Kept { sequence, timestamp, payload } = record(1);
    let record = encoded(JOURNAL_ID, 1, sequence, timestamp, &payload);
    let expected = [header_copies(JOURNAL_ID, 1, 1), record].concat();
    assert_eq!(storage.bytes(&file_name(1)).unwrap(), expected);
}
