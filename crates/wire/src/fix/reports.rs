//! The messages to one FIX session, as a function of the log: execution reports and cancel rejects from the
//! events of its orders and its notes, and the messages of the session from its notes.
//!
//! Invariant: every message has the next MsgSeqNum, the time of its input as SendingTime, and the same bytes
//! at every replay. An order's ClOrdID, executed lots and average price are kept here and nowhere else.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use market::{
    Accepted, CancelReason, Canceled, CommandKind, DecodeError, Event, Fill, Instructions,
    OrderKey, OrderType, Output, PastTrade, Price, Pricing, Quantity, RejectReason, Replaced,
    RestateReason, Side, Symbol, TimeInForce, Timestamp, TradeId, Traded, VenueEvent,
    bytes::{ByteReader, ByteWriter},
    encoded,
};

use super::{
    BUILDER_LEN_MAX, Builder, Refusal, Version,
    note::{ClOrdId, FixNote, LogonNote, RequestNote},
    refusal::{order_reject_code, reject_text},
};

/// ClOrdIDs of done orders and of requests that are kept, to reject a second use and to report busts.
const IDS_MAX: usize = 65_536;
/// Trades that are kept, to report corrections.
const TRADES_MAX: usize = 65_536;

/// An order, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedOrder {
    /// ClOrdID of its newest accepted link.
    id: ClOrdId,
    /// OrderID (37) of the chain.
    order_id: u64,
    symbol: Symbol,
    /// Side (54).
    side: u8,
    /// OrdType (40).
    order_type: u8,
    /// TimeInForce (59).
    time_in_force: u8,
    /// Price (44) in ticks; 0 is none.
    price: u32,
    /// StopPx (99) in ticks; 0 is none.
    stop: u32,
    /// OrderQty (38) in lots.
    quantity: u32,
    leaves: u32,
    /// CumQty (14) of the chain.
    executed: u32,
    /// The sum of price times lots of its trades, in ticks.
    notional: u64,
    /// OrdStatus (39) once it is done; 0 while it is live.
    end: u8,
    /// True for a replacement.
    is_replacement: bool,
    /// True if it has neither conditions nor instructions.
    is_plain: bool,
}

encoded! {
    ReportedOrder {
        id, order_id, symbol, side, order_type, time_in_force, price, stop, quantity, leaves,
        executed, notional, end, is_replacement, is_plain
    }
}

impl ReportedOrder {
    /// The instrument.
    #[must_use]
    pub const fn symbol(&self) -> Symbol {
        self.symbol
    }

    /// Side (54).
    #[must_use]
    pub const fn side(&self) -> u8 {
        self.side
    }

    /// True if it has neither conditions nor instructions.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.is_plain
    }

    fn status(&self, version: Version) -> u8 {
        match (self.end, self.executed, version) {
            (0, 0, Version::Fix42) if self.is_replacement => b'5',
            (0, 0, _) => b'0',
            (0, _, _) => b'1',
            (end, _, _) => end,
        }
    }

    fn reduce(&mut self, leaves: Quantity) {
        self.leaves = leaves.lots().0;
        self.quantity = self.executed + self.leaves;
    }
}

/// What an execution report says beside the state of its order.
struct Report<'a> {
    /// ExecType (150) in FIX 4.4.
    kind: u8,
    original: Option<ClOrdId>,
    trade: Option<(TradeId, u64, u64)>,
    /// ExecRefID (19).
    reference: Option<TradeId>,
    /// OrdRejReason (103).
    reject: Option<u64>,
    /// ExecRestatementReason (378).
    restated: Option<u64>,
    text: &'a str,
}

impl Report<'_> {
    const fn of(kind: u8) -> Self {
        Self {
            kind,
            original: None,
            trade: None,
            reference: None,
            reject: None,
            restated: None,
            text: "",
        }
    }
}

/// The messages to one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    session: Header,
    /// By UserRefNum.
    orders: BTreeMap<u32, ReportedOrder>,
    /// UserRefNum by ClOrdID; 0 for a request that is no order.
    ids: BTreeMap<ClOrdId, u32>,
    /// All ids, oldest first.
    history: VecDeque<ClOrdId>,
    /// Requests whose commands have not had their effect yet.
    pending: VecDeque<RequestNote>,
    /// Price in ticks and lots of the newest trades, by TradeId.
    trades: BTreeMap<u64, (u64, u32)>,
}

/// Versions, names and numbers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    logon: LogonNote,
    /// MsgSeqNum of the next message.
    next: u64,
    /// Highest MsgSeqNum of the client of which the log knows that it was received.
    received: u32,
    /// Execution reports so far; they number ExecID.
    report_count: u64,
    /// Highest UserRefNum used.
    number_last: u32,
    /// Orders canceled by the mass cancel that is pending, and whether it was accepted.
    mass_count: u32,
    mass_accepted: bool,
}

encoded! {
    Header { logon, next, received, report_count, number_last, mass_count, mass_accepted }
}

/// Where messages go.
pub type SendMessage<'a> = &'a mut dyn FnMut(&[u8]);

impl Reports {
    /// A session that logs on for the first time; the note is to be taken next.
    #[must_use]
    pub fn new(logon: &LogonNote) -> Self {
        Self {
            session: Header {
                logon: *logon,
                next: 1,
                received: 0,
                report_count: 0,
                number_last: 0,
                mass_count: 0,
                mass_accepted: false,
            },
            orders: BTreeMap::new(),
            ids: BTreeMap::new(),
            history: VecDeque::new(),
            pending: VecDeque::new(),
            trades: BTreeMap::new(),
        }
    }

    /// Highest MsgSeqNum of the client of which the log knows that it was received.
    #[must_use]
    pub const fn received(&self) -> u32 {
        self.session.received
    }

    /// Highest UserRefNum used.
    #[must_use]
    pub const fn number_last(&self) -> u32 {
        self.session.number_last
    }

    /// The UserRefNum of the order that a ClOrdID names, 0 for a request that is no order; `None` if the id
    /// was not used, or so long ago that it is forgotten.
    #[must_use]
    pub fn number(&self, id: &ClOrdId) -> Option<u32> {
        self.ids.get(id).copied()
    }

    /// The order of a UserRefNum.
    #[must_use]
    pub fn order(&self, number: u32) -> Option<&ReportedOrder> {
        self.orders.get(&number)
    }

    /// Takes an output of which the session has a part. For a trade between two orders of the session it is
    /// called once.
    pub fn take(
        &mut self,
        output: &Output,
        is_own: impl Fn(&OrderKey) -> bool,
        send: SendMessage<'_>,
    ) {
        let time = output.timestamp;
        match &output.event {
            Event::Noted(note) => {
                if let Some(note) = FixNote::read(note.bytes()) {
                    self.take_note(&note, time, send);
                }
            }
            Event::AccountQueried(queried) => {
                self.use_number(queried.next_user_ref_num.saturating_sub(1));
            }
            Event::Accepted(accepted) => self.accepted(accepted, time, send),
            Event::Rejected(rejected) => {
                self.use_number(rejected.key.user_ref_num);
                self.rejected(rejected.key.user_ref_num, rejected.reason, time, send);
            }
            Event::Replaced(replaced) => self.replaced(replaced, time, send),
            Event::Traded(traded) => {
                for fill in [&traded.maker, &traded.taker] {
                    if is_own(&fill.key) {
                        self.traded(traded, fill, time, send);
                    }
                }
            }
            Event::SelfMatchPrevented(it) => {
                let (number, leaves) = (it.key.user_ref_num, it.leaves);
                self.reduced(number, leaves, b'4', "self-match prevention", time, send);
            }
            Event::Canceled(canceled) => self.canceled(canceled, time, send),
            Event::Modified(it) => {
                self.reduced(it.key.user_ref_num, it.leaves, b'4', "modified", time, send);
            }
            Event::Triggered(it) => {
                let report = Report { restated: Some(4), text: "triggered", ..Report::of(b'D') };
                self.report(it.key.user_ref_num, &report, time, send);
            }
            Event::Restated(it) if it.reason == RestateReason::Repriced => {
                let number = it.key.user_ref_num;
                if let Some(order) = self.orders.get_mut(&number) {
                    order.price = it.price.ticks().0;
                }
                let report = Report { restated: Some(3), text: "repriced", ..Report::of(b'D') };
                self.report(number, &report, time, send);
            }
            Event::MassCanceled(it) => {
                self.use_number(it.key.user_ref_num);
                self.session.mass_accepted = true;
                self.session.mass_count = 0;
            }
            Event::Venue(VenueEvent::TradeBusted(it)) => {
                self.undone(&it.trade, is_own, b'H', None, time, send);
            }
            Event::Venue(VenueEvent::TradeCorrected(it)) => {
                // Undone, and entered with its new terms.
                self.undone(&it.trade, is_own, b'G', Some(it.busted), time, send);
            }
            _ => {}
        }
    }

    fn take_note(&mut self, note: &FixNote<'_>, time: Timestamp, send: SendMessage<'_>) {
        match note {
            FixNote::Logon(logon) => {
                self.session.logon = *logon;
                // Commands of requests that are still pending never reached the log.
                self.pending.clear();
                if logon.reset {
                    self.session.next = 1;
                    self.session.received = 0;
                }
                self.receive(logon.counted);
                let mut buffer = [0; BUILDER_LEN_MAX];
                let mut builder = self.begin(&mut buffer, b"A", time);
                builder.number(98, 0).number(108, logon.heartbeat_s.into());
                if logon.reset {
                    builder.char(141, b'Y');
                }
                self.finish(builder, send);
            }
            FixNote::Session { counted, fields } => {
                self.receive(*counted);
                let Some(end) = fields.iter().position(|byte| *byte == super::SOH) else { return };
                let mut buffer = [0; BUILDER_LEN_MAX];
                let mut builder = self.begin(&mut buffer, &fields[..end], time);
                builder.fields(&fields[end + 1..]);
                self.finish(builder, send);
            }
            FixNote::Request(request) => self.take_request(request, time, send),
            FixNote::End { counted } => {
                self.receive(*counted);
                while let Some(at) = self.pending.iter().position(|it| it.counted == *counted) {
                    let request = self.pending.remove(at).expect("it was found");
                    self.without_effect(&request, time, send);
                }
            }
        }
    }

    fn take_request(&mut self, request: &RequestNote, time: Timestamp, send: SendMessage<'_>) {
        if let Some(refusal) = Refusal::from_code(request.refusal) {
            self.receive(request.counted);
            self.session.mass_accepted = false;
            if refusal != Refusal::DuplicateId {
                self.remember(request.id, 0);
            }
            let (version, text) = (self.session.logon.version(), refusal.text());
            return match request.msg_type {
                b'D' => {
                    self.reject_order(request, refusal.order_code(version), text, time, send);
                }
                b'q' => self.mass_cancel_report(request, time, send),
                _ => self.reject_cancel(request, refusal.cancel_code(version), text, time, send),
            };
        }
        match request.msg_type {
            b'H' => {
                self.receive(request.counted);
                self.status(request, time, send);
            }
            b'q' => {
                self.session.mass_accepted = false;
                self.session.mass_count = 0;
                self.remember(request.id, 0);
                self.pending.push_back(*request);
            }
            _ => {
                // A replacement's id names it once it is accepted; a cancel's is only used up.
                let number = if request.msg_type == b'F' { 0 } else { request.number };
                self.remember(request.id, number);
                self.pending.push_back(*request);
            }
        }
    }

    /// The command of a request had no effect, or it was a mass cancel, whose effects are over.
    fn without_effect(&mut self, request: &RequestNote, time: Timestamp, send: SendMessage<'_>) {
        if request.msg_type == b'q' {
            return self.mass_cancel_report(request, time, send);
        }
        let is_known = self.orders.contains_key(&request.original);
        let (code, text) =
            if is_known { (0, "too late: the order is done") } else { (1, "unknown order") };
        self.reject_cancel(request, code, text, time, send);
    }

    fn accepted(&mut self, accepted: &Accepted, time: Timestamp, send: SendMessage<'_>) {
        let number = accepted.key.user_ref_num;
        self.use_number(number);
        let Some(request) = self.take_pending(b'D', number) else { return };
        self.orders.insert(
            number,
            ReportedOrder {
                id: request.id,
                order_id: accepted.order_id.0,
                symbol: request.symbol,
                side: side_code(accepted.side),
                order_type: type_code(accepted.order_type, &accepted.instructions),
                time_in_force: life_code(accepted.time_in_force),
                price: accepted.price.0,
                stop: accepted.instructions.trigger.0,
                quantity: accepted.quantity.0,
                leaves: accepted.quantity.0,
                executed: 0,
                notional: 0,
                end: 0,
                is_replacement: false,
                is_plain: !accepted.instructions.is_some()
                    && accepted.conditions == market::Conditions::NONE,
            },
        );
        self.report(number, &Report::of(b'0'), time, send);
    }

    fn rejected(
        &mut self,
        number: u32,
        reason: RejectReason,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let version = self.session.logon.version();
        let (code, text) = (order_reject_code(reason, version), reject_text(reason));
        if let Some(request) = self.take_pending(b'D', number) {
            self.reject_order(&request, code, text, time, send);
        } else if let Some(request) = self.take_pending(b'G', number) {
            let code = if version == Version::Fix44 { 99 } else { 2 };
            self.reject_cancel(&request, code, text, time, send);
        }
    }

    fn replaced(&mut self, replaced: &Replaced, time: Timestamp, send: SendMessage<'_>) {
        let number = replaced.key.user_ref_num;
        self.use_number(number);
        let request = self.take_pending(b'G', number);
        let Some(original) = self.orders.get_mut(&replaced.original_user_ref_num) else { return };
        let before = *original;
        original.end = b'5';
        original.leaves = 0;
        self.orders.insert(
            number,
            ReportedOrder {
                id: request.map_or(before.id, |request| request.id),
                side: side_code(replaced.side),
                order_type: type_code(replaced.order_type, &replaced.instructions),
                time_in_force: life_code(replaced.time_in_force),
                price: replaced.price.0,
                stop: replaced.instructions.trigger.0,
                quantity: before.executed + replaced.leaves.0,
                leaves: replaced.leaves.0,
                is_replacement: true,
                is_plain: !replaced.instructions.is_some()
                    && replaced.conditions == market::Conditions::NONE,
                ..before
            },
        );
        let report = Report { original: Some(before.id), ..Report::of(b'5') };
        self.report(number, &report, time, send);
    }

    fn traded(&mut self, traded: &Traded, fill: &Fill, time: Timestamp, send: SendMessage<'_>) {
        let number = fill.key.user_ref_num;
        let Some(order) = self.orders.get_mut(&number) else { return };
        order.executed += traded.quantity.lots().0;
        order.notional += notional(traded.price, traded.quantity);
        order.leaves = fill.leaves.lots().0;
        if order.leaves == 0 {
            order.end = b'2';
        }
        self.keep_trade(traded.trade_id, traded.price.0, traded.quantity);
        let trade = Some((traded.trade_id, traded.price.0, traded.quantity.0));
        self.report(number, &Report { trade, ..Report::of(b'F') }, time, send);
    }

    fn canceled(&mut self, canceled: &Canceled, time: Timestamp, send: SendMessage<'_>) {
        let number = canceled.key.user_ref_num;
        let done = canceled.leaves.is_zero();
        let asked = match canceled.cause {
            CommandKind::Cancel => b'F',
            CommandKind::Replace => b'G',
            CommandKind::MassCancel => {
                self.session.mass_count += u32::from(done);
                0
            }
            _ => 0,
        };
        let asked = if canceled.reason == CancelReason::User { asked } else { 0 };
        let at = self.pending.iter().position(|it| it.msg_type == asked && it.original == number);
        let request = at.and_then(|at| self.pending.remove(at));
        let Some(order) = self.orders.get_mut(&number) else { return };
        let Some(request) = request.filter(|_| done) else {
            let (end, text) = cancel_words(canceled.reason);
            return self.reduced(number, canceled.leaves, end, text, time, send);
        };
        let original = Some(core::mem::replace(&mut order.id, request.id));
        order.leaves = 0;
        let mut report = Report { original, ..Report::of(b'4') };
        if request.msg_type == b'G' && request.quantity <= order.executed {
            order.quantity = order.executed;
            order.end = b'2';
            report.kind = b'5';
            report.text = "OrderQty is not above CumQty: the balance is canceled";
        } else {
            order.end = b'4';
            if request.msg_type == b'G' {
                report.text = "the replacement cannot be accepted: the order is canceled";
            }
        }
        self.receive(request.counted);
        self.report(number, &report, time, send);
    }

    /// An order has these open lots, fewer than before, without a request for it.
    fn reduced(
        &mut self,
        number: u32,
        leaves: Quantity,
        end: u8,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let Some(order) = self.orders.get_mut(&number) else { return };
        let report = if leaves.is_zero() {
            order.leaves = 0;
            order.end = end;
            Report { text, ..Report::of(end) }
        } else {
            order.reduce(leaves);
            Report { restated: Some(5), text, ..Report::of(b'D') }
        };
        self.report(number, &report, time, send);
    }

    /// A trade is undone; for a correction it is entered with new terms.
    fn undone(
        &mut self,
        trade: &PastTrade,
        is_own: impl Fn(&OrderKey) -> bool,
        kind: u8,
        broken: Option<TradeId>,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        for party in [&trade.maker, &trade.taker] {
            let number = party.key.user_ref_num;
            if !is_own(&party.key) || !self.orders.contains_key(&number) {
                continue;
            }
            let reference = Some(broken.unwrap_or(trade.trade_id));
            let text = "trade undone by the venue";
            let old = match broken {
                None => Some((trade.price.0, trade.quantity.lots().0)),
                Some(broken) => self.trades.get(&broken.0).copied(),
            };
            if let (Some((price, lots)), Some(order)) = (old, self.orders.get_mut(&number)) {
                order.executed = order.executed.saturating_sub(lots);
                order.notional = order.notional.saturating_sub(price * u64::from(lots));
                if broken.is_some() {
                    order.executed += trade.quantity.lots().0;
                    order.notional += notional(trade.price, trade.quantity);
                }
            }
            let new = (trade.trade_id, trade.price.0, trade.quantity.0);
            let trade = broken.map(|_| new);
            let text = if broken.is_some() { "trade corrected by the venue" } else { text };
            let report = Report { reference, trade, text, ..Report::of(kind) };
            self.report(number, &report, time, send);
        }
        if broken.is_some() {
            self.keep_trade(trade.trade_id, trade.price.0, trade.quantity);
        }
    }

    fn keep_trade(&mut self, trade_id: TradeId, price: u64, quantity: Quantity) {
        self.trades.insert(trade_id.0, (price, quantity.lots().0));
        if TRADES_MAX < self.trades.len() {
            self.trades.pop_first();
        }
    }

    fn take_pending(&mut self, msg_type: u8, number: u32) -> Option<RequestNote> {
        let is_it = |it: &RequestNote| it.msg_type == msg_type && it.number == number;
        let at = self.pending.iter().position(is_it)?;
        let request = self.pending.remove(at)?;
        self.receive(request.counted);
        Some(request)
    }

    fn receive(&mut self, counted: u32) {
        self.session.received = self.session.received.max(counted);
    }

    fn use_number(&mut self, number: u32) {
        self.session.number_last = self.session.number_last.max(number);
    }

    /// Keeps an id, and forgets the oldest that is not the name of a live order.
    fn remember(&mut self, id: ClOrdId, number: u32) {
        if self.ids.insert(id, number).is_none() {
            self.history.push_back(id);
        }
        let mut live = 0;
        while IDS_MAX + live < self.history.len() {
            let Some(oldest) = self.history.pop_front() else { return };
            let number = self.ids.get(&oldest).copied().unwrap_or(0);
            if self.orders.get(&number).is_some_and(|order| order.end == 0) {
                self.history.push_back(oldest);
                live += 1;
            } else {
                self.ids.remove(&oldest);
                self.orders.remove(&number);
            }
        }
    }

    fn begin<'a>(&self, buffer: &'a mut [u8], msg_type: &[u8], time: Timestamp) -> Builder<'a> {
        let logon = &self.session.logon;
        let mut builder = Builder::new(buffer);
        builder
            .bytes(35, msg_type)
            .number(34, self.session.next)
            .text(49, logon.venue.as_str())
            .time(52, time)
            .text(56, logon.client.as_str());
        builder
    }

    fn finish(&mut self, builder: Builder<'_>, send: SendMessage<'_>) {
        self.session.next += 1;
        send(builder.finish(self.session.logon.version()));
    }

    /// An execution report about an order, as it is now.
    fn report(&mut self, number: u32, report: &Report<'_>, time: Timestamp, send: SendMessage<'_>) {
        let Some(order) = self.orders.get(&number).copied() else { return };
        self.session.report_count += 1;
        let version = self.session.logon.version();
        let status = order.status(version);
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"8", time);
        builder.number(37, order.order_id);
        let mut text = [0; 24];
        let side = if matches!(order.side, b'1') { b'B' } else { b'S' };
        match report.trade {
            Some((trade_id, ..)) => {
                builder.bytes(17, numbered(&mut text, b'T', trade_id.0, Some(side)));
            }
            None if report.kind == b'I' && version == Version::Fix42 => {
                builder.char(17, b'0');
            }
            None => {
                let count = self.session.report_count;
                builder.bytes(17, numbered(&mut text, b'E', count, None));
            }
        }
        if let Some(reference) = report.reference {
            builder.bytes(19, numbered(&mut text, b'T', reference.0, Some(side)));
        }
        match version {
            Version::Fix42 => {
                let (transaction, kind) = match report.kind {
                    b'F' => (b'0', status),
                    b'H' => (b'1', status),
                    b'G' => (b'2', status),
                    b'I' => (b'3', status),
                    kind => (b'0', kind),
                };
                builder.char(20, transaction).char(150, kind);
            }
            Version::Fix44 => {
                builder.char(150, report.kind);
            }
        }
        builder.char(39, status).text(11, order.id.as_str());
        if let Some(original) = report.original {
            builder.text(41, original.as_str());
        }
        builder.text(55, order.symbol.as_str()).char(54, order.side);
        builder.number(38, order.quantity.into()).char(40, order.order_type);
        for (tag, ticks) in [(44, order.price), (99, order.stop)] {
            if ticks > 0 {
                builder.decimal(tag, ticks.into(), 4);
            }
        }
        builder.char(59, order.time_in_force);
        if let Some((_, price, quantity)) = report.trade {
            builder.number(32, quantity).decimal(31, price.into(), 4);
        }
        builder.number(151, order.leaves.into()).number(14, order.executed.into());
        builder.decimal(6, average(order.notional, order.executed), 8).time(60, time);
        if let Some(reject) = report.reject {
            builder.number(103, reject);
        }
        if let Some(restated) = report.restated {
            builder.number(378, restated);
        }
        if !report.text.is_empty() {
            builder.text(58, report.text);
        }
        self.finish(builder, send);
    }

    /// An execution report that rejects a new order, which has no OrderID.
    fn reject_order(
        &mut self,
        request: &RequestNote,
        code: u64,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        self.session.report_count += 1;
        let version = self.session.logon.version();
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut exec_id = [0; 24];
        let mut builder = self.begin(&mut buffer, b"8", time);
        builder.text(37, "NONE");
        builder.bytes(17, numbered(&mut exec_id, b'E', self.session.report_count, None));
        if version == Version::Fix42 {
            builder.char(20, b'0');
        }
        builder.char(150, b'8').char(39, b'8').text(11, request.id.as_str());
        // A symbol that is too long for the venue is not repeated.
        let symbol = if request.symbol.is_blank() { "?" } else { request.symbol.as_str() };
        builder.text(55, symbol).char(54, request.code);
        builder.number(38, request.quantity.into()).number(151, 0).number(14, 0).number(6, 0);
        builder.time(60, time).number(103, code).text(58, text);
        self.finish(builder, send);
    }

    /// An order cancel reject: the order stays as it is.
    fn reject_cancel(
        &mut self,
        request: &RequestNote,
        code: u64,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let version = self.session.logon.version();
        let order = self.orders.get(&request.original);
        let status = order.map_or(b'8', |order| match order.end {
            // Its replacement has taken its place.
            b'5' => b'4',
            _ => order.status(version),
        });
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"9", time);
        match order {
            Some(order) => builder.number(37, order.order_id),
            None => builder.text(37, "NONE"),
        };
        builder.text(11, request.id.as_str()).text(41, request.original_id.as_str());
        builder.char(39, status).char(434, if request.msg_type == b'G' { b'2' } else { b'1' });
        builder.number(102, code).text(58, text).time(60, time);
        self.finish(builder, send);
    }

    /// The answer to an order status request.
    fn status(&mut self, request: &RequestNote, time: Timestamp, send: SendMessage<'_>) {
        let number = self.ids.get(&request.id).copied().unwrap_or(0);
        if self.orders.contains_key(&number) {
            self.report(number, &Report::of(b'I'), time, send);
        } else {
            self.reject_order(request, 5, "unknown order", time, send);
        }
    }

    fn mass_cancel_report(
        &mut self,
        request: &RequestNote,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        self.session.report_count += 1;
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut id = [0; 24];
        let mut builder = self.begin(&mut buffer, b"r", time);
        builder.text(11, request.id.as_str());
        builder.bytes(37, numbered(&mut id, b'M', self.session.report_count, None));
        builder.char(530, request.code);
        if self.session.mass_accepted {
            builder.char(531, request.code).number(533, self.session.mass_count.into());
        } else {
            builder.char(531, b'0').number(532, 99);
        }
        builder.time(60, time);
        self.finish(builder, send);
    }

    /// Emits the state in pieces of bytes, for a snapshot.
    pub fn save(&self, emit: &mut dyn FnMut(&[u8])) {
        /// Items in one piece.
        const ITEMS: usize = 1024;
        let mut piece = Piece(Vec::new());
        piece.put(b"H");
        piece.write(&self.session);
        emit(&piece.0);
        let mut items = Items { piece: Piece(Vec::new()), count: 0, emit };
        for (number, order) in &self.orders {
            items.add(ITEMS, |out| {
                out.put(b"O");
                out.write(number);
                out.write(order);
            });
        }
        for id in &self.history {
            items.add(ITEMS, |out| {
                out.put(b"I");
                out.write(id);
                out.write(&self.ids[id]);
            });
        }
        for request in &self.pending {
            items.add(ITEMS, |out| {
                out.put(b"P");
                out.write(request);
            });
        }
        for (trade_id, (price, lots)) in &self.trades {
            items.add(ITEMS, |out| {
                out.put(b"T");
                out.write(trade_id);
                out.write(price);
                out.write(lots);
            });
        }
        items.flush();
    }

    /// Takes a piece of a saved state: the first makes the session, the others are added to it.
    ///
    /// # Errors
    /// The bytes are not such a piece, or come in another order.
    pub fn restore(session: &mut Option<Self>, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut from = ByteReader::new(bytes);
        while !from.is_empty() {
            let [kind] = from.take()?;
            match (kind, &mut *session) {
                (b'H', place @ None) => {
                    let header: Header = from.read("header")?;
                    *place = Some(Self { session: header, ..Self::new(&header.logon) });
                }
                (b'O', Some(reports)) => {
                    let (number, order) = (from.read("number")?, from.read("order")?);
                    reports.orders.insert(number, order);
                }
                (b'I', Some(reports)) => {
                    let id = from.read("id")?;
                    reports.history.push_back(id);
                    reports.ids.insert(id, from.read("number")?);
                }
                (b'T', Some(reports)) => {
                    let trade_id = from.read("trade")?;
                    let trade = (from.read("price")?, from.read("lots")?);
                    reports.trades.insert(trade_id, trade);
                }
                (b'P', Some(reports)) => reports.pending.push_back(from.read("request")?),
                (kind, _) => return Err(DecodeError::Kind(kind)),
            }
        }
        Ok(())
    }
}

/// A piece of a saved state.
struct Piece(Vec<u8>);

impl ByteWriter for Piece {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Items on their way into pieces.
struct Items<'a> {
    piece: Piece,
    count: usize,
    emit: &'a mut dyn FnMut(&[u8]),
}

impl Items<'_> {
    fn add(&mut self, count_max: usize, write: impl FnOnce(&mut Piece)) {
        write(&mut self.piece);
        self.count += 1;
        if self.count == count_max {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.count > 0 {
            (self.emit)(&self.piece.0);
            self.piece.0.clear();
            self.count = 0;
        }
    }
}

/// In ticks × lots: a price below 2^31 and a quantity below 2^32 fit 64 bits.
fn notional(price: Price, quantity: Quantity) -> u64 {
    u64::try_from((price * quantity).get())
        .expect("a trade of an order has prices and lots of orders")
}

/// The average price in units of 10^-8, rounded half up; 0 if nothing was executed.
fn average(notional: u64, executed: u32) -> u128 {
    if executed == 0 {
        return 0;
    }
    let executed = u128::from(executed);
    (u128::from(notional) * 10_000 + executed / 2) / executed
}

/// A letter, a number, and perhaps another letter.
fn numbered(buffer: &mut [u8; 24], letter: u8, number: u64, last: Option<u8>) -> &[u8] {
    let mut at = buffer.len();
    let mut put = |byte| {
        at -= 1;
        buffer[at] = byte;
    };
    if let Some(last) = last {
        put(last);
    }
    let mut rest = number;
    loop {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    put(letter);
    &buffer[at..]
}

/// Side (54).
const fn side_code(side: Side) -> u8 {
    match side {
        Side::Buy => b'1',
        Side::Sell => b'2',
        Side::SellShort => b'5',
        Side::SellShortExempt => b'6',
    }
}

/// OrdType (40).
const fn type_code(order_type: OrderType, instructions: &Instructions) -> u8 {
    match (instructions.pricing, order_type) {
        (Pricing::Stop | Pricing::TrailingStop, OrderType::Limit) => b'4',
        (Pricing::Stop | Pricing::TrailingStop, _) => b'3',
        (Pricing::TakeProfit, _) => b'J',
        (Pricing::PrimaryPeg | Pricing::MarketPeg | Pricing::MidpointPeg, _) => b'P',
        (Pricing::Limit, OrderType::Limit) => b'2',
        (Pricing::Limit, OrderType::Market) => b'1',
        (Pricing::Limit, OrderType::MarketToLimit) => b'K',
    }
}

/// TimeInForce (59).
const fn life_code(time_in_force: TimeInForce) -> u8 {
    match time_in_force {
        // FIX has no code for the next auction, whichever it is.
        TimeInForce::GoodForAuction => b'2',
        other => other.code(),
    }
}

/// The OrdStatus of an order that ends so, and the words for it.
const fn cancel_words(reason: CancelReason) -> (u8, &'static str) {
    match reason {
        CancelReason::User => (b'4', ""),
        CancelReason::ImmediateOrCancel => (b'4', "immediate or cancel"),
        CancelReason::PostOnly => (b'4', "post-only order would have traded"),
        CancelReason::Supervisory => (b'4', "canceled by the venue"),
        CancelReason::Collar => (b'4', "next trade outside the price bands"),
        CancelReason::Expired => (b'C', "expired"),
        CancelReason::EndOfDay => (b'C', "end of day"),
        CancelReason::Linked => (b'4', "linked order"),
        CancelReason::Unpaid => (b'4', "insufficient balance"),
    }
}
