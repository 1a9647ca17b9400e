//! Counts the results of orders, and writes the trades to a file.
//!
//! Invariant: trades are hashed in the order in which they happened.

use std::{collections::BTreeMap, fmt::Write as _, io::Write as _};

use crate::order_file::{FileWriter, InstrumentTable};
use market::{
    CancelReason, CommandKind, DeclineReason, Event, InstrumentId, MoneyEvent, Output,
    RejectReason, Rejected, Traded,
};
use ring::AgentError;
use sha2::{Digest, Sha256};

use super::output_consumer::Sink;

/// Counts of the results of orders, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    /// New orders that were rejected, by reason.
    pub rejected: BTreeMap<RejectReason, u64>,
    pub canceled: u64,
    pub replaced: u64,
    /// Replaces that were rejected, by reason.
    pub replaces_rejected: BTreeMap<RejectReason, u64>,
    /// Replaces that canceled their order, since its new terms could not be.
    pub replaces_canceled: u64,
    pub modified: u64,
    /// Commands about money that were declined, by reason.
    pub declined: BTreeMap<DeclineReason, u64>,
    /// By instrument.
    pub instruments: Vec<InstrumentCounts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstrumentCounts {
    pub trades: u64,
    pub self_trades: u64,
    /// Units of the base asset that were traded.
    pub volume: u128,
    /// Units of the quote asset that were paid, each trade rounded down by itself.
    pub notional: u128,
}

pub struct ReporterSink {
    counts: Counts,
    units: Vec<Units>,
    names_symbol: bool,
    line: String,
    hash: Sha256,
    file: Option<FileWriter>,
    ended_ns: u64,
}

struct Units {
    symbol: market::Symbol,
    base: u64,
    numerator: u64,
    denominator: u64,
}

impl ReporterSink {
    /// Before the first event of a core with these instruments; trades go to `file` as well.
    pub fn new(instruments: &InstrumentTable, file: Option<FileWriter>) -> Self {
        let units = instruments.all().iter().map(|terms| {
            let (numerator, denominator) = terms.quote_units_per_tick_lot();
            Units { symbol: terms.symbol, base: terms.base_units_per_lot(), numerator, denominator }
        });
        let units: Vec<_> = units.collect();
        Self {
            counts: Counts {
                instruments: vec![InstrumentCounts::default(); units.len()],
                ..Counts::default()
            },
            units,
            names_symbol: instruments.only().is_none(),
            line: String::new(),
            hash: Sha256::new(),
            file,
            ended_ns: 0,
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// When the last event was taken.
    pub fn ended_ns(&self) -> u64 {
        self.ended_ns
    }

    /// The SHA-256 of all trades, line by line.
    pub(super) fn hash(&self) -> String {
        hex(self.hash.clone())
    }

    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.file.take().map_or(Ok(()), FileWriter::finish)
    }

    pub(super) fn header(names_symbol: bool) -> &'static str {
        if names_symbol { "taker,maker,price,qty,symbol" } else { "taker,maker,price,qty" }
    }

    fn rejected(&mut self, rejected: &Rejected) {
        let counts = &mut self.counts;
        let reasons = match rejected.cause {
            CommandKind::Replace => &mut counts.replaces_rejected,
            _ => &mut counts.rejected,
        };
        *reasons.entry(rejected.reason).or_default() += 1;
    }

    fn traded(&mut self, trade: &Traded) -> std::io::Result<()> {
        let Traded { instrument_id: InstrumentId(number), taker, maker, price, quantity, .. } =
            trade;
        let place = usize::from(*number) - 1;
        let units = &self.units[place];
        let lots = quantity.units(units.base);
        let counts = &mut self.counts.instruments[place];
        counts.trades += 1;
        counts.self_trades += u64::from(taker.key.session_id == maker.key.session_id);
        counts.volume += lots;
        counts.notional += (*price * *quantity).units(units.numerator, units.denominator);

        let (taker, maker) = (taker.key.user_ref_num, maker.key.user_ref_num);
        self.line.clear();
        let written = if self.names_symbol {
            writeln!(self.line, "{taker},{maker},{price},{lots},{}", units.symbol)
        } else {
            writeln!(self.line, "{taker},{maker},{price},{lots}")
        };
        written.expect("text can always be added to");
        self.hash.update(self.line.as_bytes());
        match &mut self.file {
            Some(file) => file.write_all(self.line.as_bytes()),
            None => Ok(()),
        }
    }
}

impl Sink for ReporterSink {
    fn take(&mut self, output: &Output) -> Result<(), AgentError> {
        match &output.event {
            Event::Accepted(_) => self.counts.accepted += 1,
            Event::Rejected(rejected) => self.rejected(rejected),
            Event::Replaced(_) => self.counts.replaced += 1,
            Event::Canceled(canceled) if canceled.reason == CancelReason::User => {
                match canceled.cause {
                    CommandKind::Replace => self.counts.replaces_canceled += 1,
                    _ => self.counts.canceled += 1,
                }
            }
            Event::Modified(_) => self.counts.modified += 1,
            Event::Traded(trade) => self.traded(trade)?,
            Event::Money(MoneyEvent::Declined(declined)) => {
                *self.counts.declined.entry(declined.reason).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_at(&mut self, _sequence: u64, now_ns: u64) {
        self.ended_ns = now_ns;
    }
}

pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text can always be added to");
        text
    })
}
