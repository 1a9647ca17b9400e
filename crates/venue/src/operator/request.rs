//! Requests of operators as JSON, and the commands that they are: names become numbers here.

use std::collections::BTreeMap;

use engine::Engine;
use market::{
    AccountId, AccountSetting, AssetId, BlockEntry, BustReason, BustTrade, ConfigureInstrument,
    CorrectTrade, Deposit, Firm, InstrumentChange, LiveOrdersMax, MoneyCommand, OperatorAction,
    Phase, Price, Quantity, Scope, SessionId, SetAccount, SetPhase, Side, Symbol, Text, TradeId,
    Units, VenueCommand, Withdraw, parse_decimal,
};
use serde::{Deserialize, Serialize};

/// Decimals of a price.
const PRICE_DECIMALS: u8 = 4;

/// A request: the body of `POST /operator`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// The operator's number of the command; without one it is the next.
    #[serde(default)]
    pub number: Option<u64>,
    /// True: only show what it would do.
    #[serde(default)]
    pub dry_run: bool,
    /// The command.
    pub command: OperatorVerb,
}

/// Which instruments: one by its symbol, or all of them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Instruments {
    /// The symbol.
    pub symbol: Option<String>,
    /// Every instrument that may.
    pub all: bool,
}

/// Which orders: those for which everything holds that is named.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Orders {
    /// Of the session with this username.
    pub session: Option<String>,
    /// Of the sessions of this account.
    pub account: Option<String>,
    /// Of this firm.
    pub firm: Option<String>,
    /// In this instrument.
    pub symbol: Option<String>,
    /// Of this side: `buy`, `sell`, `short`, `short-exempt`.
    pub side: Option<String>,
    /// Every order, where nothing else is named.
    pub all: bool,
}

/// The commands, as a request names them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verb", deny_unknown_fields)]
pub enum OperatorVerb {
    /// Halts trading.
    Halt {
        /// What.
        instruments: Instruments,
        /// Up to four characters for the feed.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Collects orders without trading (pre-open).
    QuoteOnly {
        /// What.
        instruments: Instruments,
        /// Up to four characters for the feed.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Goes on to continuous trading, with an auction of the orders collected.
    Resume {
        /// What.
        instruments: Instruments,
    },
    /// Begins an auction.
    Auction {
        /// What.
        instruments: Instruments,
        /// `opening`, `closing` or `volatility`.
        kind: String,
        /// After so many seconds it ends by itself; 0 or none is not.
        #[serde(default)]
        release_s: u32,
        /// Up to four characters for the feed.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Ends an auction now: trading goes on, or, `close`, the instrument is closed.
    Release {
        /// What.
        instruments: Instruments,
        /// After a closing auction.
        #[serde(default)]
        close: bool,
    },
    /// Sets a property of an instrument, such as a price band.
    Configure {
        /// The instrument.
        symbol: String,
        /// As in `[instruments.trading]`: `static_band_ppm`, `reference_price` …
        property: String,
        /// Its value, as there; `pause` in seconds.
        value: String,
    },
    /// Undoes a trade.
    Bust {
        /// Its number.
        trade: u64,
        /// `erroneous`, `consent`, `supervisory` or `external`.
        reason: String,
    },
    /// Undoes a trade and puts another in its place.
    Correct {
        /// Its number.
        trade: u64,
        /// The right price.
        price: String,
        /// The right quantity, in lots.
        quantity: u64,
        /// As of a bust.
        reason: String,
    },
    /// Cancels orders.
    Cancel {
        /// Which.
        orders: Orders,
    },
    /// The kill switch: cancels orders and takes no new ones of the kind.
    Kill {
        /// Which.
        orders: Orders,
    },
    /// Resets the kill switch for exactly that scope.
    Revive {
        /// Which.
        orders: Orders,
    },
    /// Sets a limit of an account, or the live orders of a session.
    Limit {
        /// The account.
        #[serde(default)]
        account: Option<String>,
        /// The session; then the setting is `live_orders_max`.
        #[serde(default)]
        session: Option<String>,
        /// As in `[[accounts]]`.
        setting: String,
        /// The asset, where the setting is of one.
        #[serde(default)]
        asset: Option<String>,
        /// The new value; 0 is none.
        value: String,
    },
    /// Adds to what an account has.
    Deposit {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// How much, as a decimal number.
        amount: String,
    },
    /// Takes from what an account has available.
    Withdraw {
        /// The account.
        account: String,
        /// The asset.
        asset: String,
        /// How much, as a decimal number.
        amount: String,
    },
    /// Ends the connection of a session.
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
    /// Of a state.
    #[must_use]
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

    fn session(&self, name: &str) -> Result<SessionId, String> {
        find(&self.sessions, &name.to_ascii_lowercase(), "session")
    }

    fn account(&self, name: &str) -> Result<AccountId, String> {
        find(&self.accounts, name, "account")
    }

    fn asset(&self, name: &str) -> Result<(AssetId, u8), String> {
        find(&self.assets, name, "asset")
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

impl OperatorVerb {
    /// The command in the words of the core.
    ///
    /// # Errors
    /// A name is unknown, or a value is none; the words say which.
    pub fn action(&self, directory: &Directory) -> Result<OperatorAction, String> {
        let set_phase = |instruments: &Instruments, phase, reason: &Option<String>, release_s| {
            let symbol = instruments.symbol()?;
            let reason = text(reason.as_deref().unwrap_or(""), "reason")?;
            Ok::<_, String>(VenueCommand::SetPhase(SetPhase { symbol, phase, reason, release_s }))
        };
        let venue = match self {
            Self::Halt { instruments, reason } => set_phase(instruments, Phase::Halted, reason, 0)?,
            Self::QuoteOnly { instruments, reason } => {
                set_phase(instruments, Phase::PreOpen, reason, 0)?
            }
            Self::Resume { instruments } => set_phase(instruments, Phase::Continuous, &None, 0)?,
            Self::Auction { instruments, kind, release_s, reason } => {
                let phase = match kind.as_str() {
                    "opening" => Phase::OpeningAuction,
                    "closing" => Phase::ClosingAuction,
                    "volatility" => Phase::VolatilityAuction,
                    other => {
                        return Err(format!(
                            "kind is {other:?}: it must be opening, closing or volatility"
                        ));
                    }
                };
                set_phase(instruments, phase, reason, *release_s)?
            }
            Self::Release { instruments, close } => {
                let phase = if *close { Phase::Closed } else { Phase::Continuous };
                set_phase(instruments, phase, &None, 0)?
            }
            Self::Configure { symbol, property, value } => {
                let symbol = named_symbol(symbol)?;
                let change = instrument_change(property, value)?;
                VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
            }
            Self::Bust { trade, reason } => VenueCommand::BustTrade(BustTrade {
                trade_id: TradeId(*trade),
                reason: break_reason(reason)?,
            }),
            Self::Correct { trade, price, quantity, reason } => {
                VenueCommand::CorrectTrade(CorrectTrade {
                    trade_id: TradeId(*trade),
                    price: Price(decimal(price, PRICE_DECIMALS, "price")?),
                    quantity: Quantity(*quantity),
                    reason: break_reason(reason)?,
                })
            }
            Self::Cancel { orders } => VenueCommand::SupervisoryCancel(orders.scope(directory)?),
            Self::Kill { orders } => VenueCommand::KillSwitch(BlockEntry {
                scope: orders.scope(directory)?,
                blocked: true,
            }),
            Self::Revive { orders } => VenueCommand::KillSwitch(BlockEntry {
                scope: orders.scope(directory)?,
                blocked: false,
            }),
            Self::LogOut { session } => VenueCommand::LogOut(directory.session(session)?),
            Self::Limit { session: Some(session), account: None, setting, asset: None, value } => {
                if setting != "live_orders_max" {
                    return Err(format!(
                        "setting is {setting:?}: a session has live_orders_max alone; other limits \
                         are of an account"
                    ));
                }
                VenueCommand::SetLiveOrdersMax(LiveOrdersMax {
                    session_id: directory.session(session)?,
                    live_orders_max: decimal(value, 0, "value")?,
                })
            }
            Self::Limit { account: Some(account), session: None, setting, asset, value } => {
                let account_id = directory.account(account)?;
                return Ok(OperatorAction::Money(limit(
                    directory, account_id, setting, asset, value,
                )?));
            }
            Self::Limit { .. } => {
                return Err("a limit is of either an account or a session".into());
            }
            Self::Deposit { account, asset, amount } => {
                let (account_id, (asset_id, decimals)) =
                    (directory.account(account)?, directory.asset(asset)?);
                let amount = Units::new(decimal(amount, decimals, "amount")?);
                let deposit = Deposit { account_id, asset_id, amount };
                return Ok(OperatorAction::Money(MoneyCommand::Deposit(deposit)));
            }
            Self::Withdraw { account, asset, amount } => {
                let (account_id, (asset_id, decimals)) =
                    (directory.account(account)?, directory.asset(asset)?);
                let amount = Units::new(decimal(amount, decimals, "amount")?);
                let withdraw = Withdraw { account_id, asset_id, amount };
                return Ok(OperatorAction::Money(MoneyCommand::Withdraw(withdraw)));
            }
        };
        Ok(OperatorAction::Venue(venue))
    }
}

impl Instruments {
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

impl Orders {
    fn scope(&self, directory: &Directory) -> Result<Scope, String> {
        let mut scope = Scope::ALL;
        if let Some(session) = &self.session {
            scope.session_id = directory.session(session)?;
        }
        if let Some(account) = &self.account {
            scope.account_id = directory.account(account)?;
        }
        if let Some(firm) = &self.firm {
            scope.firm = text(firm, "firm").and_then(|firm: Firm| match firm.is_blank() {
                true => Err("firm is blank".to_owned()),
                false => Ok(firm),
            })?;
        }
        if let Some(symbol) = &self.symbol {
            scope.symbol = named_symbol(symbol)?;
        }
        if let Some(side) = &self.side {
            scope.side = Some(match side.as_str() {
                "buy" => Side::Buy,
                "sell" => Side::Sell,
                "short" => Side::SellShort,
                "short-exempt" => Side::SellShortExempt,
                other => {
                    return Err(format!(
                        "side is {other:?}: it must be buy, sell, short or short-exempt"
                    ));
                }
            });
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
    account_id: AccountId,
    setting: &str,
    asset: &Option<String>,
    value: &str,
) -> Result<MoneyCommand, String> {
    let of_account = |setting| match asset {
        None => Ok(SetAccount {
            account_id,
            setting,
            asset_id: AssetId(0),
            value: Units::new(u128::from(decimal::<u32>(value, 0, "value")?)),
        }),
        Some(_) => Err("that setting takes no asset".to_owned()),
    };
    let of_asset = |setting| match asset {
        Some(asset) => {
            let (asset_id, decimals) = directory.asset(asset)?;
            let value = Units::new(decimal(value, decimals, "value")?);
            Ok(SetAccount { account_id, setting, asset_id, value })
        }
        None => Err("that setting needs an asset".to_owned()),
    };
    let set = match setting {
        "fee_tier" => of_account(AccountSetting::FeeTier),
        "order_quantity_max" => of_account(AccountSetting::OrderQuantityMax),
        "live_orders_max" => of_account(AccountSetting::LiveOrdersMax),
        "orders_per_second_max" => of_account(AccountSetting::OrdersPerSecondMax),
        "price_away_max_ppm" => of_account(AccountSetting::PriceAwayMax),
        "order_notional_max" => of_asset(AccountSetting::OrderNotionalMax),
        "position_max" => of_asset(AccountSetting::PositionMax),
        "short_max" => of_asset(AccountSetting::ShortMax),
        other => Err(format!(
            "setting is {other:?}: it must be fee_tier, order_quantity_max, live_orders_max, \
             orders_per_second_max, price_away_max_ppm, order_notional_max, position_max or \
             short_max"
        )),
    };
    Ok(MoneyCommand::SetAccount(set?))
}

fn instrument_change(property: &str, value: &str) -> Result<InstrumentChange, String> {
    use InstrumentChange::{
        DynamicBand, NotionalMax, PauseSeconds, PegsMax, PriceCollar, PriceIncrement, QuantityMax,
        ReferencePrice, RoundLot, SessionPegsMax, StaticBand,
    };
    let number = || decimal::<u32>(value, 0, property);
    let price = || decimal::<u64>(value, PRICE_DECIMALS, property);
    Ok(match property {
        "reference_price" => ReferencePrice(Price(price()?)),
        "static_band_ppm" => StaticBand(number()?),
        "dynamic_band_ppm" => DynamicBand(number()?),
        "pause" => PauseSeconds(number()?),
        "price_collar_ppm" => PriceCollar(number()?),
        "quantity_max" => QuantityMax(Quantity(number()?.into())),
        "notional_max" => NotionalMax(price()?),
        "pegs_max" => PegsMax(number()?),
        "session_pegs_max" => SessionPegsMax(number()?),
        "price_increment" => PriceIncrement(Price(price()?)),
        "round_lot" => RoundLot(Quantity(number()?.into())),
        other => {
            return Err(format!(
                "property is {other:?}: it must be reference_price, static_band_ppm, \
                 dynamic_band_ppm, pause, price_collar_ppm, quantity_max, notional_max, pegs_max, \
                 session_pegs_max, price_increment or round_lot"
            ));
        }
    })
}

fn break_reason(reason: &str) -> Result<BustReason, String> {
    match reason {
        "erroneous" => Ok(BustReason::Erroneous),
        "consent" => Ok(BustReason::Consent),
        "supervisory" => Ok(BustReason::Supervisory),
        "external" => Ok(BustReason::External),
        other => Err(format!(
            "reason is {other:?}: it must be erroneous, consent, supervisory or external"
        )),
    }
}

fn named_symbol(symbol: &str) -> Result<Symbol, String> {
    text(symbol, "symbol").and_then(|symbol: Symbol| match symbol.is_blank() {
        true => Err("symbol is blank".to_owned()),
        false => Ok(symbol),
    })
}

fn text<const N: usize>(text: &str, what: &str) -> Result<Text<N>, String> {
    Text::new(text)
        .ok_or_else(|| format!("{what} is {text:?}: at most {N} printable ASCII characters"))
}

fn decimal<T: TryFrom<u128>>(text: &str, decimals: u8, what: &str) -> Result<T, String> {
    parse_decimal(text, decimals).map_err(|error| format!("{what}: {error}"))
}
