//! The store in a file of SQLite: the same tables, for everything that reads SQLite.
//!
//! An amount that does not fit in 64 bits is text there; all others are integers.

use std::{path::Path, time::Duration};

use market::Sequence;
use rusqlite::{
    Connection, ErrorCode, ToSql, params_from_iter,
    types::{ToSqlOutput, Value as SqlValue, ValueRef},
};

use super::{
    projection::Batch,
    schema::{Kind, SCHEMA_VERSION, Table, Value},
    sql::{key_columns, select},
    store::{Filter, LedgerStore, StoreError, StorePosition, check_position},
};

/// How long a commit waits for a reader.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Opens a file, or makes it, with its tables.
    ///
    /// # Errors
    /// It cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                StoreError::unavailable(format!("cannot make {}: {error}", folder.display()))
            })?;
        }
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        let store = Self { connection };
        store.prepare().map_err(|error| failed(&error))?;
        let version: i64 = store
            .connection
            .query_row("SELECT schema FROM position", [], |row| row.get(0))
            .map_err(|error| failed(&error))?;
        if u64::try_from(version) != Ok(SCHEMA_VERSION) {
            return Err(StoreError::foreign(format!(
                "{} has tables of version {version}, and this damrak knows version \
                 {SCHEMA_VERSION}",
                path.display()
            )));
        }
        Ok(store)
    }

    fn prepare(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let mut sql = String::from(
            "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY CHECK \
             (one = 1), schema INTEGER NOT NULL, journal_id INTEGER, sequence INTEGER);",
        );
        sql +=
            &format!("INSERT OR IGNORE INTO position (one, schema) VALUES (1, {SCHEMA_VERSION});");
        for table in Table::ALL {
            let columns: Vec<_> = table
                .columns()
                .iter()
                .map(|column| format!("{} {} NOT NULL", column.name, sql_type(column.kind)))
                .collect();
            sql += &format!(
                "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({})) WITHOUT ROWID;",
                table.name(),
                columns.join(", "),
                key_columns(*table)
            );
        }
        sql += "CREATE INDEX IF NOT EXISTS orders_live ON orders (account_id, order_id) \
                WHERE state = 'live';\
                CREATE INDEX IF NOT EXISTS ledger_entries_from ON ledger_entries \
                (from_account_id, sequence, nth);\
                CREATE INDEX IF NOT EXISTS ledger_entries_to ON ledger_entries \
                (to_account_id, sequence, nth);\
                COMMIT;";
        self.connection.execute_batch(&sql)
    }

    fn read_position(connection: &Connection) -> rusqlite::Result<Option<StorePosition>> {
        connection.query_row("SELECT journal_id, sequence FROM position", [], |row| {
            let (journal_id, sequence): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(journal_id.zip(sequence).map(|(journal_id, sequence)| StorePosition {
                journal_id: journal_id.cast_unsigned(),
                sequence: Sequence(sequence.cast_unsigned()),
            }))
        })
    }
}

impl LedgerStore for Sqlite {
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        Self::read_position(&self.connection).map_err(|error| failed(&error))
    }

    fn commit(&mut self, journal_id: u64, batch: &Batch) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(|error| failed(&error))?;
        let position = Self::read_position(&transaction).map_err(|error| failed(&error))?;
        check_position(position, journal_id, batch)?;
        let write = || -> rusqlite::Result<()> {
            for table in Table::ALL {
                let columns = table.columns();
                let places = vec!["?"; columns.len()].join(", ");
                let verb = if table.is_append_only() { "INSERT" } else { "INSERT OR REPLACE" };
                let mut insert = transaction
                    .prepare(&format!("{verb} INTO {} VALUES ({places})", table.name()))?;
                batch.each(*table, &mut |values| -> rusqlite::Result<()> {
                    let cells =
                        columns.iter().zip(values).map(|(column, it)| SqlCell(column.kind, it));
                    insert.execute(params_from_iter(cells)).map(|_| ())
                })?;
            }
            transaction.execute(
                "UPDATE position SET journal_id = ?, sequence = ?",
                (journal_id.cast_signed(), batch.sequence.0.cast_signed()),
            )?;
            Ok(())
        };
        write().map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))
    }

    fn scan(
        &mut self,
        table: Table,
        filter: &Filter,
        each: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(), StoreError> {
        let sql = select(table, "", filter);
        let mut scan = || -> rusqlite::Result<bool> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            let mut values = Vec::with_capacity(table.columns().len());
            while let Some(row) = rows.next()? {
                values.clear();
                for (nth, column) in table.columns().iter().enumerate() {
                    let Some(value) = read(column.kind, row.get_ref(nth)?) else {
                        return Ok(false);
                    };
                    values.push(value);
                }
                if !each(&values) {
                    break;
                }
            }
            Ok(true)
        };
        match scan() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(StoreError::corrupt(format!("{} has a row that is none", table.name())))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// A value as SQLite has it.
struct SqlCell<'a>(Kind, &'a Value);

impl ToSql for SqlCell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(match self.1 {
            Value::Integer(number) => SqlValue::Integer(
                i64::try_from(*number)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?,
            ),
            Value::Amount(amount) => match i64::try_from(*amount) {
                Ok(amount) => SqlValue::Integer(amount),
                Err(_) => SqlValue::Text(amount.to_string()),
            },
            Value::Word(_) | Value::Text(_) => SqlValue::Text(self.0.show(self.1).to_string()),
        }))
    }
}

fn read(kind: Kind, value: ValueRef<'_>) -> Option<Value> {
    match (kind, value) {
        (Kind::Integer(_), ValueRef::Integer(number)) => {
            u64::try_from(number).ok().map(Value::Integer)
        }
        (Kind::Amount, ValueRef::Integer(amount)) => Some(Value::Amount(amount.into())),
        (_, ValueRef::Text(text)) => kind.parse(str::from_utf8(text).ok()?),
        _ => None,
    }
}

/// Without a type, what does not fit in an integer stays the text it is, and is not rounded.
fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer(_) => "INTEGER",
        Kind::Amount => "",
        Kind::Word(_) | Kind::Text(_) => "TEXT",
    }
}

fn failed(error: &rusqlite::Error) -> StoreError {
    let what = format!("SQLite: {error}");
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::corrupt(what),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => StoreError::corrupt(what),
        _ => StoreError::unavailable(what),
    }
}
