//! A client's side of FIX: its messages by the standard tags, and the framing of the venue's messages.
//!
//! Invariant: a request with a term for which FIX has no tag is not written.

use market::{
    Capacity, Conditions, Display, EnterOrder, Handling, Instructions, OrderAttributes, OrderType,
    Pricing, ReplaceOrder, Side, Symbol, TimeInForce, Timestamp,
};
use wire::fix::{APPL_VER_ID, BUILDER_LEN_MAX, Builder, CompId, Framed, Version, frame};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Writes the messages of one session, with their numbers, for a connection to take.
#[derive(Debug)]
pub struct FixWriter {
    version: Version,
    client: CompId,
    venue: CompId,
    /// MsgSeqNum of the next message.
    next: u64,
    outgoing: Vec<u8>,
    written: usize,
}

impl FixWriter {
    /// A session whose next message has the number 1.
    #[must_use]
    pub fn new(version: Version, client: CompId, venue: CompId) -> Self {
        Self { version, client, venue, next: 1, outgoing: Vec::new(), written: 0 }
    }

    /// The version of FIX that the session uses.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The bytes that wait to be sent.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.written..]
    }

    /// Removes the first bytes of [`outgoing`](Self::outgoing), which have been sent.
    ///
    /// # Panics
    /// `count` is above the number of waiting bytes.
    pub fn sent(&mut self, count: usize) {
        self.written += count;
        assert!(self.written <= self.outgoing.len(), "{count} bytes");
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        }
    }

    /// Writes a message with the next number; `fields` are those after the header.
    pub fn put(&mut self, msg_type: &str, now_ns: u64, fields: impl FnOnce(&mut Builder<'_>)) {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, self.next).text(49, self.client.as_str());
        builder.time(52, Timestamp(now_ns)).text(56, self.venue.as_str());
        fields(&mut builder);
        self.outgoing.extend_from_slice(builder.finish(self.version));
        self.next += 1;
    }

    /// A Logon without heartbeats. With `reset` both sides number from 1 again.
    ///
    /// # Panics
    /// A reset is requested after messages have been sent.
    pub fn log_on(&mut self, password: &str, reset: bool, now_ns: u64) {
        assert!(!reset || self.next == 1, "a reset begins with the Logon");
        let version = self.version;
        self.put("A", now_ns, |builder| {
            let length = password.len() as u64;
            builder.number(98, 0).number(108, 0).number(95, length).text(96, password);
            if reset {
                builder.char(141, b'Y');
            }
            if version == Version::Fix50Sp1 {
                builder.text(1137, APPL_VER_ID);
            }
        });
    }

    /// A New Order Single under a ClOrdID.
    ///
    /// # Errors
    /// FIX has no tag for a term of the order.
    pub fn enter(&mut self, id: &str, order: &EnterOrder, now_ns: u64) -> Result<(), String> {
        self.check(order)?;
        self.put("D", now_ns, |builder| {
            builder.text(11, id).char(21, b'1').time(60, Timestamp(now_ns));
            terms(builder, order);
        });
        Ok(())
    }

    /// An Order Cancel/Replace Request: `order` has all terms, as [`replaced`] gives them.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn replace(
        &mut self,
        id: &str,
        original_id: &str,
        order: &EnterOrder,
        now_ns: u64,
    ) -> Result<(), String> {
        self.check(order)?;
        self.put("G", now_ns, |builder| {
            builder.text(11, id).text(41, original_id).char(21, b'1');
            builder.time(60, Timestamp(now_ns));
            terms(builder, order);
        });
        Ok(())
    }

    /// An Order Cancel Request for all open lots.
    pub fn cancel(&mut self, id: &str, original_id: &str, symbol: Symbol, side: Side, now_ns: u64) {
        self.put("F", now_ns, |builder| {
            builder.text(11, id).text(41, original_id).text(55, symbol.as_str());
            builder.char(54, side_code(side)).time(60, Timestamp(now_ns));
        });
    }

    /// Refuses an order with a term that has no tag.
    fn check(&self, order: &EnterOrder) -> Result<(), String> {
        let Instructions { pricing, handling, trigger, offset, shown_quantity, expires_s, .. } =
            order.instructions;
        let attributes =
            OrderAttributes { capacity: order.attributes.capacity, ..OrderAttributes::default() };
        let conditions = Conditions {
            post_only: order.conditions.post_only,
            minimum_quantity: order.conditions.minimum_quantity,
            ..Conditions::NONE
        };
        let instructions = Instructions {
            pricing,
            handling: Handling::new(handling.is_all_or_none(), false),
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
}

/// Cuts the bytes of a connection into messages.
#[derive(Debug, Default)]
pub struct FixFrames {
    bytes: Vec<u8>,
    taken: usize,
}

/// The venue sent bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the venue sent bytes that are not a FIX message")]
pub struct Garbled;

impl FixFrames {
    /// Takes bytes of the connection.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it is complete.
    ///
    /// # Errors
    /// [`Garbled`].
    pub fn take(&mut self) -> Result<Option<&[u8]>, Garbled> {
        let rest = &self.bytes[self.taken..];
        match frame(rest) {
            Framed::Partial => Ok(None),
            Framed::Garbled(_) => Err(Garbled),
            Framed::Whole(len) => {
                self.taken += len;
                Ok(Some(&rest[..len]))
            }
        }
    }
}

/// The terms of a replacement, which FIX repeats in full; `None` if the gateway rejected those of the request.
#[must_use]
pub fn replaced(original: &EnterOrder, replace: &ReplaceOrder) -> Option<EnterOrder> {
    let terms = replace.terms.as_ref()?;
    Some(EnterOrder {
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

/// Side (54).
#[must_use]
pub fn side_code(side: Side) -> u8 {
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
    let Instructions { pricing, trigger, offset, shown_quantity, expires_s, handling, .. } =
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
        ("G", handling.is_all_or_none()),
        ("R", pricing == Pricing::PrimaryPeg),
        ("P", pricing == Pricing::MarketPeg),
        ("M", pricing == Pricing::MidpointPeg),
    ];
    let words: Vec<&str> = words.iter().filter(|(_, is_set)| *is_set).map(|it| it.0).collect();
    if !words.is_empty() {
        builder.text(18, &words.join(" "));
    }
    if !order.conditions.minimum_quantity.is_zero() {
        builder.number(110, order.conditions.minimum_quantity.get());
    }
    if !shown_quantity.is_zero() {
        builder.number(111, shown_quantity.get());
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
