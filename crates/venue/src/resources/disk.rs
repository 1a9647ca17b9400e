//! Room on the journal's disk, for a venue about to start.
//!
//! Invariant: a venue that starts has the room of `journal.free_min`; [`crate::stage::LoadShedding`] has its behavior
//! when the disk is full later.

use std::path::Path;

use super::{ResourceFinding, ResourceState};
use crate::{
    config::{Bytes, Config},
    pipeline,
};

/// Snapshots on disk at the same time: two are kept while a third is written.
const SNAPSHOTS: u64 = 3;

/// The most bytes of an order in a snapshot.
const ORDER_BYTES: u64 = 128;

#[derive(Clone, Copy, Debug)]
pub(super) struct DiskNeeds {
    /// The venue does not start with less, in bytes.
    least: u64,
    /// Bytes that the venue may use soon: the next two segments, and snapshots.
    soon: u64,
}

impl DiskNeeds {
    pub(super) fn of(config: &Config) -> Self {
        let settings = &config.snapshots;
        let orders = super::memory::live_orders(config);
        let snapshot = 2 * settings.replies.0 + ORDER_BYTES * orders;
        let snapshots =
            if pipeline::snapshot_plan(config).is_wanted() { SNAPSHOTS * snapshot } else { 0 };
        let soon = 2 * config.journal.segment.0 + snapshots;
        let least = config.journal.free_min.0;
        Self { least, soon: soon.max(least) }
    }

    pub(super) fn judge(&self, free: Option<u64>) -> ResourceFinding {
        let Self { least, soon } = *self;
        let state = match free {
            None => ResourceState::Unknown,
            Some(free) if free < least => ResourceState::Short,
            Some(free) if free < soon => ResourceState::Scarce,
            Some(_) => ResourceState::Enough,
        };
        let needed = match state {
            ResourceState::Short => format!("{} to start (journal.free_min)", Bytes(least)),
            _ => format!("{} for two segments and {SNAPSHOTS} snapshots", Bytes(soon)),
        };
        ResourceFinding {
            name: "disk",
            state,
            found: free.map_or("not shown by this system".into(), |free| {
                format!("{} free in journal.directory", Bytes(free))
            }),
            needed,
            lost: "new orders are rejected where it is full, until there is room".into(),
            remedy: "free some space, put journal.directory on a larger disk, or lower journal.segment, \
                     snapshots.replies or journal.free_min"
                .into(),
        }
    }
}

/// Free bytes on the disk of a folder that exists or will; `None` if the system does not report them.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let existing = folder.ancestors().find(|place| place.exists())?;
    os::free_bytes(existing).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Below the configured minimum a venue does not start; below the bytes that it may use soon, it warns.
    #[test]
    fn a_disk_without_room_is_found_before_the_start() {
        let mut config = Config::default();
        config.journal.free_min = Bytes(100 << 20);
        let needs = DiskNeeds::of(&config);
        // Two segments of 256 MiB, and three snapshots with 128 MiB of messages and 400,000 orders.
        let soon = (512 << 20) + 3 * ((128 << 20) + 400_000 * 128);
        assert_eq!((needs.least, needs.soon), (100 << 20, soon));
        for (free, state) in [
            (None, ResourceState::Unknown),
            (Some((100 << 20) - 1), ResourceState::Short),
            (Some(100 << 20), ResourceState::Scarce),
            (Some(soon - 1), ResourceState::Scarce),
            (Some(soon), ResourceState::Enough),
        ] {
            assert_eq!(needs.judge(free).state, state, "{free:?}");
        }
        let short = [needs.judge(Some(50 << 20))];
        let failure = super::super::warnings(&short).unwrap_err().to_string();
        assert!(failure.contains("disk: the machine has 50.0 MiB free"), "{failure}");
        assert!(failure.contains("needs 100.0 MiB to start (journal.free_min)"), "{failure}");
        assert!(failure.contains("free some space"), "{failure}");
    }

    /// A folder that does not exist yet is on the file system of its parent.
    #[test]
    fn a_missing_folder_is_where_its_parent_is() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("not/yet")).is_some());
        assert!(free_bytes(Path::new("relative/folder")).is_some());
    }
}
