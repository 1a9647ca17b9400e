//! Engines of others, driven over the flows of `damrak bench book` by the same code: each gets the
//! flow in its own words before the clock starts, and its trades are compared with what they must be.
//!
//! Where an engine has no word for an operation it is put into others: an immediate-or-cancel order
//! is a limit order and a cancel, a replace is a cancel and a limit order.

mod lobster;
#[cfg(feature = "melin")]
mod melin;
mod orderbook_rs;

use std::{path::PathBuf, process::ExitCode};

use lab::bench::{Entrant, rivals};

const HELP: &str = "\
usage: rivals FLOW

Reads the flow, then takes turns as standard input says: `damrak bench book --rivals` runs it.";

const ENTRANTS: &[Entrant] = &[
    #[cfg(feature = "melin")]
    Entrant::of::<melin::MelinBooks>(),
    #[cfg(feature = "melin")]
    Entrant::of::<melin::MelinExchange>(),
    Entrant::of::<lobster::Lobster>(),
    Entrant::of::<orderbook_rs::OrderBookRs>(),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [flow] = &arguments[..] else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    match rivals::serve(flow, ENTRANTS) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
