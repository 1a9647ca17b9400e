//! Values with a unit, as a person writes them.

use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};

/// A number of bytes, written `64MiB`, `256KiB`, `1GiB` or `4096B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A length of time, written `250us`, `10ms` or `5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A number of things a second, written `200k/s`, `1M/s` or `500/s`; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// An exact decimal number with up to 4 decimals, counted in ten-thousandths (ticks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let scale: u64 = match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(format!("{text:?} is not a number of bytes like \"64MiB\"")),
        };
        let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a whole number"))?;
        number.checked_mul(scale).map(Self).ok_or_else(|| format!("{text:?} is too large"))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let nanos: u64 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            _ => return Err(format!("{text:?} is not a length of time like \"250us\" or \"5s\"")),
        };
        let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a whole number"))?;
        number
            .checked_mul(nanos)
            .map(|nanos| Self(Duration::from_nanos(nanos)))
            .ok_or_else(|| format!("{text:?} is too long"))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a rate like \"500/s\", \"200k/s\" or \"1M/s\"");
        let (number, unit) = split_unit(text);
        let scale: u64 = match unit {
            "/s" => 1,
            "k/s" => 1_000,
            "M/s" => 1_000_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(scale).filter(|rate| *rate > 0).map(Self).ok_or_else(wrong)
    }
}

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a decimal number with up to 4 decimals");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let fraction: u64 = format!("{fraction:0<4}").parse().map_err(|_| wrong())?;
        whole
            .checked_mul(10_000)
            .and_then(|ticks| ticks.checked_add(fraction))
            .map(Self)
            .ok_or_else(wrong)
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(at)
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
        for wrong in [".5", "5.", "1e8", "0.00001", "-1"] {
            assert!(wrong.parse::<Decimal>().is_err(), "{wrong:?}");
        }
    }
}
