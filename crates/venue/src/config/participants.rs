//! Participants: their names, firms, protocols and limits.

use std::{collections::BTreeSet, net::SocketAddr};

use gateway::PasswordHash;
use market::{Firm, SelfMatchPrevention, Text};
use serde::Deserialize;
use wire::fix::Version;

use super::Config;

/// `[[participants]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Login name, up to 6 characters, upper or lower case alike.
    pub username: String,
    /// The protocol of a participant with a password: `ouch` (default, over SoupBinTCP), `ouch42`, `sluice` or `fix`.
    #[serde(default)]
    pub protocol: ProtocolName,
    /// Password for SoupBinTCP, Sluice or FIX, up to 10 characters, upper or lower case alike, or its argon2 hash, as
    /// `damrak password` prints it. Required unless `udp` is given.
    #[serde(default)]
    pub password: Option<String>,
    /// The firms of its orders, each up to 4 characters, upper case: one, or a list. An order without
    /// a firm is for the first; an order of a firm that is not listed is rejected.
    pub firm: FirmNames,
    /// The address of a session that speaks OUCH over UDP without a login. Default none.
    #[serde(default, deserialize_with = "super::units::optional_address")]
    pub udp: Option<SocketAddr>,
    /// If true, all live orders of the session are canceled when its connection ends. Default
    /// false; not with `udp`, which has no connections.
    #[serde(default)]
    pub cancel_on_disconnect: bool,
    /// Maximum number of live orders; further ones are rejected. Default 100000.
    #[serde(default = "ParticipantConfig::default_live_orders")]
    pub live_orders_max: u32,
    /// Self-match prevention of orders that do not request their own. Default none.
    #[serde(default)]
    pub self_match_prevention: PreventionName,
    /// The account of its orders, by name. Default as in the journal; none at first.
    #[serde(default)]
    pub account: Option<String>,
    /// Makes the session a drop copy: it gets the execution reports of other sessions by FIX, and takes no orders.
    #[serde(default)]
    pub drop_copy: Option<DropCopyConfig>,
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

    /// The default firm in its wire form.
    ///
    /// # Errors
    /// As [`firms`](Self::firms).
    pub fn firm(&self) -> Result<Firm, String> {
        Ok(self.firms()?[0])
    }

    /// The firms in their wire form, at least one.
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

/// `[participants.drop_copy]`: the participants whose reports are copied, as a list, by their firms or by their
/// accounts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DropCopyConfig {
    /// Usernames.
    pub participants: Vec<String>,
    /// Firms: all participants with one of these as default firm.
    pub firms: Vec<String>,
    /// Accounts: all participants that name one of these.
    pub accounts: Vec<String>,
    /// The version of FIX that it speaks, unless a Logon resets its numbers: `4.2`, `4.4` or `5.0sp1`. Default `4.4`.
    pub version: FixVersionName,
}

/// A version of FIX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FixVersionName {
    #[serde(rename = "4.2")]
    Fix42,
    #[default]
    #[serde(rename = "4.4")]
    Fix44,
    #[serde(rename = "5.0sp1")]
    Fix50Sp1,
}

impl FixVersionName {
    /// The version.
    #[must_use]
    pub const fn version(self) -> Version {
        match self {
            Self::Fix42 => Version::Fix42,
            Self::Fix44 => Version::Fix44,
            Self::Fix50Sp1 => Version::Fix50Sp1,
        }
    }
}

impl DropCopyConfig {
    /// True if it copies this participant; a drop copy is not copied.
    #[must_use]
    pub fn copies(&self, participant: &ParticipantConfig) -> bool {
        let is_named =
            |names: &[String], name: &str| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        let firm = participant.firm().map(|firm| self.firms.iter().any(|it| it == firm.as_str()));
        participant.drop_copy.is_none()
            && (is_named(&self.participants, &participant.username)
                || firm.unwrap_or(false)
                || participant.account.as_ref().is_some_and(|it| self.accounts.contains(it)))
    }

    /// The fault of the drop copy in a row of these participants, if there is one.
    fn fault(&self, username: Text<6>, config: &Config) -> Option<String> {
        let rows = || config.participants.iter().filter(|row| row.drop_copy.is_none());
        let nobody = |key: &str,
                      names: &[String],
                      is_it: &dyn Fn(&ParticipantConfig, &str) -> bool| {
            let name = names.iter().find(|name| !rows().any(|row| is_it(row, name)))?;
            Some(format!(
                "participant {username}: drop_copy.{key} has {name:?}, which names no participant \
                 that enters orders: correct the name, or leave it out"
            ))
        };
        if self.participants.is_empty() && self.firms.is_empty() && self.accounts.is_empty() {
            return Some(format!(
                "participant {username}: drop_copy is empty: give it participants, firms or accounts"
            ));
        }
        nobody("participants", &self.participants, &|row, name| {
            row.username.eq_ignore_ascii_case(name)
        })
        .or_else(|| {
            nobody("firms", &self.firms, &|row, name| {
                row.firm().is_ok_and(|firm| firm.as_str() == name)
            })
        })
        .or_else(|| {
            nobody("accounts", &self.accounts, &|row, name| row.account.as_deref() == Some(name))
        })
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

/// The protocol of a participant with a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// OUCH 5.0 over SoupBinTCP.
    #[default]
    Ouch,
    /// OUCH 4.2 over SoupBinTCP.
    Ouch42,
    /// OUCH 5.0 by Sluice, sessions over UDP.
    Sluice,
    /// FIX 4.2, 4.4 or 5.0 SP1.
    Fix,
}

impl ProtocolName {
    /// The name for people, and the section that a venue needs for the protocol, unless the protocol is always
    /// available.
    const fn section(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Ouch => ("OUCH 5.0", None),
            Self::Ouch42 => ("OUCH 4.2", Some("order_entry_ouch42")),
            Self::Sluice => ("Sluice", Some("order_entry_sluice")),
            Self::Fix => ("FIX", Some("order_entry_fix")),
        }
    }
}

/// Self-match prevention: the effect in place of a trade of a participant with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreventionName {
    /// None: they trade.
    #[default]
    None,
    /// The rest of the incoming order is canceled.
    Newest,
    /// The resting order is canceled.
    Oldest,
    /// Both are canceled.
    Both,
    /// Both lose the quantity that they would have traded.
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
pub(super) fn is_example(username: &str, password: &str) -> bool {
    let number = username.to_ascii_lowercase().strip_prefix("user").map(str::to_owned);
    number.is_some_and(|number| password.strip_prefix("password") == Some(&*number))
}

/// Checks every participant; returns the names.
///
/// # Errors
/// A name or an address occurs twice, or a participant cannot log in by its row.
pub(super) fn check(config: &Config) -> Result<BTreeSet<Text<6>>, String> {
    let mut usernames = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for participant in &config.participants {
        let username = participant.username()?;
        if !usernames.insert(username) {
            return Err(format!("participant {username} is given twice"));
        }
        participant.firms()?;
        if let Some(drop_copy) = &participant.drop_copy {
            if participant.protocol != ProtocolName::Fix {
                return Err(format!(
                    "participant {username} is a drop copy and does not speak FIX: set protocol = \"fix\""
                ));
            }
            if let Some(fault) = drop_copy.fault(username, config) {
                return Err(fault);
            }
        }
        match (&participant.password, participant.udp) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "participant {username} has both password and udp: give one of them; a \
                     session with a password speaks over UDP by protocol = \"sluice\""
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
            (Some(hash), None) if PasswordHash::is_meant(hash) => {
                PasswordHash::read(hash)
                    .map_err(|error| format!("participant {username}: {error}"))?;
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
