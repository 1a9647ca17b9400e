//! When requests are due: an open loop, which does not wait for answers.
//!
//! An [`ArrivalSchedule`] is a fixed list of times. A sender that comes late finds them still there, one
//! by one, and latency counts from them, so a stall of the sender or of the venue shows in every
//! request that it delayed.

use proof::rng::Rng;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps alike: the n-th arrival at n / rate, exact, without drift.
    Fixed,
    /// Gaps drawn from the exponential distribution: independent arrivals.
    Poisson,
}

/// The rate over time: steady, or a ramp; singly or in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalShape {
    /// Arrivals a second at the start; at least 1.
    pub rate_per_second: u64,
    /// The rate reached at the end of the ramp, at least 1, and its length in nanoseconds; the rate then
    /// stays.
    pub ramp: Option<(u64, u64)>,
    /// This many arrivals come at a time, that of the first of them; at least 1.
    pub burst: u64,
}

impl ArrivalShape {
    /// The same rate always, one arrival at a time.
    pub fn steady(rate_per_second: u64) -> Self {
        Self { rate_per_second, ramp: None, burst: 1 }
    }

    /// When arrival number `index`, which may have a fraction, comes, in nanoseconds from the start.
    fn time_ns(&self, index: f64) -> u64 {
        let from = self.rate_per_second as f64 / NANOS_PER_SECOND as f64;
        let Some((to_per_second, ramp_ns)) = self.ramp else { return (index / from) as u64 };
        let (to, ramp) = (to_per_second as f64 / NANOS_PER_SECOND as f64, ramp_ns as f64);
        let in_ramp = (from + to) / 2.0 * ramp;
        if index >= in_ramp {
            return (ramp + (index - in_ramp) / to) as u64;
        }
        // The arrivals until t are from × t + slope × t², which this solves without losing digits.
        let slope = (to - from) / (2.0 * ramp);
        (2.0 * index / (from + (from * from + 4.0 * slope * index).max(0.0).sqrt())) as u64
    }
}

/// Endless arrival times, in nanoseconds, never decreasing. The same arguments give the same times.
#[derive(Clone, Debug)]
pub struct ArrivalSchedule {
    shape: ArrivalShape,
    start_ns: u64,
    next_ns: u64,
    gaps: Gaps,
    parts: u64,
}

#[derive(Clone, Debug)]
enum Gaps {
    /// The next arrival of all parts that is this part's.
    Fixed { index: u64 },
    /// The same, with a fraction; 53 bits hold 100 days at 1 G/s.
    Poisson { index: f64, rng: Rng },
}

impl ArrivalSchedule {
    /// Part `part` of `parts` that together have this shape from `start_ns` on: for fixed arrivals every
    /// `parts`-th of them, exactly; for Poisson arrivals as many on average, and independent of the other
    /// parts. A fixed schedule ignores the seed.
    ///
    /// # Panics
    /// If a rate or the burst is 0, or the part is not below the number of parts.
    pub fn part(
        arrivals: Arrivals,
        shape: ArrivalShape,
        start_ns: u64,
        seed: u64,
        part: u64,
        parts: u64,
    ) -> Self {
        let has_rate = shape.rate_per_second > 0 && shape.ramp.is_none_or(|(to, _)| to > 0);
        assert!(has_rate && shape.burst > 0, "a schedule of no arrivals");
        assert!(part < parts, "part {part} of {parts}");
        let gaps = match arrivals {
            Arrivals::Fixed => Gaps::Fixed { index: part },
            Arrivals::Poisson => Gaps::Poisson {
                index: 0.0,
                rng: Rng::new(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            },
        };
        let mut schedule = Self { shape, start_ns, next_ns: start_ns, gaps, parts };
        if let Gaps::Poisson { .. } = schedule.gaps {
            schedule.step();
        }
        schedule.next_ns = schedule.time_ns();
        schedule
    }

    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next arrival, and gives the time at which it was due.
    pub fn take_next(&mut self) -> u64 {
        let due_ns = self.next_ns;
        self.step();
        self.next_ns = self.time_ns();
        due_ns
    }

    /// On to the next arrival of this part.
    fn step(&mut self) {
        match &mut self.gaps {
            Gaps::Fixed { index } => *index += self.parts,
            Gaps::Poisson { index, rng } => {
                let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64; // 0 <= unit < 1
                *index -= (1.0 - unit).ln() * self.parts as f64;
            }
        }
    }

    fn time_ns(&self) -> u64 {
        let burst = self.shape.burst;
        let elapsed_ns = match self.gaps {
            Gaps::Fixed { index } => {
                let index = index - index % burst;
                if self.shape.ramp.is_none() {
                    let rate = self.shape.rate_per_second;
                    // A division of 128 bits takes several times as long as one of 64.
                    index.checked_mul(NANOS_PER_SECOND).map_or_else(
                        || {
                            let elapsed_ns =
                                u128::from(index) * u128::from(NANOS_PER_SECOND) / u128::from(rate);
                            u64::try_from(elapsed_ns).expect("a run of less than 500 years")
                        },
                        |scaled| scaled / rate,
                    )
                } else {
                    self.shape.time_ns(index as f64)
                }
            }
            Gaps::Poisson { index, .. } if burst == 1 => self.shape.time_ns(index),
            Gaps::Poisson { index, .. } => {
                self.shape.time_ns((index / burst as f64).floor() * burst as f64)
            }
        };
        self.start_ns + elapsed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1_700_000_000_000_000_000;

    fn times(mut schedule: ArrivalSchedule, count: usize) -> Vec<u64> {
        (0..count).map(|_| schedule.take_next() - START_NS).collect()
    }

    fn steady(arrivals: Arrivals, rate_per_second: u64, seed: u64) -> ArrivalSchedule {
        let shape = ArrivalShape::steady(rate_per_second);
        ArrivalSchedule::part(arrivals, shape, START_NS, seed, 0, 1)
    }

    /// Fixed arrivals fall on n / rate, also where the gap is not a whole number of nanoseconds.
    #[test]
    fn fixed_arrivals_do_not_drift() {
        let schedule = steady(Arrivals::Fixed, 3, 0);
        assert_eq!(
            times(schedule.clone(), 5),
            [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333]
        );
        assert_eq!(times(schedule, 3_000_001).last(), Some(&(1_000_000 * NANOS_PER_SECOND)));
    }

    /// Part by part the fixed arrivals are the whole, each once.
    #[test]
    fn parts_make_the_whole() {
        let ramp = ArrivalShape { ramp: Some((20, NANOS_PER_SECOND)), ..ArrivalShape::steady(7) };
        for shape in [ArrivalShape::steady(7), ramp, ArrivalShape { burst: 4, ..ramp }] {
            let part = |part, parts| {
                ArrivalSchedule::part(Arrivals::Fixed, shape, START_NS, 0, part, parts)
            };
            let whole = times(part(0, 1), 21);
            let mut parts: Vec<u64> = (0..3).flat_map(|index| times(part(index, 3), 7)).collect();
            parts.sort_unstable();
            assert_eq!(parts, whole);
        }
    }

    /// A ramp of a second from 1,000/s to 3,000/s has 2,000 arrivals, of which 750 are in the first half;
    /// then the rate stays. A ramp down is its mirror.
    #[test]
    fn ramps_rise_evenly() {
        let ramp = |from, to| {
            let shape =
                ArrivalShape { ramp: Some((to, NANOS_PER_SECOND)), ..ArrivalShape::steady(from) };
            times(ArrivalSchedule::part(Arrivals::Fixed, shape, START_NS, 0, 0, 1), 5_001)
        };
        let until = |times: &[u64], ns| times.iter().filter(|time_ns| **time_ns < ns).count();
        let up = ramp(1_000, 3_000);
        assert!(up.is_sorted());
        assert!(until(&up, NANOS_PER_SECOND / 2).abs_diff(750) <= 1);
        assert!(until(&up, NANOS_PER_SECOND).abs_diff(2_000) <= 1);
        assert!(until(&up, 2 * NANOS_PER_SECOND).abs_diff(5_000) <= 1);
        let down = ramp(3_000, 1_000);
        assert!(down.is_sorted());
        assert!(until(&down, NANOS_PER_SECOND / 2).abs_diff(1_250) <= 1);
        assert!(until(&down, 2 * NANOS_PER_SECOND).abs_diff(3_000) <= 1);
    }

    /// The arrivals of a burst share the time of the first; the rate stays.
    #[test]
    fn bursts_share_a_time() {
        let shape = ArrivalShape { burst: 3, ..ArrivalShape::steady(1_000) };
        let schedule = ArrivalSchedule::part(Arrivals::Fixed, shape, START_NS, 0, 0, 1);
        let millis: Vec<u64> =
            times(schedule, 8).iter().map(|time_ns| time_ns / 1_000_000).collect();
        assert_eq!(millis, [0, 0, 0, 3, 3, 3, 6, 6]);
    }

    /// Poisson gaps have the mean and the spread of the exponential distribution, and repeat from
    /// their seed.
    #[test]
    fn poisson_gaps_are_exponential() {
        const COUNT: usize = 200_000;
        let schedule = steady(Arrivals::Poisson, 1_000_000, 42);
        let times_ns = times(schedule.clone(), COUNT);
        assert_eq!(times_ns, times(schedule, COUNT));
        assert_ne!(times_ns[..9], times(steady(Arrivals::Poisson, 1_000_000, 43), 9)[..]);

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
