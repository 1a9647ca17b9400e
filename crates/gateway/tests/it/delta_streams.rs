//! Delta streams: parts of the feed under numbers of their own, their losses, and the repair of these.

use std::net::SocketAddr;

use gateway::{
    DeltaStream, DeltaStreamCount, DeltaStreamOptions, DeltaStreams, FeedMessage, FeedServer,
    FeedServerNetworks, FeedServerOptions, MarketData, MarketDataOptions, PastEnds, RequestLimits,
    StreamFilter, StreamOptions, StreamReader,
    fake::{FakeDatagram, FakeStream},
    past_rings,
};
use market::{Event, Instrument, InstrumentId, Price, Quantity, Symbol};
use ring::{Agent, Builder};
use wire::{
    glimpse::EndOfSnapshot,
    moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse},
    soupbintcp::{LoginRequest, Timers},
};

use crate::harness::{SECOND, SESSION, START, TestClient, Venue, replies, users};

const A: [u8; 10] = *b"0000000101";
const B: [u8; 10] = *b"0000000102";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Drop,
    Block,
}

/// Market data with the feed and two streams, one of instruments that begin with A and one with B; the second has two
/// destinations and packets of 200 bytes.
struct Bench {
    agent: MarketData<FakeDatagram>,
    streams: DeltaStreams<FakeDatagram>,
    server: FeedServer<FakeStream, FakeDatagram>,
    feed: FakeDatagram,
    networks: [FakeDatagram; 2],
    counters: [std::sync::Arc<gateway::DeltaStreamCounters>; 2],
    requests: FakeDatagram,
    snapshot: FakeStream,
    stream: FakeStream,
    _past: PastEnds,
    venue: Venue,
    added: u32,
    now_ns: u64,
}

fn filter(pattern: &str) -> StreamFilter {
    StreamFilter::new(&[pattern.to_owned()]).unwrap()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([239, 1, 1, 1], port))
}

impl Bench {
    fn new(overflow: Overflow, flush_after_ns: u64) -> Self {
        let (venue, ends) = Venue::empty(16);
        let mut ring = Builder::new("feed", 1 << 14);
        let taken = ring.gating("feed server");
        let (to_server, _) = ring.build();
        let feed = FakeDatagram::new();
        let options = MarketDataOptions { session: SESSION, group: address(9) };
        let mut agent =
            MarketData::new(feed.clone(), options, ends.outputs, ends.durable, to_server);
        let networks = [FakeDatagram::new(), FakeDatagram::new()];
        let mut streams = Vec::new();
        let mut counters = Vec::new();
        for (index, (session, pattern)) in [(A, "A*"), (B, "B*")].into_iter().enumerate() {
            let mut ring = Builder::<FeedMessage>::new("stream", 64);
            let reader = match overflow {
                Overflow::Drop => StreamReader::Drop(ring.lossy("streams")),
                Overflow::Block => StreamReader::Block(ring.gating("streams")),
            };
            let (producer, _) = ring.build();
            agent.add_stream(filter(pattern), producer);
            let options = DeltaStreamOptions {
                session,
                destinations: (1..=1 + index as u16).map(address).collect(),
                packet_bytes_max: if index == 0 { 1400 } else { 200 },
                flush_after_ns,
            };
            let stream = DeltaStream::new(networks[index].clone(), options, reader, 64);
            counters.push(stream.counters());
            streams.push(stream);
        }
        let (requests, snapshot, stream) =
            (FakeDatagram::new(), FakeStream::new(), FakeStream::new());
        let of_server = FeedServerNetworks {
            requests: requests.clone(),
            snapshot: snapshot.clone(),
            stream: stream.clone(),
        };
        let options = FeedServerOptions {
            session: SESSION,
            users: users(),
            timers: Timers::default(),
            slow_client_timeout_ns: 10 * SECOND,
            store_bytes_max: 64 << 20,
            requests: RequestLimits::default(),
            streams: vec![
                StreamOptions { session: A, filter: filter("A*") },
                StreamOptions { session: B, filter: filter("B*") },
            ],
        };
        let (ends, past) = past_rings();
        Self {
            agent,
            streams: DeltaStreams::new(streams),
            server: FeedServer::new(of_server, options, taken, ends),
            feed,
            networks,
            counters: counters.try_into().unwrap(),
            requests,
            snapshot,
            stream,
            _past: past,
            venue,
            added: 0,
            now_ns: START,
        }
    }

    /// Adds instruments, three in four of which begin with A and the rest with B: each has two messages.
    fn add(&mut self, count: u32) {
        for _ in 0..count {
            self.added += 1;
            let first = if self.added.is_multiple_of(4) { 'B' } else { 'A' };
            self.venue.put_out(&[Event::InstrumentAdded(Instrument {
                instrument_id: InstrumentId(self.added as u16),
                symbol: Symbol::new(&format!("{first}{}", self.added)).unwrap(),
                price_increment: Price(100),
                round_lot: Quantity(100),
            })]);
        }
    }

    fn turn(&mut self) {
        while self.agent.do_work(self.now_ns).unwrap()
            + self.streams.do_work(self.now_ns).unwrap()
            + self.server.do_work(self.now_ns).unwrap()
            > 0
        {}
    }

    fn count(&self, stream: usize) -> DeltaStreamCount {
        self.counters[stream].read()
    }

    fn ask(&mut self, session: [u8; 10], sequence_number: u64, count: u16) -> Vec<Vec<u8>> {
        let asker = SocketAddr::from(([10, 0, 0, 9], 9));
        self.requests.deliver(asker, &Request { session, sequence_number, count }.encode());
        self.turn();
        std::iter::from_fn(|| self.requests.take()).map(|(_, packet)| packet).collect()
    }

    /// Logs in for a session, and takes the messages that come.
    fn join(&mut self, network: &FakeStream, session: [u8; 10], number: u64) -> Vec<Vec<u8>> {
        let mut login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        login.sequence_number = Some(number);
        login.session = market::Text::new(str::from_utf8(&session).unwrap()).unwrap();
        let connection = network.connect("10.0.0.1:5000".parse().unwrap());
        let mut client = TestClient::new(connection, login, self.now_ns);
        client.write(network);
        for _ in 0..1000 {
            self.turn();
            if network.waiting(connection) == 0 {
                break;
            }
            client.read(network, self.now_ns);
        }
        replies(&client.seen).into_iter().map(|(_, message)| message).collect()
    }
}

fn sent(network: &FakeDatagram) -> Vec<(SocketAddr, Vec<u8>)> {
    std::iter::from_fn(|| network.take()).collect()
}

fn messages(packets: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    for packet in packets {
        let packet = parse(packet).unwrap();
        if let PacketKind::Data(blocks) = packet.kind {
            let numbers = packet.sequence_number..;
            all.extend(numbers.zip(blocks).map(|(number, message)| (number, message.to_vec())));
        }
    }
    all
}

/// The messages of the feed about instruments with this beginning, numbered from 1.
fn part(feed: &[(u64, Vec<u8>)], beginning: u8) -> Vec<(u64, Vec<u8>)> {
    let own = feed.iter().filter(|(_, message)| message[11] == beginning);
    (1..).zip(own.map(|(_, message)| message.clone())).collect()
}

/// A stream has the messages of its instruments, the bytes of the feed, under numbers of its own; each destination
/// gets each packet, and none is longer than the stream's bound.
#[test]
fn a_stream_has_its_instruments() {
    for overflow in [Overflow::Drop, Overflow::Block] {
        let mut bench = Bench::new(overflow, 0);
        for _ in 0..10 {
            bench.add(8);
            bench.turn();
        }
        let feed: Vec<_> = sent(&bench.feed).into_iter().map(|(_, packet)| packet).collect();
        let feed = messages(&feed);
        assert_eq!(feed.len(), 160);
        for (index, beginning, sizes) in [(0, b'A', 1000..=1400), (1, b'B', 100..=200)] {
            let packets = sent(&bench.networks[index]);
            let destinations = 1 + index;
            for port in 1..=destinations {
                let to = |(to, _): &&(SocketAddr, Vec<u8>)| to.port() == port as u16;
                let packets: Vec<_> = packets.iter().filter(to).map(|it| it.1.clone()).collect();
                assert_eq!(messages(&packets), part(&feed, beginning));
                let longest = packets.iter().map(Vec::len).max().unwrap();
                assert!(sizes.contains(&longest) || longest < 1400, "{longest}");
                assert!(longest <= *sizes.end(), "{longest}");
                assert!(
                    packets.iter().all(|packet| parse(packet).unwrap().session == [A, B][index])
                );
            }
            let count = bench.count(index);
            assert_eq!((count.dropped, count.gaps, count.stalls), (0, 0, 0));
            assert_eq!(count.packets, packets.len() as u64);
        }
    }
}

/// A stream that drops loses the messages that its ring has overwritten, and delays nothing else. The range is a gap,
/// which requests fill with the same bytes.
#[test]
fn a_dropped_range_is_a_gap_that_requests_fill() {
    let mut bench = Bench::new(Overflow::Drop, 0);
    bench.add(8);
    bench.turn();
    bench.networks[0].set_room(0);
    for _ in 0..40 {
        bench.add(8);
        bench.turn();
    }
    assert_eq!(bench.agent.counters().read().held_up, 0);
    let feed: Vec<_> = sent(&bench.feed).into_iter().map(|(_, packet)| packet).collect();
    let feed = messages(&feed);
    assert_eq!(feed.len(), 16 * 41, "the feed went on");
    let before = sent(&bench.networks[0]);
    bench.networks[0].set_room(usize::MAX);
    bench.turn();
    bench.add(8);
    bench.turn();
    let feed: Vec<_> = feed
        .into_iter()
        .chain(messages(&sent(&bench.feed).into_iter().map(|it| it.1).collect::<Vec<_>>()))
        .collect();
    let count = bench.count(0);
    assert!(count.dropped > 300 && count.gaps == 1 && count.stalls > 0, "{count:?}");

    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    let mut received = Vec::new();
    for (_, packet) in before.into_iter().chain(sent(&bench.networks[0])) {
        receiver
            .receive(&packet, 0, &mut |number, it| received.push((number, it.to_vec())))
            .unwrap();
    }
    assert!(receiver.has_gap());
    assert_eq!(receiver.statistics().missed, count.dropped);
    while let Some(request) = receiver.next_request(0) {
        let answer = bench.ask(request.session, request.sequence_number, request.count);
        assert_eq!(answer.len(), 1);
        receiver
            .receive(&answer[0], 0, &mut |number, it| received.push((number, it.to_vec())))
            .unwrap();
    }
    assert_eq!(received, part(&feed, b'A'));
    assert_eq!(bench.ask(A, receiver.expected(), 1).len(), 0, "what is not there is not answered");
    assert_eq!(bench.count(1).dropped, 0, "the other stream lost nothing");
}

/// A stream that blocks loses nothing: market data waits for it.
#[test]
fn a_stream_that_blocks_loses_nothing() {
    let mut bench = Bench::new(Overflow::Block, 0);
    bench.networks[0].set_room(0);
    for _ in 0..40 {
        bench.add(8);
        bench.turn();
    }
    assert!(bench.agent.counters().read().held_up > 0);
    bench.networks[0].set_room(usize::MAX);
    bench.turn();
    let feed: Vec<_> = sent(&bench.feed).into_iter().map(|(_, packet)| packet).collect();
    let feed = messages(&feed);
    assert_eq!(feed.len(), 16 * 40);
    let packets: Vec<_> = sent(&bench.networks[0]).into_iter().map(|it| it.1).collect();
    assert_eq!(messages(&packets), part(&feed, b'A'));
    assert_eq!(bench.count(0).dropped, 0);
}

/// A snapshot for a session of a stream has only the stream's instruments, and the stream's next number. The stream
/// continues from there over TCP too.
#[test]
fn a_stream_is_joined_by_its_session() {
    let mut bench = Bench::new(Overflow::Drop, 0);
    bench.add(16);
    bench.turn();
    let (snapshots, streams) = (bench.snapshot.clone(), bench.stream.clone());
    let books = bench.join(&snapshots, B, 1);
    let (end, listed) = books.split_last().unwrap();
    assert!(listed.iter().all(|message| message[11] == b'B'), "{listed:?}");
    assert_eq!((listed.len(), EndOfSnapshot::read(end)), (8, Some(9)));
    let whole = bench.join(&snapshots, SESSION, 1);
    assert_eq!((whole.len(), EndOfSnapshot::read(whole.last().unwrap())), (33, Some(33)));
    bench.add(4);
    let later = bench.join(&streams, B, 9);
    assert_eq!(later.len(), 2);
    assert!(later.iter().all(|message| message[11..15] == *b"B20 "));
    assert_eq!(bench.join(&streams, B, 1).len(), 10);
}

/// A packet with room waits for more messages as long as the stream may wait, and no longer; after a second of silence
/// comes a heartbeat with the next number.
#[test]
fn a_packet_waits_as_long_as_it_may() {
    let mut bench = Bench::new(Overflow::Drop, 1_000_000);
    bench.turn();
    assert_eq!(sent(&bench.networks[0]).len(), 1, "the first packet is a heartbeat");
    bench.add(1);
    bench.turn();
    bench.now_ns += 900_000;
    bench.add(1);
    bench.turn();
    assert_eq!(sent(&bench.networks[0]).len(), 0);
    bench.now_ns += 100_000;
    bench.turn();
    let packets: Vec<_> = sent(&bench.networks[0]).into_iter().map(|it| it.1).collect();
    assert_eq!((packets.len(), messages(&packets).len()), (1, 4));
    bench.add(60);
    bench.turn();
    assert!(sent(&bench.networks[0]).len() > 1, "full packets do not wait");
    bench.now_ns += SECOND;
    bench.turn();
    let _ = sent(&bench.networks[0]);
    bench.now_ns += SECOND;
    bench.turn();
    let packets = sent(&bench.networks[0]);
    let packet = parse(&packets[0].1).unwrap();
    assert_eq!((packets.len(), packet.kind), (1, PacketKind::Heartbeat));
    assert_eq!(packet.sequence_number, bench.count(0).messages + bench.count(0).dropped + 1);
}

/// When the venue stops, each destination of a stream gets all remaining messages and then the end of the session,
/// with the number that follows. Where the network has no room for the messages, no end is sent either.
#[test]
fn a_stream_ends_with_its_session() {
    for is_full in [false, true] {
        let mut bench = Bench::new(Overflow::Drop, 1_000_000);
        bench.add(8);
        bench.turn();
        if is_full {
            bench.networks[1].set_room(0);
        }
        bench.streams.close();
        for (index, destinations, last) in [(0, 1, 12), (1, 2, 4)] {
            let packets = sent(&bench.networks[index]);
            for port in 1..=destinations {
                let to = |(to, _): &&(SocketAddr, Vec<u8>)| to.port() == port;
                let packets: Vec<_> = packets.iter().filter(to).map(|it| it.1.clone()).collect();
                let ends =
                    packets.iter().filter(|it| parse(it).unwrap().kind == PacketKind::EndOfSession);
                if is_full && index == 1 {
                    assert_eq!((messages(&packets).len(), ends.count()), (0, 0));
                    continue;
                }
                assert_eq!((messages(&packets).len(), ends.count()), (last, 1));
                let end = parse(packets.last().unwrap()).unwrap();
                assert_eq!(end.kind, PacketKind::EndOfSession);
                assert_eq!(end.sequence_number, last as u64 + 1);
            }
        }
    }
}
