//! The subscriber's end of the wire: market data received, gaps filled, books rebuilt.
//!
//! Start at [`FeedBook::apply`], which takes one ITCH message at a time and refuses messages that
//! contradict the feed so far; [`FeedReceiver`] receives from sockets and delivers the messages in
//! order; [`FeedSubscriber`] has both, and joins at any time by a snapshot.
//!
//! Invariant: a message that is refused changes nothing.

mod book;
mod receiver;
mod join;

pub use book::{FeedBook, FeedError, FeedInstrument, FeedOrder, FeedPlace, FeedViolation, Level};
pub use join::{
    Begin, Connect, Delivered, FeedChannel, FeedSubscriber, FeedSubscriberError, JoinReport, Start,
    TcpFeed, connect_to,
};
pub use receiver::{
    FeedLineReport, FeedReceiver, FeedReceiverConfig, FeedReceiverError, FeedReceiverReport,
    FeedSource, RECEIVE_BUFFER_BYTES, feed_socket,
};
