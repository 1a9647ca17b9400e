//! Services for subscribers beside the feed itself: lost messages again (MoldUDP64), the current books (GLIMPSE over
//! SoupBinTCP), and the whole feed over TCP for subscribers without multicast.
//!
//! Invariant: its copy of the books has exactly the messages before the next one; whatever subscribers
//! do, it takes the messages of the feed, so that it never holds the venue up for longer than a turn.

mod books;
mod door;
mod past;

use std::{net::SocketAddr, sync::Arc};

use ring::{Agent, AgentError, AtomicGauge, Consumer, Flow, Producer};
use wire::{moldudp64, soupbintcp::Timers};

use self::{
    door::{Door, Service},
    past::Past,
};
use crate::{
    Credentials, DatagramNetwork, DerivedUpdate, FeedMessage, FeedServerCounters, PasswordAsker,
    ReplayStore, StreamNetwork,
    derived_data::DerivedPublisher,
    looks::Looks,
    message_archive::MessageArchive,
    packets::{PACKET_BYTES_MAX, Packets},
    replay_store::Missing,
    requesters::{RequestLimits, Requesters},
    stream_filter::{StreamIndex, StreamOptions},
};

pub use books::{BookChange, BookChangeKind, FeedBooks};
pub use door::SUBSCRIBERS_MAX;
pub use past::{PastAnswer, PastEnds, PastRange, past_rings};

/// Messages taken from the ring in one turn.
const MESSAGES_PER_TURN: usize = 4096;
/// Batches of requests received in one turn.
const REQUEST_BATCHES_PER_TURN: usize = 2;
/// Requests answered in one turn; further ones are not answered, and come again.
const ANSWERS_PER_TURN: usize = 64;
/// The longest wait of subscribers while messages of the feed come in every turn: each look at their sockets is a
/// system call, which the venue would pay where it shares the thread.
const SERVED_NS: u64 = 100_000;
/// The longest wait of subscribers otherwise.
const LOOKED_NS: u64 = 20_000;
/// The stream of the feed in its store.
const FEED: usize = 0;

/// Settings of [`FeedServer`].
#[derive(Clone, Debug)]
pub struct FeedServerOptions {
    /// Name of the session: 10 decimal digits, that of the feed.
    pub session: [u8; 10],
    /// The users that may log in; each name once.
    pub users: Vec<Credentials>,
    /// Heartbeats and timeouts of the session protocol.
    pub timers: Timers,
    /// How long a subscriber may take nothing while messages wait for it.
    pub slow_client_timeout_ns: u64,
    /// Memory for messages that may be requested again, index included; at most 2 GiB.
    pub store_bytes_max: usize,
    /// Which requests are answered.
    pub requests: RequestLimits,
    /// The delta streams, which are served beside the feed.
    pub streams: Vec<StreamOptions>,
}

/// The networks of a [`FeedServer`].
#[derive(Default)]
pub struct FeedServerNetworks<N, D> {
    /// Requests for lost messages.
    pub requests: D,
    /// Logins for a snapshot.
    pub snapshot: N,
    /// Logins for the feed over TCP.
    pub stream: N,
}

/// The agent that serves subscribers that join late or lost messages.
///
/// It takes each message of the feed from the market data agent, keeps the newest in memory and the books up to date.
/// It requests older messages from a reader of the journal, and answers when they have come.
pub struct FeedServer<N, D> {
    options: FeedServerOptions,
    messages: Consumer<FeedMessage>,
    stored: Stored,
    requests: D,
    snapshot: Door<N>,
    stream: Door<N>,
    packets: Packets,
    /// The packets of each delta stream.
    stream_packets: Vec<Packets>,
    requesters: Requesters,
    /// Re-requests of this turn.
    asked: Vec<Asked>,
    /// Decides when to look at the sockets.
    looks: Looks,
    /// The time at which subscribers were last served, and whether messages came since.
    served_ns: u64,
    has_news: bool,
    counters: Arc<FeedServerCounters>,
}

/// A re-request.
struct Asked {
    from: SocketAddr,
    /// `None` for the feed.
    stream: Option<usize>,
    first: u64,
    count: u16,
}

/// The messages and the books.
pub(crate) struct Stored {
    recent: ReplayStore,
    streams: Vec<StreamIndex>,
    past: Past,
    books: FeedBooks,
    /// The data derived from the books, where configured.
    derived: Option<DerivedPublisher>,
}

impl Stored {
    fn push(&mut self, number: u64, message: &[u8], now_ns: u64) {
        let stored = self.recent.push(FEED, message);
        assert!(stored == number, "message {number} of the feed comes as number {stored}");
        match &mut self.derived {
            Some(derived) => derived.take(&mut self.books, number, message, now_ns),
            None => self.books.take(number, message, &mut |_| {}),
        }
        let kept = self.recent.first(FEED);
        self.streams.iter_mut().for_each(|stream| stream.take(number, message, kept));
    }

    /// The stream of a session, `None` in it for the whole feed.
    fn session_of(&self, name: &[u8], feed: &[u8; 10]) -> Option<Option<usize>> {
        if name == feed.trim_ascii() {
            return Some(None);
        }
        self.streams.iter().position(|stream| name == stream.session).map(Some)
    }

    /// True if a stream has messages like this one; the feed has all.
    fn has(&self, stream: Option<usize>, message: &[u8]) -> bool {
        stream.is_none_or(|stream| self.streams[stream].filter.has(message))
    }

    /// Number of the next message of a stream, or of the feed.
    fn next_of(&self, stream: Option<usize>) -> u64 {
        stream.map_or(self.next(), |stream| self.streams[stream].next())
    }

    /// The messages of a stream, or of the feed, before this one are unavailable.
    fn first_kept_of(&self, stream: Option<usize>) -> u64 {
        stream.map_or(self.first_kept(), |stream| self.streams[stream].first())
    }

    /// A message of a stream, or of the feed.
    fn get_of(&self, stream: Option<usize>, number: u64) -> Result<&[u8], Missing> {
        let Some(stream) = stream else { return self.get(number) };
        let index = &self.streams[stream];
        match index.in_feed(number) {
            Some(number) => self.recent.get(FEED, number),
            None if number < index.first() => Err(Missing::Dropped(index.first())),
            None => Err(Missing::Future(index.next())),
        }
    }

    /// Has an older message of the feed read; those of a stream are in memory or unavailable.
    fn want_of(&mut self, stream: Option<usize>, number: u64) {
        if stream.is_none() {
            self.want(number);
        }
    }

    /// Number of the next message.
    fn next(&self) -> u64 {
        self.recent.next(FEED)
    }

    /// The messages before this one are unavailable; later ones may be too.
    fn first_kept(&self) -> u64 {
        self.past.first_kept().min(self.recent.first(FEED))
    }

    /// A message, from memory or a page of older ones.
    fn get(&self, number: u64) -> Result<&[u8], Missing> {
        match self.recent.get(FEED, number) {
            Err(Missing::Dropped(first)) => self.past.get(number).ok_or(Missing::Dropped(first)),
            found => found,
        }
    }

    /// Requests an older message from the journal's reader, or notes its use.
    fn want(&mut self, number: u64) {
        if number < self.recent.first(FEED) {
            self.past.want(number);
        }
    }
}

impl<N: StreamNetwork, D: DatagramNetwork> FeedServer<N, D> {
    /// Takes the feed from `messages`; `past` are the ends of [`past_rings`] on this side.
    pub fn new(
        networks: FeedServerNetworks<N, D>,
        options: FeedServerOptions,
        messages: Consumer<FeedMessage>,
        past: (Producer<PastRange>, Consumer<PastAnswer>),
    ) -> Self {
        let users = options.users.len();
        let packets = |session| Packets::new(session, PACKET_BYTES_MAX);
        let streams = options.streams.iter().cloned().map(StreamIndex::new).collect();
        Self {
            messages,
            stored: Stored {
                recent: ReplayStore::new(1, options.store_bytes_max),
                past: Past::new(past),
                streams,
                books: FeedBooks::new(),
                derived: None,
            },
            requests: networks.requests,
            snapshot: Door::new(networks.snapshot, Service::Snapshot, users),
            stream: Door::new(networks.stream, Service::Stream, users),
            packets: packets(options.session),
            stream_packets: options.streams.iter().map(|it| packets(it.session)).collect(),
            requesters: Requesters::new(options.requests.clone()),
            asked: Vec::with_capacity(ANSWERS_PER_TURN),
            looks: Looks::new(LOOKED_NS),
            served_ns: 0,
            has_news: false,
            counters: Arc::default(),
            options,
        }
    }

    /// Its counters; any thread may read them.
    #[must_use]
    pub fn counters(&self) -> Arc<FeedServerCounters> {
        Arc::clone(&self.counters)
    }

    /// Has passwords of snapshots and streams compared with hashes by the other ends, before the first turn.
    pub fn check_passwords_by(&mut self, [snapshot, stream]: [PasswordAsker; 2]) {
        self.snapshot.check_passwords_by(snapshot);
        self.stream.check_passwords_by(stream);
    }

    /// Derives levels, trades and statistics too, before anything else, and publishes them in `to`, from which only the
    /// mirror reads. `wanted` carries the mirror's requests to have everything repeated. To be called once for each
    /// mirror.
    pub fn derive(
        &mut self,
        to: Producer<DerivedUpdate>,
        wanted: Arc<AtomicGauge>,
        trades_max: usize,
    ) {
        let derived = self.stored.derived.get_or_insert_with(DerivedPublisher::new);
        derived.add(to, wanted, trades_max);
    }

    /// Builds the books that a snapshot of the venue leads to, where data is derived from those: `state` calls its
    /// argument with messages that lead to them.
    pub fn restore_books(&mut self, now_ns: u64, state: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let next = self.stored.next();
        let Stored { books, derived: Some(derived), .. } = &mut self.stored else { return };
        derived.begin_after_trades(next, now_ns);
        *books = FeedBooks::loading();
        state(&mut |message| derived.replay(books, next - 1, message, now_ns));
        books.begin_at(next);
    }

    /// Takes up the newest messages before a snapshot of the venue, before anything else.
    pub fn restore(&mut self, archive: &MessageArchive) {
        archive.copy_feed(&mut self.stored.recent, FEED);
    }

    /// Keeps a message of a replayed journal, from the moment `now_ns`. Its effect on the books comes with
    /// [`begin`](Self::begin).
    pub fn replay(&mut self, number: u64, message: &[u8], now_ns: u64) {
        let Stored { recent, books, derived, .. } = &mut self.stored;
        let stored = recent.push(FEED, message);
        assert!(stored == number, "message {number} of the feed comes as number {stored}");
        if let Some(derived) = derived {
            derived.replay(books, number, message, now_ns);
        }
    }

    /// Builds the books after all messages so far, from messages that lead to them: `state` calls its
    /// argument with each.
    pub fn begin(&mut self, now_ns: u64, state: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        self.stored.books = FeedBooks::loading();
        let next = self.stored.next();
        let Stored { books, streams, derived, .. } = &mut self.stored;
        if let Some(derived) = derived {
            // Trades and statistics stay.
            derived.clear_levels();
        }
        state(&mut |message| {
            match derived {
                Some(derived) => derived.replay(books, next - 1, message, now_ns),
                None => books.apply(message, &mut |_| {}),
            }
            for stream in streams.iter_mut() {
                stream.filter.takes(message);
            }
        });
        self.stored.books.begin_at(self.stored.next());
        self.count_stored();
    }

    fn take_messages(&mut self, now_ns: u64) -> usize {
        let Self { messages, stored, .. } = self;
        let count = messages.poll(MESSAGES_PER_TURN, |message, _end_of_batch| {
            stored.push(message.number, message.as_bytes(), now_ns);
            Flow::Continue
        });
        if count > 0 {
            self.count_stored();
        }
        count
    }

    fn count_stored(&self) {
        self.counters.messages.set(self.stored.next() - 1);
        self.counters.store_bytes.set(self.stored.recent.bytes() as u64);
        self.counters.orders.set(self.stored.books.order_count());
    }

    fn take_requests(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let Self { requests, asked, options, counters, requesters, stored, .. } = self;
        let mut work = 0;
        for _ in 0..REQUEST_BATCHES_PER_TURN {
            let count = requests
                .receive(&mut |from, datagram| {
                    counters.requests.add(1);
                    let Ok(request) = moldudp64::Request::parse(datagram) else {
                        return counters.requests_unanswered.add(1);
                    };
                    match stored.session_of(&request.session, &options.session) {
                        Some(stream) if asked.len() < ANSWERS_PER_TURN => {
                            let (first, count) = (request.sequence_number, request.count);
                            match requesters.may_ask(from, now_ns) {
                                true => asked.push(Asked { from, stream, first, count }),
                                false => counters.requests_refused.add(1),
                            }
                        }
                        _ => counters.requests_unanswered.add(1),
                    }
                })
                .map_err(requests_failed)?;
            let too_long = requests.too_long().len() as u64;
            counters.requests.add(too_long);
            counters.requests_unanswered.add(too_long);
            if count == 0 {
                break;
            }
            work += count;
        }
        counters.requesters_kept.set(requesters.kept() as u64);
        Ok(work)
    }

    fn answer_requests(&mut self) -> Result<(), AgentError> {
        let Self { asked, stored, packets, stream_packets, requests, counters, .. } = self;
        for Asked { from, stream, first, count } in asked.drain(..) {
            if count > 0 {
                stored.want_of(stream, first);
            }
            let packets = match stream {
                Some(stream) => &mut stream_packets[stream],
                None => &mut *packets,
            };
            let answered = match packets.fill(first, count, |number| stored.get_of(stream, number))
            {
                Ok((_, packet)) => requests.send(from, packet).map_err(requests_failed)?,
                Err(_) => false,
            };
            let counter = match answered {
                true => &counters.requests_answered,
                false => &counters.requests_unanswered,
            };
            counter.add(1);
        }
        requests.flush().map_err(requests_failed)
    }
}

impl<N, D> Agent for FeedServer<N, D>
where
    N: StreamNetwork + Send + 'static,
    D: DatagramNetwork + Send + 'static,
{
    fn name(&self) -> &str {
        "feed server"
    }

    fn note_busy(&mut self, is_busy: bool) {
        self.looks.note_busy(is_busy);
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut taken = self.take_messages(now_ns);
        self.has_news |= taken > 0;
        if let Some(derived) = &mut self.stored.derived {
            taken += derived.turn();
        }
        let is_soon = taken > 0 && now_ns.saturating_sub(self.served_ns) < SERVED_NS;
        if !self.looks.is_due(now_ns) || is_soon {
            return Ok(taken);
        }
        self.served_ns = now_ns;
        let has_news = std::mem::take(&mut self.has_news);
        let mut work = taken + self.stored.past.poll(self.stored.next(), &self.counters);
        work += self.take_requests(now_ns)?;
        self.answer_requests()?;
        let Self { options, stored, counters, snapshot, stream, .. } = self;
        for door in [snapshot, stream] {
            work += door.turn(options, stored, counters, has_news, now_ns)?;
        }
        counters.connections.set((self.snapshot.open() + self.stream.open()) as u64);
        counters.stalled.set((self.snapshot.stalled() + self.stream.stalled()) as u64);
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        false
    }

    fn close(&mut self) {
        self.snapshot.close();
        self.stream.close();
    }
}

fn requests_failed(error: std::io::Error) -> AgentError {
    format!("the request socket failed: {error}").into()
}
