//! From events to rows: the tables of the ledger follow from the events alone.

use std::collections::BTreeMap;

use market::{
    Accepted, AccountId, AssetId, Bucket, Event, InstrumentId, LedgerEntry, LedgerPlace,
    MoneyEvent, OrderId, Output, Price, Quantity, Replaced, Restated, Sequence, SessionId,
    Timestamp, TradeBusted, TradeCorrected, TradeId, Traded, VenueEvent,
};

use super::{
    query::rows,
    schema::{
        AccountRow, AssetRow, BalanceRow, BrokenTradeRow, EntryRow, FillRow, InstrumentRow,
        OrderRow, OrderState, Role, Row, SessionRow, Table, TradeRow, Value,
    },
    store::{Filter, LedgerStore, StoreError},
};

/// What must be known of the rows so far to make the next ones: all but trades, fills, entries
/// and orders that are done. About 200 bytes a live order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Projection {
    sequence: Sequence,
    /// Entries of the input at `sequence` so far.
    entry_count: u32,
    assets: BTreeMap<AssetId, AssetRow>,
    accounts: BTreeMap<AccountId, AccountRow>,
    instruments: BTreeMap<InstrumentId, InstrumentRow>,
    sessions: BTreeMap<SessionId, SessionRow>,
    live: BTreeMap<OrderId, OrderRow>,
    balances: BTreeMap<(AccountId, AssetId), BalanceRow>,
}

/// Rows that are new or changed, each as it is at the end.
#[derive(Debug, Default)]
pub struct Batch {
    /// The store has all up to here.
    pub after: Sequence,
    /// With these rows it has all up to here.
    pub sequence: Sequence,
    assets: BTreeMap<AssetId, AssetRow>,
    accounts: BTreeMap<AccountId, AccountRow>,
    instruments: BTreeMap<InstrumentId, InstrumentRow>,
    sessions: BTreeMap<SessionId, SessionRow>,
    orders: BTreeMap<OrderId, OrderRow>,
    trades: Vec<TradeRow>,
    broken_trades: Vec<BrokenTradeRow>,
    fills: Vec<FillRow>,
    entries: Vec<EntryRow>,
    balances: BTreeMap<(AccountId, AssetId), BalanceRow>,
}

impl Batch {
    /// Nothing, after what the store has.
    #[must_use]
    pub fn new(after: Sequence) -> Self {
        Self { after, sequence: after, ..Self::default() }
    }

    /// How many rows there are.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.assets.len()
            + self.accounts.len()
            + self.instruments.len()
            + self.sessions.len()
            + self.orders.len()
            + self.trades.len()
            + self.broken_trades.len()
            + self.fills.len()
            + self.entries.len()
            + self.balances.len()
    }

    /// Shows the rows of a table, each with its values.
    ///
    /// # Errors
    /// That of `each`.
    pub fn each<E>(
        &self,
        table: Table,
        each: &mut dyn FnMut(&[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        fn rows<'a, R: Row + 'a, E>(
            rows: impl IntoIterator<Item = &'a R>,
            each: &mut dyn FnMut(&[Value]) -> Result<(), E>,
        ) -> Result<(), E> {
            rows.into_iter().try_for_each(|row| each(&row.values()))
        }
        match table {
            Table::Assets => rows(self.assets.values(), each),
            Table::Accounts => rows(self.accounts.values(), each),
            Table::Instruments => rows(self.instruments.values(), each),
            Table::Sessions => rows(self.sessions.values(), each),
            Table::Orders => rows(self.orders.values(), each),
            Table::Trades => rows(&self.trades, each),
            Table::BrokenTrades => rows(&self.broken_trades, each),
            Table::Fills => rows(&self.fills, each),
            Table::Entries => rows(&self.entries, each),
            Table::Balances => rows(self.balances.values(), each),
        }
    }
}

/// The state of the tables after an input, and the rows of it that no store has yet.
#[derive(Debug)]
pub struct PendingRows {
    /// The state of the tables.
    pub projection: Projection,
    /// The rows that are new or changed since they were last stored.
    pub batch: Batch,
    /// The first output that contradicts the rows so far.
    contradiction: Option<StoreError>,
}

impl PendingRows {
    /// None, after what a store has.
    ///
    /// # Errors
    /// The store cannot be read, or has rows that are none.
    pub fn load(store: &mut dyn LedgerStore, sequence: Sequence) -> Result<Self, StoreError> {
        let projection = Projection::load(store, sequence)?;
        Ok(Self { projection, batch: Batch::new(sequence), contradiction: None })
    }

    /// Takes the next output. Outputs of inputs that it has already are ignored.
    pub fn take(&mut self, output: &Output) {
        if output.cause > self.projection.sequence() && self.contradiction.is_none() {
            self.contradiction = self.projection.take(output, &mut self.batch).err();
        }
    }

    /// All outputs of inputs up to `sequence` were taken.
    ///
    /// # Errors
    /// One of them contradicts the rows so far: somebody changed them.
    pub fn complete(&mut self, sequence: Sequence) -> Result<(), StoreError> {
        if let Some(error) = self.contradiction.take() {
            return Err(error);
        }
        if sequence > self.projection.sequence() {
            self.projection.complete(sequence, &mut self.batch);
        }
        Ok(())
    }

    /// True if a commit would move the position of the store.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.batch.sequence > self.batch.after
    }

    /// All rows so far are in the store.
    pub fn stored(&mut self) {
        self.batch = Batch::new(self.batch.sequence);
    }
}

impl Projection {
    /// Goes on at the position of a store.
    ///
    /// # Errors
    /// It cannot be read, or has rows that are none.
    pub fn load(store: &mut dyn LedgerStore, sequence: Sequence) -> Result<Self, StoreError> {
        let every = Filter::default();
        let live = Filter { live: true, ..every };
        let mut it = Self { sequence, ..Self::default() };
        it.assets = by(rows(store, &every)?, |row: &AssetRow| row.asset_id);
        it.accounts = by(rows(store, &every)?, |row: &AccountRow| row.account_id);
        it.instruments = by(rows(store, &every)?, |row: &InstrumentRow| row.instrument_id);
        it.sessions = by(rows(store, &every)?, |row: &SessionRow| row.session_id);
        it.live = by(rows(store, &live)?, |row: &OrderRow| row.order_id);
        it.balances = by(rows(store, &every)?, |row: &BalanceRow| (row.account_id, row.asset_id));
        Ok(it)
    }

    /// All inputs up to here are in it.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// All outputs of inputs up to `sequence` were taken.
    pub fn complete(&mut self, sequence: Sequence, batch: &mut Batch) {
        assert!(self.sequence <= sequence, "inputs are completed in order");
        self.sequence = sequence;
        self.entry_count = 0;
        batch.sequence = sequence;
    }

    /// Takes the next output, of an input after [`sequence`](Self::sequence).
    ///
    /// # Errors
    /// It contradicts the rows so far: somebody changed them, or it was not the next.
    pub fn take(&mut self, output: &Output, batch: &mut Batch) -> Result<(), StoreError> {
        let Output { cause, timestamp, event } = *output;
        if self.sequence.next() < cause {
            self.complete(Sequence(cause.0 - 1), batch);
        }
        let now = Now { cause, timestamp };
        match event {
            Event::InstrumentAdded(added) => {
                let row =
                    InstrumentRow { instrument_id: added.instrument_id, symbol: added.symbol };
                self.instruments.insert(row.instrument_id, row);
                batch.instruments.insert(row.instrument_id, row);
            }
            Event::SessionAdded(added) => {
                let row = SessionRow {
                    session_id: added.session_id,
                    username: added.username,
                    firm: added.firm,
                    account_id: AccountId::VENUE,
                };
                self.sessions.insert(row.session_id, row);
                batch.sessions.insert(row.session_id, row);
            }
            Event::Accepted(accepted) => self.accepted(&accepted, now, batch)?,
            Event::Replaced(replaced) => self.replaced(&replaced, now, batch)?,
            Event::Restated(restated) => self.restated(&restated, now, batch)?,
            Event::Triggered(it) => {
                self.came_in(it.order_id_before, it.order_id, Some(it.price), now, batch)?;
            }
            Event::Released(it) => {
                self.came_in(it.order_id_before, it.order_id, None, now, batch)?;
            }
            Event::Booked(booked) => {
                self.change(booked.order_id, now, batch, |order| order.price = booked.price)?;
            }
            Event::Traded(traded) => self.traded(&traded, now, batch)?,
            Event::SelfMatchPrevented(prevented) => {
                self.reduce(prevented.order_id, prevented.leaves, now, batch)?;
            }
            Event::Canceled(canceled) => {
                self.reduce(canceled.order_id, canceled.leaves, now, batch)?;
            }
            Event::Modified(modified) => {
                self.change(modified.order_id, now, batch, |order| order.side = modified.side)?;
                self.reduce(modified.order_id, modified.leaves, now, batch)?;
            }
            Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })) => {
                batch.broken_trades.push(BrokenTradeRow {
                    trade_id: trade.trade_id,
                    sequence: cause,
                    timestamp,
                    reason,
                    new_trade_id: TradeId(0),
                    new_price: Price::ZERO,
                    new_quantity: Quantity::ZERO,
                });
            }
            Event::Venue(VenueEvent::TradeCorrected(TradeCorrected { broken, trade, reason })) => {
                batch.broken_trades.push(BrokenTradeRow {
                    trade_id: broken,
                    sequence: cause,
                    timestamp,
                    reason,
                    new_trade_id: trade.trade_id,
                    new_price: trade.price,
                    new_quantity: trade.quantity,
                });
            }
            Event::Ledger(entry) => self.moved(&entry, now, batch)?,
            Event::Money(money) => self.money(&money, batch)?,
            Event::System(_)
            | Event::Rejected(_)
            | Event::MassCanceled(_)
            | Event::EntrySwitched(_)
            | Event::AccountQueried(_)
            | Event::Venue(_) => {}
        }
        Ok(())
    }

    fn account_of(&self, session_id: SessionId) -> AccountId {
        self.sessions.get(&session_id).map_or(AccountId::VENUE, |session| session.account_id)
    }

    fn accepted(
        &mut self,
        accepted: &Accepted,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let order = OrderRow {
            order_id: accepted.order_id,
            account_id: self.account_of(accepted.key.session_id),
            session_id: accepted.key.session_id,
            channel: accepted.key.channel,
            user_ref_num: accepted.key.user_ref_num,
            client_order_id: accepted.attributes.client_order_id,
            firm: accepted.attributes.firm,
            instrument_id: accepted.instrument_id,
            side: accepted.side,
            order_type: accepted.order_type,
            time_in_force: accepted.time_in_force,
            display: accepted.display,
            price: accepted.price.price(),
            quantity: accepted.quantity.quantity(),
            executed: Quantity::ZERO,
            leaves: accepted.quantity.quantity(),
            state: OrderState::Live,
            original_order_id: OrderId(0),
            entered_sequence: now.cause,
            entered_timestamp: now.timestamp,
            changed_sequence: now.cause,
            changed_timestamp: now.timestamp,
        };
        self.add(order, batch)
    }

    fn replaced(
        &mut self,
        replaced: &Replaced,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        self.end(replaced.original_order_id, OrderState::Replaced, now, batch)?;
        let order = OrderRow {
            order_id: replaced.order_id,
            account_id: self.account_of(replaced.key.session_id),
            session_id: replaced.key.session_id,
            channel: replaced.key.channel,
            user_ref_num: replaced.key.user_ref_num,
            client_order_id: replaced.client_order_id,
            firm: replaced.firm,
            instrument_id: replaced.instrument_id,
            side: replaced.side,
            order_type: replaced.order_type,
            time_in_force: replaced.time_in_force,
            display: replaced.display,
            price: replaced.price.price(),
            quantity: replaced.leaves.quantity(),
            executed: Quantity::ZERO,
            leaves: replaced.leaves.quantity(),
            state: OrderState::Live,
            original_order_id: replaced.original_order_id,
            entered_sequence: now.cause,
            entered_timestamp: now.timestamp,
            changed_sequence: now.cause,
            changed_timestamp: now.timestamp,
        };
        self.add(order, batch)
    }

    /// An order goes on under another order id, with so many lots open, and perhaps changed.
    fn go_on(
        &mut self,
        order_id_before: OrderId,
        order_id: OrderId,
        leaves: Quantity,
        now: Now,
        batch: &mut Batch,
        change: impl FnOnce(&mut OrderRow),
    ) -> Result<(), StoreError> {
        let before = self.end(order_id_before, OrderState::Restated, now, batch)?;
        let mut order = OrderRow {
            order_id,
            quantity: leaves,
            executed: Quantity::ZERO,
            leaves,
            state: OrderState::Live,
            original_order_id: order_id_before,
            entered_sequence: now.cause,
            entered_timestamp: now.timestamp,
            changed_sequence: now.cause,
            changed_timestamp: now.timestamp,
            ..before
        };
        change(&mut order);
        self.add(order, batch)
    }

    /// An order that waited comes in under another order id, perhaps with another limit.
    fn came_in(
        &mut self,
        order_id_before: OrderId,
        order_id: OrderId,
        price: Option<Price>,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let leaves = self.live.get(&order_id_before).map_or(Quantity::ZERO, |order| order.leaves);
        self.go_on(order_id_before, order_id, leaves, now, batch, |order| {
            order.price = price.unwrap_or(order.price);
        })
    }

    fn restated(
        &mut self,
        restated: &Restated,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let Restated { order_id_before, order_id, leaves, side, display, price, .. } = *restated;
        if order_id == order_id_before {
            self.change(order_id, now, batch, |order| {
                (order.price, order.display) = (price, display);
            })?;
            return self.reduce(order_id, leaves, now, batch);
        }
        self.go_on(order_id_before, order_id, leaves, now, batch, |order| {
            (order.side, order.display, order.price) = (side, display, price);
        })
    }

    fn add(&mut self, order: OrderRow, batch: &mut Batch) -> Result<(), StoreError> {
        if let Some(known) = self.live.insert(order.order_id, order) {
            return Err(contradiction(order.entered_sequence, &format!("{known:?} is live")));
        }
        batch.orders.insert(order.order_id, order);
        Ok(())
    }

    /// Changes a live order.
    fn change(
        &mut self,
        order_id: OrderId,
        now: Now,
        batch: &mut Batch,
        change: impl FnOnce(&mut OrderRow),
    ) -> Result<OrderRow, StoreError> {
        let order = self.live.get_mut(&order_id);
        let order = order
            .ok_or_else(|| contradiction(now.cause, &format!("order {order_id} is not live")))?;
        change(order);
        (order.changed_sequence, order.changed_timestamp) = (now.cause, now.timestamp);
        let order = *order;
        batch.orders.insert(order_id, order);
        if order.state != OrderState::Live {
            self.live.remove(&order_id);
        }
        Ok(order)
    }

    /// Lots of an order were taken away, and so many are left.
    fn reduce(
        &mut self,
        order_id: OrderId,
        leaves: Quantity,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        self.change(order_id, now, batch, |order| {
            order.leaves = leaves;
            if leaves == Quantity::ZERO {
                order.state = OrderState::Canceled;
            }
        })
        .map(|_| ())
    }

    /// An order is no more; says what it was.
    fn end(
        &mut self,
        order_id: OrderId,
        state: OrderState,
        now: Now,
        batch: &mut Batch,
    ) -> Result<OrderRow, StoreError> {
        self.change(order_id, now, batch, |order| {
            order.leaves = Quantity::ZERO;
            order.state = state;
        })
    }

    fn traded(&mut self, traded: &Traded, now: Now, batch: &mut Batch) -> Result<(), StoreError> {
        let Traded { trade_id, instrument_id, price, quantity, .. } = *traded;
        batch.trades.push(TradeRow {
            trade_id,
            sequence: now.cause,
            timestamp: now.timestamp,
            instrument_id,
            price,
            quantity,
            taker_side: traded.taker_side,
            maker_order_id: traded.maker.order_id,
            taker_order_id: traded.taker.order_id,
        });
        for (role, fill) in [(Role::Maker, traded.maker), (Role::Taker, traded.taker)] {
            let order = self.change(fill.order_id, now, batch, |order| {
                order.executed = Quantity(order.executed.0.saturating_add(quantity.0));
                order.leaves = fill.leaves;
                if fill.leaves == Quantity::ZERO {
                    order.state = OrderState::Filled;
                }
            })?;
            batch.fills.push(FillRow {
                account_id: order.account_id,
                trade_id,
                role,
                order_id: fill.order_id,
                session_id: order.session_id,
                sequence: now.cause,
                timestamp: now.timestamp,
                instrument_id,
                side: order.side,
                price,
                quantity,
                leaves: fill.leaves,
            });
        }
        Ok(())
    }

    fn moved(
        &mut self,
        entry: &LedgerEntry,
        now: Now,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        self.entry_count += 1;
        let row = EntryRow {
            sequence: now.cause,
            nth: self.entry_count,
            timestamp: now.timestamp,
            kind: entry.kind,
            asset_id: entry.asset_id,
            amount: entry.amount,
            from_account_id: entry.from.account_id,
            from_bucket: entry.from.bucket,
            from_version: entry.from.version,
            to_account_id: entry.to.account_id,
            to_bucket: entry.to.bucket,
            to_version: entry.to.version,
            order_id: entry.order_id,
            trade_id: entry.trade_id,
        };
        batch.entries.push(row);
        for change in changes(&row) {
            match change {
                Change::Balance { place, amount } => {
                    let balance = balance_of(&mut self.balances, place, entry.asset_id);
                    apply(balance, place, amount, now.cause);
                    batch.balances.insert((place.account_id, entry.asset_id), *balance);
                }
                Change::Issued { version, amount } => {
                    let asset = self.assets.get_mut(&entry.asset_id);
                    let asset = asset.ok_or_else(|| {
                        contradiction(now.cause, &format!("no asset {}", entry.asset_id))
                    })?;
                    asset.issued += amount;
                    asset.version = version;
                    batch.assets.insert(entry.asset_id, *asset);
                }
            }
        }
        Ok(())
    }

    fn money(&mut self, money: &MoneyEvent, batch: &mut Batch) -> Result<(), StoreError> {
        match money {
            MoneyEvent::AssetAdded(asset) => {
                let row = AssetRow {
                    asset_id: asset.asset_id,
                    name: asset.name,
                    decimals: asset.decimals,
                    issued: 0,
                    version: 0,
                };
                self.assets.insert(row.asset_id, row);
                batch.assets.insert(row.asset_id, row);
            }
            MoneyEvent::AccountAdded(added) => {
                let row = AccountRow { account_id: added.account_id, name: added.name, stopped: 0 };
                self.accounts.insert(row.account_id, row);
                batch.accounts.insert(row.account_id, row);
            }
            MoneyEvent::SessionAssigned(assigned) => {
                let row = self.sessions.get_mut(&assigned.session_id);
                let row = row.ok_or_else(|| {
                    let what = format!("no session {}", assigned.session_id);
                    contradiction(Sequence(self.sequence.0 + 1), &what)
                })?;
                row.account_id = assigned.account_id;
                batch.sessions.insert(row.session_id, *row);
            }
            MoneyEvent::AccountStopped(stopped) => {
                if let Some(row) = self.accounts.get_mut(&stopped.account_id) {
                    row.stopped = u8::from(stopped.stopped);
                    batch.accounts.insert(row.account_id, *row);
                }
            }
            MoneyEvent::TermsSet(_)
            | MoneyEvent::FeesSet(_)
            | MoneyEvent::AccountSet(_)
            | MoneyEvent::Declined(_)
            | MoneyEvent::UndoAllowed => {}
        }
        Ok(())
    }
}

fn by<K: Ord, R>(rows: Vec<R>, key: impl Fn(&R) -> K) -> BTreeMap<K, R> {
    rows.into_iter().map(|row| (key(&row), row)).collect()
}

fn contradiction(cause: Sequence, what: &str) -> StoreError {
    StoreError::corrupt(format!(
        "the ledger store contradicts the events of input {cause}: {what}; move it away, and it is \
         made anew from the journal"
    ))
}

/// The input of an output.
#[derive(Clone, Copy)]
struct Now {
    cause: Sequence,
    timestamp: Timestamp,
}

/// What one end of a movement changes.
pub(crate) enum Change {
    /// A balance.
    Balance {
        /// Which, in which bucket.
        place: LedgerPlace,
        /// By how much.
        amount: i128,
    },
    /// How much there is in all.
    Issued {
        /// How many movements came in or went out.
        version: u64,
        /// By how much.
        amount: i128,
    },
}

/// What a movement changes: one end loses what the other gains.
pub(crate) fn changes(row: &EntryRow) -> [Change; 2] {
    let amount = i128::try_from(row.amount.get()).expect("no asset has 2¹²⁷ units");
    let from = LedgerPlace {
        account_id: row.from_account_id,
        bucket: row.from_bucket,
        version: row.from_version,
    };
    let to = LedgerPlace {
        account_id: row.to_account_id,
        bucket: row.to_bucket,
        version: row.to_version,
    };
    [(from, -amount), (to, amount)].map(|(place, amount)| match place.bucket {
        // What leaves the outside world is issued.
        Bucket::Outside => Change::Issued { version: place.version, amount: -amount },
        Bucket::Available | Bucket::Reserved => Change::Balance { place, amount },
    })
}

/// The balance at an end of a movement; nothing where there was none.
pub(crate) fn balance_of(
    balances: &mut BTreeMap<(AccountId, AssetId), BalanceRow>,
    place: LedgerPlace,
    asset_id: AssetId,
) -> &mut BalanceRow {
    let account_id = place.account_id;
    balances.entry((account_id, asset_id)).or_insert(BalanceRow {
        account_id,
        asset_id,
        available: 0,
        reserved: 0,
        version: 0,
        sequence: Sequence::NONE,
    })
}

/// Moves an amount into a balance, or, below 0, out of it.
pub(crate) fn apply(balance: &mut BalanceRow, place: LedgerPlace, amount: i128, cause: Sequence) {
    match place.bucket {
        Bucket::Available => balance.available += amount,
        Bucket::Reserved => balance.reserved += amount,
        Bucket::Outside => unreachable!("what is outside is in no balance"),
    }
    balance.version = place.version;
    balance.sequence = cause;
}
