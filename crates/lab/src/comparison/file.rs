//! A flow as a file: little-endian, a header of 64 bytes, then 32 bytes an operation.
//!
//! | offset | header | | offset | operation |
//! |---:|---|---|---:|---|
//! | 0 | `WLF1` | | 0 | order id, u64 |
//! | 4 | version, u32, is 1 | | 8 | price, i64, ticks |
//! | 8 | prefill, u64 | | 16 | quantity, u32 |
//! | 16 | operations after the prefill, u64 | | 20 | user, u32 |
//! | 24 | symbols, u32 | | 24 | symbol, u16 |
//! | 28 | users, u32 | | 26 | kind of operation, u8 |
//! | 32 | largest order id, u64 | | 27 | side, u8: 0 buy, 1 sell |
//! | 40 | seed, u64 | | 28 | 0, u32 |
//! | 48 | below every price, i64 | | | |
//! | 56 | above every price, i64 | | | |

use std::io::{self, Read, Write};

use market::Side;

use super::{ComparisonFlow, FlowOperation, OperationKind, PRICE_HIGH, PRICE_LOW};

const MAGIC: &[u8; 4] = b"WLF1";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;
const OPERATION_LEN: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum FlowFileError {
    #[error("cannot read the flow: {0}")]
    Read(#[from] io::Error),
    #[error("not a flow file: it does not begin with WLF1")]
    Magic,
    #[error("unknown format version {0}; this program reads version 1")]
    Version(u32),
    #[error("the header says {field} = {value}, which is not valid")]
    Header { field: &'static str, value: u64 },
    #[error("operation {index} at byte {offset}: {field} = {value} is not valid")]
    Operation {
        /// Which operation, from 0.
        index: u64,
        offset: u64,
        field: &'static str,
        value: i128,
    },
    #[error("the file ends within operation {index}; the header promises {count}")]
    Short {
        /// The first operation that is not whole, from 0.
        index: u64,
        count: u64,
    },
    #[error("the file goes on after its {count} operations")]
    Long { count: u64 },
}

impl ComparisonFlow {
    /// Writes the flow in its form on disk.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (prefill, measured) = self.split();
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(prefill.len() as u64).to_le_bytes())?;
        out.write_all(&(measured.len() as u64).to_le_bytes())?;
        out.write_all(&u32::from(self.symbols).to_le_bytes())?;
        out.write_all(&self.users.to_le_bytes())?;
        out.write_all(&self.order_id_max.to_le_bytes())?;
        out.write_all(&self.seed.to_le_bytes())?;
        out.write_all(&PRICE_LOW.to_le_bytes())?;
        out.write_all(&PRICE_HIGH.to_le_bytes())?;
        for operation in &self.operations {
            out.write_all(&operation_bytes(operation))?;
        }
        Ok(())
    }

    /// Reads a flow file and checks every number in it.
    pub fn read(input: &mut impl Read) -> Result<Self, FlowFileError> {
        let mut header = [0; HEADER_LEN];
        let len = read_up_to(input, &mut header)?;
        if len < MAGIC.len() || !header.starts_with(MAGIC) {
            return Err(FlowFileError::Magic);
        }
        if len < HEADER_LEN {
            return Err(FlowFileError::Header { field: "length", value: len as u64 });
        }
        let version = u32_at(&header, 4);
        if version != VERSION {
            return Err(FlowFileError::Version(version));
        }
        let (prefill, measured) = (u64_at(&header, 8), u64_at(&header, 16));
        let symbols = u32_at(&header, 24);
        let order_id_max = u64_at(&header, 32);
        let no = |field, value| FlowFileError::Header { field, value };
        let count = prefill.checked_add(measured).filter(|count| *count <= u64::from(u32::MAX));
        let count = count.ok_or_else(|| no("operations", measured))?;
        let symbols = u16::try_from(symbols).map_err(|_| no("symbols", u64::from(symbols)))?;
        if order_id_max > count {
            return Err(no("largest order id", order_id_max));
        }
        let mut flow = Self {
            seed: u64_at(&header, 40),
            symbols,
            users: u32_at(&header, 28),
            order_id_max,
            prefill: prefill as usize,
            operations: Vec::new(),
        };
        for index in 0..count {
            let mut bytes = [0; OPERATION_LEN];
            if read_up_to(input, &mut bytes)? < OPERATION_LEN {
                return Err(FlowFileError::Short { index, count });
            }
            let operation = operation(&bytes, &flow).map_err(|(field, value)| {
                let offset = HEADER_LEN as u64 + index * OPERATION_LEN as u64;
                FlowFileError::Operation { index, offset, field, value }
            })?;
            flow.operations.push(operation);
        }
        if read_up_to(input, &mut [0])? != 0 {
            return Err(FlowFileError::Long { count });
        }
        Ok(flow)
    }
}

fn operation_bytes(operation: &FlowOperation) -> [u8; OPERATION_LEN] {
    let mut bytes = [0; OPERATION_LEN];
    bytes[0..8].copy_from_slice(&operation.order_id.to_le_bytes());
    bytes[8..16].copy_from_slice(&operation.price.to_le_bytes());
    bytes[16..20].copy_from_slice(&operation.quantity.to_le_bytes());
    bytes[20..24].copy_from_slice(&operation.user.to_le_bytes());
    bytes[24..26].copy_from_slice(&operation.symbol.to_le_bytes());
    bytes[26] = operation.kind as u8;
    bytes[27] = u8::from(!operation.side.is_buy());
    bytes
}

/// An operation; or the name and the value of its invalid field.
fn operation(
    bytes: &[u8; OPERATION_LEN],
    flow: &ComparisonFlow,
) -> Result<FlowOperation, (&'static str, i128)> {
    let order_id = u64_at(bytes, 0);
    let price = u64_at(bytes, 8).cast_signed();
    let (quantity, user) = (u32_at(bytes, 16), u32_at(bytes, 20));
    let symbol = u16::from_le_bytes([bytes[24], bytes[25]]);
    if order_id == 0 || flow.order_id_max < order_id {
        return Err(("order id", order_id.into()));
    }
    if !(PRICE_LOW < price && price < PRICE_HIGH) {
        return Err(("price", price.into()));
    }
    if quantity == 0 {
        return Err(("quantity", 0));
    }
    if flow.users <= user {
        return Err(("user", user.into()));
    }
    if flow.symbols <= symbol {
        return Err(("symbol", symbol.into()));
    }
    let kind = OperationKind::ALL.get(usize::from(bytes[26])).copied();
    let side = match bytes[27] {
        0 => Side::Buy,
        1 => Side::Sell,
        other => return Err(("side", other.into())),
    };
    let kind = kind.ok_or(("operation", bytes[26].into()))?;
    Ok(FlowOperation { order_id, price, quantity, user, symbol, kind, side })
}

/// Fills the buffer as far as the input goes; returns how far.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let (len, mut rest) = (buffer.len() as u64, buffer);
    io::copy(&mut input.take(len), &mut rest).map(|copied| copied as usize)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*bytes[offset..].first_chunk().expect("the buffer is long enough"))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(*bytes[offset..].first_chunk().expect("the buffer is long enough"))
}
