//! Queries of derived data, from a path and its parameters.
//!
//! Invariant: every query has a bound; an error names the wrong parameter.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use gateway::DerivedMirror;

use super::json::{Place, symbol};
use crate::config::{DerivedDataConfig, STREAM_LEVELS_MAX};

/// Levels of a side by default; fewer if the limit is lower.
const DEPTH_DEFAULT: usize = 10;
/// Trades of an answer: the default, and the maximum.
const TRADES_DEFAULT: usize = 100;
const TRADES_MAX: usize = 1000;
/// Instruments of a stream.
const SYMBOLS_MAX: usize = 64;

/// The reason why a query has no answer.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
    pub(super) what: String,
}

#[derive(Debug)]
pub(super) enum Query {
    Page(Page),
    Stream(Wanted),
}

/// An answer given once.
#[derive(Debug)]
pub(super) enum Page {
    Instruments,
    Top(String),
    Levels { symbol: String, depth: usize },
    Trades { symbol: String, last: usize },
    Statistics(String),
}

/// The contents of a stream.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) symbols: Vec<String>,
    pub(super) kinds: Kinds,
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) top: bool,
    pub(super) levels: bool,
    pub(super) trades: bool,
    pub(super) statistics: bool,
}

type Parameters = BTreeMap<String, String>;

impl Query {
    /// Reads the part of a path after `/market`, and the parameters.
    pub(super) fn read(
        path: &str,
        parameters: &Parameters,
        settings: &DerivedDataConfig,
    ) -> Result<Self, Wrong> {
        let mut segments = path.trim_matches('/').split('/');
        let (first, second, third) = (segments.next(), segments.next(), segments.next());
        let depth_default = DEPTH_DEFAULT.min(settings.depth_max);
        let depth = || number(parameters, "depth", depth_default, settings.depth_max);
        let page = match (first.unwrap_or(""), second, third) {
            ("", None, None) => none(parameters).map(|()| Page::Instruments)?,
            ("stream", None, None) => return Self::stream(parameters, depth()?),
            (symbol, Some(page), None) => {
                let symbol = symbol.to_owned();
                match page {
                    "top" => none(parameters).map(|()| Page::Top(symbol))?,
                    "statistics" => none(parameters).map(|()| Page::Statistics(symbol))?,
                    "levels" => {
                        only(parameters, &["depth"])?;
                        Page::Levels { symbol, depth: depth()? }
                    }
                    "trades" => {
                        only(parameters, &["last"])?;
                        let last = number(parameters, "last", TRADES_DEFAULT, TRADES_MAX)?;
                        Page::Trades { symbol, last }
                    }
                    _ => return Err(unknown_path(path)),
                }
            }
            _ => return Err(unknown_path(path)),
        };
        Ok(Self::Page(page))
    }

    fn stream(parameters: &Parameters, depth: usize) -> Result<Self, Wrong> {
        only(parameters, &["symbol", "kind", "depth"])?;
        let named = parameters.get("symbol").map(String::as_str).unwrap_or_default();
        let mut symbols: Vec<String> = Vec::new();
        for symbol in named.split(',').filter(|symbol| !symbol.is_empty()) {
            if symbols.iter().any(|known| known == symbol) {
                return Err(bad(format!("symbol names {symbol} twice")));
            }
            symbols.push(symbol.to_owned());
        }
        if !(1..=SYMBOLS_MAX).contains(&symbols.len()) {
            return Err(bad(format!(
                "symbol names {} instruments: 1 to {SYMBOLS_MAX}, as in symbol=AAPL,MSFT",
                symbols.len()
            )));
        }
        let kinds = kinds(parameters.get("kind").map_or("top", String::as_str))?;
        if kinds.levels && symbols.len() * depth > STREAM_LEVELS_MAX {
            return Err(bad(format!(
                "{} instruments with depth {depth}: a stream has at most {STREAM_LEVELS_MAX} levels \
                 of a side in all",
                symbols.len()
            )));
        }
        Ok(Self::Stream(Wanted { symbols, kinds, depth }))
    }
}

fn kinds(text: &str) -> Result<Kinds, Wrong> {
    let mut kinds = Kinds::default();
    for kind in text.split(',') {
        let place = match kind {
            "top" => &mut kinds.top,
            "levels" => &mut kinds.levels,
            "trades" => &mut kinds.trades,
            "statistics" => &mut kinds.statistics,
            _ => {
                return Err(bad(format!("kind is {kind:?}: top, levels, trades or statistics")));
            }
        };
        if std::mem::replace(place, true) {
            return Err(bad(format!("kind names {kind} twice")));
        }
    }
    Ok(kinds)
}

/// The place of an instrument by its symbol.
pub(super) fn find(mirror: &DerivedMirror, name: &str) -> Result<Place, Wrong> {
    mirror.instruments().iter().position(|it| symbol(it) == name).ok_or_else(|| Wrong {
        status: StatusCode::NOT_FOUND,
        reason: "unknown_symbol",
        what: format!("there is no instrument {name:?}; /market lists them"),
    })
}

fn number(
    parameters: &Parameters,
    name: &str,
    default: usize,
    most: usize,
) -> Result<usize, Wrong> {
    let Some(text) = parameters.get(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| bad(format!("{name} is {text:?}: a number from 1 to {most}")))
}

fn none(parameters: &Parameters) -> Result<(), Wrong> {
    only(parameters, &[])
}

fn only(parameters: &Parameters, known: &[&str]) -> Result<(), Wrong> {
    match parameters.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) if known.is_empty() => {
            Err(bad(format!("`{name}` is not a parameter of this path, which has no parameters")))
        }
        Some(name) => Err(bad(format!(
            "`{name}` is not a parameter of this path; it has {}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

pub(super) fn bad(what: String) -> Wrong {
    Wrong { status: StatusCode::BAD_REQUEST, reason: "bad_query", what }
}

fn unknown_path(path: &str) -> Wrong {
    Wrong {
        status: StatusCode::NOT_FOUND,
        reason: "unknown_path",
        what: format!(
            "there is no /market{path}: /market, /market/SYMBOL/top, levels, trades or statistics, and \
             /market/stream"
        ),
    }
}
