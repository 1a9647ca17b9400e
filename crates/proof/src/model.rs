//! The exchange as one would explain it: slow, obvious, and written without a look at the engine.
//!
//! All live orders are in one list, in the sequence of their arrival. Every question is a search of
//! this list from the front. The engine, with its windows, pools and indexes, must give the same results
//! as this model. The numbers in the comments are the rules of docs/rules.md.

mod acceptance;
mod continuous;
mod sharing;
mod minimum_quantity;
mod pegs;
mod contingent;
mod auction;
mod in_steps;
mod pending_cancels;
mod venue;
mod busts;
mod money;
mod account_limits;
mod reservation;
mod operators;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

pub use auction::AuctionStep;
pub use contingent::Place;

use market::{
    AccountQueried, AddInstrument, AddSession, CancelHeld, CancelReason, Canceled, ClientOrderId,
    Command, CommandKind, Conditions, Display, EntrySwitch, EntrySwitched, Event, Fill, Firm,
    Handling, Input, Instructions, Instrument, InstrumentId, Lots, MassCancel, MassCanceled,
    Modified, ModifyOrder, OperatorCommand, OperatorName, OperatorResult, OrderAttributes, OrderId,
    OrderKey, OrderType, Phase, Price, Quantity, RejectReason, Rejected, RestateReason, Restated,
    Scope, SelfMatchPrevention, SessionAdded, SessionId, Shown, Side, Symbol, SystemEvent, Text,
    TimeInForce, TradeId,
};

use auction::{Auction, Looks};
use busts::KeptTrade;
use in_steps::Half;
use money::ModelMoney;
use pending_cancels::{Meant, Pending};
use venue::Market;

/// The largest quantity (5.3).
const QUANTITY_MAX: u64 = 999_999;

/// The highest price (5.4).
const PRICE_MAX: u64 = 1_999_999_900;

/// The most instruments, and the most sessions (3.1, 3.3).
const COUNT_MAX: usize = 65_535;

/// The most firms for which a session may forbid entry (11.4).
const FIRMS_FORBIDDEN_MAX: usize = 256;

const SECOND_NS: u64 = 1_000_000_000;

/// The whole state of the exchange.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The number of parts of the day that have begun, skipped parts included.
    day: usize,
    instruments: Vec<Instrument>,
    /// The market of each instrument.
    markets: Vec<Market>,
    sessions: Vec<ModelSession>,
    /// The live orders, in the sequence in which they were accepted or replaced another order.
    orders: Vec<ModelOrder>,
    order_count: u64,
    trade_count: u64,
    /// Lots traded in all.
    volume: u128,
    money: ModelMoney,
    /// Scopes whose orders are refused, oldest first.
    blocks: Vec<Scope>,
    /// The last command of each operator, and its result. (51.2)
    operators: BTreeMap<OperatorName, (OperatorCommand, OperatorResult)>,
    auction_steps: BTreeMap<AuctionStep, u64>,
    /// The number of times a price was shared out.
    shared_out: u64,
    /// All trades; a rehearsal begins without any.
    past: Arc<Vec<KeptTrade>>,
    now_ns: u64,
    /// Price of the last trade of each instrument that had one.
    last_trades: BTreeMap<InstrumentId, u64>,
    /// Kind of the command being applied; `None` while time passes before it. (1.2)
    command: Option<CommandKind>,
    /// The events of this command so far.
    events: Vec<Event>,
    /// Orders that changed in this command; true for those that executed.
    noted: Vec<(OrderKey, bool)>,
    /// Orders that are triggered and still to come in.
    line: Vec<OrderKey>,
    /// Orders that are still to be canceled, each entry with its round. (24.1, 24.8)
    pending: VecDeque<(u64, Pending)>,
    /// Auctions that trade in steps. (27.14)
    auctions: Vec<Auction>,
    /// The orders and auctions that may still be examined. (28.3)
    looks: Looks,
    /// Orders that trade in steps, in the order of their turns. (6.11)
    halves: VecDeque<Half>,
    /// Is this a copy in which the outcome of an order is tried?
    is_rehearsal: bool,
    /// Cancels held back until no auction trades in steps any more. (27.16)
    stuck: VecDeque<Pending>,
    /// Did an earlier command leave triggered orders over? (20.12)
    is_line_left: bool,
    /// Did an earlier command leave pegged orders over? (36.12)
    is_behind: bool,
    /// Did an earlier command leave orders over that wait for quantity? (37.11)
    is_check_left: bool,
    /// When a command last left work over that is still to be done.
    left_since_ns: Option<u64>,
    /// The last time at which orders expired.
    expired_ns: u64,
    /// Instruments with a change that minimum-quantity orders wait for. (37.3)
    stirred: Vec<InstrumentId>,
    /// Minimum-quantity orders that are still to be examined.
    minimum_line: Vec<(OrderKey, OrderId)>,
}

#[derive(Clone, Debug)]
struct ModelSession {
    username: Text<6>,
    firm: Firm,
    live_orders_max: u32,
    self_match_prevention: SelfMatchPrevention,
    numbers_used: BTreeMap<u8, u32>,
    /// Its size class, by the live orders that it had when one more was accepted. (24.6)
    size_class: u32,
    firms_forbidden: BTreeSet<Firm>,
}

/// A live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOrder {
    pub order_id: OrderId,
    pub key: OrderKey,
    pub instrument_id: InstrumentId,
    pub side: Side,
    /// Limit or market; a live order is a limit order, or a market order that waits for an auction.
    pub order_type: OrderType,
    pub time_in_force: TimeInForce,
    pub display: Display,
    pub price: Price,
    /// Lots requested by the whole chain.
    pub quantity: u64,
    /// Lots executed by the whole chain.
    pub executed: u64,
    /// Lots removed from this order.
    pub canceled: u64,
    /// Lots prevented from trading by self-match prevention, in the whole chain.
    pub prevented: u64,
    /// The amount reserved for it, in units of the asset that it pays with or delivers.
    pub held: i128,
    pub attributes: OrderAttributes,
    pub conditions: Conditions,
    pub instructions: Instructions,
    /// The lots shown now, of a resting iceberg. (35.1)
    pub part: Option<u64>,
    /// The bound that the price of a pegged order never passes. (36.2)
    pub bound: Option<Price>,
    pub place: Place,
    /// Is it still to be canceled? (24.1)
    pub leaving: bool,
    /// The best price at which the market traded while an order waits for its trigger, the last trade
    /// before included. (20.5)
    pub best: Option<u64>,
}

impl ModelOrder {
    /// The open lots.
    pub fn leaves(&self) -> Quantity {
        Quantity(self.quantity - self.executed - self.canceled - self.prevented)
    }

    fn is_done(&self) -> bool {
        self.leaves().is_zero()
    }

    /// May its remainder rest? (6.6, 6.7)
    fn may_rest(&self) -> bool {
        self.time_in_force.may_rest() && self.order_type == OrderType::Limit
    }

    /// Is it hidden? (16.1)
    fn is_hidden(&self) -> bool {
        self.display == Display::Hidden
    }

    /// Does it rest beside the book, for an auction? (25.7, 26.2)
    fn is_beside(&self) -> bool {
        self.place == Place::Book
            && (self.time_in_force.is_for_auction() || self.order_type == OrderType::Market)
    }

    /// For an order beside the book: is it over when its instrument enters this phase? (26.4)
    fn is_over_in(&self, phase: Phase) -> bool {
        match phase {
            Phase::Continuous => self.time_in_force != TimeInForce::AtTheClose,
            Phase::Closed => true,
            _ => false,
        }
    }

    /// Can the continuous market trade with it?
    fn is_in_book(&self) -> bool {
        self.place == Place::Book && !self.is_beside() && !self.is_done()
    }

    /// Does the feed show it? (16.1)
    fn is_displayed(&self) -> bool {
        self.place == Place::Book && !self.is_beside() && !self.is_hidden()
    }

    /// Lots that an incoming order can take at once. (35.3)
    fn offered(&self) -> u64 {
        self.part.unwrap_or(self.leaves().0)
    }

    /// The open lots that the feed shows of a resting order. (16.1)
    pub fn on_the_feed(&self) -> Quantity {
        Quantity(if self.is_displayed() { self.offered() } else { 0 })
    }

    /// The shown part of an iceberg when it begins to rest. (35.1)
    fn first_part(&self) -> Option<u64> {
        let part = self.instructions.shown_quantity.quantity().0;
        (part > 0 && !self.is_beside()).then(|| part.min(self.leaves().0))
    }

    /// Does it end with the day? (2.4)
    fn is_of_the_day(&self) -> bool {
        ![TimeInForce::GoodTillCancel, TimeInForce::GoodTillTime].contains(&self.time_in_force)
    }

    /// Would it trade at this price of the other side? (6.1)
    fn accepts(&self, price: Price) -> bool {
        match (self.order_type, self.side) {
            (OrderType::Market | OrderType::MarketToLimit, _) => true,
            (OrderType::Limit, Side::Buy) => price <= self.price,
            (OrderType::Limit, _) => price >= self.price,
        }
    }

    /// Bounds the shown part by the open lots: removed lots come from the hidden part first. (35.5)
    fn show_no_more_than_is_open(&mut self) {
        let leaves = self.leaves().0;
        self.part = self.part.map(|part| part.min(leaves));
    }

    /// The open lots in excess of an intended quantity. (7.1, 7.2)
    fn too_much(&self, intended: Quantity) -> u64 {
        let may_execute = self.executed + self.leaves().0;
        may_execute.saturating_sub(intended.0).min(self.leaves().0)
    }

    fn fill(&self) -> Fill {
        Fill { key: self.key, order_id: self.order_id, leaves: self.leaves() }
    }
}

impl Model {
    /// Applies an input and returns its events.
    pub fn apply(&mut self, input: &Input) -> Vec<Event> {
        self.now_ns = input.timestamp.0;
        self.command = None;
        self.looks = Looks::NEW;
        self.pass_time();
        self.command = Some(input.command.kind());
        self.looks = Looks::NEW;
        match &input.command {
            Command::System(event) => self.system(*event),
            Command::AddInstrument(add) => self.add_instrument(add),
            Command::AddSession(add) => self.add_session(add),
            Command::Enter(order) => self.enter(order),
            Command::Replace(replace) => self.replace(replace),
            Command::Cancel(cancel) => {
                if let Some(place) = self.place_of(cancel.key) {
                    let too_much = self.orders[place].too_much(cancel.quantity);
                    if too_much > 0 && self.is_stuck(&self.orders[place]) {
                        self.answer_in_auction(place, too_much);
                    } else {
                        self.cancel(place, too_much, CancelReason::User);
                    }
                }
            }
            Command::Modify(modify) => self.modify(modify),
            Command::MassCancel(mass) => self.mass_cancel(mass),
            // 12.1
            Command::CancelOnDisconnect(of) => {
                if of.session_id.0 != 0 {
                    let scope = Scope { session_id: of.session_id, ..Scope::ALL };
                    let meant = Meant { is_own: true, ..Meant::of(scope) };
                    self.cancel_meant(&meant, CancelReason::Supervisory);
                }
            }
            Command::SwitchEntry(switch) => self.switch_entry(switch),
            Command::Time => {}
            Command::QueryAccount(query) => {
                if self.session(query.session_id).is_some() {
                    let used = self.number_used(query.session_id, query.channel);
                    self.events.push(Event::AccountQueried(AccountQueried {
                        session_id: query.session_id,
                        channel: query.channel,
                        next_user_ref_num: used.saturating_add(1),
                    }));
                }
            }
            Command::Note(note) => {
                if self.session(note.session_id).is_some() {
                    self.events.push(Event::Noted(*note));
                }
            }
            Command::Money(command) => self.money(command),
            Command::Venue(command) => self.venue(command),
            Command::Operate(command) => self.operate(command, input.sequence),
            Command::Reject(asked) => {
                if self.use_number(asked.key) {
                    self.reject(asked.key, asked.reason, asked.client_order_id);
                }
            }
        }
        self.follow();
        std::mem::take(&mut self.events)
    }

    /// The live buy orders of an instrument, in trading priority.
    pub fn bids(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut orders = self.live(instrument_id, Side::Buy);
        orders.sort_by_key(|order| (Reverse(order.price), order.is_hidden()));
        orders
    }

    /// The live sell orders of an instrument, in trading priority.
    pub fn asks(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut orders = self.live(instrument_id, Side::Sell);
        orders.sort_by_key(|order| (order.price, order.is_hidden()));
        orders
    }

    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    pub fn live_count(&self) -> usize {
        self.orders.len()
    }

    fn live(&self, instrument_id: InstrumentId, side: Side) -> Vec<ModelOrder> {
        self.by_age(instrument_id, |it| it.is_in_book() && same_side_of_book(it.side, side))
    }

    /// Some orders of an instrument, the oldest first.
    fn by_age(
        &self,
        instrument_id: InstrumentId,
        is_meant: impl Fn(&ModelOrder) -> bool,
    ) -> Vec<ModelOrder> {
        let meant = |it: &&ModelOrder| it.instrument_id == instrument_id && is_meant(it);
        let mut orders: Vec<_> = self.orders.iter().filter(meant).copied().collect();
        orders.sort_by_key(|it| it.order_id);
        orders
    }

    /// The best price of a side that the feed shows.
    fn best_displayed(&self, id: InstrumentId, side: Side) -> Option<Price> {
        let meant = |it: &&ModelOrder| {
            it.instrument_id == id
                && same_side_of_book(it.side, side)
                && it.is_displayed()
                && !it.is_done()
        };
        let prices = self.orders.iter().filter(meant).map(|it| it.price);
        if side == Side::Buy { prices.max() } else { prices.min() }
    }

    fn instrument(&self, instrument_id: InstrumentId) -> &Instrument {
        &self.instruments[usize::from(instrument_id.0) - 1]
    }

    /// The instrument of a symbol, if it was not removed.
    fn listed(&self, symbol: Symbol) -> Option<&Instrument> {
        let mut instruments = self.instruments.iter();
        instruments.find(|it| it.symbol == symbol && !self.market(it.instrument_id).removed)
    }

    fn system(&mut self, event: SystemEvent) {
        // 2.1: all parts of the day, in sequence.
        let parts = SystemEvent::ALL;
        let begun = parts.iter().position(|it| *it == event).expect("six parts") + 1;
        if begun > self.day {
            let was_over = self.day >= 5;
            self.day = begun;
            self.events.push(Event::System(event));
            if begun >= 5 && !was_over {
                self.end_day();
            }
        }
    }

    /// From the start of system hours, the second part, to their end, the fifth. (2.2)
    fn is_open(&self) -> bool {
        self.day >= 2 && self.day < 5
    }

    fn add_instrument(&mut self, add: &AddInstrument) {
        let refused = add.symbol.is_blank()
            || self.listed(add.symbol).is_some()
            || !(1..=PRICE_MAX).contains(&add.price_increment.0)
            || !(1..=QUANTITY_MAX).contains(&add.round_lot.0)
            || self.instruments.len() == COUNT_MAX;
        if refused {
            return;
        }
        let instrument = Instrument {
            instrument_id: InstrumentId(self.instruments.len() as u16 + 1),
            symbol: add.symbol,
            price_increment: add.price_increment,
            round_lot: add.round_lot,
        };
        self.instruments.push(instrument);
        self.markets.push(Market::default());
        self.events.push(Event::InstrumentAdded(instrument));
    }

    fn add_session(&mut self, add: &AddSession) {
        let refused = add.username.is_blank()
            || self.sessions.iter().any(|it| it.username == add.username)
            || self.sessions.len() == COUNT_MAX;
        if refused {
            return;
        }
        self.sessions.push(ModelSession {
            username: add.username,
            firm: add.firm,
            live_orders_max: add.live_orders_max,
            self_match_prevention: add.self_match_prevention,
            numbers_used: BTreeMap::new(),
            size_class: 0,
            firms_forbidden: BTreeSet::new(),
        });
        self.events.push(Event::SessionAdded(SessionAdded {
            session_id: SessionId(self.sessions.len() as u16),
            username: add.username,
            firm: add.firm,
            system_hours: self.is_open(),
        }));
    }

    /// Removes lots from a live order, if not 0, and reports it. (7.3, 7.5)
    fn cancel(&mut self, place: usize, quantity: u64, reason: CancelReason) {
        if quantity == 0 {
            return;
        }
        let cause = self.cause();
        let order = &mut self.orders[place];
        let before = order.on_the_feed();
        order.canceled += quantity;
        order.show_no_more_than_is_open();
        self.events.push(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            quantity: Quantity(quantity),
            leaves: order.leaves(),
            booked: order.place == Place::Book,
            shown: Shown { before, after: order.on_the_feed() },
            reason,
            cause,
        }));
        self.less_is_open(place);
    }

    /// Cancels the remainder of an order that is in no list. (6.6)
    fn cancel_incoming(&mut self, order: &ModelOrder, reason: CancelReason) {
        self.events.push(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            quantity: order.leaves(),
            leaves: Quantity::ZERO,
            booked: false,
            shown: Shown::NONE,
            reason,
            cause: self.cause(),
        }));
        self.let_go(order);
    }

    fn cancel_all_of(&mut self, key: OrderKey, reason: CancelReason) {
        let place = self.place_of(key).expect("it was found live");
        self.cancel(place, self.orders[place].leaves().0, reason);
    }

    /// Answers a cancel of an order whose auction trades in steps. (27.16)
    fn answer_in_auction(&mut self, place: usize, too_much: u64) {
        let order = self.orders[place];
        if self.is_leaving(&order) {
            return;
        }
        let is_pending = too_much == order.leaves().0;
        if is_pending {
            self.cancel_or_wait(order.key, CancelReason::User);
        }
        self.events.push(Event::CancelHeld(CancelHeld { key: order.key, is_pending }));
    }

    /// Updates a live order after a removal of lots: it needs less money, and may be done.
    fn less_is_open(&mut self, place: usize) {
        let mut order = self.orders[place];
        self.give_back(&mut order, TradeId(0));
        self.orders[place] = order;
        self.note(&order, false);
    }

    fn modify(&mut self, asked: &ModifyOrder) {
        let Some(place) = self.place_of(asked.key) else { return };
        // 43.5
        let may_have = asked.side == self.orders[place].side
            || self.may_have_side(&self.orders[place], asked.side);
        let order = &mut self.orders[place];
        let too_much = order.too_much(asked.quantity);
        // 8.1, 8.4
        if !same_side_of_book(order.side, asked.side)
            || !may_have
            || (order.side == asked.side && too_much == 0)
        {
            return;
        }
        if self.is_stuck(&self.orders[place]) {
            return self.answer_in_auction(place, too_much);
        }
        let order = &mut self.orders[place];
        let before = order.on_the_feed();
        order.side = asked.side;
        order.canceled += too_much;
        order.show_no_more_than_is_open();
        self.events.push(Event::Modified(Modified {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            quantity: Quantity(too_much),
            leaves: order.leaves(),
            shown: Shown { before, after: order.on_the_feed() },
        }));
        self.less_is_open(place);
    }

    fn mass_cancel(&mut self, asked: &MassCancel) {
        let MassCancel { key, firm, symbol, side, group_id } = *asked;
        if !self.use_number(key) {
            return;
        }
        let canceled = MassCanceled { key, firm, symbol, side, group_id };
        self.events.push(Event::MassCanceled(canceled));
        // 10.1
        if symbol != Symbol::BLANK && self.listed(symbol).is_none() {
            return;
        }
        let firm = Some(self.firm_meant(key.session_id, firm));
        let scope = Scope { session_id: key.session_id, symbol, side, group_id, ..Scope::ALL };
        self.cancel_meant(&Meant { firm, is_own: true, ..Meant::of(scope) }, CancelReason::User);
    }

    fn switch_entry(&mut self, asked: &EntrySwitch) {
        let EntrySwitch { key, firm, enabled } = *asked;
        if !self.use_number(key) {
            return;
        }
        let forbidden = self.firm_meant(key.session_id, firm);
        let firms = &mut self.sessions[usize::from(key.session_id.0) - 1].firms_forbidden;
        if enabled {
            firms.remove(&forbidden);
        } else {
            firms.insert(forbidden);
        }
        // 11.4
        if firms.len() > FIRMS_FORBIDDEN_MAX {
            firms.remove(&forbidden);
            return self.reject(key, RejectReason::NotSupported, ClientOrderId::BLANK);
        }
        self.events.push(Event::EntrySwitched(EntrySwitched { key, firm, enabled }));
    }

    fn session(&self, session_id: SessionId) -> Option<&ModelSession> {
        if session_id.0 == 0 { None } else { self.sessions.get(usize::from(session_id.0) - 1) }
    }

    /// The last number used; 0 before the first. (4.1)
    fn number_used(&self, session_id: SessionId, channel: u8) -> u32 {
        let session = self.session(session_id);
        session.and_then(|it| it.numbers_used.get(&channel)).copied().unwrap_or(0)
    }

    /// Uses a number up, unless the session is unknown or the number is not above the last one.
    /// (1.4, 4.2)
    fn use_number(&mut self, key: OrderKey) -> bool {
        let used = self.number_used(key.session_id, key.channel);
        if self.session(key.session_id).is_none() || key.user_ref_num <= used {
            return false;
        }
        let session = &mut self.sessions[usize::from(key.session_id.0) - 1];
        session.numbers_used.insert(key.channel, key.user_ref_num);
        true
    }

    /// The index of a live order in the list. (4.5)
    fn place_of(&self, key: OrderKey) -> Option<usize> {
        self.orders.iter().position(|order| order.key == key)
    }

    fn new_order_id(&mut self) -> OrderId {
        self.order_count += 1;
        OrderId(self.order_count)
    }

    fn new_trade_id(&mut self) -> TradeId {
        self.trade_count += 1;
        TradeId(self.trade_count)
    }

    /// The firm of an order; a blank firm means the session's own. (3.4)
    pub fn firm_meant(&self, session_id: SessionId, firm: Firm) -> Firm {
        let session = self.session(session_id).expect("only asked of sessions there are");
        if firm == Firm::BLANK { session.firm } else { firm }
    }

    /// The firm under which the feed shows an order. (6.6)
    fn shown_as(&self, order: &ModelOrder) -> Firm {
        match order.display {
            Display::Attributable if !order.is_beside() => {
                self.firm_meant(order.key.session_id, order.attributes.firm)
            }
            _ => Firm::BLANK,
        }
    }

    /// The kind of command that cancels and rejections name as their cause. (1.2)
    fn cause(&self) -> CommandKind {
        self.command.unwrap_or(CommandKind::Time)
    }

    fn reject(&mut self, key: OrderKey, reason: RejectReason, client_order_id: ClientOrderId) {
        let rejected = Rejected { key, reason, client_order_id, cause: self.cause() };
        self.events.push(Event::Rejected(rejected));
    }

    /// Reports that an order has another order id, price or shown part.
    fn report_restated(
        &mut self,
        order: &ModelOrder,
        order_id_before: OrderId,
        reason: RestateReason,
    ) {
        let (shown, attribution) = match reason {
            RestateReason::Refreshed => (order.on_the_feed(), self.shown_as(order)),
            _ => (Quantity::ZERO, Firm::BLANK),
        };
        self.events.push(Event::Restated(Restated {
            key: order.key,
            order_id_before,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            reason,
            price: order.price,
            leaves: order.leaves(),
            shown,
            display: order.display,
            attribution,
        }));
    }

    /// A copy of the whole state, in which the outcome of an order can be tried.
    fn rehearsal(&self) -> Self {
        let events = Vec::new();
        Self { past: Arc::default(), events, is_rehearsal: true, ..self.clone() }
    }

    /// The orders of the other side behind the first `counted`.
    fn beyond(&self, order: &ModelOrder, counted: usize) -> Vec<OrderKey> {
        let others = match order.side {
            Side::Buy => self.asks(order.instrument_id),
            _ => self.bids(order.instrument_id),
        };
        others.iter().skip(counted).map(|it| it.key).collect()
    }

    /// The lots that an order would trade at once without the orders in `without`, whatever quantity it
    /// asks for. (15.2, 17.1)
    fn would_trade(&self, order: &ModelOrder, without: &[OrderKey]) -> u64 {
        let mut rehearsal = self.rehearsal();
        rehearsal.orders.retain(|it| !without.contains(&it.key));
        let mut copy = ModelOrder {
            place: Place::Book,
            time_in_force: TimeInForce::ImmediateOrCancel,
            ..*order
        };
        // The copy acts as a newly accepted order. (37.2)
        copy.order_id = rehearsal.new_order_id();
        copy.conditions.minimum_quantity = Lots::ZERO;
        copy.instructions.handling = Handling::new(false, copy.instructions.handling.slides());
        rehearsal.trade_then_rest(copy);
        u64::try_from(rehearsal.volume - self.volume).expect("no more than the order's")
    }
}

/// Are both sides on the same side of the book? Buy is one, every kind of sell the other. (6.5)
fn same_side_of_book(one: Side, other: Side) -> bool {
    (one == Side::Buy) == (other == Side::Buy)
}

/// Is it a valid price of the instrument? (5.4)
fn is_price(instrument: &Instrument, price: Price) -> bool {
    (1..=PRICE_MAX).contains(&price.0) && price.0.is_multiple_of(instrument.price_increment.0)
}
