//! The gateway from outside: clients on one side, rings on the other.
//!
//! Most tests use networks in memory and a time of their own; `sockets` and `udp_sockets` repeat the
//! journeys over the loopback of this machine.

mod harness;
mod logging_in;
mod orders;
mod replies;
mod malformed;
mod datagrams;
mod market_data;
mod delta_streams;
mod fix_orders;
mod sockets;
mod udp_sockets;
