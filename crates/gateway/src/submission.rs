//! What gateways hand to the sequencer.

use market::{Command, Timestamp};

/// A command on its way from a gateway to the sequencer, which gives it its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When the turn began in which the gateway read it.
    pub received: Timestamp,
    pub command: Command,
}

const _: () = assert!(size_of::<Submission>() <= 128, "a submission fits two cache lines");
