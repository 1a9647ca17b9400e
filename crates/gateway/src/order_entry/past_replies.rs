//! Older messages of sessions, one page at a time, from a reader of the journal on another thread.
//!
//! Invariant: memory is bounded by two pages, one being sent while the next is read; sessions get pages by turns; the
//! gateway never waits for the disk.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use market::{Output, Text};
use ring::{Builder, Consumer, Flow, Parker, Producer, ThreadParker, Unparker};
use wire::fix::BUILDER_LEN_MAX;

use crate::{
    message_archive::MessageArchive,
    replay_store::{Missing, ReplayStore},
    streams::ReplyStreams,
};

/// Messages in a page: 4 MiB of the longest messages, 1 MiB of plain reports.
const PAGE_MESSAGES: u64 = 4096;
const PAGES: usize = 2;
/// The most bytes of messages in one block.
pub const PAST_BLOCK_LEN: usize = 32 << 10;
/// Blocks of both sides together: 512 KiB.
const BLOCK_SLOTS: usize = 16;
/// Blocks that the gateway takes in a turn: more than it may send in one.
const BLOCKS_PER_TURN: usize = 1;
/// Bytes of the length before each message: big-endian, as in a [`ReplayStore`].
const LENGTH_BYTES: usize = 2;
/// Bytes of messages that a reader keeps: more than the messages of one input.
const READER_BYTES: usize = 16 << 20;
/// The most bytes of two pages, with the places of their messages, and of the blocks in transit.
pub const PAST_REPLIES_BYTES_MAX: usize =
    PAGES * PAGE_MESSAGES as usize * (LENGTH_BYTES + BUILDER_LEN_MAX + size_of::<u32>())
        + BLOCK_SLOTS * size_of::<PastReplyAnswer>();

/// The messages `first` to `end` of a session's stream, to be read from the journal; `end` is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastReplyRange {
    pub username: Text<6>,
    pub first: u64,
    pub end: u64,
}

/// Consecutive messages of a session, each after its length in two bytes, big-endian.
#[derive(Clone, Copy)]
pub struct PastReplyBlock {
    /// The number of the first message in the stream.
    pub first: u64,
    /// The number of messages; up to half of [`PAST_BLOCK_LEN`], as an empty message takes two bytes.
    pub count: u16,
    /// The number of bytes, lengths included.
    len: u16,
    bytes: [u8; PAST_BLOCK_LEN],
}

impl PastReplyBlock {
    /// Returns `None` if the bytes exceed the room of a block, or are not `count` messages.
    #[must_use]
    pub fn new(first: u64, count: u16, messages: &[u8]) -> Option<Self> {
        let mut bytes = [0; PAST_BLOCK_LEN];
        bytes.get_mut(..messages.len())?.copy_from_slice(messages);
        let mut rest = messages;
        for _ in 0..count {
            rest = split(rest)?.1;
        }
        rest.is_empty().then_some(Self { first, count, len: messages.len() as u16, bytes })
    }

    /// The numbers of its messages.
    #[must_use]
    pub fn numbers(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.count)
    }

    /// Its messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..usize::from(self.len)];
        std::iter::from_fn(move || {
            let (message, after) = split(rest)?;
            rest = after;
            Some(message)
        })
    }
}

/// Splits off the first message; returns it and the rest.
fn split(messages: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = messages.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// An answer of the journal reader.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "a slot of a ring has room for a block, and most have one"
)]
pub enum PastReplyAnswer {
    /// The next messages of the range; some messages before and after the range may be among them.
    Messages(PastReplyBlock),
    /// The messages before this one are no longer available.
    Gone { first_kept: u64 },
}

/// The reader's ends of the rings.
pub struct PastReplyEnds {
    pub wanted: Consumer<PastReplyRange>,
    pub answers: Producer<PastReplyAnswer>,
    /// Woken by a request, where the reader has a thread of its own.
    pub parker: Option<Box<dyn Parker>>,
}

/// The replies to one session, derived anew from the journal.
pub struct SessionReplies(ReplyStreams<ReplayStore>);

impl SessionReplies {
    /// Starts before the first output.
    #[must_use]
    pub fn new(username: Text<6>) -> Self {
        Self(ReplyStreams::of_users(&[username], ReplayStore::new(1, READER_BYTES)))
    }

    /// Takes the messages sent before a snapshot. Call it before the first output.
    pub fn restore(&mut self, archive: &MessageArchive) {
        self.0.restore(archive);
    }

    pub fn take(&mut self, output: &Output) {
        self.0.take(output);
    }

    /// The number of the next message.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.store().next(0)
    }

    /// True if this message is kept.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.0.store().get(0, number).is_ok()
    }

    /// Returns messages from this number on: as many as a block has room for, at least one.
    ///
    /// # Errors
    /// The first message is no longer kept, or does not exist yet.
    ///
    /// # Panics
    /// The first message is longer than a block.
    pub fn block(&self, first: u64) -> Result<PastReplyBlock, Missing> {
        let (count, messages) = self.0.store().run(0, first, PAST_BLOCK_LEN)?;
        Ok(PastReplyBlock::new(first, count, messages).expect("a run is of whole messages"))
    }
}

/// Creates the rings between an order entry gateway and a reader of the journal.
#[must_use]
pub fn past_reply_rings() -> (PastReplies, PastReplyEnds) {
    let mut builder = Builder::new("past replies wanted", PAGES);
    let to_reader = builder.gating("history");
    let (wanted, _) = builder.build();
    let mut builder = Builder::new("past replies", BLOCK_SLOTS);
    let from_reader = builder.gating("order entry");
    let (answers, _) = builder.build();
    let parker = ThreadParker::default();
    let past = PastReplies {
        wanted,
        answers: from_reader,
        reader: parker.unparker(),
        pages: VecDeque::with_capacity(PAGES),
        waiting: VecDeque::new(),
    };
    (past, PastReplyEnds { wanted: to_reader, answers, parker: Some(Box::new(parker)) })
}

/// The gateway's ends of the rings, and the pages being read.
pub struct PastReplies {
    wanted: Producer<PastReplyRange>,
    answers: Consumer<PastReplyAnswer>,
    reader: Arc<dyn Unparker>,
    /// The pages being sent or read, in the order of their requests.
    pages: VecDeque<Page>,
    /// Users that wait for a page, each once.
    waiting: VecDeque<(usize, PastReplyRange)>,
}

struct Page {
    user: usize,
    range: PastReplyRange,
    /// The number of the first available message.
    first_kept: u64,
    /// The messages, each after its length, and the place where each begins.
    bytes: Vec<u8>,
    places: Vec<u32>,
}

impl Page {
    fn new(user: usize, range: PastReplyRange) -> Self {
        Self { user, range, first_kept: range.first, bytes: Vec::new(), places: Vec::new() }
    }

    fn has(&self, user: usize, number: u64) -> bool {
        self.user == user && (self.range.first..self.range.end).contains(&number)
    }

    fn is_whole(&self) -> bool {
        self.next() >= self.range.end
    }

    /// The number of the next message to be read.
    fn next(&self) -> u64 {
        self.first_kept + self.places.len() as u64
    }

    /// Takes the messages of a block that continue the page.
    fn take(&mut self, block: &PastReplyBlock) {
        for (number, message) in block.numbers().zip(block.messages()) {
            if number == self.next() && number < self.range.end {
                self.places.push(self.bytes.len() as u32);
                self.bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
                self.bytes.extend_from_slice(message);
            }
        }
    }

    /// Takes note of a gap. Messages already read stay; then the page ends there, and the next one reports the gap.
    fn lose_before(&mut self, first_kept: u64) {
        if !self.places.is_empty() {
            self.range.end = self.next();
            return;
        }
        self.first_kept = first_kept.max(self.range.first + 1);
        self.range.end = self.range.end.min(self.first_kept);
    }

    fn message(&self, number: u64) -> Option<&[u8]> {
        let place = *self.places.get((number - self.first_kept) as usize)? as usize;
        Some(split(&self.bytes[place..]).expect("a place is that of a whole message").0)
    }
}

/// The state of an older message.
pub(super) enum PastMessage<'a> {
    Here(&'a [u8]),
    /// The message is being read.
    Awaited,
    /// The message is not available.
    Gone,
}

impl PastReplies {
    /// Returns a user's message from before `end` that is not kept elsewhere; has it read if it is not here.
    pub(super) fn get(
        &mut self,
        user: usize,
        username: Text<6>,
        number: u64,
        end: u64,
    ) -> PastMessage<'_> {
        let Some(page) = self.pages.iter().position(|page| page.has(user, number)) else {
            if self.waiting.iter().all(|(waits, _)| *waits != user) {
                let end = end.min(number + PAGE_MESSAGES);
                self.waiting.push_back((user, PastReplyRange { username, first: number, end }));
            }
            return PastMessage::Awaited;
        };
        let page = &self.pages[page];
        if number < page.first_kept {
            return PastMessage::Gone;
        }
        page.message(number).map_or(PastMessage::Awaited, PastMessage::Here)
    }

    /// Takes the blocks that the reader has read, and requests the next pages where there is room. `wanted` gives the
    /// numbers that a user wants and that are kept nowhere else. Returns the users to be served now.
    pub(super) fn poll(&mut self, wanted: impl Fn(usize) -> Option<Range<u64>>) -> Vec<usize> {
        if self.pages.is_empty() && self.waiting.is_empty() {
            return Vec::new();
        }
        // Mostly empty, and then it takes no memory.
        let mut served = Vec::new();
        let Self { answers, pages, .. } = self;
        answers.poll(BLOCKS_PER_TURN, |answer, _end_of_batch| {
            let page = pages.iter_mut().find(|page| !page.is_whole());
            let page = page.expect("what is answered was asked for");
            match answer {
                PastReplyAnswer::Messages(block) => page.take(block),
                PastReplyAnswer::Gone { first_kept } => page.lose_before(*first_kept),
            }
            if !served.contains(&page.user) {
                served.push(page.user);
            }
            Flow::Continue
        });
        self.drop_pages(&wanted);
        while self.pages.len() < PAGES {
            let Some((user, range)) = self.next_page(&wanted, &mut served) else { break };
            if self.wanted.try_publish(range).is_err() {
                self.waiting.push_front((user, range));
                break;
            }
            self.reader.unpark();
            self.pages.push_back(Page::new(user, range));
        }
        served
    }

    /// Drops whole pages that are no longer needed: their user has left, or wants other numbers.
    fn drop_pages(&mut self, wanted: &impl Fn(usize) -> Option<Range<u64>>) {
        // The user and the number for which the previous page was read.
        let mut continues = None;
        self.pages.retain(|page| {
            let is_first = wanted(page.user).is_some_and(|it| page.has(page.user, it.start));
            let is_needed = is_first || continues == Some((page.user, page.range.first));
            if is_needed {
                continues = Some((page.user, page.range.end));
            }
            is_needed || !page.is_whole()
        });
    }

    /// The page to be read next: that of the user waiting longest, or else the one after the last page.
    fn next_page(
        &mut self,
        wanted: &impl Fn(usize) -> Option<Range<u64>>,
        served: &mut Vec<usize>,
    ) -> Option<(usize, PastReplyRange)> {
        // A user that has left needs no page; a user that wants another page requests it.
        while let Some((user, range)) = self.waiting.pop_front() {
            match wanted(user) {
                Some(numbers) if numbers.start == range.first => return Some((user, range)),
                Some(_) => served.push(user),
                None => {}
            }
        }
        let last = self.pages.back()?;
        let PastReplyRange { username, end: first, .. } = last.range;
        let numbers = wanted(last.user).filter(|it| last.has(last.user, it.start))?;
        let end = numbers.end.min(first + PAGE_MESSAGES);
        (first < end).then_some((last.user, PastReplyRange { username, first, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Text<6> = Text::BLANK;
    /// Messages of a block on disk.
    const BLOCK: u64 = 64;

    /// A reader of the journal, and the blocks it has not handed over yet.
    struct Reader {
        ends: PastReplyEnds,
        blocks: VecDeque<PastReplyBlock>,
        /// All ranges requested from it.
        asked: Vec<Range<u64>>,
    }

    impl Reader {
        fn new(ends: PastReplyEnds) -> Self {
            Self { ends, blocks: VecDeque::new(), asked: Vec::new() }
        }

        /// Answers the requests, or reports that the journal begins with `first_kept`.
        fn turn(&mut self, first_kept: Option<u64>) {
            let Self { ends, blocks, asked } = self;
            if blocks.is_empty() {
                ends.wanted.poll(1, |range, _| {
                    asked.push(range.first..range.end);
                    // As they lie on disk: the first block begins before the range, the last ends after it.
                    let begin = range.first - range.first % BLOCK;
                    blocks.extend((begin..range.end).step_by(BLOCK as usize).map(|first| {
                        let message = |number: u64| [&[0, 8], &number.to_be_bytes()[..]].concat();
                        let messages: Vec<u8> = (first..first + BLOCK).flat_map(message).collect();
                        PastReplyBlock::new(first, BLOCK as u16, &messages).unwrap()
                    }));
                    Flow::Continue
                });
                if let Some(first_kept) = first_kept.filter(|_| !blocks.is_empty()) {
                    blocks.clear();
                    assert!(ends.answers.try_publish(PastReplyAnswer::Gone { first_kept }).is_ok());
                }
            }
            while let Some(block) = blocks.front()
                && ends.answers.try_publish(PastReplyAnswer::Messages(*block)).is_ok()
            {
                blocks.pop_front();
            }
        }
    }

    fn is_here(past: &mut PastReplies, user: usize, number: u64, end: u64) -> bool {
        match past.get(user, NAME, number, end) {
            PastMessage::Here(message) => {
                assert_eq!(message, number.to_be_bytes());
                true
            }
            PastMessage::Awaited => false,
            PastMessage::Gone => panic!("it is there"),
        }
    }

    /// Two users that want many messages get pages by turns; a user that has left gets none. Memory stays bounded.
    #[test]
    fn pages_are_given_by_turns() {
        let (mut past, ends) = past_reply_rings();
        let mut reader = Reader::new(ends);
        let mut next = [1, 1, 1];
        let end = 3 * PAGE_MESSAGES + 1;
        for user in [0, 1, 2] {
            assert!(!is_here(&mut past, user, 1, end));
        }
        let mut turns = 0;
        while next[0] < end || next[1] < end {
            // User 2 has left.
            let served = past.poll(|user| (user < 2).then(|| next[user]..end));
            reader.turn(None);
            for user in served {
                while next[user] < end && is_here(&mut past, user, next[user], end) {
                    next[user] += 1;
                }
            }
            let bytes = past.pages.iter().map(|it| it.bytes.len() + 4 * it.places.len());
            assert!(bytes.sum::<usize>() <= PAST_REPLIES_BYTES_MAX);
            turns += 1;
            assert!(turns < 10_000, "{next:?}");
        }
        let pages = [0, 1, 2].map(|it| it * PAGE_MESSAGES + 1..(it + 1) * PAGE_MESSAGES + 1);
        let expected = pages.iter().flat_map(|page| [page.clone(), page.clone()]);
        assert_eq!(reader.asked, expected.collect::<Vec<_>>());
    }

    /// While a page is sent, the next one is read, and no third; the last page ends with the wanted messages.
    #[test]
    fn the_next_page_is_read_ahead() {
        let (mut past, ends) = past_reply_rings();
        let mut reader = Reader::new(ends);
        let end = 3 * PAGE_MESSAGES - 100;
        assert!(!is_here(&mut past, 0, 1, end));
        for _ in 0..1000 {
            past.poll(|_| Some(1..end));
            reader.turn(None);
        }
        let pages = [1..PAGE_MESSAGES + 1, PAGE_MESSAGES + 1..2 * PAGE_MESSAGES + 1];
        assert_eq!(reader.asked, pages);
        assert!((1..=2 * PAGE_MESSAGES).all(|number| is_here(&mut past, 0, number, end)));
        for _ in 0..1000 {
            past.poll(|_| Some(PAGE_MESSAGES + 1..end));
            reader.turn(None);
        }
        assert_eq!(reader.asked.len(), 3);
        assert_eq!(reader.asked[2], 2 * PAGE_MESSAGES + 1..end);
        assert!((PAGE_MESSAGES + 1..end).all(|number| is_here(&mut past, 0, number, end)));
        // The message it wants now is before both pages: they make room.
        assert!(!is_here(&mut past, 0, 5, end));
        for _ in 0..1000 {
            past.poll(|_| Some(5..7));
            reader.turn(None);
        }
        assert!(is_here(&mut past, 0, 5, 7) && is_here(&mut past, 0, 6, 7));
    }

    /// Messages that the journal no longer has are reported as gone, and the messages after them are requested.
    #[test]
    fn what_is_gone_is_said() {
        let (mut past, ends) = past_reply_rings();
        let mut reader = Reader::new(ends);
        assert!(!is_here(&mut past, 0, 10, 100));
        past.poll(|_| Some(10..100));
        reader.turn(Some(40));
        assert_eq!(past.poll(|_| Some(10..100)), [0]);
        for number in 10..40 {
            assert!(matches!(past.get(0, NAME, number, 100), PastMessage::Gone), "{number}");
        }
        assert!(!is_here(&mut past, 0, 40, 100));
        for _ in 0..10 {
            past.poll(|_| Some(40..100));
            reader.turn(None);
        }
        assert!((40..100).all(|number| is_here(&mut past, 0, number, 100)));
    }

    /// A user that has come back and wants another message is served, so that it requests that message.
    #[test]
    fn another_wish_takes_the_place_of_the_first() {
        let (mut past, ends) = past_reply_rings();
        let mut reader = Reader::new(ends);
        assert!(!is_here(&mut past, 0, 10, 100));
        assert_eq!(past.poll(|_| Some(50..100)), [0]);
        assert!(!is_here(&mut past, 0, 50, 100));
        past.poll(|_| Some(50..100));
        reader.turn(None);
        assert_eq!((reader.asked.len(), &reader.asked[0]), (1, &(50..100)));
    }

    /// A block holds whole messages, and its size is bounded.
    #[test]
    fn a_block_has_its_bound() {
        let mut messages = vec![0; PAST_BLOCK_LEN];
        messages[..2].copy_from_slice(&(PAST_BLOCK_LEN as u16 - 2).to_be_bytes());
        assert!(PastReplyBlock::new(1, 1, &messages).is_some());
        assert!(PastReplyBlock::new(1, 2, &messages).is_none());
        assert!(PastReplyBlock::new(1, 1, &messages[..100]).is_none());
        messages.push(0);
        assert!(PastReplyBlock::new(1, 1, &messages).is_none());
    }
}
