//! The day and the feed of a venue that took its orders, side by side, message by message of each book.
//!
//! Both feeds number orders their own way and mix instruments their own way. So the messages of each instrument are
//! compared apart, and orders by their place among those that joined its book. A replace is an order that leaves and
//! one that joins.
//!
//! Invariant: messages wait for their counterparts up to a bound; beyond it the comparison reports that the feeds are
//! out of step.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

use client::subscriber::{FeedBook, FeedOrder};
use market::Symbol;
use serde::Serialize;
use wire::itch::{self, Message};

use super::{
    divergences::{Divergence, Divergences},
    to_orders::DayOrders,
};

/// Messages of books that may wait for their counterparts.
pub const OUT_OF_STEP_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineName {
    Day,
    Venue,
}

/// A change of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Joins {
        is_bid: bool,
        price: u32,
        shares: u32,
    },
    /// The order that joined as the n-th loses shares, by a trade or otherwise.
    Loses {
        place: u64,
        shares: u32,
        is_trade: bool,
    },
}

impl Change {
    /// True if the books are the same after both: a trade may be a cancel.
    fn leads_to_the_same(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Loses { place, shares, .. },
                Self::Loses { place: other_place, shares: other_shares, .. },
            ) => place == other_place && shares == other_shares,
            _ => self == other,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Joins { is_bid, price, shares } => {
                let side = if is_bid { "buys" } else { "sells" };
                format!("order {side} {shares} at {}.{:04}", price / 10_000, price % 10_000)
            }
            Self::Loses { place, shares, is_trade } => {
                let how = if is_trade { "trades" } else { "loses" };
                format!("order number {place} of the book {how} {shares}")
            }
        }
    }
}

/// A change that waits for its counterpart.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    message: u64,
    change: Change,
}

/// An instrument in both feeds.
#[derive(Debug, Default)]
struct Pair {
    day: VecDeque<Waiting>,
    venue: VecDeque<Waiting>,
    /// Set once the feeds part: later messages are not compared.
    is_parted: bool,
}

/// Where the feeds part in an instrument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    pub symbol: String,
    /// The message of the day and its text; none if the day has nothing more.
    pub day: Option<(u64, String)>,
    /// Likewise of the venue.
    pub venue: Option<(u64, String)>,
    /// The last message of the instrument before it that the orders could not repeat, and why.
    pub after: Option<(u64, Divergence)>,
}

/// An instrument whose books differ at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BookDifference {
    pub symbol: String,
    pub side: &'static str,
    /// The first order that differs, from the best on, from 1.
    pub place: usize,
    /// Price and shares.
    pub day: Option<(u32, u32)>,
    pub venue: Option<(u32, u32)>,
}

/// One feed while it is read.
#[derive(Default)]
struct Line {
    books: FeedBook,
    /// Where each live order stands among all that joined its book.
    places: BTreeMap<u64, u64>,
    /// How many orders joined the books of each symbol.
    joined: BTreeMap<Symbol, u64>,
    symbols: BTreeMap<u16, Symbol>,
    /// Messages that contradict its books.
    refused: u64,
    messages: u64,
}

/// Both feeds. Read the one that [`behind`](Self::behind) names next.
pub struct DayComparison {
    /// Finds the day's orders that the venue could not have, and the reasons.
    orders: DayOrders<io::Sink>,
    day: Line,
    venue: Line,
    pairs: BTreeMap<Symbol, Pair>,
    waiting: [usize; 2],
    differences: Vec<FirstDifference>,
    /// Trades of the day that are cancels in the venue's feed.
    trades_missing: u64,
    trades_missing_shares: u64,
    /// Changes that are the same in both.
    agreed: u64,
    is_out_of_step: bool,
}

impl Default for DayComparison {
    fn default() -> Self {
        let orders = DayOrders::new(io::sink(), 1).expect("nothing is written");
        Self {
            orders,
            day: Line::default(),
            venue: Line::default(),
            pairs: BTreeMap::new(),
            waiting: [0; 2],
            differences: Vec::new(),
            trades_missing: 0,
            trades_missing_shares: 0,
            agreed: 0,
            is_out_of_step: false,
        }
    }
}

impl DayComparison {
    /// The feed whose messages are awaited: the other one has more that wait.
    #[must_use]
    pub fn behind(&self) -> LineName {
        if self.waiting[0] <= self.waiting[1] { LineName::Day } else { LineName::Venue }
    }

    /// Takes the next message of the day.
    ///
    /// # Panics
    /// The bytes are no message.
    pub fn take_day(&mut self, number: u64, bytes: &[u8]) {
        // Messages that the orders leave out do not belong to the books of the venue either.
        let left_out = |orders: &DayOrders<io::Sink>| {
            let all = orders.divergences().iter();
            all.filter(|(reason, _)| is_left_out(*reason)).map(|(_, noted)| noted.messages).sum()
        };
        let before: u64 = left_out(&self.orders);
        self.orders.take(number, bytes).expect("nothing is written");
        let replaced_by_nothing = matches!(itch::decode(bytes), Ok(Message::OrderReplace(_)));
        if left_out(&self.orders) == before {
            self.take(LineName::Day, number, bytes);
        } else if replaced_by_nothing {
            self.take_original_only(number, bytes);
        }
    }

    /// Takes the next message of the venue's feed.
    ///
    /// # Panics
    /// The bytes are no message.
    pub fn take_venue(&mut self, number: u64, bytes: &[u8]) {
        self.take(LineName::Venue, number, bytes);
    }

    /// Both feeds are over.
    pub fn end(&mut self) {
        let symbols: Vec<Symbol> = self.pairs.keys().copied().collect();
        for symbol in symbols {
            let pair = &self.pairs[&symbol];
            if !pair.is_parted && (!pair.day.is_empty() || !pair.venue.is_empty()) {
                self.part(symbol);
            }
        }
    }

    /// Where each instrument parts first.
    #[must_use]
    pub fn differences(&self) -> &[FirstDifference] {
        &self.differences
    }

    /// The messages of the day that its orders cannot repeat.
    #[must_use]
    pub fn divergences(&self) -> &Divergences {
        self.orders.divergences()
    }

    /// Changes of books that are the same in both feeds.
    #[must_use]
    pub fn agreed(&self) -> u64 {
        self.agreed
    }

    /// Trades of the day that are cancels in the venue's feed, and their shares.
    #[must_use]
    pub fn trades_missing(&self) -> (u64, u64) {
        (self.trades_missing, self.trades_missing_shares)
    }

    /// Messages read of the day and of the venue's feed.
    #[must_use]
    pub fn messages(&self) -> (u64, u64) {
        (self.orders.messages(), self.venue.messages)
    }

    /// Messages of the venue's feed that contradict its own books.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.venue.refused
    }

    /// True if more messages than allowed waited for their counterparts.
    #[must_use]
    pub fn is_out_of_step(&self) -> bool {
        self.is_out_of_step
    }

    /// The number of the day's instruments, and for each whose books differ now the first order that does.
    #[must_use]
    pub fn book_differences(&self) -> (usize, Vec<BookDifference>) {
        let symbols: BTreeSet<Symbol> = self.day.symbols.values().copied().collect();
        let (day, venue) = (self.day.locates(), self.venue.locates());
        let locates = |of: &BTreeMap<Symbol, Vec<u16>>, symbol| of.get(symbol).cloned();
        let differences = symbols.iter().filter_map(|symbol| {
            // The venue need not have an instrument without orders.
            let (day, venue) = (locates(&day, symbol), locates(&venue, symbol));
            let (day, venue) = (day.unwrap_or_default(), venue.unwrap_or_default());
            [true, false].into_iter().find_map(|is_bid| {
                let mut day = side(&self.day.books, &day, is_bid);
                let mut venue = side(&self.venue.books, &venue, is_bid);
                let mut place = 0;
                loop {
                    place += 1;
                    match (day.next(), venue.next()) {
                        (None, None) => return None,
                        (day, venue) if day == venue => {}
                        (day, venue) => {
                            let side = if is_bid { "buy" } else { "sell" };
                            let symbol = symbol.to_string();
                            return Some(BookDifference { symbol, side, place, day, venue });
                        }
                    }
                }
            })
        });
        (symbols.len(), differences.collect())
    }

    fn take(&mut self, name: LineName, number: u64, bytes: &[u8]) {
        let line = match name {
            LineName::Day => &mut self.day,
            LineName::Venue => &mut self.venue,
        };
        let (symbol, changes) = line.take(number, bytes);
        let Some(symbol) = symbol else { return };
        for change in changes.into_iter().flatten() {
            self.wait(name, symbol, Waiting { message: number, change });
        }
    }

    /// A replace whose replacement is left out: the original leaves.
    fn take_original_only(&mut self, number: u64, bytes: &[u8]) {
        let Ok(Message::OrderReplace(replace)) = itch::decode(bytes) else { return };
        let reference = replace.original_order_reference_number.get();
        let delete = [b"D", &bytes[1..11], &reference.to_be_bytes()].concat();
        let is_gone = self.orders.books().order(reference).is_none();
        if is_gone && self.day.books.order(reference).is_some() {
            self.take(LineName::Day, number, &delete);
        }
    }

    fn wait(&mut self, name: LineName, symbol: Symbol, waiting: Waiting) {
        let pair = self.pairs.entry(symbol).or_default();
        if pair.is_parted || self.is_out_of_step {
            return;
        }
        match name {
            LineName::Day => pair.day.push_back(waiting),
            LineName::Venue => pair.venue.push_back(waiting),
        }
        self.waiting[name as usize] += 1;
        self.match_pair(symbol);
        if self.waiting[0] + self.waiting[1] > OUT_OF_STEP_MAX {
            self.is_out_of_step = true;
            self.pairs
                .values_mut()
                .for_each(|pair| *pair = Pair { is_parted: true, ..Pair::default() });
            self.waiting = [0; 2];
        }
    }

    fn match_pair(&mut self, symbol: Symbol) {
        let pair = self.pairs.get_mut(&symbol).expect("it waits in it");
        let (Some(day), Some(venue)) = (pair.day.front(), pair.venue.front()) else { return };
        if !day.change.leads_to_the_same(venue.change) {
            self.part(symbol);
            return;
        }
        if let (
            Change::Loses { shares, is_trade: true, .. },
            Change::Loses { is_trade: false, .. },
        ) = (day.change, venue.change)
        {
            self.trades_missing += 1;
            self.trades_missing_shares += u64::from(shares);
        } else {
            self.agreed += 1;
        }
        pair.day.pop_front();
        pair.venue.pop_front();
        self.waiting[0] -= 1;
        self.waiting[1] -= 1;
    }

    /// The feeds of an instrument part here.
    fn part(&mut self, symbol: Symbol) {
        let pair = self.pairs.get_mut(&symbol).expect("it is compared");
        let words = |it: Option<&Waiting>| it.map(|it| (it.message, it.change.words()));
        let (day, venue) = (words(pair.day.front()), words(pair.venue.front()));
        self.waiting[0] -= pair.day.len();
        self.waiting[1] -= pair.venue.len();
        *pair = Pair { is_parted: true, ..Pair::default() };
        let locates = self.day.symbols.iter().filter(|it| *it.1 == symbol);
        let after = locates.filter_map(|it| self.orders.last_note(*it.0)).max_by_key(|it| it.0);
        let symbol = symbol.to_string();
        self.differences.push(FirstDifference { symbol, day, venue, after });
    }
}

/// True if a message with this reason changes no book of a venue that takes the orders.
const fn is_left_out(reason: Divergence) -> bool {
    match reason {
        Divergence::WouldTrade
        | Divergence::PriceLimit
        | Divergence::Symbol
        | Divergence::UnknownReference
        | Divergence::FollowsLeftOut
        | Divergence::Contradiction => true,
        // An execution without a number becomes a cancel: see `trades_missing`.
        Divergence::NumbersUsedUp
        | Divergence::HiddenExecution
        | Divergence::Cross
        | Divergence::ExecutedInCross
        | Divergence::ExecutedAtOtherPrice
        | Divergence::ExecutedOutOfTurn
        | Divergence::Stopped
        | Divergence::BrokenTrade => false,
    }
}

/// The orders of one side: price and shares, best first.
fn side<'a>(
    books: &'a FeedBook,
    locates: &'a [u16],
    is_bid: bool,
) -> Box<dyn Iterator<Item = (u32, u32)> + 'a> {
    let terms = |order: FeedOrder| (order.price, order.shares);
    match is_bid {
        true => Box::new(locates.iter().flat_map(|locate| books.bids(*locate)).map(terms)),
        false => Box::new(locates.iter().flat_map(|locate| books.asks(*locate)).map(terms)),
    }
}

impl Line {
    /// The locates of each symbol; more than one where it was listed again.
    fn locates(&self) -> BTreeMap<Symbol, Vec<u16>> {
        let mut locates: BTreeMap<Symbol, Vec<u16>> = BTreeMap::new();
        for (locate, symbol) in &self.symbols {
            locates.entry(*symbol).or_default().push(*locate);
        }
        locates.values_mut().for_each(|locates| locates.sort_unstable());
        locates
    }

    /// Takes a message; gives its instrument and the changes to its book.
    fn take(&mut self, number: u64, bytes: &[u8]) -> (Option<Symbol>, [Option<Change>; 2]) {
        const NOTHING: [Option<Change>; 2] = [None; 2];
        self.messages += 1;
        let message = itch::decode(bytes).expect("a recording has whole messages");
        let locate = message.stock_locate();
        if let Message::StockTradingAction(_) = message {
            // So the books may cross, as those of a halted instrument do.
            return (None, NOTHING);
        }
        let named = match message {
            Message::OrderDelete(it) => Some(it.order_reference_number.get()),
            Message::OrderReplace(it) => Some(it.original_order_reference_number.get()),
            _ => None,
        };
        let place = named.and_then(|reference| self.books.order(reference));
        let (is_bid, open) = place.map_or((false, 0), |place| (place.is_bid, place.order.shares));
        if self.books.apply(number, bytes).is_err() {
            self.refused += 1;
            return (None, NOTHING);
        }
        let changes = match message {
            Message::StockDirectory(listing) => {
                let symbol = Symbol::from_bytes(listing.stock).expect("the books took it");
                self.symbols.insert(locate, symbol);
                NOTHING
            }
            Message::AddOrder(add) => {
                let terms = (add.buy_sell_indicator == b'B', add.price.get(), add.shares.get());
                [Some(self.joins(locate, add.order_reference_number.get(), terms)), None]
            }
            Message::AddOrderAttributed(add) => {
                let terms = (add.buy_sell_indicator == b'B', add.price.get(), add.shares.get());
                [Some(self.joins(locate, add.order_reference_number.get(), terms)), None]
            }
            Message::OrderExecuted(it) => {
                let reference = it.order_reference_number.get();
                [self.loses(reference, it.executed_shares.get(), true), None]
            }
            Message::OrderExecutedWithPrice(it) => {
                let reference = it.order_reference_number.get();
                [self.loses(reference, it.executed_shares.get(), true), None]
            }
            Message::OrderCancel(it) => {
                let reference = it.order_reference_number.get();
                [self.loses(reference, it.canceled_shares.get(), false), None]
            }
            Message::OrderDelete(it) => {
                [self.loses(it.order_reference_number.get(), open, false), None]
            }
            Message::OrderReplace(it) => {
                let leaves = self.loses(it.original_order_reference_number.get(), open, false);
                let terms = (is_bid, it.price.get(), it.shares.get());
                let joins = self.joins(locate, it.new_order_reference_number.get(), terms);
                [leaves, Some(joins)]
            }
            _ => NOTHING,
        };
        (self.symbols.get(&locate).copied(), changes)
    }

    /// An order joined the book of an instrument: its side, price and shares.
    fn joins(
        &mut self,
        locate: u16,
        reference: u64,
        (is_bid, price, shares): (bool, u32, u32),
    ) -> Change {
        let symbol = *self.symbols.get(&locate).expect("the books took its order");
        let joined = self.joined.entry(symbol).or_default();
        *joined += 1;
        self.places.insert(reference, *joined);
        Change::Joins { is_bid, price, shares }
    }

    /// An order lost shares; with the last one it has no place any more.
    fn loses(&mut self, reference: u64, shares: u32, is_trade: bool) -> Option<Change> {
        let place = *self.places.get(&reference)?;
        if self.books.order(reference).is_none() {
            self.places.remove(&reference);
        }
        Some(Change::Loses { place, shares, is_trade })
    }
}
