//! The rules find violations: each rule has a planted one, and the repository has none.

use super::*;

/// The repository keeps its rules.
#[test]
fn the_repository_is_tidy() {
    if let Err(message) = check() {
        panic!("\n{message}");
    }
}

const LAYOUTS: &str = "docs/layouts.md";
const LEVEL: &str = "### `Level`: 8 bytes\n\n| offset | bytes | field |\n|---:|---:|---|\n| 0 | 4 | `oldest` |\n| 4 | 4 | `youngest` |\n";

/// A repository in which every rule holds, with text on which a hasty rule would misfire.
fn clean() -> Repository {
    let mut files: BTreeMap<String, String> = [
        ("README.md", "`cargo run --release -- demo`, `cargo test --release --workspace`"),
        ("docs/README.md", "[words](glossary.md#a), [code](../crates), [web](https://a.b/c), [s](security.md), [l](layouts.md)"),
        (LAYOUTS, LEVEL),
        (
            "docs/security.md",
            "| attack | test |\n|---|---|\n| a | `it_holds` |\n\n| no | column |\n|---|---|\n| b | c |\n",
        ),
        ("docs/glossary.md", "```\n[no](link)\n```\n"),
        ("crates/ring/src/cursor.rs", "//! It.\nfn f() { unsafe {} }"),
        ("crates/engine/tests/allocation.rs", "unsafe impl GlobalAlloc for Counting {}"),
        ("crates/engine/src/book.rs", "//! It.\n// unsafe, Instant::now\nfn f() { \"qty\"; }"),
        (
            "crates/engine/src/level.rs",
            "//! It.\nmarket::assert_layout! {\n    Level, 8 { oldest: 0, youngest: 4 }\n}\n",
        ),
        ("crates/wire/tests/it/ouch.rs", "//! It.\n#[test]\nfn it_holds() {}"),
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
        manifest
            .push_str(&format!("\n[profile.release.package.{package}]\noverflow-checks = true\n"));
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

/// Rules, each with a repository with one violation, and the place where the rule must find it.
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
            with("crates/engine/src/lib.rs", "//! #![no_std]\n#![deny(clippy::float_arithmetic)]"),
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
        ("floats", with("crates/market/src/lib.rs", "#![no_std]"), ("crates/market/src/lib.rs", 0)),
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
        (
            "tested",
            with("docs/security.md", "| attack | test |\n|---|---|\n| a | `no_such` |\n"),
            ("docs/security.md", 3),
        ),
        (
            "tested",
            with("docs/security.md", "\n| test | x |\n|---|---|\n| trust | `y` |\n\n| a | `z` |\n"),
            ("docs/security.md", 4),
        ),
        ("layouts", with(engine, "\nmarket::assert_layout! { Strip, 8 { bits: 0 } }"), (engine, 2)),
        ("layouts", with(engine, "market::assert_layout! { Strip { bits: 0 } }"), (engine, 1)),
        ("layouts", with(LAYOUTS, &LEVEL.replace("| 4 | 4 |", "| 5 | 2 |")), (LAYOUTS, 1)),
        ("layouts", with(LAYOUTS, &LEVEL.replace("8 bytes", "9 bytes")), (LAYOUTS, 1)),
        ("layouts", with(LAYOUTS, &LEVEL.replace("| 0 | 4 |", "| 0 | 5 |")), (LAYOUTS, 6)),
        ("layouts", with(LAYOUTS, &format!("{LEVEL}\n### `Strip`: 8 bytes\n")), (LAYOUTS, 8)),
        ("headers", without_header(engine, "fn main() {}"), (engine, 1)),
        ("types", with(engine, "pub struct Slot;\nstruct Cursor;\npub enum Slot {}"), (engine, 3)),
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

/// Each rule finds its planted violation at its place, and no other rule misfires on it.
#[test]
fn each_rule_finds_its_planted_violation() {
    for (index, (name, repository, (path, line))) in planted().into_iter().enumerate() {
        for rule in RULES {
            let findings = (rule.find)(&repository);
            if rule.name == name {
                let header = repository.files.get(path).is_some_and(|it| it.starts_with(HEADER));
                let line = line + usize::from(header && line > 0);
                assert_eq!(findings.len(), 1, "plant {index}, {name}: {findings:?}");
                assert_eq!((findings[0].path.as_str(), findings[0].line), (path, line), "{name}");
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

/// Files that git keeps are read, and files that a build leaves behind are not.
#[test]
fn only_the_repository_is_read() {
    let mut files = BTreeMap::new();
    read_folder(&crate::root(), "", &mut files).unwrap();
    assert!(files.contains_key(".ci/run") && files.contains_key("xtask/src/tidy.rs"));
    assert!(!files.keys().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
}
