//! The window of a ladder: the levels around the market, each at its own place in an array.
//!
//! A bitmap of two layers says which levels have orders: the best one is found with two counts of
//! zero bits, wherever in the window it is.

use alloc::vec::Vec;

use super::level::Level;

/// The most levels a window has: one bit in the summary for each word of 64 levels.
pub(crate) const WINDOW_LEN_MAX: usize = 64 * 64;

/// Levels of the ranks from `base` to `base + len - 1`.
#[derive(Debug, Default)]
pub(crate) struct Window {
    base: u32,
    /// By rank less base. The length is 0 or a multiple of 64.
    levels: Vec<Level>,
    /// A bit for each level: 1 if it has orders.
    occupied: Vec<u64>,
    /// A bit for each word of `occupied`: 1 if it is not 0.
    summary: u64,
    level_count: usize,
}

impl Window {
    /// How many levels it has room for.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// How many levels have orders.
    pub(crate) fn level_count(&self) -> usize {
        self.level_count
    }

    /// The lowest rank that it covers.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Where a rank is, if it is covered.
    #[inline]
    pub(crate) fn position(&self, rank: u32) -> Option<usize> {
        let position = rank.wrapping_sub(self.base) as usize;
        (position < self.levels.len()).then_some(position)
    }

    /// The least rank whose level has orders.
    pub(crate) fn first_rank(&self) -> Option<u32> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros() as usize;
        Some(self.base + (word * 64) as u32 + self.occupied[word].trailing_zeros())
    }

    /// The first level with orders whose rank is not below `rank`.
    pub(crate) fn at_or_after(&self, rank: u32) -> Option<(u32, Level)> {
        let from = rank.saturating_sub(self.base) as usize;
        self.next_position(from).map(|position| self.at(position))
    }

    /// The level at a position.
    #[inline]
    pub(crate) fn level(&self, position: usize) -> Level {
        self.levels[position]
    }

    /// The level at a position, to change. One that gets its first order is then to be
    /// [`fill`](Self::fill)ed, one that loses its last [`vacate`](Self::vacate)d.
    #[inline]
    pub(crate) fn level_mut(&mut self, position: usize) -> &mut Level {
        &mut self.levels[position]
    }

    /// Notes that the level at a position has orders now.
    #[inline]
    pub(crate) fn fill(&mut self, position: usize) {
        let word = position / 64;
        self.occupied[word] |= 1 << (position % 64);
        self.summary |= 1 << word;
        self.level_count += 1;
    }

    /// Notes that the level at a position has no orders any more.
    #[inline]
    pub(crate) fn vacate(&mut self, position: usize) {
        let word = position / 64;
        self.occupied[word] &= !(1 << (position % 64));
        if self.occupied[word] == 0 {
            self.summary &= !(1 << word);
        }
        self.level_count -= 1;
    }

    /// Covers `len` levels from `base` on; those that are covered no more go to `leave`. It never
    /// covers fewer levels than before.
    pub(crate) fn move_to(&mut self, base: u32, len: usize, mut leave: impl FnMut(u32, Level)) {
        assert!(self.len() <= len && len <= WINDOW_LEN_MAX && len.is_multiple_of(64), "{len}");
        self.levels.resize(len, Level::EMPTY);
        self.occupied.resize(len / 64, 0);

        // Levels go one by one to places already left, so up when the base goes down.
        let before = core::mem::replace(&mut self.base, base);
        let upward = base < before;
        let mut next = if upward { self.last_position() } else { self.next_position(0) };
        while let Some(position) = next {
            let level = core::mem::replace(&mut self.levels[position], Level::EMPTY);
            self.vacate(position);
            let rank = before + position as u32;
            match self.position(rank) {
                Some(moved) => {
                    self.levels[moved] = level;
                    self.fill(moved);
                }
                None => leave(rank, level),
            }
            next = match upward {
                true if position == 0 => None,
                true => self.position_before(position),
                false => self.next_position(position + 1),
            };
        }
    }

    /// Asserts that bitmap, count and levels agree.
    pub(crate) fn check(&self) {
        let mut level_count = 0;
        for (position, level) in self.levels.iter().enumerate() {
            let marked = self.occupied[position / 64] >> (position % 64) & 1 == 1;
            assert_eq!(marked, !level.is_empty(), "position {position}");
            level_count += usize::from(marked);
        }
        assert_eq!(level_count, self.level_count);
        for (word, bits) in self.occupied.iter().enumerate() {
            assert_eq!(self.summary >> word & 1 == 1, *bits != 0, "word {word}");
        }
    }

    fn at(&self, position: usize) -> (u32, Level) {
        (self.base + position as u32, self.levels[position])
    }

    /// The first occupied position that is not below `from`.
    fn next_position(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let bits = *self.occupied.get(word)? & (!0 << (from % 64));
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        let later = self.summary & (!0_u64).checked_shl(word as u32 + 1).unwrap_or(0);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// The last occupied position below `end`, which is not 0.
    fn position_before(&self, end: usize) -> Option<usize> {
        let last = end - 1;
        let word = last / 64;
        let bits = self.occupied[word] & (!0 >> (63 - last % 64));
        if bits != 0 {
            return Some(word * 64 + 63 - bits.leading_zeros() as usize);
        }
        let earlier = self.summary & !(!0 << word);
        if earlier == 0 {
            return None;
        }
        let word = 63 - earlier.leading_zeros() as usize;
        Some(word * 64 + 63 - self.occupied[word].leading_zeros() as usize)
    }

    fn last_position(&self) -> Option<usize> {
        if self.levels.is_empty() { None } else { self.position_before(self.levels.len()) }
    }
}
