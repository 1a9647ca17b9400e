//! `damrak lab netns`, as root if the tests run as root: load and venue in two network namespaces, and the remains of a
//! kill. Otherwise the tests report that they were skipped, with the reason.

use std::{
    fs,
    io::{self, Write},
    iter,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

use super::{
    patience::wait_for,
    program::{Venue, config, damrak, stderr},
};

/// Reports a skipped test past the capture of the test harness.
fn skipped(test: &str, why: &str) {
    let text = format!("skipped: netns::{test}: {}\n", why.trim().replace('\n', " "));
    io::stderr().write_all(text.as_bytes()).unwrap();
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn netns(arguments: &[&str]) -> Output {
    damrak(&[&["lab", "netns"], arguments].concat())
}

fn has_namespace(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// A pair that is up, taken down when dropped. If it cannot be made, the error is the reason.
struct Pair(String);

impl Pair {
    fn up(name: &str) -> Result<Self, String> {
        let name = format!("{name}{}", std::process::id());
        let output = netns(&["up", "--name", &name]);
        match output.status.code() {
            Some(0) => Ok(Self(name)),
            Some(3) => {
                let message = stderr(&output);
                assert!(message.contains("\n hint: "), "{message}");
                Err(message)
            }
            code => panic!("{code:?}: {}", stderr(&output)),
        }
    }
}

impl Pair {
    /// A command of the program on a side.
    fn command(&self, side: &str, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_damrak");
        let mut command = Command::new(program);
        command.args(["lab", "netns", "run", "--name", &self.0, side, "--", program]);
        command.args(arguments);
        command
    }

    /// Starts a venue on its side, with these lines in its configuration.
    fn serve(&self, folder: &Path, more: &str) -> (Venue, Value) {
        let path = config(folder, more);
        let text = fs::read_to_string(&path).unwrap().replace("127.0.0.1", "10.77.0.2");
        fs::write(&path, text).unwrap();
        Venue::spawn(&mut self.command("venue", &["serve", "--json", "--config", &path]))
    }

    /// Runs a load on its side, and checks that every request is answered.
    fn load(&self, arguments: &[&str]) {
        let output = self
            .command(
                "load",
                &[&["load", "--no-floor", "--json", "--grace", "60s"], arguments].concat(),
            )
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["unanswered"], 0, "{report}");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        netns(&["down", "--name", &self.0]);
    }
}

/// A venue on one side serves a load on the other, each on its cores; afterwards no remains are left.
#[test]
fn load_and_venue_have_a_side_each() {
    let pair = match Pair::up("t") {
        Ok(pair) => pair,
        Err(why) => return skipped("load_and_venue_have_a_side_each", &why),
    };
    let name = &pair.0;
    let again = netns(&["up", "--name", name]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists already"), "{}", stderr(&again));
    let shown: Value = serde_json::from_slice(&netns(&["show", "--json"]).stdout).unwrap();
    let shown = shown["pairs"].as_array().unwrap().iter().find(|it| it["name"] == **name).unwrap();
    assert_eq!(shown["venue"]["address"], "10.77.0.2");

    let folder = tempfile::tempdir().unwrap();
    let (venue, started) = pair.serve(
        folder.path(),
        "[[instruments]]\nsymbol = \"AAPL\"\n\
         [[participants]]\nusername = \"user01\"\npassword = \"lab-17\"\nfirm = \"FIRM\"\n",
    );
    let address = started["addresses"]["order_entry"].as_str().unwrap();
    assert!(address.starts_with("10.77.0.2:"), "{started}");
    let load = ["--to", address, "--symbols", "AAPL", "--session", "user01:lab-17"];
    pair.load(&[&load[..], &["--rate", "1k/s", "--for", "300ms"]].concat());
    // The exit code of the program is that of the command, and it has the cores of its side.
    let shell = |script: &str| {
        let arguments =
            ["lab", "netns", "run", "--name", name, "load", "--", "/bin/sh", "-c", script];
        damrak(&arguments)
    };
    assert_eq!(shell("exit 17").status.code(), Some(17));
    let cores = stdout(&shell("grep Cpus_allowed_list /proc/self/status"));
    let wanted = shown["load"]["cores"].as_array().unwrap();
    if let [core] = &wanted[..] {
        assert_eq!(cores.split_whitespace().nth(1), Some(core.to_string().as_str()));
    }
    let none = netns(&["run", "--name", name, "--cores", "4000", "load", "--", "true"]);
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));

    let process = venue.child.id().to_string();
    let down = netns(&["down", "--name", name]);
    let said = stdout(&down);
    assert!(down.status.success() && said.contains(&process), "{said}{}", stderr(&down));
    drop(venue);
    for side in ["load", "venue"] {
        assert!(!has_namespace(&format!("damrak-lab-{name}-{side}")));
    }
    assert_eq!(netns(&["run", "--name", name, "load", "--", "true"]).status.code(), Some(1));
}

/// Orders come from a queue of the card, before the network stack (AF_XDP), and each has its reply.
#[test]
fn orders_come_from_a_queue_of_the_card() {
    const NAME: &str = "orders_come_from_a_queue_of_the_card";
    let pair = match Pair::up("x") {
        Ok(pair) => pair,
        Err(why) => return skipped(NAME, &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let (_venue, started) = pair.serve(
        folder.path(),
        "[network]\nudp = \"xdp\"\n[[instruments]]\nsymbol = \"AAPL\"\n\
         [[participants]]\nusername = \"user01\"\nudp = \"10.77.0.1:26404\"\nfirm = \"FIRM\"\n",
    );
    let network = &started["network"];
    if network["udp"] != "xdp" {
        assert_eq!(network["udp"], "gro", "{started}");
        return skipped(NAME, "this program or this system has no AF_XDP");
    }
    assert_eq!(network["xdp_queue"], 0, "{started}");
    let to = started["addresses"]["order_entry_udp"].as_str().unwrap();
    let load = ["--udp", "10.77.0.1:26404", "--to-udp", to, "--symbols", "AAPL", "--pack", "3"];
    pair.load(&[&load[..], &["--rate", "5k/s", "--for", "500ms"]].concat());
}

/// The ladder in a process to be killed.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next call removes the remains of a killed run; a namespace made by another program stays, whatever its name.
#[test]
fn a_kill_leaves_what_the_next_call_removes() {
    let foreign = match Pair::up("k") {
        // Its name is free again.
        Ok(pair) => pair.0.clone(),
        Err(why) => return skipped("a_kill_leaves_what_the_next_call_removes", &why),
    };
    let namespace = format!("damrak-lab-{foreign}-load");
    let ip = |arguments: &[&str]| Command::new("ip").args(arguments).output().unwrap();
    assert!(ip(&["netns", "add", &namespace]).status.success());
    let refused = netns(&["up", "--name", &foreign]);
    let down = netns(&["down", "--name", &foreign]);
    let is_still_there = has_namespace(&namespace);
    assert!(ip(&["netns", "del", &namespace]).status.success());
    assert!(is_still_there && down.status.success());
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("no record that it was made here"), "{}", stderr(&refused));

    let mut ladder = Command::new(env!("CARGO_BIN_EXE_damrak"));
    ladder.args(["lab", "netns", "ladder", "--for", "60s"]).stdout(Stdio::null());
    let mut child = Killed(ladder.spawn().unwrap());
    let left = format!("damrak-lab-p{}-0-venue", child.0.id());
    let is_there = |_: &mut Killed| has_namespace(&left).then_some(());
    wait_for("the namespace", &mut child, is_there, |child| format!("{:?}", child.0.try_wait()));
    child.0.kill().unwrap();
    // Until it is waited for, the system keeps its number, so no other call takes its pair for a leftover.
    let stat = format!("/proc/{}/stat", child.0.id());
    let has_ended = |_: &mut Killed| {
        let stat = fs::read_to_string(&stat).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('Z').then_some(())
    };
    wait_for("its end", &mut child, has_ended, |_| "a process that runs".to_owned());
    assert!(has_namespace(&left), "a kill leaves it");
    drop(child);
    let down = netns(&["down", "--name", "nobody"]);
    assert!(down.status.success(), "{}", stderr(&down));
    // Another call beside this one may have removed it first.
    assert!(!has_namespace(&left), "{}", stdout(&down));
}

/// Processes that take the same pair down at the same time take turns: one of them removes it, and none fails.
#[test]
fn a_pair_is_taken_down_once() {
    let pair = match Pair::up("once") {
        Ok(pair) => pair,
        Err(why) => return skipped("a_pair_is_taken_down_once", &why),
    };
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_damrak"));
        command.args(["lab", "netns", "down", "--name", &pair.0]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = iter::repeat_with(start).take(8).collect();
    let outputs: Vec<_> = children.into_iter().map(|it| it.wait_with_output().unwrap()).collect();
    for output in &outputs {
        assert!(output.status.success(), "{}", stderr(output));
    }
    let removed = format!("removed the pair {}", pair.0);
    assert_eq!(outputs.iter().filter(|output| stdout(output).contains(&removed)).count(), 1);
}

/// Without the rights the command names the missing right and the remedy, and leaves no remains.
#[test]
fn without_rights_it_says_what_is_missing() {
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(env!("CARGO_BIN_EXE_damrak"));
    command.args(["lab", "netns", "up", "--name", "rights"]);
    // As root this needs another user; as another user there is no need to change.
    let output = match command.uid(NOBODY).output() {
        Err(_) => Command::new(env!("CARGO_BIN_EXE_damrak"))
            .args(["lab", "netns", "up", "--name", "rights"])
            .output()
            .unwrap(),
        Ok(output) => output,
    };
    if output.status.success() {
        netns(&["down", "--name", "rights"]);
        return skipped(
            "without_rights_it_says_what_is_missing",
            "no other user may run this program, and this one has the rights",
        );
    }
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("CAP_NET_ADMIN") && message.contains("sudo"), "{message}");
    assert!(!has_namespace("damrak-lab-rights-load"));
}
