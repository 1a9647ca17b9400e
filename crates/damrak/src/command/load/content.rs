//! The content of a load: its sessions, and its symbols or a recorded flow.

use std::{net::SocketAddr, sync::Arc};

use client::participant;
use lab::{
    load::{FixLogin, LoadSession, LoadSymbol, RecordedFlow, ReplayPace, TickClient},
    order_file::InstrumentTable,
};
use market::{Price, Symbol, Text};
use venue::{clock::SystemClock, config::Decimal, failure::Failure};
use wire::{itch, soupbintcp::LoginRequest};

use super::{super::feed::source, Arguments};

/// The sessions by name.
pub(super) fn sessions(arguments: &Arguments) -> Result<Vec<(String, LoadSession)>, Failure> {
    let default = ["user{}:password{}".to_owned()];
    let has_other = !arguments.udp.is_empty() || !arguments.fix.is_empty();
    let texts: &[String] = match &arguments.session[..] {
        [] if !has_other => &default,
        texts => texts,
    };
    if arguments.connections == 0 {
        return Err(Failure::usage("--connections is 0: it must be 1 at least"));
    }
    let mut sessions = Vec::new();
    for (text, username, password) in logins("--session", texts, arguments.connections)? {
        let login = login("--session", &text, &username, &password)?;
        sessions.push((username, LoadSession::Tcp { server: arguments.to, login }));
    }
    for first in &arguments.udp {
        for offset in 0..arguments.connections {
            let port = first.port().checked_add(offset).ok_or_else(|| {
                Failure::usage(format!(
                    "--udp {first}: no {} ports from there",
                    arguments.connections
                ))
            })?;
            let local = SocketAddr::new(first.ip(), port);
            sessions
                .push((local.to_string(), LoadSession::Udp { server: arguments.to_udp, local }));
        }
    }
    for (text, username, password) in logins("--fix", &arguments.fix, arguments.connections)? {
        let short = |text: &str| Text::new(text).filter(|text| !text.is_blank());
        let login = short(&username).zip(Text::new(&password)).zip(short(&arguments.fix_venue));
        let ((client, password), venue) = login.ok_or_else(|| {
            Failure::usage(format!(
                "--fix {text:?} to {:?}: a CompID has up to 16 characters, and so has a password",
                arguments.fix_venue
            ))
        })?;
        let login = FixLogin { version: arguments.fix_version, client, password, venue };
        sessions.push((username, LoadSession::Fix { server: arguments.to_fix, login }));
    }
    Ok(sessions)
}

/// The reference client of --tick-to-trade, if it is given.
pub(super) fn tick_client(arguments: &Arguments) -> Result<Option<TickClient>, Failure> {
    let Some(text) = &arguments.tick_to_trade else { return Ok(None) };
    let named = logins("--tick-to-trade", std::slice::from_ref(text), 1)?;
    let [(_, username, password)] = &named[..] else { unreachable!("one text names one login") };
    let login = login("--tick-to-trade", text, username, password)?;
    let feed = source(arguments.feed, arguments.feed_interface)?;
    Ok(Some(TickClient { server: arguments.to, login, feed }))
}

fn login(
    option: &str,
    text: &str,
    username: &str,
    password: &str,
) -> Result<LoginRequest, Failure> {
    LoginRequest::new(username, password).ok_or_else(|| {
        Failure::usage(format!(
            "{option} {text:?}: a user has up to 6 characters, a password up to 10"
        ))
    })
}

/// Each `USER:PASSWORD` with the number of each connection put in: the text, the user, the password.
fn logins(
    option: &str,
    texts: &[String],
    connections: u16,
) -> Result<Vec<(String, String, String)>, Failure> {
    let mut logins = Vec::new();
    for text in texts {
        if !text.contains("{}") && connections > 1 {
            return Err(Failure::usage(format!(
                "{option} {text:?} with --connections needs {{}} in the place of the number, like user{{}}:password{{}}"
            )));
        }
        for number in 1..=connections {
            let text = text.replace("{}", &format!("{number:02}"));
            let (username, password) = text
                .split_once(':')
                .ok_or_else(|| Failure::usage(format!("{option} {text:?} is not USER:PASSWORD")))?;
            let (username, password) = (username.to_owned(), password.to_owned());
            logins.push((text, username, password));
        }
    }
    Ok(logins)
}

/// The recorded flow to be sent, if there is one.
pub(super) fn replay(arguments: &Arguments) -> Result<Option<RecordedFlow>, Failure> {
    let Arguments { replay: Some(orders), instruments: Some(instruments), .. } = arguments else {
        return Ok(None);
    };
    let instruments = InstrumentTable::read(instruments)
        .map_err(|error| Failure::usage(anyhow::Error::new(error)))?;
    let is_paced = arguments.rate.is_some() || arguments.closed_loop.is_some();
    let pace = match is_paced {
        true => ReplayPace::Load,
        false => ReplayPace::Recorded { speed: arguments.speed },
    };
    Ok(Some(RecordedFlow { orders: orders.clone(), instruments: Arc::new(instruments), pace }))
}

/// The symbols of the stock directory in a snapshot of the books, taken by the first session over TCP.
pub(super) fn stock_directory(
    address: SocketAddr,
    sessions: &[(String, LoadSession)],
    clock: SystemClock,
) -> Result<Vec<String>, Failure> {
    const QUIET_NS: u64 = 5_000_000_000;
    let login = sessions.iter().find_map(|(_, session)| match session {
        LoadSession::Tcp { login, .. } => Some(*login),
        LoadSession::Udp { .. } | LoadSession::Fix { .. } => None,
    });
    let login =
        login.ok_or_else(|| Failure::usage("--snapshot needs a --session to log in with"))?;
    let messages =
        participant::collect(address, login, 1, 1, QUIET_NS, &clock).map_err(|error| {
            Failure::runtime(
                anyhow::Error::new(error).context(format!("no snapshot from {address}")),
            )
            .hint("`damrak serve` prints the address of its snapshots; --symbols needs none")
        })?;
    let symbol = |message: &Vec<u8>| match itch::decode(message) {
        Ok(itch::Message::StockDirectory(entry)) => {
            Some(String::from_utf8_lossy(&entry.stock).trim().to_owned())
        }
        _ => None,
    };
    let names: Vec<String> = messages.iter().filter_map(symbol).collect();
    if names.is_empty() {
        return Err(Failure::runtime(format!("the venue at {address} has no instruments")));
    }
    Ok(names)
}

/// Symbols to trade around a price.
///
/// # Errors
/// A name is not a valid symbol.
pub(in crate::command) fn symbols(
    names: &[String],
    price: Decimal,
    price_increment: Decimal,
) -> Result<Vec<LoadSymbol>, Failure> {
    names
        .iter()
        .map(|name| {
            let symbol =
                Symbol::new(name).filter(|symbol| !symbol.is_blank()).ok_or_else(|| {
                    Failure::usage(format!("{name:?} is not a symbol of 1 to 8 characters"))
                })?;
            let (mid, price_increment) = (Price(price.0), Price(price_increment.0));
            Ok(LoadSymbol { symbol, mid, price_increment })
        })
        .collect()
}
