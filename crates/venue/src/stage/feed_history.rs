//! Reads older messages of the feed from the journal, for the feed server: a thread of its own.
//!
//! The feed is a function of the whole journal: encoding a message needs the state before it. So a range is read from
//! the newest snapshot before it, and the next range continues from the end of the last.
//!
//! Invariant: no thread waits for this one, and it changes no data. Memory has a bound: two states, and the messages of
//! one input.

use std::collections::{BTreeMap, VecDeque};

use gateway::{FeedMessage, FeedStream, MessageStore, PastAnswer, PastEnds, PastRange};
use journal::Storage;
use ring::{Agent, AgentError, AtomicGauge, Flow};
use std::sync::Arc;

use crate::follower::Follower;

/// The most records read in a turn.
const TURN_LIMIT: usize = 1024;
/// The number of states kept, each at the end of its last range. With two, subscribers that read at two places do not
/// make each other start over.
const READERS_MAX: usize = 2;

pub struct FeedHistory {
    /// The folder of journal and snapshots.
    storage: Box<dyn Storage>,
    /// The journal has all inputs up to here.
    journaled: Arc<AtomicGauge>,
    ends: PastEnds,
    /// Ordered by use, the latest last.
    readers: Vec<FeedReader>,
    /// The range being read.
    range: Option<PastRange>,
    /// A range that failed and is tried once more.
    failed: Option<PastRange>,
    /// The number of the first message after each snapshot read, by the snapshot's sequence.
    snapshots: BTreeMap<u64, u64>,
}

/// A state in the past, with the messages caused by its last inputs.
struct FeedReader {
    follower: Follower,
    feed: FeedStream<Numbered>,
}

/// Messages with their numbers, until they are taken.
struct Numbered {
    next: u64,
    messages: VecDeque<FeedMessage>,
}

impl MessageStore for Numbered {
    fn ensure_stream(&mut self, _stream: usize) {}

    fn push(&mut self, _stream: usize, message: &[u8]) {
        self.messages.push_back(FeedMessage::new(self.next, message));
        self.next += 1;
    }
}

impl FeedReader {
    fn new(mut follower: Follower) -> Self {
        let archive = follower.take_archive().expect("messages were asked for");
        let numbered = Numbered { next: archive.feed_numbers().0 + 1, messages: VecDeque::new() };
        let feed = FeedStream::after(follower.engine().instruments(), numbered);
        Self { follower, feed }
    }

    /// The number of the next message to encode.
    fn next(&self) -> u64 {
        let store = self.feed.store();
        store.messages.front().map_or(store.next, |message| message.number)
    }
}

impl FeedHistory {
    /// Reads the journal in `storage`, which also has the snapshots.
    pub fn new(storage: Box<dyn Storage>, journaled: Arc<AtomicGauge>, ends: PastEnds) -> Self {
        Self {
            storage,
            journaled,
            ends,
            readers: Vec::new(),
            range: None,
            failed: None,
            snapshots: BTreeMap::new(),
        }
    }

    /// Makes the last reader one that will encode this message.
    ///
    /// # Errors
    /// The number of the first message available, if known, and the reason why earlier messages are not.
    fn go_to(&mut self, first: u64) -> Result<(), (Option<u64>, String)> {
        let before = self.readers.iter().enumerate().filter(|(_, it)| it.next() <= first);
        let nearest = before.max_by_key(|(_, it)| it.next()).map(|(index, _)| index);
        // A snapshot between the reader and the message is nearer than the reader.
        let reader_next = nearest.map_or(0, |index| self.readers[index].next());
        if let Some(index) = nearest
            && !self.snapshots.values().any(|next| (reader_next + 1..=first).contains(next))
        {
            let reader = self.readers.remove(index);
            self.readers.push(reader);
            return Ok(());
        }
        let reader = self.begin(first)?;
        if self.readers.len() == READERS_MAX {
            self.readers.remove(0);
        }
        self.readers.push(reader);
        Ok(())
    }

    /// A reader from the newest snapshot before this message, or from the first record.
    fn begin(&mut self, first: u64) -> Result<FeedReader, (Option<u64>, String)> {
        let mut first_kept = None;
        let later = self.snapshots.iter().filter(|(_, next)| **next > first);
        let mut at_most = later.map(|(sequence, _)| *sequence).min().map_or(u64::MAX, |it| it - 1);
        loop {
            let mut snapshots = self.storage.second();
            let follower = Follower::begin(&*self.storage, &mut *snapshots, at_most, Some(0))
                .map_err(|failure| (first_kept, failure.to_string()))?;
            let snapshot = follower.began_with().map(|summary| summary.header.sequence);
            let reader = FeedReader::new(follower);
            let Some(sequence) = snapshot else { return Ok(reader) };
            self.snapshots.insert(sequence, reader.next());
            if reader.next() <= first {
                return Ok(reader);
            }
            first_kept = Some(reader.next());
            at_most = sequence - 1;
        }
    }

    /// Reads on, and hands over the messages requested. Returns true if the range is complete.
    fn read_on(&mut self, range: &mut PastRange) -> Result<(usize, bool), String> {
        let reader = self.readers.last_mut().expect("it was begun");
        let mut work = 0;
        if reader.feed.store().messages.is_empty() {
            let FeedReader { follower, feed } = reader;
            work += follower
                .poll(TURN_LIMIT, self.journaled.get(), &mut |line| {
                    line.each(|output| feed.take(output))
                })
                .map_err(|failure| failure.to_string())?;
        }
        let messages = &mut reader.feed.store_mut().messages;
        while range.first < range.end
            && let Some(message) = messages.front()
        {
            if message.number == range.first {
                if self.ends.answers.try_publish(PastAnswer::Message(*message)).is_err() {
                    return Ok((work, false));
                }
                range.first += 1;
            }
            messages.pop_front();
            work += 1;
        }
        Ok((work, range.is_empty()))
    }

    /// Answers that the range is not available.
    fn give_up(&mut self, range: PastRange, first_kept: Option<u64>, why: &str) {
        let first_kept = first_kept.unwrap_or(range.end);
        tracing::warn!(
            component = "feed history",
            "messages of the feed from {} to {} were requested and cannot be read from the journal: \
             {why}; the first that is available is {first_kept}",
            range.first,
            range.end - 1
        );
        self.readers.clear();
        // The feed server takes an answer for each range; the ring has room for far more than one.
        let _ = self.ends.answers.try_publish(PastAnswer::Gone { first_kept });
    }
}

impl Agent for FeedHistory {
    fn name(&self) -> &str {
        "feed history"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let mut range = match self.range.take() {
            Some(range) => range,
            None => {
                let mut wanted = None;
                self.ends.wanted.poll(1, |range, _end_of_batch| {
                    wanted = Some(*range);
                    Flow::Continue
                });
                let Some(range) = wanted else { return Ok(0) };
                if let Err((first_kept, why)) = self.go_to(range.first) {
                    self.give_up(range, first_kept, &why);
                    return Ok(1);
                }
                range
            }
        };
        match self.read_on(&mut range) {
            Ok((work, is_complete)) => {
                self.range = (!is_complete).then_some(range);
                Ok(work)
            }
            Err(why) => {
                // Segments may be removed while they are read: a newer snapshot may be before the range.
                self.readers.clear();
                match self.go_to(range.first) {
                    Ok(()) if self.failed != Some(range) => {
                        (self.failed, self.range) = (Some(range), Some(range));
                    }
                    Ok(()) => self.give_up(range, None, &why),
                    Err((first_kept, why)) => self.give_up(range, first_kept, &why),
                }
                Ok(1)
            }
        }
    }
}
