//! The daily schedule: commands that change phases at set times of the day, in UTC.
//!
//! Invariant: each command is given at most once a day; those of days before the start are never given.

use market::{Command, NANOS_PER_DAY, Timestamp, VenueCommand};

/// The commands that the venue gives at a time of each day, in UTC.
pub struct Schedule {
    /// Commands with their times, in nanoseconds after midnight, earliest first.
    entries: Vec<(u64, VenueCommand)>,
    /// Every command due by this time was given, in ns since the Unix epoch.
    given_ns: u64,
}

impl Schedule {
    /// Continues after `last`, the time of the last input. Skips commands that were due before the day
    /// of `now_ns`.
    pub fn new(mut entries: Vec<(u64, VenueCommand)>, last: Timestamp, now_ns: u64) -> Self {
        entries.sort_by_key(|(at_ns, _)| *at_ns);
        let midnight_ns = now_ns - now_ns % NANOS_PER_DAY;
        Self { entries, given_ns: last.0.max(midnight_ns.saturating_sub(1)) }
    }

    /// Gives the commands due by `now_ns` and not given yet, in order.
    pub fn due(&mut self, now_ns: u64, mut give: impl FnMut(Command)) -> usize {
        if self.entries.is_empty() || now_ns <= self.given_ns {
            return 0;
        }
        // At most one day of commands per call, however long ago the last call was.
        self.given_ns = self.given_ns.max(now_ns.saturating_sub(NANOS_PER_DAY));
        let mut count = 0;
        let mut day_ns = self.given_ns - self.given_ns % NANOS_PER_DAY;
        while day_ns <= now_ns {
            for (at_ns, command) in &self.entries {
                let moment = day_ns + at_ns;
                if self.given_ns < moment && moment <= now_ns {
                    give(Command::Venue(*command));
                    count += 1;
                }
            }
            day_ns += NANOS_PER_DAY;
        }
        self.given_ns = now_ns;
        count
    }

    pub fn per_day(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use market::{Phase, SetPhase, Symbol};

    use super::*;

    fn command(phase: Phase) -> VenueCommand {
        VenueCommand::SetPhase(SetPhase::new(Symbol::BLANK, phase))
    }

    fn given(schedule: &mut Schedule, now_ns: u64) -> Vec<Phase> {
        let mut phases = Vec::new();
        schedule.due(now_ns, |command| match command {
            Command::Venue(VenueCommand::SetPhase(set)) => phases.push(set.phase),
            other => panic!("{other:?}"),
        });
        phases
    }

    /// Each command is given once a day. A venue that starts late gives the commands of the day that it missed, and
    /// none of earlier days.
    #[test]
    fn commands_are_given_once_a_day() {
        let day = |number: u64, ns: u64| number * NANOS_PER_DAY + ns;
        let entries = vec![(20, command(Phase::Closed)), (10, command(Phase::PreOpen))];
        let mut schedule = Schedule::new(entries.clone(), Timestamp(0), day(5, 15));
        assert_eq!(given(&mut schedule, day(5, 15)), [Phase::PreOpen]);
        assert_eq!(given(&mut schedule, day(5, 19)), []);
        assert_eq!(given(&mut schedule, day(5, 20)), [Phase::Closed]);
        assert_eq!(given(&mut schedule, day(6, 30)), [Phase::PreOpen, Phase::Closed]);
        let mut again = Schedule::new(entries, Timestamp(day(5, 12)), day(5, 30));
        assert_eq!(given(&mut again, day(5, 30)), [Phase::Closed]);
    }
}
