//! What the journal costs, beside a bare loop that does the same writes in the same run.

use std::{convert::Infallible, path::Path};

use flow::latency::{Latency, Percentiles};
use journal::{Access, Durability, Folder, Method, Options, Storage};
use serde_json::{Value, json};

use crate::{clock::SystemClock, failure::Failure};

/// A payload as long as that of an order.
const PAYLOAD: [u8; 63] = [7; 63];

/// How many records fill a batch of 64 KiB, and one of 4 KiB, with the seal.
const RECORDS_PER_BATCH: [(usize, usize); 2] = [(64 * 1024, 682), (4 * 1024, 42)];

/// The bare loop goes round in a file of this length, zeroed before.
const BARE_BYTES: u64 = 64 << 20;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Commits of each kind in each round.
    pub commits: u64,
    /// How often the bare loop and the writer take turns.
    pub rounds: u64,
}

/// One way of writing, at one length of a batch.
pub struct JournalRow {
    /// How bytes reach the medium.
    pub method: Method,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// Of the bare loop: a write that is on the medium when it returns.
    pub bare: Side,
    /// Of the writer: appending the records of a batch, and the commit.
    pub writer: Side,
    /// The writer's commits alone.
    pub commit: Percentiles,
}

/// One of the two that are compared.
pub struct Side {
    /// Of each batch.
    pub latency: Percentiles,
    /// Bytes a second that reached the medium.
    pub bytes_per_second: f64,
}

/// What the other policies and the way back cost.
pub struct JournalCosts {
    /// `written`, batches of 64 records: nanoseconds a record on the thread of the journaler.
    pub written_record_ns: f64,
    /// Records a second that are verified when a journal is read.
    pub verified_per_second: f64,
    /// Bytes a second.
    pub verified_bytes_per_second: f64,
}

/// Measures in a folder that is made, and emptied, by the one who asks.
///
/// # Errors
/// The folder cannot be used.
pub fn measure(
    folder: &Path,
    options: &JournalOptions,
    clock: SystemClock,
) -> Result<(Vec<JournalRow>, Vec<String>, JournalCosts), Failure> {
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    for method in Method::ALL {
        if let Err(error) = Folder::probe(folder, method) {
            skipped.push(format!("{}: this folder cannot be written so: {error}", method.as_str()));
            continue;
        }
        for (batch_bytes, records) in RECORDS_PER_BATCH {
            let name = format!("{}-{batch_bytes}", method.as_str());
            let mut bare = Measured::default();
            let mut writer = Measured::default();
            let mut commits = Latency::new();
            for round in 0..options.rounds {
                let bare_folder = folder.join(format!("bare-{name}-{round}"));
                bare_loop(&bare_folder, method, batch_bytes, options.commits, clock, &mut bare)?;
                let own = folder.join(format!("journal-{name}-{round}"));
                own_loop(&own, method, records, options.commits, clock, &mut writer, &mut commits)?;
            }
            rows.push(JournalRow {
                method,
                batch_bytes,
                bare: bare.side(batch_bytes),
                writer: writer.side(batch_bytes),
                commit: commits.percentiles(),
            });
        }
    }
    let costs = costs(&folder.join("written"), clock)?;
    Ok((rows, skipped, costs))
}

struct Measured {
    latency: Latency,
    batches: u64,
    ns: u64,
}

impl Default for Measured {
    fn default() -> Self {
        Self { latency: Latency::new(), batches: 0, ns: 0 }
    }
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

/// Writes blocks one after the other into a file of zeros, each on the medium before the next.
fn bare_loop(
    folder: &Path,
    method: Method,
    batch_bytes: usize,
    commits: u64,
    clock: SystemClock,
    measured: &mut Measured,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut storage = Folder::with_method(folder, method);
    let mut file = storage.create("prepared").map_err(failed)?;
    // Direct writes need memory at a multiple of a block.
    let mut memory = vec![0; (1 << 20) + 4096];
    let start = memory.as_ptr().align_offset(4096);
    for offset in (0..BARE_BYTES).step_by(1 << 20) {
        file.write_synced(offset, &memory[start..start + (1 << 20)]).map_err(failed)?;
    }
    memory.fill(7);
    let block = &memory[start..start + batch_bytes];
    let mut offset = 0;
    for _ in 0..commits {
        let before = clock.now_ns();
        file.write_synced(offset, block).map_err(failed)?;
        measured.add(clock.now_ns() - before);
        offset = (offset + batch_bytes as u64) % BARE_BYTES;
    }
    drop(file);
    std::fs::remove_dir_all(folder).map_err(failed)
}

/// Appends and commits as the journaler does.
fn own_loop(
    folder: &Path,
    method: Method,
    records: usize,
    commits: u64,
    clock: SystemClock,
    measured: &mut Measured,
    commit_latency: &mut Latency,
) -> Result<(), Failure> {
    let options = Options { segment_bytes: BARE_BYTES, ..Options::new(1, 1) };
    let storage = Box::new(Folder::with_method(folder, method));
    let (mut writer, _) =
        journal::open(storage, &options, &mut |_| Ok::<(), Infallible>(())).map_err(failed)?;
    let mut sequence = 0;
    for _ in 0..commits {
        let before = clock.now_ns();
        for _ in 0..records {
            sequence += 1;
            writer.append(sequence, sequence, &PAYLOAD).map_err(failed)?;
        }
        let appended = clock.now_ns();
        writer.commit().map_err(failed)?;
        let after = clock.now_ns();
        measured.add(after - before);
        commit_latency.record(after - appended);
    }
    drop(writer);
    std::fs::remove_dir_all(folder).map_err(failed)
}

fn costs(folder: &Path, clock: SystemClock) -> Result<JournalCosts, Failure> {
    const RECORDS: u64 = 2_000_000;
    let options =
        Options { durability: Durability::Written, segment_bytes: 256 << 20, ..Options::new(1, 1) };
    let storage = Box::new(Folder::new(folder));
    let (mut writer, _) =
        journal::open(storage, &options, &mut |_| Ok::<(), Infallible>(())).map_err(failed)?;
    let before = clock.now_ns();
    for sequence in 1..=RECORDS {
        writer.append(sequence, sequence, &PAYLOAD).map_err(failed)?;
        if sequence % 64 == 0 {
            writer.commit().map_err(failed)?;
        }
    }
    writer.flush().map_err(failed)?;
    let written_record_ns = (clock.now_ns() - before) as f64 / RECORDS as f64;
    drop(writer);
    let before = clock.now_ns();
    let report = journal::verify(&mut Folder::new(folder), &mut |_| Ok::<(), Infallible>(()))
        .map_err(failed)?;
    let seconds = (clock.now_ns() - before) as f64 / 1e9;
    if report.record_count != RECORDS {
        return Err(Failure::verification(format!("{} records came back", report.record_count)));
    }
    let mut storage = Folder::new(folder);
    storage.open(&journal::file_name(1), Access::Read).map_err(failed)?;
    std::fs::remove_dir_all(folder).map_err(failed)?;
    Ok(JournalCosts {
        written_record_ns,
        verified_per_second: RECORDS as f64 / seconds,
        verified_bytes_per_second: report.byte_count as f64 / seconds,
    })
}

/// The figures as one JSON object.
#[must_use]
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
        "written_record_ns": costs.written_record_ns,
        "verified_per_second": costs.verified_per_second,
        "verified_bytes_per_second": costs.verified_bytes_per_second,
    })
}
