//! Market data by FIX: clients that ask for anything, and read as they please, while a seeded flow of orders changes the
//! books.
//!
//! Invariant: a client is sent whole messages with numbers that have no gap, and the levels that it builds of them
//! never contradict the messages sent next; the memory of the venue that it holds is bounded.

use std::collections::BTreeMap;

use gateway::ConnectionId;
use market::{Command, Timestamp};
use proof::generator::{CommandFlow, Profile};
use venue::config::MarketDataFixConfig;
use wire::fix::{Builder, Framed, MESSAGE_LEN_MAX, Version, frame};

use super::{
    gateways::{Small, address},
    script::Script,
};

/// Those that may log on, and one that may not.
const NAMES: [&str; 4] = ["USER01", "USER02", "USER03", "NOBODY"];
const SYMBOLS: [&str; 4] = ["AAPL", "MSFT", "NVDA", "NONE"];
const IDS: [&str; 3] = ["R1", "R2", "R3"];

/// The view of a client, and the levels that it has of each request.
struct Client {
    id: ConnectionId,
    bytes: Vec<u8>,
    /// The next MsgSeqNum of the venue.
    next: u64,
    /// By MDReqID, symbol, side and price.
    levels: BTreeMap<[String; 4], String>,
}

impl Client {
    fn take(&mut self, small: &Small, bytes_max: usize) {
        self.bytes.extend(small.market_data_fix.take(self.id, bytes_max));
        while let Framed::Whole(len) = frame(&self.bytes) {
            let message: Vec<u8> = self.bytes.drain(..len).collect();
            self.read(&message);
        }
        let is_begun = self.bytes.is_empty() || frame(&self.bytes) == Framed::Partial;
        assert!(is_begun, "{}", self.bytes.escape_ascii());
    }

    fn read(&mut self, message: &[u8]) {
        let text = str::from_utf8(message).expect("the venue writes text");
        let fields: Vec<(&str, &str)> =
            text.split_terminator('\x01').filter_map(|it| it.split_once('=')).collect();
        let value = |tag| fields.iter().find(|(own, _)| *own == tag).map_or("", |(_, it)| *it);
        if value("43") != "Y" {
            assert_eq!(value("34"), self.next.to_string(), "{text:?}");
            self.next += 1;
        }
        match value("35") {
            "W" => {
                let (id, symbol) = (value("262"), value("55"));
                self.levels.retain(|key, _| key[0] != id || key[1] != symbol);
            }
            "X" => {}
            _ => return,
        }
        let mut key =
            [value("262").to_owned(), value("55").to_owned(), String::new(), String::new()];
        let mut action = "0";
        for (tag, value) in &fields {
            match *tag {
                "279" => action = value,
                "269" => key[2] = (*value).to_owned(),
                "55" => key[1] = (*value).to_owned(),
                "270" => key[3] = (*value).to_owned(),
                _ => {}
            }
            if key[2] == "2" {
                continue;
            }
            let was_there = match (*tag, action) {
                ("270", "2") => self.levels.remove(&key).is_some(),
                ("271", "0") => self.levels.insert(key.clone(), (*value).to_owned()).is_none(),
                ("271", _) => self.levels.insert(key.clone(), (*value).to_owned()).is_some(),
                _ => true,
            };
            assert!(was_there, "{tag}={value} of {text:?}");
        }
    }
}

/// A message of a client: most are right, with arbitrary values.
fn message(script: &mut Script<'_>, name: &str, next: u64, now_ns: u64) -> Vec<u8> {
    let mut buffer = [0; 2 * MESSAGE_LEN_MAX];
    let mut builder = Builder::new(&mut buffer);
    let kind = script.byte() % 16;
    let msg_type = ["A", "V", "V", "V", "V", "V", "2", "1", "0", "5", "4", "V", "V", "D", "j", "V"]
        [usize::from(kind)];
    let number = if script.byte().is_multiple_of(32) { u64::from(script.byte()) } else { next };
    builder.text(35, msg_type).number(34, number).text(49, name);
    builder.time(52, Timestamp(now_ns)).text(56, "DAMRAK");
    match msg_type {
        "A" => {
            let password = match script.byte() % 8 {
                0 => "guess".to_owned(),
                _ => format!("password{}", &name[name.len() - 2..]),
            };
            builder.number(98, 0).number(108, u64::from(script.byte()));
            if !script.byte().is_multiple_of(8) {
                builder.char(141, b'Y');
            }
            builder.text(554, &password);
        }
        "V" => {
            // A subscription that ended may begin again: its levels begin with a snapshot.
            builder.text(262, IDS[script.below(3)]).char(263, b"0112"[script.below(4)]);
            builder.number(264, [0, 1, 3, 99][script.below(4)]);
            builder.number(265, u64::from(!script.byte().is_multiple_of(4)));
            let kinds = ["0", "1", "2", "4"];
            let (first, count) = (script.below(4), 1 + script.below(3));
            builder.number(267, count as u64);
            (first..first + count).for_each(|it| _ = builder.text(269, kinds[it % 4]));
            let (first, count) = (script.below(4), 1 + script.below(3));
            builder.number(146, count as u64);
            (first..first + count).for_each(|it| _ = builder.text(55, SYMBOLS[it % 4]));
        }
        "1" => _ = builder.text(112, "ARE YOU THERE"),
        "2" => _ = builder.number(7, script.byte().into()).number(16, script.byte().into()),
        "4" => _ = builder.char(123, b'Y').number(36, next + u64::from(script.byte())),
        _ => {}
    }
    builder.finish(Version::ALL[script.below(2)]).to_vec()
}

/// Whatever clients ask for, however they read and whatever the books do, the messages to them are sound.
pub fn fix_market_data(bytes: &[u8]) {
    let mut small = Small::new(|config| {
        config.market_data_fix =
            Some(MarketDataFixConfig { depth_max: 4, ..MarketDataFixConfig::default() });
    });
    let mut script = Script(bytes);
    let seed = u64::from(script.byte());
    let mut flow = CommandFlow::new(seed, Profile { sessions: 3, ..Profile::default() });
    let mut clients: Vec<Client> = Vec::new();
    let mut numbers = [1; NAMES.len()];
    while !script.is_over() {
        let kind = script.byte();
        let client = match clients.len() {
            0 => None,
            len => Some(&mut clients[script.below(len.min(256))]),
        };
        match (kind % 12, client) {
            (0, Some(client)) => small.market_data_fix.deliver(client.id, script.bytes()),
            (1, Some(client)) => small.market_data_fix.cut(client.id),
            (2, Some(client)) => {
                let room = 64 * usize::from(script.byte());
                small.market_data_fix.set_room(client.id, room);
            }
            (3 | 4, Some(client)) => client.take(&small, 64 * usize::from(script.byte())),
            (5, _) => small.turn(script.time_ns()),
            (6 | 7, _) => {
                for _ in 0..script.byte() % 16 {
                    let command = flow.next_command();
                    if !matches!(command, Command::System(_) | Command::AddSession(_)) {
                        small.submit(gateway::Submission {
                            received: Timestamp(small.now_ns()),
                            command,
                        });
                    }
                }
            }
            (8, _) | (_, None) => {
                let id = small.market_data_fix.connect(address(&mut script));
                let (bytes, levels) = (Vec::new(), BTreeMap::new());
                clients.push(Client { id, bytes, next: 1, levels });
            }
            (_, Some(client)) => {
                let name = script.below(NAMES.len());
                let message = message(&mut script, NAMES[name], numbers[name], small.now_ns());
                let is_logon = message.windows(5).any(|it| it == b"\x0135=A");
                numbers[name] = if is_logon { 2 } else { numbers[name] + 1 };
                small.market_data_fix.deliver(client.id, &message);
            }
        }
        if clients.len() > 64 {
            clients.retain(|client| small.market_data_fix.is_open(client.id));
        }
        small.turn(1_000_000);
        let figures = small.gauges.market_data_fix.as_ref().expect("it is configured").read();
        assert!(figures.connections <= 64 + 3, "{figures:?}");
        assert!(figures.subscriptions <= 3 * 64, "{figures:?}");
    }
    for _ in 0..3 {
        small.turn(1_000_000_000);
        for client in &mut clients {
            client.take(&small, usize::MAX);
        }
    }
}
