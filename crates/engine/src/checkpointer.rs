//! Checkpoints that nobody asks for, so that the log does not grow for ever.

use crate::engine::Shared;
use headworks_bufferpool::Wal;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at the log's length.
const EVERY: Duration = Duration::from_millis(200);

/// A thread that takes checkpoints; it ends when this is dropped.
pub(crate) struct Checkpointer {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Takes one whenever so many bytes of log have come since the last, and since what the log is
    /// kept for. If the system gives no thread, the log grows until somebody takes one.
    pub(crate) fn start(shared: &Arc<Shared>, log_bytes: u64) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let start = || {
            let (shared, stop) = (Arc::clone(shared), Arc::clone(&stop));
            let named = std::thread::Builder::new().name("checkpoints".into());
            named.spawn(move || run(&shared, log_bytes, &stop)).ok()
        };
        let thread = if log_bytes == u64::MAX { None } else { start() };
        Self { stop, thread }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, log_bytes: u64, (stop, told): &(Mutex<bool>, Condvar)) {
    // Where the log ended when a checkpoint was tried last: one that fails, or gives nothing up
    // because pages lack old changes, is not tried again at once.
    let mut tried = 0;
    let mut stopped = stop.lock();
    while !*stopped {
        told.wait_for(&mut stopped, EVERY);
        let end = shared.store.log.end_lsn().0;
        let kept_from = *shared.kept_from.lock();
        if *stopped || end.saturating_sub(kept_from.max(tried)) < log_bytes {
            continue;
        }
        tried = end;
        // A caller that stops this thread waits for the checkpoint, not for the lock.
        parking_lot::MutexGuard::unlocked(&mut stopped, || {
            if let Err(error) = shared.checkpoint() {
                *shared.background_error.lock() = Some(error);
            }
        });
    }
}
