//! A simple book for comparison: sorted maps of queues, no sessions, no events other than trades.
//!
//! Invariant: its trades are the expected ones, so only its speed is a result.

use crate::comparison::{ComparisonFlow, FlowOperation, PlainBooks};

use super::{BenchTrade, Contender};

#[derive(Debug)]
pub struct ModelBTree(PlainBooks);

impl Contender for ModelBTree {
    type Step = FlowOperation;

    const NAME: &'static str = "model-btree";

    fn new(flow: &ComparisonFlow) -> Self {
        Self(PlainBooks::new(flow.symbols.into(), flow.order_id_max))
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<FlowOperation>) {
        steps.push(*operation);
    }

    fn apply(&mut self, operation: &FlowOperation, trades: &mut Vec<BenchTrade>) {
        let taker = operation.order_id;
        self.0.apply(operation, |maker, quantity, price| {
            trades.push(BenchTrade { maker, taker, quantity, price: price as u32 });
        });
    }
}
