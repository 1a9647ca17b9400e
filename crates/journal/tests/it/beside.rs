//! Long journals are read on a thread of their own. What is taken up, and what is told of what is
//! wrong, is the same as of short ones.

use std::{fmt, path::Path};

use journal::{CrashStorage, Durability, Kind, OpenError, Options, Record, VerifyError};

use crate::support::{Kept, Place, append, inputs, open, options, records, verify};

/// Enough for a thread, in segments of which none is all of them.
const COUNT: u64 = 40_000;

fn long() -> CrashStorage {
    let storage = CrashStorage::new();
    let options = Options { segment_bytes: 300_000, ..options(Durability::Written) };
    let (mut writer, _, _) = open(storage.storage(), &options).unwrap();
    for sequence in 1..=COUNT {
        append(&mut writer, sequence).unwrap();
        if sequence.is_multiple_of(50) {
            writer.commit().unwrap();
        }
    }
    writer.sync().unwrap();
    storage
}

/// Who does not take up a record.
#[derive(Debug)]
struct Refusal;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not this one")
    }
}

impl std::error::Error for Refusal {}

/// All records, in their order; and after them the journal goes on.
#[test]
fn long_journals_are_taken_up_whole() {
    let storage = long();
    assert!(storage.segments().len() > 3, "{:?}", storage.segments());
    let (kept, report) = verify(storage.storage()).unwrap();
    assert!(kept == records(COUNT), "{} records", kept.len());
    assert_eq!((report.last_sequence, report.record_count), (COUNT, COUNT));
    let (mut writer, kept, _) = open(storage.storage(), &options(Durability::Written)).unwrap();
    assert!(kept == records(COUNT), "{} records", kept.len());
    append(&mut writer, COUNT + 1).unwrap();
    writer.commit().unwrap();
}

/// Damage is told where it is, after all that comes before its batch was taken up and nothing else.
#[test]
fn what_comes_before_damage_is_taken_up() {
    let whole = long();
    let spots = inputs(&whole);
    for at in [1, 1_023, 1_024, 20_000, COUNT - 1] {
        let storage = whole.duplicate(true);
        let spot = &spots[at as usize];
        storage.change(&spot.name, |bytes| bytes[spot.start as usize + 16] ^= 1);
        let mut kept = Vec::new();
        let mut visit = |record: Record<'_>| {
            kept.push(Kept::of(record));
            Ok::<_, Refusal>(())
        };
        let error = journal::verify(&mut *storage.storage(), &mut visit).unwrap_err();
        let VerifyError::Damaged(damage) = error else { panic!("{error:?}") };
        assert_eq!((damage.offset, damage.path.file_name()), (spot.start, name(&spot.name)));
        assert!(kept == records(spot.batch_first - 1), "{} records", kept.len());
    }
}

/// Who refuses a record is told where it lies, whatever is wrong behind it; and nothing is changed.
#[test]
fn a_refusal_comes_before_what_is_behind() {
    let whole = long();
    let spots = inputs(&whole);
    for (at, damaged) in [(0, 2_000), (5_000, 5_100), (30_000, COUNT - 1), (COUNT - 1, COUNT - 1)] {
        let storage = whole.duplicate(true);
        let (spot, behind) = (&spots[at as usize], &spots[damaged as usize]);
        if at < damaged {
            storage.change(&behind.name, |bytes| bytes[behind.start as usize + 16] ^= 1);
        }
        let before = storage.everything();
        let mut kept = Vec::new();
        let mut replay = |record: Record<'_>| {
            if record.kind == Kind::Input && record.sequence == spot.sequence {
                return Err(Refusal);
            }
            kept.push(Kept::of(record));
            Ok(())
        };
        let error =
            journal::open(storage.storage(), &options(Durability::Written), &mut replay).err();
        let Some(OpenError::Refused { path, offset, sequence, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((offset, sequence), (spot.start, spot.sequence));
        assert_eq!(path.file_name(), name(&spot.name));
        assert!(kept == records(at), "{} records", kept.len());
        assert!(storage.everything() == before, "nothing changed");
    }
}

fn name(name: &str) -> Option<&std::ffi::OsStr> {
    Path::new(name).file_name()
}
