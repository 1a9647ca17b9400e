//! Reply streams and the feed, as functions of the outputs. Gateways, snapshots and audits all take their messages from
//! here, and differ only in the store.
//!
//! Invariant: the same outputs give the same bytes under the same numbers, from 1 without gaps. An
//! event is encoded only if a stream that is kept here gets a message of it.

use std::{collections::BTreeMap, fmt};

use market::{
    Event, Instrument, OrderKey, Outcome, Output, OutputLine, SessionId, Text, VenueEvent,
};
use ring::{Consumer, Cursor, Flow};
use wire::{
    fix::{Directory, FixNote, Reports},
    itch,
    ouch::{self, Recipient},
    ouch42::{self, Tokens},
};

use crate::{message_archive::MessageArchive, replay_store::ReplayStore};

/// A store for the messages of some streams. Streams are counted from 0.
pub trait MessageStore {
    /// Adds streams, until this one exists.
    fn ensure_stream(&mut self, stream: usize);

    /// Appends a message to an existing stream.
    fn push(&mut self, stream: usize, message: &[u8]);
}

/// The protocol of the requests and replies of a session. Its first request decides, for good: the replies to an order
/// are in the protocol of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OUCH 5.0.
    Ouch,
    /// OUCH 4.2.
    Ouch42,
    /// FIX 4.2 or 4.4.
    Fix,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ouch => "OUCH 5.0",
            Self::Ouch42 => "OUCH 4.2",
            Self::Fix => "FIX",
        })
    }
}

/// The replies to all sessions, or to those of some users, each session's a stream.
#[derive(Clone, Debug)]
pub struct ReplyStreams<S> {
    encoder: ouch::Encoder,
    routes: Routes,
    /// By stream: the state of a FIX session, once it has logged on. All other sessions get OUCH.
    reports: Vec<Option<Box<Reports>>>,
    /// By stream: the tokens of a session that speaks OUCH 4.2, once it has sent a message.
    tokens: Vec<Option<Box<Tokens>>>,
    /// The instruments, for the requests of FIX sessions.
    directory: Directory,
    /// By session id, less 1: the streams that get a copy of its reports. Empty without drop copies.
    copiers: Vec<Vec<usize>>,
    store: S,
    count: u64,
}

/// The streams of sessions.
#[derive(Clone, Debug, Default)]
struct Routes {
    /// The stream of each user whose replies are kept; `None` if the replies to all sessions are kept, in the order in
    /// which these are added.
    users: Option<BTreeMap<Text<6>, usize>>,
    /// By session id, less 1: its username, and its stream if that is kept.
    added: Vec<(Text<6>, Option<usize>)>,
    /// By stream: its session, once it was added.
    sessions: Vec<Option<SessionId>>,
    /// Streams with replies since the last call of `next_touched`, each once.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
}

impl<S: MessageStore> ReplyStreams<S> {
    /// The replies to all sessions: the stream of a session is its id, less 1.
    pub fn of_all(store: S) -> Self {
        Self::new(Routes::default(), store)
    }

    fn new(routes: Routes, store: S) -> Self {
        Self {
            encoder: ouch::Encoder::new(),
            routes,
            reports: Vec::new(),
            tokens: Vec::new(),
            directory: Directory::default(),
            copiers: Vec::new(),
            store,
            count: 0,
        }
    }

    /// The replies to the sessions of these users: the stream of a session is the index of its
    /// user here. Names are in upper case.
    ///
    /// # Panics
    /// Two users share a name.
    pub(crate) fn of_users(usernames: &[Text<6>], mut store: S) -> Self {
        let count = usernames.len();
        let users: BTreeMap<_, _> =
            usernames.iter().enumerate().map(|(stream, name)| (*name, stream)).collect();
        assert_eq!(users.len(), count, "each user has a name of their own");
        if let Some(last) = count.checked_sub(1) {
            store.ensure_stream(last);
        }
        let routes = Routes {
            users: Some(users),
            added: Vec::new(),
            sessions: vec![None; count],
            touched: Vec::with_capacity(count),
            is_touched: vec![false; count],
        };
        Self::new(routes, store)
    }

    /// Keeps the replies to one more user too, whose session is added later. Its stream is the next.
    ///
    /// # Panics
    /// The replies to all sessions are kept, or the name is known.
    pub(crate) fn add_user(&mut self, username: Text<6>) {
        let Routes { users, sessions, is_touched, .. } = &mut self.routes;
        let users = users.as_mut().expect("it keeps the streams of users");
        let stream = sessions.len();
        assert!(users.insert(username, stream).is_none(), "each user has a name of their own");
        sessions.push(None);
        is_touched.push(false);
        self.store.ensure_stream(stream);
    }

    /// Takes the next output.
    ///
    /// # Panics
    /// A session is added out of the order of ids.
    pub fn take(&mut self, output: &Output) {
        if let Event::SessionAdded(added) = &output.event {
            self.add_session(added.session_id, added.username);
        }
        self.directory.take(&output.event);
        if !self.routes.has_stream_for(&output.event) {
            return self.copy(output);
        }
        if let Event::Noted(note) = &output.event
            && let Some(logon) = FixNote::read_logon(note.bytes())
            && let Some(stream) = self.routes.stream(note.session_id)
        {
            self.reports_mut(stream).get_or_insert_with(|| Box::new(Reports::new(&logon)));
        }
        if let Event::Noted(note) = &output.event
            && note.bytes() == ouch42::NOTE
            && let Some(stream) = self.routes.stream(note.session_id)
        {
            self.tokens_mut(stream).get_or_insert_default();
        }
        let Self { encoder, routes, reports, tokens, directory, store, count, .. } = self;
        let is_fix = |stream: usize| reports.get(stream).is_some_and(Option::is_some);
        let mut push = |routes: &mut Routes, stream, message: &[u8]| {
            store.push(stream, message);
            routes.touch(stream);
            *count += 1;
        };
        let [one, other] = owners(&output.event);
        let takes_ouch = |session_id| routes.stream(session_id).is_some_and(|it| !is_fix(it));
        // An event without an owner is for all, or has information for the encoder.
        if one.is_none() || [one, other].into_iter().flatten().any(takes_ouch) {
            encoder.encode(output, &mut |recipient, message| match recipient {
                Recipient::One(session_id) => {
                    if let Some(stream) = routes.stream(session_id).filter(|it| !is_fix(*it)) {
                        match tokens.get_mut(stream) {
                            Some(Some(tokens)) => {
                                tokens.reply(message, &mut |reply| push(routes, stream, reply));
                            }
                            _ => push(routes, stream, message),
                        }
                    }
                }
                Recipient::All => {
                    for stream in 0..routes.sessions.len() {
                        if routes.sessions[stream].is_some() && !is_fix(stream) {
                            // A system event, which is the same in both versions of OUCH.
                            push(routes, stream, message);
                        }
                    }
                }
            });
        }
        if reports.is_empty() {
            return;
        }
        let other = other.filter(|_| other != one);
        for session_id in [one, other].into_iter().flatten() {
            let Some(stream) = routes.stream(session_id) else { continue };
            let Some(Some(reports)) = reports.get_mut(stream) else { continue };
            let is_own = |key: &OrderKey| key.session_id == session_id;
            reports.take(output, directory, is_own, &mut |message| push(routes, stream, message));
        }
        if let Event::Noted(note) = &output.event
            && FixNote::is_drop_copy(note.bytes())
        {
            self.index_copiers();
        }
        self.copy(output);
    }

    /// Gives an output to the drop copies of its sessions.
    fn copy(&mut self, output: &Output) {
        if self.copiers.is_empty() {
            return;
        }
        let Self { routes, reports, directory, copiers, store, count, .. } = self;
        let copiers_of = |session_id: Option<SessionId>| {
            let index = session_id.and_then(|it| usize::from(it.0).checked_sub(1));
            let streams = index.and_then(|index| copiers.get(index));
            streams.map_or(&[][..], Vec::as_slice)
        };
        let [one, other] = owners(&output.event).map(copiers_of);
        // A drop copy of both sides of a trade takes the trade once.
        let others = other.iter().filter(|stream| !one.contains(stream));
        for stream in one.iter().chain(others) {
            let Some(Some(reports)) = reports.get_mut(*stream) else { continue };
            reports.copy(output, directory, &mut |message| {
                store.push(*stream, message);
                routes.touch(*stream);
                *count += 1;
            });
        }
    }

    /// Indexes the streams that copy each session.
    fn index_copiers(&mut self) {
        self.copiers.clear();
        for (stream, reports) in self.reports.iter().enumerate() {
            for session_id in reports.iter().flat_map(|reports| reports.sources()) {
                let index = usize::from(session_id.0) - 1;
                if self.copiers.len() <= index {
                    self.copiers.resize(index + 1, Vec::new());
                }
                self.copiers[index].push(stream);
            }
        }
    }

    /// The dialect of a session; `None` while any may be chosen. `has_requests` is true if the session has
    /// sent a request with a number.
    #[must_use]
    pub(crate) fn dialect(&self, stream: usize, has_requests: bool) -> Option<Dialect> {
        match (self.reports(stream), self.tokens(stream)) {
            (Some(_), _) => Some(Dialect::Fix),
            (None, Some(_)) => Some(Dialect::Ouch42),
            (None, None) => has_requests.then_some(Dialect::Ouch),
        }
    }

    /// The state of a FIX session; `None` for a session that has not logged on by FIX.
    #[must_use]
    pub fn reports(&self, stream: usize) -> Option<&Reports> {
        self.reports.get(stream)?.as_deref()
    }

    /// The tokens of a session; `None` if it has sent nothing in OUCH 4.2.
    #[must_use]
    pub fn tokens(&self, stream: usize) -> Option<&Tokens> {
        self.tokens.get(stream)?.as_deref()
    }

    /// The place of the tokens of a session.
    pub(crate) fn tokens_mut(&mut self, stream: usize) -> &mut Option<Box<Tokens>> {
        if self.tokens.len() <= stream {
            self.tokens.resize(stream + 1, None);
        }
        &mut self.tokens[stream]
    }

    /// Takes a piece of the saved tokens of a session.
    ///
    /// # Errors
    /// The bytes are not such a piece, or come in another order.
    pub(crate) fn restore_tokens(
        &mut self,
        stream: usize,
        piece: &[u8],
    ) -> Result<(), market::DecodeError> {
        let place = self.tokens_mut(stream);
        let mut tokens = place.take().map(|tokens| *tokens);
        Tokens::restore(&mut tokens, piece)?;
        *place = tokens.map(Box::new);
        Ok(())
    }

    /// Takes a piece of the saved state of a FIX session.
    ///
    /// # Errors
    /// The bytes are not such a piece, or come in another order.
    pub(crate) fn restore_reports(
        &mut self,
        stream: usize,
        piece: &[u8],
    ) -> Result<(), market::DecodeError> {
        let place = self.reports_mut(stream);
        let mut reports = place.take().map(|reports| *reports);
        Reports::restore(&mut reports, piece)?;
        *place = reports.map(Box::new);
        self.index_copiers();
        Ok(())
    }

    /// The place of the state of a FIX session.
    pub(crate) fn reports_mut(&mut self, stream: usize) -> &mut Option<Box<Reports>> {
        if self.reports.len() <= stream {
            self.reports.resize(stream + 1, None);
        }
        &mut self.reports[stream]
    }

    /// Takes a session that was added before the first output.
    ///
    /// # Panics
    /// Sessions are not added in the order of their ids.
    pub(crate) fn add_session(&mut self, session_id: SessionId, username: Text<6>) {
        if let Some(stream) = self.routes.add(session_id, username) {
            self.store.ensure_stream(stream);
        }
    }

    /// Takes an instrument that was added before the first output.
    pub(crate) fn add_instrument(&mut self, instrument: &Instrument) {
        self.encoder.learn(instrument);
        self.directory.add(instrument);
    }

    /// The instruments, and the part of the day.
    pub(crate) const fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) const fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }

    /// A stream with new replies; each once, until it has new ones again.
    pub(crate) fn next_touched(&mut self) -> Option<usize> {
        let stream = self.routes.touched.pop()?;
        self.routes.is_touched[stream] = false;
        Some(stream)
    }

    /// The session of a stream; `None` until it has been added to the exchange.
    pub(crate) fn session(&self, stream: usize) -> Option<SessionId> {
        self.routes.sessions[stream]
    }

    /// The sessions added so far with their usernames, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Text<6>)> {
        (1..).map(SessionId).zip(self.routes.added.iter().map(|(username, _)| username))
    }

    /// The stream of a session; `None` if it is not kept here.
    #[must_use]
    pub fn stream(&self, session_id: SessionId) -> Option<usize> {
        self.routes.stream(session_id)
    }

    pub const fn store(&self) -> &S {
        &self.store
    }

    pub(crate) const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Replies stored so far.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

impl ReplyStreams<ReplayStore> {
    /// Takes the messages sent before a snapshot, before the first output.
    pub(crate) fn restore(&mut self, archive: &MessageArchive) {
        archive.instruments().iter().for_each(|instrument| self.add_instrument(instrument));
        self.directory.clone_from(archive.directory());
        for (session_id, username) in archive.sessions() {
            self.add_session(session_id, *username);
            if let Some(stream) = self.stream(session_id) {
                archive.copy_replies(session_id, &mut self.store, stream);
                if let Some(reports) = archive.reports(session_id) {
                    *self.reports_mut(stream) = Some(Box::new(reports.clone()));
                }
                if let Some(tokens) = archive.tokens(session_id) {
                    *self.tokens_mut(stream) = Some(Box::new(tokens.clone()));
                }
                self.count += self.store.next(stream) - 1;
            }
        }
        self.index_copiers();
    }
}

impl Routes {
    /// Adds a session, and returns its stream if that is kept.
    fn add(&mut self, session_id: SessionId, username: Text<6>) -> Option<usize> {
        assert_eq!(
            usize::from(session_id.0),
            self.added.len() + 1,
            "sessions are numbered in the order of addition"
        );
        let stream = match &self.users {
            None => {
                self.sessions.push(None);
                self.is_touched.push(false);
                Some(self.added.len())
            }
            Some(users) => users.get(&upper_case(username)).copied(),
        };
        if let Some(stream) = stream {
            self.sessions[stream] = Some(session_id);
        }
        self.added.push((username, stream));
        stream
    }

    fn stream(&self, session_id: SessionId) -> Option<usize> {
        let index = usize::from(session_id.0).checked_sub(1)?;
        self.added.get(index).and_then(|(_, stream)| *stream)
    }

    /// False if no stream kept here gets a message of this event.
    fn has_stream_for(&self, event: &Event) -> bool {
        let has = |key: &OrderKey| self.stream(key.session_id).is_some();
        match event {
            Event::Traded(traded) => has(&traded.maker.key) || has(&traded.taker.key),
            Event::Venue(VenueEvent::TradeBusted(busted)) => {
                has(&busted.trade.maker.key) || has(&busted.trade.taker.key)
            }
            Event::Venue(VenueEvent::TradeCorrected(corrected)) => {
                has(&corrected.trade.maker.key) || has(&corrected.trade.taker.key)
            }
            event => event.session_id().is_none_or(|session_id| self.stream(session_id).is_some()),
        }
    }

    fn touch(&mut self, stream: usize) {
        if !self.is_touched[stream] {
            self.is_touched[stream] = true;
            self.touched.push(stream);
        }
    }
}

/// The sessions that an event is about: two for a trade.
fn owners(event: &Event) -> [Option<SessionId>; 2] {
    let of = |one: &OrderKey, other: &OrderKey| [Some(one.session_id), Some(other.session_id)];
    match event {
        Event::Traded(traded) => of(&traded.maker.key, &traded.taker.key),
        Event::Venue(VenueEvent::TradeBusted(it)) => of(&it.trade.maker.key, &it.trade.taker.key),
        Event::Venue(VenueEvent::TradeCorrected(it)) => {
            of(&it.trade.maker.key, &it.trade.taker.key)
        }
        event => [event.session_id(), None],
    }
}

/// The feed, as the one stream of a store.
#[derive(Clone, Debug)]
pub struct FeedStream<S> {
    encoder: itch::Encoder,
    store: S,
}

impl<S: MessageStore> FeedStream<S> {
    /// The stream of the feed in its store.
    pub const STREAM: usize = 0;

    /// Before the first output.
    pub fn new(mut store: S) -> Self {
        store.ensure_stream(Self::STREAM);
        Self { encoder: itch::Encoder::new(), store }
    }

    pub fn take(&mut self, output: &Output) {
        let Self { encoder, store } = self;
        encoder.encode(output, &mut |message| store.push(Self::STREAM, message));
    }

    /// After outputs that added these instruments.
    pub fn after<'a>(instruments: impl Iterator<Item = &'a Instrument>, store: S) -> Self {
        let mut feed = Self::new(store);
        instruments.for_each(|instrument| feed.add_instrument(instrument));
        feed
    }

    /// Takes an instrument that was added before the first output.
    pub(crate) fn add_instrument(&mut self, instrument: &Instrument) {
        self.encoder.learn(instrument);
    }

    pub const fn store(&self) -> &S {
        &self.store
    }

    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }
}

impl FeedStream<ReplayStore> {
    /// Takes the messages sent before a snapshot, before the first output.
    pub(crate) fn restore(&mut self, archive: &MessageArchive) {
        archive.instruments().iter().for_each(|instrument| self.add_instrument(instrument));
        archive.copy_feed(&mut self.store, Self::STREAM);
    }
}

/// Takes the outputs of at most `limit` lines, up to the durable cursor; later ones stay in the ring. Returns the lines
/// taken.
pub(crate) fn pull_durable(
    outputs: &mut Consumer<OutputLine>,
    durable: &Cursor,
    limit: usize,
    mut take: impl FnMut(&Output),
) -> usize {
    let mut durable_to = durable.get();
    outputs.poll(limit, |line, _end_of_batch| {
        if line.cause.0 > durable_to {
            durable_to = durable.get();
            if line.cause.0 > durable_to {
                return Flow::Hold;
            }
        }
        each_for_gateways(line, &mut take);
        Flow::Continue
    })
}

/// Calls `take` with each output of a line, except ledger entries, which no gateway reads.
#[inline(always)]
pub(crate) fn each_for_gateways(line: &OutputLine, take: impl FnMut(&Output)) {
    if !matches!(line.outcome, Outcome::Settled(_)) {
        line.each(take);
    }
}

pub(crate) fn upper_case(username: Text<6>) -> Text<6> {
    let mut name = *username.as_bytes();
    name.make_ascii_uppercase();
    Text::from_bytes(name).expect("upper case of printable ASCII is printable")
}

#[cfg(test)]
mod tests {
    use market::{
        AccountQueried, BustReason, Fill, Firm, InstrumentId, OrderId, Party, PastTrade, Price,
        Quantity, Sequence, SessionAdded, Side, SystemEvent, Timestamp, TradeBusted,
        TradeCorrected, TradeId, Traded,
    };

    use super::*;

    fn key(session: u16) -> OrderKey {
        OrderKey { session_id: SessionId(session), channel: 0, user_ref_num: 7 }
    }

    fn traded(maker: u16, taker: u16) -> Event {
        let fill = |session| Fill {
            key: key(session),
            order_id: OrderId(session.into()),
            leaves: Quantity::ZERO,
        };
        Event::Traded(Traded {
            trade_id: TradeId(1),
            instrument_id: InstrumentId(1),
            taker_side: Side::Buy,
            price: Price(10_000),
            quantity: Quantity(5),
            maker_shown: Quantity(1_000),
            maker: fill(maker),
            taker: fill(taker),
            auction: None,
        })
    }

    fn past(maker: u16, taker: u16) -> PastTrade {
        let party = |session| Party { key: key(session), order_id: OrderId(session.into()) };
        PastTrade {
            trade_id: TradeId(1),
            instrument_id: InstrumentId(1),
            taker_is_buy: true,
            price: Price(10_000),
            quantity: Quantity(5),
            maker: party(maker),
            taker: party(taker),
        }
    }

    /// Events for one session, for two, and for all, with every combination of sessions.
    fn outputs() -> Vec<Output> {
        let mut events = Vec::new();
        for (number, name) in (1..).zip(["A", "b", "C"]) {
            events.push(Event::SessionAdded(SessionAdded {
                session_id: SessionId(number),
                username: Text::new(name).unwrap(),
                firm: Firm::BLANK,
                system_hours: true,
            }));
            events.push(Event::System(SystemEvent::StartOfSystemHours));
        }
        let reason = BustReason::Erroneous;
        for (one, other) in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)] {
            events.push(Event::AccountQueried(AccountQueried {
                session_id: SessionId(one),
                channel: 0,
                next_user_ref_num: 9,
            }));
            events.push(traded(one, other));
            let trade = past(one, other);
            events.push(Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })));
            let busted = TradeId(1);
            events.push(Event::Venue(VenueEvent::TradeCorrected(TradeCorrected {
                busted,
                trade,
                reason,
            })));
        }
        let output = |(number, event)| Output {
            cause: Sequence(number),
            timestamp: Timestamp(number),
            event,
        };
        (1..).zip(events).map(output).collect()
    }

    fn messages(store: &ReplayStore, stream: usize) -> Vec<Vec<u8>> {
        (1..store.next(stream)).map(|number| store.get(stream, number).unwrap().to_vec()).collect()
    }

    /// Each stream has the same messages under the same numbers, whichever other streams are kept.
    #[test]
    fn a_stream_does_not_depend_on_which_others_are_kept() {
        let outputs = outputs();
        let mut all = ReplyStreams::of_all(ReplayStore::new(0, 1 << 20));
        outputs.iter().for_each(|output| all.take(output));
        for kept in [&[][..], &["A"], &["B"], &["C", "A"], &["B", "C", "NOBODY"]] {
            let users: Vec<Text<6>> = kept.iter().map(|name| Text::new(name).unwrap()).collect();
            let store = ReplayStore::new(users.len(), 1 << 20);
            let mut some = ReplyStreams::of_users(&users, store);
            outputs.iter().for_each(|output| some.take(output));
            for (stream, name) in kept.iter().enumerate() {
                let index = ["A", "B", "C"].iter().position(|known| known == name);
                let expected = index.map_or(Vec::new(), |index| messages(all.store(), index));
                assert_eq!(messages(some.store(), stream), expected, "{name} of {kept:?}");
                assert_eq!(index.is_some(), expected.len() > 10, "{name} of {kept:?}");
            }
        }
    }
}
