//! The subscriber of the demo: a thread that follows the feed and rebuilds the books.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use client::subscriber::{FeedBook, FeedReceiver, FeedReceiverConfig, FeedReceiverReport};
use wire::moldudp64::ReceiverLimits;

use super::super::{
    feed::source,
    output::{grouped, price},
};
use venue::{clock::SystemClock, failure::Failure};

const PAUSE: Duration = Duration::from_micros(500);

/// A subscriber of the feed on a thread of its own.
pub struct Subscriber {
    state: Arc<Mutex<FeedState>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Its state so far.
#[derive(Default)]
pub struct FeedState {
    /// The books rebuilt.
    pub book: FeedBook,
    /// The first error.
    pub error: Option<String>,
    /// Its counters.
    pub report: FeedReceiverReport,
}

impl Subscriber {
    /// Joins the feed from its first message on.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn start(
        feed: SocketAddr,
        re_request: SocketAddr,
        clock: SystemClock,
    ) -> Result<Self, Failure> {
        let config = FeedReceiverConfig {
            feed: source(feed, Ipv4Addr::LOCALHOST)?,
            feed_b: None,
            requests_to: Some(re_request),
            expected: 1,
            limits: ReceiverLimits::default(),
        };
        let mut receiver = FeedReceiver::open(&config)
            .map_err(|error| Failure::environment(anyhow::Error::new(error).context("feed")))?;
        let state = Arc::new(Mutex::new(FeedState::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if listen(&mut receiver, &state, clock) == 0 {
                        thread::sleep(PAUSE);
                    }
                }
            })
        };
        Ok(Self { state, stop, thread })
    }

    /// The best bid and ask of the first instrument.
    pub fn top_of_book(&self) -> String {
        let received = self.state.lock().expect("the listener does not panic");
        let Some(instrument) = received.book.instruments().next() else { return "-".into() };
        let locate = instrument.stock_locate;
        let side = |level: Option<client::subscriber::Level>| {
            level.map_or("-".into(), |level| {
                format!("{}×{}", grouped(level.shares), price(level.price.into()))
            })
        };
        format!(
            "{} {} | {}",
            instrument.symbol,
            side(received.book.bid_levels(locate).next()),
            side(received.book.ask_levels(locate).next())
        )
    }

    /// Waits until this many messages were received; false at the time limit.
    pub fn catch_up(&self, messages: u64, at_most: Duration) -> bool {
        let pause = Duration::from_millis(10);
        for _ in 0..at_most.as_millis() / pause.as_millis() {
            let received = self.state.lock().expect("the listener does not panic");
            if received.error.is_some() || received.book.message_count() >= messages {
                return received.book.message_count() == messages;
            }
            drop(received);
            thread::sleep(pause);
        }
        false
    }

    /// Stops the thread, and returns its state.
    pub fn stop(self) -> FeedState {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the listener does not panic");
        std::mem::take(&mut *self.state.lock().expect("the listener does not panic"))
    }
}

/// One turn; returns the number of messages received.
fn listen(receiver: &mut FeedReceiver, state: &Mutex<FeedState>, clock: SystemClock) -> usize {
    let mut received = state.lock().expect("no thread panics while it holds the lock");
    let FeedState { book, error, report } = &mut *received;
    let polled = receiver.poll(clock.now_ns(), &mut |number, message| {
        if let Err(wrong) = book.apply(number, message) {
            error.get_or_insert_with(|| wrong.to_string());
        }
    });
    *report = receiver.report();
    match polled {
        Ok(delivered) => delivered,
        Err(wrong) => {
            error.get_or_insert_with(|| wrong.to_string());
            0
        }
    }
}
