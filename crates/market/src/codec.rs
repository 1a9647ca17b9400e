//! Commands as bytes: the payload of a journal record. The byte map is in docs/journal.md.
//!
//! Little-endian, one leading kind byte, fields in the order of the struct. Kinds and codes are
//! never renumbered; a new field takes a new kind.

mod money;
mod venue;

use core::fmt;

use crate::{
    AccountQuery, AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, Capacity,
    ClientOrderId, Command, ConditionChanges, Conditions, CustomerType, Display, EnterOrder,
    EntrySwitch, Firm, Instructions, Lots, MassCancel, ModifyOrder, OrderAttributes, OrderKey,
    OrderType, Price, Pricing, Quantity, RefusedOrder, RejectReason, ReplaceOrder, ReplaceTerms,
    SelfMatchPrevention, SessionId, Side, SystemEvent, Text, Ticks, TimeInForce,
};

const SYSTEM: u8 = 1;
const ADD_INSTRUMENT: u8 = 2;
const ADD_SESSION: u8 = 3;
const ENTER: u8 = 4;
const REPLACE: u8 = 5;
const REPLACE_INVALID: u8 = 6;
const CANCEL: u8 = 7;
const MODIFY: u8 = 8;
const MASS_CANCEL: u8 = 9;
const SWITCH_ENTRY: u8 = 10;
const QUERY_ACCOUNT: u8 = 11;
const REFUSE: u8 = 12;
const ADD_SESSION_WITH_PREVENTION: u8 = 13;
const ENTER_WITH_CONDITIONS: u8 = 14;
const REPLACE_WITH_CONDITIONS: u8 = 15;
const CANCEL_ON_DISCONNECT: u8 = 16;
const ENTER_WITH_INSTRUCTIONS: u8 = 17;
const REPLACE_WITH_INSTRUCTIONS: u8 = 18;
const TIME: u8 = 40;

/// Bytes that are not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end before the command does.
    Short,
    /// They go on after the command.
    Long,
    /// No command has this kind.
    Kind(u8),
    /// A field has a value that was never written.
    Field(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "the command is cut short"),
            Self::Long => write!(f, "bytes follow the command"),
            Self::Kind(kind) => write!(f, "no command has kind {kind}"),
            Self::Field(name) => write!(f, "field {name} has a value that was never written"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl Command {
    /// The longest encoded command, in bytes.
    pub const ENCODED_LEN_MAX: usize = 112;

    /// Writes the command to the front of `buffer` and says how many bytes it took.
    pub fn encode(&self, buffer: &mut [u8; Self::ENCODED_LEN_MAX]) -> usize {
        let mut out = Writer { buffer, len: 0 };
        match self {
            Self::System(event) => {
                out.u8(SYSTEM);
                out.u8(event.code());
            }
            Self::AddInstrument(add) => {
                out.u8(ADD_INSTRUMENT);
                out.text(&add.symbol);
                out.u64(add.price_increment.0);
                out.u64(add.round_lot.0);
            }
            Self::AddSession(add) => {
                let prevention = add.self_match_prevention;
                let prevents = prevention != SelfMatchPrevention::Off;
                out.u8(if prevents { ADD_SESSION_WITH_PREVENTION } else { ADD_SESSION });
                out.text(&add.username);
                out.text(&add.firm);
                out.u32(add.live_orders_max);
                if prevents {
                    out.u8(prevention.code());
                }
            }
            Self::Enter(order) => {
                let instructed = order.instructions.is_some();
                let conditional = instructed || order.conditions != Conditions::NONE;
                out.u8(match conditional {
                    false => ENTER,
                    true if instructed => ENTER_WITH_INSTRUCTIONS,
                    true => ENTER_WITH_CONDITIONS,
                });
                out.key(&order.key);
                out.u8(order.side.code());
                out.u8(order.order_type.code());
                out.u8(order.time_in_force.code());
                out.u8(order.display.code());
                out.u64(order.quantity.0);
                out.u64(order.price.0);
                out.text(&order.symbol);
                out.attributes(&order.attributes);
                if conditional {
                    out.conditions(&order.conditions);
                }
                if instructed {
                    out.instructions(&order.instructions);
                }
            }
            Self::Replace(replace) => {
                out.u8(match &replace.terms {
                    None => REPLACE_INVALID,
                    Some(terms) if terms.instructions.is_some() => REPLACE_WITH_INSTRUCTIONS,
                    Some(terms) if terms.conditions == ConditionChanges::NONE => REPLACE,
                    Some(_) => REPLACE_WITH_CONDITIONS,
                });
                out.u32(replace.original_user_ref_num);
                out.key(&replace.key);
                if let Some(terms) = &replace.terms {
                    out.u8(terms.side.map_or(0, Side::code));
                    out.u8(terms.order_type.code());
                    out.u8(terms.time_in_force.code());
                    out.u8(terms.display.code());
                    out.u64(terms.quantity.0);
                    out.u64(terms.price.0);
                    out.text(&terms.client_order_id);
                    out.u8(u8::from(terms.shares_located));
                    out.text(&terms.locate_broker);
                    if terms.conditions != ConditionChanges::NONE || terms.instructions.is_some() {
                        out.condition_changes(&terms.conditions);
                    }
                    if let Some(instructions) = &terms.instructions {
                        out.instructions(instructions);
                    }
                }
            }
            Self::Cancel(cancel) => {
                out.u8(CANCEL);
                out.key(&cancel.key);
                out.u64(cancel.quantity.0);
            }
            Self::Modify(modify) => {
                out.u8(MODIFY);
                out.key(&modify.key);
                out.u8(modify.side.code());
                out.u64(modify.quantity.0);
            }
            Self::MassCancel(mass) => {
                out.u8(MASS_CANCEL);
                out.key(&mass.key);
                out.text(&mass.firm);
                out.text(&mass.symbol);
                out.u8(mass.side.map_or(0, Side::code));
                out.u8(u8::from(mass.group_id.is_some()));
                out.u16(mass.group_id.unwrap_or(0));
            }
            Self::SwitchEntry(switch) => {
                out.u8(SWITCH_ENTRY);
                out.key(&switch.key);
                out.text(&switch.firm);
                out.u8(u8::from(switch.enabled));
            }
            Self::QueryAccount(query) => {
                out.u8(QUERY_ACCOUNT);
                out.u16(query.session_id.0);
                out.u8(query.channel);
            }
            Self::CancelOnDisconnect(cancel) => {
                out.u8(CANCEL_ON_DISCONNECT);
                out.u16(cancel.session_id.0);
            }
            Self::Time => out.u8(TIME),
            Self::Refuse(refused) => {
                out.u8(REFUSE);
                out.key(&refused.key);
                out.text(&refused.client_order_id);
                out.u8(refused.reason.code());
            }
            Self::Money(command) => out.money(command),
            Self::Venue(command) => out.venue(command),
        }
        out.len
    }

    /// Reads a command that [`encode`](Self::encode) wrote; `bytes` is exactly that command.
    ///
    /// # Errors
    /// The bytes are not a command; nothing else is ever returned for them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Reader(bytes);
        let command = match bytes.u8()? {
            SYSTEM => Self::System(bytes.code("system event", SystemEvent::from_code)?),
            ADD_INSTRUMENT => Self::AddInstrument(AddInstrument {
                symbol: bytes.text("symbol")?,
                price_increment: Price(bytes.u64()?),
                round_lot: Quantity(bytes.u64()?),
            }),
            kind @ (ADD_SESSION | ADD_SESSION_WITH_PREVENTION) => Self::AddSession(AddSession {
                username: bytes.text("username")?,
                firm: bytes.text("firm")?,
                live_orders_max: bytes.u32()?,
                self_match_prevention: match kind {
                    ADD_SESSION => SelfMatchPrevention::Off,
                    _ => bytes.written_for("self-match prevention", Reader::prevention, |it| {
                        *it != SelfMatchPrevention::Off
                    })?,
                },
            }),
            kind @ (ENTER | ENTER_WITH_CONDITIONS | ENTER_WITH_INSTRUCTIONS) => {
                Self::Enter(EnterOrder {
                    key: bytes.key()?,
                    side: bytes.code("side", Side::from_code)?,
                    order_type: bytes.code("order type", OrderType::from_code)?,
                    time_in_force: bytes.code("time in force", TimeInForce::from_code)?,
                    display: bytes.code("display", Display::from_code)?,
                    quantity: Quantity(bytes.u64()?),
                    price: Price(bytes.u64()?),
                    symbol: bytes.text("symbol")?,
                    attributes: bytes.attributes()?,
                    conditions: match kind {
                        ENTER => Conditions::NONE,
                        ENTER_WITH_INSTRUCTIONS => bytes.conditions()?,
                        _ => bytes.written_for("conditions", Reader::conditions, |it| {
                            *it != Conditions::NONE
                        })?,
                    },
                    instructions: match kind {
                        ENTER_WITH_INSTRUCTIONS => {
                            bytes.written_for("instructions", Reader::instructions, |it| {
                                it.is_some()
                            })?
                        }
                        _ => Instructions::NONE,
                    },
                })
            }
            kind @ (REPLACE
            | REPLACE_INVALID
            | REPLACE_WITH_CONDITIONS
            | REPLACE_WITH_INSTRUCTIONS) => Self::Replace(ReplaceOrder {
                original_user_ref_num: bytes.u32()?,
                key: bytes.key()?,
                terms: match kind {
                    REPLACE_INVALID => None,
                    _ => Some(bytes.terms(kind)?),
                },
            }),
            CANCEL => {
                Self::Cancel(CancelOrder { key: bytes.key()?, quantity: Quantity(bytes.u64()?) })
            }
            MODIFY => Self::Modify(ModifyOrder {
                key: bytes.key()?,
                side: bytes.code("side", Side::from_code)?,
                quantity: Quantity(bytes.u64()?),
            }),
            MASS_CANCEL => Self::MassCancel(MassCancel {
                key: bytes.key()?,
                firm: bytes.text("firm")?,
                symbol: bytes.text("symbol")?,
                side: bytes.side_or_none()?,
                group_id: bytes.group_or_none()?,
            }),
            SWITCH_ENTRY => Self::SwitchEntry(EntrySwitch {
                key: bytes.key()?,
                firm: bytes.text("firm")?,
                enabled: bytes.flag("enabled")?,
            }),
            QUERY_ACCOUNT => Self::QueryAccount(AccountQuery {
                session_id: SessionId(bytes.u16()?),
                channel: bytes.u8()?,
            }),
            REFUSE => Self::Refuse(RefusedOrder {
                key: bytes.key()?,
                client_order_id: bytes.text("client order id")?,
                reason: bytes.code("reject reason", RejectReason::from_code)?,
            }),
            CANCEL_ON_DISCONNECT => {
                Self::CancelOnDisconnect(CancelOnDisconnect { session_id: SessionId(bytes.u16()?) })
            }
            TIME => Self::Time,
            kind @ (venue::SET_PHASE..=venue::CORRECT_TRADE
            | venue::SUPERVISORY_CANCEL_OF_ACCOUNT
            | venue::BLOCK_ENTRY_OF_ACCOUNT) => Self::Venue(bytes.venue(kind)?),
            kind => Self::Money(bytes.money(kind)?),
        };
        if bytes.0.is_empty() { Ok(command) } else { Err(DecodeError::Long) }
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8; Command::ENCODED_LEN_MAX],
    len: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.buffer[self.len..self.len + N].copy_from_slice(bytes);
        self.len += N;
    }

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn text<const N: usize>(&mut self, text: &Text<N>) {
        self.put(text.as_bytes());
    }

    fn key(&mut self, key: &OrderKey) {
        self.u16(key.session_id.0);
        self.u8(key.channel);
        self.u32(key.user_ref_num);
    }

    fn attributes(&mut self, attributes: &OrderAttributes) {
        self.text(&attributes.client_order_id);
        self.text(&attributes.firm);
        self.u8(attributes.capacity.code());
        self.u8(attributes.customer_type.code());
        self.u16(attributes.group_id);
        self.u8(u8::from(attributes.shares_located));
        self.text(&attributes.locate_broker);
    }

    fn conditions(&mut self, conditions: &Conditions) {
        self.u8(conditions.self_match_prevention.code());
        self.text(&conditions.self_match_group);
        self.u8(u8::from(conditions.post_only));
        self.u32(conditions.minimum_quantity.0);
    }

    fn instructions(&mut self, instructions: &Instructions) {
        self.u8(instructions.pricing.code());
        self.u8(u8::from(instructions.all_or_none));
        self.u8(u8::from(instructions.slide));
        self.u32(instructions.trigger.0);
        self.put(&instructions.offset.to_le_bytes());
        self.u32(instructions.shown_quantity.0);
        self.u32(instructions.shown_range.0);
        self.u32(instructions.expires_s);
        self.u32(instructions.parent);
        self.u32(instructions.partner);
    }

    fn lots_or_none(&mut self, lots: Option<Lots>) {
        self.u8(u8::from(lots.is_some()));
        self.u32(lots.map_or(0, |lots| lots.0));
    }

    /// What is not named is zeros.
    fn condition_changes(&mut self, changes: &ConditionChanges) {
        self.u8(changes.self_match_prevention.map_or(0, SelfMatchPrevention::code));
        self.put(&changes.self_match_group.map_or([0; 2], |group| *group.as_bytes()));
        self.u8(changes.post_only.map_or(0, |post_only| if post_only { b'P' } else { b'N' }));
        self.lots_or_none(changes.minimum_quantity);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field(name)),
        }
    }

    fn text<const N: usize>(&mut self, name: &'static str) -> Result<Text<N>, DecodeError> {
        Text::from_bytes(self.take()?).ok_or(DecodeError::Field(name))
    }

    fn code<T>(
        &mut self,
        name: &'static str,
        from_code: impl Fn(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        from_code(self.u8()?).ok_or(DecodeError::Field(name))
    }

    fn side_or_none(&mut self) -> Result<Option<Side>, DecodeError> {
        match self.u8()? {
            0 => Ok(None),
            code => Side::from_code(code).map(Some).ok_or(DecodeError::Field("side")),
        }
    }

    fn group_or_none(&mut self) -> Result<Option<u16>, DecodeError> {
        let given = self.flag("group given")?;
        let group_id = self.u16()?;
        if !given && group_id != 0 {
            return Err(DecodeError::Field("group"));
        }
        Ok(given.then_some(group_id))
    }

    fn key(&mut self) -> Result<OrderKey, DecodeError> {
        Ok(OrderKey {
            session_id: SessionId(self.u16()?),
            channel: self.u8()?,
            user_ref_num: self.u32()?,
        })
    }

    fn attributes(&mut self) -> Result<OrderAttributes, DecodeError> {
        Ok(OrderAttributes {
            client_order_id: self.text("client order id")?,
            firm: self.text("firm")?,
            capacity: self.code("capacity", Capacity::from_code)?,
            customer_type: self.code("customer type", CustomerType::from_code)?,
            group_id: self.u16()?,
            shares_located: self.flag("shares located")?,
            locate_broker: self.text("locate broker")?,
        })
    }

    fn prevention(&mut self) -> Result<SelfMatchPrevention, DecodeError> {
        self.code("self-match prevention", SelfMatchPrevention::from_code)
    }

    fn conditions(&mut self) -> Result<Conditions, DecodeError> {
        Ok(Conditions {
            self_match_prevention: self.prevention()?,
            self_match_group: self.text("self-match group")?,
            post_only: self.flag("post only")?,
            minimum_quantity: Lots(self.u32()?),
        })
    }

    fn instructions(&mut self) -> Result<Instructions, DecodeError> {
        Ok(Instructions {
            pricing: self.code("pricing", Pricing::from_code)?,
            all_or_none: self.flag("all or none")?,
            slide: self.flag("slide")?,
            trigger: Ticks(self.u32()?),
            offset: i32::from_le_bytes(self.take()?),
            shown_quantity: Lots(self.u32()?),
            shown_range: Lots(self.u32()?),
            expires_s: self.u32()?,
            parent: self.u32()?,
            partner: self.u32()?,
        })
    }

    fn lots_or_none(&mut self, name: &'static str) -> Result<Option<Lots>, DecodeError> {
        match (self.flag(name)?, self.u32()?) {
            (true, lots) => Ok(Some(Lots(lots))),
            (false, 0) => Ok(None),
            (false, _) => Err(DecodeError::Field(name)),
        }
    }

    fn condition_changes(&mut self) -> Result<ConditionChanges, DecodeError> {
        Ok(ConditionChanges {
            self_match_prevention: match self.u8()? {
                0 => None,
                code => Some(
                    SelfMatchPrevention::from_code(code)
                        .ok_or(DecodeError::Field("self-match prevention"))?,
                ),
            },
            self_match_group: match self.take()? {
                [0, 0] => None,
                bytes => {
                    Some(Text::from_bytes(bytes).ok_or(DecodeError::Field("self-match group"))?)
                }
            },
            post_only: match self.u8()? {
                0 => None,
                b'P' => Some(true),
                b'N' => Some(false),
                _ => return Err(DecodeError::Field("post only")),
            },
            minimum_quantity: self.lots_or_none("minimum quantity")?,
        })
    }

    /// Reads what is only written where it says something, so that a command has one encoding.
    fn written_for<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
        is_written: impl Fn(&T) -> bool,
    ) -> Result<T, DecodeError> {
        let value = read(self)?;
        if is_written(&value) { Ok(value) } else { Err(DecodeError::Field(name)) }
    }

    fn terms(&mut self, kind: u8) -> Result<ReplaceTerms, DecodeError> {
        Ok(ReplaceTerms {
            side: self.side_or_none()?,
            order_type: self.code("order type", OrderType::from_code)?,
            time_in_force: self.code("time in force", TimeInForce::from_code)?,
            display: self.code("display", Display::from_code)?,
            quantity: Quantity(self.u64()?),
            price: Price(self.u64()?),
            client_order_id: self.text::<{ size_of::<ClientOrderId>() }>("client order id")?,
            shares_located: self.flag("shares located")?,
            locate_broker: self.text::<{ size_of::<Firm>() }>("locate broker")?,
            conditions: match kind {
                REPLACE => ConditionChanges::NONE,
                REPLACE_WITH_INSTRUCTIONS => self.condition_changes()?,
                _ => self.written_for("conditions", Self::condition_changes, |it| {
                    *it != ConditionChanges::NONE
                })?,
            },
            instructions: match kind {
                REPLACE_WITH_INSTRUCTIONS => Some(self.instructions()?),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        AccountId, AccountSetting, AddAccount, AddAsset, AssetId, AssignSession, Deposit,
        MoneyClass, MoneyCommand, MoneyTerms, MoveIn, MoveOut, SetAccount, SetFees, SetTerms,
        ShardId, StopAccount, Transfer, Units, Withdraw,
    };
    use crate::{
        Allocation, BlockEntry, BreakReason, BreakTrade, ConfigureInstrument, CorrectTrade,
        InstrumentChange, Phase, RemoveInstrument, Scope, SetPhase, Symbol, TradeId, VenueCommand,
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
            (move_of.clone(), any::<u32>()).prop_map(|((from, asset_id, amount), to)| {
                MoneyCommand::Transfer(Transfer { from, to: AccountId(to), asset_id, amount })
            }),
            (move_of.clone(), any::<u16>()).prop_map(|((account_id, asset_id, amount), to)| {
                MoneyCommand::MoveOut(MoveOut { account_id, asset_id, amount, to: ShardId(to) })
            }),
            (move_of, any::<(u16, u64)>()).prop_map(|(it, (from, number))| {
                let (account_id, asset_id, amount) = it;
                let from = ShardId(from);
                MoneyCommand::MoveIn(MoveIn { account_id, asset_id, amount, from, number })
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
                .prop_map(|(symbol, phase)| VenueCommand::SetPhase(SetPhase { symbol, phase })),
            (text::<8>(), change).prop_map(|(symbol, change)| {
                VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
            }),
            text::<8>()
                .prop_map(|symbol| { VenueCommand::RemoveInstrument(RemoveInstrument { symbol }) }),
            scope().prop_map(VenueCommand::SupervisoryCancel),
            (scope(), any::<bool>()).prop_map(|(scope, blocked)| {
                VenueCommand::BlockEntry(BlockEntry { scope, blocked })
            }),
            (any::<u64>(), one_of(BreakReason::ALL)).prop_map(|(trade_id, reason)| {
                VenueCommand::BreakTrade(BreakTrade { trade_id: TradeId(trade_id), reason })
            }),
            (any::<[u64; 3]>(), one_of(BreakReason::ALL)).prop_map(|(numbers, reason)| {
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

    fn command() -> impl Strategy<Value = Command> {
        prop_oneof![
            venue().prop_map(Command::Venue),
            money().prop_map(Command::Money),
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
                    Command::Refuse(RefusedOrder { key, client_order_id, reason })
                }
            ),
        ]
    }

    proptest! {
        /// Every command comes back from its bytes, and from no fewer and no more of them.
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

        /// Bytes that were never written are an error, never a panic, and what is read is
        /// written back the same.
        #[test]
        fn random_bytes_are_an_error_or_themselves(bytes in proptest::collection::vec(any::<u8>(), 0..=112)) {
            if let Ok(command) = Command::decode(&bytes) {
                let mut buffer = [0; Command::ENCODED_LEN_MAX];
                let len = command.encode(&mut buffer);
                prop_assert_eq!(&buffer[..len], &bytes[..]);
            }
        }
    }

    /// The bytes of the venue's own commands never change either.
    #[test]
    fn golden_venue_commands() {
        let bytes = |command: VenueCommand| {
            let mut buffer = [0; Command::ENCODED_LEN_MAX];
            let len = Command::Venue(command).encode(&mut buffer);
            buffer[..len].to_vec()
        };
        let symbol = Symbol::new("AAPL").unwrap();
        let phase = Phase::OpeningAuction;
        assert_eq!(bytes(VenueCommand::SetPhase(SetPhase { symbol, phase })), b"\x14AAPL    \x02");
        let change = InstrumentChange::StaticBand(50_000);
        assert_eq!(
            bytes(VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })),
            b"\x15AAPL    \x04\x50\xc3\0\0\0\0\0\0"
        );
        assert_eq!(
            bytes(VenueCommand::RemoveInstrument(RemoveInstrument { symbol })),
            b"\x16AAPL    "
        );
        let scope = Scope { symbol, side: Some(Side::Sell), group_id: Some(7), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x17\0\0    AAPL    S\x01\x07\0"
        );
        assert_eq!(
            bytes(VenueCommand::BlockEntry(BlockEntry { scope: Scope::ALL, blocked: true })),
            b"\x18\0\0            \0\0\0\0\x01"
        );
        let scope = Scope { symbol, account_id: AccountId(258), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x2d\0\0    AAPL    \0\0\0\0\x02\x01\0\0"
        );
        assert_eq!(
            bytes(VenueCommand::BlockEntry(BlockEntry { scope, blocked: true })),
            b"\x2e\0\0    AAPL    \0\0\0\0\x02\x01\0\0\x01"
        );
        let (trade_id, reason) = (TradeId(9), BreakReason::Consent);
        assert_eq!(
            bytes(VenueCommand::BreakTrade(BreakTrade { trade_id, reason })),
            b"\x19\x09\0\0\0\0\0\0\0C"
        );
        let correct = CorrectTrade { trade_id, price: Price(1), quantity: Quantity(2), reason };
        assert_eq!(
            bytes(VenueCommand::CorrectTrade(correct)),
            b"\x1a\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0C"
        );
    }

    /// The bytes of a stored command never change: an old journal must always replay.
    #[test]
    fn golden_enter_order() {
        let command = Command::Enter(EnterOrder {
            key: OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 7 },
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Quantity(100),
            price: Price(1_503_400),
            symbol: Symbol::new("AAPL").unwrap(),
            attributes: OrderAttributes::default(),
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        });
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let len = command.encode(&mut buffer);
        let mut expected = std::vec![4, 1, 0, 0, 7, 0, 0, 0, b'B', b'L', b'0', b'Y'];
        expected.extend([100, 0, 0, 0, 0, 0, 0, 0, 0xa8, 0xf0, 0x16, 0, 0, 0, 0, 0]);
        expected.extend(b"AAPL                  ");
        expected.extend(b"    O ");
        expected.extend([0, 0, 0]);
        expected.extend(b"    ");
        assert_eq!(&buffer[..len], &expected[..]);
    }

    /// A command without fields is its kind.
    #[test]
    fn golden_time() {
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let len = Command::Time.encode(&mut buffer);
        assert_eq!(&buffer[..len], [40]);
    }

    /// Conditions follow what was there before, each kind in its own order of bytes.
    #[test]
    fn golden_conditions() {
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let add = Command::AddSession(AddSession {
            username: Text::new("USER01").unwrap(),
            firm: Text::new("FIRM").unwrap(),
            live_orders_max: 5,
            self_match_prevention: SelfMatchPrevention::DecrementBoth,
        });
        let len = add.encode(&mut buffer);
        assert_eq!(&buffer[..len], b"\x0dUSER01FIRM\x05\0\0\0D");

        let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 7 };
        let enter = Command::Enter(EnterOrder {
            key,
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::ImmediateOrCancel,
            display: Display::Hidden,
            quantity: Quantity(100),
            price: Price(1),
            symbol: Symbol::new("AAPL").unwrap(),
            attributes: OrderAttributes::default(),
            conditions: Conditions {
                self_match_prevention: SelfMatchPrevention::CancelOldestOfSessions,
                self_match_group: Text::new("G1").unwrap(),
                post_only: true,
                minimum_quantity: Lots(258),
            },
            instructions: Instructions::NONE,
        });
        let len = enter.encode(&mut buffer);
        assert_eq!((len, buffer[0], buffer[11]), (71, 14, b'N'));
        assert_eq!(&buffer[63..len], b"oG1\x01\x02\x01\0\0");

        let replace = |conditions| {
            Command::Replace(ReplaceOrder {
                original_user_ref_num: 6,
                key,
                terms: Some(ReplaceTerms {
                    side: None,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::Day,
                    display: Display::Visible,
                    quantity: Quantity(100),
                    price: Price(1),
                    client_order_id: ClientOrderId::BLANK,
                    shares_located: false,
                    locate_broker: Firm::BLANK,
                    conditions,
                    instructions: None,
                }),
            })
        };
        let changes = ConditionChanges { post_only: Some(false), ..ConditionChanges::NONE };
        let len = replace(changes).encode(&mut buffer);
        assert_eq!((len, buffer[0]), (60, 15));
        assert_eq!(&buffer[51..len], b"\0\0\0N\0\0\0\0\0");
        let len = replace(ConditionChanges::NONE).encode(&mut buffer);
        assert_eq!((len, buffer[0]), (51, 5));
    }

    /// Instructions follow the conditions, which are written even where there are none.
    #[test]
    fn golden_instructions() {
        let mut buffer = [0; Command::ENCODED_LEN_MAX];
        let enter = Command::Enter(EnterOrder {
            key: OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 7 },
            side: Side::Sell,
            order_type: OrderType::MarketToLimit,
            time_in_force: TimeInForce::GoodTillTime,
            display: Display::Visible,
            quantity: Quantity(100),
            price: Price(0),
            symbol: Symbol::new("AAPL").unwrap(),
            attributes: OrderAttributes::default(),
            conditions: Conditions::NONE,
            instructions: Instructions {
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
            },
        });
        let len = enter.encode(&mut buffer);
        assert_eq!((len, buffer[0], buffer[9], buffer[10]), (102, 17, b'K', b'6'));
        assert_eq!(&buffer[63..71], b"*  \0\0\0\0\0");
        assert_eq!(&buffer[71..82], b"F\x01\0\x01\0\0\0\xfe\xff\xff\xff");
        assert_eq!(&buffer[82..len], b"\x03\0\0\0\x04\0\0\0\x05\0\0\0\x06\0\0\0\x07\0\0\0");
    }
}
