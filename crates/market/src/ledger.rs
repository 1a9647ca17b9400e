//! Events about money: movements between balances, and changes of accounts, assets and terms.
//!
//! Invariant: a movement names both of its ends, so that the movements alone give every balance.

use crate::{
    AccountId, AssetId, InstrumentId, MoneyTerms, OrderId, SessionId, SetAccount, SetFees,
    StopAccount, Text, TradeId, Units, order::code_enum,
};

/// What is told of money beside its movements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoneyEvent {
    /// An asset was added.
    AssetAdded(Asset),
    /// An account was added.
    AccountAdded(AccountAdded),
    /// A session's orders are an account's from now on.
    SessionAssigned(SessionAssigned),
    /// What orders in an instrument cost was set.
    TermsSet(TermsSet),
    /// What trades cost was set.
    FeesSet(SetFees),
    /// A limit, or another property, of an account was set.
    AccountSet(SetAccount),
    /// An account was stopped, and the `Canceled` of each of its orders follow; or it may go on.
    AccountStopped(StopAccount),
    /// A command about money was not carried out.
    Declined(Declined),
    /// Trades that are paid for can be undone, those after it was first told.
    UndoAllowed,
}

/// What is owned. Amounts of it are counted in its smallest units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its number, from 1.
    pub asset_id: AssetId,
    /// Its printed name, unique.
    pub name: Text<8>,
    /// How many of its digits stand behind the point where it is printed.
    pub decimals: u8,
}

/// See [`MoneyEvent::AccountAdded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountAdded {
    /// Its number, from 1.
    pub account_id: AccountId,
    /// Its printed name, unique.
    pub name: Text<8>,
}

/// See [`MoneyEvent::SessionAssigned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionAssigned {
    /// Whose orders.
    pub session_id: SessionId,
    /// Whose they are; [`AccountId::VENUE`] is nobody's.
    pub account_id: AccountId,
}

/// See [`MoneyEvent::TermsSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsSet {
    /// Of which instrument.
    pub instrument_id: InstrumentId,
    /// As asked.
    pub terms: MoneyTerms,
}

code_enum! {
    /// Why a command about money was not carried out.
    DeclineReason {
        /// A name is blank or taken.
        InvalidName = 1,
        /// There are as many as there can be.
        TooMany = 2,
        /// No such account.
        UnknownAccount = 3,
        /// No such asset.
        UnknownAsset = 4,
        /// No such instrument.
        UnknownInstrument = 5,
        /// No such session.
        UnknownSession = 6,
        /// The terms of an instrument contradict themselves.
        InvalidTerms = 7,
        /// A fee out of range, or a rebate above what is paid for it.
        InvalidFees = 8,
        /// A value that the setting cannot have.
        InvalidValue = 9,
        /// Orders that it concerns are live.
        OrdersLive = 10,
        /// An amount of 0, or one that goes from an account to itself.
        InvalidAmount = 11,
        /// More than is available.
        InsufficientBalance = 12,
        /// There would be more of the asset than can be counted.
        TooMuch = 13,
    }
}

/// See [`MoneyEvent::Declined`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declined {
    /// The first check that failed.
    pub reason: DeclineReason,
    /// The movement that was declined; `None` for a command that moves nothing.
    pub movement: Option<LedgerKind>,
    /// The account that it names, the first if there are two; else [`AccountId::VENUE`].
    pub account_id: AccountId,
    /// The asset that it names; else none.
    pub asset_id: AssetId,
}

code_enum! {
    /// Where an amount is.
    Bucket {
        /// Free: of an account, or as revenue of the venue.
        Available = b'A',
        /// Held for a live order of an account.
        Reserved = b'R',
        /// Not here: the outside world, of the venue's own number.
        Outside = b'O',
    }
}

/// One end of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerPlace {
    /// Whose.
    pub account_id: AccountId,
    /// Where.
    pub bucket: Bucket,
    /// How many movements have touched this account's balance in this asset, this one included;
    /// from outside and to it, how many there were of the asset.
    pub version: u64,
}

code_enum! {
    /// Why an amount moved.
    LedgerKind {
        /// It came in.
        Deposit = b'D',
        /// It went out.
        Withdrawal = b'W',
        /// From one account to another.
        Transfer = b'T',
        /// Held for an order.
        Reserve = b'R',
        /// An order does not need it any more.
        Release = b'L',
        /// A trade was paid for, or delivered.
        Settle = b'S',
        /// The venue charged a trade.
        Fee = b'F',
        /// The venue paid for a resting order that was traded with.
        Rebate = b'B',
        /// A trade was undone, and what it moved goes back.
        Undo = b'U',
        /// A trade took the place of another, and the difference moves.
        Correct = b'C',
    }
}

/// One movement of one asset: double entry, for it says both ends. What caused it is the
/// [`Output`](crate::Output)'s cause. The movements alone give all balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Why.
    pub kind: LedgerKind,
    /// Of what.
    pub asset_id: AssetId,
    /// How much; at least 1.
    pub amount: Units,
    /// Where it was.
    pub from: LedgerPlace,
    /// Where it is.
    pub to: LedgerPlace,
    /// The order that reserves, releases, pays, delivers, is charged or is rewarded; 0 if none.
    pub order_id: OrderId,
    /// The trade; 0 if none.
    pub trade_id: TradeId,
}
