use damrak::sim::{self, Options};

fn check(seed: u64, ticks: u64, faults: bool) -> sim::Summary {
    match sim::run(&Options { seed, ticks, faults }) {
        Ok(summary) => summary,
        Err(violation) => panic!("{violation}"),
    }
}

/// With everything breaking, nothing that was acknowledged is lost, and every stream, book and
/// hash follows from the journal.
#[test]
fn seeds_with_faults_hold() {
    let (mut kills, mut power_cuts, mut trades, mut snapshot_starts) = (0, 0, 0, 0);
    for seed in 1..=24 {
        let summary = check(seed, 6_000, true);
        kills += summary.kills;
        power_cuts += summary.power_cuts;
        trades += summary.trades;
        snapshot_starts += summary.snapshot_starts;
    }
    assert!(kills > 5 && power_cuts > 1 && trades > 1_000, "{kills} {power_cuts} {trades}");
    assert!(snapshot_starts > 3, "{snapshot_starts}");
}

/// One seed is one run: the same inputs, streams and state, to the last bit.
#[test]
fn a_seed_is_a_run() {
    assert_eq!(check(42, 3_000, true), check(42, 3_000, true));
    assert_ne!(check(42, 3_000, true).state_hash, check(43, 3_000, true).state_hash);
}

/// Without faults every message arrives at the first try.
#[test]
fn a_calm_day_needs_one_connection_each() {
    let summary = check(5, 3_000, false);
    assert_eq!((summary.kills, summary.connections), (0, 3));
}
