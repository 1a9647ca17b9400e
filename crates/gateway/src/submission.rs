//! The commands that gateways hand to the sequencer.

use market::{Command, Timestamp};

/// A command on its way from a gateway to the sequencer, which gives it its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Submission {
    /// The start of the turn in which the gateway read the command.
    pub received: Timestamp,
    pub command: Command,
}

market::assert_layout! {
    Submission, 120 { received: 0, command: 8 }
}

/// The steps of a turn that a command takes which [searches](Command::searches), while its session alone trades. The
/// core needs some 3 µs for such a command where the orders that it looks at are in the cache: the time of a gateway
/// and the core together for that many plain orders.
const STEPS_OF_SEARCH: usize = 8;

/// The steps while other sessions trade too: all steps of a session. Where the orders are in no cache, a search takes
/// up to 20 µs.
const STEPS_OF_SEARCH_SHARED: usize = 32;

/// The steps of a turn that a command takes, so that a turn of searches delays other sessions no longer than a turn of
/// plain orders.
pub(crate) fn steps(command: &Command, is_shared: bool) -> usize {
    match (command.searches(), is_shared) {
        (false, _) => 1,
        (true, false) => STEPS_OF_SEARCH,
        (true, true) => STEPS_OF_SEARCH_SHARED,
    }
}
