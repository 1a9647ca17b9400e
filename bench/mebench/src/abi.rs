//! The functions that the benchmark looks up by name and calls. All of the unsafe code of this
//! package is here.
//!
//! The blocks rely on the header's contract: one caller at a time, from [`engine_init`] to
//! [`engine_shutdown`], with pointers to whole structs; and a transport that does not call back. No
//! panic leaves the library: the language ends the process where a panic would cross `extern "C"`.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    hint,
};

use crate::{
    Participant,
    api::{Cancel, Modify, NewOrder, Report},
};

/// `me_transport_t`: the queue on which reports leave.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Transport {
    /// Makes a queue.
    pub create: unsafe extern "C" fn(capacity: u32) -> *mut c_void,
    /// Puts a report in; 0 if the queue is full.
    pub push: unsafe extern "C" fn(handle: *mut c_void, report: *const Report) -> c_int,
    /// Takes reports out; returns their number.
    pub drain: unsafe extern "C" fn(handle: *mut c_void, out: *mut Report, max: u32) -> u32,
    /// Publishes the reports put in.
    pub flush: unsafe extern "C" fn(handle: *mut c_void),
    /// Destroys a queue.
    pub destroy: unsafe extern "C" fn(handle: *mut c_void),
}

/// The state between [`engine_init`] and [`engine_shutdown`].
struct Running {
    participant: Participant,
    outlet: Outlet,
}

/// The queue on which reports leave.
#[derive(Clone, Copy)]
struct Outlet {
    transport: Transport,
    handle: *mut c_void,
}

/// The one exchange of the process: the functions of the header carry no handle.
struct Place(UnsafeCell<Option<Running>>);

// SAFETY: the place is only reached through the functions below, whose callers promise that no two
// of their calls overlap; the caller hands the state that one thread leaves there to the next.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(None));

/// Opens an exchange with an empty book, whose reports go into the transport.
///
/// # Safety
/// No other function of this module is running. `transport` points to a transport and
/// `report_sink` was made by it; both stay until [`engine_shutdown`], and `push` calls none of the
/// functions of this module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_init(
    _seed: u64,
    transport: *const Transport,
    report_sink: *mut c_void,
) {
    // SAFETY: the caller promises that it points to one.
    let transport = unsafe { *transport };
    let outlet = Outlet { transport, handle: report_sink };
    let running = Running { participant: Participant::new(), outlet };
    // SAFETY: the caller promises that no other function runs, so nothing else borrows the place.
    unsafe { *PLACE.0.get() = Some(running) };
}

/// Closes the exchange and frees its memory.
///
/// # Safety
/// No other function of this module is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_shutdown() {
    // SAFETY: the caller promises that no other function runs, so nothing else borrows the place.
    unsafe { *PLACE.0.get() = None };
}

/// See [`Participant::enter`].
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running. `order` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_new_order(order: *const NewOrder) {
    // SAFETY: the caller promises that it runs alone, and that `order` points to one.
    let (running, order) = unsafe { (running(), &*order) };
    let outlet = running.outlet;
    running.participant.enter(order, |report| outlet.push(report));
}

/// See [`Participant::cancel`].
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running. `cancel` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_cancel(cancel: *const Cancel) {
    // SAFETY: the caller promises that it runs alone, and that `cancel` points to one.
    let (running, cancel) = unsafe { (running(), &*cancel) };
    let outlet = running.outlet;
    running.participant.cancel(cancel, |report| outlet.push(report));
}

/// See [`Participant::modify`].
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running. `modify` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_modify(modify: *const Modify) {
    // SAFETY: the caller promises that it runs alone, and that `modify` points to one.
    let (running, modify) = unsafe { (running(), &*modify) };
    let outlet = running.outlet;
    running.participant.modify(modify, |report| outlet.push(report));
}

/// Returns once all work is done and reported: at once, because each call does and reports all of its work.
#[unsafe(no_mangle)]
pub extern "C" fn engine_flush() {}

/// The best bid, or the least number if there is none.
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_best_bid() -> i64 {
    // SAFETY: the caller promises that it runs alone.
    unsafe { running() }.participant.best_bid().unwrap_or(i64::MIN)
}

/// The best ask, or the greatest number if there is none.
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_best_ask() -> i64 {
    // SAFETY: the caller promises that it runs alone.
    unsafe { running() }.participant.best_ask().unwrap_or(i64::MAX)
}

/// All open lots at a price of a side; 0 if none.
///
/// # Safety
/// After [`engine_init`]; no other function of this module is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_depth_at(price_ticks: i64, side: u8) -> u64 {
    // SAFETY: the caller promises that it runs alone.
    unsafe { running() }.participant.depth_at(price_ticks, side)
}

/// The exchange that [`engine_init`] made.
///
/// # Safety
/// No other function of this module is running, and none starts before the borrow ends.
///
/// # Panics
/// There is no exchange: none was made, or it was shut down.
unsafe fn running<'a>() -> &'a mut Running {
    // SAFETY: the caller promises that nothing else borrows the place while it does.
    let place = unsafe { &mut *PLACE.0.get() };
    place.as_mut().expect("engine_init comes before anything else")
}

/// A large page of the processors this is measured on.
#[cfg(target_os = "linux")]
const PAGE_LARGE: usize = 2 << 20;

/// Asks the system for large pages for the memory of a table that is still empty, as far as whole pages
/// fit. Where the system refuses, or is not Linux, the pages stay as they are, and the table is the same.
#[cfg_attr(not(target_os = "linux"), allow(clippy::ptr_arg, unused_variables))]
pub(crate) fn ask_for_large_pages(table: &mut Vec<u32>) {
    #[cfg(target_os = "linux")]
    {
        /// `MADV_HUGEPAGE`.
        const ADVICE: c_int = 14;

        unsafe extern "C" {
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }

        let start = table.as_mut_ptr() as usize;
        let end = start + table.capacity() * size_of::<u32>();
        let (from, to) = (start.next_multiple_of(PAGE_LARGE), end / PAGE_LARGE * PAGE_LARGE);
        if from < to {
            // SAFETY: the range is within memory that the table owns; the advice changes the size of
            // its pages, and none of the readable contents.
            unsafe { madvise(from as *mut c_void, to - from, ADVICE) };
        }
    }
}

impl Outlet {
    /// Puts a report in, once there is room.
    fn push(&self, report: &Report) {
        let Self { transport, handle } = *self;
        // SAFETY: the caller of `engine_init` promised that the handle was made by this transport
        // and is still there; the report is borrowed for the call.
        while unsafe { (transport.push)(handle, report) } == 0 {
            hint::spin_loop();
        }
    }
}
