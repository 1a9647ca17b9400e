//! The file descriptors of a venue, counted from its configuration and secured before it starts.
//!
//! Invariant: everything that takes descriptors while the venue runs has a bound, and the limit of the
//! system has room for all of them at once. So the journal can always open its next file.

use gateway::{ACCEPTED_MAX, SUBSCRIBERS_MAX};
use os::DescriptorLimit;

use super::{ResourceFinding, ResourceState};
use crate::{admin::CONNECTIONS_MAX, config::Config, failure::Failure};

/// Journal, snapshots and ledger: segments written and read, prepared and archived, folders, locks.
const FILES: usize = 48;

/// Standard streams, listeners, sockets, epoll and doorbells of threads, and the runtime of the admin API.
const SOCKETS: usize = 64;

/// Raises the soft limit of open files where it is too low, and makes room for as many in the kernel's table, so that no
/// connection makes the venue wait for a larger one.
///
/// # Errors
/// The system does not allow it.
pub(super) fn reserve(needs: &DescriptorNeeds) -> Result<(), Failure> {
    let total = needs.total();
    let limit = os::descriptor_limit().map_err(|error| {
        Failure::environment(format!("cannot read the limit of open files: {error}"))
    })?;
    if total > limit.soft {
        os::set_descriptor_limit(total).map_err(|error| {
            Failure::environment(format!(
                "cannot raise the limit of open files to {total}: {error}"
            ))
        })?;
    }
    os::reserve_descriptors(total).map_err(|error| {
        Failure::environment(format!("cannot make room for {total} open files: {error}"))
    })
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DescriptorNeeds {
    order_entry: usize,
    market_data: usize,
    admin: usize,
}

impl DescriptorNeeds {
    pub(super) fn of(config: &Config) -> Self {
        // Each listener has this many connections, and as many again for answering that it is full.
        let doors = if config.admin.address.is_some() { 2 } else { 1 };
        Self {
            // A few connections are accepted before older ones make room for them.
            order_entry: config.connections() + ACCEPTED_MAX,
            // Snapshots, the feed over TCP, and the streams.
            market_data: 2 * (SUBSCRIBERS_MAX + ACCEPTED_MAX)
                + config.market_data.streams.len()
                + config.market_data_fix_connections(),
            // Streams of derived data come on top.
            admin: doors * 2 * CONNECTIONS_MAX
                + config.derived_data.as_ref().map_or(0, |derived| derived.streams_max),
        }
    }

    pub(super) const fn total(&self) -> u64 {
        (self.order_entry + self.market_data + self.admin + FILES + SOCKETS) as u64
    }

    /// The start raises a low soft limit, so the hard limit counts.
    pub(super) fn judge(&self, limit: Option<DescriptorLimit>) -> ResourceFinding {
        let total = self.total();
        let state = match limit {
            None => ResourceState::Unknown,
            Some(limit) if limit.hard < total => ResourceState::Short,
            Some(_) => ResourceState::Enough,
        };
        ResourceFinding {
            name: "descriptors",
            state,
            found: limit.map_or("not shown by this system".into(), |limit| {
                format!("a limit of {} open files", limit.hard)
            }),
            needed: format!(
                "{total}: {} connections of participants, {} of subscribers, {} of operators, {FILES} \
                 files, {SOCKETS} sockets",
                self.order_entry, self.market_data, self.admin
            ),
            lost: String::new(),
            remedy: format!(
                "raise the limit with `ulimit -n {total}` or LimitNOFILE={total} in the systemd unit, or \
                 lower order_entry.connections_max"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hard limit must be high enough, since the soft one is raised as needed. Otherwise the failure names the
    /// limit found, the limit needed and the remedy.
    #[test]
    fn descriptors_are_counted_before_the_start() {
        let needs = DescriptorNeeds::of(&Config::default());
        let total = needs.total();
        let judge = |soft, hard| needs.judge(Some(DescriptorLimit { soft, hard }));
        assert_eq!(judge(total, total).state, ResourceState::Enough);
        assert_eq!(judge(16, total).state, ResourceState::Enough);
        assert_eq!(needs.judge(None).state, ResourceState::Unknown);
        let short = [judge(16, total - 1)];
        let failure = super::super::warnings(&short).unwrap_err().to_string();
        assert!(failure.contains(&format!("limit of {} open files", total - 1)), "{failure}");
        assert!(failure.contains(&format!("needs {total}: 291 connections")), "{failure}");
        assert!(failure.contains(&format!("ulimit -n {total}")), "{failure}");
    }

    /// A burst of connections finds room in the kernel's table.
    #[test]
    fn descriptors_are_reserved_before_the_start() {
        let needs = DescriptorNeeds::of(&Config::default());
        reserve(&needs).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(size.trim().parse::<u64>().unwrap() >= needs.total(), "{size}");
    }

    /// More participants need more.
    #[test]
    fn connections_are_counted_by_the_configuration() {
        let text = |count: usize| {
            let participant = |number| {
                format!(
                    "[[participants]]\nusername = \"u{number}\"\npassword = \"p\"\nfirm = \"F\"\n"
                )
            };
            (0..count).map(participant).collect::<String>()
        };
        let config = Config::parse(&text(900), "venue.toml").unwrap();
        assert_eq!(config.connections(), 1024, "connections_max");
        assert_eq!(Config::parse(&text(10), "venue.toml").unwrap().connections(), 10 + 256);
    }
}
