//! `damrak bench ring`: values from thread to thread, by the venue's ring and by queues of other projects.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{
    super::output::{grouped, print_json, print_line, table},
    machine, rivals_not_measured,
};
use lab::{
    bench::queues::{self, QUEUES, QueueOptions, QueueRow, WORKS},
    environment::Environment,
};
use venue::failure::Failure;

/// Measure values from thread to thread, by the venue's ring and by queues of other projects.
///
/// All queues do the same work, in turns, in the same loops: a thread without work spins, then yields. `single`: values of
/// 8 bytes, written one by one, to one reader. `batch`: 8 bytes, written 16 at a time. `event`: 128 bytes, as in the
/// venue's rings. `fan-out`: 128 bytes, 16 at a time, to three readers that each see all values. `round-trip`: one value
/// at a time, to another thread and back. `one-thread`: 64 values written, then read, by the same thread. Figures are
/// wall time, but CPU time for `one-thread`. A `-` marks work that a queue cannot do. Exit code 4 if a reader missed a
/// value, or saw one twice or out of order.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak bench ring\n  damrak bench ring --values 1000000 --slots 256 --runs 11 --json\n  \
    damrak bench ring --rivals bench/rivals/target/rivals-rust --rivals bench/rivals/target/rivals-java"
)]
pub struct Arguments {
    /// Values per run; `round-trip` has a tenth of them.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    values: u64,
    /// Slots of each queue, a power of two from 2 to 1048576.
    #[arg(long, default_value_t = 1024, value_parser = slots)]
    slots: usize,
    /// Runs of each queue; queues take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// A program with queues of other projects, built by bench/rivals/build.sh. May be given several times.
    #[arg(long, value_name = "PROGRAM")]
    rivals: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn slots(text: &str) -> Result<usize, String> {
    let slots = text.parse().ok().filter(|slots: &usize| slots.is_power_of_two());
    slots
        .filter(|slots| (2..=1 << 20).contains(slots))
        .ok_or_else(|| "a power of two from 2 to 1048576 is needed".to_owned())
}

/// Runs `damrak bench ring`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = QueueOptions {
        values: arguments.values,
        slots: arguments.slots,
        runs: arguments.runs as usize,
    };
    let started = Environment::now();
    let rows = queues::measure(&options, &arguments.rivals).map_err(rivals_not_measured)?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/bench-ring/1",
            "values": options.values,
            "slots": options.slots,
            "runs": options.runs,
            "rows": rows,
            "environment": environment,
        }))?;
    } else {
        print_line(&format!(
            "nanoseconds a value, and as a multiple of `{}`\n{}\nmedians of {} runs of {} values, {} slots. {}",
            QUEUES[0].name(),
            lines(&rows),
            options.runs,
            grouped(options.values),
            grouped(options.slots as u64),
            machine(&environment),
        ))?;
    }
    let wrong: Vec<_> = rows
        .iter()
        .filter(|row| !row.agrees)
        .map(|row| format!("{} ({})", row.queue, row.work))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        let wrong = wrong.join(", ");
        Err(Failure::verification(format!("values were missed or came out of order: {wrong}")))
    }
}

fn lines(rows: &[QueueRow]) -> String {
    let names = rows.iter().filter(|row| row.work == WORKS[0].name).map(|row| &row.queue);
    let lines = names.map(|queue| {
        let mut line = vec![queue.clone()];
        line.extend(WORKS.iter().map(|work| {
            let median = |name: &str| {
                let row = rows.iter().find(|row| row.work == work.name && row.queue == name);
                row.map_or(f64::NAN, |row| row.ns_per_value.median())
            };
            let (own, its) = (median(QUEUES[0].name()), median(queue));
            if its.is_nan() { "-".to_owned() } else { format!("{its:.1} {:.2}", its / own) }
        }));
        <[String; WORKS.len() + 1]>::try_from(line).expect("one column a work")
    });
    let mut header = [""; WORKS.len() + 1];
    header[1..].copy_from_slice(&WORKS.map(|work| work.name));
    table(header, lines)
}
