//! Damages the journal of a simulated venue and checks that a start notices.

use std::{collections::BTreeMap, io::ErrorKind};

use engine::Engine;
use journal::{
    Crash, CrashStorage, DiskOperation, Durability, Fault, RecordKind, Storage, WriterOptions,
};
use market::{EventDigest, Input};

use super::faults::{DAMAGED_STARTS, FaultKind, Faults, Judged};
use crate::audit::Digest;
use venue::{
    config::{Config, DurabilityConfig},
    failure::ExitCode,
    recovery,
    snapshot::VenueState,
};

/// The venue's disk, its faults, and the checks of the venue's start after them.
pub struct Disk {
    storage: CrashStorage,
    /// A prepared fault that waits for its operation, with the number of faults that struck before.
    prepared: Option<(FaultKind, u64)>,
    /// True after a failure for which a venue stops.
    has_failed: bool,
    full_until: Option<u64>,
    power_cut: Option<FaultKind>,
}

/// An input as a journal has it.
type Entry = (u64, u64, Digest);

impl Disk {
    pub fn new() -> Self {
        Self {
            storage: CrashStorage::new(),
            prepared: None,
            has_failed: false,
            full_until: None,
            power_cut: None,
        }
    }

    pub fn storage(&self) -> &CrashStorage {
        &self.storage
    }

    /// May a venue stop because of this disk?
    pub fn may_fail(&self) -> bool {
        self.has_failed || self.full_until.is_some() || self.storage.damage_count() > 0
    }

    /// Applies the faults that strike now.
    pub fn suffer(&mut self, faults: &mut Faults, tick: u64) {
        self.count_prepared(faults);
        if self.full_until.is_some_and(|until| until <= tick) {
            self.recover_room();
        }
        let write = DiskOperation::Write;
        if faults.strikes(FaultKind::TornWrite) {
            let bytes = faults.below(FaultKind::TornWrite, 5_000);
            self.storage.fault_next(write, Fault::Stop { bytes });
        }
        if faults.strikes(FaultKind::StoppedOperation) {
            let operations = [
                DiskOperation::List,
                DiskOperation::Create,
                DiskOperation::Open,
                DiskOperation::Remove,
                DiskOperation::Rename,
                DiskOperation::SyncFolder,
                DiskOperation::Read,
                DiskOperation::Sync,
                DiskOperation::Sync,
            ];
            let at = faults.below(FaultKind::StoppedOperation, operations.len() as u64);
            self.storage.fault_next(operations[at as usize], Fault::Stop { bytes: 0 });
        }
        let kind = ErrorKind::Other;
        if faults.strikes(FaultKind::FailedWrite) {
            let bytes = faults.below(FaultKind::FailedWrite, 5_000);
            self.storage.fault_next(write, Fault::Fail { kind, bytes });
            self.has_failed = true;
        }
        if faults.strikes(FaultKind::FailedSync) {
            self.storage.fault_next(DiskOperation::Sync, Fault::Fail { kind, bytes: 0 });
            self.has_failed = true;
        }
        if self.full_until.is_none() && faults.strikes(FaultKind::FullDisk) {
            let names = self.storage.names();
            let used = names.iter().map(|name| self.storage.bytes(name).map_or(0, |it| it.len()));
            let room = faults.below(FaultKind::FullDisk, 100_000);
            self.storage.set_capacity(Some(used.sum::<usize>() as u64 + room));
            self.full_until = Some(tick + 1 + faults.below(FaultKind::FullDisk, 1_000));
        }
        let damages = [
            FaultKind::LyingSync,
            FaultKind::LostWrite,
            FaultKind::MisdirectedWrite,
            FaultKind::CorruptedWrite,
        ];
        for kind in damages {
            if self.prepared.is_none() && faults.wants(kind) {
                let (operation, fault) = match kind {
                    FaultKind::LyingSync => (DiskOperation::Sync, Fault::Lose),
                    FaultKind::LostWrite => (write, Fault::Lose),
                    FaultKind::MisdirectedWrite => {
                        // Storage media misdirect whole sectors.
                        let sectors = faults.below(kind, 40);
                        (write, Fault::Misdirect { offset: 512 * sectors })
                    }
                    _ => {
                        let byte = faults.below(kind, 1 << 20);
                        let mask = 1 << faults.below(kind, 8);
                        (write, Fault::Corrupt { byte, mask })
                    }
                };
                self.storage.fault_next(operation, fault);
                self.prepared = Some((kind, self.storage.damage_count()));
            }
        }
    }

    /// Counts the prepared fault if it struck.
    fn count_prepared(&mut self, faults: &mut Faults) {
        if let Some((kind, before)) = self.prepared
            && self.storage.damage_count() > before
        {
            faults.count(kind);
            self.prepared = None;
        }
    }

    /// Ends the time in which the disk is full.
    pub fn recover_room(&mut self) {
        self.storage.set_capacity(None);
        // An operation that failed for lack of room may be reported later.
        self.has_failed |= self.full_until.take().is_some();
    }

    /// Can the power fail in this way? Only promised data must survive.
    pub fn may_lose_power(&self, kind: FaultKind, config: &Config) -> bool {
        let is_synced = config.journal.durability == DurabilityConfig::Synced;
        is_synced != (kind == FaultKind::UnpromisedPowerCut)
    }

    /// Makes the next crash a power cut of this kind.
    pub fn lose_power_next(&mut self, kind: FaultKind) {
        self.power_cut = Some(kind);
    }

    /// Ends the process, and keeps the data that survives; true if the power failed.
    pub fn crash(&mut self, faults: &mut Faults, is_synced: bool) -> bool {
        self.count_prepared(faults);
        self.prepared = None;
        // A medium's lies show when the power fails.
        let power_cut = self.power_cut.take().or_else(|| {
            let is_interesting =
                self.storage.damage_count() > 0 || self.storage.stopped().is_some();
            let is_promised = is_synced && is_interesting;
            let goes = is_promised && faults.below(FaultKind::PowerCut, 2) == 0;
            goes.then_some(FaultKind::PowerCut)
        });
        match power_cut {
            None => self.storage.crash(Crash::Process),
            Some(kind) => {
                let unsynced_names = faults.below(kind, 2) == 0;
                let crash = if kind == FaultKind::ScatteredPowerCut {
                    Crash::Scattered { seed: faults.below(kind, u64::MAX), unsynced_names }
                } else {
                    let unsynced_bytes = faults.below(kind, 20_000);
                    Crash::Power { unsynced_bytes, unsynced_names }
                };
                match kind {
                    FaultKind::UnpromisedPowerCut => self.storage.crash_unpromised(crash),
                    _ => self.storage.crash(crash),
                }
            }
        }
        self.has_failed = false;
        self.full_until = None;
        self.storage.set_capacity(None);
        power_cut.is_some()
    }

    /// Starts the venue on a copy of a damaged disk: the venue must refuse the disk, with the place of the
    /// damage, or recover a whole beginning of the journal on a faithful disk. Then the disk is repaired.
    ///
    /// # Errors
    /// The venue recovers something else, or refuses the disk for another reason.
    pub fn judge(&mut self, config: &Config, faults: &mut Faults) -> Result<(), String> {
        if self.storage.damage_count() == 0 {
            return Ok(());
        }
        let (all, complete) = entries(&mut self.storage.duplicate(true));
        complete.map_err(|refusal| format!("a faithful disk is refused: {}", refusal.what))?;
        let mut states = BTreeMap::from([(0, passed(&VenueState::default()))]);
        let mut faithful = self.storage.duplicate(true);
        let after = &mut |input: &Input, engine: &Engine, digest| {
            states.insert(input.sequence.0, (digest, engine.state_hash()));
        };
        recovery::replay(&mut faithful, after, &mut |_| {})
            .map_err(|failure| format!("a faithful disk is not replayed: {failure}"))?;

        let mut damaged = self.storage.duplicate(false);
        let (kept, complete) = entries(&mut damaged);
        if kept.len() > all.len() || kept != all[..kept.len()] {
            let at = kept.iter().zip(&all).take_while(|(a, b)| a == b).count();
            return Err(format!("a damaged disk gives another input {} than was written", at + 1));
        }
        if let Err(refusal) = &complete
            && !(refusal.is_corruption && refusal.what.contains("byte "))
        {
            return Err(format!(
                "a damaged disk was rejected without reporting corruption: {}",
                refusal.what
            ));
        }
        let options = WriterOptions {
            durability: Durability::from(config.journal.durability),
            segment_bytes: config.journal.segment.0,
            ..WriterOptions::new(1, 0)
        };
        let storage: Box<dyn Storage> = Box::new(damaged.clone());
        let resumed = recovery::resume(storage, &mut damaged, &options, 0, &mut |_| {});
        let judged = match &resumed {
            Err(failure) if failure.exit_code == ExitCode::Verification => Judged::Refused,
            Err(failure) => {
                return Err(format!(
                    "a damaged disk was rejected without reporting corruption: {failure}"
                ));
            }
            Ok(recovery) => {
                let sequence = recovery.state.engine.sequence().0;
                if states.get(&sequence) != Some(&passed(&recovery.state)) {
                    return Err(format!(
                        "a damaged disk gives a state at sequence {sequence} that never existed"
                    ));
                }
                let last = all.last().map_or(0, |entry| entry.0);
                if sequence < last { Judged::Shortened } else { Judged::Unharmed }
            }
        };
        faults.hits.count(DAMAGED_STARTS, judged.as_str(), 1);
        drop(resumed);
        self.storage.repair();
        Ok(())
    }
}

/// The identity of a state and its history: the digest of its events, and its state hash.
fn passed(state: &VenueState) -> (EventDigest, u64) {
    (state.digest, state.engine.state_hash())
}

/// The reason why a journal is not read to its end.
struct Refusal {
    is_corruption: bool,
    what: String,
}

/// The inputs of a journal, up to the record that is refused, if any.
fn entries(storage: &mut CrashStorage) -> (Vec<Entry>, Result<(), Refusal>) {
    let mut entries = Vec::new();
    let verified = journal::verify(storage, &mut |record| {
        if record.kind == RecordKind::Input {
            entries.push((record.sequence, record.timestamp, Digest::of(record.payload)));
        }
        Ok::<(), journal::BoxError>(())
    });
    let refusal = |error: journal::VerifyError| Refusal {
        is_corruption: error.is_corruption(),
        what: error.to_string(),
    };
    (entries, verified.map(|_| ()).map_err(refusal))
}
