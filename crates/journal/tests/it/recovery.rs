//! The decision table of docs/journal.md, a test a row, on a folder and in memory.

use std::{convert::Infallible, fs, io::ErrorKind};

use journal::{
    BadBatch, CrashStorage, Damage, DamageKind, DiskOperation, Durability, FORMAT_VERSION, Fault,
    Folder, HeaderFault, OpenError, SEGMENT_HEADER_LEN, VerifyError, WriterOptions, file_name,
};
use tempfile::tempdir;

use crate::support::{
    End, JOURNAL_ID, Kept, Place, append, on_both, open, options, place_of, record, records, spots,
    verify, write, write_as,
};

/// The number of records in the journals of these tests: three segments and some.
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

/// Writes records, and is killed: the watermark is behind.
fn write_and_die(place: &impl Place, count: u64) {
    write_as(place, Durability::Written, count, 1, End::Kill);
}

/// The document and the code have the same table.
#[test]
fn the_table_is_the_documents() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(folder.join("../../docs/journal.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| row |"))
        .skip(2)
        .map_while(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let corrupt = |corrupt| match corrupt {
        None => "",
        Some(false) => "no",
        Some(true) => "yes",
    };
    let table: Vec<Vec<String>> = journal::TABLE
        .iter()
        .map(|row| {
            let number = row.number.to_string();
            vec![number, row.found.into(), row.does.into(), corrupt(row.corrupt).into()]
        })
        .collect();
    assert_eq!(rows, table);
}

/// Opening cuts exactly this, verifying reports the same; the writer goes on, and the journal is
/// intact.
fn assert_cut(place: &impl Place, cut: (String, u64, u64), kept_count: u64) {
    let (kept, verified) = verify(place.storage()).unwrap();
    assert_eq!(kept, records(kept_count));
    let (mut writer, kept, opened) = open(place.storage(), &options(Durability::Synced)).unwrap();
    assert_eq!(kept, records(kept_count));
    assert_eq!(place_of(opened.torn_tail.as_ref().unwrap()), cut);
    assert_eq!(opened.torn_tail, verified.torn_tail);
    for sequence in kept_count + 1..=kept_count + 20 {
        append(&mut writer, sequence).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    let (kept, report) = verify(place.storage()).unwrap();
    assert_eq!((kept, report.torn_tail), (records(kept_count + 20), None));
}

/// TableRow 1: no folder, or an empty one, becomes a journal.
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

/// TableRow 2: a folder that holds other files is refused, and no file is written into it.
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

/// TableRow 2, the other way: other files beside segments are left alone.
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

/// TableRow 3: a folder that cannot be read is an error of the environment, with the remedy.
#[test]
fn row_3_unreadable() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("file");
    fs::write(&path, "").unwrap();
    let error = open(Box::new(Folder::new(&path)), &options(Durability::Synced)).err().unwrap();
    assert!(error.to_string().contains("name a folder, not a file"), "{error}");

    let storage = CrashStorage::new();
    write(&storage, 3);
    let refusals =
        [DiskOperation::List, DiskOperation::Lock, DiskOperation::Open, DiskOperation::Read];
    for operation in refusals {
        let fault = Fault::Fail { kind: ErrorKind::PermissionDenied, bytes: 0 };
        storage.fault_next(operation, fault);
        let error = open(storage.storage(), &options(Durability::Synced)).err().unwrap();
        assert!(!error.is_corruption());
        assert!(error.to_string().contains("let this user read and write"), "{error}");
    }
    assert_eq!(verify(storage.storage()).unwrap().0, records(3));
}

/// TableRow 3: without a folder there is no journal to verify.
#[test]
fn row_3_no_folder_to_verify() {
    let parent = tempdir().unwrap();
    let error = verify(Box::new(Folder::new(parent.path().join("no")))).unwrap_err();
    assert!(error.to_string().contains("check the path"), "{error}");
    assert!(!parent.path().join("no").exists());
}

/// TableRow 4: verified records are replayed, and each opening begins a segment of its own. One
/// without records is made anew, since the next has its name; so is one that was prepared (row 21).
#[test]
fn row_4_whole() {
    on_both!(|place| {
        write(place, COUNT);
        for epoch in 2..5 {
            let (writer, kept, report) =
                open(place.storage(), &options(Durability::Synced)).unwrap();
            assert_eq!((kept, report.torn_tail), (records(COUNT), None));
            assert_eq!(report.epoch, epoch - 1);
            drop(writer);
            assert_eq!(place.segments().last(), Some(&file_name(COUNT + 1)));
            let header = &place.content(&file_name(COUNT + 1))[40..48];
            assert_eq!(header, u64::to_le_bytes(epoch));
        }
        place.set_bytes("prepared", Some(vec![1; 100]));
        write(place, COUNT + 5);
        assert_eq!(verify(place.storage()).unwrap().0, records(COUNT + 5));
        assert!(
            !place.names().contains(&"prepared".to_owned()) || place.content("prepared")[0] == 0
        );
    });
}

/// TableRow 5: a last batch that is not whole is cut, whatever part of it exists.
#[test]
fn row_5_torn_tail() {
    on_both!(|place| {
        write_and_die(place, COUNT);
        let last = spots(place).pop().unwrap();
        place.change(&last.name, |bytes| bytes.truncate(last.end as usize - 1));
        let torn = last.end - last.start - 1;
        assert_cut(place, (last.name, last.start, torn), COUNT - 1);
    });
    on_both!(|place| {
        write_and_die(place, COUNT);
        let last = spots(place).pop().unwrap();
        let file_len = place.content(&last.name).len() as u64;
        place.change(&last.name, |bytes| bytes[last.end as usize - 20] ^= 1);
        let cut = (last.name, last.start, file_len - last.start);
        assert_cut(place, cut, COUNT - 1);
    });
    for tail in [vec![1; 1], vec![9; 5_000], vec![0xff; 24], (1..200).collect()] {
        on_both!(|place| {
            write_and_die(place, COUNT);
            let last = spots(place).pop().unwrap();
            place.change(&last.name, |bytes| {
                bytes.truncate(last.end as usize);
                bytes.extend_from_slice(&tail);
            });
            assert_cut(place, (last.name, last.end, tail.len() as u64), COUNT);
        });
    }
}

/// TableRow 5: batches of another journal behind the tail are not batches, so they are cut.
#[test]
fn row_5_foreign_records_behind_the_tail() {
    on_both!(|place| {
        let other = CrashStorage::new();
        let foreign = WriterOptions { journal_id_if_new: 2, ..options(Durability::Synced) };
        let (mut writer, _, _) = open(other.storage(), &foreign).unwrap();
        for sequence in 1..=5 {
            append(&mut writer, sequence).unwrap();
        }
        writer.commit().unwrap();
        let tail = other.bytes(&file_name(1)).unwrap()[SEGMENT_HEADER_LEN as usize..].to_vec();

        write_and_die(place, 3);
        let last = spots(place).pop().unwrap();
        place.change(&last.name, |bytes| {
            bytes.truncate(last.end as usize);
            bytes.extend_from_slice(&tail);
        });
        assert_cut(place, (last.name, last.end, tail.len() as u64), 3);
    });
}

/// TableRow 6: a last segment whose making was interrupted is removed, and made again when needed.
#[test]
fn row_6_half_made_segment() {
    for count in [0, COUNT] {
        let whole = CrashStorage::new();
        write(&whole, count);
        drop(open(whole.storage(), &options(Durability::Written)).unwrap());
        let name = file_name(count + 1);
        let header = whole.bytes(&name).unwrap()[..2 * BLOCK_LEN].to_vec();
        let mut other_copy_only = header.clone();
        other_copy_only[..BLOCK_LEN].fill(0);
        let mut with_zeros = header[..BLOCK_LEN].to_vec();
        with_zeros.resize(50_000, 0);
        let leftovers = [
            vec![],
            vec![0; 1],
            vec![0; BLOCK_LEN],
            vec![0; 50_000],
            header[..3].to_vec(),
            header[..50].to_vec(),
            header[..BLOCK_LEN].to_vec(),
            header[..BLOCK_LEN + 50].to_vec(),
            header[..2 * BLOCK_LEN - 1].to_vec(),
            other_copy_only,
            with_zeros,
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
    }
}

/// TableRow 6, its limit: bytes that no crash leaves there are not taken for a half-made segment.
#[test]
fn row_6_something_else_under_the_name_of_a_segment() {
    on_both!(|place| {
        write(place, COUNT);
        place.set_bytes(&file_name(COUNT + 1), Some(b"dear".to_vec()));
        let damage = damage_of(place);
        assert!(matches!(damage.kind, DamageKind::HeaderDamaged { .. }), "{damage}");
    });
}

/// TableRow 7: a bad batch with a good one behind it is refused with its place.
#[test]
fn row_7_bad_record_before_a_good_one() {
    on_both!(|place| {
        write_and_die(place, COUNT - 1);
        let spots = spots(place);
        let [.., bad, last] = &spots[..] else { panic!("two batches") };
        assert_eq!(bad.name, last.name);
        place.change(&bad.name, |bytes| bytes[bad.start as usize + 16] ^= 0x40);
        let damage = damage_of(place);
        assert!(damage.is_corruption());
        assert_eq!(name_of(&damage), bad.name);
        assert_eq!((damage.offset, damage.sequence), (bad.start, bad.sequence));
        let DamageKind::BadBatch { fault, later_sequence, later_offset } = damage.kind else {
            panic!("{damage}");
        };
        assert!(matches!(fault, BadBatch::Checksum { .. }), "{fault}");
        assert_eq!((later_sequence, later_offset), (last.sequence, Some(last.start)));
    });
}

/// TableRow 7: the good one is found wherever it is, even beyond some mebibytes of garbage.
#[test]
fn row_7_a_good_record_far_behind_the_bad_one() {
    on_both!(|place| {
        write_and_die(place, 3);
        let spots = spots(place);
        let [.., bad, last] = &spots[..] else { panic!("two batches") };
        place.change(&last.name, |bytes| {
            let record = bytes.split_off(last.start as usize);
            bytes.truncate(bad.start as usize);
            bytes.extend((0..9_000_000_u32).map(|at| (at * 7 / 3) as u8));
            bytes.extend_from_slice(&record);
        });
        let damage = damage_of(place);
        assert_eq!(damage.offset, bad.start);
        let DamageKind::BadBatch { later_offset, .. } = damage.kind else { panic!("{damage}") };
        assert_eq!(later_offset, Some(bad.start + 9_000_000));
    });
}

/// TableRow 8: a bad end in a segment that another one follows is damage: it was whole when that began.
#[test]
fn row_8_bad_end_before_another_segment() {
    for extra in [false, true] {
        on_both!(|place| {
            write_and_die(place, COUNT);
            let spots = spots(place);
            let first = &spots[0].name;
            let last = spots.iter().rfind(|spot| spot.name == *first).unwrap();
            place.change(first, |bytes| {
                bytes.truncate(last.end as usize - usize::from(!extra));
                if extra {
                    bytes.push(1);
                }
            });
            let damage = damage_of(place);
            assert_eq!(name_of(&damage), *first);
            assert_eq!(damage.offset, if extra { last.end } else { last.start });
            let DamageKind::BadBatch { later_sequence, later_offset: None, .. } = damage.kind
            else {
                panic!("{damage}");
            };
            assert_eq!(later_sequence, last.sequence + 1);
        });
    }
}

/// TableRow 8: where another segment follows, one that ends within its header is not half made.
#[test]
fn row_8_end_within_the_header_before_another_segment() {
    for len in [0, 3_000, BLOCK_LEN, 5_000, 2 * BLOCK_LEN - 1] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.segments()[1];
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

/// TableRow 9: a segment that is missing, at the beginning or between others, is named.
#[test]
fn row_9_missing_segment() {
    for missing in [0, 1] {
        on_both!(|place| {
            write(place, COUNT);
            let names = place.segments();
            assert!(names.len() > 2);
            place.set_bytes(&names[missing], None);
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (names[missing + 1].clone(), 0));
            assert!(matches!(damage.kind, DamageKind::MissingSegment { .. }), "{damage}");
            assert_eq!(file_name(damage.sequence), names[missing]);
        });
    }
}

/// TableRow 9: a segment that ends early, between two batches, leaves the same hole.
#[test]
fn row_9_segment_cut_between_batches() {
    on_both!(|place| {
        write(place, COUNT);
        let spots = spots(place);
        place.change(&spots[0].name, |bytes| bytes.truncate(spots[2].start as usize));
        let damage = damage_of(place);
        let DamageKind::MissingSegment { expected: 3, found } = damage.kind else {
            panic!("{damage}");
        };
        assert_eq!(name_of(&damage), file_name(found));
    });
}

/// TableRow 10: one good copy of a header is enough, and the other one is reported.
#[test]
fn row_10_one_copy_of_the_header_damaged() {
    for copy in [0, BLOCK_LEN] {
        on_both!(|place| {
            write(place, COUNT);
            for name in place.segments() {
                place.change(&name, |bytes| bytes[copy + 30] ^= 4);
            }
            let (kept, report) = verify(place.storage()).unwrap();
            assert_eq!(kept, records(COUNT));
            let offsets: Vec<_> = report.damaged_copies.iter().map(|copy| copy.offset).collect();
            assert_eq!(offsets, vec![copy as u64; place.segments().len()]);
            let (_, kept, opened) = open(place.storage(), &options(Durability::Synced)).unwrap();
            assert_eq!((kept, opened), (records(COUNT), report));
        });
    }
}

/// TableRow 11: without a good copy of its header, a segment is refused.
#[test]
fn row_11_both_copies_of_the_header_damaged() {
    for nth in [0, 1] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.segments()[nth];
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

/// TableRow 12: copies that verify and differ are refused: neither can be believed.
#[test]
fn row_12_copies_of_the_header_contradict() {
    let headers = [header_copies(2, 1, 2), header_copies(JOURNAL_ID, 1, 3)];
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

/// TableRow 13: a version that is not known is not touched, and is not called corrupt.
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

/// TableRow 14: a segment of another journal is refused, however well it fits.
#[test]
fn row_14_foreign_segment() {
    let other = CrashStorage::new();
    let foreign = WriterOptions { journal_id_if_new: 2, ..options(Durability::Written) };
    let (mut writer, _, _) = open(other.storage(), &foreign).unwrap();
    for sequence in 1..=COUNT {
        append(&mut writer, sequence).unwrap();
        writer.commit().unwrap();
    }
    for nth in [1, 2] {
        on_both!(|place| {
            write(place, COUNT);
            let name = &place.segments()[nth];
            let bytes = other.bytes(name).expect("the same inputs end segments alike");
            place.set_bytes(name, Some(bytes));
            let damage = damage_of(place);
            assert_eq!((name_of(&damage), damage.offset), (name.clone(), 0));
            let kind = DamageKind::ForeignSegment { expected: JOURNAL_ID, found: 2 };
            assert_eq!(damage.kind, kind);
        });
    }
}

/// TableRow 15: a segment under the name of another one is refused with the reason.
#[test]
fn row_15_duplicate_reordered_misdirected() {
    on_both!(|place| {
        write(place, COUNT);
        let names = place.segments();
        let [first, second] = [place.content(&names[0]), place.content(&names[1])];
        let found: u64 = names[1][..20].parse().unwrap();
        place.set_bytes(&names[1], Some(first.clone()));
        let damage = damage_of(place);
        assert_eq!(name_of(&damage), names[1]);
        assert_eq!(damage.kind, DamageKind::DuplicateSegment { of: 1 });

        place.set_bytes(&names[0], Some(second.clone()));
        let damage = damage_of(place);
        assert_eq!(name_of(&damage), names[0]);
        assert_eq!(damage.kind, DamageKind::ReorderedSegment { with: found });

        place.set_bytes(&names[0], Some(second));
        place.set_bytes(&names[1], None);
        let damage = damage_of(place);
        assert_eq!(damage.kind, DamageKind::MisdirectedSegment { found });
    });
}

/// TableRow 15: a file with the extension of a segment, but not the name of one, is refused.
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

/// TableRow 16: good batches with a hole between them, or one of them twice, are refused.
#[test]
fn row_16_sequence_gap() {
    on_both!(|place| {
        write(place, 3);
        let spots = spots(place);
        let bytes = place.content(&spots[0].name);
        let of = |nth: usize| bytes[spots[nth].start as usize..spots[nth].end as usize].to_vec();
        let header = &bytes[..SEGMENT_HEADER_LEN as usize];
        for (order, at, found) in [(&[0, 2][..], 1, 3), (&[0, 1, 1, 2], 2, 2), (&[1], 0, 2)] {
            let batches: Vec<_> = order.iter().map(|nth| of(*nth)).collect();
            let offset: usize = batches[..at].iter().map(Vec::len).sum();
            place.set_bytes(&spots[0].name, Some([header, &batches.concat()].concat()));
            let damage = damage_of(place);
            assert_eq!(damage.offset, SEGMENT_HEADER_LEN + offset as u64);
            let expected = at as u64 + 1;
            assert_eq!(damage.kind, DamageKind::SequenceGap { expected, found });
        }
    });
}

/// Rows 17, 20 and 27: good batches whose time goes back, whose bytes are not the number of records
/// in their header, or that a later build wrote.
#[test]
fn rows_17_20_27_good_batches_that_do_not_belong() {
    let early = Batch { first_sequence: 2, timestamp: 1_999, ..Batch::of(b"\0\x05early", 1) };
    let next = |records, count| Batch { first_sequence: 2, ..Batch::of(records, count) };
    let back = DamageKind::TimeWentBack { previous: 2_000, found: 1_999 };
    let malformed = |at| DamageKind::RecordMalformed { at };
    let cases = [
        (early, back, true),
        (next(b"\0\x05early", 2), malformed(55), true),
        (next(b"\0\x05early\0\x05later\0\x01x", 1), malformed(55), true),
        (next(b"\0\x09early", 1), malformed(48), true),
        (next(b"\x80\x80", 1), malformed(48), true),
        (next(b"\0\xfd", 1), DamageKind::UnknownRecord { kind: 253 }, false),
        (
            Batch { version: 9, ..next(b"\0\x05early", 1) },
            DamageKind::UnknownBatch { version: 9 },
            false,
        ),
    ];
    for (batch, kind, is_corruption) in cases {
        on_both!(|place| {
            let (mut writer, _, _) = open(place.storage(), &options(Durability::Written)).unwrap();
            writer.sync().unwrap();
            drop(writer);
            let first = Batch::of(b"\0\x04late", 1);
            let (first, chain) = first.encode(&place.content(&file_name(1))[48..64]);
            place.change(&file_name(1), |bytes| {
                bytes.truncate(SEGMENT_HEADER_LEN as usize);
                bytes.extend_from_slice(&first);
                bytes.extend_from_slice(&batch.encode(&chain).0);
            });
            let damage = damage_of(place);
            assert_eq!((damage.offset, damage.sequence), (SEGMENT_HEADER_LEN + 56, 2));
            assert_eq!(damage.kind, kind);
            assert_eq!(damage.is_corruption(), is_corruption);
        });
    }
}

/// Row 5: a part in the middle of an unmarked last batch is missing, as a power cut leaves it. Row
/// 7: the same for the batch before it.
#[test]
fn rows_5_7_a_hole_in_a_batch() {
    for durability in [Durability::Synced, Durability::Written] {
        for sequence in [3, 6] {
            on_both!(|place| {
                write_as(place, durability, 6, 3, End::Kill);
                let hole = spots(place).into_iter().find(|spot| spot.sequence == sequence).unwrap();
                place.change(&hole.name, |bytes| {
                    bytes[hole.start as usize + 50..hole.end as usize - 9].fill(0);
                });
                if sequence == 6 {
                    let byte_count = place.content(&hole.name).len() as u64 - hole.start;
                    assert_cut(place, (hole.name, hole.start, byte_count), 3);
                } else {
                    let damage = damage_of(place);
                    assert_eq!((damage.offset, damage.sequence), (hole.start, 1));
                }
            });
        }
    }
}

/// TableRow 22: records that the watermark requires are never cut.
#[test]
fn row_22_a_bad_end_that_is_marked() {
    on_both!(|place| {
        write(place, COUNT);
        let last = spots(place).pop().unwrap();
        place.change(&last.name, |bytes| bytes[last.start as usize + 20] ^= 1);
        let damage = damage_of(place);
        assert_eq!((damage.offset, damage.sequence), (last.start, COUNT));
        assert!(matches!(damage.kind, DamageKind::BadEnd { marked: COUNT, .. }), "{damage}");
        assert!(damage.is_corruption());
    });
}

/// TableRow 23: a last segment that is missing, or was cut between two batches, is noticed.
#[test]
fn row_23_the_end_is_missing() {
    on_both!(|place| {
        write(place, COUNT);
        let last = spots(place).pop().unwrap();
        let whole = place.content(&last.name);
        place.change(&last.name, |bytes| bytes.truncate(last.start as usize));
        let damage = damage_of(place);
        assert_eq!((damage.offset, damage.sequence), (last.start, COUNT));
        assert_eq!(damage.kind, DamageKind::EndMissing { marked: COUNT });
        place.set_bytes(&last.name, Some(vec![]));
        assert_eq!(damage_of(place).kind, DamageKind::EndMissing { marked: COUNT });
        place.set_bytes(&last.name, None);
        let damage = damage_of(place);
        assert_eq!(file_name(damage.sequence), last.name);
        assert_eq!(damage.kind, DamageKind::EndMissing { marked: COUNT });
        place.set_bytes(&last.name, Some(whole));
        assert_eq!(verify(place.storage()).unwrap().0, records(COUNT));
        for name in place.segments() {
            place.set_bytes(&name, None);
        }
        assert_eq!(damage_of(place).kind, DamageKind::EndMissing { marked: COUNT });
    });
}

/// TableRow 24: a batch that was replaced by one with the right checksum breaks the chain: its own, or if
/// that was forged as well, that of the batch after it.
#[test]
fn row_24_the_chain_is_broken() {
    for is_chain_forged in [false, true] {
        on_both!(|place| {
            write(place, 3);
            let spots = spots(place);
            let record = record(1);
            let mut payload = record.payload.clone();
            payload[0] ^= 1;
            let records = [&[0, payload.len() as u8], &payload[..]].concat();
            let forged = Batch { timestamp: record.timestamp, ..Batch::of(&records, 1) };
            let content = place.content(&spots[0].name);
            let start = spots[0].start as usize;
            let (mut bytes, _) = forged.encode(&content[48..64]);
            if !is_chain_forged {
                bytes[32..48].copy_from_slice(&content[start + 32..start + 48]);
                set_checksum(&mut bytes);
            }
            place.change(&spots[0].name, |content| {
                content[start..start + bytes.len()].copy_from_slice(&bytes);
            });
            let damage = damage_of(place);
            let broken = usize::from(is_chain_forged);
            assert_eq!((damage.offset, damage.sequence), (spots[broken].start, broken as u64 + 1));
            assert_eq!(damage.kind, DamageKind::ChainBroken);
        });
    }
}

/// TableRow 25: a segment of an earlier life of the journal does not follow the current records.
#[test]
fn row_25_stale_segment() {
    on_both!(|place| {
        let before = CrashStorage::new();
        // Both lives were opened again after four records, so both have a segment that begins with 5.
        for sequences in [1..=4, 5..=COUNT] {
            let (mut writer, _, _) = open(before.storage(), &options(Durability::Written)).unwrap();
            for sequence in sequences {
                writer.append(sequence, 1_000 + sequence, b"an earlier life").unwrap();
                writer.commit().unwrap();
            }
        }
        write_as(place, Durability::Written, 4, 1, End::Kill);
        write(place, COUNT);
        let name = file_name(5);
        place.set_bytes(&name, before.bytes(&name));
        let damage = damage_of(place);
        assert_eq!((name_of(&damage), damage.offset), (name, 0));
        assert!(matches!(damage.kind, DamageKind::StaleSegment { .. }), "{damage}");
    });
}

/// TableRow 26: a segment that begins within the one before it.
#[test]
fn row_26_overlapping_segment() {
    on_both!(|place| {
        write(place, COUNT);
        place.set_bytes(&file_name(2), Some(place.content(&file_name(1))));
        let damage = damage_of(place);
        assert_eq!(name_of(&damage), file_name(2));
        assert_eq!(damage.kind, DamageKind::OverlappingSegment { found: 2 });
    });
}

/// TableRow 28: one good copy of the watermark is enough, and the other one is reported.
#[test]
fn row_28_one_copy_of_the_mark_damaged() {
    for copy in [0, BLOCK_LEN] {
        on_both!(|place| {
            write(place, COUNT);
            place.change("watermark", |bytes| bytes[copy + 100] ^= 1);
            let (kept, report) = verify(place.storage()).unwrap();
            assert_eq!((kept, report.watermark), (records(COUNT), COUNT));
            let [damaged] = &report.damaged_copies[..] else { panic!("{report:?}") };
            assert!(damaged.path.ends_with("watermark") && damaged.offset == copy as u64);
            write(place, COUNT + 1);
            assert_eq!(verify(place.storage()).unwrap().1.damaged_copies, []);
        });
    }
}

/// TableRow 29: without its watermark a journal is refused, and so it is with that of another one.
#[test]
fn row_29_no_mark() {
    on_both!(|place| {
        write(place, COUNT);
        let watermark = place.content("watermark");
        place.set_bytes("watermark", None);
        assert_eq!(damage_of(place).kind, DamageKind::WatermarkMissing);
        place.set_bytes("watermark", Some(vec![7; 8_192]));
        assert_eq!(damage_of(place).kind, DamageKind::WatermarkDamaged);
        let other = CrashStorage::new();
        let options = WriterOptions { journal_id_if_new: 9, ..options(Durability::Written) };
        drop(open(other.storage(), &options).unwrap());
        place.set_bytes("watermark", other.bytes("watermark"));
        let kind = DamageKind::WatermarkForeign { expected: JOURNAL_ID, found: 9 };
        assert_eq!(damage_of(place).kind, kind);
        place.set_bytes("watermark", Some(watermark));
        assert_eq!(verify(place.storage()).unwrap().0, records(COUNT));
    });
}

/// TableRow 13 for the watermark: a version that is not known is not called corrupt.
#[test]
fn row_13_unknown_version_of_the_mark() {
    on_both!(|place| {
        write(place, 3);
        place.change("watermark", |bytes| {
            for copy in bytes.chunks_mut(BLOCK_LEN) {
                copy[8] = 2;
                let checksum = crc32c::crc32c(&[&copy[..12], &copy[16..]].concat());
                copy[12..16].copy_from_slice(&checksum.to_le_bytes());
            }
        });
        let damage = damage_of(place);
        assert_eq!(
            (name_of(&damage), damage.kind.clone()),
            ("watermark".into(), DamageKind::UnknownVersion(2))
        );
        assert!(!damage.is_corruption());
    });
}

/// TableRow 18: a record that the replay function rejects is reported with its place.
#[test]
fn row_18_replay_refuses() {
    on_both!(|place| {
        write(place, COUNT);
        let spot = &spots(place)[19];
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
        assert_eq!(offset, spot.start + 48);
        assert!(error.is_corruption() && error.to_string().contains(&spot.name), "{error}");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such command");
        assert_eq!(seen, records(19));
        let visited = journal::verify(&mut *place.storage(), &mut |_| Err("no such command"));
        assert!(matches!(visited, Err(VerifyError::Refused { sequence: 1, .. })));
    });
}

/// Replayed records are on the medium: a power cut right after opening loses none of them.
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

/// A cut is on the medium before any record is appended, or the tail could come back behind it.
#[test]
fn a_cut_is_synced() {
    let storage = CrashStorage::new();
    write(&storage, 3);
    let last = spots(&storage).pop().unwrap();
    storage.change(&last.name, |bytes| {
        bytes.truncate(last.end as usize);
        bytes.extend_from_slice(&[1; 77]);
    });
    drop(open(storage.storage(), &options(Durability::Synced)).unwrap());
    storage.crash(journal::Crash::Power { unsynced_bytes: 0, unsynced_names: false });
    let (kept, report) = verify(storage.storage()).unwrap();
    assert_eq!((kept, report.torn_tail), (records(3), None));
}

/// So is the removal of a half made segment, or it could come back where no segment belongs.
#[test]
fn a_removal_is_synced() {
    let storage = CrashStorage::new();
    write(&storage, 3);
    storage.set_bytes(&file_name(4), Some(vec![]));
    write(&storage, 4);
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
        place.set_bytes(&file_name(1), Some(header_copies(7, 1, FORMAT_VERSION)[..5_000].to_vec()));
        assert_eq!(identity(), None, "half made: opening makes it anew");
        write(place, 1);
        assert_eq!(identity(), Some(JOURNAL_ID));
    });
}

/// Every damage names its place and the remedy, in one line.
#[test]
fn messages_name_place_and_remedy() {
    let storage = CrashStorage::new();
    write(&storage, COUNT);
    let spots = spots(&storage);
    storage.change(&spots[0].name, |bytes| bytes[spots[1].start as usize + 24] ^= 1);
    let message = damage_of(&storage).to_string();
    let file = format!("memory/{}, byte {}: ", spots[0].name, spots[1].start);
    assert!(message.starts_with(&file), "{message}");
    assert!(message.contains("nothing was changed; restore the folder from a copy"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

/// Both copies of the header of a first segment, written from the map in docs/journal.md.
fn header_copies(journal_id: u64, first_sequence: u64, version: u32) -> Vec<u8> {
    let mut block = vec![0; BLOCK_LEN];
    block[..8].copy_from_slice(b"DamrakJ\n");
    block[8..12].copy_from_slice(&version.to_le_bytes());
    block[16..24].copy_from_slice(&journal_id.to_le_bytes());
    block[24..32].copy_from_slice(&first_sequence.to_le_bytes());
    block[40..48].copy_from_slice(&1_u64.to_le_bytes());
    let chain = xxhash_rust::xxh3::xxh3_128(&journal_id.to_le_bytes());
    block[48..64].copy_from_slice(&chain.to_le_bytes());
    block[64..68].copy_from_slice(&8_u32.to_le_bytes());
    let checksum = crc32c::crc32c(&[&block[..12], &block[16..]].concat());
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    block.repeat(2)
}

/// A batch of the first segment and the first epoch, written from the map in docs/journal.md.
struct Batch<'a> {
    version: u16,
    record_count: u32,
    first_sequence: u64,
    timestamp: u64,
    records: &'a [u8],
}

impl<'a> Batch<'a> {
    fn of(records: &'a [u8], record_count: u32) -> Self {
        Self { version: 2, record_count, first_sequence: 1, timestamp: 2_000, records }
    }

    /// Its bytes, and the chain after it.
    fn encode(&self, chain: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut records = self.records.to_vec();
        records.resize(records.len().next_multiple_of(8), 0);
        let len = (48 + records.len()) as u32;
        let mut head = len.to_le_bytes().to_vec();
        head.extend_from_slice(&u32::from(self.version).to_le_bytes());
        head.extend_from_slice(&self.record_count.to_le_bytes());
        head.extend_from_slice(&self.first_sequence.to_le_bytes());
        head.extend_from_slice(&self.timestamp.to_le_bytes());
        let chain = xxhash_rust::xxh3::xxh3_128(&[chain, &head, &records].concat());
        let chain = chain.to_le_bytes().to_vec();
        let mut bytes = [&[0; 4], &head[..], &chain, &records].concat();
        set_checksum(&mut bytes);
        (bytes, chain)
    }
}

/// Gives a batch the checksum of its bytes.
fn set_checksum(batch: &mut [u8]) {
    let seed = [JOURNAL_ID.to_le_bytes(), 1_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat();
    let checksum = crc32c::crc32c(&[&seed, &batch[4..]].concat());
    batch[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The map in this file matches the bytes written.
#[test]
fn the_tests_know_the_map() {
    let storage = CrashStorage::new();
    let options = WriterOptions { created: 0, ..options(Durability::Written) };
    let replay = &mut |_: journal::Record<'_>| Ok::<_, Infallible>(());
    let (mut writer, _) = journal::open(storage.storage(), &options, replay).unwrap();
    writer.append(1, 1_000, b"first").unwrap();
    writer.checkpoint(b"a note").unwrap();
    writer.append(2, 1_300, &[7; 251]).unwrap();
    writer.commit().unwrap();
    let header = header_copies(JOURNAL_ID, 1, FORMAT_VERSION);
    let second = [&b"\xac\x02\xfb\xfb\0\0\0"[..], &[7; 251]].concat();
    let records = [&b"\0\x05first\0\xfc\x06\0\0\0a note"[..], &second].concat();
    let batch = Batch { timestamp: 1_000, ..Batch::of(&records, 3) };
    let mut expected = [&header[..], &batch.encode(&header[48..64]).0].concat();
    expected.resize(SEGMENT_HEADER_LEN as usize + 400, 0);
    assert_eq!(storage.bytes(&file_name(1)).unwrap(), expected);
    let [spot] = &spots(&storage)[..] else { panic!("one batch") };
    assert_eq!((spot.sequence, spot.checkpoint_count), (2, 1));
}
