//! Random commands: an endless stream from a seed.
//!
//! Start at [`CommandFlow`]. It keeps a light idea of what is live, so that most of what it asks
//! makes sense, and asks on purpose for what does not: repetitions, stale numbers, orders of others,
//! prices and quantities that cannot be. It never looks at an answer, so the same seed and profile
//! give the same commands whatever becomes of them.

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

/// Repetitions are of one of so many commands before.
const RECENT_LEN: usize = 16;

/// So many commands after the close comes the end of messages.
const LATE_LEN: u64 = 1_000;

/// What kind of market it is.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Sessions, from 1. They are named `USER01`, `USER02` and so on.
    pub sessions: u16,
    /// Instruments, from 1. The first are named `AAPL`, `MSFT` and `NVDA`, the others `S0004` on.
    pub instruments: u16,
    /// Channels that each session uses, from 1: 0, 1 and so on.
    pub channels: u8,
    pub firm: Firm,
    /// Of a hundred orders, how many name conditions.
    pub conditions_percent: u64,
    /// Of a hundred orders, how many have a type, a time in force or instructions that OUCH
    /// cannot say.
    pub beyond_ouch_percent: u64,
    /// Of a hundred orders, how many wait for a trigger or are tied to another.
    pub waits_percent: u64,
    /// Of a hundred orders, how many follow the market.
    pub pegs_percent: u64,
    /// Of a hundred orders, how many wait until they can trade enough at once, or slide.
    pub minimum_percent: u64,
    /// Of a hundred limit orders, how many are good till a time.
    pub good_till_time_percent: u64,
    /// When the stream begins, in seconds since the epoch, for moments at which orders expire.
    pub starts_s: u32,
    /// About how many commands come in a second, from 1.
    pub commands_per_second: u64,
    /// What the sessions are added with, one after the other and from the front again.
    pub self_match_preventions: Vec<SelfMatchPrevention>,
    /// How many live orders each session may have.
    pub live_orders_max: u32,
    /// Price increment of every instrument, in ticks.
    pub price_increment: Price,
    /// Where the middle of each market begins, in price increments.
    pub mid: u64,
    /// How far from the middle most orders are, in price increments, from 1.
    pub spread: u64,
    /// Of a thousand limit orders, how many are anywhere in the price range.
    pub far_per_mille: u64,
    /// Of a million orders, how many find that the middle has jumped to somewhere else.
    pub jumps_per_million: u64,
    /// About how many orders are taken for live at a time, in all books. The books hold fewer, for
    /// some of these are filled.
    pub live_orders: usize,
    /// Of a hundred requests, how many are ones that a careful participant would not make.
    pub odd_percent: u64,
    /// After so many commands, those of the setup included, the day ends; what follows finds the
    /// market closed. `None` is never.
    pub closes_after: Option<u64>,
    /// Of a thousand requests, how many are the venue's own; with any, some orders are for one auction
    /// only.
    pub venue_per_mille: u64,
    /// If not 0, every order is for so many lots, so that what would buy and what would sell is often
    /// the same.
    pub lots_each: u64,
    /// How many times as large all quantities are. Above 1 the terms allow as many lots as terms may.
    pub quantity_scale: u64,
    /// Accounts, from 1, among which the sessions are divided, but for the last one; 0 is no money
    /// anywhere.
    pub accounts: u16,
    /// How many commands in a thousand undo or correct a trade; where some do, accounts are poor.
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
    /// What must come next, whatever chance says.
    scheduled: VecDeque<Command>,
    /// The middle of each market, in price increments.
    mids: Vec<u64>,
    /// The last number used, by session and then channel.
    numbers: Vec<u32>,
    live: Vec<LiveOrder>,
    /// What the venue may not take.
    blocked: Vec<Scope>,
    /// What the kill switch may keep out.
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

    /// What a careful participant asks.
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

    /// Mostly narrow, so that some orders stay.
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

    /// One of those that may be live, which is then not taken for live any more.
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

    /// What is taken for live stays near what the profile says.
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
