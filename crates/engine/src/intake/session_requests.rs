//! Requests of a session that are about no particular order: enable and disable entry, account
//! queries, notes, undecoded orders.
//!
//! Invariant: each request uses up its number, if it has one, and is answered once.

use market::{
    AccountQueried, AccountQuery, ClientOrderId, EntrySwitch, EntrySwitched, Event, Note,
    RejectOrder, RejectReason,
};

use crate::Engine;

impl Engine {
    #[inline(never)]
    pub(crate) fn switch_entry(&mut self, switch: &EntrySwitch, emit: &mut dyn FnMut(Event)) {
        let EntrySwitch { key, firm, enabled } = *switch;
        if !self.consume(key) {
            return;
        }
        if self.sessions.owner_mut(key).switch_entry(firm, enabled) {
            emit(Event::EntrySwitched(EntrySwitched { key, firm, enabled }));
        } else {
            self.reject(key, RejectReason::NotSupported, ClientOrderId::BLANK, emit);
        }
    }

    #[inline(never)]
    pub(crate) fn query_account(&mut self, query: &AccountQuery, emit: &mut dyn FnMut(Event)) {
        let Some(session) = self.sessions.get(query.session_id) else { return };
        emit(Event::AccountQueried(AccountQueried {
            session_id: query.session_id,
            channel: query.channel,
            next_user_ref_num: session.user_ref_num_last(query.channel).saturating_add(1),
        }));
    }

    #[inline(never)]
    pub(crate) fn note(&self, note: &Note, emit: &mut dyn FnMut(Event)) {
        if self.sessions.get(note.session_id).is_some() {
            emit(Event::Noted(*note));
        }
    }

    #[inline(never)]
    pub(crate) fn refuse(&mut self, refused: &RejectOrder, emit: &mut dyn FnMut(Event)) {
        if self.consume(refused.key) {
            self.reject(refused.key, refused.reason, refused.client_order_id, emit);
        }
    }
}
