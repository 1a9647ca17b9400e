//! The cost of the journal, compared with a bare loop of the same writes in the same run.
//!
//! Invariant: both sides write batches of the same length to the same folder, in turn.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::latency::{Latency, Percentiles};
use engine::Engine;
use journal::{Durability, Folder, Method, Storage, StorageFile, Writer, WriterOptions};
use market::{Input, Sequence, Timestamp};
use proof::generator::{CommandFlow, Profile};
use ring::{Builder, Cursor, Flow};
use serde_json::{Value, json};

use super::{Runs, agent_thread::AgentThread};

use venue::{clock::SystemClock, failure::Failure, stage::Journaler};

/// A payload as long as that of an order.
const PAYLOAD: [u8; 63] = [7; 63];

/// Records per batch of 64 KiB and of 4 KiB, the seal included.
const RECORDS_PER_BATCH: [(usize, usize); 2] = [(64 * 1024, 682), (4 * 1024, 42)];

/// Length of the bare loop's file, which is zeroed in advance and written in a circle.
const BARE_BYTES: u64 = 64 << 20;

/// Runs of the core with a journal and without one, in turn.
const CORE_RUNS: usize = 5;

#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    pub commits: u64,
    /// Rounds of the bare loop and the writer, in turn.
    pub rounds: u64,
}

pub struct JournalRow {
    pub method: Method,
    pub batch_bytes: usize,
    /// The bare loop: writes that are on the medium when they return.
    pub bare: Side,
    /// The writer: appending the records of a batch, and the commit.
    pub writer: Side,
    pub commit: Percentiles,
}

pub struct Side {
    pub latency: Percentiles,
    /// Bytes per second that reached the medium.
    pub bytes_per_second: f64,
}

/// The cost of the other durabilities, and of reading a journal.
pub struct JournalCosts {
    /// `written`, batches of 64 records: CPU time of appending a record, in nanoseconds.
    pub written_append_ns: f64,
    /// The same with the record's share of the commit: the whole cost on the journaler's thread.
    pub written_record_ns: f64,
    /// CPU time per order on the core's thread without a journal, in nanoseconds.
    pub core_ns_without: f64,
    /// The same with a journaler (`written`) on another thread, in nanoseconds.
    pub core_ns_with: f64,
    /// Records verified per second when a journal is read.
    pub verified_per_second: f64,
    pub verified_bytes_per_second: f64,
}

/// Measures the journal in an existing empty folder; the caller removes the files left in it.
pub fn measure(
    folder: &Path,
    options: &JournalOptions,
    clock: SystemClock,
) -> Result<(Vec<JournalRow>, Vec<String>, JournalCosts), Failure> {
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    for method in Method::ALL {
        if let Err(error) = Folder::probe(folder, method) {
            skipped.push(format!("{}: not possible in this folder: {error}", method.as_str()));
            continue;
        }
        for (batch_bytes, records) in RECORDS_PER_BATCH {
            let mut turns = Turns::default();
            for round in 0..options.rounds {
                let name = format!("{}-{batch_bytes}-{round}", method.as_str());
                let (bare, own) =
                    (folder.join(format!("bare-{name}")), folder.join(format!("journal-{name}")));
                let bare = Bare::new(bare, method, batch_bytes)?;
                let own = Own::new(own, method, batch_bytes, records, options.commits)?;
                take_turns(bare, own, options.commits, clock, &mut turns)?;
            }
            let Turns { bare, writer, commits } = turns;
            rows.push(JournalRow {
                method,
                batch_bytes,
                bare: bare.side(batch_bytes),
                writer: writer.side(batch_bytes),
                commit: commits.percentiles(),
            });
        }
    }
    let costs = costs(folder, clock)?;
    Ok((rows, skipped, costs))
}

#[derive(Default)]
struct Turns {
    bare: Measured,
    writer: Measured,
    commits: Latency,
}

#[derive(Default)]
struct Measured {
    latency: Latency,
    batches: u64,
    ns: u64,
}

impl Measured {
    fn add(&mut self, ns: u64) {
        self.latency.record(ns);
        self.batches += 1;
        self.ns += ns;
    }

    fn side(&self, batch_bytes: usize) -> Side {
        let bytes = self.batches as f64 * batch_bytes as f64;
        Side {
            latency: self.latency.percentiles(),
            bytes_per_second: bytes / (self.ns as f64 / 1e9),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::environment(format!("the journal cannot be measured: {error}"))
        .hint("--folder names another folder")
}

fn new_journal(folder: Folder, options: &WriterOptions) -> Result<Writer, Failure> {
    let opened = journal::open(Box::new(folder), options, &mut |_| Ok::<(), Infallible>(()));
    Ok(opened.map_err(failed)?.0)
}

/// A file of zeros, written block by block.
struct Bare {
    folder: PathBuf,
    file: Box<dyn StorageFile>,
    memory: Vec<u8>,
    start: usize,
    batch_bytes: usize,
    offset: u64,
}

impl Bare {
    fn new(folder: PathBuf, method: Method, batch_bytes: usize) -> Result<Self, Failure> {
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut storage = Folder::with_method(&folder, method);
        let mut file = storage.create("prepared").map_err(failed)?;
        let mut memory = vec![0; (1 << 20) + 4096];
        let start = memory.as_ptr().align_offset(4096);
        for offset in (0..BARE_BYTES).step_by(1 << 20) {
            file.write_synced(offset, &memory[start..start + (1 << 20)]).map_err(failed)?;
        }
        memory.fill(7);
        Ok(Self { folder, file, memory, start, batch_bytes, offset: 0 })
    }

    /// Writes the next block; it is on the medium when this returns.
    fn write(&mut self) -> Result<(), Failure> {
        let block = &self.memory[self.start..self.start + self.batch_bytes];
        self.file.write_synced(self.offset, block).map_err(failed)?;
        self.offset = (self.offset + self.batch_bytes as u64) % BARE_BYTES;
        Ok(())
    }
}

/// A journal written as the journaler writes it.
struct Own {
    folder: PathBuf,
    writer: Writer,
    records: usize,
    sequence: u64,
}

impl Own {
    /// Positions the writer in the first half of a segment with room for twice as many commits, so that
    /// no segment is prepared during the measurement.
    fn new(
        folder: PathBuf,
        method: Method,
        batch_bytes: usize,
        records: usize,
        commits: u64,
    ) -> Result<Self, Failure> {
        let segment_bytes = (commits * batch_bytes as u64 + (1 << 20)) * 2;
        let options = WriterOptions { segment_bytes, ..WriterOptions::new(1, 1) };
        let writer = new_journal(Folder::with_method(&folder, method), &options)?;
        let mut own = Self { folder, writer, records, sequence: 0 };
        // The first segment of a start is short: fill half of it, then pause while the next one is prepared.
        let mut written = 0;
        while journal::segments_before(&mut Folder::new(&own.folder), u64::MAX)
            .map_err(failed)?
            .is_empty()
        {
            own.append(682)?;
            own.writer.commit().map_err(failed)?;
            written += 1;
            if written > 32 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        Ok(own)
    }

    fn append(&mut self, records: usize) -> Result<(), Failure> {
        for _ in 0..records {
            self.sequence += 1;
            self.writer.append(self.sequence, self.sequence, &PAYLOAD).map_err(failed)?;
        }
        Ok(())
    }
}

/// Alternates the bare write and the writer's commit, so that background load affects both.
fn take_turns(
    mut bare: Bare,
    mut own: Own,
    commits: u64,
    clock: SystemClock,
    turns: &mut Turns,
) -> Result<(), Failure> {
    for _ in 0..commits {
        let before = clock.now_ns();
        bare.write()?;
        turns.bare.add(clock.now_ns() - before);
        let before = clock.now_ns();
        own.append(own.records)?;
        let appended = clock.now_ns();
        own.writer.commit().map_err(failed)?;
        let after = clock.now_ns();
        turns.writer.add(after - before);
        turns.commits.record(after - appended);
    }
    drop(own.writer);
    drop(bare.file);
    std::fs::remove_dir_all(&own.folder).map_err(failed)?;
    std::fs::remove_dir_all(&bare.folder).map_err(failed)
}

fn costs(folder: &Path, clock: SystemClock) -> Result<JournalCosts, Failure> {
    let (written_append_ns, written_record_ns, verified) = written(&folder.join("written"), clock)?;
    let (verified_per_second, verified_bytes_per_second) = verified;
    let mut core_ns = [Runs::default(), Runs::default()];
    for run in 0..CORE_RUNS {
        for (with_journal, ns) in core_ns.iter_mut().enumerate() {
            let place = folder.join(format!("core-{run}-{with_journal}"));
            ns.push(core_thread(&place, with_journal == 1, clock)?);
        }
    }
    let [core_ns_without, core_ns_with] = core_ns.map(|ns| ns.median());
    Ok(JournalCosts {
        written_append_ns,
        written_record_ns,
        core_ns_without,
        core_ns_with,
        verified_per_second,
        verified_bytes_per_second,
    })
}

/// CPU time of appending a record, and of a record with its share of a commit; records and bytes per
/// second verified.
fn written(folder: &Path, clock: SystemClock) -> Result<(f64, f64, (f64, f64)), Failure> {
    const RECORDS: u64 = 2_000_000;
    let options = WriterOptions {
        durability: Durability::Written,
        segment_bytes: 256 << 20,
        ..WriterOptions::new(1, 1)
    };
    let mut writer = new_journal(Folder::new(folder), &options)?;
    let (mut append_ns, mut commit_ns) = (0, 0);
    for batch in 0..RECORDS / 64 {
        let before = os::thread_cpu_ns();
        for nth in 1..=64 {
            let sequence = batch * 64 + nth;
            writer.append(sequence, sequence, &PAYLOAD).map_err(failed)?;
        }
        let appended = os::thread_cpu_ns();
        writer.commit().map_err(failed)?;
        append_ns += appended - before;
        commit_ns += os::thread_cpu_ns() - appended;
    }
    drop(writer);
    let before = clock.now_ns();
    let report = journal::verify(&mut Folder::new(folder), &mut |_| Ok::<(), Infallible>(()))
        .map_err(failed)?;
    let seconds = (clock.now_ns() - before) as f64 / 1e9;
    if report.record_count != RECORDS {
        return Err(Failure::verification(format!("{} records came back", report.record_count)));
    }
    std::fs::remove_dir_all(folder).map_err(failed)?;
    let records = RECORDS as f64;
    let verified = (records / seconds, report.byte_count as f64 / seconds);
    Ok((append_ns as f64 / records, (append_ns + commit_ns) as f64 / records, verified))
}

/// CPU time per order on the core's thread, in nanoseconds: sequencing and applying. With a journal, a
/// journaler on another thread takes every input from the same ring.
fn core_thread(folder: &Path, with_journal: bool, clock: SystemClock) -> Result<f64, Failure> {
    const ORDERS: usize = 200_000;
    let mut flow = CommandFlow::new(7, Profile::default());
    let mut inputs = Builder::<Input>::new("inputs", 8_192);
    let mut to_engine = inputs.gating("engine");
    let to_journaler = with_journal.then(|| inputs.gating("journaler"));
    let (mut inputs, _) = inputs.build();
    let durable = Arc::new(Cursor::new(0));
    let journaler = match to_journaler {
        None => None,
        Some(consumer) => {
            let options =
                WriterOptions { durability: Durability::Written, ..WriterOptions::new(1, 1) };
            let writer = new_journal(Folder::new(folder), &options)?;
            let journaler = Journaler::new(consumer, writer, Arc::clone(&durable), false);
            Some(AgentThread::start(journaler, clock, || (), std::thread::yield_now))
        }
    };
    let commands: Vec<_> = (0..ORDERS).map(|_| flow.next_command()).collect();
    let mut engine = Engine::new();
    let mut core_ns = 0;
    for (batch, commands) in commands.chunks(64).enumerate() {
        // Waiting for room is not counted as the core's time: in a venue the engine does not wait here.
        while inputs.free() < 64 {
            std::thread::yield_now();
        }
        let before = os::thread_cpu_ns();
        let mut published = inputs.batch();
        for (nth, command) in commands.iter().enumerate() {
            let number = (batch * 64 + nth) as u64 + 1;
            let (sequence, timestamp) = (Sequence(number), Timestamp(number));
            let _ = published.push(Input { sequence, timestamp, command: *command });
        }
        drop(published);
        to_engine.poll(64, |input, _| {
            engine.apply(input, &mut |event| {
                std::hint::black_box(&event);
            });
            Flow::Continue
        });
        core_ns += os::thread_cpu_ns() - before;
    }
    while with_journal && durable.get() < ORDERS as u64 {
        std::thread::yield_now();
    }
    if let Some(journaler) = journaler {
        journaler.stop().map_err(failed)?;
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    Ok(core_ns as f64 / ORDERS as f64)
}

pub fn summary(rows: &[JournalRow], skipped: &[String], costs: &JournalCosts) -> Value {
    let percentiles =
        |of: &Percentiles| json!({"p50": of.p50_ns, "p99": of.p99_ns, "max": of.max_ns});
    let side = |of: &Side| json!({"latency_ns": percentiles(&of.latency), "bytes_per_second": of.bytes_per_second});
    json!({
        "rows": rows.iter().map(|row| json!({
            "method": row.method.as_str(),
            "batch_bytes": row.batch_bytes,
            "bare": side(&row.bare),
            "writer": side(&row.writer),
            "commit_ns": percentiles(&row.commit),
            "throughput_ratio": row.writer.bytes_per_second / row.bare.bytes_per_second,
            "p50_ratio": row.commit.p50_ns as f64 / row.bare.latency.p50_ns as f64,
            "p99_ratio": row.commit.p99_ns as f64 / row.bare.latency.p99_ns as f64,
        })).collect::<Vec<_>>(),
        "skipped": skipped,
        "written_append_ns": costs.written_append_ns,
        "written_record_ns": costs.written_record_ns,
        "core_ns_without_journal": costs.core_ns_without,
        "core_ns_with_journal": costs.core_ns_with,
        "core_ns_added": costs.core_ns_with - costs.core_ns_without,
        "verified_per_second": costs.verified_per_second,
        "verified_bytes_per_second": costs.verified_bytes_per_second,
    })
}
