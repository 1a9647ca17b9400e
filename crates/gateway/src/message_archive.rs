//! All messages of the edges, the newest of them byte for byte: the part of a snapshot from which
//! gateways can answer clients that come back.
//!
//! Invariant: a message has the same number here as in the gateway that sent it, and messages that were dropped are
//! still counted.

use std::{fmt, ops::Range};

use market::{DecodeError, Instrument, InstrumentId, Output, Phase, SessionId, SystemEvent, Text};

use wire::fix::Directory;

use crate::{
    replay_store::ReplayStore,
    streams::{FeedStream, MessageStore, ReplyStreams, upper_case},
};

/// The code of a section with replies of one session.
const REPLIES: u16 = 256;
/// The code of a section with the state of one FIX session.
const FIX_SESSION: u16 = 258;
/// The code of a section with the tokens of one session that speaks OUCH 4.2.
const OUCH_42_SESSION: u16 = 259;
/// The code of a section with messages of the feed.
const FEED: u16 = 257;
/// The bytes after which a section ends; it may exceed them by one message.
const SECTION_LEN: usize = 256 << 10;
/// Bytes before each message, which hold its length.
const LENGTH_BYTES: usize = 2;
/// The stream of the feed in its store.
const FEED_STREAM: usize = FeedStream::<ReplayStore>::STREAM;

/// The replies to all sessions, whatever gateway serves them, and the feed.
///
/// It keeps as many of the newest messages as its bound allows.
#[derive(Clone, Debug)]
pub struct MessageArchive {
    instruments: Vec<Instrument>,
    replies: ReplyStreams<ReplayStore>,
    feed: FeedStream<ReplayStore>,
}

/// Why bytes are not a message archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageArchiveError {
    /// The section ends within a message.
    Short,
    /// There is no such section.
    Code(u16),
    /// No session has the number 0.
    Session,
    /// The tokens of a session cannot be read.
    Tokens(DecodeError),
    /// The state of a FIX session cannot be read.
    FixSession(DecodeError),
    /// A section does not go on where the one before it ended.
    Number {
        /// The number it should begin with.
        expected: u64,
        /// The number it begins with.
        found: u64,
    },
}

impl fmt::Display for MessageArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "a section ends within a message"),
            Self::Code(code) => write!(f, "there is no section {code}"),
            Self::Session => write!(f, "replies of session 0"),
            Self::FixSession(error) => write!(f, "the state of a FIX session: {error}"),
            Self::Tokens(error) => write!(f, "the tokens of a session: {error}"),
            Self::Number { expected, found } => {
                write!(f, "messages go on with number {found} instead of {expected}")
            }
        }
    }
}

impl std::error::Error for MessageArchiveError {}

impl MessageArchive {
    /// Before the first output. Keeps about `bytes_max` bytes of replies, and as much of the feed.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            instruments: Vec::new(),
            replies: ReplyStreams::of_all(ReplayStore::new(0, bytes_max)),
            feed: FeedStream::new(ReplayStore::new(1, bytes_max)),
        }
    }

    /// True for the codes of its sections.
    #[must_use]
    pub const fn has_section(code: u16) -> bool {
        matches!(code, REPLIES | FEED | FIX_SESSION | OUCH_42_SESSION)
    }

    pub fn take(&mut self, output: &Output) {
        if let market::Event::InstrumentAdded(instrument) = &output.event {
            self.instruments.push(*instrument);
        }
        self.replies.take(output);
        self.feed.take(output);
    }

    /// Takes a session that was added before the first output.
    ///
    /// # Panics
    /// Sessions are not added in the order of their ids.
    pub fn know_session(&mut self, session_id: SessionId, username: Text<6>) {
        self.replies.add_session(session_id, username);
    }

    /// Takes an instrument that was added before the first output.
    ///
    /// # Panics
    /// Instruments are not added in the order of their ids.
    pub fn know_instrument(&mut self, instrument: Instrument) {
        self.replies.add_instrument(&instrument);
        self.feed.add_instrument(&instrument);
        self.instruments.push(instrument);
    }

    /// Takes the trading status of an instrument before the first output; `None` if it was removed.
    pub fn know_phase(&mut self, instrument_id: InstrumentId, phase: Option<Phase>) {
        self.replies.directory_mut().set_phase(instrument_id, phase);
    }

    /// Takes the part of the day before the first output.
    pub fn know_part(&mut self, part: SystemEvent) {
        self.replies.directory_mut().set_part(part);
    }

    /// Emits the kept messages and states, section by section: code and bytes. Sessions and instruments are left out;
    /// they are part of the state.
    pub fn sections(&self, emit: &mut impl FnMut(u16, &[u8])) {
        let mut bytes = Vec::new();
        let replies = self.replies.store();
        for stream in 0..replies.stream_count() {
            let session_id = (stream + 1) as u16;
            stream_sections(replies, stream, &mut bytes, &mut |first, messages| {
                let mut section = session_id.to_le_bytes().to_vec();
                section.extend(first.to_le_bytes());
                section.extend(messages);
                emit(REPLIES, &section);
            });
            if let Some(reports) = self.replies.reports(stream) {
                reports.save(&mut |piece| {
                    emit(FIX_SESSION, &[&session_id.to_le_bytes(), piece].concat());
                });
            }
            if let Some(tokens) = self.replies.tokens(stream) {
                tokens.save(&mut |piece| {
                    emit(OUCH_42_SESSION, &[&session_id.to_le_bytes(), piece].concat());
                });
            }
        }
        stream_sections(self.feed.store(), FEED_STREAM, &mut bytes, &mut |first, messages| {
            let mut section = first.to_le_bytes().to_vec();
            section.extend(messages);
            emit(FEED, &section);
        });
    }

    /// Takes a section up, in the order in which they were emitted.
    ///
    /// # Errors
    /// [`sections`](Self::sections) emits no such section.
    pub fn section(&mut self, code: u16, bytes: &[u8]) -> Result<(), MessageArchiveError> {
        match code {
            REPLIES => {
                let (session_id, bytes) =
                    bytes.split_first_chunk().ok_or(MessageArchiveError::Short)?;
                let session_id = u16::from_le_bytes(*session_id);
                let stream =
                    usize::from(session_id).checked_sub(1).ok_or(MessageArchiveError::Session)?;
                let store = self.replies.store_mut();
                store.ensure_stream(stream);
                restore(store, stream, bytes)
            }
            FIX_SESSION | OUCH_42_SESSION => {
                let (session_id, bytes) =
                    bytes.split_first_chunk().ok_or(MessageArchiveError::Short)?;
                let session_id = u16::from_le_bytes(*session_id);
                let stream =
                    usize::from(session_id).checked_sub(1).ok_or(MessageArchiveError::Session)?;
                if code == OUCH_42_SESSION {
                    let restored = self.replies.restore_tokens(stream, bytes);
                    return restored.map_err(MessageArchiveError::Tokens);
                }
                self.replies.restore_reports(stream, bytes).map_err(MessageArchiveError::FixSession)
            }
            FEED => restore(self.feed.store_mut(), FEED_STREAM, bytes),
            code => Err(MessageArchiveError::Code(code)),
        }
    }

    /// The streams of sessions by FIX, with their usernames in upper case.
    pub fn fix_streams(&self) -> impl Iterator<Item = (usize, Text<6>)> {
        let sessions = self.replies.sessions().enumerate();
        sessions.filter_map(|(stream, (_, username))| {
            self.replies.reports(stream).map(|_| (stream, upper_case(*username)))
        })
    }

    /// The numbers of the replies of a stream that are kept.
    #[must_use]
    pub fn reply_numbers(&self, stream: usize) -> Range<u64> {
        let store = self.replies.store();
        store.first(stream)..store.next(stream)
    }

    /// A reply by its number, if it is kept.
    #[must_use]
    pub fn reply(&self, stream: usize, number: u64) -> Option<&[u8]> {
        self.replies.store().get(stream, number).ok()
    }

    /// The number of messages of the feed so far, and the number of the first that is kept.
    #[must_use]
    pub fn feed_numbers(&self) -> (u64, u64) {
        (self.feed.store().next(FEED_STREAM) - 1, self.feed.store().first(FEED_STREAM))
    }

    pub(crate) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub(crate) const fn directory(&self) -> &Directory {
        self.replies.directory()
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionId, &Text<6>)> {
        self.replies.sessions()
    }

    /// Copies the replies to a session into a stream that has had no message.
    pub(crate) fn copy_replies(&self, session_id: SessionId, to: &mut ReplayStore, stream: usize) {
        self.replies.store().copy(usize::from(session_id.0) - 1, to, stream);
    }

    /// The state of a FIX session.
    pub(crate) fn reports(&self, session_id: SessionId) -> Option<&wire::fix::Reports> {
        self.replies.reports(usize::from(session_id.0) - 1)
    }

    /// The tokens of a session that speaks OUCH 4.2.
    pub(crate) fn tokens(&self, session_id: SessionId) -> Option<&wire::ouch42::Tokens> {
        self.replies.tokens(usize::from(session_id.0) - 1)
    }

    /// Copies the feed into a stream that has had no message.
    pub(crate) fn copy_feed(&self, to: &mut ReplayStore, stream: usize) {
        self.feed.store().copy(FEED_STREAM, to, stream);
    }
}

/// Emits the messages of a stream, each after its length, with the number of the first. A stream
/// without messages is emitted for its number.
fn stream_sections(
    store: &ReplayStore,
    stream: usize,
    bytes: &mut Vec<u8>,
    emit: &mut impl FnMut(u64, &[u8]),
) {
    let (oldest, next) = (store.first(stream), store.next(stream));
    let mut first = oldest;
    for number in oldest..next {
        let message = store.get(stream, number).expect("it is kept");
        bytes.extend((message.len() as u16).to_le_bytes());
        bytes.extend(message);
        if SECTION_LEN <= bytes.len() {
            emit(first, bytes);
            bytes.clear();
            first = number + 1;
        }
    }
    emit(first, bytes);
    bytes.clear();
}

fn restore(
    store: &mut ReplayStore,
    stream: usize,
    bytes: &[u8],
) -> Result<(), MessageArchiveError> {
    let (first, mut bytes) = bytes.split_first_chunk().ok_or(MessageArchiveError::Short)?;
    let found = u64::from_le_bytes(*first);
    let expected = store.next(stream);
    if expected == 1 && found > 1 {
        store.begin_at(stream, found);
    } else if found != expected {
        return Err(MessageArchiveError::Number { expected, found });
    }
    while !bytes.is_empty() {
        let (length, rest) =
            bytes.split_first_chunk::<LENGTH_BYTES>().ok_or(MessageArchiveError::Short)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (message, rest) = rest.split_at_checked(length).ok_or(MessageArchiveError::Short)?;
        store.push(stream, message);
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(archive: &MessageArchive) -> Vec<(u16, Vec<u8>)> {
        let mut sections = Vec::new();
        archive.sections(&mut |code, bytes| sections.push((code, bytes.to_vec())));
        sections
    }

    fn restored(sections: &[(u16, Vec<u8>)]) -> Result<MessageArchive, MessageArchiveError> {
        let mut archive = MessageArchive::new(64 << 20);
        for (code, bytes) in sections {
            archive.section(*code, bytes)?;
        }
        Ok(archive)
    }

    /// An archive with streams of very different lengths, one of them empty, one with messages that were dropped.
    fn long() -> MessageArchive {
        let mut archive = MessageArchive::new(1 << 20);
        for (number, name) in (1..).map(SessionId).zip(["A", "B", "C"]) {
            archive.know_session(number, Text::new(name).unwrap());
        }
        for number in 0..40_000_u32 {
            archive.replies.store_mut().push(0, &number.to_le_bytes().repeat(20));
            archive.feed.store_mut().push(0, &number.to_be_bytes().repeat(8));
        }
        archive.replies.store_mut().push(2, b"once");
        archive
    }

    /// Kept messages come back under the same numbers, and dropped messages are still counted.
    #[test]
    fn what_is_kept_comes_back() {
        let before = long();
        assert!(before.replies.store().first(0) > 1, "something was given up");
        let after = restored(&sections(&before)).unwrap();
        assert_eq!(sections(&after), sections(&before));
        assert_eq!(after.feed_numbers(), (40_000, before.feed.store().first(0)));
        let mut store = ReplayStore::new(2, 64 << 20);
        after.copy_replies(SessionId(1), &mut store, 1);
        assert_eq!((store.first(1), store.next(1)), (before.replies.store().first(0), 40_001));
        for number in store.first(1)..store.next(1) {
            assert_eq!(store.get(1, number), before.replies.store().get(0, number));
        }
        assert_eq!(store.next(0), 1);
    }

    /// A section that is cut short, repeated or left out is refused, or changes only messages that its stream does not
    /// keep.
    #[test]
    fn damaged_sections_are_refused() {
        let whole = sections(&long());
        assert!(whole.len() > 4, "{}", whole.len());
        let mut cut = whole.clone();
        cut[0].1.pop();
        assert_eq!(restored(&cut).unwrap_err(), MessageArchiveError::Short);
        for index in 0..whole.len() - 1 {
            let mut missing = whole.clone();
            let stream = |at: usize| (whole[at].0, whole[at].1[..2].to_vec());
            if index > 0 && stream(index) == stream(index - 1) && stream(index) == stream(index + 1)
            {
                missing.remove(index);
                let error = restored(&missing).unwrap_err();
                assert!(matches!(error, MessageArchiveError::Number { .. }), "{index}: {error}");
            }
        }
        let mut twice = whole.clone();
        twice.insert(1, whole[0].clone());
        assert!(matches!(restored(&twice).unwrap_err(), MessageArchiveError::Number { .. }));
        assert_eq!(restored(&[(7, vec![])]).unwrap_err(), MessageArchiveError::Code(7));
        assert_eq!(restored(&[(REPLIES, vec![0; 10])]).unwrap_err(), MessageArchiveError::Session);
    }
}
