//! Engine and journal, without the rest of the venue: replays a folder and prints the final state.
//!
//! `cargo run -p damrak-engine --example replay -- damrak-data`

use std::{env, error::Error, process::ExitCode};

use engine::Engine;
use journal::{Folder, RecordKind};
use market::{Command, Input, Sequence, Timestamp};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("error: name the folder of a journal");
        return ExitCode::from(2);
    };
    let mut engine = Engine::new();
    let replayed = journal::verify(&mut Folder::new(&folder), &mut |record| {
        if record.kind == RecordKind::Input {
            let command = Command::decode(record.payload)?;
            let (sequence, timestamp) = (Sequence(record.sequence), Timestamp(record.timestamp));
            engine.apply(&Input { sequence, timestamp, command }, &mut |_| {});
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    });
    match replayed {
        Ok(report) => {
            let (sequence, hash) = (report.last_sequence, engine.state_hash());
            let checked = cfg!(debug_assertions);
            println!(
                "{{\"last_sequence\": {sequence}, \"state_hash\": \"{hash:016x}\", \"checked\": {checked}}}"
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(4)
        }
    }
}
