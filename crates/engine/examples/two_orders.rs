//! The core by itself: an instrument, a session, two orders that trade.
//!
//! `cargo run -p damrak-engine --example two_orders`

use engine::Engine;
use market::{
    AddInstrument, AddSession, Command, Conditions, Display, EnterOrder, Firm, Input, Instructions,
    OrderAttributes, OrderKey, OrderType, Price, Quantity, SelfMatchPrevention, Sequence,
    SessionId, Side, Symbol, SystemEvent, Text, TimeInForce, Timestamp,
};

fn main() {
    let symbol = Symbol::new("DAMRAK").expect("up to eight characters");
    let order = |user_ref_num, side, price| {
        Command::Enter(EnterOrder {
            key: OrderKey { session_id: SessionId(1), channel: 0, user_ref_num },
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Quantity(100),
            price: Price(price),
            symbol,
            attributes: OrderAttributes::default(),
            conditions: Conditions::default(),
            instructions: Instructions::NONE,
        })
    };
    let commands = [
        Command::AddInstrument(AddInstrument {
            symbol,
            price_increment: Price(100),
            round_lot: Quantity(100),
        }),
        Command::AddSession(AddSession {
            username: Text::new("USER01").expect("up to six characters"),
            firm: Firm::new("FIRM").expect("up to four characters"),
            live_orders_max: 1_000,
            self_match_prevention: SelfMatchPrevention::Off,
        }),
        Command::System(SystemEvent::StartOfSystemHours),
        order(1, Side::Sell, 1_500_000),
        order(2, Side::Buy, 1_500_100),
    ];

    let mut engine = Engine::new();
    for (sequence, command) in (1..).map(Sequence).zip(commands) {
        let input = Input { sequence, timestamp: Timestamp(0), command };
        engine.apply(&input, &mut |event| println!("{sequence}: {event:?}"));
    }
    println!("state {:016x}", engine.state_hash());
}
