//! How a worker's figures reach the thread that reports them.
//!
//! Invariant: a worker hands its figures over between two turns, and merges nothing itself.

use std::{
    mem,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{LoadCounts, tally::Tally};
use crate::latency::Latency;

/// The exchange between a worker and the thread that reports progress: on request the worker hands over its
/// figures and continues with cleared ones. The worker merges nothing.
#[derive(Default)]
pub(super) struct Exchange {
    /// Set by the asker, cleared by the worker; only changed while `window` is locked.
    is_asked: AtomicBool,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// As they were when handed over; the latencies are empty while nothing is.
    tally: Tally,
    outstanding: usize,
    is_closed: bool,
}

impl Exchange {
    pub(super) fn ask(&self) {
        let window = self.lock();
        if !window.is_closed {
            self.is_asked.store(true, Ordering::Release); // pairs with `is_asked`
        }
    }

    /// True once the worker handed over, or is done.
    pub(super) fn is_answered(&self) -> bool {
        !self.is_asked()
    }

    /// Adds the worker's counts to `counts`; gives how many requests await their answers.
    pub(super) fn add_counts(&self, counts: &mut LoadCounts) -> usize {
        let window = self.lock();
        counts.merge(&window.tally.counts);
        window.outstanding
    }

    pub(super) fn take_into(&self, scheduled: &mut Latency, sent: &mut Latency) {
        let tally = &mut self.lock().tally;
        scheduled.merge(&tally.scheduled);
        sent.merge(&tally.sent);
        tally.scheduled.clear();
        tally.sent.clear();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire) // pairs with `ask`, `hand_over` and `close`
    }

    pub(super) fn hand_over(&self, tally: &mut Tally, outstanding: usize) {
        let mut window = self.lock();
        window.tally.counts.clone_from(&tally.counts);
        mem::swap(&mut window.tally.scheduled, &mut tally.scheduled);
        mem::swap(&mut window.tally.sent, &mut tally.sent);
        window.outstanding = outstanding;
        self.is_asked.store(false, Ordering::Release); // pairs with `is_asked`
    }

    /// The worker is done: it hands over no more latencies.
    pub(super) fn close(&self, counts: &LoadCounts) {
        let mut window = self.lock();
        window.tally.counts.clone_from(counts);
        window.outstanding = 0;
        window.is_closed = true;
        self.is_asked.store(false, Ordering::Release); // pairs with `is_asked`
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().expect("no thread panics while it holds the lock")
    }
}
