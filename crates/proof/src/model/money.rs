//! Money as one would explain it: what everyone has stands in one list, and what an order holds
//! stands with the order.
//!
//! Whatever happens to an order, it is asked what it needs now, and what it holds beyond that is
//! given back. What an order without a limit will cost is found by trying, on a copy of everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use market::{
    AccountAdded, AccountId, AccountSetting, Asset, AssetId, AssignSession, Bucket, CancelReason,
    DeclineReason, Declined, Event, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace, MoneyClass,
    MoneyCommand, MoneyEvent, MoneyTerms, OrderId, OrderKey, OrderType, Price, Quantity,
    RejectReason, SessionAssigned, SessionId, SetAccount, SetFees, SetTerms, Side, StopAccount,
    TermsSet, Text, TimeInForce, TradeId, Units,
};

use super::{Model, ModelOrder, is_hidden, same_side_of_book, venue::is_beside};

/// The most units of an asset (41.3).
const ISSUED_MAX: i128 = 1 << 120;

/// The highest limit of an asset.
const LIMIT_MAX: u128 = 1 << 96;

/// The largest quantity that terms may allow (40.4).
const QUANTITY_LIMIT: u64 = (1 << 28) - 1;

/// How many balances there may be (40.1).
const BALANCES_MAX: usize = 16_777_216;

/// The whole of what is known of money.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelMoney {
    assets: Vec<Text<8>>,
    accounts: Vec<Text<8>>,
    owners: BTreeMap<SessionId, AccountId>,
    terms: BTreeMap<InstrumentId, MoneyTerms>,
    /// Maker and taker fees by tier.
    fees: BTreeMap<u8, (i32, u32)>,
    /// What was set; never set is 0.
    settings: BTreeMap<(AccountId, AccountSetting, AssetId), u128>,
    stopped: BTreeSet<AccountId>,
    /// When an account asked for orders, in seconds, since its limit was set.
    asked: BTreeMap<AccountId, Vec<u64>>,
    /// What is where; what is outside is below 0.
    amounts: BTreeMap<(AssetId, AccountId, Bucket), i128>,
    /// How many movements touched a balance, or what is outside.
    versions: BTreeMap<(AssetId, AccountId, bool), u64>,
}

/// An order that an account asks for.
pub(super) struct AskedOrder {
    pub(super) order: ModelOrder,
    /// The one it replaces.
    pub(super) original: Option<ModelOrder>,
}

impl Model {
    /// What an account has: available, and reserved.
    #[must_use]
    pub fn balance(&self, account_id: AccountId, asset_id: AssetId) -> (i128, i128) {
        let amount = |bucket| self.money.amount(asset_id, account_id, bucket);
        (amount(Bucket::Available), amount(Bucket::Reserved))
    }

    pub(super) fn money(&mut self, command: &MoneyCommand, events: &mut Vec<Event>) {
        let (done, account_id, asset_id) = match *command {
            MoneyCommand::AddAsset(add) => {
                let done = self.money.add_asset(add.name, add.decimals);
                (done, AccountId(0), AssetId(0))
            }
            MoneyCommand::AddAccount(add) => {
                (self.money.add_account(add.name), AccountId(0), AssetId(0))
            }
            MoneyCommand::AssignSession(assign) => {
                (self.assign_session(assign), assign.account_id, AssetId(0))
            }
            MoneyCommand::SetTerms(set) => (self.set_terms(set), AccountId(0), AssetId(0)),
            MoneyCommand::SetFees(set) => (self.money.set_fees(set), AccountId(0), AssetId(0)),
            MoneyCommand::SetAccount(set) => {
                (self.money.set_account(set), set.account_id, set.asset_id)
            }
            MoneyCommand::StopAccount(stop) => {
                (self.stop_account(stop), stop.account_id, AssetId(0))
            }
            // 41.1: all three are movements between two ends.
            MoneyCommand::Deposit(it) => {
                let ends = [(AccountId(0), Bucket::Outside), (it.account_id, Bucket::Available)];
                let done = self.money.give(LedgerKind::Deposit, it.asset_id, ends, it.amount);
                (done, it.account_id, it.asset_id)
            }
            MoneyCommand::Withdraw(it) => {
                let ends = [(it.account_id, Bucket::Available), (AccountId(0), Bucket::Outside)];
                let done = self.money.give(LedgerKind::Withdrawal, it.asset_id, ends, it.amount);
                (done, it.account_id, it.asset_id)
            }
            MoneyCommand::Transfer(it) => {
                let ends = [(it.from, Bucket::Available), (it.to, Bucket::Available)];
                let done = self.money.give(LedgerKind::Transfer, it.asset_id, ends, it.amount);
                (done, it.from, it.asset_id)
            }
        };
        match done {
            Ok(told) => events.extend(told),
            Err(reason) => {
                let movement = match command {
                    MoneyCommand::Deposit(_) => Some(LedgerKind::Deposit),
                    MoneyCommand::Withdraw(_) => Some(LedgerKind::Withdrawal),
                    MoneyCommand::Transfer(_) => Some(LedgerKind::Transfer),
                    _ => None,
                };
                let declined = Declined { reason, movement, account_id, asset_id };
                events.push(Event::Money(MoneyEvent::Declined(declined)));
            }
        }
    }

    fn assign_session(&mut self, asked: AssignSession) -> Result<Vec<Event>, DeclineReason> {
        let AssignSession { session_id, account_id } = asked;
        if self.session(session_id).is_none() {
            return Err(DeclineReason::UnknownSession);
        }
        self.money.known(account_id)?;
        // 40.2
        if self.orders.iter().any(|order| order.key.session_id == session_id) {
            return Err(DeclineReason::OrdersLive);
        }
        self.money.owners.insert(session_id, account_id);
        let assigned = SessionAssigned { session_id, account_id };
        Ok(vec![Event::Money(MoneyEvent::SessionAssigned(assigned))])
    }

    fn set_terms(&mut self, asked: SetTerms) -> Result<Vec<Event>, DeclineReason> {
        let SetTerms { symbol, terms } = asked;
        let instrument = self.listed(symbol);
        let instrument_id = instrument.ok_or(DeclineReason::UnknownInstrument)?.instrument_id;
        // 40.3, 40.4
        let numbers = [terms.base_units, terms.quote_numerator, terms.quote_denominator];
        let mut allowed = terms.quantity_max.0 > 0 && terms.quantity_max.0 <= QUANTITY_LIMIT;
        if terms.class == MoneyClass::None {
            allowed &= numbers.iter().all(|number| *number == 0);
            allowed &= terms.base.0 == 0 && terms.quote.0 == 0;
        } else {
            self.money.known_asset(terms.base)?;
            self.money.known_asset(terms.quote)?;
            allowed &= numbers.iter().all(|number| *number > 0) && terms.base != terms.quote;
        }
        if !allowed {
            return Err(DeclineReason::InvalidTerms);
        }
        if self.orders.iter().any(|order| order.instrument_id == instrument_id) {
            return Err(DeclineReason::OrdersLive);
        }
        self.money.terms.insert(instrument_id, terms);
        Ok(vec![Event::Money(MoneyEvent::TermsSet(TermsSet { instrument_id, terms }))])
    }

    /// 45.1
    fn stop_account(&mut self, asked: StopAccount) -> Result<Vec<Event>, DeclineReason> {
        self.money.known(asked.account_id)?;
        if asked.account_id == AccountId(0) {
            return Err(DeclineReason::UnknownAccount);
        }
        let mut events = vec![Event::Money(MoneyEvent::AccountStopped(asked))];
        if !asked.stopped {
            self.money.stopped.remove(&asked.account_id);
            return Ok(events);
        }
        self.money.stopped.insert(asked.account_id);
        let mut keys: Vec<OrderKey> = self.orders.iter().map(|order| order.key).collect();
        keys.retain(|key| self.money.owner(key.session_id) == asked.account_id);
        keys.sort();
        for key in keys {
            let place = self.place_of(key).expect("it was found live");
            let leaves = self.orders[place].leaves().0;
            self.cancel(place, leaves, CancelReason::Supervisory, &mut events);
        }
        Ok(events)
    }

    /// The largest quantity of an order of an instrument. (5.3, 40.4)
    pub(super) fn quantity_max(&self, instrument_id: InstrumentId) -> u64 {
        let terms = self.money.terms.get(&instrument_id);
        terms.map_or(super::QUANTITY_MAX, |terms| terms.quantity_max.0)
    }

    /// An account asks for an order now. (44.5)
    pub(super) fn count_asked(&mut self, session_id: SessionId) {
        let account_id = self.money.owner(session_id);
        let limit = self.money.setting(account_id, AccountSetting::OrdersPerSecondMax, AssetId(0));
        if account_id != AccountId(0) && limit > 0 {
            let second = self.now_ns / 1_000_000_000;
            self.money.asked.entry(account_id).or_default().push(second);
        }
    }

    /// The first check of the account that an order fails. (44.1)
    pub(super) fn why_not_for_account(&self, asked: &AskedOrder) -> Option<RejectReason> {
        use AccountSetting::*;
        let AskedOrder { order, original } = asked;
        let account_id = self.money.owner(order.key.session_id);
        let terms = self.money.paid(order.instrument_id);
        if account_id == AccountId(0) {
            return terms.is_some().then_some(RejectReason::NoAccount);
        }
        let limit = |setting, asset_id| match self.money.setting(account_id, setting, asset_id) {
            0 => i128::MAX,
            limit => i128::try_from(limit).unwrap(),
        };
        let leaves = i128::from(order.leaves().0);
        let is_short = [Side::SellShort, Side::SellShortExempt].contains(&order.side);
        let others = self.orders.iter().filter(|it| original.is_none_or(|o| o.key != it.key));
        let own: Vec<_> = others
            .filter(|it| self.money.owner(it.key.session_id) == account_id)
            .copied()
            .collect();

        // What the terms say; without terms all of that is in order.
        let (mut short_fits, mut cost_fits, mut position_fits, mut balance_fits) =
            (true, true, true, true);
        if let Some(terms) = terms {
            let short_max =
                i128::try_from(self.money.setting(account_id, ShortMax, terms.base)).unwrap();
            let is_position = terms.class == MoneyClass::Position;
            short_fits = !is_short || (is_position && short_max > 0);
            let cost = self.cost_of(order, &terms);
            cost_fits = cost <= limit(OrderNotionalMax, terms.quote);
            let freed = original.map_or(0, |it| it.held);
            let has = |asset_id| self.balance(account_id, asset_id);
            let base_amount = leaves * i128::from(terms.base_units);
            if order.side == Side::Buy {
                // 43.4: of all orders in that asset, whatever the instrument.
                let buying: i128 = own
                    .iter()
                    .filter(|it| it.side == Side::Buy)
                    .filter_map(|it| Some((it, self.money.paid(it.instrument_id)?)))
                    .filter(|(_, its)| its.class == MoneyClass::Position && its.base == terms.base)
                    .map(|(it, its)| i128::from(it.leaves().0) * i128::from(its.base_units))
                    .sum();
                let (available, reserved) = has(terms.base);
                position_fits = !is_position
                    || limit(PositionMax, terms.base)
                        >= available + reserved + buying + base_amount;
                balance_fits = has(terms.quote).0 + freed >= cost;
            } else if is_short {
                position_fits = has(terms.base).0 + freed - base_amount >= -short_max;
            } else {
                balance_fits = has(terms.base).0 + freed >= base_amount;
            }
        }
        // 44.2
        let best = self.best_shown_to(order);
        let price_fits = match best {
            Some(best) if order.order_type == OrderType::Limit => {
                let (best, price) = (i128::from(best.0), i128::from(order.price.0));
                let through = if order.side == Side::Buy { price - best } else { best - price };
                let ppm = self.money.setting(account_id, PriceAwayMax, AssetId(0));
                ppm == 0 || through * 1_000_000 <= best * i128::try_from(ppm).unwrap()
            }
            _ => true,
        };
        // 44.5
        let now = self.now_ns / 1_000_000_000;
        let asked = self.money.asked.get(&account_id);
        let asked = asked.map_or(0, |it| it.iter().filter(|second| **second == now).count());
        let rate_fits = asked as i128 <= limit(OrdersPerSecondMax, AssetId(0));
        let live_fits =
            original.is_some() || (own.len() as i128) < limit(LiveOrdersMax, AssetId(0));
        let checks = [
            (short_fits, RejectReason::ShortSaleNotAllowed),
            (price_fits, RejectReason::PriceTooFar),
            (leaves <= limit(OrderQuantityMax, AssetId(0)), RejectReason::OrderQuantityLimit),
            (cost_fits, RejectReason::OrderNotionalLimit),
            (live_fits, RejectReason::TooManyOrders),
            (rate_fits, RejectReason::OrderRateLimit),
            (position_fits, RejectReason::PositionLimit),
            (balance_fits, RejectReason::InsufficientBalance),
            (!self.money.stopped.contains(&account_id), RejectReason::AccountStopped),
        ];
        checks.into_iter().find(|(passed, _)| !passed).map(|(_, reason)| reason)
    }

    /// May a live order have this side instead? (43.1, 43.5)
    pub(super) fn may_have_side(&self, order: &ModelOrder, side: Side) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        let account_id = self.money.owner(order.key.session_id);
        let short_max = self.money.setting(account_id, AccountSetting::ShortMax, terms.base);
        match side {
            Side::Buy => true,
            Side::Sell => self.balance(account_id, terms.base).0 >= 0,
            _ => terms.class == MoneyClass::Position && short_max > 0,
        }
    }

    /// The best price of the other side that everyone can see.
    fn best_shown_to(&self, order: &ModelOrder) -> Option<Price> {
        let prices = self
            .orders
            .iter()
            .filter(|it| {
                it.instrument_id == order.instrument_id
                    && it.place == super::Place::Book
                    && !is_hidden(it)
            })
            .filter(|it| !is_beside(it))
            .filter(|it| !same_side_of_book(it.side, order.side) && it.leaves() > Quantity::ZERO)
            .map(|it| it.price);
        if order.side == Side::Buy { prices.min() } else { prices.max() }
    }

    /// Are orders in an instrument paid for? (40.2)
    pub(super) fn is_paid(&self, instrument_id: InstrumentId) -> bool {
        self.money.paid(instrument_id).is_some()
    }

    /// What an order costs, or brings, at its limit; without one, what it would trade for now, with
    /// what would then rest of it. (42.4)
    fn cost_of(&self, order: &ModelOrder, terms: &MoneyTerms) -> i128 {
        if order.order_type == OrderType::Limit {
            return cost(terms, order.price, order.leaves());
        }
        if order.instructions.waits_outside() {
            return 0;
        }
        let mut rehearsal = self.clone();
        rehearsal.money.terms.clear();
        rehearsal.past = Arc::default();
        let mut copy = *order;
        copy.place = super::Place::Book;
        copy.conditions.minimum_quantity = market::Lots::ZERO;
        copy.conditions.post_only = false;
        copy.instructions.all_or_none = false;
        if copy.time_in_force == TimeInForce::FillOrKill {
            copy.time_in_force = TimeInForce::ImmediateOrCancel;
        }
        let mut events = Vec::new();
        rehearsal.trade_then_rest(copy, &mut events);
        let mut traded: BTreeMap<Price, u64> = BTreeMap::new();
        let mut rests = 0;
        for event in &events {
            match event {
                Event::Traded(it) => *traded.entry(it.price).or_default() += it.quantity.0,
                Event::Booked(it) => rests += cost(terms, it.price, it.leaves),
                _ => {}
            }
        }
        let costs = traded.into_iter().map(|(price, lots)| cost(terms, price, Quantity(lots)));
        costs.sum::<i128>() + rests
    }

    /// An accepted order holds what it needs. (42.1)
    pub(super) fn hold(&mut self, order: &mut ModelOrder, events: &mut Vec<Event>) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        order.held = match order.side {
            // What it will pay it holds when it comes in. (42.4, 20.11)
            Side::Buy if order.order_type != OrderType::Limit => 0,
            _ => needed(order, &terms),
        };
        self.post_held(order, &terms, events);
    }

    /// An order to buy that has no limit comes in and holds what it will pay; false if less is
    /// available. (42.4, 20.11)
    pub(super) fn hold_without_limit(
        &mut self,
        order: &mut ModelOrder,
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        if order.side != Side::Buy || order.order_type == OrderType::Limit {
            return true;
        }
        let account_id = self.money.owner(order.key.session_id);
        let cost = self.cost_of(order, &terms);
        if self.balance(account_id, terms.quote).0 < cost {
            return false;
        }
        order.held = cost;
        self.post_held(order, &terms, events);
        true
    }

    /// Has its owner what an order needs at another price? (36.10)
    pub(super) fn can_hold_at(&self, order: &ModelOrder, price: Price) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        let more = needed(&ModelOrder { price, ..*order }, &terms) - order.held;
        let asset_id = if order.side == Side::Buy { terms.quote } else { terms.base };
        let account_id = self.money.owner(order.key.session_id);
        more <= 0 || more <= self.balance(account_id, asset_id).0
    }

    /// An order holds what it needs at its price, not more and not less. (36.10)
    pub(super) fn hold_at(&mut self, order: &mut ModelOrder, events: &mut Vec<Event>) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        let more = needed(order, &terms) - order.held;
        if more <= 0 {
            return self.give_back(order, TradeId(0), events);
        }
        // The event reports only the addition.
        order.held = more;
        self.post_held(order, &terms, events);
        order.held = needed(order, &terms);
    }

    fn post_held(&mut self, order: &ModelOrder, terms: &MoneyTerms, events: &mut Vec<Event>) {
        let account_id = self.money.owner(order.key.session_id);
        let ends = [(account_id, Bucket::Available), (account_id, Bucket::Reserved)];
        let asset_id = if order.side == Side::Buy { terms.quote } else { terms.base };
        let kind = LedgerKind::Reserve;
        events.extend(self.money.post(
            kind,
            asset_id,
            ends,
            order.held,
            order.order_id,
            TradeId(0),
        ));
    }

    /// An order gives back what it holds and does not need any more. (42.2)
    pub(super) fn give_back(
        &mut self,
        order: &mut ModelOrder,
        trade_id: TradeId,
        events: &mut Vec<Event>,
    ) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        let too_much = order.held - needed(order, &terms);
        order.held -= too_much;
        let account_id = self.money.owner(order.key.session_id);
        let ends = [(account_id, Bucket::Reserved), (account_id, Bucket::Available)];
        let asset_id = if order.side == Side::Buy { terms.quote } else { terms.base };
        let kind = LedgerKind::Release;
        events.extend(self.money.post(kind, asset_id, ends, too_much, order.order_id, trade_id));
    }

    /// An order is no more, or never rests: it gives back all that it holds.
    pub(super) fn let_go(&mut self, order: &ModelOrder, events: &mut Vec<Event>) {
        let mut gone = *order;
        gone.canceled += gone.leaves().0;
        self.give_back(&mut gone, TradeId(0), events);
    }

    /// The last trade is paid for and delivered. (42.3, 46)
    pub(super) fn settle(
        &mut self,
        place: usize,
        taker: &mut ModelOrder,
        quantity: Quantity,
        price: Price,
        events: &mut Vec<Event>,
    ) {
        let Some(terms) = self.money.paid(taker.instrument_id) else { return };
        let trade_id = TradeId(self.trade_count);
        let mut maker = self.orders[place];
        let is_bought = taker.side == Side::Buy;
        let (buyer, seller) =
            if is_bought { (&mut *taker, &mut maker) } else { (&mut maker, &mut *taker) };
        let [buyer_id, seller_id] =
            [&*buyer, &*seller].map(|order| self.money.owner(order.key.session_id));
        let paid = cost(&terms, price, quantity);
        let base_amount = terms.base_amount(quantity).cast_signed();

        buyer.held -= paid;
        let ends = [(buyer_id, Bucket::Reserved), (seller_id, Bucket::Available)];
        let kind = LedgerKind::Settle;
        events.extend(self.money.post(kind, terms.quote, ends, paid, buyer.order_id, trade_id));
        let (seller_order_id, mut payer) = (seller.order_id, *buyer);
        seller.held -= base_amount;
        if payer.order_type == OrderType::Limit {
            self.give_back(&mut payer, trade_id, events);
        }
        *(if is_bought { &mut *taker } else { &mut maker }) = payer;
        let ends = [(seller_id, Bucket::Reserved), (buyer_id, Bucket::Available)];
        events.extend(self.money.post(
            kind,
            terms.base,
            ends,
            base_amount,
            seller_order_id,
            trade_id,
        ));
        self.orders[place] = maker;

        // 46.4
        if terms.class == MoneyClass::Position {
            return;
        }
        let [taker_id, maker_id] =
            [&*taker, &maker].map(|order| self.money.owner(order.key.session_id));
        let (_, taker_ppm) = self.money.fees_of(taker_id);
        let (maker_ppm, _) = self.money.fees_of(maker_id);
        let (to_taker, to_maker) = match is_bought {
            true => ((terms.base, base_amount), (terms.quote, paid)),
            false => ((terms.quote, paid), (terms.base, base_amount)),
        };
        let venue = (AccountId(0), Bucket::Available);
        let up = |amount: i128, ppm: i128| (amount * ppm + 999_999).div_euclid(1_000_000);
        // 46.1, 46.2
        let (taker_id, maker_id) = ((taker_id, Bucket::Available), (maker_id, Bucket::Available));
        let taker_fee = up(to_taker.1, i128::from(taker_ppm));
        let maker_fee = up(to_maker.1, i128::from(maker_ppm.max(0)));
        let rebate = to_taker.1 * i128::from((-maker_ppm).max(0)) / 1_000_000;
        for (kind, asset_id, ends, amount, order_id) in [
            (LedgerKind::Fee, to_taker.0, [taker_id, venue], taker_fee, taker.order_id),
            (LedgerKind::Rebate, to_taker.0, [venue, maker_id], rebate, maker.order_id),
            (LedgerKind::Fee, to_maker.0, [maker_id, venue], maker_fee, maker.order_id),
        ] {
            events.extend(self.money.post(kind, asset_id, ends, amount, order_id, trade_id));
        }
    }
}

impl ModelMoney {
    /// Whose the orders of a session are; 0 is nobody's.
    pub(super) fn owner(&self, session_id: SessionId) -> AccountId {
        self.owners.get(&session_id).copied().unwrap_or(AccountId(0))
    }

    /// The terms of an instrument that is paid for.
    pub(super) fn paid(&self, instrument_id: InstrumentId) -> Option<MoneyTerms> {
        self.terms.get(&instrument_id).copied().filter(|terms| terms.class != MoneyClass::None)
    }

    pub(super) fn setting(
        &self,
        account_id: AccountId,
        setting: AccountSetting,
        asset_id: AssetId,
    ) -> u128 {
        self.settings.get(&(account_id, setting, asset_id)).copied().unwrap_or(0)
    }

    fn amount(&self, asset_id: AssetId, account_id: AccountId, bucket: Bucket) -> i128 {
        self.amounts.get(&(asset_id, account_id, bucket)).copied().unwrap_or(0)
    }

    pub(super) fn fees_of(&self, account_id: AccountId) -> (i32, u32) {
        let tier = self.setting(account_id, AccountSetting::FeeTier, AssetId(0)) as u8;
        self.fees.get(&tier).copied().unwrap_or((0, 0))
    }

    /// Is there such an account?
    pub(super) fn known(&self, account_id: AccountId) -> Result<(), DeclineReason> {
        if account_id.0 as usize > self.accounts.len() {
            return Err(DeclineReason::UnknownAccount);
        }
        Ok(())
    }

    fn known_asset(&self, asset_id: AssetId) -> Result<(), DeclineReason> {
        if asset_id.0 == 0 || usize::from(asset_id.0) > self.assets.len() {
            return Err(DeclineReason::UnknownAsset);
        }
        Ok(())
    }

    /// 40.1
    fn add_asset(&mut self, name: Text<8>, decimals: u8) -> Result<Vec<Event>, DeclineReason> {
        if name.is_blank() || self.assets.contains(&name) {
            return Err(DeclineReason::InvalidName);
        }
        let count = self.assets.len() + 1;
        if count > 65_535 || count * (self.accounts.len() + 1) > BALANCES_MAX {
            return Err(DeclineReason::TooMany);
        }
        self.assets.push(name);
        let asset = Asset { asset_id: AssetId(count as u16), name, decimals };
        Ok(vec![Event::Money(MoneyEvent::AssetAdded(asset))])
    }

    /// 40.1
    fn add_account(&mut self, name: Text<8>) -> Result<Vec<Event>, DeclineReason> {
        if name.is_blank() || self.accounts.contains(&name) {
            return Err(DeclineReason::InvalidName);
        }
        let count = self.accounts.len() + 1;
        if count > 65_535 || self.assets.len() * (count + 1) > BALANCES_MAX {
            return Err(DeclineReason::TooMany);
        }
        self.accounts.push(name);
        let added = AccountAdded { account_id: AccountId(count as u32), name };
        Ok(vec![Event::Money(MoneyEvent::AccountAdded(added))])
    }

    /// 46.2
    fn set_fees(&mut self, asked: SetFees) -> Result<Vec<Event>, DeclineReason> {
        let mut after = self.fees.clone();
        after.insert(asked.tier, (asked.maker_ppm, asked.taker_ppm));
        let of = |tier: u8| after.get(&tier).copied().unwrap_or((0, 0));
        let mut allowed = asked.tier < 16 && asked.maker_ppm.abs_diff(0) <= 1_000_000;
        allowed &= asked.taker_ppm <= 1_000_000;
        for maker_tier in 0..16 {
            for taker_tier in 0..16 {
                let rebate = -i64::from(of(maker_tier).0);
                allowed &= rebate <= i64::from(of(taker_tier).1);
            }
        }
        if !allowed {
            return Err(DeclineReason::InvalidFees);
        }
        self.fees = after;
        Ok(vec![Event::Money(MoneyEvent::FeesSet(asked))])
    }

    /// 44.6
    fn set_account(&mut self, asked: SetAccount) -> Result<Vec<Event>, DeclineReason> {
        use AccountSetting::*;
        let SetAccount { account_id, setting, asset_id, value } = asked;
        self.known(account_id)?;
        if account_id == AccountId(0) {
            return Err(DeclineReason::UnknownAccount);
        }
        let of_asset = [OrderNotionalMax, PositionMax, ShortMax].contains(&setting);
        let highest = match setting {
            FeeTier => 15,
            _ if of_asset => LIMIT_MAX,
            _ => u128::from(u32::MAX),
        };
        if of_asset {
            self.known_asset(asset_id)?;
        } else if asset_id != AssetId(0) {
            return Err(DeclineReason::InvalidValue);
        }
        if value.get() > highest {
            return Err(DeclineReason::InvalidValue);
        }
        self.settings.insert((account_id, setting, asset_id), value.get());
        if setting == OrdersPerSecondMax {
            self.asked.remove(&account_id);
        }
        Ok(vec![Event::Money(MoneyEvent::AccountSet(asked))])
    }

    /// Moves an amount for no order. (41.1, 41.3)
    fn give(
        &mut self,
        kind: LedgerKind,
        asset_id: AssetId,
        ends: [(AccountId, Bucket); 2],
        amount: Units,
    ) -> Result<Vec<Event>, DeclineReason> {
        let [from, to] = ends;
        self.known(from.0)?;
        self.known(to.0)?;
        if from == to {
            return Err(DeclineReason::InvalidAmount);
        }
        self.known_asset(asset_id)?;
        if amount == Units::ZERO {
            return Err(DeclineReason::InvalidAmount);
        }
        let amount = i128::try_from(amount.get()).unwrap_or(i128::MAX);
        let there = self.amount(asset_id, from.0, from.1);
        if from.1 == Bucket::Outside {
            if amount > ISSUED_MAX + there {
                return Err(DeclineReason::TooMuch);
            }
        } else if amount > there {
            return Err(DeclineReason::InsufficientBalance);
        }
        Ok(self.post(kind, asset_id, ends, amount, OrderId(0), TradeId(0)).into_iter().collect())
    }

    /// Moves an amount, if there is any, and says so. (41.2)
    pub(super) fn post(
        &mut self,
        kind: LedgerKind,
        asset_id: AssetId,
        ends: [(AccountId, Bucket); 2],
        amount: i128,
        order_id: OrderId,
        trade_id: TradeId,
    ) -> Option<Event> {
        if amount == 0 {
            return None;
        }
        let [from, to] = ends;
        *self.amounts.entry((asset_id, from.0, from.1)).or_default() -= amount;
        *self.amounts.entry((asset_id, to.0, to.1)).or_default() += amount;
        let touched =
            ends.map(|(account_id, bucket)| (asset_id, account_id, bucket == Bucket::Outside));
        for balance in BTreeSet::from(touched) {
            *self.versions.entry(balance).or_default() += 1;
        }
        let [from, to] = [0, 1].map(|end| LedgerPlace {
            account_id: ends[end].0,
            bucket: ends[end].1,
            version: self.versions[&touched[end]],
        });
        let amount = Units::new(u128::try_from(amount).expect("amounts move forward"));
        Some(Event::Ledger(LedgerEntry { kind, asset_id, amount, from, to, order_id, trade_id }))
    }
}

/// 40.5
fn cost(terms: &MoneyTerms, price: Price, quantity: Quantity) -> i128 {
    i128::try_from(terms.quote_amount(price, quantity)).expect("no product is too large")
}

/// What an order needs to hold for what is open of it; one without a limit keeps what it has.
fn needed(order: &ModelOrder, terms: &MoneyTerms) -> i128 {
    if order.leaves() == Quantity::ZERO {
        return 0;
    }
    match (order.side, order.order_type) {
        (Side::Buy, OrderType::Limit) => cost(terms, order.price, order.leaves()),
        (Side::Buy, _) => order.held,
        _ => i128::from(order.leaves().0) * i128::from(terms.base_units),
    }
}
