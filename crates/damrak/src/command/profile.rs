//! `damrak profile`: how a venue spends its time.
//!
//! Invariant: a step that was skipped has a reason.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use lab::{
    environment::{Environment, machine_line},
    profile::{ProfileStep, Subject, VenueProfile},
};
use serde_json::{Value, json};
use venue::{config::Span, failure::Failure};

use super::output::{duration, grouped, print_json, print_line};

/// Show how a venue spends its time: CPU, context switches, page faults, memory, system calls, samples of the stack.
///
/// Each step has a venue of its own in a child process, under a closed-loop load. The first step runs without a tool and
/// gives throughput, latency and the figures of /proc. The next steps use strace(1), perf-stat(1) and perf-record(1). A
/// step that this machine cannot do is skipped, with the reason. docs/profile.md explains the figures.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak profile gateway\n  damrak profile udp --for 5s --json\n  \
                        damrak profile connections\n  damrak profile feed\n  damrak profile stages"
)]
pub struct Arguments {
    /// The part of the venue to profile.
    #[arg(value_enum)]
    subject: SubjectName,
    /// How long each step lasts.
    #[arg(long = "for", value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// Folder for the files of the tools.
    #[arg(long, value_name = "FOLDER", default_value = "profile-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SubjectName {
    /// Order entry over TCP.
    Gateway,
    /// Order entry over UDP, 31 requests a datagram.
    Udp,
    /// Order entry over TCP with 1 to 32 connections.
    Connections,
    /// The feed, read with receive buffers of 16 KiB to 4 MiB.
    Feed,
    /// Order entry over UDP with a thread for each agent.
    Pipeline,
    /// The cost of following orders through the stages of a venue: ten pairs of runs with and without it, and instructions
    /// by callgrind.
    Stages,
}

/// Runs `damrak profile`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let profile = VenueProfile {
        subject: match arguments.subject {
            SubjectName::Gateway => Subject::Gateway,
            SubjectName::Udp => Subject::Udp,
            SubjectName::Connections => Subject::Connections,
            SubjectName::Feed => Subject::Feed,
            SubjectName::Pipeline => Subject::Pipeline,
            SubjectName::Stages => Subject::Stages,
        },
        duration: arguments.duration.0.max(Duration::from_millis(100)),
        out: arguments.out.clone(),
        stage_times: true,
    };
    let started = Environment::now();
    let mut steps = Vec::new();
    profile.run(&mut |step| {
        if !arguments.json {
            print_line(&text(step))?;
        }
        steps.push(match &step.outcome {
            Ok(figures) => json!({"step": step.name, "figures": figures}),
            Err(reason) => json!({"step": step.name, "skipped": reason}),
        });
        Ok(())
    })?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/profile/1",
            "subject": format!("{:?}", arguments.subject).to_lowercase(),
            "seconds": profile.duration.as_secs_f64(),
            "steps": steps,
            "environment": environment,
        }));
    }
    print_line(&machine_line(&environment))
}

fn text(step: &ProfileStep) -> String {
    let figures = match &step.outcome {
        Ok(figures) => figures,
        Err(reason) => return format!("{}: skipped: {reason}", step.name),
    };
    let mut lines = vec![format!("{}:", step.name)];
    let count = |value: &Value| value.as_u64().map_or("-".to_owned(), grouped);
    let time = |value: &Value| value.as_u64().map_or("-".to_owned(), duration);
    if figures["answered_per_second"].is_u64() {
        lines.push(format!("  answered {}/s", count(&figures["answered_per_second"])));
    }
    if figures["p50_ns"].is_u64() {
        let (p50, p99) = (time(&figures["p50_ns"]), time(&figures["p99_ns"]));
        lines.push(format!("  latency p50 {p50}   p99 {p99} (closed loop)"));
    }
    let usage = &figures["usage"];
    if usage.is_object() {
        lines.push(format!(
            "  CPU {} ns user, {} ns kernel a request",
            figures["user_ns_per_request"].as_f64().unwrap_or_default(),
            figures["system_ns_per_request"].as_f64().unwrap_or_default(),
        ));
        lines.push(format!(
            "  switches {} voluntary, {} involuntary   faults {} minor, {} major   peak memory {} MiB",
            count(&usage["switches_voluntary"]),
            count(&usage["switches_involuntary"]),
            count(&usage["faults_minor"]),
            count(&usage["faults_major"]),
            usage["memory_peak_bytes"].as_u64().unwrap_or_default() >> 20,
        ));
        for thread in usage["threads"].as_array().into_iter().flatten().take(6) {
            lines.push(format!(
                "  thread {:<16} CPU {}   without a core {}",
                thread["name"].as_str().unwrap_or_default(),
                time(&thread["cpu_ns"]),
                time(&thread["core_wait_ns"]),
            ));
        }
    }
    if figures["published"].is_u64() {
        lines.push(format!(
            "  published {}   received {}   lost {}   (buffer granted: {} bytes)",
            count(&figures["published"]),
            count(&figures["received"]),
            count(&figures["lost"]),
            count(&figures["bytes_granted"]),
        ));
    }
    for pair in figures["pairs"].as_array().into_iter().flatten() {
        let (with, without) = (count(&pair["with"]), count(&pair["without"]));
        lines.push(format!("  with {with}/s   without {without}/s"));
    }
    let change = &figures["change_percent"];
    if change.is_object() {
        let percent = |name: &str| change[name].as_f64().unwrap_or_default();
        lines.push(format!(
            "  with it {:+.2} % in the median pair   ({:+.2} to {:+.2} %)",
            percent("median"),
            percent("least"),
            percent("most"),
        ));
    }
    if figures["following_percent"].is_f64() {
        let figure = |name: &str| figures[name].as_f64().unwrap_or_default();
        lines.push(format!(
            "  {:.0} in user code for a request, of them {:.1} follow orders: {:.2} %   ({} requests)",
            figure("instructions_per_request"),
            figure("following_per_request"),
            figure("following_percent"),
            count(&figures["requests"]),
        ));
    }
    for call in figures["by_name"].as_array().into_iter().flatten().take(8) {
        lines.push(format!(
            "  {:<16} {:>10} calls {:>10} errors",
            call["name"].as_str().unwrap_or_default(),
            count(&call["calls"]),
            count(&call["errors"]),
        ));
    }
    for function in figures["functions"].as_array().into_iter().flatten() {
        lines.push(format!(
            "  {:>5.1} %  {}",
            function["percent"].as_f64().unwrap_or_default(),
            function["name"].as_str().unwrap_or_default(),
        ));
    }
    if let Some(stacks) = figures["stacks"].as_str() {
        lines.push(format!("  all stacks: {stacks}"));
    }
    if let Some(picture) = figures["flame_graph"].as_str() {
        lines.push(format!("  flame graph: {picture}"));
    }
    let counters = figures.as_object().into_iter().flatten();
    for (name, value) in counters.filter(|(name, _)| name.contains('-') || *name == "cycles") {
        let value = value.as_f64().map_or("not counted here".into(), |value| format!("{value}"));
        lines.push(format!("  {name}: {value}"));
    }
    lines.join("\n")
}
