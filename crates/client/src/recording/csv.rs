//! A recording as a table: a row for each message, a column for each field of the specification.
//!
//! Invariant: a row has every byte of its message, so that reading the table gives the same messages.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use market::parse_decimal;
use wire::{
    field::trimmed,
    itch::{self, MESSAGE_LEN_MAX, Message},
    layout::Field,
};

use super::{
    Input, Recorded, RecordingError,
    table::{Columns, Meaning, OWN, number_of, table_of, text_of},
};

/// The longest line.
const LINE_LEN_MAX: usize = 1 << 14;

/// The number of decimals of a field's numbers; `None` for text.
fn decimals(field: &Field) -> Option<u8> {
    match Meaning::of(field) {
        Meaning::Decimal { decimals, .. } => Some(decimals),
        Meaning::Number(_) | Meaning::Time => Some(0),
        Meaning::Text => None,
    }
}

/// Writes a table with a header.
pub struct CsvWriter<W> {
    file: W,
    columns: Columns,
    /// The symbols by stock locate, from the directory.
    symbols: BTreeMap<u16, Vec<u8>>,
    row: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header: the fields of these types of messages, or of all types if `types` is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(mut file: W, types: &[u8]) -> io::Result<Self> {
        let columns = Columns::new(types);
        let names: Vec<&str> = columns.named().map(|(name, _)| name).collect();
        writeln!(file, "{},{}", OWN.join(","), names.join(","))?;
        Ok(Self { file, columns, symbols: BTreeMap::new(), row: Vec::new() })
    }

    /// Writes a row, unless the type is left out.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// `recorded` is no ITCH message.
    pub fn write(&mut self, recorded: Recorded<'_>) -> io::Result<()> {
        let Recorded { number, received_ns, message, .. } = recorded;
        let decoded = itch::decode(message).expect("it was checked when it was read");
        let locate = decoded.stock_locate();
        if let Message::StockDirectory(directory) = decoded {
            self.symbols.insert(locate, trimmed(&directory.stock).to_vec());
        }
        let Some(columns) = self.columns.of(message[0]) else { return Ok(()) };
        let row = &mut self.row;
        row.clear();
        // A message of a snapshot has no number.
        if number > 0 {
            write!(row, "{number}")?;
        }
        row.push(b',');
        if let Some(received_ns) = received_ns {
            write!(row, "{received_ns}")?;
        }
        row.push(b',');
        if let Some(symbol) = self.symbols.get(&locate) {
            push_text(row, symbol);
        }
        for field in columns {
            row.push(b',');
            let Some(field) = field else { continue };
            let bytes = &message[field.offset..field.offset + field.len];
            match decimals(field) {
                None => push_text(row, text_of(bytes)),
                Some(0) => write!(row, "{}", number_of(bytes))?,
                Some(decimals) => {
                    let unit = 10_u64.pow(decimals.into());
                    let (whole, fraction) = (number_of(bytes) / unit, number_of(bytes) % unit);
                    write!(row, "{whole}.{fraction:0width$}", width = usize::from(decimals))?;
                }
            }
        }
        row.push(b'\n');
        self.file.write_all(row)
    }

    /// Writes the data in memory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Text, in quotes where necessary; bytes beyond ASCII as the characters of Latin-1.
fn push_text(row: &mut Vec<u8>, text: &[u8]) {
    let needs_quotes =
        |byte: &u8| matches!(byte, b',' | b'"' | b' ' | b'\n' | b'\r') || *byte < b' ';
    let is_quoted = text.iter().any(needs_quotes);
    if is_quoted {
        row.push(b'"');
    }
    for byte in text {
        match byte {
            b'"' => row.extend(b"\"\""),
            byte if byte.is_ascii() => row.push(*byte),
            byte => row.extend(char::from(*byte).to_string().as_bytes()),
        }
    }
    if is_quoted {
        row.push(b'"');
    }
}

/// Reads a table that has a header with names of fields.
pub(super) struct CsvReader {
    columns: Vec<Column>,
    type_index: usize,
    line: Vec<u8>,
    line_number: u64,
    message: [u8; MESSAGE_LEN_MAX],
}

/// The time of reception of a message, and its bytes.
type Row<'a> = (Option<u64>, &'a [u8]);

enum Column {
    ReceivedNs,
    /// A column of this program that is not a part of the message.
    Ignored,
    Field(String),
}

impl CsvReader {
    /// Reads the header.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, RecordingError> {
        let mut line = Vec::new();
        let wrong = |what| RecordingError::Row { line: 1, what };
        if !input.read_line(&mut line, LINE_LEN_MAX, 1)? {
            return Err(wrong("a table begins with the names of its columns".to_owned()));
        }
        let names = cells(&line).map_err(wrong)?;
        let is_field = |name: &str| {
            Message::TABLES.iter().any(|table| table.2.iter().any(|field| field.name == name))
        };
        let mut columns = Vec::with_capacity(names.len());
        for name in &names {
            let name = String::from_utf8_lossy(name).into_owned();
            columns.push(match name.as_str() {
                "received_ns" => Column::ReceivedNs,
                own if OWN.contains(&own) => Column::Ignored,
                field if is_field(field) => Column::Field(name),
                _ => return Err(wrong(format!("no message of ITCH 5.0 has a field {name:?}"))),
            });
        }
        let is_type =
            |column: &Column| matches!(column, Column::Field(name) if name == "message_type");
        let Some(type_index) = columns.iter().position(is_type) else {
            return Err(wrong("the column message_type is missing".to_owned()));
        };
        let message = [0; MESSAGE_LEN_MAX];
        Ok(Self { columns, type_index, line, line_number: 1, message })
    }

    /// The next message, and its time of reception; `None` at the end.
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<Row<'_>>, RecordingError> {
        self.line_number += 1;
        if !input.read_line(&mut self.line, LINE_LEN_MAX, self.line_number)? {
            return Ok(None);
        }
        let line = self.line_number;
        let (received_ns, len) =
            self.encode().map_err(|what| RecordingError::Row { line, what })?;
        Ok(Some((received_ns, &self.message[..len])))
    }

    /// Makes the message of the line.
    fn encode(&mut self) -> Result<(Option<u64>, usize), String> {
        let cells = cells(&self.line)?;
        if cells.len() != self.columns.len() {
            let (found, expected) = (cells.len(), self.columns.len());
            return Err(format!("{found} cells, but the header names {expected}"));
        }
        let code = match cells[self.type_index][..] {
            [code] => code,
            _ => return Err("message_type is not one character".to_owned()),
        };
        let (_, _, fields) = table_of(code)
            .ok_or_else(|| format!("no message has type '{}'", code.escape_ascii()))?;
        let len = fields.iter().map(|field| field.len).sum();
        let mut received_ns = None;
        for field in *fields {
            self.message[field.offset..field.offset + field.len]
                .fill(if decimals(field).is_none() { b' ' } else { 0 });
        }
        for (column, cell) in self.columns.iter().zip(&cells) {
            match column {
                _ if cell.is_empty() => {}
                Column::Ignored => {}
                Column::ReceivedNs => received_ns = Some(number(cell, 0, "received_ns")?),
                Column::Field(name) => {
                    let field = fields.iter().find(|field| field.name == name);
                    let field = field
                        .ok_or_else(|| format!("a message '{}' has no {name}", char::from(code)))?;
                    put(field, cell, &mut self.message[field.offset..field.offset + field.len])?;
                }
            }
        }
        Ok((received_ns, len))
    }
}

fn number(cell: &[u8], decimals: u8, name: &str) -> Result<u64, String> {
    let text = str::from_utf8(cell).map_err(|_| format!("{name} is not text"))?;
    parse_decimal(text, decimals).map_err(|error| format!("{name}: {error}"))
}

/// Writes the value of a cell into its field.
fn put(field: &Field, cell: &[u8], bytes: &mut [u8]) -> Result<(), String> {
    let name = field.name;
    let Some(decimals) = decimals(field) else {
        if cell.len() > bytes.len() {
            return Err(format!("{name} has {} characters, {} fit", cell.len(), bytes.len()));
        }
        bytes[..cell.len()].copy_from_slice(cell);
        return Ok(());
    };
    let number = number(cell, decimals, name)?.to_be_bytes();
    let (above, low) = number.split_at(number.len() - bytes.len());
    if above.iter().any(|byte| *byte != 0) {
        return Err(format!("{name} does not fit {} bytes", bytes.len()));
    }
    bytes.copy_from_slice(low);
    Ok(())
}

/// The cells of a line, without quotes; characters of Latin-1 as bytes.
fn cells(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let text = str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
    let (mut cells, mut cell) = (Vec::new(), Vec::new());
    let (mut is_quoted, mut characters) = (false, text.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push(b'"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            character => match u8::try_from(character) {
                Ok(byte) => cell.push(byte),
                Err(_) => return Err(format!("{character:?} fits no field")),
            },
        }
    }
    if is_quoted {
        return Err("a quote is not closed".to_owned());
    }
    cells.push(cell);
    Ok(cells)
}
