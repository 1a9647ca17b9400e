//! A matrix of load runs from a file: each combination of settings is a cell, with a venue of its own.
//!
//! Start at [`Sweep::parse`], then [`Sweep::run`]. A cell that already has a result is not run again, so a sweep that
//! was stopped goes on where it stopped.
//!
//! Invariant: a result belongs to the settings that its folder states; with other settings the cell is run anew.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, json};
use venue::failure::Failure;

use crate::{
    crash_trial::{VenueProcess, unusable},
    own_venue::{OwnVenueOptions, ReservedAddresses, config_text},
    report_page::LOAD_FILE,
};

/// The most cells of a sweep.
const CELLS_MAX: usize = 1_000;
/// The most participants of a cell over a protocol.
const CONNECTIONS_MAX: u64 = 99;
/// The file that states the settings of a folder's result.
const CELL_FILE: &str = "cell.json";

/// The option or key that a setting of a cell changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    /// An option of `damrak load` with a value.
    Load(&'static str),
    /// An option that is there or not.
    LoadFlag(&'static str),
    /// A key of the venue's configuration: its section and name.
    Venue(Section, &'static str),
    /// TCP or UDP.
    Protocol,
}

/// A section of the venue's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Journal,
    Layout,
    Rings,
}

/// The settings that a matrix may have, in the order of the cells: the last changes fastest.
const SETTINGS: [(&str, Changes); 16] = [
    ("layout", Changes::Venue(Section::Layout, "threads")),
    ("wait", Changes::Venue(Section::Layout, "wait")),
    ("durability", Changes::Venue(Section::Journal, "durability")),
    ("method", Changes::Venue(Section::Journal, "method")),
    ("slots", Changes::Venue(Section::Rings, "inputs")),
    ("protocol", Changes::Protocol),
    ("connections", Changes::Load("--connections")),
    ("threads", Changes::Load("--threads")),
    ("mix", Changes::Load("--mix")),
    ("pack", Changes::Load("--pack")),
    ("burst", Changes::Load("--burst")),
    ("gso", Changes::LoadFlag("--gso")),
    ("poisson", Changes::LoadFlag("--poisson")),
    ("closed_loop", Changes::Load("--closed-loop")),
    ("grace", Changes::Load("--grace")),
    ("rate", Changes::Load("--rate")),
];

/// A matrix, as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The length of each load, like `2s`.
    #[serde(rename = "for")]
    duration: String,
    /// How often each cell is run; the cells take turns.
    #[serde(default = "once")]
    runs: u64,
    matrix: BTreeMap<String, Vec<toml::Value>>,
}

fn once() -> u64 {
    1
}

/// One combination of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The name of its folder.
    pub name: String,
    /// Setting and value.
    pub settings: Vec<(String, String)>,
    duration: String,
}

/// A cell that is done.
#[derive(Clone, Debug)]
pub struct CellResult {
    pub cell: Cell,
    /// The folder of its result, for `damrak report`.
    pub folder: PathBuf,
    /// The object of `damrak load --json`.
    pub figures: Value,
    /// True if it was there before.
    pub is_earlier: bool,
}

impl Sweep {
    /// # Errors
    /// The text is not TOML, or a setting is unknown, empty or of another kind. `name` is in the message.
    pub fn parse(text: &str, name: &str) -> Result<Self, Failure> {
        let sweep: Self = toml::from_str(text)
            .map_err(|error| Failure::usage(format!("{name}: {}", error.to_string().trim_end())))?;
        let wrong = |what: String| Err(Failure::usage(format!("{name}: {what}")));
        if sweep.runs == 0 {
            return wrong("runs is 0: it must be 1 at least".into());
        }
        for (setting, values) in &sweep.matrix {
            let Some((_, changes)) = SETTINGS.iter().find(|(known, _)| known == setting) else {
                let known: Vec<_> = SETTINGS.iter().map(|(known, _)| *known).collect();
                return wrong(format!("matrix.{setting} is not one of {}", known.join(", ")));
            };
            if values.is_empty() {
                return wrong(format!("matrix.{setting} has no value"));
            }
            for value in values {
                if let Err(expected) = check(setting, *changes, value) {
                    return wrong(format!("matrix.{setting} has {value}: {expected}"));
                }
            }
        }
        if sweep.matrix.contains_key("rate") && sweep.matrix.contains_key("closed_loop") {
            return wrong("matrix has rate and closed_loop: a closed loop has no rate".into());
        }
        let count = sweep.matrix.values().map(Vec::len).product::<usize>();
        if count.saturating_mul(sweep.runs as usize) > CELLS_MAX {
            return wrong(format!("{count} cells, {} times: {CELLS_MAX} at most", sweep.runs));
        }
        Ok(sweep)
    }

    /// Every cell, as often as it is run.
    pub fn cells(&self) -> Vec<Cell> {
        let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for (setting, _) in SETTINGS {
            let Some(values) = self.matrix.get(setting) else { continue };
            combinations = combinations
                .iter()
                .flat_map(|before| {
                    values.iter().map(|value| {
                        let mut settings = before.clone();
                        settings.push((setting.to_owned(), text_of(value)));
                        settings
                    })
                })
                .collect();
        }
        let mut cells: Vec<Cell> = Vec::new();
        for run in 1..=self.runs {
            for settings in &combinations {
                let mut name = self.name_of(settings);
                if self.runs > 1 {
                    name += &format!("-run-{run}");
                }
                // Two layouts may differ in characters that a folder's name does not have.
                let alike = cells.iter().filter(|cell| cell.name.starts_with(&name)).count();
                if cells.iter().any(|cell| cell.name == name) {
                    name += &format!("-{}", alike + 1);
                }
                let duration = self.duration.clone();
                cells.push(Cell { name, settings: settings.clone(), duration });
            }
        }
        cells
    }

    /// The settings that differ between cells.
    fn name_of(&self, settings: &[(String, String)]) -> String {
        let differs = |setting: &str| self.matrix.get(setting).is_some_and(|it| it.len() > 1);
        let parts = settings.iter().filter(|(setting, _)| differs(setting));
        let parts = parts.map(|(setting, value)| format!("{setting}-{}", plain(value)));
        let name = parts.collect::<Vec<_>>().join("-");
        if name.is_empty() { "cell".to_owned() } else { name }
    }

    /// Runs the cells without a result in `out`, and passes each result to `done` at once.
    ///
    /// # Errors
    /// A venue does not start, a load fails, or a file cannot be written. Finished cells stay.
    pub fn run(
        &self,
        out: &Path,
        is_stopped: &dyn Fn() -> bool,
        done: &mut dyn FnMut(&CellResult) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        fs::create_dir_all(out).map_err(|error| unusable(out, &error))?;
        for cell in self.cells() {
            if is_stopped() {
                return Ok(());
            }
            let folder = out.join(&cell.name);
            let earlier = cell.result_in(&folder);
            let is_earlier = earlier.is_some();
            let figures = match earlier {
                Some(figures) => figures,
                None => cell.run(&folder)?,
            };
            done(&CellResult { cell, folder, figures, is_earlier })?;
        }
        Ok(())
    }
}

/// # Errors
/// The value expected instead.
fn check(setting: &str, changes: Changes, value: &toml::Value) -> Result<(), String> {
    match (changes, value) {
        (Changes::LoadFlag(_), toml::Value::Boolean(_)) => Ok(()),
        (Changes::LoadFlag(_), _) => Err("true or false".into()),
        (Changes::Protocol, value) => match value.as_str() {
            Some("tcp" | "udp") => Ok(()),
            _ => Err("\"tcp\" or \"udp\"".into()),
        },
        (_, toml::Value::Integer(count)) if setting == "connections" => {
            let is_sound = (1..=CONNECTIONS_MAX as i64).contains(count);
            if is_sound { Ok(()) } else { Err(format!("1 to {CONNECTIONS_MAX}")) }
        }
        (_, toml::Value::Integer(1..) | toml::Value::String(_)) if setting != "connections" => {
            Ok(())
        }
        _ => Err("a text, or a number above 0".into()),
    }
}

fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The characters of a text that a folder's name may have.
fn plain(text: &str) -> String {
    let parts = text.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

impl Cell {
    fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(setting, _)| setting == name);
        found.map(|(_, value)| value.as_str())
    }

    fn connections(&self) -> u64 {
        self.setting("connections").and_then(|count| count.parse().ok()).unwrap_or(1)
    }

    fn is_udp(&self) -> bool {
        self.setting("protocol") == Some("udp")
    }

    /// The statement of its settings, for its folder.
    fn statement(&self) -> Value {
        let settings: serde_json::Map<_, _> =
            self.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({ "schema": "damrak/sweep-cell/1", "for": self.duration, "settings": settings })
    }

    /// The result in a folder, if it is one of this cell.
    fn result_in(&self, folder: &Path) -> Option<Value> {
        let read = |name: &str| -> Option<Value> {
            serde_json::from_str(&fs::read_to_string(folder.join(name)).ok()?).ok()
        };
        if read(CELL_FILE)? != self.statement() {
            return None;
        }
        read(LOAD_FILE).filter(|figures| figures["counts"].is_array())
    }

    /// Starts a venue, loads it, and keeps the result.
    fn run(&self, folder: &Path) -> Result<Value, Failure> {
        // A result of other settings, or half of one.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| unusable(folder, &error))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| unusable(&path, &error))
        };
        let reserved =
            ReservedAddresses::udp(if self.is_udp() { self.connections() as usize } else { 0 })?;
        let locals = reserved.addresses.clone();
        let journal = folder.join("journal");
        write("venue.toml", self.configuration(&journal, &locals)?)?;
        let venue = VenueProcess::start(&folder.join("venue.toml"), &folder.join("venue.log"))?;
        let arguments = self.load_arguments(
            folder,
            venue.address("order_entry")?,
            venue.address("order_entry_udp")?,
            &locals,
        );
        let program = std::env::current_exe()
            .map_err(|error| Failure::runtime(format!("cannot start the load: {error}")))?;
        drop(reserved);
        let load = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::runtime(format!("cannot start the load: {error}")))?;
        venue.stop()?;
        // The journal of a cell may have gigabytes, and says nothing about its speed.
        fs::remove_dir_all(&journal).map_err(|error| unusable(&journal, &error))?;
        if !load.status.success() {
            let said = String::from_utf8_lossy(&load.stderr);
            return Err(Failure::runtime(format!(
                "cell {}: the load ended with {}: {}",
                self.name,
                load.status,
                said.trim_end()
            )));
        }
        write(CELL_FILE, format!("{}\n", self.statement()))?;
        self.result_in(folder)
            .ok_or_else(|| Failure::runtime(format!("cell {}: the load left no result", self.name)))
    }

    /// The venue's configuration: the sessions are over UDP from these addresses, or over TCP.
    fn configuration(&self, journal: &Path, locals: &[SocketAddr]) -> Result<String, Failure> {
        let mut options = OwnVenueOptions {
            users: self.connections() as usize,
            locals: locals.to_vec(),
            market_data: "[rings]\n".to_owned(),
            ..OwnVenueOptions::default()
        };
        for (setting, changes) in SETTINGS {
            let Changes::Venue(section, key) = changes else { continue };
            let Some(value) = self.setting(setting) else { continue };
            let value = match value.parse::<u64>() {
                Ok(number) => number.to_string(),
                Err(_) => format!("{value:?}"),
            };
            let lines = match section {
                Section::Layout => &mut options.layout,
                Section::Journal => &mut options.journal,
                // They follow those of the market data.
                Section::Rings => &mut options.market_data,
            };
            *lines += &format!("{key} = {value}\n");
        }
        config_text(journal, &options)
    }

    fn load_arguments(
        &self,
        folder: &Path,
        tcp: SocketAddr,
        udp: SocketAddr,
        locals: &[SocketAddr],
    ) -> Vec<String> {
        let mut arguments: Vec<String> = vec![
            "load".into(),
            "--json".into(),
            "--for".into(),
            self.duration.clone(),
            "--out".into(),
            folder.display().to_string(),
        ];
        let mut add = |texts: &[&str]| arguments.extend(texts.iter().map(|it| (*it).to_owned()));
        if self.is_udp() {
            add(&["--to-udp", &udp.to_string()]);
            locals.iter().for_each(|local| add(&["--udp", &local.to_string()]));
        } else {
            add(&["--to", &tcp.to_string(), "--session", "user{}:pass{}"]);
        }
        for (setting, changes) in SETTINGS {
            let Some(value) = self.setting(setting) else { continue };
            match changes {
                // The sessions over UDP are listed above.
                Changes::Load("--connections") if self.is_udp() => {}
                Changes::Load(option) => add(&[option, value]),
                Changes::LoadFlag(option) if value == "true" => add(&[option]),
                Changes::LoadFlag(_) | Changes::Venue(..) | Changes::Protocol => {}
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: &str = "for = \"1s\"\nruns = 2\n[matrix]\nrate = [\"10k/s\", \"20k/s\"]\n\
                          layout = [\"single\", \"order-entry | sequencer\"]\nprotocol = [\"udp\"]\n\
                          connections = [2]\ngso = [true]\n";

    fn sweep() -> Sweep {
        Sweep::parse(MATRIX, "sweep.toml").unwrap()
    }

    /// Every combination is a cell, as often as it is run; its name has the settings that differ.
    #[test]
    fn cells_are_all_combinations() {
        let cells = sweep().cells();
        let names: Vec<_> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[0], "layout-single-rate-10k-s-run-1");
        assert_eq!(names[3], "layout-order-entry-sequencer-rate-20k-s-run-1");
        assert_eq!(names[4], "layout-single-rate-10k-s-run-2");
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        // Names that are alike without their punctuation get a number.
        let alike = "for = \"1s\"\n[matrix]\nlayout = [\"a+b\", \"a|b\"]\n";
        let cells = Sweep::parse(alike, "x").unwrap().cells();
        assert_eq!([&cells[0].name, &cells[1].name], ["layout-a-b", "layout-a-b-2"]);
    }

    /// Settings reach the venue's configuration and the options of the load.
    #[test]
    fn settings_reach_both_sides() {
        let cell = sweep().cells().remove(3);
        let locals = ReservedAddresses::udp(2).unwrap().addresses;
        assert_ne!(locals[0], locals[1]);
        let text = cell.configuration(Path::new("/x/journal"), &locals).unwrap();
        assert!(text.contains("threads = \"order-entry | sequencer\""), "{text}");
        assert!(text.contains(&format!("udp = \"{}\"", locals[1])), "{text}");
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        let arguments = cell.load_arguments(Path::new("/x"), address, address, &locals).join(" ");
        for part in ["--to-udp 127.0.0.1:7", "--gso", "--rate 20k/s", &locals[0].to_string()] {
            assert!(arguments.contains(part), "{arguments}");
        }
        assert!(!arguments.contains("--connections"), "{arguments}");
    }

    /// A configuration of a cell is one that a venue takes.
    #[test]
    fn a_cell_has_a_sound_configuration() {
        let text = "for = \"1s\"\n[matrix]\nlayout = [\"single\"]\nwait = [\"spin\"]\nslots = [1024]\n\
                    durability = [\"none\"]\nmethod = [\"buffered\"]\nconnections = [3]\n";
        let cell = Sweep::parse(text, "x").unwrap().cells().remove(0);
        let text = cell.configuration(Path::new("/x/journal"), &[]).unwrap();
        let config = venue::config::Config::parse(&text, "cell").unwrap();
        assert_eq!((config.rings.inputs, config.participants.len()), (1_024, 3));
    }

    /// A result counts for the settings that its folder states, and only if it is whole.
    #[test]
    fn a_result_is_taken_for_its_own_settings() {
        let folder = tempfile::tempdir().unwrap();
        let cells = sweep().cells();
        assert!(cells[0].result_in(folder.path()).is_none());
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(CELL_FILE, &cells[0].statement().to_string());
        write(LOAD_FILE, "{\"counts\": [[1, 2]]");
        assert!(cells[0].result_in(folder.path()).is_none(), "it was cut short");
        write(LOAD_FILE, "{\"counts\": [[1, 2]]}");
        assert!(cells[0].result_in(folder.path()).is_some());
        assert!(cells[1].result_in(folder.path()).is_none(), "another rate");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let parse = |matrix: &str| {
            let text = format!("for = \"1s\"\n[matrix]\n{matrix}\n");
            Sweep::parse(&text, "s.toml").unwrap_err().to_string()
        };
        for (matrix, reason) in [
            ("speed = [1]", "matrix.speed is not one of layout"),
            ("rate = []", "matrix.rate has no value"),
            ("gso = [1]", "true or false"),
            ("protocol = [\"fix\"]", "\"tcp\" or \"udp\""),
            ("connections = [100]", "1 to 99"),
            ("pack = [0]", "a number above 0"),
            ("rate = [\"1/s\"]\nclosed_loop = [1]", "a closed loop has no rate"),
        ] {
            let error = parse(matrix);
            assert!(error.contains(reason), "{error}");
        }
    }
}
