//! Sessions over TCP, as bytes and times.

use market::Text;
use wire::soupbintcp::{
    Client, ClientHappening, LoginRejectReason, LoginRequest, MESSAGE_LEN_MAX, Server,
    ServerHappening, Timeout, Timers, Violation,
};

use crate::seeded::{Seeded, for_seeds};

const SECOND: u64 = 1_000_000_000;
const SESSION: &[u8; 10] = b"SESSION001";

fn packet(packet_type: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 1).unwrap();
    [&length.to_be_bytes()[..], &[packet_type], payload].concat()
}

fn login(username: &str, password: &str, session: &str, number: &str) -> Vec<u8> {
    packet(b'L', format!("{username}{password}{session}{number}").as_bytes())
}

fn plain_login() -> Vec<u8> {
    login("USER01", "PASSWORD01", "          ", "                   1")
}

fn logged_in_server() -> Server {
    let mut server = Server::new(Timers::default(), 0);
    server.receive(&plain_login(), 0).unwrap();
    assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
    server.accept(SESSION, 1, 0);
    server.sent(server.outgoing().len());
    server
}

fn client() -> Client {
    Client::new(Timers::default(), LoginRequest::new("USER01", "PASSWORD01").unwrap(), 0)
}

fn logged_in_client() -> Client {
    let mut client = client();
    client.sent(client.outgoing().len());
    client.receive(&packet(b'A', b"SESSION001                   1"), 0).unwrap();
    assert!(matches!(client.next(), Ok(Some(ClientHappening::Accepted { .. }))));
    client
}

/// Logins of known implementations are read, with padding of any kind on either side.
#[test]
fn logins_are_understood_however_padded() {
    let blank = "          ";
    for (bytes, session, number) in [
        (login("USER01", "PASSWORD01", blank, "                   1"), "", Some(1)),
        (login("USER01", "PASSWORD01", blank, "1                   "), "", Some(1)),
        (login("USER01", "PASSWORD01", "       ABC", "                  42"), "ABC", Some(42)),
        (
            login("USER01", "PASSWORD01", "ABC\0\0\0\0\0\0\0", "42\0                 "),
            "ABC",
            Some(42),
        ),
        (login("USER01", "PASSWORD01", blank, "                   0"), "", Some(0)),
        (login("USER01", "PASSWORD01", blank, "                    "), "", None),
        (login("user01", "password01", blank, "00000000000000000007"), "", Some(7)),
        (login("USER01", "PASSWORD01", blank, "99999999999999999999"), "", Some(u64::MAX)),
    ] {
        let mut server = Server::new(Timers::default(), 0);
        server.receive(&bytes, 0).unwrap();
        let Ok(Some(ServerHappening::Login(login))) = server.next() else { panic!("{bytes:?}") };
        assert!(login.username_is("USER01") && login.password_is("PASSWORD01"));
        assert_eq!((login.session.as_str(), login.sequence_number), (session, number));
    }
    let mut server = Server::new(Timers::default(), 0);
    server.receive(&login("   usr", "      pass", blank, "1                   "), 0).unwrap();
    let Ok(Some(ServerHappening::Login(login))) = server.next() else { panic!() };
    assert_eq!((login.username.as_str(), login.password.as_str()), ("usr", "pass"));
}

/// A login that cannot be read closes the connection.
#[test]
fn unreadable_logins_are_violations() {
    let blank = "          ";
    for (bytes, violation) in [
        (
            login("USER01", "PASSWORD01", blank, "                  -1"),
            Violation::Field("RequestedSequenceNumber"),
        ),
        (
            login("US\tR01", "PASSWORD01", blank, "                   1"),
            Violation::Field("Username"),
        ),
        (packet(b'L', &[b' '; 45]), Violation::Length { packet_type: b'L', length: 46 }),
        (packet(b'L', &[b' '; 50]), Violation::Length { packet_type: b'L', length: 51 }),
    ] {
        let mut server = Server::new(Timers::default(), 0);
        server.receive(&bytes, 0).unwrap();
        assert_eq!(server.next(), Err(violation));
        assert!(server.is_closed());
        assert_eq!(server.next(), Ok(None), "nothing happens after a violation");
    }
}

/// Every violation is an error that closes the connection; the server guesses nothing.
#[test]
fn server_knows_violations() {
    let violated = |mut server: Server, bytes: &[u8]| {
        server.receive(bytes, 0).unwrap();
        server.next().unwrap_err()
    };
    let connected = || Server::new(Timers::default(), 0);
    assert_eq!(violated(connected(), &[0, 0]), Violation::Empty);
    assert_eq!(violated(connected(), &packet(b'U', b"hi")), Violation::OutOfPlace(b'U'));
    assert_eq!(violated(connected(), &packet(b'G', b"ET ")), Violation::UnknownType(b'G'));
    let http = Violation::Length { packet_type: b'T', length: u16::from_be_bytes(*b"GE") };
    assert_eq!(violated(connected(), b"GET / HTTP/1.1\r\n"), http);

    assert_eq!(violated(logged_in_server(), &plain_login()), Violation::OutOfPlace(b'L'));
    assert_eq!(violated(logged_in_server(), &packet(b'S', b"hi")), Violation::UnknownType(b'S'));
    assert_eq!(
        violated(logged_in_server(), &packet(b'R', b"!")),
        Violation::Length { packet_type: b'R', length: 2 }
    );
    assert_eq!(
        violated(logged_in_server(), &[0x80, 0x00, b'U']),
        Violation::Length { packet_type: b'U', length: 0x8000 }
    );
    let mut server = logged_in_server();
    assert_eq!(server.receive(&vec![0; 1 << 20], 0), Err(Violation::TooMuchUnread));
    assert!(server.is_closed());
}

/// The longest message passes, both ways, in one piece.
#[test]
fn longest_message_passes() {
    let message = vec![0xA5; MESSAGE_LEN_MAX];
    let mut client = logged_in_client();
    client.send(&message, 0);
    let mut server = logged_in_server();
    server.receive(client.outgoing(), 0).unwrap();
    assert_eq!(server.next(), Ok(Some(ServerHappening::Message(&message))));
    server.send_sequenced(&message, 0);
    client.receive(server.outgoing(), 0).unwrap();
    assert_eq!(client.next(), Ok(Some(ClientHappening::Sequenced(1, &message))));
}

/// Silence for a second is broken by a heartbeat, from each side, only once logged in.
#[test]
fn heartbeats_break_silence() {
    let mut server = Server::new(Timers::default(), 0);
    server.tick(4 * SECOND).unwrap();
    assert!(server.outgoing().is_empty());
    let mut server = logged_in_server();
    server.tick(SECOND - 1).unwrap();
    assert!(server.outgoing().is_empty());
    server.tick(SECOND).unwrap();
    assert_eq!(server.outgoing(), packet(b'H', b""));
    server.tick(3 * SECOND).unwrap();
    assert_eq!(server.outgoing().len(), 3, "unread heartbeats do not pile up");
    server.sent(3);
    server.send_sequenced(b"x", 3 * SECOND);
    server.sent(4);
    server.tick(4 * SECOND - 1).unwrap();
    assert!(server.outgoing().is_empty(), "a message is as good as a heartbeat");

    let mut client = client();
    client.sent(client.outgoing().len());
    client.tick(4 * SECOND).unwrap();
    assert!(client.outgoing().is_empty());
    let mut client = logged_in_client();
    client.tick(SECOND).unwrap();
    assert_eq!(client.outgoing(), packet(b'R', b""));
}

/// Fifteen seconds without a whole packet are too long; half a packet does not count.
#[test]
fn silent_peers_are_given_up() {
    let mut server = logged_in_server();
    server.receive(&packet(b'R', b""), 10 * SECOND).unwrap();
    assert_eq!(server.next(), Ok(Some(ServerHappening::Taken)));
    server.receive(&[0, 9], 20 * SECOND).unwrap();
    assert_eq!(server.next(), Ok(None));
    server.tick(25 * SECOND - 1).unwrap();
    assert_eq!(server.tick(25 * SECOND), Err(Timeout::Silence));

    let mut client = logged_in_client();
    client.receive(&packet(b'H', b""), 10 * SECOND).unwrap();
    assert_eq!(client.next(), Ok(None));
    client.tick(25 * SECOND - 1).unwrap();
    assert_eq!(client.tick(25 * SECOND), Err(Timeout::Silence));
}

/// Heartbeats and debug text are taken one at a time, so that a caller that counts calls bounds the work.
#[test]
fn each_step_takes_one_packet() {
    let mut server = logged_in_server();
    let flood = [packet(b'R', b""), packet(b'+', b"hello")].concat().repeat(1_000);
    server.receive(&flood, SECOND).unwrap();
    server.receive(&packet(b'U', b"hi"), SECOND).unwrap();
    for number in 0..2_000 {
        assert_eq!(server.next(), Ok(Some(ServerHappening::Taken)), "packet {number}");
    }
    assert_eq!(server.next(), Ok(Some(ServerHappening::Message(b"hi"))));
    assert_eq!(server.next(), Ok(None));
}

/// No connection may stay without a login, and no client waits for its answer for ever.
#[test]
fn late_logins_are_given_up() {
    let mut server = Server::new(Timers::default(), 7);
    server.receive(&packet(b'+', b"hello"), SECOND).unwrap();
    assert_eq!(server.next(), Ok(Some(ServerHappening::Taken)), "debug text is no login");
    server.tick(7 + 5 * SECOND - 1).unwrap();
    assert_eq!(server.tick(7 + 5 * SECOND), Err(Timeout::Login));
    assert_eq!(client().tick(5 * SECOND), Err(Timeout::Login));
}

/// Version 4.10: the client gives the silence after which the server ends the connection.
#[test]
fn client_chooses_the_receive_timeout() {
    for (milliseconds, timeout_ns) in [(Some(30_000), 30 * SECOND), (Some(0), 15 * SECOND)] {
        let mut request = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        request.heartbeat_timeout_ms = milliseconds;
        let client = Client::new(Timers::default(), request, 0);
        assert_eq!(client.outgoing().len(), 54);
        let mut server = Server::new(Timers::default(), 0);
        server.receive(client.outgoing(), 0).unwrap();
        assert_eq!(server.next(), Ok(Some(ServerHappening::Login(request))));
        server.accept(SESSION, 1, 0);
        server.tick(timeout_ns - 1).unwrap();
        assert_eq!(server.tick(timeout_ns), Err(Timeout::Silence));
    }
}

/// Only sequenced messages are counted, from the number in the answer to the login.
#[test]
fn only_sequenced_messages_count() {
    let mut server = Server::new(Timers::default(), 0);
    server.receive(&plain_login(), 0).unwrap();
    assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
    server.accept(b"ABC       ", 41, 0);
    server.send_sequenced(b"a", 0);
    server.send_unsequenced(b"b", 0);
    server.send_debug("c", 0);
    server.send_sequenced(b"d", 0);
    assert_eq!(server.next_sequence(), 43);

    let mut client = client();
    client.receive(server.outgoing(), 0).unwrap();
    let session = Text::new("ABC").unwrap();
    for happening in [
        ClientHappening::Accepted { session, next_sequence: 41 },
        ClientHappening::Sequenced(41, b"a"),
        ClientHappening::Unsequenced(b"b"),
        ClientHappening::Debug(b"c"),
        ClientHappening::Sequenced(42, b"d"),
    ] {
        assert_eq!(client.next(), Ok(Some(happening)));
    }
    assert_eq!(client.next_sequence(), 43);
}

/// After its end a session carries no sequenced messages; requests still come.
#[test]
fn ended_session_carries_nothing_sequenced() {
    let mut server = logged_in_server();
    server.end_of_session(0);
    server.receive(&packet(b'U', b"late"), 0).unwrap();
    assert_eq!(server.next(), Ok(Some(ServerHappening::Message(b"late"))));
    let mut client = logged_in_client();
    client.receive(server.outgoing(), 0).unwrap();
    assert_eq!(client.next(), Ok(Some(ClientHappening::EndOfSession)));
    client.receive(&packet(b'S', b"x"), 0).unwrap();
    assert_eq!(client.next(), Err(Violation::OutOfPlace(b'S')));
}

/// A rejected or logged out connection is done, whatever else arrives.
#[test]
fn done_connections_hear_nothing() {
    let mut server = Server::new(Timers::default(), 0);
    server.receive(&[plain_login(), packet(b'U', b"hi")].concat(), 0).unwrap();
    assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
    server.reject(LoginRejectReason::NotAuthorized, 0);
    assert_eq!(server.next(), Ok(None));
    assert!(server.is_closed() && !server.is_logged_in());
    assert_eq!(server.outgoing(), packet(b'J', b"A"));

    let mut server = logged_in_server();
    server.receive(&[packet(b'O', b""), packet(b'U', b"hi")].concat(), 0).unwrap();
    assert_eq!(server.next(), Ok(Some(ServerHappening::Logout)));
    assert_eq!(server.next(), Ok(None));
    server.tick(100 * SECOND).unwrap();
    assert!(server.outgoing().is_empty());
}

/// A packet that the server may not send, or may not send now, is an error of the client.
#[test]
fn client_knows_violations() {
    let violated = |mut client: Client, bytes: &[u8]| {
        client.receive(bytes, 0).unwrap();
        client.next().unwrap_err()
    };
    assert_eq!(violated(client(), &packet(b'S', b"x")), Violation::OutOfPlace(b'S'));
    assert_eq!(violated(client(), &packet(b'L', b"x")), Violation::UnknownType(b'L'));
    assert_eq!(violated(client(), &packet(b'J', b"X")), Violation::Field("RejectReasonCode"));
    assert_eq!(
        violated(client(), &packet(b'A', b"SESSION001                    ")),
        Violation::Field("SequenceNumber")
    );
    assert_eq!(
        violated(client(), &packet(b'A', b"")),
        Violation::Length { packet_type: b'A', length: 1 }
    );
    assert_eq!(
        violated(logged_in_client(), &packet(b'A', b"SESSION001                   1")),
        Violation::OutOfPlace(b'A')
    );
    assert_eq!(violated(logged_in_client(), &[0, 0]), Violation::Empty);
}

/// Both sides joined by a network that cuts anywhere: every message arrives once, in order.
#[test]
fn messages_pass_however_tcp_cuts_them() {
    for_seeds(200, |seeded| {
        let mut client = client();
        let mut server = Server::new(Timers::default(), 0);
        let (mut asked, mut received, mut sent, mut got) = (0_u64, 0_u64, 0_u64, 0_u64);
        for now_ns in 0..400 {
            if client.is_logged_in() && seeded.once_in(2) {
                client.send(&padded(seeded, asked), now_ns);
                asked += 1;
            }
            if server.is_logged_in() && seeded.once_in(2) {
                server.send_sequenced(&padded(seeded, sent), now_ns);
                sent += 1;
            }
            let cut = seeded.below(client.outgoing().len() + 1);
            server.receive(&client.outgoing()[..cut], now_ns).unwrap();
            client.sent(cut);
            while let Some(happening) = server.next().unwrap() {
                match happening {
                    ServerHappening::Login(_) => server.accept(SESSION, 1, now_ns),
                    ServerHappening::Message(message) => {
                        assert_eq!(message[..8], received.to_be_bytes());
                        received += 1;
                    }
                    ServerHappening::Taken => {}
                    ServerHappening::Logout => panic!("nobody logs out"),
                }
            }
            let cut = seeded.below(server.outgoing().len() + 1);
            client.receive(&server.outgoing()[..cut], now_ns).unwrap();
            server.sent(cut);
            while let Some(happening) = client.next().unwrap() {
                match happening {
                    ClientHappening::Accepted { next_sequence: 1, .. } => {}
                    ClientHappening::Sequenced(number, message) => {
                        assert_eq!(message[..8], got.to_be_bytes());
                        got += 1;
                        assert_eq!(number, got);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(received > 0 && got > 0);
        assert!(received <= asked && got <= sent);
    });
}

/// A number and some bytes after it.
fn padded(seeded: &mut Seeded, number: u64) -> Vec<u8> {
    let len = seeded.below(100);
    [&number.to_be_bytes()[..], &seeded.bytes(len)].concat()
}
