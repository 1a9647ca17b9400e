//! Order files through the whole pipeline: the same results in every layout.

use std::{fs, path::Path, process::Command, thread};

use damrak::{
    clock::SystemClock,
    orders::{self, Grouping, LOOK_INTERVAL, Results, RingSlots, RunOptions},
};
use flow::orders::{FileWriter, generate::Profile};
use journal::Durability;
use serde_json::Value;

const LAYOUTS: [&str; 4] =
    ["single", "edge", "pipeline", "source+ledger | sequencer+reporter | engine+journaler"];

/// Writes what a profile gives into a folder.
fn generate(folder: &Path, profile: &str, seed: u64, orders: u64) {
    let profile = Profile::from_name(profile).unwrap();
    let file = |name: &str| FileWriter::create(&folder.join(name)).unwrap();
    let mut orders_file = file("orders.csv.gz");
    profile.write_orders(seed, orders, &mut orders_file).unwrap();
    orders_file.finish().unwrap();
    let mut balances = file("balances.csv");
    profile.write_balances(&mut balances).unwrap();
    balances.finish().unwrap();
    let mut instruments = file("instruments.csv");
    profile.write_instruments(&mut instruments).unwrap();
    instruments.finish().unwrap();
}

fn options(folder: &Path, layout: &str, journal: &str) -> RunOptions {
    RunOptions {
        orders: folder.join("orders.csv.gz"),
        balances: None,
        instruments: Some(folder.join("instruments.csv")),
        grouping: layout.parse::<Grouping>().unwrap(),
        idle: None,
        durability: Durability::Written,
        journal: folder.join(journal),
        out: None,
        origin_rounding: false,
        slots: RingSlots::default(),
    }
}

fn run(options: &RunOptions) -> Results {
    let started = orders::start(options, SystemClock::start()).unwrap();
    while !started.is_over() {
        thread::sleep(LOOK_INTERVAL);
    }
    let results = started.finish(options).unwrap_or_else(|failure| panic!("{failure}"));
    fs::remove_dir_all(&options.journal).unwrap();
    results
}

/// All that must be equal of two runs.
fn equal_part(results: &Results) -> Value {
    let mut json = results.to_json();
    for of_this_run in ["layout", "seconds", "commands_per_second"] {
        json.as_object_mut().unwrap().remove(of_this_run);
    }
    json
}

/// Every kind of order on a hundred instruments, on one thread, on two, on six: the same counts,
/// trades, books and state, also through rings so small that every one of them fills.
#[test]
fn layouts_give_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "many", 5, 20_000);
    let expected = equal_part(&run(&options(folder.path(), "single", "first")));
    assert_eq!(expected["rows"], 26_992, "{expected}");
    assert!(expected["trades"].as_u64() > Some(8_000), "{expected}");
    assert!(expected["modifies"]["effective"].as_u64() > Some(200), "{expected}");
    let replaces = &expected["replaces"];
    assert!(replaces["effective"].as_u64() > Some(500), "{expected}");
    assert!(expected["cancels"]["not_found"].as_u64() > Some(2_000), "{expected}");
    for layout in LAYOUTS {
        for slots in [RingSlots::default(), RingSlots { submissions: 64, inputs: 64, outputs: 64 }]
        {
            let options = RunOptions { slots, ..options(folder.path(), layout, "journal") };
            assert_eq!(equal_part(&run(&options)), expected, "{layout} {slots:?}");
        }
    }
}

/// What is not read as an order stops the run: exit code 2, the place, and the reason.
#[test]
fn wrong_rows_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let orders = folder.path().join("orders.csv");
    let balances = folder.path().join("balances.csv");
    let damrak = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_damrak"))
            .arg("run")
            .arg(&orders)
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let header = "order_id,user_id,side,price,qty";
    for (rows, expected) in [
        ("1,1,buy,1.00,x", "line 2, column `quantity`: found `x`, expected a decimal number"),
        ("1,1,buy,1.00,1\n1,1,buy,1.00", "line 3: found 4 fields in `1,1,buy,1.00`, expected 5"),
    ] {
        fs::write(&orders, format!("{header}\n{rows}\n")).unwrap();
        let (code, told) = damrak(&["--layout", "pipeline"]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(expected), "{told}");
        assert!(told.starts_with(&format!("error: {}", orders.display())), "{told}");
    }
    fs::write(&orders, format!("{header}\n1,1,buy,1.00,1\n")).unwrap();
    fs::write(&balances, "user_id,asset_id,avail\n1,3,5\n").unwrap();
    let (code, told) = damrak(&["--balances", balances.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("line 2, column `asset`: found `3`, expected an asset of an"), "{told}");
    let (code, told) = damrak(&["--rounding", "origin"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("there is no --balances"), "{told}");
    let (code, told) = damrak(&["--layout", "both"]);
    assert_eq!(code, Some(2), "{told}");
    let (code, told) = damrak(&["--balances", "there/is/none"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("cannot open there/is/none: No such file"), "{told}");

    let journal = folder.path().join("journal");
    let kept = ["--journal", journal.to_str().unwrap()];
    assert_eq!(damrak(&kept).0, Some(0));
    let (code, told) = damrak(&kept);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("there is a journal in"), "{told}");
}
