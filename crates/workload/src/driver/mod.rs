//! Any number of users, in a closed or an open loop.
//!
//! **Closed**: each user sends its next request when the last one is answered. The offered load
//! falls when the server slows down, as with a fixed set of connections that are always busy.
//!
//! **Open**: requests arrive at a fixed rate whether or not earlier ones are answered. A late user
//! works off its backlog without pause. Each latency counts from the moment the request *was due*.
//! So a stall of the server shows in all the requests that it delayed (no coordinated omission).
//! Requests due in the window but not answered by its end count as overdue: latencies without them
//! would look too good.
//!
//! Each user is a thread with a small stack. A thousand of them cost no more than the kernel's
//! scheduling, and no runtime of ours stands between a user and its socket.

mod recorder;
mod report;
mod user;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::db::{DbError, ErrorKind};
use crate::random::Random;
use recorder::Shard;
use user::{Gate, User};

pub use report::{Answer, KindReport, LatencyReport, Report, UserReport};

/// The stack of a user's thread. It is address space, of which only used pages take memory; drivers
/// need some 50 KiB, more if unoptimised.
const STACK_BYTES: usize = 512 << 10;

/// Users share a set of histograms, so that a thousand users neither wait for each other nor need a
/// thousand sets.
const SHARDS: usize = 16;

/// How often the observer is called.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What a user does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its kind: an index into the names given to [`run`].
    pub kind: usize,
    /// A pause before it (keying), not part of its latency. Ignored in an open loop.
    pub before: Duration,
    /// A pause after it (thinking). Ignored in an open loop.
    pub after: Duration,
}

/// One user of a workload.
pub trait Client: Send {
    /// Makes the next request.
    fn next(&mut self) -> Request;

    /// Tries the current request once. After an error that is [retried](ErrorKind::is_retried) the
    /// client can try again.
    fn attempt(&mut self) -> Result<(), DbError>;

    /// Requests that the database has received, if one of [`Client::next`] is several for it (the
    /// statements of a transaction).
    fn requests(&self) -> u64 {
        0
    }

    /// Other counts of the workload, summed up over users.
    fn notes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "loop")]
pub enum Arrivals {
    /// When the last one is answered.
    Closed,
    /// At regular intervals, `rate_per_s` requests per second over all users.
    Even {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// At exponentially distributed intervals (a Poisson process), on average `rate_per_s` per
    /// second over all users.
    Poisson {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// A Poisson process with one queue for all users. The first free user takes a request.
    Queued {
        /// Requests per second.
        rate_per_s: f64,
    },
}

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Users, 1 to 10,000.
    pub users: usize,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Before the window: served, not counted.
    pub warm_up: Duration,
    /// How long answers are counted.
    pub window: Duration,
    /// How often a request is tried again before it counts as failed.
    pub retries_max: u32,
    /// The seed of Poisson arrivals.
    pub seed: u64,
    /// Keep every answer of the window, to analyse parts of it: 12 bytes each.
    #[serde(default)]
    pub trace: bool,
}

impl Default for RunOptions {
    /// 16 users in a closed loop, 5 s and 30 s, 100 retries.
    fn default() -> Self {
        Self {
            users: 16,
            arrivals: Arrivals::Closed,
            warm_up: Duration::from_secs(5),
            window: Duration::from_secs(30),
            retries_max: 100,
            seed: 1,
            trace: false,
        }
    }
}

impl RunOptions {
    fn validate(&self) -> Result<(), DbError> {
        if !(1..=10_000).contains(&self.users) {
            return Err(DbError::usage("the number of users must be between 1 and 10,000"));
        }
        if self.window.is_zero() || self.window > Duration::from_secs(7 * 86_400) {
            return Err(DbError::usage("the window must be above zero and at most a week"));
        }
        if let Arrivals::Even { rate_per_s }
        | Arrivals::Poisson { rate_per_s }
        | Arrivals::Queued { rate_per_s } = self.arrivals
            && !(0.001..=10_000_000.0).contains(&rate_per_s)
        {
            return Err(DbError::usage("the rate must be between 0.001 and 10,000,000 per second"));
        }
        Ok(())
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Users connected.
    pub connected: usize,
    /// Since all were connected; zero before.
    pub elapsed: Duration,
    /// Warm-up and window.
    pub total: Duration,
    /// Requests answered, warm-up included.
    pub answered: u64,
}

/// Ends a run early, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the run: users finish their current request.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all users of one run share.
pub(crate) struct Shared {
    options: RunOptions,
    gate: Gate,
    stop: Stop,
    /// For [`Arrivals::Queued`].
    queue: Mutex<Schedule>,
    shards: Vec<Mutex<Shard>>,
}

/// Runs a workload. Connects every user with `connect` (called with its number, in its own thread),
/// starts them all at the same moment, and reports the results. `kinds` names the kinds of
/// requests. `observer` gets the progress ten times a second.
///
/// An error means that the run could not begin; errors during the run are counted.
pub fn run<C: Client>(
    options: &RunOptions,
    kinds: &[&str],
    connect: &(dyn Fn(usize) -> Result<C, DbError> + Sync),
    stop: &Stop,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Report, DbError> {
    options.validate()?;
    let shards = (0..SHARDS.min(options.users)).map(|_| Mutex::new(Shard::new(kinds.len())));
    let shared = Shared {
        options: *options,
        gate: Gate::default(),
        stop: stop.clone(),
        queue: Mutex::new(Schedule::new(options, 0)),
        shards: shards.collect(),
    };
    let users = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(options.users);
        for number in 0..options.users {
            let shared = &shared;
            let spawned = thread::Builder::new()
                .name(format!("user-{number}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || {
                    let mut user = User::new(number, shared);
                    match connect(number) {
                        Ok(client) => user.serve(client),
                        Err(error) => shared.gate.fail(error),
                    }
                    user.finish()
                });
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    shared.gate.fail(DbError::usage(format!(
                        "cannot start thread {number} of {}: {error}",
                        options.users
                    )));
                    break;
                }
            }
        }
        conduct(&shared, observer);
        threads
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .map_err(|_| DbError::new(ErrorKind::Usage, "a user's thread panicked"))
            })
            .collect::<Result<Vec<_>, _>>()
    });
    if let Some(error) = shared.gate.error() {
        return Err(error);
    }
    let shards: Vec<Shard> = shared
        .shards
        .into_iter()
        .map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect();
    Ok(Report::new(options, kinds, &shards, &users?))
}

/// Starts the users once all are connected, and calls the observer until the end.
fn conduct(shared: &Shared, observer: &mut dyn FnMut(&Progress)) {
    let options = &shared.options;
    let total = options.warm_up + options.window;
    let mut began = None;
    loop {
        let connected = shared.gate.connected();
        if shared.gate.has_failed() || shared.stop.is_stopped() {
            shared.gate.close();
            return;
        }
        if began.is_none() && connected == options.users {
            began = Some(shared.gate.open());
        }
        let elapsed = began.map_or(Duration::ZERO, |began: Instant| began.elapsed());
        observer(&Progress {
            connected,
            elapsed: elapsed.min(total),
            total,
            answered: shared.shards.iter().map(|shard| recorder::lock(shard).answered).sum(),
        });
        if elapsed >= total {
            return;
        }
        thread::sleep(if began.is_none() {
            Duration::from_millis(5)
        } else {
            TELL_EVERY.min(total - elapsed)
        });
    }
}

/// The times at which a user's requests are due, since the beginning.
pub(crate) struct Schedule {
    arrivals: Arrivals,
    random: Random,
    users: usize,
    next_s: f64,
}

impl Schedule {
    /// The schedule of user `number`, or of the queue of all users. Evenly arriving requests go to
    /// the users in turn.
    pub(crate) fn new(options: &RunOptions, number: usize) -> Self {
        let mut schedule = Self {
            arrivals: options.arrivals,
            random: Random::stream(options.seed, (1 << 60) + number as u64),
            users: options.users,
            next_s: 0.0,
        };
        match options.arrivals {
            Arrivals::Closed => {}
            Arrivals::Even { rate_per_s } => schedule.next_s = number as f64 / rate_per_s,
            Arrivals::Queued { .. } => {
                schedule.users = 1;
                schedule.due();
            }
            Arrivals::Poisson { .. } => {
                schedule.due();
            }
        }
        schedule
    }

    /// When the next request is due; `None` in a closed loop.
    pub(crate) fn due(&mut self) -> Option<Duration> {
        let due_s = self.next_s;
        self.next_s += match self.arrivals {
            Arrivals::Closed => return None,
            Arrivals::Even { rate_per_s } => self.users as f64 / rate_per_s,
            Arrivals::Poisson { rate_per_s } | Arrivals::Queued { rate_per_s } => {
                self.random.exponential(self.users as f64 / rate_per_s)
            }
        };
        Some(Duration::from_secs_f64(due_s))
    }
}

#[cfg(test)]
mod tests;
