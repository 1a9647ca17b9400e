//! How an instrument is traded now: its phase, how far its price may go, and what its orders may
//! ask.

use market::{
    Allocation, Indication, InstrumentChange, InstrumentId, OrderType, Phase, Price, Quantity,
    RejectReason, Side,
};

use crate::{
    book::sharing::Sharing,
    order::{PRICE_MAX, QUANTITY_LIMIT},
    state::hash,
};

/// No moment.
const NEVER_NS: u64 = u64::MAX;

/// One, in millionths.
const MILLION: u64 = 1_000_000;

/// How an instrument is traded now.
///
/// Invariant: `is_unrestricted` says whether it is in continuous trading without bands and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TradingStatus {
    /// True if orders trade as they come in and nothing bounds them: the one thing that most
    /// orders look at.
    pub(crate) is_unrestricted: bool,
    /// True once the instrument is no more.
    pub(crate) is_removed: bool,
    pub(crate) phase: Phase,
    /// Millionths of the reference price; 0 is none.
    pub(crate) static_band: u32,
    /// Millionths of the last price; 0 is none.
    pub(crate) dynamic_band: u32,
    /// Seconds; 0 is none.
    pub(crate) pause_s: u32,
    /// Millionths of the reference price; 0 is none.
    pub(crate) price_collar: u32,
    /// Lots; 0 is any.
    pub(crate) quantity_max: u32,
    /// Ticks times lots; 0 is any.
    pub(crate) notional_max: u64,
    pub(crate) allocation: Allocation,
    /// Millionths, where the allocation is pro rata.
    pub(crate) time_share: u32,
    /// [`Price::ZERO`] is none.
    pub(crate) reference_price: Price,
    /// Kept only where a dynamic band needs it; [`Price::ZERO`] before the first trade.
    pub(crate) price_last: Price,
    /// When an auction ends by itself; [`NEVER_NS`] if not.
    pub(crate) ends_ns: u64,
    /// True if that moment is an operator's, so that the auction ends then at any price.
    pub(crate) is_scheduled: bool,
    /// When the auction is looked at next; [`NEVER_NS`] without one.
    pub(crate) indicates_ns: u64,
    /// How often the collar of a volatility auction was widened.
    pub(crate) extension: u32,
    /// The last indication that was published.
    pub(crate) indicated: Indication,
}

impl TradingStatus {
    /// As an instrument is added: in continuous trading, without bounds.
    pub(crate) const NEW: Self = Self {
        is_unrestricted: true,
        is_removed: false,
        phase: Phase::Continuous,
        static_band: 0,
        dynamic_band: 0,
        pause_s: 0,
        price_collar: 0,
        quantity_max: 0,
        notional_max: 0,
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

    /// The earliest moment for which it waits; [`u64::MAX`] if for none.
    pub(crate) fn due_ns(&self) -> u64 {
        self.ends_ns.min(self.indicates_ns)
    }

    /// Sees to its invariant after a change.
    pub(crate) fn settle(&mut self) {
        self.is_unrestricted = self.phase == Phase::Continuous
            && self.static_band == 0
            && self.dynamic_band == 0
            && self.price_collar == 0
            && self.quantity_max == 0
            && self.notional_max == 0;
    }

    /// How what trades at a price is shared.
    pub(crate) fn sharing(&self) -> Sharing {
        match self.allocation {
            Allocation::PriceTime => Sharing::PRICE_TIME,
            Allocation::ProRata => Sharing::pro_rata(self.time_share),
        }
    }

    /// Takes over a change that does not concern the book; false if it has a value that it cannot
    /// have.
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
                self.quantity_max = quantity.0 as u32;
            }
            InstrumentChange::NotionalMax(notional) => self.notional_max = notional,
        }
        true
    }

    /// The lowest and the highest price at which continuous trading may go on.
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

    /// The lowest and the highest price at which a volatility auction may end by itself: the
    /// static band, widened by itself with each extension.
    pub(crate) fn collar(&self) -> Option<(Price, Price)> {
        let ppm = u64::from(self.static_band) * (u64::from(self.extension) + 1);
        around(self.reference_price, u32::try_from(ppm).unwrap_or(u32::MAX))
    }

    /// Is an order within what one may ask in this instrument?
    pub(crate) fn limits(
        &self,
        side: Side,
        order_type: OrderType,
        quantity: Quantity,
        price: Price,
    ) -> Result<(), RejectReason> {
        if self.quantity_max != 0 && u64::from(self.quantity_max) < quantity.0 {
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

    /// As an element of the state.
    pub(crate) fn hash(&self, instrument_id: InstrumentId) -> u64 {
        let Indication { price, paired, imbalance, imbalance_is_buy } = self.indicated;
        hash::mix([
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
            u64::from(self.quantity_max) | u64::from(self.time_share) << 32,
            self.notional_max,
            self.reference_price.0 | self.price_last.0 << 32,
            self.ends_ns,
            self.indicates_ns,
            price.0,
            paired.0,
            imbalance.0,
        ])
    }
}

/// The prices that are at most so many millionths away from one; `None` without a price or a
/// bound.
fn around(price: Price, millionths: u32) -> Option<(Price, Price)> {
    if price == Price::ZERO || millionths == 0 {
        return None;
    }
    let distance = price.0 * u64::from(millionths) / MILLION;
    let high = Price(price.0 + distance).min(PRICE_MAX);
    Some((Price(price.0.saturating_sub(distance)), high))
}
