//! `cargo x rivals`: engines of others beside ours in one run, as a table.
//!
//! Start at [`run`]. Programs and engines are tables; bench/rivals has the drivers.
//!
//! Invariant: what is not measured is named with its reason, and an engine with other trades is a failure.

use std::{env, fmt::Write as _, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{cargo, root, target_folder};

/// A driver of engines, and the programs that building it takes.
struct Program {
    name: &'static str,
    tools: &'static [&'static str],
    /// False for one that is built only if it is named.
    is_default: bool,
}

const PROGRAMS: [Program; 4] = [
    Program { name: "rust", tools: &["cargo"], is_default: true },
    Program { name: "java", tools: &["java", "mvn"], is_default: true },
    Program { name: "go", tools: &["go"], is_default: true },
    Program { name: "melin", tools: &["cargo"], is_default: false },
];

/// Engines by the beginning of their names: what of the work for an order of a venue is not in what is measured.
const LACKS: [(&str, &str); 10] = [
    ("matching", "sessions, order numbers, events, balances, state hash"),
    ("engine-balances", ""),
    ("engine", "balances"),
    ("model-btree", "sessions, order numbers, events, balances, state hash"),
    ("lobster", "replace, immediate-or-cancel; sessions, events, balances, state hash"),
    ("orderbook-rs", "replace, immediate-or-cancel; sessions, balances, state hash"),
    ("melin-exchange-core", "state hash; its book also sessions and balances"),
    ("exchange-core", "of the engine its books alone: sessions, balances, state hash"),
    ("geseq", "sessions, events, balances, state hash"),
    ("null", "everything: the loop around an engine"),
];

/// Where the table stands in docs/performance.md.
const BEGIN: &str = "<!-- rivals -->\n";
const END: &str = "<!-- /rivals -->\n";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    names: Vec<String>,
    /// A part of each flow: one in so many operations.
    divisor: Option<u32>,
    runs: Option<u32>,
    is_written: bool,
}

impl Options {
    /// Reads the words after `rivals`.
    ///
    /// # Errors
    /// A word that is neither a program nor an option, or an option without its number.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().ok_or(format!("{word} needs a number"))?;
                let number = value.parse::<u32>().ok().filter(|number| *number > 0);
                number.ok_or(format!("{word} {value}: a number of 1 or more is needed")).map(Some)
            };
            match *word {
                "--divisor" => options.divisor = number()?,
                "--runs" => options.runs = number()?,
                "--write" => options.is_written = true,
                name if PROGRAMS.iter().any(|program| program.name == name) => {
                    options.names.push(name.to_owned());
                }
                other => return Err(format!("there is no `{other}`: rust, java, go or melin")),
            }
        }
        Ok(options)
    }

    fn is_wanted(&self, program: &Program) -> bool {
        if self.names.is_empty() {
            program.is_default
        } else {
            self.names.iter().any(|name| name == program.name)
        }
    }
}

/// Builds what has its tools, measures it beside our engines, and prints the table.
///
/// # Errors
/// The measurement failed, an engine made other trades, or the document cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let mut absent = Vec::new();
    let mut built = Vec::new();
    for program in PROGRAMS.iter().filter(|program| options.is_wanted(program)) {
        match build(program) {
            Ok(path) => built.push(path),
            Err(why) => {
                println!("skipped: {}: {why}", program.name);
                absent.push(format!("{}: {why}", program.name));
            }
        }
    }
    let status = Command::new(cargo()).args(["build", "--release", "-p", "damrak"]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("damrak cannot be built".into());
    }
    let mut command = Command::new(target_folder().join("release/damrak"));
    command.current_dir(root()).args(["bench", "book", "--json"]);
    for (option, value) in [("--divisor", options.divisor), ("--runs", options.runs)] {
        if let Some(value) = value {
            command.args([option, &value.to_string()]);
        }
    }
    for path in &built {
        command.args(["--rivals", path]);
    }
    let output = command.output().map_err(|error| format!("damrak bench: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    let report: Value = report.ok_or_else(|| {
        format!("damrak bench failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    let table = table(&report, &absent)?;
    println!("{table}");
    if options.is_written {
        write(&root().join("docs/performance.md"), &table)?;
    }
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// The path of the driver, or why there is none.
fn build(program: &Program) -> Result<String, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here = |tool: &&&str| env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let missing: Vec<_> = program.tools.iter().filter(|tool| !is_here(tool)).copied().collect();
    if !missing.is_empty() {
        return Err(format!("{} is not installed", missing.join(" and ")));
    }
    let output = Command::new(root().join("bench/rivals/build.sh"))
        .arg(program.name)
        .output()
        .map_err(|error| format!("bench/rivals/build.sh: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        return Err(format!("cannot be built: {}", last.unwrap_or("no reason given").trim()));
    }
    Ok(format!("bench/rivals/target/rivals-{}", program.name))
}

/// The table of a report: nanoseconds an operation, as a multiple of `matching`, and what is not in it.
fn table(report: &Value, absent: &[String]) -> Result<String, String> {
    let flows = report["flows"].as_array().filter(|flows| !flows.is_empty());
    let flows = flows.ok_or("the report has no flows")?;
    let names: Vec<&str> = flows.iter().filter_map(|flow| flow["flow"].as_str()).collect();
    let rows = |flow: &Value| flow["rows"].as_array().cloned().unwrap_or_default();
    let engines: Vec<String> =
        rows(&flows[0]).iter().filter_map(|row| Some(row["engine"].as_str()?.to_owned())).collect();
    let mut text = String::from("| engine |");
    names.iter().for_each(|name| _ = write!(text, " {name} |"));
    text += " not in it |\n|---|";
    names.iter().for_each(|_| text += "---:|");
    text += "---|\n";
    for engine in engines.iter().filter(|engine| *engine != "null") {
        _ = write!(text, "| {engine} |");
        for flow in flows {
            let rows = rows(flow);
            let row = |name: &str| rows.iter().find(|row| row["engine"] == name);
            let own = row("matching").ok_or("the report has no row of `matching`")?;
            let Some(row) = row(engine) else {
                text += " - |";
                continue;
            };
            let wrong = if row["agrees"] == false { ", other trades" } else { "" };
            let median = row["ns_per_op"]["median"].as_f64().unwrap_or(f64::NAN);
            _ = write!(text, " {median:.0} ns, {:.2}{wrong} |", ratio(own, row));
        }
        _ = writeln!(text, " {} |", lacks(engine));
    }
    let environment = &report["environment"];
    _ = write!(
        text,
        "\nMedian of {} runs of one in {} operations, and the median of the ratios to `matching` in the same turn. \
         {} cores, {}, load {}.\n",
        report["runs"],
        report["divisor"],
        environment["cores"],
        environment["processor"].as_str().unwrap_or("unknown processor"),
        environment["load_average"][1],
    );
    for reason in absent {
        _ = writeln!(text, "Not measured: {reason}.");
    }
    Ok(text)
}

/// The median of the ratios of times next to each other.
fn ratio(own: &Value, other: &Value) -> f64 {
    let runs = |row: &Value| row["ns_per_op"]["runs"].as_array().cloned().unwrap_or_default();
    let mut ratios: Vec<f64> = runs(own)
        .iter()
        .zip(runs(other))
        .filter_map(|(own, other)| Some(other.as_f64()? / own.as_f64()?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn lacks(engine: &str) -> &'static str {
    LACKS.iter().find(|(name, _)| engine.starts_with(name)).map_or("", |(_, lacks)| lacks)
}

/// Puts the table between its marks.
fn write(path: &Path, table: &str) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let places = text.find(BEGIN).zip(text.find(END));
    let (begin, end) = places.ok_or_else(|| wrong(&"it has no place for the table"))?;
    let begin = begin + BEGIN.len();
    let text = format!("{}\n{table}\n{}", &text[..begin], &text[end..]);
    fs::write(path, text).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Value {
        let row = |engine: &str, runs: [f64; 3], agrees: bool| json!({"engine": engine, "agrees": agrees, "ns_per_op": {"median": runs[1], "runs": runs}});
        json!({
            "runs": 3, "divisor": 1,
            "environment": {"cores": 4, "processor": "CPU", "load_average": [0.5, 0.25]},
            "flows": [{"flow": "A", "rows": [
                row("matching", [10.0, 20.0, 30.0], true),
                row("null", [1.0, 1.0, 1.0], true),
                row("lobster 0.7.0", [50.0, 60.0, 70.0], false),
            ]}],
        })
    }

    /// A row for each engine with its version, its time, its ratio in the same turn, and what it lacks; what is not
    /// there is named.
    #[test]
    fn table_has_every_engine_and_what_is_not_there() {
        let table = table(&report(), &["go: go is not installed".to_owned()]).unwrap();
        assert!(table.contains("| matching | 20 ns, 1.00 | sessions"), "{table}");
        assert!(table.contains("| lobster 0.7.0 | 60 ns, 3.00, other trades | replace"), "{table}");
        assert!(!table.contains("null"), "{table}");
        assert!(table.contains("Not measured: go: go is not installed."), "{table}");
        assert!(super::table(&json!({}), &[]).is_err());
    }

    /// Names and options are read; anything else is an error that says what there is.
    #[test]
    fn command_line_is_read() {
        let options = Options::parse(&["rust", "--divisor", "4", "--write"]).unwrap();
        assert_eq!((options.divisor, options.is_written), (Some(4), true));
        let wanted = |options: &Options| -> Vec<&str> {
            PROGRAMS.iter().filter(|it| options.is_wanted(it)).map(|it| it.name).collect()
        };
        assert_eq!(wanted(&options), ["rust"]);
        assert_eq!(wanted(&Options::default()), ["rust", "java", "go"]);
        assert!(Options::parse(&["c"]).unwrap_err().contains("melin"));
        assert!(Options::parse(&["--runs", "0"]).is_err());
        assert!(Options::parse(&["--runs"]).is_err());
    }

    /// The table replaces what stood between the marks, and nothing else.
    #[test]
    fn table_is_written_between_its_marks() {
        let path = env::temp_dir().join(format!("damrak-rivals-{}.md", std::process::id()));
        fs::write(&path, format!("before\n{BEGIN}old\n{END}after\n")).unwrap();
        write(&path, "| new |\n").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, "nothing").unwrap();
        let refused = write(&path, "| new |\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(text, format!("before\n{BEGIN}\n| new |\n\n{END}after\n"));
        assert!(refused.unwrap_err().contains("no place"));
    }
}
