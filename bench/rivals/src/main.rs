//! Third-party engines and queues, driven by the same code as ours. Over the flows of `damrak bench book` each engine
//! gets the flow in its own types before the clock starts, and its trades are compared with the expected ones. Queues
//! do the work of `damrak bench ring`.
//!
//! An operation that an engine lacks is composed of other ones: an immediate-or-cancel order is a limit
//! order and a cancel, a replace is a cancel and a limit order.

mod lobster;
#[cfg(feature = "melin")]
mod melin;
mod orderbook_rs;
mod queues;

use std::{path::PathBuf, process::ExitCode};

use lab::bench::{Entrant, rivals};

const HELP: &str = "\
usage: rivals FLOW
       rivals queues

Takes turns as standard input says, with engines on that flow or with queues: `damrak bench book --rivals` and
`damrak bench ring --rivals` run it.";

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
    let served = match flow.to_str() {
        Some("queues") => rivals::serve_queues(queues::QUEUES),
        _ => rivals::serve(flow, ENTRANTS),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
