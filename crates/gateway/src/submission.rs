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

/// The steps of a turn that a command takes which [searches](Command::searches). The core needs some 3 µs for one, as
/// long as a gateway and the core together for so many plain orders.
const STEPS_OF_SEARCH: usize = 8;

/// The steps of a turn that a command takes, so that a turn of searches keeps others waiting no longer than a turn of
/// plain orders.
pub(crate) fn steps(command: &Command) -> usize {
    if command.searches() { STEPS_OF_SEARCH } else { 1 }
}
