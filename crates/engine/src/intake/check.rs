//! The checks of an order, in the order of the codes of their reject reasons.

use market::{
    Conditions, Display, Firm, Instructions, Lots, OrderType, Price, Pricing, Quantity,
    RejectReason, ReplaceTerms, Side, Ticks, TimeInForce, Timestamp,
};

use crate::{
    auction::{phases, trading_status::Trading},
    book::Book,
    contingent::minimum_quantity::is_patient,
    intake::{session::Session, trading_day::Day},
    order::{Order, QUANTITY_LIMIT},
};

/// May this firm enter orders here and now?
#[inline]
pub(crate) fn entry(day: Day, session: &Session, firm: Firm) -> Result<(), RejectReason> {
    if !day.is_open() {
        return Err(RejectReason::MarketClosed);
    }
    if !session.may_enter(firm) {
        return Err(RejectReason::EntryDisabled);
    }
    Ok(())
}

/// Has an order a quantity and a price that it may have in this book?
#[inline]
pub(crate) fn terms(
    book: &Book,
    order_type: OrderType,
    quantity: Quantity,
    price: Price,
) -> Result<(), RejectReason> {
    if quantity.is_zero() || book.quantity_max() < quantity {
        return Err(RejectReason::InvalidQuantity);
    }
    let price_allowed = match order_type {
        OrderType::Limit => book.is_price(price),
        OrderType::Market | OrderType::MarketToLimit => price == Price::ZERO,
    };
    if !price_allowed {
        return Err(RejectReason::InvalidPrice);
    }
    Ok(())
}

/// Has an order of which so much is open a minimum quantity that it may have?
#[inline]
pub(crate) fn minimum(
    minimum: Lots,
    order_type: OrderType,
    time_in_force: TimeInForce,
    is_pegged: bool,
    leaves: Quantity,
) -> Result<(), RejectReason> {
    let rests = time_in_force.is_for_auction()
        || is_pegged
        || order_type == OrderType::MarketToLimit && time_in_force.may_rest();
    if minimum != Lots::ZERO && (rests || leaves < minimum.quantity()) {
        return Err(RejectReason::InvalidMinimumQuantity);
    }
    Ok(())
}

/// Is an order that follows the market hidden?
#[inline]
pub(crate) fn display(display: Display, instructions: &Instructions) -> Result<(), RejectReason> {
    if instructions.pricing.is_pegged() && display.is_displayed() {
        return Err(RejectReason::InvalidDisplay);
    }
    Ok(())
}

/// Of which type an order is once it is in the book, if it ever is: one that follows the market is
/// priced there.
#[inline]
pub(crate) fn type_in_book(order_type: OrderType, instructions: &Instructions) -> OrderType {
    if instructions.pricing.is_pegged() { OrderType::Limit } else { order_type }
}

/// Has an order that follows the market an offset that one may have, and may it follow the market?
#[inline]
pub(crate) fn peg(
    book: &Book,
    order_type: OrderType,
    time_in_force: TimeInForce,
    instructions: &Instructions,
) -> Result<(), RejectReason> {
    if !instructions.pricing.is_pegged() {
        return Ok(());
    }
    let distance = Price(instructions.offset.unsigned_abs().into());
    if distance != Price::ZERO && !book.is_price(distance) || instructions.trigger != Ticks::ZERO {
        return Err(RejectReason::InvalidPegType);
    }
    if order_type == OrderType::MarketToLimit || !time_in_force.may_rest() {
        return Err(RejectReason::PeggingNotAllowed);
    }
    Ok(())
}

/// Is everything offered that an order asks for?
#[inline]
pub(crate) fn offered(
    order_type: OrderType,
    time_in_force: TimeInForce,
    conditions: &Conditions,
    instructions: &Instructions,
) -> Result<(), RejectReason> {
    use TimeInForce::*;
    let Conditions { post_only, minimum_quantity, .. } = *conditions;
    let is_patient = is_patient(order_type, time_in_force, minimum_quantity, instructions);
    let life_offered = match time_in_force {
        Day | GoodTillCancel | ImmediateOrCancel | FillOrKill | GoodTillTime => true,
        // What waits comes to the book, not to an auction.
        AtTheOpen | AtTheClose | GoodForAuction => {
            order_type != OrderType::MarketToLimit
                && !instructions.waits()
                && !instructions.all_or_none
        }
    };
    // A limit comes only of a trade, which is for the one that rests then.
    let is_split = instructions.all_or_none
        && order_type == OrderType::MarketToLimit
        && time_in_force.may_rest();
    let asks_for_quantity_or_slides = instructions.all_or_none || instructions.slide;
    let is_odd = instructions.pricing.is_pegged() && asks_for_quantity_or_slides
        || is_split
        || is_patient && post_only;
    if !life_offered || is_odd {
        return Err(RejectReason::NotSupported);
    }
    Ok(())
}

/// An order may be so many times as large as what is shown of it, so that one that comes in meets
/// its parts not many times more often.
const RESERVE_FACTOR_MAX: u64 = 100;

/// Has an order of this quantity a shown part that it may have?
pub(crate) fn reserve(
    display: Display,
    quantity: Quantity,
    instructions: &Instructions,
) -> Result<(), RejectReason> {
    let Instructions { shown_quantity, shown_range, .. } = *instructions;
    let none = shown_quantity == Lots::ZERO && shown_range == Lots::ZERO;
    let allowed = display.is_displayed()
        && shown_quantity.quantity() <= QUANTITY_LIMIT
        && quantity.0 <= RESERVE_FACTOR_MAX * u64::from(shown_quantity.0)
        && shown_range < shown_quantity;
    if !none && !allowed {
        return Err(RejectReason::InvalidMaxFloor);
    }
    Ok(())
}

/// Has an order a moment at which it expires, if and only if it is to have one, and is that to come?
pub(crate) fn expiry(
    time_in_force: TimeInForce,
    expires_s: u32,
    now: Timestamp,
) -> Result<(), RejectReason> {
    let allowed = match time_in_force {
        TimeInForce::GoodTillTime => now.0 < u64::from(expires_s) * 1_000_000_000,
        _ => expires_s == 0,
    };
    if allowed { Ok(()) } else { Err(RejectReason::InvalidExpiry) }
}

/// Has an order a trigger and a distance that an order of its pricing may have, and no other?
pub(crate) fn trigger(
    book: &Book,
    side: Side,
    order_type: OrderType,
    instructions: &Instructions,
) -> Result<(), RejectReason> {
    let Instructions { pricing, trigger, offset, .. } = *instructions;
    let has_trigger = trigger != Ticks::ZERO;
    let allowed = match pricing {
        Pricing::Stop | Pricing::TakeProfit => book.is_price(trigger.price()) && offset == 0,
        Pricing::TrailingStop => {
            let distance = Price(offset.max(0) as u64);
            // The limit of one keeps its distance to the trigger that it is told.
            book.is_price(distance)
                && (!has_trigger || book.is_price(trigger.price()))
                && (has_trigger || order_type != OrderType::Limit)
                && (!has_trigger || !side.is_buy() || distance < trigger.price())
        }
        Pricing::PrimaryPeg | Pricing::MarketPeg | Pricing::MidpointPeg => !has_trigger,
        Pricing::Limit => !has_trigger && offset == 0,
    };
    if allowed { Ok(()) } else { Err(RejectReason::InvalidTrigger) }
}

/// Could this order go on under these terms, with something left to trade?
pub(crate) fn replacement(
    book: &Book,
    original: &Order,
    new: &ReplaceTerms,
    instructions: &Instructions,
    now: Timestamp,
) -> bool {
    let trading = &book.trading;
    let leaves = new.quantity.saturating_sub(original.used());
    let minimum_quantity = new.conditions.minimum_quantity.unwrap_or_default();
    let type_in_book = type_in_book(new.order_type, instructions);
    let is_pegged = instructions.pricing.is_pegged();
    let conditions = Conditions { minimum_quantity, ..new.conditions.apply(original.conditions()) };
    let Trading { phase, .. } = *trading;
    terms(book, new.order_type, new.quantity, new.price).is_ok()
        && display(new.display, instructions).is_ok()
        && peg(book, new.order_type, new.time_in_force, instructions).is_ok()
        && reserve(new.display, new.quantity, instructions).is_ok()
        && offered(new.order_type, new.time_in_force, &conditions, instructions).is_ok()
        && expiry(new.time_in_force, instructions.expires_s, now).is_ok()
        && trigger(book, original.side, new.order_type, instructions).is_ok()
        && minimum(minimum_quantity, new.order_type, new.time_in_force, is_pegged, leaves).is_ok()
        && phases::takes(phase, type_in_book, new.time_in_force, minimum_quantity, instructions)
            .is_ok()
        && trading.limits(original.side, new.order_type, new.quantity, new.price).is_ok()
        && new.side.is_none_or(|side| side_change(original.side, side))
        && !leaves.is_zero()
}

/// May an order go from one side to the other? Only from one kind of sell to another, or nowhere.
pub(crate) fn side_change(from: Side, to: Side) -> bool {
    from.is_buy() == to.is_buy()
}
