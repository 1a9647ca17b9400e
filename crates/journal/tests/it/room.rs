//! Allocated room that was never written need not be read to find it empty.

use std::io::Write;

use journal::{FileAccess, Folder, Storage};
use tempfile::tempdir;

/// All bytes skipped are zeros, and no written byte is skipped.
#[test]
fn only_zeros_are_passed_over() {
    const LEN: usize = 4 << 20;
    let folder = tempdir().unwrap();
    let mut file = Folder::new(folder.path()).create("room").unwrap();
    if !file.allocate(LEN as u64).unwrap() {
        file.write_at(0, &vec![0; LEN]).unwrap();
    }
    let written = [70_000_usize, 70_001, 1_500_000, LEN - 1];
    for place in written {
        file.write_at(place as u64, &[7]).unwrap();
    }
    for synced in [false, true] {
        if synced {
            file.sync().unwrap();
        }
        for offset in (0..LEN).step_by(4096).chain(written) {
            let found =
                file.next_written(offset as u64).unwrap().expect("the last byte is no zero");
            assert!(found >= offset as u64, "{found} from {offset}");
            let next = *written.iter().find(|place| **place >= offset).expect("the last byte");
            assert!(found <= next as u64, "{found} from {offset} passes over {next}");
        }
    }
    file.write_at(LEN as u64 - 1, &[0]).unwrap();
    file.truncate(LEN as u64 / 2).unwrap();
    let end = file.next_written(LEN as u64 / 2).unwrap();
    assert!(end.is_none_or(|place| place == LEN as u64 / 2), "{end:?} beyond the end");
}

/// A search that reads the possibly written bytes step by step does not make the system read ahead
/// the room behind them, which would then count as written.
#[test]
fn a_search_does_not_read_all_the_room() {
    const STEP: usize = 64 << 10;
    const READ: usize = 16 * STEP;
    let folder = tempdir().unwrap();
    let mut storage = Folder::new(folder.path());
    let mut file = storage.create("room").unwrap();
    if !file.allocate(64 << 20).unwrap() {
        return skipped("the file system allocates no room");
    }
    file.write_at(0, &[7]).unwrap();
    file.sync().unwrap();
    let mut file = storage.open("room", FileAccess::Read).unwrap();
    if file.next_written(READ as u64).unwrap().is_some() {
        return skipped("the file system does not tell what was written");
    }
    let mut bytes = vec![0; STEP];
    for offset in (0..READ).step_by(STEP) {
        file.read_at(offset as u64, &mut bytes).unwrap();
    }
    assert_eq!(file.next_written(READ as u64).unwrap(), None);
}

fn skipped(why: &str) {
    let text = format!("skipped: a_search_does_not_read_all_the_room: {why}\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}
