//! `damrak`: one program with a verb for each task.

mod command;

use std::process::ExitCode;

use os::memory::Allocator;

/// Puts orders, levels and tables into large pages.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    let result = crate::command::run(std::env::args_os());
    venue::notices::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code as u8)
        }
    }
}
