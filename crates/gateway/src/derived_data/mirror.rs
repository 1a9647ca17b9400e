//! The same levels, trades and statistics on another thread, which may fall behind.
//!
//! Invariant: a mirror shows the state after one message of the feed. It does not guess missed updates: it has
//! everything repeated, and shows nothing until then.

use std::{collections::VecDeque, sync::Arc};

use ring::{AtomicGauge, LossyConsumer};

use super::{DerivedFact, DerivedUpdate, PriceLevels, Statistics, TapeEntry};

/// Levels, trades and statistics, as of the updates of a ring.
pub struct DerivedMirror {
    from: LossyConsumer<DerivedUpdate>,
    wanted: Arc<AtomicGauge>,
    /// The repetition that it waits for, or has had.
    request: u64,
    state: State,
    instruments: Vec<MirroredInstrument>,
    /// With their ordinals, oldest first. A gap in the ordinals stands for missed trades.
    tape: VecDeque<(u64, TapeEntry)>,
    trades_max: usize,
    /// Facts of a message whose last has not come.
    unfinished: Vec<DerivedFact>,
    number: u64,
    ordinal_next: u64,
    taken: u64,
    missed: u64,
    scratch: Vec<DerivedUpdate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The mirror waits for the repetition of everything.
    Waiting,
    /// The repetition is under way.
    Repeating,
    Held,
}

/// One instrument.
#[derive(Clone, Debug, Default)]
pub struct MirroredInstrument {
    /// Padded with spaces.
    pub symbol: [u8; 8],
    /// As the feed says it: `T`, `Q`, `P`, `H`.
    pub trading_state: u8,
    pub levels: PriceLevels,
    pub statistics: Statistics,
    /// Changes whenever one of the fields above does.
    pub version: u64,
}

impl DerivedMirror {
    /// Reads from this ring; `wanted` carries the requests for repetitions. The mirror shows nothing until the first
    /// repetition is complete.
    #[must_use]
    pub fn new(
        from: LossyConsumer<DerivedUpdate>,
        wanted: Arc<AtomicGauge>,
        trades_max: usize,
    ) -> Self {
        let mut mirror = Self {
            from,
            wanted,
            request: 0,
            state: State::Waiting,
            instruments: Vec::new(),
            tape: VecDeque::new(),
            trades_max,
            unfinished: Vec::new(),
            number: 0,
            ordinal_next: 0,
            taken: 0,
            missed: 0,
            scratch: Vec::new(),
        };
        mirror.ask();
        mirror
    }

    /// Takes at most `limit` updates, and returns their number.
    pub fn poll(&mut self, limit: usize) -> usize {
        let mut updates = std::mem::take(&mut self.scratch);
        updates.clear();
        let polled = self.from.poll(limit, |update| updates.push(*update));
        self.taken += polled.read as u64;
        self.missed += polled.missed;
        if polled.missed > 0 {
            // The place of the missing updates among these is not known.
            self.ask();
        } else {
            updates.iter().for_each(|update| self.take(update));
        }
        self.scratch = updates;
        polled.read
    }

    /// True if it shows the state after message [`number`](Self::number).
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// The last message of the feed that the shown state includes.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The number of the repetition it has had: a new one means that updates were missed in between.
    #[must_use]
    pub const fn request(&self) -> u64 {
        self.request
    }

    /// The instruments, by stock locate, less 1.
    #[must_use]
    pub fn instruments(&self) -> &[MirroredInstrument] {
        &self.instruments
    }

    /// The newest trades with their ordinals, oldest first.
    pub fn tape(&self) -> impl DoubleEndedIterator<Item = &(u64, TapeEntry)> {
        self.tape.iter()
    }

    /// The trades from an ordinal on.
    pub fn tape_from(&self, ordinal: u64) -> impl Iterator<Item = &(u64, TapeEntry)> {
        let begin = self.tape.partition_point(|(own, _)| *own < ordinal);
        self.tape.range(begin..)
    }

    /// The ordinal of the next trade.
    #[must_use]
    pub const fn ordinal_next(&self) -> u64 {
        self.ordinal_next
    }

    /// Updates taken, and updates that were overwritten before they could be taken.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.taken, self.missed)
    }

    fn ask(&mut self) {
        self.state = State::Waiting;
        self.unfinished.clear();
        self.request += 1;
        self.wanted.set(self.request);
    }

    fn take(&mut self, update: &DerivedUpdate) {
        match (self.state, update.fact) {
            (_, DerivedFact::Begin { request }) if request == self.request => {
                self.state = State::Repeating;
                self.unfinished.clear();
                for it in &mut self.instruments {
                    (it.levels, it.version) = (PriceLevels::default(), it.version + 1);
                }
            }
            (State::Waiting, _) => {}
            (_, DerivedFact::End { request, ordinal }) => {
                if request == self.request {
                    self.state = State::Held;
                    self.number = update.number;
                    self.ordinal_next = self.ordinal_next.max(ordinal);
                }
            }
            (_, fact) => {
                self.unfinished.push(fact);
                if update.is_last {
                    self.number = update.number;
                    for place in 0..self.unfinished.len() {
                        let fact = self.unfinished[place];
                        self.apply(fact);
                    }
                    self.unfinished.clear();
                }
            }
        }
    }

    fn apply(&mut self, fact: DerivedFact) {
        match fact {
            DerivedFact::Instrument { stock_locate, symbol, trading_state } => {
                let it = self.of(stock_locate);
                (it.symbol, it.trading_state) = (symbol, trading_state);
            }
            DerivedFact::Level { stock_locate, is_bid, level } => {
                self.of(stock_locate).levels.set(is_bid, level);
            }
            DerivedFact::Trade { ordinal, trade } => {
                self.of(trade.stock_locate).statistics.take(&trade);
                self.keep(ordinal, TapeEntry::Trade(trade));
            }
            DerivedFact::Undone { ordinal, number, stock_locate, match_number } => {
                self.keep(ordinal, TapeEntry::Undone { number, stock_locate, match_number });
            }
            DerivedFact::Statistics { stock_locate, statistics } => {
                self.of(stock_locate).statistics = statistics;
            }
            DerivedFact::Held | DerivedFact::Begin { .. } | DerivedFact::End { .. } => {}
        }
    }

    fn keep(&mut self, ordinal: u64, entry: TapeEntry) {
        if self.tape.len() >= self.trades_max {
            self.tape.pop_front();
        }
        self.tape.push_back((ordinal, entry));
        self.ordinal_next = ordinal + 1;
    }

    /// The instrument, to be changed; one whose directory message was missed has no name yet.
    fn of(&mut self, stock_locate: u16) -> &mut MirroredInstrument {
        let index = usize::from(stock_locate) - 1;
        if self.instruments.len() <= index {
            self.instruments.resize_with(index + 1, MirroredInstrument::default);
        }
        let it = &mut self.instruments[index];
        it.version += 1;
        it
    }
}
