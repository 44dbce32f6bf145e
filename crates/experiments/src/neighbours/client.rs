//! A client of the experiment: it sums up some thousand rows, a few milliseconds of work.

use std::time::Duration;

use headworks_policy::random::Random;
use headworks_workload::db::{Database, DbError, Session, Value};
use headworks_workload::driver::{Client, Request};
use headworks_workload::priority;

use super::site::ROWS;

/// Rows that a request reads.
const READ: i64 = 4_000;

const QUERY: &str = "SELECT SUM(v) FROM item WHERE id BETWEEN ? AND ?";

/// One connection.
pub(super) struct Reader {
    session: Box<dyn Session>,
    random: Random,
    pause: Duration,
    from: i64,
}

impl Reader {
    /// Connects, on the thread that will serve it. Between requests it pauses for `pause` on
    /// average, exponentially distributed. A client that pauses gets a processor at once
    /// afterwards, as on a separate machine.
    pub(super) fn connect(
        database: &Database,
        seed: u64,
        number: usize,
        pause: Duration,
    ) -> Result<Reader, DbError> {
        if !pause.is_zero() {
            priority::go_ahead();
        }
        let session = database.connect()?;
        Ok(Reader { session, random: Random::stream(seed, number as u64), pause, from: 0 })
    }
}

impl Client for Reader {
    fn next(&mut self) -> Request {
        self.from = self.random.within(1, ROWS - READ);
        let after = self.random.exponential(self.pause.as_secs_f64());
        Request { kind: 0, before: Duration::ZERO, after: Duration::from_secs_f64(after) }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let range = [Value::Int(self.from), Value::Int(self.from + READ - 1)];
        self.session.query(QUERY, &range).map(|_| ())
    }

    fn requests(&self) -> u64 {
        0
    }
}
