//! Books by order, built from the ITCH feed.
//!
//! Invariant: a message that contradicts the book is an error and changes nothing silently.

mod index;
mod ladder;
mod queues;

use market::{Symbol, Text};
use thiserror::Error;
use wire::itch::{self, Message};

use self::{
    ladder::Ladder,
    queues::{Queues, Resting, rank_of},
};

/// The books of all instruments, by order, rebuilt from the feed.
///
/// The terms are those of ITCH: orders have reference numbers and shares, instruments are stock locates. Trades (`E`,
/// `C`) count as volume; trade messages without an order of the book (`P`, `Q`, `B`) do not change a book.
#[derive(Clone, Debug, Default)]
pub struct FeedBook {
    /// The books by stock locate.
    instruments: Vec<Option<Box<Book>>>,
    orders: Queues,
    messages: u64,
    trades: u64,
    system_event: Option<u8>,
}

/// An instrument of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedInstrument {
    /// The number of the instrument on the feed, from 1.
    pub stock_locate: u16,
    /// The symbol.
    pub symbol: Symbol,
    /// The last trading state published: `T` trading, `H` halted, `P` paused, `Q` quotation only;
    /// `None` before the first, which means halted.
    pub trading_state: Option<u8>,
    /// The number of orders in the book.
    pub order_count: usize,
    /// Executed shares of orders of the book.
    pub volume: u64,
    /// Price of the last trade, in ticks.
    pub price_last: Option<u32>,
}

/// An order in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOrder {
    /// The exchange's reference number of the order.
    pub order_reference_number: u64,
    /// The price in ticks.
    pub price: u32,
    /// The shares shown and open; at least 1.
    pub shares: u32,
}

/// An order with its instrument and side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedPlace {
    /// The number of the instrument.
    pub stock_locate: u16,
    /// True for a bid.
    pub is_bid: bool,
    /// The order.
    pub order: FeedOrder,
}

/// All orders of one side at one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The price in ticks.
    pub price: u32,
    /// The shares shown and open, of all orders.
    pub shares: u64,
    /// The number of orders.
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

/// The contradiction between a message and the book or the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FeedViolation {
    /// The bytes are not an ITCH message.
    #[error(transparent)]
    Malformed(itch::Malformed),
    /// The message names an order that is not in a book.
    #[error("order {0} is in no book")]
    UnknownOrder(u64),
    /// The message adds an order under a number that is taken.
    #[error("order {0} is in a book already")]
    KnownOrder(u64),
    /// The message takes more shares from an order than it has.
    #[error("{taken} shares taken from order {reference}, which has {open}")]
    TooManyShares {
        /// The order reference number.
        reference: u64,
        /// Shares that the message takes.
        taken: u32,
        /// Shares that the order has.
        open: u32,
    },
    /// The message adds, takes or leaves 0 shares.
    #[error("no shares for order {0}")]
    NoShares(u64),
    /// The message names an order of another instrument.
    #[error("order {reference} is not one of stock locate {stock_locate}")]
    OtherInstrument {
        /// The order reference number.
        reference: u64,
        /// The message's locate.
        stock_locate: u16,
    },
    /// The message adds an order, in continuous trading, at a price at which it would have traded.
    #[error("order {reference} at {price} crosses the best price {best} of the other side")]
    Crossed {
        /// The order reference number.
        reference: u64,
        /// The price of the order, in ticks.
        price: u32,
        /// The best price of the other side, in ticks.
        best: u32,
    },
    /// The message names an instrument without a directory message, or by another symbol.
    #[error("stock locate {0} is not in the directory under that name")]
    UnknownInstrument(u16),
    /// The message gives an instrument another symbol.
    #[error("stock locate {0} is in the directory under another name")]
    KnownInstrument(u16),
    /// The message has a side that is neither buy nor sell.
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
    bids: Ladder,
    asks: Ladder,
    order_count: usize,
    volume: u64,
    price_last: Option<u32>,
}

impl Book {
    fn side(&self, is_bid: bool) -> &Ladder {
        if is_bid { &self.bids } else { &self.asks }
    }

    fn side_mut(&mut self, is_bid: bool) -> &mut Ladder {
        if is_bid { &mut self.bids } else { &mut self.asks }
    }
}

impl FeedBook {
    /// Books without instruments and orders.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next message of the feed; `stream_sequence` is its number in the stream.
    ///
    /// # Errors
    /// The message contradicts the books, which stay as they were.
    pub fn apply(&mut self, stream_sequence: u64, message: &[u8]) -> Result<(), FeedError> {
        self.take(message).map_err(|violation| FeedError { stream_sequence, violation })?;
        self.messages += 1;
        Ok(())
    }

    /// The instruments, in the order of their locates.
    pub fn instruments(&self) -> impl Iterator<Item = FeedInstrument> {
        (0..=u16::MAX).zip(&self.instruments).filter_map(|(stock_locate, book)| {
            let book = book.as_deref()?;
            Some(FeedInstrument {
                stock_locate,
                symbol: book.symbol,
                trading_state: book.trading_state,
                order_count: book.order_count,
                volume: book.volume,
                price_last: book.price_last,
            })
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

    /// The order in a book with this number.
    #[must_use]
    pub fn order(&self, order_reference_number: u64) -> Option<FeedPlace> {
        let slot = self.orders.slot(order_reference_number)?;
        let Resting { stock_locate, is_bid, price, shares, .. } = *self.orders.at(slot);
        let order = FeedOrder { order_reference_number, price, shares };
        Some(FeedPlace { stock_locate, is_bid, order })
    }

    /// The order of one side of an instrument that trades first.
    #[must_use]
    pub fn first(&self, stock_locate: u16, is_bid: bool) -> Option<FeedOrder> {
        self.resting(stock_locate, is_bid).next()
    }

    /// The bids of an instrument by price, best first.
    pub fn bid_levels(&self, stock_locate: u16) -> impl Iterator<Item = Level> {
        levels(self.bids(stock_locate))
    }

    /// The asks of an instrument by price, best first.
    pub fn ask_levels(&self, stock_locate: u16) -> impl Iterator<Item = Level> {
        levels(self.asks(stock_locate))
    }

    /// True if the best bid of an instrument is above its best ask. In continuous trading this never
    /// holds after a command.
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
                let price = self.reduce(executed.order_reference_number.get(), locate, shares)?;
                self.trade(locate, shares, price);
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
                let slot = self.known(reference, delete.stock_locate.get())?;
                self.remove(slot);
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
        let place = usize::from(stock_locate);
        if self.instruments.len() <= place {
            self.instruments.resize_with(place + 1, || None);
        }
        let book = self.instruments[place].get_or_insert_with(|| {
            Box::new(Book {
                symbol,
                trading_state: None,
                bids: Ladder::default(),
                asks: Ladder::default(),
                order_count: 0,
                volume: 0,
                price_last: None,
            })
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
        self.book_mut(stock_locate)
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
        if self.orders.contains(reference) {
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
        let Some(book) = self.book(stock_locate) else { return Ok(()) };
        if book.trading_state != Some(b'T') {
            return Ok(());
        }
        let Some((best, _)) = book.side(!is_bid).best() else { return Ok(()) };
        let best = if is_bid { best } else { u32::MAX - best };
        match if is_bid { best < price } else { best > price } {
            true => Err(FeedViolation::Crossed { reference, price, best }),
            false => Ok(()),
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
        let slot = self.known(original, stock_locate)?;
        let is_bid = self.orders.at(slot).is_bid;
        if self.orders.contains(new) {
            return Err(FeedViolation::KnownOrder(new));
        }
        if shares == 0 {
            return Err(FeedViolation::NoShares(new));
        }
        self.check_uncrossed(new, stock_locate, is_bid, price)?;
        self.remove(slot);
        self.join(new, stock_locate, is_bid, shares, price);
        Ok(())
    }

    /// Takes shares from an order, which leaves the book with its last share; returns its price.
    fn reduce(
        &mut self,
        reference: u64,
        stock_locate: u16,
        shares: u32,
    ) -> Result<u32, FeedViolation> {
        let slot = self.known(reference, stock_locate)?;
        if shares == 0 {
            return Err(FeedViolation::NoShares(reference));
        }
        let Resting { price, shares: open, .. } = *self.orders.at(slot);
        match open.checked_sub(shares) {
            None => {
                return Err(FeedViolation::TooManyShares { reference, taken: shares, open });
            }
            Some(0) => self.remove(slot),
            Some(left) => self.orders.set_shares(slot, left),
        }
        Ok(price)
    }

    /// The slot of an order of this instrument.
    fn known(&self, reference: u64, stock_locate: u16) -> Result<u32, FeedViolation> {
        let slot = self.orders.slot(reference).ok_or(FeedViolation::UnknownOrder(reference))?;
        if self.orders.at(slot).stock_locate == stock_locate {
            Ok(slot)
        } else {
            Err(FeedViolation::OtherInstrument { reference, stock_locate })
        }
    }

    fn join(&mut self, reference: u64, stock_locate: u16, is_bid: bool, shares: u32, price: u32) {
        let Self { instruments, orders, .. } = self;
        let book = instruments[usize::from(stock_locate)].as_deref_mut();
        let book = book.expect("an order joins a listed book");
        book.order_count += 1;
        let rank = rank_of(is_bid, price);
        let queue = book.side_mut(is_bid).queue_at(rank, || orders.new_queue());
        orders.join(queue, reference, (stock_locate, is_bid), price, shares);
    }

    fn remove(&mut self, slot: u32) {
        let order = *self.orders.at(slot);
        let is_last_at_price = self.orders.leave(slot);
        let book = self.book_mut(order.stock_locate).expect("an order joins a listed book");
        book.order_count -= 1;
        if is_last_at_price {
            book.side_mut(order.is_bid).remove(order.rank());
        }
    }

    fn trade(&mut self, stock_locate: u16, shares: u32, price: u32) {
        self.trades += 1;
        let book = self.book_mut(stock_locate).expect("its order was listed");
        book.volume += u64::from(shares);
        book.price_last = Some(price);
    }

    fn book(&self, stock_locate: u16) -> Option<&Book> {
        self.instruments.get(usize::from(stock_locate))?.as_deref()
    }

    fn book_mut(&mut self, stock_locate: u16) -> Option<&mut Book> {
        self.instruments.get_mut(usize::from(stock_locate))?.as_deref_mut()
    }

    fn resting(&self, stock_locate: u16, is_bid: bool) -> impl Iterator<Item = FeedOrder> {
        let book = self.book(stock_locate).into_iter();
        let queues = book.flat_map(move |book| book.side(is_bid).iter());
        queues.flat_map(|(_, queue)| self.orders.orders(queue)).map(|order| {
            let Resting { reference, price, shares, .. } = *order;
            FeedOrder { order_reference_number: reference, price, shares }
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
