//! The exchange as one would explain it: slow, obvious, and written without a look at the engine.
//!
//! All live orders stand in one list, in the order in which they came. Whatever is asked, the list
//! is gone through from the front. What the engine does with windows, pools and indexes must be
//! what this does; the numbers in the comments are the rules of docs/rules.md.

mod money;
mod minimum_quantity;
mod pegs;
mod sharing;
mod undo;
mod operators;
mod venue;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use waiting::Place;
use waiting::allowed_trigger;

use market::{
    Accepted, AccountQueried, AddInstrument, AddSession, Booked, CancelReason, Canceled,
    ClientOrderId, Command, CommandKind, Conditions, Display, EnterOrder, EntrySwitch,
    EntrySwitched, Event, Fill, Firm, Input, Instructions, Instrument, InstrumentId, Lots,
    MassCancel, MassCanceled, Modified, ModifyOrder, OperatorCommand, OperatorName, OperatorResult,
    OrderAttributes, OrderId, OrderKey, OrderType, Phase, PhaseCause, Price, Quantity,
    RejectReason, Rejected, ReplaceOrder, ReplaceTerms, Replaced, RestateReason, Restated, Scope,
    SelfMatchPrevented, SelfMatchPrevention, SessionAdded, SessionId, SetPhase, Shown, Side,
    Symbol, SystemEvent, Text, Ticks, TimeInForce, TradeId, Traded,
};

use minimum_quantity::has_minimum;
use money::{AskedOrder, ModelMoney};
use sharing::Shared;
use undo::Past;
pub use venue::AuctionStep;
use venue::{Asked, Market, is_beside};

/// The largest quantity (5.3).
const QUANTITY_MAX: u64 = 999_999;

/// The highest price (5.4).
const PRICE_MAX: u64 = 1_999_999_900;

/// How many instruments, and how many sessions, there may be (3.1, 3.3).
const COUNT_MAX: usize = 65_535;

/// For how many firms a session may forbid entry (11.4).
const FIRMS_FORBIDDEN_MAX: usize = 256;

/// So many orders of the other side count for a minimum (15.6).
const COUNTED_MAX: usize = 1_024;

/// The parts of the day, in their order (2.1).
const DAY: [SystemEvent; 6] = [
    SystemEvent::StartOfMessages,
    SystemEvent::StartOfSystemHours,
    SystemEvent::StartOfMarketHours,
    SystemEvent::EndOfMarketHours,
    SystemEvent::EndOfSystemHours,
    SystemEvent::EndOfMessages,
];

/// The whole state of the exchange.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// How many parts of the day have begun, those left out included.
    day: usize,
    instruments: Vec<Instrument>,
    /// How each instrument is traded.
    markets: Vec<Market>,
    sessions: Vec<ModelSession>,
    /// The live orders, in the order in which they were accepted or replaced another.
    orders: Vec<ModelOrder>,
    order_count: u64,
    trade_count: u64,
    /// Lots traded in all.
    volume: u64,
    money: ModelMoney,
    /// What the venue does not take, oldest first.
    blocks: Vec<Scope>,
    /// The last command of each operator, and its result. (51.2)
    operators: BTreeMap<OperatorName, (OperatorCommand, OperatorResult)>,
    auction_steps: BTreeMap<AuctionStep, u64>,
    /// How often a price was shared out.
    shared_out: u64,
    /// All trades; what is tried on a copy begins without.
    past: Arc<Vec<Past>>,
    /// The time of the input.
    now_ns: u64,
    /// Price of the last trade of each instrument that had one.
    last_trades: BTreeMap<InstrumentId, u64>,
    /// When a command last left orders that are still to be moved. (36.12)
    behind_since_ns: Option<u64>,
    /// Orders to which something happened in this command; true for those that executed.
    noted: Vec<(OrderKey, bool)>,
    /// Orders that are triggered and still to come in.
    line: Vec<OrderKey>,
    /// Instruments in which something happened that minimum-quantity orders wait for. (37.3)
    stirred: Vec<InstrumentId>,
    /// Minimum-quantity orders that are still to be looked at.
    minimum_line: Vec<(OrderKey, OrderId)>,
}

#[derive(Clone, Debug)]
struct ModelSession {
    username: Text<6>,
    firm: Firm,
    live_orders_max: u32,
    self_match_prevention: SelfMatchPrevention,
    /// By channel.
    numbers_used: BTreeMap<u8, u32>,
    firms_forbidden: BTreeSet<Firm>,
}

/// A live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOrder {
    /// As the exchange names it.
    pub order_id: OrderId,
    /// As its owner names it.
    pub key: OrderKey,
    /// What it trades.
    pub instrument_id: InstrumentId,
    /// Which way.
    pub side: Side,
    /// Limit or market; a live order is a limit order, or a market order that waits for an auction.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// How it is shown.
    pub display: Display,
    /// Limit, in ticks.
    pub price: Price,
    /// Asked for by the whole chain, in lots.
    pub quantity: u64,
    /// Executed by the whole chain, in lots.
    pub executed: u64,
    /// Removed from this order, in lots.
    pub canceled: u64,
    /// Prevented from trading with its own, by the whole chain, in lots.
    pub prevented: u64,
    /// What is reserved for it, in units of what it pays with or delivers.
    pub held: i128,
    /// What it carries along.
    pub attributes: OrderAttributes,
    /// Its conditions, as entered or kept.
    pub conditions: Conditions,
    /// Its instructions, as entered or kept.
    pub instructions: Instructions,
    /// Of a reserve order that rests, the lots that are shown now. (35.1)
    pub part: Option<u64>,
    /// Beyond which the price of one that follows the market never goes. (36.2)
    pub bound: Option<Price>,
    /// Where it is.
    pub place: Place,
    /// Of an order that waits for a trigger, the best price at which the market traded since, the
    /// last trade before included. (20.5)
    pub best: Option<u64>,
}

impl ModelOrder {
    /// Still open.
    #[must_use]
    pub fn leaves(&self) -> Quantity {
        Quantity(self.quantity - self.executed - self.canceled - self.prevented)
    }

    /// May what is left of it rest? (6.6, 6.7)
    fn may_rest(&self) -> bool {
        match self.time_in_force {
            TimeInForce::Day | TimeInForce::GoodTillCancel | TimeInForce::GoodTillTime => {
                self.order_type == OrderType::Limit
            }
            _ => false,
        }
    }

    /// Would it trade at this price of the other side? (6.1)
    fn accepts(&self, price: Price) -> bool {
        match (self.order_type, self.side) {
            (OrderType::Market | OrderType::MarketToLimit, _) => true,
            (OrderType::Limit, Side::Buy) => price <= self.price,
            (OrderType::Limit, _) => price >= self.price,
        }
    }

    /// Lots that are taken away are taken from what is not shown first. (35.5)
    fn show_no_more_than_is_open(&mut self) {
        let leaves = self.leaves().0;
        if let Some(part) = &mut self.part {
            *part = (*part).min(leaves);
        }
    }

    /// What an intended quantity leaves no room for. (7.1, 7.2)
    fn too_much(&self, intended: Quantity) -> u64 {
        let may_execute = self.executed + self.leaves().0;
        if may_execute <= intended.0 {
            return 0;
        }
        (may_execute - intended.0).min(self.leaves().0)
    }

    fn fill(&self) -> Fill {
        Fill { key: self.key, order_id: self.order_id, leaves: self.leaves() }
    }
}

impl Model {
    /// Before the first input.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an input; returns its events.
    pub fn apply(&mut self, input: &Input) -> Vec<Event> {
        let mut events = Vec::new();
        self.now_ns = input.timestamp.0;
        self.pass_time(&mut events);
        name_cause(&mut events, CommandKind::Time);
        let passed = events.len();
        match &input.command {
            Command::System(event) => self.system(*event, &mut events),
            Command::AddInstrument(add) => self.add_instrument(add, &mut events),
            Command::AddSession(add) => self.add_session(add, &mut events),
            Command::Enter(order) => self.enter(order, &mut events),
            Command::Replace(replace) => self.replace(replace, &mut events),
            Command::Cancel(cancel) => {
                if let Some(place) = self.place_of(cancel.key) {
                    let too_much = self.orders[place].too_much(cancel.quantity);
                    self.cancel(place, too_much, CancelReason::User, &mut events);
                }
            }
            Command::Modify(modify) => self.modify(modify, &mut events),
            Command::MassCancel(mass) => self.mass_cancel(mass, &mut events),
            Command::CancelOnDisconnect(cut_off) => {
                // 12.1
                let mut meant: Vec<OrderKey> = self
                    .orders
                    .iter()
                    .map(|order| order.key)
                    .filter(|key| key.session_id == cut_off.session_id)
                    .collect();
                meant.sort();
                for key in meant {
                    let place = self.place_of(key).expect("it was found live");
                    let leaves = self.orders[place].leaves().0;
                    self.cancel(place, leaves, CancelReason::Supervisory, &mut events);
                }
            }
            Command::SwitchEntry(switch) => self.switch_entry(switch, &mut events),
            Command::Time => {}
            Command::QueryAccount(query) => {
                if self.session(query.session_id).is_some() {
                    let used = self.number_used(query.session_id, query.channel);
                    events.push(Event::AccountQueried(AccountQueried {
                        session_id: query.session_id,
                        channel: query.channel,
                        next_user_ref_num: if used == u32::MAX { used } else { used + 1 },
                    }));
                }
            }
            Command::Money(command) => self.money(command, &mut events),
            Command::Venue(command) => self.venue(command, &mut events),
            Command::Operate(command) => self.operate(command, input.sequence, &mut events),
            Command::Reject(refused) => {
                if self.use_number(refused.key) {
                    let name = refused.client_order_id;
                    events.push(rejected(refused.key, refused.reason, name));
                }
            }
        }
        self.follow(&mut events);
        name_cause(&mut events[passed..], input.command.kind());
        events
    }

    /// The live buy orders of an instrument, first to trade first.
    #[must_use]
    pub fn bids(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut orders = self.live(instrument_id, Side::Buy);
        orders.sort_by_key(|order| (std::cmp::Reverse(order.price), is_hidden(order)));
        orders
    }

    /// The live sell orders of an instrument, first to trade first.
    #[must_use]
    pub fn asks(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut orders = self.live(instrument_id, Side::Sell);
        orders.sort_by_key(|order| (order.price, is_hidden(order)));
        orders
    }

    /// All instruments, by number.
    #[must_use]
    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    /// How many orders are live.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.orders.len()
    }

    fn live(&self, instrument_id: InstrumentId, side: Side) -> Vec<ModelOrder> {
        let meant = |order: &&ModelOrder| {
            order.instrument_id == instrument_id
                && same_side_of_book(order.side, side)
                && !is_beside(order)
                && order.place == Place::Book
        };
        self.orders.iter().filter(meant).copied().collect()
    }

    fn system(&mut self, event: SystemEvent, events: &mut Vec<Event>) {
        let begun = DAY.iter().position(|it| *it == event).expect("six parts") + 1;
        if begun > self.day {
            let was_over = self.day >= 5;
            self.day = begun;
            events.push(Event::System(event));
            if begun >= 5 && !was_over {
                self.end_day(events);
            }
        }
    }

    /// From the start of system hours, the second part, to their end, the fifth. (2.2)
    fn is_open(&self) -> bool {
        self.day >= 2 && self.day < 5
    }

    fn add_instrument(&mut self, add: &AddInstrument, events: &mut Vec<Event>) {
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
        events.push(Event::InstrumentAdded(instrument));
    }

    fn add_session(&mut self, add: &AddSession, events: &mut Vec<Event>) {
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
            firms_forbidden: BTreeSet::new(),
        });
        events.push(Event::SessionAdded(SessionAdded {
            session_id: SessionId(self.sessions.len() as u16),
            username: add.username,
            firm: add.firm,
            system_hours: self.is_open(),
        }));
    }

    fn enter(&mut self, asked: &EnterOrder, events: &mut Vec<Event>) {
        if !self.use_number(asked.key) {
            return;
        }
        self.count_asked(asked.key.session_id);
        if let Some(reason) = self.why_not(asked) {
            return events.push(rejected(asked.key, reason, asked.attributes.client_order_id));
        }
        let instrument = self.listed(asked.symbol);
        let instrument_id = instrument.expect("it was checked").instrument_id;
        let mut order = ModelOrder {
            order_id: OrderId(0),
            key: asked.key,
            instrument_id,
            side: asked.side,
            order_type: asked.order_type,
            time_in_force: asked.time_in_force,
            display: asked.display,
            price: asked.price,
            quantity: asked.quantity.0,
            executed: 0,
            canceled: 0,
            prevented: 0,
            held: 0,
            attributes: asked.attributes,
            conditions: asked.conditions,
            instructions: asked.instructions,
            part: None,
            bound: None,
            place: Place::Book,
            best: None,
        };
        if let Some(reason) = self.why_not_for_account(&AskedOrder { order, original: None }) {
            return events.push(rejected(asked.key, reason, asked.attributes.client_order_id));
        }
        order.order_id = self.new_order_id();
        events.push(Event::Accepted(Accepted {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: asked.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        order.forget_price();
        self.hold(&mut order, events);
        self.tie(&order);
        self.begin(order, events);
    }

    /// The first check that an order fails. (5.1)
    fn why_not(&self, asked: &EnterOrder) -> Option<RejectReason> {
        let session = self.session(asked.key.session_id).expect("it was looked up before");
        let instrument = self.listed(asked.symbol);
        let own = |order: &&ModelOrder| order.key.session_id == asked.key.session_id;
        let live_orders = self.orders.iter().filter(own).count();
        let price_fits =
            instrument.is_some_and(|it| allowed_price(it, asked.order_type, asked.price));
        let quantity_max = instrument.map_or(0, |it| self.quantity_max(it.instrument_id));
        let quantity_fits = (1..=quantity_max).contains(&asked.quantity.0);
        // 15.1, 36.4
        let minimum = asked.conditions.minimum_quantity.quantity();
        let follows = asked.instructions.pricing.is_pegged();
        let may_have = !follows && may_have_minimum(asked.order_type, asked.time_in_force);
        let minimum_fits = minimum == Quantity::ZERO || (may_have && minimum <= asked.quantity);
        let OrderAttributes { firm, group_id, .. } = asked.attributes;
        let now =
            instrument.and_then(|it| self.why_not_now(it, asked.key, firm, asked.side, group_id));
        let here = instrument.and_then(|it| {
            let asked = Asked {
                side: asked.side,
                order_type: asked.order_type,
                time_in_force: asked.time_in_force,
                has_minimum: minimum > Quantity::ZERO || asked.instructions.all_or_none,
                follows,
                replaces_one_that_follows: false,
                session_id: asked.key.session_id,
                quantity: asked.quantity.0,
                price: asked.price,
            };
            self.why_not_here(it.instrument_id, &asked)
        });
        let checks = [
            (self.is_open(), RejectReason::MarketClosed),
            (self.may_enter(session, asked.attributes.firm), RejectReason::EntryDisabled),
            (instrument.is_some(), RejectReason::InvalidSymbol),
            (now.is_none(), now.unwrap_or(RejectReason::Halted)),
            (quantity_fits, RejectReason::InvalidQuantity),
            (price_fits, RejectReason::InvalidPrice),
            // 36.3
            (!follows || asked.display == Display::Hidden, RejectReason::InvalidDisplay),
            (minimum_fits, RejectReason::InvalidMinimumQuantity),
            (
                allowed_part(asked.display, asked.quantity, asked.instructions),
                RejectReason::InvalidMaxFloor,
            ),
            (
                instrument.is_some_and(|it| allowed_offset(it, asked.instructions)),
                RejectReason::InvalidPegType,
            ),
            (
                !follows || may_follow(asked.order_type, asked.time_in_force),
                RejectReason::PeggingNotAllowed,
            ),
            (
                is_offered(
                    asked.order_type,
                    asked.time_in_force,
                    asked.conditions,
                    asked.instructions,
                ),
                RejectReason::NotSupported,
            ),
            (
                self.allowed_expiry(asked.time_in_force, asked.instructions.expires_s),
                RejectReason::InvalidExpiry,
            ),
            (
                instrument.is_some_and(|it| {
                    let told = asked.instructions;
                    allowed_trigger(it, asked.side, asked.order_type, told)
                }),
                RejectReason::InvalidTrigger,
            ),
            (self.allowed_links(asked), RejectReason::InvalidLink),
            (here.is_none(), here.unwrap_or(RejectReason::NotInPhase)),
            (live_orders < session.live_orders_max as usize, RejectReason::TooManyOrders),
        ];
        checks.into_iter().find(|(passed, _)| !passed).map(|(_, reason)| reason)
    }

    /// Trades an order, and lets it rest or cancels it; as it is afterwards, but for that.
    fn trade_then_rest(&mut self, mut order: ModelOrder, events: &mut Vec<Event>) -> ModelOrder {
        if self.is_collected(&order) {
            self.rest(order, events);
            return order;
        }
        // 14.1
        if order.conditions.post_only && self.first_to_trade_with(&order).is_some() {
            events.push(canceled_at_once(&order, CancelReason::PostOnly));
            self.let_go(&order, events);
            return order;
        }
        // 15.2, 17.1: one would see by trying, on a copy of everything.
        let minimum = match order.time_in_force {
            TimeInForce::FillOrKill => order.leaves().0,
            // 37.9
            _ if order.instructions.all_or_none => order.leaves().0,
            _ => order.conditions.minimum_quantity.quantity().0,
        };
        if minimum > 0 {
            let past = std::mem::take(&mut self.past);
            let mut rehearsal = self.clone();
            self.past = past;
            // 15.6
            let mut others = match order.side {
                Side::Buy => self.asks(order.instrument_id),
                _ => self.bids(order.instrument_id),
            };
            others.retain(|it| it.leaves() > Quantity::ZERO);
            let beyond = others.split_off(others.len().min(COUNTED_MAX));
            rehearsal.orders.retain(|it| !beyond.iter().any(|beyond| beyond.key == it.key));
            let mut copy = order;
            copy.conditions.minimum_quantity = Lots::ZERO;
            copy.instructions.all_or_none = false;
            copy.time_in_force = TimeInForce::ImmediateOrCancel;
            rehearsal.trade_then_rest(copy, &mut Vec::new());
            let traded = rehearsal.volume - self.volume;
            if traded < minimum {
                events.push(canceled_at_once(&order, CancelReason::ImmediateOrCancel));
                self.let_go(&order, events);
                return order;
            }
        }
        let mut price_last = None;
        let market = *self.market(order.instrument_id);
        let mut is_stopped = false;
        while order.leaves() > Quantity::ZERO
            && let Some(place) = self.first_to_trade_with(&order)
        {
            let maker = &self.orders[place];
            // 29.1 to 29.4
            if !self.is_within_bands(&market, maker.price) {
                is_stopped = true;
                break;
            }
            // 38.1, 38.4
            let shared = self.share(&order, place);
            let place = if let Some(Shared::Own(own)) = shared { own } else { place };
            let maker = &self.orders[place];
            // 13.1, 35.6
            if self.are_own(&order, maker) {
                let quantity = Quantity(order.leaves().0.min(maker.leaves().0));
                self.prevent(place, &mut order, quantity, events);
                continue;
            }
            price_last = Some(maker.price);
            if let Some(Shared::Out(shares)) = shared {
                self.share_out(&mut order, shares, events);
                continue;
            }
            let offered = maker.part.unwrap_or(maker.leaves().0);
            let quantity = Quantity(order.leaves().0.min(offered));
            self.trade(place, &mut order, quantity, events);
        }
        self.note_last(order.instrument_id, price_last);
        if order.leaves() == Quantity::ZERO {
            self.give_back(&mut order, TradeId(0), events);
            return order;
        }
        let id = order.instrument_id;
        if is_stopped && !self.pauses(id) {
            events.push(canceled_at_once(&order, CancelReason::Collar));
            self.let_go(&order, events);
            return order;
        }
        if is_stopped {
            let pause = SetPhase::new(Symbol::BLANK, Phase::VolatilityAuction);
            self.begin_phase(id, &pause, PhaseCause::Band, events);
        }
        // 36.9
        if is_stopped && order.is_pegged() {
            self.look_at_auction(id, true, events);
            order.place = Place::Reference;
            return order;
        }
        // 17.3
        if order.order_type == OrderType::MarketToLimit
            && let Some(price) = price_last
        {
            order.order_type = OrderType::Limit;
            order.price = price;
            if order.may_rest() {
                self.give_back(&mut order, TradeId(0), events);
            }
        }
        if order.may_rest() {
            self.rest(order, events);
        } else {
            events.push(canceled_at_once(&order, CancelReason::ImmediateOrCancel));
            self.let_go(&order, events);
        }
        if is_stopped {
            self.look_at_auction(id, true, events);
        }
        order
    }

    /// An order rests from now on.
    fn rest(&mut self, mut order: ModelOrder, events: &mut Vec<Event>) {
        self.stir(order.instrument_id);
        order.part = first_part(&order);
        // 26.7
        if is_beside(&order) {
            order.instructions = order.instructions.without_shown();
        }
        self.orders.push(order);
        events.push(Event::Booked(Booked {
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            price: order.price,
            leaves: order.leaves(),
            shown: on_the_feed(&order).quantity(),
            attribution: self.shown_as(&order),
        }));
    }

    /// A trade with the order at a place, at its price.
    fn trade(
        &mut self,
        place: usize,
        order: &mut ModelOrder,
        quantity: Quantity,
        events: &mut Vec<Event>,
    ) {
        let maker = &mut self.orders[place];
        maker.executed += quantity.0;
        order.executed += quantity.0;
        self.volume += quantity.0;
        self.trade_count += 1;
        let traded = Traded {
            trade_id: TradeId(self.trade_count),
            instrument_id: order.instrument_id,
            taker_side: order.side,
            price: maker.price,
            quantity,
            maker_displayed: !is_hidden(maker),
            maker: maker.fill(),
            taker: order.fill(),
            auction: None,
        };
        let price = traded.price;
        self.keep_trade(&traded);
        events.push(Event::Traded(traded));
        self.settle(place, order, quantity, price, events);
        self.note_settled(events);
        let maker_after = self.orders[place];
        self.note(&maker_after, true);
        self.note_trade(order.instrument_id, price);
        let maker = &mut self.orders[place];
        if let Some(part) = &mut maker.part {
            *part -= quantity.0;
            if *part == 0 && maker.leaves() > Quantity::ZERO {
                self.refresh(place, events);
            }
        }
    }

    /// Shows the next part of a reserve order, behind all others at its price. (35.3)
    fn refresh(&mut self, place: usize, events: &mut Vec<Event>) {
        let mut order = self.orders.remove(place);
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        let leaves = Lots(order.leaves().0 as u32);
        let part = order.instructions.next_shown(order.order_id, leaves);
        order.part = Some(part.quantity().0);
        events.push(Event::Restated(Restated {
            key: order.key,
            order_id_before,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            reason: RestateReason::Refreshed,
            price: order.price,
            leaves: order.leaves(),
            shown: part.quantity(),
            display: order.display,
            attribution: self.shown_as(&order),
        }));
        self.orders.push(order);
    }

    /// What is meant for this order, as the incoming one. (13.2)
    fn prevention(&self, order: &ModelOrder) -> SelfMatchPrevention {
        match order.conditions.self_match_prevention {
            SelfMatchPrevention::SessionDefault => {
                let session = self.session(order.key.session_id).expect("it has an order");
                session.self_match_prevention
            }
            named => named,
        }
    }

    /// May an incoming order not trade with this other one? (13.3, 13.4)
    fn are_own(&self, order: &ModelOrder, other: &ModelOrder) -> bool {
        let prevention = self.prevention(order);
        let is_off =
            [SelfMatchPrevention::Off, SelfMatchPrevention::SessionDefault].contains(&prevention);
        let [one_id, other_id] = [order.key.session_id, other.key.session_id];
        let [one_firm, other_firm] =
            [one_id, other_id].map(|id| self.session(id).expect("it has an order").firm);
        let one_participant =
            one_id == other_id || (one_firm == other_firm && one_firm != Firm::BLANK);
        let for_one_firm = self.firm_meant(one_id, order.attributes.firm)
            == self.firm_meant(other_id, other.attributes.firm);
        let any_firm = "wobd".contains(char::from(prevention.code()));
        !is_off
            && order.conditions.self_match_group == other.conditions.self_match_group
            && one_participant
            && (any_firm || for_one_firm)
    }

    /// Takes lots from the order at a place, and from the incoming one, instead of a trade of so
    /// many. (13.5 to 13.8)
    fn prevent(
        &mut self,
        place: usize,
        order: &mut ModelOrder,
        quantity: Quantity,
        events: &mut Vec<Event>,
    ) {
        let prevention = self.prevention(order);
        let mut maker = self.orders[place];
        let price = maker.price;
        let (from_maker, from_order) = match prevention.code().to_ascii_uppercase() {
            b'W' => (0, order.leaves().0),
            b'O' => (maker.leaves().0, 0),
            b'B' => (maker.leaves().0, order.leaves().0),
            _ => (quantity.0, quantity.0),
        };
        for (it, lots, booked) in [(&mut maker, from_maker, true), (order, from_order, false)] {
            if lots == 0 {
                continue;
            }
            let shown_before = on_the_feed(it);
            it.prevented += lots;
            it.show_no_more_than_is_open();
            events.push(Event::SelfMatchPrevented(SelfMatchPrevented {
                key: it.key,
                order_id: it.order_id,
                instrument_id: it.instrument_id,
                quantity: Quantity(lots),
                leaves: it.leaves(),
                prevented: quantity,
                price,
                booked,
                shown: match booked {
                    true => Shown { before: shown_before, after: on_the_feed(it) },
                    false => Shown::NONE,
                },
                prevention,
            }));
            self.give_back(it, TradeId(0), events);
        }
        self.orders[place] = maker;
        self.note(&maker, false);
    }

    /// Of the orders that this one would trade with, the one of the best price; of those of one
    /// price, the first in the list that is not hidden, or else the first. (6.2, 16.2)
    fn first_to_trade_with(&self, order: &ModelOrder) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (place, other) in self.orders.iter().enumerate() {
            let meets = other.instrument_id == order.instrument_id
                && !same_side_of_book(other.side, order.side)
                && !is_beside(other)
                && other.leaves() > Quantity::ZERO
                && other.place == Place::Book
                && order.accepts(other.price);
            let better = best.is_none_or(|best| {
                let best = &self.orders[best];
                let better_price = match order.side {
                    Side::Buy => other.price < best.price,
                    _ => other.price > best.price,
                };
                better_price || (other.price == best.price && is_hidden(best) && !is_hidden(other))
            });
            if meets && better {
                best = Some(place);
            }
        }
        best
    }

    fn replace(&mut self, asked: &ReplaceOrder, events: &mut Vec<Event>) {
        let original_key = OrderKey { user_ref_num: asked.original_user_ref_num, ..asked.key };
        // 9.1
        let Some(place) = self.place_of(original_key) else { return };
        if asked.key.user_ref_num <= self.number_used(asked.key.session_id, asked.key.channel) {
            return;
        }
        // 9.2
        let original = self.orders[place];
        let session = self.session(asked.key.session_id).expect("it has an order");
        let reason = if !self.is_open() {
            Some(RejectReason::MarketClosed)
        } else if !self.may_enter(session, original.attributes.firm) {
            Some(RejectReason::EntryDisabled)
        } else {
            let instrument = &self.instruments[usize::from(original.instrument_id.0) - 1];
            let OrderAttributes { firm, group_id, .. } = original.attributes;
            self.why_not_now(instrument, asked.key, firm, original.side, group_id)
        };
        if let Some(reason) = reason {
            self.use_number(asked.key);
            let name = asked.terms.map(|it| it.client_order_id).unwrap_or_default();
            return events.push(rejected(asked.key, reason, name));
        }
        // 26.6
        let named = asked.terms.map(|terms| match original.time_in_force {
            life if life.is_for_auction() && terms.time_in_force == TimeInForce::Day => {
                ReplaceTerms { time_in_force: life, ..terms }
            }
            _ => terms,
        });
        // 9.3, 9.5
        let terms = match named {
            Some(terms) if self.acceptable(&original, &terms) => terms,
            _ => {
                let leaves = original.leaves().0;
                return self.cancel(place, leaves, CancelReason::User, events);
            }
        };

        self.count_asked(asked.key.session_id);
        let leaves_used = original.executed + original.prevented;
        let intended = ModelOrder {
            side: terms.side.unwrap_or(original.side),
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: terms.display,
            price: terms.price,
            quantity: terms.quantity.0 - leaves_used,
            executed: 0,
            prevented: 0,
            canceled: 0,
            conditions: terms.conditions.apply(original.conditions),
            instructions: self.told_next(&original, &terms).expect("it was checked"),
            ..original
        };
        let for_account = AskedOrder { order: intended, original: Some(original) };
        if let Some(reason) = self.why_not_for_account(&for_account) {
            self.use_number(asked.key);
            return events.push(rejected(asked.key, reason, terms.client_order_id));
        }
        self.use_number(asked.key);
        // 9.4, 9.6, 9.7
        let mut order = ModelOrder {
            order_id: self.new_order_id(),
            key: asked.key,
            side: terms.side.unwrap_or(original.side),
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: terms.display,
            price: terms.price,
            quantity: terms.quantity.0,
            canceled: 0,
            conditions: Conditions {
                // 15.5
                minimum_quantity: terms.conditions.minimum_quantity.unwrap_or_default(),
                ..terms.conditions.apply(original.conditions)
            },
            instructions: self.told_next(&original, &terms).expect("it was checked"),
            part: None,
            bound: None,
            place: Place::Book,
            best: None,
            attributes: OrderAttributes {
                client_order_id: terms.client_order_id,
                shares_located: terms.shares_located,
                locate_broker: terms.locate_broker,
                ..original.attributes
            },
            ..original
        };
        self.orders.remove(place);
        self.rename(original.key, order.key.user_ref_num);
        // 9.9
        let collected = self.is_collected(&order);
        let in_place = order.may_rest()
            && original.place == Place::Book
            && !order.instructions.pricing.is_triggered()
            && !has_minimum(&order)
            && !is_hidden(&original)
            && !is_beside(&original)
            && !is_hidden(&order)
            && (collected || self.first_to_trade_with(&order).is_none())
            && self.shown_as(&order) == self.shown_as(&original);
        if in_place {
            order.part = first_part(&order);
        }
        events.push(Event::Replaced(Replaced {
            key: order.key,
            original_user_ref_num: original.key.user_ref_num,
            original_order_id: original.order_id,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            in_place,
            original_displayed: original.place == Place::Book
                && !is_hidden(&original)
                && !is_beside(&original),
            leaves: order.leaves().lots(),
            price: order.price.ticks(),
            client_order_id: order.attributes.client_order_id,
            firm: order.attributes.firm,
            capacity: order.attributes.capacity,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        // 42.5
        order.forget_price();
        self.let_go(&original, events);
        self.hold(&mut order, events);
        if in_place {
            self.stir(order.instrument_id);
            self.orders.push(order);
        } else {
            self.begin(order, events);
        }
    }

    fn acceptable(&self, original: &ModelOrder, terms: &ReplaceTerms) -> bool {
        let Some(told) = self.told_next(original, terms) else { return false };
        let minimum = terms.conditions.minimum_quantity.unwrap_or_default();
        let asked = Asked {
            side: original.side,
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            has_minimum: minimum != Lots::ZERO || told.all_or_none,
            follows: told.pricing.is_pegged(),
            replaces_one_that_follows: original.is_pegged(),
            session_id: original.key.session_id,
            quantity: terms.quantity.0,
            price: terms.price,
        };
        let instrument = &self.instruments[usize::from(original.instrument_id.0) - 1];
        let follows = told.pricing.is_pegged();
        let conditions =
            Conditions { minimum_quantity: minimum, ..terms.conditions.apply(original.conditions) };
        (1..=self.quantity_max(original.instrument_id)).contains(&terms.quantity.0)
            && terms.quantity.0 > original.executed + original.prevented
            && allowed_price(instrument, terms.order_type, terms.price)
            && (minimum == Lots::ZERO
                || !follows
                    && may_have_minimum(terms.order_type, terms.time_in_force)
                    && minimum.quantity().0
                        <= terms.quantity.0 - original.executed - original.prevented)
            && allowed_part(terms.display, terms.quantity, told)
            && (!follows
                || terms.display == Display::Hidden
                    && allowed_offset(instrument, told)
                    && may_follow(terms.order_type, terms.time_in_force))
            && is_offered(terms.order_type, terms.time_in_force, conditions, told)
            && self.allowed_expiry(terms.time_in_force, told.expires_s)
            && allowed_trigger(instrument, original.side, terms.order_type, told)
            && self.why_not_here(original.instrument_id, &asked).is_none()
            && terms.side.is_none_or(|side| same_side_of_book(side, original.side))
    }

    /// Removes lots from a live order, if any, and says so. (7.3, 7.5)
    fn cancel(
        &mut self,
        place: usize,
        quantity: u64,
        reason: CancelReason,
        events: &mut Vec<Event>,
    ) {
        if quantity == 0 {
            return;
        }
        let order = &mut self.orders[place];
        let shown_before = on_the_feed(order);
        order.canceled += quantity;
        order.show_no_more_than_is_open();
        events.push(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            quantity: Quantity(quantity),
            leaves: order.leaves(),
            booked: order.place == Place::Book,
            shown: Shown { before: shown_before, after: on_the_feed(order) },
            reason,
            cause: CommandKind::Time,
        }));
        let mut order = *order;
        self.give_back(&mut order, TradeId(0), events);
        self.orders[place] = order;
        self.note(&order, false);
    }

    fn modify(&mut self, asked: &ModifyOrder, events: &mut Vec<Event>) {
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
        let shown_before = on_the_feed(order);
        order.side = asked.side;
        order.canceled += too_much;
        order.show_no_more_than_is_open();
        events.push(Event::Modified(Modified {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            quantity: Quantity(too_much),
            leaves: order.leaves(),
            shown: Shown { before: shown_before, after: on_the_feed(order) },
        }));
        let mut order = *order;
        self.give_back(&mut order, TradeId(0), events);
        self.orders[place] = order;
        self.note(&order, false);
    }

    fn mass_cancel(&mut self, asked: &MassCancel, events: &mut Vec<Event>) {
        if !self.use_number(asked.key) {
            return;
        }
        events.push(Event::MassCanceled(MassCanceled {
            key: asked.key,
            firm: asked.firm,
            symbol: asked.symbol,
            side: asked.side,
            group_id: asked.group_id,
        }));
        let firm = self.firm_meant(asked.key.session_id, asked.firm);
        // 10.1
        let mut meant: Vec<OrderKey> = self
            .orders
            .iter()
            .filter(|order| order.key.session_id == asked.key.session_id)
            .filter(|order| self.firm_meant(order.key.session_id, order.attributes.firm) == firm)
            .filter(|order| {
                let instrument = &self.instruments[usize::from(order.instrument_id.0) - 1];
                asked.symbol.is_blank() || instrument.symbol == asked.symbol
            })
            .filter(|order| asked.side.is_none() || asked.side == Some(order.side))
            .filter(|order| {
                asked.group_id.is_none() || asked.group_id == Some(order.attributes.group_id)
            })
            .map(|order| order.key)
            .collect();
        // 10.2
        meant.sort();
        for key in meant {
            let place = self.place_of(key).expect("it was found live");
            let leaves = self.orders[place].leaves().0;
            self.cancel(place, leaves, CancelReason::User, events);
        }
    }

    fn switch_entry(&mut self, asked: &EntrySwitch, events: &mut Vec<Event>) {
        if !self.use_number(asked.key) {
            return;
        }
        let firm = self.firm_meant(asked.key.session_id, asked.firm);
        let session = &mut self.sessions[usize::from(asked.key.session_id.0) - 1];
        if asked.enabled {
            session.firms_forbidden.remove(&firm);
        } else {
            session.firms_forbidden.insert(firm);
        }
        // 11.4
        if session.firms_forbidden.len() > FIRMS_FORBIDDEN_MAX {
            session.firms_forbidden.remove(&firm);
            let name = ClientOrderId::BLANK;
            return events.push(rejected(asked.key, RejectReason::NotSupported, name));
        }
        events.push(Event::EntrySwitched(EntrySwitched {
            key: asked.key,
            firm: asked.firm,
            enabled: asked.enabled,
        }));
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

    /// Where a live order is in the list. (4.5)
    fn place_of(&self, key: OrderKey) -> Option<usize> {
        self.orders.iter().position(|order| order.key == key)
    }

    fn new_order_id(&mut self) -> OrderId {
        self.order_count += 1;
        OrderId(self.order_count)
    }

    /// A blank firm is the session's own. (3.4)
    fn firm_meant(&self, session_id: SessionId, firm: Firm) -> Firm {
        let session = self.session(session_id).expect("only asked of sessions there are");
        if firm == Firm::BLANK { session.firm } else { firm }
    }

    fn may_enter(&self, session: &ModelSession, firm: Firm) -> bool {
        let firm = if firm == Firm::BLANK { session.firm } else { firm };
        !session.firms_forbidden.contains(&firm)
    }

    /// The name on the feed. (6.6)
    fn shown_as(&self, order: &ModelOrder) -> Firm {
        match order.display {
            _ if is_beside(order) => Firm::BLANK,
            Display::Visible | Display::Hidden => Firm::BLANK,
            Display::Attributable => self.firm_meant(order.key.session_id, order.attributes.firm),
        }
    }
}

/// Buy is one side of the book, every kind of sell the other. (6.5)
fn same_side_of_book(one: Side, other: Side) -> bool {
    (one == Side::Buy) == (other == Side::Buy)
}

/// 16.1
fn is_hidden(order: &ModelOrder) -> bool {
    order.display == Display::Hidden
}

/// 5.7
fn is_offered(
    order_type: OrderType,
    time_in_force: TimeInForce,
    conditions: Conditions,
    instructions: Instructions,
) -> bool {
    let lives = [
        TimeInForce::Day,
        TimeInForce::GoodTillCancel,
        TimeInForce::GoodTillTime,
        TimeInForce::ImmediateOrCancel,
        TimeInForce::FillOrKill,
    ];
    // 26.5
    let for_auction = time_in_force.is_for_auction()
        && order_type != OrderType::MarketToLimit
        && !instructions.all_or_none
        && !instructions.waits_outside();
    let rests = [TimeInForce::Day, TimeInForce::GoodTillCancel, TimeInForce::GoodTillTime]
        .contains(&time_in_force);
    let asks_for_quantity = instructions.all_or_none || conditions.minimum_quantity != Lots::ZERO;
    // 37.8, 37.9
    let is_odd = match order_type {
        OrderType::Limit => rests && asks_for_quantity && conditions.post_only,
        OrderType::MarketToLimit => rests && instructions.all_or_none,
        OrderType::Market => false,
    };
    let follows_oddly =
        instructions.pricing.is_pegged() && (instructions.all_or_none || instructions.slide);
    (lives.contains(&time_in_force) || for_auction) && !is_odd && !follows_oddly
}

/// May such an order follow the market? (36.4)
fn may_follow(order_type: OrderType, time_in_force: TimeInForce) -> bool {
    use TimeInForce::{Day, GoodTillCancel, GoodTillTime};
    order_type != OrderType::MarketToLimit
        && [Day, GoodTillCancel, GoodTillTime].contains(&time_in_force)
}

/// Has an order that follows the market an offset that it may have? (36.4)
fn allowed_offset(instrument: &Instrument, told: Instructions) -> bool {
    let distance = u64::from(told.offset.unsigned_abs());
    !told.pricing.is_pegged()
        || told.trigger == Ticks::ZERO
            && distance <= PRICE_MAX
            && distance.is_multiple_of(instrument.price_increment.0)
}

/// Has it a shown part that it may have? (35.2)
fn allowed_part(display: Display, quantity: Quantity, instructions: Instructions) -> bool {
    let Instructions { shown_quantity: Lots(part), shown_range: Lots(range), .. } = instructions;
    match (part, range) {
        (0, 0) => true,
        _ => {
            display != Display::Hidden
                && quantity.0 <= 100 * u64::from(part)
                && part > range
                && part < 1 << 28
        }
    }
}

/// The part that is shown of a reserve order when it begins to rest. (35.1)
fn first_part(order: &ModelOrder) -> Option<u64> {
    let part = order.instructions.shown_quantity.quantity().0;
    (part > 0 && !is_beside(order)).then(|| part.min(order.leaves().0))
}

/// Cancels and rejections name the kind of command in which they happened. (1.2)
fn name_cause(events: &mut [Event], kind: CommandKind) {
    for event in events {
        match event {
            Event::Canceled(canceled) => canceled.cause = kind,
            Event::Rejected(rejected) => rejected.cause = kind,
            _ => {}
        }
    }
}

/// 15.1
fn may_have_minimum(order_type: OrderType, time_in_force: TimeInForce) -> bool {
    let at_once =
        time_in_force == TimeInForce::ImmediateOrCancel || time_in_force == TimeInForce::FillOrKill;
    // 26.5
    !time_in_force.is_for_auction() && (at_once || order_type != OrderType::MarketToLimit)
}

/// The open lots that the feed shows of a resting order. (16.1)
fn on_the_feed(order: &ModelOrder) -> Lots {
    let lots = order.part.unwrap_or(order.leaves().0);
    let is_known = !is_hidden(order) && !is_beside(order) && order.place == Place::Book;
    if is_known { Lots(lots as u32) } else { Lots::ZERO }
}

/// 5.4
fn allowed_price(instrument: &Instrument, order_type: OrderType, price: Price) -> bool {
    match order_type {
        OrderType::Market | OrderType::MarketToLimit => price == Price::ZERO,
        OrderType::Limit => {
            (1..=PRICE_MAX).contains(&price.0)
                && price.0.is_multiple_of(instrument.price_increment.0)
        }
    }
}

/// What is left of an order that does not rest.
fn canceled_at_once(order: &ModelOrder, reason: CancelReason) -> Event {
    Event::Canceled(Canceled {
        key: order.key,
        order_id: order.order_id,
        instrument_id: order.instrument_id,
        quantity: order.leaves(),
        leaves: Quantity::ZERO,
        booked: false,
        shown: Shown::NONE,
        reason,
        cause: CommandKind::Time,
    })
}

fn rejected(key: OrderKey, reason: RejectReason, client_order_id: ClientOrderId) -> Event {
    Event::Rejected(Rejected { key, reason, client_order_id, cause: CommandKind::Time })
}
