//! Queues between threads on the same work: the ring of the venue, the channel of the standard library, rivals.
//!
//! Start at [`Queue`], the interface of a queue, and [`measure`], which runs several in turns. The loops are the same
//! for all: a writer offers values until they are taken, a reader takes the values there are, and a thread that finds
//! nothing to do spins, then yields. So a queue's own way to wait is not measured.
//!
//! Invariant: each reader sees every value once and in order, or its queue does not agree; this is judged here.

use std::{
    hint,
    path::PathBuf,
    sync::{
        Barrier,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use os::thread_cpu_ns;
use ring::{Builder, Consumer, Producer};
use serde::{Deserialize, Serialize};

use super::{
    Runs,
    rivals::{Program, RivalError},
};
use venue::clock::SystemClock;

/// A value of `WORDS` words of 8 bytes; each word is its number, from 1.
pub type QueueValue<const WORDS: usize> = [u64; WORDS];

/// A bounded queue from one writer to some readers, each of which sees every value.
pub trait Queue {
    /// With the version, for a rival.
    const NAME: &'static str;
    type Writer<const WORDS: usize>: WriteWords<WORDS>;
    type Reader<const WORDS: usize>: ReadWords<WORDS>;

    /// A queue of `slots` values, a power of two; `None` if it cannot have that many readers.
    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)>;
}

/// The writing end of a queue.
pub trait WriteWords<const WORDS: usize>: Send {
    /// Writes the values from `first` on as far as there is room, at most `count`, and shows them to the readers at
    /// once where the queue can. Gives the number written.
    fn write(&mut self, first: u64, count: usize) -> usize;
}

/// A reading end of a queue.
pub trait ReadWords<const WORDS: usize>: Send {
    /// Shows the values there are, at most `limit`, and gives their number.
    fn read(&mut self, limit: usize, see: impl FnMut(&QueueValue<WORDS>)) -> usize;
}

/// The value with this number: each word holds the number.
#[must_use]
pub fn value<const WORDS: usize>(number: u64) -> QueueValue<WORDS> {
    [number; WORDS]
}

/// Writes values one by one, as far as `push` takes them: for a queue that cannot take several at a time.
pub fn write_each<const WORDS: usize>(
    first: u64,
    count: usize,
    mut push: impl FnMut(QueueValue<WORDS>) -> bool,
) -> usize {
    (first..).take(count).take_while(|number| push(value(*number))).count()
}

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub name: &'static str,
    /// Bytes of a value: 8 or 128, the size of a slot in the venue's rings.
    pub bytes: usize,
    /// Threads that read. 0: the writing thread reads too, in turns.
    pub readers: usize,
    /// Values written at a time.
    pub batch: usize,
    /// Whether each value comes back through a second queue before the next is written.
    pub is_round_trip: bool,
}

/// The kinds of work, in the order of the table.
pub const WORKS: [Work; 6] = [
    Work { name: "single", bytes: 8, readers: 1, batch: 1, is_round_trip: false },
    Work { name: "batch", bytes: 8, readers: 1, batch: 16, is_round_trip: false },
    Work { name: "event", bytes: 128, readers: 1, batch: 1, is_round_trip: false },
    Work { name: "fan-out", bytes: 128, readers: 3, batch: 16, is_round_trip: false },
    Work { name: "round-trip", bytes: 8, readers: 1, batch: 1, is_round_trip: true },
    Work { name: "one-thread", bytes: 8, readers: 0, batch: 64, is_round_trip: false },
];

/// A round trip takes longer than a value of a stream; so there are fewer.
const ROUND_TRIPS_OF: u64 = 10;

impl Work {
    /// The kind of work with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        WORKS.into_iter().find(|work| work.name == name)
    }

    fn count(&self, values: u64) -> u64 {
        if self.is_round_trip { (values / ROUND_TRIPS_OF).max(1) } else { values }
    }

    /// The digests that the readers must have.
    fn expected(&self, values: u64) -> Vec<u64> {
        let mut seen = Seen::default();
        (1..=self.count(values)).for_each(|number| seen.add(&value::<1>(number)));
        vec![seen.digest; self.readers.max(1)]
    }
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Values of a run; round trips are a tenth as many.
    pub values: u64,
    /// Slots of a queue, a power of two.
    pub slots: usize,
    /// Runs of each queue, in turns with the others.
    pub runs: usize,
}

/// One run of one queue.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct QueueRun {
    /// Time by value, or by round trip: wall time, or CPU time of the thread where there is but one.
    pub ns_per_value: f64,
    /// The digest of each reader: a number that depends on every value and on their order.
    #[serde(with = "as_text")]
    pub digests: Vec<u64>,
}

/// As text: many readers of JSON lose digits of 64-bit integers.
mod as_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
        numbers.iter().map(|it| format!("{it:016x}")).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let numbers = texts.iter().map(|text| u64::from_str_radix(text, 16));
        numbers.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
    }
}

/// A queue to measure, independent of its types.
#[derive(Clone, Copy, Debug)]
pub struct QueueEntrant {
    name: &'static str,
    run: fn(&Work, u64, usize) -> Option<QueueRun>,
}

impl QueueEntrant {
    #[must_use]
    pub const fn of<Q: Queue>() -> Self {
        Self { name: Q::NAME, run: run::<Q> }
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// One run; `None` if the queue cannot do this work.
    #[must_use]
    pub fn run(&self, work: &Work, values: u64, slots: usize) -> Option<QueueRun> {
        (self.run)(work, values, slots)
    }
}

/// The queues that need no third party.
pub const QUEUES: [QueueEntrant; 2] =
    [QueueEntrant::of::<VenueRing>(), QueueEntrant::of::<StandardChannel>()];

/// The figures of a queue in one kind of work.
#[derive(Clone, Debug, Serialize)]
pub struct QueueRow {
    pub work: &'static str,
    pub queue: String,
    /// One value per run; without any, the queue cannot do this work.
    pub ns_per_value: Runs,
    /// False if a reader missed a value, saw one twice or in another order.
    pub agrees: bool,
    /// True for a queue of a rival, in a process of its own.
    pub rival: bool,
}

/// Runs our queues and those of the programs at `rivals` in turns, so that other work of the machine affects all alike.
///
/// # Errors
/// A rival does not start, ends, or gives an answer that cannot be read.
pub fn measure(options: &QueueOptions, rivals: &[PathBuf]) -> Result<Vec<QueueRow>, RivalError> {
    let mut programs = rivals
        .iter()
        .map(|path| Program::start(path, "queues".as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for work in &WORKS {
        let names = QUEUES.iter().map(|queue| (queue.name.to_owned(), false));
        let others = programs.iter().flat_map(Program::engines).map(|name| (name.clone(), true));
        let mut these: Vec<_> = names
            .chain(others)
            .map(|(queue, rival)| QueueRow {
                work: work.name,
                queue,
                ns_per_value: Runs::default(),
                agrees: true,
                rival,
            })
            .collect();
        let expected = work.expected(options.values);
        for _ in 0..options.runs {
            let mut runs: Vec<_> =
                QUEUES.iter().map(|it| it.run(work, options.values, options.slots)).collect();
            for program in &mut programs {
                runs.extend(program.queue_runs(work, options)?);
            }
            for (row, run) in these.iter_mut().zip(runs) {
                let Some(run) = run else { continue };
                row.agrees &= run.digests == expected;
                row.ns_per_value.push(run.ns_per_value);
            }
        }
        rows.append(&mut these);
    }
    Ok(rows)
}

/// The values that a reader saw so far.
#[derive(Debug, Default)]
struct Seen {
    count: u64,
    digest: u64,
}

impl Seen {
    /// The first and the last word go in, so a value is fetched whole.
    #[inline(always)]
    fn add<const WORDS: usize>(&mut self, value: &QueueValue<WORDS>) {
        self.count += 1;
        let word = value[0] ^ value[WORDS - 1].rotate_left(32);
        self.digest = self.digest.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word);
    }
}

/// Waits without a system call as long as that may help.
#[derive(Default)]
struct Wait {
    spins: u32,
}

impl Wait {
    const SPINS: u32 = 256;

    #[inline(always)]
    fn turn(&mut self, worked: usize) {
        if worked > 0 {
            self.spins = 0;
        } else if self.spins < Self::SPINS {
            self.spins += 1;
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

fn run<Q: Queue>(work: &Work, values: u64, slots: usize) -> Option<QueueRun> {
    match work.bytes {
        8 => run_words::<Q, 1>(work, values, slots),
        128 => run_words::<Q, 16>(work, values, slots),
        bytes => unreachable!("no work has values of {bytes} bytes"),
    }
}

fn run_words<Q: Queue, const WORDS: usize>(
    work: &Work,
    values: u64,
    slots: usize,
) -> Option<QueueRun> {
    let count = work.count(values);
    let (ns, digests) = if work.is_round_trip {
        round_trips::<Q, WORDS>(count, slots)?
    } else if work.readers == 0 {
        one_thread::<Q, WORDS>(count, work.batch, slots)?
    } else {
        stream::<Q, WORDS>(count, work, slots)?
    };
    Some(QueueRun { ns_per_value: ns as f64 / count as f64, digests })
}

/// One thread writes, the others read.
fn stream<Q: Queue, const WORDS: usize>(
    count: u64,
    work: &Work,
    slots: usize,
) -> Option<(u64, Vec<u64>)> {
    let (mut writer, readers) = Q::new::<WORDS>(slots, work.readers)?;
    let start = Barrier::new(readers.len() + 1);
    let clock = SystemClock::start();
    Some(thread::scope(|scope| {
        let readers: Vec<_> = readers
            .into_iter()
            .map(|mut reader| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let (mut seen, mut wait) = (Seen::default(), Wait::default());
                    while seen.count < count {
                        wait.turn(reader.read(usize::MAX, |value| seen.add(value)));
                    }
                    seen.digest
                })
            })
            .collect();
        start.wait();
        let started = clock.since_start();
        let (mut next, mut wait) = (1, Wait::default());
        while next <= count {
            let written = writer.write(next, work.batch.min((count - next + 1) as usize));
            next += written as u64;
            wait.turn(written);
        }
        let join = |reader: thread::ScopedJoinHandle<u64>| reader.join();
        let digests = readers.into_iter().map(|it| join(it).unwrap_or_else(resume)).collect();
        ((clock.since_start() - started).as_nanos() as u64, digests)
    }))
}

/// One value at a time, through one queue to another thread and through another back.
fn round_trips<Q: Queue, const WORDS: usize>(count: u64, slots: usize) -> Option<(u64, Vec<u64>)> {
    let (mut out, mut out_readers) = Q::new::<WORDS>(slots, 1)?;
    let (mut back, mut back_readers) = Q::new::<WORDS>(slots, 1)?;
    let (mut arrived, mut returned) = (out_readers.pop()?, back_readers.pop()?);
    let start = Barrier::new(2);
    let clock = SystemClock::start();
    Some(thread::scope(|scope| {
        let echo = scope.spawn(|| {
            start.wait();
            let (mut seen, mut wait) = (0, Wait::default());
            while seen < count {
                let mut number = 0;
                let read = arrived.read(1, |value| number = value[0]);
                if read > 0 {
                    seen += 1;
                    while back.write(number, 1) == 0 {}
                }
                wait.turn(read);
            }
        });
        start.wait();
        let started = clock.since_start();
        let mut seen = Seen::default();
        for number in 1..=count {
            let mut wait = Wait::default();
            while out.write(number, 1) == 0 {}
            while seen.count < number {
                wait.turn(returned.read(1, |value| seen.add(value)));
            }
        }
        let ns = (clock.since_start() - started).as_nanos() as u64;
        echo.join().unwrap_or_else(resume);
        (ns, vec![seen.digest])
    }))
}

/// One thread writes some values, reads them, and repeats.
fn one_thread<Q: Queue, const WORDS: usize>(
    count: u64,
    batch: usize,
    slots: usize,
) -> Option<(u64, Vec<u64>)> {
    let (mut writer, mut readers) = Q::new::<WORDS>(slots, 1)?;
    let mut reader = readers.pop()?;
    let started = thread_cpu_ns();
    let (mut next, mut seen) = (1, Seen::default());
    while next <= count {
        next += writer.write(next, batch.min((count - next + 1) as usize)) as u64;
        while seen.count < next - 1 {
            reader.read(usize::MAX, |value| seen.add(value));
        }
    }
    Some((thread_cpu_ns() - started, vec![seen.digest]))
}

fn resume<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}

/// The ring of the venue, with readers that hold the writer back.
enum VenueRing {}

impl Queue for VenueRing {
    const NAME: &'static str = "ring";
    type Writer<const WORDS: usize> = Producer<QueueValue<WORDS>>;
    type Reader<const WORDS: usize> = Consumer<QueueValue<WORDS>>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let mut builder = Builder::new("bench", slots);
        let readers = (0..readers).map(|_| builder.gating("reader")).collect();
        Some((builder.build().0, readers))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for Producer<QueueValue<WORDS>> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        let mut batch = self.batch();
        (0..count)
            .take_while(|index| batch.push_with(|| value(first + *index as u64)).is_some())
            .count()
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for Consumer<QueueValue<WORDS>> {
    #[inline]
    fn read(&mut self, limit: usize, mut see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        self.drain(limit, |value, _| see(value))
    }
}

/// The channel of the standard library, which every Rust program has at hand.
enum StandardChannel {}

impl Queue for StandardChannel {
    const NAME: &'static str = "std::sync::mpsc";
    type Writer<const WORDS: usize> = SyncSender<QueueValue<WORDS>>;
    type Reader<const WORDS: usize> = Receiver<QueueValue<WORDS>>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let (writer, reader) = sync_channel(slots);
        (readers == 1).then(|| (writer, vec![reader]))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for SyncSender<QueueValue<WORDS>> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        write_each(first, count, |value| self.try_send(value).is_ok())
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for Receiver<QueueValue<WORDS>> {
    #[inline]
    fn read(&mut self, limit: usize, mut see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        self.try_iter().take(limit).inspect(|value| see(value)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each queue hands on every value once and in order, in each kind of work that it can do.
    #[test]
    fn every_queue_hands_on_every_value_in_order() {
        for queue in QUEUES {
            for work in &WORKS {
                // Not a multiple of any batch.
                let Some(run) = queue.run(work, 10_007, 64) else {
                    assert_eq!((queue.name, work.readers), ("std::sync::mpsc", 3));
                    continue;
                };
                assert_eq!(run.digests, work.expected(10_007), "{} {}", queue.name, work.name);
                assert!(run.ns_per_value > 0.0);
            }
        }
    }

    /// A queue that loses a value, or hands on two in the other order, has other digests.
    #[test]
    fn digests_show_loss_and_disorder() {
        let digest = |numbers: &[u64]| {
            let mut seen = Seen::default();
            numbers.iter().for_each(|number| seen.add(&value::<16>(*number)));
            seen.digest
        };
        let right = digest(&[1, 2, 3]);
        assert_ne!(right, digest(&[1, 3]));
        assert_ne!(right, digest(&[2, 1, 3]));
        assert_ne!(right, digest(&[1, 2, 2, 3]));
    }

    /// A run survives the way to a rival and back.
    #[test]
    fn runs_are_written_and_read() {
        let run = QueueRun { ns_per_value: 12.5, digests: vec![u64::MAX, 0] };
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(
            text,
            r#"{"ns_per_value":12.5,"digests":["ffffffffffffffff","0000000000000000"]}"#
        );
        assert_eq!(serde_json::from_str::<QueueRun>(&text).unwrap(), run);
    }
}
