//! Order files: what participants ask for, row by row, as text that other programs write and read.
//!
//! Start at [`OrderFile`], which reads rows; [`Instruments`] says in which units their prices and
//! quantities are, [`BalanceFile`] what participants own before the first row. [`mod@generate`] writes
//! such files from a seed, [`origin`] says what must come of plain ones. docs/order-files.md has every column.
//!
//! Invariant: no float. A decimal number is taken exactly, or not at all; a file is read in
//! constant memory, however long it is.

mod decimal;
mod error;
mod table;
mod instruments;
mod balances;
mod row;
mod write;
pub mod generate;
pub mod origin;

pub use balances::{BalanceFile, OpeningBalance};
pub use decimal::decimal_text;
pub use error::FileError;
pub use instruments::{AssetTerms, InstrumentTerms, Instruments};
pub use row::{OrderFile, Place, Request, Row};
pub use table::Progress;
pub use write::FileWriter;
