use gateway::OperatorEvent;
use market::SplitMix64;

use crate::harness::{Harness, SECOND, Seen, TestClient, enter, entered};

/// A source of random bytes; the seed identifies the run.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        (0..self.below(len_max + 1)).map(|_| self.0.next_u64() as u8).collect()
    }
}

fn packet(packet_type: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u16 + 1).to_be_bytes().to_vec();
    packet.push(packet_type);
    packet.extend(payload);
    packet
}

/// A message that cannot be read is reported and ignored, and the connection goes on.
#[test]
fn a_malformed_message_is_named_and_ignored() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    client.client.send(b"?what", harness.now_ns);
    client.client.send(&enter(1)[..20], harness.now_ns);
    client.client.send(b"", harness.now_ns);
    client.enter(2, harness.now_ns);
    harness.turn_with(&mut [&mut client]);
    let texts: Vec<_> = client
        .seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Debug(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts,
        [
            "message ignored: no message has type '?'",
            "message ignored: 20 bytes are too few for 'O'",
            "message ignored: the message is empty",
        ]
    );
    assert_eq!(entered(&harness.venue.asked), [2]);
    assert_eq!(client.replies().len(), 1);
    assert_eq!(harness.count().malformed, 3);
    let operator_events = harness.operator_events.lock().unwrap();
    let of_malformed = |event: &&OperatorEvent| matches!(event, OperatorEvent::Malformed { .. });
    assert_eq!(operator_events.iter().filter(of_malformed).count(), 3);
}

/// 64 malformed messages are tolerated; one more ends the connection, and the session goes on.
#[test]
fn too_many_malformed_messages_end_the_connection() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    for _ in 0..64 {
        client.client.send(b"?", harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);
    assert!(!harness.network.is_finished(client.connection));
    client.client.send(b"?", harness.now_ns);
    client.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut client]);
    assert_eq!(client.seen.last(), Some(&Seen::Debug("too many malformed messages".to_owned())));
    assert!(harness.network.is_finished(client.connection));
    assert_eq!(harness.venue.asked, []);
    assert_eq!(harness.log_in("USER01").seen, [Seen::Accepted(1)]);
}

/// Every violation of the session protocol ends that connection, after a message about it, and affects no other.
#[test]
fn every_violation_ends_its_connection_and_no_other() {
    let login = b"\x00\x2fLUSER02PASSWORD01                             1";
    let after_login: [&[u8]; 7] = [
        b"\x00\x00",
        b"\xff\xffU",
        b"\x00\x01?",
        b"\x00\x01S",
        b"\x00\x02Rx",
        b"\x00\x02Ox",
        login,
    ];
    let before_login: [&[u8]; 7] = [
        b"\x00\x00",
        b"\xff\xffL",
        b"\x00\x01?",
        b"\x00\x02UQ",
        b"\x00\x30LUSER02PASSWORD01                              1",
        b"\x00\x2fLUSER02PASSWORD01                             x",
        b"GET / HTTP/1.1\r\nHost: exchange\r\n\r\n",
    ];
    let mut harness = Harness::new();
    let mut other = harness.log_in("USER01");
    let mut number = 0;
    let cases = after_login
        .iter()
        .map(|bytes| (true, bytes))
        .chain(before_login.iter().map(|bytes| (false, bytes)));
    for (logged_in, bytes) in cases {
        let connection = if logged_in {
            harness.log_in("USER02").connection
        } else {
            harness.network.connect("10.0.0.2:1".parse().unwrap())
        };
        harness.turn();
        let before = harness.network.take(connection, 4096);
        harness.network.deliver(connection, bytes);
        harness.turn();
        let text = harness.network.take(connection, 4096);
        assert_eq!(text.get(2), Some(&b'+'), "{bytes:?} after {before:?}: {text:?}");
        assert!(harness.network.is_finished(connection), "{bytes:?}");
        harness.network.cut(connection);
        number += 1;
        other.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut other]);
        assert!(!harness.network.is_open(connection), "{bytes:?}");
        assert_eq!(other.replies().len(), number as usize, "{bytes:?}");
    }
    assert_eq!(harness.count().violations, 14);
}

/// Every truncation and every changed byte of a good conversation is survived, and a connection beside it does not
/// notice.
#[test]
fn every_truncation_and_every_changed_byte_is_survived() {
    let mut conversation = b"\x00\x2fLUSER02PASSWORD01          ".to_vec();
    conversation.extend(b"                   1");
    conversation.extend(packet(b'U', &enter(1)));
    conversation.extend(packet(b'R', b""));
    let mut harness = Harness::new();
    let mut other = harness.log_in("USER01");
    let mut number = 0;
    let mut survive = |harness: &mut Harness, bytes: &[u8]| {
        // Each from its own address, so that wrong passwords shut no user out.
        number += 1;
        let address = std::net::Ipv4Addr::from(0x0b00_0000 + number);
        let connection = harness.network.connect((address, 1).into());
        harness.network.deliver(connection, bytes);
        harness.network.finish(connection);
        other.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut other]);
        assert_eq!(other.replies().len(), number as usize, "{bytes:?}");
        assert!(!harness.network.is_open(connection), "{bytes:?}");
    };
    for len in 0..conversation.len() {
        survive(&mut harness, &conversation[..len]);
    }
    for at in 0..conversation.len() {
        for change in [0x01, 0x20, 0x80, 0xff] {
            let mut changed = conversation.clone();
            changed[at] ^= change;
            survive(&mut harness, &changed);
        }
    }
    assert_eq!(harness.count().connections, 1);
}

/// Noise before and after the login, cut at random, never disturbs the connection beside it.
#[test]
fn noise_is_survived() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut random = Random(SplitMix64::new(seed));
    let mut harness = Harness::new();
    let mut other = harness.log_in("USER01");
    let mut noisy: Option<TestClient> = None;
    for number in 1..=2_000 {
        let mut client = match noisy.take() {
            Some(client) if harness.network.is_open(client.connection) => client,
            _ => harness.log_in("USER02"),
        };
        let bytes = match random.below(4) {
            0 => random.bytes(200),
            1 => packet(b'U', &random.bytes(100)),
            2 => packet(random.0.next_u64() as u8, &random.bytes(10)),
            _ => {
                let mut message = enter(number);
                let at = random.below(message.len());
                message[at] = random.0.next_u64() as u8;
                packet(b'U', &message)
            }
        };
        let cut = random.below(bytes.len() + 1);
        harness.network.deliver(client.connection, &bytes[..cut]);
        other.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut other]);
        harness.network.deliver(client.connection, &bytes[cut..]);
        if random.below(20) == 0 {
            harness.network.cut(client.connection);
        }
        client.read(&harness.network, harness.now_ns);
        noisy = Some(client);
        harness.pass(SECOND / 10, &mut [&mut other]);
        assert_eq!(other.replies().len(), number as usize, "SEED={seed}");
    }
    let count = harness.count();
    assert!(count.violations > 50 && count.malformed > 50, "{count:?}");
}
