//! Trades of a session's orders: their reports, and the newest trades, which can still be corrected.
//!
//! Invariant: kept trades are sorted by TradeId, each once, and at most 65,536.

use alloc::collections::VecDeque;

use market::{Fill, OrderKey, PastTrade, Quantity, Timestamp, TradeId, Traded, encoded};

use super::{Reports, SendMessage, messages::Report};

/// The most trades kept.
const TRADES_MAX: usize = 65_536;

/// A trade whose correction can be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptTrade {
    trade_id: u64,
    /// The price in ticks.
    price: u64,
    lots: u64,
}

encoded! { KeptTrade { trade_id, price, lots } }

/// The newest trades, by TradeId.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptTrades(VecDeque<KeptTrade>);

impl KeptTrades {
    /// The most memory for the trades, in bytes; the queue doubles.
    pub(super) const BYTES_MAX: usize = TRADES_MAX * 2 * size_of::<KeptTrade>();

    /// Keeps a trade with its price in ticks; replaces it if it is already kept.
    pub(super) fn keep(&mut self, trade_id: TradeId, price: u64, quantity: Quantity) {
        let kept = KeptTrade { trade_id: trade_id.0, price, lots: quantity.0 };
        // Nearly all are newer than the kept ones; both orders of a trade may be of the session.
        let at = match self.0.back() {
            Some(last) if trade_id.0 <= last.trade_id => self.place(trade_id),
            _ => self.0.len(),
        };
        match self.0.get_mut(at) {
            Some(same) if same.trade_id == trade_id.0 => *same = kept,
            _ => self.0.insert(at, kept),
        }
        if TRADES_MAX < self.0.len() {
            self.0.pop_front();
        }
    }

    /// Price in ticks and lots of a trade that is kept.
    fn get(&self, trade_id: TradeId) -> Option<(u64, u64)> {
        let kept = self.0.get(self.place(trade_id))?;
        (kept.trade_id == trade_id.0).then_some((kept.price, kept.lots))
    }

    fn place(&self, trade_id: TradeId) -> usize {
        self.0.partition_point(|kept| kept.trade_id < trade_id.0)
    }

    /// All kept trades, by TradeId.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeptTrade> {
        self.0.iter()
    }

    /// Adds a trade from a file; false if it is not newer than the kept ones.
    pub(super) fn restore(&mut self, trade: KeptTrade) -> bool {
        let is_newer = self.0.back().is_none_or(|last| last.trade_id < trade.trade_id);
        if is_newer {
            self.0.push_back(trade);
        }
        is_newer
    }

    /// The allocated memory, in bytes.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.0.capacity() * size_of::<KeptTrade>()
    }
}

impl Reports {
    pub(super) fn traded(
        &mut self,
        traded: &Traded,
        fill: &Fill,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let number = fill.key.user_ref_num;
        let Some(order) = self.orders.get_mut(&number) else { return };
        order.executed += traded.quantity.0;
        order.notional += (traded.price * traded.quantity).get();
        order.leaves = fill.leaves.0;
        if order.leaves == 0 {
            order.end = b'2';
        }
        self.trades.keep(traded.trade_id, traded.price.0, traded.quantity);
        let trade = Some((traded.trade_id, traded.price.0, traded.quantity.0));
        self.report(number, &Report { trade, ..Report::of(b'F') }, time, send);
    }

    /// Reports an undone trade; for a correction, also enters it with new terms.
    pub(super) fn undone(
        &mut self,
        trade: &PastTrade,
        is_own: impl Fn(&OrderKey) -> bool,
        kind: u8,
        broken: Option<TradeId>,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        for party in [&trade.maker, &trade.taker] {
            let number = party.key.user_ref_num;
            if !is_own(&party.key) || !self.orders.contains(&number) {
                continue;
            }
            let reference = Some(broken.unwrap_or(trade.trade_id));
            let text = "trade undone by the venue";
            let old = match broken {
                None => Some((trade.price.0, trade.quantity.0)),
                Some(broken) => self.trades.get(broken),
            };
            if let (Some((price, lots)), Some(order)) = (old, self.orders.get_mut(&number)) {
                order.executed = order.executed.saturating_sub(lots);
                order.notional =
                    order.notional.saturating_sub(u128::from(price) * u128::from(lots));
                if broken.is_some() {
                    order.executed += trade.quantity.0;
                    order.notional += (trade.price * trade.quantity).get();
                }
            }
            let new = (trade.trade_id, trade.price.0, trade.quantity.0);
            let trade = broken.map(|_| new);
            let text = if broken.is_some() { "trade corrected by the venue" } else { text };
            let report = Report { reference, trade, text, ..Report::of(kind) };
            self.report(number, &report, time, send);
        }
        if broken.is_some() {
            self.trades.keep(trade.trade_id, trade.price.0, trade.quantity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trade is found while it is kept; the same trade again replaces itself.
    #[test]
    fn trades_are_kept_by_number() {
        let mut trades = KeptTrades::default();
        for number in [2, 4, 4, 9, 7] {
            trades.keep(TradeId(number), number * 10, Quantity(number));
        }
        assert!(trades.iter().map(|trade| trade.trade_id).eq([2, 4, 7, 9]));
        assert_eq!(trades.get(TradeId(7)), Some((70, 7)));
        assert_eq!(trades.get(TradeId(8)), None);
        for number in 10..10 + TRADES_MAX as u64 {
            trades.keep(TradeId(number), 1, Quantity(1));
        }
        assert_eq!((trades.iter().count(), trades.get(TradeId(9))), (TRADES_MAX, None));
        assert!(trades.held() <= KeptTrades::BYTES_MAX, "{}", trades.held());
    }
}
