//! The verb `bench`: measures the core, the feed, the gateways, their connections, the load generator, the journal, the rings, the pipeline, recovery and the wire formats, and prints tables or JSON.

mod compare;
mod connections;
mod feed;
mod gateway;
mod generator;
mod paired;
mod recovery;
mod ring;
mod wire;

use std::{env, path::PathBuf};

use clap::{Args, Subcommand};
use lab::{comparison::FlowName, environment::Environment};
use os::memory;
use serde_json::{Value, json};

use super::{
    output::{duration, grouped, print_json, print_line, table},
    run::{DurabilityName, layout},
};
use lab::bench::{
    self, BookOptions, ENTRANTS, Entrant, FlowReport, Runs,
    journal::JournalOptions,
    pipeline::{self, PipelineReport},
    rivals::RivalError,
    shapes::{self, Adds, Resting, Shape},
    worst_cases::{self, WorstCase},
};
use venue::{clock::SystemClock, core::RingSlots, failure::Failure, layout::Wait};

/// Measure each part of a venue, in turns with a reference program that does the same work.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench book\n  \
                        damrak bench book --flow A --divisor 10 --json\n  \
                        damrak bench pipeline --runs 5")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Book(BookArguments),
    Compare(compare::Arguments),
    Connections(connections::Arguments),
    Feed(feed::Arguments),
    Gateway(gateway::Arguments),
    Generator(generator::Arguments),
    Journal(JournalArguments),
    Pipeline(PipelineArguments),
    Recovery(recovery::Arguments),
    Ring(ring::Arguments),
    Wire(wire::Arguments),
}

/// Measure an operation on the book.
///
/// The flows A (one symbol, 10,000 live orders), B (two symbols, a growing book) and C (a hundred
/// symbols, 100,000 live orders) go through each engine in one process and one thread; figures are
/// CPU time of that thread. Engines take turns, run by run. `matching` is the book of the core
/// alone; `engine` is the core with sessions, numbers and events, `engine-balances` the
/// same with an account, balances and fees for each user; `model-btree` is a plain book of sorted
/// maps; `null` does nothing. Exit code 4 if the trades of an engine differ from the expected ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench book\n  \
    damrak bench book --flow A,C --runs 11 --json\n  \
    damrak bench book --divisor 10 --engine engine --runs 1\n  \
    damrak bench book --rivals bench/rivals/target/rivals-rust --rivals bench/rivals/target/rivals-java")]
struct BookArguments {
    /// Flows, comma-separated. `shapes` are extreme books of up to ten million orders: their memory, the
    /// longest pause of an add, and how much slower than usual they are.
    #[arg(long, value_delimiter = ',', default_values = ["A", "B", "C"])]
    flow: Vec<String>,
    /// Seed of the flows; the published hashes are those of seed 1.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide the number of operations of each flow by this.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    divisor: u64,
    /// Runs of each engine on each flow; engines take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Only these engines, comma-separated: matching, engine, engine-balances, model-btree, null.
    #[arg(long, value_delimiter = ',')]
    engine: Vec<String>,
    /// A program with engines of other projects, built by bench/rivals/build.sh; they take their turns
    /// after ours. May be given several times.
    #[arg(long, value_name = "PROGRAM")]
    rivals: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measure the cost of the journal, and a bare loop that does the same writes.
///
/// Two writers take turns in one run: a loop that writes blocks into a file of zeros and waits until each
/// is on the disk, and the journal's writer under `synced` with batches of the same length. Both write
/// through the page cache with `fdatasync`, and past it with `O_DIRECT|O_DSYNC`, each by a blocking call
/// and by io_uring. Also measures the cost of a record under `written`, on the journaler's thread and on
/// the core's, and the speed of reading and verifying a journal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench journal\n  \
    damrak bench journal --folder /mnt/fast/bench --commits 2000 --json")]
struct JournalArguments {
    /// New folder for the files, on the disk to measure; removed afterwards.
    #[arg(long, value_name = "FOLDER", default_value = "bench-journal")]
    folder: PathBuf,
    /// Commits of each kind in each round.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..))]
    commits: u64,
    /// Number of rounds; in each, the bare loop and the writer take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measure an order file through the whole pipeline, in every layout.
///
/// Source, sequencer, journal, core, ledger and a consumer of events run in one process. Each command has
/// its own slot in each ring and its own journal record; each turn publishes one batch. `core` is the
/// core alone on the same commands, in CPU time of its thread; layouts are in wall time. Percentiles are
/// of single commands: each is sent after all events of the previous one were consumed. Exit code 4 if a
/// layout ends in another state.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench pipeline\n  \
    damrak bench pipeline --layout single,entry-core --runs 5 --json\n  \
    damrak bench pipeline FOLDER   (with orders.csv.gz and balances_init.csv)")]
struct PipelineArguments {
    /// Folders with orders.csv.gz and balances_init.csv; without any, a generated look-alike.
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Layouts, comma-separated.
    #[arg(long, value_delimiter = ',', default_values = ["single", "engine-alone", "entry-core", "pipeline"])]
    layout: Vec<String>,
    /// Runs of each layout; layouts take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// New orders of the generated file, which also has 3 cancels for each 10 orders.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    orders: u64,
    /// Seed of the generated file.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How durable a command must be before its result is published.
    #[arg(long, value_enum, default_value_t = DurabilityName::Written)]
    durability: DurabilityName,
    /// The behavior of an idle thread: adaptive (by cores and threads), spin, yield or backoff.
    #[arg(long, value_name = "WAIT", default_value_t = Wait::Adaptive)]
    wait: Wait,
    /// Folder for the journals while a run lasts [default: the temporary folder].
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// Slots of the rings of submissions, inputs and outputs, powers of two [default: by the number of
    /// threads].
    #[arg(long, value_name = "SLOTS", value_delimiter = ',', num_args = 1)]
    rings: Vec<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak bench`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // As in a venue.
    memory::keep_ready().map_err(Failure::environment)?;
    match &arguments.what {
        What::Book(arguments) => book(arguments),
        What::Compare(arguments) => compare::run(arguments),
        What::Connections(arguments) => connections::run(arguments),
        What::Gateway(arguments) => gateway::run(arguments),
        What::Generator(arguments) => generator::run(arguments),
        What::Journal(arguments) => journal(arguments),
        What::Feed(arguments) => feed::run(arguments),
        What::Recovery(arguments) => recovery::run(arguments),
        What::Ring(arguments) => ring::run(arguments),
        What::Wire(arguments) => wire::run(arguments),
        What::Pipeline(arguments) => run_pipeline(arguments),
    }
}

fn journal(arguments: &JournalArguments) -> Result<(), Failure> {
    if arguments.folder.exists() {
        let folder = arguments.folder.display();
        return Err(Failure::usage(format!("{folder} exists already"))
            .hint("name a new folder: it is removed afterwards"));
    }
    let started = Environment::now();
    let options = JournalOptions { commits: arguments.commits, rounds: arguments.rounds };
    let measured = bench::journal::measure(&arguments.folder, &options, SystemClock::start());
    // The files of a failed run are removed too; an error here changes no figure.
    let _ = std::fs::remove_dir_all(&arguments.folder);
    let (rows, skipped, costs) = measured?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        let mut document = bench::journal::summary(&rows, &skipped, &costs);
        document["schema"] = "damrak/bench-journal/1".into();
        document["environment"] = environment;
        return print_json(&document);
    }
    let header = [
        "method",
        "batch",
        "bare p50",
        "commit p50",
        "bare p99",
        "commit p99",
        "bare MB/s",
        "MB/s",
        "ratio",
    ];
    let rows = rows.iter().map(|row| {
        [
            row.method.as_str().to_owned(),
            row.batch_bytes.to_string(),
            duration(row.bare.latency.p50_ns),
            duration(row.commit.p50_ns),
            duration(row.bare.latency.p99_ns),
            duration(row.commit.p99_ns),
            format!("{:.0}", row.bare.bytes_per_second / 1e6),
            format!("{:.0}", row.writer.bytes_per_second / 1e6),
            format!("{:.2}", row.writer.bytes_per_second / row.bare.bytes_per_second),
        ]
    });
    print_line(&table(header, rows))?;
    for skipped in &skipped {
        print_line(&format!("skipped: {skipped}"))?;
    }
    print_line(&format!(
        "written: {:.0} ns of CPU to append a record, {:.0} with its part of a commit of 64; an order \
         takes the core's thread {:.0} ns without a journal and {:.0} beside one",
        costs.written_append_ns, costs.written_record_ns, costs.core_ns_without, costs.core_ns_with,
    ))?;
    print_line(&format!(
        "verified: {} records a second, {:.0} MB/s",
        grouped(costs.verified_per_second as u64),
        costs.verified_bytes_per_second / 1e6,
    ))?;
    print_line(&machine(&environment))
}

fn book(arguments: &BookArguments) -> Result<(), Failure> {
    let (shaped, names): (Vec<_>, Vec<_>) =
        arguments.flow.iter().cloned().partition(|name| name == "shapes");
    let flows = flows(&names)?;
    let entrants = entrants(&arguments.engine)?;
    let options = BookOptions {
        seed: arguments.seed,
        divisor: arguments.divisor,
        runs: arguments.runs as usize,
    };
    let started = Environment::now();
    let mut reports = Vec::new();
    for flow in flows {
        let report = bench::measure(flow, &options, &entrants, &arguments.rivals)
            .map_err(rivals_not_measured)?;
        if !arguments.json {
            print_line(&flow_table(&report))?;
        }
        reports.push(report);
    }
    let mut shaped_rows = None;
    if !shaped.is_empty() {
        let orders = (shapes::ORDERS / options.divisor).max(1);
        let nothing = shapes::nothing(orders, options.seed);
        let (resting, shaped) =
            (shapes::resting(orders, options.seed), shapes::shapes(orders, options.seed));
        let worst_cases = worst_cases::worst_cases(options.divisor);
        if !arguments.json {
            print_line(&shapes_table(&nothing, &resting, &shaped))?;
            print_line(&worst_cases_table(&worst_cases))?;
        }
        shaped_rows = Some(json!({
            "nothing": nothing,
            "resting": resting,
            "shapes": shaped,
            "worst_cases": worst_cases,
        }));
    }
    let environment = Environment::now().since(&started);
    let timer_ns = bench::timer_ns();
    if arguments.json {
        let mut summary = bench::summary(&reports, &options, &environment, timer_ns);
        summary["shapes"] = json!(shaped_rows);
        print_json(&summary)?;
    } else {
        print_line(&format!(
            "ns an operation is CPU time of one thread, best and median of {} runs; percentiles are \
             wall time,\neach with about {timer_ns} ns for the timer; least takes the shortest of up to five \
             runs of each operation. {}",
            options.runs,
            machine(&environment)
        ))?;
    }
    let wrong: Vec<String> = reports
        .iter()
        .flat_map(|report| report.rows.iter().map(move |row| (report.flow, row)))
        .filter(|(_, row)| row.agrees == Some(false))
        .map(|(flow, row)| format!("{} on flow {}", row.engine, flow.name()))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::verification(format!("other trades than expected: {}", wrong.join(", "))))
    }
}

fn shapes_table(nothing: &Adds, resting: &[Resting], shapes: &[Shape]) -> String {
    let held = resting.iter().map(|row| {
        [
            row.engine.to_owned(),
            grouped(row.orders),
            row.bytes_per_order.map_or("-".to_owned(), |bytes| format!("{bytes:.1}")),
            format!("{:.1}", row.cancel_ns),
            format!("{:.1}", row.cancel_few_ns),
            format!("{:.1}", row.cancel_alone_ns),
        ]
    });
    let adds = resting.iter().flat_map(|row| {
        [
            (row.engine.to_owned(), &row.growing),
            (format!("{}, reserved", row.engine), &row.reserved),
        ]
    });
    let adds = adds.chain([("nothing".to_owned(), nothing)]).map(|(name, adds)| {
        [
            name,
            duration(adds.p99999_ns),
            duration(adds.max_ns),
            grouped(adds.pauses),
            duration(adds.once_max_ns),
            grouped(adds.once_pauses),
            grouped(adds.page_faults),
        ]
    });
    let shapes = shapes.iter().map(|row| {
        [
            row.name.to_owned(),
            grouped(row.orders),
            format!("{:.1}", row.ns_per_op),
            format!("{:.2}", row.ratio),
        ]
    });
    format!(
        "resting orders\n{}\nadding each of them\n{}\nshapes, matching\n{}\n",
        table(["engine", "orders", "bytes each", "cancel", "among 10 000", "alone"], held),
        table(
            ["", "p99.999", "longest", "above 100 us", "just once", "above 100 us", "page faults"],
            adds
        ),
        table(["", "orders", "ns", "ratio"], shapes),
    )
}

fn worst_cases_table(worst_cases: &[WorstCase]) -> String {
    let rows = worst_cases.iter().map(|row| {
        [
            row.name.to_owned(),
            grouped(row.commands),
            duration(row.median_ns.into()),
            duration(row.max_ns.into()),
            grouped(row.events.into()),
            format!("{:.1}", row.ratio),
        ]
    });
    let header = ["", "commands", "median", "longest", "its events", "plain medians"];
    format!("the longest command of a kind, whole core\n{}", table(header, rows))
}

fn run_pipeline(arguments: &PipelineArguments) -> Result<(), Failure> {
    let layouts = arguments.layout.iter().map(|name| {
        let layout = layout(name).map_err(|what| Failure::usage(format!("--layout: {what}")))?;
        Ok((name.clone(), layout))
    });
    let options = pipeline::PipelineOptions {
        layouts: layouts.collect::<Result<_, Failure>>()?,
        runs: arguments.runs as usize,
        durability: arguments.durability.durability(),
        wait: arguments.wait,
        scratch: arguments.scratch.clone().unwrap_or_else(env::temp_dir),
        slots: slots(&arguments.rings)?,
    };
    let started = Environment::now();
    let mut reports = Vec::new();
    if arguments.folders.is_empty() {
        let prepared = pipeline::prepare_generated(arguments.seed, arguments.orders)?;
        reports.push(pipeline::measure(&prepared, &options)?);
    }
    for folder in &arguments.folders {
        let prepared = pipeline::prepare_folder(folder)?;
        reports.push(pipeline::measure(&prepared, &options)?);
    }
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&pipeline::summary(&reports, &options, &environment));
    }
    for report in &reports {
        print_line(&pipeline_table(report))?;
    }
    print_line(&format!(
        "commands a second are the best and the median of {} runs. {}",
        options.runs,
        machine(&environment)
    ))
}

fn slots(numbers: &[usize]) -> Result<Option<RingSlots>, Failure> {
    let [submissions, inputs, outputs] = match *numbers {
        [] => return Ok(None),
        [submissions, inputs, outputs] => [submissions, inputs, outputs],
        _ => return Err(Failure::usage("--rings takes three numbers, like 512,512,4096")),
    };
    let allowed = |slots: usize| slots.is_power_of_two() && (64..=1 << 24).contains(&slots);
    match numbers.iter().find(|slots| !allowed(**slots)) {
        None => Ok(Some(RingSlots { submissions, inputs, outputs })),
        Some(slots) => Err(Failure::usage(format!(
            "--rings: {slots} is not a power of two from 64 to 16777216"
        ))),
    }
}

fn pipeline_table(report: &PipelineReport) -> String {
    let rates = |rates: &Runs| [grouped(rates.most() as u64), grouped(rates.median() as u64)];
    let [best, median] = rates(&report.core.commands_per_second);
    let core = ["core", &best, &median, "", "", "", ""].map(str::to_owned);
    let layouts = report.rows.iter().map(|row| {
        let [best, median] = rates(&row.commands_per_second);
        [
            row.layout.clone(),
            best,
            median,
            format!("{:.0}", row.cpu_ns_per_command.median()),
            duration(row.percentile(500)),
            duration(row.percentile(990)),
            duration(row.percentile(999)),
        ]
    });
    let header = ["layout", "best/s", "median/s", "CPU ns", "p50", "p99", "p99.9"];
    let batches = report.rows.iter().map(|row| {
        let rings = row.rings.iter().map(|ring| {
            let largest = ring.readers.iter().map(|reader| reader.batch_max).max();
            format!("{} {}", ring.name, largest.unwrap_or(0))
        });
        format!("  {}: largest batch: {}\n", row.layout, rings.collect::<Vec<_>>().join(", "))
    });
    format!(
        "{}   {} commands, {} events, state {:016x}\n{}\n{}",
        report.name,
        grouped(report.commands as u64),
        grouped(report.core.events),
        report.core.state_hash,
        table(header, [core].into_iter().chain(layouts)),
        batches.collect::<String>(),
    )
}

fn flows(names: &[String]) -> Result<Vec<FlowName>, Failure> {
    let flow = |name: &String| {
        FlowName::from_name(name).ok_or_else(|| {
            Failure::usage(format!("there is no flow {name:?}; there are A, B, C and shapes"))
        })
    };
    names.iter().map(flow).collect()
}

fn entrants(names: &[String]) -> Result<Vec<Entrant>, Failure> {
    if names.is_empty() {
        return Ok(ENTRANTS.to_vec());
    }
    let entrant = |name: &String| {
        ENTRANTS.into_iter().find(|entrant| entrant.name() == name).ok_or_else(|| {
            let known = ENTRANTS.map(|entrant| entrant.name()).join(", ");
            Failure::usage(format!("there is no engine {name:?}; there are {known}"))
        })
    };
    names.iter().map(entrant).collect()
}

fn rivals_not_measured(error: RivalError) -> Failure {
    match error {
        RivalError::Start { .. } => Failure::environment(error).hint("bench/rivals/build.sh"),
        RivalError::Flow { .. } => Failure::environment(error),
        RivalError::Ended { .. } | RivalError::Answer { .. } => Failure::runtime(error),
    }
}

fn flow_table(report: &FlowReport) -> String {
    let own = report.rows.iter().find(|row| row.engine == ENTRANTS[0].name());
    let rows = report.rows.iter().map(|row| {
        let agrees = match row.agrees {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        let times = &row.latency;
        [
            row.engine.clone(),
            format!("{:.1}", row.ns_per_op.least()),
            format!("{:.1}", row.ns_per_op.median()),
            times.p50.to_string(),
            times.p99.to_string(),
            times.p999.to_string(),
            format!("{} {}", times.least_p50, times.least_p999),
            agrees.to_owned(),
            own.map_or(String::new(), |own| format!("{:.2}", own.ratio_of(row))),
        ]
    });
    let header = [
        "engine",
        "best",
        "median",
        "p50",
        "p99",
        "p99.9",
        "least p50-99.9",
        "agrees",
        "of engine's time",
    ];
    let mut text = format!(
        "flow {}   {} operations after {}   {} trades, hash {:016x}\n{}",
        report.flow.name(),
        grouped(report.operations as u64),
        grouped(report.prefill as u64),
        grouped(report.expected.trades),
        report.expected.hash,
        table(header, rows),
    );
    if let Some(rival) = report.best_rival() {
        let ours = report.rows.iter().filter(|row| !row.rival && row.tally.trades > 0);
        let times = ours.map(|row| format!("{:.2} times {}", row.ratio_of(rival), row.engine));
        let times = times.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("\n  the fastest rival takes {times}: {}", rival.engine));
    }
    text.push('\n');
    text
}

fn machine(environment: &Value) -> String {
    let text = |key: &str| environment[key].as_str().unwrap_or("unknown").to_owned();
    let load = &environment["load_average"];
    format!(
        "{} cores of {}, kernel {}, load {} to {}, {}",
        environment["cores"],
        text("processor"),
        text("kernel"),
        load[0],
        load[1],
        text("rustc"),
    )
}
