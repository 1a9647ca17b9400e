//! A FIX client that sends a scenario's requests with the standard tags, and keeps the venue's reports.
//!
//! Invariant: a request with a term for which FIX has no tag is not sent.

use std::collections::BTreeMap;

use client::participant::{FixFrames, FixWriter, fix_replaced, fix_side_code};
use market::{
    Command, EnterOrder, OrderKey, Quantity, SessionId, Side, Symbol, Text, Timestamp,
    parse_decimal,
};
use wire::fix::{Fields, Version, dictionary};

use super::session::TradePart;

pub struct FixClient {
    name: String,
    writer: FixWriter,
    frames: FixFrames,
    is_logged_on: bool,
    /// The orders that it entered, as they are now.
    orders: BTreeMap<u32, EnterOrder>,
    requests: u32,
    /// ExecID, LastQty and LastPx of each trade.
    trades: Vec<[String; 3]>,
}

impl FixClient {
    pub fn new(version: Version, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            writer: FixWriter::new(version, comp_id(name), comp_id("DAMRAK")),
            frames: FixFrames::default(),
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
        let bytes = self.writer.outgoing().to_vec();
        self.writer.sent(bytes.len());
        bytes
    }

    /// Sends a Logon on a new connection.
    pub fn log_on(&mut self, now_ns: u64) {
        (self.is_logged_on, self.frames) = (false, FixFrames::default());
        self.writer.log_on(&self.name, false, now_ns);
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
                self.writer.enter(&name(number), order, now_ns)?;
                self.orders.insert(number, *order);
            }
            Command::Replace(replace) => {
                let original = self.orders.get(&replace.original_user_ref_num);
                let original =
                    original.ok_or("FIX repeats the terms of the order, and there is none")?;
                let order = fix_replaced(original, replace).ok_or("FIX has no unreadable terms")?;
                let original_name = name(replace.original_user_ref_num);
                self.writer.replace(&name(number), &original_name, &order, now_ns)?;
                self.orders.insert(number, order);
            }
            Command::Cancel(cancel) if cancel.quantity == Quantity::ZERO => {
                let (symbol, side) = match self.orders.get(&number) {
                    Some(order) => (order.symbol, order.side),
                    None => (Symbol::new("AAPL").expect("it is short"), Side::Buy),
                };
                let request = format!("{}-CANCEL-{}", name(number), self.requests);
                self.writer.cancel(&request, &name(number), symbol, side, now_ns);
            }
            Command::MassCancel(it) if self.writer.version() != Version::Fix42 => {
                if !it.firm.is_blank() || it.group_id.is_some() {
                    return Err("a mass cancel of FIX names neither firm nor group".into());
                }
                self.writer.put("q", now_ns, |builder| {
                    builder.text(11, &name(number));
                    match it.symbol.is_blank() {
                        true => builder.char(530, b'7'),
                        false => builder.char(530, b'1').text(55, it.symbol.as_str()),
                    };
                    if let Some(side) = it.side {
                        builder.char(54, fix_side_code(side));
                    }
                    builder.time(60, Timestamp(now_ns));
                });
            }
            _ => {
                return Err(format!(
                    "{} has no message for this",
                    self.writer.version().begin_string()
                ));
            }
        }
        Ok(())
    }

    /// Takes bytes from the venue.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        let version = self.writer.version();
        self.frames.receive(bytes);
        while let Some(taken) = self.frames.take().map_err(|error| error.to_string())? {
            let mut fields = Fields::default();
            let message = fields.read(taken);
            let wrong = |what| Err(format!("{what}: {}", taken.escape_ascii()));
            let Some(row) = dictionary::message(message.msg_type(), version) else {
                return wrong("no such message");
            };
            if dictionary::check(&message, row, version).is_err() {
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
        Ok(())
    }

    /// The session's part of each trade, as the venue reported it.
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

/// The ClOrdID of an order.
fn name(number: u32) -> String {
    format!("ORDER-{number}")
}

/// A scenario's name as a FIX CompID.
fn comp_id(name: &str) -> Text<16> {
    Text::new(name).expect("names of scenarios are short")
}
