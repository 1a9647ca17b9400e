//! The attacks: participants that misuse their session, and strangers at each socket.
//!
//! Invariant: an attack sends what a client may send over a socket; none knows more than a participant.

use std::{io::Write, thread, time::Duration};

use client::participant;
use market::{
    CancelOrder, Command, Conditions, Display, EnterOrder, Firm, Instructions, Lots,
    OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, SelfMatchPrevention, Side,
    SplitMix64, TimeInForce,
};
use wire::{moldudp64, ouch, soupbintcp};

use super::target::{
    ANY, Attacker,
    Effect::{self, None as Nothing, Some as Effective},
    OWN_BOOK, Target, cents, login, message, password, symbol,
};

/// An attack.
pub struct Attack {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// What has to bound it.
    pub bound: &'static str,
    means: Means,
}

/// How an attacker goes about it.
enum Means {
    /// A participant's session: `prepare` once, then `turn` until the attack is over.
    Flood { prepare: fn(&mut Attacker<'_>), turn: fn(&mut Attacker<'_>) },
    /// Anything else, from its beginning to its end.
    Free(fn(&Target)),
}

impl Attack {
    pub(super) fn run(&self, target: &Target) {
        match self.means {
            Means::Flood { prepare, turn } => target.flood(prepare, turn),
            Means::Free(run) => run(target),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MANY: u32 = 99_000;

/// All of them: participants' orders, participants' sessions, strangers over TCP, datagrams, HTTP.
pub const ATTACKS: &[Attack] = &[
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
        "replace-chain",
        "one order, replaced by itself again and again",
        "messages of a session",
        nothing,
        replace_chain,
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
            let instructions = Instructions { shown_quantity: Lots(1), ..Instructions::NONE };
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
        "cancels of orders that never were",
        "journal: they have no effect",
        nothing,
        |me| {
            let number = me.key().user_ref_num + 1_000_000;
            me.cancel(number, Nothing);
        },
    ),
    flood(
        "replace-nothing",
        "replaces of orders that never were",
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
    free("logins", "a participant that logs in and out", "connections of a turn", |it| {
        it.begin();
        while !it.is_over() {
            let client = it.log_in(login("evil1"), 0, 1, SECOND);
            it.count(1, Nothing);
            if let Some(mut client) = client {
                let _ = client.logout(it.clock.now_ns());
            }
        }
    }),
    free(
        "second-login",
        "logins of a user that is logged in",
        "one connection a user; connections of a turn",
        |it| {
            let mut me = Attacker::new(it, "evil1");
            me.settle();
            it.begin();
            while !it.is_over() {
                it.log_in(login("evil1"), 0, 1, SECOND);
                it.count(1, Nothing);
                me.turn();
            }
        },
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
    free("heartbeats", "heartbeats without a pause", "packets of a turn", |it| {
        after_login(it, |_| [0, 1, b'R'].repeat(1_000))
    }),
    free("empty-packets", "packets without a type after a login", "the connection ends", |it| {
        after_login(it, |_| vec![0; 2_000])
    }),
    free(
        "huge-lengths",
        "headers that promise 32,767 bytes, and no bytes",
        "memory of a connection; timeouts",
        |it| {
            it.occupy(it.order_entry, &[9], 60, Duration::from_millis(20), |step| {
                if step == 1 { vec![0x7f, 0xff, b'L'] } else { vec![b'x'; 100] }
            })
        },
    ),
    free(
        "debug-packets",
        "debug text of the largest length after a login",
        "packets of a turn",
        |it| after_login(it, |_| [vec![0x7f, 0xff, b'+'], vec![b'x'; 32_766]].concat()),
    ),
    free(
        "silent-connections",
        "300 connections from the newcomer's address that send nothing",
        "places of strangers, by address and in all",
        |it| it.occupy(it.order_entry, &[1], 300, Duration::from_millis(50), |_| vec![]),
    ),
    free(
        "silent-addresses",
        "64 silent connections from each of four addresses",
        "places of strangers, by address and in all",
        |it| it.occupy(it.order_entry, &[2, 3, 4, 5], 64, Duration::from_millis(50), |_| vec![]),
    ),
    free(
        "slow-logins",
        "250 logins, sent a byte at a time, from five addresses",
        "time for a login",
        |it| {
            it.occupy(it.order_entry, &[1, 2, 3, 4, 5], 50, Duration::from_millis(100), |step| {
                login_bytes("evil2", "guess").get(step - 1).map_or(vec![], |byte| vec![*byte])
            })
        },
    ),
    free("connection-churn", "connections that end at once", "connections of a turn", |it| {
        it.churn(it.order_entry, false, |_| vec![])
    }),
    free(
        "wrong-passwords",
        "wrong passwords of all users from the newcomer's address, and of the newcomer from elsewhere",
        "failures of an address and a user",
        wrong_passwords,
    ),
    free(
        "unknown-users",
        "logins of a million names that do not exist",
        "memory of failures",
        |it| {
            it.churn(it.order_entry, true, |turn| {
                login_bytes(&format!("{:06}", turn % 1_000_000), "guess")
            })
        },
    ),
    free("garbage", "random bytes in place of a login", "the connection ends", |it| {
        it.churn(it.order_entry, true, |turn| random(turn, 500))
    }),
    free("zero-lengths", "packets of length 0 in place of a login", "the connection ends", |it| {
        it.churn(it.order_entry, true, |_| vec![0; 500])
    }),
    free(
        "datagrams-of-strangers",
        "datagrams from an address that is no participant's",
        "counted and dropped",
        |it| it.datagrams(it.order_entry_udp, ANY, Nothing, |turn| random(turn, 60)),
    ),
    free(
        "datagrams-of-ports",
        "datagrams from a new port each",
        "counted and dropped; no memory of addresses",
        |it| it.datagrams_of_ports(it.order_entry_udp, b"Q"),
    ),
    free(
        "garbage-datagrams",
        "random bytes from a participant's address over UDP",
        "counted and dropped",
        |it| it.datagrams(it.order_entry_udp, it.udp_local, Nothing, |turn| random(turn, 60)),
    ),
    free("large-datagrams", "datagrams of 2,049 to 60,000 bytes", "counted and dropped", |it| {
        it.datagrams(it.order_entry_udp, it.udp_local, Nothing, |turn| {
            random(turn, 2_049 + (turn * 7_919 % 57_000) as usize)
        })
    }),
    free(
        "udp-orders",
        "immediate-or-cancel orders over UDP, without a pause",
        "messages of a session",
        |it| {
            it.datagrams(it.order_entry_udp, it.udp_local, Effective, |turn| {
                message(&Command::Enter(EnterOrder {
                    time_in_force: TimeInForce::ImmediateOrCancel,
                    ..EnterOrder::limit(
                        OrderKey { user_ref_num: turn as u32, ..OrderKey::default() },
                        Side::Buy,
                        symbol(OWN_BOOK),
                        Quantity(1),
                        cents(0),
                    )
                }))
                .to_vec()
            })
        },
    ),
    free(
        "udp-cancels",
        "cancels of nothing over UDP, 60 a datagram",
        "journal: they have no effect",
        |it| {
            it.datagrams(it.order_entry_udp, it.udp_local, Nothing, |_| {
                let cancel = message(&Command::Cancel(CancelOrder {
                    key: OrderKey { user_ref_num: 9, ..OrderKey::default() },
                    quantity: Quantity::ZERO,
                }));
                [&(cancel.len() as u16).to_be_bytes()[..], &cancel].concat().repeat(60)
            })
        },
    ),
    free(
        "udp-replies-again",
        "requests for all replies over UDP, without a pause",
        "replies a requester",
        |it| it.datagrams(it.order_entry_udp, it.udp_local, Nothing, |_| request(it, 1)),
    ),
    free(
        "feed-requests",
        "requests for the feed's first messages, from one address",
        "answers by requester and in all",
        |it| it.datagrams(it.re_request, ANY, Nothing, |_| request(it, 1)),
    ),
    free(
        "feed-requests-of-ports",
        "requests for the feed from new ports, which took no part",
        "answers only to addresses that took part",
        |it| it.datagrams_of_ports(it.re_request, &request(it, 1)),
    ),
    free("feed-garbage", "random bytes to the re-request server", "counted and dropped", |it| {
        it.datagrams(it.re_request, ANY, Nothing, |turn| random(turn, 20))
    }),
    free("http-slow", "300 slow requests to the admin API", "connections; time for a head", |it| {
        it.occupy(it.admin, &[1, 9], 150, Duration::from_millis(100), |step| {
            if step == 1 { b"GET /status HTTP/1.1\r\n".to_vec() } else { b"X-Slow: 1\r\n".to_vec() }
        })
    }),
    free("http-headers", "requests with a megabyte of headers", "bytes of a head", |it| {
        it.churn(it.admin, true, |_| {
            [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()
        })
    }),
    free("http-bodies", "commands with a body of a megabyte", "bytes of a body", |it| {
        it.churn(it.admin, true, |_| http("POST /operator", "localhost", &"x".repeat(1 << 20)))
    }),
    free("http-hosts", "requests that name another host", "421; requests at a time", |it| {
        it.churn(it.admin, true, |_| http("GET /status", "evil.example", ""))
    }),
    free("http-queries", "queries without a pause", "requests at a time", |it| {
        it.churn(it.admin, true, |_| http("GET /status", "localhost", ""))
    }),
    free(
        "operator-without-key",
        "commands of operators without a key",
        "401; requests at a time",
        |it| {
            it.churn(it.admin, true, |_| {
                http(
                    "POST /operator",
                    "localhost",
                    r#"{"command":{"verb":"halt","instruments":{"all":true},"reason":"T1"}}"#,
                )
            })
        },
    ),
];

const fn flood(
    name: &'static str,
    does: &'static str,
    bound: &'static str,
    prepare: fn(&mut Attacker<'_>),
    turn: fn(&mut Attacker<'_>),
) -> Attack {
    Attack { name, does, bound, means: Means::Flood { prepare, turn } }
}

const fn free(
    name: &'static str,
    does: &'static str,
    bound: &'static str,
    run: fn(&Target),
) -> Attack {
    Attack { name, does, bound, means: Means::Free(run) }
}

/// A flood that needs nothing in place.
fn nothing(_: &mut Attacker<'_>) {}

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
    let minimum_quantity = Lots(u32::try_from(lots).expect("it fits an order"));
    let quantity = Quantity(lots);
    EnterOrder {
        quantity,
        conditions: Conditions { minimum_quantity, ..Conditions::NONE },
        ..order
    }
}

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
        // One that would expire before it arrives cannot be said any more.
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
        let Some(mut stream) = target.connect(target.order_entry, 1) else { continue };
        let mut turn = 0;
        let mut next = login_bytes("evil1", &password("evil1"));
        while !target.is_over() && stream.write_all(&next).is_ok() {
            turn += 1;
            target.count(1, Effect::None);
            next = bytes(turn);
        }
    }
}

fn wrong_passwords(target: &Target) {
    const GUESSES: [(&str, u8); 6] =
        [("honest", 1), ("evil1", 1), ("evil2", 1), ("nobody", 1), ("newbie", 2), ("newbie", 3)];
    target.begin();
    let mut turn = 0;
    while !target.is_over() {
        let (user, from) = GUESSES[turn % GUESSES.len()];
        turn += 1;
        target.count(1, Effect::None);
        if let Some(mut stream) = target.connect(target.order_entry, from) {
            let _ = stream.write_all(&login_bytes(user, &format!("guess{}", turn % 10_000)));
            // Its answer, or the end.
            let _ = std::io::Read::read(&mut stream, &mut [0; 64]);
        }
    }
}

/// A login packet.
fn login_bytes(user: &str, password: &str) -> Vec<u8> {
    let login = soupbintcp::LoginRequest::new(user, password).expect("they fit their fields");
    soupbintcp::Client::new(super::target::PATIENT, login, 0).outgoing().to_vec()
}

/// A request for as many messages as a request may name.
fn request(target: &Target, sequence_number: u64) -> Vec<u8> {
    let count = moldudp64::MESSAGE_COUNT_MAX;
    moldudp64::Request { session: target.session, sequence_number, count }.encode().to_vec()
}

fn http(line: &str, host: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes()
}

fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| random.below(256) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are for the command line and for folders; each attack has one of its own, and texts.
    #[test]
    fn every_attack_is_described() {
        assert!(ATTACKS.len() >= 25);
        for (index, attack) in ATTACKS.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(attack.name.chars().all(is_plain), "{}", attack.name);
            assert!(!attack.does.is_empty() && !attack.bound.is_empty(), "{}", attack.name);
            let same = ATTACKS[..index].iter().find(|other| other.name == attack.name);
            assert!(same.is_none(), "{}", attack.name);
        }
    }
}
