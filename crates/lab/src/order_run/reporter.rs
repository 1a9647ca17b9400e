//! Counts the results of orders, and writes the trades to a file.
//!
//! Invariant: trades are hashed in the order in which they happened.

use std::collections::BTreeMap;

use crate::order_file::{FileWriter, InstrumentTable};
use market::{
    CancelReason, CommandKind, DeclineReason, Event, InstrumentId, MoneyEvent, MoneyTerms,
    OutputLine, RejectReason, Rejected, Symbol, Traded,
};
use ring::AgentError;

use super::{hashed_lines::HashedLines, output_consumer::Sink};

/// Counts of the results of orders, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    pub rejected: BTreeMap<RejectReason, u64>,
    pub canceled: u64,
    pub replaced: u64,
    pub replaces_rejected: BTreeMap<RejectReason, u64>,
    /// Replaces that canceled their order, since its new terms could not be.
    pub replaces_canceled: u64,
    pub modified: u64,
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
    /// Units of the quote asset that were paid, each trade rounded down separately.
    pub notional: u128,
}

pub struct ReporterSink {
    counts: Counts,
    /// By instrument.
    terms: Vec<(Symbol, MoneyTerms)>,
    names_symbol: bool,
    trades: HashedLines,
    ended_ns: u64,
}

impl ReporterSink {
    /// Before the first event of a core with these instruments; trades go to `file` as well.
    pub fn new(instruments: &InstrumentTable, file: Option<FileWriter>) -> Self {
        let symbols = instruments.all().iter().map(|terms| terms.symbol);
        let terms: Vec<_> = symbols.zip(instruments.money_terms()).collect();
        Self {
            counts: Counts {
                instruments: vec![InstrumentCounts::default(); terms.len()],
                ..Counts::default()
            },
            terms,
            names_symbol: instruments.only().is_none(),
            trades: HashedLines::new(file),
            ended_ns: 0,
        }
    }

    /// When the last event was taken.
    pub fn ended_ns(&self) -> u64 {
        self.ended_ns
    }

    /// The counts, and the SHA-256 of all trades, line by line.
    pub(super) fn finish(self) -> std::io::Result<(Counts, String)> {
        Ok((self.counts, self.trades.finish()?))
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
        let (symbol, terms) = &self.terms[place];
        let lots = quantity.units(terms.base_units);
        let counts = &mut self.counts.instruments[place];
        counts.trades += 1;
        counts.self_trades += u64::from(taker.key.session_id == maker.key.session_id);
        counts.volume += lots;
        counts.notional +=
            (*price * *quantity).units(terms.quote_numerator, terms.quote_denominator);

        let (taker, maker) = (taker.key.user_ref_num, maker.key.user_ref_num);
        if self.names_symbol {
            self.trades.push(format_args!("{taker},{maker},{price},{lots},{}", symbol))
        } else {
            self.trades.push(format_args!("{taker},{maker},{price},{lots}"))
        }
    }

    /// Counts an event; trades go into the file as well.
    fn take_event(&mut self, event: &Event) -> Result<(), AgentError> {
        match event {
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
}

impl Sink for ReporterSink {
    fn take(&mut self, line: &OutputLine) -> Result<(), AgentError> {
        let mut taken = Ok(());
        line.outcome.each(|event| {
            if taken.is_ok() {
                taken = self.take_event(&event);
            }
        });
        taken
    }

    fn is_at(&mut self, _sequence: u64, now_ns: u64) {
        self.ended_ns = now_ns;
    }
}
