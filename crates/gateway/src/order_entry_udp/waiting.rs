//! The datagrams of one session that wait for its turn.
//!
//! Invariant: they take at most 512 KiB, and come out whole, in order, with the time at which they came in.

use std::collections::VecDeque;

use market::Timestamp;

/// Bytes that may wait, with [`HEAD_BYTES`] for each datagram: some 8,000 with one order each.
const WAITING_BYTES_MAX: usize = 512 << 10;
/// Length and time of a datagram.
const HEAD_BYTES: usize = 2 + 8;

#[derive(Default)]
pub(super) struct Waiting {
    bytes: VecDeque<u8>,
    /// Datagrams of the session that were taken in this turn.
    pub(super) taken: usize,
    /// Its requests for earlier replies that are answered in this turn.
    pub(super) answered: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keeps a datagram; false if there is no room for it.
    pub(super) fn push(&mut self, received: Timestamp, datagram: &[u8]) -> bool {
        let Ok(length) = u16::try_from(datagram.len()) else { return false };
        if self.bytes.len() + HEAD_BYTES + datagram.len() > WAITING_BYTES_MAX {
            return false;
        }
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(received.0.to_le_bytes());
        self.bytes.extend(datagram);
        true
    }

    /// Puts the oldest datagram into `into`, in place of what is there; when it came in.
    pub(super) fn pop(&mut self, into: &mut Vec<u8>) -> Option<Timestamp> {
        let length = usize::from(u16::from_le_bytes(self.head()?));
        let received = u64::from_le_bytes(self.head().expect("the time follows the length"));
        into.clear();
        into.extend(self.bytes.drain(..length));
        Some(Timestamp(received))
    }

    fn head<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut head = [0; N];
        for byte in &mut head {
            *byte = self.bytes.pop_front()?;
        }
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept comes out as it came in; what does not fit is refused, and fits again after that.
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
    }
}
