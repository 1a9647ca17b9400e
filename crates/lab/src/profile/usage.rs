//! The resources that a process has used so far, as `/proc` shows them.
//!
//! Invariant: reading it stops no thread of the process.

use os::SystemFiles;
use serde::Serialize;

/// Ticks of the kernel in a second, in `/proc/PID/stat`: the same on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time, switches, faults and memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// CPU time in user code and in the kernel, in nanoseconds, to a hundredth of a second.
    pub user_ns: u64,
    pub system_ns: u64,
    /// How often its threads gave up their cores, and how often those were taken.
    pub switches_voluntary: u64,
    pub switches_involuntary: u64,
    /// Page faults without and with a read from disk.
    pub faults_minor: u64,
    pub faults_major: u64,
    /// The most memory that was in use, in bytes.
    pub memory_peak_bytes: u64,
    pub threads: Vec<ThreadUsage>,
}

/// CPU time of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadUsage {
    pub name: String,
    /// Time on a core, in nanoseconds.
    pub cpu_ns: u64,
    /// Time ready to run without a core.
    pub core_wait_ns: u64,
}

impl Usage {
    /// The usage of a running process; `None` if there is none of this number.
    pub fn of(files: &SystemFiles, process: u32) -> Option<Self> {
        let stat = files.text(&format!("proc/{process}/stat"))?;
        // The name, which may have spaces and parentheses, ends at the last one; the state follows.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let time_ns = |index| Some(field(index)? * (1_000_000_000 / TICKS_PER_SECOND));
        let mut usage = Self {
            faults_minor: field(7)?,
            faults_major: field(9)?,
            user_ns: time_ns(11)?,
            system_ns: time_ns(12)?,
            memory_peak_bytes: files.memory(&process.to_string(), "VmHWM:").unwrap_or(0),
            ..Self::default()
        };
        for thread in files.entries(&format!("proc/{process}/task")) {
            let path = |name: &str| format!("proc/{process}/task/{thread}/{name}");
            let count = |key: &str| {
                files.line(&path("status"), key).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
            };
            usage.switches_voluntary += count("voluntary_ctxt_switches:");
            usage.switches_involuntary += count("nonvoluntary_ctxt_switches:");
            let times = files.text(&path("schedstat")).unwrap_or_default();
            let mut times = times.split_whitespace().map(|it| it.parse::<u64>().unwrap_or(0));
            usage.threads.push(ThreadUsage {
                name: files.text(&path("comm")).unwrap_or_default(),
                cpu_ns: times.next().unwrap_or(0),
                core_wait_ns: times.next().unwrap_or(0),
            });
        }
        Some(usage)
    }

    /// The use from `before` until now. Threads that came later count from their beginning; the peak of memory is that
    /// of the whole life.
    pub fn since(&self, before: &Self) -> Self {
        let mut usage = self.clone();
        usage.user_ns = self.user_ns.saturating_sub(before.user_ns);
        usage.system_ns = self.system_ns.saturating_sub(before.system_ns);
        usage.switches_voluntary =
            self.switches_voluntary.saturating_sub(before.switches_voluntary);
        usage.switches_involuntary =
            self.switches_involuntary.saturating_sub(before.switches_involuntary);
        usage.faults_minor = self.faults_minor.saturating_sub(before.faults_minor);
        usage.faults_major = self.faults_major.saturating_sub(before.faults_major);
        for thread in &mut usage.threads {
            let earlier = before.threads.iter().find(|earlier| earlier.name == thread.name);
            if let Some(ThreadUsage { cpu_ns, core_wait_ns, .. }) = earlier {
                thread.cpu_ns = thread.cpu_ns.saturating_sub(*cpu_ns);
                thread.core_wait_ns = thread.core_wait_ns.saturating_sub(*core_wait_ns);
            }
        }
        usage.threads.sort_by_key(|thread| std::cmp::Reverse(thread.cpu_ns));
        usage
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files(folder: &std::path::Path, faults: u64, switches: u64, cpu_ns: u64) -> SystemFiles {
        let thread = folder.join("proc/7/task/8");
        fs::create_dir_all(&thread).unwrap();
        let write = |path: &str, text: String| fs::write(folder.join(path), text).unwrap();
        write("proc/7/stat", format!("7 (a) b) S 1 7 7 0 -1 0 {faults} 0 2 0 150 50 0 0 20 0 1"));
        write("proc/7/status", "VmHWM:\t  1024 kB\n".into());
        write(
            "proc/7/task/8/status",
            format!("voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t3\n"),
        );
        write("proc/7/task/8/comm", "damrak-core\n".into());
        write("proc/7/task/8/schedstat", format!("{cpu_ns} 200 9\n"));
        SystemFiles::under(folder)
    }

    /// The figures are those of the files, also for a process whose name has a parenthesis.
    #[test]
    fn usage_is_what_the_files_say() {
        let folder = tempfile::tempdir().unwrap();
        let before = Usage::of(&files(folder.path(), 10, 4, 1_000), 7).unwrap();
        assert_eq!((before.user_ns, before.system_ns), (1_500_000_000, 500_000_000));
        assert_eq!((before.faults_minor, before.faults_major), (10, 2));
        assert_eq!((before.switches_voluntary, before.switches_involuntary), (4, 3));
        assert_eq!(before.memory_peak_bytes, 1 << 20);
        let thread = ThreadUsage { name: "damrak-core".into(), cpu_ns: 1_000, core_wait_ns: 200 };
        assert_eq!(before.threads, [thread]);
        let after = Usage::of(&files(folder.path(), 15, 9, 1_400), 7).unwrap().since(&before);
        assert_eq!((after.faults_minor, after.switches_voluntary, after.user_ns), (5, 5, 0));
        assert_eq!((after.threads[0].cpu_ns, after.threads[0].core_wait_ns), (400, 0));
        assert_eq!(Usage::of(&SystemFiles::under(folder.path()), 9), None);
    }
}
