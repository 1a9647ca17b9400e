//! Whether several sessions trade at the same time, by the answers to their requests.
//!
//! Invariant: all sessions of the venue count, not only those of one port, because each port takes all outputs.

use market::{Event, SessionId};

/// How long a session does not count as alone after an answer to another session: four requests of a client that sends
/// 200 a second.
const SHARED_NS: u64 = 20_000_000;

/// The sessions that had answers a moment ago.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contention {
    /// The session whose request was answered last.
    last: Option<SessionId>,
    /// The time at which that session last changed.
    shared_ns: Option<u64>,
}

impl Contention {
    /// Notes the session whose request an event answers, if it answers one: an order or a replacement that was
    /// accepted, or any rejected request.
    #[inline]
    pub(crate) fn take(&mut self, event: &Event, now_ns: u64) {
        let session = match event {
            Event::Accepted(accepted) => accepted.key.session_id,
            Event::Replaced(replaced) => replaced.key.session_id,
            Event::Rejected(rejected) => rejected.key.session_id,
            _ => return,
        };
        if self.last.is_some_and(|last| last != session) {
            self.shared_ns = Some(now_ns);
        }
        self.last = Some(session);
    }

    /// True while several sessions trade.
    pub(crate) fn is_shared(&self, now_ns: u64) -> bool {
        self.shared_ns.is_some_and(|then_ns| now_ns.saturating_sub(then_ns) < SHARED_NS)
    }
}

#[cfg(test)]
mod tests {
    use market::{ClientOrderId, CommandKind, OrderKey, RejectReason, Rejected, SystemEvent};

    use super::*;

    /// A session is alone until another one has an answer, and again some time after the last of these.
    #[test]
    fn several_sessions_share_for_a_time() {
        let answer = |session| {
            Event::Rejected(Rejected {
                key: OrderKey { session_id: SessionId(session), channel: 0, user_ref_num: 1 },
                reason: RejectReason::InvalidPrice,
                client_order_id: ClientOrderId::default(),
                cause: CommandKind::Enter,
            })
        };
        let mut contention = Contention::default();
        let mut take = |session, now_ns| {
            contention.take(&answer(session), now_ns);
            contention
        };
        assert!(!take(1, 0).is_shared(0) && !take(1, 1_000).is_shared(1_000));
        let shared = take(2, 2_000);
        assert!(shared.is_shared(2_000) && shared.is_shared(2_000 + SHARED_NS - 1));
        assert!(!shared.is_shared(2_000 + SHARED_NS));
        // Another answer to the same session changes nothing; one to the first session does.
        assert!(!take(2, 9_000).is_shared(2_000 + SHARED_NS));
        assert!(take(1, 10_000).is_shared(2_000 + SHARED_NS));
        contention.take(&Event::System(SystemEvent::EndOfMessages), 10_000 + SHARED_NS);
        assert!(!contention.is_shared(10_000 + SHARED_NS));
    }
}
