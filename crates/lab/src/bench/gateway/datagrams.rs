//! A client over UDP with a number of requests outstanding, that never sleeps.
//!
//! Invariant: an answer that does not come ends the run with an error; none is counted twice.

use std::{
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
};

use os::{BATCH, DatagramBatch};
use socket2::SockRef;
use venue::clock::SystemClock;
use wire::moldudp64::{PacketKind, parse};

use super::{DriveError, Driven, SILENCE_NS_MAX, prepared::Prepared};
use crate::latency::Latency;

/// The longest datagram of either side, in bytes.
pub(super) const DATAGRAM_LEN_MAX: usize = 2_048;
/// Receive buffer asked of the system: room for the answers of all outstanding requests.
pub(super) const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Polls of the socket between two readings of the clock while nothing arrives.
const LOOKS: u32 = 1 << 14;

pub(super) struct DatagramDrive {
    socket: UdpSocket,
    server: SocketAddr,
    /// Requests in a datagram.
    requests: usize,
    /// Datagrams of one length are sent together.
    joined: bool,
    clock: SystemClock,
    outgoing: DatagramBatch,
    incoming: DatagramBatch,
    /// Number of the next answer of the session; `None` before the first.
    expected: Option<u64>,
    datagram: Vec<u8>,
}

impl DatagramDrive {
    pub(super) fn new(
        socket: UdpSocket,
        server: SocketAddr,
        requests: usize,
        joined: bool,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        socket.set_nonblocking(true)?;
        SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        Ok(Self {
            socket,
            server,
            requests,
            joined,
            clock,
            outgoing: DatagramBatch::new(DATAGRAM_LEN_MAX),
            incoming: DatagramBatch::new(DATAGRAM_LEN_MAX),
            expected: None,
            datagram: Vec::with_capacity(DATAGRAM_LEN_MAX),
        })
    }

    /// Sends all requests, at most `outstanding` of them without an answer.
    pub(super) fn run(
        &mut self,
        prepared: &Prepared,
        outstanding: usize,
    ) -> Result<Driven, DriveError> {
        let mut latency = Latency::new();
        // When each outstanding request was sent, by its number.
        let mut sent_ns = vec![0; outstanding.next_power_of_two()];
        let (mut sent, mut answered) = (0, 0);
        let begun_ns = self.clock.now_ns();
        let mut heard_ns = begun_ns;
        let mut looks = 0;
        while answered < prepared.len() {
            sent = self.send(prepared, sent, answered + outstanding, &mut sent_ns)?;
            let count = self.incoming.receive(self.socket.as_fd())?;
            if count > 0 {
                heard_ns = self.clock.now_ns();
                let before = answered;
                for index in 0..count {
                    answered += self.take(index, answered)?;
                }
                for number in before..answered {
                    latency.record(heard_ns - sent_ns[number & (sent_ns.len() - 1)]);
                }
                continue;
            }
            looks += 1;
            if looks % LOOKS == 0 && self.clock.now_ns() - heard_ns > SILENCE_NS_MAX {
                return Err(DriveError::Silence { answered, asked: sent });
            }
        }
        let elapsed_ns = self.clock.now_ns() - begun_ns;
        Ok(Driven { answered, elapsed_ns, latency, answer_len: 0 })
    }

    /// Sends requests from `first` to before `end`, as many as a batch has, and returns the index of the first unsent
    /// one. A datagram is full, or has the last request.
    fn send(
        &mut self,
        prepared: &Prepared,
        first: usize,
        end: usize,
        sent_ns: &mut [u64],
    ) -> Result<usize, DriveError> {
        let mut next = first;
        let mut count = 0;
        while count < BATCH && next < prepared.len() {
            let after = (next + self.requests).min(prepared.len());
            if end < after {
                break;
            }
            if self.requests == 1 {
                self.outgoing.put(count, self.server, prepared.bytes(next, after), &[]);
            } else {
                self.datagram.clear();
                for number in next..after {
                    let request = prepared.bytes(number, number + 1);
                    self.datagram.extend_from_slice(&(request.len() as u16).to_be_bytes());
                    self.datagram.extend_from_slice(request);
                }
                self.outgoing.put(count, self.server, &self.datagram, &[]);
            }
            (next, count) = (after, count + 1);
        }
        if count == 0 {
            return Ok(first);
        }
        let now_ns = self.clock.now_ns();
        (first..next).for_each(|number| sent_ns[number & (sent_ns.len() - 1)] = now_ns);
        let mut done = 0;
        while done < count {
            let socket = self.socket.as_fd();
            let sent = match self.joined {
                true => self.outgoing.send_runs(socket, done, count),
                false => self.outgoing.send(socket, done, count),
            };
            match sent {
                Ok(taken) => done += taken,
                Err(error) if os::is_not_now(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(next)
    }

    /// Counts the answers of a received packet.
    fn take(&mut self, index: usize, answered: usize) -> Result<usize, DriveError> {
        let received = self.incoming.received(index);
        let Ok(packet) = parse(received.bytes) else {
            let found = format!("a datagram of {} bytes", received.bytes.len());
            return Err(DriveError::Answer { number: answered, found });
        };
        let PacketKind::Data(blocks) = packet.kind else { return Ok(0) };
        let found = packet.sequence_number;
        let expected = *self.expected.get_or_insert(found);
        if found != expected {
            return Err(DriveError::Gap { expected, found });
        }
        self.expected = Some(expected + u64::from(blocks.count()));
        let mut count = 0;
        for message in blocks {
            match message.first() {
                Some(b'A' | b'C') => count += 1,
                // A system event answers nothing.
                Some(b'S') => {}
                _ => {
                    let found = format!("{message:?}");
                    return Err(DriveError::Answer { number: answered, found });
                }
            }
        }
        Ok(count)
    }
}
