//! Messages to participants. OUCH 5.0, outbound.
//!
//! The appendage is not part of the structs: it starts where they end. Where its presence is
//! optional it is there only for orders of a channel other than 0.

use super::{Appendage, Malformed, Presence, direction};
use crate::{
    field::{Alpha, Char, Nanos64, Price64, U16, U32, U64},
    layout::layout,
};

layout! {
    /// System Event (`S`), 10 bytes; never an appendage.
    "System Event" SystemEvent [10] = b'S' {
        message_type: Char,     "`S`";
        timestamp: Nanos64,     "When it happened";
        event_code: Char,       "`S` start of day, `E` end of day";
    }

    /// Order Accepted (`A`), 62 bytes and an appendage.
    "Order Accepted" OrderAccepted [62] = b'A' {
        message_type: Char,     "`A`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        side: Char,             "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        quantity: U32,          "Accepted";
        symbol: Alpha<8>,       "What it trades";
        price: Price64,         "Accepted; may be better than entered";
        time_in_force: Char,    "Accepted; may be shorter than entered";
        display: Char,          "`Y` visible, `N` hidden, `A` attributable, `Z` conformant";
        order_reference_number: U64, "The exchange's name for the order, as on the feed";
        capacity: Char,         "`A` agency, `P` principal, `R` riskless, `O` other";
        inter_market_sweep_eligibility: Char, "`Y` eligible, `N` not";
        cross_type: Char,       "As entered";
        order_state: Char,      "`L` live, `D` dead: accepted and done at once";
        cl_ord_id: Alpha<14>,   "The participant's own name for the order";
    }

    /// Order Replaced (`U`), 66 bytes and an appendage.
    "Order Replaced" OrderReplaced [66] = b'U' {
        message_type: Char,     "`U`";
        timestamp: Nanos64,     "When it happened";
        orig_user_ref_num: U32, "The order that is no more";
        user_ref_num: U32,      "The replacement";
        side: Char,             "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        quantity: U32,          "Open lots of the replacement";
        symbol: Alpha<8>,       "What it trades";
        price: Price64,         "Accepted";
        time_in_force: Char,    "Accepted";
        display: Char,          "`Y` visible, `N` hidden, `A` attributable, `Z` conformant";
        order_reference_number: U64, "The exchange's name for the replacement";
        capacity: Char,         "`A` agency, `P` principal, `R` riskless, `O` other";
        inter_market_sweep_eligibility: Char, "`Y` eligible, `N` not";
        cross_type: Char,       "As entered";
        order_state: Char,      "`L` live, `D` dead: replaced and done at once";
        cl_ord_id: Alpha<14>,   "The participant's own name for the replacement";
    }

    /// Order Canceled (`C`), 18 bytes; appendage optional.
    "Order Canceled" OrderCanceled [18] = b'C' {
        message_type: Char,     "`C`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        quantity: U32,          "Removed now, on top of what was removed before";
        reason: Char,           "Why; section 9";
    }

    /// AIQ Canceled (`D`), 32 bytes; appendage optional. A self-match was prevented.
    "AIQ Canceled" AiqCanceled [32] = b'D' {
        message_type: Char,     "`D`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        decrement_shares: U32,  "Removed now";
        reason: Char,           "`Q`";
        quantity_prevented_from_trading: U32, "What would have traded";
        execution_price: Price64, "At which price it would have";
        liquidity_flag: Char,   "The flag it would have had";
        aiq_strategy: Char,     "How it was prevented";
    }

    /// Order Executed (`E`), 34 bytes and an appendage.
    "Order Executed" OrderExecuted [34] = b'E' {
        message_type: Char,     "`E`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        quantity: U32,          "Executed now";
        price: Price64,         "At which price";
        liquidity_flag: Char,   "`A` added, `R` removed; others in section 9";
        match_number: U64,      "The trade: the same for both its sides and on the feed";
    }

    /// Broken Trade (`B`), 36 bytes; appendage optional.
    "Broken Trade" BrokenTrade [36] = b'B' {
        message_type: Char,     "`B`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        match_number: U64,      "The trade that is undone";
        reason: Char,           "`E` erroneous, `C` consent, `S` supervisory, `X` external";
        cl_ord_id: Alpha<14>,   "The participant's own name for the order";
    }

    /// Rejected (`J`), 29 bytes; appendage optional.
    "Rejected" Rejected [29] = b'J' {
        message_type: Char,     "`J`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The number that is used up";
        reason: U16,            "Why; section 9";
        cl_ord_id: Alpha<14>,   "The participant's own name for the order";
    }

    /// Cancel Pending (`P`), 13 bytes; appendage optional.
    "Cancel Pending" CancelPending [13] = b'P' {
        message_type: Char,     "`P`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order, to be canceled after the cross";
    }

    /// Cancel Reject (`I`), 13 bytes; appendage optional.
    "Cancel Reject" CancelReject [13] = b'I' {
        message_type: Char,     "`I`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order, which cannot be reduced now";
    }

    /// Order Priority Update (`T`), 30 bytes; appendage optional.
    "Order Priority Update" OrderPriorityUpdate [30] = b'T' {
        message_type: Char,     "`T`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        price: Price64,         "New price";
        display: Char,          "New display";
        order_reference_number: U64, "New name on the feed";
    }

    /// Order Modified (`M`), 18 bytes; appendage optional.
    "Order Modified" OrderModified [18] = b'M' {
        message_type: Char,     "`M`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        side: Char,             "The side it has now";
        quantity: U32,          "Still open";
    }

    /// Order Restated (`R`), 14 bytes and an appendage.
    "Order Restated" OrderRestated [14] = b'R' {
        message_type: Char,     "`R`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "The order";
        reason: Char,           "`R` the displayed part was refreshed, `P` the displayed price moved";
    }

    /// Mass Cancel Response (`X`), 25 bytes and an appendage.
    "Mass Cancel Response" MassCancelResponse [25] = b'X' {
        message_type: Char,     "`X`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "Number of the request";
        firm: Alpha<4>,         "As asked";
        symbol: Alpha<8>,       "As asked";
    }

    /// Disable Order Entry Response (`G`), 17 bytes and an appendage.
    "Disable Order Entry Response" DisableOrderEntryResponse [17] = b'G' {
        message_type: Char,     "`G`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "Number of the request";
        firm: Alpha<4>,         "As asked";
    }

    /// Enable Order Entry Response (`K`), 17 bytes and an appendage.
    "Enable Order Entry Response" EnableOrderEntryResponse [17] = b'K' {
        message_type: Char,     "`K`";
        timestamp: Nanos64,     "When it happened";
        user_ref_num: U32,      "Number of the request";
        firm: Alpha<4>,         "As asked";
    }

    /// Account Query Response (`Q`), 13 bytes; appendage optional.
    "Account Query Response" AccountQueryResponse [13] = b'Q' {
        message_type: Char,     "`Q`";
        timestamp: Nanos64,     "When it happened";
        next_user_ref_num: U32, "The least number that would be taken";
    }
}

direction! {
    /// A message to a participant, in its wire layout.
    Outbound decode_outbound {
        SystemEvent: Never,
        OrderAccepted: Always,
        OrderReplaced: Always,
        OrderCanceled: Optional,
        AiqCanceled: Optional,
        OrderExecuted: Always,
        BrokenTrade: Optional,
        Rejected: Optional,
        CancelPending: Optional,
        CancelReject: Optional,
        OrderPriorityUpdate: Optional,
        OrderModified: Optional,
        OrderRestated: Always,
        MassCancelResponse: Always,
        DisableOrderEntryResponse: Always,
        EnableOrderEntryResponse: Always,
        AccountQueryResponse: Optional,
    }
}
