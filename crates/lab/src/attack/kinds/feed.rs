//! Attacks on the requests of subscribers: lost messages, snapshots, the feed over TCP.

use std::time::Duration;

use market::{Side, SplitMix64};

use super::{Attack, free, login_bytes, random, request};
use crate::attack::target::{ANY, Attacker, Effect::None as Nothing, Target, password};

pub(super) const ROWS: &[Attack] = &[
    free(
        "feed-requests",
        "requests for the feed's first messages, from one address",
        "answers by requester and in all",
        |it| it.datagrams(it.at.re_request, ANY, Nothing, |_| request(it, 1)),
    ),
    free(
        "feed-requests-of-ports",
        "requests for the feed from new ports, which took no part",
        "answers only to addresses that took part",
        |it| it.datagrams_of_ports(it.at.re_request, &request(it, 1)),
    ),
    free("feed-garbage", "random bytes to the re-request server", "counted and dropped", |it| {
        it.datagrams(it.at.re_request, ANY, Nothing, |turn| random(turn, 20))
    }),
    free(
        "feed-requests-old",
        "requests for messages that only the journal has, at random",
        "pages of the journal that wait; the venue never waits for one",
        |it| {
            long_history(it);
            it.datagrams(it.at.re_request, ANY, Nothing, |turn| {
                request(it, 1 + SplitMix64::new(turn).below(HISTORY.into()))
            })
        },
    ),
    free(
        "snapshot-readers",
        "90 subscribers that take 64 bytes of a snapshot now and then",
        "subscribers of a user and in all; time for a snapshot",
        |it| {
            long_history(it);
            slow_subscribers(it, it.at.snapshot, "");
        },
    ),
    free("snapshots", "snapshots without a pause", "bytes of a turn", |it| {
        long_history(it);
        it.churn(it.at.snapshot, true, |_| subscription("evil1", ""))
    }),
    free(
        "feed-readers",
        "90 subscribers of the feed over TCP, from message 1, that take 64 bytes now and then",
        "subscribers of a user and in all; time without reading",
        |it| {
            long_history(it);
            slow_subscribers(it, it.at.feed_tcp, "1");
        },
    ),
    free(
        "feed-from-one",
        "the feed over TCP from message 1, which only the journal has, again and again",
        "pages of the journal that wait; bytes of a turn",
        |it| {
            long_history(it);
            it.churn(it.at.feed_tcp, true, |_| subscription("evil1", "1"))
        },
    ),
    free(
        "feed-silent",
        "300 connections to the feed over TCP that send nothing",
        "places of strangers, by address and in all",
        |it| it.occupy(it.at.feed_tcp, &[1, 9], 150, Duration::from_millis(50), |_| vec![]),
    ),
    free(
        "feed-passwords",
        "wrong passwords at the snapshots",
        "failures of an address and a user",
        |it| {
            it.churn(it.at.snapshot, true, |turn| {
                login_bytes("evil2", &format!("guess{}", turn % 1_000))
            })
        },
    ),
];

/// Messages of the feed: more than memory keeps.
const HISTORY: u32 = 60_000;

/// Makes a feed that is longer than its store.
fn long_history(target: &Target) {
    let mut me = Attacker::new(target, "evil1");
    for _ in 0..HISTORY / 2 {
        let order = me.order(Side::Buy, 0, 1);
        me.in_and_out(order);
    }
    me.place(2_000, |order, _| order);
    me.settle();
}

/// A login for the feed from a number on, or for a snapshot.
fn subscription(user: &str, first: &str) -> Vec<u8> {
    let mut login = login_bytes(user, &password(user));
    // The last 20 bytes are the sequence number, padded on the left.
    let end = login.len();
    login[end - 20..].copy_from_slice(format!("{first:>20}").as_bytes());
    login
}

/// As many subscribers as three users may have, each of which reads 64 bytes at a time.
fn slow_subscribers(target: &Target, to: std::net::SocketAddr, first: &str) {
    let next = std::cell::Cell::new(0);
    target.occupy(to, &[1, 2, 3], 30, Duration::from_millis(100), |step| {
        let user = ["evil1", "evil2", "evil3"][next.get() % 3];
        match step {
            1 => {
                next.set(next.get() + 1);
                subscription(user, first)
            }
            _ => vec![],
        }
    });
}
