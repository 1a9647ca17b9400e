//! The tables of the ledger: each row a struct, each column defined once. Every store, the exports
//! and the queries take their columns from here; docs/ledger.md describes them.

use std::fmt;

use market::{
    AccountId, AssetId, Bucket, BustReason, ClientOrderId, Display, Firm, InstrumentId, LedgerKind,
    OrderId, OrderType, Price, Quantity, Sequence, SessionId, Side, Symbol, Text, TimeInForce,
    Timestamp, TradeId, Units,
};

/// The version of the tables; a store of another one is refused.
pub const SCHEMA_VERSION: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A count, a number or a time.
    Integer(u64),
    /// Units of an asset; below 0 where somebody is short.
    Amount(i128),
    /// One of the words of its column, by its code.
    Word(u8),
    /// Text without the padding.
    Text(Text<14>),
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of so many bytes.
    Integer(u8),
    /// A whole number of 128 bits with a sign.
    Amount,
    /// One of these words; each has a code.
    Word(&'static [(u8, &'static str)]),
    /// Printable ASCII, at most so many characters.
    Text(u8),
}

impl Kind {
    pub fn word(self, code: u8) -> Option<&'static str> {
        let Self::Word(words) = self else { return None };
        words.iter().find(|(known, _)| *known == code).map(|(_, word)| *word)
    }

    /// A value of this kind as a person and a database read it.
    pub fn show(self, value: &Value) -> CellText<'_> {
        CellText(self, value)
    }

    /// The value that [`show`](Self::show) made this of.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Integer(_) => text.parse().ok().map(Value::Integer),
            Self::Amount => text.parse().ok().map(Value::Amount),
            Self::Word(words) => {
                words.iter().find(|(_, word)| *word == text).map(|(code, _)| Value::Word(*code))
            }
            Self::Text(_) => Text::new(text).map(Value::Text),
        }
    }
}

pub struct CellText<'a>(Kind, &'a Value);

impl fmt::Display for CellText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Value::Integer(number) => fmt::Display::fmt(number, f),
            Value::Amount(amount) => fmt::Display::fmt(amount, f),
            Value::Word(code) => f.pad(self.0.word(*code).expect("a code of its column")),
            Value::Text(text) => fmt::Display::fmt(text, f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

trait Cell: Sized {
    const KIND: Kind;
    fn value(self) -> Value;
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! integer_cells {
    ($($type:ty, $inner:ty, $make:expr, $take:expr;)*) => { $(
        impl Cell for $type {
            const KIND: Kind = Kind::Integer(size_of::<$inner>() as u8);

            fn value(self) -> Value {
                let take: fn($type) -> $inner = $take;
                Value::Integer(u64::from(take(self)))
            }

            fn from_value(value: Value) -> Option<Self> {
                let Value::Integer(number) = value else { return None };
                <$inner>::try_from(number).ok().map($make)
            }
        }
    )* };
}

integer_cells! {
    u8, u8, |number| number, |cell| cell;
    u32, u32, |number| number, |cell| cell;
    u64, u64, |number| number, |cell| cell;
    Sequence, u64, Sequence, |cell| cell.0;
    Timestamp, u64, Timestamp, |cell| cell.0;
    OrderId, u64, OrderId, |cell| cell.0;
    TradeId, u64, TradeId, |cell| cell.0;
    Price, u64, Price, |cell| cell.0;
    Quantity, u64, Quantity, |cell| cell.0;
    AccountId, u32, AccountId, |cell| cell.0;
    SessionId, u16, SessionId, |cell| cell.0;
    InstrumentId, u16, InstrumentId, |cell| cell.0;
    AssetId, u16, AssetId, |cell| cell.0;
}

impl Cell for i128 {
    const KIND: Kind = Kind::Amount;

    fn value(self) -> Value {
        Value::Amount(self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Amount(amount) => Some(amount),
            _ => None,
        }
    }
}

impl Cell for Units {
    const KIND: Kind = Kind::Amount;

    fn value(self) -> Value {
        Value::Amount(i128::try_from(self.get()).expect("no asset has 2¹²⁷ units"))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Amount(amount) => u128::try_from(amount).ok().map(Self::new),
            _ => None,
        }
    }
}

impl<const N: usize> Cell for Text<N> {
    const KIND: Kind = Kind::Text(N as u8);

    fn value(self) -> Value {
        Value::Text(Text::new(self.as_str()).expect("no text of a row is longer than 14"))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::new(text.as_str()),
            _ => None,
        }
    }
}

macro_rules! word_cells {
    ($($type:ident { $($variant:ident = $word:literal,)* })*) => { $(
        impl Cell for $type {
            const KIND: Kind = Kind::Word(&[$(($type::$variant as u8, $word),)*]);

            fn value(self) -> Value {
                // A variant that is missing above does not compile here.
                match self {
                    $($type::$variant => Value::Word($type::$variant as u8),)*
                }
            }

            fn from_value(value: Value) -> Option<Self> {
                let Value::Word(code) = value else { return None };
                $(if code == $type::$variant as u8 {
                    return Some($type::$variant);
                })*
                None
            }
        }
    )* };
}

word_cells! {
    Side {
        Buy = "buy",
        Sell = "sell",
        SellShort = "sell_short",
        SellShortExempt = "sell_short_exempt",
    }
    OrderType { Limit = "limit", Market = "market", MarketToLimit = "market_to_limit", }
    TimeInForce {
        Day = "day",
        GoodTillCancel = "good_till_cancel",
        AtTheOpen = "at_the_open",
        ImmediateOrCancel = "immediate_or_cancel",
        FillOrKill = "fill_or_kill",
        GoodTillTime = "good_till_time",
        AtTheClose = "at_the_close",
        GoodForAuction = "good_for_auction",
    }
    Display { Visible = "visible", Attributable = "attributable", Hidden = "hidden", }
    LedgerKind {
        Deposit = "deposit",
        Withdrawal = "withdrawal",
        Transfer = "transfer",
        Reserve = "reserve",
        Release = "release",
        Settle = "settle",
        Fee = "fee",
        Rebate = "rebate",
        Undo = "undo",
        Correct = "correct",
    }
    Bucket { Available = "available", Reserved = "reserved", Outside = "outside", }
    OrderState {
        Live = "live",
        Filled = "filled",
        Canceled = "canceled",
        Replaced = "replaced",
        Restated = "restated",
    }
    BustReason {
        Erroneous = "erroneous",
        Consent = "consent",
        Supervisory = "supervisory",
        External = "external",
    }
    FillRole { Maker = "maker", Taker = "taker", }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderState {
    Live = 1,
    Filled = 2,
    /// What was open of it was taken away.
    Canceled = 3,
    /// Another order took its place.
    Replaced = 4,
    /// It goes on under another order id.
    Restated = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillRole {
    Maker = 1,
    Taker = 2,
}

/// A row, as its table has it.
pub trait Row: Sized {
    const TABLE: Table;

    /// Its values, one a column.
    fn values(&self) -> Vec<Value>;

    /// From its values; `None` if they are not those of such a row.
    fn from_values(values: &[Value]) -> Option<Self>;
}

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $table:ident, $name:literal, key $keys:literal, $row:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        /// The tables, those that others refer to first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Table { $($(#[$doc])* $table,)* }

        impl Table {
            pub const ALL: &[Self] = &[$(Self::$table,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$table => $name,)* }
            }

            /// Its columns; the first [`key_len`](Self::key_len) of them tell its rows apart.
            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$table => const { &[$(
                        Column { name: stringify!($field), kind: <$type as Cell>::KIND },
                    )*] },)*
                }
            }

            /// How many columns make its key.
            pub const fn key_len(self) -> usize {
                match self { $(Self::$table => $keys,)* }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $row { $($(#[$field_doc])* pub $field: $type,)* }

            impl Row for $row {
                const TABLE: Table = Table::$table;

                fn values(&self) -> Vec<Value> {
                    vec![$(Cell::value(self.$field),)*]
                }

                fn from_values(values: &[Value]) -> Option<Self> {
                    let mut values = values.iter();
                    let row = Self { $($field: Cell::from_value(*values.next()?)?,)* };
                    values.next().is_none().then_some(row)
                }
            }
        )*
    };
}

tables! {
    Assets, "assets", key 1, AssetRow {
        asset_id: AssetId,
        name: Text<8>,
        /// How many digits stand behind the point.
        decimals: u8,
        /// What came in and has not gone out, in units.
        issued: i128,
        /// How often it came in or went out.
        version: u64,
    }
    Accounts, "accounts", key 1, AccountRow {
        /// Its number; 0 is the venue, which has no row.
        account_id: AccountId,
        name: Text<8>,
        /// 1 while the kill switch stops it, else 0.
        stopped: u8,
    }
    Instruments, "instruments", key 1, InstrumentRow {
        instrument_id: InstrumentId,
        symbol: Symbol,
    }
    Sessions, "sessions", key 1, SessionRow {
        session_id: SessionId,
        /// The name it logs in with.
        username: Text<6>,
        firm: Firm,
        /// Whose its orders are; 0 is nobody's.
        account_id: AccountId,
    }
    /// Every order that was accepted, and each that took the place of another.
    Orders, "orders", key 1, OrderRow {
        /// The exchange's name for it.
        order_id: OrderId,
        /// Whose it is; 0 is nobody's.
        account_id: AccountId,
        session_id: SessionId,
        channel: u8,
        /// Its number there.
        user_ref_num: u32,
        /// The participant's name for it.
        client_order_id: ClientOrderId,
        /// The firm it was entered for; blank is the session's.
        firm: Firm,
        /// What it trades.
        instrument_id: InstrumentId,
        side: Side,
        order_type: OrderType,
        time_in_force: TimeInForce,
        display: Display,
        /// Its limit in ticks; 0 for none.
        price: Price,
        /// Open lots when it became this order.
        quantity: Quantity,
        /// Traded since then.
        executed: Quantity,
        /// Still open; 0 once done.
        leaves: Quantity,
        /// What became of it.
        state: OrderState,
        /// The order whose place it took; 0 if none.
        original_order_id: OrderId,
        /// The input that made it.
        entered_sequence: Sequence,
        entered_timestamp: Timestamp,
        /// The last input that changed it.
        changed_sequence: Sequence,
        changed_timestamp: Timestamp,
    }
    /// An incoming order met a resting one.
    Trades, "trades", key 1, TradeRow {
        trade_id: TradeId,
        sequence: Sequence,
        timestamp: Timestamp,
        instrument_id: InstrumentId,
        /// At which price, in ticks.
        price: Price,
        quantity: Quantity,
        taker_side: Side,
        maker_order_id: OrderId,
        taker_order_id: OrderId,
    }
    /// Trades that were busted or corrected, and the trade in place of each. Their fills stay as they were.
    Busts, "busts", key 1, BustRow {
        /// The busted trade.
        trade_id: TradeId,
        /// The input that busted it.
        sequence: Sequence,
        timestamp: Timestamp,
        reason: BustReason,
        /// The trade in its place, of the same orders; 0 if none.
        new_trade_id: TradeId,
        /// At which price, in ticks; 0 if none.
        new_price: Price,
        /// How many lots; 0 if none.
        new_quantity: Quantity,
    }
    /// A trade as one of its two orders sees it.
    Fills, "fills", key 3, FillRow {
        /// Whose; 0 is nobody's.
        account_id: AccountId,
        trade_id: TradeId,
        /// Resting or incoming.
        role: FillRole,
        order_id: OrderId,
        session_id: SessionId,
        sequence: Sequence,
        timestamp: Timestamp,
        instrument_id: InstrumentId,
        side: Side,
        /// At which price, in ticks.
        price: Price,
        quantity: Quantity,
        /// What is still open of the order.
        leaves: Quantity,
    }
    /// One movement of one asset: double entry, for it says both ends.
    Entries, "ledger_entries", key 2, EntryRow {
        sequence: Sequence,
        /// Which of the movements of that input, from 1.
        nth: u32,
        timestamp: Timestamp,
        kind: LedgerKind,
        asset_id: AssetId,
        /// How much, in units.
        amount: Units,
        /// Whose it was.
        from_account_id: AccountId,
        /// Where it was.
        from_bucket: Bucket,
        /// Version of that balance after it.
        from_version: u64,
        /// Whose it is.
        to_account_id: AccountId,
        /// Where it is.
        to_bucket: Bucket,
        /// Version of that balance after it.
        to_version: u64,
        /// The order; 0 if none.
        order_id: OrderId,
        /// The trade; 0 if none.
        trade_id: TradeId,
    }
    /// What an account has of an asset; of account 0, what the venue has earned.
    Balances, "balances", key 2, BalanceRow {
        account_id: AccountId,
        asset_id: AssetId,
        /// Free, in units; below 0 only of what was sold short.
        available: i128,
        /// Held for live orders, in units.
        reserved: i128,
        /// How many movements have touched it.
        version: u64,
        /// The last input that did.
        sequence: Sequence,
    }
}

impl Table {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|table| table.name() == name)
    }

    /// True if a row never changes once it is there.
    pub const fn is_append_only(self) -> bool {
        matches!(self, Self::Trades | Self::Busts | Self::Fills | Self::Entries)
    }

    /// Where a column stands.
    pub fn column(self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name == name)
    }

    /// The columns that say where a row stands among those of an account: what comes later has a
    /// higher place. None where rows do not come one after the other.
    pub const fn place_columns(self) -> &'static [&'static str] {
        match self {
            Self::Orders => &["order_id"],
            Self::Trades | Self::Busts | Self::Fills => &["trade_id"],
            Self::Entries => &["sequence", "nth"],
            Self::Assets | Self::Accounts | Self::Instruments | Self::Sessions | Self::Balances => {
                &[]
            }
        }
    }

    /// Where a row stands; see [`place_columns`](Self::place_columns).
    pub fn place(self, values: &[Value]) -> [u64; 2] {
        let mut place = [0; 2];
        for (place, column) in place.iter_mut().zip(self.place_columns()) {
            if let Some(Value::Integer(number)) = self.column(column).map(|nth| values[nth]) {
                *place = number;
            }
        }
        place
    }

    /// The columns that say whose a row is; none where it is everybody's.
    pub const fn account_columns(self) -> &'static [&'static str] {
        match self {
            Self::Accounts | Self::Sessions | Self::Orders | Self::Fills | Self::Balances => {
                &["account_id"]
            }
            Self::Entries => &["from_account_id", "to_account_id"],
            Self::Assets | Self::Instruments | Self::Trades | Self::Busts => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation describes every table, with every column and every word.
    #[test]
    fn documentation_names_every_column() {
        let page = include_str!("../../../../docs/ledger.md");
        for table in Table::ALL {
            let heading = format!("### `{}`", table.name());
            let (_, part) = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
            let part = part.split("\n### ").next().expect("a split has a first part");
            for column in table.columns() {
                assert!(part.contains(&format!("| `{}` |", column.name)), "{heading} {column:?}");
                if let Kind::Word(words) = column.kind {
                    for (_, word) in words {
                        assert!(page.contains(&format!("`{word}`")), "{heading} {word}");
                    }
                }
            }
        }
    }

    /// What is shown of a value is parsed back to it.
    #[test]
    fn values_are_shown_and_parsed() {
        let side = <Side as Cell>::KIND;
        for (kind, value, text) in [
            (Kind::Integer(8), Value::Integer(u64::MAX), "18446744073709551615"),
            (Kind::Amount, Value::Amount(-5), "-5"),
            (side, Side::SellShort.value(), "sell_short"),
            (Kind::Text(6), Value::Text(Text::new("user01").unwrap()), "user01"),
        ] {
            assert_eq!(kind.show(&value).to_string(), text);
            assert_eq!(kind.parse(text), Some(value));
        }
        assert_eq!(side.parse("sideways"), None);
    }
}
