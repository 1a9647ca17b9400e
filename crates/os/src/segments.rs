//! Datagrams that leave as one: the control block of their message (UDP_SEGMENT), and the number that may go together.
//!
//! Invariant: a run has datagrams of one length, of which only the last may be shorter, and is no longer than one
//! datagram may be.

/// The most datagrams that the kernel makes of one message (UDP_MAX_SEGMENTS).
pub(crate) const SEGMENTS_MAX: usize = 64;
/// The most bytes of one message: the longest datagram there is, without its headers.
const RUN_BYTES_MAX: usize = 65_507;

const WORD: usize = size_of::<usize>();

/// A control block: length, level, type and one number, which is the length of the datagrams of a run.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control([u8; 24]);

impl Control {
    /// An empty block.
    pub(crate) const EMPTY: Self = Self([0; 24]);

    /// States that datagrams of this many bytes are sent as one.
    pub(crate) fn of_segments(bytes: u16) -> Self {
        let mut control = Self::EMPTY;
        let block = &mut control.0;
        block[..WORD].copy_from_slice(&(WORD + 8 + 2).to_ne_bytes());
        block[WORD..WORD + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        block[WORD + 4..WORD + 8].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        block[WORD + 8..WORD + 10].copy_from_slice(&bytes.to_ne_bytes());
        control
    }
}

/// The number of datagrams from the first on that may go as one, by their lengths: at least 1 if there is one.
pub(crate) fn run_len(lengths: impl IntoIterator<Item = usize>) -> usize {
    let mut lengths = lengths.into_iter();
    let Some(first) = lengths.next() else { return 0 };
    let (mut count, mut bytes) = (1, first);
    for next in lengths {
        let fits = (1..=first).contains(&next) && bytes + next <= RUN_BYTES_MAX;
        if !fits || count == SEGMENTS_MAX {
            break;
        }
        (count, bytes) = (count + 1, bytes + next);
        if next < first {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run ends after a shorter datagram, and before a longer one, an empty one, and one that would exceed a limit.
    #[test]
    fn runs_are_what_the_kernel_splits_alike() {
        assert_eq!(run_len([50, 50, 9, 9]), 3);
        assert_eq!(run_len([9, 50, 50]), 1);
        assert_eq!(run_len([50, 50]), 2);
        assert_eq!(run_len([50, 0]), 1);
        assert_eq!(run_len([0, 0]), 1);
        assert_eq!(run_len([50; 100]), SEGMENTS_MAX);
        assert_eq!(run_len([1_400; 100]), 46);
        assert_eq!(run_len([65_507, 1]), 1);
        assert_eq!(run_len([]), 0);
    }
}
