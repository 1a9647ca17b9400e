//! The connection of a session: SoupBinTCP, UDP or FIX behind one interface.
//!
//! Invariant: no call blocks but [`open`], which waits for a TCP connection as long as the client does.

use std::io::{Read, Write};

use client::participant::{
    ClientError, ClientState, DatagramSocket, TcpClient, UdpClient, connect_tcp,
};
use wire::soupbintcp::LoginRequest;

use super::{FailureReason, LoadOptions, LoadSession, fix_link::FixLink};

/// What a session needs of its connection.
pub(super) trait Link: Send {
    /// One turn: reads what is there and hands sequenced messages on. Returns how many.
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(u64, &[u8]),
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
            // By the letter of SoupBinTCP, 0 asks for the newest message and what follows.
            let login = LoginRequest { sequence_number: Some(0), ..login };
            Box::new(TcpClient::connect(server, login, options.timers, now_ns)?)
        }
        LoadSession::Udp { server, local } => {
            let client = UdpClient::bind(local, server, None, options.requests_per_datagram)?;
            Box::new(client.with_batching(options.batching)?)
        }
        LoadSession::Fix { server, login } => {
            Box::new(FixLink::over(connect_tcp(server)?, &login, now_ns))
        }
    })
}

impl<S: Read + Write + Send> Link for TcpClient<S> {
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<usize, FailureReason> {
        let delivered = self.poll(now_ns, &mut |number, message| on_message(number, message))?;
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

    fn log_out(&mut self, now_ns: u64) -> bool {
        self.logout(now_ns).is_ok()
    }
}

impl<S: DatagramSocket + Send> Link for UdpClient<S> {
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<usize, FailureReason> {
        let delivered = self.poll(now_ns, &mut |number, message| on_message(number, message))?;
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

    fn log_out(&mut self, _now_ns: u64) -> bool {
        false
    }
}
