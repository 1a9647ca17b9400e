//! A table as a file of Apache Parquet: columns that say what they are, for whatever reads many rows
//! at once.
//!
//! Of the format it takes what every reader knows: pages of version 1, plain values, no compression,
//! no column that may be missing. That is a page of code, and the crate for all of Parquet forty
//! crates.

mod thrift;

use std::io::{self, Write};

use super::{
    query::Ledger,
    schema::{Column, Kind, Table, Value},
    store::{Filter, StoreError},
};
use thrift::{Field, Struct};

/// Begins and ends a file.
const MAGIC: &[u8; 4] = b"PAR1";

/// Rows whose columns stand together, a page each.
const GROUP_ROWS: usize = 65_536;

/// The types of Parquet.
const INT32: i32 = 1;
const INT64: i32 = 2;
const BYTE_ARRAY: i32 = 6;
const FIXED_LEN_BYTE_ARRAY: i32 = 7;

/// Encodings: values one after the other, and what levels would have.
const PLAIN: i32 = 0;
const RLE: i32 = 3;

/// An amount has 16 bytes, and fewer digits than these.
const AMOUNT_LEN: i32 = 16;
const AMOUNT_DIGITS: i32 = 38;

/// Writes a table by its keys; says how many rows there are. `of` stands in the file beside the rows:
/// up to which input they are.
///
/// # Errors
/// The ledger cannot be read, or the file not be written.
pub fn write(
    ledger: &mut Ledger,
    table: Table,
    filter: &Filter,
    of: &[(&str, String)],
    out: &mut dyn Write,
) -> Result<u64, StoreError> {
    let failed = |error: &io::Error| {
        StoreError::unavailable(format!("cannot write {}: {error}", table.name()))
    };
    let mut file = File::new(table, out);
    let mut wrong = file.begin().err();
    if wrong.is_none() {
        ledger.scan(table, filter, &mut |values| {
            wrong = file.row(values).err();
            wrong.is_none()
        })?;
    }
    match wrong {
        Some(error) => Err(failed(&error)),
        None => file.finish(of).map_err(|error| failed(&error)),
    }
}

/// A file that is being written.
struct File<'a> {
    table: Table,
    out: &'a mut dyn Write,
    offset: u64,
    /// By column, the values of the rows that are gathered.
    pages: Vec<Vec<u8>>,
    page_rows: usize,
    groups: Vec<RowGroup>,
}

/// Rows whose columns stand together.
struct RowGroup {
    row_count: usize,
    chunks: Vec<Chunk>,
}

/// A column of them.
struct Chunk {
    offset: u64,
    byte_count: u64,
}

impl<'a> File<'a> {
    fn new(table: Table, out: &'a mut dyn Write) -> Self {
        let pages = vec![Vec::new(); table.columns().len()];
        Self { table, out, offset: 0, pages, page_rows: 0, groups: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.put(MAGIC)
    }

    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        for ((column, value), page) in self.table.columns().iter().zip(values).zip(&mut self.pages)
        {
            encode(column.kind, value, page);
        }
        self.page_rows += 1;
        if self.page_rows == GROUP_ROWS { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        let row_count = std::mem::take(&mut self.page_rows);
        let mut chunks = Vec::new();
        for nth in 0..self.pages.len() {
            let page = std::mem::take(&mut self.pages[nth]);
            let offset = self.offset;
            self.put(&page_header(row_count, page.len()))?;
            self.put(&page)?;
            chunks.push(Chunk { offset, byte_count: self.offset - offset });
        }
        self.groups.push(RowGroup { row_count, chunks });
        Ok(())
    }

    fn finish(mut self, of: &[(&str, String)]) -> Result<u64, io::Error> {
        if self.page_rows > 0 {
            self.end_group()?;
        }
        let row_count = self.groups.iter().map(|group| group.row_count as u64).sum();
        let footer = footer(self.table, &self.groups, row_count, of);
        let footer_len = u32::try_from(footer.len()).map_err(io::Error::other)?;
        self.put(&footer)?;
        self.put(&footer_len.to_le_bytes())?;
        self.put(MAGIC)?;
        Ok(row_count)
    }
}

/// A value, plain: numbers little-endian, amounts big-endian, text behind its length.
fn encode(kind: Kind, value: &Value, page: &mut Vec<u8>) {
    match value {
        Value::Integer(number) if physical(kind) == INT32 => {
            page.extend_from_slice(&(*number as u32).to_le_bytes());
        }
        Value::Integer(number) => page.extend_from_slice(&number.to_le_bytes()),
        Value::Amount(amount) => page.extend_from_slice(&amount.to_be_bytes()),
        Value::Word(_) | Value::Text(_) => {
            let text = kind.show(value).to_string();
            page.extend_from_slice(&(text.len() as u32).to_le_bytes());
            page.extend_from_slice(text.as_bytes());
        }
    }
}

fn physical(kind: Kind) -> i32 {
    match kind {
        Kind::Integer(8) => INT64,
        Kind::Integer(_) => INT32,
        Kind::Amount => FIXED_LEN_BYTE_ARRAY,
        Kind::Word(_) | Kind::Text(_) => BYTE_ARRAY,
    }
}

fn page_header(row_count: usize, byte_count: usize) -> Vec<u8> {
    let (row_count, byte_count) = (row_count as i32, byte_count as i32);
    let mut data = Struct::new();
    data.put(1, Field::I32(row_count));
    data.put(2, Field::I32(PLAIN));
    data.put(3, Field::I32(RLE));
    data.put(4, Field::I32(RLE));
    let mut header = Struct::new();
    header.put(1, Field::I32(0));
    header.put(2, Field::I32(byte_count));
    header.put(3, Field::I32(byte_count));
    header.put(5, Field::Struct(data));
    header.into_bytes()
}

/// What a column holds: its type, and what that means.
fn element(column: &Column) -> Struct {
    let mut logical = Struct::new();
    let mut meaning = Struct::new();
    let mut it = Struct::new();
    it.put(1, Field::I32(physical(column.kind)));
    if column.kind == Kind::Amount {
        it.put(2, Field::I32(AMOUNT_LEN));
    }
    it.put(3, Field::I32(0));
    it.put(4, Field::Text(column.name.to_owned()));
    match column.kind {
        Kind::Integer(8) if column.name.ends_with("timestamp") => {
            // Nanoseconds since the Unix epoch.
            let mut unit = Struct::new();
            unit.put(3, Field::Struct(Struct::new()));
            meaning.put(1, Field::Bool(true));
            meaning.put(2, Field::Struct(unit));
            logical.put(8, Field::Struct(meaning));
        }
        Kind::Integer(bytes) => {
            it.put(6, Field::I32(11 + bytes.trailing_zeros() as i32));
            meaning.put(1, Field::I8(bytes as i8 * 8));
            meaning.put(2, Field::Bool(false));
            logical.put(10, Field::Struct(meaning));
        }
        Kind::Amount => {
            it.put(6, Field::I32(5));
            it.put(7, Field::I32(0));
            it.put(8, Field::I32(AMOUNT_DIGITS));
            meaning.put(1, Field::I32(0));
            meaning.put(2, Field::I32(AMOUNT_DIGITS));
            logical.put(5, Field::Struct(meaning));
        }
        Kind::Word(_) | Kind::Text(_) => {
            it.put(6, Field::I32(0));
            logical.put(1, Field::Struct(meaning));
        }
    }
    it.put(10, Field::Struct(logical));
    it
}

fn footer(table: Table, groups: &[RowGroup], row_count: u64, of: &[(&str, String)]) -> Vec<u8> {
    let columns = table.columns();
    let mut root = Struct::new();
    root.put(4, Field::Text(table.name().to_owned()));
    root.put(5, Field::I32(columns.len() as i32));
    let schema = std::iter::once(root).chain(columns.iter().map(element)).collect();
    let groups = groups.iter().map(|group| row_group(columns, group)).collect();
    let of = of.iter().map(|(key, value)| {
        let mut pair = Struct::new();
        pair.put(1, Field::Text((*key).to_owned()));
        pair.put(2, Field::Text(value.clone()));
        pair
    });
    let mut file = Struct::new();
    file.put(1, Field::I32(2));
    file.put(2, Field::Structs(schema));
    file.put(3, Field::I64(row_count as i64));
    file.put(4, Field::Structs(groups));
    file.put(5, Field::Structs(of.collect()));
    file.put(6, Field::Text(format!("damrak version {}", env!("CARGO_PKG_VERSION"))));
    file.into_bytes()
}

fn row_group(columns: &[Column], group: &RowGroup) -> Struct {
    let byte_count: u64 = group.chunks.iter().map(|chunk| chunk.byte_count).sum();
    let chunks = columns.iter().zip(&group.chunks).map(|(column, chunk)| {
        let (offset, byte_count) = (chunk.offset as i64, chunk.byte_count as i64);
        let mut of_column = Struct::new();
        of_column.put(1, Field::I32(physical(column.kind)));
        of_column.put(2, Field::I32s(vec![PLAIN, RLE]));
        of_column.put(3, Field::Texts(vec![column.name.to_owned()]));
        of_column.put(4, Field::I32(0));
        of_column.put(5, Field::I64(group.row_count as i64));
        of_column.put(6, Field::I64(byte_count));
        of_column.put(7, Field::I64(byte_count));
        of_column.put(9, Field::I64(offset));
        let mut it = Struct::new();
        it.put(2, Field::I64(0));
        it.put(3, Field::Struct(of_column));
        it
    });
    let mut it = Struct::new();
    it.put(1, Field::Structs(chunks.collect()));
    it.put(2, Field::I64(byte_count as i64));
    it.put(3, Field::I64(group.row_count as i64));
    it
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Text;

    /// The bytes of a small file, taken apart by hand: interop/parquet.py lets others read large ones.
    #[test]
    fn a_file_is_framed_and_plain() {
        let mut bytes = Vec::new();
        let mut file = File::new(Table::Instruments, &mut bytes);
        file.begin().expect("memory takes it");
        for (number, symbol) in [(1, "AB"), (258, "C")] {
            let symbol = Text::new(symbol).expect("short");
            file.row(&[Value::Integer(number), Value::Text(symbol)]).expect("memory takes it");
        }
        let rows = file.finish(&[("sequence", "7".into())]).expect("memory takes it");
        assert_eq!(rows, 2);
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        let (numbers, symbols) = ([1, 0, 0, 0, 2, 1, 0, 0], *b"\x02\0\0\0AB\x01\0\0\0C");
        // Type 0, 8 bytes, 8 bytes, header of data: 2 values, plain, levels that are not there.
        let header = [0x15, 0, 0x15, 16, 0x15, 16, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        assert_eq!(bytes[4..21], header);
        assert_eq!(bytes[21..29], numbers);
        assert_eq!(bytes[46..57], symbols);
        let footer_len = u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().expect("4"));
        let footer = &bytes[57..bytes.len() - 8];
        assert_eq!(footer.len(), footer_len as usize);
        let text = String::from_utf8_lossy(footer);
        for word in ["instruments", "instrument_id", "symbol", "sequence", "damrak version"] {
            assert!(text.contains(word), "{word}");
        }
    }

    /// A table without rows is a file without groups.
    #[test]
    fn no_rows_are_no_group() {
        let mut bytes = Vec::new();
        let mut file = File::new(Table::Trades, &mut bytes);
        file.begin().expect("memory takes it");
        assert_eq!(file.finish(&[]).expect("memory takes it"), 0);
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&MAGIC[..], &MAGIC[..]));
    }
}
