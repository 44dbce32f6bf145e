//! The tables of the everyday loads, and the statements on them.

use std::fmt::Write;

use anyhow::{Context, Result};
use headworks_policy::random::Random;
use headworks_workload::db::{Dialect, Session};

/// Rows of the table that gets an index.
const WIDE_ROWS: i64 = 300_000;

/// Rows that bystanders change.
const OTHERS: i64 = 1_000;

pub(super) const BYSTAND: &str = "UPDATE other SET v = v + 1 WHERE id = ?";
pub(super) const READ: &str = "SELECT v FROM item WHERE id = ?";
pub(super) const CHANGE: &str = "UPDATE item SET v = v + 1 WHERE id = ?";
pub(super) const WANT_ROW: &str = "UPDATE wanted SET v = v + 1 WHERE id = 1";
/// It copies no rows, but needs the table exclusively.
pub(super) const ALTER: &str = "ALTER TABLE altered ALTER COLUMN v SET DEFAULT 1";
pub(super) const READ_ALTERED: &str = "SELECT v FROM altered WHERE id = 1";

/// Makes the tables, except `item`, which every site has.
pub(super) fn make(session: &mut dyn Session) -> Result<()> {
    let dialect = session.dialect();
    let numbers = |rows| match dialect {
        Dialect::MariaDb => format!("SELECT seq, seq % 1000 FROM seq_1_to_{rows}"),
        Dialect::PostgreSql => format!("SELECT g, g % 1000 FROM generate_series(1, {rows}) g"),
    };
    let serial = match dialect {
        Dialect::MariaDb => "BIGINT AUTO_INCREMENT",
        Dialect::PostgreSql => "BIGSERIAL",
    };
    let suffix = dialect.table_suffix();
    for (table, rows) in [("other", OTHERS), ("wanted", 1), ("altered", 10), ("wide", WIDE_ROWS)] {
        run(session, &format!("CREATE TABLE {table} (id INT PRIMARY KEY, v INT){suffix}"))?;
        run(session, &format!("INSERT INTO {table} {}", numbers(rows)))?;
    }
    run(
        session,
        &format!("CREATE TABLE imported (id {serial} PRIMARY KEY, v INT, t VARCHAR(100)){suffix}"),
    )
}

/// Brings the tables into the state that every run begins with.
pub(super) fn make_ready(session: &mut dyn Session) -> Result<()> {
    let statements: &[&str] = match session.dialect() {
        Dialect::MariaDb => &["TRUNCATE imported", "DROP INDEX IF EXISTS wide_v ON wide"],
        // No run pays for the dead rows or the checkpoint of an earlier one.
        Dialect::PostgreSql => {
            &["TRUNCATE imported", "DROP INDEX IF EXISTS wide_v", "VACUUM ANALYZE", "CHECKPOINT"]
        }
    };
    for statement in statements {
        run(session, statement)?;
    }
    for table in ["item", "wide"] {
        session.query(&format!("SELECT SUM(v) FROM {table}"), &[])?;
    }
    Ok(())
}

fn run(session: &mut dyn Session, statement: &str) -> Result<()> {
    session.run(statement).with_context(|| statement.to_owned())
}

/// A statement that computes. Its time is proportional to its units.
pub(super) fn long(dialect: Dialect, units: f64) -> String {
    let units = units.round().max(1.0);
    match dialect {
        Dialect::MariaDb => format!("SELECT BENCHMARK({units}, MD5('headworks'))"),
        Dialect::PostgreSql => {
            format!("SELECT SUM(x) FROM (SELECT generate_series(1, {units}::bigint) AS x) AS s")
        }
    }
}

/// An `INSERT` of many rows.
pub(super) fn batch(random: &mut Random, rows: usize) -> String {
    let mut text = "INSERT INTO imported (v, t) VALUES ".to_owned();
    for row in 0..rows {
        let comma = if row == 0 { "" } else { "," };
        let number = random.within(1, 1_000_000_000);
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}({number},'{number:0>80}')");
    }
    text
}

/// The statements that build and drop an index.
pub(super) fn index(dialect: Dialect) -> [&'static str; 2] {
    let drop = match dialect {
        Dialect::MariaDb => "DROP INDEX wide_v ON wide",
        Dialect::PostgreSql => "DROP INDEX wide_v",
    };
    ["CREATE INDEX wide_v ON wide (v)", drop]
}

/// The statements that take and free a user lock.
pub(super) fn user_lock(dialect: Dialect, which: usize) -> [String; 2] {
    match dialect {
        Dialect::MariaDb => {
            [format!("SELECT GET_LOCK('k{which}', 60)"), format!("SELECT RELEASE_LOCK('k{which}')")]
        }
        Dialect::PostgreSql => [
            format!("SELECT pg_advisory_lock({which})"),
            format!("SELECT pg_advisory_unlock({which})"),
        ],
    }
}

/// The server's own sleep function.
pub(super) fn sleep(dialect: Dialect, seconds: u64) -> String {
    match dialect {
        Dialect::MariaDb => format!("SELECT SLEEP({seconds})"),
        Dialect::PostgreSql => format!("SELECT pg_sleep({seconds})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_what_they_are_asked_for() {
        let batch = batch(&mut Random::stream(1, 1), 3);
        assert_eq!(batch.matches("),(").count(), 2, "{batch}");
        assert_eq!(long(Dialect::MariaDb, 2.6), "SELECT BENCHMARK(3, MD5('headworks'))");
        assert!(long(Dialect::PostgreSql, 0.0).contains("(1, 1::bigint)"));
    }
}
