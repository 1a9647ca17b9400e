//! The statistics of an instrument on one day.
//!
//! Invariant: the statistics state the trades that they lack: those before they began, and undone trades that are not
//! known.

use super::{DerivedTrade, day_of};

/// Open, high, low, last and volume of the last day on which an instrument traded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Days since 1970, UTC.
    pub day: u32,
    /// Number of the first message whose trade could be counted.
    pub since: u64,
    /// False if the day may have had trades before `since`.
    pub is_whole_day: bool,
    /// Prices, in ticks.
    pub open: Option<u32>,
    pub high: Option<u32>,
    pub low: Option<u32>,
    pub last: Option<u32>,
    /// In lots; 2⁶⁴ − 1 means that many or more.
    pub volume: u64,
    pub trades: u64,
    /// Trades that were undone, and are no longer in the figures.
    pub undone: u64,
    /// Undone trades that are no longer known: the figures still have them.
    pub undone_unknown: u64,
    /// Numbers of the messages of the first trade and of the last.
    pub(super) open_number: u64,
    pub(super) last_number: u64,
}

impl Statistics {
    pub(super) const fn begin(day: u32, since: u64, is_whole_day: bool) -> Self {
        Self {
            day,
            since,
            is_whole_day,
            open: None,
            high: None,
            low: None,
            last: None,
            volume: 0,
            trades: 0,
            undone: 0,
            undone_unknown: 0,
            open_number: 0,
            last_number: 0,
        }
    }

    /// Counts a trade. True if it is the first of a new day.
    pub(super) fn take(&mut self, trade: &DerivedTrade) -> bool {
        let day = day_of(trade.time_ns);
        let is_new = day > self.day;
        if is_new {
            *self = Self::begin(day, trade.number, true);
        }
        if self.open.is_none() {
            (self.open, self.open_number) = (Some(trade.price), trade.number);
        }
        self.high = self.high.max(Some(trade.price));
        self.low = Some(self.low.map_or(trade.price, |low| low.min(trade.price)));
        (self.last, self.last_number) = (Some(trade.price), trade.number);
        self.volume = self.volume.saturating_add(trade.lots);
        self.trades += 1;
        is_new
    }
}
