//! What is done ahead of time or after the fact, so that the writer need not wait for it: the next
//! segment is filled with zeros, a segment that has ended is synced, the mark is moved.
//!
//! On a folder of the file system all of it happens on a thread of its own. Where storage has only
//! one order of things, as in tests and in the simulator, it happens in small steps of the writer.

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
    storage::{Access, MARK_FILE, PREPARED_FILE, Storage, StorageFile},
    watermark::Mark,
    writer::Durability,
};

/// How often the mark is moved, if there is reason to.
const MARK_INTERVAL: Duration = Duration::from_millis(100);

/// Where commits do not sync, the current segment is synced after so many of these intervals.
const INTERVALS_PER_SYNC: u32 = 10;

/// So many zeros are written at a time, with this pause after them, so that commits find the medium
/// free in between; without one, where the writer is so fast that the next segment would come late.
const ZEROS_STEP: usize = 256 << 10;
const ZEROS_PAUSE: Duration = Duration::from_millis(3);

/// What could not be done, and to which file.
pub(crate) struct Failed {
    pub(crate) doing: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// The work itself, on whichever thread.
struct Work {
    storage: Box<dyn Storage>,
    mark: Mark,
    preparing: Option<Preparing>,
    zeros: Buffer,
    /// Commits do not sync, so blocks that are taken and not written yet do as well as zeros. Where
    /// they do, the first sync of such a block would have to say that it is written now.
    allocates: bool,
}

struct Preparing {
    file: Box<dyn StorageFile>,
    offset: u64,
    bytes: u64,
}

impl Preparing {
    /// How much of it is there, in 256ths.
    fn progress(&self) -> u64 {
        self.offset * 256 / self.bytes.max(1)
    }
}

impl Work {
    /// Begins to make the next segment, of so many bytes.
    fn prepare(&mut self, bytes: u64) -> io::Result<()> {
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

    /// Goes on with it; the file, if that was the last step.
    fn step(&mut self) -> io::Result<Option<Box<dyn StorageFile>>> {
        let Some(preparing) = &mut self.preparing else { return Ok(None) };
        if preparing.offset < preparing.bytes {
            let len = (preparing.bytes - preparing.offset).min(ZEROS_STEP as u64);
            let zeros = &self.zeros.bytes()[..len as usize];
            preparing.file.write_synced(preparing.offset, zeros)?;
            preparing.offset += len;
            return Ok(None);
        }
        Ok(self.preparing.take().map(|prepared| prepared.file))
    }

    /// What was prepared is worth nothing: there was no room for all of it.
    fn abandon(&mut self) {
        self.preparing = None;
        // A file that cannot be removed takes room, and the next start tries again.
        let _ = self.storage.remove(PREPARED_FILE);
    }

    /// Brings to the medium what was written without waiting: an ended segment, the header of the
    /// next one, their names. Then the mark says so.
    fn settle(&mut self, settling: Settling) -> Result<u64, Failed> {
        let Settling { mut ended, ended_name, next_name, sequence } = settling;
        ended.sync().map_err(|source| self.failed("sync", &ended_name, source))?;
        drop(ended);
        let next = self.storage.open(&next_name, Access::Write);
        next.and_then(|mut next| next.sync())
            .and_then(|()| self.storage.sync_folder())
            .map_err(|source| self.failed("sync", &next_name, source))?;
        self.write_mark(sequence)?;
        Ok(sequence)
    }

    fn write_mark(&mut self, sequence: u64) -> Result<(), Failed> {
        if sequence == self.mark.sequence() {
            return Ok(());
        }
        self.mark.write(sequence).map_err(|source| self.failed("write", MARK_FILE, source))
    }

    fn write_mark_twice(&mut self, sequence: u64) -> Result<(), Failed> {
        let written = self.mark.write_twice(sequence);
        written.map_err(|source| self.failed("write", MARK_FILE, source))
    }

    fn failed(&self, doing: &'static str, name: &str, source: io::Error) -> Failed {
        Failed { doing, path: self.storage.place().join(name), source }
    }
}

/// A segment that has ended, and was not synced.
pub(crate) struct Settling {
    pub(crate) ended: Box<dyn StorageFile>,
    pub(crate) ended_name: String,
    pub(crate) next_name: String,
    /// Its last sequence.
    pub(crate) sequence: u64,
}

enum Order {
    Prepare(u64),
    Settle(Settling),
    Mark(u64),
    Close,
}

/// What the writer hears of work done elsewhere.
pub(crate) enum News {
    /// The next segment is ready.
    Prepared(Box<dyn StorageFile>),
    /// There is no room for the next segment.
    NoRoom(io::Error),
    /// All up to this sequence is on the medium.
    Settled(u64),
    /// The mark says what it was asked to.
    Marked,
    /// Something that must not fail did; nothing more may be confirmed.
    Failed(Failed),
}

/// The writer's end of it.
pub(crate) enum Ahead {
    /// On the writer's thread.
    Here(Box<Here>),
    /// On a thread of its own.
    Elsewhere(Elsewhere),
}

pub(crate) struct Here {
    work: Work,
    news: Vec<News>,
}

pub(crate) struct Elsewhere {
    orders: Sender<Order>,
    news: Receiver<News>,
    /// News that came while the writer waited for another.
    kept: Vec<News>,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer shows to the thread.
struct Seen {
    /// The last sequence that a commit has done with, and the file of all that is not settled.
    committed: AtomicU64,
    /// How far the writer is in the second half of the current segment, in 256ths.
    progress: AtomicU64,
    current: Mutex<Current>,
    /// Set when there is news, so that the writer may look without cost.
    has_news: AtomicBool,
}

struct Current {
    name: String,
    /// Segments that have ended and are not on the medium yet.
    settling_count: u32,
}

impl Seen {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ahead {
    /// For the writer on `storage` whose current segment has this name.
    pub(crate) fn new(
        storage: &dyn Storage,
        mark: Mark,
        durability: Durability,
        current: &str,
    ) -> io::Result<Self> {
        let zeros = Buffer::zeroed(ZEROS_STEP);
        let sequence = mark.sequence();
        // In order, the same calls give the same bytes in the same files wherever they are.
        let allocates = durability != Durability::Synced && !storage.is_in_order();
        let work = Work { storage: storage.second(), mark, preparing: None, zeros, allocates };
        if storage.is_in_order() {
            return Ok(Self::Here(Box::new(Here { work, news: Vec::new() })));
        }
        let (orders, taken) = mpsc::channel();
        let (told, news) = mpsc::channel();
        let seen = Arc::new(Seen {
            committed: AtomicU64::new(sequence),
            progress: AtomicU64::new(0),
            current: Mutex::new(Current { name: current.to_owned(), settling_count: 0 }),
            has_news: AtomicBool::new(false),
        });
        let shown = Arc::clone(&seen);
        let thread = thread::Builder::new()
            .name("damrak-ahead".into())
            .spawn(move || Thread { work, taken, told, seen: shown, durability }.run())?;
        Ok(Self::Elsewhere(Elsewhere {
            orders,
            news,
            kept: Vec::new(),
            seen,
            thread: Some(thread),
        }))
    }

    /// True if a segment that ended may be synced while the next one is written.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere(_))
    }

    /// Asks for the next segment.
    pub(crate) fn prepare(&mut self, bytes: u64) {
        match self {
            Self::Here(here) => {
                if let Err(error) = here.work.prepare(bytes) {
                    here.news.push(News::NoRoom(error));
                }
            }
            Self::Elsewhere(elsewhere) => elsewhere.ask(Order::Prepare(bytes)),
        }
    }

    /// Asks for a segment that ended to be synced.
    pub(crate) fn settle(&mut self, settling: Settling) {
        match self {
            Self::Here(here) => {
                let news = match here.work.settle(settling) {
                    Ok(sequence) => News::Settled(sequence),
                    Err(failed) => News::Failed(failed),
                };
                here.news.push(news);
            }
            Self::Elsewhere(elsewhere) => {
                let mut current = elsewhere.seen.current();
                current.name.clone_from(&settling.next_name);
                current.settling_count += 1;
                drop(current);
                elsewhere.ask(Order::Settle(settling));
            }
        }
    }

    /// Tells the name of the current segment; all before it, up to `sequence`, is on the medium.
    pub(crate) fn begin(&mut self, name: &str, sequence: u64) {
        match self {
            Self::Here(here) => {
                if let Err(failed) = here.work.write_mark(sequence) {
                    here.news.push(News::Failed(failed));
                }
            }
            Self::Elsewhere(elsewhere) => elsewhere.seen.current().name = name.to_owned(),
        }
    }

    /// Moves both copies of the mark, now: all up to `sequence` is on the medium.
    pub(crate) fn mark(&mut self, sequence: u64) -> Result<(), Failed> {
        match self {
            Self::Here(here) => here.work.write_mark_twice(sequence),
            Self::Elsewhere(elsewhere) => {
                elsewhere.ask(Order::Mark(sequence));
                loop {
                    match elsewhere.news.recv() {
                        Ok(News::Marked) => return Ok(()),
                        Ok(News::Failed(failed)) => return Err(failed),
                        Ok(news) => elsewhere.kept.push(news),
                        Err(_) => return Ok(()), // the thread has ended, and has said why before
                    }
                }
            }
        }
    }

    /// A commit has done with all up to `sequence`; goes on with what is prepared here.
    pub(crate) fn committed(&mut self, sequence: u64) {
        match self {
            Self::Here(here) => here.step(),
            Self::Elsewhere(elsewhere) => {
                // Pairs with the Acquire of the thread: the file's bytes are written before.
                elsewhere.seen.committed.store(sequence, Ordering::Release);
            }
        }
    }

    /// Tells how far the writer is in the second half of the current segment, in 256ths: the next one
    /// is to be ready in time.
    pub(crate) fn is_at(&mut self, progress: u64) {
        if let Self::Elsewhere(elsewhere) = self {
            // Relaxed: a late look makes a pause too many, or one too few.
            elsewhere.seen.progress.store(progress, Ordering::Relaxed);
        }
    }

    /// What there is to hear, if anything.
    pub(crate) fn news(&mut self) -> Option<News> {
        match self {
            Self::Here(here) => here.news.pop(),
            Self::Elsewhere(elsewhere) => {
                if let Some(news) = elsewhere.kept.pop() {
                    return Some(news);
                }
                // Relaxed: the channel orders what is in it, and a late look is soon enough.
                if !elsewhere.seen.has_news.load(Ordering::Relaxed) {
                    return None;
                }
                let news = elsewhere.news.try_recv().ok();
                if news.is_none() {
                    elsewhere.seen.has_news.store(false, Ordering::Relaxed);
                    return elsewhere.news.try_recv().ok(); // what came in between
                }
                news
            }
        }
    }

    /// Where there is no other thread, the next segment is finished now.
    pub(crate) fn finish(&mut self) {
        if let Self::Here(here) = self {
            while here.work.preparing.is_some() {
                here.step();
            }
        }
    }
}

impl Here {
    fn step(&mut self) {
        match self.work.step() {
            Ok(None) => {}
            Ok(Some(file)) => self.news.push(News::Prepared(file)),
            Err(error) => {
                self.work.abandon();
                self.news.push(News::NoRoom(error));
            }
        }
    }
}

impl Elsewhere {
    fn ask(&self, order: Order) {
        // A thread that ended has told why; the writer hears it at its next commit.
        let _ = self.orders.send(order);
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.ask(Order::Close);
        if let Some(thread) = self.thread.take() {
            // It does not panic; and if it did, there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

struct Thread {
    work: Work,
    taken: Receiver<Order>,
    told: Sender<News>,
    seen: Arc<Seen>,
    durability: Durability,
}

impl Thread {
    fn run(mut self) {
        let mut interval_count = 0;
        loop {
            let wait = match &self.work.preparing {
                None => MARK_INTERVAL,
                // Relaxed: see the writer's side. A quarter ahead of it is soon enough.
                Some(preparing)
                    if preparing.progress()
                        < self.seen.progress.load(Ordering::Relaxed) * 5 / 4 + 8 =>
                {
                    Duration::ZERO
                }
                Some(_) => ZEROS_PAUSE,
            };
            let done = match self.taken.recv_timeout(wait) {
                Ok(Order::Prepare(bytes)) => {
                    if let Err(error) = self.work.prepare(bytes) {
                        self.tell(News::NoRoom(error));
                    }
                    Ok(())
                }
                Ok(Order::Settle(settling)) => self.work.settle(settling).map(|sequence| {
                    self.seen.current().settling_count -= 1;
                    self.tell(News::Settled(sequence));
                }),
                Ok(Order::Mark(sequence)) => self.work.write_mark_twice(sequence).map(|()| {
                    self.tell(News::Marked);
                }),
                Ok(Order::Close) | Err(RecvTimeoutError::Disconnected) => {
                    if self.work.preparing.is_some() {
                        self.work.abandon();
                    }
                    return;
                }
                Err(RecvTimeoutError::Timeout) if self.work.preparing.is_some() => {
                    match self.work.step() {
                        Ok(None) => {}
                        Ok(Some(file)) => self.tell(News::Prepared(file)),
                        Err(error) => {
                            self.work.abandon();
                            self.tell(News::NoRoom(error));
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
                self.tell(News::Failed(failed));
                return;
            }
        }
    }

    /// Moves the mark after the commits.
    fn follow(&mut self, interval_count: u32) -> Result<(), Failed> {
        let current = self.seen.current();
        // Pairs with the Release of the writer. Read while the current segment cannot change.
        let sequence = self.seen.committed.load(Ordering::Acquire);
        if current.settling_count > 0 || sequence == self.work.mark.sequence() {
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
                .open(&name, Access::Write)
                .and_then(|mut file| file.sync())
                .map_err(|source| self.work.failed("sync", &name, source))?;
        }
        self.work.write_mark(sequence)
    }

    fn tell(&self, news: News) {
        // A writer that has gone does not listen.
        let _ = self.told.send(news);
        self.seen.has_news.store(true, Ordering::Relaxed);
    }
}
