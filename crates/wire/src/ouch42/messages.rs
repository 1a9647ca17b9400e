//! The messages of OUCH 4.2, in their wire layouts: fixed lengths, no appendage.

use crate::{
    field::{Alpha, Char, Nanos64, Price32, U32, U64},
    layout::layout,
};

/// Declares the messages of one direction: an enum over them and the function that reads it.
macro_rules! direction {
    ($(#[$doc:meta])* $name:ident { $($message:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $(
                #[doc = concat!("[`", stringify!($message), "`]")]
                $message(&'a $message),
            )+
        }

        impl<'a> $name<'a> {
            /// Every message of this direction: its type and the rows of its table.
            pub const TABLES: &'static [(u8, &'static str, &'static [crate::layout::Field])] = &[
                $((
                    <$message as crate::layout::Message>::TYPE,
                    <$message as crate::layout::Layout>::NAME,
                    <$message as crate::layout::Layout>::FIELDS,
                ),)+
            ];

            /// Reads a message of exactly its length; `None` if no message has this type and length.
            #[must_use]
            pub fn read(message: &'a [u8]) -> Option<Self> {
                use crate::layout::Message as _;
                use zerocopy::FromBytes as _;

                match *message.first()? {
                    $($message::TYPE => $message::ref_from_bytes(message).ok().map(Self::$message),)+
                    _ => None,
                }
            }
        }
    };
}

layout! {
    /// Enter Order (`O`), 49 bytes.
    "Enter Order" EnterRequest [49] = b'O' {
        message_type: Char, "`O`";
        order_token: Alpha<14>, "Name of the order; one of its own each day";
        buy_sell_indicator: Char, "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        shares: U32, "Asked, 1 to 999,999, or to what the instrument allows";
        stock: Alpha<8>, "What to trade";
        price: Price32, "Limit, at most 199,999.9900; 0x7FFFFFFF is a market order, in a cross only";
        time_in_force: U32, "Seconds to live; 0 immediate or cancel, 99998 market hours, 99999 system hours";
        firm: Alpha<4>, "The firm of the order; blank is the session's default";
        display: Char, "`A` attributable, `Y` visible, `N` hidden, `P` post-only, `L` post-only attributable, `M` midpoint peg, `W` midpoint peg post-only";
        capacity: Char, "`A` agency, `P` principal, `R` riskless, all else other";
        intermarket_sweep_eligibility: Char, "`N`";
        minimum_quantity: U32, "The least that may execute at once; 0 is none";
        cross_type: Char, "`N` continuous, `O` opening, `C` closing, `H` halt or new issue";
        customer_type: Char, "`R` retail, `N` not, space for the session's default";
    }

    /// Replace Order (`U`), 47 bytes.
    "Replace Order" ReplaceRequest [47] = b'U' {
        message_type: Char, "`U`";
        existing_order_token: Alpha<14>, "The live order of the chain";
        replacement_order_token: Alpha<14>, "Name of the replacement, not used before";
        shares: U32, "Of the whole chain, what it executed included";
        price: Price32, "As in Enter Order";
        time_in_force: U32, "As in Enter Order";
        display: Char, "As in Enter Order";
        intermarket_sweep_eligibility: Char, "`N`";
        minimum_quantity: U32, "As in Enter Order";
    }

    /// Cancel Order (`X`), 19 bytes.
    "Cancel Order" CancelRequest [19] = b'X' {
        message_type: Char, "`X`";
        order_token: Alpha<14>, "The live order";
        shares: U32, "The most the order shall execute over its life; 0 cancels all that is open";
    }

    /// Modify Order (`M`), 20 bytes.
    "Modify Order" ModifyRequest [20] = b'M' {
        message_type: Char, "`M`";
        order_token: Alpha<14>, "The live order";
        buy_sell_indicator: Char, "The kind of sell it shall be: `S`, `T` or `E`";
        shares: U32, "The most the chain shall execute over its life; no increase";
    }

    /// Trade Now (`N`), 15 bytes.
    "Trade Now" TradeNowRequest [15] = b'N' {
        message_type: Char, "`N`";
        order_token: Alpha<14>, "The live order; not offered, and ignored";
    }
}

layout! {
    /// System Event (`S`), 10 bytes.
    "System Event" SystemEventMessage [10] = b'S' {
        message_type: Char, "`S`";
        timestamp: Nanos64, "When it happened";
        event_code: Char, "`S` start of day, `E` end of day";
    }

    /// Accepted (`A`), 66 bytes.
    "Accepted" AcceptedMessage [66] = b'A' {
        message_type: Char, "`A`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        buy_sell_indicator: Char, "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        shares: U32, "Accepted; of a replacement, what is open";
        stock: Alpha<8>, "What it trades";
        price: Price32, "Accepted";
        time_in_force: U32, "Accepted: 0, seconds to live, or 99998";
        firm: Alpha<4>, "As entered";
        display: Char, "As entered; `Z` if the price was changed";
        order_reference_number: U64, "The exchange's name for the order, as on the feed";
        capacity: Char, "`A` agency, `P` principal, `R` riskless, `O` other";
        intermarket_sweep_eligibility: Char, "`N`";
        minimum_quantity: U32, "Accepted; 0 is none";
        cross_type: Char, "As entered";
        order_state: Char, "`L` live, `D` dead: accepted and done at once";
        bbo_weight_indicator: Char, "Space";
    }

    /// Replaced (`U`), 80 bytes.
    "Replaced" ReplacedMessage [80] = b'U' {
        message_type: Char, "`U`";
        timestamp: Nanos64, "When it happened";
        replacement_order_token: Alpha<14>, "The replacement";
        buy_sell_indicator: Char, "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        shares: U32, "Accepted; of a replacement, what is open";
        stock: Alpha<8>, "What it trades";
        price: Price32, "Accepted";
        time_in_force: U32, "Accepted: 0, seconds to live, or 99998";
        firm: Alpha<4>, "As entered";
        display: Char, "As entered; `Z` if the price was changed";
        order_reference_number: U64, "The exchange's name for the order, as on the feed";
        capacity: Char, "`A` agency, `P` principal, `R` riskless, `O` other";
        intermarket_sweep_eligibility: Char, "`N`";
        minimum_quantity: U32, "Accepted; 0 is none";
        cross_type: Char, "As entered";
        order_state: Char, "`L` live, `D` dead: accepted and done at once";
        previous_order_token: Alpha<14>, "The order that is no more";
        bbo_weight_indicator: Char, "Space";
    }

    /// Canceled (`C`), 28 bytes.
    "Canceled" CanceledMessage [28] = b'C' {
        message_type: Char, "`C`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        decrement_shares: U32, "Removed now";
        reason: Char, "Why, in the letters of OUCH 5.0";
    }

    /// AIQ Canceled (`D`), 37 bytes.
    "AIQ Canceled" AiqCanceledMessage [37] = b'D' {
        message_type: Char, "`D`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        decrement_shares: U32, "Removed now";
        reason: Char, "`Q`";
        quantity_prevented_from_trading: U32, "What would have traded";
        execution_price: Price32, "At which price it would have";
        liquidity_flag: Char, "The flag it would have had";
    }

    /// Executed (`E`), 40 bytes.
    "Executed" ExecutedMessage [40] = b'E' {
        message_type: Char, "`E`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        executed_shares: U32, "Executed now";
        execution_price: Price32, "At which price";
        liquidity_flag: Char, "`A` added, `R` removed, `J` added hidden, `O` `C` `H` auctions";
        match_number: U64, "The trade: the same for both its sides and on the feed";
    }

    /// Broken Trade (`B`), 32 bytes.
    "Broken Trade" BrokenTradeMessage [32] = b'B' {
        message_type: Char, "`B`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        match_number: U64, "The trade that is undone";
        reason: Char, "`E` erroneous, `C` consent, `S` supervisory, `X` external";
    }

    /// Rejected (`J`), 24 bytes.
    "Rejected" RejectedMessage [24] = b'J' {
        message_type: Char, "`J`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The token, which is used up";
        reason: Char, "The reason, see the table of reasons";
    }

    /// Cancel Pending (`P`), 23 bytes.
    "Cancel Pending" CancelPendingMessage [23] = b'P' {
        message_type: Char, "`P`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order, to be canceled after the cross";
    }

    /// Cancel Reject (`I`), 23 bytes.
    "Cancel Reject" CancelRejectMessage [23] = b'I' {
        message_type: Char, "`I`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order, which cannot be reduced now";
    }

    /// Order Priority Update (`T`), 36 bytes.
    "Order Priority Update" PriorityUpdateMessage [36] = b'T' {
        message_type: Char, "`T`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        price: Price32, "New price";
        display: Char, "New display";
        order_reference_number: U64, "New name on the feed";
    }

    /// Order Modified (`M`), 28 bytes.
    "Order Modified" ModifiedMessage [28] = b'M' {
        message_type: Char, "`M`";
        timestamp: Nanos64, "When it happened";
        order_token: Alpha<14>, "The order";
        buy_sell_indicator: Char, "The side it has now";
        shares: U32, "Still open";
    }
}

direction! {
    /// A message from a participant.
    Request42 {
        EnterRequest,
        ReplaceRequest,
        CancelRequest,
        ModifyRequest,
        TradeNowRequest,
    }
}

direction! {
    /// A message to a participant.
    Response42 {
        SystemEventMessage,
        AcceptedMessage,
        ReplacedMessage,
        CanceledMessage,
        AiqCanceledMessage,
        ExecutedMessage,
        BrokenTradeMessage,
        RejectedMessage,
        CancelPendingMessage,
        CancelRejectMessage,
        PriorityUpdateMessage,
        ModifiedMessage,
    }
}
