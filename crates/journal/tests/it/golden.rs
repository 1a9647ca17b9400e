//! A small journal with its bytes checked in: the format does not change unnoticed.

use std::path::{Path, PathBuf};

use journal::{CrashStorage, Durability, WriterOptions};

use crate::support::{Kept, Place, open, verify};

/// The payloads of the golden journal: no bytes, one, aligned and not, every byte value.
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

fn options() -> WriterOptions {
    WriterOptions {
        durability: Durability::Written,
        segment_bytes: 8_192 + 400,
        journal_id_if_new: 0x0123_4567_89ab_cdef,
        created: 1_767_225_600_000_000_000,
        from: 0,
    }
}

fn folder() -> PathBuf {
    let name = format!("tests/it/golden/version-{}", journal::FORMAT_VERSION);
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// A disk with the golden journal.
fn disk() -> CrashStorage {
    let storage = CrashStorage::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        storage.set_bytes(&name, Some(read(&name)));
    }
    storage
}

/// The golden journal replays as it was written, and goes on.
#[test]
fn golden_journal_is_replayed() {
    let storage = disk();
    let (kept, report) = verify(storage.storage()).unwrap();
    assert_eq!(kept, golden());
    assert_eq!(report.journal_id, Some(options().journal_id_if_new));
    let (mut writer, kept, report) = open(storage.storage(), &options()).unwrap();
    assert_eq!((kept, writer.last_sequence(), report.torn_tail), (golden(), 5, None));
    writer.append(6, u64::MAX, b"and on").unwrap();
    writer.sync().unwrap();
    drop(writer);
    let (kept, report) = verify(storage.storage()).unwrap();
    assert_eq!((kept.len(), report.watermark, report.epoch), (6, 6, 2));
}

/// The current writer produces the golden bytes.
#[test]
fn golden_bytes_are_written() {
    let storage = CrashStorage::new();
    let (mut writer, _, _) = open(storage.storage(), &options()).unwrap();
    for record in golden() {
        writer.append(record.sequence, record.timestamp, &record.payload).unwrap();
        if record.sequence % 2 == 0 {
            writer.checkpoint(b"a note").unwrap();
            writer.commit().unwrap();
        }
    }
    writer.sync().unwrap();
    drop(writer);
    let folder = folder();
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
        assert_eq!(written, read(&name), "{name}");
    }
}
