//! The developers' commands. `cargo x ci` runs all checks; `cargo x tidy` runs the part that checks the
//! repository's own rules.
//!
//! Start at [`ci::run`], whose steps are a table; then [`tidy::RULES`], also a table.

mod tidy;
mod ci;
mod rivals;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "\
usage: cargo x <command>

  ci [STEP…]   everything that must hold before a change lands, in order; or only the steps named: `tests`, or
               `tidy..clippy`, `..build`, `tests..` for all from one to the other
  ci --list    the steps of ci
  tidy         the rules of the repository: layers, unsafe, words, documents
  rivals [rust] [java] [go] [melin] [--only book|ring] [--divisor N] [--runs N] [--write]
               engines and queues of others beside ours: builds those whose tools are here, says which are not,
               compares what they do, prints two tables; --write puts them into docs/performance.md

example: cargo x ci fmt clippy tests
exit codes: 0 ok, 1 a step or a rule failed, 2 usage";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci", "--list"] => {
            ci::list();
            ExitCode::SUCCESS
        }
        ["ci", names @ ..] => match ci::select(names) {
            Ok(steps) => ci::run(&steps),
            Err(message) => usage(&message),
        },
        ["tidy"] => tidy::main(),
        ["rivals", words @ ..] => match rivals::Options::parse(words) {
            Ok(options) => match rivals::run(&options) {
                Ok(()) => ExitCode::SUCCESS,
                Err(message) => {
                    eprintln!("{message}");
                    ExitCode::FAILURE
                }
            },
            Err(message) => usage(&message),
        },
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        [] => usage("which command?"),
        [unknown, ..] => usage(&format!("there is no command `{unknown}`")),
    }
}

fn usage(message: &str) -> ExitCode {
    eprintln!("{message}\n\n{HELP}");
    ExitCode::from(2)
}

/// The root folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").into()
}

/// The folder in which cargo builds.
fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The cargo that runs us.
fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
