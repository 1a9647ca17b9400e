//! A stream of server-sent events: a snapshot of the requested data, then its changes.
//!
//! Invariant: an event is made when the connection has room for it, as the difference between the client's state and
//! the present state; no event waits in a queue.

use std::{
    convert::Infallible,
    fmt::Write as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::StatusCode;
use gateway::{DerivedMirror, MirroredInstrument, PriceLevel, Statistics, TapeEntry};
use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    Market, STALLED_AFTER, add, json,
    query::{Wanted, Wrong, bad, find},
};
use crate::{admin::progress::Progress, clock::runtime_now};

/// A comment is sent after this silence, so that a lost client is noticed.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Trades of one batch of events at most.
const TRADES_AT_A_TIME: usize = 500;

/// One client's stream.
pub(super) struct Stream {
    place: OpenPlace,
    wanted: Wanted,
    instruments: Vec<Watched>,
    /// The ordinal of the next trade to send.
    ordinal: u64,
    /// The mirror's repetition that the client has.
    request: u64,
    timer: Pin<Box<Sleep>>,
    sent: Instant,
    progress: Arc<Progress>,
}

/// The client's state of one instrument.
struct Watched {
    place: usize,
    symbol: String,
    version: Option<u64>,
    top: Option<[Option<PriceLevel>; 2]>,
    levels: Option<[Vec<PriceLevel>; 2]>,
    /// The message after which the client's levels hold.
    levels_number: u64,
    statistics: Option<Statistics>,
}

/// A place among the open streams, given back at the end.
struct OpenPlace(Arc<Market>, Arc<Progress>);

impl OpenPlace {
    fn take(market: &Arc<Market>, progress: &Arc<Progress>) -> Result<Self, Wrong> {
        let mut open = market.open();
        let own = open.iter().filter(|it| it.peer == progress.peer).count();
        let settings = &market.settings;
        let (most, of) = if open.len() >= settings.streams_max {
            (settings.streams_max, "in all")
        } else if own >= settings.streams_per_address_max {
            (settings.streams_per_address_max, "from one address")
        } else {
            open.push(Arc::clone(progress));
            drop(open);
            market.count_streams();
            return Ok(Self(Arc::clone(market), Arc::clone(progress)));
        };
        add(&market.figures.streams_refused, 1);
        Err(Wrong {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: "too_many_streams",
            what: format!("{most} streams are open, as many as may be {of}"),
        })
    }
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        let Self(market, progress) = self;
        market.open().retain(|it| !Arc::ptr_eq(it, progress));
        market.count_streams();
    }
}

impl Stream {
    /// Begins with the present state; trades begin with the next.
    pub(super) fn open(
        market: &Arc<Market>,
        wanted: Wanted,
        progress: Arc<Progress>,
    ) -> Result<Self, Wrong> {
        let (mut instruments, ordinal, request) = {
            let mirror = market.mirror();
            let watched = |symbol: &String| {
                let place = find(&mirror, symbol).map_err(|it| bad(it.what))?;
                Ok(Watched::new(place, symbol.clone()))
            };
            let watched = wanted.symbols.iter().map(watched).collect::<Result<Vec<_>, _>>()?;
            (watched, mirror.ordinal_next(), mirror.request())
        };
        instruments.sort_unstable_by_key(|it| it.place);
        let place = OpenPlace::take(market, &progress)?;
        progress.begin_stream();
        add(&market.figures.streams, 1);
        let now = runtime_now();
        let timer = Box::pin(sleep_until(now));
        Ok(Self { place, wanted, instruments, ordinal, request, timer, sent: now, progress })
    }

    /// The events that are due; empty if nothing has changed.
    fn events(&mut self, full_for: Duration) -> String {
        let Self { place, wanted, instruments, ordinal, request, .. } = self;
        let market = &place.0;
        market.take();
        let mirror = market.mirror();
        let mut text = Events::default();
        if !mirror.is_held() {
            return text.text;
        }
        let is_behind = full_for >= STALLED_AFTER;
        let reason = match (is_behind, *request == mirror.request()) {
            (_, false) => Some("repeated"),
            (true, true) => Some("behind"),
            (false, true) => None,
        };
        *request = mirror.request();
        if reason.is_some() {
            add(&market.figures.conflated, 1);
        }
        for watched in instruments.iter_mut() {
            watched.events(&mirror, wanted, reason, &mut text);
        }
        if wanted.kinds.trades {
            *ordinal = trades(&mirror, instruments, *ordinal, &mut text);
        }
        add(&market.figures.events, text.count);
        add(&market.figures.bytes_out, text.text.len() as u64);
        text.text
    }

    /// True if more trades remain than fit.
    fn has_more(&self) -> bool {
        let mirror = self.place.0.mirror();
        self.wanted.kinds.trades && mirror.is_held() && self.ordinal < mirror.ordinal_next()
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let full_for = this.progress.full_for();
        this.progress.has_room();
        let interval = this.place.0.settings.interval.0;
        loop {
            if this.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = runtime_now();
            let mut text = this.events(full_for.saturating_sub(interval));
            let pause = if this.has_more() { Duration::ZERO } else { interval };
            this.timer.as_mut().reset(now + pause);
            if text.is_empty() && now - this.sent >= SILENCE_MAX {
                text.push_str(": nothing new\n\n");
            }
            if !text.is_empty() {
                this.sent = now;
                return Poll::Ready(Some(Ok(Frame::data(text.into()))));
            }
        }
    }
}

/// Server-sent events, one after the other.
#[derive(Default)]
struct Events {
    text: String,
    count: u64,
}

impl Events {
    fn push(&mut self, event: &str, data: &Value) {
        write!(self.text, "event: {event}\ndata: {data}\n\n").expect("a string takes all");
        self.count += 1;
    }
}

impl Watched {
    const fn new(place: usize, symbol: String) -> Self {
        Self {
            place,
            symbol,
            version: None,
            top: None,
            levels: None,
            levels_number: 0,
            statistics: None,
        }
    }

    /// The changes of the instrument. With a `reason` the client has missed events, and gets the whole state again.
    fn events(
        &mut self,
        mirror: &DerivedMirror,
        wanted: &Wanted,
        reason: Option<&str>,
        text: &mut Events,
    ) {
        let it = &mirror.instruments()[self.place];
        if self.version == Some(it.version) && reason.is_none() {
            return;
        }
        self.version = Some(it.version);
        if wanted.kinds.top {
            self.top_events(mirror, it, text);
        }
        if wanted.kinds.levels {
            self.level_events(mirror, it, wanted.depth, reason, text);
        }
        if wanted.kinds.statistics && self.statistics != Some(it.statistics) {
            self.statistics = Some(it.statistics);
            text.push("statistics", &json::statistics(mirror, self.place));
        }
    }

    fn top_events(&mut self, mirror: &DerivedMirror, it: &MirroredInstrument, text: &mut Events) {
        let best = |is_bid| it.levels.best(is_bid, 1).first().copied();
        let top = Some([best(true), best(false)]);
        if self.top != top {
            self.top = top;
            text.push("top", &json::top(mirror, self.place));
        }
    }

    fn level_events(
        &mut self,
        mirror: &DerivedMirror,
        it: &MirroredInstrument,
        depth: usize,
        reason: Option<&str>,
        text: &mut Events,
    ) {
        let levels = [it.levels.best(true, depth), it.levels.best(false, depth)];
        let number = mirror.number();
        let known = self.levels.take().filter(|_| reason.is_none());
        match &known {
            None => {
                let mut snapshot = json::levels(mirror, self.place, depth);
                snapshot["reason"] = json!(reason.unwrap_or("start"));
                text.push("snapshot", &snapshot);
                self.levels_number = number;
            }
            Some(known) if *known != levels => {
                let changed = |side: usize| json::side(&changed(&known[side], &levels[side]));
                let delta = json!({
                    "schema": "damrak/market-delta/1",
                    "symbol": self.symbol,
                    "after": self.levels_number,
                    "sequence": number,
                    "bids": changed(0),
                    "asks": changed(1),
                });
                text.push("delta", &delta);
                self.levels_number = number;
            }
            Some(_) => {}
        }
        self.levels = Some(levels);
    }
}

/// The levels that differ; removed levels have no lots and no orders.
fn changed(before: &[PriceLevel], after: &[PriceLevel]) -> Vec<PriceLevel> {
    let is_in = |levels: &[PriceLevel], price: u32| levels.iter().any(|level| level.price == price);
    let gone = before.iter().filter(|level| !is_in(after, level.price));
    let gone = gone.map(|level| PriceLevel { price: level.price, lots: 0, orders: 0 });
    gone.chain(after.iter().filter(|level| !before.contains(level)).copied()).collect()
}

/// The trades from an ordinal on, as far as they fit; returns the ordinal of the next.
fn trades(mirror: &DerivedMirror, instruments: &[Watched], ordinal: u64, text: &mut Events) -> u64 {
    let mut next = ordinal;
    let mut room = TRADES_AT_A_TIME;
    for (ordinal, entry) in mirror.tape_from(next) {
        gap(next, *ordinal, mirror.number(), text);
        next = ordinal + 1;
        if let Some(watched) = watched(instruments, entry) {
            text.push("trade", &json::entry_of(entry, &watched.symbol));
            room -= 1;
            if room == 0 {
                return next;
            }
        }
    }
    gap(next, mirror.ordinal_next(), mirror.number(), text);
    mirror.ordinal_next()
}

/// Reports the number of trades, of all instruments, that are no longer known.
fn gap(next: u64, ordinal: u64, number: u64, text: &mut Events) {
    if next < ordinal {
        let gap = json!({
            "schema": "damrak/market-gap/1",
            "sequence": number,
            "kind": "trades",
            "missed": ordinal - next,
        });
        text.push("gap", &gap);
    }
}

fn watched<'a>(instruments: &'a [Watched], entry: &TapeEntry) -> Option<&'a Watched> {
    let place = usize::from(entry.stock_locate()) - 1;
    let found = instruments.binary_search_by_key(&place, |it| it.place);
    found.ok().map(|found| &instruments[found])
}
