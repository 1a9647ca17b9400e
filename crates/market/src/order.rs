//! Order fields: side, type, time in force, display, capacity, attributes.
//!
//! Invariant: stored codes of values go into journals and snapshots, and are never reused.

use crate::{ClientOrderId, Firm, Quantity, Shown};

macro_rules! code_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $code,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stored code; stable, never reused.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value of a stored code, if there is one.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        /// One byte: the stored code.
        impl $crate::bytes::Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl $crate::bytes::ByteWriter) {
                out.put(&[self.code()]);
            }

            #[inline]
            fn read_from(
                from: &mut $crate::bytes::ByteReader<'_>,
                name: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                let [code] = from.take()?;
                Self::from_code(code).ok_or($crate::DecodeError::Field(name))
            }
        }
    };
}
pub(crate) use code_enum;

code_enum! {
    /// The side of an order. The codes are those of OUCH 5.0.
    Side {
        /// Buy.
        Buy = b'B',
        /// Sell long.
        Sell = b'S',
        /// Sell short.
        SellShort = b'T',
        /// Sell short exempt: exempt from the price test.
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
    /// Order type: how an order is priced.
    OrderType {
        /// Limit: trades at its price or better.
        Limit = b'L',
        /// Market: trades at any price; the rest is canceled.
        Market = b'M',
        /// Market to limit: trades at any price; the rest becomes a limit order at the price of its
        /// last trade.
        MarketToLimit = b'K',
    }
}

code_enum! {
    /// Time in force. The codes are those of OUCH 5.0 where it has one, else FIX's.
    TimeInForce {
        /// Day: until filled, canceled or the end of the day.
        Day = b'0',
        /// GTC: until filled or canceled, on later days too.
        GoodTillCancel = b'1',
        /// On open: for the opening auction only.
        AtTheOpen = b'2',
        /// IOC: trades as much as it can at once; the rest is canceled.
        ImmediateOrCancel = b'3',
        /// FOK: trades all at once, or nothing.
        FillOrKill = b'4',
        /// GTT: until filled, canceled or the expiry in its instructions.
        GoodTillTime = b'6',
        /// On close: for the closing auction only.
        AtTheClose = b'7',
        /// For the next auction only.
        GoodForAuction = b'B',
    }
}

code_enum! {
    /// Display of an order on the feed. The codes are those of OUCH 5.0.
    Display {
        /// Displayed without attribution.
        Visible = b'Y',
        /// Attributed: displayed under its firm's name.
        Attributable = b'A',
        /// Hidden; it trades after all displayed orders at its price.
        Hidden = b'N',
    }
}

impl OrderType {
    /// True if the order has no limit on entry.
    #[must_use]
    pub const fn is_priceless(self) -> bool {
        matches!(self, Self::Market | Self::MarketToLimit)
    }
}

impl TimeInForce {
    /// True if the open rest may stay in the book in continuous trading.
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
    /// True if a resting order with this display is on the feed.
    #[must_use]
    pub const fn is_displayed(self) -> bool {
        !matches!(self, Self::Hidden)
    }

    /// The lots of a fully displayed order that the feed shows, given its open lots before and after.
    #[must_use]
    #[inline]
    pub fn shown(self, before: Quantity, after: Quantity) -> Shown {
        match self.is_displayed() {
            true => Shown { before, after },
            false => Shown::NONE,
        }
    }
}

code_enum! {
    /// The capacity in which the firm acts. The codes are those of OUCH 5.0.
    Capacity {
        /// Agency: for a customer.
        Agency = b'A',
        /// Principal: for itself.
        Principal = b'P',
        /// Riskless principal: for a customer, with a principal trade.
        Riskless = b'R',
        /// Other.
        Other = b'O',
    }
}

code_enum! {
    /// Customer type: retail or not. The codes are those of OUCH 5.0.
    CustomerType {
        /// The default of the session.
        SessionDefault = b' ',
        /// Retail, designated.
        Retail = b'R',
        /// Not retail.
        NotRetail = b'N',
    }
}

/// Attributes of an order: the book ignores them, and replies echo them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct OrderAttributes {
    /// The participant's client order id.
    pub client_order_id: ClientOrderId,
    /// The firm it is entered for; blank is the session's own firm.
    pub firm: Firm,
    /// The capacity in which the firm acts.
    pub capacity: Capacity,
    /// Whether the customer is retail.
    pub customer_type: CustomerType,
    /// Group for mass cancel; 0 is none.
    pub group_id: u16,
    /// True if shares to sell short are located.
    pub shares_located: bool,
    /// Broker that located the shares; blank is none.
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
