//! The machine on which figures were measured, as far as the operating system reports it.

use std::thread;

use os::{ProcessorTicks, SystemFiles};
use serde_json::{Value, json};

/// The machine's description, and its load at one moment.
#[derive(Clone, Debug)]
pub struct Environment {
    load_average: Option<f64>,
    processor_ticks: Option<ProcessorTicks>,
}

impl Environment {
    pub fn now() -> Self {
        let files = SystemFiles::of_this_machine();
        Self { load_average: load_average(&files), processor_ticks: files.processor_ticks() }
    }

    /// The machine and its load from `started` until now. Unknown values are null.
    pub fn since(&self, started: &Self) -> Value {
        let files = SystemFiles::of_this_machine();
        let ticks = self.processor_ticks.zip(started.processor_ticks);
        let stolen = ticks.map(|(now, before)| now.since(before).stolen_percent());
        json!({
            "cores": thread::available_parallelism().ok().map(usize::from),
            "processor": processor(&files),
            "kernel": files.text("proc/sys/kernel/osrelease"),
            "governor": files.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "load_average": [started.load_average, self.load_average],
            "stolen_percent": stolen,
            "rustc": env!("DAMRAK_RUSTC"),
            "target_features": if cfg!(target_feature = "avx2") { "avx2" } else { "baseline" },
            "version": env!("CARGO_PKG_VERSION"),
            "commit": std::env::var("DAMRAK_COMMIT").ok(),
        })
    }
}

/// The machine in one line, from the value that [`Environment::since`] gives.
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

fn load_average(files: &SystemFiles) -> Option<f64> {
    files.text("proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn processor(files: &SystemFiles) -> Option<String> {
    let name = files.line("proc/cpuinfo", "model name")?;
    Some(name.trim_start_matches(':').trim().to_owned())
}
