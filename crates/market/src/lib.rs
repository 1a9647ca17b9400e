//! The vocabulary of the exchange: commands, events, identifiers and units.
//!
//! Start at [`Command`] (every request) and [`Event`] (every result), then [`Input`], a command
//! with its sequence and time.
//!
//! Architecture invariant: no dependency, no I/O, no clock, no float. Quantities and prices are
//! integers, arithmetic on them is checked, and [`Price`] × [`Quantity`] is the only way to make an
//! [`Amount`].
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod assert_layout;
mod price;
mod quantity;
mod amount;
mod time;
mod text;
mod decimal;
mod random;
mod id;
mod instrument;
mod order;
mod conditions;
mod instructions;
mod phase;
mod money;
mod ledger;
mod command;
mod venue;
mod operator;
mod reject;
mod event;
mod outcome;
pub mod mix;
mod digest;
mod input;
mod note;
pub mod bytes;
mod codec;

pub use amount::Amount;
pub use bytes::DecodeError;
pub use command::{
    AccountQuery, AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, Command, CommandKind,
    EnterOrder, EntrySwitch, MassCancel, ModifyOrder, OrderKey, RejectOrder, ReplaceOrder,
    ReplaceTerms,
};
pub use conditions::{ConditionChanges, Conditions, SelfMatchPrevention};
pub use decimal::{DecimalError, DecimalFault, DecimalText, parse_decimal};
pub use digest::EventDigest;
pub use event::{
    Accepted, AccountQueried, AuctionTrade, Booked, CancelHeld, CancelReason, Canceled,
    EntrySwitched, Event, Fill, MassCanceled, Modified, Output, Rejected, Released, Replaced,
    RestateReason, Restated, SelfMatchPrevented, SessionAdded, Shown, SystemEvent, Traded,
    Triggered,
};
pub use id::{AccountId, AssetId, InstrumentId, OrderId, Sequence, SessionId, TradeId};
pub use input::Input;
pub use instructions::{Handling, Instructions, Pricing, Ticks};
pub use instrument::Instrument;
pub use ledger::{
    AccountAdded, Asset, Bucket, DeclineReason, Declined, LedgerEntry, LedgerKind, LedgerPlace,
    MoneyEvent, SessionAssigned, TermsSet,
};
pub use money::{
    AccountSetting, AddAccount, AddAsset, AssignSession, Deposit, MoneyClass, MoneyCommand,
    MoneyTerms, SetAccount, SetFees, SetTerms, StopAccount, Transfer, Units, Withdraw,
};
pub use note::Note;
pub use operator::{
    OperatorAction, OperatorCommand, OperatorDecline, OperatorEffect, OperatorName,
    OperatorOutcome, OperatorResult,
};
pub use order::{Capacity, CustomerType, Display, OrderAttributes, OrderType, Side, TimeInForce};
pub use outcome::{
    OrderEntered, OrderWithdrawn, Outcome, OutputLine, OwnMovement, Settlement, TradeSettled,
};
pub use phase::Phase;
pub use price::Price;
pub use quantity::{Lots, Quantity};
pub use random::SplitMix64;
pub use reject::RejectReason;
pub use text::{ClientOrderId, Firm, SelfMatchGroup, Symbol, Text};
pub use time::{NANOS_PER_DAY, Timestamp};
pub use venue::{
    Allocation, BlockEntry, BustReason, BustTrade, CollarSet, ConfigureInstrument, CorrectTrade,
    Indicated, Indication, InstrumentChange, InstrumentChanged, LiveOrdersMax, Party, PastTrade,
    PhaseCause, PhaseChanged, RemoveInstrument, Scope, SetPhase, TradeBusted, TradeCorrected,
    Uncrossed, VenueCommand, VenueDecline, VenueDeclineReason, VenueEvent,
};
