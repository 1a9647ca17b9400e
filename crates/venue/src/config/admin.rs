//! The admin API and its operators.

use std::{collections::BTreeSet, net::SocketAddr};

use market::OperatorName;
use serde::Deserialize;

/// `[admin]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// The HTTP address, for example `127.0.0.1:26480`; port 0 takes a free one. Default none: no HTTP.
    /// Queries need no key, so an address that other machines reach is an error unless `anybody` is true.
    #[serde(deserialize_with = "super::units::optional_address")]
    pub address: Option<SocketAddr>,
    /// True: other machines may reach the address. Default false.
    pub anybody: bool,
    /// Operators with a key, who may give commands there. Default none; `damrak ctl` on this machine needs none.
    pub operators: Vec<OperatorConfig>,
}

impl AdminConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        let mut digests = BTreeSet::new();
        for operator in &self.operators {
            let (digest, name) = operator.key()?;
            if !names.insert(name) {
                return Err(format!("admin.operators: {name} is given twice"));
            }
            if !digests.insert(digest) {
                return Err(format!("admin.operators: {name} has the key of another operator"));
            }
        }
        let Some(address) = self.address else { return Ok(()) };
        if !address.ip().is_loopback() && !self.anybody {
            return Err(format!(
                "admin.address is {address}: other machines can reach it, and queries need no key; \
                 set admin.anybody to true to allow it"
            ));
        }
        Ok(())
    }
}

/// `[[admin.operators]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorConfig {
    /// The name, as the journal keeps it: up to 16 characters.
    pub name: String,
    /// The SHA-256 of the operator's key, 64 hexadecimal digits: `printf %s KEY | sha256sum`.
    pub key_sha256: String,
}

impl OperatorConfig {
    /// The digest of the key, and the name.
    pub fn key(&self) -> Result<([u8; 32], OperatorName), String> {
        let Self { name, key_sha256 } = self;
        let operator =
            OperatorName::new(name).filter(|name| !name.is_blank()).ok_or_else(|| {
                format!("admin.operators: name {name:?} is not 1 to 16 printable ASCII characters")
            })?;
        let mut digest = [0; 32];
        let is_digest = key_sha256.len() == 64 && key_sha256.is_ascii();
        let read = is_digest
            && digest.iter_mut().enumerate().all(|(index, byte)| {
                match u8::from_str_radix(&key_sha256[2 * index..2 * index + 2], 16) {
                    Ok(value) => {
                        *byte = value;
                        true
                    }
                    Err(_) => false,
                }
            });
        match read {
            true => Ok((digest, operator)),
            false => Err(format!(
                "admin.operators: {name}: key_sha256 is not 64 hexadecimal digits; \
                 `printf %s KEY | sha256sum` prints them"
            )),
        }
    }
}
