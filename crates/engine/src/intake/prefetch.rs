//! Prefetch: reads a batch of inputs before the first is applied, and touches the memory that they
//! will need, so that the cache misses overlap. Without it each input waits for its session, then
//! the order, then the order's neighbors.
//!
//! Invariant: prefetching changes nothing, and no result depends on it.

use core::{hint::black_box, ptr};

use market::{Command, EnterOrder, Input, InstrumentId, OrderKey};

use crate::{
    Engine,
    book::{
        level::Level,
        pool::{Neighbors, Slot},
    },
    intake::session::Session,
    order::Order,
};

/// The most inputs, or orders, to prefetch for together; later ones are ignored.
pub const PREFETCH_MAX: usize = 16;

/// With fewer live orders the state fits the cache, and prefetching only costs time.
pub(crate) const ORDERS_MIN: u32 = 1 << 14;

/// What a command will touch, as far as it is known without a cache miss.
#[derive(Clone, Copy)]
enum Lead<'a> {
    Nowhere,
    /// The participant's own order that it names.
    Number(&'a Session, OrderKey),
    /// The level where it will rest, for its youngest order.
    Rests(&'a Level),
    /// The level that it will trade with, from the oldest order on.
    Trades(&'a Level),
}

impl Engine {
    /// Prefetches for the next inputs, up to [`PREFETCH_MAX`]; to call before they are
    /// [applied](Self::apply). `fetch` prefetches the cache line of an address and does not wait.
    #[inline]
    pub fn prefetch<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Input>,
        fetch: impl Fn(*const u8) + Copy,
    ) {
        if ORDERS_MIN <= self.pool.live_count() {
            self.prefetch_in_rounds(inputs, fetch);
        }
    }

    #[inline(never)]
    fn prefetch_in_rounds<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Input>,
        fetch: impl Fn(*const u8) + Copy,
    ) {
        // Three rounds, so that each round finds what the one before it fetched.
        let mut leads = [Lead::Nowhere; PREFETCH_MAX];
        for (input, lead) in inputs.into_iter().zip(&mut leads) {
            *lead = self.lead(&input.command, fetch);
        }
        let mut slots = [Slot::NONE; PREFETCH_MAX];
        for (lead, slot) in leads.iter().zip(&mut slots) {
            *slot = match lead {
                Lead::Nowhere => continue,
                Lead::Number(session, key) => session.find(*key).unwrap_or(Slot::NONE),
                Lead::Rests(level) => level.youngest,
                Lead::Trades(level) => level.oldest,
            };
            if let Some(resting) = self.pool.get(*slot) {
                fetch(ptr::from_ref(resting).cast());
            }
        }
        for (slot, lead) in slots.into_iter().zip(leads) {
            let Some(resting) = self.pool.get(slot) else { continue };
            for neighbor in [resting.older, resting.younger] {
                if let Some(neighbor) = self.pool.get(neighbor) {
                    fetch(ptr::from_ref(neighbor).cast());
                }
            }
            let Order { key, instrument_id, .. } = resting.order;
            let side = resting.order.side();
            self.money.fetch(key.session_id, instrument_id, side, fetch);
            if let Lead::Trades(_) = lead
                && let Some(session) = self.sessions.get(resting.order.key.session_id)
            {
                session.fetch(resting.order.key, fetch);
            }
        }
    }

    #[inline]
    fn lead(&self, command: &Command, fetch: impl Fn(*const u8) + Copy) -> Lead<'_> {
        let key = match command {
            Command::Enter(order) => return self.lead_of(order, fetch).unwrap_or(Lead::Nowhere),
            Command::Cancel(cancel) => cancel.key,
            Command::Modify(modify) => modify.key,
            Command::Replace(replace) => {
                let user_ref_num = replace.original_user_ref_num;
                OrderKey { user_ref_num, ..replace.key }
            }
            _ => return Lead::Nowhere,
        };
        let Some(session) = self.sessions.get(key.session_id) else { return Lead::Nowhere };
        session.fetch(key, fetch);
        Lead::Number(session, key)
    }

    #[inline]
    fn lead_of(&self, order: &EnterOrder, fetch: impl Fn(*const u8) + Copy) -> Option<Lead<'_>> {
        self.sessions.get(order.key.session_id)?.fetch(order.key, fetch);
        let number = self.symbols.find(&order.symbol)?;
        self.money.fetch(order.key.session_id, InstrumentId(number), order.side, fetch);
        let book = &self.books[usize::from(number) - 1];
        let ranks = book.ranks(order.side, order.quantity, order.price).ok()?;
        let opposite = &book.opposite(order.side).displayed;
        let lead = if opposite.best_rank() <= ranks.worst {
            Lead::Trades(opposite.level_in_block(opposite.best_rank())?)
        } else {
            Lead::Rests(book.side(order.side).displayed.level_in_block(ranks.own)?)
        };
        let (Lead::Trades(level) | Lead::Rests(level)) = lead else { return None };
        fetch(ptr::from_ref(level).cast());
        Some(lead)
    }
}

impl<T: crate::book::pool::PoolOrder> crate::book::pool::Pool<T> {
    /// Touches these slots, then their neighbors.
    #[inline]
    pub(crate) fn prefetch(&self, slots: &[Slot; PREFETCH_MAX]) {
        let none = Neighbors { older: Slot::NONE, younger: Slot::NONE };
        let mut neighbors = [none; PREFETCH_MAX];
        for (slot, neighbors) in slots.iter().zip(&mut neighbors) {
            if let Some(resting) = self.get(*slot) {
                *neighbors = Neighbors { older: resting.older, younger: resting.younger };
            }
        }
        let mut sum = 0;
        for Neighbors { older, younger } in neighbors {
            for slot in [older, younger] {
                sum ^= self.get(slot).map_or(0, |resting| resting.younger.to_bits());
            }
        }
        black_box(sum);
    }
}

#[cfg(test)]
mod tests {
    use market::{
        AddInstrument, AddSession, CancelOrder, Event, Firm, MassCancel, Price, Quantity,
        ReplaceOrder, SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text, Timestamp,
    };

    use super::*;

    fn key(session_id: u16, channel: u8, user_ref_num: u32) -> OrderKey {
        OrderKey { session_id: SessionId(session_id), channel, user_ref_num }
    }

    fn enter(key: OrderKey, side: Side, price: u64, symbol: &str) -> Command {
        let symbol = Symbol::new(symbol).unwrap();
        Command::Enter(EnterOrder::limit(key, side, symbol, Quantity(10), Price(price)))
    }

    /// Whatever the next commands are and name, prefetching changes nothing.
    #[test]
    fn looking_ahead_changes_nothing() {
        let mut engine = Engine::new();
        let mut booked = 0;
        let begin = [
            Command::System(SystemEvent::StartOfSystemHours),
            Command::AddInstrument(AddInstrument {
                symbol: Symbol::new("AHEAD").unwrap(),
                price_increment: Price(5),
                round_lot: Quantity(1),
            }),
            Command::AddSession(AddSession {
                username: Text::new("U1").unwrap(),
                firm: Firm::BLANK,
                live_orders_max: 100,
                self_match_prevention: SelfMatchPrevention::Off,
            }),
        ];
        let orders = (1..=50).map(|number| {
            let side = if number % 2 == 0 { Side::Buy } else { Side::Sell };
            let price = if side.is_buy() { 900 } else { 1_000 } + 5 * u64::from(number % 7);
            enter(key(1, number as u8 % 2, number), side, price, "AHEAD")
        });
        for command in begin.into_iter().chain(orders) {
            let sequence = engine.sequence().next();
            let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
            engine.apply(&input, &mut |event| {
                booked += u32::from(matches!(event, Event::Booked(_)));
            });
        }
        assert_eq!(booked, 50);
        let before = engine.state_hash();
        let mut commands = alloc::vec::Vec::new();
        for session_id in [0, 1, 2, u16::MAX] {
            for number in [0, 1, 2, 49, 50, 51, u32::MAX] {
                let key = key(session_id, number as u8 % 3, number);
                let quantity = Quantity::ZERO;
                commands.push(Command::Cancel(CancelOrder { key, quantity }));
                commands.push(Command::Replace(ReplaceOrder {
                    original_user_ref_num: number,
                    key,
                    terms: None,
                }));
                for (price, symbol) in [(1, "AHEAD"), (905, "AHEAD"), (u64::MAX, "AHEAD"), (5, "X")]
                {
                    commands.push(enter(key, Side::Buy, price, symbol));
                    commands.push(enter(key, Side::Sell, price, symbol));
                }
                commands.push(Command::MassCancel(MassCancel {
                    key,
                    firm: Firm::BLANK,
                    symbol: Symbol::BLANK,
                    side: None,
                    group_id: None,
                }));
            }
        }
        let inputs: alloc::vec::Vec<_> = commands
            .into_iter()
            .map(|command| Input { sequence: engine.sequence(), timestamp: Timestamp(0), command })
            .collect();
        inputs.chunks(PREFETCH_MAX + 1).for_each(|batch| engine.prefetch_in_rounds(batch, |_| ()));
        assert_eq!(engine.state_hash(), before);
        engine.check_invariants();
    }
}
