//! The venue's own commands, which no participant can give, and what is told of them.

use crate::{
    AccountId, Firm, InstrumentId, OperatorResult, OrderId, OrderKey, Phase, Price, Quantity,
    SessionId, Side, Symbol, Text, TradeId, order::code_enum,
};

/// What the venue itself may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VenueCommand {
    /// An instrument, or each that can, goes on to a phase.
    SetPhase(SetPhase),
    /// Changes a property of an instrument.
    ConfigureInstrument(ConfigureInstrument),
    /// Cancels an instrument's orders and gives its symbol back.
    RemoveInstrument(RemoveInstrument),
    /// Cancels all orders of a scope.
    SupervisoryCancel(Scope),
    /// Forbids new orders of a scope, or allows them again.
    BlockEntry(BlockEntry),
    /// Undoes a trade.
    BreakTrade(BreakTrade),
    /// Undoes a trade and puts another in its place.
    CorrectTrade(CorrectTrade),
    /// The kill switch: blocks a scope and cancels its orders, or removes that block.
    KillSwitch(BlockEntry),
    /// Changes how many live orders a session may have.
    SetLiveOrdersMax(LiveOrdersMax),
    /// Ends the connection of a session, which may log in again.
    LogOut(SessionId),
}

/// See [`VenueCommand::SetPhase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPhase {
    /// The instrument; blank is every instrument that may go there from where it is.
    pub symbol: Symbol,
    /// Where it goes.
    pub phase: Phase,
    /// The reason that the feed gives, such as `T1`; blank is none.
    pub reason: Text<4>,
    /// The phase, an auction, ends by itself after so many seconds; 0 is not, but for the pause of a
    /// volatility auction.
    pub release_s: u32,
}

impl SetPhase {
    /// Without a reason, and without an end.
    #[must_use]
    pub const fn new(symbol: Symbol, phase: Phase) -> Self {
        Self { symbol, phase, reason: Text::BLANK, release_s: 0 }
    }
}

/// See [`VenueCommand::ConfigureInstrument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigureInstrument {
    /// The instrument.
    pub symbol: Symbol,
    /// What is new about it.
    pub change: InstrumentChange,
}

/// A property of an instrument and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentChange {
    /// Limit prices must be a multiple of it, in ticks; only while no order rests.
    PriceIncrement(Price),
    /// The round lot, in lots.
    RoundLot(Quantity),
    /// What static band, price collar and auctions refer to, in ticks; 0 is none. Each auction
    /// sets it too.
    ReferencePrice(Price),
    /// So far from the reference price continuous trading goes, in millionths of it; 0 is as far as
    /// it likes.
    StaticBand(u32),
    /// So far from the last price continuous trading goes, in millionths of it; 0 is as far as it
    /// likes.
    DynamicBand(u32),
    /// How long the volatility auction lasts that comes when trading would go further, in seconds;
    /// 0 is none, and what would trade further is canceled.
    PauseSeconds(u32),
    /// So far through the reference price a limit may be, in millionths of it; 0 is any.
    PriceCollar(u32),
    /// The most lots of an order; 0 is any.
    QuantityMax(Quantity),
    /// The most an order may cost, in ticks times lots; 0 is any.
    NotionalMax(u64),
    /// How what trades is shared among the orders of a price.
    Allocation(Allocation),
    /// Where that is pro rata, how much goes to the oldest first all the same, in millionths; at
    /// most 1,000,000.
    TimeShare(u32),
}

code_enum! {
    /// How what trades is shared among the orders of a price. The codes are stored in journals.
    Allocation {
        /// The order that has rested longest first.
        PriceTime = b'T',
        /// In proportion to what each displayed order offers.
        ProRata = b'P',
    }
}

/// See [`VenueCommand::RemoveInstrument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveInstrument {
    /// The instrument.
    pub symbol: Symbol,
}

/// Which orders are meant: those for which everything holds that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// Of this session; 0 is any.
    pub session_id: SessionId,
    /// For this firm; blank is any.
    pub firm: Firm,
    /// In this instrument; blank is any.
    pub symbol: Symbol,
    /// Of exactly this side.
    pub side: Option<Side>,
    /// Of this group; group 0 is the orders without one.
    pub group_id: Option<u16>,
    /// Of this account; the venue's is any.
    pub account_id: AccountId,
}

impl Scope {
    /// Everything.
    pub const ALL: Self = Self {
        session_id: SessionId(0),
        firm: Firm::BLANK,
        symbol: Symbol::BLANK,
        side: None,
        group_id: None,
        account_id: AccountId::VENUE,
    };
}

/// See [`VenueCommand::SetLiveOrdersMax`]. Orders that are live already stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOrdersMax {
    /// The session.
    pub session_id: SessionId,
    /// How many live orders it may have from now on; 0 is none.
    pub live_orders_max: u32,
}

/// See [`VenueCommand::BlockEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Whose orders, and which.
    pub scope: Scope,
    /// True to forbid, false to allow what exactly this scope forbade.
    pub blocked: bool,
}

code_enum! {
    /// Why a trade was undone. The codes are those of OUCH 5.0.
    BreakReason {
        /// It was clearly a mistake.
        Erroneous = b'E',
        /// Both sides agreed.
        Consent = b'C',
        /// The venue decided.
        Supervisory = b'S',
        /// Another market did.
        External = b'X',
    }
}

/// See [`VenueCommand::BreakTrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakTrade {
    /// The trade.
    pub trade_id: TradeId,
    /// Why.
    pub reason: BreakReason,
}

/// See [`VenueCommand::CorrectTrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrectTrade {
    /// The trade.
    pub trade_id: TradeId,
    /// What it should have been at, in ticks.
    pub price: Price,
    /// How many lots it should have been; at least 1, at most what it was.
    pub quantity: Quantity,
    /// Why.
    pub reason: BreakReason,
}

/// What is told of the venue's own doings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VenueEvent {
    /// An instrument went on to another phase.
    PhaseChanged(PhaseChanged),
    /// What an auction would trade if it ended now.
    Indicated(Indicated),
    /// Between these prices a volatility auction may end.
    CollarSet(CollarSet),
    /// An auction is over; its trades were told before.
    Uncrossed(Uncrossed),
    /// An instrument has a new property.
    InstrumentChanged(InstrumentChanged),
    /// An instrument is no more; its orders were canceled before.
    InstrumentRemoved(InstrumentId),
    /// New orders were forbidden or allowed.
    EntryBlocked(BlockEntry),
    /// A trade was undone.
    TradeBroken(TradeBroken),
    /// A trade was undone, and this one is in its place.
    TradeCorrected(TradeCorrected),
    /// A session may have another number of live orders.
    LiveOrdersMaxSet(LiveOrdersMax),
    /// The connection of a session is to end.
    LoggedOut(SessionId),
    /// A command of an operator was carried out or declined.
    Operated(OperatorResult),
    /// A command of the venue was not carried out.
    Declined(VenueDecline),
}

code_enum! {
    /// Why an instrument's phase changed.
    PhaseCause {
        /// The venue asked.
        Command = b'C',
        /// The price would have moved too far.
        Band = b'B',
        /// The time of a volatility auction was over.
        Time = b'T',
    }
}

/// See [`VenueEvent::PhaseChanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseChanged {
    /// Which instrument's.
    pub instrument_id: InstrumentId,
    /// Where it was.
    pub from: Phase,
    /// Where it is.
    pub to: Phase,
    /// Why.
    pub cause: PhaseCause,
    /// The venue's own words for it, as the feed gives them; blank is none.
    pub reason: Text<4>,
}

/// See [`VenueEvent::Indicated`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indication {
    /// The auction price; [`Price::ZERO`] if nothing would trade.
    pub price: Price,
    /// What would trade, in lots.
    pub paired: Quantity,
    /// What would be left over at that price, in lots; where nothing would trade, of all orders.
    pub imbalance: Quantity,
    /// True if what is left over would buy.
    pub imbalance_is_buy: bool,
}

/// See [`VenueEvent::Indicated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indicated {
    /// Of which instrument.
    pub instrument_id: InstrumentId,
    /// Which auction.
    pub phase: Phase,
    /// What it would come to.
    pub indication: Indication,
    /// The reference price; [`Price::ZERO`] is none.
    pub reference_price: Price,
}

/// See [`VenueEvent::CollarSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollarSet {
    /// Of which instrument.
    pub instrument_id: InstrumentId,
    /// From which it is reckoned.
    pub reference_price: Price,
    /// The lowest price at which the auction ends by itself.
    pub low: Price,
    /// The highest.
    pub high: Price,
    /// How often it was widened.
    pub extension: u32,
}

/// See [`VenueEvent::Uncrossed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncrossed {
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Which auction.
    pub phase: Phase,
    /// The number of the whole, from the series of the trades.
    pub trade_id: TradeId,
    /// At which all of it traded; [`Price::ZERO`] if nothing did.
    pub price: Price,
    /// Lots traded in all; may be 0.
    pub quantity: Quantity,
}

/// See [`VenueEvent::InstrumentChanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentChanged {
    /// Which instrument.
    pub instrument_id: InstrumentId,
    /// What is new about it.
    pub change: InstrumentChange,
}

/// An order's part in a trade that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange names it.
    pub order_id: OrderId,
}

/// A trade that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastTrade {
    /// Its number.
    pub trade_id: TradeId,
    /// What was traded.
    pub instrument_id: InstrumentId,
    /// True if the taker bought.
    pub taker_is_buy: bool,
    /// At which price.
    pub price: Price,
    /// How many lots.
    pub quantity: Quantity,
    /// The order that rested, or that rested longer.
    pub maker: Party,
    /// The other one.
    pub taker: Party,
}

/// See [`VenueEvent::TradeBroken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeBroken {
    /// The trade, as it was.
    pub trade: PastTrade,
    /// Why.
    pub reason: BreakReason,
}

/// See [`VenueEvent::TradeCorrected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeCorrected {
    /// The number of the trade that was undone.
    pub broken: TradeId,
    /// The one in its place.
    pub trade: PastTrade,
    /// Why.
    pub reason: BreakReason,
}

code_enum! {
    /// Why a command of the venue was not carried out.
    VenueDeclineReason {
        /// No such instrument.
        UnknownInstrument = 1,
        /// An instrument does not go from where it is to that phase.
        PhaseNotNext = 2,
        /// A value that the property cannot have.
        InvalidValue = 3,
        /// Orders that it concerns are live.
        OrdersLive = 4,
        /// No such trade, one that was undone, or one that is too old.
        UnknownTrade = 5,
        /// No such block.
        UnknownBlock = 6,
        /// There are as many blocks as there may be, or that one is there.
        TooManyBlocks = 7,
        /// No such session.
        UnknownSession = 8,
        /// No such account.
        UnknownAccount = 9,
        /// The trade was paid for and delivered before such trades could be undone.
        PaidFor = 40,
        /// Who has to give back what the trade moved has too little available.
        InsufficientBalance = 41,
        /// The trade was reckoned by other terms, accounts or fees than hold now.
        TermsChanged = 42,
    }
}

/// See [`VenueEvent::Declined`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VenueDecline {
    /// Why.
    pub reason: VenueDeclineReason,
}
