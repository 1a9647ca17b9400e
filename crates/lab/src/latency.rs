//! Measured latencies in nanoseconds, their percentiles, and the files that hold them.
//!
//! Start at [`Latency`]. A run keeps two of them for the same answers: one from the time at which the
//! request was due, one from the time at which it was sent. [`block`] prints both, because the second
//! hides the delay of a stalled sender (coordinated omission).

use std::sync::LazyLock;

use hdrhistogram::Histogram;

/// The longest latency that the histogram distinguishes, in nanoseconds: 60 s.
pub const LATENCY_NS_MAX: u64 = 60 * 1_000_000_000;

/// Decimal digits to which a percentile is exact.
const DIGITS: u8 = 3;

/// Buckets of the first power of two: the least power of two above 2 × 10^digits.
const SUB_BUCKETS: u64 = 2_048;

/// How many latencies of each length were seen: 1 ns to 60 s, to three digits.
///
/// Longer ones count as 60 s; only [`Percentiles::max_ns`] keeps their length.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
}

/// The figures of a [`Latency`], all in nanoseconds; all 0 if nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    pub count: u64,
    /// The shortest; exact.
    pub min_ns: u64,
    /// Half of them took at most this.
    pub p50_ns: u64,
    /// 90 % took at most this.
    pub p90_ns: u64,
    /// 99 % took at most this.
    pub p99_ns: u64,
    /// 99.9 % took at most this.
    pub p999_ns: u64,
    /// 99.99 % took at most this.
    pub p9999_ns: u64,
    /// 99.999 % took at most this.
    pub p99999_ns: u64,
    /// The longest; exact, also beyond 60 s.
    pub max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Nothing recorded. Takes about 220 KiB, and no more later.
    pub fn new() -> Self {
        static EMPTY: LazyLock<Histogram<u64>> = LazyLock::new(|| {
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
                .expect("1 to 60 s with three digits is a valid range")
        });
        Self { histogram: EMPTY.clone(), min_ns: u64::MAX, max_ns: 0 }
    }

    /// Records one latency, in nanoseconds.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Records as many latencies of one length.
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        self.histogram.saturating_record_n(latency_ns.min(LATENCY_NS_MAX), count);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds all that `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all latencies have the same range");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn clear(&mut self) {
        self.histogram.clear();
        self.min_ns = u64::MAX;
        self.max_ns = 0;
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The least latency that `quantile` (0 to 1) of the recorded ones do not exceed, in
    /// nanoseconds; 0 if nothing was recorded.
    pub fn at_quantile(&self, quantile: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        // A histogram answers with the upper edge of a bucket, which no latency may have reached.
        self.histogram.value_at_quantile(quantile).min(self.max_ns)
    }

    pub fn percentiles(&self) -> Percentiles {
        if self.count() == 0 {
            return Percentiles::default();
        }
        Percentiles {
            count: self.count(),
            min_ns: self.min_ns,
            p50_ns: self.at_quantile(0.5),
            p90_ns: self.at_quantile(0.9),
            p99_ns: self.at_quantile(0.99),
            p999_ns: self.at_quantile(0.999),
            p9999_ns: self.at_quantile(0.9999),
            p99999_ns: self.at_quantile(0.99999),
            max_ns: self.max_ns,
        }
    }

    /// How many latencies were seen at each length that was, as `(nanoseconds, count)`, in rising order; a length
    /// is the longest of those that share its bucket.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let steps = self.histogram.iter_recorded();
        steps.map(|step| {
            (step.value_iterated_to().min(self.max_ns), step.count_since_last_iteration())
        })
    }

    /// [`counts`](Self::counts) in buckets of a quarter of an octave: each `(lower bound in nanoseconds, count)`.
    pub fn coarse_counts(&self) -> Vec<(u64, u64)> {
        let mut coarse: Vec<(u64, u64)> = Vec::new();
        for (latency_ns, count) in self.counts() {
            let from_ns = quarter_octave(latency_ns);
            match coarse.last_mut() {
                Some((last_ns, of_last)) if *last_ns == from_ns => *of_last += count,
                _ => coarse.push((from_ns, count)),
            }
        }
        coarse
    }

    /// The percentile distribution as text (`.hgrm`), in microseconds: the format that HdrHistogram plotters read.
    pub fn distribution(&self) -> String {
        const TICKS_PER_HALF_DISTANCE: u32 = 5;
        let micros = |latency_ns: u64| latency_ns as f64 / 1_000.0;
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut total_count = 0;
        // An empty histogram has a quantile of its own, which no plotter expects.
        let steps = self.histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE);
        for step in steps.filter(|_| self.count() > 0) {
            total_count += step.count_since_last_iteration();
            let value = micros(step.value_iterated_to().min(self.max_ns));
            let quantile = step.quantile_iterated_to();
            text += &format!("{value:>12.3} {quantile:>14.12} {total_count:>10}");
            if quantile < 1.0 {
                text += &format!(" {:>14.2}", 1.0 / (1.0 - quantile));
            }
            text.push('\n');
        }
        let (mean, deviation) = (self.histogram.mean() / 1e3, self.histogram.stdev() / 1e3);
        let (max, count, buckets) = (micros(self.max_ns), self.count(), self.histogram.buckets());
        text += &format!("#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n");
        text += &format!("#[Max     = {max:>12.3}, Total count    = {count:>12}]\n");
        text + &format!("#[Buckets = {buckets:>12}, SubBuckets     = {SUB_BUCKETS:>12}]\n")
    }
}

/// The largest number at or below `value` that is a power of two, or a quarter, a half or three quarters of it
/// more; small numbers are themselves.
fn quarter_octave(value: u64) -> u64 {
    match value {
        0..8 => value,
        _ => value >> (value.ilog2() - 2) << (value.ilog2() - 2),
    }
}

/// Rows of percentiles under one head, one row for each `(label, percentiles)`; ends with a line
/// break.
///
/// ```text
///                         p50     p90     p99   p99.9  p99.99 p99.999     max
/// order→ack  (sched)   11.2µs  14.8µs  22.9µs  61.0µs   214µs   1.1ms   1.9ms
/// ```
pub fn block(rows: &[(&str, &Percentiles)]) -> String {
    const HEADS: [&str; 7] = ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"];
    let label_width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 1;

    let mut text = " ".repeat(label_width);
    HEADS.iter().for_each(|head| text.push_str(&format!("{head:>8}")));
    text.push('\n');
    for (label, percentiles) in rows {
        text.push_str(&format!("{label:<label_width$}"));
        let figures = [
            percentiles.p50_ns,
            percentiles.p90_ns,
            percentiles.p99_ns,
            percentiles.p999_ns,
            percentiles.p9999_ns,
            percentiles.p99999_ns,
            percentiles.max_ns,
        ];
        for figure_ns in figures {
            let figure =
                if percentiles.count == 0 { "-".to_owned() } else { duration_text(figure_ns) };
            text.push_str(&format!("{figure:>8}"));
        }
        text.push('\n');
    }
    text
}

/// A duration in readable units, in at most six characters up to 999 s: `850ns`, `11.2µs`, `214µs`, `1.1ms`, `2.0s`.
pub fn duration_text(duration_ns: u64) -> String {
    if duration_ns < 1_000 {
        return format!("{duration_ns}ns");
    }
    for (unit_ns, unit) in [(1_000, "µs"), (1_000_000, "ms")] {
        let tenths = (u128::from(duration_ns) * 10 + unit_ns / 2) / unit_ns;
        if tenths < 1_000 {
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
        let wholes = (u128::from(duration_ns) + unit_ns / 2) / unit_ns;
        if wholes < 1_000 {
            return format!("{wholes}{unit}");
        }
    }
    let tenths = (u128::from(duration_ns) * 10 + 500_000_000) / 1_000_000_000;
    if tenths < 1_000 {
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    format!("{}s", (u128::from(duration_ns) + 500_000_000) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts have every latency once; coarse ones too, in four buckets an octave.
    #[test]
    fn counts_have_every_latency_once() {
        let mut latency = Latency::new();
        for latency_ns in [1, 7, 8, 9, 10, 15, 16, 1_000, 1_279, 1_280, 1_535, 1_536, 5_000_000] {
            latency.record(latency_ns);
        }
        assert_eq!(latency.counts().map(|(_, count)| count).sum::<u64>(), 13);
        assert_eq!(latency.counts().last(), Some((5_000_000, 1)));
        let coarse = latency.coarse_counts();
        let wanted = [
            (1, 1),
            (7, 1),
            (8, 2),
            (10, 1),
            (14, 1),
            (16, 1),
            (896, 1),
            (1_024, 1),
            (1_280, 2),
            (1_536, 1),
            (4_194_304, 1),
        ];
        assert_eq!(coarse, wanted);
    }

    fn one_to(count: u64) -> Latency {
        let mut latency = Latency::new();
        (1..=count).for_each(|step| latency.record(step * 1_000));
        latency
    }

    /// Percentiles are those of the recorded values, to three digits.
    #[test]
    fn percentiles_are_exact_to_three_digits() {
        let percentiles = one_to(100_000).percentiles();
        let close = |figure_ns: u64, wanted_ns: u64| {
            let error = figure_ns.abs_diff(wanted_ns) as f64 / wanted_ns as f64;
            assert!(error <= 0.001, "{figure_ns} is not {wanted_ns}");
        };
        close(percentiles.p50_ns, 50_000_000);
        close(percentiles.p90_ns, 90_000_000);
        close(percentiles.p99_ns, 99_000_000);
        close(percentiles.p999_ns, 99_900_000);
        close(percentiles.p9999_ns, 99_990_000);
        close(percentiles.p99999_ns, 99_999_000);
        assert_eq!((percentiles.min_ns, percentiles.max_ns), (1_000, 100_000_000));
        assert_eq!(percentiles.count, 100_000);
    }

    /// Without a recorded latency there are no figures, rather than a latency of 0.
    #[test]
    fn nothing_recorded_has_no_figures() {
        let percentiles = Latency::new().percentiles();
        assert_eq!(percentiles, Percentiles::default());
        assert_eq!(block(&[("x", &percentiles)]).lines().nth(1).unwrap().matches('-').count(), 7);
    }

    /// A latency beyond the range counts as the longest, and the maximum still has its length.
    #[test]
    fn beyond_the_range_is_kept_as_the_longest() {
        let mut latency = Latency::new();
        latency.record(0);
        latency.record(3_600 * 1_000_000_000);
        let percentiles = latency.percentiles();
        assert_eq!(percentiles.count, 2);
        assert_eq!(percentiles.min_ns, 0);
        assert_eq!(percentiles.max_ns, 3_600 * 1_000_000_000);
        assert!(percentiles.p99_ns >= LATENCY_NS_MAX);
        assert!(percentiles.p99_ns < LATENCY_NS_MAX + LATENCY_NS_MAX / 500);
    }

    /// Two merged halves are the whole, and a cleared one is empty.
    #[test]
    fn merging_adds_up() {
        let (mut odd, mut even) = (Latency::new(), Latency::new());
        for step in 1..=1_000 {
            if step % 2 == 0 { &mut even } else { &mut odd }.record(step * 1_000);
        }
        odd.merge(&even);
        assert_eq!(odd.percentiles(), one_to(1_000).percentiles());
        odd.clear();
        assert_eq!(odd.percentiles(), Percentiles::default());
    }

    /// The text block, byte for byte.
    #[test]
    fn block_is_golden() {
        let scheduled = Percentiles {
            count: 6_000_000,
            min_ns: 8_000,
            p50_ns: 11_200,
            p90_ns: 14_849,
            p99_ns: 22_900,
            p999_ns: 61_000,
            p9999_ns: 214_400,
            p99999_ns: 1_120_000,
            max_ns: 1_900_000,
        };
        let sent = Percentiles { p50_ns: 999, p90_ns: 99_960, p99_ns: 999_950, ..scheduled };
        assert_eq!(
            block(&[("order→ack  (sched)", &scheduled), ("order→ack  (sent)", &sent)]),
            concat!(
                "                        p50     p90     p99   p99.9  p99.99 p99.999     max\n",
                "order→ack  (sched)   11.2µs  14.8µs  22.9µs  61.0µs   214µs   1.1ms   1.9ms\n",
                "order→ack  (sent)     999ns   100µs   1.0ms  61.0µs   214µs   1.1ms   1.9ms\n",
            )
        );
    }

    /// Durations take the largest unit that leaves a whole digit.
    #[test]
    fn durations_are_short() {
        let table = [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0µs"),
            (99_949, "99.9µs"),
            (999_499, "999µs"),
            (999_500, "1.0ms"),
            (2_000_000_000, "2.0s"),
            (100_000_000_000, "100s"),
        ];
        for (duration_ns, text) in table {
            assert_eq!(duration_text(duration_ns), text);
        }
    }

    /// The distribution has the shape that plotters read, and ends with the whole.
    #[test]
    fn distribution_is_golden() {
        let mut latency = Latency::new();
        (1..=4).for_each(|step| latency.record(step * 500));
        assert_eq!(
            latency.distribution(),
            concat!(
                "       Value     Percentile TotalCount 1/(1-Percentile)\n",
                "\n",
                "       0.500 0.000000000000          1           1.00\n",
                "       0.500 0.100000000000          1           1.11\n",
                "       0.500 0.200000000000          1           1.25\n",
                "       1.000 0.300000000000          2           1.43\n",
                "       1.000 0.400000000000          2           1.67\n",
                "       1.000 0.500000000000          2           2.00\n",
                "       1.500 0.550000000000          3           2.22\n",
                "       1.500 0.600000000000          3           2.50\n",
                "       1.500 0.650000000000          3           2.86\n",
                "       1.500 0.700000000000          3           3.33\n",
                "       2.000 0.750000000000          4           4.00\n",
                "       2.000 1.000000000000          4\n",
                "#[Mean    =        1.250, StdDeviation   =        0.559]\n",
                "#[Max     =        2.000, Total count    =            4]\n",
                "#[Buckets =           26, SubBuckets     =         2048]\n",
            )
        );
    }
}
