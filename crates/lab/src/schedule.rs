//! When requests are due: an open loop, which does not wait for answers.
//!
//! A [`ArrivalSchedule`] is a fixed list of times. A sender that comes late finds them still there, one
//! by one, and latency counts from them, so a stall of the sender or of the venue shows in every
//! request that it delayed.

use proof::rng::Rng;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps alike: the n-th arrival at n / rate, exact, without drift.
    Fixed,
    /// Gaps drawn from the exponential distribution: arrivals that know nothing of each other.
    Poisson,
}

/// Endless arrival times, in nanoseconds, never decreasing. The same arguments give the same times.
#[derive(Clone, Debug)]
pub struct ArrivalSchedule {
    start_ns: u64,
    next_ns: u64,
    gaps: Gaps,
}

#[derive(Clone, Debug)]
enum Gaps {
    /// Arrival `index` of `rate_per_second`; the next of this part is `parts` further on.
    Fixed { rate_per_second: u64, index: u64, parts: u64 },
    /// `elapsed_ns` since the start, with its fraction; 53 bits hold 100 days of nanoseconds.
    Poisson { gap_ns_mean: f64, elapsed_ns: f64, rng: Rng },
}

impl ArrivalSchedule {
    /// Arrivals from `start_ns` on, `rate_per_second` of them on average. A fixed schedule begins
    /// at `start_ns` and ignores the seed.
    pub fn new(arrivals: Arrivals, rate_per_second: u64, start_ns: u64, seed: u64) -> Self {
        Self::part(arrivals, rate_per_second, start_ns, seed, 0, 1)
    }

    /// Part `part` of `parts` that together make the schedule that [`new`](Self::new) would make
    /// at this rate: for fixed arrivals every `parts`-th of them, exactly; for Poisson arrivals
    /// as many on average, and independent of the other parts.
    ///
    /// # Panics
    /// If the rate is 0, or the part is not below the number of parts.
    pub fn part(
        arrivals: Arrivals,
        rate_per_second: u64,
        start_ns: u64,
        seed: u64,
        part: u64,
        parts: u64,
    ) -> Self {
        assert!(rate_per_second > 0, "a schedule of no arrivals");
        assert!(part < parts, "part {part} of {parts}");
        let gaps = match arrivals {
            Arrivals::Fixed => Gaps::Fixed { rate_per_second, index: part, parts },
            Arrivals::Poisson => Gaps::Poisson {
                gap_ns_mean: NANOS_PER_SECOND as f64 * parts as f64 / rate_per_second as f64,
                elapsed_ns: 0.0,
                rng: Rng::new(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            },
        };
        let mut schedule = Self { start_ns, next_ns: start_ns, gaps };
        match &schedule.gaps {
            Gaps::Fixed { .. } => schedule.next_ns = schedule.fixed_ns(part),
            Gaps::Poisson { .. } => schedule.advance(),
        }
        schedule
    }

    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next arrival, and says when it was due.
    pub fn take_next(&mut self) -> u64 {
        let due_ns = self.next_ns;
        self.advance();
        due_ns
    }

    /// How many arrivals are due by `now_ns` and were not taken.
    pub fn due(&self, now_ns: u64) -> u64 {
        if now_ns < self.next_ns {
            return 0;
        }
        match &self.gaps {
            Gaps::Fixed { rate_per_second, index, parts } => {
                // The last arrival by now is the largest i with i × 10^9 / rate < elapsed + 1.
                let elapsed_ns = u128::from(now_ns - self.start_ns);
                let bound = (elapsed_ns + 1) * u128::from(*rate_per_second);
                let index_last = (bound - 1) / u128::from(NANOS_PER_SECOND);
                let more = (index_last - u128::from(*index)) / u128::from(*parts);
                u64::try_from(more).expect("at most one arrival a clock tick and rate") + 1
            }
            Gaps::Poisson { .. } => {
                let mut ahead = self.clone();
                let mut count = 0;
                while ahead.next_ns <= now_ns {
                    ahead.advance();
                    count += 1;
                }
                count
            }
        }
    }

    fn advance(&mut self) {
        match &mut self.gaps {
            Gaps::Fixed { index, parts, .. } => {
                *index += *parts;
                let index = *index;
                self.next_ns = self.fixed_ns(index);
            }
            Gaps::Poisson { gap_ns_mean, elapsed_ns, rng } => {
                let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64; // 0 <= unit < 1
                *elapsed_ns -= (1.0 - unit).ln() * *gap_ns_mean;
                self.next_ns = self.start_ns + *elapsed_ns as u64;
            }
        }
    }

    fn fixed_ns(&self, index: u64) -> u64 {
        let Gaps::Fixed { rate_per_second, .. } = self.gaps else {
            unreachable!("only fixed arrivals have an index")
        };
        let elapsed_ns =
            u128::from(index) * u128::from(NANOS_PER_SECOND) / u128::from(rate_per_second);
        self.start_ns + u64::try_from(elapsed_ns).expect("a run of less than 500 years")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1_700_000_000_000_000_000;

    fn times(mut schedule: ArrivalSchedule, count: usize) -> Vec<u64> {
        (0..count).map(|_| schedule.take_next() - START_NS).collect()
    }

    /// Fixed arrivals fall on n / rate, also where the gap is not a whole number of nanoseconds.
    #[test]
    fn fixed_arrivals_do_not_drift() {
        let schedule = ArrivalSchedule::new(Arrivals::Fixed, 3, START_NS, 0);
        assert_eq!(
            times(schedule.clone(), 5),
            [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333]
        );
        assert_eq!(times(schedule, 3_000_001).last(), Some(&(1_000_000 * NANOS_PER_SECOND)));
    }

    /// What is due is exactly what taking one by one would find, at the edges too.
    #[test]
    fn due_counts_what_was_not_taken() {
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            for rate_per_second in [1, 3, 7, 1_000, 999_983, 3_000_000_000] {
                let mut schedule = ArrivalSchedule::new(arrivals, rate_per_second, START_NS, 5);
                for _ in 0..10 {
                    schedule.take_next();
                }
                let mut ahead = schedule.clone();
                let due_ns: Vec<u64> = (0..20).map(|_| ahead.take_next()).collect();
                for now_ns in due_ns.iter().flat_map(|due_ns| [due_ns - 1, *due_ns]) {
                    let one_by_one = due_ns.iter().filter(|due_ns| **due_ns <= now_ns).count();
                    let due = schedule.due(now_ns);
                    // Beyond the twenty looked at, more may be due at the same nanosecond.
                    if one_by_one < due_ns.len() {
                        assert_eq!(due, one_by_one as u64, "{arrivals:?} at {rate_per_second}/s");
                    } else {
                        assert!(due >= 20, "{arrivals:?} at {rate_per_second}/s");
                    }
                }
                assert_eq!(schedule.due(0), 0);
            }
        }
    }

    /// Part by part the fixed arrivals are the whole, each once.
    #[test]
    fn parts_make_the_whole() {
        let whole = times(ArrivalSchedule::new(Arrivals::Fixed, 7, START_NS, 0), 21);
        let mut parts: Vec<u64> = (0..3)
            .flat_map(|part| {
                times(ArrivalSchedule::part(Arrivals::Fixed, 7, START_NS, 0, part, 3), 7)
            })
            .collect();
        parts.sort_unstable();
        assert_eq!(parts, whole);
    }

    /// Poisson gaps have the mean and the spread of the exponential distribution, and repeat from
    /// their seed.
    #[test]
    fn poisson_gaps_are_exponential() {
        const COUNT: usize = 200_000;
        let schedule = ArrivalSchedule::new(Arrivals::Poisson, 1_000_000, START_NS, 42);
        let times_ns = times(schedule.clone(), COUNT);
        assert_eq!(times_ns, times(schedule, COUNT));
        assert_ne!(
            times_ns[..9],
            times(ArrivalSchedule::new(Arrivals::Poisson, 1_000_000, START_NS, 43), 9)[..]
        );

        let gaps_ns: Vec<u64> = times_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean_ns = gaps_ns.iter().sum::<u64>() as f64 / gaps_ns.len() as f64;
        assert!((990.0..1_010.0).contains(&mean_ns), "mean {mean_ns}");
        // Of exponential gaps a share of 1/e is longer than the mean, and 1/e² than twice that.
        let share = |bound_ns| {
            gaps_ns.iter().filter(|gap_ns| **gap_ns > bound_ns).count() as f64
                / gaps_ns.len() as f64
        };
        assert!((0.358..0.378).contains(&share(1_000)), "{}", share(1_000));
        assert!((0.125..0.145).contains(&share(2_000)), "{}", share(2_000));
    }
}
