//! The recovery table: the decision at opening for each kind of damage.
//!
//! [`TABLE`] is the table of docs/journal.md as data. The two decisions that depend on several
//! conditions are functions without I/O. A test compares the table with the document; others walk
//! every combination. Invariant: no record at or below the watermark, and no record before another
//! batch, is ever truncated.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The number, from 1; never reused for another row.
    pub number: u8,
    /// The state that opening finds.
    pub found: &'static str,
    /// The action of opening.
    pub does: &'static str,
    /// Set where opening refuses: true if the journal is damaged (exit code 4), false if its
    /// surroundings are wrong (exit code 3).
    pub corrupt: Option<bool>,
}

const fn row(
    number: u8,
    found: &'static str,
    does: &'static str,
    corrupt: Option<bool>,
) -> TableRow {
    TableRow { number, found, does, corrupt }
}

/// The decision table.
pub const TABLE: [TableRow; 29] = [
    row(
        1,
        "no folder, an empty one, or only a lock that no process holds",
        "creates a journal (`verify` refuses)",
        None,
    ),
    row(
        2,
        "other files and no segment",
        "refuses, and writes nothing into the folder",
        Some(false),
    ),
    row(
        3,
        "the folder or a file cannot be read or written",
        "refuses, and says what to do",
        Some(false),
    ),
    row(
        4,
        "everything verifies, up to the end of the last segment or the zeros there",
        "replays it; the writer goes on in a new segment",
        None,
    ),
    row(
        5,
        "last segment: a bad batch beyond the watermark, and no good batch after it (at \
         any multiple of 8)",
        "torn tail: truncates from the start of the batch, syncs, reports it",
        None,
    ),
    row(
        6,
        "last segment: the header does not have two whole copies, zeros or nothing after \
         it, and what is there is what a crash leaves: one copy, the beginning of one, \
         zeros, nothing",
        "never held a record: removes it, reports it",
        None,
    ),
    row(
        7,
        "last segment: a bad batch beyond the watermark, and after it a good one",
        "refuses",
        Some(true),
    ),
    row(
        8,
        "a segment that another one follows: its end is bad, or lies within its header",
        "refuses",
        Some(true),
    ),
    row(
        9,
        "a segment begins after the end of the one before it, or the first one does not \
         begin with 1: a segment is missing, or was truncated between two batches",
        "refuses, and names the segment after the gap",
        Some(true),
    ),
    row(
        10,
        "one copy of the header is bad, the other is good, and records follow",
        "replays it, reports the copy",
        None,
    ),
    row(11, "both copies of the header are bad", "refuses", Some(true)),
    row(12, "both copies of the header are good and differ", "refuses", Some(true)),
    row(
        13,
        "the header or the watermark is good and has another format version",
        "refuses",
        Some(false),
    ),
    row(
        14,
        "the header has another journal id than the segments before it: foreign",
        "refuses",
        Some(true),
    ),
    row(
        15,
        "the header has another first sequence than the file name: a duplicate of a \
         segment that is there, two segments exchanged, or one misdirected; or a file \
         ends in `.damrak` and does not have the name of a segment",
        "refuses, and says which",
        Some(true),
    ),
    row(16, "a good batch that is not the next one", "refuses", Some(true)),
    row(
        17,
        "a good batch whose timestamp is before that of the record before it",
        "refuses",
        Some(true),
    ),
    row(18, "a good record whose payload the core does not accept", "refuses", Some(true)),
    row(
        19,
        "another process holds the lock",
        "refuses, and names it (`verify` does not look at the lock)",
        Some(false),
    ),
    row(20, "a good batch whose bytes are not as many records as it says", "refuses", Some(true)),
    row(21, "a segment that was prepared and never begun", "removes it", None),
    row(22, "last segment: a bad batch at or below the watermark", "refuses", Some(true)),
    row(
        23,
        "everything verifies and ends below the watermark: a last segment is missing, or \
         was truncated",
        "refuses",
        Some(true),
    ),
    row(24, "a good batch whose chain does not continue those before it", "refuses", Some(true)),
    row(
        25,
        "the header's chain does not continue the records before it, or its epoch is \
         earlier: stale",
        "refuses",
        Some(true),
    ),
    row(26, "a segment begins before the end of the one before it", "refuses", Some(true)),
    row(
        27,
        "a good batch of an unknown version, or with a record of an unknown kind",
        "refuses",
        Some(false),
    ),
    row(
        28,
        "one copy of the watermark is bad, the other is good",
        "uses the good one, reports the bad one",
        None,
    ),
    row(
        29,
        "segments, and the watermark is missing, or bad in both copies, or of another \
         journal",
        "refuses",
        Some(true),
    ),
];

/// A batch that does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// A batch that verifies lies behind it in the same segment.
    pub(crate) before_a_good_one: bool,
}

/// The bytes at the end of a segment's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The batch that does not verify; `None` where the end is clean.
    pub(crate) bad: Option<Bad>,
    /// Another segment follows.
    pub(crate) is_followed: bool,
    /// The next record is at or below the watermark.
    pub(crate) is_required: bool,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    Truncate,
    Refuse,
}

/// The row for the end of a segment, and its verdict.
pub(crate) const fn decide_end(end: End) -> (u8, Verdict) {
    match end {
        End { bad: None, is_followed: true, .. } => (4, Verdict::GoOn),
        End { bad: None, is_required: false, .. } => (4, Verdict::GoOn),
        End { bad: None, is_required: true, .. } => (23, Verdict::Refuse),
        End { bad: Some(_), is_followed: true, .. } => (8, Verdict::Refuse),
        End { bad: Some(_), is_required: true, .. } => (22, Verdict::Refuse),
        End { bad: Some(Bad { before_a_good_one: false }), .. } => (5, Verdict::Truncate),
        End { bad: Some(Bad { before_a_good_one: true }), .. } => (7, Verdict::Refuse),
    }
}

/// A copy of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// It verifies.
    Whole,
    /// It verifies but has an unknown version.
    OtherVersion,
    /// It does not verify.
    Bad,
}

/// The facts about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) copies: [CopyState; 2],
    /// Both copies verify and are equal.
    pub(crate) are_equal: bool,
    /// Another segment follows.
    pub(crate) is_followed: bool,
    /// Bytes other than zeros lie behind both copies.
    pub(crate) has_more: bool,
    /// The bytes of the copies could be left by a crash while they were written.
    pub(crate) is_half_made: bool,
    /// The file ends before the second copy does.
    pub(crate) is_short: bool,
}

/// The decision about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderVerdict {
    /// Both copies are whole.
    Take,
    /// The copy with this index is used; the other one is damaged.
    TakeOnly(usize),
    /// The segment never had a record.
    Remove,
    /// The copy with this index has another version.
    OtherVersion(usize),
    Contradicts,
    Damaged,
    CutShort,
}

/// The row for the header of a segment, and its verdict.
pub(crate) const fn decide_header(head: Head) -> (u8, HeaderVerdict) {
    use CopyState::{Bad, OtherVersion, Whole};
    let may_be_half_made = !head.is_followed && !head.has_more;
    match head.copies {
        [Whole, Whole] if head.are_equal => (4, HeaderVerdict::Take),
        [Whole, Whole | OtherVersion] | [OtherVersion, Whole] => (12, HeaderVerdict::Contradicts),
        [OtherVersion, _] => (13, HeaderVerdict::OtherVersion(0)),
        [Bad, OtherVersion] => (13, HeaderVerdict::OtherVersion(1)),
        [Whole, Bad] | [Bad, Whole] if may_be_half_made => (6, HeaderVerdict::Remove),
        [Whole, Bad] if head.is_short => (8, HeaderVerdict::CutShort),
        [Whole, Bad] => (10, HeaderVerdict::TakeOnly(0)),
        [Bad, Whole] => (10, HeaderVerdict::TakeOnly(1)),
        [Bad, Bad] if may_be_half_made && head.is_half_made => (6, HeaderVerdict::Remove),
        [Bad, Bad] => (11, HeaderVerdict::Damaged),
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
        assert_eq!(numbers, (1..=29).collect::<Vec<u8>>());
    }

    /// Every combination at the end of a segment: no batch that is required, is followed by a
    /// segment, or has a later batch after it is ever truncated; the verdict is that of the row.
    #[test]
    fn every_end() {
        let mut rows = BTreeSet::new();
        let mut count = 0;
        let bad = |before_a_good_one| Some(Bad { before_a_good_one });
        for bad in [None, bad(false), bad(true)] {
            for bits in 0..4 {
                let end = End { bad, is_followed: bits & 1 != 0, is_required: bits & 2 != 0 };
                let (number, verdict) = decide_end(end);
                let is_before_a_good_one = bad.is_some_and(|bad| bad.before_a_good_one);
                let must_be_kept = end.is_followed || end.is_required || is_before_a_good_one;
                match verdict {
                    Verdict::Truncate => assert!(bad.is_some() && !must_be_kept, "{end:?}"),
                    Verdict::GoOn => {
                        assert!(bad.is_none() && (end.is_followed || !end.is_required), "{end:?}")
                    }
                    Verdict::Refuse => assert!(corrupt(number) == Some(true), "{end:?}"),
                }
                assert_eq!(corrupt(number).is_some(), verdict == Verdict::Refuse, "{end:?}");
                rows.insert(number);
                count += 1;
            }
        }
        println!("{count} combinations at the end of a segment, rows {rows:?}");
        assert_eq!(rows, BTreeSet::from([4, 5, 7, 8, 22, 23]));
    }

    /// Every combination of a header: a header with more bytes or a segment after it is never
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
                    let (number, verdict) = decide_header(head);
                    let refused = match verdict {
                        HeaderVerdict::Take => {
                            assert!(head.copies == [CopyState::Whole; 2] && head.are_equal);
                            false
                        }
                        HeaderVerdict::TakeOnly(index) => {
                            assert_eq!(head.copies[index], CopyState::Whole);
                            assert_eq!(head.copies[1 - index], CopyState::Bad);
                            false
                        }
                        HeaderVerdict::Remove => {
                            assert!(!head.is_followed && !head.has_more, "{head:?}");
                            false
                        }
                        HeaderVerdict::OtherVersion(index) => {
                            assert_eq!(head.copies[index], CopyState::OtherVersion);
                            true
                        }
                        HeaderVerdict::Contradicts
                        | HeaderVerdict::Damaged
                        | HeaderVerdict::CutShort => true,
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
