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
    operator::{Instruments, OperatorRequest, OperatorVerb, Orders},
};

use super::output::{print_json, print_line};

/// How long an answer may take: longer than the venue's own limit.
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

/// One instrument or all.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The instrument.
    symbol: Option<String>,
    /// Every instrument whose phase allows it.
    #[arg(long)]
    all: bool,
}

/// The orders that match every given option.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
struct Meant {
    /// Of the session with this username.
    #[arg(long)]
    session: Option<String>,
    /// Of the sessions of this account.
    #[arg(long)]
    account: Option<String>,
    /// Of this firm.
    #[arg(long)]
    firm: Option<String>,
    /// In this instrument.
    #[arg(long)]
    symbol: Option<String>,
    /// Of this side: buy, sell, short or short-exempt.
    #[arg(long)]
    side: Option<String>,
    /// All orders.
    #[arg(long)]
    all: bool,
}

/// An account or a session.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct Owner {
    /// A limit of this account.
    #[arg(long)]
    account: Option<String>,
    /// The live orders of the session with this username.
    #[arg(long)]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Halt trading in an instrument, or in all.
    Halt {
        #[command(flatten)]
        which: Which,
        /// Up to four characters for the feed, such as T1.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Collect orders without trading (pre-open).
    QuoteOnly {
        #[command(flatten)]
        which: Which,
        /// Up to four characters for the feed.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Resume continuous trading, after an auction of the collected orders.
    Resume {
        #[command(flatten)]
        which: Which,
    },
    /// Begin an auction.
    Auction {
        #[command(flatten)]
        which: Which,
        /// opening, closing or volatility.
        #[arg(long, default_value = "opening")]
        kind: String,
        /// Seconds until the auction ends [default: no limit, ended by `release`].
        #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
        release: u32,
        /// Up to four characters for the feed.
        #[arg(long)]
        reason: Option<String>,
    },
    /// End an auction now and resume trading.
    Release {
        #[command(flatten)]
        which: Which,
        /// End a closing auction, and close the instrument.
        #[arg(long)]
        close: bool,
    },
    /// Set a property of an instrument, such as a price band.
    Configure {
        /// The instrument.
        symbol: String,
        /// static_band_ppm, dynamic_band_ppm, reference_price, pause, price_collar_ppm, quantity_max,
        /// notional_max, pegs_max, session_pegs_max, price_increment or round_lot.
        property: String,
        /// The new value: prices in currency, the pause in seconds; 0 removes it.
        value: String,
    },
    /// Bust a trade.
    Bust {
        /// The number of the trade.
        trade: u64,
        /// erroneous, consent, supervisory or external.
        #[arg(long, default_value = "supervisory")]
        reason: String,
    },
    /// Bust a trade and replace it by a corrected one.
    Correct {
        /// The number of the trade.
        trade: u64,
        /// The right price, in currency.
        #[arg(long)]
        price: String,
        /// The right quantity, in lots.
        #[arg(long)]
        quantity: u64,
        /// erroneous, consent, supervisory or external.
        #[arg(long, default_value = "supervisory")]
        reason: String,
    },
    /// Cancel orders.
    Cancel {
        #[command(flatten)]
        meant: Meant,
    },
    /// Kill switch: cancel matching orders and reject new ones.
    Kill {
        #[command(flatten)]
        meant: Meant,
    },
    /// Reset the kill switch of exactly this scope.
    Revive {
        #[command(flatten)]
        meant: Meant,
    },
    /// Set a limit of an account, or the live orders of a session.
    Limit {
        #[command(flatten)]
        owner: Owner,
        /// live_orders_max; of an account also fee_tier, order_quantity_max, orders_per_second_max,
        /// price_away_max_ppm, order_notional_max, position_max or short_max.
        setting: String,
        /// The new value; 0 removes the limit.
        value: String,
        /// The asset, for order_notional_max, position_max and short_max.
        #[arg(long)]
        asset: Option<String>,
    },
    /// Deposit into an account.
    Deposit {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// The amount, such as 1000.50.
        amount: String,
    },
    /// Withdraw from the available balance of an account.
    Withdraw {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// The amount, such as 1000.50.
        amount: String,
    },
    /// End the connection of a session; it may log in again.
    LogOut {
        /// Its username.
        session: String,
    },
}

impl From<&Which> for Instruments {
    fn from(which: &Which) -> Self {
        Self { symbol: which.symbol.clone(), all: which.all }
    }
}

impl From<&Meant> for Orders {
    fn from(meant: &Meant) -> Self {
        let Meant { session, account, firm, symbol, side, all } = meant.clone();
        Self { session, account, firm, symbol, side, all }
    }
}

impl Verb {
    fn command(&self) -> OperatorVerb {
        match self {
            Self::Halt { which, reason } => {
                OperatorVerb::Halt { instruments: which.into(), reason: reason.clone() }
            }
            Self::QuoteOnly { which, reason } => {
                OperatorVerb::QuoteOnly { instruments: which.into(), reason: reason.clone() }
            }
            Self::Resume { which } => OperatorVerb::Resume { instruments: which.into() },
            Self::Auction { which, kind, release, reason } => OperatorVerb::Auction {
                instruments: which.into(),
                kind: kind.clone(),
                release_s: *release,
                reason: reason.clone(),
            },
            Self::Release { which, close } => {
                OperatorVerb::Release { instruments: which.into(), close: *close }
            }
            Self::Configure { symbol, property, value } => OperatorVerb::Configure {
                symbol: symbol.clone(),
                property: property.clone(),
                value: value.clone(),
            },
            Self::Bust { trade, reason } => {
                OperatorVerb::Bust { trade: *trade, reason: reason.clone() }
            }
            Self::Correct { trade, price, quantity, reason } => OperatorVerb::Correct {
                trade: *trade,
                price: price.clone(),
                quantity: *quantity,
                reason: reason.clone(),
            },
            Self::Cancel { meant } => OperatorVerb::Cancel { orders: meant.into() },
            Self::Kill { meant } => OperatorVerb::Kill { orders: meant.into() },
            Self::Revive { meant } => OperatorVerb::Revive { orders: meant.into() },
            Self::Limit { owner, setting, value, asset } => OperatorVerb::Limit {
                account: owner.account.clone(),
                session: owner.session.clone(),
                setting: setting.clone(),
                asset: asset.clone(),
                value: value.clone(),
            },
            Self::Deposit { account, asset, amount } => OperatorVerb::Deposit {
                account: account.clone(),
                asset: asset.clone(),
                amount: amount.clone(),
            },
            Self::Withdraw { account, asset, amount } => OperatorVerb::Withdraw {
                account: account.clone(),
                asset: asset.clone(),
                amount: amount.clone(),
            },
            Self::LogOut { session } => OperatorVerb::LogOut { session: session.clone() },
        }
    }
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
    // The number is chosen before the command is sent, so that the command can be repeated.
    let number = match arguments.number {
        Some(number) => number,
        None => {
            let (status, last) = door.exchange("GET", "/operator/last", "")?;
            let last = last["number"].as_u64().filter(|_| status == 200);
            last.ok_or_else(|| Failure::runtime("the venue did not report your last number"))? + 1
        }
    };
    let request = OperatorRequest {
        number: Some(number),
        dry_run: arguments.dry_run,
        command: arguments.verb.command(),
    };
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
        200 => print_line(&told(&answer)),
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

/// The answer as a line for people.
fn told(answer: &Value) -> String {
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
fn parse(bytes: &[u8]) -> Option<(u16, Value)> {
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
