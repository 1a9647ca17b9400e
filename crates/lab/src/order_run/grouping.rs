//! Which agents of a run share a thread.

use std::{collections::BTreeSet, fmt, str::FromStr};

/// The agents of a run, in the order in which an order passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrdersAgent {
    /// Reads rows and submits them.
    Source,
    /// Gives each command its place and time.
    Sequencer,
    /// Writes inputs to the journal.
    Journaler,
    /// The core.
    Engine,
    /// Keeps the balances by the ledger entries alone.
    Ledger,
    /// Counts, and writes trades down.
    Reporter,
}

impl OrdersAgent {
    /// Every agent, in the order in which an order passes them.
    pub const ALL: [Self; 6] = [
        Self::Source,
        Self::Sequencer,
        Self::Journaler,
        Self::Engine,
        Self::Ledger,
        Self::Reporter,
    ];

    /// As the command line names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sequencer => "sequencer",
            Self::Journaler => "journaler",
            Self::Engine => "engine",
            Self::Ledger => "ledger",
            Self::Reporter => "reporter",
        }
    }
}

/// Agents that take turns on one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentGroup {
    /// In the order of their turns.
    pub agents: Vec<OrdersAgent>,
    /// The core the thread is pinned to, as the kernel numbers it.
    pub core: Option<usize>,
}

impl fmt::Display for AgentGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.agents.iter().map(|agent| agent.as_str()).collect();
        f.write_str(&names.join("+"))?;
        match self.core {
            Some(core) => write!(f, "@{core}"),
            None => Ok(()),
        }
    }
}

/// Which agents share threads: `auto`, `single`, `edge`, `halves`, `pipeline`, or groups like
/// `source+ledger+reporter | sequencer+engine@2 | journaler`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// By the number of cores.
    #[default]
    Auto,
    /// One thread.
    Single,
    /// The engine on one thread, all else on another.
    Edge,
    /// Source, sequencer and journaler on one thread, the engine and its readers on another: most data
    /// then stays in the cache of the core that wrote it.
    Halves,
    /// A thread for each.
    Pipeline,
    /// Each agent in exactly one of them.
    Groups(Vec<AgentGroup>),
}

impl Grouping {
    /// The groups, one thread each, on a machine with this many cores.
    #[must_use]
    pub fn groups(&self, cores: usize) -> Vec<AgentGroup> {
        use OrdersAgent::{Engine, Journaler, Ledger, Reporter, Sequencer, Source};
        let group = |agents: &[OrdersAgent]| AgentGroup { agents: agents.to_vec(), core: None };
        match self {
            Self::Auto if cores >= 2 => Self::Halves.groups(cores),
            Self::Auto | Self::Single => vec![group(&OrdersAgent::ALL)],
            Self::Edge => {
                vec![group(&[Source, Sequencer, Journaler, Ledger, Reporter]), group(&[Engine])]
            }
            Self::Halves => {
                vec![group(&[Source, Sequencer, Journaler]), group(&[Engine, Ledger, Reporter])]
            }
            Self::Pipeline => OrdersAgent::ALL.iter().map(|agent| group(&[*agent])).collect(),
            Self::Groups(groups) => groups.clone(),
        }
    }
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => return Ok(Self::Auto),
            "single" => return Ok(Self::Single),
            "edge" => return Ok(Self::Edge),
            "halves" => return Ok(Self::Halves),
            "pipeline" => return Ok(Self::Pipeline),
            _ => {}
        }
        let mut seen = BTreeSet::new();
        let mut groups = Vec::new();
        for group in text.split('|') {
            let (names, core) = match group.split_once('@') {
                Some((names, core)) => {
                    let number = core.trim().parse();
                    (names, Some(number.map_err(|_| format!("`{core}` is not a core"))?))
                }
                None => (group, None),
            };
            let mut agents = Vec::new();
            for name in names.split('+').map(str::trim) {
                let agent = OrdersAgent::ALL.into_iter().find(|agent| agent.as_str() == name);
                let agent = agent.ok_or_else(|| {
                    let known = OrdersAgent::ALL.map(OrdersAgent::as_str).join(", ");
                    format!(
                        "`{name}` is neither a layout (auto, single, edge, halves, pipeline) nor an \
                         agent ({known})"
                    )
                })?;
                if !seen.insert(agent) {
                    return Err(format!("{name} is in two groups"));
                }
                agents.push(agent);
            }
            groups.push(AgentGroup { agents, core });
        }
        match OrdersAgent::ALL.into_iter().find(|agent| !seen.contains(agent)) {
            Some(missing) => Err(format!("{} is in no group", missing.as_str())),
            None => Ok(Self::Groups(groups)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every layout has each agent once; what has not is refused, and says why.
    #[test]
    fn layouts_hold_each_agent_once() {
        let free = "source+ledger | sequencer+engine@2 | journaler + reporter";
        for text in ["auto", "single", "edge", "halves", "pipeline", free] {
            let grouping: Grouping = text.parse().unwrap();
            for cores in [1, 2, 64] {
                let groups = grouping.groups(cores);
                let mut agents: Vec<_> = groups.iter().flat_map(|it| it.agents.clone()).collect();
                agents.sort();
                assert_eq!(agents, OrdersAgent::ALL, "{text}");
            }
        }
        let printed: Vec<_> =
            free.parse::<Grouping>().unwrap().groups(4).iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["source+ledger", "sequencer+engine@2", "journaler+reporter"]);
        for (text, why) in [
            (
                "both",
                "`both` is neither a layout (auto, single, edge, halves, pipeline) nor an agent",
            ),
            ("source|source", "source is in two groups"),
            ("source+sequencer", "journaler is in no group"),
            ("source@x", "`x` is not a core"),
        ] {
            let error = text.parse::<Grouping>().unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
