//! Addresses with too many bad logins, and until when they are shut out.
//!
//! Invariant: its memory is bounded, whatever addresses come.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

/// Addresses remembered at a time; beyond that the one that failed longest ago is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// Which addresses had so many bad logins of late that they are shut out.
#[derive(Debug)]
pub(super) struct BadLogins {
    limit: usize,
    window_ns: u64,
    shut_out_ns: u64,
    addresses: BTreeMap<IpAddr, Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// When, oldest first; none older than the window when the newest was added.
    failures_ns: VecDeque<u64>,
    last_ns: u64,
    shut_out_until_ns: u64,
}

impl BadLogins {
    /// After `limit` bad logins within `window_ns`, an address is shut out for `shut_out_ns`.
    pub(super) const fn new(limit: usize, window_ns: u64, shut_out_ns: u64) -> Self {
        Self { limit, window_ns, shut_out_ns, addresses: BTreeMap::new() }
    }

    /// A login from this address was bad.
    pub(super) fn record(&mut self, address: IpAddr, now_ns: u64) {
        let address = origin(address);
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            let oldest = self.addresses.iter().min_by_key(|(_, record)| record.last_ns);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.addresses.remove(&oldest);
            }
        }
        let record = self.addresses.entry(address).or_default();
        record.last_ns = now_ns;
        record.failures_ns.push_back(now_ns);
        while record.failures_ns.front().is_some_and(|first| first + self.window_ns <= now_ns) {
            record.failures_ns.pop_front();
        }
        if record.failures_ns.len() >= self.limit {
            record.failures_ns.clear();
            record.shut_out_until_ns = now_ns + self.shut_out_ns;
        }
    }

    /// True while connections from this address are to be closed.
    pub(super) fn shuts_out(&self, address: IpAddr, now_ns: u64) -> bool {
        self.addresses.get(&origin(address)).is_some_and(|record| now_ns < record.shut_out_until_ns)
    }
}

/// What one client cannot change at will: the address, or of IPv6 its network of 64 bits.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Five bad logins within a minute shut an address out for a minute; four, or slower, do not.
    #[test]
    fn five_in_a_minute_shut_an_address_out() {
        let mut bad_logins = BadLogins::new(5, 60 * SECOND, 60 * SECOND);
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        for second in 0..4 {
            bad_logins.record(address, second * SECOND);
        }
        assert!(!bad_logins.shuts_out(address, 4 * SECOND));
        bad_logins.record(address, 61 * SECOND);
        assert!(!bad_logins.shuts_out(address, 61 * SECOND));
        // Those of seconds 2 and 3 and 61 still count.
        bad_logins.record(address, 61 * SECOND);
        assert!(!bad_logins.shuts_out(address, 61 * SECOND));
        bad_logins.record(address, 61 * SECOND);
        assert!(bad_logins.shuts_out(address, 61 * SECOND));
        assert!(!bad_logins.shuts_out("10.0.0.2".parse().unwrap(), 61 * SECOND));
        assert!(!bad_logins.shuts_out(address, (61 + 60) * SECOND));
    }

    /// One network of IPv6 is one origin, and an IPv4 address is the same in either form.
    #[test]
    fn an_origin_is_what_a_client_cannot_change() {
        let mut bad_logins = BadLogins::new(1, SECOND, SECOND);
        bad_logins.record("2001:db8::1".parse().unwrap(), 0);
        assert!(bad_logins.shuts_out("2001:db8::ffff".parse().unwrap(), 0));
        assert!(!bad_logins.shuts_out("2001:db8:0:1::1".parse().unwrap(), 0));
        bad_logins.record("10.0.0.1".parse().unwrap(), 0);
        assert!(bad_logins.shuts_out("::ffff:10.0.0.1".parse().unwrap(), 0));
    }

    /// What is remembered is bounded, and the most recent stays.
    #[test]
    fn memory_of_addresses_is_bounded() {
        let mut bad_logins = BadLogins::new(1, SECOND, 1000 * SECOND);
        for number in 0..10_000_u32 {
            bad_logins.record(IpAddr::from(number.to_be_bytes()), u64::from(number));
        }
        assert_eq!(bad_logins.addresses.len(), ADDRESSES_MAX);
        assert!(bad_logins.shuts_out(IpAddr::from(9_999_u32.to_be_bytes()), 10_000));
    }
}
