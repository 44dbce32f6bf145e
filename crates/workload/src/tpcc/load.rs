//! Loading the population (clause 4.3): tables, rows in parallel over warehouses, indexes.
//!
//! InnoDB's fast bulk insert (`unique_checks=0`) is not used: it locks a table exclusively for the first transaction
//! that fills it, so that parallel loading would become serial.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::population::{DISTRICTS, Population};
use super::{rows, schema};
use crate::db::{Database, DbError, Session};
use crate::random::Random;

/// Bytes of a multi-row INSERT, well below every server's limit for one statement.
const STATEMENT_BYTES: usize = 256 << 10;

/// Statements of a transaction. A commit waits for the log to be on the disk, so not after each.
const STATEMENTS_PER_COMMIT: u32 = 16;

/// How often the observer is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Stream numbers of the population's random values, apart from those of terminals.
const STREAM_ITEMS: u64 = 1 << 40;

/// How to load.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Connections that load at the same time; 0 is taken for 1.
    pub threads: usize,
    /// Removes the tables of an earlier population first. Without it they are an error.
    pub replace: bool,
    /// Declares the foreign keys, as tpcc-mysql does: each insert then also locks the rows it refers to.
    pub foreign_keys: bool,
}

impl Default for LoadOptions {
    /// Two threads, nothing replaced, no foreign keys.
    fn default() -> Self {
        Self { threads: 2, replace: false, foreign_keys: false }
    }
}

/// Creates and fills the tables. `observer` is told from time to time how many rows are there and how many there will
/// be, about (the number of order lines is random), and may return false to give up.
pub fn load(
    database: &Database,
    population: &Population,
    options: &LoadOptions,
    observer: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), DbError> {
    let mut session = database.connect()?;
    if options.replace {
        schema::drop(session.as_mut())?;
    }
    schema::create(session.as_mut())?;

    let (next, written, stop) = (AtomicI64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let total = population.rows();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let result = work(database, population, &next, &written, &stop);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            if !observer(written.load(Ordering::Relaxed).min(total), total) {
                stop.store(true, Ordering::Relaxed);
            }
            thread::sleep(TELL_EVERY.min(Duration::from_millis(total / 100)));
        }
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(DbError::data("a loading thread panicked")))
        })
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(DbError::usage("loading was given up; the tables are incomplete"));
    }
    schema::finish(session.as_mut(), options.foreign_keys)?;
    // The note comes last: without it, the data is known to be incomplete.
    population.leave_note(session.as_mut())?;
    observer(total, total);
    Ok(())
}

/// Takes pieces until none is left: items are piece 0, warehouse w is piece w.
fn work(
    database: &Database,
    population: &Population,
    next: &AtomicI64,
    written: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), DbError> {
    let mut writer = Writer { session: database.connect()?, written, stop, statements: 0 };
    writer.session.begin()?;
    loop {
        match next.fetch_add(1, Ordering::Relaxed) {
            0 => items(population, &mut writer)?,
            w if w <= population.warehouses => warehouse(population, w, &mut writer)?,
            _ => break,
        }
    }
    writer.session.commit()
}

/// Sends rows in batches.
struct Writer<'a> {
    session: Box<dyn Session>,
    written: &'a AtomicU64,
    stop: &'a AtomicBool,
    statements: u32,
}

impl Writer<'_> {
    fn send(&mut self, batch: &mut Batch) -> Result<(), DbError> {
        if batch.rows == 0 {
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(DbError::usage("loading was given up; the tables are incomplete"));
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
struct Batch {
    table: &'static str,
    sql: String,
    rows: u64,
}

impl Batch {
    fn new(table: &'static str) -> Self {
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

    /// Where the next tuple goes.
    fn row(&mut self) -> &mut String {
        if self.rows > 0 {
            self.sql.push(',');
        }
        self.rows += 1;
        &mut self.sql
    }

    fn is_full(&self) -> bool {
        self.sql.len() >= STATEMENT_BYTES
    }
}

fn items(population: &Population, writer: &mut Writer<'_>) -> Result<(), DbError> {
    let mut random = Random::new(population.seed, STREAM_ITEMS);
    let mut batch = Batch::new("item");
    for (id, original) in (1..).zip(rows::tenth(population.items(), &mut random)) {
        rows::item(id, original, &mut random, batch.row());
        if batch.is_full() {
            writer.send(&mut batch)?;
        }
    }
    writer.send(&mut batch)
}

fn warehouse(population: &Population, w: i64, writer: &mut Writer<'_>) -> Result<(), DbError> {
    let mut random = Random::new(population.seed, STREAM_ITEMS + w.unsigned_abs());
    let mut batch = Batch::new("warehouse");
    rows::warehouse(population, w, &mut random, batch.row());
    writer.send(&mut batch)?;

    let mut batch = Batch::new("stock");
    for (id, original) in (1..).zip(rows::tenth(population.items(), &mut random)) {
        rows::stock(w, id, original, &mut random, batch.row());
        if batch.is_full() {
            writer.send(&mut batch)?;
        }
    }
    writer.send(&mut batch)?;
    (1..=DISTRICTS).try_for_each(|d| district(population, (w, d), &mut random, writer))
}

fn district(
    population: &Population,
    (w, d): (i64, i64),
    random: &mut Random,
    writer: &mut Writer<'_>,
) -> Result<(), DbError> {
    let mut batch = Batch::new("district");
    rows::district(population, w, d, random, batch.row());
    writer.send(&mut batch)?;

    let customers = population.customers();
    let (mut batch, mut history) = (Batch::new("customer"), Batch::new("history"));
    for (c, bad_credit) in (1..).zip(rows::tenth(customers, random)) {
        rows::customer(population, (w, d, c), bad_credit, random, batch.row());
        rows::history((w, d, c), random, history.row());
        if batch.is_full() {
            writer.send(&mut batch)?;
            writer.send(&mut history)?;
        }
    }
    writer.send(&mut batch)?;
    writer.send(&mut history)?;

    // Each customer has one order, in random order (clause 4.3.3.1: a permutation).
    let mut buyers: Vec<i64> = (1..=customers).collect();
    random.shuffle(&mut buyers);
    let (mut orders, mut open, mut lines) =
        (Batch::new("orders"), Batch::new("new_orders"), Batch::new("order_line"));
    for (o, buyer) in (1..).zip(buyers) {
        let count = rows::order(population, (w, d, o), buyer, random, orders.row());
        if o > population.delivered() {
            let tuple = format!("({o},{d},{w})");
            open.row().push_str(&tuple);
        }
        for line in 1..=count {
            rows::order_line(population, (w, d, o), line, random, lines.row());
        }
        if lines.is_full() {
            writer.send(&mut orders)?;
            writer.send(&mut lines)?;
        }
    }
    writer.send(&mut orders)?;
    writer.send(&mut lines)?;
    writer.send(&mut open)
}
