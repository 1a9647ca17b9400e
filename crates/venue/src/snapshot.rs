//! A snapshot of a venue: the state of its engine, the digest of its events, and the messages that its
//! gateways have sent.
//!
//! `engine` and `gateway` define the contents of the sections, `journal` the file; this module combines them.
//!
//! Invariants: a state read back has the state hash and the sequence that its snapshot names. The digest covers exactly
//! the lines that the engine's stage publishes.

use std::{fmt, io};

use engine::{Emit, Engine, LOOK_AHEAD_FROM, Restoration, Section, StateError};
use gateway::{MessageArchive, MessageArchiveError};
use journal::{
    SnapshotError, SnapshotFault, SnapshotHeader, SnapshotSummary, SnapshotWriter, Storage,
};
use market::{
    Command, DecodeError, Event, EventDigest, Input, Outcome, OutputLine, Sequence, Timestamp,
};

use crate::follower::After;

/// The state of a venue after a sequence of its journal.
#[derive(Debug, Default)]
pub struct VenueState {
    pub engine: Engine,
    /// The digest of all events up to here.
    pub digest: EventDigest,
    /// The messages that the gateways have sent; `None` if they are not needed.
    pub archive: Option<MessageArchive>,
}

/// A whole record that was written by another program or another version.
#[derive(Debug)]
pub struct NotACommand {
    sequence: u64,
    error: DecodeError,
}

/// The reason why sections that verify are not the state of a venue.
#[derive(Debug)]
enum Unusable {
    State(StateError),
    Archive(MessageArchiveError),
    Code(u16),
    Sequence(u64),
}

impl VenueState {
    /// The state before the first input. With `archive_bytes` it keeps that many bytes of replies, and as many of the
    /// feed.
    pub fn new(archive_bytes: Option<usize>) -> Self {
        let archive = archive_bytes.map(MessageArchive::new);
        Self { archive, ..Self::default() }
    }

    /// Applies an input, adds its lines to the digest, keeps the messages that it causes, and calls `each` with every
    /// line.
    pub fn apply(&mut self, input: &Input, each: &mut dyn FnMut(&OutputLine)) {
        let Self { engine, digest, archive } = self;
        let (cause, timestamp) = (input.sequence, input.timestamp);
        engine.apply_to(input, &mut Applying { cause, timestamp, digest, archive, each });
    }

    /// Does [`apply`](Self::apply) for each input, with one joint lookup of their data; calls `after` after each.
    pub fn apply_batch<'a>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a Input, IntoIter: Clone>,
        after: &mut After<'_>,
        each: &mut dyn FnMut(&OutputLine),
    ) {
        let Self { engine, digest, archive } = self;
        let mut batch = engine.batch(inputs, LOOK_AHEAD_FROM, ring::fetch);
        while let Some(next) = batch.next_input() {
            let input = next.input();
            let (cause, timestamp) = (input.sequence, input.timestamp);
            next.apply_to(&mut Applying { cause, timestamp, digest, archive, each });
            after(input, batch.engine(), *digest);
        }
    }

    /// Writes the state into `storage` as the snapshot that `header` describes, and fills in the digest. Returns the
    /// length in bytes.
    ///
    /// # Errors
    /// Storage failed; there is no new snapshot then.
    ///
    /// # Panics
    /// The state keeps no messages, or the header has another sequence.
    pub fn write(&self, storage: &mut dyn Storage, header: SnapshotHeader) -> io::Result<u64> {
        let Self { engine, digest, archive } = self;
        let archive = archive.as_ref().expect("a state to write as a snapshot keeps messages");
        assert_eq!(header.sequence, engine.sequence().0, "the snapshot is of this state");
        let digest = digest.word();
        let mut writer = SnapshotWriter::new(storage, SnapshotHeader { digest, ..header });
        engine.snapshot(&mut |section, bytes| writer.section(section.code().into(), bytes));
        archive.sections(&mut |code, bytes| writer.section(code, bytes));
        writer.finish()
    }

    /// Reads a snapshot by its sequence. See [`new`](Self::new) for `archive_bytes`.
    ///
    /// # Errors
    /// The snapshot is missing, damaged, of another journal, or not the state of a venue.
    pub fn read(
        storage: &mut dyn Storage,
        journal_id: Option<u64>,
        sequence: u64,
        archive_bytes: Option<usize>,
    ) -> Result<(SnapshotSummary, Self), SnapshotError> {
        let mut restoration = Some(Restoration::new());
        let mut engine = None;
        let mut archive = MessageArchive::new(archive_bytes.unwrap_or(0));
        let summary = journal::read_snapshot(storage, journal_id, sequence, &mut |code, bytes| {
            if MessageArchive::has_section(code) {
                return archive.section(code, bytes).map_err(Unusable::Archive);
            }
            let section = u8::try_from(code).ok().and_then(Section::from_code);
            let section = section.ok_or(Unusable::Code(code))?;
            let state = restoration.as_mut().ok_or(Unusable::Code(code))?;
            state.section(section, bytes).map_err(Unusable::State)?;
            if section == Section::End {
                let restored = restoration.take().expect("it was there").finish();
                let restored = restored.map_err(Unusable::State)?;
                if restored.sequence().0 != sequence {
                    return Err(Unusable::Sequence(restored.sequence().0));
                }
                for instrument in restored.instruments() {
                    archive.know_instrument(*instrument);
                    let instrument_id = instrument.instrument_id;
                    archive.know_phase(instrument_id, restored.phase(instrument_id));
                }
                if let Some(part) = restored.system_event() {
                    archive.know_part(part);
                }
                for session in restored.sessions() {
                    archive.know_session(session.session_id(), *session.username());
                }
                engine = Some(restored);
            }
            Ok::<(), Unusable>(())
        })?;
        let Some(engine) = engine else {
            let path = storage.place().join(journal::snapshot_file_name(sequence));
            let fault = SnapshotFault::Refused(Unusable::State(StateError::Unfinished).into());
            return Err(SnapshotError { path, offset: summary.byte_count, fault });
        };
        let digest = EventDigest::from_word(summary.header.digest);
        Ok((summary, Self { engine, digest, archive: archive_bytes.map(|_| archive) }))
    }
}

/// Receives the events of an input that a [`VenueState`] applies.
struct Applying<'a> {
    cause: Sequence,
    timestamp: Timestamp,
    digest: &'a mut EventDigest,
    archive: &'a mut Option<MessageArchive>,
    each: &'a mut dyn FnMut(&OutputLine),
}

impl Emit for Applying<'_> {
    fn emit(&mut self, event: Event) {
        self.emit_at_once(Outcome::Event(event));
    }

    fn emit_at_once(&mut self, outcome: Outcome) {
        let Self { cause, timestamp, digest, archive, each } = self;
        let line = OutputLine { cause: *cause, timestamp: *timestamp, outcome };
        digest.add(line.cause, line.timestamp, &line.outcome);
        if let Some(archive) = archive {
            line.each(|output| archive.take(output));
        }
        each(&line);
    }
}

/// Decodes a record into an input.
pub fn input_of(sequence: u64, timestamp: u64, payload: &[u8]) -> Result<Input, NotACommand> {
    let command = Command::decode(payload).map_err(|error| NotACommand { sequence, error })?;
    Ok(Input { sequence: Sequence(sequence), timestamp: Timestamp(timestamp), command })
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

impl std::error::Error for NotACommand {}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => write!(f, "{error}"),
            Self::Archive(error) => write!(f, "{error}"),
            Self::Code(code) => {
                write!(f, "section {code} is unknown to this version, or is in the wrong place")
            }
            Self::Sequence(sequence) => {
                write!(f, "the state is that after sequence {sequence}, not that of the header")
            }
        }
    }
}

impl std::error::Error for Unusable {}
