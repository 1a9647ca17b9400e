//! An error in a file of rows: file, line, column, found, expected.

use std::{error::Error, fmt, io};

/// A file that cannot be read, or has an invalid row; names the place.
#[derive(Debug)]
pub struct FileError {
    pub(super) file: String,
    /// From 1; 0 where nothing was read yet.
    pub(super) line: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Io(io::Error),
    Malformed { column: Option<&'static str>, found: String, expected: String },
}

impl FileError {
    /// The line, from 1; 0 where nothing was read yet.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// True if the file is compressed and broken or cut off.
    pub fn is_corruption(&self) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match &self.what {
            What::Io(error) => matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof),
            What::Malformed { .. } => false,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.what, self.line) {
            (What::Io(_), 0) => write!(f, "cannot open {}", self.file),
            (What::Io(_), line) => write!(f, "cannot read {} after line {line}", self.file),
            (What::Malformed { column, found, expected }, line) => {
                write!(f, "{}, line {line}", self.file)?;
                if let Some(column) = column {
                    write!(f, ", column `{column}`")?;
                }
                write!(f, ": found {found}, expected {expected}")
            }
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.what {
            What::Io(error) => Some(error),
            What::Malformed { .. } => None,
        }
    }
}
