//! The trading status of an instrument: its phase, its price bands, and the limits of its orders.

use market::{
    Allocation, Indication, InstrumentChange, InstrumentId, OrderType, Phase, Price, Quantity,
    RejectReason, Side,
};

use crate::{
    book::sharing::Sharing,
    contingent::pegs::{PEGS_LIMIT, PEGS_MAX, SESSION_PEGS_MAX},
    order::{PRICE_MAX, QUANTITY_LIMIT},
    state::hash,
};

/// Stands for no time.
const NEVER_NS: u64 = u64::MAX;

/// One, in ppm.
const MILLION: u64 = 1_000_000;

/// The trading status of an instrument.
///
/// Invariant: `is_unrestricted` is true exactly in continuous trading without bands and limits, while
/// nothing trades in steps or waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TradingStatus {
    /// True in continuous trading without any bound; the only field that most orders read.
    pub(crate) is_unrestricted: bool,
    /// True once the instrument was removed.
    pub(crate) is_removed: bool,
    /// True while its auction, or in continuous trading an order, trades in steps; the instrument is then
    /// in the line of these.
    pub(crate) is_uncrossing: bool,
    /// Number of orders that wait for the end of these steps; the index of waiting orders keeps the count.
    pub(crate) waiting: u32,
    pub(crate) phase: Phase,
    /// Static band, in ppm of the reference price; 0 is none.
    pub(crate) static_band: u32,
    /// Dynamic band, in ppm of the last price; 0 is none.
    pub(crate) dynamic_band: u32,
    /// Duration of a volatility auction, in seconds; 0 is no auction.
    pub(crate) pause_s: u32,
    /// Price collar, in ppm of the reference price; 0 is none.
    pub(crate) price_collar: u32,
    /// Largest quantity of an order, in lots; 0 is no maximum.
    pub(crate) quantity_max: u64,
    /// Largest notional of an order, in ticks × lots; 0 is no maximum.
    pub(crate) notional_max: u64,
    /// The most pegged orders; 0 allows none.
    pub(crate) pegs_max: u32,
    /// The most pegged orders of one session; 0 allows none.
    pub(crate) session_pegs_max: u32,
    pub(crate) allocation: Allocation,
    /// Time share of a pro-rata allocation, in ppm.
    pub(crate) time_share: u32,
    /// Reference price; [`Price::ZERO`] is none.
    pub(crate) reference_price: Price,
    /// Last price, kept only for a dynamic band; [`Price::ZERO`] before the first trade.
    pub(crate) price_last: Price,
    /// When the auction ends; [`NEVER_NS`] if it has no end.
    pub(crate) ends_ns: u64,
    /// True if an operator set that end, so that the auction ends then at any price.
    pub(crate) is_scheduled: bool,
    /// When the next indication is due; [`NEVER_NS`] without an auction.
    pub(crate) indicates_ns: u64,
    /// How often the collar of a volatility auction was widened.
    pub(crate) extension: u32,
    /// The last indication that was published.
    pub(crate) indicated: Indication,
}

impl TradingStatus {
    /// The status of a new instrument: continuous trading without bounds.
    pub(crate) const NEW: Self = Self {
        is_unrestricted: true,
        is_removed: false,
        is_uncrossing: false,
        waiting: 0,
        phase: Phase::Continuous,
        static_band: 0,
        dynamic_band: 0,
        pause_s: 0,
        price_collar: 0,
        quantity_max: 0,
        notional_max: 0,
        pegs_max: PEGS_MAX,
        session_pegs_max: SESSION_PEGS_MAX,
        allocation: Allocation::PriceTime,
        time_share: 0,
        reference_price: Price::ZERO,
        price_last: Price::ZERO,
        ends_ns: NEVER_NS,
        is_scheduled: false,
        indicates_ns: NEVER_NS,
        extension: 0,
        indicated: Indication {
            price: Price::ZERO,
            paired: Quantity::ZERO,
            imbalance: Quantity::ZERO,
            imbalance_is_buy: false,
        },
    };

    /// The earliest time that it waits for; [`u64::MAX`] if none.
    pub(crate) fn due_ns(&self) -> u64 {
        self.ends_ns.min(self.indicates_ns)
    }

    /// The earliest time that an auction waits for; `None` if there is none.
    pub(crate) fn auction_due_ns(&self) -> Option<u64> {
        Some(self.due_ns()).filter(|due_ns| self.phase.is_auction() && *due_ns != NEVER_NS)
    }

    /// True if a new order waits outside the book: for an order that is half matched, or behind other orders that
    /// waited for one.
    pub(crate) fn holds_new_orders(&self) -> bool {
        self.phase == Phase::Continuous && (self.is_uncrossing || self.waiting != 0)
    }

    /// Restores the invariant after a change.
    pub(crate) fn settle(&mut self) {
        self.is_unrestricted = self.phase == Phase::Continuous
            && !self.is_uncrossing
            && self.waiting == 0
            && self.static_band == 0
            && self.dynamic_band == 0
            && self.price_collar == 0
            && self.quantity_max == 0
            && self.notional_max == 0;
    }

    /// The allocation at a price.
    pub(crate) fn sharing(&self) -> Sharing {
        match self.allocation {
            Allocation::PriceTime => Sharing::PRICE_TIME,
            Allocation::ProRata => Sharing::pro_rata(self.time_share),
        }
    }

    /// Applies a property that does not concern the book; false if the value is invalid.
    pub(crate) fn configure(&mut self, change: &InstrumentChange) -> bool {
        match *change {
            InstrumentChange::PriceIncrement(_) | InstrumentChange::RoundLot(_) => {}
            InstrumentChange::Allocation(allocation) => self.allocation = allocation,
            InstrumentChange::TimeShare(ppm) => {
                if u64::from(ppm) > MILLION {
                    return false;
                }
                self.time_share = ppm;
            }
            InstrumentChange::ReferencePrice(price) => {
                if price > PRICE_MAX {
                    return false;
                }
                self.reference_price = price;
            }
            InstrumentChange::StaticBand(ppm) => self.static_band = ppm,
            InstrumentChange::DynamicBand(ppm) => {
                self.dynamic_band = ppm;
                if ppm == 0 {
                    self.price_last = Price::ZERO;
                }
            }
            InstrumentChange::PauseSeconds(seconds) => self.pause_s = seconds,
            InstrumentChange::PriceCollar(ppm) => self.price_collar = ppm,
            InstrumentChange::QuantityMax(quantity) => {
                if quantity > QUANTITY_LIMIT {
                    return false;
                }
                self.quantity_max = quantity.0;
            }
            InstrumentChange::NotionalMax(notional) => self.notional_max = notional,
            InstrumentChange::PegsMax(count) | InstrumentChange::SessionPegsMax(count)
                if PEGS_LIMIT < count =>
            {
                return false;
            }
            InstrumentChange::PegsMax(count) => self.pegs_max = count,
            InstrumentChange::SessionPegsMax(count) => self.session_pegs_max = count,
        }
        true
    }

    /// The lowest and the highest price of continuous trading.
    pub(crate) fn band(&self) -> Option<(Price, Price)> {
        let of_reference = around(self.reference_price, self.static_band);
        let price_last =
            if self.price_last == Price::ZERO { self.reference_price } else { self.price_last };
        let of_last = around(price_last, self.dynamic_band);
        match (of_reference, of_last) {
            (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.min(other.1))),
            (one, other) => one.or(other),
        }
    }

    /// The collar of a volatility auction: the lowest and the highest price at which it ends
    /// automatically. It is the static band, widened by its own width with each extension.
    pub(crate) fn collar(&self) -> Option<(Price, Price)> {
        let ppm = u64::from(self.static_band) * (u64::from(self.extension) + 1);
        around(self.reference_price, u32::try_from(ppm).unwrap_or(u32::MAX))
    }

    /// True if an order is within the limits of this instrument.
    pub(crate) fn limits(
        &self,
        side: Side,
        order_type: OrderType,
        quantity: Quantity,
        price: Price,
    ) -> Result<(), RejectReason> {
        if self.quantity_max != 0 && self.quantity_max < quantity.0 {
            return Err(RejectReason::QuantityAboveLimit);
        }
        let is_limit = order_type == OrderType::Limit;
        let price_paid = if is_limit { price } else { self.reference_price };
        if self.notional_max != 0 && u128::from(self.notional_max) < (price_paid * quantity).get() {
            return Err(RejectReason::NotionalAboveLimit);
        }
        if let Some((low, high)) = around(self.reference_price, self.price_collar)
            && is_limit
            && (if side.is_buy() { high < price } else { price < low })
        {
            return Err(RejectReason::PriceOutsideCollar);
        }
        Ok(())
    }

    /// Its element of the state hash.
    pub(crate) fn hash(&self, instrument_id: InstrumentId) -> u64 {
        let Indication { price, paired, imbalance, imbalance_is_buy } = self.indicated;
        let pegs = match (self.pegs_max, self.session_pegs_max) {
            (PEGS_MAX, SESSION_PEGS_MAX) => 0,
            (all, own) => hash::mix([
                hash::TRADING,
                u64::from(instrument_id.0) << 32,
                u64::from(all) | u64::from(own) << 32,
            ]),
        };
        let others = hash::mix([
            hash::TRADING,
            u64::from(instrument_id.0),
            u64::from(self.phase.code())
                | u64::from(self.is_removed) << 8
                | u64::from(imbalance_is_buy) << 16
                | u64::from(self.is_scheduled) << 17
                | u64::from(self.allocation.code()) << 24
                | u64::from(self.extension) << 32,
            u64::from(self.static_band) | u64::from(self.dynamic_band) << 32,
            u64::from(self.pause_s) | u64::from(self.price_collar) << 32,
            self.quantity_max,
            u64::from(self.time_share),
            self.notional_max,
            self.reference_price.0 | self.price_last.0 << 32,
            self.ends_ns,
            self.indicates_ns,
            price.0,
            paired.0,
            imbalance.0,
        ]);
        others.wrapping_add(pegs)
    }
}

/// The prices at most this many ppm away from a price; `None` without a price or a bound.
fn around(price: Price, millionths: u32) -> Option<(Price, Price)> {
    if price == Price::ZERO || millionths == 0 {
        return None;
    }
    let distance = price.0 * u64::from(millionths) / MILLION;
    let high = Price(price.0 + distance).min(PRICE_MAX);
    Some((Price(price.0.saturating_sub(distance)), high))
}
