//! The connections of a listener by io_uring: bytes that have arrived wait here until they are read.
//!
//! Invariant: a connection that is not read holds a few buffers, then nothing more is received from it, and TCP holds
//! its client back.

use std::{
    collections::VecDeque,
    io,
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
};

use os::{ReceivedBytes, STREAM_TOKEN_MAX, StreamEnd, StreamEvent, StreamRing};

use crate::{ConnectionId, NetworkEvent};

/// The number of buffers of a listener, a power of two, and the bytes of each: 2 MiB in all.
const BUFFERS: u16 = 512;
const BUFFER_LEN: usize = 4096;
/// The most buffers that one connection may hold before receiving from it stops; receives already under way may add
/// some.
const BUFFERS_OF_ONE: usize = 8;
/// The most accepted connections that may wait to be taken; beyond them new ones wait in the backlog of the system.
const ACCEPTED_WAITING_MAX: usize = 256;
/// The bits of a token that hold the place of a connection; the bits above hold its generation.
const INDEX_BITS: u32 = 28;

/// The ring, and the state of a listener and its connections.
#[derive(Debug)]
pub(super) struct Uring {
    ring: StreamRing,
    /// By place of a connection.
    arrivals: Vec<Arrivals>,
    accepted: VecDeque<TcpStream>,
    is_accepting: bool,
    is_pausing: bool,
    failure: Option<io::Error>,
    /// Paused connections from which receiving must resume, each once.
    paused: Vec<ConnectionId>,
    /// The number of buffers not yet given back.
    held: usize,
    events: Vec<NetworkEvent>,
    /// Reused.
    happened: Vec<StreamEvent>,
}

/// The bytes that have arrived on one connection.
#[derive(Debug, Default)]
struct Arrivals {
    /// `None` while no connection has the place.
    connection: Option<ConnectionId>,
    pieces: VecDeque<ReceivedBytes>,
    /// The number of bytes of the first piece already read.
    read: usize,
    end: Option<StreamEnd>,
    is_pausing: bool,
    awaits_room: bool,
}

impl Uring {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            ring: StreamRing::new(BUFFERS, BUFFER_LEN)?,
            arrivals: Vec::new(),
            accepted: VecDeque::new(),
            is_accepting: false,
            is_pausing: false,
            failure: None,
            paused: Vec::new(),
            held: 0,
            events: Vec::new(),
            happened: Vec::new(),
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Starts to accept connections, unless it already accepts.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        if !self.is_accepting && self.accepted.len() < ACCEPTED_WAITING_MAX {
            self.ring.accept(listener)?;
            self.is_accepting = true;
        }
        Ok(())
    }

    pub(super) fn take_accepted(&mut self) -> Option<TcpStream> {
        self.accepted.pop_front()
    }

    /// Takes the error with which accepting a connection failed.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    pub(super) fn take_events(&mut self, events: &mut Vec<NetworkEvent>) {
        events.append(&mut self.events);
    }

    /// Starts to receive from a new connection.
    pub(super) fn add(
        &mut self,
        stream: BorrowedFd<'_>,
        connection: ConnectionId,
    ) -> io::Result<()> {
        self.ring.receive(stream, token(connection))?;
        let index = connection.index as usize;
        if self.arrivals.len() <= index {
            self.arrivals.resize_with(index + 1, Arrivals::default);
        }
        self.arrivals[index] = Arrivals { connection: Some(connection), ..Arrivals::default() };
        Ok(())
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, connection: ConnectionId) {
        let arrivals = std::mem::take(&mut self.arrivals[connection.index as usize]);
        for piece in arrivals.pieces {
            self.held -= 1;
            self.ring.give_back(piece);
        }
        // If this fails, the end of the connection, which is shut down, has the same effect.
        let _ = self.ring.pause(token(connection));
    }

    pub(super) fn report_writable(
        &mut self,
        stream: BorrowedFd<'_>,
        connection: ConnectionId,
    ) -> io::Result<()> {
        let arrivals = &mut self.arrivals[connection.index as usize];
        if !arrivals.awaits_room {
            self.ring.report_writable(stream, token(connection))?;
            arrivals.awaits_room = true;
        }
        Ok(())
    }

    /// Reads bytes that have arrived on a connection.
    pub(super) fn read(
        &mut self,
        connection: ConnectionId,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if self.arrivals[connection.index as usize].pieces.is_empty() {
            self.reap()?;
        }
        let Self { ring, arrivals, held, .. } = self;
        let arrivals = &mut arrivals[connection.index as usize];
        let mut count = 0;
        while count < buffer.len()
            && let Some(piece) = arrivals.pieces.front()
        {
            let bytes = &ring.bytes(piece)[arrivals.read..];
            let len = bytes.len().min(buffer.len() - count);
            buffer[count..count + len].copy_from_slice(&bytes[..len]);
            count += len;
            arrivals.read += len;
            if arrivals.read == piece.len() {
                let piece = arrivals.pieces.pop_front().expect("it was there");
                ring.give_back(piece);
                arrivals.read = 0;
                *held -= 1;
            }
        }
        match &arrivals.end {
            _ if count > 0 || buffer.is_empty() => Ok(count),
            None | Some(StreamEnd::Paused) => Err(io::ErrorKind::WouldBlock.into()),
            Some(StreamEnd::Finished) => Ok(0),
            Some(StreamEnd::Broken(error)) => Err(error.kind().into()),
        }
    }

    /// Takes the events of the ring.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        let mut happened = std::mem::take(&mut self.happened);
        let polled = self.ring.poll(&mut happened);
        for event in happened.drain(..) {
            self.take(event)?;
        }
        self.happened = happened;
        polled
    }

    fn take(&mut self, event: StreamEvent) -> io::Result<()> {
        match event {
            StreamEvent::Accepted(Ok(stream)) => {
                self.accepted.push_back(stream.into());
                if self.accepted.len() >= ACCEPTED_WAITING_MAX && !self.is_pausing {
                    self.is_pausing = true;
                    self.ring.pause_accepting()?;
                }
            }
            StreamEvent::Accepted(Err(error)) => self.failure = Some(error),
            StreamEvent::AcceptingEnded => {
                (self.is_accepting, self.is_pausing) = (false, false);
            }
            StreamEvent::Received { token, bytes } => {
                self.held += 1;
                let Some(arrivals) = find(&mut self.arrivals, token) else {
                    // The connection was closed meanwhile.
                    self.held -= 1;
                    self.ring.give_back(bytes);
                    return Ok(());
                };
                if arrivals.pieces.is_empty() {
                    self.events.extend(arrivals.connection.map(NetworkEvent::Readable));
                }
                arrivals.pieces.push_back(bytes);
                if arrivals.pieces.len() >= BUFFERS_OF_ONE && !arrivals.is_pausing {
                    arrivals.is_pausing = true;
                    self.ring.pause(token)?;
                }
            }
            StreamEvent::ReceivingEnded { token, end } => {
                let Some(arrivals) = find(&mut self.arrivals, token) else { return Ok(()) };
                arrivals.is_pausing = false;
                if matches!(end, StreamEnd::Paused) {
                    self.paused.extend(arrivals.connection);
                } else if let Some(connection) = arrivals.connection {
                    self.events.push(NetworkEvent::Readable(connection));
                    self.events.push(NetworkEvent::Ending(connection));
                    if matches!(end, StreamEnd::Broken(_)) {
                        self.events.push(NetworkEvent::Writable(connection));
                    }
                }
                arrivals.end = Some(end);
            }
            StreamEvent::Writable { token } => {
                let Some(arrivals) = find(&mut self.arrivals, token) else { return Ok(()) };
                arrivals.awaits_room = false;
                self.events.extend(arrivals.connection.map(NetworkEvent::Writable));
            }
        }
        Ok(())
    }

    /// Receives again from connections that paused and were read. `stream_of` returns the stream of a connection that
    /// is still there.
    pub(super) fn resume<'a>(
        &mut self,
        stream_of: impl Fn(ConnectionId) -> Option<&'a TcpStream>,
    ) -> io::Result<()> {
        if self.paused.is_empty() || usize::from(BUFFERS) / 2 < self.held {
            return Ok(());
        }
        for connection in std::mem::take(&mut self.paused) {
            let Some(stream) = stream_of(connection) else { continue };
            let arrivals = &mut self.arrivals[connection.index as usize];
            if arrivals.pieces.len() >= BUFFERS_OF_ONE {
                self.paused.push(connection);
                continue;
            }
            arrivals.end = None;
            self.ring.receive(stream.as_fd(), token(connection))?;
        }
        Ok(())
    }
}

fn token(connection: ConnectionId) -> u64 {
    assert!(connection.index >> INDEX_BITS == 0, "connection {connection}");
    let token = u64::from(connection.generation) << INDEX_BITS | u64::from(connection.index);
    assert!(token <= STREAM_TOKEN_MAX);
    token
}

/// The connection of a token, unless another connection has its place.
fn find(arrivals: &mut [Arrivals], of: u64) -> Option<&mut Arrivals> {
    let index = of & ((1 << INDEX_BITS) - 1);
    let arrivals = arrivals.get_mut(index as usize)?;
    arrivals.connection.filter(|connection| token(*connection) == of)?;
    Some(arrivals)
}
