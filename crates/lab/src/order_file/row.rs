//! Reads an order file row by row into commands in ticks and lots.
//!
//! Invariant: a row is read exactly as it is written, or is an error with its line and column.

use std::{io::Read, ops::RangeInclusive, path::Path};

use market::{
    CancelOrder, ClientOrderId, Command, ConditionChanges, Conditions, Display, EnterOrder, Firm,
    Handling, Instructions, Lots, ModifyOrder, OrderAttributes, OrderKey, OrderType, Price,
    Pricing, Quantity, ReplaceOrder, ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, SessionId,
    Side, Symbol, Text, Ticks, TimeInForce, parse_decimal,
};

use super::{
    error::FileError,
    instruments::{InstrumentTable, InstrumentTerms},
    table::{Column, ReadProgress, Table},
};

const ORDER_ID: usize = 0;
const PARTICIPANT: usize = 1;
const ACTION: usize = 2;
const SYMBOL: usize = 3;
const SIDE: usize = 4;
const ORDER_TYPE: usize = 5;
const TIME_IN_FORCE: usize = 6;
const DISPLAY: usize = 7;
const PRICE: usize = 8;
const QUANTITY: usize = 9;
const MINIMUM_QUANTITY: usize = 10;
const POST_ONLY: usize = 11;
const SELF_MATCH_PREVENTION: usize = 12;
const SELF_MATCH_GROUP: usize = 13;
const NEW_ORDER_ID: usize = 14;
const PRICING: usize = 15;
const TRIGGER_PRICE: usize = 16;
const OFFSET: usize = 17;
const SHOWN_QUANTITY: usize = 18;
const SHOWN_RANGE: usize = 19;
const ALL_OR_NONE: usize = 20;
const SLIDE: usize = 21;
const EXPIRES_S: usize = 22;
const PARENT: usize = 23;
const PARTNER: usize = 24;
const TIME_NS: usize = 25;

/// The columns of [`Instructions`].
const INSTRUCTIONS: RangeInclusive<usize> = PRICING..=PARTNER;

static COLUMNS: [Column; 26] = [
    Column::required("order_id", &[]),
    Column::required("participant", &["user_id", "user", "account"]),
    Column::optional("action", &[]),
    Column::optional("symbol", &["instrument"]),
    Column::required("side", &[]),
    Column::optional("type", &["order_type"]),
    Column::optional("time_in_force", &["tif"]),
    Column::optional("display", &[]),
    Column::required("price", &[]),
    Column::required("quantity", &["qty"]),
    Column::optional("minimum_quantity", &["minimum_qty", "min_qty"]),
    Column::optional("post_only", &[]),
    Column::optional("self_match_prevention", &["stp"]),
    Column::optional("self_match_group", &[]),
    Column::optional("new_order_id", &[]),
    Column::optional("pricing", &[]),
    Column::optional("trigger_price", &["stop_price"]),
    Column::optional("offset", &[]),
    Column::optional("shown_quantity", &["display_qty"]),
    Column::optional("shown_range", &[]),
    Column::optional("all_or_none", &["aon"]),
    Column::optional("slide", &[]),
    Column::optional("expires_s", &[]),
    Column::optional("parent", &[]),
    Column::optional("partner", &[]),
    Column::optional("time_ns", &[]),
];

const SIDES: [(&str, Side); 4] = [
    ("buy", Side::Buy),
    ("sell", Side::Sell),
    ("short", Side::SellShort),
    ("short-exempt", Side::SellShortExempt),
];

const ORDER_TYPES: [(&str, OrderType); 3] = [
    ("limit", OrderType::Limit),
    ("market", OrderType::Market),
    ("market-to-limit", OrderType::MarketToLimit),
];

const TIMES_IN_FORCE: [(&str, TimeInForce); 8] = [
    ("day", TimeInForce::Day),
    ("gtc", TimeInForce::GoodTillCancel),
    ("gtt", TimeInForce::GoodTillTime),
    ("ioc", TimeInForce::ImmediateOrCancel),
    ("fok", TimeInForce::FillOrKill),
    ("open", TimeInForce::AtTheOpen),
    ("close", TimeInForce::AtTheClose),
    ("auction", TimeInForce::GoodForAuction),
];

const DISPLAYS: [(&str, Display); 3] = [
    ("visible", Display::Visible),
    ("attributable", Display::Attributable),
    ("hidden", Display::Hidden),
];

const PRICINGS: [(&str, Pricing); 7] = [
    ("limit", Pricing::Limit),
    ("stop", Pricing::Stop),
    ("take-profit", Pricing::TakeProfit),
    ("trailing-stop", Pricing::TrailingStop),
    ("primary-peg", Pricing::PrimaryPeg),
    ("market-peg", Pricing::MarketPeg),
    ("midpoint-peg", Pricing::MidpointPeg),
];

const SELF_MATCH_PREVENTIONS: [(&str, SelfMatchPrevention); 5] = [
    ("none", SelfMatchPrevention::Off),
    ("newest", SelfMatchPrevention::CancelNewest),
    ("oldest", SelfMatchPrevention::CancelOldest),
    ("both", SelfMatchPrevention::CancelBoth),
    ("decrement", SelfMatchPrevention::DecrementBoth),
];

const YES_OR_NO: [(&str, bool); 6] =
    [("true", true), ("yes", true), ("1", true), ("false", false), ("no", false), ("0", false)];

/// A file of requests, row by row, in constant memory.
pub struct OrderFile {
    table: Table,
    instruments: InstrumentTable,
}

impl OrderFile {
    /// Opens a file, gzipped or not, and reads its header. A file without a column `symbol` is
    /// about the only instrument.
    ///
    /// # Errors
    /// The file cannot be read, its header lacks a required column, or has an unknown one.
    pub fn open(path: &Path, instruments: InstrumentTable) -> Result<Self, FileError> {
        Self::about(Table::open(path, &COLUMNS)?, instruments)
    }

    /// As [`open`](Self::open), from any reader; `name` names it in errors.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        instruments: InstrumentTable,
    ) -> Result<Self, FileError> {
        Self::about(Table::read(name.to_owned(), reader, 0, &COLUMNS)?, instruments)
    }

    fn about(table: Table, instruments: InstrumentTable) -> Result<Self, FileError> {
        if !table.has(SYMBOL) && instruments.only().is_none() {
            return Err(table.wrong(SYMBOL, "one, since there are several instruments"));
        }
        Ok(Self { table, instruments })
    }

    pub fn progress(&self) -> ReadProgress {
        self.table.progress()
    }

    /// Moves to the next row and returns its participant; `None` at the end.
    pub fn next_participant(&mut self) -> Result<Option<Text<6>>, FileError> {
        if !self.table.next_row()? {
            return Ok(None);
        }
        self.table.text(PARTICIPANT, "a name of 1 to 6 characters").map(Some)
    }

    pub fn command(&self, session_id: SessionId) -> Result<Command, FileError> {
        if self.is_given(SYMBOL) {
            self.instrument()?; // a row that needs no instrument names no unknown one either
        }
        let key =
            |column| Ok(OrderKey { session_id, channel: 0, user_ref_num: self.order_id(column)? });
        Ok(match self.table.field(ACTION).unwrap_or("place") {
            "place" => {
                self.blank(&[NEW_ORDER_ID], "nothing but for a replace")?;
                let terms = self.terms()?;
                Command::Enter(EnterOrder {
                    key: key(ORDER_ID)?,
                    side: self.side()?,
                    order_type: terms.order_type,
                    time_in_force: terms.time_in_force,
                    display: terms.display,
                    quantity: terms.quantity,
                    price: terms.price,
                    symbol: self.instrument()?.symbol,
                    attributes: OrderAttributes::default(),
                    conditions: terms.conditions.apply(Conditions::NONE),
                    instructions: terms.instructions.unwrap_or_default(),
                })
            }
            "cancel" => {
                let quantity = match self.is_given(QUANTITY) {
                    true => self.quantity(QUANTITY, self.instrument()?)?,
                    false => Quantity::ZERO,
                };
                self.blank(&[PRICE, NEW_ORDER_ID], "nothing for a cancel")?;
                Command::Cancel(CancelOrder { key: key(ORDER_ID)?, quantity })
            }
            "replace" => Command::Replace(ReplaceOrder {
                original_user_ref_num: self.order_id(ORDER_ID)?,
                terms: Some(self.terms()?),
                key: key(NEW_ORDER_ID)?,
            }),
            "modify" => {
                self.blank(&[PRICE, NEW_ORDER_ID], "nothing for a modify")?;
                Command::Modify(ModifyOrder {
                    key: key(ORDER_ID)?,
                    side: self.side()?,
                    quantity: self.quantity(QUANTITY, self.instrument()?)?,
                })
            }
            _ => return Err(self.table.wrong(ACTION, "place, cancel, replace or modify")),
        })
    }

    /// True if the file has the times at which its rows are due.
    pub fn has_times(&self) -> bool {
        self.table.has(TIME_NS)
    }

    /// When the current row is due, in nanoseconds from a moment that the rows share.
    pub fn time_ns(&self) -> Result<u64, FileError> {
        self.table.whole(TIME_NS, 0..=u64::MAX / 2, " nanoseconds")
    }

    /// The decimals of the current row's prices; those of the only instrument, where it names none.
    pub fn price_decimals(&self) -> Result<u8, FileError> {
        Ok(self.instrument()?.price_decimals)
    }

    /// The error that the current row cannot be sent to a venue.
    pub fn not_sendable(&self, expected: &str) -> FileError {
        self.table.wrong(ORDER_ID, expected)
    }

    /// The error that the current row's participant exceeds the most that there may be.
    pub fn too_many_participants(&self) -> FileError {
        self.table.wrong(PARTICIPANT, format!("at most {} participants", u16::MAX))
    }

    /// The terms of the current row's order; a side only if the row has one.
    fn terms(&self) -> Result<ReplaceTerms, FileError> {
        let instrument = self.instrument()?;
        let order_type = self.one_of(ORDER_TYPE, &ORDER_TYPES)?.unwrap_or(OrderType::Limit);
        let price = if order_type.is_priceless() {
            self.blank(&[PRICE], "nothing for an order without a limit")?;
            Price::ZERO
        } else {
            Price(self.decimal(PRICE, instrument.price_decimals)?)
        };
        let time_in_force = self.one_of(TIME_IN_FORCE, &TIMES_IN_FORCE)?;
        Ok(ReplaceTerms {
            side: self.one_of(SIDE, &SIDES)?,
            order_type,
            time_in_force: time_in_force.unwrap_or(TimeInForce::Day),
            display: self.one_of(DISPLAY, &DISPLAYS)?.unwrap_or(Display::Visible),
            quantity: self.quantity(QUANTITY, instrument)?,
            price,
            client_order_id: ClientOrderId::BLANK,
            shares_located: false,
            locate_broker: Firm::BLANK,
            conditions: self.conditions(instrument)?,
            instructions: self.instructions(instrument)?,
        })
    }

    fn instructions(
        &self,
        instrument: &InstrumentTerms,
    ) -> Result<Option<Instructions>, FileError> {
        if !INSTRUCTIONS.into_iter().any(|column| self.is_given(column)) {
            return Ok(None);
        }
        let expected = "a decimal number, below 0 or above, with the decimals of prices";
        let offset = |field: &str| {
            let distance = field.strip_prefix('-').unwrap_or(field);
            let distance: i32 = parse_decimal(distance, instrument.price_decimals)
                .map_err(|_| self.table.wrong(OFFSET, expected))?;
            Ok(if field.starts_with('-') { -distance } else { distance })
        };
        let expires = |field: &str| {
            let expected = "a whole number of seconds since 1970";
            field.parse().map_err(|_| self.table.wrong(EXPIRES_S, expected))
        };
        let trigger = |_: &str| {
            let ticks: u64 = self.decimal(TRIGGER_PRICE, instrument.price_decimals)?;
            let expected = "at most the largest price";
            u32::try_from(ticks).map_err(|_| self.table.wrong(TRIGGER_PRICE, expected))
        };
        let other_order =
            |column| self.table.field(column).map_or(Ok(0), |_| self.order_id(column));
        Ok(Some(Instructions {
            pricing: self.one_of(PRICING, &PRICINGS)?.unwrap_or(Pricing::Limit),
            handling: Handling::new(
                self.one_of(ALL_OR_NONE, &YES_OR_NO)?.unwrap_or(false),
                self.one_of(SLIDE, &YES_OR_NO)?.unwrap_or(false),
            ),
            trigger: Ticks(self.table.field(TRIGGER_PRICE).map_or(Ok(0), trigger)?),
            offset: self.table.field(OFFSET).map_or(Ok(0), offset)?,
            shown_quantity: self.lots(SHOWN_QUANTITY, instrument)?.unwrap_or(Lots::ZERO),
            shown_range: self.range(instrument)?,
            expires_s: self.table.field(EXPIRES_S).map_or(Ok(0), expires)?,
            parent: other_order(PARENT)?,
            partner: other_order(PARTNER)?,
        }))
    }

    fn conditions(&self, instrument: &InstrumentTerms) -> Result<ConditionChanges, FileError> {
        let group = self.table.field(SELF_MATCH_GROUP).map(|group| {
            let wrong = || self.table.wrong(SELF_MATCH_GROUP, "1 or 2 characters");
            SelfMatchGroup::new(group).ok_or_else(wrong)
        });
        Ok(ConditionChanges {
            post_only: self.one_of(POST_ONLY, &YES_OR_NO)?,
            minimum_quantity: self.lots(MINIMUM_QUANTITY, instrument)?,
            self_match_prevention: self.one_of(SELF_MATCH_PREVENTION, &SELF_MATCH_PREVENTIONS)?,
            self_match_group: group.transpose()?,
        })
    }

    fn instrument(&self) -> Result<&InstrumentTerms, FileError> {
        let found = match self.table.field(SYMBOL) {
            Some(symbol) => Symbol::new(symbol).and_then(|symbol| self.instruments.find(&symbol)),
            None => self.instruments.only(),
        };
        found.ok_or_else(|| {
            let known = self.instruments.all().iter().take(8);
            let known: Vec<&str> = known.map(|terms| terms.symbol.as_str()).collect();
            let more = if self.instruments.all().len() > known.len() { ", …" } else { "" };
            self.table.wrong(SYMBOL, format!("an instrument: {}{more}", known.join(", ")))
        })
    }

    fn is_given(&self, column: usize) -> bool {
        self.table.field(column).is_some()
    }

    fn order_id(&self, column: usize) -> Result<u32, FileError> {
        self.table.whole(column, 1..=u32::MAX.into(), "").map(|number| number as u32)
    }

    fn quantity(&self, column: usize, instrument: &InstrumentTerms) -> Result<Quantity, FileError> {
        self.decimal(column, instrument.quantity_decimals).map(Quantity)
    }

    /// The range of an iceberg, in lots; 0 without one.
    fn range(&self, instrument: &InstrumentTerms) -> Result<u32, FileError> {
        let Some(lots) = self.lots(SHOWN_RANGE, instrument)? else { return Ok(0) };
        let expected = "at most 4294967295 lots";
        u32::try_from(lots.get()).map_err(|_| self.table.wrong(SHOWN_RANGE, expected))
    }

    /// A quantity that an order may have.
    fn lots(&self, column: usize, instrument: &InstrumentTerms) -> Result<Option<Lots>, FileError> {
        if !self.is_given(column) {
            return Ok(None);
        }
        let lots = Lots::checked(self.quantity(column, instrument)?.0);
        let lots = lots
            .ok_or_else(|| self.table.wrong(column, "at most the largest quantity of an order"))?;
        Ok(Some(lots))
    }

    fn decimal(&self, column: usize, decimals: u8) -> Result<u64, FileError> {
        let number = self.table.field(column).and_then(|field| parse_decimal(field, decimals).ok());
        number.ok_or_else(|| {
            let expected = format!("a decimal number from 0 with at most {decimals} decimals");
            self.table.wrong(column, expected)
        })
    }

    fn side(&self) -> Result<Side, FileError> {
        let side = self.one_of(SIDE, &SIDES)?;
        side.ok_or_else(|| self.table.wrong(SIDE, "buy, sell, short or short-exempt"))
    }

    /// The meaning of a word of the current row; `None` if the column is blank.
    fn one_of<T: Copy>(&self, column: usize, words: &[(&str, T)]) -> Result<Option<T>, FileError> {
        let Some(field) = self.table.field(column) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == field);
        found.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.table.wrong(column, format!("one of {}", known.join(", ")))
        })
    }

    /// Checks that these columns of the current row are blank.
    fn blank(&self, columns: &[usize], expected: &str) -> Result<(), FileError> {
        match columns.iter().find(|column| self.is_given(**column)) {
            Some(column) => Err(self.table.wrong(*column, expected)),
            None => Ok(()),
        }
    }
}
