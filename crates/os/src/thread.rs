//! Resources of the calling thread: cores and priority, and the processor time, page faults and instructions that it
//! has used.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{FromRawFd, OwnedFd},
};

use crate::check;

/// The system's number of the calling thread.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() }
}

/// Removes these cores from those that a thread of this process may use, unless none would be left.
pub(crate) fn move_off(thread: libc::pid_t, cores: &[usize]) -> io::Result<()> {
    let mut allowed = cores_of(thread)?;
    let cores = cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize);
    // SAFETY: the core is one that the set has a bit for.
    cores.for_each(|core| unsafe { libc::CPU_CLR(*core, &mut allowed) });
    // SAFETY: the set is live.
    if unsafe { libc::CPU_COUNT(&allowed) } == 0 {
        return Ok(());
    }
    // SAFETY: the pointer is to a live set of the length given.
    let result =
        unsafe { libc::sched_setaffinity(thread, size_of_val(&allowed), &raw const allowed) };
    check(result).map(drop)
}

/// Restricts the calling thread to one core, counted from 0.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    pin_to_cores(&[core])
}

/// Restricts the calling thread to these cores, counted from 0; threads and processes that it starts inherit them.
///
/// # Errors
/// One of them cannot exist, there is none, or this process may not use any of them.
pub fn pin_to_cores(cores: &[usize]) -> io::Result<()> {
    // SAFETY: a `cpu_set_t` is an array of integers, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores {
        if *core >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: the core is below CPU_SETSIZE, the number of bits in the set.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: the pointer is to a live set of the length given; thread 0 is the calling one.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    check(result).map(drop)
}

/// The cores that the calling thread may use, in order.
///
/// # Errors
/// The system has more cores than a set of them has bits.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = cores_of(0)?;
    // SAFETY: the core is one that the set has a bit for.
    let is_allowed = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_allowed).collect())
}

/// The cores that a thread of this process may use; 0 is the calling one.
fn cores_of(thread: libc::pid_t) -> io::Result<libc::cpu_set_t> {
    // SAFETY: a set of cores is bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the length of the set to it, and it is live.
    check(unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &raw mut set) })?;
    Ok(set)
}

/// Lets other threads run before the calling one where there are not enough cores for all.
///
/// # Errors
/// The system does not allow it.
pub fn lower_priority() -> io::Result<()> {
    const NICE: libc::c_int = 10;
    // SAFETY: it takes numbers only; process 0 is, to Linux, the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) }).map(drop)
}

/// Gives the calling thread, and those it starts, only the time that no other thread wants: SCHED_IDLE. A thread of
/// another class that wakes on its core takes the core at once, without waiting for the end of a time slice.
///
/// # Errors
/// The system does not allow it.
pub fn run_in_idle_time() -> io::Result<()> {
    // SAFETY: parameters are numbers, for which zeros are valid, and required for this class.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameters are live; process 0 is, to Linux, the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) }).map(drop)
}

/// Ends the calling thread's sleeps at the requested time, instead of up to 50 µs later: PR_SET_TIMERSLACK.
///
/// # Errors
/// The system does not allow it.
pub fn wake_promptly() -> io::Result<()> {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: it takes numbers only, and concerns the calling thread alone.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) }).map(drop)
}

/// Requests time slices of 0.1 ms for the calling thread, and those it starts: where threads share a core, a thread
/// that wakes then waits about as long for the core, instead of 3 to 4 ms. Linux supports it from 6.12 on; an older one
/// changes nothing. Class and priority stay; in a class without slices, the call has no effect.
///
/// # Errors
/// The system does not allow it.
pub fn ask_for_short_slices() -> io::Result<()> {
    /// The shortest that the kernel accepts.
    const SLICE_NS: u64 = 100_000;
    let mut attributes = scheduling()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the attributes are live, and state their size; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check(result as libc::c_int).map(drop)
}

/// Class, priority and slice of the calling thread.
fn scheduling() -> io::Result<libc::sched_attr> {
    // SAFETY: attributes are numbers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of_val(&attributes);
    // SAFETY: the kernel writes at most `size` bytes to the attributes; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    check(result as libc::c_int).map(|_| attributes)
}

/// Processor time of the calling thread so far, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time that the calling thread was ready to run but had no core, in nanoseconds; `None` where the kernel does not
/// count it.
#[must_use]
pub fn thread_core_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Processor time of all threads of this process so far, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The number of times that the calling thread waited for the system to provide memory that it had already allocated.
#[must_use]
pub fn thread_page_faults() -> u64 {
    // SAFETY: a `rusage` is numbers alone, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a struct that lives, and the kernel writes no more than that.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if result == 0 { usage.ru_minflt.cast_unsigned() } else { 0 }
}

/// Counts the instructions that the calling thread executes outside the kernel: perf_event_open(2).
#[derive(Debug)]
pub struct InstructionCounter(File);

impl InstructionCounter {
    /// Counts from now on; `None` where the processor or the system does not permit counting, as in most virtual
    /// machines.
    #[must_use]
    pub fn start() -> Option<Self> {
        /// `struct perf_event_attr` in its first version, which every kernel takes.
        #[derive(Default)]
        #[repr(C)]
        struct Attributes {
            kind: u32,
            size: u32,
            config: u64,
            sample_period: u64,
            sample_type: u64,
            read_format: u64,
            flags: u64,
            wakeup_events: u32,
            breakpoint_kind: u32,
            breakpoint_address: u64,
        }
        const _: () = assert!(size_of::<Attributes>() == 64);
        /// `PERF_COUNT_HW_INSTRUCTIONS` of the kind 0, the processor's own.
        const INSTRUCTIONS: u64 = 1;
        /// `exclude_kernel` and `exclude_hv`.
        const ONLY_OURS: u64 = 1 << 5 | 1 << 6;
        /// `PERF_FLAG_FD_CLOEXEC`.
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            config: INSTRUCTIONS,
            flags: ONLY_OURS,
            ..Attributes::default()
        };
        // This thread on any processor, in no group.
        let (thread, processor, group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
        // SAFETY: the kernel reads `size` bytes from the pointer, which is to a live struct.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                processor,
                group,
                CLOSE_ON_EXEC,
            )
        };
        let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| 0 <= *descriptor)?;
        // SAFETY: the kernel has just opened it, and no other code has it.
        Some(Self(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// The number of instructions so far; `None` if the processor counted another event meanwhile.
    #[must_use]
    pub fn count(&mut self) -> Option<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live `timespec`, which the kernel fills.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the clocks of processor time are always there");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processor time goes forward, and that of the process includes that of the thread.
    #[test]
    fn processor_time_is_read() {
        let before = thread_cpu_ns();
        let mut sum = 0_u64;
        while thread_cpu_ns() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_ns() >= thread_cpu_ns());
    }

    /// Where instructions are counted, more work takes more of them; elsewhere there is no result.
    #[test]
    fn instructions_are_counted_or_not_at_all() {
        let Some(mut counter) = InstructionCounter::start() else { return };
        let before = counter.count().unwrap();
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        assert_eq!(sum, 4_999_950_000);
        assert!(before + 100_000 <= counter.count().unwrap());
    }

    /// The class holds for the thread that requests it and for those that it starts, and for no other.
    #[test]
    fn idle_time_is_for_the_thread_and_its_children() {
        // SAFETY: it takes a number; 0 is the calling thread.
        let class = || unsafe { libc::sched_getscheduler(0) };
        let asked = std::thread::spawn(move || {
            run_in_idle_time().unwrap();
            (class(), std::thread::spawn(class).join().unwrap())
        });
        assert_eq!(asked.join().unwrap(), (libc::SCHED_IDLE, libc::SCHED_IDLE));
        assert_ne!(class(), libc::SCHED_IDLE);
    }

    /// Slices get shorter where the kernel has them, and priority and class stay.
    #[test]
    fn short_slices_keep_class_and_priority() {
        let parts = |it: libc::sched_attr| (it.sched_policy, it.sched_nice, it.sched_runtime);
        let asked = std::thread::spawn(move || {
            lower_priority().unwrap();
            let before = scheduling().map(parts).unwrap();
            ask_for_short_slices().unwrap();
            let after = scheduling().map(parts).unwrap();
            run_in_idle_time().unwrap();
            ask_for_short_slices().unwrap();
            (before, after, scheduling().map(parts).unwrap())
        });
        let (before, after, idle) = asked.join().unwrap();
        assert_eq!((before.0, before.1), (after.0, after.1));
        // A kernel without slices per thread returns 0.
        assert_eq!(after.2, if before.2 == 0 { 0 } else { 100_000 }, "{before:?}");
        assert_eq!(idle.0, libc::SCHED_IDLE as u32);
    }

    /// A core that cannot exist is an error, not a write beyond the set.
    #[test]
    fn pinning_to_a_core_that_cannot_exist_is_an_error() {
        assert!(pin_to_core(libc::CPU_SETSIZE as usize).is_err());
        assert!(pin_to_core(usize::MAX).is_err());
    }

    /// A thread that is restricted to cores may use these, and so may the threads that it starts; no core at all is an
    /// error.
    #[test]
    fn cores_are_inherited() {
        let all = allowed_cores().unwrap();
        std::thread::spawn(move || {
            assert!(pin_to_cores(&[]).is_err());
            assert_eq!(allowed_cores().unwrap(), all);
            let last = *all.last().unwrap();
            pin_to_cores(&[last]).unwrap();
            let inherited = std::thread::spawn(|| allowed_cores().unwrap()).join().unwrap();
            assert_eq!(inherited, [last]);
        })
        .join()
        .unwrap();
    }
}
