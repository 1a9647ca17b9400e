//! `damrak sim`: simulated venues from seeds, on several threads, and the smallest failing run.

use std::{
    cell::Cell,
    collections::BTreeMap,
    num::NonZero,
    panic,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use clap::Args;
use proof::agreement;
use serde_json::{Value, json};

use super::output::{counted, grouped, print_json, print_line};
use proof::sim::{self, Counts, FaultKind, FaultSet, Hits, Options, Summary, Violation};
use venue::{clock::SystemClock, failure::Failure};

/// Default turns of a seed, and default commands of a seed with --model.
const TICKS: u64 = 20_000;
const MODEL_COMMANDS: u64 = 100_000;

/// Simulate a whole venue, its clients, network, disk and clock in one thread, from a seed.
///
/// Messages are delayed, lost, repeated, reordered and cut. Clients and stages stall. The disk fails, fills
/// up, and reports syncs that it did not do. The venue is killed, with and without a power cut, and
/// recovers. An attacker floods the venue, and honest clients must still get their replies in time.
/// Afterwards every input is compared with a slow and obvious model, every stream that a client received
/// with the stream that follows from the journal, and the book from the feed with the engine's. If
/// anything differs, prints the seed and the fewest commands that reproduce the failure; exit code 4.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak sim --seed 7\n  damrak sim --seeds 1000 --ticks 3000 \
                        --quiet\n  damrak sim --seed 7 --faults loss,kill,torn-write\n  damrak sim \
                        --forever\n  damrak sim --model --seeds 4")]
pub struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1, conflicts_with = "forever")]
    seeds: u64,
    /// Run until interrupted or until a seed fails.
    #[arg(long)]
    forever: bool,
    /// Turns of the venue for each seed while clients send [default: 20000]. With --model, commands of
    /// each profile [default: 100000].
    #[arg(long)]
    ticks: Option<u64>,
    /// Inject only these kinds of faults and attacks.
    #[arg(long, value_delimiter = ',', value_name = "KIND", conflicts_with = "without_faults")]
    faults: Vec<FaultKind>,
    /// Without faults and attacks.
    #[arg(long)]
    without_faults: bool,
    /// Send only the commands with these numbers; a failure prints them.
    #[arg(long, value_delimiter = ',', value_name = "NUMBER")]
    commands: Vec<u64>,
    /// Number of seeds that run at the same time [default: number of cores]. Results do not depend on it.
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Print only the totals of all seeds.
    #[arg(long)]
    quiet: bool,
    /// Do not shrink a failing run.
    #[arg(long)]
    as_found: bool,
    /// Only compare engine and model, by --seeds runs of each profile, and print how often each kind of
    /// answer occurred.
    #[arg(long, conflicts_with_all = ["forever", "faults", "without_faults", "commands", "as_found"])]
    model: bool,
    /// Print one JSON object per seed, or with `--quiet` one for all.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn threads(&self) -> usize {
        self.threads.or(thread::available_parallelism().ok()).map_or(1, NonZero::get)
    }

    fn options(&self, seed: u64) -> Options {
        let faults = match (self.without_faults, self.faults.is_empty()) {
            (true, _) => FaultSet::NONE,
            (false, true) => FaultSet::ALL,
            (false, false) => self.faults.iter().copied().collect(),
        };
        let commands = (!self.commands.is_empty()).then(|| self.commands.iter().copied().collect());
        Options { seed, ticks: self.ticks.unwrap_or(TICKS), faults, commands }
    }
}

/// Runs `damrak sim`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.model {
        return model(arguments);
    }
    say_the_seed_of_a_panic();
    let clock = SystemClock::start();
    let seeds = if arguments.forever { u64::MAX } else { arguments.seeds };
    let mut total = Total::default();
    let mut print = |summary: &Summary| {
        total.add(summary);
        match (arguments.quiet, arguments.json) {
            (true, _) => Ok(()),
            (false, true) => print_json(&figures(summary)),
            (false, false) => print_line(&line(summary)),
        }
    };
    simulate(arguments, seeds, &mut print)?;
    let seconds = clock.since_start().as_secs_f64();
    match (arguments.quiet, arguments.json) {
        (true, true) => print_json(&total.figures(seconds))?,
        (false, true) => {}
        _ => print_line(&total.lines(seconds))?,
    }
    Ok(())
}

/// Runs the seeds on several threads and prints their results in the order of the seeds, up to the
/// first failure.
fn simulate(
    arguments: &Arguments,
    seeds: u64,
    print: &mut dyn FnMut(&Summary) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..arguments.threads().min(usize::try_from(seeds).unwrap_or(usize::MAX)) {
            let (sender, next, is_over) = (sender.clone(), &next, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        break;
                    }
                    let options = arguments.options(arguments.seed.wrapping_add(number));
                    RUNNING.set(Some((options.seed, options.ticks)));
                    let outcome = sim::run(&options);
                    is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    if sender.send((number, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut printed = 0;
        let printing = results.iter().try_for_each(|(number, outcome)| {
            early.insert(number, outcome);
            while let Some(outcome) = early.remove(&printed) {
                let summary = outcome.map_err(|violation| explain(arguments, violation))?;
                print(&summary)?;
                printed += 1;
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        printing
    })
}

thread_local! {
    /// The seed that runs on this thread, and its ticks.
    static RUNNING: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Prints the seed of a panic: a panic that ends the process leaves no other trace of the seed.
fn say_the_seed_of_a_panic() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        if let Some((seed, ticks)) = RUNNING.get() {
            eprintln!("panic: reproduce with `damrak sim --seed {seed} --ticks {ticks}`");
        }
        usual(what);
    }));
}

/// The failure, and the command that reproduces it.
fn explain(arguments: &Arguments, violation: Violation) -> Failure {
    let options = arguments.options(violation.seed);
    if arguments.as_found {
        let hint = format!("reproduce with `{}`", invocation(&options));
        return Failure::verification(violation).hint(hint);
    }
    let first = violation.to_string();
    let smallest = sim::minimise(&options, violation);
    let mut text = first;
    let commands = sim::commands(&smallest.options);
    text.push_str(&format!(
        "\nOf {} runs tried, the smallest that still fails has {} ticks and {} commands:\n{}",
        smallest.tries + 1,
        smallest.options.ticks,
        commands.len(),
        smallest.violation
    ));
    const SHOWN_MAX: usize = 200;
    for (number, command) in commands.iter().take(SHOWN_MAX) {
        text.push_str(&format!("\n{number:>6} {command:?}"));
    }
    if commands.len() > SHOWN_MAX {
        text.push_str(&format!("\n       and {} more", commands.len() - SHOWN_MAX));
    }
    Failure::verification(text).hint(format!("reproduce with `{}`", invocation(&smallest.options)))
}

/// The command line that runs it.
fn invocation(options: &Options) -> String {
    let mut line = format!("damrak sim --seed {} --ticks {}", options.seed, options.ticks);
    if options.faults == FaultSet::NONE {
        line.push_str(" --without-faults");
    } else if options.faults != FaultSet::ALL {
        let kinds: Vec<_> = options.faults.iter().map(FaultKind::as_str).collect();
        line.push_str(&format!(" --faults {}", kinds.join(",")));
    }
    if let Some(commands) = &options.commands {
        let numbers: Vec<_> = commands.iter().map(u64::to_string).collect();
        // The option needs a value; this value never occurs.
        let numbers = if numbers.is_empty() { "0".to_owned() } else { numbers.join(",") };
        line.push_str(&format!(" --commands {numbers}"));
    }
    line
}

fn model(arguments: &Arguments) -> Result<(), Failure> {
    let commands = arguments.ticks.unwrap_or(MODEL_COMMANDS);
    let clock = SystemClock::start();
    let last = arguments.seed.saturating_add(arguments.seeds - 1);
    let coverage = agreement::play_all(arguments.seed..=last, commands, arguments.threads())
        .map_err(Failure::verification)?;
    let total = agreement::profiles(commands).len() as u64 * arguments.seeds * commands;
    let missing = agreement::missing(&coverage);
    let seconds = clock.since_start().as_secs_f64();
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/sim-model/1",
            "seed": arguments.seed,
            "seeds": arguments.seeds,
            "commands": total,
            "seconds": seconds,
            "coverage": coverage,
            "missing": missing,
            "passed": missing.is_empty(),
        }))?;
    } else {
        for (name, count) in &coverage {
            print_line(&format!("{:>15} {name}", grouped(*count)))?;
        }
        print_line(&format!(
            "{} commands: engine and model agree on all, {} kinds of answers seen, {seconds:.1} s",
            grouped(total),
            coverage.len(),
        ))?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let never = format!("{} kinds of answers did not occur: {}", missing.len(), missing.join("; "));
    Err(Failure::verification(never).hint("run more --seeds"))
}

/// Totals of all seeds.
#[derive(Default)]
struct Total {
    seeds: u64,
    counts: Counts,
    simulated_ns: u64,
    hits: Hits,
}

impl Total {
    fn add(&mut self, summary: &Summary) {
        self.seeds += 1;
        self.counts.add(&summary.counts);
        self.simulated_ns += summary.simulated_ns;
        self.hits.add(&summary.hits);
    }

    fn figures(&self, seconds: f64) -> Value {
        let mut figures = common_figures(&self.counts, self.simulated_ns, &self.hits);
        figures["schema"] = json!("damrak/sim-total/2");
        figures["seeds"] = json!(self.seeds);
        figures["never_hit"] = json!(self.hits.missing());
        figures["seconds"] = json!(seconds);
        figures
    }

    fn lines(&self, seconds: f64) -> String {
        let Counts { inputs, orders, trades, ledger_entries, replies, feed_messages, .. } =
            self.counts;
        let mut lines = format!(
            "{}: {} inputs, {} orders, {} trades, {} ledger entries, {} replies, {} feed \
             messages, {} kills ({} with a power cut), {} starts from a snapshot: no difference, \
             {seconds:.1} s",
            counted(self.seeds, "seed"),
            grouped(inputs),
            grouped(orders),
            grouped(trades),
            grouped(ledger_entries),
            grouped(replies),
            grouped(feed_messages),
            grouped(self.counts.kills),
            grouped(self.counts.power_cuts),
            grouped(self.counts.snapshot_starts),
        );
        for (group, title) in [
            (sim::FAULTS, "faults injected"),
            (sim::ATTACKS, "attacks"),
            (sim::DEFENCES, "turned away"),
            (sim::REPLY_TICKS, "honest replies by ticks"),
            (sim::LARGE_QUANTITIES, "beyond 32 bits"),
            (sim::PERTURBATIONS, "scheduling choices varied"),
            (sim::KILLED_AFTER, "killed right after"),
            (sim::DAMAGED_STARTS, "starts on a damaged journal"),
        ] {
            let counts = self.hits.0.get(group).into_iter().flatten();
            let words: Vec<_> =
                counts.map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
            lines.push_str(&format!("\n{title}: {}", words.join(", ")));
        }
        lines
    }
}

/// The figures that a seed and the totals have in common.
fn common_figures(counts: &Counts, simulated_ns: u64, hits: &Hits) -> Value {
    let mut figures = json!({
        "simulated_s": simulated_ns as f64 / 1e9,
        "hits": hits.0,
        "passed": true,
    });
    for (name, count) in counts.named() {
        figures[name] = json!(count);
    }
    figures
}

fn figures(summary: &Summary) -> Value {
    let mut figures = common_figures(&summary.counts, summary.simulated_ns, &summary.hits);
    figures["schema"] = json!("damrak/sim/3");
    figures["seed"] = json!(summary.seed);
    figures["state_hash"] = json!(format!("{:016x}", summary.state_hash));
    figures
}

fn line(summary: &Summary) -> String {
    let Counts { inputs, orders, trades, replies, .. } = summary.counts;
    format!(
        "seed {}: {} inputs, {} orders, {} trades, {} replies over {} connections, {} kills ({} \
         with a power cut), {} starts from a snapshot, state {:016x}: no difference",
        summary.seed,
        grouped(inputs),
        grouped(orders),
        grouped(trades),
        grouped(replies),
        summary.counts.connections,
        summary.counts.kills,
        summary.counts.power_cuts,
        summary.counts.snapshot_starts,
        summary.state_hash,
    )
}
