//! Sessions: live orders, used numbers, and the firms with disabled order entry.
//!
//! Invariant: a number is used once, and the numbers of a channel only rise.

use alloc::{boxed::Box, vec::Vec};
use core::iter;

use market::{AddSession, Firm, OrderKey, SelfMatchPrevention, SessionId, Text};

use super::{
    client_order_index::ClientOrderIndex,
    mass_index::{MassIndex, Selection},
};
use crate::{
    book::pool::Slot,
    intake::name_index::NameIndex,
    order::Order,
    state::hash::{self, StateHash},
};

/// The most firms with disabled order entry in a session.
pub const FIRMS_DISABLED_MAX: usize = 256;

/// The most orders that a session lists for its next mass cancel.
const ENTERED_MAX: usize = 1 << 16;

/// Places that a mass cancel may look at for each order entered since the last one, and some in any
/// case. After so many mass cancels that needed more, the session's entered orders are listed.
const ENTERED_SPARSE: usize = 16;
const PLACES_FREE: usize = 4_096;
const SPARSE_MAX: u32 = 64;

/// All sessions, numbered from 1 in the order of addition.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    usernames: NameIndex,
}

impl Sessions {
    /// Adds a session; `None` if the name is blank or taken, or there are 65,535 sessions.
    pub(crate) fn add(&mut self, add: &AddSession) -> Option<&Session> {
        if add.username.is_blank() || self.usernames.find(&add.username).is_some() {
            return None;
        }
        let session_id = u16::try_from(self.sessions.len() + 1).ok()?;
        self.usernames.add(&add.username, session_id);
        self.sessions.push(Session {
            own: Channel::new(SessionId(session_id), 0),
            details: Box::new(SessionDetails {
                username: add.username,
                firm: add.firm,
                live_orders_max: add.live_orders_max,
                others: Vec::new(),
                firms_disabled: Vec::new(),
                mass_index: MassIndex::default(),
                entered: None,
                sparse_count: 0,
            }),
            room: bound(add.live_orders_max),
            session_id: SessionId(session_id),
            self_match_prevention: match add.self_match_prevention {
                SelfMatchPrevention::SessionDefault => SelfMatchPrevention::Off,
                prevention => prevention,
            },
            is_restricted: false,
        });
        self.sessions.last()
    }

    #[inline]
    pub(crate) fn get(&self, session_id: SessionId) -> Option<&Session> {
        self.sessions.get(usize::from(session_id.0).wrapping_sub(1))
    }

    /// The session of this number, mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, session_id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(session_id.0).wrapping_sub(1))
    }

    /// The session of a live order.
    #[inline]
    pub(crate) fn owner(&self, key: OrderKey) -> &Session {
        self.get(key.session_id).expect("a live order's session exists for ever")
    }

    /// The session of a live order, mutable.
    #[inline(always)]
    pub(crate) fn owner_mut(&mut self, key: OrderKey) -> &mut Session {
        self.get_mut(key.session_id).expect("a live order's session exists for ever")
    }

    /// All sessions, by number.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Session> {
        self.sessions.iter()
    }
}

/// A participant's identity and its live orders; it outlives its connections. The fields that an
/// order reads are in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Session {
    /// Channel 0, the session's own; most sessions use no other.
    own: Channel,
    details: Box<SessionDetails>,
    /// How many more live orders it may have; below 0 after its maximum was lowered.
    room: i32,
    session_id: SessionId,
    /// Default self-match prevention; never the session's default.
    self_match_prevention: SelfMatchPrevention,
    /// True if order entry is disabled for a firm, or entered orders are listed: its orders do not
    /// take the fast path.
    is_restricted: bool,
}

const _: () = assert!(size_of::<Session>() == 64, "a session is one cache line");

/// The maximum of live orders in effect: the pool cannot hold more than 2³¹ − 1.
fn bound(live_orders_max: u32) -> i32 {
    live_orders_max.min(i32::MAX as u32) as i32
}

/// The fields that most orders do not read.
#[derive(Debug)]
struct SessionDetails {
    username: Text<6>,
    firm: Firm,
    live_orders_max: u32,
    /// Used channels other than 0, by number.
    others: Vec<(u8, Channel)>,
    /// Firms with disabled order entry, sorted; never blank unless the session's own firm is.
    firms_disabled: Vec<Firm>,
    /// The orders that mass cancels did not select.
    mass_index: MassIndex,
    /// Channel and number of each order since the last mass cancel, where numbers have such gaps
    /// that to look for the orders would cost too much.
    entered: Option<Vec<(u8, u32)>>,
    /// Mass cancels that looked at many places for few orders, since entered orders were listed.
    sparse_count: u32,
}

/// A channel: its numbers rise independently of the others.
#[derive(Debug)]
struct Channel {
    /// [`channel_hash`] of session and channel.
    hash_key: u64,
    /// The hash of the last number.
    hash: u64,
    live: ClientOrderIndex,
}

impl Channel {
    fn new(session_id: SessionId, channel: u8) -> Self {
        Self {
            hash_key: channel_key(session_id, channel),
            hash: 0,
            live: ClientOrderIndex::default(),
        }
    }
}

impl Channel {
    /// Uses up a number, which is above the last.
    #[inline(always)]
    fn consume(&mut self, user_ref_num: u32, hash: &mut StateHash) {
        self.live.last = user_ref_num;
        let after = channel_hash(self.hash_key, user_ref_num);
        hash.change(self.hash, after);
        self.hash = after;
    }
}

impl Session {
    /// Its number, from 1.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Its login name.
    #[must_use]
    pub fn username(&self) -> &Text<6> {
        &self.details.username
    }

    /// Its firm.
    #[must_use]
    pub fn firm(&self) -> Firm {
        self.details.firm
    }

    /// Its maximum number of live orders.
    #[must_use]
    pub fn live_orders_max(&self) -> u32 {
        self.details.live_orders_max
    }

    /// Default self-match prevention of its orders.
    #[must_use]
    #[inline]
    pub fn self_match_prevention(&self) -> SelfMatchPrevention {
        self.self_match_prevention
    }

    /// Its number of live orders.
    #[must_use]
    pub fn live_orders(&self) -> u32 {
        (bound(self.details.live_orders_max) - self.room) as u32
    }

    /// The last number used on each channel, by channel.
    pub fn user_ref_nums_last(&self) -> impl Iterator<Item = (u8, u32)> {
        self.channels().map(|(number, channel)| (number, channel.live.last))
    }

    /// The last number used on a channel; 0 before the first.
    #[must_use]
    #[inline]
    pub fn user_ref_num_last(&self, channel: u8) -> u32 {
        self.channel(channel).map_or(0, |channel| channel.live.last)
    }

    /// The firms with disabled order entry, sorted.
    #[must_use]
    pub fn firms_disabled(&self) -> &[Firm] {
        &self.details.firms_disabled
    }

    /// The firm as entered; blank means the session's own firm.
    #[must_use]
    #[inline]
    pub fn resolve(&self, firm: Firm) -> Firm {
        if firm.is_blank() { self.details.firm } else { firm }
    }

    /// True if order entry is enabled for the firm.
    #[must_use]
    #[inline]
    pub fn may_enter(&self, firm: Firm) -> bool {
        !self.is_restricted
            || self.details.firms_disabled.binary_search(&self.resolve(firm)).is_err()
    }

    /// Sets the maximum number of live orders; existing orders stay.
    pub(crate) fn set_live_orders_max(&mut self, live_orders_max: u32) {
        let live = self.live_orders();
        self.details.live_orders_max = live_orders_max;
        self.room = bound(live_orders_max) - live as i32;
    }

    /// True if one more order could exceed the maximum.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room <= 0
    }

    /// True if the number is above the last one of its channel.
    pub(crate) fn is_unused(&self, key: OrderKey) -> bool {
        self.user_ref_num_last(key.channel) < key.user_ref_num
    }

    /// Uses up a number. Returns false, with no effect, if it is not above the last.
    #[inline]
    pub(crate) fn consume(&mut self, key: OrderKey, hash: &mut StateHash) -> bool {
        if key.user_ref_num == 0 {
            return false;
        }
        let channel = match key.channel {
            0 => &mut self.own,
            _ => self.open_channel(key.channel),
        };
        if key.user_ref_num <= channel.live.last {
            return false;
        }
        channel.consume(key.user_ref_num, hash);
        true
    }

    /// True if this number on channel 0 may enter an order of any firm.
    #[inline]
    pub(crate) fn takes_fast_path(&self, key: OrderKey) -> bool {
        self.own.live.last < key.user_ref_num && !self.is_restricted && !self.is_full()
    }

    /// Uses up a number that [`takes_fast_path`](Self::takes_fast_path) accepted.
    #[inline(always)]
    pub(crate) fn consume_fast(&mut self, key: OrderKey, hash: &mut StateHash) {
        self.own.consume(key.user_ref_num, hash);
    }

    /// Adds a resting order of channel 0.
    #[inline(always)]
    pub(crate) fn add_live_fast(&mut self, key: OrderKey, slot: Slot) {
        self.own.live.append(key.user_ref_num, slot);
        self.room -= 1;
    }

    /// Prefetches the place of a number of channel 0.
    #[inline]
    pub(crate) fn fetch(&self, key: OrderKey, fetch: impl Fn(*const u8)) {
        self.own.live.fetch(key.user_ref_num, fetch);
    }

    /// The slot of a live order.
    #[inline]
    pub(crate) fn find(&self, key: OrderKey) -> Option<Slot> {
        self.channel(key.channel)?.live.find(key.user_ref_num)
    }

    /// Adds a resting order of this session.
    #[inline]
    pub(crate) fn add_live(&mut self, key: OrderKey, slot: Slot) {
        self.channel_mut(key.channel).live.append(key.user_ref_num, slot);
        self.room -= 1;
        if self.is_restricted {
            self.list_entered(key);
        }
    }

    /// Lists an order for the next mass cancel, if entered orders are listed.
    #[cold]
    fn list_entered(&mut self, key: OrderKey) {
        let Some(entered) = &mut self.details.entered else { return };
        entered.push((key.channel, key.user_ref_num));
        if entered.len() > ENTERED_MAX {
            self.list_from_now(false);
        }
    }

    /// Lists entered orders from now on, or no more.
    fn list_from_now(&mut self, is_on: bool) {
        let mut entered = self.details.entered.take().unwrap_or_default();
        entered.clear();
        self.details.entered = is_on.then_some(entered);
        self.is_restricted = is_on || !self.details.firms_disabled.is_empty();
    }

    /// Finds the live orders of a selection, in no particular order and perhaps twice, and indexes
    /// the others that it looks at. Returns how many orders and places it looks at.
    pub(crate) fn select<'a>(
        &mut self,
        selection: &Selection,
        order: impl Fn(Slot) -> &'a Order,
        found: &mut Vec<Slot>,
    ) -> usize {
        let mut index = core::mem::take(&mut self.details.mass_index);
        index.trim(self.live_orders() as usize);
        let is_selected = |slot: Slot| {
            let order = order(slot);
            selection.selects(order, self.resolve(order.firm))
        };
        let slot = |channel, user_ref_num| {
            self.find(OrderKey { session_id: self.session_id, channel, user_ref_num })
        };
        let mut looked_at = 0;
        if !index.has_shape(selection) {
            index.add_shape(selection);
            for (key, slot) in self.iter_live() {
                looked_at += 1;
                if key.user_ref_num <= index.last(key.channel) {
                    let order = order(slot);
                    match is_selected(slot) {
                        true => found.push(slot),
                        false => index.add_shaped(order, self.resolve(order.firm), selection),
                    }
                }
            }
        } else {
            while let Some((channel, user_ref_num)) = index.take(selection) {
                looked_at += 1;
                found.extend(slot(channel, user_ref_num));
            }
            found.retain(|slot| {
                let stays = is_selected(*slot);
                if !stays {
                    let order = order(*slot);
                    index.add_shaped(order, self.resolve(order.firm), selection);
                }
                stays
            });
        }
        // Orders that are not indexed yet.
        let (mut entered, mut places) = (0, 0);
        let mut look_at = |index: &mut MassIndex, slot: Slot| {
            entered += 1;
            match is_selected(slot) {
                true => found.push(slot),
                false => index.add(order(slot), self.resolve(order(slot).firm)),
            }
        };
        if let Some(listed) = &self.details.entered {
            places += listed.len();
            let live = listed.iter().filter_map(|(channel, number)| slot(*channel, *number));
            live.for_each(|slot| look_at(&mut index, slot));
        } else {
            for (channel, it) in self.channels() {
                let last = index.last(channel);
                let skipped = (it.live.last - last) as usize;
                places += skipped.min(it.live.place_count());
                if skipped <= it.live.place_count() {
                    let numbers = (last..=it.live.last).skip(1);
                    let live = numbers.filter_map(|number| slot(channel, number));
                    live.for_each(|slot| look_at(&mut index, slot));
                } else {
                    let later = it.live.iter().filter(|(number, _)| last < *number);
                    later.for_each(|(_, slot)| look_at(&mut index, slot));
                }
            }
        }
        for (channel, last) in self.user_ref_nums_last() {
            index.set_last(channel, last);
        }
        self.details.mass_index = index;
        self.count_sparse(entered, places);
        looked_at + entered + places
    }

    /// Decides whether entered orders are listed for the next mass cancel: after many mass cancels
    /// for which few orders had to be found among many places, until many orders are entered again.
    fn count_sparse(&mut self, entered: usize, places: usize) {
        if self.details.entered.is_some() {
            let is_sparse = ENTERED_SPARSE * places < self.own.live.place_count();
            self.list_from_now(is_sparse);
        } else if ENTERED_SPARSE * entered + PLACES_FREE < places {
            self.details.sparse_count += 1;
            if self.details.sparse_count == SPARSE_MAX {
                self.details.sparse_count = 0;
                self.list_from_now(true);
            }
        }
    }

    /// Indexes an order anew whose side may have changed.
    pub(crate) fn reindex(&mut self, order: &Order) {
        let firm = self.resolve(order.firm);
        let index = &mut self.details.mass_index;
        if order.key.user_ref_num <= index.last(order.key.channel) {
            index.add(order, firm);
        }
    }

    /// Checks that the index of mass cancels has a live order.
    pub(crate) fn check_indexed(&self, order: &Order) {
        let (index, key) = (&self.details.mass_index, order.key);
        let is_indexed = index.has(order, self.resolve(order.firm));
        assert!(index.last(key.channel) < key.user_ref_num || is_indexed, "{order:?}");
    }

    /// Removes an order of this session that is done.
    #[inline]
    pub(crate) fn remove_live(&mut self, key: OrderKey) {
        self.channel_mut(key.channel).live.remove(key.user_ref_num);
        self.room += 1;
    }

    /// As [`find`](Self::find), for channel 0.
    #[inline(always)]
    pub(crate) fn find_fast(&self, key: OrderKey) -> Option<Slot> {
        self.own.live.find(key.user_ref_num)
    }

    /// As [`remove_live`](Self::remove_live), for channel 0.
    #[inline(always)]
    pub(crate) fn remove_live_fast(&mut self, key: OrderKey) {
        self.own.live.remove(key.user_ref_num);
        self.room += 1;
    }

    /// The live orders, in no particular order.
    pub(crate) fn iter_live(&self) -> impl Iterator<Item = (OrderKey, Slot)> {
        self.channels().flat_map(move |(channel, it)| {
            it.live.iter().map(move |(user_ref_num, slot)| {
                let key = OrderKey { session_id: self.session_id, channel, user_ref_num };
                (key, slot)
            })
        })
    }

    /// The channels that have live orders, each with the last number used on it.
    pub(crate) fn live_channels(&self) -> impl Iterator<Item = (u8, u32)> {
        let live = self.channels().filter(|(_, channel)| channel.live.len() != 0);
        live.map(|(number, channel)| (number, channel.live.last))
    }

    /// As [`ClientOrderIndex::find_turns`], of a channel.
    pub(crate) fn find_turns(
        &self,
        channel: u8,
        from: u32,
        max: usize,
        found: &mut Vec<(u32, u32)>,
    ) {
        found.clear();
        if let Some(channel) = self.channel(channel) {
            channel.live.find_turns(from, max, found);
        }
    }

    /// Disables or enables order entry for a firm. Returns false, with no effect, if the maximum
    /// number of firms is disabled already.
    pub(crate) fn switch_entry(&mut self, firm: Firm, enabled: bool, hash: &mut StateHash) -> bool {
        let firm = self.resolve(firm);
        let element = firm_disabled_hash(self.session_id, firm);
        let firms_disabled = &mut self.details.firms_disabled;
        match (firms_disabled.binary_search(&firm), enabled) {
            (Ok(place), true) => {
                firms_disabled.remove(place);
                hash.remove(element);
            }
            (Err(_), false) if firms_disabled.len() == FIRMS_DISABLED_MAX => return false,
            (Err(place), false) => {
                firms_disabled.insert(place, firm);
                hash.add(element);
            }
            (Ok(_), false) | (Err(_), true) => {}
        }
        self.is_restricted = !firms_disabled.is_empty() || self.details.entered.is_some();
        true
    }

    /// The session's element of the state hash, as it was added; later changes have their own
    /// elements.
    pub(crate) fn hash(&self) -> u64 {
        hash::mix([
            hash::SESSION,
            u64::from(self.session_id.0),
            hash::word(self.username()),
            hash::word(&self.firm()),
            u64::from(self.live_orders_max())
                | u64::from(self.self_match_prevention().code()) << 32,
        ])
    }

    /// Checks that counts and indexes agree.
    pub(crate) fn check(&self) {
        let SessionDetails { others, firms_disabled, live_orders_max, entered, .. } =
            &*self.details;
        assert!(others.is_sorted_by(|one, other| one.0 < other.0));
        assert!(others.iter().all(|(number, _)| 0 < *number));
        assert!(firms_disabled.is_sorted_by(|one, other| one < other));
        assert_eq!(self.is_restricted, !firms_disabled.is_empty() || entered.is_some());
        for (_, channel) in self.channels() {
            channel.live.check();
            assert_eq!(
                channel.hash,
                channel_hash(channel.hash_key, channel.live.last),
                "the hash of the last number is kept"
            );
            let above = channel.live.iter().find(|(it, _)| channel.live.last < *it);
            assert_eq!(above, None, "a live order's number was used");
        }
        assert!(self.room <= bound(*live_orders_max));
        assert_eq!(self.iter_live().count(), self.live_orders() as usize);
    }

    /// Used channels other than 0, by number.
    fn channels(&self) -> impl Iterator<Item = (u8, &Channel)> {
        let others = self.details.others.iter().map(|(number, channel)| (*number, channel));
        iter::once((0, &self.own)).chain(others).filter(|(_, channel)| 0 < channel.live.last)
    }

    #[inline]
    fn channel(&self, channel: u8) -> Option<&Channel> {
        if channel == 0 {
            return Some(&self.own);
        }
        let others = &self.details.others;
        let place = others.binary_search_by_key(&channel, |(number, _)| *number).ok()?;
        Some(&others[place].1)
    }

    #[inline]
    fn channel_mut(&mut self, channel: u8) -> &mut Channel {
        if channel == 0 {
            return &mut self.own;
        }
        let others = &mut self.details.others;
        let place = others.binary_search_by_key(&channel, |(number, _)| *number);
        &mut others[place.expect("an order's channel was used when it was entered")].1
    }

    /// A channel other than 0, which is now in use.
    fn open_channel(&mut self, channel: u8) -> &mut Channel {
        let others = &mut self.details.others;
        let place = match others.binary_search_by_key(&channel, |(number, _)| *number) {
            Ok(place) => place,
            Err(place) => {
                others.insert(place, (channel, Channel::new(self.session_id, channel)));
                place
            }
        };
        &mut others[place].1
    }
}

/// A channel of a session: the constant part of its element.
pub(crate) fn channel_key(session_id: SessionId, channel: u8) -> u64 {
    hash::mix([hash::CHANNEL, u64::from(session_id.0), u64::from(channel)])
}

/// The last number used on a channel; an unused channel has no element.
#[inline]
pub(crate) fn channel_hash(key: u64, user_ref_num_last: u32) -> u64 {
    if user_ref_num_last == 0 { 0 } else { hash::fold_pair(key, u64::from(user_ref_num_last)) }
}

/// A firm with disabled order entry on a session.
pub(crate) fn firm_disabled_hash(session_id: SessionId, firm: Firm) -> u64 {
    hash::mix([hash::FIRM_DISABLED, u64::from(session_id.0), hash::word(&firm)])
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use market::{EnterOrder, InstrumentId, OrderId, Price, Quantity, Side, Symbol};

    use super::*;

    /// A session, and the orders in its slots.
    struct World {
        sessions: Sessions,
        orders: Vec<Order>,
        hash: StateHash,
    }

    impl World {
        fn new() -> Self {
            let mut sessions = Sessions::default();
            let add = AddSession {
                username: Text::new("A").unwrap(),
                firm: Firm::new("ACME").unwrap(),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            };
            sessions.add(&add).unwrap();
            Self { sessions, orders: Vec::new(), hash: StateHash::default() }
        }

        fn session(&mut self) -> &mut Session {
            self.sessions.get_mut(SessionId(1)).unwrap()
        }

        fn enter(&mut self, user_ref_num: u32, group_id: u16) {
            let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
            let slot = Slot::from_bits(self.orders.len() as u32);
            let mut asked = EnterOrder::limit(key, Side::Buy, Symbol::BLANK, Quantity(1), Price(1));
            asked.attributes.group_id = group_id;
            let (id, instrument_id) = (OrderId(u64::from(user_ref_num)), InstrumentId(1));
            self.orders.push(Order::entered(&asked, id, instrument_id, asked.display));
            let Self { sessions, hash, .. } = self;
            let session = sessions.get_mut(SessionId(1)).unwrap();
            assert!(session.consume(key, hash));
            session.add_live(key, slot);
        }

        /// Cancels a group; returns how many orders were in it, and how many were looked at.
        fn cancel(&mut self, group_id: u16) -> (usize, usize) {
            let Self { sessions, orders, .. } = self;
            let session = sessions.get_mut(SessionId(1)).unwrap();
            let selection = Selection {
                firm: session.firm(),
                instrument_id: Some(InstrumentId(1)),
                side: None,
                group_id: Some(group_id),
            };
            let mut found = vec![];
            let order = |slot: Slot| &orders[slot.to_bits() as usize];
            let looked_at = session.select(&selection, order, &mut found);
            for slot in &found {
                session.remove_live(orders[slot.to_bits() as usize].key);
            }
            session.check();
            (found.len(), looked_at)
        }
    }

    /// A mass cancel of none among 20,000 orders looks at those entered since the last one; so does
    /// one of some, and at those that it cancels.
    #[test]
    fn mass_cancel_looks_at_what_it_cancels() {
        let mut world = World::new();
        (1..=20_000).for_each(|number| world.enter(number, 1 + (number % 100) as u16));
        assert_eq!(world.cancel(0).0, 0, "the first indexes all");
        for group_id in [0, 101, 7_777] {
            assert_eq!(world.cancel(group_id), (0, 0));
        }
        assert_eq!(world.cancel(1), (200, 200));
        world.enter(20_001, 0);
        world.enter(20_002, 9);
        assert_eq!(world.cancel(0), (1, 4), "two numbers, and their orders");
        assert_eq!(world.cancel(9), (201, 201));
    }

    /// Gaps between numbers do not make mass cancels look through the whole table for ever, and
    /// orders take the fast path again once they are dense.
    #[test]
    fn gaps_cost_a_bounded_number_of_walks() {
        let mut world = World::new();
        (1..=40_000).for_each(|number| world.enter(number, 1));
        world.cancel(0);
        let mut number = 40_000;
        let mut walks = 0;
        for _ in 0..200 {
            number += 1 << 20;
            world.enter(number, 1);
            let (found, looked_at) = world.cancel(0);
            assert_eq!(found, 0);
            walks += u32::from(100 < looked_at);
        }
        assert_eq!(walks, SPARSE_MAX);
        assert!(world.session().is_restricted);
        for _ in 0..10_000 {
            number += 1;
            world.enter(number, 2);
        }
        assert_eq!(world.cancel(2).0, 10_000);
        assert!(!world.session().is_restricted);
        world.enter(u32::MAX, 2);
        assert_eq!(world.cancel(3).0, 0);
        assert_eq!(world.cancel(2).0, 1);
    }

    /// Memory follows the live orders: elements of those that are done go.
    #[test]
    fn done_orders_leave_the_index() {
        let mut world = World::new();
        for number in 1..=50_000 {
            world.enter(number, 1);
            if number % 100 == 0 {
                world.cancel(0);
            }
            let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: number };
            if number % 1_000 != 0 {
                world.session().remove_live(key);
            }
        }
        world.cancel(0);
        assert!(world.session().details.mass_index.len() < 2_000);
        assert_eq!(world.cancel(1).0, 50);
    }
}
