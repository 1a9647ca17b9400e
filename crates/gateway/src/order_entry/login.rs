//! The decision about a login, and its answer.
//!
//! Invariant: a user has one connection at most, and an unknown name is answered like a wrong password.

use std::net::SocketAddr;

use super::{
    ClientSession, FirstReply, Login, OrderEntry,
    connection::{Connection, Stage},
};
use crate::{
    LoginFault, OperatorEvent, StreamNetwork,
    credentials::{authenticate, position},
};

impl<N: StreamNetwork, S: ClientSession> OrderEntry<N, S> {
    /// Decides a login: the user and the number of the first reply to send.
    pub(super) fn log_in(
        &mut self,
        address: SocketAddr,
        request: &Login,
        now_ns: u64,
    ) -> Result<(usize, u64), LoginFault> {
        let (ip, asked) = (address.ip(), position(&self.users, &request.username));
        if let Some(user) = asked.filter(|user| self.failed_logins.pauses(ip, *user, now_ns)) {
            return Err(LoginFault::Paused(self.users[user].username()));
        }
        let Some(user) = authenticate(&self.users, &request.username, &request.password) else {
            // A name that nobody has is not remembered: so nobody's memory is pushed out by it.
            if let Some(user) = asked {
                self.failed_logins.record(ip, user, now_ns);
                self.counters.failed_logins_kept.set(self.failed_logins.kept() as u64);
            }
            return Err(LoginFault::Credentials);
        };
        let username = self.users[user].username();
        if !request.is_this_session {
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
        let first = match request.first_reply {
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
