//! Users that a port takes up while it runs: announced by the thread that reads the configuration again.
//!
//! Invariant: a user is one only from the place in the log on at which its session was added. No lock is taken for an
//! order: a port looks here when a session is added, and then only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use market::Text;

use crate::Credentials;

/// The users that were announced to one port and are not its users yet.
#[derive(Clone, Debug, Default)]
pub struct Newcomers(Arc<Mutex<Vec<Credentials>>>);

impl Newcomers {
    /// Lets a user in as soon as the log has its session. A second announcement replaces the first.
    pub fn announce(&self, user: Credentials) {
        let mut users = self.lock();
        users.retain(|it| it.username() != user.username());
        users.push(user);
    }

    /// The user whose session was added, if it was announced.
    pub(crate) fn take(&self, username: Text<6>) -> Option<Credentials> {
        let mut users = self.lock();
        let at = users.iter().position(|it| it.username() == username)?;
        Some(users.remove(at))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Credentials>> {
        // A list is whole after each of these methods.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
