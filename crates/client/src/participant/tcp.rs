//! Order entry over TCP: one SoupBinTCP connection with one login.
//!
//! Invariant: only connecting blocks, for at most 3 s; sequenced messages reach the caller in order, each once.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use market::Text;
use wire::soupbintcp::{
    Client, ClientHappening, LoginRejectReason, LoginRequest, MESSAGE_LEN_MAX, Timers,
};

use super::ClientError;

/// The time for a venue to accept the TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The most bytes that may wait to be written.
const OUTGOING_MAX: usize = 256 * 1024;
/// Bytes read at a time.
const READ_LEN: usize = 64 * 1024;
/// Reads in one turn, so that one busy session does not starve its neighbours.
const READS_PER_POLL: usize = 8;

/// The state of a client's login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// The login is sent, and its answer is pending.
    Connecting,
    /// The venue accepted the login.
    LoggedIn {
        /// Name of the venue's session.
        session: Text<10>,
        /// Number of the first sequenced message to come.
        next_sequence: u64,
    },
    /// The venue rejected the login; it closes the connection.
    Rejected(LoginRejectReason),
    /// The session or the connection has ended.
    Ended,
}

/// An OUCH client over SoupBinTCP: one connection, one login.
///
/// `S` is the connection: nonblocking, or it would block its owner.
#[derive(Debug)]
pub struct TcpClient<S = TcpStream> {
    stream: S,
    session: Client,
    state: ClientState,
    /// Name of the venue's session, once the login was accepted.
    name: Option<Text<10>>,
    /// The last text of the venue for a human reader.
    debug_text: Option<String>,
    buffer: Box<[u8]>,
    /// Bytes that the connection has taken so far.
    written: u64,
}

impl TcpClient {
    /// Connects and sends the login; [`poll`](Self::poll) receives the answer. Waits for the
    /// connection, at most 3 s.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(
        address: SocketAddr,
        login: LoginRequest,
        timers: Timers,
        now_ns: u64,
    ) -> Result<Self, ClientError> {
        let stream = connect_tcp(address)?;
        Ok(Self::over(stream, login, timers, now_ns))
    }
}

/// A nonblocking connection. Waits for it, at most 3 s.
///
/// # Errors
/// [`ClientError::Connect`].
pub fn connect_tcp(address: SocketAddr) -> Result<TcpStream, ClientError> {
    let open = || -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    open().map_err(|source| ClientError::Connect { address, source })
}

impl<S: Read + Write> TcpClient<S> {
    /// A client over an open connection; queues the login.
    pub fn over(stream: S, login: LoginRequest, timers: Timers, now_ns: u64) -> Self {
        Self {
            stream,
            session: Client::new(timers, login, now_ns),
            state: ClientState::Connecting,
            name: None,
            debug_text: None,
            buffer: vec![0; READ_LEN].into_boxed_slice(),
            written: 0,
        }
    }

    /// The connection.
    pub fn connection(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Bytes written to the connection so far, and bytes that wait to be written.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.written + self.session.outgoing().len() as u64
    }

    /// The state of the login.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// Name of the venue's session, once the login was accepted; also after the end.
    #[must_use]
    pub fn session_name(&self) -> Option<Text<10>> {
        self.name
    }

    /// The last text of the venue for a human reader, for example the reason for which it rejected a login.
    #[must_use]
    pub fn debug_text(&self) -> Option<&str> {
        self.debug_text.as_deref()
    }

    /// True if messages can be sent.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, ClientState::LoggedIn { .. }) && self.session.is_logged_in()
    }

    /// One turn: writes waiting bytes, reads available ones, hands the sequenced messages on with their stream sequence
    /// numbers, and sends heartbeats. Returns the number of messages handed on.
    ///
    /// # Errors
    /// The connection cannot be used any more. After the end of the session there is no error, only
    /// [`ClientState::Ended`].
    pub fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, ClientError> {
        self.poll_beside(now_ns, &mut |_, number, message| on_message(number, message))
    }

    /// [`poll`](Self::poll), with the connection beside each message, as it is after the read that brought it.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn poll_beside(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(&S, u64, &[u8]),
    ) -> Result<usize, ClientError> {
        if matches!(self.state, ClientState::Ended | ClientState::Rejected(_)) {
            return Ok(0);
        }
        let result = self.turn(now_ns, on_message);
        if result.is_err() {
            self.state = ClientState::Ended;
        }
        result
    }

    /// Queues one message; [`flush`](Self::flush) or the next [`poll`](Self::poll) writes it.
    ///
    /// # Errors
    /// [`ClientError::NotLoggedIn`], [`ClientError::TooLong`], or [`ClientError::Full`] while the
    /// venue does not read.
    pub fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), ClientError> {
        if !self.is_logged_in() {
            return Err(ClientError::NotLoggedIn);
        }
        if message.len() > MESSAGE_LEN_MAX {
            return Err(ClientError::TooLong(message.len()));
        }
        if !self.has_room(message.len()) {
            return Err(ClientError::Full);
        }
        self.session.send(message, now_ns);
        Ok(())
    }

    /// True if a message of `len` bytes can be queued.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        const FRAME_LEN: usize = 3;
        self.session.outgoing().len() + FRAME_LEN + len <= OUTGOING_MAX
    }

    /// Writes the waiting bytes, as far as the connection takes them.
    ///
    /// # Errors
    /// [`ClientError::Send`], [`ClientError::Closed`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        while !self.session.outgoing().is_empty() {
            match self.stream.write(self.session.outgoing()) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(written) => {
                    self.session.sent(written);
                    self.written += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::Send(error)),
            }
        }
        Ok(())
    }

    /// Sends a logout; the venue then closes the connection, and the state becomes
    /// [`ClientState::Ended`].
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn logout(&mut self, now_ns: u64) -> Result<(), ClientError> {
        self.session.logout(now_ns);
        self.flush()
    }

    fn turn(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(&S, u64, &[u8]),
    ) -> Result<usize, ClientError> {
        self.flush()?;
        let mut delivered = 0;
        for _ in 0..READS_PER_POLL {
            let len = match self.stream.read(&mut self.buffer) {
                Ok(0) if self.session.is_closed() => {
                    self.state = ClientState::Ended;
                    break;
                }
                Ok(0) => return Err(ClientError::Closed),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ClientError::Receive(error)),
            };
            self.session.receive(&self.buffer[..len], now_ns).map_err(ClientError::Violation)?;
            delivered += self.take_happenings(on_message)?;
            let is_over = matches!(self.state, ClientState::Rejected(_) | ClientState::Ended);
            if is_over || len < self.buffer.len() {
                break;
            }
        }
        self.session.tick(now_ns).map_err(ClientError::Timeout)?;
        self.flush()?;
        Ok(delivered)
    }

    fn take_happenings(
        &mut self,
        on_message: &mut impl FnMut(&S, u64, &[u8]),
    ) -> Result<usize, ClientError> {
        let mut delivered = 0;
        while let Some(happening) = self.session.next().map_err(ClientError::Violation)? {
            match happening {
                ClientHappening::Accepted { session, next_sequence } => {
                    self.name = Some(session);
                    self.state = ClientState::LoggedIn { session, next_sequence };
                }
                ClientHappening::Rejected(reason) => self.state = ClientState::Rejected(reason),
                ClientHappening::Sequenced(stream_sequence, message) => {
                    on_message(&self.stream, stream_sequence, message);
                    delivered += 1;
                }
                ClientHappening::EndOfSession => self.state = ClientState::Ended,
                // The venue sends no unsequenced OUCH messages to clients.
                ClientHappening::Unsequenced(_) => {}
                ClientHappening::Debug(text) => {
                    self.debug_text = Some(String::from_utf8_lossy(text).into_owned());
                }
            }
        }
        Ok(delivered)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    use wire::soupbintcp::{Server, ServerHappening, Timeout, Violation};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SESSION: &[u8; 10] = b"      DEMO";

    /// A connection in memory.
    #[derive(Clone, Default)]
    struct Pipe(Rc<RefCell<PipeState>>);

    #[derive(Default)]
    struct PipeState {
        /// The bytes for the client to read.
        to_client: VecDeque<u8>,
        /// The bytes written by the client.
        to_server: Vec<u8>,
        /// The bytes that the client may still write, if limited.
        room: Option<usize>,
        is_closed: bool,
    }

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut state = self.0.borrow_mut();
            if state.to_client.is_empty() {
                return if state.is_closed { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            state.to_client.read(buffer)
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.borrow_mut();
            let len = state.room.map_or(bytes.len(), |room| room.min(bytes.len()));
            if len == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            state.room = state.room.map(|room| room - len);
            state.to_server.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A client and the server at the other end of its connection.
    struct Scene {
        client: TcpClient<Pipe>,
        pipe: Pipe,
        server: Server,
        received: Vec<Vec<u8>>,
        logins: Vec<LoginRequest>,
        messages: Vec<(u64, Vec<u8>)>,
        now_ns: u64,
    }

    impl Scene {
        fn new() -> Self {
            let pipe = Pipe::default();
            let login = LoginRequest::new("USER01", "SECRET").unwrap();
            Self {
                client: TcpClient::over(pipe.clone(), login, Timers::default(), 0),
                pipe,
                server: Server::new(Timers::default(), 0),
                received: Vec::new(),
                logins: Vec::new(),
                messages: Vec::new(),
                now_ns: 0,
            }
        }

        fn logged_in() -> Self {
            let mut scene = Self::new();
            scene.poll().unwrap();
            scene.server.accept(SESSION, 5, 0);
            scene.poll().unwrap();
            scene
        }

        /// Both sides take a turn.
        fn poll(&mut self) -> Result<usize, ClientError> {
            let outgoing = self.server.outgoing().to_vec();
            self.server.sent(outgoing.len());
            self.pipe.0.borrow_mut().to_client.extend(outgoing);
            let messages = &mut self.messages;
            let result = self.client.poll(self.now_ns, &mut |stream_sequence, message| {
                messages.push((stream_sequence, message.to_vec()));
            });
            let written = std::mem::take(&mut self.pipe.0.borrow_mut().to_server);
            self.server.receive(&written, self.now_ns).unwrap();
            while let Some(happening) = self.server.next().unwrap() {
                match happening {
                    ServerHappening::Login(login) => self.logins.push(login),
                    ServerHappening::Message(message) => self.received.push(message.to_vec()),
                    ServerHappening::Taken => {}
                    ServerHappening::Logout => self.pipe.0.borrow_mut().is_closed = true,
                }
            }
            result
        }
    }

    /// A login is sent at once; once accepted, messages go both ways, with the venue's numbers.
    #[test]
    fn messages_go_both_ways_after_the_login() {
        let mut scene = Scene::new();
        assert!(matches!(scene.client.send(b"early", 0), Err(ClientError::NotLoggedIn)));
        scene.poll().unwrap();
        assert!(scene.logins[0].username_is("user01") && scene.logins[0].password_is("secret"));
        assert_eq!(scene.client.state(), ClientState::Connecting);

        scene.server.accept(SESSION, 5, 0);
        scene.server.send_sequenced(b"five", 0);
        scene.server.send_debug("hello", 0);
        scene.server.send_unsequenced(b"aside", 0);
        scene.server.send_sequenced(b"six", 0);
        assert_eq!(scene.poll().unwrap(), 2);
        let session = Text::new("DEMO").unwrap();
        assert_eq!(scene.client.state(), ClientState::LoggedIn { session, next_sequence: 5 });
        assert_eq!(scene.messages, [(5, b"five".to_vec()), (6, b"six".to_vec())]);

        scene.client.send(b"one", 0).unwrap();
        scene.client.send(b"two", 0).unwrap();
        scene.poll().unwrap();
        assert_eq!(scene.received, [b"one", b"two"]);
    }

    /// A login that is refused is a state, not an error; the venue may close then.
    #[test]
    fn refused_login_is_a_state() {
        let mut scene = Scene::new();
        scene.poll().unwrap();
        scene.server.reject(LoginRejectReason::NotAuthorized, 0);
        scene.poll().unwrap();
        let refused = ClientState::Rejected(LoginRejectReason::NotAuthorized);
        assert_eq!(scene.client.state(), refused);
        scene.pipe.0.borrow_mut().is_closed = true;
        assert_eq!(scene.poll().unwrap(), 0);
        assert_eq!(scene.client.state(), refused);
    }

    /// After a logout, and after the end of the session, the venue may close.
    #[test]
    fn goodbyes_are_no_errors() {
        let mut scene = Scene::logged_in();
        scene.client.logout(0).unwrap();
        assert!(matches!(scene.client.send(b"late", 0), Err(ClientError::NotLoggedIn)));
        scene.poll().unwrap();
        scene.poll().unwrap();
        assert_eq!(scene.client.state(), ClientState::Ended);

        let mut scene = Scene::logged_in();
        scene.server.send_sequenced(b"last", 0);
        scene.server.end_of_session(0);
        assert_eq!(scene.poll().unwrap(), 1);
        assert_eq!(scene.client.state(), ClientState::Ended);
        assert_eq!(scene.poll().unwrap(), 0);
    }

    /// A venue that closes without ending the session is an error, once.
    #[test]
    fn sudden_end_is_an_error() {
        for mut scene in [Scene::new(), Scene::logged_in()] {
            scene.pipe.0.borrow_mut().is_closed = true;
            assert!(matches!(scene.poll(), Err(ClientError::Closed)));
            assert_eq!(scene.client.state(), ClientState::Ended);
            assert_eq!(scene.poll().unwrap(), 0);
        }
    }

    /// The client keeps its heartbeat and notices a venue that has none.
    #[test]
    fn silence_is_noticed() {
        let mut scene = Scene::logged_in();
        scene.now_ns = SECOND;
        scene.poll().unwrap();
        scene.server.tick(15 * SECOND).unwrap();
        scene.poll().unwrap();
        scene.now_ns = 16 * SECOND;
        assert!(matches!(scene.poll(), Err(ClientError::Timeout(Timeout::Silence))));

        let mut scene = Scene::new();
        scene.now_ns = 5 * SECOND;
        assert!(matches!(scene.poll(), Err(ClientError::Timeout(Timeout::Login))));
    }

    /// A breach of the protocol by the venue is an error.
    #[test]
    fn violation_is_an_error() {
        let mut scene = Scene::logged_in();
        scene.pipe.0.borrow_mut().to_client.extend(b"\0\x01?");
        let error = scene.poll().unwrap_err();
        assert!(matches!(error, ClientError::Violation(Violation::UnknownType(b'?'))), "{error}");
        assert_eq!(scene.client.state(), ClientState::Ended);
    }

    /// While the venue does not read, only a limited number of bytes may wait; then all of them arrive in order.
    #[test]
    fn what_waits_is_bounded() {
        let mut scene = Scene::logged_in();
        scene.pipe.0.borrow_mut().room = Some(100);
        let mut sent = 0;
        while scene.client.has_room(1_000) {
            scene.client.send(&[sent as u8; 1_000], 0).unwrap();
            sent += 1;
        }
        assert!(matches!(scene.client.send(&[0; 1_000], 0), Err(ClientError::Full)));
        assert!(sent * 1_003 <= OUTGOING_MAX);
        scene.poll().unwrap();
        assert_eq!(scene.received.len(), 0);
        // The venue reads again, a little at a time.
        while scene.received.len() < sent {
            scene.pipe.0.borrow_mut().room = Some(50_000);
            scene.poll().unwrap();
        }
        assert!(scene.received.iter().enumerate().all(|(at, message)| message[0] == at as u8));
        let too_long = vec![0; MESSAGE_LEN_MAX + 1];
        assert!(matches!(scene.client.send(&too_long, 0), Err(ClientError::TooLong(_))));
    }
}
