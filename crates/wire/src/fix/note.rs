//! The notes of a FIX session in the log, as the bytes of a [`market::Note`]: messages of the session that take
//! a number, and the names of requests, for which commands have no room.
//!
//! Invariant: every message to a session can be built again from its notes and the events of its orders.

use market::{
    Lots, Note, SessionId, Symbol, Text,
    bytes::{ByteReader, ByteWriter, Encoded},
    encoded,
};

use super::Version;

/// A ClOrdID: up to 36 characters.
pub type ClOrdId = Text<36>;
/// A CompID: up to 16 characters.
pub type CompId = Text<16>;

/// The most bytes of a message of the session in a note.
pub const FIELDS_LEN_MAX: usize = Note::LEN_MAX - 5;

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixNote<'a> {
    /// A client logged on.
    Logon(LogonNote),
    /// The session sends a message of its own: the value of MsgType, and fields, each with its end.
    Session {
        /// Number of the received message that it answers and counts as received; 0 is none.
        counted: u32,
        /// The fields of the message.
        fields: &'a [u8],
    },
    /// A request of the application; its command follows, unless it is refused.
    Request(RequestNote),
    /// The command of the request with this number has had its effect, if any.
    End {
        /// Number of the request.
        counted: u32,
    },
    /// A request for instruments or for the status of the day.
    Query(QueryNote),
    /// The client has received all pages so far: the next page of its list begins at this place.
    More(PageNote),
    /// A session is a drop copy of another one.
    DropCopy(DropCopyNote),
    /// A session begins by its schedule: both sides number from 1 again, unless they have begun since.
    Begin {
        /// The time of the begin, in nanoseconds since the Unix epoch.
        start_ns: u64,
    },
}

/// See [`FixNote::Logon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogonNote {
    /// The version of the client.
    pub version: Version,
    /// True if both sides number from 1 again, beginning with the Logons.
    pub reset: bool,
    /// Number of the Logon, which counts as received; 0 is none.
    pub counted: u32,
    /// HeartBtInt, in seconds.
    pub heartbeat_s: u32,
    /// CompID of the venue.
    pub venue: CompId,
    /// CompID of the client.
    pub client: CompId,
}

/// One byte: 0 is FIX 4.2, 1 is FIX 4.4, 2 is FIX 5.0 SP1.
impl Encoded for Version {
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&(*self as u8));
    }

    fn read_from(
        from: &mut ByteReader<'_>,
        name: &'static str,
    ) -> Result<Self, market::DecodeError> {
        let code: u8 = from.read(name)?;
        let version = Self::ALL.into_iter().find(|version| *version as u8 == code);
        version.ok_or(market::DecodeError::Field(name))
    }
}

/// See [`FixNote::Request`]. Fields that a kind of request does not have are 0 or blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestNote {
    /// MsgType: `D`, `F`, `G`, `H` or `q`.
    pub msg_type: u8,
    /// MsgSeqNum of the request.
    pub counted: u32,
    /// UserRefNum of the new order, the replacement or the mass cancel.
    pub number: u32,
    /// UserRefNum of the order named by the request; 0 if there is none.
    pub original: u32,
    /// Code of a [`Refusal`](super::Refusal); 0 if the command follows.
    pub refusal: u8,
    /// OrderQty, in lots.
    pub quantity: Lots,
    /// Side (54), or MassCancelRequestType (530).
    pub code: u8,
    /// Symbol of a new order.
    pub symbol: Symbol,
    /// ClOrdID.
    pub id: ClOrdId,
    /// OrigClOrdID.
    pub original_id: ClOrdId,
}

impl RequestNote {
    /// A request of this type and number without any other field.
    #[must_use]
    pub const fn new(msg_type: u8, counted: u32, id: ClOrdId) -> Self {
        Self {
            msg_type,
            counted,
            number: 0,
            original: 0,
            refusal: 0,
            quantity: Lots::ZERO,
            code: 0,
            symbol: Symbol::BLANK,
            id,
            original_id: ClOrdId::BLANK,
        }
    }
}

/// See [`FixNote::DropCopy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCopyNote {
    /// True for the first note of a start: the sessions that were copied before are dropped.
    pub is_first: bool,
    /// True for the last note of a start.
    pub is_last: bool,
    /// The session to copy; 0 if there is none.
    pub source: SessionId,
    /// The name of that session.
    pub username: Text<6>,
    /// The version of the reports before the first Logon.
    pub version: Version,
    /// CompID of the venue.
    pub venue: CompId,
    /// CompID of the drop copy.
    pub client: CompId,
}

impl DropCopyNote {
    /// A Logon with these names, for a session that has not logged on.
    #[must_use]
    pub const fn logon(&self) -> LogonNote {
        let Self { version, venue, client, .. } = *self;
        LogonNote { version, reset: false, counted: 0, heartbeat_s: 0, venue, client }
    }
}

/// See [`FixNote::More`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageNote {
    /// MsgSeqNum of the request for the list.
    pub counted: u32,
    /// Place of the page's first instrument.
    pub first: u32,
}

/// See [`FixNote::Query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryNote {
    /// MsgType: `x`, `c`, `e` or `g`.
    pub msg_type: u8,
    /// MsgSeqNum of the request.
    pub counted: u32,
    /// SecurityListRequestType (559) or SecurityRequestType (321); for a request for the status of the day `Y`, or `N`
    /// if it names another trading session.
    pub code: u8,
    /// SubscriptionRequestType (263); `0` if there is none.
    pub subscription: u8,
    /// The instrument; blank if none is named, or a name that is too long.
    pub symbol: Symbol,
    /// SecurityReqID, SecurityStatusReqID or TradSesReqID.
    pub id: ClOrdId,
}

impl QueryNote {
    /// True if the request begins or ends a subscription.
    #[must_use]
    pub const fn is_subscription(&self) -> bool {
        self.subscription != b'0'
    }
}

encoded! {
    DropCopyNote { is_first, is_last, source, username, version, venue, client }
}

encoded! {
    PageNote { counted, first }
}

encoded! {
    QueryNote { msg_type, counted, code, subscription, symbol, id }
}

encoded! {
    LogonNote { version, reset, counted, heartbeat_s, venue, client }
}

/// Without the padding of ids, so that a request with two of them fits a note.
impl Encoded for RequestNote {
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.msg_type);
        out.write(&self.counted);
        out.write(&self.number);
        out.write(&self.refusal);
        // Always six bytes: two long ids leave no more.
        let lots = self.quantity.get();
        out.write(&(lots as u32));
        out.write(&((lots >> 32) as u16));
        out.write(&self.code);
        write_text(&self.id, out);
        if self.msg_type == b'D' {
            return out.write(&self.symbol);
        }
        out.write(&self.original);
        write_text(&self.original_id, out);
    }

    fn read_from(
        from: &mut ByteReader<'_>,
        name: &'static str,
    ) -> Result<Self, market::DecodeError> {
        let mut note = Self::new(from.read(name)?, from.read(name)?, ClOrdId::BLANK);
        note.number = from.read(name)?;
        note.refusal = from.read(name)?;
        let (low, high): (u32, u16) = (from.read(name)?, from.read(name)?);
        note.quantity = Lots::new(u64::from(low) | u64::from(high) << 32);
        note.code = from.read(name)?;
        note.id = read_text(from, name)?;
        if note.msg_type == b'D' {
            note.symbol = from.read(name)?;
        } else {
            note.original = from.read(name)?;
            note.original_id = read_text(from, name)?;
        }
        Ok(note)
    }
}

fn write_text(text: &ClOrdId, out: &mut impl ByteWriter) {
    let text = text.trimmed();
    out.write(&(text.len() as u8));
    out.put_slice(text);
}

fn read_text(
    from: &mut ByteReader<'_>,
    name: &'static str,
) -> Result<ClOrdId, market::DecodeError> {
    let mut text = *ClOrdId::BLANK.as_bytes();
    let len: u8 = from.read(name)?;
    let used = text.get_mut(..usize::from(len)).ok_or(market::DecodeError::Field(name))?;
    used.copy_from_slice(from.take_slice(used.len())?);
    ClOrdId::from_bytes(text).ok_or(market::DecodeError::Field(name))
}

/// The bytes of a note while it is written.
struct NoteWriter {
    bytes: [u8; Note::LEN_MAX],
    len: usize,
}

impl ByteWriter for NoteWriter {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(bytes);
        self.len += N;
    }

    fn put_slice(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl<'a> FixNote<'a> {
    /// The note of a session.
    ///
    /// # Panics
    /// The fields of a message are more than [`FIELDS_LEN_MAX`] bytes.
    #[must_use]
    pub fn note(&self, session_id: SessionId) -> Note {
        let mut out = NoteWriter { bytes: [0; Note::LEN_MAX], len: 0 };
        match self {
            Self::Logon(logon) => {
                out.put(b"L");
                out.write(logon);
            }
            Self::Session { counted, fields } => {
                out.put(b"S");
                out.write(counted);
                out.put_slice(fields);
            }
            Self::Request(request) => {
                out.put(b"R");
                out.write(request);
            }
            Self::End { counted } => {
                out.put(b"E");
                out.write(counted);
            }
            Self::Query(query) => {
                out.put(b"Q");
                out.write(query);
            }
            Self::DropCopy(copy) => {
                out.put(b"C");
                out.write(copy);
            }
            Self::More(page) => {
                out.put(b"M");
                out.write(page);
            }
            Self::Begin { start_ns } => {
                out.put(b"B");
                out.write(start_ns);
            }
        }
        Note::new(session_id, &out.bytes[..out.len]).expect("the writer has the length of a note")
    }

    /// The Logon in the bytes of a note, or the initial Logon of a drop copy. Other notes are not read.
    #[must_use]
    pub fn read_logon(bytes: &'a [u8]) -> Option<LogonNote> {
        if !matches!(bytes.first(), Some(b'L' | b'C')) {
            return None;
        }
        match Self::read(bytes)? {
            Self::Logon(logon) => Some(logon),
            Self::DropCopy(copy) => Some(copy.logon()),
            _ => None,
        }
    }

    /// True for the bytes of a [`DropCopy`](Self::DropCopy). Other notes are not read.
    #[must_use]
    pub fn is_drop_copy(bytes: &'a [u8]) -> bool {
        bytes.first() == Some(&b'C') && matches!(Self::read(bytes), Some(Self::DropCopy(_)))
    }

    /// Reads the bytes of a note; `None` if it is not a note of a FIX session.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut from = ByteReader::new(rest);
        let note = match kind {
            b'L' => Self::Logon(from.read("logon").ok()?),
            b'S' => {
                let counted = from.read("counted").ok()?;
                return Some(Self::Session { counted, fields: rest.get(4..)? });
            }
            b'R' => Self::Request(from.read("request").ok()?),
            b'E' => Self::End { counted: from.read("counted").ok()? },
            b'Q' => Self::Query(from.read("query").ok()?),
            b'C' => Self::DropCopy(from.read("drop copy").ok()?),
            b'M' => Self::More(from.read("page").ok()?),
            b'B' => Self::Begin { start_ns: from.read("start").ok()? },
            _ => return None,
        };
        from.is_empty().then_some(note)
    }
}
