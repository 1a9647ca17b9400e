//! Two results of a benchmark side by side: which figures changed by more than noise.
//!
//! Invariant: a figure is compared with the one of the same name in the same row, never by its place.

use std::collections::BTreeMap;

use serde_json::Value;

/// Figures that describe the machine or the run, and are no result.
const NOT_RESULTS: [&str; 8] =
    ["environment", "seconds", "seed", "runs", "timer_ns", "state_hash", "command", "schema"];

/// A figure in both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where it is: rows by their texts, and the name of the figure.
    pub name: String,
    pub before: f64,
    pub after: f64,
}

impl Change {
    /// The change, in percent of the value before.
    pub fn percent(&self) -> f64 {
        100.0 * (self.after - self.before) / self.before
    }
}

/// The differences between two results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Figures that changed by more than noise, the largest first.
    pub changed: Vec<Change>,
    /// Number of figures that changed by no more than noise.
    pub unchanged: usize,
    /// Figures that only one of the results has.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
}

/// Compares two results of `damrak bench … --json`. A change of up to `noise_percent` is noise.
///
/// # Errors
/// The results are not of the same benchmark.
pub fn changes(before: &Value, after: &Value, noise_percent: f64) -> Result<Changes, String> {
    let schema = |result: &Value| result["schema"].as_str().unwrap_or("no schema").to_owned();
    if schema(before) != schema(after) {
        return Err(format!("one result is of {}, the other of {}", schema(before), schema(after)));
    }
    let (mut earlier, mut later) = (BTreeMap::new(), BTreeMap::new());
    collect(before, "", &mut earlier);
    collect(after, "", &mut later);
    let mut found = Changes::default();
    for (name, after) in &later {
        let Some(before) = earlier.remove(name) else {
            found.only_after.push(name.clone());
            continue;
        };
        let change = Change { name: name.clone(), before, after: *after };
        let is_same = before == *after || change.percent().abs() <= noise_percent;
        if is_same { found.unchanged += 1 } else { found.changed.push(change) }
    }
    found.only_before = earlier.into_keys().collect();
    found.changed.sort_by(|one, other| other.percent().abs().total_cmp(&one.percent().abs()));
    Ok(found)
}

/// Collects every number of a result by its name.
fn collect(value: &Value, name: &str, figures: &mut BTreeMap<String, f64>) {
    let under = |part: &str| match name {
        "" => part.to_owned(),
        name => format!("{name} / {part}"),
    };
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                figures.insert(name.to_owned(), number);
            }
        }
        Value::Object(fields) => {
            for (key, value) in
                fields.iter().filter(|(key, _)| !NOT_RESULTS.contains(&key.as_str()))
            {
                collect(value, &under(key), figures);
            }
        }
        Value::Array(rows) => {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for row in rows {
                // A row is named by its texts; several of the same name by their order.
                let texts = row.as_object().into_iter().flatten().filter_map(|(_, it)| it.as_str());
                let texts = texts.collect::<Vec<_>>().join(" ");
                let count = seen.entry(texts.clone()).or_default();
                *count += 1;
                let row_name = match (texts.as_str(), *count) {
                    ("", count) => format!("{count}"),
                    (texts, 1) => texts.to_owned(),
                    (texts, count) => format!("{texts} {count}"),
                };
                collect(row, &under(&row_name), figures);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(rows: &Value) -> Value {
        json!({"schema": "damrak/bench-x/1", "rows": rows, "environment": {"cores": 2}, "runs": 5})
    }

    /// Rows are found by their texts in any order; small changes are noise, and a row of one side alone is named.
    #[test]
    fn figures_are_compared_by_their_names() {
        let before = result(&json!([
            {"path": "tcp", "p50_ns": 100, "instructions": 900},
            {"path": "udp", "p50_ns": 200}
        ]));
        let after = result(&json!([
            {"path": "udp", "p50_ns": 150, "kernel_ns": 7},
            {"path": "tcp", "p50_ns": 103, "instructions": 1_800}
        ]));
        let found = changes(&before, &after, 5.0).unwrap();
        let names: Vec<_> = found.changed.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["rows / tcp / instructions", "rows / udp / p50_ns"]);
        assert_eq!(found.changed.iter().map(Change::percent).collect::<Vec<_>>(), [100.0, -25.0]);
        assert_eq!((found.unchanged, found.only_before.len()), (1, 0));
        assert_eq!(found.only_after, ["rows / udp / kernel_ns"]);
        assert_eq!(changes(&before, &before, 0.0).unwrap().changed, []);
    }

    /// A figure that was 0 and is not any more has changed; another benchmark cannot be compared.
    #[test]
    fn zeros_change_and_others_are_refused() {
        let found = changes(&result(&json!([{"lost": 0}])), &result(&json!([{"lost": 3}])), 5.0);
        assert_eq!(found.unwrap().changed.len(), 1);
        let other = json!({"schema": "damrak/bench-y/1"});
        let error = changes(&result(&json!([])), &other, 5.0).unwrap_err();
        assert!(error.contains("bench-x") && error.contains("bench-y"), "{error}");
    }
}
