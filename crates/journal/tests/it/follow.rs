//! Following a journal while it is written: every record is shown once, in order, as it was written.

use std::convert::Infallible;

use journal::{CrashStorage, DamageKind, Durability, JournalFollower, Record, VerifyError};

use crate::support::{Kept, Place, append, on_both, open, options, record, records, spots, write};

fn poll(
    follower: &mut JournalFollower,
    limit: usize,
    until: u64,
    kept: &mut Vec<Kept>,
) -> Result<usize, VerifyError> {
    follower.poll(limit, until, &mut |record: Record<'_>| {
        kept.push(Kept::of(record));
        Ok::<_, Infallible>(())
    })
}

fn all(follower: &mut JournalFollower) -> Result<Vec<Kept>, VerifyError> {
    let mut kept = Vec::new();
    while poll(follower, 3, u64::MAX, &mut kept)? > 0 {}
    Ok(kept)
}

/// Committed records are shown, and none before its commit; segments come and go.
#[test]
fn records_are_shown_as_they_come() {
    on_both!(|place| {
        let mut follower = JournalFollower::new(place.storage(), 0);
        let mut kept = Vec::new();
        assert_eq!(poll(&mut follower, 9, u64::MAX, &mut kept).unwrap(), 0, "nothing is there");
        let (mut writer, _, _) = open(place.storage(), &options(Durability::Written)).unwrap();
        assert_eq!(poll(&mut follower, 9, u64::MAX, &mut kept).unwrap(), 0);
        for sequence in 1..=60 {
            append(&mut writer, sequence).unwrap();
            if sequence % 7 == 0 {
                writer.commit().unwrap();
                while poll(&mut follower, 4, u64::MAX, &mut kept).unwrap() > 0 {}
                assert_eq!(kept, records(sequence));
            }
        }
        assert!(place.names().len() > 3, "segments came");
        drop(writer);
        assert_eq!(follower.last_sequence(), 56);
        assert_eq!(follower.journal_id(), Some(crate::support::JOURNAL_ID));
    });
}

/// A segment that was removed before it was read is an error, not a wait: the next one is there.
#[test]
fn a_segment_that_was_removed_is_missed() {
    let storage = CrashStorage::new();
    write(&storage, 60);
    let mut follower = JournalFollower::new(storage.storage(), 0);
    let mut kept = Vec::new();
    assert_eq!(poll(&mut follower, 1, u64::MAX, &mut kept).unwrap(), 1);
    assert!(journal::remove_segments_before(&mut *storage.storage(), 60).unwrap() > 1);
    let error = loop {
        match poll(&mut follower, 9, u64::MAX, &mut kept) {
            Ok(0) => panic!("it waits after {} records", kept.len()),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(kept, records(kept.len() as u64));
    let VerifyError::Damaged(damage) = &error else { panic!("{error}") };
    let DamageKind::MissingSegment { expected, found } = damage.kind else { panic!("{error}") };
    assert!(expected == kept.len() as u64 + 1 && expected < found, "{error}");
}

/// At most the requested number of records, and none after the bounding sequence.
#[test]
fn what_is_asked_for_bounds_what_is_shown() {
    let storage = CrashStorage::new();
    write(&storage, 40);
    let mut follower = JournalFollower::new(storage.storage(), 0);
    let mut kept = Vec::new();
    assert_eq!(poll(&mut follower, 5, u64::MAX, &mut kept).unwrap(), 5);
    assert_eq!(poll(&mut follower, 100, 11, &mut kept).unwrap(), 6);
    assert_eq!(poll(&mut follower, 100, 11, &mut kept).unwrap(), 0);
    assert_eq!(kept, records(11));
    assert_eq!(poll(&mut follower, 100, 40, &mut kept).unwrap(), 29);
    assert_eq!(kept, records(40));
}

/// From any sequence on; segments that end before it need not exist.
#[test]
fn begins_anywhere() {
    let storage = CrashStorage::new();
    write(&storage, 40);
    for from in 0..=41_u64 {
        let expected: Vec<_> = (from.max(1)..=40).map(record).collect();
        assert_eq!(all(&mut JournalFollower::new(storage.storage(), from)).unwrap(), expected);
        let fewer = CrashStorage::new();
        let spot = spots(&storage).into_iter().rfind(|it| it.sequence <= from.max(1)).unwrap();
        for (name, bytes) in storage.everything() {
            if name >= spot.name || !name.ends_with(".damrak") {
                fewer.set_bytes(&name, Some(bytes));
            }
        }
        assert_eq!(
            all(&mut JournalFollower::new(fewer.storage(), from)).unwrap(),
            expected,
            "{from}"
        );
    }
}

/// The follower waits for the rest of a partial record, wherever it ends, and shows it once it is
/// whole.
#[test]
fn what_is_half_written_is_waited_for() {
    let whole = CrashStorage::new();
    write(&whole, 20);
    for spot in spots(&whole) {
        let bytes = whole.content(&spot.name);
        for end in spot.start..spot.end {
            let storage = CrashStorage::new();
            for (name, bytes) in whole.everything() {
                if name < spot.name || !name.ends_with(".damrak") {
                    storage.set_bytes(&name, Some(bytes));
                }
            }
            let end = end as usize;
            storage.set_bytes(&spot.name, Some(bytes[..end].to_vec()));
            let mut follower = JournalFollower::new(storage.storage(), 0);
            let mut kept = Vec::new();
            while poll(&mut follower, 9, u64::MAX, &mut kept).unwrap() > 0 {}
            assert_eq!(kept, records(spot.sequence - 1), "{spot:?} until {end}");
            append_to(&storage, &spot.name, end, &bytes[end..]);
            while poll(&mut follower, 9, u64::MAX, &mut kept).unwrap() > 0 {}
            let of_segment = spots(&whole).into_iter().rfind(|it| it.name == spot.name).unwrap();
            assert_eq!(kept, records(of_segment.sequence));
        }
    }
}

/// A record that does not verify before one that does is damage, reported with its sequence.
#[test]
fn damage_is_reported() {
    let storage = CrashStorage::new();
    write(&storage, 20);
    for spot in spots(&storage).iter().filter(|it| it.sequence < 20) {
        let bytes = storage.content(&spot.name);
        storage.change(&spot.name, |bytes| bytes[spot.start as usize + 9] ^= 1);
        let error = all(&mut JournalFollower::new(storage.storage(), 0)).unwrap_err();
        let VerifyError::Damaged(damage) = error else { panic!("{error}") };
        assert_eq!((damage.sequence, damage.offset), (spot.sequence, spot.start));
        assert!(matches!(damage.kind, DamageKind::BadBatch { .. }), "{damage}");
        storage.set_bytes(&spot.name, Some(bytes));
    }
    let last = spots(&storage).pop().unwrap();
    storage.change(&last.name, |bytes| bytes[last.start as usize + 9] ^= 1);
    let kept = all(&mut JournalFollower::new(storage.storage(), 0)).unwrap();
    assert_eq!(kept, records(19), "the last may not be whole yet");
}

/// A consumer that refuses a record ends the follower, which reports the sequence.
#[test]
fn a_refusal_ends_it() {
    let storage = CrashStorage::new();
    write(&storage, 5);
    let mut follower = JournalFollower::new(storage.storage(), 0);
    let error = follower
        .poll(9, u64::MAX, &mut |record: Record<'_>| match record.sequence {
            3 => Err("no"),
            _ => Ok(()),
        })
        .unwrap_err();
    assert!(matches!(error, VerifyError::Refused { sequence: 3, .. }), "{error}");
}

/// A venue that starts again cuts its torn tail and goes on; a follower goes on with it.
#[test]
fn a_torn_tail_that_is_cut_is_passed() {
    on_both!(|place| {
        write(place, 10);
        let mut follower = JournalFollower::new(place.storage(), 0);
        let mut kept = Vec::new();
        let last = spots(place).pop().unwrap();
        let whole = place.content(&last.name)[..last.end as usize].to_vec();
        let last = last.name;
        // The tail is torn in the file that is open already.
        append_to(place, &last, whole.len(), &[3; 50]);
        while poll(&mut follower, 9, u64::MAX, &mut kept).unwrap() > 0 {}
        assert_eq!(kept, records(10));
        write(place, 25);
        assert!(place.content(&last).starts_with(&whole));
        while poll(&mut follower, 9, u64::MAX, &mut kept).unwrap() > 0 {}
        assert_eq!(kept, records(25));
    });
}

fn append_to(place: &impl Place, name: &str, offset: usize, bytes: &[u8]) {
    let mut storage = place.storage();
    let mut file = storage.open(name, journal::FileAccess::Write).unwrap();
    file.write_at(offset as u64, bytes).unwrap();
}
