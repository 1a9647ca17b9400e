//! The times of orders from stage to stage inside the venue during a load, from its admin API.
//!
//! Invariant: the figures are of all orders that the venue followed during the load, also those of other clients.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use gateway::at_most;
use serde_json::{Value, json};

use super::super::{
    ctl,
    output::{duration, grouped, table},
};

/// The longest time for the venue to connect and to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The longest answer: some bytes for each bucket of each leg.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The stage counts of the venue since its start.
///
/// # Errors
/// The venue cannot be reached, or its answer is not valid; the text has the reason.
pub(super) fn ask(address: SocketAddr) -> Result<Value, String> {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(
            format!("GET /stages HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = exchange().map_err(|error| error.to_string())?;
    match ctl::parse(&bytes) {
        Some((200, stages)) => Ok(stages),
        Some((status, body)) => Err(format!("the answer is status {status}: {}", body["error"])),
        None => Err("the answer is not that of a venue's admin API".to_owned()),
    }
}

/// The counts between two answers.
pub(super) fn between(before: &Value, after: &Value) -> Value {
    let leg = |after: &Value| {
        let earlier = before["legs"].as_array().into_iter().flatten();
        let earlier = earlier.into_iter().find(|leg| leg["name"] == after["name"]);
        let mut counts = counts(after);
        for (ns, count) in earlier.map(self::counts).unwrap_or_default() {
            counts.entry(ns).and_modify(|all| *all = all.saturating_sub(count));
        }
        let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        json!({
            "name": after["name"],
            "from": after["from"],
            "to": after["to"],
            "count": counts.iter().map(|(_, count)| count).sum::<u64>(),
            "p50_ns": at_most(&counts, 0.5),
            "p99_ns": at_most(&counts, 0.99),
            "p999_ns": at_most(&counts, 0.999),
            "max_ns": at_most(&counts, 1.0),
        })
    };
    let legs = after["legs"].as_array().into_iter().flatten().map(leg);
    json!({ "one_in": after["one_in"], "legs": legs.collect::<Vec<_>>() })
}

/// `[[nanoseconds, count], …]` of a leg.
fn counts(leg: &Value) -> BTreeMap<u64, u64> {
    let pair = |pair: &Value| Some((pair[0].as_u64()?, pair[1].as_u64()?));
    leg["counts"].as_array().into_iter().flatten().filter_map(pair).collect()
}

/// A row for each leg.
pub(super) fn text(stages: &Value) -> String {
    let legs = stages["legs"].as_array().into_iter().flatten();
    let followed = legs.clone().filter_map(|leg| leg["count"].as_u64()).max().unwrap_or(0);
    let time = |leg: &Value, key: &str| leg[key].as_u64().map_or("-".to_owned(), duration);
    let rows = legs.map(|leg| {
        let word = |key: &str| leg[key].as_str().unwrap_or_default().to_owned();
        [
            word("name"),
            format!("{} to {}", word("from"), word("to")),
            time(leg, "p50_ns"),
            time(leg, "p99_ns"),
            time(leg, "p999_ns"),
            time(leg, "max_ns"),
        ]
    });
    format!(
        "stages in the venue: 1 in {} orders at most, {} followed\n{}",
        stages["one_in"],
        grouped(followed),
        table(["", "", "p50", "p99", "p99.9", "max"], rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts from before the load are not included.
    #[test]
    fn only_what_came_between_counts() {
        let stages = |counts: Value| {
            let leg = json!({"name": "whole", "from": "received", "to": "sent", "counts": counts});
            json!({"one_in": 256, "legs": [leg]})
        };
        let before = stages(json!([[1_000, 10], [2_000, 3]]));
        let after = stages(json!([[1_000, 10], [2_000, 5], [4_000, 1]]));
        let leg = between(&before, &after)["legs"][0].clone();
        assert_eq!(
            (&leg["count"], &leg["p50_ns"], &leg["max_ns"]),
            (&json!(3), &json!(2_000), &json!(4_000))
        );
        let text = text(&between(&before, &after));
        assert!(text.contains("3 followed") && text.contains("received to sent"), "{text}");
        assert_eq!(between(&after, &after)["legs"][0]["count"], 0);
    }
}
