//! Settlement: the movements of a trade between buyer, seller and venue.
//!
//! Invariant: [`TradeTerms::legs`] is the only place that calculates them. A trade posts these legs
//! as one, or one by one where they do not fit a line; undoing or correcting a trade moves the difference of the same legs.

use market::{
    AccountId, Bucket, Event, LedgerKind, MoneyTerms, OrderId, Outcome, Price, Quantity,
    Settlement, TradeId, TradeSettled,
};

use super::{
    Money,
    balance::{Holding, Movement},
    fees::Fees,
    reserve::Claim,
    terms::Terms,
};
use crate::{Emit, book::cross::Match, order::Order, state::hash::StateHash};

// The parties of a trade, as indexes.
pub(super) const BUYER: usize = 0;
pub(super) const SELLER: usize = 1;
pub(super) const VENUE: usize = 2;

// The assets of a trade, as indexes.
pub(super) const QUOTE: usize = 0;
pub(super) const BASE: usize = 1;

/// The terms, accounts and fees that settle a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TradeTerms {
    pub(super) terms: MoneyTerms,
    pub(super) taker_fees: Fees,
    pub(super) maker_fees: Fees,
}

/// One transfer of a trade: an amount of one asset from one party to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferLeg {
    pub(super) kind: LedgerKind,
    pub(super) asset: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// In units; 0 if there is nothing to transfer.
    pub(super) amount: u128,
}

impl TradeTerms {
    /// The legs of a trade in posting order: payment, the release of what the buyer held beyond it,
    /// delivery, the taker's fee, the maker's rebate, the maker's fee.
    #[inline(always)]
    pub(super) fn legs(
        &self,
        taker_is_buy: bool,
        price: Price,
        quantity: Quantity,
        freed: impl FnOnce(u128) -> u128,
    ) -> [TransferLeg; 6] {
        let paid = self.terms.quote_amount(price, quantity);
        let delivered = self.terms.base_amount(quantity);
        let (taker, maker) = if taker_is_buy { (BUYER, SELLER) } else { (SELLER, BUYER) };
        // A party pays fees out of what it receives: the buyer in the base asset, the seller in the
        // quote.
        let (to_taker, taken, to_maker, made) = if taker_is_buy {
            (BASE, delivered, QUOTE, paid)
        } else {
            (QUOTE, paid, BASE, delivered)
        };
        let leg = |kind, asset, from, to, amount| TransferLeg { kind, asset, from, to, amount };
        [
            leg(LedgerKind::Settle, QUOTE, BUYER, SELLER, paid),
            leg(LedgerKind::Release, QUOTE, BUYER, BUYER, freed(paid)),
            leg(LedgerKind::Settle, BASE, SELLER, BUYER, delivered),
            leg(LedgerKind::Fee, to_taker, taker, VENUE, self.taker_fees.of_taker(taken)),
            leg(LedgerKind::Rebate, to_taker, VENUE, maker, self.maker_fees.rebate_of_maker(taken)),
            leg(LedgerKind::Fee, to_maker, maker, VENUE, self.maker_fees.of_maker(made)),
        ]
    }
}

/// The parties of a trade.
struct Parties {
    accounts: [AccountId; 3],
    orders: [OrderId; 2],
    trade_id: TradeId,
}

impl Parties {
    /// Posts one leg and emits it; a leg of 0 is skipped.
    #[inline(always)]
    fn post(&self, leg: &TransferLeg, holding: &mut Holding, emit: &mut (impl Emit + ?Sized)) {
        if leg.amount == 0 {
            return;
        }
        let is_reserved = matches!(leg.kind, LedgerKind::Settle | LedgerKind::Release);
        let entry = holding.post(&Movement {
            kind: leg.kind,
            from: (
                self.accounts[leg.from],
                if is_reserved { Bucket::Reserved } else { Bucket::Available },
            ),
            to: (self.accounts[leg.to], Bucket::Available),
            amount: leg.amount,
            order_id: self.orders[if leg.from == VENUE { leg.to } else { leg.from }],
            trade_id: self.trade_id,
        });
        emit.emit(Event::Ledger(entry));
    }

    /// Posts the legs and emits them, as one where that is possible.
    #[inline(always)]
    fn settle(
        &self,
        legs: &[TransferLeg; 6],
        (taker_is_buy, is_charged): (bool, bool),
        quote: &mut Holding,
        base: &mut Holding,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let Some(settled) = self.settled(legs, taker_is_buy, quote, base) else {
            return self.post_all(legs, quote, base, emit);
        };
        let [buyer, seller, venue] = self.accounts;
        let [pays, frees, delivers, taker_pays, maker_gets, maker_pays] = legs;
        quote.settle(buyer, seller, pays.amount, frees.amount);
        base.settle(seller, buyer, delivers.amount, 0);
        if is_charged {
            let (to_taker, to_maker, taker, maker) = match taker_is_buy {
                true => (base, quote, buyer, seller),
                false => (quote, base, seller, buyer),
            };
            to_taker.charge(taker, venue, taker_pays.amount);
            to_taker.charge(venue, maker, maker_gets.amount);
            to_maker.charge(maker, venue, maker_pays.amount);
        }
        emit.emit_at_once(Outcome::Settled(settled));
    }

    /// Posts the legs one by one: the long way of a settlement that does not fit a line.
    #[cold]
    fn post_all(
        &self,
        legs: &[TransferLeg; 6],
        quote: &mut Holding,
        base: &mut Holding,
        emit: &mut (impl Emit + ?Sized),
    ) {
        for leg in legs {
            self.post(leg, if leg.asset == QUOTE { quote } else { base }, emit);
        }
    }

    /// The settlement as one, before it is made; `None` if it does not fit a line, or is not one between two accounts.
    #[inline(always)]
    fn settled(
        &self,
        legs: &[TransferLeg; 6],
        taker_is_buy: bool,
        quote: &Holding,
        base: &Holding,
    ) -> Option<TradeSettled> {
        let [buyer, seller, venue] = self.accounts;
        if buyer == seller || buyer == venue || seller == venue {
            return None;
        }
        let versions = |holding: &Holding| self.accounts.map(|it| holding.balance(it).version);
        let [pays, frees, delivers, taker_pays, maker_gets, maker_pays] = legs;
        TradeSettled::of(&Settlement {
            trade_id: self.trade_id,
            orders: self.orders,
            accounts: [buyer, seller],
            assets: [quote.asset().asset_id, base.asset().asset_id],
            taker_is_buy,
            paid: pays.amount,
            freed: frees.amount,
            delivered: delivers.amount,
            taker_fee: taker_pays.amount,
            rebate: maker_gets.amount,
            maker_fee: maker_pays.amount,
            versions: [versions(quote), versions(base)],
        })
    }
}

impl Money {
    /// Settles a trade: the buyer pays, the seller delivers, both pay their fees.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        met: &Match<'_>,
        trade_id: TradeId,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if let Some(&terms) = self.terms(met.taker.instrument_id) {
            self.settle_paid(&terms, met, trade_id, hash, emit);
        }
    }

    fn settle_paid(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let Match { taker, maker, price, quantity, .. } = *met;
        let taker_is_buy = taker.side().is_buy();
        let (buyer, seller) = if taker_is_buy { (taker, maker) } else { (maker, taker) };
        let buyer_id = self.account_id(buyer.key.session_id);
        let seller_id = self.account_id(seller.key.session_id);
        let is_charged = self.has_fees && !terms.is_position();
        let fees = |it| if is_charged { self.fees_of(it) } else { Fees::default() };
        let (taker_fees, maker_fees) = match taker_is_buy {
            true => (fees(buyer_id), fees(seller_id)),
            false => (fees(seller_id), fees(buyer_id)),
        };
        let trade_terms = TradeTerms { terms: terms.0, taker_fees, maker_fees };
        let legs = trade_terms.legs(taker_is_buy, price, quantity, |paid| {
            self.free(terms, buyer, price, quantity, paid)
        });

        let [quote, base] = [terms.0.quote, terms.0.base].map(|it| usize::from(it.0) - 1);
        let holdings = self.holdings.get_disjoint_mut([quote, base]);
        let [quote, base] = holdings.expect("terms name two assets");
        let parties = Parties {
            accounts: [buyer_id, seller_id, AccountId::VENUE],
            orders: [buyer.order_id(), seller.order_id()],
            trade_id,
        };
        parties.settle(&legs, (taker_is_buy, is_charged), quote, base, emit);
        if is_charged {
            quote.close([buyer_id, seller_id, AccountId::VENUE], hash);
            base.close([buyer_id, seller_id, AccountId::VENUE], hash);
        } else {
            quote.close([buyer_id, seller_id], hash);
            base.close([buyer_id, seller_id], hash);
        }
    }

    /// Takes lots from the buyer's order. Returns what it held for them beyond their cost, in
    /// units.
    #[inline(always)]
    fn free(
        &mut self,
        terms: &Terms,
        buyer: &Order,
        price: Price,
        quantity: Quantity,
        paid: u128,
    ) -> u128 {
        let leaves_before = Quantity(buyer.leaves().0 + quantity.0);
        let claim = Claim::from(buyer);
        self.count_buying(terms, &claim, leaves_before, buyer.leaves());
        if claim.is_market_buy() {
            let left = self.market_reserved.checked_sub(paid);
            self.market_reserved = left.expect("the walk counted this trade");
            return 0;
        }
        if buyer.price() == price && terms.is_exact() {
            return 0;
        }
        let held = |leaves| terms.0.quote_amount(buyer.price(), leaves);
        let freed = held(leaves_before) - held(buyer.leaves());
        freed.checked_sub(paid).expect("no trade is beyond the buyer's limit")
    }

    /// The fees of an account's tier.
    #[inline]
    fn fees_of(&self, account_id: AccountId) -> Fees {
        self.fees[usize::from(self.hot[account_id.0 as usize].fee_tier)]
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the conservation check works: an engine with a broken settlement stops at the
    //! next command that moves money.

    use market::{
        AccountId, AddAccount, AddAsset, AddInstrument, AddSession, AssetId, AssignSession,
        Command, Deposit, EnterOrder, Firm, Input, MoneyClass, MoneyCommand, MoneyTerms, OrderKey,
        OrderType, Price, Quantity, SelfMatchPrevention, SessionId, SetTerms, Side, SplitMix64,
        Symbol, SystemEvent, Text, TimeInForce, Timestamp, Units,
    };

    use super::*;
    use crate::Engine;

    /// Takes events, and counts those that came as one.
    #[derive(Default)]
    struct Seen {
        events: alloc::vec::Vec<Event>,
        lines: usize,
    }

    impl Emit for Seen {
        fn emit(&mut self, event: Event) {
            self.events.push(event);
        }

        fn emit_at_once(&mut self, outcome: Outcome) {
            self.lines += 1;
            outcome.each(|event| self.emit(event));
        }
    }

    /// A settlement as one and leg by leg gives the same entries and the same balances.
    #[test]
    fn both_ways_settle_alike() {
        let mut random = SplitMix64::new(3);
        for _ in 0..2_000 {
            let seed = random.next_u64();
            let settled = |at_once: bool| {
                let mut random = SplitMix64::new(seed);
                let holding = |number| {
                    let name = Text::new("ASSET").expect("five letters");
                    let asset = market::Asset { asset_id: AssetId(number), name, decimals: 0 };
                    let mut holding = Holding::new(asset, 3);
                    for account_id in [0, 1, 2].map(AccountId) {
                        for (kind, from, to) in [
                            (LedgerKind::Deposit, Bucket::Outside, Bucket::Available),
                            (LedgerKind::Reserve, Bucket::Available, Bucket::Reserved),
                        ] {
                            let amount = 1_000 - 100 * u128::from(kind == LedgerKind::Reserve);
                            let (from, to) = ((account_id, from), (account_id, to));
                            let (order_id, trade_id) = (OrderId(0), TradeId(0));
                            let movement = Movement { kind, from, to, amount, order_id, trade_id };
                            holding.post(&movement);
                        }
                    }
                    holding
                };
                let (mut quote, mut base) = (holding(1), holding(2));
                let mut amount = || u128::from((random.next_u64() % 50).saturating_sub(10));
                let amounts = [(); 6].map(|()| amount());
                let taker_is_buy = random.below(2) == 0;
                let (to_taker, to_maker, taker, maker) = match taker_is_buy {
                    true => (BASE, QUOTE, BUYER, SELLER),
                    false => (QUOTE, BASE, SELLER, BUYER),
                };
                let leg = |(index, kind, asset, from, to): (usize, _, _, _, _)| {
                    // A maker has a rebate or a fee.
                    let is_left_out = index == 4 + random.clone().below(2) as usize;
                    let amount = if is_left_out { 0 } else { amounts[index] };
                    TransferLeg { kind, asset, from, to, amount }
                };
                let legs = [
                    (0, LedgerKind::Settle, QUOTE, BUYER, SELLER),
                    (1, LedgerKind::Release, QUOTE, BUYER, BUYER),
                    (2, LedgerKind::Settle, BASE, SELLER, BUYER),
                    (3, LedgerKind::Fee, to_taker, taker, VENUE),
                    (4, LedgerKind::Rebate, to_taker, VENUE, maker),
                    (5, LedgerKind::Fee, to_maker, maker, VENUE),
                ]
                .map(leg);
                let parties = Parties {
                    accounts: [AccountId(1), AccountId(2), AccountId::VENUE],
                    orders: [OrderId(7), OrderId(9)],
                    trade_id: TradeId(5),
                };
                let mut seen = Seen::default();
                if at_once {
                    parties.settle(&legs, (taker_is_buy, true), &mut quote, &mut base, &mut seen);
                } else {
                    parties.post_all(&legs, &mut quote, &mut base, &mut seen);
                }
                assert_eq!(seen.lines, usize::from(at_once));
                quote.check();
                base.check();
                (seen.events, [quote, base].map(|it| it.balances().to_vec()))
            };
            assert_eq!(settled(true), settled(false));
        }
    }

    /// Two accounts, each with enough of both assets for the orders below.
    struct Venue {
        engine: Engine,
        events: usize,
    }

    impl Venue {
        fn new() -> Self {
            let mut venue = Self { engine: Engine::new(), events: 0 };
            let symbol = Symbol::new("AAPL").expect("four letters");
            for event in [SystemEvent::StartOfMessages, SystemEvent::StartOfSystemHours] {
                venue.apply(Command::System(event));
            }
            let (price_increment, round_lot) = (Price(1), Quantity(1));
            venue.apply(Command::AddInstrument(AddInstrument {
                symbol,
                price_increment,
                round_lot,
            }));
            for name in ["USD", "AAPL"] {
                let name = Text::new(name).expect("a short name");
                venue.money(MoneyCommand::AddAsset(AddAsset { name, decimals: 0 }));
            }
            let terms = MoneyTerms {
                class: MoneyClass::Cash,
                base: AssetId(2),
                quote: AssetId(1),
                base_units: 1,
                quote_numerator: 1,
                quote_denominator: 1,
                quantity_max: Quantity(1_000),
            };
            venue.money(MoneyCommand::SetTerms(SetTerms { symbol, terms }));
            for number in 1..=2 {
                let (session_id, account_id) = (SessionId(number), AccountId(number.into()));
                let username = if number == 1 { "BUYER" } else { "SELLER" };
                venue.apply(Command::AddSession(AddSession {
                    username: Text::new(username).expect("a short name"),
                    firm: Firm::new("FIRM").expect("four letters"),
                    live_orders_max: 10,
                    self_match_prevention: SelfMatchPrevention::Off,
                }));
                let name = Text::new(username).expect("a short name");
                venue.money(MoneyCommand::AddAccount(AddAccount { name }));
                venue.money(MoneyCommand::AssignSession(AssignSession { session_id, account_id }));
                for asset_id in [AssetId(1), AssetId(2)] {
                    let amount = Units::new(1_000);
                    let deposit = Deposit { account_id, asset_id, amount };
                    venue.money(MoneyCommand::Deposit(deposit));
                }
            }
            venue
        }

        fn apply(&mut self, command: Command) {
            let sequence = self.engine.sequence.next();
            let input = Input { sequence, timestamp: Timestamp(sequence.0), command };
            self.engine.apply(&input, &mut |_| self.events += 1);
        }

        fn money(&mut self, command: MoneyCommand) {
            self.apply(Command::Money(command));
        }

        /// Sells 5 lots to the buyer at 10 ticks.
        fn trade(&mut self) {
            for (number, side) in [(2, Side::Sell), (1, Side::Buy)] {
                let key = OrderKey { session_id: SessionId(number), channel: 0, user_ref_num: 1 };
                self.apply(Command::Enter(EnterOrder {
                    key,
                    side,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::Day,
                    display: market::Display::Visible,
                    quantity: Quantity(5),
                    price: Price(10),
                    symbol: Symbol::new("AAPL").expect("four letters"),
                    attributes: market::OrderAttributes::default(),
                    conditions: market::Conditions::NONE,
                    instructions: market::Instructions::NONE,
                }));
            }
        }
    }

    /// The cases that the planted faults below break hold without the faults.
    #[test]
    fn a_trade_conserves_both_assets() {
        let mut venue = Venue::new();
        venue.trade();
        let of = |account: u32, asset: u16| {
            venue.engine.balance(AccountId(account), AssetId(asset)).expect("it has one").available
        };
        assert_eq!((of(1, 1), of(2, 1), of(1, 2), of(2, 2)), (950, 1_050, 1_005, 995));
        venue.engine.check_invariants();
    }

    #[test]
    #[should_panic = "accounts hold 2001, 2000 were issued"]
    fn a_settlement_that_makes_a_unit_is_found() {
        let mut venue = Venue::new();
        venue.engine.money.holdings[0].minted = 1;
        venue.trade();
    }

    #[test]
    #[should_panic = "accounts hold 1001, 1000 were issued"]
    fn a_deposit_that_makes_a_unit_is_found() {
        let mut venue = Venue::new();
        let withdraw = |account| market::Withdraw {
            account_id: AccountId(account),
            asset_id: AssetId(1),
            amount: Units::new(1_000),
        };
        venue.money(MoneyCommand::Withdraw(withdraw(1)));
        venue.money(MoneyCommand::Withdraw(withdraw(2)));
        venue.engine.money.holdings[0].minted = 1;
        venue.money(MoneyCommand::Deposit(Deposit {
            account_id: AccountId(1),
            asset_id: AssetId(1),
            amount: Units::new(1_000),
        }));
    }
}
