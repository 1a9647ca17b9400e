//! Once warm, the engine takes no memory from the allocator, whatever the requests.
#![allow(unsafe_code, reason = "counting what is allocated takes an allocator of one's own")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use engine::Engine;
use market::{
    AccountId, AddAccount, AddAsset, AddInstrument, AddSession, AssetId, AssignSession,
    CancelOrder, Command, Conditions, Deposit, Display, EnterOrder, Event, Firm, Handling, Input,
    Instructions, Lots, MassCancel, ModifyOrder, MoneyClass, MoneyCommand, MoneyTerms,
    OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, ReplaceOrder, ReplaceTerms,
    SelfMatchPrevention, SessionId, SetFees, SetTerms, Side, SplitMix64, Symbol, SystemEvent, Text,
    Ticks, TimeInForce, Timestamp, Units,
};

/// The system's allocator, with a count of the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on as it came; counting neither allocates nor touches the memory, because the counter is
// made with the thread and needs no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `System` gave the memory.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and `System` gave the memory.
        unsafe { System.realloc(pointer, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SESSIONS: u64 = 4;
const INSTRUMENTS: u64 = 8;

fn symbol(instrument: u64) -> Symbol {
    Symbol::from_bytes([b'A' + instrument as u8; 8]).unwrap()
}

/// A market that wanders, and the requests that meet it.
struct Flow {
    random: SplitMix64,
    mid: i64,
    numbers: [u32; SESSIONS as usize],
    /// Orders entered and not canceled; some of them are filled.
    live: Vec<OrderKey>,
    live_max: usize,
    /// Percentage of resting orders that are pegged.
    pegs_percent: u64,
    /// True if every other order has instructions: a trigger, a parent, a minimum, an expiry, a
    /// shown quantity, or price sliding.
    tells: bool,
}

impl Flow {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn next_key(&mut self, session: u64) -> OrderKey {
        let number = &mut self.numbers[session as usize];
        *number += 1;
        let session_id = SessionId(session as u16 + 1);
        OrderKey { session_id, channel: 0, user_ref_num: *number }
    }

    /// The instrument of most orders of this number: linked orders must be of one instrument.
    fn instrument_of(number: u32) -> u64 {
        u64::from(number) % INSTRUMENTS
    }

    /// Mostly near the market, sometimes far from it.
    fn price(&mut self, side: Side) -> Price {
        let distance = match self.below(10) {
            0 => self.below(20_000) as i64,
            _ => self.below(60) as i64 - 4,
        };
        let price = if side.is_buy() { self.mid - distance } else { self.mid + distance };
        Price(price as u64)
    }

    fn side(&mut self) -> Side {
        [Side::Buy, Side::Sell][self.below(2) as usize]
    }

    fn enter(&mut self) -> Command {
        let session = self.below(SESSIONS);
        let key = self.next_key(session);
        let side = self.side();
        let (order_type, time_in_force) = match self.below(20) {
            0 => (OrderType::Market, TimeInForce::Day),
            1 => (OrderType::Limit, TimeInForce::ImmediateOrCancel),
            _ => (OrderType::Limit, TimeInForce::Day),
        };
        if order_type == OrderType::Limit && time_in_force == TimeInForce::Day {
            self.live.push(key);
        }
        let price = self.price(side);
        let instrument = match self.tells {
            true => Self::instrument_of(key.user_ref_num),
            false => self.below(INSTRUMENTS),
        };
        let instructions = match order_type == OrderType::Limit && time_in_force.may_rest() {
            true => self.instructions(),
            false => Instructions::NONE,
        };
        let is_pegged = instructions.pricing.is_pegged();
        // Without a limit, which would keep it from following the market.
        let order_type = if is_pegged { OrderType::Market } else { order_type };
        // Orders that follow the market are to be moved, and others not to be hidden far from it.
        let displays = match (is_pegged, self.pegs_percent) {
            (true, _) => &[Display::Hidden],
            (false, 0) => Display::ALL,
            (false, _) => &[Display::Visible, Display::Attributable][..],
        };
        let mut order = EnterOrder {
            key,
            side,
            order_type,
            time_in_force,
            display: displays[self.below(displays.len() as u64) as usize],
            quantity: Quantity(1 + self.below(200)),
            price: if order_type == OrderType::Market { Price::ZERO } else { price },
            symbol: symbol(instrument),
            attributes: OrderAttributes { group_id: self.below(3) as u16, ..Default::default() },
            conditions: self.conditions(),
            instructions,
        };
        let may_rest = order_type == OrderType::Limit && time_in_force == TimeInForce::Day;
        if self.tells && may_rest && self.below(2) == 0 {
            self.instruct(&mut order);
        }
        Command::Enter(order)
    }

    fn instructions(&mut self) -> Instructions {
        if self.pegs_percent == 0 || self.below(100) >= self.pegs_percent {
            return Instructions::NONE;
        }
        let pricings = [Pricing::PrimaryPeg, Pricing::MarketPeg, Pricing::MidpointPeg];
        Instructions {
            pricing: pricings[self.below(3) as usize],
            offset: self.below(9) as i32 - 4,
            ..Instructions::NONE
        }
    }

    /// Gives an order instructions, and the time in force and conditions that fit them.
    fn instruct(&mut self, order: &mut EnterOrder) {
        let pricings = [Pricing::Stop, Pricing::TakeProfit, Pricing::TrailingStop];
        order.conditions.post_only = false;
        let instructions = &mut order.instructions;
        match self.below(10) {
            0..4 => {
                instructions.pricing = pricings[self.below(3) as usize];
                instructions.trigger = Ticks(self.price(order.side).0 as u32);
                if instructions.pricing == Pricing::TrailingStop {
                    instructions.offset = 1 + self.below(200) as i32;
                }
            }
            4 => {
                instructions.expires_s = 1_000 + self.below(5_000) as u32;
                order.time_in_force = TimeInForce::GoodTillTime;
            }
            5 => instructions.handling = Handling::ALL_OR_NONE,
            6 => order.conditions.minimum_quantity = Lots::new(1 + self.below(200)),
            7 => {
                order.conditions.post_only = true;
                instructions.handling = Handling::SLIDE;
            }
            8 => instructions.shown_quantity = Lots::new(2 + self.below(50)),
            _ => {
                let from = self.below(self.live.len() as u64) as usize;
                let key = order.key;
                let own = |it: &&OrderKey| it.session_id == key.session_id && **it != key;
                let Some(other) = self.live[from..].iter().find(own) else { return };
                match other.user_ref_num % 2 {
                    0 => instructions.parent = other.user_ref_num,
                    _ => instructions.partner = other.user_ref_num,
                }
                // Linked orders are of one instrument.
                order.symbol = symbol(Self::instrument_of(other.user_ref_num));
            }
        }
    }

    /// Half of the orders have instructions.
    fn conditions(&mut self) -> Conditions {
        if self.below(2) == 0 {
            return Conditions::NONE;
        }
        let preventions = SelfMatchPrevention::ALL;
        Conditions {
            self_match_prevention: preventions[self.below(preventions.len() as u64) as usize],
            post_only: self.below(4) == 0,
            ..Conditions::NONE
        }
    }

    fn next(&mut self) -> Command {
        self.mid = (self.mid + self.below(5) as i64 - 2).clamp(50_000, 150_000);
        let full = self.live.len() >= self.live_max;
        let what = self.below(100);
        if self.live.is_empty() || (!full && what < 55) {
            return self.enter();
        }
        let index = self.below(self.live.len() as u64) as usize;
        let key = self.live[index];
        match self.below(100) {
            0..70 => {
                self.live.swap_remove(index);
                Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
            }
            70..78 => Command::Cancel(CancelOrder { key, quantity: Quantity(1 + self.below(100)) }),
            78..84 => {
                let (side, quantity) = (self.side(), Quantity(1 + self.below(100)));
                Command::Modify(ModifyOrder { key, side, quantity })
            }
            84 if self.below(50) == 0 => Command::MassCancel(MassCancel {
                key: self.next_key(u64::from(key.session_id.0) - 1),
                firm: Firm::BLANK,
                symbol: Symbol::BLANK,
                side: None,
                group_id: Some(self.below(3) as u16),
            }),
            _ => {
                let replacement = self.next_key(u64::from(key.session_id.0) - 1);
                self.live[index] = replacement;
                let side = self.side();
                Command::Replace(ReplaceOrder {
                    original_user_ref_num: key.user_ref_num,
                    key: replacement,
                    terms: Some(ReplaceTerms::limit(
                        Quantity(1 + self.below(400)),
                        self.price(side),
                    )),
                })
            }
        }
    }
}

/// An engine and its inputs so far.
struct Venue {
    engine: Engine,
    events: u64,
    trades: u64,
}

impl Venue {
    fn apply(&mut self, command: Command) {
        let sequence = self.engine.sequence().next();
        let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
        self.engine.apply(&input, &mut |event| {
            self.events += 1;
            self.trades += u64::from(matches!(event, Event::Traded(_)));
        });
    }
}

/// The most orders of the busiest time, which comes first.
const BUSIEST: usize = 20_000;

/// An engine that is warm allocates nothing.
#[test]
fn warm_engine_allocates_nothing() {
    assert_eq!(warm_allocations(0, false, |_| ()), 0);
}

/// Nor does one with money: orders are paid for, trades settled and charged.
#[test]
fn warm_engine_with_money_allocates_nothing() {
    assert_eq!(warm_allocations(0, false, add_money), 0);
}

/// Nor does one whose orders follow the market and move with it; their number is so large that the windows of their
/// ladders reach their full width before.
#[test]
fn warm_engine_with_pegs_allocates_nothing() {
    assert_eq!(warm_allocations(20, false, add_money), 0);
}

/// Nor does one with instructions: half of the orders wait for triggers, other orders or their minimum, expire, or are
/// shown in part.
#[test]
fn warm_engine_with_orders_that_wait_allocates_nothing() {
    assert_eq!(warm_allocations(0, true, |_| ()), 0);
}

/// Two assets, an account with enough of both for each session, terms and fees.
fn add_money(venue: &mut Venue) {
    let mut add = |command| venue.apply(Command::Money(command));
    let [base, quote] = [AssetId(1), AssetId(2)];
    for name in [*b"SHARES  ", *b"USD     "].map(|it| Text::from_bytes(it).unwrap()) {
        add(MoneyCommand::AddAsset(AddAsset { name, decimals: 0 }));
    }
    for tier in 0..16 {
        add(MoneyCommand::SetFees(SetFees { tier, maker_ppm: -10, taker_ppm: 250 }));
    }
    for number in 1..=SESSIONS as u8 {
        let name = Text::from_bytes([b'A' + number; 8]).unwrap();
        add(MoneyCommand::AddAccount(AddAccount { name }));
        let account_id = AccountId(number.into());
        let session_id = SessionId(number.into());
        add(MoneyCommand::AssignSession(AssignSession { session_id, account_id }));
        for asset_id in [base, quote] {
            let amount = Units::new(1 << 60);
            add(MoneyCommand::Deposit(Deposit { account_id, asset_id, amount }));
        }
    }
    for instrument in 0..INSTRUMENTS as u8 {
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base,
            quote,
            base_units: 1_000,
            quote_numerator: 1,
            quote_denominator: 7,
            quantity_max: Quantity(999_999),
        };
        let symbol = symbol(instrument.into());
        add(MoneyCommand::SetTerms(SetTerms { symbol, terms }));
    }
}

/// The number of allocations of 100,000 commands of every kind, after a busier time.
fn warm_allocations(pegs_percent: u64, tells: bool, set_up: impl Fn(&mut Venue)) -> u64 {
    const SEED: u64 = 1;
    let mut venue = Venue { engine: Engine::new(), events: 0, trades: 0 };
    let mut flow = Flow {
        random: SplitMix64::new(SEED),
        mid: 100_000,
        numbers: [0; SESSIONS as usize],
        live: Vec::with_capacity(BUSIEST + 1),
        live_max: BUSIEST,
        pegs_percent,
        tells,
    };
    for instrument in 0..INSTRUMENTS as u8 {
        venue.apply(Command::AddInstrument(AddInstrument {
            symbol: Symbol::from_bytes([b'A' + instrument; 8]).unwrap(),
            price_increment: Price(1),
            round_lot: Quantity(100),
        }));
    }
    for session in 0..SESSIONS as u8 {
        venue.apply(Command::AddSession(AddSession {
            username: Text::from_bytes([b'A' + session; 6]).unwrap(),
            firm: Firm::from_bytes([b'A' + session; 4]).unwrap(),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::DecrementBoth,
        }));
    }
    set_up(&mut venue);
    venue.apply(Command::System(SystemEvent::StartOfSystemHours));

    // Fewer orders with instructions enter the books, which grow meanwhile.
    let warm_up = if tells { 1_200_000 } else { 400_000 };
    for _ in 0..warm_up {
        venue.apply(flow.next());
    }
    flow.live_max = BUSIEST / 2;
    let (events, trades) = (venue.events, venue.trades);
    let before = ALLOCATIONS.get();
    for _ in 0..100_000 {
        venue.apply(flow.next());
    }
    let allocations = ALLOCATIONS.get() - before;
    let (events, trades) = (venue.events - events, venue.trades - trades);
    let live = venue.engine.counters().orders_live;
    println!(
        "seed {SEED}: {allocations} allocations, {events} events, {trades} trades, {live} live orders"
    );

    assert!(events > 100_000 && trades > 10_000 && live > 1_000, "the market is busy");
    venue.engine.check_invariants();
    allocations
}

/// The counter counts: a broken one would make the tests above pass.
#[test]
fn allocations_are_counted() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
