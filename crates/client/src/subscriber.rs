//! The subscriber's end of the wire: market data received, gaps filled, books rebuilt.
//!
//! Start at [`FeedBook::apply`], which takes one ITCH message at a time and refuses whatever a
//! sound feed cannot say; [`FeedReceiver`] is the socket side, which delivers the messages in
//! order.
//!
//! Invariant: a message that is refused changes nothing.

mod book;
mod receiver;

pub use book::{FeedBook, FeedError, FeedInstrument, FeedOrder, FeedViolation, Level};
pub use receiver::{
    FeedReceiver, FeedReceiverConfig, FeedReceiverError, FeedReceiverReport, FeedSource,
    RECEIVE_BUFFER_BYTES,
};
