//! The agent's end: derives from the messages that the feed server takes, and publishes the new facts.
//!
//! Invariant: the publisher never waits. Updates that a reader missed are repeated to that reader only, a bounded part
//! in each turn.

use std::sync::Arc;

use ring::{AtomicGauge, Producer};

use super::{DerivedData, DerivedFact, DerivedUpdate};
use crate::{BookChange, FeedBooks};

/// The most levels repeated in a turn.
const REPEATED_PER_TURN: usize = 1024;

/// Derives, and publishes for mirrors on other threads.
pub(crate) struct DerivedPublisher {
    pub(super) data: DerivedData,
    outlets: Vec<Outlet>,
    changes: Vec<BookChange>,
    /// Number of the last message, and of the last that was published.
    number: u64,
    published: u64,
}

/// The ring to one mirror.
struct Outlet {
    to: Producer<DerivedUpdate>,
    /// The request of the mirror to have everything repeated; each has the next number.
    wanted: Arc<AtomicGauge>,
    /// The last request whose repetition was begun.
    request: u64,
    place: Option<Place>,
}

/// The next part of a repetition.
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
    pub(crate) fn new() -> Self {
        let data = DerivedData::new(0);
        Self { data, outlets: Vec::new(), changes: Vec::new(), number: 0, published: 0 }
    }

    /// Publishes in this ring too, for a mirror that keeps that many trades.
    pub(crate) fn add(
        &mut self,
        to: Producer<DerivedUpdate>,
        wanted: Arc<AtomicGauge>,
        trades_max: usize,
    ) {
        self.data.trades_max = self.data.trades_max.max(trades_max);
        self.outlets.push(Outlet { to, wanted, request: 0, place: None });
    }

    /// See [`DerivedData::begin_after_trades`].
    pub(crate) fn begin_after_trades(&mut self, number: u64, now_ns: u64) {
        self.data.begin_after_trades(number, now_ns);
    }

    /// See [`DerivedData::clear_levels`].
    pub(crate) fn clear_levels(&mut self) {
        self.data.clear_levels();
    }

    /// Takes a message from before the start, after the books did: no mirror reads yet.
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
        let Self { data, outlets, changes, published, .. } = self;
        changes.clear();
        books.take(number, message, &mut |change| changes.push(change));
        data.take(number, message, changes, now_ns, &mut |update| {
            *published = number;
            outlets.iter_mut().for_each(|outlet| publish(&mut outlet.to, update));
        });
        self.number = number;
    }

    /// Ends a turn. Returns the amount of work done.
    pub(crate) fn turn(&mut self) -> usize {
        let mut work = 0;
        let Self { data, outlets, number, published, .. } = self;
        let is_behind = *published < *number;
        *published = *number;
        for outlet in outlets {
            if is_behind {
                outlet.publish(*number, DerivedFact::Held);
                work += 1;
            }
            let wanted = outlet.wanted.get();
            if wanted != outlet.request {
                outlet.request = wanted;
                outlet.place = Some(Place { stock_locate: 1, side: Side::None });
                outlet.publish(*number, DerivedFact::Begin { request: wanted });
            }
            if let Some(place) = outlet.place {
                work += 1;
                outlet.place = outlet.repeat(data, *number, place);
            }
        }
        work
    }
}

impl Outlet {
    fn publish(&mut self, number: u64, fact: DerivedFact) {
        publish(&mut self.to, DerivedUpdate { number, is_last: true, fact });
    }

    /// Repeats a part, and returns the place of the next.
    fn repeat(&mut self, data: &DerivedData, number: u64, mut place: Place) -> Option<Place> {
        let mut room = REPEATED_PER_TURN;
        while room > 0 {
            let Place { stock_locate, side } = place;
            let Some(it) = data.instruments.get(usize::from(stock_locate) - 1) else {
                let (request, ordinal) = (self.request, data.tape);
                self.publish(number, DerivedFact::End { request, ordinal });
                return None;
            };
            let (is_bid, from) = match side {
                Side::None => {
                    let statistics = it.statistics;
                    self.publish(number, data.fact_of(stock_locate));
                    self.publish(number, DerivedFact::Statistics { stock_locate, statistics });
                    place.side = Side::Bids { from: 0 };
                    room = room.saturating_sub(2);
                    continue;
                }
                Side::Bids { from } => (true, from),
                Side::Asks { from } => (false, from),
            };
            let mut next = None;
            for level in it.levels.from(is_bid, from) {
                if room == 0 {
                    next = Some(level.price);
                    break;
                }
                room -= 1;
                let fact = DerivedFact::Level { stock_locate, is_bid, level };
                self.publish(number, fact);
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
