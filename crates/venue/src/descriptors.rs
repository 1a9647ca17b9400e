//! The file descriptors of a venue, counted from its configuration and made sure of before it starts.
//!
//! Invariant: everything that takes descriptors while the venue runs has a bound, and the limit of the
//! system has room for all of them at once. So the journal can always open its next file.

use gateway::{ACCEPTED_MAX, SUBSCRIBERS_MAX};

use crate::{admin::CONNECTIONS_MAX, config::Config, failure::Failure};

/// Journal, snapshots and ledger: segments written and read, prepared and archived, folders, locks.
const FILES: usize = 48;

/// Standard streams, listeners, sockets, epoll and doorbells of threads, and the runtime of the admin API.
const SOCKETS: usize = 64;

/// Makes sure that the process may open as many files as the configuration needs; raises its limit
/// where that is allowed.
///
/// # Errors
/// The limit is too low and cannot be raised; the failure says what needs how many.
pub(crate) fn reserve(config: &Config) -> Result<(), Failure> {
    let limit = os::descriptor_limit().map_err(|error| {
        Failure::environment(format!("cannot read the limit of open files: {error}"))
    })?;
    match Needed::by(config).within(limit)? {
        None => Ok(()),
        Some(raised) => os::set_descriptor_limit(raised).map_err(|error| {
            Failure::environment(format!(
                "cannot raise the limit of open files to {raised}: {error}"
            ))
        }),
    }
}

/// File descriptors that the configuration needs.
pub fn needed(config: &Config) -> u64 {
    Needed::by(config).total()
}

struct Needed {
    order_entry: usize,
    market_data: usize,
    admin: usize,
}

impl Needed {
    fn by(config: &Config) -> Self {
        // Both doors have as many places, and as many again to answer that they are taken.
        let doors = if config.admin.address.is_some() { 2 } else { 1 };
        Self {
            // Some are accepted before older ones make room for them.
            order_entry: config.connections() + ACCEPTED_MAX,
            // Snapshots, the feed over TCP, and the streams.
            market_data: 2 * (SUBSCRIBERS_MAX + ACCEPTED_MAX) + config.market_data.streams.len(),
            admin: doors * 2 * CONNECTIONS_MAX,
        }
    }

    const fn total(&self) -> u64 {
        (self.order_entry + self.market_data + self.admin + FILES + SOCKETS) as u64
    }

    /// What the soft limit has to be raised to; nothing if it is enough.
    fn within(&self, limit: os::DescriptorLimit) -> Result<Option<u64>, Failure> {
        let total = self.total();
        if total <= limit.soft {
            return Ok(None);
        }
        if total <= limit.hard {
            return Ok(Some(total));
        }
        Err(Failure::environment(format!(
            "the system lets this process open {} files, and the configuration needs {total}: {} \
             connections of participants, {} of subscribers, {} of operators, {FILES} files, {SOCKETS} \
             sockets",
            limit.hard, self.order_entry, self.market_data, self.admin
        ))
        .hint(format!(
            "raise the limit with `ulimit -n {total}` or LimitNOFILE={total} in the systemd unit, or lower \
             order_entry.connections_max"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit is left as it is where it is enough, raised where that is allowed, and else the
    /// failure says what was found, what is needed and what to do.
    #[test]
    fn descriptors_are_counted_before_the_start() {
        let needed = Needed::by(&Config::default());
        let total = needed.total();
        let limit = |soft, hard| os::DescriptorLimit { soft, hard };
        assert_eq!(needed.within(limit(total, total)).unwrap(), None);
        assert_eq!(needed.within(limit(16, total)).unwrap(), Some(total));
        let failure = needed.within(limit(16, total - 1)).unwrap_err().to_string();
        assert!(failure.contains(&format!("open {} files", total - 1)), "{failure}");
        assert!(failure.contains(&format!("needs {total}: 291 connections")), "{failure}");
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
