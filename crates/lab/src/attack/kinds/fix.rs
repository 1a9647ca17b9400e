//! Attacks at the port of FIX.

use std::time::Duration;

use super::{Attack, free, random};
use crate::attack::{
    fix_attacker::{FixAttacker, fix_message},
    target::{
        Effect::{Fix as Effective, None as Nothing},
        Target,
    },
};

/// The attacking user.
const USER: &str = "fix1";
/// An order that trades at once or not at all, without its ClOrdID.
const ORDER: &str = "21=1|55=EVIL|54=1|38=1|40=2|44=100|59=3|";

pub(super) const ROWS: &[Attack] = &[
    free(
        "fix-silent",
        "300 connections to the port of FIX that send nothing",
        "places of strangers, by address and in all",
        |it| it.occupy(it.at.order_entry_fix, &[1, 9], 150, Duration::from_millis(50), |_| vec![]),
    ),
    free("fix-garbage", "random bytes in place of a Logon", "the connection ends", |it| {
        it.churn(it.at.order_entry_fix, true, |turn| random(turn, 500))
    }),
    free(
        "fix-body-length",
        "Logons with a BodyLength of 99,999,999, and bytes without end",
        "bytes of a connection that wait; time for a Logon",
        |it| {
            it.occupy(it.at.order_entry_fix, &[9], 60, Duration::from_millis(20), |step| {
                if step == 1 {
                    b"8=FIX.4.4\x019=99999999\x0135=A\x01".to_vec()
                } else {
                    vec![b'x'; 4_000]
                }
            })
        },
    ),
    free(
        "fix-passwords",
        "Logons with wrong passwords, and of names that do not exist",
        "failures of an address and a user",
        |it| {
            it.churn(it.at.order_entry_fix, true, |turn| {
                let user = if turn % 2 == 0 {
                    USER.to_owned()
                } else {
                    format!("{:06}", turn % 1_000_000)
                };
                let fields = format!("98=0|108=30|141=Y|553={user}|554=guess{}|", turn % 1_000);
                fix_message(it.clock.now(), &user, "A", 1, &fields)
            })
        },
    ),
    free(
        "fix-logons",
        "a participant that logs on with a reset, and goes",
        "records of a Logon",
        |it| {
            it.begin();
            while !it.is_over() {
                let mut me = FixAttacker::new(it, USER);
                me.send("0", "", Nothing);
            }
        },
    ),
    free(
        "fix-orders",
        "immediate-or-cancel orders by FIX, without a pause",
        "messages of a session; ClOrdIDs that are kept",
        |it| flood(it, |me| me.send("D", &order(me), Effective)),
    ),
    free(
        "fix-duplicate-ids",
        "orders by FIX whose ClOrdID was used",
        "journal: they have no effect",
        |it| flood(it, |me| me.send("D", &format!("11=SAME|{ORDER}"), Nothing)),
    ),
    free(
        "fix-cancel-nothing",
        "cancels by FIX of orders that never existed",
        "journal: they have no effect",
        |it| {
            flood(it, |me| {
                let number = me.next();
                me.send("F", &format!("11=C{number}|41=NONE|55=EVIL|54=1|"), Nothing);
            })
        },
    ),
    free(
        "fix-rejects",
        "messages of FIX without a required field, or of an unknown type",
        "journal: a Reject has no effect",
        |it| {
            flood(it, |me| {
                let msg_type = if me.next() % 2 == 0 { "D" } else { "ZZ" };
                me.send(msg_type, "11=X|", Nothing);
            })
        },
    ),
    free(
        "fix-test-requests",
        "TestRequests without a pause, each of which has an answer",
        "journal: an answer has no effect",
        |it| flood(it, |me| me.send("1", "112=are you there|", Nothing)),
    ),
    free(
        "fix-security-lists",
        "requests for all instruments by FIX, without a pause, and for unknown ones",
        "journal: a page of a list has no effect",
        |it| {
            flood(it, |me| {
                let number = me.next();
                let code = [4, 0, 1][number as usize % 3];
                me.send("x", &format!("320=L{number}|559={code}|55=NONE|"), Nothing);
            })
        },
    ),
    free("fix-heartbeats", "Heartbeats without a pause", "messages of a turn", |it| {
        flood(it, |me| me.send("0", "", Nothing))
    }),
    free(
        "fix-garbled",
        "beginnings of messages one within the other, each with a sum to calculate",
        "messages of a turn",
        |it| {
            let beginning = b"8=FIX.4.4\x019=8000\x0135=0\x01";
            flood(it, |me| me.send_bytes(&beginning.repeat(700)))
        },
    ),
    free(
        "fix-resends",
        "ResendRequests for all of a long history",
        "replies a turn; pages of the journal that wait",
        |it| resends(it, true),
    ),
    free(
        "fix-resends-unread",
        "ResendRequests for all of a long history, unread",
        "memory for replies; the connection ends",
        |it| resends(it, false),
    ),
    free(
        "fix-never-reads",
        "a participant by FIX that causes reports and reads none",
        "memory for replies; the connection ends",
        |it| {
            let mut me = FixAttacker::new(it, USER);
            me.reads = false;
            it.begin();
            while !it.is_over() {
                me.send("D", &order(&me), Effective);
            }
        },
    ),
    free(
        "fix-high-numbers",
        "messages of FIX with numbers that run ahead",
        "journal: a ResendRequest has no effect",
        |it| {
            flood(it, |me| {
                me.skip(1_000);
                me.send("0", "", Nothing);
            })
        },
    ),
    free(
        "fix-low-numbers",
        "messages of FIX with a number that was used",
        "the session is logged out",
        |it| {
            flood(it, |me| {
                me.send("0", "", Nothing);
                me.repeat();
                me.send("0", "", Nothing);
            })
        },
    ),
    free(
        "fix-sequence-resets",
        "SequenceResets that go on and back",
        "journal: a Reject has no effect",
        |it| {
            flood(it, |me| {
                let next = me.next();
                me.send("4", &format!("36={}|", if next % 2 == 0 { 1 } else { next + 1 }), Nothing);
            })
        },
    ),
    free(
        "fix-data-requests",
        "subscriptions to market data by FIX that begin and end without a pause, and wrong ones",
        "messages of a turn; subscriptions and levels of a session",
        |it| {
            let mut me = FixAttacker::at(it, it.at.market_data_fix, USER);
            it.begin();
            while !it.is_over() {
                let number = me.next();
                let (kind, depth) =
                    ([1, 0, 2][number as usize % 3], [0, 1, 99][number as usize % 3]);
                let fields = format!(
                    "262=R{}|263={kind}|264={depth}|265=1|267=3|269=0|269=1|269=2|146=2|55=AAPL|55=MSFT|",
                    number / 3 % 80
                );
                me.send("V", &fields, Nothing);
            }
        },
    ),
    free(
        "fix-data-resends",
        "subscriptions to market data by FIX, and ResendRequests, each of which begins them anew",
        "64 KiB of a connection; what is made only where there is room",
        |it| data_resends(it, true),
    ),
    free(
        "fix-data-never-reads",
        "the same, unread",
        "64 KiB of a connection; the connection ends",
        |it| data_resends(it, false),
    ),
];

fn data_resends(target: &Target, reads: bool) {
    let mut me = FixAttacker::at(target, target.at.market_data_fix, USER);
    me.send("V", "262=R|263=1|264=0|265=1|267=2|269=0|269=1|146=2|55=AAPL|55=MSFT|", Nothing);
    me.reads = reads;
    target.begin();
    while !target.is_over() {
        me.send("2", "7=1|16=0|", Nothing);
    }
}

/// The fields of an order with a ClOrdID of its own.
fn order(me: &FixAttacker<'_>) -> String {
    format!("11={}|{ORDER}", me.name())
}

/// A session that logs on, and then calls `turn` as long as the attack lasts.
fn flood(target: &Target, mut turn: impl FnMut(&mut FixAttacker<'_>)) {
    let mut me = FixAttacker::new(target, USER);
    me.send("D", &format!("11=SAME|{ORDER}"), Effective);
    target.begin();
    while !target.is_over() {
        turn(&mut me);
    }
}

/// Causes more reports than memory keeps, then asks for all of them as often as possible.
fn resends(target: &Target, reads: bool) {
    const ORDERS: u32 = 5_000;
    let mut me = FixAttacker::new(target, USER);
    for _ in 0..ORDERS {
        me.send("D", &order(&me), Effective);
    }
    me.settle();
    me.reads = reads;
    target.begin();
    while !target.is_over() {
        me.send("2", "7=1|16=0|", Nothing);
    }
}
