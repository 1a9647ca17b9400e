//! What clients heard against what the journal says: the proof that nothing acknowledged is lost.

use std::collections::BTreeMap;

use client::subscriber::{FeedBook, RestingOrder};
use market::{Event, InstrumentId, Output, SessionId};
use wire::{itch, ouch};

/// Everything a venue ever says, derived anew from the outputs of a replay.
pub struct Derived {
    ouch: ouch::Encoder,
    itch: itch::Encoder,
    /// The reply stream of each session, message by message.
    pub replies: BTreeMap<SessionId, Vec<Digest>>,
    /// Usernames of the sessions.
    pub usernames: BTreeMap<String, SessionId>,
    /// How many messages the feed has.
    pub feed_messages: u64,
    /// The books rebuilt from the derived feed.
    pub feed_book: FeedBook,
    /// The first thing wrong with the derived feed, if any.
    pub feed_error: Option<String>,
}

/// A message, shortened to 64 bits: enough to tell that it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Of these bytes (FNV-1a).
    #[must_use]
    pub fn of(message: &[u8]) -> Self {
        let hash = message.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }
}

impl Default for Derived {
    fn default() -> Self {
        Self::new()
    }
}

impl Derived {
    /// Before the first output.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ouch: ouch::Encoder::new(),
            itch: itch::Encoder::new(),
            replies: BTreeMap::new(),
            usernames: BTreeMap::new(),
            feed_messages: 0,
            feed_book: FeedBook::new(),
            feed_error: None,
        }
    }

    /// Takes up the next output.
    pub fn output(&mut self, output: &Output) {
        if let Event::SessionAdded(added) = &output.event {
            self.usernames.insert(added.username.as_str().to_owned(), added.session_id);
            self.replies.insert(added.session_id, Vec::new());
        }
        let replies = &mut self.replies;
        self.ouch.encode(output, &mut |recipient, message| match recipient {
            ouch::Recipient::One(session_id) => {
                replies.entry(session_id).or_default().push(Digest::of(message));
            }
            ouch::Recipient::All => {
                replies.values_mut().for_each(|stream| stream.push(Digest::of(message)));
            }
        });
        let (book, messages, error) =
            (&mut self.feed_book, &mut self.feed_messages, &mut self.feed_error);
        self.itch.encode(output, &mut |message| {
            *messages += 1;
            if let Err(wrong) = book.apply(*messages, message) {
                error.get_or_insert_with(|| wrong.to_string());
            }
        });
    }

    /// The replies of a user, as digests.
    #[must_use]
    pub fn replies_of(&self, username: &str) -> &[Digest] {
        self.usernames
            .get(&username.to_ascii_uppercase())
            .and_then(|session_id| self.replies.get(session_id))
            .map_or(&[], Vec::as_slice)
    }
}

/// How many of the messages someone heard, each with its number from 1, are not in the derived
/// stream at that number, byte for byte.
#[must_use]
pub fn lost(heard: impl IntoIterator<Item = (u64, Digest)>, derived: &[Digest]) -> u64 {
    let is_there = |(number, digest): (u64, Digest)| {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| derived.get(index)) == Some(&digest)
    };
    heard.into_iter().filter(|message| !is_there(*message)).count() as u64
}

/// The first difference between the displayed orders of the engine's books and books rebuilt from a feed, order by order
/// in priority; `None` if they are equal.
#[must_use]
pub fn book_difference(engine: &engine::Engine, feed: &FeedBook) -> Option<String> {
    for instrument in engine.instruments() {
        let id: InstrumentId = instrument.instrument_id;
        let book = engine.book(id).expect("each instrument has a book");
        for is_bid in [true, false] {
            let ours: Vec<(u64, u64, u64)> = if is_bid {
                book.bids().filter_map(displayed).collect()
            } else {
                book.asks().filter_map(displayed).collect()
            };
            let theirs: Vec<(u64, u64, u64)> = if is_bid {
                feed.bids(id.0).map(feed_order).collect()
            } else {
                feed.asks(id.0).map(feed_order).collect()
            };
            if ours != theirs {
                let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
                return Some(format!(
                    "{} {}: at place {at} the engine has {:?}, the feed {:?} (order, price, leaves)",
                    instrument.symbol,
                    if is_bid { "bids" } else { "asks" },
                    ours.get(at),
                    theirs.get(at),
                ));
            }
        }
    }
    None
}

/// An order as the feed tells it, if it does.
fn displayed(order: engine::RestingOrder) -> Option<(u64, u64, u64)> {
    let is_displayed = order.display.is_displayed();
    is_displayed.then_some((order.order_id.0, order.price.0, order.shown.0))
}

fn feed_order(order: RestingOrder) -> (u64, u64, u64) {
    (order.order_reference_number, u64::from(order.price), u64::from(order.shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that is missing, or differs, is lost; one that was never heard is not.
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
