//! One session of the load, over TCP or UDP: opening, sending, polling.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ring::Clock;
use wire::ouch::{self, MessageBuffer, Outbound, decode_outbound};

use super::{
    FailureReason, LoadError, LoadOptions, LoadSession,
    link::{self, Arrival, Link},
    packet_latency::Answered,
    tally::Tally,
    tracker::{Times, Tracker},
};
use client::participant;

/// Answers that share one reading of the clock, taken after the last of them.
const ANSWERS_PER_READING: usize = 64;
/// An account query that is not answered is sent again after this long, in nanoseconds.
const QUERY_TIMEOUT_NS: u64 = 500_000_000;
/// A session that waits for answers and receives nothing for this long asks for its next number, in nanoseconds.
const QUERY_AFTER_NS: u64 = 2_500_000_000;

/// One session: its connection, and its requests.
pub(super) struct Session {
    pub(super) index: usize,
    pub(super) tracker: Tracker,
    link: Box<dyn Link>,
    /// Answers that await the next reading of the clock.
    answers: Vec<Times>,
    /// Answers of this turn, where the times of packets are asked.
    packets: Vec<Answered>,
    /// When the last message arrived, or a first request began to wait.
    received_ns: u64,
    /// When an account query went out that waits for its answer.
    queried_ns: u64,
}

/// Opens all sessions and asks each for the number of its next order.
pub(super) fn open_all(
    options: &LoadOptions,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<Vec<Session>, LoadError> {
    let start_ns = clock.now_ns();
    let mut opening = Vec::with_capacity(options.sessions.len());
    for (index, session) in options.sessions.iter().enumerate() {
        let opened = Opening::new(index, session, options, clock.now_ns());
        opening.push(opened.map_err(|source| LoadError::Session { session: index, source })?);
    }
    loop {
        let mut waits = None;
        for session in &mut opening {
            let now_ns = clock.now_ns();
            session
                .turn(options, now_ns)
                .map_err(|source| LoadError::Session { session: session.index, source })?;
            if session.next_user_ref_num.is_none() {
                waits = Some(session.index);
            }
        }
        let now_ns = clock.now_ns();
        let Some(session) = waits else {
            return Ok(opening.into_iter().map(|session| session.ready(now_ns)).collect());
        };
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Stopped);
        }
        let silent_ns = now_ns.saturating_sub(start_ns);
        if silent_ns >= options.ready_ns_max {
            let source = FailureReason::Silent { silent_ns };
            return Err(LoadError::Session { session, source });
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// A session that does not know its next number yet.
struct Opening {
    index: usize,
    link: Box<dyn Link>,
    queried_ns: Option<u64>,
    next_user_ref_num: Option<u32>,
}

impl Opening {
    fn new(
        index: usize,
        session: &LoadSession,
        options: &LoadOptions,
        now_ns: u64,
    ) -> Result<Self, FailureReason> {
        let link = link::open(session, options, now_ns)?;
        Ok(Self { index, link, queried_ns: None, next_user_ref_num: None })
    }

    fn turn(&mut self, options: &LoadOptions, now_ns: u64) -> Result<(), FailureReason> {
        let mut messages: Vec<(u64, Vec<u8>)> = Vec::new();
        self.link.poll(now_ns, &mut |Arrival { stream_sequence, message, .. }| {
            if let Some(on_message) = &options.on_message {
                on_message(self.index, stream_sequence, message);
            }
            messages.push((stream_sequence, message.to_vec()));
        })?;
        for (stream_sequence, message) in messages {
            if let Outbound::AccountQueryResponse(response, _) = decode_outbound(&message)?
                && !self.link.is_history(stream_sequence)
            {
                self.next_user_ref_num = Some(response.next_user_ref_num.get());
            }
        }
        let is_due = self
            .queried_ns
            .is_none_or(|queried_ns| now_ns.saturating_sub(queried_ns) >= QUERY_TIMEOUT_NS);
        if self.next_user_ref_num.is_none() && self.link.is_open() && is_due {
            self.queried_ns = Some(now_ns);
            self.link.send(&participant::query_account(), now_ns)?;
            self.link.flush()?;
        }
        Ok(())
    }

    fn ready(self, now_ns: u64) -> Session {
        let next_user_ref_num = self.next_user_ref_num.expect("it was waited for");
        Session::new(self.index, self.link, next_user_ref_num, now_ns)
    }
}

impl Session {
    /// A session that is open and knows the number of its next order.
    pub(super) fn new(
        index: usize,
        link: Box<dyn Link>,
        next_user_ref_num: u32,
        now_ns: u64,
    ) -> Self {
        Self {
            index,
            tracker: Tracker::new(next_user_ref_num),
            link,
            answers: Vec::with_capacity(ANSWERS_PER_READING),
            packets: Vec::new(),
            received_ns: now_ns,
            queried_ns: now_ns,
        }
    }

    /// The name that the venue gave the reply stream.
    pub(super) fn stream_name(&self) -> Option<String> {
        self.link.stream_name()
    }

    /// Replies that were requested again.
    pub(super) fn lost_replies(&self) -> u64 {
        self.link.lost_replies()
    }

    /// True if the connection takes another request now.
    pub(super) fn has_room(&self) -> bool {
        self.link.has_room(MessageBuffer::LEN_MAX)
    }

    /// Hands a request to the connection; [`flush`](Self::flush) sends it.
    pub(super) fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), FailureReason> {
        if self.tracker.outstanding() == 0 {
            self.received_ns = now_ns;
        }
        self.link.send(message, now_ns)
    }

    /// Bytes handed to the connection so far.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.link.bytes_sent()
    }

    pub(super) fn flush(&mut self) -> Result<(), FailureReason> {
        Ok(self.link.flush()?)
    }

    /// Takes the messages that arrived: counts them, records the latency of every answer. Returns how many messages
    /// arrived.
    ///
    /// The clock is read after the last answer of a batch, so a latency is never too short, and too
    /// long by the time that the batch took.
    pub(super) fn poll(
        &mut self,
        options: &LoadOptions,
        clock: &dyn Clock,
        now_ns: u64,
        tally: &mut Tally,
    ) -> Result<usize, FailureReason> {
        let Self { tracker, answers, packets, index, .. } = self;
        let mut malformed: Option<ouch::Malformed> = None;
        let delivered = self.link.poll(now_ns, &mut |arrival| {
            let Arrival { stream_sequence, message, packet_ns } = arrival;
            match tracker.receive(message, &mut tally.counts) {
                Ok(Some(request)) => {
                    if options.packet_times.is_some() {
                        let (answered_ns, packet_arrived_ns) = (clock.now_ns(), packet_ns);
                        packets.push(Answered { request, answered_ns, packet_arrived_ns });
                    }
                    answers.push(request.times);
                    if answers.len() == ANSWERS_PER_READING {
                        tally.answered(answers, options, clock.now_ns());
                    }
                }
                Ok(None) => {}
                Err(error) => malformed = Some(error),
            }
            if let Some(on_message) = &options.on_message {
                on_message(*index, stream_sequence, message);
            }
        });
        if !self.answers.is_empty() {
            tally.answered(&mut self.answers, options, clock.now_ns());
        }
        for answered in self.packets.drain(..) {
            let left_ns = self.link.packet_left_ns(answered.request.times.sent_bytes);
            let latency = tally.packets.get_or_insert_default();
            latency.record(self.index, &answered, left_ns);
        }
        tally.gave_up(self.tracker.take_unanswered(), now_ns);
        let delivered = delivered?;
        if delivered > 0 {
            self.received_ns = now_ns;
        }
        match malformed {
            Some(error) => Err(error.into()),
            None => Ok(delivered),
        }
    }

    /// Gives up the requests without an answer: they count as unanswered, with the time that they waited.
    pub(super) fn abandon(&mut self, now_ns: u64, tally: &mut Tally) {
        self.tracker.abandon(&mut tally.counts);
        tally.gave_up(self.tracker.take_unanswered(), now_ns);
    }

    /// Makes sure that a session that waits for answers receives a message: after [`QUERY_AFTER_NS`], or
    /// half of the time if that is less, it asks for the next number, a query that is always answered; after all of the
    /// time the session is over.
    pub(super) fn watch(&mut self, silence_ns_max: u64, now_ns: u64) -> Result<(), FailureReason> {
        if self.tracker.outstanding() == 0 {
            return Ok(());
        }
        let silent_ns = now_ns.saturating_sub(self.received_ns);
        if silent_ns >= silence_ns_max {
            return Err(FailureReason::Silent { silent_ns });
        }
        if silent_ns >= QUERY_AFTER_NS.min(silence_ns_max / 2) {
            self.settle(now_ns)
        } else {
            Ok(())
        }
    }

    /// Asks for the next number, whose answer settles all requests before it; again after a while,
    /// since a datagram may be lost.
    pub(super) fn settle(&mut self, now_ns: u64) -> Result<(), FailureReason> {
        let is_open = self.tracker.is_query_open();
        let is_due = now_ns.saturating_sub(self.queried_ns) >= QUERY_TIMEOUT_NS;
        let query = participant::query_account();
        if (is_open && !is_due) || !self.link.has_room(query.len()) {
            return Ok(());
        }
        self.queried_ns = now_ns;
        self.send(&query, now_ns)?;
        if !is_open {
            self.tracker.query_asked(now_ns);
        }
        self.flush()
    }

    /// Logs out; true if the venue shall close the connection now.
    pub(super) fn log_out(&mut self, now_ns: u64) -> bool {
        self.link.log_out(now_ns)
    }
}
