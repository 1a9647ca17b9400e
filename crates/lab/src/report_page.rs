//! Reports of load runs, or of `damrak lab origins`, as one page that needs nothing else: tables, charts, the
//! environment, the commands.
//!
//! Start at [`read`], then [`page`] or [`origins_page`].
//!
//! Invariant: the page asks for nothing over the network; whatever comes from a result is escaped; a figure
//! that a result lacks is left out, never guessed.

mod charts;
mod origins_tables;

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    environment::machine_line, latency::duration_text, load::grouped,
    origins::SCHEMA as ORIGINS_SCHEMA,
};

pub use origins_tables::origins_page;

/// The file of a load's result in its folder.
pub const LOAD_FILE: &str = "load.json";
/// The file of `damrak lab origins` in its folder.
pub const ORIGINS_FILE: &str = "origins.json";

const RUN_SCHEMA: &str = "damrak/load/2";
const RUNS_SCHEMA: &str = "damrak/load-runs/1";

/// A run of `damrak load`, as its file has it.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Its name on the page.
    pub name: String,
    figures: Value,
}

/// The content of a file.
#[derive(Clone, Debug)]
pub enum ReportInput {
    /// Runs of `damrak load`.
    Loads(Vec<LoadResult>),
    /// The rows of `damrak lab origins`.
    Origins(Value),
}

/// Why a result cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Json { path: PathBuf, error: serde_json::Error },
    #[error("{}: the schema is {found}, not {RUN_SCHEMA}, {RUNS_SCHEMA} or {ORIGINS_SCHEMA}", path.display())]
    Schema { path: PathBuf, found: String },
    #[error(
        "{} has no counts of latencies: it is not a file of `damrak load --out`",
        path.display()
    )]
    Counts { path: PathBuf },
}

/// Reads the results in a folder of `damrak load --out` or `damrak lab origins --out`, or in such a file.
///
/// # Errors
/// The file is missing, or is not one of ours.
pub fn read(path: &Path) -> Result<ReportInput, ReportError> {
    let file = match path.is_dir() {
        true if path.join(ORIGINS_FILE).is_file() => path.join(ORIGINS_FILE),
        true => path.join(LOAD_FILE),
        false => path.into(),
    };
    let text = fs::read_to_string(&file)
        .map_err(|error| ReportError::Read { path: file.clone(), error })?;
    let mut result: Value = serde_json::from_str(&text)
        .map_err(|error| ReportError::Json { path: file.clone(), error })?;
    let runs = match result["schema"].as_str() {
        Some(RUN_SCHEMA) => vec![result],
        Some(RUNS_SCHEMA) => match result["runs"].take() {
            Value::Array(runs) => runs,
            _ => Vec::new(),
        },
        Some(ORIGINS_SCHEMA) => return Ok(ReportInput::Origins(result)),
        _ => return Err(ReportError::Schema { path: file, found: result["schema"].to_string() }),
    };
    if runs.iter().any(|run| !run["counts"].is_array()) {
        return Err(ReportError::Counts { path: file });
    }
    let name = path.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned());
    let is_alone = runs.len() == 1;
    let named = |figures: Value| {
        let rate = figures["requested_per_second"].as_u64();
        let name = match (is_alone, rate) {
            (false, Some(rate)) => format!("{name} {}/s", grouped(rate)),
            _ => name.clone(),
        };
        LoadResult { name, figures }
    };
    Ok(ReportInput::Loads(runs.into_iter().map(named).collect()))
}

impl LoadResult {
    /// Latencies in nanoseconds with their counts, in rising order.
    fn counts(&self, key: &str) -> Vec<(u64, u64)> {
        pairs(&self.figures[key])
    }

    /// The key of the latency to quote: from the schedule, in a closed loop from the send.
    fn quoted(&self) -> &Value {
        match &self.figures["latency_ns"] {
            Value::Null => &self.figures["latency_from_send_ns"],
            latency => latency,
        }
    }

    fn is_open_loop(&self) -> bool {
        self.figures["open_loop"].as_bool() == Some(true)
    }

    fn text(&self, key: &str) -> &str {
        self.figures[key].as_str().unwrap_or_default()
    }
}

/// Reads `[[nanoseconds, count], …]`.
fn pairs(value: &Value) -> Vec<(u64, u64)> {
    let pair = |pair: &Value| Some((pair[0].as_u64()?, pair[1].as_u64()?));
    value.as_array().into_iter().flatten().filter_map(pair).collect()
}

/// The page, with the `command` that made it.
pub fn page(results: &[LoadResult], command: &str) -> String {
    let mut body = String::new();
    let [measured, not_shown] = in_words(results).map(|text| escaped(&text));
    let _ = write!(
        body,
        "<h1>Latency of orders</h1>\n<p>{measured}</p>\n<p>{not_shown}</p>\n{}",
        table(results)
    );
    for result in results {
        for warning in result.figures["warnings"].as_array().into_iter().flatten() {
            let warning = escaped(warning.as_str().unwrap_or_default());
            let _ = writeln!(body, "<p class=warning>{}: {warning}</p>", escaped(&result.name));
        }
    }
    body.push_str(&stages(results));
    let charts = charts::all(results);
    body.push_str(&places(&charts));
    body.push_str("<h2>To repeat it</h2>\n<table>\n<tr><th>run</th><th>command</th></tr>\n");
    for result in results {
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td><code>{}</code><br>{}</td></tr>",
            escaped(&result.name),
            escaped(result.text("command")),
            escaped(&machine_line(&result.figures["environment"]))
        );
    }
    let _ = writeln!(
        body,
        "<tr><td>this page</td><td><code>{}</code></td></tr>\n</table>",
        escaped(command)
    );
    document("latency of orders", &body, charts)
}

/// The places of charts, each with its words.
fn places(charts: &[charts::Chart]) -> String {
    let mut html = String::new();
    for chart in charts {
        let _ = write!(
            html,
            "<h2>{}</h2>\n<p>{}</p>\n<div class=chart id=\"{}\" style=\"height:{}px\"></div>\n",
            escaped(&chart.title),
            escaped(&chart.explanation),
            chart.id,
            chart.height
        );
    }
    html
}

/// The whole page around its body.
fn document(title: &str, body: &str, charts: Vec<charts::Chart>) -> String {
    let figures: Vec<_> = charts.into_iter().map(charts::Chart::figure).collect();
    let figures = Value::Array(figures).to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>Damrak: {title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"figures\">{figures}</script>\n{}\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        include_str!("report_page/page.css"),
        plotly_script(),
        include_str!("report_page/page.js"),
    )
}

/// The script of plotly alone: the script of MathJax follows it, which no chart here needs.
fn plotly_script() -> String {
    const END: &str = "</script>";
    let mut scripts = plotly::Plot::offline_js_sources();
    if let Some(end) = scripts.find(END) {
        scripts.truncate(end + END.len());
    }
    scripts
}

/// The measurement in words, and the facts that the figures do not show.
fn in_words(results: &[LoadResult]) -> [String; 2] {
    let open = results.iter().filter(|result| result.is_open_loop()).count();
    let from = match (open, results.len() - open) {
        (_, 0) => {
            "Latency counts from the time at which a request was due, and requests that were not sent or \
             not answered count with the time that they waited."
        }
        (0, _) => {
            "CLOSED LOOP: latency counts from the send, and a client that waits hides the stalls of the \
             venue."
        }
        _ => {
            "Latency counts from the time at which a request was due; in the runs marked closed loop from \
             the send, which hides stalls."
        }
    };
    let runs = match results.len() {
        1 => "one run".to_owned(),
        count => format!("{count} runs"),
    };
    let is_local = |result: &LoadResult| {
        let addresses = result.figures["venue"]["addresses"].as_array();
        addresses.is_some_and(|all| {
            all.iter().all(|address| address.as_str().is_some_and(|it| it.contains("127.0.0.1")))
        })
    };
    let place = if results.iter().all(is_local) {
        "The venue and the generator shared a machine and loopback: no network card, cable or switch is in \
         the figures, and each side may have taken the other's core."
    } else {
        "The network between the generator and the venue is in the figures, and so is the generator."
    };
    [
        format!(
            "Measured: the time to the venue's first answer to each order, cancel and replace, in {runs}. \
             {from}"
        ),
        format!(
            "Not shown: other machines, other order flow, and what the venue does after it answered. {place}"
        ),
    ]
}

/// A row for each run.
fn table(results: &[LoadResult]) -> String {
    let heads = [
        "run",
        "loop",
        "requested/s",
        "sent/s",
        "answered/s",
        "p50",
        "p99",
        "p99.9",
        "max",
        "unanswered",
        "what limited it",
    ];
    let mut html = String::from("<table>\n<tr>");
    for head in heads {
        let _ = write!(html, "<th>{head}</th>");
    }
    html.push_str("</tr>\n");
    for result in results {
        let figures = &result.figures;
        let rate = |key: &str| figures[key].as_u64().map_or("-".into(), grouped);
        let latency = |key: &str| result.quoted()[key].as_u64().map_or("-".into(), duration_text);
        let missing = ["unsent", "unanswered"].map(|key| figures[key].as_u64().unwrap_or_default());
        let cells = [
            result.name.clone(),
            if result.is_open_loop() { "open" } else { "closed" }.into(),
            rate("requested_per_second"),
            rate("sent_per_second"),
            rate("answered_per_second"),
            latency("p50"),
            latency("p99"),
            latency("p999"),
            latency("max"),
            grouped(missing.iter().sum()),
            result.text("verdict").into(),
        ];
        html.push_str("<tr>");
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escaped(&cell));
        }
        html.push_str("</tr>\n");
    }
    html + "</table>\n"
}

/// A row for each leg of an order's way through the venue, of the runs that know it.
fn stages(results: &[LoadResult]) -> String {
    let mut rows = String::new();
    for result in results {
        for leg in result.figures["stages"]["legs"].as_array().into_iter().flatten() {
            let word = |key: &str| escaped(leg[key].as_str().unwrap_or_default());
            let time = |key: &str| leg[key].as_u64().map_or("-".into(), duration_text);
            let _ = writeln!(
                rows,
                "<tr><td>{}</td><td>{}</td><td>{} to {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&result.name),
                word("name"),
                word("from"),
                word("to"),
                leg["count"].as_u64().map_or("-".into(), grouped),
                time("p50_ns"),
                time("p99_ns"),
                time("p999_ns"),
                time("max_ns"),
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h2>Inside the venue</h2>\n<p>Times of orders that the venue followed from stage to stage. Journal and match \
         run at the same time; the reply and the feed wait for both.</p>\n<table>\n<tr><th>run</th><th>leg</th>\
         <th>from and to</th><th>orders</th><th>p50</th><th>p99</th><th>p99.9</th><th>max</th></tr>\n{rows}</table>\n"
    )
}

/// Text with the special characters of HTML escaped.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(rate: u64, command: &str) -> Value {
        let latency = json!({"p50": 12_000, "p99": 40_000, "p999": 90_000, "max": 1_500_000});
        let interval = |from: u64| {
            json!({"start_ns": from, "length_ns": 500_000_000, "requests": 10, "replies": 10,
                   "latency_ns": latency, "coarse_counts": [[10_240, 8], [40_960, 2]]})
        };
        json!({
            "schema": RUN_SCHEMA, "open_loop": true, "requested_per_second": rate,
            "sent_per_second": rate, "answered_per_second": rate, "latency_ns": latency,
            "latency_from_send_ns": latency, "unsent": 0, "unanswered": 1, "verdict": "nothing limited it",
            "warnings": ["a <warning>"], "venue": {"addresses": ["tcp 127.0.0.1:1"]},
            "environment": {"cores": 2}, "command": command,
            "intervals": [interval(0), interval(500_000_000)],
            "counts": [[10_000, 15], [40_000, 4], [1_500_000, 1]],
            "counts_from_send": [[9_000, 19], [1_400_000, 1]],
        })
    }

    fn loads(path: &Path) -> Vec<LoadResult> {
        match read(path) {
            Ok(ReportInput::Loads(runs)) => runs,
            other => panic!("{other:?}"),
        }
    }

    fn written(value: &Value) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("first & last");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(LOAD_FILE), value.to_string()).unwrap();
        (folder, path)
    }

    /// A page has a row and a command for each run, every chart has its place, and nothing of a result is
    /// markup.
    #[test]
    fn a_page_has_every_run_and_every_chart() {
        let runs = json!({"schema": RUNS_SCHEMA,
                          "runs": [run(1_000, "damrak load --rate 1k/s"), run(2_000, "</script><b>")]});
        let (_folder, path) = written(&runs);
        let results = loads(&path);
        assert_eq!(results[1].name, "first & last 2 000/s");
        let page = page(&results, "damrak report x");
        for text in ["first &amp; last 1 000/s", "a &lt;warning&gt;", "12.0µs", "1.5ms"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("</script><b>") && !page.contains("<b>"));
        let figures =
            page.split_once("id=\"figures\">").unwrap().1.split_once("</script>").unwrap().0;
        let figures: Value = serde_json::from_str(figures).unwrap();
        let ids: Vec<_> =
            figures.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["percentiles", "over-time", "rates", "heat-0", "heat-1"]);
        for id in ids {
            assert!(page.contains(&format!("<div class=chart id=\"{id}\"")), "{id}");
        }
        for figure in figures.as_array().unwrap() {
            assert!(!figure["data"].as_array().unwrap().is_empty(), "{figure}");
        }
    }

    /// The stages of the venue have a table where a run knows them, and none where none does.
    #[test]
    fn stages_have_a_table() {
        let mut known = run(1_000, "");
        known["stages"] = json!({"one_in": 256, "legs": [{"name": "match", "from": "sequenced",
            "to": "matched", "count": 12, "p50_ns": 900, "p99_ns": 2_000, "p999_ns": 2_000, "max_ns": 3_000}]});
        let (_folder, path) = written(&known);
        let page_of = |path: &Path| page(&loads(path), "");
        let text = page_of(&path);
        assert!(text.contains("<td>sequenced to matched</td><td>12</td><td>900ns</td>"));
        let (_folder, path) = written(&run(1_000, ""));
        assert!(!page_of(&path).contains("Inside the venue"));
    }

    /// The curve of percentiles ends at the longest latency, and each point is the share at or below it.
    #[test]
    fn percentiles_are_those_of_the_counts() {
        let (_folder, path) = written(&run(1_000, ""));
        let results = loads(&path);
        let figures = charts::all(&results).into_iter().map(charts::Chart::figure);
        let curve = figures.into_iter().next().unwrap()["data"][0].clone();
        // 15 of 20 are at or below 10 us: as far as 1 in 4.
        assert_eq!(curve["x"], json!([1.0, 4.0, 20.0, 20.0]));
        assert_eq!(curve["y"], json!([10.0, 10.0, 40.0, 1_500.0]));
    }

    /// Files that are not ours are refused with the reason.
    #[test]
    fn other_files_are_refused() {
        let mut without = run(1, "");
        without["counts"] = Value::Null;
        for (value, reason) in [
            (json!({"schema": "other/1"}), "the schema is \"other/1\", not damrak/load/2"),
            (without, "no counts of latencies"),
        ] {
            let (_folder, path) = written(&value);
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let (_folder, path) = written(&json!({}));
        fs::write(path.join(LOAD_FILE), "{").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("EOF"));
        assert!(read(Path::new("/nowhere")).unwrap_err().to_string().contains("cannot read"));
    }
}
