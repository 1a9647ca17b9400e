//! Reads the commands of the scenario language; `scenario` describes them.

use market::{
    AccountId, AccountQuery, AddInstrument, AddSession, Allocation, BlockEntry, BustTrade,
    CancelOnDisconnect, CancelOrder, Capacity, ClientOrderId, Command, ConditionChanges,
    Conditions, ConfigureInstrument, CorrectTrade, CustomerType, Display, EnterOrder, EntrySwitch,
    Firm, Instructions, InstrumentChange, LiveOrdersMax, MassCancel, ModifyOrder, OperatorAction,
    OperatorCommand, OrderAttributes, OrderKey, Phase, Price, Pricing, Quantity, RejectOrder,
    RejectReason, RemoveInstrument, ReplaceOrder, ReplaceTerms, Scope, SelfMatchPrevention,
    SessionId, SetPhase, Side, Symbol, SystemEvent, Ticks, TimeInForce, TradeId, VenueCommand,
};

use super::{
    scenario::World,
    scenario_money,
    scenario_words::{
        DISPLAYS, LIVES, PEGS, Read, SIDES, Words, channel, exactly, named, text, unknown, value,
    },
};

/// The terms in the words after an order's price, for a new order or a replacement.
#[derive(Default)]
struct OrderWords {
    side: Option<Side>,
    symbol: Option<Symbol>,
    time_in_force: Option<TimeInForce>,
    display: Option<Display>,
    attributes: OrderAttributes,
    conditions: ConditionChanges,
    instructions: Option<Instructions>,
}

impl World {
    pub(super) fn command(&self, words: &mut Words<'_>) -> Read<Command> {
        Ok(match words.next()? {
            "day" => Command::System(named(SystemEvent::ALL, words.next()?)?),
            "time" => {
                words.next()?;
                Command::Time
            }
            "instrument" => {
                let symbol = words.text()?;
                let (price_increment, round_lot) = (Price(1), Quantity(1));
                let mut add = AddInstrument { symbol, price_increment, round_lot };
                while let Some(word) = words.more() {
                    match word {
                        "increment" => add.price_increment = Price(words.number()?),
                        "lot" => add.round_lot = Quantity(words.number()?),
                        _ => return Err(unknown(word)),
                    }
                }
                Command::AddInstrument(add)
            }
            "session" => {
                let mut add = AddSession {
                    username: words.text()?,
                    firm: Firm::BLANK,
                    live_orders_max: 1_000,
                    self_match_prevention: SelfMatchPrevention::Off,
                };
                while let Some(word) = words.more() {
                    match word {
                        "firm" => add.firm = words.text()?,
                        "prevent" => add.self_match_prevention = words.prevention()?,
                        "max" => add.live_orders_max = words.number()?,
                        _ => return Err(unknown(word)),
                    }
                }
                Command::AddSession(add)
            }
            word @ ("buy" | "sell" | "short" | "exempt") => {
                self.enter(value(SIDES, word)?, words)?
            }
            "replace" => self.replace(words)?,
            "cancel" => {
                let key = self.key(words.next()?)?;
                let lots = if words.skip("to") { words.number()? } else { 0 };
                Command::Cancel(CancelOrder { key, quantity: Quantity(lots) })
            }
            "modify" => {
                let (key, side) = (self.key(words.next()?)?, words.side()?);
                words.expect("to")?;
                Command::Modify(ModifyOrder { key, side, quantity: Quantity(words.number()?) })
            }
            "mass-cancel" => {
                let (key, firm) = (self.key(words.next()?)?, words.text()?);
                let scope = self.scope(words)?;
                let Scope { symbol, side, group_id, .. } = scope;
                if scope != (Scope { symbol, side, group_id, ..Scope::ALL }) {
                    return Err("a mass cancel names symbol, side and group only".into());
                }
                Command::MassCancel(MassCancel { key, firm, symbol, side, group_id })
            }
            word @ ("enable" | "disable") => Command::SwitchEntry(EntrySwitch {
                key: self.key(words.next()?)?,
                firm: words.text()?,
                enabled: word == "enable",
            }),
            "cut-off" => {
                let session_id = self.session(words.next()?);
                Command::CancelOnDisconnect(CancelOnDisconnect { session_id })
            }
            "query" => {
                let (session, channel) = channel(words.next()?)?;
                Command::QueryAccount(AccountQuery { session_id: self.session(session), channel })
            }
            "by" => {
                let (operator, number) = (words.text()?, words.number()?);
                let action = match self.command(words)? {
                    Command::Venue(command) => OperatorAction::Venue(command),
                    Command::Money(command) => OperatorAction::Money(command),
                    _ => return Err("an operator gives no such command".into()),
                };
                Command::Operate(OperatorCommand { operator, number, action })
            }
            "reject" => {
                let key = self.key(words.next()?)?;
                let reason = exactly(RejectReason::ALL, words.next()?)?;
                let client = words.skip("client");
                let client_order_id = if client { words.text()? } else { ClientOrderId::BLANK };
                Command::Reject(RejectOrder { key, client_order_id, reason })
            }
            verb => match self.venue_command(verb, words)? {
                Some(command) => Command::Venue(command),
                None => {
                    let session = |name: &str| self.session(name);
                    scenario_money::command(self.engine(), session, verb, words)?
                }
            },
        })
    }

    /// A command of the venue; `None` for the verb of another kind of command.
    fn venue_command(&self, verb: &str, words: &mut Words<'_>) -> Read<Option<VenueCommand>> {
        Ok(Some(match verb {
            "phase" => {
                let symbol = if words.skip("all") { Symbol::BLANK } else { words.text()? };
                let mut set = SetPhase::new(symbol, named(Phase::ALL, words.next()?)?);
                while let Some(word) = words.more() {
                    match word {
                        "reason" => set.reason = words.text()?,
                        "release" => set.release_s = words.number()?,
                        _ => return Err(unknown(word)),
                    }
                }
                VenueCommand::SetPhase(set)
            }
            "configure" => {
                let symbol = words.text()?;
                let change = change(words.next()?, words)?;
                VenueCommand::ConfigureInstrument(ConfigureInstrument { symbol, change })
            }
            "remove" => VenueCommand::RemoveInstrument(RemoveInstrument { symbol: words.text()? }),
            "supervise" => VenueCommand::SupervisoryCancel(self.scope(words)?),
            "block" | "unblock" => {
                let (scope, blocked) = (self.scope(words)?, verb == "block");
                VenueCommand::BlockEntry(BlockEntry { scope, blocked })
            }
            "kill" | "revive" => {
                let (scope, blocked) = (self.scope(words)?, verb == "kill");
                VenueCommand::KillSwitch(BlockEntry { scope, blocked })
            }
            "live-orders" => {
                let session_id = self.session(words.next()?);
                let live_orders_max = words.number()?;
                VenueCommand::SetLiveOrdersMax(LiveOrdersMax { session_id, live_orders_max })
            }
            "log-out" => VenueCommand::LogOut(self.session(words.next()?)),
            "bust" => {
                let trade_id = TradeId(words.number()?);
                VenueCommand::BustTrade(BustTrade { trade_id, reason: words.bust_reason()? })
            }
            "correct" => {
                let trade_id = TradeId(words.number()?);
                let quantity = Quantity(words.number()?);
                let (_, price) = words.price()?;
                let reason = words.bust_reason()?;
                VenueCommand::CorrectTrade(CorrectTrade { trade_id, price, quantity, reason })
            }
            _ => return Ok(None),
        }))
    }

    fn enter(&self, side: Side, words: &mut Words<'_>) -> Read<Command> {
        let key = self.key(words.next()?)?;
        let quantity = Quantity(words.number()?);
        let (order_type, price) = words.price()?;
        let order = self.order_words(words)?;
        if order.side.is_some() {
            return Err(unknown("side"));
        }
        Ok(Command::Enter(EnterOrder {
            key,
            side,
            order_type,
            time_in_force: order.time_in_force.unwrap_or(TimeInForce::Day),
            display: order.display.unwrap_or(Display::Visible),
            quantity,
            price,
            symbol: order.symbol.map_or_else(|| text("AAPL"), Ok)?,
            attributes: order.attributes,
            conditions: order.conditions.apply(Conditions::NONE),
            instructions: order.instructions.unwrap_or(Instructions::NONE),
        }))
    }

    fn replace(&self, words: &mut Words<'_>) -> Read<Command> {
        let original_user_ref_num = self.key(words.next()?)?.user_ref_num;
        words.expect("by")?;
        let key = self.key(words.next()?)?;
        if words.skip("unreadable") {
            let terms = None;
            return Ok(Command::Replace(ReplaceOrder { original_user_ref_num, key, terms }));
        }
        let quantity = Quantity(words.number()?);
        let (order_type, price) = words.price()?;
        let order = self.order_words(words)?;
        let OrderAttributes { client_order_id, shares_located, locate_broker, .. } =
            order.attributes;
        let named = OrderAttributes {
            client_order_id,
            shares_located,
            locate_broker,
            ..Default::default()
        };
        if order.symbol.is_some() || order.attributes != named {
            return Err("a replacement keeps symbol, firm, group, capacity and customer".into());
        }
        let terms = Some(ReplaceTerms {
            side: order.side,
            order_type,
            time_in_force: order.time_in_force.unwrap_or(TimeInForce::Day),
            display: order.display.unwrap_or(Display::Visible),
            quantity,
            price,
            client_order_id,
            shares_located,
            locate_broker,
            conditions: order.conditions,
            instructions: order.instructions,
        });
        Ok(Command::Replace(ReplaceOrder { original_user_ref_num, key, terms }))
    }

    fn order_words(&self, words: &mut Words<'_>) -> Read<OrderWords> {
        let mut order = OrderWords::default();
        while let Some(word) = words.more() {
            match word {
                "of" => order.symbol = Some(words.text()?),
                "side" => order.side = Some(words.side()?),
                "firm" => order.attributes.firm = words.text()?,
                "group" => order.attributes.group_id = words.number()?,
                "client" => order.attributes.client_order_id = words.text()?,
                "capacity" => {
                    order.attributes.capacity = words.letter(Capacity::from_code, "a capacity")?;
                }
                "retail" => order.attributes.customer_type = CustomerType::Retail,
                "located" => order.attributes.shares_located = true,
                "broker" => order.attributes.locate_broker = words.text()?,
                "prevent" => order.conditions.self_match_prevention = Some(words.prevention()?),
                "among" => order.conditions.self_match_group = Some(words.text()?),
                "post-only" => order.conditions.post_only = Some(true),
                "not-post-only" => order.conditions.post_only = Some(false),
                "minimum" => order.conditions.minimum_quantity = Some(words.lots()?),
                "until" => {
                    order.time_in_force = Some(TimeInForce::GoodTillTime);
                    order.instructions.get_or_insert_default().expires_s = words.number()?;
                }
                word => {
                    if let Ok(time_in_force) = value(LIVES, word) {
                        order.time_in_force = Some(time_in_force);
                    } else if let Ok(display) = value(DISPLAYS, word) {
                        order.display = Some(display);
                    } else {
                        self.instruct(order.instructions.get_or_insert_default(), word, words)?;
                    }
                }
            }
        }
        Ok(order)
    }

    /// Reads a word of the instructions of an order.
    fn instruct(
        &self,
        instructions: &mut Instructions,
        word: &str,
        words: &mut Words<'_>,
    ) -> Read<()> {
        match word {
            "without-instructions" => {}
            "all-or-none" => {
                instructions.handling = instructions.handling.with_all_or_none();
            }
            "slide" => instructions.handling = instructions.handling.with_slide(),
            "show" => instructions.shown_quantity = words.lots()?,
            "range" => instructions.shown_range = words.number()?,
            "stop" | "touch" => {
                instructions.pricing =
                    if word == "stop" { Pricing::Stop } else { Pricing::TakeProfit };
                instructions.trigger = Ticks(words.number()?);
            }
            "trail" => {
                instructions.pricing = Pricing::TrailingStop;
                instructions.offset = words.number()?;
            }
            "peg" => instructions.pricing = value(PEGS, words.next()?)?,
            "offset" => instructions.offset = words.parse("ticks, up or down")?,
            "after" => instructions.parent = self.key(words.next()?)?.user_ref_num,
            "or" => instructions.partner = self.key(words.next()?)?.user_ref_num,
            _ => return Err(unknown(word)),
        }
        Ok(())
    }

    fn scope(&self, words: &mut Words<'_>) -> Read<Scope> {
        let mut scope = Scope::ALL;
        while let Some(word) = words.more() {
            match word {
                "session" => scope.session_id = self.session(words.next()?),
                "firm" => scope.firm = words.text()?,
                "of" => scope.symbol = words.text()?,
                "side" => scope.side = Some(words.side()?),
                "group" => scope.group_id = Some(words.number()?),
                "account" => {
                    let known = self.engine().account_named(&words.text()?);
                    // An unknown name gives an id that no account has.
                    scope.account_id = known.map_or(AccountId(60_000), |known| known.account_id);
                }
                _ => return Err(unknown(word)),
            }
        }
        Ok(scope)
    }

    /// Reads the key of a request: `A1` or `A/3:7`.
    pub(super) fn key(&self, word: &str) -> Read<OrderKey> {
        let wrong = || format!("{word:?} is not a request like A1 or A/3:7");
        let (place, number) = match word.split_once(':') {
            Some(parts) => parts,
            None => word.split_at(word.find(|it: char| it.is_ascii_digit()).ok_or_else(wrong)?),
        };
        let (session, channel) = channel(place)?;
        let user_ref_num = number.parse().map_err(|_| wrong())?;
        Ok(OrderKey { session_id: self.session(session), channel, user_ref_num })
    }

    /// The id of a session by name. An unknown name gives an id that no session has.
    fn session(&self, name: &str) -> SessionId {
        self.sessions.get(name).copied().unwrap_or(SessionId(65_535))
    }
}

fn change(property: &str, words: &mut Words<'_>) -> Read<InstrumentChange> {
    Ok(match property {
        "increment" => InstrumentChange::PriceIncrement(Price(words.number()?)),
        "lot" => InstrumentChange::RoundLot(Quantity(words.number()?)),
        "reference" => InstrumentChange::ReferencePrice(Price(words.number()?)),
        "static-band" => InstrumentChange::StaticBand(words.number()?),
        "dynamic-band" => InstrumentChange::DynamicBand(words.number()?),
        "pause" => InstrumentChange::PauseSeconds(words.number()?),
        "collar" => InstrumentChange::PriceCollar(words.number()?),
        "quantity-max" => InstrumentChange::QuantityMax(Quantity(words.number()?)),
        "notional-max" => InstrumentChange::NotionalMax(words.number()?),
        "pro-rata" => match words.number::<u8>()? {
            0 => InstrumentChange::Allocation(Allocation::PriceTime),
            1 => InstrumentChange::Allocation(Allocation::ProRata),
            other => return Err(format!("found {other}, expected 0 or 1")),
        },
        "time-share" => InstrumentChange::TimeShare(words.number()?),
        "pegs-max" => InstrumentChange::PegsMax(words.number()?),
        "session-pegs-max" => InstrumentChange::SessionPegsMax(words.number()?),
        _ => return Err(unknown(property)),
    })
}
