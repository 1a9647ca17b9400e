//! One record inside a batch: its distance in time from the previous record, its kind, its payload.
//!
//! A record has no checksum, sequence or other length: its [batch](crate::batch) has them for all
//! records. So a plain order costs two bytes beside its payload.
//!
//! Invariant: a record has exactly one encoding.

use std::ops::Range;

/// The longest payload, in bytes.
pub const PAYLOAD_LEN_MAX: usize = 64 * 1024;

/// The most bytes of a record beside its payload: the time (1 to 10 bytes), the kind and, for a
/// long input or a checkpoint, the length.
pub(crate) const RECORD_HEAD_LEN_MAX: usize = TIME_LEN_MAX + 1 + 4;

/// The longest record, in bytes.
pub(crate) const RECORD_LEN_MAX: usize = RECORD_HEAD_LEN_MAX + PAYLOAD_LEN_MAX;

/// The longest time, in bytes: 64 bits, seven in each.
pub(crate) const TIME_LEN_MAX: usize = 10;

/// An input up to this length has its length in place of a kind.
pub(crate) const SHORT_LEN_MAX: usize = 250;

/// Kinds beyond the lengths of short inputs. The length follows in four bytes.
const LONG_INPUT: u8 = 251;
const CHECKPOINT: u8 = 252;

/// A record: its payload, sequence and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind, which says whether the record has a sequence of its own.
    pub kind: RecordKind,
    /// The sequence: from 1, without gaps. A checkpoint has the sequence of the input before it, or
    /// 0 without one.
    pub sequence: u64,
    /// The time, in ns since the Unix epoch; never before that of the previous record.
    pub timestamp: u64,
    /// The payload; at most [`PAYLOAD_LEN_MAX`] bytes.
    pub payload: &'a [u8],
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An input, with a sequence of its own.
    Input,
    /// A note about the inputs before it; the state does not depend on it.
    Checkpoint,
}

/// The reason why the bytes of a batch with the right checksum are not its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordFault {
    /// The bytes end within a record, or give a time or length that no record has.
    Malformed,
    /// A kind that a later build may know.
    Unknown(u8),
}

/// Writes the time of a record after the previous one, in ns, seven bits a byte from the lowest on;
/// returns the number of bytes.
#[inline]
pub(crate) fn write_time(mut elapsed: u64, bytes: &mut [u8; TIME_LEN_MAX]) -> usize {
    let mut len = 0;
    while elapsed >= 0x80 {
        bytes[len] = elapsed as u8 | 0x80;
        elapsed >>= 7;
        len += 1;
    }
    bytes[len] = elapsed as u8;
    len + 1
}

/// The kind byte of an input of at most [`SHORT_LEN_MAX`] bytes.
#[inline]
pub(crate) fn short_kind(payload_len: usize) -> u8 {
    assert!(payload_len <= SHORT_LEN_MAX, "a short input of {payload_len} bytes");
    payload_len as u8
}

/// The bytes before the payload of any record, and their number.
pub(crate) fn head(
    kind: RecordKind,
    elapsed: u64,
    payload_len: usize,
) -> ([u8; RECORD_HEAD_LEN_MAX], usize) {
    assert!(payload_len <= PAYLOAD_LEN_MAX, "a payload of {payload_len} bytes");
    let mut head = [0; RECORD_HEAD_LEN_MAX];
    let time_len = write_time(elapsed, head.first_chunk_mut().expect("longer than a time"));
    let is_short = kind == RecordKind::Input && payload_len <= SHORT_LEN_MAX;
    head[time_len] = match kind {
        _ if is_short => short_kind(payload_len),
        RecordKind::Input => LONG_INPUT,
        RecordKind::Checkpoint => CHECKPOINT,
    };
    if is_short {
        return (head, time_len + 1);
    }
    head[time_len + 1..time_len + 5].copy_from_slice(&(payload_len as u32).to_le_bytes());
    (head, time_len + 5)
}

/// A record by its place in the bytes of its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) kind: RecordKind,
    /// The time after the previous record, in ns.
    pub(crate) elapsed: u64,
    /// The place of the payload; it ends the record.
    pub(crate) payload: Range<usize>,
}

/// Reads the record that begins at `start`.
#[inline]
pub(crate) fn read(bytes: &[u8], start: usize) -> Result<Packed, RecordFault> {
    let (elapsed, at) = read_time(bytes, start)?;
    let kind_byte = *bytes.get(at).ok_or(RecordFault::Malformed)?;
    let (kind, payload_start, payload_len) = match kind_byte {
        LONG_INPUT | CHECKPOINT => {
            let len = bytes.get(at + 1..).and_then(|rest| rest.first_chunk());
            let len = u32::from_le_bytes(*len.ok_or(RecordFault::Malformed)?) as usize;
            let kind = match kind_byte {
                CHECKPOINT => RecordKind::Checkpoint,
                _ if len <= SHORT_LEN_MAX => return Err(RecordFault::Malformed),
                _ => RecordKind::Input,
            };
            if len > PAYLOAD_LEN_MAX {
                return Err(RecordFault::Malformed);
            }
            (kind, at + 5, len)
        }
        short if usize::from(short) <= SHORT_LEN_MAX => {
            (RecordKind::Input, at + 1, usize::from(short))
        }
        unknown => return Err(RecordFault::Unknown(unknown)),
    };
    let end = payload_start + payload_len;
    if end > bytes.len() {
        return Err(RecordFault::Malformed);
    }
    Ok(Packed { kind, elapsed, payload: payload_start..end })
}

/// A time, and the offset of its end.
#[inline]
fn read_time(bytes: &[u8], start: usize) -> Result<(u64, usize), RecordFault> {
    let mut elapsed = 0;
    for nth in 0..TIME_LEN_MAX {
        let byte = *bytes.get(start + nth).ok_or(RecordFault::Malformed)?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds only the last bit; a last byte of 0 would be a second encoding.
        if (nth == TIME_LEN_MAX - 1 && bits > 1) || (nth > 0 && byte == 0) {
            return Err(RecordFault::Malformed);
        }
        elapsed |= bits << (7 * nth);
        if byte < 0x80 {
            return Ok((elapsed, start + nth + 1));
        }
    }
    Err(RecordFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kind: RecordKind, elapsed: u64, payload: &[u8]) -> Vec<u8> {
        let (head, len) = head(kind, elapsed, payload.len());
        [&head[..len], payload].concat()
    }

    /// Records of every length of time and payload read back as written, and one byte less is an
    /// error.
    #[test]
    fn reads_as_written() {
        let times = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 35, 1 << 63, u64::MAX];
        for elapsed in times {
            for payload_len in [0, 1, 27, SHORT_LEN_MAX, SHORT_LEN_MAX + 1, PAYLOAD_LEN_MAX] {
                for kind in [RecordKind::Input, RecordKind::Checkpoint] {
                    let payload = vec![7; payload_len];
                    let bytes = encoded(kind, elapsed, &payload);
                    let found = read(&bytes, 0).unwrap();
                    assert_eq!((found.kind, found.elapsed), (kind, elapsed));
                    assert_eq!(bytes[found.payload.clone()], payload);
                    assert_eq!(found.payload.end, bytes.len());
                    assert_eq!(read(&bytes[..bytes.len() - 1], 0), Err(RecordFault::Malformed));
                }
            }
        }
    }

    /// A plain order in the turn of the previous one takes two bytes beside its payload.
    #[test]
    fn a_plain_record_has_two_bytes() {
        assert_eq!(encoded(RecordKind::Input, 0, b"order"), b"\0\x05order");
    }

    /// No record has a second encoding, and a kind of a later build is not reported as damage.
    #[test]
    fn other_encodings_are_refused() {
        let malformed: [&[u8]; 6] = [
            &[0x80, 0x00, 1, 9], // the time 0 in two bytes
            &[0xff; 11],         // a time without an end
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0], // a time beyond 64 bits
            &[0, LONG_INPUT, 3, 0, 0, 0, 1, 2, 3], // a short input as a long one
            &[0, CHECKPOINT, 1, 0, 1, 0, 1], // longer than any payload
            &[0, 200, 1, 2, 3],  // beyond the end
        ];
        for bytes in malformed {
            assert_eq!(read(bytes, 0), Err(RecordFault::Malformed), "{bytes:?}");
        }
        assert_eq!(read(&[0, 253], 0), Err(RecordFault::Unknown(253)));
    }
}
