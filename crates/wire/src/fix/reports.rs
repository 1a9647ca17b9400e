//! The messages to one FIX session, as a function of the log: execution reports and cancel rejects from the
//! events of its orders and its notes, and the messages of the session from its notes.
//!
//! Invariant: every message has the next MsgSeqNum, the time of its input as SendingTime, and the same bytes at every
//! replay. An order's ClOrdID, executed lots and average price are kept only here.

mod copies;
mod instruments;
mod messages;
mod saved;
mod trades;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use market::{
    Accepted, CancelHeld, CancelReason, Canceled, CommandKind, Event, Instructions, OrderKey,
    OrderType, Output, Pricing, Quantity, RejectReason, Replaced, RestateReason, SessionId, Side,
    Symbol, Text, TimeInForce, Timestamp, VenueEvent, encoded,
};

use self::{copies::numbered_id, instruments::Listing, messages::Report, trades::KeptTrades};
use super::{
    APPL_VER_ID, BUILDER_LEN_MAX, Directory, Refusal, Version,
    note::{ClOrdId, FixNote, LogonNote, PageNote, RequestNote},
    refusal::{order_reject_code, reject_text},
    time::TimeText,
};
use crate::linear_map::LinearMap;

/// The most kept ClOrdIDs of done orders and of requests, to reject a second use and to report busts.
const IDS_MAX: usize = 65_536;
/// Kept ids that are checked for each new one, so that ids of done orders behind live ones are found in time.
const LOOKS_PER_ID: usize = 4;

/// An order and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedOrder {
    /// ClOrdID of the newest accepted link.
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
    quantity: u64,
    leaves: u64,
    /// CumQty (14) of the chain.
    executed: u64,
    /// The sum of price times lots over its trades, in ticks.
    notional: u128,
    /// OrdStatus (39) of a done order; 0 while it is live.
    end: u8,
    /// True for a replacement.
    is_replacement: bool,
    /// True if the order has neither conditions nor instructions.
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

    /// True if the order has neither conditions nor instructions.
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
        self.leaves = leaves.0;
        self.quantity = self.executed + self.leaves;
    }
}

/// The messages to one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    session: Header,
    /// The time when the numbers began, in nanoseconds since the Unix epoch; 0 means long ago.
    begun_ns: u64,
    /// The orders by UserRefNum.
    orders: Orders,
    /// UserRefNum by ClOrdID; 0 for a request that is not an order.
    ids: Ids,
    /// All ids, oldest first.
    history: VecDeque<ClOrdId>,
    /// Requests whose commands have not had their effect yet.
    pending: VecDeque<RequestNote>,
    /// The newest trades.
    trades: KeptTrades,
    /// The list of instruments that has not been sent to its end.
    listing: Option<Listing>,
    /// True for a drop copy session.
    is_drop_copy: bool,
    /// For a drop copy: the sessions whose reports are copied.
    sources: Vec<(SessionId, Text<6>)>,
    /// For a drop copy: the orders of these sessions, by session and channel.
    copies: BTreeMap<(SessionId, u8), Reports>,
    /// The name of the session, if this is its state within a drop copy.
    copied: Option<Text<6>>,
    /// The last SendingTime.
    time: TimeText,
}

/// Versions, names and numbers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    logon: LogonNote,
    /// MsgSeqNum of the next message.
    next: u64,
    /// Highest MsgSeqNum of the client that the log knows as received.
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

/// The receiver of messages.
pub type SendMessage<'a> = &'a mut dyn FnMut(&[u8]);

type Orders = LinearMap<u32, ReportedOrder>;
type Ids = LinearMap<ClOrdId, u32>;

impl Reports {
    /// The most memory for ids, orders and trades, in bytes, while at most 65,536 orders are live; queues double.
    pub const BYTES_MAX: usize = IDS_MAX
        * (Orders::KEY_BYTES + Ids::KEY_BYTES + 2 * size_of::<ClOrdId>())
        + KeptTrades::BYTES_MAX;

    /// A session that logs on for the first time; its note must be taken next.
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
            begun_ns: 0,
            orders: LinearMap::default(),
            ids: LinearMap::default(),
            history: VecDeque::new(),
            pending: VecDeque::new(),
            trades: KeptTrades::default(),
            listing: None,
            is_drop_copy: false,
            sources: Vec::new(),
            copies: BTreeMap::new(),
            copied: None,
            time: TimeText::default(),
        }
    }

    /// The version of the session's messages since the numbers began.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.session.logon.version
    }

    /// Highest MsgSeqNum of the client that the log knows as received.
    #[must_use]
    pub const fn received(&self) -> u32 {
        self.session.received
    }

    /// The time when the numbers began, in nanoseconds since the Unix epoch; 0 means long ago.
    #[must_use]
    pub const fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Highest UserRefNum used.
    #[must_use]
    pub const fn number_last(&self) -> u32 {
        self.session.number_last
    }

    /// The UserRefNum of the order that a ClOrdID names, 0 for a request that is not an order; `None` if the id was
    /// never used, or is no longer kept.
    #[must_use]
    pub fn number(&self, id: &ClOrdId) -> Option<u32> {
        self.ids.get(id).copied()
    }

    /// The order of a UserRefNum.
    #[must_use]
    pub fn order(&self, number: u32) -> Option<&ReportedOrder> {
        self.orders.get(&number)
    }

    /// The next page of the list of instruments that is being sent, if one is.
    #[must_use]
    pub fn next_page(&self) -> Option<PageNote> {
        let Listing { query, next } = self.listing.as_ref()?;
        Some(PageNote { counted: query.counted, first: *next })
    }

    /// Takes an output of which the session has a part. For a trade between two orders of the session it is
    /// called once. `directory` has taken it before.
    pub fn take(
        &mut self,
        output: &Output,
        directory: &Directory,
        is_own: impl Fn(&OrderKey) -> bool,
        send: SendMessage<'_>,
    ) {
        let time = output.timestamp;
        match &output.event {
            Event::Noted(note) => {
                if let Some(note) = FixNote::read(note.bytes()) {
                    self.take_note(&note, directory, time, send);
                }
            }
            Event::AccountQueried(queried) => {
                self.use_number(queried.next_user_ref_num.saturating_sub(1));
            }
            Event::Accepted(accepted) => self.accepted(accepted, directory, time, send),
            Event::Rejected(rejected) => {
                self.use_number(rejected.key.user_ref_num);
                self.rejected(rejected.key.user_ref_num, rejected.reason, time, send);
            }
            Event::Replaced(replaced) => self.replaced(replaced, time, send),
            Event::Traded(traded) => {
                for fill in [&traded.maker, &traded.taker] {
                    if is_own(&fill.key) {
                        self.know_order(traded, fill, directory);
                        self.traded(traded, fill, time, send);
                    }
                }
            }
            Event::SelfMatchPrevented(it) => {
                let (number, leaves) = (it.key.user_ref_num, it.leaves);
                self.reduced(number, leaves, b'4', "self-match prevention", time, send);
            }
            Event::Canceled(canceled) => self.canceled(canceled, time, send),
            Event::CancelHeld(held) => self.cancel_held(held, time, send),
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
                // The trade is undone, and entered with its new terms.
                self.undone(&it.trade, is_own, b'G', Some(it.busted), time, send);
            }
            _ => {}
        }
    }

    fn take_note(
        &mut self,
        note: &FixNote<'_>,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        match note {
            FixNote::Logon(_) if self.copied.is_some() => self.pending.clear(),
            FixNote::Session { .. }
            | FixNote::Query(_)
            | FixNote::More(_)
            | FixNote::Begin { .. }
                if self.copied.is_some() => {}
            FixNote::DropCopy(copy) => self.take_source(copy),
            FixNote::Logon(logon) => {
                self.session.logon = *logon;
                // Commands of requests that are still pending never reached the log.
                self.pending.clear();
                // A list ends with its connection.
                self.listing = None;
                if logon.reset {
                    self.session.next = 1;
                    self.session.received = 0;
                }
                if logon.reset || self.begun_ns == 0 {
                    self.begun_ns = time.0;
                }
                self.receive(logon.counted);
                let mut buffer = [0; BUILDER_LEN_MAX];
                let mut builder = self.begin(&mut buffer, b"A", time);
                builder.number(98, 0).number(108, logon.heartbeat_s.into());
                if logon.reset {
                    builder.char(141, b'Y');
                }
                if logon.version == Version::Fix50Sp1 {
                    builder.text(1137, APPL_VER_ID);
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
            FixNote::Begin { start_ns } if self.begun_ns < *start_ns => {
                self.begun_ns = *start_ns;
                self.session.next = 1;
                self.session.received = 0;
                self.listing = None;
            }
            FixNote::Begin { .. } => {}
            FixNote::Request(request) => self.take_request(request, time, send),
            FixNote::Query(query) => self.take_query(query, directory, time, send),
            FixNote::More(page) => self.list_page(page, directory, time, send),
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
        if self.copied.is_some() && (request.refusal > 0 || request.msg_type == b'H') {
            return;
        }
        if let Some(refusal) = Refusal::from_code(request.refusal) {
            self.receive(request.counted);
            self.session.mass_accepted = false;
            if refusal != Refusal::DuplicateId {
                self.remember(request.id, 0);
            }
            let (version, text) = (self.session.logon.version, refusal.text());
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

    /// Answers a request whose command had no effect, or a mass cancel after its last effect.
    fn without_effect(&mut self, request: &RequestNote, time: Timestamp, send: SendMessage<'_>) {
        if request.msg_type == b'q' {
            return self.mass_cancel_report(request, time, send);
        }
        let is_known = self.orders.contains(&request.original);
        let (code, text) =
            if is_known { (0, "too late: the order is done") } else { (1, "unknown order") };
        self.reject_cancel(request, code, text, time, send);
    }

    fn accepted(
        &mut self,
        accepted: &Accepted,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let number = accepted.key.user_ref_num;
        self.use_number(number);
        let request = self.take_pending(b'D', number);
        let named = || {
            // An order by OUCH, which has no note.
            let id = self.copied_id(&accepted.attributes.client_order_id, number)?;
            Some((id, directory.get(accepted.instrument_id)?.instrument.symbol))
        };
        let known = request.map(|request| (request.id, request.symbol));
        let Some((id, symbol)) = known.or_else(named) else { return };
        if request.is_none() {
            self.remember(numbered_id(number), number);
        }
        self.orders.insert(
            number,
            ReportedOrder {
                id,
                order_id: accepted.order_id.0,
                symbol,
                side: side_code(accepted.side),
                order_type: type_code(accepted.order_type, &accepted.instructions),
                time_in_force: life_code(accepted.time_in_force),
                price: accepted.price.0,
                stop: accepted.instructions.trigger.0,
                quantity: accepted.quantity.get(),
                leaves: accepted.quantity.get(),
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
        let version = self.session.logon.version;
        let (code, text) = (order_reject_code(reason, version), reject_text(reason));
        if let Some(request) = self.take_pending(b'D', number) {
            self.reject_order(&request, code, text, time, send);
        } else if let Some(request) = self.take_pending(b'G', number) {
            let code = if version == Version::Fix42 { 2 } else { 99 };
            self.reject_cancel(&request, code, text, time, send);
        }
    }

    fn replaced(&mut self, replaced: &Replaced, time: Timestamp, send: SendMessage<'_>) {
        let number = replaced.key.user_ref_num;
        self.use_number(number);
        let request = self.take_pending(b'G', number);
        let copied_id = self.copied_id(&replaced.client_order_id, number);
        let Some(original) = self.orders.get_mut(&replaced.original_user_ref_num) else { return };
        let before = *original;
        original.end = b'5';
        original.leaves = 0;
        self.orders.insert(
            number,
            ReportedOrder {
                id: request.map(|request| request.id).or(copied_id).unwrap_or(before.id),
                side: side_code(replaced.side),
                order_type: type_code(replaced.order_type, &replaced.instructions),
                time_in_force: life_code(replaced.time_in_force),
                price: replaced.price.0,
                stop: replaced.instructions.trigger.0,
                quantity: before.executed + replaced.leaves.get(),
                leaves: replaced.leaves.get(),
                is_replacement: true,
                is_plain: !replaced.instructions.is_some()
                    && replaced.conditions == market::Conditions::NONE,
                ..before
            },
        );
        if request.is_none() && self.copied.is_some() {
            self.remember(numbered_id(number), number);
        }
        let report = Report { original: Some(before.id), ..Report::of(b'5') };
        self.report(number, &report, time, send);
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
        if request.msg_type == b'G' && request.quantity.get() <= order.executed {
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

    /// A cancel waits for the end of the order's auction; its end then comes without a request.
    fn cancel_held(&mut self, held: &CancelHeld, time: Timestamp, send: SendMessage<'_>) {
        let number = held.key.user_ref_num;
        let is_it = |it: &RequestNote| it.msg_type == b'F' && it.original == number;
        let Some(at) = self.pending.iter().position(is_it).filter(|_| held.is_pending) else {
            return;
        };
        let Some(request) = self.pending.remove(at) else { return };
        self.receive(request.counted);
        let Some(order) = self.orders.get_mut(&number) else { return };
        let original = Some(core::mem::replace(&mut order.id, request.id));
        let text = "the order is canceled when its auction is over";
        self.report(number, &Report { original, text, ..Report::of(b'6') }, time, send);
    }

    /// Reports the open lots of an order that were reduced without a request for it.
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

    /// Keeps an id. If too many are kept, checks a few of the oldest, and drops those that do not name a live order.
    /// The work does not grow with the number of live orders.
    fn remember(&mut self, id: ClOrdId, number: u32) {
        if self.ids.insert(id, number).is_none() {
            self.history.push_back(id);
        }
        for _ in 0..LOOKS_PER_ID {
            if self.history.len() <= IDS_MAX {
                break;
            }
            let Some(oldest) = self.history.pop_front() else { return };
            let number = self.ids.get(&oldest).copied().unwrap_or(0);
            if self.orders.get(&number).is_some_and(|order| order.end == 0) {
                self.history.push_back(oldest);
            } else {
                self.ids.remove(&oldest);
                self.orders.remove(&number);
            }
        }
    }
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
        // FIX has no code that names the next auction.
        TimeInForce::GoodForAuction => b'2',
        other => other.code(),
    }
}

/// The OrdStatus of an order that ends for this reason, and its text.
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

#[cfg(test)]
mod tests {
    use market::TradeId;

    use super::{copies::numbered_id, *};

    fn session() -> Reports {
        let (venue, client) = (Text::new("V").unwrap(), Text::new("C").unwrap());
        let version = Version::Fix44;
        Reports::new(&LogonNote {
            version,
            reset: true,
            counted: 1,
            heartbeat_s: 30,
            venue,
            client,
        })
    }

    /// However many orders are live, a new id costs a few checks, and ids of done orders are dropped.
    #[test]
    fn an_id_costs_a_few_looks() {
        let mut reports = session();
        let live_count = IDS_MAX as u32 + 1_000;
        for number in 1..=live_count {
            reports.orders.insert(number, ReportedOrder::default());
            reports.remember(numbered_id(number), number);
        }
        assert_eq!(reports.history.len(), live_count as usize, "the ids of live orders are kept");
        let fifth = reports.history[LOOKS_PER_ID];
        reports.remember(numbered_id(live_count + 1), 0);
        assert_eq!(reports.history[0], fifth);
        for number in 1..=live_count {
            reports.orders.get_mut(&number).unwrap().end = b'2';
        }
        for number in live_count + 2..live_count + 1_000 {
            reports.remember(numbered_id(number), 0);
        }
        assert_eq!(reports.history.len(), IDS_MAX);
        assert_eq!(reports.ids.len(), IDS_MAX);
        assert_eq!(reports.number(&numbered_id(live_count + 1)), Some(0));
    }

    /// The kept state takes no more memory than the venue plans for.
    #[test]
    fn what_is_kept_has_a_bound() {
        let mut reports = session();
        for number in 1..=2 * IDS_MAX as u32 {
            reports.orders.insert(number, ReportedOrder { end: b'2', ..Default::default() });
            reports.remember(numbered_id(number), number);
            reports.trades.keep(TradeId(number.into()), 1, Quantity(1));
        }
        let Reports { orders, ids, history, trades, .. } = &reports;
        assert_eq!((orders.len(), ids.len()), (IDS_MAX, IDS_MAX));
        let queues = history.capacity() * size_of::<ClOrdId>() + trades.held();
        let held = orders.held() + ids.held() + queues;
        assert!(held <= Reports::BYTES_MAX, "{held} of {}", Reports::BYTES_MAX);
    }
}
