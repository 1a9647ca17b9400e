//! Crate `melin-exchange-core`: levels in sorted vectors, orders in slabs found by a hash of account and
//! id. Its book alone, and its exchange, in which each user has an account with balances. Its licence
//! allows only non-production use; hence the feature.

use std::num::NonZeroU64;

use lab::bench::{BenchTrade, Contender};
use lab::comparison::{ComparisonFlow, FlowOperation, OperationKind};
use melin_exchange_core::{
    exchange::Exchange,
    orderbook::OrderBook,
    types::{
        AccountId, CurrencyId, ExecutionReport, InstrumentSpec, Order, OrderId, OrderType, Price,
        Quantity, ReservationSlot, SelfTradeProtection, Side, Symbol, TimeInForce,
    },
};

/// One book for each symbol.
pub struct MelinBooks {
    books: Vec<OrderBook>,
    reports: Vec<ExecutionReport>,
}

/// One call of a book.
pub enum Step {
    Execute(u16, Order),
    Cancel(u16, AccountId, OrderId),
}

impl Contender for MelinBooks {
    type Step = Step;

    const NAME: &'static str = "melin 0.15.0, book";

    fn new(flow: &ComparisonFlow) -> Self {
        let book = |number| {
            let mut book = OrderBook::with_capacity(Symbol(number));
            book.prefault();
            book
        };
        Self {
            books: (0..flow.symbols.into()).map(book).collect(),
            reports: Vec::with_capacity(64),
        }
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Self::Step>) {
        add_steps(operation, steps);
    }

    fn apply(&mut self, step: &Self::Step, trades: &mut Vec<BenchTrade>) {
        self.reports.clear();
        match *step {
            Step::Execute(symbol, order) => {
                let book = &mut self.books[usize::from(symbol)];
                book.execute(order, None, ReservationSlot::DUMMY, &mut self.reports);
            }
            Step::Cancel(symbol, account, order_id) => {
                self.books[usize::from(symbol)].cancel(account, order_id, &mut self.reports);
            }
        }
        tell(&self.reports, trades);
    }
}

/// An exchange with an instrument for each symbol, an account for each user, and more of every currency than a user
/// can spend.
pub struct MelinExchange {
    exchange: Exchange,
    reports: Vec<ExecutionReport>,
}

/// The currency that pays for the instruments; each instrument is itself a currency.
const QUOTE: CurrencyId = CurrencyId(0);

/// The balance of each account in each currency.
const PLENTY: u64 = 1 << 50;

impl Contender for MelinExchange {
    type Step = Step;

    const NAME: &'static str = "melin 0.15.0, exchange";

    fn new(flow: &ComparisonFlow) -> Self {
        let mut exchange = Exchange::new();
        exchange.set_max_open_orders_per_account(0);
        for number in 0..flow.symbols.into() {
            let base = CurrencyId(number + 1);
            exchange.add_instrument(InstrumentSpec { symbol: Symbol(number), base, quote: QUOTE });
        }
        for user in 0..flow.users {
            exchange.deposit(AccountId(user), QUOTE, PLENTY);
            for number in 0..flow.symbols.into() {
                exchange.deposit(AccountId(user), CurrencyId(number + 1), PLENTY);
            }
        }
        Self { exchange, reports: Vec::with_capacity(64) }
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Self::Step>) {
        add_steps(operation, steps);
    }

    fn apply(&mut self, step: &Self::Step, trades: &mut Vec<BenchTrade>) {
        let Self { exchange, reports } = self;
        reports.clear();
        match *step {
            Step::Execute(symbol, order) => {
                exchange.execute(Symbol(symbol.into()), order, reports);
            }
            Step::Cancel(symbol, account, order_id) => {
                exchange.cancel(Symbol(symbol.into()), account, order_id, reports);
            }
        }
        tell(reports, trades);
    }
}

fn add_steps(operation: &FlowOperation, steps: &mut Vec<Step>) {
    let FlowOperation { symbol, user, .. } = *operation;
    let order = |time_in_force| {
        let price = NonZeroU64::new(operation.price.cast_unsigned()).expect("prices are above 0");
        let quantity = NonZeroU64::new(operation.quantity.into()).expect("orders ask for lots");
        let order = Order {
            id: OrderId(operation.order_id),
            account: AccountId(user),
            side: if operation.side.is_buy() { Side::Buy } else { Side::Sell },
            order_type: OrderType::Limit { price: Price(price), post_only: false },
            time_in_force,
            quantity: Quantity(quantity),
            stp: SelfTradeProtection::Allow,
            expiry_ns: 0,
        };
        Step::Execute(symbol, order)
    };
    let cancel = Step::Cancel(symbol, AccountId(user), OrderId(operation.order_id));
    match operation.kind {
        OperationKind::New => steps.push(order(TimeInForce::GTC)),
        OperationKind::Cancel => steps.push(cancel),
        OperationKind::Replace => steps.extend([cancel, order(TimeInForce::GTC)]),
        OperationKind::NewImmediateOrCancel => steps.push(order(TimeInForce::IOC)),
    }
}

fn tell(reports: &[ExecutionReport], trades: &mut Vec<BenchTrade>) {
    for report in reports {
        if let ExecutionReport::Fill { maker_order_id, taker_order_id, price, quantity, .. } =
            *report
        {
            trades.push(BenchTrade {
                maker: maker_order_id.0,
                taker: taker_order_id.0,
                quantity: quantity.get() as u32,
                price: price.get() as u32,
            });
        }
    }
}
