//! Load on a null venue with faults. Time passes with the turns of that venue.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
};

use client::{participant, subscriber::FeedSource};
use market::Text;
use venue::clock::SystemClock;
use wire::{
    itch::{AddOrder, OrderExecuted},
    layout::Message,
    moldudp64::{PACKET_LEN_DEFAULT, Packetizer},
};
use zerocopy::{FromZeros, IntoBytes};

use super::*;

const MILLIS: u64 = 1_000_000;

fn login(username: &str) -> LoginRequest {
    LoginRequest::new(username, "SECRET").unwrap()
}

/// A free address for a socket of this process. The loopback address is the process's own, and the port is below those
/// that the system chooses, so nobody else binds it.
fn free_address() -> SocketAddr {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | high, middle, low);
    SocketAddr::from((own, PORT.fetch_add(1, Ordering::Relaxed)))
}

fn tcp(venue: &NullVenue, username: &str) -> LoadSession {
    LoadSession::Tcp { server: venue.tcp, login: login(username) }
}

fn udp(venue: &NullVenue) -> LoadSession {
    LoadSession::Udp { server: venue.udp, local: free_address() }
}

fn options(sessions: Vec<LoadSession>) -> LoadOptions {
    let symbols = vec![LoadSymbol {
        symbol: Symbol::new("AAA").unwrap(),
        mid: Price(1_000_000),
        price_increment: Price(100),
    }];
    let mut options = LoadOptions::new(sessions, symbols, 10_000, 200 * MILLIS);
    options.grace_ns = 5_000 * MILLIS;
    options
}

/// Time that passes with the turns of the venue, and as a rule only after a reading of the clock: neither side is
/// silent for long only because the machine gave it no core.
struct TurnClock {
    now_ns: AtomicU64,
    is_read: AtomicBool,
    unread_turns: AtomicU64,
}

impl TurnClock {
    /// How much time passes at a turn of the venue.
    const TICK_NS: u64 = 100_000;
    /// Of the turns without a reading of the clock before them, one in this many lets time pass as well.
    const UNREAD_TURNS: u64 = 20;

    /// The time of a turn of the venue. A turn that has no waiting reader sleeps, for the other threads' sake.
    fn turn(&self) -> u64 {
        let unread_turns = self.unread_turns.fetch_add(1, Ordering::Relaxed);
        if self.is_read.swap(false, Ordering::Relaxed) || unread_turns >= Self::UNREAD_TURNS {
            self.unread_turns.store(0, Ordering::Relaxed);
            return self.now_ns.fetch_add(Self::TICK_NS, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_micros(50));
        self.now_ns.load(Ordering::Relaxed)
    }
}

impl Clock for TurnClock {
    fn now_ns(&self) -> u64 {
        self.is_read.store(true, Ordering::Relaxed);
        self.now_ns.load(Ordering::Relaxed)
    }
}

fn start(faults: NullVenueFaults) -> (Arc<TurnClock>, NullVenue) {
    let clock = Arc::new(TurnClock {
        now_ns: AtomicU64::new(1_700_000_000_000_000_000),
        is_read: AtomicBool::new(false),
        unread_turns: AtomicU64::new(0),
    });
    let turned = Arc::clone(&clock);
    let venue = NullVenue::with_faults(faults, move || turned.turn()).unwrap();
    (clock, venue)
}

fn run_quietly(options: &LoadOptions, clock: &TurnClock) -> Result<LoadReport, LoadError> {
    run(options, clock, &AtomicBool::new(false), &mut |_| {})
}

/// Every request due is sent and accounted for, over TCP and UDP, on one thread and on two, one by one, in batches and
/// in segments, also against sessions that have a history.
#[test]
fn every_request_is_accounted_for() {
    for (threads, batching) in [
        (1, DatagramBatching::Batch),
        (2, DatagramBatching::Single),
        (1, DatagramBatching::Segments),
    ] {
        let (clock, venue) =
            start(NullVenueFaults { first_user_ref_num: 700, ..NullVenueFaults::default() });
        let sessions = vec![tcp(&venue, "TCP1"), tcp(&venue, "TCP2"), udp(&venue), udp(&venue)];
        let mut options = options(sessions);
        options.threads = threads;
        options.requests_per_datagram = 4;
        options.batching = batching;
        let report = match run_quietly(&options, &clock) {
            Err(LoadError::Session {
                source: FailureReason::Client(ClientError::Segments(error)),
                ..
            }) => {
                println!("skipped {batching:?}: {error}");
                continue;
            }
            report => report.unwrap(),
        };
        let counts = &report.counts;
        assert!(report.failures.is_empty(), "{report}");
        assert_eq!(counts.requests(), 2_000, "{report}");
        assert_eq!(counts.unsent, 0);
        assert_eq!(
            (counts.unanswered, counts.duplicates, counts.unexpected),
            (0, 0, 0),
            "{report}"
        );
        assert_eq!(counts.replies + counts.superfluous, counts.requests());
        assert_eq!(counts.accepted + counts.rejected, counts.enters);
        assert_eq!(counts.rejects.get(&0x13), Some(&counts.rejected));
        assert!(counts.rejected > 0 && counts.fills > 0 && counts.replaced > 0);
        assert_eq!(report.scheduled.count(), counts.replies);
        assert_eq!(report.sent.count(), counts.replies);
        let (scheduled, sent) = (report.scheduled.percentiles(), report.sent.percentiles());
        assert!(scheduled.p50_ns >= sent.p50_ns && scheduled.max_ns >= sent.max_ns, "{report}");
    }
}

/// Replies that get lost on the way are asked for again; none is missing in the end.
#[test]
fn lost_replies_are_recovered() {
    let (clock, venue) =
        start(NullVenueFaults { lose_sent: Some(7), ..NullVenueFaults::default() });
    let report = run_quietly(&options(vec![udp(&venue)]), &clock).unwrap();
    assert!(report.failures.is_empty(), "{report}");
    assert_eq!(report.counts.requests(), 2_000);
    assert_eq!(report.counts.unanswered, 0, "{report}");
    assert_eq!(report.counts.replies + report.counts.superfluous, 2_000, "{report}");
}

/// Requests that get lost on the way are counted as unanswered, and cost nothing else.
#[test]
fn lost_requests_are_counted() {
    let (clock, venue) =
        start(NullVenueFaults { lose_received: Some(10), ..NullVenueFaults::default() });
    let report = run_quietly(&options(vec![udp(&venue)]), &clock).unwrap();
    let counts = &report.counts;
    assert!(report.failures.is_empty(), "{report}");
    assert!((50..300).contains(&counts.unanswered), "{report}");
    assert_eq!(counts.replies + counts.superfluous + counts.unanswered, 2_000, "{report}");
    assert_eq!(report.scheduled.count(), counts.replies + counts.unanswered, "{report}");
    assert_eq!(report.limit(), LoadLimit::Network, "{report}");
}

/// A venue that stops answering costs its sessions, with the reason, and never a hang.
#[test]
fn silent_venue_is_given_up() {
    let (clock, venue) =
        start(NullVenueFaults { mute_from: Some(300), ..NullVenueFaults::default() });
    let mut options = options(vec![tcp(&venue, "TCP1"), udp(&venue)]);
    options.silence_ns_max = 300 * MILLIS;
    options.duration_ns = 60_000 * MILLIS;
    let report = run_quietly(&options, &clock).unwrap();
    assert_eq!(report.failures.len(), 2, "{report}");
    for failure in &report.failures {
        assert!(matches!(failure.reason, FailureReason::Silent { .. }), "{failure}");
    }
    assert!(report.counts.unanswered > 0, "{report}");
    let waited_ns = report.scheduled.percentiles().max_ns;
    assert!(waited_ns >= options.silence_ns_max, "{report}");
    assert!(report.elapsed_ns < 30_000 * MILLIS, "{report}");
}

/// A venue that closes a connection costs that session; the others go on.
#[test]
fn closed_connection_costs_one_session() {
    let (clock, venue) =
        start(NullVenueFaults { close_from: Some(500), ..NullVenueFaults::default() });
    let report = run_quietly(&options(vec![tcp(&venue, "TCP1"), udp(&venue)]), &clock).unwrap();
    assert_eq!(report.failures.len(), 1, "{report}");
    assert_eq!(report.failures[0].session, 0);
    assert!(matches!(report.failures[0].reason, FailureReason::Client(_)), "{report}");
    assert_eq!(report.counts.requests(), 2_000, "{report}");
}

/// A rejected login and an address without a venue are errors before any request is sent.
#[test]
fn unreachable_venue_is_an_error() {
    let (clock, venue) = start(NullVenueFaults::default());
    let wrong = LoginRequest { password: Text::new("WRONG").unwrap(), ..login("TCP1") };
    let mut refused = options(vec![LoadSession::Tcp { server: venue.tcp, login: wrong }]);
    let error = run_quietly(&refused, &clock).unwrap_err();
    let LoadError::Session { session: 0, source: FailureReason::Client(error) } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(error, participant::ClientError::Rejected(_)), "{error:?}");

    refused.sessions = vec![LoadSession::Udp { server: free_address(), local: free_address() }];
    refused.ready_ns_max = 100 * MILLIS;
    let error = run_quietly(&refused, &clock).unwrap_err();
    assert!(matches!(error, LoadError::Session { source: FailureReason::Silent { .. }, .. }));

    refused.rate_per_second = 0;
    assert!(matches!(run_quietly(&refused, &clock), Err(LoadError::Options(_))));
}

/// A run stopped on request ends early and still waits for the answers to its requests.
#[test]
fn run_can_be_stopped() {
    let (clock, venue) = start(NullVenueFaults::default());
    let mut options = options(vec![tcp(&venue, "TCP1")]);
    options.duration_ns = 3_600_000 * MILLIS;
    options.progress_ns = 50 * MILLIS;
    let stop = AtomicBool::new(false);
    let mut reported = 0;
    let report = run(&options, &*clock, &stop, &mut |progress| {
        assert!(progress.interval_ns >= 50 * MILLIS);
        reported += progress.scheduled.count();
        if progress.counts.requests() > 500 {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(report.failures.is_empty(), "{report}");
    assert_eq!(report.counts.unanswered, 0);
    assert!(reported > 0 && reported <= report.scheduled.count(), "{reported}");
    assert_eq!(report.scheduled.count(), report.counts.replies + report.counts.unsent);
}

/// A client that comes back collects the messages that the observer was handed, over TCP and UDP.
#[test]
fn observed_messages_can_be_collected_again() {
    let (clock, venue) = start(NullVenueFaults::default());
    let local = free_address();
    let mut options =
        options(vec![tcp(&venue, "TCP1"), LoadSession::Udp { server: venue.udp, local }]);
    let seen: Arc<Mutex<Vec<Vec<Vec<u8>>>>> = Arc::new(Mutex::new(vec![Vec::new(), Vec::new()]));
    options.on_message = Some(Arc::new({
        let seen = Arc::clone(&seen);
        move |session, stream_sequence, message: &[u8]| {
            let messages = &mut seen.lock().unwrap()[session];
            messages.push(message.to_vec());
            assert_eq!(messages.len() as u64, stream_sequence);
        }
    }));
    let report = run_quietly(&options, &clock).unwrap();
    assert!(report.failures.is_empty(), "{report}");
    let seen = seen.lock().unwrap();
    let tcp =
        participant::collect(venue.tcp, login("TCP1"), 1, seen[0].len(), 100 * MILLIS, &*clock)
            .unwrap();
    assert_eq!(tcp, seen[0]);
    let session = Some(*b"0000000001");
    let udp = participant::collect_udp(
        local,
        venue.udp,
        session,
        1,
        seen[1].len(),
        500 * MILLIS,
        &*clock,
    )
    .unwrap();
    assert_eq!(udp, seen[1]);
    let later = participant::collect(
        venue.tcp,
        login("TCP1"),
        101,
        seen[0].len() - 100,
        100 * MILLIS,
        &*clock,
    )
    .unwrap();
    assert_eq!(later, seen[0][100..]);
}

/// A second run on the same session goes on where the first one ended, although its login is
/// handed the newest message again.
#[test]
fn second_run_goes_on_with_the_numbers() {
    let (clock, venue) = start(NullVenueFaults::default());
    let options = options(vec![tcp(&venue, "TCP1")]);
    for _ in 0..2 {
        let report = run_quietly(&options, &clock).unwrap();
        assert!(report.failures.is_empty(), "{report}");
        assert_eq!(report.counts.unanswered, 0, "{report}");
        assert_eq!(report.counts.replies + report.counts.superfluous, 2_000, "{report}");
    }
}

/// True, and said, if this system does not note when packets leave and arrive.
fn is_without_packet_times<T>(run: &Result<T, LoadError>) -> bool {
    let is_without = matches!(
        run,
        Err(LoadError::Session { source: FailureReason::Client(ClientError::Stamps(_)), .. }
            | LoadError::TickClient(FailureReason::Client(ClientError::Stamps(_))))
    );
    if is_without {
        println!("skipped: this system has no times of packets");
    }
    is_without
}

/// The kernel's times of a request's packets belong to that request: its own latency is never shorter than that of its
/// packets, and with one request at a time the next leaves after the answer has arrived.
#[test]
fn packets_have_the_times_of_their_requests() {
    let clock = SystemClock::start();
    let venue = NullVenue::start(move || clock.now_ns()).unwrap();
    let mut options = options(vec![tcp(&venue, "TCP1")]);
    options.packet_times = Some(PacketTimes::Software);
    for pacing in [Loop::Closed { outstanding: 1 }, Loop::Open] {
        options.pacing = pacing;
        let report = run(&options, &clock, &AtomicBool::new(false), &mut |_| {});
        if is_without_packet_times(&report) {
            return;
        }
        let report = report.unwrap();
        let packets = report.packets.as_ref().unwrap();
        assert!(report.failures.is_empty() && report.counts.replies > 0, "{report}");
        assert_eq!(packets.packets.count() + packets.without, report.counts.replies, "{report}");
        assert_eq!(packets.requests.len() as u64, packets.packets.count());
        assert_eq!(packets.without, 0, "{report}");
        let mut arrived_ns = 0;
        for request in &packets.requests {
            let own_ns = request.answered_ns - request.sent_ns;
            let packets_ns = request.packet_arrived_ns - request.packet_left_ns;
            assert!(packets_ns <= own_ns, "{request:?}");
            assert!(pacing == Loop::Open || arrived_ns < request.packet_left_ns, "{request:?}");
            arrived_ns = request.packet_arrived_ns;
        }
        assert!(report.to_string().contains("order→ack  (packet)"), "{report}");
    }
    options.sessions.push(udp(&venue));
    let error = run(&options, &clock, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Options(_)), "{error}");
}

/// The reference client answers orders in the feed with orders of its own, and passes over those that come while one of
/// its orders has no reply; other messages and other symbols it leaves alone.
#[test]
fn ticks_are_answered_with_orders() {
    const TICKS: u64 = 50;
    let clock = SystemClock::start();
    let venue = NullVenue::start(move || clock.now_ns()).unwrap();
    let group = free_address();
    let mut options = options(vec![tcp(&venue, "TCP1")]);
    options.rate_per_second = 100;
    options.duration_ns = 600_000 * MILLIS;
    options.grace_ns = SILENCE_NS_MAX;
    options.progress_ns = MILLIS;
    options.tick_client = Some(TickClient {
        server: venue.tcp,
        login: login("TCP2"),
        feed: FeedSource::Unicast(group),
    });
    let feed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let added = |symbol: &[u8; 8]| AddOrder {
        message_type: AddOrder::TYPE,
        stock: *symbol,
        ..AddOrder::new_zeroed()
    };
    let executed =
        OrderExecuted { message_type: OrderExecuted::TYPE, ..OrderExecuted::new_zeroed() };
    let mut sequence = 1;
    let mut send = |messages: &[&[u8]]| {
        let mut packet = Packetizer::new(*b"0000000001", sequence, PACKET_LEN_DEFAULT);
        messages.iter().for_each(|message| assert!(packet.push(message)));
        feed.send_to(packet.packet(), group).unwrap();
        sequence += messages.len() as u64;
    };
    let stop = AtomicBool::new(false);
    let mut is_sent = false;
    let report = run(&options, &clock, &stop, &mut |progress| {
        // The client is logged in and has its socket: all that is sent now reaches it, on a busy system some time after
        // the call that sent it. From one core it arrives in the order in which it was sent.
        if !is_sent {
            is_sent = true;
            os::pin_to_cores(&os::allowed_cores().unwrap()[..1]).unwrap();
            for _ in 0..TICKS / 2 {
                send(&[added(b"OTHER   ").as_bytes()]);
                // The order for the first has no reply while the client reads the second.
                send(&[added(b"AAA     ").as_bytes(); 2]);
                send(&[executed.as_bytes()]);
                thread::sleep(Duration::from_millis(1));
            }
        }
        stop.store(progress.ticks == Some(TICKS), Ordering::Relaxed);
    });
    if is_without_packet_times(&report) {
        return;
    }
    let report = report.unwrap();
    let ticks = report.tick_to_trade.as_ref().unwrap();
    assert!(ticks.failure.is_none() && report.failures.is_empty(), "{report}");
    assert_eq!((ticks.ticks, ticks.missed), (TICKS, 0), "{report}");
    assert!(ticks.orders > 0 && ticks.passed_over >= TICKS / 2, "{report}");
    assert_eq!(ticks.orders + ticks.passed_over, TICKS, "{report}");
    let measured = ticks.tick_to_ack.count();
    assert_eq!((ticks.without, measured), (0, ticks.orders), "{report}");
    assert_eq!((ticks.tick_to_order.count(), ticks.order_to_ack.count()), (measured, measured));
    assert_eq!(ticks.answering.count(), ticks.orders);
    let longest = |latency: &Latency| latency.percentiles().max_ns;
    assert!(longest(&ticks.tick_to_order) <= longest(&ticks.tick_to_ack), "{report}");
    assert!(longest(&ticks.order_to_ack) <= longest(&ticks.tick_to_ack), "{report}");
    assert!(report.to_string().contains("tick→order"), "{report}");
}
