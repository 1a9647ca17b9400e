//! Byte encoding of values: little-endian, without padding; prices and quantities in as few bytes as they
//! need. Journal records and snapshots share it.
//!
//! Invariant: each value has exactly one encoding. [`ByteReader::read`] reads the bytes that [`ByteWriter::write`]
//! wrote, and rejects any others.

use core::fmt;

use crate::{
    AccountId, AssetId, InstrumentId, Lots, OrderId, Price, Quantity, Sequence, SessionId, Text,
    Ticks, Timestamp, TradeId, Units,
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

/// A sink for encoded bytes.
pub trait ByteWriter: Sized {
    /// Appends these bytes unchanged.
    fn put<const N: usize>(&mut self, bytes: &[u8; N]);

    /// Appends these bytes unchanged, however many they are.
    fn put_slice(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.put(&[*byte]));
    }

    /// Appends the encoding of a value.
    #[inline(always)]
    fn write(&mut self, value: &impl Encoded) {
        value.write_to(self);
    }
}

/// Reads values from the front of a byte slice.
#[derive(Debug)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// A reader of all these bytes.
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
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads `len` bytes unchanged.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn take_slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads the value of the field with this name.
    ///
    /// # Errors
    /// [`DecodeError::Short`], or [`DecodeError::Field`] with this name or that of a field within.
    #[inline(always)]
    pub fn read<T: Encoded>(&mut self, name: &'static str) -> Result<T, DecodeError> {
        T::read_from(self, name)
    }

    /// Reads the bytes after a kind byte; `None` if no `T` has this kind.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline]
    pub fn read_kind<T: Kinds>(&mut self, kind: u8) -> Result<Option<T>, DecodeError> {
        T::read_kind(kind, self)
    }
}

/// A value with one encoding. [`encoded!`](crate::encoded) and [`kinds!`](crate::kinds) implement it
/// from a list of fields or variants.
pub trait Encoded: Sized {
    /// Appends the encoding.
    fn write_to(&self, out: &mut impl ByteWriter);

    /// Reads the bytes that [`write_to`](Self::write_to) wrote.
    ///
    /// # Errors
    /// [`DecodeError::Short`], or [`DecodeError::Field`] with `name` or the name of a field within.
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError>;
}

/// An enum that is encoded as a kind byte and the fields of the variant.
pub trait Kinds: Encoded {
    /// Reads the bytes after the kind byte; `None` if no variant has this kind.
    ///
    /// # Errors
    /// As [`Encoded::read_from`].
    fn read_kind(kind: u8, from: &mut ByteReader<'_>) -> Result<Option<Self>, DecodeError>;
}

/// Implements [`Encoded`] for structs: the listed fields in this order. Fields after `;` are not
/// encoded and have this value when read. A struct with a field that is not listed does not compile.
#[macro_export]
macro_rules! encoded {
    ($($name:ident { $($field:ident),* $(; $($left_out:ident = $value:expr),*)? })*) => {$(
        impl $crate::bytes::Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl $crate::bytes::ByteWriter) {
                let Self { $($field,)* $($($left_out: _,)*)? } = self;
                $(out.write($field);)*
            }

            #[inline]
            fn read_from(
                from: &mut $crate::bytes::ByteReader<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $($field: from.read(stringify!($field))?,)*
                    $($($left_out: $value,)*)?
                })
            }
        }
    )*};
}

/// Implements [`Encoded`] and [`Kinds`] for enums: each variant has a kind byte, and names for its
/// fields. A variant after `else` has no kind of its own: its field is an enum with further kinds.
#[macro_export]
macro_rules! kinds {
    ($($name:ident {
        $($kind:literal => $variant:ident $(($($field:ident),+))?,)*
        $(else $($nested:ident),+)?
    })*) => {$(
        impl $crate::bytes::Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl $crate::bytes::ByteWriter) {
                match self {
                    $(Self::$variant $(($($field),+))? => {
                        out.put(&[$kind]);
                        $($(out.write($field);)+)?
                    })*
                    $($(Self::$nested(nested) => out.write(nested),)+)?
                }
            }

            #[inline]
            fn read_from(
                from: &mut $crate::bytes::ByteReader<'_>,
                name: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                let [kind] = from.take()?;
                from.read_kind(kind)?.ok_or($crate::DecodeError::Field(name))
            }
        }

        impl $crate::bytes::Kinds for $name {
            #[inline]
            fn read_kind(
                kind: u8,
                from: &mut $crate::bytes::ByteReader<'_>,
            ) -> Result<Option<Self>, $crate::DecodeError> {
                match kind {
                    $($kind => Ok(Some(Self::$variant $(($(from.read(stringify!($field))?),+))?)),)*
                    _ => {
                        $($(if let Some(nested) = from.read_kind(kind)? {
                            return Ok(Some(Self::$nested(nested)));
                        })+)?
                        Ok(None)
                    }
                }
            }
        }
    )*};
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        impl Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl ByteWriter) {
                out.put(&self.to_le_bytes());
            }

            #[inline]
            fn read_from(from: &mut ByteReader<'_>, _: &'static str) -> Result<Self, DecodeError> {
                from.take().map(Self::from_le_bytes)
            }
        }
    )*};
}

integers! { u8 u16 u32 i32 u64 u128 i128 }

/// Types around one field, which is encoded in their place.
macro_rules! newtypes {
    ($($name:ident)*) => {$(
        impl Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl ByteWriter) {
                out.write(&self.0);
            }

            #[inline]
            fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                from.read(name).map(Self)
            }
        }
    )*};
}

newtypes! {
    AccountId AssetId InstrumentId OrderId Sequence SessionId Ticks Timestamp TradeId
}

/// Types around a number of 64 bits that is mostly small: seven bits a byte from the lowest on, in as few
/// bytes as the number needs, 1 to 10. All bytes but the last have their high bit set.
macro_rules! compact {
    ($($name:ident)*) => {$(
        impl Encoded for $name {
            #[inline]
            fn write_to(&self, out: &mut impl ByteWriter) {
                let mut rest = self.0;
                while rest >= 0x80 {
                    out.put(&[rest as u8 | 0x80]);
                    rest >>= 7;
                }
                out.put(&[rest as u8]);
            }

            #[inline]
            fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                let mut value = 0;
                for shift in (0..u64::BITS).step_by(7) {
                    let [byte] = from.take()?;
                    let bits = u64::from(byte & 0x7f);
                    let is_lost = shift + 7 > u64::BITS && bits >> (u64::BITS - shift) != 0;
                    // A last byte of 0 would be a second encoding.
                    if is_lost || (shift > 0 && byte == 0) {
                        return Err(DecodeError::Field(name));
                    }
                    value |= bits << shift;
                    if byte < 0x80 {
                        return Ok(Self(value));
                    }
                }
                Err(DecodeError::Field(name))
            }
        }
    )*};
}

compact! { Price Quantity }

/// As a [`Quantity`], of at most 48 bits.
impl Encoded for Lots {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.quantity());
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let Quantity(lots) = from.read(name)?;
        Lots::checked(lots).ok_or(DecodeError::Field(name))
    }
}

/// One byte: 0 or 1.
impl Encoded for bool {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.put(&[u8::from(*self)]);
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        match from.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(DecodeError::Field(name)),
        }
    }
}

/// A flag, and the value if there is one.
impl<T: Encoded> Encoded for Option<T> {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.is_some());
        if let Some(value) = self {
            out.write(value);
        }
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        from.read::<bool>(name)?.then(|| from.read(name)).transpose()
    }
}

/// Padded with spaces to its `N` bytes.
impl<const N: usize> Encoded for Text<N> {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.put(self.as_bytes());
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Self::from_bytes(from.take()?).ok_or(DecodeError::Field(name))
    }
}

/// 16 bytes.
impl Encoded for Units {
    #[inline]
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.get());
    }

    #[inline]
    fn read_from(from: &mut ByteReader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        from.read(name).map(Self::new)
    }
}
