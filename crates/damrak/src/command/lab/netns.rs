//! `damrak lab netns`: two network namespaces with a veth pair, one for the load and one for the venue.
//!
//! Invariant: it removes only namespaces that it has made.

use clap::{Args, Subcommand, ValueEnum};
use lab::{
    datagram_ladder::{LADDER_DIFFERENCES, Ladder, LadderPath},
    environment::{Environment, machine_line},
    netns::{Cores, PairName, PairSide, TakenDown, VethPair, VethPairs},
};
use os::system_files;
use serde_json::{Value, json};
use venue::{config::Span, failure::Failure};

use super::{
    super::output::{print_json, print_line},
    origins,
};

/// Join two network namespaces by a veth pair, one for the load and one for the venue, with cores of their own.
///
/// Packets between the two take the same path through the kernel as between two machines, but without a network card.
/// Needs root and the program `ip` of iproute2. Every pair has the addresses 10.77.0.1 (load) and 10.77.0.2 (venue) inside
/// its namespaces, which are called damrak-lab-NAME-load and damrak-lab-NAME-venue; the rest of the machine's network
/// does not change. The next call removes the remains of an interrupted run, and only those. docs/netns.md has more.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak lab netns up --venue-cores 0 --load-cores 1\n  \
                  damrak lab netns run venue -- damrak serve --config venue.toml\n  \
                  damrak lab netns run load -- damrak load --to 10.77.0.2:26400\n  \
                  damrak lab netns down\n  damrak lab netns ladder --for 3s")]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a pair, which stays until `down` or the next boot.
    Up {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        cores: CoreArguments,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Run a program on a side of a pair, as root; its exit code is that of this command.
    Run {
        #[command(flatten)]
        name: Name,
        /// Cores that the program may use, as 0,2-3 [default: those of the side].
        #[arg(long, value_name = "LIST", value_parser = cores)]
        cores: Option<CoreList>,
        #[arg(value_enum)]
        side: SideName,
        /// The program and its arguments.
        #[arg(required = true, last = true, value_name = "COMMAND")]
        program: Vec<String>,
    },
    /// Show the pairs that are up.
    Show {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove a pair, and the remains of interrupted runs.
    Down {
        #[command(flatten)]
        name: Name,
        /// Every pair that is up.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Measure datagrams per second between the two sides of a temporary pair, for an increasing number of datagrams per
    /// system call.
    Ladder {
        #[command(flatten)]
        cores: CoreArguments,
        /// How long each step is measured.
        #[arg(long = "for", value_name = "TIME", default_value = "1s")]
        duration: Span,
        /// Print one JSON object at the end.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Name {
    /// The name of the pair: several may be up.
    #[arg(long, default_value = "main")]
    name: PairName,
}

#[derive(Debug, Args)]
struct CoreArguments {
    /// Cores of the load, as 0,2-3 [default: the second core that this process may use].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    load_cores: Option<CoreList>,
    /// Cores of the venue [default: the first].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    venue_cores: Option<CoreList>,
    /// Cores that process arriving packets, on both sides (RPS) [default: the core that sent the packet].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    softirq_cores: Option<CoreList>,
}

#[derive(Clone, Debug)]
struct CoreList(Vec<usize>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SideName {
    Load,
    Venue,
}

fn cores(text: &str) -> Result<CoreList, String> {
    match system_files::cores(text) {
        Some(cores) if !cores.is_empty() => Ok(CoreList(cores)),
        _ => Err("a list of cores is like 0,2-3".into()),
    }
}

impl CoreArguments {
    fn take(&self) -> Cores {
        let one_each = Cores::one_each();
        let given = |list: &Option<CoreList>, or: Vec<usize>| {
            list.as_ref().map_or(or, |CoreList(cores)| cores.clone())
        };
        Cores {
            load: given(&self.load_cores, one_each.load),
            venue: given(&self.venue_cores, one_each.venue),
            softirqs: given(&self.softirq_cores, one_each.softirqs),
        }
    }
}

/// Runs `damrak lab netns`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let pairs = VethPairs::of_this_machine();
    match &arguments.what {
        What::Up { name, cores, json } => {
            let pair = pairs.up(&name.name, cores.take())?;
            match json {
                true => print_json(&described(&pair)),
                false => print_line(&text(&pair)),
            }
        }
        What::Run { name, cores, side, program } => {
            let side = match side {
                SideName::Load => PairSide::Load,
                SideName::Venue => PairSide::Venue,
            };
            let cores = cores.as_ref().map_or(&[][..], |CoreList(cores)| cores);
            Err(pairs.find(&name.name)?.become_program(side, cores, program))
        }
        What::Show { json } => {
            let all = pairs.all()?;
            if *json {
                let all: Vec<_> = all.iter().map(described).collect();
                return print_json(&json!({"schema": "damrak/netns/1", "pairs": all}));
            }
            all.iter().try_for_each(|pair| print_line(&text(pair)))
        }
        What::Down { name, all } => down(&pairs, &name.name, *all),
        What::Ladder { cores, duration, json } => ladder(&pairs, cores.take(), duration, *json),
    }
}

fn down(pairs: &VethPairs, name: &PairName, all: bool) -> Result<(), Failure> {
    let mut taken = pairs.remove_leftovers()?;
    let names = match all {
        true => pairs.all()?.into_iter().map(|pair| pair.name).collect(),
        false => vec![name.clone()],
    };
    for name in &names {
        taken.extend(pairs.down(name)?);
    }
    if taken.is_empty() {
        return print_line(if all { "no pair is up" } else { "there is no such pair" });
    }
    for TakenDown { name, processes } in taken {
        print_line(&format!("removed the pair {name}"))?;
        if !processes.is_empty() {
            let ids: Vec<_> = processes.iter().map(u32::to_string).collect();
            print_line(&format!(
                "  still running in its namespaces, without a network: processes {}",
                ids.join(", ")
            ))?;
        }
    }
    Ok(())
}

fn ladder(pairs: &VethPairs, cores: Cores, duration: &Span, is_json: bool) -> Result<(), Failure> {
    let started = Environment::now();
    let mut rows = Vec::new();
    pairs.with_temporary(cores, |pair| {
        Ladder { path: LadderPath::Veth(pair), duration: duration.0 }.climb(&mut |rung, ours| {
            if !is_json {
                print_line(&origins::side_by_side(rung.case, &ours, rung.theirs))?;
            }
            rows.push(json!({
                "case": rung.case,
                "ours": ours.as_ref().ok(),
                "skipped": ours.as_ref().err(),
                "theirs": rung.theirs,
            }));
            Ok(())
        })
    })?;
    let environment = Environment::now().since(&started);
    if is_json {
        return print_json(&json!({
            "schema": "damrak/netns-ladder/1",
            "seconds": duration.0.as_secs_f64(),
            "differences": LADDER_DIFFERENCES,
            "rows": rows,
            "environment": environment,
        }));
    }
    print_line(LADDER_DIFFERENCES)?;
    print_line(&machine_line(&environment))
}

fn described(pair: &VethPair) -> Value {
    let side = |side: PairSide| {
        json!({
            "namespace": pair.namespace(side),
            "address": side.address().to_string(),
            "cores": pair.cores.of(side),
        })
    };
    json!({
        "name": pair.name.to_string(),
        "load": side(PairSide::Load),
        "venue": side(PairSide::Venue),
        "softirq_cores": pair.cores.softirqs,
    })
}

fn text(pair: &VethPair) -> String {
    let list = |cores: &[usize], none: &str| match cores {
        [] => none.to_owned(),
        cores => format!("cores {}", system_files::list(cores)),
    };
    let mut lines = vec![format!("pair {}", pair.name)];
    for side in PairSide::ALL {
        lines.push(format!(
            "  {:<6}{:<34}{:<11}{}",
            side.as_str(),
            pair.namespace(side),
            side.address(),
            list(pair.cores.of(side), "all cores"),
        ));
    }
    lines.push(format!(
        "  arriving packets are processed by {}",
        list(&pair.cores.softirqs, "the core that sent it")
    ));
    lines.join("\n")
}
