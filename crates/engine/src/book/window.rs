//! The window of a ladder: the levels near the market, each indexed by its rank. Invariant: the
//! bits of a strip say exactly which of its levels have orders.
//!
//! Ranks are grouped by 64 into strips, which form a ring: following the market moves only the
//! levels of strips that enter or leave. A strip has one bit for each level, and blocks of 16
//! levels, allocated only while one of them has orders. So an empty price range takes less than a
//! byte for each price, and three counts of zero bits find the next level with orders anywhere in
//! the window.

use alloc::{boxed::Box, vec, vec::Vec};

use super::level::Level;

/// Ranks in a strip, one for each bit of a word.
pub(crate) const STRIP_LEN: u32 = 64;

/// The most strips of a window: a million ranks. Allocating twice as many takes about 100 µs.
pub(crate) const STRIPS_MAX: usize = 256 * 64;

/// Levels in a block: 128 bytes.
const BLOCK_LEN: usize = 16;

/// Blocks in a strip.
const BLOCKS: usize = STRIP_LEN as usize / BLOCK_LEN;

/// The bits of the first block's levels.
const BLOCK_BITS: u64 = (1 << BLOCK_LEN) - 1;

/// A block of adjacent levels.
#[derive(Debug)]
struct Block(Box<Levels>);

/// Two cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Levels([Level; BLOCK_LEN]);

const _: () = assert!(size_of::<Levels>() == 128);

/// The levels of the strips from `first` to `first + covered - 1`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Window {
    /// The strip of a rank is the rank divided by [`STRIP_LEN`].
    first: u32,
    covered: u32,
    /// Strips by number modulo the length, which is 0 or a power of two.
    strips: Vec<Strip>,
    /// One bit for each word of `summary`: 1 if the word is not 0.
    top: Vec<u64>,
    level_count: u32,
    /// Number of blocks, spare ones included.
    block_count: u32,
    /// One bit for each of `strips`: 1 if it has orders.
    summary: Vec<u64>,
    /// Blocks without orders, for reuse.
    spare: Vec<Block>,
}

/// A strip of adjacent ranks.
#[derive(Debug, Default)]
#[repr(C)]
struct Strip {
    /// One bit for each level: 1 if it has orders.
    occupied: u64,
    /// Each block exists while one of its levels has orders.
    blocks: [Option<Block>; BLOCKS],
}

market::assert_layout! {
    Window, 112 {
        first: 0, covered: 4, strips: 8, top: 32, level_count: 56, block_count: 60, summary: 64, spare: 88,
    }
}
market::assert_layout! {
    Strip, 40 { occupied: 0, blocks: 8 }
}

impl Window {
    /// Capacity in strips.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.strips.len()
    }

    /// Number of levels with orders.
    pub(crate) fn level_count(&self) -> usize {
        self.level_count as usize
    }

    /// The first covered strip.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The strip after the last covered one.
    pub(crate) fn end(&self) -> u32 {
        self.first + self.covered
    }

    #[inline]
    pub(crate) fn covers(&self, rank: u32) -> bool {
        (rank / STRIP_LEN).wrapping_sub(self.first) < self.covered
    }

    /// The level of a covered rank with orders.
    #[inline]
    pub(crate) fn level_mut(&mut self, rank: u32) -> &mut Level {
        let strip = self.strip(rank / STRIP_LEN);
        let block = self.strips[strip].blocks[block(rank)].as_mut();
        &mut block.expect("a level with orders is in a block").0.0[place(rank)]
    }

    /// The level of a covered rank with orders, mutable.
    #[inline]
    pub(crate) fn level(&self, rank: u32) -> Level {
        let strip = self.strip(rank / STRIP_LEN);
        let block = self.strips[strip].blocks[block(rank)].as_ref();
        block.expect("a level with orders is in a block").0.0[place(rank)]
    }

    /// The level of a rank that is covered and in a block, with or without orders. The caller must
    /// [`fill`](Self::fill) a level that gets its first order, and [`vacate`](Self::vacate) one
    /// that loses its last.
    #[inline(always)]
    pub(crate) fn level_in_block_mut(&mut self, rank: u32) -> Option<&mut Level> {
        if !self.covers(rank) {
            return None;
        }
        let strip = self.strip(rank / STRIP_LEN);
        let block = self.strips[strip].blocks[block(rank)].as_mut()?;
        Some(&mut block.0.0[place(rank)])
    }

    /// The level of a rank that is covered and in a block, with or without orders.
    #[inline]
    pub(crate) fn level_in_block(&self, rank: u32) -> Option<&Level> {
        if !self.covers(rank) {
            return None;
        }
        let strip = self.strip(rank / STRIP_LEN);
        let block = self.strips[strip].blocks[block(rank)].as_ref()?;
        Some(&block.0.0[place(rank)])
    }

    /// Adds the block of a covered rank that has none.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_block(&mut self, rank: u32) {
        let Self { strips, spare, block_count, .. } = self;
        let added = spare.pop().unwrap_or_else(|| {
            *block_count += 1;
            // Capacity for every block, so that freeing one never allocates.
            spare.reserve(*block_count as usize);
            Block(Box::new(Levels([Level::EMPTY; BLOCK_LEN])))
        });
        let strip = (rank / STRIP_LEN) as usize & strips.len().wrapping_sub(1);
        let place = &mut strips[strip].blocks[block(rank)];
        assert!(place.is_none(), "rank {rank} is in a block");
        *place = Some(added);
    }

    /// Marks the level of a rank as having orders.
    #[inline]
    pub(crate) fn fill(&mut self, rank: u32) {
        let strip = self.strip(rank / STRIP_LEN);
        let occupied = &mut self.strips[strip].occupied;
        let was_empty = *occupied == 0;
        *occupied |= 1 << (rank % STRIP_LEN);
        if was_empty {
            self.mark(strip);
        }
        self.level_count += 1;
    }

    /// Marks the level of a rank as empty.
    #[inline]
    pub(crate) fn vacate(&mut self, rank: u32) {
        let index = self.strip(rank / STRIP_LEN);
        let strip = &mut self.strips[index];
        strip.occupied &= !(1 << (rank % STRIP_LEN));
        let block = block(rank);
        if strip.occupied >> (BLOCK_LEN * block) & BLOCK_BITS == 0 {
            self.spare.extend(strip.blocks[block].take());
        }
        if strip.occupied == 0 {
            let word = &mut self.summary[index / 64];
            *word &= !(1 << (index % 64));
            if *word == 0 {
                self.top[index / 4096] &= !(1 << (index / 64 % 64));
            }
        }
        self.level_count -= 1;
    }

    /// The lowest rank with orders, at or after `rank`.
    #[inline]
    pub(crate) fn rank_at_or_after(&self, rank: u32) -> Option<u32> {
        let from = rank.max(self.first * STRIP_LEN);
        let number = from / STRIP_LEN;
        if number.wrapping_sub(self.first) >= self.covered {
            return None;
        }
        let bits = self.strips[self.strip(number)].occupied & (!0 << (from % STRIP_LEN));
        if bits != 0 {
            return Some(number * STRIP_LEN + bits.trailing_zeros());
        }
        let number = self.strip_at_or_after(number + 1)?;
        let bits = self.strips[self.strip(number)].occupied;
        Some(number * STRIP_LEN + bits.trailing_zeros())
    }

    /// The first strip with orders, at or after `number`.
    pub(crate) fn strip_at_or_after(&self, number: u32) -> Option<u32> {
        let number = number.max(self.first);
        if self.level_count == 0 || number.wrapping_sub(self.first) >= self.covered {
            return None;
        }
        let from = self.strip(number);
        let found = self.index_at_or_after(from).or_else(|| self.index_at_or_after(0))?;
        // Strips form a ring, so one found before `from` comes after all those behind it.
        let number = number + self.distance(from, found);
        (number - self.first < self.covered).then_some(number)
    }

    /// The last strip with orders.
    pub(crate) fn strip_last(&self) -> Option<u32> {
        if self.level_count == 0 {
            return None;
        }
        let last = self.strip(self.end() - 1);
        let found =
            self.index_at_or_before(last).or_else(|| self.index_at_or_before(self.len() - 1))?;
        Some(self.end() - 1 - self.distance(found, last))
    }

    /// Grows the capacity to `len` strips; no level moves.
    pub(crate) fn grow(&mut self, len: usize) {
        assert!(self.len() <= len && len <= STRIPS_MAX && len.is_power_of_two(), "{len} strips");
        let strips = (0..len).map(|_| Strip::default()).collect();
        let before = core::mem::replace(&mut self.strips, strips);
        self.summary = vec![0; len.div_ceil(64)];
        self.top = vec![0; len.div_ceil(64 * 64)];
        let mask = before.len().wrapping_sub(1);
        let mut before = before;
        for number in self.first..self.end() {
            let moved = core::mem::take(&mut before[number as usize & mask]);
            let index = self.strip(number);
            if moved.occupied != 0 {
                self.mark(index);
            }
            self.strips[index] = moved;
        }
    }

    /// Covers the strips from `first` to `end - 1`. Only strips that were covered before may have
    /// orders.
    pub(crate) fn cover(&mut self, first: u32, end: u32) {
        assert!(first <= end && (end - first) as usize <= self.len(), "{first} to {end}");
        self.first = first;
        self.covered = end - first;
    }

    /// Removes and returns the levels of a strip.
    pub(crate) fn clear(&mut self, number: u32, mut leave: impl FnMut(u32, Level)) {
        let index = self.strip(number);
        while self.strips[index].occupied != 0 {
            let rank = number * STRIP_LEN + self.strips[index].occupied.trailing_zeros();
            let level = core::mem::replace(self.level_mut(rank), Level::EMPTY);
            self.vacate(rank);
            leave(rank, level);
        }
    }

    /// Memory allocated, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.strips.capacity() * size_of::<Strip>()
            + (self.summary.capacity() + self.top.capacity()) * size_of::<u64>()
            + self.block_count as usize * size_of::<Levels>()
            + self.spare.capacity() * size_of::<Block>()
    }

    /// Checks that bits, counts and levels agree.
    pub(crate) fn check(&self) {
        assert!(self.covered as usize <= self.len());
        let mut level_count = 0;
        let mut block_count = self.spare.len();
        for (index, strip) in self.strips.iter().enumerate() {
            assert_eq!(self.summary[index / 64] >> (index % 64) & 1 == 1, strip.occupied != 0);
            level_count += strip.occupied.count_ones();
            let number = self.first + self.distance(self.strip(self.first), index);
            assert!(strip.occupied == 0 || number < self.end(), "strip {number} is not covered");
            for (at, block) in strip.blocks.iter().enumerate() {
                let bits = strip.occupied >> (BLOCK_LEN * at) & BLOCK_BITS;
                assert_eq!(block.is_some(), bits != 0, "strip {number}, block {at}");
                block_count += usize::from(block.is_some());
                for (place, level) in block.iter().flat_map(|block| block.0.0.iter()).enumerate() {
                    assert_eq!(bits >> place & 1 == 0, level.is_empty());
                }
            }
        }
        assert_eq!(level_count, self.level_count);
        assert_eq!(block_count, self.block_count as usize);
        for (word, bits) in self.summary.iter().enumerate() {
            let marked = self.top[word / 64] >> (word % 64) & 1 == 1;
            assert_eq!(marked, *bits != 0, "word {word}");
        }
    }

    /// The index of a strip.
    #[inline]
    fn strip(&self, number: u32) -> usize {
        number as usize & self.strips.len().wrapping_sub(1)
    }

    /// The distance from strip `from` to `to` in the ring.
    fn distance(&self, from: usize, to: usize) -> u32 {
        (to.wrapping_sub(from) & self.strips.len().wrapping_sub(1)) as u32
    }

    /// Marks a strip as having orders.
    #[inline]
    fn mark(&mut self, index: usize) {
        self.summary[index / 64] |= 1 << (index % 64);
        self.top[index / 4096] |= 1 << (index / 64 % 64);
    }

    fn index_at_or_after(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.summary[word] & (!0 << (from % 64));
        if bits == 0 {
            word = at_or_after(&self.top, word + 1)?;
            bits = self.summary[word];
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn index_at_or_before(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.summary[word] & (!0 >> (63 - from % 64));
        if bits == 0 {
            word = before(&self.top, word)?;
            bits = self.summary[word];
        }
        Some(word * 64 + 63 - bits.leading_zeros() as usize)
    }
}

/// The first 1 bit at or after a position.
fn at_or_after(words: &[u64], from: usize) -> Option<usize> {
    let mut word = from / 64;
    let mut bits = *words.get(word)? & (!0 << (from % 64));
    while bits == 0 {
        word += 1;
        bits = *words.get(word)?;
    }
    Some(word * 64 + bits.trailing_zeros() as usize)
}

/// The last 1 bit before a position.
fn before(words: &[u64], end: usize) -> Option<usize> {
    let last = end.checked_sub(1)?;
    let mut word = last / 64;
    let mut bits = words[word] & (!0 >> (63 - last % 64));
    while bits == 0 {
        word = word.checked_sub(1)?;
        bits = words[word];
    }
    Some(word * 64 + 63 - bits.leading_zeros() as usize)
}

/// The block of a rank within its strip.
#[inline]
fn block(rank: u32) -> usize {
    rank as usize / BLOCK_LEN % BLOCKS
}

/// The index of a rank within its block.
#[inline]
fn place(rank: u32) -> usize {
    rank as usize % BLOCK_LEN
}
