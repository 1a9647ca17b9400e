//! Failpoints: faults that a build with the feature `failpoints` can switch on, to show that the
//! checks find them (`cargo x ci twins`).
//!
//! No other build has the feature; there every query is a constant `false`.

/// The fault to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// Neither the checksum of a batch nor its chain is compared: its bytes are accepted as they
    /// are.
    Unchecked,
    /// A torn tail is taken for the end, and stays.
    Torn,
    /// A commit confirms records before they are as durable as they must be.
    Early,
    /// One input in ten, if an input stands before it in its batch, is replayed as that one.
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
