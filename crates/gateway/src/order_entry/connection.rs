//! One connection: its stage, its session protocol, and its place in the reply stream.
//!
//! Invariant: it holds no replies of its own beyond what its outgoing buffer has room for.

use std::{io, net::SocketAddr};

use market::Text;

use super::{
    ClientSession,
    past_replies::{PastMessage, PastReplies},
};
use crate::{
    CloseReason, ConnectionId, StreamNetwork,
    replay_store::{Missing, ReplayStore},
};

/// Bytes read at a time.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// Bytes read at a time before the login: many times what that takes, and what a stranger can make
/// us hold.
const PENDING_READ_BYTES: usize = 1024;
/// Bytes that may wait for the socket; what is not yet among them stays in the store.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a reply may grow by when it is sent again, or take if it is left out.
const RESEND_BYTES: usize = 512;
/// Bytes in the buffers of a connection: 128 KiB that arrived, and of those that wait for the socket
/// twice as many as may, because the written ones are removed once they are most.
pub const CONNECTION_BYTES_MAX: usize = 128 * 1024 + 2 * OUTGOING_BYTES_MAX + 16 * 1024;

/// One connection: its session protocol, what the network said of it, and its place in its
/// user's replies.
pub(crate) struct Connection<S> {
    pub(crate) id: ConnectionId,
    pub(crate) address: SocketAddr,
    pub(crate) session: S,
    pub(crate) stage: Stage,
    /// There may be bytes to read.
    pub(crate) readable: bool,
    /// The socket takes bytes, as far as we know.
    pub(crate) writable: bool,
    /// It stands in the queue of those to be served.
    pub(crate) queued: bool,
    /// Number of the next reply to send.
    pub(crate) next_reply: u64,
    /// Its session is to end, for this reason, once its replies so far were given.
    pub(crate) ends: Option<CloseReason>,
    /// What it is to be sent again next is being read from the journal.
    pub(crate) awaits_past: bool,
    /// Messages that could not be read.
    pub(crate) malformed: u32,
    /// Since when the socket has taken nothing of what waits for it.
    pub(crate) blocked_since_ns: Option<u64>,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not logged in.
    Pending,
    /// It is the connection of this user.
    Live(usize),
    /// The last bytes are on their way; then it waits for the client to close, but no longer than
    /// this. A connection closed with bytes unread would lose the last bytes.
    Closing {
        /// When to give up.
        until_ns: u64,
        /// All is written, and the sending side is shut down.
        finished: bool,
    },
}

/// The result of a read.
pub(crate) enum ReadOutcome {
    /// This many bytes arrived.
    Bytes(usize),
    /// None for now.
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
            writable: true,
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
        if !self.readable {
            return ReadOutcome::Nothing;
        }
        let bytes_max =
            if self.stage == Stage::Pending { PENDING_READ_BYTES } else { buffer.len() };
        match network.read(self.id, &mut buffer[..bytes_max]) {
            Ok(0) => ReadOutcome::Ended,
            Ok(count) => ReadOutcome::Bytes(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                ReadOutcome::Nothing
            }
            Err(_) => ReadOutcome::Ended,
        }
    }

    /// Writes the bytes of `outgoing`, as far as the socket takes them, and says how many.
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
    /// Copies replies from the store to what waits for the socket, as far as there is room, and
    /// says how many.
    ///
    /// # Errors
    /// The next one is no longer kept.
    pub(crate) fn fill(
        &mut self,
        store: &ReplayStore,
        past: Option<&mut PastReplies>,
        (user, username): (usize, Text<6>),
        now_ns: u64,
    ) -> Result<u64, Missing> {
        let mut past = past;
        self.awaits_past = false;
        while let Some(number) = self.session.resend_next() {
            let reply = match (store.get(user, number), &mut past) {
                (Ok(reply), _) => Some(reply),
                (Err(Missing::Dropped(first)), Some(past)) => {
                    match past.get(user, username, number, first) {
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
            if waiting + len > OUTGOING_BYTES_MAX || !self.session.resend(reply, now_ns) {
                return Ok(0);
            }
        }
        let before = self.next_reply;
        while self.next_reply < store.next(user) {
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

    /// Writes what waits, as far as the socket takes it, and says how many bytes.
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
