//! A FIX client that says a scenario's requests by the standard tags, and keeps what the venue reports.
//!
//! Invariant: a request with a term for which FIX has no tag is not sent.

use std::collections::BTreeMap;

use market::{
    Capacity, Command, Conditions, Display, EnterOrder, Instructions, OrderAttributes, OrderKey,
    OrderType, Pricing, Quantity, ReplaceOrder, SessionId, Side, Symbol, TimeInForce, Timestamp,
    parse_decimal,
};
use wire::fix::{BUILDER_LEN_MAX, Builder, Framed, Message, Version, dictionary, frame};

use super::session::TradePart;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub struct FixClient {
    version: Version,
    name: String,
    /// MsgSeqNum of its next message.
    next: u64,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    is_logged_on: bool,
    /// The orders that it entered, as they are now.
    orders: BTreeMap<u32, EnterOrder>,
    requests: u32,
    /// ExecID, LastQty and LastPx of trades.
    trades: Vec<[String; 3]>,
}

impl FixClient {
    pub fn new(version: Version, name: &str) -> Self {
        Self {
            version,
            name: name.to_owned(),
            next: 1,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            is_logged_on: false,
            orders: BTreeMap::new(),
            requests: 0,
            trades: Vec::new(),
        }
    }

    pub fn is_logged_on(&self) -> bool {
        self.is_logged_on
    }

    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Sends a Logon on a new connection.
    pub fn log_on(&mut self, now_ns: u64) {
        (self.is_logged_on, self.incoming) = (false, Vec::new());
        let password = self.name.clone();
        self.send("A", now_ns, |builder| {
            let length = password.len() as u64;
            builder.number(98, 0).number(108, 0).number(95, length).text(96, &password);
        });
    }

    /// Sends a request.
    pub fn request(&mut self, command: &Command, now_ns: u64) -> Result<(), String> {
        self.requests += 1;
        let key = match command {
            Command::Enter(it) => it.key,
            Command::Replace(it) => it.key,
            Command::Cancel(it) => it.key,
            Command::MassCancel(it) => it.key,
            _ => OrderKey::default(),
        };
        if key.channel != 0 {
            return Err("FIX has no channels".into());
        }
        let number = key.user_ref_num;
        match command {
            Command::Enter(order) => {
                self.check(order)?;
                self.orders.insert(number, *order);
                self.send("D", now_ns, |builder| {
                    builder.text(11, &name(number)).char(21, b'1').time(60, Timestamp(now_ns));
                    terms(builder, order);
                });
            }
            Command::Replace(replace) => {
                let original = replace.original_user_ref_num;
                let order = self.replaced(replace)?;
                self.check(&order)?;
                self.orders.insert(number, order);
                self.send("G", now_ns, |builder| {
                    builder.text(11, &name(number)).text(41, &name(original)).char(21, b'1');
                    builder.time(60, Timestamp(now_ns));
                    terms(builder, &order);
                });
            }
            Command::Cancel(cancel) if cancel.quantity == Quantity::ZERO => {
                let (symbol, side) = match self.orders.get(&number) {
                    Some(order) => (order.symbol, order.side),
                    None => (Symbol::new("AAPL").expect("it is short"), Side::Buy),
                };
                let request = format!("{}-CANCEL-{}", name(number), self.requests);
                self.send("F", now_ns, |builder| {
                    builder.text(11, &request).text(41, &name(number)).text(55, symbol.as_str());
                    builder.char(54, side_code(side)).time(60, Timestamp(now_ns));
                });
            }
            Command::MassCancel(it) if self.version == Version::Fix44 => {
                if !it.firm.is_blank() || it.group_id.is_some() {
                    return Err("a mass cancel of FIX names neither firm nor group".into());
                }
                self.send("q", now_ns, |builder| {
                    builder.text(11, &name(number));
                    match it.symbol.is_blank() {
                        true => builder.char(530, b'7'),
                        false => builder.char(530, b'1').text(55, it.symbol.as_str()),
                    };
                    if let Some(side) = it.side {
                        builder.char(54, side_code(side));
                    }
                    builder.time(60, Timestamp(now_ns));
                });
            }
            _ => return Err(format!("{} has no message for this", self.version.begin_string())),
        }
        Ok(())
    }

    /// The terms of a replacement, which FIX gives again.
    fn replaced(&self, replace: &ReplaceOrder) -> Result<EnterOrder, String> {
        let original = self.orders.get(&replace.original_user_ref_num);
        let original = original.ok_or("FIX repeats the terms of the order, and there is none")?;
        let terms = replace.terms.as_ref().ok_or("FIX has no unreadable terms")?;
        Ok(EnterOrder {
            key: replace.key,
            side: terms.side.unwrap_or(original.side),
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: terms.display,
            quantity: terms.quantity,
            price: terms.price,
            attributes: OrderAttributes {
                client_order_id: terms.client_order_id,
                shares_located: terms.shares_located,
                locate_broker: terms.locate_broker,
                ..original.attributes
            },
            conditions: terms.conditions.apply(original.conditions),
            instructions: terms.instructions.unwrap_or(original.instructions),
            ..*original
        })
    }

    /// Refuses an order with a term for which there is no tag.
    fn check(&self, order: &EnterOrder) -> Result<(), String> {
        let Instructions {
            pricing, all_or_none, trigger, offset, shown_quantity, expires_s, ..
        } = order.instructions;
        let attributes =
            OrderAttributes { capacity: order.attributes.capacity, ..OrderAttributes::default() };
        let conditions = Conditions {
            post_only: order.conditions.post_only,
            minimum_quantity: order.conditions.minimum_quantity,
            ..Conditions::NONE
        };
        let instructions = Instructions {
            pricing,
            all_or_none,
            trigger,
            offset,
            shown_quantity,
            expires_s,
            ..Instructions::NONE
        };
        let display = match order.display {
            _ if pricing.is_pegged() => Display::Hidden,
            Display::Hidden => Display::Hidden,
            _ => Display::Visible,
        };
        let said = EnterOrder { attributes, conditions, instructions, display, ..*order };
        let is_offered = pricing != Pricing::TrailingStop && life(order.time_in_force).is_some();
        match said == *order && is_offered {
            true => Ok(()),
            false => {
                Err(format!("{} has no tag for a term of this order", self.version.begin_string()))
            }
        }
    }

    fn send(&mut self, msg_type: &str, now_ns: u64, fields: impl FnOnce(&mut Builder<'_>)) {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, self.next).text(49, &self.name);
        builder.time(52, Timestamp(now_ns)).text(56, "DAMRAK");
        fields(&mut builder);
        self.outgoing.extend_from_slice(builder.finish(self.version));
        self.next += 1;
    }

    /// Takes bytes of the venue.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.incoming.extend_from_slice(bytes);
        loop {
            let len = match frame(&self.incoming) {
                Framed::Whole(len) => len,
                Framed::Partial => return Ok(()),
                Framed::Garbled(_) => return Err("the venue sends garbled bytes".into()),
            };
            let taken: Vec<u8> = self.incoming.drain(..len).collect();
            let message = Message::read(&taken);
            let wrong = |what| Err(format!("{what}: {}", taken.escape_ascii()));
            let Some(row) = dictionary::message(message.msg_type(), self.version) else {
                return wrong("no such message");
            };
            if dictionary::check(&message, row, self.version).is_err() {
                return wrong("not a message of the dictionary");
            }
            let text =
                |tag| String::from_utf8_lossy(message.get(tag).unwrap_or_default()).into_owned();
            match message.msg_type() {
                b"A" => self.is_logged_on = true,
                b"3" | b"5" | b"j" => return wrong("the venue refuses a message"),
                b"8" if matches!(message.get(150), Some(b"F" | b"1" | b"2")) => {
                    self.trades.push([text(17), text(32), text(31)]);
                }
                _ => {}
            }
        }
    }

    /// Its part of each trade, as the venue reported it.
    pub fn fills(&self, session: SessionId) -> Result<Vec<TradePart>, String> {
        let fill = |[id, quantity, price]: &[String; 3]| {
            let digits = id.trim_matches(|it: char| !it.is_ascii_digit());
            Some(TradePart {
                trade: digits.parse().ok()?,
                session,
                quantity: quantity.parse().ok()?,
                price: parse_decimal::<u64>(price, 4).ok()?,
            })
        };
        let wrong = |report: &[String; 3]| format!("not a trade: {report:?}");
        self.trades.iter().map(|report| fill(report).ok_or_else(|| wrong(report))).collect()
    }
}

/// ClOrdID of an order.
fn name(number: u32) -> String {
    format!("ORDER-{number}")
}

fn side_code(side: Side) -> u8 {
    match side {
        Side::Buy => b'1',
        Side::Sell => b'2',
        Side::SellShort => b'5',
        Side::SellShortExempt => b'6',
    }
}

/// TimeInForce (59); `None` if FIX has none for it.
fn life(time_in_force: TimeInForce) -> Option<u8> {
    Some(match time_in_force {
        TimeInForce::Day => b'0',
        TimeInForce::GoodTillCancel => b'1',
        TimeInForce::AtTheOpen => b'2',
        TimeInForce::ImmediateOrCancel => b'3',
        TimeInForce::FillOrKill => b'4',
        TimeInForce::GoodTillTime => b'6',
        TimeInForce::AtTheClose => b'7',
        _ => return None,
    })
}

/// Symbol, side, quantity, price and instructions.
fn terms(builder: &mut Builder<'_>, order: &EnterOrder) {
    let Instructions { pricing, trigger, offset, shown_quantity, expires_s, all_or_none, .. } =
        order.instructions;
    let has_limit = order.order_type == OrderType::Limit;
    let code = match (pricing, order.order_type) {
        (Pricing::Limit, OrderType::Market) => b'1',
        (Pricing::Limit, OrderType::Limit) => b'2',
        (Pricing::Limit, OrderType::MarketToLimit) => b'K',
        (Pricing::Stop, OrderType::Limit) => b'4',
        (Pricing::Stop, _) => b'3',
        (Pricing::TakeProfit, _) => b'J',
        _ => b'P',
    };
    builder.text(55, order.symbol.as_str()).char(54, side_code(order.side));
    builder.number(38, order.quantity.0).char(40, code);
    if has_limit {
        builder.decimal(44, order.price.0.into(), 4);
    }
    if pricing.is_triggered() {
        builder.decimal(99, trigger.0.into(), 4);
    }
    let life = life(order.time_in_force).expect("it was checked");
    builder.char(59, life);
    if order.time_in_force == TimeInForce::GoodTillTime {
        builder.time(126, Timestamp(u64::from(expires_s) * NANOS_PER_SECOND));
    }
    let words = [
        ("6", order.conditions.post_only),
        ("G", all_or_none),
        ("R", pricing == Pricing::PrimaryPeg),
        ("P", pricing == Pricing::MarketPeg),
        ("M", pricing == Pricing::MidpointPeg),
    ];
    let words: Vec<&str> = words.iter().filter(|(_, is_set)| *is_set).map(|it| it.0).collect();
    if !words.is_empty() {
        builder.text(18, &words.join(" "));
    }
    if order.conditions.minimum_quantity.0 > 0 {
        builder.number(110, order.conditions.minimum_quantity.0.into());
    }
    if shown_quantity.0 > 0 {
        builder.number(111, shown_quantity.0.into());
    } else if order.display == Display::Hidden && !pricing.is_pegged() {
        builder.number(111, 0);
    }
    if offset != 0 {
        let size = u128::from(offset.unsigned_abs());
        let sign = if offset < 0 { "-" } else { "" };
        builder.text(211, &format!("{sign}{}.{:04}", size / 10_000, size % 10_000));
    }
    let capacity = match order.attributes.capacity {
        Capacity::Agency => Some(b'A'),
        Capacity::Principal => Some(b'P'),
        Capacity::Riskless => Some(b'R'),
        Capacity::Other => None,
    };
    if let Some(capacity) = capacity {
        builder.char(528, capacity);
    }
}
