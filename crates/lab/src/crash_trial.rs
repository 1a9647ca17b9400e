//! Crash trials: a venue is killed under load, and the messages that its participants received are compared with its
//! journal. The parts that `damrak demo` and `damrak kill` share.
//!
//! Start at [`trade_until_killed`], then [`replay`].
//!
//! Invariant: of the killed venue, the comparison uses only its journal.

mod process;

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use market::{Price, Symbol};
use proof::audit::{self, Derived, Digest};
use venue::{clock::SystemClock, failure::Failure, recovery};
use wire::soupbintcp::LoginRequest;

use crate::{
    load::{
        self, LoadError, LoadOptions, LoadProgress, LoadReport, LoadSession, LoadSymbol, Observer,
        SILENCE_NS_MAX,
    },
    schedule::Arrivals,
};

pub use process::{PrintedDigests, VenueProcess};

/// Initial price, 150.00, in ticks; prices move in steps of 0.01.
const MID: Price = Price(1_500_000);
const PRICE_INCREMENT: Price = Price(100);

/// Duration of the load; the kill ends it before.
const LOAD_NS_MAX: u64 = 3_600_000_000_000;

/// How long participants wait for answers after the kill; none will arrive.
const GRACE_NS: u64 = 100_000_000;

#[derive(Clone, Debug)]
pub struct Participants {
    /// Users over SoupBinTCP. The password of the first is `password01`, and so on.
    pub tcp_users: &'static [&'static str],
    /// The user over UDP, if any, and the address that it sends from.
    pub udp_user: Option<(&'static str, SocketAddr)>,
    pub symbols: &'static [&'static str],
}

impl Participants {
    /// All users, those over SoupBinTCP first.
    pub fn users(&self) -> impl Iterator<Item = &'static str> {
        self.tcp_users.iter().copied().chain(self.udp_user.map(|(user, _)| user))
    }

    /// The tables of instruments and participants, for the configuration of the venue.
    pub fn config(&self) -> String {
        let mut text = String::new();
        for symbol in self.symbols {
            text += &format!("\n[[instruments]]\nsymbol = {symbol:?}\n");
        }
        for (index, user) in self.tcp_users.iter().enumerate() {
            let password = password(index);
            text += &format!(
                "\n[[participants]]\nusername = {user:?}\npassword = {password:?}\nfirm = \"FIRM\"\n"
            );
        }
        if let Some((user, local)) = self.udp_user {
            text += &format!(
                "\n[[participants]]\nusername = {user:?}\nfirm = \"FIRM\"\nudp = \"{local}\"\n"
            );
        }
        text
    }

    /// The login of the user with this index, from 0.
    pub fn login(&self, index: usize) -> LoginRequest {
        LoginRequest::new(self.tcp_users[index], &password(index)).expect("names fit their fields")
    }

    /// Runs load by all users on this venue until it is killed; `received` is called for every reply.
    pub fn load(
        &self,
        venue: &VenueProcess,
        received: &ReceivedReplies,
        rate_per_second: u64,
        seed: u64,
    ) -> Result<LoadOptions, Failure> {
        let server = venue.address("order_entry")?;
        let mut sessions: Vec<LoadSession> = (0..self.tcp_users.len())
            .map(|index| LoadSession::Tcp { server, login: self.login(index) })
            .collect();
        if let Some((_, local)) = self.udp_user {
            sessions.push(LoadSession::Udp { server: venue.address("order_entry_udp")?, local });
        }
        let symbol = |name: &&str| LoadSymbol {
            symbol: Symbol::new(name).expect("a symbol has up to eight characters"),
            mid: MID,
            price_increment: PRICE_INCREMENT,
        };
        let symbols = self.symbols.iter().map(symbol).collect();
        let mut options = LoadOptions::new(sessions, symbols, rate_per_second, LOAD_NS_MAX);
        options.seed = seed;
        options.arrivals = Arrivals::Poisson;
        options.grace_ns = GRACE_NS;
        options.ready_ns_max = SILENCE_NS_MAX;
        options.on_message = Some(received.observer());
        Ok(options)
    }
}

fn password(index: usize) -> String {
    format!("password{:02}", index + 1)
}

/// The replies that each participant received: their stream numbers and digests.
#[derive(Clone, Debug)]
pub struct ReceivedReplies(Arc<Vec<ReceivedStream>>);

type ReceivedStream = Mutex<Vec<(u64, Digest)>>;

impl ReceivedReplies {
    /// No replies yet, by these participants.
    pub fn new(participants: &Participants) -> Self {
        Self(Arc::new(participants.users().map(|_| Mutex::default()).collect()))
    }

    fn observer(&self) -> Observer {
        let Self(streams) = self.clone();
        Arc::new(move |session, number, message| {
            let digest = Digest::of(message);
            streams[session].lock().expect("no observer panics").push((number, digest));
        })
    }

    /// The number of replies, of all participants together.
    pub fn count(&self) -> u64 {
        self.counts().sum()
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|stream| stream.lock().expect("no observer panics").len() as u64)
    }

    /// Users that received replies that the journal does not give at that number, each with the count.
    pub fn lost(
        &self,
        participants: &Participants,
        derived: &Derived,
    ) -> BTreeMap<&'static str, u64> {
        let lost = participants.users().zip(self.0.iter()).map(|(user, stream)| {
            let stream = stream.lock().expect("no observer panics");
            (user, audit::lost(stream.iter().copied(), derived.replies_of(user)))
        });
        lost.filter(|(_, count)| *count > 0).collect()
    }

    pub fn clear(&self) {
        self.0.iter().for_each(|stream| stream.lock().expect("no observer panics").clear());
    }
}

#[derive(Debug)]
pub struct Killed {
    /// The report of the participants' load. A kill may also meet one of them while it logs in.
    pub report: Result<LoadReport, LoadError>,
    /// The event digests that the venue had printed.
    pub digests: PrintedDigests,
}

/// Lets participants trade. Once each of them has received a reply, waits for `trade_for`, calls `kill`,
/// and waits until the participants have noticed.
pub fn trade_until_killed(
    options: &LoadOptions,
    received: &ReceivedReplies,
    clock: SystemClock,
    trade_for: Duration,
    progress: &mut (dyn FnMut(&LoadProgress<'_>) + Send),
    kill: impl FnOnce() -> Result<PrintedDigests, Failure>,
) -> Result<Killed, Failure> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            load::run(options, &clock, &stop, &mut |made| {
                if !stop.load(Ordering::Relaxed) {
                    progress(made);
                }
            })
        });
        let pause = Duration::from_millis(1);
        while !load.is_finished() && received.counts().any(|count| count == 0) {
            thread::sleep(pause);
        }
        let begun = clock.since_start();
        while !load.is_finished() && clock.since_start() - begun < trade_for {
            thread::sleep(pause.min(trade_for));
        }
        let ended_early = load.is_finished();
        let killed = if ended_early { Ok(PrintedDigests::new()) } else { kill() };
        stop.store(true, Ordering::Relaxed);
        let report = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if ended_early {
            let reasons = match report {
                Ok(report) => report.failures.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            let reasons = reasons.join("; ");
            return Err(Failure::runtime(format!("the load ended before the kill: {reasons}")));
        }
        Ok(Killed { report, digests: killed? })
    })
}

pub struct Replayed {
    pub replay: recovery::Replay,
    pub derived: Derived,
    /// How many of the printed digests equal those of the replay.
    pub equal_count: u64,
    pub differing: Vec<u64>,
}

/// Replays a journal, and compares the event digests that its venue printed. Those up to inputs that are
/// not in the journal are left out: the engine may be ahead of the journaler.
pub fn replay(journal: &Path, printed: &PrintedDigests) -> Result<Replayed, Failure> {
    let mut derived = Derived::new();
    let printed: BTreeMap<u64, &str> =
        printed.iter().map(|(sequence, digest)| (*sequence, digest.as_str())).collect();
    let (mut equal_count, mut differing) = (0, Vec::new());
    let replay = recovery::replay_folder(
        journal,
        &mut |input, _, digest_here| {
            let Some(digest) = printed.get(&input.sequence.0) else { return };
            if *digest == hash_text(digest_here.word()) {
                equal_count += 1;
            } else {
                differing.push(input.sequence.0);
            }
        },
        &mut |line| line.each(|output| derived.output(output)),
    )?;
    Ok(Replayed { replay, derived, equal_count, differing })
}

/// A state hash or an event digest as a venue prints it.
pub fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}

/// Makes an empty folder for the files of a verb. A folder of an earlier run is emptied; a file
/// `VERB.marker` identifies it.
pub fn prepare_folder(
    folder: &Path,
    verb: &str,
    before_it_is_emptied: impl FnOnce(),
) -> Result<(), Failure> {
    let marker = folder.join(format!("{verb}.marker"));
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        if !marker.exists() {
            let folder = folder.display();
            return Err(Failure::usage(format!(
                "{folder} was not made by `damrak {verb}`: it has other files"
            ))
            .hint("--out names another folder"));
        }
        before_it_is_emptied();
        fs::remove_dir_all(folder).map_err(|error| unusable(folder, &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| unusable(folder, &error))?;
    fs::write(&marker, format!("made by `damrak {verb}`; the next run removes this folder\n"))
        .map_err(|error| unusable(&marker, &error))
}

/// A folder or file of a trial that cannot be used.
pub fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot use {}: {error}", path.display()))
        .hint("--out names another folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of another origin is not emptied; one of the same verb is.
    #[test]
    fn a_foreign_folder_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter.txt"), "dear").unwrap();
        assert!(prepare_folder(folder.path(), "demo", || ()).is_err());
        assert!(folder.path().join("letter.txt").exists());
        let own = folder.path().join("own");
        prepare_folder(&own, "demo", || ()).unwrap();
        fs::write(own.join("left"), "").unwrap();
        assert!(prepare_folder(&own, "kill", || ()).is_err());
        prepare_folder(&own, "demo", || ()).unwrap();
        assert!(!own.join("left").exists());
    }

    /// A received message that the journal does not give is found, with its participant.
    #[test]
    fn what_is_lost_is_found() {
        let participants =
            Participants { tcp_users: &["user01", "user02"], udp_user: None, symbols: &["AAPL"] };
        let received = ReceivedReplies::new(&participants);
        assert_eq!(received.lost(&participants, &Derived::new()), BTreeMap::new());
        received.observer()(1, 1, b"Q");
        assert_eq!(received.count(), 1);
        assert_eq!(received.lost(&participants, &Derived::new()), BTreeMap::from([("user02", 1)]));
        received.clear();
        assert_eq!(received.count(), 0);
    }
}
