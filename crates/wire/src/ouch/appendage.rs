//! The appendage, the tagged values after a message: read and written. OUCH 5.0, section 6.
//!
//! `[u16 bytes of all that follows]`, then for each value `[u8 length][u8 tag][value]`, where the
//! length counts the tag and the value.

use core::ops::Deref;

use zerocopy::FromBytes;

use super::Malformed;
use crate::{field::U16, layout::Message};

macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $len:literal, $inbound:literal, $outbound:literal;)+) => {
        /// The tags of OUCH 5.0, revisions 1.02 to 1.05.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Tag { $($(#[$doc])* $name = $code,)+ }

        impl Tag {
            /// Every tag, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The tag of a byte.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The name in the specification.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The length of the value, in bytes.
            #[must_use]
            #[expect(clippy::len_without_is_empty, reason = "no value is empty")]
            pub const fn len(self) -> usize {
                match self { $(Self::$name => $len,)+ }
            }

            /// The types of the inbound messages that may have the tag.
            #[must_use]
            pub const fn inbound(self) -> &'static [u8] {
                match self { $(Self::$name => $inbound,)+ }
            }

            /// The types of the outbound messages that may have the tag.
            #[must_use]
            pub const fn outbound(self) -> &'static [u8] {
                match self { $(Self::$name => $outbound,)+ }
            }
        }
    };
}

tags! {
    /// Another name of the order on the feed.
    SecondaryOrdRefNum = 1, 8, b"", b"R";
    /// The firm of the order, upper case; blank is the session's default.
    Firm = 2, 4, b"O", b"AU";
    /// The minimum of an execution, in round lots; 0 is none.
    MinQty = 3, 4, b"OU", b"AU";
    /// `R` retail, `N` not, space for the session's default.
    CustomerType = 4, 1, b"O", b"A";
    /// The displayed quantity of an iceberg; 0 is all of it.
    MaxFloor = 5, 4, b"OU", b"AU";
    /// `L` limit, `P` market peg, `M` `m` midpoint, `R` primary peg, `Q` market-maker peg.
    PriceType = 6, 1, b"OU", b"AU";
    /// Signed price with 4 decimals.
    PegOffset = 7, 4, b"OU", b"A";
    /// Price with 4 decimals.
    DiscretionPrice = 9, 8, b"OU", b"A";
    /// `L` limit, `P` `M` `R` pegged.
    DiscretionPriceType = 10, 1, b"OU", b"A";
    /// Signed price with 4 decimals.
    DiscretionPegOffset = 11, 4, b"OU", b"A";
    /// `P` post only, `N` not.
    PostOnly = 12, 1, b"OU", b"AU";
    /// Range by which a refreshed part may differ; 0 is none.
    RandomReserves = 13, 4, b"OU", b"A";
    /// Echo of where it may be routed.
    Route = 14, 4, b"", b"A";
    /// Seconds to live, below 86,400.
    ExpireTime = 15, 4, b"OU", b"AU";
    /// `Y` or `N`, space for the session's default.
    TradeNow = 16, 1, b"OU", b"AU";
    /// Handling instruction; space is none.
    HandleInst = 17, 1, b"OU", b"AU";
    /// Relation to the best bid and offer; space is unspecified.
    BboWeightIndicator = 18, 1, b"", b"AU";
    /// The displayed part now.
    DisplayQuantity = 22, 4, b"", b"R";
    /// The displayed price now, 4 decimals.
    DisplayPrice = 23, 8, b"", b"R";
    /// Group for mass cancel; 0 is none.
    GroupId = 24, 2, b"OC", b"AX";
    /// `Y` shares to sell short are located, `N` not.
    SharesLocated = 25, 1, b"OUM", b"AM";
    /// The broker that located them.
    LocateBroker = 26, 4, b"OUM", b"M";
    /// `B`, `S`, `T` or `E`.
    Side = 27, 1, b"UC", b"X";
    /// Order-flow channel within the session; absent is 0.
    UserRefIdx = 28, 1, b"OUXMCDEQ", b"AUCDEBJPITMRXGKQ";
    /// Self-match prevention; `*` is the session's default.
    AiqStrategy = 29, 1, b"OU", b"AU";
    /// The group within which self-matches are prevented; `**` is the session's default.
    AiqGroupId = 30, 2, b"OU", b"AU";
}

impl Tag {
    /// The byte of the tag.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Whether a message carries an appendage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Its length is always present, 0 if it is empty.
    Always,
    /// The message may end without one.
    Optional,
    /// There is none.
    Never,
}

/// The tagged values of a message. Each ends within the appendage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appendage<'a> {
    elements: &'a [u8],
    is_present: bool,
}

impl<'a> Appendage<'a> {
    /// Reads the bytes after the fixed part of a message.
    pub(super) fn read(rest: &'a [u8], presence: Presence) -> Result<Self, Malformed> {
        if rest.is_empty() && presence != Presence::Always {
            return Ok(Self::default());
        }
        let Ok((length, elements)) = U16::ref_from_prefix(rest) else {
            return Err(Malformed::Appendage);
        };
        if presence == Presence::Never || usize::from(length.get()) != elements.len() {
            return Err(Malformed::Appendage);
        }
        let mut unread = elements;
        while let Some((&length, after)) = unread.split_first() {
            if length == 0 {
                return Err(Malformed::Appendage);
            }
            unread = after.get(usize::from(length)..).ok_or(Malformed::Appendage)?;
        }
        Ok(Self { elements, is_present: true })
    }

    /// True if the message has the length of its appendage, even if it is 0.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.is_present
    }

    /// The values in the order of the message, as tag and bytes; known or unknown.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut unread = self.elements;
        core::iter::from_fn(move || {
            let (&length, after) = unread.split_first()?;
            let (element, rest) = after.split_at_checked(usize::from(length))?;
            unread = rest;
            let (&tag, value) = element.split_first()?;
            Some((tag, value))
        })
    }

    /// The first value of a tag, if it has the length of that tag.
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<&'a [u8]> {
        let (_, value) = self.iter().find(|(code, _)| *code == tag.code())?;
        (value.len() == tag.len()).then_some(value)
    }

    /// The channel; 0 without a tag.
    #[must_use]
    pub fn user_ref_idx(&self) -> u8 {
        self.get(Tag::UserRefIdx).map_or(0, |value| value[0])
    }
}

/// An outgoing message, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct MessageBuffer {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
    /// The offset of the appendage's length; 0 without an appendage.
    appendage_at: usize,
}

impl MessageBuffer {
    /// Bytes of the longest message: the longest fixed part with every tag once.
    pub const LEN_MAX: usize = 192;

    /// The fixed part alone.
    #[must_use]
    pub fn new(fixed: &impl Message) -> Self {
        let mut buffer = Self { bytes: [0; Self::LEN_MAX], len: 0, appendage_at: 0 };
        buffer.put(fixed.as_bytes());
        buffer
    }

    /// The fixed part and an empty appendage.
    #[must_use]
    pub fn with_appendage(fixed: &impl Message) -> Self {
        let mut buffer = Self::new(fixed);
        buffer.start_appendage();
        buffer
    }

    /// Appends a value, and the appendage first if there is none yet.
    ///
    /// The value must have the length of its tag, and a tag should come once.
    pub fn tag(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        assert!(value.len() == tag.len(), "{tag:?} takes {} bytes", tag.len());
        if self.appendage_at == 0 {
            self.start_appendage();
        }
        let length = u8::try_from(1 + value.len()).expect("no tag is longer than 8 bytes");
        self.put(&[length, tag.code()]);
        self.put(value);
        let total =
            u16::try_from(self.len - self.appendage_at - 2).expect("a message is far below 64 KiB");
        self.bytes[self.appendage_at..self.appendage_at + 2].copy_from_slice(&total.to_be_bytes());
        self
    }

    /// Appends the channel, unless it is the session's own.
    pub fn user_ref_idx(&mut self, channel: u8) -> &mut Self {
        if channel != 0 {
            self.tag(Tag::UserRefIdx, &[channel]);
        }
        self
    }

    fn start_appendage(&mut self) {
        self.appendage_at = self.len;
        self.put(&[0, 0]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Deref for MessageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ouch::{EnterOrder, OrderAccepted};

    /// The longest message fits the buffer, so that no participant's order can overflow it.
    #[test]
    fn longest_message_fits() {
        let tags = |is_allowed: fn(&Tag) -> bool| -> usize {
            Tag::ALL.iter().filter(|tag| is_allowed(tag)).map(|tag| 2 + tag.len()).sum()
        };
        let inbound = size_of::<EnterOrder>() + 2 + tags(|tag| tag.inbound().contains(&b'O'));
        let outbound = size_of::<OrderAccepted>() + 2 + tags(|tag| tag.outbound().contains(&b'A'));
        assert!(inbound <= MessageBuffer::LEN_MAX, "{inbound}");
        assert!(outbound <= MessageBuffer::LEN_MAX, "{outbound}");
    }
}
