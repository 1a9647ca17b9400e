mod disk;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool, atomic::Ordering},
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use lab::{
    load::{LoadOptions, LoadSession},
    schedule::Arrivals,
};
use proof::rng::Rng;
use serde_json::json;
use wire::soupbintcp::LoginRequest;

use super::{
    demo::child::Venue,
    load::symbols,
    output::{grouped, print_json, print_line},
};
use disk::Disk;

use proof::audit::{self, Derived, Digest};
use venue::{
    clock::SystemClock,
    config::{Decimal, Rate},
    failure::Failure,
    recovery,
};

/// Kills on one journal, before a new one is begun: every audit replays it from its first record.
const KILLS_PER_JOURNAL: u64 = 20;

/// The load meets the kill at a random moment of this time.
const KILL_AFTER_MAX: Duration = Duration::from_millis(400);

/// A file by which a run knows a folder as its own.
const MARKER: &str = "kill.marker";

const USERS: [&str; 3] = ["user01", "user02", "user03"];
const SYMBOLS: [&str; 2] = ["AAPL", "MSFT"];

/// Kill a venue under load again and again, and look for anything acknowledged that is gone.
///
/// Starts a venue, lets participants trade, and ends it by SIGKILL at a random moment; then starts it
/// again on the same journal, as often as asked. The participants keep every reply they heard. After
/// each kill the journal is replayed: every reply must be in the stream that follows from it, byte for
/// byte, every state hash that the venue told must be that of the replay, and the venue must come back
/// with it. Exit code 4 if not; the folder is then left as it is.
///
/// With --power-cuts the journal lies on a disk of its own (ext4 in a file, so this takes root), and
/// right before the kill that disk loses its power: what was not on the medium is gone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak kill --times 20\n  \
                        damrak kill --times 500 --durability synced --json\n  \
                        sudo damrak kill --times 100 --durability synced --power-cuts")]
pub struct Arguments {
    /// How many kills.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// What the participants ask for, and when the venue is killed, follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests of all participants together.
    #[arg(long, default_value = "20k/s")]
    rate: Rate,
    /// What an acknowledgement promises.
    #[arg(long, value_enum, default_value_t = Promise::Written)]
    durability: Promise,
    /// Cut the power of the disk before each kill. With a lesser promise than `synced` replies must
    /// then be gone, or the journal refused: it shows that they could.
    #[arg(long)]
    power_cuts: bool,
    /// Where the journals go; what an earlier run left there is removed.
    #[arg(long, value_name = "FOLDER", default_value = "kill-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Promise {
    /// Nothing. A run with kills must find replies that are gone: it shows that one could.
    None,
    /// It survives the process.
    Written,
    /// It survives the machine.
    Synced,
}

/// What the participants heard: numbers and digests of their messages.
type Heard = Arc<Vec<Mutex<Vec<(u64, Digest)>>>>;

/// What all kills came to.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    power_cuts: u64,
    journals: u64,
    acked: u64,
    inputs: u64,
    torn_tails: u64,
    hashes: u64,
}

/// Runs `damrak kill`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    prepare(&arguments.out)?;
    let mut disk = arguments.power_cuts.then(|| Disk::make(&arguments.out)).transpose()?;
    let mut rng = Rng::new(arguments.seed);
    let mut tally = Tally::default();
    while tally.kills < arguments.times {
        tally.journals += 1;
        let place = disk.as_ref().map_or(arguments.out.as_path(), Disk::place);
        let folder = place.join(format!("journal-{}", tally.journals));
        fs::create_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
        one_journal(arguments, &folder, disk.as_mut(), clock, &mut rng, &mut tally)?;
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
            "state_hashes_equal": tally.hashes,
            "durability": format!("{:?}", arguments.durability).to_lowercase(),
            "seed": arguments.seed,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "{} kills, {} power cuts, {} replies heard, 0 lost; {} inputs, {} state hashes equal, {} torn \
         tails cut, {seconds:.1} s",
        grouped(tally.kills),
        grouped(tally.power_cuts),
        grouped(tally.acked),
        grouped(tally.inputs),
        grouped(tally.hashes),
        grouped(tally.torn_tails),
    ))
}

fn one_journal(
    arguments: &Arguments,
    folder: &Path,
    mut disk: Option<&mut Disk>,
    clock: SystemClock,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<(), Failure> {
    // Not on the disk, from which it would be gone as well.
    let config = arguments.out.join("venue.toml");
    let journal = folder.join("journal");
    // Journals take turns in how they are written, where the disk can.
    let method = if tally.journals.is_multiple_of(2) { "buffered" } else { "auto" };
    write_config(&config, &journal, arguments.durability, method)?;
    let log = arguments.out.join("venue.log");
    let heard: Heard = Arc::new(USERS.iter().map(|_| Mutex::default()).collect());
    // What the last replay came to: the venue must come back with it.
    let mut expected: Option<(u64, String)> = None;
    for kill in 0..=KILLS_PER_JOURNAL {
        let venue = Venue::start(&config, &log)?;
        let recovered = &venue.started["recovered"];
        if let Some((sequence, hash)) = &expected
            && (recovered["last_sequence"] != *sequence || recovered["state_hash"] != hash.as_str())
        {
            return Err(Failure::verification(format!(
                "kill {}: the replay came to sequence {sequence} with {hash}, the venue to \
                 {recovered}",
                tally.kills
            )));
        }
        tally.torn_tails += u64::from(recovered["torn_tail"].is_object());
        if kill == KILLS_PER_JOURNAL || tally.kills == arguments.times {
            return venue.stop();
        }
        let hashes = trade_and_kill(arguments, &venue, &heard, disk.as_deref(), clock, rng)?;
        drop(venue);
        tally.kills += 1;
        if let Some(disk) = disk.as_deref_mut() {
            disk.restart()?;
            tally.power_cuts += 1;
        }

        let mut derived = Derived::new();
        let mut differing = Vec::new();
        let told: std::collections::BTreeMap<u64, &String> =
            hashes.iter().map(|(sequence, hash)| (*sequence, hash)).collect();
        let mut equal = 0;
        let replay = recovery::replay_folder(
            &journal,
            &mut |input, engine| {
                let Some(hash) = told.get(&input.sequence.0) else { return };
                if **hash == format!("{:016x}", engine.state_hash()) {
                    equal += 1;
                } else {
                    differing.push(input.sequence.0);
                }
            },
            &mut |output| derived.output(output),
        )?;
        if !differing.is_empty() {
            return Err(Failure::verification(format!(
                "kill {}: other states than the venue told after {differing:?}",
                tally.kills
            )));
        }
        tally.hashes += equal + replay.hashes.equal_count;
        for (user, heard) in USERS.iter().zip(heard.iter()) {
            let mut heard = heard.lock().expect("no panic");
            let lost = audit::lost(heard.iter().copied(), derived.replies_of(user));
            if lost > 0 {
                return Err(Failure::verification(format!(
                    "kill {}: {user} heard {lost} replies that are gone; {} has the journal",
                    tally.kills,
                    folder.display()
                )));
            }
            tally.acked += heard.len() as u64;
            heard.clear();
        }
        let sequence = replay.report.last_sequence;
        if kill + 1 == KILLS_PER_JOURNAL || tally.kills == arguments.times {
            tally.inputs += sequence;
        }
        expected = Some((sequence, format!("{:016x}", replay.engine.state_hash())));
        if !arguments.json && tally.kills.is_multiple_of(10) {
            print_line(&format!(
                "{:>6} kills, {} replies heard, 0 lost",
                tally.kills,
                grouped(tally.acked)
            ))?;
        }
    }
    Ok(())
}

/// Lets the participants trade until the venue is killed; gives the state hashes that it told.
fn trade_and_kill(
    arguments: &Arguments,
    venue: &Venue,
    heard: &Heard,
    disk: Option<&Disk>,
    clock: SystemClock,
    rng: &mut Rng,
) -> Result<Vec<(u64, String)>, Failure> {
    let server: SocketAddr = venue.started["addresses"]["order_entry"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::runtime("the venue did not tell its address"))?;
    let sessions = (1..).zip(USERS).map(|(number, user)| {
        let login = LoginRequest::new(user, &format!("password{number:02}"))
            .expect("the names fit their fields");
        LoadSession::Tcp { server, login }
    });
    let names: Vec<String> = SYMBOLS.iter().map(|symbol| (*symbol).to_owned()).collect();
    let mut options = LoadOptions::new(
        sessions.collect(),
        symbols(&names, Decimal(1_500_000), Decimal(100))?,
        arguments.rate.0,
        Duration::from_secs(10).as_nanos() as u64,
    );
    options.seed = rng.next_u64();
    options.arrivals = Arrivals::Poisson;
    options.grace_ns = 50_000_000;
    let streams = Arc::clone(heard);
    let has_begun = Arc::new(AtomicBool::new(false));
    let begun = Arc::clone(&has_begun);
    options.on_message = Some(Arc::new(move |session, number, message| {
        let digest = Digest::of(message);
        streams[session].lock().expect("no panic").push((number, digest));
        begun.store(true, Ordering::Relaxed);
    }));
    let wait = Duration::from_micros(rng.below(KILL_AFTER_MAX.as_micros() as u64));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| lab::load::run(&options, &clock, &stop, &mut |_| {}));
        while !has_begun.load(Ordering::Relaxed) && !load.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(wait);
        let ended_early = load.is_finished();
        let hashes = match disk {
            None => venue.kill(),
            Some(disk) => disk.cut_power().and_then(|()| {
                // What the venue does with a disk that is gone is its own affair, for a moment.
                thread::sleep(Duration::from_micros(rng.below(20_000)));
                venue.kill_if_it_runs()
            }),
        };
        thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        let report = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if ended_early {
            let reasons = match report {
                Ok(report) => report.failures.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            return Err(Failure::runtime(format!(
                "the participants ended before the kill: {}",
                reasons.join("; ")
            )));
        }
        // A kill may also meet some of them while they log in.
        hashes
    })
}

fn prepare(out: &Path) -> Result<(), Failure> {
    let is_used = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        if !out.join(MARKER).exists() {
            let what = format!("{} is not the folder of a run: it has other files", out.display());
            return Err(Failure::usage(what).hint("--out names another folder"));
        }
        disk::release_left(out);
        fs::remove_dir_all(out).map_err(|error| unusable(out, &error))?;
    }
    fs::create_dir_all(out).map_err(|error| unusable(out, &error))?;
    fs::write(out.join(MARKER), "made by `damrak kill`; removed and made anew by the next one\n")
        .map_err(|error| unusable(out, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot use {}: {error}", path.display()))
        .hint("--out names another folder")
}

fn write_config(
    path: &Path,
    journal: &Path,
    durability: Promise,
    method: &str,
) -> Result<(), Failure> {
    let durability = format!("{durability:?}").to_lowercase();
    let mut text = format!(
        "[journal]\ndirectory = {journal:?}\ndurability = {durability:?}\nmethod = {method:?}\n\
         segment = \"1MiB\"\n\
         state_hash_every = 256\n\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\nreply_store = \"256MiB\"\n\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\nreply_store = \"1MiB\"\n\n\
         [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\n"
    );
    for symbol in SYMBOLS {
        text += &format!("\n[[instruments]]\nsymbol = {symbol:?}\n");
    }
    for (number, username) in (1..).zip(USERS) {
        text += &format!(
            "\n[[participants]]\nusername = {username:?}\npassword = \"password{number:02}\"\n\
             firm = \"FIRM\"\n"
        );
    }
    fs::write(path, text).map_err(|error| unusable(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of somebody else is not emptied.
    #[test]
    fn a_foreign_folder_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter.txt"), "dear").unwrap();
        assert!(prepare(folder.path()).is_err());
        assert!(folder.path().join("letter.txt").exists());
        let own = folder.path().join("own");
        prepare(&own).unwrap();
        fs::write(own.join("left"), "").unwrap();
        prepare(&own).unwrap();
        assert!(!own.join("left").exists());
    }

    /// The configuration that is written is one that a venue takes.
    #[test]
    fn the_configuration_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        for durability in [Promise::None, Promise::Written, Promise::Synced] {
            let path = folder.path().join("venue.toml");
            write_config(&path, &folder.path().join("journal"), durability, "auto").unwrap();
            venue::config::Config::read(&path).unwrap();
        }
    }
}
