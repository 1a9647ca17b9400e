//! OUCH 5.0, order entry. docs/wire/ouch.md has the tables and our decisions.
//!
//! Start at [`command`], which turns a participant's bytes into a command, and [`Encoder`], which
//! turns outputs into replies. [`request`] is the client's side: a command to the bytes it sends.
//! [`decode_inbound`] and [`decode_outbound`] give the fields unchecked.
//!
//! The same letter means different things in each direction, so messages are decoded by direction.

use core::fmt;

use crate::layout::Message;

mod appendage;
mod inbound;
mod command;
mod request;
mod outbound;
mod encoder;

use appendage::Presence;

pub use appendage::{Appendage, MessageBuffer, Tag};
pub use command::command;
pub use encoder::{Encoder, Recipient, reject_code, reject_reasons};
pub use inbound::{
    AccountQueryRequest, CancelOrderRequest, DisableOrderEntryRequest, EnableOrderEntryRequest,
    EnterOrder, Inbound, MassCancelRequest, ModifyOrderRequest, ReplaceOrderRequest,
    decode_inbound,
};
pub use outbound::{
    AccountQueryResponse, AiqCanceled, BrokenTrade, CancelPending, CancelReject,
    DisableOrderEntryResponse, EnableOrderEntryResponse, MassCancelResponse, OrderAccepted,
    OrderCanceled, OrderExecuted, OrderModified, OrderPriorityUpdate, OrderReplaced, OrderRestated,
    Outbound, Rejected, SystemEvent, decode_outbound,
};
pub use request::{request, request_at};

/// The highest limit price, in ticks: 199,999.9900.
pub const LIMIT_PRICE_MAX: u64 = 0x7735_939C;

/// From this price up an order is a market order: 200,000.0000.
pub const MARKET_PRICE_MIN: u64 = 0x7735_9400;

/// The price that a market order is written with: 214,748.3647.
pub const MARKET_PRICE: u64 = 0x7FFF_FFFF;

/// AIQGroupID of an order that names no group.
const SELF_MATCH_GROUP_DEFAULT: &[u8] = b"**";

/// The reason why bytes are not a message, or not one that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No bytes.
    Empty,
    /// No message of this direction has this type.
    UnknownType(u8),
    /// The message ends before its fixed part does.
    Short {
        /// The type of the message.
        message_type: u8,
        /// The length of the message, in bytes.
        len: usize,
    },
    /// The appendage's lengths do not fit the message.
    Appendage,
    /// The channel is given twice or in other than one byte, so that the order cannot be named.
    Channel,
    /// A request about live orders has a tag that is unknown, not allowed there, given twice,
    /// of the wrong length or of no known value.
    Tag,
    /// A field of such a request has an undefined value.
    Field(&'static str),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the message is empty"),
            Self::UnknownType(code) => {
                write!(f, "no message has type '{}'", code.escape_ascii())
            }
            Self::Short { message_type, len } => {
                write!(f, "{len} bytes are too few for '{}'", message_type.escape_ascii())
            }
            Self::Appendage => f.write_str("the appendage's lengths do not fit the message"),
            Self::Channel => f.write_str("UserRefIdx is given twice or not as one byte"),
            Self::Tag => f.write_str("a tag is unknown, misplaced, given twice or malformed"),
            Self::Field(name) => write!(f, "{name} has a value that means nothing"),
        }
    }
}

impl core::error::Error for Malformed {}

/// The fixed part of a message and its appendage.
fn split<T: Message>(message: &[u8], presence: Presence) -> Result<(&T, Appendage<'_>), Malformed> {
    let (fixed, rest) = T::ref_from_prefix(message)
        .map_err(|_| Malformed::Short { message_type: T::TYPE, len: message.len() })?;
    Ok((fixed, Appendage::read(rest, presence)?))
}

/// Declares the messages of one direction: an enum over them and the function that reads it.
macro_rules! direction {
    ($(#[$doc:meta])* $name:ident $decode:ident { $($message:ident: $presence:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $(
                #[doc = concat!("[`", stringify!($message), "`]")]
                $message(&'a $message, Appendage<'a>),
            )+
        }

        impl $name<'_> {
            /// Every message of this direction: its type and the rows of its table.
            pub const TABLES: &'static [(u8, &'static str, &'static [$crate::layout::Field])] = &[
                $((
                    <$message as $crate::layout::Message>::TYPE,
                    <$message as $crate::layout::Layout>::NAME,
                    <$message as $crate::layout::Layout>::FIELDS,
                ),)+
            ];
        }

        /// Reads a message of this direction.
        ///
        /// Lengths are checked, values are not.
        ///
        /// # Errors
        /// The bytes are not exactly one message with a sound appendage.
        pub fn $decode(message: &[u8]) -> Result<$name<'_>, Malformed> {
            use $crate::layout::Message as _;

            match *message.first().ok_or(Malformed::Empty)? {
                $($message::TYPE => {
                    let (fixed, appendage) = super::split(message, Presence::$presence)?;
                    Ok($name::$message(fixed, appendage))
                })+
                code => Err(Malformed::UnknownType(code)),
            }
        }
    };
}
use direction;
