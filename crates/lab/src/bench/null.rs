//! An empty engine: the cost of the measurement itself.
//!
//! Invariant: it makes no trades.

use std::hint::black_box;

use crate::comparison::{ComparisonFlow, FlowOperation};

use super::{BenchTrade, Contender};

pub(super) const NAME: &str = "null";

#[derive(Debug)]
pub struct Null;

impl Contender for Null {
    type Step = FlowOperation;

    const NAME: &'static str = NAME;

    fn new(_: &ComparisonFlow) -> Self {
        Self
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<FlowOperation>) {
        steps.push(*operation);
    }

    fn apply(&mut self, operation: &FlowOperation, _: &mut Vec<BenchTrade>) {
        black_box(operation.order_id);
    }
}
