//! The counters of the gateways: each is written by one agent and read by any thread.
//!
//! Invariant: a counter has one writer; the counters of one reading are not all of the same instant.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::gate::GateCounters;

/// A number that one agent counts up and any thread may read.
///
/// Relaxed throughout: each number is right alone, and no other data is read on the strength of it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Called only by the one agent that owns the counter, so load and store make no race.
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Defines the counters that one agent keeps and the snapshot that others read, with the same names.
macro_rules! counters {
    (
        $(#[$doc:meta])* $live:ident,
        $(#[$snapshot_doc:meta])* $snapshot:ident {
            $($(#[$field_doc:meta])* $field:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $live { $(pub(crate) $field: Counter,)* }

        $(#[$snapshot_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $snapshot { $($(#[$field_doc])* pub $field: u64,)* }

        impl $live {
            /// All of them as they are now.
            #[must_use]
            pub fn read(&self) -> $snapshot {
                $snapshot { $($field: self.$field.get(),)* }
            }
        }

        impl $snapshot {
            /// Each with its name, in declaration order.
            #[must_use]
            pub const fn named(&self) -> [(&'static str, u64); [$(stringify!($field)),*].len()] {
                [$((stringify!($field), self.$field),)*]
            }
        }
    };
}

impl OrderEntryCounters {
    pub(crate) fn gate(&self) -> GateCounters<'_> {
        let Self { refused, duplicates, blocked, .. } = self;
        GateCounters { refused, duplicates, blocked }
    }
}

impl OrderEntryUdpCounters {
    pub(crate) fn gate(&self) -> GateCounters<'_> {
        let Self { refused, duplicates, blocked, .. } = self;
        GateCounters { refused, duplicates, blocked }
    }
}

counters! {
    /// The counters of a [`Tcp`](crate::Tcp).
    TcpCounters,
    /// [`TcpCounters`] at one moment. Everything is a total.
    TcpCount {
        /// Connections that were closed at once because the system was out of descriptors or memory.
        refused,
        /// Times accepting paused because the spare descriptor was gone as well.
        pauses,
    }
}

counters! {
    /// Datagrams lost at a [`Udp`](crate::Udp) socket, not on the way.
    UdpLossCounters,
    /// [`UdpLossCounters`] at one moment. Everything is a total.
    UdpLossCount {
        /// Dropped by the kernel because the receive buffer was full, which it counts in 32 bits, or no memory of a card's queue
        /// was free.
        dropped,
        /// Received but longer than [`UdpOptions::datagram_bytes_max`], and not delivered.
        ///
        /// [`UdpOptions::datagram_bytes_max`]: crate::UdpOptions::datagram_bytes_max
        truncated,
        /// Refused by the kernel on the way out: no route, or a firewall.
        refused,
        /// Runs of datagrams refused where each datagram could be sent alone; after the first refusal all are sent
        /// alone.
        runs_refused,
        /// Times that io_uring had no buffer left. Datagrams that arrived then waited in the receive buffer; none was
        /// lost by it.
        buffers_exhausted,
        /// Received from a queue of a card with a length or a checksum that is wrong, and not delivered. In all other ways
        /// the system drops such datagrams itself.
        damaged,
    }
}

counters! {
    /// The counters of a [`SluiceNetwork`](crate::SluiceNetwork).
    SluiceCounters,
    /// [`SluiceCounters`] at one moment. Everything is a total.
    SluiceCount {
        /// Received, of any kind.
        datagrams,
        /// Of these, those that asked for a token and were answered with one.
        hellos,
        /// Of these, those that were no hello and had no token of their address; they were ignored.
        strange,
        /// Of these, those dropped because too many bytes of their session waited to be read.
        inbox_full,
        /// Of these, logins dropped because the most connections of one turn had been opened.
        put_off,
        /// Longer than a datagram may be, and not read.
        too_long,
        /// Sent to sessions.
        packets,
    }
}

counters! {
    /// The counters of [`OrderEntry`](crate::OrderEntry).
    OrderEntryCounters,
    /// [`OrderEntryCounters`] at one moment. Everything is a total, unless it says "now".
    OrderEntryCount {
        connections,
        /// Connections open now that have not logged in.
        connections_pending,
        /// Bytes in the buffers of all connections at the last check of the timers.
        connection_bytes,
        /// Pairs of address and user remembered now because a password was wrong.
        failed_logins_kept,
        accepted,
        /// Connections closed at once: the venue stops, or the system was out of descriptors.
        turned_away,
        /// Connections without a session that were closed because newer ones needed their place.
        pushed_out,
        logins,
        logins_rejected,
        /// Logins that wait now for the check of a hash.
        logins_waiting,
        /// Passwords that were compared with a hash.
        password_checks,
        /// Connections closed because no login came in time.
        login_timeouts,
        logouts,
        /// Sessions whose orders were canceled because they were cut off.
        disconnect_cancels,
        /// OUCH messages received, malformed ones included.
        messages,
        /// Messages submitted to the sequencer.
        submitted,
        /// Orders and replaces submitted as rejected: of a foreign firm, or above the rate.
        refused,
        /// Messages whose number was used before, ignored.
        duplicates,
        /// Messages dropped because their session was blocked; one starts the block.
        blocked,
        /// OUCH messages that could not be read, and were ignored.
        malformed,
        /// Connections closed because they broke the session protocol.
        violations,
        /// Connections closed because nothing had been heard for too long.
        silent_closed,
        /// Connections closed because they took nothing for too long.
        slow_closed,
        /// Times a connection was not read because the submissions ring was full.
        stalls,
        /// Faults that operators have injected: orders rejected, connections cut, messages left out.
        injected_rejects,
        injected_disconnects,
        injected_gaps,
        /// Sessions whose replies are held back by a delay now.
        delayed,
        /// Lines of the ring of outputs.
        outputs,
        replies,
        /// Replies handed to a connection, repeated ones included.
        replies_sent,
        /// Bytes of replies stored now, index included.
        store_bytes,
        bytes_in,
        bytes_out,
    }
}

counters! {
    /// The counters of [`OrderEntryUdp`](crate::OrderEntryUdp).
    OrderEntryUdpCounters,
    /// [`OrderEntryUdpCounters`] at one moment. Everything is a total, unless it says "now".
    OrderEntryUdpCount {
        datagrams,
        /// Datagrams longer than the receive buffer, dropped.
        too_long,
        /// Datagrams from addresses that name no session, dropped.
        unknown_senders,
        /// Dropped because too many of their session waited.
        excess,
        /// Datagrams for a session that has not been added yet, dropped.
        early,
        /// Datagrams of a session that speaks FIX, dropped.
        other_dialect,
        /// OUCH messages received, malformed ones included.
        messages,
        /// Messages submitted to the sequencer.
        submitted,
        /// Orders and replaces submitted as rejected: of a foreign firm, or above the rate.
        refused,
        /// Messages whose number was used before, ignored.
        duplicates,
        /// Messages dropped because their session was blocked; one starts the block.
        blocked,
        /// Messages and datagrams that could not be read, and were ignored.
        malformed,
        /// Turns in which nothing was received because the submissions ring was full.
        stalls,
        /// Messages received that wait for a slot in the submissions ring now.
        backlog,
        /// Lines of the ring of outputs.
        outputs,
        replies,
        /// Bytes of replies stored now, index included.
        store_bytes,
        /// Packets of replies sent, repeated ones and heartbeats included.
        packets,
        bytes_out,
        /// Requests for earlier replies that were answered.
        requests_answered,
        /// Requests that were not answered: unknown session, no such replies, or too many in one turn.
        requests_unanswered,
        /// Replies that were dropped from the store before they could be sent once.
        replies_skipped,
    }
}

counters! {
    /// The counters of [`MarketData`](crate::MarketData).
    MarketDataCounters,
    /// [`MarketDataCounters`] at one moment. Everything is a total, unless it says "now".
    MarketDataCount {
        /// Lines of the ring of outputs.
        outputs,
        /// Messages of the feed so far; also the number of the newest.
        messages,
        /// Packets sent to the feed, heartbeats included.
        packets,
        /// Heartbeats among them.
        heartbeats,
        bytes_out,
        /// Turns that ended before all was sent because the network was full.
        stalls,
        /// Turns that took no outputs because the feed server had not taken the messages before.
        held_up,
    }
}

counters! {
    /// The counters of a [`DeltaStream`](crate::DeltaStream).
    DeltaStreamCounters,
    /// [`DeltaStreamCounters`] at one moment. Everything is a total.
    DeltaStreamCount {
        /// Messages taken from its ring.
        messages,
        /// Messages that the ring had overwritten before they were taken.
        dropped,
        /// Ranges of dropped messages.
        gaps,
        /// Packets sent, heartbeats included; one for each destination.
        packets,
        heartbeats,
        bytes_out,
        /// Turns that ended before all was sent because the network was full.
        stalls,
    }
}

counters! {
    /// The counters of [`FeedServer`](crate::FeedServer).
    FeedServerCounters,
    /// [`FeedServerCounters`] at one moment. Everything is a total, unless it says "now".
    FeedServerCount {
        /// Messages of the feed taken; also the number of the newest.
        messages,
        /// Bytes of messages in memory now, index included.
        store_bytes,
        /// Displayed orders in its copy of the books now.
        orders,
        /// Requests for lost messages received, malformed ones included.
        requests,
        requests_answered,
        /// Requests refused: from outside the allowed networks, or above the rate.
        requests_refused,
        /// Addresses remembered now because they sent requests.
        requesters_kept,
        /// Requests not answered: malformed, too long, unknown session, no such messages, too many in one turn, or for
        /// messages that are being read from the journal.
        requests_unanswered,
        /// Pages of older messages read from the journal.
        past_pages,
        /// Pages that could not be read: the journal no longer has them.
        past_gone,
        /// Connections of both services open now.
        connections,
        accepted,
        /// Connections closed at once because all places were taken, or the system was out of descriptors.
        turned_away,
        logins_rejected,
        /// Visits to a connection to send it messages. A connection whose socket is full is not visited.
        served,
        /// Connections whose sockets took none of the waiting bytes, at the last check of the timers.
        stalled,
        /// Snapshots begun, and those that were sent to their end.
        snapshots,
        snapshots_complete,
        /// Copies of the books made for snapshots: subscribers that log in before the next message share one.
        copies,
        /// Logins to the feed over TCP.
        streams,
        /// Messages sent over TCP, in snapshots and streams.
        messages_sent,
        bytes_out,
        /// Connections closed because they took nothing for too long, or a snapshot took too long.
        slow_closed,
        /// Connections closed because they were silent, or did not log in.
        silent_closed,
        /// Connections that we have ended and that the client did not close in time.
        closed,
        /// Connections closed because they broke the session protocol.
        violations,
    }
}

counters! {
    /// The counters of [`MarketDataFix`](crate::MarketDataFix).
    MarketDataFixCounters,
    /// [`MarketDataFixCounters`] at one moment. Everything is a total, unless it says "now".
    MarketDataFixCount {
        /// Number of the last message of the feed that is available to clients.
        sequence,
        /// Updates that were overwritten before they could be taken.
        updates_missed,
        /// Connections open now.
        connections,
        accepted,
        /// Connections closed at once: the venue stops, the system was out of descriptors, or newer ones needed
        /// their place.
        turned_away,
        logins,
        logins_rejected,
        /// Market data requests, and those of them that were rejected.
        requests,
        requests_rejected,
        /// Subscriptions now.
        subscriptions,
        /// Messages with a whole book, and with changes or trades.
        snapshots,
        increments,
        /// Times a client had no room for changes: it gets the later state in one message.
        held_back,
        /// Subscriptions that ended because trades were missed.
        trades_missed,
        /// Resend requests, which are filled: the books are sent anew.
        resends_filled,
        /// Connections closed because they took nothing for too long.
        slow_closed,
        /// Connections closed because nothing had been heard for too long.
        silent_closed,
        /// Connections closed because they broke the session protocol.
        violations,
        bytes_out,
    }
}
