//! Commands about money as bytes. Invariant: each has exactly one encoding.

use super::{Writer, kind};
use crate::{
    AccountSetting, AddAccount, AddAsset, AssignSession, Deposit, MoneyCommand, SetAccount,
    SetFees, SetTerms, StopAccount, Transfer, Withdraw,
    bytes::{ByteReader, ByteWriter, DecodeError},
};

impl Writer<'_> {
    pub(super) fn money(&mut self, command: &MoneyCommand) {
        match command {
            MoneyCommand::AddAsset(add) => {
                self.u8(kind::ADD_ASSET);
                self.text(&add.name);
                self.u8(add.decimals);
            }
            MoneyCommand::AddAccount(add) => {
                self.u8(kind::ADD_ACCOUNT);
                self.text(&add.name);
            }
            MoneyCommand::AssignSession(assign) => {
                self.u8(kind::ASSIGN_SESSION);
                self.u16(assign.session_id.0);
                self.u32(assign.account_id.0);
            }
            MoneyCommand::SetTerms(set) => {
                self.u8(kind::SET_TERMS);
                self.text(&set.symbol);
                self.money_terms(&set.terms);
            }
            MoneyCommand::SetFees(set) => {
                self.u8(kind::SET_FEES);
                self.u8(set.tier);
                self.i32(set.maker_ppm);
                self.u32(set.taker_ppm);
            }
            MoneyCommand::SetAccount(set) => {
                self.u8(kind::SET_ACCOUNT);
                self.u32(set.account_id.0);
                self.u8(set.setting.code());
                self.u16(set.asset_id.0);
                self.units(set.value);
            }
            MoneyCommand::StopAccount(stop) => {
                self.u8(kind::STOP_ACCOUNT);
                self.u32(stop.account_id.0);
                self.flag(stop.stopped);
            }
            MoneyCommand::Deposit(deposit) => {
                self.u8(kind::DEPOSIT);
                self.u32(deposit.account_id.0);
                self.u16(deposit.asset_id.0);
                self.units(deposit.amount);
            }
            MoneyCommand::Withdraw(withdraw) => {
                self.u8(kind::WITHDRAW);
                self.u32(withdraw.account_id.0);
                self.u16(withdraw.asset_id.0);
                self.units(withdraw.amount);
            }
            MoneyCommand::Transfer(transfer) => {
                self.u8(kind::TRANSFER);
                self.u32(transfer.from.0);
                self.u32(transfer.to.0);
                self.u16(transfer.asset_id.0);
                self.units(transfer.amount);
            }
            MoneyCommand::AllowUndo => self.u8(kind::ALLOW_UNDO),
        }
    }
}

impl ByteReader<'_> {
    /// The command about money of this kind; `None` if the kind is not one of these.
    pub(super) fn money(&mut self, kind: u8) -> Result<MoneyCommand, DecodeError> {
        Ok(match kind {
            kind::ADD_ASSET => {
                MoneyCommand::AddAsset(AddAsset { name: self.text("name")?, decimals: self.u8()? })
            }
            kind::ADD_ACCOUNT => MoneyCommand::AddAccount(AddAccount { name: self.text("name")? }),
            kind::ASSIGN_SESSION => MoneyCommand::AssignSession(AssignSession {
                session_id: self.session_id()?,
                account_id: self.account_id()?,
            }),
            kind::SET_TERMS => MoneyCommand::SetTerms(SetTerms {
                symbol: self.text("symbol")?,
                terms: self.money_terms()?,
            }),
            kind::SET_FEES => MoneyCommand::SetFees(SetFees {
                tier: self.u8()?,
                maker_ppm: self.i32()?,
                taker_ppm: self.u32()?,
            }),
            kind::SET_ACCOUNT => MoneyCommand::SetAccount(SetAccount {
                account_id: self.account_id()?,
                setting: self.code("account setting", AccountSetting::from_code)?,
                asset_id: self.asset_id()?,
                value: self.units()?,
            }),
            kind::STOP_ACCOUNT => MoneyCommand::StopAccount(StopAccount {
                account_id: self.account_id()?,
                stopped: self.flag("stopped")?,
            }),
            kind::DEPOSIT => MoneyCommand::Deposit(Deposit {
                account_id: self.account_id()?,
                asset_id: self.asset_id()?,
                amount: self.units()?,
            }),
            kind::WITHDRAW => MoneyCommand::Withdraw(Withdraw {
                account_id: self.account_id()?,
                asset_id: self.asset_id()?,
                amount: self.units()?,
            }),
            kind::TRANSFER => MoneyCommand::Transfer(Transfer {
                from: self.account_id()?,
                to: self.account_id()?,
                asset_id: self.asset_id()?,
                amount: self.units()?,
            }),
            kind::ALLOW_UNDO => MoneyCommand::AllowUndo,
            kind => return Err(DecodeError::Kind(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AccountId, AssetId, Command, MoneyClass, MoneyTerms, Quantity, SessionId, Symbol, Text,
        Units,
    };

    /// The encoding of each command about money.
    #[test]
    fn golden_money() {
        let check = |command, expected: &[u8]| {
            let mut buffer = [0; Command::ENCODED_LEN_MAX];
            let len = Command::Money(command).encode(&mut buffer);
            assert_eq!(&buffer[..len], expected);
        };
        let (account_id, asset_id) = (AccountId(0x0102), AssetId(3));
        let amount = Units::new((5 << 64) + 4);
        let name = Text::new("USDT").unwrap();
        check(MoneyCommand::AddAsset(AddAsset { name, decimals: 6 }), b"\x15USDT    \x06");
        check(MoneyCommand::AddAccount(AddAccount { name }), b"\x16USDT    ");
        let assign = AssignSession { session_id: SessionId(7), account_id };
        check(MoneyCommand::AssignSession(assign), b"\x17\x07\0\x02\x01\0\0");
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base: AssetId(1),
            quote: AssetId(2),
            base_units: 3,
            quote_numerator: 4,
            quote_denominator: 5,
            quantity_max: Quantity(6),
        };
        check(
            MoneyCommand::SetTerms(SetTerms { symbol: Symbol::new("BTC").unwrap(), terms }),
            b"\x18BTC     C\x01\0\x02\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0",
        );
        let fees = SetFees { tier: 1, maker_ppm: -2, taker_ppm: 3 };
        check(MoneyCommand::SetFees(fees), b"\x19\x01\xfe\xff\xff\xff\x03\0\0\0");
        let setting = AccountSetting::ShortMax;
        check(
            MoneyCommand::SetAccount(SetAccount { account_id, setting, asset_id, value: amount }),
            b"\x1a\x02\x01\0\0S\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
        );
        let stop = StopAccount { account_id, stopped: true };
        check(MoneyCommand::StopAccount(stop), b"\x1b\x02\x01\0\0\x01");
        let moved = b"\x02\x01\0\0\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        let deposit = Deposit { account_id, asset_id, amount };
        check(MoneyCommand::Deposit(deposit), &[&[28], &moved[..]].concat());
        let withdraw = Withdraw { account_id, asset_id, amount };
        check(MoneyCommand::Withdraw(withdraw), &[&[29], &moved[..]].concat());
        let transfer = Transfer { from: account_id, to: AccountId(9), asset_id, amount };
        check(
            MoneyCommand::Transfer(transfer),
            b"\x1e\x02\x01\0\0\x09\0\0\0\x03\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
        );
        check(MoneyCommand::AllowUndo, b"\x1f");
    }
}
