//! From events to rows: the tables of the ledger follow from the events alone.
//!
//! Invariant: an output that contradicts the rows so far makes no row, and neither does any output after it.

use std::collections::BTreeMap;

use market::{
    Accepted, AccountId, AssetId, Bucket, BustReason, Event, InstrumentId, LedgerEntry,
    LedgerPlace, MoneyEvent, OrderId, Output, PastTrade, Price, Quantity, Replaced, Restated,
    Sequence, SessionId, Timestamp, TradeBusted, TradeCorrected, TradeId, Traded, VenueEvent,
};

use super::{
    query::rows,
    schema::{
        AccountRow, AssetRow, BalanceRow, BustRow, EntryRow, FillRole, FillRow, InstrumentRow,
        OrderRow, OrderState, Row, SessionRow, Table, TradeRow, Value,
    },
    store::{Filter, LedgerStore, StoreError},
};

/// The rows of the tables that change rows.
#[derive(Debug, Default)]
struct Rows {
    assets: BTreeMap<AssetId, AssetRow>,
    accounts: BTreeMap<AccountId, AccountRow>,
    instruments: BTreeMap<InstrumentId, InstrumentRow>,
    sessions: BTreeMap<SessionId, SessionRow>,
    orders: BTreeMap<OrderId, OrderRow>,
    balances: BTreeMap<(AccountId, AssetId), BalanceRow>,
}

/// New or changed rows, each in its final state.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// The store has all rows of inputs up to here.
    pub after: Sequence,
    /// With this batch the store has all rows of inputs up to here.
    pub sequence: Sequence,
    changed: Rows,
    trades: Vec<TradeRow>,
    busts: Vec<BustRow>,
    fills: Vec<FillRow>,
    entries: Vec<EntryRow>,
}

impl RowBatch {
    /// An empty batch, after the rows of the store.
    pub fn new(after: Sequence) -> Self {
        Self { after, sequence: after, ..Self::default() }
    }

    pub fn row_count(&self) -> usize {
        let changed = &self.changed;
        changed.assets.len()
            + changed.accounts.len()
            + changed.instruments.len()
            + changed.sessions.len()
            + changed.orders.len()
            + changed.balances.len()
            + self.trades.len()
            + self.busts.len()
            + self.fills.len()
            + self.entries.len()
    }

    /// Passes each row of a table with its values to `each`, until that fails.
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
            Table::Assets => rows(self.changed.assets.values(), each),
            Table::Accounts => rows(self.changed.accounts.values(), each),
            Table::Instruments => rows(self.changed.instruments.values(), each),
            Table::Sessions => rows(self.changed.sessions.values(), each),
            Table::Orders => rows(self.changed.orders.values(), each),
            Table::Trades => rows(&self.trades, each),
            Table::Busts => rows(&self.busts, each),
            Table::Fills => rows(&self.fills, each),
            Table::Entries => rows(&self.entries, each),
            Table::Balances => rows(self.changed.balances.values(), each),
        }
    }
}

/// The state of the tables after an input, and the rows that no store has yet.
///
/// It keeps the rows that later ones need: all but trades, fills, entries and orders that are done. About 200 bytes a
/// live order.
#[derive(Debug, Default)]
pub struct Projection {
    /// The projection has all inputs up to here.
    sequence: Sequence,
    /// Entries of the input at `sequence` so far.
    entry_count: u32,
    /// The input of the present output, and its time.
    cause: Sequence,
    timestamp: Timestamp,
    rows: Rows,
    /// The rows new or changed since the last store.
    pub batch: RowBatch,
    contradiction: Option<StoreError>,
}

/// Puts a row into the tables and into the changed rows.
fn put<K: Ord + Copy, R: Copy>(
    all: &mut BTreeMap<K, R>,
    changed: &mut BTreeMap<K, R>,
    key: K,
    row: R,
) {
    all.insert(key, row);
    changed.insert(key, row);
}

impl Projection {
    /// Continues at the position of a store.
    ///
    /// # Errors
    /// The store cannot be read, or has a row that does not parse.
    pub fn load(store: &mut dyn LedgerStore, sequence: Sequence) -> Result<Self, StoreError> {
        fn by<K: Ord, R: Row>(
            store: &mut dyn LedgerStore,
            filter: &Filter,
            key: impl Fn(&R) -> K,
        ) -> Result<BTreeMap<K, R>, StoreError> {
            Ok(rows(store, filter)?.into_iter().map(|row| (key(&row), row)).collect())
        }
        let every = Filter::default();
        let live = Filter { live: true, ..every };
        let rows = Rows {
            assets: by(store, &every, |row: &AssetRow| row.asset_id)?,
            accounts: by(store, &every, |row: &AccountRow| row.account_id)?,
            instruments: by(store, &every, |row: &InstrumentRow| row.instrument_id)?,
            sessions: by(store, &every, |row: &SessionRow| row.session_id)?,
            orders: by(store, &live, |row: &OrderRow| row.order_id)?,
            balances: by(store, &every, |row: &BalanceRow| (row.account_id, row.asset_id))?,
        };
        Ok(Self { sequence, rows, batch: RowBatch::new(sequence), ..Self::default() })
    }

    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Takes the next output. Ignores outputs of inputs already taken.
    pub fn take(&mut self, output: &Output) {
        if output.cause > self.sequence && self.contradiction.is_none() {
            self.contradiction = self.apply(output).err();
        }
    }

    /// Ends an input: all outputs of inputs up to `sequence` were taken.
    ///
    /// # Errors
    /// An output contradicts the rows so far: another program changed them.
    pub fn complete(&mut self, sequence: Sequence) -> Result<(), StoreError> {
        if let Some(error) = self.contradiction.take() {
            return Err(error);
        }
        if sequence > self.sequence {
            self.completed(sequence);
        }
        Ok(())
    }

    fn completed(&mut self, sequence: Sequence) {
        self.sequence = sequence;
        self.entry_count = 0;
        self.batch.sequence = sequence;
    }

    /// True if a commit would move the position of the store.
    pub fn is_ahead(&self) -> bool {
        self.batch.sequence > self.batch.after
    }

    /// Notes that all rows so far are in the store.
    pub fn stored(&mut self) {
        self.batch = RowBatch::new(self.batch.sequence);
    }

    fn apply(&mut self, output: &Output) -> Result<(), StoreError> {
        let Output { cause, timestamp, event } = *output;
        if self.sequence.next() < cause {
            self.completed(Sequence(cause.0 - 1));
        }
        (self.cause, self.timestamp) = (cause, timestamp);
        let (rows, changed) = (&mut self.rows, &mut self.batch.changed);
        match event {
            Event::InstrumentAdded(added) => {
                let (instrument_id, symbol) = (added.instrument_id, added.symbol);
                let row = InstrumentRow { instrument_id, symbol };
                put(&mut rows.instruments, &mut changed.instruments, instrument_id, row);
            }
            Event::SessionAdded(added) => {
                let row = SessionRow {
                    session_id: added.session_id,
                    username: added.username,
                    firm: added.firm,
                    account_id: AccountId::VENUE,
                };
                put(&mut rows.sessions, &mut changed.sessions, row.session_id, row);
            }
            Event::Accepted(accepted) => self.accepted(&accepted)?,
            Event::Replaced(replaced) => self.replaced(&replaced)?,
            Event::Restated(restated) => self.restated(&restated)?,
            Event::Triggered(it) => {
                self.came_in(it.order_id_before, it.order_id, Some(it.price))?;
            }
            Event::Released(it) => self.came_in(it.order_id_before, it.order_id, None)?,
            Event::Booked(booked) => {
                self.change(booked.order_id, |order| order.price = booked.price)?;
            }
            Event::Traded(traded) => self.traded(&traded)?,
            Event::SelfMatchPrevented(it) => self.reduce(it.order_id, it.leaves)?,
            Event::Canceled(it) => self.reduce(it.order_id, it.leaves)?,
            Event::Modified(it) => {
                self.change(it.order_id, |order| order.side = it.side)?;
                self.reduce(it.order_id, it.leaves)?;
            }
            Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })) => {
                self.busted(trade.trade_id, reason, None);
            }
            Event::Venue(VenueEvent::TradeCorrected(TradeCorrected { busted, trade, reason })) => {
                self.busted(busted, reason, Some(&trade));
            }
            Event::Ledger(entry) => self.moved(&entry)?,
            Event::Money(money) => self.money(&money)?,
            Event::System(_)
            | Event::Rejected(_)
            | Event::CancelHeld(_)
            | Event::MassCanceled(_)
            | Event::EntrySwitched(_)
            | Event::AccountQueried(_)
            | Event::Noted(_)
            | Event::Venue(_) => {}
        }
        Ok(())
    }

    fn accepted(&mut self, accepted: &Accepted) -> Result<(), StoreError> {
        let session = self.rows.sessions.get(&accepted.key.session_id);
        self.add(OrderRow {
            order_id: accepted.order_id,
            account_id: session.map_or(AccountId::VENUE, |session| session.account_id),
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
            entered_sequence: self.cause,
            entered_timestamp: self.timestamp,
            changed_sequence: self.cause,
            changed_timestamp: self.timestamp,
        })
    }

    fn replaced(&mut self, replaced: &Replaced) -> Result<(), StoreError> {
        let session = self.rows.sessions.get(&replaced.key.session_id);
        let account_id = session.map_or(AccountId::VENUE, |session| session.account_id);
        let (before, leaves) = (replaced.original_order_id, replaced.leaves.quantity());
        self.renew(before, OrderState::Replaced, replaced.order_id, leaves, |order| {
            *order = OrderRow {
                account_id,
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
                ..*order
            };
        })
    }

    fn restated(&mut self, restated: &Restated) -> Result<(), StoreError> {
        let Restated { order_id_before, order_id, leaves, side, display, price, .. } = *restated;
        if order_id == order_id_before {
            self.change(order_id, |order| (order.price, order.display) = (price, display))?;
            return self.reduce(order_id, leaves);
        }
        self.renew(order_id_before, OrderState::Restated, order_id, leaves, |order| {
            (order.side, order.display, order.price) = (side, display, price);
        })
    }

    /// A waiting order enters the book under another order id, perhaps with another limit.
    fn came_in(
        &mut self,
        order_id_before: OrderId,
        order_id: OrderId,
        price: Option<Price>,
    ) -> Result<(), StoreError> {
        let order = self.rows.orders.get(&order_id_before);
        let leaves = order.map_or(Quantity::ZERO, |order| order.leaves);
        self.renew(order_id_before, OrderState::Restated, order_id, leaves, |order| {
            order.price = price.unwrap_or(order.price);
        })
    }

    /// Ends an order in `state`; another takes its place, with `leaves` lots open.
    fn renew(
        &mut self,
        order_id_before: OrderId,
        state: OrderState,
        order_id: OrderId,
        leaves: Quantity,
        change: impl FnOnce(&mut OrderRow),
    ) -> Result<(), StoreError> {
        let before = self.change(order_id_before, |order| {
            (order.leaves, order.state) = (Quantity::ZERO, state);
        })?;
        let mut order = OrderRow {
            order_id,
            quantity: leaves,
            executed: Quantity::ZERO,
            leaves,
            state: OrderState::Live,
            original_order_id: order_id_before,
            entered_sequence: self.cause,
            entered_timestamp: self.timestamp,
            ..before
        };
        change(&mut order);
        self.add(order)
    }

    fn add(&mut self, order: OrderRow) -> Result<(), StoreError> {
        if let Some(known) = self.rows.orders.insert(order.order_id, order) {
            return Err(self.contradiction(&format!("{known:?} is live")));
        }
        self.batch.changed.orders.insert(order.order_id, order);
        Ok(())
    }

    /// Changes a live order, and returns its new state.
    fn change(
        &mut self,
        order_id: OrderId,
        change: impl FnOnce(&mut OrderRow),
    ) -> Result<OrderRow, StoreError> {
        let Some(order) = self.rows.orders.get_mut(&order_id) else {
            return Err(self.contradiction(&format!("order {order_id} is not live")));
        };
        change(order);
        (order.changed_sequence, order.changed_timestamp) = (self.cause, self.timestamp);
        let order = *order;
        self.batch.changed.orders.insert(order_id, order);
        if order.state != OrderState::Live {
            self.rows.orders.remove(&order_id);
        }
        Ok(order)
    }

    /// Cancels lots of an order; `leaves` stay open.
    fn reduce(&mut self, order_id: OrderId, leaves: Quantity) -> Result<(), StoreError> {
        let reduced = self.change(order_id, |order| {
            order.leaves = leaves;
            if leaves == Quantity::ZERO {
                order.state = OrderState::Canceled;
            }
        });
        reduced.map(|_| ())
    }

    fn traded(&mut self, traded: &Traded) -> Result<(), StoreError> {
        let Traded { trade_id, instrument_id, price, quantity, .. } = *traded;
        let (sequence, timestamp) = (self.cause, self.timestamp);
        self.batch.trades.push(TradeRow {
            trade_id,
            sequence,
            timestamp,
            instrument_id,
            price,
            quantity,
            taker_side: traded.taker_side,
            maker_order_id: traded.maker.order_id,
            taker_order_id: traded.taker.order_id,
        });
        for (role, fill) in [(FillRole::Maker, traded.maker), (FillRole::Taker, traded.taker)] {
            let order = self.change(fill.order_id, |order| {
                order.executed = Quantity(order.executed.0.saturating_add(quantity.0));
                order.leaves = fill.leaves;
                if fill.leaves == Quantity::ZERO {
                    order.state = OrderState::Filled;
                }
            })?;
            self.batch.fills.push(FillRow {
                account_id: order.account_id,
                trade_id,
                role,
                order_id: fill.order_id,
                session_id: order.session_id,
                sequence,
                timestamp,
                instrument_id,
                side: order.side,
                price,
                quantity,
                leaves: fill.leaves,
            });
        }
        Ok(())
    }

    fn busted(&mut self, trade_id: TradeId, reason: BustReason, new: Option<&PastTrade>) {
        self.batch.busts.push(BustRow {
            trade_id,
            sequence: self.cause,
            timestamp: self.timestamp,
            reason,
            new_trade_id: new.map_or(TradeId(0), |trade| trade.trade_id),
            new_price: new.map_or(Price::ZERO, |trade| trade.price),
            new_quantity: new.map_or(Quantity::ZERO, |trade| trade.quantity),
        });
    }

    fn moved(&mut self, entry: &LedgerEntry) -> Result<(), StoreError> {
        self.entry_count += 1;
        let row = EntryRow {
            sequence: self.cause,
            nth: self.entry_count,
            timestamp: self.timestamp,
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
        self.batch.entries.push(row);
        for change in changes(&row) {
            match change {
                Change::Balance { place, amount } => {
                    let balance = balance_of(&mut self.rows.balances, place, entry.asset_id);
                    apply(balance, place, amount, self.cause);
                    let key = (place.account_id, entry.asset_id);
                    self.batch.changed.balances.insert(key, *balance);
                }
                Change::Issued { version, amount } => {
                    let Some(asset) = self.rows.assets.get_mut(&entry.asset_id) else {
                        return Err(self.contradiction(&format!("no asset {}", entry.asset_id)));
                    };
                    asset.issued += amount;
                    asset.version = version;
                    self.batch.changed.assets.insert(entry.asset_id, *asset);
                }
            }
        }
        Ok(())
    }

    fn money(&mut self, money: &MoneyEvent) -> Result<(), StoreError> {
        let (rows, changed) = (&mut self.rows, &mut self.batch.changed);
        match money {
            MoneyEvent::AssetAdded(asset) => {
                let row = AssetRow {
                    asset_id: asset.asset_id,
                    name: asset.name,
                    decimals: asset.decimals,
                    issued: 0,
                    version: 0,
                };
                put(&mut rows.assets, &mut changed.assets, row.asset_id, row);
            }
            MoneyEvent::AccountAdded(added) => {
                let row = AccountRow { account_id: added.account_id, name: added.name, stopped: 0 };
                put(&mut rows.accounts, &mut changed.accounts, row.account_id, row);
            }
            MoneyEvent::SessionAssigned(assigned) => {
                let Some(row) = rows.sessions.get_mut(&assigned.session_id) else {
                    return Err(self.contradiction(&format!("no session {}", assigned.session_id)));
                };
                row.account_id = assigned.account_id;
                changed.sessions.insert(row.session_id, *row);
            }
            MoneyEvent::AccountStopped(stopped) => {
                if let Some(row) = rows.accounts.get_mut(&stopped.account_id) {
                    row.stopped = u8::from(stopped.stopped);
                    changed.accounts.insert(row.account_id, *row);
                }
            }
            MoneyEvent::TermsSet(_)
            | MoneyEvent::FeesSet(_)
            | MoneyEvent::AccountSet(_)
            | MoneyEvent::Declined(_) => {}
        }
        Ok(())
    }

    fn contradiction(&self, what: &str) -> StoreError {
        StoreError::corrupt(format!(
            "the ledger store contradicts the events of input {}: {what}; move the store away, and it is \
             made again from the journal",
            self.cause
        ))
    }
}

/// The change at one end of a movement.
pub(crate) enum Change {
    Balance {
        /// The place of the balance, with its bucket.
        place: LedgerPlace,
        amount: i128,
    },
    /// The amount of the asset in total.
    Issued {
        /// The number of movements in or out.
        version: u64,
        amount: i128,
    },
}

/// The changes of a movement: one end loses the amount that the other gains.
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
        // An amount that leaves the outside world is issued.
        Bucket::Outside => Change::Issued { version: place.version, amount: -amount },
        Bucket::Available | Bucket::Reserved => Change::Balance { place, amount },
    })
}

/// The balance at an end of a movement; `None` if there was none.
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

/// Adds an amount to a balance; a negative amount is subtracted.
pub(crate) fn apply(balance: &mut BalanceRow, place: LedgerPlace, amount: i128, cause: Sequence) {
    match place.bucket {
        Bucket::Available => balance.available += amount,
        Bucket::Reserved => balance.reserved += amount,
        Bucket::Outside => unreachable!("what is outside is in no balance"),
    }
    balance.version = place.version;
    balance.sequence = cause;
}
