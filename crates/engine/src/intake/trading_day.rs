//! The parts of the trading day, and whether orders may be entered in the present one.
//!
//! Invariant: the day only goes forward.

use market::SystemEvent;

/// The day so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TradingDay {
    /// The last system event; `None` before the first.
    last: Option<SystemEvent>,
    /// Whether it is in system hours.
    is_open: bool,
}

impl TradingDay {
    /// Goes on to the part that `event` begins; false if that part, or a later one, has begun
    /// already. Parts may be left out.
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

    /// True if the hours of the system have ended.
    pub(crate) fn is_over(self) -> bool {
        self.last.is_some_and(|last| part(SystemEvent::EndOfSystemHours) <= part(last))
    }

    /// True if orders may be entered: from the start of system hours to their end.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.is_open
    }
}

/// The place of a part in the day.
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
