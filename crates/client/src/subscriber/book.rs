//! Books by order, built from the ITCH feed.
//!
//! Invariant: a message that contradicts the book is an error and changes nothing silently.

use std::collections::BTreeMap;

use market::{Symbol, Text};
use thiserror::Error;
use wire::itch::{self, Message};

/// The books of all instruments, by order, as the feed tells them.
///
/// Its words are those of ITCH: orders have reference numbers and shares, instruments are stock
/// locates. Trades (`E`, `C`) count as volume; prints that touch no order (`P`, `Q`, `B`) do not
/// touch a book.
#[derive(Clone, Debug, Default)]
pub struct FeedBook {
    instruments: BTreeMap<u16, Book>,
    orders: BTreeMap<u64, Resting>,
    /// Given to each order that joins a book: time priority within a price.
    arrivals: u64,
    messages: u64,
    trades: u64,
    system_event: Option<u8>,
}

/// An instrument of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedInstrument {
    /// Its number on the feed, from 1.
    pub stock_locate: u16,
    /// Its printed name.
    pub symbol: Symbol,
    /// The last trading state published: `T` trading, `H` halted, `P` paused, `Q` quotation only;
    /// `None` before the first, which means halted.
    pub trading_state: Option<u8>,
    /// Orders in its book.
    pub order_count: usize,
    /// Shares that orders of the book executed.
    pub volume: u64,
    /// Price of the last trade, in ticks.
    pub price_last: Option<u32>,
}

/// An order in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOrder {
    /// The exchange's name for it.
    pub order_reference_number: u64,
    /// In ticks.
    pub price: u32,
    /// Shown and open; at least 1.
    pub shares: u32,
}

/// All orders of one side at one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// In ticks.
    pub price: u32,
    /// Shown and open, of all orders.
    pub shares: u64,
    /// How many orders.
    pub order_count: usize,
}

/// A message that contradicts the book or the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("feed message {stream_sequence}: {violation}")]
pub struct FeedError {
    /// Number of the message in the feed's stream.
    pub stream_sequence: u64,
    /// The contradiction.
    pub violation: FeedViolation,
}

/// How a message contradicts the book or the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FeedViolation {
    /// It is not an ITCH message.
    #[error(transparent)]
    Malformed(itch::Malformed),
    /// It names an order that is not in a book.
    #[error("order {0} is in no book")]
    UnknownOrder(u64),
    /// It adds an order under a number that is taken.
    #[error("order {0} is in a book already")]
    KnownOrder(u64),
    /// It takes more shares from an order than the order has.
    #[error("{taken} shares taken from order {reference}, which has {open}")]
    TooManyShares {
        /// The order reference number.
        reference: u64,
        /// Shares that the message takes.
        taken: u32,
        /// Shares that the order has.
        open: u32,
    },
    /// It adds, takes or leaves no shares.
    #[error("no shares for order {0}")]
    NoShares(u64),
    /// It names an order of another instrument.
    #[error("order {reference} is not one of stock locate {stock_locate}")]
    OtherInstrument {
        /// The order reference number.
        reference: u64,
        /// The message's locate.
        stock_locate: u16,
    },
    /// In continuous trading it puts an order at a price at which it would have traded.
    #[error("order {reference} at {price} crosses the best price {best} of the other side")]
    Crossed {
        /// The order reference number.
        reference: u64,
        /// Its price, in ticks.
        price: u32,
        /// The best price of the other side, in ticks.
        best: u32,
    },
    /// It names an instrument without a directory message, or by another symbol.
    #[error("stock locate {0} is not in the directory under that name")]
    UnknownInstrument(u16),
    /// It gives an instrument another symbol.
    #[error("stock locate {0} is in the directory under another name")]
    KnownInstrument(u16),
    /// It has a side that is neither buy nor sell.
    #[error("'{}' is not a side", .0.escape_ascii())]
    Side(u8),
    /// The symbol is not printable.
    #[error("stock locate {0} has an unprintable symbol")]
    Symbol(u16),
}

#[derive(Clone, Debug)]
struct Book {
    symbol: Symbol,
    trading_state: Option<u8>,
    bids: BTreeMap<Rank, u64>,
    asks: BTreeMap<Rank, u64>,
    volume: u64,
    price_last: Option<u32>,
}

/// Where an order stands on its side: better prices first, then the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// The price of an ask; what the price of a bid lacks to the highest.
    price_rank: u32,
    arrival: u64,
}

#[derive(Clone, Copy, Debug)]
struct Resting {
    stock_locate: u16,
    is_bid: bool,
    price: u32,
    shares: u32,
    arrival: u64,
}

impl Resting {
    fn rank(&self) -> Rank {
        let price_rank = if self.is_bid { u32::MAX - self.price } else { self.price };
        Rank { price_rank, arrival: self.arrival }
    }
}

impl Book {
    fn side(&self, is_bid: bool) -> &BTreeMap<Rank, u64> {
        if is_bid { &self.bids } else { &self.asks }
    }

    fn side_mut(&mut self, is_bid: bool) -> &mut BTreeMap<Rank, u64> {
        if is_bid { &mut self.bids } else { &mut self.asks }
    }
}

impl FeedBook {
    /// No instrument, no order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next message of the feed; `stream_sequence` is its number in the stream.
    ///
    /// # Errors
    /// The message says what cannot be; the books are as before.
    pub fn apply(&mut self, stream_sequence: u64, message: &[u8]) -> Result<(), FeedError> {
        self.take(message).map_err(|violation| FeedError { stream_sequence, violation })?;
        self.messages += 1;
        Ok(())
    }

    /// The instruments, in the order of their locates.
    pub fn instruments(&self) -> impl Iterator<Item = FeedInstrument> {
        self.instruments.iter().map(|(stock_locate, book)| FeedInstrument {
            stock_locate: *stock_locate,
            symbol: book.symbol,
            trading_state: book.trading_state,
            order_count: book.bids.len() + book.asks.len(),
            volume: book.volume,
            price_last: book.price_last,
        })
    }

    /// The bids of an instrument, best first, oldest first at a price; none if it is unknown.
    pub fn bids(&self, stock_locate: u16) -> impl Iterator<Item = FeedOrder> {
        self.resting(stock_locate, true)
    }

    /// The asks of an instrument, best first, oldest first at a price; none if it is unknown.
    pub fn asks(&self, stock_locate: u16) -> impl Iterator<Item = FeedOrder> {
        self.resting(stock_locate, false)
    }

    /// The bids of an instrument by price, best first.
    pub fn bid_levels(&self, stock_locate: u16) -> impl Iterator<Item = Level> {
        levels(self.bids(stock_locate))
    }

    /// The asks of an instrument by price, best first.
    pub fn ask_levels(&self, stock_locate: u16) -> impl Iterator<Item = Level> {
        levels(self.asks(stock_locate))
    }

    /// True if the best bid of an instrument is above its best ask, which no book of a sound
    /// market is once a command is done.
    #[must_use]
    pub fn is_crossed(&self, stock_locate: u16) -> bool {
        let best = (self.bids(stock_locate).next(), self.asks(stock_locate).next());
        matches!(best, (Some(bid), Some(ask)) if bid.price > ask.price)
    }

    /// Orders in all books.
    #[must_use]
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Messages taken.
    #[must_use]
    pub fn message_count(&self) -> u64 {
        self.messages
    }

    /// Executions published (`E`, `C`): one for each trade with an order of a book.
    #[must_use]
    pub fn trade_count(&self) -> u64 {
        self.trades
    }

    /// The last system event's code: `O` `S` `Q` `M` `E` `C`.
    #[must_use]
    pub fn system_event(&self) -> Option<u8> {
        self.system_event
    }

    fn take(&mut self, message: &[u8]) -> Result<(), FeedViolation> {
        match itch::decode(message).map_err(FeedViolation::Malformed)? {
            Message::SystemEvent(event) => {
                self.system_event = Some(event.event_code);
                Ok(())
            }
            Message::StockDirectory(stock) => self.list(stock.stock_locate.get(), stock.stock),
            Message::StockTradingAction(action) => {
                self.listed(action.stock_locate.get(), Some(action.stock))?.trading_state =
                    Some(action.trading_state);
                Ok(())
            }
            Message::AddOrder(add) => self.add(
                add.order_reference_number.get(),
                add.stock_locate.get(),
                add.stock,
                add.buy_sell_indicator,
                add.shares.get(),
                add.price.get(),
            ),
            Message::AddOrderAttributed(add) => self.add(
                add.order_reference_number.get(),
                add.stock_locate.get(),
                add.stock,
                add.buy_sell_indicator,
                add.shares.get(),
                add.price.get(),
            ),
            Message::OrderExecuted(executed) => {
                let (locate, shares) =
                    (executed.stock_locate.get(), executed.executed_shares.get());
                let order = self.reduce(executed.order_reference_number.get(), locate, shares)?;
                self.trade(locate, shares, order.price);
                Ok(())
            }
            Message::OrderExecutedWithPrice(executed) => {
                let (locate, shares) =
                    (executed.stock_locate.get(), executed.executed_shares.get());
                self.reduce(executed.order_reference_number.get(), locate, shares)?;
                // Not printable: a later cross print counts these shares.
                if executed.printable == b'Y' {
                    self.trade(locate, shares, executed.execution_price.get());
                }
                Ok(())
            }
            Message::OrderCancel(cancel) => {
                let (locate, shares) = (cancel.stock_locate.get(), cancel.canceled_shares.get());
                self.reduce(cancel.order_reference_number.get(), locate, shares).map(drop)
            }
            Message::OrderDelete(delete) => {
                let reference = delete.order_reference_number.get();
                let order = self.known(reference, delete.stock_locate.get())?;
                self.remove(reference, &order);
                Ok(())
            }
            Message::OrderReplace(replace) => self.replace(
                replace.original_order_reference_number.get(),
                replace.new_order_reference_number.get(),
                replace.stock_locate.get(),
                replace.shares.get(),
                replace.price.get(),
            ),
            _ => Ok(()),
        }
    }

    fn list(&mut self, stock_locate: u16, stock: [u8; 8]) -> Result<(), FeedViolation> {
        let symbol = Text::from_bytes(stock).ok_or(FeedViolation::Symbol(stock_locate))?;
        let book = self.instruments.entry(stock_locate).or_insert_with(|| Book {
            symbol,
            trading_state: None,
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
            volume: 0,
            price_last: None,
        });
        // A directory may be repeated during the day, but a locate keeps its stock.
        if book.symbol == symbol {
            Ok(())
        } else {
            Err(FeedViolation::KnownInstrument(stock_locate))
        }
    }

    fn listed(
        &mut self,
        stock_locate: u16,
        stock: Option<[u8; 8]>,
    ) -> Result<&mut Book, FeedViolation> {
        self.instruments
            .get_mut(&stock_locate)
            .filter(|book| stock.is_none_or(|stock| *book.symbol.as_bytes() == stock))
            .ok_or(FeedViolation::UnknownInstrument(stock_locate))
    }

    fn add(
        &mut self,
        reference: u64,
        stock_locate: u16,
        stock: [u8; 8],
        side: u8,
        shares: u32,
        price: u32,
    ) -> Result<(), FeedViolation> {
        self.listed(stock_locate, Some(stock))?;
        let is_bid = match side {
            b'B' => true,
            b'S' => false,
            code => return Err(FeedViolation::Side(code)),
        };
        if self.orders.contains_key(&reference) {
            return Err(FeedViolation::KnownOrder(reference));
        }
        if shares == 0 {
            return Err(FeedViolation::NoShares(reference));
        }
        self.check_uncrossed(reference, stock_locate, is_bid, price)?;
        self.join(reference, stock_locate, is_bid, shares, price);
        Ok(())
    }

    /// Checks that an order that joins its book leaves it uncrossed, where it is traded continuously: auctions
    /// collect orders that cross.
    fn check_uncrossed(
        &self,
        reference: u64,
        stock_locate: u16,
        is_bid: bool,
        price: u32,
    ) -> Result<(), FeedViolation> {
        let book = self.instruments.get(&stock_locate);
        if book.is_none_or(|book| book.trading_state != Some(b'T')) {
            return Ok(());
        }
        let best = match is_bid {
            true => self.asks(stock_locate).next().filter(|ask| ask.price < price),
            false => self.bids(stock_locate).next().filter(|bid| bid.price > price),
        };
        match best {
            Some(best) => Err(FeedViolation::Crossed { reference, price, best: best.price }),
            None => Ok(()),
        }
    }

    fn replace(
        &mut self,
        original: u64,
        new: u64,
        stock_locate: u16,
        shares: u32,
        price: u32,
    ) -> Result<(), FeedViolation> {
        let order = self.known(original, stock_locate)?;
        if self.orders.contains_key(&new) {
            return Err(FeedViolation::KnownOrder(new));
        }
        if shares == 0 {
            return Err(FeedViolation::NoShares(new));
        }
        self.check_uncrossed(new, stock_locate, order.is_bid, price)?;
        self.remove(original, &order);
        self.join(new, stock_locate, order.is_bid, shares, price);
        Ok(())
    }

    /// Takes shares from an order, which leaves the book with its last one; gives the order as it
    /// was before.
    fn reduce(
        &mut self,
        reference: u64,
        stock_locate: u16,
        shares: u32,
    ) -> Result<Resting, FeedViolation> {
        let order = self.known(reference, stock_locate)?;
        if shares == 0 {
            return Err(FeedViolation::NoShares(reference));
        }
        let Some(left) = order.shares.checked_sub(shares) else {
            let (taken, open) = (shares, order.shares);
            return Err(FeedViolation::TooManyShares { reference, taken, open });
        };
        if left == 0 {
            self.remove(reference, &order);
        } else {
            self.orders.insert(reference, Resting { shares: left, ..order });
        }
        Ok(order)
    }

    fn known(&self, reference: u64, stock_locate: u16) -> Result<Resting, FeedViolation> {
        let order = self.orders.get(&reference).ok_or(FeedViolation::UnknownOrder(reference))?;
        if order.stock_locate == stock_locate {
            Ok(*order)
        } else {
            Err(FeedViolation::OtherInstrument { reference, stock_locate })
        }
    }

    fn join(&mut self, reference: u64, stock_locate: u16, is_bid: bool, shares: u32, price: u32) {
        self.arrivals += 1;
        let order = Resting { stock_locate, is_bid, price, shares, arrival: self.arrivals };
        self.book_of(&order).side_mut(is_bid).insert(order.rank(), reference);
        self.orders.insert(reference, order);
    }

    fn remove(&mut self, reference: u64, order: &Resting) {
        self.orders.remove(&reference);
        let named = self.book_of(order).side_mut(order.is_bid).remove(&order.rank());
        assert_eq!(named, Some(reference), "an order stands where its rank says");
    }

    fn trade(&mut self, stock_locate: u16, shares: u32, price: u32) {
        self.trades += 1;
        let book = self.instruments.get_mut(&stock_locate).expect("its order was listed");
        book.volume += u64::from(shares);
        book.price_last = Some(price);
    }

    fn book_of(&mut self, order: &Resting) -> &mut Book {
        self.instruments.get_mut(&order.stock_locate).expect("an order joins a listed book")
    }

    fn resting(&self, stock_locate: u16, is_bid: bool) -> impl Iterator<Item = FeedOrder> {
        let book = self.instruments.get(&stock_locate).into_iter();
        book.flat_map(move |book| book.side(is_bid).values()).map(|reference| {
            let order = self.orders.get(reference).expect("a book names live orders");
            let (price, shares) = (order.price, order.shares);
            FeedOrder { order_reference_number: *reference, price, shares }
        })
    }
}

fn levels(orders: impl Iterator<Item = FeedOrder>) -> impl Iterator<Item = Level> {
    let mut orders = orders.peekable();
    std::iter::from_fn(move || {
        let first = orders.next()?;
        let mut level =
            Level { price: first.price, shares: u64::from(first.shares), order_count: 1 };
        while let Some(next) = orders.next_if(|next| next.price == level.price) {
            level.shares += u64::from(next.shares);
            level.order_count += 1;
        }
        Some(level)
    })
}

#[cfg(test)]
mod tests;
