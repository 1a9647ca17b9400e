//! A scenario over the ports of a whole venue: gateways, rings, journal and engine, on a disk and a clock in
//! memory, and on a network in memory or on sockets. Its lines become requests in the words of a protocol.
//!
//! Invariant: after each line the venue has emitted the same kinds of events as the engine that played the scenario
//! alone, and has the same books and balances; at the end each session knows each of its trades.

mod fix;
mod network;
mod session;
mod venue;

use std::collections::BTreeMap;

use market::{Command, Event, OrderKey, SessionId};
use wire::fix::Version;

pub use self::session::Crossed;
use self::{session::TradePart, venue::ScenarioVenue};
use super::{
    audit::Digest,
    scenario::{self, ScenarioFailure, ScenarioFault, Step},
};

/// The protocol between the sessions of a scenario and the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    SoupBinTcp,
    Udp,
    Sluice,
    Ouch42,
    Fix42,
    Fix44,
    Fix50Sp1,
}

impl Protocol {
    pub const ALL: [Self; 7] = [
        Self::SoupBinTcp,
        Self::Udp,
        Self::Sluice,
        Self::Ouch42,
        Self::Fix42,
        Self::Fix44,
        Self::Fix50Sp1,
    ];

    /// The version of FIX, if it is one.
    #[must_use]
    pub const fn fix_version(self) -> Option<Version> {
        match self {
            Self::Fix42 => Some(Version::Fix42),
            Self::Fix44 => Some(Version::Fix44),
            Self::Fix50Sp1 => Some(Version::Fix50Sp1),
            Self::SoupBinTcp | Self::Udp | Self::Sluice | Self::Ouch42 => None,
        }
    }

    /// The name of the protocol, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SoupBinTcp => "SoupBinTCP",
            Self::Udp => "UDP",
            Self::Sluice => "Sluice",
            Self::Ouch42 => "OUCH 4.2",
            Self::Fix42 => "FIX 4.2",
            Self::Fix44 => "FIX 4.4",
            Self::Fix50Sp1 => "FIX 5.0 SP1",
        }
    }
}

/// The network that carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A network in memory.
    Memory,
    /// Sockets on the loopback interface.
    Loopback,
}

/// The outcome of a scenario; the same over every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    pub trades: usize,
    /// A hash of the trades.
    pub trades_hash: u64,
    /// A hash of books, live orders and balances. The engine's own hash also covers the numbers of requests, which
    /// FIX chooses itself, and the times and count of inputs, among them the notes of FIX.
    pub state_hash: u64,
}

/// Plays a scenario alone, then over a protocol.
///
/// # Errors
/// The first line that does not hold, that the protocol cannot express, or after which the venue has another state.
pub fn run(
    scenario: &str,
    protocol: Protocol,
    transport: Transport,
) -> Result<Played, ScenarioFailure> {
    crossed(scenario, protocol, transport).map(|(played, _)| played)
}

/// As [`run`]; also returns the OUCH messages that crossed the network.
///
/// # Errors
/// As [`run`].
pub fn crossed(
    scenario: &str,
    protocol: Protocol,
    transport: Transport,
) -> Result<(Played, Vec<Crossed>), ScenarioFailure> {
    let steps = scenario::steps(scenario)?;
    let failure = |step: &Step, fault| ScenarioFailure {
        line: step.line,
        command: format!("{} over {}", step.command, protocol.name()),
        fault,
    };
    let begins = steps.iter().position(|step| session_of(&step.input.command).is_some());
    let (before, after) = steps.split_at(begins.unwrap_or(steps.len()));
    let mut venue =
        ScenarioVenue::start(before, protocol, transport).map_err(|why| match before.last() {
            Some(step) => failure(step, ScenarioFault::Unreadable(why)),
            None => ScenarioFailure {
                line: 0,
                command: String::new(),
                fault: ScenarioFault::Unreadable(why),
            },
        })?;
    let mut aliases = BTreeMap::new();
    for step in after {
        let unreadable = |why| failure(step, ScenarioFault::Unreadable(why));
        let differs =
            |expected, found| Err(failure(step, ScenarioFault::Different { expected, found }));
        let events = venue.play(step).map_err(unreadable)?;
        if let Some((theirs, ours)) = named(&events).zip(named(&step.events)) {
            aliases.insert(theirs, ours);
        }
        let (expected, found) = (kinds(&step.events), kinds(&events));
        if expected != found {
            return differs(expected, found);
        }
        let state = venue.state(&aliases).map_err(unreadable)?;
        if state != step.state {
            return differs(step.state.clone(), state);
        }
    }
    let expected = fills(&steps);
    let heard = venue.fills().map_err(|why| match after.last() {
        Some(step) => failure(step, ScenarioFault::Unreadable(why)),
        None => unreachable!("without a request there is no session that hears"),
    })?;
    let state = steps.last().map_or("", |step| &step.state);
    if let Some(step) = after.last()
        && heard != expected
    {
        let words = |fills: &[TradePart]| format!("{fills:?}");
        let fault = ScenarioFault::Different { expected: words(&expected), found: words(&heard) };
        return Err(failure(step, fault));
    }
    let mut ids: Vec<_> = expected.iter().map(|fill| fill.trade).collect();
    ids.dedup();
    let played = Played {
        trades: ids.len(),
        trades_hash: Digest::of(format!("{expected:?}").as_bytes()).number(),
        state_hash: Digest::of(state.as_bytes()).number(),
    };
    Ok((played, venue.crossed()))
}

/// The session that gives a command; `None` for a command of the venue.
pub(crate) fn session_of(command: &Command) -> Option<SessionId> {
    Some(match command {
        Command::Enter(it) => it.key.session_id,
        Command::Replace(it) => it.key.session_id,
        Command::Cancel(it) => it.key.session_id,
        Command::Modify(it) => it.key.session_id,
        Command::MassCancel(it) => it.key.session_id,
        Command::SwitchEntry(it) => it.key.session_id,
        Command::Reject(it) => it.key.session_id,
        Command::QueryAccount(it) => it.session_id,
        Command::CancelOnDisconnect(it) => it.session_id,
        _ => return None,
    })
}

/// The request that the first event names, if it names a new one.
fn named(events: &[Event]) -> Option<OrderKey> {
    match events.first()? {
        Event::Accepted(it) => Some(it.key),
        Event::Replaced(it) => Some(it.key),
        Event::Rejected(it) => Some(it.key),
        Event::MassCanceled(it) => Some(it.key),
        _ => None,
    }
}

/// The kinds of events, in order.
fn kinds(events: &[Event]) -> String {
    let kind = |event: &Event| {
        let words = format!("{event:?}");
        words.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    events.iter().map(kind).collect::<Vec<_>>().join(", ")
}

/// The parts of trades that the sessions must receive, sorted.
fn fills(steps: &[Step]) -> Vec<TradePart> {
    let events = steps.iter().flat_map(|step| &step.events);
    let mut fills: Vec<_> = events
        .filter_map(|event| match event {
            Event::Traded(traded) => Some([&traded.maker, &traded.taker].map(|fill| TradePart {
                trade: traded.trade_id.0,
                session: fill.key.session_id,
                quantity: traded.quantity.0,
                price: traded.price.0,
            })),
            _ => None,
        })
        .flatten()
        .collect();
    fills.sort_unstable();
    fills
}
