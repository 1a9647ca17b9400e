//! Books of extreme shapes: ten million resting orders, one price, a million prices, a market that
//! moves across the whole price range.
//!
//! They show whether memory is proportional to the orders, whether growth causes pauses, and whether a
//! shape slows the book down. Times are CPU time of the thread.
//!
//! Invariant: every shape is compared with the same normal book.

use std::hint::black_box;

use engine::{
    BATCH_MAX, Engine, LOOK_AHEAD_FROM,
    matcher::{BookIndex, Handle, LIMIT_MAX, Matcher, NewOrder},
};
use market::{
    CancelOrder, Command, EnterOrder, Event, Input, OrderKey, Price, Quantity, Sequence, SessionId,
    Side, Symbol, Timestamp,
};
use os::{SystemFiles, thread_cpu_ns, thread_page_faults};
use proof::rng::Rng;
use serde::Serialize;

use super::market_set_up;

/// Resting orders in the largest shapes, before division.
pub const ORDERS: u64 = 10_000_000;

/// Resting orders in the shape that is the reference.
const ORDERS_FEW: u64 = 10_000;

/// Number of prices, in cents, over the whole range.
const PRICES: u64 = 20_000_000;

/// Sessions of the whole core.
const SESSIONS: u32 = 1_000;

/// The middle of the prices of the shapes that have one.
const MID: u64 = 1_000_000_000;

#[derive(Clone, Debug, Serialize)]
pub struct Resting {
    pub engine: &'static str,
    pub orders: u64,
    /// Memory per order in bytes: as the books count it, or for the whole core the growth of the process; `None` where
    /// the system does not report it.
    pub bytes_per_order: Option<f64>,
    /// Times of adding them while memory grows.
    pub growing: Adds,
    pub reserved: Adds,
    /// Nanoseconds to cancel a random order, with prefetching.
    pub cancel_ns: f64,
    /// Nanoseconds to cancel one of 10,000 random orders, with prefetching.
    pub cancel_few_ns: f64,
    /// Nanoseconds to cancel a random order, without prefetching.
    pub cancel_alone_ns: f64,
}

/// Times of adding single orders, reading the clock included. The same orders are added several times,
/// each time to new memory, and the minimum per order counts: a delay in every run is caused by the
/// code, a delay in one run by the machine.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Adds {
    /// The maximum, in nanoseconds.
    pub max_ns: u64,
    /// All but one in 100,000 take at most this, in nanoseconds.
    pub p99999_ns: u64,
    /// Orders that take longer than [`PAUSE_NS`].
    pub pauses: u64,
    /// The maximum over all runs, in nanoseconds.
    pub once_max_ns: u64,
    /// Additions in all runs that took longer than [`PAUSE_NS`].
    pub once_pauses: u64,
    pub page_faults: u64,
}

/// An addition that takes longer is a pause, in nanoseconds.
pub const PAUSE_NS: u64 = 100_000;

const ADD_RUNS: usize = 3;

#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    #[serde(rename = "shape")]
    pub name: &'static str,
    pub orders: u64,
    /// Nanoseconds for an order that rests and for the order or cancel that removes it, per operation.
    pub ns_per_op: f64,
    pub ratio: f64,
}

/// A book to which orders of one lot are added.
trait Holder {
    const NAME: &'static str;

    fn new() -> Self;

    /// Reserves memory for `orders` orders.
    fn reserve(&mut self, orders: u64);

    /// Adds an order that does not trade; returns the name by which it is canceled.
    fn add(&mut self, side: Side, price: u64) -> u64;

    fn cancel(&mut self, name: u64);

    /// Cancels orders, at most [`BATCH_MAX`], with their look-ups done together.
    fn cancel_batch(&mut self, names: &[u64]);

    /// Its memory in bytes, if it counts it.
    fn memory(&self) -> Option<u64> {
        None
    }
}

struct Books {
    matcher: Matcher,
    book: BookIndex,
}

impl Books {
    fn order(side: Side, price: u64) -> NewOrder<u64> {
        let (limit, quantity) = (Price(price), Quantity(1));
        NewOrder { side, limit, quantity, rests: true, payload: 0 }
    }

    fn prefetch_of(&self, side: Side, limits: &[u64]) {
        let enters = limits.iter().map(|limit| (self.book, side, Price(*limit)));
        self.matcher.prefetch([], enters);
    }

    /// Enters an order that trades with the best one of the other side.
    fn take(&mut self, side: Side) {
        let limit = if side.is_buy() { LIMIT_MAX.0 } else { 0 };
        let mut trades = 0;
        let entered = self.matcher.enter(self.book, &Self::order(side, limit), |_| trades += 1);
        assert!(
            entered.is_ok_and(|it| it.leaves.is_zero()) && trades == 1,
            "one lot meets one lot"
        );
    }
}

impl Holder for Books {
    const NAME: &'static str = "matching";

    fn new() -> Self {
        let mut matcher = Matcher::new();
        let book = matcher.add_book();
        Self { matcher, book }
    }

    fn reserve(&mut self, orders: u64) {
        self.matcher.reserve(orders as usize);
    }

    fn cancel_batch(&mut self, names: &[u64]) {
        self.matcher.prefetch(names.iter().map(|name| Handle::from_bits(*name)), []);
        names.iter().for_each(|name| self.cancel(*name));
    }

    fn add(&mut self, side: Side, price: u64) -> u64 {
        let entered = self.matcher.enter(self.book, &Self::order(side, price), |_| ());
        entered.ok().and_then(|it| it.handle).expect("it is in bounds and meets none").to_bits()
    }

    fn cancel(&mut self, name: u64) {
        let canceled = self.matcher.cancel(Handle::from_bits(name));
        assert!(canceled.is_some(), "it rests");
    }

    fn memory(&self) -> Option<u64> {
        Some(self.matcher.memory() as u64)
    }
}

struct Whole {
    engine: Engine,
    symbol: Symbol,
    /// By session: the last order number used.
    numbers: Vec<u32>,
    next: usize,
}

impl Whole {
    fn apply(&mut self, command: Command) -> u32 {
        let sequence = self.engine.sequence().next();
        let timestamp = Timestamp(sequence.0);
        let mut count = 0;
        self.engine.apply(&Input { sequence, timestamp, command }, &mut |event| {
            count += booked_or_canceled(&event);
        });
        count
    }
}

/// 1 for an order that came into the book or left it, and the event was made.
fn booked_or_canceled(event: &Event) -> u32 {
    u32::from(matches!(black_box(event), Event::Booked(_) | Event::Canceled(_)))
}

impl Holder for Whole {
    const NAME: &'static str = "engine";

    fn new() -> Self {
        let symbol = Symbol::new("SHAPE").expect("up to eight characters");
        let mut whole =
            Self { engine: Engine::new(), symbol, numbers: vec![0; SESSIONS as usize], next: 0 };
        for command in market_set_up(&[symbol], (Price(1), Quantity(1)), SESSIONS) {
            whole.apply(command);
        }
        whole
    }

    fn reserve(&mut self, orders: u64) {
        self.engine.reserve_memory(orders as usize);
    }

    fn cancel_batch(&mut self, names: &[u64]) {
        let last = self.engine.sequence().0;
        let input = |number: u64, name: u64| Input {
            sequence: Sequence(last + number),
            timestamp: Timestamp(last + number),
            command: cancel(name),
        };
        let mut inputs = [input(0, 0); BATCH_MAX];
        for ((place, name), number) in inputs.iter_mut().zip(names).zip(1..) {
            *place = input(number, *name);
        }
        let inputs = &inputs[..names.len()];
        let mut batch = self.engine.batch(inputs, LOOK_AHEAD_FROM, ring::fetch);
        while let Some(input) = batch.next_input() {
            let mut canceled = 0;
            input.apply_to(&mut |event| canceled += booked_or_canceled(&event));
            assert_eq!(canceled, 1, "it rested");
        }
    }

    fn add(&mut self, side: Side, price: u64) -> u64 {
        self.next = (self.next + 1) % self.numbers.len();
        self.numbers[self.next] += 1;
        let (session_id, user_ref_num) = (SessionId(self.next as u16 + 1), self.numbers[self.next]);
        let key = OrderKey { session_id, channel: 0, user_ref_num };
        let order = EnterOrder::limit(key, side, self.symbol, Quantity(1), Price(price));
        assert_eq!(self.apply(Command::Enter(order)), 1, "it rests");
        u64::from(session_id.0) << 32 | u64::from(user_ref_num)
    }

    fn cancel(&mut self, name: u64) {
        assert_eq!(self.apply(cancel(name)), 1, "it rested");
    }
}

/// The command that cancels the whole of the order with this name.
fn cancel(name: u64) -> Command {
    let session_id = SessionId((name >> 32) as u16);
    let key = OrderKey { session_id, channel: 0, user_ref_num: name as u32 };
    Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
}

/// Measures `orders` resting orders in the core's books, and in the whole core.
pub fn resting(orders: u64, seed: u64) -> Vec<Resting> {
    // The whole core first: its memory is the growth of the process, before anything was freed.
    let whole = resting_in::<Whole>(orders, seed);
    vec![resting_in::<Books>(orders, seed), whole]
}

fn resting_in<H: Holder>(orders: u64, seed: u64) -> Resting {
    let mut rng = Rng::new(seed);
    // Not 0, so that the pages are allocated now and not counted as memory of the orders.
    let mut names = vec![u64::MAX; orders as usize];
    let before = resident_bytes();
    let mut holder = H::new();
    add_all(&mut holder, &mut names, seed);
    let taken = before.zip(resident_bytes()).map(|(before, after)| after.saturating_sub(before));
    let taken = holder.memory().or(taken);
    shuffle(&mut names, &mut rng);
    let (canceled, others) = names.split_at(names.len().min(1_000_000));
    let cancel_ns = cancel_all(&mut holder, canceled) as f64 / canceled.len().max(1) as f64;
    let alone = &others[..others.len().min(1_000_000)];
    let started = thread_cpu_ns();
    for &name in alone {
        holder.cancel(name);
    }
    let cancel_alone_ns = (thread_cpu_ns() - started) as f64 / alone.len().max(1) as f64;
    drop(holder);
    let growing = adds(orders, seed, H::new, H::add);
    let reserve = || {
        let mut holder = H::new();
        holder.reserve(orders);
        holder
    };
    let reserved = adds(orders, seed, reserve, H::add);
    Resting {
        engine: H::NAME,
        orders,
        bytes_per_order: taken.map(|taken| taken as f64 / orders.max(1) as f64),
        growing,
        reserved,
        cancel_ns,
        cancel_alone_ns,
        cancel_few_ns: cancel_few::<H>(&mut rng),
    }
}

fn add_all<H: Holder>(holder: &mut H, names: &mut [u64], seed: u64) {
    let mut rng = Rng::new(seed);
    for name in names {
        let (side, price) = near(&mut rng, 10_000);
        *name = holder.add(side, price);
    }
}

/// The times of the same loop without work: the part of [`Adds`] that the machine causes.
pub fn nothing(orders: u64, seed: u64) -> Adds {
    adds(orders, seed, || (), |(), _, price| price)
}

/// The time of each addition. All holders are kept, so that none reuses the memory of another.
fn adds<H>(
    orders: u64,
    seed: u64,
    mut make: impl FnMut() -> H,
    mut add: impl FnMut(&mut H, Side, u64) -> u64,
) -> Adds {
    let mut least = vec![u32::MAX; orders as usize];
    let mut holders = Vec::with_capacity(ADD_RUNS);
    let mut adds = Adds::default();
    for _ in 0..ADD_RUNS {
        let mut rng = Rng::new(seed);
        let mut holder = make();
        let faults_before = thread_page_faults();
        let mut started = thread_cpu_ns();
        for least in &mut least {
            let (side, price) = near(&mut rng, 10_000);
            black_box(add(&mut holder, side, price));
            let ended = thread_cpu_ns();
            let took = ended - started;
            started = ended;
            *least = u32::try_from(took).unwrap_or(u32::MAX).min(*least);
            adds.once_max_ns = adds.once_max_ns.max(took);
            adds.once_pauses += u64::from(PAUSE_NS < took);
        }
        adds.page_faults += thread_page_faults() - faults_before;
        holders.push(holder);
    }
    least.sort_unstable();
    let place = least.len().saturating_sub(1 + least.len() / 100_000);
    adds.p99999_ns = least.get(place).copied().unwrap_or(0).into();
    adds.max_ns = least.last().copied().unwrap_or(0).into();
    adds.pauses = least.iter().filter(|took| PAUSE_NS < u64::from(**took)).count() as u64;
    adds
}

/// Cancels orders in batches; returns the nanoseconds.
fn cancel_all<H: Holder>(holder: &mut H, names: &[u64]) -> u64 {
    let started = thread_cpu_ns();
    names.chunks(BATCH_MAX).for_each(|batch| holder.cancel_batch(batch));
    thread_cpu_ns() - started
}

/// Nanoseconds of a cancel among few orders.
fn cancel_few<H: Holder>(rng: &mut Rng) -> f64 {
    let mut holder = H::new();
    let (mut cpu_ns, mut count) = (0, 0);
    for _ in 0..50 {
        let mut names: Vec<u64> = (0..ORDERS_FEW)
            .map(|_| {
                let (side, price) = near(rng, 1_000);
                holder.add(side, price)
            })
            .collect();
        shuffle(&mut names, rng);
        cpu_ns += cancel_all(&mut holder, &names);
        count += names.len();
    }
    cpu_ns as f64 / count as f64
}

/// Puts the core's books into each shape, with at most `orders` orders.
pub fn shapes(orders: u64, seed: u64) -> Vec<Shape> {
    let prices = (orders / 10).max(1);
    let few = ORDERS_FEW.min(orders);
    let mut rng = Rng::new(seed);
    let normal = filled_and_taken(few, orders, |_| MID + rng.below(100));
    let mut scattered: Vec<u64> = (0..prices).map(|place| MID + place).collect();
    shuffle(&mut scattered, &mut Rng::new(seed));
    let measured = [
        ("near the market", orders, normal),
        ("one price", orders, filled_and_taken(orders, orders, |_| MID)),
        (
            "one order a price",
            prices,
            filled_and_taken(prices, prices, |place| scattered[place as usize]),
        ),
        ("from end to end", orders, driven(orders, few, PRICES)),
        ("in strides", orders, driven(orders, few, LIMIT_MAX.0)),
        ("to and fro", orders, to_and_fro(orders, few)),
    ];
    measured
        .map(|(name, orders, ns_per_op)| Shape {
            name,
            orders,
            ns_per_op,
            ratio: ns_per_op / normal,
        })
        .to_vec()
}

/// Fills a book with `at_a_time` sell orders, then trades with each, until `orders` orders are done;
/// nanoseconds per order.
fn filled_and_taken(at_a_time: u64, orders: u64, mut price: impl FnMut(u64) -> u64) -> f64 {
    let mut books = Books::new();
    let rounds = (orders / at_a_time).max(1);
    let started = thread_cpu_ns();
    for _ in 0..rounds {
        for first in (0..at_a_time).step_by(BATCH_MAX) {
            let mut prices = [0; BATCH_MAX];
            let prices = &mut prices[..(at_a_time - first).min(BATCH_MAX as u64) as usize];
            for (limit, place) in prices.iter_mut().zip(first..) {
                *limit = price(place);
            }
            books.prefetch_of(Side::Sell, prices);
            for &limit in &*prices {
                books.add(Side::Sell, limit);
            }
        }
        for place in 0..at_a_time {
            if place % BATCH_MAX as u64 == 0 {
                books.prefetch_of(Side::Buy, &[LIMIT_MAX.0; BATCH_MAX]);
            }
            books.take(Side::Buy);
        }
    }
    (thread_cpu_ns() - started) as f64 / (rounds * at_a_time) as f64
}

/// A market that moves through `prices` prices: each order is canceled `at_a_time` orders later.
fn driven(orders: u64, at_a_time: u64, prices: u64) -> f64 {
    let step = (prices / orders.max(1)).max(1);
    canceled_later(orders, at_a_time, |place| (place * step).min(LIMIT_MAX.0))
}

/// A market that alternates between two distant prices with every order.
fn to_and_fro(orders: u64, at_a_time: u64) -> f64 {
    canceled_later(orders, at_a_time, |place| MID * (place % 2) + 1_000_000 + place % 100)
}

fn canceled_later(orders: u64, at_a_time: u64, price: impl Fn(u64) -> u64) -> f64 {
    let mut books = Books::new();
    let mut names = vec![u64::MAX; at_a_time.max(1) as usize];
    let started = thread_cpu_ns();
    for place in 0..orders {
        let name = &mut names[(place % at_a_time.max(1)) as usize];
        if *name != u64::MAX {
            books.cancel(*name);
        }
        *name = books.add(Side::Sell, price(place));
    }
    (thread_cpu_ns() - started) as f64 / orders.max(1) as f64
}

/// A side and a price on it, within `distance` of the middle.
fn near(rng: &mut Rng, distance: u64) -> (Side, u64) {
    let away = 1 + rng.below(distance);
    if rng.below(2) == 0 { (Side::Buy, MID - away) } else { (Side::Sell, MID + away) }
}

fn shuffle(names: &mut [u64], rng: &mut Rng) {
    for last in (1..names.len()).rev() {
        names.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

fn resident_bytes() -> Option<u64> {
    SystemFiles::of_this_machine().memory("self", "VmRSS:")
}
