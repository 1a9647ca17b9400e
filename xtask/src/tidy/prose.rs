//! Rules about words: headers of files, names of types and files, and plain English.
//!
//! Invariant: a rule reads only the text of the repository, and knows no exceptions except those listed
//! here with their reason.

use std::collections::BTreeMap;

use super::{
    Finding, Repository, before_tests,
    code::{code_of, prose_of},
};

/// Phrases of a private dialect, each with better words. The rule looks for them in comments, string
/// literals and documents, without regard to case.
const DIALECT: &[(&str, &str)] = &[
    ("is told", "say who reports what: \"the venue reports\", \"the client receives\""),
    ("are told", "say who reports what"),
    ("was told", "say who reported what"),
    ("were told", "say who reported what"),
    ("be told", "say who reports what"),
    ("comes to", "\"is\", \"gives\", \"results in\""),
    ("came to", "\"was\", \"gave\", \"resulted in\""),
    ("come to", "\"be\", \"give\", \"result in\""),
    ("by and by", "\"incrementally\", \"later\""),
    ("has that", "name the thing"),
    ("what came of", "\"the result of\""),
    ("what comes of", "\"the result of\""),
    ("whoever", "name the thing, or \"a caller that\""),
    ("what is more", "name the thing"),
    ("of no use", "\"ignored\", \"cannot be used\""),
    ("as if well", "\"without an error\""),
    ("is heard", "\"is received\""),
    ("was heard", "\"was received\""),
    ("heard of", "\"knows\", \"depends on\""),
    ("heard from", "\"received from\""),
    ("who reads", "\"the reader\", \"readers\""),
    ("who writes", "\"the writer\""),
    ("who asks", "\"the requester\""),
    ("who takes", "name the thing that takes"),
    ("who makes", "name the thing that makes"),
    ("that much", "give the number or name the quantity"),
];

/// Places where the phrases may appear: here, and in quotations.
const DIALECT_ALLOWED: &[&str] = &["xtask/src/tidy", "CHANGELOG.md"];

/// Public type names that several modules of one crate share on purpose: the messages of a protocol
/// keep the words of their specification, and a verb's arguments are known inside its file only.
const SHARED_NAMES: &[&str] = &["crates/wire/", "crates/damrak/src/command"];

/// Every source file opens with a statement of its purpose.
pub(super) fn headers(repository: &Repository) -> Vec<Finding> {
    let of_tools = repository.with_ending(".rs").filter(|(path, _)| path.starts_with("xtask/src/"));
    repository
        .sources()
        .chain(of_tools)
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| Finding::new(path, 1, "does not open with `//! ` and what it is for"))
        .collect()
}

/// A public type name occurs once in the workspace.
pub(super) fn type_names(repository: &Repository) -> Vec<Finding> {
    let mut seen = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in repository.sources() {
        if SHARED_NAMES.iter().any(|shared| path.starts_with(shared)) {
            continue;
        }
        let code = code_of(text);
        for (index, line) in before_tests(&code).lines().enumerate() {
            let Some(name) = public_type(line) else { continue };
            let place = format!("{path}:{}", index + 1);
            if let Some(first) = seen.insert(name.to_owned(), place) {
                let message = format!("`{name}` is also the name of a type at {first}");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// The name behind `pub struct`, `pub enum`, `pub trait` or `pub type` at the left margin.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest =
        ["struct ", "enum ", "trait ", "type "].iter().find_map(|it| rest.strip_prefix(it))?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// Comments, literals and documents are in plain English.
pub(super) fn dialect(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documents = repository.with_ending(".md").map(|(path, text)| (path, text.to_owned()));
    let sources = repository
        .with_ending(".rs")
        .filter(|(path, _)| path.starts_with("crates/") || path.starts_with("xtask/"))
        .map(|(path, text)| (path, prose_of(text)));
    for (path, prose) in documents.chain(sources) {
        if DIALECT_ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for (index, line) in prose.lines().enumerate() {
            let line = line.to_lowercase();
            for (phrase, better) in DIALECT.iter().filter(|(phrase, _)| has_words(&line, phrase)) {
                let message = format!("\"{phrase}\"; better: {better}");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// True if the phrase occurs with no letter before or after it.
fn has_words(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}
