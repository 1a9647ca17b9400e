//! The turns of users to be resent old messages, and the bytes of each turn.
//!
//! Invariant: in a turn of the gateway, resends have one bounded share, however many sessions want them. While others
//! have orders on their way, only one turn in several has this share. Each session that wants resends gets its turn.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

/// Bytes in one turn: making and writing them takes about 20 µs, for which a new order may have to wait.
const TURN_BYTES: usize = 8 << 10;
/// While others have orders on their way, one turn in this many has room for resends too.
const LIVE_TURNS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct ResendTurns {
    /// Users that want messages again.
    users: BTreeSet<usize>,
    /// The user that may have some now.
    turn: Option<usize>,
    /// Bytes left of this turn.
    room: usize,
    /// Turns since resends last had a turn.
    passed: u32,
}

impl ResendTurns {
    /// Begins a turn of the gateway. `is_live` is true if it has new replies, or if other agents of its thread have
    /// work under way.
    #[inline]
    pub(super) fn begin(&mut self, is_live: bool) {
        if self.users.is_empty() {
            return;
        }
        let after = self.turn.map_or(Unbounded, Excluded);
        let next = self.users.range((after, Unbounded)).next().or_else(|| self.users.first());
        self.turn = next.copied();
        self.passed += 1;
        let is_passed = is_live && self.passed < LIVE_TURNS;
        self.room = if is_passed { 0 } else { TURN_BYTES };
        if !is_passed {
            self.passed = 0;
        }
    }

    /// The number of bytes that a user who wants messages again may have now.
    pub(super) fn room(&mut self, user: usize) -> usize {
        if self.users.insert(user) && self.turn.is_none() {
            (self.turn, self.room) = (Some(user), TURN_BYTES);
        }
        if self.turn == Some(user) { self.room } else { 0 }
    }

    /// Counts bytes sent to a user again.
    pub(super) fn used(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes);
    }

    /// Removes a user that wants no more messages.
    #[inline]
    pub(super) fn leave(&mut self, user: usize) {
        if !self.users.is_empty() && self.users.remove(&user) && self.users.is_empty() {
            self.turn = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many users want messages again, a turn has one share, and each user gets its turn.
    #[test]
    fn each_has_its_turn() {
        let mut turns = ResendTurns::default();
        let mut given = [0; 5];
        for turn in 0..100 {
            turns.begin(false);
            let mut total = 0;
            for (user, given) in given.iter_mut().enumerate() {
                // User 2 leaves.
                if user == 2 && turn >= 50 {
                    turns.leave(2);
                    continue;
                }
                let room = turns.room(user);
                turns.used(room);
                total += room;
                *given += room;
                assert_eq!(turns.room(user), 0, "it was used");
            }
            assert!(total <= TURN_BYTES, "turn {turn}: {total}");
        }
        let share = |count: usize| count * TURN_BYTES;
        assert!(given.iter().all(|it| *it >= share(9)) && given[0] >= share(20), "{given:?}");
    }

    /// While others have orders on their way, resends have one turn in several; else every turn.
    #[test]
    fn orders_go_first() {
        let mut turns = ResendTurns::default();
        turns.room(7);
        let mut had = |is_live| {
            let given = (0..80).filter(|_| {
                turns.begin(is_live);
                turns.room(7) > 0
            });
            given.count()
        };
        assert_eq!((had(true), had(false)), (80 / LIVE_TURNS as usize, 80));
    }
}
