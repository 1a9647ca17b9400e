//! One connection: its stage, its session protocol, and its place in the reply stream.
//!
//! Invariant: it holds no more replies than its outgoing buffer has room for.

use std::{io, net::SocketAddr, ops::Range};

use market::Text;

use super::{
    ClientSession,
    past_replies::{PastMessage, PastReplies},
};
use crate::{
    CloseReason, ConnectionId, StreamNetwork,
    replay_store::{Missing, ReplayStore},
};

/// The most bytes of one read.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// The most bytes of one read before the login: many times the size of a login, and the most that a stranger can make
/// the gateway hold.
const PENDING_READ_BYTES: usize = 1024;
/// The most bytes waiting for the socket; replies beyond that stay in the store.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 * 1024;
/// The most bytes that a reply grows by when it is resent, or takes if it is left out.
const RESEND_BYTES: usize = 512;
/// The most bytes in the buffers of a connection: 128 KiB that arrived, and twice [`OUTGOING_BYTES_MAX`] waiting for
/// the socket, because written bytes are removed only once they are the larger part.
pub const CONNECTION_BYTES_MAX: usize = 128 * 1024 + 2 * OUTGOING_BYTES_MAX + 16 * 1024;

/// One connection: its session protocol, the state reported by the network, and its place in its user's replies.
pub(crate) struct Connection<S> {
    pub(crate) id: ConnectionId,
    pub(crate) address: SocketAddr,
    pub(crate) session: S,
    pub(crate) stage: Stage,
    /// True if there may be bytes to read.
    pub(crate) readable: bool,
    /// True if the network has reported the end of the connection: only reads to the end show how it ends.
    pub(crate) ending: bool,
    /// True if the socket takes bytes, as far as the gateway knows.
    pub(crate) writable: bool,
    /// True while its login is being checked; nothing more is read until the decision.
    pub(crate) awaits_login: bool,
    /// True if it is in the queue of connections to be served.
    pub(crate) queued: bool,
    /// The number of the next reply to send.
    pub(crate) next_reply: u64,
    /// The reason for which its session ends once its replies so far are sent.
    pub(crate) ends: Option<CloseReason>,
    /// True while the replies to resend next are being read from the journal.
    pub(crate) awaits_past: bool,
    /// The number of messages that could not be read.
    pub(crate) malformed: u32,
    /// The time since which the socket has taken none of the waiting bytes.
    pub(crate) blocked_since_ns: Option<u64>,
}

/// The stage of a connection in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not logged in.
    Pending,
    /// The connection of this user.
    Live(usize),
    /// The last bytes are being written; then the connection waits for the client to close, until the deadline. A
    /// connection closed with bytes unread would lose the last bytes.
    Closing {
        /// The deadline for the client to close.
        until_ns: u64,
        /// True if all is written and the sending side is shut down.
        finished: bool,
    },
}

/// The result of a read.
pub(crate) enum ReadOutcome {
    /// This many bytes arrived.
    Bytes(usize),
    /// No bytes for now.
    Nothing,
    /// The connection has ended.
    Ended,
}

impl<S> Connection<S> {
    pub(crate) fn new(id: ConnectionId, address: SocketAddr, session: S) -> Self {
        Self {
            id,
            address,
            session,
            stage: Stage::Pending,
            readable: false,
            ending: false,
            writable: true,
            awaits_login: false,
            queued: false,
            next_reply: 0,
            ends: None,
            awaits_past: false,
            malformed: 0,
            blocked_since_ns: None,
        }
    }

    /// Reads once, into the front of `buffer`.
    pub(crate) fn read(
        &mut self,
        network: &mut impl StreamNetwork,
        buffer: &mut [u8],
    ) -> ReadOutcome {
        if self.awaits_login {
            // If nothing follows the login, the client no longer waits for the answer.
            return if self.ending { ReadOutcome::Ended } else { ReadOutcome::Nothing };
        }
        if !self.readable {
            return ReadOutcome::Nothing;
        }
        let bytes_max =
            if self.stage == Stage::Pending { PENDING_READ_BYTES } else { buffer.len() };
        match network.read(self.id, &mut buffer[..bytes_max]) {
            Ok(0) => ReadOutcome::Ended,
            Ok(count) => {
                // A short read has taken all the bytes there are.
                self.readable = count == bytes_max || self.ending;
                ReadOutcome::Bytes(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                ReadOutcome::Nothing
            }
            Err(_) => ReadOutcome::Ended,
        }
    }

    /// Writes the bytes of `outgoing`, as far as the socket takes them, and returns their number.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write_by(
        &mut self,
        outgoing: impl Fn(&S) -> &[u8],
        sent: impl Fn(&mut S, usize),
        network: &mut impl StreamNetwork,
        now_ns: u64,
    ) -> io::Result<usize> {
        let mut written = 0;
        while self.writable && !outgoing(&self.session).is_empty() {
            match network.write(self.id, outgoing(&self.session)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    sent(&mut self.session, count);
                    written += count;
                    self.blocked_since_ns = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.blocked_since_ns.get_or_insert(now_ns);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl<S: ClientSession> Connection<S> {
    /// Copies replies below `end` from the store to the outgoing buffer, as far as it has room, and returns their
    /// number. Replies to be resent come before them, as long as `again`, which they use up, is not 0.
    ///
    /// # Errors
    /// The next reply is no longer kept.
    pub(crate) fn fill(
        &mut self,
        store: &ReplayStore,
        past: Option<&mut PastReplies>,
        (user, username): (usize, Text<6>),
        again: &mut usize,
        end: u64,
        now_ns: u64,
    ) -> Result<u64, Missing> {
        let mut past = past;
        self.awaits_past = false;
        while let Some(Range { start: number, end: wanted_end }) = self.session.resend_range() {
            if *again == 0 {
                return Ok(0);
            }
            let reply = match (store.get(user, number), &mut past) {
                (Ok(reply), _) => Some(reply),
                (Err(Missing::Dropped(first)), Some(past)) => {
                    match past.get(user, username, number, first.min(wanted_end)) {
                        PastMessage::Here(message) => Some(message),
                        PastMessage::Gone => None,
                        PastMessage::Awaited => {
                            self.awaits_past = true;
                            return Ok(0);
                        }
                    }
                }
                (Err(_), _) => None,
            };
            let waiting = self.session.outgoing().len();
            let len = reply.map_or(0, <[u8]>::len) + RESEND_BYTES;
            if waiting + len > OUTGOING_BYTES_MAX {
                return Ok(0);
            }
            let goes_on = self.session.resend(reply, now_ns);
            *again = again.saturating_sub(self.session.outgoing().len() - waiting);
            if !goes_on {
                return Ok(0);
            }
        }
        let before = self.next_reply;
        while self.next_reply < end {
            let reply = store.get(user, self.next_reply)?;
            let waiting = self.session.outgoing().len();
            if waiting + S::FRAME_BYTES + reply.len() > OUTGOING_BYTES_MAX {
                break;
            }
            self.session.send_reply(reply, self.next_reply, now_ns);
            self.next_reply += 1;
        }
        Ok(self.next_reply - before)
    }

    /// Writes the waiting bytes, as far as the socket takes them, and returns their number.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write(
        &mut self,
        network: &mut impl StreamNetwork,
        now_ns: u64,
    ) -> io::Result<usize> {
        self.write_by(S::outgoing, S::sent, network, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use market::Timestamp;
    use wire::fix::{Builder, CompId, FixService, FixTimers, Version};

    use super::*;
    use crate::{FixSession, SessionEvent};

    const NOW: u64 = 1_795_271_400_000_000_000;

    fn message(from: &str, to: &str, msg_type: &str, number: u64, fields: &str) -> Vec<u8> {
        let mut buffer = [0; 1024];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, number).text(49, from);
        builder.time(52, Timestamp(NOW)).text(56, to);
        builder.fields(fields.replace('|', "\x01").as_bytes());
        builder.finish(Version::Fix44).to_vec()
    }

    /// A resend goes out as the client reads: no more than 64 KiB wait for the socket, however much was requested.
    #[test]
    fn a_resend_waits_for_its_reader() {
        const MESSAGES: u64 = 2_000;
        let venue = CompId::new("V").unwrap();
        let (service, schedule) = (FixService::Orders, None);
        let timers = FixTimers { venue, login_timeout_ns: 1, service, schedule };
        let session = FixSession::open(&timers, NOW);
        let id = ConnectionId { index: 0, generation: 0 };
        let mut connection = Connection::new(id, ([127, 0, 0, 1], 1).into(), session);
        let text = format!("58={}|", "x".repeat(300));
        let report = |number| message("V", "C", "j", number, &format!("372=D|380=0|{text}"));
        let mut store = ReplayStore::new(1, 16 << 20);
        store.push(0, &message("V", "C", "A", 1, "98=0|108=0|"));
        for number in 2..=MESSAGES {
            store.push(0, &report(number));
        }

        let session = &mut connection.session;
        session.receive(&message("C", "V", "A", 1, "98=0|108=0|"), NOW).unwrap();
        assert!(matches!(session.next(), Ok(Some(SessionEvent::Login(_)))));
        session.accept(1, &mut Default::default(), None, NOW);
        assert!(
            matches!(session.next(), Ok(Some(SessionEvent::Message(_)))),
            "the note of the answer"
        );
        let fill = |connection: &mut Connection<FixSession>| {
            let mut again = usize::MAX;
            connection
                .fill(&store, None, (0, Text::BLANK), &mut again, store.next(0), NOW)
                .unwrap();
        };
        // All replies are sent once, as the client reads.
        connection.next_reply = 1;
        let mut turns = 0;
        while connection.next_reply <= MESSAGES {
            fill(&mut connection);
            let waiting = connection.session.outgoing().len();
            assert!(0 < waiting && waiting <= OUTGOING_BYTES_MAX, "{waiting}");
            connection.session.sent(waiting);
            turns += 1;
        }
        assert!(turns > 5, "{turns}");

        connection.session.receive(&message("C", "V", "2", 2, "7=1|16=0|"), NOW).unwrap();
        assert!(matches!(connection.session.next(), Ok(Some(SessionEvent::Taken))));
        let (mut turns, mut bytes) = (0, 0);
        while connection.session.resend_range().is_some() {
            for _ in 0..100 {
                fill(&mut connection);
            }
            let waiting = connection.session.outgoing().len();
            assert!(0 < waiting && waiting <= OUTGOING_BYTES_MAX, "{waiting}");
            connection.session.sent(waiting);
            bytes += waiting;
            turns += 1;
        }
        assert!(turns > 5 && bytes > 300 * (MESSAGES as usize - 1), "{turns} turns, {bytes} bytes");
    }
}
