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
    /// Units of an asset; below 0 for a short position.
    Amount(i128),
    /// The code of one of the words of its column.
    Word(u8),
    /// Text without the padding.
    Text(Text<14>),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of this many bytes.
    Integer(u8),
    /// A signed whole number of 128 bits.
    Amount,
    /// One of these words; each has a code.
    Word(&'static [(u8, &'static str)]),
    /// Printable ASCII, at most this many characters.
    Text(u8),
}

impl Kind {
    pub fn word(self, code: u8) -> Option<&'static str> {
        let Self::Word(words) = self else { return None };
        words.iter().find(|(known, _)| *known == code).map(|(_, word)| *word)
    }

    /// A value of this kind as people and databases read it.
    pub fn show(self, value: &Value) -> CellText<'_> {
        CellText(self, value)
    }

    /// The inverse of [`show`](Self::show); `None` if the text is no such value.
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
                // A variant missing above fails to compile here.
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
    /// The open lots were canceled.
    Canceled = 3,
    /// Another order took its place.
    Replaced = 4,
    /// The order continues under another order id.
    Restated = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillRole {
    Maker = 1,
    Taker = 2,
}

/// A row of a table.
pub trait Row: Sized {
    const TABLE: Table;

    /// The values of the row, one a column.
    fn values(&self) -> Vec<Value>;

    /// The row of these values; `None` if they do not form one.
    fn from_values(values: &[Value]) -> Option<Self>;
}

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $table:ident, $name:literal, key $keys:literal, $row:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        /// The tables; a table precedes those that refer to it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Table { $($(#[$doc])* $table,)* }

        impl Table {
            pub const ALL: &[Self] = &[$(Self::$table,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$table => $name,)* }
            }

            /// The columns; the first [`key_len`](Self::key_len) of them are the key.
            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$table => const { &[$(
                        Column { name: stringify!($field), kind: <$type as Cell>::KIND },
                    )*] },)*
                }
            }

            /// The number of key columns.
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
        /// The number of digits after the decimal point.
        decimals: u8,
        /// The amount in the venue: in minus out, in units.
        issued: i128,
        /// The number of times the asset came in or went out.
        version: u64,
    }
    Accounts, "accounts", key 1, AccountRow {
        /// The account's number; 0 is the venue, which has no row.
        account_id: AccountId,
        name: Text<8>,
        /// 1 while the kill switch stops the account, else 0.
        stopped: u8,
    }
    Instruments, "instruments", key 1, InstrumentRow {
        instrument_id: InstrumentId,
        symbol: Symbol,
    }
    Sessions, "sessions", key 1, SessionRow {
        session_id: SessionId,
        /// The login name.
        username: Text<6>,
        firm: Firm,
        /// The account of its orders; 0 for none.
        account_id: AccountId,
    }
    /// Every accepted order, and every order that replaced another.
    Orders, "orders", key 1, OrderRow {
        /// The exchange's id of the order.
        order_id: OrderId,
        /// The owner; 0 for none.
        account_id: AccountId,
        session_id: SessionId,
        channel: u8,
        /// The order's number in its session.
        user_ref_num: u32,
        /// The participant's id of the order.
        client_order_id: ClientOrderId,
        /// The firm of the order; blank for the session's.
        firm: Firm,
        /// The traded instrument.
        instrument_id: InstrumentId,
        side: Side,
        order_type: OrderType,
        time_in_force: TimeInForce,
        display: Display,
        /// The limit in ticks; 0 for none.
        price: Price,
        /// Lots open when the order got this order id.
        quantity: Quantity,
        /// Lots traded since then.
        executed: Quantity,
        /// Lots still open; 0 once done.
        leaves: Quantity,
        /// The present state of the order.
        state: OrderState,
        /// The order that it replaced; 0 if none.
        original_order_id: OrderId,
        /// The input that created the order.
        entered_sequence: Sequence,
        entered_timestamp: Timestamp,
        /// The last input that changed the order.
        changed_sequence: Sequence,
        changed_timestamp: Timestamp,
    }
    /// A match of an incoming order and a resting one.
    Trades, "trades", key 1, TradeRow {
        trade_id: TradeId,
        sequence: Sequence,
        timestamp: Timestamp,
        instrument_id: InstrumentId,
        /// The price, in ticks.
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
        /// The trade that replaces it, of the same orders; 0 if none.
        new_trade_id: TradeId,
        /// The new price, in ticks; 0 if none.
        new_price: Price,
        /// The new quantity, in lots; 0 if none.
        new_quantity: Quantity,
    }
    /// A trade from the side of one of its two orders.
    Fills, "fills", key 3, FillRow {
        /// The account; 0 for none.
        account_id: AccountId,
        trade_id: TradeId,
        /// The role of the order: resting or incoming.
        role: FillRole,
        order_id: OrderId,
        session_id: SessionId,
        sequence: Sequence,
        timestamp: Timestamp,
        instrument_id: InstrumentId,
        side: Side,
        /// The price, in ticks.
        price: Price,
        quantity: Quantity,
        /// Lots of the order still open.
        leaves: Quantity,
    }
    /// One movement of one asset: double entry, since it names both ends.
    Entries, "ledger_entries", key 2, EntryRow {
        sequence: Sequence,
        /// The movement's number within its input, from 1.
        nth: u32,
        timestamp: Timestamp,
        kind: LedgerKind,
        asset_id: AssetId,
        /// The amount, in units.
        amount: Units,
        /// The previous owner.
        from_account_id: AccountId,
        /// The bucket that it left.
        from_bucket: Bucket,
        /// The version of that balance after the movement.
        from_version: u64,
        /// The new owner.
        to_account_id: AccountId,
        /// The bucket that it entered.
        to_bucket: Bucket,
        /// The version of that balance after the movement.
        to_version: u64,
        /// The order; 0 if none.
        order_id: OrderId,
        /// The trade; 0 if none.
        trade_id: TradeId,
    }
    /// An account's balance of an asset; for account 0, the venue's earnings.
    Balances, "balances", key 2, BalanceRow {
        account_id: AccountId,
        asset_id: AssetId,
        /// Free, in units; below 0 only for an asset sold short.
        available: i128,
        /// Held for live orders, in units.
        reserved: i128,
        /// The number of movements of the balance.
        version: u64,
        /// The last input that moved it.
        sequence: Sequence,
    }
}

impl Table {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|table| table.name() == name)
    }

    /// True if rows never change once written.
    pub const fn is_append_only(self) -> bool {
        matches!(self, Self::Trades | Self::Busts | Self::Fills | Self::Entries)
    }

    /// The index of a column.
    pub fn column(self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name == name)
    }

    /// The columns that order the rows of an account: later rows have higher places. Empty if rows have no order.
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

    /// The place of a row; see [`place_columns`](Self::place_columns).
    pub fn place(self, values: &[Value]) -> [u64; 2] {
        let mut place = [0; 2];
        for (place, column) in place.iter_mut().zip(self.place_columns()) {
            if let Some(Value::Integer(number)) = self.column(column).map(|nth| values[nth]) {
                *place = number;
            }
        }
        place
    }

    /// The columns that name the owner of a row; empty if rows have no owner.
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

    /// The text shown for a value parses back to the value.
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
