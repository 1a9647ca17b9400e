//! Engines of others, driven over the flows of `damrak bench book` by the same code: each gets the
//! flow in its own words before the clock starts, and its trades are compared with what they must be.
//!
//! Where an engine has no word for an operation it is put into others: an immediate-or-cancel order
//! is a limit order and a cancel, a replace is a cancel and a limit order.

use std::process::ExitCode;

use damrak::bench::{self, Contender, Entrant, Options, Trade, environment::Environment};
use flow::wlf::{Flow, FlowName, Operation, OperationKind};

const HELP: &str = "\
usage: rivals [--flow A|B|C] [--seed N] [--divisor N] [--runs N]

Prints the same JSON object as `damrak bench book --json`, with the engines of others.";

const ENTRANTS: [Entrant; 2] = [Entrant::of::<Lobster>(), Entrant::of::<OrderBookRs>()];

/// Crate `lobster`: sorted maps of vectors, orders in an arena found by a hash map.
struct Lobster {
    books: Vec<lobster::OrderBook>,
}

impl Contender for Lobster {
    type Step = (u16, lobster::OrderType);

    const NAME: &'static str = "lobster 0.7.0";

    fn new(flow: &Flow) -> Self {
        // Room for as many orders as ever live at a time in one book, and more.
        let room = if flow.symbols > 2 { 30_000 } else { 200_000 };
        let book = || lobster::OrderBook::new(room, 16, false);
        Self { books: (0..flow.symbols).map(|_| book()).collect() }
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Self::Step>) {
        let id = u128::from(operation.order_id);
        let cancel = (operation.symbol, lobster::OrderType::Cancel { id });
        let limit = lobster::OrderType::Limit {
            id,
            side: if operation.side.is_buy() { lobster::Side::Bid } else { lobster::Side::Ask },
            qty: operation.quantity.into(),
            price: operation.price.cast_unsigned(),
        };
        let limit = (operation.symbol, limit);
        match operation.kind {
            OperationKind::New => steps.push(limit),
            OperationKind::Cancel => steps.push(cancel),
            OperationKind::Replace => steps.extend([cancel, limit]),
            OperationKind::NewImmediateOrCancel => steps.extend([limit, cancel]),
        }
    }

    fn apply(&mut self, (symbol, order): &Self::Step, trades: &mut Vec<Trade>) {
        use lobster::OrderEvent::{Filled, PartiallyFilled};

        let event = self.books[usize::from(*symbol)].execute(*order);
        if let Filled { fills, .. } | PartiallyFilled { fills, .. } = event {
            trades.extend(fills.iter().map(|fill| Trade {
                maker: fill.order_2 as u64,
                taker: fill.order_1 as u64,
                quantity: fill.qty as u32,
                price: fill.price as u32,
            }));
        }
    }
}

/// Crate `orderbook-rs`: skip lists of lock-free levels, meant for many threads at once.
struct OrderBookRs {
    books: Vec<orderbook_rs::OrderBook<()>>,
}

impl Contender for OrderBookRs {
    /// The order and, unless it is canceled, its side, price and quantity.
    type Step = (u16, orderbook_rs::prelude::Id, Option<(orderbook_rs::prelude::Side, u128, u64)>);

    const NAME: &'static str = "orderbook-rs 0.15.3";

    fn new(flow: &Flow) -> Self {
        let book = |number| orderbook_rs::OrderBook::new(&format!("WLF{number:05}"));
        Self { books: (0..flow.symbols).map(book).collect() }
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Self::Step>) {
        use orderbook_rs::prelude::{Id, Side};

        let id = Id::sequential(operation.order_id);
        let side = if operation.side.is_buy() { Side::Buy } else { Side::Sell };
        let terms = (side, operation.price as u128, u64::from(operation.quantity));
        let cancel = (operation.symbol, id, None);
        let limit = (operation.symbol, id, Some(terms));
        match operation.kind {
            OperationKind::New => steps.push(limit),
            OperationKind::Cancel => steps.push(cancel),
            OperationKind::Replace => steps.extend([cancel, limit]),
            OperationKind::NewImmediateOrCancel => steps.extend([limit, cancel]),
        }
    }

    fn apply(&mut self, (symbol, id, terms): &Self::Step, trades: &mut Vec<Trade>) {
        use orderbook_rs::prelude::TimeInForce;

        let book = &self.books[usize::from(*symbol)];
        let Some((side, price, quantity)) = *terms else {
            // An order that is filled already is not found, and that is no error here.
            let _ = book.cancel_order(*id);
            return;
        };
        let (_, result) = book
            .add_limit_order_with_result(*id, price, quantity, side, TimeInForce::Gtc, None)
            .expect("every order of a flow is accepted");
        let Some(result) = result else { return };
        for trade in result.match_result.trades().as_vec() {
            trades.push(Trade {
                maker: order_id(trade.maker_order_id()),
                taker: order_id(trade.taker_order_id()),
                quantity: trade.quantity().as_u64() as u32,
                price: trade.price().as_u128() as u32,
            });
        }
    }
}

fn order_id(id: orderbook_rs::prelude::Id) -> u64 {
    match id {
        orderbook_rs::prelude::Id::Sequential(order_id) => order_id,
        other => panic!("an order was entered under another kind of id than {other}"),
    }
}

fn main() -> ExitCode {
    let mut flows = FlowName::ALL.to_vec();
    let mut options = Options { seed: 1, divisor: 1, runs: 5 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>().ok().filter(|number| *number > 0);
        match (argument.as_str(), FlowName::from_name(&value), number) {
            ("--flow", Some(flow), _) => flows = vec![flow],
            ("--seed", _, Some(number)) => options.seed = number,
            ("--divisor", _, Some(number)) => options.divisor = number,
            ("--runs", _, Some(number)) => options.runs = number as usize,
            _ => {
                eprintln!("cannot use {argument} {value}\n\n{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    let started = Environment::now();
    let reports: Vec<_> =
        flows.into_iter().map(|flow| bench::measure(flow, &options, &ENTRANTS)).collect();
    let environment = Environment::now().since(&started);
    println!("{}", bench::summary(&reports, &options, &environment, bench::timer_ns()));
    if reports.iter().flat_map(|report| &report.rows).any(|row| row.agrees == Some(false)) {
        return ExitCode::from(4);
    }
    ExitCode::SUCCESS
}
