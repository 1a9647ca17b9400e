//! What the language of the scenarios says of money, and the books that ledger entries alone give.
//!
//! ```text
//! asset USD 2                        => asset 1
//! account P                          => account 1
//! assign A P                         => A is of P
//! deposit P 500 USD                  => deposit P 500 USD
//! terms AAPL cash SHR USD            => terms of AAPL
//! buy A1 4 @ 100                     => accepted, reserve P 400 USD, booked 4 @ 100
//! balance P USD                      => 100 and 400
//! ```
//!
//! Terms may carry `units N` (base units of a lot), `pay N / D` (quote units of a tick and lot) and
//! `max N` (the largest quantity). A settlement is written as `settle FROM TO amount asset`.

use std::collections::BTreeMap;

use engine::Engine;
use market::{
    AccountId, AccountSetting, AddAccount, AddAsset, AssetId, AssignSession, Bucket, Command,
    Deposit, LedgerEntry, LedgerKind, LedgerPlace, MoneyClass, MoneyCommand, MoneyEvent,
    MoneyTerms, Quantity, SessionId, SetAccount, SetFees, SetTerms, StopAccount, Symbol, Text,
    Transfer, Units, Withdraw,
};

use super::scenario::{Read, Words, text};

/// The command that a line about money asks for.
pub(super) fn command(
    engine: &Engine,
    session: impl Fn(&str) -> SessionId,
    verb: &str,
    words: &mut Words<'_>,
) -> Read<Command> {
    let account = |name: &str| account_id(engine, name);
    let command = match verb {
        "asset" => MoneyCommand::AddAsset(AddAsset {
            name: text(words.next()?)?,
            decimals: words.number()?,
        }),
        "account" => MoneyCommand::AddAccount(AddAccount { name: text(words.next()?)? }),
        "assign" => MoneyCommand::AssignSession(AssignSession {
            session_id: session(words.next()?),
            account_id: account(words.next()?)?,
        }),
        "terms" => MoneyCommand::SetTerms(terms(engine, words)?),
        "fees" => MoneyCommand::SetFees(SetFees {
            tier: words.number()?,
            maker_ppm: words.number()?,
            taker_ppm: words.number()?,
        }),
        "set" => {
            let account_id = account(words.next()?)?;
            let setting = words.next()?;
            let settings = AccountSetting::ALL.iter().copied();
            let setting = settings.into_iter().find(|it| format!("{it:?}") == setting);
            let value = amount(words.next()?)?;
            let mut asset_id = AssetId(0);
            words.each(|word, _| {
                asset_id = self::asset_id(engine, word)?;
                Ok(())
            })?;
            let setting = setting.ok_or("not a setting of an account")?;
            MoneyCommand::SetAccount(SetAccount { account_id, setting, asset_id, value })
        }
        "stop" | "resume" => MoneyCommand::StopAccount(StopAccount {
            account_id: account(words.next()?)?,
            stopped: verb == "stop",
        }),
        "deposit" => {
            let account_id = account(words.next()?)?;
            let (amount, asset_id) = (amount(words.next()?)?, asset_id(engine, words.next()?)?);
            MoneyCommand::Deposit(Deposit { account_id, asset_id, amount })
        }
        "withdraw" => {
            let account_id = account(words.next()?)?;
            let (amount, asset_id) = (amount(words.next()?)?, asset_id(engine, words.next()?)?);
            MoneyCommand::Withdraw(Withdraw { account_id, asset_id, amount })
        }
        "transfer" => {
            let (from, to) = (account(words.next()?)?, account(words.next()?)?);
            let (amount, asset_id) = (amount(words.next()?)?, asset_id(engine, words.next()?)?);
            MoneyCommand::Transfer(Transfer { from, to, asset_id, amount })
        }
        _ => return Err(format!("{verb:?} is not a command")),
    };
    Ok(Command::Money(command))
}

fn terms(engine: &Engine, words: &mut Words<'_>) -> Read<SetTerms> {
    let symbol: Symbol = text(words.next()?)?;
    let class = match words.next()? {
        "cash" => MoneyClass::Cash,
        "position" => MoneyClass::Position,
        _ => MoneyClass::None,
    };
    let mut terms = MoneyTerms {
        class,
        base: AssetId(0),
        quote: AssetId(0),
        base_units: 0,
        quote_numerator: 0,
        quote_denominator: 0,
        quantity_max: Quantity(999_999),
    };
    if class != MoneyClass::None {
        terms.base = asset_id(engine, words.next()?)?;
        terms.quote = asset_id(engine, words.next()?)?;
        (terms.base_units, terms.quote_numerator, terms.quote_denominator) = (1, 1, 1);
    }
    words.each(|word, words| {
        match word {
            "units" => terms.base_units = words.number()?,
            "pay" => {
                terms.quote_numerator = words.number()?;
                words.expect("/")?;
                terms.quote_denominator = words.number()?;
            }
            "max" => terms.quantity_max = Quantity(words.number()?),
            _ => return Err(format!("{word:?} is not a term")),
        }
        Ok(())
    })?;
    Ok(SetTerms { symbol, terms })
}

/// An account there is not has a number that none has; `-` is the venue itself.
fn account_id(engine: &Engine, name: &str) -> Read<AccountId> {
    if name == "-" {
        return Ok(AccountId::VENUE);
    }
    let known = engine.account_named(&text(name)?);
    Ok(known.map_or(AccountId(u32::MAX), |account| account.account_id))
}

/// An asset there is not has a number that none has.
fn asset_id(engine: &Engine, name: &str) -> Read<AssetId> {
    let known = engine.asset(&text(name)?);
    Ok(known.map_or(AssetId(u16::MAX), |asset| asset.asset_id))
}

fn amount(word: &str) -> Read<Units> {
    let units: u128 = word.parse().map_err(|_| format!("{word:?} is not an amount in units"))?;
    Ok(Units::new(units))
}

fn account_name(engine: &Engine, account_id: AccountId) -> String {
    if account_id == AccountId::VENUE {
        return "-".into();
    }
    engine.account(account_id).expect("an account there is").name.to_string()
}

fn asset_name(engine: &Engine, asset_id: AssetId) -> Text<8> {
    engine.assets().find(|asset| asset.asset_id == asset_id).expect("an asset there is").name
}

/// What an account has of an asset, and what of it is reserved.
pub(super) fn tell_balance(engine: &Engine, account: &str, asset: &str) -> Read<String> {
    let balance = engine.balance(account_id(engine, account)?, asset_id(engine, asset)?);
    let balance = balance.ok_or("there is no such account, or no such asset")?;
    Ok(format!("{} and {}", balance.available, balance.reserved))
}

pub(super) fn tell_entry(engine: &Engine, entry: &LedgerEntry) -> String {
    let from = account_name(engine, entry.from.account_id);
    let to = account_name(engine, entry.to.account_id);
    let what = format!("{} {}", entry.amount, asset_name(engine, entry.asset_id));
    match entry.kind {
        LedgerKind::Deposit => format!("deposit {to} {what}"),
        LedgerKind::Withdrawal => format!("withdrawal {from} {what}"),
        LedgerKind::Transfer => format!("transfer {from} {to} {what}"),
        LedgerKind::Reserve => format!("reserve {from} {what}"),
        LedgerKind::Release => format!("release {to} {what}"),
        LedgerKind::Settle => format!("settle {from} {to} {what}"),
        LedgerKind::Fee => format!("fee {from} {what}"),
        LedgerKind::Rebate => format!("rebate {to} {what}"),
        LedgerKind::Undo => format!("undo {from} {to} {what}"),
        LedgerKind::Correct => format!("correct {from} {to} {what}"),
    }
}

pub(super) fn tell_money(
    engine: &Engine,
    session: impl Fn(SessionId) -> String,
    event: &MoneyEvent,
) -> String {
    match event {
        MoneyEvent::AssetAdded(asset) => format!("asset {}", asset.asset_id),
        MoneyEvent::AccountAdded(added) => format!("account {}", added.account_id),
        MoneyEvent::SessionAssigned(assigned) => {
            let account = account_name(engine, assigned.account_id);
            format!("{} is of {account}", session(assigned.session_id))
        }
        MoneyEvent::TermsSet(set) => {
            let book = engine.book(set.instrument_id).expect("an instrument there is");
            format!("terms of {}", book.instrument().symbol)
        }
        MoneyEvent::FeesSet(fees) => format!("fees of {}", fees.tier),
        MoneyEvent::AccountSet(set) => format!("set {:?} to {}", set.setting, set.value),
        MoneyEvent::AccountStopped(stop) => {
            let verb = if stop.stopped { "stopped" } else { "resumed" };
            format!("{verb} {}", account_name(engine, stop.account_id))
        }
        MoneyEvent::Declined(declined) => format!("declined {:?}", declined.reason),
    }
}

/// What ledger entries alone say that each account has.
#[derive(Default)]
pub(super) struct Books {
    places: BTreeMap<(AssetId, AccountId, Bucket), i128>,
    versions: BTreeMap<(AssetId, AccountId, bool), u64>,
}

impl Books {
    /// Enters a movement at both ends.
    pub(super) fn enter(&mut self, entry: &LedgerEntry) {
        let amount = i128::try_from(entry.amount.get()).unwrap();
        assert!(0 < amount, "{entry:?} moves something");
        let LedgerEntry { asset_id, from, to, .. } = *entry;
        *self.places.entry((asset_id, from.account_id, from.bucket)).or_default() -= amount;
        *self.places.entry((asset_id, to.account_id, to.bucket)).or_default() += amount;
        let is_one = |place: LedgerPlace| (place.account_id, place.bucket == Bucket::Outside);
        self.count(asset_id, from);
        if is_one(from) == is_one(to) {
            assert_eq!(from.version, to.version, "one balance is touched once");
        } else {
            self.count(asset_id, to);
        }
    }

    /// Each movement that touches a balance has its next version.
    fn count(&mut self, asset_id: AssetId, place: LedgerPlace) {
        let key = (asset_id, place.account_id, place.bucket == Bucket::Outside);
        let version = self.versions.entry(key).or_default();
        *version += 1;
        assert_eq!(*version, place.version, "{place:?}");
    }

    /// Asserts that the engine says the same of each account, and that an asset is only moved.
    pub(super) fn check(&self, engine: &Engine) {
        for asset in engine.assets() {
            let at = |account_id, bucket| {
                self.places.get(&(asset.asset_id, account_id, bucket)).copied().unwrap_or(0)
            };
            let mut sum = 0;
            for account in engine.accounts() {
                let account_id = account.account_id;
                let balance = engine.balance(account_id, asset.asset_id).unwrap();
                assert_eq!(balance.available, at(account_id, Bucket::Available), "{balance:?}");
                assert_eq!(
                    i128::try_from(balance.reserved).unwrap(),
                    at(account_id, Bucket::Reserved)
                );
                let key = (asset.asset_id, account_id, false);
                assert_eq!(balance.version, self.versions.get(&key).copied().unwrap_or(0));
                sum += balance.available + i128::try_from(balance.reserved).unwrap();
            }
            assert_eq!(sum, -at(AccountId::VENUE, Bucket::Outside), "{asset:?} is conserved");
            assert_eq!(u128::try_from(sum).unwrap(), engine.issued(asset.asset_id).unwrap());
        }
    }
}
