//! Small days through the exported functions, as the benchmark calls them: the reports, and the book
//! after them.
#![allow(unsafe_code, reason = "the functions are those of a C interface")]

use std::{
    ffi::{c_int, c_void},
    mem, ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use damrak_mebench::{
    abi::{
        Transport, engine_flush, engine_init, engine_on_cancel, engine_on_modify,
        engine_on_new_order, engine_query_best_ask, engine_query_best_bid, engine_query_depth_at,
        engine_shutdown,
    },
    api::{
        BUY, CANCEL_ACK, CANCEL_REJECT, Cancel, MODIFY_ACK, MODIFY_REJECT, Modify, NewOrder,
        ORDER_ACK, Report, SELL, TRADE,
    },
};

/// The exchange of the process, used by one test at a time.
struct Exchange {
    messages: u64,
    _alone: MutexGuard<'static, ()>,
}

/// The reports of the process's exchange.
struct Sink {
    reports: Vec<Report>,
    /// The number of times in a row that the sink is full, before each report.
    full_times: u32,
    refused: u32,
}

static ALONE: Mutex<()> = Mutex::new(());
static SINK: Mutex<Sink> = Mutex::new(Sink { reports: Vec::new(), full_times: 0, refused: 0 });

static TRANSPORT: Transport = Transport { create, push, drain, flush, destroy };

unsafe extern "C" fn create(_capacity: u32) -> *mut c_void {
    ptr::null_mut()
}

unsafe extern "C" fn push(_handle: *mut c_void, report: *const Report) -> c_int {
    let mut sink = sink();
    if sink.refused < sink.full_times {
        sink.refused += 1;
        return 0;
    }
    sink.refused = 0;
    // SAFETY: the caller lends a report for the call.
    sink.reports.push(unsafe { *report });
    1
}

unsafe extern "C" fn drain(_handle: *mut c_void, _out: *mut Report, _max: u32) -> u32 {
    unreachable!("the exchange only puts reports in")
}

unsafe extern "C" fn flush(_handle: *mut c_void) {}

unsafe extern "C" fn destroy(_handle: *mut c_void) {}

fn sink() -> MutexGuard<'static, Sink> {
    SINK.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    fn open() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        *sink() = Sink { reports: Vec::new(), full_times: 0, refused: 0 };
        // SAFETY: the lock keeps other tests out until the exchange is closed; the transport is a
        // static and takes any handle.
        unsafe { engine_init(7, &raw const TRANSPORT, (TRANSPORT.create)(1)) };
        Self { messages: 0, _alone: alone }
    }

    fn order(&mut self, order_id: u64, side: u8, quantity: u32, price_ticks: i64) -> Vec<Report> {
        self.enter(NewOrder { order_id, side, quantity, price_ticks, ..NewOrder::default() })
    }

    fn ioc(&mut self, order_id: u64, side: u8, quantity: u32, price_ticks: i64) -> Vec<Report> {
        self.enter(NewOrder {
            order_id,
            side,
            quantity,
            price_ticks,
            ioc: 1,
            ..NewOrder::default()
        })
    }

    fn enter(&mut self, order: NewOrder) -> Vec<Report> {
        let order = NewOrder { sequence_number: self.next(), ..order };
        // SAFETY: the exchange is open, this test is alone, and the order is borrowed here.
        unsafe { engine_on_new_order(&raw const order) };
        self.reports()
    }

    fn cancel(&mut self, order_id: u64) -> Vec<Report> {
        let cancel = Cancel { order_id, sequence_number: self.next() };
        // SAFETY: the exchange is open, this test is alone, and the cancel is borrowed here.
        unsafe { engine_on_cancel(&raw const cancel) };
        self.reports()
    }

    fn modify(
        &mut self,
        order_id: u64,
        side: u8,
        new_quantity: u32,
        new_price_ticks: i64,
    ) -> Vec<Report> {
        let sequence_number = self.next();
        let reserved = [0; 3];
        let modify =
            Modify { order_id, sequence_number, new_price_ticks, new_quantity, side, reserved };
        // SAFETY: the exchange is open, this test is alone, and the modify is borrowed here.
        unsafe { engine_on_modify(&raw const modify) };
        self.reports()
    }

    /// Best bid and best ask.
    fn best(&self) -> (i64, i64) {
        // SAFETY: the exchange is open and this test is alone.
        unsafe { (engine_query_best_bid(), engine_query_best_ask()) }
    }

    fn depth(&self, price_ticks: i64, side: u8) -> u64 {
        // SAFETY: the exchange is open and this test is alone.
        unsafe { engine_query_depth_at(price_ticks, side) }
    }

    fn next(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// The reports that the last message caused.
    fn reports(&mut self) -> Vec<Report> {
        engine_flush();
        let reports = mem::take(&mut sink().reports);
        assert!(
            reports.iter().all(|report| report.sequence_number == self.messages),
            "{reports:?}"
        );
        reports
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // SAFETY: this test is alone until the lock is given back.
        unsafe { engine_shutdown() };
    }
}

/// The fields that the benchmark examines: kind, order, side, price, quantity.
fn said(reports: &[Report]) -> Vec<(u8, u64, u8, i64, u32)> {
    let of = |it: &Report| (it.report_type, it.order_id, it.side, it.price_ticks, it.quantity);
    reports.iter().map(of).collect()
}

/// Maker, taker, price, quantity of each trade.
fn trades(reports: &[Report]) -> Vec<(u64, u64, i64, u32)> {
    let trades = reports.iter().filter(|it| it.report_type == TRADE);
    trades.map(|it| (it.maker_order_id, it.taker_order_id, it.price_ticks, it.quantity)).collect()
}

const EMPTY: (i64, i64) = (i64::MIN, i64::MAX);

/// An order is acknowledged and rests; a crossing order trades at its price, and the remainder rests.
#[test]
fn orders_trade_at_the_price_of_the_maker() {
    let mut exchange = Exchange::open();
    assert_eq!(exchange.best(), EMPTY);
    assert_eq!(said(&exchange.order(1, SELL, 10, 100)), [(ORDER_ACK, 1, SELL, 100, 10)]);
    exchange.order(2, SELL, 10, 100);
    assert_eq!((exchange.best(), exchange.depth(100, SELL)), ((i64::MIN, 100), 20));

    let reports = exchange.order(3, BUY, 25, 105);
    assert_eq!(said(&reports)[0], (ORDER_ACK, 3, BUY, 105, 25));
    assert_eq!(trades(&reports), [(1, 3, 100, 10), (2, 3, 100, 10)]);
    assert_eq!((reports.len(), exchange.best()), (3, (105, i64::MAX)));
    assert_eq!((exchange.depth(105, BUY), exchange.depth(100, SELL)), (5, 0));
}

/// The remainder of an immediate-or-cancel order is canceled, and the cancel is reported.
#[test]
fn what_is_left_of_an_ioc_is_canceled() {
    let mut exchange = Exchange::open();
    exchange.order(1, BUY, 4, 100);
    let reports = exchange.ioc(2, SELL, 10, 100);
    assert_eq!(trades(&reports), [(1, 2, 100, 4)]);
    assert_eq!(said(&reports)[2], (CANCEL_ACK, 2, SELL, 100, 6));
    assert_eq!((reports.len(), exchange.best()), (3, EMPTY));
    assert_eq!(said(&exchange.cancel(2)), [(CANCEL_REJECT, 2, BUY, 0, 0)]);
}

/// A cancel is acknowledged with the side and the price that the order has, once.
#[test]
fn an_order_is_canceled_once() {
    let mut exchange = Exchange::open();
    exchange.order(5, SELL, 10, 120);
    exchange.modify(5, SELL, 11, 119);
    assert_eq!(said(&exchange.cancel(5)), [(CANCEL_ACK, 5, SELL, 119, 0)]);
    assert_eq!(said(&exchange.cancel(5)), [(CANCEL_REJECT, 5, BUY, 0, 0)]);
    assert_eq!(said(&exchange.modify(5, SELL, 9, 119)), [(MODIFY_REJECT, 5, BUY, 0, 0)]);
    assert_eq!(exchange.best(), EMPTY);
}

/// A modify names the lots open from now on, whatever was executed; the order goes behind the other orders.
#[test]
fn a_modify_enters_the_order_again() {
    let mut exchange = Exchange::open();
    exchange.order(1, BUY, 10, 100);
    exchange.order(2, BUY, 10, 100);
    exchange.ioc(3, SELL, 4, 100);
    assert_eq!(said(&exchange.modify(1, BUY, 7, 100)), [(MODIFY_ACK, 1, BUY, 100, 7)]);
    assert_eq!(exchange.depth(100, BUY), 17);
    assert_eq!(trades(&exchange.ioc(4, SELL, 12, 100)), [(2, 4, 100, 10), (1, 4, 100, 2)]);
}

/// A modify that crosses trades at the makers' prices; the order is its own taker's name.
#[test]
fn a_modify_may_trade() {
    let mut exchange = Exchange::open();
    exchange.order(1, SELL, 10, 100);
    exchange.order(2, BUY, 15, 90);
    let reports = exchange.modify(2, BUY, 15, 105);
    assert_eq!(said(&reports)[0], (MODIFY_ACK, 2, BUY, 105, 15));
    assert_eq!(trades(&reports), [(1, 2, 100, 10)]);
    assert_eq!((exchange.best(), exchange.depth(105, BUY)), ((105, i64::MAX), 5));
}

/// A name is free once its order is done, by a trade or by a cancel.
#[test]
fn names_are_used_again() {
    let mut exchange = Exchange::open();
    exchange.order(1, BUY, 10, 100);
    exchange.cancel(1);
    exchange.order(1, BUY, 10, 100);
    exchange.order(2, SELL, 10, 100);
    assert_eq!(said(&exchange.order(1, SELL, 10, 200)), [(ORDER_ACK, 1, SELL, 200, 10)]);
    assert_eq!(trades(&exchange.ioc(2, BUY, 3, 200)), [(1, 2, 200, 3)]);
}

/// Two live orders of one name, which the benchmark promises not to enter, both rest and trade; the name
/// means the later one.
#[test]
fn a_name_means_the_later_order() {
    let mut exchange = Exchange::open();
    exchange.order(1, BUY, 10, 100);
    exchange.order(1, BUY, 5, 101);
    assert_eq!(said(&exchange.cancel(1)), [(CANCEL_ACK, 1, BUY, 101, 0)]);
    assert_eq!(said(&exchange.cancel(1)), [(CANCEL_REJECT, 1, BUY, 0, 0)]);
    assert_eq!(trades(&exchange.ioc(2, SELL, 10, 100)), [(1, 2, 100, 10)]);
}

/// Any number is a name, also one too high for a table; unknown names are rejected.
#[test]
fn names_are_any_numbers() {
    let mut exchange = Exchange::open();
    let names = [0, 3_000_000, 1 << 24, u64::MAX];
    for name in names {
        assert_eq!(said(&exchange.cancel(name))[0].0, CANCEL_REJECT);
        assert_eq!(said(&exchange.modify(name, BUY, 1, 100))[0].0, MODIFY_REJECT);
    }
    for name in names {
        exchange.order(name, BUY, 1, 100);
    }
    let makers = trades(&exchange.ioc(1, SELL, 4, 100));
    assert_eq!(makers.iter().map(|(maker, ..)| *maker).collect::<Vec<_>>(), names);
}

/// A book holds terms up to its stated limits: any lots but 0, and 31 bits of prices around 0.
/// An order that cannot be entered is not reported; an order that cannot be modified stays.
#[cfg(not(feature = "exchange"))]
#[test]
fn terms_end_where_the_book_says() {
    let mut exchange = Exchange::open();
    let (price_min, price_max) = (-(1 << 30), (1 << 30) - 1);
    assert_eq!(said(&exchange.order(1, BUY, u32::MAX, price_min))[0].0, ORDER_ACK);
    assert_eq!(said(&exchange.order(2, SELL, 1, price_max))[0].0, ORDER_ACK);
    for (side, quantity, price_ticks) in [
        (BUY, 0, 100),
        (BUY, 1, price_min - 1),
        (BUY, 1, i64::MIN),
        (SELL, 1, price_max + 1),
        (SELL, 1, i64::MAX),
        (2, 1, 100),
    ] {
        assert_eq!(exchange.order(3, side, quantity, price_ticks), []);
        assert_eq!(said(&exchange.modify(1, side, quantity, price_ticks))[0].0, MODIFY_REJECT);
        assert_eq!(exchange.depth(price_ticks, side), 0);
    }
    let held = (exchange.best(), exchange.depth(price_min, BUY));
    assert_eq!(held, ((price_min, price_max), u32::MAX.into()));
}

/// The exchange allows terms up to the limits of its rules: 1 to 999,999 lots, a price above 0 and at most
/// 199,999.99. An order that cannot be entered is not reported; an order that cannot be modified stays.
#[cfg(feature = "exchange")]
#[test]
fn terms_end_where_the_rules_say() {
    let mut exchange = Exchange::open();
    let price_max = 39_999_998;
    assert_eq!(said(&exchange.order(1, BUY, 999_999, 1))[0].0, ORDER_ACK);
    assert_eq!(said(&exchange.order(2, SELL, 1, price_max))[0].0, ORDER_ACK);
    for (side, quantity, price_ticks) in [
        (BUY, 0, 100),
        (BUY, 1_000_000, 100),
        (BUY, u32::MAX, 100),
        (BUY, 1, 0),
        (BUY, 1, -1),
        (BUY, 1, i64::MIN),
        (SELL, 1, price_max + 1),
        (SELL, 1, i64::MAX),
        (2, 1, 100),
    ] {
        assert_eq!(exchange.order(3, side, quantity, price_ticks), []);
        assert_eq!(said(&exchange.modify(1, side, quantity, price_ticks))[0].0, MODIFY_REJECT);
        assert_eq!(exchange.depth(price_ticks, side), 0);
    }
    assert_eq!((exchange.best(), exchange.depth(1, BUY)), ((1, price_max), 999_999));
}

/// An order that trades with more orders than one step has trades with all of them before the next message.
#[test]
fn an_order_trades_with_thousands() {
    let mut exchange = Exchange::open();
    for order_id in 1..=5_000 {
        exchange.order(order_id, SELL, 1, 100);
    }
    let reports = exchange.order(6_000, BUY, 5_001, 100);
    let expected: Vec<_> = (1..=5_000).map(|maker| (maker, 6_000, 100, 1)).collect();
    assert_eq!(trades(&reports), expected);
    assert_eq!(exchange.depth(100, SELL), 0);
    assert_eq!(exchange.depth(100, BUY), 1);
}

/// A report that finds the queue full is offered until it is taken; none is lost or doubled.
#[test]
fn a_full_queue_is_waited_for() {
    let mut exchange = Exchange::open();
    exchange.order(1, SELL, 1, 100);
    exchange.order(2, SELL, 1, 100);
    sink().full_times = 3;
    let reports = exchange.ioc(3, BUY, 5, 100);
    assert_eq!(trades(&reports), [(1, 3, 100, 1), (2, 3, 100, 1)]);
    assert_eq!(reports.len(), 4);
}

/// A day leaves nothing behind for the next one.
#[test]
fn each_day_starts_empty() {
    let mut exchange = Exchange::open();
    exchange.order(1, SELL, 1, 100);
    drop(exchange);
    let mut exchange = Exchange::open();
    assert_eq!(exchange.best(), EMPTY);
    assert_eq!(said(&exchange.cancel(1)), [(CANCEL_REJECT, 1, BUY, 0, 0)]);
}
