//! SoupBinTCP, versions 3.00 to 4.10: messages in packets over TCP. The server numbers its messages, so that
//! a client that returns gets the ones it missed. docs/wire/soupbintcp.md has the tables and our
//! decisions.
//!
//! Start at [`Server`], the server's side of a connection, then [`Client`]. Both take bytes and
//! time, and keep the bytes to be written; the caller owns socket and clock.
//!
//! A packet is `[u16 length][u8 type][payload]`, where the length counts type and payload.

use core::fmt;

use market::Text;
use zerocopy::FromBytes;

use crate::{
    field::{
        Alpha, Char, U16, decimal, decimal_right_aligned, text_left_aligned, text_right_aligned,
        trimmed,
    },
    layout::{Message, layout},
};

mod buffer;
mod line;
mod server;
mod client;

pub use client::{Client, ClientHappening};
pub use server::{Server, ServerHappening};

/// Bytes of the length that starts every packet.
pub const HEADER_LEN: usize = 2;

/// The largest length a packet may state. Some clients read it as a signed number.
pub const LENGTH_MAX: u16 = 32_767;

/// Bytes of the longest message in a packet.
pub const MESSAGE_LEN_MAX: usize = LENGTH_MAX as usize - 1;

/// The largest length a packet of a client may state before it is logged in: that of a login.
pub const LOGIN_LENGTH_MAX: u16 = LOGIN_LENGTH + HEARTBEAT_TIMEOUT_LEN;

const LOGIN_LENGTH: u16 = 47;
const HEARTBEAT_TIMEOUT_LEN: u16 = 5;
const DEBUG: u8 = b'+';
const SEQUENCED: u8 = b'S';
const UNSEQUENCED: u8 = b'U';
const SERVER_HEARTBEAT: u8 = b'H';
const CLIENT_HEARTBEAT: u8 = b'R';
const END_OF_SESSION: u8 = b'Z';
const LOGOUT: u8 = b'O';

layout! {
    /// Debug (`+`), either way; ignored by machines.
    "Debug" DebugPacket [3] = b'+' {
        packet_length: U16,     "1 and the bytes of the text";
        packet_type: Char,      "`+`";
    }

    /// Login Accepted (`A`), from the server.
    "Login Accepted" LoginAcceptedPacket [33] = b'A' {
        packet_length: U16,     "31";
        packet_type: Char,      "`A`";
        session: Alpha<10>,     "The session that is open now; spaces before it";
        sequence_number: Alpha<20>, "Of the next sequenced message; decimal, spaces before it";
    }

    /// Login Rejected (`J`), from the server, which closes after it.
    "Login Rejected" LoginRejectedPacket [4] = b'J' {
        packet_length: U16,     "2";
        packet_type: Char,      "`J`";
        reject_reason_code: Char, "`A` not authorized, `S` session not available";
    }

    /// Sequenced Data (`S`), from the server.
    "Sequenced Data" SequencedDataPacket [3] = b'S' {
        packet_length: U16,     "1 and the bytes of the message";
        packet_type: Char,      "`S`";
    }

    /// Server Heartbeat (`H`).
    "Server Heartbeat" ServerHeartbeatPacket [3] = b'H' {
        packet_length: U16,     "1";
        packet_type: Char,      "`H`";
    }

    /// End of Session (`Z`), from the server.
    "End of Session" EndOfSessionPacket [3] = b'Z' {
        packet_length: U16,     "1";
        packet_type: Char,      "`Z`";
    }

    /// Login Request (`L`), from the client. Version 4.10 appends HeartbeatTimeout, 5 decimal
    /// digits of milliseconds at offset 49, and states 52.
    "Login Request" LoginRequestPacket [49] = b'L' {
        packet_length: U16,     "47, or 52 with a heartbeat timeout";
        packet_type: Char,      "`L`";
        username: Alpha<6>,     "Any case, padded on either side";
        password: Alpha<10>,    "Any case, padded on either side";
        requested_session: Alpha<10>, "Blank is the one that is open";
        requested_sequence_number: Alpha<20>, "The next message wanted; decimal";
    }

    /// Unsequenced Data (`U`), from the client, since version 4.00 from the server too.
    "Unsequenced Data" UnsequencedDataPacket [3] = b'U' {
        packet_length: U16,     "1 and the bytes of the message";
        packet_type: Char,      "`U`";
    }

    /// Client Heartbeat (`R`).
    "Client Heartbeat" ClientHeartbeatPacket [3] = b'R' {
        packet_length: U16,     "1";
        packet_type: Char,      "`R`";
    }

    /// Logout Request (`O`), from the client.
    "Logout Request" LogoutRequestPacket [3] = b'O' {
        packet_length: U16,     "1";
        packet_type: Char,      "`O`";
    }
}

/// The timers of a connection, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// A heartbeat is sent after this time without another packet.
    pub heartbeat_ns: u64,
    /// The peer counts as dead after this time without a whole packet.
    pub receive_timeout_ns: u64,
    /// A login, or the answer to it, must arrive within this time.
    pub login_timeout_ns: u64,
}

impl Default for Timers {
    /// 1 s, 15 s and 5 s. Clients exist that send a heartbeat only every 10 s.
    fn default() -> Self {
        Self {
            heartbeat_ns: 1_000_000_000,
            receive_timeout_ns: 15_000_000_000,
            login_timeout_ns: 5_000_000_000,
        }
    }
}

/// A client's login. Text is without its padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest {
    /// The user's name; upper and lower case are equal.
    pub username: Text<6>,
    /// The password; upper and lower case are equal. `Debug` does not show it.
    pub password: Text<10>,
    /// The session to continue; blank is the open one.
    pub session: Text<10>,
    /// The number of the first sequenced message to receive. `Some(1)` is all of the session; `Some(0)` is,
    /// by the text of the specification, the last one sent and all later ones; `None` (blank) is no number.
    pub sequence_number: Option<u64>,
    /// Milliseconds of silence after which the server ends the connection, at most 99,999;
    /// only since version 4.10.
    pub heartbeat_timeout_ms: Option<u32>,
}

impl LoginRequest {
    /// A login for the whole of the open session, without a heartbeat timeout.
    ///
    /// `None` if a text is too long or not printable ASCII.
    #[must_use]
    pub fn new(username: &str, password: &str) -> Option<Self> {
        Some(Self {
            username: Text::new(username)?,
            password: Text::new(password)?,
            session: Text::BLANK,
            sequence_number: Some(1),
            heartbeat_timeout_ms: None,
        })
    }

    /// True if the login is for this user, in any case.
    #[must_use]
    pub fn username_is(&self, username: &str) -> bool {
        self.username.as_str().eq_ignore_ascii_case(username.trim())
    }

    /// True if the login has this password, in any case. The comparison takes the same time for any
    /// password.
    #[must_use]
    pub fn password_is(&self, password: &str) -> bool {
        let Some(expected) = Text::<10>::new(password.trim()) else { return false };
        let pairs = self.password.as_bytes().iter().zip(expected.as_bytes());
        pairs.fold(0, |difference, (ours, theirs)| {
            difference | (ours.to_ascii_lowercase() ^ theirs.to_ascii_lowercase())
        }) == 0
    }

    /// Reads a packet of one of the two lengths that a login has.
    fn read(packet: &[u8]) -> Result<Self, Violation> {
        let (fields, heartbeat_timeout) =
            LoginRequestPacket::ref_from_prefix(packet).expect("the length was checked");
        Ok(Self {
            username: text(&fields.username, "Username")?,
            password: text(&fields.password, "Password")?,
            session: text(&fields.requested_session, "RequestedSession")?,
            sequence_number: number(&fields.requested_sequence_number, "RequestedSequenceNumber")?,
            heartbeat_timeout_ms: number(heartbeat_timeout, "HeartbeatTimeout")?
                .map(|milliseconds| u32::try_from(milliseconds).expect("five digits fit")),
        })
    }

    fn packet(&self) -> LoginRequestPacket {
        let length = match self.heartbeat_timeout_ms {
            None => LOGIN_LENGTH,
            Some(_) => LOGIN_LENGTH + HEARTBEAT_TIMEOUT_LEN,
        };
        LoginRequestPacket {
            packet_length: length.into(),
            packet_type: LoginRequestPacket::TYPE,
            username: *self.username.as_bytes(),
            password: *self.password.as_bytes(),
            requested_session: text_right_aligned(self.session.as_bytes()),
            requested_sequence_number: self
                .sequence_number
                .map_or([b' '; 20], decimal_right_aligned),
        }
    }

    fn heartbeat_timeout(&self) -> Option<Alpha<5>> {
        let digits = decimal_right_aligned::<5>(u64::from(self.heartbeat_timeout_ms?));
        Some(text_left_aligned(&digits))
    }
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest")
            .field("username", &self.username)
            .field("session", &self.session)
            .field("sequence_number", &self.sequence_number)
            .field("heartbeat_timeout_ms", &self.heartbeat_timeout_ms)
            .finish_non_exhaustive()
    }
}

/// The reason why a login was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LoginRejectReason {
    /// Unknown user or wrong password.
    NotAuthorized = b'A',
    /// The requested session or sequence number is not available.
    SessionNotAvailable = b'S',
}

impl LoginRejectReason {
    /// The character of the reason.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason of a character.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            b'A' => Some(Self::NotAuthorized),
            b'S' => Some(Self::SessionNotAvailable),
            _ => None,
        }
    }
}

impl fmt::Display for LoginRejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAuthorized => "wrong user name or password",
            Self::SessionNotAvailable => {
                "the user is logged in already, or the session or reply number is not available"
            }
        })
    }
}

/// The peer violated the protocol; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A packet states a length that its type cannot have, or that no packet may have now.
    Length {
        /// The type of the packet.
        packet_type: u8,
        /// The stated length.
        length: u16,
    },
    /// A packet states length 0, which leaves no place for its type.
    Empty,
    /// The peer may not send packets of this type.
    UnknownType(u8),
    /// The peer may send this type, but not now: before the login, after it, or after the end.
    OutOfPlace(u8),
    /// A field of a login or of its answer cannot be read.
    Field(&'static str),
    /// More bytes arrived than `next` has taken.
    TooMuchUnread,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { packet_type, length } => {
                write!(f, "packet '{}' may not have length {length}", packet_type.escape_ascii())
            }
            Self::Empty => f.write_str("a packet has length 0"),
            Self::UnknownType(code) => {
                write!(f, "packet type '{}' is not allowed from this side", code.escape_ascii())
            }
            Self::OutOfPlace(code) => {
                write!(f, "packet '{}' may not come now", code.escape_ascii())
            }
            Self::Field(name) => write!(f, "{name} cannot be read"),
            Self::TooMuchUnread => f.write_str("more bytes arrived than may wait"),
        }
    }
}

impl core::error::Error for Violation {}

/// A timer of the peer ran out; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No login, or no answer to it, came in time.
    Login,
    /// No whole packet came in time.
    Silence,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Login => "no login in time",
            Self::Silence => "silent for too long",
        })
    }
}

impl core::error::Error for Timeout {}

fn text<const N: usize>(field: &[u8; N], name: &'static str) -> Result<Text<N>, Violation> {
    Text::from_bytes(text_left_aligned(trimmed(field))).ok_or(Violation::Field(name))
}

fn number(field: &[u8], name: &'static str) -> Result<Option<u64>, Violation> {
    decimal(field).map_err(|_| Violation::Field(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and passwords do not depend on case; no other text equals them.
    #[test]
    fn credentials_ignore_case() {
        let login = LoginRequest::new("USER01", "PassWord01").unwrap();
        assert!(login.username_is("user01") && login.password_is("pASSwORD01"));
        assert!(!login.username_is("user02") && !login.password_is("password0"));
        assert!(!login.password_is("password012"));
    }

    /// A login may be logged; its password may not.
    #[test]
    fn debug_keeps_the_password() {
        let login = LoginRequest::new("USER01", "SECRET").unwrap();
        let shown = alloc::format!("{login:?}");
        assert!(shown.contains("USER01") && !shown.contains("SECRET"), "{shown}");
    }
}
