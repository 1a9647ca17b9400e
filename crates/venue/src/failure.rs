//! The end of a command: its exit code, and for a failure the error and a hint.

use std::fmt;

/// Exit codes, stable and documented in the man page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Ok = 0,
    /// Something failed while running.
    Runtime = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The machine lacks something that is needed.
    Environment = 3,
    /// A check found a difference, or a file is corrupt.
    Verification = 4,
}

/// A failed command: the error, and a hint for the user.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit_code: ExitCode,
    /// The error, with its place.
    pub what: String,
    /// A remedy, if there is one.
    pub hint: Option<String>,
}

impl Failure {
    /// Something failed while running.
    pub fn runtime(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Runtime, what)
    }

    /// The command line or the configuration is wrong.
    pub fn usage(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, what)
    }

    /// The machine lacks something that is needed.
    pub fn environment(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Environment, what)
    }

    /// A check found a difference, or a file is corrupt.
    pub fn verification(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Verification, what)
    }

    fn new(exit_code: ExitCode, what: impl fmt::Display) -> Self {
        // The alternate form of an error of `anyhow` names its causes as well.
        Self { exit_code, what: format!("{what:#}"), hint: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\n hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// The error and what caused it, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !text.ends_with(&because) {
            text.push_str(": ");
            text.push_str(&because);
        }
        cause = error.source();
    }
    text
}
