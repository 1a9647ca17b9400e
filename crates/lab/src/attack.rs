//! Attacks on a venue of our own, beside honest clients: the service that those clients get before, during and after.
//!
//! Start at [`run`]. [`attacks`] lists the attacks; `target` has an attacker's means, `outcome` the limits.
//!
//! Invariant: each run has a venue of its own, in a process of its own, and compares a client with itself.

mod fix_attacker;
mod kinds;
mod outcome;
mod target;

use std::{
    fs, hint, io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use client::participant::{self, ClientState};
use market::{Price, Quantity, Side, TimeInForce};
use os::SystemFiles;
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};
use wire::moldudp64::Session;

use crate::{
    crash_trial::{VenueProcess, unusable},
    load::{self, LoadError, LoadOptions, LoadReport, LoadSession, LoadSymbol},
    own_venue::{ReservedAddresses, unread_address},
    profile::Usage,
};

pub use kinds::{Attack, attacks};
pub use outcome::{AttackLimits, AttackOutcome, Excess, Honest, Pair, bytes_text};

use outcome::{Stage, Timeline};
use target::{Doors, PATIENT, Target, login, symbol};

/// Requests of an honest client a second.
const RATE: u64 = 200;
/// How long clients and newcomers wait before they give up.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a newcomer waits during an attack.
const NEWCOMER_PATIENCE: Duration = Duration::from_secs(2);
const NEWCOMER_EVERY: Duration = Duration::from_millis(150);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The factor for the number of runs when an attack is run again.
pub const REPEAT_FACTOR: u32 = 5;

/// The settings of attacks.
#[derive(Clone, Copy, Debug)]
pub struct AttackOptions {
    /// Duration of the quiet stage.
    pub quiet: Duration,
    /// Duration of the attack.
    pub stage: Duration,
    /// How long an attacker may prepare.
    pub prepare_max: Duration,
    /// True if attackers run only while their core is otherwise idle, so that latency is that of the venue; else they
    /// run at a low priority, which leaves them more of a busy machine.
    pub attackers_yield: bool,
    /// Divides the orders that attackers place before they begin; at least 1.
    pub divisor: u32,
    /// Runs of each attack, at least 1.
    pub runs: u32,
}

/// Attacks venues in `folder`, each run a new one, and gives the outcome. If latency is more than the factor that `limits` allow, however
/// short, the attack has [`REPEAT_FACTOR`] times as many runs besides, and their latency counts: few requests decide a percentile.
///
/// # Errors
/// A venue does not start, or its files cannot be used.
pub fn run(
    attack: &Attack,
    options: &AttackOptions,
    limits: &AttackLimits,
    folder: &Path,
    clock: SystemClock,
) -> Result<AttackOutcome, Failure> {
    let outcome = all_runs(attack, options, folder, clock)?;
    let doubts = limits.factors_alone().map_or(vec![], |it| outcome.long_latencies(it));
    if doubts.is_empty() {
        return Ok(outcome);
    }
    let more = AttackOptions { runs: options.runs * REPEAT_FACTOR, ..*options };
    Ok(outcome.repeated(doubts, all_runs(attack, &more, folder, clock)?))
}

fn all_runs(
    attack: &Attack,
    options: &AttackOptions,
    folder: &Path,
    clock: SystemClock,
) -> Result<AttackOutcome, Failure> {
    let refused = |what: &str, error| Failure::environment(format!("cannot {what}: {error}"));
    let allowed = os::allowed_cores().map_err(|error| refused("list the cores", error))?;
    let cores = Cores::of(&allowed);
    if options.attackers_yield {
        // Without idle-time scheduling the figures would be of the scheduler, so it is tried first.
        let tried = thread::spawn(os::run_in_idle_time).join().expect("it does not panic");
        tried.map_err(|error| {
            refused("have attackers yield to the venue", error).hint("`--short` does not need it")
        })?;
    }
    // The venue and the clients inherit the cores of this thread.
    let runs = thread::scope(|scope| {
        let runs = scope.spawn(|| {
            os::pin_to_cores(&cores.of_venue)
                .map_err(|error| refused("give the venue cores of its own", error))?;
            (0..options.runs)
                .map(|_| one_run(attack, options, &cores, folder, clock))
                .collect::<Result<Vec<_>, _>>()
        });
        runs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(AttackOutcome::of_runs(&runs).expect("there is a run"))
}

/// The cores of each side. Attackers have machines of their own, so they take no core from the venue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cores {
    /// The cores of the venue, the honest clients and the newcomers.
    of_venue: Vec<usize>,
    of_attackers: Vec<usize>,
}

impl Cores {
    /// With four cores or more, each side has half of them. Fewer are too few for a venue: it has all, and attackers
    /// the second half.
    fn of(allowed: &[usize]) -> Self {
        let (first, second) = allowed.split_at(allowed.len() / 2);
        let of_venue = if allowed.len() < 4 { allowed } else { first };
        Self { of_venue: of_venue.to_vec(), of_attackers: second.to_vec() }
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        let of_attackers = self.of_attackers.iter().filter(|core| !self.of_venue.contains(core));
        self.of_venue.iter().chain(of_attackers).copied()
    }
}

fn one_run(
    attack: &Attack,
    options: &AttackOptions,
    cores: &Cores,
    folder: &Path,
    clock: SystemClock,
) -> Result<AttackOutcome, Failure> {
    let folder = folder.join(attack.name);
    let journal = folder.join("journal");
    fs::create_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
    let reserved = ReservedAddresses::udp(2)?;
    let [honest_local, attacker_local] = [reserved.addresses[0], reserved.addresses[1]];
    let config = folder.join("venue.toml");
    fs::write(&config, config_text(&journal, honest_local, attacker_local)?)
        .map_err(|error| unusable(&config, &error))?;
    let venue = VenueProcess::start(&config, &folder.join("venue.log"))?;
    let at = Doors {
        order_entry: venue.address("order_entry")?,
        order_entry_fix: venue.address("order_entry_fix")?,
        market_data_fix: venue.address("market_data_fix")?,
        order_entry_ouch42: venue.address("order_entry_ouch42")?,
        order_entry_sluice: venue.address("order_entry_sluice")?,
        order_entry_udp: venue.address("order_entry_udp")?,
        re_request: venue.address("re_request")?,
        snapshot: venue.address("snapshot")?,
        feed_tcp: venue.address("feed_tcp")?,
        admin: venue.address("admin")?,
    };

    let mut newcomer = Newcomer { next: 1, session: Session::default() };
    let mut target = Target::new(clock, at, attacker_local, Session::default(), options.divisor);
    if !newcomer.enters(&target, PATIENCE) {
        return Err(Failure::runtime("the venue does not serve a newcomer before any attack"));
    }
    target.session = newcomer.session;
    let target = &target;
    drop(reserved);

    let timelines = [Arc::default(), Arc::default()];
    let sessions = [
        (LoadSession::Tcp { server: at.order_entry, login: login("honest") }, "AAPL"),
        (LoadSession::Udp { server: at.order_entry_udp, local: honest_local }, "MSFT"),
    ];
    let stop = AtomicBool::new(false);
    let mut outcome = AttackOutcome { name: attack.name, ..AttackOutcome::default() };
    let mut kept_busy = Ok(());
    let reports = thread::scope(|scope| {
        let loads: Vec<_> = sessions
            .into_iter()
            .zip(&timelines)
            .map(|((session, symbol), timeline)| {
                let (options, stop) = (honest_load(session, symbol, timeline), &stop);
                scope.spawn(move || load::run(&options, &clock, stop, &mut |_| {}))
            })
            .collect();
        let begin = |stage| {
            let now_ns = clock.now_ns();
            timelines.iter().for_each(|timeline| lock(timeline).begin(stage, now_ns));
        };
        let quiet_is_over = &AtomicBool::new(false);
        kept_busy = thread::scope(|scope| {
            let cores = cores.all().filter(|_| options.attackers_yield);
            let busy: Vec<_> =
                cores.map(|core| scope.spawn(move || keep_busy(core, quiet_is_over))).collect();
            let warm = |timeline: &SharedTimeline| lock(timeline).count() >= RATE / 4;
            wait(clock, PATIENCE, || timelines.iter().all(warm));
            begin(Stage::Quiet);
            thread::sleep(options.quiet);
            quiet_is_over.store(true, Ordering::Relaxed);
            busy.into_iter().try_for_each(|it| it.join().expect("a loop does not panic"))
        });
        outcome.memory_bytes_quiet = memory(&venue, "VmRSS:");
        begin(Stage::Preparing);
        let attacker = scope.spawn(|| {
            // Where cores are few, figures should be of the venue, not of the attacker's use of a core.
            let _ = match options.attackers_yield {
                true => os::run_in_idle_time(),
                false => os::lower_priority(),
            };
            let _ = os::pin_to_cores(&cores.of_attackers);
            attack.run(target);
        });
        outcome.prepared = wait(clock, options.prepare_max, || target.has_begun());
        begin(Stage::Attacked);
        let used_before = usage(&venue);
        let begun = clock.since_start();
        while clock.since_start() - begun < options.stage {
            outcome.newcomer_tries += 1;
            outcome.newcomer_failures += u64::from(!newcomer.enters(target, NEWCOMER_PATIENCE));
            thread::sleep(NEWCOMER_EVERY.min(options.stage));
        }
        begin(Stage::After);
        // The busiest thread comes first.
        let used = usage(&venue).since(&used_before);
        outcome.core_wait_ns = used.threads.first().map_or(0, |thread| thread.core_wait_ns);
        let ended = clock.since_start();
        target.end();
        while outcome.served_again_ns.is_none() && clock.since_start() - ended < PATIENCE {
            if newcomer.enters(target, PATIENCE) {
                outcome.served_again_ns = Some((clock.since_start() - ended).as_nanos() as u64);
            } else {
                thread::sleep(LOOK_INTERVAL);
            }
        }
        attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        stop.store(true, Ordering::Relaxed);
        loads
            .into_iter()
            .map(|load| load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    kept_busy.map_err(|error| {
        Failure::environment(format!("cannot keep the cores busy in quiet: {error}"))
            .hint("`--short` does not need it")
    })?;
    outcome.memory_bytes_max = memory(&venue, "VmHWM:");
    outcome.venue_ended = venue.kill().err().map(|failure| failure.what);
    drop(venue);
    let (sent, effective) = target.counts();
    (outcome.sent, outcome.effective) = (sent, effective + u64::from(newcomer.next));
    for ((report, timeline), honest) in
        reports.into_iter().zip(&timelines).zip([&mut outcome.tcp, &mut outcome.udp])
    {
        *honest = seen(report, &lock(timeline));
        outcome.effective += honest.requests;
    }
    outcome.journal_bytes = journal_bytes(&journal)?;
    fs::remove_dir_all(&journal).map_err(|error| unusable(&journal, &error))?;
    Ok(outcome)
}

/// Takes the idle time of a core until the period is over. A busy core behaves differently from a sleeping one: it
/// needs no time to wake, and a virtual machine loses it for milliseconds at a time. Attacks keep cores busy, so the
/// quiet period has to as well.
fn keep_busy(core: usize, is_over: &AtomicBool) -> io::Result<()> {
    os::run_in_idle_time()?;
    os::pin_to_core(core)?;
    while !is_over.load(Ordering::Relaxed) {
        hint::spin_loop();
    }
    Ok(())
}

type SharedTimeline = Arc<Mutex<Timeline>>;

fn lock(timeline: &Mutex<Timeline>) -> std::sync::MutexGuard<'_, Timeline> {
    timeline.lock().expect("no thread panics while it holds the lock")
}

/// 200 requests a second until it is stopped, by a client that outlasts a frozen venue.
fn honest_load(session: LoadSession, name: &str, timeline: &SharedTimeline) -> LoadOptions {
    let price =
        LoadSymbol { symbol: symbol(name), mid: Price(1_500_000), price_increment: Price(100) };
    let patience_ns = PATIENCE.as_nanos() as u64;
    let timeline = Arc::clone(timeline);
    let mut options = LoadOptions::new(vec![session], vec![price], RATE, u64::MAX / 4);
    options.silence_ns_max = patience_ns;
    options.ready_ns_max = patience_ns;
    options.grace_ns = patience_ns;
    options.timers = PATIENT;
    options.on_answer =
        Some(Arc::new(move |due_ns, latency_ns| lock(&timeline).record(due_ns, latency_ns)));
    options
}

fn seen(report: Result<LoadReport, LoadError>, timeline: &Timeline) -> Honest {
    let latency = timeline.pairs();
    match report {
        Ok(LoadReport { counts, failures, .. }) => Honest {
            latency,
            requests: counts.requests(),
            unanswered: counts.unanswered,
            cut_off: failures.first().map(ToString::to_string),
        },
        Err(error) => Honest { latency, cut_off: Some(causes(&error)), ..Honest::default() },
    }
}

/// A participant that logs in during the attack.
struct Newcomer {
    next: u32,
    session: Session,
}

impl Newcomer {
    /// Logs in, enters an order, and logs out; true if the order was answered.
    fn enters(&mut self, target: &Target, patience: Duration) -> bool {
        let clock = target.clock;
        let begun = clock.since_start();
        let Some(mut client) = target.log_in(login("newbie"), 0, 1, patience) else { return false };
        if let ClientState::LoggedIn { session, .. } = client.state() {
            self.session = Session::from(*session.as_bytes());
        }
        let number = self.next;
        self.next += 1;
        let (price, life) = (Some(Price(10_000)), TimeInForce::ImmediateOrCancel);
        let order = participant::enter(number, Side::Buy, symbol("MSFT"), Quantity(1), price, life);
        if client.send(&order, clock.now_ns()).is_err() {
            return false;
        }
        let mut is_answered = false;
        while !is_answered && clock.since_start() - begun < patience {
            let poll = client.poll(clock.now_ns(), &mut |_, message| {
                let about = message.get(9..13).and_then(|bytes| bytes.try_into().ok());
                is_answered |= about.map(u32::from_be_bytes) == Some(number);
            });
            if poll.is_err() {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        // The next login needs a session that is free.
        let _ = client.logout(clock.now_ns());
        wait(clock, Duration::from_millis(200), || {
            client.poll(clock.now_ns(), &mut |_, _| {}).is_err()
                || client.state() == ClientState::Ended
        });
        is_answered
    }
}

/// Waits until a condition holds; false if it does not in time.
fn wait(clock: SystemClock, at_most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begun = clock.since_start();
    while clock.since_start() - begun < at_most {
        if holds() {
            return true;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    false
}

/// Default settings, but for addresses and the sizes of the stores, on which the limit of memory rests.
fn config_text(
    journal: &Path,
    honest_local: SocketAddr,
    attacker_local: SocketAddr,
) -> Result<String, Failure> {
    let unread = unread_address()?;
    let mut text = format!(
        "[journal]\ndirectory = {journal:?}\nsegment = \"16MiB\"\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\nreply_store = \"64MiB\"\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\nreply_store = \"16MiB\"\n\
         [order_entry_fix]\naddress = \"127.0.0.1:0\"\nreply_store = \"1MiB\"\n\
         [market_data_fix]\naddress = \"127.0.0.1:0\"\n\
         [order_entry_ouch42]\naddress = \"127.0.0.1:0\"\nreply_store = \"16MiB\"\n\
         [order_entry_sluice]\naddress = \"127.0.0.1:0\"\nreply_store = \"16MiB\"\n\
         [market_data]\ngroup = \"{unread}\"\nre_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\nstore = \"1MiB\"\n\
         [admin]\naddress = \"127.0.0.1:0\"\n"
    );
    for name in ["AAPL", "MSFT", target::OWN_BOOK] {
        text += &format!("[[instruments]]\nsymbol = {name:?}\n");
    }
    for (user, firm, protocol) in [
        ("honest", "HON", "ouch"),
        ("newbie", "HON", "ouch"),
        ("evil1", "EVIL", "ouch"),
        ("evil2", "EVIL", "ouch"),
        ("evil3", "EVIL", "ouch"),
        ("fix1", "EVIL", "fix"),
        ("old1", "EVIL", "ouch42"),
        ("slu1", "EVIL", "sluice"),
    ] {
        let password = target::password(user);
        text += &format!(
            "[[participants]]\nusername = {user:?}\npassword = {password:?}\nfirm = {firm:?}\n\
             protocol = {protocol:?}\ncancel_on_disconnect = {}\n",
            user == "evil3"
        );
    }
    for (user, firm, local) in [("hon-u", "HON", honest_local), ("evil-u", "EVIL", attacker_local)]
    {
        text +=
            &format!("[[participants]]\nusername = {user:?}\nfirm = {firm:?}\nudp = \"{local}\"\n");
    }
    Ok(text)
}

/// A figure of the venue's memory in bytes, as the system has it; 0 if the venue has ended.
fn memory(venue: &VenueProcess, name: &str) -> u64 {
    let process = venue.started["pid"].to_string();
    SystemFiles::of_this_machine().memory(&process, name).unwrap_or(0)
}

/// The resources that the venue has used so far; none if it has ended.
fn usage(venue: &VenueProcess) -> Usage {
    let process = venue.started["pid"].as_u64().unwrap_or(0) as u32;
    Usage::of(&SystemFiles::of_this_machine(), process).unwrap_or_default()
}

/// Bytes of the journal used by records, headers included.
fn journal_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut storage = journal::Folder::new(folder);
    let report = journal::verify(&mut storage, &mut |_| Ok::<(), std::convert::Infallible>(()))
        .map_err(|error| Failure::verification(causes(&error)))?;
    Ok(report.segments.iter().map(|segment| segment.end).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With four cores or more, venue and attackers share none; neither is without one.
    #[test]
    fn cores_are_parted_from_four_on() {
        let cores = |count: usize| Cores::of(&(0..count).collect::<Vec<_>>());
        assert_eq!(cores(4), Cores { of_venue: vec![0, 1], of_attackers: vec![2, 3] });
        assert_eq!(cores(5), Cores { of_venue: vec![0, 1], of_attackers: vec![2, 3, 4] });
        assert_eq!(cores(2), Cores { of_venue: vec![0, 1], of_attackers: vec![1] });
        assert_eq!(cores(1), Cores { of_venue: vec![0], of_attackers: vec![0] });
        for count in 1..=5 {
            assert!(cores(count).all().eq(0..count), "each of {count} once");
        }
    }

    /// The written configuration is valid.
    #[test]
    fn the_configuration_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("venue.toml");
        let [honest, attacker] = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()];
        let text = config_text(&folder.path().join("journal"), honest, attacker).unwrap();
        fs::write(&path, text).unwrap();
        venue::config::Config::read(&path).unwrap();
    }
}
