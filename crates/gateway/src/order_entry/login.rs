//! The decision about a login, and its answer.
//!
//! Invariant: a user has at most one connection, and an unknown name gets the same answer as a wrong password.

use super::{
    ClientSession, FirstReply, Login, OrderEntry,
    connection::{Connection, Stage},
};
use crate::{
    LoginFault, OperatorEvent, StreamNetwork,
    credentials::position,
    logins::{Decided, Decision},
};

/// The most logins answered in one turn after their check.
const ANSWERS_PER_TURN: usize = 16;

/// The terms of a login beside its name and password.
#[derive(Clone, Copy)]
pub(super) struct LoginTerms {
    is_this_session: bool,
    first_reply: FirstReply,
}

impl<N: StreamNetwork, S: ClientSession> OrderEntry<N, S> {
    /// Answers a login, or first has its password checked.
    pub(super) fn log_in(&mut self, connection: &mut Connection<S>, request: &Login, now_ns: u64) {
        let terms = LoginTerms {
            is_this_session: request.is_this_session,
            first_reply: request.first_reply,
        };
        let from = (connection.id, connection.address.ip());
        let named = (&request.username, &request.password);
        match self.logins.begin(&self.users, from, named, terms, now_ns) {
            Decision::Known(terms, outcome) => {
                let login = outcome.and_then(|user| self.admit(user, terms, now_ns));
                self.answer_login(connection, login, now_ns);
            }
            Decision::Awaited => {
                connection.awaits_login = true;
                self.strangers.set_asks(connection.id, true);
            }
        }
        self.count_logins();
    }

    /// Answers logins whose passwords were checked, and begins the next check.
    pub(super) fn answer_logins(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        while work < ANSWERS_PER_TURN
            && let Some(Decided { connection: id, login, outcome }) =
                self.logins.next(&self.users, now_ns)
        {
            work += 1;
            let index = id.index as usize;
            let mut connection =
                self.connections[index].take().expect("who has left is not told of its login");
            assert!(connection.id == id && connection.awaits_login, "{id} waits for its login");
            connection.awaits_login = false;
            self.strangers.set_asks(id, false);
            let login = outcome.and_then(|user| self.admit(user, login, now_ns));
            self.answer_login(&mut connection, login, now_ns);
            self.connections[index] = Some(connection);
            self.enqueue(id.index);
        }
        self.count_logins();
        work
    }

    pub(super) fn count_logins(&self) {
        self.counters.failed_logins_kept.set(self.logins.failed_kept() as u64);
        self.counters.logins_waiting.set(self.logins.waiting() as u64);
        self.counters.password_checks.set(self.logins.checks());
    }

    /// Admits a user whose password was right, and returns the number of the first reply to send.
    fn admit(
        &self,
        user: usize,
        terms: LoginTerms,
        now_ns: u64,
    ) -> Result<(usize, u64), LoginFault> {
        let username = self.users[user].username();
        if !terms.is_this_session {
            return Err(LoginFault::NoSuchSession);
        }
        let spoken = self.replies.dialect(user, self.gates[user].has_used_a_number());
        if let Some(spoken) = spoken.filter(|spoken| *spoken != S::DIALECT) {
            return Err(LoginFault::OtherDialect(username, spoken));
        }
        if self.replies.session(user).is_none() {
            return Err(LoginFault::NotYetAdded(username));
        }
        if self.gates[user].blocked_s(now_ns) > 0 {
            return Err(LoginFault::Blocked(username));
        }
        if self.live[user].is_some() {
            return Err(LoginFault::AlreadyConnected(username));
        }
        let store = self.replies.store();
        let next = store.next(user);
        let first = match terms.first_reply {
            FirstReply::Number(number) => number,
            FirstReply::Newest => (next - 1).max(1),
            FirstReply::Next => next,
        };
        if first > next {
            return Err(LoginFault::NumberInFuture(username, next));
        }
        if first < store.first(user) {
            return Err(LoginFault::RepliesDropped(username, store.first(user)));
        }
        Ok((user, first))
    }

    pub(super) fn answer_login(
        &mut self,
        connection: &mut Connection<S>,
        login: Result<(usize, u64), LoginFault>,
        now_ns: u64,
    ) {
        let address = connection.address;
        match login {
            Ok((user, next_reply)) => {
                let reports = self.replies.reports(user);
                let memory = &mut self.memories[user];
                connection.session.accept(next_reply, memory, reports, now_ns);
                connection.stage = Stage::Live(user);
                connection.next_reply = next_reply;
                self.live[user] = Some(connection.id);
                self.strangers.remove(connection.id);
                self.pending -= 1;
                self.counters.logins.add(1);
                let username = self.users[user].username();
                self.notify(OperatorEvent::LoggedIn { username, address, next_reply });
            }
            Err(reason) => {
                let text = match &reason {
                    LoginFault::RepliesDropped(_, first) => {
                        Some(format!("replies before {first} are no longer kept"))
                    }
                    LoginFault::NumberInFuture(_, next) => {
                        Some(format!("the next reply is {next}"))
                    }
                    LoginFault::OtherDialect(_, dialect) => {
                        Some(format!("the session speaks {dialect} since its first request"))
                    }
                    LoginFault::Blocked(username) => {
                        let user = position(&self.users, username).expect("it is a user");
                        Some(self.blocked_text(user, now_ns))
                    }
                    _ => None,
                };
                if let Some(text) = text {
                    connection.session.send_text(&text, now_ns);
                }
                connection.session.reject(&reason, now_ns);
                self.counters.logins_rejected.add(1);
                self.notify(OperatorEvent::LoginRejected { address, reason });
                self.begin_closing(connection, None, now_ns);
            }
        }
    }
}
