//! Rules of the documents: the README, the Markdown files, their links and their index.

use std::collections::BTreeSet;

use super::{Finding, Repository};

const README_COMMANDS: &[&str] =
    &["cargo run --release -- demo", "cargo test --release --workspace"];

pub(super) fn readme(repository: &Repository) -> Vec<Finding> {
    let text = repository.files.get("README.md").map_or("", String::as_str);
    README_COMMANDS
        .iter()
        .filter(|command| !text.contains(**command))
        .map(|command| Finding::new("README.md", 0, format!("does not show `{command}`")))
        .collect()
}

pub(super) fn markdown(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.with_ending(".md") {
        for (index, line) in text.lines().enumerate() {
            if line.contains('\t') {
                findings.push(Finding::new(path, index + 1, "a tab"));
            }
            if line != line.trim_end() {
                findings.push(Finding::new(path, index + 1, "trailing blanks"));
            }
        }
    }
    findings
}

pub(super) fn links(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.with_ending(".md") {
        for (line, target) in links_of(text) {
            if !repository.has(&resolve(path, target)) {
                findings.push(Finding::new(path, line, format!("`{target}` leads nowhere")));
            }
        }
    }
    findings
}

pub(super) fn index(repository: &Repository) -> Vec<Finding> {
    const INDEX: &str = "docs/README.md";
    let text = repository.files.get(INDEX).map_or("", String::as_str);
    let listed: BTreeSet<String> =
        links_of(text).into_iter().map(|(_, target)| resolve(INDEX, target)).collect();
    repository
        .files
        .keys()
        .filter(|path| path.starts_with("docs/") && *path != INDEX)
        .filter(|path| {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let by_folder = !path.ends_with(".md") && listed.contains(folder);
            !by_folder && !listed.contains(*path)
        })
        .map(|path| Finding::new(INDEX, 0, format!("does not list {path}")))
        .collect()
}

impl Repository {
    /// True for a file or a folder.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }
}

/// Line and target, without its `#…`, of the links to files. Text in code blocks is not a link.
fn links_of(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code_block = !in_code_block;
        }
        if in_code_block {
            continue;
        }
        for after in line.split("](").skip(1) {
            let target = after.split([')', ' ', '#']).next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                links.push((index + 1, target));
            }
        }
    }
    links
}

/// The path, from the root, of a document's link target.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            // Files above the root are not part of the repository.
            ".." if parts.pop().is_none() => return target.into(),
            ".." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}
