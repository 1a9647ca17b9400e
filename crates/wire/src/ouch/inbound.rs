//! Messages from participants. OUCH 5.0, inbound.
//!
//! The appendage is not part of the structs: it starts where they end.

use super::{Appendage, Malformed, Presence, direction};
use crate::{
    field::{Alpha, Char, Price64, U32},
    layout::layout,
};

layout! {
    /// Enter Order (`O`), 45 bytes and an appendage.
    "Enter Order" EnterOrder [45] = b'O' {
        message_type: Char,     "`O`";
        user_ref_num: U32,      "Name of the order; above every number used before on its channel, from 1 each day";
        side: Char,             "`B` buy, `S` sell, `T` sell short, `E` sell short exempt";
        quantity: U32,          "Asked, 1 to 999,999, or to what the instrument allows";
        symbol: Alpha<8>,       "What to trade";
        price: Price64,         "Limit, at most 199,999.9900; from 200,000.0000 up it is a market order";
        time_in_force: Char,    "`0` day, `3` immediate or cancel, `5` extended hours, `6` until a time, `E` after hours";
        display: Char,          "`Y` visible, `N` hidden, `A` attributable";
        capacity: Char,         "`A` agency, `P` principal, `R` riskless, `O` other";
        inter_market_sweep_eligibility: Char, "`Y` eligible, `N` not";
        cross_type: Char,       "`N` continuous, `O` opening, `C` closing, `H` halt or new issue, `S` supplemental, `R` retail, `E` extended life, `A` after-hours close";
        cl_ord_id: Alpha<14>,   "The participant's own name for the order; need not be unique";
    }

    /// Replace Order Request (`U`), 38 bytes and an appendage.
    "Replace Order Request" ReplaceOrderRequest [38] = b'U' {
        message_type: Char,     "`U`";
        orig_user_ref_num: U32, "The live order of the chain";
        user_ref_num: U32,      "Name of the replacement; above every number used before on its channel";
        quantity: U32,          "Of the whole chain, what it executed included; as in Enter Order";
        price: Price64,         "As in Enter Order";
        time_in_force: Char,    "`0` day, `3` immediate or cancel, `5` extended hours, `6` until a time";
        display: Char,          "`Y` visible, `N` hidden, `A` attributable";
        inter_market_sweep_eligibility: Char, "`Y` eligible, `N` not";
        cl_ord_id: Alpha<14>,   "The participant's own name for the replacement";
    }

    /// Cancel Order Request (`X`), 9 bytes; the appendage may be left off.
    "Cancel Order Request" CancelOrderRequest [9] = b'X' {
        message_type: Char,     "`X`";
        user_ref_num: U32,      "The live order";
        quantity: U32,          "The most the order shall execute over its life; 0 cancels all that is open";
    }

    /// Modify Order Request (`M`), 10 bytes; the appendage may be left off.
    "Modify Order Request" ModifyOrderRequest [10] = b'M' {
        message_type: Char,     "`M`";
        user_ref_num: U32,      "The live order";
        side: Char,             "The kind of sell it shall be: `S`, `T` or `E`; or the side it has";
        quantity: U32,          "The most the order shall execute over its life; 0 cancels all; no increase";
    }

    /// Mass Cancel Request (`C`), 17 bytes and an appendage.
    "Mass Cancel Request" MassCancelRequest [17] = b'C' {
        message_type: Char,     "`C`";
        user_ref_num: U32,      "Number of the request; used up as an order's is";
        firm: Alpha<4>,         "Orders of this firm; upper case";
        symbol: Alpha<8>,       "Orders in this symbol; blank is all";
    }

    /// Disable Order Entry Request (`D`), 9 bytes and an appendage.
    "Disable Order Entry Request" DisableOrderEntryRequest [9] = b'D' {
        message_type: Char,     "`D`";
        user_ref_num: U32,      "Number of the request; used up as an order's is";
        firm: Alpha<4>,         "The firm that may enter no orders; upper case";
    }

    /// Enable Order Entry Request (`E`), 9 bytes and an appendage.
    "Enable Order Entry Request" EnableOrderEntryRequest [9] = b'E' {
        message_type: Char,     "`E`";
        user_ref_num: U32,      "Number of the request; used up as an order's is";
        firm: Alpha<4>,         "The firm that may enter orders again; upper case";
    }

    /// Account Query Request (`Q`), 1 byte; the appendage may be left off.
    "Account Query Request" AccountQueryRequest [1] = b'Q' {
        message_type: Char,     "`Q`";
    }
}

direction! {
    /// A message from a participant, in its wire layout.
    Inbound decode_inbound {
        EnterOrder: Always,
        ReplaceOrderRequest: Always,
        CancelOrderRequest: Optional,
        ModifyOrderRequest: Optional,
        MassCancelRequest: Always,
        DisableOrderEntryRequest: Always,
        EnableOrderEntryRequest: Always,
        AccountQueryRequest: Optional,
    }
}
