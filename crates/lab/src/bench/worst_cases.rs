//! Commands that could delay others: the most expensive of each kind beside the median of plain orders, each in front
//! of as many resting orders as a session may have by default.
//!
//! Invariant: every command is timed alone, work that it leaves for later inputs with those, and the least of several
//! runs counts.

use std::hint::black_box;

use engine::Engine;
use market::{
    AccountId, AddAccount, AddAsset, Allocation, AssetId, AssignSession, BlockEntry, CancelOrder,
    Command, Conditions, ConfigureInstrument, Deposit, Display, EnterOrder, Event, Firm, Handling,
    Input, Instructions, InstrumentChange, Lots, MassCancel, MoneyClass, MoneyCommand, MoneyEvent,
    MoneyTerms, OrderKey, OrderType, Phase, Price, Pricing, Quantity, RemoveInstrument, Scope,
    SessionId, SetPhase, SetTerms, Side, Symbol, SystemEvent, Text, TimeInForce, Timestamp, Units,
    VenueCommand,
};
use serde::Serialize;
use venue::clock::SystemClock;

use super::{market_set_up, timed};

/// Resting orders in front of which each command acts, before division.
const RESTING: u64 = 99_000;

/// Commands of a kind that repeats, before division.
const COMMANDS: u64 = 100_000;

/// Mass cancels of nothing that a session may send at once, by default.
const MASS_CANCELS: u64 = 1_000;

/// Icebergs that an order meets, before division, and how often each shows its part.
const ICEBERGS: u64 = 1_000;
const PARTS: u64 = 100;

/// How often the same commands are measured.
const RUNS: usize = 3;

/// The price of the resting orders, in ticks.
const MID: u64 = 1_000_000;

/// Orders of one second expire then, in seconds.
const EXPIRES_S: u32 = 1_000_000;

/// The times of a kind of command.
#[derive(Clone, Debug, Serialize)]
pub struct WorstCase {
    #[serde(rename = "kind")]
    pub name: &'static str,
    /// Measured commands, including those that carry on the work of one.
    pub commands: u64,
    pub median_ns: u32,
    pub max_ns: u32,
    /// Events of the command that took longest.
    pub events: u32,
    /// The longest in medians of plain orders.
    pub ratio: f64,
}

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Pegs,
    Minimum,
    AllOrNone,
    MassCancelOfNone,
    MassCancel,
    /// As `MassCancel`, after almost all orders have been canceled one by one.
    MassCancelOfFew,
    KillSwitch,
    Removal,
    EndOfDay,
    Expiry,
    Auction,
    /// Each order has a price of its own, and all can trade.
    AuctionOfPrices,
    /// The first indication of an auction in which each order has a price of its own.
    Indication,
    /// The phase ends for which all orders are.
    AuctionOrders,
    TakesAll,
    /// Each order takes a lot of a price that is shared pro rata.
    ProRata,
    Icebergs,
    PaidMarket,
}

const KINDS: [(&str, Kind); 19] = [
    ("plain orders", Kind::Plain),
    ("pegged orders", Kind::Pegs),
    ("minimum quantity", Kind::Minimum),
    ("all or none, 64 wait", Kind::AllOrNone),
    ("mass cancel of none", Kind::MassCancelOfNone),
    ("mass cancel of all", Kind::MassCancel),
    ("mass cancel, few left", Kind::MassCancelOfFew),
    ("kill switch", Kind::KillSwitch),
    ("instrument removed", Kind::Removal),
    ("end of day", Kind::EndOfDay),
    ("expiry of all", Kind::Expiry),
    ("auction", Kind::Auction),
    ("auction, many prices", Kind::AuctionOfPrices),
    ("first indication", Kind::Indication),
    ("orders for an auction", Kind::AuctionOrders),
    ("order that takes all", Kind::TakesAll),
    ("pro rata", Kind::ProRata),
    ("icebergs", Kind::Icebergs),
    ("paid market order", Kind::PaidMarket),
];

/// A core with one instrument. Session 1 has the resting orders and sends the measured commands.
struct Attacked {
    engine: Engine,
    symbol: Symbol,
    /// By session: the last number used.
    numbers: Vec<u32>,
}

impl Attacked {
    fn new(kind: Kind, divisor: u64) -> Self {
        let symbol = Symbol::new("WORST").expect("up to eight characters");
        let mut attacked = Self { engine: Engine::new(), symbol, numbers: vec![0; 5] };
        for command in market_set_up(&[symbol], (Price(1), Quantity(1)), 5) {
            attacked.apply(command);
        }
        let orders = (RESTING / divisor).max(2);
        attacked.engine.reserve_memory(orders as usize);
        let rest = |attacked: &mut Self, side, price| {
            let order = attacked.order(1, side, price);
            attacked.apply(Command::Enter(order));
        };
        match kind {
            Kind::Pegs => attacked.add_pegs(),
            Kind::Icebergs => attacked.add_icebergs((ICEBERGS / divisor).max(1)),
            Kind::Expiry => {
                for _ in 0..orders {
                    let order = attacked.order(1, Side::Sell, MID + 1);
                    attacked.apply(Command::Enter(EnterOrder {
                        time_in_force: TimeInForce::GoodTillTime,
                        instructions: Instructions { expires_s: EXPIRES_S, ..Instructions::NONE },
                        ..order
                    }));
                }
            }
            Kind::Auction | Kind::AuctionOfPrices | Kind::Indication => {
                attacked.set_phase(Phase::PreOpen);
                for number in 0..orders / 2 {
                    let distance = if kind == Kind::Auction { 0 } else { number };
                    rest(&mut attacked, Side::Sell, MID - distance);
                    rest(&mut attacked, Side::Buy, MID + distance);
                }
            }
            Kind::AuctionOrders => {
                attacked.set_phase(Phase::PreOpen);
                for _ in 0..orders {
                    let order = attacked.order(1, Side::Sell, MID + 1);
                    let time_in_force = TimeInForce::AtTheOpen;
                    attacked.apply(Command::Enter(EnterOrder { time_in_force, ..order }));
                }
            }
            Kind::ProRata => {
                let change = InstrumentChange::Allocation(Allocation::ProRata);
                let change = ConfigureInstrument { symbol, change };
                attacked.apply(Command::Venue(VenueCommand::ConfigureInstrument(change)));
                for _ in 0..orders {
                    let order = attacked.order(1, Side::Sell, MID + 1);
                    attacked.apply(Command::Enter(EnterOrder { quantity: Quantity(10), ..order }));
                }
            }
            Kind::PaidMarket => {
                attacked.add_money(orders);
                (0..orders).for_each(|_| rest(&mut attacked, Side::Sell, MID + 1));
            }
            _ => {
                (0..orders).for_each(|_| rest(&mut attacked, Side::Sell, MID + 1));
                let waiting = if kind == Kind::AllOrNone { 64 } else { 0 };
                for _ in 0..waiting {
                    let order = attacked.order(2, Side::Buy, MID + 1);
                    attacked.apply(Command::Enter(EnterOrder {
                        quantity: Quantity(900_000),
                        instructions: Instructions {
                            handling: Handling::ALL_OR_NONE,
                            ..Instructions::NONE
                        },
                        ..order
                    }));
                }
                if kind == Kind::MassCancelOfFew {
                    for user_ref_num in 1..attacked.numbers[0].saturating_sub(40) {
                        let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
                        let quantity = Quantity::ZERO;
                        attacked.apply(Command::Cancel(CancelOrder { key, quantity }));
                    }
                }
            }
        }
        attacked
    }

    fn add_pegs(&mut self) {
        let bid = self.order(1, Side::Buy, MID - 10);
        self.apply(Command::Enter(bid));
        for session in 2..=5 {
            for _ in 0..256 {
                let peg = self.order(session, Side::Buy, MID);
                self.apply(Command::Enter(EnterOrder {
                    display: Display::Hidden,
                    instructions: Instructions {
                        pricing: Pricing::PrimaryPeg,
                        ..Instructions::NONE
                    },
                    ..peg
                }));
            }
        }
    }

    fn add_icebergs(&mut self, icebergs: u64) {
        for _ in 0..icebergs {
            let order = self.order(1, Side::Sell, MID + 1);
            self.apply(Command::Enter(EnterOrder {
                quantity: Quantity(PARTS),
                instructions: Instructions { shown_quantity: Lots::new(1), ..Instructions::NONE },
                ..order
            }));
        }
    }

    /// Cash terms: the owner of the resting orders can deliver them, and session 2 can buy one lot.
    fn add_money(&mut self, lots: u64) {
        let (base, quote) = (AssetId(1), AssetId(2));
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base,
            quote,
            base_units: 1,
            quote_numerator: 1,
            quote_denominator: 1,
            ..MoneyTerms::unpaid(Quantity(900_000))
        };
        let name = |name| Text::new(name).expect("up to eight characters");
        let deposit = |account_id, asset_id, amount| {
            MoneyCommand::Deposit(Deposit { account_id, asset_id, amount: Units::new(amount) })
        };
        let assign = |session_id, account_id| {
            MoneyCommand::AssignSession(AssignSession { session_id, account_id })
        };
        for command in [
            MoneyCommand::AddAsset(AddAsset { name: name("BASE"), decimals: 0 }),
            MoneyCommand::AddAsset(AddAsset { name: name("QUOTE"), decimals: 0 }),
            MoneyCommand::AddAccount(AddAccount { name: name("SELLER") }),
            MoneyCommand::AddAccount(AddAccount { name: name("BUYER") }),
            MoneyCommand::SetTerms(SetTerms { symbol: self.symbol, terms }),
            assign(SessionId(1), AccountId(1)),
            assign(SessionId(2), AccountId(2)),
            deposit(AccountId(1), base, u128::from(lots)),
            deposit(AccountId(2), quote, u128::from(MID)),
        ] {
            self.apply(Command::Money(command));
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        self.apply(Command::Venue(VenueCommand::SetPhase(SetPhase::new(self.symbol, phase))));
    }

    fn order(&mut self, session: u16, side: Side, price: u64) -> EnterOrder {
        EnterOrder::limit(self.key(session), side, self.symbol, Quantity(1), Price(price))
    }

    fn key(&mut self, session: u16) -> OrderKey {
        let number = &mut self.numbers[usize::from(session) - 1];
        *number += 1;
        OrderKey { session_id: SessionId(session), channel: 0, user_ref_num: *number }
    }

    /// Applies a command; returns the number of its events.
    fn apply(&mut self, command: Command) -> u32 {
        self.apply_at(Timestamp(self.engine.timestamp().0 + 1), command)
    }

    fn apply_at(&mut self, timestamp: Timestamp, command: Command) -> u32 {
        let sequence = self.engine.sequence().next();
        let mut events = 0;
        self.engine.apply(&Input { sequence, timestamp, command }, &mut |event| {
            events += 1;
            assert!(!matches!(event, Event::Money(MoneyEvent::Declined(_))), "{event:?}");
            black_box(&event);
        });
        events
    }

    /// The command of a kind that repeats.
    fn command(&mut self, kind: Kind, nth: u64) -> Command {
        match kind {
            // More than there is.
            Kind::Minimum => Command::Enter(EnterOrder {
                quantity: Quantity(900_000),
                time_in_force: TimeInForce::ImmediateOrCancel,
                conditions: Conditions { minimum_quantity: Lots::new(900_000), ..Conditions::NONE },
                ..self.order(1, Side::Buy, MID + 1)
            }),
            // A group without orders: all others are looked at, after each command some of them.
            Kind::MassCancelOfNone => Command::MassCancel(MassCancel {
                key: self.key(1),
                firm: Firm::BLANK,
                symbol: self.symbol,
                side: None,
                group_id: Some((nth % 1_000) as u16 + 1),
            }),
            Kind::ProRata => Command::Enter(self.order(2, Side::Buy, MID + 1)),
            // More than its account can pay.
            Kind::PaidMarket => Command::Enter(EnterOrder {
                order_type: OrderType::Market,
                quantity: Quantity(900_000),
                ..self.order(2, Side::Buy, 0)
            }),
            // A better price, then its cancel.
            _ if nth.is_multiple_of(2) => Command::Enter(self.order(1, Side::Buy, MID - 5)),
            _ => {
                let user_ref_num = self.numbers[0];
                let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
                Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
            }
        }
    }

    /// The command of a kind that is given once, and its time.
    fn single(&mut self, kind: Kind) -> Option<(Timestamp, Command)> {
        let next = Timestamp(self.engine.timestamp().0 + 1);
        Some(match kind {
            Kind::KillSwitch => {
                let block = BlockEntry { scope: Scope::ALL, blocked: true };
                (next, Command::Venue(VenueCommand::KillSwitch(block)))
            }
            Kind::Removal => {
                let remove = RemoveInstrument { symbol: self.symbol };
                (next, Command::Venue(VenueCommand::RemoveInstrument(remove)))
            }
            Kind::EndOfDay => (next, Command::System(SystemEvent::EndOfSystemHours)),
            Kind::MassCancel | Kind::MassCancelOfFew => {
                let (key, firm, symbol) = (self.key(1), Firm::BLANK, Symbol::BLANK);
                let mass = MassCancel { key, firm, symbol, side: None, group_id: None };
                (next, Command::MassCancel(mass))
            }
            Kind::Expiry => (Timestamp(u64::from(EXPIRES_S) * 1_000_000_000), Command::Time),
            Kind::Auction | Kind::AuctionOfPrices | Kind::AuctionOrders => {
                let set = SetPhase::new(self.symbol, Phase::Continuous);
                (next, Command::Venue(VenueCommand::SetPhase(set)))
            }
            Kind::Indication => {
                let set = SetPhase::new(self.symbol, Phase::OpeningAuction);
                (next, Command::Venue(VenueCommand::SetPhase(set)))
            }
            Kind::TakesAll | Kind::Icebergs => {
                let lots = if kind == Kind::Icebergs { PARTS } else { 1 };
                let quantity = Quantity(u64::from(self.engine.counters().orders_live) * lots);
                let order = EnterOrder { quantity, ..self.order(2, Side::Buy, MID + 1) };
                (next, Command::Enter(order))
            }
            _ => return None,
        })
    }

    /// Applies the measured commands of a kind; returns the time and the events of each.
    fn measure(&mut self, kind: Kind, commands: u64, clock: &SystemClock) -> Vec<(u32, u32)> {
        let mut measured = Vec::new();
        let mut measure = |attacked: &mut Self, timestamp, command| {
            let mut events = 0;
            let took = timed(clock, || events = attacked.apply_at(timestamp, command));
            measured.push((took, events));
        };
        if let Some((timestamp, command)) = self.single(kind) {
            measure(self, timestamp, command);
            // A step comes a nanosecond later, and 50 µs later where a search found nothing; nothing else comes within a millisecond.
            let is_step =
                |engine: &Engine, due: &Timestamp| due.0 - engine.timestamp().0 < 1_000_000;
            while let Some(due) = self.engine.due().filter(|due| is_step(&self.engine, due)) {
                measure(self, due, Command::Time);
            }
            return measured;
        }
        let at_once = if kind == Kind::MassCancelOfNone { MASS_CANCELS } else { u64::MAX };
        for nth in 0..commands.min(at_once) {
            let command = self.command(kind, nth);
            let timestamp = Timestamp(self.engine.timestamp().0 + 1);
            measure(self, timestamp, command);
        }
        measured
    }
}

/// Measures each kind, with a `divisor`-th of the orders and commands.
pub fn worst_cases(divisor: u64) -> Vec<WorstCase> {
    let commands = (COMMANDS / divisor).max(2);
    let clock = SystemClock::start();
    let mut plain_ns = 0;
    let measured = KINDS.map(|(name, kind)| {
        let mut least: Vec<(u32, u32)> = Vec::new();
        for _ in 0..RUNS {
            let measured = Attacked::new(kind, divisor).measure(kind, commands, &clock);
            least.resize(measured.len(), (u32::MAX, 0));
            for (least, measured) in least.iter_mut().zip(measured) {
                *least = measured.min(*least);
            }
        }
        least.sort_unstable();
        let (median_ns, (max_ns, events)) = (least[least.len() / 2].0, least[least.len() - 1]);
        if kind == Kind::Plain {
            plain_ns = median_ns;
        }
        let ratio = f64::from(max_ns) / f64::from(plain_ns.max(1));
        WorstCase { name, commands: least.len() as u64, median_ns, max_ns, events, ratio }
    });
    measured.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind acts as its name says.
    #[test]
    fn each_kind_acts() {
        let clock = SystemClock::start();
        for (name, kind) in KINDS {
            let mut attacked = Attacked::new(kind, 100);
            let live = attacked.engine.counters().orders_live;
            let measured = attacked.measure(kind, 100, &clock);
            let events: u32 = measured.iter().map(|(_, events)| events).sum();
            assert!(0 < events, "{name}");
            let live_after = attacked.engine.counters().orders_live;
            let takes_orders = match kind {
                Kind::Indication => false,
                // Each takes a lot of an order of ten.
                Kind::ProRata => true,
                _ => attacked.single(kind).is_some(),
            };
            assert_eq!(
                takes_orders,
                live_after != live,
                "{name}: {live} orders, then {live_after}"
            );
        }
    }
}
