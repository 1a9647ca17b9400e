//! The simulator holds on seeds with faults and without.

use proof::sim::{self, FaultKind, FaultSet, Options};

fn check(seed: u64, ticks: u64, faults: FaultSet) -> sim::Summary {
    match sim::run(&Options::new(seed, ticks, faults)) {
        Ok(summary) => summary,
        Err(violation) => panic!("{violation}"),
    }
}

/// With everything breaking, nothing that was acknowledged is lost, and every stream, book, balance
/// and hash follows from the journal.
#[test]
fn seeds_with_faults_hold() {
    let (mut kills, mut power_cuts, mut trades, mut snapshot_starts) = (0, 0, 0, 0);
    let mut ledger_entries = 0;
    for seed in 1..=24 {
        let summary = check(seed, 3_000, FaultSet::ALL);
        kills += summary.kills;
        power_cuts += summary.power_cuts;
        trades += summary.trades;
        snapshot_starts += summary.snapshot_starts;
        ledger_entries += summary.ledger_entries;
    }
    assert!(kills > 40 && power_cuts > 10 && trades > 1_000, "{kills} {power_cuts} {trades}");
    assert!(snapshot_starts > 10 && ledger_entries > 1_000, "{snapshot_starts} {ledger_entries}");
}

/// Each kind of fault by itself strikes in some seed, and all holds.
#[test]
fn each_fault_by_itself_holds() {
    for kind in FaultKind::ALL {
        let faults = match kind {
            // It shows only where something else breaks as well.
            FaultKind::ClockSetBack => FaultSet::NONE.with(*kind).with(FaultKind::Kill),
            FaultKind::LyingSync => FaultSet::NONE.with(*kind).with(FaultKind::PowerCut),
            kind => FaultSet::NONE.with(*kind),
        };
        let strikes = (1..=40).any(|seed| {
            check(seed, 1_500, faults).hits.faults.get(kind.as_str()).is_some_and(|hits| *hits > 0)
        });
        assert!(strikes, "{kind:?} never strikes");
    }
}

/// One seed is one run: the same inputs, streams and state, to the last bit.
#[test]
fn a_seed_is_a_run() {
    let all = FaultSet::ALL;
    assert_eq!(check(42, 3_000, all), check(42, 3_000, all));
    assert_ne!(check(42, 3_000, all).state_hash, check(43, 3_000, all).state_hash);
}

/// Without faults every message arrives at the first try: the three sessions connect once, and again
/// when an operator logs them out.
#[test]
fn a_calm_day_needs_one_connection_each() {
    let summary = check(5, 3_000, FaultSet::NONE);
    assert_eq!(summary.kills, 0);
    assert!((3..=3 + summary.log_outs).contains(&summary.connections), "{summary:?}");
    assert!(summary.hits.faults.values().all(|hits| *hits == 0), "{:?}", summary.hits);
}

/// Seeds that showed something once; docs/simulator.md says what.
#[test]
fn seeds_that_found_something_hold() {
    for seed in
        [10, 14, 20, 21, 24, 40, 42, 44, 45, 50, 51, 58, 139, 998, 1672, 1781, 2409, 2546, 20_184]
    {
        check(seed, 2_000, FaultSet::ALL);
    }
    for seed in [77_104, 86_315, 87_208] {
        check(seed, 700, FaultSet::ALL);
    }
}
