//! A simple book for comparison: sorted maps of queues.
//!
//! Invariant: its trades equal those of every other engine.

use std::collections::{BTreeMap, VecDeque};

use crate::comparison::{Flow, Operation, OperationKind};
use market::Side;

use super::{Contender, Trade};

/// Books of `BTreeMap` and `VecDeque`, and a table of orders by their dense ids. No sessions, and no
/// events other than trades.
#[derive(Debug)]
pub struct ModelBTree {
    books: Vec<Book>,
    orders: Vec<Order>,
}

#[derive(Debug, Default)]
struct Book {
    bids: BTreeMap<i64, VecDeque<u64>>,
    asks: BTreeMap<i64, VecDeque<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    price: i64,
    leaves: u32,
    symbol: u16,
    side: Side,
}

impl Contender for ModelBTree {
    type Step = Operation;

    const NAME: &'static str = "model-btree";

    fn new(flow: &Flow) -> Self {
        let none = Order { price: 0, leaves: 0, symbol: 0, side: Side::Buy };
        Self {
            books: (0..flow.symbols).map(|_| Book::default()).collect(),
            orders: vec![none; flow.order_id_max as usize + 1],
        }
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Operation>) {
        steps.push(*operation);
    }

    fn apply(&mut self, operation: &Operation, trades: &mut Vec<Trade>) {
        if matches!(operation.kind, OperationKind::Cancel | OperationKind::Replace) {
            self.cancel(operation.order_id);
        }
        if operation.kind == OperationKind::Cancel {
            return;
        }
        let leaves = self.trade(operation, trades);
        if leaves > 0 && operation.kind != OperationKind::NewImmediateOrCancel {
            let Operation { order_id, price, symbol, side, .. } = *operation;
            self.orders[order_id as usize] = Order { price, leaves, symbol, side };
            let book = &mut self.books[usize::from(symbol)];
            let levels = if side.is_buy() { &mut book.bids } else { &mut book.asks };
            levels.entry(price).or_default().push_back(order_id);
        }
    }
}

impl ModelBTree {
    fn cancel(&mut self, order_id: u64) {
        let Order { price, symbol, side, .. } = self.orders[order_id as usize];
        let book = &mut self.books[usize::from(symbol)];
        let levels = if side.is_buy() { &mut book.bids } else { &mut book.asks };
        let queue = levels.get_mut(&price).expect("a live order has a level");
        let place = queue.iter().position(|it| *it == order_id).expect("it is in the queue");
        queue.remove(place);
        if queue.is_empty() {
            levels.remove(&price);
        }
    }

    fn trade(&mut self, operation: &Operation, trades: &mut Vec<Trade>) -> u32 {
        let Operation { order_id: taker, price: limit, side, .. } = *operation;
        let Self { books, orders } = self;
        let book = &mut books[usize::from(operation.symbol)];
        let mut leaves = operation.quantity;
        while leaves > 0 {
            let best = match side.is_buy() {
                true => book.asks.first_entry().filter(|level| *level.key() <= limit),
                false => book.bids.last_entry().filter(|level| limit <= *level.key()),
            };
            let Some(mut level) = best else { break };
            let price = *level.key();
            let maker = level.get()[0];
            let resting = &mut orders[maker as usize];
            let quantity = leaves.min(resting.leaves);
            trades.push(Trade { maker, taker, quantity, price: price as u32 });
            leaves -= quantity;
            resting.leaves -= quantity;
            if resting.leaves == 0 {
                level.get_mut().pop_front();
                if level.get().is_empty() {
                    level.remove();
                }
            }
        }
        leaves
    }
}
