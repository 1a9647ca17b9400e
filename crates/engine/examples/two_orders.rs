//! The engine alone: one instrument, one session, two orders that trade.
//!
//! `cargo run -p damrak-engine --example two_orders`

use engine::Engine;
use market::{
    AddInstrument, AddSession, Command, EnterOrder, Firm, Input, OrderKey, Price, Quantity,
    SelfMatchPrevention, Sequence, SessionId, Side, Symbol, SystemEvent, Text, Timestamp,
};

fn main() {
    let symbol = Symbol::new("DAMRAK").expect("up to eight characters");
    let order = |user_ref_num, side, price| {
        let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
        Command::Enter(EnterOrder::limit(key, side, symbol, Quantity(100), Price(price)))
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
