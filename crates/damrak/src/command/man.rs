//! `damrak man`: the manual pages, made from the same text as `--help`.

use clap::Command;

use super::output::print_line;
use venue::failure::Failure;

/// Print the manual page of damrak, or of one of its verbs.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  damrak man | man -l -\n  damrak man serve > damrak-serve.1\n  \
                        damrak man bench book | man -l -"
)]
pub struct Arguments {
    /// The verb, and its subverb if it has one [default: damrak itself].
    verbs: Vec<String>,
}

/// Prints the page, in roff.
pub fn run(arguments: &Arguments, cli: &Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page(&arguments.verbs, cli)?).render(&mut text);
    rendered.map_err(|error| Failure::runtime(format!("cannot make the page: {error}")))?;
    print_line(String::from_utf8_lossy(&text).trim_end())
}

/// The subject of the page, with the name of its page: `damrak-bench-book`.
fn page(verbs: &[String], cli: &Command) -> Result<Command, Failure> {
    let mut found = cli;
    let mut name = cli.get_name().to_string();
    for verb in verbs {
        found = found.find_subcommand(verb).ok_or_else(|| {
            let line = name.replace('-', " ");
            Failure::usage(format!("`{line}` has no verb {verb:?}"))
                .hint(format!("`{line} --help` lists the verbs"))
        })?;
        name = format!("{name}-{verb}");
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    Ok(found.clone().name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli() -> Command {
        let book = Command::new("book").about("Measures the core");
        Command::new("damrak").subcommand(Command::new("bench").subcommand(book))
    }

    fn named(verbs: &[&str]) -> Result<String, Failure> {
        let verbs: Vec<_> = verbs.iter().map(|verb| verb.to_string()).collect();
        page(&verbs, &cli()).map(|page| page.get_name().to_string())
    }

    /// Damrak, each verb and each subverb have a page.
    #[test]
    fn every_verb_has_a_page() {
        assert_eq!(named(&[]).unwrap(), "damrak");
        assert_eq!(named(&["bench"]).unwrap(), "damrak-bench");
        assert_eq!(named(&["bench", "book"]).unwrap(), "damrak-bench-book");
    }

    /// The error for an unknown verb names it, and the place of the list.
    #[test]
    fn unknown_verb_is_an_error() {
        let error = named(&["bench", "bok"]).unwrap_err().to_string();
        assert!(error.contains("`damrak bench` has no verb \"bok\""), "{error}");
    }
}
