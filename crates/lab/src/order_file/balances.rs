//! Reads a file of opening balances.
//!
//! Invariant: amounts are whole units of their asset.

use std::{io::Read, path::Path};

use market::{Symbol, Text};

use super::{
    error::FileError,
    table::{Column, Table},
};

/// The amount of an asset that a participant owns before the first order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningBalance {
    pub participant: Text<6>,
    pub asset: Symbol,
    /// In the smallest units of the asset.
    pub available: u64,
}

const PARTICIPANT: usize = 0;
const ASSET: usize = 1;
const AVAILABLE: usize = 2;
const RESERVED: usize = 3;
const VERSION: usize = 4;

static COLUMNS: [Column; 5] = [
    Column::required("participant", &["user_id", "user", "account"]),
    Column::required("asset", &["asset_id"]),
    Column::required("available", &["avail"]),
    Column::optional("reserved", &["frozen"]),
    Column::optional("version", &[]),
];

pub struct BalanceFile {
    table: Table,
}

impl BalanceFile {
    /// Opens a file, gzipped or not, and reads its header.
    ///
    /// # Errors
    /// It cannot be read, or its header has not the columns of balances.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self { table: Table::open(path, &COLUMNS)? })
    }

    /// As [`open`](Self::open), from anywhere; `name` names it in errors.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, FileError> {
        Ok(Self { table: Table::read(name.to_owned(), reader, 0, &COLUMNS)? })
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// The row is not one of balances; the error says where and why.
    pub fn next_balance(&mut self) -> Result<Option<OpeningBalance>, FileError> {
        let table = &mut self.table;
        if !table.next_row()? {
            return Ok(None);
        }
        let units =
            |column| table.whole(column, 0..=u64::MAX, ", in the smallest units of the asset");
        let balance = OpeningBalance {
            participant: table.text(PARTICIPANT, "a name of 1 to 6 characters")?,
            asset: table.text(ASSET, "a name of 1 to 8 characters")?,
            available: units(AVAILABLE)?,
        };
        if table.field(RESERVED).is_some() && units(RESERVED)? != 0 {
            return Err(table.wrong(RESERVED, "0: nothing is reserved before the first order"));
        }
        if table.field(VERSION).is_some() {
            units(VERSION)?;
        }
        Ok(Some(balance))
    }

    /// The error that the current row names an asset that no instrument has.
    pub fn unknown_asset(&self) -> FileError {
        self.table.wrong(ASSET, "an asset of an instrument")
    }

    /// The error that the current row's participant exceeds the most that there may be.
    pub fn too_many_participants(&self) -> FileError {
        self.table.wrong(PARTICIPANT, format!("at most {} participants", u16::MAX))
    }
}
