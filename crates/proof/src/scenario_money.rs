//! The commands and balances of the scenario language that concern money.
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

use engine::Engine;
use market::{
    AccountId, AccountSetting, AddAccount, AddAsset, AssetId, AssignSession, Command, Deposit,
    LedgerEntry, LedgerKind, MoneyClass, MoneyCommand, MoneyEvent, MoneyTerms, Quantity, SessionId,
    SetAccount, SetFees, SetTerms, StopAccount, Symbol, Text, Transfer, Units, Withdraw,
};

use super::scenario_words::{Read, Words, exactly, kebab, named, text};

/// The command that a line about money asks for.
pub(super) fn command(
    engine: &Engine,
    session: impl Fn(&str) -> SessionId,
    verb: &str,
    words: &mut Words<'_>,
) -> Read<Command> {
    let account = |words: &mut Words<'_>| account_id(engine, words.next()?);
    let command = match verb {
        "asset" => {
            let (name, decimals) = (words.text()?, words.number()?);
            MoneyCommand::AddAsset(AddAsset { name, decimals })
        }
        "account" => MoneyCommand::AddAccount(AddAccount { name: words.text()? }),
        "assign" => {
            let (session_id, account_id) = (session(words.next()?), account(words)?);
            MoneyCommand::AssignSession(AssignSession { session_id, account_id })
        }
        "terms" => MoneyCommand::SetTerms(terms(engine, words)?),
        "fees" => MoneyCommand::SetFees(SetFees {
            tier: words.number()?,
            maker_ppm: words.number()?,
            taker_ppm: words.number()?,
        }),
        "set" => {
            let account_id = account(words)?;
            let setting = exactly(AccountSetting::ALL, words.next()?)?;
            let value = amount(words)?;
            let asset_id = match words.more() {
                Some(name) => asset_id(engine, name)?,
                None => AssetId(0),
            };
            MoneyCommand::SetAccount(SetAccount { account_id, setting, asset_id, value })
        }
        "stop" | "resume" => {
            let (account_id, stopped) = (account(words)?, verb == "stop");
            MoneyCommand::StopAccount(StopAccount { account_id, stopped })
        }
        "deposit" => {
            let (account_id, (amount, asset_id)) = (account(words)?, money(engine, words)?);
            MoneyCommand::Deposit(Deposit { account_id, asset_id, amount })
        }
        "withdraw" => {
            let (account_id, (amount, asset_id)) = (account(words)?, money(engine, words)?);
            MoneyCommand::Withdraw(Withdraw { account_id, asset_id, amount })
        }
        "transfer" => {
            let (from, to) = (account(words)?, account(words)?);
            let (amount, asset_id) = money(engine, words)?;
            MoneyCommand::Transfer(Transfer { from, to, asset_id, amount })
        }
        _ => return Err(format!("{verb:?} is not a command")),
    };
    Ok(Command::Money(command))
}

fn terms(engine: &Engine, words: &mut Words<'_>) -> Read<SetTerms> {
    let symbol: Symbol = words.text()?;
    let class = named(MoneyClass::ALL, words.next()?)?;
    let mut terms = MoneyTerms { class, ..MoneyTerms::unpaid(Quantity(999_999)) };
    if class != MoneyClass::None {
        terms.base = asset_id(engine, words.next()?)?;
        terms.quote = asset_id(engine, words.next()?)?;
        (terms.base_units, terms.quote_numerator, terms.quote_denominator) = (1, 1, 1);
    }
    while let Some(word) = words.more() {
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
    }
    Ok(SetTerms { symbol, terms })
}

/// The id of an account by name; `-` is the venue itself. An unknown name gives an id that no account has.
fn account_id(engine: &Engine, name: &str) -> Read<AccountId> {
    if name == "-" {
        return Ok(AccountId::VENUE);
    }
    let known = engine.account_named(&text(name)?);
    Ok(known.map_or(AccountId(u32::MAX), |account| account.account_id))
}

/// The id of an asset by name. An unknown name gives an id that no asset has.
fn asset_id(engine: &Engine, name: &str) -> Read<AssetId> {
    let known = engine.asset(&text(name)?);
    Ok(known.map_or(AssetId(u16::MAX), |asset| asset.asset_id))
}

fn amount(words: &mut Words<'_>) -> Read<Units> {
    words.parse("an amount in units").map(Units::new)
}

/// Reads an amount and its asset: `500 USD`.
fn money(engine: &Engine, words: &mut Words<'_>) -> Read<(Units, AssetId)> {
    Ok((amount(words)?, asset_id(engine, words.next()?)?))
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

/// An account's balance of an asset, and the reserved part of it, in words.
pub(super) fn balance(engine: &Engine, account: &str, asset: &str) -> Read<String> {
    let balance = engine.balance(account_id(engine, account)?, asset_id(engine, asset)?);
    let balance = balance.ok_or("there is no such account, or no such asset")?;
    Ok(format!("{} and {}", balance.available, balance.reserved))
}

pub(super) fn entry(engine: &Engine, entry: &LedgerEntry) -> String {
    let from = account_name(engine, entry.from.account_id);
    let to = account_name(engine, entry.to.account_id);
    let what = format!("{} {}", entry.amount, asset_name(engine, entry.asset_id));
    let ends = match entry.kind {
        LedgerKind::Deposit | LedgerKind::Release | LedgerKind::Rebate => to,
        LedgerKind::Withdrawal | LedgerKind::Reserve | LedgerKind::Fee => from,
        LedgerKind::Transfer | LedgerKind::Settle | LedgerKind::Undo | LedgerKind::Correct => {
            format!("{from} {to}")
        }
    };
    format!("{} {ends} {what}", kebab(&entry.kind))
}

pub(super) fn event(
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
