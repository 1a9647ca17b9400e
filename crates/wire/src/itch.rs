//! ITCH 5.0, the market data feed. docs/wire/itch.md has the tables and our decisions.
//!
//! Start at [`Encoder`], which turns outputs into messages; [`decode`] reads any message.

use core::fmt;

mod encoder;
mod message;

pub use encoder::Encoder;
pub use message::{
    AddOrder, AddOrderAttributed, BrokenTrade, CrossTrade, DirectListingWithCapitalRaise,
    IpoQuotingPeriodUpdate, LargeTrade, LuldAuctionCollar, MarketParticipantPosition, Message,
    MwcbDeclineLevel, MwcbStatus, NetOrderImbalance, OperationalHalt, OrderCancel, OrderDelete,
    OrderExecuted, OrderExecutedWithPrice, OrderReplace, RegShoRestriction,
    RetailPriceImprovementIndicator, StockDirectory, StockTradingAction, SystemEvent, Trade,
    decode,
};

/// Bytes of the longest message.
pub const MESSAGE_LEN_MAX: usize = 50;

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No bytes.
    Empty,
    /// No message has this type.
    UnknownType(u8),
    /// The message does not have the length of its type.
    Length {
        /// The type of the message.
        message_type: u8,
        /// The length of this type, in bytes.
        expected: usize,
        /// The actual length, in bytes.
        len: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the message is empty"),
            Self::UnknownType(code) => {
                write!(f, "no message has type '{}'", code.escape_ascii())
            }
            Self::Length { message_type, expected, len } => write!(
                f,
                "message '{}' has {len} bytes instead of {expected}",
                message_type.escape_ascii()
            ),
        }
    }
}

impl core::error::Error for Malformed {}

/// Declares the messages: an enum over them and the function that reads it.
macro_rules! messages {
    ($($message:ident,)+) => {
        /// A message of the feed, in its wire layout.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message<'a> {
            $(
                #[doc = concat!("[`", stringify!($message), "`]")]
                $message(&'a $message),
            )+
        }

        impl Message<'_> {
            /// Every message: its type and the rows of its table.
            pub const TABLES: &'static [(u8, &'static str, &'static [$crate::layout::Field])] = &[
                $((
                    <$message as $crate::layout::Message>::TYPE,
                    <$message as $crate::layout::Layout>::NAME,
                    <$message as $crate::layout::Layout>::FIELDS,
                ),)+
            ];

            /// The message's bytes.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8] {
                match self { $(Self::$message(message) => super::bytes_of(*message),)+ }
            }

            /// The instrument's number; 0 is none.
            #[must_use]
            pub fn stock_locate(&self) -> u16 {
                match self { $(Self::$message(message) => message.stock_locate.get(),)+ }
            }

            /// Nanoseconds since midnight.
            #[must_use]
            pub fn timestamp(&self) -> u64 {
                match self { $(Self::$message(message) => message.timestamp.get(),)+ }
            }
        }

        /// Reads a message.
        ///
        /// Lengths are checked, values are not.
        ///
        /// # Errors
        /// The bytes are not exactly one message.
        pub fn decode(message: &[u8]) -> Result<Message<'_>, Malformed> {
            use $crate::layout::Message as _;

            match *message.first().ok_or(Malformed::Empty)? {
                $($message::TYPE => super::whole(message).map(Message::$message),)+
                code => Err(Malformed::UnknownType(code)),
            }
        }
    };
}
use messages;

fn whole<T: crate::layout::Message>(message: &[u8]) -> Result<&T, Malformed> {
    T::ref_from_bytes(message).map_err(|_| Malformed::Length {
        message_type: T::TYPE,
        expected: size_of::<T>(),
        len: message.len(),
    })
}

fn bytes_of<T: crate::layout::Message>(message: &T) -> &[u8] {
    message.as_bytes()
}
