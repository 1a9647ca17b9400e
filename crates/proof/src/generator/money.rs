//! Random commands about money: those that set up a market with accounts, and those that may occur
//! while it trades.

use market::{
    AccountId, AccountSetting, AddAccount, AddAsset, AssetId, AssignSession, Deposit, MoneyClass,
    MoneyCommand, MoneyTerms, Quantity, SessionId, SetAccount, SetFees, SetTerms, StopAccount,
    Symbol, Transfer, Units, Withdraw,
};

use super::{Profile, symbol, text};
use crate::rng::Rng;

/// The asset that pays for all trades; the assets after it are those that the instruments trade, one each.
const QUOTE: AssetId = AssetId(1);

/// The initial balance of each account, in units of the quote asset.
const QUOTE_AMOUNT: u128 = 50_000_000_000;

/// The initial balance of each account in each traded asset, in lots.
const BASE_LOTS: u128 = 20_000;

/// The commands that set up assets, accounts, their sessions, terms, fees and deposits.
pub(super) fn set_up(profile: &Profile) -> Vec<MoneyCommand> {
    let mut commands = vec![MoneyCommand::AddAsset(AddAsset { name: text("USD"), decimals: 4 })];
    for index in 0..profile.instruments {
        let name = text(&format!("A{index}"));
        commands.push(MoneyCommand::AddAsset(AddAsset { name, decimals: 0 }));
    }
    for number in 1..=profile.accounts {
        let name = text(&format!("P{number}"));
        commands.push(MoneyCommand::AddAccount(AddAccount { name }));
    }
    // The last session belongs to no account, unless it is the only one.
    for number in 1..=(profile.sessions - 1).max(1) {
        commands.push(MoneyCommand::AssignSession(AssignSession {
            session_id: SessionId(number),
            account_id: AccountId(u32::from((number - 1) % profile.accounts + 1)),
        }));
    }
    for index in 0..profile.instruments {
        commands.push(MoneyCommand::SetTerms(SetTerms {
            symbol: symbol(usize::from(index)),
            terms: terms(index, profile),
        }));
    }
    for tier in 0..16 {
        let fees = SetFees { tier, maker_ppm: 100 * i32::from(tier), taker_ppm: 2_500 };
        commands.push(MoneyCommand::SetFees(fees));
    }
    for number in 1..=profile.accounts {
        let account_id = AccountId(u32::from(number));
        let mut deposit = |asset_id, amount| {
            let amount = Units::new(amount);
            commands.push(MoneyCommand::Deposit(Deposit { account_id, asset_id, amount }));
        };
        // Where trades are undone, some accounts have too little to give back.
        let share = if profile.undo_per_mille > 0 { 50 } else { 1 };
        let scale = u128::from(profile.quantity_scale);
        deposit(QUOTE, scale * QUOTE_AMOUNT / share);
        for index in 0..profile.instruments {
            let units = u128::from(terms(index, profile).base_units.max(1));
            deposit(base(index), scale * BASE_LOTS / share * units);
        }
    }
    commands
}

/// The initial terms of an instrument: of each class, exact and rounded, and without payment.
fn terms(index: u16, profile: &Profile) -> MoneyTerms {
    let (class, base_units, quote_numerator, quote_denominator) = match index % 4 {
        0 => (MoneyClass::Cash, 1, 1, 1),
        1 => (MoneyClass::Cash, 10, 3, 1_000_007),
        2 => (MoneyClass::Position, 5, 2, 3),
        _ => (MoneyClass::None, 0, 0, 0),
    };
    let is_paid = class != MoneyClass::None;
    MoneyTerms {
        class,
        base: if is_paid { base(index) } else { AssetId(0) },
        quote: if is_paid { QUOTE } else { AssetId(0) },
        base_units,
        quote_numerator,
        quote_denominator,
        quantity_max: Quantity(profile.quantity_max()),
    }
}

/// Any command about money, mostly one that can be carried out.
pub(super) fn any(rng: &mut Rng, profile: &Profile) -> MoneyCommand {
    let account_id = any_account(rng, profile);
    let asset_id = any_asset(rng, profile);
    match rng.below(20) {
        1..=2 if profile.undo_per_mille > 0 => {
            let amount = any_amount(rng, profile);
            MoneyCommand::Withdraw(Withdraw { account_id, asset_id, amount })
        }
        0..=3 => {
            let amount = any_amount(rng, profile);
            MoneyCommand::Deposit(Deposit { account_id, asset_id, amount })
        }
        4..=5 => {
            let amount = any_amount(rng, profile);
            MoneyCommand::Withdraw(Withdraw { account_id, asset_id, amount })
        }
        6..=8 => {
            let (to, amount) = (any_account(rng, profile), any_amount(rng, profile));
            MoneyCommand::Transfer(Transfer { from: account_id, to, asset_id, amount })
        }
        9..=14 => any_setting(rng, profile, account_id, asset_id),
        15 => MoneyCommand::StopAccount(StopAccount { account_id, stopped: rng.chance(1, 3) }),
        16 => {
            // A stopped account continues, mostly soon.
            MoneyCommand::StopAccount(StopAccount { account_id, stopped: false })
        }
        17 => {
            let number = rng.range(1, u64::from(profile.sessions) + 1) as u16;
            MoneyCommand::AssignSession(AssignSession { session_id: SessionId(number), account_id })
        }
        18 => any_fees(rng),
        _ => any_terms(rng, profile),
    }
}

fn any_setting(
    rng: &mut Rng,
    profile: &Profile,
    account_id: AccountId,
    asset_id: AssetId,
) -> MoneyCommand {
    use AccountSetting::*;
    let scale = u128::from(profile.quantity_scale);
    let setting = *rng.pick(AccountSetting::ALL);
    // Mostly a limit that leaves room, or no limit.
    let value: u128 = match (setting, rng.below(8)) {
        (_, 0) => u128::from(rng.below(20)),
        (_, 1) => {
            let odd = [u128::from(u32::MAX), 1 << 32, 1 << 64, 1 << 96, (1 << 96) + 1, u128::MAX];
            *rng.pick(&odd)
        }
        (FeeTier, _) => u128::from(rng.below(16)),
        (ShortMax, _) => scale * u128::from(rng.below(20_000)),
        (_, 2..=5) => 0,
        (OrderQuantityMax, _) => scale * u128::from(rng.range(50, 2_000)),
        (OrderNotionalMax, _) => scale * u128::from(rng.range(100_000_000, 2_000_000_000)),
        (LiveOrdersMax, _) => u128::from(rng.range(10, 100)),
        (OrdersPerSecondMax, _) => u128::from(rng.range(5, 30)),
        (PriceAwayMax, _) => u128::from(rng.range(100, 20_000)),
        (PositionMax, _) => scale * u128::from(rng.range(90_000, 150_000)),
    };
    let needs_asset = setting.is_of_asset() != rng.chance(1, 30);
    let asset_id = if needs_asset { asset_id } else { AssetId(0) };
    MoneyCommand::SetAccount(SetAccount { account_id, setting, asset_id, value: Units::new(value) })
}

fn any_fees(rng: &mut Rng) -> MoneyCommand {
    let odd = rng.chance(1, 10);
    let maker_ppm = match rng.below(3) {
        0 => -(rng.below(2_000) as i32),
        _ => rng.below(5_000) as i32,
    };
    MoneyCommand::SetFees(SetFees {
        tier: rng.below(if odd { 256 } else { 16 }) as u8,
        maker_ppm: if odd {
            *rng.pick(&[i32::MIN, i32::MAX, -1_000_000, -3_000])
        } else {
            maker_ppm
        },
        taker_ppm: if rng.chance(1, 20) {
            rng.below(1 << 32) as u32
        } else {
            rng.range(2_000, 9_000) as u32
        },
    })
}

/// Random terms, mostly for an instrument without trading, because the other instruments have live orders.
fn any_terms(rng: &mut Rng, profile: &Profile) -> MoneyCommand {
    let index = rng.below(u64::from(profile.instruments)) as u16;
    let symbol = match rng.below(5) {
        0 => symbol(usize::from(index)),
        1 => Symbol::BLANK,
        _ => text(&format!("L{}", rng.below(20))),
    };
    let mut terms = terms(rng.below(4) as u16, profile);
    match rng.below(9) {
        0 => terms.base_units = 0,
        1 => terms.quote_denominator = 0,
        2 => terms.quote = terms.base,
        3 => terms.quantity_max = Quantity(*rng.pick(&[0, 1 << 48, (1 << 48) - 1])),
        4 => terms.base = AssetId(u16::MAX),
        // A cost or a delivery above 2⁹² units is not allowed.
        5 => {
            let units = *rng.pick(&[1, 1 << 43, 1 << 44, 1 << 45, 1 << 63]);
            let terms_units =
                if rng.chance(1, 2) { &mut terms.base_units } else { &mut terms.quote_numerator };
            *terms_units = units;
        }
        _ => {}
    }
    MoneyCommand::SetTerms(SetTerms { symbol, terms })
}

fn base(index: u16) -> AssetId {
    AssetId(index + 2)
}

/// An account; seldom the venue's own, or one that does not exist.
fn any_account(rng: &mut Rng, profile: &Profile) -> AccountId {
    match rng.below(20) {
        0 => AccountId::VENUE,
        1 => *rng.pick(&[AccountId(u32::from(profile.accounts) + 1), AccountId(u32::MAX)]),
        _ => AccountId(rng.range(1, u64::from(profile.accounts)) as u32),
    }
}

fn any_asset(rng: &mut Rng, profile: &Profile) -> AssetId {
    match rng.below(20) {
        0 => *rng.pick(&[AssetId(0), AssetId(u16::MAX)]),
        1..=8 => QUOTE,
        _ => AssetId(rng.range(2, u64::from(profile.instruments) + 1) as u16),
    }
}

fn any_amount(rng: &mut Rng, profile: &Profile) -> Units {
    let scale = u128::from(profile.quantity_scale);
    Units::new(match rng.below(10) {
        // Of any size, so that many are nearly the whole balance of an account.
        2.. if profile.undo_per_mille > 0 => {
            let bits = rng.range(1, 36);
            scale * u128::from(rng.range(1, 1 << bits))
        }
        0 => 0,
        1 => *rng.pick(&[1 << 120, (1 << 120) + 1, u128::MAX, 1 << 64]),
        2..=5 => scale * u128::from(rng.range(1, 2_000_000_000)),
        _ => scale * u128::from(rng.range(1, 20_000)),
    })
}
