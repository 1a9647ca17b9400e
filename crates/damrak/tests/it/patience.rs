//! Waiting for an effect of another thread or process.
//!
//! Invariant: a wait ends by its condition. The bound is so generous that only a stuck program reaches it, and it
//! counts checks, not time: a thread without a core does not use up its wait.

use std::{thread, time::Duration};

/// Checks until `look` returns a value; gives up after a minute or more.
///
/// # Panics
/// `look` never returns a value; `state` describes the present state.
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
