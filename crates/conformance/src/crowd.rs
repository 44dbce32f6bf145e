//! Background load: clients that keep every permit of a server taken, so that others are held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::asker::Asker;
use crate::database::Database;

/// Interval at which a pausing client checks whether to go on.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    resting: AtomicBool,
    requests: AtomicU64,
}

/// See the module. Leaves when dropped.
pub struct Crowd {
    shared: Arc<Shared>,
    users: Vec<JoinHandle<Result<()>>>,
}

impl Crowd {
    /// Gathers `users` users, who begin at once.
    pub fn gather(database: Database, port: u16, users: usize) -> Result<Crowd> {
        let mut crowd = Crowd { shared: Arc::default(), users: Vec::new() };
        for number in 0..users {
            let mut asker = Asker::connect(database, port, &format!("crowd-{number}"))
                .context("the background load cannot connect")?;
            let shared = Arc::clone(&crowd.shared);
            crowd.users.push(spawn(move || {
                while !shared.ended.load(Ordering::Relaxed) {
                    if shared.resting.load(Ordering::Relaxed) {
                        sleep(POLL_INTERVAL);
                        continue;
                    }
                    asker.work()?;
                    shared.requests.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        Ok(crowd)
    }

    /// Lets them rest, or work again. Who is at work finishes that first.
    pub fn rest(&self, resting: bool) {
        self.shared.resting.store(resting, Ordering::Relaxed);
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Leaves; an error that a user got.
    pub fn leave(mut self) -> Result<()> {
        self.shared.ended.store(true, Ordering::Relaxed);
        for user in self.users.drain(..) {
            match user.join() {
                Ok(done) => done.context("a client of the background load failed")?,
                Err(_) => bail!("a client of the background load panicked"),
            }
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for user in self.users.drain(..) {
            let _ = user.join();
        }
    }
}
