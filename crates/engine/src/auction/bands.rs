//! Price bands: the limits of continuous trading.
//!
//! Invariant: no trade of continuous trading is outside the bands in force at that moment.

use market::Price;

use crate::{Engine, order::Order};

impl Engine {
    /// The limit of an order within the bands; `None` if even the best price of the other side is
    /// outside them.
    #[cold]
    pub(crate) fn within_band(&self, order: &Order, limit: Option<Price>) -> Option<Option<Price>> {
        let book = &self.books[order.instrument_id];
        let Some((low, high)) = book.trading.band() else { return Some(limit) };
        let low = book.price_at_or_above(low);
        if order.side().is_buy() {
            let starts = book.best_ask().is_none_or(|ask| low <= ask);
            starts.then(|| Some(limit.map_or(high, |limit| limit.min(high))))
        } else {
            let starts = book.best_bid().is_none_or(|bid| bid <= high);
            starts.then(|| Some(limit.map_or(low, |limit| limit.max(low))))
        }
    }

    /// A dynamic band refers to the price of the last trade.
    #[cold]
    pub(crate) fn keep_price_last(&mut self, order: &Order, price_last: Option<Price>) {
        let Some(price) = price_last else { return };
        if self.books[order.instrument_id].trading.dynamic_band != 0 {
            self.change_trading(order.instrument_id, |trading| trading.price_last = price);
        }
    }
}
