//! The end of a command: its exit code, and for a failure the error and a hint.

use std::fmt;

/// Exit codes, stable and documented in the man page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    Ok = 0,
    Runtime = 1,
    Usage = 2,
    Environment = 3,
    Verification = 4,
    /// A threshold set by the user was not met.
    Slo = 5,
    /// The other venue rejected every order.
    Rejected = 6,
}

/// A failed command: the error, and a hint for the user.
#[derive(Debug)]
pub struct Failure {
    pub exit_code: ExitCode,
    pub what: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn runtime(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Runtime, what)
    }

    pub fn usage(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, what)
    }

    pub fn environment(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Environment, what)
    }

    pub fn verification(what: impl fmt::Display) -> Self {
        Self::new(ExitCode::Verification, what)
    }

    pub fn new(exit_code: ExitCode, what: impl fmt::Display) -> Self {
        // The alternate form of an `anyhow` error includes its causes.
        Self { exit_code, what: format!("{what:#}"), hint: None }
    }

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

/// The error and its causes, in one line.
pub fn causes(error: &dyn std::error::Error) -> String {
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
