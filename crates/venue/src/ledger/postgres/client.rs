//! As much of a client of PostgreSQL as the ledger needs: protocol 3.0, simple queries, COPY in.
//!
//! Blocking, with a limit on every wait. It logs in by trust, by password in the clear or by
//! SCRAM-SHA-256, over TCP or a Unix socket, without TLS.

use std::{
    io::{self, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{address::Address, scram::Scram};
use crate::ledger::store::StoreError;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the server to take or give the next bytes.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// A message of the server that is longer is no message.
const MESSAGE_LEN_MAX: usize = 64 << 20;
/// Version 3.0.
const PROTOCOL: i32 = 196_608;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that is logged in.
pub(super) struct Client {
    stream: BufReader<Box<dyn Stream>>,
    message: Vec<u8>,
}

/// A row as it came: each value as text, or null.
pub(super) type Fields<'a> = &'a [Option<&'a str>];

impl Client {
    pub(super) fn connect(address: &Address) -> Result<Self, StoreError> {
        let stream = dial(address).map_err(|error| {
            StoreError::unavailable(format!("cannot connect to PostgreSQL at {address}: {error}"))
        })?;
        let mut client = Self { stream: BufReader::new(stream), message: Vec::new() };
        client.log_in(address)?;
        Ok(client)
    }

    fn log_in(&mut self, address: &Address) -> Result<(), StoreError> {
        let mut startup = PROTOCOL.to_be_bytes().to_vec();
        for (name, value) in [
            ("user", address.user.as_str()),
            ("database", &address.database),
            ("client_encoding", "UTF8"),
            ("application_name", "damrak"),
        ] {
            for text in [name, value] {
                startup.extend_from_slice(text.as_bytes());
                startup.push(0);
            }
        }
        startup.push(0);
        let len = (startup.len() as i32 + 4).to_be_bytes();
        self.write(&[&len[..], &startup].concat())?;
        let password = || {
            address.password.as_deref().ok_or_else(|| {
                StoreError::foreign("PostgreSQL asks for a password, and ledger.url has none")
            })
        };
        let mut scram = None;
        loop {
            let kind = self.receive()?;
            if kind != b'R' {
                match kind {
                    b'Z' => return Ok(()),
                    b'S' | b'K' | b'N' => continue,
                    _ => return Err(self.unexpected(kind)),
                }
            }
            let code = self.message.first_chunk().map(|code| i32::from_be_bytes(*code));
            match code {
                Some(0) => {}
                Some(3) => {
                    let answer = [password()?.as_bytes(), &[0]].concat();
                    self.send(b'p', &answer)?;
                }
                Some(10) => {
                    if !self.message[4..].split(|byte| *byte == 0).any(|it| it == Scram::NAME) {
                        return Err(StoreError::foreign("PostgreSQL asks for an unknown login"));
                    }
                    let begun = Scram::begin(password()?).map_err(StoreError::unavailable)?;
                    let first = begun.first();
                    let len = (first.len() as i32).to_be_bytes();
                    self.send(b'p', &[Scram::NAME, &[0], &len, first.as_bytes()].concat())?;
                    scram = Some(begun);
                }
                Some(code @ (11 | 12)) => {
                    let said = String::from_utf8_lossy(&self.message[4..]).into_owned();
                    let running = scram.as_mut();
                    let running =
                        running.ok_or_else(|| StoreError::foreign("SCRAM without a beginning"))?;
                    if code == 11 {
                        let answer = running.answer(&said).map_err(StoreError::foreign)?;
                        self.send(b'p', answer.as_bytes())?;
                    } else {
                        running.check(&said).map_err(StoreError::foreign)?;
                    }
                }
                _ => {
                    return Err(StoreError::foreign(
                        "PostgreSQL asks for a login that damrak does not know; it knows trust, \
                         password and scram-sha-256",
                    ));
                }
            }
        }
    }

    /// Runs statements and shows the rows of all of them.
    pub(super) fn query(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(Fields<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.send(b'Q', &[sql.as_bytes(), &[0]].concat())?;
        let mut failure = None;
        loop {
            match self.receive_or_error()? {
                Ok(b'Z') => return failure.map_or(Ok(()), Err),
                Ok(b'D') if failure.is_none() => {
                    if let Err(error) = fields(&self.message, each) {
                        failure = Some(error);
                    }
                }
                Ok(b'T' | b'D' | b'C' | b'I' | b'N' | b'S') => {}
                Ok(kind) => return Err(self.unexpected(kind)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }

    /// Runs statements that give no rows.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.query(sql, &mut |_| Ok(()))
    }

    /// Copies rows, each a line of COPY's text format, into where `sql` says.
    pub(super) fn copy(&mut self, sql: &str, lines: &[u8]) -> Result<(), StoreError> {
        self.send(b'Q', &[sql.as_bytes(), &[0]].concat())?;
        loop {
            match self.receive()? {
                b'G' => break,
                b'N' | b'S' => {}
                kind => return Err(self.unexpected(kind)),
            }
        }
        for part in lines.chunks(1 << 20) {
            self.send(b'd', part)?;
        }
        self.send(b'c', &[])?;
        let mut failure = None;
        loop {
            match self.receive_or_error()? {
                Ok(b'Z') => return failure.map_or(Ok(()), Err),
                Ok(b'C' | b'N' | b'S') => {}
                Ok(kind) => return Err(self.unexpected(kind)),
                Err(error) => failure = Some(error),
            }
        }
    }

    fn unexpected(&self, kind: u8) -> StoreError {
        StoreError::unavailable(format!("PostgreSQL sent an unexpected {:?}", char::from(kind)))
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), StoreError> {
        let len = i32::try_from(body.len() + 4).expect("no message is as long as 2 GiB");
        self.write(&[&[kind], &len.to_be_bytes()[..], body].concat())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).and_then(|()| stream.flush()).map_err(|error| broken(&error))
    }

    /// The kind of the next message; an error that the server tells is one.
    fn receive(&mut self) -> Result<u8, StoreError> {
        self.receive_or_error()?
    }

    /// The kind of the next message, or the error that the server tells; else the connection broke.
    fn receive_or_error(&mut self) -> Result<Result<u8, StoreError>, StoreError> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).map_err(|error| broken(&error))?;
        let len = i32::from_be_bytes(*head[1..].first_chunk().expect("four bytes"));
        let len = usize::try_from(len).ok().and_then(|len| len.checked_sub(4));
        let len = len.filter(|len| *len <= MESSAGE_LEN_MAX);
        let len = len.ok_or_else(|| StoreError::unavailable("PostgreSQL sent no message"))?;
        self.message.resize(len, 0);
        self.stream.read_exact(&mut self.message).map_err(|error| broken(&error))?;
        Ok(if head[0] == b'E' { Err(told(&self.message)) } else { Ok(head[0]) })
    }
}

fn dial(address: &Address) -> io::Result<Box<dyn Stream>> {
    if address.host.starts_with('/') {
        let path = Path::new(&address.host).join(format!(".s.PGSQL.{}", address.port));
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
        stream.set_write_timeout(Some(WAIT_TIMEOUT))?;
        return Ok(Box::new(stream));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for place in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
                stream.set_write_timeout(Some(WAIT_TIMEOUT))?;
                return Ok(Box::new(stream));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn broken(error: &io::Error) -> StoreError {
    StoreError::unavailable(format!("the connection to PostgreSQL broke: {error}"))
}

/// What an error response says: severity, code and message.
fn told(message: &[u8]) -> StoreError {
    let field = |wanted: u8| {
        let mut fields = message.split(|byte| *byte == 0);
        fields.find(|field| field.first() == Some(&wanted)).map(|field| &field[1..])
    };
    let text = |wanted| String::from_utf8_lossy(field(wanted).unwrap_or(b"?")).into_owned();
    let (code, what) = (text(b'C'), text(b'M'));
    let what = format!("PostgreSQL says {what:?} ({code})");
    // Classes 28 (who we are), 3D (no such database) and 42 (no such thing, or no right to it) do
    // not pass by themselves.
    match code.get(..2) {
        Some("28" | "3D" | "42") => StoreError::foreign(what),
        _ => StoreError::unavailable(what),
    }
}

/// Shows the fields of a data row.
fn fields(
    message: &[u8],
    each: &mut dyn FnMut(Fields<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let read = || {
        let (count, mut rest) = message.split_first_chunk::<2>()?;
        let mut fields = Vec::with_capacity(usize::from(u16::from_be_bytes(*count)));
        for _ in 0..u16::from_be_bytes(*count) {
            let (len, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            fields.push(match i32::from_be_bytes(*len) {
                -1 => None,
                len => {
                    let (field, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                    rest = after;
                    Some(str::from_utf8(field).ok()?)
                }
            });
        }
        rest.is_empty().then_some(fields)
    };
    let fields = read().ok_or_else(|| StoreError::unavailable("PostgreSQL sent a broken row"))?;
    each(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::store::StoreErrorKind;

    /// A row is its fields; a row that is cut short is an error.
    #[test]
    fn rows_are_read() {
        let row = b"\0\x03\0\0\0\x0242\xff\xff\xff\xff\0\0\0\0";
        let mut seen = Vec::new();
        let mut keep = |fields: Fields<'_>| {
            seen.push(fields.iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>());
            Ok(())
        };
        fields(row, &mut keep).unwrap();
        assert!(fields(&row[..9], &mut keep).is_err());
        assert_eq!(seen, [[Some("42".to_owned()), None, Some(String::new())]]);
    }

    /// What the server says of an error is told, and whether it may pass.
    #[test]
    fn errors_are_told() {
        let error = told(b"SFATAL\0C57P03\0Mthe database system is starting up\0\0");
        assert!(error.what.contains("starting up") && error.may_pass(), "{error:?}");
        let error = told(b"SFATAL\0C28P01\0Mno\0\0");
        assert_eq!(error.kind, StoreErrorKind::Foreign);
    }
}
