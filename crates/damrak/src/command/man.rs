use std::io;

use clap::Command;

use crate::failure::Failure;

/// Print the manual page of damrak, or of one of its verbs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  damrak man | man -l -\n  damrak man serve > damrak-serve.1")]
pub struct Arguments {
    /// The verb; all of damrak if left out.
    verb: Option<String>,
}

/// Prints the page, in roff.
pub fn run(arguments: &Arguments, cli: &Command) -> Result<(), Failure> {
    let page = match &arguments.verb {
        None => cli.clone(),
        Some(verb) => {
            let found = cli.find_subcommand(verb).cloned().ok_or_else(|| {
                Failure::usage(format!("there is no verb {verb:?}"))
                    .hint("`damrak --help` lists the verbs")
            })?;
            let name: &'static str = Box::leak(format!("damrak-{verb}").into_boxed_str());
            found.name(name)
        }
    };
    clap_mangen::Man::new(page)
        .render(&mut io::stdout())
        .map_err(|error| Failure::runtime(format!("cannot write the page: {error}")))
}
