//! Data derived from the feed: price levels with their totals, trades, and the statistics of the day.
//!
//! Start at [`DerivedData::take`]: it takes each message of the feed with its changes of the books, and emits
//! [`DerivedUpdate`]s. A [`DerivedMirror`] on another thread has the same after the same updates.
//!
//! Invariant: the levels of an instrument are the sums of the displayed orders of [`FeedBooks`](crate::FeedBooks);
//! there is no second book of orders. An update has the new state, not the difference, so a repeated update does no
//! harm.

mod levels;
mod mirror;
mod publisher;
mod statistics;
mod update;

use std::collections::{BTreeMap, VecDeque};

use market::NANOS_PER_DAY;
use wire::itch::{self, Message};

use crate::{BookChange, BookChangeKind};

pub use levels::{PriceLevel, PriceLevels};
pub use mirror::{DerivedMirror, MirroredInstrument};
pub(crate) use publisher::DerivedPublisher;
pub use statistics::Statistics;
pub use update::{DerivedFact, DerivedTrade, DerivedUpdate, TapeEntry, TradeKind};

/// Levels, trades and statistics of all instruments after the last message.
#[derive(Debug)]
pub struct DerivedData {
    /// By stock locate, less 1.
    instruments: Vec<Derived>,
    /// The newest trades, oldest first; those of an auction too, which its cross stands for.
    trades: VecDeque<DerivedTrade>,
    trades_max: usize,
    /// Trades and undone trades so far: the ordinal of the next.
    tape: u64,
    origin: Origin,
}

/// The point from which trades were taken.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// Number of the first message.
    number: u64,
    /// The day of that message, in days since 1970.
    day: u32,
    /// True if no trade was before it.
    is_first: bool,
}

/// One instrument.
#[derive(Debug)]
struct Derived {
    symbol: [u8; 8],
    trading_state: u8,
    levels: PriceLevels,
    statistics: Statistics,
    /// Trades of the day by price, those that were undone not counted: for the high and the low.
    prices: BTreeMap<u32, u64>,
}

/// Collects the facts of one message, and marks the last of them.
struct Facts<'a, F> {
    number: u64,
    waiting: Option<DerivedFact>,
    emit: &'a mut F,
}

impl<F: FnMut(DerivedUpdate)> Facts<'_, F> {
    fn push(&mut self, fact: DerivedFact) {
        if let Some(fact) = self.waiting.replace(fact) {
            (self.emit)(DerivedUpdate { number: self.number, is_last: false, fact });
        }
    }

    fn end(self) {
        if let Some(fact) = self.waiting {
            (self.emit)(DerivedUpdate { number: self.number, is_last: true, fact });
        }
    }
}

impl DerivedData {
    /// Before the first message of all.
    #[must_use]
    pub fn new(trades_max: usize) -> Self {
        Self {
            instruments: Vec::new(),
            trades: VecDeque::new(),
            trades_max,
            tape: 0,
            origin: Origin { number: 1, day: 0, is_first: true },
        }
    }

    /// Forgets everything, and begins with the message of this number: trades before it are not known, so the
    /// statistics of this day lack them, and say so.
    pub fn begin_after_trades(&mut self, number: u64, now_ns: u64) {
        *self = Self::new(self.trades_max);
        self.origin = Origin { number, day: day_of(now_ns), is_first: false };
    }

    /// Forgets the levels, but neither trades nor statistics.
    pub fn clear_levels(&mut self) {
        self.instruments.iter_mut().for_each(|it| it.levels = PriceLevels::default());
    }

    /// The levels of an instrument.
    #[must_use]
    pub fn levels(&self, stock_locate: u16) -> Option<&PriceLevels> {
        Some(&self.instruments.get(usize::from(stock_locate).checked_sub(1)?)?.levels)
    }

    /// The statistics of an instrument, of the last day on which it traded.
    #[must_use]
    pub fn statistics(&self, stock_locate: u16) -> Option<&Statistics> {
        Some(&self.instruments.get(usize::from(stock_locate).checked_sub(1)?)?.statistics)
    }

    /// Takes a message of the feed, after the books: `changes` are its changes of the books, in order. `now_ns` is a
    /// time near that of the message, which has only the time of its day. Calls `emit` with every new fact.
    pub fn take(
        &mut self,
        number: u64,
        message: &[u8],
        changes: &[BookChange],
        now_ns: u64,
        emit: &mut impl FnMut(DerivedUpdate),
    ) {
        let mut facts = Facts { number, waiting: None, emit };
        for change in changes {
            self.change(change, &mut facts);
        }
        self.take_public(number, message, changes, now_ns, &mut facts);
        facts.end();
    }

    fn change<F: FnMut(DerivedUpdate)>(&mut self, change: &BookChange, facts: &mut Facts<'_, F>) {
        let BookChange { stock_locate, is_bid, price, lots, kind } = *change;
        let levels = &mut self.of(stock_locate).levels;
        let level = match kind {
            BookChangeKind::Added => levels.add(is_bid, price, lots),
            BookChangeKind::Reduced => levels.reduce(is_bid, price, lots, false),
            BookChangeKind::Removed => levels.reduce(is_bid, price, lots, true),
        };
        facts.push(DerivedFact::Level { stock_locate, is_bid, level });
    }

    /// Takes the parts of a message beside its effect on the books.
    fn take_public<F: FnMut(DerivedUpdate)>(
        &mut self,
        number: u64,
        message: &[u8],
        changes: &[BookChange],
        now_ns: u64,
        facts: &mut Facts<'_, F>,
    ) {
        let at = |time_of_day: u64| moment(time_of_day, now_ns);
        let trade = |stock_locate: u16, price, lots, match_number, time_ns, kind| DerivedTrade {
            number,
            stock_locate,
            price,
            lots,
            match_number,
            time_ns,
            kind,
        };
        match itch::decode(message).expect("our own feed has messages of ITCH") {
            Message::StockDirectory(it) => {
                let stock_locate = it.stock_locate.get();
                let day = day_of(at(it.timestamp.get()));
                self.list(stock_locate, it.stock, day);
                facts.push(self.fact_of(stock_locate));
                let statistics = self.of(stock_locate).statistics;
                facts.push(DerivedFact::Statistics { stock_locate, statistics });
            }
            Message::StockTradingAction(it) => {
                self.of(it.stock_locate.get()).trading_state = it.trading_state;
                facts.push(self.fact_of(it.stock_locate.get()));
            }
            Message::OrderExecuted(it) => {
                let price = changes.first().expect("it changed a level").price;
                let (lots, number) = (it.executed_shares.get().into(), it.match_number.get());
                let time_ns = at(it.timestamp.get());
                let kind = TradeKind::Continuous;
                self.trade(trade(it.stock_locate.get(), price, lots, number, time_ns, kind), facts);
            }
            Message::OrderExecutedWithPrice(it) => {
                let kind = match it.printable {
                    b'Y' => TradeKind::Continuous,
                    _ => TradeKind::PartOfCross,
                };
                let (lots, number) = (it.executed_shares.get().into(), it.match_number.get());
                let (price, time_ns) = (it.execution_price.get(), at(it.timestamp.get()));
                self.trade(trade(it.stock_locate.get(), price, lots, number, time_ns, kind), facts);
            }
            Message::Trade(it) => {
                let (lots, number) = (it.shares.get().into(), it.match_number.get());
                let (price, time_ns) = (it.price.get(), at(it.timestamp.get()));
                let kind = TradeKind::Hidden;
                self.trade(trade(it.stock_locate.get(), price, lots, number, time_ns, kind), facts);
            }
            Message::LargeTrade(it) => {
                let (lots, number) = (it.shares.get(), it.match_number.get());
                let (price, time_ns) = (it.price.get(), at(it.timestamp.get()));
                let kind = TradeKind::Hidden;
                self.trade(trade(it.stock_locate.get(), price, lots, number, time_ns, kind), facts);
            }
            Message::CrossTrade(it) if it.shares.get() > 0 => {
                let (lots, number) = (it.shares.get(), it.match_number.get());
                let (price, time_ns) = (it.cross_price.get(), at(it.timestamp.get()));
                let kind = TradeKind::Cross;
                self.trade(trade(it.stock_locate.get(), price, lots, number, time_ns, kind), facts);
            }
            Message::BrokenTrade(it) => {
                self.undo(it.stock_locate.get(), it.match_number.get(), facts);
            }
            _ => {}
        }
    }

    fn list(&mut self, stock_locate: u16, symbol: [u8; 8], day: u32) {
        let index = usize::from(stock_locate) - 1;
        if let Some(known) = self.instruments.get_mut(index) {
            known.symbol = symbol;
            return;
        }
        assert!(index == self.instruments.len(), "locates count from 1: {stock_locate}");
        if self.origin.day == 0 {
            self.origin.day = day;
        }
        let Origin { number, day, is_first } = self.origin;
        self.instruments.push(Derived {
            symbol,
            trading_state: b' ',
            levels: PriceLevels::default(),
            statistics: Statistics::begin(day, number, is_first),
            prices: BTreeMap::new(),
        });
    }

    fn of(&mut self, stock_locate: u16) -> &mut Derived {
        let index = usize::from(stock_locate).checked_sub(1);
        index.and_then(|index| self.instruments.get_mut(index)).expect("the directory has it")
    }

    fn fact_of(&self, stock_locate: u16) -> DerivedFact {
        let it = &self.instruments[usize::from(stock_locate) - 1];
        DerivedFact::Instrument { stock_locate, symbol: it.symbol, trading_state: it.trading_state }
    }

    fn trade<F: FnMut(DerivedUpdate)>(&mut self, trade: DerivedTrade, facts: &mut Facts<'_, F>) {
        // Both orders of a trade in an auction may be displayed.
        let is_known = |last: &DerivedTrade| {
            last.match_number == trade.match_number && last.kind == TradeKind::PartOfCross
        };
        if trade.kind == TradeKind::PartOfCross && self.trades.back().is_some_and(is_known) {
            return;
        }
        if self.trades.len() >= self.trades_max {
            self.trades.pop_front();
        }
        self.trades.push_back(trade);
        if trade.kind == TradeKind::PartOfCross {
            return;
        }
        let it = self.of(trade.stock_locate);
        if it.statistics.take(&trade) {
            it.prices.clear();
        }
        *it.prices.entry(trade.price).or_default() += 1;
        facts.push(DerivedFact::Trade { ordinal: self.tape, trade });
        self.tape += 1;
    }

    /// Takes a trade out of the statistics, if it is still known.
    fn undo<F: FnMut(DerivedUpdate)>(
        &mut self,
        stock_locate: u16,
        match_number: u64,
        facts: &mut Facts<'_, F>,
    ) {
        let number = facts.number;
        let of_day = self.of(stock_locate).statistics.day;
        // Two prints are of one trade if the feed showed a part of the lots.
        let is_part =
            |it: &DerivedTrade| it.match_number == match_number && it.stock_locate == stock_locate;
        let mut is_known = false;
        while let Some(place) = self.trades.iter().rposition(is_part) {
            let part = self.trades.remove(place).expect("it was found");
            if day_of(part.time_ns) == of_day {
                is_known = true;
                self.take_out(&part);
            }
        }
        if !is_known {
            self.of(stock_locate).statistics.undone_unknown += 1;
        }
        facts.push(DerivedFact::Undone { ordinal: self.tape, number, stock_locate, match_number });
        self.tape += 1;
        let statistics = self.of(stock_locate).statistics;
        facts.push(DerivedFact::Statistics { stock_locate, statistics });
    }

    fn take_out(&mut self, trade: &DerivedTrade) {
        let of_day = |it: &&DerivedTrade| {
            it.stock_locate == trade.stock_locate
                && it.kind != TradeKind::PartOfCross
                && day_of(it.time_ns) == day_of(trade.time_ns)
        };
        // All trades after a known one are known.
        let next = self.trades.iter().filter(of_day).find(|it| it.number > trade.number);
        let next = next.map(|it| (it.price, it.number));
        let last = self.trades.iter().rfind(of_day);
        let last = last.map(|it| (it.price, it.number));
        let it = self.of(trade.stock_locate);
        let Derived { statistics, prices, .. } = it;
        statistics.undone += 1;
        statistics.volume = statistics.volume.saturating_sub(trade.lots);
        if trade.kind == TradeKind::PartOfCross {
            // The price of the cross stands.
            return;
        }
        let is_opening = statistics.open_number == trade.number;
        let is_last = statistics.last_number == trade.number;
        if let Some(count) = prices.get_mut(&trade.price) {
            *count -= 1;
            if *count == 0 {
                prices.remove(&trade.price);
            }
        }
        statistics.trades -= 1;
        statistics.high = prices.last_key_value().map(|(price, _)| *price);
        statistics.low = prices.first_key_value().map(|(price, _)| *price);
        if is_opening {
            (statistics.open, statistics.open_number) = price_and_number(next);
        }
        if is_last {
            (statistics.last, statistics.last_number) = price_and_number(last);
        }
    }
}

fn price_and_number(trade: Option<(u32, u64)>) -> (Option<u32>, u64) {
    (trade.map(|(price, _)| price), trade.map_or(0, |(_, number)| number))
}

/// The moment of a time of day: the one nearest to `now_ns`.
const fn moment(time_of_day: u64, now_ns: u64) -> u64 {
    let moment = now_ns - now_ns % NANOS_PER_DAY + time_of_day;
    if moment > now_ns + NANOS_PER_DAY / 2 {
        moment.saturating_sub(NANOS_PER_DAY)
    } else if moment + NANOS_PER_DAY / 2 < now_ns {
        moment + NANOS_PER_DAY
    } else {
        moment
    }
}

const fn day_of(moment_ns: u64) -> u32 {
    (moment_ns / NANOS_PER_DAY) as u32
}

#[cfg(test)]
mod tests;
