//! A command tried on a copy of the state: the newest snapshot and the journal after it, replayed
//! through the same core. The venue does not notice.

use std::path::Path;

use engine::Engine;
use journal::Folder;
use market::{Command, Event, Input, OperatorCommand, OperatorResult, VenueEvent};

use crate::{failure::Failure, follower::Follower};

/// Records replayed per step.
const RECORDS: usize = 1 << 16;

/// The state of a journal after the input `until`, or after its last input.
pub fn current_state(journal: &Path, until: u64) -> Result<Engine, Failure> {
    let storage = Folder::new(journal);
    let mut follower = Follower::begin(&storage, &mut Folder::new(journal), until, None)?;
    while follower.poll(RECORDS, until, &mut |_| ())? > 0 {}
    Ok(follower.into_engine())
}

pub(super) fn run(
    journal: &Path,
    durable: u64,
    command: OperatorCommand,
) -> Result<OperatorResult, Failure> {
    let mut engine = current_state(journal, durable)?;
    let input = Input {
        sequence: engine.sequence().next(),
        timestamp: engine.timestamp(),
        command: Command::Operate(command),
    };
    let mut found = None;
    engine.apply(&input, &mut |event| {
        if let Event::Venue(VenueEvent::Operated(result)) = event {
            found = Some(result);
        }
    });
    Ok(found.expect("each command of an operator has a result"))
}
