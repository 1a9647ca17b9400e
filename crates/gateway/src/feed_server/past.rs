//! Older messages of the feed, page by page, from a reader of the journal on another thread.
//!
//! Invariant: memory has a bound; one page is read at a time; the feed server never waits for the disk.

use std::collections::{BTreeMap, VecDeque};

use ring::{Builder, Consumer, Flow, Producer};

use crate::{FeedMessage, FeedServerCounters};

/// Messages of a page.
const PAGE_MESSAGES: u64 = 8192;
/// Pages that are kept, the latest used ones: 16 MiB.
const PAGES_MAX: usize = 32;
/// Pages that may wait to be read; beyond that a request is not answered, and comes again.
const WAITING_MAX: usize = 16;
/// Messages taken from the reader in a turn.
const ANSWERS_PER_TURN: usize = 4096;
const ANSWER_SLOTS: usize = 16_384;
const WANTED_SLOTS: usize = 2;

/// Messages `first` to `end`, `end` excluded, to be read from the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRange {
    pub first: u64,
    pub end: u64,
}

impl PastRange {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.first
    }
}

/// An answer of the reader of the journal.
#[derive(Clone, Copy)]
pub enum PastAnswer {
    /// The next message of the range.
    Message(FeedMessage),
    /// The first message of the range is unavailable: `first_kept` is the first that is available.
    Gone { first_kept: u64 },
}

/// The reader's ends of the rings.
pub struct PastEnds {
    pub wanted: Consumer<PastRange>,
    pub answers: Producer<PastAnswer>,
}

/// The feed server's ends.
pub(super) struct Past {
    wanted: Producer<PastRange>,
    answers: Consumer<PastAnswer>,
    pages: BTreeMap<u64, Page>,
    /// Numbers of pages, the one that is read now at the front.
    waiting: VecDeque<u64>,
    /// The page being read: its range, and the messages so far.
    reading: Option<(PastRange, Vec<FeedMessage>)>,
    /// The messages before this one are unavailable.
    first_kept: u64,
    uses: u64,
}

struct Page {
    /// In the order of their numbers, without gaps.
    messages: Vec<FeedMessage>,
    used: u64,
}

impl Page {
    fn get(&self, number: u64) -> Option<&[u8]> {
        let index = number.checked_sub(self.messages.first()?.number)?;
        self.messages.get(usize::try_from(index).ok()?).map(FeedMessage::as_bytes)
    }
}

/// The rings between a feed server and a reader of the journal.
#[must_use]
pub fn past_rings() -> ((Producer<PastRange>, Consumer<PastAnswer>), PastEnds) {
    let mut builder = Builder::new("past wanted", WANTED_SLOTS);
    let wanted = builder.gating("feed history");
    let (to_reader, _) = builder.build();
    let mut builder = Builder::new("past messages", ANSWER_SLOTS);
    let from_reader = builder.gating("feed server");
    let (answers, _) = builder.build();
    ((to_reader, from_reader), PastEnds { wanted, answers })
}

impl Past {
    pub(super) fn new((wanted, answers): (Producer<PastRange>, Consumer<PastAnswer>)) -> Self {
        Self {
            wanted,
            answers,
            pages: BTreeMap::new(),
            waiting: VecDeque::new(),
            reading: None,
            first_kept: 1,
            uses: 0,
        }
    }

    /// The messages before this one are unavailable; later ones may be too.
    pub(super) const fn first_kept(&self) -> u64 {
        self.first_kept
    }

    /// A message, if its page is here.
    pub(super) fn get(&self, number: u64) -> Option<&[u8]> {
        self.pages.get(&page_of(number)?)?.get(number)
    }

    /// Has the page of this message read, unless it is here; notes that it is used. False if too many pages wait, or
    /// the message is unavailable.
    pub(super) fn want(&mut self, number: u64) -> bool {
        let Some(page) = page_of(number).filter(|_| number >= self.first_kept) else {
            return false;
        };
        if self.get(number).is_some() {
            self.uses += 1;
            self.pages.get_mut(&page).expect("it is here").used = self.uses;
            return true;
        }
        if self.waiting.contains(&page) {
            return true;
        }
        let has_place = self.waiting.len() < WAITING_MAX;
        if has_place {
            self.waiting.push_back(page);
        }
        has_place
    }

    /// Takes the messages that the reader has read, and requests the next page. `next` is the number of the next
    /// message of the feed. Returns the amount of work done.
    pub(super) fn poll(&mut self, next: u64, counters: &FeedServerCounters) -> usize {
        let mut gone = None;
        let Self { answers, reading, .. } = self;
        let taken = answers.poll(ANSWERS_PER_TURN, |answer, _end_of_batch| {
            let (_, messages) = reading.as_mut().expect("a page is read");
            match answer {
                PastAnswer::Message(message) => messages.push(*message),
                PastAnswer::Gone { first_kept } => gone = Some(*first_kept),
            }
            Flow::Continue
        });
        if let Some(first_kept) = gone
            && let Some((range, _)) = self.reading.take()
        {
            counters.past_gone.add(1);
            // The rest of the page may be available, and is requested again.
            self.first_kept = first_kept.max(range.first + 1);
            self.waiting.retain(|page| self.first_kept <= (page + 1) * PAGE_MESSAGES);
        }
        let is_whole = |(range, messages): &mut (PastRange, Vec<FeedMessage>)| {
            messages.last().is_some_and(|last| last.number + 1 == range.end)
        };
        if let Some((_, messages)) = self.reading.take_if(is_whole) {
            counters.past_pages.add(1);
            let page = self.waiting.pop_front().expect("it was read for the first that waits");
            self.uses += 1;
            self.pages.insert(page, Page { messages, used: self.uses });
            if self.pages.len() > PAGES_MAX {
                let oldest = self.pages.iter().min_by_key(|(_, page)| page.used);
                let oldest = oldest.map(|(number, _)| *number).expect("there are pages");
                self.pages.remove(&oldest);
            }
        }
        taken + self.ask(next)
    }

    fn ask(&mut self, next: u64) -> usize {
        let Some(page) = self.waiting.front().filter(|_| self.reading.is_none()) else { return 0 };
        let first = (page * PAGE_MESSAGES + 1).max(self.first_kept);
        let range = PastRange { first, end: ((page + 1) * PAGE_MESSAGES + 1).min(next) };
        if range.is_empty() {
            self.waiting.pop_front();
            return 1;
        }
        if self.wanted.try_publish(range).is_err() {
            return 0;
        }
        self.pages.remove(page);
        self.reading = Some((range, Vec::with_capacity((range.end - range.first) as usize)));
        1
    }
}

const fn page_of(number: u64) -> Option<u64> {
    match number.checked_sub(1) {
        Some(index) => Some(index / PAGE_MESSAGES),
        None => None,
    }
}
