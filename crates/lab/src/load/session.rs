//! One session of the load, over TCP or UDP: opening, sending, polling.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ring::Clock;
use wire::{
    ouch::{self, MessageBuffer, Outbound, decode_outbound},
    soupbintcp::LoginRequest,
};

use super::{FailureReason, LoadError, LoadOptions, LoadSession, tracker::Tracker, worker::Tally};
use client::participant::{self, ClientError, ClientState, TcpClient, UdpClient};

/// An account query that is not answered is sent again after this long, in nanoseconds.
const QUERY_TIMEOUT_NS: u64 = 500_000_000;

/// One session: its connection, and what it asked.
pub(super) struct Session {
    pub(super) index: usize,
    pub(super) tracker: Tracker,
    link: Link,
    /// When the last message arrived, or a first request began to wait.
    received_ns: u64,
    /// When an account query went out that waits for its answer.
    queried_ns: u64,
}

enum Link {
    Tcp(TcpClient),
    Udp(UdpClient),
}

impl Link {
    fn open(
        session: &LoadSession,
        options: &LoadOptions,
        now_ns: u64,
    ) -> Result<Self, ClientError> {
        Ok(match *session {
            LoadSession::Tcp { server, login } => {
                // By the letter of SoupBinTCP, 0 asks for the newest message and what follows.
                let login = LoginRequest { sequence_number: Some(0), ..login };
                Self::Tcp(TcpClient::connect(server, login, options.timers, now_ns)?)
            }
            LoadSession::Udp { server, local } => {
                Self::Udp(UdpClient::bind(local, server, None, options.requests_per_datagram)?)
            }
        })
    }

    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FailureReason> {
        let delivered = match self {
            Self::Tcp(client) => client.poll(now_ns, on_message)?,
            Self::Udp(client) => client.poll(now_ns, on_message)?,
        };
        match self {
            Self::Tcp(client) => match client.state() {
                ClientState::Connecting | ClientState::LoggedIn { .. } => Ok(delivered),
                ClientState::Rejected(reason) => Err(ClientError::Rejected(reason).into()),
                ClientState::Ended => Err(FailureReason::Ended),
            },
            Self::Udp(client) if client.is_ended() => Err(FailureReason::Ended),
            Self::Udp(_) => Ok(delivered),
        }
    }

    fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), ClientError> {
        match self {
            Self::Tcp(client) => client.send(message, now_ns),
            Self::Udp(client) => client.send(message),
        }
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        match self {
            Self::Tcp(client) => client.flush(),
            Self::Udp(client) => client.flush(),
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Tcp(client) => client.is_logged_in(),
            Self::Udp(_) => true,
        }
    }

    fn has_room(&self, len: usize) -> bool {
        match self {
            Self::Tcp(client) => client.has_room(len),
            Self::Udp(client) => client.has_room(len),
        }
    }

    /// True if a sequenced message may be older than this connection: a login that asks for the
    /// newest message gets that one again, if there is one.
    fn is_history(&self, stream_sequence: u64) -> bool {
        let Self::Tcp(client) = self else { return false };
        let ClientState::LoggedIn { next_sequence, .. } = client.state() else { return false };
        next_sequence > 1 && stream_sequence == next_sequence
    }
}

/// Opens all sessions and asks each for the number of its next order.
pub(super) fn open_all(
    options: &LoadOptions,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<Vec<Session>, LoadError> {
    let start_ns = clock.now_ns();
    let mut opening = Vec::with_capacity(options.sessions.len());
    for (index, session) in options.sessions.iter().enumerate() {
        let opened = Opening::new(index, session, options, clock.now_ns());
        opening.push(opened.map_err(|source| LoadError::Session { session: index, source })?);
    }
    loop {
        let mut waits = None;
        for session in &mut opening {
            let now_ns = clock.now_ns();
            session
                .turn(options, now_ns)
                .map_err(|source| LoadError::Session { session: session.index, source })?;
            if session.next_user_ref_num.is_none() {
                waits = Some(session.index);
            }
        }
        let now_ns = clock.now_ns();
        let Some(session) = waits else {
            return Ok(opening.into_iter().map(|session| session.ready(now_ns)).collect());
        };
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Stopped);
        }
        let silent_ns = now_ns.saturating_sub(start_ns);
        if silent_ns >= options.ready_ns_max {
            let source = FailureReason::Silent { silent_ns };
            return Err(LoadError::Session { session, source });
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// A session that does not know its next number yet.
struct Opening {
    index: usize,
    link: Link,
    queried_ns: Option<u64>,
    next_user_ref_num: Option<u32>,
}

impl Opening {
    fn new(
        index: usize,
        session: &LoadSession,
        options: &LoadOptions,
        now_ns: u64,
    ) -> Result<Self, FailureReason> {
        let link = Link::open(session, options, now_ns)?;
        Ok(Self { index, link, queried_ns: None, next_user_ref_num: None })
    }

    fn turn(&mut self, options: &LoadOptions, now_ns: u64) -> Result<(), FailureReason> {
        let mut messages: Vec<(u64, Vec<u8>)> = Vec::new();
        self.link.poll(now_ns, &mut |stream_sequence, message| {
            if let Some(on_message) = &options.on_message {
                on_message(self.index, stream_sequence, message);
            }
            messages.push((stream_sequence, message.to_vec()));
        })?;
        for (stream_sequence, message) in messages {
            if let Outbound::AccountQueryResponse(response, _) = decode_outbound(&message)?
                && !self.link.is_history(stream_sequence)
            {
                self.next_user_ref_num = Some(response.next_user_ref_num.get());
            }
        }
        let is_due = self
            .queried_ns
            .is_none_or(|queried_ns| now_ns.saturating_sub(queried_ns) >= QUERY_TIMEOUT_NS);
        if self.next_user_ref_num.is_none() && self.link.is_open() && is_due {
            self.queried_ns = Some(now_ns);
            self.link.send(&participant::query_account(), now_ns)?;
            self.link.flush()?;
        }
        Ok(())
    }

    fn ready(self, now_ns: u64) -> Session {
        let next_user_ref_num = self.next_user_ref_num.expect("it was waited for");
        Session {
            index: self.index,
            tracker: Tracker::new(next_user_ref_num),
            link: self.link,
            received_ns: now_ns,
            queried_ns: now_ns,
        }
    }
}

impl Session {
    /// True if another request can be sent now.
    pub(super) fn has_room(&self, outstanding_max: usize) -> bool {
        self.tracker.outstanding() < outstanding_max && self.link.has_room(MessageBuffer::LEN_MAX)
    }

    /// Hands a request to the connection; [`flush`](Self::flush) sends it.
    pub(super) fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), FailureReason> {
        if self.tracker.outstanding() == 0 {
            self.received_ns = now_ns;
        }
        Ok(self.link.send(message, now_ns)?)
    }

    pub(super) fn flush(&mut self) -> Result<(), FailureReason> {
        Ok(self.link.flush()?)
    }

    /// Takes what arrived: counts it, records the latency of every answer. Returns how many
    /// messages arrived.
    pub(super) fn poll(
        &mut self,
        options: &LoadOptions,
        clock: &dyn Clock,
        tally: &mut Tally,
    ) -> Result<usize, FailureReason> {
        let now_ns = clock.now_ns();
        let tracker = &mut self.tracker;
        let index = self.index;
        let mut malformed: Option<ouch::Malformed> = None;
        let delivered = self.link.poll(now_ns, &mut |stream_sequence, message| {
            match tracker.receive(message, &mut tally.counts) {
                Ok(Some(answered)) => {
                    let now_ns = clock.now_ns();
                    let latency_ns = now_ns.saturating_sub(answered.scheduled_ns);
                    tally.scheduled.record(latency_ns);
                    if let Some(on_answer) = &options.on_answer {
                        on_answer(answered.scheduled_ns, latency_ns);
                    }
                    tally.sent.record(now_ns.saturating_sub(answered.sent_ns));
                }
                Ok(None) => {}
                Err(error) => malformed = Some(error),
            }
            if let Some(on_message) = &options.on_message {
                on_message(index, stream_sequence, message);
            }
        })?;
        if delivered > 0 {
            self.received_ns = now_ns;
        }
        match malformed {
            Some(error) => Err(error.into()),
            None => Ok(delivered),
        }
    }

    /// Sees to it that a session which waits for answers hears something: after half of the time
    /// it asks for the next number, which is always answered; after all of it the session is over.
    pub(super) fn watch(&mut self, silence_ns_max: u64, now_ns: u64) -> Result<(), FailureReason> {
        if self.tracker.outstanding() == 0 {
            return Ok(());
        }
        let silent_ns = now_ns.saturating_sub(self.received_ns);
        if silent_ns >= silence_ns_max {
            return Err(FailureReason::Silent { silent_ns });
        }
        if silent_ns >= silence_ns_max / 2 { self.settle(now_ns) } else { Ok(()) }
    }

    /// Asks for the next number, whose answer settles all requests before it; again after a while,
    /// since a datagram may be lost.
    pub(super) fn settle(&mut self, now_ns: u64) -> Result<(), FailureReason> {
        let is_open = self.tracker.is_query_open();
        let is_due = now_ns.saturating_sub(self.queried_ns) >= QUERY_TIMEOUT_NS;
        let query = participant::query_account();
        if (is_open && !is_due) || !self.link.has_room(query.len()) {
            return Ok(());
        }
        self.queried_ns = now_ns;
        self.send(&query, now_ns)?;
        if !is_open {
            self.tracker.query_asked(now_ns);
        }
        self.flush()
    }

    /// Logs out; true if the venue shall close the connection now.
    pub(super) fn log_out(&mut self, now_ns: u64) -> bool {
        match &mut self.link {
            Link::Tcp(client) => client.logout(now_ns).is_ok(),
            Link::Udp(_) => false,
        }
    }
}
