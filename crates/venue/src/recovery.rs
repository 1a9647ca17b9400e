//! Recovery: replays the journal, then adds the settings of the configuration that the journal lacks.
//!
//! Invariant: the state follows from the journal alone, by the events whose digests are recorded in it.

mod beside;
pub(crate) mod choose;
mod handover;
mod read_ahead;

use std::{collections::BTreeMap, error::Error, fmt, path::Path};

use engine::{Engine, HeldSetting};
use gateway::MessageArchive;
use journal::{
    Folder, OpenError, Record, RecoveryReport, SnapshotError, SnapshotSummary, Storage,
    VerifyError, WithArchives, Writer, WriterOptions,
};
use market::{
    AccountId, AddInstrument, AddSession, AssignSession, CancelOnDisconnect, Command, Event, Input,
    LiveOrdersMax, MoneyCommand, MoneyEvent, Outcome, OutputLine, SessionId, SystemEvent,
    Timestamp, VenueCommand,
};

use wire::fix::{CompId, DropCopyNote, FixNote};

use crate::{
    checkpoint::{self, Difference, DigestCheck, DigestRecord},
    config::{self, Config, MoneyPlan, ParticipantConfig},
    failure::{Failure, causes},
    follower::{After, Replica, TakeRecord},
    snapshot::{self, NotACommand, VenueState},
};

pub(crate) use beside::replay_beside;
pub use choose::confirm;
use choose::{Age, Choice, choose};

/// A journal read without being opened for writing.
pub struct Replay {
    pub state: VenueState,
    pub report: RecoveryReport,
    pub digests: DigestCheck,
    /// The snapshot at the beginning: only if the first records were removed.
    pub snapshot: Option<SnapshotSummary>,
}

/// Replays the journal of a folder without changing it. `after` is called after each input with the state after it,
/// `each` with every line.
///
/// # Errors
/// There is no journal, or it is corrupt, or its events differ from its digests; the failure names file and offset.
pub fn replay_folder(
    directory: &Path,
    after: &mut After<'_>,
    each: &mut dyn FnMut(&OutputLine),
) -> Result<Replay, Failure> {
    replay(&mut folder_with_archives(directory), after, each)
}

/// A folder for reading, archived segments included.
pub fn folder_with_archives(directory: &Path) -> WithArchives {
    WithArchives::new(Box::new(Folder::new(directory)))
}

/// Replays a journal as [`replay_folder`] does, from any storage. Begins with the first record; if that was removed
/// because snapshots cover it, with the oldest usable snapshot.
pub fn replay(
    storage: &mut dyn Storage,
    after: &mut After<'_>,
    each: &mut dyn FnMut(&OutputLine),
) -> Result<Replay, Failure> {
    let (mut replica, mut snapshot) = (Replica::default(), None);
    let first = journal::first_sequence(storage).unwrap_or(None);
    if first.is_some_and(|first| first > 1) {
        let mut files = storage.second();
        let choice = choose(&*storage.second(), &mut *files, Age::Oldest, u64::MAX, None)?;
        if let Some((summary, found)) = choice.found {
            replica.state = found;
            snapshot = Some(summary);
        }
    }
    let from = replica.state.engine.sequence().0;
    let is_in_order = storage.is_in_order();
    let read = |take: &mut TakeRecord<'_>| {
        journal::verify_from(storage, from, &mut |record| take(&record))
    };
    let report = replay_read(&mut replica, is_in_order, after, each, read)?
        .map_err(|error| verify_failure(&error))?;
    let Replica { state, digests } = replica;
    Ok(Replay { state, report, digests, snapshot })
}

/// A journal opened for writing, and the state after it.
pub struct Recovery {
    pub state: VenueState,
    pub writer: Writer,
    pub report: RecoveryReport,
    /// The snapshot at the beginning, if there was one.
    pub snapshot: Option<SnapshotSummary>,
    /// Newer snapshots that could not be used, and the reasons.
    pub passed_over: Vec<SnapshotError>,
}

/// Messages and lines from before the start, for the gateways, in this order.
pub enum Past<'a> {
    /// The messages in the snapshot at the beginning of the recovery: at most once, first.
    Messages(&'a MessageArchive),
    /// The state in that snapshot, after them.
    State(&'a Engine),
    /// A line of an input after it.
    Line(&'a OutputLine),
}

/// Opens the journal of `storage` for writing, after replaying it through a fresh engine. `each`
/// is called with every line.
///
/// # Errors
/// The journal cannot be read, is in use, is foreign or corrupt, or its events differ from its digests.
pub fn recover(
    storage: Box<dyn Storage>,
    options: &WriterOptions,
    each: &mut dyn FnMut(&OutputLine),
) -> Result<(VenueState, Writer, RecoveryReport), Failure> {
    let mut replica = Replica::default();
    let (writer, report) =
        open(storage, options, &mut replica, each)?.map_err(|error| open_failure(&error))?;
    Ok((replica.state, writer, report))
}

/// Opens a journal, and applies the records after the engine's state.
///
/// # Errors
/// The system has no room for another thread.
fn open(
    storage: Box<dyn Storage>,
    options: &WriterOptions,
    replica: &mut Replica,
    each: &mut dyn FnMut(&OutputLine),
) -> Result<Result<(Writer, RecoveryReport), OpenError>, Failure> {
    let from = replica.state.engine.sequence().0;
    let options = WriterOptions { from, ..options.clone() };
    let is_in_order = storage.is_in_order();
    let read =
        |take: &mut TakeRecord<'_>| journal::open(storage, &options, &mut |record| take(&record));
    replay_read(replica, is_in_order, &mut |_, _, _| {}, each, read)
}

/// Applies the records that `read` shows. Reading has a thread of its own, unless all must happen in one order or there
/// is only one core.
///
/// # Errors
/// The system has no room for another thread.
fn replay_read<T: Send>(
    replica: &mut Replica,
    is_in_order: bool,
    after: &mut After<'_>,
    each: &mut dyn FnMut(&OutputLine),
    read: impl FnOnce(&mut TakeRecord<'_>) -> T + Send,
) -> Result<T, Failure> {
    if is_in_order || !handover::has_two_cores() {
        return Ok(replica.replay(after, each, read));
    }
    read_ahead::replay_ahead(replica, after, each, read)
        .map_err(|error| Failure::environment(format!("cannot start a thread: {error}")))
}

/// Opens the journal of `storage` for writing, after replaying it through an engine: from the newest usable snapshot in
/// `snapshots`, or from the first record. `take` receives the messages and lines that the edges need.
///
/// # Errors
/// The journal cannot be read, is in use, is foreign or corrupt, or its events differ from its digests.
pub fn resume(
    storage: Box<dyn Storage>,
    snapshots: &mut dyn Storage,
    options: &WriterOptions,
    archive_bytes: usize,
    take: &mut dyn FnMut(Past<'_>),
) -> Result<Recovery, Failure> {
    let Choice { found, passed_over } =
        choose(&*storage, snapshots, Age::Newest, u64::MAX, Some(archive_bytes))?;
    let (mut snapshot, mut replica) = (None, Replica::default());
    if let Some((summary, mut state)) = found {
        // From here on the gateways keep the messages.
        let archive = state.archive.take().expect("messages were asked for");
        take(Past::Messages(&archive));
        take(Past::State(&state.engine));
        (snapshot, replica.state) = (Some(summary), state);
    }
    let opened = open(storage, options, &mut replica, &mut |line| take(Past::Line(line)))?;
    let (writer, report) = opened.map_err(|error| {
        let failure = open_failure(&error);
        match passed_over.first() {
            None => failure,
            Some(first) => failure.hint(format!("the newest snapshot is ignored as well: {first}")),
        }
    })?;
    Ok(Recovery { state: replica.state, writer, report, snapshot, passed_over })
}

pub fn decode(record: &Record<'_>) -> Result<Input, NotReplayed> {
    snapshot::input_of(record.sequence, record.timestamp, record.payload)
        .map_err(NotReplayed::NotACommand)
}

/// The reason why a whole record was not applied.
#[derive(Debug)]
pub enum NotReplayed {
    /// Another program or another version wrote the record.
    NotACommand(NotACommand),
    /// The events of the replay differ from those of the venue.
    OtherEvents(Difference),
}

impl fmt::Display for NotReplayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACommand(error) => error.fmt(f),
            Self::OtherEvents(Difference { sequence, recorded, replayed }) => write!(
                f,
                "up to sequence {sequence} the venue had event digest {:016x}, and the replay has \
                 {:016x}; use the version of damrak that wrote the journal",
                recorded.word(),
                replayed.word()
            ),
        }
    }
}

impl Error for NotReplayed {}

/// The failure to open a journal: exit code 4 if it is damaged, else 3.
pub fn open_failure(error: &OpenError) -> Failure {
    if error.is_corruption() {
        Failure::verification(causes(error))
    } else {
        Failure::environment(causes(error))
    }
}

/// The failure to read a journal: exit code 4 if it is damaged, else 3.
pub fn verify_failure(error: &VerifyError) -> Failure {
    if error.is_corruption() {
        Failure::verification(causes(error))
    } else {
        Failure::environment(causes(error))
    }
}

/// Adds the settings of the configuration that journal and `state` lack, before any client connects. Calls `each` with
/// every line. Returns the changed settings, as text.
///
/// # Errors
/// The configuration contradicts the journal, or the journal cannot be written.
pub fn complete(
    config: &Config,
    now_ns: u64,
    state: &mut VenueState,
    writer: &mut Writer,
    each: &mut dyn FnMut(&OutputLine),
) -> Result<Vec<String>, Failure> {
    let failed = |error: journal::AppendError| Failure::runtime(causes(&error));
    let Bootstrap { commands, changes } = bootstrap(config, &state.engine)?;
    let mut inputs = Vec::with_capacity(commands.len());
    for command in commands {
        let sequence = state.engine.sequence().next();
        let timestamp = state.engine.timestamp().max(Timestamp(now_ns));
        let input = Input { sequence, timestamp, command };
        let mut declined = None;
        state.apply(&input, &mut |line| {
            if let Outcome::Event(Event::Money(MoneyEvent::Declined(it))) = line.outcome {
                declined = Some(it.reason);
            }
            each(line);
        });
        // The journal is still empty.
        if let Some(reason) = declined {
            return Err(contradiction(&format!("{command:?} is declined: {reason:?}")));
        }
        inputs.push(input);
    }
    for Input { sequence, timestamp, command } in inputs {
        let mut payload = [0; Command::ENCODED_LEN_MAX];
        let len = command.encode(&mut payload);
        writer.append(sequence.0, timestamp.0, &payload[..len]).map_err(failed)?;
    }
    let checkpoint = DigestRecord {
        sequence: state.engine.sequence().0,
        digest: state.digest,
        every: config.journal.digest_every,
        fingerprint: checkpoint::fingerprint(),
    };
    writer.checkpoint(&checkpoint.encode()).map_err(failed)?;
    writer.commit().map_err(failed)?;
    Ok(changes)
}

/// The settings of a configuration that a journal lacks.
#[derive(Debug, Default)]
pub struct Bootstrap {
    pub commands: Vec<Command>,
    pub changes: Vec<String>,
}

/// The commands that bring the state to the configuration: all settings for a new journal, the
/// additions and changes for an existing one.
pub fn bootstrap(config: &Config, engine: &Engine) -> Result<Bootstrap, Failure> {
    let mut commands = Vec::new();
    let phase = engine.system_event();
    if matches!(phase, Some(SystemEvent::EndOfMessages)) {
        return Err(Failure::usage("the trading day of this journal has ended")
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
            None => {
                commands.push(Command::AddInstrument(wanted));
                let trading = instrument.trading.commands(wanted.symbol);
                commands.extend(trading.into_iter().map(Command::Venue));
            }
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
    let mut live_orders = Vec::new();
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
                    || known.self_match_prevention() != wanted.self_match_prevention =>
            {
                return Err(contradiction(&format!(
                    "participant {} has firm {} and self-match prevention {:?} in the journal",
                    known.username(),
                    known.firm(),
                    known.self_match_prevention()
                )));
            }
            Some(known) => {
                let (session_id, from) = (known.session_id(), known.live_orders_max());
                let to = wanted.live_orders_max;
                let username = known.username();
                let is_held = engine.is_held(HeldSetting::LiveOrdersMax(session_id));
                if to != from && is_held {
                    live_orders.push(format!(
                        "participant {username}: live_orders_max stays {from}, as an operator has \
                         set it; the file says {to}"
                    ));
                } else if to != from {
                    let set = LiveOrdersMax { session_id, live_orders_max: to };
                    commands.push(Command::Venue(VenueCommand::SetLiveOrdersMax(set)));
                    live_orders.push(format!(
                        "participant {username}: live_orders_max is {to}, it was {from}"
                    ));
                }
            }
        }
    }
    let (MoneyPlan { commands: money, mut changes }, accounts) =
        config::money_plan(config, engine).map_err(|what| contradiction(&what))?;
    commands.extend(money.into_iter().map(Command::Money));
    changes.append(&mut live_orders);
    // No client is connected when a venue starts.
    for participant in config.participants.iter().filter(|row| row.cancel_on_disconnect) {
        let username = participant.username().map_err(Failure::usage)?;
        let known = engine.sessions().find(|known| *known.username() == username);
        if let Some(known) = known.filter(|known| known.live_orders() > 0) {
            let session_id = known.session_id();
            commands.push(Command::CancelOnDisconnect(CancelOnDisconnect { session_id }));
        }
    }
    assign(config, engine, &accounts, &mut commands, &mut changes)?;
    drop_copies(config, engine, &mut commands)?;
    if matches!(phase, None | Some(SystemEvent::StartOfMessages)) {
        commands.push(Command::System(SystemEvent::StartOfSystemHours));
    }
    if matches!(phase, None | Some(SystemEvent::StartOfMessages | SystemEvent::StartOfSystemHours))
    {
        commands.push(Command::System(SystemEvent::StartOfMarketHours));
    }
    Ok(Bootstrap { commands, changes })
}

/// The number of each participant's session, in the order of the configuration: new ones get the next numbers.
fn session_ids(config: &Config, engine: &Engine) -> Result<Vec<SessionId>, Failure> {
    let mut session_count = engine.sessions().len();
    let number = |participant: &ParticipantConfig| {
        let username = participant.username().map_err(Failure::usage)?;
        let known = engine.sessions().find(|known| *known.username() == username);
        session_count += usize::from(known.is_none());
        let number = known.map_or(session_count, |known| known.session_id().0.into());
        Ok(SessionId(u16::try_from(number).map_err(Failure::usage)?))
    };
    config.participants.iter().map(number).collect()
}

/// Notes the sessions that are drop copies, and the sessions that they copy. The engine keeps no notes, so each start
/// notes them again.
fn drop_copies(
    config: &Config,
    engine: &Engine,
    commands: &mut Vec<Command>,
) -> Result<(), Failure> {
    let Some(fix) = &config.order_entry_fix else { return Ok(()) };
    let venue = fix.comp_id().map_err(Failure::usage)?;
    let session_ids = session_ids(config, engine)?;
    for (participant, session_id) in config.participants.iter().zip(&session_ids) {
        let Some(drop_copy) = &participant.drop_copy else { continue };
        let username = participant.username().map_err(Failure::usage)?;
        let client = CompId::new(username.as_str()).expect("a username is shorter than a CompID");
        let rows = config.participants.iter().zip(&session_ids);
        let copied: Vec<_> = rows.filter(|(row, _)| drop_copy.copies(row)).collect();
        for (index, (row, source)) in copied.iter().enumerate() {
            let note = DropCopyNote {
                is_first: index == 0,
                is_last: index + 1 == copied.len(),
                source: **source,
                username: row.username().map_err(Failure::usage)?,
                version: drop_copy.version.version(),
                venue,
                client,
            };
            commands.push(Command::Note(FixNote::DropCopy(note).note(*session_id)));
        }
    }
    Ok(())
}

/// Assigns sessions to accounts, if their participant names one.
fn assign(
    config: &Config,
    engine: &Engine,
    accounts: &BTreeMap<String, AccountId>,
    commands: &mut Vec<Command>,
    changes: &mut Vec<String>,
) -> Result<(), Failure> {
    for (participant, session_id) in config.participants.iter().zip(session_ids(config, engine)?) {
        let username = participant.username().map_err(Failure::usage)?;
        let known = engine.sessions().find(|known| *known.username() == username);
        let Some(name) = &participant.account else { continue };
        let account_id = accounts[name];
        let before = engine.account_of(session_id);
        if before == Some(account_id) {
            continue;
        }
        let is_canceled = participant.cancel_on_disconnect;
        if known.is_some_and(|known| known.live_orders() > 0) && !is_canceled {
            return Err(contradiction(&format!(
                "participant {username} does not trade for account {name} in the journal, and has \
                 live orders"
            )));
        }
        let assign = AssignSession { session_id, account_id };
        commands.push(Command::Money(MoneyCommand::AssignSession(assign)));
        if known.is_some() {
            changes.push(format!("participant {username}: account is {name}"));
        }
    }
    Ok(())
}

fn contradiction(what: &str) -> Failure {
    Failure::usage(format!("{what}, and the configuration says otherwise"))
        .hint("put the old values back, or set journal.directory to a new folder")
}
