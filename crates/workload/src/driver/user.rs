//! One user's thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::recorder::{histogram, lock, microseconds};
use super::report::Answer;
use super::{Arrivals, Client, Schedule, Shared};
use crate::db::{DbError, ErrorKind};

/// A pause is cut into pieces, so that a stopped run ends soon.
const PAUSE_PIECE: Duration = Duration::from_millis(50);

/// The pause before a lost connection is tried again. A restarting server must not be flooded.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Users wait here until all are connected.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    connected: usize,
    began: Option<Instant>,
    closed: bool,
    error: Option<DbError>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the start; `None` if there will be none.
    fn wait(&self) -> Option<Instant> {
        let mut state = self.state();
        state.connected += 1;
        loop {
            if state.closed {
                return None;
            }
            if let Some(began) = state.began {
                return Some(began);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn connected(&self) -> usize {
        self.state().connected
    }

    pub(super) fn open(&self) -> Instant {
        let began = *self.state().began.get_or_insert_with(Instant::now);
        self.changed.notify_all();
        began
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// A user could not connect: there will be no start. The first reason is kept.
    pub(super) fn fail(&self, error: DbError) {
        self.state().error.get_or_insert(error);
        self.close();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().error.is_some()
    }

    pub(super) fn error(&self) -> Option<DbError> {
        self.state().error.clone()
    }
}

/// One user's results in the window.
pub(super) struct Served {
    pub(super) latencies: Histogram<u64>,
    /// Exact, for the coefficient of variation: in s and s².
    pub(super) sum_s: f64,
    pub(super) sum_of_squares_s2: f64,
    pub(super) retries: u64,
    pub(super) failures: u64,
    /// Requests due in the window and not answered by its end.
    pub(super) overdue: u64,
    pub(super) notes: Vec<(&'static str, u64)>,
    /// Requests to the database in the window.
    pub(super) requests: u64,
    /// If asked for.
    pub(super) trace: Vec<Answer>,
}

pub(super) struct User<'a> {
    number: usize,
    shared: &'a Shared,
    served: Served,
}

impl<'a> User<'a> {
    pub(super) fn new(number: usize, shared: &'a Shared) -> Self {
        let served = Served {
            latencies: histogram(2),
            sum_s: 0.0,
            sum_of_squares_s2: 0.0,
            retries: 0,
            failures: 0,
            overdue: 0,
            notes: Vec::new(),
            requests: 0,
            trace: Vec::new(),
        };
        Self { number, shared, served }
    }

    pub(super) fn finish(self) -> Served {
        self.served
    }

    /// Serves requests from the start to the end of the window.
    pub(super) fn serve(&mut self, mut client: impl Client) {
        if let Some(began) = self.shared.gate.wait() {
            self.requests(&mut client, began);
        }
        self.served.notes = client.notes();
    }

    fn requests(&mut self, client: &mut impl Client, began: Instant) {
        let options = &self.shared.options;
        let end = began + options.warm_up + options.window;
        let mut schedule = Schedule::new(options, self.number);
        loop {
            let due = match options.arrivals {
                Arrivals::Queued { .. } => {
                    self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).due()
                }
                _ => schedule.due(),
            };
            let due = due.map(|due| began + due);
            if due.unwrap_or_else(Instant::now) >= end || self.shared.stop.is_stopped() {
                return;
            }
            if Instant::now() >= end {
                // So late that the window is over: counts this request, and all that were due
                // before the end.
                let in_window = due.is_some_and(|due| due >= began + options.warm_up);
                self.served.overdue += u64::from(in_window);
                continue;
            }
            let request = client.next();
            let intended = match due {
                Some(due) => {
                    self.pause_until(due);
                    due
                }
                None => {
                    self.pause_until((Instant::now() + request.before).min(end));
                    Instant::now()
                }
            };
            if self.shared.stop.is_stopped() || (due.is_none() && intended >= end) {
                return;
            }
            let answered = self.one_request(client, request.kind, intended, began, end);
            let in_window = intended >= began + options.warm_up;
            if due.is_some() && in_window && !answered {
                self.served.overdue += 1;
            }
            if due.is_none() {
                self.pause_until((Instant::now() + request.after).min(end));
            }
        }
    }

    /// Tries a request until it is served, refused for good, or the run is over. Returns whether it
    /// ended in the window, with success or not.
    fn one_request(
        &mut self,
        client: &mut impl Client,
        kind: usize,
        intended: Instant,
        began: Instant,
        end: Instant,
    ) -> bool {
        let options = &self.shared.options;
        let shard = &self.shared.shards[self.number % self.shared.shards.len()];
        let mut tries = 0;
        loop {
            let requests = client.requests();
            let result = client.attempt();
            let now = Instant::now();
            let at = now.saturating_duration_since(began);
            let in_window = at >= options.warm_up && now < end;
            let requests = client.requests() - requests;
            if in_window {
                self.served.requests += requests;
            }
            let error = match result {
                Ok(()) => {
                    let latency = now.saturating_duration_since(intended);
                    if now < end {
                        lock(shard).answer(kind, at, in_window.then_some(latency));
                    }
                    if in_window {
                        self.count(latency);
                        if options.trace {
                            let at_ms = at.saturating_sub(options.warm_up).as_millis();
                            self.served.trace.push(Answer {
                                at_ms: u32::try_from(at_ms).unwrap_or(u32::MAX),
                                latency_us: u32::try_from(latency.as_micros()).unwrap_or(u32::MAX),
                                requests: u32::try_from(requests).unwrap_or(u32::MAX),
                            });
                        }
                    }
                    return now < end;
                }
                Err(error) => error,
            };
            let over = now >= end || self.shared.stop.is_stopped();
            if !error.kind.is_retried() || tries >= options.retries_max {
                if in_window {
                    self.served.failures += 1;
                    lock(shard).failures[error.kind.index()] += 1;
                }
                // Also during the warm-up: a workload that cannot work should report why.
                lock(shard).first_failure.get_or_insert(error.message);
                return !over;
            }
            if in_window {
                self.served.retries += 1;
                lock(shard).retries[error.kind.index()] += 1;
            }
            if over {
                return false;
            }
            if error.kind == ErrorKind::Connection {
                self.pause_until((now + RECONNECT_PAUSE).min(end));
            }
            tries += 1;
        }
    }

    fn count(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        self.served.latencies.saturating_record(microseconds(latency));
        self.served.sum_s += seconds;
        self.served.sum_of_squares_s2 += seconds * seconds;
    }

    fn pause_until(&self, moment: Instant) {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.stop.is_stopped() {
                return;
            }
            sleep(left.min(PAUSE_PIECE));
        }
    }
}
