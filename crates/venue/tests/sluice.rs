//! Order entry by Sluice over real sockets: lost datagrams, orders sent again, restarts, strangers, injected faults.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    process,
    time::Duration,
};

use market::{
    CancelOrder, Command, EnterOrder, OrderKey, Price, Quantity, SessionId, Side, Symbol, Text,
    Timestamp,
};
use venue::{Running, clock::SystemClock, config::Config};
use wire::{
    ouch::{self, Outbound, decode_outbound},
    sluice::{Client, ClientState, Login, LoginRejectReason, Timers},
};

/// The argon2 hash of `BOB`, with the least memory possible.
const HASH_OF_BOB: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$s7qOdgTKuSr+OmHNi5t7nQ";

const PATIENCE: Duration = Duration::from_secs(60);

fn config(folder: &Path, more: &str) -> Config {
    let journal = folder.join("journal");
    let participant = |name: &str, password: &str, more: &str| {
        format!(
            "[[participants]]\nusername = \"{name}\"\npassword = \"{password}\"\nprotocol = \"sluice\"\n\
             firm = \"FIRM\"\n{more}\n"
        )
    };
    let text = format!(
        "[journal]\ndirectory = {journal:?}\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\n{more}\n\
         [order_entry_sluice]\naddress = \"127.0.0.1:0\"\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
         [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\n\
         snapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n{}{}",
        participant("ALICE", "ALICE", "cancel_on_disconnect = true"),
        participant("BOB", HASH_OF_BOB, ""),
    );
    Config::parse(&text, "test").unwrap()
}

/// A participant with a socket of its own.
struct Party {
    socket: UdpSocket,
    client: Client,
    clock: SystemClock,
    /// Replies, from the first one requested.
    replies: Vec<Vec<u8>>,
    /// The number of the venue's next packets of replies to lose.
    lose: u32,
}

impl Party {
    fn new(running: &Running, name: &str, password: &str, first: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self::at(socket, running, name, password, first)
    }

    fn at(socket: UdpSocket, running: &Running, name: &str, password: &str, first: u64) -> Self {
        let venue: SocketAddr =
            running.started()["addresses"]["order_entry_sluice"].as_str().unwrap().parse().unwrap();
        socket.connect(venue).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let clock = SystemClock::start();
        let login = Login {
            username: Text::new(name).unwrap(),
            password: Text::new(password).unwrap(),
            session: Text::BLANK,
            sequence_number: first,
        };
        let nonce = clock.now_ns();
        let client = Client::new(Timers::default(), login, nonce, nonce);
        Self { socket, client, clock, replies: Vec::new(), lose: 0 }
    }

    fn log_in(running: &Running, name: &str, first: u64) -> Self {
        let mut party = Self::new(running, name, name, first);
        party.until(|it| it.client.state() == ClientState::LoggedIn);
        party
    }

    /// Exchanges datagrams until the condition holds.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let begun = self.clock.since_start();
        let mut datagram = [0; 2_048];
        while !holds(self) {
            assert!(self.clock.since_start() - begun < PATIENCE, "{:?}", self.client);
            while let Some(datagram) = self.client.take_outgoing() {
                // A venue that is down refuses the datagram.
                let _ = self.socket.send(&datagram);
            }
            match self.socket.recv(&mut datagram) {
                Ok(_) if self.lose > 0 && datagram[0].is_ascii_digit() => self.lose -= 1,
                Ok(len) => {
                    let Self { client, replies, clock, .. } = self;
                    let each = &mut |_, reply: &[u8]| replies.push(reply.to_vec());
                    client.receive(&datagram[..len], clock.now_ns(), each).unwrap();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => panic!("{error}"),
            }
            self.client.tick(self.clock.now_ns()).unwrap();
        }
        while let Some(datagram) = self.client.take_outgoing() {
            let _ = self.socket.send(&datagram);
        }
    }

    fn ask(&mut self, command: &Command) {
        let message = ouch::request_at(command, Timestamp::default()).unwrap();
        self.client.send(&message, self.clock.now_ns());
    }

    fn buy(&mut self, number: u32) {
        let (key, symbol) = (key(number), Symbol::new("AAPL").unwrap());
        let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(10), Price(10_000));
        self.ask(&Command::Enter(order));
    }

    fn cancel(&mut self, number: u32) {
        self.ask(&Command::Cancel(CancelOrder { key: key(number), quantity: Quantity(0) }));
    }

    /// The numbers of the accepted orders, in order.
    fn accepted(&self) -> Vec<u32> {
        let accepted = |reply: &Vec<u8>| match decode_outbound(reply) {
            Ok(Outbound::OrderAccepted(it, _)) => Some(it.user_ref_num.get()),
            _ => None,
        };
        self.replies.iter().filter_map(accepted).collect()
    }

    fn canceled(&self) -> usize {
        let is_cancel =
            |reply: &&Vec<u8>| matches!(decode_outbound(reply), Ok(Outbound::OrderCanceled(..)));
        self.replies.iter().filter(is_cancel).count()
    }
}

fn key(number: u32) -> OrderKey {
    OrderKey { session_id: SessionId(0), channel: 0, user_ref_num: number }
}

/// Lost replies arrive again; an order sent again has no second effect; a session continues after a restart, and its
/// replies are the same bytes from the first on.
#[test]
fn a_session_survives_loss_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let mut bob = Party::log_in(&running, "BOB", 1);
    bob.buy(1);
    bob.until(|it| it.accepted() == [1]);
    // The answer to this one is lost: the next heartbeat shows the gap.
    bob.lose = 1;
    bob.buy(2);
    bob.until(|it| it.accepted() == [1, 2]);
    assert_eq!(bob.lose, 0);
    // Without an answer in mind, a client sends the same bytes again.
    bob.buy(2);
    bob.buy(2);
    bob.buy(3);
    bob.until(|it| it.accepted() == [1, 2, 3]);
    // Many at once share datagrams, and a burst of losses is repaired.
    bob.lose = 3;
    (4..400).for_each(|number| bob.buy(number));
    bob.until(|it| it.accepted().len() == 399);
    assert!(bob.accepted().into_iter().eq(1..400));
    running.stop().unwrap();
    bob.until(|it| it.client.state() == ClientState::Ended);
    let before = bob.replies.clone();

    let running = venue::start(&config, SystemClock::start()).unwrap();
    let mut bob = Party::log_in(&running, "BOB", 1);
    bob.until(|it| it.replies.len() >= before.len());
    assert!(bob.replies == before, "the same bytes");
    bob.buy(399);
    bob.buy(400);
    bob.until(|it| it.accepted().len() == 400);
    assert_eq!(bob.accepted().last(), Some(&400));
    running.stop().unwrap();
}

/// A session has one client at a time; a logout makes room at once, and cancels orders if configured.
#[test]
fn a_session_has_one_client() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let mut alice = Party::log_in(&running, "ALICE", 1);
    alice.buy(1);
    alice.until(|it| it.accepted() == [1]);
    let mut second = Party::new(&running, "ALICE", "ALICE", 1);
    second.until(|it| matches!(it.client.state(), ClientState::Rejected(_)));
    let reason = LoginRejectReason::SessionNotAvailable;
    assert_eq!(second.client.state(), ClientState::Rejected(reason));
    alice.buy(2);
    alice.until(|it| it.accepted() == [1, 2]);
    let heard = alice.replies.len() as u64;
    alice.client.log_out(alice.clock.now_ns());
    alice.until(|_| true);
    let mut alice = loop {
        let mut party = Party::new(&running, "ALICE", "ALICE", heard + 1);
        party.until(|it| !matches!(it.client.state(), ClientState::Greets | ClientState::LogsIn));
        if party.client.state() == ClientState::LoggedIn {
            break party;
        }
    };
    // The logout canceled both.
    alice.until(|it| it.canceled() == 2);
    alice.cancel(1);
    alice.buy(3);
    alice.until(|it| it.accepted() == [3]);
    running.stop().unwrap();
}

/// A client without a token of its address, or with a wrong password, changes nothing, and gets no more bytes than it
/// sent.
#[test]
fn strangers_gain_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let mut bob = Party::log_in(&running, "BOB", 1);
    bob.buy(1);
    bob.until(|it| it.accepted() == [1]);

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut stranger = Party::at(socket, &running, "ALICE", "guess", 1);
    let hello = stranger.client.take_outgoing().unwrap();
    stranger.socket.send(&hello).unwrap();
    let mut answer = [0; 2_048];
    stranger.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = stranger.socket.recv(&mut answer).unwrap();
    assert!(len < hello.len(), "{len} bytes for {}", hello.len());
    stranger.client.receive(&answer[..len], 0, &mut |_, _| {}).unwrap();
    let login = stranger.client.take_outgoing().unwrap();
    // The stranger's login from another address, with an order behind it, and orders without any token: none is
    // answered.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.connect(stranger.socket.peer_addr().unwrap()).unwrap();
    other.set_nonblocking(true).unwrap();
    let order = EnterOrder::limit(
        key(1),
        Side::Buy,
        Symbol::new("AAPL").unwrap(),
        Quantity(1),
        Price(10_000),
    );
    let order = ouch::request_at(&Command::Enter(order), Timestamp::default()).unwrap();
    let token = &login[1..9];
    let block = [&(order.len() as u16).to_be_bytes()[..], &order].concat();
    let datagrams = [
        login.clone(),
        [b"U", token, &block].concat(),
        order.to_vec(),
        [b"U", &[7; 8][..], &block].concat(),
        [b"O", &[0; 8][..]].concat(),
        b"L".to_vec(),
        vec![b'H'; 31],
        vec![b'H'; 33],
    ];
    for datagram in &datagrams {
        other.send(datagram).unwrap();
    }
    // All of them have arrived once the stranger's login has its answer.
    stranger.socket.send(&login).unwrap();
    let len = stranger.socket.recv(&mut answer).unwrap();
    assert!(len < login.len(), "{len} bytes for {}", login.len());
    stranger.client.receive(&answer[..len], 0, &mut |_, _| {}).unwrap();
    let reason = LoginRejectReason::NotAuthorized;
    assert_eq!(stranger.client.state(), ClientState::Rejected(reason));
    assert_eq!(other.recv(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
    let status = running.status();
    assert_eq!(status["sluice"]["strange"], datagrams.len(), "{status}");
    assert_eq!(status["order_entry_sluice"]["submitted"], 1, "{status}");
    // A session continues despite all that.
    bob.buy(2);
    bob.until(|it| it.accepted() == [1, 2]);
    running.stop().unwrap();
}

/// The example of docs/connect.md runs, twice in a row. Skipped where Python is not installed.
#[test]
fn the_example_of_the_docs_runs() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connect.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = &page[page.find("\n## Sessions over UDP\n").expect("there is such a section")..];
    let start = section.find("```python\n").unwrap() + "```python\n".len();
    let script = &section[start..start + section[start..].find("```").unwrap()];
    let address = running.started()["addresses"]["order_entry_sluice"].as_str().unwrap();
    let (_, port) = address.rsplit_once(':').unwrap();
    assert!(script.contains("26406"));
    let script = script.replace("26406", port);
    for run in 1..=2 {
        let Ok(output) = process::Command::new("python3").args(["-c", &script]).output() else {
            eprintln!("skipped: python3 is not installed");
            break;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "run {run}: {errors}");
    }
    running.stop().unwrap();
}

/// Faults injected by operators reach a session of Sluice: a message skipped by a gap arrives by a resend.
#[test]
fn a_gap_that_was_injected_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let mut bob = Party::log_in(&running, "BOB", 1);
    bob.buy(1);
    bob.until(|it| it.accepted() == [1]);
    let socket = running.started()["operator_socket"].as_str().unwrap();
    let mut operator = UnixStream::connect(socket).unwrap();
    let body = r#"{"session": "BOB", "gap": true}"#;
    let head = format!(
        "POST /operator/faults HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\nDamrak-Operator: tester\r\n\r\n{body}",
        body.len()
    );
    operator.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    operator.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The answer to this order is skipped, and the next answer shows the gap.
    bob.buy(2);
    bob.buy(3);
    bob.until(|it| it.accepted() == [1, 2, 3]);
    assert_eq!(running.status()["order_entry_sluice"]["injected_gaps"], 1);
    running.stop().unwrap();
}
