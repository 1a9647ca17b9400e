//! Outputs to OUCH replies.

use alloc::vec::Vec;
use market::{
    Accepted, BustReason, CancelHeld, CancelReason, Canceled, ClientOrderId, CustomerType,
    EntrySwitched, Event, Fill, Firm, Instructions, Instrument, InstrumentId, MassCanceled,
    Modified, OrderKey, OrderType, Output, PastTrade, Phase, RejectReason, Rejected, Replaced,
    RestateReason, Restated, SelfMatchPrevented, SessionId, Symbol, SystemEvent, TimeInForce,
    Timestamp, TradeBusted, TradeCorrected, TradeId, Traded, VenueEvent,
};

use super::{
    AccountQueryResponse, AiqCanceled, BrokenTrade, CancelPending, CancelReject,
    DisableOrderEntryResponse, EnableOrderEntryResponse, MassCancelResponse, MessageBuffer,
    OrderAccepted, OrderCanceled, OrderExecuted, OrderModified, OrderPriorityUpdate, OrderReplaced,
    OrderRestated, Tag,
    request::{
        expire_tag, minimum_tag, offset_tag, post_only_tag, price, pricing_tag, quantity,
        self_match_tags, shown_quantity_tag, shown_range_tag,
    },
};
use crate::{field::Nanos64, layout::Message};

/// The recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// One session.
    One(SessionId),
    /// Every session.
    All,
}

/// Turns outputs into messages, the same for the same outputs.
///
/// It keeps only the symbol of each instrument, which it learns from the outputs.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// Symbol of each instrument; the first is that of instrument 1.
    symbols: Vec<Symbol>,
}

impl Encoder {
    /// An encoder without instruments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Emits the messages that an output causes, in order.
    ///
    /// A trade causes two, the maker's before the taker's; an event for the feed alone causes none. The
    /// bytes are on the stack, so they must be copied to be kept.
    ///
    /// # Panics
    /// The output is not one that an engine emits: it names an instrument that was not added.
    pub fn encode(&mut self, output: &Output, emit: &mut impl FnMut(Recipient, &[u8])) {
        let timestamp = nanos(output.timestamp);
        match &output.event {
            Event::System(SystemEvent::StartOfSystemHours) => {
                emit(Recipient::All, &system_event(timestamp, START_OF_DAY));
            }
            Event::System(SystemEvent::EndOfSystemHours) => {
                emit(Recipient::All, &system_event(timestamp, END_OF_DAY));
            }
            Event::SessionAdded(added) if added.system_hours => {
                emit(Recipient::One(added.session_id), &system_event(timestamp, START_OF_DAY));
            }
            Event::System(_)
            | Event::SessionAdded(_)
            | Event::Booked(_)
            | Event::Triggered(_)
            | Event::Released(_)
            | Event::Noted(_)
            | Event::Ledger(_)
            | Event::Money(_) => {}
            Event::Venue(event) => venue(timestamp, event, emit),
            Event::InstrumentAdded(instrument) => self.learn(instrument),
            Event::Accepted(accepted) => {
                let symbol = self.symbol(accepted.instrument_id);
                let seconds = seconds_left(output.timestamp, &accepted.instructions);
                let message = order_accepted(timestamp, accepted, seconds, symbol);
                emit(owner(&accepted.key), &message);
            }
            Event::Rejected(rejected) => {
                emit(owner(&rejected.key), &order_rejected(timestamp, rejected));
            }
            Event::Replaced(replaced) => {
                let symbol = self.symbol(replaced.instrument_id);
                let seconds = seconds_left(output.timestamp, &replaced.instructions);
                let message = order_replaced(timestamp, replaced, seconds, symbol);
                emit(owner(&replaced.key), &message);
            }
            Event::Traded(traded) => {
                let (maker_flag, taker_flag) = liquidity_flags(traded);
                let maker = order_executed(timestamp, traded, &traded.maker, maker_flag);
                emit(owner(&traded.maker.key), &maker);
                let taker = order_executed(timestamp, traded, &traded.taker, taker_flag);
                emit(owner(&traded.taker.key), &taker);
            }
            Event::SelfMatchPrevented(prevented) => {
                emit(owner(&prevented.key), &aiq_canceled(timestamp, prevented));
            }
            Event::Canceled(canceled) => {
                emit(owner(&canceled.key), &order_canceled(timestamp, canceled));
            }
            Event::Restated(restated) => {
                emit(owner(&restated.key), &order_restated(timestamp, restated));
            }
            Event::Modified(modified) => {
                emit(owner(&modified.key), &order_modified(timestamp, modified));
            }
            Event::CancelHeld(held) => {
                emit(owner(&held.key), &cancel_held(timestamp, held));
            }
            Event::MassCanceled(mass_canceled) => {
                emit(owner(&mass_canceled.key), &mass_cancel_response(timestamp, mass_canceled));
            }
            Event::EntrySwitched(switched) => {
                emit(owner(&switched.key), &order_entry_response(timestamp, switched));
            }
            Event::AccountQueried(queried) => {
                let mut message = MessageBuffer::new(&AccountQueryResponse {
                    message_type: AccountQueryResponse::TYPE,
                    timestamp,
                    next_user_ref_num: queried.next_user_ref_num.into(),
                });
                message.user_ref_idx(queried.channel);
                emit(Recipient::One(queried.session_id), &message);
            }
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

/// The code of a reason in a Rejected message. OUCH 5.0, section 9.
#[must_use]
pub const fn reject_code(reason: RejectReason) -> u16 {
    match reason {
        RejectReason::MarketClosed => 0x0002,
        RejectReason::InvalidDisplay => 0x0003,
        RejectReason::InvalidMaxFloor => 0x0004,
        RejectReason::InvalidPegType => 0x0005,
        RejectReason::SweepNotAllowed => 0x0008,
        RejectReason::InvalidSide => 0x0009,
        RejectReason::TooManyOrders
        | RejectReason::TooManyPegs
        | RejectReason::NoRoom
        | RejectReason::TooSlow => 0x000A,
        RejectReason::EntryDisabled => 0x000C,
        RejectReason::InvalidMinimumQuantity => 0x000D,
        RejectReason::NotSupported
        | RejectReason::InvalidTrigger
        | RejectReason::InvalidExpiry
        | RejectReason::InvalidLink => 0x000F,
        RejectReason::PeggingNotAllowed => 0x0011,
        RejectReason::InvalidQuantity => 0x0013,
        RejectReason::InvalidCrossOrder => 0x0014,
        RejectReason::ReplaceNotAllowed => 0x0015,
        RejectReason::InvalidSymbol => 0x0017,
        RejectReason::InvalidPrice => 0x001D,
        RejectReason::InvalidSelfMatchPrevention => 0x0040,
        RejectReason::EntryBlocked => 0x0024,
        RejectReason::Halted => 0x0007,
        RejectReason::InstrumentClosed => 0x002E,
        RejectReason::NotInPhase => 0x002D,
        RejectReason::QuantityAboveLimit => 0x0021,
        RejectReason::NotionalAboveLimit => 0x001F,
        RejectReason::PriceOutsideCollar => 0x0006,
        RejectReason::NoAccount => 0x001C,
        RejectReason::ShortSaleNotAllowed => 0x002B,
        RejectReason::PriceTooFar => 0x0026,
        RejectReason::OrderQuantityLimit => 0x0031,
        RejectReason::OrderNotionalLimit => 0x0030,
        RejectReason::OrderRateLimit => 0x0029,
        RejectReason::PositionLimit => 0x001E,
        RejectReason::InsufficientBalance => 0x0020,
        RejectReason::AccountStopped => 0x0022,
    }
}

/// The reasons that a Rejected message may mean by a code: none for a code that the venue does not use.
pub fn reject_reasons(code: u16) -> impl Iterator<Item = RejectReason> {
    let all = (0..=u8::MAX).filter_map(RejectReason::from_code);
    all.filter(move |reason| reject_code(*reason) == code)
}

/// The code of a reason in a Canceled message: its own, or that of the system where OUCH has none.
const fn cancel_code(reason: CancelReason) -> u8 {
    match reason {
        CancelReason::Linked | CancelReason::Unpaid => b'Z',
        reason => reason.code(),
    }
}

const START_OF_DAY: u8 = b'S';
const END_OF_DAY: u8 = b'E';
const ADDED: u8 = b'A';
const ADDED_HIDDEN: u8 = b'J';
const REMOVED: u8 = b'R';
const SELF_MATCH: u8 = b'Q';
const LIVE: u8 = b'L';
const CONTINUOUS: u8 = b'N';
const NOT_ELIGIBLE: u8 = b'N';

fn nanos(timestamp: Timestamp) -> Nanos64 {
    Nanos64::new(timestamp.since_midnight())
}

/// The liquidity flags of the two orders; in an auction, that of the auction.
fn liquidity_flags(traded: &Traded) -> (u8, u8) {
    match traded.auction.map(|auction| auction.phase) {
        None => (added(!traded.maker_shown.is_zero()), REMOVED),
        Some(Phase::OpeningAuction) => (b'O', b'O'),
        Some(Phase::ClosingAuction) => (b'C', b'C'),
        Some(_) => (b'H', b'H'),
    }
}

/// Events of the venue itself that concern a participant's order.
fn venue(timestamp: Nanos64, event: &VenueEvent, emit: &mut impl FnMut(Recipient, &[u8])) {
    match event {
        VenueEvent::TradeBusted(TradeBusted { trade, reason }) => {
            for party in [&trade.maker, &trade.taker] {
                let message = broken_trade(timestamp, &party.key, trade.trade_id, *reason);
                emit(owner(&party.key), &message);
            }
        }
        VenueEvent::TradeCorrected(TradeCorrected { busted, trade, reason }) => {
            for (party, flag) in [(&trade.maker, ADDED), (&trade.taker, REMOVED)] {
                let message = broken_trade(timestamp, &party.key, *busted, *reason);
                emit(owner(&party.key), &message);
                emit(owner(&party.key), &past_trade(timestamp, trade, &party.key, flag));
            }
        }
        VenueEvent::PhaseChanged(_)
        | VenueEvent::Indicated(_)
        | VenueEvent::CollarSet(_)
        | VenueEvent::Uncrossed(_)
        | VenueEvent::InstrumentChanged(_)
        | VenueEvent::InstrumentRemoved(_)
        | VenueEvent::EntryBlocked(_)
        | VenueEvent::LiveOrdersMaxSet(_)
        | VenueEvent::LoggedOut(_)
        | VenueEvent::Operated(_)
        | VenueEvent::Declined(_) => {}
    }
}

/// ClOrdID is blank: the participant's own name for the order is not kept until then.
fn broken_trade(
    timestamp: Nanos64,
    key: &OrderKey,
    trade_id: TradeId,
    reason: BustReason,
) -> MessageBuffer {
    let mut message = MessageBuffer::new(&BrokenTrade {
        message_type: BrokenTrade::TYPE,
        timestamp,
        user_ref_num: key.user_ref_num.into(),
        match_number: trade_id.0.into(),
        reason: reason.code(),
        cl_ord_id: *ClientOrderId::BLANK.as_bytes(),
    });
    message.user_ref_idx(key.channel);
    message
}

/// A trade in place of a busted one.
fn past_trade(
    timestamp: Nanos64,
    trade: &PastTrade,
    key: &OrderKey,
    liquidity_flag: u8,
) -> MessageBuffer {
    let mut message = MessageBuffer::with_appendage(&OrderExecuted {
        message_type: OrderExecuted::TYPE,
        timestamp,
        user_ref_num: key.user_ref_num.into(),
        quantity: quantity(trade.quantity),
        price: trade.price.0.into(),
        liquidity_flag,
        match_number: trade.trade_id.0.into(),
    });
    message.user_ref_idx(key.channel);
    message
}

/// The two OUCH codes of a time in force: TimeInForce and CrossType.
pub(super) const fn life(time_in_force: TimeInForce) -> (u8, u8) {
    match time_in_force {
        TimeInForce::AtTheOpen => (TimeInForce::Day.code(), b'O'),
        TimeInForce::AtTheClose => (TimeInForce::Day.code(), b'C'),
        TimeInForce::GoodForAuction => (TimeInForce::Day.code(), b'H'),
        other => (other.code(), CONTINUOUS),
    }
}

/// The liquidity flag of a resting order.
const fn added(displayed: bool) -> u8 {
    if displayed { ADDED } else { ADDED_HIDDEN }
}

fn owner(key: &OrderKey) -> Recipient {
    Recipient::One(key.session_id)
}

fn system_event(timestamp: Nanos64, event_code: u8) -> MessageBuffer {
    MessageBuffer::new(&super::SystemEvent {
        message_type: super::SystemEvent::TYPE,
        timestamp,
        event_code,
    })
}

fn order_accepted(
    timestamp: Nanos64,
    accepted: &Accepted,
    seconds_to_live: u32,
    symbol: Symbol,
) -> MessageBuffer {
    let Accepted { attributes, instructions, .. } = accepted;
    let (time_in_force, cross_type) = life(accepted.time_in_force);
    let mut message = MessageBuffer::with_appendage(&OrderAccepted {
        message_type: OrderAccepted::TYPE,
        timestamp,
        user_ref_num: accepted.key.user_ref_num.into(),
        side: accepted.side.code(),
        quantity: quantity(accepted.quantity.quantity()),
        symbol: *symbol.as_bytes(),
        price: price(accepted.order_type, accepted.price.price()),
        time_in_force,
        display: accepted.display.code(),
        order_reference_number: accepted.order_id.0.into(),
        capacity: attributes.capacity.code(),
        inter_market_sweep_eligibility: NOT_ELIGIBLE,
        cross_type,
        order_state: LIVE,
        cl_ord_id: *attributes.client_order_id.as_bytes(),
    });
    firm_tag(&mut message, attributes.firm);
    minimum_tag(&mut message, &accepted.conditions);
    if attributes.customer_type != CustomerType::SessionDefault {
        message.tag(Tag::CustomerType, &[attributes.customer_type.code()]);
    }
    shown_quantity_tag(&mut message, instructions);
    pricing_tag(&mut message, instructions);
    offset_tag(&mut message, instructions);
    post_only_tag(&mut message, &accepted.conditions);
    shown_range_tag(&mut message, instructions);
    expire_tag(&mut message, seconds_to_live);
    if attributes.group_id != 0 {
        message.tag(Tag::GroupId, &attributes.group_id.to_be_bytes());
    }
    if attributes.shares_located {
        message.tag(Tag::SharesLocated, b"Y");
    }
    message.user_ref_idx(accepted.key.channel);
    self_match_tags(&mut message, &accepted.conditions);
    message
}

/// Of the order's attributes, only the firm may be echoed here; its conditions are echoed.
fn order_replaced(
    timestamp: Nanos64,
    replaced: &Replaced,
    seconds_to_live: u32,
    symbol: Symbol,
) -> MessageBuffer {
    let instructions = &replaced.instructions;
    let (time_in_force, cross_type) = life(replaced.time_in_force);
    let mut message = MessageBuffer::with_appendage(&OrderReplaced {
        message_type: OrderReplaced::TYPE,
        timestamp,
        orig_user_ref_num: replaced.original_user_ref_num.into(),
        user_ref_num: replaced.key.user_ref_num.into(),
        side: replaced.side.code(),
        quantity: quantity(replaced.leaves.quantity()),
        symbol: *symbol.as_bytes(),
        price: price(replaced.order_type, replaced.price.price()),
        time_in_force,
        display: replaced.display.code(),
        order_reference_number: replaced.order_id.0.into(),
        capacity: replaced.capacity.code(),
        inter_market_sweep_eligibility: NOT_ELIGIBLE,
        cross_type,
        order_state: LIVE,
        cl_ord_id: *replaced.client_order_id.as_bytes(),
    });
    firm_tag(&mut message, replaced.firm);
    minimum_tag(&mut message, &replaced.conditions);
    shown_quantity_tag(&mut message, instructions);
    pricing_tag(&mut message, instructions);
    post_only_tag(&mut message, &replaced.conditions);
    expire_tag(&mut message, seconds_to_live);
    message.user_ref_idx(replaced.key.channel);
    self_match_tags(&mut message, &replaced.conditions);
    message
}

/// The whole seconds until an order expires; 0 if it does not expire.
fn seconds_left(timestamp: Timestamp, instructions: &Instructions) -> u32 {
    let now_s = timestamp.0.div_ceil(1_000_000_000);
    let seconds = u64::from(instructions.expires_s).saturating_sub(now_s);
    u32::try_from(seconds).expect("no more than the moment itself")
}

/// A refreshed order is restated, with its new name on the feed; a moved one has another priority.
fn order_restated(timestamp: Nanos64, restated: &Restated) -> MessageBuffer {
    let user_ref_num = restated.key.user_ref_num.into();
    let mut message = match restated.reason {
        RestateReason::Refreshed => {
            let mut message = MessageBuffer::with_appendage(&OrderRestated {
                message_type: OrderRestated::TYPE,
                timestamp,
                user_ref_num,
                reason: restated.reason.code(),
            });
            message.tag(Tag::SecondaryOrdRefNum, &restated.order_id.0.to_be_bytes());
            message.tag(Tag::DisplayQuantity, &quantity(restated.shown).to_bytes());
            message
        }
        RestateReason::Repriced | RestateReason::Ready => {
            MessageBuffer::new(&OrderPriorityUpdate {
                message_type: OrderPriorityUpdate::TYPE,
                timestamp,
                user_ref_num,
                price: price(OrderType::Limit, restated.price),
                display: restated.display.code(),
                order_reference_number: restated.order_id.0.into(),
            })
        }
    };
    message.user_ref_idx(restated.key.channel);
    message
}

fn firm_tag(message: &mut MessageBuffer, firm: Firm) {
    if !firm.is_blank() {
        message.tag(Tag::Firm, firm.as_bytes());
    }
}

fn order_executed(
    timestamp: Nanos64,
    traded: &Traded,
    fill: &Fill,
    liquidity_flag: u8,
) -> MessageBuffer {
    let mut message = MessageBuffer::with_appendage(&OrderExecuted {
        message_type: OrderExecuted::TYPE,
        timestamp,
        user_ref_num: fill.key.user_ref_num.into(),
        quantity: quantity(traded.quantity),
        price: traded.price.0.into(),
        liquidity_flag,
        match_number: traded.trade_id.0.into(),
    });
    message.user_ref_idx(fill.key.channel);
    message
}

fn order_rejected(timestamp: Nanos64, rejected: &Rejected) -> MessageBuffer {
    let mut message = MessageBuffer::new(&super::Rejected {
        message_type: super::Rejected::TYPE,
        timestamp,
        user_ref_num: rejected.key.user_ref_num.into(),
        reason: reject_code(rejected.reason).into(),
        cl_ord_id: *rejected.client_order_id.as_bytes(),
    });
    message.user_ref_idx(rejected.key.channel);
    message
}

fn cancel_held(timestamp: Nanos64, held: &CancelHeld) -> MessageBuffer {
    let user_ref_num = held.key.user_ref_num.into();
    let mut message = match held.is_pending {
        true => MessageBuffer::new(&CancelPending {
            message_type: CancelPending::TYPE,
            timestamp,
            user_ref_num,
        }),
        false => MessageBuffer::new(&CancelReject {
            message_type: CancelReject::TYPE,
            timestamp,
            user_ref_num,
        }),
    };
    message.user_ref_idx(held.key.channel);
    message
}

fn order_canceled(timestamp: Nanos64, canceled: &Canceled) -> MessageBuffer {
    let mut message = MessageBuffer::new(&OrderCanceled {
        message_type: OrderCanceled::TYPE,
        timestamp,
        user_ref_num: canceled.key.user_ref_num.into(),
        quantity: quantity(canceled.quantity),
        reason: cancel_code(canceled.reason),
    });
    message.user_ref_idx(canceled.key.channel);
    message
}

fn aiq_canceled(timestamp: Nanos64, prevented: &SelfMatchPrevented) -> MessageBuffer {
    let mut message = MessageBuffer::new(&AiqCanceled {
        message_type: AiqCanceled::TYPE,
        timestamp,
        user_ref_num: prevented.key.user_ref_num.into(),
        decrement_shares: quantity(prevented.quantity),
        reason: SELF_MATCH,
        quantity_prevented_from_trading: quantity(prevented.prevented),
        execution_price: prevented.price.0.into(),
        liquidity_flag: if prevented.booked { added(prevented.shown.is_known()) } else { REMOVED },
        aiq_strategy: prevented.prevention.code(),
    });
    message.user_ref_idx(prevented.key.channel);
    message
}

fn order_modified(timestamp: Nanos64, modified: &Modified) -> MessageBuffer {
    let mut message = MessageBuffer::new(&OrderModified {
        message_type: OrderModified::TYPE,
        timestamp,
        user_ref_num: modified.key.user_ref_num.into(),
        side: modified.side.code(),
        quantity: quantity(modified.leaves),
    });
    message.user_ref_idx(modified.key.channel);
    message
}

fn mass_cancel_response(timestamp: Nanos64, mass_canceled: &MassCanceled) -> MessageBuffer {
    let mut message = MessageBuffer::with_appendage(&MassCancelResponse {
        message_type: MassCancelResponse::TYPE,
        timestamp,
        user_ref_num: mass_canceled.key.user_ref_num.into(),
        firm: *mass_canceled.firm.as_bytes(),
        symbol: *mass_canceled.symbol.as_bytes(),
    });
    if let Some(group_id) = mass_canceled.group_id {
        message.tag(Tag::GroupId, &group_id.to_be_bytes());
    }
    if let Some(side) = mass_canceled.side {
        message.tag(Tag::Side, &[side.code()]);
    }
    message.user_ref_idx(mass_canceled.key.channel);
    message
}

fn order_entry_response(timestamp: Nanos64, switched: &EntrySwitched) -> MessageBuffer {
    let user_ref_num = switched.key.user_ref_num.into();
    let firm = *switched.firm.as_bytes();
    let mut message = if switched.enabled {
        let message_type = EnableOrderEntryResponse::TYPE;
        let response = EnableOrderEntryResponse { message_type, timestamp, user_ref_num, firm };
        MessageBuffer::with_appendage(&response)
    } else {
        let message_type = DisableOrderEntryResponse::TYPE;
        let response = DisableOrderEntryResponse { message_type, timestamp, user_ref_num, firm };
        MessageBuffer::with_appendage(&response)
    };
    message.user_ref_idx(switched.key.channel);
    message
}
