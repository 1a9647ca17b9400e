//! Derived market data by HTTP: top of book, levels, trades and statistics, once or as a stream of events.
//!
//! Start at [`MarketPages`]; `json` has the forms, `stream` the server-sent events.
//!
//! Invariant: this module reads a mirror that the venue never waits for. A stream keeps the state of its client and no
//! queue: a slow client gets fewer and larger events, then none.

mod json;
mod query;
mod stream;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use gateway::DerivedMirror;
use serde_json::Value;

use self::{
    query::{Page, Query, Wrong},
    stream::Stream,
};
use super::{progress::Progress, routes};
use crate::{clock::runtime_now, config::DerivedDataConfig};

/// The interval at which the mirror takes updates without queries; shorter than the time in which the ring fills.
const TAKE_INTERVAL: Duration = Duration::from_millis(5);
/// Updates taken in one go, before other tasks have a turn.
const TAKEN_AT_A_TIME: usize = 8192;
/// A stream that takes no event for this long counts as stalled, and is behind when it takes the next.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// The longest wait of a query for a mirror that is being repeated.
const HELD_WITHIN: Duration = Duration::from_secs(1);

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counters; all are totals, unless marked "now".
        #[derive(Debug, Default)]
        pub struct MarketFigures { $($(#[$doc])* $name: AtomicU64,)+ }

        impl MarketFigures {
            /// All counters, with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)+]
            }
        }
    };
}

figures! {
    /// Number of the last feed message in the answers.
    sequence,
    /// Updates taken, and updates overwritten before they could be taken.
    updates,
    updates_missed,
    /// Full repetitions to the mirror; one at the start.
    repetitions,
    /// Queries answered, streams not counted.
    answers,
    streams,
    /// Streams open now, and streams whose client takes nothing now.
    streams_open,
    streams_stalled,
    /// Streams refused because of the limit.
    streams_refused,
    /// Events of streams, and their bytes.
    events,
    bytes_out,
    /// Times that a stream that had fallen behind got a snapshot in place of the missed events.
    conflated,
    /// Streams closed because their client took nothing for too long.
    slow_closed,
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

/// The pages of derived data.
#[derive(Clone)]
pub struct MarketPages(Arc<Market>);

struct Market {
    mirror: Mutex<DerivedMirror>,
    settings: DerivedDataConfig,
    figures: Arc<MarketFigures>,
    /// Streams open now.
    open: Mutex<Vec<Arc<Progress>>>,
}

impl MarketPages {
    pub fn new(mirror: DerivedMirror, settings: DerivedDataConfig) -> Self {
        Self(Arc::new(Market {
            mirror: Mutex::new(mirror),
            settings,
            figures: Arc::default(),
            open: Mutex::default(),
        }))
    }

    /// The counters.
    pub fn figures(&self) -> Arc<MarketFigures> {
        Arc::clone(&self.0.figures)
    }

    /// True if the client of a stream has taken nothing for too long; counts the stream, which the caller should close.
    pub(super) fn is_too_slow(&self, progress: &Progress) -> bool {
        let is_slow = self.0.is_full(progress, self.0.settings.slow_client_timeout.0);
        add(&self.0.figures.slow_closed, u64::from(is_slow));
        is_slow
    }

    /// Takes published updates, without end.
    pub(super) async fn keep_up(self) {
        loop {
            if self.0.take() < TAKEN_AT_A_TIME {
                self.0.count_streams();
                tokio::time::sleep(TAKE_INTERVAL).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Answers a query about `path`, the part of the path after `/market`.
    pub(super) async fn answer(
        &self,
        path: &str,
        query: &BTreeMap<String, String>,
        progress: &Arc<Progress>,
    ) -> Response {
        let wanted = match Query::read(path, query, &self.0.settings) {
            Ok(wanted) => wanted,
            Err(wrong) => return refuse(&wrong),
        };
        if !self.0.is_held().await {
            let what = "derived data is not complete yet; try again";
            return routes::error(StatusCode::SERVICE_UNAVAILABLE, "not_ready", what);
        }
        match wanted {
            Query::Page(page) => match self.page(&page) {
                Ok(body) => {
                    add(&self.0.figures.answers, 1);
                    routes::answer(StatusCode::OK, &body)
                }
                Err(wrong) => refuse(&wrong),
            },
            Query::Stream(wanted) => match Stream::open(&self.0, wanted, Arc::clone(progress)) {
                Ok(stream) => {
                    let mut response = Response::new(Body::new(stream));
                    let headers = response.headers_mut();
                    let kind = HeaderValue::from_static("text/event-stream");
                    headers.insert(header::CONTENT_TYPE, kind);
                    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                    response
                }
                Err(wrong) => refuse(&wrong),
            },
        }
    }

    fn page(&self, page: &Page) -> Result<Value, Wrong> {
        let mirror = self.0.mirror();
        match page {
            Page::Instruments => Ok(json::instruments(&mirror)),
            Page::Top(symbol) => Ok(json::top(&mirror, query::find(&mirror, symbol)?)),
            Page::Levels { symbol, depth } => {
                Ok(json::levels(&mirror, query::find(&mirror, symbol)?, *depth))
            }
            Page::Trades { symbol, last } => {
                Ok(json::trades(&mirror, query::find(&mirror, symbol)?, *last))
            }
            Page::Statistics(symbol) => {
                Ok(json::statistics(&mirror, query::find(&mirror, symbol)?))
            }
        }
    }
}

impl Market {
    fn mirror(&self) -> MutexGuard<'_, DerivedMirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Progress>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a stream has taken no event for this long; one with room takes one after each interval.
    fn is_full(&self, progress: &Progress, time: Duration) -> bool {
        progress.full_for() >= time + self.settings.interval.0
    }

    fn count_streams(&self) {
        let open = self.open();
        let stalled = open.iter().filter(|it| self.is_full(it, STALLED_AFTER)).count();
        self.figures.streams_open.store(open.len() as u64, Ordering::Relaxed);
        self.figures.streams_stalled.store(stalled as u64, Ordering::Relaxed);
    }

    /// Takes published updates, up to a bound, and returns their number.
    fn take(&self) -> usize {
        let mut mirror = self.mirror();
        let taken = mirror.poll(TAKEN_AT_A_TIME);
        let (updates, missed) = mirror.counts();
        let figures = &self.figures;
        let all = [
            (&figures.sequence, mirror.number()),
            (&figures.updates, updates),
            (&figures.updates_missed, missed),
            (&figures.repetitions, mirror.request()),
        ];
        for (figure, count) in all {
            figure.store(count, Ordering::Relaxed);
        }
        taken
    }

    /// Waits until the mirror has data, up to a time limit; returns true if it has.
    async fn is_held(&self) -> bool {
        let begun = runtime_now();
        loop {
            while self.take() == TAKEN_AT_A_TIME {
                tokio::task::yield_now().await;
            }
            if self.mirror().is_held() {
                return true;
            }
            if runtime_now() - begun >= HELD_WITHIN {
                return false;
            }
            tokio::time::sleep(TAKE_INTERVAL).await;
        }
    }
}

fn refuse(wrong: &Wrong) -> Response {
    routes::error(wrong.status, wrong.reason, &wrong.what)
}

#[cfg(test)]
mod tests;
