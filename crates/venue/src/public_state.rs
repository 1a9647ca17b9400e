//! The public part of a state: feed messages that build it for subscribers.
//!
//! Invariant: the books built from them equal those built from the whole feed. The messages have the time of the last
//! input, and no reason of a halt. Orders come in no particular order.

use engine::Engine;
use market::{Event, Output, PhaseCause, PhaseChanged, Text, VenueEvent};
use wire::itch;

/// Calls `each` with every message.
pub fn public_state(engine: &Engine, each: &mut dyn FnMut(&[u8])) {
    let mut encoder = itch::Encoder::new();
    let (cause, timestamp) = (engine.sequence(), engine.timestamp());
    let mut emit = |event| {
        encoder.encode(&Output { cause, timestamp, event }, &mut |message| each(message));
    };
    if let Some(event) = engine.system_event() {
        emit(Event::System(event));
    }
    for instrument in engine.instruments() {
        let instrument_id = instrument.instrument_id;
        emit(Event::InstrumentAdded(*instrument));
        emit(Event::Venue(match engine.phase(instrument_id) {
            None => VenueEvent::InstrumentRemoved(instrument_id),
            Some(phase) => VenueEvent::PhaseChanged(PhaseChanged {
                instrument_id,
                from: phase,
                to: phase,
                cause: PhaseCause::Command,
                reason: Text::BLANK,
            }),
        }));
    }
    engine.shown_orders().for_each(|booked| emit(Event::Booked(booked)));
}
