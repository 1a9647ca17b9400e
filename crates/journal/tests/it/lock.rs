//! One writer per journal.

use std::fs;

use journal::{Durability, OpenError};
use tempfile::tempdir;

use crate::support::{Place, append, on_both, open, options, records, verify, write};

/// The second writer learns which process holds the journal and where, changes no file, and may
/// have it once the first is gone. Reading needs no lock.
#[test]
fn a_journal_has_one_writer() {
    on_both!(|place| {
        write(place, 5);
        let (mut writer, _, _) = open(place.storage(), &options(Durability::Synced)).unwrap();
        append(&mut writer, 6).unwrap();
        writer.commit().unwrap();
        let before = place.everything();

        let Err(error) = open(place.storage(), &options(Durability::Synced)) else {
            panic!("two writers");
        };
        assert!(matches!(error, OpenError::Locked { .. }), "{error}");
        assert!(!error.is_corruption());
        assert_eq!(place.everything(), before);
        assert_eq!(verify(place.storage()).unwrap().0, records(6));

        drop(writer);
        let (_, kept, _) = open(place.storage(), &options(Durability::Synced)).unwrap();
        assert_eq!(kept, records(6));
    });
}

/// The message names the process and the folder.
#[test]
fn the_holder_is_named() {
    let folder = tempdir().unwrap();
    let (_writer, _, _) = open(folder.storage(), &options(Durability::Synced)).unwrap();
    let Err(error) = open(folder.storage(), &options(Durability::Synced)) else {
        panic!("two writers");
    };
    let message = error.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains(folder.path().to_str().unwrap()), "{message}");
}

/// A lock file of an ended process holds no writer up, even where it is the only file.
#[test]
fn a_lock_file_left_behind_is_no_lock() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("lock"), "process 4294967295\n").unwrap();
    write(&folder, 3);
    assert_eq!(verify(folder.storage()).unwrap().0, records(3));
}
