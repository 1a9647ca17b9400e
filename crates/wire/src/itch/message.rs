//! The 23 messages of ITCH 5.0, and one of our own. Every one begins with its type, the instrument, a tracking number and the time.

use super::{Malformed, messages};
use crate::{
    field::{Alpha, Char, Level64, Nanos48, Price32, U16, U32, U64},
    layout::layout,
};

layout! {
    /// System Event (`S`), 12 bytes.
    "System Event" SystemEvent [12] = b'S' {
        message_type: Char,     "`S`";
        stock_locate: U16,      "0: not about one instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        event_code: Char,       "`O` start of messages, `S` of system hours, `Q` of market hours; `M` end of market hours, `E` of system hours, `C` of messages";
    }

    /// Stock Directory (`R`), 39 bytes.
    "Stock Directory" StockDirectory [39] = b'R' {
        message_type: Char,     "`R`";
        stock_locate: U16,      "The instrument's number from here on";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        market_category: Char,  "Listing market; space is none of them";
        financial_status_indicator: Char, "`N` normal; space is not available";
        round_lot_size: U32,    "Lots of a round lot";
        round_lots_only: Char,  "`Y` only round lots are taken, `N` any number";
        issue_classification: Char, "`C` common stock; others in the specification";
        issue_sub_type: Alpha<2>, "`Z` not applicable; others in the specification";
        authenticity: Char,     "`P` live, `T` test";
        short_sale_threshold_indicator: Char, "`Y`, `N`, space not available";
        ipo_flag: Char,         "`Y`, `N`, `Z` new listing without offering, space not available";
        luld_reference_price_tier: Char, "`1`, `2`, space not applicable";
        etp_flag: Char,         "`Y`, `N`, space not available";
        etp_leverage_factor: U32, "0 if not leveraged";
        inverse_indicator: Char, "`Y`, `N`";
    }

    /// Stock Trading Action (`H`), 25 bytes.
    "Stock Trading Action" StockTradingAction [25] = b'H' {
        message_type: Char,     "`H`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        trading_state: Char,    "`H` halted, `P` paused, `Q` quotation only, `T` trading";
        reserved: Char,         "Space";
        reason: Alpha<4>,       "Why; blank is no reason";
    }

    /// Reg SHO Restriction (`Y`), 20 bytes.
    "Reg SHO Restriction" RegShoRestriction [20] = b'Y' {
        message_type: Char,     "`Y`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        reg_sho_action: Char,   "`0` no price test, `1` in effect since today, `2` still in effect";
    }

    /// Market Participant Position (`L`), 26 bytes.
    "Market Participant Position" MarketParticipantPosition [26] = b'L' {
        message_type: Char,     "`L`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        mpid: Alpha<4>,         "The participant";
        stock: Alpha<8>,        "Symbol of the instrument";
        primary_market_maker: Char, "`Y`, `N`";
        market_maker_mode: Char, "`N` normal, `P` passive, `S` syndicate, `R` pre-syndicate, `L` penalty";
        market_participant_state: Char, "`A` active, `E` excused, `W` withdrawn, `S` suspended, `D` deleted";
    }

    /// MWCB Decline Level (`V`), 35 bytes: levels of the market-wide circuit breaker.
    "MWCB Decline Level" MwcbDeclineLevel [35] = b'V' {
        message_type: Char,     "`V`";
        stock_locate: U16,      "0";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        level1: Level64,        "First level";
        level2: Level64,        "Second level";
        level3: Level64,        "Third level";
    }

    /// MWCB Status (`W`), 12 bytes: a level of the market-wide circuit breaker was breached.
    "MWCB Status" MwcbStatus [12] = b'W' {
        message_type: Char,     "`W`";
        stock_locate: U16,      "0";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        breached_level: Char,   "`1`, `2`, `3`";
    }

    /// Quoting Period Update (`K`), 28 bytes: when quotation of a new issue begins.
    "Quoting Period Update (IPO)" IpoQuotingPeriodUpdate [28] = b'K' {
        message_type: Char,     "`K`";
        stock_locate: U16,      "0, although it is about one instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Symbol of the instrument";
        ipo_quotation_release_time: U32, "Seconds since midnight; 0 if called off";
        ipo_quotation_release_qualifier: Char, "`A` anticipated, `C` canceled or put off";
        ipo_price: Price32,     "Price of the offering";
    }

    /// LULD Auction Collar (`J`), 35 bytes.
    "LULD Auction Collar" LuldAuctionCollar [35] = b'J' {
        message_type: Char,     "`J`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        auction_collar_reference_price: Price32, "From which the collar is set";
        upper_auction_collar_price: Price32, "Highest auction price";
        lower_auction_collar_price: Price32, "Lowest auction price";
        auction_collar_extension: U32, "How often it was widened";
    }

    /// Operational Halt (`h`), 21 bytes.
    "Operational Halt" OperationalHalt [21] = b'h' {
        message_type: Char,     "`h`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        market_code: Char,      "Which market of the group";
        operational_halt_action: Char, "`H` halted, `T` lifted";
    }

    /// Add Order without a name (`A`), 36 bytes.
    "Add Order - No MPID" AddOrder [36] = b'A' {
        message_type: Char,     "`A`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The order";
        buy_sell_indicator: Char, "`B` buy, `S` any kind of sell";
        shares: U32,            "Open lots";
        stock: Alpha<8>,        "Symbol of the instrument";
        price: Price32,         "At which it rests";
    }

    /// Add Order under a name (`F`), 40 bytes.
    "Add Order - MPID" AddOrderAttributed [40] = b'F' {
        message_type: Char,     "`F`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The order";
        buy_sell_indicator: Char, "`B` buy, `S` any kind of sell";
        shares: U32,            "Open lots";
        stock: Alpha<8>,        "Symbol of the instrument";
        price: Price32,         "At which it rests";
        attribution: Alpha<4>,  "Its firm";
    }

    /// Order Executed (`E`), 31 bytes: at the price at which it rests.
    "Order Executed" OrderExecuted [31] = b'E' {
        message_type: Char,     "`E`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The resting order";
        executed_shares: U32,   "Executed now; the order is gone when nothing is left";
        match_number: U64,      "The trade";
    }

    /// Order Executed With Price (`C`), 36 bytes: at another price than it rests at.
    "Order Executed With Price" OrderExecutedWithPrice [36] = b'C' {
        message_type: Char,     "`C`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The resting order";
        executed_shares: U32,   "Executed now";
        match_number: U64,      "The trade";
        printable: Char,        "`Y` counts as volume, `N` is part of a later cross print";
        execution_price: Price32, "At which it executed";
    }

    /// Order Cancel (`X`), 23 bytes: a part of the order is canceled.
    "Order Cancel" OrderCancel [23] = b'X' {
        message_type: Char,     "`X`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The resting order";
        canceled_shares: U32,   "Removed now";
    }

    /// Order Delete (`D`), 19 bytes: all that is left of the order is canceled.
    "Order Delete" OrderDelete [19] = b'D' {
        message_type: Char,     "`D`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "The resting order";
    }

    /// Order Replace (`U`), 35 bytes: side, symbol and name stay, priority is lost.
    "Order Replace" OrderReplace [35] = b'U' {
        message_type: Char,     "`U`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        original_order_reference_number: U64, "The order that is no more, with all that was left";
        new_order_reference_number: U64, "The order in its place";
        shares: U32,            "Its open lots";
        price: Price32,         "At which it rests";
    }

    /// Trade, not in a cross (`P`), 44 bytes: against an order that was not displayed.
    "Trade (Non-Cross)" Trade [44] = b'P' {
        message_type: Char,     "`P`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "0";
        buy_sell_indicator: Char, "`B` whichever side it was";
        shares: U32,            "Traded";
        stock: Alpha<8>,        "Symbol of the instrument";
        price: Price32,         "At which it traded";
        match_number: U64,      "The trade";
    }

    /// Trade of a large quantity (`p`), 48 bytes: a Trade message with 8 bytes for the lots. ITCH 5.0 does
    /// not have it; it is for more lots than its own message has room for.
    "Trade (Non-Cross) of a large quantity" LargeTrade [48] = b'p' {
        message_type: Char,     "`p`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal; we send 0";
        timestamp: Nanos48,     "When it happened";
        order_reference_number: U64, "0";
        buy_sell_indicator: Char, "`B` whichever side it was";
        shares: U64,            "Traded; more than 4,294,967,295";
        stock: Alpha<8>,        "Symbol of the instrument";
        price: Price32,         "At which it traded";
        match_number: U64,      "The trade";
    }

    /// Cross Trade (`Q`), 40 bytes.
    "Cross Trade" CrossTrade [40] = b'Q' {
        message_type: Char,     "`Q`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        shares: U64,            "Traded in the cross; may be 0";
        stock: Alpha<8>,        "Symbol of the instrument";
        cross_price: Price32,   "At which all of it traded";
        match_number: U64,      "The cross";
        cross_type: Char,       "`O` opening, `C` closing, `H` halt or new issue";
    }

    /// Broken Trade (`B`), 19 bytes.
    "Broken Trade" BrokenTrade [19] = b'B' {
        message_type: Char,     "`B`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        match_number: U64,      "The trade that is undone; books do not change";
    }

    /// Net Order Imbalance Indicator (`I`), 50 bytes.
    "NOII" NetOrderImbalance [50] = b'I' {
        message_type: Char,     "`I`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        paired_shares: U64,     "That would trade at the reference price";
        imbalance_shares: U64,  "That would be left over";
        imbalance_direction: Char, "`B` buy, `S` sell, `N` none, `O` too few orders, `P` paused";
        stock: Alpha<8>,        "Symbol of the instrument";
        far_price: Price32,     "Clearing the cross's orders alone";
        near_price: Price32,    "Clearing the cross's and the book's orders";
        current_reference_price: Price32, "At which the numbers hold";
        cross_type: Char,       "`O` opening, `C` closing, `H` halt or new issue, `A` extended trading close";
        price_variation_indicator: Char, "How far near price is from the reference: `L` below 1 %, `1` to `9` percent, `A` 10, `B` 20, `C` from 30 %, space not known";
    }

    /// Retail Price Improvement Indicator (`N`), 20 bytes.
    "Retail Price Improvement Indicator" RetailPriceImprovementIndicator [20] = b'N' {
        message_type: Char,     "`N`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        interest_flag: Char,    "`B` buy, `S` sell, `A` both, `N` none";
    }

    /// Direct Listing with Capital Raise (`O`), 48 bytes.
    "Direct Listing with Capital Raise" DirectListingWithCapitalRaise [48] = b'O' {
        message_type: Char,     "`O`";
        stock_locate: U16,      "The instrument";
        tracking_number: U16,   "Internal";
        timestamp: Nanos48,     "When it happened";
        stock: Alpha<8>,        "Its symbol";
        open_eligibility_status: Char, "`Y` may be released, `N` not yet";
        minimum_allowable_price: Price32, "Lowest price of the opening";
        maximum_allowable_price: Price32, "Highest price of the opening";
        near_execution_price: Price32, "At which it would open now";
        near_execution_time: U64, "When that price was found, in nanoseconds";
        lower_price_range_collar: Price32, "Lowest price of the range";
        upper_price_range_collar: Price32, "Highest price of the range";
    }
}

messages! {
    SystemEvent,
    StockDirectory,
    StockTradingAction,
    RegShoRestriction,
    MarketParticipantPosition,
    MwcbDeclineLevel,
    MwcbStatus,
    IpoQuotingPeriodUpdate,
    LuldAuctionCollar,
    OperationalHalt,
    AddOrder,
    AddOrderAttributed,
    OrderExecuted,
    OrderExecutedWithPrice,
    OrderCancel,
    OrderDelete,
    OrderReplace,
    Trade,
    LargeTrade,
    CrossTrade,
    BrokenTrade,
    NetOrderImbalance,
    RetailPriceImprovementIndicator,
    DirectListingWithCapitalRaise,
}
