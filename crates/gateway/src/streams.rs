use std::collections::BTreeMap;

use market::{Event, Output, SessionId, Text};
use ring::{Consumer, Cursor, Flow};
use wire::ouch::{Encoder, Recipient};

use crate::{message_archive::MessageArchive, replay_store::ReplayStore};

/// The replies of one gateway's users: outputs go in, each user's numbered stream comes out.
///
/// Users are counted from 0 in the order given; the stream of an user has the same number.
/// What belongs to other gateways' sessions is read, because the encoder learns from it, and not
/// kept. Everything is a function of the outputs, so a replay numbers the replies as before.
pub(crate) struct ReplyStreams {
    encoder: Encoder,
    routes: Routes,
    store: ReplayStore,
    count: u64,
}

/// Which user an output's sessions are.
struct Routes {
    usernames: BTreeMap<Text<6>, usize>,
    sessions: Vec<Option<SessionId>>,
    /// By session id; `None` for a session of another gateway.
    users: Vec<Option<usize>>,
    /// Users with replies since they were last asked for, each once.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
}

impl ReplyStreams {
    /// # Panics
    /// Two users share a name.
    pub(crate) fn new(usernames: &[Text<6>], store_bytes_max: usize) -> Self {
        let count = usernames.len();
        let usernames: BTreeMap<_, _> =
            usernames.iter().enumerate().map(|(user, name)| (*name, user)).collect();
        assert_eq!(usernames.len(), count, "each user has its own name");
        Self {
            encoder: Encoder::new(),
            routes: Routes {
                usernames,
                sessions: vec![None; count],
                users: Vec::new(),
                touched: Vec::with_capacity(count),
                is_touched: vec![false; count],
            },
            store: ReplayStore::new(count, store_bytes_max),
            count: 0,
        }
    }

    /// Takes the outputs that are durable, `limit` of them at most, and says how many there were.
    pub(crate) fn pull(
        &mut self,
        outputs: &mut Consumer<Output>,
        durable: &Cursor,
        limit: usize,
    ) -> usize {
        pull_durable(outputs, durable, limit, |output| self.take(output))
    }

    /// Takes one output.
    pub(crate) fn take(&mut self, output: &Output) {
        if let Event::SessionAdded(added) = &output.event {
            self.routes.learn(added.session_id, &added.username);
        }
        let Self { encoder, routes, store, count } = self;
        encoder.encode(output, &mut |recipient, message| match recipient {
            Recipient::One(session_id) => {
                if let Some(user) = routes.user(session_id) {
                    store.push(user, message);
                    routes.touch(user);
                    *count += 1;
                }
            }
            Recipient::All => {
                for user in 0..routes.sessions.len() {
                    if routes.sessions[user].is_some() {
                        store.push(user, message);
                        routes.touch(user);
                        *count += 1;
                    }
                }
            }
        });
    }

    /// Takes up what was said before, into streams to which nothing was said yet.
    pub(crate) fn restore(&mut self, archive: &MessageArchive) {
        archive.instruments().iter().for_each(|instrument| self.encoder.learn(instrument));
        for (session_id, username) in archive.sessions() {
            self.routes.learn(session_id, username);
            if let Some(user) = self.routes.user(session_id) {
                archive.give_replies(session_id, &mut self.store, user);
                self.count += self.store.next(user) - 1;
            }
        }
    }

    /// An user with new replies that was not asked for since; each is told once.
    pub(crate) fn next_touched(&mut self) -> Option<usize> {
        let user = self.routes.touched.pop()?;
        self.routes.is_touched[user] = false;
        Some(user)
    }

    /// The session of an user; `None` until it has been added to the exchange.
    pub(crate) fn session(&self, user: usize) -> Option<SessionId> {
        self.routes.sessions[user]
    }

    pub(crate) fn store(&self) -> &ReplayStore {
        &self.store
    }

    /// ReplyStreams stored so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

impl Routes {
    fn learn(&mut self, session_id: SessionId, username: &Text<6>) {
        let mut name = *username.as_bytes();
        name.make_ascii_uppercase();
        let name = Text::from_bytes(name).expect("upper case of printable ASCII is printable");
        let index = usize::from(session_id.0);
        if self.users.len() <= index {
            self.users.resize(index + 1, None);
        }
        let user = self.usernames.get(&name).copied();
        self.users[index] = user;
        if let Some(user) = user {
            self.sessions[user] = Some(session_id);
        }
    }

    fn user(&self, session_id: SessionId) -> Option<usize> {
        self.users.get(usize::from(session_id.0)).copied().flatten()
    }

    fn touch(&mut self, user: usize) {
        if !self.is_touched[user] {
            self.is_touched[user] = true;
            self.touched.push(user);
        }
    }
}

/// Takes outputs up to the durable cursor, at most `limit`; those beyond stay in the ring.
pub(crate) fn pull_durable(
    outputs: &mut Consumer<Output>,
    durable: &Cursor,
    limit: usize,
    mut take: impl FnMut(&Output),
) -> usize {
    let mut durable_to = durable.get();
    outputs.poll(limit, |output, _end_of_batch| {
        if output.cause.0 > durable_to {
            durable_to = durable.get();
            if output.cause.0 > durable_to {
                return Flow::Hold;
            }
        }
        take(output);
        Flow::Continue
    })
}
