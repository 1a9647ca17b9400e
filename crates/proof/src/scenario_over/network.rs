//! Both ends of the network of a scenario: in memory, or sockets on the loopback interface.
//!
//! Invariant: [`UnderWay`] is zero exactly when all bytes, datagrams, connections and ends that one side handed over
//! have arrived at the other, so a scenario over sockets waits for arrivals and never for time.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use gateway::{
    ConnectionId, DatagramNetwork, NetworkEvent, StreamNetwork, Tcp, Udp, UdpOptions,
    fake::{FakeDatagram, FakeStream},
};

use super::Transport;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Bytes, datagrams, connections and ends of connections that were handed over and have not arrived.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<AtomicI64>);

impl UnderWay {
    fn leave(&self, count: usize) {
        self.0.fetch_add(count as i64, Ordering::Relaxed);
    }

    fn arrive(&self, count: usize) {
        self.0.fetch_sub(count as i64, Ordering::Relaxed);
    }

    /// True if everything has arrived.
    pub fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// The venue's end of streams.
pub enum VenueStreams {
    Memory(FakeStream),
    Loopback(Tcp, UnderWay),
}

impl VenueStreams {
    pub fn new(transport: Transport, under_way: &UnderWay) -> io::Result<Self> {
        Ok(match transport {
            Transport::Memory => Self::Memory(FakeStream::new()),
            Transport::Loopback => Self::Loopback(Tcp::bind(ANY_PORT)?, under_way.clone()),
        })
    }

    /// A participant's end, which is not connected yet.
    pub fn link(&self, address: SocketAddr) -> StreamLink {
        match self {
            Self::Memory(streams) => {
                StreamLink::Memory { streams: streams.clone(), address, connection: None }
            }
            Self::Loopback(tcp, under_way) => StreamLink::Loopback {
                venue: tcp.address(),
                under_way: under_way.clone(),
                stream: None,
            },
        }
    }
}

impl StreamNetwork for VenueStreams {
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        match self {
            Self::Memory(streams) => streams.poll(events),
            Self::Loopback(tcp, under_way) => {
                let before = events.len();
                tcp.poll(events)?;
                let is_accepted =
                    |event: &&NetworkEvent| matches!(event, NetworkEvent::Accepted(..));
                under_way.arrive(events[before..].iter().filter(is_accepted).count());
                Ok(())
            }
        }
    }

    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(streams) => streams.read(connection, buffer),
            Self::Loopback(tcp, under_way) => {
                let count = tcp.read(connection, buffer)?;
                // The end of a stream counts as one byte, and is read once.
                under_way.arrive(count.max(1));
                Ok(count)
            }
        }
    }

    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(streams) => streams.write(connection, bytes),
            Self::Loopback(tcp, under_way) => {
                let count = tcp.write(connection, bytes)?;
                under_way.leave(count);
                Ok(count)
            }
        }
    }

    fn finish(&mut self, connection: ConnectionId) {
        match self {
            Self::Memory(streams) => streams.finish(connection),
            Self::Loopback(tcp, _) => tcp.finish(connection),
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        match self {
            Self::Memory(streams) => streams.close(connection),
            Self::Loopback(tcp, _) => tcp.close(connection),
        }
    }
}

/// A participant's end of a stream.
pub enum StreamLink {
    Memory { streams: FakeStream, address: SocketAddr, connection: Option<ConnectionId> },
    Loopback { venue: SocketAddr, under_way: UnderWay, stream: Option<TcpStream> },
}

impl StreamLink {
    pub fn connect(&mut self) -> io::Result<()> {
        match self {
            Self::Memory { streams, address, connection } => {
                *connection = Some(streams.connect(*address));
            }
            Self::Loopback { venue, under_way, stream } => {
                let connected = TcpStream::connect(*venue)?;
                connected.set_nodelay(true)?;
                connected.set_nonblocking(true)?;
                under_way.leave(1);
                *stream = Some(connected);
            }
        }
        Ok(())
    }

    pub fn is_connected(&self) -> bool {
        match self {
            Self::Memory { connection, .. } => connection.is_some(),
            Self::Loopback { stream, .. } => stream.is_some(),
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Memory { streams, connection, .. } => {
                // The participant's end, not the gateway's method of the same name.
                connection.take().into_iter().for_each(|it| FakeStream::finish(streams, it));
            }
            Self::Loopback { stream, under_way, .. } => {
                if let Some(stream) = stream.take() {
                    under_way.leave(1);
                    stream.shutdown(Shutdown::Both)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes that have arrived.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory { streams, connection, .. } => {
                Ok(connection.map_or_else(Vec::new, |it| streams.take(it, usize::MAX)))
            }
            Self::Loopback { stream, under_way, .. } => {
                let mut bytes = Vec::new();
                let Some(stream) = stream else { return Ok(bytes) };
                match stream.read_to_end(&mut bytes) {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    _ => under_way.arrive(bytes.len()),
                }
                Ok(bytes)
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory { streams, connection, .. } => {
                connection.iter().for_each(|it| streams.deliver(*it, bytes));
            }
            Self::Loopback { stream, under_way, .. } => {
                if let Some(stream) = stream {
                    stream.write_all(bytes)?;
                    under_way.leave(bytes.len());
                }
            }
        }
        Ok(())
    }
}

/// The venue's end of datagrams.
pub enum VenueDatagrams {
    Memory(FakeDatagram),
    Loopback(Box<Udp>, UnderWay),
}

impl VenueDatagrams {
    pub fn new(transport: Transport, under_way: &UnderWay) -> io::Result<Self> {
        Ok(match transport {
            Transport::Memory => Self::Memory(FakeDatagram::new()),
            Transport::Loopback => {
                let udp = Udp::bind(ANY_PORT, &UdpOptions::default())?;
                Self::Loopback(Box::new(udp), under_way.clone())
            }
        })
    }

    /// A participant's end; in memory its address is `address`.
    pub fn link(&self, address: SocketAddr) -> io::Result<DatagramLink> {
        Ok(match self {
            Self::Memory(datagrams) => DatagramLink::Memory(datagrams.clone(), address),
            Self::Loopback(udp, under_way) => {
                let socket = UdpSocket::bind(ANY_PORT)?;
                socket.set_nonblocking(true)?;
                socket.connect(udp.address())?;
                DatagramLink::Loopback(socket, under_way.clone())
            }
        })
    }
}

impl DatagramNetwork for VenueDatagrams {
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        match self {
            Self::Memory(datagrams) => datagrams.receive(deliver),
            Self::Loopback(udp, under_way) => {
                let count = udp.receive(deliver)?;
                under_way.arrive(count);
                Ok(count)
            }
        }
    }

    fn too_long(&mut self) -> Vec<SocketAddr> {
        match self {
            Self::Memory(datagrams) => datagrams.too_long(),
            Self::Loopback(udp, _) => udp.too_long(),
        }
    }

    fn send_parts(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<bool> {
        match self {
            Self::Memory(datagrams) => datagrams.send_parts(to, head, body),
            Self::Loopback(udp, under_way) => {
                let is_queued = udp.send_parts(to, head, body)?;
                under_way.leave(usize::from(is_queued));
                Ok(is_queued)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(datagrams) => datagrams.flush(),
            Self::Loopback(udp, _) => udp.flush(),
        }
    }
}

/// A participant's end of datagrams.
pub enum DatagramLink {
    Memory(FakeDatagram, SocketAddr),
    Loopback(UdpSocket, UnderWay),
}

impl DatagramLink {
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Memory(_, address) => Ok(*address),
            Self::Loopback(socket, _) => socket.local_addr(),
        }
    }

    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(datagrams, address) => datagrams.deliver(*address, datagram),
            Self::Loopback(socket, under_way) => {
                socket.send(datagram)?;
                under_way.leave(1);
            }
        }
        Ok(())
    }

    /// The oldest datagram that has arrived.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Memory(datagrams, address) => Ok(datagrams.take_to(*address)),
            Self::Loopback(socket, under_way) => {
                let mut datagram = vec![0; usize::from(u16::MAX)];
                match socket.recv(&mut datagram) {
                    Ok(len) => {
                        under_way.arrive(1);
                        datagram.truncate(len);
                        Ok(Some(datagram))
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
