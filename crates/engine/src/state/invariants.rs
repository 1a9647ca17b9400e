//! The state hash and the invariants of the whole state. Each function walks over all of it: for snapshots, tools and
//! tests, where no order waits.

use alloc::vec::Vec;

use market::{OrderId, Phase, Price, SessionId, Side};

use crate::{
    BookView, Engine,
    book::instrument_hash,
    contingent::instructions::{ContingentId, State},
    intake::session::{channel_hash, firm_disabled_hash},
    operator::{requests::Operators, venue_commands::block_hash},
    order::{ForAuction, Order},
    state::{hash::StateHash, view::queue},
};

impl Engine {
    /// The state hash: equal for engines with equal states, however reached. Different states
    /// collide with a probability of about 2⁻⁶⁴. A walk over the whole state: it costs some
    /// nanoseconds for each live order, balance and kept trade.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut sum = StateHash::default();
        for book in &self.books {
            sum.add(instrument_hash(book.instrument()));
            sum.add(book.trading.hash(book.instrument().instrument_id));
        }
        for session in self.sessions.iter() {
            sum.add(session.hash());
            for (channel, last) in session.user_ref_nums_last() {
                sum.add(channel_hash(session.session_id(), channel, last));
            }
            for &firm in session.firms_disabled() {
                sum.add(firm_disabled_hash(session.session_id(), firm));
            }
        }
        self.blocks.iter().for_each(|block| sum.add(block_hash(block)));
        self.operators.last.iter().for_each(|last| sum.add(last.hash()));
        self.operators.held.iter().for_each(|setting| sum.add(setting.hash()));
        self.trades.add_hashes(&mut sum);
        // Resting and waiting orders.
        for slot in self.live_slots() {
            let order = &self.pool[slot].order;
            sum.add(order.hash());
            if order.is_iceberg() && !order.is_for_auction() && self.is_booked_as(slot, order) {
                sum.add(self.icebergs.get(slot).hash(order.order_id()));
            }
        }
        for book in &self.books {
            if let Some(count) = &book.count {
                sum.add(count.counted.hash(book.instrument().instrument_id));
            }
        }
        self.money.add_hashes(&mut sum);
        self.pending_cancels.add_hashes(&mut sum);
        self.auction_line.add_hashes(&mut sum);
        self.half_matched.add_hashes(&mut sum);
        for id in self.contingents.iter() {
            sum.add(self.contingents[id].hash());
        }
        for triggers in &self.triggers {
            triggers.add_hashes(&self.contingents, &mut sum);
        }
        self.contingents.minimum_quantity_orders.add_hashes(&mut sum);
        sum.finish([
            self.sequence.0,
            self.timestamp.0,
            self.day.last().map_or(0, |event| u64::from(event.code())),
            self.order_id_last.0,
            self.trade_id_last.0,
            self.orders_accepted,
            self.auctions_held,
        ])
    }

    /// Checks the state after a command: books, queues, indexes and counts agree.
    ///
    /// # Panics
    /// An invariant does not hold, which is a fault of the engine, never of a command.
    pub fn check_invariants(&self) {
        let mut resting_count = 0;
        for book in &self.books {
            book.check();
            let view = BookView { engine: self, book };
            resting_count += self.check_side(view, Side::Buy) + self.check_side(view, Side::Sell);
            resting_count += self.check_auction(view);
        }
        let waiting_count = self.check_standings();
        let live = resting_count + waiting_count;
        assert_eq!(live, self.pool.live_count() as usize, "every order is in one queue, or waits");
        assert_eq!(live + self.pool.free_count(), self.pool.slot_count());

        let mut live_count = 0;
        for (session, number) in self.sessions.iter().zip(1..) {
            assert_eq!(session.session_id(), SessionId(number));
            session.check();
            for (key, slot) in session.iter_live() {
                assert_eq!(self.pool[slot].order.key, key, "a number names its own order");
                live_count += 1;
            }
        }
        assert_eq!(live_count, live, "a session knows each of its orders");
        let live = self.sessions.iter().flat_map(|session| session.iter_live());
        let without_limit = |order: &Order| {
            let mut half_matched = self.half_matched.iter();
            half_matched.find(|(_, it)| it.key == order.key).map_or(0, |(_, it)| it.reserved)
        };
        let live = live.map(|(_, slot)| &self.pool[slot].order);
        self.money.check_orders(live.map(|order| (order, without_limit(order))));
        let icebergs = self
            .sessions
            .iter()
            .flat_map(|it| it.iter_live())
            .map(|(_, slot)| slot)
            .filter(|slot| self.pool[*slot].order.is_iceberg());
        assert_eq!(icebergs.count(), self.icebergs.len(), "each reserve order has its part");
        assert!(self.found.is_empty());
        self.check_pending_cancels();
        self.check_auction_line();
        self.check_half_matched();
        self.trades.check();
        assert!(self.blocks.is_sorted_by(|one, other| one < other), "{:?}", self.blocks);
        let Operators { last, held } = &self.operators;
        assert!(last.is_sorted_by(|one, other| one.operator < other.operator), "{last:?}");
        assert!(held.is_sorted_by(|one, other| one < other), "{held:?}");
        let due =
            self.books.ids().filter_map(|id| Some((self.books[id].trading.auction_due_ns()?, id)));
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        assert!(due.iter().eq(&self.auctions), "{due:?}");
        assert_eq!(due.first().map_or(u64::MAX, |(due_ns, _)| *due_ns), self.auctions_due_ns);
        for book in &self.books {
            let Some(count) = &book.count else { continue };
            assert_eq!(book.is_counted, !count.counted.is_begin());
            count.check(book, &self.pool);
        }
    }

    /// Checks that the orders that wait to be canceled are those in line, each once, and that remaining
    /// work has a time at which it continues.
    fn check_pending_cancels(&self) {
        let in_line = self.pending_cancels.orders().chain(self.auction_line.held.orders());
        let in_line = in_line.filter_map(|pending| self.find(pending.key));
        let mut in_line: Vec<_> = in_line.collect();
        assert!(in_line.iter().all(|slot| self.pool[*slot].order.is_leaving()));
        in_line.sort_unstable_by_key(|slot| slot.to_bits());
        // One that waited already may be held as expired, too.
        in_line.dedup_by(|one, other| one == other && self.expired(*one).is_some());
        let in_line_count = in_line.len();
        in_line.dedup();
        let live = self.sessions.iter().flat_map(|it| it.iter_live());
        let leaving_count = live.filter(|(_, slot)| self.pool[*slot].order.is_leaving()).count();
        assert_eq!((in_line.len(), leaving_count), (in_line_count, in_line_count));
        let resumes_ns = self.contingents.expiries.resumes_ns();
        assert_eq!(resumes_ns != u64::MAX, self.has_left_over());
    }

    /// Checks the auction-only orders; returns their number.
    fn check_auction(&self, view: BookView<'_>) -> usize {
        let instrument_id = view.instrument().instrument_id;
        let trading = &view.book.trading;
        let mut settled = *trading;
        settled.settle();
        assert_eq!(*trading, settled);
        let mut order_count = 0;
        for side in [Side::Buy, Side::Sell] {
            for oldest in view.book.auction_levels(side) {
                let first = self.pool[oldest].order;
                let may_wait = match trading.phase {
                    Phase::Continuous => {
                        matches!(first.for_auction(), ForAuction::Close | ForAuction::Next)
                    }
                    Phase::Closed => false,
                    _ => true,
                };
                let mut order_id_older = OrderId(0);
                for slot in queue(self, oldest) {
                    let order = &self.pool[slot].order;
                    order.check();
                    assert!(!order.is_done() && order.for_auction() != ForAuction::No, "{order:?}");
                    let is_going = || order.is_leaving() || self.is_ending(order);
                    assert!(may_wait || trading.is_removed || is_going(), "{order:?}");
                    assert!(!order.is_iceberg() && self.shown(slot).is_zero(), "{order:?}");
                    assert_eq!(
                        (order.instrument_id, order.price()),
                        (instrument_id, first.price())
                    );
                    assert_eq!(order.side().is_buy(), side.is_buy());
                    assert_eq!(
                        order.for_auction().time_in_force(),
                        first.for_auction().time_in_force()
                    );
                    assert!(order_id_older < order.order_id(), "{order:?} is younger");
                    order_id_older = order.order_id();
                    order_count += 1;
                }
            }
        }
        assert!(order_count == 0 || !trading.is_removed || self.has_cancels_left());
        order_count
    }

    /// Checks the contingent orders; returns the number of those outside the book.
    fn check_standings(&self) -> usize {
        self.contingents.check();
        let mut held_count = 0;
        let mut for_trigger_count = 0;
        let mut for_reference_count = 0;
        let mut for_quantity_count = 0;
        let mut triggered_count = 0;
        let mut for_auction_count = 0;
        let mut expiring_count = 0;
        for id in self.contingents.iter() {
            let contingent = &self.contingents[id];
            let order = &self.pool[contingent.slot].order;
            assert!(order.is_contingent() && order.key == contingent.key && !order.is_done());
            held_count += usize::from(contingent.state == State::ForParent);
            for_trigger_count += usize::from(contingent.state == State::ForTrigger);
            for_reference_count += usize::from(contingent.state == State::ForReference);
            assert_eq!(contingent.instrument_id, order.instrument_id);
            if contingent.instructions.pricing.is_pegged() {
                let is_apart = matches!(contingent.state, State::ForParent | State::HalfMatched);
                assert!(self.books[order.instrument_id].is_pegged || is_apart);
                assert!(
                    !order.display().is_displayed() && order.for_auction() == ForAuction::No,
                    "{order:?}"
                );
                let has_price = match contingent.state {
                    State::ForParent => order.price() == Price::ZERO,
                    State::HalfMatched => order.price() != Price::ZERO,
                    _ => self.is_priced(order, id),
                };
                assert!(has_price, "{order:?} follows");
                let is_priceless = order.price() == Price::ZERO;
                let has_price = matches!(contingent.state, State::Resting | State::HalfMatched);
                assert_eq!(has_price, !is_priceless, "{contingent:?}");
            } else {
                assert!(contingent.limit == Price::ZERO && contingent.state != State::ForReference);
            }
            for_quantity_count += usize::from(contingent.state == State::ForQuantity);
            assert_eq!(contingent.state == State::ForParent, !contingent.parent_id.is_none());
            let number =
                |it: ContingentId| it.some().map_or(0, |it| self.contingents[it].key.user_ref_num);
            assert_eq!(contingent.instructions.parent, number(contingent.parent_id));
            assert_eq!(contingent.instructions.partner, number(contingent.partner_id));
            if let Some(partner_id) = contingent.partner_id.some() {
                assert_eq!(self.contingents[partner_id].partner_id, id, "two are partners");
            }
            if contingent.instructions.expires_s != 0 {
                let is_listed = self.contingents.expiries.has(contingent.moment());
                assert!(is_listed || order.is_leaving(), "{contingent:?} expires");
                expiring_count += usize::from(is_listed);
            }
            for_auction_count += usize::from(contingent.state == State::ForAuction);
            triggered_count += usize::from(contingent.state == State::Triggered);
            let waits = [State::ForTrigger, State::ForParent, State::Triggered];
            if !waits.contains(&contingent.state) {
                assert!(!contingent.instructions.pricing.is_triggered(), "{contingent:?} waits");
            }
            if !contingent.is_resting() {
                order.check();
            }
        }
        assert_eq!(expiring_count, self.contingents.expiries.len(), "each order expires once");
        for pending in self.auction_line.held.orders() {
            let id = self.find(pending.key).and_then(|slot| self.contingents.find(slot));
            let moment = id.map(|id| self.contingents[id].moment());
            assert!(!moment.is_some_and(|it| self.contingents.expiries.has(it)), "{pending:?}");
        }
        let triggers = self.triggers.iter();
        let triggered = triggers.map(|triggers| triggers.check(&self.contingents)).sum();
        assert_eq!(for_trigger_count, triggered, "what waits for a trigger is found by it");
        let minimum_quantity_orders =
            self.books.iter().map(|book| self.check_minimum_quantity(book)).sum();
        assert_eq!(
            for_quantity_count, minimum_quantity_orders,
            "what waits for quantity is found by its book"
        );
        let waiting = self.auction_line.waiting.values().map(|orders| orders.by_id.len());
        assert_eq!(for_auction_count, waiting.sum::<usize>());
        let outside = held_count + for_trigger_count + triggered_count + for_auction_count;
        outside + for_reference_count + for_quantity_count + self.half_matched.len()
    }

    /// Checks the queues of one side; returns the number of their orders.
    fn check_side(&self, view: BookView<'_>, side: Side) -> usize {
        let instrument_id = view.instrument().instrument_id;
        let mut order_count = 0;
        for (price, oldest) in view.levels(side) {
            let displayed = self.pool[oldest].order.display().is_displayed();
            let mut older = None;
            let mut order_id_older = OrderId(0);
            for slot in queue(self, oldest) {
                let resting = &self.pool[slot];
                let order = &resting.order;
                order.check();
                assert!(!order.is_done(), "{order:?} rests with nothing open");
                let shown = self.shown(slot);
                assert_eq!(order.display().is_displayed(), !shown.is_zero(), "{order:?}");
                assert!(
                    shown <= order.leaves()
                        && (order.is_iceberg() || displayed == (shown == order.leaves()))
                );
                assert_eq!(order.instrument_id, instrument_id);
                assert!(self.is_booked(slot), "{order:?} does not wait");
                assert_eq!(order.side().is_buy(), side.is_buy());
                assert_eq!((order.price(), order.for_auction()), (price, ForAuction::No));
                assert_eq!(order.display().is_displayed(), displayed);
                assert!(order_id_older < order.order_id(), "{order:?} is younger");
                assert_eq!(Some(resting.older).filter(|slot| !slot.is_none()), older);
                older = Some(slot);
                order_id_older = order.order_id();
                order_count += 1;
            }
        }
        order_count
    }
}
