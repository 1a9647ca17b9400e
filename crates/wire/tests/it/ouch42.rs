//! OUCH 4.2: requests become commands, and other bytes are refused with a reason.

use market::{
    Accepted, CancelReason, Canceled, Command, CommandKind, Conditions, Display, Event,
    Instructions, Instrument, InstrumentId, Lots, OrderAttributes, OrderId, OrderKey, OrderType,
    Output, Price, Quantity, RejectReason, Sequence, SessionId, Shown, Side, Symbol, Ticks,
    TimeInForce, Timestamp,
};
use wire::{
    ouch,
    ouch42::{Requests, Token, TokenFault, Tokens, request},
};

const SESSION: SessionId = SessionId(1);

fn enter(token: &str, side: char, shares: u32, price: u32, seconds: u32) -> Vec<u8> {
    let numbers = [shares.to_be_bytes(), price.to_be_bytes(), seconds.to_be_bytes()];
    let head = format!("O{token:14}{side}").into_bytes();
    [&head[..], &numbers[0], b"AAPL    ", &numbers[1], &numbers[2], b"    YPN", &[0; 4], b"NN"]
        .concat()
}

/// Bytes that are no request are ignored with a reason; a token in flight is known before the log has it.
#[test]
fn faults_are_named() {
    let mut requests = Requests::default();
    let mut commands = |message: &[u8]| {
        let mut commands = Vec::new();
        requests.commands(message, SESSION, Timestamp(0), None, &mut commands)?;
        Ok::<_, TokenFault>(commands)
    };
    let order = enter("A", 'B', 1, 10_000, 99_998);
    let first = commands(&order).unwrap();
    assert!(matches!(first[..], [Command::Note(_), Command::Enter(_)]), "{first:?}");
    assert_eq!(commands(&order).unwrap(), []);
    let [Command::Cancel(cancel)] = commands(b"XA             \0\0\0\0").unwrap()[..] else {
        panic!()
    };
    assert_eq!(cancel.key.user_ref_num, 1);
    for (message, fault) in [
        (&b""[..], TokenFault::Unknown),
        (&order[1..], TokenFault::Unknown),
        (&[&order[..], b" "].concat(), TokenFault::Unknown),
        (&enter("", 'B', 1, 100, 0), TokenFault::Token),
        (&enter("A-1", 'B', 1, 100, 0), TokenFault::Token),
        (b"NTOKEN         ", TokenFault::TradeNow),
    ] {
        assert_eq!(commands(message), Err(fault), "{}", message.escape_ascii());
    }
    let [Command::Reject(refused)] = commands(&enter("B", '?', 1, 100, 0)).unwrap()[..] else {
        panic!()
    };
    assert_eq!((refused.key.user_ref_num, refused.reason), (2, RejectReason::InvalidSide));
}

/// A client's message for a command is read as that command.
#[test]
fn requests_are_read_as_they_were_meant() {
    let mut said = 0;
    for vector in crate::golden::ouch_vectors().iter().filter(|it| it.id.starts_with("in:")) {
        let Ok(command) = ouch::command(&vector.bytes, SESSION, Timestamp(0)) else { continue };
        let name = |number: u32| Token::new(&format!("T{number}")).unwrap();
        let Some(message) = request(&command, Timestamp(0), name) else { continue };
        let Command::Enter(mut meant) = command else { continue };
        let mut requests = Requests::default();
        let mut commands = Vec::new();
        requests.commands(&message, SESSION, Timestamp(0), None, &mut commands).unwrap();
        let Some(Command::Enter(read)) = commands.pop() else { panic!("{}", vector.id) };
        meant.attributes.client_order_id = name(meant.key.user_ref_num);
        meant.key = read.key;
        assert_eq!(read, meant, "{}", vector.id);
        said += 1;
    }
    assert!(said >= 1, "{said} orders");
}

/// Tokens of done orders are dropped beyond the newest 65,536; those of live orders never.
#[test]
fn used_tokens_are_forgotten() {
    const KEPT: u32 = 65_536;
    let mut tokens = Tokens::default();
    let mut encoder = ouch::Encoder::new();
    encoder.learn(&Instrument {
        instrument_id: InstrumentId(1),
        symbol: Symbol::new("AAPL").unwrap(),
        price_increment: Price(100),
        round_lot: Quantity(100),
    });
    let token = |number: u32| Token::new(&format!("T{number}")).unwrap();
    let mut take = |event| {
        let output = Output { cause: Sequence(1), timestamp: Timestamp(1), event };
        encoder.encode(&output, &mut |_, message| tokens.reply(message, &mut |_| {}));
    };
    for number in 1..=KEPT + 2 {
        let key = OrderKey { session_id: SESSION, channel: 0, user_ref_num: number };
        let client_order_id = token(number);
        take(Event::Accepted(Accepted {
            key,
            order_id: OrderId(number.into()),
            instrument_id: InstrumentId(1),
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Lots::new(10),
            price: Ticks(15_000),
            attributes: OrderAttributes { client_order_id, ..OrderAttributes::default() },
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        }));
        if number > 1 {
            take(Event::Canceled(Canceled {
                key,
                order_id: OrderId(number.into()),
                instrument_id: InstrumentId(1),
                quantity: Quantity(10),
                leaves: Quantity::ZERO,
                booked: true,
                shown: Shown::NONE,
                reason: CancelReason::User,
                cause: CommandKind::Cancel,
            }));
        }
    }
    assert_eq!(tokens.number(&token(1)), Some(1), "it is live");
    assert_eq!(tokens.number(&token(2)), None);
    assert_eq!(tokens.number(&token(3)), Some(3), "so many are kept");
    assert_eq!(tokens.number(&token(KEPT + 2)), Some(KEPT + 2));
}
