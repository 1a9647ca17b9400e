//! The files that a start reads from a disk: journals, commands, snapshots.
//!
//! Invariant: damage is refused or recovers a state that was; it is never another state.

use std::{collections::BTreeSet, sync::OnceLock};

use engine::Engine;
use gateway::Submission;
use journal::{CrashStorage, SnapshotHeader, SnapshotWriter, Storage, WriterOptions};
use market::{Command, Timestamp};
use proof::generator::{CommandFlow, Profile};
use venue::{recovery, snapshot::VenueState};

use super::{gateways::Small, script::Script};

/// The folder of a venue that ran for a while, and its states.
pub struct Recorded {
    files: Vec<(String, Vec<u8>)>,
    journal_id: u64,
    /// The hash of each state, from the empty one on.
    hashes: BTreeSet<u64>,
    snapshots: Vec<u64>,
    pub engine: Engine,
}

/// The same in every call.
pub fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let mut small = Small::new(|config| {
            config.snapshots.inputs = 40;
            config.journal.segment.0 = 4096;
            config.journal.digest_every = 16;
        });
        let mut flow = CommandFlow::new(7, Profile { sessions: 3, ..Profile::default() });
        for _ in 0..90 {
            let command = flow.next_command();
            if !matches!(command, Command::System(_) | Command::AddSession(_)) {
                small.submit(Submission { received: Timestamp(small.now_ns()), command });
            }
            small.turn(1_000_000);
        }
        let mut disk = small.stop();
        let mut hashes = BTreeSet::from([Engine::new().state_hash()]);
        let mut each = |_: &_, engine: &Engine, _| _ = hashes.insert(engine.state_hash());
        let replay = recovery::replay(&mut disk, &mut each, &mut |_| {}).expect("it is whole");
        let snapshots = journal::snapshots(&mut disk).expect("they can be listed");
        assert!(!snapshots.is_empty() && hashes.len() > 60, "{snapshots:?} {}", hashes.len());
        let bytes = |name: String| disk.bytes(&name).map(|bytes| (name, bytes));
        Recorded {
            files: disk.names().into_iter().filter_map(bytes).collect(),
            journal_id: journal::identity(&mut disk).expect("it has one"),
            hashes,
            snapshots,
            engine: replay.state.engine,
        }
    })
}

/// The recorded folder with one place damaged: up to three bytes of a file differ, and a file ends
/// early. Four bytes could forge a checksum.
fn damaged(script: &mut Script<'_>) -> CrashStorage {
    let Recorded { files, .. } = recorded();
    let damaged = script.below(files.len());
    let disk = CrashStorage::new();
    for (index, (name, bytes)) in files.iter().enumerate() {
        let mut bytes = bytes.clone();
        if index == damaged && !bytes.is_empty() {
            let number = |script: &mut Script<'_>| {
                usize::from(u16::from_be_bytes([script.byte(), script.byte()]))
            };
            let at = number(script) % bytes.len();
            for byte in bytes[at..].iter_mut().take(3) {
                *byte ^= script.byte();
            }
            if script.byte() % 2 == 1 {
                bytes.truncate(number(script) % (bytes.len() + 1));
            }
        }
        disk.set_bytes(name, Some(bytes));
    }
    disk
}

/// Bytes as a segment are no journal, or none of ours; a recorded journal with damage is refused or
/// recovers a state that was.
pub fn journal(bytes: &[u8]) {
    let recorded = recorded();
    let mut script = Script(bytes);
    let disk = match script.byte() % 4 {
        0 => {
            let disk = CrashStorage::new();
            disk.set_bytes(&journal::file_name(1), Some(script.0.to_vec()));
            disk
        }
        _ => damaged(&mut script),
    };
    let (mut read, opened) = (disk.clone(), disk);
    if let Ok(replay) = recovery::replay(&mut read, &mut |_, _, _| {}, &mut |_| {}) {
        assert!(
            recorded.hashes.contains(&replay.state.engine.state_hash()),
            "a state that never was"
        );
    }
    let options =
        WriterOptions { segment_bytes: 1 << 16, ..WriterOptions::new(recorded.journal_id, 0) };
    let mut files = opened.second();
    let resumed = recovery::resume(Box::new(opened), &mut *files, &options, 1 << 20, &mut |_| {});
    if let Ok(recovery) = resumed {
        assert!(
            recorded.hashes.contains(&recovery.state.engine.state_hash()),
            "a state that never was"
        );
    }
}

/// Any bytes are a command or not, and a command has one encoding.
pub fn command(bytes: &[u8]) {
    let Ok(command) = Command::decode(bytes) else { return };
    let mut buffer = [0; Command::ENCODED_LEN_MAX];
    let len = command.encode(&mut buffer);
    assert_eq!(&buffer[..len], bytes);
}

/// Any sections whose checksums hold are the state of a venue or are refused, and an accepted snapshot is written as it
/// was read; a recorded snapshot with damage is refused or is the state that it was.
pub fn snapshot(bytes: &[u8]) {
    const ARCHIVE_BYTES: Option<usize> = Some(1 << 20);
    let recorded = recorded();
    let mut script = Script(bytes);
    match script.byte() % 3 {
        0 => {
            let mut disk = damaged(&mut script);
            for sequence in &recorded.snapshots {
                let id = Some(recorded.journal_id);
                if let Ok((_, state)) = VenueState::read(&mut disk, id, *sequence, ARCHIVE_BYTES) {
                    assert!(recorded.hashes.contains(&state.engine.state_hash()));
                }
            }
        }
        kind => {
            let mut disk = CrashStorage::new();
            let header = SnapshotHeader { sequence: 1, journal_id: 1, ..Default::default() };
            let mut writer = SnapshotWriter::new(&mut disk, header);
            // Half of them begin with the sections of a sound one, some of them changed.
            if kind == 1 {
                let Recorded { snapshots, .. } = recorded;
                let mut sound = CrashStorage::new();
                for (name, bytes) in &recorded.files {
                    sound.set_bytes(name, Some(bytes.clone()));
                }
                let (changed, at) = (script.byte(), script.byte());
                let mut index = 0;
                let mut each = |code: u16, bytes: &[u8]| {
                    let mut bytes = bytes.to_vec();
                    if index == changed && !bytes.is_empty() {
                        let at = usize::from(at) % bytes.len();
                        bytes[at] ^= script.byte();
                        if script.byte() % 4 == 1 {
                            bytes.truncate(at);
                        }
                    }
                    index += 1;
                    writer.section(code, &bytes);
                    Ok::<(), String>(())
                };
                let id = Some(recorded.journal_id);
                journal::read_snapshot(&mut sound, id, snapshots[0], &mut each)
                    .expect("it is sound");
            }
            while !script.is_over() {
                let code = u16::from(script.byte());
                writer.section(code, script.bytes());
            }
            writer.finish().expect("the disk is well");
            let _ = VenueState::read(&mut disk, Some(1), 1, ARCHIVE_BYTES);
        }
    }
}
