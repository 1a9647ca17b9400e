//! Lines of a result: hashed, and written to a file if there is one.

use std::{
    fmt::{Arguments, Write as _},
    io::{self, Write as _},
};

use sha2::{Digest, Sha256};

use crate::order_file::FileWriter;

pub(super) struct HashedLines {
    line: String,
    hash: Sha256,
    file: Option<FileWriter>,
}

impl HashedLines {
    pub(super) fn new(file: Option<FileWriter>) -> Self {
        Self { line: String::new(), hash: Sha256::new(), file }
    }

    pub(super) fn push(&mut self, line: Arguments<'_>) -> io::Result<()> {
        self.line.clear();
        writeln!(self.line, "{line}").expect("text can always be added to");
        self.hash.update(self.line.as_bytes());
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(self.line.as_bytes()))
    }

    /// Completes the file; returns the SHA-256 of all lines in hexadecimal.
    pub(super) fn finish(self) -> io::Result<String> {
        self.file.map_or(Ok(()), FileWriter::finish)?;
        Ok(self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
