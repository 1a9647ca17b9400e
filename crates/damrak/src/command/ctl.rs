//! `damrak ctl`: commands of an operator to a running venue, through the socket in its journal's folder.

use std::{
    env,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use market::OperatorName;
use serde_json::Value;
use venue::{
    admin::socket_path,
    failure::Failure,
    operator::{FaultRequest, OperatorRequest, OperatorVerb},
};

use super::output::{print_json, print_line};

/// The longest wait for an answer: longer than the venue's own limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Give a command to a running venue: halt, resume, cancel, bust, limits, money, kill switch.
///
/// The venue journals the command under the operator's name and a number, and answers when the command
/// is as durable as configured. Each number is carried out once: if the answer is lost, repeat the
/// command under the same number, also after a restart, and the venue returns the first result.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak ctl halt AAPL --reason T1\n  \
                        damrak ctl resume AAPL\n  \
                        damrak ctl cancel --session user01 --dry-run\n  \
                        damrak ctl limit --session user01 live_orders_max 500\n  \
                        damrak ctl fault --session user01 --delay-ms 50 --reject-percent 10\n  \
                        damrak ctl deposit ALICE EUR 1000.50 --number 17\n\n\
                        Exit code 1: the venue declined the command, or its result is not known.")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// The folder of the venue's journal.
    #[arg(long, global = true, value_name = "DIR", default_value = "damrak-data")]
    journal: PathBuf,
    /// Your name in the journal, up to 16 characters [default: your user name].
    #[arg(long, global = true, value_name = "NAME")]
    operator: Option<String>,
    /// The number of the command [default: your last number plus 1].
    #[arg(long, global = true)]
    number: Option<u64>,
    /// Show the result without carrying the command out.
    #[arg(long, global = true)]
    dry_run: bool,
    /// Print the answer as one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

/// A command of the core, or one that the gateways carry out.
#[derive(Clone, Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Core(OperatorVerb),
    /// Inject faults into a session, to test client systems; without options show the active faults.
    ///
    /// Of the faults, the journal records only the rejects. A restart ends all faults. Only for sessions with a login.
    Fault(FaultRequest),
}

/// Runs `damrak ctl`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let named = arguments.operator.clone().or_else(|| env::var("USER").ok());
    let operator = named.filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::usage("your user name is not known").hint("give it with --operator NAME")
    })?;
    if OperatorName::new(&operator).is_none() {
        return Err(Failure::usage(format!(
            "operator {operator:?} is not at most 16 printable ASCII characters"
        ))
        .hint("give another name with --operator NAME"));
    }
    let door = Door { socket: socket_path(&arguments.journal), operator };
    let command = match &arguments.verb {
        Verb::Core(command) => command.clone(),
        Verb::Fault(request) => return inject(&door, request, arguments),
    };
    // The number is chosen before the command is sent, so that the command can be repeated.
    let number = match arguments.number {
        Some(number) => number,
        None => {
            let (status, last) = door.exchange("GET", "/operator/last", "")?;
            let last = last["number"].as_u64().filter(|_| status == 200);
            last.ok_or_else(|| Failure::runtime("the venue did not report your last number"))? + 1
        }
    };
    let request = OperatorRequest { number: Some(number), dry_run: arguments.dry_run, command };
    let body = serde_json::to_string(&request).map_err(Failure::runtime)?;
    let (status, answer) = door.exchange("POST", "/operator", &body).map_err(|failure| {
        let hint = format!("repeat the command with --number {number}: it is carried out once");
        if arguments.dry_run { failure } else { failure.hint(hint) }
    })?;
    let error = answer["error"].as_str().unwrap_or("the venue gave no reason").to_owned();
    if arguments.json {
        print_json(&answer)?;
    }
    match status {
        200 if arguments.json => Ok(()),
        200 => print_line(&text(&answer)),
        409 => Err(Failure::runtime(format!(
            "declined at sequence {}: {error} ({})",
            answer["sequence"],
            answer["reason"].as_str().unwrap_or("?"),
        ))),
        400 => Err(Failure::usage(error)),
        504 => Err(Failure::runtime(error)
            .hint(format!("repeat the command with --number {number}: it is carried out once"))),
        _ => Err(Failure::runtime(error)),
    }
}

/// Injects faults. This is not a command of the core, so it has neither a number nor a dry run.
fn inject(door: &Door, request: &FaultRequest, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.dry_run || arguments.number.is_some() {
        return Err(Failure::usage(
            "fault takes neither --dry-run nor --number: it is not journaled",
        ));
    }
    let body = serde_json::to_string(request).map_err(Failure::runtime)?;
    let (status, answer) = door.exchange("POST", "/operator/faults", &body)?;
    let error = answer["error"].as_str().unwrap_or("the venue gave no reason").to_owned();
    match status {
        200 if arguments.json => print_json(&answer),
        200 => print_line(&format!(
            "{}: delay {} ms, rejects {} %; {} disconnects and {} gaps so far",
            request.session,
            answer["delay_ms"],
            answer["reject_percent"],
            answer["disconnects"],
            answer["gaps"]
        )),
        400 | 404 => Err(Failure::usage(error)),
        _ => Err(Failure::runtime(error)),
    }
}

/// The answer as one line of text.
fn text(answer: &Value) -> String {
    let number = |key: &str| answer["effect"][key].as_u64().unwrap_or(0);
    let parts = [
        ("orders_canceled", "orders canceled"),
        ("phases_changed", "phases changed"),
        ("trades", "trades"),
        ("movements", "movements of money"),
    ];
    let mut effect: Vec<_> = parts
        .iter()
        .filter(|(key, _)| number(key) > 0)
        .map(|(key, name)| format!("{} {name}", number(key)))
        .collect();
    if number("trade_id") > 0 {
        effect.push(format!("the new trade is {}", number("trade_id")));
    }
    let effect = if effect.is_empty() { String::new() } else { format!(": {}", effect.join(", ")) };
    let (name, of) = (answer["operator"].as_str().unwrap_or("?"), &answer["number"]);
    let sequence = &answer["sequence"];
    match (answer["dry_run"] == true, answer["repeated"] == true) {
        (true, _) => format!("would be done{effect}; nothing was changed"),
        (false, true) => format!("was done before at sequence {sequence} ({name} {of}){effect}"),
        (false, false) => format!("done at sequence {sequence} ({name} {of}){effect}"),
    }
}

/// The venue's socket.
struct Door {
    socket: PathBuf,
    operator: String,
}

impl Door {
    /// Sends one request, and returns the status and the body of the answer.
    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<(u16, Value), Failure> {
        let mut stream = UnixStream::connect(&self.socket).map_err(|error| self.closed(&error))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nDamrak-Operator: {}\r\n\r\n",
            body.len(),
            self.operator,
        );
        let mut bytes = Vec::new();
        stream
            .set_read_timeout(Some(ANSWER_WITHIN))
            .and_then(|()| stream.write_all(head.as_bytes()))
            .and_then(|()| stream.write_all(body.as_bytes()))
            .and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes))
            .map_err(|error| Failure::runtime(format!("the answer is missing: {error}")))?;
        parse(&bytes).ok_or_else(|| Failure::runtime("the answer is missing or cut short"))
    }

    fn closed(&self, error: &io::Error) -> Failure {
        let path = self.socket.display();
        let folder = self.socket.parent().unwrap_or(Path::new(".")).display();
        let failure = Failure::environment(format!("cannot connect to {path}: {error}"));
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                failure.hint("only the user that runs the venue can give commands here")
            }
            _ => failure.hint(format!(
                "no venue runs on {folder}; name the folder of its journal with --journal"
            )),
        }
    }
}

/// Parses an answer that ends with its connection into status and body.
pub(super) fn parse(bytes: &[u8]) -> Option<(u16, Value)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(len) = head.parse(bytes).ok()? else { return None };
    Some((head.code?, serde_json::from_slice(&bytes[len..]).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An incomplete answer is not parsed.
    #[test]
    fn cut_answers_are_none() {
        let whole = b"HTTP/1.1 409 Conflict\r\ncontent-length: 9\r\n\r\n{\"a\":\"b\"}";
        let (status, body) = parse(whole).unwrap();
        assert_eq!((status, body["a"].as_str()), (409, Some("b")));
        for len in 0..whole.len() {
            assert!(parse(&whole[..len]).is_none(), "{len}");
        }
    }
}
