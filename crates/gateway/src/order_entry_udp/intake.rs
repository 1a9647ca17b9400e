//! The intake of datagrams: their users, their turns, and the commands in them.
//!
//! Invariant: datagrams of one session cost another neither its turn nor its datagrams. A session has a bounded share
//! of each turn and of memory; datagrams that do not fit are dropped and counted.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use market::{SessionId, Text, Timestamp};
use ring::{Full, Producer};
use wire::{moldudp64, ouch};

use super::{ANSWERS_PER_SESSION, UdpUser, waiting::Waiting};
use crate::{
    OperatorEvent, OrderEntryUdpCounters, ReplayStore, Submission,
    gate::{Gate, Verdict},
    operator_event::OperatorEvents,
    streams::{Dialect, ReplyStreams},
    submission::steps,
};

/// The most taken in one turn. The datagram that reaches a share is taken whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// The share of one session, before others have their turn.
    session: Share,
    /// The share of all sessions.
    turn: Share,
}

impl Shares {
    /// The shares while only one session of the venue trades.
    pub(super) const ALONE: Self = Self {
        session: Share { datagrams: 64, messages: 512 },
        turn: Share { datagrams: 1_024, messages: 1_024 },
    };

    /// The shares while several trade, by any protocol: their requests wait for the end of the turn.
    const SHARED: Self = Self {
        session: Share { datagrams: 64, messages: 64 },
        turn: Share { datagrams: 256, messages: 256 },
    };
}

/// An amount of datagrams and messages: the amount taken, or the most allowed. A datagram may have hundreds of
/// messages, and each costs work, with or without an effect. A message whose command searches counts as several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    datagrams: usize,
    messages: usize,
}

impl Share {
    const fn is_within(self, most: Self) -> bool {
        self.datagrams < most.datagrams && self.messages < most.messages
    }
}

/// The intake of datagrams.
pub(super) struct Intake {
    pub(super) session: [u8; 10],
    pub(super) by_address: BTreeMap<SocketAddr, usize>,
    /// The datagrams that wait for their session's turn, by user.
    pub(super) waiting: Vec<Waiting>,
    /// Users with waiting datagrams, each once, longest waiting first.
    pub(super) turns: VecDeque<usize>,
    /// The most taken in this turn.
    pub(super) shares: Shares,
    /// The total taken in this turn.
    pub(super) taken: Share,
    /// The previous sender, who is likely to be the next.
    pub(super) last_sender: Option<(SocketAddr, usize)>,
    pub(super) usernames: Vec<Text<6>>,
    /// The gate of each user, which limits its messages.
    pub(super) gates: Vec<Gate>,
    pub(super) submissions: Producer<Submission>,
    /// The number of slots in the ring.
    pub(super) slots: usize,
    /// The slots known to be free; looked up again at 0, and in each turn with work.
    pub(super) free: usize,
    /// Messages of one datagram that found no slot in the ring; no other datagram is taken before the backlog is
    /// empty.
    pub(super) backlog: VecDeque<Submission>,
    /// Requests of this turn for earlier replies.
    pub(super) requests: Vec<Request>,
    /// Reused for each waiting datagram.
    pub(super) datagram: Vec<u8>,
    pub(super) counters: Arc<OrderEntryUdpCounters>,
    pub(super) operator_events: OperatorEvents,
}

/// A request for earlier replies.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) user: usize,
    pub(super) first: u64,
    pub(super) count: u16,
}

impl Intake {
    /// Begins a turn; `is_shared` is true while several sessions trade.
    pub(super) fn begin_turn(&mut self, is_shared: bool) {
        self.shares = if is_shared { Shares::SHARED } else { Shares::ALONE };
        if self.taken.datagrams > 0 {
            self.taken = Share::default();
            self.free = self.submissions.free();
            for waiting in &mut self.waiting {
                (waiting.taken, waiting.answered) = (Share::default(), 0);
            }
        }
    }

    /// True if a datagram may be taken now: there is a slot, and the turn has not had its share.
    fn has_room(&mut self) -> bool {
        self.taken.is_within(self.shares.turn) && !self.is_full()
    }

    /// True if the ring takes no more for now.
    pub(super) fn is_full(&mut self) -> bool {
        if self.free == 0 {
            self.free = self.submissions.free();
        }
        self.free == 0 || !self.backlog.is_empty()
    }

    /// Receives one datagram: takes it at once if its session has its turn, else keeps it for that turn.
    pub(super) fn receive(
        &mut self,
        replies: &ReplyStreams<ReplayStore>,
        from: SocketAddr,
        datagram: &[u8],
        received: Timestamp,
    ) {
        self.counters.datagrams.add(1);
        let Some(user) = self.user(from) else {
            self.counters.unknown_senders.add(1);
            return self.notify(OperatorEvent::UnknownSender { address: from });
        };
        let waiting = &self.waiting[user];
        let has_turn = waiting.is_empty() && waiting.taken.is_within(self.shares.session);
        if has_turn && self.has_room() {
            return self.take(replies, user, from, datagram, received);
        }
        let waiting = &mut self.waiting[user];
        let is_first = waiting.is_empty();
        if !waiting.push(received, datagram) {
            self.counters.excess.add(1);
            let username = self.usernames[user];
            return self.notify(OperatorEvent::ExcessDatagrams { username, address: from });
        }
        if is_first {
            self.turns.push_back(user);
        }
    }

    /// Takes waiting datagrams, by turns, and returns their number.
    pub(super) fn take_waiting(
        &mut self,
        replies: &ReplyStreams<ReplayStore>,
        addresses: &[UdpUser],
    ) -> usize {
        let before = self.taken.datagrams;
        for _ in 0..self.turns.len() {
            if !self.has_room() {
                break;
            }
            let user = self.turns.pop_front().expect("there are as many");
            let from = addresses[user].address;
            let mut datagram = std::mem::take(&mut self.datagram);
            while self.waiting[user].taken.is_within(self.shares.session)
                && self.has_room()
                && let Some(received) = self.waiting[user].pop(&mut datagram)
            {
                self.take(replies, user, from, &datagram, received);
            }
            self.datagram = datagram;
            if !self.waiting[user].is_empty() {
                self.turns.push_back(user);
            }
        }
        self.taken.datagrams - before
    }

    /// Takes more waiting datagrams once all sessions have had their share, in rounds of the same share again. Half of
    /// the ring is left for sessions whose datagrams come next, and answers are left for the next turn.
    pub(super) fn take_more(
        &mut self,
        replies: &ReplyStreams<ReplayStore>,
        addresses: &[UdpUser],
    ) -> usize {
        let mut count = 0;
        loop {
            self.free = self.submissions.free();
            let is_over = !self.taken.is_within(self.shares.turn) || self.free < self.slots / 2;
            if is_over || self.turns.is_empty() {
                return count;
            }
            for user in &self.turns {
                let waiting = &mut self.waiting[*user];
                waiting.taken = Share::default();
                if waiting.answered == ANSWERS_PER_SESSION {
                    waiting.taken = self.shares.session;
                }
            }
            match self.take_waiting(replies, addresses) {
                0 => return count,
                more => count += more,
            }
        }
    }

    /// Takes one datagram: as orders, or as a request for earlier replies.
    fn take(
        &mut self,
        replies: &ReplyStreams<ReplayStore>,
        user: usize,
        from: SocketAddr,
        datagram: &[u8],
        received: Timestamp,
    ) {
        self.taken.datagrams += 1;
        self.waiting[user].taken.datagrams += 1;
        let Some(session_id) = replies.session(user) else {
            return self.counters.early.add(1);
        };
        let spoken = replies.dialect(user, false);
        if let Some(dialect) = spoken.filter(|spoken| *spoken != Dialect::Ouch) {
            self.counters.other_dialect.add(1);
            let username = self.usernames[user];
            return self.notify(OperatorEvent::OtherDialect { username, address: from, dialect });
        }
        let taken = match datagram {
            [] => Err("the datagram is empty".to_owned()),
            [b'0'..=b'9', ..] => self.take_request(user, datagram),
            [first, ..] if *first >= b'A' => {
                self.submit(user, session_id, datagram, received).map_err(|fault| fault.to_string())
            }
            blocks => return self.take_blocks(user, session_id, blocks, received, from),
        };
        if let Err(fault) = taken {
            self.malformed(user, from, fault);
        }
    }

    fn user(&mut self, from: SocketAddr) -> Option<usize> {
        if let Some((address, user)) = self.last_sender
            && address == from
        {
            return Some(user);
        }
        let user = *self.by_address.get(&from)?;
        self.last_sender = Some((from, user));
        Some(user)
    }

    /// Takes several messages, each after its length. A message that cannot be read costs only itself; a length that
    /// does not fit costs all that follows.
    fn take_blocks(
        &mut self,
        user: usize,
        session_id: SessionId,
        mut blocks: &[u8],
        received: Timestamp,
        from: SocketAddr,
    ) {
        while !blocks.is_empty() {
            self.taken.messages += 1;
            self.waiting[user].taken.messages += 1;
            let Some((message, rest)) = first_block(blocks) else {
                let fault = format!("{} bytes at the end are not a message block", blocks.len());
                return self.malformed(user, from, fault);
            };
            if let Err(fault) = self.submit(user, session_id, message, received) {
                self.malformed(user, from, fault.to_string());
            }
            blocks = rest;
        }
    }

    fn take_request(&mut self, user: usize, datagram: &[u8]) -> Result<(), String> {
        let request = moldudp64::Request::parse(datagram).map_err(|fault| fault.to_string())?;
        let answered = &mut self.waiting[user].answered;
        if request.session != self.session || *answered == ANSWERS_PER_SESSION {
            self.counters.requests_unanswered.add(1);
            return Ok(());
        }
        *answered += 1;
        let (first, count) = (request.sequence_number, request.count);
        self.requests.push(Request { user, first, count });
        Ok(())
    }

    /// Submits one OUCH message if its session may send it, by way of the backlog if the ring has no slot.
    fn submit(
        &mut self,
        user: usize,
        session_id: SessionId,
        message: &[u8],
        received: Timestamp,
    ) -> Result<(), ouch::Malformed> {
        self.counters.messages.add(1);
        let command = ouch::command(message, session_id, received)?;
        // A UDP turn is long enough for several.
        let beyond_one = steps(&command, true) - 1;
        self.taken.messages += beyond_one;
        self.waiting[user].taken.messages += beyond_one;
        let verdict = self.gates[user].check(&command, received.0);
        let Some(command) = verdict.submits(command, &self.counters.gate()) else {
            if verdict == Verdict::Block {
                let (username, gate) = (self.usernames[user], &self.gates[user]);
                let seconds = gate.blocked_s(received.0);
                self.notify(OperatorEvent::Blocked { username, seconds });
            }
            return Ok(());
        };
        let submission = Submission { received, command };
        if !self.backlog.is_empty() {
            self.backlog.push_back(submission);
        } else if let Err(Full(submission)) = self.submissions.try_publish(submission) {
            self.backlog.push_back(submission);
        } else {
            self.free = self.free.saturating_sub(1);
            self.counters.submitted.add(1);
        }
        Ok(())
    }

    /// Submits messages of the backlog, as far as the ring takes them.
    pub(super) fn empty_backlog(&mut self) -> usize {
        let mut count = 0;
        while let Some(submission) = self.backlog.front() {
            if self.submissions.try_publish(*submission).is_err() {
                break;
            }
            self.backlog.pop_front();
            self.free = 0;
            count += 1;
        }
        self.counters.submitted.add(count as u64);
        count
    }

    fn malformed(&mut self, user: usize, address: SocketAddr, fault: String) {
        self.counters.malformed.add(1);
        let username = self.usernames[user];
        self.notify(OperatorEvent::Malformed { username, address, fault });
    }

    pub(super) fn notify(&mut self, event: OperatorEvent) {
        self.operator_events.notify(event);
    }
}

/// Splits off the first message of some blocks; returns it and the blocks after it.
fn first_block(blocks: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = blocks.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
