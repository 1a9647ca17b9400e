//! Datagrams a second through the kernel, one way, with a growing number of them in a system call: the ladder of system
//! A.
//!
//! Start at [`Ladder::climb`]. A rung sends from one thread to another, over loopback or between two network namespaces.
//!
//! Invariant: the datagrams received in a rung were sent in it; time begins when both sides run, and the receiver stops
//! when it finds nothing after the sender has stopped.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gateway::{DatagramNetwork, Udp, UdpBackend, UdpOptions};
use os::{DatagramBatch, DatagramRing, SendQueue, system_files};
use serde_json::{Value, json};
use venue::{clock::SystemClock, failure::Failure};

use crate::netns::{Cores, PairSide, VethPair, use_cores};

/// Bytes of a datagram: as long as an order of the origin's.
const DATAGRAM_LEN: usize = 48;
/// Bytes asked of the system for the receiving socket's buffer.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Buffers of a ring that receives.
const RING_BUFFERS: u16 = 512;
/// How long sent datagrams may take to the socket, where another core carries them.
const ON_THE_WAY: Duration = Duration::from_millis(10);
/// How long the first datagram may take to the receiver, where a thread of the kernel carries it.
const FIRST_ON_THE_WAY: Duration = Duration::from_secs(10);

/// How the workloads of the two sides differ.
pub const LADDER_DIFFERENCES: &str = "theirs: a veth pair between two network namespaces, isolated cores for sender and receiver, up to \
                                      two senders; ours: one sender; over loopback no pinned core, through a veth pair a core for each \
                                      side where there are two";

/// Where the datagrams go.
#[derive(Clone, Copy)]
pub enum LadderPath<'a> {
    Loopback,
    /// From the side of the load to that of the venue, each on its cores.
    Veth(&'a VethPair),
}

/// Rungs of the ladder, over one path.
pub struct Ladder<'a> {
    pub path: LadderPath<'a>,
    /// How long each rung is measured.
    pub duration: Duration,
}

/// A way through the kernel, with the figure that the origin published.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    pub case: &'static str,
    pub theirs: &'static str,
    way: Way,
    /// The cores of the venue take arriving packets (RPS), and not the core that sends.
    is_steered: bool,
}

/// The figures of a rung, or why there are none.
pub type RungFigures = Result<Value, String>;

/// How datagrams cross into the kernel and out of it.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Datagrams a system call of the sender.
    sent: usize,
    receiving: Receiving,
    segments: bool,
}

#[derive(Clone, Copy, Debug)]
enum Receiving {
    /// At most this many messages a system call: recvmmsg(2).
    Calls(usize),
    /// By io_uring(7), with a kernel thread that polls (SQPOLL), or without.
    Ring { has_poller: bool },
    /// From a queue of the network card (AF_XDP).
    Queue,
}

impl Way {
    const fn of(batch: usize) -> Self {
        Self { sent: batch, receiving: Receiving::Calls(batch), segments: false }
    }

    const SEGMENTS: Self = Self { sent: 64, receiving: Receiving::Calls(16), segments: true };
    const QUEUE: Self = Self { sent: 64, receiving: Receiving::Queue, segments: false };
    const SEGMENTS_TO_QUEUE: Self = Self { segments: true, ..Self::QUEUE };
    const RING: Self =
        Self { sent: 64, receiving: Receiving::Ring { has_poller: false }, segments: false };
    const POLLED_RING: Self =
        Self { sent: 64, receiving: Receiving::Ring { has_poller: true }, segments: false };
}

const THEIRS_BY_IO_URING: &str = "rejected: it introduced more overhead, and its kernel thread took a core from the three that the \
                                  program needs";

impl Rung {
    const fn new(case: &'static str, way: Way, theirs: &'static str) -> Self {
        Self { case, theirs, way, is_steered: false }
    }

    /// The first rung through a veth pair, which stands for all of them where there is no pair.
    pub const THROUGH_VETH: Self = Self::new(
        "through a veth pair: one datagram a system call",
        Way::of(1),
        "360 k/s, more than 99 % received (SO_BINDTODEVICE)",
    );

    const OVER_LOOPBACK: [Self; 7] = [
        Self::new(
            "one datagram a system call",
            Way::of(1),
            "152 k/s sent, 80 % received (4 cores of a laptop, unpinned)",
        ),
        Self::new(
            "2 a call",
            Way::of(2),
            "1.0 to 1.02 M/s (bare metal, two senders, receive batches of 2 to 4)",
        ),
        Self::new("4 a call", Way::of(4), "1.0 to 1.02 M/s (the same)"),
        Self::new("64 a call", Way::of(64), "730 k/s (bare metal)"),
        Self::new(
            "64 a call, segmented by the kernel (GSO, GRO)",
            Way::SEGMENTS,
            "not tried by them",
        ),
        Self::new("64 a call, received by io_uring", Way::RING, THEIRS_BY_IO_URING),
        Self::new(
            "64 a call, received by io_uring with a thread of the kernel (SQPOLL)",
            Way::POLLED_RING,
            THEIRS_BY_IO_URING,
        ),
    ];

    const OVER_VETH: [Self; 10] = [
        Self::THROUGH_VETH,
        Self::new(
            "through a veth pair: 2 a call",
            Way::of(2),
            "1.0 to 1.02 M/s (bare metal, two senders)",
        ),
        Self::new("through a veth pair: 4 a call", Way::of(4), "1.0 to 1.02 M/s (the same)"),
        Self::new("through a veth pair: 64 a call", Way::of(64), "360 to 370 k/s"),
        Self {
            is_steered: true,
            ..Self::new(
                "through a veth pair: 64 a call, softirqs on the receiver's cores (RPS)",
                Way::of(64),
                "480 k/s received of 530 k/s sent (RPS over 10 cores)",
            )
        },
        Self::new(
            "through a veth pair: 64 a call, segmented by the kernel (GSO, GRO)",
            Way::SEGMENTS,
            "not tried by them",
        ),
        Self::new(
            "through a veth pair: 64 a call, received by io_uring",
            Way::RING,
            THEIRS_BY_IO_URING,
        ),
        Self::new(
            "through a veth pair: 64 a call, received by io_uring with a thread of the kernel (SQPOLL)",
            Way::POLLED_RING,
            THEIRS_BY_IO_URING,
        ),
        Self::new(
            "through a veth pair: 64 a call, received before the network stack (AF_XDP)",
            Way::QUEUE,
            "not tried by them",
        ),
        Self::new(
            "through a veth pair: 64 a call, segmented by the kernel (GSO), received before the network stack (AF_XDP)",
            Way::SEGMENTS_TO_QUEUE,
            "not tried by them",
        ),
    ];
}

impl Ladder<'_> {
    /// Measures each rung and gives `done` its figures, or why there are none.
    ///
    /// # Errors
    /// The errors of `done`.
    pub fn climb(
        &self,
        done: &mut dyn FnMut(&Rung, RungFigures) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let rungs = match self.path {
            LadderPath::Loopback => &Rung::OVER_LOOPBACK[..],
            LadderPath::Veth(_) => &Rung::OVER_VETH,
        };
        rungs.iter().try_for_each(|rung| done(rung, self.measure(rung)))
    }

    fn measure(&self, rung: &Rung) -> RungFigures {
        let LadderPath::Veth(pair) = self.path else { return self.datagrams(rung.way) };
        if !rung.is_steered {
            return self.datagrams(rung.way);
        }
        if pair.cores.venue.is_empty() {
            return Err("needs cores of its own for each side: this process may use one".into());
        }
        let said = |failure: Failure| failure.to_string();
        pair.steer(&pair.cores.venue).map_err(said)?;
        let found = self.datagrams(rung.way);
        pair.steer(&pair.cores.softirqs).map_err(said)?;
        found
    }

    /// Has something bound on a side, to be used from any thread.
    fn bind<T: Send>(
        &self,
        side: PairSide,
        bind: impl FnOnce(SocketAddr) -> io::Result<T> + Send,
    ) -> Result<T, String> {
        let bound = match self.path {
            LadderPath::Loopback => bind((Ipv4Addr::LOCALHOST, 0).into()),
            LadderPath::Veth(pair) => pair
                .on(side, || bind((side.address(), 0).into()))
                .map_err(|failure| failure.to_string())?,
        };
        bound.map_err(|error| error.to_string())
    }

    /// Where datagrams are to arrive, and the core of the kernel's thread, if there is one: the last that this process may
    /// use.
    fn incoming(&self, way: Way) -> Result<(Incoming, Option<usize>), String> {
        match way.receiving {
            Receiving::Calls(batch) => {
                let batch = DatagramBatch::for_joined(batch);
                Ok((Incoming::Batch(self.socket(way.segments)?, batch), None))
            }
            Receiving::Ring { has_poller } => {
                let socket = self.socket(way.segments)?;
                let (ring, core) = ring(&socket, has_poller).map_err(|error| error.to_string())?;
                Ok((Incoming::Ring(socket, ring), core))
            }
            Receiving::Queue => self.queue().map(|udp| (Incoming::Queue(Box::new(udp)), None)),
        }
    }

    /// A socket of the venue's side, to which the system may join datagrams.
    fn socket(&self, joins: bool) -> Result<UdpSocket, String> {
        let io = |error: io::Error| error.to_string();
        let socket = self.bind(PairSide::Venue, UdpSocket::bind)?;
        socket.set_nonblocking(true).map_err(io)?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER).map_err(io)?;
        if joins {
            os::join_datagrams(socket.as_fd())
                .map_err(|_| "this kernel has no UDP_GRO".to_owned())?;
        }
        Ok(socket)
    }

    /// A socket of the venue's side that receives from the queue of its card.
    fn queue(&self) -> Result<Udp, String> {
        let options = UdpOptions {
            receive_buffer_bytes: RECEIVE_BUFFER,
            backend: UdpBackend::Xdp { queue: 0 },
            ..UdpOptions::default()
        };
        let udp = self.bind(PairSide::Venue, |address| Udp::bind(address, &options))?;
        match udp.refused() {
            [] => Ok(udp),
            [(_, error), ..] => Err(error.to_string()),
        }
    }

    fn cores(&self) -> Cores {
        match self.path {
            LadderPath::Loopback => Cores::default(),
            LadderPath::Veth(pair) => pair.cores.clone(),
        }
    }

    /// Sends as fast as one thread can, and counts the datagrams that another receives.
    fn datagrams(&self, way: Way) -> RungFigures {
        let io = |error: io::Error| error.to_string();
        let near = self.bind(PairSide::Load, UdpSocket::bind)?;
        if way.segments && !os::sends_segments(near.as_fd()) {
            return Err("this kernel has no UDP_SEGMENT".into());
        }
        let (mut incoming, poller_core) = self.incoming(way)?;
        near.connect(incoming.address().map_err(io)?).map_err(io)?;
        let cores = self.cores();
        let on = |side: PairSide| use_cores(cores.of(side)).map_err(|failure| failure.to_string());
        let (stop, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let both_run = Barrier::new(3);
        let (sent, received, cpu_ns) = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let is_placed = on(PairSide::Load);
                both_run.wait();
                is_placed?;
                send(&near, way, &stop).map_err(io)
            });
            let receiver = scope.spawn(|| {
                let is_placed = on(PairSide::Venue);
                both_run.wait();
                is_placed?;
                incoming.receive(&is_over).map_err(io)
            });
            both_run.wait();
            let cpu_ns = os::process_cpu_ns();
            thread::sleep(self.duration);
            let cpu_ns = os::process_cpu_ns() - cpu_ns;
            stop.store(true, Ordering::Relaxed);
            let sent = sender.join().expect("the sender does not panic");
            thread::sleep(ON_THE_WAY);
            is_over.store(true, Ordering::Release);
            (sent, receiver.join().expect("the receiver does not panic"), cpu_ns)
        });
        let (sent, received) = (sent?, received?);
        let per_second = |count: u64| (count as f64 / self.duration.as_secs_f64()) as u64;
        let list = |side: PairSide| system_files::list(cores.of(side));
        Ok(json!({
            "sent_per_second": per_second(sent),
            "received_per_second": per_second(received),
            "received_percent": 100.0 * received as f64 / sent.max(1) as f64,
            "sender_cores": list(PairSide::Load),
            "receiver_cores": list(PairSide::Venue),
            "poller_core": poller_core,
            "cores_used": cpu_ns as f64 / self.duration.as_nanos() as f64,
        }))
    }
}

/// Sends until `stop` is set, but at least once; returns the number of datagrams.
fn send(socket: &UdpSocket, way: Way, stop: &AtomicBool) -> io::Result<u64> {
    let mut queue = SendQueue::new(way.segments);
    let datagram = [b'O'; DATAGRAM_LEN];
    let mut sent = 0;
    loop {
        for _ in 0..way.sent {
            queue.append(&datagram);
            queue.close(0);
        }
        while !queue.is_empty() {
            match queue.send(socket.as_fd()) {
                Err(error) if !os::is_not_now(&error) => return Err(error),
                _ => {}
            }
        }
        sent += way.sent as u64;
        if stop.load(Ordering::Relaxed) {
            return Ok(sent);
        }
    }
}

/// A ring that receives from a socket, and the core of the kernel's thread, if it is to have one.
fn ring(socket: &UdpSocket, has_poller: bool) -> io::Result<(DatagramRing, Option<usize>)> {
    let core = os::allowed_cores()?.last().copied().filter(|_| has_poller);
    DatagramRing::probe(core)?;
    Ok((DatagramRing::new(socket.as_fd(), RING_BUFFERS, DATAGRAM_LEN, core)?, core))
}

/// Where datagrams arrive.
enum Incoming {
    Batch(UdpSocket, DatagramBatch),
    Ring(UdpSocket, DatagramRing),
    Queue(Box<Udp>),
}

impl Incoming {
    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Batch(socket, _) | Self::Ring(socket, _) => socket.local_addr(),
            Self::Queue(udp) => Ok(udp.address()),
        }
    }

    /// Receives until nothing is there and nothing more comes; returns the number of datagrams.
    fn receive(&mut self, is_over: &AtomicBool) -> io::Result<u64> {
        let mut received = 0;
        let mut over_since = None;
        loop {
            // Read before the socket: datagrams sent before it are there by then.
            let is_last = is_over.load(Ordering::Acquire);
            let count = match self {
                Self::Batch(socket, batch) => {
                    let count = batch.receive(socket.as_fd())?;
                    let datagrams = |index| batch.received(index).datagrams().count() as u64;
                    (0..count).map(datagrams).sum()
                }
                Self::Ring(_, ring) => ring.receive(|_| {})? as u64,
                Self::Queue(udp) => udp.receive(&mut |_, _| {})? as u64,
            };
            received += count;
            if count == 0 {
                if is_last {
                    let since = over_since.get_or_insert_with(SystemClock::start);
                    if received != 0 || FIRST_ON_THE_WAY < since.since_start() {
                        return Ok(received);
                    }
                }
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every datagram that is received was sent, in each way, and each way sends.
    #[test]
    fn datagrams_are_counted_on_both_sides() {
        let ladder = Ladder { path: LadderPath::Loopback, duration: Duration::from_millis(30) };
        let mut rungs = 0;
        ladder
            .climb(&mut |rung, found| {
                rungs += 1;
                match found {
                    Ok(found) => {
                        let percent = found["received_percent"].as_f64().unwrap();
                        assert!(found["sent_per_second"].as_u64() > Some(0), "{rung:?}: {found}");
                        assert!(0.0 < percent && percent <= 100.0, "{rung:?}: {found}");
                    }
                    Err(reason) => println!("skipped: {}: {reason}", rung.case),
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(rungs, Rung::OVER_LOOPBACK.len());
    }
}
