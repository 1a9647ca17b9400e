//! Rows with times, as a recorded flow has them.
//!
//! Invariant: [`OrderFile`](super::OrderFile) reads the rows written here as they were meant.

use std::{
    fmt,
    io::{self, Write},
};

use market::{DecimalText, Symbol};

/// A row of a recorded flow: prices have four decimals, quantities are whole lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRow<'a> {
    /// Nanoseconds since midnight.
    pub time_ns: u64,
    pub participant: &'a str,
    /// The order of the participant.
    pub order_id: u32,
    pub symbol: Symbol,
    pub action: ReplayAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayAction {
    Place {
        is_buy: bool,
        /// True for an order that trades at once or is canceled.
        is_immediate: bool,
        price: u32,
        quantity: u32,
    },
    Replace {
        new_order_id: u32,
        price: u32,
        /// Includes the shares that the chain of orders executed.
        quantity: u32,
    },
    /// Down to a quantity that includes the shares executed by the chain of orders, or all of it.
    Cancel { quantity: Option<u32> },
}

/// The columns of [`ReplayRow`].
pub const REPLAY_HEADER: &str =
    "time_ns,participant,order_id,action,new_order_id,symbol,side,time_in_force,price,quantity";

impl ReplayRow<'_> {
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}

impl fmt::Display for ReplayRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time_ns, participant, order_id, symbol, action } = self;
        write!(f, "{time_ns},{participant},{order_id},")?;
        match *action {
            ReplayAction::Place { is_buy, is_immediate, price, quantity } => {
                let side = if is_buy { "buy" } else { "sell" };
                let life = if is_immediate { "ioc" } else { "day" };
                write!(f, "place,,{symbol},{side},{life},{},{quantity}", price_text(price))
            }
            ReplayAction::Replace { new_order_id, price, quantity } => {
                write!(f, "replace,{new_order_id},{symbol},,day,{},{quantity}", price_text(price))
            }
            ReplayAction::Cancel { quantity: Some(quantity) } => {
                write!(f, "cancel,,{symbol},,,,{quantity}")
            }
            ReplayAction::Cancel { quantity: None } => write!(f, "cancel,,{symbol},,,,"),
        }
    }
}

fn price_text(price: u32) -> DecimalText {
    DecimalText { units: price.into(), decimals: 4 }
}
