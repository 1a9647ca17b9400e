//! Commands as bytes: the payload of a journal record. The byte map is in docs/journal.md.
//!
//! A command is one kind byte and then its fields. Fields that most orders leave out take no bytes.
//! To add a command: take the next free number in `kind`, add a branch to `encode` and to `decode`,
//! and add a row to the byte map.
//!
//! Invariant: a command has exactly one encoding.

mod money;
mod operator;
mod venue;

use crate::{
    AccountQuery, AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, Capacity,
    ClientOrderId, Command, ConditionChanges, Conditions, CustomerType, Display, EnterOrder,
    EntrySwitch, Firm, Instructions, Lots, MassCancel, ModifyOrder, OrderAttributes, OrderType,
    Price, Quantity, RejectOrder, RejectReason, ReplaceOrder, ReplaceTerms, SelfMatchPrevention,
    Side, SystemEvent, TimeInForce,
    bytes::{ByteReader, ByteWriter, DecodeError},
};

/// The first byte of every command. A new command takes the next free number; numbers are never
/// changed or reused.
mod kind {
    // Commands of participants, and of the trading day.
    pub(super) const SYSTEM: u8 = 1;
    pub(super) const TIME: u8 = 2;
    pub(super) const ADD_INSTRUMENT: u8 = 3;
    pub(super) const ADD_SESSION: u8 = 4;
    pub(super) const ENTER: u8 = 5;
    pub(super) const REPLACE: u8 = 6;
    pub(super) const CANCEL: u8 = 7;
    pub(super) const MODIFY: u8 = 8;
    pub(super) const MASS_CANCEL: u8 = 9;
    pub(super) const SWITCH_ENTRY: u8 = 10;
    pub(super) const QUERY_ACCOUNT: u8 = 11;
    pub(super) const CANCEL_ON_DISCONNECT: u8 = 12;
    pub(super) const REJECT: u8 = 13;

    // Commands of the venue.
    pub(super) const SET_PHASE: u8 = 14;
    pub(super) const CONFIGURE_INSTRUMENT: u8 = 15;
    pub(super) const REMOVE_INSTRUMENT: u8 = 16;
    pub(super) const SUPERVISORY_CANCEL: u8 = 17;
    pub(super) const BLOCK_ENTRY: u8 = 18;
    pub(super) const BUST_TRADE: u8 = 19;
    pub(super) const CORRECT_TRADE: u8 = 20;

    // Commands about money.
    pub(super) const ADD_ASSET: u8 = 21;
    pub(super) const ADD_ACCOUNT: u8 = 22;
    pub(super) const ASSIGN_SESSION: u8 = 23;
    pub(super) const SET_TERMS: u8 = 24;
    pub(super) const SET_FEES: u8 = 25;
    pub(super) const SET_ACCOUNT: u8 = 26;
    pub(super) const STOP_ACCOUNT: u8 = 27;
    pub(super) const DEPOSIT: u8 = 28;
    pub(super) const WITHDRAW: u8 = 29;
    pub(super) const TRANSFER: u8 = 30;
    pub(super) const ALLOW_UNDO: u8 = 31;

    // Commands of operators.
    pub(super) const KILL_SWITCH: u8 = 32;
    pub(super) const SET_LIVE_ORDERS_MAX: u8 = 33;
    pub(super) const LOG_OUT: u8 = 34;
    pub(super) const OPERATE: u8 = 35;
}

impl Command {
    /// The longest encoded command, in bytes.
    pub const ENCODED_LEN_MAX: usize = 112;

    /// Encodes the command at the start of `buffer` and returns its length in bytes.
    pub fn encode(&self, buffer: &mut [u8; Self::ENCODED_LEN_MAX]) -> usize {
        let mut out = Writer { buffer, len: 0 };
        match self {
            Self::System(event) => {
                out.u8(kind::SYSTEM);
                out.u8(event.code());
            }
            Self::Time => out.u8(kind::TIME),
            Self::AddInstrument(add) => {
                out.u8(kind::ADD_INSTRUMENT);
                out.text(&add.symbol);
                out.u64(add.price_increment.0);
                out.u64(add.round_lot.0);
            }
            Self::AddSession(add) => {
                out.u8(kind::ADD_SESSION);
                out.text(&add.username);
                out.text(&add.firm);
                out.u32(add.live_orders_max);
                out.u8(add.self_match_prevention.code());
            }
            Self::Enter(order) => out.enter(order),
            Self::Replace(replace) => out.replace(replace),
            Self::Cancel(cancel) => {
                out.u8(kind::CANCEL);
                out.key(&cancel.key);
                out.u64(cancel.quantity.0);
            }
            Self::Modify(modify) => {
                out.u8(kind::MODIFY);
                out.key(&modify.key);
                out.u8(modify.side.code());
                out.u64(modify.quantity.0);
            }
            Self::MassCancel(mass) => {
                out.u8(kind::MASS_CANCEL);
                out.key(&mass.key);
                out.text(&mass.firm);
                out.text(&mass.symbol);
                out.side_or_none(mass.side);
                out.flag(mass.group_id.is_some());
                if let Some(group_id) = mass.group_id {
                    out.u16(group_id);
                }
            }
            Self::SwitchEntry(switch) => {
                out.u8(kind::SWITCH_ENTRY);
                out.key(&switch.key);
                out.text(&switch.firm);
                out.flag(switch.enabled);
            }
            Self::QueryAccount(query) => {
                out.u8(kind::QUERY_ACCOUNT);
                out.u16(query.session_id.0);
                out.u8(query.channel);
            }
            Self::CancelOnDisconnect(cancel) => {
                out.u8(kind::CANCEL_ON_DISCONNECT);
                out.u16(cancel.session_id.0);
            }
            Self::Reject(refused) => {
                out.u8(kind::REJECT);
                out.key(&refused.key);
                out.text(&refused.client_order_id);
                out.u8(refused.reason.code());
            }
            Self::Money(command) => out.money(command),
            Self::Venue(command) => out.venue(command),
            Self::Operate(command) => out.operate(command),
        }
        out.len
    }

    /// Decodes a command. `bytes` must be exactly the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// The bytes are not a command. Encoding the returned command gives the same bytes again.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = ByteReader::new(bytes);
        let command = match bytes.u8()? {
            kind::SYSTEM => Self::System(bytes.code("system event", SystemEvent::from_code)?),
            kind::TIME => Self::Time,
            kind::ADD_INSTRUMENT => Self::AddInstrument(AddInstrument {
                symbol: bytes.text("symbol")?,
                price_increment: Price(bytes.u64()?),
                round_lot: Quantity(bytes.u64()?),
            }),
            kind::ADD_SESSION => Self::AddSession(AddSession {
                username: bytes.text("username")?,
                firm: bytes.text("firm")?,
                live_orders_max: bytes.u32()?,
                self_match_prevention: bytes
                    .code("self-match prevention", SelfMatchPrevention::from_code)?,
            }),
            kind::ENTER => Self::Enter(bytes.enter()?),
            kind::REPLACE => Self::Replace(bytes.replace()?),
            kind::CANCEL => {
                Self::Cancel(CancelOrder { key: bytes.key()?, quantity: Quantity(bytes.u64()?) })
            }
            kind::MODIFY => Self::Modify(ModifyOrder {
                key: bytes.key()?,
                side: bytes.code("side", Side::from_code)?,
                quantity: Quantity(bytes.u64()?),
            }),
            kind::MASS_CANCEL => Self::MassCancel(MassCancel {
                key: bytes.key()?,
                firm: bytes.text("firm")?,
                symbol: bytes.text("symbol")?,
                side: bytes.side_or_none()?,
                group_id: if bytes.flag("group given")? { Some(bytes.u16()?) } else { None },
            }),
            kind::SWITCH_ENTRY => Self::SwitchEntry(EntrySwitch {
                key: bytes.key()?,
                firm: bytes.text("firm")?,
                enabled: bytes.flag("enabled")?,
            }),
            kind::QUERY_ACCOUNT => Self::QueryAccount(AccountQuery {
                session_id: bytes.session_id()?,
                channel: bytes.u8()?,
            }),
            kind::CANCEL_ON_DISCONNECT => {
                Self::CancelOnDisconnect(CancelOnDisconnect { session_id: bytes.session_id()? })
            }
            kind::REJECT => Self::Reject(RejectOrder {
                key: bytes.key()?,
                client_order_id: bytes.text("client order id")?,
                reason: bytes.code("reject reason", RejectReason::from_code)?,
            }),
            kind::OPERATE => Self::Operate(bytes.operate()?),
            other => match bytes.venue(other)? {
                Some(command) => Self::Venue(command),
                None => Self::Money(bytes.money(other)?),
            },
        };
        if bytes.is_empty() { Ok(command) } else { Err(DecodeError::Long) }
    }
}

/// The filled part of a buffer.
struct Writer<'a> {
    buffer: &'a mut [u8; Command::ENCODED_LEN_MAX],
    len: usize,
}

impl ByteWriter for Writer<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.buffer[self.len..self.len + N].copy_from_slice(bytes);
        self.len += N;
    }
}

/// Bits of the flag byte: the groups that follow the terms of an order or a replace. A group with
/// default values is left out, so a command has one encoding.
mod has {
    pub(super) const CLIENT_ORDER_ID: u8 = 1;
    /// Order: all attributes but the client order id. Replace: the locate.
    pub(super) const ATTRIBUTES: u8 = 2;
    pub(super) const CONDITIONS: u8 = 4;
    pub(super) const INSTRUCTIONS: u8 = 8;
    /// Replace: its terms. Without this bit the edge has rejected the terms, and nothing follows.
    pub(super) const TERMS: u8 = 16;
}

/// Bits of the first byte of the group: the conditions that a replace names.
mod names {
    pub(super) const SELF_MATCH_PREVENTION: u8 = 1;
    pub(super) const SELF_MATCH_GROUP: u8 = 2;
    pub(super) const POST_ONLY: u8 = 4;
    pub(super) const MINIMUM_QUANTITY: u8 = 8;
    /// With `POST_ONLY`: the replacement is post-only.
    pub(super) const IS_POST_ONLY: u8 = 16;
}

const fn bit(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

impl Writer<'_> {
    fn enter(&mut self, order: &EnterOrder) {
        let EnterOrder { attributes, conditions, instructions, .. } = order;
        let has_client_order_id = attributes.client_order_id != ClientOrderId::BLANK;
        let client_order_id = ClientOrderId::BLANK;
        let has_attributes =
            OrderAttributes { client_order_id, ..*attributes } != OrderAttributes::default();
        let has_conditions = *conditions != Conditions::NONE;
        let has_instructions = instructions.is_some();
        self.u8(kind::ENTER);
        self.u8(bit(has_client_order_id, has::CLIENT_ORDER_ID)
            | bit(has_attributes, has::ATTRIBUTES)
            | bit(has_conditions, has::CONDITIONS)
            | bit(has_instructions, has::INSTRUCTIONS));
        self.key(&order.key);
        self.u8(order.side.code());
        self.u8(order.order_type.code());
        self.u8(order.time_in_force.code());
        self.u8(order.display.code());
        self.u64(order.quantity.0);
        self.u64(order.price.0);
        self.text(&order.symbol);
        if has_client_order_id {
            self.text(&attributes.client_order_id);
        }
        if has_attributes {
            self.text(&attributes.firm);
            self.u8(attributes.capacity.code());
            self.u8(attributes.customer_type.code());
            self.u16(attributes.group_id);
            self.flag(attributes.shares_located);
            self.text(&attributes.locate_broker);
        }
        if has_conditions {
            self.conditions(conditions);
        }
        if has_instructions {
            self.instructions(instructions);
        }
    }

    fn replace(&mut self, replace: &ReplaceOrder) {
        self.u8(kind::REPLACE);
        let Some(terms) = &replace.terms else {
            self.u8(0);
            self.u32(replace.original_user_ref_num);
            self.key(&replace.key);
            return;
        };
        let has_client_order_id = terms.client_order_id != ClientOrderId::BLANK;
        let has_locate = terms.shares_located || terms.locate_broker != Firm::BLANK;
        let has_conditions = terms.conditions != ConditionChanges::NONE;
        self.u8(has::TERMS
            | bit(has_client_order_id, has::CLIENT_ORDER_ID)
            | bit(has_locate, has::ATTRIBUTES)
            | bit(has_conditions, has::CONDITIONS)
            | bit(terms.instructions.is_some(), has::INSTRUCTIONS));
        self.u32(replace.original_user_ref_num);
        self.key(&replace.key);
        self.side_or_none(terms.side);
        self.u8(terms.order_type.code());
        self.u8(terms.time_in_force.code());
        self.u8(terms.display.code());
        self.u64(terms.quantity.0);
        self.u64(terms.price.0);
        if has_client_order_id {
            self.text(&terms.client_order_id);
        }
        if has_locate {
            self.flag(terms.shares_located);
            self.text(&terms.locate_broker);
        }
        if has_conditions {
            self.condition_changes(&terms.conditions);
        }
        if let Some(instructions) = &terms.instructions {
            self.instructions(instructions);
        }
    }

    fn condition_changes(&mut self, changes: &ConditionChanges) {
        self.u8(bit(changes.self_match_prevention.is_some(), names::SELF_MATCH_PREVENTION)
            | bit(changes.self_match_group.is_some(), names::SELF_MATCH_GROUP)
            | bit(changes.post_only.is_some(), names::POST_ONLY)
            | bit(changes.post_only == Some(true), names::IS_POST_ONLY)
            | bit(changes.minimum_quantity.is_some(), names::MINIMUM_QUANTITY));
        if let Some(prevention) = changes.self_match_prevention {
            self.u8(prevention.code());
        }
        if let Some(group) = &changes.self_match_group {
            self.text(group);
        }
        if let Some(minimum_quantity) = changes.minimum_quantity {
            self.u32(minimum_quantity.0);
        }
    }
}

impl ByteReader<'_> {
    fn enter(&mut self) -> Result<EnterOrder, DecodeError> {
        let known = has::CLIENT_ORDER_ID | has::ATTRIBUTES | has::CONDITIONS | has::INSTRUCTIONS;
        let flags = self.bits("flags", known)?;
        let has = |bit| flags & bit != 0;
        Ok(EnterOrder {
            key: self.key()?,
            side: self.code("side", Side::from_code)?,
            order_type: self.code("order type", OrderType::from_code)?,
            time_in_force: self.code("time in force", TimeInForce::from_code)?,
            display: self.code("display", Display::from_code)?,
            quantity: Quantity(self.u64()?),
            price: Price(self.u64()?),
            symbol: self.text("symbol")?,
            attributes: {
                let blank = ClientOrderId::BLANK;
                let client_order_id =
                    self.group(has(has::CLIENT_ORDER_ID), blank, Self::client_order_id)?;
                let none = OrderAttributes::default();
                let attributes = self.group(has(has::ATTRIBUTES), none, Self::attributes)?;
                OrderAttributes { client_order_id, ..attributes }
            },
            conditions: self.group(has(has::CONDITIONS), Conditions::NONE, Self::conditions)?,
            instructions: self.group(
                has(has::INSTRUCTIONS),
                Instructions::NONE,
                Self::instructions,
            )?,
        })
    }

    fn replace(&mut self) -> Result<ReplaceOrder, DecodeError> {
        let groups = has::CLIENT_ORDER_ID | has::ATTRIBUTES | has::CONDITIONS | has::INSTRUCTIONS;
        let flags = self.bits("flags", has::TERMS | groups)?;
        let has_terms = flags & has::TERMS != 0;
        if !has_terms && flags != 0 {
            return Err(DecodeError::Field("flags"));
        }
        Ok(ReplaceOrder {
            original_user_ref_num: self.u32()?,
            key: self.key()?,
            terms: if has_terms { Some(self.replace_terms(flags)?) } else { None },
        })
    }

    fn replace_terms(&mut self, flags: u8) -> Result<ReplaceTerms, DecodeError> {
        let has = |bit| flags & bit != 0;
        let side = self.side_or_none()?;
        let order_type = self.code("order type", OrderType::from_code)?;
        let time_in_force = self.code("time in force", TimeInForce::from_code)?;
        let display = self.code("display", Display::from_code)?;
        let quantity = Quantity(self.u64()?);
        let price = Price(self.u64()?);
        let blank = ClientOrderId::BLANK;
        let client_order_id =
            self.group(has(has::CLIENT_ORDER_ID), blank, Self::client_order_id)?;
        let no_locate = (false, Firm::BLANK);
        let (shares_located, locate_broker) =
            self.group(has(has::ATTRIBUTES), no_locate, Self::locate)?;
        let no_changes = ConditionChanges::NONE;
        let conditions = self.group(has(has::CONDITIONS), no_changes, Self::condition_changes)?;
        let instructions = if has(has::INSTRUCTIONS) { Some(self.instructions()?) } else { None };
        Ok(ReplaceTerms {
            side,
            order_type,
            time_in_force,
            display,
            quantity,
            price,
            client_order_id,
            shares_located,
            locate_broker,
            conditions,
            instructions,
        })
    }

    /// Reads a group if its flag is set. A group with default values is an error.
    fn group<T: PartialEq>(
        &mut self,
        is_there: bool,
        absent: T,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if !is_there {
            return Ok(absent);
        }
        let value = read(self)?;
        if value == absent { Err(DecodeError::Field("flags")) } else { Ok(value) }
    }

    fn client_order_id(&mut self) -> Result<ClientOrderId, DecodeError> {
        self.text("client order id")
    }

    /// All attributes but the client order id.
    fn attributes(&mut self) -> Result<OrderAttributes, DecodeError> {
        Ok(OrderAttributes {
            client_order_id: ClientOrderId::BLANK,
            firm: self.text("firm")?,
            capacity: self.code("capacity", Capacity::from_code)?,
            customer_type: self.code("customer type", CustomerType::from_code)?,
            group_id: self.u16()?,
            shares_located: self.flag("shares located")?,
            locate_broker: self.text("locate broker")?,
        })
    }

    fn locate(&mut self) -> Result<(bool, Firm), DecodeError> {
        Ok((self.flag("shares located")?, self.text("locate broker")?))
    }

    fn condition_changes(&mut self) -> Result<ConditionChanges, DecodeError> {
        let bits = self.bits("conditions", 31)?;
        let named = |bit| bits & bit != 0;
        if named(names::IS_POST_ONLY) && !named(names::POST_ONLY) {
            return Err(DecodeError::Field("post only"));
        }
        let mut changes = ConditionChanges::NONE;
        if named(names::SELF_MATCH_PREVENTION) {
            let prevention = self.code("self-match prevention", SelfMatchPrevention::from_code)?;
            changes.self_match_prevention = Some(prevention);
        }
        if named(names::SELF_MATCH_GROUP) {
            changes.self_match_group = Some(self.text("self-match group")?);
        }
        if named(names::POST_ONLY) {
            changes.post_only = Some(named(names::IS_POST_ONLY));
        }
        if named(names::MINIMUM_QUANTITY) {
            changes.minimum_quantity = Some(Lots(self.u32()?));
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        AccountId, AccountSetting, AddAccount, AddAsset, Allocation, AssetId, AssignSession,
        BlockEntry, BustReason, BustTrade, ConfigureInstrument, CorrectTrade, Deposit,
        InstrumentChange, LiveOrdersMax, MoneyClass, MoneyCommand, MoneyTerms, OperatorAction,
        OperatorCommand, OrderKey, Phase, Pricing, RemoveInstrument, Scope, SessionId, SetAccount,
        SetFees, SetPhase, SetTerms, StopAccount, Symbol, Text, Ticks, TradeId, Transfer, Units,
        VenueCommand, Withdraw,
    };

    fn text<const N: usize>() -> impl Strategy<Value = Text<N>> {
        proptest::collection::vec(b' '..=b'~', N)
            .prop_map(|bytes| Text::from_bytes(bytes.try_into().unwrap()).unwrap())
    }

    fn one_of<T: Copy + core::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
        (0..all.len()).prop_map(|index| all[index])
    }

    fn key() -> impl Strategy<Value = OrderKey> {
        any::<(u16, u8, u32)>().prop_map(|(session_id, channel, user_ref_num)| OrderKey {
            session_id: SessionId(session_id),
            channel,
            user_ref_num,
        })
    }

    fn conditions() -> impl Strategy<Value = Conditions> {
        let some = (one_of(SelfMatchPrevention::ALL), text::<2>(), any::<bool>(), any::<u32>());
        let some = some.prop_map(|it| Conditions {
            self_match_prevention: it.0,
            self_match_group: it.1,
            post_only: it.2,
            minimum_quantity: Lots(it.3),
        });
        prop_oneof![Just(Conditions::NONE), some]
    }

    fn condition_changes() -> impl Strategy<Value = ConditionChanges> {
        let prevention = proptest::option::of(one_of(SelfMatchPrevention::ALL));
        let group = proptest::option::of(text::<2>());
        (prevention, group, any::<Option<bool>>(), any::<Option<u32>>()).prop_map(|it| {
            ConditionChanges {
                self_match_prevention: it.0,
                self_match_group: it.1,
                post_only: it.2,
                minimum_quantity: it.3.map(Lots),
            }
        })
    }

    fn instructions() -> impl Strategy<Value = Instructions> {
        let flags = (one_of(Pricing::ALL), any::<bool>(), any::<bool>(), any::<i32>());
        (flags, any::<[u32; 6]>()).prop_map(|(flags, numbers)| Instructions {
            pricing: flags.0,
            all_or_none: flags.1,
            slide: flags.2,
            trigger: Ticks(numbers[0]),
            offset: flags.3,
            shown_quantity: Lots(numbers[1]),
            shown_range: Lots(numbers[2]),
            expires_s: numbers[3],
            parent: numbers[4],
            partner: numbers[5],
        })
    }

    fn enter() -> impl Strategy<Value = Command> {
        let terms = (
            one_of(Side::ALL),
            one_of(OrderType::ALL),
            one_of(TimeInForce::ALL),
            one_of(Display::ALL),
            any::<u64>(),
            any::<u64>(),
        );
        let attributes = (
            text::<14>(),
            text::<4>(),
            one_of(Capacity::ALL),
            one_of(CustomerType::ALL),
            any::<u16>(),
            any::<bool>(),
            text::<4>(),
        );
        let told = prop_oneof![Just(Instructions::NONE), instructions()];
        (key(), text::<8>(), terms, attributes, conditions(), told).prop_map(|it| {
            let (key, symbol, terms, attributes, conditions, instructions) = it;
            Command::Enter(EnterOrder {
                key,
                side: terms.0,
                order_type: terms.1,
                time_in_force: terms.2,
                display: terms.3,
                quantity: Quantity(terms.4),
                price: Price(terms.5),
                symbol,
                attributes: OrderAttributes {
                    client_order_id: attributes.0,
                    firm: attributes.1,
                    capacity: attributes.2,
                    customer_type: attributes.3,
                    group_id: attributes.4,
                    shares_located: attributes.5,
                    locate_broker: attributes.6,
                },
                conditions,
                instructions,
            })
        })
    }

    fn replace() -> impl Strategy<Value = Command> {
        let terms = (
            proptest::option::of(one_of(Side::ALL)),
            one_of(OrderType::ALL),
            one_of(TimeInForce::ALL),
            one_of(Display::ALL),
            any::<(u64, u64)>(),
            text::<14>(),
            any::<bool>(),
            text::<4>(),
            condition_changes(),
            proptest::option::of(prop_oneof![Just(Instructions::NONE), instructions()]),
        );
        (any::<u32>(), key(), proptest::option::of(terms)).prop_map(|(original, key, terms)| {
            Command::Replace(ReplaceOrder {
                original_user_ref_num: original,
                key,
                terms: terms.map(|terms| ReplaceTerms {
                    side: terms.0,
                    order_type: terms.1,
                    time_in_force: terms.2,
                    display: terms.3,
                    quantity: Quantity(terms.4.0),
                    price: Price(terms.4.1),
                    client_order_id: terms.5,
                    shares_located: terms.6,
                    locate_broker: terms.7,
                    conditions: terms.8,
                    instructions: terms.9,
                }),
            })
        })
    }

    fn money() -> impl Strategy<Value = MoneyCommand> {
        let move_of = any::<(u32, u16, u128)>().prop_map(|(account, asset, amount)| {
            (AccountId(account), AssetId(asset), Units::new(amount))
        });
        prop_oneof![
            (text::<8>(), any::<u8>())
                .prop_map(|(name, decimals)| MoneyCommand::AddAsset(AddAsset { name, decimals })),
            text::<8>().prop_map(|name| MoneyCommand::AddAccount(AddAccount { name })),
            any::<(u16, u32)>().prop_map(|(session, account)| {
                MoneyCommand::AssignSession(AssignSession {
                    session_id: SessionId(session),
                    account_id: AccountId(account),
                })
            }),
            (text::<8>(), one_of(MoneyClass::ALL), any::<(u16, u16)>(), any::<[u64; 4]>())
                .prop_map(|(symbol, class, (base, quote), numbers)| {
                    MoneyCommand::SetTerms(SetTerms {
                        symbol,
                        terms: MoneyTerms {
                            class,
                            base: AssetId(base),
                            quote: AssetId(quote),
                            base_units: numbers[0],
                            quote_numerator: numbers[1],
                            quote_denominator: numbers[2],
                            quantity_max: Quantity(numbers[3]),
                        },
                    })
                }),
            any::<(u8, i32, u32)>().prop_map(|(tier, maker_ppm, taker_ppm)| {
                MoneyCommand::SetFees(SetFees { tier, maker_ppm, taker_ppm })
            }),
            (move_of.clone(), one_of(AccountSetting::ALL)).prop_map(|(it, setting)| {
                MoneyCommand::SetAccount(SetAccount {
                    account_id: it.0,
                    setting,
                    asset_id: it.1,
                    value: it.2,
                })
            }),
            any::<(u32, bool)>().prop_map(|(account, stopped)| {
                MoneyCommand::StopAccount(StopAccount { account_id: AccountId(account), stopped })
            }),
            move_of.clone().prop_map(|(account_id, asset_id, amount)| {
                MoneyCommand::Deposit(Deposit { account_id, asset_id, amount })
            }),
            move_of.clone().prop_map(|(account_id, asset_id, amount)| {
                MoneyCommand::Withdraw(Withdraw { account_id, asset_id, amount })
            }),
            (move_of, any::<u32>()).prop_map(|((from, asset_id, amount), to)| {
                MoneyCommand::Transfer(Transfer { from, to: AccountId(to), asset_id, amount })
            }),
            Just(MoneyCommand::AllowUndo),
        ]
    }

    fn venue() -> impl Strategy<Value = VenueCommand> {
        let numbers = (any::<u64>(), any::<u32>(), 0..12_u8);
        let change = numbers.prop_map(|(wide, narrow, property)| match property {
            0 => InstrumentChange::PriceIncrement(Price(wide)),
            1 => InstrumentChange::RoundLot(Quantity(wide)),
            2 => InstrumentChange::ReferencePrice(Price(wide)),
            3 => InstrumentChange::StaticBand(narrow),
            4 => InstrumentChange::DynamicBand(narrow),
            5 => InstrumentChange::PauseSeconds(narrow),
            6 => InstrumentChange::PriceCollar(narrow),
            7 => InstrumentChange::QuantityMax(Quantity(wide)),
            8 => InstrumentChange::NotionalMax(wide),
            9 => InstrumentChange::TimeShare(narrow),
            10 => InstrumentChange::Allocation(Allocation::ProRata),
            _ => InstrumentChange::Allocation(Allocation::PriceTime),
        });
        let scope = || {
            let side = proptest::option::of(one_of(Side::ALL));
            let account = prop_oneof![Just(0), any::<u32>()];
            let group = any::<Option<u16>>();
            (any::<u16>(), text::<4>(), text::<8>(), side, group, account).prop_map(|it| Scope {
                session_id: SessionId(it.0),
                firm: it.1,
                symbol: it.2,
                side: it.3,
                group_id: it.4,
                account_id: AccountId(it.5),
            })
        };
        prop_oneof![
            (text::<8>(), one_of(Phase::ALL))
                .prop_map(|(symbol, phase)| VenueCommand::SetPhase(SetPhase::new(symbol, phase))),
            (text::<8>(), text::<4>(), any::<u32>()).prop_map(|(symbol, reason, release_s)| {
                let phase = Phase::OpeningAuction;
                VenueCommand::SetPhase(SetPhase { symbol, phase, reason, release_s })
            }),
            (text::<8>(), change).prop_map(|(symbol, change)| {
                VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
            }),
            text::<8>()
                .prop_map(|symbol| { VenueCommand::RemoveInstrument(RemoveInstrument { symbol }) }),
            scope().prop_map(VenueCommand::SupervisoryCancel),
            (scope(), any::<bool>()).prop_map(|(scope, blocked)| {
                VenueCommand::KillSwitch(BlockEntry { scope, blocked })
            }),
            any::<(u16, u32)>().prop_map(|(session_id, live_orders_max)| {
                let session_id = SessionId(session_id);
                VenueCommand::SetLiveOrdersMax(LiveOrdersMax { session_id, live_orders_max })
            }),
            any::<u16>().prop_map(|session_id| VenueCommand::LogOut(SessionId(session_id))),
            (scope(), any::<bool>()).prop_map(|(scope, blocked)| {
                VenueCommand::BlockEntry(BlockEntry { scope, blocked })
            }),
            (any::<u64>(), one_of(BustReason::ALL)).prop_map(|(trade_id, reason)| {
                VenueCommand::BustTrade(BustTrade { trade_id: TradeId(trade_id), reason })
            }),
            (any::<[u64; 3]>(), one_of(BustReason::ALL)).prop_map(|(numbers, reason)| {
                let [trade_id, price, quantity] = numbers;
                VenueCommand::CorrectTrade(CorrectTrade {
                    trade_id: TradeId(trade_id),
                    price: Price(price),
                    quantity: Quantity(quantity),
                    reason,
                })
            }),
        ]
    }

    fn operate() -> impl Strategy<Value = OperatorCommand> {
        let action = prop_oneof![
            venue().prop_map(OperatorAction::Venue),
            money().prop_map(OperatorAction::Money),
        ];
        (text::<16>(), any::<u64>(), action)
            .prop_map(|(operator, number, action)| OperatorCommand { operator, number, action })
    }

    fn command() -> impl Strategy<Value = Command> {
        prop_oneof![
            venue().prop_map(Command::Venue),
            money().prop_map(Command::Money),
            operate().prop_map(Command::Operate),
            one_of(SystemEvent::ALL).prop_map(Command::System),
            (text::<8>(), any::<(u64, u64)>()).prop_map(|(symbol, (increment, lot))| {
                Command::AddInstrument(AddInstrument {
                    symbol,
                    price_increment: Price(increment),
                    round_lot: Quantity(lot),
                })
            }),
            (text::<6>(), text::<4>(), any::<u32>(), one_of(SelfMatchPrevention::ALL)).prop_map(
                |(username, firm, live_orders_max, self_match_prevention)| {
                    Command::AddSession(AddSession {
                        username,
                        firm,
                        live_orders_max,
                        self_match_prevention,
                    })
                }
            ),
            enter(),
            replace(),
            (key(), any::<u64>()).prop_map(|(key, quantity)| {
                Command::Cancel(CancelOrder { key, quantity: Quantity(quantity) })
            }),
            (key(), one_of(Side::ALL), any::<u64>()).prop_map(|(key, side, quantity)| {
                Command::Modify(ModifyOrder { key, side, quantity: Quantity(quantity) })
            }),
            (
                key(),
                text::<4>(),
                text::<8>(),
                proptest::option::of(one_of(Side::ALL)),
                any::<Option<u16>>()
            )
                .prop_map(|(key, firm, symbol, side, group_id)| {
                    Command::MassCancel(MassCancel { key, firm, symbol, side, group_id })
                }),
            (key(), text::<4>(), any::<bool>()).prop_map(|(key, firm, enabled)| {
                Command::SwitchEntry(EntrySwitch { key, firm, enabled })
            }),
            any::<(u16, u8)>().prop_map(|(session_id, channel)| {
                Command::QueryAccount(AccountQuery { session_id: SessionId(session_id), channel })
            }),
            any::<u16>().prop_map(|session_id| {
                Command::CancelOnDisconnect(CancelOnDisconnect {
                    session_id: SessionId(session_id),
                })
            }),
            Just(Command::Time),
            (key(), text::<14>(), one_of(RejectReason::ALL)).prop_map(
                |(key, client_order_id, reason)| {
                    Command::Reject(RejectOrder { key, client_order_id, reason })
                }
            ),
        ]
    }

    proptest! {
        /// Each command round-trips through its bytes; one byte less or one more is an error.
        #[test]
        fn commands_come_back(command in command()) {
            let mut buffer = [0; Command::ENCODED_LEN_MAX];
            let len = command.encode(&mut buffer);
            prop_assert_eq!(Command::decode(&buffer[..len]), Ok(command));
            for short in 0..len {
                prop_assert_eq!(Command::decode(&buffer[..short]), Err(DecodeError::Short));
            }
            if len < buffer.len() {
                prop_assert!(Command::decode(&buffer[..=len]).is_err());
            }
        }

        /// Arbitrary bytes give an error or a command that encodes to the same bytes, never a
        /// panic.
        #[test]
        fn random_bytes_are_an_error_or_themselves(bytes in proptest::collection::vec(any::<u8>(), 0..=112)) {
            if let Ok(command) = Command::decode(&bytes) {
                let mut buffer = [0; Command::ENCODED_LEN_MAX];
                let len = command.encode(&mut buffer);
                prop_assert_eq!(&buffer[..len], &bytes[..]);
            }
        }
    }

    fn bytes(command: &Command) -> std::vec::Vec<u8> {
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let len = command.encode(&mut buffer);
        buffer[..len].to_vec()
    }

    /// Kinds are numbered from 1 without gaps; every number after the last is unknown.
    #[test]
    fn kinds_have_no_gaps() {
        let is_known = |kind: u8| !matches!(Command::decode(&[kind]), Err(DecodeError::Kind(found)) if found == kind);
        let next_free = (1..=u8::MAX).find(|kind| !is_known(*kind)).unwrap();
        assert_eq!(next_free, kind::OPERATE + 1);
        assert!((next_free..=u8::MAX).all(|kind| !is_known(kind)) && !is_known(0));
    }

    /// The venue's commands, byte by byte.
    #[test]
    fn golden_venue_commands() {
        let bytes = |command: VenueCommand| bytes(&Command::Venue(command));
        let symbol = Symbol::new("AAPL").unwrap();
        let phase = Phase::OpeningAuction;
        let reason = Text::new("T1").unwrap();
        let set = SetPhase { symbol, phase, reason, release_s: 258 };
        assert_eq!(bytes(VenueCommand::SetPhase(set)), b"\x0eAAPL    \x02T1  \x02\x01\0\0");
        let operator = Text::new("ALICE").unwrap();
        let action = OperatorAction::Venue(VenueCommand::LogOut(SessionId(258)));
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let asked = OperatorCommand { operator, number: 7, action };
        let len = Command::Operate(asked).encode(&mut buffer);
        assert_eq!(&buffer[..len], b"\x23ALICE           \x07\0\0\0\0\0\0\0\x22\x02\x01");
        let change = InstrumentChange::StaticBand(50_000);
        assert_eq!(
            bytes(VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })),
            b"\x0fAAPL    \x04\x50\xc3\0\0\0\0\0\0"
        );
        assert_eq!(
            bytes(VenueCommand::RemoveInstrument(RemoveInstrument { symbol })),
            b"\x10AAPL    "
        );
        let scope = Scope { symbol, side: Some(Side::Sell), group_id: Some(7), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x11\x01\0\0    AAPL    S\x07\0"
        );
        assert_eq!(
            bytes(VenueCommand::BlockEntry(BlockEntry { scope: Scope::ALL, blocked: true })),
            b"\x12\0\0\0            \0\x01"
        );
        let scope = Scope { symbol, account_id: AccountId(258), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x11\x02\0\0    AAPL    \0\x02\x01\0\0"
        );
        let (trade_id, reason) = (TradeId(9), BustReason::Consent);
        assert_eq!(
            bytes(VenueCommand::BustTrade(BustTrade { trade_id, reason })),
            b"\x13\x09\0\0\0\0\0\0\0C"
        );
        let correct = CorrectTrade { trade_id, price: Price(1), quantity: Quantity(2), reason };
        assert_eq!(
            bytes(VenueCommand::CorrectTrade(correct)),
            b"\x14\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0C"
        );
    }

    const ENTER: EnterOrder = EnterOrder {
        key: OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 7 },
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        quantity: Quantity(100),
        price: Price(1_503_400),
        symbol: Symbol::BLANK,
        attributes: OrderAttributes {
            client_order_id: ClientOrderId::BLANK,
            firm: Firm::BLANK,
            capacity: Capacity::Other,
            customer_type: CustomerType::SessionDefault,
            group_id: 0,
            shares_located: false,
            locate_broker: Firm::BLANK,
        },
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    };

    /// A plain order takes 37 bytes, and 51 with a client order id: default fields are left out.
    #[test]
    fn golden_enter_order() {
        let mut order = EnterOrder { symbol: Symbol::new("AAPL").unwrap(), ..ENTER };
        let mut expected = std::vec![5, 0, 1, 0, 0, 7, 0, 0, 0, b'B', b'L', b'0', b'Y'];
        expected.extend([100, 0, 0, 0, 0, 0, 0, 0, 0xa8, 0xf0, 0x16, 0, 0, 0, 0, 0]);
        expected.extend(b"AAPL    ");
        assert_eq!(bytes(&Command::Enter(order)), expected);
        order.attributes.client_order_id = ClientOrderId::new("mine").unwrap();
        expected[1] = 1;
        expected.extend(b"mine          ");
        assert_eq!(bytes(&Command::Enter(order)), expected);
        order.attributes.firm = Firm::new("FIRM").unwrap();
        order.attributes.group_id = 258;
        expected[1] = 3;
        expected.extend(b"FIRMO \x02\x01\0    ");
        assert_eq!(bytes(&Command::Enter(order)), expected);
    }

    /// A group with default values is an error.
    #[test]
    fn an_empty_group_is_an_error() {
        let mut order = bytes(&Command::Enter(ENTER));
        order[1] = 1;
        order.extend(b"              ");
        assert_eq!(Command::decode(&order), Err(DecodeError::Field("flags")));
        order[1] = 16;
        assert_eq!(Command::decode(&order), Err(DecodeError::Field("flags")));
    }

    /// A command without fields is one byte.
    #[test]
    fn golden_time() {
        assert_eq!(bytes(&Command::Time), [2]);
    }

    /// The conditions of a session, an order and a replace.
    #[test]
    fn golden_conditions() {
        let add = Command::AddSession(AddSession {
            username: Text::new("USER01").unwrap(),
            firm: Text::new("FIRM").unwrap(),
            live_orders_max: 5,
            self_match_prevention: SelfMatchPrevention::DecrementBoth,
        });
        assert_eq!(bytes(&add), b"\x04USER01FIRM\x05\0\0\0D");

        let conditions = Conditions {
            self_match_prevention: SelfMatchPrevention::CancelOldestOfSessions,
            self_match_group: Text::new("G1").unwrap(),
            post_only: true,
            minimum_quantity: Lots(258),
        };
        let enter = bytes(&Command::Enter(EnterOrder { conditions, ..ENTER }));
        assert_eq!((enter.len(), enter[0], enter[1]), (45, 5, 4));
        assert_eq!(&enter[37..], b"oG1\x01\x02\x01\0\0");

        let terms = ReplaceTerms {
            side: None,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Quantity(100),
            price: Price(1),
            client_order_id: ClientOrderId::BLANK,
            shares_located: false,
            locate_broker: Firm::BLANK,
            conditions: ConditionChanges::NONE,
            instructions: None,
        };
        let replace = |terms| {
            let (original_user_ref_num, key) = (6, ENTER.key);
            bytes(&Command::Replace(ReplaceOrder { original_user_ref_num, key, terms }))
        };
        assert_eq!(replace(None), b"\x06\0\x06\0\0\0\x01\0\0\x07\0\0\0");
        let plain = replace(Some(terms));
        assert_eq!((plain.len(), plain[0], plain[1]), (33, 6, 16));
        let conditions = ConditionChanges {
            post_only: Some(false),
            minimum_quantity: Some(Lots(3)),
            ..ConditionChanges::NONE
        };
        let changed = replace(Some(ReplaceTerms { conditions, ..terms }));
        assert_eq!((changed[1], &changed[33..]), (20, &b"\x0c\x03\0\0\0"[..]));
        let located = replace(Some(ReplaceTerms { shares_located: true, ..terms }));
        assert_eq!((located[1], &located[33..]), (18, &b"\x01    "[..]));
    }

    /// Instructions come last.
    #[test]
    fn golden_instructions() {
        let instructions = Instructions {
            pricing: Pricing::TrailingStop,
            all_or_none: true,
            slide: false,
            trigger: Ticks(1),
            offset: -2,
            shown_quantity: Lots(3),
            shown_range: Lots(4),
            expires_s: 5,
            parent: 6,
            partner: 7,
        };
        let enter = bytes(&Command::Enter(EnterOrder { instructions, ..ENTER }));
        assert_eq!((enter.len(), enter[0], enter[1]), (68, 5, 8));
        assert_eq!(&enter[37..48], b"F\x01\0\x01\0\0\0\xfe\xff\xff\xff");
        assert_eq!(&enter[48..], b"\x03\0\0\0\x04\0\0\0\x05\0\0\0\x06\0\0\0\x07\0\0\0");
    }
}
