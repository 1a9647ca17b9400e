//! The cost of the feed, on both sides: encoding, sending, reading, building books, snapshots.
//!
//! Each row runs in turn with a plain loop over the same bytes, and its figure to quote is the ratio of the two: the
//! machine and its neighbours change both.
//!
//! Invariant: both sides of a row touch the same bytes, on the same thread, and their inputs are made before the clock
//! starts.

use std::{
    hint::black_box,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::Arc,
};

use client::subscriber::FeedBook;
use engine::Engine;
use gateway::{
    DeltaStream, DeltaStreamCounters, DeltaStreamOptions, DeltaStreams, FeedMessage, StreamReader,
    Udp, UdpOptions,
};
use market::{Event, Input, Output, Sequence, Timestamp};
use os::DatagramBatch;
use proof::generator::{CommandFlow, Profile};
use ring::{Agent, Builder};
use venue::failure::Failure;
use wire::{
    itch::{self, Encoder, Message},
    moldudp64::{PACKET_LEN_DEFAULT, Packetizer},
};

use super::{
    feed_flow::FeedFlow,
    paired::{PairedRow, Target, scan},
};

#[derive(Clone, Copy, Debug)]
pub struct FeedOptions {
    pub seed: u64,
    /// Messages that the client side reads.
    pub messages: usize,
    /// Symbols of these messages.
    pub symbols: u16,
    /// Events that are encoded in a run, and messages of each stream.
    pub events: usize,
    pub streams: usize,
    pub runs: usize,
}

/// Measures all rows but the snapshots.
///
/// # Errors
/// A socket cannot be opened.
pub fn measure(options: &FeedOptions) -> Result<Vec<PairedRow>, Failure> {
    let mut rows = vec![encode(options)];
    rows.push(streams(options)?);
    let flow = FeedFlow::new(options.seed, options.symbols).take(options.messages);
    rows.push(parse(options, &flow));
    rows.push(books(options, &flow));
    Ok(rows)
}

/// Outputs of a core that cause messages, and the messages.
fn published(options: &FeedOptions) -> (Vec<Output>, Vec<Vec<u8>>) {
    let profile = Profile { odd_percent: 0, spread: 20, ..Profile::default() };
    let mut flow = CommandFlow::new(options.seed, profile);
    let (mut engine, mut encoder) = (Engine::new(), Encoder::new());
    let (mut outputs, mut messages) = (Vec::new(), Vec::new());
    for sequence in (1..).map(Sequence) {
        if messages.len() >= options.events {
            break;
        }
        let timestamp = Timestamp(sequence.0 * 1_000);
        let input = Input { sequence, timestamp, command: flow.next_command() };
        engine.apply(&input, &mut |event: Event| {
            let output = Output { cause: sequence, timestamp, event };
            let before = messages.len();
            encoder.encode(&output, &mut |message| messages.push(message.to_vec()));
            if messages.len() > before {
                outputs.push(output);
            }
        });
    }
    (outputs, messages)
}

/// Events into ITCH and MoldUDP64 packets, beside a copy of the same messages into packets.
fn encode(options: &FeedOptions) -> PairedRow {
    let (outputs, messages) = published(options);
    let mut row = PairedRow::new(
        "encode",
        ("copy of the same messages", "message"),
        messages.len() as u64,
        Some(Target::RatioMax(3.0)),
    );
    for _ in 0..options.runs {
        row.turn(
            || {
                let mut packet: Vec<u8> = Vec::with_capacity(PACKET_LEN_DEFAULT);
                for message in &messages {
                    if packet.len() + 2 + message.len() > PACKET_LEN_DEFAULT {
                        black_box(&packet);
                        packet.clear();
                    }
                    packet.extend_from_slice(&(message.len() as u16).to_be_bytes());
                    packet.extend_from_slice(message);
                }
                black_box(packet);
            },
            || {
                let mut encoder = Encoder::new();
                let mut packets = Packetizer::new(*b"0000000001", 1, PACKET_LEN_DEFAULT);
                for output in &outputs {
                    encoder.encode(output, &mut |message| {
                        if !packets.push(message) {
                            black_box(packets.packet());
                            packets.advance();
                            assert!(packets.push(message), "an empty packet has room");
                        }
                    });
                }
                black_box(packets.packet());
            },
        );
    }
    row
}

/// Messages that wait in each ring before the agent has its turns.
const RING_SLOTS: usize = 8_192;

/// One agent with many streams over loopback, packed, beside the bare sendmmsg of as many packets of the same length.
/// The packets are never read: the system drops those that do not fit the receiver.
fn streams(options: &FeedOptions) -> Result<PairedRow, Failure> {
    let failed =
        |error: std::io::Error| Failure::environment(format!("no loopback socket: {error}"));
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let to = sink.local_addr().map_err(failed)?;
    let (_, messages) = published(&FeedOptions { events: RING_SLOTS, ..*options });
    let messages = &messages[..RING_SLOTS];
    let (mut producers, mut streams, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.streams {
        let mut ring = Builder::<FeedMessage>::new("stream", RING_SLOTS);
        let reader = StreamReader::Block(ring.gating("streams"));
        producers.push(ring.build().0);
        let network =
            Udp::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).map_err(failed)?;
        let settings = DeltaStreamOptions {
            session: *b"0000000001",
            destinations: vec![to],
            packet_bytes_max: PACKET_LEN_DEFAULT,
            flush_after_ns: 0,
        };
        let stream = DeltaStream::new(network, settings, reader, RING_SLOTS);
        counters.push(stream.counters());
        streams.push(stream);
    }
    let mut agent = DeltaStreams::new(streams);
    let mut bare = Bare::new(to).map_err(failed)?;
    let events = (options.streams * messages.len()) as u64;
    let mut row = PairedRow::new(
        "streams",
        ("sendmmsg of as many bytes in packets as long", "event and stream"),
        events,
        Some(Target::PerSecondOrShare(options.streams as f64 * 1e6, 0.8)),
    );
    let packets = |counters: &[Arc<DeltaStreamCounters>]| -> u64 {
        let bytes: u64 = counters.iter().map(|it| it.read().bytes_out).sum();
        bytes.div_ceil(PACKET_LEN_DEFAULT as u64)
    };
    let mut next = 1;
    for run in 0..=options.runs {
        for producer in &mut producers {
            let mut batch = producer.batch();
            for (number, message) in (next..).zip(messages) {
                let message = FeedMessage::new(number, message);
                assert!(batch.push(message).is_ok(), "the ring was read to its end");
            }
        }
        next += messages.len() as u64;
        let mut turns = || while agent.do_work(1).expect("loopback takes it") > 0 {};
        if run == 0 {
            // The first turns have page faults, and say how much a run sends.
            turns();
        } else {
            let sent = packets(&counters) / run as u64;
            row.turn(|| bare.send(sent), turns);
        }
    }
    Ok(row)
}

/// Packets of the same bytes by sendmmsg, and nothing else.
struct Bare {
    socket: UdpSocket,
    batch: DatagramBatch,
    to: SocketAddr,
}

impl Bare {
    fn new(to: SocketAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        Ok(Self { socket, batch: DatagramBatch::new(2_048), to })
    }

    fn send(&mut self, packets: u64) {
        let packet = [7; PACKET_LEN_DEFAULT];
        let mut left = packets as usize;
        while left > 0 {
            let count = left.min(os::BATCH);
            for index in 0..count {
                self.batch.put(index, self.to, &packet, &[]);
            }
            let mut first = 0;
            while first < count {
                let sent = self.batch.send(self.socket.as_fd(), first, count);
                first += sent.expect("a blocking socket takes it");
            }
            left -= count;
        }
    }
}

/// Each message decoded and each of its fields read, beside a sum over the same bytes.
fn parse(options: &FeedOptions, flow: &[u8]) -> PairedRow {
    let mut row = PairedRow::new(
        "parse",
        ("sum of the same bytes", "message"),
        options.messages as u64,
        Some(Target::PerSecond(98e6)),
    );
    for _ in 0..options.runs {
        row.turn(|| _ = black_box(scan(flow)), || _ = black_box(parse_all(flow)));
    }
    row
}

/// Books of all messages, order by order, beside a sum over the same bytes.
fn books(options: &FeedOptions, flow: &[u8]) -> PairedRow {
    let mut row = PairedRow::new(
        "books",
        ("sum of the same bytes", "message"),
        options.messages as u64,
        Some(Target::PerSecond(27e6)),
    );
    for _ in 0..options.runs {
        row.turn(|| _ = black_box(scan(flow)), || _ = black_box(build_books(flow)));
    }
    row
}

/// The measured code, in functions of their own so that a profiler can be limited to them.
#[inline(never)]
pub fn build_books(flow: &[u8]) -> FeedBook {
    let mut books = FeedBook::new();
    for (number, message) in (1..).zip(Messages(flow)) {
        books.apply(number, message).expect("the flow is sound");
    }
    books
}

#[inline(never)]
pub fn parse_all(flow: &[u8]) -> u64 {
    Messages(flow).fold(0, |sum, message| {
        sum.wrapping_add(fields(itch::decode(message).expect("the flow is sound")))
    })
}

/// The messages of a BinaryFILE in memory.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk::<2>()?;
        let (message, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        self.0 = rest;
        Some(message)
    }
}

/// A sum over every field of a message of the flow.
#[inline(always)]
fn fields(message: Message<'_>) -> u64 {
    let eight = |text: [u8; 8]| u64::from_le_bytes(text);
    let head = |locate: u16, tracking: u16, time: u64| {
        u64::from(locate).wrapping_add(tracking.into()).wrapping_add(time)
    };
    match message {
        Message::AddOrder(it) => {
            head(it.stock_locate.get(), it.tracking_number.get(), it.timestamp.get())
                .wrapping_add(it.order_reference_number.get())
                .wrapping_add(it.buy_sell_indicator.into())
                .wrapping_add(it.shares.get().into())
                .wrapping_add(eight(it.stock))
                .wrapping_add(it.price.get().into())
        }
        Message::OrderExecuted(it) => {
            head(it.stock_locate.get(), it.tracking_number.get(), it.timestamp.get())
                .wrapping_add(it.order_reference_number.get())
                .wrapping_add(it.executed_shares.get().into())
                .wrapping_add(it.match_number.get())
        }
        Message::OrderCancel(it) => {
            head(it.stock_locate.get(), it.tracking_number.get(), it.timestamp.get())
                .wrapping_add(it.order_reference_number.get())
                .wrapping_add(it.canceled_shares.get().into())
        }
        Message::OrderDelete(it) => {
            head(it.stock_locate.get(), it.tracking_number.get(), it.timestamp.get())
                .wrapping_add(it.order_reference_number.get())
        }
        Message::OrderReplace(it) => {
            head(it.stock_locate.get(), it.tracking_number.get(), it.timestamp.get())
                .wrapping_add(it.original_order_reference_number.get())
                .wrapping_add(it.new_order_reference_number.get())
                .wrapping_add(it.shares.get().into())
                .wrapping_add(it.price.get().into())
        }
        // A directory at the start; nothing else is in the flow.
        other => other.as_bytes().iter().map(|byte| u64::from(*byte)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum over the bytes of every field, made the slow way from the tables of the messages, equals the fast one; and
    /// the books of the flow equal those built from one message at a time.
    #[test]
    fn the_measured_code_reads_every_field() {
        let flow = FeedFlow::new(7, 10).take(20_000);
        let mut expected = 0_u64;
        for message in Messages(&flow) {
            let table = Message::TABLES.iter().find(|table| table.0 == message[0]).unwrap();
            let mut at = 0;
            for field in table.2 {
                let bytes = &message[at..at + field.len];
                at += field.len;
                let is_kind = at == field.len;
                let text = field.kind.starts_with("Alpha");
                let number = |bytes: &mut dyn Iterator<Item = &u8>| {
                    bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
                };
                if message[0] == b'R' {
                    expected += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                } else if !is_kind {
                    let value = if text {
                        number(&mut bytes.iter().rev())
                    } else {
                        number(&mut bytes.iter())
                    };
                    expected = expected.wrapping_add(value);
                }
            }
            assert_eq!(at, message.len());
        }
        assert_eq!(parse_all(&flow), expected);
        let books = build_books(&flow);
        assert_eq!(books.message_count(), 20_000);
        assert!(books.order_count() > 100 && books.trade_count() > 100, "{}", books.order_count());
    }

    /// Every row is measured, beside a loop that takes time too.
    #[test]
    fn every_row_is_measured() {
        let options = FeedOptions {
            seed: 1,
            messages: 20_000,
            symbols: 10,
            events: 5_000,
            streams: 2,
            runs: 2,
        };
        let rows = measure(&options).unwrap();
        let names: Vec<_> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names, ["encode", "streams", "parse", "books"]);
        for row in rows {
            assert_eq!((row.ns.all().len(), row.beside_ns.all().len()), (2, 2), "{row:?}");
            assert!(row.ratio() > 0.0 && row.per_second() > 0.0, "{row:?}");
        }
    }
}
