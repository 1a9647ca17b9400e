//! Requests that are written before the clock starts: orders that rest at 16 prices, each canceled once a number
//! of younger ones is live.
//!
//! Invariant: each request is accepted, and has one answer.

use std::ops::Range;

use client::participant::{self, FixWriter};
use market::{EnterOrder, OrderKey, Price, Quantity, Side, Symbol, TimeInForce};
use venue::clock::SystemClock;
use wire::fix::{CompId, Version};

use super::stream::Framing;

pub(super) const SYMBOL: &str = "AAPL";
pub(super) const FIX_USER: &str = "fix";
pub(super) const FIX_PASSWORD: &str = "fixfix";
const FIX_VENUE: &str = "DAMRAK";

const PRICES: u32 = 16;
/// 150.00, in ticks.
const PRICE_MIN: Price = Price(1_500_000);
/// 0.01, in ticks.
const PRICE_INCREMENT: u64 = 100;
/// Type and UserRefNum of Enter Order and Cancel Order: OUCH 5.0, 2.1 and 2.3.
const USER_REF_NUM_AT: usize = 1;

/// Requests of one session, and the state from which it goes on.
pub(super) struct Prepared {
    writer: Writer,
    bytes: Vec<u8>,
    /// Where each request ends.
    ends: Vec<usize>,
    /// Orders entered so far; the last one's number.
    entered: u32,
    canceled: u32,
    live_max: u32,
    /// Cancels one after the other.
    in_a_row: u32,
    /// Cancels left in the current row.
    row: u32,
}

enum Writer {
    /// Messages as they are, or in packets of SoupBinTCP.
    Ouch {
        enters: Vec<Vec<u8>>,
        cancel: Vec<u8>,
        packets: bool,
    },
    Fix {
        writer: Box<FixWriter>,
        clock: SystemClock,
    },
}

impl Prepared {
    /// Messages of OUCH without a packet around them.
    pub(super) fn ouch(live_max: u32, in_a_row: u32) -> Self {
        Self::new(ouch(false), live_max, in_a_row)
    }

    /// Requests for a stream of this framing.
    pub(super) fn of(framing: Framing, live_max: u32, clock: SystemClock) -> Self {
        let writer = match framing {
            Framing::SoupBinTcp => ouch(true),
            Framing::Fix => {
                let id = |text| CompId::new(text).expect("it fits");
                let writer = FixWriter::new(Version::Fix44, id(FIX_USER), id(FIX_VENUE));
                Writer::Fix { writer: Box::new(writer), clock }
            }
        };
        Self::new(writer, live_max, 1)
    }

    fn new(writer: Writer, live_max: u32, in_a_row: u32) -> Self {
        Self {
            writer,
            bytes: Vec::new(),
            ends: Vec::new(),
            entered: 0,
            canceled: 0,
            live_max,
            in_a_row,
            row: 0,
        }
    }

    /// Replaces the requests by the next `count` of the session.
    pub(super) fn fill(&mut self, count: usize) {
        self.bytes.clear();
        self.ends.clear();
        for _ in 0..count {
            if self.row == 0 && self.entered - self.canceled < self.live_max {
                self.entered += 1;
                self.writer.enter(self.entered, &mut self.bytes);
            } else {
                self.row = self.row.checked_sub(1).unwrap_or(self.in_a_row - 1);
                self.canceled += 1;
                self.writer.cancel(self.canceled, &mut self.bytes);
            }
            self.ends.push(self.bytes.len());
        }
    }

    /// The Logon of FIX; empty for other protocols.
    pub(super) fn logon(&mut self) -> Vec<u8> {
        match &mut self.writer {
            Writer::Ouch { .. } => Vec::new(),
            Writer::Fix { writer, clock } => {
                writer.log_on(FIX_PASSWORD, true, clock.now_ns());
                let logon = writer.outgoing().to_vec();
                writer.sent(logon.len());
                logon
            }
        }
    }

    /// A ResendRequest of FIX for these messages, the next message of the session.
    ///
    /// # Panics
    /// The protocol is another.
    pub(super) fn resend_request(&mut self, numbers: &Range<u64>) -> Vec<u8> {
        let Writer::Fix { writer, clock } = &mut self.writer else { panic!("it speaks FIX") };
        let mut bytes = Vec::new();
        writer.put("2", clock.now_ns(), |builder| {
            builder.number(7, numbers.start).number(16, numbers.end - 1);
        });
        take(writer, &mut bytes);
        bytes
    }

    pub(super) fn framing(&self) -> Framing {
        match self.writer {
            Writer::Ouch { .. } => Framing::SoupBinTcp,
            Writer::Fix { .. } => Framing::Fix,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The requests from `first` to before `end`, one after the other.
    pub(super) fn bytes(&self, first: usize, end: usize) -> &[u8] {
        &self.bytes[self.start(first)..self.start(end)]
    }

    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

fn ouch(packets: bool) -> Writer {
    let enters = (0..PRICES).map(|step| {
        let order = order(step);
        let message = participant::enter(
            0,
            order.side,
            order.symbol,
            order.quantity,
            Some(price(step)),
            order.time_in_force,
        );
        message.to_vec()
    });
    let cancel = participant::cancel(0, Quantity::ZERO).to_vec();
    Writer::Ouch { enters: enters.collect(), cancel, packets }
}

impl Writer {
    fn enter(&mut self, number: u32, bytes: &mut Vec<u8>) {
        match self {
            Self::Ouch { enters, packets, .. } => {
                let message = &mut enters[(number % PRICES) as usize];
                put_ouch(number, message, *packets, bytes);
            }
            Self::Fix { writer, clock } => {
                let entered = writer.enter(&id(number), &order(number % PRICES), clock.now_ns());
                entered.expect("FIX has tags for a plain order");
                take(writer, bytes);
            }
        }
    }

    fn cancel(&mut self, number: u32, bytes: &mut Vec<u8>) {
        match self {
            Self::Ouch { cancel, packets, .. } => put_ouch(number, cancel, *packets, bytes),
            Self::Fix { writer, clock } => {
                let EnterOrder { symbol, side, .. } = order(number % PRICES);
                let now_ns = clock.now_ns();
                writer.cancel(&format!("X{number}"), &id(number), symbol, side, now_ns);
                take(writer, bytes);
            }
        }
    }
}

fn put_ouch(number: u32, message: &mut [u8], packets: bool, bytes: &mut Vec<u8>) {
    message[USER_REF_NUM_AT..USER_REF_NUM_AT + 4].copy_from_slice(&number.to_be_bytes());
    if packets {
        bytes.extend_from_slice(&(1 + message.len() as u16).to_be_bytes());
        bytes.push(b'U');
    }
    bytes.extend_from_slice(message);
}

fn take(writer: &mut FixWriter, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(writer.outgoing());
    writer.sent(writer.outgoing().len());
}

fn id(number: u32) -> String {
    format!("D{number}")
}

fn price(step: u32) -> Price {
    Price(PRICE_MIN.0 - u64::from(step) * PRICE_INCREMENT)
}

/// A bid at one of the prices.
fn order(step: u32) -> EnterOrder {
    let symbol = Symbol::new(SYMBOL).expect("it fits");
    let mut order =
        EnterOrder::limit(OrderKey::default(), Side::Buy, symbol, Quantity(100), price(step));
    order.time_in_force = TimeInForce::Day;
    order.attributes.capacity = market::Capacity::Principal;
    order
}
