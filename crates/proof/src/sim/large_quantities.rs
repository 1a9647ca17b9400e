//! Counts of quantities above the 32 bits of OUCH and ITCH.

use market::{Command, Event, Quantity};
use wire::{itch::LargeTrade, layout::Message as _};

use super::faults::{Hits, LARGE_QUANTITIES};

/// The counts, by the kind of message or event with such a quantity.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeQuantities {
    requests: u64,
    booked: u64,
    trades: u64,
    prints: u64,
}

impl LargeQuantities {
    /// Takes a sequenced command.
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

    /// Takes an event of the engine.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Booked(booked) => self.booked += u64::from(is_large(booked.leaves)),
            Event::Traded(traded) => self.trades += u64::from(is_large(traded.quantity)),
            _ => {}
        }
    }

    /// Takes a message of the feed, as its reader received it.
    pub fn message(&mut self, message: &[u8]) {
        self.prints += u64::from(message.first() == Some(&LargeTrade::TYPE));
    }

    /// Adds the counts to `hits`.
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

/// True if 32 bits cannot hold the quantity.
fn is_large(quantity: Quantity) -> bool {
    u32::try_from(quantity.0).is_err()
}
