//! The event digest of a running venue: a reader of the output ring hashes every event, beside the engine.
//!
//! Invariants: every event joins the digest once, in order. A digest up to an input has all events of the inputs
//! up to it, and none of a later one, whenever this reader gets its turns.

use std::{collections::VecDeque, sync::Arc};

use market::{EventDigest, OutputLine, Sequence};
use ring::{Consumer, Cursor, LossyConsumer, Producer, Words};

use super::engine::Progress;

/// The state of the core at a sequence, for monitoring and for comparison with a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub progress: Progress,
    /// The digest of all events up to its sequence.
    pub digest: EventDigest,
}

impl Words for Checkpoint {
    const WORDS: usize = Progress::WORDS + 1;

    fn to_words(&self, words: &mut [u64]) {
        let (digest, progress) = words.split_first_mut().expect("it has several words");
        *digest = self.digest.word();
        self.progress.to_words(progress);
    }

    fn from_words(words: &[u64]) -> Self {
        let (digest, progress) = words.split_first().expect("it has several words");
        Self { progress: Progress::from_words(progress), digest: EventDigest::from_word(*digest) }
    }
}

/// Hashes the events, publishes checkpoints and keeps the digests that the journal records.
pub struct Digester {
    outputs: Consumer<OutputLine>,
    /// The events of inputs up to here are in the ring.
    applied: Arc<Cursor>,
    digest: EventDigest,
    /// The input of the last event hashed.
    hashed: u64,
    progress: LossyConsumer<Progress>,
    /// The core's progress notes for inputs whose events are not all hashed.
    ahead: VecDeque<Progress>,
    checkpoints: Producer<Checkpoint>,
    /// The journal records the digest at each multiple of this number of inputs; 0 is never.
    every: u64,
    /// The next such multiple.
    next: u64,
    /// Digests that the journal has not recorded yet.
    records: VecDeque<(Sequence, EventDigest)>,
}

/// Digests that may wait for the journal; beyond that the oldest are dropped.
const RECORDS_MAX: usize = 64;

/// Progress notes of the core taken in a turn: more than its ring holds.
const PROGRESS_MAX: usize = 1 << 10;

impl Digester {
    /// Goes on from the digest up to the input `sequence`, and publishes a checkpoint for each note of the core's progress.
    pub fn new(
        outputs: Consumer<OutputLine>,
        applied: Arc<Cursor>,
        (sequence, digest): (Sequence, EventDigest),
        progress: LossyConsumer<Progress>,
        checkpoints: Producer<Checkpoint>,
    ) -> Self {
        Self {
            outputs,
            applied,
            digest,
            hashed: sequence.0,
            progress,
            ahead: VecDeque::new(),
            checkpoints,
            every: 0,
            next: u64::MAX,
            records: VecDeque::with_capacity(RECORDS_MAX),
        }
    }

    /// Keeps the digest up to each input whose sequence is a multiple of `every`, for the journal; 0 is never.
    pub fn recording_every(mut self, every: u64) -> Self {
        self.every = every;
        let passed = self.hashed.checked_div(every);
        self.next = passed.map_or(u64::MAX, |passed| (passed + 1) * every);
        self
    }

    /// The interval of the records, in inputs; 0 is never.
    pub(super) fn every(&self) -> u64 {
        self.every
    }

    /// Hashes the events in the ring, at most `limit` lines; returns the number of lines.
    pub(super) fn turn(&mut self, limit: usize) -> usize {
        // In this order: the ring has all events up to `applied`, and the core notes its progress at an
        // input before the ring has an event of a later one.
        let applied = self.applied.get();
        let available = self.outputs.available();
        let (ahead, hashed) = (&mut self.ahead, self.hashed);
        self.progress.poll(PROGRESS_MAX, |progress| {
            assert!(progress.sequence.0 >= hashed, "{progress:?} comes after events of {hashed}");
            ahead.push_back(*progress);
        });
        let mut due = due_of(&self.ahead, self.next);
        let Self { outputs, digest, hashed, ahead, checkpoints, next, records, every, .. } = self;
        let mut pass = |digest: EventDigest, through: u64| {
            while let Some(progress) = ahead.pop_front_if(|it| it.sequence.0 <= through) {
                // The ring has only lossy readers, so it always has room.
                let _ = checkpoints.try_publish(Checkpoint { progress, digest });
            }
            while *next <= through {
                if records.len() == RECORDS_MAX {
                    records.pop_front();
                }
                records.push_back((Sequence(*next), digest));
                *next += *every;
            }
            due_of(ahead, *next)
        };
        let taken = outputs.drain(available.min(limit), |line, _| {
            let OutputLine { cause, timestamp, ref outcome } = *line;
            if cause.0 > due {
                due = pass(*digest, cause.0 - 1);
            }
            *hashed = cause.0;
            digest.add(cause, timestamp, outcome);
        });
        if taken == available && due <= applied {
            pass(*digest, applied);
        }
        taken
    }

    /// Takes the next digest for the journal, if its input is at most `last`.
    pub(super) fn take_record(&mut self, last: u64) -> Option<(Sequence, EventDigest)> {
        self.records.pop_front_if(|(sequence, _)| sequence.0 <= last)
    }
}

/// The first input whose digest is needed: for a checkpoint, or as the next multiple.
fn due_of(ahead: &VecDeque<Progress>, next: u64) -> u64 {
    ahead.front().map_or(next, |progress| progress.sequence.0.min(next))
}

#[cfg(test)]
mod tests {
    use market::{Event, Outcome, SplitMix64, SystemEvent, Timestamp};
    use ring::Builder;

    use super::*;

    const INPUTS: u64 = 60;
    const EVERY: u64 = 4;

    fn line(cause: u64) -> OutputLine {
        let event = Event::System(SystemEvent::StartOfMessages);
        OutputLine {
            cause: Sequence(cause),
            timestamp: Timestamp(7),
            outcome: Outcome::Event(event),
        }
    }

    fn progress(sequence: u64) -> Progress {
        Progress { sequence: Sequence(sequence), orders: sequence * 2, trades: 3, live_orders: 4 }
    }

    /// Whenever the digester gets its turns, each checkpoint and each record has the digest up to its input, and none
    /// is missing: also for inputs without events, and if the core notes its progress before an input's last event.
    #[test]
    fn each_digest_is_up_to_its_input() {
        for seed in 0..500 {
            let mut random = SplitMix64::new(seed);
            let limit = 1 + random.below(4) as usize;
            let mut outputs = Builder::new("outputs", 8);
            let mut notes = Builder::new("progress", 64);
            let mut checkpoints = Builder::new("checkpoints", 64);
            let (lines, of_core) = (outputs.gating("digester"), notes.lossy("digester"));
            let mut published = checkpoints.lossy("test");
            let (mut outputs, mut notes) = (outputs.build().0, notes.build().0);
            let applied = Arc::new(Cursor::new(0));
            let start = (Sequence(0), EventDigest::default());
            let (applied_read, to_test) = (Arc::clone(&applied), checkpoints.build().0);
            let mut digester =
                Digester::new(lines, applied_read, start, of_core, to_test).recording_every(EVERY);

            let mut expected = vec![EventDigest::default()];
            let mut noted = Vec::new();
            for sequence in 1..=INPUTS {
                let mut digest = expected[expected.len() - 1];
                let mut is_noted = random.below(3) > 0;
                for _ in 0..random.below(4) {
                    if is_noted && random.below(4) == 0 {
                        notes.try_publish(progress(sequence)).unwrap();
                        noted.push(sequence);
                        is_noted = false;
                    }
                    while outputs.try_publish(line(sequence)).is_err() {
                        assert!(digester.turn(limit) > 0, "a full ring has lines");
                    }
                    digest.add(Sequence(sequence), Timestamp(7), &line(sequence).outcome);
                    if random.below(3) == 0 {
                        digester.turn(limit);
                    }
                }
                expected.push(digest);
                if random.below(2) == 0 {
                    applied.set(sequence);
                }
                if is_noted {
                    notes.try_publish(progress(sequence)).unwrap();
                    noted.push(sequence);
                }
                if random.below(3) == 0 {
                    digester.turn(limit);
                }
            }
            applied.set(INPUTS);
            while digester.turn(limit) > 0 {}

            let mut found = Vec::new();
            published.poll(usize::MAX, |checkpoint| found.push(*checkpoint));
            let digest_at = |sequence: u64| expected[sequence as usize];
            let all: Vec<_> = noted
                .into_iter()
                .map(|at| Checkpoint { progress: progress(at), digest: digest_at(at) })
                .collect();
            assert_eq!(found, all, "seed {seed}");
            for at in (EVERY..=INPUTS).step_by(EVERY as usize) {
                assert_eq!(digester.take_record(at - 1), None, "seed {seed}, input {at}");
                let record = Some((Sequence(at), digest_at(at)));
                assert_eq!(digester.take_record(at), record, "seed {seed}, input {at}");
            }
        }
    }
}
