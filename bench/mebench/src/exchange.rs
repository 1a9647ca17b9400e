//! The benchmark as the one participant of an exchange with one instrument.
//!
//! The benchmark chooses any names for its orders and reuses a name once the order is done; a
//! participant numbers its orders upwards. So this participant keeps the usual records of its own
//! orders: the number under which it last entered each, with side and limit, which the answer to a
//! cancel does not repeat, and the name behind each number. Only the engine knows whether an order is live.

use std::collections::BTreeMap;

use engine::{BookView, Engine, PRICE_MAX, QUANTITY_MAX};
use market::{
    AddInstrument, AddSession, CancelOrder, Command, EnterOrder, Event, Firm, Input, InstrumentId,
    OrderKey, Price, Quantity, SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text,
    TimeInForce,
};

use crate::api::{
    BUY, CANCEL_ACK, CANCEL_REJECT, Cancel, MODIFY_ACK, MODIFY_REJECT, Modify, NewOrder, ORDER_ACK,
    Report, SELL, TRADE,
};

/// A tick of the benchmark, half a cent, in ours.
const TICK: Price = Price(50);

const INSTRUMENT_ID: InstrumentId = InstrumentId(1);
const SESSION_ID: SessionId = SessionId(1);

/// The number of orders with room from the start: twice that of the benchmark's scenarios.
const ORDERS_EXPECTED: usize = 1 << 21;

/// Names below this index a table, which grows with them up to 128 MiB; higher names are searched for.
const NAME_NEAR_MAX: u64 = 1 << 24;

/// The exchange and its one participant.
#[derive(Debug)]
pub struct Participant {
    engine: Engine,
    symbol: Symbol,
    /// Orders by the benchmark's name.
    near: Vec<Entered>,
    /// Orders with names too high for the table.
    far: BTreeMap<u64, Entered>,
    /// The benchmark's names, by number; number 0 has no order and no name.
    names: Vec<u64>,
}

/// The last entry of an order, in eight bytes: names come in no order, so each access is likely a cache
/// miss, and should be only one.
#[derive(Clone, Copy, Debug)]
struct Entered {
    /// 0 for a name that no order has had.
    user_ref_num: u32,
    /// Limit in ticks of the benchmark, which [`PRICE_MAX`] bounds, below the side in the top bit.
    side_and_price: u32,
}

const _: () = assert!(size_of::<Entered>() == 8 && PRICE_MAX.0 / TICK.0 < 1 << SIDE_SHIFT);

const SIDE_SHIFT: u32 = 31;

/// The terms of an order, in the exchange's types.
#[derive(Clone, Copy, Debug)]
struct Terms {
    side: Side,
    price: Price,
    quantity: Quantity,
    time_in_force: TimeInForce,
}

impl Participant {
    /// An open exchange with an empty book. All memory that the benchmark's scenarios need here is
    /// allocated now.
    #[must_use]
    pub fn new() -> Self {
        let symbol = Symbol::new("MEBENCH").expect("up to eight characters");
        let mut participant = Self {
            engine: Engine::new(),
            symbol,
            near: vec![Entered::NEVER; ORDERS_EXPECTED],
            far: BTreeMap::new(),
            names: Vec::new(),
        };
        // Written once, so that the operating system provides the memory.
        participant.names.resize(ORDERS_EXPECTED, u64::MAX);
        participant.names.truncate(1);

        let add_instrument =
            AddInstrument { symbol, price_increment: TICK, round_lot: Quantity(1) };
        let add_session = AddSession {
            username: Text::new("BENCH").expect("up to six characters"),
            firm: Firm::new("BNCH").expect("up to four characters"),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        };
        for command in [
            Command::AddInstrument(add_instrument),
            Command::AddSession(add_session),
            Command::System(SystemEvent::StartOfSystemHours),
        ] {
            apply(&mut participant.engine, command, |_| {});
        }
        participant
    }

    /// Enters an order. Reports an acknowledgment, its trades, and a cancellation of the remainder of
    /// an immediate-or-cancel order.
    ///
    /// There is no report for an order whose terms the rules do not allow, so nothing is reported and
    /// nothing changes. A name belongs to the order entered last. The benchmark promises that no other
    /// live order has the name, as a participant promises that its numbers rise.
    pub fn enter(&mut self, order: &NewOrder, report: impl FnMut(&Report)) {
        let &NewOrder { order_id, sequence_number, price_ticks, quantity, side, .. } = order;
        let time_in_force = match order.ioc {
            0 => TimeInForce::Day,
            _ => TimeInForce::ImmediateOrCancel,
        };
        let Some(terms) = Terms::new(side, price_ticks, quantity, time_in_force) else { return };
        let acknowledgment = Report {
            report_type: ORDER_ACK,
            side,
            sequence_number,
            order_id,
            price_ticks,
            quantity,
            ..Report::default()
        };
        self.enter_terms(terms, &acknowledgment, report);
    }

    /// Cancels an order. Reports an acknowledgment if the order rested, else a rejection.
    pub fn cancel(&mut self, cancel: &Cancel, mut report: impl FnMut(&Report)) {
        let &Cancel { order_id, sequence_number } = cancel;
        let answer = match self.cancel_resting(order_id) {
            Some(entered) => Report {
                report_type: CANCEL_ACK,
                side: entered.side(),
                sequence_number,
                order_id,
                price_ticks: entered.price_ticks(),
                ..Report::default()
            },
            None => rejection(CANCEL_REJECT, sequence_number, order_id),
        };
        report(&answer);
    }

    /// Cancels an order and enters it again, behind all other orders at its new price. Reports an
    /// acknowledgment and its trades if the order rested, else a rejection.
    ///
    /// This takes two commands, because a replace names the quantity of the whole chain of orders and
    /// the benchmark names the lots open from now on. Terms that the rules do not allow are rejected
    /// before the first command, so that the order stays as it is.
    pub fn modify(&mut self, modify: &Modify, mut report: impl FnMut(&Report)) {
        let &Modify { order_id, sequence_number, .. } = modify;
        let &Modify { new_price_ticks, new_quantity, side, .. } = modify;
        let terms = Terms::new(side, new_price_ticks, new_quantity, TimeInForce::Day);
        let Some(terms) = terms.filter(|_| self.cancel_resting(order_id).is_some()) else {
            return report(&rejection(MODIFY_REJECT, sequence_number, order_id));
        };
        let acknowledgment = Report {
            report_type: MODIFY_ACK,
            side,
            sequence_number,
            order_id,
            price_ticks: new_price_ticks,
            quantity: new_quantity,
            ..Report::default()
        };
        self.enter_terms(terms, &acknowledgment, report);
    }

    /// The best bid, in ticks of the benchmark.
    #[must_use]
    pub fn best_bid(&self) -> Option<i64> {
        self.book().best_bid().map(ticks)
    }

    /// The best ask, in ticks of the benchmark.
    #[must_use]
    pub fn best_ask(&self) -> Option<i64> {
        self.book().best_ask().map(ticks)
    }

    /// All open lots at a price; 0 for a price or side that no order can have.
    #[must_use]
    pub fn depth_at(&self, price_ticks: i64, side: u8) -> u64 {
        let Some(price) = price(price_ticks) else { return 0 };
        let level = match side {
            BUY => self.book().bid_levels().find(|level| level.price <= price),
            SELL => self.book().ask_levels().find(|level| price <= level.price),
            _ => None,
        };
        level.filter(|level| level.price == price).map_or(0, |level| level.leaves.0)
    }

    /// Enters an order under the next number; the acknowledgment names it.
    fn enter_terms(
        &mut self,
        terms: Terms,
        acknowledgment: &Report,
        mut report: impl FnMut(&Report),
    ) {
        let user_ref_num =
            u32::try_from(self.names.len()).expect("a day has fewer than 2³² orders");
        let Report { side, order_id, .. } = *acknowledgment;
        self.names.push(order_id);
        *self.entered_mut(order_id) = Entered::new(user_ref_num, side, terms.price);

        let key = key(user_ref_num);
        let order = EnterOrder::limit(key, terms.side, self.symbol, terms.quantity, terms.price);
        let command = Command::Enter(EnterOrder { time_in_force: terms.time_in_force, ..order });
        let Self { engine, names, .. } = self;
        apply(engine, command, |event| match event {
            Event::Accepted(_) => report(acknowledgment),
            Event::Traded(traded) => report(&Report {
                report_type: TRADE,
                price_ticks: ticks(traded.price),
                quantity: lots(traded.quantity),
                maker_order_id: names[traded.maker.key.user_ref_num as usize],
                taker_order_id: order_id,
                ..*acknowledgment
            }),
            Event::Canceled(canceled) => report(&Report {
                report_type: CANCEL_ACK,
                quantity: lots(canceled.quantity),
                ..*acknowledgment
            }),
            Event::Booked(_) => {}
            other => panic!("terms were checked and the number is new, yet: {other:?}"),
        });
    }

    /// Cancels all open lots of an order; returns its last entry, if it rested.
    fn cancel_resting(&mut self, order_id: u64) -> Option<Entered> {
        let entered = self.entered(order_id)?;
        let mut rested = false;
        let key = key(entered.user_ref_num);
        let command = Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO });
        apply(&mut self.engine, command, |event| match event {
            Event::Canceled(_) => rested = true,
            other => panic!("a cancel answers nothing else, yet: {other:?}"),
        });
        rested.then_some(entered)
    }

    /// The last entry of the order with this name; `None` if there was none.
    fn entered(&self, order_id: u64) -> Option<Entered> {
        if order_id < NAME_NEAR_MAX {
            self.near.get(order_id as usize).filter(|entered| entered.user_ref_num != 0).copied()
        } else {
            self.far.get(&order_id).copied()
        }
    }

    fn entered_mut(&mut self, order_id: u64) -> &mut Entered {
        if NAME_NEAR_MAX <= order_id {
            return self.far.entry(order_id).or_insert(Entered::NEVER);
        }
        let index = order_id as usize;
        if self.near.len() <= index {
            self.near.resize(index + 1, Entered::NEVER);
        }
        &mut self.near[index]
    }

    fn book(&self) -> BookView<'_> {
        self.engine.book(INSTRUMENT_ID).expect("it was added first")
    }
}

impl Default for Participant {
    fn default() -> Self {
        Self::new()
    }
}

impl Entered {
    const NEVER: Self = Self { user_ref_num: 0, side_and_price: u32::MAX };

    fn new(user_ref_num: u32, side: u8, price: Price) -> Self {
        let side_and_price = u32::from(side) << SIDE_SHIFT | (price.0 / TICK.0) as u32;
        Self { user_ref_num, side_and_price }
    }

    fn side(self) -> u8 {
        (self.side_and_price >> SIDE_SHIFT) as u8
    }

    fn price_ticks(self) -> i64 {
        i64::from(self.side_and_price & !(1 << SIDE_SHIFT))
    }
}

impl Terms {
    /// `None` for terms that the rules of the exchange do not allow: rules 5.3 and 5.4.
    fn new(side: u8, price_ticks: i64, quantity: u32, time_in_force: TimeInForce) -> Option<Self> {
        let side = match side {
            BUY => Side::Buy,
            SELL => Side::Sell,
            _ => return None,
        };
        let price = price(price_ticks)?;
        let quantity = Quantity(u64::from(quantity));
        let allowed = Quantity::ZERO < quantity && quantity <= QUANTITY_MAX;
        allowed.then_some(Self { side, price, quantity, time_in_force })
    }
}

/// Sequences a command and applies it, with all its steps: an order that trades with many orders does so in steps of
/// bounded length, one at each input. The benchmark has no time of day, so time passes only for these steps.
fn apply(engine: &mut Engine, command: Command, mut emit: impl FnMut(Event)) {
    let mut next = Some((engine.timestamp(), command));
    while let Some((timestamp, command)) = next {
        let sequence = engine.sequence().next();
        engine.apply(&Input { sequence, timestamp, command }, &mut emit);
        next = engine.due().map(|due| (due, Command::Time));
    }
}

fn key(user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SESSION_ID, channel: 0, user_ref_num }
}

fn rejection(report_type: u8, sequence_number: u64, order_id: u64) -> Report {
    Report { report_type, sequence_number, order_id, ..Report::default() }
}

/// A price that an order may have, from ticks of the benchmark.
fn price(price_ticks: i64) -> Option<Price> {
    let price = Price(u64::try_from(price_ticks).ok()?.checked_mul(TICK.0)?);
    (Price::ZERO < price && price <= PRICE_MAX).then_some(price)
}

/// A price in ticks of the benchmark.
fn ticks(price: Price) -> i64 {
    (price.0 / TICK.0) as i64
}

/// A quantity as the benchmark counts it; [`QUANTITY_MAX`] fits.
fn lots(quantity: Quantity) -> u32 {
    quantity.0 as u32
}
