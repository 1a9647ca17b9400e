//! Commands of the venue, which participants cannot give, and the events that report them.

use crate::{
    AccountId, Firm, InstrumentId, OperatorResult, OrderId, OrderKey, Phase, Price, Quantity,
    SessionId, Side, Symbol, Text, TradeId, order::code_enum,
};

/// A command of the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum VenueCommand {
    /// Moves an instrument, or every instrument that allows it, to a phase.
    SetPhase(SetPhase),
    /// Changes a property of an instrument.
    ConfigureInstrument(ConfigureInstrument),
    /// Cancels an instrument's orders and frees its symbol.
    RemoveInstrument(RemoveInstrument),
    /// Cancels all orders of a scope.
    SupervisoryCancel(Scope),
    /// Blocks new orders of a scope, or removes that block.
    BlockEntry(BlockEntry),
    /// Busts a trade: undoes it.
    BustTrade(BustTrade),
    /// Corrects a trade: undoes it and replaces it by another.
    CorrectTrade(CorrectTrade),
    /// The kill switch: blocks a scope and cancels its orders, or removes that block.
    KillSwitch(BlockEntry),
    /// Changes the maximum number of live orders of a session.
    SetLiveOrdersMax(LiveOrdersMax),
    /// Ends the connection of a session, which may log in again.
    LogOut(SessionId),
}

/// See [`VenueCommand::SetPhase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SetPhase {
    /// The instrument; blank is every instrument whose phase allows the change.
    pub symbol: Symbol,
    /// The new phase.
    pub phase: Phase,
    /// The reason on the feed, such as `T1`; blank is none.
    pub reason: Text<4>,
    /// If the phase is an auction: seconds until it ends. 0 is no end, except for a volatility
    /// auction, which then has its configured duration.
    pub release_s: u32,
}

impl SetPhase {
    /// No reason and no end.
    #[must_use]
    pub const fn new(symbol: Symbol, phase: Phase) -> Self {
        Self { symbol, phase, reason: Text::BLANK, release_s: 0 }
    }
}

/// See [`VenueCommand::ConfigureInstrument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ConfigureInstrument {
    /// The instrument.
    pub symbol: Symbol,
    /// The property and its new value.
    pub change: InstrumentChange,
}

/// A property of an instrument and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum InstrumentChange {
    /// The price increment, in ticks; changes only while no order rests.
    PriceIncrement(Price),
    /// The round lot, in lots.
    RoundLot(Quantity),
    /// The reference price of static band, price collar and auctions, in ticks; 0 is none. Each
    /// auction also sets it.
    ReferencePrice(Price),
    /// Static band: the largest distance of continuous trading from the reference price, in ppm of
    /// it; 0 is none.
    StaticBand(u32),
    /// Dynamic band: the largest distance of continuous trading from the last price, in ppm of it;
    /// 0 is none.
    DynamicBand(u32),
    /// Duration of the volatility auction that starts when a trade would leave a band, in seconds.
    /// With 0 there is no auction: the rest of the order is canceled.
    PauseSeconds(u32),
    /// Price collar: the furthest that a limit may be through the reference price, in ppm of it; 0
    /// is none.
    PriceCollar(u32),
    /// The largest quantity of an order, in lots; 0 is no maximum.
    QuantityMax(Quantity),
    /// The largest notional of an order, in ticks × lots; 0 is no maximum.
    NotionalMax(u64),
    /// The most pegged orders in the instrument; 0 allows none.
    PegsMax(u32),
    /// The most pegged orders of one session in the instrument; 0 allows none.
    SessionPegsMax(u32),
    /// The allocation among the orders at one price.
    Allocation(Allocation),
    /// The time share: the part of a pro-rata allocation that goes to the oldest order first, in
    /// ppm; at most 1,000,000.
    TimeShare(u32),
}

code_enum! {
    /// The allocation among the orders at one price. The codes are stored in journals.
    Allocation {
        /// Price-time: the oldest order first.
        PriceTime = b'T',
        /// Pro rata: in proportion to the lots that each displayed order offers.
        ProRata = b'P',
    }
}

/// See [`VenueCommand::RemoveInstrument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RemoveInstrument {
    /// The instrument.
    pub symbol: Symbol,
}

/// The orders that a command applies to: those that match every given field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Scope {
    /// The session; 0 is any.
    pub session_id: SessionId,
    /// The firm; blank is any.
    pub firm: Firm,
    /// The instrument; blank is any.
    pub symbol: Symbol,
    /// The exact side, if given.
    pub side: Option<Side>,
    /// The group, if given; group 0 is the orders without a group.
    pub group_id: Option<u16>,
    /// The account; the venue's is any.
    pub account_id: AccountId,
}

impl Scope {
    /// All orders.
    pub const ALL: Self = Self {
        session_id: SessionId(0),
        firm: Firm::BLANK,
        symbol: Symbol::BLANK,
        side: None,
        group_id: None,
        account_id: AccountId::VENUE,
    };
}

/// See [`VenueCommand::SetLiveOrdersMax`]. Orders that are already live stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct LiveOrdersMax {
    /// The session.
    pub session_id: SessionId,
    /// The new maximum number of live orders; 0 allows none.
    pub live_orders_max: u32,
}

/// See [`VenueCommand::BlockEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct BlockEntry {
    /// The scope of orders.
    pub scope: Scope,
    /// True blocks the scope, false removes the block of exactly this scope.
    pub blocked: bool,
}

code_enum! {
    /// Why a trade was undone. The codes are those of OUCH 5.0.
    BustReason {
        /// Clearly erroneous.
        Erroneous = b'E',
        /// Both sides agreed.
        Consent = b'C',
        /// The venue decided.
        Supervisory = b'S',
        /// Another market undid it.
        External = b'X',
    }
}

/// See [`VenueCommand::BustTrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BustTrade {
    /// The trade.
    pub trade_id: TradeId,
    /// The reason.
    pub reason: BustReason,
}

/// See [`VenueCommand::CorrectTrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CorrectTrade {
    /// The trade.
    pub trade_id: TradeId,
    /// The corrected price, in ticks.
    pub price: Price,
    /// The corrected quantity, in lots; at least 1, at most that of the trade.
    pub quantity: Quantity,
    /// The reason.
    pub reason: BustReason,
}

/// An event of the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum VenueEvent {
    /// An instrument changed its phase.
    PhaseChanged(PhaseChanged),
    /// The indication: price and lots of an auction if it ended now.
    Indicated(Indicated),
    /// The price range in which a volatility auction may end.
    CollarSet(CollarSet),
    /// An auction ended; the events of its trades came before.
    Uncrossed(Uncrossed),
    /// A property of an instrument changed.
    InstrumentChanged(InstrumentChanged),
    /// An instrument was removed; the `Canceled` of its orders came before.
    InstrumentRemoved(InstrumentId),
    /// A scope was blocked, or its block removed.
    EntryBlocked(BlockEntry),
    /// A trade was busted.
    TradeBusted(TradeBusted),
    /// A trade was corrected.
    TradeCorrected(TradeCorrected),
    /// The maximum number of live orders of a session changed.
    LiveOrdersMaxSet(LiveOrdersMax),
    /// The connection of a session must end.
    LoggedOut(SessionId),
    /// A command of an operator was carried out or declined.
    Operated(OperatorResult),
    /// A command of the venue was not carried out.
    Declined(VenueDecline),
}

code_enum! {
    /// Why an instrument's phase changed.
    PhaseCause {
        /// By a command of the venue.
        Command = b'C',
        /// A trade would have left the price bands.
        Band = b'B',
        /// The time of an auction was over.
        Time = b'T',
    }
}

/// See [`VenueEvent::PhaseChanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct PhaseChanged {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The old phase.
    pub from: Phase,
    /// The new phase.
    pub to: Phase,
    /// The reason.
    pub cause: PhaseCause,
    /// The venue's text for the feed; blank is none.
    pub reason: Text<4>,
}

/// See [`VenueEvent::Indicated`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Indication {
    /// The auction price, in ticks; [`Price::ZERO`] if nothing would trade.
    pub price: Price,
    /// Lots that would trade.
    pub paired: Quantity,
    /// The imbalance: lots left over at that price, or of all orders where nothing would trade.
    pub imbalance: Quantity,
    /// True if the imbalance is on the buy side.
    pub imbalance_is_buy: bool,
}

/// See [`VenueEvent::Indicated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Indicated {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The auction.
    pub phase: Phase,
    /// The indication.
    pub indication: Indication,
    /// The reference price, in ticks; [`Price::ZERO`] is none.
    pub reference_price: Price,
}

/// See [`VenueEvent::CollarSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct CollarSet {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The reference price of the collar, in ticks.
    pub reference_price: Price,
    /// The lowest price at which the auction ends automatically, in ticks.
    pub low: Price,
    /// The highest such price, in ticks.
    pub high: Price,
    /// How often the collar was widened.
    pub extension: u32,
}

/// See [`VenueEvent::Uncrossed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Uncrossed {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The auction.
    pub phase: Phase,
    /// Number of the whole auction trade, from the same series as trade ids.
    pub trade_id: TradeId,
    /// The price of all its trades, in ticks; [`Price::ZERO`] if nothing traded.
    pub price: Price,
    /// Lots traded in total; may be 0.
    pub quantity: Quantity,
}

/// See [`VenueEvent::InstrumentChanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct InstrumentChanged {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The property and its new value.
    pub change: InstrumentChange,
}

/// An order's part in a past trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Party {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The venue's name for the order.
    pub order_id: OrderId,
}

/// A past trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct PastTrade {
    /// Its number.
    pub trade_id: TradeId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// True if the taker bought.
    pub taker_is_buy: bool,
    /// Price in ticks.
    pub price: Price,
    /// Quantity in lots.
    pub quantity: Quantity,
    /// The maker: the order that rested, or that rested longer.
    pub maker: Party,
    /// The taker.
    pub taker: Party,
}

/// See [`VenueEvent::TradeBusted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TradeBusted {
    /// The trade before it was undone.
    pub trade: PastTrade,
    /// The reason.
    pub reason: BustReason,
}

/// See [`VenueEvent::TradeCorrected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TradeCorrected {
    /// The number of the trade that was undone.
    pub busted: TradeId,
    /// The corrected trade.
    pub trade: PastTrade,
    /// The reason.
    pub reason: BustReason,
}

code_enum! {
    /// Why a command of the venue was declined.
    VenueDeclineReason {
        /// Unknown instrument.
        UnknownInstrument = 1,
        /// The instrument's phase does not allow the change.
        PhaseNotNext = 2,
        /// The property does not allow this value.
        InvalidValue = 3,
        /// The change concerns live orders.
        OrdersLive = 4,
        /// Unknown trade, one that was undone already, or one that is too old.
        UnknownTrade = 5,
        /// No such block.
        UnknownBlock = 6,
        /// The maximum number of blocks is reached, or this block exists.
        TooManyBlocks = 7,
        /// Unknown session.
        UnknownSession = 8,
        /// Unknown account.
        UnknownAccount = 9,
        /// A party that must give back has too little available.
        InsufficientBalance = 41,
        /// The trade was settled by other terms, accounts or fees than hold now.
        TermsChanged = 42,
    }
}

/// See [`VenueEvent::Declined`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct VenueDecline {
    /// The reason.
    pub reason: VenueDeclineReason,
}
