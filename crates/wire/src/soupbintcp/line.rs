//! The common part of client and server: a connection's bytes, and its timers.

use core::ops::Range;

use super::{
    Timeout, Timers, Violation,
    buffer::{Incoming, Outgoing, Packet},
};

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Line {
    timers: Timers,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    opened_ns: u64,
    /// The time when the last bytes arrived.
    arrived_ns: u64,
    /// The time when the last whole packet arrived.
    heard_ns: u64,
}

impl Line {
    /// A new connection.
    pub(super) fn new(timers: Timers, now_ns: u64) -> Self {
        Self {
            timers,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            opened_ns: now_ns,
            arrived_ns: now_ns,
            heard_ns: now_ns,
        }
    }

    /// Takes bytes, cut anywhere.
    pub(super) fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), Violation> {
        self.arrived_ns = now_ns;
        self.incoming.receive(bytes)
    }

    /// Takes the next packet, once it is complete. A length above `length_max` is an error at once.
    pub(super) fn next(&mut self, length_max: u16) -> Result<Option<Packet>, Violation> {
        let packet = self.incoming.next(length_max)?;
        if packet.is_some() {
            self.heard_ns = self.arrived_ns;
        }
        Ok(packet)
    }

    /// Takes the next packet if it is complete and of this type; returns the place of its payload.
    pub(super) fn next_of(&mut self, packet_type: u8) -> Option<Range<usize>> {
        let payload = self.incoming.next_of(packet_type)?;
        self.heard_ns = self.arrived_ns;
        Some(payload)
    }

    /// Bytes held, in both directions.
    pub(super) const fn held(&self) -> usize {
        self.incoming.held() + self.outgoing.held()
    }

    /// Sets the silence after which the peer counts as dead.
    pub(super) fn bear(&mut self, receive_timeout_ns: u64) {
        self.timers.receive_timeout_ns = receive_timeout_ns;
    }

    /// Starts the peer's timer again.
    pub(super) fn hear(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// Checks that the time for a login is not over.
    pub(super) fn await_login(&self, now_ns: u64) -> Result<(), Timeout> {
        let open_ns = now_ns.saturating_sub(self.opened_ns);
        if open_ns < self.timers.login_timeout_ns { Ok(()) } else { Err(Timeout::Login) }
    }

    /// Adds a heartbeat if one is due, unless the peer was silent for too long.
    pub(super) fn beat(&mut self, heartbeat: u8, now_ns: u64) -> Result<(), Timeout> {
        if now_ns.saturating_sub(self.heard_ns) >= self.timers.receive_timeout_ns {
            return Err(Timeout::Silence);
        }
        self.outgoing.heartbeat(heartbeat, self.timers.heartbeat_ns, now_ns);
        Ok(())
    }
}
