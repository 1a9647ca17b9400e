//! `damrak lab`: experiments on venues of their own.
//!
//! `attack` is here. [`feed`] has subscribers behind a network that loses packets, [`netns`] two network namespaces,
//! [`origins`] our figures compared with published tables, [`regression`] the delta streams in several layouts,
//! [`stalled`] subscribers that stop reading, [`sweep`] a matrix of load runs.

mod feed;
mod netns;
mod origins;
mod regression;
mod stalled;
mod sweep;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use lab::{
    attack::{
        self, Attack, AttackLimits, AttackOptions, AttackOutcome, Honest, Pair, REPEAT_FACTOR,
        bytes_text,
    },
    crash_trial::prepare_folder,
};
use serde_json::json;
use venue::{clock::SystemClock, failure::Failure};

use super::output::{counted, duration, print_json, print_line};

/// The quiet stage of a short run.
const SHORT_QUIET: Duration = Duration::from_millis(200);

/// Experiments on venues that are started for them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak lab attack --list\n  damrak lab attack --short\n  \
                  damrak lab feed --messages 100000\n  damrak lab regression\n  \
                  damrak lab sweep sweep.toml")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Attack(AttackArguments),
    Feed(feed::Arguments),
    Netns(netns::Arguments),
    Origins(origins::Arguments),
    Regression(regression::Arguments),
    Stalled(stalled::Arguments),
    Sweep(sweep::Arguments),
}

/// Attack a venue, and measure the service that honest clients get.
///
/// Each attack has a venue of its own in a child process. An honest client over TCP and one over UDP each
/// send 200 requests a second to it: first before the attack ("quiet"), then during the attack, and then
/// until the venue serves a new client again. Latency counts from the time at which a request was due.
/// The limits: p50 at most 3 times quiet (or 500 us), p99 at most 5 times (or 5 ms), every request over
/// TCP answered, every new client served, service within 1 s of the attack's end, memory at most
/// 512 MiB, and no more bytes in the journal than messages with an effect explain. Exit code 4 if one is
/// exceeded. docs/attacks.md has more.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab attack --list\n  damrak lab attack --short --json\n  \
                        damrak lab attack --only peg-bomb,queries --seconds 10 --runs 5"
)]
struct AttackArguments {
    /// Only these attacks, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// List the attacks, each with a description and with the bound that must contain it.
    #[arg(long)]
    list: bool,
    /// A short run: 0.2 s before each attack and 1 s of attack, with a tenth of the orders; no limits on latency, and
    /// service may take 10 s to return.
    #[arg(long)]
    short: bool,
    /// Seconds before and during each attack [default: 5, with --short 1]. If the latency of an attack exceeds 3 (p50) or
    /// 5 (p99) times that before it, the attack is repeated with five times as many runs, and their latency counts.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Runs of each attack. The latency shown is that of the run with the median ratio; other figures are the worst of all
    /// runs.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Folder for the files; those of an earlier run are removed.
    #[arg(long, value_name = "FOLDER", default_value = "attack-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak lab`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Attack(arguments) => attack_venues(arguments),
        What::Feed(arguments) => feed::run(arguments),
        What::Netns(arguments) => netns::run(arguments),
        What::Origins(arguments) => origins::run(arguments),
        What::Regression(arguments) => regression::run(arguments),
        What::Stalled(arguments) => stalled::run(arguments),
        What::Sweep(arguments) => sweep::run(arguments),
    }
}

fn attack_venues(arguments: &AttackArguments) -> Result<(), Failure> {
    let attacks = select(&arguments.only)?;
    if arguments.list {
        for Attack { name, does, bound, .. } in attacks {
            print_line(&format!("{name:<24}{does}\n{:24}bound: {bound}", ""))?;
        }
        return Ok(());
    }
    let limits = if arguments.short { AttackLimits::SHORT } else { AttackLimits::FULL };
    let stage =
        Duration::from_secs(arguments.seconds.unwrap_or(if arguments.short { 1 } else { 5 }));
    let options = AttackOptions {
        // If latency is not judged, a short time of comparison is enough.
        quiet: if arguments.short { SHORT_QUIET } else { stage },
        stage,
        prepare_max: Duration::from_secs(if arguments.short { 10 } else { 60 }),
        attackers_yield: !arguments.short,
        divisor: if arguments.short { 10 } else { 1 },
        runs: arguments.runs,
    };
    prepare_folder(&arguments.out, "attack", || ())?;
    let clock = SystemClock::start();
    let mut outcomes = Vec::new();
    if !arguments.json {
        print_line(&format!(
            "{:<24}{:>20}{:>20}{:>20}{:>20}{:>9}{:>9}{:>6}{:>9}{:>9}{:>11}{:>11}{:>9}",
            "attack (quiet>attacked)",
            "tcp p50",
            "tcp p99",
            "udp p50",
            "udp p99",
            "tcp max",
            "no core",
            "lost",
            "newcomer",
            "again",
            "memory",
            "journal",
            "sent"
        ))?;
    }
    for attack in attacks {
        let outcome = attack::run(attack, &options, &limits, &arguments.out, clock)?;
        if !arguments.json {
            print_line(&row(&outcome))?;
            for line in remarks(&outcome, &limits) {
                print_line(&format!("    {line}"))?;
            }
        }
        outcomes.push(outcome);
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| !outcome.excesses(&limits).is_empty())
        .map(|outcome| outcome.name)
        .collect();
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/lab-attack/1",
            "short": arguments.short,
            "seconds": options.stage.as_secs(),
            "runs": options.runs,
            "rate_per_second": 200,
            "attacks": outcomes.iter().map(|outcome| outcome.json(&limits)).collect::<Vec<_>>(),
            "failed": failed,
        }))?;
    } else {
        print_line(&format!(
            "{}, {} within every limit",
            counted(outcomes.len() as u64, "attack"),
            outcomes.len() - failed.len()
        ))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let count = counted(failed.len() as u64, "attack");
    Err(Failure::verification(format!("{count} exceeded a limit: {}", failed.join(", ")))
        .hint("docs/attacks.md explains the figures"))
}

/// The attacks with these names, in their own order; all if none is named.
fn select(names: &[String]) -> Result<Vec<&'static Attack>, Failure> {
    let is_known = |name: &String| attack::attacks().any(|attack| attack.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(Failure::usage(format!("there is no attack {unknown:?}"))
            .hint("`damrak lab attack --list` has their names"));
    }
    let is_wanted =
        |attack: &&Attack| names.is_empty() || names.iter().any(|name| name == attack.name);
    Ok(attack::attacks().filter(is_wanted).collect())
}

fn row(outcome: &AttackOutcome) -> String {
    let pair = |pair: &Pair| format!("{}>{}", duration(pair.quiet_ns), duration(pair.attacked_ns));
    let [tcp_p50, tcp_p99, tcp_max] = &outcome.tcp.latency;
    let [udp_p50, udp_p99, _] = &outcome.udp.latency;
    let served = outcome.newcomer_tries - outcome.newcomer_failures;
    format!(
        "{:<24}{:>20}{:>20}{:>20}{:>20}{:>9}{:>9}{:>6}{:>9}{:>9}{:>11}{:>11}{:>9}",
        outcome.name,
        pair(tcp_p50),
        pair(tcp_p99),
        pair(udp_p50),
        pair(udp_p99),
        duration(tcp_max.attacked_ns),
        duration(outcome.core_wait_ns),
        outcome.tcp.unanswered,
        format!("{served}/{}", outcome.newcomer_tries),
        outcome.served_again_ns.map_or("never".into(), duration),
        bytes_text(outcome.memory_bytes_max),
        bytes_text(outcome.journal_bytes),
        outcome.sent,
    )
}

/// The limits that were exceeded, and remarks on figures.
fn remarks(outcome: &AttackOutcome, limits: &AttackLimits) -> Vec<String> {
    let mut remarks: Vec<String> =
        outcome.excesses(limits).iter().map(|excess| format!("FAILED {excess}")).collect();
    let doubts = outcome.doubts.iter().map(|excess| {
        format!(
            "note: the first runs had {excess} without a floor; the table shows {REPEAT_FACTOR} times as many runs"
        )
    });
    remarks.extend(doubts);
    for (client, Honest { unanswered, cut_off, .. }) in
        [("tcp", &outcome.tcp), ("udp", &outcome.udp)]
    {
        if let Some(reason) = cut_off {
            remarks.push(format!("the honest {client} client was cut off: {reason}"));
        }
        if client == "udp" && *unanswered > 0 {
            remarks.push(format!(
                "note: {unanswered} requests over UDP were not answered: the system dropped them"
            ));
        }
    }
    if let Some(reason) = &outcome.venue_ended {
        remarks.push(reason.clone());
    }
    if !outcome.prepared {
        remarks.push("note: the attacker could not place all of its orders".into());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names select attacks in the order of the list; an unknown one is refused by name.
    #[test]
    fn attacks_are_selected_by_name() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            select(&names)
                .map(|attacks| attacks.iter().map(|attack| attack.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), attack::attacks().count());
        assert_eq!(names(&["queries", "peg-bomb"]).unwrap(), ["peg-bomb", "queries"]);
        assert!(names(&["peg-bom"]).unwrap_err().to_string().contains("\"peg-bom\""));
    }
}
