//! An engine from the sections of a snapshot.
//!
//! Invariant: sections come in the order of [`Section::ALL`], a value that no engine writes is refused with its
//! field, and the restored state has the hash that the last section names.

use alloc::vec::Vec;

use market::{
    AddInstrument, AddSession, Conditions, DecodeError, Event, Instrument, InstrumentId, Lots,
    OperatorDecline, OperatorOutcome, OrderId, OrderKey, OrderType, PastTrade, Phase, Price,
    Pricing, TimeInForce, bytes::ByteReader,
};

use super::{AFTER_AUCTION, ContingentRecord, OrderRecord, Section, StateError};
use crate::{
    Engine, OPERATORS_MAX, QUANTITY_LIMIT, auction::count::Counted,
    auction::trading_status::TradingStatus, book::pool::Slot, contingent::instructions::Contingent,
    contingent::instructions::State, contingent::instructions::Turn, contingent::pegs::PEGS_LIMIT,
    intake::session::CLASS_MAX, operator::requests::LastCommand,
    operator::venue_commands::BLOCKS_MAX, order::ForAuction, order::Order, order::OrderTerms,
    order::PRICE_MAX,
};

/// An engine that is being restored, section by section.
#[derive(Debug)]
pub struct Restoration {
    engine: Engine,
    /// Sections come in the order of [`Section::ALL`].
    last: Option<Section>,
    /// By session number: the restored orders, as the snapshot has them.
    live: Vec<Vec<(OrderKey, Slot)>>,
    /// The last restored order; the next one of its level follows it.
    elder: Option<Slot>,
    expected: u64,
    /// The place of the next triggered order.
    next_place: u64,
}

impl Default for Restoration {
    fn default() -> Self {
        Self::new()
    }
}

impl Restoration {
    /// A restoration before the first section.
    #[must_use]
    pub fn new() -> Self {
        Self {
            engine: Engine::new(),
            last: None,
            live: Vec::new(),
            elder: None,
            expected: 0,
            next_place: 0,
        }
    }

    /// Restores a section.
    ///
    /// # Errors
    /// The bytes are not from [`Engine::snapshot`]; discard the restoration.
    pub fn section(&mut self, section: Section, bytes: &[u8]) -> Result<(), StateError> {
        let once = [Section::Exchange, Section::End].contains(&section);
        let fits = match self.last {
            None => section == Section::Exchange,
            Some(last) => last.place() < section.place() || (last == section && !once),
        };
        if !fits {
            return Err(StateError::Order { section });
        }
        self.last = Some(section);
        self.records(section, bytes).map_err(|error| StateError::Record { section, error })
    }

    fn records(&mut self, section: Section, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = ByteReader::new(bytes);
        while !reader.is_empty() {
            match section {
                Section::Exchange => self.exchange(&mut reader)?,
                Section::Instruments => self.instrument(&mut reader)?,
                Section::Sessions => self.session(&mut reader)?,
                Section::Money => self.engine.restore_money(&mut reader)?,
                Section::Orders => self.order(&mut reader, true)?,
                Section::Trades => self.trade(&mut reader)?,
                Section::Blocks => self.block(&mut reader)?,
                Section::Operators => self.last_command(&mut reader)?,
                Section::HeldSettings => self.held_setting(&mut reader)?,
                Section::LastTrades => self.last_trade(&mut reader)?,
                Section::Waiting => self.order(&mut reader, false)?,
                Section::Triggered => self.triggered(&mut reader)?,
                Section::PendingCancels => {
                    self.engine.pending_cancels.restore(&mut reader)?;
                }
                Section::Auctions => {
                    let (first, uncrossing) = (reader.read("place")?, reader.read("auction")?);
                    self.engine.restore_auction(first, uncrossing).map_err(DecodeError::Field)?;
                }
                Section::Counts => {
                    let instrument_id = reader.read("instrument")?;
                    let places = [reader.read("buyers")?, reader.read("sellers")?];
                    let counted = Counted { places, is_first: reader.read("first")? };
                    let restored = self.engine.restore_count(instrument_id, &counted);
                    restored.map_err(DecodeError::Field)?;
                }
                Section::HalfMatched => {
                    let (first, half) = (reader.read("place")?, reader.read("order")?);
                    self.engine.restore_half_matched(first, half).map_err(DecodeError::Field)?;
                }
                Section::HeldCancels => {
                    self.engine.auction_line.held.restore(&mut reader)?;
                }
                Section::NotedForQuantity => {
                    let instrument_id: InstrumentId = reader.read("instrument")?;
                    let is_known = self.engine.books.get(instrument_id).is_some();
                    let quantity = &mut self.engine.contingents.minimum_quantity_orders;
                    if !is_known || !quantity.restore_noted(instrument_id) {
                        return Err(DecodeError::Field("instrument"));
                    }
                }
                Section::ChecksForQuantity => {
                    let (key, order_id) = (reader.read("key")?, reader.read("order id")?);
                    let quantity = &mut self.engine.contingents.minimum_quantity_orders;
                    quantity.restore_line(key, order_id);
                }
                Section::End => self.expected = reader.read("hash")?,
            }
        }
        Ok(())
    }

    /// Returns the engine after the last section.
    ///
    /// # Errors
    /// The last section is missing, two orders have one key, a session exceeds its maximum of
    /// orders, or the state hash differs.
    pub fn finish(self) -> Result<Engine, StateError> {
        let Self { mut engine, last, live, expected, next_place, .. } = self;
        if last != Some(Section::End) {
            return Err(StateError::Unfinished);
        }
        for mut orders in live {
            orders.sort_by_key(|(key, _)| key.channel);
            for orders in orders.chunk_by(|(one, _), (next, _)| one.channel == next.channel) {
                let key = orders[0].0;
                // Their number exceeds the session's maximum if the maximum was lowered.
                if !engine.sessions.owner_mut(key).restore_live(key.channel, orders) {
                    return Err(Section::Orders.field("key"));
                }
            }
        }
        let half_matched = |field| Section::HalfMatched.field(field);
        engine.restore_half_matched_orders().map_err(half_matched)?;
        engine.money.restore_issued()?;
        let tied = |field| Section::Waiting.field(field);
        let contingents: Vec<_> = engine.contingents.iter().collect();
        for id in contingents {
            engine.restore_links(id).map_err(tied)?;
        }
        engine.contingents.next_place = next_place;
        engine.compare_references();
        let pending = |field| Section::PendingCancels.field(field);
        engine.restore_pending_cancels().map_err(pending)?;
        let found = engine.state_hash();
        if found != expected {
            return Err(StateError::Hash { expected, found });
        }
        Ok(engine)
    }

    fn exchange(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let engine = &mut self.engine;
        engine.sequence = from.read("sequence")?;
        engine.timestamp = from.read("timestamp")?;
        if let Some(event) = from.read("day")? {
            engine.day.advance(event);
        }
        engine.order_id_last = from.read("order id")?;
        engine.trade_id_last = from.read("trade id")?;
        engine.orders_accepted = from.read("orders accepted")?;
        engine.auctions_held = from.read("auctions")?;
        if engine.trade_id_last.0 < engine.auctions_held {
            return Err(DecodeError::Field("auctions"));
        }
        if engine.order_id_last.0 < engine.orders_accepted {
            return Err(DecodeError::Field("orders accepted"));
        }
        Ok(())
    }

    fn instrument(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let add: AddInstrument = from.read("instrument")?;
        let mut added = None;
        self.engine.add_instrument(&add, &mut |event| added = Some(event));
        let Some(Event::InstrumentAdded(Instrument { instrument_id, .. })) = added else {
            return Err(DecodeError::Field("instrument"));
        };
        let trading = read_trading(from)?;
        if trading.is_removed {
            self.engine.symbols.remove(&add.symbol);
        }
        self.engine.change_trading(instrument_id, |it| *it = trading);
        self.engine.books[instrument_id].sharing = trading.sharing();
        Ok(())
    }

    fn trade(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let trade: PastTrade = from.read("trade")?;
        let is_busted = from.read("is busted")?;
        let engine = &mut self.engine;
        let is_later = engine.trades.last_id() < trade.trade_id;
        if !is_later || engine.trade_id_last < trade.trade_id {
            return Err(DecodeError::Field("trade id"));
        }
        if engine.books.get(trade.instrument_id).is_none() {
            return Err(DecodeError::Field("instrument"));
        }
        if PRICE_MAX < trade.price || QUANTITY_LIMIT < trade.quantity {
            return Err(DecodeError::Field("price and quantity"));
        }
        engine.trades.add_past(&trade, is_busted);
        Ok(())
    }

    fn block(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let scope = from.read("scope")?;
        let engine = &mut self.engine;
        if engine.blocks.last().is_some_and(|last| scope <= *last)
            || engine.blocks.len() == BLOCKS_MAX
        {
            return Err(DecodeError::Field("block"));
        }
        engine.blocks.push(scope);
        Ok(())
    }

    fn last_command(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let last: LastCommand = from.read("operator")?;
        if let OperatorOutcome::Declined(
            OperatorDecline::NumberUsed(_) | OperatorDecline::TooManyOperators,
        ) = last.outcome
        {
            return Err(DecodeError::Field("outcome"));
        }
        let engine = &mut self.engine;
        let operators = &mut engine.operators.last;
        if operators.last().is_some_and(|before| last.operator <= before.operator)
            || operators.len() == OPERATORS_MAX
            || engine.sequence < last.sequence
        {
            return Err(DecodeError::Field("operator"));
        }
        operators.push(last);
        Ok(())
    }

    fn held_setting(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let setting = from.read("setting")?;
        let engine = &mut self.engine;
        if engine.operators.held.last().is_some_and(|before| setting <= *before) {
            return Err(DecodeError::Field("setting"));
        }
        engine.operators.held.push(setting);
        Ok(())
    }

    fn session(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let add: AddSession = from.read("session")?;
        let mut added = None;
        self.engine.add_session(&add, &mut |event| added = event.session_id());
        let session_id = added.ok_or(DecodeError::Field("session"))?;
        let size_class = from.read("size class")?;
        if CLASS_MAX < size_class {
            return Err(DecodeError::Field("size class"));
        }
        let session = self.engine.sessions.get_mut(session_id).expect("it was added above");
        session.set_size_class(size_class);
        for _ in 0..from.read::<u16>("channels")? {
            let (channel, user_ref_num) = (from.read("channel")?, from.read("last number")?);
            let key = OrderKey { session_id, channel, user_ref_num };
            if !self.engine.consume(key) {
                return Err(DecodeError::Field("last number"));
            }
        }
        for _ in 0..from.read::<u16>("firms")? {
            let firm = from.read("firm that may not enter")?;
            let session = self.engine.sessions.get_mut(session_id).expect("it was added above");
            if !session.switch_entry(firm, false) {
                return Err(DecodeError::Field("firm that may not enter"));
            }
        }
        Ok(())
    }

    /// Restores the turn of an order that was triggered; it was restored in the stop book.
    fn triggered(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let (next_place, key, turn): (u64, OrderKey, Turn) =
            (from.read("next place")?, from.read("key")?, from.read("turn")?);
        let Engine { contingents, triggers, pool, .. } = &mut self.engine;
        let id = contingents.iter().find(|id| contingents[*id].key == key);
        let id = id.filter(|id| contingents[*id].state == State::ForTrigger);
        let id = id.ok_or(DecodeError::Field("key"))?;
        if turn.place < contingents.next_place || next_place <= turn.place {
            return Err(DecodeError::Field("place"));
        }
        let Contingent { slot, instrument_id, .. } = contingents[id];
        let triggers = &mut triggers[instrument_id];
        triggers.remove(contingents, pool[slot].order.side(), id);
        contingents.next_place = turn.place;
        contingents.line_up(id, turn.trigger);
        contingents.has_triggered_left = true;
        self.next_place = next_place;
        Ok(())
    }

    fn last_trade(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let (instrument_id, last): (InstrumentId, _) =
            (from.read("instrument")?, from.read("last")?);
        let triggers = self.engine.triggers.get_mut(instrument_id);
        let triggers = triggers.ok_or(DecodeError::Field("instrument"))?;
        if last == 0 || triggers.last() != 0 {
            return Err(DecodeError::Field("last trade"));
        }
        triggers.restore_last(last);
        Ok(())
    }

    /// Keeps an order for its session, of which not all orders are known yet.
    fn add_live(&mut self, key: OrderKey, slot: Slot) {
        let session = usize::from(key.session_id.0);
        if self.live.len() <= session {
            self.live.resize_with(session + 1, Vec::new);
        }
        self.live[session].push((key, slot));
    }

    /// Restores an order, in the book or outside.
    fn order(&mut self, from: &mut ByteReader<'_>, is_resting: bool) -> Result<(), DecodeError> {
        let record: OrderRecord = from.read("order")?;
        let OrderRecord { order_id, key, instrument_id, side, display, iceberg, .. } = record;
        let (waits, contingent) = (record.for_auction, record.contingent);
        let price = record.price.price();
        let [quantity, executed, canceled, prevented] =
            [record.quantity, record.executed, record.canceled, record.prevented]
                .map(Lots::quantity);

        let engine = &mut self.engine;
        let used = engine.sessions.get(key.session_id).is_some_and(|it| !it.is_unused(key));
        if !used || key.user_ref_num == 0 {
            return Err(DecodeError::Field("key"));
        }
        let book = engine.books.get(instrument_id).ok_or(DecodeError::Field("instrument"))?;
        let priced = match is_resting {
            true => price != Price::ZERO || waits == ForAuction::No,
            false => contingent.is_some_and(|it| {
                let is_pegged = it.instructions.pricing.is_pegged();
                it.order_type == OrderType::Limit && !is_pegged || it.is_half_matched && is_pegged
            }),
        };
        if PRICE_MAX < price || book.is_price(price) != priced {
            return Err(DecodeError::Field("price"));
        }
        let gone = executed.0 + canceled.0 + prevented.0;
        if book.quantity_max() < quantity || quantity.0 <= gone {
            return Err(DecodeError::Field("quantity"));
        }
        if order_id == OrderId(0) || engine.order_id_last < order_id {
            return Err(DecodeError::Field("order id"));
        }
        let in_order = book.trading.phase == Phase::Continuous && waits == ForAuction::No;
        if is_resting && in_order && book.would_cross(side, Some(price)) {
            return Err(DecodeError::Field("price"));
        }
        let mut order = Order::new(OrderTerms {
            order_id,
            key,
            price,
            quantity,
            executed,
            prevented,
            instrument_id,
            group_id: record.group_id,
            firm: record.firm,
            side,
            display,
            capacity: record.capacity,
            customer_type: record.customer_type,
            conditions: Conditions {
                self_match_prevention: record.self_match_prevention,
                self_match_group: record.self_match_group,
                post_only: record.post_only,
                minimum_quantity: Lots::ZERO,
            },
            time_in_force: record.time_in_force,
            is_contingent: contingent.is_some(),
        });
        order.reduce(canceled);
        order.set_iceberg(iceberg.is_some());
        order.set_for_auction(waits);
        let parts = iceberg.is_none_or(|it| {
            let shown = it.shown.quantity();
            display.is_displayed()
                && waits == ForAuction::No
                && !shown.is_zero()
                && shown <= order.leaves()
                && it.shown_quantity != Lots::ZERO
        });
        if !parts {
            return Err(DecodeError::Field("iceberg"));
        }
        if !is_resting && (contingent.is_none() || iceberg.is_some()) {
            return Err(DecodeError::Field("instructions"));
        }
        if !is_resting {
            engine.money.restore_order(&order)?;
            let slot = engine.pool.add(|| order, Slot::NONE);
            self.add_live(key, slot);
            return self
                .restore_contingent(slot, contingent, is_resting)
                .map_err(DecodeError::Field);
        }
        // Auction-only orders are together, displayed or not.
        let level = |it: &Order| {
            let auction = it.for_auction().time_in_force();
            let displayed = auction.is_none() && it.display().is_displayed();
            (it.instrument_id, it.side().is_buy(), it.price(), displayed, auction)
        };
        let elder = self.elder.map(|slot| &engine.pool[slot].order);
        if elder.is_some_and(|it| level(it) == level(&order) && order.order_id() <= it.order_id()) {
            return Err(DecodeError::Field("order id"));
        }
        engine.money.restore_order(&order)?;
        let slot = engine.rest(&order);
        if let Some(iceberg) = iceberg {
            engine.icebergs.insert(slot, iceberg);
        }
        self.elder = Some(slot);
        self.add_live(key, slot);
        self.restore_contingent(slot, contingent, is_resting).map_err(DecodeError::Field)
    }

    /// Restores the instructions of the order in a slot; the error is the invalid field.
    fn restore_contingent(
        &mut self,
        slot: Slot,
        record: Option<ContingentRecord>,
        is_resting: bool,
    ) -> Result<(), &'static str> {
        let Some(record) = record else { return Ok(()) };
        let ContingentRecord { order_type, minimum_quantity, instructions, is_half_matched, mark } =
            record;
        let engine = &mut self.engine;
        let order = engine.pool[slot].order;
        let is_triggered = instructions.pricing.is_triggered();
        let is_pegged = instructions.pricing.is_pegged();
        let state = match (is_resting, instructions.parent) {
            (false, 0) if is_half_matched && !is_triggered => State::HalfMatched,
            _ if is_half_matched => return Err("instructions"),
            (true, 0) if !is_triggered => State::Resting,
            (false, 0) if is_triggered => State::ForTrigger,
            (false, 0) if is_pegged => State::ForReference,
            (false, 0) if mark == AFTER_AUCTION => State::ForAuction,
            (false, 0) => State::ForQuantity,
            (false, parent) if parent != 0 => State::ForParent,
            _ => return Err("parent"),
        };
        let is_good_till_time = order.time_in_force() == TimeInForce::GoodTillTime;
        if is_good_till_time != (instructions.expires_s != 0) {
            return Err("expiry");
        }
        let trail_fits = match instructions.pricing {
            Pricing::TrailingStop => {
                0 < instructions.offset && instructions.trigger.price() <= PRICE_MAX
            }
            _ => is_pegged || instructions.offset == 0,
        };
        let limit = Price(if is_pegged { mark.into() } else { 0 });
        let limit_fits = match order_type {
            OrderType::Limit => engine.books[order.instrument_id].is_price(limit),
            _ => limit == Price::ZERO,
        };
        if is_pegged
            && (!limit_fits
                || order.display().is_displayed()
                || order.for_auction() != ForAuction::No)
        {
            return Err("limit");
        }
        if !trail_fits
            || (state == State::ForTrigger
                && instructions.pricing != Pricing::TrailingStop
                && mark != 0)
        {
            return Err("offset");
        }
        let mut contingent = Contingent::new(&order, instructions, order_type, minimum_quantity);
        contingent.limit = limit;
        let Engine { contingents, triggers, .. } = engine;
        let id = contingents.add(contingent);
        if state == State::ForTrigger {
            let triggers = &mut triggers[order.instrument_id];
            triggers.restore(contingents, order.side(), id, mark);
        }
        contingents.place(id, slot, state, &order);
        if state == State::ForAuction {
            engine.add_waiting(&order);
        }
        if state == State::ForQuantity
            && !engine.restore_waiting_for_quantity(order.instrument_id, id)
        {
            return Err("quantity");
        }
        Ok(())
    }
}

fn read_trading(from: &mut ByteReader<'_>) -> Result<TradingStatus, DecodeError> {
    let mut trading: TradingStatus = from.read("trading status")?;
    trading.settle();
    if PEGS_LIMIT < trading.pegs_max || PEGS_LIMIT < trading.session_pegs_max {
        return Err(DecodeError::Field("pegs"));
    }
    if trading.time_share > 1_000_000 {
        return Err(DecodeError::Field("time share"));
    }
    if PRICE_MAX < trading.reference_price || PRICE_MAX < trading.price_last {
        return Err(DecodeError::Field("reference price"));
    }
    if trading.is_removed && trading.phase != Phase::Closed {
        return Err(DecodeError::Field("phase"));
    }
    Ok(trading)
}
