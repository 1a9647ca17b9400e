//! The least exchange over UDP: a book at 16 prices, an answer for each request, a log and a feed. One thread, no
//! session, no check, no recovery.
//!
//! Invariant: it answers the requests of [`super::prepared`] in order, with messages as long as OUCH's, and writes
//! and publishes before it answers.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::{fd::AsFd, unix::fs::FileExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use os::{BATCH, DatagramBatch};
use socket2::SockRef;
use wire::moldudp64::{PACKET_LEN_DEFAULT, Packetizer, Session};

use super::datagrams::{DATAGRAM_LEN_MAX, RECEIVE_BUFFER_BYTES};

/// Orders that the book can distinguish; more than any client has live.
const ORDERS: usize = 1 << 12;
const PRICES: usize = 16;
/// The length of OUCH's Order Accepted with an appendage, and of Order Canceled, in bytes.
const ACCEPTED_LEN: usize = 66;
const CANCELED_LEN: usize = 20;
/// The lengths of ITCH's Add Order and Order Delete, in bytes.
const ADDED_LEN: usize = 36;
const DELETED_LEN: usize = 19;
/// Bytes of a record of the log.
const RECORD_LEN: usize = 64;
/// The log starts over after this many bytes.
const LOG_BYTES: u64 = 64 << 20;
/// Offsets of Enter Order: OUCH 5.0, 2.1.
const QUANTITY_AT: usize = 6;
const PRICE_AT: usize = 18;

/// No order.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Order {
    before: u16,
    after: u16,
    level: u16,
    quantity: u32,
}

/// The oldest and the youngest order at a price.
#[derive(Clone, Copy)]
struct Level {
    oldest: u16,
    youngest: u16,
    quantity: u64,
}

struct Book {
    orders: Box<[Order]>,
    levels: [Level; PRICES],
}

impl Book {
    fn new() -> Self {
        let order = Order { before: NONE, after: NONE, level: 0, quantity: 0 };
        Self {
            orders: vec![order; ORDERS].into_boxed_slice(),
            levels: [Level { oldest: NONE, youngest: NONE, quantity: 0 }; PRICES],
        }
    }

    fn enter(&mut self, number: u32, price: u64, quantity: u32) {
        let slot = number as usize % ORDERS;
        let level = price as usize % PRICES;
        let youngest = self.levels[level].youngest;
        self.orders[slot] = Order { before: youngest, after: NONE, level: level as u16, quantity };
        match youngest {
            NONE => self.levels[level].oldest = slot as u16,
            youngest => self.orders[usize::from(youngest)].after = slot as u16,
        }
        self.levels[level].youngest = slot as u16;
        self.levels[level].quantity += u64::from(quantity);
    }

    fn cancel(&mut self, number: u32) -> u32 {
        let order = self.orders[number as usize % ORDERS];
        let level = &mut self.levels[usize::from(order.level)];
        level.quantity -= u64::from(order.quantity);
        match order.before {
            NONE => level.oldest = order.after,
            before => self.orders[usize::from(before)].after = order.after,
        }
        match order.after {
            NONE => level.youngest = order.before,
            after => self.orders[usize::from(after)].before = order.before,
        }
        order.quantity
    }
}

/// Packets of numbered messages that wait to be sent.
struct Stream {
    packets: Packetizer,
    batch: DatagramBatch,
    count: usize,
    /// Packets of one length are sent together.
    joined: bool,
}

impl Stream {
    fn new(joined: bool) -> Self {
        Self {
            joined,
            packets: Packetizer::new(Session::default(), 1, PACKET_LEN_DEFAULT),
            batch: DatagramBatch::new(DATAGRAM_LEN_MAX),
            count: 0,
        }
    }

    fn put(&mut self, message: &[u8], socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
        if !self.packets.push(message) {
            self.finish(socket, to)?;
            let taken = self.packets.push(message);
            assert!(taken, "a message fits an empty packet");
        }
        Ok(())
    }

    fn finish(&mut self, socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
        self.batch.put(self.count, to, self.packets.packet(), &[]);
        self.packets.advance();
        self.count += 1;
        if self.count == BATCH { self.send(socket) } else { Ok(()) }
    }

    fn flush(&mut self, socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
        if !self.packets.is_empty() {
            self.finish(socket, to)?;
        }
        self.send(socket)
    }

    fn send(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut done = 0;
        while done < self.count {
            let sent = match self.joined {
                true => self.batch.send_runs(socket.as_fd(), done, self.count),
                false => self.batch.send(socket.as_fd(), done, self.count),
            };
            match sent {
                Ok(taken) => done += taken,
                Err(error) if os::is_not_now(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.count = 0;
        Ok(())
    }
}

pub(super) struct BareExchange {
    socket: UdpSocket,
    /// Where the feed goes, as that of the venue.
    feed_to: SocketAddr,
    log: File,
    joined: bool,
}

impl BareExchange {
    pub(super) fn new(log: &Path, feed_to: SocketAddr, joined: bool) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        Ok(Self { socket, feed_to, log: File::create(log)?, joined })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers until `stop` is set.
    pub(super) fn run(self, stop: &AtomicBool) -> io::Result<()> {
        let Self { socket, feed_to, log, joined } = self;
        let mut incoming = DatagramBatch::new(DATAGRAM_LEN_MAX);
        let (mut replies, mut feed) = (Stream::new(joined), Stream::new(joined));
        let mut book = Book::new();
        let mut records: Vec<u8> = Vec::new();
        let mut logged = 0;
        while !stop.load(Ordering::Relaxed) {
            let count = incoming.receive(socket.as_fd())?;
            if count == 0 {
                continue;
            }
            let Some(client) = incoming.received(0).from else { continue };
            for index in 0..count {
                for request in requests(incoming.received(index).bytes) {
                    let reply = apply(&mut book, request);
                    let mut record = [0; RECORD_LEN];
                    let len = request.len().min(RECORD_LEN);
                    record[..len].copy_from_slice(&request[..len]);
                    records.extend_from_slice(&record);
                    let (reply_len, published_len) = match reply[0] {
                        b'A' => (ACCEPTED_LEN, ADDED_LEN),
                        _ => (CANCELED_LEN, DELETED_LEN),
                    };
                    feed.put(&reply[..published_len], &socket, feed_to)?;
                    replies.put(&reply[..reply_len], &socket, client)?;
                }
            }
            log.write_all_at(&records, logged)?;
            logged = (logged + records.len() as u64) % LOG_BYTES;
            records.clear();
            replies.flush(&socket, client)?;
            feed.flush(&socket, feed_to)?;
        }
        Ok(())
    }
}

/// Carries out a request and writes its answer.
fn apply(book: &mut Book, request: &[u8]) -> [u8; ACCEPTED_LEN] {
    let number = |at: usize| request.get(at..).and_then(<[u8]>::first_chunk::<4>);
    let user_ref_num = u32::from_be_bytes(*number(1).unwrap_or(&[0; 4]));
    let mut reply = [0; ACCEPTED_LEN];
    reply[9..13].copy_from_slice(&user_ref_num.to_be_bytes());
    if request.first() == Some(&b'O') {
        let quantity = u32::from_be_bytes(*number(QUANTITY_AT).unwrap_or(&[0; 4]));
        let price = request.get(PRICE_AT..).and_then(<[u8]>::first_chunk::<8>);
        let price = u64::from_be_bytes(*price.unwrap_or(&[0; 8])) / 100;
        book.enter(user_ref_num, price, quantity);
        reply[0] = b'A';
        reply[13..13 + 40].copy_from_slice(request.get(5..45).unwrap_or(&[0; 40]));
    } else {
        let quantity = book.cancel(user_ref_num);
        reply[0] = b'C';
        reply[13..17].copy_from_slice(&quantity.to_be_bytes());
    }
    reply
}

/// The requests of a datagram: one, or blocks with a length each.
fn requests(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_one = datagram.first().is_some_and(u8::is_ascii_uppercase);
    let (one, mut blocks) = if is_one { (Some(datagram), &[][..]) } else { (None, datagram) };
    let blocks = std::iter::from_fn(move || {
        let (header, rest) = blocks.split_first_chunk::<2>()?;
        let (request, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*header)))?;
        blocks = rest;
        Some(request)
    });
    one.into_iter().chain(blocks)
}
