//! Requests that a careful participant would not make: repetitions, stale numbers, other participants'
//! orders, invalid prices and quantities.

use market::{
    AddInstrument, AddSession, CancelOnDisconnect, ClientOrderId, Command, EnterOrder, EntrySwitch,
    ModifyOrder, OrderKey, Price, Quantity, RejectOrder, RejectReason, SelfMatchPrevention,
    SessionId, Side, Symbol, SystemEvent, Text, TimeInForce,
};

use super::{CommandFlow, LiveOrder, PRICE_MAX, QUANTITY_MAX, cancel, replace, symbol, text};
use crate::rng::Rng;

impl CommandFlow {
    /// A request that a careful participant would not make.
    pub(super) fn odd(&mut self) -> Command {
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

    /// A new order with a change.
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

    /// An order that fills all there is.
    fn enter_largest(&mut self) -> Command {
        let most = self.profile.quantity_max();
        self.enter_with(|_, order| {
            order.quantity = Quantity(most);
            order.time_in_force = TimeInForce::ImmediateOrCancel;
        })
    }

    fn after_a_gap(&mut self) -> Command {
        let key = self.any_next_key();
        let gap = match self.rng.below(100) {
            // A channel that the session uses for nothing else, so that using up its last number ends nothing else.
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

    fn replace_badly(&mut self) -> Command {
        let Some(order) = self.take_live() else { return self.refuse() };
        let key = self.next_key_of(order.key.session_id, order.key.channel);
        let mut terms = self.terms(order);
        match self.rng.below(5) {
            0 => return replace(order.key, key, None),
            1 => terms.quantity = odd_quantity(&mut self.rng),
            2 => terms.price = odd_price(&mut self.rng, Price(terms.price.0 + 1)),
            3 => terms.side = Some(*self.rng.pick(Side::ALL)),
            // If the chain has traded, often less than it has executed.
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

    fn modify_oddly(&mut self) -> Command {
        let Some(order) = self.any_live() else { return self.refuse() };
        let side = *self.rng.pick(Side::ALL);
        let quantity = *self.rng.pick(&[0, 1, QUANTITY_MAX, u64::MAX]);
        Command::Modify(ModifyOrder { key: order.key, side, quantity: Quantity(quantity) })
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

    fn switch_oddly(&mut self) -> Command {
        let key = self.any_next_key();
        let (firm, enabled) = match self.rng.below(4) {
            0 => (self.firm(), true),
            // One of a set of firms larger than a session may forbid at a time.
            _ => (text(&format!("X{:03}", self.rng.below(1_000))), self.rng.chance(1, 8)),
        };
        Command::SwitchEntry(EntrySwitch { key, firm, enabled })
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

    /// A request about an order that does not exist, or belongs to another participant.
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
            // Instruments, some of them valid, that no later command uses.
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

    /// The start of a part of the day that has begun already.
    fn day_again(&mut self) -> Command {
        let begun = [
            SystemEvent::StartOfMessages,
            SystemEvent::StartOfSystemHours,
            SystemEvent::StartOfMarketHours,
        ];
        Command::System(*self.rng.pick(&begun))
    }
}

fn odd_quantity(rng: &mut Rng) -> Quantity {
    Quantity(*rng.pick(&[0, QUANTITY_MAX, QUANTITY_MAX + 1, 1 << 32, 1 << 48, u64::MAX]))
}

fn odd_price(rng: &mut Rng, near: Price) -> Price {
    *rng.pick(&[Price::ZERO, near, Price(PRICE_MAX), Price(PRICE_MAX + 1), Price(u64::MAX)])
}
