//! Random commands: an endless stream from a seed.
//!
//! Start at [`CommandFlow`]. It keeps a light idea of what is live, so that most of what it asks
//! makes sense, and asks on purpose for what does not: repetitions, stale numbers, orders of others,
//! prices and quantities that cannot be. It never looks at an answer, so the same seed and profile
//! give the same commands whatever becomes of them.

mod venue;

use std::collections::VecDeque;

use market::{
    AccountQuery, AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, Capacity,
    ClientOrderId, Command, ConditionChanges, Conditions, CustomerType, Display, EnterOrder,
    EntrySwitch, Firm, Instructions, Lots, MassCancel, ModifyOrder, OperatorAction,
    OperatorCommand, OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, RejectOrder,
    RejectReason, ReplaceOrder, ReplaceTerms, Scope, SelfMatchGroup, SelfMatchPrevention,
    SessionId, Side, Symbol, SystemEvent, Text, Ticks, TimeInForce,
};

use crate::{money, rng::Rng};

/// The highest limit price there is, in ticks.
const PRICE_MAX: u64 = 1_999_999_900;

/// The largest quantity there is, in lots.
const QUANTITY_MAX: u64 = 999_999;

/// Repetitions are of one of so many commands before.
const RECENT_LEN: usize = 16;

/// So many commands after the close comes the end of messages.
const LATE_LEN: u64 = 1_000;

/// What kind of market it is.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Sessions, from 1. They are named `USER01`, `USER02` and so on.
    pub sessions: u16,
    /// Instruments, from 1. The first are named `AAPL`, `MSFT` and `NVDA`, the others `S0004` on.
    pub instruments: u16,
    /// Channels that each session uses, from 1: 0, 1 and so on.
    pub channels: u8,
    /// The firm of every session.
    pub firm: Firm,
    /// Of a hundred orders, how many name conditions.
    pub conditions_percent: u64,
    /// Of a hundred orders, how many are of a type, of a life, or told something that OUCH cannot
    /// say.
    pub beyond_ouch_percent: u64,
    /// Of a hundred orders, how many wait for a trigger or are tied to another.
    pub waits_percent: u64,
    /// Of a hundred orders, how many follow the market.
    pub pegs_percent: u64,
    /// Of a hundred orders, how many wait until they can trade enough at once, or slide.
    pub minimum_percent: u64,
    /// Of a hundred limit orders, how many are good till a time.
    pub good_till_time_percent: u64,
    /// When the stream begins, in seconds since the epoch, for moments at which orders expire.
    pub starts_s: u32,
    /// About how many commands come in a second, from 1.
    pub commands_per_second: u64,
    /// What the sessions are added with, one after the other and from the front again.
    pub self_match_preventions: Vec<SelfMatchPrevention>,
    /// How many live orders each session may have.
    pub live_orders_max: u32,
    /// Price increment of every instrument, in ticks.
    pub price_increment: Price,
    /// Where the middle of each market begins, in price increments.
    pub mid: u64,
    /// How far from the middle most orders are, in price increments, from 1.
    pub spread: u64,
    /// Of a thousand limit orders, how many are anywhere in the price range.
    pub far_per_mille: u64,
    /// Of a million orders, how many find that the middle has jumped to somewhere else.
    pub jumps_per_million: u64,
    /// About how many orders are taken for live at a time, in all books. The books hold fewer, for
    /// some of these are filled.
    pub live_orders: usize,
    /// Of a hundred requests, how many are ones that a careful participant would not make.
    pub odd_percent: u64,
    /// After so many commands, those of the setup included, the day ends; what follows finds the
    /// market closed. `None` is never.
    pub closes_after: Option<u64>,
    /// Of a thousand requests, how many are the venue's own; with any, some orders are for one auction
    /// only.
    pub venue_per_mille: u64,
    /// If not 0, every order is for so many lots, so that what would buy and what would sell is often
    /// the same.
    pub lots_each: u64,
    /// Accounts, from 1, among which the sessions are divided, but for the last one; 0 is no money
    /// anywhere.
    pub accounts: u16,
    /// How many commands in a thousand undo or correct a trade; where some do, accounts are poor.
    pub undo_per_mille: u64,
}

impl Default for Profile {
    /// A few liquid instruments, two thousand orders, and one odd request in ten.
    fn default() -> Self {
        Self {
            sessions: 4,
            instruments: 3,
            channels: 2,
            firm: Firm::new("FIRM").expect("four characters"),
            conditions_percent: 10,
            beyond_ouch_percent: 10,
            waits_percent: 10,
            pegs_percent: 0,
            minimum_percent: 4,
            good_till_time_percent: 5,
            starts_s: 0,
            commands_per_second: 100,
            self_match_preventions: vec![SelfMatchPrevention::Off],
            live_orders_max: 100_000,
            price_increment: Price(100),
            mid: 10_000,
            spread: 50,
            far_per_mille: 10,
            jumps_per_million: 20,
            live_orders: 2_000,
            odd_percent: 10,
            closes_after: None,
            venue_per_mille: 0,
            lots_each: 0,
            accounts: 0,
            undo_per_mille: 0,
        }
    }
}

/// An endless stream of commands.
///
/// First those that set up the instruments and sessions of the profile and open the day, with a few
/// orders that come too early; then trading.
#[derive(Clone, Debug)]
pub struct CommandFlow {
    rng: Rng,
    profile: Profile,
    /// What must come next, whatever chance says.
    scheduled: VecDeque<Command>,
    /// The middle of each market, in price increments.
    mids: Vec<u64>,
    /// The last number used, by session and then channel.
    numbers: Vec<u32>,
    /// Orders that may be live.
    live: Vec<LiveOrder>,
    /// What the venue may not take.
    blocked: Vec<Scope>,
    /// What the kill switch may keep out.
    killed: Vec<Scope>,
    /// The last command of each operator.
    operated: [Option<OperatorCommand>; 3],
    /// Firms that may be forbidden.
    forbidden: Vec<(SessionId, Firm)>,
    recent: VecDeque<Command>,
    issued: u64,
}

/// An order that may be live.
#[derive(Clone, Copy, Debug)]
struct LiveOrder {
    key: OrderKey,
    instrument: usize,
    side: Side,
    quantity: u64,
}

impl CommandFlow {
    /// The stream of this seed and profile.
    ///
    /// # Panics
    /// The profile has no session, instrument, channel, spread or increment.
    #[must_use]
    pub fn new(seed: u64, profile: Profile) -> Self {
        assert!(profile.sessions > 0 && profile.instruments > 0 && profile.channels > 0);
        assert!(profile.spread > 0 && profile.price_increment > Price::ZERO, "{profile:?}");
        let channel_count = usize::from(profile.sessions) * usize::from(profile.channels);
        let mut flow = Self {
            rng: Rng::new(seed),
            scheduled: VecDeque::new(),
            mids: vec![profile.mid; usize::from(profile.instruments)],
            numbers: vec![0; channel_count],
            live: Vec::new(),
            blocked: Vec::new(),
            killed: Vec::new(),
            operated: [None; 3],
            forbidden: Vec::new(),
            recent: VecDeque::new(),
            issued: 0,
            profile,
        };
        flow.set_up();
        flow
    }

    /// The next command.
    pub fn next_command(&mut self) -> Command {
        self.issued += 1;
        let closes_after = self.profile.closes_after;
        if closes_after == Some(self.issued) {
            let end = [SystemEvent::EndOfMarketHours, SystemEvent::EndOfSystemHours];
            self.scheduled.extend(end.map(Command::System));
        } else if closes_after.map(|after| after + LATE_LEN) == Some(self.issued) {
            self.scheduled.push_back(Command::System(SystemEvent::EndOfMessages));
        }
        let is_scheduled = !self.scheduled.is_empty();
        let command = match self.scheduled.pop_front() {
            Some(command) => command,
            None if self.profile.accounts > 0 && self.rng.chance(1, 40) => {
                Command::Money(money::any(&mut self.rng, &self.profile))
            }
            None if self.rng.chance(self.profile.venue_per_mille, 1_000) => self.venue(),
            None if self.rng.chance(self.profile.undo_per_mille, 1_000) => self.undo(),
            None if self.rng.chance(self.profile.odd_percent, 100) => self.odd(),
            None => self.usual(),
        };
        let command = match command {
            _ if is_scheduled => command,
            Command::Venue(it) if self.rng.chance(1, 3) => self.operate(OperatorAction::Venue(it)),
            Command::Money(it) if self.profile.venue_per_mille > 0 && self.rng.chance(1, 3) => {
                self.operate(OperatorAction::Money(it))
            }
            _ => command,
        };
        if self.recent.len() == RECENT_LEN {
            self.recent.pop_front();
        }
        self.recent.push_back(command);
        command
    }

    fn set_up(&mut self) {
        self.scheduled.push_back(Command::System(SystemEvent::StartOfMessages));
        for index in 0..self.profile.instruments {
            self.scheduled.push_back(Command::AddInstrument(AddInstrument {
                symbol: symbol(usize::from(index)),
                price_increment: self.profile.price_increment,
                round_lot: Quantity(100),
            }));
        }
        let preventions = self.profile.self_match_preventions.clone();
        for (number, prevention) in (1..=self.profile.sessions).zip(preventions.iter().cycle()) {
            self.scheduled.push_back(Command::AddSession(AddSession {
                username: text(&format!("USER{number:02}")),
                firm: self.profile.firm,
                live_orders_max: self.profile.live_orders_max,
                self_match_prevention: *prevention,
            }));
        }
        if self.profile.accounts > 0 {
            self.scheduled.extend(money::set_up(&self.profile).into_iter().map(Command::Money));
        }
        for _ in 0..4 {
            let early = self.enter();
            self.scheduled.push_back(early);
        }
        self.live.clear();
        self.scheduled.push_back(Command::System(SystemEvent::StartOfSystemHours));
        self.scheduled.push_back(Command::System(SystemEvent::StartOfMarketHours));
    }

    /// What a careful participant asks.
    fn usual(&mut self) -> Command {
        if !self.forbidden.is_empty() && self.rng.chance(1, 20) {
            let (session_id, firm) = self.forbidden.swap_remove(0);
            let key = self.next_key(session_id);
            return Command::SwitchEntry(EntrySwitch { key, firm, enabled: true });
        }
        let crowded = self.live.len() >= self.profile.live_orders;
        match self.rng.below(1_000) {
            0..=1 => self.mass_cancel(),
            2 => self.cancel_on_disconnect(),
            3..=4 => self.forbid(),
            5..=7 => self.query(),
            8 => Command::Time,
            9..=549 if !crowded => self.enter(),
            _ => match self.take_live() {
                None => self.enter(),
                Some(order) => match self.rng.below(10) {
                    0..=5 => cancel(order.key, 0),
                    6 => {
                        let quantity = self.rng.range(1, order.quantity);
                        self.live.push(order);
                        cancel(order.key, quantity)
                    }
                    7 => {
                        self.live.push(order);
                        self.modify(order)
                    }
                    _ => self.replace(order),
                },
            },
        }
    }

    /// What a careful participant would not ask.
    fn odd(&mut self) -> Command {
        match self.rng.below(20) {
            0..=2 if !self.recent.is_empty() => {
                self.recent[self.rng.below(self.recent.len() as u64) as usize]
            }
            0..=3 => self.enter_stale(),
            4 => self.enter_with(|rng, order| {
                order.symbol = *rng.pick(&[Symbol::BLANK, text("NONE"), text("aapl")])
            }),
            5 => self.enter_with(|rng, order| order.quantity = odd_quantity(rng)),
            6 => self.enter_with(|rng, order| {
                let offset = rng.range(1, 100);
                order.price = odd_price(rng, Price(order.price.0 + offset));
            }),
            7 => self.refuse(),
            8 => self.of_unknown_session(),
            9 => self.of_another(),
            10..=11 => self.replace_badly(),
            12 => self.replace_stale(),
            13 => self.modify_oddly(),
            14 => self.add_oddly(),
            15 => self.day_again(),
            16 => self.mass_cancel_oddly(),
            17 => self.switch_oddly(),
            18 => self.after_a_gap(),
            _ => self.enter_largest(),
        }
    }

    fn enter(&mut self) -> Command {
        let key = self.any_next_key();
        let instrument = self.any_instrument();
        let side = self.any_side();
        let (order_type, time_in_force) = match self.rng.below(20) {
            0 => (OrderType::Market, TimeInForce::Day),
            1 => (OrderType::Market, TimeInForce::ImmediateOrCancel),
            2 => (OrderType::Limit, TimeInForce::ImmediateOrCancel),
            _ => self.resting_kind(),
        };
        let price = match order_type {
            OrderType::Limit => self.price(instrument, side),
            OrderType::Market | OrderType::MarketToLimit => Price::ZERO,
        };
        let quantity = self.quantity();
        let at_once = order_type == OrderType::Market || !time_in_force.may_rest();
        let mut order = EnterOrder {
            key,
            side,
            order_type,
            time_in_force,
            display: self.display(),
            quantity: Quantity(quantity),
            price,
            symbol: symbol(instrument),
            attributes: self.attributes(),
            conditions: self.conditions(at_once, quantity),
            instructions: self.instructions(),
        };
        if self.rng.chance(self.profile.good_till_time_percent, 100) {
            self.limit_life(&mut order.time_in_force, &mut order.instructions);
        }
        if self.rng.chance(self.profile.waits_percent, 100) {
            self.tie(&mut order, instrument);
        }
        if self.profile.pegs_percent > 0 && self.rng.chance(self.profile.pegs_percent, 100) {
            self.peg(&mut order.instructions, &mut order.display);
            (order.order_type, order.price, order.time_in_force) =
                self.bound(order.order_type, order.price, order.time_in_force);
        }
        if self.rng.chance(self.profile.minimum_percent, 100) {
            let Conditions { mut post_only, mut minimum_quantity, .. } = order.conditions;
            let quantity = order.quantity.0;
            self.take_minimum(
                &mut order.instructions,
                &mut minimum_quantity,
                &mut post_only,
                quantity,
            );
            order.conditions = Conditions { post_only, minimum_quantity, ..order.conditions };
        }
        let rests = order.order_type == OrderType::Limit && order.time_in_force.may_rest();
        let is_for_auction = order.time_in_force.is_for_auction();
        if rests || is_for_auction || order.instructions.waits_outside() {
            self.live.push(LiveOrder { key: order.key, instrument, side: order.side, quantity });
        }
        Command::Enter(order)
    }

    /// Mostly a moment that is near, sometimes one that cannot be.
    fn limit_life(&mut self, time_in_force: &mut TimeInForce, instructions: &mut Instructions) {
        let now_s = self.profile.starts_s + (self.issued / self.profile.commands_per_second) as u32;
        if time_in_force.may_rest() || self.rng.chance(1, 40) {
            *time_in_force = TimeInForce::GoodTillTime;
        }
        if *time_in_force == TimeInForce::GoodTillTime || self.rng.chance(1, 40) {
            instructions.expires_s = match self.rng.below(40) {
                0 => 0,
                1 => now_s.saturating_sub(1),
                2 => u32::MAX,
                _ => now_s + self.rng.range(1, 30) as u32,
            };
        }
    }

    /// A trigger, a parent, a partner, or some of these.
    fn tie(&mut self, order: &mut EnterOrder, instrument: usize) {
        let what = self.rng.below(10);
        if what >= 5 {
            // Mostly to one of the same instrument.
            let Some(mut other) = self.any_live() else { return };
            for _ in 0..8 {
                if other.instrument != instrument {
                    other = self.any_live().expect("there was one above");
                }
            }
            order.key = self.next_key_of(other.key.session_id, other.key.channel);
            order.symbol = symbol(other.instrument);
            if self.rng.chance(1, 60) {
                order.symbol = symbol(instrument);
            }
            if what <= 7 {
                order.instructions.parent = other.key.user_ref_num;
                if self.rng.chance(9, 10) {
                    order.side = if other.side.is_buy() { self.kind_of_sell() } else { Side::Buy };
                }
                // The other leg of a bracket comes right after.
                if let Some(leg) = self.live.iter().rev().take(8).find(|it| {
                    it.key.session_id == other.key.session_id
                        && it.key.channel == other.key.channel
                        && it.key.user_ref_num > other.key.user_ref_num
                        && it.side.is_buy() == order.side.is_buy()
                }) {
                    order.instructions.partner = leg.key.user_ref_num;
                }
            } else {
                order.instructions.partner = other.key.user_ref_num;
                if self.rng.chance(1, 2) {
                    order.side = other.side;
                }
            }
            if order.order_type == OrderType::Limit {
                order.price = self.price(other.instrument, order.side);
            }
            if self.rng.chance(1, 3) {
                return;
            }
            self.wait(&mut order.instructions, order.order_type, order.side, other.instrument);
        } else {
            self.wait(&mut order.instructions, order.order_type, order.side, instrument);
        }
    }

    /// A trigger near the market, on either side of it.
    fn wait(
        &mut self,
        instructions: &mut Instructions,
        order_type: OrderType,
        side: Side,
        instrument: usize,
    ) {
        let pricings = [Pricing::Stop, Pricing::TakeProfit, Pricing::TrailingStop];
        instructions.pricing = *self.rng.pick(&pricings);
        let waits_for_fall = side.is_buy() == (instructions.pricing == Pricing::TakeProfit);
        let sided = if waits_for_fall { Side::Buy } else { Side::Sell };
        instructions.trigger = Ticks(self.price(instrument, sided).0 as u32);
        if instructions.pricing == Pricing::TrailingStop {
            let increment = self.profile.price_increment.0;
            instructions.offset = (self.rng.range(1, self.profile.spread) * increment) as i32;
            if order_type != OrderType::Limit && self.rng.chance(3, 4) {
                instructions.trigger = Ticks::ZERO;
            }
        }
        match self.rng.below(60) {
            0 => instructions.trigger = Ticks::ZERO,
            1 => instructions.trigger.0 += 1,
            2 => instructions.offset += 1,
            3 => instructions.offset = -instructions.offset,
            _ => {}
        }
    }

    /// A price to follow, near it.
    fn peg(&mut self, instructions: &mut Instructions, display: &mut Display) {
        let pricings = [Pricing::PrimaryPeg, Pricing::MarketPeg, Pricing::MidpointPeg];
        instructions.pricing = *self.rng.pick(&pricings);
        let increment = self.profile.price_increment.0 as i32;
        instructions.offset = match self.rng.below(4) {
            0 => 0,
            1 => increment * (self.rng.below(2 * self.profile.spread) as i32 + 1),
            _ => increment * (self.rng.below(9) as i32 - 4),
        };
        instructions.trigger = Ticks::ZERO;
        if !self.rng.chance(1, 40) {
            *display = Display::Hidden;
            (instructions.shown_quantity, instructions.shown_range) = (Lots::ZERO, Lots::ZERO);
        }
        match self.rng.below(60) {
            0 => instructions.offset += 1,
            1 => instructions.offset = -instructions.offset,
            2 => instructions.offset = *self.rng.pick(&[i32::MIN, i32::MAX]),
            3 => instructions.trigger = Ticks(self.profile.price_increment.0 as u32),
            _ => {}
        }
    }

    /// Type, price and life of an order that follows the market: mostly ones that it may have, a
    /// third of them without a bound.
    fn bound(
        &mut self,
        order_type: OrderType,
        price: Price,
        time_in_force: TimeInForce,
    ) -> (OrderType, Price, TimeInForce) {
        let time_in_force = match time_in_force {
            life if life.may_rest() || self.rng.chance(1, 8) => life,
            _ => TimeInForce::Day,
        };
        match order_type {
            OrderType::MarketToLimit if !self.rng.chance(1, 8) => {
                (OrderType::Market, Price::ZERO, time_in_force)
            }
            OrderType::Limit if self.rng.chance(1, 3) => {
                (OrderType::Market, Price::ZERO, time_in_force)
            }
            OrderType::Limit => {
                // Mostly beyond where the market is, so that it binds now and then.
                let highest = PRICE_MAX / self.profile.price_increment.0;
                let number = price.0 / self.profile.price_increment.0;
                let away = self.rng.below(2 * self.profile.spread);
                let number = if self.rng.chance(1, 2) {
                    number.saturating_sub(away).max(1)
                } else {
                    (number + away).min(highest)
                };
                (order_type, Price(number * self.profile.price_increment.0), time_in_force)
            }
            _ => (order_type, price, time_in_force),
        }
    }

    /// All of it or so much of it at once, or a slide.
    fn take_minimum(
        &mut self,
        instructions: &mut Instructions,
        minimum_quantity: &mut Lots,
        post_only: &mut bool,
        quantity: u64,
    ) {
        *post_only = self.rng.chance(1, 30);
        match self.rng.below(9) {
            0..=2 => instructions.all_or_none = true,
            3..=5 => *minimum_quantity = Lots(self.rng.range(1, quantity.clamp(1, 1 << 20)) as u32),
            _ => {
                instructions.slide = true;
                *post_only = self.rng.chance(9, 10);
            }
        }
    }

    /// A type and a life of an order that may rest: mostly a limit for the day.
    fn resting_kind(&mut self) -> (OrderType, TimeInForce) {
        if self.profile.venue_per_mille > 0 && self.rng.chance(1, 8) {
            let lives = [
                TimeInForce::AtTheOpen,
                TimeInForce::AtTheClose,
                TimeInForce::GoodForAuction,
                TimeInForce::GoodForAuction,
            ];
            let order_type = match self.rng.below(20) {
                0 => OrderType::MarketToLimit,
                1..=4 => OrderType::Market,
                _ => OrderType::Limit,
            };
            return (order_type, *self.rng.pick(&lives));
        }
        if !self.rng.chance(self.profile.beyond_ouch_percent, 100) {
            return (OrderType::Limit, TimeInForce::Day);
        }
        match self.rng.below(6) {
            0 => (OrderType::Limit, TimeInForce::FillOrKill),
            1 => (OrderType::MarketToLimit, TimeInForce::Day),
            2 => (OrderType::MarketToLimit, TimeInForce::ImmediateOrCancel),
            _ => (OrderType::Limit, TimeInForce::GoodTillCancel),
        }
    }

    /// A new order with something changed.
    fn enter_with(&mut self, change: impl FnOnce(&mut Rng, &mut EnterOrder)) -> Command {
        let mut command = self.enter();
        if let Command::Enter(order) = &mut command {
            change(&mut self.rng, order);
        }
        command
    }

    fn enter_stale(&mut self) -> Command {
        let mut command = self.enter();
        if let Command::Enter(order) = &mut command {
            let last = order.key.user_ref_num;
            order.key.user_ref_num = self.rng.below(u64::from(last)) as u32;
            self.live.pop_if(|live| live.key.user_ref_num == last);
        }
        command
    }

    /// One that fills whatever there is.
    fn enter_largest(&mut self) -> Command {
        self.enter_with(|_, order| {
            order.quantity = Quantity(QUANTITY_MAX);
            order.time_in_force = TimeInForce::ImmediateOrCancel;
        })
    }

    fn after_a_gap(&mut self) -> Command {
        let key = self.any_next_key();
        let gap = match self.rng.below(100) {
            // A session's channel of its own, so that using up its last number ends nothing else.
            0 => {
                let key = OrderKey { channel: 255, user_ref_num: u32::MAX, ..key };
                return Command::Reject(RejectOrder {
                    key,
                    client_order_id: ClientOrderId::BLANK,
                    reason: RejectReason::InvalidDisplay,
                });
            }
            1..50 => self.rng.below(10),
            _ => self.rng.below(2_000),
        };
        let channel = self.channel_index(key);
        self.numbers[channel] = self.numbers[channel].saturating_add(gap as u32);
        self.enter()
    }

    fn replace(&mut self, order: LiveOrder) -> Command {
        let key = self.next_key_of(order.key.session_id, order.key.channel);
        let terms = self.terms(order);
        let rests = terms.order_type == OrderType::Limit && terms.time_in_force.may_rest();
        let waits = terms.instructions.is_some_and(|it| it.waits_outside());
        if rests || waits || terms.time_in_force.is_for_auction() {
            self.live.push(LiveOrder { key, quantity: terms.quantity.0, ..order });
        }
        replace(order.key, key, Some(terms))
    }

    fn terms(&mut self, order: LiveOrder) -> ReplaceTerms {
        let (order_type, time_in_force) = match self.rng.below(30) {
            0 => (OrderType::Market, TimeInForce::Day),
            1 => (OrderType::Limit, TimeInForce::ImmediateOrCancel),
            _ => self.resting_kind(),
        };
        let price = match order_type {
            OrderType::Limit => self.price(order.instrument, order.side),
            OrderType::Market | OrderType::MarketToLimit => Price::ZERO,
        };
        let side = match order.side {
            Side::Buy => None,
            _ if self.rng.chance(3, 4) => None,
            _ => Some(self.kind_of_sell()),
        };
        let quantity = self.quantity();
        let at_once = order_type == OrderType::Market || !time_in_force.may_rest();
        let mut terms = ReplaceTerms {
            side,
            order_type,
            time_in_force,
            display: self.display(),
            quantity: Quantity(quantity),
            price,
            client_order_id: self.client_order_id(),
            shares_located: self.rng.chance(1, 4),
            locate_broker: if self.rng.chance(1, 8) { text("LEND") } else { Firm::BLANK },
            conditions: self.condition_changes(at_once, quantity),
            instructions: self.rng.chance(1, 4).then(|| self.instructions()),
        };
        if self.rng.chance(self.profile.good_till_time_percent, 100) {
            let mut told = terms.instructions.unwrap_or_default();
            self.limit_life(&mut terms.time_in_force, &mut told);
            // Half of them keep the moment that there was.
            terms.instructions = self.rng.chance(1, 2).then_some(told);
        }
        if self.rng.chance(self.profile.waits_percent, 200) {
            let told = terms.instructions.get_or_insert_default();
            self.wait(told, terms.order_type, order.side, order.instrument);
            if self.rng.chance(1, 20) {
                told.partner = 1;
            }
        }
        if self.profile.pegs_percent > 0 {
            if self.rng.chance(self.profile.pegs_percent, 200) {
                self.peg(terms.instructions.get_or_insert_default(), &mut terms.display);
                (terms.order_type, terms.price, terms.time_in_force) =
                    self.bound(terms.order_type, terms.price, terms.time_in_force);
            } else if self.rng.chance(1, 2) {
                // What followed the market may go on to.
                terms.display = Display::Hidden;
            }
        }
        if self.rng.chance(self.profile.minimum_percent, 100) {
            let told = terms.instructions.get_or_insert_default();
            let (mut minimum_quantity, mut post_only) = (Lots::ZERO, false);
            self.take_minimum(told, &mut minimum_quantity, &mut post_only, quantity);
            terms.conditions.minimum_quantity = Some(minimum_quantity);
            terms.conditions.post_only = Some(post_only);
        }
        terms
    }

    fn replace_badly(&mut self) -> Command {
        let Some(order) = self.take_live() else { return self.refuse() };
        let key = self.next_key_of(order.key.session_id, order.key.channel);
        let mut terms = self.terms(order);
        match self.rng.below(5) {
            0 => return replace(order.key, key, None),
            1 => terms.quantity = odd_quantity(&mut self.rng),
            2 => terms.price = odd_price(&mut self.rng, Price(terms.price.0 + 1)),
            3 => terms.side = Some(*self.rng.pick(Side::ALL)),
            // Of a chain that has traded, often less than it has executed.
            _ => terms.quantity = Quantity(1),
        }
        replace(order.key, key, Some(terms))
    }

    fn replace_stale(&mut self) -> Command {
        let Some(order) = self.any_live() else { return self.refuse() };
        let key = OrderKey {
            user_ref_num: self.rng.below(u64::from(order.key.user_ref_num) + 1) as u32,
            ..order.key
        };
        let terms = self.terms(order);
        replace(order.key, key, Some(terms))
    }

    fn modify(&mut self, order: LiveOrder) -> Command {
        let side = match order.side {
            Side::Buy => Side::Buy,
            _ => self.kind_of_sell(),
        };
        let quantity = Quantity(self.rng.below(order.quantity + order.quantity / 4 + 1));
        Command::Modify(ModifyOrder { key: order.key, side, quantity })
    }

    fn modify_oddly(&mut self) -> Command {
        let Some(order) = self.any_live() else { return self.refuse() };
        let side = *self.rng.pick(Side::ALL);
        let quantity = *self.rng.pick(&[0, 1, QUANTITY_MAX, u64::MAX]);
        Command::Modify(ModifyOrder { key: order.key, side, quantity: Quantity(quantity) })
    }

    /// Mostly narrow, so that some orders stay.
    fn mass_cancel(&mut self) -> Command {
        let key = self.any_next_key();
        let symbol = match self.rng.below(3) {
            0 => Symbol::BLANK,
            _ => symbol(self.any_instrument()),
        };
        let side = if self.rng.chance(1, 2) { Some(*self.rng.pick(Side::ALL)) } else { None };
        let group_id = if self.rng.chance(3, 4) { Some(self.group_id()) } else { None };
        Command::MassCancel(MassCancel { key, firm: self.firm(), symbol, side, group_id })
    }

    fn mass_cancel_oddly(&mut self) -> Command {
        let mut command = self.mass_cancel();
        if let Command::MassCancel(mass) = &mut command {
            match self.rng.below(3) {
                0 => mass.symbol = text("NONE"),
                1 => mass.group_id = Some(self.rng.below(65_536) as u16),
                _ => mass.firm = text("NONE"),
            }
        }
        command
    }

    fn forbid(&mut self) -> Command {
        let key = self.any_next_key();
        let firm = self.firm();
        self.forbidden.push((key.session_id, firm));
        Command::SwitchEntry(EntrySwitch { key, firm, enabled: false })
    }

    fn switch_oddly(&mut self) -> Command {
        let key = self.any_next_key();
        let (firm, enabled) = match self.rng.below(4) {
            0 => (self.firm(), true),
            // One of more firms than a session may forbid at a time.
            _ => (text(&format!("X{:03}", self.rng.below(1_000))), self.rng.chance(1, 8)),
        };
        Command::SwitchEntry(EntrySwitch { key, firm, enabled })
    }

    fn query(&mut self) -> Command {
        let session_id = self.any_session();
        let channel = self.rng.below(u64::from(self.profile.channels) + 1) as u8;
        Command::QueryAccount(AccountQuery { session_id, channel })
    }

    fn cancel_on_disconnect(&mut self) -> Command {
        let session_id = self.any_session();
        self.live.retain(|order| order.key.session_id != session_id);
        Command::CancelOnDisconnect(CancelOnDisconnect { session_id })
    }

    fn refuse(&mut self) -> Command {
        Command::Reject(RejectOrder {
            key: self.any_next_key(),
            client_order_id: self.client_order_id(),
            reason: *self.rng.pick(RejectReason::ALL),
        })
    }

    fn of_unknown_session(&mut self) -> Command {
        let session_id = *self.rng.pick(&[SessionId(0), SessionId(40_000), SessionId(u16::MAX)]);
        let mut command = match self.rng.below(4) {
            0 => self.enter(),
            1 => self.refuse(),
            2 => return Command::CancelOnDisconnect(CancelOnDisconnect { session_id }),
            _ => self.mass_cancel(),
        };
        match &mut command {
            Command::Enter(order) => order.key.session_id = session_id,
            Command::MassCancel(mass) => mass.key.session_id = session_id,
            Command::Reject(refused) => refused.key.session_id = session_id,
            _ => {}
        }
        command
    }

    /// About an order that is not there, or another's.
    fn of_another(&mut self) -> Command {
        let Some(order) = self.any_live() else { return self.refuse() };
        let mut key = order.key;
        match self.rng.below(3) {
            0 => key.channel = key.channel.wrapping_add(1),
            1 => key.session_id = self.any_session(),
            _ => key.user_ref_num = self.rng.below(u64::from(key.user_ref_num) + 100) as u32,
        }
        match self.rng.below(3) {
            0 => cancel(key, self.rng.below(order.quantity)),
            1 => self.modify(LiveOrder { key, ..order }),
            _ => {
                let terms = self.terms(order);
                let replacement = self.next_key_of(order.key.session_id, order.key.channel);
                replace(key, OrderKey { channel: key.channel, ..replacement }, Some(terms))
            }
        }
    }

    fn add_oddly(&mut self) -> Command {
        let firm = self.profile.firm;
        let instrument =
            AddInstrument { symbol: symbol(0), price_increment: Price(1), round_lot: Quantity(1) };
        let session = AddSession {
            username: text("USER01"),
            firm,
            live_orders_max: 1,
            self_match_prevention: *self.rng.pick(SelfMatchPrevention::ALL),
        };
        match self.rng.below(8) {
            0 => Command::AddInstrument(instrument),
            1 => Command::AddInstrument(AddInstrument { symbol: Symbol::BLANK, ..instrument }),
            2 => Command::AddInstrument(AddInstrument {
                symbol: text("ODD"),
                price_increment: *self.rng.pick(&[Price::ZERO, Price(PRICE_MAX + 1)]),
                ..instrument
            }),
            3 => Command::AddInstrument(AddInstrument {
                symbol: text("ODD"),
                round_lot: *self.rng.pick(&[Quantity::ZERO, Quantity(QUANTITY_MAX + 1)]),
                ..instrument
            }),
            // Some valid instruments, which no later command uses.
            4 => Command::AddInstrument(AddInstrument {
                symbol: text(&format!("L{}", self.rng.below(20))),
                ..instrument
            }),
            5 => Command::AddSession(AddSession {
                username: text(&format!("L{}", self.rng.below(20))),
                ..session
            }),
            6 => Command::AddSession(AddSession { username: Text::BLANK, ..session }),
            _ => Command::AddSession(session),
        }
    }

    /// A part of the day that has begun already.
    fn day_again(&mut self) -> Command {
        let begun = [
            SystemEvent::StartOfMessages,
            SystemEvent::StartOfSystemHours,
            SystemEvent::StartOfMarketHours,
        ];
        Command::System(*self.rng.pick(&begun))
    }

    /// A price near the middle, a little through it, or anywhere; the middle wanders meanwhile.
    fn price(&mut self, instrument: usize, side: Side) -> Price {
        let highest = PRICE_MAX / self.profile.price_increment.0;
        let spread = self.profile.spread;
        let mid = &mut self.mids[instrument];
        *mid = match self.rng.below(8) {
            0 => *mid + 1,
            1 => mid.saturating_sub(1),
            _ => *mid,
        };
        if self.rng.chance(self.profile.jumps_per_million, 1_000_000) {
            *mid = self.rng.range(1, highest);
        }
        *mid = (*mid).clamp(1 + spread.min(highest / 4), highest - spread.min(highest / 4));
        let mid = *mid;
        if self.rng.chance(self.profile.far_per_mille, 1_000) {
            return Price(self.rng.range(1, highest) * self.profile.price_increment.0);
        }
        // Most are near: the smaller of two distances.
        let distance = self.rng.below(spread).min(self.rng.below(spread));
        let through = self.rng.chance(1, 8);
        let below = side.is_buy() != through;
        let number = if below { mid.saturating_sub(distance) } else { mid + distance };
        Price(number.clamp(1, highest) * self.profile.price_increment.0)
    }

    fn quantity(&mut self) -> u64 {
        if self.profile.lots_each > 0 {
            return self.profile.lots_each;
        }
        match self.rng.below(50) {
            0 => self.rng.range(1, QUANTITY_MAX),
            1..=20 => 100 * self.rng.range(1, 10),
            _ => self.rng.range(1, 100),
        }
    }

    fn attributes(&mut self) -> OrderAttributes {
        OrderAttributes {
            client_order_id: self.client_order_id(),
            firm: self.firm(),
            capacity: *self.rng.pick(Capacity::ALL),
            customer_type: *self.rng.pick(CustomerType::ALL),
            group_id: self.group_id(),
            shares_located: self.rng.chance(1, 4),
            locate_broker: if self.rng.chance(1, 8) { text("LEND") } else { Firm::BLANK },
        }
    }

    /// Mostly none; of the others most are reserve orders.
    fn instructions(&mut self) -> Instructions {
        if !self.rng.chance(self.profile.conditions_percent, 100) || self.rng.chance(1, 2) {
            return Instructions::NONE;
        }
        let shown = self.rng.range(1, 40) as u32;
        let range = match self.rng.below(3) {
            0 => self.rng.below(u64::from(shown)) as u32,
            _ => 0,
        };
        let (shown, range) = match self.rng.below(40) {
            0 => (shown, shown),
            1 => (0, shown),
            2 => (1 << 28, 0),
            _ => (shown, range),
        };
        Instructions { shown_quantity: Lots(shown), shown_range: Lots(range), ..Instructions::NONE }
    }

    fn conditions(&mut self, at_once: bool, quantity: u64) -> Conditions {
        if !self.rng.chance(self.profile.conditions_percent, 100) {
            return Conditions::NONE;
        }
        Conditions {
            self_match_prevention: self.self_match_prevention(),
            self_match_group: self.self_match_group(),
            post_only: self.rng.chance(1, 4),
            minimum_quantity: self.minimum_quantity(at_once, quantity),
        }
    }

    fn condition_changes(&mut self, at_once: bool, quantity: u64) -> ConditionChanges {
        if !self.rng.chance(self.profile.conditions_percent, 100) {
            return ConditionChanges::NONE;
        }
        ConditionChanges {
            self_match_prevention: self.rng.chance(1, 2).then(|| self.self_match_prevention()),
            self_match_group: self.rng.chance(1, 4).then(|| self.self_match_group()),
            post_only: self.rng.chance(1, 3).then(|| self.rng.chance(1, 3)),
            minimum_quantity: self
                .rng
                .chance(1, 3)
                .then(|| self.minimum_quantity(at_once, quantity)),
        }
    }

    /// Mostly one that the order may have.
    fn minimum_quantity(&mut self, at_once: bool, quantity: u64) -> Lots {
        let quantity = quantity.min(QUANTITY_MAX) as u32;
        match self.rng.below(20) {
            0 => Lots(self.rng.below(1 << 32) as u32),
            1..=2 => Lots(quantity),
            _ if at_once => Lots(self.rng.below(u64::from(quantity) + 1) as u32),
            _ => Lots::ZERO,
        }
    }

    fn self_match_prevention(&mut self) -> SelfMatchPrevention {
        *self.rng.pick(SelfMatchPrevention::ALL)
    }

    /// Mostly none, so that orders meet others of their group.
    fn self_match_group(&mut self) -> SelfMatchGroup {
        match self.rng.below(4) {
            0 => text("G1"),
            _ => SelfMatchGroup::BLANK,
        }
    }

    fn client_order_id(&mut self) -> ClientOrderId {
        match self.rng.below(4) {
            0 => ClientOrderId::BLANK,
            _ => text(&format!("C{}", self.rng.below(1_000_000))),
        }
    }

    fn group_id(&mut self) -> u16 {
        self.rng.below(4) as u16
    }

    /// Mostly the session's own.
    fn firm(&mut self) -> Firm {
        match self.rng.below(10) {
            0 => text("ACME"),
            1 => text("BETA"),
            2..=3 => self.profile.firm,
            _ => Firm::BLANK,
        }
    }

    fn display(&mut self) -> Display {
        match self.rng.below(10) {
            0..=1 => Display::Attributable,
            2 => Display::Hidden,
            _ => Display::Visible,
        }
    }

    fn any_side(&mut self) -> Side {
        if self.rng.chance(1, 2) { Side::Buy } else { self.kind_of_sell() }
    }

    fn kind_of_sell(&mut self) -> Side {
        match self.rng.below(6) {
            0 => Side::SellShort,
            1 => Side::SellShortExempt,
            _ => Side::Sell,
        }
    }

    fn any_instrument(&mut self) -> usize {
        self.rng.below(self.mids.len() as u64) as usize
    }

    fn any_session(&mut self) -> SessionId {
        SessionId(self.rng.range(1, u64::from(self.profile.sessions)) as u16)
    }

    fn any_next_key(&mut self) -> OrderKey {
        let session_id = self.any_session();
        self.next_key(session_id)
    }

    /// The next number on a channel of the session, mostly its own.
    fn next_key(&mut self, session_id: SessionId) -> OrderKey {
        let channel = match self.rng.below(3) {
            0 => self.rng.below(u64::from(self.profile.channels)) as u8,
            _ => 0,
        };
        self.next_key_of(session_id, channel)
    }

    fn next_key_of(&mut self, session_id: SessionId, channel: u8) -> OrderKey {
        let mut key = OrderKey { session_id, channel, user_ref_num: 0 };
        let index = self.channel_index(key);
        self.numbers[index] = self.numbers[index].saturating_add(1);
        key.user_ref_num = self.numbers[index];
        key
    }

    fn channel_index(&self, key: OrderKey) -> usize {
        let session = usize::from(key.session_id.0) - 1;
        session * usize::from(self.profile.channels) + usize::from(key.channel)
    }

    fn any_live(&mut self) -> Option<LiveOrder> {
        if self.live.is_empty() { None } else { Some(*self.rng.pick(&self.live)) }
    }

    /// One of those that may be live, which is then not taken for live any more.
    fn take_live(&mut self) -> Option<LiveOrder> {
        if self.live.is_empty() {
            return None;
        }
        let place = self.rng.below(self.live.len() as u64) as usize;
        Some(self.live.swap_remove(place))
    }
}

impl Iterator for CommandFlow {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        Some(self.next_command())
    }
}

/// The printed name of an instrument, counted from 0.
#[must_use]
pub fn symbol(index: usize) -> Symbol {
    match ["AAPL", "MSFT", "NVDA"].get(index) {
        Some(name) => text(name),
        None => text(&format!("S{:04}", index + 1)),
    }
}

fn cancel(key: OrderKey, quantity: u64) -> Command {
    Command::Cancel(CancelOrder { key, quantity: Quantity(quantity) })
}

fn replace(original: OrderKey, key: OrderKey, terms: Option<ReplaceTerms>) -> Command {
    let original_user_ref_num = original.user_ref_num;
    Command::Replace(ReplaceOrder { original_user_ref_num, key, terms })
}

fn odd_quantity(rng: &mut Rng) -> Quantity {
    Quantity(*rng.pick(&[0, QUANTITY_MAX, QUANTITY_MAX + 1, 1 << 32, u64::MAX]))
}

fn odd_price(rng: &mut Rng, near: Price) -> Price {
    *rng.pick(&[Price::ZERO, near, Price(PRICE_MAX), Price(PRICE_MAX + 1), Price(u64::MAX)])
}

fn text<const N: usize>(text: &str) -> Text<N> {
    Text::new(text).expect("short and printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed and profile decide the stream.
    #[test]
    fn seed_decides_the_stream() {
        let stream = |seed| CommandFlow::new(seed, Profile::default()).take(5_000);
        assert!(stream(1).eq(stream(1)));
        assert!(!stream(1).eq(stream(2)));
    }

    /// What is taken for live stays near what the profile says.
    #[test]
    fn live_orders_stay_near_the_profile() {
        let mut flow = CommandFlow::new(1, Profile { live_orders: 500, ..Profile::default() });
        for _ in 0..50_000 {
            flow.next_command();
            assert!(flow.live.len() < 700, "{}", flow.live.len());
        }
        assert!(flow.live.len() > 300, "{}", flow.live.len());
    }
}
