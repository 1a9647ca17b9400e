//! The edges of the exchange: sockets and sessions on one side, rings on the other.
//!
//! Start at [`Submission`], the message from here to the sequencer; then the four agents, [`OrderEntry`] (OUCH over
//! SoupBinTCP), [`OrderEntryUdp`] (OUCH over UDP), [`MarketData`] (ITCH over MoldUDP64) and [`FeedServer`] (for
//! subscribers that join late), in the order in which an order passes them. They know sockets only as a
//! [`StreamNetwork`] or a [`DatagramNetwork`]: [`Tcp`] and [`Udp`] on a real machine, [`fake`] in a simulation. Sent
//! messages are kept in a [`ReplayStore`], because all of them may be requested again.
//!
//! Architecture invariant: nothing here decides the effect or the time of an order; no byte of an output is sent before
//! its cause is durable; no client pays for the acts of another. No `unsafe`: system calls are in `os`. Nothing blocks
//! and nothing prints.

#![allow(missing_docs, reason = "a room of the venue, no library for others")]

mod submission;
mod drain;
mod network;
mod newcomers;
mod looks;
mod socket_options;
mod tcp;
mod udp;
mod sluice_network;
mod parker;
pub mod fake;
mod contention;
mod counters;
mod time_counts;
mod operator_event;
mod password_hash;
mod credentials;
mod password_checker;
mod logins;
mod gate;
mod faults;
mod replay_store;
mod message_archive;
mod packets;
mod requesters;
mod streams;
mod order_entry;
mod order_entry_port;
mod order_entry_udp;
mod feed_message;
mod stream_filter;
mod delta_streams;
mod market_data;
mod derived_data;
mod feed_server;
mod market_data_fix;

pub use counters::{
    DeltaStreamCount, DeltaStreamCounters, FeedServerCount, FeedServerCounters, MarketDataCount,
    MarketDataCounters, MarketDataFixCount, MarketDataFixCounters, OrderEntryCount,
    OrderEntryCounters, OrderEntryUdpCount, OrderEntryUdpCounters, SluiceCount, SluiceCounters,
    TcpCount, TcpCounters, UdpLossCount,
};
pub use credentials::{Credentials, CredentialsError, plain_password};
pub use delta_streams::{DeltaStream, DeltaStreamOptions, DeltaStreams, StreamReader};
pub use derived_data::{
    DerivedData, DerivedFact, DerivedMirror, DerivedTrade, DerivedUpdate, MirroredInstrument,
    PriceLevel, PriceLevels, Statistics, TapeEntry, TradeKind,
};
pub use drain::{DRAIN_ENDS, DRAIN_REFUSES};
pub use faults::{FAULT_DELAY_MS_MAX, FaultChange, FaultState, FaultTable, SessionFaults};
pub use feed_message::FeedMessage;
pub use feed_server::{
    BookChange, BookChangeKind, FeedBooks, FeedServer, FeedServerNetworks, FeedServerOptions,
    PastAnswer, PastEnds, PastRange, SUBSCRIBERS_MAX, past_rings,
};
pub use gate::{Throttle, refused};
pub use market_data::{MarketData, MarketDataOptions};
pub use market_data_fix::{FIX_DEPTH_MAX, FIX_LEVELS_MAX, MarketDataFix, MarketDataFixOptions};
pub use message_archive::{MessageArchive, MessageArchiveError};
pub use network::{ConnectionId, DatagramNetwork, NetworkEvent, StreamNetwork};
pub use newcomers::Newcomers;
pub use operator_event::{CloseReason, LoginFault, OperatorEvent, OperatorEventSink};
pub use order_entry::{
    CONNECTION_BYTES_MAX, ClientSession, FAILED_LOGINS_MAX, FirstReply, FixSession, Known, Login,
    OrderEntry, OrderEntryLimits, OrderEntryOptions, Ouch42, Ouch50, OuchVersion, PAST_BLOCK_LEN,
    PAST_REPLIES_BYTES_MAX, PastReplies, PastReplyAnswer, PastReplyBlock, PastReplyEnds,
    PastReplyRange, SessionEvent, SessionReplies, SluiceSession, SoupBinTcp, SoupBinTcpOptions,
    past_reply_rings,
};
pub use order_entry_port::OrderEntryPort;
pub use order_entry_udp::{BACKLOG_MAX, OrderEntryUdp, OrderEntryUdpOptions, UdpParticipant};
pub use parker::SocketParker;
pub use password_checker::{PasswordAsker, PasswordChecker};
pub use password_hash::{PasswordHash, PasswordHashError};
pub use replay_store::{Missing, ReplayStore};
pub use requesters::{Network, REQUESTERS_MAX, RequestLimits};
pub use sluice_network::{INBOX_BYTES_MAX, SluiceNetwork};
pub use socket_options::SocketOptions;
pub use stream_filter::{StreamFilter, StreamOptions};
pub use streams::{Dialect, FeedStream, MessageStore, ReplyStreams};
pub use submission::Submission;
pub use tcp::{ACCEPTED_MAX, THREAD_BYTES_MAX, Tcp, TcpBackend, TcpOptions};
pub use time_counts::{TimeCounts, at_most};
pub use udp::{Udp, UdpBackend, UdpLosses, UdpOptions, is_multicast};
