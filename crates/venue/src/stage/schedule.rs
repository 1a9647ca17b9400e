use market::{Command, NANOS_PER_DAY, Timestamp, VenueCommand};

/// Commands that the venue gives at a time of each day, in UTC.
pub struct Schedule {
    /// Nanoseconds after midnight, earliest first.
    entries: Vec<(u64, VenueCommand)>,
    /// Everything that was due by then was given.
    given_ns: u64,
}

impl Schedule {
    /// Goes on after `last`, the time of the last input, but not with what was due on days before
    /// `now_ns`.
    #[must_use]
    pub fn new(mut entries: Vec<(u64, VenueCommand)>, last: Timestamp, now_ns: u64) -> Self {
        entries.sort_by_key(|(at_ns, _)| *at_ns);
        let midnight_ns = now_ns - now_ns % NANOS_PER_DAY;
        Self { entries, given_ns: last.0.max(midnight_ns.saturating_sub(1)) }
    }

    /// All commands that are due by now and were not given yet, in their order.
    pub fn due(&mut self, now_ns: u64, mut give: impl FnMut(Command)) -> usize {
        if self.entries.is_empty() || now_ns <= self.given_ns {
            return 0;
        }
        // No more than a day of them at a time, however long nobody asked.
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

    /// How many commands a day has.
    #[must_use]
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

    /// Each command is given once a day; a venue that starts late gives those of the day that it
    /// missed, and none of days before.
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
