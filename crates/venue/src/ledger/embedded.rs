//! The store that needs nothing installed: one file, a B-tree a table, by the crate redb.
//!
//! A key is the key columns, each a big-endian number, so that keys sort as rows do. A value is the other columns, in
//! order. Two more trees index the rows of an account:
//! `ledger_entries_by_account` (account, sequence, nth) and `orders_live` (account, order).

use std::{
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use market::{AccountId, Sequence, Text};
use redb::{
    Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition, TableError,
    backends::InMemoryBackend,
};

use super::{
    projection::RowBatch,
    schema::{Kind, OrderState, SCHEMA_VERSION, Table, Value},
    store::{
        Filter, LedgerStore, StoreError, StorePosition, check_position, check_version, make_folder,
    },
};

type Tree<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

const POSITION: TableDefinition<'static, &'static str, u64> = TableDefinition::new("position");
const ENTRIES_BY_ACCOUNT: Tree<'static> = TableDefinition::new("ledger_entries_by_account");
const ORDERS_LIVE: Tree<'static> = TableDefinition::new("orders_live");

/// Memory for pages that were read or written lately.
const CACHE_BYTES: usize = 64 << 20;

pub struct Embedded {
    database: Arc<Database>,
    place: PathBuf,
}

/// The open database, for other users in this process. They do not keep it open.
pub type SharedDatabase = Arc<Mutex<Weak<Database>>>;

impl Embedded {
    /// Opens a file, or makes it with its folder. One process at a time.
    ///
    /// # Errors
    /// Another process has it open, it cannot be created, or it is another kind of file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let place = path.to_owned();
        make_folder(path)?;
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let database = opened.map_err(|error| {
            let what = format!("cannot open the ledger store {}: {error}", path.display());
            match error {
                DatabaseError::DatabaseAlreadyOpen => StoreError::unavailable(format!(
                    "the ledger store {} is open in another process",
                    path.display()
                )),
                DatabaseError::Storage(StorageError::Io(error))
                    if error.kind() != std::io::ErrorKind::InvalidData =>
                {
                    StoreError::unavailable(what)
                }
                _ => StoreError::corrupt(what),
            }
        })?;
        let store = Self { database: Arc::new(database), place };
        store.check_version()?;
        Ok(store)
    }

    /// Lets other users in this process read it.
    pub fn share(&self, with: &SharedDatabase) {
        // Nothing panics with the lock held.
        *with.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&self.database);
    }

    /// The open database; `None` while none is open.
    pub fn shared(from: &SharedDatabase, place: &Path) -> Option<Self> {
        let database = from.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        Some(Self { database, place: place.to_owned() })
    }

    /// A database that is lost when it is dropped.
    ///
    /// # Panics
    /// There is no memory for it.
    pub fn in_memory() -> Self {
        let opened = Database::builder().create_with_backend(InMemoryBackend::new());
        let database = opened.expect("memory cannot be held by another or be damaged");
        let store = Self { database: Arc::new(database), place: "memory".into() };
        store.check_version().expect("what is new is of this version");
        store
    }

    /// Creates the parts of a new store, and refuses a store of another version.
    fn check_version(&self) -> Result<(), StoreError> {
        match self.read_position("schema")? {
            Some(version) => check_version(self.place.display(), version),
            None => self.write(|write| {
                write.open_table(POSITION)?.insert("schema", SCHEMA_VERSION)?;
                write.open_table(ENTRIES_BY_ACCOUNT)?;
                write.open_table(ORDERS_LIVE)?;
                for table in Table::ALL {
                    write.open_table(Tree::new(table.name()))?;
                }
                Ok(())
            }),
        }
    }

    fn read_position(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let read = || -> Result<Option<u64>, redb::Error> {
            let read = self.database.begin_read()?;
            match read.open_table(POSITION) {
                Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        read().map_err(|error| self.failed(&error))
    }

    fn write(
        &self,
        work: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let write = self.database.begin_write()?;
            work(&write)?;
            write.commit()?;
            Ok(())
        };
        write().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &redb::Error) -> StoreError {
        let what = format!("the ledger store {}: {error}", self.place.display());
        match error {
            redb::Error::Corrupted(_) | redb::Error::TableTypeMismatch { .. } => {
                StoreError::corrupt(what)
            }
            _ => StoreError::unavailable(what),
        }
    }
}

impl LedgerStore for Embedded {
    fn may_be_kept(&self) -> bool {
        false
    }

    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        let Some(journal_id) = self.read_position("journal_id")? else { return Ok(None) };
        let sequence = self.read_position("sequence")?.unwrap_or(0);
        Ok(Some(StorePosition { journal_id, sequence: Sequence(sequence) }))
    }

    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError> {
        check_position(self.position()?, journal_id, batch)?;
        self.write(|write| {
            for table in Table::ALL {
                let mut tree = write.open_table(Tree::new(table.name()))?;
                let mut by_account = match table {
                    Table::Entries => Some(write.open_table(ENTRIES_BY_ACCOUNT)?),
                    Table::Orders => Some(write.open_table(ORDERS_LIVE)?),
                    _ => None,
                };
                let (mut key, mut value, mut index) = (Vec::new(), Vec::new(), Vec::new());
                batch.each(*table, &mut |values| -> Result<(), redb::Error> {
                    encode(*table, values, &mut key, &mut value);
                    tree.insert(key.as_slice(), value.as_slice())?;
                    let Some(by_account) = &mut by_account else { return Ok(()) };
                    let mut previous = None;
                    for column in table.account_columns() {
                        let account = &values[table.column(column).expect("a column of it")];
                        if previous.replace(account) == Some(account) {
                            continue;
                        }
                        index.clear();
                        push(Kind::Integer(4), account, &mut index);
                        index.extend_from_slice(&key);
                        if *table == Table::Entries || is_live(values) {
                            by_account.insert(index.as_slice(), [].as_slice())?;
                        } else {
                            by_account.remove(index.as_slice())?;
                        }
                    }
                    Ok(())
                })?;
            }
            let mut position = write.open_table(POSITION)?;
            position.insert("journal_id", journal_id)?;
            position.insert("sequence", batch.sequence.0)?;
            Ok(())
        })
    }

    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        let (mut wrong, mut shown) = (false, 0);
        let mut show = |key: &[u8], value: &[u8]| match decode(table, key, value) {
            Some(values) if !is_of(table, &values, filter) => true,
            Some(values) => {
                shown += 1;
                each(&values) && filter.last != Some(shown)
            }
            None => {
                wrong = true;
                false
            }
        };
        let mut scan = || -> Result<(), redb::Error> {
            let read = self.database.begin_read()?;
            let tree = read.open_table(Tree::new(table.name()))?;
            let index = match table {
                Table::Entries if filter.account_id.is_some() => Some(ENTRIES_BY_ACCOUNT),
                Table::Orders if filter.live => Some(ORDERS_LIVE),
                _ => None,
            };
            // The key of a fill or a balance begins with the account, as that of an index does.
            let begins_with_account = table.columns()[0].name == "account_id" || index.is_some();
            let (from, end) = bounds(table, filter, begins_with_account);
            let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let bounds = (Bound::Included(from.as_slice()), end);
            let is_last_first = filter.last.is_some();
            if filter.last == Some(0) {
                return Ok(());
            }
            let index = index.map(|index| read.open_table(index)).transpose()?;
            let mut range = index.as_ref().unwrap_or(&tree).range::<&[u8]>(bounds)?;
            while let Some(pair) = if is_last_first { range.next_back() } else { range.next() } {
                let (key, value) = pair?;
                let continues = if index.is_some() {
                    let key = key.value().get(4..).unwrap_or(&[]);
                    let row = tree.get(key)?;
                    show(key, row.as_ref().map_or([].as_slice(), |value| value.value()))
                } else {
                    show(key.value(), value.value())
                };
                if !continues {
                    break;
                }
            }
            Ok(())
        };
        scan().map_err(|error| self.failed(&error))?;
        if wrong {
            let what = format!("{}: {} has an invalid row", self.place.display(), table.name());
            return Err(StoreError::corrupt(what));
        }
        Ok(())
    }
}

/// The key range of a filter's rows: the first key, and the end (exclusive) if there is one.
fn bounds(table: Table, filter: &Filter, begins_with_account: bool) -> (Vec<u8>, Option<Vec<u8>>) {
    let account_id = filter.account_id.filter(|_| begins_with_account);
    if begins_with_account && account_id.is_none() {
        return (Vec::new(), None);
    }
    let from = account_id.map_or(Vec::new(), |AccountId(id)| id.to_be_bytes().to_vec());
    let Some(before) = filter.before else {
        // The last of 2³² accounts has no next one.
        let next = account_id.and_then(|AccountId(id)| id.checked_add(1));
        return (from, next.map(|id| id.to_be_bytes().to_vec()));
    };
    let mut end = from.clone();
    for (column, place) in table.place_columns().iter().zip(before) {
        let kind = table.columns()[table.column(column).expect("a column of it")].kind;
        push(kind, &Value::Integer(place), &mut end);
    }
    (from, Some(end))
}

fn is_live(values: &[Value]) -> bool {
    let state = Table::Orders.column("state").expect("an order has a state");
    values[state] == Value::Word(OrderState::Live as u8)
}

/// True if a row passes the filter.
pub(crate) fn is_of(table: Table, values: &[Value], filter: &Filter) -> bool {
    let is_of_account = filter.account_id.is_none_or(|account_id| {
        let wanted = Value::Integer(u64::from(account_id.0));
        let mut columns = table.account_columns().iter();
        columns.any(|column| values[table.column(column).expect("a column of it")] == wanted)
    });
    let is_before = filter.before.is_none_or(|before| table.place(values) < before);
    is_of_account && is_before && (!filter.live || table != Table::Orders || is_live(values))
}

fn encode(table: Table, values: &[Value], key: &mut Vec<u8>, value: &mut Vec<u8>) {
    key.clear();
    value.clear();
    assert!(values.len() == table.columns().len(), "a value a column");
    for (nth, (column, it)) in table.columns().iter().zip(values).enumerate() {
        push(column.kind, it, if nth < table.key_len() { key } else { value });
    }
}

fn push(kind: Kind, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        (Kind::Integer(len), Value::Integer(number)) => {
            out.extend_from_slice(&number.to_be_bytes()[8 - usize::from(len)..]);
        }
        (Kind::Amount, Value::Amount(amount)) => out.extend_from_slice(&amount.to_be_bytes()),
        (Kind::Word(_), Value::Word(code)) => out.push(*code),
        (Kind::Text(len), Value::Text(text)) => {
            out.extend_from_slice(&text.as_bytes()[..usize::from(len)]);
        }
        _ => unreachable!("{value:?} is not of kind {kind:?}"),
    }
}

fn decode(table: Table, key: &[u8], value: &[u8]) -> Option<Vec<Value>> {
    let (mut key, mut value) = (key, value);
    let mut values = Vec::with_capacity(table.columns().len());
    for (nth, column) in table.columns().iter().enumerate() {
        values.push(pull(column.kind, if nth < table.key_len() { &mut key } else { &mut value })?);
    }
    (key.is_empty() && value.is_empty()).then_some(values)
}

fn pull(kind: Kind, bytes: &mut &[u8]) -> Option<Value> {
    let mut take = |len: usize| {
        let (taken, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(taken)
    };
    Some(match kind {
        Kind::Integer(len) => {
            let mut number = [0; 8];
            number[8 - usize::from(len)..].copy_from_slice(take(len.into())?);
            Value::Integer(u64::from_be_bytes(number))
        }
        Kind::Amount => Value::Amount(i128::from_be_bytes(*take(16)?.first_chunk()?)),
        Kind::Word(_) => {
            let code = take(1)?[0];
            kind.word(code)?;
            Value::Word(code)
        }
        Kind::Text(len) => {
            let mut text = [b' '; 14];
            text[..usize::from(len)].copy_from_slice(take(len.into())?);
            Value::Text(Text::from_bytes(text)?)
        }
    })
}
