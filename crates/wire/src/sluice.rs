//! Sluice, Damrak's own protocol: OUCH in sessions over UDP, with a login, numbered replies and requests for lost ones.
//! docs/wire/sluice.md has the tables and our decisions.
//!
//! Start at [`Server`], the venue's side of a session, then [`Client`]. Both take datagrams and time, and keep the
//! datagrams to be sent; the caller owns socket and clock. The venue keeps no state before a session: a client first
//! gets a token for its address ([`hello`], [`token`]), and each of its datagrams carries that token.

use core::fmt;

use market::Text;
use zerocopy::FromBytes;

use crate::{
    field::{Alpha, Char, U16, U64, text_left_aligned, trimmed},
    layout::{Message, layout},
};

mod server;
mod client;

pub use client::{Client, ClientFault, ClientState};
pub use server::{Server, ServerHappening};

/// The version of the protocol.
pub const VERSION: u8 = b'1';

/// Bytes before the message blocks of a datagram, and of the datagrams that are bare.
pub const HEADER_LEN: usize = 9;

/// The longest datagram that either side sends.
pub const DATAGRAM_LEN_MAX: usize = crate::moldudp64::PACKET_LEN_DEFAULT;

/// The most bytes that the frame of one reply adds: its length, the header of a packet, and that of a block.
pub const FRAME_LEN_MAX: usize =
    FRAME_HEADER_LEN + crate::moldudp64::HEADER_LEN + crate::moldudp64::BLOCK_HEADER_LEN;

/// The most replies of one resend request.
pub const RESEND_REPLIES_MAX: u16 = 1_024;

/// Bytes before each datagram where several are kept in a row: its length.
pub const FRAME_HEADER_LEN: usize = 2;

const MESSAGES: u8 = b'U';
const CLIENT_HEARTBEAT: u8 = b'R';
const RESEND: u8 = b'Q';
const LOGOUT: u8 = b'O';
const DEBUG: u8 = b'+';

layout! {
    /// Hello (`H`), from the client: requests a token.
    "Hello" HelloPacket [32] = b'H' {
        packet_type: Char,      "`H`";
        version: Char,          "`1`";
        nonce: U64,             "Chosen by the client, anew for each session; the answer repeats it";
        padding: Alpha<22>,     "Anything: what asks is longer than its answer";
    }

    /// Token (`T`), from the venue.
    "Token" TokenPacket [17] = b'T' {
        packet_type: Char,      "`T`";
        nonce: U64,             "That of the hello";
        token: U64,             "For this address and nonce; secret";
    }

    /// Login Request (`L`), from the client.
    "Login Request" LoginRequestPacket [51] = b'L' {
        packet_type: Char,      "`L`";
        token: U64,             "That of the answer to the hello";
        nonce: U64,             "That of the hello";
        username: Alpha<6>,     "Any case, padded on either side";
        password: Alpha<10>,    "Any case, padded on either side";
        requested_session: Alpha<10>, "Blank is the one that is open";
        requested_sequence_number: U64, "The next reply wanted; 0 is the newest one";
    }

    /// Login Accepted (`A`), from the venue.
    "Login Accepted" LoginAcceptedPacket [27] = b'A' {
        packet_type: Char,      "`A`";
        token: U64,             "That of the login";
        session: Alpha<10>,     "The session that is open, as in the packets that follow";
        next_sequence_number: U64, "Of the first reply that follows";
    }

    /// Login Rejected (`J`), from the venue.
    "Login Rejected" LoginRejectedPacket [10] = b'J' {
        packet_type: Char,      "`J`";
        token: U64,             "That of the login";
        reject_reason_code: Char, "`A` not authorized, `S` session not available";
    }

    /// Messages (`U`), from the client.
    "Messages" MessagesPacket [9] = b'U' {
        packet_type: Char,      "`U`";
        token: U64,             "That of the session";
    }

    /// Client Heartbeat (`R`).
    "Client Heartbeat" ClientHeartbeatPacket [9] = b'R' {
        packet_type: Char,      "`R`";
        token: U64,             "That of the session";
    }

    /// Resend Request (`Q`), from the client.
    "Resend Request" ResendRequestPacket [19] = b'Q' {
        packet_type: Char,      "`Q`";
        token: U64,             "That of the session";
        sequence_number: U64,   "Of the first reply wanted again";
        reply_count: U16,       "How many are wanted from it on; 1,024 are sent at most";
    }

    /// Logout Request (`O`), from the client.
    "Logout Request" LogoutRequestPacket [9] = b'O' {
        packet_type: Char,      "`O`";
        token: U64,             "That of the session";
    }

    /// Debug (`+`), from the venue. Text follows.
    "Debug" DebugPacket [1] = b'+' {
        packet_type: Char,      "`+`";
    }
}

/// The timers of a session, in nanoseconds.
pub type Timers = crate::soupbintcp::Timers;

/// The reason why a login was rejected.
pub type LoginRejectReason = crate::soupbintcp::LoginRejectReason;

/// A client's login. Text is without its padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// The user's name; upper and lower case are equal.
    pub username: Text<6>,
    /// The password; upper and lower case are equal. `Debug` does not show it.
    pub password: Text<10>,
    /// The session to continue; blank is the open one.
    pub session: Text<10>,
    /// The next reply wanted; 0 is the newest one.
    pub sequence_number: u64,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .field("session", &self.session)
            .field("sequence_number", &self.sequence_number)
            .finish_non_exhaustive()
    }
}

impl Login {
    fn read(datagram: &[u8]) -> Result<Self, Violation> {
        let fields =
            LoginRequestPacket::ref_from_bytes(datagram).map_err(|_| Violation::Length(b'L'))?;
        Ok(Self {
            username: text(&fields.username, "Username")?,
            password: text(&fields.password, "Password")?,
            session: text(&fields.requested_session, "RequestedSession")?,
            sequence_number: fields.requested_sequence_number.get(),
        })
    }

    fn packet(&self, token: u64, nonce: u64) -> LoginRequestPacket {
        LoginRequestPacket {
            packet_type: LoginRequestPacket::TYPE,
            token: token.into(),
            nonce: nonce.into(),
            username: *self.username.as_bytes(),
            password: *self.password.as_bytes(),
            requested_session: *self.session.as_bytes(),
            requested_sequence_number: self.sequence_number.into(),
        }
    }
}

/// The nonce, if this is a hello: of this version, and longer than its answer.
#[must_use]
pub fn hello(datagram: &[u8]) -> Option<u64> {
    let fields = HelloPacket::ref_from_bytes(datagram).ok()?;
    let is_hello = fields.packet_type == HelloPacket::TYPE && fields.version == VERSION;
    is_hello.then(|| fields.nonce.get())
}

/// The answer to a hello.
#[must_use]
pub fn answer_to_hello(nonce: u64, token: u64) -> TokenPacket {
    TokenPacket { packet_type: TokenPacket::TYPE, nonce: nonce.into(), token: token.into() }
}

/// The token in a client's datagram, and the nonce if the datagram is a login; `None` if it carries no token.
#[must_use]
pub fn token(datagram: &[u8]) -> Option<(u64, Option<u64>)> {
    let (header, _) = MessagesPacket::ref_from_prefix(datagram).ok()?;
    let login = LoginRequestPacket::ref_from_bytes(datagram).ok();
    let login = login.filter(|login| login.packet_type == LoginRequestPacket::TYPE);
    let nonce = login.map(|login| login.nonce.get());
    (header.packet_type != HelloPacket::TYPE).then(|| (header.token.get(), nonce))
}

/// The peer broke the protocol; the session must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A datagram of this type has a length that it cannot have.
    Length(u8),
    /// A message block goes beyond its datagram.
    Block,
    /// The peer may not send datagrams of this type.
    UnknownType(u8),
    /// The peer may send this type, but not now.
    OutOfPlace(u8),
    /// A field of a login cannot be read.
    Field(&'static str),
    /// More bytes arrived than may wait.
    TooMuchUnread,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(code) => {
                write!(f, "datagram '{}' may not have this length", code.escape_ascii())
            }
            Self::Block => f.write_str("a message block goes beyond its datagram"),
            Self::UnknownType(code) => {
                write!(f, "datagram '{}' is not allowed from this side", code.escape_ascii())
            }
            Self::OutOfPlace(code) => {
                write!(f, "datagram '{}' may not come now", code.escape_ascii())
            }
            Self::Field(name) => write!(f, "{name} cannot be read"),
            Self::TooMuchUnread => f.write_str("more bytes arrived than may wait"),
        }
    }
}

impl core::error::Error for Violation {}

fn text<const N: usize>(field: &[u8; N], name: &'static str) -> Result<Text<N>, Violation> {
    Text::from_bytes(text_left_aligned(trimmed(field))).ok_or(Violation::Field(name))
}

/// Splits off the first of several frames: a length of two bytes and a datagram. Returns the datagram and the other
/// frames.
#[must_use]
pub fn split_frame(frames: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = frames.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*header)))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use zerocopy::IntoBytes;

    use super::*;

    /// A login may be logged; its password may not.
    #[test]
    fn debug_keeps_the_password() {
        let login = Login {
            username: Text::new("USER01").unwrap(),
            password: Text::new("SECRET").unwrap(),
            session: Text::BLANK,
            sequence_number: 1,
        };
        let shown = format!("{login:?}");
        assert!(shown.contains("USER01") && !shown.contains("SECRET"), "{shown}");
        let packet = login.packet(7, 9);
        assert_eq!(Login::read(packet.as_bytes()), Ok(login));
        assert_eq!(token(packet.as_bytes()), Some((7, Some(9))));
        assert_eq!(token(&packet.as_bytes()[..50]), Some((7, None)));
    }

    /// A stranger's datagram never causes a longer answer: each is longer than the venue's reply to it.
    #[test]
    fn an_answer_is_shorter_than_what_asked() {
        assert!(size_of::<TokenPacket>() < size_of::<HelloPacket>());
        assert!(size_of::<LoginAcceptedPacket>() < size_of::<LoginRequestPacket>());
        assert!(size_of::<LoginRejectedPacket>() < size_of::<LoginRequestPacket>());
        let hello_packet = HelloPacket {
            packet_type: HelloPacket::TYPE,
            version: VERSION,
            nonce: 9.into(),
            padding: [b' '; 22],
        };
        let bytes = hello_packet.as_bytes();
        assert_eq!(hello(bytes), Some(9));
        assert_eq!(token(bytes), None);
        for len in 0..bytes.len() {
            assert_eq!(hello(&bytes[..len]), None, "{len}");
        }
        let other = HelloPacket { version: b'2', ..hello_packet };
        assert_eq!(hello(other.as_bytes()), None);
    }
}
