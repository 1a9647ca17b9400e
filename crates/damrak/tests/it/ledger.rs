//! The ledger: whichever part dies, and whenever, every input is in it once.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use engine::{QUANTITY_LIMIT, QUANTITY_MAX};
use journal::{Durability, Folder, WriterOptions};
use market::{
    AccountId, AddAccount, AddAsset, AssetId, AssignSession, BustReason, BustTrade, Command,
    CorrectTrade, Deposit, Input, LedgerKind, MoneyClass, MoneyCommand, MoneyTerms, Price,
    Quantity, Sequence, SessionId, SetFees, SetTerms, Text, Timestamp, TradeId, Transfer, Units,
    VenueCommand, Withdraw,
};
use proof::{
    generator::{CommandFlow, Profile},
    rng::Rng,
};
use ring::{Agent, AtomicGauge};
use venue::{
    config::OldSegments,
    follower::Follower,
    ledger::{
        LedgerGauges, LedgerWriter, LedgerWriterConfig,
        embedded::Embedded,
        projection::{Projection, RowBatch},
        query::{self, Ledger},
        schema::{BalanceRow, EntryRow, FillRow, OrderRow, Table, Value},
        store::{Filter, LedgerStore, Location, StoreError, StoreErrorKind, StorePosition},
        verify::verify,
    },
    recovery::{self, Recovery},
    stage::{Following, SnapshotFigures, SnapshotPlan, Snapshots},
};

const JOURNAL_ID: u64 = 0x1ed6;

/// A market with money, from a seed: accounts of which some run dry, fees, all kinds of orders, trades busted and
/// corrected, and occasionally a movement that does not come from a trade.
fn inputs(seed: u64, count: u64) -> Vec<Input> {
    inputs_of(seed, count, 1)
}

/// The same inputs with quantities multiplied by `scale`.
fn inputs_of(seed: u64, count: u64, scale: u64) -> Vec<Input> {
    let quantity_max = if scale == 1 { QUANTITY_MAX } else { QUANTITY_LIMIT };
    let money = |command| Command::Money(command);
    let text = |name: &str| Text::new(name).unwrap();
    let mut commands = vec![
        money(MoneyCommand::AddAsset(AddAsset { name: text("BASE"), decimals: 0 })),
        money(MoneyCommand::AddAsset(AddAsset { name: text("QUOTE"), decimals: 2 })),
    ];
    for number in 1..=4 {
        let name = text(&format!("ACC{number}"));
        let account_id = AccountId(number);
        commands.push(money(MoneyCommand::AddAccount(AddAccount { name })));
        for (asset, amount) in [(1, 3_000_000), (2, 60_000_000_000_000)] {
            let (asset_id, amount) = (AssetId(asset), Units::new(amount * u128::from(scale)));
            commands.push(money(MoneyCommand::Deposit(Deposit { account_id, asset_id, amount })));
        }
    }
    // The rebate last: the rebate of a tier must not exceed another tier's fee.
    for (tier, maker_ppm) in (0..16).map(|tier| (tier, 0)).chain([(0, -50)]) {
        let fees = SetFees { tier, maker_ppm, taker_ppm: 200 };
        commands.push(money(MoneyCommand::SetFees(fees)));
    }
    let profile = Profile { sessions: 4, quantity_scale: scale, ..Profile::default() };
    let mut flow = CommandFlow::new(seed, profile);
    let mut rng = Rng::new(seed ^ 0x1ed6);
    let mut session_count = 0;
    while (commands.len() as u64) < count {
        let command = flow.next_command();
        if let Command::Money(_) = command {
            continue; // its terms; those below have money
        }
        commands.push(command);
        match command {
            Command::AddInstrument(added) => {
                let terms = MoneyTerms {
                    class: MoneyClass::Cash,
                    base: AssetId(1),
                    quote: AssetId(2),
                    base_units: 1,
                    quote_numerator: 1,
                    quote_denominator: 1,
                    quantity_max,
                };
                let symbol = added.symbol;
                commands.push(money(MoneyCommand::SetTerms(SetTerms { symbol, terms })));
            }
            Command::AddSession(_) => {
                session_count += 1;
                let (session_id, account_id) =
                    (SessionId(session_count), AccountId(session_count.into()));
                let assign = AssignSession { session_id, account_id };
                commands.push(money(MoneyCommand::AssignSession(assign)));
            }
            _ => {}
        }
        let account_id = AccountId(rng.range(1, 4) as u32);
        let (asset_id, amount) =
            (AssetId(rng.range(1, 2) as u16), Units::new(rng.range(0, 900).into()));
        match rng.below(400) {
            0 => commands.push(money(MoneyCommand::Withdraw(Withdraw {
                account_id,
                asset_id,
                amount,
            }))),
            1 => {
                let (from, to) = (account_id, AccountId(rng.range(0, 5) as u32));
                commands.push(money(MoneyCommand::Transfer(Transfer {
                    from,
                    to,
                    asset_id,
                    amount,
                })));
            }
            kind @ 2..=5 => {
                let trade_id = TradeId(rng.range(1, commands.len() as u64 / 8));
                let reason = BustReason::Erroneous;
                let price = Price(100 * rng.range(9_990, 10_010));
                let quantity = Quantity(scale * rng.range(1, 4));
                commands.push(Command::Venue(match kind {
                    2 => VenueCommand::BustTrade(BustTrade { trade_id, reason }),
                    _ => VenueCommand::CorrectTrade(CorrectTrade {
                        trade_id,
                        price,
                        quantity,
                        reason,
                    }),
                }));
            }
            _ => {}
        }
    }
    let number = |(number, command): (usize, Command)| Input {
        sequence: Sequence(number as u64 + 1),
        timestamp: Timestamp(1_000_000_000 + number as u64 * 1_000),
        command,
    };
    commands.into_iter().take(count as usize).enumerate().map(number).collect()
}

fn journal_options() -> WriterOptions {
    WriterOptions { durability: Durability::Written, ..WriterOptions::new(JOURNAL_ID, 0) }
}

fn append(writer: &mut journal::Writer, input: &Input) {
    let mut payload = [0; Command::ENCODED_LEN_MAX];
    let len = input.command.encode(&mut payload);
    writer.append(input.sequence.0, input.timestamp.0, &payload[..len]).unwrap();
}

fn open_journal(folder: &Path) -> journal::Writer {
    let mut ignore = |_: journal::Record<'_>| Ok::<(), std::convert::Infallible>(());
    journal::open(Box::new(Folder::new(folder)), &journal_options(), &mut ignore).unwrap().0
}

fn write_journal(folder: &Path, inputs: &[Input]) {
    let mut writer = open_journal(folder);
    inputs.iter().for_each(|input| append(&mut writer, input));
    writer.commit().unwrap();
}

/// All rows of all tables.
fn contents(store: &mut dyn LedgerStore) -> Vec<(Table, Vec<Value>)> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        store
            .scan(*table, &Filter::default(), &mut |values| {
                rows.push((*table, values.to_vec()));
                true
            })
            .unwrap();
    }
    rows
}

fn assert_right(store: &mut dyn LedgerStore, journal: &Path) {
    let findings = verify(store, Some(journal)).unwrap();
    assert_eq!(findings.wrong, Vec::<String>::new());
}

fn stores(folder: &Path) -> Vec<Location> {
    let mut stores = vec![Location::Embedded(folder.join("l.redb"))];
    if cfg!(feature = "sqlite") {
        stores.push(Location::Sqlite(folder.join("l.sqlite")));
    }
    stores
}

/// After any number of interruptions a store has the rows that follow from the journal; the engine has the same
/// balances; and every kind of row occurred.
#[test]
fn a_store_catches_up_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    write_journal(&journal, &inputs(1, 8_000));
    let mut all = Vec::new();
    for location in stores(folder.path()) {
        for until in [1, 700, 5_345, 5_346, u64::MAX] {
            let mut store = location.open().unwrap();
            query::catch_up(&mut *store, &journal, until, &mut |_| {}).unwrap();
            assert_right(&mut *store, &journal);
        }
        let mut store = location.open().unwrap();
        all.push(contents(&mut *store));
        for table in Table::ALL {
            assert!(all[0].iter().any(|(of, _)| of == table), "{table:?} has rows");
        }
        for kind in [LedgerKind::Rebate, LedgerKind::Undo, LedgerKind::Correct] {
            let is_one = |values: &[Value]| values.contains(&Value::Word(kind.code()));
            let mut entries = all[0].iter().filter(|(of, _)| *of == Table::Entries);
            assert!(entries.any(|(_, values)| is_one(values)), "{kind:?} is met");
        }
    }
    assert!(all.iter().all(|contents| *contents == all[0]), "all stores say the same");
}

/// Every store keeps quantities of more than 32 bits and amounts of more than 64 bits unchanged, and returns them so.
#[test]
fn stores_keep_large_quantities() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    write_journal(&journal, &inputs_of(6, 6_000, 1 << 38));
    let mut all = Vec::new();
    for location in stores(folder.path()) {
        let mut store = location.open().unwrap();
        query::catch_up(&mut *store, &journal, u64::MAX, &mut |_| {}).unwrap();
        drop(store);
        let mut store = location.open().unwrap();
        assert_right(&mut *store, &journal);
        all.push(contents(&mut *store));
        let mut ledger = Ledger::new(store).unwrap();
        let filter = Filter::default();
        let most = ledger.rows::<OrderRow>(&filter).unwrap().into_iter().map(|row| row.quantity);
        assert_eq!(most.max(), Some(QUANTITY_LIMIT), "{location:?}");
        let large = Quantity(u32::MAX.into());
        let fills = ledger.rows::<FillRow>(&filter).unwrap();
        assert!(fills.iter().any(|row| large < row.quantity && large < row.leaves));
        let balances = ledger.rows::<BalanceRow>(&filter).unwrap();
        assert!(balances.iter().any(|row| i128::from(u64::MAX) < row.available));
    }
    assert!(all.iter().all(|contents| *contents == all[0]), "all stores say the same");
}

/// The rows of one account equal its rows among those of all accounts, in every store.
#[test]
fn answers_are_of_the_account() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    write_journal(&journal, &inputs(2, 8_000));
    for location in stores(folder.path()) {
        let mut store = location.open().unwrap();
        query::catch_up(&mut *store, &journal, u64::MAX, &mut |_| {}).unwrap();
        let mut ledger = Ledger::new(store).unwrap();
        let account = ledger.names().account("ACC2").unwrap();
        assert_eq!(account, AccountId(2));
        let (of, all) = (Filter::of(Some(account)), Filter::default());

        let fills = ledger.rows::<FillRow>(&all).unwrap();
        let own: Vec<_> = fills.iter().filter(|row| row.account_id == account).copied().collect();
        assert!(!own.is_empty() && own.len() < fills.len());
        assert_eq!(ledger.rows::<FillRow>(&of).unwrap(), own);

        let orders = ledger.rows::<OrderRow>(&Filter { live: true, ..all }).unwrap();
        let own: Vec<_> = orders.iter().filter(|row| row.account_id == account).copied().collect();
        assert!(!own.is_empty() && own.len() < orders.len());
        assert_eq!(ledger.rows::<OrderRow>(&Filter { live: true, ..of }).unwrap(), own);

        let history = ledger.rows::<EntryRow>(&all).unwrap();
        let is_own =
            |row: &&EntryRow| row.from_account_id == account || row.to_account_id == account;
        let own: Vec<_> = history.iter().filter(is_own).copied().collect();
        assert!(!own.is_empty() && own.len() < history.len());
        assert_eq!(ledger.rows::<EntryRow>(&of).unwrap(), own);
        assert_eq!(ledger.rows::<BalanceRow>(&of).unwrap().len(), 2);
        assert_eq!(ledger.rows::<EntryRow>(&Filter::of(Some(AccountId(99)))).unwrap(), []);
    }
}

/// A ledger changed by another program is reported as wrong, with the place.
#[test]
fn a_changed_ledger_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    write_journal(&journal, &inputs(3, 5_000));
    let mut store = Embedded::in_memory();
    query::catch_up(&mut store, &journal, 4_000, &mut |_| {}).unwrap();
    // Another market's rows over it: the position is right, the rows are not.
    let other = folder.path().join("other");
    write_journal(&other, &inputs(4, 5_000));
    let mut rows = Projection::load(&mut Embedded::in_memory(), Sequence::NONE).unwrap();
    let mut follower = Follower::from_the_first(&Folder::new(&other), None);
    while follower.poll(1_000, 4_100, &mut |line| line.each(|output| rows.take(output))).unwrap()
        > 0
    {}
    rows.complete(Sequence(4_100)).unwrap();
    rows.batch.after = Sequence(4_000);
    store.commit(JOURNAL_ID, &rows.batch).unwrap();
    let wrong = verify(&mut store, Some(&journal)).unwrap().wrong;
    assert!(wrong.iter().any(|what| what.contains("differs from the journal")), "{wrong:?}");
    assert!(!verify(&mut store, None).unwrap().wrong.is_empty(), "the entries alone tell");
}

/// A store of another journal, and one that is ahead of its journal, are refused; if two processes write into one
/// store, the second is stopped.
#[test]
fn foreign_stores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, short) = (folder.path().join("journal"), folder.path().join("short"));
    let all = inputs(5, 2_000);
    write_journal(&journal, &all);
    write_journal(&short, &all[..1_000]);
    let mut store = Embedded::in_memory();
    query::catch_up(&mut store, &journal, u64::MAX, &mut |_| {}).unwrap();
    let error = query::catch_up(&mut store, &short, u64::MAX, &mut |_| {}).err().unwrap();
    assert!(error.what.contains("goes up to input 2000"), "{error}");
    let batch = RowBatch::new(Sequence(1_999));
    assert_eq!(store.commit(JOURNAL_ID, &batch).unwrap_err().kind, StoreErrorKind::Moved);
    let batch = RowBatch::new(Sequence(2_000));
    assert_eq!(store.commit(7, &batch).unwrap_err().kind, StoreErrorKind::Foreign);
}

/// A store that fails on demand, before a commit or after it.
#[derive(Clone)]
struct Moody {
    store: Arc<Mutex<Embedded>>,
    rng: Arc<Mutex<Rng>>,
    /// One commit in this many fails; 0 is none.
    fails_one_in: u64,
}

impl Moody {
    fn fails(&self) -> bool {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        self.fails_one_in > 0 && rng.chance(1, self.fails_one_in)
    }

    fn store(&self) -> std::sync::MutexGuard<'_, Embedded> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerStore for Moody {
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        if self.fails() {
            return Err(StoreError::unavailable("it is down"));
        }
        self.store().position()
    }

    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError> {
        if self.fails() {
            return Err(StoreError::unavailable("it broke before the commit"));
        }
        self.store().commit(journal_id, batch)?;
        match self.fails() {
            true => Err(StoreError::unavailable("it broke after the commit")),
            false => Ok(()),
        }
    }

    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        self.store().scan(table, filter, each)
    }
}

/// The follower of a venue with a ledger and snapshots, turned by hand.
struct Beside {
    follower: Following,
    journaled: Arc<AtomicGauge>,
    ledger: Arc<LedgerGauges>,
    snapshots: Arc<SnapshotFigures>,
    now_ns: u64,
}

impl Beside {
    fn new(journal: &Path, recovery: &Recovery, store: &Moody, inputs: u64) -> Self {
        let journaled = Arc::new(AtomicGauge::new(recovery.state.engine.sequence().0));
        let plan = SnapshotPlan {
            inputs,
            time_ns: 0,
            archive_bytes: 1 << 20,
            old_segments: OldSegments::Remove,
        };
        let snapshots = Snapshots::new(plan, recovery.snapshot.map_or(0, |it| it.header.sequence));
        let figures = snapshots.figures();
        let store = store.clone();
        let config = LedgerWriterConfig {
            open: Box::new(move || Ok(Box::new(store.clone()) as Box<dyn LedgerStore>)),
            journal_id: JOURNAL_ID,
            commit_interval_ns: 5,
        };
        let ledger = LedgerWriter::new(config, journaled.get()).unwrap();
        let gauges = ledger.gauges();
        let storage = Box::new(Folder::new(journal));
        let follower =
            Following::new(storage, Arc::clone(&journaled), Some(snapshots), Some(ledger));
        Self { follower, journaled, ledger: gauges, snapshots: figures, now_ns: 1 }
    }
}

/// Beside a running venue, whatever the turns and failures, and whenever the process dies, the store ends with exactly
/// the rows of the journal. Meanwhile snapshots are made and old segments removed, but none that the ledger still
/// needs.
#[test]
fn every_input_is_in_the_store_once() {
    let (mut failures, mut snapshots, mut removed, mut behind) = (0, 0, 0, 0);
    for seed in 1..=9 {
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let (journal, whole) = (folder.path().join("journal"), folder.path().join("whole"));
        let all = inputs(seed, 2_500);
        write_journal(&whole, &all);
        let store = Moody {
            store: Arc::new(Mutex::new(Embedded::in_memory())),
            rng: Arc::new(Mutex::new(Rng::new(seed + 100))),
            fails_one_in: [0, 7, 40][seed as usize % 3],
        };
        let mut next = 0;
        while next < all.len() {
            // A start: the ledger goes on at its position.
            let options = WriterOptions { segment_bytes: 16 << 10, ..journal_options() };
            let mut recovery = recovery::resume(
                Box::new(Folder::new(&journal)),
                &mut Folder::new(&journal),
                &options,
                1 << 20,
                &mut |_| {},
            )
            .unwrap();
            assert_eq!(recovery.state.engine.sequence().0, next as u64);
            let mut beside = Beside::new(&journal, &recovery, &store, 150);
            let writer = &mut recovery.writer;
            let dies_at = (next + rng.range(1, 2_000) as usize).min(all.len());
            while next < dies_at {
                // Lulls, in which the ledger keeps up, and bursts, in which it cannot.
                let burst = if rng.chance(1, 3) { rng.range(1, 120) as usize } else { 1 };
                for input in all[next..dies_at].iter().take(burst) {
                    append(writer, input);
                    next += 1;
                }
                for _ in 0..rng.below(4) {
                    if rng.chance(1, 3) {
                        beside.journaled.set(writer.commit().unwrap());
                    }
                    // A store that is down is tried again after a while.
                    beside.now_ns += if rng.chance(1, 20) { 1_000_000_000 } else { 1 };
                    beside.follower.do_work(beside.now_ns).unwrap();
                }
                let position = beside.ledger.position.get();
                behind += u64::from(position < beside.snapshots.sequence.get());
            }
            beside.journaled.set(writer.commit().unwrap());
            if next == all.len() {
                // All rows are stored in the end, even without further inputs.
                for turn in 0.. {
                    beside.now_ns += 1_000_000;
                    beside.follower.do_work(beside.now_ns).unwrap();
                    if beside.ledger.position.get() == next as u64 {
                        break;
                    }
                    assert!(turn < 1_000_000, "seed {seed}: {:?}", beside.ledger);
                }
            } else if rng.chance(1, 2) {
                beside.follower.close();
            }
            failures += beside.ledger.failures.get();
            snapshots += beside.snapshots.made.get();
            removed += beside.snapshots.segments_removed.get();
            if rng.chance(1, 8) {
                assert_right(&mut *store.store(), &whole);
            }
        }
        assert_right(&mut *store.store(), &whole);
    }
    let counts = format!("{failures} {snapshots} {removed} {behind}");
    assert!(failures > 5 && snapshots > 20 && removed > 5 && behind > 20, "{counts}");
}
