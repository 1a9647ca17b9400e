//! Market data by FIX: Market Data Requests, the reasons to reject them, and the entries of the answers.
//!
//! Invariant: instruments, entries and depth of a request have bounds; a request is taken in full or not at all.

use alloc::vec::Vec;

use market::{Symbol, Timestamp};

use super::{Builder, Message, note::ClOrdId, time::write_time};

/// Instruments of one request.
pub const REQUEST_SYMBOLS_MAX: usize = 64;
/// An upper bound for the longest entry of a message, in bytes.
pub const ENTRY_LEN_MAX: usize = 128;

/// A Market Data Request (`V`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketDataRequest {
    /// MDReqID (262).
    pub id: ClOrdId,
    /// Once, from now on, or no longer.
    pub action: MarketDataAction,
    /// Levels of a side; 0 means all.
    pub depth: u64,
    /// True if changes are sent, false if everything is sent again at each change.
    pub is_incremental: bool,
    /// The entries.
    pub entries: MarketDataEntries,
    /// The instruments, each once.
    pub symbols: Vec<Symbol>,
}

/// SubscriptionRequestType (263).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketDataAction {
    /// A snapshot.
    Once,
    /// A snapshot, then changes.
    Begin,
    /// No further changes.
    End,
}

/// The kinds of entries (269) that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarketDataEntries {
    /// `0`
    pub bids: bool,
    /// `1`
    pub offers: bool,
    /// `2`
    pub trades: bool,
}

/// The reason why a request is refused; the codes are those of MDReqRejReason (281).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketDataReject {
    /// No such instrument.
    UnknownSymbol,
    /// MDReqID is that of a subscription.
    DuplicateId,
    /// More subscriptions, instruments or levels than a session may have.
    TooMany,
    /// More levels than are offered.
    Depth,
    /// MDUpdateType is missing where a subscription begins, or requests full refreshes of trades.
    UpdateType,
    /// The request is for orders one by one.
    NotAggregated,
    /// A kind of entries that is not offered.
    EntryType,
    /// No subscription has this MDReqID.
    NoSubscription,
    /// Trades were missed: the subscription has ended.
    TradesMissed,
}

impl MarketDataReject {
    /// The code; `None` if no version has one for the reason.
    #[must_use]
    pub const fn code(self) -> Option<u8> {
        Some(match self {
            Self::UnknownSymbol => b'0',
            Self::DuplicateId => b'1',
            Self::TooMany => b'2',
            Self::Depth => b'5',
            Self::UpdateType => b'6',
            Self::NotAggregated => b'7',
            Self::EntryType => b'8',
            Self::NoSubscription | Self::TradesMissed => return None,
        })
    }

    /// The reason in words, for Text (58).
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::UnknownSymbol => "unknown symbol",
            Self::DuplicateId => "MDReqID is that of a subscription",
            Self::TooMany => "more subscriptions, instruments or levels than a session may have",
            Self::Depth => "MarketDepth is more than is offered",
            Self::UpdateType => {
                "MDUpdateType is needed by a subscription, and is 1 where trades are requested"
            }
            Self::NotAggregated => {
                "AggregatedBook N is not offered: order by order is the ITCH feed"
            }
            Self::EntryType => "MDEntryType is none of 0, 1 and 2",
            Self::NoSubscription => "no subscription has this MDReqID",
            Self::TradesMissed => {
                "trades were missed, and the subscription has ended: request again"
            }
        }
    }
}

impl MarketDataRequest {
    /// Reads a message that agrees with the dictionary.
    ///
    /// # Errors
    /// The request is for a feature that is not offered.
    pub fn read(message: &Message<'_>) -> Result<Self, MarketDataReject> {
        let id = id_of(message);
        let action = match message.get(263) {
            Some(b"0") => MarketDataAction::Once,
            Some(b"1") => MarketDataAction::Begin,
            _ => MarketDataAction::End,
        };
        let depth = message.number(264).unwrap_or(0);
        let is_incremental = message.get(265) == Some(b"1");
        let mut request = Self {
            id,
            action,
            depth,
            is_incremental,
            entries: MarketDataEntries::default(),
            symbols: Vec::new(),
        };
        if action == MarketDataAction::End {
            return Ok(request);
        }
        if message.get(266) == Some(b"N") {
            return Err(MarketDataReject::NotAggregated);
        }
        for (tag, value) in message.fields() {
            match (tag, value) {
                (269, b"0") => request.entries.bids = true,
                (269, b"1") => request.entries.offers = true,
                (269, b"2") => request.entries.trades = true,
                (269, _) => return Err(MarketDataReject::EntryType),
                (55, symbol) => {
                    let symbol = str::from_utf8(symbol).ok().and_then(Symbol::new);
                    let symbol = symbol.ok_or(MarketDataReject::UnknownSymbol)?;
                    if request.symbols.len() >= REQUEST_SYMBOLS_MAX {
                        return Err(MarketDataReject::TooMany);
                    }
                    if !request.symbols.contains(&symbol) {
                        request.symbols.push(symbol);
                    }
                }
                _ => {}
            }
        }
        let is_full_refresh = action == MarketDataAction::Begin && !is_incremental;
        if is_full_refresh && (message.get(265).is_none() || request.entries.trades) {
            return Err(MarketDataReject::UpdateType);
        }
        Ok(request)
    }
}

/// The MDReqID of a request.
#[must_use]
pub fn id_of(message: &Message<'_>) -> ClOrdId {
    let id = str::from_utf8(message.get(262).unwrap_or_default()).ok();
    id.and_then(ClOrdId::new).unwrap_or(ClOrdId::BLANK)
}

/// MDUpdateAction (279).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// `0`
    New,
    /// `1`
    Change,
    /// `2`
    Delete,
}

impl Builder<'_> {
    /// Puts a level of a snapshot.
    pub fn snapshot_level(&mut self, is_bid: bool, price: u32, lots: u64, orders: u32) {
        self.char(269, if is_bid { b'0' } else { b'1' }).decimal(270, price.into(), 4);
        self.number(271, lots).number(346, orders.into());
    }

    /// Puts the price of the last trade into a snapshot.
    pub fn snapshot_trade(&mut self, price: u32) {
        self.char(269, b'2').decimal(270, price.into(), 4);
    }

    /// Puts a level that has changed; its MDEntryID is its side and its price.
    pub fn level(
        &mut self,
        action: EntryAction,
        symbol: &str,
        is_bid: bool,
        (price, lots, orders): (u32, u64, u32),
    ) {
        let (kind, letter) = if is_bid { (b'0', 'B') } else { (b'1', 'S') };
        self.action(action).char(269, kind).display(278, &format_args!("{letter}{price}"));
        self.text(55, symbol).decimal(270, price.into(), 4);
        if action != EntryAction::Delete {
            self.number(271, lots).number(346, orders.into());
        }
    }

    /// Puts a trade; its MDEntryID is that of the trade.
    pub fn trade(&mut self, symbol: &str, id: u64, price: u32, lots: u64, time: Timestamp) {
        let text = write_time(time);
        self.action(EntryAction::New).char(269, b'2').display(278, &format_args!("T{id}"));
        self.text(55, symbol).decimal(270, price.into(), 4).number(271, lots);
        self.bytes(272, &text[..8]).bytes(273, &text[9..]);
    }

    /// Puts the end of a trade that was undone.
    pub fn undone_trade(&mut self, symbol: &str, id: u64) {
        self.action(EntryAction::Delete).char(269, b'2').display(278, &format_args!("T{id}"));
        self.text(55, symbol);
    }

    fn action(&mut self, action: EntryAction) -> &mut Self {
        self.char(
            279,
            match action {
                EntryAction::New => b'0',
                EntryAction::Change => b'1',
                EntryAction::Delete => b'2',
            },
        )
    }
}
