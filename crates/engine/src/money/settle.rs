//! Settlement: the movements of a trade between buyer, seller and venue.
//!
//! Invariant: [`TradeAmounts`] is the only place that calculates the amounts, and [`Settlement`] has the only order in which they
//! are posted. A trade posts them at once, or one by one where two of its accounts are the same or an amount is large or rounded to 0;
//! undoing or correcting a trade moves the difference of the same amounts.

use market::{
    AccountId, AssetId, Event, LedgerEntry, Outcome, Quantity, Settlement, TradeId, TradeSettled,
};

use super::{
    Money,
    amounts::{AmountWidth, TradeAmounts},
    balance::{Dues, Holding, Movement},
    fees::Fees,
    reserve::Claim,
    terms::Terms,
};
use crate::{Emit, book::cross::Match};

/// Posts the movements of a trade between two accounts, of small amounts that are not 0, and emits them: as one where they fit a line.
#[inline(always)]
fn post<const IS_CHARGED: bool>(
    settlement: Settlement,
    quote: &mut Holding,
    base: &mut Holding,
    emit: &mut (impl Emit + ?Sized),
) {
    let Settlement { accounts: [buyer, seller], taker_is_buy, .. } = settlement;
    let Settlement { paid, freed, delivered, taker_fee, rebate, maker_fee, .. } = settlement;
    let [paid, freed, delivered, taker_fee, rebate, maker_fee] =
        [paid, freed, delivered, taker_fee, rebate, maker_fee].map(|amount| amount as i64);
    // Each party pays its fee in the asset that it receives; the rebate of the maker is in the asset that it gives.
    let [[quote_fee, quote_rebate], [base_fee, base_rebate]] = match (IS_CHARGED, taker_is_buy) {
        (false, _) => [[0; 2]; 2],
        (true, true) => [[maker_fee, 0], [taker_fee, rebate]],
        (true, false) => [[taker_fee, rebate], [maker_fee, 0]],
    };
    let in_quote = Dues { amount: paid, freed, fee: quote_fee, rebate: quote_rebate };
    let in_base = Dues { amount: delivered, freed: 0, fee: base_fee, rebate: base_rebate };
    let [buyer_in_quote, seller_in_quote, venue_in_quote] =
        quote.settle::<IS_CHARGED>([buyer, seller], &in_quote);
    let [seller_in_base, buyer_in_base, venue_in_base] =
        base.settle::<IS_CHARGED>([seller, buyer], &in_base);
    let versions = [
        [buyer_in_quote, seller_in_quote, venue_in_quote],
        [buyer_in_base, seller_in_base, venue_in_base],
    ];
    match TradeSettled::of(&Settlement { versions, ..settlement }) {
        Some(settled) => emit.emit_at_once(Outcome::Settled(settled)),
        None => emit_one_by_one(Settlement { versions, ..settlement }, emit),
    }
}

/// True if [`post`] may post the movements of a trade.
#[inline(always)]
fn are_posted_at_once(settlement: &Settlement) -> bool {
    let [buyer, seller] = settlement.accounts;
    let are_apart = buyer != seller && buyer != AccountId::VENUE && seller != AccountId::VENUE;
    are_apart && settlement.paid != 0 && settlement.delivered != 0 && settlement.is_small()
}

/// Emits a settlement that does not fit a line.
#[cold]
fn emit_one_by_one(settlement: Settlement, emit: &mut (impl Emit + ?Sized)) {
    settlement.each(&mut |event| emit.emit(event));
}

/// Posts the movements of a trade one by one.
fn post_one_by_one(
    settlement: &Settlement,
    quote: &mut Holding,
    base: &mut Holding,
    emit: &mut (impl Emit + ?Sized),
) {
    settlement.each_entry(&mut |entry| {
        let LedgerEntry { kind, from, to, order_id, trade_id, .. } = entry;
        let is_quote = entry.asset_id == quote.asset().asset_id;
        let holding = if is_quote { &mut *quote } else { &mut *base };
        let entry = holding.post(&Movement {
            kind,
            from: (from.account_id, from.bucket),
            to: (to.account_id, to.bucket),
            amount: entry.amount.get(),
            order_id,
            trade_id,
        });
        emit.emit(Event::Ledger(entry));
    });
    quote.check_conserved();
    base.check_conserved();
}

impl Money {
    /// Settles a trade: the buyer pays, the seller delivers, both pay their fees.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        met: &Match<'_>,
        trade_id: TradeId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let Some(&terms) = self.terms(met.taker.instrument_id) else { return };
        if self.has_fees && !terms.is_position() {
            self.settle_paid::<true>(&terms, met, trade_id, emit);
        } else {
            self.settle_paid::<false>(&terms, met, trade_id, emit);
        }
    }

    fn settle_paid<const IS_CHARGED: bool>(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if let Some(settlement) = self.settlement::<u64, IS_CHARGED>(terms, met, trade_id)
            && are_posted_at_once(&settlement)
        {
            self.take_lots(terms, met, settlement.paid);
            let [quote, base] = self.both(settlement.assets);
            return post::<IS_CHARGED>(settlement, quote, base, emit);
        }
        self.settle_one_by_one::<IS_CHARGED>(terms, met, trade_id, emit);
    }

    /// Settles a trade between an account and itself, with the venue, or of large amounts or for nothing.
    #[cold]
    #[inline(never)]
    fn settle_one_by_one<const IS_CHARGED: bool>(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let settlement = self.settlement::<u128, IS_CHARGED>(terms, met, trade_id);
        let settlement = settlement.expect("every allowed trade has a cost");
        self.take_lots(terms, met, settlement.paid);
        let [quote, base] = self.both(settlement.assets);
        post_one_by_one(&settlement, quote, base, emit);
    }

    /// The holdings of the two assets of a trade.
    #[inline(always)]
    fn both(&mut self, assets: [AssetId; 2]) -> [&mut Holding; 2] {
        let indexes = assets.map(|it| usize::from(it.0) - 1);
        self.holdings.get_disjoint_mut(indexes).expect("terms name two assets")
    }

    /// The movements of a trade, without the versions; `None` if they do not fit amounts of this width.
    #[inline(always)]
    fn settlement<N: AmountWidth, const IS_CHARGED: bool>(
        &self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
    ) -> Option<Settlement> {
        let Match { taker, maker, price, quantity, .. } = *met;
        let taker_is_buy = taker.side().is_buy();
        let (buyer, seller) = if taker_is_buy { (taker, maker) } else { (maker, taker) };
        let buyer_id = self.account_id(buyer.key.session_id);
        let seller_id = self.account_id(seller.key.session_id);
        let mut amounts = TradeAmounts::<N>::without_fees(&terms.0, price, quantity)?;
        if IS_CHARGED {
            let (taker_id, maker_id) =
                if taker_is_buy { (buyer_id, seller_id) } else { (seller_id, buyer_id) };
            let (of_taker, of_maker) = (self.fees_of(taker_id), self.fees_of(maker_id));
            amounts = amounts.with_fees(taker_is_buy, of_taker, of_maker);
        }
        let TradeAmounts { paid, delivered, taker_fee, rebate, maker_fee } = amounts;
        let is_exact = buyer.price() == price && terms.is_exact();
        let freed = if is_exact || Claim::from(buyer).is_market_buy() {
            N::default()
        } else {
            let leaves = buyer.leaves();
            let before = N::quote_amount(&terms.0, buyer.price(), Quantity(leaves.0 + quantity.0))?;
            let after = N::quote_amount(&terms.0, buyer.price(), leaves)?;
            let held = before - after;
            assert!(paid <= held, "no trade is beyond the buyer's limit");
            held - paid
        };
        Some(Settlement {
            trade_id,
            orders: [buyer.order_id(), seller.order_id()],
            accounts: [buyer_id, seller_id],
            assets: [terms.0.quote, terms.0.base],
            taker_is_buy,
            paid: paid.into(),
            freed: freed.into(),
            delivered: delivered.into(),
            taker_fee: taker_fee.into(),
            rebate: rebate.into(),
            maker_fee: maker_fee.into(),
            versions: [[0; 3]; 2],
        })
    }

    /// Subtracts the lots of a trade, and their cost, from the counts of the buyer's order outside its balance.
    #[inline(always)]
    fn take_lots(&mut self, terms: &Terms, met: &Match<'_>, paid: u128) {
        let buyer = if met.taker.side().is_buy() { met.taker } else { met.maker };
        let claim = Claim::from(buyer);
        let leaves_before = Quantity(buyer.leaves().0 + met.quantity.0);
        self.count_buying(terms, &claim, leaves_before, buyer.leaves());
        if claim.is_market_buy() {
            let left = self.market_reserved.checked_sub(paid);
            self.market_reserved = left.expect("the walk counted this trade");
        }
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
        AddAccount, AddAsset, AddInstrument, AddSession, AssetId, AssignSession, Bucket, Command,
        Deposit, EnterOrder, Event, Firm, Input, LedgerKind, MoneyClass, MoneyCommand, MoneyTerms,
        OrderId, OrderKey, OrderType, Price, Quantity, SelfMatchPrevention, SessionId, SetTerms,
        Side, SplitMix64, Symbol, SystemEvent, Text, TimeInForce, Timestamp, Units,
    };

    use super::*;
    use crate::Engine;

    /// Takes events, and counts those that came as one outcome.
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

    /// A settlement as one and leg by leg, in either width, gives the same entries and the same balances.
    #[test]
    fn both_ways_settle_alike() {
        let mut random = SplitMix64::new(3);
        for _ in 0..2_000 {
            let seed = random.next_u64();
            let settled = |at_once: bool, is_wide: bool| {
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
                    holding.check_conserved();
                    holding
                };
                let (mut quote, mut base) = (holding(1), holding(2));
                if is_wide {
                    [&mut quote, &mut base].into_iter().for_each(Holding::widen);
                }
                let mut amount = || u128::from((random.next_u64() % 50).saturating_sub(10));
                let [paid, freed, delivered, taker_fee, of_maker] = [(); 5].map(|()| amount());
                let [paid, delivered] = [paid, delivered].map(|amount| amount.max(1));
                // A maker has a rebate or a fee.
                let has_rebate = random.below(2) == 0;
                let is_charged = random.below(2) == 0;
                let charged = |amount| if is_charged { amount } else { 0 };
                let settlement = Settlement {
                    trade_id: TradeId(5),
                    orders: [OrderId(7), OrderId(9)],
                    accounts: [AccountId(1), AccountId(2)],
                    assets: [AssetId(1), AssetId(2)],
                    taker_is_buy: random.below(2) == 0,
                    paid,
                    freed,
                    delivered,
                    taker_fee: charged(taker_fee),
                    rebate: charged(if has_rebate { of_maker } else { 0 }),
                    maker_fee: charged(if has_rebate { 0 } else { of_maker }),
                    versions: [[0; 3]; 2],
                };
                let mut seen = Seen::default();
                let [quote_mut, base_mut] = [&mut quote, &mut base];
                match (at_once, is_charged) {
                    (false, _) => post_one_by_one(&settlement, quote_mut, base_mut, &mut seen),
                    (true, true) => post::<true>(settlement, quote_mut, base_mut, &mut seen),
                    (true, false) => post::<false>(settlement, quote_mut, base_mut, &mut seen),
                }
                assert_eq!(seen.lines, usize::from(at_once));
                [&quote, &base].into_iter().for_each(Holding::check);
                (seen.events, [quote, base].map(|it| it.balances().collect::<alloc::vec::Vec<_>>()))
            };
            let one_by_one = settled(false, false);
            assert_eq!(settled(true, false), one_by_one);
            assert_eq!(settled(true, true), one_by_one);
        }
    }

    /// A movement within a balance gives the same entry and balance in both ways and in both widths.
    #[test]
    fn both_ways_move_alike_within_a_balance() {
        let name = Text::new("ASSET").expect("five letters");
        let asset = market::Asset { asset_id: AssetId(1), name, decimals: 0 };
        let (account_id, order_id) = (AccountId(1), OrderId(7));
        let [mut one, mut narrow, mut wide] = [(); 3].map(|()| Holding::new(asset, 2));
        for holding in [&mut one, &mut narrow, &mut wide] {
            let (from, to) = ((account_id, Bucket::Outside), (account_id, Bucket::Available));
            let (kind, amount, trade_id) = (LedgerKind::Deposit, 1_000, TradeId(0));
            holding.post(&Movement { kind, from, to, amount, order_id, trade_id });
        }
        wide.widen();
        for (kind, amount) in
            [(LedgerKind::Reserve, 1_000), (LedgerKind::Release, 400), (LedgerKind::Reserve, 1)]
        {
            let [from, to] = kind.buckets_within().map(|bucket| (account_id, bucket));
            let trade_id = TradeId(0);
            let entry = one.post(&Movement { kind, from, to, amount, order_id, trade_id });
            for other in [&mut narrow, &mut wide] {
                assert_eq!(other.shift(account_id, kind, amount).entry(order_id), entry);
                assert!(other.balances().eq(one.balances()));
            }
        }
        assert_eq!([&one, &narrow, &wide].map(Holding::is_wide), [false, false, true]);
        [one, narrow, wide].iter().for_each(Holding::check);
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
        venue.engine.money.holdings[0].mint();
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
        venue.engine.money.holdings[0].mint();
        venue.money(MoneyCommand::Deposit(Deposit {
            account_id: AccountId(1),
            asset_id: AssetId(1),
            amount: Units::new(1_000),
        }));
    }
}
