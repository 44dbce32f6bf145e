//! Filling tables: multi-row statements, by several connections at the same time.
//!
//! InnoDB's fast bulk insert (`unique_checks=0`) is not used. It locks a table exclusively for the
//! first transaction that fills it, so that parallel loading would become serial.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::db::{Database, DbError, ErrorKind, Session};

/// Bytes of a multi-row INSERT, well below every server's limit for a statement.
const STATEMENT_BYTES: usize = 256 << 10;

/// Statements of a transaction. A commit waits for the log's disk, so it is not done after each.
const STATEMENTS_PER_COMMIT: u32 = 16;

/// How often the observer is called.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Lets `threads` connections (0 counts as 1) take pieces 0 to `pieces` − 1 in turn, and write each
/// with `write`. From time to time `observer` gets how many rows there are and how many there will
/// be (`rows`, roughly). It may return false to give up, which is an error.
pub(crate) fn fill(
    database: &Database,
    threads: usize,
    pieces: u64,
    rows: u64,
    write: &(dyn Fn(u64, &mut Writer<'_>) -> Result<(), DbError> + Sync),
    observer: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), DbError> {
    let (next, written, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let work = || -> Result<(), DbError> {
        let session = database.connect()?;
        let mut writer = Writer { session, written: &written, stop: &stop, statements: 0 };
        writer.session.begin()?;
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return writer.session.commit();
            }
            write(piece, &mut writer)?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let result = work();
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            if !observer(written.load(Ordering::Relaxed).min(rows), rows) {
                stop.store(true, Ordering::Relaxed);
            }
            thread::sleep(TELL_EVERY.min(Duration::from_millis(1 + rows / 100)));
        }
        let panicked = |_| Err(DbError::data("a loading thread panicked"));
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked));
        // The others gave up because of another one's error, or because the observer returned
        // false.
        let errors = ended.filter_map(Result::err);
        errors.min_by_key(|error| error.kind == ErrorKind::Usage).map_or(Ok(()), Err)
    })?;
    if stop.load(Ordering::Relaxed) { Err(given_up()) } else { Ok(()) }
}

fn given_up() -> DbError {
    DbError::usage("loading was given up; the tables are incomplete")
}

/// Sends rows in batches.
pub(crate) struct Writer<'a> {
    session: Box<dyn Session>,
    written: &'a AtomicU64,
    stop: &'a AtomicBool,
    statements: u32,
}

impl Writer<'_> {
    /// Sends a batch, and empties it.
    pub(crate) fn send(&mut self, batch: &mut Batch<'_>) -> Result<(), DbError> {
        if batch.rows == 0 {
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(given_up());
        }
        self.session.run(&batch.sql)?;
        self.written.fetch_add(batch.rows, Ordering::Relaxed);
        batch.clear();
        self.statements += 1;
        if self.statements.is_multiple_of(STATEMENTS_PER_COMMIT) {
            self.session.commit()?;
            self.session.begin()?;
        }
        Ok(())
    }
}

/// A multi-row INSERT that grows.
pub(crate) struct Batch<'a> {
    table: &'a str,
    sql: String,
    rows: u64,
}

impl<'a> Batch<'a> {
    /// An empty one for a table, whose name a list of columns may follow.
    pub(crate) fn new(table: &'a str) -> Self {
        let mut batch = Self { table, sql: String::new(), rows: 0 };
        batch.clear();
        batch
    }

    fn clear(&mut self) {
        self.sql.clear();
        self.sql.push_str("INSERT INTO ");
        self.sql.push_str(self.table);
        self.sql.push_str(" VALUES ");
        self.rows = 0;
    }

    /// The buffer for the next tuple.
    pub(crate) fn row(&mut self) -> &mut String {
        if self.rows > 0 {
            self.sql.push(',');
        }
        self.rows += 1;
        &mut self.sql
    }

    /// Whether it has the target length of a statement.
    pub(crate) fn is_full(&self) -> bool {
        self.sql.len() >= STATEMENT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_statement() {
        let mut batch = Batch::new("t (a)");
        for value in 1..=3 {
            batch.row().push_str(&format!("({value})"));
        }
        assert_eq!((batch.sql.as_str(), batch.rows), ("INSERT INTO t (a) VALUES (1),(2),(3)", 3));
        assert!(!batch.is_full());
        batch.clear();
        batch.row().push_str("(4)");
        assert_eq!((batch.sql.as_str(), batch.rows), ("INSERT INTO t (a) VALUES (4)", 1));
    }
}
