//! What happened to quantities of more lots than the 32 bits of OUCH and ITCH say.

use market::{Command, Event, Quantity};
use wire::{itch::LargeTrade, layout::Message as _};

use super::faults::{Hits, LARGE_QUANTITIES};

/// How often, by what had such a quantity.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeQuantities {
    requests: u64,
    booked: u64,
    trades: u64,
    prints: u64,
}

impl LargeQuantities {
    /// A command that was sequenced.
    pub fn input(&mut self, command: &Command) {
        let quantity = match command {
            Command::Enter(order) => order.quantity,
            Command::Replace(replace) => replace.terms.map_or(Quantity::ZERO, |it| it.quantity),
            Command::Cancel(cancel) => cancel.quantity,
            Command::Modify(modify) => modify.quantity,
            _ => Quantity::ZERO,
        };
        self.requests += u64::from(is_large(quantity));
    }

    /// An event of the engine.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Booked(booked) => self.booked += u64::from(is_large(booked.leaves)),
            Event::Traded(traded) => self.trades += u64::from(is_large(traded.quantity)),
            _ => {}
        }
    }

    /// A message of the feed, as its reader received it.
    pub fn message(&mut self, message: &[u8]) {
        self.prints += u64::from(message.first() == Some(&LargeTrade::TYPE));
    }

    /// Adds them to what happened.
    pub fn count(&self, hits: &mut Hits) {
        for (name, times) in [
            ("large-requests", self.requests),
            ("large-booked", self.booked),
            ("large-trades", self.trades),
            ("large-prints", self.prints),
        ] {
            hits.count(LARGE_QUANTITIES, name, times);
        }
    }
}

/// True if 32 bits do not say it.
fn is_large(quantity: Quantity) -> bool {
    u32::try_from(quantity.0).is_err()
}
