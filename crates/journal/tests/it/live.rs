//! A journal and its threads: reading while the venue writes, and the segment preparer.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use journal::{Durability, SEGMENT_HEADER_LEN};
use tempfile::tempdir;

use crate::support::{Place, append, on_both, open, options, record, records, verify, write};

/// A torn tail is reported with its place and stays as it is.
#[test]
fn verify_changes_nothing() {
    on_both!(|place| {
        write(place, 3);
        let name = journal::file_name(1);
        let end = crate::support::spots(place).pop().unwrap().end as usize;
        place.change(&name, |bytes| {
            bytes.truncate(end);
            bytes.extend_from_slice(&[1; 13]);
        });
        let before = place.everything();
        let (kept, report) = verify(place.storage()).unwrap();
        assert_eq!((kept, report.torn_tail.unwrap().byte_count), (records(3), 13));
        assert_eq!(place.everything(), before);
    });
}

/// While records are written and segments begin, each reading sees a prefix, longer and longer,
/// and never damage.
#[test]
fn a_reader_beside_the_writer_sees_a_prefix() {
    const COUNT: u64 = 30_000;
    let folder = tempdir().unwrap();
    let mut options = options(Durability::Written);
    options.segment_bytes = SEGMENT_HEADER_LEN + 100_000;
    let background = Box::new(journal::Folder::new(folder.path()));
    let (mut writer, _, _) = open(background, &options).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 1..=COUNT {
                append(&mut writer, sequence).unwrap();
                if sequence % 3 == 0 {
                    writer.commit().unwrap();
                }
            }
            writer.commit().unwrap();
            done.store(true, Ordering::Release); // pairs with the Acquire below
        });
        let mut last_sequence = 0;
        while last_sequence < COUNT {
            let all_is_written = done.load(Ordering::Acquire);
            let (kept, report) = verify(folder.storage()).unwrap();
            assert!(kept.iter().all(|kept| *kept == record(kept.sequence)));
            assert!(report.last_sequence >= last_sequence, "{report:?}");
            last_sequence = report.last_sequence;
            assert!(!all_is_written || last_sequence == COUNT, "{report:?}");
        }
    });
}

/// A commit that comes long after its segment began (a slow disk) finds the segment preparer alive:
/// the watermark, moved when the segment ended, is ahead of the last commit meanwhile.
#[test]
fn a_late_commit_after_a_segment_has_ended() {
    let folder = tempdir().unwrap();
    let mut options = options(Durability::Written);
    options.segment_bytes = SEGMENT_HEADER_LEN + 100_000;
    let background = Box::new(journal::Folder::new(folder.path()));
    let (mut writer, _, _) = open(background, &options).unwrap();
    let mut sequence = 0;
    while folder.segments().len() < 3 {
        sequence += 1;
        append(&mut writer, sequence).unwrap();
        if folder.segments().len() < 2 {
            writer.commit().unwrap();
            thread::sleep(Duration::from_micros(100)); // the next segment is prepared meanwhile
        } else if sequence % 3_000 == 0 {
            writer.commit().unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    }
    // Longer than the preparer waits between two checks of the commits.
    thread::sleep(Duration::from_millis(1_200));
    writer.commit().unwrap();
    writer.sync().unwrap();
    drop(writer);
    let (kept, report) = verify(folder.storage()).unwrap();
    assert_eq!((kept.len() as u64, report.watermark), (sequence, sequence));
}
