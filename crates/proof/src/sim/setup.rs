//! The setup of a seed: the venue's configuration and participants, and the flow of commands.

use std::time::Duration;

use venue::config::{
    Bytes, Config, DurabilityConfig, FirmNames, Overflow, Span, StreamConfig, SubscriberConfig,
};

use super::subscriber::Way;
use crate::{generator::Profile, rng::Rng};

/// Sessions that speak SoupBinTCP; they come first.
pub(super) const TCP_SESSIONS: usize = 3;

/// Sessions that speak OUCH over UDP.
pub(super) const UDP_SESSIONS: usize = 1;

/// Additional participants of a run with an attacker: two honest ones whose replies are timed, over TCP
/// and over UDP, and the attacker's two.
pub(super) const PROBES: [usize; 2] = [4, 5];
pub(super) const ATTACKERS: [usize; 2] = [6, 7];

/// The factor of quantities in a run with large ones: OUCH can express some of them, and most not.
pub(super) const LARGE_SCALE: u64 = 1 << 26;

/// 2026-01-02 09:30 UTC, when every simulated day begins.
pub(super) const START_NS: u64 = 1_767_346_200_000_000_000;

/// The subscribers of market data log in with this name and password.
pub(super) const SUBSCRIBER: (&str, &str) = ("feed01", "PASSWORD");

/// Adds the subscribers, and a delta stream of all instruments. Its ring is smaller than a configuration may set, so it
/// drops messages.
fn admit_subscribers(config: &mut Config) {
    config.market_data.streams.push(StreamConfig {
        name: "all".to_owned(),
        instruments: vec!["*".to_owned()],
        to: vec![Way::Stream.address()],
        packet_size: Bytes(400),
        flush_after: Span(Duration::from_micros(300)),
        overflow: Overflow::Drop,
        slots: 32,
        agent: 1,
    });
    let (username, password) = SUBSCRIBER;
    config
        .market_data
        .subscribers
        .push(SubscriberConfig { username: username.to_owned(), password: password.to_owned() });
}

/// Adds the attacker's participants and the timed ones, and makes the bounds so small that a run of some
/// hundred ticks reaches them.
pub(super) fn admit_attacker(config: &mut Config) {
    let [mut over_tcp, mut over_udp] = [TCP_SESSIONS - 1, TCP_SESSIONS + UDP_SESSIONS - 1]
        .map(|index| config.participants[index].clone());
    over_tcp.cancel_on_disconnect = false;
    for (name, firm) in [("probe", "PROB"), ("evil", "EVIL")] {
        for row in [&mut over_tcp, &mut over_udp] {
            let protocol = if row.udp.is_some() { "u" } else { "t" };
            row.username = format!("{name}{protocol}");
            row.firm = FirmNames::One(firm.into());
            row.live_orders_max = 300;
            if let Some(address) = &mut row.udp {
                address.set_port(address.port() + 1);
            }
            config.participants.push(row.clone());
        }
    }
    config.order_entry.connections_max = config.participants.len() + 30;
    config.order_entry.slow_client_timeout.0 /= 8;
    let throttle = &mut config.throttle;
    (throttle.messages_per_second, throttle.messages_burst) = (5_000, 400);
    (throttle.no_effect_per_second, throttle.no_effect_burst) = (100, 400);
    throttle.block.0 = Duration::from_millis(20);
    config.market_data.re_requests_per_second = 50;
    config.market_data.re_requests_total_per_second = 1_000;
}

/// A market in which every command occurs now and then; in half of the markets accounts pay.
pub(super) fn profile(rng: &mut Rng, instruments: u16) -> Profile {
    Profile {
        sessions: (TCP_SESSIONS + UDP_SESSIONS) as u16,
        instruments,
        accounts: if rng.below(2) == 0 { 3 } else { 0 },
        beyond_ouch_percent: rng.below(3) * 10,
        waits_percent: rng.below(3) * 10,
        minimum_percent: rng.below(3) * 10,
        pegs_percent: rng.below(3) * 10,
        good_till_time_percent: rng.below(3) * 5,
        starts_s: (START_NS / 1_000_000_000) as u32,
        commands_per_second: 10_000,
        venue_per_mille: rng.below(4) * 8,
        odd_percent: rng.below(20),
        spread: 5 + rng.below(60),
        live_orders: 50 + rng.below(400) as usize,
        ..Profile::default()
    }
}

/// A venue with small rings, so that they fill, and a durability of the seed's choice.
pub(super) fn config(rng: &mut Rng) -> Config {
    let mut config = Config::default();
    config.journal.durability = match rng.below(2) {
        0 => DurabilityConfig::Written,
        _ => DurabilityConfig::Synced,
    };
    config.journal.segment.0 = 1 << (14 + rng.below(3));
    config.snapshots.inputs = rng.below(3) * (20 + rng.below(800));
    config.snapshots.time.0 = Duration::from_millis(rng.below(3) * (1 + rng.below(2_000)));
    config.journal.digest_every = 64;
    config.rings.submissions = 64;
    config.rings.inputs = 64 << rng.below(3);
    config.rings.outputs = 64 << rng.below(3);
    config.order_entry.slow_client_timeout.0 = Duration::from_millis(100 + rng.below(3_000));
    config.participants.truncate(TCP_SESSIONS + UDP_SESSIONS);
    for participant in &mut config.participants[..TCP_SESSIONS] {
        participant.cancel_on_disconnect = rng.below(4) == 0;
    }
    admit_subscribers(&mut config);
    config
}
