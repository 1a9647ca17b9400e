//! Where the rows of the ledger are kept, behind one trait.

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
    /// The journal whose inputs caused its rows.
    pub journal_id: u64,
    /// The last input whose rows it has; it has those of all before, and none of any after.
    pub sequence: Sequence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub account_id: Option<AccountId>,
    /// Of orders, those that are live.
    pub live: bool,
    /// Those before this place, see [`Table::place_columns`].
    pub before: Option<[u64; 2]>,
    /// The last so many of these, shown last first; all, first first, if not said.
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
    /// Up to where it goes; `None` while it has never had a row.
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError>;

    /// Commits the rows of a batch, new or in the place of those with their keys, and the position, as
    /// one transaction.
    ///
    /// # Errors
    /// Nothing of it is in the store; but where the connection broke, all of it may be, and the
    /// position says which. [`StoreErrorKind::Moved`] if the position is not where the batch begins.
    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError>;

    /// Shows the rows of a table by their keys, until `each` says false.
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
    /// It is down, held by another process, full or slow: worth another try.
    Unavailable,
    /// Another process has written to it; open it again.
    Moved,
    /// It is of another journal, or of another version: trying again does not help.
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

/// What a position must be for a batch to follow it; stores ask before they write.
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

/// Makes the folder of a file.
pub(crate) fn make_folder(file: &Path) -> Result<(), StoreError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|error| {
        StoreError::unavailable(format!("cannot make {}: {error}", folder.display()))
    })
}

/// A store of another journal.
pub(crate) fn foreign_journal(position: StorePosition, journal_id: u64) -> StoreError {
    StoreError::foreign(format!(
        "the ledger store is of journal {:016x}, and this one is {journal_id:016x}",
        position.journal_id
    ))
}

/// Where a store is, and of which kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Embedded(PathBuf),
    Sqlite(PathBuf),
    Postgres(String),
}

impl Location {
    /// What a configuration says; `None` where no store is kept.
    pub fn of(config: &LedgerConfig) -> Option<Self> {
        match config.store {
            LedgerStoreName::None => None,
            LedgerStoreName::Embedded => Some(Self::Embedded(config.path.clone())),
            LedgerStoreName::Sqlite => Some(Self::Sqlite(config.path.clone())),
            LedgerStoreName::Postgres => Some(Self::Postgres(config.url.clone())),
        }
    }

    /// Opens it for writing, and makes it if there is none.
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

    /// True if there is something to read: a file that exists, or a server.
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

    /// Opens it for writing, and makes it if there is none.
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

    /// Opens it for reading, while another writes it.
    ///
    /// # Errors
    /// It is down; the embedded store also while nobody writes it.
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
