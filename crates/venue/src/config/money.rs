//! Settings of assets, accounts, fees and terms, and the commands that bring a journal to them.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Engine, HeldSetting, QUANTITY_LIMIT, QUANTITY_MAX};
use market::{
    AccountId, AccountSetting, AddAccount, AddAsset, AssetId, Deposit, MoneyClass, MoneyCommand,
    MoneyTerms, Quantity, SetAccount, SetFees, SetTerms, Symbol, Text, Units, parse_decimal,
};
use serde::Deserialize;

use super::{Config, InstrumentConfig, PRICE_DECIMALS};

/// The most that an amount may be, in units.
const UNITS_MAX: u128 = 1 << 96;

/// The settings of an account that are whole numbers: their keys, here and in commands of operators.
pub(crate) const ACCOUNT_SETTINGS: &[(&str, AccountSetting)] = &[
    ("fee_tier", AccountSetting::FeeTier),
    ("order_quantity_max", AccountSetting::OrderQuantityMax),
    ("live_orders_max", AccountSetting::LiveOrdersMax),
    ("orders_per_second_max", AccountSetting::OrdersPerSecondMax),
    ("price_away_max_ppm", AccountSetting::PriceAwayMax),
];

/// The settings of an account and an asset: amounts.
pub(crate) const ASSET_SETTINGS: &[(&str, AccountSetting)] = &[
    ("order_notional_max", AccountSetting::OrderNotionalMax),
    ("position_max", AccountSetting::PositionMax),
    ("short_max", AccountSetting::ShortMax),
];

/// `[[assets]]`: the assets that accounts own. An asset that was ever in the journal stays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetConfig {
    /// Printed name, up to 8 characters.
    pub name: String,
    /// Number of decimals of amounts, at most 18. Default 0.
    #[serde(default)]
    pub decimals: u8,
}

/// `[[fees]]`: the fees of trades in instruments of the class `cash`, by tier. A tier without a row has
/// the fees of tier 0; without any row the fees stay as they are in the journal.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeesConfig {
    /// The tier of the accounts, 0 to 15.
    pub tier: u8,
    /// Fee of resting orders, in millionths of the amount that they receive; below 0 it is a rebate. Default 0.
    #[serde(default)]
    pub maker_ppm: i32,
    /// Fee of incoming orders, likewise. Default 0.
    #[serde(default)]
    pub taker_ppm: u32,
}

/// `[[accounts]]`: the owners of money, and their limits. An account with a row has exactly these
/// limits, whatever it had before; an account without a row stays as it is in the journal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountConfig {
    /// Printed name, up to 8 characters.
    pub name: String,
    /// The fee tier, 0 to 15. Default 0.
    pub fee_tier: u8,
    /// The most lots of an order. Default 0, any.
    pub order_quantity_max: u64,
    /// Live orders at a time, on all its sessions. Default 0, any.
    pub live_orders_max: u32,
    /// New orders and replaces in a second. Default 0, any.
    pub orders_per_second_max: u32,
    /// The largest distance of a limit through the best opposite price, in millionths. Default 0, any.
    pub price_away_max_ppm: u32,
    /// True: the kill switch rejects its orders; false: they are accepted. Default: as in the journal.
    pub stopped: Option<bool>,
    /// Opening balances by asset: deposited where no movement has touched the balance yet.
    pub opening: BTreeMap<String, String>,
    /// The most that an order may cost, by the asset that it is paid with. Default any.
    pub order_notional_max: BTreeMap<String, String>,
    /// The largest position, including the amount that live orders may still buy, by asset. Default any.
    pub position_max: BTreeMap<String, String>,
    /// The largest short position, by asset. Default none.
    pub short_max: BTreeMap<String, String>,
}

/// `[instruments.money]`: the payment terms of orders in the instrument. Without it the terms in the
/// journal hold, and in a new journal orders are not paid for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentMoneyConfig {
    /// `cash`: all is reserved in full. `position`: with limits and short sales. `none`: not paid for.
    pub class: MoneyClassName,
    /// The asset that is traded, by its name.
    #[serde(default)]
    pub base: String,
    /// The asset that pays, which prices are in: the name of another asset.
    #[serde(default)]
    pub quote: String,
    /// The amount of the base asset in one lot. Default `1`.
    #[serde(default = "InstrumentMoneyConfig::default_lot")]
    pub lot: String,
    /// The most lots of an order, at most 281474976710655. Default 999999.
    #[serde(default = "InstrumentMoneyConfig::default_quantity")]
    pub quantity_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoneyClassName {
    None,
    Cash,
    Position,
}

impl InstrumentMoneyConfig {
    fn default_lot() -> String {
        "1".into()
    }

    const fn default_quantity() -> u64 {
        QUANTITY_MAX.0
    }
}

fn units(text: &str, decimals: u8) -> Result<u128, String> {
    match parse_decimal(text, decimals) {
        Ok(units) if units <= UNITS_MAX => Ok(units),
        Ok(_) => Err(format!("{text:?} is too much: at most 2^96 units")),
        Err(error) => Err(error.to_string()),
    }
}

fn name_of(key: &str, name: &str) -> Result<Text<8>, String> {
    Text::new(name)
        .filter(|name| !name.is_blank())
        .ok_or_else(|| format!("{key}: name {name:?} is not 1 to 8 printable ASCII characters"))
}

/// Assets by their names, with their decimals.
type Decimals<'a> = BTreeMap<&'a str, u8>;

impl AccountConfig {
    /// The limits by asset, in the order of [`ASSET_SETTINGS`].
    fn by_asset(&self) -> [&BTreeMap<String, String>; 3] {
        [&self.order_notional_max, &self.position_max, &self.short_max]
    }

    fn check(&self, decimals: &Decimals<'_>) -> Result<(), String> {
        let place = format!("accounts: {}", self.name);
        if self.fee_tier > 15 {
            return Err(format!("{place}: fee_tier is {}: it must be 0 to 15", self.fee_tier));
        }
        let keys = ASSET_SETTINGS.iter().map(|(key, _)| *key);
        for (key, map) in keys.zip(self.by_asset()).chain([("opening", &self.opening)]) {
            for (asset, amount) in map {
                let decimals = decimals.get(asset.as_str()).ok_or_else(|| {
                    format!("{place}: {key}.{asset}: there is no such row in [[assets]]")
                })?;
                units(amount, *decimals)
                    .map_err(|what| format!("{place}: {key}.{asset}: {what}"))?;
            }
        }
        Ok(())
    }
}

impl InstrumentMoneyConfig {
    /// The terms in the engine's form, for assets with these numbers and decimals.
    fn terms(
        &self,
        symbol: &str,
        asset: impl Fn(&str) -> Option<(AssetId, u8)>,
    ) -> Result<MoneyTerms, String> {
        let place = format!("instrument {symbol}: money");
        let quantity_max = Quantity(self.quantity_max);
        if quantity_max == Quantity::ZERO || QUANTITY_LIMIT < quantity_max {
            let quantity = self.quantity_max;
            return Err(format!(
                "{place}.quantity_max is {quantity}: it must be 1 to {QUANTITY_LIMIT}"
            ));
        }
        let class = match self.class {
            MoneyClassName::Cash => MoneyClass::Cash,
            MoneyClassName::Position => MoneyClass::Position,
            MoneyClassName::None if !self.base.is_empty() || !self.quote.is_empty() => {
                return Err(format!("{place}: class none has neither base nor quote"));
            }
            MoneyClassName::None => {
                return Ok(MoneyTerms::unpaid(quantity_max));
            }
        };
        let find = |key: &str, name: &str| {
            asset(name).ok_or_else(|| {
                format!("{place}.{key} is {name:?}: there is no such row in [[assets]]")
            })
        };
        let (base, base_decimals) = find("base", &self.base)?;
        let (quote, quote_decimals) = find("quote", &self.quote)?;
        if base == quote {
            return Err(format!("{place}: base and quote are both {}", self.base));
        }
        let base_units =
            units(&self.lot, base_decimals).map_err(|what| format!("{place}.lot: {what}"))?;
        // A price is of one of the base asset, in one of the quote asset, with four decimals.
        let numerator = base_units.checked_mul(10_u128.pow(quote_decimals.into()));
        let denominator = 10_u128.pow(u32::from(PRICE_DECIMALS + base_decimals));
        let fraction = numerator.map(|numerator| {
            let divisor = greatest_common_divisor(numerator, denominator);
            (numerator / divisor, denominator / divisor)
        });
        let whole = |number: u128| u64::try_from(number).ok().filter(|number| *number > 0);
        let numbers = fraction.and_then(|(numerator, denominator)| {
            Some((whole(base_units)?, whole(numerator)?, whole(denominator)?))
        });
        let (base_units, quote_numerator, quote_denominator) = numbers.ok_or_else(|| {
            format!("{place}.lot is {:?}: it must be above 0, and fit in 64 bits", self.lot)
        })?;
        let terms = MoneyTerms {
            class,
            base,
            quote,
            base_units,
            quote_numerator,
            quote_denominator,
            quantity_max,
        };
        if !terms.are_bounded() {
            let units = base_units.max(quote_numerator);
            return Err(format!(
                "{place}.quantity_max is {quantity_max}: with a lot of {:?} it must be at most {}",
                self.lot,
                MoneyTerms::BOUND / u128::from(units),
            ));
        }
        Ok(terms)
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Checks the money settings against each other.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let mut decimals = Decimals::new();
    for asset in &config.assets {
        name_of("assets", &asset.name)?;
        if asset.decimals > 18 {
            let (name, decimals) = (&asset.name, asset.decimals);
            return Err(format!("assets: {name}: decimals is {decimals}: it must be 0 to 18"));
        }
        if decimals.insert(&asset.name, asset.decimals).is_some() {
            return Err(format!("assets: {} is given twice", asset.name));
        }
    }
    check_fees(&config.fees)?;
    let mut accounts = BTreeSet::new();
    for account in &config.accounts {
        name_of("accounts", &account.name)?;
        if !accounts.insert(account.name.as_str()) {
            return Err(format!("accounts: {} is given twice", account.name));
        }
        account.check(&decimals)?;
    }
    let known = |name: &str| {
        let number = config.assets.iter().position(|asset| asset.name == name)?;
        Some((AssetId(u16::try_from(number + 1).ok()?), decimals[name]))
    };
    for (instrument, money) in priced(config) {
        money.terms(&instrument.symbol, known)?;
    }
    for participant in &config.participants {
        if let Some(account) = &participant.account
            && !accounts.contains(account.as_str())
        {
            return Err(format!(
                "participant {}: account is {account:?}: there is no such row in [[accounts]]",
                participant.username
            ));
        }
    }
    Ok(())
}

fn priced(config: &Config) -> impl Iterator<Item = (&InstrumentConfig, &InstrumentMoneyConfig)> {
    config.instruments.iter().filter_map(|it| Some((it, it.money.as_ref()?)))
}

fn check_fees(rows: &[FeesConfig]) -> Result<(), String> {
    let mut tiers = BTreeSet::new();
    for row in rows {
        if row.tier > 15 || !tiers.insert(row.tier) {
            return Err(format!("fees: tier {} is not 0 to 15, or is given twice", row.tier));
        }
        if row.maker_ppm.unsigned_abs().max(row.taker_ppm) > 1_000_000 {
            return Err(format!("fees: tier {}: at most 1000000 millionths", row.tier));
        }
    }
    if !rows.is_empty() {
        let tiers = tiers_of(rows);
        let rebate_max = tiers.iter().map(|(maker, _)| -maker).max().unwrap_or(0);
        let taker_min = tiers.iter().map(|(_, taker)| *taker).min().unwrap_or(0);
        if i64::from(taker_min) < i64::from(rebate_max) {
            return Err(format!(
                "fees: a rebate of {rebate_max} millionths is more than the taker_ppm of some tier, \
                 {taker_min}: a tier without a row has the fees of tier 0"
            ));
        }
    }
    Ok(())
}

/// Maker and taker of each tier.
fn tiers_of(rows: &[FeesConfig]) -> [(i32, u32); 16] {
    let row = |tier: u8| rows.iter().find(|row| row.tier == tier);
    std::array::from_fn(|tier| {
        let row = row(tier as u8).or_else(|| row(0));
        row.map_or((0, 0), |row| (row.maker_ppm, row.taker_ppm))
    })
}

/// The commands that bring the money in the state to the configuration.
#[derive(Debug, Default)]
pub struct MoneyPlan {
    pub commands: Vec<MoneyCommand>,
    pub changes: Vec<String>,
}

/// The numbers of things by their names, including those about to be added.
#[derive(Default)]
struct Numbers {
    assets: BTreeMap<String, (AssetId, u8)>,
    accounts: BTreeMap<String, AccountId>,
}

/// The assets, accounts, fees, terms and opening balances that the journal lacks.
///
/// # Errors
/// The journal contradicts the configuration in a setting that cannot change.
pub fn money_plan(
    config: &Config,
    engine: &Engine,
) -> Result<(MoneyPlan, BTreeMap<String, AccountId>), String> {
    let mut plan = MoneyPlan::default();
    let mut numbers = Numbers::default();
    plan.add(config, engine, &mut numbers)?;
    plan.set_fees(config, engine);
    plan.set_terms(config, engine, &numbers)?;
    for account in &config.accounts {
        plan.set_account(account, engine, &numbers)?;
    }
    Ok((plan, numbers.accounts))
}

impl MoneyPlan {
    fn add(
        &mut self,
        config: &Config,
        engine: &Engine,
        numbers: &mut Numbers,
    ) -> Result<(), String> {
        let mut asset_count = engine.assets().len();
        for asset in &config.assets {
            let name = name_of("assets", &asset.name)?;
            let number = match engine.asset(&name) {
                Some(known) if known.decimals != asset.decimals => {
                    let decimals = known.decimals;
                    return Err(format!("asset {name} has {decimals} decimals in the journal"));
                }
                Some(known) => known.asset_id,
                None => {
                    asset_count += 1;
                    let decimals = asset.decimals;
                    self.commands.push(MoneyCommand::AddAsset(AddAsset { name, decimals }));
                    AssetId(u16::try_from(asset_count).map_err(|_| "too many assets")?)
                }
            };
            numbers.assets.insert(asset.name.clone(), (number, asset.decimals));
        }
        // The first account is the venue's own.
        let mut account_count = engine.accounts().len() as u32;
        for account in &config.accounts {
            let name = name_of("accounts", &account.name)?;
            let number = engine.account_named(&name).map_or_else(
                || {
                    self.commands.push(MoneyCommand::AddAccount(AddAccount { name }));
                    account_count += 1;
                    AccountId(account_count - 1)
                },
                |known| known.account_id,
            );
            numbers.accounts.insert(account.name.clone(), number);
        }
        Ok(())
    }

    fn set_fees(&mut self, config: &Config, engine: &Engine) {
        if config.fees.is_empty() {
            return;
        }
        let wanted = tiers_of(&config.fees);
        let mut now = engine.fees();
        let mut set = |tier: usize, to: (i32, u32)| {
            if now[tier] != to {
                now[tier] = to;
                let (tier, (maker_ppm, taker_ppm)) = (tier as u8, to);
                self.commands.push(MoneyCommand::SetFees(SetFees { tier, maker_ppm, taker_ppm }));
            }
        };
        // No rebate may exceed any taker's fee in between: first the fees charged rise, then they fall to their final
        // values.
        let before = engine.fees();
        for (tier, ((maker, taker), (maker_before, taker_before))) in
            wanted.into_iter().zip(before).enumerate()
        {
            set(tier, (maker.max(maker_before), taker.max(taker_before)));
        }
        for (tier, to) in wanted.into_iter().enumerate() {
            set(tier, to);
            let (from, is_first) = (before[tier], before == [(0, 0); 16]);
            if from != to && !is_first {
                self.changes.push(format!(
                    "fees of tier {tier}: maker {} and taker {} millionths, they were {} and {}",
                    to.0, to.1, from.0, from.1
                ));
            }
        }
    }

    fn set_terms(
        &mut self,
        config: &Config,
        engine: &Engine,
        numbers: &Numbers,
    ) -> Result<(), String> {
        for (instrument, money) in priced(config) {
            let symbol: Symbol = instrument.symbol()?;
            let terms =
                money.terms(&instrument.symbol, |name| numbers.assets.get(name).copied())?;
            let known = engine.instrument(&symbol);
            let before = known.and_then(|known| engine.money_terms(known.instrument_id));
            // An instrument without terms has a largest quantity of an order too.
            let unpaid = known.and_then(|known| engine.order_quantity_max(known.instrument_id));
            let unpaid = MoneyTerms::unpaid(unpaid.unwrap_or(QUANTITY_MAX));
            if before.unwrap_or(unpaid) == terms {
                continue;
            }
            if let Some(known) = known {
                let has_orders = engine.book(known.instrument_id).is_some_and(|book| {
                    book.bids().next().is_some()
                        || book.asks().next().is_some()
                        || book.auction_orders().next().is_some()
                        || book.waiting().next().is_some()
                });
                if has_orders {
                    return Err(format!(
                        "instrument {symbol} has other payment terms in the journal, and has live \
                         orders"
                    ));
                }
                let was = if before.is_some() { "different" } else { "none" };
                self.changes
                    .push(format!("instrument {symbol}: payment terms set, they were {was}"));
            }
            self.commands.push(MoneyCommand::SetTerms(SetTerms { symbol, terms }));
        }
        Ok(())
    }

    fn set_account(
        &mut self,
        wanted: &AccountConfig,
        engine: &Engine,
        numbers: &Numbers,
    ) -> Result<(), String> {
        let account_id = numbers.accounts[&wanted.name];
        let before = engine.account(account_id);
        // In the order of ACCOUNT_SETTINGS.
        let wanted_values = [
            u64::from(wanted.fee_tier),
            wanted.order_quantity_max,
            wanted.live_orders_max.into(),
            wanted.orders_per_second_max.into(),
            wanted.price_away_max_ppm.into(),
        ];
        let values_before = before.as_ref().map_or([0; 5], |it| {
            [
                u64::from(it.fee_tier),
                it.order_quantity_max,
                it.live_orders_max.into(),
                it.orders_per_second_max.into(),
                it.price_away_max.into(),
            ]
        });
        let mut set = |key: &str, setting, asset_id, to: u128, from: u128| {
            if to == from {
                return;
            }
            if engine.is_held(HeldSetting::Account(account_id, setting, asset_id)) {
                let name = &wanted.name;
                return self.changes.push(format!(
                    "account {name}: {key} stays {from}, as an operator has set it; the file has \
                     {to}"
                ));
            }
            let value = Units::new(to);
            let set = SetAccount { account_id, setting, asset_id, value };
            self.commands.push(MoneyCommand::SetAccount(set));
            if before.is_some() {
                self.changes.push(format!("account {}: {key} is {to}, it was {from}", wanted.name));
            }
        };
        let values = wanted_values.into_iter().zip(values_before);
        for ((key, setting), (to, from)) in ACCOUNT_SETTINGS.iter().zip(values) {
            set(key, *setting, AssetId(0), to.into(), from.into());
        }
        for (name, (asset_id, decimals)) in &numbers.assets {
            let before = engine.balance(account_id, *asset_id);
            let limits = before.map(|it| [it.order_notional_max, it.position_max, it.short_max]);
            let limits = limits.unwrap_or_default();
            let amounts = wanted.by_asset().into_iter().zip(limits);
            for ((key, setting), (map, from)) in ASSET_SETTINGS.iter().zip(amounts) {
                let to = map.get(name).map_or(Ok(0), |amount| units(amount, *decimals))?;
                set(&format!("{key}.{name} (in units)"), *setting, *asset_id, to, from);
            }
        }
        for (name, amount) in &wanted.opening {
            let (asset_id, decimals) = numbers.assets[name];
            let amount = Units::new(units(amount, decimals)?);
            let untouched = engine.balance(account_id, asset_id).is_none_or(|it| it.version == 0);
            if untouched && amount > Units::ZERO {
                let deposit = Deposit { account_id, asset_id, amount };
                self.commands.push(MoneyCommand::Deposit(deposit));
            }
        }
        let is_stopped = before.is_some_and(|it| it.stopped);
        if let Some(stopped) = wanted.stopped.filter(|stopped| *stopped != is_stopped) {
            let stop = market::StopAccount { account_id, stopped };
            self.commands.push(MoneyCommand::StopAccount(stop));
            if before.is_some() {
                self.changes.push(format!("account {}: stopped is {stopped}", wanted.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use market::{AddInstrument, Command, Input, Price, Timestamp};

    use super::*;

    #[test]
    fn amounts_have_a_limit() {
        assert_eq!(units("79228162514264337593543950336", 0), Ok(UNITS_MAX));
        assert!(units("79228162514264337593543950337", 0).is_err());
    }

    /// Prices are for one unit of the base asset: the cost of lots follows from the decimals of both assets and the
    /// size of a lot.
    #[test]
    fn terms_follow_from_decimals_and_lot() {
        let terms = |lot: &str, base_decimals, quote_decimals| {
            let money = InstrumentMoneyConfig {
                class: MoneyClassName::Cash,
                base: "B".into(),
                quote: "Q".into(),
                lot: lot.into(),
                quantity_max: 7,
            };
            let asset = |name: &str| match name {
                "B" => Some((AssetId(1), base_decimals)),
                _ => Some((AssetId(2), quote_decimals)),
            };
            let it = money.terms("X", asset)?;
            Ok::<_, String>((it.base_units, it.quote_numerator, it.quote_denominator))
        };
        // A share, in cents: 150.0000 is 1,500,000 ticks and 15,000 cents.
        assert_eq!(terms("1", 0, 2), Ok((1, 1, 100)));
        // A thousandth of a coin of 10⁸ units, in 10⁻⁶.
        assert_eq!(terms("0.001", 8, 6), Ok((100_000, 1, 10)));
        assert_eq!(terms("1", 0, 8), Ok((1, 10_000, 1)));
        assert!(terms("0", 0, 2).unwrap_err().contains("money.lot"));
        assert!(terms("0.5", 0, 2).unwrap_err().contains("money.lot"));
    }

    const SOUND: &str = "
        assets = [{ name = \"EUR\", decimals = 2 }, { name = \"XYZ\" }]
        fees = [{ tier = 0, maker_ppm = -100, taker_ppm = 500 }]
        accounts = [{ name = \"ALICE\", opening = { EUR = \"1000.50\" } }]
        participants = [{ username = \"a\", password = \"a\", firm = \"F\", account = \"ALICE\" }]
        [[instruments]]
        symbol = \"XYZ\"
        money = { class = \"cash\", base = \"XYZ\", quote = \"EUR\" }
    ";

    /// An invalid value is reported with its key.
    #[test]
    fn wrong_values_are_named_with_their_key() {
        Config::parse(SOUND, "it").expect("it is sound");
        for (old, new, expected) in [
            ("name = \"EUR\"", "name = \"\"", "assets: name \"\" is not 1 to 8"),
            ("decimals = 2", "decimals = 19", "assets: EUR: decimals is 19"),
            ("name = \"XYZ\" }", "name = \"EUR\" }", "assets: EUR is given twice"),
            ("tier = 0", "tier = 16", "fees: tier 16 is not 0 to 15"),
            ("taker_ppm = 500", "taker_ppm = 99", "fees: a rebate of 100 millionths is more"),
            ("taker_ppm = 500", "taker_ppm = 1000001", "fees: tier 0: at most 1000000"),
            ("1000.50", "1000.505", "accounts: ALICE: opening.EUR: \"1000.505\" has more than 2"),
            (
                "opening = { EUR",
                "opening = { USD",
                "accounts: ALICE: opening.USD: there is no such",
            ),
            ("opening = { EUR", "short_max = { EUR", ""),
            ("\"ALICE\", opening", "\"ALICE\", fee_tier = 16, opening", "ALICE: fee_tier is 16"),
            (
                "account = \"ALICE\"",
                "account = \"BOB\"",
                "participant a: account is \"BOB\": there",
            ),
            ("base = \"XYZ\"", "base = \"ABC\"", "instrument XYZ: money.base is \"ABC\": there is"),
            (
                "quote = \"EUR\"",
                "quote = \"XYZ\"",
                "instrument XYZ: money: base and quote are both",
            ),
            (
                "quote = \"EUR\"",
                "quote = \"EUR\", lot = \"0\"",
                "instrument XYZ: money.lot is \"0\"",
            ),
            ("class = \"cash\"", "class = \"none\"", "class none has neither base nor quote"),
            ("class = \"cash\"", "class = \"card\"", "unknown variant `card`"),
        ] {
            let text = SOUND.replace(old, new);
            assert_ne!(text, SOUND, "{old}");
            match Config::parse(&text, "it") {
                Ok(_) => assert_eq!(expected, "", "{new}"),
                Err(failure) => {
                    let failure = failure.to_string();
                    assert!(!expected.is_empty() && failure.contains(expected), "{new}: {failure}");
                }
            }
        }
    }

    /// The order limit of an unpaid instrument is that of its terms, and is set once.
    #[test]
    fn an_unpaid_instrument_has_its_largest_order() {
        let text = |quantity: u64| {
            let money = format!("money = {{ class = \"none\", quantity_max = {quantity} }}");
            format!("[[instruments]]\nsymbol = \"WIDE\"\n{money}\n")
        };
        let commands = |engine: &Engine, quantity| {
            let config = Config::parse(&text(quantity), "it").expect("it is sound");
            money_plan(&config, engine).unwrap().0.commands
        };
        let mut engine = Engine::new();
        let apply = |engine: &mut Engine, command| {
            let sequence = engine.sequence().next();
            let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
            engine.apply(&input, &mut |_| {});
        };
        let symbol = Symbol::new("WIDE").unwrap();
        let added = AddInstrument { symbol, price_increment: Price(100), round_lot: Quantity(100) };
        apply(&mut engine, Command::AddInstrument(added));
        assert_eq!(commands(&engine, QUANTITY_MAX.0), []);
        for quantity in [3 << 32, QUANTITY_LIMIT.0, QUANTITY_MAX.0] {
            let terms = MoneyTerms::unpaid(Quantity(quantity));
            let set = MoneyCommand::SetTerms(SetTerms { symbol, terms });
            assert_eq!(commands(&engine, quantity), [set]);
            apply(&mut engine, Command::Money(set));
            assert_eq!(commands(&engine, quantity), []);
        }
    }
}
