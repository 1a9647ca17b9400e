//! The connections of a listener by a thread each: it sleeps in recv(2), and the bytes it receives wait in its ring
//! until they are read.
//!
//! Invariant: all threads and rings are made at the start. A connection that is not read fills its ring, then its
//! thread receives nothing more, and TCP holds its client back. A seat is free again once its thread has reported that
//! it is done.

use std::{
    fmt,
    io::{self, Read},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use os::EventFd;
use ring::{Builder, Consumer, Flow, Parker, Producer, ThreadParker, Unparker};

use crate::{ConnectionId, NetworkEvent};

/// The most pieces in the ring of a connection: 16 KiB of slots.
const PIECES: usize = 64;
/// Bytes of a piece: an order is one piece, and a slot is four cache lines.
const PIECE_LEN: usize = 255;
/// The most bytes that a thread receives in one call.
const READ_LEN: usize = 4096;
/// The stack of a thread; only the part it touches, about 8 KiB, takes memory.
const STACK_BYTES: usize = 128 << 10;
/// The number of seats in one word of the bell.
const WORD: usize = u64::BITS as usize;

/// The most memory of the thread and the ring of one connection.
pub const THREAD_BYTES_MAX: usize = PIECES * size_of::<Piece>() + (16 << 10);

/// The threads of a listener, by their seats.
pub(super) struct Threads {
    bell: Arc<Bell>,
    seats: Vec<Seat>,
    /// Seats whose threads wait for a connection.
    free: Vec<usize>,
    /// The seat of each place of the network's table that has a connection.
    of_place: Vec<Option<usize>>,
}

/// The agent's side of a thread.
struct Seat {
    shared: Arc<Shared>,
    pieces: Consumer<Piece>,
    thread: Option<JoinHandle<()>>,
    unparker: Arc<dyn Unparker>,
    /// `None` while the thread waits for a connection, or for the end of one that was given up.
    served: Option<Served>,
}

/// A connection that a thread receives from.
struct Served {
    connection: ConnectionId,
    stream: Arc<TcpStream>,
    /// The number of bytes of the first piece already read.
    read: usize,
    end: Option<End>,
    /// True if the kernel was asked to report room for writes.
    reports_room: bool,
}

/// The state shared by thread and agent beside the ring.
#[derive(Default)]
struct Shared {
    /// A connection handed to the thread and not yet taken.
    handed: Mutex<Option<Arc<TcpStream>>>,
    /// True if the connection was given up: no more of its bytes are wanted.
    is_given_up: AtomicBool,
    /// True if the last piece of the connection is in the ring.
    has_ended: AtomicBool,
    /// True while the thread waits for room in its ring.
    awaits_room: AtomicBool,
    /// True if the thread must end.
    stops: AtomicBool,
}

/// Marks the seats that have news, and wakes the agent for them.
struct Bell {
    event: EventFd,
    /// True if it was rung since the agent last looked.
    is_rung: AtomicBool,
    /// A bit for each seat.
    seats: Box<[AtomicU64]>,
}

/// A piece that a thread hands over: bytes, or the end of its connection.
#[derive(Clone, Copy)]
struct Piece {
    /// 0 for the end.
    len: u8,
    /// For an end, the number of the error, in native byte order; 0 if the peer has finished.
    bytes: [u8; PIECE_LEN],
}

const _: () = assert!(size_of::<Piece>() == 256 && READ_LEN <= PIECES * PIECE_LEN);

/// The end of a connection: by its peer, or by an error of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Broken(i32),
}

impl Piece {
    fn of(bytes: &[u8]) -> Self {
        let mut piece = Self { len: bytes.len() as u8, bytes: [0; PIECE_LEN] };
        piece.bytes[..bytes.len()].copy_from_slice(bytes);
        piece
    }

    fn end(end: End) -> Self {
        let number = match end {
            End::Finished => 0,
            End::Broken(number) => number,
        };
        Self { len: 0, ..Self::of(&number.to_ne_bytes()) }
    }

    /// The bytes of the piece, or the end.
    fn get(&self) -> Result<&[u8], End> {
        if self.len > 0 {
            return Ok(&self.bytes[..usize::from(self.len)]);
        }
        let number = self.bytes.first_chunk().expect("a piece has room for a number");
        Err(match i32::from_ne_bytes(*number) {
            0 => End::Finished,
            number => End::Broken(number),
        })
    }
}

impl Threads {
    /// Starts `count` threads, at least 1.
    ///
    /// # Errors
    /// The system has no descriptor left, or does not let the process have so many threads.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Self::start(count, |thread, worker| thread.spawn(move || worker.run()))
    }

    fn start(
        count: usize,
        mut start: impl FnMut(thread::Builder, Worker) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Self> {
        let words = count.div_ceil(WORD);
        let bell = Arc::new(Bell {
            event: EventFd::new()?,
            is_rung: AtomicBool::new(false),
            seats: (0..words).map(|_| AtomicU64::new(0)).collect(),
        });
        let (seats, free) = (Vec::with_capacity(count), (0..count).rev().collect());
        // Dropping this ends the threads already started, also where a later one cannot start.
        let mut threads = Self { bell, seats, free, of_place: Vec::new() };
        for index in 0..count {
            let mut ring = Builder::new("connection", PIECES);
            let pieces = ring.gating("order entry");
            let (producer, _) = ring.build();
            let parker = ThreadParker::default();
            let (unparker, shared) = (parker.unparker(), Arc::new(Shared::default()));
            let worker = Worker {
                index,
                shared: Arc::clone(&shared),
                pieces: producer,
                parker,
                bell: Arc::clone(&threads.bell),
            };
            let name = format!("damrak-tcp-{index}");
            let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES);
            let thread = Some(start(thread, worker)?);
            threads.seats.push(Seat { shared, pieces, thread, unparker, served: None });
        }
        Ok(threads)
    }

    /// A descriptor that is readable when there are events.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }

    /// True if a thread is free for a connection.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Starts to receive from a new connection.
    ///
    /// # Panics
    /// No thread is free.
    pub(super) fn add(&mut self, stream: &Arc<TcpStream>, connection: ConnectionId) {
        let index = self.free.pop().expect("the caller has looked");
        let place = connection.index as usize;
        if self.of_place.len() <= place {
            self.of_place.resize(place + 1, None);
        }
        self.of_place[place] = Some(index);
        let seat = &mut self.seats[index];
        let stream = Arc::clone(stream);
        *seat.shared.handed() = Some(Arc::clone(&stream));
        seat.served = Some(Served { connection, stream, read: 0, end: None, reports_room: false });
        seat.unparker.unpark();
    }

    /// Forgets a connection that was shut down.
    pub(super) fn remove(&mut self, connection: ConnectionId) {
        let index = self.of_place[connection.index as usize].take();
        let index = index.expect("a connection has a seat");
        let seat = &mut self.seats[index];
        let served = seat.served.take().expect("its seat serves it");
        if served.end.is_some() {
            seat.shared.has_ended.store(false, Ordering::Relaxed);
            return self.free.push(index);
        }
        // Pairs with the Acquire in `Worker::receive`.
        seat.shared.is_given_up.store(true, Ordering::Release);
        if seat.discard() {
            self.free.push(index);
        }
    }

    /// Reads bytes that have arrived on a connection.
    pub(super) fn read(
        &mut self,
        connection: ConnectionId,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let index = self.of_place[connection.index as usize].expect("a connection has a seat");
        self.seats[index].read(buffer)
    }

    /// True once for each connection: its room is not reported yet.
    pub(super) fn begins_to_report_room(&mut self, connection: ConnectionId) -> bool {
        let index = self.of_place[connection.index as usize].expect("a connection has a seat");
        let served = self.seats[index].served.as_mut().expect("its seat serves it");
        !std::mem::replace(&mut served.reports_room, true)
    }

    /// Appends the events of the threads.
    pub(super) fn take_events(&mut self, events: &mut Vec<NetworkEvent>) {
        let Self { bell, seats, free, .. } = self;
        bell.take(|index| {
            let seat = &mut seats[index];
            if let Some(served) = &seat.served {
                events.push(NetworkEvent::Readable(served.connection));
                // Pairs with the Release in `Worker::run`.
                if seat.shared.has_ended.load(Ordering::Acquire) {
                    events.push(NetworkEvent::Ending(served.connection));
                }
            } else if seat.discard() {
                free.push(index);
            }
        });
    }
}

impl Seat {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { pieces, served, shared, unparker, .. } = self;
        let Served { read, end, .. } = served.as_mut().expect("it serves a connection");
        let mut count = 0;
        let taken = pieces.poll(PIECES, |piece, _| {
            let bytes = match piece.get() {
                Ok(bytes) => &bytes[*read..],
                Err(it) => {
                    *end = Some(it);
                    return Flow::Stop;
                }
            };
            let len = bytes.len().min(buffer.len() - count);
            buffer[count..count + len].copy_from_slice(&bytes[..len]);
            count += len;
            if len < bytes.len() {
                *read += len;
                return Flow::Hold;
            }
            *read = 0;
            Flow::Continue
        });
        if taken > 0 {
            shared.give_room(&**unparker);
        }
        match end {
            _ if count > 0 || buffer.is_empty() => Ok(count),
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(End::Finished) => Ok(0),
            Some(End::Broken(number)) => Err(io::Error::from_raw_os_error(*number)),
        }
    }

    /// Discards the bytes of a connection that was given up. True if its end was among them: the thread waits for
    /// another.
    fn discard(&mut self) -> bool {
        let mut is_over = false;
        let taken = self.pieces.drain(PIECES, |piece, _| is_over |= piece.get().is_err());
        if taken > 0 {
            self.shared.give_room(&*self.unparker);
        }
        if is_over {
            // The thread does not read these before it has another connection, which the lock hands over.
            self.shared.is_given_up.store(false, Ordering::Relaxed);
            self.shared.has_ended.store(false, Ordering::Relaxed);
        }
        is_over
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for seat in &self.seats {
            seat.shared.stops.store(true, Ordering::Release); // pairs with the Acquires in `Worker`
            if let Some(served) = &seat.served {
                // It fails only where the connection has already ended.
                let _ = served.stream.shutdown(Shutdown::Both);
            }
            seat.unparker.unpark();
        }
        for thread in self.seats.iter_mut().filter_map(|seat| seat.thread.take()) {
            // A panic was printed when it happened, and ends the process where that is configured.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, free) = (self.seats.len(), self.free.len());
        f.debug_struct("Threads").field("threads", &threads).field("free", &free).finish()
    }
}

impl Shared {
    fn handed(&self) -> MutexGuard<'_, Option<Arc<TcpStream>>> {
        // The option is whole after each use.
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread if it waits for slots; call it after slots were given back.
    fn give_room(&self, thread: &dyn Unparker) {
        // The slots first, then the flag; pairs with the fence in `Worker::await_room`.
        fence(Ordering::SeqCst);
        if self.awaits_room.load(Ordering::Relaxed)
            && self.awaits_room.swap(false, Ordering::Relaxed)
        {
            thread.unpark();
        }
    }
}

impl Bell {
    /// Shows the agent all that was published before, and wakes it.
    fn ring(&self, seat: usize) {
        // Both pair with the swaps in `take`: a reader that sees the ring sees the bit, and one that sees the bit sees
        // the pieces in the ring.
        self.seats[seat / WORD].fetch_or(1 << (seat % WORD), Ordering::Release);
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.event.signal();
        }
    }

    fn take(&self, mut each: impl FnMut(usize)) {
        // Loaded first: a swap takes the cache line away from the threads.
        if !self.is_rung.load(Ordering::Relaxed) || !self.is_rung.swap(false, Ordering::AcqRel) {
            return;
        }
        for (word, seats) in self.seats.iter().enumerate() {
            if seats.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = seats.swap(0, Ordering::Acquire);
            while bits != 0 {
                each(word * WORD + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

/// A thread and its state.
struct Worker {
    index: usize,
    shared: Arc<Shared>,
    pieces: Producer<Piece>,
    parker: ThreadParker,
    bell: Arc<Bell>,
}

impl Worker {
    /// Receives from one connection after the other.
    fn run(mut self) {
        while let Some(stream) = self.next_stream() {
            let end = self.receive(&stream);
            drop(stream);
            if !self.await_room(false) {
                return;
            }
            // Pairs with the Acquire in `take_events`. In this order: an agent that has taken the last piece may reset
            // it.
            self.shared.has_ended.store(true, Ordering::Release);
            let is_taken = self.pieces.try_publish(Piece::end(end)).is_ok();
            assert!(is_taken, "there was room");
            self.bell.ring(self.index);
        }
    }

    /// Waits for a connection; `None` if the thread must end.
    fn next_stream(&mut self) -> Option<Arc<TcpStream>> {
        loop {
            if self.shared.stops.load(Ordering::Acquire) {
                return None;
            }
            let handed = self.shared.handed().take();
            if handed.is_some() {
                return handed;
            }
            self.parker.park(Duration::MAX);
        }
    }

    /// Receives until the connection ends, or is given up.
    fn receive(&mut self, stream: &TcpStream) -> End {
        let mut stream = stream;
        let mut buffer = [0; READ_LEN];
        while self.await_room(true) {
            let len = (self.pieces.free() * PIECE_LEN).min(READ_LEN);
            let count = match stream.read(&mut buffer[..len]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return End::Broken(error.raw_os_error().unwrap_or(libc::EIO)),
            };
            let mut batch = self.pieces.batch();
            for bytes in buffer[..count].chunks(PIECE_LEN) {
                batch.push_with(|| Piece::of(bytes)).expect("no more was received than has room");
            }
            drop(batch);
            self.bell.ring(self.index);
        }
        End::Finished
    }

    /// Waits until the ring has a free slot. Returns false if the thread must end, or if the slot is `for_bytes` of a
    /// connection that was given up.
    fn await_room(&mut self, for_bytes: bool) -> bool {
        loop {
            let Shared { stops, is_given_up, awaits_room, .. } = &*self.shared;
            if stops.load(Ordering::Acquire) || for_bytes && is_given_up.load(Ordering::Acquire) {
                return false;
            }
            if self.pieces.free() > 0 {
                return true;
            }
            awaits_room.store(true, Ordering::Relaxed);
            // The flag first, then the slots; pairs with the fence in `give_room`.
            fence(Ordering::SeqCst);
            if self.pieces.free() == 0 {
                self.parker.park(Duration::MAX);
            }
            awaits_room.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use super::*;

    fn id(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    /// A connection: the venue's end and the client's end.
    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(listener.accept().unwrap().0), client)
    }

    /// Waits for the bell until the condition holds.
    fn until(threads: &mut Threads, mut holds: impl FnMut(&mut Threads) -> bool) {
        loop {
            threads.take_events(&mut Vec::new());
            if holds(threads) {
                return;
            }
            thread::yield_now();
        }
    }

    /// Where the system refuses a thread, the threads before it end, and the error is returned.
    #[test]
    fn threads_end_where_one_is_refused() {
        let alive = Arc::new(());
        let started = Threads::start(3, |thread, worker| {
            if worker.index == 2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let alive = Arc::clone(&alive);
            thread.spawn(move || {
                worker.run();
                drop(alive);
            })
        });
        assert_eq!(started.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(Arc::strong_count(&alive), 1, "a thread goes on");
    }

    /// A seat is free again after each end: of a client that finished, of a connection given up while no bytes come,
    /// and of one given up with a full ring. The end is reported after all bytes that came before it.
    #[test]
    fn a_seat_is_used_again() {
        let mut threads = Threads::new(1).unwrap();
        let mut buffer = [0; 100];
        for round in 0..50 {
            let (stream, mut client) = pair();
            assert!(threads.has_free());
            threads.add(&stream, id(round));
            assert!(!threads.has_free());
            match round % 3 {
                0 => {
                    client.write_all(&[7; 300]).unwrap();
                    drop(client);
                    let mut count = 0;
                    until(&mut threads, |threads| match threads.read(id(round), &mut buffer) {
                        Ok(0) => true,
                        Ok(more) => {
                            count += more;
                            assert!(buffer[..more].iter().all(|byte| *byte == 7));
                            false
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                            false
                        }
                    });
                    assert_eq!(count, 300);
                    threads.remove(id(round));
                    assert!(threads.has_free(), "its end was read");
                }
                kind => {
                    let _writer = (kind == 2).then(|| {
                        let is_full = |threads: &Threads| {
                            threads.seats[0].shared.awaits_room.load(Ordering::Relaxed)
                        };
                        client.set_nonblocking(true).unwrap();
                        while !is_full(&threads) {
                            // It also fails where the socket is full.
                            let _ = client.write(&[7; 4_096]);
                            thread::yield_now();
                        }
                    });
                    stream.shutdown(Shutdown::Both).unwrap();
                    threads.remove(id(round));
                    until(&mut threads, |threads| threads.has_free());
                }
            }
        }
    }
}
