//! Values with a unit in configuration files and options.

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs as _},
    str::FromStr,
    time::Duration,
};

use market::parse_decimal;
use serde::{Deserialize, Deserializer, de::Error as _};

/// A number of bytes, written `64MiB`, `256KiB`, `1GiB` or `4096B`; for people it is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A length of time, written `250us`, `10ms` or `5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A number of things a second, written `200k/s`, `1M/s` or `500/s`; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// An exact decimal number with up to 4 decimals, counted in ten-thousandths (ticks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal(pub u64);

/// Decimals of a price.
pub(crate) const PRICE_DECIMALS: u8 = 4;

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
        scaled(text, &units, "a number of bytes like \"64MiB\"").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = match self.0 {
            0..0x40_0000 => ("KiB", 1 << 10),
            0x40_0000..0x4000_0000 => ("MiB", 1 << 20),
            _ => ("GiB", 1 << 30),
        };
        write!(f, "{:.1} {unit}", self.0 as f64 / f64::from(size))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("min", 60_000_000_000),
        ];
        let nanos = scaled(text, &units, "a length of time like \"250us\" or \"5s\"")?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("/s", 1), ("k/s", 1_000), ("M/s", 1_000_000)];
        match scaled(text, &units, "a rate like \"500/s\", \"200k/s\" or \"1M/s\"")? {
            0 => Err(format!("{text:?} is not a rate: it must be above 0")),
            rate => Ok(Self(rate)),
        }
    }
}

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_decimal(text, PRICE_DECIMALS).map(Self).map_err(|error| error.to_string())
    }
}

/// A whole number multiplied by one of the units; `like` is the expected form in an error.
fn scaled(text: &str, units: &[(&str, u64)], like: &str) -> Result<u64, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| scale);
    let scale = scale.filter(|_| !number.is_empty());
    let scale = scale.ok_or_else(|| format!("{text:?} is not {like}"))?;
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*scale));
    number.ok_or_else(|| format!("{text:?} is too large"))
}

/// A decimal number in whole units; `key` names it in an error.
pub(crate) fn decimal<T: TryFrom<u128>>(text: &str, decimals: u8, key: &str) -> Result<T, String> {
    parse_decimal(text, decimals).map_err(|error| format!("{key}: {error}"))
}

/// An address: numbers, or the name of a host with a port, which is looked up now; of several addresses the first IPv4
/// one.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    resolve(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// As [`address`], for a key that may be missing.
pub(super) fn optional_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let like = "an address with a port like \"127.0.0.1:26400\", \"[::1]:26400\" or \"venue.example:26400\"";
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not {like}"))?;
    let port: u16 = port.parse().map_err(|_| format!("{text:?} is not {like}"))?;
    if host.is_empty() || host.contains([':', '[', ']', ' ']) {
        return Err(format!("{text:?} is not {like}"));
    }
    let found = (host, port).to_socket_addrs();
    let found: Vec<_> = found
        .map_err(|error| format!("cannot look up the address of {host:?}: {error}"))?
        .collect();
    let first = found.iter().find(|it| it.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("the host {host:?} has no address"))
}

macro_rules! deserialize_from_str {
    ($($name:ident)*) => { $(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )* };
}

deserialize_from_str! { Bytes Span Decimal }

#[cfg(test)]
mod tests {
    use super::*;

    /// An address is numbers, or the name of a host, which is looked up.
    #[test]
    fn hosts_have_names() {
        assert_eq!(resolve("127.0.0.1:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert_eq!(resolve("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        let local = resolve("localhost:80").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 80, "{local}");
        for wrong in ["localhost", "localhost:", "localhost:99999", ":80", "::1:80", "a b:80", ""] {
            let error = resolve(wrong).unwrap_err();
            assert!(error.contains("is not an address with a port"), "{wrong:?}: {error}");
        }
    }

    /// Units are part of the value.
    #[test]
    fn units_are_spelled_out() {
        assert_eq!("64MiB".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("250us".parse(), Ok(Span(Duration::from_micros(250))));
        assert_eq!("200k/s".parse(), Ok(Rate(200_000)));
        assert!("0/s".parse::<Rate>().is_err());
        assert_eq!("0.01".parse(), Ok(Decimal(100)));
        assert_eq!("12.3456".parse(), Ok(Decimal(123_456)));
        for wrong in ["64", "64MB", ""] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong:?}");
        }
        assert!("0.00001".parse::<Decimal>().is_err());
    }
}
