//! The wait of subscribers that join: the time to the first and to the last message of a snapshot of the books, for one
//! and for many at once.
//!
//! Each run takes turns with a plain server that writes as many bytes into as many connections, to the same reader.
//!
//! Invariant: a time ends only when the end of the session has come after as many bytes as the snapshot has.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    panic, thread,
    time::Duration,
};

use gateway::{
    Credentials, FeedServer, FeedServerNetworks, FeedServerOptions, RequestLimits, Tcp, Udp,
    UdpOptions, past_rings,
};
use ring::Builder;
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use venue::{clock::SystemClock, failure::Failure};
use wire::{
    field::U48,
    glimpse::EndOfSnapshot,
    itch::{AddOrder, StockDirectory},
    layout::{IntoBytes, Message as _},
    soupbintcp::{Client, LoginRequest, Timers},
};

use super::{Runs, agent_thread::AgentThread};

#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// The number of displayed orders in each row.
    pub orders: Vec<u64>,
    /// The number of joiners at once in each row; at most 100.
    pub joiners: Vec<usize>,
    pub runs: usize,
}

/// Snapshots of a number of orders for a number of joiners.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotRow {
    pub orders: u64,
    pub joiners: usize,
    /// Bytes of one snapshot.
    pub bytes: u64,
    /// From the first login to the first message, in milliseconds: the joiner that waited longest.
    pub first_ms: Runs,
    /// From the first login to the end, likewise.
    pub last_ms: Runs,
    /// The time of the plain server, to the end.
    pub beside_ms: Runs,
    /// Copies of the books that the server made in a run, at most.
    pub copies: u64,
}

impl SnapshotRow {
    /// The median ratio of its time to that of the plain server, over runs made next to each other.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let pairs = self.last_ms.all().iter().zip(self.beside_ms.all());
        pairs.map(|(own, beside)| own / beside).collect::<Runs>().median()
    }
}

const SYMBOLS: u64 = 100;
/// A user may have 32 connections, and an address 32 that have not logged in.
const JOINERS_PER_USER: usize = 25;
/// Bytes of the packet that accepts a login.
const ACCEPTED_LEN: u64 = 33;
/// Bytes of a packet beside its message.
const PACKET_LEN: u64 = 3;
const END_OF_SESSION: [u8; 3] = [0, 1, b'Z'];
/// The most bytes read or written in one call.
const CHUNK: usize = 64 << 10;
/// How long a run may take; a bound of the harness, and nothing is judged by it.
const WITHIN: Duration = Duration::from_secs(50);

/// Measures every row.
///
/// # Errors
/// A socket cannot be opened, or a joiner does not get its snapshot.
pub fn measure(options: &SnapshotOptions) -> Result<Vec<SnapshotRow>, Failure> {
    let clock = SystemClock::start();
    let mut rows = Vec::new();
    for orders in &options.orders {
        for joiners in &options.joiners {
            let (first_ms, last_ms, beside_ms) = Default::default();
            let bytes = snapshot_bytes(*orders);
            let (orders, joiners, copies) = (*orders, *joiners, 0);
            let mut row =
                SnapshotRow { orders, joiners, bytes, first_ms, last_ms, beside_ms, copies };
            for _ in 0..options.runs {
                run(&mut row, clock)?;
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A turn of each: the plain server, then ours.
fn run(row: &mut SnapshotRow, clock: SystemClock) -> Result<(), Failure> {
    row.beside_ms.push(plain(row, clock)?);
    let (server, address, counters) = serve(row.orders, clock)?;
    let begun = clock.since_start();
    let mut joiners = join(address, row.joiners, clock)?;
    let read = read_all(&mut joiners, ACCEPTED_LEN, row.bytes, clock);
    server.stop().map_err(|error| Failure::runtime(error.to_string()))?;
    read?;
    let longest = |when: fn(&Joiner) -> Duration| {
        let waited = joiners.iter().map(|joiner| when(joiner) - begun).max();
        waited.unwrap_or_default().as_secs_f64() * 1e3
    };
    row.first_ms.push(longest(|joiner| joiner.first));
    row.last_ms.push(longest(|joiner| joiner.last));
    row.copies = row.copies.max(counters.read().copies);
    Ok(())
}

/// Bytes of a snapshot over TCP, without the packet that accepts the login.
fn snapshot_bytes(orders: u64) -> u64 {
    let each = |len: usize| len as u64 + PACKET_LEN;
    SYMBOLS * each(size_of::<StockDirectory>())
        + orders * each(size_of::<AddOrder>())
        + each(size_of::<EndOfSnapshot>())
        + END_OF_SESSION.len() as u64
}

/// A feed server with its books, on a thread of its own, and where it serves snapshots.
fn serve(
    orders: u64,
    clock: SystemClock,
) -> Result<(AgentThread, SocketAddr, std::sync::Arc<gateway::FeedServerCounters>), Failure> {
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let snapshot = Tcp::bind(loopback(0)).map_err(no_socket)?;
    let address = snapshot.address();
    let networks = FeedServerNetworks {
        requests: Udp::bind(loopback(0), &UdpOptions::default()).map_err(no_socket)?,
        snapshot,
        stream: Tcp::bind(loopback(0)).map_err(no_socket)?,
    };
    let user = |number: usize| Credentials::new(&user_name(number), "PASSWORD");
    let options = FeedServerOptions {
        session: *b"0000000001",
        users: (0..4).map(|number| user(number).expect("they fit their fields")).collect(),
        timers: Timers::default(),
        slow_client_timeout_ns: WITHIN.as_nanos() as u64,
        store_bytes_max: 1 << 20,
        requests: RequestLimits::default(),
        streams: Vec::new(),
    };
    let mut ring = Builder::new("feed", 64);
    let messages = ring.gating("feed server");
    let (past, _) = past_rings();
    let mut server = FeedServer::new(networks, options, messages, past);
    server.begin(clock.now_ns(), |each| books(orders, each));
    let counters = server.counters();
    Ok((AgentThread::start(server, clock, || {}, thread::yield_now), address, counters))
}

fn user_name(number: usize) -> String {
    format!("USER{number}")
}

/// Messages that lead to books with so many orders.
fn books(orders: u64, each: &mut dyn FnMut(&[u8])) {
    let stock = |locate: u64| {
        let mut stock = [b' '; 8];
        let name = format!("S{locate}");
        stock[..name.len()].copy_from_slice(name.as_bytes());
        stock
    };
    for locate in 1..=SYMBOLS {
        let directory = StockDirectory {
            message_type: StockDirectory::TYPE,
            stock_locate: (locate as u16).into(),
            tracking_number: 0.into(),
            timestamp: U48::new(1),
            stock: stock(locate),
            market_category: b' ',
            financial_status_indicator: b'N',
            round_lot_size: 100.into(),
            round_lots_only: b'N',
            issue_classification: b'C',
            issue_sub_type: *b"Z ",
            authenticity: b'P',
            short_sale_threshold_indicator: b'N',
            ipo_flag: b'N',
            luld_reference_price_tier: b' ',
            etp_flag: b'N',
            etp_leverage_factor: 0.into(),
            inverse_indicator: b'N',
        };
        each(directory.as_bytes());
    }
    for number in 1..=orders {
        let is_bid = number.is_multiple_of(2);
        let away = (number % 500) as u32 * 100;
        let order = AddOrder {
            message_type: AddOrder::TYPE,
            stock_locate: ((number % SYMBOLS) as u16 + 1).into(),
            tracking_number: 0.into(),
            timestamp: U48::new(number),
            // Most orders of a day are gone, so numbers have gaps.
            order_reference_number: (number * 7).into(),
            buy_sell_indicator: if is_bid { b'B' } else { b'S' },
            shares: 100.into(),
            stock: stock(number % SYMBOLS + 1),
            price: (if is_bid { 1_500_000 - away } else { 1_500_100 + away }).into(),
        };
        each(order.as_bytes());
    }
}

/// A connection on which a snapshot comes.
struct Joiner {
    stream: TcpStream,
    received: u64,
    /// The last three bytes.
    tail: [u8; 3],
    first: Duration,
    last: Duration,
}

impl Joiner {
    fn over(stream: TcpStream) -> Self {
        let (first, last) = (Duration::ZERO, Duration::ZERO);
        Self { stream, received: 0, tail: [0; 3], first, last }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        let new = bytes.len().min(self.tail.len());
        self.tail.rotate_left(new);
        let kept = self.tail.len() - new;
        self.tail[kept..].copy_from_slice(&bytes[bytes.len() - new..]);
    }
}

/// Opens `count` connections, and logs in on each.
fn join(address: SocketAddr, count: usize, clock: SystemClock) -> Result<Vec<Joiner>, Failure> {
    let one = |index: usize| -> io::Result<Joiner> {
        let user = index / JOINERS_PER_USER;
        // Each user has an address of its own on loopback.
        let stream = connect(address, Ipv4Addr::new(127, 0, 0, 2 + user as u8))?;
        let mut login = LoginRequest::new(&user_name(user), "PASSWORD").expect("they fit");
        login.sequence_number = Some(1);
        let client = Client::new(Timers::default(), login, clock.now_ns());
        let mut joiner = Joiner::over(stream);
        joiner.stream.write_all(client.outgoing())?;
        joiner.stream.set_nonblocking(true)?;
        Ok(joiner)
    };
    (0..count).map(one).collect::<io::Result<_>>().map_err(no_socket)
}

fn connect(address: SocketAddr, from: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::new(IpAddr::V4(from), 0).into())?;
    socket.connect(&address.into())?;
    Ok(socket.into())
}

/// Reads until each joiner has the bytes before the snapshot, the snapshot, and its end.
fn read_all(
    joiners: &mut [Joiner],
    before: u64,
    bytes: u64,
    clock: SystemClock,
) -> Result<(), Failure> {
    let begun = clock.since_start();
    let mut buffer = vec![0; CHUNK];
    let mut waiting: Vec<&mut Joiner> = joiners.iter_mut().collect();
    while !waiting.is_empty() {
        let mut work = 0;
        for joiner in &mut waiting {
            match joiner.stream.read(&mut buffer) {
                Ok(0) => {
                    return Err(Failure::runtime(format!(
                        "a snapshot ended after {} bytes of {bytes}",
                        joiner.received
                    )));
                }
                Ok(count) => {
                    if joiner.received <= before && joiner.received + count as u64 > before {
                        joiner.first = clock.since_start();
                    }
                    joiner.take(&buffer[..count]);
                    work += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Failure::runtime(format!("a joiner: {error}"))),
            }
        }
        waiting.retain_mut(|joiner| {
            let is_over = joiner.received >= before + bytes && joiner.tail == END_OF_SESSION;
            if is_over {
                joiner.last = clock.since_start();
            }
            !is_over
        });
        if work == 0 {
            thread::yield_now();
        }
        if clock.since_start() - begun > WITHIN {
            let seconds = WITHIN.as_secs();
            return Err(Failure::runtime(format!("snapshots take longer than {seconds} s")));
        }
    }
    Ok(())
}

/// Writes as many bytes into as many connections, from one buffer; returns the milliseconds until all have them.
fn plain(row: &SnapshotRow, clock: SystemClock) -> Result<f64, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(no_socket)?;
    let address = listener.local_addr().map_err(no_socket)?;
    let mut bytes = vec![7; row.bytes as usize];
    let end = bytes.len() - END_OF_SESSION.len();
    bytes[end..].copy_from_slice(&END_OF_SESSION);
    let (mut joiners, mut accepted) = (Vec::new(), Vec::new());
    for _ in 0..row.joiners {
        let stream = TcpStream::connect(address).map_err(no_socket)?;
        stream.set_nonblocking(true).map_err(no_socket)?;
        joiners.push(Joiner::over(stream));
        let (stream, _) = listener.accept().map_err(no_socket)?;
        stream.set_nonblocking(true).map_err(no_socket)?;
        accepted.push(stream);
    }
    let begun = clock.since_start();
    let writer = thread::spawn(move || write_all(accepted, &bytes));
    let read = read_all(&mut joiners, 0, row.bytes, clock);
    // The reader is dropped with its connections, so the writer does not wait for it in vain.
    let lasts: Vec<Duration> = joiners.into_iter().map(|joiner| joiner.last).collect();
    let written = writer.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
    read?;
    written.map_err(|error| Failure::runtime(format!("the plain server: {error}")))?;
    let last = lasts.into_iter().max().unwrap_or_default();
    Ok((last - begun).as_secs_f64() * 1e3)
}

/// Writes the bytes into every connection, in turns.
fn write_all(streams: Vec<TcpStream>, bytes: &[u8]) -> io::Result<()> {
    let mut waiting: Vec<(TcpStream, usize)> = streams.into_iter().map(|it| (it, 0)).collect();
    while !waiting.is_empty() {
        let mut work = 0;
        for (stream, at) in &mut waiting {
            let end = bytes.len().min(*at + CHUNK);
            match stream.write(&bytes[*at..end]) {
                Ok(count) => (*at, work) = (*at + count, work + count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        waiting.retain(|(_, at)| *at < bytes.len());
        if work == 0 {
            thread::yield_now();
        }
    }
    Ok(())
}

fn no_socket(error: io::Error) -> Failure {
    Failure::environment(format!("no connection on loopback: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{
        participant::{ClientState, TcpClient},
        subscriber::FeedBook,
    };

    /// The measurement covers a whole snapshot: a client of the protocol gets books with all orders from the same
    /// server, in as many bytes as the measurement waits for. All that join before the next message share one copy.
    #[test]
    fn a_snapshot_is_measured_whole() {
        let clock = SystemClock::start();
        let (server, address, _) = serve(5_000, clock).unwrap();
        let mut login = LoginRequest::new("USER0", "PASSWORD").unwrap();
        login.sequence_number = Some(1);
        let mut client =
            TcpClient::connect(address, login, Timers::default(), clock.now_ns()).unwrap();
        let (mut book, mut bytes) = (FeedBook::new(), END_OF_SESSION.len() as u64);
        while client.state() != ClientState::Ended {
            client
                .poll(clock.now_ns(), &mut |number, message| {
                    bytes += message.len() as u64 + PACKET_LEN;
                    if EndOfSnapshot::read(message).is_none() {
                        book.apply(number, message).unwrap();
                    }
                })
                .unwrap();
        }
        server.stop().unwrap();
        assert_eq!((book.order_count(), bytes), (5_000, snapshot_bytes(5_000)));

        let options = SnapshotOptions { orders: vec![5_000], joiners: vec![1, 60], runs: 2 };
        for row in measure(&options).unwrap() {
            assert_eq!((row.copies, row.first_ms.all().len()), (1, 2), "{row:?}");
            assert!(row.first_ms.most() <= row.last_ms.most() && row.ratio() > 0.0, "{row:?}");
        }
    }
}
