//! Makes a flow. A plain book of sorted queues runs along, so that only live orders are canceled
//! and the trades are known.

use market::{Side, SplitMix64};

use super::{
    ComparisonFlow, FlowName, FlowOperation, OperationKind, Tally, USERS,
    plain_book::{PlainBooks, PlainOrder},
};
use crate::zipf::ZipfWeights;

/// Where every market begins, in ticks.
const MID: i64 = 50_000;
/// As far as a market wanders from there, in ticks.
const WANDER_MAX: i64 = 5_000;

/// The generator of the WLF1 flows; other flows use [`proof::rng::Rng`].
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn in_a_million(&mut self, parts: u64) -> bool {
        self.below(1_000_000) < parts
    }

    fn bit(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn side(&mut self) -> Side {
        if self.bit() { Side::Sell } else { Side::Buy }
    }

    fn quantity(&mut self, max: u64) -> u32 {
        1 + self.below(max) as u32
    }

    /// At least 1, geometric with a mean of `mean`.
    fn geometric(&mut self, mean: u64) -> i64 {
        let mut distance = 1;
        while self.below(mean) != 0 && distance < 4_000 {
            distance += 1;
        }
        distance
    }

    /// From 20 to 20,480, each doubling half as likely as the one before.
    fn heavy_tail(&mut self) -> i64 {
        let mut base = 20;
        let mut doublings = 0;
        while self.bit() && doublings < 9 {
            base *= 2;
            doublings += 1;
        }
        (base + self.below(base)) as i64
    }

    /// A price that mostly does not trade at once.
    fn passive_price(&mut self, mid: i64, side: Side) -> i64 {
        let distance = if self.below(10) == 0 { self.heavy_tail() } else { self.geometric(20) };
        if side.is_buy() { mid - distance } else { mid + distance }
    }
}

struct Market {
    live: Vec<u64>,
    live_wanted: usize,
    mid: i64,
}

impl Market {
    fn wander(&mut self, random: &mut Random) {
        if random.in_a_million(20_000) {
            let step = if random.bit() { 1 } else { -1 };
            self.mid = (self.mid + step).clamp(MID - WANDER_MAX, MID + WANDER_MAX);
        }
    }
}

struct World {
    books: PlainBooks,
    /// By order id: the index among the live orders of its symbol.
    places: Vec<u32>,
    markets: Vec<Market>,
    operations: Vec<FlowOperation>,
    tally: Tally,
}

impl World {
    fn next_order_id(&mut self) -> u64 {
        self.places.push(0);
        self.books.add_order()
    }

    fn enter(
        &mut self,
        kind: OperationKind,
        order_id: u64,
        symbol: usize,
        (side, price, quantity): (Side, i64, u32),
    ) {
        let user = (order_id % u64::from(USERS)) as u32;
        let operation =
            FlowOperation { order_id, price, quantity, user, symbol: symbol as u16, kind, side };
        self.operations.push(operation);
        if matches!(kind, OperationKind::Cancel | OperationKind::Replace) {
            self.forget(symbol, order_id);
        }
        let mut makers = Vec::new();
        let resting = self.books.apply(&operation, |maker, quantity, price| {
            self.tally.trade(maker, order_id, quantity, price);
            makers.push(maker);
        });
        makers.retain(|maker| self.books.order(*maker).leaves == 0);
        for maker in makers {
            self.forget(symbol, maker);
        }
        if resting > 0 {
            let live = &mut self.markets[symbol].live;
            self.places[order_id as usize] = live.len() as u32;
            live.push(order_id);
        }
    }

    fn enter_new(&mut self, symbol: usize, order: (Side, i64, u32)) {
        let order_id = self.next_order_id();
        self.enter(OperationKind::New, order_id, symbol, order);
    }

    fn cancel(&mut self, symbol: usize, order_id: u64) {
        let PlainOrder { price, leaves, side, .. } = self.books.order(order_id);
        self.enter(OperationKind::Cancel, order_id, symbol, (side, price, leaves));
    }

    fn any_live(&self, random: &mut Random, symbol: usize) -> u64 {
        let live = &self.markets[symbol].live;
        live[random.below(live.len() as u64) as usize]
    }

    /// Removes an order from the live ones.
    fn forget(&mut self, symbol: usize, order_id: u64) {
        let place = self.places[order_id as usize];
        let live = &mut self.markets[symbol].live;
        live.swap_remove(place as usize);
        if let Some(moved) = live.get(place as usize) {
            self.places[*moved as usize] = place;
        }
    }

    fn step(&mut self, random: &mut Random, symbol: usize) {
        let market = &mut self.markets[symbol];
        market.wander(random);
        let mid = market.mid;
        let (live, wanted) = (market.live.len() as i64, market.live_wanted as i64);
        let excess = (live - wanted) * 200_000 / (wanted / 10 + 1);
        let cancels = (350_000 + excess.clamp(-200_000, 200_000)) as u64;
        let chance = random.below(1_000_000);
        if chance < 50_000 {
            let side = random.side();
            let best = self.books.best_opposite(symbol, side).unwrap_or(mid);
            let through = random.below(6) as i64;
            let price = if side.is_buy() { best + through } else { best - through };
            let quantity = random.quantity(400);
            let order_id = self.next_order_id();
            let kind = match random.bit() {
                true => OperationKind::NewImmediateOrCancel,
                false => OperationKind::New,
            };
            self.enter(kind, order_id, symbol, (side, price, quantity));
        } else if chance < 100_000 && live > 0 {
            let order_id = self.any_live(random, symbol);
            let side = self.books.order(order_id).side;
            let price = random.passive_price(mid, side);
            let quantity = random.quantity(100);
            self.enter(OperationKind::Replace, order_id, symbol, (side, price, quantity));
        } else if chance < 100_000 + cancels && live > 0 {
            let order_id = self.any_live(random, symbol);
            self.cancel(symbol, order_id);
        } else {
            self.add_passive(random, symbol);
        }
    }

    fn add_passive(&mut self, random: &mut Random, symbol: usize) {
        let side = random.side();
        let price = random.passive_price(self.markets[symbol].mid, side);
        let quantity = random.quantity(100);
        self.enter_new(symbol, (side, price, quantity));
    }

    /// Flow B: new orders, of which three in ten trade at once, and cancels.
    fn grow(&mut self, random: &mut Random, divisor: u64) {
        let (news, cancels) = (1_000_000 / divisor, 300_000 / divisor);
        let (mut news_done, mut cancels_done) = (0, 0);
        while news_done + cancels_done < news + cancels {
            let symbol = usize::from(random.below(10) >= 7);
            let cancel = cancels_done < cancels && random.below(news + cancels) < cancels;
            if (cancel || news_done == news) && cancels_done < cancels {
                let symbol = if self.markets[symbol].live.is_empty() { 1 - symbol } else { symbol };
                if !self.markets[symbol].live.is_empty() {
                    let order_id = self.any_live(random, symbol);
                    self.cancel(symbol, order_id);
                    cancels_done += 1;
                    continue;
                }
                if news_done == news {
                    break;
                }
            }
            if news_done == news {
                continue;
            }
            let market = &mut self.markets[symbol];
            market.wander(random);
            let mid = market.mid;
            let side = random.side();
            // The sum of four is bell-shaped; 28 ticks to the passive side leave 3 in 10 to trade.
            let offset: i64 = (0..4).map(|_| random.below(101) as i64 - 50).sum();
            let price = if side.is_buy() { mid + offset - 28 } else { mid + offset + 28 };
            let quantity = random.quantity(100);
            self.enter_new(symbol, (side, price, quantity));
            news_done += 1;
        }
    }
}

pub(super) fn generate(name: FlowName, seed: u64, divisor: u64) -> (ComparisonFlow, Tally) {
    let (symbols, operations, live_wanted, prefill) = match name {
        FlowName::A => (1, 2_000_000 / divisor, 10_000, 10_000),
        FlowName::B => (2, 1_300_000 / divisor, 0, 0),
        FlowName::C => (100, 2_000_000 / divisor, 100_000, 100_000),
    };
    let mut random = Random(SplitMix64::new(seed ^ 0xA5A5_5A5A_1234_0000));
    let weights = ZipfWeights::new(symbols);
    let pick = |random: &mut Random| weights.pick(|bound| random.below(bound));
    let mut world = World {
        books: PlainBooks::new(weights.len(), 0),
        places: vec![0],
        markets: weights
            .shares(live_wanted)
            .map(|share| Market { live: Vec::new(), live_wanted: share.max(20) as usize, mid: MID })
            .collect(),
        operations: Vec::with_capacity((prefill + operations) as usize),
        tally: Tally::default(),
    };
    for _ in 0..prefill {
        let symbol = pick(&mut random);
        world.add_passive(&mut random, symbol);
    }
    if name == FlowName::B {
        world.grow(&mut random, divisor);
    } else {
        for _ in 0..operations {
            let symbol = pick(&mut random);
            world.step(&mut random, symbol);
        }
    }
    let flow = ComparisonFlow {
        seed,
        symbols: symbols as u16,
        users: USERS,
        order_id_max: world.books.order_id_max(),
        prefill: prefill as usize,
        operations: world.operations,
    };
    (flow, world.tally)
}
