//! The words of an order: side, type, time in force, display, capacity, attributes.
//!
//! Invariant: the code of a value is stored in journals and snapshots, and never reused.

use crate::{ClientOrderId, Firm, Quantity, Shown};

macro_rules! code_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $code,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stored code: stable, never reused.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// From the stored code.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use code_enum;

code_enum! {
    /// Which way an order trades. The codes are those of OUCH 5.0.
    Side {
        /// Buys.
        Buy = b'B',
        /// Sells what is held.
        Sell = b'S',
        /// Sells short.
        SellShort = b'T',
        /// Sells short, exempt from the price test.
        SellShortExempt = b'E',
    }
}

impl Side {
    /// True for the bid side of the book.
    #[must_use]
    pub const fn is_buy(self) -> bool {
        matches!(self, Self::Buy)
    }
}

code_enum! {
    /// How an order is priced.
    OrderType {
        /// Trades at its price or better.
        Limit = b'L',
        /// Trades at any price; what does not trade at once is canceled.
        Market = b'M',
        /// Trades at any price; what does not trade at once becomes a limit order at the last price
        /// it traded at.
        MarketToLimit = b'K',
    }
}

code_enum! {
    /// How long an order lives. The codes are those of OUCH 5.0 where it has one, else FIX's.
    TimeInForce {
        /// Until filled, canceled or the end of the day.
        Day = b'0',
        /// Until filled or canceled, on later days too.
        GoodTillCancel = b'1',
        /// For the opening auction only.
        AtTheOpen = b'2',
        /// Immediate or cancel: trades what it can at once, the rest is canceled.
        ImmediateOrCancel = b'3',
        /// Trades all of it at once, or nothing.
        FillOrKill = b'4',
        /// Until filled, canceled or the time that its instructions say.
        GoodTillTime = b'6',
        /// For the closing auction only.
        AtTheClose = b'7',
        /// For the next auction only.
        GoodForAuction = b'B',
    }
}

code_enum! {
    /// How an order is shown. The codes are those of OUCH 5.0.
    Display {
        /// Shown without a name.
        Visible = b'Y',
        /// Shown under its firm's name.
        Attributable = b'A',
        /// Not at all, and behind all that are shown at its price.
        Hidden = b'N',
    }
}

impl OrderType {
    /// True if it is entered without a price.
    #[must_use]
    pub const fn is_priceless(self) -> bool {
        matches!(self, Self::Market | Self::MarketToLimit)
    }
}

impl TimeInForce {
    /// True if what does not trade at once may rest in the continuous market.
    #[must_use]
    pub const fn may_rest(self) -> bool {
        matches!(self, Self::Day | Self::GoodTillCancel | Self::GoodTillTime)
    }

    /// True if the order is for an auction only.
    #[must_use]
    pub const fn is_for_auction(self) -> bool {
        matches!(self, Self::AtTheOpen | Self::AtTheClose | Self::GoodForAuction)
    }
}

impl Display {
    /// True if the feed tells of an order while it rests.
    #[must_use]
    pub const fn is_displayed(self) -> bool {
        !matches!(self, Self::Hidden)
    }

    /// What the feed shows of an order shown in full that had, and has, so many lots open.
    ///
    /// # Panics
    /// Either is beyond 32 bits.
    #[must_use]
    #[inline]
    pub fn shown(self, before: Quantity, after: Quantity) -> Shown {
        match self.is_displayed() {
            true => Shown { before: before.lots(), after: after.lots() },
            false => Shown::NONE,
        }
    }
}

code_enum! {
    /// For whom the firm acts. The codes are those of OUCH 5.0.
    Capacity {
        /// For a customer.
        Agency = b'A',
        /// For itself.
        Principal = b'P',
        /// For a customer, as principal.
        Riskless = b'R',
        /// Otherwise.
        Other = b'O',
    }
}

code_enum! {
    /// Whether the customer is retail. The codes are those of OUCH 5.0.
    CustomerType {
        /// The default of the session.
        SessionDefault = b' ',
        /// Retail, designated.
        Retail = b'R',
        /// Not retail.
        NotRetail = b'N',
    }
}

/// What an order carries along without the book looking at it; echoed to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderAttributes {
    /// The participant's name for the order.
    pub client_order_id: ClientOrderId,
    /// The firm it is entered for; blank is the session's own.
    pub firm: Firm,
    /// For whom the firm acts.
    pub capacity: Capacity,
    /// Whether the customer is retail.
    pub customer_type: CustomerType,
    /// Group for mass cancel; 0 is none.
    pub group_id: u16,
    /// Shares to sell short are located.
    pub shares_located: bool,
    /// Broker that located them; blank is none.
    pub locate_broker: Firm,
}

impl Default for OrderAttributes {
    fn default() -> Self {
        Self {
            client_order_id: ClientOrderId::BLANK,
            firm: Firm::BLANK,
            capacity: Capacity::Other,
            customer_type: CustomerType::SessionDefault,
            group_id: 0,
            shares_located: false,
            locate_broker: Firm::BLANK,
        }
    }
}
