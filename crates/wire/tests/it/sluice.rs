//! Sessions of Sluice: both sides over a network that loses, repeats and reorders, and random bytes.

use market::Text;
use wire::sluice::{
    Client, ClientState, Login, LoginRejectReason, Server, ServerHappening, Timers,
    answer_to_hello, hello, split_frame, token,
};
use zerocopy::IntoBytes as _;

use crate::seeded::Seeded;

const TOKEN: u64 = 0x1122_3344_5566_7788;
const SESSION: [u8; 10] = *b"0000000007";
const MS: u64 = 1_000_000;

fn login() -> Login {
    Login {
        username: Text::new("USER01").unwrap(),
        password: Text::new("PASSWORD01").unwrap(),
        session: Text::BLANK,
        sequence_number: 1,
    }
}

/// A datagram after its length.
fn frame(datagram: &[u8]) -> Vec<u8> {
    [&(datagram.len() as u16).to_be_bytes()[..], datagram].concat()
}

/// The datagrams that a server sends.
fn sent(server: &mut Server) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    while let Some((datagram, rest)) = split_frame(server.outgoing()) {
        let (datagram, len) = (datagram.to_vec(), server.outgoing().len() - rest.len());
        server.sent(len);
        datagrams.push(datagram);
    }
    assert!(server.outgoing().is_empty(), "whole datagrams wait");
    datagrams
}

/// A server with a client that is logged in.
fn logged_in(next_reply: u64) -> (Server, Client) {
    let timers = Timers::default();
    let mut server = Server::new(timers, SESSION, 0);
    let mut client = Client::new(timers, login(), 5, 0);
    let greeting = client.take_outgoing().unwrap();
    assert_eq!(hello(&greeting), Some(5));
    let answer = answer_to_hello(5, TOKEN);
    client.receive(answer.as_bytes(), 0, &mut |_, _| {}).unwrap();
    let asks = client.take_outgoing().unwrap();
    assert_eq!(token(&asks), Some((TOKEN, Some(5))));
    server.receive(&frame(&asks)).unwrap();
    assert_eq!(server.next(0), Ok(Some(ServerHappening::Login(login()))));
    server.accept(next_reply, 0);
    for datagram in sent(&mut server) {
        client.receive(&datagram, 0, &mut |_, _| {}).unwrap();
    }
    assert_eq!(client.state(), ClientState::LoggedIn);
    (server, client)
}

/// The datagrams of a whole session, byte by byte.
#[test]
fn datagrams_have_these_bytes() {
    let nonce = 0x0102_0304_0506_0708;
    let mut client = Client::new(Timers::default(), login(), nonce, 0);
    let mut server = Server::new(Timers::default(), SESSION, 0);
    let took = |client: &mut Client| {
        let datagram = client.take_outgoing().expect("something waits");
        datagram.escape_ascii().to_string()
    };
    assert_eq!(took(&mut client), format!("H1\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08{:22}", ""));
    let answer = answer_to_hello(nonce, TOKEN);
    let token = "\\x11\\\"3DUfw\\x88";
    let shown = answer.as_bytes().escape_ascii().to_string();
    assert_eq!(shown, format!("T\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08{token}"));
    client.receive(answer.as_bytes(), 0, &mut |_, _| {}).unwrap();
    let asks = client.take_outgoing().unwrap();
    let words = "\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08USER01PASSWORD01          ";
    let number = r"\x00\x00\x00\x00\x00\x00\x00\x01";
    assert_eq!(asks.escape_ascii().to_string(), format!("L{token}{words}{number}"));
    server.receive(&frame(&asks)).unwrap();
    assert!(matches!(server.next(0), Ok(Some(ServerHappening::Login(_)))));
    server.accept(1, 0);
    server.send_reply(b"AB", 1, 0);
    server.send_reply(b"C", 2, 0);
    server.send_reply(b"D", 4, 0);
    server.send_debug("a text", 0);
    server.tick(999 * MS).unwrap();
    let datagrams = sent(&mut server);
    let shown: Vec<_> = datagrams.iter().map(|it| it.escape_ascii().to_string()).collect();
    let zeros = r"\x00\x00\x00\x00\x00\x00\x00";
    let expected = [
        format!("A{token}0000000007{number}"),
        format!(r"0000000007{zeros}\x01\x00\x02\x00\x02AB\x00\x01C"),
        format!(r"0000000007{zeros}\x04\x00\x01\x00\x01D"),
        "+a text".into(),
    ];
    assert_eq!(shown, expected);
    server.tick(1_000 * MS).unwrap();
    server.end_of_session(1_000 * MS);
    let shown: Vec<_> = sent(&mut server).iter().map(|it| it.escape_ascii().to_string()).collect();
    let heartbeat = format!(r"0000000007{zeros}\x05\x00\x00");
    assert_eq!(shown, [heartbeat, format!(r"0000000007{zeros}\x05\xff\xff")]);

    for datagram in datagrams {
        client.receive(&datagram, 0, &mut |_, _| {}).unwrap();
    }
    assert_eq!(client.take_text().as_deref(), Some(&b"a text"[..]));
    client.send(b"one", 0);
    client.send(b"two", 0);
    assert_eq!(took(&mut client), format!(r"U{token}\x00\x03one\x00\x03two"));
    client.tick(1).unwrap();
    assert_eq!(took(&mut client), format!(r"Q{token}{zeros}\x03\x00\x01"));
    client.tick(2).unwrap();
    assert_eq!(client.take_outgoing(), None, "the answer may be under way");
    client.tick(251 * MS).unwrap();
    assert_eq!(took(&mut client), format!(r"Q{token}{zeros}\x03\x00\x01"));
    let mut whole = Client::new(Timers::default(), login(), nonce, 0);
    whole.take_outgoing().unwrap();
    whole.receive(answer.as_bytes(), 0, &mut |_, _| {}).unwrap();
    whole.take_outgoing().unwrap();
    let accepted = [&b"A"[..], &TOKEN.to_be_bytes(), &SESSION, &1_u64.to_be_bytes()].concat();
    whole.receive(&accepted, 0, &mut |_, _| {}).unwrap();
    whole.tick(1_000 * MS).unwrap();
    assert_eq!(took(&mut whole), format!("R{token}"));
    whole.log_out(1_000 * MS);
    assert_eq!(took(&mut whole), format!("O{token}"));
}

/// The rules by their bytes: the permitted messages of each side and state, and the ends of a session.
#[test]
fn a_session_takes_what_its_state_allows() {
    let with_token = |kind: u8, rest: &[u8]| [&[kind][..], &TOKEN.to_be_bytes(), rest].concat();
    let cases: [(&[u8], &str); 8] = [
        (&with_token(b'L', b""), "datagram 'L' may not have this length"),
        (&with_token(b'R', b"x"), "datagram 'R' may not have this length"),
        (&with_token(b'O', b"x"), "datagram 'O' may not have this length"),
        (&with_token(b'Q', &[0; 9]), "datagram 'Q' may not have this length"),
        (&with_token(b'U', &[0, 3, 1, 2]), "a message block goes beyond its datagram"),
        (&with_token(b'U', &[0]), "a message block goes beyond its datagram"),
        (&with_token(b'A', b""), "datagram 'A' is not allowed from this side"),
        (b"", "datagram '\\x00' may not have this length"),
    ];
    for (datagram, fault) in cases {
        let (mut server, _) = logged_in(1);
        server.receive(&frame(datagram)).unwrap();
        let found = loop {
            match server.next(0) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{fault} was not found"),
                Err(violation) => break violation.to_string(),
            }
        };
        assert_eq!(found, fault);
        server.receive(&frame(&with_token(b'U', &[0, 1, 1]))).unwrap();
        assert_eq!(server.next(0), Ok(None), "what follows is not taken");
    }
    // Only a login comes first.
    for kind in *b"UROQ" {
        let mut server = Server::new(Timers::default(), SESSION, 0);
        server.receive(&frame(&with_token(kind, b""))).unwrap();
        assert!(server.next(0).is_err());
    }
    let (mut server, mut client) = logged_in(1);
    client.send(b"one", 0);
    client.send(b"two", 0);
    client.log_out(0);
    // Cut anywhere.
    while let Some(datagram) = client.take_outgoing() {
        let framed = frame(&datagram);
        server.receive(&framed[..3]).unwrap();
        server.receive(&framed[3..]).unwrap();
    }
    let mut heard = Vec::new();
    loop {
        match server.next(0).unwrap().expect("a logout ends it") {
            ServerHappening::Message(message) => heard.push(message.to_vec()),
            ServerHappening::Taken => {}
            ServerHappening::Logout => break,
            ServerHappening::Login(_) => panic!("it is logged in"),
        }
    }
    assert_eq!(heard, [b"one", b"two"]);
}

/// A login whose answer was lost gets the same answer again, and is no second login; a reject ends it.
#[test]
fn a_login_is_answered_again() {
    let (mut server, _) = logged_in(7);
    server.send_reply(b"reply", 7, 0);
    sent(&mut server);
    let mut late = Client::new(Timers::default(), login(), 5, 0);
    late.take_outgoing().unwrap();
    late.receive(answer_to_hello(4, 1).as_bytes(), 0, &mut |_, _| {}).unwrap();
    assert_eq!(late.state(), ClientState::Greets, "the answer to another hello");
    late.receive(answer_to_hello(5, TOKEN).as_bytes(), 0, &mut |_, _| {}).unwrap();
    late.take_outgoing().unwrap();
    late.tick(250 * MS).unwrap();
    server.receive(&frame(&late.take_outgoing().unwrap())).unwrap();
    assert_eq!(server.next(0), Ok(Some(ServerHappening::Taken)));
    let mut replies = Vec::new();
    for datagram in sent(&mut server) {
        late.receive(&datagram, 0, &mut |number, _| replies.push(number)).unwrap();
    }
    assert_eq!(late.state(), ClientState::LoggedIn);
    // From a heartbeat it learns that it has missed a reply, and requests it.
    server.tick(1_000 * MS).unwrap();
    for datagram in sent(&mut server) {
        late.receive(&datagram, 0, &mut |number, _| replies.push(number)).unwrap();
    }
    late.tick(1_000 * MS).unwrap();
    server.receive(&frame(&late.take_outgoing().unwrap())).unwrap();
    assert_eq!(server.next(0), Ok(Some(ServerHappening::Taken)));
    assert_eq!(server.resend_next(), Some(7));
    server.resend(Some(b"reply"), 0);
    assert_eq!(server.resend_next(), None);
    for datagram in sent(&mut server) {
        late.receive(&datagram, 0, &mut |number, _| replies.push(number)).unwrap();
    }
    assert_eq!(replies, [7]);

    let mut server = Server::new(Timers::default(), SESSION, 0);
    let mut client = Client::new(Timers::default(), login(), 5, 0);
    client.receive(answer_to_hello(5, TOKEN).as_bytes(), 0, &mut |_, _| {}).unwrap();
    let asks = std::iter::from_fn(|| client.take_outgoing()).last().unwrap();
    server.receive(&frame(&asks)).unwrap();
    assert!(matches!(server.next(0), Ok(Some(ServerHappening::Login(_)))));
    server.reject(LoginRejectReason::NotAuthorized, 0);
    for datagram in sent(&mut server) {
        client.receive(&datagram, 0, &mut |_, _| {}).unwrap();
    }
    assert_eq!(client.state(), ClientState::Rejected(LoginRejectReason::NotAuthorized));
}

/// Heartbeats keep a quiet session; silence ends it, for the client too.
#[test]
fn silence_ends_a_session() {
    let (mut server, mut client) = logged_in(1);
    for second in 1..=60 {
        let now_ns = second * 1_000 * MS;
        client.tick(now_ns).unwrap();
        server.tick(now_ns).unwrap();
        let heartbeat = client.take_outgoing().expect("a heartbeat is due");
        server.receive(&frame(&heartbeat)).unwrap();
        assert_eq!(server.next(now_ns), Ok(Some(ServerHappening::Taken)));
        let datagrams = sent(&mut server);
        assert_eq!(datagrams.len(), 1);
        client.receive(&datagrams[0], now_ns, &mut |_, _| {}).unwrap();
    }
    assert!(server.tick(74_999 * MS).is_ok() && client.tick(74_999 * MS).is_ok());
    assert!(server.tick(75_000 * MS).is_err() && client.tick(75_000 * MS).is_err());
    let mut server = Server::new(Timers::default(), SESSION, 0);
    assert!(server.tick(4_999 * MS).is_ok() && server.tick(5_000 * MS).is_err());
    let mut client = Client::new(Timers::default(), login(), 1, 0);
    assert!(client.tick(4_999 * MS).is_ok() && client.tick(5_000 * MS).is_err());
}

/// Over a network that loses, repeats and reorders datagrams both ways, the client has every reply once and in order,
/// and the end of the session; several replies share a packet, and none is longer than a usual network carries.
#[test]
fn every_reply_arrives_once() {
    for seed in 0..40 {
        let mut random = Seeded::new(seed);
        let replies: Vec<Vec<u8>> = (0..300_u64)
            .map(|number| {
                let len = 8 + random.below(120);
                [&number.to_be_bytes()[..], &vec![b'x'; len]].concat()
            })
            .collect();
        let (mut server, mut client) = logged_in(1);
        let mut heard = Vec::new();
        let (mut under_way, mut packets) = (Vec::<(bool, Vec<u8>)>::new(), 0);
        let mut next = 0;
        for turn in 1..5_000_u64 {
            let now_ns = turn * 20 * MS;
            for _ in 0..random.below(20) {
                if let Some(reply) = replies.get(next) {
                    next += 1;
                    server.send_reply(reply, next as u64, now_ns);
                }
            }
            while let Some(number) = server.resend_next() {
                server.resend(Some(&replies[number as usize - 1]), now_ns);
            }
            server.tick(now_ns).unwrap();
            client.tick(now_ns).unwrap();
            for datagram in sent(&mut server) {
                assert!(datagram.len() <= 1_400, "{}", datagram.len());
                packets += 1;
                under_way.push((true, datagram));
            }
            under_way.extend(std::iter::from_fn(|| client.take_outgoing()).map(|it| (false, it)));
            for _ in 0..under_way.len() {
                let (to_client, datagram) = under_way.swap_remove(random.below(under_way.len()));
                match random.below(8) {
                    0 | 1 => continue,
                    2 => under_way.push((to_client, datagram.clone())),
                    _ => {}
                }
                if to_client {
                    let each = &mut |number: u64, reply: &[u8]| {
                        assert_eq!(number, heard.len() as u64 + 1);
                        heard.push(reply.to_vec());
                    };
                    client.receive(&datagram, now_ns, each).unwrap();
                } else {
                    server.receive(&frame(&datagram)).unwrap();
                    while server.next(now_ns).unwrap().is_some() {}
                }
            }
            if heard.len() == replies.len() {
                break;
            }
        }
        assert!(heard == replies, "seed {seed}: {} of {}", heard.len(), replies.len());
        assert!(packets < 300, "seed {seed}: {packets} packets");
        server.end_of_session(0);
        for datagram in sent(&mut server) {
            client.receive(&datagram, 0, &mut |_, _| {}).unwrap();
        }
        assert_eq!(client.state(), ClientState::Ended, "seed {seed}");
    }
}

/// No datagrams make a side panic, and the waiting bytes are bounded.
#[test]
fn any_bytes_are_taken() {
    for seed in 0..300 {
        let mut random = Seeded::new(seed);
        let (mut server, mut client) = logged_in(1);
        for number in 1..100 {
            let kind = *random.pick(b"HLURQOTAJ+0x");
            let len = random.below(60);
            let rest: Vec<u8> = (0..len).map(|_| (random.below(4) * 85) as u8).collect();
            let datagram = [&[kind][..], &TOKEN.to_be_bytes(), &rest].concat();
            let datagram = &datagram[..random.below(datagram.len() + 1)];
            let _ = client.receive(datagram, number, &mut |_, _| {});
            let _ = (hello(datagram), token(datagram));
            if server.receive(&frame(datagram)).is_err() {
                break;
            }
            while let Ok(Some(happening)) = server.next(number) {
                assert!(!matches!(happening, ServerHappening::Login(_)));
            }
            while server.resend_next().is_some() {
                server.resend(None, number);
            }
            assert!(server.held() < 256 * 1024);
            sent(&mut server);
        }
    }
}
