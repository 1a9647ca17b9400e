//! Order files: requests of participants as rows of text, exchanged with other programs.
//!
//! Start at [`OrderFile`], which reads rows; [`InstrumentTable`] has the units of prices and quantities,
//! [`BalanceFile`] the opening balances. [`mod@generate`] writes such files from a seed. docs/order-files.md has every column.
//!
//! Invariant: no float. A decimal number is taken exactly, or not at all; a file is read in
//! constant memory, however long it is.

mod error;
mod table;
mod instruments;
mod balances;
mod row;
mod replay_row;
mod write;
pub mod generate;

pub use balances::{BalanceFile, OpeningBalance};
pub use error::FileError;
pub use instruments::{
    AssetTerms, InstrumentTable, InstrumentTerms, QUANTITY_MAX, write_instrument_rows,
};
pub use replay_row::{REPLAY_HEADER, ReplayAction, ReplayRow};
pub use row::OrderFile;
pub use table::ReadProgress;
pub use write::FileWriter;

/// The most decimals that a price, a quantity or an asset may have.
const DECIMALS_MAX: u8 = 12;

/// Units as a decimal number: 8,490,712 with two decimals is `84907.12`.
fn decimal_text(units: u64, decimals: u8) -> String {
    market::DecimalText { units: units.into(), decimals }.to_string()
}
