//! What the threads of a pool do.

use crate::core::Core;
use crate::error::PoolError;
use crate::ids::Lsn;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A round: the strategy's own; then old pages of the mixed region, if the log has grown long.
pub(crate) fn round(core: &Core, at: usize) -> Result<(), PoolError> {
    let instance = &core.instances[at];
    crate::stats::bump(&instance.counters.rounds);
    let round = core.strategies[at].round(core, instance);
    let end = core.wal.end_lsn();
    let oldest = instance.flush_list.lock().first_key_value().map(|(key, _)| key.0);
    if let Some(oldest) = oldest
        && end.0.saturating_sub(oldest.0) > core.config.checkpoint_age_bytes
    {
        let limit = Lsn(end.0 - core.config.checkpoint_age_bytes / 2);
        // Even if a page of the round could not be written: the log must not grow only because of
        // it.
        return round.and(core.flush_older(instance, limit, core.config.flush_batch));
    }
    round
}

pub(crate) fn run_flusher(core: &Core, at: usize) {
    let instance = &core.instances[at];
    let mut began = Instant::now();
    while !core.stop.load(Ordering::Acquire) {
        // Measured from start to start: the next round follows a long one at once.
        instance.await_round(core.config.flush_interval.saturating_sub(began.elapsed()));
        began = Instant::now();
        if core.stop.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = round(core, at) {
            *instance.last_error.lock() = Some(error);
            // A storage that fails at once must not make this thread spin.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) fn run_assistant(core: &Core, at: usize) {
    while !core.stop.load(Ordering::Acquire) {
        if !core.strategies[at].assist(core, &core.instances[at]) {
            return;
        }
    }
}
