//! The machine on which figures were measured, as far as the operating system reports it.

use std::{fs, thread};

use serde_json::{Value, json};

/// The machine's description, and its load at one moment.
#[derive(Clone, Debug)]
pub struct Environment {
    load_average: Option<f64>,
    processor_ticks: Option<ProcessorTicks>,
}

/// CPU time since boot, over all cores, in ticks of the kernel.
#[derive(Clone, Copy, Debug)]
struct ProcessorTicks {
    all: u64,
    /// Time that the hypervisor gave to other guests.
    stolen: u64,
}

impl Environment {
    pub fn now() -> Self {
        Self { load_average: load_average(), processor_ticks: processor_ticks() }
    }

    /// The machine and its load from `started` until now. Unknown values are null.
    pub fn since(&self, started: &Self) -> Value {
        let stolen = self.processor_ticks.zip(started.processor_ticks).map(|(now, before)| {
            let all = now.all.saturating_sub(before.all).max(1);
            100.0 * now.stolen.saturating_sub(before.stolen) as f64 / all as f64
        });
        json!({
            "cores": thread::available_parallelism().ok().map(usize::from),
            "processor": processor(),
            "kernel": read("/proc/sys/kernel/osrelease"),
            "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "load_average": [started.load_average, self.load_average],
            "stolen_percent": stolen,
            "rustc": env!("DAMRAK_RUSTC"),
            "target_features": if cfg!(target_feature = "avx2") { "avx2" } else { "baseline" },
            "version": env!("CARGO_PKG_VERSION"),
            "commit": std::env::var("DAMRAK_COMMIT").ok(),
        })
    }
}

/// The machine in one line, from what [`Environment::since`] gives.
pub fn machine_line(environment: &Value) -> String {
    let text = |key: &str| environment[key].as_str().unwrap_or("unknown").to_owned();
    let number =
        |value: &Value| value.as_f64().map_or("unknown".into(), |value| format!("{value:.1}"));
    format!(
        "machine: {} cores, {}, kernel {}, governor {}, load {}, steal {} %",
        environment["cores"],
        text("processor"),
        text("kernel"),
        text("governor"),
        number(&environment["load_average"][1]),
        number(&environment["stolen_percent"]),
    )
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn load_average() -> Option<f64> {
    read("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn processor() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn processor_ticks() -> Option<ProcessorTicks> {
    let text = read("/proc/stat")?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
    Some(ProcessorTicks { all: ticks.iter().take(8).sum(), stolen: *ticks.get(7)? })
}
