//! One function for each setting that is checked.

use os::{
    SystemFiles,
    system_files::{cores, list, mask},
};
use venue::resources::{ResourceFinding, ResourceOffer, ResourceState};

use super::{Finding, Needs, Remedy, State};

/// A share of steal above this, of all time since boot, is reported; in percent.
const STEAL_PERCENT_MAX: f64 = 1.0;

/// Locked memory that io_uring and rings of large pages may want, in bytes.
const LOCKED_BYTES: u64 = 64 << 20;

/// The capability that makes real-time scheduling allowed, see capabilities(7).
const CAP_SYS_NICE: u64 = 1 << 23;

/// Looks at every setting; the order is that of the list in docs/doctor.md.
pub fn examine(files: &SystemFiles, needs: &Needs) -> Vec<Finding> {
    let checks: [fn(&SystemFiles, &Needs) -> Finding; 15] = [
        usable_cores,
        isolated,
        tickless,
        interrupts,
        softirqs,
        governor,
        siblings,
        steal,
        autogroup,
        real_time,
        clock,
        nodes,
        huge_pages,
        locked_memory,
        swap,
    ];
    let others = [receive_buffer, multicast, io_uring, seccomp, perf];
    let resources = needs.resources.examine(&ResourceOffer::of(files, &needs.journal));
    let look = |check: &fn(&SystemFiles, &Needs) -> Finding| check(files, needs);
    checks
        .iter()
        .map(look)
        .chain(resources.map(of_resource))
        .chain(others.iter().map(look))
        .collect()
}

/// The finding that a start of the venue would report of descriptors, memory or disk.
fn of_resource(finding: ResourceFinding) -> Finding {
    let ResourceFinding { name, state, found, needed, lost, remedy } = finding;
    let (state, lost) = match state {
        ResourceState::Enough => (State::Good, String::new()),
        ResourceState::Unknown => (State::Unknown, String::new()),
        ResourceState::Scarce => (State::Worse, lost),
        ResourceState::Short => (State::Missing, "the venue does not start".into()),
    };
    let is_good = matches!(state, State::Good | State::Unknown);
    let remedy = (!is_good).then_some(Remedy::Advice(remedy));
    Finding { name, state, found, wanted: needed, lost, remedy }
}

/// A finding that is good, worse or unknown, depending on the value found.
fn judged(
    name: &'static str,
    wanted: impl Into<String>,
    found: Option<(bool, String)>,
    lost: &str,
    remedy: Remedy,
) -> Finding {
    let wanted = wanted.into();
    let (state, found) = match found {
        None => (State::Unknown, "not shown by this system".into()),
        Some((true, found)) => (State::Good, found),
        Some((false, found)) => (State::Worse, found),
    };
    let is_worse = state == State::Worse;
    Finding {
        name,
        state,
        found,
        wanted,
        lost: if is_worse { lost.into() } else { String::new() },
        remedy: is_worse.then_some(remedy),
    }
}

/// Cores that this process may use.
fn allowed(files: &SystemFiles) -> Option<Vec<usize>> {
    cores(&files.line("proc/self/status", "Cpus_allowed_list:")?)
}

/// The remedy that reserves the cores of pinned threads for them; `remedy` takes the cores left for everything else.
fn left_alone(
    files: &SystemFiles,
    needs: &Needs,
    remedy: impl FnOnce(&[usize]) -> Remedy,
) -> Remedy {
    let online = files.cores("sys/devices/system/cpu/online").unwrap_or_default();
    let rest: Vec<_> = online.into_iter().filter(|core| !needs.pinned.contains(core)).collect();
    match rest.is_empty() {
        false => remedy(&rest),
        true => Remedy::Advice(
            "the layout pins a thread to every core: leave one to the rest of the system".into(),
        ),
    }
}

fn usable_cores(files: &SystemFiles, needs: &Needs) -> Finding {
    let found = allowed(files).map(|cores| {
        let lacks = needs.pinned.iter().any(|core| !cores.contains(core));
        (needs.threads <= cores.len() && !lacks, format!("{} ({})", cores.len(), list(&cores)))
    });
    let wanted = match needs.pinned.as_slice() {
        [] => format!("{}, one for each thread of the layout", needs.threads),
        pinned => format!("{}, among them {}", needs.threads, list(pinned)),
    };
    judged(
        "cores",
        wanted,
        found,
        "threads share cores: the scheduler causes the tails of latency",
        Remedy::Advice(
            "choose a layout with fewer threads (layout.threads), or a machine with more cores"
                .into(),
        ),
    )
}

fn isolated(files: &SystemFiles, needs: &Needs) -> Finding {
    let found =
        files.cores("sys/devices/system/cpu/isolated").map(|cores| of_pinned(&cores, needs));
    judged(
        "isolated cores",
        wanted_of_pinned(needs),
        found,
        "other programs run on the cores of pinned threads",
        left_alone(files, needs, |_| {
            Remedy::KernelParameter(format!("isolcpus={0} rcu_nocbs={0}", list(&needs.pinned)))
        }),
    )
}

fn tickless(files: &SystemFiles, needs: &Needs) -> Finding {
    // A kernel without the setting has no file; one that has it and no such core writes "(null)".
    let found = files.text("sys/devices/system/cpu/nohz_full").map(|text| {
        let cores = cores(&text).unwrap_or_default();
        of_pinned(&cores, needs)
    });
    judged(
        "tickless cores",
        wanted_of_pinned(needs),
        found,
        "the timer interrupts pinned threads 100 to 1,000 times a second",
        left_alone(files, needs, |_| {
            Remedy::KernelParameter(format!("nohz_full={}", list(&needs.pinned)))
        }),
    )
}

/// Every pinned core should be among these.
fn of_pinned(cores: &[usize], needs: &Needs) -> (bool, String) {
    let has_all = needs.pinned.iter().all(|core| cores.contains(core));
    (has_all, if cores.is_empty() { "none".into() } else { list(cores) })
}

fn wanted_of_pinned(needs: &Needs) -> String {
    match needs.pinned.as_slice() {
        [] => "none: the layout pins no thread".into(),
        pinned => format!("{}, those of the layout", list(pinned)),
    }
}

fn interrupts(files: &SystemFiles, needs: &Needs) -> Finding {
    let found = files.mask("proc/irq/default_smp_affinity").map(|cores| {
        let is_apart = needs.pinned.iter().all(|core| !cores.contains(core));
        (is_apart, format!("cores {}", list(&cores)))
    });
    judged(
        "interrupts",
        match needs.pinned.as_slice() {
            [] => "any: the layout pins no thread".into(),
            pinned => format!("not on {}", list(pinned)),
        },
        found,
        "devices interrupt pinned threads",
        left_alone(files, needs, |others| {
            Remedy::Command(format!(
                "for f in /proc/irq/default_smp_affinity /proc/irq/*/smp_affinity; do echo {} > \"$f\" \
                 || true; done",
                mask(others)
            ))
        }),
    )
}

fn softirqs(files: &SystemFiles, needs: &Needs) -> Finding {
    let path = "sys/class/net/lo/queues/rx-0/rps_cpus";
    let found = files.mask(path).map(|cores| {
        let is_apart = needs.pinned.iter().all(|core| !cores.contains(core));
        let found = match cores.as_slice() {
            [] => "loopback: on the sender's core".into(),
            cores => format!("loopback: cores {}", list(cores)),
        };
        (is_apart, found)
    });
    judged(
        "softirq steering",
        "not on pinned cores",
        found,
        "the network's receive work runs on the cores of pinned threads",
        left_alone(files, needs, |others| {
            Remedy::Command(format!("echo {} > /{path}", mask(others)))
        }),
    )
}

fn governor(files: &SystemFiles, _: &Needs) -> Finding {
    let governors = files.of_each_core("cpufreq/scaling_governor");
    let slow = governors.iter().find(|it| *it != "performance");
    let found = governors.first().map(|first| (slow.is_none(), slow.unwrap_or(first).clone()));
    judged(
        "governor",
        "performance",
        found,
        "the clock rate follows the load: a quiet venue is slower than a busy one",
        Remedy::Command(
            "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > \
             \"$f\"; done"
                .into(),
        ),
    )
}

fn siblings(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.number("sys/devices/system/cpu/smt/active");
    judged(
        "sibling threads",
        "off, or only one of each pair in use",
        found.map(|on| (on == 0, if on == 0 { "off" } else { "on" }.into())),
        "two threads on the siblings of a core have half of it each",
        Remedy::Command("echo off > /sys/devices/system/cpu/smt/control".into()),
    )
}

fn steal(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.processor_ticks().map(|ticks| {
        let percent = ticks.stolen_percent();
        (percent < STEAL_PERCENT_MAX, format!("{percent:.1} % since boot"))
    });
    judged(
        "steal",
        format!("below {STEAL_PERCENT_MAX:.0} %"),
        found,
        "the hypervisor runs other guests in that time: they cause the tails",
        Remedy::Advice("use a machine with dedicated cores".into()),
    )
}

fn autogroup(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.number("proc/sys/kernel/sched_autogroup_enabled");
    judged(
        "autogroup",
        "off",
        found.map(|on| (on == 0, if on == 0 { "off" } else { "on" }.into())),
        "nice and sched_yield have no effect on the programs of other terminals",
        Remedy::Command("sysctl -w kernel.sched_autogroup_enabled=0".into()),
    )
}

fn real_time(files: &SystemFiles, _: &Needs) -> Finding {
    let capabilities = files.line("proc/self/status", "CapEff:");
    let capabilities = capabilities.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    let found = match capabilities {
        Some(held) if held & CAP_SYS_NICE != 0 => Some((true, "allowed".into())),
        _ => files.limit("Max realtime priority").map(|it| (it > 0, format!("{it} at most"))),
    };
    judged(
        "real-time priority",
        "1 or more",
        found,
        "`chrt -f` cannot put the venue before other programs",
        Remedy::Advice(
            "LimitRTPRIO=99 in the systemd unit, or `rtprio 99` in /etc/security/limits.conf"
                .into(),
        ),
    )
}

fn clock(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let is_quick = |name: &str| matches!(name, "tsc" | "kvm-clock" | "arch_sys_counter");
    judged(
        "clock",
        "tsc, kvm-clock or arch_sys_counter",
        found.map(|name| (is_quick(&name), name)),
        "each reading of the clock is a system call",
        Remedy::Command(
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
        ),
    )
}

fn nodes(files: &SystemFiles, _: &Needs) -> Finding {
    let balances = files.number("proc/sys/kernel/numa_balancing");
    let found = files.cores("sys/devices/system/node/online").map(|nodes| {
        let moves = balances.is_some_and(|on| on != 0);
        let moving = if moves { ", pages are moved between them" } else { "" };
        (!moves, format!("{}{moving}", nodes.len()))
    });
    judged(
        "memory nodes",
        "pages stay where they are",
        found,
        "the kernel unmaps pages to see who uses them: page faults on the order path",
        Remedy::Command("sysctl -w kernel.numa_balancing=0".into()),
    )
}

fn huge_pages(files: &SystemFiles, _: &Needs) -> Finding {
    let text = files.text("sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text.and_then(|text| {
        let chosen = text.split('[').nth(1)?.split(']').next()?.to_owned();
        Some((chosen != "never", chosen))
    });
    judged(
        "huge pages",
        "madvise or always",
        chosen,
        "books and rings lie in pages of 4 KiB: more misses of the TLB",
        Remedy::Command("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".into()),
    )
}

fn locked_memory(files: &SystemFiles, _: &Needs) -> Finding {
    let bytes = |limit: u64| match limit {
        u64::MAX => "unlimited".into(),
        limit => format!("{} KiB", limit >> 10),
    };
    let found = files.limit("Max locked memory");
    judged(
        "locked memory",
        format!("{} or more", bytes(LOCKED_BYTES)),
        found.map(|limit| (limit >= LOCKED_BYTES, bytes(limit))),
        "older kernels refuse large rings of io_uring and buffers of perf",
        Remedy::Advice(
            "LimitMEMLOCK=infinity in the systemd unit, or `memlock unlimited` in \
             /etc/security/limits.conf"
                .into(),
        ),
    )
}

fn swap(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.text("proc/swaps").map(|text| match text.lines().count().saturating_sub(1) {
        0 => (true, "none".to_owned()),
        places => (false, format!("{places} in use")),
    });
    judged(
        "swap",
        "none",
        found,
        "a page of the venue that was swapped out costs a read from disk",
        Remedy::Command("swapoff -a".into()),
    )
}

fn receive_buffer(files: &SystemFiles, needs: &Needs) -> Finding {
    let wanted = needs.receive_buffer_bytes as i64;
    let found = files.number("proc/sys/net/core/rmem_max");
    judged(
        "receive buffer",
        format!("{wanted} bytes a UDP socket"),
        found.map(|limit| (limit >= wanted, limit.to_string())),
        "bursts of datagrams overflow the socket's buffer and are lost",
        Remedy::Command(format!("sysctl -w net.core.rmem_max={wanted}")),
    )
}

fn multicast(_: &SystemFiles, needs: &Needs) -> Finding {
    judged(
        "multicast",
        "a datagram to the feed's group comes back",
        needs
            .multicast
            .map(|works| (works, if works { "works" } else { "nothing comes back" }.into())),
        "the feed goes to one reader by unicast instead",
        Remedy::Command(
            "ip link set lo multicast on\nip route add 224.0.0.0/4 dev lo || true".into(),
        ),
    )
}

fn io_uring(files: &SystemFiles, needs: &Needs) -> Finding {
    let found = match &needs.io_uring {
        Ok(()) => (true, "works".to_owned()),
        Err(why) => (false, format!("refused: {why}")),
    };
    let is_switched_off =
        files.number("proc/sys/kernel/io_uring_disabled").is_some_and(|it| it > 0);
    judged(
        "io_uring",
        "works",
        Some(found),
        "the methods buffered-uring and direct-uring of the journal, and io_uring in [network], are \
         not available",
        match is_switched_off {
            true => Remedy::Command("sysctl -w kernel.io_uring_disabled=0".into()),
            false => Remedy::Advice(
                "let the container's seccomp profile pass io_uring_setup, io_uring_enter and \
                 io_uring_register, or use Linux 5.6 or newer"
                    .into(),
            ),
        },
    )
}

fn seccomp(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.line("proc/self/status", "Seccomp:").and_then(|mode| match mode.as_str() {
        "0" => Some((true, "off".to_owned())),
        "1" | "2" => Some((false, "on".to_owned())),
        _ => None,
    });
    judged(
        "seccomp",
        "off",
        found,
        "a filter runs at each system call, and may refuse io_uring and perf",
        Remedy::Advice("run the container with `--security-opt seccomp=unconfined`".into()),
    )
}

fn perf(files: &SystemFiles, _: &Needs) -> Finding {
    let found = files.number("proc/sys/kernel/perf_event_paranoid");
    judged(
        "perf",
        "perf_event_paranoid of 2 or less",
        found.map(|level| (level <= 2, format!("perf_event_paranoid is {level}"))),
        "instructions of a benchmark are not counted",
        Remedy::Command("sysctl -w kernel.perf_event_paranoid=1".into()),
    )
}
