//! Commands as bytes: the payload of a journal record. The byte map is in docs/journal.md.
//!
//! A command is one kind byte and then its fields. Fields that most orders leave out take no bytes.
//! To add a command: list its fields in `structs`, its kind in `enums`, and add a row to the byte
//! map.
//!
//! Invariant: a command has exactly one encoding.

use crate::{
    AccountQuery, AddAccount, AddAsset, AddInstrument, AddSession, AssignSession, BlockEntry,
    BustTrade, CancelOnDisconnect, CancelOrder, ClientOrderId, Command, ConditionChanges,
    Conditions, ConfigureInstrument, CorrectTrade, Deposit, EnterOrder, EntrySwitch, Firm,
    Indication, Instructions, InstrumentChange, LiveOrdersMax, MassCancel, ModifyOrder,
    MoneyCommand, MoneyTerms, OperatorAction, OperatorCommand, OperatorDecline, OperatorEffect,
    OperatorOutcome, OrderAttributes, OrderKey, Party, PastTrade, RejectOrder, RemoveInstrument,
    ReplaceOrder, ReplaceTerms, Scope, SetAccount, SetFees, SetPhase, SetTerms, StopAccount,
    Transfer, VenueCommand, Withdraw,
    bytes::{ByteReader, ByteWriter, DecodeError, Encoded},
    encoded, kinds,
};

/// Structs and their fields, in the order of the encoding.
macro_rules! structs {
    ($each:ident) => {
        $each! {
            // Of participants, and of the trading day.
            OrderKey { session_id, channel, user_ref_num }
            AddInstrument { symbol, price_increment, round_lot }
            AddSession { username, firm, live_orders_max, self_match_prevention }
            CancelOrder { key, quantity }
            ModifyOrder { key, side, quantity }
            MassCancel { key, firm, symbol, side, group_id }
            EntrySwitch { key, firm, enabled }
            AccountQuery { session_id, channel }
            CancelOnDisconnect { session_id }
            RejectOrder { key, client_order_id, reason }
            Conditions { self_match_prevention, self_match_group, post_only, minimum_quantity }
            ConditionChanges { self_match_prevention, self_match_group, post_only, minimum_quantity }
            Instructions {
                pricing, all_or_none, slide, trigger, offset, shown_quantity, shown_range, expires_s,
                parent, partner
            }

            // Of the venue.
            SetPhase { symbol, phase, reason, release_s }
            ConfigureInstrument { symbol, change }
            RemoveInstrument { symbol }
            Scope { session_id, firm, symbol, side, group_id, account_id }
            BlockEntry { scope, blocked }
            BustTrade { trade_id, reason }
            CorrectTrade { trade_id, price, quantity, reason }
            LiveOrdersMax { session_id, live_orders_max }

            // Of money.
            AddAsset { name, decimals }
            AddAccount { name }
            AssignSession { session_id, account_id }
            MoneyTerms {
                class, base, quote, base_units, quote_numerator, quote_denominator, quantity_max
            }
            SetTerms { symbol, terms }
            SetFees { tier, maker_ppm, taker_ppm }
            SetAccount { account_id, setting, asset_id, value }
            StopAccount { account_id, stopped }
            Deposit { account_id, asset_id, amount }
            Withdraw { account_id, asset_id, amount }
            Transfer { from, to, asset_id, amount }

            // Of operators.
            OperatorCommand { operator, number, action }
            OperatorEffect { orders_canceled, phases_changed, trades, movements, trade_id }

            // Of snapshots only.
            Indication { price, paired, imbalance, imbalance_is_buy }
            Party { key, order_id }
            PastTrade { trade_id, instrument_id, taker_is_buy, price, quantity, maker, taker }
        }
    };
}
structs!(encoded);

/// Enums and the kinds of their variants. Kinds are never changed or reused; a new command takes the
/// next free number of all commands.
macro_rules! enums {
    ($each:ident) => {
        $each! {
            Command {
                1 => System(event),
                2 => Time,
                3 => AddInstrument(add),
                4 => AddSession(add),
                5 => Enter(order),
                6 => Replace(replace),
                7 => Cancel(cancel),
                8 => Modify(modify),
                9 => MassCancel(cancel),
                10 => SwitchEntry(switch),
                11 => QueryAccount(query),
                12 => CancelOnDisconnect(cancel),
                13 => Reject(rejected),
                34 => Operate(command),
                35 => Note(note),
                else Venue, Money
            }
            VenueCommand {
                14 => SetPhase(set),
                15 => ConfigureInstrument(configure),
                16 => RemoveInstrument(remove),
                17 => SupervisoryCancel(scope),
                18 => BlockEntry(block),
                19 => BustTrade(bust),
                20 => CorrectTrade(correct),
                31 => KillSwitch(block),
                32 => SetLiveOrdersMax(set),
                33 => LogOut(session),
            }
            MoneyCommand {
                21 => AddAsset(add),
                22 => AddAccount(add),
                23 => AssignSession(assign),
                24 => SetTerms(set),
                25 => SetFees(set),
                26 => SetAccount(set),
                27 => StopAccount(stop),
                28 => Deposit(deposit),
                29 => Withdraw(withdraw),
                30 => Transfer(transfer),
            }
            OperatorAction { else Venue, Money }
            InstrumentChange {
                1 => PriceIncrement(increment),
                2 => RoundLot(lot),
                3 => ReferencePrice(price),
                4 => StaticBand(ppm),
                5 => DynamicBand(ppm),
                6 => PauseSeconds(seconds),
                7 => PriceCollar(ppm),
                8 => QuantityMax(quantity),
                9 => NotionalMax(notional),
                10 => Allocation(allocation),
                11 => TimeShare(ppm),
                12 => PegsMax(count),
                13 => SessionPegsMax(count),
            }
            OperatorOutcome { 1 => Done(effect), 2 => Declined(decline), }
            OperatorDecline {
                1 => Venue(reason),
                2 => Money(reason),
                3 => NumberUsed(last),
                4 => TooManyOperators,
            }
        }
    };
}
enums!(kinds);

impl Command {
    /// The longest encoded command, in bytes.
    pub const ENCODED_LEN_MAX: usize = 112;

    /// Encodes the command at the start of `buffer` and returns its length in bytes.
    pub fn encode(&self, buffer: &mut [u8; Self::ENCODED_LEN_MAX]) -> usize {
        let mut out = Writer { buffer, len: 0 };
        out.write(self);
        out.len
    }

    /// Decodes a command. `bytes` must be exactly the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// The bytes are not a command. Encoding the returned command gives the same bytes again.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = ByteReader::new(bytes);
        let [kind] = bytes.take()?;
        let command = bytes.read_kind(kind)?.ok_or(DecodeError::Kind(kind))?;
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

/// The flag byte: which groups a command has.
#[derive(Clone, Copy)]
struct Groups(u8);

impl Groups {
    /// Reads the flag byte; bits outside `known` are an error.
    fn read(from: &mut ByteReader<'_>, known: u8) -> Result<Self, DecodeError> {
        match from.take()? {
            [bits] if bits & !known == 0 => Ok(Self(bits)),
            _ => Err(DecodeError::Field("flags")),
        }
    }

    const fn with(self, is_there: bool, bit: u8) -> Self {
        Self(if is_there { self.0 | bit } else { self.0 })
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Writes a group if its bit is set.
    #[inline]
    fn write_group(self, bit: u8, group: &impl Encoded, out: &mut impl ByteWriter) {
        if self.has(bit) {
            out.write(group);
        }
    }

    /// Reads a group if its bit is set. A group with default values is an error.
    #[inline]
    fn read_group<T: Encoded + PartialEq>(
        self,
        bit: u8,
        absent: T,
        from: &mut ByteReader<'_>,
    ) -> Result<T, DecodeError> {
        if !self.has(bit) {
            return Ok(absent);
        }
        let group = from.read("group")?;
        if group == absent { Err(DecodeError::Field("flags")) } else { Ok(group) }
    }
}

// The group of attributes: all but the client order id, which is a group of its own.
encoded! {
    OrderAttributes {
        firm, capacity, customer_type, group_id, shares_located, locate_broker;
        client_order_id = ClientOrderId::BLANK
    }
    Locate { shares_located, locate_broker }
}

/// The group of attributes of a replace.
#[derive(Clone, Copy, PartialEq)]
struct Locate {
    shares_located: bool,
    locate_broker: Firm,
}

impl Locate {
    const NONE: Self = Self { shares_located: false, locate_broker: Firm::BLANK };
}

impl Encoded for EnterOrder {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        let Self { attributes, conditions, instructions, .. } = self;
        let client_order_id = ClientOrderId::BLANK;
        let others = OrderAttributes { client_order_id, ..*attributes };
        let groups = Groups(0)
            .with(attributes.client_order_id != client_order_id, has::CLIENT_ORDER_ID)
            .with(others != OrderAttributes::default(), has::ATTRIBUTES)
            .with(*conditions != Conditions::NONE, has::CONDITIONS)
            .with(instructions.is_some(), has::INSTRUCTIONS);
        out.write(&groups.0);
        out.write(&self.key);
        out.write(&self.side);
        out.write(&self.order_type);
        out.write(&self.time_in_force);
        out.write(&self.display);
        out.write(&self.quantity);
        out.write(&self.price);
        out.write(&self.symbol);
        groups.write_group(has::CLIENT_ORDER_ID, &attributes.client_order_id, out);
        groups.write_group(has::ATTRIBUTES, attributes, out);
        groups.write_group(has::CONDITIONS, conditions, out);
        groups.write_group(has::INSTRUCTIONS, instructions, out);
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let known = has::CLIENT_ORDER_ID | has::ATTRIBUTES | has::CONDITIONS | has::INSTRUCTIONS;
        let groups = Groups::read(from, known)?;
        Ok(Self {
            key: from.read("key")?,
            side: from.read("side")?,
            order_type: from.read("order_type")?,
            time_in_force: from.read("time_in_force")?,
            display: from.read("display")?,
            quantity: from.read("quantity")?,
            price: from.read("price")?,
            symbol: from.read("symbol")?,
            attributes: {
                let blank = ClientOrderId::BLANK;
                let client_order_id = groups.read_group(has::CLIENT_ORDER_ID, blank, from)?;
                let none = OrderAttributes::default();
                let others = groups.read_group(has::ATTRIBUTES, none, from)?;
                OrderAttributes { client_order_id, ..others }
            },
            conditions: groups.read_group(has::CONDITIONS, Conditions::NONE, from)?,
            instructions: groups.read_group(has::INSTRUCTIONS, Instructions::NONE, from)?,
        })
    }
}

impl Encoded for ReplaceOrder {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        let Some(terms) = &self.terms else {
            out.write(&0_u8);
            out.write(&self.original_user_ref_num);
            return out.write(&self.key);
        };
        let &ReplaceTerms { shares_located, locate_broker, .. } = terms;
        let locate = Locate { shares_located, locate_broker };
        let groups = Groups(has::TERMS)
            .with(terms.client_order_id != ClientOrderId::BLANK, has::CLIENT_ORDER_ID)
            .with(locate != Locate::NONE, has::ATTRIBUTES)
            .with(terms.conditions != ConditionChanges::NONE, has::CONDITIONS)
            .with(terms.instructions.is_some(), has::INSTRUCTIONS);
        out.write(&groups.0);
        out.write(&self.original_user_ref_num);
        out.write(&self.key);
        out.write(&terms.side);
        out.write(&terms.order_type);
        out.write(&terms.time_in_force);
        out.write(&terms.display);
        out.write(&terms.quantity);
        out.write(&terms.price);
        groups.write_group(has::CLIENT_ORDER_ID, &terms.client_order_id, out);
        groups.write_group(has::ATTRIBUTES, &locate, out);
        groups.write_group(has::CONDITIONS, &terms.conditions, out);
        if let Some(instructions) = &terms.instructions {
            out.write(instructions);
        }
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let known = has::CLIENT_ORDER_ID | has::ATTRIBUTES | has::CONDITIONS | has::INSTRUCTIONS;
        let groups = Groups::read(from, has::TERMS | known)?;
        if !groups.has(has::TERMS) && groups.0 != 0 {
            return Err(DecodeError::Field("flags"));
        }
        let original_user_ref_num = from.read("original_user_ref_num")?;
        let key = from.read("key")?;
        let terms = groups.has(has::TERMS).then(|| read_terms(groups, from)).transpose()?;
        Ok(Self { original_user_ref_num, key, terms })
    }
}

fn read_terms(groups: Groups, from: &mut ByteReader<'_>) -> Result<ReplaceTerms, DecodeError> {
    let side = from.read("side")?;
    let order_type = from.read("order_type")?;
    let time_in_force = from.read("time_in_force")?;
    let display = from.read("display")?;
    let quantity = from.read("quantity")?;
    let price = from.read("price")?;
    let client_order_id = groups.read_group(has::CLIENT_ORDER_ID, ClientOrderId::BLANK, from)?;
    let Locate { shares_located, locate_broker } =
        groups.read_group(has::ATTRIBUTES, Locate::NONE, from)?;
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
        conditions: groups.read_group(has::CONDITIONS, ConditionChanges::NONE, from)?,
        instructions: if groups.has(has::INSTRUCTIONS) {
            Some(from.read("instructions")?)
        } else {
            None
        },
    })
}

#[cfg(test)]
mod tests;
