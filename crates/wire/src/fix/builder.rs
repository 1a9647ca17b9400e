//! Writes a message into a buffer of the caller.
//!
//! Invariant: BodyLength and CheckSum are right for any fields.

use core::fmt;

use market::Timestamp;

use super::{
    SOH, Version,
    dictionary::TAGS_END,
    message::{check_sum, check_sum_digits},
    time::write_time,
};

/// The room for BeginString and BodyLength before the body, in bytes.
const FRONT_LEN: usize = 20;
/// The room for CheckSum, in bytes.
const BACK_LEN: usize = 7;
/// The longest message that the venue writes, in bytes: a buffer for any.
pub const LENGTH_MAX: usize = 1024;

/// For every tag of the dictionary: its digits and `=`, and in the last byte the number of these bytes.
static TAG_TEXTS: [[u8; 8]; TAGS_END] = {
    let mut table = [[0; 8]; TAGS_END];
    let mut tag = 0;
    while tag < TAGS_END {
        let text = &mut table[tag];
        let mut digits = if tag == 0 { 1 } else { 1 + tag.ilog10() as usize };
        text[digits] = b'=';
        text[7] = digits as u8 + 1;
        let mut rest = tag;
        while digits > 0 {
            digits -= 1;
            text[digits] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        tag += 1;
    }
    table
};

/// The two digits of every number below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut table = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        table[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    table
};

/// A message being written: put MsgType first, then the other fields, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Builder<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Builder<'a> {
    /// A message without fields.
    ///
    /// # Panics
    /// The buffer has less than 27 bytes. Every method panics if the buffer is too short.
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
        put_digits(self.room(digit_count(value)), value);
        self.end()
    }

    /// Puts a field of a decimal number, given as `units` of 10^-`decimals`: without trailing zeros, and without a
    /// point if it is whole.
    pub fn decimal(&mut self, tag: u32, units: u128, decimals: u8) -> &mut Self {
        self.tag(tag);
        let (whole, fraction) = match (u64::try_from(units), 10_u64.checked_pow(decimals.into())) {
            // Nearly all numbers: the division of 64 bits is many times as fast.
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

    /// Puts a field with the text of a value.
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

    #[inline]
    fn tag(&mut self, tag: u32) {
        let text = TAG_TEXTS.get(tag as usize);
        let room = self.buffer[self.len..].first_chunk_mut();
        if let (Some(text), Some(room)) = (text, room) {
            // The bytes behind the text are overwritten.
            *room = *text;
            self.len += usize::from(text[7]);
        } else {
            self.long_tag(tag);
        }
    }

    /// A tag that the table does not have, or at the end of the buffer.
    #[cold]
    fn long_tag(&mut self, tag: u32) {
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
        copy(self.room(bytes.len()), bytes);
        self
    }
}

impl fmt::Write for Builder<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Copies to a place of the same length. Values are short: two moves of one size, which may overlap, cost less than a call.
#[inline]
fn copy(place: &mut [u8], bytes: &[u8]) {
    assert_eq!(place.len(), bytes.len());
    match bytes.len() {
        4..8 => copy_ends::<4>(place, bytes),
        8..16 => copy_ends::<8>(place, bytes),
        16..32 => copy_ends::<16>(place, bytes),
        0..4 => place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
        _ => place.copy_from_slice(bytes),
    }
}

/// Copies the first and the last `N` bytes.
#[inline]
fn copy_ends<const N: usize>(place: &mut [u8], bytes: &[u8]) {
    let (first, last) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>());
    if let (Some(to), Some(from)) = (place.first_chunk_mut(), first) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (place.last_chunk_mut(), last) {
        *to = *from;
    }
}

/// Decimal digits of a number; 1 for 0.
#[inline]
fn digit_count(number: u64) -> usize {
    // Nearly all numbers are tags.
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
    let (first, pairs) = place.as_rchunks_mut::<2>();
    for pair in pairs.iter_mut().rev() {
        *pair = PAIRS[(rest % 100) as usize];
        rest /= 100;
    }
    if let [digit] = first {
        *digit = b'0' + (rest % 10) as u8;
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

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use super::*;

    /// Values of every length, numbers of every count of digits, and tags in and beyond the table.
    #[test]
    fn fields_are_what_was_put() {
        let value: Vec<u8> = (0..100).map(|index| b'!' + index % 90).collect();
        let mut buffer = [0; LENGTH_MAX];
        for len in 0..value.len() {
            let number = (0..len.min(20)).fold(0_u64, |number, digit| {
                number.wrapping_mul(10).wrapping_add(1 + digit as u64 % 9)
            });
            let tag = 1 + len as u32 * 37;
            let mut builder = Builder::new(&mut buffer);
            builder.char(35, b'8').bytes(tag, &value[..len]).number(tag, number);
            let text = str::from_utf8(&value[..len]).unwrap();
            let expected = format!("35=8\x01{tag}={text}\x01{tag}={number}\x01");
            let message = builder.finish(Version::Fix44);
            let front = format!("8=FIX.4.4\x019={}\x01", expected.len());
            assert_eq!(
                message[..message.len() - BACK_LEN],
                *[front.as_bytes(), expected.as_bytes()].concat()
            );
        }
    }
}
