//! The venues of the experiment: streams, instruments and layouts as texts of a configuration.
//!
//! Invariant: a layout differs from another in `[layout]` and in the agents that send the streams, and in nothing else.

use venue::{failure::Failure, layout::AgentName};

use crate::own_venue::{OwnVenueOptions, ReservedAddresses};

/// Instruments of each stream in a production-like set.
const INSTRUMENTS_PER_STREAM: usize = 8;
/// Instruments of a thin set: one of each of the first streams.
const THIN_INSTRUMENTS: usize = 2;
/// Sessions that trade.
const USERS: usize = 2;
/// The agents of the application: all that is neither snapshot nor delta.
const APPLICATION: &str = "order-entry+order-entry-udp+sequencer+journaler+engine+market-data";

/// The instruments traded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruments {
    /// Eight instruments for each stream, all traded: every stream is busy.
    Production,
    /// Two instruments: most streams idle, as on a machine for tests.
    Thin,
}

impl Instruments {
    pub const ALL: [Self; 2] = [Self::Production, Self::Thin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Production => "production-like",
            Self::Thin => "thin",
        }
    }

    fn symbols(self, streams: usize) -> Vec<String> {
        let letters = ('A'..='P').take(streams);
        match self {
            Self::Production => letters
                .flat_map(|letter| {
                    (0..INSTRUMENTS_PER_STREAM).map(move |it| format!("{letter}{it:02}"))
                })
                .collect(),
            Self::Thin => {
                letters.take(THIN_INSTRUMENTS).map(|letter| format!("{letter}00")).collect()
            }
        }
    }
}

/// A layout of the configuration, with a name for the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLayout {
    pub name: String,
    /// As `layout.threads` takes it. Streams are sent by the agents `streams`, `streams-2`, … that it names; by
    /// one if it names none.
    pub threads: String,
}

impl NamedLayout {
    pub fn new(name: impl Into<String>, threads: impl Into<String>) -> Self {
        Self { name: name.into(), threads: threads.into() }
    }

    /// How many agents send streams.
    fn stream_agents(&self) -> usize {
        let words = || self.threads.split(['|', '+']).map(|word| word.split(['@', ':']).next());
        let is_named = |agent: &AgentName| {
            words().any(|word| word.is_some_and(|word| word.trim() == agent.as_str()))
        };
        AgentName::STREAMS.iter().filter(|agent| is_named(agent)).count().max(1)
    }

    /// True if a thread of it spins.
    pub fn spins(&self) -> bool {
        self.threads.contains(":spin")
    }
}

/// The layouts that are compared unless others are named: the venue's own first.
pub fn built_in_layouts(streams: usize) -> Vec<NamedLayout> {
    let each = |wait: &str| {
        let agents = AgentName::STREAMS.iter().take(streams);
        let groups = agents.map(|agent| format!(" | {agent}:{wait}")).collect::<String>();
        format!("{APPLICATION} | feed-server:{wait}{groups}")
    };
    vec![
        NamedLayout::new("default", "auto"),
        NamedLayout::new("one-agent", format!("{APPLICATION} | feed-server | streams")),
        NamedLayout::new("each-parking", each("backoff")),
        NamedLayout::new("each-spinning", each("spin")),
    ]
}

/// A venue to be started, with the sockets that its streams go to.
pub(super) struct Setting {
    pub(super) options: OwnVenueOptions,
    /// Never read: the actions of a subscriber cost a venue nothing over UDP.
    _sinks: ReservedAddresses,
}

impl Setting {
    pub(super) fn new(
        streams: usize,
        layout: &NamedLayout,
        instruments: Instruments,
    ) -> Result<Self, Failure> {
        let sinks = ReservedAddresses::udp(streams)?;
        let agents = layout.stream_agents();
        let mut market_data = String::new();
        for (index, (letter, to)) in ('A'..='P').zip(&sinks.addresses).enumerate() {
            market_data += &format!(
                "[[market_data.streams]]\nname = \"{letter}\"\ninstruments = [\"{letter}*\"]\n\
                 to = [\"{to}\"]\nagent = {}\n",
                index % agents + 1
            );
        }
        let options = OwnVenueOptions {
            symbols: instruments.symbols(streams),
            users: USERS,
            market_data,
            layout: format!("threads = {:?}", layout.threads),
            ..OwnVenueOptions::default()
        };
        Ok(Self { options, _sinks: sinks })
    }
}

#[cfg(test)]
mod tests {
    use venue::{config::Config, layout::Machine, pipeline};

    use super::*;
    use crate::own_venue::config_text;

    /// The configuration takes each layout with its streams, each stream has an agent that is in a group, and only
    /// the layouts with an agent for each stream have a thread for each.
    #[test]
    fn each_layout_is_one_of_the_configuration() {
        for (layout, threads) in
            built_in_layouts(14).iter().zip([None, Some(3), Some(16), Some(16)])
        {
            for instruments in Instruments::ALL {
                let setting = Setting::new(14, layout, instruments).unwrap();
                let text = config_text("journal".as_ref(), &setting.options).unwrap();
                let config = Config::parse(&text, "setting").unwrap();
                let machine = Machine { cores: 2, has_clients: true, is_synced: false };
                let groups = config.layout.threads.groups(&pipeline::agents(&config), machine);
                let count = groups.unwrap().len();
                assert!(threads.is_none_or(|threads| threads == count), "{}: {count}", layout.name);
            }
        }
    }

    /// Streams are spread over the agents that a layout names, however it names them.
    #[test]
    fn agents_of_streams_are_counted() {
        let agents = |threads: &str| NamedLayout::new("it", threads).stream_agents();
        assert_eq!((agents("auto"), agents("engine | streams:spin")), (1, 1));
        assert_eq!(agents("engine+streams | streams-2@1:spin | streams-3"), 3);
    }

    /// A production-like set keeps every stream busy; a thin one only two.
    #[test]
    fn instruments_belong_to_streams() {
        assert_eq!(Instruments::Production.symbols(14).len(), 112);
        assert_eq!(Instruments::Thin.symbols(14), ["A00", "B00"]);
        assert_eq!(Instruments::Thin.symbols(1), ["A00"]);
    }
}
