//! The addresses that may send re-requests, and their rate. A request is 20 bytes and its answer up to 1,400, and the
//! address of a datagram can be forged: without bounds the server would flood third parties.
//!
//! Invariant: an answer is sent only to an address of the allowed networks, within the bound of its origin and of all.
//! Memory is bounded, whatever addresses come.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use crate::{gate::Bucket, network::origin};

/// Origins remembered at a time; beyond that number the one whose last request is oldest is forgotten.
pub const REQUESTERS_MAX: usize = 512;

/// Addresses that begin with the same bits, written `10.0.0.0/8` or `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    bits: u32,
    is_v4: bool,
}

impl Network {
    const fn v4(a: u8, b: u8, bits: u32) -> Self {
        let address = Ipv4Addr::new(a, b, 0, 0).to_bits() as u128;
        Self { address, bits, is_v4: true }
    }

    const fn v6(first: u16, bits: u32) -> Self {
        let address = Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).to_bits();
        Self { address, bits, is_v4: false }
    }

    /// Loopback, private and link-local networks: no address of the internet.
    pub const LOCAL: [Self; 8] = [
        Self::v4(127, 0, 8),
        Self::v4(10, 0, 8),
        Self::v4(172, 16, 12),
        Self::v4(192, 168, 16),
        Self::v4(169, 254, 16),
        Self { address: 1, bits: 128, is_v4: false },
        Self::v6(0xfc00, 7),
        Self::v6(0xfe80, 10),
    ];

    fn contains(&self, address: IpAddr) -> bool {
        let (bits_of_address, (address, is_v4)) = match address.to_canonical() {
            IpAddr::V4(address) => (32, (u128::from(address.to_bits()), true)),
            IpAddr::V6(address) => (128, (address.to_bits(), false)),
        };
        let rest = bits_of_address - self.bits.min(bits_of_address);
        let begin = |address: u128| address.checked_shr(rest).unwrap_or(0);
        is_v4 == self.is_v4 && begin(address) == begin(self.address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network like \"10.0.0.0/8\" or \"fd00::/8\"");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let bits: u32 = bits.parse().map_err(|_| wrong())?;
        let (address, is_v4, bits_max) = match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => (u128::from(address.to_bits()), true, 32),
            IpAddr::V6(address) => (address.to_bits(), false, 128),
        };
        if bits > bits_max { Err(wrong()) } else { Ok(Self { address, bits, is_v4 }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_v4 {
            true => write!(f, "{}/{}", Ipv4Addr::from_bits(self.address as u32), self.bits),
            false => write!(f, "{}/{}", Ipv6Addr::from_bits(self.address), self.bits),
        }
    }
}

/// The limits of answered requests; a rate of 0 is no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The networks from which requests are answered.
    pub from: Vec<Network>,
    /// Answers a second to one address, of IPv6 to one /64; twice as many at once.
    pub per_second: u64,
    /// Answers a second to all; twice as many at once.
    pub total_per_second: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { from: Network::LOCAL.into(), per_second: 5_000, total_per_second: 50_000 }
    }
}

/// The recent requesters.
#[derive(Debug)]
pub(crate) struct Requesters {
    limits: RequestLimits,
    origins: BTreeMap<IpAddr, Bucket>,
    all: Bucket,
}

impl Requesters {
    pub(crate) fn new(limits: RequestLimits) -> Self {
        let all = Bucket::full(2 * limits.total_per_second);
        Self { limits, origins: BTreeMap::new(), all }
    }

    /// Origins that are remembered now.
    pub(crate) fn kept(&self) -> usize {
        self.origins.len()
    }

    /// True if a request from this address is to be answered now.
    pub(crate) fn may_ask(&mut self, from: SocketAddr, now_ns: u64) -> bool {
        if from.port() == 0 || !self.limits.from.iter().any(|it| it.contains(from.ip())) {
            return false;
        }
        let origin = origin(from.ip());
        if self.origins.len() >= REQUESTERS_MAX && !self.origins.contains_key(&origin) {
            let oldest = self.origins.iter().min_by_key(|(_, bucket)| bucket.at_ns());
            if let Some(oldest) = oldest.map(|(origin, _)| *origin) {
                self.origins.remove(&oldest);
            }
        }
        let RequestLimits { per_second, total_per_second, .. } = self.limits;
        let own = self.origins.entry(origin).or_insert_with(|| Bucket::full(2 * per_second));
        own.take(per_second, 2 * per_second, now_ns)
            && self.all.take(total_per_second, 2 * total_per_second, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Only addresses of the networks are answered, each within its bound and all together within the total bound.
    #[test]
    fn requests_are_bounded_by_origin_and_in_total() {
        let limits = RequestLimits { per_second: 10, total_per_second: 25, ..Default::default() };
        let mut requesters = Requesters::new(limits);
        let mut answered =
            |from: &str, now_ns| (0..1000).filter(|_| requesters.may_ask(at(from), now_ns)).count();
        for stranger in ["8.8.8.8:9", "224.0.0.1:9", "0.0.0.0:9", "10.0.0.1:0", "[2001:db8::1]:9"] {
            assert_eq!(answered(stranger, SECOND), 0, "{stranger}");
        }
        assert_eq!(answered("10.0.0.1:9", SECOND), 20);
        assert_eq!(answered("10.0.0.1:10", SECOND), 0, "another port is the same origin");
        assert_eq!(answered("[fd00::1]:9", SECOND), 20);
        assert_eq!(answered("127.0.0.1:9", SECOND), 10, "50 in total");
        assert_eq!(answered("10.0.0.1:9", 2 * SECOND), 10);
    }

    /// Forged addresses do not fill the memory.
    #[test]
    fn memory_of_requesters_is_bounded() {
        let mut requesters = Requesters::new(RequestLimits::default());
        for number in 0..5_000_u32 {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + number);
            requesters.may_ask(SocketAddr::from((address, 9)), u64::from(number));
        }
        assert_eq!(requesters.origins.len(), REQUESTERS_MAX);
    }

    /// A network is its address and the number of bits that count.
    #[test]
    fn networks_are_read_and_contain() {
        let network = |text: &str| text.parse::<Network>().unwrap();
        assert!(network("10.1.0.0/16").contains("10.1.2.3".parse().unwrap()));
        assert!(!network("10.1.0.0/16").contains("10.2.2.3".parse().unwrap()));
        assert!(network("0.0.0.0/0").contains("8.8.8.8".parse().unwrap()));
        assert!(!network("0.0.0.0/0").contains("::2".parse().unwrap()));
        assert!(network("10.0.0.7/32").contains("::ffff:10.0.0.7".parse().unwrap()));
        assert_eq!(network("fd00::/8").to_string(), "fd00::/8");
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8"] {
            assert!(wrong.parse::<Network>().unwrap_err().contains("is not a network"));
        }
    }
}
