//! Cancels of many orders of a session, and auctions of many orders, whose steps random flows hardly
//! reach: the engine, the model, and an engine that is restored from a snapshot between the steps
//! agree.

use engine::Engine;
use market::{
    AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, ClientOrderId, Command,
    ConditionChanges, ConfigureInstrument, Display, EnterOrder, Event, Firm, Input,
    InstrumentChange, MassCancel, OrderKey, OrderType, Phase, Price, Quantity, ReplaceOrder,
    ReplaceTerms, SelfMatchPrevention, SessionId, SetPhase, Side, SplitMix64, Symbol, SystemEvent,
    Text, TimeInForce, Timestamp, VenueCommand,
};
use proof::{agreement, model::Model};

const SYMBOL: &str = "SWEEP";

struct Pair {
    engine: Engine,
    model: Model,
    events: Vec<Event>,
    /// By channel: the last number used.
    numbers: [u32; 3],
}

impl Pair {
    fn new() -> Self {
        let (engine, model) = (Engine::new(), Model::default());
        let mut pair = Self { engine, model, events: Vec::new(), numbers: [0; 3] };
        let symbol = Symbol::new(SYMBOL).unwrap();
        let (price_increment, round_lot) = (Price(1), Quantity(1));
        let session = |name| {
            Command::AddSession(AddSession {
                username: Text::new(name).unwrap(),
                firm: Firm::new("ACME").unwrap(),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            })
        };
        pair.apply(Command::System(SystemEvent::StartOfMessages));
        pair.apply(Command::AddInstrument(AddInstrument { symbol, price_increment, round_lot }));
        pair.apply(session("A"));
        pair.apply(session("B"));
        pair.apply(Command::System(SystemEvent::StartOfSystemHours));
        pair
    }

    fn apply(&mut self, command: Command) {
        let sequence = self.engine.sequence().next();
        let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
        self.events.clear();
        self.engine.apply(&input, &mut |event| self.events.push(event));
        let same = agreement::same_events(&self.events, &self.model.apply(&input));
        same.unwrap_or_else(|why| panic!("{input:?}: {why}"));
    }

    /// Goes on from a snapshot.
    fn restore(&mut self) {
        self.engine = proof::restored(&self.engine).unwrap();
    }

    fn check(&self) {
        agreement::compare(&self.engine, &self.model).unwrap();
        self.engine.check_invariants();
        assert_eq!(self.engine.state_hash(), self.engine.state_hash_slow());
    }

    fn set_phase(&mut self, phase: Phase) {
        let set = SetPhase::new(Symbol::new(SYMBOL).unwrap(), phase);
        self.apply(Command::Venue(VenueCommand::SetPhase(set)));
    }

    fn key(&mut self, channel: u8, gap: u32) -> OrderKey {
        let number = &mut self.numbers[usize::from(channel)];
        *number += 1 + gap;
        OrderKey { session_id: SessionId(1), channel, user_ref_num: *number }
    }

    /// A random request of session 1 that leaves many of its orders live.
    fn random(&mut self, random: &mut SplitMix64) -> Command {
        let channel = random.below(3) as u8;
        let some = 1 + random.below(u64::from(self.numbers[usize::from(channel)]) + 1) as u32;
        let some = OrderKey { session_id: SessionId(1), channel, user_ref_num: some };
        match random.below(10) {
            0 => Command::Cancel(CancelOrder { key: some, quantity: Quantity::ZERO }),
            1 => {
                let key = self.key(channel, 0);
                let terms = ReplaceTerms {
                    side: None,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::Day,
                    display: Display::Visible,
                    quantity: Quantity(3),
                    price: Price(50 + random.below(40)),
                    client_order_id: ClientOrderId::BLANK,
                    shares_located: false,
                    locate_broker: Firm::BLANK,
                    conditions: ConditionChanges::NONE,
                    instructions: None,
                };
                let (original_user_ref_num, terms) = (some.user_ref_num, Some(terms));
                Command::Replace(ReplaceOrder { original_user_ref_num, key, terms })
            }
            _ => {
                let gap = if random.below(20) == 0 { random.below(5_000) as u32 } else { 0 };
                let key = self.key(channel, gap);
                let price = Price(50 + random.below(40));
                let symbol = Symbol::new(SYMBOL).unwrap();
                let mut order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(2), price);
                if random.below(4) == 0 {
                    order.attributes.firm = Firm::new("OTHR").unwrap();
                }
                Command::Enter(order)
            }
        }
    }
}

/// Rules 24.6, 24.7: mass cancels and cuts of a session with hundreds of orders on three channels of
/// two firms, with gaps between numbers, while it goes on to enter, replace and cancel.
#[test]
fn engine_and_model_sweep_alike() {
    let (mut steps, mut restored) = (0, 0);
    for seed in 1..=6 {
        let mut random = SplitMix64::new(seed);
        let mut pair = Pair::new();
        for round in 0..12_u64 {
            for _ in 0..random.below(500) {
                let command = pair.random(&mut random);
                pair.apply(command);
            }
            let channel = random.below(3) as u8;
            let command = match random.below(3) {
                0 => Command::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(1) }),
                firm => Command::MassCancel(MassCancel {
                    key: pair.key(channel, 0),
                    firm: if firm == 1 { Firm::BLANK } else { Firm::new("OTHR").unwrap() },
                    symbol: Symbol::BLANK,
                    side: None,
                    group_id: None,
                }),
            };
            pair.apply(command);
            while pair.engine.due().is_some() {
                steps += 1;
                let command = match (round % 3, random.below(3)) {
                    (0, _) | (_, 0) => Command::Time,
                    _ => pair.random(&mut random),
                };
                pair.apply(command);
                if random.below(4) == 0 {
                    restored += 1;
                    pair.restore();
                }
            }
            pair.check();
        }
    }
    assert!(100 < steps && 30 < restored, "{steps} steps, {restored} snapshots");
}

/// Rule 27.19: auctions of up to a thousand orders at few or many prices, displayed, hidden, without a
/// price, and for the auction only, while the venue changes the reference price.
#[test]
fn engine_and_model_count_alike() {
    let (mut steps, mut restored) = (0, 0);
    for seed in 1..=16 {
        let mut random = SplitMix64::new(seed);
        let mut pair = Pair::new();
        for _ in 0..2 {
            pair.set_phase(Phase::PreOpen);
            let orders = [100, 300, 600, 1_000][random.below(4) as usize];
            let prices = [1, 30, 500][random.below(3) as usize];
            for _ in 0..orders {
                let key = pair.key(0, 0);
                let side = [Side::Buy, Side::Sell][random.below(2) as usize];
                let price = Price(1_000 + random.below(prices));
                let quantity = Quantity(1 + random.below(9));
                let symbol = Symbol::new(SYMBOL).unwrap();
                let mut order = EnterOrder::limit(key, side, symbol, quantity, price);
                match random.below(12) {
                    0 => order.display = Display::Hidden,
                    1 => order.time_in_force = TimeInForce::AtTheOpen,
                    2 => order.time_in_force = TimeInForce::GoodForAuction,
                    3 => {
                        order.time_in_force = TimeInForce::GoodForAuction;
                        (order.order_type, order.price) = (OrderType::Market, Price::ZERO);
                    }
                    _ => {}
                }
                pair.apply(Command::Enter(order));
            }
            pair.set_phase(Phase::Continuous);
            while pair.engine.due().is_some() {
                steps += 1;
                if random.below(8) == 0 {
                    let symbol = Symbol::new(SYMBOL).unwrap();
                    let price = Price(1_000 + random.below(prices));
                    let change = InstrumentChange::ReferencePrice(price);
                    let change = ConfigureInstrument { symbol, change };
                    pair.apply(Command::Venue(VenueCommand::ConfigureInstrument(change)));
                } else {
                    pair.apply(Command::Time);
                }
                if random.below(4) == 0 {
                    restored += 1;
                    pair.restore();
                }
            }
            pair.check();
        }
    }
    assert!(200 < steps && 50 < restored, "{steps} steps, {restored} snapshots");
}
