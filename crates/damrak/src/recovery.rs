//! From a journal back to the state: replay, and what the configuration must still add to it.

use std::{error::Error, fmt, path::Path};

use engine::Engine;
use journal::{Folder, Kind, OpenError, Options, Record, Report, Storage, VerifyError, Writer};
use market::{
    AddInstrument, AddSession, CancelOnDisconnect, Command, DecodeError, Input, Output, Sequence,
    SystemEvent, Timestamp,
};

use crate::{config::Config, failure::Failure};

/// A journal that was read without being opened for writing.
pub struct Replay {
    /// The state after its last record.
    pub engine: Engine,
    /// What was read.
    pub report: Report,
}

/// Replays the journal of a folder without changing it. `after` is called after each input with
/// the state it led to, `each` with every output.
///
/// # Errors
/// There is no journal, or it is corrupt; the failure names file and offset.
pub fn replay_folder(
    directory: &Path,
    after: &mut dyn FnMut(&Input, &Engine),
    each: &mut dyn FnMut(&Output),
) -> Result<Replay, Failure> {
    replay(&mut Folder::new(directory), after, each)
}

/// As [`replay_folder`], from any storage.
///
/// # Errors
/// See [`replay_folder`].
pub fn replay(
    storage: &mut dyn Storage,
    after: &mut dyn FnMut(&Input, &Engine),
    each: &mut dyn FnMut(&Output),
) -> Result<Replay, Failure> {
    let mut engine = Engine::new();
    let report = journal::verify(storage, &mut |record| {
        if let Some(input) = apply(&mut engine, record, each)? {
            after(&input, &engine);
        }
        Ok::<(), NotACommand>(())
    })
    .map_err(|error| verify_failure(&error))?;
    Ok(Replay { engine, report })
}

/// Opens the journal of `storage` for writing, after replaying it through a fresh engine. `each`
/// is called with every output.
///
/// # Errors
/// It cannot be read, is in use, is foreign or is corrupt.
pub fn recover(
    storage: Box<dyn Storage>,
    options: &Options,
    each: &mut dyn FnMut(&Output),
) -> Result<(Engine, Writer, Report), Failure> {
    let mut engine = Engine::new();
    let (writer, report) =
        journal::open(storage, options, &mut |record| apply(&mut engine, record, each).map(|_| ()))
            .map_err(|error| open_failure(&error))?;
    Ok((engine, writer, report))
}

fn apply(
    engine: &mut Engine,
    record: Record<'_>,
    each: &mut dyn FnMut(&Output),
) -> Result<Option<Input>, NotACommand> {
    if record.kind == Kind::Note {
        return Ok(None);
    }
    let command = Command::decode(record.payload)
        .map_err(|error| NotACommand { sequence: record.sequence, error })?;
    let input = Input {
        sequence: Sequence(record.sequence),
        timestamp: Timestamp(record.timestamp),
        command,
    };
    let (cause, timestamp) = (input.sequence, input.timestamp);
    engine.apply(&input, &mut |event| each(&Output { cause, timestamp, event }));
    Ok(Some(input))
}

/// A record that is whole, but was written by another program or another version.
#[derive(Debug)]
struct NotACommand {
    sequence: u64,
    error: DecodeError,
}

impl fmt::Display for NotACommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "record {} is whole, but is not a command: {}; it was written by another version of \
             damrak, or by another program",
            self.sequence, self.error
        )
    }
}

impl Error for NotACommand {}

pub(crate) fn open_failure(error: &OpenError) -> Failure {
    if error.is_corruption() {
        Failure::verification(causes(error))
    } else {
        Failure::environment(causes(error))
    }
}

fn verify_failure(error: &VerifyError) -> Failure {
    if error.is_corruption() {
        Failure::verification(causes(error))
    } else {
        Failure::environment(causes(error))
    }
}

/// The error and what caused it, in one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !text.ends_with(&because) {
            text.push_str(": ");
            text.push_str(&because);
        }
        cause = error.source();
    }
    text
}

/// Adds to journal and state what the configuration has and they have not, before anybody else
/// can ask for something. `each` is called with every output.
///
/// # Errors
/// The configuration contradicts the journal, or the journal cannot be written.
pub fn complete(
    config: &Config,
    now_ns: u64,
    engine: &mut Engine,
    writer: &mut Writer,
    each: &mut dyn FnMut(&Output),
) -> Result<(), Failure> {
    let failed = |error: journal::AppendError| Failure::runtime(causes(&error));
    for command in bootstrap(config, engine)? {
        let sequence = engine.sequence().next();
        let timestamp = engine.timestamp().max(Timestamp(now_ns));
        let mut payload = [0; Command::ENCODED_LEN_MAX];
        let len = command.encode(&mut payload);
        writer.append(sequence.0, timestamp.0, &payload[..len]).map_err(failed)?;
        engine.apply(&Input { sequence, timestamp, command }, &mut |event| {
            each(&Output { cause: sequence, timestamp, event });
        });
    }
    writer.commit().map_err(failed)?;
    Ok(())
}

/// The commands that make the state what the configuration says: all of it for a new journal,
/// what was added since for an old one.
///
/// # Errors
/// The configuration contradicts the journal.
pub fn bootstrap(config: &Config, engine: &Engine) -> Result<Vec<Command>, Failure> {
    let mut commands = Vec::new();
    let phase = engine.system_event();
    if matches!(phase, Some(SystemEvent::EndOfMessages)) {
        return Err(Failure::usage("the day of this journal is over")
            .hint("set journal.directory to a new folder"));
    }
    if phase.is_none() {
        commands.push(Command::System(SystemEvent::StartOfMessages));
    }
    for instrument in &config.instruments {
        let wanted = AddInstrument {
            symbol: instrument.symbol().map_err(Failure::usage)?,
            price_increment: instrument.price_increment(),
            round_lot: instrument.round_lot(),
        };
        match engine.instruments().find(|known| known.symbol == wanted.symbol) {
            None => commands.push(Command::AddInstrument(wanted)),
            Some(known)
                if known.price_increment != wanted.price_increment
                    || known.round_lot != wanted.round_lot =>
            {
                return Err(contradiction(&format!(
                    "instrument {} has price increment {} ticks and round lot {} in the journal",
                    known.symbol, known.price_increment, known.round_lot
                )));
            }
            Some(_) => {}
        }
    }
    for participant in &config.participants {
        let wanted = AddSession {
            username: participant.username().map_err(Failure::usage)?,
            firm: participant.firm().map_err(Failure::usage)?,
            live_orders_max: participant.live_orders_max,
            self_match_prevention: participant.self_match_prevention.prevention(),
        };
        match engine.sessions().find(|known| *known.username() == wanted.username) {
            None => commands.push(Command::AddSession(wanted)),
            Some(known)
                if known.firm() != wanted.firm
                    || known.live_orders_max() != wanted.live_orders_max
                    || known.self_match_prevention() != wanted.self_match_prevention =>
            {
                return Err(contradiction(&format!(
                    "participant {} has firm {}, at most {} live orders and self-match prevention \
                     {:?} in the journal",
                    known.username(),
                    known.firm(),
                    known.live_orders_max(),
                    known.self_match_prevention()
                )));
            }
            Some(_) => {}
        }
    }
    // Nobody is connected when a venue starts.
    for participant in config.participants.iter().filter(|row| row.cancel_on_disconnect) {
        let username = participant.username().map_err(Failure::usage)?;
        let known = engine.sessions().find(|known| *known.username() == username);
        if let Some(known) = known.filter(|known| known.live_orders() > 0) {
            let session_id = known.session_id();
            commands.push(Command::CancelOnDisconnect(CancelOnDisconnect { session_id }));
        }
    }
    if matches!(phase, None | Some(SystemEvent::StartOfMessages)) {
        commands.push(Command::System(SystemEvent::StartOfSystemHours));
    }
    if matches!(phase, None | Some(SystemEvent::StartOfMessages | SystemEvent::StartOfSystemHours))
    {
        commands.push(Command::System(SystemEvent::StartOfMarketHours));
    }
    Ok(commands)
}

fn contradiction(what: &str) -> Failure {
    Failure::usage(format!("{what}, and the configuration says otherwise"))
        .hint("put the old values back, or set journal.directory to a new folder")
}
