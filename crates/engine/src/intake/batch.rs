//! Batches: looks up the data of the next inputs before the first of them is applied, so that their cache misses
//! overlap. Without it each input waits for its session, then the order, then the order's neighbors. The findings
//! of a plain order are used when it is applied, so nothing is looked up twice.
//!
//! Invariant: no result depends on a lookup. A finding follows from the order and from settings, and is used only
//! if no setting has changed since, which one comparison shows.

use core::ptr;

use market::{Command, EnterOrder, Input, OrderKey};

use super::plain::LimitTerms;
use crate::{
    Emit, Engine,
    book::{level::Level, pool::Slot},
    intake::session::Session,
    order::Order,
};

/// Maximum number of inputs, or orders, of a batch; later ones are applied without a lookup.
pub const BATCH_MAX: usize = 16;

/// With fewer live orders the state fits the cache, and lookups ahead only cost time.
pub const LOOK_AHEAD_FROM: u32 = 1 << 14;

/// The result of the lookup for an order before it is applied.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// No lookup yet.
    Nothing,
    /// It is not plain, or its terms are not allowed.
    Unusual,
    /// It is plain, with these terms.
    Plain(LimitTerms),
}

/// Inputs whose lookups are made. See [`Engine::batch`].
pub struct InputBatch<'a, I> {
    engine: &'a mut Engine,
    inputs: I,
    /// `None` if nothing was looked up.
    lookups: Option<Lookups>,
}

/// The results of the lookups for the inputs of a batch, in their order.
struct Lookups {
    found: [Found; BATCH_MAX],
    /// The settings at that time.
    settings: u64,
    next: usize,
}

/// The next input of a batch, to be [applied](Self::apply_to).
#[must_use = "an input that is not applied is skipped"]
pub struct NextInput<'a, 'b> {
    engine: &'a mut Engine,
    input: &'b Input,
    lookups: Option<&'a mut Lookups>,
}

/// The data that a command will touch, as far as it is known without a cache miss.
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

impl<'b, I: Iterator<Item = &'b Input>> InputBatch<'_, I> {
    /// The next input, if there is one.
    #[inline]
    pub fn next_input(&mut self) -> Option<NextInput<'_, 'b>> {
        let input = self.inputs.next()?;
        Some(NextInput { engine: self.engine, input, lookups: self.lookups.as_mut() })
    }

    /// The state after the inputs that were applied.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.engine
    }
}

impl<'b> NextInput<'_, 'b> {
    /// The input.
    #[must_use]
    pub fn input(&self) -> &'b Input {
        self.input
    }

    /// As [`Engine::apply_to`].
    ///
    /// # Panics
    /// As [`Engine::apply`].
    #[inline]
    pub fn apply_to(self, emit: &mut impl Emit) {
        match self.lookups {
            Some(lookups) => self.engine.apply_found(self.input, lookups, emit),
            None => self.engine.apply_to(self.input, emit),
        }
    }
}

impl Lookups {
    /// The result for the next input, if it still holds.
    #[inline]
    fn take(&mut self, settings: u64) -> Found {
        let found = self.found.get(self.next).filter(|_| self.settings == settings);
        self.next += 1;
        found.copied().unwrap_or(Found::Nothing)
    }
}

impl Engine {
    /// Looks up the data of these inputs, up to [`BATCH_MAX`] of them, and returns the inputs to be applied one by one.
    /// With fewer than `from` live orders it looks nothing up; [`LOOK_AHEAD_FROM`] suits most machines. `fetch` prefetches
    /// the cache line of an address and does not wait.
    #[inline]
    pub fn batch<'b, I>(
        &mut self,
        inputs: I,
        from: u32,
        fetch: impl Fn(*const u8) + Copy,
    ) -> InputBatch<'_, I::IntoIter>
    where
        I: IntoIterator<Item = &'b Input, IntoIter: Clone>,
    {
        let inputs = inputs.into_iter();
        let lookups = match from <= self.pool.live_count() {
            true => Some(self.look_up(inputs.clone(), fetch)),
            false => None,
        };
        InputBatch { engine: self, inputs, lookups }
    }

    /// As [`apply_to`](Self::apply_to), with the findings of the lookup.
    #[inline]
    fn apply_found(&mut self, input: &Input, lookups: &mut Lookups, emit: &mut impl Emit) {
        self.take_up(input, emit);
        let found = lookups.take(self.settings);
        self.act(input, found, emit);
    }

    /// Looks up in three rounds, so that each round finds the data that the round before fetched.
    #[inline(never)]
    fn look_up<'b>(
        &self,
        inputs: impl Iterator<Item = &'b Input>,
        fetch: impl Fn(*const u8) + Copy,
    ) -> Lookups {
        let mut found = [Found::Nothing; BATCH_MAX];
        let mut leads = [Lead::Nowhere; BATCH_MAX];
        for ((input, found), lead) in inputs.zip(&mut found).zip(&mut leads) {
            (*found, *lead) = self.lead(&input.command, fetch);
        }
        let mut slots = [Slot::NONE; BATCH_MAX];
        for (lead, slot) in leads.iter().zip(&mut slots) {
            *slot = match lead {
                Lead::Nowhere => continue,
                Lead::Number(session, key) => session.find(*key).unwrap_or(Slot::NONE),
                Lead::Rests(level) => level.youngest,
                Lead::Trades(level) => level.oldest,
            };
            self.fetch_slot(*slot, fetch);
        }
        for (slot, lead) in slots.into_iter().zip(leads) {
            self.fetch_around(slot, &lead, fetch);
        }
        Lookups { found, settings: self.settings, next: 0 }
    }

    /// The memory that a command needs first.
    #[inline]
    fn lead(&self, command: &Command, fetch: impl Fn(*const u8) + Copy) -> (Found, Lead<'_>) {
        let key = match command {
            Command::Enter(order) => return self.lead_of(order, fetch),
            Command::Cancel(cancel) => cancel.key,
            Command::Modify(modify) => modify.key,
            Command::Replace(replace) => {
                let user_ref_num = replace.original_user_ref_num;
                OrderKey { user_ref_num, ..replace.key }
            }
            _ => return (Found::Nothing, Lead::Nowhere),
        };
        let Some(session) = self.sessions.get(key.session_id) else {
            return (Found::Nothing, Lead::Nowhere);
        };
        session.fetch(key, fetch);
        (Found::Nothing, Lead::Number(session, key))
    }

    #[inline]
    fn lead_of(&self, order: &EnterOrder, fetch: impl Fn(*const u8) + Copy) -> (Found, Lead<'_>) {
        let EnterOrder { key, side, .. } = *order;
        if let Some(session) = self.sessions.get(key.session_id) {
            session.fetch(key, fetch);
        }
        let Some(terms) = self.limit_terms(order) else { return (Found::Unusual, Lead::Nowhere) };
        let found = if terms.is_plain { Found::Plain(terms) } else { Found::Unusual };
        let LimitTerms { instrument_id, ranks, .. } = terms;
        let book = &self.books[instrument_id];
        let opposite = &book.opposite(side).displayed;
        let lead = if opposite.best_rank() <= ranks.worst {
            opposite.level_in_block(opposite.best_rank()).map(Lead::Trades)
        } else {
            book.side(side).displayed.level_in_block(ranks.own).map(Lead::Rests)
        };
        if let Some(Lead::Trades(level) | Lead::Rests(level)) = lead {
            fetch(ptr::from_ref(level).cast());
        }
        (found, lead.unwrap_or(Lead::Nowhere))
    }

    #[inline]
    fn fetch_slot(&self, slot: Slot, fetch: impl Fn(*const u8) + Copy) {
        if !slot.is_none()
            && let Some(resting) = self.pool.get(slot)
        {
            fetch(ptr::from_ref(resting).cast());
        }
    }

    /// Prefetches the neighbors of an order that is removed or trades, and the number of one that trades.
    /// Balances are not prefetched: those of thousands of accounts fit the cache.
    #[inline]
    fn fetch_around(&self, slot: Slot, lead: &Lead<'_>, fetch: impl Fn(*const u8) + Copy) {
        if slot.is_none() || matches!(lead, Lead::Rests(_)) {
            return;
        }
        let Some(resting) = self.pool.get(slot) else { return };
        self.fetch_slot(resting.older, fetch);
        self.fetch_slot(resting.younger, fetch);
        let Order { key, .. } = resting.order;
        if let Lead::Trades(_) = lead
            && let Some(session) = self.sessions.get(key.session_id)
        {
            session.fetch(key, fetch);
        }
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

    /// Whatever the next commands are and name, a lookup for them changes nothing.
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
        for batch in inputs.chunks(BATCH_MAX + 1) {
            let _ = engine.look_up(batch.iter(), |_| ());
        }
        assert_eq!(engine.state_hash(), before);
        engine.check_invariants();
    }
}
