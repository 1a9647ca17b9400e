//! Events: what the engine did with a command, for replies, market data and ledger.
//!
//! Invariant: an event has all that its encoders need; none refers to an event before it. With its
//! cause it fits two cache lines.

use crate::{
    Capacity, ClientOrderId, CommandKind, Conditions, Display, Firm, Instructions, Instrument,
    InstrumentId, LedgerEntry, Lots, MoneyEvent, OrderAttributes, OrderId, OrderKey, OrderType,
    Phase, Price, Quantity, RejectReason, SelfMatchPrevention, Sequence, SessionId, Side, Symbol,
    Text, Ticks, TimeInForce, Timestamp, TradeId, VenueEvent, order::code_enum,
};

/// An event with the input that caused it: what the output ring carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Sequence of the input.
    pub cause: Sequence,
    /// Time of the input.
    pub timestamp: Timestamp,
    /// What happened.
    pub event: Event,
}

const _: () = assert!(size_of::<Output>() <= 128, "an output fits two cache lines");

/// Everything that the engine can do, in the order in which it happened.
///
/// Order events go to the owner and, where the order was in the book, to the feed:
/// `Accepted` (owner) · `Booked` (feed, if displayed) · `Traded` (both owners, feed) · `Canceled`, `Modified`,
/// `Replaced` (owner, and feed where it knew the order).
///
/// The kind is the first byte, so that a reader that skips an event loads the front of it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// The day went on to its next part.
    System(SystemEvent),
    /// An instrument was added.
    InstrumentAdded(Instrument),
    /// A session was added.
    SessionAdded(SessionAdded),
    /// An order was accepted; the first event of an order.
    Accepted(Accepted),
    /// An order was not accepted; its number is used up.
    Rejected(Rejected),
    /// An order was replaced by another, or its replacement was accepted to trade first.
    Replaced(Replaced),
    /// An order, or what is left of an incoming one, rests in the book now.
    Booked(Booked),
    /// An incoming order traded with a resting one, or in an auction two resting ones.
    Traded(Traded),
    /// An incoming order met one of its own, and lots were taken from one of the two instead.
    SelfMatchPrevented(SelfMatchPrevented),
    /// An order was reduced or canceled.
    Canceled(Canceled),
    /// An order's kind of sell was changed, or it was reduced by a modify.
    Modified(Modified),
    /// The market traded at the trigger of an order that waited for it; it enters the book.
    Triggered(Triggered),
    /// The order that another one waited for is done; that one waits for it no more.
    Released(Released),
    /// The exchange gave an order another place, and another order id with it.
    Restated(Restated),
    /// A mass cancel was taken up; the `Canceled` of each order follow.
    MassCanceled(MassCanceled),
    /// Order entry was forbidden or allowed.
    EntrySwitched(EntrySwitched),
    /// The answer to an account query.
    AccountQueried(AccountQueried),
    /// An amount moved.
    Ledger(LedgerEntry),
    /// Something else about money.
    Money(MoneyEvent),
    /// Something the venue itself did.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionAdded {
    /// Its number, from 1.
    pub session_id: SessionId,
    /// The name it logs in with.
    pub username: Text<6>,
    /// The firm it belongs to.
    pub firm: Firm,
    /// True if order entry was open at that moment, so that its stream begins with the start of
    /// the day.
    pub system_hours: bool,
}

/// How many lots of a resting order the feed shows, before and after something happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Shown so far; 0 if the feed does not know the order.
    pub before: Lots,
    /// Shown from now on; 0 if the order leaves the feed.
    pub after: Lots,
}

impl Shown {
    /// The feed does not know the order.
    pub const NONE: Self = Self { before: Lots::ZERO, after: Lots::ZERO };

    /// True if the feed knew the order.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.before != Lots::ZERO
    }

    /// Lots that the feed must take away; 0 if there is nothing to tell.
    #[must_use]
    pub fn removed(self) -> Quantity {
        self.before.quantity().saturating_sub(self.after.quantity())
    }
}

/// See [`Event::Accepted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// As its owner names it.
    pub key: OrderKey,
    /// As the exchange names it.
    pub order_id: OrderId,
    /// What it trades.
    pub instrument_id: InstrumentId,
    /// Buy, or one of the kinds of sell.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// How it is shown.
    pub display: Display,
    /// Lots asked for; all of them are open.
    pub quantity: Lots,
    /// Limit; 0 for a market order.
    pub price: Ticks,
    /// Attributes, as entered.
    pub attributes: OrderAttributes,
    /// Conditions, as entered.
    pub conditions: Conditions,
    /// Instructions, as entered; [`Instructions::NONE`] for most orders.
    pub instructions: Instructions,
}

/// See [`Event::Rejected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The number that is used up.
    pub key: OrderKey,
    /// The first check that failed.
    pub reason: RejectReason,
    /// The participant's name for the order.
    pub client_order_id: ClientOrderId,
    /// The kind of command that was rejected.
    pub cause: CommandKind,
}

/// See [`Event::Replaced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The replacement, as its owner names it.
    pub key: OrderKey,
    /// The order that is no more, on the same session and channel.
    pub original_user_ref_num: u32,
    /// Its order id.
    pub original_order_id: OrderId,
    /// The replacement's order id.
    pub order_id: OrderId,
    /// What it trades.
    pub instrument_id: InstrumentId,
    /// Buy, or one of the kinds of sell.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// How long the replacement lives.
    pub time_in_force: TimeInForce,
    /// How the replacement is shown.
    pub display: Display,
    /// True if the replacement rests with these terms at once, so that the feed says Replace.
    /// False if the original leaves the book first; then `Traded` and `Booked` may follow.
    pub in_place: bool,
    /// True if the feed knew the original.
    pub original_displayed: bool,
    /// Open lots of the replacement: those of the chain less what it executed before.
    pub leaves: Lots,
    /// Limit; 0 for a market order.
    pub price: Ticks,
    /// The participant's name for the replacement.
    pub client_order_id: ClientOrderId,
    /// The firm it was entered for; blank is the session's own.
    pub firm: Firm,
    /// For whom the firm acts.
    pub capacity: Capacity,
    /// Conditions: those that the replace named, and those that stayed of the original.
    pub conditions: Conditions,
    /// Instructions: those that the replace named, or those of the original.
    pub instructions: Instructions,
}

impl Replaced {
    /// Open lots that the feed shows of the replacement where it rests at once; else 0.
    ///
    /// A replacement that rests in place is displayed, and not for an auction only.
    #[must_use]
    pub fn shown(&self) -> Lots {
        match (self.in_place, self.instructions.shown_quantity) {
            (false, _) => Lots::ZERO,
            (true, Lots::ZERO) => self.leaves,
            (true, part) => part.min(self.leaves),
        }
    }
}

/// See [`Event::Booked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    /// The order.
    pub order_id: OrderId,
    /// In which book.
    pub instrument_id: InstrumentId,
    /// On which side.
    pub side: Side,
    /// At which price.
    pub price: Price,
    /// Open lots.
    pub leaves: Quantity,
    /// Those of them that the feed is to show; 0 if it is not to know the order.
    pub shown: Quantity,
    /// The firm under whose name it is shown; blank if without a name.
    pub attribution: Firm,
}

/// A trade as one of its two orders sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange names it.
    pub order_id: OrderId,
    /// Still open, in lots; 0 if that was the last of it.
    pub leaves: Quantity,
}

/// See [`Event::Traded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traded {
    /// The trade.
    pub trade_id: TradeId,
    /// What was traded.
    pub instrument_id: InstrumentId,
    /// Side of the taker.
    pub taker_side: Side,
    /// The maker's price; in an auction, the auction's.
    pub price: Price,
    /// Lots traded; at least 1.
    pub quantity: Quantity,
    /// True if the feed knew the maker.
    pub maker_displayed: bool,
    /// The resting order, which adds liquidity.
    pub maker: Fill,
    /// The incoming order, which removes it.
    pub taker: Fill,
    /// Which auction it was part of; then both orders rested, the maker for longer.
    pub auction: Option<AuctionTrade>,
}

/// A trade in an auction, at the auction's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionTrade {
    /// Which auction.
    pub phase: Phase,
    /// True if the feed knew the taker.
    pub taker_displayed: bool,
}

/// See [`Event::SelfMatchPrevented`]. Where both orders lose lots there are two, the resting
/// order's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfMatchPrevented {
    /// The order that loses lots, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange names it.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Lots removed now; at least 1.
    pub quantity: Quantity,
    /// Still open, in lots; 0 if the order is done.
    pub leaves: Quantity,
    /// Lots that would have traded; at least 1, at most `quantity`.
    pub prevented: Quantity,
    /// At which price they would have.
    pub price: Price,
    /// True for the resting order; false for the incoming one.
    pub booked: bool,
    /// What the feed shows of it.
    pub shown: Shown,
    /// What was done; neither off nor the session's default.
    pub prevention: SelfMatchPrevention,
}

code_enum! {
    /// Why an order was reduced or canceled. The codes are those of OUCH 5.0, but for
    /// [`Linked`](Self::Linked) and [`Unpaid`](Self::Unpaid).
    CancelReason {
        /// Its owner asked.
        User = b'U',
        /// It was immediate-or-cancel, or a market order, and this was left; all of it where less
        /// than its minimum could trade.
        ImmediateOrCancel = b'I',
        /// It was post-only and would have traded when it came in.
        PostOnly = b'G',
        /// The exchange did.
        Supervisory = b'S',
        /// It would have traded at a price too far away.
        Collar = b'K',
        /// Its time was over: the moment till which it was good, or the auction that it was for.
        Expired = b'T',
        /// It was for the day, and the day is over.
        EndOfDay = b'E',
        /// An order that it is tied to executed, was triggered, or executed less than it.
        Linked = b'L',
        /// It had no limit and had waited, and its account had less than it would have cost.
        Unpaid = b'M',
    }
}

/// See [`Event::Canceled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange names it.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Lots removed now; at least 1.
    pub quantity: Quantity,
    /// Still open, in lots; 0 if the order is done.
    pub leaves: Quantity,
    /// True if it rested in the book.
    pub booked: bool,
    /// What the feed shows of it.
    pub shown: Shown,
    /// Which rule canceled it.
    pub reason: CancelReason,
    /// The kind of command during which it happened: a replace that cancels its original has
    /// reason [`CancelReason::User`] like a cancel, and a mass cancel has so, too.
    pub cause: CommandKind,
}

/// See [`Event::Modified`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange names it.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// The side it has now.
    pub side: Side,
    /// Lots removed by it; may be 0.
    pub quantity: Quantity,
    /// Still open, in lots; 0 if the order is done.
    pub leaves: Quantity,
    /// What the feed shows of it.
    pub shown: Shown,
}

/// See [`Event::Triggered`]. Its trades, or its rest in the book, follow as those of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange named it so far.
    pub order_id_before: OrderId,
    /// As the exchange names it from now on.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Its trigger at that moment, in ticks.
    pub trigger: Price,
    /// The limit with which it comes, in ticks; [`Price::ZERO`] if it has none.
    pub price: Price,
}

/// See [`Event::Released`]. The order waits for its trigger now if it has one; else it enters
/// the book, and its trades or its rest there follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// The order, as the exchange named it so far.
    pub order_id_before: OrderId,
    /// As the exchange names it from now on.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Number of the order that it waited for, on the same session and channel.
    pub parent: u32,
    /// Open lots: no more than the parent executed.
    pub leaves: Quantity,
}

code_enum! {
    /// Why an order was restated.
    RestateReason {
        /// The shown part of a reserve order was used up, and the next one is shown.
        Refreshed = b'R',
        /// It was given another price: that which it follows, or one at which it does not trade.
        Repriced = b'P',
        /// As much can trade at once as it waited for; it enters the book.
        Ready = b'Q',
    }
}

/// See [`Event::Restated`]. A refreshed order is behind all others at its price now. One that is
/// repriced or ready is not in the book; its trades or its rest there follow as those of a new
/// order, unless it has no price and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restated {
    /// The order, as its owner names it.
    pub key: OrderKey,
    /// As the exchange named it so far.
    pub order_id_before: OrderId,
    /// As the exchange names it from now on.
    pub order_id: OrderId,
    /// In which instrument.
    pub instrument_id: InstrumentId,
    /// Which way it trades.
    pub side: Side,
    /// What happened to it.
    pub reason: RestateReason,
    /// Its price from now on, in ticks; [`Price::ZERO`] if it has none at the moment and waits.
    pub price: Price,
    /// Open lots.
    pub leaves: Quantity,
    /// Those of them that the feed is to show; 0 if it is not to know the order.
    pub shown: Quantity,
    /// How it is shown.
    pub display: Display,
    /// The firm under whose name it is shown; blank if without a name.
    pub attribution: Firm,
}

/// See [`Event::MassCanceled`]; echoes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassCanceled {
    /// Number of the request.
    pub key: OrderKey,
    /// As asked.
    pub firm: Firm,
    /// As asked; blank is all.
    pub symbol: Symbol,
    /// As asked.
    pub side: Option<Side>,
    /// As asked.
    pub group_id: Option<u16>,
}

/// See [`Event::EntrySwitched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySwitched {
    /// Number of the request.
    pub key: OrderKey,
    /// As asked.
    pub firm: Firm,
    /// True if allowed now.
    pub enabled: bool,
}

/// See [`Event::AccountQueried`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountQueried {
    /// Who asked.
    pub session_id: SessionId,
    /// For which channel.
    pub channel: u8,
    /// The least number that would be taken.
    pub next_user_ref_num: u32,
}

impl Event {
    /// The session that gets a reply, for events with one owner; `None` for a trade (it has two),
    /// for events that only the feed publishes, and for those that go to every session.
    #[must_use]
    pub const fn session_id(&self) -> Option<SessionId> {
        match self {
            Self::Accepted(Accepted { key, .. })
            | Self::Rejected(Rejected { key, .. })
            | Self::Replaced(Replaced { key, .. })
            | Self::SelfMatchPrevented(SelfMatchPrevented { key, .. })
            | Self::Canceled(Canceled { key, .. })
            | Self::Modified(Modified { key, .. })
            | Self::Triggered(Triggered { key, .. })
            | Self::Released(Released { key, .. })
            | Self::Restated(Restated { key, .. })
            | Self::MassCanceled(MassCanceled { key, .. })
            | Self::EntrySwitched(EntrySwitched { key, .. }) => Some(key.session_id),
            Self::SessionAdded(SessionAdded { session_id, .. })
            | Self::AccountQueried(AccountQueried { session_id, .. }) => Some(*session_id),
            Self::System(_)
            | Self::InstrumentAdded(_)
            | Self::Booked(_)
            | Self::Traded(_)
            | Self::Ledger(_)
            | Self::Money(_)
            | Self::Venue(_) => None,
        }
    }
}
