//! Faults that a check plants to show that it would find them: `cargo x ci twins builds`.
//!
//! Without the feature `planted`, which no other build has, nothing can be planted and each question is
//! a constant `false`.

/// What to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A checksum is not compared.
    Unchecked,
    /// A torn tail is taken for the end, and stays.
    Torn,
    /// A commit confirms before what it confirms is as durable as it must be.
    Early,
    /// One record in a hundred or so is replayed as the one before it.
    Twice,
}

/// Is it planted? The environment names it in `DAMRAK_PLANTED`.
#[cfg(feature = "planted")]
pub(crate) fn planted(fault: Planted) -> bool {
    static NAMED: std::sync::OnceLock<Option<Planted>> = std::sync::OnceLock::new();
    let named = NAMED.get_or_init(|| match std::env::var("DAMRAK_PLANTED").as_deref() {
        Ok("unchecked") => Some(Planted::Unchecked),
        Ok("torn") => Some(Planted::Torn),
        Ok("early") => Some(Planted::Early),
        Ok("twice") => Some(Planted::Twice),
        Ok(other) => panic!("DAMRAK_PLANTED is {other}, which is no fault"),
        Err(_) => None,
    });
    *named == Some(fault)
}

#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}
