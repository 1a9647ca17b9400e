//! The rows of the wire structs as values: each field's name, offset and length, for docs and tests.
//!
//! A struct declared with the macro `layout!` is its specification's table, one field a row, in the
//! specification's order and words. The same rows are its [`Layout::FIELDS`].

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub use zerocopy::IntoBytes;

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in the specification, in snake case.
    pub name: &'static str,
    /// The name of the type, one of those in [`field`](crate::field).
    pub kind: &'static str,
    /// The number of bytes before the field.
    pub offset: usize,
    /// The length of the field, in bytes.
    pub len: usize,
    /// The meaning and the permitted values.
    pub note: &'static str,
}

/// A struct whose layout in bytes follows from its declaration: no padding, any alignment, any bytes are valid.
pub trait Layout:
    FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Copy + 'static
{
    /// The name in the specification.
    const NAME: &'static str;
    /// The rows, in order.
    const FIELDS: &'static [Field];
}

/// A struct that begins with its type character.
pub trait Message: Layout {
    /// That character.
    const TYPE: u8;
}

/// Declares wire structs as tables: name, size in bytes, type character if it has one, then one row per
/// field with its meaning.
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        $title:literal $name:ident [$len:literal] $(= $code:literal)? {
            $($field:ident: $kind:ty, $note:literal;)+
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $(#[doc = $note] pub $field: $kind,)+
        }

        const _: () = assert!(size_of::<$name>() == $len);

        impl $crate::layout::Layout for $name {
            const NAME: &'static str = $title;
            const FIELDS: &'static [$crate::layout::Field] = &[$(
                $crate::layout::Field {
                    name: stringify!($field),
                    kind: stringify!($kind),
                    offset: core::mem::offset_of!($name, $field),
                    len: size_of::<$kind>(),
                    note: $note,
                },
            )+];
        }

        $(impl $crate::layout::Message for $name {
            const TYPE: u8 = $code;
        })?
    )+ };
}
pub(crate) use layout;
