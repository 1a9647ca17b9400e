//! OUCH 4.2, the dialect before OUCH 5.0: tokens of 14 characters in the place of UserRefNums. docs/wire/ouch42.md
//! has the tables and our decisions.
//!
//! Start at [`Requests::commands`], which turns a participant's bytes into commands, and [`Tokens::reply`], which
//! turns a reply of OUCH 5.0 into one of OUCH 4.2. Both go by way of OUCH 5.0: the rules of orders are there.
//!
//! Invariant: the replies to a session are a function of its OUCH 5.0 replies.

mod messages;
mod request;
mod tokens;

pub use messages::{
    AcceptedMessage, AiqCanceledMessage, BrokenTradeMessage, CancelPendingMessage,
    CancelRejectMessage, CancelRequest, CanceledMessage, EnterRequest, ExecutedMessage,
    ModifiedMessage, ModifyRequest, PriorityUpdateMessage, RejectedMessage, ReplaceRequest,
    ReplacedMessage, Request42, Response42, SystemEventMessage, TradeNowRequest,
};
pub use request::{Requests, TokenFault, request};
pub use tokens::Tokens;

/// The bytes of a note: the session uses OUCH 4.2 from now on.
pub const NOTE: &[u8] = b"4";

/// A token: the participant's name for an order.
pub type Token = market::ClientOrderId;

/// TimeInForce of an order that is immediate or canceled.
const IMMEDIATE: u32 = 0;
/// TimeInForce of an order until the end of market hours; replies have it for every day order.
const MARKET_HOURS: u32 = 99_998;
/// TimeInForce of an order until the end of system hours; taken as one for the day.
const SYSTEM_HOURS: u32 = 99_999;
