//! Events: the results of commands, for replies, market data and the ledger.
//!
//! Invariant: an event contains all that its encoders need, and refers to no earlier event. With
//! its cause it fits two cache lines.

use crate::{
    Capacity, ClientOrderId, CommandKind, Conditions, Display, Firm, Instructions, Instrument,
    InstrumentId, LedgerEntry, Lots, MoneyEvent, Note, OrderAttributes, OrderId, OrderKey,
    OrderType, Phase, Price, Quantity, RejectReason, SelfMatchPrevention, Sequence, SessionId,
    Side, Symbol, Text, Ticks, TimeInForce, Timestamp, TradeId, VenueEvent, order::code_enum,
};

/// An event with the input that caused it: an element of the output ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Output {
    /// Sequence of the input that caused the event.
    pub cause: Sequence,
    /// Time of that input.
    pub timestamp: Timestamp,
    /// The event.
    pub event: Event,
}

const _: () = assert!(size_of::<Output>() <= 128, "an output fits two cache lines");

/// A fact that the engine states, in the order in which it happened.
///
/// Order events go to the owner and, where the order was in the book, to the feed:
/// `Accepted` (owner) · `Booked` (feed, if displayed) · `Traded` (both owners, feed) · `Canceled`, `Modified`,
/// `Replaced` (owner, and feed where it knew the order).
///
/// The kind is the first byte, so that a reader that skips an event loads the front of it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[repr(u8)]
pub enum Event {
    /// The next part of the trading day began.
    System(SystemEvent),
    /// An instrument was added.
    InstrumentAdded(Instrument),
    /// A session was added.
    SessionAdded(SessionAdded),
    /// An order was accepted; the first event of an order.
    Accepted(Accepted),
    /// An order was rejected; its number is used up.
    Rejected(Rejected),
    /// An order was replaced, or its replacement was accepted and trades first.
    Replaced(Replaced),
    /// An order, or the open rest of an incoming one, now rests in the book.
    Booked(Booked),
    /// An incoming order traded with a resting one, or two resting orders traded in an auction.
    Traded(Traded),
    /// Self-match prevention removed lots from one of two orders instead of a trade.
    SelfMatchPrevented(SelfMatchPrevented),
    /// An order was reduced or canceled.
    Canceled(Canceled),
    /// A modify changed an order's kind of sell, or reduced it.
    Modified(Modified),
    /// The auction of a resting order trades in steps. A cancel takes effect after the auction; a request
    /// that would leave lots has no effect.
    CancelHeld(CancelHeld),
    /// The market traded at the trigger of a contingent order, which now enters the book.
    Triggered(Triggered),
    /// The parent of a child order is done; the child is released.
    Released(Released),
    /// The venue gave an order a new place in the book, and a new order id.
    Restated(Restated),
    /// A mass cancel was accepted; the `Canceled` of each order follow.
    MassCanceled(MassCanceled),
    /// Order entry was disabled or enabled.
    EntrySwitched(EntrySwitched),
    /// The answer to an account query.
    AccountQueried(AccountQueried),
    /// A note of a session protocol has its place in the log.
    Noted(Note),
    /// A movement of money.
    Ledger(LedgerEntry),
    /// Another event about money.
    Money(MoneyEvent),
    /// An event of the venue itself.
    Venue(VenueEvent),
}

code_enum! {
    /// The parts of the day. The codes are those of the ITCH 5.0 System Event.
    SystemEvent {
        /// First message of the day.
        StartOfMessages = b'O',
        /// Order entry opens.
        StartOfSystemHours = b'S',
        /// Continuous trading opens.
        StartOfMarketHours = b'Q',
        /// Continuous trading closes.
        EndOfMarketHours = b'M',
        /// Order entry closes.
        EndOfSystemHours = b'E',
        /// Last message of the day.
        EndOfMessages = b'C',
    }
}

/// See [`Event::SessionAdded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SessionAdded {
    /// Number of the session, from 1.
    pub session_id: SessionId,
    /// Login name.
    pub username: Text<6>,
    /// The session's firm.
    pub firm: Firm,
    /// True if order entry was open at that moment: the session's stream then begins with the start
    /// of the day.
    pub system_hours: bool,
}

/// Lots of a resting order that the feed shows, before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Shown {
    /// Shown before; 0 if the order is not on the feed.
    pub before: Quantity,
    /// Shown after; 0 if the order leaves the feed.
    pub after: Quantity,
}

impl Shown {
    /// The order is not on the feed.
    pub const NONE: Self = Self { before: Quantity::ZERO, after: Quantity::ZERO };

    /// True if the order was on the feed.
    #[must_use]
    pub fn is_known(self) -> bool {
        !self.before.is_zero()
    }

    /// Lots that the feed removes; 0 if nothing changes there.
    #[must_use]
    pub fn removed(self) -> Quantity {
        self.before.saturating_sub(self.after)
    }
}

/// See [`Event::Accepted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Accepted {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Buy, or one of the kinds of sell.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Display.
    pub display: Display,
    /// Quantity in lots; all of it is open.
    pub quantity: Lots,
    /// Limit in ticks; 0 for a market order.
    pub price: Ticks,
    /// Attributes, as entered.
    pub attributes: OrderAttributes,
    /// Conditions, as entered.
    pub conditions: Conditions,
    /// Instructions, as entered; [`Instructions::NONE`] for most orders.
    pub instructions: Instructions,
}

/// See [`Event::Rejected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Rejected {
    /// The number that was used up.
    pub key: OrderKey,
    /// The first check that failed.
    pub reason: RejectReason,
    /// The participant's client order id.
    pub client_order_id: ClientOrderId,
    /// The kind of command that was rejected.
    pub cause: CommandKind,
}

/// See [`Event::Replaced`].
///
/// It is aligned to 4 bytes only, so that an [`Output`] keeps its two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[repr(Rust, packed(4))]
pub struct Replaced {
    /// The owner's name for the replacement.
    pub key: OrderKey,
    /// The number of the replaced order, on the same session and channel.
    pub original_user_ref_num: u32,
    /// The order id of the original.
    pub original_order_id: OrderId,
    /// The order id of the replacement.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Buy, or one of the kinds of sell.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// Time in force of the replacement.
    pub time_in_force: TimeInForce,
    /// Display of the replacement.
    pub display: Display,
    /// True if the replacement rests with these terms at once, so that the feed sends Replace.
    /// False if the original leaves the book first; `Traded` and `Booked` may then follow.
    pub in_place: bool,
    /// True if the original was on the feed.
    pub original_displayed: bool,
    /// Open lots of the replacement: the quantity of the chain less its executed lots.
    pub leaves: Lots,
    /// Limit in ticks; 0 for a market order.
    pub price: Ticks,
    /// The client order id of the replacement.
    pub client_order_id: ClientOrderId,
    /// The firm it was entered for; blank is the session's own firm.
    pub firm: Firm,
    /// The capacity in which the firm acts.
    pub capacity: Capacity,
    /// Conditions: those that the replace named, and the others of the original.
    pub conditions: Conditions,
    /// Instructions: those that the replace named, or those of the original.
    pub instructions: Instructions,
}

impl Replaced {
    /// Lots of the replacement that the feed shows if it rests at once; else 0.
    ///
    /// A replacement that rests in place is displayed, and is not for an auction only.
    #[must_use]
    pub fn shown(&self) -> Lots {
        match (self.in_place, self.instructions.shown_quantity) {
            (false, _) => Lots::ZERO,
            (true, part) if part.is_zero() => self.leaves,
            (true, part) => part.min(self.leaves),
        }
    }
}

/// See [`Event::Booked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Booked {
    /// The order.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Side of the book.
    pub side: Side,
    /// Price in ticks.
    pub price: Price,
    /// Open lots.
    pub leaves: Quantity,
    /// Lots that the feed shows; 0 if the order is not on the feed.
    pub shown: Quantity,
    /// The firm that the feed shows; blank if unattributed.
    pub attribution: Firm,
}

/// A trade as one of its two orders sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Fill {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// Open lots after the trade; 0 if the order is filled.
    pub leaves: Quantity,
}

/// See [`Event::Traded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Traded {
    /// Number of the trade.
    pub trade_id: TradeId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Side of the taker.
    pub taker_side: Side,
    /// The maker's price; for a trade of an auction, the auction price.
    pub price: Price,
    /// Lots traded; at least 1.
    pub quantity: Quantity,
    /// Lots of the maker that the feed showed before the trade; 0 if it was not on the feed, or traded lots
    /// that were not shown.
    pub maker_shown: Quantity,
    /// The resting order, which adds liquidity.
    pub maker: Fill,
    /// The incoming order, which removes liquidity.
    pub taker: Fill,
    /// The auction that the trade belongs to. Both orders rested then; the maker rested longer.
    pub auction: Option<AuctionTrade>,
}

/// A trade in an auction, at the auction's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AuctionTrade {
    /// The auction.
    pub phase: Phase,
    /// Lots of the taker that the feed showed before the trade; 0 if it was not on the feed.
    pub taker_shown: Quantity,
}

/// See [`Event::SelfMatchPrevented`]. Where both orders lose lots there are two events, the resting
/// order's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SelfMatchPrevented {
    /// The owner's name for the order that loses lots.
    pub key: OrderKey,
    /// The venue's name for that order.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Lots removed now; at least 1.
    pub quantity: Quantity,
    /// Open lots after the event; 0 if the order is done.
    pub leaves: Quantity,
    /// Lots that would have traded; at least 1, at most `quantity`.
    pub prevented: Quantity,
    /// The price of the prevented trade, in ticks.
    pub price: Price,
    /// True for the resting order; false for the incoming one.
    pub booked: bool,
    /// The lots of the order that the feed shows.
    pub shown: Shown,
    /// The strategy applied; neither off nor the session's default.
    pub prevention: SelfMatchPrevention,
}

code_enum! {
    /// Why an order was reduced or canceled. The codes are those of OUCH 5.0, but for
    /// [`Linked`](Self::Linked) and [`Unpaid`](Self::Unpaid).
    CancelReason {
        /// The owner requested it.
        User = b'U',
        /// The open rest of an immediate-or-cancel or market order, or all of an order whose
        /// minimum could not trade.
        ImmediateOrCancel = b'I',
        /// A post-only order would have traded when it came in.
        PostOnly = b'G',
        /// The venue canceled it.
        Supervisory = b'S',
        /// The next trade would have been outside the price bands.
        Collar = b'K',
        /// Its time in force ended: the expiry time of a GTT order, or its auction.
        Expired = b'T',
        /// The day of a day order is over.
        EndOfDay = b'E',
        /// A linked order executed or was triggered, or the parent executed less than the child's
        /// quantity.
        Linked = b'L',
        /// A contingent order without a limit came in, and its account had too little available to
        /// pay.
        Unpaid = b'M',
    }
}

/// See [`Event::Canceled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Canceled {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Lots removed now; at least 1.
    pub quantity: Quantity,
    /// Open lots after the event; 0 if the order is done.
    pub leaves: Quantity,
    /// True if it rested in the book.
    pub booked: bool,
    /// The lots of the order that the feed shows.
    pub shown: Shown,
    /// The reason.
    pub reason: CancelReason,
    /// The kind of the command that caused it. The reason of a replace that cancels its original,
    /// and of a mass cancel, is [`CancelReason::User`] as for a cancel.
    pub cause: CommandKind,
}

/// See [`Event::Modified`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Modified {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// The venue's name for the order.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The new side.
    pub side: Side,
    /// Lots removed by the modify; may be 0.
    pub quantity: Quantity,
    /// Open lots after the event; 0 if the order is done.
    pub leaves: Quantity,
    /// The lots of the order that the feed shows.
    pub shown: Shown,
}

/// See [`Event::Triggered`]. Its trades, or its `Booked`, follow as for a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Triggered {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// Its order id before the event.
    pub order_id_before: OrderId,
    /// Its new order id.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The trigger that was reached, in ticks.
    pub trigger: Price,
    /// The limit with which it enters the book, in ticks; [`Price::ZERO`] if it has none.
    pub price: Price,
}

/// See [`Event::Released`]. An order with a trigger now waits for that; any other enters the book,
/// and its trades or its `Booked` follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Released {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// Its order id before the event.
    pub order_id_before: OrderId,
    /// Its new order id.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Number of the parent, on the same session and channel.
    pub parent: u32,
    /// Open lots: at most the lots that the parent executed.
    pub leaves: Quantity,
}

code_enum! {
    /// Why an order was restated.
    RestateReason {
        /// The shown part of an iceberg was filled, and the next part is shown.
        Refreshed = b'R',
        /// Its price changed: it is pegged, or its price slid.
        Repriced = b'P',
        /// Its minimum quantity can trade now; it enters the book.
        Ready = b'Q',
    }
}

/// See [`Event::Restated`]. A refreshed order is now behind all others at its price. A repriced or
/// ready order is outside the book; its trades or its `Booked` follow as for a new order, unless it
/// has no price and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Restated {
    /// The owner's name for the order.
    pub key: OrderKey,
    /// Its order id before the event.
    pub order_id_before: OrderId,
    /// Its new order id.
    pub order_id: OrderId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Buy, or a kind of sell.
    pub side: Side,
    /// The reason.
    pub reason: RestateReason,
    /// Its new price, in ticks; [`Price::ZERO`] if it has no price and waits.
    pub price: Price,
    /// Open lots.
    pub leaves: Quantity,
    /// Lots that the feed shows; 0 if the order is not on the feed.
    pub shown: Quantity,
    /// Display.
    pub display: Display,
    /// The firm that the feed shows; blank if unattributed.
    pub attribution: Firm,
}

/// See [`Event::MassCanceled`]; echoes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct MassCanceled {
    /// Number of the request.
    pub key: OrderKey,
    /// Firm, as in the request.
    pub firm: Firm,
    /// Instrument, as in the request; blank is all.
    pub symbol: Symbol,
    /// Side, as in the request.
    pub side: Option<Side>,
    /// Group, as in the request.
    pub group_id: Option<u16>,
}

/// See [`Event::EntrySwitched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct EntrySwitched {
    /// Number of the request.
    pub key: OrderKey,
    /// Firm, as in the request.
    pub firm: Firm,
    /// True if order entry is enabled now.
    pub enabled: bool,
}

/// See [`Event::CancelHeld`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct CancelHeld {
    /// The order.
    pub key: OrderKey,
    /// True if the order is canceled after the auction; false if the request has no effect.
    pub is_pending: bool,
}

/// See [`Event::AccountQueried`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AccountQueried {
    /// The session that asked.
    pub session_id: SessionId,
    /// The channel.
    pub channel: u8,
    /// The lowest number that the channel accepts.
    pub next_user_ref_num: u32,
}

impl Event {
    /// The order or request that an event is about, for events with one owner; `None` for all others.
    #[must_use]
    pub const fn key(&self) -> Option<&OrderKey> {
        match self {
            Self::Accepted(Accepted { key, .. })
            | Self::Rejected(Rejected { key, .. })
            | Self::Replaced(Replaced { key, .. })
            | Self::SelfMatchPrevented(SelfMatchPrevented { key, .. })
            | Self::Canceled(Canceled { key, .. })
            | Self::Modified(Modified { key, .. })
            | Self::CancelHeld(CancelHeld { key, .. })
            | Self::Triggered(Triggered { key, .. })
            | Self::Released(Released { key, .. })
            | Self::Restated(Restated { key, .. })
            | Self::MassCanceled(MassCanceled { key, .. })
            | Self::EntrySwitched(EntrySwitched { key, .. }) => Some(key),
            _ => None,
        }
    }

    /// The session that gets a reply, for events with one owner; `None` for a trade (it has two),
    /// for events that only the feed publishes, and for those that go to every session.
    #[must_use]
    pub const fn session_id(&self) -> Option<SessionId> {
        match self {
            Self::SessionAdded(SessionAdded { session_id, .. })
            | Self::AccountQueried(AccountQueried { session_id, .. })
            | Self::Noted(Note { session_id, .. }) => Some(*session_id),
            _ => match self.key() {
                Some(key) => Some(key.session_id),
                None => None,
            },
        }
    }
}
