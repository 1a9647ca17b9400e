//! `damrak follow`: reads a journal while its venue writes it, and answers questions.

use std::{
    io::{self, BufRead},
    path::PathBuf,
    sync::{
        atomic::Ordering,
        mpsc::{self, Receiver, TryRecvError},
    },
    thread,
    time::Duration,
};

use clap::Args;
use engine::Engine;
use journal::{Folder, Storage};
use market::{InstrumentId, Symbol};
use serde_json::{Value, json};

use super::{
    journal_folder,
    output::{grouped, price, print_json, print_line},
    stop_flag,
};
use venue::{
    clock::SystemClock, config::Span, failure::Failure, follower::Follower, stage::Progress,
};

/// Sleep when the journal has no new record.
const PAUSE: Duration = Duration::from_millis(2);

/// Inputs applied between two looks for questions.
const STEP: usize = 8192;

/// Follow a journal and answer questions about its state.
///
/// Reads the journal of a venue, running or not, verifies every record, and keeps a second copy of the
/// state. It takes no lock and changes nothing. It reads questions from standard input, one per line,
/// and answers from the journal so far: `counters`, `book SYMBOL [LEVELS]`, `orders USERNAME`,
/// `instruments`. Stops at the end of standard input; with --status, when it is interrupted. Exit code
/// 4 at the first corrupt record, with its sequence.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  echo 'book AAPL' | damrak follow damrak-data\n  \
                        damrak follow damrak-data --status 1s\n  \
                        damrak follow demo-out/journal --status 250ms --for 10s --json")]
pub struct Arguments {
    /// The folder of the journal, which may still be empty.
    #[arg(value_parser = journal_folder())]
    directory: PathBuf,
    /// Print a line of figures this often, and continue when standard input ends.
    #[arg(long, value_name = "TIME")]
    status: Option<Span>,
    /// Stop after this long.
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// Begin with the first record instead of a snapshot.
    #[arg(long)]
    from_the_first: bool,
    /// Print every answer as a JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak follow`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let stop = stop_flag(&[])?;
    let folder = Folder::new(&arguments.directory);
    let mut follower = if arguments.from_the_first {
        Follower::from_the_first(&folder, None)
    } else {
        Follower::begin(&folder, &mut *folder.second(), u64::MAX, None)?
    };
    for error in follower.passed_over() {
        eprintln!("note: {error}");
    }
    if follower.engine().sequence().0 == 0
        && journal::first_sequence(&mut *folder.second()).is_ok_and(|first| first.is_none())
    {
        eprintln!("note: {} has no journal yet: waiting for one", arguments.directory.display());
    }
    let questions = questions();
    let mut status_due = Duration::ZERO;
    let mut ended = false;
    while !stop.load(Ordering::Relaxed) {
        let taken = follower.poll(STEP, u64::MAX, &mut |_| {})?;
        let now = clock.since_start();
        if let Some(every) = arguments.status
            && now >= status_due
        {
            status_due = now + every.0;
            print_answer(arguments, &counters(&follower))?;
        }
        if taken > 0 {
            continue; // answers are of a state that has caught up
        }
        match questions.try_recv() {
            Ok(question) => {
                let answer = answer(&follower, &question);
                print_answer(arguments, &answer)?;
                continue;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => ended = true,
        }
        let is_over = arguments.duration.is_some_and(|span| now >= span.0);
        if is_over || (ended && arguments.status.is_none() && arguments.duration.is_none()) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The lines of standard input, as they arrive.
fn questions() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn print_answer(arguments: &Arguments, answer: &Value) -> Result<(), Failure> {
    if arguments.json {
        return print_json(answer);
    }
    for line in lines(answer) {
        print_line(&line)?;
    }
    Ok(())
}

fn answer(follower: &Follower, question: &str) -> Value {
    let engine = follower.engine();
    let words: Vec<&str> = question.split_whitespace().collect();
    let levels = |text: &str| text.parse::<usize>().ok();
    match words[..] {
        ["counters"] => counters(follower),
        ["instruments"] => json!({
            "event": "instruments",
            "sequence": engine.sequence().0,
            "instruments": engine.instruments().map(|it| it.symbol.as_str()).collect::<Vec<_>>(),
        }),
        ["book", symbol] => book(engine, symbol, 5),
        ["book", symbol, count] if levels(count).is_some() => {
            book(engine, symbol, levels(count).unwrap_or(0))
        }
        ["orders", username] => orders(engine, username),
        _ => wrong("ask: counters | instruments | book SYMBOL [LEVELS] | orders USERNAME"),
    }
}

fn wrong(what: &str) -> Value {
    json!({"event": "error", "error": what})
}

fn counters(follower: &Follower) -> Value {
    let Progress { sequence, orders, trades, live_orders } = Progress::of(follower.engine());
    json!({
        "event": "counters",
        "sequence": sequence.0,
        "timestamp": follower.engine().timestamp().0,
        "digest": format!("{:016x}", follower.digest().word()),
        "orders": orders,
        "trades": trades,
        "live_orders": live_orders,
        "began_with": follower.began_with().map(|summary| summary.header.sequence),
        "digests_equal": follower.digests().equal_count,
    })
}

fn book(engine: &Engine, symbol: &str, levels: usize) -> Value {
    let instrument = Symbol::new(symbol).and_then(|symbol| engine.instrument(&symbol));
    let Some(instrument) = instrument else {
        return wrong(&format!("there is no instrument {symbol:?}"));
    };
    let view = engine.book(instrument.instrument_id).expect("each instrument has a book");
    let level = |it: engine::DepthLevel| json!({"price": it.price.0, "leaves": it.leaves.0, "orders": it.order_count});
    json!({
        "event": "book",
        "sequence": engine.sequence().0,
        "symbol": instrument.symbol.as_str(),
        "bids": view.bid_levels().take(levels).map(level).collect::<Vec<_>>(),
        "asks": view.ask_levels().take(levels).map(level).collect::<Vec<_>>(),
    })
}

fn orders(engine: &Engine, username: &str) -> Value {
    let session =
        engine.sessions().find(|it| it.username().as_str().eq_ignore_ascii_case(username));
    let Some(session) = session else {
        return wrong(&format!("there is no session {username:?}"));
    };
    let session_id = session.session_id();
    let resting = (1..=engine.instruments().len() as u16).map(InstrumentId).flat_map(|id| {
        let view = engine.book(id).expect("each instrument has a book");
        let symbol = view.instrument().symbol;
        view.bids().chain(view.asks()).map(move |order| (symbol, order))
    });
    let own: Vec<Value> = resting
        .filter(|(_, order)| order.key.session_id == session_id)
        .map(|(symbol, order)| {
            json!({
                "order_id": order.order_id.0,
                "channel": order.key.channel,
                "user_ref_num": order.key.user_ref_num,
                "symbol": symbol.as_str(),
                "side": if order.side.is_buy() { "buy" } else { "sell" },
                "price": order.price.0,
                "leaves": order.leaves.0,
                "quantity": order.quantity.0,
            })
        })
        .collect();
    json!({
        "event": "orders",
        "sequence": engine.sequence().0,
        "username": session.username().as_str(),
        "orders": own,
    })
}

/// An answer as text.
fn lines(answer: &Value) -> Vec<String> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let rows = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match answer["event"].as_str() {
        Some("counters") => vec![format!(
            "sequence {}  orders {}  trades {}  live {}  event digest {}",
            grouped(number(&answer["sequence"])),
            grouped(number(&answer["orders"])),
            grouped(number(&answer["trades"])),
            grouped(number(&answer["live_orders"])),
            text(&answer["digest"]),
        )],
        Some("instruments") => {
            vec![rows(&answer["instruments"]).iter().map(&text).collect::<Vec<_>>().join(" ")]
        }
        Some("book") => {
            let mut lines = vec![format!(
                "{} after sequence {}",
                text(&answer["symbol"]),
                grouped(number(&answer["sequence"])),
            )];
            for (side, name) in [("bids", "bid"), ("asks", "ask")] {
                for level in rows(&answer[side]) {
                    lines.push(format!(
                        "  {name} {:>12} {:>10}  {} orders",
                        price(number(&level["price"])),
                        grouped(number(&level["leaves"])),
                        grouped(number(&level["orders"])),
                    ));
                }
            }
            lines
        }
        Some("orders") => {
            let own = rows(&answer["orders"]);
            let mut lines = vec![format!(
                "{}: {} live orders after sequence {}",
                text(&answer["username"]),
                grouped(own.len() as u64),
                grouped(number(&answer["sequence"])),
            )];
            lines.extend(own.iter().map(|order| {
                format!(
                    "  {:>10}  {} {} {} of {} at {}",
                    number(&order["user_ref_num"]),
                    text(&order["symbol"]),
                    text(&order["side"]),
                    grouped(number(&order["leaves"])),
                    grouped(number(&order["quantity"])),
                    price(number(&order["price"])),
                )
            }));
            lines
        }
        _ => vec![text(&answer["error"])],
    }
}
