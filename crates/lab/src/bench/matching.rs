//! The core's book alone: matching only.
//!
//! Invariant: the measurement includes no sessions, events or hash.

use crate::comparison::{ComparisonFlow, FlowOperation, OperationKind};
use engine::matcher::{BookIndex, Handle, Matcher, NewOrder};
use market::{Price, Quantity};

use super::{BenchTrade, Contender};

/// Initial capacity: more orders than rest at any time in any flow.
pub(super) const ORDERS_EXPECTED: usize = 200_000;

/// The core's books without sessions, events and hash.
///
/// A participant keeps the handle of its resting order, so the measurement includes a table from the flow's order ids
/// to handles. A replace is a cancel and a new order.
#[derive(Debug)]
pub struct Matching {
    matcher: Matcher,
    /// By the flow's order id.
    handles: Vec<Handle>,
}

/// An operation in the types of the matcher.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    book: BookIndex,
    kind: OperationKind,
    order: NewOrder<u64>,
}

impl Contender for Matching {
    type Step = Step;

    const NAME: &'static str = "matching";

    fn new(flow: &ComparisonFlow) -> Self {
        let mut matcher = Matcher::new();
        matcher.reserve(ORDERS_EXPECTED);
        for _ in 0..flow.symbols {
            matcher.add_book();
        }
        Self { matcher, handles: vec![Handle::from_bits(u64::MAX); flow.order_id_max as usize + 1] }
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Step>) {
        steps.push(Step {
            book: BookIndex(operation.symbol.into()),
            kind: operation.kind,
            order: NewOrder {
                side: operation.side,
                limit: Price(operation.price.cast_unsigned()),
                quantity: Quantity(operation.quantity.into()),
                rests: operation.kind != OperationKind::NewImmediateOrCancel,
                payload: operation.order_id,
            },
        });
    }

    #[inline(always)]
    fn apply(&mut self, step: &Step, trades: &mut Vec<BenchTrade>) {
        let Self { matcher, handles } = self;
        let taker = step.order.payload;
        if matches!(step.kind, OperationKind::Cancel | OperationKind::Replace) {
            let canceled = matcher.cancel(handles[taker as usize]);
            assert!(canceled.is_some(), "a flow cancels only what rests");
        }
        if step.kind == OperationKind::Cancel {
            return;
        }
        let entered = matcher.enter(step.book, &step.order, |trade| {
            trades.push(BenchTrade {
                maker: trade.maker,
                taker,
                quantity: trade.quantity.0 as u32,
                price: trade.price.0 as u32,
            });
        });
        if let Some(handle) = entered.expect("a flow has no rejects").handle {
            handles[taker as usize] = handle;
        }
    }
}
