//! The core as a venue runs it: sessions, order numbers, every event into an outbox, the state hash.
//! Only the protocols, the rings and the journal are left out.

use crate::comparison::{Flow, Operation, OperationKind};
use engine::{Emit, Engine};
use market::{
    AddInstrument, AddSession, CancelOrder, Command, EnterOrder, Event, Firm, Input, MoneyEvent,
    OrderKey, Output, Price, Quantity, SelfMatchPrevention, Sequence, SessionId, Symbol,
    SystemEvent, Text, TimeInForce, Timestamp,
};

use super::{Contender, Trade, matching::ORDERS_EXPECTED};

/// The engine of the venue, a session for each user of the flow.
///
/// A replace is a cancel and a new order, as the flow defines it. The order numbers of a session rise
/// by one with each order it enters.
#[derive(Debug)]
pub struct Core {
    engine: Engine,
    outbox: Vec<Output>,
    sequence: Sequence,
    symbols: Vec<Symbol>,
    /// By user: the last order number used.
    numbers: Vec<u32>,
    /// By the flow's order id: the order number of its last entry.
    keys: Vec<u32>,
    /// By the core's order id: the flow's order id.
    flow_order_ids: Vec<u64>,
}

impl Core {
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

    pub(super) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    fn key(&self, operation: &Operation) -> OrderKey {
        OrderKey {
            session_id: SessionId(operation.user as u16 + 1),
            channel: 0,
            user_ref_num: self.keys[operation.order_id as usize],
        }
    }
}

impl Contender for Core {
    type Step = Input;

    const NAME: &'static str = "engine";

    fn new(flow: &Flow) -> Self {
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
        let instruments: Vec<_> = core
            .symbols
            .iter()
            .map(|symbol| {
                Command::AddInstrument(AddInstrument {
                    symbol: *symbol,
                    price_increment: Price(1),
                    round_lot: Quantity(1),
                })
            })
            .collect();
        let sessions = (0..flow.users).map(|user| {
            Command::AddSession(AddSession {
                username: Text::new(&format!("U{user:05}")).expect("six characters"),
                firm: Firm::new("WLFA").expect("four characters"),
                live_orders_max: u32::MAX,
                self_match_prevention: SelfMatchPrevention::Off,
            })
        });
        let day = [SystemEvent::StartOfMessages, SystemEvent::StartOfSystemHours];
        let day = day.into_iter().map(Command::System);
        for command in day.chain(instruments).chain(sessions) {
            core.add(command);
        }
        core
    }

    fn steps(&mut self, operation: &Operation, steps: &mut Vec<Input>) {
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

    fn prefetch(&self, inputs: &[Input]) {
        self.engine.prefetch(inputs, ring::fetch);
    }

    fn apply(&mut self, input: &Input, trades: &mut Vec<Trade>) {
        let Self { engine, outbox, .. } = self;
        let (cause, timestamp) = (input.sequence, input.timestamp);
        outbox.clear();
        engine.apply_to(input, &mut Kept { outbox, trades, cause, timestamp });
    }

    fn flow_order_id(&self, order_id: u64) -> u64 {
        self.flow_order_ids[order_id as usize]
    }
}

struct Kept<'a> {
    outbox: &'a mut Vec<Output>,
    trades: &'a mut Vec<Trade>,
    cause: Sequence,
    timestamp: Timestamp,
}

impl Emit for Kept<'_> {
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        let Self { cause, timestamp, .. } = *self;
        if let Event::Traded(traded) = &event {
            self.trades.push(Trade {
                maker: traded.maker.order_id.0,
                taker: traded.taker.order_id.0,
                quantity: traded.quantity.0 as u32,
                price: traded.price.0 as u32,
            });
        }
        assert!(!matches!(event, Event::Rejected(_)), "a flow without rejects");
        self.outbox.push(Output { cause, timestamp, event });
    }
}
