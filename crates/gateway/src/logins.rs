//! The names and passwords of logins at one port: those that are right, those that wait for the check of a hash, and
//! those that failed too often.
//!
//! Invariant: no call blocks. A login that waits has a connection, so their number is bounded by the places of
//! connections; the next to be checked is one of the user and origin with the fewest checks, so no flood for a name, or
//! from an origin, keeps out a login for another name or from elsewhere. A wrong password counts also if its connection
//! has gone.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

use market::Text;

use crate::{
    ConnectionId, Credentials, LoginFault,
    credentials::{Secret, given_password, is_equal_in_constant_time, position},
    network::origin,
    order_entry::admission::FailedLogins,
    password_checker::{PasswordAsker, PasswordQuestion},
};

/// The logins of a port; `L` is the content of a login beside its name and password.
pub(crate) struct Logins<L> {
    failed: FailedLogins,
    asker: Option<PasswordAsker>,
    /// A print of the verified password of each user with a hash, under keys of this start.
    verified: Vec<Option<Print>>,
    keys: [RandomState; 2],
    /// Oldest first.
    waiting: Vec<Waiting<L>>,
    /// The login being checked.
    checked: Option<Checked<L>>,
    /// Checks for each user, `None` for names of no user, and for each origin, as long as one of its logins waits.
    of_user: BTreeMap<Option<usize>, u64>,
    of_origin: BTreeMap<IpAddr, u64>,
    checks: u64,
}

/// 128 bits that tell a password from any other, for the holder of the keys.
type Print = [u64; 2];

/// A login that waits for its check.
struct Waiting<L> {
    asked: Asked,
    login: L,
}

/// A login whose check goes on; without its connection, where that has ended meanwhile.
struct Checked<L> {
    asked: Asked,
    login: Option<L>,
}

#[derive(Clone, Copy)]
struct Asked {
    connection: ConnectionId,
    origin: IpAddr,
    /// `None` for a name of no user.
    user: Option<usize>,
    password: [u8; 10],
}

/// The decision on a login.
pub(crate) enum Decision<L> {
    /// Its user, or the reason for its refusal.
    Known(L, Result<usize, LoginFault>),
    /// A hash has to be checked: [`Logins::next`] gives the login again.
    Awaited,
}

/// A login that was checked.
pub(crate) struct Decided<L> {
    pub(crate) connection: ConnectionId,
    pub(crate) login: L,
    pub(crate) outcome: Result<usize, LoginFault>,
}

impl<L> Logins<L> {
    /// Pauses a user at an origin after `limit` wrong passwords within a time: see [`FailedLogins`].
    pub(crate) fn new(limit: usize, window_ns: u64, pause_ns: u64) -> Self {
        Self {
            failed: FailedLogins::new(limit, window_ns, pause_ns),
            asker: None,
            verified: Vec::new(),
            keys: [RandomState::new(), RandomState::new()],
            waiting: Vec::new(),
            checked: None,
            of_user: BTreeMap::new(),
            of_origin: BTreeMap::new(),
            checks: 0,
        }
    }

    /// Has hashes checked by the other end.
    pub(crate) fn check_by(&mut self, asker: PasswordAsker) {
        self.asker = Some(asker);
    }

    /// Pairs of address and user remembered because a password was wrong.
    pub(crate) fn failed_kept(&self) -> usize {
        self.failed.kept()
    }

    /// Logins that wait for a check, the one that is being checked included.
    pub(crate) fn waiting(&self) -> usize {
        let is_checked = self.checked.as_ref().is_some_and(|checked| checked.login.is_some());
        self.waiting.len() + usize::from(is_checked)
    }

    /// True if [`next`](Self::next) has work to do.
    pub(crate) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.checked.is_some()
    }

    /// Checks of hashes that were begun.
    pub(crate) const fn checks(&self) -> u64 {
        self.checks
    }

    /// Decides a login, or keeps it until its hash was checked.
    ///
    /// Wrong names and passwords take equally long for users with a hash and for names of no user, and also for users
    /// with a plain password where no user has a hash.
    pub(crate) fn begin(
        &mut self,
        users: &[Credentials],
        (connection, address): (ConnectionId, IpAddr),
        (username, password): (&Text<6>, &Text<10>),
        login: L,
        now_ns: u64,
    ) -> Decision<L> {
        let user = position(users, username);
        let asked =
            Asked { connection, origin: origin(address), user, password: given_password(password) };
        if let Some(outcome) = self.known(users, &asked, now_ns) {
            return Decision::Known(login, outcome);
        }
        self.waiting.push(Waiting { asked, login });
        Decision::Awaited
    }

    /// The outcome of a login, where it is known without a check.
    fn known(
        &mut self,
        users: &[Credentials],
        asked: &Asked,
        now_ns: u64,
    ) -> Option<Result<usize, LoginFault>> {
        /// No password has these bytes.
        const NO_PASSWORD: [u8; 10] = [0xff; 10];
        if let Some(user) =
            asked.user.filter(|user| self.failed.pauses(asked.origin, *user, now_ns))
        {
            return Some(Err(LoginFault::Paused(users[user].username())));
        }
        let is_right = match asked.user.map(|user| (user, users[user].secret())) {
            Some((_, Secret::Plain(expected))) => {
                is_equal_in_constant_time(expected, &asked.password)
            }
            Some((user, Secret::Hash(_))) => {
                // A wrong one is checked in any case: so its answer does not say that the user has logged in before.
                let [a, b] = self.verified.get(user).copied().flatten()?;
                let [c, d] = self.print(&asked.password);
                if (a ^ c) | (b ^ d) != 0 {
                    return None;
                }
                true
            }
            None if users.iter().any(|user| user.hash().is_some()) => return None,
            None => is_equal_in_constant_time(&NO_PASSWORD, &asked.password),
        };
        Some(self.decide(asked, is_right, now_ns))
    }

    fn print(&self, password: &[u8; 10]) -> Print {
        [self.keys[0].hash_one(password), self.keys[1].hash_one(password)]
    }

    fn decide(&mut self, asked: &Asked, is_right: bool, now_ns: u64) -> Result<usize, LoginFault> {
        match (asked.user, is_right) {
            (Some(user), true) => Ok(user),
            (Some(user), false) => {
                self.failed.record(asked.origin, user, now_ns);
                Err(LoginFault::Credentials)
            }
            // The name of no user is not remembered, so it pushes out no record of a user.
            (None, _) => Err(LoginFault::Credentials),
        }
    }

    /// The next login that is decided, if there is one now; begins the next check.
    pub(crate) fn next(&mut self, users: &[Credentials], now_ns: u64) -> Option<Decided<L>> {
        loop {
            if let Some(checked) = self.checked.take() {
                let asker = self.asker.as_mut().expect("a check was asked for");
                let Some(is_right) = asker.answer() else {
                    self.checked = Some(checked);
                    return None;
                };
                let Checked { asked, login } = checked;
                if let (Some(user), true) = (asked.user, is_right) {
                    if self.verified.len() <= user {
                        self.verified.resize(user + 1, None);
                    }
                    self.verified[user] = Some(self.print(&asked.password));
                }
                let outcome = self.decide(&asked, is_right, now_ns);
                if let Some(login) = login {
                    return Some(Decided { connection: asked.connection, login, outcome });
                }
            }
            let at = self.next_waiting()?;
            let Waiting { asked, login } = self.waiting.remove(at);
            // The user may have been paused, or its password verified, since the login began to wait.
            if let Some(outcome) = self.known(users, &asked, now_ns) {
                return Some(Decided { connection: asked.connection, login, outcome });
            }
            let named = asked.user.and_then(|user| users[user].hash());
            let hash = named.or_else(|| users.iter().find_map(Credentials::hash));
            let hash = *hash.expect("a login waits for the check of a hash");
            let asker = self.asker.as_mut().expect("where a user has a hash, something checks it");
            asker.ask(PasswordQuestion { hash, password: asked.password });
            self.checks += 1;
            *self.of_user.entry(asked.user).or_default() += 1;
            *self.of_origin.entry(asked.origin).or_default() += 1;
            self.checked = Some(Checked { asked, login: Some(login) });
        }
    }

    /// The login to be checked next: the one whose user and origin had the fewest checks, by the larger of both numbers, then
    /// by the smaller, then the oldest.
    fn next_waiting(&mut self) -> Option<usize> {
        let Self { waiting, of_user, of_origin, .. } = self;
        // A user or origin without a waiting login begins anew.
        of_user.retain(|user, _| waiting.iter().any(|it| it.asked.user == *user));
        of_origin.retain(|origin, _| waiting.iter().any(|it| it.asked.origin == *origin));
        let had = |it: &Waiting<L>| {
            let of_user = of_user.get(&it.asked.user).copied().unwrap_or(0);
            let of_origin = of_origin.get(&it.asked.origin).copied().unwrap_or(0);
            (of_user.max(of_origin), of_user.min(of_origin))
        };
        (0..waiting.len()).min_by_key(|at| had(&waiting[*at]))
    }

    /// Forgets the login of a connection that has ended or was answered in another way.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.waiting.retain(|it| it.asked.connection != connection);
        if let Some(checked) = &mut self.checked
            && checked.asked.connection == connection
        {
            checked.login = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::Agent;

    use super::*;
    use crate::password_checker::PasswordChecker;

    const SECOND: u64 = 1_000_000_000;
    /// A hash of `SECRET`, with the least memory that argon2 allows, made by the argon2 of its authors.
    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$ODsLdKIDu5zi0rnHxY0qhw";

    struct Port {
        logins: Logins<&'static str>,
        checker: PasswordChecker,
        users: Vec<Credentials>,
        opened: u32,
    }

    impl Port {
        /// USER01 and USER02 have hashes, USER03 has a plain password.
        fn new() -> Self {
            let mut checker = PasswordChecker::default();
            let mut logins = Logins::new(5, 60 * SECOND, 60 * SECOND);
            logins.check_by(checker.connect());
            let user = |name, password| Credentials::new(name, password).unwrap();
            let users = vec![user("USER01", HASH), user("USER02", HASH), user("USER03", "PLAIN")];
            Self { logins, checker, users, opened: 0 }
        }

        fn begin(
            &mut self,
            from: &str,
            (username, password): (&str, &str),
            login: &'static str,
        ) -> Option<Result<usize, LoginFault>> {
            self.opened += 1;
            let id = ConnectionId { index: self.opened, generation: 0 };
            let (username, password) = (Text::new(username).unwrap(), Text::new(password).unwrap());
            let named = (&username, &password);
            match self.logins.begin(&self.users, (id, from.parse().unwrap()), named, login, 0) {
                Decision::Known(of, outcome) => {
                    assert_eq!(of, login);
                    Some(outcome)
                }
                Decision::Awaited => None,
            }
        }

        fn next(&mut self) -> Option<(&'static str, Result<usize, LoginFault>)> {
            let decided = self.logins.next(&self.users, 0)?;
            Some((decided.login, decided.outcome))
        }

        /// Lets the checker work until nothing waits, and returns the decisions, in order.
        fn all(&mut self) -> Vec<(&'static str, Result<usize, LoginFault>)> {
            let mut decided = Vec::new();
            loop {
                decided.extend(std::iter::from_fn(|| self.next()));
                if self.checker.do_work(0).unwrap() == 0 {
                    return decided;
                }
            }
        }
    }

    const WRONG: Result<usize, LoginFault> = Err(LoginFault::Credentials);

    /// A right password opens its session, a wrong one does not, and case and padding do not matter; a plain password
    /// is compared at once, a hash is not, and neither is the name of no user.
    #[test]
    fn right_and_wrong_passwords() {
        let mut port = Port::new();
        assert_eq!(port.begin("10.0.0.1", ("user03", "Plain   "), "plain"), Some(Ok(2)));
        assert_eq!(port.begin("10.0.0.1", ("USER03", "PLAIN1"), "plain"), Some(WRONG));
        assert_eq!(port.begin("10.0.0.1", ("user01", "   Secret"), "right"), None);
        assert_eq!(port.begin("10.0.0.2", ("USER02", "SECRET1"), "wrong"), None);
        assert_eq!(port.begin("10.0.0.3", ("NOBODY", "SECRET"), "nobody"), None);
        assert_eq!(port.begin("10.0.0.4", ("USER02", ""), "blank"), None);
        assert!(port.next().is_none(), "nothing was checked yet");
        let mut decided = port.all();
        decided.sort_by_key(|(login, _)| *login);
        assert_eq!(
            decided,
            [("blank", WRONG), ("nobody", WRONG), ("right", Ok(0)), ("wrong", WRONG)]
        );
        assert_eq!((port.logins.checks(), port.logins.waiting()), (4, 0));
    }

    /// Where no user has a hash no login waits, not even one with the name of no user.
    #[test]
    fn plain_passwords_need_no_check() {
        let mut port = Port::new();
        port.users.remove(0);
        port.users.remove(0);
        assert_eq!(port.begin("10.0.0.1", ("NOBODY", "PLAIN"), "nobody"), Some(WRONG));
        assert_eq!(port.begin("10.0.0.1", ("USER03", "PLAIN"), "right"), Some(Ok(0)));
    }

    /// A password that was found right is known from then on, also to logins that wait already; a wrong one is checked each
    /// time.
    #[test]
    fn a_verified_password_is_known() {
        let mut port = Port::new();
        for login in ["first", "second"] {
            assert_eq!(port.begin("10.0.0.1", ("USER01", "SECRET"), login), None);
        }
        assert_eq!(port.all(), [("first", Ok(0)), ("second", Ok(0))]);
        assert_eq!(port.logins.checks(), 1);
        assert_eq!(port.begin("10.0.0.1", ("USER01", "secret"), "again"), Some(Ok(0)));
        assert_eq!(port.begin("10.0.0.1", ("USER02", "SECRET"), "another user"), None);
        assert_eq!(port.begin("10.0.0.1", ("USER01", "SECRET1"), "wrong"), None);
        assert_eq!(port.all().len(), 2);
        assert_eq!(port.logins.checks(), 3);
    }

    /// A flood of wrong passwords for a user, from one origin, has five checks; then all further ones from there are
    /// refused at once, and the user gets in from elsewhere after one check more, whenever it comes.
    #[test]
    fn a_flood_from_an_origin_has_few_checks() {
        let mut port = Port::new();
        for _ in 0..50 {
            assert_eq!(port.begin("10.9.9.9", ("USER01", "GUESS"), "flood"), None);
        }
        assert!(port.next().is_none(), "the first is being checked");
        assert_eq!(port.begin("10.0.0.1", ("USER01", "SECRET"), "honest"), None);
        let decided = port.all();
        assert_eq!(decided.len(), 51);
        assert_eq!(decided[1], ("honest", Ok(0)), "after the one that was being checked");
        assert_eq!(port.logins.checks(), 6);
        let paused = decided.iter().filter(|(_, it)| matches!(it, Err(LoginFault::Paused(_))));
        assert_eq!(paused.count(), 45);
    }

    /// A flood for one name from many origins, or for many names from one, makes a login with another name from
    /// elsewhere wait for the check under way, and no longer.
    #[test]
    fn a_flood_for_another_name_is_passed_by() {
        for number in 0..2 {
            let mut port = Port::new();
            for origin in 0..200 {
                let (from, name) = match number {
                    0 => (format!("10.9.9.{origin}"), "USER02".to_owned()),
                    _ => ("10.9.9.9".to_owned(), format!("N{origin}")),
                };
                assert_eq!(port.begin(&from, (&name, "GUESS"), "flood"), None);
                if origin == 20 {
                    // Some were checked before the honest one comes.
                    for _ in 0..5 {
                        while port.next().is_some() {}
                        assert_eq!(port.checker.do_work(0).unwrap(), 1);
                    }
                }
            }
            while port.next().is_some() {}
            assert_eq!(port.begin("10.0.0.1", ("USER01", "SECRET"), "honest"), None);
            let decided = port.all();
            let at = decided.iter().position(|(login, _)| *login == "honest").unwrap();
            assert!(at <= 1, "it was behind {at} of the flood");
            assert_eq!(decided[at].1, Ok(0));
        }
    }

    /// A client that leaves before its check costs none; one that leaves during its check gets no answer, and a wrong
    /// password counts all the same.
    #[test]
    fn who_has_left_is_not_checked() {
        let mut port = Port::new();
        for _ in 0..10 {
            assert_eq!(port.begin("10.9.9.9", ("USER01", "GUESS"), "gone"), None);
            assert!(port.next().is_none());
            port.logins.forget(ConnectionId { index: port.opened, generation: 0 });
            port.checker.do_work(0).unwrap();
            assert!(port.next().is_none(), "it has no connection");
            if matches!(
                port.begin("10.9.9.9", ("USER01", "GUESS"), "next"),
                Some(Err(LoginFault::Paused(_)))
            ) {
                break;
            }
            port.logins.forget(ConnectionId { index: port.opened, generation: 0 });
        }
        assert_eq!(port.logins.checks(), 5);
        assert_eq!(port.logins.waiting(), 0);
    }
}
