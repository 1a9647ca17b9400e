//! The properties of a simulated venue: after each kill every received reply is in the journal; at the end the
//! engine agrees with the model, and every stream with the journal.

use client::subscriber::FeedBook;
use engine::Engine;
use market::{Event, VenueEvent};
use venue::{
    config::Decimal,
    recovery,
    stage::{EngineStage, Perturbation},
};

use super::World;
use crate::{
    agreement,
    audit::{self, Derived, Digest},
    engine_checks::{self, LedgerBalances},
    model::Model,
    sim::{
        faults::PERTURBATIONS,
        large_quantities::LargeQuantities,
        outcome::{Counts, Summary},
        probe::{self, Growth},
        setup::{ATTACKERS, START_NS, TCP_SESSIONS},
        world::session_of,
    },
};

impl World {
    /// Checks that every received reply is in the journal. The configuration adopts the changed
    /// instruments and limits, as an operator would.
    pub(super) fn audit_promises(&mut self) -> Result<(), String> {
        let mut derived = Derived::new();
        let replay =
            recovery::replay(&mut self.disk.storage().clone(), &mut |_, _, _| {}, &mut |line| {
                line.each(|output| derived.output(output));
            })
            .map_err(|failure| failure.to_string())?;
        for (username, received) in self.received() {
            let numbered = (1..).zip(digests(received));
            let lost = audit::lost(numbered, derived.replies_of(username));
            if lost > 0 {
                return Err(format!("{username} received {lost} replies that did not survive"));
            }
        }
        if self.feed.received.len() as u64 > derived.feed_messages() {
            return Err("the feed reported what did not survive".into());
        }
        for instrument in &mut self.config.instruments {
            let symbol = instrument.symbol()?;
            let known = replay.state.engine.instruments().find(|known| known.symbol == symbol);
            if let Some(known) = known {
                instrument.price_increment = Decimal(known.price_increment.0);
                instrument.round_lot = known.round_lot.0 as u32;
            }
        }
        for participant in &mut self.config.participants {
            let username = participant.username()?;
            let known = replay.state.engine.sessions().find(|known| *known.username() == username);
            if let Some(known) = known {
                participant.live_orders_max = known.live_orders_max();
            }
        }
        Ok(())
    }

    /// Compares the engine with the model, input by input, order by order and unit by unit, and every
    /// received reply with the streams that follow from the journal.
    pub(super) fn audit(&mut self) -> Result<Summary, String> {
        let mut model = Model::default();
        let mut modeled: Vec<Event> = Vec::new();
        let mut derived = Derived::new();
        let mut found: Vec<Event> = Vec::new();
        let mut growth = ATTACKERS.map(|_| Growth::default());
        let mut effects = ATTACKERS.map(|_| 0);
        let mut ledger = LedgerBalances::default();
        let mut large = LargeQuantities::default();
        // The data on the medium: a latent fault is not the venue's.
        let mut disk = self.disk.storage().duplicate(true);
        let replay = recovery::replay(
            &mut disk,
            &mut |input, _, _| {
                modeled.extend(model.apply(input));
                large.input(&input.command);
                let attacker = session_of(&input.command)
                    .and_then(|session| ATTACKERS.iter().position(|index| *index == session));
                if let Some(attacker) = attacker {
                    growth[attacker].input(&input.command);
                }
            },
            &mut |line| {
                line.each(|output| {
                    derived.output(output);
                    let attacker = probe::with_effect(&output.event)
                        .and_then(|id| ATTACKERS.iter().position(|it| it + 1 == usize::from(id.0)));
                    if let Some(attacker) = attacker {
                        effects[attacker] += 1;
                    }
                    ledger.enter(&output.event);
                    found.push(output.event);
                })
            },
        )
        .map_err(|failure| failure.to_string())?;
        agreement::same_events(&found, &modeled)?;
        if self.attacker.is_some() {
            let lives = 1 + self.counts.kills;
            // A clock that was set back passes a second twice.
            let seconds = (self.now_ns() - START_NS).div_ceil(1_000_000_000) + 2 * lives;
            for (growth, effects) in growth.iter().zip(effects) {
                growth.check(&self.config.throttle.throttle(), lives, seconds, effects)?;
            }
            let limits = self.config.market_data.requests()?;
            let answers_max = limits.total_per_second * (2 * lives + seconds);
            if self.answers > answers_max {
                return Err(format!("{} answers: the most allowed is {answers_max}", self.answers));
            }
        }
        let (engine, digest) = (&replay.state.engine, replay.state.digest);
        agreement::compare(engine, &model).map_err(|why| format!("at the end: {why}"))?;
        engine_checks::check(engine, &ledger).map_err(|why| format!("at the end: {why}"))?;
        let venue = self.venue.as_mut().expect("the venue runs");
        let checkpoint = venue.gauges.checkpoint();
        if (checkpoint.progress.sequence, checkpoint.digest) != (engine.sequence(), digest) {
            return Err(format!(
                "the venue is at {checkpoint:?}, the replay at sequence {} with {digest:?}",
                engine.sequence()
            ));
        }
        // The same events, and the same state: the venue ends here, so its core can be examined.
        let stage = ring::take_agent::<EngineStage>(&mut venue.agents).expect("a venue has a core");
        let (live, replayed) = (stage.into_engine().state_hash(), engine.state_hash());
        if live != replayed {
            return Err(format!("the core has state hash {live:016x}, the replay {replayed:016x}"));
        }
        self.audit_streams(engine, &derived)?;
        self.count_defences();
        self.count_drops();
        self.subscribers.count(&mut self.counts);
        let mut hits = self.faults.hits.clone();
        hits.add(&self.subscribers.faults.hits);
        for (perturbation, times) in Perturbation::ALL.iter().zip(self.perturbations.counts()) {
            hits.count(PERTURBATIONS, perturbation.as_str(), times);
        }
        found.iter().for_each(|event| large.event(event));
        self.feed.received.iter().for_each(|message| large.message(message));
        large.count(&mut hits);
        let entries = found.iter().filter(|event| matches!(event, Event::Ledger(_)));
        let log_outs = found.iter().filter(|event| match event {
            Event::Venue(VenueEvent::LoggedOut(id)) => usize::from(id.0) <= TCP_SESSIONS,
            _ => false,
        });
        let counts = Counts {
            inputs: engine.sequence().0,
            orders: checkpoint.progress.orders,
            trades: checkpoint.progress.trades,
            ledger_entries: entries.count() as u64,
            replies: self.received().map(|(_, received)| received.len() as u64).sum(),
            feed_messages: self.feed.received.len() as u64,
            connections: self.tcp.iter().map(|client| client.connections).sum(),
            log_outs: log_outs.count() as u64,
            ..self.counts.clone()
        };
        Ok(Summary {
            seed: self.seed,
            counts,
            simulated_ns: self.now_ns() - START_NS,
            state_hash: engine.state_hash(),
            hits,
        })
    }

    fn audit_streams(&self, engine: &Engine, derived: &Derived) -> Result<(), String> {
        for (username, received) in self.received() {
            if digests(received) != derived.replies_of(username) {
                return Err(format!(
                    "{username} received {} replies that are not the {} of the journal",
                    received.len(),
                    derived.replies_of(username).len()
                ));
            }
        }
        if let Some(error) = derived.feed_error() {
            return Err(error.to_owned());
        }
        let mut book = FeedBook::new();
        for (index, message) in self.feed.received.iter().enumerate() {
            book.apply(index as u64 + 1, message).map_err(|error| error.to_string())?;
        }
        if book.message_count() != derived.feed_messages() {
            return Err(format!(
                "the feed's reader received {} messages of {}",
                book.message_count(),
                derived.feed_messages()
            ));
        }
        if let Some(difference) = audit::book_difference(engine, &book) {
            return Err(format!("the book from the feed: {difference}"));
        }
        for (way, book) in self.subscribers.books() {
            let book = book.ok_or_else(|| format!("subscriber {way:?} has no books"))?;
            if let Some(difference) = audit::book_difference(engine, book) {
                return Err(format!("the books of subscriber {way:?}: {difference}"));
            }
        }
        Ok(())
    }
}

fn digests(messages: &[Vec<u8>]) -> Vec<Digest> {
    messages.iter().map(|message| Digest::of(message)).collect()
}
