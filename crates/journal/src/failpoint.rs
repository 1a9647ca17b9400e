//! Failpoints: faults that a build with the feature `failpoints` can switch on, to show that the
//! checks find them (`cargo x ci twins`).
//!
//! No other build has the feature; there every question is a constant `false`.

/// What to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// Neither the checksum of a batch is compared nor its chain: its bytes are taken as they are.
    Unchecked,
    /// A torn tail is taken for the end, and stays.
    Torn,
    /// A commit confirms before what it confirms is as durable as it must be.
    Early,
    /// One record in a hundred or so is replayed as the one before it.
    Twice,
}

/// True if the environment variable `DAMRAK_FAILPOINT` names this fault.
#[cfg(feature = "failpoints")]
pub(crate) fn failpoint(fault: Failpoint) -> bool {
    static NAMED: std::sync::OnceLock<Option<Failpoint>> = std::sync::OnceLock::new();
    let named = NAMED.get_or_init(|| match std::env::var("DAMRAK_FAILPOINT").as_deref() {
        Ok("unchecked") => Some(Failpoint::Unchecked),
        Ok("torn") => Some(Failpoint::Torn),
        Ok("early") => Some(Failpoint::Early),
        Ok("twice") => Some(Failpoint::Twice),
        Ok(other) => panic!("DAMRAK_FAILPOINT is {other}, which names no failpoint"),
        Err(_) => None,
    });
    *named == Some(fault)
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) const fn failpoint(_: Failpoint) -> bool {
    false
}
