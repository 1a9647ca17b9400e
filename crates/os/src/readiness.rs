//! Waiting for descriptors: epoll(7) for many, poll(2) for a few, eventfd(2) to be woken by another
//! thread.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    time::Duration,
};

use crate::check;

/// Reports which of many descriptors became readable or writable: epoll(7), edge-triggered.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    happened: Vec<libc::epoll_event>,
}

/// A change of one descriptor's readiness.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The token that the descriptor was added with.
    pub token: u64,
    /// A read would not block: there are bytes, an end, or an error.
    pub readable: bool,
    /// A write would not block: there is room, an end, or an error.
    pub writable: bool,
    /// The stream has ended, after its readable bytes, or has an error.
    pub ended: bool,
}

impl Epoll {
    /// Reports at most `events_max` descriptors a call.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(events_max: usize) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self { epoll, happened: vec![libc::epoll_event { events: 0, u64: 0 }; events_max] })
    }

    /// Reports `fd` from now on, until it is closed.
    ///
    /// # Errors
    /// `fd` cannot be watched, or the system has no memory left.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add_for(fd, token, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP)
    }

    /// As [`add`](Self::add), but reports only that `fd` became writable, or has an error.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_for_room(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add_for(fd, token, libc::EPOLLOUT)
    }

    /// As [`add`](Self::add), but reports only that `fd` became readable.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    #[cfg(feature = "af-xdp")]
    pub fn add_for_bytes(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.add_for(fd, 0, libc::EPOLLIN)
    }

    fn add_for(&self, fd: BorrowedFd<'_>, token: u64, events: libc::c_int) -> io::Result<()> {
        let events = events | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open while borrowed; the event is live and is only read.
        let result = unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &raw mut event,
            )
        };
        check(result).map(drop)
    }

    /// Reports the changes since the last call, without waiting.
    ///
    /// # Errors
    /// Only a fault of this program.
    pub fn poll(&mut self, mut report: impl FnMut(Readiness)) -> io::Result<()> {
        let events_max = i32::try_from(self.happened.len()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `events_max` events, and the vector holds as many.
        let result = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.happened.as_mut_ptr(), events_max, 0)
        };
        let count = match check(result) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for event in &self.happened[..count] {
            // Fields of a packed struct are copied out before they are used.
            let (events, token) = (event.events as i32, event.u64);
            let ended = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
            report(Readiness {
                token,
                readable: events & (libc::EPOLLIN | ended) != 0,
                writable: events & (libc::EPOLLOUT | ended) != 0,
                ended: events & ended != 0,
            });
        }
        Ok(())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// A counter in the kernel that can be waited for like a socket: eventfd(2).
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// An unsignaled counter.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Self(File::from(fd)))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        // It fails only if the counter is full, and then it is readable as it should be.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next signal.
    pub fn clear(&self) {
        // It fails only if there was no signal, and then it is unreadable as it should be.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Descriptors to wait for, any of them: poll(2).
pub struct PollSet {
    /// Held so that no entry of `entries` outlives its descriptor.
    descriptors: Vec<OwnedFd>,
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// Waits for all of these.
    #[must_use]
    pub fn new(descriptors: Vec<OwnedFd>) -> Self {
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let entries = descriptors.iter().map(|descriptor| entry(descriptor.as_raw_fd())).collect();
        Self { descriptors, entries }
    }

    /// Waits until one of the descriptors is readable, a signal arrives, or the time has passed.
    pub fn wait(&mut self, at_most: Duration) {
        debug_assert_eq!(self.descriptors.len(), self.entries.len());
        let at_most = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos() as _,
        };
        // SAFETY: the entries and the time are live, the count is that of the entries, no signal
        // mask is passed, and the descriptors are open because `descriptors` owns them.
        unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                &raw const at_most,
                ptr::null(),
            );
        }
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: a call that creates a descriptor has just returned it, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal is seen until it is cleared, however many there were.
    #[test]
    fn a_signal_wakes_and_is_cleared() {
        let event = EventFd::new().unwrap();
        let mut epoll = Epoll::new(4).unwrap();
        epoll.add(event.as_fd(), 7).unwrap();
        let readable = |epoll: &mut Epoll| {
            let mut seen = false;
            epoll.poll(|ready| seen |= ready.readable && ready.token == 7).unwrap();
            seen
        };
        assert!(!readable(&mut epoll));
        event.signal();
        event.signal();
        assert!(readable(&mut epoll));
        event.clear();
        let mut set = PollSet::new(vec![event.as_fd().try_clone_to_owned().unwrap()]);
        set.wait(Duration::from_millis(1));
        assert_eq!(set.entries[0].revents, 0);
        event.signal();
        set.wait(Duration::from_secs(60));
        assert_ne!(set.entries[0].revents, 0);
    }
}
