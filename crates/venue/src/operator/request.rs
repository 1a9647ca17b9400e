//! A command of an operator as `damrak ctl` and `POST /operator` take it, in one type, and its
//! translation to the core's: names become numbers here.
//!
//! Invariant: the doc comments of the commands are the help texts of `damrak ctl`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use engine::Engine;
use gateway::{FAULT_DELAY_MS_MAX, FaultChange};
use market::{
    AccountId, AccountSetting, AssetId, BlockEntry, BustReason, BustTrade, ConfigureInstrument,
    CorrectTrade, Deposit, InstrumentChange, LiveOrdersMax, MoneyCommand, OperatorAction, Phase,
    Price, Quantity, Scope, SessionId, SetAccount, SetPhase, Side, Symbol, Text, TradeId, Units,
    VenueCommand, Withdraw,
};
use serde::{Deserialize, Serialize};

use crate::config::{ACCOUNT_SETTINGS, ASSET_SETTINGS, PRICE_DECIMALS, decimal};

/// The body of `POST /operator`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// The operator's number of the command; without one, the last and 1.
    #[serde(default)]
    pub number: Option<u64>,
    /// True: only show the command's effect.
    #[serde(default)]
    pub dry_run: bool,
    pub command: OperatorVerb,
}

/// The body of `POST /operator/faults`.
#[derive(Clone, Debug, Default, Args, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultRequest {
    /// The session with this username.
    #[arg(long, value_name = "USER")]
    pub session: String,
    /// Delay everything that is sent to the session by this many milliseconds; 0 ends the delay.
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// Reject this percentage of the session's orders and replaces; 0 ends the rejects.
    #[arg(long, value_name = "PERCENT")]
    reject_percent: Option<u64>,
    /// Cut the session's connection, once.
    #[arg(long)]
    disconnect: bool,
    /// Skip the next message to the session, once, which leaves a gap in the sequence numbers.
    #[arg(long)]
    gap: bool,
    /// End delay and rejects.
    #[arg(long, conflicts_with_all = ["delay_ms", "reject_percent"])]
    off: bool,
}

impl FaultRequest {
    /// The change of faults that this requests.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn change(&self) -> Result<FaultChange, String> {
        if let Some(delay_ms) = self.delay_ms.filter(|delay_ms| *delay_ms > FAULT_DELAY_MS_MAX) {
            return Err(format!("delay_ms is {delay_ms}: it must be 0 to {FAULT_DELAY_MS_MAX}"));
        }
        if let Some(percent) = self.reject_percent.filter(|percent| *percent > 100) {
            return Err(format!("reject_percent is {percent}: it must be 0 to 100"));
        }
        if self.off && (self.delay_ms.is_some() || self.reject_percent.is_some()) {
            return Err(
                "off ends delay and rejects: leave it out, or delay_ms and reject_percent".into()
            );
        }
        let off = self.off.then_some(0);
        Ok(FaultChange {
            delay_ms: self.delay_ms.or(off),
            reject_percent: self.reject_percent.or(off),
            disconnect: self.disconnect,
            gap: self.gap,
        })
    }
}

/// One instrument or all.
#[derive(Clone, Debug, Default, Args, Deserialize, Serialize)]
#[group(required = true, multiple = false)]
#[serde(deny_unknown_fields, default)]
pub struct InstrumentSelector {
    /// The instrument.
    symbol: Option<String>,
    /// Every instrument whose phase allows it.
    #[arg(long)]
    all: bool,
}

/// The orders that match every given option.
#[derive(Clone, Debug, Default, Args, Deserialize, Serialize)]
#[group(required = true, multiple = true)]
#[serde(deny_unknown_fields, default)]
pub struct OrderSelector {
    /// Orders of the session with this username.
    #[arg(long)]
    session: Option<String>,
    /// Orders of the sessions of this account.
    #[arg(long)]
    account: Option<String>,
    /// Orders of this firm.
    #[arg(long)]
    firm: Option<String>,
    /// Orders in this instrument.
    #[arg(long)]
    symbol: Option<String>,
    /// Orders of this side: buy, sell, short or short-exempt.
    #[arg(long)]
    side: Option<String>,
    /// All orders.
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Debug, Subcommand, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verb", deny_unknown_fields)]
pub enum OperatorVerb {
    /// Halt trading in an instrument, or in all.
    Halt {
        #[command(flatten)]
        instruments: InstrumentSelector,
        /// Up to four characters for the feed, such as T1.
        #[arg(long)]
        #[serde(default)]
        reason: Option<String>,
    },
    /// Collect orders without trading (pre-open).
    QuoteOnly {
        #[command(flatten)]
        instruments: InstrumentSelector,
        /// Up to four characters for the feed.
        #[arg(long)]
        #[serde(default)]
        reason: Option<String>,
    },
    /// Resume continuous trading, after an auction of the collected orders.
    Resume {
        #[command(flatten)]
        instruments: InstrumentSelector,
    },
    /// Begin an auction.
    Auction {
        #[command(flatten)]
        instruments: InstrumentSelector,
        /// opening, closing or volatility.
        #[arg(long, default_value = "opening")]
        kind: String,
        /// Seconds until the auction ends [default: no limit, ended by `release`].
        #[arg(
            long = "release",
            value_name = "SECONDS",
            default_value_t = 0,
            hide_default_value = true
        )]
        #[serde(default)]
        release_s: u32,
        /// Up to four characters for the feed.
        #[arg(long)]
        #[serde(default)]
        reason: Option<String>,
    },
    /// End an auction now and resume trading.
    Release {
        #[command(flatten)]
        instruments: InstrumentSelector,
        /// End a closing auction, and close the instrument.
        #[arg(long)]
        #[serde(default)]
        close: bool,
    },
    /// Set a property of an instrument, such as a price band.
    Configure {
        /// The instrument.
        symbol: String,
        /// static_band_ppm, dynamic_band_ppm, reference_price, pause, price_collar_ppm, quantity_max,
        /// notional_max, pegs_max, session_pegs_max, price_increment or round_lot.
        property: String,
        /// The new value: prices in currency, the pause in seconds; 0 removes it.
        value: String,
    },
    /// Bust a trade.
    Bust {
        /// The number of the trade.
        trade: u64,
        /// erroneous, consent, supervisory or external.
        #[arg(long, default_value = "supervisory")]
        reason: String,
    },
    /// Bust a trade and replace it by a corrected one.
    Correct {
        /// The number of the trade.
        trade: u64,
        /// The right price, in currency.
        #[arg(long)]
        price: String,
        /// The right quantity, in lots.
        #[arg(long)]
        quantity: u64,
        /// erroneous, consent, supervisory or external.
        #[arg(long, default_value = "supervisory")]
        reason: String,
    },
    /// Cancel orders.
    Cancel {
        #[command(flatten)]
        orders: OrderSelector,
    },
    /// Kill switch: cancel matching orders and reject new ones.
    Kill {
        #[command(flatten)]
        orders: OrderSelector,
    },
    /// Reset the kill switch of exactly this scope.
    Revive {
        #[command(flatten)]
        orders: OrderSelector,
    },
    /// Set a limit of an account, or the live orders of a session.
    Limit {
        /// A limit of this account.
        #[arg(long, required_unless_present = "session", conflicts_with = "session")]
        #[serde(default)]
        account: Option<String>,
        /// The live orders of the session with this username.
        #[arg(long)]
        #[serde(default)]
        session: Option<String>,
        /// live_orders_max; of an account also fee_tier, order_quantity_max, orders_per_second_max,
        /// price_away_max_ppm, order_notional_max, position_max or short_max.
        setting: String,
        /// The asset, for order_notional_max, position_max and short_max.
        #[arg(long)]
        #[serde(default)]
        asset: Option<String>,
        /// The new value; 0 removes the limit.
        value: String,
    },
    /// Deposit into an account.
    Deposit {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// The amount, such as 1000.50.
        amount: String,
    },
    /// Withdraw from the available balance of an account.
    Withdraw {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// The amount, such as 1000.50.
        amount: String,
    },
    /// End the connection of a session; it may log in again.
    LogOut {
        /// Its username.
        session: String,
    },
}

/// The numbers of names: those of the state after the start, since a running venue adds none.
#[derive(Debug, Default)]
pub struct Directory {
    sessions: BTreeMap<String, SessionId>,
    accounts: BTreeMap<String, AccountId>,
    assets: BTreeMap<String, (AssetId, u8)>,
}

impl Directory {
    pub fn of(engine: &Engine) -> Self {
        let sessions = engine.sessions().map(|it| (it.username().to_string(), it.session_id()));
        let accounts = engine.accounts().map(|it| (it.name.to_string(), it.account_id));
        let accounts = accounts.filter(|(_, account_id)| *account_id != AccountId::VENUE);
        let assets = engine.assets().map(|it| (it.name.to_string(), (it.asset_id, it.decimals)));
        Self {
            // A session of OUCH logs in without regard to case.
            sessions: sessions.map(|(name, id)| (name.to_ascii_lowercase(), id)).collect(),
            accounts: accounts.collect(),
            assets: assets.collect(),
        }
    }

    pub(super) fn add_session(&mut self, name: &str, session_id: SessionId) {
        self.sessions.insert(name.to_ascii_lowercase(), session_id);
    }

    fn session(&self, name: &str) -> Result<SessionId, String> {
        find(&self.sessions, &name.to_ascii_lowercase(), "session")
    }

    fn account(&self, name: &str) -> Result<AccountId, String> {
        find(&self.accounts, name, "account")
    }

    fn asset(&self, name: &str) -> Result<(AssetId, u8), String> {
        find(&self.assets, name, "asset")
    }

    /// An account, an asset, and an amount of it in units.
    fn amount(
        &self,
        account: &str,
        asset: &str,
        amount: &str,
    ) -> Result<(AccountId, AssetId, Units), String> {
        let (account_id, (asset_id, decimals)) = (self.account(account)?, self.asset(asset)?);
        Ok((account_id, asset_id, Units::new(decimal(amount, decimals, "amount")?)))
    }
}

fn find<T: Copy>(names: &BTreeMap<String, T>, name: &str, what: &str) -> Result<T, String> {
    names.get(name).copied().ok_or_else(|| {
        let known: Vec<_> = names.keys().take(8).map(String::as_str).collect();
        match known.is_empty() {
            true => format!("there is no {what} {name:?}, nor any other"),
            false => format!("there is no {what} {name:?}; there are {}", known.join(", ")),
        }
    })
}

/// The meaning of a word; the error lists the words that `key` can have.
fn word<T: Copy>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last().expect("a key has words");
        format!("{key} is {text:?}: it must be {} or {last}", others.join(", "))
    })
}

const AUCTIONS: &[(&str, Phase)] = &[
    ("opening", Phase::OpeningAuction),
    ("closing", Phase::ClosingAuction),
    ("volatility", Phase::VolatilityAuction),
];

const BUST_REASONS: &[(&str, BustReason)] = &[
    ("erroneous", BustReason::Erroneous),
    ("consent", BustReason::Consent),
    ("supervisory", BustReason::Supervisory),
    ("external", BustReason::External),
];

const SIDES: &[(&str, Side)] = &[
    ("buy", Side::Buy),
    ("sell", Side::Sell),
    ("short", Side::SellShort),
    ("short-exempt", Side::SellShortExempt),
];

/// A property of an instrument, made from a number: of ticks for a price, else whole.
type Property = (u8, fn(u64) -> Option<InstrumentChange>);

const PROPERTIES: &[(&str, Property)] = {
    use InstrumentChange::*;
    &[
        ("reference_price", (PRICE_DECIMALS, |ticks| Some(ReferencePrice(Price(ticks))))),
        ("static_band_ppm", (0, |ppm| Some(StaticBand(ppm.try_into().ok()?)))),
        ("dynamic_band_ppm", (0, |ppm| Some(DynamicBand(ppm.try_into().ok()?)))),
        ("pause", (0, |seconds| Some(PauseSeconds(seconds.try_into().ok()?)))),
        ("price_collar_ppm", (0, |ppm| Some(PriceCollar(ppm.try_into().ok()?)))),
        ("quantity_max", (0, |lots| Some(QuantityMax(Quantity(lots))))),
        ("notional_max", (PRICE_DECIMALS, |amount| Some(NotionalMax(amount)))),
        ("pegs_max", (0, |count| Some(PegsMax(count.try_into().ok()?)))),
        ("session_pegs_max", (0, |count| Some(SessionPegsMax(count.try_into().ok()?)))),
        ("price_increment", (PRICE_DECIMALS, |ticks| Some(PriceIncrement(Price(ticks))))),
        ("round_lot", (0, |lots| u32::try_from(lots).ok().map(|_| RoundLot(Quantity(lots))))),
    ]
};

impl OperatorVerb {
    /// The command in the words of the core.
    ///
    /// # Errors
    /// A name is unknown or a value is invalid; the text names it.
    pub fn action(&self, directory: &Directory) -> Result<OperatorAction, String> {
        let set_phase = |instruments: &InstrumentSelector,
                         phase,
                         reason: &Option<String>,
                         release_s| {
            let symbol = instruments.symbol()?;
            let reason = text(reason.as_deref().unwrap_or(""), "reason")?;
            Ok::<_, String>(VenueCommand::SetPhase(SetPhase { symbol, phase, reason, release_s }))
        };
        let kill_switch = |orders: &OrderSelector, blocked| {
            let scope = orders.scope(directory)?;
            Ok::<_, String>(VenueCommand::KillSwitch(BlockEntry { scope, blocked }))
        };
        let venue = match self {
            Self::Halt { instruments, reason } => set_phase(instruments, Phase::Halted, reason, 0)?,
            Self::QuoteOnly { instruments, reason } => {
                set_phase(instruments, Phase::PreOpen, reason, 0)?
            }
            Self::Resume { instruments } => set_phase(instruments, Phase::Continuous, &None, 0)?,
            Self::Auction { instruments, kind, release_s, reason } => {
                set_phase(instruments, word("kind", kind, AUCTIONS)?, reason, *release_s)?
            }
            Self::Release { instruments, close } => {
                let phase = if *close { Phase::Closed } else { Phase::Continuous };
                set_phase(instruments, phase, &None, 0)?
            }
            Self::Configure { symbol, property, value } => {
                let symbol = named_symbol(symbol)?;
                let (decimals, change) = word("property", property, PROPERTIES)?;
                let change = change(decimal(value, decimals, property)?)
                    .ok_or_else(|| format!("{property}: {value:?} is too large"))?;
                VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
            }
            Self::Bust { trade, reason } => VenueCommand::BustTrade(BustTrade {
                trade_id: TradeId(*trade),
                reason: word("reason", reason, BUST_REASONS)?,
            }),
            Self::Correct { trade, price, quantity, reason } => {
                VenueCommand::CorrectTrade(CorrectTrade {
                    trade_id: TradeId(*trade),
                    price: Price(decimal(price, PRICE_DECIMALS, "price")?),
                    quantity: Quantity(*quantity),
                    reason: word("reason", reason, BUST_REASONS)?,
                })
            }
            Self::Cancel { orders } => VenueCommand::SupervisoryCancel(orders.scope(directory)?),
            Self::Kill { orders } => kill_switch(orders, true)?,
            Self::Revive { orders } => kill_switch(orders, false)?,
            Self::LogOut { session } => VenueCommand::LogOut(directory.session(session)?),
            Self::Limit { session: Some(session), account: None, setting, asset: None, value } => {
                if setting != "live_orders_max" {
                    return Err(format!(
                        "setting is {setting:?}: a session has only the limit live_orders_max; other limits \
                         are of an account"
                    ));
                }
                VenueCommand::SetLiveOrdersMax(LiveOrdersMax {
                    session_id: directory.session(session)?,
                    live_orders_max: decimal(value, 0, "value")?,
                })
            }
            Self::Limit { account: Some(account), session: None, setting, asset, value } => {
                let set = limit(directory, account, setting, asset.as_deref(), value)?;
                return Ok(OperatorAction::Money(MoneyCommand::SetAccount(set)));
            }
            Self::Limit { .. } => {
                return Err(
                    "name either an account or a session: a limit belongs to one of them".into()
                );
            }
            Self::Deposit { account, asset, amount } => {
                let (account_id, asset_id, amount) = directory.amount(account, asset, amount)?;
                let deposit = Deposit { account_id, asset_id, amount };
                return Ok(OperatorAction::Money(MoneyCommand::Deposit(deposit)));
            }
            Self::Withdraw { account, asset, amount } => {
                let (account_id, asset_id, amount) = directory.amount(account, asset, amount)?;
                let withdraw = Withdraw { account_id, asset_id, amount };
                return Ok(OperatorAction::Money(MoneyCommand::Withdraw(withdraw)));
            }
        };
        Ok(OperatorAction::Venue(venue))
    }
}

impl InstrumentSelector {
    /// Blank is all of them.
    fn symbol(&self) -> Result<Symbol, String> {
        match (&self.symbol, self.all) {
            (Some(symbol), false) => named_symbol(symbol),
            (None, true) => Ok(Symbol::BLANK),
            (None, false) => Err("name an instrument, or give all".into()),
            (Some(_), true) => Err("name an instrument or give all, not both".into()),
        }
    }
}

impl OrderSelector {
    fn scope(&self, directory: &Directory) -> Result<Scope, String> {
        let mut scope = Scope::ALL;
        if let Some(session) = &self.session {
            scope.session_id = directory.session(session)?;
        }
        if let Some(account) = &self.account {
            scope.account_id = directory.account(account)?;
        }
        if let Some(firm) = &self.firm {
            scope.firm = filled(firm, "firm")?;
        }
        if let Some(symbol) = &self.symbol {
            scope.symbol = named_symbol(symbol)?;
        }
        if let Some(side) = &self.side {
            scope.side = Some(word("side", side, SIDES)?);
        }
        match (scope == Scope::ALL, self.all) {
            (true, false) => {
                Err("name a session, an account, a firm, an instrument or a side, or give all"
                    .into())
            }
            (false, true) => Err("name orders or give all, not both".into()),
            _ => Ok(scope),
        }
    }
}

fn limit(
    directory: &Directory,
    account: &str,
    setting: &str,
    asset: Option<&str>,
    value: &str,
) -> Result<SetAccount, String> {
    let account_id = directory.account(account)?;
    let settings: Vec<(&str, AccountSetting)> =
        ACCOUNT_SETTINGS.iter().chain(ASSET_SETTINGS).copied().collect();
    let found = word("setting", setting, &settings)?;
    let is_of_asset = ASSET_SETTINGS.iter().any(|(_, it)| *it == found);
    let (asset_id, value) = match asset {
        None if is_of_asset => return Err(format!("setting {setting} needs an asset: add one")),
        Some(_) if !is_of_asset => {
            return Err(format!("setting {setting} takes no asset: leave it out"));
        }
        None => (AssetId(0), decimal::<u32>(value, 0, "value")?.into()),
        Some(asset) => {
            let (asset_id, decimals) = directory.asset(asset)?;
            (asset_id, decimal(value, decimals, "value")?)
        }
    };
    Ok(SetAccount { account_id, setting: found, asset_id, value: Units::new(value) })
}

fn named_symbol(symbol: &str) -> Result<Symbol, String> {
    filled(symbol, "symbol")
}

fn filled<const N: usize>(given: &str, what: &str) -> Result<Text<N>, String> {
    match text(given, what)? {
        blank if blank.is_blank() => Err(format!("{what} is blank")),
        text => Ok(text),
    }
}

fn text<const N: usize>(text: &str, what: &str) -> Result<Text<N>, String> {
    Text::new(text)
        .ok_or_else(|| format!("{what} is {text:?}: at most {N} printable ASCII characters"))
}
