//! Attacks at the port of OUCH 4.2.

use wire::{
    field::{Price32, U32, text_left_aligned},
    layout::IntoBytes as _,
    ouch42::{CancelRequest, EnterRequest},
};

use super::{Attack, free, random};
use crate::attack::target::{
    Attacker,
    Effect::{self, None as Nothing, Some as Effective},
    OWN_BOOK, OWN_PRICE, Target,
};

pub(super) const ROWS: &[Attack] = &[
    free(
        "ouch42-orders",
        "immediate-or-cancel orders by OUCH 4.2, each with a token of its own",
        "messages of a session; tokens that are kept",
        |it| flood(it, true, Effective, |turn| order(turn, turn)),
    ),
    free(
        "ouch42-tokens",
        "orders by OUCH 4.2 whose token was used",
        "journal: a used token has no effect",
        |it| flood(it, true, Nothing, |turn| order(1, turn)),
    ),
    free(
        "ouch42-cancel-nothing",
        "cancels by OUCH 4.2 of tokens that never existed",
        "journal: they have no effect",
        |it| flood(it, true, Nothing, cancel),
    ),
    free(
        "ouch42-unreadable",
        "random bytes as messages of a session by OUCH 4.2",
        "the connection ends after 64",
        |it| flood(it, true, Nothing, |turn| random(turn, 49)),
    ),
    free(
        "ouch42-never-reads",
        "a participant by OUCH 4.2 that causes replies and reads none",
        "memory for replies; the connection ends",
        |it| flood(it, false, Effective, |turn| order(turn, turn)),
    ),
    free(
        "ouch42-silent",
        "300 connections to the port of OUCH 4.2 that send nothing",
        "places of strangers, by address and in all",
        |it| {
            let every = std::time::Duration::from_millis(50);
            it.occupy(it.at.order_entry_ouch42, &[1, 9], 150, every, |_| vec![])
        },
    ),
];

/// A session by OUCH 4.2 that sends messages made from their numbers.
fn flood(target: &Target, reads: bool, effect: Effect, message: impl Fn(u64) -> Vec<u8>) {
    let mut me = Attacker::at(target, target.at.order_entry_ouch42, "old1");
    me.reads = reads;
    target.begin();
    let mut turn = 0;
    while !target.is_over() {
        turn += 1;
        me.send(&message(turn), effect);
    }
}

/// The token of a number.
fn token(number: u64) -> [u8; 14] {
    text_left_aligned(format!("T{number}").as_bytes())
}

/// A buy that trades at once or not at all, of so many shares at most.
fn order(number: u64, shares: u64) -> Vec<u8> {
    EnterRequest {
        message_type: b'O',
        order_token: token(number),
        buy_sell_indicator: b'B',
        shares: U32::new((shares % 100) as u32 + 1),
        stock: text_left_aligned(OWN_BOOK.as_bytes()),
        price: Price32::new(OWN_PRICE as u32),
        time_in_force: U32::new(0),
        firm: text_left_aligned(b"EVIL"),
        display: b'Y',
        capacity: b'P',
        intermarket_sweep_eligibility: b'N',
        minimum_quantity: U32::new(0),
        cross_type: b'N',
        customer_type: b' ',
    }
    .as_bytes()
    .to_vec()
}

fn cancel(number: u64) -> Vec<u8> {
    CancelRequest { message_type: b'X', order_token: token(number), shares: U32::new(0) }
        .as_bytes()
        .to_vec()
}
