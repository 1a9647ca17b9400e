//! Stores for the rows of the ledger, behind one trait.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use market::{AccountId, Sequence};

use super::{
    embedded::{Embedded, SharedDatabase},
    projection::RowBatch,
    schema::{SCHEMA_VERSION, Table, Value},
};
use crate::config::{LedgerConfig, LedgerStoreName};

/// The journal of a store, and the last input whose rows the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePosition {
    /// The journal whose inputs caused the rows.
    pub journal_id: u64,
    /// The last input whose rows are stored: all rows of earlier inputs are there, and none of later ones.
    pub sequence: Sequence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub account_id: Option<AccountId>,
    /// Of orders, only the live ones.
    pub live: bool,
    /// Only rows before this place, see [`Table::place_columns`].
    pub before: Option<[u64; 2]>,
    /// At most this many of the last rows, in reverse order; `None` is all rows in order.
    pub last: Option<usize>,
}

impl Filter {
    pub fn of(account_id: Option<AccountId>) -> Self {
        Self { account_id, ..Self::default() }
    }
}

/// A store of the ledger's tables.
///
/// Rows and position are committed together or not at all, so that after a
/// crash the writer continues at the position, and the rows of every input are stored once.
pub trait LedgerStore: Send {
    /// The position of the store; `None` before its first row.
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError>;

    /// Commits the rows of a batch, new or replacing those with their keys, and the position, as one transaction.
    ///
    /// # Errors
    /// Nothing of the batch is stored; but if the connection broke, all of it may be, and the position tells which.
    /// [`StoreErrorKind::Moved`] if the position is not where the batch begins.
    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError>;

    /// Passes the rows of a table to `each` by their keys, until that returns false.
    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError>;

    /// True if a reader may keep the store open between two queries while the writer opens it again.
    fn may_be_kept(&self) -> bool {
        true
    }
}

/// The failure of an operation of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The store is down, held by another process, full or slow: worth another try.
    Unavailable,
    /// Another process has written to the store; open it again.
    Moved,
    /// The store is of another journal or another version: trying again does not help.
    Foreign,
    Corrupt,
}

impl StoreError {
    /// An error that may pass: worth another try.
    pub fn unavailable(what: impl fmt::Display) -> Self {
        Self { kind: StoreErrorKind::Unavailable, what: what.to_string() }
    }

    pub fn corrupt(what: impl fmt::Display) -> Self {
        Self { kind: StoreErrorKind::Corrupt, what: what.to_string() }
    }

    pub fn foreign(what: impl fmt::Display) -> Self {
        Self { kind: StoreErrorKind::Foreign, what: what.to_string() }
    }

    /// The position is not where the batch begins.
    pub fn moved(found: Option<StorePosition>, batch: &RowBatch) -> Self {
        let found = found.map_or(Sequence::NONE, |position| position.sequence);
        let what = format!(
            "the ledger store is at input {found}, expected {}: another process writes to it",
            batch.after
        );
        Self { kind: StoreErrorKind::Moved, what }
    }

    pub const fn may_pass(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Moved)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StoreError {}

/// A URL with its password hidden.
fn without_password(url: &str) -> String {
    let hidden = || {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (login, _) = rest[..end].rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}://{user}:***{}", &rest[login.len()..]))
    };
    hidden().unwrap_or_else(|| url.to_owned())
}

/// Checks that a batch follows the position of a store; stores call it before they write.
pub(crate) fn check_position(
    found: Option<StorePosition>,
    journal_id: u64,
    batch: &RowBatch,
) -> Result<(), StoreError> {
    if let Some(position) = found
        && position.journal_id != journal_id
    {
        return Err(foreign_journal(position, journal_id));
    }
    if found.map_or(Sequence::NONE, |position| position.sequence) == batch.after {
        Ok(())
    } else {
        Err(StoreError::moved(found, batch))
    }
}

/// Refuses a store with tables of another version.
pub(crate) fn check_version(place: impl fmt::Display, version: u64) -> Result<(), StoreError> {
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    Err(StoreError::foreign(format!(
        "the ledger store {place} has tables of version {version}, and this damrak reads version \
         {SCHEMA_VERSION}"
    )))
}

/// Creates the folder of a file.
pub(crate) fn make_folder(file: &Path) -> Result<(), StoreError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|error| {
        StoreError::unavailable(format!("cannot make {}: {error}", folder.display()))
    })
}

/// The error for a store of another journal.
pub(crate) fn foreign_journal(position: StorePosition, journal_id: u64) -> StoreError {
    StoreError::foreign(format!(
        "the ledger store is of journal {:016x}, and this one is {journal_id:016x}",
        position.journal_id
    ))
}

/// The kind and place of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Embedded(PathBuf),
    Sqlite(PathBuf),
    Postgres(String),
}

impl Location {
    /// The store of a configuration; `None` if it keeps none.
    pub fn of(config: &LedgerConfig) -> Option<Self> {
        match config.store {
            LedgerStoreName::None => None,
            LedgerStoreName::Embedded => Some(Self::Embedded(config.path.clone())),
            LedgerStoreName::Sqlite => Some(Self::Sqlite(config.path.clone())),
            LedgerStoreName::Postgres => Some(Self::Postgres(config.url.clone())),
        }
    }

    /// Opens the store for writing, and creates it if there is none.
    pub fn open(&self) -> Result<Box<dyn LedgerStore>, StoreError> {
        match self {
            Self::Embedded(path) => Ok(Box::new(Embedded::open(path)?)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Box::new(super::sqlite::Sqlite::open(path)?)),
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(_) => Err(StoreError::foreign(
                "this damrak was built without SQLite; build it with `--features sqlite`",
            )),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Box::new(super::postgres::Postgres::open(url)?)),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Err(StoreError::foreign(
                "this damrak was built without PostgreSQL; build it with `--features postgres`",
            )),
        }
    }

    /// True if there is a store to read: a file that exists, or a server.
    pub fn exists(&self) -> bool {
        match self {
            Self::Embedded(path) | Self::Sqlite(path) => path.exists(),
            Self::Postgres(_) => true,
        }
    }
}

/// Access to one store, for its writer and for readers in the same process.
#[derive(Clone, Debug)]
pub struct Access {
    location: Location,
    embedded: SharedDatabase,
}

impl Access {
    pub fn new(location: Location) -> Self {
        Self { location, embedded: SharedDatabase::default() }
    }

    /// Opens the store for writing, and creates it if there is none.
    pub fn open(&self) -> Result<Box<dyn LedgerStore>, StoreError> {
        match &self.location {
            Location::Embedded(path) => {
                let store = Embedded::open(path)?;
                store.share(&self.embedded);
                Ok(Box::new(store))
            }
            other => other.open(),
        }
    }

    /// Opens the store for reading, while another user writes it.
    ///
    /// # Errors
    /// The store is down; the embedded store also while no writer has it open.
    pub fn open_to_read(&self) -> Result<Box<dyn LedgerStore>, StoreError> {
        match &self.location {
            Location::Embedded(path) => match Embedded::shared(&self.embedded, path) {
                Some(store) => Ok(Box::new(store)),
                None => Err(StoreError::unavailable("the ledger store is not open now")),
            },
            other => other.open(),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.location, f)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(path) => write!(f, "embedded {}", path.display()),
            Self::Sqlite(path) => write!(f, "sqlite {}", path.display()),
            // Without the password.
            Self::Postgres(url) => write!(f, "postgres {}", without_password(url)),
        }
    }
}
