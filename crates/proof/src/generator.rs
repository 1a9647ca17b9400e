//! Random commands: an endless stream from a seed.
//!
//! Start at [`CommandFlow`]. It estimates which orders are live, so that most requests make sense. Some
//! requests are wrong on purpose: repetitions, stale numbers, other participants' orders, invalid prices
//! and quantities. It never looks at an answer, so the same seed and profile give the same commands
//! whatever the answers are.

mod orders;
mod odd;
mod venue;
mod money;

use std::collections::VecDeque;

use market::{
    AccountQuery, AddInstrument, AddSession, CancelOnDisconnect, CancelOrder, Command, EntrySwitch,
    Firm, MassCancel, ModifyOrder, MoneyCommand, MoneyTerms, Note, OperatorAction, OperatorCommand,
    OrderKey, Price, Quantity, RejectOrder, RejectReason, ReplaceOrder, ReplaceTerms, Scope,
    SelfMatchPrevention, SessionId, SetTerms, Side, Symbol, SystemEvent, Text,
};

use crate::rng::Rng;

/// The highest limit price there is, in ticks.
const PRICE_MAX: u64 = 1_999_999_900;

/// The largest quantity there is, in lots.
const QUANTITY_MAX: u64 = 999_999;

/// The largest quantity that terms may allow, in lots.
const QUANTITY_LIMIT: u64 = (1 << 48) - 1;

/// The number of latest commands from which repetitions are drawn.
const RECENT_LEN: usize = 16;

/// The number of commands between the close and the end of messages.
const LATE_LEN: u64 = 1_000;

/// The kind of market.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Sessions, from 1. They are named `USER01`, `USER02` and so on.
    pub sessions: u16,
    /// Instruments, from 1. The first are named `AAPL`, `MSFT` and `NVDA`, the others `S0004` on.
    pub instruments: u16,
    /// Channels that each session uses, from 1: 0, 1 and so on.
    pub channels: u8,
    pub firm: Firm,
    /// The orders in a hundred that name conditions.
    pub conditions_percent: u64,
    /// The orders in a hundred with a type, a time in force or instructions that OUCH cannot
    /// express.
    pub beyond_ouch_percent: u64,
    /// The orders in a hundred that wait for a trigger or are linked to another order.
    pub waits_percent: u64,
    /// The orders in a hundred that follow the market.
    pub pegs_percent: u64,
    /// The orders in a hundred that wait until they can trade enough at once, or slide.
    pub minimum_percent: u64,
    /// The limit orders in a hundred that are good till a time.
    pub good_till_time_percent: u64,
    /// The start of the stream, in seconds since the epoch, from which expiry times are computed.
    pub starts_s: u32,
    /// The approximate number of commands a second, from 1.
    pub commands_per_second: u64,
    /// The self-match preventions of the sessions, in sequence and from the front again.
    pub self_match_preventions: Vec<SelfMatchPrevention>,
    /// The most live orders of each session.
    pub live_orders_max: u32,
    /// Price increment of every instrument, in ticks.
    pub price_increment: Price,
    /// The initial middle of each market, in price increments.
    pub mid: u64,
    /// The distance from the middle within which most orders are, in price increments, from 1.
    pub spread: u64,
    /// The limit orders in a thousand that are anywhere in the price range.
    pub far_per_mille: u64,
    /// The orders in a million before which the middle jumps to another price.
    pub jumps_per_million: u64,
    /// The approximate number of orders assumed to be live, in all books. The books hold fewer, because
    /// some of these are filled.
    pub live_orders: usize,
    /// The requests in a hundred that a careful participant would not make.
    pub odd_percent: u64,
    /// The number of commands, the setup's included, after which the day ends; later commands find the
    /// market closed. `None` for never.
    pub closes_after: Option<u64>,
    /// The requests in a thousand that are the venue's own; if not 0, some orders are for one auction
    /// only.
    pub venue_per_mille: u64,
    /// If not 0, the lots of every order, so that the lots that would buy and those that would sell are
    /// often equal.
    pub lots_each: u64,
    /// The factor of all quantities. Above 1 the terms allow as many lots as terms may.
    pub quantity_scale: u64,
    /// Accounts, from 1, among which all sessions but the last are divided; 0 for a market without
    /// money.
    pub accounts: u16,
    /// The commands in a thousand that undo or correct a trade; if not 0, accounts are poor.
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
            quantity_scale: 1,
            accounts: 0,
            undo_per_mille: 0,
        }
    }
}

impl Profile {
    /// The largest quantity that an order may have.
    fn quantity_max(&self) -> u64 {
        if self.quantity_scale == 1 { QUANTITY_MAX } else { QUANTITY_LIMIT }
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
    /// Commands that must come next, before any random one.
    scheduled: VecDeque<Command>,
    /// The middle of each market, in price increments.
    mids: Vec<u64>,
    /// The last number used, by session and then channel.
    numbers: Vec<u32>,
    live: Vec<LiveOrder>,
    /// Scopes that the venue may have blocked.
    blocked: Vec<Scope>,
    /// Scopes that the kill switch may have blocked.
    killed: Vec<Scope>,
    /// The last command of each operator.
    operated: [Option<OperatorCommand>; 3],
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
        } else if self.profile.quantity_scale > 1 {
            for index in 0..self.profile.instruments {
                let terms = MoneyTerms::unpaid(Quantity(self.profile.quantity_max()));
                let set = SetTerms { symbol: symbol(usize::from(index)), terms };
                self.scheduled.push_back(Command::Money(MoneyCommand::SetTerms(set)));
            }
        }
        for _ in 0..4 {
            let early = self.enter();
            self.scheduled.push_back(early);
        }
        self.live.clear();
        self.scheduled.push_back(Command::System(SystemEvent::StartOfSystemHours));
        self.scheduled.push_back(Command::System(SystemEvent::StartOfMarketHours));
    }

    /// A command that a careful participant would give.
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
            5..=6 => self.query(),
            7 => self.note(),
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

    fn modify(&mut self, order: LiveOrder) -> Command {
        let side = match order.side {
            Side::Buy => Side::Buy,
            _ => self.kind_of_sell(),
        };
        let quantity = Quantity(self.rng.below(order.quantity + order.quantity / 4 + 1));
        Command::Modify(ModifyOrder { key: order.key, side, quantity })
    }

    /// A mass cancel, mostly narrow, so that some orders stay.
    fn mass_cancel(&mut self) -> Command {
        let key = self.any_next_key();
        let symbol = match self.rng.below(3) {
            0 => Symbol::BLANK,
            _ => symbol(self.any_instrument()),
        };
        let side = self.rng.chance(1, 2).then(|| *self.rng.pick(Side::ALL));
        let group_id = self.rng.chance(3, 4).then(|| self.group_id());
        Command::MassCancel(MassCancel { key, firm: self.firm(), symbol, side, group_id })
    }

    fn forbid(&mut self) -> Command {
        let key = self.any_next_key();
        let firm = self.firm();
        self.forbidden.push((key.session_id, firm));
        Command::SwitchEntry(EntrySwitch { key, firm, enabled: false })
    }

    fn query(&mut self) -> Command {
        let session_id = self.any_session();
        let channel = self.rng.below(u64::from(self.profile.channels) + 1) as u8;
        Command::QueryAccount(AccountQuery { session_id, channel })
    }

    fn note(&mut self) -> Command {
        let session_id = self.any_session();
        let bytes = self.rng.below(u64::MAX).to_le_bytes();
        Command::Note(Note::new(session_id, &bytes).expect("a note has room for 8 bytes"))
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

    fn any_side(&mut self) -> Side {
        if self.rng.chance(1, 2) { Side::Buy } else { self.kind_of_sell() }
    }

    fn kind_of_sell(&mut self) -> Side {
        self.rng.weighted(&[(1, Side::SellShort), (1, Side::SellShortExempt), (4, Side::Sell)])
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
        (!self.live.is_empty()).then(|| *self.rng.pick(&self.live))
    }

    /// Takes one of the orders that may be live; it is no longer assumed to be live.
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

    /// The number of orders assumed to be live stays near the profile's number.
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
