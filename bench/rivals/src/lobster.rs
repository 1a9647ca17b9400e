//! Crate `lobster`: sorted maps of vectors, orders in an arena found by a hash map.

use lab::bench::{BenchTrade, Contender};
use lab::comparison::{ComparisonFlow, FlowOperation, OperationKind};

/// One book for each symbol.
pub struct Lobster {
    books: Vec<::lobster::OrderBook>,
}

impl Contender for Lobster {
    type Step = (u16, ::lobster::OrderType);

    const NAME: &'static str = "lobster 0.7.0";

    fn new(flow: &ComparisonFlow) -> Self {
        // Room for more orders than ever live at a time in one book.
        let room = if flow.symbols > 2 { 30_000 } else { 200_000 };
        let book = || ::lobster::OrderBook::new(room, 16, false);
        Self { books: (0..flow.symbols).map(|_| book()).collect() }
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Self::Step>) {
        let id = u128::from(operation.order_id);
        let cancel = (operation.symbol, ::lobster::OrderType::Cancel { id });
        let limit = ::lobster::OrderType::Limit {
            id,
            side: if operation.side.is_buy() { ::lobster::Side::Bid } else { ::lobster::Side::Ask },
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

    fn apply(&mut self, (symbol, order): &Self::Step, trades: &mut Vec<BenchTrade>) {
        use ::lobster::OrderEvent::{Filled, PartiallyFilled};

        let event = self.books[usize::from(*symbol)].execute(*order);
        if let Filled { fills, .. } | PartiallyFilled { fills, .. } = event {
            trades.extend(fills.iter().map(|fill| BenchTrade {
                maker: fill.order_2 as u64,
                taker: fill.order_1 as u64,
                quantity: fill.qty as u32,
                price: fill.price as u32,
            }));
        }
    }
}
