//! The journal: stores payloads with a sequence and a timestamp, and returns them after a crash.
//!
//! Start at [`open`], which replays the records and leaves a [`Writer`] at the tail; then
//! `recovery_table`, the decision for each kind of damage; then `record`, `batch` and `segment`, the bytes,
//! whose map is in docs/journal.md. [`verify`] reads without changing anything.
//!
//! Architecture invariant: no clock and no randomness, and no knowledge of payloads. On
//! a folder of the file system one thread works ahead of the writer, which waits for it only where
//! it must; elsewhere there is none, and the same calls give the same bytes. A sequence that
//! [`Writer::commit`] returned is never lost and never changed, as far as its [`Durability`]
//! promises; where the bytes cannot prove that, [`open`] refuses and names file and offset.
//!
//! The feature `failpoints` builds in faults, on which the tests must fail: `cargo x ci twins`.

mod failpoint;
mod storage;
mod testing;
mod buffer;
mod record;
mod batch;
mod segment;
mod watermark;
mod segment_preparer;
mod writer;
mod reader;
mod recovery_table;
mod recovery;
mod truncate;
mod follow;
mod retention;
mod archive;
mod backup;
mod snapshot;
mod error;

pub use archive::{WithArchives, archive_segments_before};
pub use backup::{Backup, BackupError, backup};
pub use batch::single_record_len_max;
pub use error::{
    AppendError, BadBatch, BoxError, Damage, DamageKind, HeaderFault, OpenError, VerifyError,
};
pub use follow::JournalFollower;
pub use record::{PAYLOAD_LEN_MAX, Record, RecordKind};
pub use recovery::{
    DamagedCopy, RecoveryReport, SegmentReport, TornTail, WriterOptions, identity, open, verify,
    verify_from,
};
pub use recovery_table::{TABLE, TableRow};
pub use retention::{first_sequence, remove_segments_before, segments_before};
pub use segment::{FORMAT_VERSION, SEGMENT_HEADER_LEN, file_name};
pub use snapshot::{
    SECTION_LEN_MAX, SNAPSHOT_VERSION, SnapshotError, SnapshotFault, SnapshotHeader,
    SnapshotSummary, SnapshotWriter, payload_checksum, read_snapshot, read_snapshot_header,
    remove_snapshots_but, snapshot_file_name, snapshots,
};
pub use storage::{FileAccess, Folder, Lock, Method, Storage, StorageFile};
pub use testing::{Crash, CrashStorage, DiskOperation, Fault, Stopped};
pub use truncate::{Truncated, Truncation};
pub use writer::{Durability, Writer};
