//! A command with its sequence and time: the element of the input ring and of the journal.
//!
//! Invariant: it fits two cache lines.

use crate::{Command, Sequence, Timestamp};

/// A sequenced command: an element of the input ring, and a record of the journal.
///
/// The sequencer gives each input its sequence and time, once. All later state is a function of the
/// inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Input {
    /// Sequence in the log.
    pub sequence: Sequence,
    /// Time; never before that of the previous input.
    pub timestamp: Timestamp,
    /// The command.
    pub command: Command,
}

crate::assert_layout! {
    Input, 128 { sequence: 0, timestamp: 8, command: 16 }
}
