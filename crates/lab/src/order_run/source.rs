//! From rows to submissions.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::order_file::{BalanceFile, OrderFile, Request, Row};
use gateway::Submission;
use market::{
    AccountId, AddAccount, AddAsset, AddInstrument, AddSession, AssetId, AssignSession, Command,
    Deposit, Firm, MoneyClass, MoneyCommand, MoneyTerms, MoveOut, MovedOut, Price, Quantity,
    SelfMatchPrevention, SessionId, SetTerms, ShardId, Symbol, SystemEvent, Text, Units,
};
use ring::{Agent, AgentError, Consumer, Producer};

use super::{recover_lock, shards::Shards, submission, taker::Ending};
use venue::clock::SystemClock;

/// How many commands are submitted in a turn: few enough that what they cause stays in the caches
/// of a core until the other agents of a thread have had their turn.
pub(super) const TURN_LIMIT: usize = 128;

/// The largest quantity of an order in a file, in lots.
const QUANTITY_MAX: Quantity = Quantity((1 << 28) - 1);

/// A command, and which of the shards it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// For all of them, which take it as their own.
    Every(Command),
    /// For the one of this index.
    One(usize, Command),
    /// For the one of the first index; what goes out of it comes in at the second one before
    /// anything that stands after this.
    Move(usize, usize, MoveOut),
}

impl Routed {
    /// What the first shard is asked for.
    #[must_use]
    pub fn command(self) -> Command {
        match self {
            Self::Every(command) | Self::One(_, command) => command,
            Self::Move(.., out) => Command::Money(MoneyCommand::MoveOut(out)),
        }
    }
}

/// Commands, one after the other.
pub trait Rows: Send {
    /// The next ones, at least one and at most `limit`; none at the end. They come again until they
    /// are [taken](Self::take).
    ///
    /// # Errors
    /// Where they come from cannot be read, or makes no sense.
    fn look(&mut self, limit: usize) -> Result<&[Routed], AgentError>;

    /// The first so many of what was looked at do not come again.
    fn take(&mut self, count: usize);
}

/// What was asked for, by kind. Written by the source alone.
#[derive(Debug, Default)]
pub struct Counted {
    /// New orders.
    pub places: AtomicU64,
    /// Cancels.
    pub cancels: AtomicU64,
    /// Replaces.
    pub replaces: AtomicU64,
    /// Modifies.
    pub modifies: AtomicU64,
    /// Deposits, and what goes from one shard to another at both ends.
    pub deposits: AtomicU64,
}

impl Counted {
    fn count(&self, command: &Command) {
        let counter = match command {
            Command::Enter(_) => &self.places,
            Command::Cancel(_) => &self.cancels,
            Command::Replace(_) => &self.replaces,
            Command::Modify(_) => &self.modifies,
            Command::Money(
                MoneyCommand::Deposit(_) | MoneyCommand::MoveOut(_) | MoneyCommand::MoveIn(_),
            ) => &self.deposits,
            _ => return,
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// When the next command is submitted.
pub enum Pace {
    /// As soon as the rings have room, at most so many in a turn.
    Free,
    /// From this number on only once all is taken that came of the one before; how long that took,
    /// in nanoseconds, goes to the list.
    OneAtATime {
        /// The commands before it are submitted freely.
        from: u64,
        /// One entry a command.
        times_ns: Arc<Mutex<Vec<u64>>>,
        /// When the last one was submitted.
        submitted_ns: u64,
        /// Says so.
        clock: SystemClock,
    },
}

/// What became of a move: what has gone out, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MoveOutcome(pub(super) Option<MovedOut>);

/// The way to one shard.
pub(super) struct Lane {
    submissions: Producer<Submission>,
    /// Only where there are several shards.
    outcomes: Option<Consumer<MoveOutcome>>,
    /// How many commands it was given, which is the sequence of the last one.
    submitted: u64,
    ending: Arc<Ending>,
}

impl Lane {
    pub(super) fn new(
        submissions: Producer<Submission>,
        outcomes: Option<Consumer<MoveOutcome>>,
        ending: Arc<Ending>,
    ) -> Self {
        Self { submissions, outcomes, submitted: 0, ending }
    }

    fn room(&mut self) -> usize {
        self.submissions.free()
    }

    /// Submits a command, the `number`-th of the run, for which there is room.
    fn submit(&mut self, number: u64, command: &Command) {
        self.submit_all(number, [command]);
    }

    /// Submits commands, from the `number`-th of the run on, for which there is room; says how many.
    fn submit_all<'a>(
        &mut self,
        number: u64,
        commands: impl IntoIterator<Item = &'a Command>,
    ) -> usize {
        let mut batch = self.submissions.batch();
        let mut done = 0;
        for (command, number) in commands.into_iter().zip(number..) {
            self.submitted += 1;
            let pushed = batch.push_with(|| submission(number, *command));
            assert!(pushed.is_some(), "no more is taken than the ring has room for");
            done += 1;
        }
        done
    }
}

/// Submits commands until there are no more.
///
/// Where there are several shards, what goes from one to another is waited for: so the place of its
/// arrival among the other commands is the same in every run.
pub(super) struct Source {
    rows: Box<dyn Rows>,
    lanes: Vec<Lane>,
    pace: Pace,
    /// How many commands there were, those for all shards counted once.
    submitted: u64,
    /// Something is on its way from the shard of the first index to that of the second.
    moving: Option<(usize, usize)>,
    counted: Arc<Counted>,
    is_done: bool,
    /// True if the last turn found a ring full.
    is_full: bool,
}

impl Source {
    pub(super) fn new(
        rows: Box<dyn Rows>,
        lanes: Vec<Lane>,
        pace: Pace,
        counted: Arc<Counted>,
    ) -> Self {
        let (submitted, moving, is_done, is_full) = (0, None, false, false);
        Self { rows, lanes, pace, submitted, moving, counted, is_done, is_full }
    }

    /// How many commands may be submitted now.
    fn may_submit(&mut self) -> usize {
        let Pace::OneAtATime { from, times_ns, submitted_ns, clock } = &mut self.pace else {
            return TURN_LIMIT;
        };
        let next = self.submitted + 1;
        if next < *from {
            return TURN_LIMIT.min((*from - next) as usize);
        }
        if self.lanes.iter().any(|lane| lane.ending.taken() < lane.submitted) {
            return 0;
        }
        let now_ns = clock.now_ns();
        if *from < next {
            recover_lock(times_ns).push(now_ns - *submitted_ns);
        }
        *submitted_ns = now_ns;
        1
    }

    /// Submits the next rows, at most `limit`, and up to the first that is to be waited for; says how
    /// many. None is the end.
    fn submit(&mut self, limit: usize) -> Result<usize, AgentError> {
        let Self { rows, lanes, counted, .. } = self;
        let found = rows.look(limit)?;
        let mut done = 0;
        while done < found.len() && self.moving.is_none() {
            let number = self.submitted + 1;
            let submitted = match &found[done] {
                Routed::Every(command) => {
                    counted.count(command);
                    lanes.iter_mut().for_each(|lane| lane.submit(number, command));
                    1
                }
                // All that follow each other to one shard.
                Routed::One(index, _) => {
                    let run = found[done..].iter().map_while(|routed| match routed {
                        Routed::One(other, command) if other == index => Some(command),
                        _ => None,
                    });
                    lanes[*index].submit_all(number, run.inspect(|it| counted.count(it)))
                }
                Routed::Move(from, to, out) => {
                    let command = Command::Money(MoneyCommand::MoveOut(*out));
                    counted.count(&command);
                    lanes[*from].submit(number, &command);
                    self.moving = Some((*from, *to));
                    1
                }
            };
            self.submitted += submitted as u64;
            done += submitted;
        }
        rows.take(done);
        Ok(done)
    }

    /// Brings what has gone out to where it goes; false while that is not known, or has no room.
    fn bring(&mut self, (from, to): (usize, usize)) -> bool {
        if self.lanes[to].room() == 0 {
            return false;
        }
        let outcomes = self.lanes[from].outcomes.as_mut().expect("there are several shards");
        let mut outcome = None;
        outcomes.drain(1, |found, _| outcome = Some(*found));
        let Some(MoveOutcome(moved)) = outcome else { return false };
        self.moving = None;
        if let Some(moved) = moved {
            let arrival = moved.arrival(ShardId(from as u16 + 1));
            let command = Command::Money(MoneyCommand::MoveIn(arrival));
            self.counted.count(&command);
            self.submitted += 1;
            self.lanes[to].submit(self.submitted, &command);
        }
        true
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
            self.lanes.iter().for_each(|lane| lane.ending.begin(now_ns));
        }
        if let Some(moving) = self.moving {
            return Ok(usize::from(self.bring(moving)));
        }
        let limit = self.may_submit();
        let room = self.lanes.iter_mut().map(Lane::room).min().unwrap_or(0);
        self.is_full = room == 0;
        let free = room.min(limit);
        if free == 0 {
            return Ok(0);
        }
        let done = self.submit(free)?;
        if done == 0 {
            self.is_done = true;
            self.lanes.iter().for_each(|lane| lane.ending.set_last(lane.submitted));
            return Ok(1);
        }
        Ok(done)
    }

    fn is_held_up(&self) -> bool {
        self.is_full
    }
}

/// The commands by which a venue gets to know instruments and participants.
#[derive(Debug)]
pub struct Setup {
    shards: Shards,
    has_money: bool,
    participants: BTreeMap<Text<6>, u16>,
}

impl Setup {
    /// For these instruments; with money, what is bought must be paid for.
    #[must_use]
    pub fn new(shards: Shards, has_money: bool) -> Self {
        Self { shards, has_money, participants: BTreeMap::new() }
    }

    /// What comes before the participants.
    fn instruments(&self, commands: &mut VecDeque<Routed>) {
        commands.push_back(Routed::Every(Command::System(SystemEvent::StartOfMessages)));
        if self.has_money {
            commands.extend(self.shards.instruments().assets().iter().map(|asset| {
                let (name, decimals) = (asset.name, asset.decimals);
                let add = MoneyCommand::AddAsset(AddAsset { name, decimals });
                Routed::Every(Command::Money(add))
            }));
        }
        for (terms, shard, _) in self.shards.places() {
            let symbol = terms.symbol;
            let add = AddInstrument { symbol, price_increment: Price(1), round_lot: Quantity(1) };
            commands.push_back(Routed::One(shard, Command::AddInstrument(add)));
            let (numerator, denominator) = terms.quote_units_per_tick_lot();
            let asset = |name| self.asset_id(&name).expect("an instrument's assets are known");
            let terms = if self.has_money {
                MoneyTerms {
                    class: MoneyClass::Cash,
                    base: asset(terms.base.name),
                    quote: asset(terms.quote.name),
                    base_units: terms.base_units_per_lot(),
                    quote_numerator: numerator,
                    quote_denominator: denominator,
                    quantity_max: QUANTITY_MAX,
                }
            } else {
                MoneyTerms::unpaid(QUANTITY_MAX)
            };
            let set = MoneyCommand::SetTerms(SetTerms { symbol, terms });
            commands.push_back(Routed::One(shard, Command::Money(set)));
        }
    }

    /// What comes between the participants that are known and the first order.
    fn open(commands: &mut VecDeque<Routed>) {
        let hours = [SystemEvent::StartOfSystemHours, SystemEvent::StartOfMarketHours];
        commands.extend(hours.map(|event| Routed::Every(Command::System(event))));
    }

    /// The number of a participant, who is added if not known before; `None` if there are as many
    /// as there can be.
    fn participant(&mut self, name: Text<6>, commands: &mut VecDeque<Routed>) -> Option<u16> {
        if let Some(number) = self.participants.get(&name) {
            return Some(*number);
        }
        let number = u16::try_from(self.participants.len() + 1).ok()?;
        self.participants.insert(name, number);
        commands.push_back(Routed::Every(Command::AddSession(AddSession {
            username: name,
            firm: Firm::new("FILE").expect("four characters"),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        })));
        if self.has_money {
            let name = Text::new(name.as_str()).expect("six characters are at most eight");
            let add = MoneyCommand::AddAccount(AddAccount { name });
            let assign = MoneyCommand::AssignSession(AssignSession {
                session_id: SessionId(number),
                account_id: AccountId(u32::from(number)),
            });
            commands.extend([add, assign].map(|command| Routed::Every(Command::Money(command))));
        }
        Some(number)
    }

    fn asset_id(&self, name: &Symbol) -> Option<AssetId> {
        self.shards.asset_id(name)
    }
}

/// The commands of a file of orders, after those of a file of balances.
pub struct FileRows {
    setup: Setup,
    balances: Option<BalanceFile>,
    orders: OrderFile,
    is_open: bool,
    /// What comes next.
    pending: VecDeque<Routed>,
    /// Which shard has an order, by participant and number; kept only where there are several, for
    /// rows that name an order and not what it trades.
    placed: BTreeMap<(u16, u32), usize>,
}

impl FileRows {
    /// All commands of these files, those first that make instruments and participants.
    #[must_use]
    pub fn new(setup: Setup, balances: Option<BalanceFile>, orders: OrderFile) -> Self {
        let mut pending = VecDeque::new();
        setup.instruments(&mut pending);
        Self { setup, balances, orders, is_open: false, pending, placed: BTreeMap::new() }
    }

    /// The commands of the next row of balances; false at the end.
    fn next_balance(&mut self) -> Result<bool, AgentError> {
        let Some(file) = &mut self.balances else { return Ok(false) };
        let Some(balance) = file.next_balance()? else { return Ok(false) };
        let shards = &self.setup.shards;
        let asset_id = shards.asset_id(&balance.asset).ok_or_else(|| file.unknown_asset())?;
        let parts = match balance.shard {
            Some(shard) => {
                let index = shards.index(shard);
                let index = index.ok_or_else(|| file.unknown_shard(shards.count()))?;
                vec![(index, balance.available)]
            }
            None => shards.parts(&balance.asset, balance.available),
        };
        let number = self
            .setup
            .participant(balance.participant, &mut self.pending)
            .ok_or_else(|| file.too_many_participants())?;
        for (shard, part) in parts.into_iter().filter(|(_, part)| *part > 0) {
            let deposit = MoneyCommand::Deposit(Deposit {
                account_id: AccountId(u32::from(number)),
                asset_id,
                amount: Units::new(u128::from(part)),
            });
            self.pending.push_back(Routed::One(shard, Command::Money(deposit)));
        }
        Ok(true)
    }

    /// What a row asks for, from the participant of this number.
    fn routed(&mut self, row: &Row, number: u16) -> Result<Routed, AgentError> {
        let shards = &self.setup.shards;
        if let Request::Move(asked) = &row.request {
            let index = |shard| {
                shards.index(shard).ok_or_else(|| self.orders.unknown_shard(shards.count()))
            };
            let asset_id = shards.asset_id(&asked.asset);
            let out = MoveOut {
                account_id: AccountId(u32::from(number)),
                asset_id: asset_id.ok_or_else(|| self.orders.unknown_asset())?,
                amount: Units::new(u128::from(asked.amount)),
                to: asked.to,
            };
            return Ok(Routed::Move(index(asked.from)?, index(asked.to)?, out));
        }
        let shard = self.shard_of(row, number);
        let command = row.request.command(SessionId(number)).expect("it is about an order");
        Ok(Routed::One(shard, command))
    }
}

impl FileRows {
    /// The shard that a row about an order is for. A number that no order has goes to the first one,
    /// which knows it as little as the others.
    fn shard_of(&mut self, row: &Row, participant: u16) -> usize {
        if self.setup.shards.count() == 1 {
            return 0;
        }
        let named = row.symbol.and_then(|symbol| self.setup.shards.of_symbol(&symbol));
        let known = |order_id: u32| self.placed.get(&(participant, order_id)).copied();
        let (shard, placed) = match &row.request {
            Request::Place(place) => (named, Some(place.order_id)),
            Request::Replace { original_order_id, place, .. } => {
                (known(*original_order_id).or(named), Some(place.order_id))
            }
            Request::Cancel { order_id, .. } | Request::Modify { order_id, .. } => {
                (known(*order_id).or(named), None)
            }
            Request::Move(_) => (None, None),
        };
        let shard = shard.unwrap_or(0);
        if let Some(order_id) = placed {
            self.placed.entry((participant, order_id)).or_insert(shard);
        }
        shard
    }
}

impl FileRows {
    /// Reads on until there is more to submit; false at the end.
    fn read(&mut self) -> Result<bool, AgentError> {
        if !self.is_open {
            if !self.next_balance()? {
                self.is_open = true;
                Setup::open(&mut self.pending);
            }
            return Ok(true);
        }
        let Some(row) = self.orders.next_row()? else { return Ok(false) };
        let number = self
            .setup
            .participant(row.participant, &mut self.pending)
            .ok_or_else(|| self.orders.too_many_participants())?;
        let routed = self.routed(&row, number)?;
        self.pending.push_back(routed);
        Ok(true)
    }
}

impl Rows for FileRows {
    fn look(&mut self, limit: usize) -> Result<&[Routed], AgentError> {
        while self.pending.len() < limit && self.read()? {}
        let found = &*self.pending.make_contiguous();
        Ok(&found[..limit.min(found.len())])
    }

    fn take(&mut self, count: usize) {
        self.pending.drain(..count);
    }
}
