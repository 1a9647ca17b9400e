//! The core with money: each user has an account, and every order is paid for.
//!
//! Invariant: no order is rejected for lack of funds.

use crate::comparison::{Flow, Operation};
use market::{
    AccountId, AddAccount, AddAsset, AssetId, AssignSession, Command, Deposit, Input, MoneyClass,
    MoneyCommand, MoneyTerms, Quantity, SessionId, SetFees, SetTerms, Text, Units,
};

use super::{Contender, Trade, core::Core};

/// [`Core`], with cash terms for each instrument, fees, and sufficient balances.
///
/// Each order reserves funds, each trade settles and charges both sides, each cancel releases, and
/// every movement is an event.
#[derive(Debug)]
pub struct Balances(Core);

/// An opening balance that no account can spend, in units.
const ENOUGH: u128 = 1 << 60;

impl Contender for Balances {
    type Step = Input;

    const NAME: &'static str = "engine-balances";

    fn new(flow: &Flow) -> Self {
        let mut core = Core::new(flow);
        let quote = AssetId(1);
        let base = |symbol: u16| AssetId(symbol + 2);
        core.set_up(MoneyCommand::AddAsset(AddAsset { name: name("USD"), decimals: 4 }));
        for symbol in 0..flow.symbols {
            let name = name(&format!("B{symbol}"));
            core.set_up(MoneyCommand::AddAsset(AddAsset { name, decimals: 0 }));
        }
        for tier in 0..16 {
            let fees = SetFees { tier, maker_ppm: 100, taker_ppm: 250 };
            core.set_up(MoneyCommand::SetFees(fees));
        }
        for (number, symbol) in (0..).zip(core.symbols().to_vec()) {
            let terms = MoneyTerms {
                class: MoneyClass::Cash,
                base: base(number),
                quote,
                base_units: 1_000_000,
                quote_numerator: 1,
                quote_denominator: 1,
                quantity_max: Quantity(999_999),
            };
            core.set_up(MoneyCommand::SetTerms(SetTerms { symbol, terms }));
        }
        for user in 1..=flow.users {
            let account_id = AccountId(user);
            let session_id = SessionId(user as u16);
            core.set_up(MoneyCommand::AddAccount(AddAccount { name: name(&format!("P{user}")) }));
            core.set_up(MoneyCommand::AssignSession(AssignSession { session_id, account_id }));
            for asset_id in [quote].into_iter().chain((0..flow.symbols).map(base)) {
                let amount = Units::new(ENOUGH);
                core.set_up(MoneyCommand::Deposit(Deposit { account_id, asset_id, amount }));
            }
        }
        Self(core)
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Input>) {
        self.0.steps(operation, steps);
    }

    fn prefetch(&self, inputs: &[Input]) {
        self.0.prefetch(inputs);
    }

    fn apply(&mut self, input: &Input, trades: &mut Vec<Trade>) {
        self.0.apply(input, trades);
    }

    fn flow_order_id(&self, order_id: u64) -> u64 {
        self.0.flow_order_id(order_id)
    }
}

impl Core {
    fn set_up(&mut self, command: MoneyCommand) {
        self.add(Command::Money(command));
    }
}

fn name(text: &str) -> Text<8> {
    Text::new(text).expect("short and printable")
}
