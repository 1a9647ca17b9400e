//! The messages to a client for one request: a snapshot of each instrument, then the differences from the client's
//! books.
//!
//! Invariant: a message is made when the connection has room for it, from the client's books and the current ones.
//! Nothing waits in a queue, so a slow client gets fewer and larger changes; trades that are no longer available are
//! reported as missed.

use market::Timestamp;
use wire::fix::{
    Builder, ClOrdId, ENTRY_LEN_MAX, EntryAction, LiveSession, MarketDataAction, MarketDataEntries,
    MarketDataReject, MarketDataRequest,
};

use crate::{
    DerivedMirror, MirroredInstrument, PriceLevel, TapeEntry,
    order_entry::connection::OUTGOING_BYTES_MAX,
};

/// The most levels of a side: changes of them all fit one message.
pub const DEPTH_MAX: usize = 100;
/// Levels of a side that one session may have subscribed to, over all instruments.
pub const LEVELS_MAX: usize = 4096;
/// Trades of one message.
const TRADES_MAX: usize = 64;
/// Bytes of a message beside its entries.
const FRAME_BYTES: usize = 512;

const _: () = assert!(
    4 * DEPTH_MAX * ENTRY_LEN_MAX + FRAME_BYTES <= OUTGOING_BYTES_MAX
        && TRADES_MAX * ENTRY_LEN_MAX + FRAME_BYTES <= OUTGOING_BYTES_MAX,
    "every message fits what may wait for the socket"
);

/// One request that was taken.
pub(super) struct Subscription {
    pub(super) id: ClOrdId,
    is_once: bool,
    is_incremental: bool,
    depth: usize,
    entries: MarketDataEntries,
    instruments: Vec<Watched>,
    /// The instrument to compare next.
    cursor: usize,
    /// The ordinal of the next trade to send.
    ordinal: u64,
}

/// One instrument, as the client has it.
struct Watched {
    /// Its place in the mirror.
    place: usize,
    has_snapshot: bool,
    /// The version of the mirror's instrument that the client has.
    version: u64,
    bids: Vec<PriceLevel>,
    offers: Vec<PriceLevel>,
}

/// A level that changed.
#[derive(Clone, Copy)]
pub(super) struct Change {
    action: EntryAction,
    is_bid: bool,
    level: PriceLevel,
}

/// The progress of a subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The client has the current state.
    Whole,
    /// There is no room for more.
    Full,
    /// The request was for one snapshot, which has been sent.
    Over,
    /// Trades were missed.
    Missed,
}

/// The session, the buffers and the counts to make messages with.
pub(super) struct Pen<'a> {
    pub(super) session: &'a mut LiveSession,
    pub(super) buffer: &'a mut [u8],
    pub(super) changes: &'a mut Vec<Change>,
    pub(super) now_ns: u64,
    /// Snapshots and changes that were sent.
    pub(super) snapshots: u64,
    pub(super) increments: u64,
}

/// True if a message with this number of entries may wait for the socket.
pub(super) fn has_room(session: &LiveSession, entries: usize) -> bool {
    session.outgoing().len() + entries * ENTRY_LEN_MAX + FRAME_BYTES <= OUTGOING_BYTES_MAX
}

impl Pen<'_> {
    pub(super) fn has_room(&self, entries: usize) -> bool {
        has_room(self.session, entries)
    }

    /// Sends a message with the MDReqID of its request.
    fn send(&mut self, msg_type: &[u8], id: &ClOrdId, put: impl FnOnce(&mut Builder<'_>)) {
        let mut builder = self.session.begin(self.buffer, msg_type, self.now_ns);
        builder.text(262, id.as_str());
        put(&mut builder);
        self.session.send(builder, self.now_ns);
    }
}

/// Refuses a request, or ends a subscription.
pub(super) fn reject(
    session: &mut LiveSession,
    buffer: &mut [u8],
    id: &ClOrdId,
    reason: MarketDataReject,
    now_ns: u64,
) {
    let mut builder = session.begin(buffer, b"Y", now_ns);
    builder.text(262, id.as_str());
    if let Some(code) = reason.code() {
        builder.char(281, code);
    }
    builder.text(58, reason.text());
    session.send(builder, now_ns);
}

impl Subscription {
    /// The subscription of a request. Its trades begin with the next one.
    pub(super) fn new(
        request: &MarketDataRequest,
        mirror: &DerivedMirror,
        depth_max: usize,
    ) -> Result<Self, MarketDataReject> {
        let depth = match usize::try_from(request.depth) {
            Ok(0) => depth_max,
            Ok(depth) if depth <= depth_max => depth,
            _ => return Err(MarketDataReject::Depth),
        };
        let known = mirror.instruments();
        let watched = |symbol: &market::Symbol| {
            let place = known.iter().position(|it| symbol_of(it) == symbol.as_str())?;
            let (bids, offers) = (Vec::new(), Vec::new());
            Some(Watched { place, has_snapshot: false, version: 0, bids, offers })
        };
        let instruments: Option<Vec<_>> = request.symbols.iter().map(watched).collect();
        Ok(Self {
            id: request.id,
            is_once: request.action == MarketDataAction::Once,
            is_incremental: request.is_incremental,
            depth,
            entries: request.entries,
            instruments: instruments.ok_or(MarketDataReject::UnknownSymbol)?,
            cursor: 0,
            ordinal: mirror.ordinal_next(),
        })
    }

    /// Levels of a side that it may hold, over all its instruments.
    pub(super) const fn levels(&self) -> usize {
        self.instruments.len() * self.depth
    }

    /// The client has lost its books: the subscription begins with snapshots again.
    pub(super) fn begin_again(&mut self) {
        self.instruments.iter_mut().for_each(|it| it.has_snapshot = false);
    }

    /// Sends the differences, as far as there is room.
    pub(super) fn fill(&mut self, mirror: &DerivedMirror, pen: &mut Pen<'_>) -> Filled {
        if self.entries.trades && !self.is_once {
            match self.send_trades(mirror, pen) {
                Filled::Whole => {}
                filled => return filled,
            }
        }
        for _ in 0..self.instruments.len() {
            if !self.send_levels(mirror, pen) {
                return Filled::Full;
            }
            self.cursor = (self.cursor + 1) % self.instruments.len();
        }
        if self.is_once { Filled::Over } else { Filled::Whole }
    }

    fn send_trades(&mut self, mirror: &DerivedMirror, pen: &mut Pen<'_>) -> Filled {
        while self.ordinal < mirror.ordinal_next() {
            let mut entries: [Option<TapeEntry>; TRADES_MAX] = [None; TRADES_MAX];
            let (mut count, mut ordinal) = (0, self.ordinal);
            for (own, entry) in mirror.tape_from(self.ordinal) {
                if *own != ordinal {
                    return Filled::Missed;
                }
                if count == TRADES_MAX {
                    break;
                }
                ordinal += 1;
                let place = usize::from(entry.stock_locate()) - 1;
                if self.instruments.iter().any(|it| it.place == place) {
                    entries[count] = Some(*entry);
                    count += 1;
                }
            }
            if ordinal == self.ordinal {
                return Filled::Missed;
            }
            if count > 0 {
                if !pen.has_room(count) {
                    return Filled::Full;
                }
                pen.send(b"X", &self.id, |builder| {
                    builder.number(268, count as u64);
                    entries.iter().flatten().for_each(|entry| put_trade(builder, mirror, entry));
                });
                pen.increments += 1;
            }
            self.ordinal = ordinal;
        }
        Filled::Whole
    }

    /// Sends the differences of the instrument at the cursor; false if there is no room.
    fn send_levels(&mut self, mirror: &DerivedMirror, pen: &mut Pen<'_>) -> bool {
        let Self { id, is_incremental, depth, entries, instruments, cursor, .. } = self;
        let watched = &mut instruments[*cursor];
        let it = &mirror.instruments()[watched.place];
        if watched.has_snapshot && watched.version == it.version {
            return true;
        }
        let (bids, offers) = (it.levels.bids().take(*depth), it.levels.asks().take(*depth));
        pen.changes.clear();
        if entries.bids {
            compare(true, &watched.bids, bids.clone(), pen.changes);
        }
        if entries.offers {
            compare(false, &watched.offers, offers.clone(), pen.changes);
        }
        let symbol = symbol_of(it);
        if !watched.has_snapshot || (!*is_incremental && !pen.changes.is_empty()) {
            let bid_count = if entries.bids { bids.clone().count() } else { 0 };
            let offer_count = if entries.offers { offers.clone().count() } else { 0 };
            let last = it.statistics.last.filter(|_| entries.trades);
            let count = bid_count + offer_count + usize::from(last.is_some());
            if !pen.has_room(count) {
                return false;
            }
            pen.send(b"W", id, |builder| {
                builder.text(55, symbol).number(268, count as u64);
                for (is_bid, level) in bids
                    .clone()
                    .take(bid_count)
                    .map(|it| (true, it))
                    .chain(offers.clone().take(offer_count).map(|it| (false, it)))
                {
                    builder.snapshot_level(is_bid, level.price, level.lots, level.orders);
                }
                if let Some(price) = last {
                    builder.snapshot_trade(price);
                }
            });
            pen.snapshots += 1;
        } else if !pen.changes.is_empty() {
            if !pen.has_room(pen.changes.len()) {
                return false;
            }
            let changes = std::mem::take(pen.changes);
            pen.send(b"X", id, |builder| {
                builder.number(268, changes.len() as u64);
                for Change { action, is_bid, level } in &changes {
                    let PriceLevel { price, lots, orders } = *level;
                    builder.level(*action, symbol, *is_bid, (price, lots, orders));
                }
            });
            *pen.changes = changes;
            pen.increments += 1;
        }
        watched.has_snapshot = true;
        watched.version = it.version;
        if entries.bids {
            watched.bids.clear();
            watched.bids.extend(bids);
        }
        if entries.offers {
            watched.offers.clear();
            watched.offers.extend(offers);
        }
        true
    }
}

/// The levels that changed, best first.
fn compare(
    is_bid: bool,
    before: &[PriceLevel],
    now: impl Iterator<Item = PriceLevel>,
    changes: &mut Vec<Change>,
) {
    let mut before = before.iter().peekable();
    let mut push = |action, level| changes.push(Change { action, is_bid, level });
    for level in now {
        let is_better = |it: &&PriceLevel| match is_bid {
            true => it.price > level.price,
            false => it.price < level.price,
        };
        while let Some(gone) = before.next_if(is_better) {
            push(EntryAction::Delete, *gone);
        }
        match before.next_if(|it| it.price == level.price) {
            None => push(EntryAction::New, level),
            Some(same) if *same == level => {}
            Some(_) => push(EntryAction::Change, level),
        }
    }
    before.for_each(|gone| push(EntryAction::Delete, *gone));
}

fn put_trade(builder: &mut Builder<'_>, mirror: &DerivedMirror, entry: &TapeEntry) {
    let symbol = symbol_of(&mirror.instruments()[usize::from(entry.stock_locate()) - 1]);
    match entry {
        TapeEntry::Trade(it) => {
            builder.trade(symbol, it.match_number, it.price, it.lots, Timestamp(it.time_ns));
        }
        TapeEntry::Undone { match_number, .. } => builder.undone_trade(symbol, *match_number),
    }
}

fn symbol_of(it: &MirroredInstrument) -> &str {
    str::from_utf8(it.symbol.trim_ascii_end()).unwrap_or_default()
}
