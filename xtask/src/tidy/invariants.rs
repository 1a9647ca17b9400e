//! Rules about promises in documents: each invariant of ARCHITECTURE.md, each defence of docs/security.md and each
//! message of docs/wire/itch.md names the tests or rules that fail when it is broken.
//!
//! Invariant: a name in their tables is that of a rule in `RULES` or of a test function in the repository.

use std::collections::BTreeSet;

use super::{Finding, RULES, Repository, before_tests, code::code_of};

const PAGE: &str = "ARCHITECTURE.md";
/// Documents whose tables have a column `test`.
const TESTED: [&str; 2] = ["docs/security.md", "docs/wire/itch.md"];

/// The files in which agents do their turns.
const AGENTS: &[&str] = &[
    "crates/venue/src/stage/",
    "crates/gateway/src/order_entry",
    "crates/gateway/src/market_data",
];

/// Calls that wait for another thread, for time or for a disk.
const WAITS: &[&str] = &[
    "sleep(",
    ".park(",
    "::park(",
    "park_timeout(",
    ".recv()",
    ".recv_timeout(",
    ".join()",
    ".wait(",
];

/// Crates whose code may not calculate with floats.
const NO_FLOATS: &[&str] = &["crates/market/src/lib.rs", "crates/engine/src/lib.rs"];

/// Each row of the table of invariants names rules and tests, and all of them exist.
pub(super) fn table(repository: &Repository) -> Vec<Finding> {
    let Some(page) = repository.files.get(PAGE) else { return Vec::new() };
    let tests = test_names(repository);
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name()).collect();
    let mut findings = Vec::new();
    let rows = page
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != "## Invariants")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| invariant"));
    for (index, row) in rows {
        let kept_by = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        let names: Vec<&str> = kept_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(Finding::new(PAGE, index + 1, "the row names no rule and no test"));
        }
        for name in names {
            let exists = match name.strip_prefix("tidy ") {
                Some(rule) => rules.contains(rule),
                None => tests.contains(name),
            };
            if !exists {
                let message = format!("there is no rule and no test `{name}`");
                findings.push(Finding::new(PAGE, index + 1, message));
            }
        }
    }
    findings
}

/// Each row of a table with a column `test` names tests there, and all of them exist.
pub(super) fn tested(repository: &Repository) -> Vec<Finding> {
    let tests = test_names(repository);
    let pages = TESTED.iter().filter_map(|path| Some((*path, repository.files.get(*path)?)));
    pages.flat_map(|(path, page)| tested_in(path, page, &tests)).collect()
}

fn tested_in(path: &str, page: &str, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut column = None;
    for (index, line) in page.lines().enumerate() {
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        column = column.or_else(|| cells.iter().position(|cell| *cell == "test"));
        let Some(cell) = column.and_then(|column| cells.get(column)) else { continue };
        if *cell == "test" || cell.starts_with("---") {
            continue;
        }
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(Finding::new(path, index + 1, "the row names no test"));
        }
        for name in names.into_iter().filter(|name| !tests.contains(name)) {
            findings.push(Finding::new(path, index + 1, format!("there is no test `{name}`")));
        }
    }
    findings
}

/// The names of all functions under `#[test]`.
fn test_names(repository: &Repository) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (_, text) in repository.with_ending(".rs") {
        for after in text.split("#[test]").skip(1) {
            let name = after.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
            names.extend(name);
        }
    }
    names
}

/// No agent waits inside a turn.
pub(super) fn turns(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let agents = repository
        .sources()
        .filter(|(path, _)| AGENTS.iter().any(|folder| path.starts_with(folder)));
    for (path, text) in agents {
        let code = code_of(text);
        for (index, line) in before_tests(&code).lines().enumerate() {
            if let Some(call) = WAITS.iter().find(|call| line.contains(**call)) {
                let message = format!("`{call}` waits inside a turn: keep the work and return");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// The crates without floats deny float arithmetic to the compiler.
pub(super) fn floats(repository: &Repository) -> Vec<Finding> {
    let denies = |text: &String| text.contains("#![deny(clippy::float_arithmetic)]");
    NO_FLOATS
        .iter()
        .filter(|path| !repository.files.get(**path).is_some_and(denies))
        .map(|path| Finding::new(path, 0, "does not deny clippy::float_arithmetic"))
        .collect()
}
