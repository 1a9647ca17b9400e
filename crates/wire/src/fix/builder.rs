//! Writes a message into a buffer of the caller.
//!
//! Invariant: BodyLength and CheckSum are right, whatever was put.

use core::fmt;

use market::Timestamp;

use super::{
    SOH, Version,
    dictionary::TAGS_END,
    message::{check_sum, check_sum_digits},
    time::write_time,
};

/// Room that BeginString and BodyLength take before the body.
const FRONT_LEN: usize = 20;
/// Room that CheckSum takes.
const BACK_LEN: usize = 7;
/// The longest message that the venue writes, in bytes: a buffer for any.
pub const LENGTH_MAX: usize = 1024;

/// A tag and its `=`.
#[derive(Clone, Copy)]
struct TagText {
    bytes: [u8; 5],
    len: u8,
}

/// Of every tag of the dictionary.
static TAG_TEXTS: [TagText; TAGS_END] = {
    let mut table = [TagText { bytes: [0; 5], len: 0 }; TAGS_END];
    let mut tag = 0;
    while tag < TAGS_END {
        let text = &mut table[tag];
        let mut digits = if tag == 0 { 1 } else { 1 + tag.ilog10() as usize };
        text.bytes[digits] = b'=';
        text.len = digits as u8 + 1;
        let mut rest = tag;
        while digits > 0 {
            digits -= 1;
            text.bytes[digits] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        tag += 1;
    }
    table
};

/// A message that is being written: put MsgType first, then the other fields, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Builder<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Builder<'a> {
    /// A message without fields.
    ///
    /// # Panics
    /// The buffer has less than 27 bytes; so does every method for which the buffer is too short.
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        assert!(FRONT_LEN + BACK_LEN <= buffer.len(), "{} bytes", buffer.len());
        Self { buffer, len: FRONT_LEN }
    }

    /// Puts a field of bytes, which is data where they contain SOH.
    pub fn bytes(&mut self, tag: u32, value: &[u8]) -> &mut Self {
        self.tag(tag);
        self.put(value);
        self.end()
    }

    /// Puts a field of text.
    pub fn text(&mut self, tag: u32, value: &str) -> &mut Self {
        self.bytes(tag, value.as_bytes())
    }

    /// Puts a field of one character.
    pub fn char(&mut self, tag: u32, value: u8) -> &mut Self {
        self.tag(tag);
        self.byte(value).end()
    }

    /// Puts a field of a whole number.
    pub fn number(&mut self, tag: u32, value: u64) -> &mut Self {
        self.tag(tag);
        self.digits(value.into());
        self.end()
    }

    /// Puts a field of a decimal number, of which `units` is the number of units of 10^-`decimals`:
    /// without zeros at its end, and without a point where it is whole.
    pub fn decimal(&mut self, tag: u32, units: u128, decimals: u8) -> &mut Self {
        self.tag(tag);
        let (whole, fraction) = match (u64::try_from(units), 10_u64.checked_pow(decimals.into())) {
            // Nearly all: the division of 64 bits is many times as fast.
            (Ok(units), Some(one)) => (u128::from(units / one), u128::from(units % one)),
            _ => {
                let one = 10_u128.pow(u32::from(decimals));
                (units / one, units % one)
            }
        };
        self.digits(whole);
        if fraction > 0 {
            self.byte(b'.');
            put_long_digits(self.room(decimals.into()), fraction);
            while self.buffer[self.len - 1] == b'0' {
                self.len -= 1;
            }
        }
        self.end()
    }

    /// Puts a field of what a value shows.
    pub fn display(&mut self, tag: u32, value: &impl fmt::Display) -> &mut Self {
        self.tag(tag);
        fmt::Write::write_fmt(self, format_args!("{value}")).expect("putting text fails never");
        self.end()
    }

    /// Puts a field of a moment, with milliseconds.
    pub fn time(&mut self, tag: u32, value: Timestamp) -> &mut Self {
        self.bytes(tag, &write_time(value))
    }

    /// Puts whole fields, each with its end.
    pub fn fields(&mut self, fields: &[u8]) -> &mut Self {
        self.put(fields)
    }

    /// The message, with BeginString, BodyLength and CheckSum.
    #[must_use]
    pub fn finish(mut self, version: Version) -> &'a [u8] {
        let body_len = self.len - FRONT_LEN;
        let mut front = [0; FRONT_LEN];
        let begin = version.begin_string().as_bytes();
        let mut front_len = 0;
        for part in [b"8=", begin, &[SOH], b"9="] {
            front[front_len..front_len + part.len()].copy_from_slice(part);
            front_len += part.len();
        }
        let digits = digit_count(body_len as u64);
        put_digits(&mut front[front_len..front_len + digits], body_len as u64);
        front_len += digits;
        front[front_len] = SOH;
        front_len += 1;
        let start = FRONT_LEN - front_len;
        self.buffer[start..FRONT_LEN].copy_from_slice(&front[..front_len]);
        let sum = check_sum_digits(check_sum(&self.buffer[start..self.len]));
        self.put(b"10=").put(&sum).put(&[SOH]);
        &self.buffer[start..self.len]
    }

    fn tag(&mut self, tag: u32) {
        let text = TAG_TEXTS.get(tag as usize);
        let room = self.buffer[self.len..].first_chunk_mut();
        if let (Some(text), Some(room)) = (text, room) {
            // What is behind the text is written over.
            *room = text.bytes;
            self.len += usize::from(text.len);
            return;
        }
        put_digits(self.room(digit_count(tag.into())), tag.into());
        self.byte(b'=');
    }

    fn end(&mut self) -> &mut Self {
        self.byte(SOH)
    }

    fn digits(&mut self, number: u128) {
        match u64::try_from(number) {
            Ok(number) => put_digits(self.room(digit_count(number)), number),
            Err(_) => put_long_digits(self.room(1 + number.ilog10() as usize), number),
        }
    }

    /// The next `len` bytes, which the caller writes.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        &mut self.buffer[start..start + len]
    }

    fn byte(&mut self, byte: u8) -> &mut Self {
        self.buffer[self.len] = byte;
        self.len += 1;
        self
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }
}

impl fmt::Write for Builder<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Decimal digits of a number; 1 for 0.
#[inline]
fn digit_count(number: u64) -> usize {
    // Nearly all are tags.
    match number {
        0..10 => 1,
        10..100 => 2,
        100..1_000 => 3,
        _ => 1 + number.ilog10() as usize,
    }
}

/// Fills a place with the last digits of a number.
#[inline]
fn put_digits(place: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// As [`put_digits`], for any number.
fn put_long_digits(place: &mut [u8], number: u128) {
    let mut high = number;
    let mut end = place.len();
    while u128::from(u64::MAX) < high && end > 0 {
        end -= 1;
        place[end] = b'0' + (high % 10) as u8;
        high /= 10;
    }
    put_digits(&mut place[..end], high as u64);
}
