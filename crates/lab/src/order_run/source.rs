//! From rows to submissions.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::order_file::{BalanceFile, InstrumentTable, OrderFile, QUANTITY_MAX};
use gateway::Submission;
use market::{
    AccountId, AddAccount, AddAsset, AddInstrument, AddSession, AssignSession, Command, Deposit,
    Firm, MoneyCommand, MoneyTerms, Price, Quantity, SelfMatchPrevention, SessionId, SetTerms,
    SystemEvent, Text, Units,
};
use ring::{Agent, AgentError, AtomicGauge, Cursor, Producer};

use super::submission;
use venue::clock::SystemClock;

/// Commands submitted per turn: few enough that their events stay in a core's caches until the other
/// agents of the thread have had their turn.
pub(super) const TURN_LIMIT: usize = 128;

pub trait Rows: Send {
    /// The next commands, at least one and at most `limit`; none at the end. They come again until they are
    /// [taken](Self::take).
    fn look(&mut self, limit: usize) -> Result<&[Command], AgentError>;

    /// The first `count` commands that were looked at do not come again.
    fn take(&mut self, count: usize);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCounts {
    pub places: u64,
    pub cancels: u64,
    pub replaces: u64,
    pub modifies: u64,
    pub deposits: u64,
}

impl RequestCounts {
    fn count(&mut self, command: &Command) {
        let count = match command {
            Command::Enter(_) => &mut self.places,
            Command::Cancel(_) => &mut self.cancels,
            Command::Replace(_) => &mut self.replaces,
            Command::Modify(_) => &mut self.modifies,
            Command::Money(MoneyCommand::Deposit(_)) => &mut self.deposits,
            _ => return,
        };
        *count += 1;
    }
}

pub enum Pace {
    /// As soon as the rings have room, at most so many in a turn.
    Free,
    /// From this number on, each only when all events of the one before are taken.
    OneAtATime {
        from: u64,
        /// How long each of those commands took, in nanoseconds.
        times_ns: Vec<u64>,
        /// When the last one was submitted.
        submitted_ns: u64,
        clock: SystemClock,
    },
}

pub(super) struct Source {
    rows: Box<dyn Rows>,
    submissions: Producer<Submission>,
    pub(super) pace: Pace,
    /// The number of commands submitted, which is the sequence of the last one.
    pub(super) submitted: u64,
    /// The sequence of the last command, once it is known.
    last: Arc<AtomicGauge>,
    /// All events of inputs up to here are taken, by reader.
    taken: Vec<Arc<Cursor>>,
    /// When the first command was submitted.
    pub(super) begun_ns: u64,
    pub(super) requests: RequestCounts,
    is_done: bool,
    /// True if the last turn found a ring full.
    is_full: bool,
}

impl Source {
    pub(super) fn new(
        rows: Box<dyn Rows>,
        submissions: Producer<Submission>,
        pace: Pace,
        last: Arc<AtomicGauge>,
        taken: Vec<Arc<Cursor>>,
    ) -> Self {
        Self {
            rows,
            submissions,
            pace,
            submitted: 0,
            last,
            taken,
            begun_ns: 0,
            requests: RequestCounts::default(),
            is_done: false,
            is_full: false,
        }
    }

    fn may_submit(&mut self) -> usize {
        let Pace::OneAtATime { from, times_ns, submitted_ns, clock } = &mut self.pace else {
            return TURN_LIMIT;
        };
        let next = self.submitted + 1;
        if next < *from {
            return TURN_LIMIT.min((*from - next) as usize);
        }
        if self.taken.iter().any(|taken| taken.get() < self.submitted) {
            return 0;
        }
        let now_ns = clock.now_ns();
        if *from < next {
            times_ns.push(now_ns - *submitted_ns);
        }
        *submitted_ns = now_ns;
        1
    }

    /// Submits the next rows, at most `limit`, for which there is room; returns how many. None is the
    /// end.
    fn submit(&mut self, limit: usize) -> Result<usize, AgentError> {
        let Self { rows, submissions, submitted, requests, .. } = self;
        let found = rows.look(limit)?;
        let mut batch = submissions.batch();
        for command in found {
            *submitted += 1;
            requests.count(command);
            let pushed = batch.push_with(|| submission(*submitted, *command));
            assert!(pushed.is_some(), "no more is taken than the ring has room for");
        }
        let done = found.len();
        drop(batch);
        rows.take(done);
        Ok(done)
    }
}

impl Agent for Source {
    fn name(&self) -> &str {
        "source"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        if self.is_done {
            return Ok(0);
        }
        if self.submitted == 0 {
            self.begun_ns = now_ns;
        }
        let limit = self.may_submit();
        let room = self.submissions.free();
        self.is_full = room == 0;
        let free = room.min(limit);
        if free == 0 {
            return Ok(0);
        }
        let done = self.submit(free)?;
        if done == 0 {
            self.is_done = true;
            self.last.set(self.submitted);
            return Ok(1);
        }
        Ok(done)
    }

    fn is_held_up(&self) -> bool {
        self.is_full
    }
}

/// The commands that add instruments and participants to a venue.
#[derive(Debug)]
pub struct Setup {
    instruments: InstrumentTable,
    has_money: bool,
    participants: BTreeMap<Text<6>, u16>,
}

impl Setup {
    /// For these instruments; with money, purchases must be paid for.
    pub fn new(instruments: InstrumentTable, has_money: bool) -> Self {
        Self { instruments, has_money, participants: BTreeMap::new() }
    }

    fn instruments(&self, commands: &mut VecDeque<Command>) {
        commands.push_back(Command::System(SystemEvent::StartOfMessages));
        if self.has_money {
            commands.extend(self.instruments.assets().iter().map(|asset| {
                let (name, decimals) = (asset.name, asset.decimals);
                Command::Money(MoneyCommand::AddAsset(AddAsset { name, decimals }))
            }));
        }
        for (listed, paid) in self.instruments.all().iter().zip(self.instruments.money_terms()) {
            let symbol = listed.symbol;
            let add = AddInstrument { symbol, price_increment: Price(1), round_lot: Quantity(1) };
            commands.push_back(Command::AddInstrument(add));
            let terms = if self.has_money { paid } else { MoneyTerms::unpaid(QUANTITY_MAX) };
            let set = MoneyCommand::SetTerms(SetTerms { symbol, terms });
            commands.push_back(Command::Money(set));
        }
    }

    /// The commands between the known participants and the first order.
    fn open(commands: &mut VecDeque<Command>) {
        let hours = [SystemEvent::StartOfSystemHours, SystemEvent::StartOfMarketHours];
        commands.extend(hours.map(Command::System));
    }

    /// The number of a participant, which is added if not known before; `None` if there are as many as there can be.
    fn participant(&mut self, name: Text<6>, commands: &mut VecDeque<Command>) -> Option<u16> {
        if let Some(number) = self.participants.get(&name) {
            return Some(*number);
        }
        let number = u16::try_from(self.participants.len() + 1).ok()?;
        self.participants.insert(name, number);
        commands.push_back(Command::AddSession(AddSession {
            username: name,
            firm: Firm::new("FILE").expect("four characters"),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        }));
        if self.has_money {
            let name = Text::new(name.as_str()).expect("six characters are at most eight");
            let add = MoneyCommand::AddAccount(AddAccount { name });
            let assign = MoneyCommand::AssignSession(AssignSession {
                session_id: SessionId(number),
                account_id: AccountId(u32::from(number)),
            });
            commands.extend([add, assign].map(Command::Money));
        }
        Some(number)
    }
}

/// The commands of a file of orders, after those of a file of balances.
pub struct FileRows {
    setup: Setup,
    balances: Option<BalanceFile>,
    orders: OrderFile,
    is_open: bool,
    pending: VecDeque<Command>,
}

impl FileRows {
    /// All commands of these files, those first that make instruments and participants.
    pub fn new(setup: Setup, balances: Option<BalanceFile>, orders: OrderFile) -> Self {
        let mut pending = VecDeque::new();
        setup.instruments(&mut pending);
        Self { setup, balances, orders, is_open: false, pending }
    }

    /// The commands of the next row of balances; false at the end.
    fn next_balance(&mut self) -> Result<bool, AgentError> {
        let Some(file) = &mut self.balances else { return Ok(false) };
        let Some(balance) = file.next_balance()? else { return Ok(false) };
        let asset_id = self.setup.instruments.asset_id(&balance.asset);
        let asset_id = asset_id.ok_or_else(|| file.unknown_asset())?;
        let number = self
            .setup
            .participant(balance.participant, &mut self.pending)
            .ok_or_else(|| file.too_many_participants())?;
        if balance.available > 0 {
            self.pending.push_back(Command::Money(MoneyCommand::Deposit(Deposit {
                account_id: AccountId(u32::from(number)),
                asset_id,
                amount: Units::new(u128::from(balance.available)),
            })));
        }
        Ok(true)
    }

    /// Reads on until there is more to submit; false at the end.
    fn read(&mut self) -> Result<bool, AgentError> {
        if !self.is_open {
            if !self.next_balance()? {
                self.is_open = true;
                Setup::open(&mut self.pending);
            }
            return Ok(true);
        }
        let Some(participant) = self.orders.next_participant()? else { return Ok(false) };
        let number = self
            .setup
            .participant(participant, &mut self.pending)
            .ok_or_else(|| self.orders.too_many_participants())?;
        self.pending.push_back(self.orders.command(SessionId(number))?);
        Ok(true)
    }
}

impl Rows for FileRows {
    fn look(&mut self, limit: usize) -> Result<&[Command], AgentError> {
        while self.pending.len() < limit && self.read()? {}
        let found = &*self.pending.make_contiguous();
        Ok(&found[..limit.min(found.len())])
    }

    fn take(&mut self, count: usize) {
        self.pending.drain(..count);
    }
}
