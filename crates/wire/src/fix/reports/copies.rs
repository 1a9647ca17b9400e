//! A drop copy session: the execution reports of other sessions under its own numbers.
//!
//! Invariant: a report is made by the same code as for the order's own session, from a separate state for each copied
//! session; only its number, its names and its ExecID are those of the drop copy.

use alloc::vec::Vec;

use market::{
    ClientOrderId, Event, Fill, OrderKey, Output, SessionId, Side, Text, Traded, VenueEvent,
};

use super::{Directory, ReportedOrder, Reports, SendMessage, messages::numbered};
use crate::fix::note::{ClOrdId, DropCopyNote, LogonNote};

/// A session that is copied, and the channel of its orders.
type Source = (SessionId, u8);

impl Reports {
    /// True for a drop copy session, which takes no orders.
    #[must_use]
    pub fn is_drop_copy(&self) -> bool {
        self.is_drop_copy
    }

    /// The sessions whose reports it gets, with their names.
    pub fn sources(&self) -> impl Iterator<Item = SessionId> {
        self.sources.iter().map(|(session_id, _)| *session_id)
    }

    /// Takes a piece of the configuration of a drop copy.
    pub(super) fn take_source(&mut self, note: &DropCopyNote) {
        self.is_drop_copy = true;
        if note.is_first {
            self.sources.clear();
        }
        if note.source != SessionId(0) {
            self.sources.push((note.source, note.username));
        }
        if note.is_last {
            let sources: Vec<SessionId> = self.sources().collect();
            self.copies.retain(|(session_id, _), _| sources.contains(session_id));
        }
    }

    /// Takes an output that concerns a copied session; `directory` has taken it before.
    pub fn copy(&mut self, output: &Output, directory: &Directory, send: SendMessage<'_>) {
        let [one, other] = owners(&output.event);
        let other = other.filter(|_| other != one);
        for source in [one, other].into_iter().flatten() {
            self.copy_from(source, output, directory, send);
        }
    }

    fn copy_from(
        &mut self,
        source: Source,
        output: &Output,
        directory: &Directory,
        send: SendMessage<'_>,
    ) {
        let Some((_, username)) = self.sources.iter().find(|(it, _)| *it == source.0) else {
            return;
        };
        let (username, session) = (*username, self.session);
        let copy =
            self.copies.entry(source).or_insert_with(|| Self::of_source(username, &session.logon));
        copy.session.logon = session.logon;
        (copy.session.next, copy.session.report_count) = (session.next, session.report_count);
        let is_own = |key: &OrderKey| (key.session_id, key.channel) == source;
        copy.take(output, directory, is_own, send);
        self.session.next = copy.session.next;
        self.session.report_count = copy.session.report_count;
    }

    /// The ClOrdID of an order by OUCH in a drop copy: its own, or its number.
    pub(super) fn copied_id(
        &self,
        client_order_id: &ClientOrderId,
        number: u32,
    ) -> Option<ClOrdId> {
        self.copied?;
        let own = ClOrdId::new(client_order_id.as_str()).filter(|_| !client_order_id.is_blank());
        Some(own.unwrap_or_else(|| numbered_id(number)))
    }

    /// Adds an order that trades and was live before its session was copied, with the fields of its trade.
    pub(super) fn know_order(&mut self, traded: &Traded, fill: &Fill, directory: &Directory) {
        let number = fill.key.user_ref_num;
        if self.copied.is_none() || self.orders.contains(&number) {
            return;
        }
        let Some(listed) = directory.get(traded.instrument_id) else { return };
        let is_taker = fill.key == traded.taker.key;
        let is_buy = (traded.taker_side == Side::Buy) == is_taker;
        let leaves = fill.leaves.0 + traded.quantity.0;
        let order = ReportedOrder {
            id: numbered_id(number),
            order_id: fill.order_id.0,
            symbol: listed.instrument.symbol,
            side: if is_buy { b'1' } else { b'2' },
            order_type: 0,
            time_in_force: 0,
            price: 0,
            stop: 0,
            quantity: leaves,
            leaves,
            executed: 0,
            notional: 0,
            end: 0,
            is_replacement: false,
            is_plain: false,
        };
        self.orders.insert(number, order);
        self.remember(order.id, number);
    }

    /// The state of a session that is copied.
    pub(super) fn of_source(username: Text<6>, logon: &LogonNote) -> Self {
        Self { copied: Some(username), ..Self::new(logon) }
    }
}

/// A name for an order that has only a number.
pub(super) fn numbered_id(number: u32) -> ClOrdId {
    let mut buffer = [0; 24];
    let text = numbered(&mut buffer, b'#', number.into(), None);
    str::from_utf8(text).ok().and_then(ClOrdId::new).expect("digits are printable, and few")
}

/// The sessions and channels of the orders that an event is about: two for a trade.
fn owners(event: &Event) -> [Option<Source>; 2] {
    let source = |key: &OrderKey| Some((key.session_id, key.channel));
    match event {
        Event::Traded(it) => [source(&it.maker.key), source(&it.taker.key)],
        Event::Venue(VenueEvent::TradeBusted(it)) => {
            [source(&it.trade.maker.key), source(&it.trade.taker.key)]
        }
        Event::Venue(VenueEvent::TradeCorrected(it)) => {
            [source(&it.trade.maker.key), source(&it.trade.taker.key)]
        }
        // FIX has only one channel.
        Event::Noted(note) => [Some((note.session_id, 0)), None],
        event => [event.key().and_then(source), None],
    }
}
