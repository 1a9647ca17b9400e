//! A read-only view of the state, for callers outside the engine. Invariant: a view changes
//! nothing.

use alloc::vec;
use core::iter;

use market::{
    Booked, Capacity, CustomerType, Display, Firm, Instructions, Instrument, InstrumentId, OrderId,
    OrderKey, Phase, Price, Quantity, Scope, SelfMatchGroup, SelfMatchPrevention, Sequence, Side,
    Symbol, SystemEvent, Ticks, TimeInForce, Timestamp,
};

use crate::{
    Engine, Session,
    book::{Book, pool::Slot},
    contingent::instructions::State,
};

/// Counters since the first input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Orders accepted, without replacements.
    pub orders_accepted: u64,
    /// New order ids of orders accepted before: replacements, refreshed icebergs, and contingent
    /// orders that enter the book.
    pub orders_replaced: u64,
    /// Trades; a corrected trade counts twice.
    pub trades: u64,
    /// Orders that rest or wait now.
    pub orders_live: u32,
}

/// A live order. Invariant: leaves + executed + canceled + prevented == quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RestingOrder {
    /// The venue's name. At one price the lower id trades first, displayed orders before hidden
    /// ones.
    pub order_id: OrderId,
    /// The owner's name.
    pub key: OrderKey,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Buy, or a kind of sell.
    pub side: Side,
    /// Limit in ticks; for a pegged order its present price, 0 if it has none.
    pub price: Price,
    /// The limit of a pegged order, if it has one.
    pub limit: Option<Price>,
    /// Quantity in lots, with the lots that its originals executed and lost to self-match prevention.
    pub quantity: Quantity,
    /// Open lots; at least 1.
    pub leaves: Quantity,
    /// Lots traded, by this order and its originals.
    pub executed: Quantity,
    /// Lots removed by cancels and modifies.
    pub canceled: Quantity,
    /// Lots removed by self-match prevention, from this order and its originals.
    pub prevented: Quantity,
    /// Display.
    pub display: Display,
    /// The firm that it was entered for; never blank unless the session's own firm is.
    pub firm: Firm,
    /// The firm that the feed shows; blank if unattributed.
    pub attribution: Firm,
    /// The capacity in which the firm acts.
    pub capacity: Capacity,
    /// Customer type: retail or not.
    pub customer_type: CustomerType,
    /// Group for mass cancel; 0 is none.
    pub group_id: u16,
    /// Self-match prevention as entered.
    pub self_match_prevention: SelfMatchPrevention,
    /// Self-match group: only orders of the same group are its own.
    pub self_match_group: SelfMatchGroup,
    /// True if it was entered post-only.
    pub post_only: bool,
    /// The auction of an auction-only order: opening, closing or next.
    pub auction: Option<TimeInForce>,
    /// Lots that the feed shows; 0 if it is hidden or auction-only.
    pub shown: Quantity,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Its instructions, with the present trigger; for a trailing stop that has seen no trade, a
    /// trigger that no price reaches.
    pub instructions: Instructions,
    /// Its condition, if it is outside the book.
    pub waits_for: Option<WaitsFor>,
}

/// The condition of a live order outside the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum WaitsFor {
    /// Its parent must be done.
    Parent,
    /// The market must trade at its trigger.
    Trigger,
    /// Its peg must have a price.
    Reference,
    /// Its minimum must be able to trade.
    Quantity,
    /// The auction, or the order, that trades in steps in its instrument must end.
    Auction,
    /// It has traded and trades on in the next step.
    Turn,
}

/// All orders at one price, displayed and hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthLevel {
    /// Price in ticks.
    pub price: Price,
    /// Total open lots; 2⁶⁴ − 1 stands for that number or more.
    pub leaves: Quantity,
    /// Number of orders.
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

    /// True if order entry is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.day.is_open()
    }

    /// Counters since the first input.
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

    /// The instrument with this symbol.
    #[must_use]
    pub fn instrument(&self, symbol: &Symbol) -> Option<&Instrument> {
        let number = self.symbols.find(symbol)?;
        Some(self.books[InstrumentId(number)].instrument())
    }

    /// All sessions, by number.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &Session> {
        self.sessions.iter()
    }

    /// The phase of an instrument; `None` if there is none with this id, or it was removed.
    #[must_use]
    pub fn phase(&self, instrument_id: InstrumentId) -> Option<Phase> {
        let book = self.books.get(instrument_id)?;
        (!book.trading.is_removed).then_some(book.trading.phase)
    }

    /// The reference price of static band, price collar and auctions; [`Price::ZERO`] is none.
    #[must_use]
    pub fn reference_price(&self, instrument_id: InstrumentId) -> Option<Price> {
        let book = self.books.get(instrument_id)?;
        Some(book.trading.reference_price)
    }

    /// The blocked scopes.
    #[must_use]
    pub fn blocks(&self) -> &[Scope] {
        &self.blocks
    }

    /// The book of an instrument.
    #[must_use]
    pub fn book(&self, instrument_id: InstrumentId) -> Option<BookView<'_>> {
        let book = self.books.get(instrument_id)?;
        Some(BookView { engine: self, book })
    }

    /// The live order with this key, in the book or waiting; `None` if it is done.
    #[must_use]
    pub fn order(&self, key: OrderKey) -> Option<RestingOrder> {
        self.find(key).map(|slot| self.resting(slot))
    }

    /// The slots of all live orders, those that rest and those that wait, in ascending order: the pool is read from one
    /// end to the other, however the orders lie in books and sessions.
    pub(crate) fn live_slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let slot_count = self.pool.slot_count() as u32;
        let mut is_live = vec![0_u64; slot_count.div_ceil(u64::BITS) as usize];
        for (_, slot) in self.sessions.iter().flat_map(Session::iter_live) {
            let number = slot.to_bits();
            is_live[(number / u64::BITS) as usize] |= 1 << (number % u64::BITS);
        }
        let is_live = move |number: &u32| {
            is_live[(number / u64::BITS) as usize] >> (number % u64::BITS) & 1 == 1
        };
        (0..slot_count).filter(is_live).map(Slot::from_bits)
    }

    /// The orders that the feed shows, each as it would be booked now; in no particular order.
    pub fn shown_orders(&self) -> impl Iterator<Item = Booked> {
        let live = self.live_slots().map(|slot| (slot, &self.pool[slot].order));
        let booked = live.filter(|(slot, order)| self.is_booked_as(*slot, order));
        let shown = booked.map(|(slot, order)| Booked {
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            side: order.side(),
            price: order.price(),
            leaves: order.leaves(),
            shown: self.shown_of(slot, order),
            attribution: self.attribution(order),
        });
        shown.filter(|booked| !booked.shown.is_zero())
    }

    fn resting(&self, slot: Slot) -> RestingOrder {
        let order = &self.pool[slot].order;
        let contingent_id = self.contingents.find(slot);
        let contingent = contingent_id.map(|id| &self.contingents[id]);
        let mut instructions = self.kept(slot, order.display());
        if let Some((id, contingent)) = contingent_id.zip(contingent)
            && contingent.state == State::ForTrigger
        {
            let triggers = &self.triggers[order.instrument_id];
            let (trigger, _) = triggers.trigger_of(&self.contingents, order.side(), id);
            instructions.trigger = Ticks(trigger);
        }
        RestingOrder {
            order_id: order.order_id(),
            key: order.key,
            instrument_id: order.instrument_id,
            side: order.side(),
            price: order.price(),
            limit: contingent.map(|it| it.limit).filter(|limit| *limit != Price::ZERO),
            quantity: order.quantity(),
            leaves: order.leaves(),
            executed: order.executed(),
            canceled: order.canceled(),
            prevented: order.prevented(),
            display: order.display(),
            firm: self.sessions.owner(order.key).resolve(order.firm),
            attribution: self.attribution(order),
            capacity: order.capacity(),
            customer_type: order.customer_type(),
            group_id: order.group_id,
            self_match_prevention: order.self_match_prevention(),
            self_match_group: order.self_match_group,
            post_only: order.post_only(),
            auction: order.for_auction().time_in_force(),
            shown: if self.is_booked(slot) { self.shown(slot) } else { Quantity::ZERO },
            time_in_force: order.time_in_force(),
            instructions,
            waits_for: contingent.and_then(|contingent| match contingent.state {
                State::ForParent => Some(WaitsFor::Parent),
                State::ForTrigger => Some(WaitsFor::Trigger),
                State::ForReference => Some(WaitsFor::Reference),
                State::ForQuantity => Some(WaitsFor::Quantity),
                State::ForAuction => Some(WaitsFor::Auction),
                State::HalfMatched => Some(WaitsFor::Turn),
                _ => None,
            }),
        }
    }
}

/// A view of the book of one instrument.
#[derive(Clone, Copy, Debug)]
pub struct BookView<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) book: &'a Book,
}

impl<'a> BookView<'a> {
    /// The instrument.
    #[must_use]
    pub fn instrument(&self) -> &'a Instrument {
        self.book.instrument()
    }

    /// The best bid, displayed or hidden.
    #[must_use]
    pub fn best_bid(&self) -> Option<Price> {
        self.book.best_bid()
    }

    /// The best ask, displayed or hidden.
    #[must_use]
    pub fn best_ask(&self) -> Option<Price> {
        self.book.best_ask()
    }

    /// The bids in priority order: best price first, displayed before hidden, oldest first.
    pub fn bids(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        self.orders(Side::Buy)
    }

    /// The asks in priority order: best price first, displayed before hidden, oldest first.
    pub fn asks(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        self.orders(Side::Sell)
    }

    /// The auction-only orders, bids before asks; the lists above do not contain them.
    pub fn auction_orders(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let Self { engine, book } = *self;
        let sides = [Side::Buy, Side::Sell].into_iter();
        let oldest = sides.flat_map(move |side| book.auction_levels(side));
        oldest.flat_map(move |oldest| queue(engine, oldest).map(|slot| engine.resting(slot)))
    }

    /// The orders that wait for a trigger: those for a fall before those for a rise, nearest
    /// trigger first, then by order id. Costs O(waiting orders).
    pub fn waiting(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let instrument_id = self.instrument().instrument_id;
        let triggers = &engine.triggers[instrument_id];
        let ids = triggers.iter(&engine.contingents).into_iter();
        ids.map(|id| engine.resting(engine.contingents[id].slot))
    }

    /// The pegged orders, in the book or waiting for a price, by order id. Costs O(pegged orders).
    pub fn pegged(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let ids = engine.contingents.pegs_of(self.instrument().instrument_id);
        ids.map(|id| engine.resting(engine.contingents[id].slot))
    }

    /// The waiting minimum-quantity orders, by order id.
    pub fn waiting_for_quantity(&self) -> impl Iterator<Item = RestingOrder> + use<'a> {
        let engine = self.engine;
        let ids = engine.contingents.minimum_quantity_orders.of(self.instrument().instrument_id);
        ids.iter().map(|id| engine.resting(engine.contingents[*id].slot))
    }

    /// Price of the last trade of continuous trading.
    #[must_use]
    pub fn last_price(&self) -> Option<Price> {
        let instrument_id = self.instrument().instrument_id;
        let last = self.engine.triggers[instrument_id].last();
        (last != 0).then_some(Price(last.into()))
    }

    /// The bid levels, best first.
    pub fn bid_levels(&self) -> impl Iterator<Item = DepthLevel> + use<'a> {
        self.depth(Side::Buy)
    }

    /// The ask levels, best first.
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
            Some(slots.fold(empty, |level, slot| DepthLevel {
                price,
                leaves: level.leaves.saturating_add(engine.pool[slot].order.leaves()),
                order_count: level.order_count + 1,
            }))
        })
    }

    /// Price and oldest order of each level, best first; at one price displayed orders before
    /// hidden ones.
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

/// The orders of a level from this one on, oldest first.
pub(crate) fn queue(engine: &Engine, oldest: Slot) -> impl Iterator<Item = Slot> {
    iter::successors(Some(oldest), |slot| {
        Some(engine.pool[*slot].younger).filter(|younger| !younger.is_none())
    })
}
