//! A command with its place and its time: the element of the input ring and of the journal.
//!
//! Invariant: it fits two cache lines.

use crate::{Command, Sequence, Timestamp};

/// A sequenced command: what the input ring carries and the journal keeps.
///
/// Its place and time are given once, by the sequencer; everything after is a function of the
/// inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its place in the log.
    pub sequence: Sequence,
    /// Its time; never before that of the input before it.
    pub timestamp: Timestamp,
    /// What is asked.
    pub command: Command,
}

const _: () = assert!(size_of::<Input>() <= 128, "an input fits two cache lines");
