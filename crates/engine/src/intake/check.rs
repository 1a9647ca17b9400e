//! The checks of an order, new or a replacement, in the order of precedence of their reject
//! reasons.
//!
//! Invariant: a check changes nothing. The terms of new orders and of replacements pass one list,
//! [`Engine::check_terms`].

use market::{
    AccountId, Firm, Instructions, InstrumentId, OrderKey, OrderType, Phase, Price, Pricing,
    RejectReason, Scope, SessionId, Side, Symbol, Ticks, TimeInForce, Timestamp,
};

use super::classify::{OrderClass, Proposal};
use crate::{
    Engine,
    auction::phases,
    book::Book,
    order::{ForAuction, Order},
};

impl Engine {
    /// Checks that this firm may enter such orders in this instrument now; returns the instrument.
    pub(crate) fn check_entry(
        &self,
        key: OrderKey,
        firm: Firm,
        group_id: u16,
        side: Side,
        symbol: &Symbol,
    ) -> Result<InstrumentId, RejectReason> {
        self.check_firm(key, firm)?;
        let number = self.symbols.find(symbol).ok_or(RejectReason::InvalidSymbol)?;
        self.check_blocks(key, firm, *symbol, side, group_id)?;
        let trading = &self.books[InstrumentId(number)].trading;
        phases::is_open(trading.phase)?;
        // In continuous trading a new order waits.
        if trading.is_uncrossing && trading.phase != Phase::Continuous {
            return Err(RejectReason::NotInPhase);
        }
        Ok(InstrumentId(number))
    }

    #[inline]
    fn check_firm(&self, key: OrderKey, firm: Firm) -> Result<(), RejectReason> {
        if !self.day.is_open() {
            return Err(RejectReason::MarketClosed);
        }
        if !self.sessions.owner(key).may_enter(firm) {
            return Err(RejectReason::EntryDisabled);
        }
        Ok(())
    }

    /// True if no block covers an order with these fields.
    fn check_blocks(
        &self,
        key: OrderKey,
        firm: Firm,
        symbol: Symbol,
        side: Side,
        group_id: u16,
    ) -> Result<(), RejectReason> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        let firm = self.sessions.owner(key).resolve(firm);
        let asked = Scope {
            session_id: key.session_id,
            firm,
            symbol,
            side: Some(side),
            group_id: Some(group_id),
            account_id: self.money.account_id(key.session_id),
        };
        if self.blocks.iter().any(|block| covers(block, &asked)) {
            return Err(RejectReason::EntryBlocked);
        }
        Ok(())
    }

    /// Checks that this order may be replaced now. Its instrument may be removed, and its symbol that of
    /// another one.
    pub(crate) fn check_entry_again(
        &self,
        key: OrderKey,
        original: &Order,
    ) -> Result<(), RejectReason> {
        self.check_firm(key, original.firm)?;
        let book = &self.books[original.instrument_id];
        let symbol = book.instrument().symbol;
        self.check_blocks(key, original.firm, symbol, original.side(), original.group_id)?;
        phases::is_open(book.trading.phase)?;
        if book.trading.is_uncrossing {
            return Err(RejectReason::NotInPhase);
        }
        Ok(())
    }

    /// Checks that the terms of an order are allowed and possible now.
    pub(crate) fn check_terms(
        &self,
        asked: &Proposal,
        class: &OrderClass,
    ) -> Result<(), RejectReason> {
        let book = &self.books[asked.instrument_id];
        quantity_and_price(book, asked)?;
        display(asked)?;
        minimum_quantity(asked)?;
        iceberg(asked)?;
        peg(book, asked)?;
        combination(asked, class)?;
        expiry(asked, self.timestamp)?;
        trigger(book, asked)?;
        if asked.original.is_some() || asked.instructions.has_links() {
            self.check_links(asked)?;
        }
        phases::takes(book.trading.phase, asked.time_in_force, class)?;
        self.check_bounded(asked.instrument_id, asked.side, class)?;
        book.trading.limits(asked.side, asked.order_type, asked.quantity, asked.price)?;
        if asked.instructions.pricing.is_pegged() {
            self.check_peg_count(asked)?;
        }
        Ok(())
    }

    /// Rejects a buy order without a limit that would be collected, where orders are paid for: its
    /// cost has no bound.
    pub(crate) fn check_bounded(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        class: &OrderClass,
    ) -> Result<(), RejectReason> {
        let is_bounded = !side.is_buy()
            || class.type_in_book == OrderType::Limit
            || class.auction == ForAuction::No;
        if is_bounded || self.money.terms(instrument_id).is_none() {
            return Ok(());
        }
        Err(RejectReason::NotInPhase)
    }
}

/// True if a scope covers orders with these fields.
fn covers(scope: &Scope, asked: &Scope) -> bool {
    (scope.session_id == SessionId(0) || scope.session_id == asked.session_id)
        && (scope.firm.is_blank() || scope.firm == asked.firm)
        && (scope.symbol.is_blank() || scope.symbol == asked.symbol)
        && (scope.side.is_none() || scope.side == asked.side)
        && (scope.group_id.is_none() || scope.group_id == asked.group_id)
        && (scope.account_id == AccountId::VENUE || scope.account_id == asked.account_id)
}

fn quantity_and_price(book: &Book, asked: &Proposal) -> Result<(), RejectReason> {
    if asked.leaves().is_zero() || book.quantity_max() < asked.quantity {
        return Err(RejectReason::InvalidQuantity);
    }
    match asked.order_type {
        OrderType::Limit => book.ranks(asked.side, asked.quantity, asked.price).map(|_| ()),
        OrderType::Market | OrderType::MarketToLimit if asked.price == Price::ZERO => Ok(()),
        OrderType::Market | OrderType::MarketToLimit => Err(RejectReason::InvalidPrice),
    }
}

/// Checks that a pegged order is hidden.
fn display(asked: &Proposal) -> Result<(), RejectReason> {
    if asked.instructions.pricing.is_pegged() && asked.display.is_displayed() {
        return Err(RejectReason::InvalidDisplay);
    }
    Ok(())
}

/// Checks a minimum quantity: at most the open lots, and only where the order may trade when it
/// comes in.
fn minimum_quantity(asked: &Proposal) -> Result<(), RejectReason> {
    let minimum = asked.conditions.minimum_quantity;
    let rests = asked.time_in_force.is_for_auction()
        || asked.instructions.pricing.is_pegged()
        || asked.order_type == OrderType::MarketToLimit && asked.time_in_force.may_rest();
    if !minimum.is_zero() && (rests || asked.leaves() < minimum.quantity()) {
        return Err(RejectReason::InvalidMinimumQuantity);
    }
    Ok(())
}

/// The largest quantity of an iceberg, as a multiple of its shown quantity. It bounds how many
/// refreshed parts an incoming order can meet.
const ICEBERG_FACTOR_MAX: u64 = 100;

fn iceberg(asked: &Proposal) -> Result<(), RejectReason> {
    let Instructions { shown_quantity, shown_range, .. } = asked.instructions;
    let is_iceberg = !shown_quantity.is_zero() || shown_range != 0;
    let allowed = asked.display.is_displayed()
        && asked.quantity.0 <= ICEBERG_FACTOR_MAX * shown_quantity.get()
        && u64::from(shown_range) < shown_quantity.get();
    if !is_iceberg || allowed { Ok(()) } else { Err(RejectReason::InvalidMaxFloor) }
}

/// Checks a pegged order: its offset is a multiple of the increment, it may rest, and it has no
/// trigger.
fn peg(book: &Book, asked: &Proposal) -> Result<(), RejectReason> {
    let Instructions { pricing, offset, trigger, .. } = asked.instructions;
    if !pricing.is_pegged() {
        return Ok(());
    }
    let distance = Price(offset.unsigned_abs().into());
    if distance != Price::ZERO && !book.is_price(distance) || trigger != Ticks::ZERO {
        return Err(RejectReason::InvalidPegType);
    }
    if asked.order_type == OrderType::MarketToLimit || !asked.time_in_force.may_rest() {
        return Err(RejectReason::PeggingNotAllowed);
    }
    Ok(())
}

/// Checks the combination of time in force, conditions and instructions.
fn combination(asked: &Proposal, class: &OrderClass) -> Result<(), RejectReason> {
    let Proposal { order_type, time_in_force, instructions, .. } = asked;
    let is_market_to_limit = *order_type == OrderType::MarketToLimit;
    // A contingent order enters the book, never an auction.
    let is_contingent_for_auction = time_in_force.is_for_auction()
        && (is_market_to_limit
            || instructions.waits_outside()
            || instructions.handling.is_all_or_none());
    // A market-to-limit order gets its limit from a trade, which would be partial.
    let is_split =
        instructions.handling.is_all_or_none() && is_market_to_limit && time_in_force.may_rest();
    let is_odd_peg = instructions.pricing.is_pegged()
        && (instructions.handling.is_all_or_none() || instructions.handling.slides());
    let never_posts = class.waits_for_quantity && asked.conditions.post_only;
    if is_contingent_for_auction || is_split || is_odd_peg || never_posts {
        return Err(RejectReason::NotSupported);
    }
    Ok(())
}

/// Checks that an order has an expiry, in the future, if and only if it is GTT.
fn expiry(asked: &Proposal, now: Timestamp) -> Result<(), RejectReason> {
    let expires_s = asked.instructions.expires_s;
    let allowed = match asked.time_in_force {
        TimeInForce::GoodTillTime => now.0 < u64::from(expires_s) * 1_000_000_000,
        _ => expires_s == 0,
    };
    if allowed { Ok(()) } else { Err(RejectReason::InvalidExpiry) }
}

/// Checks that trigger and distance are those that the pricing uses.
fn trigger(book: &Book, asked: &Proposal) -> Result<(), RejectReason> {
    let Instructions { pricing, trigger, offset, .. } = asked.instructions;
    let has_trigger = trigger != Ticks::ZERO;
    let allowed = match pricing {
        Pricing::Stop | Pricing::TakeProfit => book.is_price(trigger.price()) && offset == 0,
        Pricing::TrailingStop => {
            let distance = Price(offset.max(0) as u64);
            // The limit of a trailing stop keeps its distance to the trigger as entered.
            book.is_price(distance)
                && (!has_trigger || book.is_price(trigger.price()))
                && (has_trigger || asked.order_type != OrderType::Limit)
                && (!has_trigger || !asked.side.is_buy() || distance < trigger.price())
        }
        Pricing::PrimaryPeg | Pricing::MarketPeg | Pricing::MidpointPeg => !has_trigger,
        Pricing::Limit => !has_trigger && offset == 0,
    };
    if allowed { Ok(()) } else { Err(RejectReason::InvalidTrigger) }
}

/// True if an order may change its side: from one kind of sell to another, or not at all.
pub(crate) fn side_change(from: Side, to: Side) -> bool {
    from.is_buy() == to.is_buy()
}
