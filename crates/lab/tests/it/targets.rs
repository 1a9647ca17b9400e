//! The fuzz targets: properties that must hold for any bytes. The fuzzer and `cargo test` run the same functions.
//!
//! Invariant: a target keeps nothing from one call to the next, so that a finding is its bytes alone.

#[path = "targets/day.rs"]
mod day;
#[path = "targets/feed.rs"]
mod feed;
#[path = "targets/fix.rs"]
mod fix;
#[path = "targets/gateways.rs"]
mod gateways;
#[path = "targets/market_data.rs"]
mod market_data;
#[path = "targets/recorded.rs"]
mod recorded;
#[path = "targets/script.rs"]
mod script;
#[path = "targets/http.rs"]
mod http;
#[path = "targets/sluice.rs"]
mod sluice;
#[path = "targets/texts.rs"]
mod texts;
#[path = "../../../wire/tests/it/targets.rs"]
mod wire_targets;
#[path = "../../../wire/tests/it/fix_world.rs"]
mod wire_world;

/// Takes any bytes, and panics where a property does not hold.
pub type Target = fn(&[u8]);

/// Each target and its name, which is also that of its corpus: `fuzz/corpus/NAME`.
pub const TARGETS: &[(&str, Target)] = &[
    ("decode_ouch_inbound", wire_targets::decode_ouch_inbound),
    ("decode_ouch_outbound", wire_targets::decode_ouch_outbound),
    ("decode_ouch42", wire_targets::decode_ouch42),
    ("decode_itch", wire_targets::decode_itch),
    ("soupbintcp_server", wire_targets::soupbintcp_server),
    ("soupbintcp_client", wire_targets::soupbintcp_client),
    ("soupbintcp_in_time", wire_targets::soupbintcp_in_time),
    ("moldudp64", wire_targets::moldudp64),
    ("gateways", gateways::gateways),
    ("fix_session", fix::fix_session),
    ("fix_port", fix::fix_port),
    ("fix_market_data", market_data::fix_market_data),
    ("sluice", sluice::sluice),
    ("feed_server", feed::feed_server),
    ("feed_receiver", feed::feed_receiver),
    ("subscriber", feed::subscriber),
    ("recorded_day", day::recorded_day),
    ("http", http::http),
    ("configuration", texts::configuration),
    ("order_file", texts::order_file),
    ("scenario", texts::scenario),
    ("operator_request", texts::operator_request),
    ("journal", recorded::journal),
    ("command", recorded::command),
    ("snapshot", recorded::snapshot),
];
