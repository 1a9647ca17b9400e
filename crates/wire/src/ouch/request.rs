//! A command to the bytes that a participant sends: the client's side, for load, demo and tests.

use market::{
    Command, Conditions, CustomerType, EnterOrder, Firm, Instructions, Lots, OrderType, Price,
    Pricing, Quantity, ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, TimeInForce, Timestamp,
};

use super::{
    AccountQueryRequest, CancelOrderRequest, DisableOrderEntryRequest, EnableOrderEntryRequest,
    MARKET_PRICE, MassCancelRequest, MessageBuffer, ModifyOrderRequest, ReplaceOrderRequest,
    SELF_MATCH_GROUP_DEFAULT, Tag, command::SECONDS_TO_LIVE_END, encoder::life,
};
use crate::{
    field::{Price64, U32},
    layout::Message,
};

/// The message for `command`; [`command`](super::command) reads it back.
///
/// `None` for commands that OUCH does not have: system, instrument and session commands, refused orders, a replace
/// without terms, orders with a type or time in force that OUCH does not have, and quantities beyond 32 bits. Also
/// `None` for a good-till-time order, which needs the present time: see [`request_at`].
#[must_use]
pub fn request(command: &Command) -> Option<MessageBuffer> {
    request_with(command, None)
}

/// As [`request`], for a message that is received at this moment.
#[must_use]
pub fn request_at(command: &Command, received: Timestamp) -> Option<MessageBuffer> {
    request_with(command, Some(received))
}

fn request_with(command: &Command, received: Option<Timestamp>) -> Option<MessageBuffer> {
    Some(match command {
        Command::Enter(order) => {
            // The cross type marks an order for an auction.
            let for_auction = order.time_in_force.is_for_auction();
            let said = if for_auction { TimeInForce::Day } else { order.time_in_force };
            sayable(order.order_type, said, &order.instructions)?;
            let minimum = order.conditions.minimum_quantity;
            fit([
                order.quantity,
                minimum.quantity(),
                order.instructions.shown_quantity.quantity(),
            ])?;
            enter(order, seconds_to_live(&order.instructions, received)?)
        }
        Command::Replace(replace) => {
            let terms = replace.terms.as_ref()?;
            let instructions = terms.instructions.unwrap_or_default();
            sayable(terms.order_type, terms.time_in_force, &instructions)?;
            let minimum = terms.conditions.minimum_quantity.unwrap_or_default();
            fit([terms.quantity, minimum.quantity(), instructions.shown_quantity.quantity()])?;
            let seconds = seconds_to_live(&instructions, received)?;
            let mut message = MessageBuffer::with_appendage(&ReplaceOrderRequest {
                message_type: ReplaceOrderRequest::TYPE,
                orig_user_ref_num: replace.original_user_ref_num.into(),
                user_ref_num: replace.key.user_ref_num.into(),
                quantity: quantity(terms.quantity),
                price: price(terms.order_type, terms.price),
                time_in_force: terms.time_in_force.code(),
                display: terms.display.code(),
                inter_market_sweep_eligibility: b'N',
                cl_ord_id: *terms.client_order_id.as_bytes(),
            });
            replace_tags(&mut message, terms, seconds, replace.key.channel);
            message
        }
        Command::Cancel(cancel) => {
            fit([cancel.quantity])?;
            let mut message = MessageBuffer::new(&CancelOrderRequest {
                message_type: CancelOrderRequest::TYPE,
                user_ref_num: cancel.key.user_ref_num.into(),
                quantity: quantity(cancel.quantity),
            });
            message.user_ref_idx(cancel.key.channel);
            message
        }
        Command::Modify(modify) => {
            fit([modify.quantity])?;
            let mut message = MessageBuffer::new(&ModifyOrderRequest {
                message_type: ModifyOrderRequest::TYPE,
                user_ref_num: modify.key.user_ref_num.into(),
                side: modify.side.code(),
                quantity: quantity(modify.quantity),
            });
            message.user_ref_idx(modify.key.channel);
            message
        }
        Command::MassCancel(mass_cancel) => {
            let mut message = MessageBuffer::with_appendage(&MassCancelRequest {
                message_type: MassCancelRequest::TYPE,
                user_ref_num: mass_cancel.key.user_ref_num.into(),
                firm: *mass_cancel.firm.as_bytes(),
                symbol: *mass_cancel.symbol.as_bytes(),
            });
            if let Some(group_id) = mass_cancel.group_id {
                message.tag(Tag::GroupId, &group_id.to_be_bytes());
            }
            if let Some(side) = mass_cancel.side {
                message.tag(Tag::Side, &[side.code()]);
            }
            message.user_ref_idx(mass_cancel.key.channel);
            message
        }
        Command::SwitchEntry(switch) => {
            let mut message = if switch.enabled {
                MessageBuffer::with_appendage(&EnableOrderEntryRequest {
                    message_type: EnableOrderEntryRequest::TYPE,
                    user_ref_num: switch.key.user_ref_num.into(),
                    firm: *switch.firm.as_bytes(),
                })
            } else {
                MessageBuffer::with_appendage(&DisableOrderEntryRequest {
                    message_type: DisableOrderEntryRequest::TYPE,
                    user_ref_num: switch.key.user_ref_num.into(),
                    firm: *switch.firm.as_bytes(),
                })
            };
            message.user_ref_idx(switch.key.channel);
            message
        }
        Command::QueryAccount(query) => {
            let mut message = MessageBuffer::new(&AccountQueryRequest {
                message_type: AccountQueryRequest::TYPE,
            });
            message.user_ref_idx(query.channel);
            message
        }
        Command::System(_)
        | Command::CancelOnDisconnect(_)
        | Command::Note(_)
        | Command::Time
        | Command::AddInstrument(_)
        | Command::AddSession(_)
        | Command::Reject(_)
        | Command::Money(_)
        | Command::Venue(_)
        | Command::Operate(_) => return None,
    })
}

/// `None` if a quantity exceeds 32 bits.
fn fit<const N: usize>(quantities: [Quantity; N]) -> Option<()> {
    quantities.iter().all(|it| u32::try_from(it.0).is_ok()).then_some(())
}

/// True if OUCH has this order type, time in force and these instructions.
fn sayable(
    order_type: OrderType,
    time_in_force: TimeInForce,
    instructions: &Instructions,
) -> Option<()> {
    let type_sayable = matches!(order_type, OrderType::Limit | OrderType::Market);
    let life_sayable = matches!(
        time_in_force,
        TimeInForce::Day | TimeInForce::ImmediateOrCancel | TimeInForce::GoodTillTime
    );
    let Instructions { pricing, offset, shown_quantity, shown_range, expires_s, .. } =
        *instructions;
    let said = Instructions {
        pricing,
        offset,
        shown_quantity,
        shown_range,
        expires_s,
        ..Instructions::NONE
    };
    let pricing_sayable = pricing.is_pegged() || pricing == Pricing::Limit && offset == 0;
    (type_sayable && life_sayable && pricing_sayable && *instructions == said).then_some(())
}

/// The time to live of an order that is received at a moment, in seconds; 0 if it does not expire, `None`
/// if the field cannot hold it.
fn seconds_to_live(instructions: &Instructions, received: Option<Timestamp>) -> Option<u32> {
    if instructions.expires_s == 0 {
        return Some(0);
    }
    let from_s = received?.0.div_ceil(1_000_000_000);
    let seconds = u64::from(instructions.expires_s).checked_sub(from_s)?;
    u32::try_from(seconds).ok().filter(|seconds| (1..SECONDS_TO_LIVE_END).contains(seconds))
}

fn enter(order: &EnterOrder, seconds_to_live: u32) -> MessageBuffer {
    let (time_in_force, cross_type) = life(order.time_in_force);
    let mut message = MessageBuffer::with_appendage(&super::EnterOrder {
        message_type: super::EnterOrder::TYPE,
        user_ref_num: order.key.user_ref_num.into(),
        side: order.side.code(),
        quantity: quantity(order.quantity),
        symbol: *order.symbol.as_bytes(),
        price: price(order.order_type, order.price),
        time_in_force,
        display: order.display.code(),
        capacity: order.attributes.capacity.code(),
        inter_market_sweep_eligibility: b'N',
        cross_type,
        cl_ord_id: *order.attributes.client_order_id.as_bytes(),
    });
    let attributes = &order.attributes;
    if !attributes.firm.is_blank() {
        message.tag(Tag::Firm, attributes.firm.as_bytes());
    }
    minimum_tag(&mut message, &order.conditions);
    if attributes.customer_type != CustomerType::SessionDefault {
        message.tag(Tag::CustomerType, &[attributes.customer_type.code()]);
    }
    shown_quantity_tag(&mut message, &order.instructions);
    pricing_tag(&mut message, &order.instructions);
    offset_tag(&mut message, &order.instructions);
    post_only_tag(&mut message, &order.conditions);
    shown_range_tag(&mut message, &order.instructions);
    expire_tag(&mut message, seconds_to_live);
    if attributes.group_id != 0 {
        message.tag(Tag::GroupId, &attributes.group_id.to_be_bytes());
    }
    locate_tags(&mut message, attributes.shares_located, &attributes.locate_broker);
    message.user_ref_idx(order.key.channel);
    self_match_tags(&mut message, &order.conditions);
    message
}

/// The displayed quantity of an iceberg.
pub(super) fn shown_quantity_tag(message: &mut MessageBuffer, instructions: &Instructions) {
    if !instructions.shown_quantity.is_zero() {
        message.tag(Tag::MaxFloor, &lots(instructions.shown_quantity));
    }
}

/// The reference price of a pegged order.
pub(super) fn pricing_tag(message: &mut MessageBuffer, instructions: &Instructions) {
    if instructions.pricing.is_pegged() {
        message.tag(Tag::PriceType, &[instructions.pricing.code()]);
    }
}

/// The offset of a pegged order, unless it is 0.
pub(super) fn offset_tag(message: &mut MessageBuffer, instructions: &Instructions) {
    if instructions.pricing.is_pegged() && instructions.offset != 0 {
        message.tag(Tag::PegOffset, &instructions.offset.to_be_bytes());
    }
}

/// The time to live of a good-till-time order.
pub(super) fn expire_tag(message: &mut MessageBuffer, seconds_to_live: u32) {
    if seconds_to_live != 0 {
        message.tag(Tag::ExpireTime, &seconds_to_live.to_be_bytes());
    }
}

/// The range of the refreshed quantity, unless it is 0.
pub(super) fn shown_range_tag(message: &mut MessageBuffer, instructions: &Instructions) {
    if instructions.shown_range != 0 {
        message.tag(Tag::RandomReserves, &instructions.shown_range.to_be_bytes());
    }
}

fn replace_tags(
    message: &mut MessageBuffer,
    terms: &ReplaceTerms,
    seconds_to_live: u32,
    channel: u8,
) {
    if let Some(minimum) = terms.conditions.minimum_quantity {
        message.tag(Tag::MinQty, &lots(minimum));
    }
    if let Some(instructions) = &terms.instructions {
        // Even where it is 0: without the tag, the replacement would keep the original's value.
        message.tag(Tag::MaxFloor, &lots(instructions.shown_quantity));
        pricing_tag(message, instructions);
        offset_tag(message, instructions);
    }
    if let Some(post_only) = terms.conditions.post_only {
        message.tag(Tag::PostOnly, if post_only { b"P" } else { b"N" });
    }
    if let Some(instructions) = &terms.instructions {
        shown_range_tag(message, instructions);
        expire_tag(message, seconds_to_live);
    }
    locate_tags(message, terms.shares_located, &terms.locate_broker);
    if let Some(side) = terms.side {
        message.tag(Tag::Side, &[side.code()]);
    }
    message.user_ref_idx(channel);
    if let Some(prevention) = terms.conditions.self_match_prevention {
        message.tag(Tag::AiqStrategy, &[prevention.code()]);
    }
    if let Some(group) = terms.conditions.self_match_group {
        message.tag(Tag::AiqGroupId, self_match_group(&group));
    }
}

/// Adds the minimum quantity, if the order has one.
pub(super) fn minimum_tag(message: &mut MessageBuffer, conditions: &Conditions) {
    if !conditions.minimum_quantity.is_zero() {
        message.tag(Tag::MinQty, &lots(conditions.minimum_quantity));
    }
}

/// Adds the tag, if the order is post-only.
pub(super) fn post_only_tag(message: &mut MessageBuffer, conditions: &Conditions) {
    if conditions.post_only {
        message.tag(Tag::PostOnly, b"P");
    }
}

/// Adds the settings that are not at their default.
pub(super) fn self_match_tags(message: &mut MessageBuffer, conditions: &Conditions) {
    if conditions.self_match_prevention != SelfMatchPrevention::SessionDefault {
        message.tag(Tag::AiqStrategy, &[conditions.self_match_prevention.code()]);
    }
    if !conditions.self_match_group.is_blank() {
        message.tag(Tag::AiqGroupId, self_match_group(&conditions.self_match_group));
    }
}

fn self_match_group(group: &SelfMatchGroup) -> &[u8] {
    if group.is_blank() { SELF_MATCH_GROUP_DEFAULT } else { group.as_bytes() }
}

fn locate_tags(message: &mut MessageBuffer, shares_located: bool, locate_broker: &Firm) {
    if shares_located {
        message.tag(Tag::SharesLocated, b"Y");
    }
    if !locate_broker.is_blank() {
        message.tag(Tag::LocateBroker, locate_broker.as_bytes());
    }
}

/// Lots in 32 bits; the largest number stands for more. Orders that are entered by OUCH never have more, and a session
/// that speaks OUCH gets no message about orders of other sessions.
pub(super) fn quantity(lots: Quantity) -> U32 {
    U32::new(u32::try_from(lots.0).unwrap_or(u32::MAX))
}

/// The value of a tag for lots, in the same way.
fn lots(lots: Lots) -> [u8; 4] {
    quantity(lots.quantity()).get().to_be_bytes()
}

pub(super) fn price(order_type: OrderType, price: Price) -> Price64 {
    Price64::new(match order_type {
        OrderType::Limit => price.0,
        OrderType::Market | OrderType::MarketToLimit => MARKET_PRICE,
    })
}
