//! `damrak feed`: a subscriber that rebuilds the books and reports lost messages.

use std::{
    fs::File,
    io::{BufWriter, Write},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use clap::Args;
use client::subscriber::{FeedBook, FeedReceiver, FeedReceiverConfig, FeedSource};
use serde_json::{Value, json};
use wire::moldudp64::ReceiverLimits;

use super::{
    output::{grouped, price, print_json, print_line},
    stop_flag,
};
use venue::{clock::SystemClock, config::Span, failure::Failure};

/// Sleep after a turn without packets.
const PAUSE: Duration = Duration::from_micros(200);

/// Join a venue's feed, rebuild its books and report lost messages.
///
/// Starts at message 1 and requests missed messages from the re-request server. Runs until
/// interrupted, for the time of --for, or with --until-caught-up. Exit code 4 if the feed contradicts
/// itself or messages are missing at the end.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak feed\n  damrak feed --for 5s --json --record feed.itch\n  \
                        damrak feed --group 127.0.0.1:26477 --re-request 127.0.0.1:26478"
)]
pub struct Arguments {
    /// The multicast group, or the local address a unicast feed is sent to.
    #[arg(long, value_name = "ADDRESS", default_value = "239.10.10.10:26477")]
    group: SocketAddr,
    /// Interface to join the group on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    interface: Ipv4Addr,
    /// Re-request server for lost messages, or `none`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26478")]
    re_request: String,
    /// First message; with a number above 1 no books are built.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Stop after this long, like 10s.
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Stop once a packet came and no message that is known to exist is missing.
    #[arg(long)]
    until_caught_up: bool,
    /// Write every message to this file: length in two bytes, then the message (BinaryFILE).
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// How many price levels to print of each book at the end.
    #[arg(long, default_value_t = 3)]
    depth: usize,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// The source of a feed: a multicast group, or a local unicast address.
///
/// # Errors
/// The address is an IPv6 group; the feed is IPv4.
pub(super) fn source(group: SocketAddr, interface: Ipv4Addr) -> Result<FeedSource, Failure> {
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

/// Runs `damrak feed`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let requests_to = match arguments.re_request.as_str() {
        "none" => None,
        address => Some(address.parse().map_err(|_| {
            Failure::usage(format!("--re-request {address:?} is neither an address nor `none`"))
        })?),
    };
    let config = FeedReceiverConfig {
        feed: source(arguments.group, arguments.interface)?,
        requests_to,
        expected: arguments.from,
        limits: ReceiverLimits::default(),
    };
    let mut receiver = FeedReceiver::open(&config)
        .map_err(|error| Failure::environment(anyhow::Error::new(error).context("feed")))
        .map_err(|failure| failure.hint("`damrak serve` prints where its feed goes"))?;
    let mut recording = match &arguments.record {
        None => None,
        Some(path) => Some(BufWriter::new(File::create(path).map_err(|error| {
            Failure::runtime(format!("cannot write {}: {error}", path.display()))
        })?)),
    };
    let stop = stop_flag(&[])?;
    let clock = SystemClock::start();
    let mut book = FeedBook::new();
    let (mut wrong, mut unwritten) = (None, None);
    let mut printed = Duration::ZERO;
    while !stop.load(Ordering::Relaxed)
        && wrong.is_none()
        && arguments.duration.is_none_or(|span| clock.since_start() < span.0)
    {
        let delivered = receiver
            .poll(clock.now_ns(), &mut |number, message| {
                // Without the beginning the books cannot be known.
                if arguments.from == 1
                    && let Err(error) = book.apply(number, message)
                {
                    wrong.get_or_insert(error);
                }
                if let Some(file) = &mut recording {
                    let length = (message.len() as u16).to_be_bytes();
                    if let Err(error) =
                        file.write_all(&length).and_then(|()| file.write_all(message))
                    {
                        unwritten.get_or_insert(error);
                    }
                }
            })
            .map_err(|error| Failure::runtime(anyhow::Error::new(error)))?;
        if let Some(error) = unwritten {
            return Err(Failure::runtime(format!("cannot write the recording: {error}")));
        }
        if !arguments.json && clock.since_start() >= printed + Duration::from_secs(1) {
            printed = clock.since_start();
            print_line(&progress(&receiver, &book))?;
        }
        let report = receiver.report();
        if arguments.until_caught_up && report.datagrams > 0 && report.missing == 0 {
            break;
        }
        if delivered == 0 {
            thread::sleep(PAUSE);
        }
    }
    if let Some(mut file) = recording {
        file.flush()
            .map_err(|error| Failure::runtime(format!("cannot write the recording: {error}")))?;
    }
    let report = receiver.report();
    if arguments.json {
        print_json(&summary(&receiver, &book, arguments))?;
    } else {
        print_line(&progress(&receiver, &book))?;
        print_books(&book, arguments.depth)?;
    }
    if let Some(error) = wrong {
        return Err(Failure::verification(error));
    }
    if report.datagrams == 0 {
        return Err(Failure::runtime(format!("no packet arrived from {}", config.feed))
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

fn progress(receiver: &FeedReceiver, book: &FeedBook) -> String {
    let report = receiver.report();
    format!(
        "messages {}  trades {}  orders in books {}  gaps {}  requests {}  missing {}",
        grouped(report.messages.delivered),
        grouped(book.trade_count()),
        grouped(book.order_count() as u64),
        report.messages.gaps,
        grouped(report.messages.requests),
        grouped(report.missing),
    )
}

fn summary(receiver: &FeedReceiver, book: &FeedBook, arguments: &Arguments) -> Value {
    let report = receiver.report();
    json!({
        "schema": "damrak/feed/1",
        "messages": report.messages.delivered,
        "datagrams": report.datagrams,
        "heartbeats": report.heartbeats,
        "before_joining": report.messages.before_joining,
        "gaps": report.messages.gaps,
        "requests": report.messages.requests,
        "duplicates": report.messages.duplicates,
        "missing": report.missing,
        "malformed": report.malformed,
        "trades": book.trade_count(),
        "receive_buffer_bytes": receiver.receive_buffer_granted(),
        "books": book.instruments().map(|instrument| json!({
            "symbol": instrument.symbol.as_str(),
            "orders": instrument.order_count,
            "volume": instrument.volume,
            "bids": levels(book.bid_levels(instrument.stock_locate), arguments.depth),
            "asks": levels(book.ask_levels(instrument.stock_locate), arguments.depth),
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
