//! Commands of the venue as bytes. Invariant: each has exactly one encoding.

use super::{Writer, kind};
use crate::{
    Allocation, BlockEntry, BustReason, BustTrade, ConfigureInstrument, CorrectTrade,
    InstrumentChange, LiveOrdersMax, Phase, Price, Quantity, RemoveInstrument, SessionId, SetPhase,
    TradeId, VenueCommand,
    bytes::{ByteReader, ByteWriter, DecodeError},
};

const PRICE_INCREMENT: u8 = 1;
const ROUND_LOT: u8 = 2;
const REFERENCE_PRICE: u8 = 3;
const STATIC_BAND: u8 = 4;
const DYNAMIC_BAND: u8 = 5;
const PAUSE_SECONDS: u8 = 6;
const PRICE_COLLAR: u8 = 7;
const QUANTITY_MAX: u8 = 8;
const NOTIONAL_MAX: u8 = 9;
const ALLOCATION: u8 = 10;
const TIME_SHARE: u8 = 11;

impl Writer<'_> {
    pub(super) fn venue(&mut self, command: &VenueCommand) {
        match command {
            VenueCommand::SetPhase(set) => {
                self.u8(kind::SET_PHASE);
                self.text(&set.symbol);
                self.u8(set.phase.code());
                self.text(&set.reason);
                self.u32(set.release_s);
            }
            VenueCommand::ConfigureInstrument(configure) => {
                self.u8(kind::CONFIGURE_INSTRUMENT);
                self.text(&configure.symbol);
                let (property, value) = property_and_value(&configure.change);
                self.u8(property);
                self.u64(value);
            }
            VenueCommand::RemoveInstrument(remove) => {
                self.u8(kind::REMOVE_INSTRUMENT);
                self.text(&remove.symbol);
            }
            VenueCommand::SupervisoryCancel(scope) => {
                self.u8(kind::SUPERVISORY_CANCEL);
                self.scope(scope);
            }
            VenueCommand::BlockEntry(block) => {
                self.u8(kind::BLOCK_ENTRY);
                self.scope(&block.scope);
                self.flag(block.blocked);
            }
            VenueCommand::BustTrade(broken) => {
                self.u8(kind::BUST_TRADE);
                self.u64(broken.trade_id.0);
                self.u8(broken.reason.code());
            }
            VenueCommand::CorrectTrade(correct) => {
                self.u8(kind::CORRECT_TRADE);
                self.u64(correct.trade_id.0);
                self.u64(correct.price.0);
                self.u64(correct.quantity.0);
                self.u8(correct.reason.code());
            }
            VenueCommand::KillSwitch(block) => {
                self.u8(kind::KILL_SWITCH);
                self.scope(&block.scope);
                self.flag(block.blocked);
            }
            VenueCommand::SetLiveOrdersMax(set) => {
                self.u8(kind::SET_LIVE_ORDERS_MAX);
                self.u16(set.session_id.0);
                self.u32(set.live_orders_max);
            }
            VenueCommand::LogOut(session_id) => {
                self.u8(kind::LOG_OUT);
                self.u16(session_id.0);
            }
        }
    }
}

fn property_and_value(change: &InstrumentChange) -> (u8, u64) {
    match *change {
        InstrumentChange::PriceIncrement(price) => (PRICE_INCREMENT, price.0),
        InstrumentChange::RoundLot(quantity) => (ROUND_LOT, quantity.0),
        InstrumentChange::ReferencePrice(price) => (REFERENCE_PRICE, price.0),
        InstrumentChange::StaticBand(ppm) => (STATIC_BAND, u64::from(ppm)),
        InstrumentChange::DynamicBand(ppm) => (DYNAMIC_BAND, u64::from(ppm)),
        InstrumentChange::PauseSeconds(seconds) => (PAUSE_SECONDS, u64::from(seconds)),
        InstrumentChange::PriceCollar(ppm) => (PRICE_COLLAR, u64::from(ppm)),
        InstrumentChange::QuantityMax(quantity) => (QUANTITY_MAX, quantity.0),
        InstrumentChange::NotionalMax(notional) => (NOTIONAL_MAX, notional),
        InstrumentChange::Allocation(allocation) => (ALLOCATION, u64::from(allocation.code())),
        InstrumentChange::TimeShare(ppm) => (TIME_SHARE, u64::from(ppm)),
    }
}

impl ByteReader<'_> {
    /// The venue command of this kind; `None` if the kind is not one of these.
    pub(super) fn venue(&mut self, kind: u8) -> Result<Option<VenueCommand>, DecodeError> {
        Ok(Some(match kind {
            kind::SET_PHASE => VenueCommand::SetPhase(SetPhase {
                symbol: self.text("symbol")?,
                phase: self.code("phase", Phase::from_code)?,
                reason: self.text("reason")?,
                release_s: self.u32()?,
            }),
            kind::CONFIGURE_INSTRUMENT => VenueCommand::ConfigureInstrument(ConfigureInstrument {
                symbol: self.text("symbol")?,
                change: self.instrument_change()?,
            }),
            kind::REMOVE_INSTRUMENT => {
                VenueCommand::RemoveInstrument(RemoveInstrument { symbol: self.text("symbol")? })
            }
            kind::SUPERVISORY_CANCEL => VenueCommand::SupervisoryCancel(self.scope()?),
            kind::BLOCK_ENTRY => VenueCommand::BlockEntry(BlockEntry {
                scope: self.scope()?,
                blocked: self.flag("blocked")?,
            }),
            kind::BUST_TRADE => VenueCommand::BustTrade(BustTrade {
                trade_id: TradeId(self.u64()?),
                reason: self.code("break reason", BustReason::from_code)?,
            }),
            kind::CORRECT_TRADE => VenueCommand::CorrectTrade(CorrectTrade {
                trade_id: TradeId(self.u64()?),
                price: Price(self.u64()?),
                quantity: Quantity(self.u64()?),
                reason: self.code("break reason", BustReason::from_code)?,
            }),
            kind::KILL_SWITCH => VenueCommand::KillSwitch(BlockEntry {
                scope: self.scope()?,
                blocked: self.flag("blocked")?,
            }),
            kind::SET_LIVE_ORDERS_MAX => VenueCommand::SetLiveOrdersMax(LiveOrdersMax {
                session_id: SessionId(self.u16()?),
                live_orders_max: self.u32()?,
            }),
            kind::LOG_OUT => VenueCommand::LogOut(SessionId(self.u16()?)),
            _ => return Ok(None),
        }))
    }

    fn instrument_change(&mut self) -> Result<InstrumentChange, DecodeError> {
        const VALUE: DecodeError = DecodeError::Field("value");
        let property = self.u8()?;
        let value = self.u64()?;
        let narrow = || u32::try_from(value).map_err(|_| VALUE);
        Ok(match property {
            PRICE_INCREMENT => InstrumentChange::PriceIncrement(Price(value)),
            ROUND_LOT => InstrumentChange::RoundLot(Quantity(value)),
            REFERENCE_PRICE => InstrumentChange::ReferencePrice(Price(value)),
            STATIC_BAND => InstrumentChange::StaticBand(narrow()?),
            DYNAMIC_BAND => InstrumentChange::DynamicBand(narrow()?),
            PAUSE_SECONDS => InstrumentChange::PauseSeconds(narrow()?),
            PRICE_COLLAR => InstrumentChange::PriceCollar(narrow()?),
            QUANTITY_MAX => InstrumentChange::QuantityMax(Quantity(value)),
            NOTIONAL_MAX => InstrumentChange::NotionalMax(value),
            ALLOCATION => {
                let code = u8::try_from(value).map_err(|_| VALUE)?;
                InstrumentChange::Allocation(Allocation::from_code(code).ok_or(VALUE)?)
            }
            TIME_SHARE => InstrumentChange::TimeShare(narrow()?),
            _ => return Err(DecodeError::Field("property")),
        })
    }
}
