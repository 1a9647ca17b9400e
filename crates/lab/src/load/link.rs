//! The connection of a session: SoupBinTCP, UDP or FIX behind one interface.
//!
//! Invariant: no call blocks but [`open`], which waits for a TCP connection as long as the client does.

use client::participant::{
    ClientError, ClientState, Connection, DatagramSocket, StampedStream, TcpClient, UdpClient,
    connect_tcp,
};
use wire::soupbintcp::LoginRequest;

use super::{FailureReason, LoadOptions, LoadSession, fix_link::FixLink};

/// A sequenced message that arrived.
pub(super) struct Arrival<'a> {
    pub(super) stream_sequence: u64,
    pub(super) message: &'a [u8],
    /// The arrival of its packet by the kernel's clock, if the load asked for it.
    pub(super) packet_ns: Option<u64>,
}

/// A session's interface to its connection.
pub(super) trait Link: Send {
    /// One turn: reads the bytes there are and hands sequenced messages on. Returns how many.
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<usize, FailureReason>;
    /// Hands a message to the connection; [`flush`](Self::flush) sends it.
    fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), FailureReason>;
    fn flush(&mut self) -> Result<(), ClientError>;
    /// True if messages can be sent.
    fn is_open(&self) -> bool;
    /// True if a message of `len` bytes can be handed over now.
    fn has_room(&self, len: usize) -> bool;
    /// True if a sequenced message may be older than this connection: a login that asks for the
    /// newest message gets that one again, if there is one.
    fn is_history(&self, stream_sequence: u64) -> bool;
    /// The name that the venue gave the reply stream.
    fn stream_name(&self) -> Option<String>;
    /// Replies that did not arrive with the first packet and were requested again.
    fn lost_replies(&self) -> u64;
    /// Bytes handed to a TCP connection so far.
    fn bytes_sent(&self) -> u64;
    /// When the packet with the last of so many bytes left, if the load asked for it. The number must not fall from
    /// call to call.
    fn packet_left_ns(&mut self, bytes: u64) -> Option<u64>;
    /// Logs out; true if the venue shall close the connection now.
    fn log_out(&mut self, now_ns: u64) -> bool;
}

/// Opens the connection of a session.
pub(super) fn open(
    session: &LoadSession,
    options: &LoadOptions,
    now_ns: u64,
) -> Result<Box<dyn Link>, ClientError> {
    Ok(match *session {
        LoadSession::Tcp { server, login } => {
            // By the letter of SoupBinTCP, 0 asks for the newest message and those that follow.
            let login = LoginRequest { sequence_number: Some(0), ..login };
            if let Some(times) = options.packet_times {
                let stream = StampedStream::connect(server, times)?;
                Box::new(TcpClient::over(stream, login, options.timers, now_ns))
            } else {
                Box::new(TcpClient::connect(server, login, options.timers, now_ns)?)
            }
        }
        LoadSession::Udp { server, local } => {
            let client = UdpClient::bind(local, server, None, options.requests_per_datagram)?;
            Box::new(client.with_batching(options.batching)?)
        }
        LoadSession::Fix { server, login } => {
            if let Some(times) = options.packet_times {
                Box::new(FixLink::over(StampedStream::connect(server, times)?, &login, now_ns))
            } else {
                Box::new(FixLink::over(connect_tcp(server)?, &login, now_ns))
            }
        }
    })
}

impl<S: Connection + Send> Link for TcpClient<S> {
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<usize, FailureReason> {
        let delivered = self.poll_beside(now_ns, &mut |connection, stream_sequence, message| {
            let packet_ns = connection.arrived_ns();
            on_message(Arrival { stream_sequence, message, packet_ns });
        })?;
        match self.state() {
            ClientState::Connecting | ClientState::LoggedIn { .. } => Ok(delivered),
            ClientState::Rejected(reason) => Err(ClientError::Rejected(reason).into()),
            ClientState::Ended => Err(FailureReason::Ended),
        }
    }

    fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), FailureReason> {
        Ok(self.send(message, now_ns)?)
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        self.flush()
    }

    fn is_open(&self) -> bool {
        self.is_logged_in()
    }

    fn has_room(&self, len: usize) -> bool {
        self.has_room(len)
    }

    fn is_history(&self, stream_sequence: u64) -> bool {
        let ClientState::LoggedIn { next_sequence, .. } = self.state() else { return false };
        next_sequence > 1 && stream_sequence == next_sequence
    }

    fn stream_name(&self) -> Option<String> {
        let ClientState::LoggedIn { session, .. } = self.state() else { return None };
        Some(session.as_str().trim().to_owned())
    }

    fn lost_replies(&self) -> u64 {
        0
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes_sent()
    }

    fn packet_left_ns(&mut self, bytes: u64) -> Option<u64> {
        self.connection().left_ns(bytes)
    }

    fn log_out(&mut self, now_ns: u64) -> bool {
        self.logout(now_ns).is_ok()
    }
}

impl<S: DatagramSocket + Send> Link for UdpClient<S> {
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<usize, FailureReason> {
        let delivered = self.poll(now_ns, &mut |stream_sequence, message| {
            on_message(Arrival { stream_sequence, message, packet_ns: None });
        })?;
        if self.is_ended() { Err(FailureReason::Ended) } else { Ok(delivered) }
    }

    fn send(&mut self, message: &[u8], _now_ns: u64) -> Result<(), FailureReason> {
        Ok(self.send(message)?)
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        self.flush()
    }

    fn is_open(&self) -> bool {
        true
    }

    fn has_room(&self, len: usize) -> bool {
        self.has_room(len)
    }

    fn is_history(&self, _stream_sequence: u64) -> bool {
        false
    }

    fn stream_name(&self) -> Option<String> {
        self.session().map(|name| String::from_utf8_lossy(&name[..]).trim().to_owned())
    }

    fn lost_replies(&self) -> u64 {
        self.report().replies.missed
    }

    fn bytes_sent(&self) -> u64 {
        0
    }

    fn packet_left_ns(&mut self, _bytes: u64) -> Option<u64> {
        None
    }

    fn log_out(&mut self, _now_ns: u64) -> bool {
        false
    }
}
