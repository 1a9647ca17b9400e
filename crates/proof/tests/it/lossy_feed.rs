//! A subscriber that joins in the middle, behind a network that loses, repeats and reorders, has the
//! engine's books.

use std::{
    cell::RefCell,
    collections::{BTreeSet, VecDeque},
    io::{self, Read, Write},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use client::{
    participant::{DatagramSocket, TcpClient},
    subscriber::{Begin, FeedChannel, FeedReceiver, FeedSubscriber, JoinReport, Start},
};
use engine::Engine;
use gateway::{
    ConnectionId, Credentials, FeedServer, FeedServerNetworks, FeedServerOptions, MarketData,
    MarketDataOptions, PastEnds, RequestLimits,
    fake::{FakeDatagram, FakeStream},
    past_rings,
};
use market::{Input, Output, OutputLine, Sequence, Timestamp};
use proof::{
    audit::book_difference,
    generator::{CommandFlow, Profile},
    lossy_link::LossyLink,
    rng::Rng,
};
use ring::{Agent, Builder, Cursor, Producer};
use wire::{
    moldudp64::{PacketKind, ReceiverLimits, Request, parse},
    soupbintcp::{LoginRequest, Timers},
};

const SESSION: [u8; 10] = *b"0000000042";
/// Enough for every message of a test.
const STORE_BYTES: usize = 64 << 20;
const START_NS: u64 = 1_767_346_200_000_000_000;

/// The subscriber's socket: its sent datagrams go out unchanged, and the test puts in those that it receives.
#[derive(Clone, Default)]
struct Socket {
    incoming: Rc<RefCell<VecDeque<Vec<u8>>>>,
    outgoing: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl DatagramSocket for Socket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.outgoing.borrow_mut().push(datagram.to_vec());
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.incoming.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(datagram.len())
    }
}

/// The subscriber's end of a connection in memory.
struct Pipe {
    network: FakeStream,
    connection: ConnectionId,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.network.take(self.connection, buffer.len());
        if bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.network.deliver(self.connection, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a datagram by a link, and puts the datagrams that have arrived into the queue. False if it is lost.
fn transmit(datagram: &[u8], queue: &mut VecDeque<Vec<u8>>, link: &mut LossyLink) -> bool {
    let arrives = link.send(datagram);
    queue.extend(std::iter::from_fn(|| link.take()));
    arrives
}

/// Takes the remaining datagrams of the link at the end of a turn: no later datagram overtakes them.
fn settle(queue: &mut VecDeque<Vec<u8>>, link: &mut LossyLink) {
    queue.extend(std::iter::from_fn(|| link.take_all()));
}

/// A venue's core with market data and feed server, under random commands.
pub(crate) struct Scene {
    pub(crate) engine: Engine,
    outputs: Producer<OutputLine>,
    market_data: MarketData<FakeDatagram>,
    pub(crate) server: FeedServer<FakeStream, FakeDatagram>,
    pub(crate) feed: FakeDatagram,
    requests: FakeDatagram,
    snapshots: FakeStream,
    _past: PastEnds,
    pub(crate) flow: CommandFlow,
    rng: Rng,
    pub(crate) now_ns: u64,
}

impl Scene {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of_session(seed, SESSION, FakeStream::new(), STORE_BYTES)
    }

    fn of_session(
        seed: u64,
        session: [u8; 10],
        snapshots: FakeStream,
        store_bytes_max: usize,
    ) -> Self {
        let mut ring = Builder::new("outputs", 1 << 14);
        let taken = ring.gating("market data");
        let (outputs, _) = ring.build();
        let mut ring = Builder::new("feed", 1 << 14);
        let messages = ring.gating("feed server");
        let (to_server, _) = ring.build();
        let (feed, requests) = (FakeDatagram::new(), FakeDatagram::new());
        let group = SocketAddr::from(([239, 1, 1, 1], 9));
        let options = MarketDataOptions { session, group };
        let durable = Arc::new(Cursor::new(u64::MAX));
        let market_data = MarketData::new(feed.clone(), options, taken, durable, to_server);
        let networks = FeedServerNetworks {
            requests: requests.clone(),
            snapshot: snapshots.clone(),
            stream: FakeStream::new(),
        };
        let options = FeedServerOptions {
            session,
            users: vec![Credentials::new("USER01", "SECRET").unwrap()],
            timers: Timers::default(),
            slow_client_timeout_ns: 10_000_000_000,
            store_bytes_max,
            requests: RequestLimits { per_second: 0, total_per_second: 0, ..Default::default() },
            streams: Vec::new(),
        };
        let (ends, past) = past_rings();
        Self {
            engine: Engine::new(),
            outputs,
            market_data,
            server: FeedServer::new(networks, options, messages, ends),
            feed,
            requests,
            snapshots,
            _past: past,
            flow: CommandFlow::new(seed, Profile::default()),
            rng: Rng::new(seed),
            now_ns: START_NS,
        }
    }

    /// Gives the venue a command, and publishes its events.
    fn trade(&mut self) {
        self.trade_seen(&mut |_| {});
    }

    /// As [`Self::trade`]; `each` receives the outputs.
    pub(crate) fn trade_seen(&mut self, each: &mut impl FnMut(&Output)) {
        self.now_ns += 50_000;
        let command = self.flow.next_command();
        let sequence = Sequence(self.engine.sequence().0 + 1);
        let input = Input { sequence, timestamp: Timestamp(self.now_ns), command };
        let Self { engine, outputs, market_data, server, .. } = self;
        let now_ns = self.now_ns;
        engine.apply(&input, &mut |event| {
            let output = Output { cause: input.sequence, timestamp: input.timestamp, event };
            each(&output);
            let mut line = OutputLine::from(output);
            while let Err(full) = outputs.try_publish(line) {
                line = full.0;
                market_data.do_work(now_ns).unwrap();
                server.do_work(now_ns).unwrap();
            }
        });
    }

    pub(crate) fn turn(&mut self) {
        while self.market_data.do_work(self.now_ns).unwrap()
            + self.server.do_work(self.now_ns).unwrap()
            > 0
        {}
    }

    pub(crate) fn published(&self) -> u64 {
        self.server.counters().read().messages
    }

    fn subscribe(&self, feed: &Socket, requests: &Socket) -> FeedSubscriber<Socket, Pipe> {
        let limits = ReceiverLimits { request_timeout_ns: 2_000_000, ..Default::default() };
        let receiver = FeedReceiver::over(feed.clone(), Some(requests.clone()), 1, limits);
        let network = self.snapshots.clone();
        let connect = Box::new(move |begin: Begin, now_ns| {
            let connection = network.connect("10.0.0.1:5000".parse().unwrap());
            let login = LoginRequest::new("USER01", "SECRET").unwrap();
            let pipe = Pipe { network: network.clone(), connection };
            Ok(TcpClient::over(pipe, begin.login(login), Timers::default(), now_ns))
        });
        let channel = FeedChannel::Datagrams(receiver);
        FeedSubscriber::start(channel, Start::Snapshot(connect), self.now_ns).unwrap()
    }
}

fn expected(subscriber: &FeedSubscriber<Socket, Pipe>) -> u64 {
    let FeedChannel::Datagrams(receiver) = subscriber.channel() else { unreachable!() };
    receiver.expected()
}

/// Joins after a fifth of the feed, and follows it through the network. Now and then, when all messages have
/// arrived, it compares the books with the engine's.
///
/// With `Requests::Lost` no request gets an answer.
fn follow(seed: u64, messages: u64, answers: Requests) -> JoinReport {
    let mut scene = Scene::new(seed);
    while scene.published() < messages / 5 {
        scene.trade();
        scene.turn();
        while scene.feed.take().is_some() {}
    }
    let (feed, requests) = (Socket::default(), Socket::default());
    let mut subscriber = scene.subscribe(&feed, &requests);
    let asker = SocketAddr::from(([10, 0, 0, 1], 5000));
    let mut links = [1, 2].map(|number| LossyLink::new(seed << 8 | number));
    let mut comparisons = 0;
    let (mut still, mut rounds) = (0, 0);
    while still < 100_000 {
        rounds += 1;
        let is_over = scene.published() >= messages;
        still += u64::from(is_over);
        match is_over {
            true => scene.now_ns += 1_000_000,
            false => (0..20).for_each(|_| scene.trade()),
        }
        scene.turn();
        let published = scene.published();
        let [to_feed, to_requests] = &mut links;
        while let Some((_, datagram)) = scene.feed.take() {
            transmit(&datagram, &mut feed.incoming.borrow_mut(), to_feed);
        }
        while let Some((_, datagram)) = scene.requests.take() {
            if answers == Requests::Lost {
                continue;
            }
            transmit(&datagram, &mut requests.incoming.borrow_mut(), to_requests);
        }
        settle(&mut feed.incoming.borrow_mut(), to_feed);
        settle(&mut requests.incoming.borrow_mut(), to_requests);
        subscriber
            .poll(scene.now_ns, &mut |_| {})
            .unwrap_or_else(|error| panic!("seed {seed}, {published} messages: {error}"));
        for request in requests.outgoing.borrow_mut().drain(..) {
            if scene.rng.below(100) >= 5 {
                scene.requests.deliver(asker, &request);
            }
        }
        let is_looked_at = is_over || rounds % 16 == 0;
        if is_looked_at && subscriber.is_live() && expected(&subscriber) == published + 1 {
            let book = subscriber.book().expect("it joined");
            let difference = book_difference(&scene.engine, book);
            assert_eq!(difference, None, "seed {seed}, after {published} messages");
            comparisons += 1;
            if is_over {
                break;
            }
        }
    }
    let (report, published) = (subscriber.report(), scene.published());
    assert_eq!(expected(&subscriber), published + 1, "seed {seed}: {report:?}");
    let FeedChannel::Datagrams(receiver) = subscriber.channel() else { unreachable!() };
    let seen = receiver.report().messages;
    if answers == Requests::Answered {
        assert!(seen.gaps > 100 && seen.duplicates > 100 && seen.requests > 100, "{seen:?}");
    }
    assert!(comparisons > 0, "seed {seed}: {report:?}");
    report
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Requests {
    Answered,
    Lost,
}

/// A million messages with 5 % loss, 5 % duplication and reordering lead to the engine's books.
#[test]
fn a_lossy_feed_leads_to_the_books_of_the_engine() {
    for seed in 1..=4 {
        let report = follow(seed, 320_000, Requests::Answered);
        assert_eq!((report.snapshots, report.lost_gaps), (1, 0), "{report:?}");
        assert!(report.messages > 250_000, "{report:?}");
    }
}

/// The numbers of the messages in a datagram of the feed.
fn numbers(datagram: &[u8]) -> std::ops::Range<u64> {
    let packet = parse(datagram).expect("the venue sends packets");
    let count = match packet.kind {
        PacketKind::Data(blocks) => u64::from(blocks.count()),
        PacketKind::Heartbeat | PacketKind::EndOfSession => 0,
    };
    packet.sequence_number..packet.sequence_number + count
}

/// Two lines that lose independently: the subscriber requests only messages that both lost, and none that one of
/// them has. So it requests a small part of the messages that a line loses, and its books are the engine's.
#[test]
fn a_message_that_one_line_has_is_not_requested() {
    for seed in 11..=13 {
        let mut scene = Scene::new(seed);
        let line_b = FakeDatagram::new();
        scene.market_data.add_line(line_b.clone(), SocketAddr::from(([239, 1, 1, 2], 9)));
        let sockets: [Socket; 3] = Default::default();
        let [feed_a, feed_b, requests] = &sockets;
        let lines = [(scene.feed.clone(), feed_a), (line_b, feed_b)];
        let limits = ReceiverLimits {
            request_delay_ns: 2_000_000,
            request_timeout_ns: 2_000_000,
            ..Default::default()
        };
        let mut receiver = FeedReceiver::over(feed_a.clone(), Some(requests.clone()), 1, limits);
        receiver.add_line(feed_b.clone());
        let channel = FeedChannel::Datagrams(receiver);
        let mut subscriber: FeedSubscriber<Socket, Pipe> =
            FeedSubscriber::start(channel, Start::Message(1), scene.now_ns).unwrap();
        let mut links = [1, 2, 3].map(|number| LossyLink::new(seed << 8 | number));
        let mut lost: [BTreeSet<u64>; 2] = Default::default();
        let mut requested = BTreeSet::new();
        for _ in 0..100_000 {
            let is_over = scene.published() >= 60_000;
            match is_over {
                true => scene.now_ns += 1_000_000,
                false => (0..20).for_each(|_| scene.trade()),
            }
            scene.turn();
            let [answers, of_lines @ ..] = &mut links;
            for (((line, socket), link), lost) in lines.iter().zip(of_lines).zip(&mut lost) {
                let queue = &mut socket.incoming.borrow_mut();
                while let Some((_, datagram)) = line.take() {
                    if !transmit(&datagram, queue, link) {
                        lost.extend(numbers(&datagram));
                    }
                }
                settle(queue, link);
            }
            while let Some((_, datagram)) = scene.requests.take() {
                transmit(&datagram, &mut requests.incoming.borrow_mut(), answers);
            }
            settle(&mut requests.incoming.borrow_mut(), answers);
            subscriber.poll(scene.now_ns, &mut |_| {}).unwrap();
            for request in requests.outgoing.borrow_mut().drain(..) {
                let asked = Request::parse(&request).unwrap();
                requested.extend((asked.sequence_number..).take(asked.count.into()));
                scene.requests.deliver(SocketAddr::from(([10, 0, 0, 1], 5000)), &request);
            }
            if is_over && expected(&subscriber) == scene.published() + 1 {
                break;
            }
        }
        assert_eq!(expected(&subscriber), scene.published() + 1, "seed {seed}");
        assert_eq!(book_difference(&scene.engine, subscriber.book().unwrap()), None, "seed {seed}");
        let lost_by_both: BTreeSet<u64> = lost[0].intersection(&lost[1]).copied().collect();
        assert_eq!(requested, lost_by_both, "seed {seed}");
        let FeedChannel::Datagrams(receiver) = subscriber.channel() else { unreachable!() };
        let counts: Vec<_> = receiver.lines().map(|line| (line.first, line.duplicates)).collect();
        let (is_used, is_doubled) =
            (counts.iter().all(|it| it.0 > 1_000), counts.iter().any(|it| it.1 > 10_000));
        assert!(is_used && is_doubled && !lost_by_both.is_empty(), "seed {seed}: {counts:?}");
        assert!(lost.iter().all(|lost| lost.len() > 5 * lost_by_both.len()), "seed {seed}");
    }
}

/// A gap that no request fills is closed by a new snapshot.
#[test]
fn a_lost_gap_is_closed_by_a_snapshot() {
    let report = follow(5, 30_000, Requests::Lost);
    assert!(report.lost_gaps > 0 && report.snapshots == 1 + report.lost_gaps, "{report:?}");
}

/// A venue that comes back with another session, and so another journal, is joined anew.
#[test]
fn another_session_is_joined_anew() {
    let mut scene = Scene::new(6);
    let (feed, requests) = (Socket::default(), Socket::default());
    let mut subscriber = scene.subscribe(&feed, &requests);
    for session in [*b"0000000043", *b"0000000044"] {
        for _ in 0..2_000 {
            scene.trade();
            scene.turn();
            while let Some((_, datagram)) = scene.feed.take() {
                feed.incoming.borrow_mut().push_back(datagram);
            }
            subscriber.poll(scene.now_ns, &mut |_| {}).unwrap();
        }
        assert!(subscriber.is_live(), "{:?}", subscriber.report());
        assert_eq!(expected(&subscriber), scene.published() + 1);
        let book = subscriber.book().expect("it joined");
        assert_eq!(book_difference(&scene.engine, book), None);
        scene = Scene::of_session(7, session, scene.snapshots, STORE_BYTES);
    }
    assert_eq!(subscriber.report().session_changes, 1, "{:?}", subscriber.report());
}

/// A subscriber joins a venue that has published more than ten times the bytes in its store. The end of the snapshot
/// names the next message of the feed; the books are the engine's before that message, and after every command from
/// there on, whether the venue trades during the snapshot or not.
#[test]
fn a_late_joiner_is_equal_from_its_first_message_on() {
    const SMALL: usize = 32 << 10;
    for (seed, trades_meanwhile) in [(31, false), (32, true)] {
        let mut scene = Scene::of_session(seed, SESSION, FakeStream::new(), SMALL);
        let mut bytes = 0;
        // Whole pages are kept, so the size of the store is measured.
        while bytes as u64 <= 10 * scene.server.counters().read().store_bytes.max(SMALL as u64) {
            scene.trade();
            scene.turn();
            bytes +=
                std::iter::from_fn(|| scene.feed.take()).map(|(_, it)| it.len()).sum::<usize>();
        }
        let before = scene.published();
        let (feed, requests) = (Socket::default(), Socket::default());
        let mut subscriber = scene.subscribe(&feed, &requests);
        let (mut compared, mut during_snapshot) = (0, 0);
        for _ in 0..10_000 {
            scene.now_ns += 1_000;
            scene.turn();
            while let Some((_, datagram)) = scene.feed.take() {
                feed.incoming.borrow_mut().push_back(datagram);
            }
            subscriber.poll(scene.now_ns, &mut |_| {}).unwrap();
            let published = scene.published();
            if !subscriber.is_live() {
                if trades_meanwhile {
                    scene.trade();
                    during_snapshot += 1;
                }
                continue;
            }
            if expected(&subscriber) <= published {
                // The next turn takes the messages that came during the snapshot.
                assert_eq!((trades_meanwhile, compared), (true, 0), "seed {seed}");
                continue;
            }
            let (book, report) = (subscriber.book().unwrap(), subscriber.report());
            let difference = book_difference(&scene.engine, book);
            assert_eq!(difference, None, "seed {seed}, after message {published}");
            let first = report.first_message.expect("it joined");
            assert!(first > before && first + report.messages == published + 1, "{report:?}");
            if compared == 0 && !trades_meanwhile {
                assert_eq!((first, report.messages), (before + 1, 0));
            }
            compared += 1;
            if compared == 2_000 {
                break;
            }
            scene.trade();
        }
        assert_eq!(compared, 2_000, "seed {seed}: {:?}", subscriber.report());
        assert_eq!(during_snapshot > 0, trades_meanwhile, "seed {seed}");
        let JoinReport { snapshots, messages, .. } = subscriber.report();
        assert!(snapshots == 1 && messages > 1_000, "seed {seed}: {snapshots} {messages}");
    }
}
