//! A connection's turn: its client's bytes are taken, then its replies are sent.
//!
//! Invariant: a turn is bounded, for one connection and for all, and no message of a session is taken without free
//! slots in the submissions ring. A login needs none: it is answered while nothing else can be taken.

use std::collections::VecDeque;

use market::{Command, Timestamp};

use super::{
    ClientSession, Known, OrderEntry, SessionEvent,
    connection::{Connection, ReadOutcome, Stage},
};
use crate::{
    CloseReason, OperatorEvent, StreamNetwork, Submission, drain::DRAIN_REFUSES, gate::Verdict,
    replay_store::Missing, submission::steps,
};

/// The most steps of all connections with a session in one turn; the rest wait for the next turn.
const STEPS_PER_TURN: usize = 256;
/// The most steps of all connections without a session in one turn: at most a fifth of the turn.
const STEPS_OF_STRANGERS: usize = 64;
/// The most steps of one of them, many more than a login takes.
pub(super) const STEPS_PER_STRANGER: usize = 4;

/// The state of a connection after it was served.
pub(super) enum Served {
    /// It waits for the network or for replies.
    Idle,
    /// It has more to do at its next turn.
    Again,
    /// It must be closed, for this reason.
    Close(CloseReason),
}

impl<N: StreamNetwork, S: ClientSession> OrderEntry<N, S> {
    /// Serves the waiting connections, each once, until the turn has had its share: first the sessions, so that one
    /// that has ended is free before its user logs in again, then the connections without a session. Both have steps
    /// of their own, so a login is read before newer connections push it out.
    pub(super) fn serve_queues(&mut self, now_ns: u64) -> usize {
        let mut waiting = std::mem::take(&mut self.queue);
        let mut work = self.serve_queue(&mut waiting, STEPS_PER_TURN, now_ns);
        // Connections not reached stay in front of those that come again.
        waiting.append(&mut self.queue);
        self.queue = waiting;
        let mut waiting = std::mem::take(&mut self.queue_of_strangers);
        work += self.serve_queue(&mut waiting, STEPS_OF_STRANGERS, now_ns);
        waiting.append(&mut self.queue_of_strangers);
        self.queue_of_strangers = waiting;
        work
    }

    /// Sends the waiting sessions their unsent replies, before the network is polled.
    pub(super) fn send_replies(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        for place in 0..self.queue.len() {
            let index = self.queue[place] as usize;
            let Some(mut connection) = self.connections[index].take() else { continue };
            let served = match connection.stage {
                Stage::Live(_) if connection.ends.is_none() => {
                    self.give_replies(&mut connection, now_ns, &mut work)
                }
                _ => Served::Idle,
            };
            match served {
                Served::Close(reason) => self.drop_connection(*connection, reason),
                // The connection keeps its place in the queue.
                Served::Idle | Served::Again => self.connections[index] = Some(connection),
            }
        }
        work
    }

    pub(super) fn serve_queue(
        &mut self,
        waiting: &mut VecDeque<u32>,
        steps_max: usize,
        now_ns: u64,
    ) -> usize {
        let mut work = 0;
        let mut steps = 0;
        while steps < steps_max {
            let Some(index) = waiting.pop_front() else { break };
            let Some(mut connection) = self.connections[index as usize].take() else { continue };
            connection.queued = false;
            let before = work;
            let served = self.serve(&mut connection, now_ns, &mut work);
            steps += 1 + work - before;
            match served {
                Served::Close(reason) => self.drop_connection(*connection, reason),
                Served::Idle => self.connections[index as usize] = Some(connection),
                Served::Again => {
                    self.connections[index as usize] = Some(connection);
                    self.enqueue(index);
                }
            }
        }
        work
    }

    pub(super) fn serve(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
        work: &mut usize,
    ) -> Served {
        if connection.ends.is_some() {
            self.end_session(connection, now_ns);
        }
        let drain = self.drain.get();
        let read = match connection.stage {
            Stage::Closing { .. } => self.discard(connection, work),
            // Bytes sent from now on are not taken.
            Stage::Pending | Stage::Live(_) if drain >= DRAIN_REFUSES => Served::Idle,
            Stage::Pending | Stage::Live(_) => self.take_packets(connection, now_ns, work),
        };
        if let Served::Close(reason) = read {
            return Served::Close(reason);
        }
        match self.give_replies(connection, now_ns, work) {
            Served::Idle => read,
            other => other,
        }
    }

    /// Takes the client's packets one by one, while the ring has a slot.
    pub(super) fn take_packets(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
        work: &mut usize,
    ) -> Served {
        let steps_max = match connection.stage {
            Stage::Live(_) if self.contention.is_shared(now_ns) => S::STEPS_SHARED_MAX,
            Stage::Live(_) => S::STEPS_MAX,
            Stage::Pending | Stage::Closing { .. } => STEPS_PER_STRANGER,
        };
        let before = *work;
        while *work - before < steps_max {
            let slots =
                if matches!(connection.stage, Stage::Live(_)) { S::COMMANDS_MAX } else { 0 };
            if self.free < slots {
                self.free = self.submissions.free();
            }
            if self.free < slots {
                // Not counted as work: the sequencer wakes this agent when it has made room.
                self.held_up = true;
                self.counters.stalls.add(1);
                return Served::Again;
            }
            if let Some(served) = self.take_packet(connection, now_ns, work) {
                return served;
            }
        }
        Served::Again
    }

    /// Takes the next packet, or reads if none is whole; the ring has slots for it. Returns the state of the
    /// connection where it must stop.
    #[inline]
    pub(super) fn take_packet(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
        work: &mut usize,
    ) -> Option<Served> {
        let (happening, violation) = match connection.session.next() {
            Ok(happening) => (happening, None),
            Err(violation) => (None, Some(violation)),
        };
        if let Some(violation) = violation {
            self.break_off(connection, &violation, now_ns);
            return Some(Served::Again);
        }
        let Some(happening) = happening else { return self.read(connection, now_ns, work) };
        *work += 1;
        match happening {
            SessionEvent::Login(request) => self.log_in(connection, &request, now_ns),
            SessionEvent::Message(message) => {
                let Stage::Live(user) = connection.stage else {
                    unreachable!("messages come after the login was accepted")
                };
                match self.submit(user, message, now_ns, work) {
                    Ok(Verdict::Block | Verdict::Blocked) => {
                        let text = self.blocked_text(user, now_ns);
                        connection.session.send_text(&text, now_ns);
                        self.begin_closing(connection, Some(CloseReason::Blocked), now_ns);
                    }
                    Ok(_) => {}
                    Err(fault) => self.answer_malformed(connection, user, fault, now_ns),
                }
            }
            SessionEvent::Taken => {}
            SessionEvent::Logout => return Some(Served::Close(CloseReason::Logout)),
        }
        matches!(connection.stage, Stage::Closing { .. }).then_some(Served::Again)
    }

    /// Reads once, and returns the state of the connection where it must stop.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
        work: &mut usize,
    ) -> Option<Served> {
        let count = match connection.read(&mut self.network, &mut self.buffer) {
            ReadOutcome::Bytes(count) => count,
            ReadOutcome::Nothing => return Some(Served::Idle),
            ReadOutcome::Ended => return Some(Served::Close(CloseReason::Gone)),
        };
        *work += 1;
        if matches!(connection.stage, Stage::Live(_)) {
            self.hot.heard(connection.id, now_ns);
        }
        self.counters.bytes_in.add(count as u64);
        let violation = connection.session.receive(&self.buffer[..count], now_ns).err()?;
        self.break_off(connection, &violation, now_ns);
        Some(Served::Again)
    }

    /// Submits the commands of one message, if its session may send it; the ring has slots for them. A command that
    /// takes more than the step of its message adds the extra steps to `work`.
    pub(super) fn submit(
        &mut self,
        user: usize,
        message: S::Message<'_>,
        now_ns: u64,
        work: &mut usize,
    ) -> Result<Verdict, String> {
        self.counters.messages.add(1);
        let session_id = self.replies.session(user).expect("who is logged in has a session");
        let received = Timestamp(now_ns);
        let Self { memories, replies, commands, .. } = self;
        commands.clear();
        let known = Known { reports: replies.reports(user), tokens: replies.tokens(user) };
        S::commands(message, &mut memories[user], known, session_id, received, commands)?;
        if commands.is_empty() {
            self.counters.duplicates.add(1);
            return Ok(Verdict::Duplicate);
        }
        // The gate decides on the command that may have an effect; the commands that accompany it follow.
        let is_command = |it: &Command| !matches!(it, Command::Note(_) | Command::QueryAccount(_));
        let main = commands.iter().position(is_command).unwrap_or(0);
        let checked = self.gates[user].check(&commands[main], now_ns);
        let verdict = self.injectors[user].verdict(checked, &commands[main]);
        self.counters.injected_rejects.add(u64::from(verdict != checked));
        let Some(command) = verdict.submits(commands[main], &self.counters.gate()) else {
            return Ok(verdict);
        };
        commands[main] = command;
        *work += steps(&command, self.contention.is_shared(now_ns)) - 1;
        for command in commands.drain(..) {
            let submission = Submission { received, command };
            self.submissions.try_publish(submission).expect("there was a free slot");
            self.free -= 1;
            self.counters.submitted.add(1);
        }
        Ok(verdict)
    }

    pub(super) fn blocked_text(&self, user: usize, now_ns: u64) -> String {
        let seconds = self.gates[user].blocked_s(now_ns);
        format!("blocked for {seconds} s: too many messages without effect")
    }

    pub(super) fn answer_malformed(
        &mut self,
        connection: &mut Connection<S>,
        user: usize,
        fault: String,
        now_ns: u64,
    ) {
        self.counters.malformed.add(1);
        connection.session.send_text(&format!("message ignored: {fault}"), now_ns);
        self.notify(OperatorEvent::Malformed {
            username: self.users[user].username(),
            address: connection.address,
            fault,
        });
        connection.malformed += 1;
        if connection.malformed > self.limits.malformed_max {
            connection.session.send_text("too many malformed messages", now_ns);
            self.begin_closing(connection, Some(CloseReason::TooManyMalformed), now_ns);
        }
    }

    /// Sends the unsent replies of the connection, as far as its socket takes them.
    pub(super) fn give_replies(
        &mut self,
        connection: &mut Connection<S>,
        now_ns: u64,
        work: &mut usize,
    ) -> Served {
        let mut filled = 0;
        // Replies below this number may be sent.
        let mut end = 0;
        if let Stage::Live(user) = connection.stage {
            let named = (user, self.users[user].username());
            end = self.injectors[user].released(self.replies.store().next(user), now_ns);
            if connection.next_reply < end && self.injectors[user].takes_gap() {
                connection.next_reply += 1;
                self.counters.injected_gaps.add(1);
            }
            let wants_again = connection.session.resend_range().is_some();
            let room = if wants_again { self.resend_turns.room(user) } else { 0 };
            // A connection that has to wait for its turn is not idle.
            *work += usize::from(wants_again && room == 0);
            let (store, past) = (self.replies.store(), self.past.as_mut());
            let mut again = room;
            let outcome = connection.fill(store, past, named, &mut again, end, now_ns);
            self.resend_turns.used(room - again);
            if wants_again && connection.session.resend_range().is_none() {
                self.resend_turns.leave(user);
            }
            match outcome {
                Ok(count) => filled = count,
                Err(Missing::Dropped(first)) => {
                    let text = format!("replies before {first} are no longer kept");
                    connection.session.send_text(&text, now_ns);
                    self.begin_closing(connection, Some(CloseReason::FellBehind), now_ns);
                }
                Err(Missing::Future(_)) => unreachable!("it asks only below the next number"),
            }
        }
        self.counters.replies_sent.add(filled);
        let Ok(written) = connection.write(&mut self.network, now_ns) else {
            return Served::Close(CloseReason::Gone);
        };
        self.counters.bytes_out.add(written as u64);
        *work += filled as usize + usize::from(written > 0);
        if !connection.session.outgoing().is_empty() {
            // The socket is full: `Writable` brings the connection back.
            return Served::Idle;
        }
        match &mut connection.stage {
            Stage::Live(_)
                if !connection.awaits_past
                    && (connection.next_reply < end
                        || connection.session.resend_range().is_some()) =>
            {
                Served::Again
            }
            Stage::Live(user) if connection.session.follow(self.replies.reports(*user)) => {
                Served::Again
            }
            // All replies are sent: the reason to end comes next.
            Stage::Live(_) | Stage::Pending if connection.ends.is_some() => Served::Again,
            Stage::Closing { finished, .. } if !*finished => {
                *finished = true;
                self.network.finish(connection.id);
                Served::Again
            }
            _ => Served::Idle,
        }
    }
}
