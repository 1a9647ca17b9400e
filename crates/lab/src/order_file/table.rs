//! A text file of rows with a header, gzipped or not, one line at a time.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    ops::RangeInclusive,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;
use market::Text;

use super::error::{FileError, What};

/// The longest line there may be. A file without line ends is refused before it fills the memory.
const LINE_BYTES_MAX: u64 = 4096;

const BUFFER_BYTES: usize = 256 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A column that a file may have, or must.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The names of the column in other programs.
    pub(super) other_names: &'static [&'static str],
    pub(super) is_required: bool,
}

impl Column {
    pub(super) const fn required(name: &'static str, other_names: &'static [&'static str]) -> Self {
        Self { name, other_names, is_required: true }
    }

    pub(super) const fn optional(name: &'static str, other_names: &'static [&'static str]) -> Self {
        Self { name, other_names, is_required: false }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_names.contains(&name)
    }
}

/// How far a file is read; may be asked from another thread.
#[derive(Clone, Debug)]
pub struct ReadProgress {
    read: Arc<AtomicU64>,
    len: u64,
}

impl ReadProgress {
    /// Bytes of the file that were read, before they were unpacked.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of the file; 0 if unknown.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a file without bytes, or of unknown length.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

pub(super) struct Table {
    file: String,
    reader: Box<dyn BufRead + Send>,
    progress: ReadProgress,
    columns: &'static [Column],
    places: Vec<Option<usize>>,
    field_count: usize,
    /// Of the current row, from 1.
    line: u64,
    text: String,
    /// The bytes of the current line before they are known to be text.
    bytes: Vec<u8>,
    /// Where each field of the current row ends in `text`.
    ends: Vec<usize>,
}

impl Table {
    /// Opens a file and reads its header, which must name the required columns and may name the others.
    pub(super) fn open(path: &Path, columns: &'static [Column]) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let opened = |source| FileError { file: name.clone(), line: 0, what: What::Io(source) };
        let file = File::open(path).map_err(opened)?;
        let metadata = file.metadata().map_err(opened)?;
        if metadata.is_dir() {
            return Err(opened(io::Error::other("it is a folder")));
        }
        Self::read(name.clone(), file, metadata.len(), columns)
    }

    /// As [`open`](Self::open), from anywhere; `name` names it in errors.
    pub(super) fn read(
        name: String,
        file: impl Read + Send + 'static,
        len: u64,
        columns: &'static [Column],
    ) -> Result<Self, FileError> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: file, read: Arc::clone(&read) };
        let mut packed = BufReader::with_capacity(BUFFER_BYTES, counted);
        let start = packed.fill_buf().map_err(|source| FileError {
            file: name.clone(),
            line: 0,
            what: What::Io(source),
        })?;
        let reader: Box<dyn BufRead + Send> = if start.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(packed)))
        } else {
            Box::new(packed)
        };
        let mut table = Self {
            file: name,
            reader,
            progress: ReadProgress { read, len },
            columns,
            places: vec![None; columns.len()],
            field_count: 0,
            line: 0,
            text: String::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        table.read_header()?;
        Ok(table)
    }

    pub(super) fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    pub(super) fn has(&self, column: usize) -> bool {
        self.places[column].is_some()
    }

    /// Goes on to the next row; false at the end of the file. Empty lines are passed over.
    pub(super) fn next_row(&mut self) -> Result<bool, FileError> {
        loop {
            if !self.next_line()? {
                return Ok(false);
            }
            if !self.text.is_empty() {
                break;
            }
        }
        if self.ends.len() != self.field_count {
            let found = format!("{} fields in `{}`", self.ends.len(), self.shortened());
            return Err(self.malformed(
                None,
                found,
                format!("{} as in the header", self.field_count),
            ));
        }
        Ok(true)
    }

    /// The text of a column in the current row; `None` if it is empty or the column is missing.
    pub(super) fn field(&self, column: usize) -> Option<&str> {
        let place = self.places[column]?;
        let start = if place == 0 { 0 } else { self.ends[place - 1] + 1 };
        Some(&self.text[start..self.ends[place]]).filter(|field| !field.is_empty())
    }

    pub(super) fn text<const N: usize>(
        &self,
        column: usize,
        expected: &str,
    ) -> Result<Text<N>, FileError> {
        self.field(column).and_then(Text::new).ok_or_else(|| self.wrong(column, expected))
    }

    /// The whole number of the current row in a column, digits only; `unit` ends the error.
    pub(super) fn whole(
        &self,
        column: usize,
        range: RangeInclusive<u64>,
        unit: &str,
    ) -> Result<u64, FileError> {
        let digits = |field: &&str| field.bytes().all(|digit| digit.is_ascii_digit());
        let number = self.field(column).filter(digits).and_then(|field| field.parse().ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            self.wrong(column, format!("a whole number from {low} to {high}{unit}"))
        })
    }

    /// The error that a column of the current row has another value than expected.
    pub(super) fn wrong(&self, column: usize, expected: impl Into<String>) -> FileError {
        let found = match self.field(column) {
            Some(field) => format!("`{}`", field.chars().take(40).collect::<String>()),
            None if self.has(column) => "nothing".into(),
            None => "no such column".into(),
        };
        self.malformed(Some(self.columns[column].name), found, expected.into())
    }

    fn malformed(
        &self,
        column: Option<&'static str>,
        found: String,
        expected: String,
    ) -> FileError {
        let what = What::Malformed { column, found, expected };
        FileError { file: self.file.clone(), line: self.line, what }
    }

    fn read_header(&mut self) -> Result<(), FileError> {
        if !self.next_line()? {
            self.line = 1;
            let expected = format!("a header with {}", self.required_names());
            return Err(self.malformed(None, "nothing".into(), expected));
        }
        self.field_count = self.ends.len();
        let header = self.text.clone();
        for (place, name) in header.split(',').enumerate() {
            let name = name.trim();
            let Some(column) = self.columns.iter().position(|column| column.is_called(name)) else {
                let known: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
                let expected = format!("only columns that are known: {}", known.join(", "));
                return Err(self.malformed(None, format!("the column `{name}`"), expected));
            };
            if self.places[column].replace(place).is_some() {
                let found = format!("the column `{name}` a second time");
                return Err(self.malformed(None, found, "each column once".into()));
            }
        }
        let missing =
            |(column, place): &(&Column, &Option<usize>)| column.is_required && place.is_none();
        if let Some((column, _)) = self.columns.iter().zip(&self.places).find(missing) {
            let found = format!("the header `{}`", self.shortened());
            return Err(self.malformed(None, found, format!("a column `{}`", column.name)));
        }
        Ok(())
    }

    fn required_names(&self) -> String {
        let required = self.columns.iter().filter(|column| column.is_required);
        required.map(|column| column.name).collect::<Vec<_>>().join(", ")
    }

    /// Reads a line and finds its fields; false at the end of the file.
    fn next_line(&mut self) -> Result<bool, FileError> {
        self.bytes.clear();
        let mut limited = (&mut *self.reader).take(LINE_BYTES_MAX + 1);
        let count = limited.read_until(b'\n', &mut self.bytes).map_err(|source| FileError {
            file: self.file.clone(),
            line: self.line.max(1),
            what: What::Io(source),
        })?;
        if count == 0 {
            return Ok(false);
        }
        self.line += 1;
        self.text.clear();
        self.ends.clear();
        if count as u64 > LINE_BYTES_MAX {
            let expected = format!("at most {LINE_BYTES_MAX}");
            return Err(self.malformed(None, "a longer line".into(), format!("{expected} bytes")));
        }
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        }
        if self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        let mut line = self.bytes.as_slice();
        if self.line == 1 {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        match std::str::from_utf8(line) {
            Ok(text) => self.text.push_str(text),
            Err(_) => {
                let found = "bytes that are not text".to_owned();
                return Err(self.malformed(None, found, "text in UTF-8".into()));
            }
        }
        if let Some(control) = self.text.chars().find(|sign| sign.is_control() || *sign == '"') {
            let found = format!("the character {control:?}");
            return Err(self.malformed(
                None,
                found,
                "fields without quotes or control characters".into(),
            ));
        }
        self.ends
            .extend(self.text.bytes().enumerate().filter(|(_, it)| *it == b',').map(|it| it.0));
        self.ends.push(self.text.len());
        Ok(true)
    }

    fn shortened(&self) -> String {
        let mut text: String = self.text.chars().take(80).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        text
    }
}
