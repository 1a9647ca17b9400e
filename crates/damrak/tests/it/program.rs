//! The program from a user's view: arguments, messages, exit codes.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

use serde_json::{Value, json};

pub(crate) fn damrak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_damrak")).args(arguments).output().expect("damrak runs")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A free address for a socket of this process. The loopback address is the process's own, and the port is below those
/// that the system chooses, so nobody else binds it.
pub(crate) fn free_address() -> SocketAddr {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | high, middle, low);
    SocketAddr::from((own, PORT.fetch_add(1, Ordering::Relaxed)))
}

/// A configuration on free ports, with its journal in `folder`.
pub(crate) fn config(folder: &Path, more: &str) -> String {
    let path = folder.join("venue.toml");
    let journal = folder.join("journal");
    let text = format!(
        "[journal]\ndirectory = {journal:?}\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
         [market_data]\ngroup = \"239.10.10.11:0\"\nre_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n{more}"
    );
    fs::write(&path, text).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// A venue in a process of its own; killed when dropped.
pub(crate) struct Venue {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Venue {
    pub(crate) fn start(config: &str, more: &[&str]) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_damrak"));
        Self::spawn(command.args(["serve", "--json", "--config", config]).args(more))
    }

    /// Starts it by a command that prints JSON.
    pub(crate) fn spawn(command: &mut Command) -> (Self, Value) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut venue = Self { child, lines };
        let started = venue.next();
        (venue, started)
    }

    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.next().expect("the venue prints").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every verb explains itself, with an example.
#[test]
fn every_verb_has_help_with_an_example() {
    for verb in [
        "demo", "serve", "password", "load", "feed", "journal", "recover", "at", "snapshot",
        "follow", "sim", "kill", "bench", "profile", "lab", "man", "scenario", "doctor", "report",
    ] {
        let output = damrak(&[verb, "--help"]);
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{verb}");
        assert!(help.contains("Example") && help.contains(&format!("damrak {verb}")), "{help}");
    }
    let page = damrak(&["man", "serve"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains(".TH damrak-serve"));
}

/// The printed hash of a password from standard input is valid in a configuration, and no argument is a password.
#[test]
fn a_password_is_hashed() {
    let hash_of = |line: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_damrak"))
            .arg("password")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let made = hash_of("Secret1\n");
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let hash = String::from_utf8(made.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("venue.toml");
    let check = |password: &str| {
        let text = format!(
            "[[participants]]\nusername = \"bob\"\npassword = \"{password}\"\nfirm = \"FIRM\"\n"
        );
        std::fs::write(&path, text).unwrap();
        damrak(&["serve", "--check", "--config", path.to_str().unwrap()])
    };
    let checked = check(hash.trim());
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && !said.contains("note: "), "{said} {}", stderr(&checked));
    let plain = check("Secret1");
    let said = String::from_utf8_lossy(&plain.stdout);
    assert!(said.contains("note: the passwords of bob are plain text"), "{said}");
    assert_eq!(hash_of("elevenchars\n").status.code(), Some(2));
    assert_eq!(damrak(&["password", "Secret1"]).status.code(), Some(2));
}

/// An error in a command line or a configuration ends with 2 and names the place.
#[test]
fn wrong_usage_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(damrak(&["trade"]).status.code(), Some(2));
    assert_eq!(damrak(&["serve", "--config", "no-such-file.toml"]).status.code(), Some(2));
    let path = config(folder.path(), "[rings]\nimputs = 64\n");
    let output = damrak(&["serve", "--config", &path]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("venue.toml:13:1: unknown field `imputs`"), "{message}");
    assert!(message.contains("did you mean `inputs`?"), "{message}");
}

/// Notices are JSON objects on request, each with time, level and component, and the last one is written before the
/// program ends.
#[test]
fn notices_are_json_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "[log]\nlevel = \"error\"\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_damrak"))
        .args(["serve", "--json", "--log-format", "json", "--log-level", "info", "--config", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut started = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut started).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-QUIT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let notices: Vec<Value> = stderr(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    for notice in &notices {
        for field in ["timestamp", "level", "component", "message"] {
            assert!(notice[field].is_string(), "{notice}");
        }
    }
    assert!(notices.last().unwrap()["message"].as_str().unwrap().contains("SIGQUIT"));
}

/// A port in use is reported with its key; the exit code is 3.
#[test]
fn a_taken_port_is_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = config(folder.path(), "");
    for (key, address) in [
        ("[order_entry]\naddress", tcp.local_addr().unwrap()),
        ("[order_entry_udp]\naddress", udp.local_addr().unwrap()),
    ] {
        let text = fs::read_to_string(&path).unwrap();
        let taken =
            text.replace(&format!("{key} = \"127.0.0.1:0\""), &format!("{key} = \"{address}\""));
        assert_ne!(text, taken);
        let other = folder.path().join("taken.toml");
        fs::write(&other, taken).unwrap();
        let output = damrak(&["serve", "--config", other.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(&address.to_string()), "{}", stderr(&output));
        assert!(stderr(&output).contains("hint:"), "{}", stderr(&output));
    }
}

/// A folder with third-party files is refused and not written into.
#[test]
fn a_foreign_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "");
    let journal = folder.path().join("journal");
    fs::create_dir(&journal).unwrap();
    fs::write(journal.join("holiday.jpg"), b"not ours").unwrap();
    let output = damrak(&["serve", "--config", &path]);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{:?}", output.status);
    assert!(stderr(&output).contains("holiday.jpg"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&journal).unwrap().count(), 1);
    assert_eq!(damrak(&["journal", "verify", journal.to_str().unwrap()]).status.code(), Some(3));
}

/// Two venues never write one journal.
#[test]
fn a_journal_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "");
    let (_venue, _) = Venue::start(&path, &[]);
    let output = damrak(&["serve", "--config", &path]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// A changed byte in the middle of a journal is found, named with its offset, and ends with 4; a venue does not start
/// on that journal.
#[test]
fn a_corrupt_journal_is_exit_code_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "");
    let (mut venue, started) = Venue::start(&path, &["--status", "50ms"]);
    while venue.next()["sequence"].as_u64() < Some(10) {}
    // A clean stop names all records in the watermark. After a kill, a bad last batch is a torn tail.
    let pid = venue.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(venue.child.wait().unwrap().code(), Some(0));
    drop(venue);
    let journal = started["journal"].as_str().unwrap();
    let verified = damrak(&["journal", "verify", journal, "--json"]);
    assert_eq!(verified.status.code(), Some(0), "{}", stderr(&verified));
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert!(verified["last_sequence"].as_u64() >= Some(10));
    assert_eq!(verified["torn_tail"], Value::Null);

    let segment = fs::read_dir(journal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "damrak"))
        .unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8_192 + 40] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let output = damrak(&["journal", "verify", journal]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains(".damrak, byte "), "{}", stderr(&output));
    assert_eq!(damrak(&["serve", "--config", &path]).status.code(), Some(4));
}

/// Kills lose no acknowledged command; without a durability promise they do, and the losses are found.
#[test]
fn kills_lose_nothing_that_was_promised() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("kill");
    let out = out.to_str().unwrap();
    let kept = damrak(&["kill", "--times", "3", "--rate", "3k/s", "--json", "--out", out]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    let tally: Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!((&tally["kills"], &tally["acked_lost"]), (&3.into(), &0.into()), "{tally}");
    assert!(tally["acked"].as_u64() > Some(0), "{tally}");
    let lost = damrak(&["kill", "--times", "10", "--durability", "none", "--out", out]);
    assert_eq!(lost.status.code(), Some(4), "{}", stderr(&lost));
    assert!(stderr(&lost).contains("replies that are gone"), "{}", stderr(&lost));
}

/// A venue without work sleeps, in any layout: it uses far less CPU time than a thread that spins. Other work on the
/// machine only lowers that further.
#[test]
fn an_idle_venue_sleeps() {
    for layout in ["single", "core-alone", "entry-core", "pipeline"] {
        let folder = tempfile::tempdir().unwrap();
        let path = config(folder.path(), &format!("[layout]\nthreads = \"{layout}\"\n"));
        let (mut venue, _) = Venue::start(&path, &["--status", "1s"]);
        let first = venue.next();
        let last = (0..2).map(|_| venue.next()).last().unwrap();
        let used = last["cpu_s"].as_f64().unwrap() - first["cpu_s"].as_f64().unwrap();
        let passed = last["uptime_s"].as_f64().unwrap() - first["uptime_s"].as_f64().unwrap();
        assert!(used < passed * 0.5, "{layout}: {used} s of CPU in {passed} s");
    }
}

/// Load over TCP and UDP is answered, and a subscriber that joins afterwards gets every message.
#[test]
fn load_is_answered_and_the_feed_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let local = free_address();
    let participants = format!(
        "[[participants]]\nusername = \"user01\"\npassword = \"password01\"\nfirm = \"FIRM\"\n\
         [[participants]]\nusername = \"user04\"\nfirm = \"FIRM\"\nudp = \"{local}\"\n"
    );
    let path = config(folder.path(), &participants);
    let (_venue, started) = Venue::start(&path, &[]);
    let address = |name: &str| started["addresses"][name].as_str().unwrap().to_owned();

    let out = folder.path().join("figures");
    let load = damrak(&[
        "load",
        "--json",
        "--grace",
        "60s",
        "--for",
        "1s",
        "--rate",
        "2k/s",
        "--pack",
        "4",
        "--to",
        &address("order_entry"),
        "--session",
        "user01:password01",
        "--to-udp",
        &address("order_entry_udp"),
        "--udp",
        &local.to_string(),
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(load.status.code(), Some(0), "{}", stderr(&load));
    let load: Value = serde_json::from_slice(&load.stdout).unwrap();
    assert_eq!(load["sessions"], 2, "{load}");
    assert!(load["replies"].as_u64() > Some(0), "{load}");
    assert_eq!(load["unexpected"], 0, "{load}");
    assert!(load["latency_ns"]["p50"].as_u64() > Some(0), "{load}");
    assert!(out.join("order-to-ack.hgrm").exists());
    assert!(load["floor"]["latency_ns"]["count"].as_u64() > Some(0), "{load}");

    // An objective that no venue meets, and orders that every venue rejects, have exit codes of their own.
    let order_entry = address("order_entry");
    let briefly = ["load", "--json", "--no-floor", "--for", "100ms"];
    let briefly = [&briefly[..], &["--grace", "60s", "--to", &order_entry]].concat();
    let failed = damrak(&[&briefly[..], &["--slo", "loss<=100%,max<1ns"]].concat());
    assert_eq!(failed.status.code(), Some(5), "{}", stderr(&failed));
    let figures: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((&figures["passed"], &figures["slo"][0]["passed"]), (&json!(false), &json!(true)));
    assert!(stderr(&failed).contains("max<1ns"), "{}", stderr(&failed));
    let rejected = damrak(&[&briefly[..], &["--symbols", "NOPE"]].concat());
    assert_eq!(rejected.status.code(), Some(6), "{}", stderr(&rejected));
    let figures: Value = serde_json::from_slice(&rejected.stdout).unwrap();
    assert_eq!(figures["rejects"]["invalid symbol"], figures["rejected"], "{figures}");
    let steps = damrak(&[&briefly[..], &["--rate", "1k/s,2k/s"]].concat());
    assert_eq!(steps.status.code(), Some(0), "{}", stderr(&steps));
    let steps: Value = serde_json::from_slice(&steps.stdout).unwrap();
    let due = |run: usize| {
        let figure = |name: &str| steps["runs"][run][name].as_u64().unwrap();
        figure("requests") + figure("unsent")
    };
    assert_eq!((due(0), due(1)), (100, 200), "{steps}");
    let listed = damrak(&[&briefly[..], &["--snapshot", &address("snapshot")]].concat());
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["rejected"], &listed["symbols"]),
        (&json!(0), &json!(["AAPL", "MSFT", "NVDA"])),
        "{listed}"
    );
    let none = damrak(&[&briefly[..], &["--slo", "max<1ns", "--find-max"]].concat());
    assert_eq!(none.status.code(), Some(5), "{}", stderr(&none));

    let recording = folder.path().join("feed.itch");
    let feed = damrak(&[
        "feed",
        "--from-start",
        "--json",
        "--until-caught-up",
        "--group",
        &address("market_data"),
        "--re-request",
        &address("re_request"),
        "--record",
        recording.to_str().unwrap(),
    ]);
    assert_eq!(feed.status.code(), Some(0), "{}", stderr(&feed));
    let feed: Value = serde_json::from_slice(&feed.stdout).unwrap();
    assert!(feed["messages"].as_u64() > Some(0), "{feed}");
    assert_eq!(feed["missing"], 0, "{feed}");
    assert!(feed["trades"].as_u64() > Some(0), "{feed}");
    assert!(fs::metadata(recording).unwrap().len() > 20 * feed["messages"].as_u64().unwrap());

    // A subscriber that joins now has the same books at once, from multicast and over TCP.
    let joined = |arguments: &[&str]| -> Value {
        let snapshot = address("snapshot");
        let common = ["feed", "--json", "--until-caught-up", "--snapshot", &snapshot];
        let output = damrak(&[&common, arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (group, re_request) = (address("market_data"), address("re_request"));
    let by_multicast = joined(&["--group", &group, "--re-request", &re_request]);
    let by_tcp = joined(&["--tcp", &address("feed_tcp")]);
    let whole = joined(&["--tcp", &address("feed_tcp"), "--from-start"]);
    let resting = |feed: &Value| -> Value {
        let books = feed["books"].as_array().unwrap();
        books.iter().map(|it| json!([it["symbol"], it["orders"], it["bids"], it["asks"]])).collect()
    };
    for late in [&by_multicast, &by_tcp] {
        assert_eq!((&late["snapshots"], &late["missing"]), (&json!(1), &json!(0)), "{late}");
        assert_eq!(late["first_message"], feed["messages"].as_u64().unwrap() + 1, "{late}");
    }
    for other in [&by_multicast, &by_tcp, &whole] {
        assert_eq!(resting(other), resting(&feed), "{other}");
    }
    assert_eq!(whole["messages"], feed["messages"]);
}

/// A feed that cannot be joined gives the reason and the remedy.
#[test]
fn the_feed_says_why_it_cannot_join() {
    let unbound = free_address().to_string();
    let output = damrak(&["feed", "--snapshot", &unbound, "--group", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("snapshot") && message.contains("--no-snapshot"), "{message}");
}

/// On every flow the core makes the expected trades, and so does the plain book beside it.
#[test]
fn the_bench_compares_trades() {
    let output = damrak(&["bench", "book", "--divisor", "100", "--runs", "2", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["schema"], "damrak/bench-book/1");
    let flows = printed["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 3);
    for flow in flows {
        let rows = flow["rows"].as_array().unwrap();
        let engines: Vec<_> = rows.iter().map(|row| row["engine"].as_str().unwrap()).collect();
        assert_eq!(engines, ["matching", "engine", "engine-balances", "model-btree", "null"]);
        for row in &rows[..4] {
            // The expected tally is that of the plain book, so the plain book's own row has no verdict.
            let agrees = (row["engine"] != "model-btree").then_some(true);
            assert_eq!(row["agrees"].as_bool(), agrees, "{row}");
            assert_eq!(row["hash"], flow["expected"]["hash"], "{row}");
            assert_eq!(row["ns_per_op"]["runs"].as_array().unwrap().len(), 2);
            assert!(row["ns_per_op"]["best"].as_f64() > Some(0.0), "{row}");
            assert!(row["latency_ns"]["p50"].as_u64() > Some(0), "{row}");
        }
        assert!(rows[4]["agrees"].is_null(), "the floor trades nothing: {}", rows[4]);
    }
    assert!(printed["environment"]["rustc"].as_str().unwrap().starts_with("rustc "));
}

/// The shapes, which no flow has, are measured on request, and then nothing else is.
#[test]
fn the_bench_measures_shapes() {
    let arguments = ["bench", "book", "--flow", "shapes", "--divisor", "1000", "--json"];
    let output = damrak(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["flows"].as_array().unwrap().len(), 0);
    let resting = printed["shapes"]["resting"].as_array().unwrap();
    let engines: Vec<_> = resting.iter().map(|row| row["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, ["matching", "engine"]);
    for row in resting {
        assert_eq!(row["orders"], 10_000);
        assert!(row["cancel_ns"].as_f64() > Some(0.0), "{row}");
        assert!(row["cancel_few_ns"].as_f64() > Some(0.0), "{row}");
        for adds in [&row["growing"], &row["reserved"], &printed["shapes"]["nothing"]] {
            assert!(adds["max_ns"].as_u64() > Some(0), "{row}");
            assert!(adds["p99999_ns"].as_u64() <= adds["max_ns"].as_u64(), "{row}");
        }
    }
    let shapes = printed["shapes"]["shapes"].as_array().unwrap();
    assert_eq!(shapes.len(), 6);
    assert!(shapes.iter().all(|row| row["ratio"].as_f64() > Some(0.0)), "{shapes:?}");
}

/// An unknown flow or engine is wrong usage; rivals that cannot be run are reported with the way to build them.
#[test]
fn the_bench_refuses_what_it_does_not_know() {
    let refused = |arguments: &[&str]| {
        let output = damrak(&[&["bench", "book", "--divisor", "100000"], arguments].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, message) = refused(&["--flow", "D"]);
    assert_eq!((code, message.contains("there are A, B, C")), (Some(2), true), "{message}");
    let (code, message) = refused(&["--engine", "abacus"]);
    assert_eq!((code, message.contains("there are matching, ")), (Some(2), true), "{message}");
    assert_eq!(refused(&["--divisor", "0"]).0, Some(2));
    let (code, message) = refused(&["--rivals", "no-such-program", "--runs", "1"]);
    assert_eq!(
        (code, message.contains("hint: bench/rivals/build.sh")),
        (Some(3), true),
        "{message}"
    );
}

/// An engine of another program takes its turns after ours and is listed beside them; an engine with different trades
/// ends the bench with 4.
#[test]
fn the_bench_finds_other_trades() {
    let output = with_rival(
        "head -c 4 \"$1\" | grep -q WLF1 || exit 1; echo '{\"engines\": [\"liar\"]}'
        while read -r what index; do
            case \"$what\" in
            run) echo '{\"ns_per_op\": 1.5, \"trades\": 1, \"quantity\": 1, \"hash\": \"01\"}' ;;
            latency) echo '{\"p50\": 1, \"p99\": 2, \"p999\": 3, \"max\": 4}' ;;
            esac
        done",
    );
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("liar on flow A"), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &printed["flows"][0]["rows"][1];
    assert_eq!((&row["engine"], &row["rival"]), (&json!("liar"), &json!(true)));
    assert_eq!(row["ns_per_op"]["runs"], json!([1.5, 1.5, 1.5]));
    assert_eq!((&row["latency_ns"]["max"], &row["agrees"]), (&json!(4), &json!(false)));
}

/// A rival with a wrong answer, or without a further one, ends the bench, which prints the question.
#[test]
fn the_bench_tells_which_rival_failed() {
    let nonsense = with_rival("echo hello; read -r line");
    assert_eq!(nonsense.status.code(), Some(1), "{}", stderr(&nonsense));
    assert!(
        stderr(&nonsense).contains("\"which engines\" with \"hello\""),
        "{}",
        stderr(&nonsense)
    );
    let silent = with_rival("echo '{\"engines\": [\"short\"]}'; read -r line");
    assert_eq!(silent.status.code(), Some(1), "{}", stderr(&silent));
    assert!(stderr(&silent).contains("ended before it answered \"run 0\""), "{}", stderr(&silent));
}

fn with_rival(script: &str) -> Output {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let rival = folder.path().join("rival");
    fs::write(&rival, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&rival, fs::Permissions::from_mode(0o755)).unwrap();
    let book = ["bench", "book", "--flow", "A", "--divisor", "1000", "--engine", "matching"];
    let rivals = ["--runs", "3", "--json", "--rivals", rival.to_str().unwrap()];
    damrak(&[&book[..], &rivals[..]].concat())
}

/// The scenarios of the documentation hold; a failing one gives file, line, expected and found events; an unreadable
/// one is wrong usage.
#[test]
fn scenarios_are_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().into_os_string().into_string().unwrap())
        .collect();
    files.sort();
    assert!(files.len() > 5, "{files:?}");
    let arguments: Vec<&str> =
        ["scenario", "--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let output = damrak(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let played: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(played["scenarios"].as_array().unwrap().len(), files.len());

    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("wrong.scenario");
    let play = |text: &str| {
        fs::write(&path, text).unwrap();
        let output = damrak(&["scenario", path.to_str().unwrap()]);
        (output.status.code(), stderr(&output))
    };
    let (code, message) = play("# a comment\nbuy A1 1 @ 100 => accepted\n");
    assert_eq!(code, Some(4), "{message}");
    for part in ["wrong.scenario:2: buy A1 1 @ 100", "expected: accepted\n", "booked 1 @ 100"] {
        assert!(message.contains(part), "{message}");
    }
    for (line, why) in [
        ("buy A1 x @ 100", "found \"x\""),
        ("dance A1", "not a command"),
        ("cancel A1 to 1 2", "a word too many"),
        ("book AAPL MSFT", "a word too many"),
        ("phase AAPL", "missing"),
    ] {
        let (code, message) = play(line);
        assert!(code == Some(2) && message.contains(why), "{line}: {code:?} {message}");
    }
}

/// The demo kills a venue in the middle of the load and finds all data again.
#[test]
fn the_demo_finds_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("demo-out");
    let output = damrak(&[
        "demo",
        "--for",
        "2s",
        "--json",
        "--rate",
        "4k/s",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    for count in ["acked", "orders", "feed_messages"] {
        assert!(summary[count].as_u64() > Some(0), "{count}: {summary}");
    }
    assert_eq!(summary["acked_lost"], 0, "{summary}");
    for check in ["state_hash_equal", "feed_book_equal", "passed"] {
        assert_eq!(summary[check], true, "{check}: {summary}");
    }
    for percentile in ["p50", "p99", "p999", "max"] {
        assert!(summary["latency_ns"][percentile].as_u64() > Some(0), "{summary}");
    }
    assert!(summary["feed_gaps"].is_u64(), "{summary}");
    assert!(out.join("summary.json").exists());
}

/// Participants of the examples have publicly known passwords, so other machines must not reach them.
#[test]
fn examples_are_not_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("venue.toml");
    let path = path.to_str().unwrap();
    for (address, password, code) in [
        ("0.0.0.0:26400", "password01", 2),
        ("0.0.0.0:26400", "another", 0),
        ("127.0.0.1:26400", "password01", 0),
    ] {
        let text = format!(
            "[order_entry]\naddress = {address:?}\n[[participants]]\nusername = \"user01\"\n\
             password = {password:?}\nfirm = \"FIRM\"\n"
        );
        fs::write(path, text).unwrap();
        let output = damrak(&["serve", "--check", "--config", path]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("choose another password"), code == 2, "{said}");
    }
}
