//! The messages and fields of FIX 4.2, 4.4 and 5.0 SP1 that the venue knows, as tables; docs/wire/fix.md shows them.
//!
//! Invariant: a field that the tables do not give to a message is rejected, never ignored. Tags from 5000
//! on belong to users and are the exception.

mod check;

pub(super) use check::{TAGS_END, data_tag};
pub use check::{check, field, message};

use self::check::TagSet;
use super::Version;

/// Tags from here to 9999 are free for agreements between users, and are ignored.
const USER_DEFINED: core::ops::RangeInclusive<u32> = 5000..=9999;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// One character, of the listed values if there are any.
    Char,
    /// Characters with a space between them, each of the listed values.
    Chars,
    /// `Y` or `N`.
    Bool,
    /// A whole number from 0, of the listed values if there are any.
    Number,
    /// A number of entries of a group.
    Count,
    /// A decimal number, perhaps negative.
    Decimal,
    /// A date and a time of UTC.
    Time,
    /// A date.
    Date,
    /// The length of the field of data that follows.
    Length,
    /// Data, which may contain SOH.
    Data,
}

/// A field of the dictionary.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    /// Number of the tag.
    pub tag: u32,
    /// Name of the field.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// The permitted values, with a space between them; empty if any value is permitted.
    pub values: &'static str,
}

/// A message of the dictionary. Fields of header and trailer are not listed.
#[derive(Clone, Copy, Debug)]
pub struct MessageRow {
    /// The value of MsgType (35).
    pub msg_type: &'static str,
    /// Name of the message.
    pub name: &'static str,
    /// Whether participants send it, the venue, or both.
    pub direction: Direction,
    /// Required in FIX 4.2; `None` if that version has no such message.
    pub required_42: Option<&'static [u32]>,
    /// Required in FIX 4.4, and in FIX 5.0 SP1 unless [`REQUIRED_50`] lists the message.
    pub required_44: &'static [u32],
    /// Further permitted fields.
    pub optional: &'static [u32],
}

/// The senders of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A message of the session, from both sides.
    Both,
    /// Sent by participants.
    ToVenue,
    /// Sent by the venue.
    FromVenue,
}

/// Required in every message.
pub const HEADER: &[u32] = &[8, 9, 35, 49, 56, 34, 52];
/// Allowed in every message.
pub const HEADER_OPTIONAL: &[u32] = &[
    43, 97, 122, 50, 57, 115, 116, 128, 129, 142, 143, 144, 145, 90, 91, 212, 213, 347, 369, 93,
    89, 10, 1128,
];
/// The required fields in FIX 5.0 SP1 over FIXT 1.1, for messages that require more than in FIX 4.4.
pub const REQUIRED_50: &[(&str, &[u32])] = &[("A", &[98, 108, 1137]), ("r", &[37, 1369, 530, 531])];
/// Every field from this tag on was added by FIXT 1.1 or FIX 5.0.
const TAG_50_MIN: u32 = 1024;
/// Fields of instruments, parties and the like: read by type, and of no effect on an order.
const WITHOUT_EFFECT: &[u32] = &[
    1, 15, 21, 22, 48, 58, 63, 64, 70, 77, 78, 79, 80, 100, 106, 107, 109, 120, 167, 200, 207, 336,
    354, 355, 376, 386, 447, 448, 452, 453, 460, 461, 526, 529, 581, 582, 583, 625,
];

macro_rules! fields {
    ($($tag:literal $name:ident $kind:ident $values:literal,)*) => {
        /// All fields, by tag.
        pub const FIELDS: &[FieldRow] = &[$(FieldRow {
            tag: $tag,
            name: stringify!($name),
            kind: Kind::$kind,
            values: $values,
        },)*];
    };
}

fields! {
    1 Account Text "",
    6 AvgPx Decimal "",
    7 BeginSeqNo Number "",
    8 BeginString Text "",
    9 BodyLength Number "",
    10 CheckSum Text "",
    11 ClOrdID Text "",
    14 CumQty Decimal "",
    15 Currency Text "",
    16 EndSeqNo Number "",
    17 ExecID Text "",
    18 ExecInst Chars "0 1 2 3 4 5 6 7 8 9 A B C D E F G H I J K L M N O P Q R S T U V W X Y Z a b c d e",
    19 ExecRefID Text "",
    20 ExecTransType Char "0 1 2 3",
    21 HandlInst Char "1 2 3",
    22 SecurityIDSource Text "",
    31 LastPx Decimal "",
    32 LastQty Decimal "",
    34 MsgSeqNum Number "",
    35 MsgType Text "",
    36 NewSeqNo Number "",
    37 OrderID Text "",
    38 OrderQty Decimal "",
    39 OrdStatus Char "0 1 2 3 4 5 6 7 8 9 A B C D E",
    40 OrdType Char "1 2 3 4 5 6 7 8 9 A B C D E F G H I J K L M P",
    41 OrigClOrdID Text "",
    43 PossDupFlag Bool "",
    44 Price Decimal "",
    45 RefSeqNum Number "",
    47 Rule80A Char "A B C D E F H I J K L M N O P R S T U W X Y Z",
    48 SecurityID Text "",
    49 SenderCompID Text "",
    50 SenderSubID Text "",
    52 SendingTime Time "",
    54 Side Char "1 2 3 4 5 6 7 8 9 A B C D E F G",
    55 Symbol Text "",
    56 TargetCompID Text "",
    57 TargetSubID Text "",
    58 Text Text "",
    59 TimeInForce Char "0 1 2 3 4 5 6 7",
    60 TransactTime Time "",
    63 SettlmntTyp Text "",
    64 FutSettDate Text "",
    70 AllocID Text "",
    77 PositionEffect Char "",
    78 NoAllocs Count "",
    79 AllocAccount Text "",
    80 AllocQty Decimal "",
    89 Signature Data "",
    90 SecureDataLen Length "",
    91 SecureData Data "",
    93 SignatureLength Length "",
    95 RawDataLength Length "",
    96 RawData Data "",
    97 PossResend Bool "",
    98 EncryptMethod Number "0 1 2 3 4 5 6",
    99 StopPx Decimal "",
    100 ExDestination Text "",
    102 CxlRejReason Number "0 1 2 3 4 5 6 99",
    103 OrdRejReason Number "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 99",
    106 Issuer Text "",
    107 SecurityDesc Text "",
    108 HeartBtInt Number "",
    109 ClientID Text "",
    110 MinQty Decimal "",
    111 MaxFloor Decimal "",
    112 TestReqID Text "",
    115 OnBehalfOfCompID Text "",
    116 OnBehalfOfSubID Text "",
    120 SettlCurrency Text "",
    122 OrigSendingTime Time "",
    123 GapFillFlag Bool "",
    126 ExpireTime Time "",
    128 DeliverToCompID Text "",
    129 DeliverToSubID Text "",
    141 ResetSeqNumFlag Bool "",
    142 SenderLocationID Text "",
    143 TargetLocationID Text "",
    144 OnBehalfOfLocationID Text "",
    145 DeliverToLocationID Text "",
    146 NoRelatedSym Count "",
    150 ExecType Char "0 1 2 3 4 5 6 7 8 9 A B C D E F G H I",
    151 LeavesQty Decimal "",
    167 SecurityType Text "",
    200 MaturityMonthYear Text "",
    207 SecurityExchange Text "",
    211 PegOffsetValue Decimal "",
    212 XmlDataLen Length "",
    213 XmlData Data "",
    262 MDReqID Text "",
    263 SubscriptionRequestType Char "0 1 2",
    264 MarketDepth Number "",
    265 MDUpdateType Number "0 1",
    266 AggregatedBook Bool "",
    267 NoMDEntryTypes Count "",
    268 NoMDEntries Count "",
    269 MDEntryType Char "0 1 2 3 4 5 6 7 8 9 A B C",
    270 MDEntryPx Decimal "",
    271 MDEntrySize Decimal "",
    272 MDEntryDate Date "",
    273 MDEntryTime Text "",
    278 MDEntryID Text "",
    279 MDUpdateAction Char "0 1 2",
    281 MDReqRejReason Char "0 1 2 3 4 5 6 7 8 9 A B C",
    320 SecurityReqID Text "",
    321 SecurityRequestType Number "0 1 2 3",
    322 SecurityResponseID Text "",
    323 SecurityResponseType Number "1 2 3 4 5 6",
    324 SecurityStatusReqID Text "",
    326 SecurityTradingStatus Number "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
    335 TradSesReqID Text "",
    336 TradingSessionID Text "",
    338 TradSesMethod Number "1 2 3",
    339 TradSesMode Number "1 2 3",
    340 TradSesStatus Number "0 1 2 3 4 5 6",
    346 NumberOfOrders Number "",
    347 MessageEncoding Text "",
    354 EncodedTextLen Length "",
    355 EncodedText Data "",
    369 LastMsgSeqNumProcessed Number "",
    371 RefTagID Number "",
    372 RefMsgType Text "",
    373 SessionRejectReason Number "",
    376 ComplianceID Text "",
    378 ExecRestatementReason Number "0 1 2 3 4 5 6 7 8 9 10 99",
    379 BusinessRejectRefID Text "",
    380 BusinessRejectReason Number "0 1 2 3 4 5 6 7",
    383 MaxMessageSize Number "",
    384 NoMsgTypes Count "",
    385 MsgDirection Char "S R",
    386 NoTradingSessions Count "",
    393 TotNoRelatedSym Number "",
    432 ExpireDate Date "",
    434 CxlRejResponseTo Char "1 2",
    447 PartyIDSource Char "",
    448 PartyID Text "",
    452 PartyRole Number "",
    453 NoPartyIDs Count "",
    460 Product Number "",
    461 CFICode Text "",
    464 TestMessageIndicator Bool "",
    526 SecondaryClOrdID Text "",
    528 OrderCapacity Char "A G I P R W",
    529 OrderRestrictions Text "",
    530 MassCancelRequestType Char "1 2 3 4 5 6 7",
    531 MassCancelResponse Char "0 1 2 3 4 5 6 7",
    532 MassCancelRejectReason Number "0 1 2 3 4 5 6 99",
    533 TotalAffectedOrders Number "",
    553 Username Text "",
    554 Password Text "",
    559 SecurityListRequestType Number "0 1 2 3 4",
    560 SecurityRequestResult Number "0 1 2 3 4 5",
    561 RoundLot Decimal "",
    567 TradSesStatusRejReason Number "1 99",
    581 AccountType Number "",
    582 CustOrderCapacity Number "",
    583 ClOrdLinkID Text "",
    625 TradingSessionSubID Text "",
    789 NextExpectedMsgSeqNum Number "",
    790 OrdStatusReqID Text "",
    893 LastFragment Bool "",
    1128 ApplVerID Char "0 1 2 3 4 5 6 7 8 9",
    1137 DefaultApplVerID Char "0 1 2 3 4 5 6 7 8 9",
    1369 MassActionReportID Text "",
}

/// Groups: the tag of the count, that of the first field of each entry, and all permitted tags of an entry.
const GROUPS: &[(u32, u32, &[u32])] = &[
    (78, 79, &[79, 80]),
    (146, 55, &[22, 48, 55, 107, 461, 561]),
    (267, 269, &[269]),
    // An entry of X begins with MDUpdateAction, and has one MDEntryType too.
    (268, 269, &[55, 269, 270, 271, 272, 273, 278, 279, 346]),
    (384, 372, &[372, 385]),
    (386, 336, &[336, 625]),
    (453, 448, &[447, 448, 452]),
];

/// All messages, those of the session first.
pub const MESSAGES: &[MessageRow] = &[
    MessageRow {
        msg_type: "A",
        name: "Logon",
        direction: Direction::Both,
        required_42: Some(&[98, 108]),
        required_44: &[98, 108],
        optional: &[141, 95, 96, 383, 384, 372, 385, 464, 553, 554, 789, 58],
    },
    MessageRow {
        msg_type: "0",
        name: "Heartbeat",
        direction: Direction::Both,
        required_42: Some(&[]),
        required_44: &[],
        optional: &[112],
    },
    MessageRow {
        msg_type: "1",
        name: "Test Request",
        direction: Direction::Both,
        required_42: Some(&[112]),
        required_44: &[112],
        optional: &[],
    },
    MessageRow {
        msg_type: "2",
        name: "Resend Request",
        direction: Direction::Both,
        required_42: Some(&[7, 16]),
        required_44: &[7, 16],
        optional: &[],
    },
    MessageRow {
        msg_type: "3",
        name: "Reject",
        direction: Direction::Both,
        required_42: Some(&[45]),
        required_44: &[45],
        optional: &[371, 372, 373, 58, 354, 355],
    },
    MessageRow {
        msg_type: "4",
        name: "Sequence Reset",
        direction: Direction::Both,
        required_42: Some(&[36]),
        required_44: &[36],
        optional: &[123],
    },
    MessageRow {
        msg_type: "5",
        name: "Logout",
        direction: Direction::Both,
        required_42: Some(&[]),
        required_44: &[],
        optional: &[58, 354, 355],
    },
    MessageRow {
        msg_type: "j",
        name: "Business Message Reject",
        direction: Direction::Both,
        required_42: Some(&[372, 380]),
        required_44: &[372, 380],
        optional: &[45, 379, 58, 354, 355],
    },
    MessageRow {
        msg_type: "D",
        name: "New Order Single",
        direction: Direction::ToVenue,
        required_42: Some(&[11, 21, 55, 54, 60, 40]),
        required_44: &[11, 55, 54, 60, 40],
        optional: &[18, 38, 44, 47, 59, 99, 110, 111, 126, 211, 432, 528],
    },
    MessageRow {
        msg_type: "F",
        name: "Order Cancel Request",
        direction: Direction::ToVenue,
        required_42: Some(&[41, 11, 55, 54, 60]),
        required_44: &[41, 11, 54, 60],
        optional: &[37, 38],
    },
    MessageRow {
        msg_type: "G",
        name: "Order Cancel/Replace Request",
        direction: Direction::ToVenue,
        required_42: Some(&[41, 11, 21, 55, 54, 60, 40]),
        required_44: &[41, 11, 54, 60, 40],
        optional: &[18, 37, 38, 44, 47, 59, 99, 110, 111, 126, 211, 432, 528],
    },
    MessageRow {
        msg_type: "H",
        name: "Order Status Request",
        direction: Direction::ToVenue,
        required_42: Some(&[11, 55, 54]),
        required_44: &[11, 54],
        optional: &[37, 790],
    },
    MessageRow {
        msg_type: "q",
        name: "Order Mass Cancel Request",
        direction: Direction::ToVenue,
        required_42: None,
        required_44: &[11, 530, 60],
        optional: &[54, 55],
    },
    MessageRow {
        msg_type: "x",
        name: "Security List Request",
        direction: Direction::ToVenue,
        required_42: None,
        required_44: &[320, 559],
        optional: &[55, 263],
    },
    MessageRow {
        msg_type: "c",
        name: "Security Definition Request",
        direction: Direction::ToVenue,
        required_42: Some(&[320, 321]),
        required_44: &[320, 321],
        optional: &[55, 263],
    },
    MessageRow {
        msg_type: "e",
        name: "Security Status Request",
        direction: Direction::ToVenue,
        required_42: Some(&[324, 55, 263]),
        required_44: &[324, 263],
        optional: &[55],
    },
    MessageRow {
        msg_type: "g",
        name: "Trading Session Status Request",
        direction: Direction::ToVenue,
        required_42: Some(&[335, 263]),
        required_44: &[335, 263],
        optional: &[338, 339],
    },
    MessageRow {
        msg_type: "8",
        name: "Execution Report",
        direction: Direction::FromVenue,
        required_42: Some(&[37, 17, 20, 150, 39, 55, 54, 151, 14, 6]),
        required_44: &[37, 17, 150, 39, 54, 151, 14, 6],
        optional: &[11, 41, 19, 31, 32, 38, 40, 44, 59, 99, 103, 378],
    },
    MessageRow {
        msg_type: "9",
        name: "Order Cancel Reject",
        direction: Direction::FromVenue,
        required_42: Some(&[37, 11, 41, 39, 434]),
        required_44: &[37, 11, 41, 39, 434],
        optional: &[102],
    },
    MessageRow {
        msg_type: "r",
        name: "Order Mass Cancel Report",
        direction: Direction::FromVenue,
        required_42: None,
        required_44: &[37, 530, 531],
        optional: &[11, 532, 533, 54, 55],
    },
    MessageRow {
        msg_type: "y",
        name: "Security List",
        direction: Direction::FromVenue,
        required_42: None,
        required_44: &[320, 322, 560],
        optional: &[55, 146, 393, 561, 893],
    },
    MessageRow {
        msg_type: "d",
        name: "Security Definition",
        direction: Direction::FromVenue,
        required_42: Some(&[320, 322, 393]),
        required_44: &[320, 322, 323],
        optional: &[55, 561],
    },
    MessageRow {
        msg_type: "f",
        name: "Security Status",
        direction: Direction::FromVenue,
        required_42: Some(&[55]),
        required_44: &[],
        optional: &[324, 326],
    },
    MessageRow {
        msg_type: "h",
        name: "Trading Session Status",
        direction: Direction::FromVenue,
        required_42: Some(&[336, 340]),
        required_44: &[336, 340],
        optional: &[335, 338, 339, 567],
    },
    MessageRow {
        msg_type: "V",
        name: "Market Data Request",
        direction: Direction::ToVenue,
        required_42: Some(&[262, 263, 264, 267, 269, 146, 55]),
        required_44: &[262, 263, 264, 267, 269, 146, 55],
        optional: &[265, 266],
    },
    MessageRow {
        msg_type: "W",
        name: "Market Data Snapshot/Full Refresh",
        direction: Direction::FromVenue,
        required_42: Some(&[55, 268]),
        required_44: &[268],
        optional: &[55, 262, 269, 270, 271, 346],
    },
    MessageRow {
        msg_type: "X",
        name: "Market Data Incremental Refresh",
        direction: Direction::FromVenue,
        required_42: Some(&[268, 279]),
        required_44: &[268, 279],
        optional: &[55, 262, 269, 270, 271, 272, 273, 278, 346],
    },
    MessageRow {
        msg_type: "Y",
        name: "Market Data Request Reject",
        direction: Direction::FromVenue,
        required_42: Some(&[262]),
        required_44: &[262],
        optional: &[281],
    },
];

impl MessageRow {
    /// The required fields in a version; `None` if the version has no such message.
    #[must_use]
    pub const fn required(&self, version: Version) -> Option<&'static [u32]> {
        match version {
            Version::Fix42 => self.required_42,
            Version::Fix44 => Some(self.required_44),
            Version::Fix50Sp1 => Some(self.required_50()),
        }
    }

    /// The required fields in FIX 5.0 SP1.
    const fn required_50(&self) -> &'static [u32] {
        let mut index = 0;
        while index < REQUIRED_50.len() {
            let (msg_type, tags) = REQUIRED_50[index];
            if msg_type.as_bytes()[0] == self.msg_type.as_bytes()[0] {
                return tags;
            }
            index += 1;
        }
        self.required_44
    }

    /// True for a message of the session: it is never sent again.
    #[must_use]
    pub fn is_of_session(&self) -> bool {
        self.direction == Direction::Both && self.msg_type != "j"
    }

    /// True for a message of market data, which has a separate port.
    #[must_use]
    pub fn is_of_market_data(&self) -> bool {
        matches!(self.msg_type, "V" | "W" | "X" | "Y")
    }

    /// The permitted tags, in any version.
    const fn allowed(&self) -> TagSet {
        let mut tags = TagSet::EMPTY.with(HEADER).with(HEADER_OPTIONAL).with(self.optional);
        tags = tags.with(self.required_44).with(self.required_50());
        if let Some(required) = self.required_42 {
            tags = tags.with(required);
        }
        match self.direction {
            Direction::Both => tags,
            Direction::ToVenue | Direction::FromVenue => tags.with(WITHOUT_EFFECT).with(&[60]),
        }
    }
}
