//! Books of shapes that no flow has: ten million resting orders, one price, a million prices, a
//! market that crosses the whole price range.
//!
//! They answer whether memory follows the orders, whether growing ever pauses, and whether a shape
//! makes the book slower by more than a few times. Times are CPU time of the thread.

use std::{fs, hint::black_box};

use engine::{
    AHEAD_MAX, Engine,
    matcher::{BookIndex, Handle, LIMIT_MAX, Matcher, NewOrder},
};
use market::{
    AddInstrument, AddSession, CancelOrder, Command, EnterOrder, Event, Firm, Input, OrderKey,
    Price, Quantity, SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text, Timestamp,
};
use os::{thread_cpu_ns, thread_page_faults};
use proof::rng::Rng;
use serde_json::{Value, json};

/// Orders that rest in the largest shapes, before division.
pub const ORDERS: u64 = 10_000_000;

/// So many rest in the shape that the others are compared with.
const ORDERS_FEW: u64 = 10_000;

/// From end to end there are so many prices in cents.
const PRICES: u64 = 20_000_000;

/// The middle of the prices of the shapes that have one.
const MID: u64 = 1_000_000_000;

/// What many resting orders take.
#[derive(Clone, Debug)]
pub struct Resting {
    /// Who holds them.
    pub engine: &'static str,
    /// How many rest.
    pub orders: u64,
    /// What they take, by order: of the books by themselves what these know of, of the whole core what
    /// the process took; `None` where the system does not say.
    pub bytes_per_order: Option<f64>,
    /// What adding them took, where memory is taken as they come.
    pub growing: Adds,
    /// The same where memory for all of them was taken before the first.
    pub reserved: Adds,
    /// To cancel any of them, looking ahead.
    pub cancel_ns: f64,
    /// To cancel any of 10,000, looking ahead.
    pub cancel_few_ns: f64,
    /// To cancel any of them, each by itself.
    pub cancel_alone_ns: f64,
}

/// How long single orders take to be added, the timer's own time included. The same orders are added
/// several times, each time to new memory, and of each order the shortest counts: what is long every
/// time is ours, and what is long once is the machine's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adds {
    /// No order takes longer, in nanoseconds.
    pub max_ns: u64,
    /// All but one in a hundred thousand take no longer, in nanoseconds.
    pub p99999_ns: u64,
    /// So many take longer than [`PAUSE_NS`].
    pub pauses: u64,
    /// The longest that one took in any run, in nanoseconds.
    pub once_max_ns: u64,
    /// So often one took longer than [`PAUSE_NS`] in any run.
    pub once_pauses: u64,
    /// So often the thread waited for the system to give it memory, in all runs.
    pub page_faults: u64,
}

/// An order that takes longer is a pause.
pub const PAUSE_NS: u64 = 100_000;

/// So often the same orders are added.
const ADD_RUNS: usize = 3;

/// What a shape costs.
#[derive(Clone, Debug)]
pub struct Shape {
    /// As it is printed.
    pub name: &'static str,
    /// Orders that came in.
    pub orders: u64,
    /// For an order that rests, and one or a cancel that takes it away.
    pub ns_per_op: f64,
    /// How many times that of orders near the market.
    pub ratio: f64,
}

/// A book that orders of one lot are added to.
trait Holder {
    const NAME: &'static str;

    fn new() -> Self;

    /// Takes memory for so many orders.
    fn reserve(&mut self, orders: u64);

    /// Adds an order that meets none; what cancels it.
    fn add(&mut self, side: Side, price: u64) -> u64;

    fn cancel(&mut self, name: u64);

    /// Looks at what is needed to cancel some orders, up to [`AHEAD_MAX`].
    fn look_ahead(&self, names: &[u64]);

    /// What it knows of its memory, in bytes.
    fn memory(&self) -> Option<u64> {
        None
    }
}

/// The books of the core by themselves.
struct Books {
    matcher: Matcher,
    book: BookIndex,
}

impl Books {
    fn order(side: Side, price: u64) -> NewOrder<u64> {
        let (limit, quantity) = (Price(price), Quantity(1));
        NewOrder { side, limit, quantity, rests: true, payload: 0 }
    }

    /// Looks at what orders with these limits will need.
    fn look_ahead_of(&self, side: Side, limits: &[u64]) {
        let enters = limits.iter().map(|limit| (self.book, side, Price(*limit)));
        self.matcher.look_ahead([], enters);
    }

    /// An order that trades with the best one of the other side.
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

    fn look_ahead(&self, names: &[u64]) {
        self.matcher.look_ahead(names.iter().map(|name| Handle::from_bits(*name)), []);
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

/// The whole core with a thousand sessions.
struct Whole {
    engine: Engine,
    symbol: Symbol,
    /// By session: the last number used.
    numbers: Vec<u32>,
    next: usize,
}

impl Whole {
    fn apply(&mut self, command: Command) -> u32 {
        let sequence = self.engine.sequence().next();
        let timestamp = Timestamp(sequence.0);
        let mut told = 0;
        self.engine.apply(&Input { sequence, timestamp, command }, &mut |event| {
            told += u32::from(matches!(event, Event::Booked(_) | Event::Canceled(_)));
            black_box(&event);
        });
        told
    }
}

impl Holder for Whole {
    const NAME: &'static str = "engine";

    fn new() -> Self {
        let symbol = Symbol::new("SHAPE").expect("up to eight characters");
        let mut whole = Self { engine: Engine::new(), symbol, numbers: vec![0; 1_000], next: 0 };
        whole.apply(Command::System(SystemEvent::StartOfSystemHours));
        let (price_increment, round_lot) = (Price(1), Quantity(1));
        whole.apply(Command::AddInstrument(AddInstrument { symbol, price_increment, round_lot }));
        for number in 0..whole.numbers.len() {
            whole.apply(Command::AddSession(AddSession {
                username: Text::new(&format!("U{number:05}")).expect("six characters"),
                firm: Firm::new("SHAP").expect("four characters"),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            }));
        }
        whole
    }

    fn reserve(&mut self, orders: u64) {
        self.engine.reserve_memory(orders as usize);
    }

    fn look_ahead(&self, names: &[u64]) {
        let input = |name: &u64| Input {
            sequence: self.engine.sequence(),
            timestamp: Timestamp(0),
            command: cancel(*name),
        };
        let mut inputs = [input(&0); AHEAD_MAX];
        for (place, name) in inputs.iter_mut().zip(names) {
            *place = input(name);
        }
        self.engine.look_ahead(&inputs[..names.len().min(AHEAD_MAX)], ring::fetch);
    }

    fn add(&mut self, side: Side, price: u64) -> u64 {
        self.next = (self.next + 1) % self.numbers.len();
        self.numbers[self.next] += 1;
        let (session_id, user_ref_num) = (SessionId(self.next as u16 + 1), self.numbers[self.next]);
        let key = OrderKey { session_id, channel: 0, user_ref_num };
        let order = EnterOrder::limit(key, side, self.symbol, Quantity(1), Price(price));
        let told = self.apply(Command::Enter(order));
        assert_eq!(told, 1, "it rests");
        u64::from(session_id.0) << 32 | u64::from(user_ref_num)
    }

    fn cancel(&mut self, name: u64) {
        let told = self.apply(cancel(name));
        assert_eq!(told, 1, "it rested");
    }
}

/// What cancels an order of this name as a whole.
fn cancel(name: u64) -> Command {
    let session_id = SessionId((name >> 32) as u16);
    let key = OrderKey { session_id, channel: 0, user_ref_num: name as u32 };
    Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
}

/// Lets so many orders rest in the core's books, and in the whole core.
#[must_use]
pub fn resting(orders: u64, seed: u64) -> Vec<Resting> {
    // What the process took is asked where nothing was given back to it before.
    let whole = resting_in::<Whole>(orders, seed);
    vec![resting_in::<Books>(orders, seed), whole]
}

fn resting_in<H: Holder>(orders: u64, seed: u64) -> Resting {
    let mut rng = Rng::new(seed);
    // Not 0, so that it is written to and not taken for memory of the orders.
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

/// Adds orders until each name is one.
fn add_all<H: Holder>(holder: &mut H, names: &mut [u64], seed: u64) {
    let mut rng = Rng::new(seed);
    for name in names {
        let (side, price) = near(&mut rng, 10_000);
        *name = holder.add(side, price);
    }
}

/// What doing nothing takes as often: what of [`Adds`] is the machine's own.
#[must_use]
pub fn nothing(orders: u64, seed: u64) -> Adds {
    adds(orders, seed, || (), |(), _, price| price)
}

/// How long adding each takes. All holders are kept, so that none uses the memory of the one before.
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

/// Cancels orders, looking ahead; how long it took, in nanoseconds.
fn cancel_all<H: Holder>(holder: &mut H, names: &[u64]) -> u64 {
    let started = thread_cpu_ns();
    for batch in names.chunks(AHEAD_MAX) {
        holder.look_ahead(batch);
        for &name in batch {
            holder.cancel(name);
        }
    }
    thread_cpu_ns() - started
}

/// What a cancel among few orders takes.
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

/// Puts the core's books into each shape, with so many orders at most.
#[must_use]
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

/// Fills a book with orders to sell, so many at a time, and has each taken; by order, of which there
/// are `orders` in all.
fn filled_and_taken(at_a_time: u64, orders: u64, mut price: impl FnMut(u64) -> u64) -> f64 {
    let mut books = Books::new();
    let rounds = (orders / at_a_time).max(1);
    let started = thread_cpu_ns();
    for _ in 0..rounds {
        for first in (0..at_a_time).step_by(AHEAD_MAX) {
            let mut prices = [0; AHEAD_MAX];
            let prices = &mut prices[..(at_a_time - first).min(AHEAD_MAX as u64) as usize];
            for (limit, place) in prices.iter_mut().zip(first..) {
                *limit = price(place);
            }
            books.look_ahead_of(Side::Sell, prices);
            for &limit in &*prices {
                books.add(Side::Sell, limit);
            }
        }
        for place in 0..at_a_time {
            if place % AHEAD_MAX as u64 == 0 {
                books.look_ahead_of(Side::Buy, &[LIMIT_MAX.0; AHEAD_MAX]);
            }
            books.take(Side::Buy);
        }
    }
    (thread_cpu_ns() - started) as f64 / (rounds * at_a_time) as f64
}

/// A market that goes through so many prices: each order is canceled some orders later.
fn driven(orders: u64, at_a_time: u64, prices: u64) -> f64 {
    let step = (prices / orders.max(1)).max(1);
    canceled_later(orders, at_a_time, |place| (place * step).min(LIMIT_MAX.0))
}

/// A market that jumps between two far places with every order.
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

/// A side and a price on it, within a distance of the middle.
fn near(rng: &mut Rng, distance: u64) -> (Side, u64) {
    let away = 1 + rng.below(distance);
    if rng.below(2) == 0 { (Side::Buy, MID - away) } else { (Side::Sell, MID + away) }
}

fn shuffle(names: &mut [u64], rng: &mut Rng) {
    for last in (1..names.len()).rev() {
        names.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

/// What the process has in memory.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

impl Resting {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "engine": self.engine,
            "orders": self.orders,
            "bytes_per_order": self.bytes_per_order,
            "growing": self.growing.to_json(),
            "reserved": self.reserved.to_json(),
            "cancel_alone_ns": self.cancel_alone_ns,
            "cancel_ns": self.cancel_ns,
            "cancel_few_ns": self.cancel_few_ns,
        })
    }
}

impl Adds {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "max_ns": self.max_ns,
            "p99999_ns": self.p99999_ns,
            "pauses": self.pauses,
            "once_max_ns": self.once_max_ns,
            "once_pauses": self.once_pauses,
            "page_faults": self.page_faults,
        })
    }
}

impl Shape {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "shape": self.name,
            "orders": self.orders,
            "ns_per_op": self.ns_per_op,
            "ratio": self.ratio,
        })
    }
}
