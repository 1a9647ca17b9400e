//! The repository's own rules: what the compiler and clippy cannot check.
//!
//! A rule is a function from the repository to what it finds wrong, and a row in [`RULES`]. To add
//! one, write the function, its row, and a planted violation in the tests below.

mod code;
mod graph;
mod invariants;
mod prose;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::Path,
    process::ExitCode,
};

use code::{code_of, parts_of, words_of};
pub use graph::members;
use graph::{Member, Tree};

/// A rule: its name, what it says, and the function that finds what breaks it.
pub struct Rule {
    name: &'static str,
    says: &'static str,
    find: fn(&Repository) -> Vec<Finding>,
}

impl Rule {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule { name: "layers", says: "a crate knows only the crates below it", find: layers },
    Rule { name: "journey", says: "members stand in the order of the journey", find: journey },
    Rule {
        name: "unsafe",
        says: "unsafe code is only in ring, in os, in the C interface of bench/mebench, and \
               in the allocators with which tests count allocations",
        find: no_unsafe,
    },
    Rule {
        name: "threads",
        says: "on the order path threads meet in rings only; the files with channels and locks are \
               listed",
        find: threads,
    },
    Rule { name: "no_std", says: "market, wire and engine know no std", find: no_std },
    Rule {
        name: "amount",
        says: "price × quantity is the one way to an amount, and market and engine check overflow",
        find: amount,
    },
    Rule { name: "clock", says: "only venue/clock.rs reads time", find: clock },
    Rule { name: "words", says: "a thing has the name the glossary gives it", find: words },
    Rule { name: "finished", says: "nothing is left for later", find: finished },
    Rule {
        name: "floats",
        says: "market and engine calculate without floats",
        find: invariants::floats,
    },
    Rule { name: "turns", says: "an agent never waits inside a turn", find: invariants::turns },
    Rule {
        name: "invariants",
        says: "each invariant in ARCHITECTURE.md names the rule or test that keeps it",
        find: invariants::table,
    },
    Rule { name: "headers", says: "a file opens with what it is for", find: prose::headers },
    Rule { name: "types", says: "a public type name occurs once", find: prose::type_names },
    Rule { name: "dialect", says: "prose is plain English", find: prose::dialect },
    Rule { name: "tree", says: "few crates, no C, no system library", find: small_tree },
    Rule { name: "readme", says: "README shows the two commands", find: readme },
    Rule { name: "markdown", says: "no trailing blanks and no tabs in documents", find: markdown },
    Rule { name: "links", says: "a link in a document leads somewhere", find: links },
    Rule {
        name: "index",
        says: "docs/README.md links every document, and every folder with other files",
        find: index,
    },
];

/// The crates in the order of the journey, each with those above it that its code may know.
const LAYERS: &[(&str, Knows)] = &[
    ("market", Knows::Only(&[])),
    ("wire", Knows::Only(&["market"])),
    ("ring", Knows::Only(&[])),
    ("os", Knows::Only(&[])),
    ("engine", Knows::Only(&["market"])),
    ("journal", Knows::Only(&["os"])),
    ("gateway", Knows::Only(&["market", "wire", "ring", "os"])),
    ("client", Knows::Only(&["market", "wire", "ring"])),
    ("venue", Knows::Only(&["market", "wire", "ring", "os", "engine", "journal", "gateway"])),
    ("proof", Knows::All),
    ("lab", Knows::All),
    (BINARY, Knows::All),
    (XTASK, Knows::Only(&[])),
];
const BINARY: &str = "damrak";
const XTASK: &str = "xtask";

/// The crates above it that a crate may know.
enum Knows {
    All,
    Only(&'static [&'static str]),
}

fn folder_of(layer: &str) -> String {
    if layer == XTASK { layer.into() } else { format!("crates/{layer}") }
}

fn package_of(layer: &str) -> String {
    if [BINARY, XTASK].contains(&layer) { layer.into() } else { format!("damrak-{layer}") }
}

/// The packages that a row of [`LAYERS`] lets its crate know.
fn known_to(row: usize) -> BTreeSet<String> {
    match LAYERS[row].1 {
        Knows::All => LAYERS[..row].iter().map(|(layer, _)| package_of(layer)).collect(),
        Knows::Only(layers) => layers.iter().map(|layer| package_of(layer)).collect(),
    }
}

/// Where unsafe code may stand: the lanes between threads, the system calls, the C interface of a
/// benchmark with its tests, and the allocators with which tests count allocations.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/ring/src/",
    "crates/os/src/",
    "bench/mebench/src/abi.rs",
    "bench/mebench/tests/abi.rs",
];
const UNSAFE_ALLOWED_IN_TESTS: &str = "/tests/allocation.rs";

/// The crates that an order passes: there, threads share data through rings and cursors.
const ORDER_PATH: &[&str] = &[
    "crates/market/",
    "crates/wire/",
    "crates/engine/",
    "crates/journal/",
    "crates/gateway/",
    "crates/venue/",
];
/// Their files that may use channels and locks, and for what.
const CHANNELS_AND_LOCKS: &[(&str, &str)] = &[
    ("crates/journal/src/segment_preparer.rs", "work that the writer does not wait for"),
    ("crates/journal/src/testing.rs", "a disk in memory, for tests and the simulator"),
    ("crates/gateway/src/fake.rs", "a network in memory, for tests and the simulator"),
    ("crates/venue/src/stage/perturbation.rs", "perturbations, in the simulator"),
    ("crates/venue/src/admin", "requests over HTTP"),
    ("crates/venue/src/operator.rs", "commands of operators, from the admin API to the sequencer"),
    ("crates/venue/src/ledger/", "the store of the ledger"),
];

const NO_STD: &[&str] = &["crates/market", "crates/wire", "crates/engine"];
const CLOCK: &str = "crates/venue/src/clock.rs";

/// Packages whose arithmetic panics on overflow also in a release.
const OVERFLOW_CHECKED: &[&str] = &["damrak-market", "damrak-engine"];
/// Where a price meets a quantity.
const AMOUNT: &str = "crates/market/src/price.rs";
const PRICE_NAMES: &[&str] = &["price", "limit", "best", "bid", "ask"];
const QUANTITY_NAMES: &[&str] = &["quantity", "leaves", "lots", "executed", "volume"];

/// Words which the glossary has a better one for.
const AVOIDED: &[(&str, &str)] = &[
    ("qty", "quantity"),
    ("remaining", "leaves"),
    ("cancelled", "canceled"),
    ("cancelling", "canceling"),
    ("txn", "the thing itself: input, trade, order"),
    ("uid", "account_id, session_id or order_id"),
    ("manager", "what it does"),
    ("helper", "what it does"),
    ("helpers", "what they do"),
    ("util", "what it does"),
    ("utils", "what they do"),
];

const CRATES_MAX: usize = 180;
/// Crates with which a build script compiles C or looks for a system library.
const C_BUILDERS: &[&str] =
    &["autotools", "bindgen", "cc", "cmake", "cxx-build", "nasm-rs", "pkg-config", "vcpkg"];

const README_COMMANDS: &[&str] =
    &["cargo run --release -- demo", "cargo test --release --workspace"];

/// The repository as the rules see it.
#[derive(Default)]
struct Repository {
    /// Text by path from the root, with `/`.
    files: BTreeMap<String, String>,
    members: Vec<Member>,
    tree: Tree,
}

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// `cargo x tidy`.
pub fn main() -> ExitCode {
    match check() {
        Ok(()) => {
            println!("tidy: {} rules hold", RULES.len());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Checks every rule; the error is the text to print.
pub fn check() -> Result<(), String> {
    let repository = Repository::read(&crate::root())?;
    let mut lines = Vec::new();
    for rule in RULES {
        for finding in (rule.find)(&repository) {
            lines.push(format!("{finding}\n    rule `{}`: {}", rule.name, rule.says));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    lines.push(format!("tidy: {} findings", lines.len()));
    Err(lines.join("\n"))
}

impl Repository {
    fn read(root: &Path) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        read_folder(root, "", &mut files).map_err(|error| format!("reading the tree: {error}"))?;
        Ok(Self { files, members: graph::members(root)?, tree: graph::tree(root, "damrak")? })
    }

    /// Path and text of the files with an ending.
    fn with_ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust code behind `src/` of the crates.
    fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.with_ending(".rs").filter(|(path, _)| {
            path.strip_prefix("crates/")
                .and_then(|path| path.split_once('/'))
                .is_some_and(|(_, inside)| inside.starts_with("src/"))
        })
    }
}

/// Reads what is part of the repository: not what builds, runs and editors leave behind.
fn read_folder(root: &Path, inside: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let left_behind = [
                "target",
                "demo-out",
                "damrak-data",
                "__pycache__",
                "fuzz/corpus",
                "fuzz/artifacts",
            ];
            let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            if !hidden && !left_behind.contains(&name.as_str()) && !left_behind.contains(&&*path) {
                read_folder(root, &path, files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(entry.path())?;
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

fn layers(repository: &Repository) -> Vec<Finding> {
    let ours: BTreeSet<&str> = repository.members.iter().map(|m| m.name.as_str()).collect();
    let mut findings = Vec::new();
    for Member { name, dependencies, .. } in &repository.members {
        let Some(row) = LAYERS.iter().position(|(layer, _)| package_of(layer) == *name) else {
            let message = format!("`{name}` has no row in LAYERS of xtask/src/tidy.rs");
            findings.push(Finding::new("Cargo.toml", 0, message));
            continue;
        };
        let known = known_to(row);
        let manifest = format!("{}/Cargo.toml", folder_of(LAYERS[row].0));
        for dependency in dependencies.iter().filter(|it| ours.contains(it.as_str())) {
            if !known.contains(dependency) {
                let message = format!("`{name}` may not know `{dependency}`");
                findings.push(Finding::new(&manifest, 0, message));
            }
        }
    }
    findings
}

fn journey(repository: &Repository) -> Vec<Finding> {
    let manifest = repository.files.get("Cargo.toml").map_or("", String::as_str);
    let list = manifest.split_once("\nmembers = [").map_or("", |(_, rest)| rest);
    let found: Vec<&str> =
        list.split(']').next().unwrap_or("").split('"').skip(1).step_by(2).collect();
    let wanted: Vec<String> = LAYERS.iter().map(|(layer, _)| folder_of(layer)).collect();
    if found == wanted {
        return Vec::new();
    }
    vec![Finding::new("Cargo.toml", 0, format!("members are {found:?}, expected {wanted:?}"))]
}

fn no_unsafe(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.with_ending(".rs") {
        if UNSAFE_ALLOWED.iter().any(|allowed| path.starts_with(allowed))
            || path.ends_with(UNSAFE_ALLOWED_IN_TESTS)
        {
            continue;
        }
        let code = code_of(text);
        let lines: Vec<&str> = code.lines().collect();
        for (line, word) in words_of(&code) {
            let lets_in = || words_of(lines[line - 1]).any(|(_, w)| w == "allow" || w == "expect");
            if word == "unsafe" || (word == "unsafe_code" && lets_in()) {
                findings.push(Finding::new(path, line, "unsafe code has no place here"));
            }
        }
    }
    findings
}

fn threads(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.sources() {
        if !ORDER_PATH.iter().any(|folder| path.starts_with(folder))
            || CHANNELS_AND_LOCKS.iter().any(|(allowed, _)| path.starts_with(allowed))
        {
            continue;
        }
        let code = code_of(text);
        for (line, word) in words_of(before_tests(&code)) {
            if ["mpsc", "Mutex", "RwLock", "Condvar"].contains(&word) {
                let message = format!("{word}: threads meet in rings here");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

fn no_std(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in NO_STD {
        let root = format!("{folder}/src/lib.rs");
        let says_so = |text: &String| code_of(text).lines().any(|line| line.trim() == "#![no_std]");
        if !repository.files.get(&root).is_some_and(says_so) {
            findings.push(Finding::new(&root, 0, "does not say #![no_std]"));
        }
        let inside = format!("{folder}/src/");
        for (path, text) in repository.sources().filter(|(path, _)| path.starts_with(&inside)) {
            let code = code_of(text);
            let product = before_tests(&code);
            for (index, line) in product.lines().enumerate() {
                if line.trim().starts_with("extern crate std") {
                    findings.push(Finding::new(path, index + 1, "takes std in by a side door"));
                }
            }
        }
    }
    findings
}

/// What stands before the tests of a file, which end it.
fn before_tests(code: &str) -> &str {
    code.find("#[cfg(test)]\nmod ").map_or(code, |start| &code[..start])
}

/// Reads the release profile; in the other profiles cargo checks overflow by itself.
fn amount(repository: &Repository) -> Vec<Finding> {
    let manifest = repository.files.get("Cargo.toml").map_or("", String::as_str);
    let mut findings = Vec::new();
    for package in OVERFLOW_CHECKED {
        let section = format!("\n[profile.release.package.{package}]\n");
        let lines = manifest.split_once(&section).map_or("", |(_, rest)| rest).lines();
        let mut section = lines.take_while(|line| !line.starts_with('['));
        if !section.any(|line| line.trim() == "overflow-checks = true") {
            let message = format!("a release does not check overflow in `{package}`");
            findings.push(Finding::new("Cargo.toml", 0, message));
        }
    }
    for (path, text) in repository.sources().filter(|(path, _)| *path != AMOUNT) {
        for (index, line) in code_of(text).lines().enumerate() {
            let products = line.match_indices(" * ").map(|(at, sign)| {
                let (left, right) = (&line[..at], &line[at + sign.len()..]);
                (bare_numbers(left).last(), bare_numbers(right).next())
            });
            let names = |it: &str, all: &[&str]| {
                parts_of(it).iter().any(|part| all.contains(&part.as_str()))
            };
            let is_amount =
                |one: &str, other: &str| names(one, PRICE_NAMES) && names(other, QUANTITY_NAMES);
            for (left, right) in products {
                if let (Some(left), Some(right)) = (left, right)
                    && (is_amount(left, right) || is_amount(right, left))
                {
                    let message = format!("`{left}.0 * {right}.0`: multiply the types");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// The names in a piece of a line whose bare number it takes, as `price` in `u128::from(price.0)`.
fn bare_numbers(piece: &str) -> impl Iterator<Item = &str> {
    piece.match_indices(".0").filter_map(|(end, _)| {
        let before = piece[..end].trim_end_matches("()");
        let start =
            before.rfind(|it: char| !it.is_alphanumeric() && it != '_').map_or(0, |it| it + 1);
        let follows = piece[end + 2..].chars().next();
        let is_field = follows.is_none_or(|it| !it.is_alphanumeric() && it != '.');
        (is_field && start < before.len()).then_some(&before[start..])
    })
}

fn clock(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.sources().filter(|(path, _)| *path != CLOCK) {
        for (index, line) in code_of(text).lines().enumerate() {
            for reading in ["Instant::now", "SystemTime::now", ".elapsed()"] {
                if line.contains(reading) {
                    let message = format!("{reading}: time arrives as an argument");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Crates whose names say what we avoid.
const FOREIGN_NAMES: [&str; 2] = ["futures_util", "hyper_util"];

fn words(repository: &Repository) -> Vec<Finding> {
    let mut findings = BTreeSet::new();
    // The structs of `wire` keep the words of their specifications.
    for (path, text) in repository.sources().filter(|(path, _)| !path.starts_with("crates/wire/")) {
        for (line, word) in words_of(&code_of(text)) {
            // Crates of others have the names that they have.
            if FOREIGN_NAMES.contains(&word) {
                continue;
            }
            for part in parts_of(word) {
                if let Some((_, better)) = AVOIDED.iter().find(|(avoided, _)| *avoided == part) {
                    let message = format!("`{word}` says `{part}`; better: {better}");
                    findings.insert(Finding::new(path, line, message));
                }
            }
        }
    }
    findings.into_iter().collect()
}

fn finished(repository: &Repository) -> Vec<Finding> {
    // Put together, so that this file does not find itself.
    let marks = [concat!("FIX", "ME"), concat!("XX", "X:")];
    let stubs = [concat!("to", "do!"), concat!("un", "implemented!"), concat!("#[", "ignore")];
    let mut findings = Vec::new();
    for (path, text) in &repository.files {
        for (index, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
                findings.push(Finding::new(path, index + 1, format!("{mark} is left")));
            }
        }
    }
    for (path, text) in repository.with_ending(".rs") {
        for (index, line) in code_of(text).lines().enumerate() {
            if let Some(stub) = stubs.iter().find(|stub| line.contains(**stub)) {
                findings.push(Finding::new(path, index + 1, format!("{stub} is left")));
            }
        }
    }
    findings
}

fn small_tree(repository: &Repository) -> Vec<Finding> {
    let tree = &repository.tree;
    let mut findings = Vec::new();
    if tree.packages.len() > CRATES_MAX {
        let message = format!("{} crates, at most {CRATES_MAX}", tree.packages.len());
        findings.push(Finding::new("Cargo.lock", 0, message));
    }
    for (name, version) in &tree.packages {
        if C_BUILDERS.contains(&name.as_str()) {
            let message = format!("{name} {version} builds C, or looks for a system library");
            findings.push(Finding::new("Cargo.lock", 0, message));
        }
    }
    for ((name, version), library) in &tree.links {
        let message = format!("{name} {version} links to `{library}`");
        findings.push(Finding::new("Cargo.lock", 0, message));
    }
    findings
}

fn readme(repository: &Repository) -> Vec<Finding> {
    let text = repository.files.get("README.md").map_or("", String::as_str);
    README_COMMANDS
        .iter()
        .filter(|command| !text.contains(**command))
        .map(|command| Finding::new("README.md", 0, format!("does not show `{command}`")))
        .collect()
}

fn markdown(repository: &Repository) -> Vec<Finding> {
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

fn links(repository: &Repository) -> Vec<Finding> {
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

fn index(repository: &Repository) -> Vec<Finding> {
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

/// Line and target, without its `#…`, of the links to files. What is in code blocks is no link.
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

/// The path from the root of what a document links to.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            // Above the root nothing is ours.
            ".." if parts.pop().is_none() => return target.into(),
            ".." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repository keeps its rules.
    #[test]
    fn the_repository_is_tidy() {
        if let Err(message) = check() {
            panic!("\n{message}");
        }
    }

    /// A repository in which every rule holds, also where a hasty rule would misfire.
    fn clean() -> Repository {
        let mut files: BTreeMap<String, String> = [
            ("README.md", "`cargo run --release -- demo`, `cargo test --release --workspace`"),
            ("docs/README.md", "[words](glossary.md#a), [code](../crates), [web](https://a.b/c)"),
            ("docs/glossary.md", "```\n[no](link)\n```\n"),
            ("crates/ring/src/cursor.rs", "//! It.\nfn f() { unsafe {} }"),
            ("crates/engine/tests/allocation.rs", "unsafe impl GlobalAlloc for Counting {}"),
            ("crates/engine/src/book.rs", "//! It.\n// unsafe, Instant::now\nfn f() { \"qty\"; }"),
            ("crates/venue/src/clock.rs", "//! It.\nfn now() { SystemTime::now(); }"),
            (
                "crates/wire/src/ouch.rs",
                "//! It.\n#[forbid(unsafe_code)]\nstruct MinQty;\n#[cfg(test)]\nmod tests {\nextern crate std;\n}",
            ),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        let mut manifest = String::from("[workspace]\nmembers = [\n");
        for folder in LAYERS.iter().map(|(layer, _)| folder_of(layer)) {
            manifest.push_str(&format!("    \"{folder}\",\n"));
            files.insert(
                format!("{folder}/src/lib.rs"),
                "//! What.\n#![no_std]\n#![deny(clippy::float_arithmetic)]\n".into(),
            );
        }
        manifest.push_str("]\nexclude = [\"fuzz\"]\n");
        for package in OVERFLOW_CHECKED {
            manifest.push_str(&format!(
                "\n[profile.release.package.{package}]\noverflow-checks = true\n"
            ));
        }
        files.insert("Cargo.toml".into(), manifest);
        let members = LAYERS.iter().enumerate().map(|(row, (layer, _))| Member {
            name: package_of(layer),
            dependencies: known_to(row).into_iter().chain(["zerocopy".into()]).collect(),
            has_benches: false,
        });
        Repository { files, members: members.collect(), tree: Tree::default() }
    }

    /// The header of planted source files, without which they would break a second rule.
    const HEADER: &str = "//! A planted file.\n";

    fn with(path: &str, text: &str) -> Repository {
        let header = if path.ends_with(".rs") { HEADER } else { "" };
        let mut repository = clean();
        repository.files.insert(path.into(), format!("{header}{text}"));
        repository
    }

    fn without_header(path: &str, text: &str) -> Repository {
        let mut repository = clean();
        repository.files.insert(path.into(), text.into());
        repository
    }

    fn knowing(member: &str, dependency: &str) -> Repository {
        let mut repository = clean();
        let found = repository.members.iter_mut().find(|m| m.name == member).unwrap();
        found.dependencies.insert(dependency.into());
        repository
    }

    fn building(packages: &[&str]) -> Repository {
        let mut repository = clean();
        repository.tree.packages =
            packages.iter().map(|name| ((*name).into(), "1.0.0".into())).collect();
        repository
    }

    fn linking(library: &str) -> Repository {
        let mut repository = clean();
        repository.tree.links.insert(("z-sys".into(), "1.0.0".into()), library.into());
        repository
    }

    /// Rule, repository with one thing wrong, and the place where the rule must find it.
    fn planted() -> Vec<(&'static str, Repository, (&'static str, usize))> {
        let many: Vec<String> = (0..=CRATES_MAX).map(|n| format!("crate-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut stranger = clean();
        stranger.members.push(Member {
            name: "damrak-utils".into(),
            dependencies: BTreeSet::new(),
            has_benches: false,
        });
        let swapped = clean().files["Cargo.toml"].replace("crates/wire", "crates/rope");
        let unchecked = clean().files["Cargo.toml"].replacen("checks = true", "checks = false", 1);
        let engine = "crates/engine/src/book.rs";
        let stage = "crates/venue/src/stage/sequencer.rs";
        vec![
            ("amount", with("Cargo.toml", &unchecked), ("Cargo.toml", 0)),
            (
                "amount",
                with(engine, "fn f() {\n    let a = price.0 * order.leaves().0;\n}"),
                (engine, 2),
            ),
            (
                "amount",
                with(engine, "let a = u128::from(lots.0) * u128::from(price_away.0);"),
                (engine, 1),
            ),
            ("layers", knowing("damrak-engine", "damrak-wire"), ("crates/engine/Cargo.toml", 0)),
            ("layers", knowing("damrak-ring", "damrak-market"), ("crates/ring/Cargo.toml", 0)),
            ("layers", stranger, ("Cargo.toml", 0)),
            ("journey", with("Cargo.toml", &swapped), ("Cargo.toml", 0)),
            ("unsafe", with(engine, "\nfn f() { unsafe {} }"), (engine, 2)),
            ("unsafe", with(engine, "#[allow(unsafe_code)]"), (engine, 1)),
            ("threads", with(engine, "\nuse std::sync::mpsc;"), (engine, 2)),
            (
                "threads",
                with("crates/journal/src/writer.rs", "fn f(it: &std::sync::Mutex<u8>) {}"),
                ("crates/journal/src/writer.rs", 1),
            ),
            (
                "unsafe",
                with("bench/mebench/src/participant.rs", "unsafe {}"),
                ("bench/mebench/src/participant.rs", 1),
            ),
            (
                "unsafe",
                with("crates/ring/tests/it/a.rs", "unsafe {}"),
                ("crates/ring/tests/it/a.rs", 1),
            ),
            (
                "no_std",
                with(
                    "crates/engine/src/lib.rs",
                    "//! #![no_std]\n#![deny(clippy::float_arithmetic)]",
                ),
                ("crates/engine/src/lib.rs", 0),
            ),
            ("no_std", with(engine, "\nextern crate std;"), (engine, 2)),
            ("clock", with(engine, "let t = Instant::now();"), (engine, 1)),
            ("clock", with(engine, "\n\nt.elapsed()"), (engine, 3)),
            ("words", with(engine, "let openQty = 1;"), (engine, 1)),
            ("words", with(engine, "\nstruct BookManager;"), (engine, 2)),
            ("finished", with("docs/glossary.md", concat!("FIX", "ME")), ("docs/glossary.md", 1)),
            ("finished", with(engine, concat!("fn f() { to", "do!() }")), (engine, 1)),
            ("finished", with(engine, concat!("\n#[", "ignore = \"slow\"]")), (engine, 2)),
            (
                "floats",
                with("crates/market/src/lib.rs", "#![no_std]"),
                ("crates/market/src/lib.rs", 0),
            ),
            ("turns", with(stage, "fn f() {\n    thread::sleep(time);\n}"), (stage, 2)),
            (
                "invariants",
                with("ARCHITECTURE.md", "## Invariants\n| a | `no_such` |\n"),
                ("ARCHITECTURE.md", 2),
            ),
            (
                "invariants",
                with("ARCHITECTURE.md", "## Invariants\n\n| a | trust |\n"),
                ("ARCHITECTURE.md", 3),
            ),
            ("headers", without_header(engine, "fn main() {}"), (engine, 1)),
            (
                "types",
                with(engine, "pub struct Slot;\nstruct Cursor;\npub enum Slot {}"),
                (engine, 3),
            ),
            ("dialect", with(engine, "/// The client is told so."), (engine, 1)),
            ("dialect", with(engine, "fn f() { g(\"it comes to 3\"); }"), (engine, 1)),
            ("dialect", with("docs/glossary.md", "Whoever asks."), ("docs/glossary.md", 1)),
            ("tree", building(&many), ("Cargo.lock", 0)),
            ("tree", building(&["serde", "cc"]), ("Cargo.lock", 0)),
            ("tree", linking("z"), ("Cargo.lock", 0)),
            ("readme", with("README.md", "`cargo run --release -- demo`"), ("README.md", 0)),
            ("markdown", with("docs/glossary.md", "a\n\tb"), ("docs/glossary.md", 2)),
            ("markdown", with("docs/glossary.md", "a \n"), ("docs/glossary.md", 1)),
            ("links", with("docs/glossary.md", "\n[a](wire/none.md)"), ("docs/glossary.md", 2)),
            (
                "links",
                with("README.md", &(clean().files["README.md"].clone() + "[a](../b)")),
                ("README.md", 1),
            ),
            ("index", with("docs/journal.md", "text"), ("docs/README.md", 0)),
            ("index", with("docs/scenarios/iceberg.txt", "text"), ("docs/README.md", 0)),
        ]
    }

    /// Each rule finds what is planted for it, where it is planted, and no rule misfires on it.
    #[test]
    fn each_rule_finds_its_planted_violation() {
        for (index, (name, repository, (path, line))) in planted().into_iter().enumerate() {
            for rule in RULES {
                let findings = (rule.find)(&repository);
                if rule.name == name {
                    let header =
                        repository.files.get(path).is_some_and(|it| it.starts_with(HEADER));
                    let line = line + usize::from(header && line > 0);
                    assert_eq!(findings.len(), 1, "plant {index}, {name}: {findings:?}");
                    assert_eq!(
                        (findings[0].path.as_str(), findings[0].line),
                        (path, line),
                        "{name}"
                    );
                } else {
                    assert_eq!(findings, [], "plant {index} for {name}, found by {}", rule.name);
                }
            }
        }
    }

    /// No rule is without a planted violation.
    #[test]
    fn each_rule_has_a_planted_violation() {
        let names: BTreeSet<&str> = planted().iter().map(|(name, _, _)| *name).collect();
        assert_eq!(names, RULES.iter().map(|rule| rule.name).collect());
    }

    /// No rule finds anything where all is well.
    #[test]
    fn no_rule_misfires() {
        for rule in RULES {
            assert_eq!((rule.find)(&clean()), [], "{}", rule.name);
        }
    }

    /// What a build leaves behind is not read, what git keeps is.
    #[test]
    fn only_the_repository_is_read() {
        let mut files = BTreeMap::new();
        read_folder(&crate::root(), "", &mut files).unwrap();
        assert!(files.contains_key(".ci/run") && files.contains_key("xtask/src/tidy.rs"));
        assert!(!files.keys().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }
}
