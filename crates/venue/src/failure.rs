//! How a command ends: its exit code, and what to say when it did not go well.

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

/// A command that could not do what was asked: what was wrong, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit_code: ExitCode,
    /// What was wrong, and where.
    pub what: String,
    /// What to do, if there is something to do.
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

    /// With what to do about it.
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
