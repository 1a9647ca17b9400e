//! Messages to FIX sessions on disk, as they were sent, for resends of messages that memory no longer holds. The
//! follower's thread writes them, from the messages that it derives for snapshots anyway; the thread of the history
//! reads them.
//!
//! Start at [`ReplyFileWriter::take`]; `docs/snapshot.md` has the format.
//!
//! Invariant: the files follow from the journal and may be removed at any time. A message that is missing here, or does
//! not verify, is derived anew. The bytes of the files and the memory for their places have a bound.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, ErrorKind},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gateway::{MessageArchive, PAST_BLOCK_LEN, PastReplyBlock};
use journal::{FileAccess, Storage, StorageFile};
use market::Text;
use ring::AtomicGauge;

const EXTENSION: &str = ".replies";
const MAGIC: u32 = u32::from_le_bytes(*b"DmRp");
const VERSION: u16 = 1;
const HEADER_LEN: usize = 40;
/// The offset of the header's checksum, which covers the bytes before it.
const SUM_AT: usize = 36;
/// Bytes of the big-endian length before each message.
const LENGTH_BYTES: usize = 2;
/// Bytes after which a file ends; the last block may exceed them.
const FILE_BYTES: u64 = 64 << 20;
/// The lowest limit for all files together: one is written while another is kept.
pub(crate) const REPLY_FILES_BYTES_MIN: u64 = 2 * FILE_BYTES;
/// The fewest messages of a session worth looking at: fewer do not fill a block.
const MESSAGES_MIN: u64 = (PAST_BLOCK_LEN / (LENGTH_BYTES + wire::fix::BUILDER_LEN_MAX)) as u64;
/// The pause after a failure, in nanoseconds.
const RETRY_NS: u64 = 60_000_000_000;

/// The limits of the files on disk.
#[derive(Clone, Copy, Debug)]
pub struct ReplyFilesPlan {
    /// Bytes of all files; the oldest file is removed first.
    pub bytes_max: u64,
    /// Bytes of the disk that stay free for other uses.
    pub free_min: u64,
    pub journal_id: u64,
}

/// Figures of the files, for any thread to read.
#[derive(Debug)]
pub struct ReplyFileFigures {
    /// The messages caused by inputs up to here are on disk, as far as they fill blocks.
    pub sequence: AtomicGauge,
    pub bytes: AtomicGauge,
    /// Blocks whose places are in memory.
    pub blocks: AtomicGauge,
    pub failed: AtomicGauge,
}

impl Default for ReplyFileFigures {
    fn default() -> Self {
        let none = || AtomicGauge::new(0);
        Self { sequence: none(), bytes: none(), blocks: none(), failed: none() }
    }
}

/// The place of a block on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The number of the block's first message.
    first: u64,
    file: u32,
    offset: u32,
    count: u16,
    /// Bytes of the block's messages.
    len: u16,
}

impl Place {
    fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// The places of all blocks, by session.
#[derive(Debug, Default)]
struct Index {
    sessions: BTreeMap<Text<6>, VecDeque<Place>>,
    blocks: u64,
}

impl Index {
    /// Adds the next block of a session. Earlier blocks with later numbers are void, because the journal has lost the
    /// inputs behind them.
    fn add(&mut self, username: Text<6>, place: Place) {
        let places = self.sessions.entry(username).or_default();
        while places.pop_back_if(|last| last.end() > place.first).is_some() {
            self.blocks -= 1;
        }
        if place.count > 0 {
            places.push_back(place);
            self.blocks += 1;
        }
    }

    fn find(&self, username: Text<6>, number: u64) -> Option<Place> {
        let places = self.sessions.get(&username)?;
        let at = places.partition_point(|place| place.end() <= number);
        places.get(at).copied().filter(|place| place.first <= number)
    }

    /// The number after the last message of a session.
    fn end(&self, username: Text<6>) -> u64 {
        self.sessions.get(&username).and_then(VecDeque::back).map_or(1, Place::end)
    }

    fn remove(&mut self, is_gone: impl Fn(&Place) -> bool) {
        for places in self.sessions.values_mut() {
            places.retain(|place| !is_gone(place));
        }
        self.blocks = self.sessions.values().map(|places| places.len() as u64).sum();
    }
}

#[derive(Clone, Debug, Default)]
struct SharedIndex(Arc<Mutex<Index>>);

impl SharedIndex {
    fn lock(&self) -> MutexGuard<'_, Index> {
        // The index is consistent after each of its methods, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The header before the messages of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockHeader {
    journal_id: u64,
    username: Text<6>,
    first: u64,
    /// 0 in a block that only voids the messages from `first` on.
    count: u16,
    len: u16,
    /// CRC-32C of the messages.
    sum: u32,
}

impl BlockHeader {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.journal_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..30].copy_from_slice(self.username.as_bytes());
        bytes[30..32].copy_from_slice(&self.len.to_le_bytes());
        bytes[32..SUM_AT].copy_from_slice(&self.sum.to_le_bytes());
        let sum = journal::payload_checksum(&bytes[..SUM_AT]);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        assert!(Self::decode(&bytes) == Some(*self), "{self:?} reads as written");
        bytes
    }

    /// `None` if the bytes are no header of this version.
    fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let is_header = u32_at(0) == MAGIC
            && u16_at(4) == VERSION
            && u32_at(SUM_AT) == journal::payload_checksum(&bytes[..SUM_AT]);
        let username = Text::from_bytes(*bytes[24..].first_chunk().expect("inside"))?;
        is_header.then_some(Self {
            journal_id: u64_at(8),
            username,
            first: u64_at(16),
            count: u16_at(6),
            len: u16_at(30),
            sum: u32_at(32),
        })
    }
}

fn file_name(number: u32) -> String {
    format!("{number:010}{EXTENSION}")
}

/// The file being written.
struct Current {
    number: u32,
    file: Box<dyn StorageFile>,
    len: u64,
}

/// Writes the messages to FIX sessions.
pub struct ReplyFileWriter {
    storage: Box<dyn Storage>,
    plan: ReplyFilesPlan,
    index: SharedIndex,
    /// True once the files of earlier runs were read.
    has_begun: bool,
    current: Option<Current>,
    /// The finished files with their bytes, oldest first.
    files: VecDeque<(u32, u64)>,
    last_number: u32,
    /// See [`FILE_BYTES`].
    file_bytes: u64,
    not_before_ns: u64,
    figures: Arc<ReplyFileFigures>,
    /// Header and messages of the block being written; reused.
    block: Vec<u8>,
}

impl ReplyFileWriter {
    /// Writes to `storage`, beside the journal.
    pub fn new(storage: Box<dyn Storage>, plan: ReplyFilesPlan) -> Self {
        Self {
            storage,
            plan,
            index: SharedIndex::default(),
            has_begun: false,
            current: None,
            files: VecDeque::new(),
            last_number: 0,
            file_bytes: FILE_BYTES,
            not_before_ns: 0,
            figures: Arc::default(),
            block: Vec::with_capacity(HEADER_LEN + PAST_BLOCK_LEN),
        }
    }

    pub fn figures(&self) -> Arc<ReplyFileFigures> {
        Arc::clone(&self.figures)
    }

    /// A reader of the files of this writer.
    pub fn reader(&self) -> ReplyFileReader {
        ReplyFileReader {
            storage: self.storage.second(),
            journal_id: self.plan.journal_id,
            index: self.index.clone(),
            open: None,
            bytes: Vec::new(),
        }
    }

    /// Writes the messages in `archive` that are not on disk yet and fill a block, up to the input `sequence`. Returns
    /// the number of blocks. A failure is logged once and the write is tried again later: the journal has everything.
    pub fn take(&mut self, archive: &MessageArchive, sequence: u64, now_ns: u64) -> usize {
        if now_ns < self.not_before_ns {
            return 0;
        }
        match self.write(archive) {
            Ok(blocks) => {
                self.figures.sequence.set(sequence);
                blocks
            }
            Err(error) => {
                tracing::warn!(
                    component = "follower",
                    "messages to FIX sessions cannot be written to the journal's folder {}: {error}; until they can, \
                     resends read the journal, which is slower",
                    self.storage.place().display()
                );
                self.figures.failed.set(self.figures.failed.get() + 1);
                self.not_before_ns = now_ns + RETRY_NS;
                self.end_file();
                0
            }
        }
    }

    fn write(&mut self, archive: &MessageArchive) -> io::Result<usize> {
        if !self.has_begun {
            self.begin(archive)?;
        }
        let mut blocks = 0;
        for (stream, username) in archive.fix_streams() {
            let Range { start: kept, end: next } = archive.reply_numbers(stream);
            let mut first = self.index.lock().end(username).max(kept);
            while first + MESSAGES_MIN < next
                && let Some(count) = self.fill_block(archive, stream, first..next)
            {
                let place = self.append(username, first, count)?;
                self.index.lock().add(username, place);
                blocks += 1;
                first += u64::from(count);
            }
        }
        self.show();
        Ok(blocks)
    }

    /// Fills the block with messages and returns their number; `None` if there are too few to fill it.
    fn fill_block(
        &mut self,
        archive: &MessageArchive,
        stream: usize,
        numbers: Range<u64>,
    ) -> Option<u16> {
        self.block.clear();
        self.block.resize(HEADER_LEN, 0);
        let first = numbers.start;
        for number in numbers {
            let message = archive.reply(stream, number).expect("it is kept");
            if self.block.len() + LENGTH_BYTES + message.len() > HEADER_LEN + PAST_BLOCK_LEN {
                assert!(number > first, "message {number} of {} bytes fits a block", message.len());
                return Some((number - first) as u16);
            }
            self.block.extend_from_slice(&(message.len() as u16).to_be_bytes());
            self.block.extend_from_slice(message);
        }
        None
    }

    /// Appends the block to the file, and returns its place.
    fn append(&mut self, username: Text<6>, first: u64, count: u16) -> io::Result<Place> {
        if self.current.as_ref().is_some_and(|current| current.len >= self.file_bytes) {
            self.end_file();
        }
        if self.current.is_none() {
            self.begin_file()?;
        }
        let current = self.current.as_mut().expect("it was begun");
        let (header, messages) = self.block.split_first_chunk_mut().expect("it has a header");
        let sum = journal::payload_checksum(messages);
        let (journal_id, len) = (self.plan.journal_id, messages.len() as u16);
        *header = BlockHeader { journal_id, username, first, count, len, sum }.encode();
        current.file.write_at(current.len, &self.block)?;
        let place = Place { first, file: current.number, offset: current.len as u32, count, len };
        current.len += self.block.len() as u64;
        Ok(place)
    }

    /// Makes room for a file, and begins it.
    fn begin_file(&mut self) -> io::Result<()> {
        let Self { plan, files, storage, file_bytes, .. } = self;
        let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let room = *file_bytes + (HEADER_LEN + PAST_BLOCK_LEN) as u64;
        loop {
            // The free bytes are unknown for storage that is no folder.
            let free = os::free_bytes(&storage.place()).unwrap_or(u64::MAX);
            let is_full = free < plan.free_min + room;
            if bytes + room <= plan.bytes_max && !is_full {
                break;
            }
            let Some((oldest, oldest_bytes)) = files.pop_front() else {
                let why = format!("{free} bytes are free: not enough besides journal.free_min");
                return Err(io::Error::new(ErrorKind::StorageFull, why));
            };
            self.index.lock().remove(|place| place.file == oldest);
            storage.remove(&file_name(oldest))?;
            bytes -= oldest_bytes;
        }
        let number = self.last_number + 1;
        let file = self.storage.create(&file_name(number))?;
        self.last_number = number;
        self.current = Some(Current { number, file, len: 0 });
        Ok(())
    }

    /// Moves the current file to the finished ones.
    fn end_file(&mut self) {
        if let Some(Current { number, len, .. }) = self.current.take() {
            self.files.push_back((number, len));
        }
    }

    /// Finds the files of an earlier run, and voids the messages that do not follow from the journal up to the
    /// archive's position: a power cut may have lost inputs whose replies are in the files.
    fn begin(&mut self, archive: &MessageArchive) -> io::Result<()> {
        self.files.clear();
        let number_of = |name: &String| {
            let number = name.strip_suffix(EXTENSION)?.parse().ok()?;
            (file_name(number) == *name).then_some(number)
        };
        let numbers: Vec<u32> = self.storage.list()?.iter().filter_map(number_of).collect();
        for number in numbers {
            let bytes = self.storage.open(&file_name(number), FileAccess::Read)?.byte_count()?;
            self.files.push_back((number, bytes));
            self.last_number = number;
        }
        let mut bytes: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        while bytes > self.plan.bytes_max
            && let Some((oldest, oldest_bytes)) = self.files.pop_front()
        {
            self.storage.remove(&file_name(oldest))?;
            bytes -= oldest_bytes;
        }
        let mut found = Index::default();
        for (number, _) in &self.files {
            scan(&mut *self.storage, *number, self.plan.journal_id, &mut found)?;
        }
        let sessions: BTreeMap<_, _> =
            archive.fix_streams().map(|(stream, username)| (username, stream)).collect();
        for username in found.sessions.keys().copied().collect::<Vec<_>>() {
            let next = sessions.get(&username).map_or(1, |it| archive.reply_numbers(*it).end);
            if next < found.end(username) {
                self.block.clear();
                self.block.resize(HEADER_LEN, 0);
                let place = self.append(username, next, 0)?;
                found.add(username, place);
            }
        }
        if let Some(current) = self.current.as_mut() {
            // The voids must be on disk before these numbers are given out again.
            current.file.sync()?;
            self.storage.sync_folder()?;
        }
        *self.index.lock() = found;
        self.has_begun = true;
        Ok(())
    }

    fn show(&self) {
        let kept: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        self.figures.bytes.set(kept + self.current.as_ref().map_or(0, |current| current.len));
        let blocks = self.index.lock().blocks;
        // All blocks are full, except the voids written at a start.
        let blocks_max = self.plan.bytes_max / (PAST_BLOCK_LEN - wire::fix::BUILDER_LEN_MAX) as u64;
        assert!(blocks <= blocks_max, "{blocks} blocks in {} bytes", self.plan.bytes_max);
        self.figures.blocks.set(blocks);
    }
}

/// Notes the places of the blocks of a file, up to the first invalid or incomplete one.
fn scan(
    storage: &mut dyn Storage,
    number: u32,
    journal_id: u64,
    found: &mut Index,
) -> io::Result<()> {
    let mut file = storage.open(&file_name(number), FileAccess::Read)?;
    let file_len = file.byte_count()?;
    let mut offset = 0;
    let mut bytes = [0; HEADER_LEN];
    while file.read_at(offset, &mut bytes)? == HEADER_LEN
        && let Some(header) = BlockHeader::decode(&bytes).filter(|it| it.journal_id == journal_id)
    {
        let BlockHeader { username, first, count, len, .. } = header;
        let end = offset + (HEADER_LEN + usize::from(len)) as u64;
        if end > file_len {
            break;
        }
        found.add(username, Place { first, file: number, offset: offset as u32, count, len });
        offset = end;
    }
    Ok(())
}

/// Reads messages to FIX sessions.
pub struct ReplyFileReader {
    storage: Box<dyn Storage>,
    journal_id: u64,
    index: SharedIndex,
    /// The file read last.
    open: Option<(u32, Box<dyn StorageFile>)>,
    bytes: Vec<u8>,
}

impl ReplyFileReader {
    /// The block with this message; `None` if it is not on disk.
    pub fn block(&mut self, username: Text<6>, number: u64) -> Option<PastReplyBlock> {
        let place = self.index.lock().find(username, number)?;
        match self.read(username, place) {
            Ok(block) => Some(block),
            Err(error) => {
                self.open = None;
                let mut index = self.index.lock();
                // A block removed in the meantime is no fault.
                if index.find(username, number) == Some(place) {
                    index.remove(|it| *it == place);
                    tracing::warn!(
                        component = "reply history",
                        "the messages from {} to {username} in {} at byte {} cannot be read: {error}; they are derived \
                         from the journal",
                        place.first,
                        self.storage.place().join(file_name(place.file)).display(),
                        place.offset
                    );
                }
                None
            }
        }
    }

    fn read(&mut self, username: Text<6>, place: Place) -> io::Result<PastReplyBlock> {
        if self.open.as_ref().is_none_or(|(number, _)| *number != place.file) {
            let file = self.storage.open(&file_name(place.file), FileAccess::Read)?;
            self.open = Some((place.file, file));
        }
        let (_, file) = self.open.as_mut().expect("it was opened");
        self.bytes.resize(HEADER_LEN + usize::from(place.len), 0);
        let count = file.read_at(place.offset.into(), &mut self.bytes)?;
        let damaged = || io::Error::new(ErrorKind::InvalidData, "it does not verify");
        if count < self.bytes.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (header, messages) = self.bytes.split_first_chunk().expect("it has a header");
        let Place { first, count, len, .. } = place;
        let (journal_id, sum) = (self.journal_id, journal::payload_checksum(messages));
        let expected = BlockHeader { journal_id, username, first, count, len, sum };
        if BlockHeader::decode(header) != Some(expected) {
            return Err(damaged());
        }
        PastReplyBlock::new(first, count, messages).ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use journal::Folder;
    use market::{Event, Firm, Output, Sequence, SessionAdded, SessionId, Timestamp};
    use wire::fix::{CompId, FixNote, LogonNote, Version};

    use super::*;

    const ALICE: SessionId = SessionId(1);

    fn name() -> Text<6> {
        Text::new("ALICE").unwrap()
    }

    /// The messages to a session that logged on and was sent this number of messages with this text.
    fn archive(count: u64, text: &str) -> MessageArchive {
        let mut archive = MessageArchive::new(64 << 20);
        let mut take = |event| {
            let output = Output { cause: Sequence(1), timestamp: Timestamp(1), event };
            archive.take(&output);
        };
        let (username, firm) = (Text::new("Alice").unwrap(), Firm::BLANK);
        let added = SessionAdded { session_id: ALICE, username, firm, system_hours: true };
        take(Event::SessionAdded(added));
        let id = |text| CompId::new(text).unwrap();
        let (version, venue, client) = (Version::Fix44, id("V"), id("ALICE"));
        let logon = LogonNote { version, reset: true, counted: 1, heartbeat_s: 0, venue, client };
        take(Event::Noted(FixNote::Logon(logon).note(ALICE)));
        for number in 1..count {
            let fields = format!("0\x01112={text}{number}\x01");
            let note = FixNote::Session { counted: 0, fields: fields.as_bytes() };
            take(Event::Noted(note.note(ALICE)));
        }
        archive
    }

    fn writer(folder: &Path, bytes_max: u64) -> ReplyFileWriter {
        let plan = ReplyFilesPlan { bytes_max, free_min: 0, journal_id: 7 };
        ReplyFileWriter {
            file_bytes: 256 << 10,
            ..ReplyFileWriter::new(Box::new(Folder::new(folder)), plan)
        }
    }

    /// The numbers read, each compared with the message sent.
    fn read(reader: &mut ReplyFileReader, archive: &MessageArchive) -> Vec<Range<u64>> {
        let (mut number, mut runs) = (1, Vec::<Range<u64>>::new());
        let end = archive.reply_numbers(0).end;
        while number < end {
            let Some(block) = reader.block(name(), number) else {
                number += 1;
                continue;
            };
            let numbers = block.numbers();
            assert!(numbers.contains(&number), "{number} in {numbers:?}");
            for (number, message) in numbers.clone().zip(block.messages()) {
                assert_eq!(Some(message), archive.reply(0, number), "{number}");
            }
            number = numbers.end;
            match runs.last_mut().filter(|run| run.end == numbers.start) {
                Some(run) => run.end = numbers.end,
                None => runs.push(numbers),
            }
        }
        runs
    }

    /// Messages that fill blocks are written once, and read as they were sent; the next start appends to them.
    #[test]
    fn messages_are_read_as_they_were_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = writer(folder.path(), 64 << 20);
        let sent = archive(10_000, "A");
        assert!(first.take(&sent, 1, 0) > 10);
        assert_eq!(first.take(&sent, 2, 0), 0, "it is written");
        let [run] = &read(&mut first.reader(), &sent)[..] else { panic!("they follow each other") };
        assert!(run.start == 1 && 9_000 < run.end && run.end < 10_001, "{run:?}");
        assert_eq!(first.figures().sequence.get(), 2);

        let mut second = writer(folder.path(), 64 << 20);
        let sent = archive(20_000, "A");
        assert!(second.take(&sent, 3, 0) > 10);
        let runs = read(&mut second.reader(), &sent);
        assert!(matches!(&runs[..], [run] if run.start == 1 && run.end > 19_000), "{runs:?}");
    }

    /// A crash of the machine may lose the end of the journal and keep the replies to it. Their numbers are given to
    /// other messages, and those are read, also by later starts.
    #[test]
    fn replies_to_lost_inputs_are_void() {
        let folder = tempfile::tempdir().unwrap();
        writer(folder.path(), 64 << 20).take(&archive(10_000, "LOST"), 1, 0);
        // The journal has the Logon and a few more messages; the rest are shorter in total, so that no block is full.
        let mut second = writer(folder.path(), 64 << 20);
        second.take(&archive(100, "LOST"), 1, 0);
        let short = archive(300, "B");
        second.take(&short, 2, 0);
        assert_eq!(read(&mut second.reader(), &short), []);
        let mut third = writer(folder.path(), 64 << 20);
        let longer = archive(20_000, "B");
        third.take(&longer, 3, 0);
        let runs = read(&mut third.reader(), &longer);
        assert!(matches!(&runs[..], [run] if run.start == 1 && run.end > 19_000), "{runs:?}");
        // Files of another journal are ignored.
        let plan = ReplyFilesPlan { bytes_max: 64 << 20, free_min: 0, journal_id: 8 };
        let mut other = ReplyFileWriter::new(Box::new(Folder::new(folder.path())), plan);
        other.take(&archive(2, "C"), 1, 0);
        assert!(other.reader().block(name(), 1).is_none());
    }

    /// A block that does not verify is not read, and the blocks beside it are. The oldest file is removed where the
    /// files exceed their limit.
    #[test]
    fn damage_costs_a_block_and_the_bound_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let sent = archive(20_000, "A");
        let mut whole = writer(folder.path(), 64 << 20);
        whole.take(&sent, 1, 0);
        let path = folder.path().join(file_name(1));
        let mut bytes = fs::read(&path).unwrap();
        bytes[40_000] ^= 1;
        fs::write(&path, bytes).unwrap();
        let runs = read(&mut whole.reader(), &sent);
        assert_eq!(runs.len(), 2, "{runs:?}");
        assert!(runs[0].start == 1 && runs[0].end < runs[1].start && runs[1].end > 19_000);

        let mut small = writer(folder.path(), 600 << 10);
        let sent = archive(40_000, "A");
        small.take(&sent, 1, 0);
        let on_disk: u64 = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(on_disk <= 600 << 10, "{on_disk} bytes");
        let runs = read(&mut small.reader(), &sent);
        let [run] = &runs[..] else { panic!("{runs:?}") };
        assert!(run.start > 20_000 && run.end > 39_000, "{run:?}");
    }

    /// While the disk is full, nothing is written; the next try is a minute later.
    #[test]
    fn a_full_disk_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut full = writer(folder.path(), 64 << 20);
        full.plan.free_min = u64::MAX / 2;
        let sent = archive(10_000, "A");
        assert_eq!((full.take(&sent, 1, 0), full.figures().failed.get()), (0, 1));
        full.plan.free_min = 0;
        assert_eq!(full.take(&sent, 1, RETRY_NS - 1), 0, "it is too early");
        assert!(full.take(&sent, 1, RETRY_NS) > 10);
    }
}
