//! What the clients of the scenes do.

use headworks_policy::random::Random;
use headworks_workload::db::{Database, DbError, Session, Value};
use headworks_workload::driver::{Client, Request};
use headworks_workload::priority;
use std::time::Duration;

/// A request, again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// A transaction of two reads and a change. Half of them change one of ten hot rows.
    Transaction,
    /// Sums up some thousand rows: milliseconds of work.
    Sum,
    /// Changes a row of pgbench's largest table.
    Commit,
}

/// Rows of the table `item`, those of them that are hot, and those that a sum reads.
const ROWS: i64 = crate::neighbours::site::ROWS;
const HOT: i64 = 10;
const SUMMED: i64 = 4_000;

/// Rows of pgbench's largest table.
pub(super) const ACCOUNTS: i64 = 1_000_000;

/// One connection.
pub(super) struct Guest {
    session: Box<dyn Session>,
    random: Random,
    act: Act,
    pause: Duration,
    row: i64,
}

impl Guest {
    /// Between requests it pauses for `pause` on average, exponentially distributed. A client that
    /// pauses gets a processor at once afterwards, as on another machine.
    pub(super) fn connect(
        database: &Database,
        act: Act,
        pause: Duration,
        random: Random,
    ) -> Result<Guest, DbError> {
        if !pause.is_zero() {
            priority::go_ahead();
        }
        Ok(Guest { session: database.connect()?, random, act, pause, row: 0 })
    }
}

impl Client for Guest {
    fn next(&mut self) -> Request {
        self.row = match self.act {
            Act::Transaction if self.random.within(0, 1) == 0 => self.random.within(1, HOT),
            Act::Transaction => self.random.within(1, ROWS),
            Act::Sum => self.random.within(1, ROWS - SUMMED),
            Act::Commit => self.random.within(1, ACCOUNTS),
        };
        let after = Duration::from_secs_f64(self.random.exponential(self.pause.as_secs_f64()));
        Request { kind: 0, before: Duration::ZERO, after }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let row = [Value::Int(self.row)];
        match self.act {
            Act::Sum => {
                let range = [Value::Int(self.row), Value::Int(self.row + SUMMED - 1)];
                let sum = "SELECT SUM(v) FROM item WHERE id BETWEEN ? AND ?";
                self.session.query(sum, &range).map(drop)
            }
            Act::Commit => {
                let change = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = ?";
                self.session.query(change, &row).map(drop)
            }
            Act::Transaction => {
                let done = self.transaction(&row);
                if done.is_err() {
                    let _ = self.session.run("ROLLBACK");
                }
                done
            }
        }
    }
}

impl Guest {
    fn transaction(&mut self, row: &[Value]) -> Result<(), DbError> {
        let other = [Value::Int(self.random.within(1, ROWS))];
        self.session.run("BEGIN")?;
        self.session.query("SELECT v FROM item WHERE id = ?", &other)?;
        self.session.query("UPDATE item SET v = v + 1 WHERE id = ?", row)?;
        self.session.query("SELECT v FROM item WHERE id = ?", row)?;
        self.session.run("COMMIT").map(drop)
    }
}
