//! The records of contingent orders, stored apart from the orders: a trigger, an expiry, linked orders.
//!
//! Invariant: an order has a [`Contingent`] record if and only if its bit `is_contingent` is set.
//! Most orders have none, and cost nothing here.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::ops::{Index, IndexMut};

use market::{Instructions, InstrumentId, Lots, OrderId, OrderKey, OrderType, Price, Quantity};

use super::expiry::Expiries;
use crate::{
    book::{paged_map::PagedMap, pool::Slot},
    contingent::{minimum_quantity::MinimumQuantityOrders, pegs::Pegs},
    order::Order,
    state::hash,
};

/// The index of a contingent record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContingentId(u32);

impl ContingentId {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// `None` for [`ContingentId::NONE`].
    pub(crate) fn some(self) -> Option<Self> {
        (!self.is_none()).then_some(self)
    }
}

/// Where a contingent order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Entering, in no slot; or the record is unused.
    Incoming,
    /// In the book.
    Resting,
    /// Outside the book, until its parent is done.
    ForParent,
    /// Outside the book, until the market trades at its trigger.
    ForTrigger,
    /// Triggered, and in line to enter.
    Triggered,
    /// Done; its effects on linked orders are still to come.
    Done,
    /// Outside the book, until its peg has a price.
    ForReference,
    /// Outside the book, until its minimum can trade.
    ForQuantity,
    /// Outside the book, until nothing trades in steps in its instrument.
    ForAuction,
    /// Outside the book, between the steps in which it trades.
    HalfMatched,
}

/// The record of one contingent order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contingent {
    /// The order's slot, unless it is incoming or done.
    pub(crate) slot: Slot,
    pub(crate) key: OrderKey,
    /// The conditions of a waiting order; for a resting order, those of its last entry.
    pub(crate) order_id: OrderId,
    /// Parent and partner by their owner's present numbers; 0 once they are done.
    pub(crate) instructions: Instructions,
    /// The entry terms that it will have.
    pub(crate) order_type: OrderType,
    pub(crate) minimum_quantity: Lots,
    pub(crate) instrument_id: InstrumentId,
    /// The limit of a pegged order; [`Price::ZERO`] is none.
    pub(crate) limit: Price,
    pub(crate) state: State,
    /// True if it executed since its links were last followed.
    pub(crate) has_executed: bool,
    /// True while it is queued for its links to be followed.
    is_noted: bool,
    /// Lots executed by the whole chain, once it is done.
    pub(crate) executed: Quantity,
    links: [Link; 2],
    pub(crate) trail: Trail,
    /// Its place in line, once it is triggered.
    pub(crate) turn: Turn,
    /// The OCO partner.
    pub(crate) partner_id: ContingentId,
    /// The OTO parent, while that is live.
    pub(crate) parent_id: ContingentId,
    /// The first of its OTO children.
    pub(crate) children: ContingentId,
}

/// Links of a list.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: ContingentId,
    before: ContingentId,
}

/// Links in a tree of trailing stops; see [`stop_book`](mod@crate::contingent::stop_book).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    /// The mark of the level; only in a root.
    pub(crate) mark: u32,
    pub(crate) parent: ContingentId,
    pub(crate) left: ContingentId,
    pub(crate) right: ContingentId,
}

impl Trail {
    pub(crate) const ALONE: Self = Self {
        mark: 0,
        parent: ContingentId::NONE,
        left: ContingentId::NONE,
        right: ContingentId::NONE,
    };
}

/// The place of a triggered order in line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of orders in line before it since the line was last empty.
    pub(crate) place: u64,
    /// The trigger that was reached, in ticks.
    pub(crate) trigger: u32,
}

/// One of the lists of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// The list of a trigger, or of the unused records.
    Trigger,
    /// The list of the children of a parent.
    Family,
}

impl Contingent {
    /// Its expiry, in seconds since the epoch, with its owner's name.
    pub(crate) fn moment(&self) -> (u32, OrderKey) {
        (self.instructions.expires_s, self.key)
    }

    /// The record of an order that just became contingent.
    pub(crate) fn new(
        order: &Order,
        instructions: Instructions,
        order_type: OrderType,
        minimum_quantity: Lots,
    ) -> Self {
        Self {
            slot: Slot::NONE,
            key: order.key,
            order_id: order.order_id(),
            instructions,
            order_type,
            minimum_quantity,
            instrument_id: order.instrument_id,
            limit: Price::ZERO,
            state: State::Incoming,
            has_executed: false,
            is_noted: false,
            executed: Quantity::ZERO,
            links: [Link { next: ContingentId::NONE, before: ContingentId::NONE }; 2],
            trail: Trail::ALONE,
            turn: Turn::default(),
            partner_id: ContingentId::NONE,
            parent_id: ContingentId::NONE,
            children: ContingentId::NONE,
        }
    }

    /// True if the order is in the book.
    pub(crate) fn is_resting(&self) -> bool {
        self.state == State::Resting
    }

    /// True if the order is pegged and in the book, or waits for a price.
    fn follows_market(&self) -> bool {
        self.instructions.pricing.is_pegged()
            && matches!(self.state, State::Resting | State::ForReference)
    }

    /// False if it rests like an order without instructions; its shown part is in [`Iceberg`].
    ///
    /// [`Iceberg`]: crate::trading::iceberg::Iceberg
    pub(crate) fn has_instructions(&self) -> bool {
        !self.is_resting() || self.instructions.without_shown().is_some()
    }

    /// Clears the entry-time fields of an order that rests without instructions. Snapshots omit them, so
    /// keeping them would change the state hash after a restore.
    pub(crate) fn forget(&mut self) {
        if !self.has_instructions() {
            self.instructions = Instructions::NONE;
            self.order_type = OrderType::Limit;
            self.minimum_quantity = Lots::ZERO;
        }
    }

    /// Its element of the state hash; 0 without instructions.
    pub(crate) fn hash(&self) -> u64 {
        match self.state {
            State::Resting if !self.has_instructions() => 0,
            State::Resting
            | State::ForParent
            | State::ForTrigger
            | State::ForReference
            | State::ForQuantity
            | State::ForAuction
            | State::HalfMatched => self.element(),
            State::Triggered => {
                let Turn { place, trigger } = self.turn;
                hash::mix([hash::TURN, self.element(), place, trigger.into()])
            }
            State::Incoming | State::Done => 0,
        }
    }

    /// The element of its instructions, entry terms and state.
    fn element(&self) -> u64 {
        let Contingent { key, instructions, .. } = self;
        hash::mix([
            hash::CONTINGENT,
            u64::from(key.session_id.0) << 40
                | u64::from(key.channel) << 32
                | u64::from(key.user_ref_num),
            u64::from(instructions.pricing.code())
                | u64::from(instructions.handling.is_all_or_none()) << 8
                | u64::from(instructions.handling.slides()) << 16
                | u64::from(self.order_type.code()) << 24
                | (self.state as u64) << 32,
            // An order with a trigger has its limit in its price.
            (u64::from(instructions.trigger.0) | self.limit.0) << 32
                | u64::from(instructions.offset as u32),
            instructions.shown_quantity.get(),
            self.minimum_quantity.get(),
            u64::from(instructions.expires_s) << 32 | u64::from(instructions.shown_range),
            u64::from(instructions.parent) << 32 | u64::from(instructions.partner),
        ])
    }
}

/// Records in a chunk; growing by a chunk moves none.
const CHUNK_LEN: usize = 256;

/// All records, by id and by the slot of their order.
#[derive(Debug)]
pub(crate) struct Contingents {
    chunks: Vec<Box<[Contingent; CHUNK_LEN]>>,
    used: usize,
    free: ContingentId,
    /// Records whose order is in a slot.
    by_slot: PagedMap<ContingentId, 256>,
    pub(crate) expiries: Expiries,
    /// Orders that executed or were done in this command, in that order; see
    /// [`linked`](mod@crate::contingent::linked).
    noted: VecDeque<ContingentId>,
    /// Triggered orders, in the order of entry, each with its order id at that time; they may be
    /// done or replaced by now.
    pub(crate) triggered: VecDeque<(ContingentId, OrderId)>,
    /// Orders that a trade triggers; empty at all other times.
    pub(crate) reached: Vec<(u32, OrderId, ContingentId)>,
    /// The place of the next triggered order; 0 while the line is empty.
    pub(crate) next_place: u64,
    /// True if an earlier command left triggered orders, or orders that wait for an auction.
    pub(crate) has_triggered_left: bool,
    /// Children of a done parent; empty between commands.
    pub(crate) family: Vec<ContingentId>,
    pub(crate) pegs: Pegs,
    pub(crate) minimum_quantity_orders: MinimumQuantityOrders,
}

impl Default for Contingents {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            used: 0,
            free: ContingentId::NONE,
            by_slot: PagedMap::default(),
            expiries: Expiries::default(),
            noted: VecDeque::new(),
            triggered: VecDeque::new(),
            reached: Vec::new(),
            next_place: 0,
            has_triggered_left: false,
            family: Vec::new(),
            pegs: Pegs::default(),
            minimum_quantity_orders: MinimumQuantityOrders::default(),
        }
    }
}

impl Contingents {
    /// Adds the record of an incoming order.
    pub(crate) fn add(&mut self, contingent: Contingent) -> ContingentId {
        let id = match self.free.some() {
            Some(free) => {
                self.free = self[free].links[List::Trigger as usize].next;
                free
            }
            None => self.add_fresh(contingent),
        };
        self[id] = contingent;
        if contingent.instructions.expires_s != 0 {
            Expiries::add(self, id);
        }
        id
    }

    /// The record of the order in a slot.
    pub(crate) fn find(&self, slot: Slot) -> Option<ContingentId> {
        self.by_slot.get(slot.to_bits())
    }

    /// The record of the order in a slot.
    ///
    /// # Panics
    /// The order is not contingent.
    pub(crate) fn of(&self, slot: Slot) -> ContingentId {
        self.find(slot).expect("a contingent order has a record")
    }

    /// Puts the record's order into a slot.
    pub(crate) fn place(&mut self, id: ContingentId, slot: Slot, state: State, order: &Order) {
        let contingent = &mut self[id];
        contingent.slot = slot;
        contingent.state = state;
        self.by_slot.insert(slot.to_bits(), id);
        if self[id].follows_market() {
            self.add_peg(id, order);
        }
    }

    /// Takes the record's order out of its slot.
    pub(crate) fn lift(&mut self, id: ContingentId) {
        if self[id].follows_market() {
            self.remove_peg(id);
        }
        let contingent = &mut self[id];
        contingent.state = State::Incoming;
        let slot = core::mem::replace(&mut contingent.slot, Slot::NONE);
        self.by_slot.remove(slot.to_bits());
    }

    /// Sets the owner's name and the expiry, in seconds since the epoch, of an order without a slot;
    /// 0 is never.
    pub(crate) fn expire_at(&mut self, id: ContingentId, key: OrderKey, expires_s: u32) {
        if self[id].instructions.expires_s != 0 {
            Expiries::remove(self, id);
        }
        self[id].key = key;
        self[id].instructions.expires_s = expires_s;
        if expires_s != 0 {
            Expiries::add(self, id);
        }
    }

    /// Marks an order without a slot as done, and its total executed lots.
    pub(crate) fn finish(&mut self, id: ContingentId, executed: Quantity) {
        if self[id].instructions.expires_s != 0 {
            Expiries::remove(self, id);
        }
        let contingent = &mut self[id];
        contingent.state = State::Done;
        contingent.executed = executed;
        let is_tied = !contingent.partner_id.is_none()
            || !contingent.parent_id.is_none()
            || !contingent.children.is_none();
        if is_tied {
            self.note(id);
        } else if !contingent.is_noted {
            self.let_go(id);
        }
    }

    /// Marks an order as executed in part.
    pub(crate) fn execute(&mut self, id: ContingentId) {
        if !self[id].partner_id.is_none() {
            self[id].has_executed = true;
            self.note(id);
        }
    }

    /// Queues an order, so that its links are followed.
    pub(crate) fn note(&mut self, id: ContingentId) {
        if !self[id].is_noted {
            self[id].is_noted = true;
            self.noted.push_back(id);
        }
    }

    /// The first queued order.
    pub(crate) fn next_noted(&mut self) -> Option<ContingentId> {
        let id = self.noted.pop_front()?;
        self[id].is_noted = false;
        Some(id)
    }

    /// Puts an order behind the others in line.
    pub(crate) fn line_up(&mut self, id: ContingentId, trigger: u32) {
        let place = self.next_place;
        self.next_place += 1;
        let contingent = &mut self[id];
        contingent.state = State::Triggered;
        contingent.turn = Turn { place, trigger };
        self.triggered.push_back((id, self[id].order_id));
    }

    /// The first triggered order in line.
    pub(crate) fn first_triggered(&mut self) -> Option<ContingentId> {
        while let Some((id, order_id)) = self.triggered.front().copied() {
            if self[id].state == State::Triggered && self[id].order_id == order_id {
                return Some(id);
            }
            self.triggered.pop_front();
        }
        self.next_place = 0;
        None
    }

    /// True if effects of this command are still to come.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        // One test of all: none of them is likely.
        let counts = self.noted.len() | self.triggered.len() | self.pegs.touched_count();
        counts != 0 || self.has_triggered_left | self.minimum_quantity_orders.is_pending()
    }

    /// Frees a record.
    pub(crate) fn let_go(&mut self, id: ContingentId) {
        let free = self.free;
        let contingent = &mut self[id];
        contingent.state = State::Incoming;
        contingent.links[List::Trigger as usize].next = free;
        self.free = id;
    }

    /// The records of live orders, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ContingentId> {
        self.by_slot.iter().map(|(_, id)| id)
    }

    /// The next record of a list.
    pub(crate) fn next(&self, list: List, id: ContingentId) -> Option<ContingentId> {
        self[id].links[list as usize].next.some()
    }

    /// Adds a record in front of a list.
    pub(crate) fn push(
        &mut self,
        list: List,
        head: ContingentId,
        id: ContingentId,
    ) -> ContingentId {
        self[id].links[list as usize] = Link { next: head, before: ContingentId::NONE };
        if let Some(head) = head.some() {
            self[head].links[list as usize].before = id;
        }
        id
    }

    /// Removes a record from a list; returns the new head.
    pub(crate) fn unlink(
        &mut self,
        list: List,
        head: ContingentId,
        id: ContingentId,
    ) -> ContingentId {
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

    /// Checks that indexes agree and that no effect is pending.
    pub(crate) fn check(&self) {
        let is_pending = !self.noted.is_empty() || self.pegs.touched_count() != 0;
        assert!(!is_pending, "all has followed from the command");
        let waits_for_auction = self.iter().any(|id| self[id].state == State::ForAuction);
        let has_triggered = !self.triggered.is_empty();
        assert_eq!(self.has_triggered_left, has_triggered || waits_for_auction);
        assert_eq!(self.next_place != 0, has_triggered);
        let is_in_line = |(id, order_id): &&(ContingentId, OrderId)| {
            self[*id].state == State::Triggered && self[*id].order_id == *order_id
        };
        let in_line = self.triggered.iter().filter(is_in_line);
        let triggered = self.iter().filter(|id| self[*id].state == State::Triggered);
        assert_eq!(in_line.count(), triggered.count(), "each triggered order is in line");
        self.by_slot.check();
        self.minimum_quantity_orders.check();
        let mut following = 0;
        for (slot, id) in self.by_slot.iter() {
            let contingent = &self[id];
            assert_eq!(contingent.slot, Slot::from_bits(slot));
            assert!(!contingent.has_executed && !contingent.is_noted, "{contingent:?}");
            assert!(!matches!(contingent.state, State::Incoming | State::Done), "{contingent:?}");
            following += usize::from(contingent.follows_market());
        }
        Expiries::check(self);
        assert_eq!(self.check_pegs(), following, "each order that follows a book is in its list");
        let mut free_count = 0;
        let mut free = self.free;
        while let Some(id) = free.some() {
            free_count += 1;
            free = self[id].links[List::Trigger as usize].next;
        }
        assert_eq!(free_count + self.by_slot.len(), self.used, "a contingent is used or free");
    }

    #[cold]
    fn add_fresh(&mut self, contingent: Contingent) -> ContingentId {
        let id = ContingentId(u32::try_from(self.used).expect("no more than orders"));
        assert!(!id.is_none(), "the last number is none");
        if self.used == self.chunks.len() * CHUNK_LEN {
            self.chunks.push(Box::new([contingent; CHUNK_LEN]));
        }
        self.used += 1;
        id
    }
}

impl Index<ContingentId> for Contingents {
    type Output = Contingent;

    fn index(&self, id: ContingentId) -> &Contingent {
        &self.chunks[id.0 as usize / CHUNK_LEN][id.0 as usize % CHUNK_LEN]
    }
}

impl IndexMut<ContingentId> for Contingents {
    fn index_mut(&mut self, id: ContingentId) -> &mut Contingent {
        &mut self.chunks[id.0 as usize / CHUNK_LEN][id.0 as usize % CHUNK_LEN]
    }
}
