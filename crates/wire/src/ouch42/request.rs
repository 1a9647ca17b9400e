//! A participant's bytes to commands, by way of the same request in OUCH 5.0.
//!
//! Invariant: a used token never names a second order, even before the log has answered the first.

use alloc::{collections::VecDeque, vec::Vec};
use core::fmt;

use market::{Command, Note, OrderKey, RejectOrder, RejectReason, SessionId, Timestamp};
use zerocopy::IntoBytes;

use super::{
    CancelRequest, EnterRequest, IMMEDIATE, MARKET_HOURS, ModifyRequest, NOTE, ReplaceRequest,
    Request42, SYSTEM_HOURS, Token, Tokens,
};
use crate::{
    field::{U32, U64},
    layout::Message,
    linear_map::LinearMap,
    ouch::{self, MessageBuffer, Tag},
};

/// Tokens checked for removal when one is added: more than one, so that answered ones do not pile up.
const LOOKS_PER_TOKEN: usize = 2;
/// A code that no display and no time in force has: the rules of OUCH 5.0 refuse it with their reason.
const UNDEFINED: u8 = b'?';

/// The requests of a client that the log has not answered yet.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    in_flight: LinearMap<Token, u32>,
    /// The tokens of `in_flight`, by their numbers.
    unanswered: VecDeque<Token>,
    /// Highest UserRefNum assigned.
    number_last: u32,
    /// The note that the session uses OUCH 4.2 is on its way.
    is_noted: bool,
}

/// The reason why a message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// No message has this type and length.
    Unknown,
    /// The token is blank, or has a character other than letters, digits and spaces.
    Token,
    /// The venue does not offer Trade Now.
    TradeNow,
    /// OUCH 5.0 has no such request.
    Malformed(ouch::Malformed),
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no message of OUCH 4.2 has this type and length"),
            Self::Token => f.write_str("a token is 1 to 14 letters, digits and spaces"),
            Self::TradeNow => f.write_str("Trade Now is not offered"),
            Self::Malformed(fault) => fault.fmt(f),
        }
    }
}

impl Requests {
    /// Adds the commands of a message: none for an order with a used token, and none for a request about an order that
    /// does not exist. A note precedes the first message of a session.
    ///
    /// # Errors
    /// The bytes are not a message, or it cannot be carried out; it is ignored and reported.
    pub fn commands(
        &mut self,
        message: &[u8],
        session_id: SessionId,
        received: Timestamp,
        tokens: Option<&Tokens>,
        commands: &mut Vec<Command>,
    ) -> Result<(), TokenFault> {
        let request = Request42::read(message).ok_or(TokenFault::Unknown)?;
        let number = self.number_last.max(tokens.map_or(0, Tokens::number_last)) + 1;
        let find = |token: &Token| {
            let known = tokens.and_then(|tokens| tokens.number(token));
            known.or_else(|| self.in_flight.get(token).copied())
        };
        let mut new = None;
        let request = match request {
            Request42::EnterRequest(it) => {
                let token = token(&it.order_token)?;
                if find(&token).is_some() {
                    return Ok(());
                }
                new = Some(token);
                if it.cross_type == b'N' && u64::from(it.price.get()) > ouch::LIMIT_PRICE_MAX {
                    let key = OrderKey { session_id, channel: 0, user_ref_num: number };
                    let reason = RejectReason::InvalidPrice;
                    Err(RejectOrder { key, client_order_id: token, reason })
                } else {
                    Ok(enter(it, number))
                }
            }
            Request42::ReplaceRequest(it) => {
                let (existing, token) =
                    (token(&it.existing_order_token)?, token(&it.replacement_order_token)?);
                let Some(original) = find(&existing) else { return Ok(()) };
                if find(&token).is_some() {
                    return Ok(());
                }
                new = Some(token);
                Ok(replace(it, original, number))
            }
            Request42::CancelRequest(it) => {
                let Some(number) = find(&token(&it.order_token)?) else { return Ok(()) };
                Ok(cancel(it, number))
            }
            Request42::ModifyRequest(it) => {
                let Some(number) = find(&token(&it.order_token)?) else { return Ok(()) };
                Ok(modify(it, number))
            }
            Request42::TradeNowRequest(_) => return Err(TokenFault::TradeNow),
        };
        let command = match request {
            Ok(message) => {
                ouch::command(&message, session_id, received).map_err(TokenFault::Malformed)?
            }
            Err(refused) => Command::Reject(refused),
        };
        if let Some(token) = new {
            self.add(token, number, tokens);
        }
        if tokens.is_none() && !self.is_noted {
            self.is_noted = true;
            let note = Note::new(session_id, NOTE).expect("it is one byte");
            commands.push(Command::Note(note));
        }
        commands.push(command);
        Ok(())
    }

    /// Adds a token, and drops those of the oldest requests that the log has answered. The work does not grow with the
    /// number of waiting requests.
    fn add(&mut self, token: Token, number: u32, tokens: Option<&Tokens>) {
        let last = tokens.map_or(0, Tokens::number_last);
        for _ in 0..LOOKS_PER_TOKEN {
            let Some(oldest) = self.unanswered.front() else { break };
            if self.in_flight.get(oldest).is_some_and(|number| *number > last) {
                break;
            }
            self.in_flight.remove(oldest);
            self.unanswered.pop_front();
        }
        if self.in_flight.insert(token, number).is_none() {
            self.unanswered.push_back(token);
        }
        self.number_last = number;
    }
}

fn token(bytes: &[u8; 14]) -> Result<Token, TokenFault> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
    let token = Token::from_bytes(*bytes).filter(|it| !it.is_blank());
    token.filter(|_| bytes.iter().all(is_plain)).ok_or(TokenFault::Token)
}

/// A display of OUCH 4.2 in OUCH 5.0: the display, and the tags price type (if not a limit), post-only and trade now.
const fn display(code: u8) -> (u8, Option<u8>, bool, bool) {
    match code {
        b'P' => (b'Y', None, true, false),
        b'L' => (b'A', None, true, false),
        b'M' => (b'N', Some(b'M'), false, false),
        b'W' => (b'N', Some(b'M'), true, false),
        b'm' => (b'N', Some(b'M'), false, true),
        b'n' => (b'N', None, false, true),
        b'Y' | b'N' | b'A' => (code, None, false, false),
        _ => (UNDEFINED, None, false, false),
    }
}

/// The tags of the terms that Enter Order and Replace Order share. A replacement has all of them.
fn put_terms(message: &mut MessageBuffer, code: u8, minimum: u32, seconds: u32, all: bool) {
    let (_, price_type, post_only, trade_now) = display(code);
    if minimum > 0 || all {
        message.tag(Tag::MinQty, &minimum.to_be_bytes());
    }
    if price_type.is_some() || all {
        message.tag(Tag::PriceType, &[price_type.unwrap_or(b'L')]);
    }
    if post_only || all {
        message.tag(Tag::PostOnly, if post_only { b"P" } else { b"N" });
    }
    if !matches!(seconds, IMMEDIATE | MARKET_HOURS | SYSTEM_HOURS) {
        message.tag(Tag::ExpireTime, &seconds.to_be_bytes());
    }
    if trade_now {
        message.tag(Tag::TradeNow, b"Y");
    }
}

/// The code of a time in force in OUCH 5.0. An order for a cross waits for the cross, for any TimeInForce.
const fn time_in_force(seconds: u32, cross_type: u8) -> u8 {
    match seconds {
        _ if cross_type != b'N' => b'0',
        IMMEDIATE => b'3',
        MARKET_HOURS | SYSTEM_HOURS => b'0',
        seconds if seconds > SYSTEM_HOURS => UNDEFINED,
        _ => b'6',
    }
}

fn enter(request: &EnterRequest, number: u32) -> MessageBuffer {
    let seconds = request.time_in_force.get();
    let mut message = MessageBuffer::with_appendage(&ouch::EnterOrder {
        message_type: ouch::EnterOrder::TYPE,
        user_ref_num: U32::new(number),
        side: request.buy_sell_indicator,
        quantity: request.shares,
        symbol: request.stock,
        price: U64::new(request.price.get().into()),
        time_in_force: time_in_force(seconds, request.cross_type),
        display: display(request.display).0,
        capacity: match request.capacity {
            code @ (b'A' | b'P' | b'R') => code,
            _ => b'O',
        },
        inter_market_sweep_eligibility: request.intermarket_sweep_eligibility,
        cross_type: request.cross_type,
        cl_ord_id: request.order_token,
    });
    if request.firm.as_bytes() != b"    " {
        message.tag(Tag::Firm, &request.firm);
    }
    if request.customer_type != b' ' {
        message.tag(Tag::CustomerType, &[request.customer_type]);
    }
    let lives = if request.cross_type == b'N' { seconds } else { MARKET_HOURS };
    put_terms(&mut message, request.display, request.minimum_quantity.get(), lives, false);
    message
}

fn replace(request: &ReplaceRequest, original: u32, number: u32) -> MessageBuffer {
    let seconds = request.time_in_force.get();
    let mut message = MessageBuffer::with_appendage(&ouch::ReplaceOrderRequest {
        message_type: ouch::ReplaceOrderRequest::TYPE,
        orig_user_ref_num: U32::new(original),
        user_ref_num: U32::new(number),
        quantity: request.shares,
        // A replacement has a limit: a price that means a market order in OUCH 5.0 is replaced by one that no order may
        // have.
        price: U64::new(u64::from(request.price.get()).min(ouch::LIMIT_PRICE_MAX + 1)),
        time_in_force: time_in_force(seconds, b'N'),
        display: display(request.display).0,
        inter_market_sweep_eligibility: request.intermarket_sweep_eligibility,
        cl_ord_id: request.replacement_order_token,
    });
    put_terms(&mut message, request.display, request.minimum_quantity.get(), seconds, true);
    message
}

fn cancel(request: &CancelRequest, number: u32) -> MessageBuffer {
    MessageBuffer::new(&ouch::CancelOrderRequest {
        message_type: ouch::CancelOrderRequest::TYPE,
        user_ref_num: U32::new(number),
        quantity: request.shares,
    })
}

fn modify(request: &ModifyRequest, number: u32) -> MessageBuffer {
    MessageBuffer::new(&ouch::ModifyOrderRequest {
        message_type: ouch::ModifyOrderRequest::TYPE,
        user_ref_num: U32::new(number),
        side: request.buy_sell_indicator,
        quantity: request.shares,
    })
}

/// The bytes that a client sends for a command, with these tokens for its UserRefNums; `None` if OUCH 4.2 has no such
/// request.
#[must_use]
pub fn request(
    command: &Command,
    received: Timestamp,
    name: impl Fn(u32) -> Token,
) -> Option<Vec<u8>> {
    let message = ouch::request_at(command, received)?;
    let inbound = ouch::decode_inbound(&message).ok()?;
    let seconds = |code: u8, tags: &ouch::Appendage<'_>| match code {
        b'3' => U32::new(IMMEDIATE),
        b'6' => tags.get(Tag::ExpireTime).map_or(U32::new(0), u32_of),
        _ => U32::new(MARKET_HOURS),
    };
    let said = |tags: &ouch::Appendage<'_>, allowed: &[Tag]| {
        tags.iter().all(|(code, _)| allowed.iter().any(|tag| tag.code() == code))
    };
    let shown = |code: u8, tags: &ouch::Appendage<'_>| {
        let post_only = tags.get(Tag::PostOnly) == Some(b"P");
        match (tags.get(Tag::PriceType), code, post_only) {
            (None | Some(b"L"), b'Y', true) => Some(b'P'),
            (None | Some(b"L"), b'A', true) => Some(b'L'),
            (None | Some(b"L"), _, true) => None,
            (None | Some(b"L"), code, false) => Some(code),
            (Some(b"M"), b'N', false) => Some(b'M'),
            (Some(b"M"), b'N', true) => Some(b'W'),
            _ => None,
        }
    };
    let minimum = |tags: &ouch::Appendage<'_>| tags.get(Tag::MinQty).map_or(U32::new(0), u32_of);
    let of_order = [Tag::MinQty, Tag::PriceType, Tag::PostOnly, Tag::ExpireTime];
    Some(match inbound {
        ouch::Inbound::EnterOrder(it, tags) => {
            let allowed = [&of_order[..], &[Tag::Firm, Tag::CustomerType]].concat();
            // Outside a cross each order has a limit.
            let is_priced = it.cross_type != b'N' || it.price.get() <= ouch::LIMIT_PRICE_MAX;
            if !said(&tags, &allowed) || !is_priced {
                return None;
            }
            EnterRequest {
                message_type: EnterRequest::TYPE,
                order_token: *name(it.user_ref_num.get()).as_bytes(),
                buy_sell_indicator: it.side,
                shares: it.quantity,
                stock: it.symbol,
                price: U32::new(u32::try_from(it.price.get()).ok()?),
                time_in_force: seconds(it.time_in_force, &tags),
                firm: tags
                    .get(Tag::Firm)
                    .and_then(|it| it.first_chunk().copied())
                    .unwrap_or(*b"    "),
                display: shown(it.display, &tags)?,
                capacity: it.capacity,
                intermarket_sweep_eligibility: it.inter_market_sweep_eligibility,
                minimum_quantity: minimum(&tags),
                cross_type: it.cross_type,
                customer_type: tags.get(Tag::CustomerType).map_or(b' ', |it| it[0]),
            }
            .as_bytes()
            .to_vec()
        }
        ouch::Inbound::ReplaceOrderRequest(it, tags) => {
            if !said(&tags, &of_order) {
                return None;
            }
            ReplaceRequest {
                message_type: ReplaceRequest::TYPE,
                existing_order_token: *name(it.orig_user_ref_num.get()).as_bytes(),
                replacement_order_token: *name(it.user_ref_num.get()).as_bytes(),
                shares: it.quantity,
                price: U32::new(u32::try_from(it.price.get()).ok()?),
                time_in_force: seconds(it.time_in_force, &tags),
                display: shown(it.display, &tags)?,
                intermarket_sweep_eligibility: it.inter_market_sweep_eligibility,
                minimum_quantity: minimum(&tags),
            }
            .as_bytes()
            .to_vec()
        }
        ouch::Inbound::CancelOrderRequest(it, tags) if !tags.is_present() => CancelRequest {
            message_type: CancelRequest::TYPE,
            order_token: *name(it.user_ref_num.get()).as_bytes(),
            shares: it.quantity,
        }
        .as_bytes()
        .to_vec(),
        ouch::Inbound::ModifyOrderRequest(it, tags) if !tags.is_present() => ModifyRequest {
            message_type: ModifyRequest::TYPE,
            order_token: *name(it.user_ref_num.get()).as_bytes(),
            buy_sell_indicator: it.side,
            shares: it.quantity,
        }
        .as_bytes()
        .to_vec(),
        _ => return None,
    })
}

fn u32_of(value: &[u8]) -> U32 {
    U32::from_bytes(value.first_chunk().copied().unwrap_or([0; 4]))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const SESSION: SessionId = SessionId(1);

    /// A session whose orders up to this number the log has answered.
    fn answered(number: u32) -> Tokens {
        let mut tokens = None;
        Tokens::restore(&mut tokens, &[b"H", &number.to_le_bytes()[..]].concat()).unwrap();
        tokens.unwrap()
    }

    fn order(requests: &mut Requests, number: u32, answers: &Tokens) {
        let message = EnterRequest {
            message_type: b'O',
            order_token: *Token::new(&format!("T{number}")).unwrap().as_bytes(),
            buy_sell_indicator: b'B',
            shares: U32::new(1),
            stock: *b"AAPL    ",
            price: crate::field::Price32::new(10_000),
            time_in_force: U32::new(IMMEDIATE),
            firm: *b"FIRM",
            display: b'Y',
            capacity: b'P',
            intermarket_sweep_eligibility: b'N',
            minimum_quantity: U32::new(0),
            cross_type: b'N',
            customer_type: b' ',
        };
        let mut commands = Vec::new();
        let (message, tokens) = (message.as_bytes(), Some(answers));
        requests.commands(message, SESSION, Timestamp(0), tokens, &mut commands).unwrap();
        assert_eq!(commands.len(), 1);
    }

    /// However many requests wait, a new one checks two of them; answered ones are dropped.
    #[test]
    fn answered_tokens_are_forgotten() {
        let (mut requests, none, all) = (Requests::default(), answered(0), answered(1_000));
        for number in 1..=1_000 {
            order(&mut requests, number, &none);
        }
        assert_eq!(requests.in_flight.len(), 1_000, "nothing is answered");
        for number in 1_001..=1_600 {
            order(&mut requests, number, &all);
            let forgotten = (2 * (number as usize - 1_000)).min(1_000);
            assert_eq!(requests.in_flight.len(), number as usize - forgotten);
        }
        for number in 1_601..=3_000 {
            order(&mut requests, number, &answered(number - 1));
        }
        assert_eq!((requests.in_flight.len(), requests.unanswered.len()), (1, 1));
    }
}
