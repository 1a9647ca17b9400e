//! The store in a file of SQLite: the same tables, for every program that reads SQLite.
//!
//! An amount that does not fit in 64 bits is text there; all others are integers.

use std::{path::Path, time::Duration};

use rusqlite::{
    Connection, ErrorCode, ToSql, params_from_iter,
    types::{ToSqlOutput, Value as SqlValue, ValueRef},
};

use super::{
    projection::RowBatch,
    schema::{Kind, Table, Value},
    sql::{Dialect, position, select},
    store::{
        Filter, LedgerStore, StoreError, StorePosition, check_position, check_version, make_folder,
    },
};

/// The longest wait of a commit for a reader.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const DIALECT: Dialect = Dialect { prefix: "", type_of: sql_type, table_end: " WITHOUT ROWID" };

pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Opens a file, or creates it with its tables.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_folder(path)?;
        let open = || -> rusqlite::Result<(Self, u64)> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(&format!("BEGIN IMMEDIATE; {} COMMIT;", DIALECT.create()))?;
            let version: i64 =
                connection.query_row("SELECT schema FROM position", [], |row| row.get(0))?;
            Ok((Self { connection }, version.cast_unsigned()))
        };
        let (store, version) = open().map_err(|error| failed(&error))?;
        check_version(path.display(), version)?;
        Ok(store)
    }

    fn read_position(connection: &Connection) -> rusqlite::Result<Option<StorePosition>> {
        connection.query_row("SELECT journal_id, sequence FROM position", [], |row| {
            let journal_id: Option<i64> = row.get(0)?;
            Ok(journal_id.zip(row.get(1)?).map(|(id, sequence)| position(id, sequence)))
        })
    }
}

impl LedgerStore for Sqlite {
    fn position(&mut self) -> Result<Option<StorePosition>, StoreError> {
        Self::read_position(&self.connection).map_err(|error| failed(&error))
    }

    fn commit(&mut self, journal_id: u64, batch: &RowBatch) -> Result<(), StoreError> {
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
            Ok(false) => Err(StoreError::corrupt(format!("{} has an invalid row", table.name()))),
            Err(error) => Err(failed(&error)),
        }
    }
}

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

/// Without a type, a number too large for an integer stays text and is not rounded.
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
