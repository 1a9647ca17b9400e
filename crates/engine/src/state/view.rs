//! What can be seen of the state from outside, without changing it.

use alloc::vec::Vec;
use core::iter;

use market::{
    Capacity, CustomerType, Display, Firm, Instructions, Instrument, InstrumentId, OrderId,
    OrderKey, Phase, Price, Quantity, Scope, SelfMatchGroup, SelfMatchPrevention, Sequence, Side,
    Symbol, SystemEvent, Ticks, TimeInForce, Timestamp,
};

use crate::{
    Engine, Session,
    book::{Book, pool::Slot},
    contingent::instructions::State,
    state::hash::StateHash,
};

/// What has happened so far, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Orders accepted, without replacements.
    pub orders_accepted: u64,
    /// Order ids given to orders that were accepted before: to replacements, to what a reserve order
    /// shows next, and to orders that waited and come in.
    pub orders_replaced: u64,
    /// Trades; one that is corrected counts twice.
    pub trades: u64,
    /// Orders that rest or wait now.
    pub orders_live: u32,
}

/// A live order. leaves + executed + canceled + prevented == quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingOrder {
    /// As the exchange names it. At one price the lower id is first to trade, among the displayed
    /// orders and then among the hidden ones.
    pub order_id: OrderId,
    /// As its owner names it.
    pub key: OrderKey,
    /// In which book.
    pub instrument_id: InstrumentId,
    /// Which way it trades.
    pub side: Side,
    /// Limit, in ticks; of an order that follows the market the price that it has now, 0 if none.
    pub price: Price,
    /// Beyond which an order that follows the market never goes, if it was told.
    pub limit: Option<Price>,
    /// Asked for, in lots, with what was executed and prevented of the orders it replaced.
    pub quantity: Quantity,
    /// Still open, in lots; at least 1.
    pub leaves: Quantity,
    /// Traded so far, in lots, by this order and those it replaced.
    pub executed: Quantity,
    /// Taken away so far, in lots, by cancels and modifies.
    pub canceled: Quantity,
    /// Taken away so far by self-match prevention, in lots, from this order and those it replaced.
    pub prevented: Quantity,
    /// How it is shown.
    pub display: Display,
    /// For which firm it was entered; never blank unless the session's own is.
    pub firm: Firm,
    /// The firm under whose name it is shown; blank if without a name.
    pub attribution: Firm,
    /// For whom the firm acts.
    pub capacity: Capacity,
    /// Whether the customer is retail.
    pub customer_type: CustomerType,
    /// Group for mass cancel; 0 is none.
    pub group_id: u16,
    /// What happens where it comes in and meets one of its own, as entered.
    pub self_match_prevention: SelfMatchPrevention,
    /// Only orders of the same group are its own.
    pub self_match_group: SelfMatchGroup,
    /// True if it was not to trade when it came in.
    pub post_only: bool,
    /// If it is for an auction only, for which: at the open, at the close, or the next one.
    pub auction: Option<TimeInForce>,
    /// Lots of it that the feed shows; 0 if it is hidden or for an auction only.
    pub shown: Quantity,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// Its instructions, with the trigger as it is now; that of a trailing stop that
    /// has seen no trade is one that no price reaches.
    pub instructions: Instructions,
    /// For what it waits, if it is not in the book.
    pub waits_for: Option<WaitsFor>,
}

/// Why a live order is not in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// For the end of another order.
    Parent,
    /// For a trade at its trigger.
    Trigger,
    /// For a price that it can follow.
    Reference,
    /// Until it can trade as much at once as it asks for.
    Quantity,
}

/// All orders of one price, displayed and hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthLevel {
    /// Their price, in ticks.
    pub price: Price,
    /// What is open of them in all, in lots.
    pub leaves: Quantity,
    /// How many they are.
    pub order_count: usize,
}

impl Engine {
    /// Sequence of the last input; [`Sequence::NONE`] before the first.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Time of the last input.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The last system event; `None` before the first.
    #[must_use]
    pub fn system_event(&self) -> Option<SystemEvent> {
        self.day.last()
    }

    /// True if orders may be entered.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.day.is_open()
    }

    /// What has happened so far, in numbers.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            orders_accepted: self.orders_accepted,
            orders_replaced: self.order_id_last.0 - self.orders_accepted,
            trades: self.trade_id_last.0 - self.auctions_held,
            orders_live: self.pool.live_count(),
        }
    }

    /// All instruments, by number.
    pub fn instruments(&self) -> impl ExactSizeIterator<Item = &Instrument> {
        self.books.iter().map(Book::instrument)
    }

    /// The instrument of a printed name.
    #[must_use]
    pub fn instrument(&self, symbol: &Symbol) -> Option<&Instrument> {
        let number = self.symbols.find(symbol)?;
        Some(self.books[usize::from(number) - 1].instrument())
    }

    /// All sessions, by number.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &Session> {
        self.sessions.iter()
    }

    /// What the market of an instrument does now; `None` if there is no such instrument, or no
    /// more.
    #[must_use]
    pub fn phase(&self, instrument_id: InstrumentId) -> Option<Phase> {
        let book = self.books.get(usize::from(instrument_id.0).checked_sub(1)?)?;
        (!book.trading.is_removed).then_some(book.trading.phase)
    }

    /// What static band, price collar and auctions of an instrument refer to;
    /// [`Price::ZERO`] is nothing.
    #[must_use]
    pub fn reference_price(&self, instrument_id: InstrumentId) -> Option<Price> {
        let book = self.books.get(usize::from(instrument_id.0).checked_sub(1)?)?;
        Some(book.trading.reference_price)
    }

    /// The orders that the venue does not take.
    #[must_use]
    pub fn blocks(&self) -> &[Scope] {
        &self.blocks
    }

    /// The book of an instrument.
    #[must_use]
    pub fn book(&self, instrument_id: InstrumentId) -> Option<BookView<'_>> {
        let book = self.books.get(usize::from(instrument_id.0).checked_sub(1)?)?;
        Some(BookView { engine: self, book })
    }

    /// A live order by its owner's name for it, in the book or waiting; `None` if it is done.
    #[must_use]
    pub fn order(&self, key: OrderKey) -> Option<RestingOrder> {
        self.find(key).map(|slot| self.resting(slot))
    }

    /// Equal for engines whose states are equal, however they came about, and for others only by
    /// a chance of about 2⁻⁶⁴. Costs the same however large the state is.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        self.hash_with(self.hash)
    }

    /// The state hash, given the sum over the elements.
    pub(crate) fn hash_with(&self, sum: StateHash) -> u64 {
        sum.finish([
            self.sequence.0,
            self.timestamp.0,
            self.day.last().map_or(0, |event| u64::from(event.code())),
            self.order_id_last.0,
            self.trade_id_last.0,
            self.orders_accepted,
        ])
    }

    fn resting(&self, slot: Slot) -> RestingOrder {
        let order = &self.pool[slot].order;
        let contingent_id = self.contingents.find(slot);
        let contingent = contingent_id.map(|id| &self.contingents[id]);
        let mut instructions = self.kept(slot, order.display);
        if let Some((id, contingent)) = contingent_id.zip(contingent)
            && contingent.state == State::ForTrigger
        {
            let triggers = &self.triggers[usize::from(order.instrument_id.0) - 1];
            let (trigger, _) = triggers.trigger_of(&self.contingents, order.side, id);
            instructions.trigger = Ticks(trigger);
        }
        RestingOrder {
            order_id: order.order_id,
            key: order.key,
            instrument_id: order.instrument_id,
            side: order.side,
            price: order.price(),
            limit: contingent.map(|it| it.limit).filter(|limit| *limit != Price::ZERO),
            quantity: order.quantity(),
            leaves: order.leaves(),
            executed: order.executed(),
            canceled: order.canceled(),
            prevented: order.prevented(),
            display: order.display,
            firm: self.sessions.owner(order.key).resolve(order.firm),
            attribution: self.attribution(order),
            capacity: order.capacity,
            customer_type: order.customer_type,
            group_id: order.group_id,
            self_match_prevention: order.self_match_prevention,
            self_match_group: order.self_match_group,
            post_only: order.post_only(),
            auction: order.for_auction().time_in_force(),
            shown: if self.is_booked(slot) { self.shown(slot) } else { Quantity::ZERO },
            time_in_force: order.time_in_force,
            instructions,
            waits_for: contingent.and_then(|contingent| match contingent.state {
                State::ForParent => Some(WaitsFor::Parent),
                State::ForTrigger => Some(WaitsFor::Trigger),
                State::ForReference => Some(WaitsFor::Reference),
                State::ForQuantity => Some(WaitsFor::Quantity),
                _ => None,
            }),
        }
    }
}

/// A look at the book of one instrument.
#[derive(Clone, Copy, Debug)]
pub struct BookView<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) book: &'a Book,
}

impl<'a> BookView<'a> {
    /// What is traded here.
    #[must_use]
    pub fn instrument(&self) -> &'a Instrument {
        self.book.instrument()
    }

    /// The highest price that a resting order would buy at.
    #[must_use]
    pub fn best_bid(&self) -> Option<Price> {
        self.book.best_bid()
    }

    /// The lowest price that a resting order would sell at.
    #[must_use]
    pub fn best_ask(&self) -> Option<Price> {
        self.book.best_ask()
    }

    /// The orders that would buy: best price first, at each the displayed ones and then the
    /// hidden ones, oldest first.
    pub fn bids(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        self.orders(Side::Buy)
    }

    /// The orders that would sell: best price first, at each the displayed ones and then the
    /// hidden ones, oldest first.
    pub fn asks(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        self.orders(Side::Sell)
    }

    /// The orders that are for an auction only, those that would buy before those that would sell;
    /// they are in neither of the lists above.
    pub fn auction_orders(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let Self { engine, book } = *self;
        let sides = [Side::Buy, Side::Sell].into_iter();
        let oldest = sides.flat_map(move |side| book.auction_levels(side));
        oldest.flat_map(move |oldest| queue(engine, oldest).map(|slot| engine.resting(slot)))
    }

    /// The orders that wait for a trigger: those for a fall before those for a rise, in each the
    /// nearest to the market first, then by order id. Costs time in proportion to them all.
    pub fn waiting(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let instrument_id = self.instrument().instrument_id;
        let triggers = &engine.triggers[usize::from(instrument_id.0) - 1];
        let ids = triggers.iter(&engine.contingents).into_iter();
        ids.map(|id| engine.resting(engine.contingents[id].slot))
    }

    /// The orders that follow the market, in the book and waiting for a price, by order id. Costs time
    /// in proportion to them all.
    pub fn pegged(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let mut ids: Vec<_> = engine.contingents.pegs_of(self.instrument().instrument_id).collect();
        ids.sort_unstable_by_key(|id| engine.contingents[*id].order_id);
        ids.into_iter().map(|id| engine.resting(engine.contingents[id].slot))
    }

    /// The orders that wait until they can trade enough at once, by order id.
    pub fn patient(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let ids = engine.contingents.minimum_quantity_orders.of(self.instrument().instrument_id);
        ids.iter().map(|id| engine.resting(engine.contingents[*id].slot))
    }

    /// Price of the last trade of the continuous market, if there was one.
    #[must_use]
    pub fn last_price(&self) -> Option<Price> {
        let instrument_id = self.instrument().instrument_id;
        let last = self.engine.triggers[usize::from(instrument_id.0) - 1].last();
        (last != 0).then_some(Price(last.into()))
    }

    /// The prices at which orders would buy, best first.
    pub fn bid_levels(&self) -> impl Iterator<Item = DepthLevel> + use<'a> {
        self.depth(Side::Buy)
    }

    /// The prices at which orders would sell, best first.
    pub fn ask_levels(&self) -> impl Iterator<Item = DepthLevel> + use<'a> {
        self.depth(Side::Sell)
    }

    fn orders(&self, side: Side) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        self.levels(side)
            .flat_map(move |(_, oldest)| queue(engine, oldest).map(|slot| engine.resting(slot)))
    }

    fn depth(&self, side: Side) -> impl Iterator<Item = DepthLevel> + use<'a> {
        let engine = self.engine;
        let mut levels = self.levels(side).peekable();
        iter::from_fn(move || {
            let (price, oldest) = levels.next()?;
            let hidden = levels.next_if(|(other, _)| *other == price).map(|(_, oldest)| oldest);
            let empty = DepthLevel { price, leaves: Quantity::ZERO, order_count: 0 };
            let slots = iter::once(oldest).chain(hidden).flat_map(|oldest| queue(engine, oldest));
            Some(slots.fold(empty, |level, slot| {
                DepthLevel {
                    price,
                    leaves: level
                        .leaves
                        .checked_add(engine.pool[slot].order.leaves())
                        .expect("2³² orders of a million lots fit in 64 bits"),
                    order_count: level.order_count + 1,
                }
            }))
        })
    }

    /// Price and oldest order of each level, best first, at one price the displayed orders and then
    /// the hidden ones.
    pub(crate) fn levels(&self, side: Side) -> impl Iterator<Item = (Price, Slot)> + use<'a> {
        let book = self.book;
        let mut place = 0;
        iter::from_fn(move || {
            let (place_after, price, oldest) = book.level_at_or_after(side, place)?;
            place = place_after;
            Some((price, oldest))
        })
    }
}

/// The orders of a level from one on, oldest first.
pub(crate) fn queue(engine: &Engine, oldest: Slot) -> impl Iterator<Item = Slot> {
    iter::successors(Some(oldest), |slot| {
        Some(engine.pool[*slot].younger).filter(|younger| !younger.is_none())
    })
}
