//! The venue's own commands: phases, bands and limits, cancels, blocks, and trades undone.

use market::{
    AccountId, AddInstrument, Allocation, BlockEntry, BustReason, BustTrade, Command,
    ConfigureInstrument, CorrectTrade, Firm, InstrumentChange, LiveOrdersMax, OperatorAction,
    OperatorCommand, Phase, Price, Quantity, RemoveInstrument, Scope, SessionId, SetPhase, Side,
    Symbol, Text, TradeId, VenueCommand,
};

use super::{CommandFlow, PRICE_MAX, symbol, text};

/// The weight of each phase among a hundred commands that set a phase.
const PHASES: &[(u64, Phase)] = &[
    (45, Phase::Continuous),
    (15, Phase::PreOpen),
    (17, Phase::OpeningAuction),
    (7, Phase::VolatilityAuction),
    (5, Phase::Halted),
    (8, Phase::ClosingAuction),
    (3, Phase::Closed),
];

impl CommandFlow {
    pub(super) fn venue(&mut self) -> Command {
        if !self.blocked.is_empty() && self.rng.chance(1, 4) {
            let scope = self.blocked.swap_remove(0);
            return Command::Venue(VenueCommand::BlockEntry(BlockEntry { scope, blocked: false }));
        }
        let command = match self.rng.below(100) {
            0..=54 => VenueCommand::SetPhase(self.set_phase()),
            55..=74 => VenueCommand::ConfigureInstrument(self.configure()),
            75 => return self.remove(),
            76..=80 => VenueCommand::SupervisoryCancel(self.scope()),
            81 => {
                let blocked = self.rng.chance(3, 4);
                let scope = match blocked {
                    false => self.killed.pop().unwrap_or(Scope::ALL),
                    true => self.scope(),
                };
                if blocked {
                    self.killed.push(scope);
                }
                VenueCommand::KillSwitch(BlockEntry { scope, blocked })
            }
            82 => {
                let session_id = self.scope().session_id;
                let low = self.rng.chance(1, 3);
                let live_orders_max =
                    if low { self.rng.below(40) as u32 } else { self.profile.live_orders_max };
                VenueCommand::SetLiveOrdersMax(LiveOrdersMax { session_id, live_orders_max })
            }
            83 => VenueCommand::LogOut(self.scope().session_id),
            84..=87 => {
                let scope = self.scope();
                let blocked = !self.rng.chance(1, 8);
                if blocked {
                    self.blocked.push(scope);
                }
                VenueCommand::BlockEntry(BlockEntry { scope, blocked })
            }
            88..=93 => self.bust_trade(),
            _ => self.correct(),
        };
        Command::Venue(command)
    }

    /// Undoes a trade, or corrects one.
    pub(super) fn undo(&mut self) -> Command {
        let breaks = self.rng.chance(1, 2);
        Command::Venue(if breaks { self.bust_trade() } else { self.correct() })
    }

    fn bust_trade(&mut self) -> VenueCommand {
        let trade_id = self.trade_id();
        let reason = *self.rng.pick(BustReason::ALL);
        VenueCommand::BustTrade(BustTrade { trade_id, reason })
    }

    /// A correction, mostly near the market; now and then at a price that costs all that an account has.
    fn correct(&mut self) -> VenueCommand {
        let instrument = self.any_instrument();
        let increment = self.profile.price_increment.0;
        VenueCommand::CorrectTrade(CorrectTrade {
            trade_id: self.trade_id(),
            price: match self.rng.below(16) {
                0 => Price(self.rng.below(PRICE_MAX + 2)),
                1..=4 => Price(self.rng.range(1, PRICE_MAX / increment) * increment),
                _ => self.price(instrument, Side::Buy),
            },
            quantity: Quantity(self.profile.quantity_scale * self.rng.below(20)),
            reason: *self.rng.pick(BustReason::ALL),
        })
    }

    /// A change of phase, mostly one that leads back to continuous trading.
    fn set_phase(&mut self) -> SetPhase {
        let symbol = match self.rng.below(20) {
            0 => Symbol::BLANK,
            1 => text("NONE"),
            _ => symbol(self.any_instrument()),
        };
        let phase = self.rng.weighted(PHASES);
        let release_s = if self.rng.chance(1, 8) { self.rng.range(1, 4) as u32 } else { 0 };
        let reason = if self.rng.chance(1, 8) { text("T1") } else { Text::BLANK };
        SetPhase { symbol, phase, reason, release_s }
    }

    /// The command of one of three operators, mostly under the next number; now and then the last command
    /// again, or a used number.
    pub(super) fn operate(&mut self, action: OperatorAction) -> Command {
        let index = self.rng.below(3) as usize;
        let operator = text(["ALICE", "BOB", "CAROL"][index]);
        let last = self.operated[index];
        let number = last.map_or(1, |last: OperatorCommand| last.number + 1);
        let command = match (self.rng.below(10), last) {
            (0, Some(last)) => last,
            (1, Some(last)) => OperatorCommand { operator, number: last.number, action },
            _ => OperatorCommand { operator, number, action },
        };
        if last.is_none_or(|last| last.number < command.number) {
            self.operated[index] = Some(command);
        }
        Command::Operate(command)
    }

    fn configure(&mut self) -> ConfigureInstrument {
        let instrument = self.any_instrument();
        let near = self.price(instrument, Side::Buy);
        let parts = |it: &mut Self, most| match it.rng.below(3) {
            0 => 0,
            _ => it.rng.range(1, most) as u32,
        };
        let scale = self.profile.quantity_scale;
        let change = match self.rng.below(25) {
            0 => {
                let odd = [Price::ZERO, Price(PRICE_MAX + 1), self.profile.price_increment];
                InstrumentChange::PriceIncrement(*self.rng.pick(&odd))
            }
            1 => InstrumentChange::RoundLot(Quantity(self.rng.below(3) * 500_000)),
            2..=5 => InstrumentChange::ReferencePrice(near),
            6 => {
                let odd = [Price::ZERO, Price(near.0 + 1), Price(PRICE_MAX), Price(PRICE_MAX + 1)];
                InstrumentChange::ReferencePrice(*self.rng.pick(&odd))
            }
            7..=9 => InstrumentChange::StaticBand(parts(self, 3_000)),
            10..=12 => InstrumentChange::DynamicBand(parts(self, 2_000)),
            13..=14 => InstrumentChange::PauseSeconds(self.rng.below(4) as u32),
            15 => InstrumentChange::PriceCollar(parts(self, 5_000)),
            16..=17 => match self.rng.below(3) {
                0 => InstrumentChange::QuantityMax(Quantity(scale * self.rng.range(50, 1_500))),
                1 => InstrumentChange::QuantityMax(Quantity(1 << 48)),
                _ => InstrumentChange::QuantityMax(Quantity(0)),
            },
            18 => match self.rng.below(2) {
                0 => InstrumentChange::NotionalMax(
                    near.0.saturating_mul(scale * self.rng.range(50, 1_500)),
                ),
                _ => InstrumentChange::NotionalMax(0),
            },
            19 => InstrumentChange::TimeShare(
                *self.rng.pick(&[0, 1, 300_000, 999_999, 1_000_000, 1_000_001]),
            ),
            20 => InstrumentChange::PegsMax(*self.rng.pick(&[0, 3, 8, 40, 8_192, 8_193])),
            21 => InstrumentChange::SessionPegsMax(*self.rng.pick(&[0, 2, 20, 8_192, 8_193])),
            _ => InstrumentChange::Allocation(*self.rng.pick(Allocation::ALL)),
        };
        let symbol = if self.rng.chance(1, 40) { text("NONE") } else { symbol(instrument) };
        ConfigureInstrument { symbol, change }
    }

    /// Removes an instrument and adds it again at once, so that its symbol continues to trade.
    fn remove(&mut self) -> Command {
        let symbol = symbol(self.any_instrument());
        self.scheduled.push_back(Command::AddInstrument(AddInstrument {
            symbol,
            price_increment: self.profile.price_increment,
            round_lot: Quantity(100),
        }));
        Command::Venue(VenueCommand::RemoveInstrument(RemoveInstrument { symbol }))
    }

    /// A scope, mostly narrow, so that some orders stay.
    fn scope(&mut self) -> Scope {
        let session_id = match self.rng.below(20) {
            0 => SessionId(40_000),
            1 => SessionId(0),
            _ => self.any_session(),
        };
        let symbol = match self.rng.below(20) {
            0 => text("NONE"),
            1..=7 => Symbol::BLANK,
            _ => symbol(self.any_instrument()),
        };
        Scope {
            session_id,
            firm: if self.rng.chance(1, 4) { self.firm() } else { Firm::BLANK },
            symbol,
            side: self.rng.chance(1, 2).then(|| *self.rng.pick(Side::ALL)),
            group_id: self.rng.chance(2, 3).then(|| self.group_id()),
            account_id: self.account_of_scope(),
        }
    }

    /// The account of a scope: mostly any; now and then one that does not exist.
    fn account_of_scope(&mut self) -> AccountId {
        let accounts = u64::from(self.profile.accounts);
        if accounts == 0 || self.rng.chance(2, 3) {
            return AccountId::VENUE;
        }
        AccountId(self.rng.range(1, accounts + 1) as u32)
    }

    /// A trade id of any age that may exist. The generator does not know the number of trades.
    fn trade_id(&mut self) -> TradeId {
        let commands_each = *self.rng.pick(&[5, 10, 20, 40]);
        TradeId(self.rng.below(self.issued / commands_each + 2))
    }
}
