//! Order files through the whole pipeline: the same results in every layout.

use std::{fs, path::Path, process::Command, thread};

use journal::Durability;
use lab::order_file::{FileWriter, generate::FileProfile};
use lab::order_run::{self, LOOK_INTERVAL, Results, RunOptions};
use market::RejectReason;
use serde_json::Value;
use sha2::{Digest, Sha256};
use venue::{clock::SystemClock, core::RingSlots, layout::Wait};

const LAYOUTS: [&str; 6] = [
    "single",
    "engine-alone",
    "core-alone",
    "entry-core",
    "pipeline",
    "source+ledger | sequencer+reporter | engine+journaler",
];

/// Writes the files of a profile into a folder.
fn generate(folder: &Path, profile: &str, seed: u64, orders: u64) {
    let profile = FileProfile::from_name(profile).unwrap();
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
        layout: layout.parse().unwrap(),
        wait: Wait::Adaptive,
        durability: Durability::Written,
        journal: folder.join(journal),
        out: None,
        origin_rounding: false,
        slots: None,
    }
}

fn run(options: &RunOptions) -> Results {
    let started = order_run::start(options, SystemClock::start()).unwrap();
    while !started.is_over() {
        thread::sleep(LOOK_INTERVAL);
    }
    let results = started.finish(options).unwrap_or_else(|failure| panic!("{failure}"));
    fs::remove_dir_all(&options.journal).unwrap();
    results
}

/// The part of the results that must be equal in two runs.
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
        for slots in [None, Some(RingSlots { submissions: 64, inputs: 64, outputs: 64 })] {
            let options = RunOptions { slots, ..options(folder.path(), layout, "journal") };
            assert_eq!(equal_part(&run(&options)), expected, "{layout} {slots:?}");
        }
    }
}

/// With money, on one thread, on two, on six: the same balances too. They equal the balances from the ledger's entries
/// alone, which the run itself compares with the core's.
#[test]
fn layouts_give_the_same_balances() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "many", 6, 20_000);
    let paid = |layout: &str, slots| RunOptions {
        balances: Some(folder.path().join("balances.csv")),
        slots,
        ..options(folder.path(), layout, "journal")
    };
    let expected = equal_part(&run(&paid("single", None)));
    assert!(expected["sha256"]["balances"].is_string());
    assert!(expected["ledger_entries"].as_u64() > Some(40_000), "{}", expected["ledger_entries"]);
    for layout in LAYOUTS {
        for slots in [None, Some(RingSlots { submissions: 64, inputs: 64, outputs: 64 })] {
            let found = equal_part(&run(&paid(layout, slots)));
            assert!(found == expected, "{layout} {slots:?}");
        }
    }
}

/// Orders that wait, follow the market and show a part, paid for, on one thread and on more: all results are the same.
#[test]
fn layouts_give_the_same_with_contingent_orders() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "contingent", 7, 20_000);
    let paid = |layout: &str| RunOptions {
        balances: Some(folder.path().join("balances.csv")),
        ..options(folder.path(), layout, "journal")
    };
    let expected = equal_part(&run(&paid("single")));
    assert!(expected["trades"].as_u64() > Some(5_000), "{expected}");
    for layout in LAYOUTS {
        assert!(equal_part(&run(&paid(layout))) == expected, "{layout}");
    }
}

/// SHA-256 of trades, book and balances of the files below with the reference rounding, from a plain replay with sorted
/// maps that shared no code with the engine.
const REPLAYED: [[&str; 3]; 3] = [
    [
        "adde99fdd4604e7c4d60380311c2b4ea199383b56b2132542355a96a61b53382",
        "d17d61ba23d33ce8ae742cd4b4f3da578a88f1a98ebbe2b922d3417aa8980b1a",
        "c497fb5a394b23368c20ed156758941be12198cef5401db31c6b62038937ce0e",
    ],
    [
        "de1dbb8e3de5da12005256270b6af8b6574b28409e4667610c0e11d1a2589a61",
        "b4b76f574ae168e9b49a1d3a9b9619840273f58ceed12ae377731e2099122f6b",
        "dc82a12ee0dade316245affbd49ff5058f69510963190d6da8e11c51601898bb",
    ],
    [
        "a93650df66abbbe74fa64d72847dd1b176d67cccb1420f4d129f1b8923b422f3",
        "dd186845c6aacf85722f9b0e4ab336e62a55bd25126f7da888773791caaa573b",
        "823e100536073735a926844a76c71786172d1619e121460f8edb6eb212316615",
    ],
];

/// Generated files in which sellers run dry give the trades, the resting orders and the balances of an
/// independent replay; without the reference rounding less is left reserved.
#[test]
fn generated_files_give_the_replayed_results() {
    for (seed, expected) in (1..).zip(REPLAYED) {
        let folder = tempfile::tempdir().unwrap();
        generate(folder.path(), "origin", seed, 30_000);
        // A tenth of the profile's balance, so that sellers run dry in a short file as well.
        let path = folder.path().join("balances.csv");
        let text = fs::read_to_string(&path).unwrap().replace(",1,10000000000,", ",1,300000000,");
        fs::write(&path, text).unwrap();
        let out = folder.path().join("out");
        let paid = RunOptions {
            balances: Some(path),
            instruments: None,
            out: Some(out.clone()),
            origin_rounding: true,
            ..options(folder.path(), "single", "journal")
        };
        let reserved = || -> u64 {
            let text = fs::read_to_string(out.join("balances.csv")).unwrap();
            let reserved = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap());
            reserved.map(|units| units.parse::<u64>().unwrap()).sum()
        };
        let results = run(&paid);
        assert!(results.rejected() > 1_000 && results.not_found() > 1_000, "{results:?}");
        let balances = results.balances_sha256.as_deref().unwrap();
        let found = [&*results.trades_sha256, &*results.book_sha256, balances];
        assert_eq!(found, expected, "seed {seed}");
        let rounded = reserved();
        let exact = run(&RunOptions { origin_rounding: false, ..paid });
        assert_eq!(exact.trades_sha256, expected[0]);
        assert_ne!(exact.balances_sha256.as_deref(), Some(expected[2]), "seed {seed}");
        assert!(reserved() < rounded, "seed {seed}");
    }
}

/// A public file gives the published hashes in every layout. The larger one, and more runs, are
/// the step `orders` of `cargo x ci`.
#[test]
fn public_file_gives_the_published_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("../shared/data/zerox/100k");
    if !folder.is_dir() {
        eprintln!("skipped: there is no {}", folder.display());
        return;
    }
    let published = fs::read_to_string(folder.join("expected_summary.txt")).unwrap();
    let place = tempfile::tempdir().unwrap();
    for layout in LAYOUTS {
        let results = run(&RunOptions {
            orders: folder.join("orders.csv.gz"),
            balances: Some(folder.join("balances_init.csv")),
            instruments: None,
            origin_rounding: true,
            ..options(place.path(), layout, "journal")
        });
        assert_eq!((results.counts.accepted, results.traded().trades), (100_000, 47_886));
        let balances = results.balances_sha256.as_deref().unwrap();
        for hash in [&results.trades_sha256, &results.book_sha256, balances] {
            assert!(published.contains(hash), "{layout}: {hash} is not in\n{published}");
        }
    }
}

/// On the command line: generated files run, print their results as JSON, and leave files whose lines have the printed
/// hashes.
#[test]
fn generated_files_are_run_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let damrak = |arguments: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_damrak"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {printed}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {printed}"))
    };
    let generated = damrak(&[
        "generate",
        "--orders",
        "5000",
        "--seed",
        "9",
        "--out",
        "o.csv.gz",
        "--balances",
        "b.csv",
        "--json",
    ]);
    assert_eq!((&generated["orders"], &generated["rows"]), (&5_000.into(), &6_500.into()));
    let again =
        damrak(&["generate", "--orders", "5000", "--seed", "9", "--out", "p.csv", "--json"]);
    assert_eq!(again["rows"], 6_500);
    let run = |orders: &str, layout: &str| {
        let of_run = ["--balances", "b.csv", "--layout", layout, "--out", layout, "--json"];
        damrak(&[&["run", orders], of_run.as_slice()].concat())
    };
    let (packed, plain) = (run("o.csv.gz", "single"), run("p.csv", "pipeline"));
    for key in ["state_hash", "sha256", "trades", "places", "cancels", "instruments"] {
        assert_eq!(packed[key], plain[key], "{key}");
    }
    assert_eq!(packed["rows"], 6_500);
    for name in ["trades", "book", "balances"] {
        let text =
            fs::read_to_string(folder.path().join("single").join(name).with_extension("csv"))
                .unwrap();
        let lines = text.split_once('\n').expect("a header").1;
        let hash =
            Sha256::digest(lines).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(packed["sha256"][name], hash, "{name}");
    }
    let ledger = fs::read_to_string(folder.path().join("single/ledger.csv")).unwrap();
    let entries = packed["ledger_entries"].as_u64().unwrap() as usize;
    assert_eq!(ledger.lines().count(), entries + 1, "a header and a line an entry");

    let bench = damrak(&["bench", "pipeline", "--orders", "2000", "--runs", "1", "--json"]);
    let file = &bench["files"][0];
    let layouts = file["layouts"].as_array().unwrap();
    assert_eq!(layouts.len(), 4);
    for layout in layouts {
        assert_eq!(layout["state_hash"], file["core"]["state_hash"]);
        assert!(layout["commands_per_second"].as_f64() > Some(0.0));
        let times = &layout["ns_per_command"];
        assert!(times["p50"].as_u64() > Some(0), "{times}");
        assert!(times["p50"].as_u64() <= times["p999"].as_u64(), "{times}");
        let rings: Vec<_> = layout["rings"].as_array().unwrap().iter().collect();
        assert_eq!(rings.len(), 3);
        assert!(rings.iter().all(|ring| ring["batch_max"].as_u64() > Some(0)), "{rings:?}");
    }
}

/// Orders that the exchange refuses are counted by reason and change nothing: numbers used twice, cancels of another's
/// order, impossible quantities and prices, orders of users without a balance, and costs beyond every balance. The
/// balances of all users together stay at the opening total.
#[test]
fn refused_orders_are_counted_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let most = u64::MAX;
    fs::write(
        path("balances.csv"),
        format!("user_id,asset_id,avail\n1,2,10000\n2,1,{most}\n3,2,{most}\n4,2,{most}\n"),
    )
    .unwrap();
    fs::write(
        path("orders.csv"),
        "order_id,user_id,action,side,price,qty\n\
         1,1,place,buy,10.00,1\n\
         1,1,place,buy,11.00,1\n\
         1,2,cancel,,,\n\
         7,1,cancel,,,\n\
         2,1,place,buy,10.00,0\n\
         3,1,place,buy,0.00,1\n\
         4,1,place,buy,99.00,1\n\
         5,1,place,sell,10.00,0.000001\n\
         6,9,place,buy,10.00,1\n\
         7,3,place,buy,18446744073709.55,18446744073\n\
         8,3,place,buy,19999999.00,268.435455\n\
         9,4,place,buy,19999999.01,1\n\
         10,2,place,sell,10.00,0.4\n",
    )
    .unwrap();
    for layout in LAYOUTS {
        let results = run(&RunOptions {
            orders: path("orders.csv"),
            balances: Some(path("balances.csv")),
            instruments: None,
            out: Some(path("out")),
            ..options(folder.path(), layout, "journal")
        });
        let rejected: Vec<_> = results.counts.rejected.iter().map(|(r, n)| (*r, *n)).collect();
        assert_eq!(
            rejected,
            [
                (RejectReason::InvalidQuantity, 2),
                (RejectReason::InvalidPrice, 2),
                (RejectReason::InsufficientBalance, 3),
            ],
            "{layout}"
        );
        assert_eq!((results.duplicates(), results.counts.accepted), (1, 3), "{layout}");
        assert_eq!((results.counts.canceled, results.not_found()), (0, 2), "{layout}");
        assert_eq!(results.traded().trades, 1, "{layout}");
        let balances = fs::read_to_string(path("out").join("balances.csv")).unwrap();
        // The best bid is the one at 19,999,999.00; it loses 0.4 of its quantity, and the amount held for the rest is
        // rounded down.
        let (limit, cost) = (1_999_999_900_u64, 799_999_960);
        let reserved = limit * (268_435_455 - 400_000) / 1_000_000;
        let expected = [
            "user_id,asset_id,avail,frozen".to_owned(),
            "1,1,0,0".to_owned(),
            "1,2,9000,1000".to_owned(),
            format!("2,1,{},0", most - 40_000_000),
            format!("2,2,{cost},0"),
            "3,1,40000000,0".to_owned(),
            format!("3,2,{},{reserved}", most - cost - reserved),
            "4,1,0,0".to_owned(),
            format!("4,2,{most},0"),
            "9,1,0,0".to_owned(),
            "9,2,0,0".to_owned(),
        ];
        assert_eq!(balances.lines().collect::<Vec<_>>(), expected, "{layout}");
    }
}

/// A row that is no order stops the run: exit code 2, the place, and the reason.
#[test]
fn errors_name_the_row() {
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
        let (code, printed) = damrak(&["--layout", "pipeline"]);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(expected), "{printed}");
        assert!(printed.starts_with(&format!("error: {}", orders.display())), "{printed}");
    }
    fs::write(&orders, format!("{header}\n1,1,buy,1.00,1\n")).unwrap();
    fs::write(&balances, "user_id,asset_id,avail\n1,3,5\n").unwrap();
    let (code, printed) = damrak(&["--balances", balances.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(
        printed.contains("line 2, column `asset`: found `3`, expected an asset of an"),
        "{printed}"
    );
    let (code, printed) = damrak(&["--rounding", "origin"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("give --balances"), "{printed}");
    let (code, printed) = damrak(&["--layout", "both"]);
    assert_eq!(code, Some(2), "{printed}");
    let (code, printed) = damrak(&["--balances", "there/is/none"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("cannot open there/is/none: No such file"), "{printed}");

    let journal = folder.path().join("journal");
    let kept = ["--journal", journal.to_str().unwrap()];
    assert_eq!(damrak(&kept).0, Some(0));
    let (code, printed) = damrak(&kept);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("there is a journal in"), "{printed}");
}
