//! An agent on a thread of its own, next to the one that is measured.
//!
//! Invariant: its last turn sees all that was done before the stop.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use ring::{Agent, AgentError};
use venue::clock::SystemClock;

pub(super) struct AgentThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), AgentError>>,
}

impl AgentThread {
    /// `begin` runs first on the thread, `idle` after each turn without work.
    pub(super) fn start(
        mut agent: impl Agent + 'static,
        clock: SystemClock,
        begin: fn(),
        idle: fn(),
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            begin();
            loop {
                let is_last = is_stopped.load(Ordering::Acquire); // pairs with `stop`
                if agent.do_work(clock.now_ns())? == 0 {
                    if is_last {
                        return Ok(());
                    }
                    idle();
                }
            }
        });
        Self { stop, thread }
    }

    pub(super) fn stop(self) -> Result<(), AgentError> {
        self.stop.store(true, Ordering::Release); // pairs with the Acquire
        self.thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
    }
}
