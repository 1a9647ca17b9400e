//! What gateways need of a network, so that a simulation can take its place.
//!
//! Invariant: no call waits. What cannot be done now is reported as a result.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

/// Bytes written to all subscribers of a port in one turn, before the rest have to wait for the next. Through the
/// loopback they take the writing thread about a millisecond.
pub(crate) const SUBSCRIBER_BYTES_PER_TURN: usize = 128 << 10;

/// Many byte streams at a time: TCP, or its stand-in in a simulation.
///
/// Readiness is edge-triggered: after `Readable` the caller may read until
/// [`io::ErrorKind::WouldBlock`], or until a read is shorter than its buffer; the next `Readable` reports only
/// later bytes. After `Ending` only reads to the end tell what became of the connection. A caller may also read
/// without a `Readable`. A new connection is assumed writable. No method blocks.
pub trait StreamNetwork {
    /// Appends what has happened since the last call to `events`; a bounded number of them.
    ///
    /// # Errors
    /// The network as a whole has failed. Failures of one connection are returned by its `read`.
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()>;

    /// Reads what has arrived, at most `buffer`; 0 says the peer has finished.
    ///
    /// # Errors
    /// `WouldBlock`: nothing for now. Anything else: the connection is broken and must be closed;
    /// `NotConnected` if it is not open, or its place has been taken by another.
    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes the front of `bytes` and says how many of them.
    ///
    /// # Errors
    /// As for [`read`](Self::read); after `WouldBlock` a `Writable` follows when there is room.
    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize>;

    /// Says to the peer that nothing more will be written, while what it sends is still read.
    fn finish(&mut self, connection: ConnectionId);

    /// Gives the connection up. Its id is never used again; nothing happens if it is not open.
    fn close(&mut self, connection: ConnectionId);
}

/// Datagrams through one socket: UDP, or what stands for it in a simulation.
pub trait DatagramNetwork {
    /// Receives one batch of datagrams, in the order of arrival, and says how many there were: a
    /// few thousand at most. 0 says that none is waiting.
    ///
    /// # Errors
    /// The socket is out of order.
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize>;

    /// False if the last `receive` found the end of what was waiting, so that another is for the next turn.
    fn may_have_more(&self) -> bool {
        true
    }

    /// The senders of datagrams of the last `receive` that were longer than this network takes. They were
    /// counted there, and not delivered.
    fn too_long(&mut self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Queues a datagram; false if there is no room for now, and it is to be tried next turn.
    ///
    /// A datagram that is queued may still be lost: that is the nature of it.
    ///
    /// # Errors
    /// It is longer than this network can carry, or the socket is out of order.
    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> io::Result<bool> {
        self.send_parts(to, datagram, &[])
    }

    /// As [`send`](Self::send), a datagram of two parts.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    fn send_parts(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<bool>;

    /// Hands what is queued to the operating system, as far as that takes it.
    ///
    /// # Errors
    /// The socket is out of order.
    fn flush(&mut self) -> io::Result<()>;
}

/// What a [`StreamNetwork`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// Somebody connected, and was closed at once: the system has no descriptor left.
    Refused(SocketAddr),
    /// A peer has connected, from this address.
    Accepted(ConnectionId, SocketAddr),
    /// Bytes have arrived, or the connection has ended: read to learn which.
    Readable(ConnectionId),
    /// Nothing follows what has arrived, or the connection is broken. A `Readable` is reported beside it.
    Ending(ConnectionId),
    /// There is room again after a write that would have blocked.
    Writable(ConnectionId),
}

/// A connection of a [`StreamNetwork`]: a place in its table, and which of the connections that
/// have held the place. So an id that outlives its connection never means another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The place, from 0 to below the most connections there have been at a time.
    pub index: u32,
    /// Counts the connections that have held the place.
    pub generation: u32,
}

impl ConnectionId {
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// What one client cannot change at will: the address, or of IPv6 its network of 64 bits.
pub(crate) fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// One network of IPv6 is one origin, and an IPv4 address is the same in either form.
    #[test]
    fn an_origin_is_what_a_client_cannot_change() {
        assert_eq!(origin(ip("2001:db8::1")), origin(ip("2001:db8::ffff")));
        assert_ne!(origin(ip("2001:db8::1")), origin(ip("2001:db8:0:1::1")));
        assert_eq!(origin(ip("10.0.0.1")), origin(ip("::ffff:10.0.0.1")));
    }
}
