//! A message of the venue that is sent again: its first bytes, with PossDupFlag after its number and a new
//! SendingTime before the original one.
//!
//! Invariant: only the header of the message is read; BodyLength and CheckSum are calculated without reading its
//! bytes again.

use alloc::vec::Vec;

use super::{
    SOH, TIME_LEN,
    message::{check_sum, check_sum_digits, decimal, unsigned},
};

/// PossDupFlag.
const AGAIN: &[u8] = b"43=Y\x01";
/// OrigSendingTime, the tag between the new SendingTime and the original one.
const FIRST_TIME: &[u8] = b"\x01122=";
/// Bytes that are added to the body.
const ADDED_LEN: usize = AGAIN.len() + TIME_LEN + FIRST_TIME.len();
/// `10=`, three digits and the end of the field.
const TRAILER_LEN: usize = 7;
/// Number of first fields that must have SendingTime; otherwise the message is not one of the venue's.
const HEADER_FIELDS: usize = 16;

/// A message as the venue wrote it, and the places of its header at which it grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again<'a> {
    /// BeginString and `9=`.
    begin: &'a [u8],
    /// BodyLength.
    len: &'a [u8],
    msg_type: &'a [u8],
    body: &'a [u8],
    /// CheckSum.
    sum: u8,
    /// The end of MsgSeqNum in the body, in bytes.
    number_end: usize,
    /// The beginning of SendingTime's value in the body, in bytes.
    time_start: usize,
}

impl<'a> Again<'a> {
    /// `None` for a message that the venue did not write.
    pub(super) fn of(message: &'a [u8]) -> Option<Self> {
        let (rest, trailer) = message.split_at_checked(message.len().checked_sub(TRAILER_LEN)?)?;
        let [b'1', b'0', b'=', sum @ .., SOH] = trailer else { return None };
        let sum = u8::try_from(unsigned(sum)?).ok()?;
        if !rest.starts_with(b"8=FIX") {
            return None;
        }
        let len_start = field_end(rest, 0)? + b"9=".len();
        let len_end = field_end(rest, len_start)? - 1;
        let (begin, body) = (&rest[..len_start], &rest[len_end + 1..]);
        if !begin.ends_with(b"\x019=") {
            return None;
        }
        let type_end = field_end(body, 0)?;
        let msg_type = body[..type_end - 1].strip_prefix(b"35=")?;
        let (mut number_end, mut time_start) = (None, None);
        let mut at = type_end;
        for _ in 0..HEADER_FIELDS {
            let end = field_end(body, at)?;
            if body[at..].starts_with(b"34=") {
                number_end = Some(end);
            } else if body[at..].starts_with(b"52=") {
                time_start = Some(at + b"52=".len());
                break;
            }
            at = end;
        }
        let (number_end, time_start) = (number_end?, time_start?);
        let len = &rest[len_start..len_end];
        Some(Self { begin, len, msg_type, body, sum, number_end, time_start })
    }

    pub(super) const fn msg_type(&self) -> &'a [u8] {
        self.msg_type
    }

    /// Appends the message in the form in which it is sent again at this time.
    pub(super) fn put(&self, now: &[u8; TIME_LEN], out: &mut Vec<u8>) {
        let mut digits = [0; 20];
        let len = decimal((self.body.len() + ADDED_LEN) as u64, &mut digits);
        let added = [AGAIN, now, FIRST_TIME, len];
        let sum = added.iter().fold(self.sum, |sum, bytes| sum.wrapping_add(check_sum(bytes)));
        let sum = check_sum_digits(sum.wrapping_sub(check_sum(self.len)));
        let (number, rest) = self.body.split_at(self.number_end);
        let (names, rest) = rest.split_at(self.time_start - self.number_end);
        let parts =
            [self.begin, len, &[SOH], number, AGAIN, names, now, FIRST_TIME, rest, b"10=", &sum];
        out.reserve(parts.iter().map(|part| part.len()).sum::<usize>() + 1);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.push(SOH);
    }
}

/// The end of the field at `at`, its SOH included.
fn field_end(bytes: &[u8], at: usize) -> Option<usize> {
    let len = bytes.get(at..)?.iter().position(|byte| *byte == SOH)?;
    Some(at + len + 1)
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use market::Timestamp;

    use super::*;
    use crate::fix::{Builder, Fields, Version, write_time};

    /// A message field by field, with the added fields: the slow way, which reads all of it.
    fn model(message: &[u8], now: Timestamp, version: Version) -> Vec<u8> {
        let mut buffer = vec![0; message.len() + 64];
        let mut builder = Builder::new(&mut buffer);
        for (tag, value) in Fields::default().read(message).fields() {
            match tag {
                8..=10 => {}
                34 => {
                    builder.bytes(34, value).char(43, b'Y');
                }
                52 => {
                    builder.time(52, now).bytes(122, value);
                }
                tag => {
                    builder.bytes(tag, value);
                }
            }
        }
        builder.finish(version).to_vec()
    }

    /// For any length, number and text, the result is the message written field by field.
    #[test]
    fn it_is_the_message_written_anew() {
        let now = Timestamp(1_795_000_000_123_000_000);
        for version in Version::ALL {
            for words in (1..800).step_by(7) {
                let mut buffer = [0; 1024];
                let mut builder = Builder::new(&mut buffer);
                let number = (words * words * 7919) as u64;
                builder.char(35, b'8').number(34, number).text(49, "DAMRAK");
                builder.time(52, Timestamp(now.0 - number)).text(56, "ALICE").text(115, "BOB");
                builder.text(58, &"y=z 52".repeat(200)[..words]);
                let message = builder.finish(version);
                let again = Again::of(message).unwrap();
                assert_eq!(again.msg_type(), b"8");
                let mut out = b"before".to_vec();
                again.put(&write_time(now), &mut out);
                let expected = [&b"before"[..], &model(message, now, version)].concat();
                assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
            }
        }
    }

    /// Bytes that the venue did not write are not sent again, wherever they end.
    #[test]
    fn other_bytes_are_none() {
        let mut buffer = [0; 256];
        let mut builder = Builder::new(&mut buffer);
        builder.char(35, b'8').number(34, 7).text(49, "V").time(52, Timestamp(1)).text(56, "C");
        let message = builder.finish(Version::Fix44);
        assert!(Again::of(message).is_some());
        for len in 0..message.len() {
            assert!(Again::of(&message[..len]).is_none(), "{len}");
            assert!(Again::of(&message[message.len() - len..]).is_none(), "{len}");
        }
        assert!(Again::of(b"8=FIX.4.4\x019=5\x0135=8\x0110=000\x01").is_none());
    }
}
