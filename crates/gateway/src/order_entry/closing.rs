//! The end of a connection: by its client, by a time limit, or by the venue.
//!
//! Invariant: the reason is reported once, and all bytes written before it reach a client that reads.

use super::{
    ClientSession, OrderEntry,
    connection::{Connection, ReadOutcome, Stage},
    serving::{STEPS_PER_STRANGER, Served},
};
use crate::{CloseReason, OperatorEvent, StreamNetwork, drain::DRAIN_ENDS};

/// The interval between checks of the timers.
const TICK_NS: u64 = 10_000_000;
/// The time a connection that the venue has ended may take to read the last bytes.
const CLOSING_NS: u64 = 1_000_000_000;

impl<N: StreamNetwork, S: ClientSession> OrderEntry<N, S> {
    /// Ends a connection that broke the protocol, after notifying its client.
    pub(super) fn break_off(
        &mut self,
        connection: &mut Connection<S>,
        violation: &str,
        now_ns: u64,
    ) {
        self.counters.violations.add(1);
        connection.session.send_text(violation, now_ns);
        let reason = CloseReason::Violation(violation.to_owned());
        self.begin_closing(connection, Some(reason), now_ns);
    }

    /// Ends a session as soon as all its replies so far are sent: they come before its end.
    pub(super) fn end_session(&mut self, connection: &mut Connection<S>, now_ns: u64) {
        let is_over = match connection.stage {
            Stage::Live(user) => connection.next_reply == self.replies.store().next(user),
            Stage::Pending => true,
            Stage::Closing { .. } => false,
        };
        if is_over && let Some(reason) = connection.ends.take() {
            // A connection that has not logged in has no session to end.
            if connection.stage != Stage::Pending {
                connection.session.end(now_ns);
            }
            self.begin_closing(connection, Some(reason), now_ns);
        }
    }

    /// Ends every session, once the venue takes no more requests and has answered all that it took.
    pub(super) fn end_sessions(&mut self) {
        if self.drain.get() < DRAIN_ENDS || self.has_ended {
            return;
        }
        self.has_ended = true;
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index] {
                connection.ends = Some(CloseReason::GatewayClosed);
                self.enqueue(index as u32);
            }
        }
    }

    /// Begins to close a connection: from now on its bytes are read only to be discarded, and its user may log in again
    /// at once. Reports the reason once.
    pub(super) fn begin_closing(
        &mut self,
        connection: &mut Connection<S>,
        reason: Option<CloseReason>,
        now_ns: u64,
    ) {
        self.release(connection, reason);
        connection.awaits_login = false;
        if matches!(connection.stage, Stage::Live(_)) {
            self.add_stranger(connection.id, connection.address, now_ns);
        }
        connection.stage = Stage::Closing { until_ns: now_ns + CLOSING_NS, finished: false };
    }

    /// Reads and discards the bytes that a closing connection still sends.
    pub(super) fn discard(&mut self, connection: &mut Connection<S>, work: &mut usize) -> Served {
        for _ in 0..STEPS_PER_STRANGER {
            match connection.read(&mut self.network, &mut self.buffer) {
                ReadOutcome::Bytes(count) => {
                    *work += 1;
                    self.counters.bytes_in.add(count as u64);
                }
                ReadOutcome::Nothing => return Served::Idle,
                ReadOutcome::Ended => return Served::Close(CloseReason::Gone),
            }
        }
        Served::Again
    }

    pub(super) fn is_tick_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.ticked_ns) >= TICK_NS
    }

    /// Checks the timers of every connection.
    pub(super) fn tick(&mut self, now_ns: u64) -> usize {
        if !self.is_tick_due(now_ns) {
            return 0;
        }
        self.ticked_ns = now_ns;
        let (mut work, mut held) = (0, 0);
        for index in 0..self.connections.len() {
            let Some(mut connection) = self.connections[index].take() else { continue };
            if let Some(reason) = self.timed_out(&mut connection, now_ns) {
                work += 1;
                self.drop_connection(*connection, reason);
                continue;
            }
            let has_bytes = connection.writable && !connection.session.outgoing().is_empty()
                || connection.session.has_more();
            held += connection.session.held();
            self.connections[index] = Some(connection);
            if has_bytes {
                work += 1;
                self.enqueue(index as u32);
            }
        }
        self.counters.connection_bytes.set(held as u64);
        work + self.inject()
    }

    /// Cuts the connections that an operator wants cut, and wakes those whose replies were delayed.
    fn inject(&mut self) -> usize {
        let (mut work, mut delayed) = (0, 0);
        for user in 0..self.users.len() {
            let is_cut = self.injectors[user].takes_disconnect();
            let Some(id) = self.live[user] else { continue };
            if is_cut && let Some(connection) = self.connections[id.index as usize].take() {
                self.counters.injected_disconnects.add(1);
                self.drop_connection(*connection, CloseReason::Injected);
                work += 1;
            } else if self.injectors[user].holds() {
                delayed += 1;
                self.enqueue(id.index);
            }
        }
        self.counters.delayed.set(delayed);
        work
    }

    pub(super) fn timed_out(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
    ) -> Option<CloseReason> {
        if let Stage::Closing { until_ns, .. } = connection.stage {
            return (now_ns >= until_ns).then_some(CloseReason::Silent);
        }
        if connection.session.tick(now_ns).is_err() {
            let counter = match connection.stage {
                Stage::Pending => Some(&self.counters.login_timeouts),
                // A client is not silent if its bytes are unread because the ring is full.
                _ if connection.readable => None,
                _ => Some(&self.counters.silent_closed),
            };
            if let Some(counter) = counter {
                counter.add(1);
                return Some(CloseReason::Silent);
            }
        }
        let blocked_since_ns = connection.blocked_since_ns?;
        let slow = now_ns.saturating_sub(blocked_since_ns) >= self.limits.slow_client_timeout_ns;
        if slow {
            self.counters.slow_closed.add(1);
        }
        slow.then_some(CloseReason::Slow)
    }

    pub(super) fn drop_connection(&mut self, connection: Connection<S>, reason: CloseReason) {
        if reason == CloseReason::Logout {
            self.counters.logouts.add(1);
        }
        self.network.close(connection.id);
        self.strangers.remove(connection.id);
        self.open -= 1;
        self.release(&connection, Some(reason));
    }

    /// Removes the connection from the count of its stage, and reports the reason once.
    pub(super) fn release(&mut self, connection: &Connection<S>, reason: Option<CloseReason>) {
        let address = connection.address;
        let event = match connection.stage {
            Stage::Pending => {
                self.pending -= 1;
                if connection.awaits_login {
                    self.logins.forget(connection.id);
                    self.count_logins();
                }
                reason.map(|reason| OperatorEvent::NeverLoggedIn { address, reason })
            }
            Stage::Live(user) => {
                self.live[user] = None;
                self.resend_turns.leave(user);
                connection.session.leave(&mut self.memories[user]);
                if self.users[user].cancel_on_disconnect && !self.cut_off.contains(&user) {
                    self.cut_off.push_back(user);
                }
                let username = self.users[user].username();
                reason.map(|reason| OperatorEvent::LoggedOut { username, address, reason })
            }
            Stage::Closing { .. } => None,
        };
        if let Some(event) = event {
            self.notify(event);
        }
    }
}
