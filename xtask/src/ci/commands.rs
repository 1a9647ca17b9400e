//! Commands of a step: shown before they run, and bounded in time if they answer.

use std::{
    io::Read,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    Outcome::{self, Passed},
    now,
};
use crate::root;

/// Runs a command from the root with its output shown.
pub(super) fn passes(command: &mut Command) -> Result<Outcome, String> {
    let line = shown(command);
    let status = command
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(Passed) } else { Err(format!("{line}: {status}")) }
}

/// Runs a command that must exit 0 in time and print one JSON object.
pub(super) fn answers(command: &mut Command, at_most: Duration) -> Result<Value, String> {
    let line = shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{line}: {error}"))?;
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let deadline = now() + at_most;
    let status = loop {
        match child.try_wait().map_err(|error| format!("{line}: {error}"))? {
            Some(status) => break status,
            None if now() < deadline => thread::sleep(Duration::from_millis(20)),
            None => {
                // The command may have ended in the meantime; then there is nothing to kill.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{line}: not done after {} s", at_most.as_secs()));
            }
        }
    };
    let text = reader
        .join()
        .expect("reading does not panic")
        .map_err(|error| format!("{line}: reading its output: {error}"))?;
    if !status.success() {
        return Err(format!("{line}: {status}\n{text}"));
    }
    let answer: Value =
        serde_json::from_str(&text).map_err(|error| format!("{line}: {error} in:\n{text}"))?;
    if answer.is_object() { Ok(answer) } else { Err(format!("{line}: no JSON object: {answer}")) }
}

/// Prints the command and returns it as text.
pub(super) fn shown(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    println!("$ {line}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's answer is one JSON object, given in time, with exit code 0.
    #[test]
    fn answers_are_read_and_bounded_in_time() {
        let shell = |script: &str, at_most_ms| {
            let mut command = Command::new("sh");
            answers(command.args(["-c", script]), Duration::from_millis(at_most_ms))
        };
        assert_eq!(shell("echo '{\"a\": 1}'", 10_000).unwrap()["a"], 1);
        assert!(shell("echo '{}'; exit 4", 10_000).unwrap_err().contains("4"));
        assert!(shell("echo 1", 10_000).unwrap_err().contains("no JSON object"));
        assert!(shell("exec sleep 60", 50).unwrap_err().contains("not done"));
    }
}
