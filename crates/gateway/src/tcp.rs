//! TCP on a real machine: one listener and its connections, by epoll, by io_uring or by a thread each.
//!
//! Invariant: the id of a connection that was closed never means another one; the shared memory held by a connection
//! that is not read is bounded.

mod threads;
mod uring;

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use os::Epoll;

pub use self::threads::THREAD_BYTES_MAX;
use self::{threads::Threads, uring::Uring};

use crate::{
    ConnectionId, NetworkEvent, SocketOptions, StreamNetwork, TcpCounters, TimeCounts,
    socket_options::no_arrivals,
};

/// Token of the listener. No connection has this token, because places are counted from 0 and bounded.
const LISTENER: u64 = u64::MAX;
/// Token of the threads' bell.
const BELL: u64 = u64::MAX - 1;
/// The most readiness events taken from the kernel in one call.
const EVENTS_MAX: usize = 256;
/// The most connections accepted in one call of `poll`.
pub const ACCEPTED_MAX: usize = 32;
/// The number of calls of `poll` before accepting again, after a connection could be neither accepted nor refused.
const PAUSE_POLLS: u32 = 1_000;
/// The longest time that sent bytes may stay unacknowledged by the peer's system.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// The way a [`Tcp`] receives events and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpBackend {
    /// The kernel reports the connections that are ready, and each is read: epoll(7).
    #[default]
    Epoll,
    /// The kernel accepts and receives without further calls: io_uring(7).
    IoUring,
    /// A thread for each connection sleeps in recv(2).
    Threads {
        /// The number of threads, at least 1. While no thread is free, no connection is accepted: new ones wait in the
        /// backlog of the system.
        count: usize,
    },
}

/// The options of a [`Tcp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The backend to use, if the system allows it: see [`refused_backend`](Tcp::refused_backend).
    pub backend: TcpBackend,
    /// Whether other listeners of the same user may have the same port (SO_REUSEPORT): the system gives each
    /// connection to one.
    pub reuse_port: bool,
}

/// The source of a [`Tcp`]'s events.
#[derive(Debug)]
enum Watch {
    Epoll(Epoll),
    Uring(Box<Uring>),
    /// The epoll watches the listener, the bell of the threads, and connections whose sockets were full.
    Threads(Epoll, Box<Threads>),
}

/// A TCP listener and the connections it has accepted.
///
/// The caller decides how many connections there may be: it closes those it does not want. Where the system has no
/// descriptor left, a connection is accepted with the spare one and closed at once, so that its client sees the end.
/// Where the spare one is gone as well, accepting pauses until a connection is closed here, or for 1,000 calls of
/// `poll`.
#[derive(Debug)]
pub struct Tcp {
    listener: TcpListener,
    address: SocketAddr,
    watch: Watch,
    /// The error with which the system refused the requested backend.
    refused_backend: Option<io::Error>,
    places: Vec<Place>,
    /// Closed places; the one freed last is taken first.
    free: Vec<u32>,
    /// Kept so that a connection can be refused when there is no other descriptor.
    spare: Option<OwnedFd>,
    /// True if the listener may hold more connections: it reports readiness only once (edge-triggered).
    acceptable: bool,
    pause_polls: u32,
    counters: Arc<TcpCounters>,
    /// The times that received bytes waited, if they are counted.
    arrivals: Option<Arc<TimeCounts>>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    stream: Option<Arc<TcpStream>>,
}

impl Tcp {
    /// Listens on `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// The address is taken or not ours, or the system has no descriptor left.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_with(address, TcpOptions::default())
    }

    /// As [`bind`](Self::bind), with these options.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub fn bind_with(address: SocketAddr, options: TcpOptions) -> io::Result<Self> {
        let TcpOptions { backend, reuse_port } = options;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restarted venue gets its port back while old connections fade.
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(reuse_port)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        let listener = TcpListener::from(socket);
        let by_epoll = || {
            let epoll = Epoll::new(EVENTS_MAX)?;
            epoll.add(listener.as_fd(), LISTENER)?;
            io::Result::Ok(epoll)
        };
        let wanted = match backend {
            TcpBackend::Epoll => Ok(Watch::Epoll(by_epoll()?)),
            TcpBackend::IoUring => Uring::new().map(|uring| Watch::Uring(Box::new(uring))),
            TcpBackend::Threads { count } => Threads::new(count).and_then(|threads| {
                let epoll = by_epoll()?;
                epoll.add(threads.as_fd(), BELL)?;
                Ok(Watch::Threads(epoll, Box::new(threads)))
            }),
        };
        let (watch, refused_backend) = match wanted {
            Ok(watch) => (watch, None),
            Err(refused) => (Watch::Epoll(by_epoll()?), Some(refused)),
        };
        Ok(Self {
            address: listener.local_addr()?,
            spare: Some(listener.as_fd().try_clone_to_owned()?),
            listener,
            watch,
            refused_backend,
            places: Vec::new(),
            free: Vec::new(),
            acceptable: true,
            pause_polls: 0,
            counters: Arc::default(),
            arrivals: None,
        })
    }

    /// Counts the time from arrival to read, if the options say so.
    ///
    /// Applies to connections accepted from now on, and to epoll only. Where one read takes several packets, the wait
    /// is that of the last.
    ///
    /// # Errors
    /// The system, the card or the backend has no such times; nothing is counted.
    pub fn count_arrivals(&mut self, options: &SocketOptions) -> io::Result<()> {
        let Some(times) = options.arrival_times else { return Ok(()) };
        if !matches!(self.watch, Watch::Epoll(_)) {
            return Err(no_arrivals("epoll"));
        }
        // Connections inherit it from their listener.
        os::stamp_arrivals(self.listener.as_fd(), times)?;
        self.arrivals = Some(Arc::default());
        Ok(())
    }

    /// The times from arrival to read, if they are counted; may be read from any thread.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arc<TimeCounts>> {
        self.arrivals.clone()
    }

    /// Binds the listener to the one interface that the options name, if they name one.
    ///
    /// # Errors
    /// There is no such interface, or only a privileged process may name it.
    pub fn bind_device(&self, options: &SocketOptions) -> io::Result<()> {
        options.bind_device(self.listener.as_fd())
    }

    /// Makes the system poll the network card for as long as the options say.
    ///
    /// # Errors
    /// The system cannot do this, or allows it only to a privileged process.
    pub fn poll_busily(&self, options: &SocketOptions) -> io::Result<()> {
        options.poll_busily(self.listener.as_fd())
    }

    /// The address it listens on, with its actual port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The error with which the system refused the requested backend; epoll is used then.
    #[must_use]
    pub const fn refused_backend(&self) -> Option<&io::Error> {
        self.refused_backend.as_ref()
    }

    /// The counters; may be read from any thread.
    #[must_use]
    pub fn counters(&self) -> Arc<TcpCounters> {
        Arc::clone(&self.counters)
    }

    /// A descriptor that is readable when `poll` has events.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        match &self.watch {
            Watch::Epoll(epoll) | Watch::Threads(epoll, _) => epoll.as_fd().try_clone_to_owned(),
            Watch::Uring(uring) => uring.as_fd().try_clone_to_owned(),
        }
    }

    fn accept(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        for _ in 0..ACCEPTED_MAX {
            if let Watch::Threads(_, threads) = &self.watch
                && !threads.has_free()
            {
                // Accepting continues once the bell has announced that a thread is done.
                return Ok(());
            }
            let (stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match accept_failure(&error) {
                    AcceptFailure::NoneWaits => {
                        self.acceptable = false;
                        return Ok(());
                    }
                    AcceptFailure::PeerGone => continue,
                    AcceptFailure::NoRoom => {
                        if let Some(address) = self.refuse() {
                            events.push(NetworkEvent::Refused(address));
                            continue;
                        }
                        self.pause_polls = PAUSE_POLLS;
                        self.counters.pauses.add(1);
                        return Ok(());
                    }
                    AcceptFailure::Broken => return Err(error),
                },
            };
            // A connection that cannot be set up is dropped; its client sees it closed.
            if let Ok(connection) = self.take_place(stream) {
                events.push(NetworkEvent::Accepted(connection, address));
            }
        }
        Ok(())
    }

    /// Accepts a connection with the spare descriptor and closes it, if possible.
    fn refuse(&mut self) -> Option<SocketAddr> {
        self.spare.take()?;
        let accepted = self.listener.accept().ok().map(|(_, address)| address);
        self.take_spare();
        if accepted.is_some() {
            self.counters.refused.add(1);
        }
        accepted
    }

    fn take_spare(&mut self) {
        if self.spare.is_none() {
            self.spare = self.listener.as_fd().try_clone_to_owned().ok();
        }
    }

    fn take_place(&mut self, stream: TcpStream) -> io::Result<ConnectionId> {
        // A thread sleeps in its reads; each write requests not to block.
        stream.set_nonblocking(!matches!(self.watch, Watch::Threads(..)))?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(UNACKNOWLEDGED_MAX))?;

        let index = self.free.last().copied().unwrap_or(self.places.len() as u32);
        let generation = self.places.get(index as usize).map_or(0, |place| place.generation);
        let connection = ConnectionId { index, generation };
        let stream = Arc::new(stream);
        match &mut self.watch {
            Watch::Epoll(epoll) => epoll.add(stream.as_fd(), connection.to_u64())?,
            Watch::Uring(uring) => uring.add(stream.as_fd(), connection)?,
            Watch::Threads(_, threads) => threads.add(&stream, connection),
        }
        if self.free.pop().is_none() {
            self.places.push(Place { generation, stream: None });
        }
        self.places[index as usize].stream = Some(stream);
        Ok(connection)
    }

    fn stream(&self, connection: ConnectionId) -> io::Result<&TcpStream> {
        self.places
            .get(connection.index as usize)
            .filter(|place| place.generation == connection.generation)
            .and_then(|place| place.stream.as_deref())
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }
}

impl Tcp {
    fn poll_epoll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        let Self { watch, places, acceptable, .. } = self;
        let (epoll, threads) = match watch {
            Watch::Epoll(epoll) => (epoll, None),
            Watch::Threads(epoll, threads) => (epoll, Some(threads)),
            Watch::Uring(_) => return Ok(()),
        };
        epoll.poll(|ready| {
            match ready.token {
                LISTENER => return *acceptable = true,
                // The events it announces are taken below in any case.
                BELL => return,
                _ => {}
            }
            let connection = ConnectionId::from_u64(ready.token);
            let place = &places[connection.index as usize];
            if place.generation != connection.generation || place.stream.is_none() {
                return;
            }
            if ready.readable {
                events.push(NetworkEvent::Readable(connection));
            }
            if ready.ended {
                events.push(NetworkEvent::Ending(connection));
            }
            if ready.writable {
                events.push(NetworkEvent::Writable(connection));
            }
        })?;
        if let Some(threads) = threads {
            threads.take_events(events);
        }
        if self.pause_polls > 0 {
            self.pause_polls -= 1;
        } else if self.acceptable {
            self.accept(events)?;
        }
        Ok(())
    }

    /// Accepts a connection for which the ring had no descriptor, if one is free by now; else refuses it.
    fn accept_late(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        match self.listener.accept() {
            Ok((stream, address)) => {
                if let Ok(connection) = self.take_place(stream) {
                    events.push(NetworkEvent::Accepted(connection, address));
                }
            }
            Err(error) => match accept_failure(&error) {
                AcceptFailure::NoneWaits | AcceptFailure::PeerGone => {}
                AcceptFailure::Broken => return Err(error),
                AcceptFailure::NoRoom => match self.refuse() {
                    Some(address) => events.push(NetworkEvent::Refused(address)),
                    None => {
                        self.pause_polls = PAUSE_POLLS;
                        self.counters.pauses.add(1);
                    }
                },
            },
        }
        Ok(())
    }

    fn poll_uring(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        let Watch::Uring(uring) = &mut self.watch else { return Ok(()) };
        uring.reap()?;
        if let Some(error) = uring.take_failure() {
            match accept_failure(&error) {
                AcceptFailure::NoneWaits | AcceptFailure::PeerGone => {}
                AcceptFailure::Broken => return Err(error),
                AcceptFailure::NoRoom => self.accept_late(events)?,
            }
        }
        for _ in 0..ACCEPTED_MAX {
            let Watch::Uring(uring) = &mut self.watch else { break };
            let Some(stream) = uring.take_accepted() else { break };
            // A connection that has ended already, or cannot be set up, is dropped; its client sees it closed.
            let Ok(address) = stream.peer_addr() else { continue };
            if let Ok(connection) = self.take_place(stream) {
                events.push(NetworkEvent::Accepted(connection, address));
            }
        }
        let Self { watch, places, listener, .. } = self;
        let Watch::Uring(uring) = watch else { return Ok(()) };
        uring.take_events(events);
        uring.resume(|connection| {
            let place = places.get(connection.index as usize)?;
            place.stream.as_deref().filter(|_| place.generation == connection.generation)
        })?;
        if self.pause_polls > 0 {
            self.pause_polls -= 1;
            return Ok(());
        }
        uring.accept(listener.as_fd())
    }
}

impl StreamNetwork for Tcp {
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        match self.watch {
            Watch::Epoll(_) | Watch::Threads(..) => self.poll_epoll(events),
            Watch::Uring(_) => self.poll_uring(events),
        }
    }

    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream(connection)?;
        match &mut self.watch {
            Watch::Epoll(_) => match &self.arrivals {
                None => retry(|| self.stream(connection)?.read(buffer)),
                Some(arrivals) => retry(|| {
                    let stream = self.stream(connection)?;
                    let (len, arrived_ns) = os::receive_stamped(stream.as_fd(), buffer)?;
                    if let Some(arrived_ns) = arrived_ns {
                        arrivals.record(os::unix_now_ns().saturating_sub(arrived_ns));
                    }
                    Ok(len)
                }),
            },
            Watch::Uring(uring) => uring.read(connection, buffer),
            Watch::Threads(_, threads) => threads.read(connection, buffer),
        }
    }

    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        let is_by_thread = matches!(self.watch, Watch::Threads(..));
        let written = retry(|| {
            let mut stream = self.stream(connection)?;
            match is_by_thread {
                true => SockRef::from(stream)
                    .send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
                false => stream.write(bytes),
            }
        });
        let Self { watch, places, .. } = self;
        if let Err(error) = &written
            && error.kind() == io::ErrorKind::WouldBlock
            && let Some(stream) = &places[connection.index as usize].stream
        {
            match watch {
                Watch::Epoll(_) => {}
                Watch::Uring(uring) => uring.report_writable(stream.as_fd(), connection)?,
                Watch::Threads(epoll, threads) => {
                    if threads.begins_to_report_room(connection) {
                        epoll.add_for_room(stream.as_fd(), connection.to_u64())?;
                    }
                }
            }
        }
        written
    }

    fn finish(&mut self, connection: ConnectionId) {
        if let Ok(stream) = self.stream(connection) {
            // It fails only where the connection has ended already, which the next read reports.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if self.stream(connection).is_err() {
            return;
        }
        let place = &mut self.places[connection.index as usize];
        let shut_down = || {
            if let Some(stream) = &place.stream {
                let _ = stream.shutdown(Shutdown::Both);
            }
        };
        match &mut self.watch {
            Watch::Epoll(_) => {}
            Watch::Uring(uring) => {
                // The ring holds the connection open until its operations on it have ended.
                shut_down();
                uring.remove(connection);
            }
            Watch::Threads(_, threads) => {
                // The thread wakes, and holds the connection open until then.
                shut_down();
                threads.remove(connection);
            }
        }
        place.stream = None;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(connection.index);
        self.pause_polls = 0;
        self.take_spare();
    }
}

enum AcceptFailure {
    NoneWaits,
    PeerGone,
    NoRoom,
    Broken,
}

/// accept(2): errors of the peer's network appear as errors of the call.
fn accept_failure(error: &io::Error) -> AcceptFailure {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => AcceptFailure::NoneWaits,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => AcceptFailure::NoRoom,
        Some(libc::EBADF | libc::EFAULT | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP) => {
            AcceptFailure::Broken
        }
        _ => AcceptFailure::PeerGone,
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
