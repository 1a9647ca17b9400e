//! The facts that a [`DerivedMirror`](super::DerivedMirror) is built from, and their form in a ring.
//!
//! Invariant: a fact describes the current state; taken twice, it changes nothing more.

use ring::Words;

use super::{PriceLevel, Statistics};

/// A fact, with the message of the feed after which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedUpdate {
    pub number: u64,
    /// True for the last fact of a message: all levels are those after it.
    pub is_last: bool,
    pub fact: DerivedFact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedFact {
    /// All messages up to this number are in the facts before.
    Held,
    Instrument {
        stock_locate: u16,
        symbol: [u8; 8],
        trading_state: u8,
    },
    /// A level as it is now; without orders it is gone.
    Level {
        stock_locate: u16,
        is_bid: bool,
        level: PriceLevel,
    },
    /// A trade that counts. Ordinals number trades and undone trades from 0, without gaps.
    Trade {
        ordinal: u64,
        trade: DerivedTrade,
    },
    /// A trade was undone, by the message of this number.
    Undone {
        ordinal: u64,
        number: u64,
        stock_locate: u16,
        match_number: u64,
    },
    Statistics {
        stock_locate: u16,
        statistics: Statistics,
    },
    /// From here on all instruments, levels and statistics are repeated, for the request of this number.
    Begin {
        request: u64,
    },
    /// The repetition is complete. Has the ordinal of the next trade.
    End {
        request: u64,
        ordinal: u64,
    },
}

/// A trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedTrade {
    /// The number of its message.
    pub number: u64,
    pub stock_locate: u16,
    /// In ticks.
    pub price: u32,
    pub lots: u64,
    pub match_number: u64,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    pub kind: TradeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TradeKind {
    /// With a displayed order.
    Continuous,
    /// With a hidden order, or in place of a trade that was corrected.
    Hidden,
    /// All trades of an auction.
    Cross,
    /// One trade of an auction, which is counted with its cross.
    PartOfCross,
}

/// A trade or an undone trade, in the order of the ordinals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeEntry {
    Trade(DerivedTrade),
    Undone { number: u64, stock_locate: u16, match_number: u64 },
}

impl TapeEntry {
    #[must_use]
    pub const fn stock_locate(&self) -> u16 {
        match self {
            Self::Trade(trade) => trade.stock_locate,
            Self::Undone { stock_locate, .. } => *stock_locate,
        }
    }
}

impl TradeKind {
    const fn code(self) -> u8 {
        match self {
            Self::Continuous => 0,
            Self::Hidden => 1,
            Self::Cross => 2,
            Self::PartOfCross => 3,
        }
    }

    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Continuous,
            1 => Self::Hidden,
            2 => Self::Cross,
            _ => Self::PartOfCross,
        }
    }
}

/// The content of the second word: the kind of fact, two small values, and the instrument.
struct Head {
    kind: u8,
    is_last: bool,
    small: u8,
    stock_locate: u16,
}

impl Head {
    fn to_word(&self) -> u64 {
        let [low, high] = self.stock_locate.to_le_bytes();
        u64::from_le_bytes([self.kind, self.is_last.into(), self.small, low, high, 0, 0, 0])
    }

    fn of(word: u64) -> Self {
        let [kind, is_last, small, low, high, ..] = word.to_le_bytes();
        let stock_locate = u16::from_le_bytes([low, high]);
        Self { kind, is_last: is_last == 1, small, stock_locate }
    }
}

const HELD: u8 = 0;
const INSTRUMENT: u8 = 1;
const LEVEL: u8 = 2;
const TRADE: u8 = 3;
const UNDONE: u8 = 4;
const STATISTICS: u8 = 5;
const BEGIN: u8 = 6;
const END: u8 = 7;

/// Stands for no price: no price is as high.
const NONE: u32 = u32::MAX;

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn some(price: u32) -> Option<u32> {
    (price != NONE).then_some(price)
}

impl Words for DerivedUpdate {
    const WORDS: usize = 12;

    fn to_words(&self, words: &mut [u64]) {
        let mut head = Head { kind: HELD, is_last: self.is_last, small: 0, stock_locate: 0 };
        let mut rest = [0; Self::WORDS - 2];
        match self.fact {
            DerivedFact::Held => {}
            DerivedFact::Instrument { stock_locate, symbol, trading_state } => {
                head = Head { kind: INSTRUMENT, small: trading_state, stock_locate, ..head };
                rest[0] = u64::from_le_bytes(symbol);
            }
            DerivedFact::Level { stock_locate, is_bid, level } => {
                head = Head { kind: LEVEL, small: is_bid.into(), stock_locate, ..head };
                (rest[0], rest[1]) = (pair(level.price, level.orders), level.lots);
            }
            DerivedFact::Trade { ordinal, trade } => {
                let DerivedTrade { number, stock_locate, price, lots, match_number, time_ns, kind } =
                    trade;
                head = Head { kind: TRADE, small: kind.code(), stock_locate, ..head };
                rest[..6].copy_from_slice(&[
                    ordinal,
                    number,
                    price.into(),
                    lots,
                    match_number,
                    time_ns,
                ]);
            }
            DerivedFact::Undone { ordinal, number, stock_locate, match_number } => {
                head = Head { kind: UNDONE, stock_locate, ..head };
                rest[..3].copy_from_slice(&[ordinal, number, match_number]);
            }
            DerivedFact::Statistics { stock_locate, statistics } => {
                let it = statistics;
                let small = it.is_whole_day.into();
                head = Head { kind: STATISTICS, small, stock_locate, ..head };
                let price = |price: Option<u32>| price.unwrap_or(NONE);
                rest = [
                    it.since,
                    pair(it.day, price(it.open)),
                    pair(price(it.high), price(it.low)),
                    pair(price(it.last), 0),
                    it.volume,
                    it.trades,
                    it.undone,
                    it.undone_unknown,
                    it.open_number,
                    it.last_number,
                ];
            }
            DerivedFact::Begin { request } => {
                head.kind = BEGIN;
                rest[0] = request;
            }
            DerivedFact::End { request, ordinal } => {
                head.kind = END;
                (rest[0], rest[1]) = (request, ordinal);
            }
        }
        words[0] = self.number;
        words[1] = head.to_word();
        words[2..].copy_from_slice(&rest);
    }

    fn from_words(words: &[u64]) -> Self {
        let Head { kind, is_last, small, stock_locate } = Head::of(words[1]);
        let rest = &words[2..];
        let fact = match kind {
            INSTRUMENT => DerivedFact::Instrument {
                stock_locate,
                symbol: rest[0].to_le_bytes(),
                trading_state: small,
            },
            LEVEL => {
                let (price, orders) = halves(rest[0]);
                let level = PriceLevel { price, lots: rest[1], orders };
                DerivedFact::Level { stock_locate, is_bid: small == 1, level }
            }
            TRADE => DerivedFact::Trade {
                ordinal: rest[0],
                trade: DerivedTrade {
                    number: rest[1],
                    stock_locate,
                    price: rest[2] as u32,
                    lots: rest[3],
                    match_number: rest[4],
                    time_ns: rest[5],
                    kind: TradeKind::of(small),
                },
            },
            UNDONE => DerivedFact::Undone {
                ordinal: rest[0],
                number: rest[1],
                stock_locate,
                match_number: rest[2],
            },
            STATISTICS => {
                let ((day, open), (high, low)) = (halves(rest[1]), halves(rest[2]));
                DerivedFact::Statistics {
                    stock_locate,
                    statistics: Statistics {
                        day,
                        since: rest[0],
                        is_whole_day: small == 1,
                        open: some(open),
                        high: some(high),
                        low: some(low),
                        last: some(halves(rest[3]).0),
                        volume: rest[4],
                        trades: rest[5],
                        undone: rest[6],
                        undone_unknown: rest[7],
                        open_number: rest[8],
                        last_number: rest[9],
                    },
                }
            }
            BEGIN => DerivedFact::Begin { request: rest[0] },
            END => DerivedFact::End { request: rest[0], ordinal: rest[1] },
            _ => DerivedFact::Held,
        };
        Self { number: words[0], is_last, fact }
    }
}
