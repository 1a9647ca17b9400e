//! Numbered streams of messages in memory, kept so that they can be sent again.
//!
//! Invariant: a message that is kept is found by its number, byte for byte; the newest of each stream is always kept;
//! the memory stays near its bound.

use std::collections::VecDeque;

use crate::streams::MessageStore;

/// Bytes of one chunk, which is the unit in which memory is taken and given back.
const CHUNK_BYTES: usize = 64 * 1024;
/// Messages whose places one index block holds.
const BLOCK_MESSAGES: usize = 4096;
/// Bytes of one index block.
const BLOCK_BYTES: usize = BLOCK_MESSAGES * size_of::<u32>();
/// Bytes of the length before each message: big-endian, so that messages lie as blocks of MoldUDP64.
const LENGTH_BYTES: usize = size_of::<u16>();
/// Bytes that a stream always keeps: the chunk being written, the one before it, and their index.
const STREAM_BYTES_MIN: usize = 2 * (CHUNK_BYTES + BLOCK_BYTES);

/// Streams of numbered messages, kept in memory so that they can be sent again.
///
/// Each stream numbers its messages from 1. All of them share one bound in bytes: where it is reached, the stream that
/// holds most drops its oldest messages. A message is found by its number in constant time, and memory is taken and
/// reused in chunks, so that a message costs one copy.
#[derive(Clone, Debug)]
pub struct ReplayStore {
    streams: Vec<Stream>,
    bytes: usize,
    bytes_max: usize,
    /// Chunks dropped by a stream, to be reused.
    spare: Vec<Box<[u8]>>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    /// Number of the oldest message kept; `next` if none is.
    first: u64,
    /// Number the next message gets.
    next: u64,
    chunks: VecDeque<Chunk>,
    /// The oldest chunk is the `chunk_first`th the stream has had, from 0.
    chunk_first: u64,
    /// Places of the messages, `BLOCK_MESSAGES` a block; the oldest may no longer be kept.
    blocks: VecDeque<Box<[u32]>>,
    /// Number of the first message of the oldest block.
    block_first: u64,
}

#[derive(Clone, Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    written: usize,
    /// Number of its first message.
    first: u64,
}

/// A message that a stream does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It was dropped to make room; has the number of the oldest kept.
    Dropped(u64),
    /// It does not exist yet; has the number of the next message.
    Future(u64),
}

impl ReplayStore {
    /// For `stream_count` streams in about `bytes_max` bytes, index included. Every stream keeps
    /// some 128 KiB of its newest messages whatever the bound, and takes them only when it has
    /// messages.
    ///
    /// # Panics
    /// The bound is above 2 GiB.
    #[must_use]
    pub fn new(stream_count: usize, bytes_max: usize) -> Self {
        assert!(bytes_max <= 2 << 30, "places are kept in 32 bits");
        let streams = (0..stream_count).map(|_| Stream::new()).collect();
        Self {
            streams,
            bytes: 0,
            bytes_max: bytes_max.max(stream_count * STREAM_BYTES_MIN),
            spare: Vec::new(),
        }
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Lets a stream that never had a message begin with this number: those before it count as dropped.
    ///
    /// # Panics
    /// The stream had a message, or the number is 0.
    pub(crate) fn begin_at(&mut self, stream: usize, number: u64) {
        let stream = &mut self.streams[stream];
        assert!(stream.next == 1 && stream.chunks.is_empty(), "the stream has begun");
        assert!(number > 0, "messages are numbered from 1");
        *stream = Stream { first: number, next: number, block_first: number, ..Stream::new() };
    }

    /// Copies the messages of a stream, under the same numbers, into a stream of another store that
    /// has had no message.
    pub(crate) fn copy(&self, stream: usize, to: &mut Self, to_stream: usize) {
        to.begin_at(to_stream, self.first(stream));
        for number in self.first(stream)..self.next(stream) {
            to.push(to_stream, self.get(stream, number).expect("it is kept"));
        }
    }

    /// Appends a message to a stream and returns its number.
    ///
    /// # Panics
    /// There is no such stream, or the message is longer than 65,534 bytes.
    pub fn push(&mut self, stream: usize, message: &[u8]) -> u64 {
        assert!(message.len() <= CHUNK_BYTES - LENGTH_BYTES, "{} bytes", message.len());
        if !self.streams[stream].has_room(message.len()) {
            self.bytes += CHUNK_BYTES;
            self.give_up();
            let chunk = self.spare.pop().unwrap_or_else(|| vec![0; CHUNK_BYTES].into_boxed_slice());
            self.streams[stream].add_chunk(chunk);
        }
        let stream = &mut self.streams[stream];
        if stream.next == stream.block_first + (stream.blocks.len() * BLOCK_MESSAGES) as u64 {
            self.bytes += BLOCK_BYTES;
            stream.blocks.push_back(vec![0; BLOCK_MESSAGES].into_boxed_slice());
        }
        stream.push(message)
    }

    /// A message by its number.
    ///
    /// # Errors
    /// It is not there any longer, or not yet.
    ///
    /// # Panics
    /// There is no such stream.
    pub fn get(&self, stream: usize, number: u64) -> Result<&[u8], Missing> {
        let stream = &self.streams[stream];
        if number >= stream.next {
            return Err(Missing::Future(stream.next));
        }
        if number < stream.first {
            return Err(Missing::Dropped(stream.first));
        }
        Ok(stream.message(number))
    }

    /// Messages from number `first` on as they lie in memory, side by side, each after its length in two bytes,
    /// big-endian: as many as fit `bytes_max` bytes, at least 1; and their number.
    ///
    /// # Errors
    /// The first is not there any longer, or not yet.
    ///
    /// # Panics
    /// There is no such stream, or the first message does not fit.
    pub(crate) fn run(
        &self,
        stream: usize,
        first: u64,
        bytes_max: usize,
    ) -> Result<(u16, &[u8]), Missing> {
        let stream = &self.streams[stream];
        if first >= stream.next {
            return Err(Missing::Future(stream.next));
        }
        if first < stream.first {
            return Err(Missing::Dropped(stream.first));
        }
        let (count, bytes) = stream.run(first, bytes_max);
        assert!(count > 0, "message {first} does not fit {bytes_max} bytes");
        Ok((count, bytes))
    }

    /// Number of the oldest message a stream still has; that of the next if it has none.
    #[must_use]
    pub fn first(&self, stream: usize) -> u64 {
        self.streams[stream].first
    }

    /// Number the next message of a stream gets.
    #[must_use]
    pub fn next(&self, stream: usize) -> u64 {
        self.streams[stream].next
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Brings `bytes` back under the bound: the stream with the most chunks drops its oldest.
    fn give_up(&mut self) {
        while self.bytes > self.bytes_max {
            let largest = self
                .streams
                .iter_mut()
                .max_by_key(|stream| stream.chunks.len())
                .expect("a stream asks for the room");
            // The bound leaves two chunks to each stream, so where it is exceeded one has three;
            // or one has two and is about to take a third.
            let Some((chunk, block_count)) = largest.drop_oldest() else { return };
            self.bytes -= CHUNK_BYTES + block_count * BLOCK_BYTES;
            self.spare.push(chunk);
        }
    }
}

impl MessageStore for ReplayStore {
    fn ensure_stream(&mut self, stream: usize) {
        while self.streams.len() <= stream {
            self.streams.push(Stream::new());
        }
        self.bytes_max = self.bytes_max.max(self.streams.len() * STREAM_BYTES_MIN);
    }

    fn push(&mut self, stream: usize, message: &[u8]) {
        Self::push(self, stream, message);
    }
}

impl Stream {
    fn new() -> Self {
        Self { first: 1, next: 1, block_first: 1, ..Self::default() }
    }

    fn has_room(&self, message_bytes: usize) -> bool {
        self.chunks
            .back()
            .is_some_and(|chunk| chunk.written + LENGTH_BYTES + message_bytes <= CHUNK_BYTES)
    }

    fn add_chunk(&mut self, bytes: Box<[u8]>) {
        self.chunks.push_back(Chunk { bytes, written: 0, first: self.next });
    }

    fn push(&mut self, message: &[u8]) -> u64 {
        let number = self.next;
        let chunk_number = self.chunk_first + self.chunks.len() as u64 - 1;
        let chunk = self.chunks.back_mut().expect("room was made");
        let start = chunk.written;
        let (length, text) = chunk.bytes[start..].split_at_mut(LENGTH_BYTES);
        length.copy_from_slice(&(message.len() as u16).to_be_bytes());
        text[..message.len()].copy_from_slice(message);
        chunk.written += LENGTH_BYTES + message.len();

        // The low 32 bits of chunk and offset: enough, because less than 4 GiB are kept.
        let place = (chunk_number * CHUNK_BYTES as u64 + start as u64) as u32;
        let at = (number - self.block_first) as usize;
        self.blocks[at / BLOCK_MESSAGES][at % BLOCK_MESSAGES] = place;
        self.next += 1;
        number
    }

    fn message(&self, number: u64) -> &[u8] {
        let bytes = self.bytes_from(number);
        let (length, text) = bytes.split_at(LENGTH_BYTES);
        &text[..usize::from(u16::from_be_bytes([length[0], length[1]]))]
    }

    fn run(&self, first: u64, bytes_max: usize) -> (u16, &[u8]) {
        let bytes = self.bytes_from(first);
        let (mut end, mut count) = (0, 0);
        while count < u16::MAX - 1
            && let Some(length) = bytes[end..].first_chunk::<LENGTH_BYTES>()
        {
            let next = end + LENGTH_BYTES + usize::from(u16::from_be_bytes(*length));
            if next > bytes_max {
                break;
            }
            (end, count) = (next, count + 1);
        }
        (count, &bytes[..end])
    }

    /// The rest of a chunk, from a message on.
    fn bytes_from(&self, number: u64) -> &[u8] {
        let at = (number - self.block_first) as usize;
        let place = self.blocks[at / BLOCK_MESSAGES][at % BLOCK_MESSAGES];
        let oldest = (self.chunk_first * CHUNK_BYTES as u64) as u32;
        let offset = place.wrapping_sub(oldest) as usize;
        let chunk = &self.chunks[offset / CHUNK_BYTES];
        &chunk.bytes[offset % CHUNK_BYTES..chunk.written]
    }

    /// Drops the oldest chunk, unless it is the one being written, with the index blocks that only it needed; returns
    /// the number of those blocks.
    fn drop_oldest(&mut self) -> Option<(Box<[u8]>, usize)> {
        let first = self.chunks.get(1)?.first;
        let chunk = self.chunks.pop_front()?;
        self.chunk_first += 1;
        self.first = first;
        let block_count = (first - self.block_first) as usize / BLOCK_MESSAGES;
        self.blocks.drain(..block_count);
        self.block_first += (block_count * BLOCK_MESSAGES) as u64;
        Some((chunk.bytes, block_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stream: usize, number: u64) -> Vec<u8> {
        let len = (number as usize * 7 + stream * 13) % 120;
        (0..len).map(|at| (at as u64 + number) as u8).collect()
    }

    /// Every message that is kept is found by its number, byte for byte.
    #[test]
    fn messages_are_found_by_number() {
        let mut store = ReplayStore::new(3, 64 << 20);
        for number in 1..=30_000 {
            for stream in 0..3 {
                assert_eq!(store.push(stream, &message(stream, number)), number);
            }
        }
        for stream in 0..3 {
            assert_eq!((store.first(stream), store.next(stream)), (1, 30_001));
            for number in 1..=30_000 {
                assert_eq!(store.get(stream, number), Ok(&*message(stream, number)));
            }
            assert_eq!(store.get(stream, 0), Err(Missing::Dropped(1)));
            assert_eq!(store.get(stream, 30_001), Err(Missing::Future(30_001)));
        }
    }

    /// Runs have every message once, each after its length, and fit.
    #[test]
    fn runs_are_the_messages_side_by_side() {
        let mut store = ReplayStore::new(2, 64 << 20);
        for number in 1..=5_000 {
            for stream in 0..2 {
                store.push(stream, &message(stream, number));
            }
        }
        for (stream, bytes_max) in [(0, 122), (0, 1_380), (1, 1_000_000)] {
            let mut next = 1;
            while next <= 5_000 {
                let (count, bytes) = store.run(stream, next, bytes_max).unwrap();
                let mut expected = Vec::new();
                for number in next..next + u64::from(count) {
                    let message = message(stream, number);
                    expected.extend((message.len() as u16).to_be_bytes());
                    expected.extend(message);
                }
                assert!(0 < count && bytes.len() <= bytes_max && bytes == expected);
                next += u64::from(count);
            }
            assert_eq!(next, 5_001);
            assert_eq!(store.run(stream, next, bytes_max), Err(Missing::Future(5_001)));
            assert_eq!(store.run(stream, 0, bytes_max), Err(Missing::Dropped(1)));
        }
    }

    /// At the bound the largest stream loses its oldest, and the small one nothing.
    #[test]
    fn the_largest_stream_gives_up_its_oldest() {
        let mut store = ReplayStore::new(2, 1 << 20);
        for number in 1..=10 {
            store.push(0, &message(0, number));
        }
        for number in 1..=200_000 {
            store.push(1, &message(1, number));
            assert!(store.bytes() <= (1 << 20) + BLOCK_BYTES, "{}", store.bytes());
        }
        assert_eq!(store.first(0), 1);
        let first = store.first(1);
        assert!(1 < first && first < 200_000);
        assert_eq!(store.get(1, first - 1), Err(Missing::Dropped(first)));
        for number in first..=200_000 {
            assert_eq!(store.get(1, number), Ok(&*message(1, number)));
        }
    }

    /// Places stay right after more than 4 GiB have gone through a stream.
    #[test]
    fn places_wrap_around() {
        let mut store = ReplayStore::new(1, 1 << 20);
        let long = vec![7; CHUNK_BYTES - LENGTH_BYTES];
        for number in 1..=70_000_u64 {
            // One message a chunk; only the first bytes tell them apart.
            let mut start = long[..16].to_vec();
            start[..8].copy_from_slice(&number.to_le_bytes());
            store.push(0, if number % 100 == 0 { &start } else { &long });
            if number % 100 == 0 {
                assert_eq!(store.get(0, number), Ok(&*start));
                assert_eq!(store.get(0, number - 1).map(<[u8]>::len), Ok(long.len()));
            }
        }
    }

    /// However small the bound, a stream keeps the messages just written to it.
    #[test]
    fn the_newest_is_always_kept() {
        let mut store = ReplayStore::new(4, 0);
        for number in 1..=20_000 {
            for stream in 0..4 {
                store.push(stream, &message(stream, number));
                assert_eq!(store.get(stream, number), Ok(&*message(stream, number)));
            }
        }
        assert!(store.bytes() <= 4 * (STREAM_BYTES_MIN + BLOCK_BYTES), "{}", store.bytes());
    }
}
