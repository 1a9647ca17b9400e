//! Networks in memory, for tests and the simulator: the gateway holds one end, the caller the other, and only the
//! caller moves data between them.
//!
//! So the caller decides how the network behaves: it delays by handing bytes on later, loses by not handing them on,
//! repeats and reorders by handing them on twice or out of turn, and cuts a stream at any byte. [`Transit`] keeps
//! messages under way until their time.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use crate::{ConnectionId, DatagramNetwork, NetworkEvent, StreamNetwork, UdpOptions};

/// Streams in memory; both ends are clones of one value.
#[derive(Clone, Debug, Default)]
pub struct FakeStream(Arc<Mutex<Streams>>);

#[derive(Debug, Default)]
struct Streams {
    events: VecDeque<NetworkEvent>,
    generations: Vec<u32>,
    open: BTreeMap<u32, Pipe>,
    /// Bytes that the gateway wrote on connections it has closed since, not yet taken.
    closed: BTreeMap<ConnectionId, VecDeque<u8>>,
}

#[derive(Debug)]
struct Pipe {
    id: ConnectionId,
    to_gateway: VecDeque<u8>,
    from_gateway: VecDeque<u8>,
    /// The number of bytes the gateway may write before they are taken; then it would block.
    room: usize,
    /// The number of bytes the gateway may still write before the connection is cut.
    cut_after: Option<usize>,
    /// The number of reads and writes of the gateway, those without an effect included.
    calls: u64,
    /// True if a write would have blocked, so a `Writable` must follow.
    blocked: bool,
    ended: Option<End>,
    finished_by_gateway: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has finished sending: bytes under way arrive, then 0 is read.
    Finished,
    /// The connection is broken for both ends.
    Cut,
}

impl FakeStream {
    /// Makes a network without connections; each new one has room for 64 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn connect(&self, from: SocketAddr) -> ConnectionId {
        let mut streams = self.lock();
        let index = (0..).find(|index| !streams.open.contains_key(index)).expect("u32 is enough");
        if streams.generations.len() == index as usize {
            streams.generations.push(0);
        }
        let id = ConnectionId { index, generation: streams.generations[index as usize] };
        streams.open.insert(
            index,
            Pipe {
                id,
                to_gateway: VecDeque::new(),
                from_gateway: VecDeque::new(),
                room: 64 * 1024,
                cut_after: None,
                calls: 0,
                blocked: false,
                ended: None,
                finished_by_gateway: false,
            },
        );
        streams.events.push_back(NetworkEvent::Accepted(id, from));
        id
    }

    /// Reports that the system had no descriptor for a connection from `from`, which was closed.
    pub fn refuse(&self, from: SocketAddr) {
        self.lock().events.push_back(NetworkEvent::Refused(from));
    }

    /// Delivers bytes of a client to the gateway; they are lost if the connection has ended.
    pub fn deliver(&self, connection: ConnectionId, bytes: &[u8]) {
        let mut streams = self.lock();
        let Some(pipe) = streams.pipe(connection) else { return };
        if pipe.ended.is_none() && !bytes.is_empty() {
            pipe.to_gateway.extend(bytes);
            streams.events.push_back(NetworkEvent::Readable(connection));
        }
    }

    /// Takes bytes that the gateway has written, at most `bytes_max`. Bytes written before it closed the connection
    /// can still be taken after.
    #[must_use]
    pub fn take(&self, connection: ConnectionId, bytes_max: usize) -> Vec<u8> {
        let mut streams = self.lock();
        if let Some(written) = streams.closed.get_mut(&connection) {
            let count = written.len().min(bytes_max);
            let taken = written.drain(..count).collect();
            if written.is_empty() {
                streams.closed.remove(&connection);
            }
            return taken;
        }
        let Some(pipe) = streams.pipe(connection) else { return Vec::new() };
        let count = pipe.from_gateway.len().min(bytes_max);
        let taken: Vec<u8> = pipe.from_gateway.drain(..count).collect();
        streams.signal_room(connection);
        taken
    }

    /// The number of bytes the gateway has written that were not taken.
    #[must_use]
    pub fn waiting(&self, connection: ConnectionId) -> usize {
        let mut streams = self.lock();
        match streams.closed.get(&connection) {
            Some(written) => written.len(),
            None => streams.pipe(connection).map_or(0, |pipe| pipe.from_gateway.len()),
        }
    }

    /// The number of times the gateway has read from the connection or written to it: system calls, on a real machine.
    #[must_use]
    pub fn calls(&self, connection: ConnectionId) -> u64 {
        self.lock().pipe(connection).map_or(0, |pipe| pipe.calls)
    }

    /// Sets how many bytes the gateway may write before they are taken, from now on.
    pub fn set_room(&self, connection: ConnectionId, bytes: usize) {
        let mut streams = self.lock();
        if let Some(pipe) = streams.pipe(connection) {
            pipe.room = bytes;
            streams.signal_room(connection);
        }
    }

    /// Ends the client's sending; the client can still receive.
    pub fn finish(&self, connection: ConnectionId) {
        self.end(connection, End::Finished);
    }

    /// Breaks the connection for both ends now. Bytes that had arrived are lost.
    pub fn cut(&self, connection: ConnectionId) {
        self.end(connection, End::Cut);
    }

    /// Breaks the connection once the gateway has written `bytes` more bytes; the client can still take those.
    pub fn cut_after(&self, connection: ConnectionId, bytes: usize) {
        if let Some(pipe) = self.lock().pipe(connection) {
            pipe.cut_after = Some(bytes);
        }
    }

    /// True if the gateway has not closed the connection.
    #[must_use]
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.lock().pipe(connection).is_some()
    }

    /// True if the gateway has closed the connection, or has finished writing.
    #[must_use]
    pub fn is_finished(&self, connection: ConnectionId) -> bool {
        self.lock().pipe(connection).is_none_or(|pipe| pipe.finished_by_gateway)
    }

    fn end(&self, connection: ConnectionId, end: End) {
        let mut streams = self.lock();
        if let Some(pipe) = streams.pipe(connection) {
            pipe.end(end);
            streams.events.push_back(NetworkEvent::Readable(connection));
            streams.events.push_back(NetworkEvent::Ending(connection));
            streams.events.push_back(NetworkEvent::Writable(connection));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().expect("no end panics while it holds the other's")
    }
}

impl Streams {
    fn pipe(&mut self, connection: ConnectionId) -> Option<&mut Pipe> {
        self.open.get_mut(&connection.index).filter(|pipe| pipe.id == connection)
    }

    fn signal_room(&mut self, connection: ConnectionId) {
        let Some(pipe) = self.pipe(connection) else { return };
        if pipe.blocked && pipe.from_gateway.len() < pipe.room {
            pipe.blocked = false;
            self.events.push_back(NetworkEvent::Writable(connection));
        }
    }
}

impl Pipe {
    fn end(&mut self, end: End) {
        if self.ended != Some(End::Cut) {
            self.ended = Some(end);
        }
        if end == End::Cut {
            self.to_gateway.clear();
        }
    }
}

impl StreamNetwork for FakeStream {
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        events.extend(self.lock().events.drain(..));
        Ok(())
    }

    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize> {
        let mut streams = self.lock();
        let pipe = streams.pipe(connection).ok_or(io::ErrorKind::NotConnected)?;
        pipe.calls += 1;
        if pipe.to_gateway.is_empty() {
            return match pipe.ended {
                None => Err(io::ErrorKind::WouldBlock.into()),
                Some(End::Finished) => Ok(0),
                Some(End::Cut) => Err(io::ErrorKind::ConnectionReset.into()),
            };
        }
        let count = pipe.to_gateway.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(pipe.to_gateway.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        let mut streams = self.lock();
        let pipe = streams.pipe(connection).ok_or(io::ErrorKind::NotConnected)?;
        pipe.calls += 1;
        if pipe.ended == Some(End::Cut) || pipe.finished_by_gateway {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut count = bytes.len().min(pipe.room.saturating_sub(pipe.from_gateway.len()));
        if count == 0 && !bytes.is_empty() {
            pipe.blocked = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Some(cut_after) = &mut pipe.cut_after {
            count = count.min(*cut_after);
            *cut_after -= count;
            if *cut_after == 0 {
                pipe.end(End::Cut);
                streams.events.push_back(NetworkEvent::Readable(connection));
                streams.events.push_back(NetworkEvent::Ending(connection));
            }
        }
        let pipe = streams.pipe(connection).expect("it was there above");
        pipe.from_gateway.extend(&bytes[..count]);
        if count == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(count) }
    }

    fn finish(&mut self, connection: ConnectionId) {
        if let Some(pipe) = self.lock().pipe(connection) {
            pipe.finished_by_gateway = true;
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        let mut streams = self.lock();
        if streams.pipe(connection).is_none() {
            return;
        }
        if let Some(pipe) = streams.open.remove(&connection.index) {
            streams.closed.insert(connection, pipe.from_gateway);
            let generation = &mut streams.generations[connection.index as usize];
            *generation = generation.wrapping_add(1);
        }
    }
}

/// Datagrams in memory; both ends are clones of one value.
#[derive(Clone, Debug)]
pub struct FakeDatagram(Arc<Mutex<Datagrams>>);

#[derive(Debug)]
struct Datagrams {
    to_gateway: VecDeque<(SocketAddr, Vec<u8>)>,
    from_gateway: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Senders of datagrams of the last batch that were too long.
    too_long: Vec<SocketAddr>,
    room: usize,
}

/// The most datagrams given to the gateway in one call of `receive`.
pub const FAKE_BATCH: usize = 64;

impl Default for FakeDatagram {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeDatagram {
    /// Makes a network without datagrams, with room for any number.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Datagrams {
            to_gateway: VecDeque::new(),
            from_gateway: VecDeque::new(),
            too_long: Vec::new(),
            room: usize::MAX,
        })))
    }

    pub fn deliver(&self, from: SocketAddr, datagram: &[u8]) {
        self.lock().to_gateway.push_back((from, datagram.to_vec()));
    }

    /// The number of datagrams that have arrived and that the gateway has not received.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().to_gateway.len()
    }

    /// Takes the oldest datagram that the gateway has sent, with its destination.
    #[must_use]
    pub fn take(&self) -> Option<(SocketAddr, Vec<u8>)> {
        self.lock().from_gateway.pop_front()
    }

    /// Takes the oldest datagram that the gateway has sent to this address.
    #[must_use]
    pub fn take_to(&self, address: SocketAddr) -> Option<Vec<u8>> {
        let mut datagrams = self.lock();
        let index = datagrams.from_gateway.iter().position(|(to, _)| *to == address)?;
        datagrams.from_gateway.remove(index).map(|(_, datagram)| datagram)
    }

    /// Sets how many datagrams the gateway may send before they are taken, from now on.
    pub fn set_room(&self, datagrams: usize) {
        self.lock().room = datagrams;
    }

    fn lock(&self) -> MutexGuard<'_, Datagrams> {
        self.0.lock().expect("no end panics while it holds the other's")
    }
}

impl DatagramNetwork for FakeDatagram {
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        let mut datagrams = self.lock();
        let count = datagrams.to_gateway.len().min(FAKE_BATCH);
        let Datagrams { to_gateway, too_long, .. } = &mut *datagrams;
        too_long.clear();
        for (from, datagram) in to_gateway.drain(..count) {
            if datagram.len() > UdpOptions::default().datagram_bytes_max {
                too_long.push(from);
            } else {
                deliver(from, &datagram);
            }
        }
        Ok(count)
    }

    fn too_long(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.lock().too_long)
    }

    fn send_parts(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<bool> {
        let mut datagrams = self.lock();
        if datagrams.from_gateway.len() >= datagrams.room {
            return Ok(false);
        }
        datagrams.from_gateway.push_back((to, [head, body].concat()));
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Things under way, each with the time of its arrival; of those with the same time, the one sent first arrives first.
#[derive(Clone, Debug)]
pub struct Transit<T> {
    under_way: BTreeMap<(u64, u64), T>,
    sent: u64,
}

impl<T> Default for Transit<T> {
    fn default() -> Self {
        Self { under_way: BTreeMap::new(), sent: 0 }
    }
}

impl<T> Transit<T> {
    /// Makes an empty transit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a thing that arrives at `due_ns`.
    pub fn send(&mut self, due_ns: u64, thing: T) {
        self.under_way.insert((due_ns, self.sent), thing);
        self.sent += 1;
    }

    /// Takes the next thing that has arrived by `now_ns`.
    pub fn arrived(&mut self, now_ns: u64) -> Option<T> {
        let first = self.under_way.first_entry()?;
        if first.key().0 <= now_ns { Some(first.remove()) } else { None }
    }

    /// The time of the next arrival, in nanoseconds.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.under_way.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }
}
