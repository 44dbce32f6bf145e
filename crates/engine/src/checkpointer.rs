//! Background checkpoints, so that the log does not grow for ever.

use crate::engine::Shared;
use headworks_bufferpool::Wal;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two checks of the log's length.
const EVERY: Duration = Duration::from_millis(200);

/// A thread that takes checkpoints; it ends when this is dropped.
pub(crate) struct Checkpointer {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Takes a checkpoint whenever the log has grown by this many bytes since the last one, and
    /// beyond what must be kept. If no thread can be started, the log grows until a caller takes
    /// one.
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
    // The log's end at the last attempt. A checkpoint may fail, or free nothing because pages lack
    // old changes; it is not tried again at once.
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
