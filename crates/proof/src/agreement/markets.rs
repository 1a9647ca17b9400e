//! The markets in which engine and model are compared. Each stresses other features; their books are
//! small, because the model is slow.

use market::{Price, SelfMatchPrevention::*};

use crate::generator::Profile;

macro_rules! markets {
    ($($name:literal { $($field:ident: $value:expr,)* })*) => {{
        let usual = Profile { live_orders: 150, ..Profile::default() };
        vec![$(($name, Profile { $($field: $value,)* ..usual.clone() }),)*]
    }};
}

/// Every market, with its name. The last one closes after three quarters of the commands.
pub fn profiles(commands: u64) -> Vec<(&'static str, Profile)> {
    markets! {
        "usual" {}
        "odd" { sessions: 2, odd_percent: 50, }
        "one price matters" { spread: 3, instruments: 1, }
        "wild prices" {
            spread: 3_000, far_per_mille: 200, jumps_per_million: 2_000,
            price_increment: Price(1), live_orders: 300,
        }
        "crowded sessions" { sessions: 20, channels: 3, live_orders_max: 6, }
        "conditions" {
            sessions: 3, spread: 5, conditions_percent: 70,
            self_match_preventions: vec![DecrementBoth, Off, SessionDefault],
        }
        "money" { instruments: 4, sessions: 5, accounts: 3, live_orders: 100, }
        "money and conditions" {
            instruments: 3, sessions: 4, accounts: 2, spread: 5, conditions_percent: 70,
            odd_percent: 20, live_orders: 60, self_match_preventions: vec![DecrementBoth],
        }
        "trades undone" {
            instruments: 4, sessions: 5, accounts: 3, undo_per_mille: 40, live_orders: 30,
            spread: 8,
        }
        "phases" { venue_per_mille: 30, live_orders: 80, spread: 10, }
        "bands" {
            venue_per_mille: 15, instruments: 2, spread: 20, live_orders: 100,
            jumps_per_million: 0,
        }
        "auctions of equal sides" {
            venue_per_mille: 80, lots_each: 100, live_orders: 30, spread: 6, odd_percent: 2,
        }
        "phases and money" {
            venue_per_mille: 25, instruments: 4, sessions: 5, accounts: 3, spread: 8,
            live_orders: 60,
        }
        "waiting" {
            sessions: 3, instruments: 2, spread: 12, beyond_ouch_percent: 30, waits_percent: 70,
            good_till_time_percent: 15, live_orders: 120, jumps_per_million: 200,
        }
        "waiting for anything" {
            sessions: 2, channels: 1, instruments: 1, spread: 40, far_per_mille: 60,
            price_increment: Price(1), mid: 300, beyond_ouch_percent: 30, waits_percent: 50,
            good_till_time_percent: 5, jumps_per_million: 0,
        }
        "pegs" {
            sessions: 3, instruments: 2, spread: 10, beyond_ouch_percent: 30, pegs_percent: 70,
            waits_percent: 30, conditions_percent: 20, live_orders: 200, jumps_per_million: 0,
        }
        "pegs, phases and money" {
            sessions: 4, accounts: 3, pegs_percent: 30, venue_per_mille: 25, spread: 8,
            live_orders: 80, self_match_preventions: vec![Off, DecrementBoth],
        }
        "minimum quantities" {
            sessions: 3, instruments: 2, spread: 8, conditions_percent: 30,
            beyond_ouch_percent: 20, waits_percent: 20, minimum_percent: 50, live_orders: 100,
            jumps_per_million: 200,
            self_match_preventions: vec![Off, CancelNewest, DecrementBoth],
        }
        "pegs between few orders" {
            instruments: 1, pegs_percent: 60, price_increment: Price(7), mid: 30, spread: 25,
            venue_per_mille: 4, live_orders: 30,
        }
        "minimum quantities and money" {
            sessions: 4, instruments: 3, accounts: 3, spread: 8, minimum_percent: 40,
            live_orders: 60,
        }
        "deep books" {
            instruments: 2, spread: 3, conditions_percent: 40, live_orders: 400,
            jumps_per_million: 0, venue_per_mille: 2,
            self_match_preventions: vec![Off, DecrementBoth],
        }
        "everything" {
            sessions: 4, instruments: 3, accounts: 3, spread: 10, conditions_percent: 30,
            beyond_ouch_percent: 25, waits_percent: 40, minimum_percent: 25, pegs_percent: 20,
            good_till_time_percent: 8, venue_per_mille: 25, live_orders: 90, jumps_per_million: 0,
            self_match_preventions: vec![Off, DecrementBoth, CancelOldest],
        }
        "large quantities" {
            quantity_scale: (1 << 38) - 1, sessions: 3, instruments: 2, spread: 5,
            conditions_percent: 50, beyond_ouch_percent: 20, waits_percent: 20, pegs_percent: 10,
            minimum_percent: 20, venue_per_mille: 25, live_orders: 60, jumps_per_million: 0,
            self_match_preventions: vec![DecrementBoth, Off],
        }
        "large quantities and money" {
            quantity_scale: (1 << 38) - 1, sessions: 4, instruments: 4, accounts: 3, spread: 8,
            conditions_percent: 20, minimum_percent: 15, undo_per_mille: 10, venue_per_mille: 10,
            live_orders: 60,
        }
        "closing" {
            closes_after: Some(commands * 3 / 4), beyond_ouch_percent: 40, waits_percent: 40,
            pegs_percent: 20,
        }
    }
}
