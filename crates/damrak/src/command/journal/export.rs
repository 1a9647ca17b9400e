//! `damrak journal export`: the records of a journal as text.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use journal::RecordKind;
use serde_json::json;

use super::replay::kind;
use crate::command::{
    journal_folder,
    output::{hex, print_json, print_line},
};
use venue::{
    checkpoint::DigestRecord,
    failure::Failure,
    recovery::{decode, folder_with_archives, verify_failure},
};

/// Print the records of a journal, one a line.
///
/// Each line has the sequence, the time in nanoseconds since 1970, the kind of the record, its fields
/// under the names of the code, and its bytes in hexadecimal. Exit code 4 if a record is corrupt.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal export damrak-data\n  \
                        damrak journal export damrak-data --format csv --from 10 --to 20\n  \
                        damrak journal export damrak-data --checkpoints")]
pub struct Export {
    /// The folder of the journal.
    #[arg(value_parser = journal_folder())]
    directory: PathBuf,
    /// The format of the lines.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// The first sequence to print.
    #[arg(long, default_value_t = 1, value_name = "SEQUENCE")]
    from: u64,
    /// The last sequence to print.
    #[arg(long, default_value_t = u64::MAX, value_name = "SEQUENCE", hide_default_value = true)]
    to: u64,
    /// Also print checkpoints: the event digests between the inputs.
    #[arg(long)]
    checkpoints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A JSON object.
    Json,
    /// Comma-separated values; the first line has their names.
    Csv,
}

pub fn run(arguments: &Export) -> Result<(), Failure> {
    if arguments.format == Format::Csv {
        print_line("sequence,timestamp,kind,fields,payload")?;
    }
    let mut printed = Ok(());
    let mut folder = folder_with_archives(&arguments.directory);
    let wanted = arguments.from..=arguments.to;
    journal::verify(&mut folder, &mut |record| {
        let (what, says) = match record.kind {
            RecordKind::Input => {
                let command = json!(decode(&record)?.command);
                (kind(&command).to_owned(), command)
            }
            RecordKind::Checkpoint if !arguments.checkpoints => return Ok(()),
            RecordKind::Checkpoint => {
                let checkpoint = DigestRecord::decode(record.payload);
                ("Checkpoint".to_owned(), json!(checkpoint))
            }
        };
        if printed.is_err() || !wanted.contains(&record.sequence) {
            return Ok(());
        }
        let payload = hex(record.payload);
        printed = match arguments.format {
            Format::Json => print_json(&json!({
                "sequence": record.sequence,
                "timestamp": record.timestamp,
                "kind": what,
                "fields": says,
                "payload": payload,
            })),
            Format::Csv => print_line(&format!(
                "{},{},{what},\"{}\",{payload}",
                record.sequence,
                record.timestamp,
                says.to_string().replace('"', "\"\""),
            )),
        };
        Ok::<(), venue::recovery::NotReplayed>(())
    })
    .map_err(|error| verify_failure(&error))?;
    printed
}
