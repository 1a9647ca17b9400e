//! Sessions: whose orders are live, which numbers are used, and who may enter orders.

pub(crate) mod numbers;

use alloc::vec::Vec;
use core::iter;

use market::{AddSession, Firm, OrderKey, SelfMatchPrevention, SessionId, Text};

use crate::{
    book::pool::Slot,
    hash::{self, StateHash},
    names::Names,
};
use numbers::Numbers;

/// For so many firms at most a session may forbid order entry at a time.
pub const FIRMS_DISABLED_MAX: usize = 256;

/// All sessions, numbered from 1 in the order of addition.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    usernames: Names,
}

impl Sessions {
    /// Adds a session; `None` if it cannot be: no name, a name that is taken, or 65,535 already.
    pub(crate) fn add(&mut self, add: &AddSession) -> Option<&Session> {
        if add.username.is_blank() || self.usernames.find(&add.username).is_some() {
            return None;
        }
        let session_id = u16::try_from(self.sessions.len() + 1).ok()?;
        self.usernames.add(&add.username, session_id);
        self.sessions.push(Session {
            session_id: SessionId(session_id),
            username: add.username,
            firm: add.firm,
            live_orders_max: add.live_orders_max,
            self_match_prevention: match add.self_match_prevention {
                SelfMatchPrevention::SessionDefault => SelfMatchPrevention::Off,
                prevention => prevention,
            },
            live_orders: 0,
            own: Channel::new(SessionId(session_id), 0),
            others: Vec::new(),
            firms_disabled: Vec::new(),
        });
        self.sessions.last()
    }

    /// A session, if there is one of that number.
    #[inline]
    pub(crate) fn get(&self, session_id: SessionId) -> Option<&Session> {
        self.sessions.get(usize::from(session_id.0).checked_sub(1)?)
    }

    /// A session, to change, if there is one of that number.
    #[inline]
    pub(crate) fn get_mut(&mut self, session_id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(session_id.0).checked_sub(1)?)
    }

    /// The session of a live order.
    #[inline]
    pub(crate) fn owner(&self, key: OrderKey) -> &Session {
        self.get(key.session_id).expect("a live order's session exists for ever")
    }

    /// The session of a live order, to change.
    #[inline(always)]
    pub(crate) fn owner_mut(&mut self, key: OrderKey) -> &mut Session {
        self.get_mut(key.session_id).expect("a live order's session exists for ever")
    }

    /// All, by number.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Session> {
        self.sessions.iter()
    }
}

/// A logged-in identity that outlives its connections, and its live orders.
#[derive(Debug)]
pub struct Session {
    session_id: SessionId,
    username: Text<6>,
    firm: Firm,
    live_orders_max: u32,
    /// Never the session's default, for it is that.
    self_match_prevention: SelfMatchPrevention,
    live_orders: u32,
    /// Channel 0, the session's own, which is mostly the only one.
    own: Channel,
    /// The others that were ever used, by channel number.
    others: Vec<Channel>,
    /// Firms that may not enter orders here, sorted; never blank unless the session's own is.
    firms_disabled: Vec<Firm>,
}

/// One order flow within a session: its numbers rise by themselves.
#[derive(Debug)]
struct Channel {
    channel: u8,
    /// The last number used; 0 before the first.
    user_ref_num_last: u32,
    /// What [`hash::channel`] makes of session and channel.
    hash_key: u64,
    /// What it makes of the last number.
    hash: u64,
    live: Numbers,
}

impl Channel {
    fn new(session_id: SessionId, channel: u8) -> Self {
        Self {
            channel,
            user_ref_num_last: 0,
            hash_key: hash::channel_key(session_id, channel),
            hash: 0,
            live: Numbers::default(),
        }
    }
}

impl Channel {
    /// Uses a number up, which is above the last.
    #[inline(always)]
    fn consume(&mut self, user_ref_num: u32, hash: &mut StateHash) {
        self.user_ref_num_last = user_ref_num;
        let after = hash::channel(self.hash_key, user_ref_num);
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

    /// The name it logs in with.
    #[must_use]
    pub fn username(&self) -> &Text<6> {
        &self.username
    }

    /// The firm it belongs to.
    #[must_use]
    pub fn firm(&self) -> Firm {
        self.firm
    }

    /// How many live orders it may have at a time.
    #[must_use]
    pub fn live_orders_max(&self) -> u32 {
        self.live_orders_max
    }

    /// What happens where an order that says nothing about it would meet one of its own.
    #[must_use]
    #[inline]
    pub fn self_match_prevention(&self) -> SelfMatchPrevention {
        self.self_match_prevention
    }

    /// How many live orders it has.
    #[must_use]
    pub fn live_orders(&self) -> u32 {
        self.live_orders
    }

    /// The last number used on each channel that was ever used, by channel.
    pub fn user_ref_nums_last(&self) -> impl Iterator<Item = (u8, u32)> {
        self.channels().map(|channel| (channel.channel, channel.user_ref_num_last))
    }

    /// The last number used on a channel; 0 before the first.
    #[must_use]
    #[inline]
    pub fn user_ref_num_last(&self, channel: u8) -> u32 {
        self.channel(channel).map_or(0, |channel| channel.user_ref_num_last)
    }

    /// The firms that may not enter orders here, sorted.
    #[must_use]
    pub fn firms_disabled(&self) -> &[Firm] {
        &self.firms_disabled
    }

    /// The firm that is meant by one as entered: blank is the session's own.
    #[must_use]
    #[inline]
    pub fn resolve(&self, firm: Firm) -> Firm {
        if firm.is_blank() { self.firm } else { firm }
    }

    /// True if the firm may enter orders here.
    #[must_use]
    #[inline]
    pub fn may_enter(&self, firm: Firm) -> bool {
        self.firms_disabled.is_empty()
            || self.firms_disabled.binary_search(&self.resolve(firm)).is_err()
    }

    /// True if one more order could make too many.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.live_orders >= self.live_orders_max
    }

    /// True if the number is above the last one of its channel.
    pub(crate) fn is_unused(&self, key: OrderKey) -> bool {
        self.user_ref_num_last(key.channel) < key.user_ref_num
    }

    /// Uses a number up; false, and nothing is done, if it is not above the last.
    #[inline]
    pub(crate) fn consume(&mut self, key: OrderKey, hash: &mut StateHash) -> bool {
        if key.user_ref_num == 0 {
            return false;
        }
        let channel = match key.channel {
            0 => &mut self.own,
            _ => self.open_channel(key.channel),
        };
        if key.user_ref_num <= channel.user_ref_num_last {
            return false;
        }
        channel.consume(key.user_ref_num, hash);
        true
    }

    /// True if a number on the session's own channel may be that of one more order, whatever its
    /// firm.
    #[inline]
    pub(crate) fn takes_plain(&self, key: OrderKey) -> bool {
        self.own.user_ref_num_last < key.user_ref_num
            && self.firms_disabled.is_empty()
            && !self.is_full()
    }

    /// Uses a number up that [`takes_plain`](Self::takes_plain) has found good.
    #[inline(always)]
    pub(crate) fn consume_plain(&mut self, key: OrderKey, hash: &mut StateHash) {
        self.own.consume(key.user_ref_num, hash);
    }

    /// An order of the session's own channel rests now.
    #[inline]
    pub(crate) fn add_live_plain(&mut self, key: OrderKey, slot: Slot) {
        self.own.live.append(key.user_ref_num, slot);
        self.live_orders += 1;
    }

    /// Looks at where a number of the session's own channel will stand.
    #[inline]
    pub(crate) fn look_at(&self, key: OrderKey) {
        self.own.live.look_at(key.user_ref_num);
    }

    /// The slot of a live order.
    #[inline]
    pub(crate) fn find(&self, key: OrderKey) -> Option<Slot> {
        self.channel(key.channel)?.live.find(key.user_ref_num)
    }

    /// An order of this session rests now.
    #[inline]
    pub(crate) fn add_live(&mut self, key: OrderKey, slot: Slot) {
        self.channel_mut(key.channel).live.append(key.user_ref_num, slot);
        self.live_orders += 1;
    }

    /// An order of this session is done.
    #[inline]
    pub(crate) fn remove_live(&mut self, key: OrderKey) {
        self.channel_mut(key.channel).live.remove(key.user_ref_num);
        self.live_orders -= 1;
    }

    /// The live orders, in no order that means anything.
    pub(crate) fn iter_live(&self) -> impl Iterator<Item = (OrderKey, Slot)> {
        self.channels().flat_map(|it| {
            it.live.iter().map(|(user_ref_num, slot)| {
                let key =
                    OrderKey { session_id: self.session_id, channel: it.channel, user_ref_num };
                (key, slot)
            })
        })
    }

    /// Forbids or allows a firm to enter orders; false, and nothing is done, if as many as may be
    /// are forbidden already.
    pub(crate) fn switch_entry(&mut self, firm: Firm, enabled: bool, hash: &mut StateHash) -> bool {
        let firm = self.resolve(firm);
        let element = hash::firm_disabled(self.session_id, firm);
        match (self.firms_disabled.binary_search(&firm), enabled) {
            (Ok(place), true) => {
                self.firms_disabled.remove(place);
                hash.remove(element);
            }
            (Err(_), false) if self.firms_disabled.len() == FIRMS_DISABLED_MAX => return false,
            (Err(place), false) => {
                self.firms_disabled.insert(place, firm);
                hash.add(element);
            }
            (Ok(_), false) | (Err(_), true) => {}
        }
        true
    }

    /// Asserts that counts and indexes agree.
    pub(crate) fn check(&self) {
        assert!(self.others.is_sorted_by(|one, other| one.channel < other.channel));
        assert!(self.others.iter().all(|channel| 0 < channel.channel));
        assert!(self.firms_disabled.is_sorted_by(|one, other| one < other));
        for channel in self.channels() {
            channel.live.check();
            assert_eq!(
                channel.hash,
                hash::channel(channel.hash_key, channel.user_ref_num_last),
                "the hash of the last number is kept"
            );
            let above = channel.live.iter().find(|(it, _)| channel.user_ref_num_last < *it);
            assert_eq!(above, None, "a live order's number was used");
        }
        assert_eq!(self.iter_live().count(), self.live_orders as usize);
        assert!(self.live_orders <= self.live_orders_max);
    }

    /// Those that were ever used, by channel number.
    fn channels(&self) -> impl Iterator<Item = &Channel> {
        iter::once(&self.own).chain(&self.others).filter(|channel| 0 < channel.user_ref_num_last)
    }

    #[inline]
    fn channel(&self, channel: u8) -> Option<&Channel> {
        if channel == 0 {
            return Some(&self.own);
        }
        let place = self.others.binary_search_by_key(&channel, |it| it.channel).ok()?;
        Some(&self.others[place])
    }

    #[inline]
    fn channel_mut(&mut self, channel: u8) -> &mut Channel {
        if channel == 0 {
            return &mut self.own;
        }
        let place = self.others.binary_search_by_key(&channel, |it| it.channel);
        &mut self.others[place.expect("an order's channel was used when it was entered")]
    }

    /// A channel other than 0, from now on one that is used.
    fn open_channel(&mut self, channel: u8) -> &mut Channel {
        let place = match self.others.binary_search_by_key(&channel, |it| it.channel) {
            Ok(place) => place,
            Err(place) => {
                self.others.insert(place, Channel::new(self.session_id, channel));
                place
            }
        };
        &mut self.others[place]
    }
}
