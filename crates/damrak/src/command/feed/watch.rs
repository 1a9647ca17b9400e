//! `damrak feed watch` and `damrak feed record`: a subscriber that joins a venue's feed at any time, rebuilds the books and reports lost
//! messages.
//!
//! Invariant: books are printed only if they have every message before the next one.

use std::{
    fs::File,
    io::{self, BufWriter},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use clap::Args;
use client::{
    recording::{Format, Recorded, RecordingWriter},
    subscriber::{
        Delivered, FeedBook, FeedChannel, FeedLineReport, FeedReceiver, FeedReceiverConfig,
        FeedReceiverReport, FeedSource, FeedSubscriber, FeedSubscriberError, Start, TcpFeed,
        connect_to,
    },
};
use market::Text;
use serde_json::{Value, json};
use wire::{
    moldudp64::{ReceiverLimits, Session},
    soupbintcp::LoginRequest,
};

use super::{
    super::{
        output::{grouped, price, print_json, print_line},
        stop_flag,
    },
    files,
};
use venue::{clock::SystemClock, config::Span, failure::Failure};

/// Sleep after a turn without packets.
const PAUSE: Duration = Duration::from_micros(200);

/// The time until a missing message is requested, if a second line may bring it.
const SECOND_LINE_DELAY: Duration = Duration::from_millis(5);

/// The longest time that a message may be missing without an available snapshot.
const MISSING_MAX: Duration = Duration::from_secs(10);

/// The silence on the feed over TCP after which the subscriber counts as caught up.
const SILENCE: Duration = Duration::from_secs(1);

/// Join a venue's feed, rebuild its books and report lost messages.
///
/// Takes a snapshot of the books, applies the feed from there on, and requests lost messages. If these are not available,
/// or if the session changes, takes a new snapshot. Runs until interrupted, until the session ends, for the time of --for,
/// or with --until-caught-up until no message is missing. Exit code 4 if the feed contradicts itself or messages are
/// missing at the end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak feed watch\n  damrak feed watch --for 5s --json\n  \
                        damrak feed watch --from-start\n  damrak feed watch --tcp 127.0.0.1:26482\n  \
                        damrak feed watch --group 127.0.0.1:26477 --re-request 127.0.0.1:26478")]
pub struct Arguments {
    #[command(flatten)]
    join: JoinArguments,
    /// Write every message to this file too, as `damrak feed record` does.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// How many price levels to print of each book at the end.
    #[arg(long, default_value_t = 3)]
    depth: usize,
}

/// Join a venue's feed and write every message to files, in order and without gaps.
///
/// The name of a file decides its form. `.pcap`: MoldUDP64 packets with the time of each in nanoseconds, which tshark
/// reads. `.csv`: a table. `.parquet`: a table with types, if the program is built with `--features parquet`. Any other
/// name: Nasdaq's BinaryFILE, in which each message follows its length in two bytes. The messages of snapshots come
/// first, but not in a `.pcap`, since they have no numbers in the feed. With --from-start the recording has all messages
/// of the session.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak feed record day.itch\n  \
                        damrak feed record day.itch day.pcap --from-start --for 10s\n  \
                        damrak feed record now.csv --tcp 127.0.0.1:26482 --until-caught-up")]
pub struct RecordArguments {
    /// The files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    join: JoinArguments,
}

/// Which feed, from where on, and for how long.
#[derive(Debug, Args)]
struct JoinArguments {
    /// The multicast group, or the local address to which a unicast feed is sent.
    #[arg(long, value_name = "ADDRESS", default_value = "239.10.10.10:26477")]
    group: SocketAddr,
    /// Interface to join the group on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    interface: Ipv4Addr,
    /// Line B: a second multicast group, or the local address to which it is sent. The first copy of each message counts.
    #[arg(long, value_name = "ADDRESS")]
    group_b: Option<SocketAddr>,
    /// Interface to join line B on [default: that of --interface].
    #[arg(long, value_name = "ADDRESS", requires = "group_b")]
    interface_b: Option<Ipv4Addr>,
    /// Re-request server for lost messages, or `none`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26478")]
    re_request: String,
    /// How long a message may be missing before it is requested [default: 0s with one line, 5ms with two].
    #[arg(long, value_name = "TIME")]
    request_delay: Option<Span>,
    /// Take the feed from this address by SoupBinTCP, instead of a group.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["group", "interface", "group_b", "re_request", "request_delay"])]
    tcp: Option<SocketAddr>,
    /// The server of snapshots of the books (GLIMPSE).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26479")]
    snapshot: SocketAddr,
    /// Username and password for snapshots and for the feed over TCP.
    #[arg(long, value_name = "NAME:PASSWORD", default_value = "user01:password01")]
    user: String,
    /// Session of the delta stream to take over TCP; `damrak serve --json` prints all sessions. Not needed over UDP, where
    /// each packet has its session.
    #[arg(long, value_name = "NAME", requires = "tcp")]
    session: Option<String>,
    /// Begin with this message instead of a snapshot; above 1 no books are built.
    #[arg(long, value_name = "N", conflicts_with_all = ["from_start", "no_snapshot"])]
    from: Option<u64>,
    /// Begin with the first message of the session.
    #[arg(long, conflicts_with = "no_snapshot")]
    from_start: bool,
    /// Begin with the next message that arrives; no books are built.
    #[arg(long)]
    no_snapshot: bool,
    /// Stop after this long, like 10s.
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Stop once a packet has arrived and no message up to it is missing.
    #[arg(long)]
    until_caught_up: bool,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// The source of a feed: a multicast group, or a local unicast address.
///
/// # Errors
/// The address is an IPv6 group; the feed is IPv4.
pub(in super::super) fn source(
    group: SocketAddr,
    interface: Ipv4Addr,
) -> Result<FeedSource, Failure> {
    match group {
        SocketAddr::V4(group) if group.ip().is_multicast() => {
            Ok(FeedSource::Multicast { group, interface })
        }
        SocketAddr::V6(group) if group.ip().is_multicast() => {
            Err(Failure::usage(format!("{group} is an IPv6 group; the feed is IPv4")))
        }
        local => Ok(FeedSource::Unicast(local)),
    }
}

/// Runs `damrak feed watch`.
pub(super) fn watch(arguments: &Arguments) -> Result<(), Failure> {
    receive(&arguments.join, arguments.record.as_slice(), arguments.depth)
}

/// Runs `damrak feed record`.
pub(super) fn record(arguments: &RecordArguments) -> Result<(), Failure> {
    receive(&arguments.join, &arguments.files, 0)
}

/// Receives the feed, and prints `depth` levels of each book at the end.
fn receive(arguments: &JoinArguments, files: &[PathBuf], depth: usize) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let mut recorder = Recorder::create(files, arguments)?;
    let mut subscriber = subscribe(arguments, clock)?;
    let stop = stop_flag(&[])?;
    let mut wrong = None;
    let (mut printed, mut heard) = (Duration::ZERO, clock.since_start());
    while !stop.load(Ordering::Relaxed)
        && arguments.duration.is_none_or(|span| clock.since_start() < span.0)
    {
        let now_ns = clock.now_ns();
        let polled = subscriber.poll(now_ns, &mut |delivered| recorder.take(delivered));
        recorder.write(subscriber.session(), now_ns)?;
        let delivered = match polled {
            Ok(delivered) => delivered,
            Err(FeedSubscriberError::Book(error)) => {
                wrong = Some(error);
                break;
            }
            Err(error) => return Err(failed(error, arguments)),
        };
        if !arguments.json && clock.since_start() >= printed + Duration::from_secs(1) {
            printed = clock.since_start();
            print_line(&progress(&subscriber))?;
        }
        if subscriber.is_ended() {
            break;
        }
        if delivered > 0 {
            heard = clock.since_start();
            continue;
        }
        if arguments.until_caught_up && is_caught_up(&subscriber, clock.since_start() - heard) {
            break;
        }
        give_up_lost(&subscriber, arguments, clock.now_ns())?;
        thread::sleep(PAUSE);
    }
    recorder.finish()?;
    if arguments.json {
        print_json(&summary(&subscriber, depth))?;
    } else {
        print_line(&progress(&subscriber))?;
        if depth > 0 {
            print_books(subscriber.book().unwrap_or(&FeedBook::new()), depth)?;
        }
    }
    if let Some(error) = wrong {
        return Err(Failure::verification(error));
    }
    let report = received(&subscriber);
    if let FeedChannel::Datagrams(_) = subscriber.channel()
        && report.datagrams == 0
    {
        let from = source(arguments.group, arguments.interface)?;
        return Err(Failure::runtime(format!("no packet arrived from {from}"))
            .hint("is the venue running? `damrak serve` prints where its feed goes"));
    }
    if report.missing > 0 {
        return Err(Failure::verification(format!(
            "{} messages of the feed are missing",
            report.missing
        )));
    }
    Ok(())
}

/// The files that a feed is recorded to.
struct Recorder<'a> {
    files: Vec<(&'a PathBuf, RecordingWriter<BufWriter<File>>)>,
    /// The messages of this turn, one after the other: packets need the session, which the turn may bring.
    bytes: Vec<u8>,
    /// Their numbers, `None` in a snapshot, and where each ends.
    messages: Vec<(Option<u64>, usize)>,
}

impl<'a> Recorder<'a> {
    fn create(files: &'a [PathBuf], arguments: &JoinArguments) -> Result<Self, Failure> {
        let form = files::packet_form(arguments.group, arguments.interface);
        let create = |path: &'a PathBuf| {
            let format = Format::of(path).map_err(|error| unwritten(path, error))?;
            let file = File::create(path).map_err(|error| unwritten(path, error))?;
            let file = BufWriter::with_capacity(1 << 20, file);
            let writer = RecordingWriter::new(file, format, form, b"")
                .map_err(|error| unwritten(path, error))?;
            Ok((path, writer))
        };
        let files = files.iter().map(create).collect::<Result<_, Failure>>()?;
        Ok(Self { files, bytes: Vec::new(), messages: Vec::new() })
    }

    fn take(&mut self, delivered: Delivered<'_>) {
        if self.files.is_empty() {
            return;
        }
        let (number, message) = match delivered {
            Delivered::Snapshot(message) => (None, message),
            Delivered::Feed(number, message) => (Some(number), message),
        };
        self.bytes.extend(message);
        self.messages.push((number, self.bytes.len()));
    }

    /// Writes the messages of this turn.
    fn write(&mut self, session: Option<Session>, now_ns: u64) -> Result<(), Failure> {
        for (path, file) in &mut self.files {
            let mut write = || {
                let mut begin = 0;
                for (number, end) in &self.messages {
                    let message = &self.bytes[begin..*end];
                    begin = *end;
                    match *number {
                        None => file.write_snapshot(message)?,
                        Some(number) => {
                            let received_ns = Some(now_ns);
                            file.write(Recorded { session, number, received_ns, message })?;
                        }
                    }
                }
                Ok(())
            };
            write().map_err(|error| unwritten(path, error))?;
        }
        self.bytes.clear();
        self.messages.clear();
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        for (path, mut file) in self.files {
            file.finish().map_err(|error| unwritten(path, error))?;
        }
        Ok(())
    }
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::runtime(format!("cannot write {}: {error}", path.display()))
}

fn subscribe(arguments: &JoinArguments, clock: SystemClock) -> Result<FeedSubscriber, Failure> {
    let wrong_user = || Failure::usage("--user is not NAME:PASSWORD, of up to 6 and 10 characters");
    let (name, password) = arguments.user.split_once(':').ok_or_else(wrong_user)?;
    let mut login = LoginRequest::new(name, password).ok_or_else(wrong_user)?;
    if let Some(session) = &arguments.session {
        login.session = Text::new(session)
            .ok_or_else(|| Failure::usage("--session has at most 10 printable characters"))?;
    }
    let channel = match arguments.tcp {
        Some(address) => FeedChannel::Tcp(TcpFeed::new(connect_to(address, login))),
        None => FeedChannel::Datagrams(receiver(arguments)?),
    };
    let start = match (arguments.from, arguments.from_start, arguments.no_snapshot) {
        (Some(number), ..) => Start::Message(number),
        (_, true, _) => Start::Message(1),
        (_, _, true) => Start::Next,
        _ => Start::Snapshot(connect_to(arguments.snapshot, login)),
    };
    FeedSubscriber::start(channel, start, clock.now_ns()).map_err(|error| failed(error, arguments))
}

fn receiver(arguments: &JoinArguments) -> Result<FeedReceiver, Failure> {
    let requests_to = match arguments.re_request.as_str() {
        "none" => None,
        address => Some(address.parse().map_err(|_| {
            Failure::usage(format!("--re-request {address:?} is neither an address nor `none`"))
        })?),
    };
    let config = FeedReceiverConfig {
        feed: source(arguments.group, arguments.interface)?,
        feed_b: line_b(arguments)?,
        requests_to,
        expected: 1,
        limits: ReceiverLimits {
            request_delay_ns: request_delay(arguments).as_nanos() as u64,
            ..ReceiverLimits::default()
        },
    };
    FeedReceiver::open(&config)
        .map_err(|error| Failure::environment(anyhow::Error::new(error).context("feed")))
        .map_err(|failure| failure.hint("`damrak serve` prints where its feed goes"))
}

fn line_b(arguments: &JoinArguments) -> Result<Option<FeedSource>, Failure> {
    let interface = arguments.interface_b.unwrap_or(arguments.interface);
    arguments.group_b.map(|group| source(group, interface)).transpose()
}

/// With two lines, a message that one line lost may still arrive by the other.
fn request_delay(arguments: &JoinArguments) -> Duration {
    match (arguments.request_delay, arguments.group_b) {
        (Some(delay), _) => delay.0,
        (None, Some(_)) => SECOND_LINE_DELAY,
        (None, None) => Duration::ZERO,
    }
}

/// The failure of a subscriber, with a hint for the user.
fn failed(error: FeedSubscriberError, arguments: &JoinArguments) -> Failure {
    let hint = match &error {
        FeedSubscriberError::Rejected { .. } => Some(
            "--user takes the name and password of a participant or of a row of \
             [[market_data.subscribers]]"
                .to_owned(),
        ),
        FeedSubscriberError::Service { service: "snapshot", .. } => Some(format!(
            "check that the venue is running and that its snapshots are at {}: `damrak serve` prints the \
             address for --snapshot; --from-start and --no-snapshot need no snapshot",
            arguments.snapshot
        )),
        FeedSubscriberError::Service { .. } => {
            Some("`damrak serve` prints the address for --tcp".to_owned())
        }
        _ => None,
    };
    let failure = Failure::runtime(anyhow::Error::new(error));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// An error if a message is missing for long and no snapshot replaces it.
fn give_up_lost(
    subscriber: &FeedSubscriber,
    arguments: &JoinArguments,
    now_ns: u64,
) -> Result<(), Failure> {
    let FeedChannel::Datagrams(receiver) = subscriber.channel() else { return Ok(()) };
    let is_patient = arguments.from.is_none() && !arguments.from_start && !arguments.no_snapshot;
    if is_patient || receiver.stalled_ns(now_ns) < MISSING_MAX.as_nanos() as u64 {
        return Ok(());
    }
    let (number, seconds) = (receiver.expected(), MISSING_MAX.as_secs());
    let what = format!("message {number} of the feed has been missing for {seconds} s");
    Err(match arguments.re_request.as_str() {
        "none" => Failure::verification(format!("{what}, and --re-request is none")),
        server => Failure::verification(format!(
            "{what}: {server} does not answer requests for it; either the server cannot be reached, or \
             the message is no longer in the venue's journal"
        )),
    }
    .hint("without --from and --from-start a snapshot replaces lost messages"))
}

fn is_caught_up(subscriber: &FeedSubscriber, silence: Duration) -> bool {
    subscriber.is_live()
        && match subscriber.channel() {
            FeedChannel::Datagrams(receiver) => {
                let report = receiver.report();
                report.messages.packets > 0 && report.missing == 0
            }
            FeedChannel::Tcp(_) => silence >= SILENCE,
        }
}

fn received(subscriber: &FeedSubscriber) -> FeedReceiverReport {
    match subscriber.channel() {
        FeedChannel::Datagrams(receiver) => receiver.report(),
        FeedChannel::Tcp(_) => FeedReceiverReport::default(),
    }
}

/// The counts of each line; empty over TCP.
fn lines(subscriber: &FeedSubscriber) -> Vec<FeedLineReport> {
    match subscriber.channel() {
        FeedChannel::Datagrams(receiver) => receiver.lines().collect(),
        FeedChannel::Tcp(_) => Vec::new(),
    }
}

fn progress(subscriber: &FeedSubscriber) -> String {
    let (report, received) = (subscriber.report(), received(subscriber));
    let book = subscriber.book();
    format!(
        "{}messages {}  trades {}  orders in books {}  gaps {}  requests {}  missing {}",
        match report.first_message.filter(|_| report.snapshots > 0) {
            Some(first) => format!("from {}  ", grouped(first)),
            None if !subscriber.is_live() => "waiting for a snapshot  ".to_owned(),
            None => String::new(),
        },
        grouped(report.messages),
        book.map_or("-".into(), |book| grouped(book.trade_count())),
        book.map_or("-".into(), |book| grouped(book.order_count() as u64)),
        received.messages.gaps,
        grouped(received.messages.requests),
        grouped(received.missing),
    ) + &first_copies(subscriber)
}

/// With two lines, the number of messages that each brought first.
fn first_copies(subscriber: &FeedSubscriber) -> String {
    match lines(subscriber)[..] {
        [a, b] => format!("  first by A {} by B {}", grouped(a.first), grouped(b.first)),
        _ => String::new(),
    }
}

fn summary(subscriber: &FeedSubscriber, depth: usize) -> Value {
    let (report, received) = (subscriber.report(), received(subscriber));
    let none = FeedBook::new();
    let book = subscriber.book().unwrap_or(&none);
    json!({
        "schema": "damrak/feed/2",
        "messages": report.messages,
        "first_message": report.first_message,
        "snapshots": report.snapshots,
        "snapshot_messages": report.snapshot_messages,
        "session_changes": report.session_changes,
        "lost_gaps": report.lost_gaps,
        "failed_joins": report.failed_joins,
        "datagrams": received.datagrams,
        "heartbeats": received.heartbeats,
        "before_joining": received.messages.before_joining,
        "gaps": received.messages.gaps,
        "requests": received.messages.requests,
        "duplicates": received.messages.duplicates,
        "missing": received.missing,
        "malformed": received.malformed,
        "lines": lines(subscriber).iter().map(|line| json!({
            "datagrams": line.datagrams,
            "first": line.first,
            "duplicates": line.duplicates,
        })).collect::<Vec<_>>(),
        "trades": book.trade_count(),
        "receive_buffer_bytes": match subscriber.channel() {
            FeedChannel::Datagrams(receiver) => Some(receiver.receive_buffer_granted()),
            FeedChannel::Tcp(_) => None,
        },
        "has_books": subscriber.book().is_some(),
        "books": book.instruments().map(|instrument| json!({
            "symbol": instrument.symbol.as_str(),
            "orders": instrument.order_count,
            "volume": instrument.volume,
            "bids": levels(book.bid_levels(instrument.stock_locate), depth),
            "asks": levels(book.ask_levels(instrument.stock_locate), depth),
        })).collect::<Vec<_>>(),
    })
}

fn levels(levels: impl Iterator<Item = client::subscriber::Level>, depth: usize) -> Vec<Value> {
    levels
        .take(depth)
        .map(|level| {
            json!({ "price": price(level.price.into()), "shares": level.shares, "orders": level.order_count })
        })
        .collect()
}

fn print_books(book: &FeedBook, depth: usize) -> Result<(), Failure> {
    for instrument in book.instruments() {
        print_line(&format!(
            "{}: {} orders, volume {}",
            instrument.symbol,
            grouped(instrument.order_count as u64),
            grouped(instrument.volume)
        ))?;
        let mut bids = book.bid_levels(instrument.stock_locate).take(depth);
        let mut asks = book.ask_levels(instrument.stock_locate).take(depth);
        loop {
            let (bid, ask) = (bids.next(), asks.next());
            if bid.is_none() && ask.is_none() {
                break;
            }
            let side = |level: Option<client::subscriber::Level>| {
                level.map_or(String::new(), |level| {
                    format!("{} × {}", grouped(level.shares), price(level.price.into()))
                })
            };
            print_line(&format!("  {:>24} | {}", side(bid), side(ask)))?;
        }
    }
    Ok(())
}
