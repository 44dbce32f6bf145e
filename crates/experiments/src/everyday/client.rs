//! What clients do on an ordinary day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headworks_policy::random::Random;
use headworks_workload::db::{Connection, Database, DbError, Session, Value};
use headworks_workload::driver::{Client, Request};

use super::tables;
use crate::neighbours::site::ROWS;

/// What a client does, again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// Changes its own row in another table, then pauses.
    Bystand,
    /// Reads a row.
    Read,
    /// A transaction of four small statements. Its program thinks twice in between.
    Transaction { think_ms: u64 },
    /// A transaction on a connection that is made for it.
    Connect,
    /// One statement that needs this much processor time.
    Long { seconds: f64 },
    /// Inserts many rows at once.
    Import,
    /// Builds an index and drops it.
    Index,
    /// A transaction of three statements. Half of them change one of a few hot rows.
    Hot,
    /// Changes one row and idles in its transaction: the owner of a row lock.
    OwnRow,
    /// Changes the same row: a waiter.
    WantRow,
    /// Reads a table and idles in its transaction: the owner of a metadata lock.
    OwnTable,
    /// Alters that table.
    Alter,
    /// Reads that table while the ALTER waits.
    ReadAltered,
    /// Takes one of a few user locks and holds it over several statements.
    UserLock,
    /// Calls the server's own sleep function.
    Sleep,
}

impl Act {
    /// Whether one request takes about a second or more.
    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::Long { .. } | Self::Index)
    }
}

/// The mean pause of a bystander.
const PAUSE_MS: f64 = 2.0;

/// How long an owner idles in its transaction.
const IDLE: Duration = Duration::from_secs(3);

/// The pause of an owner after its transaction. PostgreSQL would let it have the row again at once,
/// ahead of the waiters.
const DRAIN: Duration = Duration::from_millis(250);

/// The ALTER begins this long after the owner has read. The readers follow after the same time.
const AFTER: Duration = Duration::from_millis(50);

/// How long the server's sleep function sleeps.
const SLEEP: Duration = Duration::from_secs(1);

/// The number of user locks, and each of two pauses while one is held.
const USER_LOCKS: usize = 4;
const HOLD: Duration = Duration::from_millis(1);

/// Rows of one `INSERT`.
const BATCH: usize = 500;

/// The number of hot rows.
const HOT: i64 = 10;

/// Pauses are cut into pieces of this length, so that a run ends soon.
const PIECE: Duration = Duration::from_millis(20);

/// State that the clients of one run share.
pub(super) struct Board {
    began: Instant,
    /// How often owners took their lock, and when the run ended.
    state: Mutex<(u64, Option<Instant>)>,
    changed: Condvar,
    /// When each lock was freed last, in µs since `began`. The owner's is the first, user locks
    /// follow.
    freed_us: [AtomicU64; 1 + USER_LOCKS],
    /// How late waiters finished after their lock was freed.
    late_ms: Mutex<Vec<f64>>,
    /// Requests without an answer when the run ended: the group, and how long each had waited.
    pending_ms: Mutex<Vec<(usize, f64)>>,
    /// Units of a long statement that the server computes in a second.
    pub(super) units_per_s: f64,
}

impl Board {
    pub(super) fn new(units_per_s: f64) -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
            freed_us: Default::default(),
            late_ms: Mutex::default(),
            pending_ms: Mutex::default(),
            units_per_s,
        }
    }

    /// Ends the run. Every pause and every wait for an owner ends, too.
    pub(super) fn end(&self) {
        lock(&self.state).1.get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    /// All delays of waiters, ascending.
    pub(super) fn late_ms(&self) -> Vec<f64> {
        let mut late = lock(&self.late_ms).clone();
        late.sort_by(f64::total_cmp);
        late
    }

    /// The longest wait of a group's requests that had no answer when the run ended.
    pub(super) fn pending_ms(&self, group: usize) -> f64 {
        let pending = lock(&self.pending_ms);
        pending.iter().filter(|each| each.0 == group).map(|each| each.1).fold(0.0, f64::max)
    }

    fn is_over(&self) -> bool {
        lock(&self.state).1.is_some()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn taken(&self) {
        lock(&self.state).0 += 1;
        self.changed.notify_all();
    }

    fn freed(&self, which: usize) {
        self.freed_us[which].store(self.now_us(), Ordering::Relaxed);
    }

    /// Records the delay of a waiter that has finished. It counts only if the lock was freed after
    /// the waiter began.
    fn done(&self, which: usize, since_us: u64) {
        let freed_us = self.freed_us[which].load(Ordering::Relaxed);
        if freed_us > since_us && !self.is_over() {
            lock(&self.late_ms).push(self.now_us().saturating_sub(freed_us) as f64 / 1e3);
        }
    }

    /// Waits until the owner takes its lock again.
    fn wait(&self, seen: &mut u64) {
        let mut state = lock(&self.state);
        while state.0 <= *seen && state.1.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *seen = state.0;
    }

    fn pause(&self, length: Duration) {
        let begun = Instant::now();
        while let Some(left) = length.checked_sub(begun.elapsed()).filter(|_| !self.is_over()) {
            sleep(left.min(PIECE));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one client is told to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) act: Act,
    /// The group's number, and the client's number within the group.
    pub(super) group: usize,
    pub(super) number: usize,
    /// It works between these times since the begin.
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// One client.
pub(super) struct Guest<'a> {
    place: Place,
    board: &'a Board,
    database: &'a Database,
    connection: Connection,
    random: Random,
    began: Option<Instant>,
    seen: u64,
    tries: u64,
}

impl<'a> Guest<'a> {
    pub(super) fn connect(
        place: Place,
        database: &'a Database,
        board: &'a Board,
        random: Random,
    ) -> Result<Self, DbError> {
        let connection = Connection::open(database)?;
        Ok(Self { place, board, database, connection, random, began: None, seen: 0, tries: 0 })
    }

    fn row(&mut self) -> [Value; 1] {
        [Value::Int(self.random.within(1, ROWS))]
    }

    fn act(&mut self) -> Result<(), DbError> {
        let board = self.board;
        let since_us = board.now_us();
        let own = self.place.number as i64 + 1;
        match self.place.act {
            Act::Bystand => self.connection.change(tables::BYSTAND, &[Value::Int(own)]).map(drop),
            Act::Read => {
                let row = self.row();
                self.connection.query(tables::READ, &row).map(drop)
            }
            Act::Transaction { think_ms } => {
                let rows = [(); 3].map(|()| self.row());
                let think = Duration::from_millis(think_ms);
                self.connection.attempt(|session| transaction(session, &rows, board, think))
            }
            Act::Connect => {
                let rows = [(); 3].map(|()| self.row());
                let mut session = self.database.connect()?;
                transaction(session.as_mut(), &rows, board, Duration::ZERO)
            }
            Act::Long { seconds } => {
                // The first one is shorter, so that they do not all end at the same time.
                let part = if self.tries == 1 { self.random.unit() } else { 1.0 };
                let units = board.units_per_s * seconds * part;
                self.connection
                    .query(&tables::long(self.connection.dialect(), units), &[])
                    .map(drop)
            }
            Act::Import => self.connection.run(&tables::batch(&mut self.random, BATCH)),
            Act::Index => {
                let [build, drop] = tables::index(self.connection.dialect());
                self.connection.run(build)?;
                self.connection.run(drop)
            }
            Act::Hot => {
                let mut rows = [(); 3].map(|()| self.row());
                if self.random.one_in(2) {
                    rows[0] = [Value::Int(self.random.within(1, HOT))];
                }
                self.connection.attempt(|session| hot(session, &rows))
            }
            Act::OwnRow => self.own(tables::WANT_ROW),
            Act::OwnTable => self.own(tables::READ_ALTERED),
            Act::WantRow => {
                board.wait(&mut self.seen);
                let since_us = board.now_us();
                self.connection.attempt(|session| {
                    session.begin()?;
                    session.change(tables::WANT_ROW, &[])?;
                    session.commit()
                })?;
                board.done(0, since_us);
                Ok(())
            }
            Act::Alter | Act::ReadAltered => {
                let alters = self.place.act == Act::Alter;
                board.wait(&mut self.seen);
                board.pause(if alters { AFTER } else { 2 * AFTER });
                let since_us = board.now_us();
                self.connection.run(if alters { tables::ALTER } else { tables::READ_ALTERED })?;
                board.done(0, since_us);
                Ok(())
            }
            Act::UserLock => {
                let which = self.place.number % USER_LOCKS;
                let [take, free] = tables::user_lock(self.connection.dialect(), which);
                let row = self.row();
                self.connection.run(&take)?;
                board.done(1 + which, since_us);
                for _ in 0..2 {
                    self.connection.query(tables::READ, &row)?;
                    sleep(HOLD);
                }
                board.freed(1 + which);
                self.connection.run(&free)
            }
            Act::Sleep => {
                self.connection.run(&tables::sleep(self.connection.dialect(), SLEEP.as_secs()))?;
                let late_us =
                    board.now_us().saturating_sub(since_us) as f64 - SLEEP.as_secs_f64() * 1e6;
                lock(&board.late_ms).push(late_us / 1e3);
                Ok(())
            }
        }
    }

    /// Takes a lock by a statement, idles in the transaction, and commits.
    fn own(&mut self, statement: &str) -> Result<(), DbError> {
        let board = self.board;
        self.connection.attempt(|session| {
            session.begin()?;
            session.run(statement)?;
            board.taken();
            board.pause(IDLE);
            board.freed(0);
            session.commit()
        })
    }
}

fn transaction(
    session: &mut dyn Session,
    rows: &[[Value; 1]; 3],
    board: &Board,
    think: Duration,
) -> Result<(), DbError> {
    session.begin()?;
    session.query(tables::READ, &rows[0])?;
    session.query(tables::READ, &rows[1])?;
    board.pause(think);
    session.change(tables::CHANGE, &rows[2])?;
    board.pause(think);
    session.query(tables::READ, &rows[2])?;
    session.commit()
}

fn hot(session: &mut dyn Session, rows: &[[Value; 1]; 3]) -> Result<(), DbError> {
    session.begin()?;
    session.change(tables::CHANGE, &rows[0])?;
    session.query(tables::READ, &rows[1])?;
    session.query(tables::READ, &rows[2])?;
    session.commit()
}

impl Client for Guest<'_> {
    fn next(&mut self) -> Request {
        self.tries += 1;
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed();
        let before = if elapsed >= self.place.until {
            Duration::from_secs(86_400)
        } else {
            self.place.from.saturating_sub(elapsed)
        };
        let after = match self.place.act {
            Act::Bystand => Duration::from_secs_f64(self.random.exponential(PAUSE_MS) / 1e3),
            Act::OwnRow | Act::OwnTable => DRAIN,
            _ => Duration::ZERO,
        };
        Request { kind: self.place.group, before, after }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let begun = Instant::now();
        let result = self.act();
        let ended = lock(&self.board.state).1;
        if let Some(waited) = ended.and_then(|ended| ended.checked_duration_since(begun)) {
            let waited = (self.place.group, waited.as_secs_f64() * 1e3);
            lock(&self.board.pending_ms).push(waited);
        }
        result
    }

    fn requests(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waited_for_a_lock_is_late() {
        let board = Board::new(1.0);
        board.done(0, 0);
        assert!(board.late_ms().is_empty(), "no client has freed it");
        let before = board.now_us();
        sleep(Duration::from_millis(2));
        board.freed(0);
        board.done(0, before);
        board.done(1, before);
        sleep(Duration::from_millis(1));
        board.done(0, board.now_us());
        assert_eq!(board.late_ms().len(), 1);
        board.end();
        board.done(0, before);
        assert_eq!(board.late_ms().len(), 1, "what follows the end is no delay");
    }

    #[test]
    fn waiters_go_when_the_owner_has_its_lock_or_the_run_is_over() {
        let board = Board::new(1.0);
        board.taken();
        let mut seen = 0;
        board.wait(&mut seen);
        assert_eq!(seen, 1);
        board.end();
        board.wait(&mut seen);
        board.pause(Duration::from_secs(60));
    }
}
