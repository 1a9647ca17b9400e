//! The tokens of a session, and its replies in OUCH 4.2.
//!
//! Invariant: the state follows from the OUCH 5.0 replies to the session, so every replay gives the same bytes.

use alloc::collections::VecDeque;

use market::{
    DecodeError,
    bytes::{ByteReader, ByteWriter},
};
use zerocopy::IntoBytes;

use super::{
    AcceptedMessage, AiqCanceledMessage, BrokenTradeMessage, CancelPendingMessage,
    CancelRejectMessage, CanceledMessage, ExecutedMessage, IMMEDIATE, MARKET_HOURS,
    ModifiedMessage, PriorityUpdateMessage, RejectedMessage, ReplacedMessage, SystemEventMessage,
    Token,
};
use crate::{
    field::{U32, U64},
    layout::Message,
    linear_map::LinearMap,
    ouch::{Appendage, Outbound, Tag, decode_outbound},
    pieces::Pieces,
};

/// Tokens of done orders that are kept, to ignore a second use and to name busted trades.
const DONE_MAX: usize = 65_536;

/// The facts about an order that its replies need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Named {
    token: Token,
    /// The open lots; 0 once the order is done.
    leaves: u32,
}

/// The tokens of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The orders by UserRefNum.
    orders: LinearMap<u32, Named>,
    numbers: LinearMap<Token, u32>,
    /// Done orders, oldest first.
    done: VecDeque<u32>,
    number_last: u32,
}

impl Tokens {
    /// The UserRefNum of a token; `None` if the token was never used, or is no longer kept.
    #[must_use]
    pub fn number(&self, token: &Token) -> Option<u32> {
        self.numbers.get(token).copied()
    }

    /// Highest UserRefNum used.
    #[must_use]
    pub const fn number_last(&self) -> u32 {
        self.number_last
    }

    /// Takes a reply in OUCH 5.0, and sends it in OUCH 4.2 if OUCH 4.2 has such a message.
    ///
    /// # Panics
    /// The bytes are not a reply of the venue to this session.
    pub fn reply(&mut self, message: &[u8], send: &mut impl FnMut(&[u8])) {
        let reply = decode_outbound(message).expect("it is a reply of the venue");
        match reply {
            Outbound::SystemEvent(it, _) => send(
                SystemEventMessage {
                    message_type: SystemEventMessage::TYPE,
                    timestamp: it.timestamp,
                    event_code: it.event_code,
                }
                .as_bytes(),
            ),
            Outbound::OrderAccepted(it, tags) => {
                let leaves = open(it.order_state, it.quantity);
                self.add(it.user_ref_num.get(), it.cl_ord_id, leaves);
                send(
                    AcceptedMessage {
                        message_type: AcceptedMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: it.cl_ord_id,
                        buy_sell_indicator: it.side,
                        shares: it.quantity,
                        stock: it.symbol,
                        price: price(it.price),
                        time_in_force: seconds(it.time_in_force, &tags),
                        firm: firm(&tags),
                        display: display(it.display, &tags),
                        order_reference_number: it.order_reference_number,
                        capacity: it.capacity,
                        intermarket_sweep_eligibility: it.inter_market_sweep_eligibility,
                        minimum_quantity: number(&tags, Tag::MinQty),
                        cross_type: it.cross_type,
                        order_state: it.order_state,
                        bbo_weight_indicator: b' ',
                    }
                    .as_bytes(),
                );
            }
            Outbound::OrderReplaced(it, tags) => {
                let previous = self.token(it.orig_user_ref_num);
                self.set_leaves(it.orig_user_ref_num.get(), |_| 0);
                let leaves = open(it.order_state, it.quantity);
                self.add(it.user_ref_num.get(), it.cl_ord_id, leaves);
                send(
                    ReplacedMessage {
                        message_type: ReplacedMessage::TYPE,
                        timestamp: it.timestamp,
                        replacement_order_token: it.cl_ord_id,
                        buy_sell_indicator: it.side,
                        shares: it.quantity,
                        stock: it.symbol,
                        price: price(it.price),
                        time_in_force: seconds(it.time_in_force, &tags),
                        firm: firm(&tags),
                        display: display(it.display, &tags),
                        order_reference_number: it.order_reference_number,
                        capacity: it.capacity,
                        intermarket_sweep_eligibility: it.inter_market_sweep_eligibility,
                        minimum_quantity: number(&tags, Tag::MinQty),
                        cross_type: it.cross_type,
                        order_state: it.order_state,
                        previous_order_token: previous,
                        bbo_weight_indicator: b' ',
                    }
                    .as_bytes(),
                );
            }
            Outbound::OrderCanceled(it, _) => {
                send(
                    CanceledMessage {
                        message_type: CanceledMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: self.token(it.user_ref_num),
                        decrement_shares: it.quantity,
                        reason: it.reason,
                    }
                    .as_bytes(),
                );
                self.reduce(it.user_ref_num, it.quantity);
            }
            Outbound::AiqCanceled(it, _) => {
                send(
                    AiqCanceledMessage {
                        message_type: AiqCanceledMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: self.token(it.user_ref_num),
                        decrement_shares: it.decrement_shares,
                        reason: it.reason,
                        quantity_prevented_from_trading: it.quantity_prevented_from_trading,
                        execution_price: price(it.execution_price),
                        liquidity_flag: it.liquidity_flag,
                    }
                    .as_bytes(),
                );
                self.reduce(it.user_ref_num, it.decrement_shares);
            }
            Outbound::OrderExecuted(it, _) => {
                send(
                    ExecutedMessage {
                        message_type: ExecutedMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: self.token(it.user_ref_num),
                        executed_shares: it.quantity,
                        execution_price: price(it.price),
                        liquidity_flag: it.liquidity_flag,
                        match_number: it.match_number,
                    }
                    .as_bytes(),
                );
                self.reduce(it.user_ref_num, it.quantity);
            }
            Outbound::BrokenTrade(it, _) => send(
                BrokenTradeMessage {
                    message_type: BrokenTradeMessage::TYPE,
                    timestamp: it.timestamp,
                    order_token: self.token(it.user_ref_num),
                    match_number: it.match_number,
                    reason: it.reason,
                }
                .as_bytes(),
            ),
            Outbound::Rejected(it, _) => {
                self.add(it.user_ref_num.get(), it.cl_ord_id, 0);
                send(
                    RejectedMessage {
                        message_type: RejectedMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: it.cl_ord_id,
                        reason: reject_reason(it.reason.get()),
                    }
                    .as_bytes(),
                );
            }
            Outbound::CancelPending(it, _) => send(
                CancelPendingMessage {
                    message_type: CancelPendingMessage::TYPE,
                    timestamp: it.timestamp,
                    order_token: self.token(it.user_ref_num),
                }
                .as_bytes(),
            ),
            Outbound::CancelReject(it, _) => send(
                CancelRejectMessage {
                    message_type: CancelRejectMessage::TYPE,
                    timestamp: it.timestamp,
                    order_token: self.token(it.user_ref_num),
                }
                .as_bytes(),
            ),
            Outbound::OrderPriorityUpdate(it, _) => send(
                PriorityUpdateMessage {
                    message_type: PriorityUpdateMessage::TYPE,
                    timestamp: it.timestamp,
                    order_token: self.token(it.user_ref_num),
                    price: price(it.price),
                    display: it.display,
                    order_reference_number: it.order_reference_number,
                }
                .as_bytes(),
            ),
            Outbound::OrderModified(it, _) => {
                send(
                    ModifiedMessage {
                        message_type: ModifiedMessage::TYPE,
                        timestamp: it.timestamp,
                        order_token: self.token(it.user_ref_num),
                        buy_sell_indicator: it.side,
                        shares: it.quantity,
                    }
                    .as_bytes(),
                );
                self.set_leaves(it.user_ref_num.get(), |_| it.quantity.get());
            }
            // OUCH 4.2 has no such messages.
            Outbound::OrderRestated(..)
            | Outbound::MassCancelResponse(..)
            | Outbound::DisableOrderEntryResponse(..)
            | Outbound::EnableOrderEntryResponse(..)
            | Outbound::AccountQueryResponse(..) => {}
        }
    }

    /// The token of an order; blank if the order was done so long ago that its token was dropped.
    fn token(&self, number: U32) -> [u8; 14] {
        let blank = *Token::BLANK.as_bytes();
        self.orders.get(&number.get()).map_or(blank, |order| *order.token.as_bytes())
    }

    fn add(&mut self, number: u32, token: [u8; 14], leaves: u32) {
        let token = Token::from_bytes(token).unwrap_or(Token::BLANK);
        self.number_last = self.number_last.max(number);
        self.orders.insert(number, Named { token, leaves });
        self.numbers.insert(token, number);
        if leaves == 0 {
            self.forget_after(number);
        }
    }

    fn reduce(&mut self, number: U32, lots: U32) {
        self.set_leaves(number.get(), |leaves| leaves.saturating_sub(lots.get()));
    }

    /// Sets the open lots of a live order; with none left, the order is done. A done order stays done.
    fn set_leaves(&mut self, number: u32, leaves: impl FnOnce(u32) -> u32) {
        let Some(order) = self.orders.get_mut(&number).filter(|order| order.leaves > 0) else {
            return;
        };
        order.leaves = leaves(order.leaves);
        if order.leaves == 0 {
            self.forget_after(number);
        }
    }

    /// Records that an order is done; its token is dropped once a fixed number of later orders are done.
    fn forget_after(&mut self, number: u32) {
        self.done.push_back(number);
        if self.done.len() > DONE_MAX
            && let Some(oldest) = self.done.pop_front()
            && let Some(order) = self.orders.remove(&oldest)
            && self.numbers.get(&order.token) == Some(&oldest)
        {
            self.numbers.remove(&order.token);
        }
    }

    /// Emits the state in pieces, for a snapshot.
    pub fn save(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut pieces = Pieces::new(emit);
        pieces.record(b'H', |out| out.write(&self.number_last));
        let named = |number: &u32| self.orders.get(number).expect("it is kept");
        let mut numbers = self.orders.sorted_keys();
        numbers.retain(|number| named(number).leaves > 0);
        for number in numbers.iter().chain(&self.done) {
            let order = named(number);
            pieces.record(b'O', |out| {
                out.write(number);
                out.write(&order.token);
                out.write(&order.leaves);
            });
        }
        pieces.finish();
    }

    /// Takes a piece of a saved state: the first one creates the session, the rest are added to it.
    ///
    /// # Errors
    /// The bytes are not such a piece, or the pieces are in a wrong order.
    pub fn restore(session: &mut Option<Self>, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut from = ByteReader::new(bytes);
        while !from.is_empty() {
            let [kind] = from.take()?;
            match (kind, &mut *session) {
                (b'H', place @ None) => {
                    *place = Some(Self { number_last: from.read("number")?, ..Self::default() });
                }
                (b'O', Some(tokens)) => {
                    let number: u32 = from.read("number")?;
                    let order = Named { token: from.read("token")?, leaves: from.read("leaves")? };
                    tokens.orders.insert(number, order);
                    tokens.numbers.insert(order.token, number);
                    if order.leaves == 0 {
                        tokens.done.push_back(number);
                    }
                }
                (kind, _) => return Err(DecodeError::Kind(kind)),
            }
        }
        Ok(())
    }
}

/// The open lots of an order in this state.
fn open(state: u8, quantity: U32) -> u32 {
    if state == b'L' { quantity.get() } else { 0 }
}

/// A price in 32 bits: that of a market order is 0x7FFFFFFF in both dialects.
fn price(price: U64) -> U32 {
    U32::new(u32::try_from(price.get()).unwrap_or(u32::MAX))
}

fn number(tags: &Appendage<'_>, tag: Tag) -> U32 {
    let value = tags.get(tag).and_then(|value| value.first_chunk().copied());
    U32::from_bytes(value.unwrap_or([0; 4]))
}

fn firm(tags: &Appendage<'_>) -> [u8; 4] {
    tags.get(Tag::Firm).and_then(|value| value.first_chunk().copied()).unwrap_or(*b"    ")
}

fn seconds(time_in_force: u8, tags: &Appendage<'_>) -> U32 {
    match time_in_force {
        b'3' => U32::new(IMMEDIATE),
        b'6' => number(tags, Tag::ExpireTime),
        _ => U32::new(MARKET_HOURS),
    }
}

/// The code of a display in OUCH 4.2; some of its codes are tags in OUCH 5.0.
fn display(code: u8, tags: &Appendage<'_>) -> u8 {
    let is_post_only = tags.get(Tag::PostOnly) == Some(b"P");
    let is_midpoint = tags.get(Tag::PriceType) == Some(b"M");
    match (code, is_midpoint, is_post_only) {
        (_, true, false) => b'M',
        (_, true, true) => b'W',
        (b'Y', false, true) => b'P',
        (b'A', false, true) => b'L',
        (code, ..) => code,
    }
}

/// The letter of a reason, by its code in OUCH 5.0.
const fn reject_reason(code: u16) -> u8 {
    match code {
        0x0002 | 0x002E => b'C',
        0x0003 => b'D',
        0x0007 => b'H',
        0x000C => b'L',
        0x000D => b'N',
        0x0008 => b'd',
        0x0013 => b'Z',
        0x0014 | 0x002D => b'R',
        0x0017 => b'S',
        0x001D | 0x0006 => b'X',
        0x0021 | 0x0031 => b'm',
        0x001F | 0x0030 => b'n',
        0x0022 | 0x0024 => b'a',
        0x002B => b'i',
        _ => b'O',
    }
}
