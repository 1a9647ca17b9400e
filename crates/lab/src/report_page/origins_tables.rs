//! The published tables of other systems beside ours, as a page.
//!
//! Invariant: a row without a figure of ours says why; no figure of theirs is drawn.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    charts::{Chart, colour, latency_axis, layout, micros},
    document, escaped, places,
};
use crate::{
    environment::machine_line,
    origins::{batch_max, in_words},
};

/// The subject of each system's table.
const TABLES: [(&str, &str); 5] = [
    ("A", "Datagrams a second through the kernel"),
    ("B", "Largest batches of delta streams"),
    ("C", "Latency of a stream beside a background, by FIX"),
    ("D", "Order files with known trades"),
    ("E", "Profiles of sockets"),
];

/// The page of a result of `damrak lab origins`, with the `command` that made it.
pub fn origins_page(result: &Value, command: &str) -> String {
    let rows = result["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let seconds = result["seconds"].as_f64().unwrap_or_default();
    let mut body = format!(
        "<h1>Tables of others, and ours</h1>\n<p>Measured: what five published systems measured, repeated here in a small \
         form, {seconds} s a case, on this machine alone.</p>\n<p>Not shown: their machines. Figures of theirs are their \
         authors\u{2019} own, and each table says how the two workloads differ.</p>\n"
    );
    let charts: Vec<_> =
        [packets(rows), batches(rows), latencies(rows)].into_iter().flatten().collect();
    for (origin, title) in TABLES {
        body.push_str(&table(rows, origin, title));
    }
    body.push_str(&places(&charts));
    let _ = writeln!(
        body,
        "<h2>To repeat it</h2>\n<table>\n<tr><th>what</th><th>command</th></tr>\n\
         <tr><td>the figures</td><td><code>{}</code><br>{}</td></tr>\n\
         <tr><td>this page</td><td><code>{}</code></td></tr>\n</table>",
        escaped(result["command"].as_str().unwrap_or_default()),
        escaped(&machine_line(&result["environment"])),
        escaped(command)
    );
    document("tables of others", &body, charts)
}

fn of<'a>(rows: &'a [Value], origin: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["origin"].as_str() == Some(origin))
}

fn case(row: &Value) -> &str {
    row["case"].as_str().unwrap_or_default()
}

/// The rows of a system; nothing if none was run.
fn table(rows: &[Value], origin: &str, title: &str) -> String {
    let mut html = String::new();
    let mut differences = Vec::new();
    for row in of(rows, origin) {
        let word = |key: &str| escaped(row[key].as_str().unwrap_or_default());
        let ours = match row["skipped"].as_str() {
            Some(reason) => format!("skipped: {}", escaped(reason)),
            None => escaped(&in_words(&row["ours"])),
        };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{ours}</td><td>{}</td></tr>",
            word("case"),
            word("theirs")
        );
        if !differences.contains(&word("differences")) {
            differences.push(word("differences"));
        }
    }
    if html.is_empty() {
        return html;
    }
    let differences: String = differences.iter().map(|text| format!("<p>{text}</p>\n")).collect();
    format!(
        "<h2>{origin}: {title}</h2>\n{differences}<table class=words>\n<tr><th>case</th><th>ours</th><th>theirs</th></tr>\n\
         {html}</table>\n"
    )
}

/// A horizontal bar for each row that has the figure; nothing if none has.
fn bars(
    rows: &[Value],
    origin: &str,
    name: &str,
    index: usize,
    figure: impl Fn(&Value) -> Option<u64>,
) -> Option<Value> {
    let (cases, figures): (Vec<&str>, Vec<u64>) =
        of(rows, origin).filter_map(|row| Some((case(row), figure(&row["ours"])?))).unzip();
    (!cases.is_empty()).then(|| {
        json!({ "type": "bar", "orientation": "h", "name": name, "x": figures, "y": cases,
                "marker": { "color": colour(index) } })
    })
}

/// The axes of bars: figures by their logarithm, cases from above.
fn bar_layout(figure: &str) -> Value {
    let x_axis = json!({ "title": { "text": figure }, "type": "log", "dtick": 1 });
    let mut layout = layout(x_axis, json!({ "automargin": true, "autorange": "reversed" }));
    layout["barmode"] = "group".into();
    layout
}

fn chart(
    id: &str,
    title: &str,
    explanation: &str,
    data: Vec<Value>,
    layout: Value,
) -> Option<Chart> {
    let [id, title, explanation] = [id, title, explanation].map(str::to_owned);
    (!data.is_empty()).then_some(Chart { id, title, explanation, height: 560, data, layout })
}

fn packets(rows: &[Value]) -> Option<Chart> {
    let figure = |key: &'static str| move |ours: &Value| ours[key].as_u64();
    let data = [
        bars(rows, "A", "sent", 0, figure("sent_per_second")),
        bars(rows, "A", "received", 1, figure("received_per_second")),
    ];
    chart(
        "packets",
        "Datagrams a second",
        "One way, ours. Where fewer are received than sent, the receiver\u{2019}s buffer was full.",
        data.into_iter().flatten().collect(),
        bar_layout("datagrams a second"),
    )
}

fn batches(rows: &[Value]) -> Option<Chart> {
    let roles = ["application", "snapshot", "delta"].into_iter().enumerate();
    let data = roles
        .filter_map(|(index, role)| bars(rows, "B", role, index, |ours| batch_max(ours, role)))
        .collect();
    chart(
        "batches",
        "Largest batches",
        "Ours, by layout and instruments. A batch near the length of a ring (8 192, or 16 384 of the snapshot agent) is a \
         reader that had no core.",
        data,
        bar_layout("largest batch, messages"),
    )
}

/// A line for each background: percentiles of the measured stream by its rate.
fn latencies(rows: &[Value]) -> Option<Chart> {
    let mut backgrounds: Vec<&str> = Vec::new();
    for row in of(rows, "C") {
        let background = case(row).split_once('_').map_or("", |(background, _)| background);
        if !backgrounds.contains(&background) {
            backgrounds.push(background);
        }
    }
    let mut data = Vec::new();
    for (index, background) in backgrounds.into_iter().enumerate() {
        for (key, name, dash) in [("p50_ns", "p50", "solid"), ("p99_ns", "p99", "dot")] {
            let point = |row: &Value| {
                let (of, measured) = case(row).split_once("_lt")?;
                let rate: u64 = measured.split('.').next()?.parse().ok()?;
                (of == background).then_some((rate, micros(row["ours"][key].as_u64()?)))
            };
            let (x, y): (Vec<u64>, Vec<f64>) = of(rows, "C").filter_map(point).unzip();
            if !x.is_empty() {
                data.push(json!({
                    "type": "scatter", "mode": "lines+markers", "name": format!("{background}, {name}"),
                    "x": x, "y": y, "line": { "color": colour(index), "dash": dash },
                }));
            }
        }
    }
    let x_axis = json!({ "title": { "text": "measured stream, orders a second" }, "type": "log" });
    chart(
        "latencies",
        "Latency beside a background",
        "Ours. bgRATE.CONNECTIONS is the background; latency counts from when an order was due.",
        data,
        layout(x_axis, latency_axis()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(origin: &str, case: &str, ours: Value) -> Value {
        json!({ "origin": origin, "case": case, "ours": ours, "skipped": null, "theirs": "1 <M>/s",
                "differences": "another machine" })
    }

    /// Every row has its line, a skipped row gives its reason, charts are of the rows that have figures, and nothing of
    /// a result is markup.
    #[test]
    fn a_page_has_every_row() {
        let mut skipped = row("A", "io_uring", Value::Null);
        skipped["skipped"] = "this kernel <has> none".into();
        let rings = json!({ "rings": [{ "role": "delta", "batch_max": 7 }, { "role": "delta", "batch_max": 120 }] });
        let latency = json!({ "p50_ns": 12_000, "p99_ns": 40_000 });
        let rows = [
            row("A", "4 a call", json!({ "sent_per_second": 2_000, "received_per_second": 1_500 })),
            skipped,
            row("B", "default", rings),
            row("C", "bg0.0_lt50.1", latency.clone()),
            row("C", "bg0.0_lt100.1", latency.clone()),
            row("C", "bg1000.1_lt50.1", latency),
            row("D", "100k", json!({ "trades": 47_886, "commands_per_second": 349_829.6 })),
        ];
        let result = json!({ "rows": rows, "seconds": 1.0, "environment": { "cores": 2 }, "command": "damrak lab" });
        let page = origins_page(&result, "damrak report");
        for text in [
            "1 500 received/s",
            "skipped: this kernel &lt;has&gt; none",
            "batches up to 120",
            "p50 12.0µs, p99 40.0µs",
            "47 886 trades, 349 829 commands/s",
            "1 &lt;M&gt;/s",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("<has>"));
        let charts =
            [packets(&rows), batches(&rows), latencies(&rows)].map(|chart| chart.unwrap().figure());
        let traces = charts.each_ref().map(|figure| figure["data"].as_array().unwrap().len());
        assert_eq!(traces, [2, 1, 4]);
        assert_eq!(charts[2]["data"][0]["x"], json!([50, 100]));
        // Without rows there is no chart that would be empty.
        assert!(packets(&[]).is_none() && batches(&[]).is_none() && latencies(&[]).is_none());
    }
}
