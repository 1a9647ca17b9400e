//! Every small damage, one by one: what comes back is never anything but the first records as they
//! were written, and where a confirmed record may be missing it is because its bytes look exactly
//! like a write that a crash interrupted.

use journal::{CrashStorage, Durability, OpenError, SEGMENT_HEADER_LEN, VerifyError};

use crate::support::{Kept, Place, Spot, open, options, place_of, records, spots, verify, write};

const COUNT: u64 = 24;

/// What came of damaged bytes.
#[derive(Debug)]
enum Verdict {
    /// So many records, and the place of the cut if there was one.
    Kept(u64, Option<(String, u64, u64)>),
    /// Refused, at this place.
    Refused(String, u64),
}

/// Verifies and opens; both must agree, and what is kept must be what was written.
fn judge(damaged: &CrashStorage) -> Verdict {
    let before = damaged.everything();
    let verified = verify(damaged.storage());
    assert_eq!(damaged.everything(), before, "verify changed something");
    match (verified, open(damaged.storage(), &options(Durability::Synced))) {
        (Ok((verified, report)), Ok((_, opened, opened_report))) => {
            assert_eq!(verified, opened);
            assert_eq!(report.cut, opened_report.cut);
            assert_eq!(opened, records(opened.len() as u64), "never other records");
            Verdict::Kept(opened.len() as u64, report.cut.as_ref().map(place_of))
        }
        (Err(VerifyError::Damaged(verified)), Err(OpenError::Damaged(opened))) => {
            assert_eq!(verified, opened);
            assert_eq!(damaged.everything(), before, "a refused journal was changed");
            let name = verified.path.file_name().unwrap().to_str().unwrap().to_owned();
            Verdict::Refused(name, verified.offset)
        }
        (verified, opened) => panic!("{verified:?} and {:?}", opened.map(|opened| opened.1)),
    }
}

fn journal(count: u64) -> (CrashStorage, Vec<Spot>) {
    let storage = CrashStorage::new();
    write(&storage, count);
    let spots = spots(count);
    assert!(storage.names().len() >= 2, "damage in the last segment and before it");
    (storage, spots)
}

/// Any byte of any file changed: in a header nothing is lost; in a record it is refused with the
/// record's place; in the very last record, which is then a torn tail, that one is cut.
#[test]
fn every_byte_changed() {
    let (storage, spots) = journal(COUNT);
    let mut verdicts = [0, 0, 0];
    for name in storage.names() {
        let bytes = storage.bytes(&name).unwrap();
        for at in 0..bytes.len() {
            // All of a header beyond its fields is zero, and one change is like another.
            let changes: &[u8] =
                if at % 4_096 < 40 || at >= 8_192 { &[0x01, 0x80, 0xff] } else { &[4] };
            for change in changes {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                storage.set_bytes(&name, Some(changed));
                let at = at as u64;
                let inside =
                    |spot: &&Spot| spot.name == name && (spot.start..spot.end).contains(&at);
                let spot = spots.iter().find(inside);
                match (spot, judge(&storage)) {
                    (None, Verdict::Kept(COUNT, None)) if at < SEGMENT_HEADER_LEN => {
                        verdicts[0] += 1;
                    }
                    (Some(spot), Verdict::Kept(kept_count, Some(cut)))
                        if spot.sequence == COUNT =>
                    {
                        assert_eq!(kept_count, COUNT - 1);
                        assert_eq!(cut, (name.clone(), spot.start, spot.end - spot.start));
                        verdicts[1] += 1;
                    }
                    (Some(spot), Verdict::Refused(file, offset)) if spot.sequence < COUNT => {
                        assert_eq!((file, offset), (name.clone(), spot.start));
                        verdicts[2] += 1;
                    }
                    (spot, verdict) => panic!("{name}, byte {at}, {spot:?}: {verdict:?}"),
                }
            }
        }
        storage.set_bytes(&name, Some(bytes));
    }
    println!("{} kept whole, {} cut, {} refused", verdicts[0], verdicts[1], verdicts[2]);
    assert!(verdicts.iter().all(|count| *count > 0), "{verdicts:?}");
}

/// The last segment at every shorter length is a torn tail: the whole records are kept. Any other
/// segment at any shorter length is refused.
#[test]
fn every_length() {
    let (storage, spots) = journal(COUNT);
    let last_name = storage.names().pop().unwrap();
    for name in storage.names() {
        let bytes = storage.bytes(&name).unwrap();
        for len in 0..bytes.len() as u64 {
            storage.set_bytes(&name, Some(bytes[..len as usize].to_vec()));
            let whole = |spot: &&Spot| spot.name < name || spot.name == name && spot.end <= len;
            let kept_count = spots.iter().filter(whole).count() as u64;
            let whole_until = if len < SEGMENT_HEADER_LEN {
                0
            } else {
                let end = spots.iter().filter(whole).rfind(|spot| spot.name == name);
                end.map_or(SEGMENT_HEADER_LEN, |spot| spot.end)
            };
            match judge(&storage) {
                Verdict::Kept(count, cut) if name == last_name => {
                    assert_eq!(count, kept_count);
                    let torn = len > whole_until || len == 0 && whole_until == 0;
                    let expected = torn.then(|| (name.clone(), whole_until, len - whole_until));
                    assert_eq!(cut, expected, "length {len}");
                }
                Verdict::Refused(..) if name != last_name => {}
                verdict => panic!("{name} with {len} bytes: {verdict:?}"),
            }
            storage.set_bytes(&name, None);
        }
        storage.set_bytes(&name, Some(bytes));
    }
}

/// Blocks that are zeroed or hold what belongs elsewhere, at every aligned place of the records:
/// never other records, and a loss only where no good record is left behind the damage.
#[test]
fn every_block_lost_or_misplaced() {
    let (storage, spots) = journal(COUNT);
    let name = spots.last().unwrap().name.clone();
    let first_in_it = spots.iter().find(|spot| spot.name == name).unwrap().sequence;
    let bytes = storage.bytes(&name).unwrap();
    let records_start = SEGMENT_HEADER_LEN as usize;
    for block_len in [8, 24, 64, 128] {
        let places = (records_start..=bytes.len() - block_len).step_by(8);
        for to in places.clone() {
            let zeroed = |bytes: &mut Vec<u8>| bytes[to..to + block_len].fill(0);
            check_block(&storage, &spots, &name, &bytes, zeroed);
            for from in places.clone().step_by(3) {
                let moved = |bytes: &mut Vec<u8>| bytes.copy_within(from..from + block_len, to);
                check_block(&storage, &spots, &name, &bytes, moved);
            }
        }
    }
    assert!(first_in_it > 1);
}

fn check_block(
    storage: &CrashStorage,
    spots: &[Spot],
    name: &str,
    bytes: &[u8],
    damage: impl FnOnce(&mut Vec<u8>),
) {
    let mut damaged = bytes.to_vec();
    damage(&mut damaged);
    let good = |spot: &&Spot| {
        let range = spot.start as usize..spot.end as usize;
        spot.name != name || damaged[range.clone()] == bytes[range]
    };
    let last_good = spots.iter().filter(good).map(|spot| spot.sequence).max().unwrap_or(0);
    let first_bad = spots.iter().find(|spot| !good(spot)).map_or(COUNT + 1, |spot| spot.sequence);
    storage.set_bytes(name, Some(damaged));
    match judge(storage) {
        Verdict::Kept(count, None) => assert_eq!(count, COUNT),
        Verdict::Kept(count, Some((_, offset, _))) => {
            assert_eq!(count, first_bad - 1);
            assert!(last_good < first_bad, "good record {last_good} lost behind {offset}");
        }
        Verdict::Refused(file, offset) => {
            let spot = &spots[first_bad as usize - 1];
            assert_eq!((&file[..], offset), (name, spot.start));
        }
    }
}

/// Any damage at all to several bytes at once, from printed seeds: never other records.
#[test]
fn random_damage() {
    let (storage, _) = journal(COUNT);
    let original = storage.everything();
    for seed in 1..=2_000 {
        let mut random = Random(seed);
        for _ in 0..=random.below(4) {
            let (name, _) = &original[random.below(original.len() as u64) as usize];
            storage.change(name, |bytes| {
                let len = bytes.len() as u64;
                // Half of the damage hits the records, the smaller part of these files.
                let from = if random.below(2) == 0 { 0 } else { len.min(SEGMENT_HEADER_LEN) };
                if len == from {
                    return;
                }
                let at = (from + random.below(len - from)) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes.truncate(at),
                    2 => {
                        bytes.remove(at);
                    }
                    _ => bytes.insert(at, random.below(256) as u8),
                }
            });
        }
        println!("seed {seed}");
        judge(&storage);
        for name in storage.names() {
            storage.set_bytes(&name, None);
        }
        for (name, bytes) in &original {
            storage.set_bytes(name, Some(bytes.clone()));
        }
    }
}

/// A small generator (splitmix64): the same numbers for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// On a folder as in memory: changed bytes of records give the same verdict.
#[test]
fn a_folder_judges_alike() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, COUNT);
    let (storage, spots) = journal(COUNT);
    for spot in &spots {
        for at in [spot.start, spot.start + 7, spot.start + 12, spot.end - 1] {
            folder.change(&spot.name, |bytes| bytes[at as usize] ^= 0x10);
            storage.change(&spot.name, |bytes| bytes[at as usize] ^= 0x10);
            let kept = |judged: Result<(Vec<Kept>, _), VerifyError>| match judged {
                Ok((kept, _)) => Ok(kept),
                Err(VerifyError::Damaged(damage)) => Err((damage.offset, damage.kind)),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(kept(verify(folder.storage())), kept(verify(storage.storage())));
            folder.change(&spot.name, |bytes| bytes[at as usize] ^= 0x10);
            storage.change(&spot.name, |bytes| bytes[at as usize] ^= 0x10);
        }
    }
}
