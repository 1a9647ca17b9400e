//! Giving up the end of a journal on purpose.

use journal::{CrashStorage, Durability, OpenError, Truncated, Truncation};

use crate::support::{
    End, Place, append, on_both, open, options, records, spots, verify, write, write_as,
};

fn truncate(
    storage: Box<dyn journal::Storage>,
    last: Option<u64>,
) -> Result<(Option<String>, u64, Truncated), OpenError> {
    let plan = Truncation::plan(storage, last)?;
    let (damage, given_up) = (plan.damage.clone(), plan.given_up);
    Ok((damage, given_up, plan.apply()?))
}

/// After a truncation at any sequence: the remaining records are unchanged, the cut is marked, and
/// the journal goes on. The removed bytes are put aside.
#[test]
fn cut_after_any_sequence() {
    for last in 0..=31 {
        on_both!(|place| {
            write(place, 30);
            let (damage, given_up, truncated) = truncate(place.storage(), Some(last)).unwrap();
            let kept = last.min(30);
            assert_eq!((truncated.last_sequence, given_up, damage), (kept, 30 - kept, None));
            assert!(kept == 30 || !truncated.aside.is_empty());
            let (mut writer, replayed, report) =
                open(place.storage(), &options(Durability::Written)).unwrap();
            assert_eq!((replayed, report.watermark), (records(kept), kept));
            for sequence in kept + 1..=kept + 9 {
                append(&mut writer, sequence).unwrap();
            }
            writer.sync().unwrap();
            drop(writer);
            assert_eq!(verify(place.storage()).unwrap().0, records(kept + 9));
        });
    }
}

/// A batch that extends beyond the sequence is cut as a whole.
#[test]
fn batches_are_whole() {
    on_both!(|place| {
        write_as(place, Durability::Written, 30, 3, End::Peace);
        let (_, given_up, Truncated { last_sequence, .. }) =
            truncate(place.storage(), Some(14)).unwrap();
        assert_eq!(given_up, 30 - last_sequence);
        let last = spots(place).into_iter().map(|spot| spot.sequence).max();
        assert_eq!(Some(last_sequence), last);
        assert!((12..=14).contains(&last_sequence));
        assert_eq!(verify(place.storage()).unwrap().0, records(last_sequence));
    });
}

/// Without a sequence the journal ends at the first damage of any kind, and the plan names it.
#[test]
fn cut_at_the_damage() {
    let whole = CrashStorage::new();
    write(&whole, 30);
    for spot in spots(&whole) {
        on_both!(|place| {
            for (name, bytes) in whole.everything() {
                place.set_bytes(&name, Some(bytes));
            }
            place.change(&spot.name, |bytes| bytes[spot.start as usize + 17] ^= 1);
            assert!(open(place.storage(), &options(Durability::Written)).is_err());
            let (damage, given_up, truncated) = truncate(place.storage(), None).unwrap();
            assert_eq!(truncated.last_sequence, spot.sequence - 1);
            // The watermark promised all 30.
            assert_eq!(given_up, 31 - spot.sequence);
            let damage = damage.expect("it is damaged");
            if spot.sequence < 30 {
                assert!(damage.contains(&format!("byte {}", spot.start)), "{damage}");
            }
            let (_, kept, _) = open(place.storage(), &options(Durability::Written)).unwrap();
            assert_eq!(kept, records(spot.sequence - 1));
        });
    }
}

/// A lost watermark is made again, and no record is given up for it.
#[test]
fn a_lost_mark_is_made_again() {
    for damage in [None, Some(vec![1; 8_192])] {
        on_both!(|place| {
            write(place, 30);
            place.set_bytes("watermark", damage.clone());
            let (damage, given_up, truncated) = truncate(place.storage(), None).unwrap();
            assert_eq!((truncated.last_sequence, given_up), (30, 0));
            assert!(damage.unwrap().contains("watermark"));
            let (kept, report) = verify(place.storage()).unwrap();
            assert_eq!((kept, report.watermark), (records(30), 30));
        });
    }
}
