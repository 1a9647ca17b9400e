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
                pricing, handling, trigger, offset, shown_quantity, shown_range, expires_s,
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
    pub const ENCODED_LEN_MAX: usize = 116;

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
        let Self { attributes, conditions, instructions, quantity, price, .. } = *self;
        let (attributes, conditions, instructions) = (&attributes, &conditions, &instructions);
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
        out.write(&quantity);
        out.write(&price);
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
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        AccountId, AccountSetting, Allocation, AssetId, BustReason, Capacity, CustomerType,
        DeclineReason, Display, Handling, InstrumentId, Lots, MoneyClass, Note, OrderId, OrderType,
        Phase, Price, Pricing, Quantity, RejectReason, SelfMatchPrevention, SessionId, Side,
        SplitMix64, Symbol, SystemEvent, Text, Ticks, TimeInForce, TradeId, Units,
        VenueDeclineReason,
    };

    /// A random value of a type, with every variant and every optional field now and then.
    trait Sample: Sized {
        fn sample(random: &mut SplitMix64) -> Self;
    }

    /// The whole type from one expression.
    macro_rules! sampled_by {
        ($random:ident: $($name:ty = $value:expr;)*) => {$(
            impl Sample for $name {
                fn sample($random: &mut SplitMix64) -> Self {
                    $value
                }
            }
        )*};
    }

    sampled_by! { random:
        u8 = random.next_u64() as u8;
        u16 = random.next_u64() as u16;
        u32 = random.next_u64() as u32;
        i32 = random.next_u64() as i32;
        u64 = random.next_u64();
        bool = random.below(2) == 0;
        Lots = Lots::new(random.next_u64() >> 16);
        Handling = Handling::new(Sample::sample(random), Sample::sample(random));
        Units = Units::new(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
        EnterOrder = EnterOrder {
            key: Sample::sample(random),
            side: Sample::sample(random),
            order_type: Sample::sample(random),
            time_in_force: Sample::sample(random),
            display: Sample::sample(random),
            quantity: Sample::sample(random),
            price: Sample::sample(random),
            symbol: Sample::sample(random),
            attributes: OrderAttributes {
                client_order_id: maybe(random, ClientOrderId::BLANK),
                ..maybe(random, OrderAttributes::default())
            },
            conditions: maybe(random, Conditions::NONE),
            instructions: maybe(random, Instructions::NONE),
        };
        OrderAttributes = OrderAttributes {
            client_order_id: ClientOrderId::BLANK,
            firm: Sample::sample(random),
            capacity: Sample::sample(random),
            customer_type: Sample::sample(random),
            group_id: Sample::sample(random),
            shares_located: Sample::sample(random),
            locate_broker: Sample::sample(random),
        };
        ReplaceTerms = ReplaceTerms {
            side: Sample::sample(random),
            order_type: Sample::sample(random),
            time_in_force: Sample::sample(random),
            display: Sample::sample(random),
            quantity: Sample::sample(random),
            price: Sample::sample(random),
            client_order_id: maybe(random, ClientOrderId::BLANK),
            shares_located: Sample::sample(random),
            locate_broker: maybe(random, Firm::BLANK),
            conditions: Sample::sample(random),
            instructions: Sample::sample(random),
        };
    }

    /// The default of a group, or a value.
    fn maybe<T: Sample>(random: &mut SplitMix64, default: T) -> T {
        if random.below(2) == 0 { default } else { Sample::sample(random) }
    }

    impl<T: Sample> Sample for Option<T> {
        fn sample(random: &mut SplitMix64) -> Self {
            (random.below(2) == 0).then(|| Sample::sample(random))
        }
    }

    impl<const N: usize> Sample for Text<N> {
        fn sample(random: &mut SplitMix64) -> Self {
            let printable = [(); N].map(|()| b' ' + random.below(95) as u8);
            Self::from_bytes(printable).unwrap()
        }
    }

    impl Sample for Note {
        fn sample(random: &mut SplitMix64) -> Self {
            let bytes = [(); Self::LEN_MAX].map(|()| Sample::sample(random));
            let len = random.below(Self::LEN_MAX as u64 + 1) as usize;
            Self::new(Sample::sample(random), &bytes[..len]).unwrap()
        }
    }

    macro_rules! sampled_newtypes {
        ($($name:ident)*) => {$(
            impl Sample for $name {
                fn sample(random: &mut SplitMix64) -> Self {
                    Self(Sample::sample(random))
                }
            }
        )*};
    }

    sampled_newtypes! {
        AccountId AssetId InstrumentId OrderId Price Quantity SessionId Ticks TradeId
    }

    macro_rules! sampled_codes {
        ($($name:ident)*) => {$(
            impl Sample for $name {
                fn sample(random: &mut SplitMix64) -> Self {
                    Self::ALL[random.below(Self::ALL.len() as u64) as usize]
                }
            }
        )*};
    }

    sampled_codes! {
        AccountSetting Allocation BustReason Capacity CustomerType DeclineReason Display MoneyClass
        OrderType Phase Pricing RejectReason SelfMatchPrevention Side SystemEvent TimeInForce
        VenueDeclineReason
    }

    macro_rules! sampled_structs {
        ($($name:ident { $($field:ident),* })*) => {$(
            impl Sample for $name {
                fn sample(random: &mut SplitMix64) -> Self {
                    Self { $($field: Sample::sample(random)),* }
                }
            }
        )*};
    }

    structs!(sampled_structs);
    sampled_structs! { ReplaceOrder { original_user_ref_num, key, terms } }

    macro_rules! sampled_enums {
        ($($name:ident {
            $($kind:literal => $variant:ident $(($($field:ident),+))?,)*
            $(else $($nested:ident),+)?
        })*) => {$(
            impl Sample for $name {
                fn sample(random: &mut SplitMix64) -> Self {
                    let all: &[fn(&mut SplitMix64) -> Self] = &[
                        $(|_random| Self::$variant $(($({
                            let $field = Sample::sample(_random);
                            $field
                        }),+))?,)*
                        $($(|random| Self::$nested(Sample::sample(random)),)+)?
                    ];
                    all[random.below(all.len() as u64) as usize](random)
                }
            }
        )*};
    }

    enums!(sampled_enums);

    proptest! {
        /// Each command round-trips through its bytes; one byte less or one more is an error.
        #[test]
        fn commands_come_back(seed: u64) {
            let command = Command::sample(&mut SplitMix64::new(seed));
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
        assert_eq!(next_free, 36);
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
        assert_eq!(&buffer[..len], b"\x22ALICE           \x07\0\0\0\0\0\0\0\x21\x02\x01");
        let change = InstrumentChange::StaticBand(50_000);
        assert_eq!(
            bytes(VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })),
            b"\x0fAAPL    \x04\x50\xc3\0\0"
        );
        assert_eq!(
            bytes(VenueCommand::RemoveInstrument(RemoveInstrument { symbol })),
            b"\x10AAPL    "
        );
        let scope = Scope { symbol, side: Some(Side::Sell), group_id: Some(7), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x11\0\0    AAPL    \x01S\x01\x07\0\0\0\0\0"
        );
        assert_eq!(
            bytes(VenueCommand::BlockEntry(BlockEntry { scope: Scope::ALL, blocked: true })),
            b"\x12\0\0            \0\0\0\0\0\0\x01"
        );
        let scope = Scope { symbol, account_id: AccountId(258), ..Scope::ALL };
        assert_eq!(
            bytes(VenueCommand::SupervisoryCancel(scope)),
            b"\x11\0\0    AAPL    \0\0\x02\x01\0\0"
        );
        let (trade_id, reason) = (TradeId(9), BustReason::Consent);
        assert_eq!(
            bytes(VenueCommand::BustTrade(BustTrade { trade_id, reason })),
            b"\x13\x09\0\0\0\0\0\0\0C"
        );
        let correct = CorrectTrade { trade_id, price: Price(1), quantity: Quantity(2), reason };
        assert_eq!(bytes(VenueCommand::CorrectTrade(correct)), b"\x14\x09\0\0\0\0\0\0\0\x01\x02C");
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

    /// A plain order takes 25 bytes, and 39 with a client order id: default fields are left out, and small
    /// numbers are short.
    #[test]
    fn golden_enter_order() {
        let mut order = EnterOrder { symbol: Symbol::new("AAPL").unwrap(), ..ENTER };
        let mut expected = std::vec![5, 0, 1, 0, 0, 7, 0, 0, 0, b'B', b'L', b'0', b'Y'];
        expected.extend([100, 0xa8, 0xe1, 0x5b]);
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
            minimum_quantity: Lots::new(258),
        };
        let enter = bytes(&Command::Enter(EnterOrder { conditions, ..ENTER }));
        assert_eq!((enter.len(), enter[0], enter[1]), (31, 5, 4));
        assert_eq!(&enter[25..], b"oG1\x01\x82\x02");

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
        assert_eq!((plain.len(), plain[0], plain[1]), (19, 6, 16));
        let conditions = ConditionChanges {
            post_only: Some(false),
            minimum_quantity: Some(Lots::new(3)),
            ..ConditionChanges::NONE
        };
        let changed = replace(Some(ReplaceTerms { conditions, ..terms }));
        assert_eq!((changed[1], &changed[19..]), (20, &b"\0\0\x01\0\x01\x03"[..]));
        let located = replace(Some(ReplaceTerms { shares_located: true, ..terms }));
        assert_eq!((located[1], &located[19..]), (18, &b"\x01    "[..]));
    }

    /// Instructions come last.
    #[test]
    fn golden_instructions() {
        let instructions = Instructions {
            pricing: Pricing::TrailingStop,
            handling: Handling::ALL_OR_NONE,
            trigger: Ticks(1),
            offset: -2,
            shown_quantity: Lots::new(3),
            shown_range: 4,
            expires_s: 5,
            parent: 6,
            partner: 7,
        };
        let enter = bytes(&Command::Enter(EnterOrder { instructions, ..ENTER }));
        assert_eq!((enter.len(), enter[0], enter[1]), (53, 5, 8));
        assert_eq!(&enter[25..36], b"F\x01\0\x01\0\0\0\xfe\xff\xff\xff");
        assert_eq!(&enter[36..], b"\x03\x04\0\0\0\x05\0\0\0\x06\0\0\0\x07\0\0\0");
    }

    /// The encoding of each command about money.
    #[test]
    fn golden_money() {
        let check = |command, expected: &[u8]| {
            let mut buffer = [0; Command::ENCODED_LEN_MAX];
            let len = Command::Money(command).encode(&mut buffer);
            assert_eq!(&buffer[..len], expected);
        };
        let (account_id, asset_id) = (AccountId(0x0102), AssetId(3));
        let amount = Units::new((5 << 64) + 4);
        let name = Text::new("USDT").unwrap();
        check(MoneyCommand::AddAsset(AddAsset { name, decimals: 6 }), b"\x15USDT    \x06");
        check(MoneyCommand::AddAccount(AddAccount { name }), b"\x16USDT    ");
        let assign = AssignSession { session_id: SessionId(7), account_id };
        check(MoneyCommand::AssignSession(assign), b"\x17\x07\0\x02\x01\0\0");
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base: AssetId(1),
            quote: AssetId(2),
            base_units: 3,
            quote_numerator: 4,
            quote_denominator: 5,
            quantity_max: Quantity(6),
        };
        check(
            MoneyCommand::SetTerms(SetTerms { symbol: Symbol::new("BTC").unwrap(), terms }),
            b"\x18BTC     C\x01\0\x02\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06",
        );
        let fees = SetFees { tier: 1, maker_ppm: -2, taker_ppm: 3 };
        check(MoneyCommand::SetFees(fees), b"\x19\x01\xfe\xff\xff\xff\x03\0\0\0");
        let setting = AccountSetting::ShortMax;
        check(
            MoneyCommand::SetAccount(SetAccount { account_id, setting, asset_id, value: amount }),
            b"\x1a\x02\x01\0\0S\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
        );
        let stop = StopAccount { account_id, stopped: true };
        check(MoneyCommand::StopAccount(stop), b"\x1b\x02\x01\0\0\x01");
        let moved = b"\x02\x01\0\0\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        let deposit = Deposit { account_id, asset_id, amount };
        check(MoneyCommand::Deposit(deposit), &[&[28], &moved[..]].concat());
        let withdraw = Withdraw { account_id, asset_id, amount };
        check(MoneyCommand::Withdraw(withdraw), &[&[29], &moved[..]].concat());
        let transfer = Transfer { from: account_id, to: AccountId(9), asset_id, amount };
        check(
            MoneyCommand::Transfer(transfer),
            b"\x1e\x02\x01\0\0\x09\0\0\0\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
        );
    }
}
