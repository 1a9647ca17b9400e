//! Attacks at the door of order entry: connections that hold places, logins, passwords.

use std::{io::Write, time::Duration};

use super::{Attack, SECOND, free, login_bytes, random};
use crate::attack::target::{
    Attacker,
    Effect::{self, None as Nothing},
    Target, login,
};

pub(super) const ROWS: &[Attack] = &[
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
        "silent-connections",
        "300 connections from the newcomer's address that send nothing",
        "places of strangers, by address and in all",
        |it| it.occupy(it.at.order_entry, &[1], 300, Duration::from_millis(50), |_| vec![]),
    ),
    free(
        "silent-addresses",
        "64 silent connections from each of four addresses",
        "places of strangers, by address and in all",
        |it| it.occupy(it.at.order_entry, &[2, 3, 4, 5], 64, Duration::from_millis(50), |_| vec![]),
    ),
    free(
        "slow-logins",
        "250 logins, sent a byte at a time, from five addresses",
        "time for a login",
        |it| {
            it.occupy(it.at.order_entry, &[1, 2, 3, 4, 5], 50, Duration::from_millis(100), |step| {
                login_bytes("evil2", "guess").get(step - 1).map_or(vec![], |byte| vec![*byte])
            })
        },
    ),
    free("connection-churn", "connections that end at once", "connections of a turn", |it| {
        it.churn(it.at.order_entry, false, |_| vec![])
    }),
    free(
        "huge-lengths",
        "headers that promise 32,767 bytes, and no bytes",
        "memory of a connection; timeouts",
        |it| {
            it.occupy(it.at.order_entry, &[9], 60, Duration::from_millis(20), |step| {
                if step == 1 { vec![0x7f, 0xff, b'L'] } else { vec![b'x'; 100] }
            })
        },
    ),
    free("zero-lengths", "packets of length 0 in place of a login", "the connection ends", |it| {
        it.churn(it.at.order_entry, true, |_| vec![0; 500])
    }),
    free("garbage", "random bytes in place of a login", "the connection ends", |it| {
        it.churn(it.at.order_entry, true, |turn| random(turn, 500))
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
            it.churn(it.at.order_entry, true, |turn| {
                login_bytes(&format!("{:06}", turn % 1_000_000), "guess")
            })
        },
    ),
];

fn wrong_passwords(target: &Target) {
    const GUESSES: [(&str, u8); 6] =
        [("honest", 1), ("evil1", 1), ("evil2", 1), ("nobody", 1), ("newbie", 2), ("newbie", 3)];
    target.begin();
    let mut turn = 0;
    while !target.is_over() {
        let (user, from) = GUESSES[turn % GUESSES.len()];
        turn += 1;
        target.count(1, Effect::None);
        if let Some(mut stream) = target.connect(target.at.order_entry, from) {
            let _ = stream.write_all(&login_bytes(user, &format!("guess{}", turn % 10_000)));
            // The venue's answer, or the end of the connection.
            let _ = std::io::Read::read(&mut stream, &mut [0; 64]);
        }
    }
}
