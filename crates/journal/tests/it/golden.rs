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
        durability: Durability::Written,
        segment_bytes: 8_192 + 400,
        journal_id_if_new: 0x0123_4567_89ab_cdef,
        created: 1_767_225_600_000_000_000,
        from: 0,
    }
}

fn folder(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/version-{version}"))
}

fn read(version: u32, name: &str) -> Vec<u8> {
    std::fs::read(folder(version).join(name)).unwrap()
}

/// A disk with the golden journal of a version.
fn disk(version: u32) -> CrashStorage {
    let storage = CrashStorage::new();
    for entry in std::fs::read_dir(folder(version)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        storage.set_bytes(&name, Some(read(version, &name)));
    }
    storage
}

/// Every version is read as it was written, and the journal goes on in the newest.
#[test]
fn every_version_is_replayed() {
    for version in 1..=journal::FORMAT_VERSION {
        let storage = disk(version);
        let (kept, report) = verify(storage.storage()).unwrap();
        assert_eq!(kept, golden(), "version {version}");
        assert_eq!(report.journal_id, Some(options().journal_id_if_new));
        let (mut writer, kept, report) = open(storage.storage(), &options()).unwrap();
        assert_eq!((kept, writer.last_sequence(), report.cut), (golden(), 5, None));
        writer.append(6, u64::MAX, b"and on").unwrap();
        writer.sync().unwrap();
        drop(writer);
        let (kept, report) = verify(storage.storage()).unwrap();
        assert_eq!((kept.len(), report.marked_sequence), (6, 6));
        assert_eq!(report.epoch, if version == 1 { 1 } else { 2 });
    }
}

/// Version 1 is judged by the same rows: a byte changed is refused, or cut at the very end.
#[test]
fn version_1_is_judged() {
    let mut counts = [0, 0, 0];
    for name in [journal::file_name(1), journal::file_name(5)] {
        for at in 0..read(1, &name).len() {
            let storage = disk(1);
            storage.change(&name, |bytes| bytes[at] ^= 0x10);
            match verify(storage.storage()) {
                Ok((kept, report)) => {
                    assert_eq!(kept, golden()[..kept.len()]);
                    let is_last = name == journal::file_name(5) && at >= 8_192;
                    assert_eq!((report.cut.is_some(), kept.len() < 5), (is_last, is_last));
                    counts[usize::from(is_last)] += 1;
                }
                Err(error) => {
                    assert!(error.is_corruption() && at >= 8_192, "{name}, byte {at}: {error}");
                    counts[2] += 1;
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// The newest version is what is written, byte for byte.
#[test]
fn the_newest_version_is_written() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options()).unwrap();
    for record in golden() {
        writer.append(record.sequence, record.timestamp, &record.payload).unwrap();
        if record.sequence % 2 == 0 {
            writer.note(b"a note").unwrap();
            writer.commit().unwrap();
        }
    }
    writer.sync().unwrap();
    drop(writer);
    let folder = folder(journal::FORMAT_VERSION);
    if std::env::var_os("DAMRAK_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for name in storage.names() {
            std::fs::write(folder.join(&name), storage.bytes(&name).unwrap()).unwrap();
        }
    }
    let names: Vec<_> = storage.names().into_iter().filter(|name| name != "prepared").collect();
    assert!(names.len() > 2, "{names:?}");
    for name in names {
        let written = storage.bytes(&name).unwrap();
        assert_eq!(written, read(journal::FORMAT_VERSION, &name), "{name}");
    }
}

/// The map in docs/journal.md, told once more and independently: header, then records.
#[test]
fn version_1_is_as_its_map_says() {
    let bytes = read(1, &journal::file_name(1));
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
