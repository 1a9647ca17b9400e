//! A participant's bytes to a command.

use market::{
    AccountQuery, CancelOrder, Capacity, ClientOrderId, Command, ConditionChanges, Conditions,
    CustomerType, Display, EntrySwitch, Firm, Instructions, Lots, MassCancel, ModifyOrder,
    OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, RejectOrder, RejectReason,
    ReplaceOrder, ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, SessionId, Side, Symbol,
    TimeInForce, Timestamp,
};

use super::{
    Appendage, EnterOrder, Inbound, MARKET_PRICE_MIN, Malformed, ModifyOrderRequest,
    ReplaceOrderRequest, SELF_MATCH_GROUP_DEFAULT, Tag, decode_inbound,
};
use crate::field::{Price64, U32};

/// The time to live of a good-till-time order is below this number of seconds. OUCH 5.0, section 1.
pub(super) const SECONDS_TO_LIVE_END: u32 = 86_400;

/// The command of a participant's message that was received at this moment, from which a good-till-time
/// order's seconds to live count.
///
/// An order with undefined or unsupported values is still a command:
/// [`Command::Reject`] with the first reason in the order of the checks, or a
/// [`Command::Replace`] without terms. Quantities, price increments and symbols that are well
/// formed but unknown are the engine's to check.
///
/// # Errors
/// No command follows: the bytes are not a message, the channel is ambiguous, or a request about
/// live orders is not understood in full. No order number is used then; the caller ignores and
/// reports the message.
pub fn command(
    message: &[u8],
    session_id: SessionId,
    received: Timestamp,
) -> Result<Command, Malformed> {
    Ok(match decode_inbound(message)? {
        Inbound::EnterOrder(order, appendage) => {
            let options = Options::read(appendage, b'O', received)?;
            enter(order, &options, options.key(session_id, order.user_ref_num))
        }
        Inbound::ReplaceOrderRequest(request, appendage) => {
            let options = Options::read(appendage, b'U', received)?;
            Command::Replace(ReplaceOrder {
                original_user_ref_num: request.orig_user_ref_num.get(),
                key: options.key(session_id, request.user_ref_num),
                terms: replace_terms(request, &options),
            })
        }
        Inbound::CancelOrderRequest(request, appendage) => {
            let options = Options::read_understood(appendage, b'X')?;
            Command::Cancel(CancelOrder {
                key: options.key(session_id, request.user_ref_num),
                quantity: quantity(request.quantity),
            })
        }
        Inbound::ModifyOrderRequest(request, appendage) => {
            let options = Options::read_understood(appendage, b'M')?;
            modify(request, options.key(session_id, request.user_ref_num))?
        }
        Inbound::MassCancelRequest(request, appendage) => {
            let options = Options::read_understood(appendage, b'C')?;
            Command::MassCancel(MassCancel {
                key: options.key(session_id, request.user_ref_num),
                firm: firm(&request.firm).ok_or(Malformed::Field("Firm"))?,
                symbol: Symbol::from_bytes(request.symbol).ok_or(Malformed::Field("Symbol"))?,
                side: options.side,
                group_id: options.group_id,
            })
        }
        Inbound::DisableOrderEntryRequest(request, appendage) => {
            let options = Options::read_understood(appendage, b'D')?;
            Command::SwitchEntry(EntrySwitch {
                key: options.key(session_id, request.user_ref_num),
                firm: firm(&request.firm).ok_or(Malformed::Field("Firm"))?,
                enabled: false,
            })
        }
        Inbound::EnableOrderEntryRequest(request, appendage) => {
            let options = Options::read_understood(appendage, b'E')?;
            Command::SwitchEntry(EntrySwitch {
                key: options.key(session_id, request.user_ref_num),
                firm: firm(&request.firm).ok_or(Malformed::Field("Firm"))?,
                enabled: true,
            })
        }
        Inbound::AccountQueryRequest(_, appendage) => {
            let options = Options::read_understood(appendage, b'Q')?;
            Command::QueryAccount(AccountQuery { session_id, channel: options.channel })
        }
    })
}

fn enter(order: &EnterOrder, options: &Options, key: OrderKey) -> Command {
    match enter_terms(order, options, key) {
        Ok(order) => Command::Enter(order),
        Err(reason) => Command::Reject(RejectOrder {
            key,
            client_order_id: ClientOrderId::from_bytes(order.cl_ord_id).unwrap_or_default(),
            reason,
        }),
    }
}

/// The checks stand in the order of [`RejectReason`]; those that a tag can fail as well are in
/// [`Options`].
fn enter_terms(
    order: &EnterOrder,
    options: &Options,
    key: OrderKey,
) -> Result<market::EnterOrder, RejectReason> {
    let side = Side::from_code(order.side).ok_or(RejectReason::InvalidSide)?;
    let symbol = Symbol::from_bytes(order.symbol).ok_or(RejectReason::InvalidSymbol)?;
    let display = Display::from_code(order.display).ok_or(RejectReason::InvalidDisplay)?;
    options.refused_before(RejectReason::InvalidCrossOrder)?;
    let auction = auction(order.cross_type).ok_or(RejectReason::InvalidCrossOrder)?;
    if auction.is_some() && order.time_in_force != TimeInForce::Day.code() {
        return Err(RejectReason::InvalidCrossOrder);
    }
    if order.inter_market_sweep_eligibility != b'N' {
        return Err(RejectReason::SweepNotAllowed);
    }
    options.refused_before(RejectReason::NotSupported)?;
    let time_in_force = time_in_force(order.time_in_force).ok_or(RejectReason::NotSupported)?;
    let time_in_force = auction.unwrap_or(time_in_force);
    let capacity = Capacity::from_code(order.capacity).ok_or(RejectReason::NotSupported)?;
    let client_order_id =
        ClientOrderId::from_bytes(order.cl_ord_id).ok_or(RejectReason::NotSupported)?;
    options.refusal.map_or(Ok(()), Err)?;

    let (order_type, price) = price(order.price);
    Ok(market::EnterOrder {
        key,
        side,
        order_type,
        time_in_force,
        display,
        quantity: quantity(order.quantity),
        price,
        symbol,
        attributes: OrderAttributes {
            client_order_id,
            firm: options.firm,
            capacity,
            customer_type: options.customer_type,
            group_id: options.group_id.unwrap_or(0),
            shares_located: options.shares_located,
            locate_broker: options.locate_broker,
        },
        conditions: options.conditions.apply(Conditions::NONE),
        instructions: options.instructions.unwrap_or_default(),
    })
}

/// The terms of a replacement; `None` if a value cannot be accepted. The original is then canceled, and
/// the reply has no reason.
fn replace_terms(request: &ReplaceOrderRequest, options: &Options) -> Option<ReplaceTerms> {
    if options.refusal.is_some() || request.inter_market_sweep_eligibility != b'N' {
        return None;
    }
    let (order_type, price) = price(request.price);
    Some(ReplaceTerms {
        side: options.side,
        order_type,
        time_in_force: time_in_force(request.time_in_force)?,
        display: Display::from_code(request.display)?,
        quantity: quantity(request.quantity),
        price,
        client_order_id: ClientOrderId::from_bytes(request.cl_ord_id)?,
        shares_located: options.shares_located,
        locate_broker: options.locate_broker,
        conditions: options.conditions,
        instructions: options.instructions,
    })
}

fn modify(request: &ModifyOrderRequest, key: OrderKey) -> Result<Command, Malformed> {
    Ok(Command::Modify(ModifyOrder {
        key,
        side: Side::from_code(request.side).ok_or(Malformed::Field("Side"))?,
        quantity: quantity(request.quantity),
    }))
}

fn quantity(lots: U32) -> Quantity {
    Quantity(u64::from(lots.get()))
}

/// The time in force of this cross type; `None` is continuous trading.
fn auction(cross_type: u8) -> Option<Option<TimeInForce>> {
    match cross_type {
        b'N' => Some(None),
        b'O' => Some(Some(TimeInForce::AtTheOpen)),
        b'C' => Some(Some(TimeInForce::AtTheClose)),
        b'H' => Some(Some(TimeInForce::GoodForAuction)),
        _ => None,
    }
}

/// The times in force that OUCH has and the venue offers.
fn time_in_force(code: u8) -> Option<TimeInForce> {
    match TimeInForce::from_code(code)? {
        offered @ (TimeInForce::Day
        | TimeInForce::ImmediateOrCancel
        | TimeInForce::GoodTillTime) => Some(offered),
        _ => None,
    }
}

/// A market order is a price that no limit may have.
fn price(ticks: Price64) -> (OrderType, Price) {
    if ticks.get() >= MARKET_PRICE_MIN {
        (OrderType::Market, Price::ZERO)
    } else {
        (OrderType::Limit, Price(ticks.get()))
    }
}

/// The second at which an order expires that is to live for a number of seconds. The present second does not count,
/// so the order never lives shorter than requested.
fn expires_s(received: Timestamp, seconds_to_live: u32) -> u32 {
    let from_s = u32::try_from(received.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
    from_s.saturating_add(seconds_to_live)
}

/// The value of a tag of four bytes.
fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(*value.first_chunk().expect("its length was checked"))
}

/// Printable and without lower case.
fn firm(bytes: &[u8]) -> Option<Firm> {
    let firm = Firm::from_bytes(*bytes.first_chunk()?)?;
    (!bytes.iter().any(u8::is_ascii_lowercase)).then_some(firm)
}

/// The values of an appendage, absent tags at their defaults.
struct Options {
    channel: u8,
    firm: Firm,
    customer_type: CustomerType,
    group_id: Option<u16>,
    shares_located: bool,
    locate_broker: Firm,
    side: Option<Side>,
    conditions: ConditionChanges,
    /// The instructions; `None` if no tag sets any.
    instructions: Option<Instructions>,
    received: Timestamp,
    /// The first reason, in the order of the checks, for which some tag cannot be accepted.
    refusal: Option<RejectReason>,
}

impl Options {
    /// Reads the appendage of an inbound message of this type. An unacceptable tag is kept as the
    /// refusal; only an ambiguous channel is an error.
    fn read(
        appendage: Appendage<'_>,
        message_type: u8,
        received: Timestamp,
    ) -> Result<Self, Malformed> {
        let mut options = Self {
            channel: 0,
            firm: Firm::BLANK,
            customer_type: CustomerType::SessionDefault,
            group_id: None,
            shares_located: false,
            locate_broker: Firm::BLANK,
            side: None,
            conditions: ConditionChanges::NONE,
            instructions: None,
            received,
            refusal: None,
        };
        let mut seen = 0_u32;
        for (code, value) in appendage.iter() {
            let Some(tag) = Tag::from_code(code) else {
                options.refuse(RejectReason::NotSupported);
                continue;
            };
            let is_repeated = seen & (1 << code) != 0;
            seen |= 1 << code;
            if is_repeated || value.len() != tag.len() {
                if tag == Tag::UserRefIdx {
                    return Err(Malformed::Channel);
                }
                options.refuse(RejectReason::NotSupported);
            } else if !tag.inbound().contains(&message_type) {
                options.refuse(RejectReason::NotSupported);
            } else if let Err(reason) = options.take(tag, value) {
                options.refuse(reason);
            }
        }
        let instructions = options.instructions.unwrap_or_default();
        if instructions.offset != 0 && !instructions.pricing.is_pegged() {
            options.refuse(RejectReason::PeggingNotAllowed);
        }
        Ok(options)
    }

    /// As [`Options::read`], for messages without a reject: they are carried out or ignored.
    fn read_understood(appendage: Appendage<'_>, message_type: u8) -> Result<Self, Malformed> {
        // None of these has a tag that counts from a moment.
        let options = Self::read(appendage, message_type, Timestamp::default())?;
        if options.refusal.is_some() { Err(Malformed::Tag) } else { Ok(options) }
    }

    /// The order's instructions, created by the first tag that sets one.
    fn instruct(&mut self) -> &mut Instructions {
        self.instructions.get_or_insert_default()
    }

    /// Stores a value of the right length. A tag for an unsupported feature must have the value that does
    /// not request it.
    fn take(&mut self, tag: Tag, value: &[u8]) -> Result<(), RejectReason> {
        let asks_nothing = |nothing: &[&[u8]], reason| {
            if nothing.contains(&value) { Ok(()) } else { Err(reason) }
        };
        match tag {
            Tag::UserRefIdx => self.channel = value[0],
            Tag::Firm => self.firm = firm(value).ok_or(RejectReason::NotSupported)?,
            Tag::CustomerType => {
                self.customer_type =
                    CustomerType::from_code(value[0]).ok_or(RejectReason::NotSupported)?;
            }
            Tag::GroupId => self.group_id = Some(u16::from_be_bytes([value[0], value[1]])),
            Tag::SharesLocated => {
                self.shares_located = match value[0] {
                    b'Y' => true,
                    b'N' => false,
                    _ => return Err(RejectReason::NotSupported),
                };
            }
            Tag::LocateBroker => {
                let broker = value.first_chunk().and_then(|bytes| Firm::from_bytes(*bytes));
                self.locate_broker = broker.ok_or(RejectReason::NotSupported)?;
            }
            Tag::Side => {
                self.side = Some(Side::from_code(value[0]).ok_or(RejectReason::InvalidSide)?);
            }
            Tag::MinQty => self.conditions.minimum_quantity = Some(Lots::new(number(value).into())),
            Tag::MaxFloor => self.instruct().shown_quantity = Lots::new(number(value).into()),
            Tag::RandomReserves => self.instruct().shown_range = number(value),
            Tag::PriceType => match value[0] {
                b'L' => self.instruct().pricing = Pricing::Limit,
                b'P' => self.instruct().pricing = Pricing::MarketPeg,
                b'M' => self.instruct().pricing = Pricing::MidpointPeg,
                b'R' => self.instruct().pricing = Pricing::PrimaryPeg,
                b'Q' | b'm' => return Err(RejectReason::PeggingNotAllowed),
                _ => return Err(RejectReason::InvalidPegType),
            },
            Tag::PegOffset => self.instruct().offset = number(value).cast_signed(),
            Tag::AiqStrategy => {
                let prevention = SelfMatchPrevention::from_code(value[0])
                    .ok_or(RejectReason::InvalidSelfMatchPrevention)?;
                self.conditions.self_match_prevention = Some(prevention);
            }
            Tag::AiqGroupId => {
                let group = match value {
                    SELF_MATCH_GROUP_DEFAULT => Some(SelfMatchGroup::BLANK),
                    _ => value.first_chunk().and_then(|it| SelfMatchGroup::from_bytes(*it)),
                };
                self.conditions.self_match_group =
                    Some(group.ok_or(RejectReason::InvalidSelfMatchPrevention)?);
            }
            Tag::DiscretionPrice => asks_nothing(&[&[0; 8]], RejectReason::NotSupported)?,
            Tag::DiscretionPegOffset => asks_nothing(&[&[0; 4]], RejectReason::NotSupported)?,
            Tag::ExpireTime => {
                let moment = match number(value) {
                    0 => 0,
                    seconds if seconds < SECONDS_TO_LIVE_END => expires_s(self.received, seconds),
                    _ => return Err(RejectReason::NotSupported),
                };
                self.instruct().expires_s = moment;
            }
            Tag::DiscretionPriceType => asks_nothing(&[b"L"], RejectReason::NotSupported)?,
            Tag::PostOnly => {
                self.conditions.post_only = Some(match value[0] {
                    b'P' => true,
                    b'N' => false,
                    _ => return Err(RejectReason::NotSupported),
                });
            }
            Tag::TradeNow => asks_nothing(&[b"N", b" "], RejectReason::NotSupported)?,
            Tag::HandleInst => asks_nothing(&[b" "], RejectReason::NotSupported)?,
            // None of these is allowed on an inbound message.
            Tag::SecondaryOrdRefNum
            | Tag::Route
            | Tag::BboWeightIndicator
            | Tag::DisplayQuantity
            | Tag::DisplayPrice => return Err(RejectReason::NotSupported),
        }
        Ok(())
    }

    fn refuse(&mut self, reason: RejectReason) {
        self.refusal = Some(self.refusal.map_or(reason, |first| first.min(reason)));
    }

    /// The refusal, if its check comes before that of `reason`.
    fn refused_before(&self, reason: RejectReason) -> Result<(), RejectReason> {
        match self.refusal {
            Some(first) if first < reason => Err(first),
            _ => Ok(()),
        }
    }

    fn key(&self, session_id: SessionId, user_ref_num: U32) -> OrderKey {
        OrderKey { session_id, channel: self.channel, user_ref_num: user_ref_num.get() }
    }
}
