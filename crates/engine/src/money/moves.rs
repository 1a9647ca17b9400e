//! What accounts have here and on the other shards of a venue, cores that each own some instruments:
//! an amount goes out here under a number, and comes in there under it, once.

use alloc::vec::Vec;

use market::{
    AccountId, Bucket, DeclineReason, Event, LedgerKind, MoneyEvent, MoveIn, MoveOut, MovedOut,
    SHARDS_MAX, ShardId,
};

use super::hash;
use crate::{Engine, state::hash::StateHash};

/// How often something went to one shard, and came from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoveCounts {
    pub(crate) gone: u64,
    pub(crate) come: u64,
}

/// By shard, less 1; shards after the last have neither sent nor got anything.
#[derive(Debug, Default)]
pub(crate) struct Moves(Vec<MoveCounts>);

impl Moves {
    /// The counts of the shards in turn.
    pub(super) fn all(&self) -> &[MoveCounts] {
        &self.0
    }

    pub(super) fn of(&self, shard: ShardId) -> MoveCounts {
        let index = usize::from(shard.0).wrapping_sub(1);
        self.0.get(index).copied().unwrap_or_default()
    }

    /// The counts of a shard of the venue are these now.
    pub(super) fn set(&mut self, shard: ShardId, counts: MoveCounts, hash: &mut StateHash) {
        let before = self.of(shard);
        let index = usize::from(shard.0) - 1;
        if self.0.len() <= index {
            self.0.resize(index + 1, MoveCounts::default());
        }
        self.0[index] = counts;
        hash.change(hash::moves(shard, &before), hash::moves(shard, &counts));
    }
}

impl Engine {
    pub(super) fn move_out(
        &mut self,
        out: &MoveOut,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let MoveOut { account_id, asset_id, amount, to } = *out;
        check_shard(to)?;
        self.money.find_account(account_id)?;
        self.money.check_removal(account_id, asset_id, amount.get())?;
        let before = self.money.moves.of(to);
        let counts = MoveCounts { gone: before.gone + 1, ..before };
        self.money.moves.set(to, counts, &mut self.hash);
        let moved = MovedOut { account_id, asset_id, amount, to, number: counts.gone };
        emit(Event::Money(MoneyEvent::MovedOut(moved)));
        let from = (account_id, Bucket::Available);
        let outside = (AccountId::VENUE, Bucket::Outside);
        self.move_whole(LedgerKind::MoveOut, asset_id, from, outside, amount.get(), emit);
        Ok(())
    }

    /// What is said again after it has come is a repetition, which says nothing and changes nothing:
    /// so who brings it may begin anew after a crash.
    pub(super) fn move_in(
        &mut self,
        arrival: &MoveIn,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let MoveIn { account_id, asset_id, amount, from, number } = *arrival;
        check_shard(from)?;
        let before = self.money.moves.of(from);
        if number <= before.come {
            return Ok(());
        }
        if before.come + 1 < number {
            return Err(DeclineReason::OutOfOrder);
        }
        self.money.find_account(account_id)?;
        self.money.check_addition(asset_id, amount.get())?;
        let counts = MoveCounts { come: number, ..before };
        self.money.moves.set(from, counts, &mut self.hash);
        emit(Event::Money(MoneyEvent::MovedIn(*arrival)));
        let outside = (AccountId::VENUE, Bucket::Outside);
        let to = (account_id, Bucket::Available);
        self.move_whole(LedgerKind::MoveIn, asset_id, outside, to, amount.get(), emit);
        Ok(())
    }
}

fn check_shard(shard: ShardId) -> Result<(), DeclineReason> {
    if (1..=SHARDS_MAX).contains(&shard.0) { Ok(()) } else { Err(DeclineReason::UnknownShard) }
}
