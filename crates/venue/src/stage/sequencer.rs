//! The sequencer's stage: gives each command its sequence and its timestamp.
//!
//! Invariant: sequences have no gap, and timestamps never go back.

use std::sync::Arc;

use gateway::{Submission, refused};
use market::{Command, Input, Timestamp};
use ring::{Agent, AgentError, AtomicGauge, Consumer, Flow, Producer};

use super::{
    Perturbation, Perturbations, Schedule, TURN_LIMIT,
    load_shedding::{self, HOLDS},
};
use crate::{
    log::{LocalLog, LogPosition, Role, SequencedLog},
    stage_times::{ONE_IN, StageTimes},
};

/// Gives each command its place and time through the log: the only part of the venue that does so.
///
/// The time of an input is the time its bytes were received, or that of the input before it if
/// that is later, so that time never goes back. If no command comes by the time of the engine's next
/// timed action, the sequencer adds an input that only carries the time ([`Command::Time`]).
///
/// Where another process leads the log, the sequencer takes nothing from the gateways; sequenced
/// commands come from the log alone.
///
/// During load shedding a new order or replace becomes a [`Command::Reject`], which is recorded: no stage after the
/// sequencer depends on the state of the journal. Once only the journal's last room is left, no commands are taken.
pub struct Sequencer<L = LocalLog> {
    sources: Vec<Consumer<Submission>>,
    inputs: Producer<Input>,
    log: L,
    /// The time of the engine's next timed action, in nanoseconds; [`u64::MAX`] is none.
    due: Arc<AtomicGauge>,
    /// The time of a [`Command::Time`] that was appended and is not sequenced yet, in ns; 0 is none.
    asked_ns: u64,
    /// The source to read first; rotates, so that no source is favored.
    turn: usize,
    /// True if the last turn found or left the ring of inputs full.
    is_full: bool,
    schedule: Option<Schedule>,
    /// Code of the reason for rejecting new orders; 0 is none.
    refusing: Option<Arc<AtomicGauge>>,
    /// Times an input through the stages now and then.
    stage_times: Option<Arc<StageTimes>>,
    perturbations: Perturbations,
}

impl<L: SequencedLog> Sequencer<L> {
    /// Continues at the end of the log.
    pub fn new(
        log: L,
        sources: Vec<Consumer<Submission>>,
        inputs: Producer<Input>,
        due: Arc<AtomicGauge>,
    ) -> Self {
        Self {
            sources,
            inputs,
            log,
            due,
            asked_ns: 0,
            turn: 0,
            is_full: false,
            schedule: None,
            refusing: None,
            stage_times: None,
            perturbations: Perturbations::default(),
        }
    }

    /// Rejects new orders and replaces for the reason whose code is in `refusing`; 0 is none.
    pub fn refusing(mut self, reason: Arc<AtomicGauge>) -> Self {
        self.refusing = Some(reason);
        self
    }

    /// Offers inputs to be timed through the stages.
    pub fn offering(mut self, stage_times: Arc<StageTimes>) -> Self {
        self.stage_times = Some(stage_times);
        self
    }

    /// Also gives the commands of a schedule, each when it is due.
    pub fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Makes the choices of a simulation now and then.
    pub fn with_perturbations(mut self, perturbations: Perturbations) -> Self {
        self.perturbations = perturbations;
        self
    }
}

impl<L: SequencedLog + 'static> Agent for Sequencer<L> {
    fn name(&self) -> &str {
        "sequencer"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let room = self.inputs.free();
        let mut free =
            self.perturbations.at_most(Perturbation::ShortSequencerTurn, room.min(TURN_LIMIT));
        let Self { sources, log, .. } = self;
        let (mut work, mut given) = (0, 0);
        // The last input of the turn that may be timed: sequence, time of receipt, source.
        let mut offered = None;
        let mut batch = self.inputs.batch();
        // The command is copied directly from one ring to the other, beside its place.
        let mut give = |place: LogPosition, command: &Command| {
            let LogPosition { sequence, timestamp } = place;
            let pushed = batch.push_with(|| Input { sequence, timestamp, command: *command });
            assert!(pushed.is_some(), "no more is given than the ring has room for");
            given += 1;
        };
        while free > 0
            && let Some(Input { sequence, timestamp, command }) = log.next()
        {
            give(LogPosition { sequence, timestamp }, &command);
            (free, work) = (free - 1, work + 1);
        }
        if log.role() == Role::Leader {
            let code = self.refusing.as_ref().map_or(0, |code| code.get());
            let refusing = load_shedding::reason(code);
            // Commands taken before are in the log; all others wait in their rings.
            free = if code & HOLDS == 0 { free.min(log.room()) } else { 0 };
            let other_first =
                usize::from(self.perturbations.happens(Perturbation::OtherSourceFirst));
            self.turn = self.turn.wrapping_add(1 + other_first);
            let count = sources.len();
            for nth in 0..count {
                let number = (self.turn + nth) % count;
                let source = &mut sources[number];
                // Each source may use its share of the room left; the last one may use the rest.
                let share = free.div_ceil(count - nth);
                let taken = source.poll(share, |submission, _| {
                    let Submission { received, command } = submission;
                    let refused = refusing.and_then(|reason| refused(command, reason));
                    let command = refused.as_ref().unwrap_or(command);
                    if let Some(place) = log.append(command, *received) {
                        give(place, command);
                        if place.sequence.0.is_multiple_of(ONE_IN) {
                            offered = Some((place.sequence.0, received.0, number));
                        }
                    }
                    Flow::Continue
                });
                (free, work) = (free - taken, work + taken);
            }
            let now = Timestamp(now_ns);
            if let Some(schedule) = self.schedule.as_mut().filter(|it| it.per_day() < free) {
                let asked = schedule.due(now_ns, |command| {
                    if let Some(place) = log.append(&command, now) {
                        give(place, &command);
                    }
                });
                (free, work) = (free - asked, work + asked);
            }
            // An input at or after that time is enough, whatever its command.
            let due_ns = self.due.get();
            let is_due = due_ns <= now_ns && log.last_timestamp().0 < due_ns;
            if is_due && self.asked_ns != due_ns && free > 0 {
                self.asked_ns = due_ns;
                if let Some(place) = log.append(&Command::Time, now) {
                    give(place, &Command::Time);
                }
                work += 1;
            }
        } else {
            // The new leader appends the time.
            self.asked_ns = 0;
        }
        self.is_full = room == given;
        // Before the input is published, so that no later stage passes it unseen.
        if let (Some((sequence, received_ns, source)), Some(times)) = (offered, &self.stage_times) {
            times.offer(sequence, received_ns, source);
        }
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use market::{Sequence, SystemEvent};
    use ring::Builder;

    use super::*;

    /// A log on which several processes agree: a command gets its place only once they agree, in an order of theirs,
    /// and leadership can move.
    struct AgreedLog {
        role: Role,
        proposed: Vec<Command>,
        agreed: VecDeque<Input>,
        last: Timestamp,
    }

    impl SequencedLog for AgreedLog {
        fn role(&self) -> Role {
            self.role
        }

        fn room(&self) -> usize {
            2 - self.proposed.len()
        }

        fn append(&mut self, command: &Command, _received: Timestamp) -> Option<LogPosition> {
            self.proposed.push(*command);
            None
        }

        fn next(&mut self) -> Option<Input> {
            let input = self.agreed.pop_front()?;
            self.last = input.timestamp;
            Some(input)
        }

        fn last_timestamp(&self) -> Timestamp {
            self.last
        }
    }

    fn submissions() -> (Producer<Submission>, Consumer<Submission>) {
        let mut ring = Builder::<Submission>::new("submissions", 8);
        let reader = ring.gating("sequencer");
        (ring.build().0, reader)
    }

    /// A command goes on only once it has its place. No more commands are taken than the log has room for. A follower
    /// takes none, adds no time, and goes on with those from the log.
    #[test]
    fn log_of_others_gives_the_places() {
        let (mut gateway, source) = submissions();
        let mut inputs = Builder::<Input>::new("inputs", 8);
        let mut engine = inputs.gating("engine");
        let (inputs, _) = inputs.build();
        let event = |event| Submission { received: Timestamp(1), command: Command::System(event) };
        for it in [
            SystemEvent::StartOfMessages,
            SystemEvent::StartOfSystemHours,
            SystemEvent::EndOfMessages,
        ] {
            assert!(gateway.try_publish(event(it)).is_ok());
        }
        let due = Arc::new(AtomicGauge::new(50));
        let log = AgreedLog {
            role: Role::Leader,
            proposed: Vec::new(),
            agreed: VecDeque::new(),
            last: Timestamp(0),
        };
        let mut taken = Vec::new();
        let mut sequencer = Sequencer::new(log, vec![source], inputs, due);
        assert_eq!(sequencer.do_work(10).unwrap(), 2, "as many as there is room for");
        assert_eq!(engine.drain(8, |_, _| ()), 0, "nobody has agreed yet");
        let proposed = std::mem::take(&mut sequencer.log.proposed);
        let places = proposed.into_iter().zip(1..);
        let agreed = places.map(|(command, number)| Input {
            sequence: Sequence(number),
            timestamp: Timestamp(20),
            command,
        });
        sequencer.log.agreed.extend(agreed);
        sequencer.log.role = Role::Follower;
        assert_eq!(sequencer.do_work(60).unwrap(), 2);
        engine.drain(8, |input, _| taken.push((input.sequence.0, input.timestamp.0)));
        assert_eq!(taken, [(1, 20), (2, 20)]);
        assert!(sequencer.log.proposed.is_empty(), "a follower appends nothing, not even time");
        sequencer.log.role = Role::Leader;
        assert_eq!(sequencer.do_work(60).unwrap(), 2);
        assert_eq!(
            sequencer.log.proposed,
            [Command::System(SystemEvent::EndOfMessages), Command::Time]
        );
        sequencer.log.proposed.clear();
        assert_eq!(sequencer.do_work(61).unwrap(), 0, "time is asked to pass once");
    }
}
