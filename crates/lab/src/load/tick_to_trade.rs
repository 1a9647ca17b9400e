//! A reference client: it answers an order in the feed with an order of its own. From the packet of the feed to the packet
//! of the order, and to that of the reply, by the kernel's clock.
//!
//! Its orders are immediate or cancel at the lowest price there is: they change no book, so it never answers itself,
//! and it leaves the load beside it as it is.
//!
//! Invariant: it has one order without a reply at a time, so each figure is of one tick alone.

use std::{
    cell::Cell,
    hint, io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use client::{
    participant::{self, DatagramSocket},
    subscriber::{FeedReceiver, FeedSource, feed_socket},
};
use market::{Quantity, Side, Symbol, TimeInForce};
use os::PacketTimes;
use ring::Clock;
use wire::{
    itch::{self, Message},
    moldudp64::ReceiverLimits,
    soupbintcp::LoginRequest,
};

use super::{
    FailureReason, LoadError, LoadOptions, LoadSession, PacketLatency, RequestTimes,
    session::{self, Session},
    tally::Tally,
    tracker::Times,
};
use crate::latency::Latency;

/// A message of the feed that is missing for so long is given up: the client answers new messages, not old ones.
const GAP_NS_MAX: u64 = 1_000_000;
/// Turns without work before it lets others run instead of spinning.
const SPINS: u32 = 64;

/// The reference client: its session, and where the feed comes in.
#[derive(Clone, Copy, Debug)]
pub struct TickClient {
    pub server: SocketAddr,
    pub login: LoginRequest,
    pub feed: FeedSource,
}

/// The figures of the reference client.
#[derive(Debug, Default)]
pub struct TickToTrade {
    /// Orders that the feed showed, of the symbols of the load.
    pub ticks: u64,
    /// Those that came while an order of the client had no reply.
    pub passed_over: u64,
    /// Orders that it sent.
    pub orders: u64,
    /// Ticks and orders for which the kernel gave no arrival or departure time of their packets.
    pub without: u64,
    /// Messages of the feed that were lost.
    pub missed: u64,
    /// From the packet of the feed to the packet of the order.
    pub tick_to_order: Latency,
    /// From the packet of the order to that of the reply.
    pub order_to_ack: Latency,
    /// The sum of both.
    pub tick_to_ack: Latency,
    /// Of the first: from the message in hand to the return of the call that sent the order.
    pub answering: Latency,
    /// Why it could not go on.
    pub failure: Option<FailureReason>,
}

/// A client that is logged in and has the feed.
pub(super) struct OpenTickClient {
    session: Session,
    feed: UdpSocket,
    options: LoadOptions,
}

/// Opens the client's session and the feed.
pub(super) fn open(
    client: &TickClient,
    options: &LoadOptions,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<OpenTickClient, LoadError> {
    let feed = feed_socket(client.feed)
        .map_err(FailureReason::Feed)
        .and_then(|feed| match os::stamp_packets(feed.as_fd(), PacketTimes::Software) {
            Ok(()) => Ok(feed),
            Err(error) => Err(participant::ClientError::Stamps(error).into()),
        })
        .map_err(LoadError::TickClient)?;
    let session = LoadSession::Tcp { server: client.server, login: client.login };
    let own = LoadOptions {
        sessions: vec![session],
        // The feed may come by another card, with another clock.
        packet_times: Some(PacketTimes::Software),
        tick_client: None,
        replay: None,
        on_message: None,
        on_answer: None,
        ..options.clone()
    };
    let session = session::open_all(&own, clock, stop).map_err(|error| match error {
        LoadError::Session { source, .. } => LoadError::TickClient(source),
        other => other,
    })?;
    let session = session.into_iter().next().expect("one was asked for");
    Ok(OpenTickClient { session, feed, options: own })
}

/// A socket for which the kernel gives the arrival time of each datagram.
struct StampedDatagrams<'a> {
    socket: UdpSocket,
    /// The arrival time of the last datagram.
    arrived_ns: &'a Cell<Option<u64>>,
}

impl DatagramSocket for StampedDatagrams<'_> {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.send(datagram).map(drop)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (len, arrived_ns) = os::receive_stamped(self.socket.as_fd(), buffer)?;
        self.arrived_ns.set(arrived_ns);
        Ok(len)
    }
}

impl OpenTickClient {
    /// Answers ticks until the load is over and the feed is quiet, or has not become so. `ticks` has their count so far.
    pub(super) fn run(
        self,
        clock: &dyn Clock,
        is_over: &AtomicBool,
        ticks: &AtomicU64,
    ) -> TickToTrade {
        let Self { session, feed, options } = self;
        let found = TickToTrade::default();
        let mut client = Answering { session, options, clock, tick_ns: None, ticks, found };
        let failure = client.answer_until(feed, is_over).err();
        client.session.log_out(clock.now_ns());
        TickToTrade { failure, ..client.found }
    }
}

struct Answering<'a> {
    session: Session,
    options: LoadOptions,
    clock: &'a dyn Clock,
    /// When the packet arrived whose tick the order without a reply answers; `None` if there is no such order.
    tick_ns: Option<u64>,
    /// The count of [`TickToTrade::ticks`], for the thread that reports progress.
    ticks: &'a AtomicU64,
    found: TickToTrade,
}

impl Answering<'_> {
    fn answer_until(&mut self, feed: UdpSocket, is_over: &AtomicBool) -> Result<(), FailureReason> {
        let arrived_ns = Cell::new(None);
        let feed = StampedDatagrams { socket: feed, arrived_ns: &arrived_ns };
        let mut feed = FeedReceiver::over(feed, None, 1, ReceiverLimits::default());
        feed.begin_next();
        let mut tally = Tally::default();
        let (mut idle_turns, mut over_ns) = (0_u32, None);
        loop {
            let now_ns = self.clock.now_ns();
            if over_ns.is_none() && is_over.load(Ordering::Relaxed) {
                over_ns = Some(now_ns);
            }
            let is_done = idle_turns > 1 && self.tick_ns.is_none();
            let is_late = |over_ns| now_ns - over_ns >= self.options.grace_ns;
            if over_ns.is_some_and(|over_ns| is_done || is_late(over_ns)) {
                return Ok(());
            }
            let mut failure = None;
            let delivered = feed.poll(now_ns, &mut |_, message| {
                if failure.is_none()
                    && let Some(symbol) = symbol_of_added(message)
                {
                    failure = self.answer(symbol, arrived_ns.get()).err();
                }
            });
            let delivered = delivered.map_err(FailureReason::Feed)?;
            if let Some(failure) = failure {
                return Err(failure);
            }
            if feed.stalled_ns(now_ns) >= GAP_NS_MAX {
                // The messages that came behind it are given up with it.
                let report = feed.report();
                self.found.missed += report.missing + report.messages.pending as u64;
                feed.begin_next();
            }
            let heard = self.session.poll(&self.options, self.clock, now_ns, &mut tally)?;
            self.take_replies(&mut tally);
            self.session.watch(self.options.silence_ns_max, now_ns)?;
            idle_turns = if delivered + heard > 0 { 0 } else { idle_turns.saturating_add(1) };
            if idle_turns > SPINS { thread::yield_now() } else { hint::spin_loop() }
        }
    }

    /// Answers a tick with an order, unless one waits for its reply.
    fn answer(&mut self, symbol: Symbol, arrived_ns: Option<u64>) -> Result<(), FailureReason> {
        let known = self.options.symbols.iter().find(|known| known.symbol == symbol).copied();
        let Some(known) = known else { return Ok(()) };
        self.found.ticks += 1;
        self.ticks.store(self.found.ticks, Ordering::Relaxed);
        if self.tick_ns.is_some() {
            self.found.passed_over += 1;
            return Ok(());
        }
        let Some(arrived_ns) = arrived_ns else {
            self.found.without += 1;
            return Ok(());
        };
        let read_ns = self.clock.now_ns();
        let number = self.session.tracker.next_user_ref_num();
        let number = number.ok_or(FailureReason::NumbersUsedUp)?;
        let (lot, price) = (Quantity(1), Some(known.price_increment));
        let immediate = TimeInForce::ImmediateOrCancel;
        let order = participant::enter(number, Side::Buy, symbol, lot, price, immediate);
        self.session.send(&order, read_ns)?;
        let sent_bytes = self.session.bytes_sent();
        let times = Times { scheduled_ns: read_ns, sent_ns: read_ns, sent_bytes };
        self.session.tracker.entered(0, true, lot.0, times);
        self.session.flush()?;
        self.found.orders += 1;
        self.found.answering.record(self.clock.now_ns().saturating_sub(read_ns));
        self.tick_ns = Some(arrived_ns);
        Ok(())
    }

    fn take_replies(&mut self, tally: &mut Tally) {
        let PacketLatency { requests, without, .. } = tally.packets.get_or_insert_default();
        for RequestTimes { packet_left_ns, packet_arrived_ns, .. } in requests.drain(..) {
            // An order that was given up has no tick any more.
            let Some(tick_ns) = self.tick_ns.take() else { continue };
            // A wall clock that was set back in between gives no latency.
            if packet_left_ns < tick_ns {
                self.found.without += 1;
                continue;
            }
            self.found.tick_to_order.record(packet_left_ns - tick_ns);
            self.found.order_to_ack.record(packet_arrived_ns - packet_left_ns);
            self.found.tick_to_ack.record(packet_arrived_ns - tick_ns);
        }
        self.found.without += std::mem::take(without);
        if self.session.tracker.outstanding() == 0 {
            self.tick_ns = None;
        }
    }
}

/// The symbol of an order that was added to a book.
fn symbol_of_added(message: &[u8]) -> Option<Symbol> {
    let stock = match itch::decode(message).ok()? {
        Message::AddOrder(added) => added.stock,
        Message::AddOrderAttributed(added) => added.stock,
        _ => return None,
    };
    Symbol::from_bytes(stock)
}
