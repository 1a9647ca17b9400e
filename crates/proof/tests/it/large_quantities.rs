//! Quantities at their limit, 2⁴⁸ − 1 lots: sums over many such orders have more than 64 bits, in an auction
//! and where a price is shared out, and nothing wraps.

use engine::{Engine, QUANTITY_LIMIT};
use market::{
    AddInstrument, AddSession, Allocation, Command, ConfigureInstrument, EnterOrder, Event, Firm,
    Input, InstrumentChange, MoneyCommand, MoneyTerms, OrderKey, Phase, Price, Quantity,
    SelfMatchPrevention, SessionId, SetPhase, SetTerms, Side, Symbol, SystemEvent, Text, Timestamp,
    VenueCommand, VenueEvent,
};

/// Orders of each side: the sum of their lots has 65 bits.
const ORDERS: u32 = (1 << 16) + 64;

struct Market {
    engine: Engine,
    symbol: Symbol,
    /// The last number of each session.
    numbers: [u32; 2],
    events: Vec<Event>,
}

impl Market {
    fn new() -> Self {
        let symbol = Symbol::new("LARGE").unwrap();
        let mut market =
            Self { engine: Engine::new(), symbol, numbers: [0; 2], events: Vec::new() };
        market.apply(Command::System(SystemEvent::StartOfMessages));
        let (price_increment, round_lot) = (Price(1), Quantity(1));
        market.apply(Command::AddInstrument(AddInstrument { symbol, price_increment, round_lot }));
        let terms = MoneyTerms::unpaid(QUANTITY_LIMIT);
        market.apply(Command::Money(MoneyCommand::SetTerms(SetTerms { symbol, terms })));
        for name in ["A", "B"] {
            market.apply(Command::AddSession(AddSession {
                username: Text::new(name).unwrap(),
                firm: Firm::new("ACME").unwrap(),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            }));
        }
        market.apply(Command::System(SystemEvent::StartOfSystemHours));
        market
    }

    fn apply(&mut self, command: Command) {
        let sequence = self.engine.sequence().next();
        let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
        self.events.clear();
        self.engine.apply(&input, &mut |event| self.events.push(event));
    }

    fn set_phase(&mut self, phase: Phase) {
        let set = SetPhase::new(self.symbol, phase);
        self.apply(Command::Venue(VenueCommand::SetPhase(set)));
    }

    fn configure(&mut self, change: InstrumentChange) {
        let configure = ConfigureInstrument { symbol: self.symbol, change };
        self.apply(Command::Venue(VenueCommand::ConfigureInstrument(configure)));
    }

    /// The largest order, at a price of 100.
    fn order(&mut self, session: usize, side: Side) -> EnterOrder {
        self.numbers[session] += 1;
        let session_id = SessionId(session as u16 + 1);
        let key = OrderKey { session_id, channel: 0, user_ref_num: self.numbers[session] };
        EnterOrder::limit(key, side, self.symbol, QUANTITY_LIMIT, Price(100))
    }

    /// Lots that traded in the last command.
    fn traded(&self) -> u128 {
        let traded = self.events.iter().filter_map(|event| match event {
            Event::Traded(traded) => Some(u128::from(traded.quantity.0)),
            _ => None,
        });
        traded.sum()
    }

    /// Lets time pass until nothing is left to do, with a restored engine now and then; returns the lots that
    /// traded, and those that the auction reported.
    fn settle(&mut self) -> (u128, Option<Quantity>) {
        let (mut lots, mut reported) = (self.traded(), None);
        let mut steps = 0_u32;
        while self.engine.due().is_some() {
            steps += 1;
            if steps.is_multiple_of(1_500) {
                self.engine = proof::restored(&self.engine).unwrap();
            }
            self.apply(Command::Time);
            lots += self.traded();
            reported = self.events.iter().fold(reported, |reported, event| match event {
                Event::Venue(VenueEvent::Uncrossed(it)) => Some(it.quantity),
                _ => reported,
            });
        }
        (lots, reported)
    }
}

/// Rule 27.20: all orders of an auction trade, also if they have more lots than 64 bits can hold; the
/// levels of the book and the result of the auction report as many lots as 64 bits can hold.
#[test]
fn an_auction_trades_more_lots_than_64_bits_say() {
    let mut market = Market::new();
    market.set_phase(Phase::PreOpen);
    for _ in 0..ORDERS {
        for (session, side) in [(0, Side::Buy), (1, Side::Sell)] {
            let order = market.order(session, side);
            market.apply(Command::Enter(order));
        }
    }
    let book = market.engine.book(market::InstrumentId(1)).unwrap();
    let level = book.bid_levels().next().unwrap();
    assert_eq!((level.leaves, level.order_count), (Quantity(u64::MAX), ORDERS as usize));
    market.set_phase(Phase::Continuous);
    let (lots, reported) = market.settle();
    assert_eq!(lots, u128::from(ORDERS) * u128::from(QUANTITY_LIMIT.0));
    assert!(u128::from(u64::MAX) < lots);
    assert_eq!(reported, Some(Quantity(u64::MAX)));
    assert_eq!(market.engine.counters().orders_live, 0);
    market.engine.check_invariants();
    let restored = proof::restored(&market.engine).unwrap();
    assert_eq!(market.engine.state_hash(), restored.state_hash());
}

/// Rule 38.7: the largest orders share a price, the 256 oldest of them.
#[test]
fn the_oldest_of_the_largest_orders_share_a_price() {
    let mut market = Market::new();
    market.configure(InstrumentChange::Allocation(Allocation::ProRata));
    for _ in 0..300 {
        let order = market.order(1, Side::Sell);
        market.apply(Command::Enter(order));
    }
    let order = market.order(0, Side::Buy);
    market.apply(Command::Enter(order));
    let (lots, _) = market.settle();
    assert_eq!(lots, u128::from(QUANTITY_LIMIT.0));
    // All offers are equal: the oldest order also gets all lots that rounding leaves.
    let book = market.engine.book(market::InstrumentId(1)).unwrap();
    let executed: Vec<u64> = book.asks().map(|order| order.executed.0).collect();
    let share = QUANTITY_LIMIT.0 / 256;
    assert_eq!(executed[0], share + QUANTITY_LIMIT.0 % 256);
    assert_eq!(executed[1..256], [share; 255]);
    assert_eq!(executed[256..], [0; 44]);
    market.engine.check_invariants();
}
