//! Rows measured in turns with a plain loop, as a table and as JSON.

use lab::bench::paired::{PairedRow, Target};
use serde_json::{Value, json};
use venue::failure::Failure;

use super::super::output::{grouped, print_line, table};

/// A row as JSON, with the ratio and the rate that follow from its figures.
pub(super) fn row_json(row: &PairedRow) -> Value {
    let mut value = json!(row);
    value["ratio"] = json!(row.ratio());
    value["per_second"] = json!(row.per_second());
    value["reached"] = json!(row.is_reached());
    value
}

pub(super) fn print_rows(rows: &[PairedRow]) -> Result<(), Failure> {
    let header =
        ["row", "ns", "least", "most", "instr", "plain ns", "ratio", "per second", "target", ""];
    print_line(&table(header, rows.iter().map(cells)))?;
    for row in rows {
        let count = grouped(row.count);
        print_line(&format!(
            "{}: by {}, {count} of them, beside {}",
            row.name, row.per, row.beside
        ))?;
    }
    Ok(())
}

fn cells(row: &PairedRow) -> [String; 10] {
    let target = match row.target {
        None => "-".to_owned(),
        Some(Target::RatioMax(most)) => format!("ratio {most}"),
        Some(Target::PerSecond(least)) => format!("{}/s", grouped(least as u64)),
        Some(Target::PerSecondOrShare(least, share)) => {
            format!("{}/s or {share} of plain", grouped(least as u64))
        }
    };
    [
        row.name.to_owned(),
        format!("{:.1}", row.ns.median()),
        format!("{:.1}", row.ns.least()),
        format!("{:.1}", row.ns.most()),
        row.instructions.map_or("-".to_owned(), |it| format!("{it:.0}")),
        format!("{:.1}", row.beside_ns.median()),
        format!("{:.2}", row.ratio()),
        grouped(row.per_second() as u64),
        target,
        match row.is_reached() {
            None => "",
            Some(true) => "✓",
            Some(false) => "✗",
        }
        .to_owned(),
    ]
}
