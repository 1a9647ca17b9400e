//! What live orders are told beyond resting at their limit, kept beside them: a trigger that they
//! wait for, a moment at which they expire, other orders that they are tied to.
//!
//! Most orders are told nothing and have no [`Standing`]; one bit of theirs says so, and they pay
//! for nothing here.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::ops::{Index, IndexMut};

use market::{Instructions, InstrumentId, Lots, OrderId, OrderKey, OrderType, Price, Quantity};

use super::expiry::Expiries;
use crate::{
    book::{paged_map::Pages, pool::Slot},
    contingent::{minimum_quantity::Patients, pegs::Pegs},
    order::Order,
    state::hash::{self, StateHash},
};

/// Names a standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandingId(u32);

impl StandingId {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// `None` for [`StandingId::NONE`].
    pub(crate) fn some(self) -> Option<Self> {
        (!self.is_none()).then_some(self)
    }
}

/// Where an order is that was told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On its way into the book, in no slot; or its standing is used by none.
    Incoming,
    /// In the book.
    Resting,
    /// Outside the book, until its parent is done.
    ForParent,
    /// Outside the book, until the market trades at its trigger.
    ForTrigger,
    /// Triggered by this command; its turn to come in is near.
    Triggered,
    /// No more; what that means for orders tied to it is still to happen.
    Done,
    /// Outside the book, until there is a price that it can follow.
    ForReference,
    /// Outside the book, until it can trade as much at once as it asks for.
    ForQuantity,
}

/// What one order is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Where the order is, unless it is incoming or done.
    pub(crate) slot: Slot,
    pub(crate) key: OrderKey,
    /// As long as it waits it keeps this; of a resting order it is that of its last entry.
    pub(crate) order_id: OrderId,
    /// Parent and partner as their owner names them now; 0 once they are gone.
    pub(crate) instructions: Instructions,
    /// With what it is to come in.
    pub(crate) order_type: OrderType,
    pub(crate) minimum_quantity: Lots,
    pub(crate) instrument_id: InstrumentId,
    /// Beyond which an order that follows the market never goes; [`Price::ZERO`] is none.
    pub(crate) limit: Price,
    pub(crate) state: State,
    /// True if it has executed since its links were followed last.
    pub(crate) has_executed: bool,
    /// True while it is in line for its links to be followed.
    is_noted: bool,
    /// Executed by its whole chain, once it is done.
    pub(crate) executed: Quantity,
    links: [Link; 3],
    pub(crate) trail: Trail,
    /// Only one of the two may execute.
    pub(crate) partner_id: StandingId,
    /// For which it waits until that is done.
    pub(crate) parent_id: StandingId,
    /// The first of those that wait for it.
    pub(crate) children: StandingId,
}

/// A place in a list.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: StandingId,
    before: StandingId,
}

/// A place in a tree of trailing stops; see [`waiting`](mod@crate::contingent::stop_book).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    /// Of a root: the mark of its level.
    pub(crate) mark: u32,
    pub(crate) parent: StandingId,
    pub(crate) left: StandingId,
    pub(crate) right: StandingId,
}

impl Trail {
    pub(crate) const ALONE: Self =
        Self { mark: 0, parent: StandingId::NONE, left: StandingId::NONE, right: StandingId::NONE };
}

/// In which of its lists a standing is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// Those with one trigger; those that follow the prices of one book; or, of a standing that is
    /// used by none, the free ones.
    Trigger,
    /// Those that expire at one moment.
    Expiry,
    /// Those that wait for one parent.
    Family,
}

impl Standing {
    /// That of an order that was just told.
    pub(crate) fn new(
        order: &Order,
        instructions: Instructions,
        order_type: OrderType,
        minimum_quantity: Lots,
    ) -> Self {
        Self {
            slot: Slot::NONE,
            key: order.key,
            order_id: order.order_id,
            instructions,
            order_type,
            minimum_quantity,
            instrument_id: order.instrument_id,
            limit: Price::ZERO,
            state: State::Incoming,
            has_executed: false,
            is_noted: false,
            executed: Quantity::ZERO,
            links: [Link { next: StandingId::NONE, before: StandingId::NONE }; 3],
            trail: Trail::ALONE,
            partner_id: StandingId::NONE,
            parent_id: StandingId::NONE,
            children: StandingId::NONE,
        }
    }

    /// True if the order is in the book.
    pub(crate) fn is_resting(&self) -> bool {
        self.state == State::Resting
    }

    /// True if its price follows the market now, or is about to when there is one.
    fn follows_market(&self) -> bool {
        self.instructions.pricing.is_pegged()
            && matches!(self.state, State::Resting | State::ForReference)
    }

    /// False if it rests like one that was never told anything: what it shows is said with its reserve.
    pub(crate) fn is_told(&self) -> bool {
        !self.is_resting() || self.instructions.without_shown().is_some()
    }

    /// What an order came in with is of no account once it rests and is told nothing any more: no snapshot
    /// has it, so neither has what it is told next.
    pub(crate) fn forget(&mut self) {
        if !self.is_told() {
            self.instructions = Instructions::NONE;
            self.order_type = OrderType::Limit;
            self.minimum_quantity = Lots::ZERO;
        }
    }

    /// Its element of the state hash; 0 if it is told nothing.
    fn hash(&self) -> u64 {
        match self.state {
            State::Resting if !self.is_told() => 0,
            State::Resting
            | State::ForParent
            | State::ForTrigger
            | State::ForReference
            | State::ForQuantity => self.element(),
            State::Incoming | State::Triggered | State::Done => 0,
        }
    }

    /// What the order is told, with what it will come in, and where it is meanwhile.
    fn element(&self) -> u64 {
        let Standing { key, instructions, .. } = self;
        hash::mix([
            hash::CONTINGENT,
            u64::from(key.session_id.0) << 40
                | u64::from(key.channel) << 32
                | u64::from(key.user_ref_num),
            u64::from(instructions.pricing.code())
                | u64::from(instructions.all_or_none) << 8
                | u64::from(instructions.slide) << 16
                | u64::from(self.order_type.code()) << 24
                | (self.state as u64) << 32,
            // What has a trigger has no limit beside its price.
            (u64::from(instructions.trigger.0) | self.limit.0) << 32
                | u64::from(instructions.offset as u32),
            u64::from(instructions.shown_quantity.0) << 32 | u64::from(instructions.shown_range.0),
            u64::from(instructions.expires_s) << 32 | u64::from(self.minimum_quantity.0),
            u64::from(instructions.parent) << 32 | u64::from(instructions.partner),
        ])
    }

    /// As [`hash`](Self::hash), for those who add it up from nothing.
    pub(crate) fn hash_slow(&self) -> u64 {
        self.hash()
    }
}

/// Standings in a chunk, so that growing by one moves none.
const CHUNK_LEN: usize = 256;

/// All standings, by id and by the slot of their order.
#[derive(Debug)]
pub(crate) struct Standings {
    chunks: Vec<Box<[Standing; CHUNK_LEN]>>,
    used: usize,
    free: StandingId,
    /// Those whose order is in a slot.
    by_slot: Pages<StandingId, 256>,
    pub(crate) expiries: Expiries,
    /// Orders that have executed or are done in this command, in that order; see
    /// [`links`](mod@crate::contingent::linked).
    noted: VecDeque<StandingId>,
    /// Orders that were triggered in this command, in the order in which they come in, each with
    /// the order id it had then and the trigger that was met.
    pub(crate) triggered: VecDeque<(StandingId, OrderId, u32)>,
    /// What waited for an order that is done; empty between commands.
    pub(crate) family: Vec<StandingId>,
    pub(crate) pegs: Pegs,
    pub(crate) patients: Patients,
}

impl Default for Standings {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            used: 0,
            free: StandingId::NONE,
            by_slot: Pages::default(),
            expiries: Expiries::default(),
            noted: VecDeque::new(),
            triggered: VecDeque::new(),
            family: Vec::new(),
            pegs: Pegs::default(),
            patients: Patients::default(),
        }
    }
}

impl Standings {
    /// Keeps what an incoming order is told.
    pub(crate) fn add(&mut self, standing: Standing) -> StandingId {
        let id = match self.free.some() {
            Some(free) => {
                self.free = self[free].links[List::Trigger as usize].next;
                free
            }
            None => self.add_fresh(standing),
        };
        self[id] = standing;
        if standing.instructions.expires_s != 0 {
            Expiries::add(self, id);
        }
        id
    }

    /// The standing of the order in a slot.
    pub(crate) fn find(&self, slot: Slot) -> Option<StandingId> {
        self.by_slot.get(slot.to_bits())
    }

    /// The standing of the order in a slot.
    ///
    /// # Panics
    /// The order is told nothing.
    pub(crate) fn of(&self, slot: Slot) -> StandingId {
        self.find(slot).expect("an order that says it was told something was")
    }

    /// Its order is in a slot now.
    pub(crate) fn settle(
        &mut self,
        id: StandingId,
        slot: Slot,
        state: State,
        hash: &mut StateHash,
    ) {
        let standing = &mut self[id];
        standing.slot = slot;
        standing.state = state;
        hash.add(standing.hash());
        self.by_slot.insert(slot.to_bits(), id);
        if self[id].follows_market() {
            self.add_peg(id);
        }
    }

    /// Its order is in no slot any more, whatever becomes of it.
    pub(crate) fn lift(&mut self, id: StandingId, hash: &mut StateHash) {
        if self[id].follows_market() {
            self.remove_peg(id);
        }
        let standing = &mut self[id];
        hash.remove(standing.hash());
        standing.state = State::Incoming;
        let slot = core::mem::replace(&mut standing.slot, Slot::NONE);
        self.by_slot.remove(slot.to_bits());
    }

    /// Changes what an order is told, or its name.
    pub(crate) fn change(
        &mut self,
        id: StandingId,
        hash: &mut StateHash,
        change: impl FnOnce(&mut Standing),
    ) {
        let standing = &mut self[id];
        let before = standing.hash();
        change(standing);
        hash.change(before, standing.hash());
    }

    /// The order, which is in no slot, expires at this second from now on; 0 is never.
    pub(crate) fn expire_at(&mut self, id: StandingId, expires_s: u32) {
        if self[id].instructions.expires_s != 0 {
            Expiries::remove(self, id);
        }
        self[id].instructions.expires_s = expires_s;
        if expires_s != 0 {
            Expiries::add(self, id);
        }
    }

    /// The order, which is in no slot any more, is done; it has executed so much in all.
    pub(crate) fn finish(&mut self, id: StandingId, executed: Quantity) {
        if self[id].instructions.expires_s != 0 {
            Expiries::remove(self, id);
        }
        let standing = &mut self[id];
        standing.state = State::Done;
        standing.executed = executed;
        let is_tied = !standing.partner_id.is_none()
            || !standing.parent_id.is_none()
            || !standing.children.is_none();
        if is_tied {
            self.note(id);
        } else if !standing.is_noted {
            self.let_go(id);
        }
    }

    /// Some of the order has executed.
    pub(crate) fn execute(&mut self, id: StandingId) {
        if !self[id].partner_id.is_none() {
            self[id].has_executed = true;
            self.note(id);
        }
    }

    /// What happened to the order may mean something for others.
    pub(crate) fn note(&mut self, id: StandingId) {
        if !self[id].is_noted {
            self[id].is_noted = true;
            self.noted.push_back(id);
        }
    }

    /// The first order to which something happened.
    pub(crate) fn next_noted(&mut self) -> Option<StandingId> {
        let id = self.noted.pop_front()?;
        self[id].is_noted = false;
        Some(id)
    }

    /// True if something is still to follow from what happened in this command.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        !self.noted.is_empty()
            || !self.triggered.is_empty()
            || self.pegs.is_pending()
            || self.patients.is_pending()
    }

    /// No order is told this any more.
    pub(crate) fn let_go(&mut self, id: StandingId) {
        let free = self.free;
        let standing = &mut self[id];
        standing.state = State::Incoming;
        standing.links[List::Trigger as usize].next = free;
        self.free = id;
    }

    /// Those whose order is in a slot, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = StandingId> {
        self.by_slot.iter().map(|(_, id)| id)
    }

    /// The next one of a list.
    pub(crate) fn next(&self, list: List, id: StandingId) -> Option<StandingId> {
        self[id].links[list as usize].next.some()
    }

    /// Puts one in front of a list.
    pub(crate) fn push(&mut self, list: List, head: StandingId, id: StandingId) -> StandingId {
        self[id].links[list as usize] = Link { next: head, before: StandingId::NONE };
        if let Some(head) = head.some() {
            self[head].links[list as usize].before = id;
        }
        id
    }

    /// Takes one out of a list; the head that it has then.
    pub(crate) fn unlink(&mut self, list: List, head: StandingId, id: StandingId) -> StandingId {
        let Link { next, before } = self[id].links[list as usize];
        if let Some(next) = next.some() {
            self[next].links[list as usize].before = before;
        }
        match before.some() {
            Some(before) => {
                self[before].links[list as usize].next = next;
                head
            }
            None => next,
        }
    }

    /// Asserts that indexes agree and that nothing is left of a command.
    pub(crate) fn check(&self) {
        assert!(!self.is_pending(), "all has followed from the command");
        self.by_slot.check();
        self.patients.check();
        let mut expiring = 0;
        let mut following = 0;
        for (slot, id) in self.by_slot.iter() {
            let standing = &self[id];
            assert_eq!(standing.slot, Slot::from_bits(slot));
            assert!(!standing.has_executed && !standing.is_noted, "{standing:?}");
            assert!(
                !matches!(standing.state, State::Incoming | State::Triggered | State::Done),
                "{standing:?}"
            );
            following += usize::from(standing.follows_market());
            expiring += usize::from(standing.instructions.expires_s != 0);
        }
        assert_eq!(Expiries::check(self), expiring, "each order expires once");
        assert_eq!(self.check_pegs(), following, "each order that follows a book is in its list");
        let mut free_count = 0;
        let mut free = self.free;
        while let Some(id) = free.some() {
            free_count += 1;
            free = self[id].links[List::Trigger as usize].next;
        }
        assert_eq!(free_count + self.by_slot.len(), self.used, "a standing is used or free");
    }

    #[cold]
    fn add_fresh(&mut self, standing: Standing) -> StandingId {
        let id = StandingId(u32::try_from(self.used).expect("no more than orders"));
        assert!(!id.is_none(), "the last number is none");
        if self.used == self.chunks.len() * CHUNK_LEN {
            self.chunks.push(Box::new([standing; CHUNK_LEN]));
        }
        self.used += 1;
        id
    }
}

impl Index<StandingId> for Standings {
    type Output = Standing;

    fn index(&self, id: StandingId) -> &Standing {
        &self.chunks[id.0 as usize / CHUNK_LEN][id.0 as usize % CHUNK_LEN]
    }
}

impl IndexMut<StandingId> for Standings {
    fn index_mut(&mut self, id: StandingId) -> &mut Standing {
        &mut self.chunks[id.0 as usize / CHUNK_LEN][id.0 as usize % CHUNK_LEN]
    }
}
