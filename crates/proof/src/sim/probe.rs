//! Checks of an attacker's effects: it must not delay other clients' replies, or make the journal grow without effect.
//!
//! Invariant: a probe waits for one reply at a time, and knows its order's number.

use gateway::{FeedServerCount, OrderEntryCount, OrderEntryUdpCount, Throttle};
use market::{
    Command, EnterOrder, Event, OrderKey, Price, Quantity, SessionId, Side, Symbol, TimeInForce,
};
use wire::ouch::{self, Outbound};

use super::faults::{DEFENCES, Hits, REPLY_TICKS};

/// Ticks between two orders of a probe.
const INTERVAL: u64 = 8;

/// An honest client that sends one order at a time.
#[derive(Default)]
pub struct Probe {
    number: u32,
    /// The tick in which the last order was sent, until its reply arrives.
    sent: Option<u64>,
    /// The number of messages examined.
    seen: usize,
    pub answered: u64,
}

impl Probe {
    /// Looks for the reply, and returns the ticks until it came.
    pub fn take(&mut self, received: &[Vec<u8>], tick: u64) -> Option<u64> {
        let number = self.number;
        let is_reply = |message: &Vec<u8>| match ouch::decode_outbound(message) {
            Ok(Outbound::OrderAccepted(it, _)) => it.user_ref_num.get() == number,
            Ok(Outbound::Rejected(it, _)) => it.user_ref_num.get() == number,
            _ => false,
        };
        let is_there = received[self.seen..].iter().any(is_reply);
        self.seen = received.len();
        if !is_there {
            return None;
        }
        self.answered += 1;
        self.sent.take().map(|sent| tick - sent)
    }

    /// Ticks since the unanswered order was sent.
    pub fn waited(&self, tick: u64) -> Option<u64> {
        self.sent.map(|sent| tick - sent)
    }

    /// Stops waiting for the reply.
    pub fn give_up(&mut self) {
        self.sent = None;
    }

    /// The next order, if it is time for one: immediate or cancel, at a price without sellers.
    pub fn next(&mut self, tick: u64) -> Option<ouch::MessageBuffer> {
        if self.sent.is_some() || !tick.is_multiple_of(INTERVAL) {
            return None;
        }
        self.number += 1;
        self.sent = Some(tick);
        let key = OrderKey { user_ref_num: self.number, ..OrderKey::default() };
        let symbol = Symbol::new("AAPL").expect("a symbol");
        let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(1), Price(10_000));
        let time_in_force = TimeInForce::ImmediateOrCancel;
        ouch::request(&Command::Enter(EnterOrder { time_in_force, ..order }))
    }
}

/// Counts a reply by the ticks until it came.
pub fn count(hits: &mut Hits, ticks: u64) {
    hits.count(REPLY_TICKS, &format!("up to {:03}", ticks.max(1).div_ceil(20) * 20), 1);
}

/// Counts the refusals of the gateways.
pub fn count_defences(
    hits: &mut Hits,
    entry: &OrderEntryCount,
    udp: &OrderEntryUdpCount,
    feed: &FeedServerCount,
) {
    for (name, times) in [
        ("blocked", entry.blocked),
        ("blocked-over-udp", udp.blocked),
        ("duplicates", entry.duplicates),
        ("logins-rejected", entry.logins_rejected),
        ("malformed", entry.malformed),
        ("pushed-out", entry.pushed_out),
        ("refused", entry.refused),
        ("requests-refused", feed.requests_refused),
        ("slow-closed", entry.slow_closed),
        ("too-long", udp.too_long),
        ("unknown-senders", udp.unknown_senders),
        ("violations", entry.violations),
    ] {
        hits.count(DEFENCES, name, times);
    }
}

/// The numbers of a session's inputs in the journal.
#[derive(Clone, Copy, Default)]
pub struct Growth {
    orders: u64,
    others: u64,
}

impl Growth {
    pub fn input(&mut self, command: &Command) {
        match command {
            Command::Enter(_) => self.orders += 1,
            _ => self.others += 1,
        }
    }

    /// Checks the bounds of docs/security.md: orders by the rate, all else by the allowance and one for
    /// each effect. Each life of the venue begins with both allowances full.
    ///
    /// # Errors
    /// The journal has more inputs than allowed.
    pub fn check(
        &self,
        throttle: &Throttle,
        lives: u64,
        seconds: u64,
        effects: u64,
    ) -> Result<(), String> {
        let Throttle { messages_per_second, messages_burst, .. } = throttle;
        let Throttle { no_effect_per_second, no_effect_burst, .. } = throttle;
        let orders_max = lives * messages_burst + seconds * messages_per_second;
        let others_max = lives * no_effect_burst + seconds * no_effect_per_second + effects;
        if self.orders > orders_max || self.others > others_max {
            return Err(format!(
                "the attacker has {} orders and {} other messages in the journal: the most allowed \
                 are {orders_max} and {others_max}",
                self.orders, self.others
            ));
        }
        Ok(())
    }
}

/// The session whose message had the effect, if the event shows one.
pub fn with_effect(event: &Event) -> Option<SessionId> {
    match event {
        Event::Accepted(it) => Some(it.key.session_id),
        Event::Replaced(it) => Some(it.key.session_id),
        Event::Canceled(it) => Some(it.key.session_id),
        Event::Modified(it) => Some(it.key.session_id),
        _ => None,
    }
}
