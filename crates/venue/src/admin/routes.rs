//! Routes of the admin server: paths, methods, keys.
//!
//! Invariant: at an address a command needs the key of an operator; at the socket, which only the user
//! of the venue can open, the request names the operator.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Path, RawQuery, Request, State as Extracted},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use gateway::{FaultChange, FaultState, FaultTable};
use market::{OperatorName, Text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    MarketPages, Served,
    answers::{Answers, Asked},
    progress::Progress,
};
use crate::{
    config::AdminConfig,
    operator::{Desk, DeskError, FaultRequest, OperatorRequest},
    stage_times::StageTimes,
};

/// The longest body of a request, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Address,
    Socket,
}

pub(super) struct State {
    answers: Answers,
    stage_times: Option<Arc<StageTimes>>,
    desk: Desk,
    market: Option<MarketPages>,
    faults: FaultTable,
    /// The digests of keys, with the operators' names.
    keys: Vec<([u8; 32], OperatorName)>,
    /// True if a request may name any host.
    any_host: bool,
}

impl State {
    pub(super) fn new(served: Served, config: &AdminConfig) -> Self {
        let Served { ledger, durable, journal, stage_times, desk, market, faults } = served;
        Self {
            answers: Answers::new(ledger, durable, journal),
            stage_times,
            desk,
            market,
            faults,
            keys: config.operators.iter().filter_map(|it| it.key().ok()).collect(),
            any_host: config.anybody,
        }
    }

    /// The owner of a key. Each key is compared in full, so that the time reveals nothing.
    fn owner(&self, key: &str) -> Option<OperatorName> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = None;
        for (known, operator) in &self.keys {
            let difference = known.iter().zip(&digest).fold(0, |sum, (a, b)| sum | (a ^ b));
            if difference == 0 {
                found = Some(*operator);
            }
        }
        found
    }

    fn operator(&self, door: Door, headers: &HeaderMap) -> Result<OperatorName, Box<Response>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        match door {
            Door::Socket => {
                let name = text("damrak-operator").unwrap_or("");
                OperatorName::new(name).filter(|name| !name.is_blank()).ok_or_else(|| {
                    let what = format!("operator {name:?} is not 1 to 16 printable characters");
                    Box::new(error(StatusCode::BAD_REQUEST, "bad_operator", &what))
                })
            }
            Door::Address => {
                let key = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
                key.and_then(|key| self.owner(key)).ok_or_else(|| {
                    let what = match self.keys.is_empty() {
                        true => {
                            "no [[admin.operators]] is configured, so commands are not accepted \
                                 here; use `damrak ctl`"
                        }
                        false => "a command needs the header `Authorization: Bearer KEY`",
                    };
                    let mut response = error(StatusCode::UNAUTHORIZED, "unauthorized", what);
                    let bearer = HeaderValue::from_static("Bearer");
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
                    Box::new(response)
                })
            }
        }
    }
}

/// An error answer: a word for programs, a sentence for people.
pub(super) fn error(status: StatusCode, reason: &str, what: &str) -> Response {
    let body = json!({"schema": "damrak/admin-error/1", "reason": reason, "error": what});
    answer(status, &body)
}

/// A JSON body that must not be cached.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to a body that is too long or ends early.
pub(super) fn too_long() -> Response {
    let what =
        format!("the body of a request is at most {BODY_BYTES_MAX} bytes, and must be whole");
    error(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", &what)
}

/// Answers every request with `busy`.
pub(super) fn busy(most: usize) -> Router {
    Router::new().fallback(move || async move {
        let what = format!("{most} requests are being answered; try again");
        error(StatusCode::SERVICE_UNAVAILABLE, "busy", &what)
    })
}

pub(super) fn router(state: Arc<State>, door: Door) -> Router {
    let checked = Arc::clone(&state);
    let of_account = |name: &'static str| {
        get(
            move |Extracted(state): Extracted<Arc<State>>,
                  Path(account): Path<String>,
                  RawQuery(query): RawQuery| {
                ask(state, Asked { name, account: Some(account) }, query)
            },
        )
    };
    let of_all = |name: &'static str| {
        get(move |Extracted(state): Extracted<Arc<State>>, RawQuery(query): RawQuery| {
            ask(state, Asked { name, account: None }, query)
        })
    };
    Router::new()
        .route("/", of_all(""))
        .route("/status", of_all("status"))
        .route("/assets", of_all("assets"))
        .route("/instruments", of_all("instruments"))
        .route("/accounts", of_all("accounts"))
        .route("/trades", of_all("trades"))
        .route("/accounts/{account}/balances", of_account("balances"))
        .route("/accounts/{account}/orders", of_account("orders"))
        .route("/accounts/{account}/fills", of_account("fills"))
        .route("/accounts/{account}/history", of_account("history"))
        .route("/stages", get(ask_stages))
        .route("/market", get(ask_market))
        .route("/market/{*path}", get(ask_market))
        .route(
            "/operator",
            post(
                move |Extracted(state): Extracted<Arc<State>>, headers: HeaderMap, body: Bytes| {
                    operate(state, door, headers, body)
                },
            ),
        )
        .route(
            "/operator/faults",
            post(
                move |Extracted(state): Extracted<Arc<State>>, headers: HeaderMap, body: Bytes| async move {
                    inject(&state, door, &headers, &body)
                },
            ),
        )
        .route(
            "/operator/last",
            get(move |Extracted(state): Extracted<Arc<State>>, headers: HeaderMap| async move {
                let operator = match state.operator(door, &headers) {
                    Ok(operator) => operator,
                    Err(response) => return *response,
                };
                let body = json!({
                    "schema": "damrak/operator-last/1",
                    "operator": operator.as_str(),
                    "number": state.desk.last_number(&operator),
                });
                answer(StatusCode::OK, &body)
            }),
        )
        .fallback(|request: Request| async move {
            let what = format!("there is no {}; / lists the paths", request.uri().path());
            error(StatusCode::NOT_FOUND, "unknown_path", &what)
        })
        .method_not_allowed_fallback(|method: Method| async move {
            let what = format!("{method} is not answered here");
            error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &what)
        })
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            let allowed = door == Door::Socket || checked.any_host || names_this_host(&request);
            async move {
                if allowed {
                    return next.run(request).await;
                }
                let what = "the header Host names neither an IP address nor localhost";
                error(StatusCode::MISDIRECTED_REQUEST, "wrong_host", what)
            }
        }))
        .with_state(state)
}

/// True if the request names this host. A browser sent here by a page of another site names that site.
fn names_this_host(request: &Request) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

async fn ask(state: Arc<State>, asked: Asked, query: Option<String>) -> Response {
    let pairs = match pairs(query.as_deref().unwrap_or("")) {
        Ok(pairs) => pairs,
        Err(what) => return error(StatusCode::BAD_REQUEST, "bad_request", &what),
    };
    // A store may be slow.
    let answered = tokio::task::spawn_blocking(move || state.answers.answer(&asked, &pairs)).await;
    match answered {
        Ok(Ok(body)) => answer(StatusCode::OK, &body),
        Ok(Err(wrong)) => error(wrong.status, wrong.reason, &wrong.what),
        Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal", &failed.to_string()),
    }
}

/// The times of orders from stage to stage, since the start of the venue.
async fn ask_stages(Extracted(state): Extracted<Arc<State>>) -> Response {
    let Some(times) = &state.stage_times else {
        let what = "no orders are followed here: layout.stage_times is false";
        return error(StatusCode::NOT_FOUND, "no_stage_times", what);
    };
    let mut body = times.figures(true);
    body["schema"] = json!("damrak/stages/1");
    answer(StatusCode::OK, &body)
}

/// Derived data, once or as a stream.
async fn ask_market(
    Extracted(state): Extracted<Arc<State>>,
    path: Option<Path<String>>,
    RawQuery(query): RawQuery,
    Extension(progress): Extension<Arc<Progress>>,
) -> Response {
    let Some(market) = &state.market else {
        let what = "this venue derives no market data: add [derived_data]";
        return error(StatusCode::NOT_FOUND, "no_derived_data", what);
    };
    match pairs(query.as_deref().unwrap_or("")) {
        Ok(pairs) => {
            let path = path.map_or(String::new(), |Path(path)| format!("/{path}"));
            market.answer(&path, &pairs, &progress).await
        }
        Err(what) => error(StatusCode::BAD_REQUEST, "bad_request", &what),
    }
}

/// The query parameters, decoded; each name once.
fn pairs(query: &str) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8()
                .map(|text| text.into_owned())
                .map_err(|_| format!("{text:?} is not percent-encoded text"))
        };
        if pairs.insert(decoded(name)?, decoded(value)?).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok(pairs)
}

async fn operate(state: Arc<State>, door: Door, headers: HeaderMap, body: Bytes) -> Response {
    let operator = match state.operator(door, &headers) {
        Ok(operator) => operator,
        Err(response) => return *response,
    };
    let request: OperatorRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(wrong) => return error(StatusCode::BAD_REQUEST, "bad_request", &wrong.to_string()),
    };
    // On a separate task: a submitted command is awaited even if the client disconnects.
    let given = tokio::spawn(async move { state.desk.operate(operator, &request).await }).await;
    let (status, reason, what) = match given {
        Ok(Ok(body)) => {
            let is_done = body["result"] == "done";
            return answer(if is_done { StatusCode::OK } else { StatusCode::CONFLICT }, &body);
        }
        Ok(Err(DeskError::Wrong(what))) => (StatusCode::BAD_REQUEST, "bad_request", what),
        Ok(Err(DeskError::Busy)) => {
            let what = "too many commands wait; this one was not given: try again".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, "busy", what)
        }
        Ok(Err(DeskError::Unknown { number })) => {
            let what = format!(
                "the command was given under number {number} and its result is not known yet; \
                 repeat it under the same number"
            );
            (StatusCode::GATEWAY_TIMEOUT, "unknown_result", what)
        }
        Ok(Err(DeskError::DryRun(what))) => {
            (StatusCode::SERVICE_UNAVAILABLE, "dry_run_failed", what)
        }
        Err(failed) => (StatusCode::INTERNAL_SERVER_ERROR, "internal", failed.to_string()),
    };
    error(status, reason, &what)
}

/// Changes the faults of a session, or only shows them.
fn inject(state: &State, door: Door, headers: &HeaderMap, body: &Bytes) -> Response {
    let operator = match state.operator(door, headers) {
        Ok(operator) => operator,
        Err(response) => return *response,
    };
    let wrong = |what: &str| error(StatusCode::BAD_REQUEST, "bad_request", what);
    let request: FaultRequest = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(what) => return wrong(&what.to_string()),
    };
    let change = match request.change() {
        Ok(change) => change,
        Err(what) => return wrong(&what),
    };
    let username = Text::new(&request.session.to_ascii_uppercase());
    let Some(faults) = username.and_then(|username| state.faults.of(username)) else {
        let what = format!(
            "{:?} is not a participant with a login: only their sessions take injected faults",
            request.session
        );
        return error(StatusCode::NOT_FOUND, "unknown_session", &what);
    };
    let FaultState { delay_ms, reject_percent, disconnects, gaps } = faults.change(&change);
    if change != FaultChange::default() {
        tracing::warn!(
            component = "operator",
            participant = %request.session,
            "{operator} injects faults into {}: delay {delay_ms} ms, rejects {reject_percent} %{}{}",
            request.session,
            if change.disconnect { ", a disconnect" } else { "" },
            if change.gap { ", a gap" } else { "" },
        );
    }
    let body = json!({
        "schema": "damrak/faults/1",
        "session": request.session,
        "delay_ms": delay_ms,
        "reject_percent": reject_percent,
        "disconnects": disconnects,
        "gaps": gaps,
    });
    answer(StatusCode::OK, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only names that no page of another site has count as this host.
    #[test]
    fn other_hosts_are_refused() {
        let named = |host: &str| {
            let request = Request::builder().header("host", host);
            names_this_host(&request.body(axum::body::Body::empty()).unwrap())
        };
        for host in ["127.0.0.1", "127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:80", "[::1]"] {
            assert!(named(host), "{host}");
        }
        for host in ["example.com", "example.com:80", "127.0.0.1.example.com", "", "localhost.x"] {
            assert!(!named(host), "{host}");
        }
    }

    /// Queries are decoded; a repeated name is an error.
    #[test]
    fn queries_are_decoded() {
        let found = pairs("last=7&before=9%2E1&all").unwrap();
        let expected = [("last", "7"), ("before", "9.1"), ("all", "")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        assert!(pairs("a=1&a=2").unwrap_err().contains("twice"));
        assert!(pairs("a=%ff").is_err());
    }
}
