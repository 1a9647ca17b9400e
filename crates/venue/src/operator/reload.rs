//! A configuration that is read again while the venue runs: the commands for what may change, and words
//! for what needs a restart. A start and a reload plan their commands by the same function.

use engine::Engine;
use market::{Command, MoneyCommand, VenueCommand};

use crate::{config::Config, failure::Failure, recovery};

/// What a new configuration changes.
pub(crate) struct ReloadPlan {
    /// To be given to the venue, in this order.
    pub(crate) commands: Vec<Command>,
    /// What changes, what stays, and what needs a restart, a line each.
    pub(crate) lines: Vec<String>,
}

/// Compares a new configuration with the one that the venue runs with, and with its state.
///
/// # Errors
/// The new one contradicts the journal; then nothing may be changed.
pub(crate) fn plan(old: &Config, new: &Config, engine: &Engine) -> Result<ReloadPlan, Failure> {
    let planned = recovery::bootstrap(new, engine)?;
    let mut lines = planned.changes;
    let mut commands = Vec::new();
    let mut needs_restart = false;
    for command in planned.commands {
        match command {
            Command::Money(
                MoneyCommand::SetAccount(_)
                | MoneyCommand::StopAccount(_)
                | MoneyCommand::SetFees(_),
            )
            | Command::Venue(VenueCommand::SetLiveOrdersMax(_)) => commands.push(command),
            // Of a start.
            Command::CancelOnDisconnect(_) | Command::Note(_) => {}
            _ => needs_restart = true,
        }
    }
    if needs_restart {
        lines.push("instruments, participants, accounts, assets or terms: need a restart".into());
    }
    let shown = |config: &Config| {
        let copies: Vec<_> = config.participants.iter().map(|it| &it.drop_copy).collect();
        let passwords: Vec<_> = config.participants.iter().map(|it| &it.password).collect();
        [
            ("journal", format!("{:?}", config.journal)),
            ("snapshots", format!("{:?}", config.snapshots)),
            ("order_entry", format!("{:?}", config.order_entry)),
            ("order_entry_fix", format!("{:?}", config.order_entry_fix)),
            ("order_entry_ouch42", format!("{:?}", config.order_entry_ouch42)),
            ("order_entry_sluice", format!("{:?}", config.order_entry_sluice)),
            ("order_entry_udp", format!("{:?}", config.order_entry_udp)),
            ("market_data", format!("{:?}", config.market_data)),
            ("ledger", format!("{:?}", config.ledger)),
            ("admin", format!("{:?}", config.admin)),
            ("layout", format!("{:?}", config.layout)),
            ("rings", format!("{:?}", config.rings)),
            ("schedule", format!("{:?}", config.schedule)),
            ("derived_data", format!("{:?}", config.derived_data)),
            ("market_data_fix", format!("{:?}", config.market_data_fix)),
            ("drop copies", format!("{copies:?}")),
            ("passwords", format!("{passwords:?}")),
        ]
    };
    for ((name, before), (_, after)) in shown(old).into_iter().zip(shown(new)) {
        if before != after {
            lines.push(format!("{name}: needs a restart"));
        }
    }
    if lines.is_empty() {
        lines.push("no setting has changed".into());
    }
    Ok(ReloadPlan { commands, lines })
}
