//! Hidden input at a terminal: tcsetattr(3).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use crate::check;

/// A terminal that does not show the typed characters, until this is dropped.
pub struct HiddenInput {
    terminal: OwnedFd,
    shown: libc::termios,
}

impl HiddenInput {
    /// Hides the characters typed from now on; the end of a line is shown.
    ///
    /// # Errors
    /// The descriptor is no terminal, or the system does not let its settings be changed.
    pub fn begin(terminal: &impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        // SAFETY: a `termios` is numbers alone, for which 0 is a value.
        let mut shown: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open while it is owned, and the struct that is filled is live.
        check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut shown) })?;
        let mut hidden = shown;
        hidden.c_lflag &= !libc::ECHO;
        hidden.c_lflag |= libc::ECHONL;
        set(&terminal, &hidden)?;
        Ok(Self { terminal, shown })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // It fails only where the terminal has gone.
        let _ = set(&self.terminal, &self.shown);
    }
}

fn set(terminal: &OwnedFd, settings: &libc::termios) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the struct that is read is live.
    check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSAFLUSH, settings) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor that is no terminal is an error.
    #[test]
    fn a_file_is_no_terminal() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(HiddenInput::begin(&file).is_err());
    }
}
