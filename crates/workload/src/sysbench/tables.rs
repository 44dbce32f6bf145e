//! The tables and their rows, as in sysbench.
//!
//! Every row is a function of the seed, its table and the rows before it in that table, so tables
//! can be filled in any order.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::popularity::Popularity;
use crate::db::{DbError, Dialect, Session};
use crate::random::Random;

/// Stream numbers of the loaded rows, separate from those of users.
const STREAM_ROWS: u64 = 1 << 52;

/// Groups of eleven digits in `c` and in `pad`.
const C_GROUPS: usize = 10;
const PAD_GROUPS: usize = 5;

/// Characters of `c`: ten groups and the dashes between them.
pub(super) const C_CHARACTERS: usize = 12 * C_GROUPS - 1;

/// Characters of `pad`.
pub(super) const PAD_CHARACTERS: usize = 12 * PAD_GROUPS - 1;

/// Number and size of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Their number: `sbtest1`, `sbtest2` and so on.
    pub count: usize,
    /// Rows of each, with the ids from 1 on. A row takes some 250 bytes.
    pub rows: i64,
    /// The seed of all loaded data.
    pub seed: u64,
}

impl Tables {
    /// 1 to 64 tables (the limit of prepared statements at the same time) of 1 to 100,000,000 rows.
    pub fn new(count: usize, rows: i64, seed: u64) -> Result<Self, DbError> {
        if !(1..=64).contains(&count) {
            return Err(DbError::usage(format!(
                "the number of tables must be between 1 and 64, not {count}"
            )));
        }
        if !(1..=100_000_000).contains(&rows) {
            return Err(DbError::usage(format!(
                "the number of rows must be between 1 and 100,000,000, not {rows}"
            )));
        }
        Ok(Self { count, rows, seed })
    }

    /// The numbers of the tables.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.count
    }

    /// Rows of all tables.
    pub fn total(&self) -> u64 {
        self.count as u64 * self.rows.unsigned_abs()
    }

    /// The random values of a table's rows.
    pub(super) fn stream(&self, table: usize) -> Random {
        Random::stream(self.seed, STREAM_ROWS + table as u64)
    }

    /// Appends row `id` as a tuple. Rows must be made in the order of their ids.
    pub(super) fn row(&self, id: i64, random: &mut Random, sql: &mut String) {
        // As in sysbench, `k` has the default distribution of requested ids, so that its index has
        // as many equal values.
        let k = Popularity::Special.draw(self.rows, random);
        let _ = write!(sql, "({id},{k},'{}','{}')", c(random), pad(random));
    }
}

/// The contents of `c`: 119 characters.
pub(super) fn c(random: &mut Random) -> String {
    digits(C_GROUPS, random)
}

/// The contents of `pad`: 59 characters.
pub(super) fn pad(random: &mut Random) -> String {
    digits(PAD_GROUPS, random)
}

/// Groups of eleven digits with dashes between them.
fn digits(groups: usize, random: &mut Random) -> String {
    let mut text = String::with_capacity(12 * groups);
    for group in 0..groups {
        let dash = if group == 0 { "" } else { "-" };
        let _ = write!(text, "{dash}{:011}", random.within(0, 99_999_999_999));
    }
    text
}

/// Creates the empty tables.
pub(super) fn create(session: &mut dyn Session, tables: &Tables) -> Result<(), DbError> {
    let dialect = session.dialect();
    let id = match dialect {
        Dialect::MariaDb => "INTEGER NOT NULL AUTO_INCREMENT",
        Dialect::PostgreSql => "SERIAL",
    };
    for table in tables.numbers() {
        session.run(&format!(
            "CREATE TABLE sbtest{table} (id {id}, k INTEGER DEFAULT 0 NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
             pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)){}",
            dialect.table_suffix()
        ))?;
    }
    Ok(())
}

/// Removes what [`create`] makes, as far as it exists.
pub(super) fn drop(session: &mut dyn Session, tables: &Tables) -> Result<(), DbError> {
    tables
        .numbers()
        .try_for_each(|table| session.run(&format!("DROP TABLE IF EXISTS sbtest{table}")))
}

/// Makes the index on `k`, which is faster once the rows exist, and has the server analyse the
/// data.
pub(super) fn finish(session: &mut dyn Session, tables: &Tables) -> Result<(), DbError> {
    for table in tables.numbers() {
        session.run(&format!("CREATE INDEX k_{table} ON sbtest{table} (k)"))?;
        match session.dialect() {
            Dialect::MariaDb => session.run(&format!("ANALYZE TABLE sbtest{table}"))?,
            Dialect::PostgreSql => {
                session.run(&format!("ANALYZE sbtest{table}"))?;
                // An insert without an id gets a free one, as after sysbench's own loading.
                session.run(&format!(
                    "SELECT setval(pg_get_serial_sequence('sbtest{table}', 'id'), {})",
                    tables.rows
                ))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_look_like_sysbenchs() {
        let tables = Tables::new(2, 1_000, 7).unwrap();
        let row = |table| {
            let mut sql = String::new();
            tables.row(1, &mut tables.stream(table), &mut sql);
            sql
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
        let text = row(1);
        let mut values = text.trim_matches(['(', ')']).split(',');
        assert_eq!(values.next(), Some("1"));
        assert!((1..=1_000).contains(&values.next().unwrap().parse::<i64>().unwrap()));
        for (groups, characters) in [(C_GROUPS, C_CHARACTERS), (PAD_GROUPS, PAD_CHARACTERS)] {
            let value = values.next().unwrap().trim_matches('\'');
            assert_eq!((value.len(), value.split('-').count()), (characters, groups), "{value}");
            let mut parts = value.split('-');
            assert!(parts.all(|part| part.len() == 11 && part.parse::<u64>().is_ok()), "{value}");
        }
        assert_eq!((C_CHARACTERS, PAD_CHARACTERS, values.next()), (119, 59, None));
    }

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(Tables::new(10, 200_000, 1).unwrap().total(), 2_000_000);
        for (count, rows) in [(0, 1), (65, 1), (1, 0), (1, 100_000_001)] {
            assert!(Tables::new(count, rows, 1).is_err(), "{count}, {rows}");
        }
    }
}
