//! The datagrams of one session that wait for its turn.
//!
//! Invariant: they take at most 512 KiB, and come out whole, in order, with the time of their arrival.

use market::Timestamp;

use super::intake::Share;

/// Bytes that may wait, with [`HEAD_BYTES`] for each datagram: about 8,000 datagrams with one order each.
const WAITING_BYTES_MAX: usize = 512 << 10;
/// Bytes of the length and the time of a datagram.
const HEAD_BYTES: usize = 2 + 8;

#[derive(Default)]
pub(super) struct Waiting {
    /// Each datagram after its length and time. Those before `start` were taken.
    bytes: Vec<u8>,
    start: usize,
    /// The amount taken from the session in this turn.
    pub(super) taken: Share,
    /// The number of its requests for earlier replies answered in this turn.
    pub(super) answered: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Keeps a datagram; false if there is no room for it.
    pub(super) fn push(&mut self, received: Timestamp, datagram: &[u8]) -> bool {
        let Ok(length) = u16::try_from(datagram.len()) else { return false };
        if self.bytes.len() - self.start + HEAD_BYTES + datagram.len() > WAITING_BYTES_MAX {
            return false;
        }
        // Once at least half were taken, the others move to the front: no more bytes move than were taken.
        if self.bytes.len() <= 2 * self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&received.0.to_le_bytes());
        self.bytes.extend_from_slice(datagram);
        true
    }

    /// Replaces the contents of `into` with the oldest datagram; returns the time of its arrival.
    pub(super) fn pop(&mut self, into: &mut Vec<u8>) -> Option<Timestamp> {
        let length = usize::from(u16::from_le_bytes(self.head()?));
        let received = u64::from_le_bytes(self.head().expect("the time follows the length"));
        into.clear();
        into.extend_from_slice(&self.bytes[self.start..self.start + length]);
        self.start += length;
        Some(Timestamp(received))
    }

    fn head<const N: usize>(&mut self) -> Option<[u8; N]> {
        let head = *self.bytes[self.start..].first_chunk()?;
        self.start += N;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept datagrams come out as they came in; datagrams that do not fit are refused, and fit again after that.
    #[test]
    fn datagrams_wait_whole_in_order_and_bounded() {
        let mut waiting = Waiting::default();
        let mut into = vec![7; 3];
        assert_eq!(waiting.pop(&mut into), None);
        let datagram = |number: usize| vec![number as u8; number % 2_000];
        let kept =
            (0..).take_while(|it| waiting.push(Timestamp(*it as u64), &datagram(*it))).count();
        assert!(waiting.bytes.len() <= WAITING_BYTES_MAX && 500 < kept, "{kept}");
        for number in 0..kept {
            assert_eq!(waiting.pop(&mut into), Some(Timestamp(number as u64)));
            assert_eq!(into, datagram(number));
        }
        assert!(waiting.is_empty() && waiting.push(Timestamp(0), &datagram(kept)));
        assert_eq!((waiting.pop(&mut into), into.len()), (Some(Timestamp(0)), kept % 2_000));
        // However much passes through, the room stays bounded.
        for number in 0..20_000 {
            assert!(waiting.push(Timestamp(number), &[1; 900]));
            assert!(number % 100 < 50 || waiting.pop(&mut into).is_some());
            if number % 100 == 99 {
                while waiting.pop(&mut into).is_some() {}
            }
        }
        assert!(waiting.bytes.capacity() <= 4 * WAITING_BYTES_MAX);
    }
}
