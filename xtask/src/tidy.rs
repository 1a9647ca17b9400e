//! The repository's own rules, which the compiler and clippy cannot check.
//!
//! A rule is a function from the repository to its findings, and a row in [`RULES`]. To add one, write
//! the function, its row, and a planted violation in `tests`.

mod code;
mod documents;
mod graph;
mod invariants;
mod layouts;
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

/// A rule: its name, its text, and the function that finds its violations.
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
    Rule {
        name: "tested",
        says: "each attack in docs/security.md, and each message in docs/wire/itch.md, names the test that shows it",
        find: invariants::tested,
    },
    Rule {
        name: "layouts",
        says: "docs/layouts.md draws what the code asserts of sizes and offsets, and nothing else",
        find: layouts::layouts,
    },
    Rule { name: "headers", says: "a file opens with what it is for", find: prose::headers },
    Rule { name: "types", says: "a public type name occurs once", find: prose::type_names },
    Rule { name: "dialect", says: "prose is plain English", find: prose::dialect },
    Rule { name: "tree", says: "few crates, no C, no system library", find: small_tree },
    Rule { name: "readme", says: "README shows the two commands", find: documents::readme },
    Rule {
        name: "markdown",
        says: "no trailing blanks and no tabs in documents",
        find: documents::markdown,
    },
    Rule { name: "links", says: "a link in a document leads somewhere", find: documents::links },
    Rule {
        name: "index",
        says: "docs/README.md links every document, and every folder with other files",
        find: documents::index,
    },
];

/// The crates in the order of the journey, each with the crates above it that its code may know.
const LAYERS: &[(&str, Knows)] = &[
    ("market", Knows::Only(&[])),
    ("wire", Knows::Only(&["market"])),
    ("ring", Knows::Only(&[])),
    ("os", Knows::Only(&[])),
    ("engine", Knows::Only(&["market"])),
    ("journal", Knows::Only(&["os"])),
    ("gateway", Knows::Only(&["market", "wire", "ring", "os"])),
    ("client", Knows::Only(&["market", "wire", "ring", "os"])),
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

/// Places that may have unsafe code: the lanes between threads, the system calls, the C interface of a
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
/// The files on the order path that may use channels and locks, each with the purpose.
const CHANNELS_AND_LOCKS: &[(&str, &str)] = &[
    ("crates/journal/src/segment_preparer.rs", "work that the writer does not wait for"),
    ("crates/journal/src/testing.rs", "a disk in memory, for tests and the simulator"),
    ("crates/gateway/src/fake.rs", "a network in memory, for tests and the simulator"),
    ("crates/gateway/src/newcomers.rs", "users that are added while the venue runs"),
    ("crates/gateway/src/tcp/threads.rs", "a connection on its way to its thread, once for each"),
    ("crates/venue/src/stage/perturbation.rs", "perturbations, in the simulator"),
    ("crates/venue/src/admin", "requests over HTTP"),
    ("crates/venue/src/operator.rs", "commands of operators, from the admin API to the sequencer"),
    ("crates/venue/src/ledger/", "the store of the ledger"),
    (
        "crates/venue/src/reply_files.rs",
        "places on disk, between two threads that no order waits for",
    ),
    ("crates/venue/src/notices.rs", "lines on their way to standard error, and none waits"),
];

const NO_STD: &[&str] = &["crates/market", "crates/wire", "crates/engine"];
const CLOCK: &str = "crates/venue/src/clock.rs";

/// Packages whose arithmetic panics on overflow also in a release.
const OVERFLOW_CHECKED: &[&str] = &["damrak-market", "damrak-engine"];
/// The file in which a price meets a quantity.
const AMOUNT: &str = "crates/market/src/price.rs";
const PRICE_NAMES: &[&str] = &["price", "limit", "best", "bid", "ask"];
const QUANTITY_NAMES: &[&str] = &["quantity", "leaves", "lots", "executed", "volume"];

/// Words for which the glossary has a better one.
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

/// Reads the files of the repository, without those that builds, runs and editors leave behind.
fn read_folder(root: &Path, inside: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let left_behind =
                ["target", "demo-out", "damrak-data", "__pycache__", "fuzz/corpus", "fuzz/found"];
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

/// The code before the tests of a file, which are at its end.
fn before_tests(code: &str) -> &str {
    code.find("#[cfg(test)]\nmod ").map_or(code, |start| &code[..start])
}

/// Reads the release profile; in the other profiles cargo checks overflow by default.
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

/// The names in a piece of a line whose bare number the code takes, as `price` in `u128::from(price.0)`.
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

/// Third-party crates whose names contain avoided words.
const FOREIGN_NAMES: [&str; 2] = ["futures_util", "hyper_util"];

fn words(repository: &Repository) -> Vec<Finding> {
    let mut findings = BTreeSet::new();
    // The structs of `wire` keep the words of their specifications.
    for (path, text) in repository.sources().filter(|(path, _)| !path.starts_with("crates/wire/")) {
        for (line, word) in words_of(&code_of(text)) {
            // The names of third-party crates are not ours to choose.
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

#[cfg(test)]
mod tests;
