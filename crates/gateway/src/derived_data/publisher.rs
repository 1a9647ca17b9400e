//! The agent's end: derives from the messages that the feed server takes, and publishes what is new.
//!
//! Invariant: it never waits. What a reader missed is repeated to it, a bounded part in each turn.

use std::sync::Arc;

use ring::{AtomicGauge, Producer};

use super::{DerivedData, DerivedFact, DerivedUpdate};
use crate::{BookChange, FeedBooks};

/// Levels that are repeated in a turn at most.
const REPEATED_PER_TURN: usize = 1024;

/// Derives, and publishes for a mirror outside.
pub(crate) struct DerivedPublisher {
    pub(super) data: DerivedData,
    to: Producer<DerivedUpdate>,
    /// The request of the mirror to have everything repeated; each has the next number.
    wanted: Arc<AtomicGauge>,
    /// The last one that was begun.
    request: u64,
    place: Option<Place>,
    changes: Vec<BookChange>,
    /// Number of the last message, and of the last that was published.
    number: u64,
    published: u64,
}

/// Where a repetition is.
#[derive(Clone, Copy)]
struct Place {
    stock_locate: u16,
    side: Side,
}

#[derive(Clone, Copy)]
enum Side {
    None,
    Bids { from: u32 },
    Asks { from: u32 },
}

impl DerivedPublisher {
    pub(crate) fn new(
        to: Producer<DerivedUpdate>,
        wanted: Arc<AtomicGauge>,
        trades_max: usize,
    ) -> Self {
        Self {
            data: DerivedData::new(trades_max),
            to,
            wanted,
            request: 0,
            place: None,
            changes: Vec::new(),
            number: 0,
            published: 0,
        }
    }

    /// See [`DerivedData::begin_after_trades`].
    pub(crate) fn begin_after_trades(&mut self, number: u64, now_ns: u64) {
        self.data.begin_after_trades(number, now_ns);
    }

    /// See [`DerivedData::clear_levels`].
    pub(crate) fn clear_levels(&mut self) {
        self.data.clear_levels();
    }

    /// Takes a message from before the start, after the books did: nobody reads yet.
    pub(crate) fn replay(
        &mut self,
        books: &mut FeedBooks,
        number: u64,
        message: &[u8],
        now_ns: u64,
    ) {
        self.changes.clear();
        books.apply(message, &mut |change| self.changes.push(change));
        self.data.take(number, message, &self.changes, now_ns, &mut |_| {});
        self.number = number;
    }

    /// Takes the next message, and lets the books take it.
    pub(crate) fn take(&mut self, books: &mut FeedBooks, number: u64, message: &[u8], now_ns: u64) {
        let Self { data, to, changes, published, .. } = self;
        changes.clear();
        books.take(number, message, &mut |change| changes.push(change));
        data.take(number, message, changes, now_ns, &mut |update| {
            *published = number;
            publish(to, update);
        });
        self.number = number;
    }

    /// The end of a turn. Returns how much was done.
    pub(crate) fn turn(&mut self) -> usize {
        let mut work = 0;
        if self.published < self.number {
            self.publish(DerivedFact::Held);
            self.published = self.number;
            work += 1;
        }
        let wanted = self.wanted.get();
        if wanted != self.request {
            self.request = wanted;
            self.place = Some(Place { stock_locate: 1, side: Side::None });
            self.publish(DerivedFact::Begin { request: wanted });
        }
        if let Some(place) = self.place {
            work += 1;
            self.place = self.repeat(place);
        }
        work
    }

    fn publish(&mut self, fact: DerivedFact) {
        publish(&mut self.to, DerivedUpdate { number: self.number, is_last: true, fact });
    }

    /// Repeats a part, and says where the next begins.
    fn repeat(&mut self, mut place: Place) -> Option<Place> {
        let mut room = REPEATED_PER_TURN;
        while room > 0 {
            let Place { stock_locate, side } = place;
            let Some(it) = self.data.instruments.get(usize::from(stock_locate) - 1) else {
                let (request, ordinal) = (self.request, self.data.tape);
                self.publish(DerivedFact::End { request, ordinal });
                return None;
            };
            let (is_bid, from) = match side {
                Side::None => {
                    let statistics = it.statistics;
                    self.publish(self.data.fact_of(stock_locate));
                    self.publish(DerivedFact::Statistics { stock_locate, statistics });
                    place.side = Side::Bids { from: 0 };
                    room = room.saturating_sub(2);
                    continue;
                }
                Side::Bids { from } => (true, from),
                Side::Asks { from } => (false, from),
            };
            let mut next = None;
            let Self { data, to, number, .. } = self;
            for level in data.instruments[usize::from(stock_locate) - 1].levels.from(is_bid, from) {
                if room == 0 {
                    next = Some(level.price);
                    break;
                }
                room -= 1;
                let fact = DerivedFact::Level { stock_locate, is_bid, level };
                publish(to, DerivedUpdate { number: *number, is_last: true, fact });
            }
            place = match (next, is_bid) {
                (Some(from), true) => Place { stock_locate, side: Side::Bids { from } },
                (Some(from), false) => Place { stock_locate, side: Side::Asks { from } },
                (None, true) => Place { stock_locate, side: Side::Asks { from: 0 } },
                // Locates end far below the highest.
                (None, false) => Place { stock_locate: stock_locate + 1, side: Side::None },
            };
        }
        Some(place)
    }
}

fn publish(to: &mut Producer<DerivedUpdate>, update: DerivedUpdate) {
    let published = to.try_publish(update);
    assert!(published.is_ok(), "no reader of this ring holds it up");
}
