//! Loading: tables in parallel, each in the order of its ids, then their indexes.

use super::tables::{self, Tables};
use crate::bulk::{self, Batch, Writer};
use crate::db::{Database, DbError};

/// How to load.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Connections that load at the same time; 0 counts as 1. More than one for each table have no
    /// use.
    pub threads: usize,
    /// Removes tables of these names first. Without it they are an error.
    pub replace: bool,
}

impl Default for LoadOptions {
    /// Two threads, nothing replaced.
    fn default() -> Self {
        Self { threads: 2, replace: false }
    }
}

/// Creates and fills the tables. From time to time `observer` gets how many rows there are and how
/// many there will be. It may return false to give up.
pub fn load(
    database: &Database,
    tables: &Tables,
    options: &LoadOptions,
    observer: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), DbError> {
    let mut session = database.connect()?;
    if options.replace {
        tables::drop(session.as_mut(), tables)?;
    }
    tables::create(session.as_mut(), tables)?;
    // Each table is one piece: its pages are full if its rows come in order.
    let write = |piece: u64, writer: &mut Writer<'_>| fill(tables, piece as usize + 1, writer);
    let (pieces, total) = (tables.count as u64, tables.total());
    bulk::fill(database, options.threads, pieces, total, &write, observer)?;
    tables::finish(session.as_mut(), tables)?;
    observer(total, total);
    Ok(())
}

fn fill(tables: &Tables, table: usize, writer: &mut Writer<'_>) -> Result<(), DbError> {
    let mut random = tables.stream(table);
    let columns = format!("sbtest{table} (id, k, c, pad)");
    let mut batch = Batch::new(&columns);
    for id in 1..=tables.rows {
        tables.row(id, &mut random, batch.row());
        if batch.is_full() {
            writer.send(&mut batch)?;
        }
    }
    writer.send(&mut batch)
}
