//! Subscribers that join a venue that has published far more than its memory holds.

use std::path::Path;

use client::{
    participant::{self, TcpClient},
    subscriber::{
        FeedBook, FeedChannel, FeedReceiver, FeedReceiverConfig, FeedSource, FeedSubscriber, Start,
        TcpFeed, connect_to,
    },
};
use journal::Folder;
use market::{Quantity, Side};
use proof::audit::book_difference;
use venue::{Running, clock::SystemClock, follower::Follower};
use wire::{
    moldudp64::ReceiverLimits,
    soupbintcp::{LoginRequest, Timers},
};

use crate::{
    patience::wait_for,
    whole_venue::{address, config, limit},
};

/// Pairs of an order and its cancel: 55 bytes of the feed, so that 1 MiB holds less than a tenth of them.
const PAIRS: u32 = 200_000;
/// One order in this many rests.
const RESTING: u32 = 500;

fn login(username: &str, password: &str) -> LoginRequest {
    LoginRequest::new(username, password).unwrap()
}

/// Enters orders and cancels most of them.
struct Flow {
    client: TcpClient,
    clock: SystemClock,
    next: u32,
    /// Messages of the feed before its first.
    base: u64,
}

impl Flow {
    fn start(running: &mut Running) -> Self {
        let base = messages(running);
        let clock = SystemClock::start();
        let mut request = login("user01", "password01");
        request.sequence_number = Some(0);
        let address = address(running, "order_entry");
        let client =
            TcpClient::connect(address, request, Timers::default(), clock.now_ns()).unwrap();
        let mut flow = Self { client, clock, next: 1, base };
        let look = |flow: &mut Self| {
            flow.turn();
            flow.client.is_logged_in().then_some(())
        };
        wait_for("the login", &mut flow, look, |flow| format!("{:?}", flow.client.state()));
        flow
    }

    fn turn(&mut self) {
        self.client.poll(self.clock.now_ns(), &mut |_, _| {}).unwrap();
    }

    fn trade(&mut self, pairs: u32) {
        for _ in 0..pairs {
            while !self.client.has_room(200) {
                self.turn();
                std::thread::yield_now();
            }
            let (number, now_ns) = (self.next, self.clock.now_ns());
            let side = if number.is_multiple_of(2 * RESTING) { Side::Buy } else { Side::Sell };
            let price = if side == Side::Buy { 1_000_000 } else { 2_000_000 };
            self.client.send(&limit(number, side, 100, price), now_ns).unwrap();
            if !number.is_multiple_of(RESTING) {
                self.client.send(&participant::cancel(number, Quantity(0)), now_ns).unwrap();
            }
            self.next += 1;
            if number.is_multiple_of(100) {
                self.turn();
            }
        }
        self.client.flush().unwrap();
    }
}

/// Waits until all messages were published, and returns their number.
fn published(running: &mut Running, flow: &mut Flow) -> u64 {
    let pairs = u64::from(flow.next - 1);
    let all = flow.base + 2 * pairs - pairs / u64::from(RESTING);
    let look = |(running, flow): &mut (&mut Running, &mut Flow)| {
        flow.turn();
        (messages(running) == all).then_some(all)
    };
    wait_for("the feed", &mut (running, flow), look, |(running, _)| running.status().to_string())
}

fn messages(running: &mut Running) -> u64 {
    running.status()["feed_server"]["messages"].as_u64().unwrap()
}

fn receiver(running: &Running, expected: u64) -> FeedReceiver {
    let config = FeedReceiverConfig {
        feed: FeedSource::Unicast(address(running, "market_data")),
        feed_b: None,
        requests_to: Some(address(running, "re_request")),
        expected,
        limits: ReceiverLimits::default(),
    };
    FeedReceiver::open(&config).unwrap()
}

/// Polls until the subscriber has all messages up to this one.
fn catch_up(subscriber: &mut FeedSubscriber, last: u64) {
    let clock = SystemClock::start();
    let look = |subscriber: &mut FeedSubscriber| {
        // Several turns for each check, so that the wait is for the venue and not for the test.
        for _ in 0..200 {
            subscriber.poll(clock.now_ns(), &mut |_| {}).unwrap();
        }
        let report = subscriber.report();
        let next = report.first_message.unwrap_or(1) + report.messages;
        (subscriber.is_live() && next > last).then_some(())
    };
    let state = |subscriber: &mut FeedSubscriber| format!("{:?}", subscriber.report());
    wait_for("the last message", subscriber, look, state);
}

fn assert_engine_agrees(folder: &Path, book: &FeedBook) {
    let journal = folder.join("journal");
    let (storage, mut snapshots) = (Folder::new(&journal), Folder::new(&journal));
    let mut follower = Follower::begin(&storage, &mut snapshots, u64::MAX, None).unwrap();
    while follower.poll(10_000, u64::MAX, &mut |_| {}).unwrap() > 0 {}
    assert_eq!(book_difference(follower.engine(), book), None);
}

/// A subscriber that joins after the venue has published ten times the capacity of its memory gets a snapshot, the feed
/// from the snapshot's number on, and the engine's books. One that wants all messages from the first gets them over TCP
/// from the journal, and requests for the oldest are answered as well. After a restart the session continues.
#[test]
fn a_late_subscriber_has_the_books_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let more = "store = \"1MiB\"\n\
                [snapshots]\ninputs = 150000\n\
                [throttle]\nmessages_per_second = 0\nno_effect_per_second = 0\n";
    let config = config(folder.path(), more);
    let mut running = venue::start(&config, SystemClock::start()).unwrap();
    let session = running.started()["session"].clone();
    let mut flow = Flow::start(&mut running);
    flow.trade(PAIRS);
    let before = published(&mut running, &mut flow);
    let bytes = 55 * u64::from(PAIRS - PAIRS / RESTING);
    assert!(bytes > 10 << 20, "{bytes} bytes were published");
    assert!(running.status()["feed_server"]["store_bytes"].as_u64().unwrap() <= 1 << 20);

    let clock = SystemClock::start();
    let user = login("user02", "password02");
    let snapshots = || Start::Snapshot(connect_to(address(&running, "snapshot"), user));
    let channel = FeedChannel::Datagrams(receiver(&running, 1));
    let mut late = FeedSubscriber::start(channel, snapshots(), clock.now_ns()).unwrap();
    catch_up(&mut late, before);
    flow.trade(3_000);
    let last = published(&mut running, &mut flow);
    catch_up(&mut late, last);
    let report = late.report();
    assert_eq!((report.first_message, report.messages), (Some(before + 1), last - before));
    assert!(report.snapshot_messages >= u64::from(PAIRS / RESTING), "{report:?}");
    assert_engine_agrees(folder.path(), late.book().unwrap());
    drop(late);

    let tcp = || FeedChannel::Tcp(TcpFeed::new(connect_to(address(&running, "feed_tcp"), user)));
    let mut whole: FeedSubscriber =
        FeedSubscriber::start(tcp(), Start::Message(1), clock.now_ns()).unwrap();
    catch_up(&mut whole, last);
    assert_eq!(whole.report().messages, last);
    assert_engine_agrees(folder.path(), whole.book().unwrap());
    assert!(running.status()["feed_server"]["past_pages"].as_u64().unwrap() > 10);

    let channel = FeedChannel::Datagrams(receiver(&running, 1));
    let start = Start::Message(last / 2);
    let mut requester: FeedSubscriber =
        FeedSubscriber::start(channel, start, clock.now_ns()).unwrap();
    catch_up(&mut requester, last / 2 + 5_000);
    drop((whole, requester, flow));

    running.stop().unwrap();
    let running = venue::start(&config, SystemClock::start()).unwrap();
    assert_eq!(running.started()["session"], session, "the session of the feed goes on");
    let channel = FeedChannel::Tcp(TcpFeed::new(connect_to(address(&running, "feed_tcp"), user)));
    let snapshots = Start::Snapshot(connect_to(address(&running, "snapshot"), user));
    let mut again = FeedSubscriber::start(channel, snapshots, clock.now_ns()).unwrap();
    catch_up(&mut again, last);
    assert_engine_agrees(folder.path(), again.book().unwrap());
    running.stop().unwrap();
}

/// The first message still available, from the venue's text.
fn kept_from(why: &str) -> u64 {
    let (_, rest) = why.split_once("messages before ").expect(why);
    rest.split_once(' ').expect(why).0.parse().expect(why)
}

/// Messages that the journal no longer has are unavailable: the venue says so, and names the first message available.
/// From there on it has them all.
#[test]
fn what_the_journal_no_longer_has_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let more = "store = \"1MiB\"\n\
                [snapshots]\ninputs = 20000\nold_segments = \"remove\"\n\
                [throttle]\nmessages_per_second = 0\nno_effect_per_second = 0\n";
    let mut config = config(folder.path(), more);
    config.journal.segment.0 = 1 << 20;
    let mut running = venue::start(&config, SystemClock::start()).unwrap();
    let mut flow = Flow::start(&mut running);
    // Snapshots are made while inputs arrive; the last two of them cover the first segments. The thread that makes them
    // gets enough time: inputs wait for each snapshot.
    let figure =
        |running: &mut Running, name: &str| running.status()["snapshots"][name].as_u64().unwrap();
    for made in 1..=20 {
        flow.trade(11_000);
        published(&mut running, &mut flow);
        let look = |running: &mut Running| (figure(running, "made") >= made).then_some(());
        wait_for("a snapshot", &mut running, look, |running| running.status().to_string());
        if figure(&mut running, "segments_removed") > 0 {
            break;
        }
    }
    assert!(figure(&mut running, "segments_removed") > 0, "{}", running.status());
    let last = published(&mut running, &mut flow);

    let clock = SystemClock::start();
    let user = login("user02", "password02");
    let join = |number| -> FeedSubscriber {
        let connect = connect_to(address(&running, "feed_tcp"), user);
        let channel = FeedChannel::Tcp(TcpFeed::new(connect));
        FeedSubscriber::start(channel, Start::Message(number), clock.now_ns()).unwrap()
    };
    let mut first = join(1);
    let look = |subscriber: &mut FeedSubscriber| {
        subscriber.poll(clock.now_ns(), &mut |_| {}).err().map(|error| error.to_string())
    };
    let state = |subscriber: &mut FeedSubscriber| format!("{:?}", subscriber.report());
    let why = wait_for("the reason", &mut first, look, state);
    let first_kept = kept_from(&why);
    assert!(1 < first_kept && first_kept <= last, "{why}");
    assert!(why.contains("no longer in the journal") && why.contains("snapshot"), "{why}");
    let mut rejected = join(first_kept - 1);
    let why = wait_for("the rejection", &mut rejected, look, state);
    assert!(why.contains("login rejected") && kept_from(&why) >= first_kept, "{why}");
    // Segments may still be removed while the subscriber reads: it gets the reason, and joins again.
    let mut rest = join(first_kept);
    let mut begins = first_kept;
    let look = |subscriber: &mut FeedSubscriber| {
        for _ in 0..200 {
            if let Err(error) = subscriber.poll(clock.now_ns(), &mut |_| {}) {
                let why = error.to_string();
                begins = kept_from(&why);
                *subscriber = join(begins);
            }
        }
        (begins + subscriber.report().messages > last).then_some(())
    };
    wait_for("the last message", &mut rest, look, state);
    assert_eq!(rest.report().messages, last + 1 - begins);
    running.stop().unwrap();
}
