//! A message in a stream of bytes, and its fields.
//!
//! Invariant: no bytes stop a reader: each step takes bytes, or waits for more.

use super::dictionary;

/// The byte that ends a field.
pub const SOH: u8 = 1;
/// The length of the longest accepted message, in bytes.
pub const MESSAGE_LEN_MAX: usize = 8 * 1024;
/// The most fields of an accepted message.
pub const FIELDS_MAX: usize = 160;
/// The longest BeginString, in bytes.
const BEGIN_LEN_MAX: usize = 10;
const _: () = assert!(FIELDS_MAX <= u8::MAX as usize, "a byte counts the fields of a message");
/// `10=` and three digits, each field with its end.
const TRAILER_LEN: usize = 7;

/// The kind of the bytes at the front of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// The beginning of a message.
    Partial,
    /// A message of this length, with the right BodyLength and CheckSum.
    Whole(usize),
    /// No message. The next one may begin after this number of bytes; at least 1.
    Garbled(usize),
}

/// Looks for a message at the front of these bytes: `8=`, `9=` and `35=` first, `10=` last.
#[must_use]
pub fn frame(bytes: &[u8]) -> Framed {
    match whole(bytes) {
        Some(framed) => framed,
        None => Framed::Garbled(next_start(bytes)),
    }
}

/// `None` if the bytes cannot be the beginning of a message.
fn whole(bytes: &[u8]) -> Option<Framed> {
    let Some(rest) = after(bytes, b"8=")? else { return Some(Framed::Partial) };
    let Some(begin_len) = rest.iter().take(BEGIN_LEN_MAX + 1).position(|byte| *byte == SOH) else {
        return (rest.len() <= BEGIN_LEN_MAX).then_some(Framed::Partial);
    };
    let Some(rest) = after(&rest[begin_len + 1..], b"9=")? else { return Some(Framed::Partial) };
    let mut body_len = 0;
    let mut digit_count = 0;
    let rest = loop {
        match rest.get(digit_count) {
            None => return Some(Framed::Partial),
            Some(&SOH) if digit_count > 0 => break &rest[digit_count + 1..],
            Some(digit) if digit.is_ascii_digit() => {
                body_len = body_len * 10 + usize::from(digit - b'0');
            }
            Some(_) => return None,
        }
        digit_count += 1;
        if body_len > MESSAGE_LEN_MAX || digit_count > 6 {
            return None;
        }
    };
    let header_len = bytes.len() - rest.len();
    if after(rest, b"35=")?.is_none() || rest.len() < body_len + TRAILER_LEN {
        return Some(Framed::Partial);
    }
    let (body, trailer) = rest.split_at(body_len);
    let [b'1', b'0', b'=', sum @ .., SOH] = &trailer[..TRAILER_LEN] else { return None };
    let is_right = body.last() == Some(&SOH)
        && *sum == check_sum_digits(check_sum(&bytes[..header_len + body_len]));
    is_right.then_some(Framed::Whole(header_len + body_len + TRAILER_LEN))
}

/// The bytes after `start`; `Some(None)` if `start` is incomplete, `None` if the bytes differ from it.
fn after<'a>(bytes: &'a [u8], start: &[u8]) -> Option<Option<&'a [u8]>> {
    let len = bytes.len().min(start.len());
    (bytes[..len] == start[..len]).then(|| bytes.get(start.len()..))
}

/// The place where the next message may begin; at least 1.
fn next_start(bytes: &[u8]) -> usize {
    const START: &[u8] = b"8=FIX";
    let found = bytes.windows(START.len()).skip(1).position(|window| window == START);
    // The last bytes may be the first of a start.
    found.map_or(bytes.len().saturating_sub(START.len() - 1), |index| index + 1).max(1)
}

/// The sum of all bytes, modulo 256.
pub(super) fn check_sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

pub(super) const fn check_sum_digits(sum: u8) -> [u8; 3] {
    [b'0' + sum / 100, b'0' + sum / 10 % 10, b'0' + sum % 10]
}

/// A field that a message may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The tag; 0 if it cannot be read.
    pub tag: u32,
    /// The fault.
    pub reason: super::SessionReject,
}

/// Tags below this one are found without a search: nearly all lookups.
const INDEXED_END: usize = 576;

/// The places of the fields of a message. The next message may be read into the same value, at a cost of the number of
/// fields of both.
#[derive(Clone, Debug)]
pub struct Fields {
    places: [Place; FIELDS_MAX],
    count: usize,
    /// By tag: the number of fields up to the first one with that tag; 0 if there is none.
    first: [u8; INDEXED_END],
    fault: Option<Fault>,
    /// Length of the message.
    len: usize,
}

/// The place of a field's value.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: u32,
    start: u16,
    end: u16,
}

/// A whole message, split into its fields.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    fields: &'a Fields,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            places: [Place::default(); FIELDS_MAX],
            count: 0,
            first: [0; INDEXED_END],
            fault: None,
            len: 0,
        }
    }
}

impl Fields {
    /// Splits a message for which [`frame`] returned [`Framed::Whole`]. The first field that cannot be read is its
    /// [`fault`](Message::fault); the rest of the fields are still read.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8]) -> Message<'a> {
        for place in &self.places[..self.count] {
            if let Some(first) = self.first.get_mut(place.tag as usize) {
                *first = 0;
            }
        }
        (self.count, self.fault, self.len) = (0, None, bytes.len());
        let mut at = 0;
        let mut data_len = None;
        while at < bytes.len().min(MESSAGE_LEN_MAX * 2) {
            at = self.read_field(bytes, at, &mut data_len);
        }
        Message { bytes, fields: self }
    }

    /// The message that was read last, whose bytes may have moved.
    ///
    /// # Panics
    /// `bytes` has another length than that message.
    #[must_use]
    pub fn message<'a>(&'a self, bytes: &'a [u8]) -> Message<'a> {
        assert_eq!(bytes.len(), self.len, "these are the bytes that were read");
        Message { bytes, fields: self }
    }

    /// Reads the field at `at` and returns the place of the next.
    fn read_field(
        &mut self,
        bytes: &[u8],
        at: usize,
        data_len: &mut Option<(u32, usize)>,
    ) -> usize {
        use super::SessionReject::{InvalidTagNumber, NoValue, Other, WrongFormat};
        let rest = &bytes[at..];
        let end_from = |start: usize| start + value_len(&rest[start..]);
        let Some((tag, start)) = tag_number(rest) else {
            self.blame(0, InvalidTagNumber);
            return at + end_from(0) + 1;
        };
        let end = end_from(start);
        // A field of data has the length given by the field before it, and may contain SOH.
        let end = match data_len.take() {
            Some((data_tag, len)) if data_tag == tag => {
                if rest.get(start + len) == Some(&SOH) {
                    start + len
                } else {
                    self.blame(tag, WrongFormat);
                    end
                }
            }
            Some((data_tag, _)) => {
                self.blame(data_tag, super::SessionReject::RequiredTagMissing);
                end
            }
            None => end,
        };
        if end == start {
            self.blame(tag, NoValue);
        }
        if let Some(data_tag) = dictionary::data_tag(tag) {
            *data_len = unsigned(&rest[start..end]).map(|len| (data_tag, len as usize));
        }
        if self.count == FIELDS_MAX {
            self.blame(tag, Other);
        } else {
            self.places[self.count] =
                Place { tag, start: (at + start) as u16, end: (at + end) as u16 };
            self.count += 1;
            if let Some(first @ 0) = self.first.get_mut(tag as usize) {
                *first = self.count as u8;
            }
        }
        at + end + 1
    }

    fn places(&self) -> &[Place] {
        &self.places[..self.count]
    }

    fn blame(&mut self, tag: u32, reason: super::SessionReject) {
        self.fault.get_or_insert(Fault { tag, reason });
    }
}

impl<'a> Message<'a> {
    /// The first field that could not be read.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.fields.fault
    }

    /// All bytes of the message.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Tags and values, in the order of the message.
    pub fn fields(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.fields
            .places()
            .iter()
            .map(move |place| (place.tag, &bytes[usize::from(place.start)..usize::from(place.end)]))
    }

    /// The value of the first field with this tag.
    #[must_use]
    pub fn get(&self, tag: u32) -> Option<&'a [u8]> {
        let places = self.fields.places();
        let place = match self.fields.first.get(tag as usize) {
            Some(first) => places.get(usize::from(*first).checked_sub(1)?)?,
            None => places.iter().find(|place| place.tag == tag)?,
        };
        Some(&self.bytes[usize::from(place.start)..usize::from(place.end)])
    }

    /// The value of BeginString (8).
    #[must_use]
    pub fn begin_string(&self) -> &'a [u8] {
        self.get(8).unwrap_or_default()
    }

    /// The value of MsgType (35).
    #[must_use]
    pub fn msg_type(&self) -> &'a [u8] {
        self.get(35).unwrap_or_default()
    }

    /// A whole number; `None` if the field is absent or no number below 2^64.
    #[must_use]
    pub fn number(&self, tag: u32) -> Option<u64> {
        unsigned(self.get(tag)?)
    }

    /// True if the field has the value `Y`.
    #[must_use]
    pub fn is_yes(&self, tag: u32) -> bool {
        self.get(tag) == Some(b"Y")
    }
}

/// The tag of the field at the front, up to 9 digits of which the first is not 0, and the start of its value.
fn tag_number(field: &[u8]) -> Option<(u32, usize)> {
    const DIGITS_MAX: usize = 9;
    let digit = |byte: u8| u32::from(byte - b'0');
    // Nearly all tags.
    match *field {
        [a @ b'1'..=b'9', b'=', ..] => return Some((digit(a), 2)),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', b'=', ..] => return Some((digit(a) * 10 + digit(b), 3)),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'=', ..] => {
            return Some((digit(a) * 100 + digit(b) * 10 + digit(c), 4));
        }
        _ => {}
    }
    let mut tag = 0;
    for (index, byte) in field.iter().take(DIGITS_MAX + 1).enumerate() {
        match byte {
            b'=' if index > 0 => return Some((tag, index + 1)),
            b'0' if index == 0 => return None,
            b'0'..=b'9' if index < DIGITS_MAX => tag = tag * 10 + u32::from(byte - b'0'),
            _ => return None,
        }
    }
    None
}

/// The number of bytes before the first SOH, or of all bytes if there is none. Reads eight at a time.
fn value_len(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::from_ne_bytes([SOH; 8]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);
    let mut len = 0;
    while let Some(eight) = bytes.get(len..).and_then(|rest| rest.first_chunk()) {
        // A byte of SOH is 0 here, and the lowest such byte gets its highest bit.
        let differs = u64::from_le_bytes(*eight) ^ EACH;
        let found = differs.wrapping_sub(EACH) & !differs & HIGHEST;
        if found != 0 {
            return len + found.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = &bytes[len..];
    len + rest.iter().position(|byte| *byte == SOH).unwrap_or(rest.len())
}

/// A number in decimal digits, at the end of these.
pub(super) fn decimal(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[at..];
        }
    }
}

/// A number of digits only.
pub(super) fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
