//! OUCH 4.2 over real sockets: tokens and replies survive a start from a snapshot; other ports refuse the session.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use journal::{Folder, Storage};
use venue::{Running, clock::SystemClock, config::Config, follower::Follower};
use wire::ouch42::Response42;

/// The argon2 hash of `OLD`, with the least memory possible.
const HASH_OF_OLD: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$MinE5sjcopSZ73s9H+wmhA";

fn config(folder: &Path, protocol: &str) -> Config {
    let journal = folder.join("journal");
    Config::parse(
        &format!(
            "[journal]\ndirectory = {journal:?}\n\
             [order_entry]\naddress = \"127.0.0.1:0\"\n\
             [order_entry_ouch42]\naddress = \"127.0.0.1:0\"\n\
             [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
             [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\n\
             snapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n\
             [[participants]]\nusername = \"OLD\"\npassword = \"{HASH_OF_OLD}\"\nprotocol = \"{protocol}\"\n\
             firm = \"FIRM\"\n"
        ),
        "test",
    )
    .unwrap()
}

struct Client(TcpStream);

impl Client {
    /// Logs in at the first reply; returns the first packet of the answer.
    fn log_in(running: &Running, port: &str) -> (Self, Vec<u8>) {
        let address = running.started()["addresses"][port].as_str().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Self(stream);
        client.send(format!("L{:6}{:10}{:10}{:>20}", "OLD", "old", "", 1).as_bytes());
        let answer = client.packet();
        (client, answer)
    }

    fn send(&mut self, packet: &[u8]) {
        self.0.write_all(&(packet.len() as u16).to_be_bytes()).unwrap();
        self.0.write_all(packet).unwrap();
    }

    fn packet(&mut self) -> Vec<u8> {
        let mut length = [0; 2];
        self.0.read_exact(&mut length).unwrap();
        let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
        self.0.read_exact(&mut packet).unwrap();
        packet
    }

    /// The next reply other than system events.
    fn reply(&mut self) -> Vec<u8> {
        loop {
            let packet = self.packet();
            if packet[0] == b'S' && packet[1] != b'S' {
                assert!(Response42::read(&packet[1..]).is_some(), "{}", packet.escape_ascii());
                return packet[1..].to_vec();
            }
        }
    }

    fn enter(&mut self, token: &str, side: char, shares: u8) {
        let head = format!("UO{token:14}{side}");
        let price_and_life = [1_503_400_u32.to_be_bytes(), 99_998_u32.to_be_bytes()].concat();
        let tail = [&b"AAPL    "[..], &price_and_life, b"    YPN\0\0\0\0NN"].concat();
        self.send(&[head.as_bytes(), &[0, 0, 0, shares], &tail].concat());
    }

    fn cancel(&mut self, token: &str) {
        self.send(&[format!("UX{token:14}").as_bytes(), &[0; 4]].concat());
    }
}

/// The type and the token of a reply.
fn head(reply: &[u8]) -> String {
    format!("{} {}", char::from(reply[0]), reply[9..23].escape_ascii()).trim_end().to_owned()
}

#[test]
fn tokens_survive_a_start_from_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let old = config(folder.path(), "ouch42");
    let running = venue::start(&old, SystemClock::start()).unwrap();
    let (mut client, answer) = Client::log_in(&running, "order_entry_ouch42");
    assert_eq!(answer[0], b'A');
    client.enter("SELL", 'S', 100);
    client.enter("SELL", 'S', 100);
    client.enter("BUY", 'B', 40);
    let replies: Vec<_> = (0..4).map(|_| client.reply()).collect();
    let heads: Vec<_> = replies.iter().map(|reply| head(reply)).collect();
    assert_eq!(heads, ["A SELL", "A BUY", "E SELL", "E BUY"]);
    drop(client);
    running.stop().unwrap();

    let journal = Folder::new(&old.journal.directory);
    let mut files = journal.second();
    let mut follower = Follower::begin(&journal, &mut *files, u64::MAX, Some(1 << 20)).unwrap();
    while follower.poll(1 << 16, u64::MAX, &mut |_| {}).unwrap() > 0 {}
    follower.write(&mut *files, 1).unwrap();

    let running = venue::start(&old, SystemClock::start()).unwrap();
    assert_eq!(running.started()["recovered"]["snapshot"]["sequence"], follower.sequence());
    let (mut client, _) = Client::log_in(&running, "order_entry_ouch42");
    let again: Vec<_> = (0..4).map(|_| client.reply()).collect();
    assert_eq!(again, replies, "the same bytes");
    client.enter("BUY", 'B', 40);
    client.cancel("BUY");
    client.cancel("SELL");
    let canceled = client.reply();
    assert_eq!(head(&canceled), "C SELL", "what names a done order is ignored");
    assert_eq!(canceled[23..27], [0, 0, 0, 60]);
    drop(client);
    running.stop().unwrap();

    let running = venue::start(&config(folder.path(), "ouch"), SystemClock::start()).unwrap();
    let (_, answer) = Client::log_in(&running, "order_entry");
    assert_eq!(answer, b"+the session speaks OUCH 4.2 since its first request");
    running.stop().unwrap();
}
