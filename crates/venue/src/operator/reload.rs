//! A configuration read again while the venue runs: the commands for the settings that may change, and lines for those
//! that need a restart. A start and a reload plan their commands by the same function.

use engine::Engine;
use gateway::Credentials;
use market::{Command, MoneyCommand, VenueCommand};

use crate::{
    config::{Config, ParticipantConfig, ProtocolName},
    failure::Failure,
    gateways, recovery,
};

/// The changes of a new configuration.
pub(crate) struct ReloadPlan {
    /// The commands for the venue, in this order.
    pub(crate) commands: Vec<Command>,
    /// The participants whose sessions the commands add.
    pub(crate) newcomers: Vec<(ProtocolName, Credentials)>,
    /// The settings that change, those that stay, and those that need a restart, a line each.
    pub(crate) lines: Vec<String>,
}

/// Compares a new configuration with the present one, and with the venue's state.
///
/// # Errors
/// The new configuration contradicts the journal; then no setting may be changed.
pub(crate) fn plan(old: &Config, new: &Config, engine: &Engine) -> Result<ReloadPlan, Failure> {
    let planned = recovery::bootstrap(new, engine)?;
    let mut lines = planned.changes;
    let mut commands = Vec::new();
    let newcomers = newcomers(old, new, engine)?;
    for user in newcomers.iter().flatten().map(|(_, user)| user.username()) {
        lines.push(format!(
            "participant {user} was added; it may log in to the feed after a restart"
        ));
    }
    let adds_account = |it: &Command| matches!(it, Command::Money(MoneyCommand::AddAccount(_)));
    let can_assign = newcomers.is_some() && !planned.commands.iter().any(adds_account);
    let session_count = engine.sessions().len();
    let mut needs_restart = false;
    for command in planned.commands {
        match command {
            Command::AddSession(_) if newcomers.is_some() => commands.push(command),
            Command::Money(MoneyCommand::AssignSession(assign))
                if can_assign && session_count < usize::from(assign.session_id.0) =>
            {
                commands.push(command);
            }
            Command::Money(
                MoneyCommand::SetAccount(_)
                | MoneyCommand::StopAccount(_)
                | MoneyCommand::SetFees(_),
            )
            | Command::Venue(VenueCommand::SetLiveOrdersMax(_)) => commands.push(command),
            // Commands of a start.
            Command::CancelOnDisconnect(_) | Command::Note(_) => {}
            _ => needs_restart = true,
        }
    }
    if needs_restart {
        lines.push("instruments, participants, accounts, assets or terms: need a restart".into());
    }
    let shown = |config: &Config| {
        // Rows of newcomers are applied.
        let is_newcomer = |it: &&ParticipantConfig| {
            let mut users = newcomers.iter().flatten().map(|(_, user)| user.username());
            users.any(|user| it.username() == Ok(user))
        };
        let known = || config.participants.iter().filter(|it| !is_newcomer(it));
        let copies: Vec<_> = known().map(|it| &it.drop_copy).collect();
        let passwords: Vec<_> = known().map(|it| &it.password).collect();
        [
            ("journal", format!("{:?}", config.journal)),
            ("snapshots", format!("{:?}", config.snapshots)),
            ("order_entry", format!("{:?}", config.order_entry)),
            ("order_entry_fix", format!("{:?}", config.order_entry_fix)),
            ("order_entry_ouch42", format!("{:?}", config.order_entry_ouch42)),
            ("order_entry_sluice", format!("{:?}", config.order_entry_sluice)),
            ("order_entry_udp", format!("{:?}", config.order_entry_udp)),
            ("market_data", format!("{:?}", config.market_data)),
            ("network", format!("{:?}", config.network)),
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
    Ok(ReloadPlan { commands, newcomers: newcomers.unwrap_or_default(), lines })
}

/// The participants that the journal does not know, with their logins; `None` if one of them needs a restart: it has no
/// login, is a drop copy, or its port is not open or has no place for it.
fn newcomers(
    old: &Config,
    new: &Config,
    engine: &Engine,
) -> Result<Option<Vec<(ProtocolName, Credentials)>>, Failure> {
    let mut users = Vec::new();
    for participant in &new.participants {
        let username = participant.username().map_err(Failure::usage)?;
        if engine.sessions().any(|known| *known.username() == username) {
            continue;
        }
        let user = gateways::user(participant)?;
        let is_plain = participant.udp.is_none() && participant.drop_copy.is_none();
        let Some((protocol, user)) = user.filter(|_| is_plain) else { return Ok(None) };
        let connections_max = match protocol {
            ProtocolName::Ouch => Some(old.order_entry.connections_max),
            ProtocolName::Fix => old.order_entry_fix.as_ref().map(|it| it.connections_max),
            ProtocolName::Ouch42 => old.order_entry_ouch42.as_ref().map(|it| it.connections_max),
            ProtocolName::Sluice => old.order_entry_sluice.as_ref().map(|it| it.connections_max),
        };
        let speaks = |it: &&ParticipantConfig| it.password.is_some() && it.protocol == protocol;
        let places = new.participants.iter().filter(speaks).count();
        if connections_max.is_none_or(|max| max <= places) {
            return Ok(None);
        }
        users.push((protocol, user));
    }
    Ok(Some(users))
}
