//! The edges of the exchange: sockets and sessions on one side, rings on the other.
//!
//! Start at [`Submission`], which is what leaves here for the sequencer; then the three agents,
//! [`OrderEntry`] (OUCH over SoupBinTCP), [`OrderEntryUdp`] (OUCH over UDP) and [`MarketData`]
//! (ITCH over MoldUDP64), in the order in which an order passes them. They know sockets only as a
//! [`StreamNetwork`] or a [`DatagramNetwork`]: [`Tcp`] and [`Udp`] on a real machine, [`fake`] in
//! a simulation. What was sent is kept in a [`StreamStore`], because all of it may be asked for
//! again.
//!
//! Architecture invariant: nothing here decides what an order means or when it happened; no byte of
//! an output leaves before its cause is durable; what one client does costs no other anything.
//! No `unsafe`: system calls are in `os`. Nothing blocks and nothing prints.

mod submission;
mod network;
mod tcp;
mod udp;
mod parker;
pub mod fake;
mod counters;
mod notice;
mod account;
mod stream;
mod history;
mod packets;
mod replies;
mod order_entry;
mod order_entry_udp;
mod market_data;

pub use account::{Account, AccountError};
pub use counters::{
    MarketDataCount, MarketDataCounters, OrderEntryCount, OrderEntryCounters, OrderEntryUdpCount,
    OrderEntryUdpCounters, TcpCount, TcpCounters, UdpLossCount, UdpLossCounters,
};
pub use history::{History, HistoryError};
pub use market_data::{MarketData, MarketDataConfig};
pub use network::{ConnectionId, DatagramNetwork, NetworkEvent, StreamNetwork};
pub use notice::{CloseReason, LoginFault, Notice, NoticeSink};
pub use order_entry::{OrderEntry, OrderEntryConfig, OrderEntryLimits};
pub use order_entry_udp::{OrderEntryUdp, OrderEntryUdpConfig};
pub use parker::SocketParker;
pub use stream::{Missing, StreamStore};
pub use submission::Submission;
pub use tcp::Tcp;
pub use udp::{Udp, UdpOptions, is_multicast};
