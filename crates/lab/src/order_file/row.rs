//! Reads an order file row by row into requests in ticks and lots.
//!
//! Invariant: a row is read exactly as it is written, or is an error with its line and column.

use std::{io::Read, path::Path};

use market::{
    CancelOrder, Command, ConditionChanges, Conditions, Display, EnterOrder, Instructions, Lots,
    ModifyOrder, OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, ReplaceOrder,
    ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, SessionId, Side, Symbol, Text, Ticks,
    TimeInForce, parse_decimal,
};

use super::{
    error::FileError,
    instruments::{InstrumentTerms, Instruments},
    table::{Column, Progress, Table},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    pub participant: Text<6>,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Place(Place),
    /// Less of an order, or nothing of it.
    Cancel {
        order_id: u32,
        quantity: Quantity,
    },
    Replace {
        original_order_id: u32,
        place: Place,
        /// False if it is the one side that the file left out.
        names_side: bool,
    },
    /// Less of an order, without losing its priority.
    Modify {
        order_id: u32,
        side: Side,
        quantity: Quantity,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What its participant calls it; rises from order to order of a participant.
    pub order_id: u32,
    pub symbol: Symbol,
    pub side: Side,
    pub order_type: OrderType,
    pub time_in_force: TimeInForce,
    pub display: Display,
    /// Limit, in ticks of its instrument; [`Price::ZERO`] for a market order.
    pub price: Price,
    /// In lots of its instrument.
    pub quantity: Quantity,
    /// What the row asks of the book beyond that.
    pub conditions: ConditionChanges,
    /// What the row tells it to do beyond that; `None` if nothing.
    pub instructions: Option<Instructions>,
}

impl Request {
    /// The request in the words of the exchange, from the session of its participant.
    pub fn command(&self, session_id: SessionId) -> Command {
        let key = |order_id| OrderKey { session_id, channel: 0, user_ref_num: order_id };
        match self {
            Self::Place(place) => Command::Enter(EnterOrder {
                key: key(place.order_id),
                side: place.side,
                order_type: place.order_type,
                time_in_force: place.time_in_force,
                display: place.display,
                quantity: place.quantity,
                price: place.price,
                symbol: place.symbol,
                attributes: OrderAttributes::default(),
                conditions: place.conditions.apply(Conditions::NONE),
                instructions: place.instructions.unwrap_or_default(),
            }),
            Self::Cancel { order_id, quantity } => {
                Command::Cancel(CancelOrder { key: key(*order_id), quantity: *quantity })
            }
            Self::Replace { original_order_id, place, names_side } => {
                Command::Replace(ReplaceOrder {
                    original_user_ref_num: *original_order_id,
                    key: key(place.order_id),
                    terms: Some(ReplaceTerms {
                        side: names_side.then_some(place.side),
                        order_type: place.order_type,
                        time_in_force: place.time_in_force,
                        display: place.display,
                        quantity: place.quantity,
                        price: place.price,
                        client_order_id: market::ClientOrderId::BLANK,
                        shares_located: false,
                        locate_broker: market::Firm::BLANK,
                        conditions: place.conditions,
                        instructions: place.instructions,
                    }),
                })
            }
            Self::Modify { order_id, side, quantity } => Command::Modify(ModifyOrder {
                key: key(*order_id),
                side: *side,
                quantity: *quantity,
            }),
        }
    }
}

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

/// The columns of [`Instructions`].
const INSTRUCTIONS: [usize; 10] = [
    PRICING,
    TRIGGER_PRICE,
    OFFSET,
    SHOWN_QUANTITY,
    SHOWN_RANGE,
    ALL_OR_NONE,
    SLIDE,
    EXPIRES_S,
    PARENT,
    PARTNER,
];

static COLUMNS: [Column; 25] = [
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
];

/// A file of requests, row by row, in constant memory.
pub struct OrderFile {
    table: Table,
    instruments: Instruments,
}

impl OrderFile {
    /// Opens a file, gzipped or not, and reads its header. A file without a column `symbol` is
    /// about the only instrument there is.
    ///
    /// # Errors
    /// It cannot be read, or its header has not the columns of requests.
    pub fn open(path: &Path, instruments: Instruments) -> Result<Self, FileError> {
        Self::about(Table::open(path, &COLUMNS)?, instruments)
    }

    /// As [`open`](Self::open), from anywhere; `name` names it in errors.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        instruments: Instruments,
    ) -> Result<Self, FileError> {
        Self::about(Table::read(name.to_owned(), reader, 0, &COLUMNS)?, instruments)
    }

    fn about(table: Table, instruments: Instruments) -> Result<Self, FileError> {
        if !table.has(SYMBOL) && instruments.only().is_none() {
            return Err(table.wrong(SYMBOL, "one, since there are several instruments"));
        }
        Ok(Self { table, instruments })
    }

    pub fn progress(&self) -> Progress {
        self.table.progress()
    }

    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// The row cannot be read, or says something that makes no sense; the error says where and why.
    pub fn next_row(&mut self) -> Result<Option<Row>, FileError> {
        if !self.table.next_row()? {
            return Ok(None);
        }
        let table = &self.table;
        let participant = table.field(PARTICIPANT).and_then(Text::new);
        let participant =
            participant.ok_or_else(|| table.wrong(PARTICIPANT, "a name of 1 to 6 characters"))?;
        let action = table.field(ACTION).unwrap_or("place");
        if table.field(SYMBOL).is_some() {
            self.instrument()?; // a row that needs no instrument does not name an unknown one
        }
        let request = match action {
            "place" => Request::Place(self.place(ORDER_ID)?),
            "cancel" => {
                let quantity = match table.field(QUANTITY) {
                    Some(_) => self.quantity(QUANTITY, self.instrument()?)?,
                    None => Quantity::ZERO,
                };
                self.blank(&[PRICE, NEW_ORDER_ID], "nothing for a cancel")?;
                Request::Cancel { order_id: self.order_id(ORDER_ID)?, quantity }
            }
            "replace" => Request::Replace {
                original_order_id: self.order_id(ORDER_ID)?,
                place: self.place(NEW_ORDER_ID)?,
                names_side: table.field(SIDE).is_some(),
            },
            "modify" => {
                self.blank(&[PRICE, NEW_ORDER_ID], "nothing for a modify")?;
                Request::Modify {
                    order_id: self.order_id(ORDER_ID)?,
                    side: self.side()?,
                    quantity: self.quantity(QUANTITY, self.instrument()?)?,
                }
            }
            _ => return Err(table.wrong(ACTION, "place, cancel, replace or modify")),
        };
        Ok(Some(Row { line: table.line(), participant, request }))
    }

    /// The error that the current row's participant is one more than there may be.
    pub fn too_many_participants(&self) -> FileError {
        self.table.wrong(PARTICIPANT, format!("at most {} participants", u16::MAX))
    }

    /// An order that the current row names by this column.
    fn place(&self, order_id: usize) -> Result<Place, FileError> {
        let table = &self.table;
        if order_id == ORDER_ID {
            self.blank(&[NEW_ORDER_ID], "nothing but for a replace")?;
        }
        let instrument = self.instrument()?;
        let order_type = self.one_of(
            ORDER_TYPE,
            OrderType::Limit,
            &[
                ("limit", OrderType::Limit),
                ("market", OrderType::Market),
                ("market-to-limit", OrderType::MarketToLimit),
            ],
        )?;
        let price = if order_type.is_priceless() {
            self.blank(&[PRICE], "nothing for an order without a limit")?;
            Price::ZERO
        } else {
            self.price(instrument)?
        };
        let replaces = order_id == NEW_ORDER_ID;
        let side = match table.field(SIDE) {
            None if replaces => Side::Buy,
            _ => self.side()?,
        };
        Ok(Place {
            order_id: self.order_id(order_id)?,
            symbol: instrument.symbol,
            side,
            order_type,
            time_in_force: self.one_of(
                TIME_IN_FORCE,
                TimeInForce::Day,
                &[
                    ("day", TimeInForce::Day),
                    ("gtc", TimeInForce::GoodTillCancel),
                    ("gtt", TimeInForce::GoodTillTime),
                    ("ioc", TimeInForce::ImmediateOrCancel),
                    ("fok", TimeInForce::FillOrKill),
                    ("open", TimeInForce::AtTheOpen),
                    ("close", TimeInForce::AtTheClose),
                    ("auction", TimeInForce::GoodForAuction),
                ],
            )?,
            display: self.one_of(
                DISPLAY,
                Display::Visible,
                &[
                    ("visible", Display::Visible),
                    ("attributable", Display::Attributable),
                    ("hidden", Display::Hidden),
                ],
            )?,
            price,
            quantity: self.quantity(QUANTITY, instrument)?,
            conditions: self.conditions(instrument)?,
            instructions: self.instructions(instrument)?,
        })
    }

    fn instructions(
        &self,
        instrument: &InstrumentTerms,
    ) -> Result<Option<Instructions>, FileError> {
        let table = &self.table;
        if INSTRUCTIONS.iter().all(|column| table.field(*column).is_none()) {
            return Ok(None);
        }
        let trigger = match table.field(TRIGGER_PRICE) {
            Some(_) => self.decimal(TRIGGER_PRICE, instrument.price_decimals)?,
            None => 0,
        };
        let wrong_trigger = |_| table.wrong(TRIGGER_PRICE, "no more than a price may be");
        let expected = "a decimal number, below 0 or above, with the decimals of prices";
        let wrong_offset = || table.wrong(OFFSET, expected);
        let offset = match table.field(OFFSET) {
            Some(field) => {
                let distance = field.strip_prefix('-').unwrap_or(field);
                let distance: i32 = parse_decimal(distance, instrument.price_decimals)
                    .map_err(|_| wrong_offset())?;
                if field.starts_with('-') { -distance } else { distance }
            }
            None => 0,
        };
        let other_order = |column| match table.field(column) {
            Some(_) => self.order_id(column),
            None => Ok(0),
        };
        Ok(Some(Instructions {
            pricing: self.one_of(
                PRICING,
                Pricing::Limit,
                &[
                    ("limit", Pricing::Limit),
                    ("stop", Pricing::Stop),
                    ("take-profit", Pricing::TakeProfit),
                    ("trailing-stop", Pricing::TrailingStop),
                    ("primary-peg", Pricing::PrimaryPeg),
                    ("market-peg", Pricing::MarketPeg),
                    ("midpoint-peg", Pricing::MidpointPeg),
                ],
            )?,
            all_or_none: self.yes_or_no(ALL_OR_NONE)?,
            slide: self.yes_or_no(SLIDE)?,
            trigger: Ticks(u32::try_from(trigger).map_err(wrong_trigger)?),
            offset,
            shown_quantity: self.lots(SHOWN_QUANTITY, instrument)?,
            shown_range: self.lots(SHOWN_RANGE, instrument)?,
            expires_s: match table.field(EXPIRES_S) {
                Some(field) => field
                    .parse()
                    .map_err(|_| table.wrong(EXPIRES_S, "a whole number of seconds since 1970"))?,
                None => 0,
            },
            parent: other_order(PARENT)?,
            partner: other_order(PARTNER)?,
        }))
    }

    fn conditions(&self, instrument: &InstrumentTerms) -> Result<ConditionChanges, FileError> {
        let table = &self.table;
        let mut conditions = ConditionChanges::NONE;
        if table.field(POST_ONLY).is_some() {
            conditions.post_only = Some(self.yes_or_no(POST_ONLY)?);
        }
        if table.field(MINIMUM_QUANTITY).is_some() {
            conditions.minimum_quantity = Some(self.lots(MINIMUM_QUANTITY, instrument)?);
        }
        if table.field(SELF_MATCH_PREVENTION).is_some() {
            conditions.self_match_prevention = Some(self.one_of(
                SELF_MATCH_PREVENTION,
                SelfMatchPrevention::Off,
                &[
                    ("none", SelfMatchPrevention::Off),
                    ("newest", SelfMatchPrevention::CancelNewest),
                    ("oldest", SelfMatchPrevention::CancelOldest),
                    ("both", SelfMatchPrevention::CancelBoth),
                    ("decrement", SelfMatchPrevention::DecrementBoth),
                ],
            )?);
        }
        if let Some(group) = table.field(SELF_MATCH_GROUP) {
            let group = SelfMatchGroup::new(group);
            let wrong = || table.wrong(SELF_MATCH_GROUP, "1 or 2 characters");
            conditions.self_match_group = Some(group.ok_or_else(wrong)?);
        }
        Ok(conditions)
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

    fn order_id(&self, column: usize) -> Result<u32, FileError> {
        let digits = |field: &&str| field.bytes().all(|digit| digit.is_ascii_digit());
        let number = self.table.field(column).filter(digits).and_then(|field| field.parse().ok());
        number.filter(|number| *number > 0).ok_or_else(|| {
            self.table.wrong(column, format!("a whole number from 1 to {}", u32::MAX))
        })
    }

    fn price(&self, instrument: &InstrumentTerms) -> Result<Price, FileError> {
        self.decimal(PRICE, instrument.price_decimals).map(Price)
    }

    fn quantity(&self, column: usize, instrument: &InstrumentTerms) -> Result<Quantity, FileError> {
        self.decimal(column, instrument.quantity_decimals).map(Quantity)
    }

    /// A quantity in 32 bits; no lots if the row says nothing.
    fn lots(&self, column: usize, instrument: &InstrumentTerms) -> Result<Lots, FileError> {
        if self.table.field(column).is_none() {
            return Ok(Lots::ZERO);
        }
        let lots = u32::try_from(self.quantity(column, instrument)?.0);
        lots.map(Lots).map_err(|_| self.table.wrong(column, "no more than an order may have"))
    }

    fn yes_or_no(&self, column: usize) -> Result<bool, FileError> {
        let yes = ["true", "yes", "1"].map(|word| (word, true));
        let no = ["false", "no", "0"].map(|word| (word, false));
        self.one_of(column, false, &[yes, no].concat())
    }

    fn decimal(&self, column: usize, decimals: u8) -> Result<u64, FileError> {
        let number = self.table.field(column).and_then(|field| parse_decimal(field, decimals).ok());
        number.ok_or_else(|| {
            let expected = format!("a decimal number from 0 with at most {decimals} decimals");
            self.table.wrong(column, expected)
        })
    }

    fn side(&self) -> Result<Side, FileError> {
        let sides = [
            ("buy", Side::Buy),
            ("sell", Side::Sell),
            ("short", Side::SellShort),
            ("short-exempt", Side::SellShortExempt),
        ];
        match sides.iter().find(|(name, _)| self.table.field(SIDE) == Some(*name)) {
            Some((_, side)) => Ok(*side),
            None => Err(self.table.wrong(SIDE, "buy, sell, short or short-exempt")),
        }
    }

    /// What the current row says in a column, in words of ours; the first if it says nothing.
    fn one_of<T: Copy>(
        &self,
        column: usize,
        otherwise: T,
        words: &[(&str, T)],
    ) -> Result<T, FileError> {
        let Some(field) = self.table.field(column) else { return Ok(otherwise) };
        match words.iter().find(|(word, _)| *word == field) {
            Some((_, meant)) => Ok(*meant),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(self.table.wrong(column, format!("one of {}", known.join(", "))))
            }
        }
    }

    /// Sees that the current row says nothing in these columns.
    fn blank(&self, columns: &[usize], expected: &str) -> Result<(), FileError> {
        match columns.iter().find(|column| self.table.field(**column).is_some()) {
            Some(column) => Err(self.table.wrong(*column, expected)),
            None => Ok(()),
        }
    }
}
