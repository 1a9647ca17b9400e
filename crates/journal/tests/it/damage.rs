//! Every small damage, one by one: the records read are always the first ones as they were written,
//! never fewer than the watermark requires, and a confirmed record is missing only where its bytes
//! look exactly like a write that a crash interrupted.

use journal::{CrashStorage, Durability, OpenError, SEGMENT_HEADER_LEN, VerifyError};
use market::SplitMix64;

use crate::support::{End, Place, Spot, open, options, place_of, records, spots, verify, write_as};

const COUNT: u64 = 14;

/// The results of damaged bytes.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The number of records kept, and the place of the cut if there was one.
    Kept(u64, Option<(String, u64)>),
    /// The opening refused, with this place.
    Refused(String, u64),
}

/// An undamaged journal, and the sequence in its watermark.
struct Journal {
    files: Vec<(String, Vec<u8>)>,
    spots: Vec<Spot>,
    durability: Durability,
    end: End,
    marked: u64,
}

impl Journal {
    fn new(durability: Durability, batch: u64, end: End) -> Self {
        let storage = CrashStorage::new();
        write_as(&storage, durability, COUNT, batch, end);
        let (_, report) = verify(storage.storage()).unwrap();
        let marked = report.watermark;
        assert_eq!(marked == COUNT, end == End::Peace);
        let files = storage.everything();
        Self { files, spots: spots(&storage), durability, end, marked }
    }

    /// All journals of these tests.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for end in [End::Peace, End::Kill] {
            all.push(Self::new(Durability::Written, 1, end));
            all.push(Self::new(Durability::Written, 3, end));
        }
        all
    }

    /// A copy with one file changed or removed.
    fn with(&self, name: &str, bytes: Option<Vec<u8>>) -> CrashStorage {
        let storage = CrashStorage::new();
        for (other, content) in &self.files {
            storage.set_bytes(other, Some(content.clone()));
        }
        storage.set_bytes(name, bytes);
        storage
    }

    /// Verifies and opens; both must agree, and the kept records must be those written.
    fn judge(&self, damaged: &CrashStorage) -> Verdict {
        let before = damaged.everything();
        let verified = verify(damaged.storage());
        assert_eq!(damaged.everything(), before, "verify changed something");
        match (verified, open(damaged.storage(), &options(self.durability))) {
            (Ok((verified, report)), Ok((_, opened, opened_report))) => {
                assert_eq!(verified, opened);
                assert_eq!(report.torn_tail, opened_report.torn_tail);
                assert_eq!(opened, records(opened.len() as u64), "never other records");
                assert!(opened.len() as u64 >= self.marked, "less than the watermark says");
                let cut = report.torn_tail.as_ref().map(place_of);
                Verdict::Kept(opened.len() as u64, cut.map(|(name, offset, _)| (name, offset)))
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

    fn last_name(&self) -> &str {
        &self.spots.last().unwrap().name
    }

    /// The verdict of the decision table for a bad byte at this place.
    fn expected(&self, name: &str, at: u64) -> Verdict {
        if name == "watermark" || at < SEGMENT_HEADER_LEN {
            return Verdict::Kept(COUNT, None); // the other copy says the same
        }
        let in_it = self.spots.iter().filter(|spot| spot.name == name);
        let last = in_it.clone().next_back().expect("every segment has records");
        let is_last = name == self.last_name();
        let spot = in_it.clone().find(|spot| (spot.start..spot.end).contains(&at));
        let Some(spot) = spot else {
            // Zeros behind the records.
            return if is_last {
                Verdict::Kept(COUNT, Some((name.to_owned(), last.end)))
            } else {
                Verdict::Refused(name.to_owned(), at / 8 * 8)
            };
        };
        if !is_last || spot.start < last.start || self.end == End::Peace {
            return Verdict::Refused(name.to_owned(), spot.start);
        }
        Verdict::Kept(spot.first_sequence - 1, Some((name.to_owned(), spot.start)))
    }
}

/// Any byte of any file changed, in every way worth trying: in a header or in the watermark no
/// record is lost; in a batch the change is refused with the batch's place; in the last batch, if
/// the watermark does not require it, that batch is cut.
#[test]
fn every_byte_changed() {
    let mut counts = [0_u64; 3];
    for journal in Journal::all() {
        for (name, bytes) in &journal.files {
            if name == "prepared" {
                continue;
            }
            for at in 0..bytes.len() {
                // All bytes of a block beyond its fields are zero, and one change is like another.
                let is_field = at >= 8_192 || at % 4_096 < 80;
                let changes: &[u8] = if is_field { &[0x01, 0x80, 0xff] } else { &[4] };
                for change in changes {
                    let mut changed = bytes.clone();
                    changed[at] ^= change;
                    let verdict = journal.judge(&journal.with(name, Some(changed)));
                    let expected = journal.expected(name, at as u64);
                    let agrees = match (&verdict, &expected) {
                        // In the zeros of an ended segment, any place from there on is accepted.
                        (Verdict::Refused(file, _), Verdict::Refused(expected, offset))
                            if offset % 8 == 0 && file == expected && expected == name =>
                        {
                            true
                        }
                        (verdict, expected) => verdict == expected,
                    };
                    assert!(agrees, "{name}, byte {at}: {verdict:?}, not {expected:?}");
                    counts[match verdict {
                        Verdict::Kept(_, None) => 0,
                        Verdict::Kept(_, Some(_)) => 1,
                        Verdict::Refused(..) => 2,
                    }] += 1;
                }
            }
        }
    }
    let [whole, cut, refused] = counts;
    println!(
        "{} flips: {whole} kept whole, {cut} cut, {refused} refused, 0 accepted wrongly",
        whole + cut + refused
    );
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Every file at every shorter length, and removed: whole batches are kept where the watermark
/// allows it, and only in the last segment; all other cases are refused.
#[test]
fn every_length() {
    let mut counts = [0_u64; 2];
    for journal in Journal::all() {
        for (name, bytes) in &journal.files {
            if name == "prepared" {
                continue;
            }
            for len in (0..bytes.len() as u64).map(Some).chain([None]) {
                let damaged = journal.with(name, len.map(|len| bytes[..len as usize].to_vec()));
                let verdict = journal.judge(&damaged);
                check_length(&journal, name, len, &verdict);
                counts[usize::from(matches!(verdict, Verdict::Refused(..)))] += 1;
            }
        }
    }
    let [kept, refused] = counts;
    println!("{} truncations: {kept} a prefix, {refused} refused", kept + refused);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

fn check_length(journal: &Journal, name: &str, len: Option<u64>, verdict: &Verdict) {
    if name == "watermark" {
        let is_enough = len.is_some_and(|len| len >= 4_096);
        let kept = *verdict == Verdict::Kept(COUNT, None);
        assert_eq!(is_enough, kept, "the watermark with {len:?} bytes: {verdict:?}");
        return;
    }
    let whole = |spot: &&Spot| {
        spot.name.as_str() < name || spot.name == name && len.is_some_and(|len| spot.end <= len)
    };
    let batches = || journal.spots.iter();
    let last_whole = batches().rfind(whole).map_or(0, |spot| spot.sequence);
    let last_in_it = batches().rfind(|spot| spot.name == name).unwrap().sequence;
    let is_last = name == journal.last_name();
    match verdict {
        // Only zeros were lost.
        Verdict::Kept(COUNT, None) => assert_eq!(last_whole, last_in_it, "{name} {len:?}"),
        Verdict::Kept(kept, _) => {
            assert!(is_last, "{name} {len:?}: {verdict:?}");
            assert_eq!(*kept, last_whole, "{name} {len:?}");
            assert!(journal.end == End::Kill && *kept >= journal.marked, "{name} {len:?}");
        }
        Verdict::Refused(..) => {
            assert!(last_whole < last_in_it, "{name} {len:?}: {verdict:?}");
            assert!(!is_last || journal.marked > last_whole, "{name} {len:?}: {verdict:?}");
        }
    }
}

/// Where batches have separate blocks, a changed byte in a block is judged alike, and a block that
/// a power cut lost from the last, unmarked batch is no damage.
#[test]
fn blocks_of_their_own() {
    let mut counts = [0_u64; 2];
    for end in [End::Peace, End::Kill] {
        let journal = Journal::new(Durability::Synced, 3, end);
        assert!(journal.files.iter().filter(|(name, _)| name.ends_with(".damrak")).count() > 2);
        for (name, bytes) in journal.files.iter().filter(|(name, _)| name.ends_with(".damrak")) {
            for spot in journal.spots.iter().filter(|spot| spot.name == *name) {
                for at in spot.start..spot.end {
                    let mut changed = bytes.clone();
                    changed[at as usize] ^= 0x20;
                    let verdict = journal.judge(&journal.with(name, Some(changed)));
                    let is_last =
                        spot.first_sequence == journal.spots.last().unwrap().first_sequence;
                    let expected = if is_last && end == End::Kill {
                        let cut = Some((name.clone(), spot.start));
                        Verdict::Kept(spot.first_sequence - 1, cut)
                    } else {
                        Verdict::Refused(name.clone(), spot.start)
                    };
                    assert_eq!(verdict, expected, "{name}, byte {at}");
                    counts[usize::from(matches!(verdict, Verdict::Refused(..)))] += 1;
                }
            }
        }
    }
    println!("{} flips in blocks: {} cut, {} refused", counts[0] + counts[1], counts[0], counts[1]);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Blocks that are zeroed, or hold bytes from elsewhere, at every aligned place of the records:
/// never other records, and never fewer than the watermark requires.
#[test]
fn every_block_lost_or_misplaced() {
    let mut counts = [0_u64; 2];
    for journal in Journal::all() {
        let name = journal.last_name().to_owned();
        let bytes = &journal.files.iter().find(|(other, _)| *other == name).unwrap().1;
        let end = journal.spots.last().unwrap().end as usize;
        for block_len in [8, 24, 64, 128] {
            let places = (SEGMENT_HEADER_LEN as usize..=end - block_len).step_by(8);
            for to in places.clone() {
                let mut damaged = bytes.clone();
                damaged[to..to + block_len].fill(0);
                check_block(&journal, &name, bytes, damaged, &mut counts);
                for from in places.clone().step_by(3) {
                    let mut damaged = bytes.clone();
                    damaged.copy_within(from..from + block_len, to);
                    check_block(&journal, &name, bytes, damaged, &mut counts);
                }
            }
        }
    }
    println!("{} blocks: {} kept, {} refused", counts[0] + counts[1], counts[0], counts[1]);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

fn check_block(
    journal: &Journal,
    name: &str,
    bytes: &[u8],
    damaged: Vec<u8>,
    counts: &mut [u64; 2],
) {
    let good = |spot: &&Spot| {
        let range = spot.start as usize..spot.end as usize;
        spot.name != name || damaged[range.clone()] == bytes[range]
    };
    let first_bad = journal.spots.iter().find(|spot| !good(spot)).cloned();
    let last_good = journal.spots.iter().filter(good).map(|spot| spot.first_sequence).max();
    match (journal.judge(&journal.with(name, Some(damaged))), first_bad) {
        (Verdict::Kept(count, cut), None) => {
            assert_eq!((count, cut), (COUNT, None));
            counts[0] += 1;
        }
        (Verdict::Kept(count, _), Some(bad)) => {
            assert_eq!(count, bad.first_sequence - 1);
            assert!(last_good < Some(bad.first_sequence), "a good batch is lost: {bad:?}");
            counts[0] += 1;
        }
        (Verdict::Refused(file, offset), Some(bad)) => {
            assert_eq!((&file[..], offset), (name, bad.start));
            counts[1] += 1;
        }
        (verdict, None) => panic!("{verdict:?}"),
    }
}

/// Any damage to several bytes at once, from printed seeds: never other records.
#[test]
fn random_damage() {
    let all = Journal::all();
    for seed in 1..=4_000 {
        let mut random = SplitMix64::new(seed);
        let journal = &all[random.below(all.len() as u64) as usize];
        let damaged = journal.with("lock", None);
        for _ in 0..=random.below(4) {
            let (name, _) = &journal.files[random.below(journal.files.len() as u64) as usize];
            damaged.change(name, |bytes| {
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
        // Both copies of the watermark may be hit; then its value is lost.
        let watermark = damaged.content("watermark");
        let is_required = watermark == journal.with("lock", None).content("watermark");
        let promised = if is_required { journal.marked } else { 0 };
        if let Verdict::Kept(count, _) = without_watermark(journal).judge(&damaged) {
            assert!(count >= promised, "{count} < {promised}");
        }
    }
}

/// The same journal, without any promise.
fn without_watermark(journal: &Journal) -> Journal {
    let Journal { files, spots, durability, end, .. } = journal;
    let (files, spots) = (files.clone(), spots.clone());
    Journal { files, spots, durability: *durability, end: *end, marked: 0 }
}

/// On a folder as in memory: changed bytes of records give the same verdict.
#[test]
fn a_folder_judges_alike() {
    let journal = Journal::new(Durability::Written, 1, End::Kill);
    for spot in &journal.spots {
        for at in [spot.start, spot.start + 7, spot.start + 12, spot.end - 1] {
            let folder = tempfile::tempdir().unwrap();
            for (name, bytes) in &journal.files {
                folder.set_bytes(name, Some(bytes.clone()));
            }
            folder.change(&spot.name, |bytes| bytes[at as usize] ^= 0x10);
            let damaged = journal.with(&spot.name, Some(folder.content(&spot.name)));
            let verdict = |judged: Result<_, VerifyError>| match judged {
                Ok(kept) => Ok(kept),
                Err(VerifyError::Damaged(damage)) => Err((damage.offset, damage.kind)),
                Err(error) => panic!("{error}"),
            };
            let on_folder = verdict(verify(folder.storage()).map(|(kept, _)| kept));
            let in_memory = verdict(verify(damaged.storage()).map(|(kept, _)| kept));
            assert_eq!(on_folder, in_memory);
        }
    }
}
