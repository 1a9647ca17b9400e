//! A client over TCP with a number of requests outstanding, that never sleeps.
//!
//! Invariant: an answer that does not come, or is a reject, ends the run with an error.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    time::Duration,
};

use venue::clock::SystemClock;
use wire::{
    fix::{Fields, Framed, SOH, frame},
    soupbintcp::{Client, ClientHappening, HEADER_LEN, LoginRequest, Timers},
};

use super::{DriveError, Driven, SILENCE_NS_MAX, prepared::Prepared};
use crate::{latency::Latency, own_venue::login};

const READ_LEN: usize = 64 << 10;
/// Polls of the socket between two readings of the clock while nothing arrives.
const LOOKS: u32 = 1 << 14;

/// How a stream of bytes is cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    SoupBinTcp,
    Fix,
}

impl Framing {
    /// Length of the first message, header included; `None` while it is not complete.
    ///
    /// # Errors
    /// The bytes are no message of FIX.
    pub(super) fn first_len(self, bytes: &[u8]) -> Result<Option<usize>, String> {
        match self {
            Self::SoupBinTcp => {
                let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
                let len = HEADER_LEN + usize::from(u16::from_be_bytes(*header));
                Ok((len <= bytes.len()).then_some(len))
            }
            Self::Fix => match frame(bytes) {
                Framed::Partial => Ok(None),
                Framed::Whole(len) => Ok(Some(len)),
                Framed::Garbled(_) => Err(String::from_utf8_lossy(bytes).into_owned()),
            },
        }
    }

    /// True for an accepted or canceled order, false for a message that answers nothing.
    ///
    /// # Errors
    /// The message is neither.
    fn is_answer(self, message: &[u8]) -> Result<bool, String> {
        match self {
            Self::SoupBinTcp => match message.get(HEADER_LEN..) {
                Some([b'S', b'A' | b'C', ..]) => Ok(true),
                // A heartbeat, or a system event.
                Some([b'H', ..] | [b'S', b'S', ..]) => Ok(false),
                _ => Err(format!("{message:?}")),
            },
            Self::Fix => {
                let mut fields = Fields::default();
                let read = fields.read(message);
                match (read.msg_type(), read.get(150)) {
                    // ExecType New or Canceled.
                    (b"8", Some(b"0" | b"4")) => Ok(true),
                    (b"0", _) => Ok(false),
                    _ => Err(String::from_utf8_lossy(message).into_owned()),
                }
            }
        }
    }
}

/// MsgSeqNum of a report that is sent again: the fourth field, as the venue writes it, before PossDupFlag.
fn resent(message: &[u8]) -> Option<u64> {
    let mut fields = message.split(|byte| *byte == SOH).skip(2);
    let (kind, number, again) = (fields.next()?, fields.next()?, fields.next()?);
    let number = str::from_utf8(number.strip_prefix(b"34=")?).ok()?;
    (kind == b"35=8" && again == b"43=Y").then(|| number.parse().ok()).flatten()
}

pub(super) struct StreamDrive {
    stream: TcpStream,
    framing: Framing,
    clock: SystemClock,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that hold a part of a message.
    kept: usize,
    answer_len: usize,
}

impl StreamDrive {
    pub(super) fn connect(
        server: SocketAddr,
        framing: Framing,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            framing,
            clock,
            buffer: vec![0; READ_LEN].into_boxed_slice(),
            kept: 0,
            answer_len: 0,
        })
    }

    /// Connects, and logs in over SoupBinTCP.
    pub(super) fn log_in_as(
        server: SocketAddr,
        login: LoginRequest,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        let mut drive = Self::connect(server, Framing::SoupBinTcp, clock)?;
        let mut client = Client::new(Timers::default(), login, clock.now_ns());
        drive.stream.write_all(client.outgoing())?;
        let reply = drive.first_message()?;
        let unexpected = |found| DriveError::Answer { number: 0, found };
        client.receive(&reply, clock.now_ns()).map_err(|it| unexpected(it.to_string()))?;
        match client.next() {
            Ok(Some(ClientHappening::Accepted { .. })) => Ok(drive),
            other => Err(unexpected(format!("{other:?}"))),
        }
    }

    /// Connects, and logs in.
    pub(super) fn log_in(
        server: SocketAddr,
        prepared: &mut Prepared,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        match prepared.framing() {
            Framing::SoupBinTcp => Self::log_in_as(server, login(1), clock),
            framing @ Framing::Fix => {
                let mut drive = Self::connect(server, framing, clock)?;
                drive.stream.write_all(&prepared.logon())?;
                let reply = drive.first_message()?;
                if Fields::default().read(&reply).msg_type() != b"A" {
                    let found = String::from_utf8_lossy(&reply).into_owned();
                    return Err(DriveError::Answer { number: 0, found });
                }
                Ok(drive)
            }
        }
    }

    /// The connection, set to nonblocking.
    pub(super) fn unblocked(&self) -> Result<&TcpStream, DriveError> {
        self.stream.set_nonblocking(true)?;
        Ok(&self.stream)
    }

    /// Waits for the first message, the answer to the login.
    fn first_message(&mut self) -> Result<Vec<u8>, DriveError> {
        loop {
            let first = self.framing.first_len(&self.buffer[..self.kept]);
            let first = first.map_err(|found| DriveError::Answer { number: 0, found })?;
            if let Some(len) = first {
                let message = self.buffer[..len].to_vec();
                self.buffer.copy_within(len..self.kept, 0);
                self.kept -= len;
                return Ok(message);
            }
            match self.stream.read(&mut self.buffer[self.kept..])? {
                0 => return Err(DriveError::Closed),
                count => self.kept += count,
            }
        }
    }

    /// Sends all requests, at most `outstanding` of them without an answer.
    pub(super) fn run(
        &mut self,
        prepared: &Prepared,
        outstanding: usize,
    ) -> Result<Driven, DriveError> {
        self.stream.set_nonblocking(true)?;
        let mut latency = Latency::new();
        let mut sent_ns = vec![0; outstanding.next_power_of_two()];
        let mask = sent_ns.len() - 1;
        let (mut sent, mut answered) = (0, 0);
        // Bytes of the next request that were written already.
        let mut written = 0;
        let begun_ns = self.clock.now_ns();
        let mut heard_ns = begun_ns;
        let mut looks = 0;
        while answered < prepared.len() {
            let end = (answered + outstanding).min(prepared.len());
            if sent < end {
                let now_ns = self.clock.now_ns();
                let waiting = &prepared.bytes(sent, end)[written..];
                written += self.write(waiting)?;
                while sent < end && prepared.bytes(sent, sent + 1).len() <= written {
                    written -= prepared.bytes(sent, sent + 1).len();
                    sent_ns[sent & mask] = now_ns;
                    sent += 1;
                }
            }
            let (count, _) = self.read(answered)?;
            if count > 0 {
                heard_ns = self.clock.now_ns();
                for number in answered..answered + count {
                    latency.record(heard_ns - sent_ns[number & mask]);
                }
                answered += count;
                continue;
            }
            looks += 1;
            if looks % LOOKS == 0 && self.clock.now_ns() - heard_ns > SILENCE_NS_MAX {
                return Err(DriveError::Silence { answered, asked: sent });
            }
        }
        let elapsed_ns = self.clock.now_ns() - begun_ns;
        Ok(Driven { answered, elapsed_ns, latency, answer_len: self.answer_len })
    }

    /// Sends a ResendRequest, and reads the messages with these numbers. The latency is that of the first. A client
    /// that sleeps leaves its core to others while nothing arrives.
    pub(super) fn resend(
        &mut self,
        request: &[u8],
        numbers: Range<u64>,
        sleeps: bool,
    ) -> Result<Driven, DriveError> {
        self.stream.set_nonblocking(!sleeps)?;
        self.stream.set_read_timeout(Some(Duration::from_nanos(SILENCE_NS_MAX)))?;
        let mut latency = Latency::new();
        let (mut next, mut looks) = (numbers.start, 0);
        let begun_ns = self.clock.now_ns();
        let mut heard_ns = begun_ns;
        let written = self.write(request)?;
        if written < request.len() {
            return Err(DriveError::Silence { answered: 0, asked: 1 });
        }
        while next < numbers.end {
            match self.stream.read(&mut self.buffer[self.kept..]) {
                Ok(0) => return Err(DriveError::Closed),
                Ok(count) => self.kept += count,
                Err(error) if os::is_not_now(&error) => {
                    looks += 1;
                    let is_time = sleeps || looks % LOOKS == 0;
                    if is_time && self.clock.now_ns() - heard_ns >= SILENCE_NS_MAX {
                        let answered = (next - numbers.start) as usize;
                        let asked = (numbers.end - numbers.start) as usize;
                        return Err(DriveError::Silence { answered, asked });
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            heard_ns = self.clock.now_ns();
            let mut taken = 0;
            loop {
                let wrong = |found| DriveError::Answer { number: next as usize, found };
                let rest = &self.buffer[taken..self.kept];
                let Some(len) = self.framing.first_len(rest).map_err(wrong)? else { break };
                let message = &self.buffer[taken..taken + len];
                taken += len;
                let Some(found) = resent(message) else { continue };
                if found != next {
                    return Err(DriveError::Gap { expected: next, found });
                }
                if next == numbers.start {
                    latency.record(heard_ns - begun_ns);
                }
                self.answer_len = len;
                next += 1;
            }
            self.buffer.copy_within(taken..self.kept, 0);
            self.kept -= taken;
        }
        let elapsed_ns = self.clock.now_ns() - begun_ns;
        let answered = (numbers.end - numbers.start) as usize;
        Ok(Driven { answered, elapsed_ns, latency, answer_len: self.answer_len })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, DriveError> {
        match self.stream.write(bytes) {
            Ok(count) => Ok(count),
            Err(error) if os::is_not_now(&error) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the bytes there are, and gives the number of answers, and whether more bytes may be there.
    pub(super) fn read(&mut self, answered: usize) -> Result<(usize, bool), DriveError> {
        let room = self.buffer.len() - self.kept;
        let may_have_more = match self.stream.read(&mut self.buffer[self.kept..]) {
            Ok(0) => return Err(DriveError::Closed),
            Ok(count) => {
                self.kept += count;
                count == room
            }
            Err(error) if os::is_not_now(&error) => return Ok((0, false)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(DriveError::Closed);
            }
            Err(error) => return Err(error.into()),
        };
        let (mut taken, mut count) = (0, 0);
        let wrong = |number, found| DriveError::Answer { number, found };
        loop {
            let rest = &self.buffer[taken..self.kept];
            let first = self.framing.first_len(rest).map_err(|it| wrong(answered + count, it))?;
            let Some(len) = first else { break };
            let is_answer = self.framing.is_answer(&rest[..len]);
            if is_answer.map_err(|found| wrong(answered + count, found))? {
                self.answer_len = len;
                count += 1;
            }
            taken += len;
        }
        self.buffer.copy_within(taken..self.kept, 0);
        self.kept -= taken;
        Ok((count, may_have_more))
    }
}
