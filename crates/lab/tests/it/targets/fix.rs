//! FIX 4.2 and 4.4: a session alone, and the order entry port of a venue with participants and strangers.
//!
//! Invariant: the venue writes whole messages that agree with the dictionary, numbered without a gap, whatever it reads
//! and however that is cut; and the memory that it holds for a client is bounded.

use gateway::ConnectionId;
use market::{Instrument, InstrumentId, Price, Quantity, Symbol, Timestamp};
use venue::config::{Bytes, DropCopyConfig, OrderEntryFixConfig, ParticipantConfig, ProtocolName};
use wire::fix::{Builder, Fields, Framed, MESSAGE_LEN_MAX, Version, dictionary, frame};

use super::{
    gateways::{Small, address},
    script::Script,
    wire_world::{START, World},
};

/// More than a client of the port may have waiting to be read.
const HELD_MAX: usize = 192 * 1024;

/// The types of message that a client may write, and one that is no type.
const TYPES: [&str; 14] = ["A", "0", "1", "2", "3", "4", "5", "j", "D", "F", "G", "H", "q", "ZZ"];
/// Types that came later: each byte that chose one of the others still does.
const QUERIES: [&str; 4] = ["x", "c", "e", "g"];
const SYMBOLS: [&str; 4] = ["AAPL", "MSFT", "NVDA", "NONE"];
const IDS: [&str; 6] = ["A1", "A2", "A3", "A4", "A5", "A-NAME-OF-THIRTY-SIX-CHARACTERS-1234"];
/// Fields that a script puts into a message, wanted or not.
const TAGS: [u32; 24] = [
    34, 36, 7, 16, 43, 97, 122, 123, 141, 11, 41, 38, 44, 40, 59, 18, 110, 111, 99, 432, 126, 55,
    112, 9999,
];

/// The writer of a message, and the values that the message has to agree with.
#[derive(Clone, Copy)]
struct Writer<'a> {
    version: Version,
    client: &'a str,
    venue: &'a str,
    /// The next MsgSeqNum.
    next: u64,
    now_ns: u64,
}

/// A framed message of the script: most have the right number and fields, and arbitrary values.
fn message(script: &mut Script<'_>, writer: &Writer<'_>) -> Vec<u8> {
    let msg_type = match script.byte() {
        kind @ 252.. => QUERIES[usize::from(kind - 252)],
        kind => TYPES[usize::from(kind) % TYPES.len()],
    };
    let number = match script.byte() {
        byte @ 0..200 => writer.next + u64::from(byte / 192),
        byte @ 200..250 => (writer.next + u64::from(byte)).saturating_sub(225),
        _ => u64::from(u32::MAX) - u64::from(script.byte()),
    };
    let version = match script.byte() % 32 {
        0 => Version::ALL[0],
        1 => Version::ALL[1],
        _ => writer.version,
    };
    let mut buffer = [0; 2 * MESSAGE_LEN_MAX];
    let mut builder = Builder::new(&mut buffer);
    let now = Timestamp(writer.now_ns);
    builder.text(35, msg_type).number(34, number).text(49, writer.client).time(52, now);
    builder.text(56, writer.venue);
    let id = |script: &mut Script<'_>| IDS[script.below(IDS.len())];
    match msg_type {
        "A" => {
            let password = match (writer.client, script.below(3)) {
                ("COPY", _) => "copy",
                (_, index) => ["alice", "bob", "guess"][index],
            };
            builder.number(98, 0).number(108, u64::from(script.byte()));
            builder.text(553, writer.client).text(554, password);
        }
        "1" => _ = builder.text(112, id(script)),
        "2" => _ = builder.number(7, script.byte().into()).number(16, script.byte().into()),
        "4" => {
            if script.byte().is_multiple_of(2) {
                builder.char(123, b'Y');
            }
            match script.byte() {
                byte @ 0..240 => builder.number(36, writer.next + u64::from(byte)),
                _ => builder.number(36, script.time_ns()),
            };
        }
        "D" | "F" | "G" | "H" | "q" => {
            builder.text(11, id(script));
            if matches!(msg_type, "F" | "G") {
                builder.text(41, id(script));
            }
            if matches!(msg_type, "D" | "G") {
                builder.char(21, b'1').number(38, 100 * u64::from(script.byte()));
                builder.char(40, b"1234"[script.below(4)]);
                builder.decimal(44, u128::from(script.byte()), 0);
            }
            match msg_type {
                "q" => _ = builder.char(530, b"17"[script.below(2)]),
                _ => _ = builder.char(54, b"125"[script.below(3)]),
            }
            builder.text(55, SYMBOLS[script.below(4)]).time(60, now);
        }
        "x" | "c" => {
            builder.text(320, id(script));
            let tag = if msg_type == "x" { 559 } else { 321 };
            builder.number(tag, [0, 3, 4, 1][script.below(4)]);
            if script.byte().is_multiple_of(2) {
                builder.text(55, SYMBOLS[script.below(4)]);
            }
        }
        "e" => {
            builder.text(324, id(script)).text(55, SYMBOLS[script.below(4)]);
            builder.char(263, b"0012"[script.below(4)]);
        }
        "g" => {
            builder.text(335, id(script)).text(336, ["DAY", "NIGHT"][script.below(2)]);
            builder.char(263, b"0012"[script.below(4)]);
        }
        _ => {}
    }
    for _ in 0..script.byte() % 4 {
        let tag = TAGS[script.below(TAGS.len())];
        match script.byte() % 3 {
            0 => builder.char(tag, script.byte()),
            1 => builder.number(tag, script.time_ns()),
            _ => builder.bytes(tag, script.bytes()),
        };
    }
    builder.finish(version).to_vec()
}

/// The type and the number of a message of the venue, which is sound.
fn checked(message: &[u8]) -> (Vec<u8>, u64) {
    let mut fields = Fields::default();
    let read = fields.read(message);
    let version = Version::from_begin_string(read.begin_string()).expect("a version");
    let row = dictionary::message(read.msg_type(), version).expect("a known type");
    let checked = dictionary::check(&read, row, version);
    assert_eq!(checked, Ok(()), "{}", message.escape_ascii());
    (read.msg_type().to_vec(), read.number(34).expect("it has a number"))
}

/// Whatever a client sends and whenever, the venue's side stays in order, and how TCP cut it changes nothing.
pub fn fix_session(bytes: &[u8]) {
    let whole = speak(bytes, usize::MAX);
    let cut_len = 1 + usize::from(bytes.first().copied().unwrap_or(0)) % 7;
    assert!(whole == speak(bytes, cut_len), "cut after each {cut_len} bytes");
}

fn speak(bytes: &[u8], cut_len: usize) -> (Vec<Vec<u8>>, Vec<u64>, Vec<Vec<u8>>) {
    let mut world = World::new();
    // Lists of more than one page.
    for number in 1..=60 {
        world.directory.add(&Instrument {
            instrument_id: InstrumentId(number),
            symbol: Symbol::new(&format!("S{number}")).expect("a short name"),
            price_increment: Price(1),
            round_lot: Quantity(1),
        });
    }
    let mut script = Script(bytes);
    let mut sent = Vec::new();
    let mut ends = Vec::new();
    while !script.is_over() {
        let kind = script.byte();
        let writer = Writer {
            version: Version::ALL[usize::from(kind >> 7)],
            client: "CLIENT",
            venue: "EXCH",
            next: world.acceptor.expected(),
            now_ns: world.now_ns,
        };
        let said = match kind % 8 {
            0 => script.bytes().to_vec(),
            1 => {
                world.now_ns = START + (world.now_ns - START + script.time_ns()) % (1 << 62);
                world.is_over |= world.acceptor.tick(world.now_ns).is_err();
                Vec::new()
            }
            2 if world.is_over => {
                world.reconnect();
                Vec::new()
            }
            _ => message(&mut script, &writer),
        };
        for cut in said.chunks(cut_len.min(32_768)) {
            world.receive(cut);
        }
        world.run();
        sent.extend(world.sent());
        ends.push(u64::from(world.is_over));
        assert!(world.acceptor.held() <= HELD_MAX);
        assert!(world.acceptor.expected() <= u64::from(u32::MAX) + 1, "no such MsgSeqNum");
    }
    for message in &sent {
        checked(message);
    }
    let mut next = 1;
    for message in &world.stream {
        let (msg_type, number) = checked(message);
        let begins = msg_type == b"A" && number == 1;
        assert!(number == next || begins, "{number} is not {next}");
        next = number + 1;
    }
    let now_ns = world.now_ns + 5 * 1_000_000_000;
    let is_logged_on =
        world.stream.iter().any(|message| Fields::default().read(message).msg_type() == b"A");
    assert!(is_logged_on || world.is_over || world.acceptor.tick(now_ns).is_err(), "silence");
    (sent, ends, world.stream)
}

/// The view of a client of the port.
struct Client {
    id: ConnectionId,
    /// Bytes of the venue that are no whole message yet.
    bytes: Vec<u8>,
    /// The next MsgSeqNum of the venue, once it is known.
    next: Option<u64>,
}

impl Client {
    /// The venue's messages are sound, and its new ones are numbered without a gap.
    fn take(&mut self, small: &Small, bytes_max: usize) {
        self.bytes.extend(small.order_entry_fix.take(self.id, bytes_max));
        while let Framed::Whole(len) = frame(&self.bytes) {
            let message: Vec<u8> = self.bytes.drain(..len).collect();
            let (_, number) = checked(&message);
            if !Fields::default().read(&message).is_yes(43) {
                assert!(self.next.is_none_or(|next| next == number), "{number}: {:?}", self.next);
                self.next = Some(number + 1);
            }
        }
        let is_begun = self.bytes.is_empty() || frame(&self.bytes) == Framed::Partial;
        assert!(is_begun, "{}", self.bytes.escape_ascii());
    }
}

/// Whatever arrives at the port, cut and timed at will, the venue works on within its bounds.
pub fn fix_port(bytes: &[u8]) {
    const NAMES: [&str; 4] = ["ALICE", "BOB", "NOBODY", "COPY"];
    let mut small = Small::new(|config| {
        config.order_entry_fix = Some(OrderEntryFixConfig {
            connections_max: config.order_entry.connections_max,
            reply_store: Bytes(1 << 20),
            ..OrderEntryFixConfig::default()
        });
        for (name, cancel_on_disconnect) in [("ALICE", false), ("BOB", true)] {
            config.participants.push(ParticipantConfig {
                username: name.into(),
                password: Some(name.to_lowercase()),
                protocol: ProtocolName::Fix,
                cancel_on_disconnect,
                ..config.participants[0].clone()
            });
        }
        config.participants.push(ParticipantConfig {
            username: "COPY".into(),
            password: Some("copy".into()),
            protocol: ProtocolName::Fix,
            drop_copy: Some(DropCopyConfig {
                participants: vec!["ALICE".into(), "BOB".into()],
                ..DropCopyConfig::default()
            }),
            ..config.participants[0].clone()
        });
    });
    let mut clients: Vec<Client> = Vec::new();
    // The next MsgSeqNum of each name, as its client believes.
    let mut numbers = [1; NAMES.len()];
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte();
        let client = match clients.len() {
            0 => None,
            len => Some(&mut clients[script.below(len.min(256))]),
        };
        match (kind % 12, client) {
            (0, Some(client)) => small.order_entry_fix.deliver(client.id, script.bytes()),
            (1, Some(client)) => small.order_entry_fix.finish(client.id),
            (2, Some(client)) => small.order_entry_fix.cut(client.id),
            (3, Some(client)) => {
                small.order_entry_fix.set_room(client.id, 64 * usize::from(script.byte()));
            }
            (4, Some(client)) => client.take(&small, 64 * usize::from(script.byte())),
            (5, _) => small.turn(script.time_ns()),
            (6, _) | (_, None) => {
                let id = small.order_entry_fix.connect(address(&mut script));
                clients.push(Client { id, bytes: Vec::new(), next: None });
            }
            (kind, Some(client)) => {
                let name = match script.byte() {
                    248.. => 3,
                    byte => usize::from(byte % 8).saturating_sub(5),
                };
                let writer = Writer {
                    version: Version::ALL[usize::from(script.byte() % 2)],
                    client: NAMES[name],
                    venue: "DAMRAK",
                    next: numbers[name],
                    now_ns: small.now_ns(),
                };
                let message = message(&mut script, &writer);
                if script.byte() % 16 > 0 {
                    numbers[name] = Fields::default().read(&message).number(34).unwrap_or(0) + 1;
                }
                // Whole, again and again, or cut in two.
                match kind {
                    7 => {
                        for _ in 0..script.byte() {
                            small.order_entry_fix.deliver(client.id, &message);
                        }
                    }
                    8 => {
                        let at = usize::from(script.byte()).min(message.len());
                        small.order_entry_fix.deliver(client.id, &message[..at]);
                        small.turn(script.time_ns());
                        small.order_entry_fix.deliver(client.id, &message[at..]);
                    }
                    _ => small.order_entry_fix.deliver(client.id, &message),
                }
            }
        }
        if clients.len() > 64 {
            clients.retain(|client| small.order_entry_fix.is_open(client.id));
        }
        small.turn(1_000);
        small.check_bounds();
    }
    for _ in 0..3 {
        small.turn(1_000_000_000);
        for client in &mut clients {
            client.take(&small, usize::MAX);
        }
    }
    small.check_bounds();
}
