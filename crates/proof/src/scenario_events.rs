//! Writes events in the words of the scenario language, and checks that each fits those before it:
//! ids without gaps, open lots that add up, echoes that equal the request.

use engine::{BookView, RestingOrder, WaitsFor};
use market::{
    Accepted, Booked, CancelHeld, CancelReason, Canceled, CollarSet, Command, CustomerType,
    Display, EntrySwitch, EntrySwitched, Event, Fill, Firm, Indicated, Indication, Instructions,
    InstrumentId, LiveOrdersMax, MassCancel, MassCanceled, Modified, OperatorEffect,
    OperatorOutcome, OperatorResult, OrderId, OrderKey, OrderType, PastTrade, PhaseCause,
    PhaseChanged, Price, Pricing, Quantity, Released, Replaced, RestateReason, Restated,
    SelfMatchPrevented, SelfMatchPrevention, SessionId, Shown, Ticks, TradeBusted, TradeCorrected,
    TradeId, Traded, Triggered, Uncrossed, VenueEvent,
};

use super::{
    scenario::World,
    scenario_money,
    scenario_words::{
        DISPLAYS, LIVES, PEGS, Read, SIDES, kebab, optional, spaced, text, unless_zero, word,
    },
};

/// The state of an order according to the events so far.
pub(super) struct ReportedOrder {
    order_id: OrderId,
    instrument_id: InstrumentId,
    price: Price,
    leaves: u64,
    booked: bool,
    display: Display,
    /// It is for an auction only, so the feed does not show it.
    for_auction: bool,
    /// Lots on the feed; 0 while the feed does not show the order.
    shown: u64,
}

impl ReportedOrder {
    fn displayed(&self) -> bool {
        self.booked && self.display != Display::Hidden && !self.for_auction
    }

    /// Takes a change of the lots that the feed shows.
    fn show(&mut self, shown: Shown) {
        assert_eq!(self.shown, shown.before.0);
        assert!(shown.after <= shown.before && shown.after.0 <= self.leaves);
        assert_eq!(self.displayed() && self.leaves > 0, shown.after.0 > 0);
        self.shown = shown.after.0;
    }

    /// The order waited outside the book, and continues under another order id.
    fn go_on(&mut self, before: OrderId, now: OrderId, instrument_id: InstrumentId) {
        assert!(!self.booked && self.leaves > 0, "it waited");
        assert_eq!((self.order_id, self.instrument_id), (before, instrument_id));
        self.order_id = now;
    }
}

/// The effect of an operator's command, in words: only the counts that are not 0.
fn effect(effect: &OperatorEffect) -> String {
    let OperatorEffect { orders_canceled, phases_changed, trades, movements, trade_id } = *effect;
    let numbers = [
        unless_zero("canceled", orders_canceled.into()),
        unless_zero("phases", phases_changed.into()),
        unless_zero("trades", trades.into()),
        unless_zero("movements", movements.into()),
        unless_zero("as", trade_id.0),
    ];
    format!("done{}", numbers.concat())
}

fn either(is_first: bool, first: &str, second: &str) -> String {
    if is_first { first.into() } else { second.into() }
}

impl World {
    /// An event in the words of the language, after a check that it fits the events before it.
    pub(super) fn report(&mut self, command: &Command, event: &Event) -> String {
        match event {
            Event::System(event) => format!("day {}", kebab(event)),
            Event::InstrumentAdded(added) => format!("instrument {}", added.instrument_id),
            Event::SessionAdded(added) => {
                self.sessions.insert(added.username.to_string(), added.session_id);
                let open = if added.system_hours { " open" } else { "" };
                format!("session {}{open}", added.session_id)
            }
            Event::Triggered(triggered) => self.report_triggered(triggered),
            Event::Released(released) => self.report_released(released),
            Event::Accepted(accepted) => self.report_accepted(command, accepted),
            Event::Replaced(replaced) => self.report_replaced(replaced),
            Event::Booked(booked) => self.report_booked(booked),
            Event::Traded(traded) => self.report_traded(traded),
            Event::SelfMatchPrevented(prevented) => self.report_prevented(prevented),
            Event::Canceled(canceled) => self.report_canceled(canceled),
            Event::Restated(restated) => self.report_restated(restated),
            Event::Modified(modified) => self.report_modified(modified),
            Event::Rejected(rejected) => {
                let client = optional("client ", &rejected.client_order_id);
                format!("rejected {} {:?}{client}", self.name(rejected.key), rejected.reason)
            }
            Event::MassCanceled(MassCanceled { key, firm, symbol, side, group_id }) => {
                let (key, firm, symbol, side) = (*key, *firm, *symbol, *side);
                let echo = MassCancel { key, firm, symbol, side, group_id: *group_id };
                assert_eq!(Command::MassCancel(echo), *command);
                "mass-canceled".into()
            }
            Event::EntrySwitched(EntrySwitched { key, firm, enabled }) => {
                let echo = EntrySwitch { key: *key, firm: *firm, enabled: *enabled };
                assert_eq!(Command::SwitchEntry(echo), *command);
                either(*enabled, "enabled", "disabled")
            }
            Event::CancelHeld(CancelHeld { key, is_pending }) => {
                format!("{} {}", self.name(*key), either(*is_pending, "leaves later", "stays"))
            }
            Event::Noted(note) => format!("note {}", note.bytes().escape_ascii()),
            Event::AccountQueried(queried) => format!("next {}", queried.next_user_ref_num),
            Event::Ledger(entry) => {
                self.balances.enter(event);
                scenario_money::entry(self.engine(), entry)
            }
            Event::Money(event) => {
                scenario_money::event(self.engine(), |id| self.session_name(id), event)
            }
            Event::Venue(event) => self.report_venue(event),
        }
    }

    fn report_venue(&mut self, event: &VenueEvent) -> String {
        match event {
            VenueEvent::PhaseChanged(PhaseChanged { instrument_id, from, to, cause, reason }) => {
                assert_ne!(from, to);
                let by = match cause {
                    PhaseCause::Command => "",
                    PhaseCause::Band => " by band",
                    PhaseCause::Time => " by time",
                };
                let reason = optional("", reason);
                format!("phase {} {}{by}{reason}", self.symbol(*instrument_id), kebab(to))
            }
            VenueEvent::Indicated(Indicated { instrument_id, indication, .. }) => {
                let Indication { price, paired, imbalance, imbalance_is_buy } = *indication;
                let symbol = self.symbol(*instrument_id);
                if paired.is_zero() {
                    assert_eq!(*indication, Indication::default());
                    return format!("indicates {symbol} nothing");
                }
                let side = if imbalance_is_buy { "buy" } else { "sell" };
                let left = match imbalance.0 {
                    0 => String::new(),
                    lots => format!(" leaving {lots} to {side}"),
                };
                format!("indicates {symbol} {paired} @ {price}{left}")
            }
            VenueEvent::CollarSet(CollarSet { instrument_id, low, high, extension, .. }) => {
                let more = if *extension == 0 { String::new() } else { format!(" +{extension}") };
                format!("collar {} {low} to {high}{more}", self.symbol(*instrument_id))
            }
            VenueEvent::Uncrossed(Uncrossed {
                instrument_id, trade_id, price, quantity, ..
            }) => {
                self.check_trade_id(*trade_id);
                match quantity.0 {
                    0 => format!("auction {} nothing", self.symbol(*instrument_id)),
                    lots => format!("auction {} {lots} @ {price}", self.symbol(*instrument_id)),
                }
            }
            VenueEvent::InstrumentChanged(_) => "configured".into(),
            VenueEvent::InstrumentRemoved(instrument_id) => {
                assert_eq!(self.engine().phase(*instrument_id), None);
                format!("removed {}", self.symbol(*instrument_id))
            }
            VenueEvent::EntryBlocked(block) => {
                assert_eq!(self.engine().blocks().contains(&block.scope), block.blocked);
                either(block.blocked, "blocked", "unblocked")
            }
            VenueEvent::TradeBusted(TradeBusted { trade, .. }) => {
                format!("busted {}", self.past(trade))
            }
            VenueEvent::TradeCorrected(TradeCorrected { busted, trade, .. }) => {
                self.check_trade_id(trade.trade_id);
                format!("corrected {busted} to {}", self.past(trade))
            }
            VenueEvent::LiveOrdersMaxSet(LiveOrdersMax { session_id, live_orders_max }) => {
                format!("live-orders {} {live_orders_max}", self.session_name(*session_id))
            }
            VenueEvent::LoggedOut(session_id) => {
                format!("logged-out {}", self.session_name(*session_id))
            }
            VenueEvent::Operated(result) => {
                let OperatorResult { operator, number, sequence, repeated, outcome } = result;
                assert_eq!(*repeated, *sequence < self.engine().sequence());
                let again = if *repeated { " again" } else { "" };
                let outcome = match outcome {
                    OperatorOutcome::Done(done) => effect(done),
                    OperatorOutcome::Declined(why) => format!("declined {why:?}"),
                };
                format!("{operator} {number}{again}: {outcome}")
            }
            VenueEvent::Declined(decline) => format!("declined {:?}", decline.reason),
        }
    }

    fn past(&self, trade: &PastTrade) -> String {
        let [maker, taker] = [&trade.maker, &trade.taker].map(|party| {
            assert_eq!(self.orders[&party.key].order_id, party.order_id);
            self.name(party.key)
        });
        let PastTrade { trade_id, quantity, price, .. } = trade;
        format!("{trade_id}: {maker} {taker} {quantity} @ {price}")
    }

    fn symbol(&self, instrument_id: InstrumentId) -> String {
        let instrument = self.engine().instruments().nth(usize::from(instrument_id.0) - 1);
        instrument.expect("it was added").symbol.to_string()
    }

    fn report_accepted(&mut self, command: &Command, accepted: &Accepted) -> String {
        let Command::Enter(asked) = command else { panic!("{command:?} accepts no order") };
        let instrument = self.engine().instrument(&asked.symbol).expect("orders name instruments");
        let instrument_id = instrument.instrument_id;
        let echo = Accepted {
            key: asked.key,
            order_id: self.next_order_id(),
            instrument_id,
            side: asked.side,
            order_type: asked.order_type,
            time_in_force: asked.time_in_force,
            display: asked.display,
            quantity: asked.quantity.lots(),
            price: asked.price.ticks(),
            attributes: asked.attributes,
            conditions: asked.conditions,
            instructions: asked.instructions,
        };
        assert_eq!(*accepted, echo);
        let order = ReportedOrder {
            order_id: accepted.order_id,
            instrument_id,
            price: accepted.price.price(),
            leaves: accepted.quantity.get(),
            booked: false,
            display: accepted.display,
            for_auction: accepted.time_in_force.is_for_auction(),
            shown: 0,
        };
        self.orders.insert(accepted.key, order);
        format!("accepted{}", self.instructions(accepted.key, &accepted.instructions))
    }

    fn report_replaced(&mut self, replaced: &Replaced) -> String {
        let original_key =
            OrderKey { user_ref_num: replaced.original_user_ref_num, ..replaced.key };
        let original = self.reported(original_key);
        assert!(0 < original.leaves, "only a live order is replaced");
        assert_eq!({ replaced.original_order_id }, original.order_id);
        assert_eq!(replaced.original_displayed, original.displayed());
        let both = original.displayed() && replaced.display != Display::Hidden;
        assert!(both || !replaced.in_place, "the feed replaces what it knows by what it may");
        assert_eq!(replaced.instrument_id, original.instrument_id);
        original.leaves = 0;
        assert_eq!({ replaced.order_id }, self.next_order_id());
        let order = ReportedOrder {
            order_id: replaced.order_id,
            instrument_id: replaced.instrument_id,
            price: replaced.price.price(),
            leaves: replaced.leaves.get(),
            booked: replaced.in_place,
            display: replaced.display,
            for_auction: replaced.time_in_force.is_for_auction(),
            shown: replaced.shown().get(),
        };
        self.orders.insert(replaced.key, order);
        let price = match replaced.order_type {
            OrderType::Limit => replaced.price.0.to_string(),
            OrderType::Market => "market".into(),
            OrderType::MarketToLimit => "market-to-limit".into(),
        };
        let conditions = &replaced.conditions;
        let prevention = match conditions.self_match_prevention {
            SelfMatchPrevention::SessionDefault => String::new(),
            prevention => format!(" prevent {}", char::from(prevention.code())),
        };
        let parts = [
            spaced(LIVES, replaced.time_in_force),
            spaced(DISPLAYS, replaced.display),
            optional("client ", &replaced.client_order_id),
            optional("firm ", &replaced.firm),
            prevention,
            optional("among ", &conditions.self_match_group),
            either(conditions.post_only, " post-only", ""),
            unless_zero("minimum", conditions.minimum_quantity.get()),
            self.instructions(replaced.key, &replaced.instructions),
            either(replaced.in_place, " in place", ""),
        ];
        format!(
            "replaced {} by {} {} {} @ {price}{}",
            self.name(original_key),
            self.name(replaced.key),
            word(SIDES, replaced.side),
            { replaced.leaves },
            parts.concat()
        )
    }

    fn report_booked(&mut self, booked: &Booked) -> String {
        let order = self.orders.values_mut().find(|order| order.order_id == booked.order_id);
        let order = order.expect("an event reported the order before");
        assert!(!order.booked, "an order is booked once");
        assert_eq!(order.leaves, booked.leaves.0);
        if order.price == Price::ZERO {
            // Market to limit: the order rests at its last trade price.
            order.price = booked.price;
        }
        assert_eq!((order.price, order.instrument_id), (booked.price, booked.instrument_id));
        order.booked = true;
        order.shown = booked.shown.0;
        // A collected market order has no price, and waits for the auction.
        order.for_auction |= booked.price == Price::ZERO;
        if order.for_auction {
            assert_eq!((booked.shown, booked.attribution), (Quantity::ZERO, Firm::BLANK));
            return format!("booked {} for auction", booked.leaves);
        }
        let name = optional("as ", &booked.attribution);
        let hidden = match (order.display, booked.shown) {
            (Display::Hidden, shown) => {
                assert_eq!(shown, Quantity::ZERO);
                " hidden".into()
            }
            (_, shown) if shown < booked.leaves => format!(" showing {shown}"),
            (_, shown) => {
                assert_eq!(shown, booked.leaves);
                String::new()
            }
        };
        format!("booked {} @ {}{name}{hidden}", booked.leaves, booked.price)
    }

    fn report_traded(&mut self, traded: &Traded) -> String {
        self.check_trade_id(traded.trade_id);
        for fill in [&traded.maker, &traded.taker] {
            let order = self.take(fill.key, fill.order_id, traded.quantity, fill.leaves);
            assert_eq!(order.instrument_id, traded.instrument_id);
        }
        assert!(self.orders[&traded.maker.key].booked);
        assert_eq!(self.orders[&traded.taker.key].booked, traded.auction.is_some());
        match traded.auction {
            Some(auction) => {
                assert!(traded.maker.order_id < traded.taker.order_id);
                self.take_shown(traded.taker.key, traded.quantity, auction.taker_shown);
            }
            None => assert_eq!(self.orders[&traded.maker.key].price, traded.price),
        }
        self.take_shown(traded.maker.key, traded.quantity, traded.maker_shown);
        let [maker, taker] = [&traded.maker, &traded.taker].map(|fill: &Fill| self.name(fill.key));
        format!("trade {maker} {taker} {} @ {}", traded.quantity, traded.price)
    }

    /// Takes the traded lots of a resting order off its lots on the feed.
    fn take_shown(&mut self, key: OrderKey, quantity: Quantity, shown: Quantity) {
        let order = self.reported(key);
        if !shown.is_zero() {
            assert_eq!(order.shown, shown.0, "it is what the feed shows");
            order.shown = order.shown.checked_sub(quantity.0).expect("only what is shown");
        }
        assert!(order.shown <= order.leaves, "lots that are shown are open");
    }

    fn report_prevented(&mut self, event: &SelfMatchPrevented) -> String {
        let SelfMatchPrevented { key, order_id, quantity, leaves, prevented, .. } = *event;
        assert!(!prevented.is_zero() && prevented <= quantity);
        let order = self.take(key, order_id, quantity, leaves);
        assert_eq!((order.booked, order.instrument_id), (event.booked, event.instrument_id));
        order.show(event.shown);
        if event.booked {
            assert_eq!(order.price, event.price);
        }
        let instead = if prevented == quantity { 0 } else { prevented.0 };
        format!(
            "prevented {} {quantity}{} @ {} {}{}",
            self.name(key),
            unless_zero("for", instead),
            event.price,
            char::from(event.prevention.code()),
            unless_zero("leaving", leaves.0)
        )
    }

    fn report_canceled(&mut self, canceled: &Canceled) -> String {
        let Canceled { key, order_id, quantity, leaves, .. } = *canceled;
        let order = self.take(key, order_id, quantity, leaves);
        assert_eq!(order.booked, canceled.booked);
        order.show(canceled.shown);
        assert_eq!(order.instrument_id, canceled.instrument_id);
        let reason = match canceled.reason {
            CancelReason::User => String::new(),
            CancelReason::ImmediateOrCancel => " ioc".into(),
            reason => format!(" {}", kebab(&reason)),
        };
        let left = unless_zero("leaving", leaves.0);
        format!("canceled {} {quantity}{left}{reason}", self.name(key))
    }

    fn report_restated(&mut self, restated: &Restated) -> String {
        // An order that slides was just accepted, and keeps its order id.
        let order_id = match restated.order_id == restated.order_id_before {
            true => restated.order_id,
            false => self.next_order_id(),
        };
        let order = self.reported(restated.key);
        assert_eq!((order.order_id, order_id), (restated.order_id_before, restated.order_id));
        assert_eq!((order.leaves, order.display), (restated.leaves.0, restated.display));
        order.order_id = order_id;
        order.price = restated.price;
        order.shown = restated.shown.0;
        order.booked &= restated.reason != RestateReason::Repriced;
        let name = self.name(restated.key);
        match (restated.reason, restated.price) {
            (RestateReason::Refreshed, _) => {
                format!("refreshed {name} showing {}", restated.shown)
            }
            (RestateReason::Repriced, Price::ZERO) => format!("suspended {name}"),
            (RestateReason::Repriced, price) => format!("repriced {name} @ {price}"),
            (RestateReason::Ready, _) => format!("ready {name}"),
        }
    }

    /// Instructions in the words of the language, each with a space before it.
    fn instructions(&self, key: OrderKey, instructions: &Instructions) -> String {
        let Instructions { pricing, trigger, offset, parent, partner, .. } = *instructions;
        let pricing = match pricing {
            Pricing::Limit => String::new(),
            Pricing::Stop => format!(" stop {}", trigger.0),
            Pricing::TakeProfit => format!(" touch {}", trigger.0),
            Pricing::TrailingStop if trigger == Ticks::ZERO => format!(" trail {offset}"),
            Pricing::TrailingStop => format!(" stop {} trail {offset}", trigger.0),
            pegged if offset == 0 => format!(" peg {}", word(PEGS, pegged)),
            pegged => format!(" peg {} offset {offset}", word(PEGS, pegged)),
        };
        let named = |label, number| match number {
            0 => String::new(),
            user_ref_num => format!(" {label} {}", self.name(OrderKey { user_ref_num, ..key })),
        };
        let parts = [
            pricing,
            either(instructions.handling.is_all_or_none(), " all-or-none", ""),
            either(instructions.handling.slides(), " slide", ""),
            unless_zero("show", instructions.shown_quantity.get()),
            unless_zero("range", instructions.shown_range.into()),
            unless_zero("until", instructions.expires_s.into()),
            named("after", parent),
            named("or", partner),
        ];
        parts.concat()
    }

    fn report_triggered(&mut self, triggered: &Triggered) -> String {
        let name = self.name(triggered.key);
        assert_eq!(triggered.order_id, self.next_order_id());
        let order = self.reported(triggered.key);
        order.go_on(triggered.order_id_before, triggered.order_id, triggered.instrument_id);
        let moved = match order.price == triggered.price {
            true => String::new(),
            false => format!(" @ {}", triggered.price),
        };
        order.price = triggered.price;
        format!("triggered {name} at {}{moved}", triggered.trigger)
    }

    fn report_released(&mut self, released: &Released) -> String {
        let parent = OrderKey { user_ref_num: released.parent, ..released.key };
        assert_eq!(self.orders[&parent].leaves, 0, "it is done");
        assert_eq!(released.order_id, self.next_order_id());
        let order = self.reported(released.key);
        order.go_on(released.order_id_before, released.order_id, released.instrument_id);
        assert_eq!(order.leaves, released.leaves.0);
        format!("released {}", self.name(released.key))
    }

    fn report_modified(&mut self, modified: &Modified) -> String {
        let Modified { key, order_id, quantity, leaves, .. } = *modified;
        self.take(key, order_id, quantity, leaves).show(modified.shown);
        let side = word(SIDES, modified.side);
        format!("modified {} {side} {quantity} leaving {leaves}", self.name(key))
    }

    fn reported(&mut self, key: OrderKey) -> &mut ReportedOrder {
        self.orders.get_mut(&key).expect("an event reported the order before")
    }

    /// Takes lots from an order, and checks the lots that the event reports as left.
    fn take(
        &mut self,
        key: OrderKey,
        order_id: OrderId,
        quantity: Quantity,
        leaves: Quantity,
    ) -> &mut ReportedOrder {
        let order = self.reported(key);
        assert_eq!(order.order_id, order_id);
        order.leaves = order.leaves.checked_sub(quantity.0).expect("no more than is open");
        assert_eq!(order.leaves, leaves.0);
        order
    }

    fn next_order_id(&mut self) -> OrderId {
        self.order_id_last += 1;
        OrderId(self.order_id_last)
    }

    fn check_trade_id(&mut self, trade_id: TradeId) {
        self.trade_id_last += 1;
        assert_eq!(trade_id, TradeId(self.trade_id_last));
    }

    fn session_name(&self, session_id: SessionId) -> String {
        let named = self.sessions.iter().find(|(_, id)| **id == session_id);
        named.expect("only of sessions there are").0.clone()
    }

    fn name(&self, key: OrderKey) -> String {
        let key = self.aliases.get(&key).copied().unwrap_or(key);
        let session = self.session_name(key.session_id);
        match key.channel {
            0 => format!("{session}{}", key.user_ref_num),
            channel => format!("{session}/{channel}:{}", key.user_ref_num),
        }
    }

    fn book_of(&self, symbol: &str) -> Read<BookView<'_>> {
        let instrument =
            self.engine().instrument(&text(symbol)?).ok_or("there is no such instrument")?;
        Ok(self.engine().book(instrument.instrument_id).expect("each instrument has a book"))
    }

    pub(super) fn book(&self, symbol: &str) -> Read<Vec<String>> {
        let book = self.book_of(symbol)?;
        let line = |side: &str, order: RestingOrder| {
            format!("{side} {} {} @ {}", self.name(order.key), order.leaves, order.price)
        };
        let bids = book.bids().map(|order| line("bid", order));
        Ok(bids.chain(book.asks().map(|order| line("ask", order))).collect())
    }

    /// The orders that wait for a trigger.
    pub(super) fn stop_book(&self, symbol: &str) -> Read<Vec<String>> {
        let line = |order: RestingOrder| {
            let trigger = order.instructions.trigger.0;
            format!("{} at {trigger}", self.side_and_leaves(&order))
        };
        Ok(self.book_of(symbol)?.waiting().map(line).collect())
    }

    pub(super) fn pegs(&self, symbol: &str) -> Read<Vec<String>> {
        let line = |order: RestingOrder| match order.waits_for {
            None => format!("{} @ {}", self.side_and_leaves(&order), order.price),
            Some(_) => format!("{} waits", self.side_and_leaves(&order)),
        };
        Ok(self.book_of(symbol)?.pegged().map(line).collect())
    }

    fn side_and_leaves(&self, order: &RestingOrder) -> String {
        format!("{} {} {}", word(SIDES, order.side), self.name(order.key), order.leaves)
    }

    /// Books and balances, and the terms of the live orders, in words: equal where the states are, whatever
    /// the numbers of requests and the times of inputs.
    pub(super) fn state(&self) -> String {
        let mut lines = Vec::new();
        for instrument in self.engine().instruments() {
            let (symbol, id) = (instrument.symbol, instrument.instrument_id);
            let book = self.engine().book(id).expect("each instrument has a book");
            let phase = self.engine().phase(id).map(|it| kebab(&it)).unwrap_or_default();
            lines.push(format!("{symbol} {phase}, last {:?}", book.last_price()));
            let mut list = |place: &str, orders: &mut dyn Iterator<Item = RestingOrder>| {
                lines.extend(orders.map(|order| {
                    let (name, price, terms) =
                        (self.name(order.key), order.price, self.order_of(order.key).concat());
                    format!("{place} {name} @ {price}: {terms}")
                }));
            };
            list("bid", &mut book.bids());
            list("ask", &mut book.asks());
            list("auction", &mut book.auction_orders());
            list("stop", &mut book.waiting());
            list("peg", &mut book.pegged());
            list("minimum", &mut book.waiting_for_quantity());
        }
        lines.extend(self.engine().blocks().iter().map(|scope| format!("blocked {scope:?}")));
        for account in self.engine().accounts() {
            for asset in self.engine().assets() {
                let (account, asset) = (account.name.to_string(), asset.name.to_string());
                let balance = scenario_money::balance(self.engine(), &account, &asset);
                lines.extend(balance.map(|balance| format!("{account} {asset} {balance}")));
            }
        }
        lines.join("\n")
    }

    pub(super) fn order(&self, name: &str) -> Read<Vec<String>> {
        Ok(self.order_of(self.key(name)?))
    }

    fn order_of(&self, key: OrderKey) -> Vec<String> {
        let order = self.engine().order(key);
        let line = |order: RestingOrder| {
            let parts = [
                either(order.customer_type == CustomerType::Retail, " retail", ""),
                unless_zero("prevented", order.prevented.0),
                unless_zero("group", order.group_id.into()),
                self.instructions(order.key, &order.instructions),
                match order.waits_for {
                    None => String::new(),
                    Some(WaitsFor::Parent) => " held".into(),
                    Some(WaitsFor::Trigger) => " waiting".into(),
                    Some(WaitsFor::Reference) => " without a price".into(),
                    Some(WaitsFor::Quantity) => " waits for quantity".into(),
                    Some(WaitsFor::Auction) => " waits for the auction".into(),
                    Some(WaitsFor::Turn) => " trades on".into(),
                },
            ];
            format!(
                "{} {} of {} executed {} canceled {} firm {} capacity {}{}",
                word(SIDES, order.side),
                order.leaves,
                order.quantity,
                order.executed,
                order.canceled,
                order.firm,
                char::from(order.capacity.code()),
                parts.concat()
            )
        };
        order.map(line).into_iter().collect()
    }
}
