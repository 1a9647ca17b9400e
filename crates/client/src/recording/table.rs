//! The columns of a recording's table, which all forms of tables share.
//!
//! Invariant: a field of the specification has one column, whichever types of messages have it.

use std::collections::BTreeMap;

use wire::{itch::Message, layout::Field};

/// Columns before those of the fields: the number of the message, its time of reception in nanoseconds since 1970, and
/// the symbol of its instrument from the directory.
pub(super) const OWN: [&str; 3] = ["number", "received_ns", "symbol"];

pub(super) type Table = (u8, &'static str, &'static [Field]);

pub(super) fn table_of(code: u8) -> Option<&'static Table> {
    Message::TABLES.iter().find(|table| table.0 == code)
}

/// The meaning of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Text,
    /// Nanoseconds since 1970; no field of a message has this meaning.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "CSV has no types"))]
    Time,
    /// A whole number of this many bits.
    Number(usize),
    /// A number of units with this many decimals.
    Decimal {
        bits: usize,
        decimals: u8,
    },
}

impl Meaning {
    pub(super) fn of(field: &Field) -> Self {
        let bits = field.len * 8;
        match field.kind {
            "Price32" | "Price64" => Self::Decimal { bits, decimals: 4 },
            "Level64" => Self::Decimal { bits, decimals: 8 },
            "Char" => Self::Text,
            kind if kind.starts_with("Alpha") => Self::Text,
            _ => Self::Number(bits),
        }
    }

    /// The meaning of a column with both: some numbers are longer in one type of messages than in another.
    fn wider(self, other: Self) -> Self {
        match (self, other) {
            (Self::Number(own), Self::Number(other)) => Self::Number(own.max(other)),
            (Self::Decimal { bits: own, decimals }, Self::Decimal { bits: other, .. }) => {
                Self::Decimal { bits: own.max(other), decimals }
            }
            (own, other) => {
                assert_eq!(own, other, "fields with one name are alike");
                own
            }
        }
    }
}

/// The columns after [`OWN`].
pub(super) struct Columns {
    /// The names and meanings of the columns.
    named: Vec<(&'static str, Meaning)>,
    /// By type of message, the field for each column; no row for types that are left out.
    by_type: BTreeMap<u8, Vec<Option<&'static Field>>>,
}

impl Columns {
    /// The fields of these types of messages, or of all types if `types` is empty.
    pub(super) fn new(types: &[u8]) -> Self {
        let tables: Vec<&Table> = Message::TABLES
            .iter()
            .filter(|table| types.is_empty() || types.contains(&table.0))
            .collect();
        let mut named: Vec<(&str, Meaning)> = Vec::new();
        for field in tables.iter().flat_map(|table| table.2) {
            let meaning = Meaning::of(field);
            match named.iter_mut().find(|(name, _)| *name == field.name) {
                Some((_, known)) => *known = known.wider(meaning),
                None => named.push((field.name, meaning)),
            }
        }
        let of = |table: &Table, name: &str| table.2.iter().find(|field| field.name == name);
        let by_type = tables
            .iter()
            .map(|table| (table.0, named.iter().map(|it| of(table, it.0)).collect()))
            .collect();
        Self { named, by_type }
    }

    /// The names and meanings of the columns.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, Meaning)> {
        self.named.iter().copied()
    }

    /// For each column the field of a type of messages; `None` for types that are left out.
    pub(super) fn of(&self, code: u8) -> Option<&[Option<&'static Field>]> {
        self.by_type.get(&code).map(Vec::as_slice)
    }
}

pub(super) fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A text without trailing spaces.
pub(super) fn text_of(field: &[u8]) -> &[u8] {
    let end = field.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &field[..end]
}
