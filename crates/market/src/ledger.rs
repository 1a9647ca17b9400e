//! Events about money: movements between balances, and changes of accounts, assets and terms.
//!
//! Invariant: a movement names both of its ends. The movements alone give every balance.

use crate::{
    AccountId, AssetId, InstrumentId, MoneyTerms, OrderId, SessionId, SetAccount, SetFees,
    StopAccount, Text, TradeId, Units, order::code_enum,
};

/// An event about money other than a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum MoneyEvent {
    /// An asset was added.
    AssetAdded(Asset),
    /// An account was added.
    AccountAdded(AccountAdded),
    /// A session was assigned to an account.
    SessionAssigned(SessionAssigned),
    /// The payment terms of an instrument were set.
    TermsSet(TermsSet),
    /// Fees were set.
    FeesSet(SetFees),
    /// A limit or another setting of an account was set.
    AccountSet(SetAccount),
    /// An account was stopped, and the `Canceled` of each of its orders follow; or it was resumed.
    AccountStopped(StopAccount),
    /// A command about money was declined.
    Declined(Declined),
}

/// An asset that accounts own. Amounts are in its smallest units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Asset {
    /// Its number, from 1.
    pub asset_id: AssetId,
    /// Printed name; unique.
    pub name: Text<8>,
    /// Number of decimals where it is printed.
    pub decimals: u8,
}

/// See [`MoneyEvent::AccountAdded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AccountAdded {
    /// Its number, from 1.
    pub account_id: AccountId,
    /// Printed name; unique.
    pub name: Text<8>,
}

/// See [`MoneyEvent::SessionAssigned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SessionAssigned {
    /// The session.
    pub session_id: SessionId,
    /// The account; [`AccountId::VENUE`] is none.
    pub account_id: AccountId,
}

/// See [`MoneyEvent::TermsSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TermsSet {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The terms.
    pub terms: MoneyTerms,
}

code_enum! {
    /// Why a command about money was declined.
    DeclineReason {
        /// A name is blank or taken.
        InvalidName = 1,
        /// The table is full.
        TooMany = 2,
        /// Unknown account.
        UnknownAccount = 3,
        /// Unknown asset.
        UnknownAsset = 4,
        /// Unknown instrument.
        UnknownInstrument = 5,
        /// Unknown session.
        UnknownSession = 6,
        /// The terms of an instrument are inconsistent.
        InvalidTerms = 7,
        /// A fee out of range, or a rebate above the fee that funds it.
        InvalidFees = 8,
        /// The setting does not allow this value.
        InvalidValue = 9,
        /// The change concerns live orders.
        OrdersLive = 10,
        /// The amount is 0, or both ends are the same account.
        InvalidAmount = 11,
        /// The amount is above the available balance.
        InsufficientBalance = 12,
        /// The total of the asset would exceed its maximum.
        TooMuch = 13,
    }
}

/// See [`MoneyEvent::Declined`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Declined {
    /// The first check that failed.
    pub reason: DeclineReason,
    /// The movement that was declined; `None` for a command without one.
    pub movement: Option<LedgerKind>,
    /// The account of the command, the first if there are two; else [`AccountId::VENUE`].
    pub account_id: AccountId,
    /// The asset of the command; else none.
    pub asset_id: AssetId,
}

code_enum! {
    /// A bucket: where an amount is.
    Bucket {
        /// Available: free funds of an account, or revenue of the venue.
        Available = b'A',
        /// Reserved for a live order of an account.
        Reserved = b'R',
        /// Outside the venue; the account is then the venue's.
        Outside = b'O',
    }
}

/// One end of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct LedgerPlace {
    /// The account.
    pub account_id: AccountId,
    /// The bucket.
    pub bucket: Bucket,
    /// Version: the number of movements of this account's balance in this asset, this one included.
    /// For the outside, the number of movements in and out of the asset.
    pub version: u64,
}

code_enum! {
    /// The kind of a movement.
    LedgerKind {
        /// Deposit.
        Deposit = b'D',
        /// Withdrawal.
        Withdrawal = b'W',
        /// Transfer between accounts.
        Transfer = b'T',
        /// Reserved for an order.
        Reserve = b'R',
        /// Released: an order no longer needs it.
        Release = b'L',
        /// Settled: a trade was paid or delivered.
        Settle = b'S',
        /// Fee for a trade.
        Fee = b'F',
        /// Rebate to the maker of a trade.
        Rebate = b'B',
        /// A trade was undone; its movements are returned.
        Undo = b'U',
        /// A trade was corrected; the difference moves.
        Correct = b'C',
    }
}

impl LedgerKind {
    /// The buckets of one balance that a movement for an order goes between: a reservation from available to reserved, a
    /// [`Release`](Self::Release) back.
    #[must_use]
    #[inline(always)]
    pub fn buckets_within(self) -> [Bucket; 2] {
        match self {
            Self::Reserve => [Bucket::Available, Bucket::Reserved],
            _ => [Bucket::Reserved, Bucket::Available],
        }
    }
}

/// One movement of one asset, by double entry: it names both ends. Its cause is that of the
/// [`Output`](crate::Output). The movements alone give all balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct LedgerEntry {
    /// The kind of movement.
    pub kind: LedgerKind,
    /// The asset.
    pub asset_id: AssetId,
    /// Amount in units; at least 1.
    pub amount: Units,
    /// The end that gives.
    pub from: LedgerPlace,
    /// The end that receives.
    pub to: LedgerPlace,
    /// The order that reserves, releases, pays, delivers, or pays a fee or receives a rebate; 0 if
    /// none.
    pub order_id: OrderId,
    /// The trade; 0 if none.
    pub trade_id: TradeId,
}
