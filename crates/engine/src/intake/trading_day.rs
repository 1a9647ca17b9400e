//! The parts of the trading day; they decide whether order entry is open.
//!
//! Invariant: the day only moves forward.

use market::SystemEvent;

/// The present part of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TradingDay {
    /// The last system event; `None` before the first.
    last: Option<SystemEvent>,
    /// True during system hours.
    is_open: bool,
}

impl TradingDay {
    /// Starts the part of `event`. Returns false, with no effect, if that part or a later one has
    /// begun. Parts may be skipped.
    pub(crate) fn advance(&mut self, event: SystemEvent) -> bool {
        let forward = self.last.is_none_or(|last| part(last) < part(event));
        if forward {
            self.last = Some(event);
            let open = part(SystemEvent::StartOfSystemHours)..part(SystemEvent::EndOfSystemHours);
            self.is_open = open.contains(&part(event));
        }
        forward
    }

    /// The last system event; `None` before the first.
    pub(crate) fn last(self) -> Option<SystemEvent> {
        self.last
    }

    /// True if system hours have ended.
    pub(crate) fn is_over(self) -> bool {
        self.last.is_some_and(|last| part(SystemEvent::EndOfSystemHours) <= part(last))
    }

    /// True if order entry is open: from the start of system hours to their end.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.is_open
    }
}

/// The position of a part in the day.
#[inline]
fn part(event: SystemEvent) -> u8 {
    match event {
        SystemEvent::StartOfMessages => 0,
        SystemEvent::StartOfSystemHours => 1,
        SystemEvent::StartOfMarketHours => 2,
        SystemEvent::EndOfMarketHours => 3,
        SystemEvent::EndOfSystemHours => 4,
        SystemEvent::EndOfMessages => 5,
    }
}
