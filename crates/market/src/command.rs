//! Commands: every request that may change state, as the sequencer and the journal have it.
//!
//! Invariant: a command has no pointer and no clock; with its sequence and time it decides all.

use crate::{
    ClientOrderId, ConditionChanges, Conditions, Display, Firm, Instructions, MoneyCommand,
    OperatorCommand, OrderAttributes, OrderType, Price, Quantity, RejectReason,
    SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text, TimeInForce, VenueCommand,
};

/// An order as its owner names it: unique per session, channel and day.
///
/// OUCH 5.0, section "UserRefNum": numbers strictly increase within (port, UserRefIdx).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey {
    /// Whose it is.
    pub session_id: SessionId,
    /// Order-flow channel within the session (OUCH UserRefIdx); 0 is the session's own.
    pub channel: u8,
    /// The number on that channel, from 1.
    pub user_ref_num: u32,
}

/// All that may be asked. Every one of them is sequenced and journaled before it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The day goes on to its next part.
    System(SystemEvent),
    /// Adds an instrument to what is traded.
    AddInstrument(AddInstrument),
    /// Adds a session, from which orders may come.
    AddSession(AddSession),
    /// Enters an order.
    Enter(EnterOrder),
    /// Replaces an order by one that loses its priority.
    Replace(ReplaceOrder),
    /// Reduces an order, or cancels it.
    Cancel(CancelOrder),
    /// Changes an order's kind of sell or reduces it.
    Modify(ModifyOrder),
    /// Cancels many orders.
    MassCancel(MassCancel),
    /// Forbids or allows a firm to enter orders.
    SwitchEntry(EntrySwitch),
    /// Asks for the next usable number. A command, so that its answer has a place in the stream.
    QueryAccount(AccountQuery),
    /// An order that the edge could not read as one; it is answered in its turn.
    Refuse(RefusedOrder),
    /// Cancels all orders of a session, because it was cut off.
    CancelOnDisconnect(CancelOnDisconnect),
    /// Something about money.
    Money(MoneyCommand),
    /// Time has passed, and nothing else came: what is due by now happens. The exchange's own
    /// command, not a participant's.
    Time,
    /// Something that only the venue itself may ask.
    Venue(VenueCommand),
    /// A command of an operator, who is named with it.
    Operate(OperatorCommand),
}

/// The kind of a [`Command`], which an event names as its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CommandKind {
    /// [`Command::System`]: so is the end of the day.
    System,
    /// [`Command::AddInstrument`].
    AddInstrument,
    /// [`Command::AddSession`].
    AddSession,
    /// [`Command::Enter`].
    Enter,
    /// [`Command::Replace`].
    Replace,
    /// [`Command::Cancel`].
    Cancel,
    /// [`Command::Modify`].
    Modify,
    /// [`Command::MassCancel`].
    MassCancel,
    /// [`Command::SwitchEntry`].
    SwitchEntry,
    /// [`Command::QueryAccount`].
    QueryAccount,
    /// [`Command::Refuse`].
    Refuse,
    /// [`Command::CancelOnDisconnect`].
    CancelOnDisconnect,
    /// [`Command::Money`].
    Money,
    /// Time that passed, whichever command it passed with: expiries and the ends of auctions.
    Time,
    /// [`Command::Venue`].
    Venue,
    /// [`Command::Operate`].
    Operate,
}

impl Command {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> CommandKind {
        match self {
            Self::System(_) => CommandKind::System,
            Self::AddInstrument(_) => CommandKind::AddInstrument,
            Self::AddSession(_) => CommandKind::AddSession,
            Self::Enter(_) => CommandKind::Enter,
            Self::Replace(_) => CommandKind::Replace,
            Self::Cancel(_) => CommandKind::Cancel,
            Self::Modify(_) => CommandKind::Modify,
            Self::MassCancel(_) => CommandKind::MassCancel,
            Self::SwitchEntry(_) => CommandKind::SwitchEntry,
            Self::QueryAccount(_) => CommandKind::QueryAccount,
            Self::Refuse(_) => CommandKind::Refuse,
            Self::CancelOnDisconnect(_) => CommandKind::CancelOnDisconnect,
            Self::Money(_) => CommandKind::Money,
            Self::Time => CommandKind::Time,
            Self::Venue(_) => CommandKind::Venue,
            Self::Operate(_) => CommandKind::Operate,
        }
    }
}

/// See [`Command::AddInstrument`]. The engine numbers instruments in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddInstrument {
    /// Printed name; unique, not blank.
    pub symbol: Symbol,
    /// Limit prices must be a multiple of this, in ticks; at least 1.
    pub price_increment: Price,
    /// Round lot, in lots; at least 1.
    pub round_lot: Quantity,
}

/// See [`Command::AddSession`]. The engine numbers sessions in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddSession {
    /// The name it logs in with; unique, not blank.
    pub username: Text<6>,
    /// The firm it belongs to, taken where an order names none.
    pub firm: Firm,
    /// How many live orders it may have at a time.
    pub live_orders_max: u32,
    /// For orders that name none; never [`SelfMatchPrevention::SessionDefault`].
    pub self_match_prevention: SelfMatchPrevention,
}

/// See [`Command::Enter`]. OUCH 5.0, Enter Order (`O`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnterOrder {
    /// Its name; ignored unless above the channel's last number.
    pub key: OrderKey,
    /// Which way it trades.
    pub side: Side,
    /// Limit, market or market to limit.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// How it is shown.
    pub display: Display,
    /// Lots asked for, 1 to 999,999.
    pub quantity: Quantity,
    /// Limit in ticks; [`Price::ZERO`] for a market order.
    pub price: Price,
    /// What to trade.
    pub symbol: Symbol,
    /// What it carries along.
    pub attributes: OrderAttributes,
    /// What it asks of the book beyond its terms.
    pub conditions: Conditions,
    /// Instructions beyond its limit.
    pub instructions: Instructions,
}

impl EnterOrder {
    /// A displayed limit order for the day, for the session's own firm.
    ///
    /// What else an order may say is changed by its field:
    ///
    /// ```
    /// # use market::*;
    /// # let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 1 };
    /// # let symbol = Symbol::new("AAPL").unwrap();
    /// let time_in_force = TimeInForce::ImmediateOrCancel;
    /// let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(100), Price(1_500_000));
    /// let order = EnterOrder { time_in_force, ..order };
    /// ```
    #[must_use]
    pub fn limit(
        key: OrderKey,
        side: Side,
        symbol: Symbol,
        quantity: Quantity,
        price: Price,
    ) -> Self {
        Self {
            key,
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity,
            price,
            symbol,
            attributes: OrderAttributes::default(),
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        }
    }

    /// A market order: it trades at any price, and what does not trade at once is canceled.
    #[must_use]
    pub fn market(key: OrderKey, side: Side, symbol: Symbol, quantity: Quantity) -> Self {
        let order_type = OrderType::Market;
        Self { order_type, ..Self::limit(key, side, symbol, quantity, Price::ZERO) }
    }
}

/// See [`Command::Replace`]. OUCH 5.0, Replace Order Request (`U`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceOrder {
    /// Number of the live order, on the same session and channel as `key`.
    pub original_user_ref_num: u32,
    /// The replacement's name.
    pub key: OrderKey,
    /// The new terms; `None` where the edge could not accept them, which cancels the original.
    pub terms: Option<ReplaceTerms>,
}

impl ReplaceOrder {
    /// The participant's name for the replacement; blank where the edge could not accept the terms.
    #[must_use]
    pub fn client_order_id(&self) -> ClientOrderId {
        self.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id)
    }
}

/// The new terms of a replaced order; what they leave out, the original keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceTerms {
    /// Another kind of sell, for an order that sells.
    pub side: Option<Side>,
    /// Limit or market.
    pub order_type: OrderType,
    /// How long the replacement lives.
    pub time_in_force: TimeInForce,
    /// How the replacement is shown.
    pub display: Display,
    /// Lots for the whole chain, executed ones included, 1 to 999,999.
    pub quantity: Quantity,
    /// Limit in ticks; [`Price::ZERO`] for a market order.
    pub price: Price,
    /// The participant's name for the replacement.
    pub client_order_id: ClientOrderId,
    /// Shares to sell short are located; not kept from the original.
    pub shares_located: bool,
    /// Broker that located them; not kept from the original.
    pub locate_broker: Firm,
    /// The conditions it names.
    pub conditions: ConditionChanges,
    /// The instructions of the replacement; `None` keeps those of the original.
    pub instructions: Option<Instructions>,
}

/// See [`Command::Cancel`]. OUCH 5.0, Cancel Order Request (`X`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelOrder {
    /// The order.
    pub key: OrderKey,
    /// The new intended size of the order over its life, in lots: a ceiling on what may still
    /// execute in all, not a number to remove. 0 cancels all that is open.
    pub quantity: Quantity,
}

/// See [`Command::Modify`]. OUCH 5.0, Modify Order Request (`M`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyOrder {
    /// The order.
    pub key: OrderKey,
    /// The side it shall have: any kind of sell for an order that sells, or the side it has.
    pub side: Side,
    /// The new intended size over its life, in lots; an increase is ignored; 0 cancels all.
    pub quantity: Quantity,
}

/// See [`Command::MassCancel`]. OUCH 5.0, Mass Cancel Request (`C`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassCancel {
    /// Number of the request; ignored unless above the channel's last number. The orders of every
    /// channel of the session are meant.
    pub key: OrderKey,
    /// Orders of this firm.
    pub firm: Firm,
    /// Orders of this instrument; blank is all.
    pub symbol: Symbol,
    /// Orders of exactly this side, if given.
    pub side: Option<Side>,
    /// Orders of this group, if given; group 0 is the orders without one.
    pub group_id: Option<u16>,
}

/// See [`Command::SwitchEntry`]. OUCH 5.0, Disable and Enable Order Entry Request (`D`, `E`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySwitch {
    /// Number of the request; ignored unless above the channel's last number.
    pub key: OrderKey,
    /// The firm whose orders on this session are meant.
    pub firm: Firm,
    /// True to allow, false to forbid.
    pub enabled: bool,
}

/// See [`Command::QueryAccount`]. OUCH 5.0, Account Query Request (`Q`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountQuery {
    /// Who asks.
    pub session_id: SessionId,
    /// For which channel.
    pub channel: u8,
}

/// See [`Command::CancelOnDisconnect`]. The exchange's own command, not a participant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelOnDisconnect {
    /// Whose connection is gone. The orders of every channel are meant.
    pub session_id: SessionId,
}

/// See [`Command::Refuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedOrder {
    /// The name it would have had; ignored unless above the channel's last number.
    pub key: OrderKey,
    /// The participant's name for it.
    pub client_order_id: ClientOrderId,
    /// The reason that the edge found.
    pub reason: RejectReason,
}
