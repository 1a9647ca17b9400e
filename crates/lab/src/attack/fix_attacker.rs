//! A participant that attacks by FIX.
//!
//! Invariant: it logs on with a reset whenever it has lost its connection, so that its numbers are right unless
//! the attack wants them wrong.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
};

use market::Timestamp;
use wire::fix::{Builder, Fields, Framed, Message, Version, frame};

use super::target::{Effect, PAUSE, Target, password};

/// The buffer for one message, in bytes.
const MESSAGE_BYTES: usize = 1024;

/// A message of FIX 4.4; `|` ends a field.
pub(super) fn fix_message(
    now: Timestamp,
    user: &str,
    msg_type: &str,
    number: u64,
    fields: &str,
) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES];
    let mut builder = Builder::new(&mut buffer);
    builder.text(35, msg_type).number(34, number).text(49, user).time(52, now);
    builder.text(56, "DAMRAK").fields(fields.replace('|', "\x01").as_bytes());
    if ["D", "F"].contains(&msg_type) {
        builder.time(60, now);
    }
    builder.finish(Version::Fix44).to_vec()
}

/// A session that logs on again whenever it loses its connection.
pub(super) struct FixAttacker<'a> {
    target: &'a Target,
    /// Order entry, or market data.
    door: SocketAddr,
    user: &'static str,
    stream: Option<TcpStream>,
    /// False for an attacker that never reads its messages.
    pub(super) reads: bool,
    /// MsgSeqNum of its next message.
    next: u64,
    /// Messages of all its connections.
    count: u64,
}

impl<'a> FixAttacker<'a> {
    /// An attacker at order entry.
    pub(super) fn new(target: &'a Target, user: &'static str) -> Self {
        Self::at(target, target.at.order_entry_fix, user)
    }

    /// An attacker at this door.
    pub(super) fn at(target: &'a Target, door: SocketAddr, user: &'static str) -> Self {
        Self { target, door, user, stream: None, reads: true, next: 1, count: 0 }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A ClOrdID that this attack has not used yet.
    pub(super) fn name(&self) -> String {
        format!("N{}", self.count)
    }

    /// Leaves numbers out.
    pub(super) fn skip(&mut self, count: u64) {
        self.next += count;
    }

    /// Uses the last number again.
    pub(super) fn repeat(&mut self) {
        self.next -= 1;
    }

    /// Sends one message, when the venue takes it.
    pub(super) fn send(&mut self, msg_type: &str, fields: &str, effect: Effect) {
        while !self.target.is_over() {
            if self.stream.is_none() && !self.log_on() {
                thread::sleep(PAUSE);
                continue;
            }
            let bytes = self.message(msg_type, fields);
            if self.write(&bytes) {
                self.target.count(1, effect);
                self.next += 1;
                self.count += 1;
                return;
            }
            self.stream = None;
        }
    }

    /// Sends bytes that are not a message, when the venue takes them.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        while !self.target.is_over() {
            if (self.stream.is_some() || self.log_on()) && self.write(bytes) {
                return self.target.count(1, Effect::None);
            }
            self.stream = None;
            thread::sleep(PAUSE);
        }
    }

    /// Waits until all messages before are answered: for the answer to a TestRequest.
    pub(super) fn settle(&mut self) {
        self.send("1", "112=settled|", Effect::None);
        self.wait_for(|message| message.get(112) == Some(b"settled"));
    }

    fn message(&self, msg_type: &str, fields: &str) -> Vec<u8> {
        fix_message(self.target.clock.now(), self.user, msg_type, self.next, fields)
    }

    fn log_on(&mut self) -> bool {
        let Some(stream) = self.target.connect(self.door, 1) else {
            return false;
        };
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        self.stream = Some(stream);
        self.next = 1;
        let (user, password) = (self.user, password(self.user));
        let logon = self.message("A", &format!("98=0|108=30|141=Y|553={user}|554={password}|"));
        let is_order_entry = self.door == self.target.at.order_entry_fix;
        self.target.count(1, if is_order_entry { Effect::Fix } else { Effect::None });
        self.next = 2;
        let is_in = self.write(&logon) && self.wait_for(|message| message.msg_type() == b"A");
        if !is_in {
            self.stream = None;
        }
        is_in
    }

    /// Writes all of it; reads meanwhile, so that the venue can go on writing. False if the connection is over.
    fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.target.is_over() {
            let Some(stream) = &mut self.stream else { return false };
            match stream.write(bytes) {
                Ok(0) => return false,
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(_) => return false,
            }
            if self.reads && !is_drained(stream) {
                return false;
            }
        }
        true
    }

    /// Reads until the wanted message; false if the connection or the attack is over first.
    fn wait_for(&mut self, is_meant: impl Fn(&Message<'_>) -> bool) -> bool {
        let (mut unread, mut buffer) = (Vec::new(), [0; 16 << 10]);
        while !self.target.is_over() {
            let Some(stream) = &mut self.stream else { return false };
            match stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(_) => return false,
            }
            let mut taken = 0;
            while let Framed::Whole(len) | Framed::Garbled(len) = frame(&unread[taken..]) {
                if is_meant(&Fields::default().read(&unread[taken..taken + len])) {
                    return true;
                }
                taken += len;
            }
            unread.drain(..taken);
        }
        false
    }
}

/// Reads all that has come; false if the connection is over.
fn is_drained(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
