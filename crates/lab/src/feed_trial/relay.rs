//! The network of the trial: takes the venue's datagrams once, and brings them to each subscriber over a separate link
//! that loses, repeats and reorders; requests and their answers too.
//!
//! Invariant: the losses of a link follow from its seed and from the datagrams, never from the pace.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use client::subscriber::RECEIVE_BUFFER_BYTES;
use proof::lossy_link::{LossCounts, LossyLink};
use socket2::SockRef;

/// Datagrams read from a socket in one turn.
const READS_PER_TURN: usize = 64;
const DATAGRAM_LEN_MAX: usize = 65_535;
const PAUSE: Duration = Duration::from_micros(100);

/// Where datagrams come in, and the links by which they go on.
pub(super) struct Relay {
    lines: Vec<UdpSocket>,
    ways: Vec<Way>,
    requesters: Vec<Requester>,
    out: UdpSocket,
    seed: u64,
}

/// From a line of the venue to one socket of a subscriber.
struct Way {
    line: usize,
    subscriber: usize,
    to: SocketAddr,
    link: LossyLink,
}

/// The requests of a subscriber and their answers.
struct Requester {
    from_subscriber: UdpSocket,
    to_venue: UdpSocket,
    /// Where the subscriber sends from.
    subscriber: Option<SocketAddr>,
    requests: LossyLink,
    answers: LossyLink,
}

impl Relay {
    /// A relay with this many lines, each at a free port.
    pub(super) fn bind(lines: usize, seed: u64) -> io::Result<Self> {
        Ok(Self {
            lines: (0..lines).map(|_| bind()).collect::<Result<_, _>>()?,
            ways: Vec::new(),
            requesters: Vec::new(),
            out: bind()?,
            seed,
        })
    }

    /// Where the venue sends a line to.
    pub(super) fn line(&self, line: usize) -> io::Result<SocketAddr> {
        self.lines[line].local_addr()
    }

    /// Where the next subscriber sends its requests to.
    pub(super) fn add_requester(&mut self, venue: SocketAddr) -> io::Result<SocketAddr> {
        let (from_subscriber, to_venue) = (bind()?, bind()?);
        to_venue.connect(venue)?;
        let address = from_subscriber.local_addr()?;
        let (requests, answers) = (self.link(), self.link());
        let subscriber = None;
        let it = Requester { from_subscriber, to_venue, subscriber, requests, answers };
        self.requesters.push(it);
        Ok(address)
    }

    /// Brings a line to a subscriber.
    pub(super) fn add_way(&mut self, line: usize, subscriber: usize, to: SocketAddr) {
        let link = self.link();
        self.ways.push(Way { line, subscriber, to, link });
    }

    fn link(&mut self) -> LossyLink {
        self.seed = self.seed.wrapping_add(1);
        LossyLink::new(self.seed)
    }

    /// Carries datagrams until it is stopped, and returns the counts of the links to each subscriber.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<Vec<LossCounts>> {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        while !stop.load(Ordering::Relaxed) {
            if self.turn(&mut buffer)? == 0 {
                self.let_go()?;
                thread::sleep(PAUSE);
            }
        }
        let mut counts = vec![LossCounts::default(); self.requesters.len()];
        for way in &self.ways {
            let (sum, it) = (&mut counts[way.subscriber], way.link.counts());
            sum.datagrams += it.datagrams;
            sum.lost += it.lost;
            sum.repeated += it.repeated;
            sum.reordered += it.reordered;
        }
        Ok(counts)
    }

    /// Takes the datagrams that came in, and sends on those that no later one overtakes.
    fn turn(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut work = 0;
        for (line, socket) in self.lines.iter().enumerate() {
            for _ in 0..READS_PER_TURN {
                let Some((len, _)) = receive(socket, buffer)? else { break };
                work += 1;
                for way in self.ways.iter_mut().filter(|way| way.line == line) {
                    way.link.send(&buffer[..len]);
                    while let Some(datagram) = way.link.take() {
                        send(&self.out, way.to, &datagram)?;
                    }
                }
            }
        }
        for it in &mut self.requesters {
            while let Some((len, from)) = receive(&it.from_subscriber, buffer)? {
                work += 1;
                it.subscriber = Some(from);
                it.requests.send(&buffer[..len]);
            }
            while let Some((len, _)) = receive(&it.to_venue, buffer)? {
                work += 1;
                it.answers.send(&buffer[..len]);
            }
            it.let_go()?;
        }
        Ok(work)
    }

    /// Sends on the datagrams that wait to be overtaken: no more come that could overtake them.
    fn let_go(&mut self) -> io::Result<()> {
        for way in &mut self.ways {
            while let Some(datagram) = way.link.take_all() {
                send(&self.out, way.to, &datagram)?;
            }
        }
        Ok(())
    }
}

impl Requester {
    fn let_go(&mut self) -> io::Result<()> {
        while let Some(request) = self.requests.take_all() {
            passing(self.to_venue.send(&request))?;
        }
        while let Some(answer) = self.answers.take_all() {
            if let Some(subscriber) = self.subscriber {
                send(&self.from_subscriber, subscriber, &answer)?;
            }
        }
        Ok(())
    }
}

fn bind() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    Ok(socket)
}

/// A datagram with its sender; `None` if there is none now.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(received) => Ok(Some(received)),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
    passing(socket.send_to(datagram, to))
}

/// A datagram that finds no room, or no receiver yet, is one more loss.
fn passing(sent: io::Result<usize>) -> io::Result<()> {
    match sent {
        Err(error) if !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}
