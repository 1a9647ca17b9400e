//! Attacks by the work of one command.

use std::{thread, time::Duration};

use market::{
    Command, Conditions, Display, EnterOrder, Instructions, Lots, OrderType, Price, Pricing,
    Quantity, SelfMatchPrevention, Side, TimeInForce,
};
use wire::ouch;

use super::{Attack, flood, nothing};
use crate::attack::target::{Attacker, Effect::Some as Effective, OWN_BOOK, cents, symbol};

const MANY: u32 = 99_000;

pub(super) const ROWS: &[Attack] = &[
    flood(
        "peg-bomb",
        "89,999 hidden pegs follow a best bid that goes in and out",
        "work of a change of the best price",
        |me| {
            pegs(me, OWN_BOOK, 0);
        },
        |me| {
            let bid = me.order(Side::Buy, 1, 100);
            me.in_and_out(bid);
        },
    ),
    flood(
        "peg-bomb-shared",
        "89,999 hidden pegs follow the best bid of the honest clients' book",
        "work of a change of the best price",
        |me| {
            pegs(me, "AAPL", 4_000);
        },
        |me| {
            me.turn();
            thread::sleep(Duration::from_millis(1));
        },
    ),
    flood(
        "minimum-quantity",
        "orders whose minimum quantity is one lot above the 99,000 lots that rest",
        "work of a search",
        one_lot_each,
        |me| {
            let order = large(me, 999);
            me.enter_now(minimum(order, u64::from(MANY) + 1));
        },
    ),
    flood(
        "all-or-none",
        "orders that trade as a whole or wait, in and out, before 99,000 resting lots",
        "work of a search",
        one_lot_each,
        |me| {
            let order = large(me, 999);
            me.in_and_out(minimum(order, 500_000));
        },
    ),
    flood(
        "patient-orders",
        "one lot in and out in front of 99,000 orders that wait for 100",
        "work of a new resting order",
        |me| {
            me.place(MANY, |order, _| {
                minimum(EnterOrder { side: Side::Buy, quantity: Quantity(100), ..order }, 100)
            })
        },
        |me| {
            let order = me.order(Side::Sell, 1, 1);
            me.in_and_out(order);
        },
    ),
    flood(
        "mass-cancel",
        "mass cancels of a symbol without own orders, with 99,000 own orders elsewhere",
        "work of a mass cancel",
        one_lot_each,
        |me| me.mass_cancel("MSFT", None),
    ),
    flood(
        "mass-cancel-group",
        "mass cancels of a group that no order has, with 99,000 own orders",
        "work of a mass cancel",
        one_lot_each,
        |me| me.mass_cancel(OWN_BOOK, Some(7)),
    ),
    flood(
        "mass-cancel-all",
        "20,000 orders, canceled by one message, again and again",
        "orders that pay for a mass cancel",
        nothing,
        |me| {
            me.place(20_000, |order, _| order);
            me.mass_cancel(OWN_BOOK, None);
        },
    ),
    flood(
        "new-levels",
        "99,000 orders, each at a price of its own, one by one canceled and entered",
        "work of a price level",
        price_each,
        |me| {
            let far = i64::from(me.key().user_ref_num % MANY) + 1;
            let order = me.order(Side::Sell, far, 1);
            me.in_and_out(order);
        },
    ),
    flood(
        "sweep",
        "a market order through 20,000 prices, and the orders again",
        "orders that trade pay",
        nothing,
        |me| {
            price_each_of(me, 20_000);
            let order = me.order(Side::Buy, 0, 20_000);
            me.enter_now(EnterOrder { order_type: OrderType::Market, price: Price::ZERO, ..order });
        },
    ),
    flood(
        "self-match",
        "orders that cancel 20,000 own ones by self-match prevention",
        "orders that are canceled pay",
        nothing,
        |me| {
            me.place(20_000, |order, _| order);
            let order = large(me, 10);
            me.enter_now(EnterOrder {
                conditions: Conditions {
                    self_match_prevention: SelfMatchPrevention::CancelOldest,
                    ..Conditions::NONE
                },
                ..order
            });
        },
    ),
    flood(
        "icebergs",
        "one order for a thousand icebergs that show a hundredth of their lots",
        "trades of one order",
        nothing,
        |me| {
            let instructions = Instructions { shown_quantity: Lots::new(1), ..Instructions::NONE };
            me.place(1_000, |order, _| EnterOrder {
                quantity: Quantity(100),
                instructions,
                ..order
            });
            let order = large(me, 10);
            me.enter_now(EnterOrder { quantity: Quantity(100_000), ..order });
        },
    ),
    flood(
        "expiry",
        "20,000 orders that expire in the same second, every second",
        "work of an expiry",
        nothing,
        expiry,
    ),
];

/// A bid, and hidden bids that follow the best one, up to five currency units above the bid.
fn pegs(me: &mut Attacker<'_>, book: &str, offset_cents: i64) {
    let book = symbol(book);
    let bid = EnterOrder { symbol: book, ..me.order(Side::Buy, offset_cents, 100) };
    me.enter(bid);
    me.place(89_999, |order, _| EnterOrder {
        symbol: book,
        side: Side::Buy,
        price: cents(offset_cents + 500),
        display: Display::Hidden,
        instructions: Instructions { pricing: Pricing::PrimaryPeg, ..Instructions::NONE },
        ..order
    });
}

/// 99,000 sells of one lot at one price.
fn one_lot_each(me: &mut Attacker<'_>) {
    me.place(MANY, |order, _| order);
}

fn price_each(me: &mut Attacker<'_>) {
    price_each_of(me, MANY - 1_000);
}

/// Sells of one lot, each at a price of its own.
fn price_each_of(me: &mut Attacker<'_>, count: u32) {
    me.place(count, |order, index| EnterOrder { price: cents(1 + index), ..order });
}

/// A buy of as many lots as an order may have, so many cents above the others.
fn large(me: &mut Attacker<'_>, above: i64) -> EnterOrder {
    me.order(Side::Buy, above, 999_999)
}

fn minimum(order: EnterOrder, lots: u64) -> EnterOrder {
    let minimum_quantity = Lots::new(lots);
    let quantity = Quantity(lots);
    EnterOrder {
        quantity,
        conditions: Conditions { minimum_quantity, ..Conditions::NONE },
        ..order
    }
}

fn expiry(me: &mut Attacker<'_>) {
    let now = me.target.clock.now();
    let expires_s = (now.0 / 1_000_000_000) as u32 + 2;
    for _ in 0..20_000 / me.target.divisor {
        let order = me.order(Side::Sell, 1, 1);
        let order = EnterOrder {
            time_in_force: TimeInForce::GoodTillTime,
            instructions: Instructions { expires_s, ..Instructions::NONE },
            ..order
        };
        // An order that would expire before it arrives cannot be encoded any more.
        let Some(message) = ouch::request_at(&Command::Enter(order), me.target.clock.now()) else {
            break;
        };
        me.send(&message, Effective);
    }
    me.turn();
    while me.target.clock.now().0 / 1_000_000_000 < now.0 / 1_000_000_000 + 1
        && !me.target.is_over()
    {
        me.turn();
        thread::sleep(Duration::from_millis(1));
    }
}
