//! How a venue stops: first its gateways take nothing more, then, when all that was taken is answered, they end their
//! sessions. One gauge holds the stage; it only rises.

/// From this value on nothing is taken from clients. Messages taken before are answered.
pub const DRAIN_REFUSES: u64 = 1;

/// From this value on each session is ended as soon as its replies were sent.
pub const DRAIN_ENDS: u64 = 2;

/// How many end-of-session packets a UDP session sends, since datagrams may be lost.
pub(crate) const END_PACKETS: u32 = 3;
