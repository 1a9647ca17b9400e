//! The segment preparer takes slow disk work from the writer: it creates the next segment, syncs
//! segments that have ended, and moves the watermark.
//!
//! In a folder of the file system the preparer runs on a separate thread, which communicates with
//! the writer by two channels and `Shared`. Where storage does everything in one order, in tests
//! and in the simulator, the writer runs it in small steps. Invariant: the watermark never names a
//! record that is not on the medium.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    buffer::Buffer,
    storage::{FileAccess, PREPARED_FILE, Storage, StorageFile, WATERMARK_FILE},
    watermark::Watermark,
    writer::Durability,
};

/// The interval between moves of the watermark, if records were committed meanwhile.
const WATERMARK_INTERVAL: Duration = Duration::from_millis(100);

/// Where commits do not sync, the current segment is synced after this many of these intervals.
const INTERVALS_PER_SYNC: u32 = 10;

/// The bytes of zeros written at a time, with a pause after each step, so that commits find the
/// medium free in between. There is no pause where the writer is so fast that the next segment
/// would come late.
const ZEROS_STEP: usize = 256 << 10;
const ZEROS_PAUSE: Duration = Duration::from_millis(3);

/// An operation that failed, and its file.
pub(crate) struct Failed {
    pub(crate) doing: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// The work itself, on either thread.
struct Work {
    storage: Box<dyn Storage>,
    watermark: Watermark,
    preparing: Option<Preparing>,
    zeros: Buffer,
    /// Commits do not sync, so blocks that are allocated but not written yet serve as well as
    /// zeros. Where commits sync, the first sync of such a block would also have to mark it as
    /// written.
    allocates: bool,
}

struct Preparing {
    file: Box<dyn StorageFile>,
    offset: u64,
    bytes: u64,
}

impl Preparing {
    /// The part of it that is ready, in 256ths.
    fn progress(&self) -> u64 {
        assert!(self.offset <= self.bytes, "{} of {} bytes", self.offset, self.bytes);
        self.offset * 256 / self.bytes.max(1)
    }
}

impl Work {
    /// Begins to create the next segment, with this many bytes.
    fn prepare(&mut self, bytes: u64) -> io::Result<()> {
        assert!(self.preparing.is_none(), "one segment is prepared at a time");
        let mut file = self.storage.create(PREPARED_FILE)?;
        let allocated = if self.allocates && bytes > 0 { file.allocate(bytes) } else { Ok(false) };
        let synced = allocated.and_then(|is_there| {
            if is_there {
                file.sync()?;
            }
            Ok(if is_there { bytes } else { 0 })
        });
        match synced {
            Ok(offset) => {
                self.preparing = Some(Preparing { file, offset, bytes });
                Ok(())
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Does the next step; returns the file after the last one.
    fn step(&mut self) -> io::Result<Option<Box<dyn StorageFile>>> {
        let Some(preparing) = &mut self.preparing else { return Ok(None) };
        if preparing.offset < preparing.bytes {
            let len = (preparing.bytes - preparing.offset).min(ZEROS_STEP as u64);
            let zeros = &self.zeros.bytes()[..len as usize];
            preparing.file.write_synced(preparing.offset, zeros)?;
            preparing.offset += len;
            assert!(preparing.offset <= preparing.bytes, "{} bytes of zeros", preparing.offset);
            return Ok(None);
        }
        Ok(self.preparing.take().map(|prepared| prepared.file))
    }

    /// Discards the prepared file: there was no room for all of it.
    fn abandon(&mut self) {
        self.preparing = None;
        // A file that cannot be removed takes room, and the next start tries again.
        let _ = self.storage.remove(PREPARED_FILE);
    }

    /// Syncs the parts written without waiting: an ended segment, the header of the next one, their
    /// names. Then moves the watermark.
    fn sync_ended(&mut self, ended_segment: EndedSegment) -> Result<u64, Failed> {
        let EndedSegment { mut ended, ended_name, next_name, sequence } = ended_segment;
        assert!(ended_name < next_name, "{ended_name} ends before {next_name}");
        assert!(self.watermark.sequence() <= sequence, "the watermark is behind {sequence}");
        ended.sync().map_err(|source| self.failed("sync", &ended_name, source))?;
        drop(ended);
        let next = self.storage.open(&next_name, FileAccess::Write);
        next.and_then(|mut next| next.sync())
            .and_then(|()| self.storage.sync_folder())
            .map_err(|source| self.failed("sync", &next_name, source))?;
        self.write_watermark(sequence)?;
        Ok(sequence)
    }

    fn write_watermark(&mut self, sequence: u64) -> Result<(), Failed> {
        if sequence == self.watermark.sequence() {
            return Ok(());
        }
        self.watermark
            .write(sequence)
            .map_err(|source| self.failed("write", WATERMARK_FILE, source))
    }

    fn write_watermark_twice(&mut self, sequence: u64) -> Result<(), Failed> {
        let written = self.watermark.write_twice(sequence);
        written.map_err(|source| self.failed("write", WATERMARK_FILE, source))
    }

    fn failed(&self, doing: &'static str, name: &str, source: io::Error) -> Failed {
        Failed { doing, path: self.storage.place().join(name), source }
    }
}

/// A segment that has ended but is not synced.
pub(crate) struct EndedSegment {
    pub(crate) ended: Box<dyn StorageFile>,
    pub(crate) ended_name: String,
    pub(crate) next_name: String,
    /// The last sequence of the segment.
    pub(crate) sequence: u64,
}

/// A request of the writer to the thread.
enum Task {
    /// Create the next segment, with this many bytes.
    Prepare(u64),
    /// Bring a segment that has ended to the medium.
    SyncEnded(EndedSegment),
    /// Move both copies of the watermark to this sequence.
    MoveWatermark(u64),
    Close,
}

/// A result of the segment preparer.
pub(crate) enum Outcome {
    /// The next segment is ready.
    Prepared(Box<dyn StorageFile>),
    /// There is no room for the next segment.
    NoRoom(io::Error),
    /// Everything up to this sequence is on the medium.
    Synced(u64),
    /// The watermark is at the requested sequence.
    Moved,
    /// A sync or a write of the watermark failed: nothing more may be confirmed.
    Failed(Failed),
}

/// The writer's end of the segment preparer.
pub(crate) enum SegmentPreparer {
    /// On the writer's thread.
    Inline(Box<Inline>),
    /// On a thread of its own.
    Background(Background),
}

pub(crate) struct Inline {
    work: Work,
    outcomes: Vec<Outcome>,
}

pub(crate) struct Background {
    tasks: Sender<Task>,
    outcomes: Receiver<Outcome>,
    /// Outcomes that came while the writer waited for another.
    kept: Vec<Outcome>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the writer shares with the thread.
struct Shared {
    /// The last sequence handled by a commit.
    committed: AtomicU64,
    /// The position of the writer in the second half of the current segment, in 256ths.
    progress: AtomicU64,
    current: Mutex<Current>,
    /// Set when there are outcomes, so that the writer can check at no cost.
    has_outcomes: AtomicBool,
}

struct Current {
    name: String,
    /// Segments that have ended and are not on the medium yet.
    unsynced_count: u32,
}

impl Shared {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SegmentPreparer {
    /// Creates a preparer for the writer on `storage` whose current segment has this name.
    pub(crate) fn new(
        storage: &dyn Storage,
        watermark: Watermark,
        durability: Durability,
        current: &str,
    ) -> io::Result<Self> {
        let zeros = Buffer::zeroed(ZEROS_STEP);
        let sequence = watermark.sequence();
        // In order, the same calls give the same bytes in the same files on every storage.
        let allocates = durability != Durability::Synced && !storage.is_in_order();
        let work = Work { storage: storage.second(), watermark, preparing: None, zeros, allocates };
        if storage.is_in_order() {
            return Ok(Self::Inline(Box::new(Inline { work, outcomes: Vec::new() })));
        }
        let (tasks, task_receiver) = mpsc::channel();
        let (outcome_sender, outcomes) = mpsc::channel();
        let shared = Arc::new(Shared {
            committed: AtomicU64::new(sequence),
            progress: AtomicU64::new(0),
            current: Mutex::new(Current { name: current.to_owned(), unsynced_count: 0 }),
            has_outcomes: AtomicBool::new(false),
        });
        let shared_with_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("damrak-segments".into()).spawn(move || {
            Thread { work, task_receiver, outcome_sender, shared: shared_with_thread, durability }
                .run()
        })?;
        Ok(Self::Background(Background {
            tasks,
            outcomes,
            kept: Vec::new(),
            shared,
            thread: Some(thread),
        }))
    }

    /// True if a segment that ended may be synced while the next one is written.
    pub(crate) fn is_background(&self) -> bool {
        matches!(self, Self::Background(_))
    }

    /// Requests the next segment.
    pub(crate) fn prepare(&mut self, bytes: u64) {
        match self {
            Self::Inline(inline) => {
                if let Err(error) = inline.work.prepare(bytes) {
                    inline.outcomes.push(Outcome::NoRoom(error));
                }
            }
            Self::Background(background) => background.ask(Task::Prepare(bytes)),
        }
    }

    /// Requests the sync of a segment that has ended.
    pub(crate) fn sync_ended(&mut self, ended_segment: EndedSegment) {
        match self {
            Self::Inline(inline) => {
                let outcome = match inline.work.sync_ended(ended_segment) {
                    Ok(sequence) => Outcome::Synced(sequence),
                    Err(failed) => Outcome::Failed(failed),
                };
                inline.outcomes.push(outcome);
            }
            Self::Background(background) => {
                let mut current = background.shared.current();
                current.name.clone_from(&ended_segment.next_name);
                current.unsynced_count += 1;
                drop(current);
                background.ask(Task::SyncEnded(ended_segment));
            }
        }
    }

    /// Reports the name of the current segment; all records before it, up to `sequence`, are on the
    /// medium.
    pub(crate) fn begin(&mut self, name: &str, sequence: u64) {
        match self {
            Self::Inline(inline) => {
                if let Err(failed) = inline.work.write_watermark(sequence) {
                    inline.outcomes.push(Outcome::Failed(failed));
                }
            }
            Self::Background(background) => background.shared.current().name = name.to_owned(),
        }
    }

    /// Moves both copies of the watermark now: all records up to `sequence` are on the medium.
    pub(crate) fn watermark(&mut self, sequence: u64) -> Result<(), Failed> {
        match self {
            Self::Inline(inline) => inline.work.write_watermark_twice(sequence),
            Self::Background(background) => {
                background.ask(Task::MoveWatermark(sequence));
                loop {
                    match background.outcomes.recv() {
                        Ok(Outcome::Moved) => return Ok(()),
                        Ok(Outcome::Failed(failed)) => return Err(failed),
                        Ok(outcome) => background.kept.push(outcome),
                        Err(_) => return Ok(()), // the thread has ended, and has said why before
                    }
                }
            }
        }
    }

    /// Reports that a commit has handled all records up to `sequence`; continues the segment in
    /// preparation.
    pub(crate) fn committed(&mut self, sequence: u64) {
        match self {
            Self::Inline(inline) => inline.step(),
            Self::Background(background) => {
                // Relaxed: only this thread stores it.
                let before = background.shared.committed.load(Ordering::Relaxed);
                assert!(before <= sequence, "{sequence} after {before}");
                // Pairs with the Acquire of the thread: the bytes of the file are written before.
                background.shared.committed.store(sequence, Ordering::Release);
            }
        }
    }

    /// Reports the position of the writer in the second half of the current segment, in 256ths, so
    /// that the next one is ready in time.
    pub(crate) fn is_at(&mut self, progress: u64) {
        assert!(progress <= 256, "{progress} of 256 parts");
        if let Self::Background(background) = self {
            // Relaxed: a stale value means one pause too many or too few.
            background.shared.progress.store(progress, Ordering::Relaxed);
        }
    }

    /// The next outcome, if there is one.
    pub(crate) fn next_outcome(&mut self) -> Option<Outcome> {
        match self {
            Self::Inline(inline) => inline.outcomes.pop(),
            Self::Background(background) => {
                if let Some(outcome) = background.kept.pop() {
                    return Some(outcome);
                }
                // Relaxed: the channel orders its content, and a late check is soon enough.
                if !background.shared.has_outcomes.load(Ordering::Relaxed) {
                    return None;
                }
                let outcome = background.outcomes.try_recv().ok();
                if outcome.is_none() {
                    background.shared.has_outcomes.store(false, Ordering::Relaxed);
                    return background.outcomes.try_recv().ok(); // what came in between
                }
                outcome
            }
        }
    }

    /// Without another thread, finishes the next segment now.
    pub(crate) fn finish(&mut self) {
        if let Self::Inline(inline) = self {
            while inline.work.preparing.is_some() {
                inline.step();
            }
        }
    }
}

impl Inline {
    fn step(&mut self) {
        match self.work.step() {
            Ok(None) => {}
            Ok(Some(file)) => self.outcomes.push(Outcome::Prepared(file)),
            Err(error) => {
                self.work.abandon();
                self.outcomes.push(Outcome::NoRoom(error));
            }
        }
    }
}

impl Background {
    fn ask(&self, task: Task) {
        // A thread that ended has reported the reason; the writer reads it at its next commit.
        let _ = self.tasks.send(task);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ask(Task::Close);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, no receiver would be left for the report.
            let _ = thread.join();
        }
    }
}

struct Thread {
    work: Work,
    task_receiver: Receiver<Task>,
    outcome_sender: Sender<Outcome>,
    shared: Arc<Shared>,
    durability: Durability,
}

impl Thread {
    fn run(mut self) {
        let mut interval_count = 0;
        loop {
            let wait = match &self.work.preparing {
                None => WATERMARK_INTERVAL,
                // Relaxed: see the writer's side. A quarter ahead of it is soon enough.
                Some(preparing)
                    if preparing.progress()
                        < self.shared.progress.load(Ordering::Relaxed) * 5 / 4 + 8 =>
                {
                    Duration::ZERO
                }
                Some(_) => ZEROS_PAUSE,
            };
            let done = match self.task_receiver.recv_timeout(wait) {
                Ok(Task::Prepare(bytes)) => {
                    if let Err(error) = self.work.prepare(bytes) {
                        self.report(Outcome::NoRoom(error));
                    }
                    Ok(())
                }
                Ok(Task::SyncEnded(ended_segment)) => {
                    self.work.sync_ended(ended_segment).map(|sequence| {
                        self.shared.current().unsynced_count -= 1;
                        self.report(Outcome::Synced(sequence));
                    })
                }
                Ok(Task::MoveWatermark(sequence)) => {
                    self.work.write_watermark_twice(sequence).map(|()| {
                        self.report(Outcome::Moved);
                    })
                }
                Ok(Task::Close) | Err(RecvTimeoutError::Disconnected) => {
                    if self.work.preparing.is_some() {
                        self.work.abandon();
                    }
                    return;
                }
                Err(RecvTimeoutError::Timeout) if self.work.preparing.is_some() => {
                    match self.work.step() {
                        Ok(None) => {}
                        Ok(Some(file)) => self.report(Outcome::Prepared(file)),
                        Err(error) => {
                            self.work.abandon();
                            self.report(Outcome::NoRoom(error));
                        }
                    }
                    Ok(())
                }
                Err(RecvTimeoutError::Timeout) => {
                    interval_count += 1;
                    self.follow(interval_count)
                }
            };
            if let Err(failed) = done {
                self.report(Outcome::Failed(failed));
                return;
            }
        }
    }

    /// Moves the watermark up to the last commit.
    fn follow(&mut self, interval_count: u32) -> Result<(), Failed> {
        let current = self.shared.current();
        // Pairs with the Release of the writer. Read while the current segment cannot change.
        let sequence = self.shared.committed.load(Ordering::Acquire);
        // The sequence is behind the watermark where a segment has ended since the last commit.
        if current.unsynced_count > 0 || sequence <= self.work.watermark.sequence() {
            return Ok(());
        }
        let name = current.name.clone();
        drop(current);
        if self.durability != Durability::Synced {
            if !interval_count.is_multiple_of(INTERVALS_PER_SYNC) {
                return Ok(());
            }
            self.work
                .storage
                .open(&name, FileAccess::Write)
                .and_then(|mut file| file.sync())
                .map_err(|source| self.work.failed("sync", &name, source))?;
        }
        self.work.write_watermark(sequence)
    }

    fn report(&self, outcome: Outcome) {
        // A writer that has ended does not receive it.
        let _ = self.outcome_sender.send(outcome);
        self.shared.has_outcomes.store(true, Ordering::Relaxed);
    }
}
