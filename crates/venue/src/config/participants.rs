//! Participants: their names, firms, protocols and limits.

use std::{collections::BTreeSet, net::SocketAddr};

use market::{Firm, SelfMatchPrevention, Text};
use serde::Deserialize;

use super::Config;

/// `[[participants]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Login name, up to 6 characters, upper or lower case alike.
    pub username: String,
    /// The protocol of a participant with a password: `ouch` (default, over SoupBinTCP), `ouch42` or `fix`.
    #[serde(default)]
    pub protocol: ProtocolName,
    /// Password for SoupBinTCP or FIX, up to 10 characters, upper or lower case alike. Required unless
    /// `udp` is given.
    #[serde(default)]
    pub password: Option<String>,
    /// The firms of its orders, each up to 4 characters, upper case: one, or a list. The first is meant
    /// by an order without a firm; an order of a firm that is not here is rejected.
    pub firm: FirmNames,
    /// If given, the session speaks OUCH over UDP from this address, and only so.
    #[serde(default)]
    pub udp: Option<SocketAddr>,
    /// If true, all live orders of the session are canceled when its connection ends. Default
    /// false; not with `udp`, which has no connections.
    #[serde(default)]
    pub cancel_on_disconnect: bool,
    /// Live orders at a time, more are rejected. Default 100000.
    #[serde(default = "ParticipantConfig::default_live_orders")]
    pub live_orders_max: u32,
    /// Self-match prevention of orders that do not request their own. Default none.
    #[serde(default)]
    pub self_match_prevention: PreventionName,
    /// The account of its orders, by name. Default as in the journal; none at first.
    #[serde(default)]
    pub account: Option<String>,
}

impl ParticipantConfig {
    pub(super) const fn default_live_orders() -> u32 {
        100_000
    }
}

impl ParticipantConfig {
    /// The login name in its wire form, upper case.
    pub fn username(&self) -> Result<Text<6>, String> {
        Text::new(&self.username.to_ascii_uppercase()).filter(|name| !name.is_blank()).ok_or_else(
            || format!("username {:?} is not 1 to 6 printable ASCII characters", self.username),
        )
    }

    /// Its default firm in its wire form.
    ///
    /// # Errors
    /// As [`firms`](Self::firms).
    pub fn firm(&self) -> Result<Firm, String> {
        Ok(self.firms()?[0])
    }

    /// Its firms in their wire form, at least one.
    ///
    /// # Errors
    /// There is none, or one is empty, too long or not upper case.
    pub fn firms(&self) -> Result<Vec<Firm>, String> {
        let names = match &self.firm {
            FirmNames::One(name) => std::slice::from_ref(name),
            FirmNames::Many(names) => names.as_slice(),
        };
        if names.is_empty() {
            return Err(format!("participant {} has no firm: name one", self.username));
        }
        let firm = |name: &String| {
            Firm::new(name)
                .filter(|firm| !firm.is_blank() && !name.bytes().any(|b| b.is_ascii_lowercase()))
                .ok_or_else(|| {
                    let username = &self.username;
                    format!(
                        "participant {username}: firm {name:?} is not 1 to 4 upper-case characters"
                    )
                })
        };
        names.iter().map(firm).collect()
    }
}

/// One firm, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "firm must be a name such as \"FIRM\", or a list of names")]
pub enum FirmNames {
    /// One.
    One(String),
    /// The default first.
    Many(Vec<String>),
}

/// What a participant with a password speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// OUCH 5.0 over SoupBinTCP.
    #[default]
    Ouch,
    /// OUCH 4.2 over SoupBinTCP.
    Ouch42,
    /// FIX 4.2 or 4.4.
    Fix,
}

impl ProtocolName {
    /// The name for people, and the section that a venue needs for it, unless it always has it.
    const fn section(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Ouch => ("OUCH 5.0", None),
            Self::Ouch42 => ("OUCH 4.2", Some("order_entry_ouch42")),
            Self::Fix => ("FIX", Some("order_entry_fix")),
        }
    }
}

/// What happens instead of a trade of a participant with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreventionName {
    /// Nothing: they trade.
    #[default]
    None,
    /// What is left of the incoming order is canceled.
    Newest,
    /// The resting order is canceled.
    Oldest,
    /// Both are canceled.
    Both,
    /// Both lose what they would have traded.
    Decrement,
}

impl PreventionName {
    pub const ALL: [Self; 5] =
        [Self::None, Self::Newest, Self::Oldest, Self::Both, Self::Decrement];

    pub const fn prevention(self) -> SelfMatchPrevention {
        match self {
            Self::None => SelfMatchPrevention::Off,
            Self::Newest => SelfMatchPrevention::CancelNewest,
            Self::Oldest => SelfMatchPrevention::CancelOldest,
            Self::Both => SelfMatchPrevention::CancelBoth,
            Self::Decrement => SelfMatchPrevention::DecrementBoth,
        }
    }
}

/// True for a participant of the default configuration or of the examples.
fn is_example(username: &str, password: &str) -> bool {
    let number = username.to_ascii_lowercase().strip_prefix("user").map(str::to_owned);
    number.is_some_and(|number| password.strip_prefix("password") == Some(&*number))
}

/// Checks every participant; returns the names.
///
/// # Errors
/// A name or an address occurs twice, or a participant cannot log in with what its row says.
pub(super) fn check(config: &Config) -> Result<BTreeSet<Text<6>>, String> {
    let mut usernames = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for participant in &config.participants {
        let username = participant.username()?;
        if !usernames.insert(username) {
            return Err(format!("participant {username} is given twice"));
        }
        participant.firms()?;
        match (&participant.password, participant.udp) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "participant {username} has both password and udp: a session speaks one \
                     of SoupBinTCP and UDP"
                ));
            }
            (None, None) => {
                return Err(format!("participant {username} has neither password nor udp"));
            }
            (None, _) if participant.protocol != ProtocolName::Ouch => {
                let (name, _) = participant.protocol.section();
                return Err(format!(
                    "participant {username} speaks {name} and has no password: give it one"
                ));
            }
            (Some(_), None) if !config.has_port(participant.protocol) => {
                let (name, section) = participant.protocol.section();
                return Err(format!(
                    "participant {username} speaks {name}, and there is no [{}]: add it, or leave \
                     out protocol",
                    section.unwrap_or_default()
                ));
            }
            (Some(password), None)
                if (!config.address_of(participant.protocol).ip().is_loopback()
                    || config.market_data.is_reachable())
                    && is_example(&participant.username, password) =>
            {
                return Err(format!(
                    "participant {username} has the password of the examples, which is \
                     public, and other machines reach {}, market_data.snapshot {} or \
                     market_data.tcp {}: choose another password, or addresses of 127.0.0.1",
                    config.address_of(participant.protocol),
                    config.market_data.snapshot,
                    config.market_data.tcp
                ));
            }
            (Some(password), None) => {
                Text::<10>::new(password).filter(|text| !text.is_blank()).ok_or_else(|| {
                    format!("participant {username}: password is not 1 to 10 characters")
                })?;
            }
            (None, Some(_)) if participant.cancel_on_disconnect => {
                return Err(format!(
                    "participant {username}: cancel_on_disconnect is not for udp, which has \
                     no connections"
                ));
            }
            (None, Some(address)) => {
                if !addresses.insert(address) {
                    return Err(format!("udp address {address} is given twice"));
                }
            }
        }
    }
    Ok(usernames)
}
