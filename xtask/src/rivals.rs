//! `cargo x rivals`: third-party engines and queues next to ours in one run, as two tables.
//!
//! Start at [`run`]. Programs, engines and queues are tables; bench/rivals has the drivers.
//!
//! Invariant: a program that is not measured is named with its reason, and an engine with other trades, or a queue that
//! loses a value, is a failure.

use std::{env, fmt::Write as _, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{cargo, root, target_folder};

/// A driver of engines, and the programs needed to build it.
struct Program {
    name: &'static str,
    tools: &'static [&'static str],
    /// False for a driver that is built only if named.
    is_default: bool,
    /// True if the driver has queues, too.
    has_queues: bool,
}

const PROGRAMS: [Program; 4] = [
    Program { name: "rust", tools: &["cargo"], is_default: true, has_queues: true },
    Program { name: "java", tools: &["java", "mvn"], is_default: true, has_queues: true },
    Program { name: "go", tools: &["go"], is_default: true, has_queues: false },
    // Its queues are those of `rust`.
    Program { name: "melin", tools: &["cargo"], is_default: false, has_queues: false },
];

/// The parts of a venue's work for an order that the measurement of an engine lacks, by the beginning of its name.
const LACKS: [(&str, &str); 10] = [
    ("matching", "sessions, order numbers, events, balances"),
    ("engine-balances", ""),
    ("engine", "balances"),
    ("model-btree", "sessions, order numbers, events, balances"),
    ("lobster", "replace, immediate-or-cancel; sessions, events, balances"),
    ("orderbook-rs", "replace, immediate-or-cancel; sessions, balances"),
    ("melin-exchange-core", "its book also sessions and balances"),
    ("exchange-core", "of the engine its books alone: sessions, balances"),
    ("geseq", "sessions, events, balances"),
    ("null", "everything: the loop around an engine"),
];

/// The features of the venue's ring that a queue lacks, by the beginning of its name. All queues keep order.
const QUEUES_LACK: [(&str, &str); 6] = [
    ("ring", ""),
    ("std::sync::mpsc", "several readers of every value, reading in place, batches, figures"),
    ("rtrb", "several readers of every value, figures"),
    ("crossbeam", "several readers of every value, reading in place, batches, figures"),
    ("disruptor", "readers that may be lapped, a reader that leaves, figures"),
    ("LMAX Disruptor", "readers that may be lapped, values without a pointer to each, figures"),
];

/// One of the tables: its benchmark, and its place in docs/performance.md.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    begin: &'static str,
    end: &'static str,
    table: fn(&Value) -> Result<String, String>,
}

const PARTS: [Part; 2] = [
    Part {
        name: "book",
        begin: "<!-- rivals -->\n",
        end: "<!-- /rivals -->\n",
        table: table_of_engines,
    },
    Part {
        name: "ring",
        begin: "<!-- queues -->\n",
        end: "<!-- /queues -->\n",
        table: table_of_queues,
    },
];

/// The options on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    names: Vec<String>,
    /// The one table to make, if not both.
    only: Option<String>,
    /// Measures only one in this number of operations of each flow.
    divisor: Option<u32>,
    runs: Option<u32>,
    is_written: bool,
}

impl Options {
    /// Reads the words after `rivals`.
    ///
    /// # Errors
    /// A word that is neither a program nor an option, or an option without its value.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--only" {
                let part = words.next().filter(|name| PARTS.iter().any(|it| it.name == **name));
                options.only = Some(part.ok_or("--only needs book or ring")?.to_string());
                continue;
            }
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

/// Builds the drivers whose tools are installed, measures them next to ours, and prints the tables.
///
/// # Errors
/// The measurement failed, an engine made other trades, or the document cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let mut absent = Vec::new();
    let mut built = Vec::new();
    for program in PROGRAMS.iter().filter(|program| options.is_wanted(program)) {
        match build(program) {
            Ok(path) => built.push((program, path)),
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
    let is_wanted = |part: &&Part| options.only.as_ref().is_none_or(|only| only == part.name);
    PARTS.iter().filter(is_wanted).try_for_each(|part| measure(part, options, &built, &absent))
}

/// Makes one table.
fn measure(
    part: &Part,
    options: &Options,
    built: &[(&Program, String)],
    absent: &[String],
) -> Result<(), String> {
    let is_book = part.name == "book";
    let mut command = Command::new(target_folder().join("release/damrak"));
    command.current_dir(root()).args(["bench", part.name, "--json"]);
    let divisor = options.divisor.filter(|_| is_book);
    for (option, value) in [("--divisor", divisor), ("--runs", options.runs)] {
        if let Some(value) = value {
            command.args([option, &value.to_string()]);
        }
    }
    for (_, path) in built.iter().filter(|(program, _)| is_book || program.has_queues) {
        command.args(["--rivals", path]);
    }
    let output = command.output().map_err(|error| format!("damrak bench: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    let report: Value = report.ok_or_else(|| {
        format!("damrak bench failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    let mut table = (part.table)(&report)?;
    for reason in absent {
        _ = writeln!(table, "Not measured: {reason}.");
    }
    println!("{table}");
    if options.is_written {
        write(&root().join("docs/performance.md"), part, &table)?;
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

/// A row for each engine: nanoseconds an operation, the multiple of `matching`, and the work that it lacks.
fn table_of_engines(report: &Value) -> Result<String, String> {
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
            _ = write!(
                text,
                " {median:.0} ns, {:.2}{wrong} |",
                ratio(&own["ns_per_op"], &row["ns_per_op"])
            );
        }
        _ = writeln!(text, " {} |", lacks(&LACKS, engine));
    }
    let part = match report["divisor"].as_u64() {
        Some(1) | None => "all operations".to_owned(),
        Some(divisor) => format!("one in {divisor} operations"),
    };
    _ = write!(
        text,
        "\nMedian of {} runs of {part}, and the median of the ratios to `matching` in the same turn. {}\n",
        report["runs"],
        machine(report),
    );
    Ok(text)
}

/// A row for each queue: nanoseconds a value, the multiple of `ring`, and the features that it lacks.
fn table_of_queues(report: &Value) -> Result<String, String> {
    let rows = report["rows"].as_array().filter(|rows| !rows.is_empty());
    let rows = rows.ok_or("the report has no rows")?;
    let mut works: Vec<&str> = rows.iter().filter_map(|row| row["work"].as_str()).collect();
    works.dedup();
    let find = |work: &str, queue: &str| {
        rows.iter().find(|row| row["work"] == work && row["queue"] == queue)
    };
    let mut text = format!("| queue | {} | it does not have |\n|---|", works.join(" | "));
    works.iter().for_each(|_| text += "---:|");
    text += "---|\n";
    for queue in rows.iter().filter(|row| row["work"] == works[0]) {
        let queue = queue["queue"].as_str().ok_or("a row has no queue")?;
        _ = write!(text, "| {queue} |");
        for work in &works {
            let own = find(work, "ring").ok_or("the report has no row of `ring`")?;
            match find(work, queue).filter(|row| row["ns_per_value"]["median"].is_number()) {
                None => text += " - |",
                Some(row) => {
                    let median = row["ns_per_value"]["median"].as_f64().unwrap_or(f64::NAN);
                    let wrong = if row["agrees"] == false { ", wrong" } else { "" };
                    let ratio = ratio(&own["ns_per_value"], &row["ns_per_value"]);
                    _ = write!(text, " {median:.1} ns, {ratio:.2}{wrong} |");
                }
            }
        }
        _ = writeln!(text, " {} |", lacks(&QUEUES_LACK, queue));
    }
    _ = write!(
        text,
        "\nMedian of {} runs of {} values through {} slots, and the median of the ratios to `ring` in the same turn. \
         {}\n",
        report["runs"],
        report["values"],
        report["slots"],
        machine(report),
    );
    Ok(text)
}

fn machine(report: &Value) -> String {
    let environment = &report["environment"];
    format!(
        "{} cores, {}, load {}.",
        environment["cores"],
        environment["processor"].as_str().unwrap_or("unknown processor"),
        environment["load_average"][1],
    )
}

/// The median of the ratios of times next to each other.
fn ratio(own: &Value, other: &Value) -> f64 {
    let runs = |times: &Value| times["runs"].as_array().cloned().unwrap_or_default();
    let mut ratios: Vec<f64> = runs(own)
        .iter()
        .zip(runs(other))
        .filter_map(|(own, other)| Some(other.as_f64()? / own.as_f64()?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn lacks(table: &[(&str, &'static str)], name: &str) -> &'static str {
    table.iter().find(|(begin, _)| name.starts_with(begin)).map_or("", |(_, lacks)| lacks)
}

/// Puts the table between its marks.
fn write(path: &Path, part: &Part, table: &str) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let places = text.find(part.begin).zip(text.find(part.end));
    let (begin, end) = places.ok_or_else(|| wrong(&"it has no place for the table"))?;
    let begin = begin + part.begin.len();
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

    /// The table has a row for each engine: its version, its time, its ratio in the same turn, and the work it lacks.
    #[test]
    fn table_has_every_engine() {
        let table = table_of_engines(&report()).unwrap();
        assert!(table.contains("| matching | 20 ns, 1.00 | sessions"), "{table}");
        assert!(table.contains("| lobster 0.7.0 | 60 ns, 3.00, other trades | replace"), "{table}");
        assert!(!table.contains("null"), "{table}");
        assert!(table.contains("3 runs of all operations"), "{table}");
        assert!(table_of_engines(&json!({})).is_err());
    }

    /// The table has a row for each queue; work that a queue cannot do is `-`.
    #[test]
    fn table_has_every_queue() {
        let row = |work: &str, queue: &str, runs: Value| {
            json!({"work": work, "queue": queue, "agrees": queue != "rtrb 0.4.1",
                "ns_per_value": {"median": runs[1], "runs": runs}})
        };
        let report = json!({"runs": 3, "values": 10, "slots": 4, "environment": {}, "rows": [
            row("single", "ring", json!([1.0, 2.0, 3.0])),
            row("single", "rtrb 0.4.1", json!([4.0, 6.0, 7.0])),
            row("fan-out", "ring", json!([1.0, 2.0, 3.0])),
            row("fan-out", "rtrb 0.4.1", json!([])),
        ]});
        let table = table_of_queues(&report).unwrap();
        assert!(table.contains("| queue | single | fan-out | it does not have |"), "{table}");
        assert!(table.contains("| ring | 2.0 ns, 1.00 | 2.0 ns, 1.00 |  |"), "{table}");
        assert!(table.contains("| rtrb 0.4.1 | 6.0 ns, 3.00, wrong | - | several"), "{table}");
        assert!(table_of_queues(&json!({})).is_err());
    }

    /// Names and options are read; any other word is an error that lists the valid ones.
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
        assert_eq!(Options::parse(&["--only", "ring"]).unwrap().only.as_deref(), Some("ring"));
        assert!(Options::parse(&["--only", "rings"]).unwrap_err().contains("book or ring"));
    }

    /// The table replaces the text between the marks, and nothing else.
    #[test]
    fn table_is_written_between_its_marks() {
        let Part { begin, end, .. } = PARTS[1];
        let path = env::temp_dir().join(format!("damrak-rivals-{}.md", std::process::id()));
        fs::write(&path, format!("before\n{begin}old\n{end}after\n")).unwrap();
        write(&path, &PARTS[1], "| new |\n").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, "nothing").unwrap();
        let refused = write(&path, &PARTS[1], "| new |\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(text, format!("before\n{begin}\n| new |\n\n{end}after\n"));
        assert!(refused.unwrap_err().contains("no place"));
    }
}
