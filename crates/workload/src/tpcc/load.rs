//! Loading the population (clause 4.3): tables, rows in parallel over warehouses, indexes.

use super::population::{DISTRICTS, Population};
use super::{rows, schema};
use crate::bulk::{self, Batch, Writer};
use crate::db::{Database, DbError};
use crate::random::Random;

/// Stream numbers of the population's random values, separate from those of terminals.
const STREAM_ITEMS: u64 = 1 << 40;

/// How to load.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Connections that load at the same time; 0 counts as 1.
    pub threads: usize,
    /// Removes the tables of an earlier population first. Without it they are an error.
    pub replace: bool,
    /// Declares the foreign keys, as tpcc-mysql does: each insert then also locks the rows it
    /// refers to.
    pub foreign_keys: bool,
}

impl Default for LoadOptions {
    /// Two threads, nothing replaced, no foreign keys.
    fn default() -> Self {
        Self { threads: 2, replace: false, foreign_keys: false }
    }
}

/// Creates and fills the tables. From time to time `observer` gets how many rows there are and
/// roughly how many there will be (the number of order lines is random). It may return false to
/// give up.
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
    // Items are piece 0, warehouse w is piece w.
    let write = |piece: u64, writer: &mut Writer<'_>| match piece as i64 {
        0 => items(population, writer),
        w => warehouse(population, w, writer),
    };
    let (pieces, total) = (1 + population.warehouses.unsigned_abs(), population.rows());
    bulk::fill(database, options.threads, pieces, total, &write, observer)?;
    schema::finish(session.as_mut(), options.foreign_keys)?;
    // The note comes last: without it, the data are incomplete.
    population.leave_note(session.as_mut())?;
    observer(total, total);
    Ok(())
}

fn items(population: &Population, writer: &mut Writer<'_>) -> Result<(), DbError> {
    let mut random = Random::stream(population.seed, STREAM_ITEMS);
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
    let mut random = Random::stream(population.seed, STREAM_ITEMS + w.unsigned_abs());
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
