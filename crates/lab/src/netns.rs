//! Two network namespaces joined by a pair of virtual interfaces (veth): one side for the load, one for the venue.
//!
//! Start at [`VethPairs::up`]. The program `ip` of iproute2 makes them; [`record`] has the records of them.
//!
//! Invariant: only namespaces made here are removed. Each pair has a record from before its first namespace is made
//! until its last one is gone, so a crash leaves a record, and every later call removes the namespaces that it names.

mod record;

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    net::Ipv4Addr,
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use os::{SystemFiles, system_files};
use venue::failure::Failure;

pub use self::record::Cores;
use self::record::{Record, Records};

/// Begins the name of every namespace that is made here; the pair and the side follow.
pub const PREFIX: &str = "damrak-lab-";
/// The interface of a side, in its namespace.
const INTERFACE: &str = "veth0";
/// The records of pairs: a folder that is empty after a boot, as the namespaces are gone by then.
const RECORDS: &str = "/run/damrak-lab";
/// Where `ip` keeps names of namespaces.
const NAMESPACES: &str = "/run/netns";
/// The longest name of a pair.
const NAME_LEN_MAX: usize = 20;

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairSide {
    Load,
    Venue,
}

impl PairSide {
    pub const ALL: [Self; 2] = [Self::Load, Self::Venue];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Venue => "venue",
        }
    }

    /// The address of its interface. Both are in namespaces of their own, so every pair has the same two.
    pub const fn address(self) -> Ipv4Addr {
        match self {
            Self::Load => Ipv4Addr::new(10, 77, 0, 1),
            Self::Venue => Ipv4Addr::new(10, 77, 0, 2),
        }
    }
}

/// The name of a pair: 1 to 20 small letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairName(String);

impl FromStr for PairName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        match !text.is_empty() && text.len() <= NAME_LEN_MAX && text.bytes().all(fits) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("a pair's name has 1 to {NAME_LEN_MAX} of a to z, 0 to 9 and -")),
        }
    }
}

impl fmt::Display for PairName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A pair that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPair {
    pub name: PairName,
    pub cores: Cores,
}

/// A pair that was taken down.
#[derive(Clone, Debug)]
pub struct TakenDown {
    pub name: PairName,
    /// Processes that still run in its namespaces, which exist without a name until these end.
    pub processes: Vec<u32>,
}

/// The pairs of this machine.
pub struct VethPairs {
    records: Records,
}

impl VethPairs {
    pub fn of_this_machine() -> Self {
        Self { records: Records::new(RECORDS.into()) }
    }

    /// Makes a pair that stays until it is taken down.
    ///
    /// # Errors
    /// This machine or this process cannot make one: names the missing parts. Or there is one of this name.
    pub fn up(&self, name: &PairName, cores: Cores) -> Result<VethPair, Failure> {
        self.make(name, cores, false)
    }

    /// Makes a pair for the time of a call.
    ///
    /// # Errors
    /// As for [`up`](Self::up), and the errors of `work`.
    pub fn with_temporary<T>(
        &self,
        cores: Cores,
        work: impl FnOnce(&VethPair) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        /// Pairs of this process so far.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = PairName(format!("p{}-{number}", std::process::id()));
        let pair = self.make(&name, cores, true)?;
        let done = work(&pair);
        self.down(&name)?;
        done
    }

    fn make(&self, name: &PairName, cores: Cores, is_temporary: bool) -> Result<VethPair, Failure> {
        require()?;
        self.remove_leftovers()?;
        let pair = VethPair { name: name.clone(), cores };
        // Before there is a record, so that a third party's namespaces are not taken for ours.
        if !self.records.has(name)
            && let Some(side) = PairSide::ALL.into_iter().find(|side| pair.has_namespace(*side))
        {
            let namespace = pair.namespace(side);
            return Err(Failure::runtime(format!(
                "there is a network namespace {namespace}, and no record that it was made here"
            ))
            .hint(format!("take another --name, or remove it: ip netns del {namespace}")));
        }
        let mut record = Record::new(&pair, is_temporary);
        self.records.add(&record)?;
        if let Err(failure) = pair.build() {
            pair.remove()?;
            self.records.remove(name)?;
            return Err(failure);
        }
        record.is_up = true;
        self.records.replace(&record)?;
        Ok(pair)
    }

    /// # Errors
    /// No pair of this name is up.
    pub fn find(&self, name: &PairName) -> Result<VethPair, Failure> {
        let pair = self.all()?.into_iter().find(|pair| pair.name == *name);
        pair.ok_or_else(|| {
            Failure::runtime(format!("no pair {name} is up"))
                .hint(format!("damrak lab netns up --name {name}"))
        })
    }

    /// Every pair that is up.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn all(&self) -> Result<Vec<VethPair>, Failure> {
        let records = self.records.all()?.into_iter().filter(|record| record.is_up);
        Ok(records.map(|record| record.pair).collect())
    }

    /// Takes a pair down, if it is there in whole or in part.
    ///
    /// # Errors
    /// `ip` fails, or the process lacks the permission.
    pub fn down(&self, name: &PairName) -> Result<Option<TakenDown>, Failure> {
        self.take_down(name, |_| true)
    }

    /// Takes a pair down whose record, as it was read, is left over. If the record is the same in our turn, it still is:
    /// its maker alone changes it, and is gone. Otherwise the maker may have finished the pair and ended since.
    fn down_left_over(&self, record: &Record) -> Result<Option<TakenDown>, Failure> {
        self.take_down(&record.pair.name, |current| current == record)
    }

    fn take_down(
        &self,
        name: &PairName,
        is_wanted: impl FnOnce(&Record) -> bool,
    ) -> Result<Option<TakenDown>, Failure> {
        if !self.records.has(name) {
            return Ok(None);
        }
        require()?;
        let _turn = self.records.turn()?;
        // Another process may have had its turn first.
        let record = self.records.find(name)?;
        let Some(record) = record.filter(is_wanted) else { return Ok(None) };
        let processes = record.pair.remove()?;
        self.records.remove(name)?;
        Ok(Some(TakenDown { name: name.clone(), processes }))
    }

    /// Takes down the leftovers of processes that were cut off: half a pair, or one for the time of a call.
    ///
    /// # Errors
    /// As for [`down`](Self::down).
    pub fn remove_leftovers(&self) -> Result<Vec<TakenDown>, Failure> {
        let left = self.records.all()?.into_iter().filter(Record::is_left_over);
        let taken = left.map(|record| self.down_left_over(&record));
        taken.filter_map(Result::transpose).collect()
    }
}

impl VethPair {
    pub fn namespace(&self, side: PairSide) -> String {
        format!("{PREFIX}{}-{}", self.name, side.as_str())
    }

    fn has_namespace(&self, side: PairSide) -> bool {
        Path::new(NAMESPACES).join(self.namespace(side)).exists()
    }

    fn build(&self) -> Result<(), Failure> {
        let [load, venue] = PairSide::ALL.map(|side| self.namespace(side));
        ip(&["netns", "add", &load])?;
        ip(&["netns", "add", &venue])?;
        let both = ["type", "veth", "peer", "name", INTERFACE, "netns", &venue];
        ip(&[&["-n", &load, "link", "add", INTERFACE][..], &both].concat())?;
        for side in PairSide::ALL {
            let namespace = self.namespace(side);
            let address = format!("{}/30", side.address());
            ip(&["-n", &namespace, "address", "add", &address, "dev", INTERFACE])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", &namespace, "link", "set", INTERFACE, "up"])?;
        }
        self.steer(&self.cores.softirqs)
    }

    /// Has these cores take the packets that arrive at either side (RPS); without any, the sending core does.
    ///
    /// # Errors
    /// The system lacks one of them, or its settings cannot be written.
    pub fn steer(&self, cores: &[usize]) -> Result<(), Failure> {
        let path = format!("/sys/class/net/{INTERFACE}/queues/rx-0/rps_cpus");
        for side in PairSide::ALL {
            let mut command = Command::new("ip");
            // `ip netns exec` mounts the settings of the namespace for the program that it starts.
            command.args(["netns", "exec", &self.namespace(side), "tee", &path]);
            run(&mut command, &system_files::mask(cores)).map_err(|failure| {
                let list = system_files::list(cores);
                failure.hint(format!("/sys must be writable, and have the cores {list}"))
            })?;
        }
        Ok(())
    }

    /// Removes the parts of it that exist, and returns the processes that still run there.
    fn remove(&self) -> Result<Vec<u32>, Failure> {
        let mut processes = Vec::new();
        for side in PairSide::ALL.into_iter().filter(|side| self.has_namespace(*side)) {
            let namespace = self.namespace(side);
            let ids = ip(&["netns", "pids", &namespace])?;
            processes.extend(ids.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            // Removing one end removes the other, which may be so already.
            if ip(&["-n", &namespace, "link", "show", INTERFACE]).is_ok() {
                ip(&["-n", &namespace, "link", "del", INTERFACE])?;
            }
            ip(&["netns", "del", &namespace])?;
        }
        Ok(processes)
    }

    /// Has a thread do something on a side, on the side's cores: sockets that it makes belong there.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the cores are not there.
    pub fn on<T: Send>(
        &self,
        side: PairSide,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, Failure> {
        let path = Path::new(NAMESPACES).join(self.namespace(side));
        let enter = || -> Result<(), Failure> {
            let failed = |error: io::Error| {
                Failure::environment(format!("cannot enter {}: {error}", path.display()))
            };
            let namespace = File::open(&path).map_err(failed)?;
            os::enter_network_namespace(namespace.as_fd()).map_err(failed)?;
            use_cores(self.cores.of(side))
        };
        let enter_and_work = move || enter().map(|()| work());
        let done = thread::scope(|scope| scope.spawn(enter_and_work).join());
        done.expect("what is done there does not panic")
    }

    /// Becomes a program on a side, on these cores or else those of the side. It returns only if that fails.
    pub fn become_program(&self, side: PairSide, cores: &[usize], program: &[String]) -> Failure {
        let cores = if cores.is_empty() { self.cores.of(side) } else { cores };
        if let Err(failure) = require().and_then(|()| use_cores(cores)) {
            return failure;
        }
        let mut command = Command::new("ip");
        let error = command.args(["netns", "exec", &self.namespace(side)]).args(program).exec();
        not_run(&error)
    }
}

/// Restricts this thread, and all that it starts, to these cores, if there are any.
pub(crate) fn use_cores(cores: &[usize]) -> Result<(), Failure> {
    if cores.is_empty() {
        return Ok(());
    }
    let failed = |why: String| {
        let list = system_files::list(cores);
        Failure::environment(format!("cannot use the cores {list}: {why}"))
            .hint("`taskset -cp $$` lists those that this process may use")
    };
    os::pin_to_cores(cores).map_err(|error| failed(error.to_string()))?;
    let allowed = os::allowed_cores().map_err(|error| failed(error.to_string()))?;
    match cores.iter().find(|core| !allowed.contains(core)) {
        Some(core) => Err(failed(format!("this process may not use core {core}"))),
        None => Ok(()),
    }
}

/// Checks that this machine and this process can make pairs.
fn require() -> Result<(), Failure> {
    let files = SystemFiles::of_this_machine();
    let capabilities = files.line("proc/self/status", "CapEff:");
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let has_ip = match run(Command::new("ip").arg("-V"), "") {
        Ok(_) => true,
        Err(failure) if failure.exit_code == venue::failure::ExitCode::Environment => false,
        Err(failure) => return Err(failure),
    };
    let has_namespaces = Path::new("/proc/self/ns/net").exists();
    let missing = missing(has_ip, capabilities.unwrap_or(0), has_namespaces);
    if missing.is_empty() {
        return Ok(());
    }
    let (what, remedies): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    Err(Failure::environment(format!(
        "network namespaces need what this system lacks: {}",
        what.join(", ")
    ))
    .hint(remedies.join("; ")))
}

/// The missing parts, and the remedies.
fn missing(
    has_ip: bool,
    capabilities: u64,
    has_namespaces: bool,
) -> Vec<(&'static str, &'static str)> {
    /// CAP_NET_ADMIN and CAP_SYS_ADMIN, by their numbers.
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let mut missing = Vec::new();
    if !has_ip {
        missing.push(("the program `ip`", "install iproute2: `apt-get install iproute2`"));
    }
    if capabilities & NEEDED != NEEDED {
        missing.push((
            "CAP_NET_ADMIN and CAP_SYS_ADMIN",
            "run it as root, by `sudo`; a container must be given both",
        ));
    }
    if !has_namespaces {
        missing.push(("network namespaces in this kernel", "boot one with CONFIG_NET_NS"));
    }
    missing
}

fn ip(arguments: &[&str]) -> Result<String, Failure> {
    run(Command::new("ip").args(arguments), "")
}

/// Runs a command with this input, and gives its output.
fn run(command: &mut Command, input: &str) -> Result<String, Failure> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(&error))?;
    // A program that does not read its input has ended, or needs none; its exit code reports any error.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| not_run(&error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments = command.get_args().map(|it| it.to_string_lossy());
    let arguments = arguments.collect::<Vec<_>>().join(" ");
    let said = String::from_utf8_lossy(&output.stderr);
    let failure = Failure::runtime(format!("ip {arguments}: {}", said.trim()));
    Err(match said.contains("Unknown device type") {
        true => Failure::environment(failure.what).hint("this kernel lacks veth: `modprobe veth`"),
        false => failure,
    })
}

fn not_run(error: &io::Error) -> Failure {
    Failure::environment(format!("cannot run the program ip: {error}"))
        .hint("install iproute2: `apt-get install iproute2`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All missing parts are reported at once, with the remedies.
    #[test]
    fn what_is_missing_is_said_at_once() {
        assert!(missing(true, u64::MAX, true).is_empty());
        assert_eq!(missing(false, 0, false).len(), 3);
        let only = missing(true, !(1 << 12), true);
        assert!(only.len() == 1 && only[0].1.contains("root"), "{only:?}");
        assert!(missing(true, 1 << 12 | 1 << 21, true).is_empty());
    }

    /// A name fits into that of a namespace and of a file, and is no path.
    #[test]
    fn names_of_pairs_are_plain() {
        for name in ["main", "p17", "a-b", "12345678901234567890"] {
            assert_eq!(name.parse::<PairName>().unwrap().to_string(), name);
        }
        for name in ["", "Main", "../x", "a b", "123456789012345678901", "a/b", "ä"] {
            assert!(name.parse::<PairName>().is_err(), "{name:?}");
        }
        let pair = VethPair { name: "main".parse().unwrap(), cores: Cores::default() };
        assert_eq!(pair.namespace(PairSide::Venue), "damrak-lab-main-venue");
    }

    /// A pair that its maker finished after its record was read as left over stays, and one that is gone is no error.
    #[test]
    fn a_pair_that_was_finished_in_between_stays() {
        if let Err(why) = require() {
            return println!("skipped: {why}");
        }
        let folder = tempfile::tempdir().unwrap();
        let pairs = VethPairs { records: Records::new(folder.path().to_owned()) };
        let name: PairName = format!("read{}", std::process::id()).parse().unwrap();
        let pair = VethPair { name: name.clone(), cores: Cores::default() };
        let read = Record::new(&pair, false);
        pairs.records.add(&read).unwrap();
        let mut finished = read.clone();
        finished.is_up = true;
        pairs.records.replace(&finished).unwrap();
        assert!(pairs.down_left_over(&read).unwrap().is_none());
        assert_eq!(pairs.all().unwrap(), [pair]);
        assert_eq!(pairs.down_left_over(&finished).unwrap().unwrap().name, name);
        assert!(pairs.down_left_over(&finished).unwrap().is_none());
    }
}
