//! A FIX client over a socket that sends exactly the fields of a test, and the venue at the other end.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use market::Timestamp;
use venue::{Running, clock::SystemClock, config::Config};
use wire::fix::{Builder, Fields, Framed, Version, dictionary, frame};

/// The argon2 hash of `BOB`, with the least memory possible.
const HASH_OF_BOB: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$s7qOdgTKuSr+OmHNi5t7nQ";

pub fn config(folder: &Path, more: &str) -> Config {
    let journal = folder.join("journal");
    Config::parse(
        &format!(
            "[journal]\ndirectory = {journal:?}\n\
             [order_entry]\naddress = \"127.0.0.1:0\"\n\
             [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
             [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\n\
             snapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n\
             [order_entry_fix]\naddress = \"127.0.0.1:0\"\n{more}\
             [[participants]]\nusername = \"ALICE\"\npassword = \"alice\"\nprotocol = \"fix\"\n\
             firm = \"FIRM\"\n\
             [[participants]]\nusername = \"BOB\"\npassword = \"{HASH_OF_BOB}\"\nprotocol = \"fix\"\n\
             firm = \"FIRM\"\ncancel_on_disconnect = true\n\
             [[participants]]\nusername = \"USER01\"\npassword = \"password01\"\nfirm = \"FIRM\"\n"
        ),
        "test",
    )
    .unwrap()
}

/// A client that writes the given messages, and checks every message of the venue.
pub struct FixClient {
    pub stream: TcpStream,
    version: Version,
    name: &'static str,
    /// Bytes read and not yet taken.
    pub bytes: Vec<u8>,
    /// Its next MsgSeqNum.
    pub next: u64,
}

impl FixClient {
    pub fn connect(running: &Running, version: Version, name: &'static str, next: u64) -> Self {
        Self::connect_to(running, "order_entry_fix", version, name, next)
    }

    /// Connects to a port by its section of the configuration.
    pub fn connect_to(
        running: &Running,
        port: &str,
        version: Version,
        name: &'static str,
        next: u64,
    ) -> Self {
        let address = &running.started()["addresses"][port];
        let address: SocketAddr = address.as_str().unwrap().parse().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, version, name, bytes: Vec::new(), next }
    }

    /// Connects and logs on; returns the answer.
    pub fn log_on(
        running: &Running,
        version: Version,
        name: &'static str,
        next: u64,
        more: &str,
    ) -> (Self, String) {
        let mut client = Self::connect(running, version, name, next);
        let password = name.to_lowercase();
        let fields = match version {
            Version::Fix44 | Version::Fix50Sp1 => {
                format!("98=0|108=1000|553={name}|554={password}|{more}")
            }
            Version::Fix42 => format!("98=0|108=1000|95={}|96={password}|{more}", password.len()),
        };
        client.send("A", &fields);
        let answer = client.read();
        (client, answer)
    }

    /// Connects and logs on for the first time, with this password.
    pub fn log_on_as(
        running: &Running,
        version: Version,
        name: &'static str,
        password: &str,
    ) -> (Self, String) {
        let mut client = Self::connect(running, version, name, 1);
        let length = password.len();
        client.send("A", &format!("98=0|108=1000|95={length}|96={password}|"));
        let answer = client.read();
        (client, answer)
    }

    pub fn send(&mut self, msg_type: &str, fields: &str) {
        let number = self.next;
        self.next += 1;
        self.send_as(number, msg_type, fields);
    }

    pub fn send_as(&mut self, number: u64, msg_type: &str, fields: &str) {
        let bytes = self.message(number, msg_type, fields);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The bytes of a message.
    pub fn message(&self, number: u64, msg_type: &str, fields: &str) -> Vec<u8> {
        let now = Timestamp(SystemClock::start().now_ns());
        let mut buffer = [0; 4096];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, number).text(49, self.name).time(52, now);
        builder.text(56, "DAMRAK");
        if matches!(msg_type, "D" | "F" | "G" | "H" | "q" | "E") {
            builder.time(60, now);
        }
        if msg_type == "A" && self.version == Version::Fix50Sp1 {
            builder.text(1137, "8");
        }
        builder.fields(fields.replace('|', "\x01").as_bytes());
        builder.finish(self.version).to_vec()
    }

    /// The next message, with `|` for SOH and without header, time and trailer; `closed` at the end.
    pub fn read(&mut self) -> String {
        loop {
            if let Framed::Whole(len) = frame(&self.bytes) {
                let message: Vec<u8> = self.bytes.drain(..len).collect();
                return self.show(&message);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return "closed".into(),
                Ok(count) => self.bytes.extend(&buffer[..count]),
                Err(error) => panic!("{error}; {:?}", self.bytes.escape_ascii().to_string()),
            }
        }
    }

    fn show(&self, message: &[u8]) -> String {
        let mut fields = Fields::default();
        let read = fields.read(message);
        let row = dictionary::message(read.msg_type(), self.version).expect("a known message");
        let checked = dictionary::check(&read, row, self.version);
        assert_eq!(checked, Ok(()), "{}", message.escape_ascii());
        assert_eq!(read.begin_string(), self.version.begin_string().as_bytes());
        assert_eq!(read.get(49), Some(&b"DAMRAK"[..]));
        assert_eq!(read.get(56), Some(self.name.as_bytes()));
        let mut text = String::new();
        for (tag, value) in read.fields() {
            if !matches!(tag, 8 | 9 | 10 | 49 | 52 | 56 | 60 | 122 | 1137) {
                text.push_str(&format!("{tag}={}|", str::from_utf8(value).unwrap()));
            }
        }
        text
    }

    pub fn expect(&mut self, expected: &str) {
        assert_eq!(self.read(), expected);
    }

    /// Logs out and waits until the venue has closed the connection.
    pub fn log_out(mut self) -> u64 {
        self.send("5", "");
        while self.read() != "closed" {}
        self.next
    }
}
