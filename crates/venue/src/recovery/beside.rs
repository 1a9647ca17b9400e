//! The thread that takes the lines of a replay, so that the engine need not wait until they are encoded.
//!
//! Invariants: every line is taken, in the order of the replay, before the replay is over. A replay of few lines, or on one
//! core, has no such thread.

use std::thread::{self, Scope};

use market::OutputLine;
use ring::Consumer;

use super::{
    Past,
    handover::{Giver, Patience, has_two_cores, make_ring},
};
use crate::failure::Failure;

/// Lines taken on the thread of the replay before a second thread starts. Unit tests use few, so that both threads take
/// some.
const LINES_ALONE: usize = if cfg!(test) { 8 } else { 4096 };

/// Lines after which their slots go back to the writer.
const LINES_A_TURN: usize = 256;

/// Calls `replay` with a function that passes its argument to `take`: on this thread at first, and on another one for
/// most lines of a long replay.
///
/// # Errors
/// The replay failed, or the system has no room for another thread.
pub(crate) fn replay_beside<T>(
    mut take: impl FnMut(Past<'_>) + Send,
    replay: impl FnOnce(&mut dyn FnMut(Past<'_>)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let take = &mut take;
    let mut alone = 0;
    let refused = &mut None;
    let replayed = thread::scope(|scope| {
        let mut taker = Taker::Here(take);
        replay(&mut |past| {
            let Past::Line(line) = past else { return taker.here()(past) };
            alone += 1;
            if alone == LINES_ALONE && has_two_cores() {
                *refused = taker.leave(scope).err();
            }
            taker.take(line);
        })
    });
    match refused.take() {
        Some(failure) => Err(failure),
        None => replayed,
    }
}

/// The thread that takes the lines.
enum Taker<'a, F> {
    Here(&'a mut F),
    /// On the thread that reads this ring. It ends when the ring is closed and empty.
    There(Giver<OutputLine>),
    /// None: there is no room for the thread, and the replay is discarded.
    Nowhere,
}

impl<'a, F: FnMut(Past<'_>) + Send> Taker<'a, F> {
    fn here(&mut self) -> &mut F {
        let Self::Here(take) = self else { panic!("messages and state come before the lines") };
        take
    }

    /// Moves the taking of all further lines to another thread.
    ///
    /// # Errors
    /// The system has no room for the thread.
    fn leave<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<(), Failure>
    where
        'a: 'scope,
        F: 'scope,
    {
        let Self::Here(take) = std::mem::replace(self, Self::Nowhere) else { return Ok(()) };
        let (giver, lines) = make_ring("lines of the replay", "gateways");
        let thread = thread::Builder::new().name("damrak-replay".to_owned());
        thread
            .spawn_scoped(scope, move || take_all(lines, take))
            .map_err(|error| Failure::environment(format!("cannot start a thread: {error}")))?;
        *self = Self::There(giver);
        Ok(())
    }

    fn take(&mut self, line: &OutputLine) {
        match self {
            Self::Here(take) => take(Past::Line(line)),
            Self::There(lines) => lines.give(*line),
            Self::Nowhere => {}
        }
    }
}

fn take_all(mut lines: Consumer<OutputLine>, take: &mut impl FnMut(Past<'_>)) {
    let mut patience = Patience::default();
    while !lines.is_finished() {
        match lines.drain(LINES_A_TURN, |line, _| take(Past::Line(line))) {
            0 => patience.wait(),
            _ => patience = Patience::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use market::{Command, Input, Sequence, SystemEvent, Timestamp};

    use super::*;
    use crate::snapshot::VenueState;

    fn line(number: u64) -> OutputLine {
        let mut made = None;
        let command = Command::System(SystemEvent::StartOfMessages);
        let input = Input { sequence: Sequence(1), timestamp: Timestamp(number), command };
        VenueState::default().apply(&input, &mut |line| made = made.or(Some(*line)));
        made.expect("a day begins with an event")
    }

    /// Few lines and many arrive in the order of the replay, and all of them before it is over.
    #[test]
    fn all_lines_are_taken_in_order() {
        for count in [0, 1, 7, 8, 9, 24, 25, 1_000] {
            let mut taken = Vec::new();
            let take = |past: Past<'_>| {
                if let Past::Line(line) = past {
                    taken.push(line.timestamp.0);
                }
            };
            let replayed = replay_beside(take, |each| {
                (1..=count).for_each(|number| each(Past::Line(&line(number))));
                Ok(count)
            });
            assert_eq!(replayed.unwrap(), count);
            assert!(taken.iter().copied().eq(1..=count), "{count}: {taken:?}");
        }
    }
}
