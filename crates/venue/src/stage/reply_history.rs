//! Reads older messages of sessions from the journal, for order entry: on the thread of the feed's history.
//!
//! Invariant: nothing waits for it, and it changes nothing. Memory has a bound: one state, and the newest
//! messages of one session.

use std::sync::Arc;

use gateway::{PastReply, PastReplyAnswer, PastReplyEnds, PastReplyRange, SessionReplies};
use journal::Storage;
use market::Text;
use ring::{Agent, AgentError, AtomicGauge, Flow};

use crate::follower::Follower;

/// Records read in a turn at most.
const TURN_LIMIT: usize = 256;

pub struct ReplyHistory {
    /// The folder of journal and snapshots.
    storage: Box<dyn Storage>,
    /// The journal has all inputs up to here.
    journaled: Arc<AtomicGauge>,
    ends: PastReplyEnds,
    /// Where the last range ended.
    reader: Option<ReplyReader>,
    /// What is being read.
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

    /// True if it has this message, or derives it from a later input.
    fn reaches(&self, number: u64) -> bool {
        self.replies.next() <= number || self.replies.get(number).is_ok()
    }
}

impl ReplyHistory {
    /// Reads the journal in `storage`, where the snapshots are as well.
    pub fn new(
        storage: Box<dyn Storage>,
        journaled: Arc<AtomicGauge>,
        ends: PastReplyEnds,
    ) -> Self {
        Self { storage, journaled, ends, reader: None, range: None }
    }

    /// A reader from the newest snapshot that has this message or is before it, or from the first record.
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

    /// Reads on, and hands over what is wanted.
    fn read_on(&mut self, range: &mut PastReplyRange) -> Result<usize, (u64, String)> {
        let is_near =
            |reader: &ReplyReader| reader.username == range.username && reader.reaches(range.first);
        let mut reader = match self.reader.take().filter(is_near) {
            Some(reader) => reader,
            None => self.begin(range)?,
        };
        let mut work = 0;
        if reader.replies.next() <= range.first {
            let ReplyReader { follower, replies, .. } = &mut reader;
            work += follower
                .poll(TURN_LIMIT, self.journaled.get(), &mut |output| replies.take(output))
                .map_err(|failure| (range.end, failure.to_string()))?;
        }
        while range.first < range.end
            && let Ok(message) = reader.replies.get(range.first)
        {
            let reply = PastReply::new(range.first, message)
                .ok_or_else(|| (range.first + 1, format!("{} bytes", message.len())))?;
            if self.ends.answers.try_publish(PastReplyAnswer::Message(reply)).is_err() {
                break;
            }
            range.first += 1;
            work += 1;
        }
        self.reader = Some(reader);
        Ok(work)
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
