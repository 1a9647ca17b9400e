//! A venue and its subscribers over real sockets, with a network between them that loses, repeats and reorders:
//! at the end every subscriber's books must be the engine's.
//!
//! Start at [`run`]; `relay` is the network.
//!
//! Invariant: nothing is judged by time. The trial ends when a number of messages is published and every subscriber has
//! them, or when a subscriber makes no progress for minutes.

mod relay;

use std::{
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use client::subscriber::{
    FeedBook, FeedChannel, FeedLineReport, FeedReceiver, FeedReceiverConfig, FeedReceiverReport,
    FeedSource, FeedSubscriber, JoinReport, Start, connect_to,
};
use market::Text;
use proof::{audit::book_difference, lossy_link::LossCounts};
use serde_json::{Value, json};
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};
use wire::moldudp64::ReceiverLimits;

use crate::{
    load::{self, Loop},
    own_venue::{OwnVenue, OwnVenueOptions, login},
};
use relay::Relay;

/// The lines of the relay: the feed's two, and the stream.
const LINE_A: usize = 0;
const LINE_B: usize = 1;
const STREAM: usize = 2;
const LINES: usize = 3;
/// A hole is requested this long after it appeared.
const REQUEST_DELAY_NS: u64 = 1_000_000;
/// A request without an answer is repeated after this time: the network loses some.
const REQUEST_TIMEOUT_NS: u64 = 20_000_000;
/// Requests of a participant without an answer.
const OUTSTANDING: usize = 256;
/// Turns of a subscriber without a message, a pause each, after which it is stuck: minutes.
const FRUITLESS_TURNS_MAX: u64 = 600_000;
const PAUSE: Duration = Duration::from_micros(200);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Looks at a venue without work until it counts as idle.
const IDLE_LOOKS: u32 = 20;

#[derive(Clone, Copy, Debug)]
pub struct FeedTrialOptions {
    /// The least number of messages of the feed.
    pub messages: u64,
    /// Seed of the network.
    pub seed: u64,
}

/// The subscribers of the trial, by their way to join.
#[derive(Clone, Copy, Debug)]
struct Subscription {
    name: &'static str,
    lines: &'static [usize],
    /// True if it joins when half of the messages are published.
    is_late: bool,
}

const SUBSCRIPTIONS: [Subscription; 4] = [
    Subscription { name: "line A", lines: &[LINE_A], is_late: false },
    Subscription { name: "lines A and B", lines: &[LINE_A, LINE_B], is_late: false },
    Subscription { name: "line B, joins late", lines: &[LINE_B], is_late: true },
    Subscription { name: "stream", lines: &[STREAM], is_late: false },
];

/// The result of a subscriber.
#[derive(Clone, Debug)]
pub struct SubscriberOutcome {
    pub name: &'static str,
    pub join: JoinReport,
    pub received: FeedReceiverReport,
    pub lines: Vec<FeedLineReport>,
    /// The faults that the network applied to the feed's datagrams on the way to it.
    pub network: LossCounts,
    /// Where its books differ from the engine's, or why it has none.
    pub difference: Option<String>,
}

#[derive(Clone, Debug)]
pub struct FeedTrial {
    /// Messages of the feed.
    pub messages: u64,
    pub seed: u64,
    pub subscribers: Vec<SubscriberOutcome>,
}

/// Signals to the subscribers while they receive.
#[derive(Default)]
struct Signals {
    /// True once late subscribers may join.
    is_late: AtomicBool,
    /// The last messages of feed and stream; 0 while there may be more.
    last_of_feed: AtomicU64,
    last_of_stream: AtomicU64,
}

/// Runs the trial with its files in `folder`.
///
/// # Errors
/// The venue does not start, or something other than a subscriber fails.
pub fn run(
    options: &FeedTrialOptions,
    folder: &Path,
    clock: SystemClock,
) -> Result<FeedTrial, Failure> {
    let mut relay = Relay::bind(LINES, options.seed << 16).map_err(no_socket)?;
    let folder = folder.join("venue");
    let mut venue = OwnVenue::start(&folder, &venue_options(&relay)?, clock)?;
    let before = venue.feed_messages();
    let receivers = SUBSCRIPTIONS.iter().enumerate();
    let receivers = receivers.map(|(index, it)| receiver(&venue, &mut relay, index, it));
    let receivers = receivers.collect::<Result<Vec<_>, Failure>>()?;
    let (signals, stop) = (Signals::default(), AtomicBool::new(false));

    let (outcomes, network, messages) = thread::scope(|scope| {
        let (signals, stop) = (&signals, &stop);
        let relay = scope.spawn(move || relay.run(stop));
        let subscribers: Vec<_> = SUBSCRIPTIONS
            .iter()
            .zip(receivers)
            .map(|(it, (receiver, start))| {
                scope.spawn(move || follow(it, receiver, start, signals, clock))
            })
            .collect();
        let published = publish(options, &mut venue, signals, clock);
        let last = published.as_ref().copied().unwrap_or(1);
        signals.is_late.store(true, Ordering::Relaxed);
        signals.last_of_stream.store((last - before.min(last)).max(1), Ordering::Relaxed);
        signals.last_of_feed.store(last, Ordering::Relaxed);
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let outcomes: Vec<_> = subscribers.into_iter().map(join).collect();
        stop.store(true, Ordering::Relaxed);
        let network = relay.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        published.map(|messages| (outcomes, network, messages))
    })?;
    let network = network.map_err(no_socket)?;
    let engine = venue.stop_and_replay()?;
    let subscribers = SUBSCRIPTIONS.iter().zip(outcomes).zip(network);
    let subscribers = subscribers.map(|((it, followed), network)| {
        let Followed { join, received, lines, book } = followed;
        let difference = match book {
            Ok(book) => book_difference(&engine, &book),
            Err(why) => Some(why),
        };
        SubscriberOutcome { name: it.name, join, received, lines, network, difference }
    });
    Ok(FeedTrial { messages, seed: options.seed, subscribers: subscribers.collect() })
}

fn venue_options(relay: &Relay) -> Result<OwnVenueOptions, Failure> {
    let line = |line| relay.line(line).map_err(no_socket);
    let market_data = format!(
        "group = \"{}\"\ngroup_b = \"{}\"\nre_requests_per_second = 0\nre_requests_total_per_second = 0\n\
         [[market_data.streams]]\nname = \"all\"\ninstruments = [\"*\"]\nto = [\"{}\"]\n",
        line(LINE_A)?,
        line(LINE_B)?,
        line(STREAM)?,
    );
    let symbols = ["AAPL", "MSFT", "NVDA", "TSLA"].map(str::to_owned).to_vec();
    Ok(OwnVenueOptions { symbols, users: 4, market_data, ..OwnVenueOptions::default() })
}

/// The receiver of a subscriber behind the relay, and how it starts.
fn receiver(
    venue: &OwnVenue,
    relay: &mut Relay,
    index: usize,
    subscription: &Subscription,
) -> Result<(FeedReceiver, Start), Failure> {
    let any = FeedSource::Unicast((Ipv4Addr::LOCALHOST, 0).into());
    let requests_to = relay.add_requester(venue.address("re_request")?).map_err(no_socket)?;
    let config = FeedReceiverConfig {
        feed: any,
        feed_b: (subscription.lines.len() > 1).then_some(any),
        requests_to: Some(requests_to),
        expected: 1,
        limits: ReceiverLimits {
            request_delay_ns: REQUEST_DELAY_NS,
            request_timeout_ns: REQUEST_TIMEOUT_NS,
            ..ReceiverLimits::default()
        },
    };
    let receiver = FeedReceiver::open(&config).map_err(Failure::environment)?;
    let addresses = receiver.local_addresses().map_err(no_socket)?;
    for (line, to) in subscription.lines.iter().zip(addresses) {
        relay.add_way(*line, index, to);
    }
    let mut login = login(1);
    if subscription.lines == [STREAM] {
        let session = venue.started()["streams"][0]["session"].as_str();
        let session = session.and_then(Text::new);
        login.session = session
            .ok_or_else(|| Failure::runtime("the venue printed no session of its stream"))?;
    }
    Ok((receiver, Start::Snapshot(connect_to(venue.address("snapshot")?, login))))
}

/// Trades until there are enough messages, and gives the number of the last.
fn publish(
    options: &FeedTrialOptions,
    venue: &mut OwnVenue,
    signals: &Signals,
    clock: SystemClock,
) -> Result<u64, Failure> {
    let mut load = venue.load(1)?;
    load.pacing = Loop::Closed { outstanding: OUTSTANDING };
    load.progress_ns = LOOK_INTERVAL.as_nanos() as u64;
    load.seed = options.seed;
    let enough = Arc::new(AtomicBool::new(false));
    let report = load::run(&load, &clock, &enough, &mut |_| {
        let messages = venue.feed_messages();
        signals.is_late.fetch_or(messages >= options.messages / 2, Ordering::Relaxed);
        enough.fetch_or(messages >= options.messages, Ordering::Relaxed);
    });
    let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
    if let Some(failure) = report.failures.first() {
        return Err(Failure::runtime(format!("the load ended early: {failure}")));
    }
    let mut last = (0, 0);
    while last.1 < IDLE_LOOKS {
        thread::sleep(LOOK_INTERVAL);
        let is_idle = venue.rings().iter().all(|ring| ring.readers.iter().all(|it| it.lag == 0));
        let messages = venue.feed_messages();
        last = (messages, if is_idle && messages == last.0 { last.1 + 1 } else { 0 });
    }
    Ok(last.0)
}

/// The final state of a subscriber.
struct Followed {
    join: JoinReport,
    received: FeedReceiverReport,
    lines: Vec<FeedLineReport>,
    /// The books, or why there are none.
    book: Result<FeedBook, String>,
}

impl Followed {
    fn failed(why: String) -> Self {
        let (join, received) = (JoinReport::default(), FeedReceiverReport::default());
        Self { join, received, lines: Vec::new(), book: Err(why) }
    }
}

/// Receives until all messages are here.
fn follow(
    subscription: &Subscription,
    receiver: FeedReceiver,
    start: Start,
    signals: &Signals,
    clock: SystemClock,
) -> Followed {
    while subscription.is_late && !signals.is_late.load(Ordering::Relaxed) {
        thread::sleep(PAUSE);
    }
    let last = match subscription.lines {
        [STREAM] => &signals.last_of_stream,
        _ => &signals.last_of_feed,
    };
    let channel = FeedChannel::Datagrams(receiver);
    let mut subscriber: FeedSubscriber = match FeedSubscriber::start(channel, start, clock.now_ns())
    {
        Ok(subscriber) => subscriber,
        Err(error) => return Followed::failed(causes(&error)),
    };
    let mut fruitless = 0;
    let book = loop {
        let polled = subscriber.poll(clock.now_ns(), &mut |_| {});
        let (last, receiver) = (last.load(Ordering::Relaxed), datagrams(&subscriber));
        match polled {
            Err(error) => break Err(causes(&error)),
            Ok(0) if last > 0 && subscriber.is_live() && receiver.expected() > last => {
                break Ok(());
            }
            Ok(0) if fruitless == FRUITLESS_TURNS_MAX => {
                break Err(format!("stuck before message {} of {last}", receiver.expected()));
            }
            Ok(0) => {
                // Before the last message is known, silence is no sign of anything.
                fruitless += u64::from(last > 0);
                thread::sleep(PAUSE);
            }
            Ok(_) => fruitless = 0,
        }
    };
    let receiver = datagrams(&subscriber);
    let (received, lines) = (receiver.report(), receiver.lines().collect());
    let join = subscriber.report();
    let book = book.and_then(|()| subscriber.into_book().ok_or_else(|| "no books".to_owned()));
    Followed { join, received, lines, book }
}

fn datagrams(subscriber: &FeedSubscriber) -> &FeedReceiver {
    match subscriber.channel() {
        FeedChannel::Datagrams(receiver) => receiver,
        FeedChannel::Tcp(_) => unreachable!("no subscriber of the trial takes the feed over TCP"),
    }
}

impl FeedTrial {
    /// The conditions that did not hold, a line each.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for it in &self.subscribers {
            if let Some(difference) = &it.difference {
                failures.push(format!("{}: {difference}", it.name));
            }
            let LossCounts { lost, repeated, reordered, .. } = it.network;
            if lost == 0 || repeated == 0 || reordered == 0 || it.received.messages.gaps == 0 {
                failures.push(format!(
                    "{}: the network disturbed it too little: {lost} lost, {repeated} repeated, {reordered} reordered",
                    it.name
                ));
            }
        }
        failures
    }

    pub fn json(&self) -> Value {
        json!({
            "schema": "damrak/lab-feed/1",
            "messages": self.messages,
            "seed": self.seed,
            "subscribers": self.subscribers.iter().map(SubscriberOutcome::json).collect::<Vec<_>>(),
            "failures": self.failures(),
        })
    }
}

impl SubscriberOutcome {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "messages": self.join.messages,
            "first_message": self.join.first_message,
            "snapshots": self.join.snapshots,
            "datagrams": self.network.datagrams,
            "lost": self.network.lost,
            "repeated": self.network.repeated,
            "reordered": self.network.reordered,
            "gaps": self.received.messages.gaps,
            "duplicates": self.received.messages.duplicates,
            "requests": self.received.messages.requests,
            "requested": self.received.requested,
            "lines": self.lines.iter().map(|line| json!({
                "datagrams": line.datagrams, "first": line.first, "duplicates": line.duplicates,
            })).collect::<Vec<_>>(),
            "books_equal": self.difference.is_none(),
        })
    }
}

fn no_socket(error: std::io::Error) -> Failure {
    Failure::environment(format!("a socket of the trial's network: {error}"))
}
