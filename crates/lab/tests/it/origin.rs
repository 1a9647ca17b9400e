//! The order files with published results, where they lie beside the repository.

use std::{fs, path::PathBuf};

use lab::order_file::{
    BalanceFile, Instruments, OpeningBalance, OrderFile,
    origin::{OriginCounts, OriginReplay, OriginTrade},
};
use sha2::{Digest, Sha256};

fn folder(set: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("../shared/data/zerox").join(set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: there is no {}", folder.display());
    None
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replays a set and compares counts and hashes with the published ones.
fn replay(set: &str, expected: OriginCounts, levels: (usize, usize)) {
    let Some(folder) = folder(set) else { return };
    let instruments = Instruments::default();
    let mut balances: Vec<OpeningBalance> = Vec::new();
    let mut file = BalanceFile::open(&folder.join("balances_init.csv")).unwrap();
    while let Some(balance) = file.next_balance().unwrap() {
        balances.push(balance);
    }
    let mut replay = OriginReplay::new(&instruments, Some(&balances));
    let lot = instruments.all()[0].base_units_per_lot();
    let mut trades = Sha256::new();
    let mut file = OrderFile::open(&folder.join("orders.csv.gz"), instruments).unwrap();
    while let Some(row) = file.next_row().unwrap() {
        replay.apply(&row, &mut |OriginTrade { taker, maker, price, quantity }| {
            trades.update(format!("{taker},{maker},{price},{}\n", quantity * lot));
        });
    }
    assert_eq!(file.progress().read(), file.progress().len());
    assert_eq!(replay.counts(), expected);
    assert_eq!(replay.levels(), levels);
    let mut book = Sha256::new();
    for order in replay.book() {
        let side = if order.side.is_buy() { "buy" } else { "sell" };
        let (price, leaves) = (order.price, order.leaves * lot);
        book.update(format!("{},{},{side},{price},{leaves}\n", order.order_id, order.participant));
    }
    let mut rows: Vec<_> = replay
        .balances()
        .map(|(participant, is_base, balance)| {
            let participant: u32 = participant.as_str().parse().unwrap();
            (participant, if is_base { 1 } else { 2 }, balance.available, balance.reserved)
        })
        .collect();
    rows.sort_unstable();
    let mut balances = Sha256::new();
    for (participant, asset, available, reserved) in rows {
        balances.update(format!("{participant},{asset},{available},{reserved}\n"));
    }
    let summary = fs::read_to_string(folder.join("expected_summary.txt")).unwrap();
    for hash in [trades, book, balances].map(hex) {
        assert!(summary.contains(&hash), "{hash} is not in\n{summary}");
    }
}

/// The slow replay finds the published results of 100,000 orders.
#[test]
fn orders_of_the_origin_come_to_the_published_results() {
    let counts = OriginCounts {
        accepted: 100_000,
        rejected: 0,
        canceled: 0,
        not_found: 0,
        trades: 47_886,
        self_trades: 55,
    };
    replay("100k", counts, (20_678, 20_993));
}

/// And of 1,000,000 orders with 300,000 cancels.
#[test]
fn cancels_of_the_origin_come_to_the_published_results() {
    let counts = OriginCounts {
        accepted: 903_107,
        rejected: 96_893,
        canceled: 105_179,
        not_found: 194_821,
        trades: 538_487,
        self_trades: 5_827,
    };
    replay("1300k_cancel", counts, (98_178, 16_323));
}
