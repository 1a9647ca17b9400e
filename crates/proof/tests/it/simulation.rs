//! The simulator holds on seeds with faults and without.

use proof::sim::{self, Counts, FaultKind, FaultSet, Hits, Options};

fn check(seed: u64, ticks: u64, faults: FaultSet) -> sim::Summary {
    match sim::run(&Options::new(seed, ticks, faults)) {
        Ok(summary) => summary,
        Err(violation) => panic!("{violation}"),
    }
}

/// Under all faults no acknowledged message is lost, and every stream, book, balance and hash follows from
/// the journal.
#[test]
fn seeds_with_faults_hold() {
    let mut total = Counts::default();
    for seed in 1..=24 {
        total.add(&check(seed, 3_000, FaultSet::ALL).counts);
    }
    let Counts { kills, power_cuts, trades, snapshot_starts, ledger_entries, .. } = total;
    assert!(kills > 40 && power_cuts > 10 && trades > 1_000, "{total:?}");
    assert!(snapshot_starts > 10 && ledger_entries > 1_000, "{total:?}");
    // Subscribers joined again where the session changed, and a stream dropped messages.
    let Counts { subscriptions, joins, session_changes, stream_drops, .. } = total;
    assert!(subscriptions >= 3 * 24 && joins > subscriptions, "{total:?}");
    assert!(session_changes > 40 && stream_drops > 20, "{total:?}");
}

/// Each kind of fault, alone, strikes in some seed, and all checks hold.
#[test]
fn each_fault_by_itself_holds() {
    for kind in FaultKind::ALL {
        let faults = match kind {
            // These faults show only together with a second fault.
            FaultKind::ClockSetBack => FaultSet::NONE.with(*kind).with(FaultKind::Kill),
            FaultKind::LyingSync => FaultSet::NONE.with(*kind).with(FaultKind::PowerCut),
            kind => FaultSet::NONE.with(*kind),
        };
        let group = if kind.is_attack() { sim::ATTACKS } else { sim::FAULTS };
        let strikes =
            (1..=40).any(|seed| check(seed, 1_500, faults).hits.0[group][kind.as_str()] > 0);
        assert!(strikes, "{kind:?} never strikes");
    }
}

/// Whatever an attacker does, honest clients have all replies, each within its bound; each defence
/// refuses an attack, and the tables of the gateways and the journal stay within their bounds.
#[test]
fn an_attacker_harms_nobody() {
    let mut hits = Hits::none();
    for seed in 1..=80 {
        hits.add(&check(4 * seed, 1_500, FaultSet::ATTACKS).hits);
    }
    for group in [sim::ATTACKS, sim::DEFENCES] {
        for (name, count) in &hits.0[group] {
            assert!(*count > 0, "{name} never happened");
        }
    }
    assert!(hits.0[sim::REPLY_TICKS].values().sum::<u64>() > 1_000, "{hits:?}");
}

/// Requests for more lots than OUCH can express arrive without it. They rest, trade and are printed in the feed, and
/// none of them is lost under any fault.
#[test]
fn quantities_beyond_ouch_are_simulated() {
    let mut hits = Hits::none();
    for seed in [7, 15, 23, 31] {
        hits.add(&check(seed, 3_000, FaultSet::ALL).hits);
    }
    let large = &hits.0[sim::LARGE_QUANTITIES];
    assert_eq!(large.len(), 4, "{large:?}");
    assert!(large.values().all(|times| *times > 20), "{large:?}");
    // In other seeds no participant may ask for so many lots, and some do.
    let calm = check(5, 3_000, FaultSet::NONE).hits;
    let large = &calm.0[sim::LARGE_QUANTITIES];
    assert!(large["large-requests"] > 0 && large["large-booked"] == 0, "{large:?}");
}

/// One seed is one run: the same inputs, streams and state, to the last bit.
#[test]
fn a_seed_is_a_run() {
    let all = FaultSet::ALL;
    assert_eq!(check(42, 3_000, all), check(42, 3_000, all));
    assert_ne!(check(42, 3_000, all).state_hash, check(43, 3_000, all).state_hash);
}

/// Without faults every message arrives at the first try: the three sessions connect once, and again
/// whenever an operator logs them out.
#[test]
fn a_calm_day_needs_one_connection_each() {
    let mut total = Counts::default();
    for seed in [5, 10, 18] {
        let summary = check(seed, 3_000, FaultSet::NONE);
        let Counts { kills, connections, log_outs, .. } = summary.counts;
        assert_eq!((kills, connections), (0, 3 + log_outs), "{summary:?}");
        assert!(summary.hits.0[sim::FAULTS].values().all(|hits| *hits == 0), "{summary:?}");
        total.add(&summary.counts);
    }
    assert!(0 < total.log_outs, "{total:?}");
}

/// Seeds that once found an error; docs/simulator.md describes the errors.
#[test]
fn seeds_that_found_something_hold() {
    for seed in
        [10, 14, 20, 21, 24, 40, 42, 44, 45, 50, 51, 58, 139, 998, 1672, 1781, 2409, 2546, 20_184]
    {
        check(seed, 2_000, FaultSet::ACCIDENTS);
    }
    for seed in [77_104, 86_315, 87_208] {
        check(seed, 700, FaultSet::ACCIDENTS);
    }
}
