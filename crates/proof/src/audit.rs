//! Compares the messages that clients received with the journal: the proof that no acknowledged message is lost.

use client::subscriber::{FeedBook, FeedOrder};
use gateway::{FeedStream, MessageStore, ReplyStreams};
use market::{InstrumentId, Output};

/// All replies and the whole feed of a venue, derived from a replay's outputs.
pub struct Derived {
    replies: ReplyStreams<Digests>,
    feed: FeedStream<DerivedFeed>,
}

/// The messages of each stream, as digests.
#[derive(Default)]
struct Digests(Vec<Vec<Digest>>);

/// The books that a subscriber builds from the feed.
struct DerivedFeed {
    book: FeedBook,
    messages: u64,
    error: Option<String>,
}

impl MessageStore for Digests {
    fn ensure_stream(&mut self, stream: usize) {
        self.0.resize_with(self.0.len().max(stream + 1), Vec::new);
    }

    fn push(&mut self, stream: usize, message: &[u8]) {
        self.0[stream].push(Digest::of(message));
    }
}

impl MessageStore for DerivedFeed {
    fn ensure_stream(&mut self, _stream: usize) {}

    fn push(&mut self, _stream: usize, message: &[u8]) {
        self.messages += 1;
        if let Err(wrong) = self.book.apply(self.messages, message) {
            self.error.get_or_insert_with(|| wrong.to_string());
        }
    }
}

/// A message's 64-bit hash (FNV-1a), which is enough to distinguish messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    pub fn of(message: &[u8]) -> Self {
        let hash = message.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl Default for Derived {
    fn default() -> Self {
        Self::new()
    }
}

impl Derived {
    pub fn new() -> Self {
        let feed = DerivedFeed { book: FeedBook::new(), messages: 0, error: None };
        Self { replies: ReplyStreams::of_all(Digests::default()), feed: FeedStream::new(feed) }
    }

    pub fn output(&mut self, output: &Output) {
        self.replies.take(output);
        self.feed.take(output);
    }

    /// The replies to a user, in any case, as digests; none for a user without a session.
    pub fn replies_of(&self, username: &str) -> &[Digest] {
        let is_theirs = |name: &str| name.eq_ignore_ascii_case(username);
        let mut sessions = self.replies.sessions();
        let session = sessions.find(|(_, name)| is_theirs(name.as_str()));
        let stream = session.and_then(|(session_id, _)| self.replies.stream(session_id));
        stream.map_or(&[], |stream| &self.replies.store().0[stream])
    }

    /// The number of messages of the feed.
    pub fn feed_messages(&self) -> u64 {
        self.feed.store().messages
    }

    /// The first message of the feed that does not fit the books built from those before it.
    pub fn feed_error(&self) -> Option<&str> {
        self.feed.store().error.as_deref()
    }
}

/// The number of a client's received messages, each with its number from 1, that are not in the derived
/// stream at that number, byte for byte.
pub fn lost(received: impl IntoIterator<Item = (u64, Digest)>, derived: &[Digest]) -> u64 {
    let is_there = |(number, digest): (u64, Digest)| {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| derived.get(index)) == Some(&digest)
    };
    received.into_iter().filter(|message| !is_there(*message)).count() as u64
}

/// The first difference between the displayed orders of the engine's books and books rebuilt from a feed, order by order
/// in priority; `None` if they are equal.
pub fn book_difference(engine: &engine::Engine, feed: &FeedBook) -> Option<String> {
    for instrument in engine.instruments() {
        let id: InstrumentId = instrument.instrument_id;
        let book = engine.book(id).expect("each instrument has a book");
        let [bids, asks]: [Vec<_>; 2] = [
            book.bids().filter_map(displayed).collect(),
            book.asks().filter_map(displayed).collect(),
        ];
        let [feed_bids, feed_asks]: [Vec<_>; 2] =
            [feed.bids(id.0).map(feed_order).collect(), feed.asks(id.0).map(feed_order).collect()];
        for (side, ours, theirs) in [("bids", bids, feed_bids), ("asks", asks, feed_asks)] {
            if ours != theirs {
                let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
                return Some(format!(
                    "{} {side}: at place {at} the engine has {:?}, the feed {:?} (order, price, leaves)",
                    instrument.symbol,
                    ours.get(at),
                    theirs.get(at),
                ));
            }
        }
    }
    None
}

/// An order as the feed shows it, if displayed: ITCH has 32 bits for its lots.
fn displayed(order: engine::RestingOrder) -> Option<(u64, u64, u64)> {
    let is_displayed = order.display.is_displayed();
    let shown = order.shown.0.min(u32::MAX.into());
    is_displayed.then_some((order.order_id.0, order.price.0, shown))
}

fn feed_order(order: FeedOrder) -> (u64, u64, u64) {
    (order.order_reference_number, u64::from(order.price), u64::from(order.shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A received message that is missing in the stream, or differs, is lost; a message never received is not.
    #[test]
    fn lost_counts_what_was_heard_and_is_not_there() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|message| Digest::of(message));
        let stream = [a, b, c];
        assert_eq!(lost([(1, a), (2, b)], &stream), 0);
        assert_eq!(lost([(3, c)], &stream), 0);
        assert_eq!(lost([(1, a), (2, b), (3, c)], &stream[..1]), 2);
        assert_eq!(lost([(1, a), (2, c), (0, a)], &stream), 2);
    }
}
