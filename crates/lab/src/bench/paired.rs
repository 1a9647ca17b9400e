//! Rows of a benchmark: our own code beside a plain loop over the same bytes, in turns.
//!
//! Invariant: both sides of a row run on the same thread, one right after the other, as often as each other.

use os::{InstructionCounter, thread_cpu_ns};
use serde::Serialize;

use super::Runs;

/// Our own code beside its plain loop.
#[derive(Clone, Debug, Serialize)]
pub struct PairedRow {
    pub name: &'static str,
    /// The work of a plain loop over the same bytes, in words.
    pub beside: &'static str,
    /// The unit of `count`.
    pub per: &'static str,
    pub count: u64,
    /// CPU time of the thread per unit, in nanoseconds.
    pub ns: Runs,
    pub beside_ns: Runs,
    /// User-mode instructions per unit; `None` where the machine does not count them.
    pub instructions: Option<f64>,
    /// The target, if there is one.
    pub target: Option<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// At most this multiple of the plain loop's time.
    RatioMax(f64),
    /// At least this many a second, on the machine of the origin that published the figure.
    PerSecond(f64),
    /// At least this many a second, or this share of the plain loop's rate.
    PerSecondOrShare(f64, f64),
}

impl PairedRow {
    /// The median ratio of its time to that of the plain loop, over runs made next to each other.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let pairs = self.ns.all().iter().zip(self.beside_ns.all());
        pairs.map(|(own, beside)| own / beside).collect::<Runs>().median()
    }

    /// Units a second, by the median.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        1e9 / self.ns.median()
    }

    /// True if this run reached the target; `None` without one.
    #[must_use]
    pub fn is_reached(&self) -> Option<bool> {
        Some(match self.target? {
            Target::RatioMax(most) => self.ratio() <= most,
            Target::PerSecond(least) => self.per_second() >= least,
            Target::PerSecondOrShare(least, share) => {
                self.per_second() >= least || 1.0 / self.ratio() >= share
            }
        })
    }

    /// A row without measurements.
    pub(super) fn new(
        name: &'static str,
        (beside, per): (&'static str, &'static str),
        count: u64,
        target: Option<Target>,
    ) -> Self {
        let (ns, beside_ns) = (Runs::default(), Runs::default());
        Self { name, beside, per, count, ns, beside_ns, instructions: None, target }
    }

    /// Takes a turn of each: the plain loop, then ours.
    pub(super) fn turn(&mut self, beside: impl FnOnce(), own: impl FnOnce()) {
        let (beside_ns, _) = timed(self.count, beside);
        let (ns, instructions) = timed(self.count, own);
        self.beside_ns.push(beside_ns);
        self.ns.push(ns);
        self.instructions =
            self.instructions.into_iter().chain(instructions).min_by(f64::total_cmp);
    }
}

/// CPU time and instructions of some work, for each of `count`.
fn timed(count: u64, work: impl FnOnce()) -> (f64, Option<f64>) {
    let mut counter = InstructionCounter::start();
    let mut read = || counter.as_mut().and_then(InstructionCounter::count);
    let before = read();
    let started = thread_cpu_ns();
    work();
    let ns = thread_cpu_ns() - started;
    let instructions = before.zip(read()).map(|(before, after)| (after - before) as f64);
    let each = count.max(1) as f64;
    (ns as f64 / each, instructions.map(|it| it / each))
}

/// A sum over all bytes, as words: the plain loop beside the code that reads them.
#[inline(never)]
pub fn scan(flow: &[u8]) -> u64 {
    let words = flow.chunks_exact(8);
    let rest = words.remainder().iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    words.fold(rest, |sum, bytes| sum.wrapping_add(word(bytes)))
}
