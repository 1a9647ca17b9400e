//! Orders that wait outside the book until the market trades at their trigger.
//!
//! Half of them wait for the market to fall (sells that stop, buys that take a profit), half for it
//! to rise. In each half orders with one trigger are a list, and the lists are sorted by trigger,
//! so that adding, removing and triggering one costs a search among the triggers, and a trade that
//! reaches no trigger costs one comparison with the nearest on each side.
//!
//! The trigger of a trailing stop follows the best price so far, its *mark*, at a distance. Orders
//! of one mark are a *level*: a tree by distance, of which only the order with the least stands in
//! the sorted lists, for none of the others can be triggered before it. A trade beyond some marks
//! moves these levels to its own price by joining their trees. So no trade walks the orders that
//! trail:
//!
//! - a tree is a treap, balanced by a hash of the order id: adding, removing and finding the mark of
//!   an order cost O(log n);
//! - joining trees of m and n orders, m the fewer, costs O(m log(n / m)). An order is among the
//!   fewer at most log n times in its life, and each time the tree that it is in grows by the factor
//!   n / m, so all joins together cost O(log n) for each order that ever came;
//! - the level that moved, taken out of the lists and put in again, costs O(log n) for the trade
//!   that moved it, and so does each order that is triggered.
//!
//! The state hash has for each level one product of what its mark and its orders are, so that moving
//! a level touches none of its orders there either.

use alloc::{boxed::Box, vec::Vec};

use market::{InstrumentId, OrderId, Pricing, Side};

use crate::{
    book::paged_map::Pages,
    contingent::instructions::{List, Standing, StandingId, Standings, State, Trail},
    state::hash::{self, StateHash},
};

/// What trades trigger in one book.
#[derive(Debug)]
pub(crate) struct Triggers {
    instrument_id: InstrumentId,
    /// Price of the last trade of the continuous market, in ticks; 0 before the first.
    last: u32,
    /// Its element of the state hash, but for what waits.
    hash: u64,
    /// A trade between these two, above the first and below the second, changes nothing here.
    low: u32,
    high: u32,
    /// None before the first order that waits: in most books none ever does.
    halves: Option<Box<[Half; 2]>>,
}

/// For what an order waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A trade at its trigger or below.
    Fall = 0,
    /// A trade at its trigger or above.
    Rise = 1,
}

/// Orders that wait for one direction. Both maps are by keys of which the least is first to be
/// reached, see [`Move::trigger_key`] and [`Move::mark_key`].
#[derive(Debug, Default)]
struct Half {
    /// By trigger: orders with a fixed one, and of each level the nearest.
    nearest: Pages<StandingId, 64>,
    /// By mark.
    levels: Pages<Level, 64>,
}

/// Trailing stops with one mark.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Of its tree; it knows the mark.
    root: StandingId,
    /// The order with the least distance.
    nearest: StandingId,
    /// Sum of [`trailing_order_hash`] of its orders.
    sum: u64,
}

impl Move {
    /// For what an order of this side waits that has this pricing.
    pub(crate) fn of(side: Side, pricing: Pricing) -> Self {
        match (side.is_buy(), pricing) {
            (true, Pricing::TakeProfit) => Self::Fall,
            (false, Pricing::TakeProfit) => Self::Rise,
            (true, _) => Self::Rise,
            (false, _) => Self::Fall,
        }
    }

    /// Of two triggers the one that is reached first has the lower key; a price reaches all whose
    /// key is not above its own.
    fn trigger_key(self, price: u32) -> u32 {
        match self {
            Self::Fall => !price,
            Self::Rise => price,
        }
    }

    /// Of two marks the one that is passed first has the lower key; a price passes all whose key is
    /// below its own. 0 is the mark of those that have seen no trade.
    fn mark_key(self, price: u32) -> u32 {
        match self {
            Self::Fall => price,
            Self::Rise => !price,
        }
    }

    /// The trigger at a distance from a mark, as a key. From the mark of those that have seen no
    /// trade it is one that no price reaches.
    fn trigger_key_of_mark(self, mark_key: u32, distance: u32) -> u32 {
        match self {
            Self::Fall => self.trigger_key(mark_key.saturating_sub(distance)),
            Self::Rise => self.trigger_key((!mark_key).saturating_add(distance)),
        }
    }

    /// The mark with which a trailing stop begins: that from which its distance leads to the
    /// trigger that it is told, or the last trade if that is nearer or it is told none.
    fn mark_key_first(self, trigger: u32, distance: u32, last: u32) -> u32 {
        let told = match (self, trigger) {
            (_, 0) => 0,
            (Self::Fall, trigger) => self.mark_key(trigger + distance),
            (Self::Rise, trigger) => self.mark_key(trigger - distance),
        };
        let market = if last == 0 { 0 } else { self.mark_key(last) };
        told.max(market)
    }

    /// A trigger or a mark from its key.
    fn trigger(self, key: u32) -> u32 {
        self.trigger_key(key)
    }
}

impl Triggers {
    /// Before the first trade, with nothing that waits.
    pub(crate) fn new(instrument_id: InstrumentId) -> Self {
        Self { instrument_id, last: 0, hash: 0, low: 0, high: u32::MAX, halves: None }
    }

    /// In which instrument.
    pub(crate) fn instrument_id(&self) -> InstrumentId {
        self.instrument_id
    }

    /// Price of the last trade, in ticks; 0 before the first.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Its element of the state hash, but for what waits.
    pub(crate) fn hash(&self) -> u64 {
        if self.last == 0 { 0 } else { last_trade_hash(self.instrument_id, self.last) }
    }

    /// The trigger that an order would begin to wait with, if the last trade met it already.
    pub(crate) fn met(&self, side: Side, standing: &Standing) -> Option<u32> {
        if self.last == 0 {
            return None;
        }
        let toward = Move::of(side, standing.instructions.pricing);
        let key = self.first_trigger_key(toward, standing);
        (key <= toward.trigger_key(self.last)).then(|| toward.trigger(key))
    }

    fn first_trigger_key(&self, toward: Move, standing: &Standing) -> u32 {
        let trigger = standing.instructions.trigger.0;
        match standing.instructions.pricing {
            Pricing::TrailingStop => {
                let distance = distance(standing);
                let mark_key = toward.mark_key_first(trigger, distance, self.last);
                toward.trigger_key_of_mark(mark_key, distance)
            }
            _ => toward.trigger_key(trigger),
        }
    }

    /// An order waits from now on.
    pub(crate) fn add(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        side: Side,
        id: StandingId,
    ) {
        let toward = Move::of(side, standings[id].instructions.pricing);
        let trigger_key = self.first_trigger_key(toward, &standings[id]);
        if standings[id].instructions.pricing == Pricing::TrailingStop {
            let trigger = standings[id].instructions.trigger.0;
            let mark_key = toward.mark_key_first(trigger, distance(&standings[id]), self.last);
            self.add_trailing(standings, hash, toward, id, mark_key);
        } else {
            self.half_mut(toward).list(standings, trigger_key, id);
        }
        self.narrow();
    }

    /// A trailing stop waits with this mark from now on.
    fn add_trailing(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        toward: Move,
        id: StandingId,
        mark_key: u32,
    ) {
        standings[id].trail = Trail::ALONE;
        let sum = trailing_order_hash(standings[id].order_id);
        let instrument_id = self.instrument_id;
        let half = self.half_mut(toward);
        half.join(standings, toward, mark_key, Level { root: id, nearest: id, sum });
        hash.add(trailing_level_hash(instrument_id, toward as u8, mark_key).wrapping_mul(sum));
    }

    /// An order waits no more.
    pub(crate) fn remove(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        side: Side,
        id: StandingId,
    ) {
        let toward = Move::of(side, standings[id].instructions.pricing);
        let instrument_id = self.instrument_id;
        let half = self.half_mut(toward);
        if standings[id].instructions.pricing == Pricing::TrailingStop {
            let mark_key = half.remove_trailing(standings, toward, id);
            let sum = trailing_order_hash(standings[id].order_id);
            let level = trailing_level_hash(instrument_id, toward as u8, mark_key);
            hash.remove(level.wrapping_mul(sum));
        } else {
            let trigger_key = toward.trigger_key(standings[id].instructions.trigger.0);
            half.unlist(standings, trigger_key, id);
        }
        self.narrow();
    }

    /// The market has traded, at the first of these prices, at the last and perhaps at others
    /// between them, in their order. What it triggers is in line to come in: what waited for a fall
    /// first, the trigger that was nearest first, and of one trigger by order id.
    #[inline]
    pub(crate) fn trade(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        first: u32,
        last: u32,
    ) {
        let is_quiet = |price| self.low < price && price < self.high;
        if !is_quiet(first) || !is_quiet(last) {
            // Prices between the two go one way. They trigger nothing that one of the ends does not,
            // and move no mark beyond where an end moves it.
            self.pass(standings, hash, first);
            if last != first {
                self.pass(standings, hash, last);
            }
        }
        if last != self.last {
            let before = self.hash;
            self.last = last;
            self.hash = self.hash();
            hash.change(before, self.hash);
        }
    }

    #[cold]
    fn pass(&mut self, standings: &mut Standings, hash: &mut StateHash, price: u32) {
        let instrument_id = self.instrument_id;
        for toward in [Move::Fall, Move::Rise] {
            let half = self.half_mut(toward);
            half.move_levels(standings, hash, instrument_id, toward, price);
            half.trigger(standings, hash, instrument_id, toward, price);
        }
        self.narrow();
    }

    /// Finds again between which prices nothing happens.
    fn narrow(&mut self) {
        let Some(halves) = &self.halves else { return };
        let [fall, rise] = &**halves;
        let nearest =
            |half: &Half, toward: Move| half.nearest.first_key().map(|it| toward.trigger(it));
        let fall_trigger = nearest(fall, Move::Fall).unwrap_or(0);
        let rise_trigger = nearest(rise, Move::Rise).unwrap_or(u32::MAX);
        // A mark is moved by the first price beyond it.
        let fall_mark = fall.levels.first_key().map_or(u32::MAX, |mark| mark.saturating_add(1));
        let rise_mark = rise.levels.first_key().map_or(0, |key| (!key).saturating_sub(1));
        self.low = fall_trigger.max(rise_mark);
        self.high = rise_trigger.min(fall_mark);
    }

    fn half_mut(&mut self, toward: Move) -> &mut Half {
        &mut self.halves.get_or_insert_default()[toward as usize]
    }

    /// The trigger and, of a trailing stop, the mark with which an order waits, in ticks.
    pub(crate) fn trigger_of(
        &self,
        standings: &Standings,
        side: Side,
        id: StandingId,
    ) -> (u32, u32) {
        let instructions = &standings[id].instructions;
        let toward = Move::of(side, instructions.pricing);
        if instructions.pricing != Pricing::TrailingStop {
            return (instructions.trigger.0, 0);
        }
        let mark = standings[root_of(standings, id)].trail.mark;
        let trigger_key = toward.trigger_key_of_mark(mark, distance(&standings[id]));
        (toward.trigger(trigger_key), mark)
    }

    /// As [`add`](Self::add), of one that waited before, with the mark that it had.
    pub(crate) fn restore(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        side: Side,
        id: StandingId,
        mark: u32,
    ) {
        if standings[id].instructions.pricing == Pricing::TrailingStop {
            let toward = Move::of(side, Pricing::TrailingStop);
            self.add_trailing(standings, hash, toward, id, mark);
            self.narrow();
        } else {
            self.add(standings, hash, side, id);
        }
    }

    /// The market traded last at this price, as it was.
    pub(crate) fn restore_last(&mut self, hash: &mut StateHash, last: u32) {
        let before = self.hash;
        self.last = last;
        self.hash = self.hash();
        hash.change(before, self.hash);
    }

    /// The orders that wait here: those for a fall before those for a rise, in each the nearest
    /// first, then by order id. Costs time in proportion to them all.
    pub(crate) fn iter(&self, standings: &Standings) -> Vec<StandingId> {
        let mut found = Vec::new();
        let halves = self.halves.iter().flat_map(|halves| halves.iter());
        for (half, toward) in halves.zip([Move::Fall, Move::Rise]) {
            let from = found.len();
            for (trigger_key, head) in half.nearest.iter() {
                let mut next = head.some();
                while let Some(id) = next {
                    if standings[id].instructions.pricing != Pricing::TrailingStop {
                        found.push((trigger_key, standings[id].order_id, id));
                    }
                    next = standings.next(List::Trigger, id);
                }
            }
            for (mark, level) in half.levels.iter() {
                for id in level.orders(standings) {
                    let trigger_key = toward.trigger_key_of_mark(mark, distance(&standings[id]));
                    found.push((trigger_key, standings[id].order_id, id));
                }
            }
            found[from..].sort_by_key(|(trigger_key, order_id, _)| (*trigger_key, *order_id));
        }
        found.into_iter().map(|(_, _, id)| id).collect()
    }

    /// What this adds to the state hash.
    pub(crate) fn hash_slow(&self, standings: &Standings) -> u64 {
        let mut sum = self.hash();
        let halves = self.halves.iter().flat_map(|halves| halves.iter());
        for (half, toward) in halves.zip([Move::Fall, Move::Rise]) {
            for (mark, level) in half.levels.iter() {
                let element = trailing_level_hash(self.instrument_id, toward as u8, mark);
                for id in level.orders(standings) {
                    let order = trailing_order_hash(standings[id].order_id);
                    sum = sum.wrapping_add(element.wrapping_mul(order));
                }
            }
        }
        sum
    }

    /// Asserts that lists, levels and heaps are whole; says how many orders wait.
    pub(crate) fn check(&self, standings: &Standings) -> usize {
        assert_eq!(self.hash, self.hash(), "the hash of the last price is kept");
        let Some(halves) = &self.halves else { return 0 };
        let mut count = 0;
        for (half, toward) in halves.iter().zip([Move::Fall, Move::Rise]) {
            count += half.check(standings, toward);
        }
        if self.last != 0 {
            assert!(self.low < self.last && self.last < self.high, "{} is quiet", self.last);
        }
        count
    }
}

impl Half {
    /// Puts an order into the list of its trigger.
    fn list(&mut self, standings: &mut Standings, trigger_key: u32, id: StandingId) {
        let head = self.nearest.get(trigger_key).unwrap_or(StandingId::NONE);
        let first = standings.push(List::Trigger, head, id);
        match self.nearest.get_mut(trigger_key) {
            Some(head) => *head = first,
            None => self.nearest.insert(trigger_key, first),
        }
    }

    /// Takes an order out of the list of its trigger.
    fn unlist(&mut self, standings: &mut Standings, trigger_key: u32, id: StandingId) {
        let head = self.nearest.get(trigger_key).expect("it was listed");
        let first = standings.unlink(List::Trigger, head, id);
        match first.some() {
            Some(_) => *self.nearest.get_mut(trigger_key).expect("it was found above") = first,
            None => {
                self.nearest.remove(trigger_key);
            }
        }
    }

    /// Puts the nearest order of a level into the list of its trigger.
    fn list_nearest(&mut self, standings: &mut Standings, toward: Move, mark: u32, id: StandingId) {
        let trigger_key = toward.trigger_key_of_mark(mark, distance(&standings[id]));
        self.list(standings, trigger_key, id);
    }

    fn unlist_nearest(
        &mut self,
        standings: &mut Standings,
        toward: Move,
        mark: u32,
        id: StandingId,
    ) {
        let trigger_key = toward.trigger_key_of_mark(mark, distance(&standings[id]));
        self.unlist(standings, trigger_key, id);
    }

    /// Adds a tree, whose nearest order is in no list, to the level of a mark.
    fn join(&mut self, standings: &mut Standings, toward: Move, mark: u32, new: Level) {
        let joined = match self.levels.get(mark) {
            None => {
                self.levels.insert(mark, new);
                self.list_nearest(standings, toward, mark, new.nearest);
                new
            }
            Some(level) => {
                let joined = level.join(standings, new);
                *self.levels.get_mut(mark).expect("it was found above") = joined;
                if joined.nearest != level.nearest {
                    self.unlist_nearest(standings, toward, mark, level.nearest);
                    self.list_nearest(standings, toward, mark, joined.nearest);
                }
                joined
            }
        };
        standings[joined.root].trail.mark = mark;
    }

    /// Takes a trailing stop out; the mark that it had.
    fn remove_trailing(&mut self, standings: &mut Standings, toward: Move, id: StandingId) -> u32 {
        let mark = standings[root_of(standings, id)].trail.mark;
        let mut level = self.levels.get(mark).expect("a root knows the mark of its level");
        let rest = detach(standings, id);
        if level.root == id {
            level.root = rest;
        }
        level.sum = level.sum.wrapping_sub(trailing_order_hash(standings[id].order_id));
        let was_nearest = level.nearest == id;
        if was_nearest {
            self.unlist_nearest(standings, toward, mark, id);
        }
        if level.root.is_none() {
            self.levels.remove(mark);
            return mark;
        }
        standings[level.root].trail.mark = mark;
        if was_nearest {
            level.nearest = leftmost(standings, level.root);
            self.list_nearest(standings, toward, mark, level.nearest);
        }
        *self.levels.get_mut(mark).expect("it was found above") = level;
        mark
    }

    /// Levels whose mark a price passes move on to it.
    fn move_levels(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        instrument_id: InstrumentId,
        toward: Move,
        price: u32,
    ) {
        let mark_to = toward.mark_key(price);
        let mut moved: Option<Level> = None;
        while let Some((mark, level)) = self.levels.first()
            && mark < mark_to
        {
            self.levels.remove(mark);
            self.unlist_nearest(standings, toward, mark, level.nearest);
            let element = |mark| trailing_level_hash(instrument_id, toward as u8, mark);
            hash.change(
                element(mark).wrapping_mul(level.sum),
                element(mark_to).wrapping_mul(level.sum),
            );
            moved = Some(match moved {
                None => level,
                Some(other) => other.join(standings, level),
            });
        }
        if let Some(level) = moved {
            self.join(standings, toward, mark_to, level);
        }
    }

    /// Puts in line what a price triggers.
    fn trigger(
        &mut self,
        standings: &mut Standings,
        hash: &mut StateHash,
        instrument_id: InstrumentId,
        toward: Move,
        price: u32,
    ) {
        let reached = toward.trigger_key(price);
        let from = standings.triggered.len();
        while let Some((trigger_key, id)) = self.nearest.first()
            && trigger_key <= reached
        {
            if standings[id].instructions.pricing == Pricing::TrailingStop {
                let mark = self.remove_trailing(standings, toward, id);
                let level = trailing_level_hash(instrument_id, toward as u8, mark);
                hash.remove(level.wrapping_mul(trailing_order_hash(standings[id].order_id)));
            } else {
                self.unlist(standings, trigger_key, id);
            }
            standings.change(id, hash, |standing| standing.state = State::Triggered);
            let order_id = standings[id].order_id;
            standings.triggered.push_back((id, order_id, toward.trigger(trigger_key)));
        }
        let triggered = standings.triggered.make_contiguous();
        triggered[from..].sort_unstable_by_key(|(_, order_id, trigger)| {
            (toward.trigger_key(*trigger), *order_id)
        });
    }

    /// Asserts that lists, levels and heaps are whole; says how many orders wait.
    fn check(&self, standings: &Standings, toward: Move) -> usize {
        self.nearest.check();
        self.levels.check();
        let mut count = 0;
        let mut nearest = 0;
        for (trigger_key, head) in self.nearest.iter() {
            let mut next = head.some();
            while let Some(id) = next {
                let standing = &standings[id];
                assert_eq!(standing.state, State::ForTrigger, "{standing:?}");
                if standing.instructions.pricing == Pricing::TrailingStop {
                    let mark = standings[root_of(standings, id)].trail.mark;
                    assert_eq!(self.levels.get(mark).map(|level| level.nearest), Some(id));
                    let key = toward.trigger_key_of_mark(mark, distance(standing));
                    assert_eq!(key, trigger_key, "{standing:?}");
                    nearest += 1;
                } else {
                    let key = toward.trigger_key(standing.instructions.trigger.0);
                    assert_eq!(key, trigger_key, "{standing:?}");
                    count += 1;
                }
                next = standings.next(List::Trigger, id);
            }
        }
        assert_eq!(nearest, self.levels.len(), "each level waits with its nearest order");
        for (mark, level) in self.levels.iter() {
            let root = &standings[level.root].trail;
            assert!(root.parent.is_none() && root.mark == mark);
            assert_eq!(level.nearest, leftmost(standings, level.root));
            let mut sum = 0_u64;
            for id in level.orders(standings) {
                let standing = &standings[id];
                assert_eq!(standing.state, State::ForTrigger, "{standing:?}");
                sum = sum.wrapping_add(trailing_order_hash(standing.order_id));
                count += 1;
                let Trail { left, right, .. } = standing.trail;
                for child in [left, right].into_iter().filter_map(StandingId::some) {
                    assert_eq!(standings[child].trail.parent, id);
                    assert!(priority(standings, id) >= priority(standings, child), "a heap");
                    let is_before = place(standings, child) < place(standings, id);
                    assert_eq!(is_before, child == left, "a search tree");
                }
            }
            assert_eq!(sum, level.sum);
        }
        count
    }
}

/// How far a trailing stop stays behind, in ticks.
fn distance(standing: &Standing) -> u32 {
    standing.instructions.offset.unsigned_abs()
}

impl Level {
    /// Its orders, each before those below it.
    fn orders(self, standings: &Standings) -> Vec<StandingId> {
        let mut orders: Vec<_> = self.root.some().into_iter().collect();
        let mut next = 0;
        while let Some(&id) = orders.get(next) {
            orders.extend(standings[id].trail.left.some());
            orders.extend(standings[id].trail.right.some());
            next += 1;
        }
        orders
    }

    /// One level of two.
    fn join(self, standings: &mut Standings, other: Self) -> Self {
        let nearest = match place(standings, self.nearest) < place(standings, other.nearest) {
            true => self.nearest,
            false => other.nearest,
        };
        let root = union(standings, self.root, other.root);
        standings[root].trail.parent = StandingId::NONE;
        Self { root, nearest, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Where an order is in the tree of its level, from left to right.
fn place(standings: &Standings, id: StandingId) -> (u32, OrderId) {
    (distance(&standings[id]), standings[id].order_id)
}

/// What balances a tree: no order is below one with a lower one.
fn priority(standings: &Standings, id: StandingId) -> u64 {
    hash::fold(standings[id].order_id.0)
}

fn root_of(standings: &Standings, id: StandingId) -> StandingId {
    let mut root = id;
    while let Some(parent) = standings[root].trail.parent.some() {
        root = parent;
    }
    root
}

fn leftmost(standings: &Standings, root: StandingId) -> StandingId {
    let mut leftmost = root;
    while let Some(left) = standings[leftmost].trail.left.some() {
        leftmost = left;
    }
    leftmost
}

fn set_left(standings: &mut Standings, id: StandingId, left: StandingId) {
    standings[id].trail.left = left;
    if let Some(left) = left.some() {
        standings[left].trail.parent = id;
    }
}

fn set_right(standings: &mut Standings, id: StandingId, right: StandingId) {
    standings[id].trail.right = right;
    if let Some(right) = right.some() {
        standings[right].trail.parent = id;
    }
}

/// One tree of two, whatever their orders are; its root, whose parent is still to be set.
fn union(standings: &mut Standings, one: StandingId, other: StandingId) -> StandingId {
    let (Some(one), Some(other)) = (one.some(), other.some()) else {
        return if one.is_none() { other } else { one };
    };
    let (root, below) = match priority(standings, one) >= priority(standings, other) {
        true => (one, other),
        false => (other, one),
    };
    let (before, after) = split(standings, below, place(standings, root));
    let left = union(standings, standings[root].trail.left, before);
    let right = union(standings, standings[root].trail.right, after);
    set_left(standings, root, left);
    set_right(standings, root, right);
    root
}

/// Two trees of one: those before a place, and those after it. The parents of their roots are still
/// to be set.
fn split(
    standings: &mut Standings,
    root: StandingId,
    at: (u32, OrderId),
) -> (StandingId, StandingId) {
    if root.is_none() {
        return (root, root);
    }
    if place(standings, root) < at {
        let (before, after) = split(standings, standings[root].trail.right, at);
        set_right(standings, root, before);
        (root, after)
    } else {
        let (before, after) = split(standings, standings[root].trail.left, at);
        set_left(standings, root, after);
        (before, root)
    }
}

/// One tree of two, all orders of the first before all of the second; its root, whose parent is
/// still to be set.
fn concatenate(standings: &mut Standings, one: StandingId, other: StandingId) -> StandingId {
    let (Some(one), Some(other)) = (one.some(), other.some()) else {
        return if one.is_none() { other } else { one };
    };
    if priority(standings, one) >= priority(standings, other) {
        let right = concatenate(standings, standings[one].trail.right, other);
        set_right(standings, one, right);
        one
    } else {
        let left = concatenate(standings, one, standings[other].trail.left);
        set_left(standings, other, left);
        other
    }
}

/// Takes an order out of its tree and puts what is below it in its place; the root of that.
fn detach(standings: &mut Standings, id: StandingId) -> StandingId {
    let Trail { parent, left, right, .. } = standings[id].trail;
    standings[id].trail = Trail::ALONE;
    let rest = concatenate(standings, left, right);
    if let Some(rest) = rest.some() {
        standings[rest].trail.parent = parent;
    }
    if let Some(parent) = parent.some() {
        let trail = &mut standings[parent].trail;
        let side = if trail.left == id { &mut trail.left } else { &mut trail.right };
        *side = rest;
    }
    rest
}

/// The price of an instrument's last trade.
fn last_trade_hash(instrument_id: InstrumentId, price: u32) -> u64 {
    hash::mix([hash::LAST_TRADE, u64::from(instrument_id.0), u64::from(price)])
}

/// What a mark of trailing stops is to an order that has it: the element of the order is the product
/// of this and of [`trailing_order_hash`], so that of many with one mark it is a product with a sum.
fn trailing_level_hash(instrument_id: InstrumentId, toward: u8, mark_key: u32) -> u64 {
    hash::mix([
        hash::TRAILING_LEVEL,
        u64::from(instrument_id.0),
        u64::from(toward),
        u64::from(mark_key),
    ]) | 1
}

/// A trailing stop, whatever its mark; see [`trailing_level_hash`].
fn trailing_order_hash(order_id: OrderId) -> u64 {
    hash::mix([hash::TRAILING_LEVEL, order_id.0])
}
