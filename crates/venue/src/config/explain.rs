//! Errors of a configuration file: the fault, its place, and the nearest known name.

use crate::failure::Failure;

/// The error of a TOML file as a sentence: its place and, for an unknown key, the nearest known key.
pub(super) fn explain(error: &toml::de::Error, text: &str, origin: &str) -> Failure {
    let place = error.span().map_or(String::new(), |span| {
        let before = &text[..span.start.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!(":{line}:{column}")
    });
    let message = error.message();
    let failure = Failure::usage(format!("{origin}{place}: {message}"));
    let removed = |(start, sibling, _): &&(&str, &str, _)| {
        message.starts_with(start) && message.contains(sibling)
    };
    if let Some((.., reason)) = REMOVED.iter().find(removed) {
        return failure.hint(reason);
    }
    match did_you_mean(message) {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
        None => failure,
    }
}

/// Keys and names of earlier builds: the beginning of the message, a valid name, and the remedy.
const REMOVED: &[(&str, &str, &str)] = &[
    (
        "unknown field `queue`",
        "`commit_interval`",
        "ledger.queue was removed, since the ledger follows the journal: delete the line",
    ),
    (
        "unknown variant `ledger`",
        "`sequencer`",
        "the agent ledger was removed, since the ledger has a thread of its own: delete the name",
    ),
];

/// The unknown field or variant, if the message is about one.
fn unknown(message: &str) -> Option<&str> {
    message.split('`').nth(1).filter(|_| message.starts_with("unknown"))
}

/// From "unknown field `x`, expected one of `a`, `b`", the expected name nearest to `x`.
fn did_you_mean(message: &str) -> Option<String> {
    let wrong = unknown(message)?;
    let names = message.split('`').skip(3).step_by(2);
    names
        .map(|name| (edit_distance(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().div_ceil(2))
        .map(|(_, name)| name.to_owned())
}

/// The number of insertions, deletions and substitutions that turn one word into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
