use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
};

use clap::Args;

use super::super::output::print_line;
use venue::{failure::Failure, remote};

/// Let other machines read a journal: for `damrak follow tcp://ADDRESS:PORT` there.
///
/// Sends the files of the folder as they are, and changes nothing; may run beside the venue that
/// writes. Whoever reads verifies every record. There is no password and nothing is encrypted: share
/// on a network that you trust. Runs until it is ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal share damrak-data\n  \
                        damrak journal share damrak-data --address 192.0.2.1:26480")]
pub struct Share {
    /// The folder of the journal.
    directory: PathBuf,
    /// Where it listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:26480")]
    address: SocketAddr,
}

/// Runs `damrak journal share`.
pub fn run(arguments: &Share) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::environment(format!("cannot share at {}: {error}", arguments.address))
            .hint("--address names another address")
    };
    if !arguments.directory.is_dir() {
        let path = arguments.directory.display();
        return Err(Failure::environment(format!("there is no folder {path}"))
            .hint("name the journal's folder"));
    }
    let listener = TcpListener::bind(arguments.address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    print_line(&format!("{} is shared at tcp://{address}", arguments.directory.display()))?;
    remote::share(&arguments.directory, &listener).map_err(failed)
}
