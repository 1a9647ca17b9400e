//! The stop book: orders that wait outside the book until the market trades at their trigger.
//!
//! Half of the orders wait for the market to fall (sell stops, take-profit buys), half for it to
//! rise. In each half, the orders with one trigger form a list, and a map sorts the lists by
//! trigger. Adding, removing or triggering an order costs a search of the map; a trade that reaches
//! no trigger costs one comparison with the nearest trigger on each side.
//!
//! The trigger of a trailing stop follows the best price so far, its *mark*, at a distance. Orders
//! with one mark form a *level*: a tree sorted by distance. Only the order with the least distance
//! is in the sorted lists, because no other can be triggered before it. A trade beyond some marks
//! moves their levels to its own price by joining their trees. So no trade walks all trailing
//! orders:
//!
//! - a tree is a treap, balanced by a hash of the order id: adding, removing and finding the mark of
//!   an order cost O(log n);
//! - joining trees of m and n orders, with m the fewer, costs O(m log(n / m)). An order is in the
//!   smaller tree at most log n times in its life, and each time its tree grows by the factor
//!   n / m. So all joins together cost O(log n) for each order ever added;
//! - moving a level in the sorted lists costs O(log n) for the trade that moves it; each triggered
//!   order costs the same.
//!
//! Invariant: of each level exactly the nearest order is in the sorted lists.

use alloc::{boxed::Box, vec::Vec};

use market::{InstrumentId, OrderId, Pricing, Side};

use crate::{
    book::paged_map::PagedMap,
    contingent::instructions::{Contingent, ContingentId, Contingents, List, State, Trail},
    state::hash::{self, StateHash},
};

/// The triggers of one book.
#[derive(Debug)]
pub(crate) struct Triggers {
    instrument_id: InstrumentId,
    /// Price of the last trade of continuous trading, in ticks; 0 before the first.
    last: u32,
    /// A trade at a price strictly between these two changes nothing here.
    low: u32,
    high: u32,
    /// `None` before the first waiting order: most books never have one.
    halves: Option<Box<[StopSide; 2]>>,
}

/// The direction that an order waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A trade at its trigger or below.
    Fall = 0,
    /// A trade at its trigger or above.
    Rise = 1,
}

/// The waiting orders of one direction. In both maps the least key is reached first; see
/// [`Move::trigger_key`] and [`Move::mark_key`].
#[derive(Debug, Default)]
struct StopSide {
    /// By trigger: orders with a fixed trigger, and the nearest order of each level.
    nearest: PagedMap<ContingentId, 64>,
    /// By mark.
    levels: PagedMap<TrailingLevel, 64>,
}

/// The trailing stops of one mark.
#[derive(Clone, Copy, Debug)]
struct TrailingLevel {
    /// The root of its tree; it stores the mark.
    root: ContingentId,
    /// The order with the least distance.
    nearest: ContingentId,
}

impl Move {
    /// The direction of an order with this side and pricing.
    pub(crate) fn of(side: Side, pricing: Pricing) -> Self {
        match (side.is_buy(), pricing) {
            (true, Pricing::TakeProfit) => Self::Fall,
            (false, Pricing::TakeProfit) => Self::Rise,
            (true, _) => Self::Rise,
            (false, _) => Self::Fall,
        }
    }

    /// The key of a trigger: the trigger reached first has the lower key, and a price reaches all
    /// keys up to its own.
    fn trigger_key(self, price: u32) -> u32 {
        match self {
            Self::Fall => !price,
            Self::Rise => price,
        }
    }

    /// The key of a mark: the mark passed first has the lower key, and a price passes all keys
    /// below its own. 0 is the mark before the first trade.
    fn mark_key(self, price: u32) -> u32 {
        match self {
            Self::Fall => price,
            Self::Rise => !price,
        }
    }

    /// The key of the trigger at a distance from a mark; from the mark before the first trade, a
    /// key that no price reaches.
    fn trigger_key_of_mark(self, mark_key: u32, distance: u32) -> u32 {
        match self {
            Self::Fall => self.trigger_key(mark_key.saturating_sub(distance)),
            Self::Rise => self.trigger_key((!mark_key).saturating_add(distance)),
        }
    }

    /// The first mark of a trailing stop: the price at its distance from the entered trigger, or
    /// the last trade if that is nearer or no trigger was entered.
    fn mark_key_first(self, trigger: u32, distance: u32, last: u32) -> u32 {
        let own = match (self, trigger) {
            (_, 0) => 0,
            (Self::Fall, trigger) => self.mark_key(trigger + distance),
            (Self::Rise, trigger) => self.mark_key(trigger - distance),
        };
        let market = if last == 0 { 0 } else { self.mark_key(last) };
        own.max(market)
    }

    /// A trigger or a mark from its key.
    fn trigger(self, key: u32) -> u32 {
        self.trigger_key(key)
    }
}

impl Triggers {
    /// A stop book before the first trade, without orders.
    pub(crate) fn new(instrument_id: InstrumentId) -> Self {
        Self { instrument_id, last: 0, low: 0, high: u32::MAX, halves: None }
    }

    pub(crate) fn instrument_id(&self) -> InstrumentId {
        self.instrument_id
    }

    /// Price of the last trade, in ticks; 0 before the first.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// The trigger of a new order, if the last trade already reached it.
    pub(crate) fn met(&self, side: Side, contingent: &Contingent) -> Option<u32> {
        if self.last == 0 {
            return None;
        }
        let toward = Move::of(side, contingent.instructions.pricing);
        let key = self.first_trigger_key(toward, contingent);
        (key <= toward.trigger_key(self.last)).then(|| toward.trigger(key))
    }

    fn first_trigger_key(&self, toward: Move, contingent: &Contingent) -> u32 {
        let trigger = contingent.instructions.trigger.0;
        match contingent.instructions.pricing {
            Pricing::TrailingStop => {
                let distance = distance(contingent);
                let mark_key = toward.mark_key_first(trigger, distance, self.last);
                toward.trigger_key_of_mark(mark_key, distance)
            }
            _ => toward.trigger_key(trigger),
        }
    }

    /// Adds a waiting order.
    pub(crate) fn add(&mut self, contingents: &mut Contingents, side: Side, id: ContingentId) {
        let toward = Move::of(side, contingents[id].instructions.pricing);
        let trigger_key = self.first_trigger_key(toward, &contingents[id]);
        if contingents[id].instructions.pricing == Pricing::TrailingStop {
            let trigger = contingents[id].instructions.trigger.0;
            let mark_key = toward.mark_key_first(trigger, distance(&contingents[id]), self.last);
            self.add_trailing(contingents, toward, id, mark_key);
        } else {
            self.side_mut(toward).list(contingents, trigger_key, id);
        }
        self.narrow();
    }

    /// Adds a waiting trailing stop with this mark.
    fn add_trailing(
        &mut self,
        contingents: &mut Contingents,
        toward: Move,
        id: ContingentId,
        mark_key: u32,
    ) {
        contingents[id].trail = Trail::ALONE;
        let half = self.side_mut(toward);
        half.join(contingents, toward, mark_key, TrailingLevel { root: id, nearest: id });
    }

    /// Removes a waiting order.
    pub(crate) fn remove(&mut self, contingents: &mut Contingents, side: Side, id: ContingentId) {
        let toward = Move::of(side, contingents[id].instructions.pricing);
        let half = self.side_mut(toward);
        if contingents[id].instructions.pricing == Pricing::TrailingStop {
            half.remove_trailing(contingents, toward, id);
        } else {
            let trigger_key = toward.trigger_key(contingents[id].instructions.trigger.0);
            half.unlist(contingents, trigger_key, id);
        }
        self.narrow();
    }

    /// Reports trades: at the first of these prices, at the last, and possibly at others between
    /// them, in order. Queues the triggered orders for entry: those for a fall first, nearest
    /// trigger first, then by order id.
    #[inline]
    pub(crate) fn trade(&mut self, contingents: &mut Contingents, first: u32, last: u32) {
        let is_quiet = |price| self.low < price && price < self.high;
        if !is_quiet(first) || !is_quiet(last) {
            // Prices between the two move in one direction. They trigger no orders and move no marks except those of
            // the two ends.
            self.pass(contingents, first);
            if last != first {
                self.pass(contingents, last);
            }
        }
        self.last = last;
    }

    #[cold]
    fn pass(&mut self, contingents: &mut Contingents, price: u32) {
        for toward in [Move::Fall, Move::Rise] {
            let half = self.side_mut(toward);
            half.move_levels(contingents, toward, price);
            half.trigger(contingents, toward, price);
        }
        self.narrow();
    }

    /// Updates the price range in which nothing happens.
    fn narrow(&mut self) {
        let Some(halves) = &self.halves else { return };
        let [fall, rise] = &**halves;
        let nearest =
            |half: &StopSide, toward: Move| half.nearest.first_key().map(|it| toward.trigger(it));
        let fall_trigger = nearest(fall, Move::Fall).unwrap_or(0);
        let rise_trigger = nearest(rise, Move::Rise).unwrap_or(u32::MAX);
        // The first price beyond a mark moves it.
        let fall_mark = fall.levels.first_key().map_or(u32::MAX, |mark| mark.saturating_add(1));
        let rise_mark = rise.levels.first_key().map_or(0, |key| (!key).saturating_sub(1));
        self.low = fall_trigger.max(rise_mark);
        self.high = rise_trigger.min(fall_mark);
    }

    fn side_mut(&mut self, toward: Move) -> &mut StopSide {
        &mut self.halves.get_or_insert_default()[toward as usize]
    }

    /// The trigger of an order and, for a trailing stop, its mark, in ticks.
    pub(crate) fn trigger_of(
        &self,
        contingents: &Contingents,
        side: Side,
        id: ContingentId,
    ) -> (u32, u32) {
        let instructions = &contingents[id].instructions;
        let toward = Move::of(side, instructions.pricing);
        if instructions.pricing != Pricing::TrailingStop {
            return (instructions.trigger.0, 0);
        }
        let mark = contingents[root_of(contingents, id)].trail.mark;
        let trigger_key = key_at(contingents, toward, mark, id);
        (toward.trigger(trigger_key), mark)
    }

    /// As [`add`](Self::add), for a restored order with its former mark.
    pub(crate) fn restore(
        &mut self,
        contingents: &mut Contingents,
        side: Side,
        id: ContingentId,
        mark: u32,
    ) {
        if contingents[id].instructions.pricing == Pricing::TrailingStop {
            let toward = Move::of(side, Pricing::TrailingStop);
            self.add_trailing(contingents, toward, id, mark);
            self.narrow();
        } else {
            self.add(contingents, side, id);
        }
    }

    /// Restores the price of the last trade.
    pub(crate) fn restore_last(&mut self, last: u32) {
        self.last = last;
    }

    /// The waiting orders: those for a fall before those for a rise, nearest trigger first, then by
    /// order id. Costs O(waiting orders).
    pub(crate) fn iter(&self, contingents: &Contingents) -> Vec<ContingentId> {
        let mut found = Vec::new();
        let halves = self.halves.iter().flat_map(|halves| halves.iter());
        for (half, toward) in halves.zip([Move::Fall, Move::Rise]) {
            let from = found.len();
            for (trigger_key, head) in half.nearest.iter() {
                let mut next = head.some();
                while let Some(id) = next {
                    if contingents[id].instructions.pricing != Pricing::TrailingStop {
                        found.push((trigger_key, contingents[id].order_id, id));
                    }
                    next = contingents.next(List::Trigger, id);
                }
            }
            for (mark, level) in half.levels.iter() {
                for id in level.orders(contingents) {
                    let trigger_key = key_at(contingents, toward, mark, id);
                    found.push((trigger_key, contingents[id].order_id, id));
                }
            }
            found[from..].sort_by_key(|(trigger_key, order_id, _)| (*trigger_key, *order_id));
        }
        found.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Adds its elements to the state hash: the last trade, and the mark of each trailing stop.
    pub(crate) fn add_hashes(&self, contingents: &Contingents, sum: &mut StateHash) {
        let instrument = u64::from(self.instrument_id.0);
        if self.last != 0 {
            sum.add(hash::mix([hash::LAST_TRADE, instrument, self.last.into()]));
        }
        let halves = self.halves.iter().flat_map(|halves| halves.iter());
        for (half, toward) in halves.zip([Move::Fall, Move::Rise]) {
            for (mark, level) in half.levels.iter() {
                for id in level.orders(contingents) {
                    let OrderId(order) = contingents[id].order_id;
                    let toward = toward as u64;
                    sum.add(hash::mix([hash::TRAILING, instrument, toward, mark.into(), order]));
                }
            }
        }
    }

    /// Checks that lists, levels and trees are consistent; returns how many orders wait.
    pub(crate) fn check(&self, contingents: &Contingents) -> usize {
        let Some(halves) = &self.halves else { return 0 };
        let mut count = 0;
        for (half, toward) in halves.iter().zip([Move::Fall, Move::Rise]) {
            count += half.check(contingents, toward);
        }
        if self.last != 0 {
            assert!(self.low < self.last && self.last < self.high, "{} is quiet", self.last);
        }
        count
    }
}

impl StopSide {
    /// Adds an order to the list of its trigger.
    fn list(&mut self, contingents: &mut Contingents, trigger_key: u32, id: ContingentId) {
        let head = self.nearest.get(trigger_key).unwrap_or(ContingentId::NONE);
        let first = contingents.push(List::Trigger, head, id);
        match self.nearest.get_mut(trigger_key) {
            Some(head) => *head = first,
            None => self.nearest.insert(trigger_key, first),
        }
    }

    /// Removes an order from the list of its trigger.
    fn unlist(&mut self, contingents: &mut Contingents, trigger_key: u32, id: ContingentId) {
        let head = self.nearest.get(trigger_key).expect("it was listed");
        let first = contingents.unlink(List::Trigger, head, id);
        match first.some() {
            Some(_) => *self.nearest.get_mut(trigger_key).expect("it was found above") = first,
            None => {
                self.nearest.remove(trigger_key);
            }
        }
    }

    /// Adds a tree, whose nearest order is in no list, to the level of a mark.
    fn join(&mut self, contingents: &mut Contingents, toward: Move, mark: u32, new: TrailingLevel) {
        let joined = match self.levels.get(mark) {
            None => {
                self.levels.insert(mark, new);
                let key = key_at(contingents, toward, mark, new.nearest);
                self.list(contingents, key, new.nearest);
                new
            }
            Some(level) => {
                let joined = level.join(contingents, new);
                *self.levels.get_mut(mark).expect("it was found above") = joined;
                if joined.nearest != level.nearest {
                    let key = key_at(contingents, toward, mark, level.nearest);
                    self.unlist(contingents, key, level.nearest);
                    let key = key_at(contingents, toward, mark, joined.nearest);
                    self.list(contingents, key, joined.nearest);
                }
                joined
            }
        };
        contingents[joined.root].trail.mark = mark;
    }

    /// Removes a trailing stop.
    fn remove_trailing(&mut self, contingents: &mut Contingents, toward: Move, id: ContingentId) {
        let mark = contingents[root_of(contingents, id)].trail.mark;
        let mut level = self.levels.get(mark).expect("a root knows the mark of its level");
        let rest = detach(contingents, id);
        if level.root == id {
            level.root = rest;
        }
        let was_nearest = level.nearest == id;
        if was_nearest {
            let key = key_at(contingents, toward, mark, id);
            self.unlist(contingents, key, id);
        }
        if level.root.is_none() {
            self.levels.remove(mark);
            return;
        }
        contingents[level.root].trail.mark = mark;
        if was_nearest {
            level.nearest = leftmost(contingents, level.root);
            let key = key_at(contingents, toward, mark, level.nearest);
            self.list(contingents, key, level.nearest);
        }
        *self.levels.get_mut(mark).expect("it was found above") = level;
    }

    /// Moves the levels whose mark a price passes to that price.
    fn move_levels(&mut self, contingents: &mut Contingents, toward: Move, price: u32) {
        let mark_to = toward.mark_key(price);
        let mut moved: Option<TrailingLevel> = None;
        while let Some((mark, level)) = self.levels.first()
            && mark < mark_to
        {
            self.levels.remove(mark);
            let key = key_at(contingents, toward, mark, level.nearest);
            self.unlist(contingents, key, level.nearest);
            moved = Some(match moved {
                None => level,
                Some(other) => other.join(contingents, level),
            });
        }
        if let Some(level) = moved {
            self.join(contingents, toward, mark_to, level);
        }
    }

    /// Queues the orders that a price triggers.
    fn trigger(&mut self, contingents: &mut Contingents, toward: Move, price: u32) {
        let reached = toward.trigger_key(price);
        let mut found = core::mem::take(&mut contingents.reached);
        while let Some((trigger_key, id)) = self.nearest.first()
            && trigger_key <= reached
        {
            if contingents[id].instructions.pricing == Pricing::TrailingStop {
                self.remove_trailing(contingents, toward, id);
            } else {
                self.unlist(contingents, trigger_key, id);
            }
            found.push((trigger_key, contingents[id].order_id, id));
        }
        found.sort_unstable_by_key(|(trigger_key, order_id, _)| (*trigger_key, *order_id));
        for (trigger_key, _, id) in found.drain(..) {
            contingents.line_up(id, toward.trigger(trigger_key));
        }
        contingents.reached = found;
    }

    /// Checks that lists, levels and trees are consistent; returns how many orders wait.
    fn check(&self, contingents: &Contingents, toward: Move) -> usize {
        self.nearest.check();
        self.levels.check();
        let mut count = 0;
        let mut nearest = 0;
        for (trigger_key, head) in self.nearest.iter() {
            let mut next = head.some();
            while let Some(id) = next {
                let contingent = &contingents[id];
                assert_eq!(contingent.state, State::ForTrigger, "{contingent:?}");
                if contingent.instructions.pricing == Pricing::TrailingStop {
                    let mark = contingents[root_of(contingents, id)].trail.mark;
                    assert_eq!(self.levels.get(mark).map(|level| level.nearest), Some(id));
                    let key = toward.trigger_key_of_mark(mark, distance(contingent));
                    assert_eq!(key, trigger_key, "{contingent:?}");
                    nearest += 1;
                } else {
                    let key = toward.trigger_key(contingent.instructions.trigger.0);
                    assert_eq!(key, trigger_key, "{contingent:?}");
                    count += 1;
                }
                next = contingents.next(List::Trigger, id);
            }
        }
        assert_eq!(nearest, self.levels.len(), "each level waits with its nearest order");
        for (mark, level) in self.levels.iter() {
            let root = &contingents[level.root].trail;
            assert!(root.parent.is_none() && root.mark == mark);
            assert_eq!(level.nearest, leftmost(contingents, level.root));
            for id in level.orders(contingents) {
                let contingent = &contingents[id];
                assert_eq!(contingent.state, State::ForTrigger, "{contingent:?}");
                count += 1;
                let Trail { left, right, .. } = contingent.trail;
                for child in [left, right].into_iter().filter_map(ContingentId::some) {
                    assert_eq!(contingents[child].trail.parent, id);
                    assert!(priority(contingents, id) >= priority(contingents, child), "a heap");
                    let is_before = place(contingents, child) < place(contingents, id);
                    assert_eq!(is_before, child == left, "a search tree");
                }
            }
        }
        count
    }
}

/// The trigger key of a trailing stop at a mark.
fn key_at(contingents: &Contingents, toward: Move, mark: u32, id: ContingentId) -> u32 {
    toward.trigger_key_of_mark(mark, distance(&contingents[id]))
}

/// The distance of a trailing stop, in ticks.
fn distance(contingent: &Contingent) -> u32 {
    contingent.instructions.offset.unsigned_abs()
}

impl TrailingLevel {
    /// The orders of a tree, each before those below it.
    fn orders(self, contingents: &Contingents) -> Vec<ContingentId> {
        let mut orders: Vec<_> = self.root.some().into_iter().collect();
        let mut next = 0;
        while let Some(&id) = orders.get(next) {
            orders.extend(contingents[id].trail.left.some());
            orders.extend(contingents[id].trail.right.some());
            next += 1;
        }
        orders
    }

    /// Joins two levels.
    fn join(self, contingents: &mut Contingents, other: Self) -> Self {
        let nearest = match place(contingents, self.nearest) < place(contingents, other.nearest) {
            true => self.nearest,
            false => other.nearest,
        };
        let root = union(contingents, self.root, other.root);
        contingents[root].trail.parent = ContingentId::NONE;
        Self { root, nearest }
    }
}

/// The sort key of an order in the tree of its level.
fn place(contingents: &Contingents, id: ContingentId) -> (u32, OrderId) {
    (distance(&contingents[id]), contingents[id].order_id)
}

/// The heap priority of a treap: no order is below one with a lower priority.
fn priority(contingents: &Contingents, id: ContingentId) -> u64 {
    hash::fold(contingents[id].order_id.0)
}

fn root_of(contingents: &Contingents, id: ContingentId) -> ContingentId {
    let mut root = id;
    while let Some(parent) = contingents[root].trail.parent.some() {
        root = parent;
    }
    root
}

fn leftmost(contingents: &Contingents, root: ContingentId) -> ContingentId {
    let mut leftmost = root;
    while let Some(left) = contingents[leftmost].trail.left.some() {
        leftmost = left;
    }
    leftmost
}

fn set_left(contingents: &mut Contingents, id: ContingentId, left: ContingentId) {
    contingents[id].trail.left = left;
    if let Some(left) = left.some() {
        contingents[left].trail.parent = id;
    }
}

fn set_right(contingents: &mut Contingents, id: ContingentId, right: ContingentId) {
    contingents[id].trail.right = right;
    if let Some(right) = right.some() {
        contingents[right].trail.parent = id;
    }
}

/// Joins two trees of any orders; returns the root, whose parent the caller sets.
fn union(contingents: &mut Contingents, one: ContingentId, other: ContingentId) -> ContingentId {
    let (Some(one), Some(other)) = (one.some(), other.some()) else {
        return if one.is_none() { other } else { one };
    };
    let (root, below) = match priority(contingents, one) >= priority(contingents, other) {
        true => (one, other),
        false => (other, one),
    };
    let (before, after) = split(contingents, below, place(contingents, root));
    let left = union(contingents, contingents[root].trail.left, before);
    let right = union(contingents, contingents[root].trail.right, after);
    set_left(contingents, root, left);
    set_right(contingents, root, right);
    root
}

/// Splits a tree into the orders before a place and those after it; the caller sets the parents of
/// both roots.
fn split(
    contingents: &mut Contingents,
    root: ContingentId,
    at: (u32, OrderId),
) -> (ContingentId, ContingentId) {
    if root.is_none() {
        return (root, root);
    }
    if place(contingents, root) < at {
        let (before, after) = split(contingents, contingents[root].trail.right, at);
        set_right(contingents, root, before);
        (root, after)
    } else {
        let (before, after) = split(contingents, contingents[root].trail.left, at);
        set_left(contingents, root, after);
        (before, root)
    }
}

/// Joins two trees, where all orders of the first come before those of the second; returns the
/// root, whose parent the caller sets.
fn concatenate(
    contingents: &mut Contingents,
    one: ContingentId,
    other: ContingentId,
) -> ContingentId {
    let (Some(one), Some(other)) = (one.some(), other.some()) else {
        return if one.is_none() { other } else { one };
    };
    if priority(contingents, one) >= priority(contingents, other) {
        let right = concatenate(contingents, contingents[one].trail.right, other);
        set_right(contingents, one, right);
        one
    } else {
        let left = concatenate(contingents, one, contingents[other].trail.left);
        set_left(contingents, other, left);
        other
    }
}

/// Removes an order from its tree; returns the root of the subtree that replaces it.
fn detach(contingents: &mut Contingents, id: ContingentId) -> ContingentId {
    let Trail { parent, left, right, .. } = contingents[id].trail;
    contingents[id].trail = Trail::ALONE;
    let rest = concatenate(contingents, left, right);
    if let Some(rest) = rest.some() {
        contingents[rest].trail.parent = parent;
    }
    if let Some(parent) = parent.some() {
        let trail = &mut contingents[parent].trail;
        let side = if trail.left == id { &mut trail.left } else { &mut trail.right };
        *side = rest;
    }
    rest
}
