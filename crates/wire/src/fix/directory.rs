//! The instruments of the venue, their trading status and the part of the day, as the log has them.
//!
//! Invariant: a function of the outputs: two directories that took the same ones are equal.

use alloc::vec::Vec;

use market::{
    Event, Instrument, InstrumentChange, InstrumentId, Phase, Symbol, SystemEvent, VenueEvent,
};

/// The instruments and the part of the day, from which requests for instruments are answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// The instruments by number, less 1.
    instruments: Vec<Listed>,
    part: Option<SystemEvent>,
}

/// An instrument with its trading status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The instrument as it is now.
    pub instrument: Instrument,
    /// The phase; `None` if the instrument was removed.
    pub phase: Option<Phase>,
}

impl Directory {
    /// Adds a new instrument: it trades continuously until an event changes its phase.
    pub fn add(&mut self, instrument: &Instrument) {
        self.instruments.push(Listed { instrument: *instrument, phase: Some(Phase::Continuous) });
    }

    /// Takes the trading status of an instrument that was added; `None` if it was removed.
    pub fn set_phase(&mut self, instrument_id: InstrumentId, phase: Option<Phase>) {
        if let Some(listed) = self.listed_mut(instrument_id) {
            listed.phase = phase;
        }
    }

    /// Takes the part of the day.
    pub const fn set_part(&mut self, part: SystemEvent) {
        self.part = Some(part);
    }

    /// Takes the next event.
    #[inline]
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::InstrumentAdded(instrument) => self.add(instrument),
            Event::System(part) => self.set_part(*part),
            Event::Venue(event) => self.take_venue(event),
            _ => {}
        }
    }

    fn take_venue(&mut self, event: &VenueEvent) {
        match event {
            VenueEvent::PhaseChanged(it) => self.set_phase(it.instrument_id, Some(it.to)),
            VenueEvent::InstrumentRemoved(instrument_id) => self.set_phase(*instrument_id, None),
            VenueEvent::InstrumentChanged(it) => {
                let Some(listed) = self.listed_mut(it.instrument_id) else { return };
                match it.change {
                    InstrumentChange::PriceIncrement(to) => listed.instrument.price_increment = to,
                    InstrumentChange::RoundLot(to) => listed.instrument.round_lot = to,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn listed_mut(&mut self, instrument_id: InstrumentId) -> Option<&mut Listed> {
        self.instruments.get_mut(usize::from(instrument_id.0).checked_sub(1)?)
    }

    /// The part of the day; `None` before the first.
    #[must_use]
    pub const fn part(&self) -> Option<SystemEvent> {
        self.part
    }

    /// The instrument with this symbol that was not removed.
    #[must_use]
    pub fn find(&self, symbol: Symbol) -> Option<&Listed> {
        self.instruments.iter().find(|it| it.phase.is_some() && it.instrument.symbol == symbol)
    }

    /// The instrument with this number, if it was not removed.
    #[must_use]
    pub fn get(&self, instrument_id: InstrumentId) -> Option<&Listed> {
        let listed = self.instruments.get(usize::from(instrument_id.0).checked_sub(1)?)?;
        listed.phase.map(|_| listed)
    }

    /// Instruments that were not removed, from this place on, each with the place after it.
    pub fn after(&self, place: usize) -> impl Iterator<Item = (usize, &Listed)> {
        let rest = self.instruments.get(place..).unwrap_or_default();
        (place + 1..).zip(rest).filter(|(_, it)| it.phase.is_some())
    }

    /// Instruments that were not removed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.instruments.iter().filter(|it| it.phase.is_some()).count()
    }
}
