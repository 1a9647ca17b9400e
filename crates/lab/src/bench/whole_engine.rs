//! The core as a venue runs it: sessions, order numbers, every event into an outbox.
//! Only the protocols, the rings and the journal are left out.
//!
//! Invariant: no order of a flow is rejected, for lack of funds neither.

use crate::comparison::{ComparisonFlow, FlowOperation, OperationKind};
use engine::{Engine, LOOK_AHEAD_FROM};
use market::{
    AccountId, AddAccount, AddAsset, AssetId, AssignSession, CancelOrder, Command, Deposit,
    EnterOrder, Event, Input, MoneyClass, MoneyCommand, MoneyEvent, MoneyTerms, OrderKey,
    OutputLine, Price, Quantity, Sequence, SessionId, SetFees, SetTerms, Symbol, Text, TimeInForce,
    Timestamp, Units,
};

use super::{BenchTrade, Contender, Outbox, market_set_up, matching::ORDERS_EXPECTED};

/// An opening balance that no account can spend, in units.
const ENOUGH: u128 = 1 << 50;

/// The engine of the venue, a session for each user of the flow; `MONEY` adds an account and sufficient
/// balances for each user, cash terms for each instrument, and fees: each order reserves funds, each
/// trade settles and charges both sides, each cancel releases, and every movement is an event.
///
/// A replace is a cancel and a new order, as the flow defines it. The order numbers of a session rise
/// by one with each order it enters.
#[derive(Debug)]
pub struct WholeEngine<const MONEY: bool> {
    engine: Engine,
    outbox: Vec<OutputLine>,
    sequence: Sequence,
    symbols: Vec<Symbol>,
    /// By user: the last order number used.
    numbers: Vec<u32>,
    /// By the flow's order id: the order number of its last entry.
    keys: Vec<u32>,
    /// By the core's order id: the flow's order id.
    flow_order_ids: Vec<u64>,
}

impl<const MONEY: bool> WholeEngine<MONEY> {
    fn input(&mut self, command: Command) -> Input {
        self.sequence = self.sequence.next();
        Input { sequence: self.sequence, timestamp: Timestamp(self.sequence.0), command }
    }

    pub(super) fn add(&mut self, command: Command) {
        let input = self.input(command);
        self.engine.apply(&input, &mut |event| {
            assert!(!matches!(event, Event::Money(MoneyEvent::Declined(_))), "{event:?}");
        });
    }

    fn add_money(&mut self, command: MoneyCommand) {
        self.add(Command::Money(command));
    }

    fn set_up_money(&mut self, flow: &ComparisonFlow) {
        let quote = AssetId(1);
        let base = |symbol: u16| AssetId(symbol + 2);
        self.add_money(MoneyCommand::AddAsset(AddAsset { name: name("USD"), decimals: 4 }));
        for symbol in 0..flow.symbols {
            let name = name(&format!("B{symbol}"));
            self.add_money(MoneyCommand::AddAsset(AddAsset { name, decimals: 0 }));
        }
        for tier in 0..16 {
            let fees = SetFees { tier, maker_ppm: 100, taker_ppm: 250 };
            self.add_money(MoneyCommand::SetFees(fees));
        }
        for (number, symbol) in (0..).zip(self.symbols.clone()) {
            let terms = MoneyTerms {
                class: MoneyClass::Cash,
                base: base(number),
                quote,
                base_units: 1_000_000,
                quote_numerator: 1,
                quote_denominator: 1,
                quantity_max: Quantity(999_999),
            };
            self.add_money(MoneyCommand::SetTerms(SetTerms { symbol, terms }));
        }
        for user in 1..=flow.users {
            let account_id = AccountId(user);
            let session_id = SessionId(user as u16);
            self.add_money(MoneyCommand::AddAccount(AddAccount {
                name: name(&format!("P{user}")),
            }));
            self.add_money(MoneyCommand::AssignSession(AssignSession { session_id, account_id }));
            for asset_id in [quote].into_iter().chain((0..flow.symbols).map(base)) {
                let amount = Units::new(ENOUGH);
                self.add_money(MoneyCommand::Deposit(Deposit { account_id, asset_id, amount }));
            }
        }
    }

    fn key(&self, operation: &FlowOperation) -> OrderKey {
        OrderKey {
            session_id: SessionId(operation.user as u16 + 1),
            channel: 0,
            user_ref_num: self.keys[operation.order_id as usize],
        }
    }
}

impl<const MONEY: bool> Contender for WholeEngine<MONEY> {
    type Step = Input;

    const NAME: &'static str = if MONEY { "engine-balances" } else { "engine" };

    fn new(flow: &ComparisonFlow) -> Self {
        let mut engine = Engine::new();
        engine.reserve_memory(ORDERS_EXPECTED);
        let mut core = Self {
            engine,
            outbox: Vec::with_capacity(1 << 16),
            sequence: Sequence::NONE,
            symbols: (0..flow.symbols)
                .map(|number| Symbol::new(&format!("WLF{number:05}")).expect("eight characters"))
                .collect(),
            numbers: vec![0; flow.users as usize],
            keys: vec![0; flow.order_id_max as usize + 1],
            flow_order_ids: vec![0],
        };
        for command in market_set_up(&core.symbols.clone(), (Price(1), Quantity(1)), flow.users) {
            core.add(command);
        }
        if MONEY {
            core.set_up_money(flow);
        }
        core
    }

    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Input>) {
        if matches!(operation.kind, OperationKind::Cancel | OperationKind::Replace) {
            let cancel = CancelOrder { key: self.key(operation), quantity: Quantity::ZERO };
            steps.push(self.input(Command::Cancel(cancel)));
        }
        if operation.kind == OperationKind::Cancel {
            return;
        }
        let number = &mut self.numbers[operation.user as usize];
        *number += 1;
        self.keys[operation.order_id as usize] = *number;
        self.flow_order_ids.push(operation.order_id);
        let symbol = self.symbols[usize::from(operation.symbol)];
        let quantity = Quantity(operation.quantity.into());
        let price = Price(operation.price.cast_unsigned());
        let key = self.key(operation);
        let mut enter = EnterOrder::limit(key, operation.side, symbol, quantity, price);
        if operation.kind == OperationKind::NewImmediateOrCancel {
            enter.time_in_force = TimeInForce::ImmediateOrCancel;
        }
        steps.push(self.input(Command::Enter(enter)));
    }

    fn apply(&mut self, input: &Input, trades: &mut Vec<BenchTrade>) {
        let Self { engine, outbox, .. } = self;
        outbox.clear();
        let on_event = |event: &Event| take_event(event, trades);
        engine.apply_to(input, &mut Outbox::new(outbox, input, on_event));
    }

    fn apply_batch(&mut self, inputs: &[Input], trades: &mut Vec<BenchTrade>) {
        let Self { engine, outbox, .. } = self;
        let mut batch = engine.batch(inputs, LOOK_AHEAD_FROM, ring::fetch);
        while let Some(next) = batch.next_input() {
            outbox.clear();
            let input = next.input();
            next.apply_to(&mut Outbox::new(outbox, input, |event| take_event(event, trades)));
        }
    }

    fn flow_order_id(&self, order_id: u64) -> u64 {
        self.flow_order_ids[order_id as usize]
    }
}

/// Keeps a trade.
#[inline(always)]
fn take_event(event: &Event, trades: &mut Vec<BenchTrade>) {
    if let Event::Traded(traded) = event {
        trades.push(BenchTrade {
            maker: traded.maker.order_id.0,
            taker: traded.taker.order_id.0,
            quantity: traded.quantity.0 as u32,
            price: traded.price.0 as u32,
        });
    }
    assert!(!matches!(event, Event::Rejected(_)), "a flow without rejects");
}

fn name(text: &str) -> Text<8> {
    Text::new(text).expect("short and printable")
}
