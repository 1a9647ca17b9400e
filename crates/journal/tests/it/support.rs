//! Journals for the tests, and the records that are written into them.

use std::{convert::Infallible, fs};

use journal::{
    CrashStorage, Durability, Folder, OpenError, Record, RecordKind, RecoveryReport,
    SEGMENT_HEADER_LEN, Storage, TornTail, VerifyError, Writer, WriterOptions,
};
use tempfile::TempDir;

pub const JOURNAL_ID: u64 = 0x00da_3a4b_0000_0001;

/// A folder that a test may inspect, and damage behind the journal's back.
pub trait Place {
    fn storage(&self) -> Box<dyn Storage>;
    fn names(&self) -> Vec<String>;
    fn content(&self, name: &str) -> Vec<u8>;
    fn set_bytes(&self, name: &str, bytes: Option<Vec<u8>>);

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>))
    where
        Self: Sized,
    {
        let mut bytes = self.content(name);
        change(&mut bytes);
        self.set_bytes(name, Some(bytes));
    }

    /// The names of the segments, in order.
    fn segments(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.ends_with(".damrak")).collect()
    }

    /// All bytes of all files, to check that none changed.
    fn everything(&self) -> Vec<(String, Vec<u8>)> {
        self.names().into_iter().map(|name| (name.clone(), self.content(&name))).collect()
    }
}

impl Place for CrashStorage {
    fn storage(&self) -> Box<dyn Storage> {
        Box::new(self.clone())
    }

    fn names(&self) -> Vec<String> {
        self.names()
    }

    fn content(&self, name: &str) -> Vec<u8> {
        self.bytes(name).expect("the file is there")
    }

    fn set_bytes(&self, name: &str, bytes: Option<Vec<u8>>) {
        self.set_bytes(name, bytes);
    }
}

impl Place for TempDir {
    fn storage(&self) -> Box<dyn Storage> {
        Box::new(Folder::new(self.path()).in_order())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "lock").collect();
        names.sort();
        names
    }

    fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }

    fn set_bytes(&self, name: &str, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => fs::write(self.path().join(name), bytes).unwrap(),
            None => fs::remove_file(self.path().join(name)).unwrap(),
        }
    }
}

/// Runs a test on a folder of the file system and on one in memory, each new and empty.
macro_rules! on_both {
    (|$place:ident| $body:block) => {{
        {
            let $place = &tempfile::tempdir().unwrap();
            $body
        }
        {
            let $place = &journal::CrashStorage::new();
            $body
        }
    }};
}
pub(crate) use on_both;

/// A record that is kept beyond the call that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub sequence: u64,
    pub timestamp: u64,
    pub payload: Vec<u8>,
}

impl Kept {
    pub fn of(record: Record<'_>) -> Self {
        let Record { sequence, timestamp, payload, .. } = record;
        Self { sequence, timestamp, payload: payload.to_vec() }
    }
}

/// The record that tests write with this sequence: 0 to 40 bytes, some times equal.
pub fn record(sequence: u64) -> Kept {
    let payload_len = sequence * 13 % 41;
    let payload = (0..payload_len).map(|at| (sequence * 31 + at * 7) as u8).collect();
    Kept { sequence, timestamp: 1_000 + sequence / 2, payload }
}

pub fn records(count: u64) -> Vec<Kept> {
    (1..=count).map(record).collect()
}

/// Small segments, so that a few records make several.
pub fn options(durability: Durability) -> WriterOptions {
    let segment_bytes = SEGMENT_HEADER_LEN + 400;
    WriterOptions { durability, segment_bytes, ..WriterOptions::new(JOURNAL_ID, 500) }
}

pub fn append(writer: &mut Writer, sequence: u64) -> Result<(), journal::AppendError> {
    let record = record(sequence);
    writer.append(record.sequence, record.timestamp, &record.payload)
}

/// Opens the journal, and returns the replayed records.
pub fn open(
    storage: Box<dyn Storage>,
    options: &WriterOptions,
) -> Result<(Writer, Vec<Kept>, RecoveryReport), OpenError> {
    let mut kept = Vec::new();
    let mut replay = |record: Record<'_>| {
        if record.kind == RecordKind::Input {
            kept.push(Kept::of(record));
        }
        Ok::<_, Infallible>(())
    };
    let (writer, report) = journal::open(storage, options, &mut replay)?;
    Ok((writer, kept, report))
}

pub fn verify(mut storage: Box<dyn Storage>) -> Result<(Vec<Kept>, RecoveryReport), VerifyError> {
    let mut kept = Vec::new();
    let mut visit = |record: Record<'_>| {
        if record.kind == RecordKind::Input {
            kept.push(Kept::of(record));
        }
        Ok::<_, Infallible>(())
    };
    let report = journal::verify(&mut *storage, &mut visit)?;
    Ok((kept, report))
}

/// The way in which a life of a writer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A clean stop: the watermark requires all records.
    Peace,
    /// A kill: the watermark is behind.
    Kill,
}

/// Writes records up to `count`, each in a separate batch, and stops cleanly.
pub fn write(place: &impl Place, count: u64) {
    write_as(place, Durability::Written, count, 1, End::Peace);
}

/// Writes records up to `count`, `batch` of them per batch.
pub fn write_as(place: &impl Place, durability: Durability, count: u64, batch: u64, end: End) {
    let (mut writer, _, _) = open(place.storage(), &options(durability)).unwrap();
    for sequence in writer.last_sequence() + 1..=count {
        append(&mut writer, sequence).unwrap();
        if sequence % batch == 0 || sequence == count {
            assert_eq!(writer.commit().unwrap(), sequence);
        }
    }
    if end == End::Peace {
        writer.sync().unwrap();
    } else {
        writer.flush().unwrap();
    }
}

/// The place of a batch.
#[derive(Clone, Debug)]
pub struct Spot {
    pub name: String,
    pub start: u64,
    pub end: u64,
    /// The sequence of its first input.
    pub first_sequence: u64,
    /// The sequence of its last input.
    pub sequence: u64,
    pub checkpoint_count: u64,
}

/// The places of all batches of a whole journal, by the map in docs/journal.md alone.
pub fn spots(place: &impl Place) -> Vec<Spot> {
    let mut spots = Vec::new();
    for name in place.segments() {
        let bytes = place.content(&name);
        let number = |at: usize, len: usize| {
            bytes[at..at + len].iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte))
        };
        let alignment = number(64, 4) as usize;
        let mut at = SEGMENT_HEADER_LEN as usize;
        while at + 48 <= bytes.len() && bytes[at..at + 48].iter().any(|byte| *byte != 0) {
            let end = at + number(at + 4, 4) as usize;
            let (first_sequence, record_count) = (number(at + 16, 8), number(at + 12, 4));
            let (mut record, mut checkpoint_count) = (at + 48, 0);
            for _ in 0..record_count {
                while bytes[record] >= 0x80 {
                    record += 1; // the time
                }
                record += match bytes[record + 1] {
                    252 => {
                        checkpoint_count += 1;
                        6 + number(record + 2, 4) as usize
                    }
                    251 => 6 + number(record + 2, 4) as usize,
                    len => 2 + usize::from(len),
                };
            }
            assert_eq!(record.next_multiple_of(8), end, "{name}, byte {at}");
            let sequence = first_sequence + record_count - checkpoint_count - 1;
            let (name, start, end) = (name.clone(), at as u64, end as u64);
            spots.push(Spot { name, start, end, first_sequence, sequence, checkpoint_count });
            at = (end as usize).next_multiple_of(alignment);
        }
    }
    spots
}

/// File name, offset and length of a cut.
pub fn place_of(cut: &TornTail) -> (String, u64, u64) {
    let name = cut.path.file_name().unwrap().to_str().unwrap().to_owned();
    (name, cut.offset, cut.byte_count)
}
