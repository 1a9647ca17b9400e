//! The store of the ledger.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{DurabilityConfig, Span};

/// `[ledger]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerConfig {
    /// `none` (default), `embedded` (one file, nothing to install), `sqlite` (one file; only where
    /// damrak was built with it) or `postgres` (a server).
    pub store: LedgerStoreName,
    /// The file of an embedded store or of SQLite. Default `damrak-ledger.redb`.
    pub path: PathBuf,
    /// The server, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    pub url: String,
    /// The longest time that a row waits until it is committed together with others. Default `100ms`.
    pub commit_interval: Span,
}

impl LedgerConfig {
    pub fn is_kept(&self) -> bool {
        self.store != LedgerStoreName::None
    }

    pub(super) fn check(&self, durability: DurabilityConfig) -> Result<(), String> {
        if !self.is_kept() {
            return Ok(());
        }
        if durability == DurabilityConfig::None {
            return Err(
                "a ledger needs journal.durability written or synced: with none it could hold \
                        rows of inputs that the journal lost"
                    .into(),
            );
        }
        match self.store {
            LedgerStoreName::Sqlite if cfg!(not(feature = "sqlite")) => Err(not_built("sqlite")),
            #[cfg(feature = "postgres")]
            LedgerStoreName::Postgres => crate::ledger::postgres::Postgres::check_url(&self.url)
                .map_err(|what| format!("ledger.url: {what}")),
            #[cfg(not(feature = "postgres"))]
            LedgerStoreName::Postgres => Err(not_built("postgres")),
            _ => Ok(()),
        }
    }
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            store: LedgerStoreName::None,
            path: "damrak-ledger.redb".into(),
            url: String::new(),
            commit_interval: Span(Duration::from_millis(100)),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerStoreName {
    #[default]
    None,
    Embedded,
    Sqlite,
    Postgres,
}

fn not_built(feature: &str) -> String {
    format!(
        "ledger.store is {feature}, and this damrak was built without it; build it with \
         `cargo build --release --features {feature}`"
    )
}
