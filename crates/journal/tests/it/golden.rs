//! The bytes of every version of the format, checked in: they are read for ever.

use std::path::{Path, PathBuf};

use journal::{CrashStorage, Durability, Options};

use crate::support::{Kept, Place, open, verify};

/// What the golden journal holds: no bytes, one, aligned and not, every byte value.
fn golden() -> Vec<Kept> {
    let payloads: [&[u8]; 5] =
        [b"", b"D", b"Damrak 1", b"nine byte", &(0..=255).collect::<Vec<u8>>()];
    let record = |(index, payload): (u64, &[u8])| Kept {
        sequence: index + 1,
        timestamp: 1_767_225_600_000_000_000 + index / 2,
        payload: payload.to_vec(),
    };
    (0..).zip(payloads).map(record).collect()
}

fn options() -> Options {
    Options {
        durability: Durability::Synced,
        segment_bytes: 8_192 + 128,
        journal_id_if_new: 0x0123_4567_89ab_cdef,
        created: 1_767_225_600_000_000_000,
        from: 0,
    }
}

fn read(name: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/version-1");
    std::fs::read(folder.join(name)).unwrap()
}

/// Version 1 is read as it was written.
#[test]
fn version_1_is_replayed() {
    let storage = CrashStorage::new();
    for name in [journal::file_name(1), journal::file_name(5)] {
        storage.set_bytes(&name, Some(read(&name)));
    }
    let (kept, report) = verify(storage.storage()).unwrap();
    assert_eq!(kept, golden());
    assert_eq!(report.journal_id, Some(options().journal_id_if_new));
    let (writer, kept, report) = open(storage.storage(), &options()).unwrap();
    assert_eq!((kept, writer.last_sequence(), report.cut), (golden(), 5, None));
}

/// Version 1 is still what is written, byte for byte.
#[test]
fn version_1_is_written() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options()).unwrap();
    for record in golden() {
        writer.append(record.sequence, record.timestamp, &record.payload).unwrap();
    }
    writer.commit().unwrap();
    assert_eq!(storage.names(), [journal::file_name(1), journal::file_name(5)]);
    for name in storage.names() {
        assert_eq!(storage.bytes(&name).unwrap(), read(&name), "{name}");
    }
}

/// The map in docs/journal.md, told once more and independently: header, then records.
#[test]
fn version_1_is_as_its_map_says() {
    let bytes = read(&journal::file_name(1));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    for copy in [0, 4_096] {
        assert_eq!(&bytes[copy..copy + 8], b"DamrakJ\n");
        assert_eq!(u32_at(copy + 8), 1);
        let rest = [&bytes[copy..copy + 12], &bytes[copy + 16..copy + 4_096]].concat();
        assert_eq!(u32_at(copy + 12), crc32c::crc32c(&rest));
        assert_eq!(u64_at(copy + 16), options().journal_id_if_new);
        assert_eq!(u64_at(copy + 24), 1);
        assert_eq!(u64_at(copy + 32), options().created);
        assert!(bytes[copy + 40..copy + 4_096].iter().all(|byte| *byte == 0));
    }
    let mut at = 8_192;
    for record in &golden()[..4] {
        let payload_len = record.payload.len();
        let end = at + 24 + payload_len.next_multiple_of(8);
        assert_eq!(u32_at(at + 4) as usize, payload_len);
        assert_eq!(u64_at(at + 8), record.sequence);
        assert_eq!(u64_at(at + 16), record.timestamp);
        assert_eq!(&bytes[at + 24..at + 24 + payload_len], record.payload);
        assert!(bytes[at + 24 + payload_len..end].iter().all(|byte| *byte == 0));
        let covered = [&bytes[16..24], &bytes[24..32], &bytes[at + 4..end]].concat(); // id, first sequence
        assert_eq!(u32_at(at), crc32c::crc32c(&covered));
        at = end;
    }
    assert_eq!(at, bytes.len());
}
