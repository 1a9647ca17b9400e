//! Cancels of many orders of a session, and auctions of many orders, whose steps random flows hardly
//! reach: the engine, the model, and an engine that is restored from a snapshot between the steps
//! agree.

use engine::Engine;
use market::{
    AddInstrument, AddSession, Allocation, BlockEntry, CancelOnDisconnect, CancelOrder,
    CancelReason, Command, ConfigureInstrument, Display, EnterOrder, Event, Firm, Input,
    InstrumentChange, InstrumentId, Lots, MassCancel, OrderKey, OrderType, Phase, Price, Pricing,
    Quantity, RemoveInstrument, ReplaceOrder, ReplaceTerms, Scope, SelfMatchPrevention, SessionId,
    SetPhase, Side, SplitMix64, Symbol, SystemEvent, Text, Ticks, TimeInForce, Timestamp,
    VenueCommand, VenueEvent,
};
use proof::{agreement, model::Model};

const SYMBOL: &str = "SWEEP";
const OTHER: &str = "OTHER";

struct Pair {
    engine: Engine,
    model: Model,
    events: Vec<Event>,
    /// The last number used, by session and channel.
    numbers: [[u32; 3]; 2],
    /// Seconds that have passed.
    second: u64,
}

impl Pair {
    fn new() -> Self {
        let (engine, model) = (Engine::new(), Model::default());
        let mut pair = Self { engine, model, events: Vec::new(), numbers: [[0; 3]; 2], second: 0 };
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
        for symbol in [symbol, Symbol::new(OTHER).unwrap()] {
            let add = AddInstrument { symbol, price_increment, round_lot };
            pair.apply(Command::AddInstrument(add));
        }
        pair.apply(session("A"));
        pair.apply(session("B"));
        pair.apply(Command::System(SystemEvent::StartOfSystemHours));
        pair
    }

    fn apply(&mut self, command: Command) {
        self.apply_at(true, command);
    }

    /// Applies a command, at a later time or at that of the last.
    fn apply_at(&mut self, is_later: bool, command: Command) {
        let sequence = self.engine.sequence().next();
        let timestamp = match is_later {
            true => Timestamp(self.second * 1_000_000_000 + sequence.0),
            false => self.engine.timestamp(),
        };
        let input = Input { sequence, timestamp, command };
        self.events.clear();
        self.engine.apply(&input, &mut |event| self.events.push(event));
        let same = agreement::same_events(&self.events, &self.model.apply(&input));
        same.unwrap_or_else(|why| panic!("{input:?}: {why}"));
    }

    /// Continues from a snapshot.
    fn restore(&mut self) {
        self.engine = proof::restored(&self.engine).unwrap();
    }

    fn check(&self) {
        agreement::compare(&self.engine, &self.model).unwrap();
        self.engine.check_invariants();
        let restored = proof::restored(&self.engine).unwrap();
        assert_eq!(self.engine.state_hash(), restored.state_hash());
    }

    fn set_phase(&mut self, phase: Phase) {
        let set = SetPhase::new(Symbol::new(SYMBOL).unwrap(), phase);
        self.apply(Command::Venue(VenueCommand::SetPhase(set)));
    }

    fn key(&mut self, channel: u8, gap: u32) -> OrderKey {
        self.key_of(SessionId(1), channel, gap)
    }

    fn key_of(&mut self, session_id: SessionId, channel: u8, gap: u32) -> OrderKey {
        let number = &mut self.numbers[usize::from(session_id.0) - 1][usize::from(channel)];
        *number += 1 + gap;
        OrderKey { session_id, channel, user_ref_num: *number }
    }

    /// A random auction-only order; one in `crossing` can trade with orders of the other side.
    fn for_auction(&mut self, random: &mut SplitMix64, prices: u64, crossing: u64) -> EnterOrder {
        let key = self.key(0, 0);
        let is_buy = random.below(2) == 0;
        let side = if is_buy { Side::Buy } else { Side::Sell };
        let worst = if is_buy == (random.below(crossing) == 0) { 3_000 } else { 1_000 };
        let (price, quantity) = (worst + random.below(prices), 1 + random.below(9));
        let symbol = Symbol::new(SYMBOL).unwrap();
        let mut order = EnterOrder::limit(key, side, symbol, Quantity(quantity), Price(price));
        let auctions =
            [TimeInForce::AtTheOpen, TimeInForce::GoodForAuction, TimeInForce::AtTheClose];
        order.time_in_force = auctions[random.below(3) as usize];
        if random.below(20) == 0 {
            (order.order_type, order.price) = (OrderType::Market, Price::ZERO);
        }
        order
    }

    /// An auction collects while its orders are counted; returns how many indications came.
    fn collect(&mut self, random: &mut SplitMix64, prices: u64) -> usize {
        let mut indications = 0;
        let is_own = random.below(2) == 0;
        let phase = [Phase::OpeningAuction, Phase::ClosingAuction][random.below(2) as usize];
        if phase == Phase::ClosingAuction {
            self.set_phase(Phase::Halted);
        }
        self.set_phase(phase);
        for nth in 0..60 {
            let last = self.numbers[0][0];
            let some = 1 + random.below(u64::from(last)) as u32;
            let some = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: some };
            let key = OrderKey { user_ref_num: last, ..some };
            let key = if is_own { key } else { some };
            let command = match random.below(6) {
                0 => Command::Time,
                1 => Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO }),
                2 => Command::Cancel(CancelOrder { key: some, quantity: Quantity(2) }),
                _ => {
                    let key = self.key(0, 0);
                    let side = [Side::Buy, Side::Sell][random.below(2) as usize];
                    let price = Price(1_000 + random.below(prices));
                    let symbol = Symbol::new(SYMBOL).unwrap();
                    let mut order = EnterOrder::limit(key, side, symbol, Quantity(5), price);
                    if random.below(4) == 0 {
                        order.display = Display::Hidden;
                    }
                    Command::Enter(order)
                }
            };
            if nth % 12 == 11 {
                self.second += 1;
            }
            self.apply(command);
            let is_indication =
                |event: &&Event| matches!(event, Event::Venue(VenueEvent::Indicated(_)));
            indications += self.events.iter().filter(is_indication).count();
            if random.below(8) == 0 {
                self.restore();
            }
            if random.below(8) == 0 {
                self.check();
            }
        }
        if phase == Phase::ClosingAuction {
            self.set_phase(Phase::Halted);
        }
        indications
    }

    /// A random request that leaves many orders of its session live, mostly session 1.
    fn random(&mut self, random: &mut SplitMix64) -> Command {
        let session_id = SessionId(1 + u16::from(random.below(8) == 0));
        let channel = random.below(3) as u8;
        let last = self.numbers[usize::from(session_id.0) - 1][usize::from(channel)];
        let some = 1 + random.below(u64::from(last) + 1) as u32;
        let some = OrderKey { session_id, channel, user_ref_num: some };
        match random.below(10) {
            0 => Command::Cancel(CancelOrder { key: some, quantity: Quantity::ZERO }),
            1 => {
                let key = self.key_of(session_id, channel, 0);
                let terms = ReplaceTerms::limit(Quantity(3), Price(50 + random.below(40)));
                let (original_user_ref_num, terms) = (some.user_ref_num, Some(terms));
                Command::Replace(ReplaceOrder { original_user_ref_num, key, terms })
            }
            _ => {
                let gap = if random.below(20) == 0 { random.below(5_000) as u32 } else { 0 };
                let key = self.key_of(session_id, channel, gap);
                let symbol = Symbol::new([SYMBOL, OTHER][random.below(2) as usize]).unwrap();
                let (side, price) = match random.below(3) {
                    0 => (Side::Sell, 150 + random.below(40)),
                    _ => (Side::Buy, 50 + random.below(40)),
                };
                let mut order = EnterOrder::limit(key, side, symbol, Quantity(2), Price(price));
                order.attributes.group_id = random.below(3) as u16;
                if random.below(3) == 0 {
                    order.time_in_force = TimeInForce::GoodTillCancel;
                }
                if random.below(4) == 0 {
                    order.attributes.firm = Firm::new("OTHR").unwrap();
                }
                Command::Enter(order)
            }
        }
    }
}

/// Rules 20.12, 31.3: stop orders that are triggered, and are not yet in when their instrument is removed, are
/// canceled at their turn, as in any closed instrument.
#[test]
fn a_removal_cancels_what_is_triggered() {
    let mut pair = Pair::new();
    let symbol = Symbol::new(SYMBOL).unwrap();
    let order = |pair: &mut Pair, session: u16, side, price| {
        let key = pair.key_of(SessionId(session), 0, 0);
        EnterOrder::limit(key, side, symbol, Quantity(2), Price(price))
    };
    for number in 0..140 {
        let mut order = order(&mut pair, 1, Side::Buy, 60);
        if number >= 120 {
            order.instructions.pricing = Pricing::Stop;
            order.instructions.trigger = Ticks(101);
        }
        pair.apply(Command::Enter(order));
    }
    for side in [Side::Sell, Side::Buy] {
        let order = order(&mut pair, 2, side, 101);
        pair.apply(Command::Enter(order));
    }
    pair.check();
    pair.apply(Command::Venue(VenueCommand::RemoveInstrument(RemoveInstrument { symbol })));
    let mut reasons = Vec::new();
    while pair.engine.due().is_some() {
        pair.restore();
        pair.apply(Command::Time);
        pair.check();
        reasons.extend(pair.events.iter().filter_map(|event| match event {
            Event::Canceled(canceled) => Some(canceled.reason),
            _ => None,
        }));
    }
    let at_its_turn = |it: &&CancelReason| **it == CancelReason::ImmediateOrCancel;
    assert!(reasons.iter().filter(at_its_turn).count() >= 4, "{reasons:?}");
    assert_eq!(pair.engine.book(InstrumentId(1)).unwrap().bids().count(), 0);
}

/// A random criterion, or none.
fn some<T>(random: &mut SplitMix64, it: T) -> Option<T> {
    (random.below(2) == 0).then_some(it)
}

/// A command that cancels many orders, by random criteria.
fn many(pair: &mut Pair, random: &mut SplitMix64) -> Command {
    let firm = [Firm::BLANK, Firm::new("OTHR").unwrap()][random.below(2) as usize];
    let symbols = [Symbol::new(SYMBOL).unwrap(), Symbol::new("NONE").unwrap()];
    let symbol = symbols[usize::from(random.below(8) == 0)];
    let symbol = some(random, symbol).unwrap_or(Symbol::BLANK);
    let side = [Side::Buy, Side::Sell][random.below(2) as usize];
    let (side, group_id) = (some(random, side), random.below(4) as u16);
    let group_id = some(random, group_id);
    let session_id = SessionId(random.below(3) as u16);
    let scope = Scope { session_id, firm, symbol, side, group_id, ..Scope::ALL };
    match random.below(6) {
        0 => Command::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(1) }),
        1 => Command::Venue(VenueCommand::SupervisoryCancel(scope)),
        2 => Command::Venue(VenueCommand::KillSwitch(BlockEntry { scope, blocked: true })),
        _ => {
            let key = pair.key(random.below(3) as u8, 0);
            Command::MassCancel(MassCancel { key, firm, symbol, side, group_id })
        }
    }
}

/// Rules 24.6, 24.7: commands that cancel many orders, of two sessions with hundreds on three channels of
/// two firms and two instruments, with gaps between numbers, while the sessions continue to enter, replace
/// and cancel; at last the day ends.
#[test]
fn engine_and_model_sweep_alike() {
    let (mut steps, mut restored, mut live_max) = (0, 0, 0);
    for seed in 1..=8 {
        let mut random = SplitMix64::new(seed);
        let mut pair = Pair::new();
        for round in 0..12_u64 {
            for _ in 0..random.below(800) {
                let command = pair.random(&mut random);
                pair.apply(command);
            }
            let live = pair.engine.counters().orders_live;
            let command = match round {
                11 => Command::System(SystemEvent::EndOfSystemHours),
                _ => many(&mut pair, &mut random),
            };
            pair.apply(command);
            if let Command::Venue(VenueCommand::KillSwitch(block)) = command {
                let block = BlockEntry { blocked: false, ..block };
                pair.apply(Command::Venue(VenueCommand::KillSwitch(block)));
            }
            while pair.engine.due().is_some() {
                steps += 1;
                let command = match (round % 3, random.below(12)) {
                    (0, _) | (_, 0..4) => Command::Time,
                    (_, 4) => many(&mut pair, &mut random),
                    _ => pair.random(&mut random),
                };
                pair.apply(command);
                if random.below(4) == 0 {
                    restored += 1;
                    pair.restore();
                }
            }
            pair.check();
            live_max = live_max.max(live);
        }
    }
    assert!(1_200 < live_max, "sessions have several size classes: {live_max}");
    assert!(100 < steps && 30 < restored, "{steps} steps, {restored} snapshots");
}

/// Rules 38.1 to 38.7: a price of up to 700 orders, some of them icebergs or the incoming order's own,
/// which is shared pro rata.
#[test]
fn engine_and_model_share_alike() {
    let (mut trades, mut restored) = (0, 0);
    for seed in 1..=24 {
        let mut random = SplitMix64::new(seed);
        let mut pair = Pair::new();
        let symbol = Symbol::new(SYMBOL).unwrap();
        let time_share = [0, 250_000, 999_999][random.below(3) as usize];
        for change in [
            InstrumentChange::Allocation(Allocation::ProRata),
            InstrumentChange::TimeShare(time_share),
        ] {
            let change = ConfigureInstrument { symbol, change };
            pair.apply(Command::Venue(VenueCommand::ConfigureInstrument(change)));
        }
        let own_in = [2, 300, 1_000_000][random.below(3) as usize];
        for _ in 0..[250, 300, 500, 700][random.below(4) as usize] {
            let session_id = SessionId(1 + u16::from(random.below(own_in) == 0));
            let key = pair.key_of(session_id, 0, 0);
            let quantity = Quantity(1 + random.below(40));
            let mut order = EnterOrder::limit(key, Side::Sell, symbol, quantity, Price(1_000));
            if random.below(12) == 0 {
                order.instructions.shown_quantity = Lots::new(3);
            }
            pair.apply(Command::Enter(order));
        }
        for _ in 0..12 {
            let key = pair.key_of(SessionId(2), 0, 0);
            let lots_max = [50, 1_500, 8_000][random.below(3) as usize];
            let quantity = Quantity(1 + random.below(lots_max));
            let order = EnterOrder::limit(key, Side::Buy, symbol, quantity, Price(1_000));
            pair.apply(Command::Enter(order));
            while pair.engine.due().is_some() {
                trades += pair.events.iter().filter(|it| matches!(it, Event::Traded(_))).count();
                if random.below(8) == 0 {
                    restored += 1;
                    pair.restore();
                }
                pair.apply(Command::Time);
            }
            pair.check();
        }
    }
    assert!(3_000 < trades && 30 < restored, "{trades} trades, {restored} snapshots");
}

/// Rules 26.4, 26.8, 27.16: up to 400 auction-only orders end, while other orders come and go, and
/// the venue changes the phase, so that some trade in another auction meanwhile.
#[test]
fn engine_and_model_end_alike() {
    let (mut ended, mut waited, mut restored) = (0, 0, 0);
    for seed in 1..=40 {
        let mut random = SplitMix64::new(seed);
        let mut pair = Pair::new();
        pair.set_phase(Phase::PreOpen);
        let prices = [1, 10, 200][random.below(3) as usize];
        for _ in 0..100 + random.below(300) {
            let order = pair.for_auction(&mut random, prices, 12);
            pair.apply(Command::Enter(order));
        }
        pair.set_phase(Phase::Continuous);
        for _ in 0..80 {
            let symbol = Symbol::new(SYMBOL).unwrap();
            let phases = [
                Phase::Continuous,
                Phase::Halted,
                Phase::PreOpen,
                Phase::Continuous,
                Phase::Closed,
            ];
            let command = match random.below(12) {
                0 | 1 => {
                    let phase = phases[random.below(5) as usize];
                    Command::Venue(VenueCommand::SetPhase(SetPhase::new(symbol, phase)))
                }
                2 => {
                    let last = u64::from(pair.numbers[0][0]);
                    let user_ref_num = 1 + random.below(last) as u32;
                    let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
                    Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
                }
                3 => Command::Time,
                _ => Command::Enter(pair.for_auction(&mut random, prices, 4)),
            };
            // Often within a nanosecond, so that waiting orders continue to wait.
            pair.apply_at(random.below(4) == 0, command);
            let reasons = pair.events.iter().filter_map(|event| match event {
                Event::Canceled(canceled) => Some(canceled.reason),
                _ => None,
            });
            ended += reasons.filter(|it| *it == CancelReason::Expired).count();
            waited += usize::from(pair.engine.due().is_some());
            if random.below(6) == 0 {
                restored += 1;
                pair.restore();
                pair.check();
            }
        }
    }
    let counts = format!("{ended} orders ended, {waited} inputs waited, {restored} snapshots");
    assert!(2_000 < ended && 500 < waited && 300 < restored, "{counts}");
}

/// Rules 27.19, 28.3: auctions of up to a thousand orders at few or many prices, displayed, hidden, without a
/// price, and for the auction only, while the venue changes the reference price, and while orders come,
/// change and leave before all are counted.
#[test]
fn engine_and_model_count_alike() {
    let (mut steps, mut restored, mut indications) = (0, 0, 0);
    for seed in 1..=24 {
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
            if random.below(2) == 0 {
                indications += pair.collect(&mut random, prices);
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
    assert!(120 < steps && 30 < restored, "{steps} steps, {restored} snapshots");
    assert!(100 < indications, "{indications} indications");
}
