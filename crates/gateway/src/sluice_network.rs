//! Sluice at its socket: datagrams of many peers as connections, served like those over TCP.
//!
//! Invariant: a peer that has not proved that it receives at its address costs no memory and gets no more bytes than it
//! sent; a datagram without the token of its connection changes nothing.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    sync::Arc,
};

use wire::{
    layout::IntoBytes,
    sluice::{FRAME_HEADER_LEN, answer_to_hello, hello, split_frame, token},
};

use crate::{ConnectionId, DatagramNetwork, NetworkEvent, SluiceCounters, StreamNetwork};

/// Datagrams received in one call, one batch more at most: all protocols share the turn.
const DATAGRAMS_PER_POLL: usize = 128;
/// The most connections opened in one call. A login beyond that number is dropped, and comes again: between two calls
/// the agent decides which connections stay.
const OPENED_PER_POLL: usize = 16;
/// Bytes of a session that wait to be read; further bytes are dropped and counted, as at a full socket. The buffer may
/// take twice as many.
pub const INBOX_BYTES_MAX: usize = 64 * 1024;

/// The connections of Sluice through one socket.
///
/// A hello from anywhere is answered with a token, a keyed hash of the address and the nonce; the answer takes no
/// memory. A login with the right token opens a connection, which is known by address and token. A read gives the
/// datagrams of a connection, each after its length in two bytes; a write takes datagrams in the same form, whole ones
/// only.
pub struct SluiceNetwork<D> {
    datagrams: D,
    door: Door,
    /// Connections whose writes found no room.
    blocked: Vec<ConnectionId>,
}

/// The state behind the socket, in a struct of its own because the socket is borrowed while it gives its datagrams.
struct Door {
    /// Chosen at random by the system at the start.
    key: RandomState,
    by_token: BTreeMap<(SocketAddr, u64), u32>,
    peers: Vec<Place>,
    /// Places without a peer.
    free: Vec<u32>,
    /// Connections opened in this call.
    opened: usize,
    events: Vec<NetworkEvent>,
    /// Tokens to be sent.
    answers: Vec<(SocketAddr, u64, u64)>,
    counters: Arc<SluiceCounters>,
}

#[derive(Default)]
struct Place {
    generation: u32,
    peer: Option<Peer>,
}

struct Peer {
    address: SocketAddr,
    token: u64,
    inbox: Vec<u8>,
    /// Bytes at the front of the inbox that have been read.
    read: usize,
    /// True if a `Readable` was reported and no read has followed.
    announced: bool,
    /// True if nothing more will be written: the connection is over.
    finished: bool,
}

impl<D: DatagramNetwork> SluiceNetwork<D> {
    /// Over a bound socket.
    pub fn new(datagrams: D) -> Self {
        let door = Door {
            key: RandomState::new(),
            by_token: BTreeMap::new(),
            peers: Vec::new(),
            free: Vec::new(),
            opened: 0,
            events: Vec::new(),
            answers: Vec::new(),
            counters: Arc::default(),
        };
        Self { datagrams, door, blocked: Vec::new() }
    }

    /// Its counters; any thread may read them.
    #[must_use]
    pub fn counters(&self) -> Arc<SluiceCounters> {
        Arc::clone(&self.door.counters)
    }
}

impl Door {
    fn token_of(&self, address: SocketAddr, nonce: u64) -> u64 {
        self.key.hash_one((address, nonce))
    }

    /// Takes a datagram.
    fn take(&mut self, from: SocketAddr, datagram: &[u8]) {
        self.counters.datagrams.add(1);
        if let Some(nonce) = hello(datagram) {
            self.counters.hellos.add(1);
            let token = self.token_of(from, nonce);
            return self.answers.push((from, nonce, token));
        }
        let Some((token, login_nonce)) = token(datagram) else {
            return self.counters.strange.add(1);
        };
        let known = self.by_token.get(&(from, token)).copied();
        let place = match (known, login_nonce) {
            (Some(place), _) => place,
            (None, Some(nonce)) if self.token_of(from, nonce) == token => {
                if self.opened == OPENED_PER_POLL {
                    return self.counters.put_off.add(1);
                }
                self.open(from, token)
            }
            _ => return self.counters.strange.add(1),
        };
        self.deliver(place, datagram);
    }

    /// Opens a connection in a place that is free.
    fn open(&mut self, address: SocketAddr, token: u64) -> u32 {
        self.opened += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.peers.push(Place::default());
            self.peers.len() as u32 - 1
        });
        let place = &mut self.peers[index as usize];
        place.peer = Some(Peer {
            address,
            token,
            inbox: Vec::new(),
            read: 0,
            announced: false,
            finished: false,
        });
        let id = ConnectionId { index, generation: place.generation };
        self.by_token.insert((address, token), id.index);
        self.events.push(NetworkEvent::Accepted(id, address));
        id.index
    }

    fn deliver(&mut self, index: u32, datagram: &[u8]) {
        let Place { generation, peer } = &mut self.peers[index as usize];
        let peer = peer.as_mut().expect("its token names it while it is open");
        let frame_len = FRAME_HEADER_LEN + datagram.len();
        if peer.finished || peer.inbox.len() - peer.read + frame_len > INBOX_BYTES_MAX {
            return self.counters.inbox_full.add(1);
        }
        if peer.read > 0 {
            peer.inbox.drain(..peer.read);
            peer.read = 0;
        }
        peer.inbox.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        peer.inbox.extend_from_slice(datagram);
        if !peer.announced {
            peer.announced = true;
            let id = ConnectionId { index, generation: *generation };
            self.events.push(NetworkEvent::Readable(id));
        }
    }

    fn peer(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        let place = self.peers.get_mut(id.index as usize)?;
        if place.generation == id.generation { place.peer.as_mut() } else { None }
    }
}

impl<D: DatagramNetwork> StreamNetwork for SluiceNetwork<D> {
    fn poll(&mut self, events: &mut Vec<NetworkEvent>) -> io::Result<()> {
        let Self { datagrams, door, blocked } = self;
        datagrams.flush()?;
        events.extend(blocked.drain(..).map(NetworkEvent::Writable));
        door.opened = 0;
        let mut received = 0;
        while received < DATAGRAMS_PER_POLL {
            let count = datagrams.receive(&mut |from, datagram| door.take(from, datagram))?;
            door.counters.too_long.add(datagrams.too_long().len() as u64);
            received += count;
            if count == 0 || !datagrams.may_have_more() {
                break;
            }
        }
        for (to, nonce, token) in door.answers.drain(..) {
            // An answer that finds no room is lost; the client asks again.
            datagrams.send(to, answer_to_hello(nonce, token).as_bytes())?;
        }
        datagrams.flush()?;
        events.append(&mut door.events);
        Ok(())
    }

    fn read(&mut self, connection: ConnectionId, buffer: &mut [u8]) -> io::Result<usize> {
        let peer = self.door.peer(connection).ok_or(io::ErrorKind::NotConnected)?;
        if peer.finished {
            return Ok(0);
        }
        let unread = &peer.inbox[peer.read..];
        peer.announced = false;
        if unread.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&unread[..count]);
        peer.read += count;
        if peer.read == peer.inbox.len() {
            peer.inbox.clear();
            peer.read = 0;
        }
        Ok(count)
    }

    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        let address = self.door.peer(connection).ok_or(io::ErrorKind::NotConnected)?.address;
        let mut unsent = bytes;
        while let Some((datagram, rest)) = split_frame(unsent) {
            if !self.datagrams.send(address, datagram)? {
                break;
            }
            self.door.counters.packets.add(1);
            unsent = rest;
        }
        self.datagrams.flush()?;
        let count = bytes.len() - unsent.len();
        if count == 0 {
            self.blocked.push(connection);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    fn finish(&mut self, connection: ConnectionId) {
        // A Sluice connection has no other half to wait for.
        if let Some(peer) = self.door.peer(connection) {
            peer.finished = true;
            self.door.events.push(NetworkEvent::Readable(connection));
            self.door.events.push(NetworkEvent::Ending(connection));
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        let Some(peer) = self.door.peer(connection) else { return };
        let name = (peer.address, peer.token);
        self.door.by_token.remove(&name);
        let place = &mut self.door.peers[connection.index as usize];
        place.peer = None;
        place.generation = place.generation.wrapping_add(1);
        self.door.free.push(connection.index);
    }
}

#[cfg(test)]
mod tests {
    use wire::sluice::{Client, Login, Timers};

    use super::*;
    use crate::fake::{FAKE_BATCH, FakeDatagram};

    fn address(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], number))
    }

    /// A client's hello, answered, and its login, not yet sent.
    fn asking(
        network: &mut SluiceNetwork<FakeDatagram>,
        datagrams: &FakeDatagram,
        from: SocketAddr,
        nonce: u64,
    ) -> Vec<u8> {
        let login = Login {
            username: market::Text::new("USER01").unwrap(),
            password: market::Text::new("PASSWORD01").unwrap(),
            session: market::Text::BLANK,
            sequence_number: 1,
        };
        let mut client = Client::new(Timers::default(), login, nonce, 0);
        datagrams.deliver(from, &client.take_outgoing().unwrap());
        network.poll(&mut Vec::new()).unwrap();
        let answer = datagrams.take_to(from).expect("a hello is answered at once");
        client.receive(&answer, 0, &mut |_, _| {}).unwrap();
        client.take_outgoing().unwrap()
    }

    fn polled(network: &mut SluiceNetwork<FakeDatagram>) -> Vec<NetworkEvent> {
        let mut events = Vec::new();
        network.poll(&mut events).unwrap();
        events
    }

    /// Hellos from anywhere get shorter answers, and nothing is kept of them; a token is good at its own address and
    /// for its own nonce only.
    #[test]
    fn a_token_proves_an_address() {
        let datagrams = FakeDatagram::new();
        let mut network = SluiceNetwork::new(datagrams.clone());
        for number in 1..2_000 {
            asking(&mut network, &datagrams, address(number), 7);
        }
        assert!(network.door.peers.is_empty() && network.door.by_token.is_empty());
        let login = asking(&mut network, &datagrams, address(1), 7);
        datagrams.deliver(address(2), &login);
        let mut other = login.clone();
        other[16] ^= 1;
        datagrams.deliver(address(1), &other);
        assert_eq!(polled(&mut network), []);
        assert_eq!(network.counters().read().strange, 2);
        datagrams.deliver(address(1), &login);
        datagrams.deliver(address(1), &login);
        let id = ConnectionId { index: 0, generation: 0 };
        let events = [NetworkEvent::Accepted(id, address(1)), NetworkEvent::Readable(id)];
        assert_eq!(polled(&mut network), events);
        let mut buffer = [0; 1_024];
        let count = network.read(id, &mut buffer).unwrap();
        assert_eq!(count, 2 * (FRAME_HEADER_LEN + login.len()), "both, for the session to judge");
        assert_eq!(network.read(id, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // A second client there has a connection of its own.
        let login = asking(&mut network, &datagrams, address(1), 8);
        datagrams.deliver(address(1), &login);
        let second = ConnectionId { index: 1, generation: 0 };
        assert_eq!(polled(&mut network)[0], NetworkEvent::Accepted(second, address(1)));
        assert!(datagrams.take().is_none());
    }

    /// Only the first logins of one call open a connection, up to the bound; the others do when they come again. Places
    /// are used again.
    #[test]
    fn a_call_opens_so_many_connections() {
        let datagrams = FakeDatagram::new();
        let mut network = SluiceNetwork::new(datagrams.clone());
        let logins: Vec<_> = (0..OPENED_PER_POLL as u64 + 10)
            .map(|nonce| asking(&mut network, &datagrams, address(1), nonce))
            .collect();
        logins.iter().for_each(|login| datagrams.deliver(address(1), login));
        let accepted = |events: Vec<NetworkEvent>| -> Vec<ConnectionId> {
            let id = |event: &NetworkEvent| match event {
                NetworkEvent::Accepted(id, _) => Some(*id),
                _ => None,
            };
            events.iter().filter_map(id).collect()
        };
        let first = accepted(polled(&mut network));
        assert_eq!((first.len(), network.counters().read().put_off), (OPENED_PER_POLL, 10));
        first.iter().for_each(|id| network.close(*id));
        logins[OPENED_PER_POLL..].iter().for_each(|login| datagrams.deliver(address(1), login));
        assert_eq!(accepted(polled(&mut network)).len(), 10);
        assert_eq!(network.door.peers.len(), OPENED_PER_POLL);
    }

    /// A call ends after a fixed number of datagrams, whatever waits behind them.
    #[test]
    fn a_call_receives_so_many_datagrams() {
        let datagrams = FakeDatagram::new();
        let mut network = SluiceNetwork::new(datagrams.clone());
        let sent = 4 * DATAGRAMS_PER_POLL as u64;
        (0..sent).for_each(|_| datagrams.deliver(address(1), b"strange"));
        polled(&mut network);
        let received = network.counters().read().datagrams;
        let most = (DATAGRAMS_PER_POLL + FAKE_BATCH) as u64;
        assert!((DATAGRAMS_PER_POLL as u64..most).contains(&received), "{received}");
        (0..8).for_each(|_| assert_eq!(polled(&mut network), []));
        assert_eq!(network.counters().read().strange, sent, "the others follow");
    }

    /// The waiting bytes of a connection are bounded, and a read makes room for more; a datagram may be read in parts.
    #[test]
    fn an_inbox_is_bounded() {
        let datagrams = FakeDatagram::new();
        let mut network = SluiceNetwork::new(datagrams.clone());
        let login = asking(&mut network, &datagrams, address(1), 7);
        datagrams.deliver(address(1), &login);
        let id = ConnectionId { index: 0, generation: 0 };
        assert_eq!(polled(&mut network).len(), 2);
        let mut datagram = [&b"U"[..], &login[1..9], &[0; 1_000]].concat();
        for _ in 0..100 {
            datagrams.deliver(address(1), &datagram);
        }
        datagram[1] ^= 1;
        datagrams.deliver(address(1), &datagram);
        assert_eq!(polled(&mut network), [], "it was reported");
        let counted = network.counters().read();
        let whole = INBOX_BYTES_MAX / (FRAME_HEADER_LEN + 1_009);
        assert_eq!((counted.inbox_full, counted.strange), (100 - whole as u64, 1));
        let mut buffer = [0; 700];
        let mut bytes = 0;
        while let Ok(count) = network.read(id, &mut buffer) {
            bytes += count;
        }
        assert_eq!(bytes, FRAME_HEADER_LEN + login.len() + whole * (FRAME_HEADER_LEN + 1_009));
        datagram[1] ^= 1;
        datagrams.deliver(address(1), &datagram);
        assert_eq!(polled(&mut network), [NetworkEvent::Readable(id)]);
    }

    /// A write that finds no room continues when there is some; a place that is reused has another connection id.
    #[test]
    fn a_full_network_holds_writes_back() {
        let datagrams = FakeDatagram::new();
        let mut network = SluiceNetwork::new(datagrams.clone());
        let login = asking(&mut network, &datagrams, address(1), 7);
        datagrams.deliver(address(1), &login);
        polled(&mut network);
        let id = ConnectionId { index: 0, generation: 0 };
        datagrams.set_room(1);
        assert_eq!(network.write(id, b"\x00\x01a\x00\x02bc").unwrap(), 3);
        let blocked = network.write(id, b"\x00\x02bc").unwrap_err();
        assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(datagrams.take_to(address(1)).unwrap(), b"a");
        assert_eq!(polled(&mut network), [NetworkEvent::Writable(id)]);
        assert_eq!(network.write(id, b"\x00\x02bc").unwrap(), 4);
        assert_eq!(datagrams.take_to(address(1)).unwrap(), b"bc");
        network.finish(id);
        let ends = [NetworkEvent::Readable(id), NetworkEvent::Ending(id)];
        assert_eq!(polled(&mut network), ends);
        assert_eq!(network.read(id, &mut [0; 9]).unwrap(), 0);
        network.close(id);
        assert_eq!(network.read(id, &mut [0; 9]).unwrap_err().kind(), io::ErrorKind::NotConnected);
        datagrams.deliver(address(1), &login);
        let next = ConnectionId { index: 0, generation: 1 };
        assert_eq!(polled(&mut network)[0], NetworkEvent::Accepted(next, address(1)));
    }
}
