//! The charts of a page, as figures of plotly.
//!
//! Invariant: every chart of load runs shows all runs, or a single one; latencies are in microseconds on a logarithmic
//! axis.

use serde_json::{Value, json};

use super::{LoadResult, pairs};

/// Colours that people of any colour vision can distinguish.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000"];

/// A chart and the words above it.
pub struct Chart {
    pub id: String,
    pub title: String,
    pub explanation: String,
    /// In pixels.
    pub height: u32,
    pub(super) data: Vec<Value>,
    pub(super) layout: Value,
}

impl Chart {
    /// The figure as the page's script takes it.
    pub fn figure(self) -> Value {
        json!({ "id": self.id, "data": self.data, "layout": self.layout })
    }
}

/// All charts of a page, in its order.
pub fn all(results: &[LoadResult]) -> Vec<Chart> {
    let heat_maps = results.iter().enumerate().map(|(index, result)| heat_map(index, result));
    [percentiles(results), over_time(results), rates(results)]
        .into_iter()
        .chain(heat_maps)
        .collect()
}

pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

pub(super) fn micros(latency_ns: u64) -> f64 {
    latency_ns as f64 / 1_000.0
}

pub(super) fn latency_axis() -> Value {
    json!({ "title": { "text": "latency, µs" }, "type": "log", "dtick": 1, "exponentformat": "none",
            "separatethousands": true })
}

pub(super) fn layout(x_axis: Value, y_axis: Value) -> Value {
    json!({ "xaxis": x_axis, "yaxis": y_axis, "margin": { "t": 16, "r": 16, "b": 56, "l": 72 },
            "legend": { "orientation": "h", "y": 1.12 }, "separators": ". ", "hovermode": "closest" })
}

fn time_axis() -> Value {
    json!({ "title": { "text": "time since the start, s" }, "rangemode": "tozero" })
}

/// Latency against the share of requests that were slower.
fn percentiles(results: &[LoadResult]) -> Chart {
    let mut data = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let keys: &[(&str, &str, &str)] = match result.is_open_loop() {
            true => &[("counts", "", "solid"), ("counts_from_send", ", from the send", "dot")],
            false => &[("counts", ", closed loop", "solid")],
        };
        for (key, suffix, dash) in keys {
            let (x, y) = curve(&result.counts(key));
            data.push(json!({
                "type": "scatter", "mode": "lines", "name": format!("{}{suffix}", result.name),
                "x": x, "y": y, "line": { "color": colour(index), "dash": dash, "shape": "hv" },
                "hovertemplate": "%{y:,.1f} µs<br>one in %{x:,.0f} is slower",
            }));
        }
        let floor = &result.figures["floor"]["latency_ns"];
        let shares = [
            ("p50", 2.0),
            ("p90", 10.0),
            ("p99", 100.0),
            ("p999", 1e3),
            ("p9999", 1e4),
            ("p99999", 1e5),
        ];
        let points = shares.iter().filter_map(|(key, x)| Some((*x, micros(floor[key].as_u64()?))));
        let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
        if !x.is_empty() {
            data.push(json!({
                "type": "scatter", "mode": "markers", "name": format!("{}, null venue", result.name),
                "x": x, "y": y, "marker": { "color": colour(index), "symbol": "x-thin-open" },
            }));
        }
    }
    let x_axis = json!({
        "title": { "text": "percentile" }, "type": "log",
        "tickvals": [1, 2, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000],
        "ticktext": ["0", "50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"],
    });
    Chart {
        id: "percentiles".into(),
        title: "Percentiles".into(),
        explanation: "How slow the slowest are. A dotted line counts from the send and hides the delay of a \
                      stalled sender; crosses are the same load on a null venue, which answers at once."
            .into(),
        height: 440,
        data,
        layout: layout(x_axis, latency_axis()),
    }
}

/// Points of a curve: for each latency, in microseconds, 1 / (share of those that are slower).
fn curve(counts: &[(u64, u64)]) -> (Vec<f64>, Vec<f64>) {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut points = Vec::new();
    points.extend(counts.first().map(|(latency_ns, _)| (1.0, micros(*latency_ns))));
    let mut below = 0;
    for (latency_ns, count) in counts {
        below += count;
        // Of the slowest nothing is slower: it ends the curve where one of all is.
        let slower = (total - below).max(1);
        points.push((total as f64 / slower as f64, micros(*latency_ns)));
    }
    points.into_iter().unzip()
}

/// Percentiles of each interval.
fn over_time(results: &[LoadResult]) -> Chart {
    let mut data = Vec::new();
    for (index, result) in results.iter().enumerate() {
        for (key, name, dash) in
            [("p50", "p50", "solid"), ("p99", "p99", "dash"), ("max", "max", "dot")]
        {
            let points = intervals(result).filter_map(|(middle_s, interval)| {
                let latency_ns = interval["latency_ns"][key].as_u64().filter(|it| *it > 0)?;
                Some((middle_s, micros(latency_ns)))
            });
            let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
            data.push(json!({
                "type": "scatter", "mode": "lines", "name": format!("{} {name}", result.name),
                "x": x, "y": y, "line": { "color": colour(index), "dash": dash },
                "hovertemplate": "%{y:,.1f} µs at %{x:.1f} s",
            }));
        }
    }
    Chart {
        id: "over-time".into(),
        title: "Latency over time".into(),
        explanation:
            "Percentiles of each interval: one that grows over time is a queue, one that falls \
                      back is a disturbance."
                .into(),
        height: 360,
        data,
        layout: layout(time_axis(), latency_axis()),
    }
}

/// The intervals of a run, with the middle of each in seconds.
fn intervals(result: &LoadResult) -> impl Iterator<Item = (f64, &Value)> {
    let intervals = result.figures["intervals"].as_array().into_iter().flatten();
    intervals.filter_map(|interval| {
        let (start_ns, length_ns) =
            (interval["start_ns"].as_u64()?, interval["length_ns"].as_u64()?);
        Some(((start_ns + length_ns / 2) as f64 / 1e9, interval))
    })
}

/// Answers a second in each interval.
fn rates(results: &[LoadResult]) -> Chart {
    let data = results.iter().enumerate().map(|(index, result)| {
        let mut before = 0;
        let points = intervals(result).filter_map(|(middle_s, interval)| {
            let replies = interval["replies"].as_u64()?;
            let new = replies.saturating_sub(before);
            before = replies;
            Some((middle_s, new as f64 * 1e9 / interval["length_ns"].as_u64()?.max(1) as f64))
        });
        let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
        json!({
            "type": "scatter", "mode": "lines", "name": format!("{} answered", result.name),
            "x": x, "y": y, "line": { "color": colour(index) },
            "hovertemplate": "%{y:,.0f} a second at %{x:.1f} s",
        })
    });
    let y_axis = json!({ "title": { "text": "answers a second" }, "rangemode": "tozero",
                         "separatethousands": true });
    Chart {
        id: "rates".into(),
        title: "Rate over time".into(),
        explanation: "Answers a second in each interval.".into(),
        height: 300,
        data: data.collect(),
        layout: layout(time_axis(), y_axis),
    }
}

/// How many requests had each latency, over time.
fn heat_map(index: usize, result: &LoadResult) -> Chart {
    let columns: Vec<(f64, Vec<(u64, u64)>)> = intervals(result)
        .map(|(middle_s, interval)| (middle_s, pairs(&interval["coarse_counts"])))
        .collect();
    let mut rows: Vec<u64> =
        columns.iter().flat_map(|(_, counts)| counts.iter().map(|(from_ns, _)| *from_ns)).collect();
    rows.sort_unstable();
    rows.dedup();
    let count_in = |counts: &[(u64, u64)], row: u64| {
        let found = counts.iter().find(|(from_ns, _)| *from_ns == row);
        found.map(|(_, count)| ((*count as f64).log10(), *count))
    };
    let of_rows = |of: fn((f64, u64)) -> Value| -> Vec<Vec<Value>> {
        let row = |row: &u64| {
            let cell = |(_, counts): &(f64, Vec<_>)| count_in(counts, *row).map_or(Value::Null, of);
            columns.iter().map(cell).collect()
        };
        rows.iter().map(row).collect()
    };
    let data = json!({
        "type": "heatmap", "colorscale": "Viridis", "hoverongaps": false,
        "x": columns.iter().map(|(middle_s, _)| *middle_s).collect::<Vec<_>>(),
        "y": rows.iter().map(|from_ns| micros(*from_ns)).collect::<Vec<_>>(),
        "z": of_rows(|(logarithm, _)| json!(logarithm)),
        "customdata": of_rows(|(_, count)| json!(count)),
        "hovertemplate": "%{customdata:,.0f} requests from %{y:,.1f} µs at %{x:.1f} s<extra></extra>",
        "colorbar": { "title": { "text": "requests" }, "tickvals": [0, 1, 2, 3, 4, 5, 6],
                      "ticktext": ["1", "10", "100", "1 000", "10 000", "100 000", "1 000 000"] },
    });
    Chart {
        id: format!("heat-{index}"),
        title: format!("Heat map: {}", result.name),
        explanation:
            "Requests of each latency in each interval: two bands are two ways through the system, \
                      a cloud above them is the scheduler."
                .into(),
        height: 360,
        data: vec![data],
        layout: layout(time_axis(), latency_axis()),
    }
}
