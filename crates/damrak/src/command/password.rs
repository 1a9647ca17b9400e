//! `damrak password`: the argon2 hash of a password, for the configuration.

use std::io::{self, BufRead, IsTerminal, Write};

use gateway::{PasswordHash, plain_password};
use venue::failure::Failure;

use super::output::print_line;

/// Print the argon2 hash of a password, to replace it in the configuration.
///
/// The password is the first line of standard input; a terminal asks for it twice and does not show it. It is never an
/// argument, since other users could read arguments. The hash (argon2id, 19 MiB, 2 passes, a random salt) takes the place
/// of the password: `password = "$argon2id$..."` in `[[participants]]` or `[[market_data.subscribers]]`. A login ignores
/// case, so if another program makes the hash, it must hash the password in upper case.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  damrak password\n  pass show venue/user01 | damrak password")]
pub struct Arguments {}

/// Runs `damrak password`.
pub fn run(_: &Arguments) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::runtime(format!("cannot read the password: {error}"));
    let password = if io::stdin().is_terminal() {
        let first = ask("Password: ").map_err(failed)?;
        if ask("Again: ").map_err(failed)? != first {
            return Err(Failure::usage("the two passwords differ: no hash was made"));
        }
        first
    } else {
        read_line().map_err(failed)?
    };
    let password = plain_password(&password).ok_or_else(|| {
        Failure::usage("the password is not 1 to 10 printable ASCII characters")
            .hint("the login of SoupBinTCP has room for 10")
    })?;
    let hash = PasswordHash::make(&password).map_err(|error| {
        Failure::environment(format!("cannot make a hash of the password: {error}"))
    })?;
    print_line(&hash)
}

/// Reads a line from the terminal without showing it.
fn ask(prompt: &str) -> io::Result<String> {
    let mut terminal = io::stderr();
    terminal.write_all(prompt.as_bytes())?;
    terminal.flush()?;
    let _hidden = os::HiddenInput::begin(&io::stdin())?;
    read_line()
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
