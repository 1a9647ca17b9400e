//! Layouts in bytes, asserted at compile time.
//!
//! Invariant: `docs/layouts.md` draws each of them, as `cargo x tidy` checks.

/// Asserts the size of a type, and the offset of each of its fields, in bytes.
///
/// ```
/// #[repr(C)]
/// struct Level {
///     oldest: u32,
///     youngest: u32,
/// }
///
/// market::assert_layout! {
///     Level, 8 { oldest: 0, youngest: 4 }
/// }
/// ```
#[macro_export]
macro_rules! assert_layout {
    ($name:ident, $size:literal { $($field:ident: $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            $(assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($name), "::", stringify!($field))
            );)*
        };
    };
}
