//! The latest trades, kept so that they can be busted or corrected.
//!
//! Invariant: a trade is busted at most once.

use alloc::vec::Vec;

use market::{
    InstrumentId, Lots, OrderId, OrderKey, Party, PastTrade, Price, SessionId, TradeId, Traded,
};

use crate::state::hash::{self, StateHash};

/// The number of latest trades that can be undone.
pub const TRADES_KEPT: usize = 1 << 16;

/// The latest trades, by number.
#[derive(Debug)]
pub(crate) struct Trades {
    /// A circular buffer, once full.
    kept: Vec<Kept>,
    /// The index of the oldest trade once the buffer is full, and of the next one.
    oldest: usize,
}

/// A trade in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Kept {
    trade_id: TradeId,
    maker: OrderKey,
    taker: OrderKey,
    maker_order_id: OrderId,
    taker_order_id: OrderId,
    price: u32,
    quantity: Lots,
    instrument_id: InstrumentId,
    taker_is_buy: bool,
    is_busted: bool,
}

market::assert_layout! {
    Kept, 64 {
        trade_id: 0, maker: 8, taker: 16, maker_order_id: 24, taker_order_id: 32, price: 40, quantity: 44,
        instrument_id: 50, taker_is_buy: 52, is_busted: 53,
    }
}

impl Trades {
    /// No trades; memory is requested at once, and used as trades come.
    pub(crate) fn new() -> Self {
        Self { kept: Vec::with_capacity(TRADES_KEPT), oldest: 0 }
    }

    /// Touches the memory of future trades.
    pub(crate) fn reserve(&mut self) {
        let len = self.kept.len();
        self.kept.resize(TRADES_KEPT, Kept::NONE);
        self.kept.truncate(len);
    }

    /// Keeps a trade, in place of the oldest if the buffer is full.
    #[inline(always)]
    pub(crate) fn add(&mut self, traded: &Traded) {
        self.keep(Kept {
            trade_id: traded.trade_id,
            maker: traded.maker.key,
            taker: traded.taker.key,
            maker_order_id: traded.maker.order_id,
            taker_order_id: traded.taker.order_id,
            price: traded.price.0 as u32,
            quantity: traded.quantity.lots(),
            instrument_id: traded.instrument_id,
            taker_is_buy: traded.taker_side.is_buy(),
            is_busted: false,
        });
    }

    /// Restores a kept trade, or keeps one in place of a trade that was undone.
    pub(crate) fn add_past(&mut self, trade: &PastTrade, is_busted: bool) {
        self.keep(Kept {
            trade_id: trade.trade_id,
            maker: trade.maker.key,
            taker: trade.taker.key,
            maker_order_id: trade.maker.order_id,
            taker_order_id: trade.taker.order_id,
            price: trade.price.0 as u32,
            quantity: trade.quantity.lots(),
            instrument_id: trade.instrument_id,
            taker_is_buy: trade.taker_is_buy,
            is_busted,
        });
    }

    /// Marks a trade as undone and returns it; `None` if it is not kept or was undone already.
    pub(crate) fn bust_trade(&mut self, trade_id: TradeId) -> Option<PastTrade> {
        let kept = self.find_mut(trade_id).filter(|kept| !kept.is_busted)?;
        kept.is_busted = true;
        Some(kept.past())
    }

    /// A trade that can still be undone.
    pub(crate) fn find(&self, trade_id: TradeId) -> Option<PastTrade> {
        let (newer, older) = self.kept.split_at(self.oldest);
        let find = |run: &[Kept]| {
            let at = run.binary_search_by_key(&trade_id, |kept| kept.trade_id).ok()?;
            Some(run[at])
        };
        find(newer).or_else(|| find(older)).filter(|kept| !kept.is_busted).map(|kept| kept.past())
    }

    /// The price of a trade of this step.
    ///
    /// # Panics
    /// The trade is not kept.
    #[inline]
    pub(crate) fn price(&self, trade_id: u64) -> Price {
        let back = self.last_id().0 - trade_id;
        let len = self.kept.len();
        let place = (self.oldest + len - 1).checked_sub(back as usize).expect("it is kept");
        let kept = &self.kept[place % len];
        assert!(kept.trade_id.0 == trade_id, "trades of a step have one id after the other");
        Price(kept.price.into())
    }

    /// The id of the latest trade; 0 before the first.
    pub(crate) fn last_id(&self) -> TradeId {
        let latest = (self.oldest + self.kept.len()).checked_sub(1);
        let latest = latest.map(|place| &self.kept[place % self.kept.len()]);
        latest.map_or(TradeId(0), |kept| kept.trade_id)
    }

    /// All kept trades, oldest first, and whether each was undone.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (PastTrade, bool)> {
        (0..self.kept.len()).map(|place| {
            let kept = &self.kept[(self.oldest + place) % self.kept.len()];
            (kept.past(), kept.is_busted)
        })
    }

    /// The elements of all kept trades in the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        self.kept.iter().for_each(|kept| sum.add(kept.element()));
    }

    /// Checks that trade ids ascend.
    pub(crate) fn check(&self) {
        assert!(self.kept.len() <= TRADES_KEPT && self.oldest < TRADES_KEPT);
        let mut last = TradeId(0);
        for (trade, _) in self.iter() {
            assert!(last < trade.trade_id, "{last} then {trade:?}");
            last = trade.trade_id;
        }
    }

    #[inline(always)]
    fn keep(&mut self, trade: Kept) {
        if self.kept.len() < TRADES_KEPT {
            self.kept.push(trade);
            return;
        }
        let oldest = &mut self.kept[self.oldest];
        *oldest = trade;
        self.oldest = (self.oldest + 1) % TRADES_KEPT;
    }

    fn find_mut(&mut self, trade_id: TradeId) -> Option<&mut Kept> {
        let (newer, older) = self.kept.split_at_mut(self.oldest);
        let place = |run: &[Kept]| run.binary_search_by_key(&trade_id, |kept| kept.trade_id).ok();
        match (place(newer), place(older)) {
            (Some(at), _) => Some(&mut newer[at]),
            (None, Some(at)) => Some(&mut older[at]),
            (None, None) => None,
        }
    }
}

impl Kept {
    /// A placeholder for a future trade. Not all 0, so that the memory is written.
    const NONE: Self = Self {
        trade_id: TradeId(u64::MAX),
        maker: OrderKey { session_id: SessionId(0), channel: 0, user_ref_num: 0 },
        taker: OrderKey { session_id: SessionId(0), channel: 0, user_ref_num: 0 },
        maker_order_id: OrderId(0),
        taker_order_id: OrderId(0),
        price: 0,
        quantity: Lots::ZERO,
        instrument_id: InstrumentId(0),
        taker_is_buy: false,
        is_busted: false,
    };

    /// Its element of the state hash.
    fn element(&self) -> u64 {
        let key = |key: &OrderKey| {
            u64::from(key.session_id.0) << 48
                | u64::from(key.channel) << 40
                | u64::from(key.user_ref_num)
        };
        let flags = u64::from(self.taker_is_buy) << 62 | u64::from(self.is_busted) << 63;
        hash::mix([
            hash::TRADE,
            self.trade_id.0,
            u64::from(self.instrument_id.0) | flags,
            u64::from(self.price),
            self.quantity.get(),
            key(&self.maker),
            self.maker_order_id.0,
            key(&self.taker),
            self.taker_order_id.0,
        ])
    }

    fn past(&self) -> PastTrade {
        PastTrade {
            trade_id: self.trade_id,
            instrument_id: self.instrument_id,
            taker_is_buy: self.taker_is_buy,
            price: Price(u64::from(self.price)),
            quantity: self.quantity.quantity(),
            maker: Party { key: self.maker, order_id: self.maker_order_id },
            taker: Party { key: self.taker, order_id: self.taker_order_id },
        }
    }
}
