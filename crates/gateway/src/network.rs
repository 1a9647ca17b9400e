//! The network interface of the gateways: a simulation can implement it too.
//!
//! Invariant: no call waits. An operation that is not possible now is reported as a result.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

/// The most bytes written to all subscribers of a port in one turn; the rest wait for the next turn. Through the
/// loopback they take the writing thread about a millisecond.
pub(crate) const SUBSCRIBER_BYTES_PER_TURN: usize = 128 << 10;

/// Many byte streams at a time: TCP, or its stand-in in a simulation.
///
/// Readiness is edge-triggered: after `Readable` the caller may read until [`io::ErrorKind::WouldBlock`], or until a
/// read is shorter than its buffer; the next `Readable` reports only later bytes. After `Ending` only reads to the end
/// show how the connection ended. A caller may also read without a `Readable`. A new connection is assumed writable.
/// No method blocks.
pub trait StreamNetwork {
    /// Appends the events since the last call to `events`; their number is bounded.
    ///
    /// # Errors
    /// The network as a whole has failed. Failures of one connection are returned by its `read`.
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()>;

    /// Reads bytes that have arrived, at most `buffer`; 0 means that the peer has finished.
    ///
    /// # Errors
    /// `WouldBlock`: no bytes for now. Any other error: the connection is broken and must be closed; `NotConnected` if
    /// it is not open, or its place has been taken by another.
    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes the front of `bytes` and returns the number of bytes written.
    ///
    /// # Errors
    /// As for [`read`](Self::read); after `WouldBlock` a `Writable` follows when there is room.
    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize>;

    /// Announces to the peer that nothing more will be written; its bytes are still read.
    fn finish(&mut self, connection: ConnectionId);

    /// Gives the connection up. Its id is never used again. Does nothing if the connection is not open.
    fn close(&mut self, connection: ConnectionId);
}

/// Datagrams through one socket: UDP, or its stand-in in a simulation.
pub trait DatagramNetwork {
    /// Receives one batch of datagrams, in the order of arrival, and returns their number: a few thousand at most. 0
    /// means that none is waiting.
    ///
    /// # Errors
    /// The socket is out of order.
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize>;

    /// False if the last `receive` took all waiting datagrams, so that the next call can wait for the next turn.
    fn may_have_more(&self) -> bool {
        true
    }

    /// The senders of datagrams of the last `receive` that were longer than this network takes. Such datagrams count
    /// in its result, but are not delivered.
    fn too_long(&mut self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Queues a datagram. Returns false if there is no room for now; try again next turn.
    ///
    /// A queued datagram may still be lost: that is the nature of datagrams.
    ///
    /// # Errors
    /// It is longer than this network can carry, or the socket is out of order.
    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> io::Result<bool> {
        self.send_parts(to, datagram, &[])
    }

    /// Queues a datagram of two parts, as [`send`](Self::send) does.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    fn send_parts(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<bool>;

    /// Hands queued datagrams to the operating system, as far as it takes them.
    ///
    /// # Errors
    /// The socket is out of order.
    fn flush(&mut self) -> io::Result<()>;
}

/// An event of a [`StreamNetwork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// A peer connected, and was closed at once: the system has no descriptor left.
    Refused(SocketAddr),
    /// A peer has connected, from this address.
    Accepted(ConnectionId, SocketAddr),
    /// Bytes have arrived, or the connection has ended: a read shows which.
    Readable(ConnectionId),
    /// No bytes follow those that have arrived, or the connection is broken. A `Readable` is reported beside it.
    Ending(ConnectionId),
    /// There is room again after a write that would have blocked.
    Writable(ConnectionId),
}

/// A connection of a [`StreamNetwork`]: a place in its table, and a count that distinguishes the connections that have
/// held the place. So an id that outlives its connection never means another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The place: from 0, and below the largest number of connections open at one time.
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

/// The part of an address that one client cannot change at will: the IPv4 address, or the 64-bit network of an IPv6
/// address.
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
