//! The feed from both ends: the server for subscribers that join late or lost messages, and a subscriber.
//!
//! Invariant: the server's packets are sound and numbered without a gap, whatever subscribers ask and send; a
//! subscriber hands on messages in order and keeps no more than its limits, whatever the venue says.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, Read, Write},
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, OnceLock},
};

use client::{
    participant::{ClientError, DatagramSocket, TcpClient},
    subscriber::{Delivered, FeedBook, FeedChannel, FeedReceiver, FeedSubscriber, Start, TcpFeed},
};
use gateway::{ConnectionId, Submission, fake::FakeStream};
use market::{Command, Timestamp};
use proof::generator::{CommandFlow, Profile};
use venue::public_state::public_state;
use wire::{
    glimpse::EndOfSnapshot,
    itch,
    moldudp64::{Packetizer, ReceiverLimits, Request},
    soupbintcp::{LoginRequest, Timers},
};
use zerocopy::IntoBytes;

use super::{
    gateways::{START_NS, Small, address, login, packet},
    recorded::recorded,
    script::Script,
};

/// A connection to one of the two services, and the bytes that it read.
struct Reader {
    id: ConnectionId,
    is_snapshot: bool,
    bytes: Vec<u8>,
}

impl Reader {
    /// The server writes whole packets of SoupBinTCP, and each sequenced one has a message of the feed.
    fn take(&mut self, network: &FakeStream, bytes_max: usize) {
        self.bytes.extend(network.take(self.id, bytes_max));
        while let Some((len, rest)) = self.bytes.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes(*len));
            let Some(packet) = rest.get(..len) else { break };
            match packet.split_first() {
                Some((b'S', message)) => {
                    let is_end = self.is_snapshot && EndOfSnapshot::read(message).is_some();
                    assert!(is_end || itch::decode(message).is_ok(), "{}", message.escape_ascii());
                }
                Some((b'A' | b'J' | b'H' | b'Z' | b'+', _)) => {}
                other => panic!("{other:?} is no packet of a server"),
            }
            self.bytes.drain(..2 + len);
        }
    }
}

/// However subscribers join, ask, read slowly or send nonsense, the server works on within its bounds.
pub fn feed_server(bytes: &[u8]) {
    let mut small = Small::new(|_| {});
    let mut flow = CommandFlow::new(7, Profile { sessions: 3, ..Profile::default() });
    let session = Small::session();
    let mut readers: Vec<Reader> = Vec::new();
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte() % 12;
        let reader = match readers.len() {
            0 => None,
            len => Some(&mut readers[script.below(len.min(256))]),
        };
        let network = |is_snapshot| if is_snapshot { &small.snapshot } else { &small.stream };
        match (kind, reader) {
            (0, Some(it)) => network(it.is_snapshot).deliver(it.id, script.bytes()),
            (1, Some(it)) => network(it.is_snapshot).deliver(it.id, &packet(script.bytes())),
            (2 | 3, Some(it)) => {
                network(it.is_snapshot).deliver(it.id, &login(&small.config, &mut script));
            }
            (4, Some(it)) => network(it.is_snapshot).finish(it.id),
            (5, Some(it)) => network(it.is_snapshot).cut(it.id),
            (6, Some(it)) => {
                network(it.is_snapshot).set_room(it.id, 16 * usize::from(script.byte()))
            }
            (7, Some(it)) => it.take(network(it.is_snapshot), 64 * usize::from(script.byte())),
            (8, _) => {
                let from = address(&mut script);
                let (first, count) = (script.byte().into(), script.byte().into());
                let request = Request { session, sequence_number: first, count };
                match script.byte() % 4 {
                    0 => small.re_request.deliver(from, script.bytes()),
                    _ => small.re_request.deliver(from, &request.encode()),
                }
            }
            (9, _) => {
                for _ in 0..script.byte() % 16 {
                    let command = flow.next_command();
                    if !matches!(command, Command::System(_) | Command::AddSession(_)) {
                        small.submit(Submission { received: Timestamp(small.now_ns()), command });
                    }
                }
            }
            (10, _) => small.turn(script.time_ns()),
            _ => {
                let (is_snapshot, from) = (script.byte() % 2 == 0, address(&mut script));
                let id = network(is_snapshot).connect(from);
                readers.push(Reader { id, is_snapshot, bytes: Vec::new() });
            }
        }
        small.turn(1_000);
        let figures = small.gauges.feed_server.read();
        assert!(figures.connections <= 2 * gateway::SUBSCRIBERS_MAX as u64, "{figures:?}");
        assert!(figures.store_bytes <= 2 << 20, "{figures:?}");
        assert!(figures.requests_answered <= figures.requests, "{figures:?}");
    }
    for _ in 0..3 {
        small.turn(1_000_000_000);
        for reader in &mut readers {
            let network = if reader.is_snapshot { &small.snapshot } else { &small.stream };
            reader.take(network, usize::MAX);
        }
    }
}

/// Datagrams on their way, one end of a socket.
#[derive(Clone, Default)]
struct Socket(Rc<RefCell<VecDeque<Vec<u8>>>>);

impl DatagramSocket for Socket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        assert_eq!(datagram.len(), 20, "a receiver sends requests only");
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.0.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let len = datagram.len().min(buffer.len());
        buffer[..len].copy_from_slice(&datagram[..len]);
        Ok(len)
    }
}

const LIMITS: ReceiverLimits = ReceiverLimits {
    request_delay_ns: 0,
    request_timeout_ns: 1_000_000_000,
    pending_messages_max: 8,
    pending_bytes_max: 512,
};

/// Whatever comes as the feed, its receiver keeps no more than its limits, hands on messages in order, and the book
/// that takes them is sound or reports an error.
pub fn feed_receiver(bytes: &[u8]) {
    let (feed, requests) = (Socket::default(), Socket::default());
    let mut receiver = FeedReceiver::over(feed.clone(), Some(requests.clone()), 1, LIMITS);
    let mut book = FeedBook::new();
    let (mut next, mut now_ns) = (1, START_NS);
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte();
        let socket = if kind % 2 == 0 { &feed } else { &requests };
        socket.0.borrow_mut().push_back(script.bytes().to_vec());
        if kind % 8 > 1 {
            now_ns += script.time_ns();
        }
        let polled = receiver.poll(now_ns, &mut |number, message| {
            assert_eq!(number, next);
            next += 1;
            let _ = book.apply(number, message);
        });
        assert!(receiver.report().messages.pending <= LIMITS.pending_messages_max);
        assert!(receiver.stalled_ns(now_ns) <= now_ns);
        if polled.is_err() {
            return;
        }
    }
}

/// A connection of a subscriber; the script holds its other end.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    to_client: VecDeque<u8>,
    is_closed: bool,
}

impl Pipe {
    fn say(&self, bytes: &[u8]) {
        self.0.lock().expect("no end panics").to_client.extend(bytes);
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ends = self.0.lock().expect("no end panics");
        match ends.to_client.read(buffer) {
            Ok(0) if !ends.is_closed => Err(io::ErrorKind::WouldBlock.into()),
            read => read,
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.lock().expect("no end panics").is_closed {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a subscriber connects: the newest connection, and whether the next one is refused.
type Service = Arc<Mutex<(Option<Pipe>, bool)>>;

fn connect(service: &Service) -> client::subscriber::Connect<Pipe> {
    let service = Arc::clone(service);
    Box::new(move |begin, now_ns| {
        let mut service = service.lock().expect("no end panics");
        if service.1 {
            let (address, source) =
                (SocketAddr::from(([127, 0, 0, 1], 1)), io::ErrorKind::NotFound);
            return Err(ClientError::Connect { address, source: source.into() });
        }
        let pipe = service.0.insert(Pipe::default()).clone();
        let login = LoginRequest::new("user", "password").expect("they fit");
        Ok(TcpClient::over(pipe, begin.login(login), Timers::default(), now_ns))
    })
}

/// The messages that lead to the books of a venue that was.
fn messages() -> &'static [Vec<u8>] {
    static MESSAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut messages = Vec::new();
        public_state(&recorded().engine, &mut |message| messages.push(message.to_vec()));
        messages
    })
}

/// A message of the feed, sound or not.
fn feed_message(script: &mut Script<'_>) -> Vec<u8> {
    match script.byte() {
        byte @ 0..248 => messages()[usize::from(byte) % messages().len()].clone(),
        _ => script.bytes().to_vec(),
    }
}

/// A packet of the venue in SoupBinTCP, sound or not.
fn soup_packet(script: &mut Script<'_>) -> Vec<u8> {
    let (code, payload) = match script.byte() % 8 {
        0 => (b'A', format!("{:>10}{:>20}", "0000000001", script.byte()).into_bytes()),
        1 => (b'A', format!("{:>10}{:>20}", "S", u64::MAX - u64::from(script.byte())).into_bytes()),
        2 => (b'S', EndOfSnapshot::new(script.byte().into()).as_bytes().to_vec()),
        3 => (b"JZH+"[script.below(4)], script.bytes().to_vec()),
        _ => (b'S', feed_message(script)),
    };
    [&(payload.len() as u16 + 1).to_be_bytes()[..], &[code], &payload].concat()
}

/// Whatever the venue says to a subscriber that joins by a snapshot or goes on by a number, over datagrams or
/// TCP, it hands on messages without a gap, or begins anew.
pub fn subscriber(bytes: &[u8]) {
    let mut script = Script(bytes);
    let (feed, requests) = (Socket::default(), Socket::default());
    let [snapshots, streams]: [Service; 2] = Default::default();
    let mut now_ns = START_NS;
    let kind = script.byte();
    let channel = if kind % 2 == 0 {
        FeedChannel::Datagrams(FeedReceiver::over(feed.clone(), Some(requests.clone()), 1, LIMITS))
    } else {
        FeedChannel::Tcp(TcpFeed::new(connect(&streams)))
    };
    let start = match kind / 2 % 4 {
        0 => Start::Message(script.byte().into()),
        1 => Start::Next,
        _ => Start::Snapshot(connect(&snapshots)),
    };
    let mut subscriber = FeedSubscriber::start(channel, start, now_ns).expect("it can connect");
    // The number of the next message, after the first; a snapshot begins anew.
    let mut next = None;
    while !script.is_over() {
        let kind = script.byte();
        let service = if kind >> 7 == 0 { &snapshots } else { &streams };
        let socket = if kind >> 7 == 0 { &feed } else { &requests };
        let newest = service.lock().expect("no end panics").0.clone();
        match (kind % 8, newest) {
            (0, Some(pipe)) => pipe.say(script.bytes()),
            (1..4, Some(pipe)) => pipe.say(&soup_packet(&mut script)),
            (4, Some(pipe)) => pipe.0.lock().expect("no end panics").is_closed = true,
            (5, _) => service.lock().expect("no end panics").1 ^= true,
            (6, _) => socket.0.borrow_mut().push_back(script.bytes().to_vec()),
            (_, _) => {
                let session = if script.byte() % 8 == 0 { *b"0000000002" } else { *b"0000000001" };
                let mut packet = Packetizer::new(session, script.byte().into(), 1400);
                for _ in 0..script.byte() % 4 {
                    let _ = packet.push(&feed_message(&mut script));
                }
                socket.0.borrow_mut().push_back(packet.packet().to_vec());
            }
        }
        if kind / 8 % 4 == 0 {
            now_ns += script.time_ns();
        }
        let before = subscriber.report();
        let polled = subscriber.poll(now_ns, &mut |delivered| match delivered {
            Delivered::Snapshot(_) => next = None,
            Delivered::Feed(number, _) => {
                assert!(next.is_none_or(|next| next == number), "{number} after {next:?}");
                next = number.checked_add(1);
            }
        });
        let report = subscriber.report();
        if report.snapshots > before.snapshots {
            next = report.first_message;
        }
        if let FeedChannel::Datagrams(receiver) = subscriber.channel() {
            assert!(receiver.report().messages.pending <= LIMITS.pending_messages_max);
        }
        if polled.is_err() {
            return;
        }
    }
}
