//! Reads older messages of sessions for order entry, on the thread of the feed's history: from the reply files, or else
//! from the journal, whose inputs it applies again.
//!
//! Invariant: no thread waits for this one, and it changes no data. Memory has a bound: one state, and the newest
//! messages of one session.

use std::sync::Arc;

use gateway::{PastReplyAnswer, PastReplyBlock, PastReplyEnds, PastReplyRange, SessionReplies};
use journal::Storage;
use market::Text;
use ring::{Agent, AgentError, AtomicGauge, Flow};

use crate::{follower::Follower, reply_files::ReplyFileReader};

/// The most records applied in a turn.
const TURN_LIMIT: usize = 2048;
/// Records applied between two checks for the messages; the messages that they cause are kept.
const STEP_LIMIT: usize = 32;
/// Messages derived in a row, about 32 KiB.
const BLOCK_MESSAGES: u64 = 128;

pub struct ReplyHistory {
    /// The folder of journal and snapshots.
    storage: Box<dyn Storage>,
    /// The journal has all inputs up to here.
    journaled: Arc<AtomicGauge>,
    ends: PastReplyEnds,
    files: Option<ReplyFileReader>,
    /// A state near the messages derived last.
    reader: Option<ReplyReader>,
    /// The range being read.
    range: Option<PastReplyRange>,
}

/// A state in the past, with the newest messages to one session.
struct ReplyReader {
    username: Text<6>,
    follower: Follower,
    replies: SessionReplies,
}

impl ReplyReader {
    fn new(username: Text<6>, mut follower: Follower) -> Self {
        let mut replies = SessionReplies::new(username);
        replies.restore(&follower.take_archive().expect("messages were asked for"));
        Self { username, follower, replies }
    }

    /// True if the reader has this message, or derives it from a later input.
    fn reaches(&self, number: u64) -> bool {
        self.replies.next() <= number || self.replies.has(number)
    }
}

impl ReplyHistory {
    /// Reads the journal in `storage`, which also has the snapshots, and `files` if there are any.
    pub fn new(
        storage: Box<dyn Storage>,
        journaled: Arc<AtomicGauge>,
        ends: PastReplyEnds,
        files: Option<ReplyFileReader>,
    ) -> Self {
        Self { storage, journaled, ends, files, reader: None, range: None }
    }

    /// A reader from the newest snapshot that has this message or precedes it, or from the first record.
    fn begin(&self, range: &PastReplyRange) -> Result<ReplyReader, (u64, String)> {
        let mut first_kept = range.end;
        let mut at_most = u64::MAX;
        loop {
            let mut snapshots = self.storage.second();
            let follower = Follower::begin(&*self.storage, &mut *snapshots, at_most, Some(0))
                .map_err(|failure| (first_kept, failure.to_string()))?;
            let snapshot = follower.began_with().map(|summary| summary.header.sequence);
            let reader = ReplyReader::new(range.username, follower);
            let Some(sequence) = snapshot.filter(|_| !reader.reaches(range.first)) else {
                return Ok(reader);
            };
            first_kept = first_kept.min(reader.replies.next());
            at_most = sequence - 1;
        }
    }

    /// Hands over the messages requested, as far as they are known and the gateway has room; derives the unknown ones.
    fn read_on(&mut self, range: &mut PastReplyRange) -> Result<usize, (u64, String)> {
        let mut work = 0;
        while range.first < range.end && self.ends.answers.free() > 0 {
            let Some(block) = self.block(*range) else {
                // The messages derived here are for the next turn.
                work += self.derive(*range)?;
                break;
            };
            range.first = block.numbers().end;
            let published = self.ends.answers.try_publish(PastReplyAnswer::Messages(block));
            assert!(published.is_ok(), "there was a free slot");
            work += 1;
        }
        Ok(work)
    }

    /// The next messages of a range, if they are on disk or were derived.
    fn block(&mut self, range: PastReplyRange) -> Option<PastReplyBlock> {
        let files = self.files.as_mut();
        files.and_then(|files| files.block(range.username, range.first)).or_else(|| {
            let reader = self.reader.as_ref().filter(|reader| reader.username == range.username)?;
            reader.replies.block(range.first).ok()
        })
    }

    /// Applies inputs up to those that cause the first messages of a range, and returns the number of inputs applied.
    fn derive(&mut self, range: PastReplyRange) -> Result<usize, (u64, String)> {
        let is_near =
            |reader: &ReplyReader| reader.username == range.username && reader.reaches(range.first);
        let mut reader = match self.reader.take().filter(is_near) {
            Some(reader) => reader,
            None => self.begin(&range)?,
        };
        let ReplyReader { follower, replies, .. } = &mut reader;
        let end = range.end.min(range.first + BLOCK_MESSAGES);
        // The initial state may have the message already.
        let mut applied = usize::from(replies.has(range.first));
        while applied < TURN_LIMIT && replies.next() < end {
            let count = follower
                .poll(STEP_LIMIT, self.journaled.get(), &mut |line| {
                    line.each(|output| replies.take(output))
                })
                .map_err(|failure| (range.end, failure.to_string()))?;
            if count == 0 {
                break;
            }
            applied += count;
        }
        self.reader = Some(reader);
        Ok(applied)
    }
}

impl Agent for ReplyHistory {
    fn name(&self) -> &str {
        "reply history"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        if self.range.is_none() {
            let Self { ends, range, .. } = self;
            ends.wanted.poll(1, |wanted, _end_of_batch| {
                *range = Some(*wanted);
                Flow::Continue
            });
        }
        let Some(mut range) = self.range.take() else { return Ok(0) };
        match self.read_on(&mut range) {
            Ok(work) => {
                self.range = (range.first < range.end).then_some(range);
                Ok(work)
            }
            Err((first_kept, why)) => {
                tracing::warn!(
                    component = "reply history",
                    "messages {} to {} of {} were requested and cannot be read from the journal: {why}",
                    range.first,
                    range.end - 1,
                    range.username
                );
                if self.ends.answers.try_publish(PastReplyAnswer::Gone { first_kept }).is_err() {
                    self.range = Some(range);
                }
                Ok(1)
            }
        }
    }
}
