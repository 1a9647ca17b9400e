//! Data derived from the feed equals the engine's books and the statistics of its events, by a slow and obvious model.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use engine::Engine;
use gateway::{DerivedMirror, PriceLevel, PriceLevels, Statistics};
use market::{Event, InstrumentId, NANOS_PER_DAY, Output, Price, VenueEvent};
use proof::generator::{CommandFlow, Profile};
use ring::{AtomicGauge, Builder};

use crate::lossy_feed::Scene;

/// A trade, as an event reports it.
#[derive(Clone, Copy, Debug)]
struct Trade {
    number: u64,
    instrument_id: InstrumentId,
    day: u64,
    price: u32,
    lots: u64,
    /// For a trade of an auction, which counts only as part of the whole auction: whether the feed shows it.
    part: Option<bool>,
}

/// All trades of all days. Every question is answered from all of them.
#[derive(Default)]
struct Model {
    trades: Vec<Trade>,
    undone: BTreeSet<u64>,
    /// The number of undone trades of an earlier day, or never shown by the feed, by the day of the statistics.
    unknown: BTreeMap<(u16, u64), u64>,
}

impl Model {
    fn take(&mut self, output: &Output) {
        let day = output.timestamp.0 / NANOS_PER_DAY;
        let mut push = |number, instrument_id, price: u32, lots: u64, part| {
            self.trades.push(Trade { number, instrument_id, day, price, lots, part });
        };
        match &output.event {
            Event::Traded(it) => {
                let shown = !it.maker_shown.is_zero();
                let part = it.auction.map(|auction| shown || !auction.taker_shown.is_zero());
                push(it.trade_id.0, it.instrument_id, ticks(it.price), it.quantity.0, part);
            }
            Event::Venue(VenueEvent::Uncrossed(it)) if it.quantity.0 > 0 => {
                push(it.trade_id.0, it.instrument_id, ticks(it.price), it.quantity.0, None);
            }
            Event::Venue(VenueEvent::TradeBusted(it)) => {
                self.undo(it.trade.trade_id.0, it.trade.instrument_id, u64::MAX);
            }
            Event::Venue(VenueEvent::TradeCorrected(it)) => {
                let trade = &it.trade;
                push(
                    trade.trade_id.0,
                    trade.instrument_id,
                    ticks(trade.price),
                    trade.quantity.0,
                    None,
                );
                self.undo(it.busted.0, trade.instrument_id, trade.trade_id.0);
            }
            _ => {}
        }
    }

    /// The day of an instrument's last trade that counts, undone or not.
    fn day(&self, instrument_id: InstrumentId, but: u64) -> Option<u64> {
        let own = self.trades.iter().filter(|it| it.instrument_id == instrument_id);
        own.filter(|it| it.part.is_none() && it.number != but).map(|it| it.day).max()
    }

    /// Undoes a trade. Its correction counts only afterwards.
    fn undo(&mut self, number: u64, instrument_id: InstrumentId, correction: u64) {
        let day = self.day(instrument_id, correction).unwrap_or(0);
        let trade = self.trades.iter().find(|it| it.number == number).expect("it was a trade");
        if trade.day == day && trade.part != Some(false) {
            self.undone.insert(number);
        } else {
            *self.unknown.entry((instrument_id.0, day)).or_default() += 1;
        }
    }

    /// Open, high, low, last, volume, trades, undone and unknown of the last day.
    fn statistics(&self, instrument_id: InstrumentId) -> ([Option<u32>; 4], [u64; 4]) {
        let day = self.day(instrument_id, u64::MAX).unwrap_or(0);
        let own = self.trades.iter();
        let own: Vec<_> =
            own.filter(|it| it.instrument_id == instrument_id && it.day == day).collect();
        let stands = |it: &&&Trade| it.part.is_none() && !self.undone.contains(&it.number);
        let prices: Vec<_> = own.iter().filter(stands).map(|it| it.price).collect();
        let lots: u64 = own.iter().filter(stands).map(|it| it.lots).sum();
        let is_undone = |it: &&&Trade| self.undone.contains(&it.number);
        let parts = own.iter().filter(is_undone).filter(|it| it.part.is_some());
        let parts: u64 = parts.map(|it| it.lots).sum();
        let undone = own.iter().filter(is_undone).count() as u64;
        let unknown = self.unknown.get(&(instrument_id.0, day)).copied().unwrap_or(0);
        (
            [
                prices.first().copied(),
                prices.iter().max().copied(),
                prices.iter().min().copied(),
                prices.last().copied(),
            ],
            [lots - parts, prices.len() as u64, undone, unknown],
        )
    }
}

fn ticks(price: Price) -> u32 {
    u32::try_from(price.0).expect("prices of the feed have 32 bits")
}

fn figures(it: &Statistics) -> ([Option<u32>; 4], [u64; 4]) {
    ([it.open, it.high, it.low, it.last], [it.volume, it.trades, it.undone, it.undone_unknown])
}

/// The levels of an engine's book: its displayed lots, order by order.
fn levels(engine: &Engine, instrument_id: InstrumentId) -> PriceLevels {
    let mut levels = PriceLevels::default();
    let Some(book) = engine.book(instrument_id) else { return levels };
    let sides = [(true, book.bids().collect::<Vec<_>>()), (false, book.asks().collect())];
    for (is_bid, orders) in sides {
        let mut totals: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for order in orders.iter().filter(|order| !order.shown.is_zero()) {
            let total = totals.entry(ticks(order.price)).or_default();
            *total = (total.0 + order.shown.0, total.1 + 1);
        }
        for (price, (lots, orders)) in totals {
            levels.set(is_bid, PriceLevel { price, lots, orders });
        }
    }
    levels
}

/// After random commands of some days, auctions, busts and corrections among them, the levels are those of the engine's
/// books and the statistics those of its events, also after the mirror has missed updates.
#[test]
fn derived_data_is_what_the_engine_says() {
    let (mut repetitions, mut undone, mut days) = (0, 0, BTreeSet::new());
    for seed in 1..=6 {
        let mut scene = Scene::new(seed);
        let profile = Profile {
            live_orders: 500,
            venue_per_mille: 30,
            undo_per_mille: 30,
            ..Profile::default()
        };
        scene.flow = CommandFlow::new(seed, profile);
        let mut builder = Builder::new("derived", 2048);
        let from = builder.lossy("mirror");
        let (to, _) = builder.build();
        let wanted = Arc::new(AtomicGauge::new(0));
        scene.server.derive(to, Arc::clone(&wanted), 1 << 20);
        let mut mirror = DerivedMirror::new(from, wanted, 1000);
        let mut model = Model::default();
        let mut comparisons = 0;
        for round in 1..=200 {
            // Now and then the mirror falls behind.
            let is_late = round % 25 == 0;
            for _ in 0..if is_late { 6_000 } else { 100 } {
                scene.trade_seen(&mut |output| model.take(output));
                // The test covers several days.
                scene.now_ns += 10_000_000_000;
                scene.turn();
                while scene.feed.take().is_some() {}
                if !is_late {
                    mirror.poll(usize::MAX);
                }
            }
            for _ in 0..1000 {
                mirror.poll(usize::MAX);
                scene.turn();
                if mirror.is_held() && mirror.number() == scene.published() {
                    break;
                }
            }
            assert!(mirror.is_held(), "seed {seed}, round {round}");
            assert_eq!(mirror.number(), scene.published(), "seed {seed}, round {round}");
            for (number, own) in (1..).zip(mirror.instruments()) {
                let instrument_id = InstrumentId(number);
                let expected = levels(&scene.engine, instrument_id);
                assert_eq!(own.levels, expected, "seed {seed}, round {round}, {number}");
                let expected = model.statistics(instrument_id);
                let found = figures(&own.statistics);
                assert_eq!(found, expected, "seed {seed}, round {round}, instrument {number}");
                assert!(own.statistics.is_whole_day);
                undone += own.statistics.undone;
                days.insert(own.statistics.day);
                comparisons += 1;
            }
        }
        assert!(comparisons > 200, "seed {seed}");
        repetitions += mirror.request();
    }
    // Otherwise the test shows nothing.
    assert!(repetitions > 12 && undone > 0 && days.len() > 2, "{repetitions} {undone} {days:?}");
}
