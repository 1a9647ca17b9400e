//! Waiting for something that another thread or process does.
//!
//! Invariant: a wait ends by its condition. The bound is so generous that only what is truly stuck
//! reaches it, and it counts looks, not time: who gets no core does not wait.

use std::{thread, time::Duration};

/// Looks until `look` finds it, at most for a minute or more.
///
/// # Panics
/// It is never found; `state` says what there is instead.
pub(crate) fn wait_for<W, T>(
    what: &str,
    world: &mut W,
    mut look: impl FnMut(&mut W) -> Option<T>,
    state: impl Fn(&mut W) -> String,
) -> T {
    for _ in 0..60_000 {
        if let Some(found) = look(world) {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("waited for {what}; there is {}", state(world));
}
