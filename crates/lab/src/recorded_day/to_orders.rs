//! Messages of a day to rows of an order file.
//!
//! All orders of an instrument are one session's, so the requests on a book keep their order, whatever the
//! connections of a replay do. An execution becomes an order of the other side, at the price of the order that it
//! takes. Where that order is not the first to trade, the execution becomes a cancel: the books follow the day, and the
//! trade is missing.
//!
//! Invariant: the books of a venue that takes the rows one by one are the visible books of the day, but for the
//! orders that were left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use client::subscriber::{FeedBook, FeedPlace, FeedViolation};
use market::{Symbol, Text};
use serde::Serialize;
use wire::itch::{self, Message};

use super::{
    divergences::{Divergence, Divergences, Example},
    setup::{SESSIONS_MAX, participant},
};
use crate::order_file::{REPLAY_HEADER, ReplayAction, ReplayRow};

/// The most lots of an order, including those executed by earlier orders of its chain of replaces: OUCH has 32 bits for
/// them, as ITCH has.
pub(super) const QUANTITY_MAX: u64 = u32::MAX as u64;
/// 199,999.99, the highest price of an order.
const PRICE_MAX: u32 = 1_999_999_900;

/// Rows written, by their request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowCounts {
    /// Orders that rest.
    pub places: u64,
    /// Orders that take an order of the book.
    pub takes: u64,
    pub cancels: u64,
    pub replaces: u64,
}

impl RowCounts {
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.places + self.takes + self.cancels + self.replaces
    }
}

/// Turns the messages of a day into rows.
pub struct DayOrders<W> {
    out: W,
    books: FeedBook,
    /// The state of each live order of the day, by its reference number.
    orders: BTreeMap<u64, Order>,
    /// The number of the last order of each session.
    last_order_ids: Vec<u32>,
    participants: Vec<String>,
    /// By stock locate.
    listings: BTreeMap<u16, Listing>,
    /// The session of each listed symbol, also if it was listed more than once.
    sessions: BTreeMap<Symbol, usize>,
    /// The last reason noted for an instrument, and its message.
    last_notes: BTreeMap<u16, (u64, Divergence)>,
    divergences: Divergences,
    rows: RowCounts,
    messages: u64,
    /// Messages that are not about orders.
    without_orders: u64,
}

#[derive(Clone, Copy, Debug)]
struct Listing {
    /// `None` for one that cannot be named in a file.
    symbol: Option<Symbol>,
    session: usize,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Sent {
        order_id: u32,
        /// Shares executed in the venue by it and the orders that it replaced.
        executed: u64,
    },
    /// Its open shares.
    LeftOut { shares: u32 },
}

/// A message about one order or instrument, while it is taken.
#[derive(Clone, Copy)]
struct At {
    message: u64,
    time_ns: u64,
    stock_locate: u16,
    reference: Option<u64>,
}

impl<W: Write> DayOrders<W> {
    /// Writes the header of the file. `sessions` take the instruments in turn, as they are listed.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// There is no session, or there are more than [`SESSIONS_MAX`].
    pub fn new(mut out: W, sessions: u16) -> io::Result<Self> {
        assert!((1..=SESSIONS_MAX).contains(&sessions), "{sessions} sessions");
        writeln!(out, "{REPLAY_HEADER}")?;
        Ok(Self {
            out,
            books: FeedBook::new(),
            orders: BTreeMap::new(),
            last_order_ids: vec![0; usize::from(sessions)],
            participants: (1..=sessions).map(participant).collect(),
            listings: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last_notes: BTreeMap::new(),
            divergences: Divergences::default(),
            rows: RowCounts::default(),
            messages: 0,
            without_orders: 0,
        })
    }

    pub fn rows(&self) -> RowCounts {
        self.rows
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    pub fn without_orders(&self) -> u64 {
        self.without_orders
    }

    pub fn divergences(&self) -> &Divergences {
        &self.divergences
    }

    /// The visible books of the day without the orders left out: those that the venue shall have.
    pub fn books(&self) -> &FeedBook {
        &self.books
    }

    /// The last message so far that the orders of this instrument cannot repeat, and why.
    pub fn last_note(&self, stock_locate: u16) -> Option<(u64, Divergence)> {
        self.last_notes.get(&stock_locate).copied()
    }

    /// The instruments of the day that an order file can name, in the order of their locates.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut seen = BTreeSet::new();
        let symbols = self.listings.values().filter_map(|listing| listing.symbol);
        symbols.filter(|symbol| seen.insert(*symbol)).collect()
    }

    /// Hands the file back; bytes that it holds back are not written.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Takes the next message; `number` names it in the report.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// The bytes are no message; a [recording](client::recording) hands on whole messages only.
    pub fn take(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let message = itch::decode(bytes).expect("a recording has whole messages");
        self.messages += 1;
        let mut at = At {
            message: number,
            time_ns: message.timestamp(),
            stock_locate: message.stock_locate(),
            reference: None,
        };
        let mut about = |reference: u64| {
            at.reference = Some(reference);
            (at, reference)
        };
        match message {
            Message::StockDirectory(listing) => {
                self.list(listing.stock_locate.get(), listing.stock);
                self.apply(at, 0, bytes);
                Ok(())
            }
            Message::AddOrder(add) => {
                let (at, reference) = about(add.order_reference_number.get());
                let is_buy = add.buy_sell_indicator == b'B';
                self.add(at, reference, (is_buy, add.shares.get(), add.price.get()), bytes)
            }
            Message::AddOrderAttributed(add) => {
                let (at, reference) = about(add.order_reference_number.get());
                let is_buy = add.buy_sell_indicator == b'B';
                self.add(at, reference, (is_buy, add.shares.get(), add.price.get()), bytes)
            }
            Message::OrderExecuted(executed) => {
                let (at, reference) = about(executed.order_reference_number.get());
                self.executed(at, reference, executed.executed_shares.get(), None, bytes)
            }
            Message::OrderExecutedWithPrice(executed) => {
                let (at, reference) = about(executed.order_reference_number.get());
                let how = (executed.printable == b'Y', executed.execution_price.get());
                self.executed(at, reference, executed.executed_shares.get(), Some(how), bytes)
            }
            Message::OrderCancel(cancel) => {
                let (at, reference) = about(cancel.order_reference_number.get());
                self.reduced(at, reference, cancel.canceled_shares.get(), bytes)
            }
            Message::OrderDelete(delete) => {
                let (at, reference) = about(delete.order_reference_number.get());
                self.deleted(at, reference, bytes)
            }
            Message::OrderReplace(replace) => {
                let (at, reference) = about(replace.original_order_reference_number.get());
                let new = replace.new_order_reference_number.get();
                let terms = (replace.shares.get(), replace.price.get());
                self.replaced(at, (reference, new), terms, bytes)
            }
            Message::Trade(trade) => {
                self.note(at, Divergence::HiddenExecution, trade.shares.get().into());
                Ok(())
            }
            Message::LargeTrade(trade) => {
                self.note(at, Divergence::HiddenExecution, trade.shares.get());
                Ok(())
            }
            Message::CrossTrade(cross) if cross.shares.get() > 0 => {
                self.note(at, Divergence::Cross, cross.shares.get());
                Ok(())
            }
            Message::BrokenTrade(_) => {
                self.note(at, Divergence::BrokenTrade, 0);
                Ok(())
            }
            Message::StockTradingAction(action) => {
                if action.trading_state != b'T' {
                    self.note(at, Divergence::Stopped, 0);
                } else {
                    self.without_orders += 1;
                }
                Ok(())
            }
            Message::OperationalHalt(halt) if halt.operational_halt_action == b'H' => {
                self.note(at, Divergence::Stopped, 0);
                Ok(())
            }
            Message::MwcbStatus(_) => {
                self.note(at, Divergence::Stopped, 0);
                Ok(())
            }
            Message::SystemEvent(_)
            | Message::CrossTrade(_)
            | Message::OperationalHalt(_)
            | Message::RegShoRestriction(_)
            | Message::MarketParticipantPosition(_)
            | Message::MwcbDeclineLevel(_)
            | Message::IpoQuotingPeriodUpdate(_)
            | Message::LuldAuctionCollar(_)
            | Message::NetOrderImbalance(_)
            | Message::RetailPriceImprovementIndicator(_)
            | Message::DirectListingWithCapitalRaise(_) => {
                self.without_orders += 1;
                Ok(())
            }
        }
    }

    fn list(&mut self, stock_locate: u16, stock: [u8; 8]) {
        self.without_orders += 1;
        let symbol: Option<Symbol> = Text::from_bytes(stock);
        let is_sayable = |symbol: &Symbol| {
            let text = symbol.as_str();
            !text.is_empty() && !text.contains([',', '"']) && text.trim_start() == text
        };
        let symbol = symbol.filter(is_sayable);
        let next = self.sessions.len() % self.participants.len();
        let session = symbol.map_or(0, |symbol| *self.sessions.entry(symbol).or_insert(next));
        self.listings.entry(stock_locate).or_insert(Listing { symbol, session });
    }

    fn add(
        &mut self,
        at: At,
        reference: u64,
        (is_buy, shares, price): (bool, u32, u32),
        bytes: &[u8],
    ) -> io::Result<()> {
        if self.orders.contains_key(&reference) {
            return self.contradicts(at, shares, FeedViolation::KnownOrder(reference));
        }
        if let Some(reason) = self.refusal(at, is_buy, price) {
            return self.leave_out(at, reference, shares, reason);
        }
        let Some(order_id) = self.number(at.stock_locate) else {
            return self.leave_out(at, reference, shares, Divergence::NumbersUsedUp);
        };
        if !self.apply(at, shares, bytes) {
            return Ok(());
        }
        self.use_number(at.stock_locate, order_id);
        self.orders.insert(reference, Order::Sent { order_id, executed: 0 });
        self.rows.places += 1;
        let action = ReplayAction::Place { is_buy, is_immediate: false, price, quantity: shares };
        self.write(at, order_id, action)
    }

    /// Why a venue would not let an order rest as the day did.
    fn refusal(&self, at: At, is_buy: bool, price: u32) -> Option<Divergence> {
        let listing = self.listings.get(&at.stock_locate);
        let opposite = self.books.first(at.stock_locate, !is_buy);
        let would_trade = opposite.is_some_and(|best| match is_buy {
            true => best.price <= price,
            false => best.price >= price,
        });
        if listing.is_some_and(|listing| listing.symbol.is_none()) {
            Some(Divergence::Symbol)
        } else if price == 0 || price > PRICE_MAX {
            Some(Divergence::PriceLimit)
        } else {
            would_trade.then_some(Divergence::WouldTrade)
        }
    }

    fn executed(
        &mut self,
        at: At,
        reference: u64,
        shares: u32,
        printed: Option<(bool, u32)>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let Some((order_id, executed, place)) = self.live(at, reference, shares) else {
            return Ok(());
        };
        let first = self.books.first(at.stock_locate, place.is_bid);
        let is_first = first.is_some_and(|first| first.order_reference_number == reference);
        let lost = match printed {
            Some((false, _)) => Some(Divergence::ExecutedInCross),
            Some((true, price)) if price != place.order.price => {
                Some(Divergence::ExecutedAtOtherPrice)
            }
            _ if !is_first => Some(Divergence::ExecutedOutOfTurn),
            _ => None,
        };
        if !self.apply(at, shares, bytes) {
            return Ok(());
        }
        let taking = match lost {
            None => self.number(at.stock_locate).ok_or(Divergence::NumbersUsedUp),
            Some(reason) => Err(reason),
        };
        let left = place.order.shares - shares;
        match taking {
            Ok(taking) => {
                self.use_number(at.stock_locate, taking);
                let order = Order::Sent { order_id, executed: executed + u64::from(shares) };
                self.orders.insert(reference, order);
                self.rows.takes += 1;
                let (is_buy, price) = (!place.is_bid, place.order.price);
                let action =
                    ReplayAction::Place { is_buy, is_immediate: true, price, quantity: shares };
                self.write(at, taking, action)?;
            }
            Err(reason) => {
                self.note(at, reason, shares.into());
                self.cancel(at, order_id, executed, left)?;
            }
        }
        if left == 0 {
            self.orders.remove(&reference);
        }
        Ok(())
    }

    fn reduced(&mut self, at: At, reference: u64, shares: u32, bytes: &[u8]) -> io::Result<()> {
        let Some((order_id, executed, place)) = self.live(at, reference, shares) else {
            return Ok(());
        };
        if !self.apply(at, shares, bytes) {
            return Ok(());
        }
        let left = place.order.shares - shares;
        if left == 0 {
            self.orders.remove(&reference);
        }
        self.cancel(at, order_id, executed, left)
    }

    fn deleted(&mut self, at: At, reference: u64, bytes: &[u8]) -> io::Result<()> {
        let Some((order_id, executed, _)) = self.live(at, reference, u32::MAX) else {
            return Ok(());
        };
        if !self.apply(at, 0, bytes) {
            return Ok(());
        }
        self.orders.remove(&reference);
        self.cancel(at, order_id, executed, 0)
    }

    fn replaced(
        &mut self,
        at: At,
        (reference, new): (u64, u64),
        (shares, price): (u32, u32),
        bytes: &[u8],
    ) -> io::Result<()> {
        let left_out = matches!(self.orders.get(&reference), Some(Order::LeftOut { .. }));
        let Some((order_id, executed, place)) = self.live(at, reference, u32::MAX) else {
            if left_out && !self.orders.contains_key(&new) {
                self.orders.insert(new, Order::LeftOut { shares });
            }
            return Ok(());
        };
        if new != reference && self.orders.contains_key(&new) {
            return self.contradicts(at, shares, FeedViolation::KnownOrder(new));
        }
        let refusal = self.refusal(at, place.is_bid, price);
        let number = self.number(at.stock_locate).ok_or(Divergence::NumbersUsedUp);
        let new_order_id = match (refusal, number) {
            (None, Ok(number)) => number,
            (Some(reason), _) | (None, Err(reason)) => {
                // The books lose the original; the replacement does not come.
                let delete = delete_message(at, reference);
                if self.apply(at, shares, &delete) {
                    self.orders.remove(&reference);
                    self.cancel(at, order_id, executed, 0)?;
                    return self.leave_out(at, new, shares, reason);
                }
                return Ok(());
            }
        };
        if !self.apply(at, shares, bytes) {
            return Ok(());
        }
        self.orders.remove(&reference);
        self.use_number(at.stock_locate, new_order_id);
        let quantity = executed + u64::from(shares);
        if quantity <= QUANTITY_MAX {
            self.orders.insert(new, Order::Sent { order_id: new_order_id, executed });
            self.rows.replaces += 1;
            let action = ReplayAction::Replace { new_order_id, price, quantity: quantity as u32 };
            return self.write(at, order_id, action);
        }
        // Such a chain is too long for a replace, which looks the same in the book as this.
        self.orders.insert(new, Order::Sent { order_id: new_order_id, executed: 0 });
        self.cancel(at, order_id, executed, 0)?;
        self.rows.places += 1;
        let (is_buy, is_immediate) = (place.is_bid, false);
        let action = ReplayAction::Place { is_buy, is_immediate, price, quantity: shares };
        self.write(at, new_order_id, action)
    }

    /// An order that the venue has: its number there, the shares executed by its chain, and its place in the book.
    /// `None`, and noted, for any other. `shares` leave it, or all of them.
    fn live(&mut self, at: At, reference: u64, shares: u32) -> Option<(u32, u64, FeedPlace)> {
        match self.orders.get_mut(&reference) {
            Some(Order::Sent { order_id, executed }) => {
                let place = self.books.order(reference).expect("what was sent is in a book");
                Some((*order_id, *executed, place))
            }
            Some(Order::LeftOut { shares: open }) => {
                let taken = shares.min(*open);
                *open -= taken;
                if *open == 0 {
                    self.orders.remove(&reference);
                }
                self.note(at, Divergence::FollowsLeftOut, taken.into());
                None
            }
            None => {
                let shares = if shares == u32::MAX { 0 } else { shares };
                self.note(at, Divergence::UnknownReference, shares.into());
                None
            }
        }
    }

    /// Has the books take a message; false, and noted, if they refuse it.
    fn apply(&mut self, at: At, shares: u32, bytes: &[u8]) -> bool {
        match self.books.apply(at.message, bytes) {
            Ok(()) => true,
            Err(error) => {
                self.note_with(
                    at,
                    Divergence::Contradiction,
                    shares.into(),
                    Some(error.violation.to_string()),
                );
                false
            }
        }
    }

    fn contradicts(&mut self, at: At, shares: u32, violation: FeedViolation) -> io::Result<()> {
        let detail = Some(violation.to_string());
        self.note_with(at, Divergence::Contradiction, shares.into(), detail);
        Ok(())
    }

    fn leave_out(
        &mut self,
        at: At,
        reference: u64,
        shares: u32,
        reason: Divergence,
    ) -> io::Result<()> {
        self.note(at, reason, shares.into());
        if shares > 0 {
            self.orders.insert(reference, Order::LeftOut { shares });
        }
        Ok(())
    }

    fn note(&mut self, at: At, reason: Divergence, shares: u64) {
        self.note_with(at, reason, shares, None);
    }

    fn note_with(&mut self, at: At, reason: Divergence, shares: u64, detail: Option<String>) {
        let At { message, time_ns, stock_locate, reference } = at;
        let symbol = self.listings.get(&stock_locate).and_then(|listing| listing.symbol);
        self.divergences.note(reason, shares, || Example {
            message,
            time_ns,
            symbol: symbol.map_or_else(|| format!("locate {stock_locate}"), |it| it.to_string()),
            order_reference_number: reference,
            detail,
        });
        self.last_notes.insert(stock_locate, (message, reason));
    }

    /// Leaves so many shares of an order open.
    fn cancel(&mut self, at: At, order_id: u32, executed: u64, left: u32) -> io::Result<()> {
        self.rows.cancels += 1;
        let intended = executed + u64::from(left);
        let quantity =
            (left > 0).then(|| u32::try_from(intended).expect("the chain is within the limits"));
        self.write(at, order_id, ReplayAction::Cancel { quantity })
    }

    fn session(&self, stock_locate: u16) -> usize {
        self.listings.get(&stock_locate).map_or(0, |listing| listing.session)
    }

    /// The number of the next order of an instrument's session.
    fn number(&self, stock_locate: u16) -> Option<u32> {
        let last = self.last_order_ids[self.session(stock_locate)];
        // The highest number is not used: a session in which the rows are replayed may begin above 1.
        last.checked_add(1).filter(|number| *number < u32::MAX)
    }

    fn use_number(&mut self, stock_locate: u16, number: u32) {
        let session = self.session(stock_locate);
        self.last_order_ids[session] = number;
    }

    fn write(&mut self, at: At, order_id: u32, action: ReplayAction) -> io::Result<()> {
        let listing = self.listings.get(&at.stock_locate);
        let Listing { symbol, session } =
            *listing.expect("the books refuse orders of unknown instruments");
        let symbol = symbol.expect("orders of others are left out");
        let participant = &self.participants[session];
        ReplayRow { time_ns: at.time_ns, participant, order_id, symbol, action }
            .write(&mut self.out)
    }
}

/// The message that an order leaves the book.
fn delete_message(at: At, reference: u64) -> Vec<u8> {
    let mut message = vec![b'D'];
    message.extend(at.stock_locate.to_be_bytes());
    message.extend([0; 2]);
    message.extend(&at.time_ns.to_be_bytes()[2..]);
    message.extend(reference.to_be_bytes());
    message
}
