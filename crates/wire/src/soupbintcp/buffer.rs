//! The buffers of one connection: received bytes, and bytes to be written.

use alloc::vec::Vec;
use core::ops::Range;

use super::{HEADER_LEN, LENGTH_MAX, Violation};

/// The most received bytes: an incomplete packet, and the bytes of one more read of the socket.
const UNREAD_MAX: usize = 128 * 1024;

/// Received bytes. Packets are taken from the front; an incomplete one waits for its end.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: usize,
}

/// The place of a packet in the received bytes.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) packet_type: u8,
    /// The stated length, type included; at least 1.
    pub(super) length: u16,
    /// All bytes of the packet, the length included.
    pub(super) whole: Range<usize>,
}

impl Incoming {
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.bytes.len() - self.taken + bytes.len() > UNREAD_MAX {
            return Err(Violation::TooMuchUnread);
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the next packet, once it is complete. A length above `length_max` is an error at once.
    pub(super) fn next(&mut self, length_max: u16) -> Result<Option<Packet>, Violation> {
        let unread = &self.bytes[self.taken..];
        let Some(header) = unread.first_chunk() else { return Ok(None) };
        let length = u16::from_be_bytes(*header);
        if length == 0 {
            return Err(Violation::Empty);
        }
        let Some(&packet_type) = unread.get(HEADER_LEN) else { return Ok(None) };
        if length > length_max {
            return Err(Violation::Length { packet_type, length });
        }
        let len = HEADER_LEN + usize::from(length);
        if unread.len() < len {
            return Ok(None);
        }
        let whole = self.taken..self.taken + len;
        self.taken = whole.end;
        Ok(Some(Packet { packet_type, length, whole }))
    }

    /// Takes the next packet if it is complete and of this type, and returns the place of its payload. Any other packet
    /// stays, for [`next`](Self::next) to judge.
    pub(super) fn next_of(&mut self, packet_type: u8) -> Option<Range<usize>> {
        let unread = &self.bytes[self.taken..];
        let [high, low, found] = *unread.first_chunk()?;
        let length = u16::from_be_bytes([high, low]);
        let len = HEADER_LEN + usize::from(length);
        let is_one = found == packet_type && (1..=LENGTH_MAX).contains(&length);
        if !is_one || unread.len() < len {
            return None;
        }
        let payload = self.taken + HEADER_LEN + 1..self.taken + len;
        self.taken = payload.end;
        Some(payload)
    }

    /// Bytes held, those taken included.
    pub(super) const fn held(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn at(&self, place: Range<usize>) -> &[u8] {
        &self.bytes[place]
    }

    pub(super) fn whole(&self, packet: &Packet) -> &[u8] {
        &self.bytes[packet.whole.clone()]
    }

    pub(super) fn payload(&self, packet: &Packet) -> &[u8] {
        &self.whole(packet)[HEADER_LEN + 1..]
    }
}

impl Packet {
    /// Checks that the packet has no payload.
    pub(super) fn is_bare(&self) -> Result<(), Violation> {
        self.has_length(1)
    }

    /// Checks that the packet states this length.
    pub(super) fn has_length(&self, length: u16) -> Result<(), Violation> {
        if self.length == length {
            Ok(())
        } else {
            Err(Violation::Length { packet_type: self.packet_type, length: self.length })
        }
    }
}

/// Bytes to be written. The buffer is kept, so that a warm connection allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes at the front that were written.
    written: usize,
    last_put_ns: u64,
}

impl Outgoing {
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Bytes held, those written included.
    pub(super) const fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Marks the first `len` bytes as written.
    pub(super) fn sent(&mut self, len: usize) {
        assert!(len <= self.bytes.len() - self.written, "no more is written than waits");
        self.written += len;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
    }

    pub(super) fn put(&mut self, packet_type: u8, payload: &[u8], now_ns: u64) {
        let length = u16::try_from(1 + payload.len()).ok().filter(|length| *length <= LENGTH_MAX);
        let length = length.expect("a message fits its packet");
        self.make_room();
        let [high, low] = length.to_be_bytes();
        self.bytes.extend_from_slice(&[high, low, packet_type]);
        self.bytes.extend_from_slice(payload);
        self.last_put_ns = now_ns;
    }

    pub(super) fn put_whole(&mut self, packet: &[u8], now_ns: u64) {
        self.bytes.extend_from_slice(packet);
        self.last_put_ns = now_ns;
    }

    /// Adds a heartbeat if no packet was added for the interval. Waiting bytes are sign of life enough, so a peer that
    /// does not read does not make them grow.
    pub(super) fn heartbeat(&mut self, packet_type: u8, interval_ns: u64, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.last_put_ns) >= interval_ns;
        if is_due && self.waiting().is_empty() {
            self.put(packet_type, &[], now_ns);
        }
    }

    /// Moves the rest to the front once most of the buffer is written.
    fn make_room(&mut self) {
        if self.written > 4096 && self.written * 2 > self.bytes.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}
