//! A recording as a Parquet file: the columns of the table, with types.
//!
//! Invariant: memory holds one group of rows; a value is written with all its digits.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    mem,
    sync::Arc,
};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical},
    data_type::{
        ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
    },
    errors::Result,
    file::{
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{Type, TypePtr},
};
use wire::{
    field::trimmed,
    itch::{self, Message},
    layout::Field,
};

use super::{
    Recorded,
    table::{Columns, Meaning, OWN, number_of, text_of},
};

/// Rows held in memory before they are written as one group.
const GROUP_ROWS: usize = 1 << 17;
/// Bytes of a price in 64 bits: one more than its own, because decimals have a sign.
const WIDE: usize = 9;
/// Digits of the largest number of 32 and of 64 bits.
const DIGITS: [i32; 2] = [10, 20];

/// Writes a Parquet file.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Columns,
    /// The values of [`OWN`], then those of the fields.
    values: Vec<Values>,
    rows: usize,
    /// The symbols by stock locate, from the directory.
    symbols: BTreeMap<u16, ByteArray>,
    /// Each byte as text.
    chars: Vec<ByteArray>,
}

/// The values of a column in the current group.
struct Values {
    kind: Kind,
    /// For each row, 1 if it has a value and otherwise 0.
    levels: Vec<i16>,
}

enum Kind {
    Short(Vec<i32>),
    Number(Vec<i64>),
    Text(Vec<ByteArray>),
    Wide(Vec<FixedLenByteArray>),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file with the fields of these types of messages, or of all types if `types` is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: W, types: &[u8]) -> io::Result<Self> {
        let columns = Columns::new(types);
        let own = OWN.iter().zip([Meaning::Number(64), Meaning::Time, Meaning::Text]);
        let own = own.map(|(name, meaning)| (*name, meaning));
        let (fields, values): (Vec<TypePtr>, Vec<Values>) =
            own.chain(columns.named()).map(|(name, meaning)| column(name, meaning)).unzip();
        let schema = Type::group_type_builder("itch").with_fields(fields).build();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = schema
            .and_then(|schema| {
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            })
            .map_err(io::Error::other)?;
        let chars = (0..=u8::MAX).map(|byte| text(&[byte])).collect();
        Ok(Self { file, columns, values, rows: 0, symbols: BTreeMap::new(), chars })
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
            self.symbols.insert(locate, text(trimmed(&directory.stock)));
        }
        let Some(fields) = self.columns.of(message[0]) else { return Ok(()) };
        let (own, values) = self.values.split_at_mut(OWN.len());
        // A message of a snapshot has no number.
        own[0].put_number((number > 0).then_some(number));
        own[1].put_number(received_ns);
        own[2].put_text(self.symbols.get(&locate).cloned());
        for (column, field) in values.iter_mut().zip(fields) {
            column.put(*field, message, &self.chars);
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group().map_err(io::Error::other) } else { Ok(()) }
    }

    /// Writes the rows in memory and the end of the file. Without it the file cannot be read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write_group().map_err(io::Error::other)?;
        self.file.finish().map(drop).map_err(io::Error::other)
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        for values in &mut self.values {
            let mut column = group.next_column()?.expect("the schema has it");
            values.write(&mut column)?;
            column.close()?;
        }
        group.close().map(drop)
    }
}

impl Values {
    fn put(&mut self, field: Option<&'static Field>, message: &[u8], chars: &[ByteArray]) {
        let Some(field) = field else { return self.levels.push(0) };
        let bytes = &message[field.offset..field.offset + field.len];
        match &mut self.kind {
            Kind::Text(values) => match text_of(bytes) {
                [] => return self.levels.push(0),
                [byte] => values.push(chars[usize::from(*byte)].clone()),
                longer => values.push(text(longer)),
            },
            // Unsigned numbers keep their bits; the type of the column gives their meaning.
            Kind::Short(values) => values.push(number_of(bytes) as i32),
            Kind::Number(values) => values.push(number_of(bytes) as i64),
            Kind::Wide(values) => {
                let mut wide = [0; WIDE];
                wide[1..].copy_from_slice(&number_of(bytes).to_be_bytes());
                values.push(ByteArray::from(wide.to_vec()).into());
            }
        }
        self.levels.push(1);
    }

    fn put_number(&mut self, value: Option<u64>) {
        let Kind::Number(values) = &mut self.kind else { unreachable!("it is a number") };
        values.extend(value.map(|value| value as i64));
        self.levels.push(value.is_some().into());
    }

    fn put_text(&mut self, value: Option<ByteArray>) {
        let Kind::Text(values) = &mut self.kind else { unreachable!("it is a text") };
        self.levels.push(value.is_some().into());
        values.extend(value);
    }

    /// Writes all values and clears them.
    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let levels = mem::take(&mut self.levels);
        let levels = Some(&levels[..]);
        match &mut self.kind {
            Kind::Short(values) => {
                let values = mem::take(values);
                column.typed::<Int32Type>().write_batch(&values, levels, None)
            }
            Kind::Number(values) => {
                let values = mem::take(values);
                column.typed::<Int64Type>().write_batch(&values, levels, None)
            }
            Kind::Text(values) => {
                let values = mem::take(values);
                column.typed::<ByteArrayType>().write_batch(&values, levels, None)
            }
            Kind::Wide(values) => {
                let values = mem::take(values);
                column.typed::<FixedLenByteArrayType>().write_batch(&values, levels, None)
            }
        }
        .map(drop)
    }
}

/// A column of the schema, and room for its values.
fn column(name: &str, meaning: Meaning) -> (TypePtr, Values) {
    let (physical, logical, kind) = match meaning {
        Meaning::Text => (Physical::BYTE_ARRAY, LogicalType::String, Kind::Text(Vec::new())),
        Meaning::Time => {
            let logical = LogicalType::timestamp(true, TimeUnit::NANOS);
            (Physical::INT64, logical, Kind::Number(Vec::new()))
        }
        Meaning::Number(bits @ ..=32) => {
            let logical = LogicalType::integer(if bits <= 16 { 16 } else { 32 }, false);
            (Physical::INT32, logical, Kind::Short(Vec::new()))
        }
        Meaning::Number(_) => {
            (Physical::INT64, LogicalType::integer(64, false), Kind::Number(Vec::new()))
        }
        Meaning::Decimal { bits: ..=32, decimals } => {
            let logical = LogicalType::decimal(decimals.into(), DIGITS[0]);
            (Physical::INT64, logical, Kind::Number(Vec::new()))
        }
        Meaning::Decimal { decimals, .. } => {
            let logical = LogicalType::decimal(decimals.into(), DIGITS[1]);
            (Physical::FIXED_LEN_BYTE_ARRAY, logical, Kind::Wide(Vec::new()))
        }
    };
    let mut builder = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(logical));
    if let Meaning::Decimal { bits, decimals } = meaning {
        let is_wide = bits > 32;
        builder = builder
            .with_precision(DIGITS[usize::from(is_wide)])
            .with_scale(decimals.into())
            .with_length(if is_wide { WIDE as i32 } else { -1 });
    }
    let field = builder.build().expect("the names and types are ours");
    (Arc::new(field), Values { kind, levels: Vec::new() })
}

/// Bytes beyond ASCII are the characters of Latin-1.
fn text(bytes: &[u8]) -> ByteArray {
    let latin: String = bytes.iter().copied().map(char::from).collect();
    ByteArray::from(latin.into_bytes())
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::{Field as Value, RowAccessor as _},
    };

    use super::*;

    fn message(code: u8, fill: u8) -> Vec<u8> {
        let table = Message::TABLES.iter().find(|table| table.0 == code).unwrap();
        let len = table.2.iter().map(|field| field.offset + field.len).max().unwrap();
        let mut message = vec![fill; len];
        message[0] = code;
        message
    }

    /// A file has a row for each message in order, more than one group of them, with the values of the fields and null
    /// where a message has no such field.
    #[test]
    fn a_parquet_file_has_every_message() {
        let path = std::env::temp_dir().join(format!("damrak-{}.parquet", std::process::id()));
        let mut writer = ParquetWriter::new(std::fs::File::create(&path).unwrap(), b"").unwrap();
        let count = GROUP_ROWS as u64 + 100;
        let mut directory = message(b'R', b' ');
        directory[1..3].copy_from_slice(&7_u16.to_be_bytes());
        directory[11..19].copy_from_slice(b"AAPL    ");
        let mut add = message(b'A', 0);
        add[1..3].copy_from_slice(&7_u16.to_be_bytes());
        add[19] = b'B';
        add[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
        add[24..32].copy_from_slice(b"AAPL    ");
        add[32..36].copy_from_slice(&1_503_400_u32.to_be_bytes());
        let mut level = message(b'V', 0xff);
        level[1..3].copy_from_slice(&0_u16.to_be_bytes());
        for number in 1..=count {
            let message = match number {
                1 => &directory,
                2 => &level,
                _ => &add,
            };
            let received_ns = (number > 1).then_some(1_767_346_200_000_000_000 + number);
            let number = if number == 1 { 0 } else { number };
            writer.write(Recorded { session: None, number, received_ns, message }).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);

        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let metadata = reader.metadata();
        assert_eq!(metadata.file_metadata().num_rows(), count as i64);
        assert_eq!(metadata.num_row_groups(), 2);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        let value = |row: usize, name: &str| {
            let (_, value) =
                rows[row].get_column_iter().find(|(column, _)| *column == name).unwrap();
            value.clone()
        };
        assert_eq!((value(0, "number"), value(0, "received_ns")), (Value::Null, Value::Null));
        assert_eq!(value(0, "symbol"), Value::Str("AAPL".into()));
        assert_eq!(value(1, "number"), Value::ULong(2));
        assert_eq!((value(1, "symbol"), value(1, "shares")), (Value::Null, Value::Null));
        assert_eq!(value(1, "level1").to_string(), "184467440737.09551615");
        let last = count as usize - 1;
        assert_eq!(value(last, "number"), Value::ULong(count));
        assert_eq!(value(last, "shares"), Value::ULong(u32::MAX.into()));
        assert_eq!(value(last, "stock_locate"), Value::UShort(7));
        assert_eq!(value(last, "buy_sell_indicator"), Value::Str("B".into()));
        assert_eq!(value(last, "price").to_string(), "150.3400");
        assert_eq!(value(last, "timestamp"), Value::ULong(0));
        assert_eq!(rows[last].get_string(2).unwrap(), "AAPL");
    }
}
