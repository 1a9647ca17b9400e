//! Byte encoding of values: little-endian, without padding. Journal records and snapshots share it.
//!
//! Invariant: each value has exactly one encoding. [`ByteReader`] reads what [`ByteWriter`] writes,
//! and rejects any other bytes.

use core::fmt;

use crate::{
    AccountId, AssetId, Conditions, Instructions, Lots, MoneyClass, MoneyTerms, OrderKey, Pricing,
    Quantity, Scope, SelfMatchPrevention, SessionId, Side, Text, Ticks, Units,
};

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the value is complete.
    Short,
    /// Bytes follow the end of the command.
    Long,
    /// Unknown command kind.
    Kind(u8),
    /// The named field has an invalid value.
    Field(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "the bytes end too early"),
            Self::Long => write!(f, "bytes follow the command"),
            Self::Kind(kind) => write!(f, "no command has kind {kind}"),
            Self::Field(name) => write!(f, "invalid value in field `{name}`"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Flag bits: the optional fields of a [`Scope`] that follow.
const SCOPE_GROUP: u8 = 1;
const SCOPE_ACCOUNT: u8 = 2;

/// A sink for encoded bytes.
pub trait ByteWriter {
    /// Appends these bytes unchanged.
    fn put<const N: usize>(&mut self, bytes: &[u8; N]);

    /// Appends one byte.
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends a `u16` in two bytes.
    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a `u32` in four bytes.
    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends an `i32` in four bytes.
    fn i32(&mut self, value: i32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a `u64` in eight bytes.
    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a `u128` in sixteen bytes.
    fn u128(&mut self, value: u128) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a flag as one byte: 0 or 1.
    fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends the text, padded with spaces to its `N` bytes.
    fn text<const N: usize>(&mut self, text: &Text<N>) {
        self.put(text.as_bytes());
    }

    /// Appends the code of a side, 0 for none; one byte.
    fn side_or_none(&mut self, side: Option<Side>) {
        self.u8(side.map_or(0, Side::code));
    }

    /// Appends 7 bytes.
    fn key(&mut self, key: &OrderKey) {
        self.u16(key.session_id.0);
        self.u8(key.channel);
        self.u32(key.user_ref_num);
    }

    /// Appends 16 bytes.
    fn units(&mut self, units: Units) {
        self.u128(units.get());
    }

    /// Appends 8 bytes.
    fn conditions(&mut self, conditions: &Conditions) {
        self.u8(conditions.self_match_prevention.code());
        self.text(&conditions.self_match_group);
        self.flag(conditions.post_only);
        self.u32(conditions.minimum_quantity.0);
    }

    /// Appends 31 bytes.
    fn instructions(&mut self, instructions: &Instructions) {
        self.u8(instructions.pricing.code());
        self.flag(instructions.all_or_none);
        self.flag(instructions.slide);
        self.u32(instructions.trigger.0);
        self.i32(instructions.offset);
        self.u32(instructions.shown_quantity.0);
        self.u32(instructions.shown_range.0);
        self.u32(instructions.expires_s);
        self.u32(instructions.parent);
        self.u32(instructions.partner);
    }

    /// Appends 16 bytes, 2 more for a group, 4 more for an account.
    fn scope(&mut self, scope: &Scope) {
        let has_account = scope.account_id != AccountId::VENUE;
        let has = u8::from(scope.group_id.is_some()) * SCOPE_GROUP
            + u8::from(has_account) * SCOPE_ACCOUNT;
        self.u8(has);
        self.u16(scope.session_id.0);
        self.text(&scope.firm);
        self.text(&scope.symbol);
        self.side_or_none(scope.side);
        if let Some(group_id) = scope.group_id {
            self.u16(group_id);
        }
        if has_account {
            self.u32(scope.account_id.0);
        }
    }

    /// Appends 37 bytes.
    fn money_terms(&mut self, terms: &MoneyTerms) {
        self.u8(terms.class.code());
        self.u16(terms.base.0);
        self.u16(terms.quote.0);
        self.u64(terms.base_units);
        self.u64(terms.quote_numerator);
        self.u64(terms.quote_denominator);
        self.u64(terms.quantity_max.0);
    }
}

/// Reads values from the front of a byte slice.
#[derive(Debug)]
pub struct ByteReader<'a>(&'a [u8]);

/// Each method reads what the method of [`ByteWriter`] with the same name writes.
///
/// # Errors
/// [`DecodeError::Short`], or [`DecodeError::Field`] with the given name.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "see ByteWriter")]
impl<'a> ByteReader<'a> {
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if no bytes are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `N` bytes unchanged.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.take().map(i32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.take().map(u128::from_le_bytes)
    }

    pub fn flag(&mut self, name: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field(name)),
        }
    }

    pub fn text<const N: usize>(&mut self, name: &'static str) -> Result<Text<N>, DecodeError> {
        Text::from_bytes(self.take()?).ok_or(DecodeError::Field(name))
    }

    /// Reads one byte: the stored code of a `T`.
    pub fn code<T>(
        &mut self,
        name: &'static str,
        from_code: impl Fn(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        from_code(self.u8()?).ok_or(DecodeError::Field(name))
    }

    /// Reads one byte of flags; bits outside `known` are an error.
    pub fn bits(&mut self, name: &'static str, known: u8) -> Result<u8, DecodeError> {
        match self.u8()? {
            bits if bits & !known == 0 => Ok(bits),
            _ => Err(DecodeError::Field(name)),
        }
    }

    pub fn side_or_none(&mut self) -> Result<Option<Side>, DecodeError> {
        match self.u8()? {
            0 => Ok(None),
            code => Side::from_code(code).map(Some).ok_or(DecodeError::Field("side")),
        }
    }

    pub fn session_id(&mut self) -> Result<SessionId, DecodeError> {
        self.u16().map(SessionId)
    }

    pub fn account_id(&mut self) -> Result<AccountId, DecodeError> {
        self.u32().map(AccountId)
    }

    pub fn asset_id(&mut self) -> Result<AssetId, DecodeError> {
        self.u16().map(AssetId)
    }

    pub fn key(&mut self) -> Result<OrderKey, DecodeError> {
        Ok(OrderKey {
            session_id: self.session_id()?,
            channel: self.u8()?,
            user_ref_num: self.u32()?,
        })
    }

    pub fn units(&mut self) -> Result<Units, DecodeError> {
        self.u128().map(Units::new)
    }

    pub fn conditions(&mut self) -> Result<Conditions, DecodeError> {
        Ok(Conditions {
            self_match_prevention: self
                .code("self-match prevention", SelfMatchPrevention::from_code)?,
            self_match_group: self.text("self-match group")?,
            post_only: self.flag("post only")?,
            minimum_quantity: Lots(self.u32()?),
        })
    }

    pub fn instructions(&mut self) -> Result<Instructions, DecodeError> {
        Ok(Instructions {
            pricing: self.code("pricing", Pricing::from_code)?,
            all_or_none: self.flag("all or none")?,
            slide: self.flag("slide")?,
            trigger: Ticks(self.u32()?),
            offset: self.i32()?,
            shown_quantity: Lots(self.u32()?),
            shown_range: Lots(self.u32()?),
            expires_s: self.u32()?,
            parent: self.u32()?,
            partner: self.u32()?,
        })
    }

    pub fn scope(&mut self) -> Result<Scope, DecodeError> {
        let has = self.bits("scope", SCOPE_GROUP | SCOPE_ACCOUNT)?;
        let session_id = self.session_id()?;
        let firm = self.text("firm")?;
        let symbol = self.text("symbol")?;
        let side = self.side_or_none()?;
        let group_id = if has & SCOPE_GROUP != 0 { Some(self.u16()?) } else { None };
        let account_id =
            if has & SCOPE_ACCOUNT != 0 { self.account_id()? } else { AccountId::VENUE };
        if (has & SCOPE_ACCOUNT != 0) != (account_id != AccountId::VENUE) {
            return Err(DecodeError::Field("account"));
        }
        Ok(Scope { session_id, firm, symbol, side, group_id, account_id })
    }

    pub fn money_terms(&mut self) -> Result<MoneyTerms, DecodeError> {
        Ok(MoneyTerms {
            class: self.code("money class", MoneyClass::from_code)?,
            base: self.asset_id()?,
            quote: self.asset_id()?,
            base_units: self.u64()?,
            quote_numerator: self.u64()?,
            quote_denominator: self.u64()?,
            quantity_max: Quantity(self.u64()?),
        })
    }
}
