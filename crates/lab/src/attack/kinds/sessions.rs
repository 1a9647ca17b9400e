//! Attacks by participants over SoupBinTCP: floods, messages without effect, unread replies.

use std::{io::Write, thread, time::Duration};

use client::participant;
use market::{
    Command, EnterOrder, Firm, OrderAttributes, OrderKey, Price, Quantity, Side, TimeInForce,
};
use wire::ouch;

use super::{Attack, SECOND, flood, free, login_bytes, nothing, random};
use crate::attack::target::{
    Attacker,
    Effect::{self, None as Nothing, Some as Effective},
    Target, cents, login, message, password, symbol,
};

pub(super) const ROWS: &[Attack] = &[
    flood(
        "ioc-flood",
        "immediate-or-cancel orders that trade with nothing",
        "messages of a session",
        nothing,
        |me| {
            let order = me.order(Side::Buy, 0, 100);
            me.enter_now(order);
        },
    ),
    flood(
        "cancel-churn",
        "orders in and out at the best price",
        "messages of a session",
        nothing,
        |me| {
            let order = me.order(Side::Buy, 0, 100);
            me.in_and_out(order);
        },
    ),
    flood(
        "replace-chain",
        "one order, replaced by itself again and again",
        "messages of a session",
        nothing,
        replace_chain,
    ),
    flood(
        "foreign-firm",
        "orders for the firm of others, and mass cancels of it",
        "rejects; messages of a session",
        nothing,
        |me| {
            let order = me.order(Side::Sell, 1, 1);
            me.enter(EnterOrder {
                attributes: OrderAttributes {
                    firm: Firm::new("HON").expect("three letters"),
                    ..order.attributes
                },
                ..order
            });
            let number = me.key().user_ref_num;
            me.send(
                &participant::mass_cancel(number, Firm::new("HON").expect("three letters"), None),
                Effective,
            );
        },
    ),
    flood(
        "unknown-symbols",
        "orders for a million symbols that are not traded",
        "rejects; messages of a session",
        nothing,
        |me| {
            let order = me.order(Side::Buy, 0, 1);
            let name = format!("X{:06}", order.key.user_ref_num % 1_000_000);
            me.enter(EnterOrder { symbol: symbol(&name), ..order });
        },
    ),
    flood(
        "invalid-orders",
        "orders with no quantity, off the price increment, or with an absurd price",
        "rejects; messages of a session",
        nothing,
        |me| {
            let order = me.order(Side::Buy, 0, 1);
            me.enter(match order.key.user_ref_num % 3 {
                0 => EnterOrder { quantity: Quantity(0), ..order },
                1 => EnterOrder { price: Price(order.price.0 + 1), ..order },
                _ => EnterOrder { price: Price(ouch::LIMIT_PRICE_MAX), ..order },
            });
        },
    ),
    flood("entry-switches", "order entry off and on", "messages of a session", nothing, |me| {
        let number = me.key().user_ref_num;
        me.send(
            &participant::switch_entry(
                number,
                Firm::new("EVIL").expect("four letters"),
                number % 2 == 0,
            ),
            Effective,
        );
    }),
    free("heartbeats", "heartbeats without a pause", "packets of a turn", |it| {
        after_login(it, |_| [0, 1, b'R'].repeat(1_000))
    }),
    free(
        "debug-packets",
        "debug text of the largest length after a login",
        "packets of a turn",
        |it| after_login(it, |_| [vec![0x7f, 0xff, b'+'], vec![b'x'; 32_766]].concat()),
    ),
    flood(
        "duplicates",
        "an order whose number was used",
        "journal: duplicates have no effect",
        |me| {
            me.place(1_000, |order, _| order);
        },
        |me| {
            let order = EnterOrder {
                key: OrderKey { user_ref_num: 1, ..OrderKey::default() },
                ..me.order(Side::Sell, 1, 1)
            };
            me.send(&message(&Command::Enter(order)), Nothing);
        },
    ),
    flood(
        "cancel-nothing",
        "cancels of orders that never existed",
        "journal: they have no effect",
        nothing,
        |me| {
            let number = me.key().user_ref_num + 1_000_000;
            me.cancel(number, Nothing);
        },
    ),
    flood(
        "replace-nothing",
        "replaces of orders that never existed",
        "journal: a replace of nothing has no effect",
        nothing,
        |me| {
            let replace = participant::replace(
                4_000_000_000,
                3,
                Quantity(1),
                Some(cents(0)),
                TimeInForce::Day,
            );
            me.send(&replace, Nothing);
        },
    ),
    flood("queries", "account queries", "journal: a query has no effect", nothing, |me| {
        me.send(&participant::query_account(), Nothing)
    }),
    flood(
        "unreadable-messages",
        "random bytes as messages of a session",
        "answered or ignored, never journaled without bound",
        nothing,
        |me| {
            let bytes = random(me.key().user_ref_num.into(), 40);
            me.send(&bytes, Nothing);
        },
    ),
    flood(
        "never-reads",
        "a participant that causes replies and reads none",
        "memory for replies; the connection ends",
        |me| me.reads = false,
        |me| {
            let order = me.order(Side::Buy, 0, 1);
            me.in_and_out(order);
        },
    ),
    free("replay", "all replies again from message 1, again and again", "replies a turn", |it| {
        replay(it, true)
    }),
    free(
        "replay-unread",
        "all replies again from message 1, unread",
        "replies a turn; memory",
        |it| replay(it, false),
    ),
    free(
        "cancel-on-disconnect",
        "2,000 orders that a lost connection cancels, again and again",
        "orders that are canceled pay",
        |it| {
            let mut me = Attacker::new(it, "evil3");
            it.begin();
            while !it.is_over() {
                me.place(2_000, |order, _| order);
                me.disconnect();
                it.count(1, Effective);
            }
        },
    ),
    free("empty-packets", "packets without a type after a login", "the connection ends", |it| {
        after_login(it, |_| vec![0; 2_000])
    }),
];

fn replace_chain(me: &mut Attacker<'_>) {
    let mut number = {
        let order = me.order(Side::Sell, 1, 1_000);
        me.enter(order)
    };
    while !me.target.is_over() {
        let next = me.key().user_ref_num;
        let price = cents(1 + i64::from(next % 9));
        let replace =
            participant::replace(number, next, Quantity(1_000), Some(price), TimeInForce::Day);
        me.send(&replace, Effective);
        number = next;
    }
}

/// Causes 40,000 replies, then asks for all of them as often as possible.
fn replay(target: &Target, reads: bool) {
    let mut me = Attacker::new(target, "evil1");
    for _ in 0..20_000 / target.divisor {
        let order = me.order(Side::Buy, 0, 1);
        me.in_and_out(order);
    }
    me.settle();
    me.disconnect();
    target.begin();
    while !target.is_over() {
        let client = target.log_in(login("evil1"), 1, 1, SECOND);
        target.count(1, Effect::None);
        let Some(mut client) = client else { continue };
        let start = target.clock.since_start();
        while !target.is_over() && target.clock.since_start() - start < Duration::from_millis(20) {
            match reads {
                true if client.poll(target.clock.now_ns(), &mut |_, _| {}).is_err() => break,
                true => {}
                false => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Logs in, and then writes these bytes as long as the connection takes them.
fn after_login(target: &Target, bytes: impl Fn(u64) -> Vec<u8>) {
    target.begin();
    while !target.is_over() {
        let Some(mut stream) = target.connect(target.at.order_entry, 1) else { continue };
        let mut turn = 0;
        let mut next = login_bytes("evil1", &password("evil1"));
        while !target.is_over() && stream.write_all(&next).is_ok() {
            turn += 1;
            target.count(1, Effect::None);
            next = bytes(turn);
        }
    }
}
