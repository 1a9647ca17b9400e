//! The thread that reads a journal for a replay: it verifies and decodes records while the engine applies those before
//! them.
//!
//! Invariants: inputs are applied in their order. A checkpoint is judged once all inputs before it are applied, and
//! before a record after it is read. So the replay ends at the same record as one without the thread, with the same
//! error.

use std::{io, panic, thread};

use engine::BATCH_MAX;
use journal::{Record, RecordKind};
use market::{Input, OutputLine};
use ring::{Builder, Consumer};

use super::{
    NotReplayed, decode,
    handover::{Giver, Patience, make_ring},
};
use crate::{
    checkpoint::{Difference, DigestRecord},
    follower::{After, Replica, TakeRecord},
};

/// The reader sleeps while more inputs than this are unapplied before a checkpoint is judged.
const FAR_BEHIND: usize = 256;

/// A record read from the journal.
#[derive(Clone, Copy)]
enum Step {
    Input(Input),
    Checkpoint(DigestRecord),
}

impl Step {
    fn input(&self) -> Option<&Input> {
        match self {
            Self::Input(input) => Some(input),
            Self::Checkpoint(_) => None,
        }
    }
}

/// Replays as [`Replica::replay`] does, with `read` on a thread of its own.
///
/// # Errors
/// The system has no room for another thread.
pub(super) fn replay_ahead<T: Send>(
    replica: &mut Replica,
    after: &mut After<'_>,
    each: &mut dyn FnMut(&OutputLine),
    read: impl FnOnce(&mut TakeRecord<'_>) -> T + Send,
) -> io::Result<T> {
    let (steps, mut steps_read) = make_ring("journal of the replay", "engine");
    let mut verdicts = Builder::new("checkpoints of the replay", 1);
    let verdicts_read = verdicts.gating("reader");
    let (mut verdicts, _) = verdicts.build();
    let mut reader =
        Reader { steps, verdicts: verdicts_read, last: replica.state.engine.sequence().0 };
    // A panic drops the ends held by this closure, so that the reader ends as well.
    thread::scope(move |scope| {
        let thread = thread::Builder::new().name("damrak-reader".to_owned());
        let thread = thread.spawn_scoped(scope, move || read(&mut |record| reader.take(record)))?;
        let mut patience = Patience::default();
        while !steps_read.is_finished() {
            let done = steps_read.poll_batch(BATCH_MAX, |mut steps| {
                let inputs = steps.clone().map_while(Step::input);
                let count = inputs.clone().count();
                replica.apply(inputs, after, each);
                let Some(Step::Checkpoint(checkpoint)) = steps.nth(count) else {
                    return count;
                };
                let verdict = verdicts.try_publish(replica.compare(checkpoint));
                assert!(verdict.is_ok(), "the reader waits for each verdict");
                count + 1
            });
            match done {
                0 => patience.wait(),
                _ => patience = Patience::default(),
            }
        }
        Ok(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

/// Takes the records on the thread that reads them.
struct Reader {
    steps: Giver<Step>,
    verdicts: Consumer<Result<(), Difference>>,
    /// The last input handed on.
    last: u64,
}

impl Reader {
    fn take(&mut self, record: &Record<'_>) -> Result<(), NotReplayed> {
        if record.kind == RecordKind::Checkpoint {
            let Some(checkpoint) = DigestRecord::decode(record.payload) else { return Ok(()) };
            self.steps.give(Step::Checkpoint(checkpoint));
            return self.verdict().map_err(NotReplayed::OtherEvents);
        }
        if record.sequence > self.last {
            self.steps.give(Step::Input(decode(record)?));
            self.last = record.sequence;
        }
        Ok(())
    }

    /// Waits for the comparison of the last checkpoint.
    fn verdict(&mut self) -> Result<(), Difference> {
        self.steps.wait(FAR_BEHIND);
        let mut patience = Patience::default();
        loop {
            let mut verdict = None;
            self.verdicts.drain(1, |found, _| verdict = Some(*found));
            if let Some(verdict) = verdict {
                return verdict;
            }
            assert!(!self.verdicts.is_closed(), "the thread that applies inputs has ended");
            patience.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use market::{Command, EventDigest, Sequence, SystemEvent, Timestamp};

    use super::*;
    use crate::{checkpoint::fingerprint, snapshot::VenueState};

    /// Kind, sequence and payload.
    type Kept = (RecordKind, u64, Vec<u8>);

    /// A journal of `count` inputs with a checkpoint after every `every`.
    fn journal(count: u64, every: u64) -> Vec<Kept> {
        let (mut state, mut records) = (VenueState::default(), Vec::new());
        for number in 1..=count {
            let command = Command::System(SystemEvent::StartOfMessages);
            let (sequence, timestamp) = (Sequence(number), Timestamp(number));
            state.apply(&Input { sequence, timestamp, command }, &mut |_| {});
            let mut payload = [0; Command::ENCODED_LEN_MAX];
            let len = command.encode(&mut payload);
            records.push((RecordKind::Input, number, payload[..len].to_vec()));
            if number.is_multiple_of(every) {
                records.push(checkpoint(number, every, state.digest));
            }
        }
        records
    }

    fn checkpoint(sequence: u64, every: u64, digest: EventDigest) -> Kept {
        let record = DigestRecord { sequence, digest, every, fingerprint: fingerprint() };
        (RecordKind::Checkpoint, sequence, record.encode().to_vec())
    }

    /// The number of records taken, and the reason why the next one was refused.
    fn read(records: &[Kept], take: &mut TakeRecord<'_>) -> (usize, Option<String>) {
        for (place, (kind, sequence, payload)) in records.iter().enumerate() {
            let (kind, sequence) = (*kind, *sequence);
            if let Err(error) = take(&Record { kind, sequence, timestamp: sequence, payload }) {
                return (place, Some(error.to_string()));
            }
        }
        (records.len(), None)
    }

    /// Replays on one thread and on two, which must agree; returns the result.
    fn replayed(records: &[Kept]) -> (usize, Option<String>) {
        let [mut alone, mut beside] = [(); 2].map(|()| Replica::default());
        let [mut passed_alone, mut passed_beside] = [(); 2].map(|()| Vec::new());
        let mut after = |input: &Input, _: &engine::Engine, digest: EventDigest| {
            passed_alone.push((input.sequence, digest));
        };
        let ended = alone.replay(&mut after, &mut |_| {}, |take| read(records, take));
        let mut after = |input: &Input, _: &engine::Engine, digest: EventDigest| {
            passed_beside.push((input.sequence, digest));
        };
        let ended_beside =
            replay_ahead(&mut beside, &mut after, &mut |_| {}, |take| read(records, take));
        assert_eq!(ended_beside.unwrap(), ended);
        assert_eq!(passed_beside, passed_alone);
        assert_eq!(beside.state.engine.state_hash(), alone.state.engine.state_hash());
        assert_eq!(beside.digests.equal_count, alone.digests.equal_count);
        assert_eq!(beside.digests.unknown_count, alone.digests.unknown_count);
        ended
    }

    /// A replay with a reader of its own is the replay without one, whatever the length of the journal.
    #[test]
    fn two_threads_replay_as_one() {
        for count in [0, 1, 15, 16, 17, 100, 1_000] {
            for every in [1, 7, 16, 10_000] {
                let records = journal(count, every);
                assert_eq!(replayed(&records), (records.len(), None));
                // A reader may begin before the state.
                let twice = [&records[..], &records[..]].concat();
                assert_eq!(replayed(&twice), (twice.len(), None));
            }
        }
    }

    /// A wrong digest, or a record that is no command, ends the replay there; all inputs before it are applied.
    #[test]
    fn a_refused_record_is_the_last_that_is_read() {
        let records = journal(100, 10);
        for place in (0..records.len()).step_by(3) {
            let mut other = records.clone();
            other[place] = match other[place].0 {
                RecordKind::Checkpoint => checkpoint(other[place].1, 10, EventDigest::from_word(7)),
                RecordKind::Input => (RecordKind::Input, other[place].1, vec![0xff; 3]),
            };
            let (refused, why) = replayed(&other);
            assert_eq!(refused, place);
            assert!(why.is_some_and(|why| why.contains("version of damrak")), "{place}");
        }
    }
}
