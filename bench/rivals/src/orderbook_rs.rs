//! Crate `orderbook-rs`: skip lists of lock-free levels, meant for many threads at once.

use lab::bench::{BenchTrade, Contender};
use lab::comparison::{ComparisonFlow, FlowOperation, OperationKind};

/// One book for each symbol.
pub struct OrderBookRs {
    books: Vec<::orderbook_rs::OrderBook<()>>,
}

impl Contender for OrderBookRs {
    /// The order and, unless it is canceled, its side, price and quantity.
    type Step =
        (u16, ::orderbook_rs::prelude::Id, Option<(::orderbook_rs::prelude::Side, u128, u64)>);

    const NAME: &'static str = "orderbook-rs 0.15.3";

    fn new(flow: &ComparisonFlow) -> Self {
        let book = |number| ::orderbook_rs::OrderBook::new(&format!("WLF{number:05}"));
        Self { books: (0..flow.symbols).map(book).collect() }
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Self::Step>) {
        use ::orderbook_rs::prelude::{Id, Side};

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

    fn apply(&mut self, (symbol, id, terms): &Self::Step, trades: &mut Vec<BenchTrade>) {
        use ::orderbook_rs::prelude::TimeInForce;

        let book = &self.books[usize::from(*symbol)];
        let Some((side, price, quantity)) = *terms else {
            // An order already filled is not found, which is no error here.
            let _ = book.cancel_order(*id);
            return;
        };
        let (_, result) = book
            .add_limit_order_with_result(*id, price, quantity, side, TimeInForce::Gtc, None)
            .expect("every order of a flow is accepted");
        let Some(result) = result else { return };
        for trade in result.match_result.trades().as_vec() {
            trades.push(BenchTrade {
                maker: order_id(trade.maker_order_id()),
                taker: order_id(trade.taker_order_id()),
                quantity: trade.quantity().as_u64() as u32,
                price: trade.price().as_u128() as u32,
            });
        }
    }
}

fn order_id(id: ::orderbook_rs::prelude::Id) -> u64 {
    match id {
        ::orderbook_rs::prelude::Id::Sequential(order_id) => order_id,
        other => panic!("an order was entered under another kind of id than {other}"),
    }
}
