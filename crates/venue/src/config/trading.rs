//! Instruments: their trading from the start, and the times at which their phases change.

use std::collections::BTreeSet;

use market::{
    ConfigureInstrument, InstrumentChange, Phase, Price, Quantity, SetPhase, Symbol, VenueCommand,
};
use serde::Deserialize;

use super::{Decimal, InstrumentMoneyConfig, Span};

/// `[[instruments]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentConfig {
    /// Printed name, up to 8 characters.
    pub symbol: String,
    /// Limit prices must be a multiple of it, in currency with up to 4 decimals. Default `0.01`.
    #[serde(default = "InstrumentConfig::default_increment")]
    pub price_increment: Decimal,
    /// Round lot. Default 100.
    #[serde(default = "InstrumentConfig::default_lot")]
    pub round_lot: u32,
    /// The trading settings from the start.
    #[serde(default)]
    pub trading: TradingConfig,
    /// The payment terms of its orders.
    #[serde(default)]
    pub money: Option<InstrumentMoneyConfig>,
}

impl InstrumentConfig {
    pub(super) const fn default_increment() -> Decimal {
        Decimal(100)
    }

    pub(super) const fn default_lot() -> u32 {
        100
    }
}

impl InstrumentConfig {
    /// The symbol in its wire form.
    pub fn symbol(&self) -> Result<Symbol, String> {
        Symbol::new(&self.symbol).filter(|symbol| !symbol.is_blank()).ok_or_else(|| {
            format!("instrument symbol {:?} is not 1 to 8 printable ASCII characters", self.symbol)
        })
    }

    pub const fn price_increment(&self) -> Price {
        Price(self.price_increment.0)
    }

    pub fn round_lot(&self) -> Quantity {
        Quantity(u64::from(self.round_lot))
    }
}

/// `[instruments.trading]`: applied when the instrument is added; later only commands change it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TradingConfig {
    /// The phase it begins in. Default `continuous`.
    pub phase: Option<Phase>,
    /// The reference price of bands, collar and auctions, in currency. Default none.
    pub reference_price: Option<Decimal>,
    /// The largest distance of trades from the reference price, in millionths. Default 0, any.
    pub static_band_ppm: u32,
    /// The largest distance of trades from the last price, in millionths. Default 0, any.
    pub dynamic_band_ppm: u32,
    /// The pause of trading when a trade would be beyond these bands, in whole seconds. Default none.
    pub pause: Option<Span>,
    /// The largest distance of a limit through the reference price, in millionths. Default 0, any.
    pub price_collar_ppm: u32,
    /// The most lots of an order. Default 0, any.
    pub quantity_max: u64,
    /// The most that an order may cost, in currency times lots. Default none.
    pub notional_max: Option<Decimal>,
    /// The most pegged orders, at most 8,192. Default 1,024.
    pub pegs_max: Option<u32>,
    /// The most pegged orders of one session, at most 8,192. Default 256.
    pub session_pegs_max: Option<u32>,
}

impl TradingConfig {
    pub fn commands(&self, symbol: Symbol) -> Vec<VenueCommand> {
        use InstrumentChange::*;
        let pause_s = self.pause.map_or(0, |pause| pause.0.as_secs() as u32);
        let reference = self.reference_price.map_or(0, |price| price.0);
        let changes = [
            (reference != 0, ReferencePrice(Price(reference))),
            (self.static_band_ppm != 0, StaticBand(self.static_band_ppm)),
            (self.dynamic_band_ppm != 0, DynamicBand(self.dynamic_band_ppm)),
            (pause_s != 0, PauseSeconds(pause_s)),
            (self.price_collar_ppm != 0, PriceCollar(self.price_collar_ppm)),
            (self.quantity_max != 0, QuantityMax(Quantity(self.quantity_max))),
            (self.notional_max.is_some(), NotionalMax(self.notional_max.map_or(0, |it| it.0))),
            (self.pegs_max.is_some(), PegsMax(self.pegs_max.unwrap_or_default())),
            (
                self.session_pegs_max.is_some(),
                SessionPegsMax(self.session_pegs_max.unwrap_or_default()),
            ),
        ];
        let changes = changes.into_iter().filter(|(is_set, _)| *is_set).map(|(_, change)| {
            VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
        });
        let phase = self.phase.filter(|phase| *phase != Phase::Continuous);
        let phase = phase.map(|phase| VenueCommand::SetPhase(SetPhase::new(symbol, phase)));
        changes.chain(phase).collect()
    }
}

/// `[[schedule]]`: a phase that instruments change to every day at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    /// The time, in UTC: `08:00:00`.
    pub at: String,
    /// The phase.
    pub phase: Phase,
    /// The instrument; without one, every instrument that may change to the phase.
    #[serde(default)]
    pub symbol: Option<String>,
}

impl ScheduleConfig {
    /// Nanoseconds after midnight, and the command.
    pub fn command(&self) -> Result<(u64, VenueCommand), String> {
        let symbol = match &self.symbol {
            None => Symbol::BLANK,
            Some(name) => Symbol::new(name).filter(|it| !it.is_blank()).ok_or_else(|| {
                format!("schedule: symbol {name:?} is not 1 to 8 printable ASCII characters")
            })?,
        };
        Ok((
            time_of_day_ns("schedule: at", &self.at)?,
            VenueCommand::SetPhase(SetPhase::new(symbol, self.phase)),
        ))
    }
}

pub(super) fn time_of_day_ns(name: &str, text: &str) -> Result<u64, String> {
    let wrong = || format!("{name} = {text:?} is not a time of the day like \"08:00:00\"");
    let mut parts = text.split(':').map(|part| match part.len() {
        2 => part.parse::<u64>().map_err(|_| wrong()),
        _ => Err(wrong()),
    });
    let mut below = |limit| {
        let part = parts.next().ok_or_else(wrong)??;
        if part < limit { Ok(part) } else { Err(wrong()) }
    };
    let seconds = (below(24)? * 60 + below(60)?) * 60 + below(60)?;
    if parts.next().is_some() { Err(wrong()) } else { Ok(seconds * 1_000_000_000) }
}

/// # Errors
/// A symbol is invalid or given twice, or an increment or a lot is 0.
pub(super) fn check_instruments(instruments: &[InstrumentConfig]) -> Result<(), String> {
    let mut symbols = BTreeSet::new();
    for instrument in instruments {
        let symbol = instrument.symbol()?;
        if !symbols.insert(symbol) {
            return Err(format!("instrument {symbol} is given twice"));
        }
        if instrument.price_increment.0 == 0 || instrument.round_lot == 0 {
            return Err(format!("instrument {symbol}: increment and lot must be above 0"));
        }
    }
    Ok(())
}

/// # Errors
/// There are too many rows, or one is invalid or names a symbol that is not traded.
pub(super) fn check_schedule(
    schedule: &[ScheduleConfig],
    instruments: &[InstrumentConfig],
) -> Result<(), String> {
    if schedule.len() > 60 {
        return Err("schedule has more than 60 rows".into());
    }
    for row in schedule {
        row.command()?;
        if let Some(symbol) = &row.symbol
            && instruments.iter().all(|it| it.symbol.trim_end() != symbol.trim_end())
        {
            return Err(format!(
                "schedule: at = {:?} names the symbol {symbol:?}, which no [[instruments]] has: \
                 correct it, add the instrument, or leave the symbol out for all instruments",
                row.at
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new instrument is configured before its phase is set, and the phase comes last; no command sets a value that
    /// would be the same without it.
    #[test]
    fn settings_are_commands() {
        let text = "
            phase = \"pre-open\"
            reference_price = \"1.5\"
            static_band_ppm = 7
            pause = \"30s\"
        ";
        let config: TradingConfig = toml::from_str(text).expect("it is one");
        let symbol = Symbol::new("AAPL").expect("short");
        let changed =
            |change| VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change });
        assert_eq!(
            config.commands(symbol),
            [
                changed(InstrumentChange::ReferencePrice(Price(15_000))),
                changed(InstrumentChange::StaticBand(7)),
                changed(InstrumentChange::PauseSeconds(30)),
                VenueCommand::SetPhase(SetPhase::new(symbol, Phase::PreOpen)),
            ]
        );
        assert_eq!(TradingConfig::default().commands(symbol), []);
    }

    /// A time of the day is two digits each of hours, minutes and seconds, and nothing else.
    #[test]
    fn times_of_the_day_are_read() {
        assert_eq!(time_of_day_ns("at", "00:00:01"), Ok(1_000_000_000));
        assert_eq!(time_of_day_ns("at", "23:59:59"), Ok(86_399_000_000_000));
        for wrong in ["24:00:00", "08:60:00", "08:00", "8:00:00", "08:00:00:00", "", "ab:cd:ef"] {
            assert!(time_of_day_ns("at", wrong).is_err(), "{wrong}");
        }
    }
}
