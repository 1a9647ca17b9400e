//! `[journal]` and `[snapshots]`: place, durability and retention of a venue's records.

use std::{path::PathBuf, time::Duration};

use journal::{Durability, Folder, Method};
use serde::{Deserialize, Serialize};

use super::{Bytes, Span};
use crate::failure::Failure;

/// `[journal]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// The folder of the journal; made if missing. Default `damrak-data`.
    pub directory: PathBuf,
    /// The durability of a command before its reply is sent. `none`: the reply does not wait for the
    /// journal. `written` (default): the command survives a crash of the venue. `synced`: it survives a
    /// crash of the machine.
    pub durability: DurabilityConfig,
    /// How `synced` reaches the disk: `buffered` (page cache and `fdatasync`), `direct` (past it,
    /// `O_DIRECT|O_DSYNC`), `buffered-uring` and `direct-uring` (the same by io_uring), or `auto`
    /// (default): direct if the folder's file system supports it, which was the fastest where we measured
    /// (`damrak bench journal`), else buffered; the start prints the method. Other durabilities are
    /// buffered.
    pub method: MethodName,
    /// New orders are rejected while commands wait for the journal longer than this; `0s`: never.
    /// Default `2s`.
    pub slow: Span,
    /// A new file is begun when one is this long. Default `256MiB`.
    pub segment: Bytes,
    /// The free space in the folder that a start requires; `0B`: none. Default `256MiB`.
    pub free_min: Bytes,
    /// Inputs between two event digests in the journal, which a replay compares; 0: none.
    /// Default 4096.
    pub digest_every: u64,
}

/// `[snapshots]`: files beside the segments of the journal.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotsConfig {
    /// A snapshot is made after this many inputs since the last one. Default 10000000; 0: never.
    pub inputs: u64,
    /// A snapshot is made when the last one is this old, if there were inputs since. Default `15min`; `0s`: never.
    pub time: Span,
    /// Bytes of replies in a snapshot, and as many of the feed, the newest of each: clients can request
    /// these messages again after a start from it. Default `64MiB`.
    pub replies: Bytes,
    /// The treatment of journal segments that both snapshots cover. `keep` (default): they are kept.
    /// `archive`: they are compressed, and a replay from the first record still reads them. `remove`:
    /// they are removed.
    pub old_segments: OldSegments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OldSegments {
    Keep,
    Archive,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityConfig {
    /// Replies do not wait for the journal; a crash may lose them.
    None,
    /// Replies survive the process.
    Written,
    /// Replies survive the machine.
    Synced,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    #[default]
    Auto,
    Buffered,
    Direct,
    BufferedUring,
    DirectUring,
}

impl JournalConfig {
    /// The method of writing the journal's files.
    ///
    /// # Errors
    /// The folder does not support the configured method.
    pub fn method(&self) -> Result<Method, Failure> {
        if self.durability != DurabilityConfig::Synced {
            return Ok(Method::Buffered);
        }
        let asked = match self.method {
            MethodName::Auto => {
                let probed = Folder::probe(&self.directory, Method::Direct);
                return Ok(probed.map_or(Method::Buffered, |()| Method::Direct));
            }
            MethodName::Buffered => return Ok(Method::Buffered),
            MethodName::Direct => Method::Direct,
            MethodName::BufferedUring => Method::BufferedUring,
            MethodName::DirectUring => Method::DirectUring,
        };
        Folder::probe(&self.directory, asked).map(|()| asked).map_err(|error| {
            let (folder, method) = (self.directory.display(), asked.as_str());
            Failure::environment(format!(
                "journal.method: files in {folder} cannot be written {method}: {error}"
            ))
            .hint("set it to \"auto\" or \"buffered\"")
        })
    }
}

impl From<DurabilityConfig> for Durability {
    fn from(config: DurabilityConfig) -> Self {
        match config {
            DurabilityConfig::None => Self::None,
            DurabilityConfig::Written => Self::Written,
            DurabilityConfig::Synced => Self::Synced,
        }
    }
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            directory: "damrak-data".into(),
            durability: DurabilityConfig::Written,
            method: MethodName::Auto,
            slow: Span(Duration::from_secs(2)),
            segment: Bytes(256 << 20),
            free_min: Bytes(256 << 20),
            digest_every: 4096,
        }
    }
}

impl Default for SnapshotsConfig {
    fn default() -> Self {
        Self {
            inputs: 10_000_000,
            time: Span(Duration::from_secs(15 * 60)),
            replies: Bytes(64 << 20),
            old_segments: OldSegments::Keep,
        }
    }
}
