//! The requests of one session: which wait for an answer, which orders are live.
//!
//! Invariant: every request is answered, superfluous or unanswered, and counted once.

use std::{collections::VecDeque, mem};

use market::CancelReason;
use wire::ouch::{Malformed, Outbound, decode_outbound};

use super::{LoadCounts, replay::ReplayAsk};

/// The requests of one session, without sockets: which of them await an answer, and which orders are
/// live.
///
/// A venue acts on a session's requests in their order and answers in that order, or not at all
/// where the protocol says so. So an answer settles every request before it: an unanswered cancel
/// or replace came too late for its order, an unanswered order was lost.
///
/// Orders lie in the order of their numbers, so a reply finds its order by subtraction; those that are
/// done at the front leave.
///
/// Invariant: every order that is `Entered`, `Canceling` or `Replacing` names a request that
/// waits; `live` holds exactly the numbers of the live orders, each at the place that it names.
#[derive(Debug)]
pub(super) struct Tracker {
    next_user_ref_num: u32,
    /// The number of this run's first order; lower ones belong to the session's history.
    first_user_ref_num: u32,
    /// The orders from number `orders_from` on, without a gap.
    orders: VecDeque<Order>,
    orders_from: u32,
    live: Vec<u32>,
    /// Requests that wait for their answers, oldest first.
    requests: VecDeque<Request>,
    /// How many requests left the front of `requests`: the front one's index over the run.
    requests_settled: u64,
    /// The account query that waits for its answer, if one does.
    query: Option<u64>,
    /// Requests that were given up since [`take_unanswered`](Self::take_unanswered).
    unanswered: Vec<Times>,
    /// True for a recorded flow: no orders are kept, since none is chosen from them, and an answer finds its request
    /// by its number, from the oldest on.
    is_replay: bool,
}

/// An order of this run that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    state: OrderState,
    /// Lots that are open.
    pub(super) leaves: u64,
    /// Lots executed by the order and by those that it replaced.
    pub(super) executed: u64,
    /// Index of its symbol.
    pub(super) symbol: u32,
    pub(super) is_buy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrderState {
    /// Asked for by this request.
    Entered(u64),
    /// In the market, at this place of `live`.
    Live(usize),
    /// To be canceled by this request.
    Canceling(u64),
    /// To be replaced by this request.
    Replacing(u64),
    /// Nothing of it is open.
    Done,
}

/// A request, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) times: Times,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Enter { user_ref_num: u32 },
    Replace { original: u32, user_ref_num: u32 },
    Cancel { user_ref_num: u32 },
    Query,
}

/// When a request was due, and when it was sent, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) scheduled_ns: u64,
    pub(super) sent_ns: u64,
    /// Bytes of the connection up to its end, where the times of packets are asked.
    pub(super) sent_bytes: u64,
}

impl Tracker {
    /// A session whose next order has this number.
    pub(super) fn new(next_user_ref_num: u32) -> Self {
        Self {
            next_user_ref_num,
            first_user_ref_num: next_user_ref_num,
            orders: VecDeque::new(),
            orders_from: next_user_ref_num,
            live: Vec::new(),
            requests: VecDeque::new(),
            requests_settled: 0,
            query: None,
            unanswered: Vec::new(),
            is_replay: false,
        }
    }

    /// The number of this run's first order.
    pub(super) fn first_user_ref_num(&self) -> u32 {
        self.first_user_ref_num
    }

    pub(super) fn outstanding(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn live_count(&self) -> usize {
        self.live.len()
    }

    /// The number that the next order or replacement gets; `None` once all 2^32 are used up.
    pub(super) fn next_user_ref_num(&self) -> Option<u32> {
        (self.next_user_ref_num < u32::MAX).then_some(self.next_user_ref_num)
    }

    /// A live order by its place; any change of the live orders may give the place to another.
    pub(super) fn live_at(&self, place: usize) -> (u32, &Order) {
        let user_ref_num = self.live[place];
        (user_ref_num, self.order(user_ref_num).expect("a live order is known"))
    }

    /// An order was asked for under the next number.
    pub(super) fn entered(&mut self, symbol: u32, is_buy: bool, quantity: u64, times: Times) {
        let user_ref_num = self.take_number();
        let index = self.ask(Ask::Enter { user_ref_num }, times);
        let state = OrderState::Entered(index);
        self.orders.push_back(Order { state, leaves: quantity, executed: 0, symbol, is_buy });
    }

    pub(super) fn cancel_asked(&mut self, user_ref_num: u32, times: Times) {
        let index = self.ask(Ask::Cancel { user_ref_num }, times);
        self.leave_live(user_ref_num, OrderState::Canceling(index));
    }

    /// A live order was asked to be replaced by one under the next number.
    pub(super) fn replace_asked(&mut self, original: u32, open: u64, times: Times) {
        let user_ref_num = self.take_number();
        let index = self.ask(Ask::Replace { original, user_ref_num }, times);
        self.leave_live(original, OrderState::Replacing(index));
        let replaced = *self.order(original).expect("a live order is known");
        let state = OrderState::Entered(index);
        self.orders.push_back(Order { leaves: open, state, ..replaced });
    }

    /// A request of a recorded flow was sent. Such a flow does not wait for the answer about an order before it asks
    /// something else of it.
    pub(super) fn replay_asked(&mut self, ask: ReplayAsk, times: Times) {
        self.is_replay = true;
        let (ask, number) = match ask {
            ReplayAsk::Enter { user_ref_num } => (Ask::Enter { user_ref_num }, user_ref_num),
            ReplayAsk::Replace { original, user_ref_num } => {
                (Ask::Replace { original, user_ref_num }, user_ref_num)
            }
            ReplayAsk::Cancel { user_ref_num } => (Ask::Cancel { user_ref_num }, 0),
        };
        self.next_user_ref_num = self.next_user_ref_num.max(number.saturating_add(1));
        self.ask(ask, times);
    }

    /// The next number was asked for: an answer that always comes, so that it settles all before.
    pub(super) fn query_asked(&mut self, now_ns: u64) {
        let times = Times { scheduled_ns: now_ns, sent_ns: now_ns, sent_bytes: 0 };
        let index = self.ask(Ask::Query, times);
        self.query = Some(index);
    }

    /// True while the answer to [`query_asked`](Self::query_asked) is not there.
    pub(super) fn is_query_open(&self) -> bool {
        self.query.is_some()
    }

    /// Takes a message of the venue and counts it; gives the request that it answers, unless that
    /// was the account query.
    pub(super) fn receive(
        &mut self,
        message: &[u8],
        counts: &mut LoadCounts,
    ) -> Result<Option<Request>, Malformed> {
        let answered = match decode_outbound(message)? {
            Outbound::OrderAccepted(accepted, _) => {
                let user_ref_num = accepted.user_ref_num.get();
                let answered = self.settle_entered(user_ref_num, counts);
                if answered.is_some() {
                    counts.accepted += 1;
                    self.live_or_done(user_ref_num, accepted.order_state);
                }
                answered
            }
            Outbound::OrderReplaced(replaced, _) => {
                let user_ref_num = replaced.user_ref_num.get();
                let answered = self.settle_entered(user_ref_num, counts);
                if answered.is_some() {
                    counts.replaced += 1;
                    let executed = self.forget(replaced.orig_user_ref_num.get());
                    if let Some(order) = self.order_mut(user_ref_num) {
                        order.executed = executed;
                        order.leaves = u64::from(replaced.quantity.get());
                    }
                    self.live_or_done(user_ref_num, replaced.order_state);
                }
                answered
            }
            Outbound::Rejected(rejected, _) => {
                let user_ref_num = rejected.user_ref_num.get();
                let answered = self.settle_entered(user_ref_num, counts);
                if let Some(request) = answered {
                    counts.reject(rejected.reason.get());
                    self.forget(user_ref_num);
                    if let Ask::Replace { original, .. } = request.ask {
                        self.become_live(original);
                    }
                }
                answered
            }
            Outbound::OrderCanceled(canceled, _) => {
                let user_ref_num = canceled.user_ref_num.get();
                let answered = if canceled.reason == CancelReason::User.code() {
                    self.settle_cancel(user_ref_num, counts)
                } else {
                    None
                };
                counts.canceled += 1;
                self.reduce(user_ref_num, u64::from(canceled.quantity.get()), 0);
                answered
            }
            Outbound::OrderExecuted(executed, _) => {
                let quantity = u64::from(executed.quantity.get());
                counts.fills += 1;
                counts.shares += quantity;
                self.reduce(executed.user_ref_num.get(), quantity, quantity);
                None
            }
            Outbound::AiqCanceled(canceled, _) => {
                counts.canceled += 1;
                let quantity = u64::from(canceled.decrement_shares.get());
                self.reduce(canceled.user_ref_num.get(), quantity, 0);
                None
            }
            Outbound::CancelReject(rejected, _) => {
                self.settle_cancel(rejected.user_ref_num.get(), counts)
            }
            Outbound::AccountQueryResponse(response, _) => {
                self.receive_query_response(response.next_user_ref_num.get(), counts);
                None
            }
            Outbound::SystemEvent(..)
            | Outbound::BrokenTrade(..)
            | Outbound::CancelPending(..)
            | Outbound::OrderPriorityUpdate(..)
            | Outbound::OrderModified(..)
            | Outbound::OrderRestated(..)
            | Outbound::MassCancelResponse(..)
            | Outbound::DisableOrderEntryResponse(..)
            | Outbound::EnableOrderEntryResponse(..) => None,
        };
        counts.replies += u64::from(answered.is_some());
        Ok(answered)
    }

    /// Gives up all requests that wait for an answer.
    pub(super) fn abandon(&mut self, counts: &mut LoadCounts) {
        self.query = None;
        for request in mem::take(&mut self.requests) {
            if request.ask != Ask::Query {
                self.give_up(request, counts);
            }
        }
        self.orders.clear();
        self.orders_from = self.next_user_ref_num;
        self.live.clear();
    }

    /// The requests that were given up since the last call.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = Times> {
        self.unanswered.drain(..)
    }

    fn give_up(&mut self, request: Request, counts: &mut LoadCounts) {
        counts.unanswered += 1;
        self.unanswered.push(request.times);
    }

    fn order(&self, user_ref_num: u32) -> Option<&Order> {
        let order = self.orders.get(user_ref_num.checked_sub(self.orders_from)? as usize)?;
        (order.state != OrderState::Done).then_some(order)
    }

    fn order_mut(&mut self, user_ref_num: u32) -> Option<&mut Order> {
        let order = self.orders.get_mut(user_ref_num.checked_sub(self.orders_from)? as usize)?;
        (order.state != OrderState::Done).then_some(order)
    }

    fn take_number(&mut self) -> u32 {
        let user_ref_num = self.next_user_ref_num;
        self.next_user_ref_num += 1;
        user_ref_num
    }

    fn ask(&mut self, ask: Ask, times: Times) -> u64 {
        let index = self.requests_settled + self.requests.len() as u64;
        self.requests.push_back(Request { ask, times });
        index
    }

    fn receive_query_response(&mut self, next_user_ref_num: u32, counts: &mut LoadCounts) {
        // A query that was sent twice before the run is answered twice. Its second answer comes
        // before any order's and names the first number.
        let is_stale = next_user_ref_num <= self.first_user_ref_num
            && self.next_user_ref_num > self.first_user_ref_num;
        if let Some(index) = self.query
            && !is_stale
        {
            self.query = None;
            self.settle_through(index, counts);
        }
    }

    /// Settles the request that entered this order, and all before it; `None`, and counted, if it
    /// does not wait.
    fn settle_entered(&mut self, user_ref_num: u32, counts: &mut LoadCounts) -> Option<Request> {
        let index = match self.is_replay {
            true => self.index_of(|ask| match ask {
                Ask::Enter { user_ref_num: number } | Ask::Replace { user_ref_num: number, .. } => {
                    number == user_ref_num
                }
                Ask::Cancel { .. } | Ask::Query => false,
            }),
            false => None,
        };
        let state = self.order(user_ref_num).map(|order| order.state);
        match index.map(OrderState::Entered).or(state) {
            Some(OrderState::Entered(index)) => Some(self.settle_through(index, counts)),
            _ if (self.first_user_ref_num..self.next_user_ref_num).contains(&user_ref_num) => {
                counts.duplicates += 1;
                None
            }
            _ => {
                counts.unexpected += 1;
                None
            }
        }
    }

    /// Settles the request that a user's cancel of this order answers: to cancel it, or to replace
    /// it by something invalid. `None` if none waits: the cancel came unasked.
    fn settle_cancel(&mut self, user_ref_num: u32, counts: &mut LoadCounts) -> Option<Request> {
        let index = if self.is_replay {
            self.index_of(|ask| match ask {
                Ask::Cancel { user_ref_num: number } | Ask::Replace { original: number, .. } => {
                    number == user_ref_num
                }
                Ask::Enter { .. } | Ask::Query => false,
            })?
        } else {
            match self.order(user_ref_num)?.state {
                OrderState::Canceling(index) | OrderState::Replacing(index) => index,
                _ => return None,
            }
        };
        let request = self.settle_through(index, counts);
        if let Ask::Replace { user_ref_num: replacement, .. } = request.ask {
            self.forget(replacement);
        }
        self.become_live(user_ref_num);
        Some(request)
    }

    /// The index over the run of the oldest request for which `is_it` holds.
    fn index_of(&self, is_it: impl Fn(Ask) -> bool) -> Option<u64> {
        let place = self.requests.iter().position(|request| is_it(request.ask))?;
        Some(self.requests_settled + place as u64)
    }

    /// Takes the requests up to this one from the front; all but the last go unanswered.
    fn settle_through(&mut self, index: u64, counts: &mut LoadCounts) -> Request {
        loop {
            let request = self.requests.pop_front().expect("the request waits");
            let is_last = self.requests_settled == index;
            self.requests_settled += 1;
            if is_last {
                return request;
            }
            self.went_unanswered(request, counts);
        }
    }

    fn went_unanswered(&mut self, request: Request, counts: &mut LoadCounts) {
        match request.ask {
            Ask::Enter { user_ref_num } => {
                counts.lost += 1;
                self.give_up(request, counts);
                self.forget(user_ref_num);
            }
            Ask::Replace { original, user_ref_num } => {
                counts.superfluous += 1;
                self.forget(user_ref_num);
                self.become_live(original);
            }
            Ask::Cancel { user_ref_num } => {
                counts.superfluous += 1;
                self.become_live(user_ref_num);
            }
            Ask::Query => self.query = None,
        }
    }

    /// An order was let in: it is live, unless it is dead at once.
    fn live_or_done(&mut self, user_ref_num: u32, order_state: u8) {
        const DEAD: u8 = b'D';
        if order_state == DEAD {
            self.forget(user_ref_num);
        } else {
            self.become_live(user_ref_num);
        }
    }

    /// No request about this order is open any more; if the order is not done, it is live.
    fn become_live(&mut self, user_ref_num: u32) {
        let place = self.live.len();
        if let Some(order) = self.order_mut(user_ref_num) {
            order.state = OrderState::Live(place);
            self.live.push(user_ref_num);
        }
    }

    fn leave_live(&mut self, user_ref_num: u32, state: OrderState) {
        let order = self.order_mut(user_ref_num).expect("a live order is known");
        let OrderState::Live(place) = mem::replace(&mut order.state, state) else {
            panic!("order {user_ref_num} is not live: {order:?}");
        };
        self.close_gap(place);
    }

    fn close_gap(&mut self, place: usize) {
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            let order = self.order_mut(moved).expect("a live order is known");
            order.state = OrderState::Live(place);
        }
    }

    /// Takes open quantity from an order, which is done when nothing is left.
    fn reduce(&mut self, user_ref_num: u32, quantity: u64, executed: u64) {
        let Some(order) = self.order_mut(user_ref_num) else { return };
        order.leaves = order.leaves.saturating_sub(quantity);
        order.executed += executed;
        if order.leaves == 0 {
            self.forget(user_ref_num);
        }
    }

    /// An order is done; gives the shares that its chain executed.
    fn forget(&mut self, user_ref_num: u32) -> u64 {
        let Some(order) = self.order_mut(user_ref_num) else { return 0 };
        let executed = order.executed;
        if let OrderState::Live(place) = mem::replace(&mut order.state, OrderState::Done) {
            self.close_gap(place);
        }
        while self.orders.front().is_some_and(|order| order.state == OrderState::Done) {
            self.orders.pop_front();
            self.orders_from += 1;
        }
        executed
    }
}

#[cfg(test)]
impl Tracker {
    pub(super) fn accept_for_test(&mut self, user_ref_num: u32, counts: &mut LoadCounts) {
        let message = tests::accepted(user_ref_num, b'L');
        assert!(self.receive(&message, counts).unwrap().is_some());
    }
}

#[cfg(test)]
mod tests {
    use wire::{
        layout::Message,
        ouch::{
            AccountQueryResponse, MessageBuffer, OrderAccepted, OrderCanceled, OrderExecuted,
            OrderReplaced, Rejected,
        },
    };
    use zerocopy::FromZeros;

    use super::*;

    pub(super) fn accepted(user_ref_num: u32, order_state: u8) -> MessageBuffer {
        MessageBuffer::with_appendage(&OrderAccepted {
            message_type: OrderAccepted::TYPE,
            user_ref_num: user_ref_num.into(),
            order_state,
            ..OrderAccepted::new_zeroed()
        })
    }

    fn replaced(original: u32, user_ref_num: u32, open: u32) -> MessageBuffer {
        MessageBuffer::with_appendage(&OrderReplaced {
            message_type: OrderReplaced::TYPE,
            orig_user_ref_num: original.into(),
            user_ref_num: user_ref_num.into(),
            quantity: open.into(),
            order_state: b'L',
            ..OrderReplaced::new_zeroed()
        })
    }

    fn canceled(user_ref_num: u32, quantity: u32, reason: u8) -> MessageBuffer {
        MessageBuffer::new(&OrderCanceled {
            message_type: OrderCanceled::TYPE,
            user_ref_num: user_ref_num.into(),
            quantity: quantity.into(),
            reason,
            ..OrderCanceled::new_zeroed()
        })
    }

    fn executed(user_ref_num: u32, quantity: u32) -> MessageBuffer {
        MessageBuffer::with_appendage(&OrderExecuted {
            message_type: OrderExecuted::TYPE,
            user_ref_num: user_ref_num.into(),
            quantity: quantity.into(),
            ..OrderExecuted::new_zeroed()
        })
    }

    fn rejected(user_ref_num: u32, reason: u16) -> MessageBuffer {
        MessageBuffer::new(&Rejected {
            message_type: Rejected::TYPE,
            user_ref_num: user_ref_num.into(),
            reason: reason.into(),
            ..Rejected::new_zeroed()
        })
    }

    fn queried(next_user_ref_num: u32) -> MessageBuffer {
        MessageBuffer::new(&AccountQueryResponse {
            message_type: AccountQueryResponse::TYPE,
            next_user_ref_num: next_user_ref_num.into(),
            ..AccountQueryResponse::new_zeroed()
        })
    }

    fn due(scheduled_ns: u64) -> Times {
        Times { scheduled_ns, sent_ns: scheduled_ns + 1, sent_bytes: 0 }
    }

    /// A session that entered orders 10, 11, 12, … of 100 lots, each due at ten times its number
    /// and sent one later.
    struct Scene {
        tracker: Tracker,
        counts: LoadCounts,
    }

    impl Scene {
        fn entered(count: u32) -> Self {
            let mut scene = Self { tracker: Tracker::new(10), counts: LoadCounts::default() };
            for number in 10..10 + u64::from(count) {
                scene.tracker.entered(0, true, 100, due(number * 10));
            }
            scene
        }

        fn live(count: u32) -> Self {
            let mut scene = Self::entered(count);
            for number in 10..10 + count {
                scene.answers(&accepted(number, b'L'), u64::from(number) * 10);
            }
            scene
        }

        fn receive(&mut self, message: &[u8]) -> Option<Times> {
            let answered = self.tracker.receive(message, &mut self.counts).unwrap();
            self.check();
            answered.map(|request| request.times)
        }

        fn answers(&mut self, message: &[u8], scheduled_ns: u64) {
            assert_eq!(self.receive(message), Some(due(scheduled_ns)));
        }

        fn unsolicited(&mut self, message: &[u8]) {
            assert_eq!(self.receive(message), None);
        }

        fn live_orders(&self) -> Vec<u32> {
            let mut live = self.tracker.live.clone();
            live.sort_unstable();
            live
        }

        /// How many orders are not done.
        fn known(&self) -> usize {
            self.tracker.orders.iter().filter(|order| order.state != OrderState::Done).count()
        }

        /// The invariant.
        fn check(&self) {
            let Tracker { orders, live, requests, requests_settled, .. } = &self.tracker;
            for (place, number) in live.iter().enumerate() {
                let order = self.tracker.order(*number).unwrap();
                assert_eq!(order.state, OrderState::Live(place));
            }
            let waits = *requests_settled..*requests_settled + requests.len() as u64;
            let mut live_count = 0;
            for order in orders {
                match order.state {
                    OrderState::Live(_) => live_count += 1,
                    OrderState::Done => {}
                    OrderState::Entered(index)
                    | OrderState::Canceling(index)
                    | OrderState::Replacing(index) => assert!(waits.contains(&index), "{order:?}"),
                }
            }
            assert_eq!(live_count, live.len());
        }
    }

    /// Each request is answered once, with its own times.
    #[test]
    fn answers_find_their_requests() {
        let mut scene = Scene::entered(3);
        scene.answers(&accepted(10, b'L'), 100);
        scene.answers(&rejected(11, 0x13), 110);
        scene.answers(&accepted(12, b'D'), 120);
        assert_eq!(scene.live_orders(), [10]);
        scene.tracker.cancel_asked(10, due(500));
        scene.answers(&canceled(10, 100, b'U'), 500);
        assert_eq!(scene.known(), 0);
        assert_eq!(scene.tracker.outstanding(), 0);
        assert_eq!((scene.counts.replies, scene.counts.unanswered), (4, 0));
        assert_eq!(scene.counts.rejects.get(&0x13), Some(&1));
    }

    /// An order that is passed over was lost; a cancel or replace that is passed over came too late.
    #[test]
    fn answer_settles_what_was_before_it() {
        let mut scene = Scene::live(2);
        scene.tracker.cancel_asked(10, due(200));
        scene.tracker.replace_asked(11, 50, due(210));
        scene.tracker.entered(0, true, 100, due(220));
        scene.tracker.entered(0, true, 100, due(230));
        scene.unsolicited(&executed(10, 100));
        scene.unsolicited(&executed(11, 100));
        scene.answers(&accepted(14, b'L'), 230);
        assert_eq!((scene.counts.superfluous, scene.counts.unanswered), (2, 1));
        assert_eq!(scene.live_orders(), [14]);
        assert_eq!(scene.known(), 1);
    }

    /// A cancel that was lost on the way leaves its order live.
    #[test]
    fn lost_cancel_leaves_the_order() {
        let mut scene = Scene::live(1);
        scene.tracker.cancel_asked(10, due(200));
        scene.tracker.query_asked(300);
        scene.unsolicited(&queried(11));
        assert_eq!(scene.live_orders(), [10]);
        assert_eq!(scene.counts.superfluous, 1);
        assert_eq!(scene.tracker.outstanding(), 0);
    }

    /// A replacement takes its original's place, with the executed shares of the chain and the open ones.
    #[test]
    fn replacement_goes_on_with_the_chain() {
        let mut scene = Scene::live(1);
        scene.unsolicited(&executed(10, 30));
        scene.tracker.replace_asked(10, 50, due(200));
        scene.unsolicited(&executed(10, 20));
        scene.answers(&replaced(10, 11, 30), 200);
        let (user_ref_num, order) = scene.tracker.live_at(0);
        assert_eq!((user_ref_num, order.executed, order.leaves), (11, 50, 30));
        assert_eq!(scene.known(), 1);
    }

    /// A replacement that is rejected leaves the original; one that is invalid cancels it.
    #[test]
    fn replacement_may_fail_in_two_ways() {
        let mut scene = Scene::live(2);
        scene.tracker.replace_asked(10, 50, due(200));
        scene.tracker.replace_asked(11, 50, due(210));
        scene.answers(&rejected(12, 0x15), 200);
        scene.answers(&canceled(11, 100, b'U'), 210);
        assert_eq!(scene.live_orders(), [10]);
        assert_eq!(scene.known(), 1);
    }

    /// A cancel that the venue makes unasked is counted, and answers nothing.
    #[test]
    fn unasked_cancels_answer_nothing() {
        let mut scene = Scene::live(2);
        scene.unsolicited(&canceled(10, 40, b'I'));
        scene.unsolicited(&canceled(11, 100, b'S'));
        assert_eq!(scene.tracker.live_at(0).1.leaves, 60);
        assert_eq!(scene.live_orders(), [10]);
        assert_eq!((scene.counts.canceled, scene.counts.replies), (2, 2));
    }

    /// A second answer, and an answer without a request, are counted apart from answers.
    #[test]
    fn odd_answers_are_counted() {
        let mut scene = Scene::live(1);
        scene.unsolicited(&accepted(10, b'L'));
        scene.unsolicited(&accepted(9, b'L'));
        scene.unsolicited(&accepted(11, b'L'));
        assert_eq!((scene.counts.duplicates, scene.counts.unexpected), (1, 2));
        assert!(scene.tracker.receive(b"?", &mut scene.counts).is_err());
    }

    /// The answer to a query from before the run does not settle the run's orders.
    #[test]
    fn old_query_settles_nothing() {
        let mut scene = Scene::entered(2);
        scene.tracker.query_asked(300);
        scene.unsolicited(&queried(10));
        assert!(scene.tracker.is_query_open());
        scene.answers(&accepted(10, b'L'), 100);
        scene.unsolicited(&queried(12));
        assert!(!scene.tracker.is_query_open());
        assert_eq!((scene.counts.unanswered, scene.tracker.outstanding()), (1, 0));
    }

    /// Abandoned requests count as unanswered, the query not.
    #[test]
    fn abandoned_requests_are_unanswered() {
        let mut scene = Scene::entered(3);
        scene.tracker.query_asked(300);
        scene.tracker.abandon(&mut scene.counts);
        assert_eq!((scene.counts.unanswered, scene.tracker.outstanding()), (3, 0));
        assert!(!scene.tracker.is_query_open());
        let given_up: Vec<Times> = scene.tracker.take_unanswered().collect();
        assert_eq!(given_up, [100, 110, 120].map(due));
        assert_eq!(scene.tracker.take_unanswered().count(), 0);
    }
}
