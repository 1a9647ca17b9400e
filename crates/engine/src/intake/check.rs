//! The checks of an order, new or a replacement, in the order of precedence of their reject reasons.
//!
//! Invariant: a check changes nothing. The terms of new orders and of replacements pass one list,
//! [`Engine::check_terms`].

use market::{
    Firm, Instructions, InstrumentId, Lots, OrderKey, OrderType, Price, Pricing, RejectReason,
    Side, Symbol, Ticks, TimeInForce, Timestamp,
};

use super::classify::{OrderClass, Proposal};
use crate::{Engine, auction::phases, book::Book, order::ForAuction, order::QUANTITY_LIMIT};

impl Engine {
    /// May this firm enter such orders here and now? The instrument that they are for, if so.
    pub(crate) fn check_entry(
        &self,
        key: OrderKey,
        firm: Firm,
        group_id: u16,
        side: Side,
        symbol: &Symbol,
    ) -> Result<InstrumentId, RejectReason> {
        if !self.day.is_open() {
            return Err(RejectReason::MarketClosed);
        }
        if !self.sessions.owner(key).may_enter(firm) {
            return Err(RejectReason::EntryDisabled);
        }
        let number = self.symbols.find(symbol).ok_or(RejectReason::InvalidSymbol)?;
        self.check_blocks(key, firm, *symbol, side, group_id)?;
        phases::is_open(self.trading(InstrumentId(number)).phase)?;
        Ok(InstrumentId(number))
    }

    /// Are the terms of an order allowed, and possible now?
    pub(crate) fn check_terms(
        &self,
        asked: &Proposal,
        class: &OrderClass,
    ) -> Result<(), RejectReason> {
        let book = self.book_at(asked.instrument_id);
        quantity_and_price(book, asked)?;
        display(asked)?;
        minimum_quantity(asked)?;
        iceberg(asked)?;
        peg(book, asked)?;
        combination(asked, class)?;
        expiry(asked, self.timestamp)?;
        trigger(book, asked)?;
        self.check_links(asked)?;
        phases::takes(book.trading.phase, asked.time_in_force, class)?;
        self.check_bounded(asked.instrument_id, asked.side, class)?;
        book.trading.limits(asked.side, asked.order_type, asked.quantity, asked.price)
    }

    /// An order to buy that is collected without a price could cost any amount, so it is rejected
    /// where orders are paid for.
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

fn quantity_and_price(book: &Book, asked: &Proposal) -> Result<(), RejectReason> {
    if asked.leaves().is_zero() || book.quantity_max() < asked.quantity {
        return Err(RejectReason::InvalidQuantity);
    }
    let price_allowed = match asked.order_type {
        OrderType::Limit => book.is_price(asked.price),
        OrderType::Market | OrderType::MarketToLimit => asked.price == Price::ZERO,
    };
    if price_allowed { Ok(()) } else { Err(RejectReason::InvalidPrice) }
}

/// A pegged order is hidden.
fn display(asked: &Proposal) -> Result<(), RejectReason> {
    if asked.instructions.pricing.is_pegged() && asked.display.is_displayed() {
        return Err(RejectReason::InvalidDisplay);
    }
    Ok(())
}

/// A minimum is no more than what is open, and of an order that trades when it comes in.
fn minimum_quantity(asked: &Proposal) -> Result<(), RejectReason> {
    let minimum = asked.conditions.minimum_quantity;
    let rests = asked.time_in_force.is_for_auction()
        || asked.instructions.pricing.is_pegged()
        || asked.order_type == OrderType::MarketToLimit && asked.time_in_force.may_rest();
    if minimum != Lots::ZERO && (rests || asked.leaves() < minimum.quantity()) {
        return Err(RejectReason::InvalidMinimumQuantity);
    }
    Ok(())
}

/// An iceberg is at most this many times its shown quantity, which bounds how often an incoming order
/// meets refreshed parts of it.
const ICEBERG_FACTOR_MAX: u64 = 100;

fn iceberg(asked: &Proposal) -> Result<(), RejectReason> {
    let Instructions { shown_quantity, shown_range, .. } = asked.instructions;
    let is_iceberg = shown_quantity != Lots::ZERO || shown_range != Lots::ZERO;
    let allowed = asked.display.is_displayed()
        && shown_quantity.quantity() <= QUANTITY_LIMIT
        && asked.quantity.0 <= ICEBERG_FACTOR_MAX * u64::from(shown_quantity.0)
        && shown_range < shown_quantity;
    if !is_iceberg || allowed { Ok(()) } else { Err(RejectReason::InvalidMaxFloor) }
}

/// The offset of a pegged order is whole increments, and it may rest and has no trigger.
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

/// Combinations of life, conditions and instructions that the venue does not offer.
fn combination(asked: &Proposal, class: &OrderClass) -> Result<(), RejectReason> {
    let Proposal { order_type, time_in_force, instructions, .. } = asked;
    let is_market_to_limit = *order_type == OrderType::MarketToLimit;
    // A contingent order comes to the book, not to an auction.
    let is_contingent_for_auction = time_in_force.is_for_auction()
        && (is_market_to_limit || instructions.waits_outside() || instructions.all_or_none);
    // The limit of market-to-limit comes from a trade, which would be of a part only.
    let is_split = instructions.all_or_none && is_market_to_limit && time_in_force.may_rest();
    let is_odd_peg =
        instructions.pricing.is_pegged() && (instructions.all_or_none || instructions.slide);
    let never_posts = class.waits_for_quantity && asked.conditions.post_only;
    if is_contingent_for_auction || is_split || is_odd_peg || never_posts {
        return Err(RejectReason::NotSupported);
    }
    Ok(())
}

/// An order has a moment of expiry, in the future, if and only if it is good till a time.
fn expiry(asked: &Proposal, now: Timestamp) -> Result<(), RejectReason> {
    let expires_s = asked.instructions.expires_s;
    let allowed = match asked.time_in_force {
        TimeInForce::GoodTillTime => now.0 < u64::from(expires_s) * 1_000_000_000,
        _ => expires_s == 0,
    };
    if allowed { Ok(()) } else { Err(RejectReason::InvalidExpiry) }
}

/// Trigger and distance are those that the pricing needs, and no others.
fn trigger(book: &Book, asked: &Proposal) -> Result<(), RejectReason> {
    let Instructions { pricing, trigger, offset, .. } = asked.instructions;
    let has_trigger = trigger != Ticks::ZERO;
    let allowed = match pricing {
        Pricing::Stop | Pricing::TakeProfit => book.is_price(trigger.price()) && offset == 0,
        Pricing::TrailingStop => {
            let distance = Price(offset.max(0) as u64);
            // The limit of one keeps its distance to the trigger that was entered.
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

/// May an order go from one side to the other? Only from one kind of sell to another, or nowhere.
pub(crate) fn side_change(from: Side, to: Side) -> bool {
    from.is_buy() == to.is_buy()
}
