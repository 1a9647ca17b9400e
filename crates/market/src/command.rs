//! Commands: every request that may change state, in the form that is sequenced and journaled.
//!
//! Invariant: a command has no pointer and no clock. State, sequence, time and command decide the
//! result.

use crate::{
    ClientOrderId, ConditionChanges, Conditions, Display, Firm, Instructions, MoneyCommand, Note,
    OperatorCommand, OrderAttributes, OrderType, Price, Quantity, RejectReason,
    SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text, TimeInForce, VenueCommand,
};

/// An order as its owner names it: unique per session, channel and day.
///
/// OUCH 5.0, section "UserRefNum": numbers strictly increase within (port, UserRefIdx).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct OrderKey {
    /// The session that entered the order.
    pub session_id: SessionId,
    /// Order-flow channel within the session (OUCH UserRefIdx); 0 is the session's own.
    pub channel: u8,
    /// The participant's number on that channel, from 1.
    pub user_ref_num: u32,
}

/// A request that may change state. Every command is sequenced and journaled before it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Command {
    /// Starts the next part of the trading day.
    System(SystemEvent),
    /// Adds an instrument.
    AddInstrument(AddInstrument),
    /// Adds a session.
    AddSession(AddSession),
    /// Enters an order.
    Enter(EnterOrder),
    /// Replaces an order by a new one, which loses priority.
    Replace(ReplaceOrder),
    /// Reduces or cancels an order.
    Cancel(CancelOrder),
    /// Changes an order's kind of sell, or reduces it.
    Modify(ModifyOrder),
    /// Cancels all orders that match a firm and more.
    MassCancel(MassCancel),
    /// Disables or enables order entry for a firm.
    SwitchEntry(EntrySwitch),
    /// Asks for the next usable number. It is a command so that its answer has a place in the
    /// stream.
    QueryAccount(AccountQuery),
    /// An order that the gateway could not decode. It is rejected in sequence.
    Reject(RejectOrder),
    /// Cancels all orders of a disconnected session.
    CancelOnDisconnect(CancelOnDisconnect),
    /// Keeps a note of a session protocol in the log.
    Note(Note),
    /// A command about money.
    Money(MoneyCommand),
    /// Time has passed without another command: all that is due by now happens. Only the venue
    /// itself makes this command.
    Time,
    /// A command of the venue; participants cannot give it.
    Venue(VenueCommand),
    /// A command of a named operator.
    Operate(OperatorCommand),
}

/// The kind of a [`Command`], which an event names as its cause. [`Time`](Self::Time) is passing time,
/// with any command: expiries and the ends of auctions.
#[expect(missing_docs, reason = "see the variants of `Command`")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[repr(u8)]
pub enum CommandKind {
    System,
    AddInstrument,
    AddSession,
    Enter,
    Replace,
    Cancel,
    Modify,
    MassCancel,
    SwitchEntry,
    QueryAccount,
    Reject,
    CancelOnDisconnect,
    Note,
    Money,
    Time,
    Venue,
    Operate,
}

impl Command {
    /// True if the core may visit hundreds of orders for it, beyond those that it trades with or cancels: for a minimum
    /// quantity, fill or kill, all or none, the payment of a market order to buy, or a mass cancel. Rules 15.6, 24.7,
    /// 37.4, 42.4. False for a replacement that keeps the all-or-none of its original, since the command does not show it.
    #[must_use]
    pub fn searches(&self) -> bool {
        let of_order = |buys, order_type, time_in_force, instructions: Option<&Instructions>| {
            (buys && order_type != OrderType::Limit)
                || time_in_force == TimeInForce::FillOrKill
                || instructions.is_some_and(|it| it.handling.is_all_or_none())
        };
        match self {
            Self::Enter(order) => {
                let EnterOrder { side, order_type, time_in_force, instructions, .. } = order;
                !order.conditions.minimum_quantity.is_zero()
                    || of_order(*side == Side::Buy, *order_type, *time_in_force, Some(instructions))
            }
            Self::Replace(ReplaceOrder { terms: Some(terms), .. }) => {
                // A side is only named of an order that sells.
                let ReplaceTerms { side, order_type, time_in_force, instructions, .. } = terms;
                terms.conditions.minimum_quantity.is_some_and(|lots| !lots.is_zero())
                    || of_order(side.is_none(), *order_type, *time_in_force, instructions.as_ref())
            }
            Self::MassCancel(_) => true,
            _ => false,
        }
    }

    /// The kind of this command.
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
            Self::Reject(_) => CommandKind::Reject,
            Self::CancelOnDisconnect(_) => CommandKind::CancelOnDisconnect,
            Self::Note(_) => CommandKind::Note,
            Self::Money(_) => CommandKind::Money,
            Self::Time => CommandKind::Time,
            Self::Venue(_) => CommandKind::Venue,
            Self::Operate(_) => CommandKind::Operate,
        }
    }
}

/// See [`Command::AddInstrument`]. The engine numbers instruments in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AddInstrument {
    /// Printed name; unique, not blank.
    pub symbol: Symbol,
    /// Limit prices must be a multiple of this, in ticks; at least 1.
    pub price_increment: Price,
    /// Round lot, in lots; at least 1.
    pub round_lot: Quantity,
}

/// See [`Command::AddSession`]. The engine numbers sessions in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AddSession {
    /// Login name; unique, not blank.
    pub username: Text<6>,
    /// The session's firm, used where an order names none.
    pub firm: Firm,
    /// Maximum number of live orders.
    pub live_orders_max: u32,
    /// Default for orders that name none; never [`SelfMatchPrevention::SessionDefault`].
    pub self_match_prevention: SelfMatchPrevention,
}

/// See [`Command::Enter`]. OUCH 5.0, Enter Order (`O`).
///
/// It is aligned to 4 bytes only, so that an [`Input`](crate::Input) keeps its two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[repr(Rust, packed(4))]
pub struct EnterOrder {
    /// The order's name; ignored unless its number is above the channel's last one.
    pub key: OrderKey,
    /// Buy, or a kind of sell.
    pub side: Side,
    /// Limit, market or market to limit.
    pub order_type: OrderType,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Displayed, attributed or hidden.
    pub display: Display,
    /// Quantity in lots, 1 to 999,999 unless the instrument's terms allow more.
    pub quantity: Quantity,
    /// Limit in ticks; [`Price::ZERO`] for a market order.
    pub price: Price,
    /// The instrument.
    pub symbol: Symbol,
    /// Attributes, which the book does not use.
    pub attributes: OrderAttributes,
    /// Conditions on the book: self-match prevention, post-only, minimum quantity.
    pub conditions: Conditions,
    /// Instructions beyond the limit: trigger, peg, iceberg, expiry, linked orders.
    pub instructions: Instructions,
}

impl EnterOrder {
    /// A displayed limit order for the day, for the session's own firm.
    ///
    /// Set other fields with struct update syntax:
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

    /// A market order: it trades at any price, and the rest is canceled.
    #[must_use]
    pub fn market(key: OrderKey, side: Side, symbol: Symbol, quantity: Quantity) -> Self {
        let order_type = OrderType::Market;
        Self { order_type, ..Self::limit(key, side, symbol, quantity, Price::ZERO) }
    }
}

/// See [`Command::Replace`]. OUCH 5.0, Replace Order Request (`U`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReplaceOrder {
    /// Number of the live order, on the session and channel of `key`.
    pub original_user_ref_num: u32,
    /// The replacement's name.
    pub key: OrderKey,
    /// The new terms; `None` if the gateway rejected them, which cancels the original.
    pub terms: Option<ReplaceTerms>,
}

impl ReplaceOrder {
    /// The client order id of the replacement; blank if the gateway rejected the terms.
    #[must_use]
    pub fn client_order_id(&self) -> ClientOrderId {
        self.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id)
    }
}

/// The new terms of a replaced order. The original keeps the terms that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReplaceTerms {
    /// Another kind of sell; only for an order that sells.
    pub side: Option<Side>,
    /// Limit or market.
    pub order_type: OrderType,
    /// Time in force of the replacement.
    pub time_in_force: TimeInForce,
    /// Display of the replacement.
    pub display: Display,
    /// Lots for the whole chain, executed ones included, within the same limits as in an order.
    pub quantity: Quantity,
    /// Limit in ticks; [`Price::ZERO`] for a market order.
    pub price: Price,
    /// The client order id of the replacement.
    pub client_order_id: ClientOrderId,
    /// Shares to sell short are located. Not inherited from the original.
    pub shares_located: bool,
    /// Broker that located the shares. Not inherited from the original.
    pub locate_broker: Firm,
    /// The conditions to change.
    pub conditions: ConditionChanges,
    /// Instructions of the replacement; `None` keeps those of the original.
    pub instructions: Option<Instructions>,
}

impl ReplaceTerms {
    /// Terms of a displayed day limit order that change nothing else, to be adjusted.
    #[must_use]
    pub fn limit(quantity: Quantity, price: Price) -> Self {
        Self {
            side: None,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity,
            price,
            client_order_id: ClientOrderId::BLANK,
            shares_located: false,
            locate_broker: Firm::BLANK,
            conditions: ConditionChanges::NONE,
            instructions: None,
        }
    }
}

/// See [`Command::Cancel`]. OUCH 5.0, Cancel Order Request (`X`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CancelOrder {
    /// The order.
    pub key: OrderKey,
    /// The intended quantity of the order over its life, in lots: a ceiling on all its executions,
    /// not a number to remove. 0 cancels all open lots.
    pub quantity: Quantity,
}

/// See [`Command::Modify`]. OUCH 5.0, Modify Order Request (`M`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ModifyOrder {
    /// The order.
    pub key: OrderKey,
    /// The new side: any kind of sell for an order that sells, else its present side.
    pub side: Side,
    /// The intended quantity over its life, in lots. An increase is ignored; 0 cancels all open
    /// lots.
    pub quantity: Quantity,
}

/// See [`Command::MassCancel`]. OUCH 5.0, Mass Cancel Request (`C`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MassCancel {
    /// Number of the request; ignored unless above the channel's last number. It covers the orders
    /// of all channels of the session.
    pub key: OrderKey,
    /// The firm of the orders.
    pub firm: Firm,
    /// The instrument of the orders; blank is all.
    pub symbol: Symbol,
    /// The exact side of the orders, if given.
    pub side: Option<Side>,
    /// The group of the orders, if given; group 0 is the orders without a group.
    pub group_id: Option<u16>,
}

/// See [`Command::SwitchEntry`]. OUCH 5.0, Disable and Enable Order Entry Request (`D`, `E`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EntrySwitch {
    /// Number of the request; ignored unless above the channel's last number.
    pub key: OrderKey,
    /// The firm whose orders on this session are blocked or allowed.
    pub firm: Firm,
    /// True to allow, false to forbid.
    pub enabled: bool,
}

/// See [`Command::QueryAccount`]. OUCH 5.0, Account Query Request (`Q`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AccountQuery {
    /// The session that asks.
    pub session_id: SessionId,
    /// The channel.
    pub channel: u8,
}

/// See [`Command::CancelOnDisconnect`]. The exchange's own command, not a participant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CancelOnDisconnect {
    /// The disconnected session; orders of all its channels are canceled.
    pub session_id: SessionId,
}

/// See [`Command::Reject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RejectOrder {
    /// The name of the undecoded order; ignored unless its number is above the channel's last one.
    pub key: OrderKey,
    /// The participant's client order id.
    pub client_order_id: ClientOrderId,
    /// The reason found by the gateway.
    pub reason: RejectReason,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handling, Lots};

    const ALL_OR_NONE: Instructions =
        Instructions { handling: Handling::ALL_OR_NONE, ..Instructions::NONE };

    fn entered(change: impl FnOnce(&mut EnterOrder)) -> Command {
        let symbol = Symbol::new("AAPL").unwrap();
        let mut order =
            EnterOrder::limit(OrderKey::default(), Side::Buy, symbol, Quantity(9), Price(100));
        change(&mut order);
        Command::Enter(order)
    }

    fn replaced(change: impl FnOnce(&mut ReplaceTerms)) -> Command {
        let mut terms = ReplaceTerms::limit(Quantity(9), Price(100));
        change(&mut terms);
        let (original_user_ref_num, key) = (1, OrderKey::default());
        Command::Replace(ReplaceOrder { original_user_ref_num, key, terms: Some(terms) })
    }

    /// Each kind of command for which the core looks at orders beyond those that it trades with, and its neighbors.
    #[test]
    fn searches_are_known_by_their_command() {
        let few = Lots::new(2);
        let (firm, symbol) = (Firm::BLANK, Symbol::BLANK);
        let all = MassCancel { key: OrderKey::default(), firm, symbol, side: None, group_id: None };
        let searching = [
            entered(|order| order.conditions.minimum_quantity = few),
            entered(|order| order.time_in_force = TimeInForce::FillOrKill),
            entered(|order| order.instructions = ALL_OR_NONE),
            entered(|order| order.order_type = OrderType::Market),
            entered(|order| order.order_type = OrderType::MarketToLimit),
            replaced(|terms| terms.conditions.minimum_quantity = Some(few)),
            replaced(|terms| terms.time_in_force = TimeInForce::FillOrKill),
            replaced(|terms| terms.instructions = Some(ALL_OR_NONE)),
            replaced(|terms| terms.order_type = OrderType::Market),
            Command::MassCancel(all),
        ];
        for command in searching {
            assert!(command.searches(), "{command:?}");
        }
        let others = [
            entered(|_| ()),
            entered(|order| (order.side, order.order_type) = (Side::Sell, OrderType::Market)),
            entered(|order| order.time_in_force = TimeInForce::ImmediateOrCancel),
            replaced(|_| ()),
            replaced(|terms| terms.conditions.minimum_quantity = Some(Lots::ZERO)),
            replaced(|terms| terms.instructions = Some(Instructions::NONE)),
            replaced(|terms| {
                (terms.side, terms.order_type) = (Some(Side::SellShort), OrderType::Market);
            }),
            Command::Cancel(CancelOrder { key: OrderKey::default(), quantity: Quantity::ZERO }),
            Command::Time,
        ];
        for command in others {
            assert!(!command.searches(), "{command:?}");
        }
    }
}
