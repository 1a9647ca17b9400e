//! The resources of a venue: descriptors, memory and disk. The need follows from the configuration, and is compared with
//! the machine before the start, by `serve --check` and by `damrak doctor`.
//!
//! Invariant: a venue that is certain to run out of a resource does not start, and the failure has the amount found, the
//! amount needed and the remedy. A shortage that only the worst behavior of all participants could cause is a warning.

mod descriptors;
mod disk;
mod memory;

use std::path::Path;

use os::{DescriptorLimit, SystemFiles};

use self::{descriptors::DescriptorNeeds, disk::DiskNeeds, memory::MemoryNeeds};
use crate::{config::Config, failure::Failure};

pub use self::memory::MemoryOffer;

/// The resources that a configuration needs.
#[derive(Clone, Debug)]
pub struct ResourceNeeds {
    descriptors: DescriptorNeeds,
    memory: MemoryNeeds,
    disk: DiskNeeds,
}

/// The resources of the machine; `None` where the machine does not report one.
#[derive(Clone, Copy, Debug)]
pub struct ResourceOffer {
    pub descriptors: Option<DescriptorLimit>,
    pub memory: MemoryOffer,
    /// Free bytes on the disk of the journal.
    pub disk_bytes: Option<u64>,
}

/// The state of a resource, need against offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceState {
    Enough,
    /// Enough for the start, but it may run out later.
    Scarce,
    /// Too little: the venue does not start.
    Short,
    /// The system does not report it.
    Unknown,
}

/// The result for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFinding {
    pub name: &'static str,
    pub state: ResourceState,
    pub found: String,
    pub needed: String,
    /// The consequence of a shortage.
    pub lost: String,
    pub remedy: String,
}

impl ResourceNeeds {
    pub fn of(config: &Config) -> Self {
        Self {
            descriptors: DescriptorNeeds::of(config),
            memory: MemoryNeeds::of(config),
            disk: DiskNeeds::of(config),
        }
    }

    /// Compares the needs with an offer: descriptors, memory and disk, in this order.
    pub fn examine(&self, offer: &ResourceOffer) -> [ResourceFinding; 3] {
        [
            self.descriptors.judge(offer.descriptors),
            self.memory.judge(&offer.memory),
            self.disk.judge(offer.disk_bytes),
        ]
    }
}

impl ResourceOffer {
    /// The resources that the system files report, and the free space at a folder, which may not exist yet.
    pub fn of(files: &SystemFiles, folder: &Path) -> Self {
        let limit = files.limit("Max open files").zip(files.hard_limit("Max open files"));
        Self {
            descriptors: limit.map(|(soft, hard)| DescriptorLimit { soft, hard }),
            memory: MemoryOffer::of(files, os::memory::reserved_bytes()),
            disk_bytes: disk::free_bytes(folder),
        }
    }
}

/// Compares this machine with the needs of a configuration.
pub fn examine(config: &Config) -> [ResourceFinding; 3] {
    let offer = ResourceOffer::of(&SystemFiles::of_this_machine(), &config.journal.directory);
    ResourceNeeds::of(config).examine(&offer)
}

/// Secures the resources before a start: raises the limit of open files if needed, and makes the kernel's table of them
/// large enough. Returns the warnings.
///
/// # Errors
/// The machine has less than the configuration certainly needs.
pub(crate) fn reserve(config: &Config) -> Result<Vec<String>, Failure> {
    let findings = examine(config);
    let warnings = warnings(&findings)?;
    descriptors::reserve(&DescriptorNeeds::of(config))?;
    Ok(warnings)
}

/// The warnings of findings.
///
/// # Errors
/// A resource is short.
pub fn warnings(findings: &[ResourceFinding]) -> Result<Vec<String>, Failure> {
    if let Some(short) = findings.iter().find(|it| it.state == ResourceState::Short) {
        let ResourceFinding { name, found, needed, remedy, .. } = short;
        return Err(Failure::environment(format!(
            "{name}: the machine has {found}, and the configuration needs {needed}"
        ))
        .hint(remedy));
    }
    let scarce = findings.iter().filter(|it| it.state == ResourceState::Scarce);
    let text = |it: &ResourceFinding| {
        let ResourceFinding { name, found, needed, lost, remedy, .. } = it;
        format!(
            "{name}: the machine has {found}, and {needed} are needed at most: {lost}; {remedy}"
        )
    };
    Ok(scarce.map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with enough of everything starts the default configuration without a warning. So does one that reports
    /// nothing, since a missing figure is no shortage.
    #[test]
    fn enough_and_unknown_start() {
        let needs = ResourceNeeds::of(&Config::default());
        let plenty = ResourceOffer {
            descriptors: Some(DescriptorLimit { soft: 1 << 20, hard: 1 << 20 }),
            memory: MemoryOffer {
                total: Some(1 << 40),
                available: Some(1 << 40),
                ..Default::default()
            },
            disk_bytes: Some(1 << 40),
        };
        let findings = needs.examine(&plenty);
        assert!(findings.iter().all(|it| it.state == ResourceState::Enough), "{findings:#?}");
        assert_eq!(warnings(&findings).unwrap(), [""; 0]);
        let nothing =
            ResourceOffer { descriptors: None, memory: MemoryOffer::default(), disk_bytes: None };
        let findings = needs.examine(&nothing);
        assert!(findings.iter().all(|it| it.state == ResourceState::Unknown), "{findings:#?}");
        assert_eq!(warnings(&findings).unwrap(), [""; 0]);
    }
}
