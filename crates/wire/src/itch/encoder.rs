//! Outputs to ITCH messages.

use alloc::vec::Vec;

use market::{
    Booked, Canceled, Event, Fill, Indicated, Instrument, InstrumentChange, InstrumentChanged,
    InstrumentId, Modified, OrderId, Output, PastTrade, Phase, PhaseCause, PhaseChanged, Price,
    Quantity, Replaced, Restated, SelfMatchPrevented, Shown, Symbol, Timestamp, TradeId, Traded,
    VenueEvent,
};
use zerocopy::IntoBytes;

use super::{
    AddOrder, AddOrderAttributed, BrokenTrade, CrossTrade, LargeTrade, LuldAuctionCollar,
    NetOrderImbalance, OrderCancel, OrderDelete, OrderExecuted, OrderExecutedWithPrice,
    OrderReplace, StockDirectory, StockTradingAction, SystemEvent, Trade,
};
use crate::{
    field::{Nanos48, Price32, U16, U32},
    layout::Message,
};

/// Turns outputs into messages, the same for the same outputs.
///
/// The encoder learns the instruments from the outputs, so it must take all of them from the first. The stock locate is
/// the instrument's number, the tracking number is 0.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// Symbol of each instrument; the first is that of instrument 1.
    symbols: Vec<Symbol>,
}

impl Encoder {
    /// The most messages that one output causes.
    pub const MESSAGES_MAX: usize = 2;

    /// An encoder without instruments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Emits the messages that an output causes, in order; none if the book did not change.
    ///
    /// A new instrument gives its directory entry and the state `T`, since it can be traded whenever the
    /// market is open; system events give the market hours. The bytes are on the stack, so they must be
    /// copied to be kept.
    ///
    /// # Panics
    /// The output is not one that an engine emits: it names an instrument that was not added, or a booked price beyond
    /// 32 bits.
    pub fn encode(&mut self, output: &Output, emit: &mut impl FnMut(&[u8])) {
        let timestamp = nanos(output.timestamp);
        match &output.event {
            Event::System(event) => emit(
                SystemEvent {
                    message_type: SystemEvent::TYPE,
                    stock_locate: U16::ZERO,
                    tracking_number: TRACKING_NUMBER,
                    timestamp,
                    event_code: event.code(),
                }
                .as_bytes(),
            ),
            Event::InstrumentAdded(instrument) => {
                self.learn(instrument);
                let Instrument { instrument_id, symbol, round_lot, .. } = *instrument;
                emit(stock_directory(timestamp, instrument_id, symbol, round_lot).as_bytes());
                emit(trading(timestamp, instrument_id, symbol, b'T', BLANK).as_bytes());
            }
            Event::Booked(booked) if !booked.shown.is_zero() => {
                self.add_order(timestamp, booked, emit);
            }
            Event::Traded(traded @ Traded { auction: Some(auction), .. }) => {
                for (fill, shown) in
                    [(&traded.maker, traded.maker_shown), (&traded.taker, auction.taker_shown)]
                {
                    let executed = lots_lost(shown, traded.quantity);
                    if executed != 0 {
                        let message = order_executed_in_auction(timestamp, traded, fill, executed);
                        emit(message.as_bytes());
                    }
                }
            }
            Event::Traded(traded) => {
                let executed = lots_lost(traded.maker_shown, traded.quantity);
                if executed != 0 {
                    emit(order_executed(timestamp, traded, executed).as_bytes());
                }
                self.print(timestamp, &Print::unshown(traded, executed), emit);
            }
            Event::Canceled(Canceled { order_id, instrument_id, shown, .. })
            | Event::SelfMatchPrevented(SelfMatchPrevented {
                order_id,
                instrument_id,
                shown,
                ..
            })
            | Event::Modified(Modified { order_id, instrument_id, shown, .. }) => {
                reduce(timestamp, *order_id, *instrument_id, *shown, emit);
            }
            Event::Restated(restated) if !restated.shown.is_zero() => {
                // The lots shown of it before have been executed or removed in full.
                let Restated { order_id, instrument_id, side, price, leaves, shown, .. } =
                    *restated;
                let attribution = restated.attribution;
                let booked =
                    Booked { order_id, instrument_id, side, price, leaves, shown, attribution };
                self.add_order(timestamp, &booked, emit);
            }
            Event::Replaced(replaced) if replaced.in_place => {
                emit(order_replace(timestamp, replaced).as_bytes());
            }
            Event::Replaced(replaced) if replaced.original_displayed => {
                let Replaced { original_order_id, instrument_id, .. } = *replaced;
                emit(order_delete(timestamp, original_order_id, instrument_id).as_bytes());
            }
            Event::Booked(_)
            | Event::Restated(_)
            | Event::Replaced(_)
            | Event::Triggered(_)
            | Event::Released(_)
            | Event::SessionAdded(_)
            | Event::Accepted(_)
            | Event::Rejected(_)
            | Event::CancelHeld(_)
            | Event::MassCanceled(_)
            | Event::EntrySwitched(_)
            | Event::AccountQueried(_)
            | Event::Noted(_)
            | Event::Ledger(_)
            | Event::Money(_) => {}
            Event::Venue(event) => self.venue(timestamp, event, emit),
        }
    }

    /// Events of the venue itself that subscribers see.
    fn venue(&mut self, timestamp: Nanos48, event: &VenueEvent, emit: &mut impl FnMut(&[u8])) {
        match event {
            VenueEvent::PhaseChanged(changed) => {
                let (state, reason) = trading_state(changed);
                let symbol = self.symbol(changed.instrument_id);
                emit(trading(timestamp, changed.instrument_id, symbol, state, reason).as_bytes());
            }
            VenueEvent::Indicated(indicated) => {
                let symbol = self.symbol(indicated.instrument_id);
                emit(net_order_imbalance(timestamp, indicated, symbol).as_bytes());
            }
            VenueEvent::CollarSet(collar) => emit(
                LuldAuctionCollar {
                    message_type: LuldAuctionCollar::TYPE,
                    stock_locate: collar.instrument_id.0.into(),
                    tracking_number: TRACKING_NUMBER,
                    timestamp,
                    stock: *self.symbol(collar.instrument_id).as_bytes(),
                    auction_collar_reference_price: price(collar.reference_price),
                    upper_auction_collar_price: price(collar.high),
                    lower_auction_collar_price: price(collar.low),
                    auction_collar_extension: collar.extension.into(),
                }
                .as_bytes(),
            ),
            VenueEvent::Uncrossed(uncrossed) => emit(
                CrossTrade {
                    message_type: CrossTrade::TYPE,
                    stock_locate: uncrossed.instrument_id.0.into(),
                    tracking_number: TRACKING_NUMBER,
                    timestamp,
                    shares: uncrossed.quantity.0.into(),
                    stock: *self.symbol(uncrossed.instrument_id).as_bytes(),
                    cross_price: price(uncrossed.price),
                    match_number: uncrossed.trade_id.0.into(),
                    cross_type: cross_type(uncrossed.phase),
                }
                .as_bytes(),
            ),
            VenueEvent::InstrumentChanged(InstrumentChanged {
                instrument_id,
                change: InstrumentChange::RoundLot(round_lot),
            }) => {
                let symbol = self.symbol(*instrument_id);
                let directory = stock_directory(timestamp, *instrument_id, symbol, *round_lot);
                emit(directory.as_bytes());
            }
            VenueEvent::InstrumentRemoved(instrument_id) => {
                let symbol = self.symbol(*instrument_id);
                emit(trading(timestamp, *instrument_id, symbol, b'H', BLANK).as_bytes());
            }
            VenueEvent::TradeBusted(broken) => {
                let instrument_id = broken.trade.instrument_id;
                emit(broken_trade(timestamp, instrument_id, broken.trade.trade_id).as_bytes());
            }
            VenueEvent::TradeCorrected(corrected) => {
                let trade = &corrected.trade;
                emit(broken_trade(timestamp, trade.instrument_id, corrected.busted).as_bytes());
                self.print(timestamp, &Print::corrected(trade), emit);
            }
            VenueEvent::InstrumentChanged(_)
            | VenueEvent::EntryBlocked(_)
            | VenueEvent::LiveOrdersMaxSet(_)
            | VenueEvent::LoggedOut(_)
            | VenueEvent::Operated(_)
            | VenueEvent::Declined(_) => {}
        }
    }

    fn add_order(&self, timestamp: Nanos48, booked: &Booked, emit: &mut impl FnMut(&[u8])) {
        let add_order = AddOrder {
            message_type: AddOrder::TYPE,
            stock_locate: booked.instrument_id.0.into(),
            tracking_number: TRACKING_NUMBER,
            timestamp,
            order_reference_number: booked.order_id.0.into(),
            buy_sell_indicator: if booked.side.is_buy() { b'B' } else { b'S' },
            shares: shown_lots(booked.shown).into(),
            stock: *self.symbol(booked.instrument_id).as_bytes(),
            price: price(booked.price),
        };
        if booked.attribution.is_blank() {
            emit(add_order.as_bytes());
            return;
        }
        emit(
            AddOrderAttributed {
                message_type: AddOrderAttributed::TYPE,
                stock_locate: add_order.stock_locate,
                tracking_number: add_order.tracking_number,
                timestamp: add_order.timestamp,
                order_reference_number: add_order.order_reference_number,
                buy_sell_indicator: add_order.buy_sell_indicator,
                shares: add_order.shares,
                stock: add_order.stock,
                price: add_order.price,
                attribution: *booked.attribution.as_bytes(),
            }
            .as_bytes(),
        );
    }

    /// Prints lots that no order on the feed loses; the side is not published. More lots than a Trade
    /// message has room for take a message of our own.
    fn print(&self, timestamp: Nanos48, print: &Print, emit: &mut impl FnMut(&[u8])) {
        if print.lots.is_zero() {
            return;
        }
        let stock = *self.symbol(print.instrument_id).as_bytes();
        let stock_locate = print.instrument_id.0.into();
        let match_number = print.trade_id.0.into();
        match u32::try_from(print.lots.0) {
            Ok(lots) => emit(
                Trade {
                    message_type: Trade::TYPE,
                    stock_locate,
                    tracking_number: TRACKING_NUMBER,
                    timestamp,
                    order_reference_number: 0.into(),
                    buy_sell_indicator: b'B',
                    shares: lots.into(),
                    stock,
                    price: price(print.price),
                    match_number,
                }
                .as_bytes(),
            ),
            Err(_) => emit(
                LargeTrade {
                    message_type: LargeTrade::TYPE,
                    stock_locate,
                    tracking_number: TRACKING_NUMBER,
                    timestamp,
                    order_reference_number: 0.into(),
                    buy_sell_indicator: b'B',
                    shares: print.lots.0.into(),
                    stock,
                    price: price(print.price),
                    match_number,
                }
                .as_bytes(),
            ),
        }
    }

    /// Adds an instrument that was added before the first output, for an encoder that
    /// continues from a snapshot.
    ///
    /// # Panics
    /// Instruments are not given in the order of their ids.
    pub fn learn(&mut self, instrument: &Instrument) {
        self.symbols.push(instrument.symbol);
        assert!(
            usize::from(instrument.instrument_id.0) == self.symbols.len(),
            "instruments are numbered in the order of addition: {instrument:?}"
        );
    }

    fn symbol(&self, instrument_id: InstrumentId) -> Symbol {
        let index = usize::from(instrument_id.0).checked_sub(1);
        *index.and_then(|index| self.symbols.get(index)).expect("an instrument is added before use")
    }
}

const TRACKING_NUMBER: U16 = U16::ZERO;

/// A resting order lost `quantity`: a part of it, all its open lots, or none.
fn reduce(
    timestamp: Nanos48,
    order_id: OrderId,
    instrument_id: InstrumentId,
    shown: Shown,
    emit: &mut impl FnMut(&[u8]),
) {
    let canceled = shown_lots(shown.before) - shown_lots(shown.after);
    if canceled == 0 {
        return;
    }
    if shown.after.is_zero() {
        return emit(order_delete(timestamp, order_id, instrument_id).as_bytes());
    }
    emit(
        OrderCancel {
            message_type: OrderCancel::TYPE,
            stock_locate: instrument_id.0.into(),
            tracking_number: TRACKING_NUMBER,
            timestamp,
            order_reference_number: order_id.0.into(),
            canceled_shares: canceled.into(),
        }
        .as_bytes(),
    );
}

fn stock_directory(
    timestamp: Nanos48,
    instrument_id: InstrumentId,
    symbol: Symbol,
    round_lot: Quantity,
) -> StockDirectory {
    StockDirectory {
        message_type: StockDirectory::TYPE,
        stock_locate: instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        stock: *symbol.as_bytes(),
        market_category: b' ',
        financial_status_indicator: b'N',
        round_lot_size: shown_lots(round_lot).into(),
        round_lots_only: b'N',
        issue_classification: b'C',
        issue_sub_type: *b"Z ",
        authenticity: b'P',
        short_sale_threshold_indicator: b'N',
        ipo_flag: b'N',
        luld_reference_price_tier: b' ',
        etp_flag: b'N',
        etp_leverage_factor: U32::ZERO,
        inverse_indicator: b'N',
    }
}

/// No reason.
const BLANK: [u8; 4] = *b"    ";

fn trading(
    timestamp: Nanos48,
    instrument_id: InstrumentId,
    symbol: Symbol,
    trading_state: u8,
    reason: [u8; 4],
) -> StockTradingAction {
    StockTradingAction {
        message_type: StockTradingAction::TYPE,
        stock_locate: instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        stock: *symbol.as_bytes(),
        trading_state,
        reserved: b' ',
        reason,
    }
}

/// The trading state of a phase, and its reason.
fn trading_state(changed: &PhaseChanged) -> (u8, [u8; 4]) {
    let state = match changed.to {
        Phase::Continuous => b'T',
        Phase::PreOpen | Phase::OpeningAuction | Phase::ClosingAuction => b'Q',
        Phase::VolatilityAuction => b'P',
        Phase::Halted | Phase::Closed => b'H',
    };
    let is_pause = (changed.to, changed.cause) == (Phase::VolatilityAuction, PhaseCause::Band);
    (state, if is_pause { *b"LUDP" } else { *changed.reason.as_bytes() })
}

/// The cross type of an auction. The auction that ends a halt counts as a volatility auction.
fn cross_type(phase: Phase) -> u8 {
    match phase {
        Phase::PreOpen | Phase::OpeningAuction => b'O',
        Phase::ClosingAuction => b'C',
        _ => b'H',
    }
}

/// Every order of the book takes part in our auctions, so the far price is the near one.
fn net_order_imbalance(
    timestamp: Nanos48,
    indicated: &Indicated,
    symbol: Symbol,
) -> NetOrderImbalance {
    let indication = &indicated.indication;
    NetOrderImbalance {
        message_type: NetOrderImbalance::TYPE,
        stock_locate: indicated.instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        paired_shares: indication.paired.0.into(),
        imbalance_shares: indication.imbalance.0.into(),
        imbalance_direction: match (indication.imbalance, indication.imbalance_is_buy) {
            _ if indication.paired.is_zero() => b'O',
            (Quantity::ZERO, _) => b'N',
            (_, true) => b'B',
            (_, false) => b'S',
        },
        stock: *symbol.as_bytes(),
        far_price: price(indication.price),
        near_price: price(indication.price),
        current_reference_price: price(indication.price),
        cross_type: cross_type(indicated.phase),
        price_variation_indicator: variation(indication.price, indicated.reference_price),
    }
}

/// The letter for a price's distance from the reference price, in percent of the latter.
fn variation(price: Price, reference_price: Price) -> u8 {
    if price == Price::ZERO || reference_price == Price::ZERO {
        return b' ';
    }
    match price.0.abs_diff(reference_price.0) * 100 / reference_price.0 {
        0 => b'L',
        percent @ 1..=9 => b'0' + percent as u8,
        10..=19 => b'A',
        20..=29 => b'B',
        _ => b'C',
    }
}

fn broken_trade(timestamp: Nanos48, instrument_id: InstrumentId, trade_id: TradeId) -> BrokenTrade {
    BrokenTrade {
        message_type: BrokenTrade::TYPE,
        stock_locate: instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        match_number: trade_id.0.into(),
    }
}

/// The execution of an order in an auction, whose cross trade message counts the lots.
fn order_executed_in_auction(
    timestamp: Nanos48,
    traded: &Traded,
    fill: &Fill,
    executed: u32,
) -> OrderExecutedWithPrice {
    OrderExecutedWithPrice {
        message_type: OrderExecutedWithPrice::TYPE,
        stock_locate: traded.instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        order_reference_number: fill.order_id.0.into(),
        executed_shares: executed.into(),
        match_number: traded.trade_id.0.into(),
        printable: b'N',
        execution_price: price(traded.price),
    }
}

/// The execution of the resting order; the incoming one is not on the feed.
fn order_executed(timestamp: Nanos48, traded: &Traded, executed: u32) -> OrderExecuted {
    OrderExecuted {
        message_type: OrderExecuted::TYPE,
        stock_locate: traded.instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        order_reference_number: traded.maker.order_id.0.into(),
        executed_shares: executed.into(),
        match_number: traded.trade_id.0.into(),
    }
}

fn order_delete(timestamp: Nanos48, order_id: OrderId, instrument_id: InstrumentId) -> OrderDelete {
    OrderDelete {
        message_type: OrderDelete::TYPE,
        stock_locate: instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        order_reference_number: order_id.0.into(),
    }
}

fn order_replace(timestamp: Nanos48, replaced: &Replaced) -> OrderReplace {
    OrderReplace {
        message_type: OrderReplace::TYPE,
        stock_locate: replaced.instrument_id.0.into(),
        tracking_number: TRACKING_NUMBER,
        timestamp,
        original_order_reference_number: replaced.original_order_id.0.into(),
        new_order_reference_number: replaced.order_id.0.into(),
        shares: shown_lots(replaced.shown().quantity()).into(),
        price: replaced.price.0.into(),
    }
}

fn nanos(timestamp: Timestamp) -> Nanos48 {
    Nanos48::new(timestamp.since_midnight())
}

/// The lots that the feed shows of an order, at most 2³² − 1. The rest of a larger order appears as the shown lots
/// trade or are canceled, and keeps its priority meanwhile.
fn shown_lots(quantity: Quantity) -> u32 {
    u32::try_from(quantity.0).unwrap_or(u32::MAX)
}

/// The lots that the feed removes from an order when `traded` of its shown lots trade.
fn lots_lost(shown: Quantity, traded: Quantity) -> u32 {
    shown_lots(shown) - shown_lots(shown.saturating_sub(traded))
}

/// Traded lots that no order on the feed loses: they are printed.
struct Print {
    instrument_id: InstrumentId,
    price: Price,
    trade_id: TradeId,
    lots: Quantity,
}

impl Print {
    /// The traded lots of an order beyond those that it lost on the feed.
    fn unshown(traded: &Traded, executed: u32) -> Self {
        let Traded { instrument_id, price, trade_id, quantity, .. } = *traded;
        Self { instrument_id, price, trade_id, lots: Quantity(quantity.0 - u64::from(executed)) }
    }

    /// A trade in place of a busted one: it changes no order.
    fn corrected(trade: &PastTrade) -> Self {
        let PastTrade { instrument_id, price, trade_id, quantity, .. } = *trade;
        Self { instrument_id, price, trade_id, lots: quantity }
    }
}

fn price(price: Price) -> Price32 {
    let ticks = u32::try_from(price.0).expect("the engine books no price above 199,999.9900");
    Price32::new(ticks)
}
