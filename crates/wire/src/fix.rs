//! FIX 4.2, 4.4 and 5.0 SP1: messages of `tag=value` fields, their dictionary, and sessions.
//!
//! Start at [`frame`], which finds a message in a stream of bytes, and [`Fields`], which splits it into a
//! [`Message`]; [`dictionary::check`] compares it with the dictionary. [`Builder`] writes messages.
//!
//! Invariant: reading and writing a message allocates nothing, and no bytes make this module panic.

pub mod dictionary;
mod again;
mod builder;
mod directory;
mod live_session;
mod market_data;
mod message;
mod note;
mod refusal;
mod reports;
mod request;
mod schedule;
mod session;
mod text;
mod time;

pub use builder::{Builder, LENGTH_MAX as BUILDER_LEN_MAX};
pub use directory::{Directory, Listed};
pub use live_session::LiveSession;
pub use market_data::{
    ENTRY_LEN_MAX, EntryAction, MarketDataAction, MarketDataEntries, MarketDataReject,
    MarketDataRequest, REQUEST_SYMBOLS_MAX, id_of as market_data_id,
};
pub use message::{FIELDS_MAX, Fault, Fields, Framed, MESSAGE_LEN_MAX, Message, SOH, frame};
pub use note::{
    ClOrdId, CompId, DropCopyNote, FIELDS_LEN_MAX, FixNote, LogonNote, PageNote, QueryNote,
    RequestNote,
};
pub use refusal::{Refusal, reject_text};
pub use reports::{ReportedOrder, Reports, SendMessage};
pub use request::Intake;
pub use schedule::{SessionSchedule, WINDOWS_MAX as SCHEDULE_WINDOWS_MAX, WeekTime};
pub use session::{Acceptor, FixHappening, FixService, FixTimeout, FixTimers};
pub use time::{TIME_LEN, read_date, read_time, write_time};

/// A version of FIX that the venue speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// FIX 4.2.
    Fix42 = 0,
    /// FIX 4.4.
    Fix44 = 1,
    /// FIX 5.0 SP1, in sessions of FIXT 1.1.
    Fix50Sp1 = 2,
}

/// ApplVerID (1128) and DefaultApplVerID (1137) of FIX 5.0 SP1.
pub const APPL_VER_ID: &str = "8";

impl Version {
    /// All versions.
    pub const ALL: [Self; 3] = [Self::Fix42, Self::Fix44, Self::Fix50Sp1];

    /// The name of the version.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fix42 => "FIX 4.2",
            Self::Fix44 => "FIX 4.4",
            Self::Fix50Sp1 => "FIX 5.0 SP1",
        }
    }

    /// The value of BeginString (8).
    #[must_use]
    pub const fn begin_string(self) -> &'static str {
        match self {
            Self::Fix42 => "FIX.4.2",
            Self::Fix44 => "FIX.4.4",
            Self::Fix50Sp1 => "FIXT.1.1",
        }
    }

    /// The version of a BeginString, if the venue speaks it.
    #[must_use]
    pub fn from_begin_string(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.begin_string().as_bytes() == text)
    }
}

/// SessionRejectReason (373): the reason why a message was rejected before the application read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SessionReject {
    /// A tag is not a number from 1 without leading zeros.
    InvalidTagNumber = 0,
    /// A required tag is missing.
    RequiredTagMissing = 1,
    /// The message may not have the tag.
    TagNotForMessage = 2,
    /// The dictionary has no such tag.
    UndefinedTag = 3,
    /// A tag without a value.
    NoValue = 4,
    /// A value that its tag cannot have.
    ValueOutOfRange = 5,
    /// A value that is not of its tag's type.
    WrongFormat = 6,
    /// SenderCompID or TargetCompID is not that of the session.
    CompId = 9,
    /// SendingTime is too far from the venue's clock, or before OrigSendingTime.
    SendingTime = 10,
    /// The dictionary has no such message type.
    InvalidMsgType = 11,
    /// A tag occurs twice outside a repeating group.
    Repeated = 13,
    /// The number of entries of a group differs from its count.
    GroupCount = 16,
    /// ApplVerID is not that of the session.
    ApplVersion = 18,
    /// Another reason, given in Text (58).
    Other = 99,
}

impl SessionReject {
    /// The code; `None` if the version has no code for the reason.
    #[must_use]
    pub fn code(self, version: Version) -> Option<u8> {
        let code = self as u8;
        let most = match version {
            Version::Fix42 => 11,
            Version::Fix44 | Version::Fix50Sp1 => 99,
        };
        (code <= most).then_some(code)
    }

    /// The reason in words, for Text (58).
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidTagNumber => "invalid tag number",
            Self::RequiredTagMissing => "required tag missing",
            Self::TagNotForMessage => "tag not defined for this message type",
            Self::UndefinedTag => "undefined tag",
            Self::NoValue => "tag without a value",
            Self::ValueOutOfRange => "value out of range",
            Self::WrongFormat => "wrong format of the value",
            Self::CompId => "SenderCompID or TargetCompID is not that of the session",
            Self::SendingTime => "SendingTime is wrong",
            Self::InvalidMsgType => "invalid message type",
            Self::Repeated => "tag occurs more than once",
            Self::GroupCount => "wrong number of group entries",
            Self::ApplVersion => "ApplVerID is not 8, FIX 5.0 SP1",
            Self::Other => "not possible now",
        }
    }
}
