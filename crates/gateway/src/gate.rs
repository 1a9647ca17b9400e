//! The limits of one session: orders of its own firms, each number once, and no more than its allowance. Both order
//! entry gateways ask it before a command goes to the log.
//!
//! Invariant: a message that is dropped here would have had no effect. A refusal is a command in the log, so replies
//! stay a function of the log. A day of messages is passed in a microsecond: time is an argument.

use std::collections::BTreeMap;

use market::{Command, Event, Firm, OrderKey, Output, RejectOrder, RejectReason, SessionId};

use crate::counters::Counter;

/// The allowance of a session. A rate of 0 is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Messages a second; above it new orders and replaces are rejected.
    pub messages_per_second: u64,
    /// Messages at once, on top of the rate.
    pub messages_burst: u64,
    /// Messages without effect a second; above it the session is blocked. An order, a replace, a cancel
    /// or a modify with an effect gives one more.
    pub no_effect_per_second: u64,
    /// Messages without effect at once, on top of the rate.
    pub no_effect_burst: u64,
    /// How long a session is blocked, in nanoseconds.
    pub block_ns: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            messages_per_second: 100_000,
            messages_burst: 200_000,
            no_effect_per_second: 100,
            no_effect_burst: 10_000,
            block_ns: 10_000_000_000,
        }
    }
}

/// Messages without effect that a mass cancel counts as, because the engine may look for its orders in
/// many steps. Each order that it cancels gives one back.
const MASS_CANCEL_COST: u64 = 10;

/// The answer to a command of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes to the log as it is.
    Pass,
    /// This refusal goes to the log in its place.
    Refuse(Command),
    /// Its number was used before: it is ignored, as OUCH says.
    Duplicate,
    /// The session has sent too much and is blocked from now on.
    Block,
    /// The session is blocked.
    Blocked,
}

/// The counters of a gateway that its gates advance.
pub(crate) struct GateCounters<'a> {
    pub(crate) refused: &'a Counter,
    pub(crate) duplicates: &'a Counter,
    pub(crate) blocked: &'a Counter,
}

impl Verdict {
    /// The command to submit after this verdict on `command`; `None` if nothing is. Counts the commands that are not
    /// submitted unchanged.
    pub(crate) fn submits(self, command: Command, counters: &GateCounters<'_>) -> Option<Command> {
        match self {
            Self::Pass => return Some(command),
            Self::Refuse(refusal) => {
                counters.refused.add(1);
                return Some(refusal);
            }
            Self::Duplicate => counters.duplicates.add(1),
            Self::Block | Self::Blocked => counters.blocked.add(1),
        }
        None
    }
}

/// One session's gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    throttle: Throttle,
    /// Beside the blank one, which means the default.
    firms: Vec<Firm>,
    /// The highest number known to be used, by channel. The engine's is never below it.
    used: BTreeMap<u8, u32>,
    messages: Bucket,
    no_effect: Bucket,
    blocked_until_ns: u64,
}

impl Gate {
    pub(crate) fn new(throttle: Throttle, firms: Vec<Firm>) -> Self {
        Self {
            throttle,
            firms,
            used: BTreeMap::new(),
            messages: Bucket::full(throttle.messages_burst),
            no_effect: Bucket::full(throttle.no_effect_burst),
            blocked_until_ns: 0,
        }
    }

    /// Seconds until the session is no longer blocked, rounded up; 0 if it is not.
    pub(crate) const fn blocked_s(&self, now_ns: u64) -> u64 {
        self.blocked_until_ns.saturating_sub(now_ns).div_ceil(1_000_000_000)
    }

    /// Decides on a command, which is submitted unless this says otherwise.
    pub(crate) fn check(&mut self, command: &Command, now_ns: u64) -> Verdict {
        if now_ns < self.blocked_until_ns {
            return Verdict::Blocked;
        }
        let Throttle { messages_per_second, messages_burst, .. } = self.throttle;
        let within_rate = self.messages.take(messages_per_second, messages_burst, now_ns);
        // The engine uses a replace's number only if the replace has an effect, which is not known yet.
        let (key, uses_number) = match command {
            Command::Enter(order) => (Some(order.key), true),
            Command::Reject(refused) => (Some(refused.key), true),
            Command::MassCancel(mass) => (Some(mass.key), true),
            Command::SwitchEntry(switch) => (Some(switch.key), true),
            Command::Replace(replace) => (Some(replace.key), false),
            _ => (None, false),
        };
        if let Some(key) = key {
            let used = self.used.entry(key.channel).or_default();
            if key.user_ref_num <= *used {
                return Verdict::Duplicate;
            }
            if uses_number {
                *used = key.user_ref_num;
            }
        }
        let refusal = match command {
            Command::Enter(order) if !self.may_use(order.attributes.firm) => {
                refused(command, RejectReason::EntryDisabled)
            }
            _ if !within_rate => refused(command, RejectReason::OrderRateLimit),
            _ => None,
        };
        let is_order = matches!(command, Command::Enter(_)) && refusal.is_none();
        let Throttle { no_effect_per_second, no_effect_burst, block_ns, .. } = self.throttle;
        let cost = match command {
            Command::MassCancel(_) => MASS_CANCEL_COST.min(no_effect_burst.max(1)),
            _ => 1,
        };
        let (per_second, burst) = (no_effect_per_second, no_effect_burst);
        if !is_order && !self.no_effect.take_some(cost, per_second, burst, now_ns) {
            self.blocked_until_ns = now_ns.saturating_add(block_ns);
            return Verdict::Block;
        }
        let Some(refusal) = refusal else { return Verdict::Pass };
        if let Some(OrderKey { channel, user_ref_num, .. }) = key {
            self.used.insert(channel, user_ref_num);
        }
        Verdict::Refuse(refusal)
    }

    fn may_use(&self, firm: Firm) -> bool {
        firm.is_blank() || self.firms.contains(&firm)
    }

    /// Takes the last number that the engine has used on a channel.
    pub(crate) fn know_used(&mut self, channel: u8, user_ref_num: u32) {
        let used = self.used.entry(channel).or_default();
        *used = (*used).max(user_ref_num);
    }

    /// True if the session has sent a request with a number, by whatever protocol.
    pub(crate) fn has_used_a_number(&self) -> bool {
        self.used.values().any(|number| *number > 0)
    }

    /// Takes an event of the session's own orders.
    fn learn(&mut self, channel: u8, user_ref_num: u32, has_effect: bool) {
        self.know_used(channel, user_ref_num);
        if has_effect {
            self.no_effect.give(self.throttle.no_effect_burst);
        }
    }
}

/// Notes in a session's gate the number that an output shows as used, and whether its message had an effect.
pub(crate) fn learn(
    gates: &mut [Gate],
    output: &Output,
    stream: impl FnOnce(SessionId) -> Option<usize>,
) {
    let (key, has_effect) = match &output.event {
        Event::Accepted(it) => (it.key, true),
        Event::Replaced(it) => (it.key, true),
        Event::Canceled(it) => (it.key, true),
        Event::Modified(it) => (it.key, true),
        Event::CancelHeld(it) => (it.key, it.is_pending),
        Event::Rejected(it) => (it.key, false),
        Event::MassCanceled(it) => (it.key, false),
        Event::EntrySwitched(it) => (it.key, false),
        _ => return,
    };
    if let Some(gate) = stream(key.session_id).and_then(|stream| gates.get_mut(stream)) {
        gate.learn(key.channel, key.user_ref_num, has_effect);
    }
}

/// The rejection of a new order, or of a replace with its new terms. `None` for every other command: a
/// replace without terms cancels its order, as OUCH says, so it is no new order.
#[must_use]
pub fn refused(command: &Command, reason: RejectReason) -> Option<Command> {
    let (key, client_order_id) = match command {
        Command::Enter(order) => (order.key, order.attributes.client_order_id),
        Command::Replace(replace) => (replace.key, replace.terms.as_ref()?.client_order_id),
        _ => return None,
    };
    Some(Command::Reject(RejectOrder { key, client_order_id, reason }))
}

/// An allowance that time fills, in billionths of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    level: u64,
    at_ns: u64,
}

const ONE: u64 = 1_000_000_000;

impl Bucket {
    pub(crate) const fn full(burst: u64) -> Self {
        Self { level: burst.saturating_mul(ONE), at_ns: 0 }
    }

    /// Takes one message, if the allowance has one; it always has if the rate is 0.
    pub(crate) fn take(&mut self, per_second: u64, burst: u64, now_ns: u64) -> bool {
        self.take_some(1, per_second, burst, now_ns)
    }

    /// Takes `count`, if there are that many.
    fn take_some(&mut self, count: u64, per_second: u64, burst: u64, now_ns: u64) -> bool {
        if per_second == 0 {
            return true;
        }
        if self.at_ns < now_ns {
            let since_ns = now_ns - self.at_ns;
            self.at_ns = now_ns;
            self.level = self.level.saturating_add(since_ns.saturating_mul(per_second));
            self.level = self.level.min(burst.saturating_mul(ONE));
        }
        let needed = count.saturating_mul(ONE);
        let are_there = needed <= self.level;
        if are_there {
            self.level -= needed;
        }
        are_there
    }

    /// The time of the last take.
    pub(crate) const fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// Adds one, up to the burst.
    fn give(&mut self, burst: u64) {
        self.level = self.level.saturating_add(ONE).min(burst.saturating_mul(ONE));
    }
}

#[cfg(test)]
mod tests {
    use market::{
        AccountQuery, CancelOrder, EnterOrder, MassCancel, Note, OrderKey, Price, Quantity,
        ReplaceOrder, Side, Symbol,
    };

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key(user_ref_num: u32) -> OrderKey {
        OrderKey { session_id: SessionId(1), channel: 0, user_ref_num }
    }

    fn enter(user_ref_num: u32) -> Command {
        let symbol = Symbol::new("AAPL").unwrap();
        let order =
            EnterOrder::limit(key(user_ref_num), Side::Buy, symbol, Quantity(1), Price(100));
        Command::Enter(order)
    }

    fn of_firm(user_ref_num: u32, firm: &str) -> Command {
        let Command::Enter(mut order) = enter(user_ref_num) else { unreachable!() };
        order.attributes.firm = Firm::new(firm).unwrap();
        Command::Enter(order)
    }

    fn cancel() -> Command {
        Command::Cancel(CancelOrder { key: key(1), quantity: Quantity(0) })
    }

    fn replace(user_ref_num: u32) -> Command {
        let original_user_ref_num = 1;
        Command::Replace(ReplaceOrder {
            original_user_ref_num,
            key: key(user_ref_num),
            terms: None,
        })
    }

    fn gate(throttle: Throttle) -> Gate {
        Gate::new(throttle, vec![Firm::new("AAAA").unwrap(), Firm::new("BBBB").unwrap()])
    }

    fn reason(verdict: Verdict) -> RejectReason {
        match verdict {
            Verdict::Refuse(Command::Reject(refused)) => refused.reason,
            other => panic!("{other:?} is no refusal"),
        }
    }

    /// A session enters orders of its own firms, or of none; an order of another firm is refused.
    #[test]
    fn a_foreign_firm_is_refused() {
        let mut gate = gate(Throttle::default());
        for command in [enter(1), of_firm(2, "AAAA"), of_firm(3, "BBBB")] {
            assert_eq!(gate.check(&command, 0), Verdict::Pass);
        }
        assert_eq!(reason(gate.check(&of_firm(4, "CCCC"), 0)), RejectReason::EntryDisabled);
        assert_eq!(gate.check(&enter(4), 0), Verdict::Duplicate, "the refusal uses the number");
    }

    /// A used number is ignored, also one known only from the log. The number of a replace is used when the log says
    /// so, because a replace without effect does not use it.
    #[test]
    fn used_numbers_are_duplicates() {
        let mut gate = gate(Throttle::default());
        assert_eq!(gate.check(&enter(5), 0), Verdict::Pass);
        assert_eq!(gate.check(&enter(5), 0), Verdict::Duplicate);
        assert_eq!(gate.check(&replace(4), 0), Verdict::Duplicate);
        assert_eq!(gate.check(&enter(0), 0), Verdict::Duplicate);
        assert_eq!(gate.check(&replace(9), 0), Verdict::Pass);
        assert_eq!(gate.check(&enter(8), 0), Verdict::Pass, "9 was not used for certain");
        gate.learn(0, 20, true);
        assert_eq!(gate.check(&enter(20), 0), Verdict::Duplicate);
        assert_eq!(gate.check(&enter(21), 0), Verdict::Pass);
        let other = OrderKey { channel: 1, ..key(1) };
        let Command::Enter(order) = enter(1) else { unreachable!() };
        let other = Command::Enter(EnterOrder { key: other, ..order });
        assert_eq!(gate.check(&other, 0), Verdict::Pass, "each channel has numbers of its own");
    }

    /// Above the rate new orders are refused, and cancels pass; time gives the rate back.
    #[test]
    fn orders_above_the_rate_are_refused() {
        let throttle =
            Throttle { messages_per_second: 10, messages_burst: 20, ..Throttle::default() };
        let mut gate = gate(throttle);
        for number in 1..=20 {
            assert_eq!(gate.check(&enter(number), SECOND), Verdict::Pass);
        }
        assert_eq!(reason(gate.check(&enter(21), SECOND)), RejectReason::OrderRateLimit);
        assert_eq!(gate.check(&cancel(), SECOND), Verdict::Pass);
        assert_eq!(gate.check(&replace(22), SECOND), Verdict::Pass, "it can only cancel");
        assert_eq!(gate.check(&enter(23), SECOND + SECOND / 10), Verdict::Pass);
        assert_eq!(
            reason(gate.check(&enter(24), SECOND + SECOND / 10)),
            RejectReason::OrderRateLimit
        );
    }

    /// Messages that grow the log without effect are bounded: the burst, the rate, and one for each message with an
    /// effect. Above that the session is blocked for a while.
    #[test]
    fn messages_without_effect_are_bounded() {
        let throttle = Throttle {
            no_effect_per_second: 2,
            no_effect_burst: 5,
            block_ns: 3 * SECOND,
            ..Throttle::default()
        };
        let query = Command::QueryAccount(AccountQuery { session_id: SessionId(1), channel: 0 });
        let mut gate = gate(throttle);
        let note = Command::Note(Note::new(SessionId(1), b"0").unwrap());
        let commands = [query, cancel(), note];
        let mut passed = 0;
        for second in 0..10 {
            while gate.check(&commands[passed % 3], second * SECOND) == Verdict::Pass {
                passed += 1;
            }
        }
        // 5 in second 0, then blocked for 3 seconds, in which the burst comes back: 0, 3, 6, 9.
        assert_eq!(passed, 20);
        assert_eq!(gate.check(&cancel(), 11 * SECOND), Verdict::Blocked);
        assert_eq!(gate.blocked_s(11 * SECOND), 1);
        // A participant that cancels the orders it entered is never blocked.
        for number in 1..=1000 {
            assert_eq!(gate.check(&enter(number), 20 * SECOND), Verdict::Pass);
            gate.learn(0, number, true);
            assert_eq!(gate.check(&cancel(), 20 * SECOND), Verdict::Pass);
        }
    }

    /// A mass cancel counts as ten messages without effect, and each order that it cancels gives one back.
    #[test]
    fn a_mass_cancel_counts_as_ten() {
        let throttle = Throttle { no_effect_burst: 25, ..Throttle::default() };
        let mass_cancel = |user_ref_num| {
            Command::MassCancel(MassCancel {
                key: key(user_ref_num),
                firm: Firm::BLANK,
                symbol: Symbol::BLANK,
                side: None,
                group_id: None,
            })
        };
        let mut gate = gate(throttle);
        assert_eq!(gate.check(&mass_cancel(1), 0), Verdict::Pass);
        assert_eq!(gate.check(&mass_cancel(2), 0), Verdict::Pass);
        (0..5).for_each(|_| gate.learn(0, 2, true));
        assert_eq!(gate.check(&mass_cancel(3), 0), Verdict::Pass);
        assert_eq!(gate.check(&mass_cancel(4), 0), Verdict::Block);
    }

    /// A rate of 0 is no bound.
    #[test]
    fn a_rate_of_0_is_no_bound() {
        let throttle = Throttle {
            messages_per_second: 0,
            no_effect_per_second: 0,
            messages_burst: 0,
            no_effect_burst: 0,
            ..Throttle::default()
        };
        let mut gate = gate(throttle);
        for number in 1..=1000 {
            assert_eq!(gate.check(&enter(number), 0), Verdict::Pass);
            assert_eq!(gate.check(&cancel(), 0), Verdict::Pass);
        }
    }
}
