//! Books of sorted maps and queues: the generator runs them beside a flow, and the bench measures them.
//!
//! Invariant: price-time priority, and no code in common with the engine.

use std::collections::{BTreeMap, VecDeque};

use market::Side;

use super::{FlowOperation, OperationKind};

/// Books, and a table of orders by their dense ids.
#[derive(Debug)]
pub(crate) struct PlainBooks {
    books: Vec<Book>,
    orders: Vec<PlainOrder>,
}

#[derive(Debug, Default)]
struct Book {
    bids: BTreeMap<i64, VecDeque<u64>>,
    asks: BTreeMap<i64, VecDeque<u64>>,
}

/// A resting order; once it has left the book, its last state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainOrder {
    pub(crate) price: i64,
    pub(crate) leaves: u32,
    pub(crate) symbol: u16,
    pub(crate) side: Side,
}

impl PlainOrder {
    const NONE: Self = Self { price: 0, leaves: 0, symbol: 0, side: Side::Buy };
}

impl Book {
    fn side_mut(&mut self, side: Side) -> &mut BTreeMap<i64, VecDeque<u64>> {
        if side.is_buy() { &mut self.bids } else { &mut self.asks }
    }
}

impl PlainBooks {
    /// Empty books with a table for the order ids up to `order_id_max`.
    pub(crate) fn new(symbols: usize, order_id_max: u64) -> Self {
        Self {
            books: (0..symbols).map(|_| Book::default()).collect(),
            orders: vec![PlainOrder::NONE; order_id_max as usize + 1],
        }
    }

    /// The next order id.
    pub(super) fn add_order(&mut self) -> u64 {
        self.orders.push(PlainOrder::NONE);
        self.order_id_max()
    }

    pub(super) fn order_id_max(&self) -> u64 {
        self.orders.len() as u64 - 1
    }

    pub(super) fn order(&self, order_id: u64) -> PlainOrder {
        self.orders[order_id as usize]
    }

    /// The best price against which an order of this side trades.
    pub(super) fn best_opposite(&self, symbol: usize, side: Side) -> Option<i64> {
        let Book { bids, asks } = &self.books[symbol];
        let best = if side.is_buy() { asks.first_key_value() } else { bids.last_key_value() };
        best.map(|(price, _)| *price)
    }

    /// Executes an operation; returns the lots left in the book. `on_trade` gets maker, lots and price.
    pub(crate) fn apply(
        &mut self,
        operation: &FlowOperation,
        on_trade: impl FnMut(u64, u32, i64),
    ) -> u32 {
        if matches!(operation.kind, OperationKind::Cancel | OperationKind::Replace) {
            self.cancel(operation.order_id);
        }
        if operation.kind == OperationKind::Cancel {
            return 0;
        }
        let leaves = self.trade(operation, on_trade);
        if leaves == 0 || operation.kind == OperationKind::NewImmediateOrCancel {
            return 0;
        }
        let FlowOperation { order_id, price, symbol, side, .. } = *operation;
        self.orders[order_id as usize] = PlainOrder { price, leaves, symbol, side };
        let levels = self.books[usize::from(symbol)].side_mut(side);
        levels.entry(price).or_default().push_back(order_id);
        leaves
    }

    fn cancel(&mut self, order_id: u64) {
        let PlainOrder { price, symbol, side, .. } = self.orders[order_id as usize];
        let levels = self.books[usize::from(symbol)].side_mut(side);
        let queue = levels.get_mut(&price).expect("a live order has a level");
        let place = queue.iter().position(|it| *it == order_id).expect("it is in the queue");
        queue.remove(place);
        if queue.is_empty() {
            levels.remove(&price);
        }
    }

    fn trade(&mut self, operation: &FlowOperation, mut on_trade: impl FnMut(u64, u32, i64)) -> u32 {
        let FlowOperation { price: limit, side, .. } = *operation;
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
            on_trade(maker, quantity, price);
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
