//! Sessions: live orders, used numbers, and the firms with disabled order entry.
//!
//! Invariant: a number is used once, and the numbers of a channel only rise.

use alloc::{boxed::Box, vec::Vec};
use core::{iter, ops::RangeInclusive};

use market::{AddSession, Firm, OrderKey, SelfMatchPrevention, SessionId, Text};

use super::client_order_index::ClientOrderIndex;
use crate::{book::pool::Slot, intake::name_index::NameIndex, state::hash};

/// The most firms with disabled order entry in a session.
pub const FIRMS_DISABLED_MAX: usize = 256;

/// The most live orders at once in size class 0; each class is twice as large, and the last one has no bound.
const CLASS_LIVE: i32 = 256;
pub(crate) const CLASS_MAX: u8 = 7;

/// The most live orders at once of a size class.
fn class_live_max(size_class: u8) -> i32 {
    if size_class < CLASS_MAX { CLASS_LIVE << size_class } else { i32::MAX }
}

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
            own: ClientOrderIndex::default(),
            details: Box::new(SessionDetails {
                username: add.username,
                firm: add.firm,
                live_orders_max: add.live_orders_max,
                others: Vec::new(),
                firms_disabled: Vec::new(),
                size_class: 0,
                sweeps: 0,
                round: 0,
            }),
            room: bound(add.live_orders_max).min(class_live_max(0)),
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
#[repr(C, align(64))]
pub struct Session {
    /// The numbers of channel 0, the session's own; most sessions use no other.
    own: ClientOrderIndex,
    details: Box<SessionDetails>,
    /// The number of further live orders it may have without another check: up to its maximum, or to the end of its
    /// size class. Below 0 after its maximum was lowered.
    room: i32,
    session_id: SessionId,
    /// Default self-match prevention; never the session's default.
    self_match_prevention: SelfMatchPrevention,
    /// True if order entry is disabled for a firm: its orders are not plain.
    is_restricted: bool,
}

market::assert_layout! {
    Session, 64 {
        own: 0, details: 32, room: 40, session_id: 44, self_match_prevention: 46, is_restricted: 47,
    }
}

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
    /// The numbers of other used channels, which rise independently of each other; by channel.
    others: Vec<(u8, ClientOrderIndex)>,
    /// Firms with disabled order entry, sorted; never blank unless the session's own firm is.
    firms_disabled: Vec<Firm>,
    /// The class of the most live orders it ever had at once, and so of the length of its tables: the class rises when
    /// an order is accepted while it is full.
    size_class: u8,
    /// The number of waiting sweeps of its orders, and the last round of those.
    sweeps: u32,
    round: u64,
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
        (self.class_bound() - self.room) as u32
    }

    /// The most live orders before the next check.
    fn class_bound(&self) -> i32 {
        bound(self.details.live_orders_max).min(class_live_max(self.details.size_class))
    }

    /// Its size class, 0 to [`CLASS_MAX`].
    pub(crate) fn size_class(&self) -> u8 {
        self.details.size_class
    }

    /// Sets the size class, while it is created or as it accepts an order.
    pub(crate) fn set_size_class(&mut self, size_class: u8) {
        let live = self.live_orders();
        self.details.size_class = size_class;
        self.room = self.class_bound() - live as i32;
    }

    /// Notes that a new order was accepted, which does not rest yet: a full size class rises.
    #[inline]
    pub(crate) fn note_accepted(&mut self) {
        let SessionDetails { size_class, .. } = *self.details;
        if class_live_max(size_class) as u32 <= self.live_orders() && size_class < CLASS_MAX {
            self.set_size_class(size_class + 1);
        }
    }

    /// The last number used on each channel, by channel.
    pub fn user_ref_nums_last(&self) -> impl Iterator<Item = (u8, u32)> {
        self.channels().map(|(number, channel)| (number, channel.last))
    }

    /// The last number used on a channel; 0 before the first.
    #[must_use]
    #[inline]
    pub fn user_ref_num_last(&self, channel: u8) -> u32 {
        self.channel(channel).map_or(0, |channel| channel.last)
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
        self.room = self.class_bound() - live as i32;
    }

    /// The last round in which a sweep of its orders waits.
    pub(crate) fn round_waiting(&self) -> Option<u64> {
        let SessionDetails { sweeps, round, .. } = *self.details;
        (sweeps != 0).then_some(round)
    }

    /// Notes that a sweep of its orders waits in this round.
    pub(crate) fn begin_sweep(&mut self, round: u64) {
        self.details.round = self.round_waiting().map_or(round, |last| last.max(round));
        self.details.sweeps += 1;
    }

    /// Notes that a sweep of its orders is over.
    pub(crate) fn end_sweep(&mut self) {
        self.details.sweeps -= 1;
    }

    /// True if one more order could exceed the maximum.
    pub(crate) fn is_full(&self) -> bool {
        bound(self.details.live_orders_max) as u32 <= self.live_orders()
    }

    /// True if the number is above the last one of its channel.
    pub(crate) fn is_unused(&self, key: OrderKey) -> bool {
        self.user_ref_num_last(key.channel) < key.user_ref_num
    }

    /// Uses up a number. Returns false, with no effect, if it is not above the last.
    #[inline]
    pub(crate) fn consume(&mut self, key: OrderKey) -> bool {
        let channel = match key.channel {
            0 => &mut self.own,
            // No number is below 1, and a channel is in use from its first.
            _ if key.user_ref_num == 0 => return false,
            _ => self.open_channel(key.channel),
        };
        if key.user_ref_num <= channel.last {
            return false;
        }
        channel.last = key.user_ref_num;
        true
    }

    /// True if it may enter one more order, of any firm.
    #[inline]
    pub(crate) fn takes_plain(&self) -> bool {
        !self.is_restricted && 0 < self.room
    }

    /// Prefetches the place of a number of channel 0.
    #[inline]
    pub(crate) fn fetch(&self, key: OrderKey, fetch: impl Fn(*const u8)) {
        self.own.fetch(key.user_ref_num, fetch);
    }

    /// The slot of a live order.
    #[inline]
    pub(crate) fn find(&self, key: OrderKey) -> Option<Slot> {
        self.channel(key.channel)?.find(key.user_ref_num)
    }

    /// Adds a resting order of this session.
    #[inline(always)]
    pub(crate) fn add_live(&mut self, key: OrderKey, slot: Slot) {
        self.channel_mut(key.channel).append(key.user_ref_num, slot);
        self.room -= 1;
    }

    /// As [`ClientOrderIndex::restore`], of all orders of a channel.
    pub(crate) fn restore_live(&mut self, channel: u8, orders: &[(OrderKey, Slot)]) -> bool {
        self.room -= orders.len() as i32;
        let orders = orders.iter().map(|(key, slot)| (key.user_ref_num, *slot));
        self.channel_mut(channel).restore(orders)
    }

    /// Removes an order of this session that is done.
    #[inline(always)]
    pub(crate) fn remove_live(&mut self, key: OrderKey) {
        self.channel_mut(key.channel).remove(key.user_ref_num);
        self.room += 1;
    }

    /// The most places that the table of a channel can have by the size class.
    fn places_max(&self) -> usize {
        (4 * CLASS_LIVE as usize) << self.size_class()
    }

    /// The live orders, in no particular order.
    pub(crate) fn iter_live(&self) -> impl Iterator<Item = (OrderKey, Slot)> {
        let live = self.channels().filter(|(_, it)| it.len() != 0);
        live.flat_map(move |(channel, it)| {
            it.iter().map(move |(user_ref_num, slot)| {
                let key = OrderKey { session_id: self.session_id, channel, user_ref_num };
                (key, slot)
            })
        })
    }

    /// The channels that have live orders, each with the last number used on it.
    pub(crate) fn live_channels(&self) -> impl Iterator<Item = (u8, u32)> {
        let live = self.channels().filter(|(_, channel)| channel.len() != 0);
        live.map(|(number, channel)| (number, channel.last))
    }

    /// As [`ClientOrderIndex::find_turns`], of a channel.
    pub(crate) fn find_turns(
        &self,
        channel: u8,
        turns: RangeInclusive<u32>,
        max: usize,
        found: &mut Vec<(u32, u32)>,
    ) {
        found.clear();
        if let Some(channel) = self.channel(channel) {
            channel.find_turns(turns, max, found);
        }
    }

    /// Disables or enables order entry for a firm. Returns false, with no effect, if the maximum
    /// number of firms is disabled already.
    pub(crate) fn switch_entry(&mut self, firm: Firm, enabled: bool) -> bool {
        let firm = self.resolve(firm);
        let firms_disabled = &mut self.details.firms_disabled;
        match (firms_disabled.binary_search(&firm), enabled) {
            (Ok(place), true) => {
                firms_disabled.remove(place);
            }
            (Err(_), false) if firms_disabled.len() == FIRMS_DISABLED_MAX => return false,
            (Err(place), false) => {
                firms_disabled.insert(place, firm);
            }
            (Ok(_), false) | (Err(_), true) => {}
        }
        self.is_restricted = !firms_disabled.is_empty();
        true
    }

    /// The session's element of the state hash; numbers used and firms have their own.
    pub(crate) fn hash(&self) -> u64 {
        hash::mix([
            hash::SESSION,
            u64::from(self.session_id.0),
            hash::word(self.username()),
            hash::word(&self.firm()),
            u64::from(self.live_orders_max())
                | u64::from(self.self_match_prevention().code()) << 32
                | u64::from(self.size_class()) << 40,
        ])
    }

    /// Checks that counts and indexes agree.
    pub(crate) fn check(&self) {
        let SessionDetails { others, firms_disabled, live_orders_max, .. } = &*self.details;
        assert!(others.is_sorted_by(|one, other| one.0 < other.0));
        assert!(others.iter().all(|(number, _)| 0 < *number));
        assert!(firms_disabled.is_sorted_by(|one, other| one < other));
        assert_eq!(self.is_restricted, !firms_disabled.is_empty());
        for (_, channel) in self.channels() {
            channel.check();
            let above = channel.iter().find(|(it, _)| channel.last < *it);
            assert_eq!(above, None, "a live order's number was used");
        }
        assert!(self.room <= bound(*live_orders_max));
        assert!(self.live_orders() <= class_live_max(self.size_class()) as u32);
        assert!(self.channels().all(|(_, it)| it.place_count() <= self.places_max()));
        assert_eq!(self.iter_live().count(), self.live_orders() as usize);
    }

    /// Used channels other than 0, by number.
    fn channels(&self) -> impl Iterator<Item = (u8, &ClientOrderIndex)> {
        let others = self.details.others.iter().map(|(number, channel)| (*number, channel));
        iter::once((0, &self.own)).chain(others).filter(|(_, channel)| 0 < channel.last)
    }

    #[inline]
    fn channel(&self, channel: u8) -> Option<&ClientOrderIndex> {
        if channel == 0 {
            return Some(&self.own);
        }
        let others = &self.details.others;
        let place = others.binary_search_by_key(&channel, |(number, _)| *number).ok()?;
        Some(&others[place].1)
    }

    #[inline(always)]
    fn channel_mut(&mut self, channel: u8) -> &mut ClientOrderIndex {
        if channel == 0 {
            return &mut self.own;
        }
        let others = &mut self.details.others;
        let place = others.binary_search_by_key(&channel, |(number, _)| *number);
        &mut others[place.expect("an order's channel was used when it was entered")].1
    }

    /// A channel other than 0, which is now in use.
    fn open_channel(&mut self, channel: u8) -> &mut ClientOrderIndex {
        let others = &mut self.details.others;
        let place = match others.binary_search_by_key(&channel, |(number, _)| *number) {
            Ok(place) => place,
            Err(place) => {
                others.insert(place, (channel, ClientOrderIndex::default()));
                place
            }
        };
        &mut others[place].1
    }
}

/// The last number used on a channel.
pub(crate) fn channel_hash(session_id: SessionId, channel: u8, user_ref_num_last: u32) -> u64 {
    let (session, channel) = (u64::from(session_id.0), u64::from(channel));
    hash::mix([hash::CHANNEL, session, channel, u64::from(user_ref_num_last)])
}

/// A firm with disabled order entry on a session.
pub(crate) fn firm_disabled_hash(session_id: SessionId, firm: Firm) -> u64 {
    hash::mix([hash::FIRM_DISABLED, u64::from(session_id.0), hash::word(&firm)])
}
