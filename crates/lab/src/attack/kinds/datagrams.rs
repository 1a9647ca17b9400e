//! Attacks by datagrams on order entry over UDP.

use market::{CancelOrder, Command, EnterOrder, OrderKey, Quantity, Side, TimeInForce};

use super::{Attack, free, random, request};
use crate::attack::target::{
    ANY,
    Effect::{None as Nothing, Some as Effective},
    OWN_BOOK, cents, message, symbol,
};

pub(super) const ROWS: &[Attack] = &[
    free(
        "udp-orders",
        "immediate-or-cancel orders over UDP, without a pause",
        "messages of a session",
        |it| {
            it.datagrams(it.at.order_entry_udp, it.udp_local, Effective, |turn| {
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
            it.datagrams(it.at.order_entry_udp, it.udp_local, Nothing, |_| {
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
        |it| it.datagrams(it.at.order_entry_udp, it.udp_local, Nothing, |_| request(it, 1)),
    ),
    free(
        "datagrams-of-strangers",
        "datagrams from an address that is no participant's",
        "counted and dropped",
        |it| it.datagrams(it.at.order_entry_udp, ANY, Nothing, |turn| random(turn, 60)),
    ),
    free(
        "datagrams-of-ports",
        "datagrams from a new port each",
        "counted and dropped; no memory of addresses",
        |it| it.datagrams_of_ports(it.at.order_entry_udp, b"Q"),
    ),
    free(
        "garbage-datagrams",
        "random bytes from a participant's address over UDP",
        "counted and dropped",
        |it| it.datagrams(it.at.order_entry_udp, it.udp_local, Nothing, |turn| random(turn, 60)),
    ),
    free("large-datagrams", "datagrams of 2,049 to 60,000 bytes", "counted and dropped", |it| {
        it.datagrams(it.at.order_entry_udp, it.udp_local, Nothing, |turn| {
            random(turn, 2_049 + (turn * 7_919 % 57_000) as usize)
        })
    }),
];
