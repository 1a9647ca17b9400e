//! A whole venue in this process, on real sockets and files, with real clients.

use std::{net::SocketAddr, path::Path};

use client::participant::{self, ClientState, TcpClient};
use market::{Price, Quantity, Side, Symbol, TimeInForce};
use venue::{Running, clock::SystemClock, config::Config};
use wire::{
    ouch::{MessageBuffer, Outbound, decode_outbound},
    soupbintcp::{LoginRejectReason, LoginRequest, Timers},
};

use crate::patience::wait_for;

pub(crate) fn config(folder: &Path, more: &str) -> Config {
    let text = format!(
        "[journal]\ndirectory = {:?}\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\nreceive_timeout = \"1000s\"\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
         [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n{more}",
        folder.join("journal")
    );
    Config::parse(&text, "test").unwrap()
}

pub(crate) fn address(running: &Running, name: &str) -> SocketAddr {
    running.started()["addresses"][name].as_str().unwrap().parse().unwrap()
}

/// A logged-in participant that keeps every message.
pub(crate) struct Participant {
    client: TcpClient,
    clock: SystemClock,
    messages: Vec<Vec<u8>>,
}

impl Participant {
    fn connect(running: &Running, username: &str, password: &str, from: u64) -> Self {
        let clock = SystemClock::start();
        let mut login = LoginRequest::new(username, password).unwrap();
        login.sequence_number = Some(from);
        let address = address(running, "order_entry");
        let client = TcpClient::connect(address, login, Timers::default(), clock.now_ns()).unwrap();
        Self { client, clock, messages: Vec::new() }
    }

    pub(crate) fn login(running: &Running, number: u8, from: u64) -> Self {
        let (username, password) = (format!("user{number:02}"), format!("password{number:02}"));
        let mut participant = Self::connect(running, &username, &password, from);
        participant.until(|participant| participant.client.is_logged_in());
        participant
    }

    fn turn(&mut self) {
        let messages = &mut self.messages;
        self.client
            .poll(self.clock.now_ns(), &mut |_, message| messages.push(message.to_vec()))
            .unwrap();
    }

    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let look = |participant: &mut Self| {
            participant.turn();
            done(participant).then_some(())
        };
        wait_for("messages", self, look, |participant| participant.types());
    }

    /// Waits until the participant has received this many messages in total.
    pub(crate) fn hear(&mut self, count: usize) {
        self.until(|participant| participant.messages.len() >= count);
    }

    pub(crate) fn send(&mut self, message: &MessageBuffer) {
        self.client.send(message, self.clock.now_ns()).unwrap();
        self.client.flush().unwrap();
    }

    /// Waits until the venue has ended the session.
    pub(crate) fn hear_the_end(&mut self) {
        self.until(|participant| participant.client.state() == ClientState::Ended);
    }

    pub(crate) fn types(&self) -> String {
        self.messages.iter().map(|message| message[0] as char).collect()
    }
}

pub(crate) fn limit(user_ref_num: u32, side: Side, quantity: u64, price: u64) -> MessageBuffer {
    participant::enter(
        user_ref_num,
        side,
        Symbol::new("AAPL").unwrap(),
        Quantity(quantity),
        Some(Price(price)),
        TimeInForce::Day,
    )
}

/// An order arrives over the wire, is matched, journaled and answered; after a restart the whole stream arrives again,
/// byte for byte, and continues.
#[test]
fn an_order_goes_the_whole_way_and_survives_a_restart() {
    for layout in ["single", "core-alone", "entry-core", "pipeline"] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &format!("[layout]\nthreads = \"{layout}\"\n"));
        let running = venue::start(&config, SystemClock::start()).unwrap();
        let mut maker = Participant::login(&running, 1, 1);
        let mut taker = Participant::login(&running, 2, 1);
        maker.send(&limit(1, Side::Sell, 100, 1_500_000));
        maker.hear(2);
        taker.send(&limit(1, Side::Buy, 40, 1_500_100));
        taker.hear(3);
        maker.hear(3);
        maker.send(&participant::replace(
            1,
            2,
            Quantity(90),
            Some(Price(1_510_000)),
            TimeInForce::Day,
        ));
        maker.send(&participant::cancel(2, Quantity(0)));
        maker.hear(5);
        assert_eq!((maker.types().as_str(), taker.types().as_str()), ("SAEUC", "SAE"), "{layout}");
        let Ok(Outbound::OrderExecuted(executed, _)) = decode_outbound(&taker.messages[2]) else {
            panic!("not an execution: {:?}", taker.messages[2]);
        };
        assert_eq!((executed.quantity.get(), executed.price.get()), (40, 1_500_000));
        drop((maker.client, taker.client));
        running.stop().unwrap();

        let running = venue::start(&config, SystemClock::start()).unwrap();
        let mut again = Participant::login(&running, 1, 1);
        again.hear(5);
        assert_eq!(again.messages, maker.messages, "{layout}: the same bytes come again");
        again.send(&limit(3, Side::Buy, 1, 1_000_000));
        again.hear(6);
        let mut middle = Participant::login(&running, 2, 3);
        middle.hear(1);
        assert_eq!(middle.messages, taker.messages[2..], "{layout}: from the middle as well");
        running.stop().unwrap();
    }
}

/// Wrong names and passwords get the same answer, and a session is connected once.
#[test]
fn logins_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let mut first = Participant::login(&running, 1, 1);
    for (username, password, reason) in [
        ("user01", "wrong", LoginRejectReason::NotAuthorized),
        ("nobody", "password01", LoginRejectReason::NotAuthorized),
        ("USER01", "PASSWORD01", LoginRejectReason::SessionNotAvailable),
    ] {
        let mut other = Participant::connect(&running, username, password, 1);
        other.until(|other| other.client.state() == ClientState::Rejected(reason));
    }
    first.send(&participant::query_account());
    first.hear(2);
    assert_eq!(first.types(), "SQ", "the first connection goes on");
    running.stop().unwrap();
}

/// An order that cannot be accepted is answered with its reason; later orders are not affected.
#[test]
fn refused_orders_are_answered_in_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let mut participant = Participant::login(&running, 3, 1);
    participant.send(&limit(1, Side::Buy, 0, 1_000_000));
    participant.send(&limit(2, Side::Buy, 10, 1_000_001));
    participant.send(&limit(3, Side::Buy, 10, 1_000_000));
    participant.send(&limit(3, Side::Buy, 10, 1_000_000));
    participant.send(&participant::query_account());
    participant.hear(5);
    assert_eq!(participant.types(), "SJJAQ");
    let reasons: Vec<u16> = participant.messages[1..3]
        .iter()
        .map(|message| match decode_outbound(message) {
            Ok(Outbound::Rejected(rejected, _)) => rejected.reason.get(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reasons, [0x0013, 0x001d], "invalid quantity, invalid price");
    running.stop().unwrap();
}

/// A participant configured so has no orders left after a disconnect or a restart; other participants keep theirs.
#[test]
fn cancel_on_disconnect_is_by_participant() {
    let folder = tempfile::tempdir().unwrap();
    let row = |number: u8, wanted: bool| {
        format!(
            "[[participants]]\nusername = \"user{number:02}\"\npassword = \"password{number:02}\"\n\
             firm = \"FIRM\"\ncancel_on_disconnect = {wanted}\n"
        )
    };
    let config = config(folder.path(), &(row(1, true) + &row(2, false)));
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let mut wants = Participant::login(&running, 1, 1);
    let mut keeps = Participant::login(&running, 2, 1);
    wants.send(&limit(1, Side::Buy, 10, 1_000_000));
    wants.hear(2);
    keeps.send(&limit(1, Side::Buy, 10, 1_000_000));
    keeps.hear(2);
    drop((wants.client, keeps.client));
    let mut wants = Participant::login(&running, 1, 1);
    wants.hear(3);
    assert_eq!((wants.types().as_str(), wants.messages[2].last()), ("SAC", Some(&b'S')));
    wants.send(&limit(2, Side::Buy, 10, 1_000_000));
    wants.hear(4);
    running.stop().unwrap();

    let running = venue::start(&config, SystemClock::start()).unwrap();
    let mut wants = Participant::login(&running, 1, 1);
    wants.hear(5);
    assert_eq!(wants.types(), "SACAC", "nobody is connected when a venue starts");
    let mut keeps = Participant::login(&running, 2, 1);
    keeps.send(&participant::cancel(1, Quantity(0)));
    keeps.hear(3);
    assert_eq!((keeps.types().as_str(), keeps.messages[2].last()), ("SAC", Some(&b'U')));
    running.stop().unwrap();
}
