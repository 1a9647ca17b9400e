//! `damrak kill`: crash trials, one kill after the other on the same journal.

mod disk;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::Args;
use lab::crash_trial::{
    Participants, PrintedDigests, ReceivedReplies, VenueProcess, hash_text, prepare_folder, replay,
    trade_until_killed, unusable,
};
use proof::rng::Rng;
use serde_json::json;

use super::output::{counted, grouped, print_json, print_line};
use disk::Disk;

use venue::{
    clock::SystemClock,
    config::{DurabilityConfig, Rate},
    failure::Failure,
};

/// Kills per journal, before a new one begins: every check replays the journal from its first record.
const KILLS_PER_JOURNAL: u64 = 20;

/// The longest time from the start of the load to the kill; the time is random.
const KILL_AFTER_MAX: Duration = Duration::from_millis(400);

const PARTICIPANTS: Participants = Participants {
    tcp_users: &["user01", "user02", "user03"],
    udp_user: None,
    symbols: &["AAPL", "MSFT"],
};

/// Kill a venue under load repeatedly, and check that no acknowledged order is lost.
///
/// Starts a venue, lets participants trade, kills it with SIGKILL at a random moment, and starts it
/// again on the same journal. The participants keep every reply they received. After each kill the
/// journal is replayed: every reply must be in the reply stream of the replay, byte for byte; every
/// event digest that the venue printed must equal that of the replay; and the venue must start in the
/// state of the replay. Exit code 4 if one of these does not hold; the folder is then kept for inspection.
///
/// With --power-cuts the journal is on a test disk (ext4 in a file, which needs root). That disk
/// loses its power right before the kill: all bytes that were not on the medium are lost.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak kill --times 20\n  \
                        damrak kill --times 500 --durability synced --json\n  \
                        sudo damrak kill --times 100 --power-cuts")]
pub struct Arguments {
    /// Number of kills.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// Seed of the orders and of the moments of the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests of all participants together.
    #[arg(long, default_value = "20k/s")]
    rate: Rate,
    /// Durability that a reply waits for [default: written, with --power-cuts synced].
    #[arg(long, value_enum)]
    durability: Option<DurabilityConfig>,
    /// Cut the power of the disk before each kill. With a weaker durability than `synced` the run is
    /// expected to find lost replies (exit code 4): a test of the test.
    #[arg(long)]
    power_cuts: bool,
    /// Folder for the journals; files of an earlier run are removed.
    #[arg(long, value_name = "FOLDER", default_value = "kill-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Totals of a run.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    power_cuts: u64,
    journals: u64,
    acked: u64,
    inputs: u64,
    torn_tails: u64,
    digests: u64,
}

/// Runs `damrak kill`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    prepare_folder(&arguments.out, "kill", || disk::release_left(&arguments.out))?;
    let mut disk = arguments.power_cuts.then(|| Disk::make(&arguments.out)).transpose()?;
    let default =
        if arguments.power_cuts { DurabilityConfig::Synced } else { DurabilityConfig::Written };
    let durability = arguments.durability.unwrap_or(default);
    let mut rng = Rng::new(arguments.seed);
    let mut tally = Tally::default();
    while tally.kills < arguments.times {
        tally.journals += 1;
        let place = disk.as_ref().map_or(arguments.out.as_path(), Disk::place);
        let folder = place.join(format!("journal-{}", tally.journals));
        fs::create_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
        one_journal(arguments, durability, &folder, disk.as_mut(), clock, &mut rng, &mut tally)?;
        fs::remove_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
    }
    let seconds = clock.since_start().as_secs_f64();
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/kill/1",
            "kills": tally.kills,
            "power_cuts": tally.power_cuts,
            "journals": tally.journals,
            "acked": tally.acked,
            "acked_lost": 0,
            "inputs": tally.inputs,
            "torn_tails": tally.torn_tails,
            "digests_equal": tally.digests,
            "durability": durability,
            "seed": arguments.seed,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "{}, {}: {} received, 0 lost; {}, {} equal, {} removed, {seconds:.1} s",
        counted(tally.kills, "kill"),
        counted(tally.power_cuts, "power cut"),
        counted(tally.acked, "acknowledged message"),
        counted(tally.inputs, "input"),
        counted(tally.digests, "event digest"),
        counted(tally.torn_tails, "torn tail"),
    ))
}

fn one_journal(
    arguments: &Arguments,
    durability: DurabilityConfig,
    folder: &Path,
    mut disk: Option<&mut Disk>,
    clock: SystemClock,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<(), Failure> {
    // Not on the test disk, which would lose them.
    let config = arguments.out.join("venue.toml");
    let log = arguments.out.join("venue.log");
    let journal = folder.join("journal");
    // Journals alternate in the method of writing, if the disk supports both.
    let method = if tally.journals.is_multiple_of(2) { "buffered" } else { "auto" };
    write_config(&config, &journal, durability, method)?;
    let received = ReceivedReplies::new(&PARTICIPANTS);
    // The state hash of the last replay: the venue must start with it.
    let mut expected: Option<(u64, String)> = None;
    for kill in 0..=KILLS_PER_JOURNAL {
        let venue = VenueProcess::start(&config, &log)?;
        let recovered = &venue.started["recovered"];
        if let Some((sequence, hash)) = &expected
            && (recovered["last_sequence"] != *sequence || recovered["state_hash"] != hash.as_str())
        {
            return Err(Failure::verification(format!(
                "kill {}: the replay ends at sequence {sequence} with state {hash}, the venue has \
                 {recovered}",
                tally.kills
            )));
        }
        tally.torn_tails += u64::from(recovered["torn_tail"].is_object());
        if kill == KILLS_PER_JOURNAL || tally.kills == arguments.times {
            return venue.stop();
        }
        let printed = trade_and_kill(arguments, &venue, &received, disk.as_deref(), clock, rng)?;
        drop(venue);
        tally.kills += 1;
        if let Some(disk) = disk.as_deref_mut() {
            disk.restart()?;
            tally.power_cuts += 1;
        }
        let replayed = replay(&journal, &printed)?;
        if !replayed.differing.is_empty() {
            return Err(Failure::verification(format!(
                "kill {}: the replay has other event digests than the venue printed, at sequences {:?}",
                tally.kills, replayed.differing
            )));
        }
        if let Some((user, count)) =
            received.lost(&PARTICIPANTS, &replayed.derived).first_key_value()
        {
            return Err(Failure::verification(format!(
                "kill {}: {user} received {count} replies that are gone; the journal is in {}",
                tally.kills,
                journal.display()
            )));
        }
        tally.digests += replayed.equal_count + replayed.replay.digests.equal_count;
        tally.acked += received.count();
        received.clear();
        let sequence = replayed.replay.report.last_sequence;
        if kill + 1 == KILLS_PER_JOURNAL || tally.kills == arguments.times {
            tally.inputs += sequence;
        }
        expected = Some((sequence, hash_text(replayed.replay.state.engine.state_hash())));
        if !arguments.json && tally.kills.is_multiple_of(10) {
            let (kills, acked) = (grouped(tally.kills), grouped(tally.acked));
            print_line(&format!("{kills:>6} kills, {acked} acknowledged messages, 0 lost"))?;
        }
    }
    Ok(())
}

/// Lets the participants trade until the venue is killed; returns the event digests that the venue printed.
fn trade_and_kill(
    arguments: &Arguments,
    venue: &VenueProcess,
    received: &ReceivedReplies,
    disk: Option<&Disk>,
    clock: SystemClock,
    rng: &mut Rng,
) -> Result<PrintedDigests, Failure> {
    let options = PARTICIPANTS.load(venue, received, arguments.rate.0, rng.next_u64())?;
    let trade_for = Duration::from_micros(rng.below(KILL_AFTER_MAX.as_micros() as u64));
    let kill = || match disk {
        None => venue.kill(),
        Some(disk) => {
            disk.cut_power()?;
            // Between the power cut and the kill the venue may behave in any way.
            thread::sleep(Duration::from_micros(rng.below(20_000)));
            venue.kill_if_it_runs()
        }
    };
    Ok(trade_until_killed(&options, received, clock, trade_for, &mut |_| {}, kill)?.digests)
}

fn write_config(
    path: &Path,
    journal: &Path,
    durability: DurabilityConfig,
    method: &str,
) -> Result<(), Failure> {
    let text = format!(
        "[journal]\ndirectory = {journal:?}\ndurability = {}\nmethod = {method:?}\n\
         segment = \"1MiB\"\n\
         digest_every = 256\n\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\nreply_store = \"256MiB\"\n\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\nreply_store = \"1MiB\"\n\n\
         [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n{}",
        json!(durability),
        PARTICIPANTS.config()
    );
    fs::write(path, text).map_err(|error| unusable(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The written configuration is valid.
    #[test]
    fn the_configuration_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        for durability in
            [DurabilityConfig::None, DurabilityConfig::Written, DurabilityConfig::Synced]
        {
            let path = folder.path().join("venue.toml");
            write_config(&path, &folder.path().join("journal"), durability, "auto").unwrap();
            venue::config::Config::read(&path).unwrap();
        }
    }
}
