//! The assignment of agents to threads: the one layout language of `damrak serve`, `run` and `bench`.
//!
//! A layout is a name or a list of groups, `order-entry+market-data | sequencer+engine@2:spin | journaler`.
//! Invariant: a name means the same threads in every program, and each agent is in exactly one group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZero,
    str::FromStr,
    sync::Arc,
    thread,
    time::Duration,
};

use ring::{Agent, Clock, IdleStrategy, Parker};
use serde::Deserialize;

use crate::{failure::Failure, wiring::Wiring};

/// The longest sleep of a thread that backs off. Arrivals on a socket and the doorbell of another group end it sooner,
/// so it only bounds the delay of a timer.
pub const PARK_MAX: Duration = Duration::from_millis(20);

macro_rules! agents {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal,)+) => {
        /// The agents of all programs, in the order in which an order passes them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AgentName {
            $($(#[doc = $doc])+ $name,)+
        }

        impl AgentName {
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

agents! {
    /// OUCH over SoupBinTCP, in and out.
    OrderEntry "order-entry",
    /// FIX over TCP, in and out; where it is configured.
    OrderEntryFix "order-entry-fix",
    /// OUCH 4.2 over SoupBinTCP, in and out; where it is configured.
    OrderEntryOuch42 "order-entry-ouch42",
    /// OUCH by Sluice, in and out; where it is configured.
    OrderEntrySluice "order-entry-sluice",
    /// OUCH over UDP, in and out.
    OrderEntryUdp "order-entry-udp",
    /// Reads an order file, in place of order entry.
    Source "source",
    /// Gives each command its place and time.
    Sequencer "sequencer",
    /// Writes inputs to the journal.
    Journaler "journaler",
    /// Matches orders.
    Engine "engine",
    /// The feed.
    MarketData "market-data",
    /// Re-requests, snapshots and the feed over TCP.
    FeedServer "feed-server",
    /// Market data by FIX; where it is configured.
    MarketDataFix "market-data-fix",
    /// Delta streams of agent 1; where they are configured.
    Streams "streams",
    /// Delta streams of agent 2; where they are configured.
    Streams2 "streams-2",
    /// Delta streams of agent 3; where they are configured.
    Streams3 "streams-3",
    /// Delta streams of agent 4; where they are configured.
    Streams4 "streams-4",
    /// Delta streams of agent 5; where they are configured.
    Streams5 "streams-5",
    /// Delta streams of agent 6; where they are configured.
    Streams6 "streams-6",
    /// Delta streams of agent 7; where they are configured.
    Streams7 "streams-7",
    /// Delta streams of agent 8; where they are configured.
    Streams8 "streams-8",
    /// Delta streams of agent 9; where they are configured.
    Streams9 "streams-9",
    /// Delta streams of agent 10; where they are configured.
    Streams10 "streams-10",
    /// Delta streams of agent 11; where they are configured.
    Streams11 "streams-11",
    /// Delta streams of agent 12; where they are configured.
    Streams12 "streams-12",
    /// Delta streams of agent 13; where they are configured.
    Streams13 "streams-13",
    /// Delta streams of agent 14; where they are configured.
    Streams14 "streams-14",
    /// Delta streams of agent 15; where they are configured.
    Streams15 "streams-15",
    /// Delta streams of agent 16; where they are configured.
    Streams16 "streams-16",
    /// Keeps the balances of an order file by ledger entries alone.
    Ledger "ledger",
    /// Counts the results of an order file, and records its trades.
    Reporter "reporter",
}

impl AgentName {
    /// The agents of delta streams, by their number in the configuration, from 1.
    pub const STREAMS: [Self; 16] = [
        Self::Streams,
        Self::Streams2,
        Self::Streams3,
        Self::Streams4,
        Self::Streams5,
        Self::Streams6,
        Self::Streams7,
        Self::Streams8,
        Self::Streams9,
        Self::Streams10,
        Self::Streams11,
        Self::Streams12,
        Self::Streams13,
        Self::Streams14,
        Self::Streams15,
        Self::Streams16,
    ];

    /// The place of an agent among the turns of its group. Order entry, which also sends replies, comes after the
    /// engine and before the feed, so that a client does not wait for market data.
    const fn turn(self) -> u8 {
        match self {
            Self::Source => 0,
            Self::Sequencer => 1,
            Self::Journaler => 2,
            Self::Engine => 3,
            Self::OrderEntry
            | Self::OrderEntryFix
            | Self::OrderEntryOuch42
            | Self::OrderEntrySluice
            | Self::OrderEntryUdp => 4,
            _ => 5,
        }
    }

    /// True for the agents up to the journal.
    const fn is_entry(self) -> bool {
        matches!(
            self,
            Self::OrderEntry
                | Self::OrderEntryFix
                | Self::OrderEntryOuch42
                | Self::OrderEntrySluice
                | Self::OrderEntryUdp
                | Self::Source
                | Self::Sequencer
                | Self::Journaler
        )
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The behavior of an idle thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Wait {
    /// Backs off, sooner or later depending on the number of cores and threads.
    #[default]
    Adaptive,
    /// Never yields the core.
    Spin,
    /// Yields the core, but never sleeps.
    Yield,
    /// Spins, then yields, then sleeps longer and longer.
    Backoff,
}

impl Wait {
    const ALL: [Self; 4] = [Self::Adaptive, Self::Spin, Self::Yield, Self::Backoff];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
            Self::Yield => "yield",
            Self::Backoff => "backoff",
        }
    }

    fn idle(self, threads: usize, cores: usize) -> IdleStrategy {
        match self {
            Self::Adaptive => IdleStrategy::adaptive(threads, cores),
            Self::Spin => IdleStrategy::Spin,
            Self::Yield => IdleStrategy::Yield,
            Self::Backoff => IdleStrategy::Backoff { spins: 200, yields: 20, park_max: PARK_MAX },
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|wait| wait.as_str() == text).ok_or_else(|| {
            format!("`{text}` is not a way to wait: adaptive, spin, yield or backoff")
        })
    }
}

/// Agents that take turns on one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentGroup {
    /// In the order of their turns.
    pub agents: Vec<AgentName>,
    /// The core the thread is pinned to, as the kernel numbers it.
    pub core: Option<usize>,
    /// The wait of the thread; `None` is the program's default.
    pub wait: Option<Wait>,
}

impl fmt::Display for AgentGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.agents.iter().map(|agent| agent.as_str()).collect();
        f.write_str(&names.join("+"))?;
        if let Some(core) = self.core {
            write!(f, "@{core}")?;
        }
        match self.wait {
            Some(wait) => write!(f, ":{wait}"),
            None => Ok(()),
        }
    }
}

/// The assignment of agents to threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Layout {
    /// `auto`: by [`Machine`].
    #[default]
    Auto,
    /// `single`: one thread.
    Single,
    /// `engine-alone`: the engine | all else.
    EngineAlone,
    /// `core-alone`: sequencer and engine | all else.
    CoreAlone,
    /// `entry-core`: all up to the journal | the engine and the readers of its events alone.
    EntryCore,
    /// `pipeline`: a thread for each agent.
    Pipeline,
    /// Groups, a thread each.
    Groups(Vec<AgentGroup>),
}

/// The facts behind the choice of `auto`.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// True if clients and the network share the cores, as they do for a venue.
    pub has_clients: bool,
    /// True if the journaler waits for the disk.
    pub is_synced: bool,
}

impl Machine {
    /// This machine, with the number of cores that the process may use.
    pub fn this(has_clients: bool, is_synced: bool) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { cores, has_clients, is_synced }
    }
}

impl Layout {
    /// The groups of these agents, one thread each.
    ///
    /// # Errors
    /// A group names an agent that is not one of these, or one of these is in no group.
    pub fn groups(
        &self,
        agents: &[AgentName],
        machine: Machine,
    ) -> Result<Vec<AgentGroup>, String> {
        use AgentName::{Engine, Sequencer};
        Ok(match self {
            Self::Auto => auto(agents, machine),
            Self::Single => apart(agents, &[]),
            Self::EngineAlone => apart(agents, &[&[Engine]]),
            Self::CoreAlone => apart(agents, &[&[Sequencer, Engine]]),
            Self::EntryCore => apart(agents, &[&core_side(agents)]),
            Self::Pipeline => agents.iter().map(|agent| group(&[*agent])).collect(),
            Self::Groups(groups) => {
                self.check(agents)?;
                groups.clone()
            }
        })
    }

    /// Checks that the groups name each of these agents, and no others.
    pub fn check(&self, agents: &[AgentName]) -> Result<(), String> {
        let Self::Groups(groups) = self else { return Ok(()) };
        let named: Vec<_> = groups.iter().flat_map(|group| &group.agents).collect();
        if let Some(other) = named.iter().find(|name| !agents.contains(name)) {
            return Err(format!("there is no agent {other} here; there are {}", list(agents)));
        }
        match agents.iter().find(|agent| !named.contains(agent)) {
            Some(missing) => Err(format!("{missing} is in no group")),
            None => Ok(()),
        }
    }
}

/// A second thread pays only if it need not share its core: with clients on the machine from 8 cores on, without them
/// from 2. A journaler that syncs mostly sleeps, and meanwhile the next group of commands gathers.
fn auto(agents: &[AgentName], machine: Machine) -> Vec<AgentGroup> {
    let core = match (machine.has_clients, machine.cores) {
        (true, 8..) => vec![AgentName::Sequencer, AgentName::Engine],
        (false, 2..) => core_side(agents),
        _ => Vec::new(),
    };
    let journaler: &[AgentName] = if machine.is_synced { &[AgentName::Journaler] } else { &[] };
    apart(agents, &[&core, journaler])
}

/// The engine, and the agents that only read its events.
fn core_side(agents: &[AgentName]) -> Vec<AgentName> {
    agents.iter().copied().filter(|agent| !agent.is_entry()).collect()
}

fn group(agents: &[AgentName]) -> AgentGroup {
    AgentGroup { agents: agents.to_vec(), core: None, wait: None }
}

/// Puts each of these on its own thread, and all other agents together on the first.
fn apart(agents: &[AgentName], groups: &[&[AgentName]]) -> Vec<AgentGroup> {
    let is_apart = |agent: &AgentName| groups.iter().any(|group| group.contains(agent));
    let others: Vec<_> = agents.iter().copied().filter(|agent| !is_apart(agent)).collect();
    let all = std::iter::once(&*others).chain(groups.iter().copied());
    let in_turn_order = |agents: &[AgentName]| {
        let mut agents = agents.to_vec();
        agents.sort_by_key(|agent| agent.turn());
        group(&agents)
    };
    all.filter(|group| !group.is_empty()).map(in_turn_order).collect()
}

fn list(agents: &[AgentName]) -> String {
    agents.iter().map(|agent| agent.as_str()).collect::<Vec<_>>().join(", ")
}

impl TryFrom<String> for Layout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for Wait {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => return Ok(Self::Auto),
            "single" => return Ok(Self::Single),
            "engine-alone" => return Ok(Self::EngineAlone),
            "core-alone" => return Ok(Self::CoreAlone),
            "entry-core" => return Ok(Self::EntryCore),
            "pipeline" => return Ok(Self::Pipeline),
            _ => {}
        }
        let mut seen = BTreeSet::new();
        let groups = text.split('|').map(|group| parse_group(group, &mut seen));
        Ok(Self::Groups(groups.collect::<Result<_, _>>()?))
    }
}

/// Parses `sequencer+engine@2:spin`: agents, a core, a way to wait.
fn parse_group(text: &str, seen: &mut BTreeSet<AgentName>) -> Result<AgentGroup, String> {
    let (text, wait) = match text.split_once(':') {
        Some((text, wait)) => (text, Some(wait.trim().parse()?)),
        None => (text, None),
    };
    let (names, core) = match text.split_once('@') {
        Some((names, core)) => {
            let number = core.trim().parse();
            (
                names,
                Some(number.map_err(|_| format!("`{}` is not the number of a core", core.trim()))?),
            )
        }
        None => (text, None),
    };
    let mut agents = Vec::new();
    for name in names.split('+').map(str::trim) {
        let agent = AgentName::ALL.iter().find(|agent| agent.as_str() == name);
        let agent = *agent.ok_or_else(|| {
            format!(
                "`{name}` is neither a layout (auto, single, engine-alone, core-alone, entry-core, \
                 pipeline) nor an agent ({})",
                list(AgentName::ALL)
            )
        })?;
        if !seen.insert(agent) {
            return Err(format!("{agent} is in two groups"));
        }
        agents.push(agent);
    }
    Ok(AgentGroup { agents, core, wait })
}

/// The groups in one line, as a start prints them.
pub fn describe(groups: &[AgentGroup]) -> String {
    groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}

/// Agents wired to each other and not on a thread yet.
pub type Agents = BTreeMap<AgentName, Box<dyn Agent>>;

/// Starts a thread for each group.
///
/// # Errors
/// A group's core is not one that this process may use, or `parker` fails.
///
/// # Panics
/// An agent is in no group, or in two: see [`Layout::check`].
pub fn launch(
    mut agents: Agents,
    wiring: &Wiring,
    groups: &[AgentGroup],
    wait: Wait,
    clock: Arc<dyn Clock>,
    mut parker: impl FnMut(&AgentGroup) -> Result<Box<dyn Parker>, Failure>,
) -> Result<ring::RunningAgents, Failure> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let spins = |group: &&AgentGroup| group.wait.unwrap_or(wait) == Wait::Spin;
    let spinning: Vec<_> = groups.iter().filter(spins).filter_map(|group| group.core).collect();
    if let Err(error) = os::memory::keep_off(&spinning) {
        tracing::warn!(
            component = "layout",
            "cannot keep the thread that prepares memory off the cores of spinning threads: {error}"
        );
    }
    let mut launched = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        if let Some(core) = group.core {
            check_core(core)?;
        }
        let members = group.agents.iter();
        let members = members.map(|name| agents.remove(name).expect("each agent is in one group"));
        launched.push(ring::Group {
            name: format!("damrak-{number}"),
            agents: members.collect(),
            idle: group.wait.unwrap_or(wait).idle(groups.len(), cores),
            parker: parker(group)?,
            wake_targets: Some(wiring.wake_targets(number, groups)),
            on_start: group.core.map(pin_at_start),
        });
    }
    assert!(agents.is_empty(), "each agent is in a group");
    Ok(ring::launch(launched, clock))
}

/// Pins the thread that calls the function.
fn pin_at_start(core: usize) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        if let Err(error) = os::pin_to_core(core) {
            tracing::warn!(component = "layout", "cannot pin to core {core}: {error}");
        }
    })
}

/// Tries the core on a separate thread, so that a wrong one is reported before anything starts.
fn check_core(core: usize) -> Result<(), Failure> {
    let tried = thread::spawn(move || os::pin_to_core(core)).join();
    tried.expect("pinning does not panic").map_err(|error| {
        Failure::environment(format!("layout: cannot pin a thread to core {core}: {error}"))
            .hint("`taskset -p $$` lists the cores that this process may use")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentName::*;

    const VENUE: [AgentName; 7] =
        [OrderEntry, OrderEntryUdp, Sequencer, Journaler, Engine, MarketData, FeedServer];
    const RUN: [AgentName; 6] = [Source, Sequencer, Journaler, Engine, Ledger, Reporter];

    fn machine(cores: usize, has_clients: bool, is_synced: bool) -> Machine {
        Machine { cores, has_clients, is_synced }
    }

    /// A name means the same threads for a venue and for an order file.
    #[test]
    fn names_mean_the_same_everywhere() {
        let printed = |text: &str, agents: &[AgentName]| {
            let layout: Layout = text.parse().unwrap();
            describe(&layout.groups(agents, machine(4, false, false)).unwrap())
        };
        for (name, venue, run) in [
            (
                "single",
                "sequencer+journaler+engine+order-entry+order-entry-udp+market-data+feed-server",
                "source+sequencer+journaler+engine+ledger+reporter",
            ),
            (
                "engine-alone",
                "sequencer+journaler+order-entry+order-entry-udp+market-data+feed-server | engine",
                "source+sequencer+journaler+ledger+reporter | engine",
            ),
            (
                "core-alone",
                "journaler+order-entry+order-entry-udp+market-data+feed-server | sequencer+engine",
                "source+journaler+ledger+reporter | sequencer+engine",
            ),
            (
                "entry-core",
                "sequencer+journaler+order-entry+order-entry-udp | engine+market-data+feed-server",
                "source+sequencer+journaler | engine+ledger+reporter",
            ),
            (
                "pipeline",
                "order-entry | order-entry-udp | sequencer | journaler | engine | market-data | feed-server",
                "source | sequencer | journaler | engine | ledger | reporter",
            ),
        ] {
            assert_eq!((printed(name, &VENUE), printed(name, &RUN)), (venue.into(), run.into()));
        }
    }

    /// Every layout has each agent once, on any machine.
    #[test]
    fn layouts_hold_each_agent_once() {
        let free = "source+ledger | sequencer+engine@2:spin | journaler + reporter";
        for text in ["auto", "single", "engine-alone", "core-alone", "entry-core", "pipeline", free]
        {
            let layout: Layout = text.parse().unwrap();
            for (cores, flags) in
                [1, 2, 64].into_iter().flat_map(|cores| (0..4).map(move |it| (cores, it)))
            {
                let machine = machine(cores, flags & 1 > 0, flags & 2 > 0);
                let groups = layout.groups(&RUN, machine).unwrap();
                let mut agents: Vec<_> = groups.iter().flat_map(|it| it.agents.clone()).collect();
                agents.sort();
                assert_eq!(agents, RUN, "{text}");
            }
        }
        let layout: Layout = free.parse().unwrap();
        let printed = describe(&layout.groups(&RUN, machine(4, false, false)).unwrap());
        assert_eq!(printed, "source+ledger | sequencer+engine@2:spin | journaler+reporter");
    }

    /// A text that is no layout gives an error that names the fault.
    #[test]
    fn wrong_layouts_are_errors() {
        for (text, why) in [
            ("both", "`both` is neither a layout (auto, single, engine-alone,"),
            ("source|source", "source is in two groups"),
            ("source+sequencer", "journaler is in no group"),
            (
                "source+order-entry",
                "there is no agent order-entry here; there are source, sequencer,",
            ),
            ("source@x", "`x` is not the number of a core"),
            ("source:sleep", "`sleep` is not a way to wait"),
        ] {
            let layout = text.parse::<Layout>();
            let error = layout.and_then(|layout| layout.check(&RUN)).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    /// `auto` adds a thread only if it has a core of its own.
    #[test]
    fn auto_follows_the_machine() {
        let printed = |agents: &[AgentName], cores, is_synced| {
            let machine = machine(cores, agents.contains(&OrderEntry), is_synced);
            describe(&Layout::Auto.groups(agents, machine).unwrap())
        };
        let same = |agents: &[AgentName], layout: Layout| {
            describe(&layout.groups(agents, machine(1, false, false)).unwrap())
        };
        assert_eq!(printed(&VENUE, 7, false), same(&VENUE, Layout::Single));
        assert_eq!(printed(&VENUE, 8, false), same(&VENUE, Layout::CoreAlone));
        assert_eq!(printed(&RUN, 1, false), same(&RUN, Layout::Single));
        assert_eq!(printed(&RUN, 2, false), same(&RUN, Layout::EntryCore));
        assert!(printed(&VENUE, 2, true).ends_with(" | journaler"));
        assert!(printed(&VENUE, 8, true).ends_with(" | sequencer+engine | journaler"));
    }
}
