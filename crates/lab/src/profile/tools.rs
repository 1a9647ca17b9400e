//! The tools that observe a process: strace and perf, where they are installed and permitted.
//!
//! Invariant: a tool that fails gives its reason, never a failure of the profile.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use super::{VenueProfile, flame_graph};

/// Samples of the stack a second, not a divisor of the kernel's ticks.
const SAMPLES_PER_SECOND: &str = "499";

/// The system calls of a process: how many and how long, by strace(1).
pub(super) fn system_calls(process: u32, profile: &VenueProfile) -> Result<Value, String> {
    let file = profile.out.join("strace.txt");
    let seconds = profile.duration.as_secs_f64().to_string();
    // strace writes its table when it is interrupted.
    let output = run(
        "timeout",
        &["--signal=INT", &seconds, "strace", "-f", "-c", "-o"],
        &[&file.display().to_string(), "-p", &process.to_string()],
    )?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let calls = parse_calls(&text);
    if calls.is_empty() {
        return Err(reason("strace", &output));
    }
    let total: u64 = calls.iter().map(|call| call.1).sum();
    let call = |(name, count, microseconds, errors): (String, u64, u64, u64)| json!({"name": name, "calls": count, "microseconds": microseconds, "errors": errors});
    Ok(json!({ "calls": total, "by_name": calls.into_iter().map(call).collect::<Vec<_>>() }))
}

/// Rows of the table of `strace -c`: name, calls, microseconds, errors; most calls first.
fn parse_calls(text: &str) -> Vec<(String, u64, u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, seconds, _, count, rest @ ..] = &words[..] else { return None };
        let (errors, name) = match rest {
            [name] => (0, *name),
            [errors, name] => (errors.parse().ok()?, *name),
            _ => return None,
        };
        let microseconds = (seconds.parse::<f64>().ok()? * 1e6) as u64;
        (name != "total")
            .then(|| Some((name.to_owned(), count.parse().ok()?, microseconds, errors)))?
    };
    let mut rows: Vec<_> = text.lines().filter_map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    rows
}

/// The counts of the processor and the kernel for a process, by perf-stat(1).
pub(super) fn counters(process: u32, profile: &VenueProfile) -> Result<Value, String> {
    let file = profile.out.join("perf-stat.csv");
    let seconds = profile.duration.as_secs_f64().to_string();
    let events = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions";
    let output = run(
        "perf",
        &["stat", "-x", ",", "-e", events, "-o"],
        &[&file.display().to_string(), "-p", &process.to_string(), "--", "sleep", &seconds],
    )?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let counters = parse_counters(&text);
    if counters.values().all(Option::is_none) {
        return Err(reason("perf", &output));
    }
    Ok(json!(counters))
}

/// Each event of `perf stat -x ,`; none where this machine does not count it.
fn parse_counters(text: &str) -> BTreeMap<String, Option<f64>> {
    let row = |line: &str| {
        let mut fields = line.split(',');
        let (value, _, event) = (fields.next()?, fields.next()?, fields.next()?);
        let name = event.split(':').next().filter(|name| !name.is_empty())?;
        Some((name.to_owned(), value.parse().ok()))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// The position of a process, 499 times a second, by perf-record(1): the functions that took most, and all stacks in a
/// file.
pub(super) fn samples(process: u32, profile: &VenueProfile) -> Result<Value, String> {
    let data = profile.out.join("perf.data");
    let seconds = profile.duration.as_secs_f64().to_string();
    let data = data.display().to_string();
    let output = run(
        "perf",
        &["record", "-q", "-F", SAMPLES_PER_SECOND, "-g", "-o", &data, "-p"],
        &[&process.to_string(), "--", "sleep", &seconds],
    )?;
    if !output.status.success() {
        return Err(reason("perf", &output));
    }
    let script = run("perf", &["script", "-i", &data], &[])?;
    let stacks = folded(&String::from_utf8_lossy(&script.stdout));
    if stacks.is_empty() {
        return Err(reason("perf", &script));
    }
    let path = profile.out.join("stacks.folded");
    let text: String = stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect();
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let picture = profile.out.join("flame-graph.svg");
    let subject = format!("{:?}", profile.subject).to_lowercase();
    flame_graph::draw(&stacks, &format!("damrak profile {subject}"), &picture)?;
    let total: u64 = stacks.values().sum();
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, count) in &stacks {
        *functions.entry(stack.rsplit(';').next().unwrap_or(stack)).or_default() += count;
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |(name, count): &(&str, u64)| json!({"name": name, "percent": 100.0 * *count as f64 / total as f64});
    Ok(json!({
        "samples": total,
        "functions": functions.iter().take(15).map(share).collect::<Vec<_>>(),
        "stacks": path,
        "flame_graph": picture,
    }))
}

/// The stacks of `perf script`, each as `thread;outermost;…;innermost`, and how often it was seen: the format that
/// tools for flame graphs read.
fn folded(script: &str) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(head) = lines.next() else { continue };
        // The name of a thread may have spaces; its number follows.
        let thread: Vec<&str> = head
            .split_whitespace()
            .take_while(|word| !word.chars().all(|it| it.is_ascii_digit() || it == '/'))
            .collect();
        let function = |line: &str| {
            let (_, symbol) = line.trim().split_once(' ')?;
            let symbol = symbol.rsplit_once(" (").map_or(symbol, |(symbol, _)| symbol);
            let symbol = symbol.rsplit_once("+0x").map_or(symbol, |(symbol, _)| symbol);
            Some(symbol.replace(';', ":"))
        };
        let mut frames: Vec<String> = lines.filter_map(function).collect();
        if frames.is_empty() {
            continue;
        }
        frames.push(thread.join(" "));
        frames.reverse();
        *stacks.entry(frames.join(";")).or_default() += 1;
    }
    stacks
}

/// # Errors
/// The program is not installed, or does not run.
pub(super) fn is_installed(program: &str) -> Result<(), String> {
    run(program, &["--version"], &[]).map(drop)
}

/// # Errors
/// The program is not installed, or cannot be started.
fn run(program: &str, first: &[&str], more: &[&str]) -> Result<Output, String> {
    let missing = |name: &str| format!("{name} is not installed");
    let output =
        Command::new(program).args(first).args(more).stdin(Stdio::null()).output().map_err(
            |error| match error.kind() {
                std::io::ErrorKind::NotFound => missing(program),
                _ => format!("cannot start {program}: {error}"),
            },
        )?;
    // timeout(1) ends with 127 where the program that it should start is not there.
    if program == "timeout" && output.status.code() == Some(127) {
        return Err(missing(first.get(2).unwrap_or(&program)));
    }
    Ok(output)
}

/// The message of a tool that found nothing.
fn reason(program: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    format!("{program} found nothing: {}", line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.50    0.001230           1       900       700 recvmmsg
 38.50    0.000770           7       100           sendmmsg
------ ----------- ----------- --------- --------- ----------------
100.00    0.002000           2      1000       700 total
";
        assert_eq!(
            parse_calls(text),
            [("recvmmsg".into(), 900, 1_230, 700), ("sendmmsg".into(), 100, 770, 0)]
        );
        assert!(parse_calls("strace: attach: Operation not permitted").is_empty());
    }

    /// A counter that the machine lacks has no value, which is not 0.
    #[test]
    fn the_lines_of_perf_stat_are_read() {
        let text = "# started on Tue\n\n2998.51,msec,task-clock,2998511000,100.00,0.999,CPUs utilized\n\
                    <not supported>,,cycles:u,0,100.00,,\n12,,context-switches,3,100.00,4.0,/sec\n";
        let counters = parse_counters(text);
        assert_eq!(counters["task-clock"], Some(2_998.51));
        assert_eq!(counters["cycles"], None);
        assert_eq!(counters["context-switches"], Some(12.0));
    }

    /// A stack is a line that begins at its outermost function; equal ones are counted.
    #[test]
    fn stacks_are_folded() {
        let sample = "damrak core 77/78  10.5:  2004008 cpu-clock:  \n\
                      \t    55aa inner<T>+0x10 (/usr/bin/damrak)\n\
                      \t    55bb outer (call)+0x20 (/usr/bin/damrak)\n";
        let script = format!("{sample}\n{sample}\nother 9 1.0: 1 cpu-clock: \n\n");
        let stacks = folded(&script);
        let expected = BTreeMap::from([("damrak core;outer (call);inner<T>".to_owned(), 2)]);
        assert_eq!(stacks, expected);
    }

    #[test]
    fn a_tool_that_is_missing_is_a_reason() {
        let error = run("no-such-tool-here", &[], &[]).unwrap_err();
        assert_eq!(error, "no-such-tool-here is not installed");
    }
}
