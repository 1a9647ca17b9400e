//! An empty engine: the cost of the measurement itself.
//!
//! Invariant: it makes no trades.

use std::hint::black_box;

use crate::comparison::{Flow, Operation};

use super::{Contender, Trade};

pub(super) const NAME: &str = "null";

#[derive(Debug)]
pub struct Null;

impl Contender for Null {
    type Step = Operation;

    const NAME: &'static str = NAME;

    fn new(_: &Flow) -> Self {
        Self
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Operation>) {
        steps.push(*operation);
    }

    fn apply(&mut self, operation: &Operation, _: &mut Vec<Trade>) {
        black_box(operation.order_id);
    }
}
