//! The strengths and lacks of a machine, for a venue and for figures that can be believed.
//!
//! Invariant: nothing is changed. Each finding has the value found, the value wanted, the loss without it, and how to
//! get it; a value that the system does not show is unknown, never good.

mod checks;

use std::{fmt::Write as _, path::PathBuf};

use gateway::UdpOptions;
use serde::Serialize;
use venue::{
    config::{Config, DurabilityConfig},
    layout::Machine,
    pipeline, resources, sockets,
};

pub use checks::examine;

/// The needs of a venue, from its configuration, and the results of trials that alone can show them.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Threads of the venue that take turns for orders.
    pub threads: usize,
    /// Cores that the layout pins threads to.
    pub pinned: Vec<usize>,
    /// Descriptors, memory and disk, as at the start of a venue.
    pub resources: resources::ResourceNeeds,
    /// Where its journal is or will be.
    pub journal: PathBuf,
    /// Bytes that each UDP socket asks for.
    pub receive_buffer_bytes: usize,
    /// True if a datagram to the feed's group came back; `None` if that was not tried.
    pub multicast: Option<bool>,
    /// Why io_uring is refused, or that it works.
    pub io_uring: Result<(), String>,
}

impl Needs {
    /// The needs of this configuration; tries multicast and io_uring.
    ///
    /// # Errors
    /// The layout names an agent that the venue does not have.
    pub fn of(config: &Config) -> Result<Self, String> {
        let is_synced = config.journal.durability == DurabilityConfig::Synced;
        let machine = Machine::this(true, is_synced);
        let groups = config.layout.threads.groups(&pipeline::agents(config), machine)?;
        let mut pinned: Vec<_> = groups.iter().filter_map(|group| group.core).collect();
        pinned.sort_unstable();
        pinned.dedup();
        Ok(Self {
            threads: groups.len(),
            pinned,
            resources: resources::ResourceNeeds::of(config),
            journal: config.journal.directory.clone(),
            receive_buffer_bytes: UdpOptions::default().receive_buffer_bytes,
            multicast: sockets::feed_group_works(config),
            io_uring: os::Uring::new().map(|_| ()).map_err(|error| error.to_string()),
        })
    }
}

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The venue does not start, or not as configured.
    Missing,
    /// It works, but figures or speed are worse than they could be.
    Worse,
    /// The system does not show it.
    Unknown,
    Good,
}

/// A setting of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub state: State,
    /// The state of the machine.
    pub found: String,
    /// The state that a laboratory wants.
    pub wanted: String,
    /// The loss without it; empty where there is none.
    pub lost: String,
    /// How to get it; nothing where it is good, or where no command gives it.
    pub remedy: Option<Remedy>,
}

/// The way to a better setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum Remedy {
    /// A command for root; it lasts until the next boot.
    Command(String),
    /// Words of the kernel's command line; they hold from the next boot on.
    KernelParameter(String),
    /// A change that no command makes.
    Advice(String),
}

/// The findings as a shell script for root: commands that last until the next boot, and the words for the
/// kernel's command line as a comment.
pub fn fix_script(findings: &[Finding]) -> String {
    let mut script = String::from(
        "#!/bin/sh\n# Made by `damrak doctor --fix-script`. Run it as root; the next boot undoes it.\nset -eu\n",
    );
    let mut parameters = Vec::new();
    for Finding { name, found, wanted, remedy, .. } in findings {
        match remedy {
            Some(Remedy::Command(command)) => {
                let _ = write!(script, "\n# {name}: {found}; wanted: {wanted}\n{command}\n");
            }
            Some(Remedy::KernelParameter(words)) => parameters.push(words.as_str()),
            Some(Remedy::Advice(_)) | None => {}
        }
    }
    if !parameters.is_empty() {
        let _ = write!(
            script,
            "\n# Words for the kernel's command line, for example GRUB_CMDLINE_LINUX in /etc/default/grub; \
             then\n# update-grub and a reboot. They take cores from all other programs.\n#   {}\n",
            parameters.join(" ")
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use os::SystemFiles;

    use super::*;

    fn needs() -> Needs {
        let small = "[journal]\nsegment = \"1MiB\"\nfree_min = \"0B\"\n\
                     [snapshots]\ninputs = 0\ntime = \"0s\"\n";
        let config = Config::parse(small, "venue.toml").unwrap();
        Needs {
            threads: 4,
            pinned: vec![2, 3],
            resources: resources::ResourceNeeds::of(&config),
            journal: config.journal.directory,
            receive_buffer_bytes: 4 << 20,
            multicast: Some(true),
            io_uring: Ok(()),
        }
    }

    /// Files of a machine that lacks nothing; `changed` replaces some, and an empty text removes one.
    fn machine(changed: &[(&str, &str)]) -> tempfile::TempDir {
        let good = [
            ("proc/self/status", "Name:\tdamrak\nSeccomp:\t0\nCpus_allowed_list:\t0-7\n"),
            (
                "proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max open files            20000                1048576              files\n\
                 Max locked memory         unlimited            unlimited            bytes\n\
                 Max realtime priority     99                   99\n",
            ),
            ("proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\n"),
            ("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("proc/sys/kernel/perf_event_paranoid", "1\n"),
            ("proc/sys/kernel/io_uring_disabled", "0\n"),
            ("proc/sys/kernel/sched_autogroup_enabled", "0\n"),
            ("proc/sys/kernel/numa_balancing", "0\n"),
            ("proc/sys/net/core/rmem_max", "8388608\n"),
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/cpu/isolated", "2-3\n"),
            ("sys/devices/system/cpu/nohz_full", "2-3\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/node/online", "0\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/class/net/lo/queues/rx-0/rps_cpus", "3\n"),
            ("proc/irq/default_smp_affinity", "f3\n"),
        ];
        let root = tempfile::tempdir().unwrap();
        let files = good.iter().filter(|(path, _)| changed.iter().all(|(other, _)| other != path));
        for (path, text) in files.chain(changed).filter(|(_, text)| !text.is_empty()) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn findings(changed: &[(&str, &str)], needs: &Needs) -> Vec<Finding> {
        let root = machine(changed);
        examine(&SystemFiles::under(root.path()), needs)
    }

    /// A machine that has everything has no finding but good ones, and an empty script.
    #[test]
    fn a_machine_that_lacks_nothing_is_good() {
        let findings = findings(&[], &needs());
        let other: Vec<_> = findings.iter().filter(|it| it.state != State::Good).collect();
        assert!(other.is_empty(), "{other:#?}");
        assert!(
            findings.iter().all(|it| it.remedy.is_none() && it.lost.is_empty()),
            "{findings:#?}"
        );
        assert_eq!(fix_script(&findings).lines().count(), 3);
    }

    /// Each setting is found where it is wrong, alone, with a remedy and a reason.
    #[test]
    fn each_lack_is_found_by_itself() {
        let status = "Name:\tdamrak\nSeccomp:\t2\nCpus_allowed_list:\t0-7\n";
        let one_core = "Name:\tdamrak\nSeccomp:\t0\nCpus_allowed_list:\t2-3\n";
        let limits = |files: &str, locked: &str, priority: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max open files            {files:<20} {files:<20} files\n\
                 Max locked memory         {locked:<20} {locked:<20} bytes\n\
                 Max realtime priority     {priority:<20} {priority:<20}\n"
            )
        };
        let (few, little, low) = (
            limits("512", "unlimited", "99"),
            limits("20000", "65536", "99"),
            limits("20000", "unlimited", "0"),
        );
        for (name, path, text, state) in [
            ("cores", "proc/self/status", one_core, State::Worse),
            ("seccomp", "proc/self/status", status, State::Worse),
            ("descriptors", "proc/self/limits", &few, State::Missing),
            (
                "memory",
                "proc/meminfo",
                "MemTotal: 300000 kB\nMemAvailable: 290000 kB\n",
                State::Missing,
            ),
            (
                "memory",
                "proc/meminfo",
                "MemTotal: 64000000 kB\nMemAvailable: 290000 kB\n",
                State::Worse,
            ),
            ("locked memory", "proc/self/limits", &little, State::Worse),
            ("real-time priority", "proc/self/limits", &low, State::Worse),
            ("isolated cores", "sys/devices/system/cpu/isolated", "\n", State::Worse),
            ("tickless cores", "sys/devices/system/cpu/nohz_full", "(null)\n", State::Worse),
            (
                "governor",
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "powersave\n",
                State::Worse,
            ),
            ("steal", "proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\n", State::Worse),
            ("sibling threads", "sys/devices/system/cpu/smt/active", "1\n", State::Worse),
            (
                "huge pages",
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]\n",
                State::Worse,
            ),
            ("receive buffer", "proc/sys/net/core/rmem_max", "212992\n", State::Worse),
            ("perf", "proc/sys/kernel/perf_event_paranoid", "4\n", State::Worse),
            (
                "clock",
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet\n",
                State::Worse,
            ),
            ("memory nodes", "proc/sys/kernel/numa_balancing", "1\n", State::Worse),
            ("autogroup", "proc/sys/kernel/sched_autogroup_enabled", "1\n", State::Worse),
            ("softirq steering", "sys/class/net/lo/queues/rx-0/rps_cpus", "4\n", State::Worse),
            ("interrupts", "proc/irq/default_smp_affinity", "ff\n", State::Worse),
            ("swap", "proc/swaps", "Filename Type\n/dev/sda2 partition\n", State::Worse),
        ] {
            let findings = findings(&[(path, text)], &needs());
            let found: Vec<_> = findings.iter().filter(|it| it.state != State::Good).collect();
            assert_eq!(found.len(), 1, "{name}: {found:#?}");
            assert_eq!((found[0].name, found[0].state), (name, state));
            assert!(!found[0].lost.is_empty() && found[0].remedy.is_some(), "{found:#?}");
        }
    }

    /// No remedy takes the last core from the rest of the system.
    #[test]
    fn a_core_is_left_to_the_system() {
        let mut needs = needs();
        needs.pinned = (0..8).collect();
        let findings = findings(&[], &needs);
        for name in ["isolated cores", "tickless cores", "interrupts", "softirq steering"] {
            let found = findings.iter().find(|it| it.name == name).unwrap();
            assert!(matches!(found.remedy, Some(Remedy::Advice(_))), "{found:#?}");
        }
    }

    /// A value that the system does not show is unknown.
    #[test]
    fn what_is_not_shown_is_unknown() {
        let empty = tempfile::tempdir().unwrap();
        let mut needs = needs();
        needs.multicast = None;
        for finding in examine(&SystemFiles::under(empty.path()), &needs) {
            let by_trial = ["io_uring", "disk"].contains(&finding.name);
            assert_eq!(finding.state == State::Unknown, !by_trial, "{finding:?}");
        }
    }

    /// A property that only a trial shows is reported from the trial.
    #[test]
    fn trials_are_reported() {
        let mut needs = needs();
        needs.multicast = Some(false);
        needs.io_uring = Err("Operation not permitted".into());
        let findings = findings(&[("proc/sys/kernel/io_uring_disabled", "2\n")], &needs);
        let of = |name| findings.iter().find(|it| it.name == name).unwrap();
        assert_eq!(of("multicast").state, State::Worse);
        assert_eq!(of("io_uring").state, State::Worse);
        assert!(of("io_uring").found.contains("Operation not permitted"));
        let script = fix_script(&findings);
        assert!(script.contains("\nsysctl -w kernel.io_uring_disabled=0\n"), "{script}");
        assert!(script.contains("\nip link set lo multicast on\n"), "{script}");
    }
}
