//! What opening does about what it finds: the decision table of docs/journal.md as data, and the
//! two judgements in it that depend on several things at once, as functions without I/O.
//!
//! A test compares [`TABLE`] with the document, and others walk every combination.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Never given to another row.
    pub number: u8,
    /// What is found.
    pub found: &'static str,
    /// What opening does.
    pub does: &'static str,
    /// For what is refused: whether the journal itself is wrong (exit code 4) or its surroundings.
    pub corrupt: Option<bool>,
}

const fn row(number: u8, found: &'static str, does: &'static str, corrupt: Option<bool>) -> Row {
    Row { number, found, does, corrupt }
}

/// The decision table.
pub const TABLE: [Row; 30] = [
    row(
        1,
        "no folder, an empty one, or only a lock that nobody holds",
        "makes a journal (`verify` refuses)",
        None,
    ),
    row(
        2,
        "other files and no segment",
        "refused, nothing is written into the folder",
        Some(false),
    ),
    row(
        3,
        "the folder or a file cannot be read or written",
        "refused, with what to do",
        Some(false),
    ),
    row(
        4,
        "everything verifies, up to the end of the last segment or the zeros there",
        "replayed; the writer goes on in a new segment",
        None,
    ),
    row(
        5,
        "last segment: a record that does not verify and is not marked, and at no multiple of 8 \
         after it one that does",
        "torn tail: cut from where its batch begins, synced, reported",
        None,
    ),
    row(
        6,
        "last segment: not two whole copies of the header, nothing after them, and nothing but \
         what a crash leaves there: one copy, the beginning of one, zeros, nothing",
        "half made, never had a record: removed, reported",
        None,
    ),
    row(
        7,
        "last segment: a record that does not verify and is not marked, and after it one of \
         another batch that does",
        "refused",
        Some(true),
    ),
    row(
        8,
        "a segment with one after it: its end does not verify, or lies within its header",
        "refused",
        Some(true),
    ),
    row(
        9,
        "a segment begins behind the end of the one before it, or the first is not 1: one is \
         missing, or was cut between two batches",
        "refused, naming the segment after the hole",
        Some(true),
    ),
    row(
        10,
        "one copy of the header does not verify, the other does, and there is more",
        "replayed; the copy is reported",
        None,
    ),
    row(11, "neither copy of the header verifies", "refused", Some(true)),
    row(12, "both copies verify and differ", "refused", Some(true)),
    row(
        13,
        "the header or the mark verifies and has another format version",
        "refused",
        Some(false),
    ),
    row(
        14,
        "the header has another journal id than the segments before it: foreign",
        "refused",
        Some(true),
    ),
    row(
        15,
        "the header has another first sequence than the name: a duplicate of a segment that is \
         there, two that are exchanged, or one misdirected; or a file ends in `.damrak` and is \
         not named as a segment",
        "refused, naming which",
        Some(true),
    ),
    row(
        16,
        "a record verifies and is not the next one, or is of another batch",
        "refused",
        Some(true),
    ),
    row(
        17,
        "a record verifies and its timestamp is before that of the record before it",
        "refused",
        Some(true),
    ),
    row(
        18,
        "a record verifies and its payload is not accepted by the one who replays",
        "refused",
        Some(true),
    ),
    row(
        19,
        "another process holds the lock",
        "refused, naming it (`verify` does not ask)",
        Some(false),
    ),
    row(
        20,
        "last segment, batches in blocks of their own: a record that does not verify and is not \
         marked, and after it one of the same batch that does, and none of another",
        "torn tail, since a medium may keep blocks in any order: as row 5",
        None,
    ),
    row(21, "as row 20, but batches are not in blocks of their own", "refused", Some(true)),
    row(
        22,
        "last segment: a record that does not verify, and the mark says that it must be there",
        "refused",
        Some(true),
    ),
    row(
        23,
        "everything verifies, and the mark says that there must be more: a last segment is \
         missing, or was cut",
        "refused",
        Some(true),
    ),
    row(24, "all records of a batch verify, and its chain does not", "refused", Some(true)),
    row(
        25,
        "the header has a chain that is not that of the records before it, or an earlier epoch: \
         stale",
        "refused",
        Some(true),
    ),
    row(26, "a segment begins before the end of the one before it", "refused", Some(true)),
    row(27, "a record verifies and has an unknown kind or version", "refused", Some(false)),
    row(
        28,
        "one copy of the mark does not verify, the other does",
        "goes by the other; the copy is reported",
        None,
    ),
    row(
        29,
        "segments, and no mark, none that verifies, or that of another journal",
        "refused",
        Some(true),
    ),
    row(30, "a segment that was prepared and never begun", "removed", None),
];

/// What is behind a bad record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing that verifies.
    Nothing,
    /// Records of its own batch.
    SameBatch,
    /// Records of another batch.
    OtherBatch,
}

/// What is seen where the records of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// What is behind, where a record does not verify; `None` where the end is clean.
    pub(crate) bad: Option<Behind>,
    /// Another segment follows.
    pub(crate) is_followed: bool,
    /// The mark says that the next record must be there.
    pub(crate) is_marked: bool,
    /// Batches begin in blocks of their own.
    pub(crate) is_aligned: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    Cut,
    Refuse,
}

/// The row for the end of a segment, and what it says.
pub(crate) const fn judge_end(end: End) -> (u8, Verdict) {
    match end {
        End { bad: None, is_followed: true, .. } => (4, Verdict::GoOn),
        End { bad: None, is_marked: false, .. } => (4, Verdict::GoOn),
        End { bad: None, is_marked: true, .. } => (23, Verdict::Refuse),
        End { bad: Some(_), is_followed: true, .. } => (8, Verdict::Refuse),
        End { bad: Some(_), is_marked: true, .. } => (22, Verdict::Refuse),
        End { bad: Some(Behind::Nothing), .. } => (5, Verdict::Cut),
        End { bad: Some(Behind::OtherBatch), .. } => (7, Verdict::Refuse),
        End { bad: Some(Behind::SameBatch), is_aligned: true, .. } => (20, Verdict::Cut),
        End { bad: Some(Behind::SameBatch), is_aligned: false, .. } => (21, Verdict::Refuse),
    }
}

/// A copy of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// It verifies.
    Whole,
    /// It verifies and has a version that is not known.
    OtherVersion,
    /// It does not verify.
    Bad,
}

/// What is seen of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) copies: [CopyState; 2],
    /// Both verify and say the same.
    pub(crate) are_equal: bool,
    /// Another segment follows.
    pub(crate) is_followed: bool,
    /// Something other than zeros lies behind both copies.
    pub(crate) has_more: bool,
    /// What is there of the copies could be left by a crash that came while they were written.
    pub(crate) is_half_made: bool,
    /// The file ends before the second copy does.
    pub(crate) is_short: bool,
}

/// What is to be done about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadVerdict {
    /// Both copies are whole.
    Take,
    /// Goes by the copy with this index; the other one is damaged.
    TakeOnly(usize),
    /// The segment never had a record.
    Remove,
    /// The copy with this index has another version.
    OtherVersion(usize),
    Contradicts,
    Damaged,
    CutShort,
}

/// The row for the header of a segment, and what it says.
pub(crate) const fn judge_head(head: Head) -> (u8, HeadVerdict) {
    use CopyState::{Bad, OtherVersion, Whole};
    let may_be_half_made = !head.is_followed && !head.has_more;
    match head.copies {
        [Whole, Whole] if head.are_equal => (4, HeadVerdict::Take),
        [Whole, Whole | OtherVersion] | [OtherVersion, Whole] => (12, HeadVerdict::Contradicts),
        [OtherVersion, _] => (13, HeadVerdict::OtherVersion(0)),
        [Bad, OtherVersion] => (13, HeadVerdict::OtherVersion(1)),
        [Whole, Bad] | [Bad, Whole] if may_be_half_made => (6, HeadVerdict::Remove),
        [Whole, Bad] if head.is_short => (8, HeadVerdict::CutShort),
        [Whole, Bad] => (10, HeadVerdict::TakeOnly(0)),
        [Bad, Whole] => (10, HeadVerdict::TakeOnly(1)),
        [Bad, Bad] if may_be_half_made && head.is_half_made => (6, HeadVerdict::Remove),
        [Bad, Bad] => (11, HeadVerdict::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn corrupt(number: u8) -> Option<bool> {
        TABLE.iter().find(|row| row.number == number).expect("the row exists").corrupt
    }

    /// Rows are numbered once each, in order.
    #[test]
    fn rows_are_numbered() {
        let numbers: Vec<u8> = TABLE.iter().map(|row| row.number).collect();
        assert_eq!(numbers, (1..=30).collect::<Vec<u8>>());
    }

    /// Every combination at the end of a segment: nothing that is marked, followed, or has a later
    /// batch behind it is ever cut; the verdict is that of the row.
    #[test]
    fn every_end() {
        let mut rows = BTreeSet::new();
        let mut count = 0;
        for bad in [None, Some(Behind::Nothing), Some(Behind::SameBatch), Some(Behind::OtherBatch)]
        {
            for bits in 0..8 {
                let end = End {
                    bad,
                    is_followed: bits & 1 != 0,
                    is_marked: bits & 2 != 0,
                    is_aligned: bits & 4 != 0,
                };
                let (number, verdict) = judge_end(end);
                let must_not_be_cut =
                    end.is_followed || end.is_marked || bad == Some(Behind::OtherBatch);
                match verdict {
                    Verdict::Cut => assert!(bad.is_some() && !must_not_be_cut, "{end:?}"),
                    Verdict::GoOn => {
                        assert!(bad.is_none() && (end.is_followed || !end.is_marked), "{end:?}")
                    }
                    Verdict::Refuse => assert!(corrupt(number) == Some(true), "{end:?}"),
                }
                assert_eq!(corrupt(number).is_some(), verdict == Verdict::Refuse, "{end:?}");
                rows.insert(number);
                count += 1;
            }
        }
        println!("{count} combinations at the end of a segment, rows {rows:?}");
        assert_eq!(rows, BTreeSet::from([4, 5, 7, 8, 20, 21, 22, 23]));
    }

    /// Every combination of a header: what has more behind it, or a segment after it, is never
    /// removed, and a header is taken only from a copy that verifies.
    #[test]
    fn every_head() {
        let states = [CopyState::Whole, CopyState::OtherVersion, CopyState::Bad];
        let mut rows = BTreeSet::new();
        let mut count = 0;
        for first in states {
            for second in states {
                for bits in 0..32 {
                    let head = Head {
                        copies: [first, second],
                        are_equal: bits & 1 != 0,
                        is_followed: bits & 2 != 0,
                        has_more: bits & 4 != 0,
                        is_half_made: bits & 8 != 0,
                        is_short: bits & 16 != 0,
                    };
                    let (number, verdict) = judge_head(head);
                    let refused = match verdict {
                        HeadVerdict::Take => {
                            assert!(head.copies == [CopyState::Whole; 2] && head.are_equal);
                            false
                        }
                        HeadVerdict::TakeOnly(index) => {
                            assert_eq!(head.copies[index], CopyState::Whole);
                            assert_eq!(head.copies[1 - index], CopyState::Bad);
                            false
                        }
                        HeadVerdict::Remove => {
                            assert!(!head.is_followed && !head.has_more, "{head:?}");
                            false
                        }
                        HeadVerdict::OtherVersion(index) => {
                            assert_eq!(head.copies[index], CopyState::OtherVersion);
                            true
                        }
                        HeadVerdict::Contradicts | HeadVerdict::Damaged | HeadVerdict::CutShort => {
                            true
                        }
                    };
                    assert_eq!(corrupt(number).is_some(), refused, "{head:?}");
                    rows.insert(number);
                    count += 1;
                }
            }
        }
        println!("{count} combinations of a header, rows {rows:?}");
        assert_eq!(rows, BTreeSet::from([4, 6, 8, 10, 11, 12, 13]));
    }
}
