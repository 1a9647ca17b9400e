//! What must hold of the whole state, found out by walking all of it: for tests and the simulator.

use market::{OrderId, SessionId, Side};

use crate::{
    BookView, Engine,
    hash::{self, StateHash},
    view::queue,
};

impl Engine {
    /// What [`state_hash`](Self::state_hash) must be, from every element of the state.
    #[must_use]
    pub fn state_hash_slow(&self) -> u64 {
        let mut sum = StateHash::default();
        for book in &self.books {
            sum.add(hash::instrument(book.instrument()));
        }
        for session in self.sessions.iter() {
            sum.add(hash::session(session));
            for (channel, last) in session.user_ref_nums_last() {
                let key = hash::channel_key(session.session_id(), channel);
                sum.add(hash::channel(key, last));
            }
            for &firm in session.firms_disabled() {
                sum.add(hash::firm_disabled(session.session_id(), firm));
            }
        }
        for book in &self.books {
            let view = BookView { engine: self, book };
            for side in [Side::Buy, Side::Sell] {
                for slot in view.levels(side).flat_map(|(_, oldest)| queue(self, oldest)) {
                    let order = &self.pool[slot].order;
                    sum.add(hash::order(order));
                    if order.is_reserve {
                        sum.add(hash::reserve(order.order_id, &self.reserves.get(slot)));
                    }
                }
            }
        }
        self.money.add_hashes(&mut sum);
        self.hash_with(sum)
    }

    /// Asserts what holds after every command: books, queues, indexes and counts agree.
    ///
    /// # Panics
    /// Something does not hold. That is a fault of the engine, never of a command.
    pub fn check_invariants(&self) {
        let mut resting_count = 0;
        for book in &self.books {
            book.check();
            let view = BookView { engine: self, book };
            resting_count += self.check_side(view, Side::Buy) + self.check_side(view, Side::Sell);
        }
        assert_eq!(resting_count, self.pool.live_count() as usize, "every order is in one queue");
        assert_eq!(resting_count + self.pool.free_count(), self.pool.slot_count());

        let mut live_count = 0;
        for (session, number) in self.sessions.iter().zip(1..) {
            assert_eq!(session.session_id(), SessionId(number));
            session.check();
            for (key, slot) in session.iter_live() {
                assert_eq!(self.pool[slot].order.key, key, "a number names its own order");
                live_count += 1;
            }
        }
        assert_eq!(live_count, resting_count, "a session knows each of its orders");
        let live = self.sessions.iter().flat_map(|session| session.iter_live());
        self.money.check_orders(live.map(|(_, slot)| &self.pool[slot].order));
        let reserves = self
            .sessions
            .iter()
            .flat_map(|it| it.iter_live())
            .map(|(_, slot)| slot)
            .filter(|slot| self.pool[*slot].order.is_reserve);
        assert_eq!(reserves.count(), self.reserves.len(), "each reserve order has its part");
        assert!(self.found.is_empty());
    }

    /// Asserts what holds of the queues of one side; says how many orders are in them.
    fn check_side(&self, view: BookView<'_>, side: Side) -> usize {
        let instrument_id = view.instrument().instrument_id;
        let mut order_count = 0;
        for (price, oldest) in view.levels(side) {
            let displayed = self.pool[oldest].order.display.is_displayed();
            let mut older = None;
            let mut order_id_older = OrderId(0);
            for slot in queue(self, oldest) {
                let resting = &self.pool[slot];
                let order = &resting.order;
                order.check();
                assert!(!order.is_done(), "{order:?} rests with nothing open");
                let shown = self.shown(slot);
                assert_eq!(order.display.is_displayed(), !shown.is_zero(), "{order:?}");
                assert!(
                    shown <= order.leaves()
                        && (order.is_reserve || displayed == (shown == order.leaves()))
                );
                assert_eq!(order.instrument_id, instrument_id);
                assert_eq!(order.side.is_buy(), side.is_buy());
                assert_eq!(order.price(), price);
                assert_eq!(order.display.is_displayed(), displayed);
                assert!(order_id_older < order.order_id, "{order:?} is younger");
                assert_eq!(Some(resting.older).filter(|slot| !slot.is_none()), older);
                older = Some(slot);
                order_id_older = order.order_id;
                order_count += 1;
            }
        }
        order_count
    }
}
